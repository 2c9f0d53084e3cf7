//! Who calls: passwords, tokens and certificates, before any call reaches the service.
//!
//! | file | holds |
//! |---|---|
//! | `guard` | each call of Flight, behind the question who it is |
//! | `identity` | who that is |
//! | `known_token` | a token that was told on a connection |
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
mod known_token;
pub(super) mod tls;

pub(super) use guard::{Guard, Rules};
pub(super) use identity::Identity;
pub(super) use known_token::KnownToken;
