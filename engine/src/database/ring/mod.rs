//! The cluster of which a database is a node.
//!
//! `nodes.rs` says who owns what and how others are asked, `calls.rs` sends to them what is theirs.

mod calls;
mod nodes;

pub use nodes::{NodeId, Peers, Ring, Taking};
