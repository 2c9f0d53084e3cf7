//! Who calls: passwords, tokens and certificates, before any call reaches the service.
//!
//! | file | holds |
//! |---|---|
//! | `guard` | each call of Flight, behind the question who it is |
//! | `identity` | who that is |
//! | `attempts` | how many wrong passwords a peer may send |
//! | `tls` | certificates of the service, and the handshake |
//! | `certificate` | the common name of a client's certificate |
//!
//! Invariant: a call that reaches the service carries an [`Identity`]. Where a role may log in, it
//! is that of a role which may log in at this moment.

mod attempts;
mod certificate;
mod guard;
mod identity;
pub(super) mod tls;

pub(super) use guard::{Guard, Rules};
pub(super) use identity::Identity;
