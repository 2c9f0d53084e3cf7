//! The nodes of a cluster: the file that names them, and how one asks another.
//!
//! | file | holds |
//! |---|---|
//! | `ring_file` | which node has which tokens, and the key that nodes know each other by |
//! | `digest` | what must be alike on two nodes before one answers the other |
//! | `wire` | reads and writes as messages |
//! | `error` | errors of the engine on the wire |
//! | `peers` | calls of other nodes |
//! | `definition` | statements that all nodes run, or none |
//!
//! Not here: who answers (`flight/node`), and how queries are divided (`query/distributed`).
//! Invariant: a node answers none whose ring or table differs from its own.

mod definition;
pub(crate) mod digest;
pub(crate) mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod peers;
mod ring_file;
pub(crate) mod wire;

pub(crate) use peers::{Cluster, uri_of};
pub use ring_file::RingFile;
