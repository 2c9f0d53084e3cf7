//! A database behind a service: the shell's statements go there by Flight SQL, and rows come back.
//!
//! | file | holds |
//! |---|---|
//! | `backend` | what a shell runs statements on: a database of this process, or a service |
//! | `client` | the connection to a service, and its calls |
//! | `place` | where a service is, and who calls |
//! | `wire` | what service and shell tell each other beside Flight SQL |
//!
//! Invariant: a shell shows of a statement what it would show on a database of its own, except for
//! what `docs/remote-shell.md` lists.

mod backend;
mod client;
mod place;
pub(crate) mod wire;

pub(crate) use backend::Backend;
pub(crate) use client::Remote;
pub(crate) use place::{Identity, Place};
