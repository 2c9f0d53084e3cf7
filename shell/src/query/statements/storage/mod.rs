//! Statements about what is on the disk: compactions, snapshots, and shares of the disk.

pub mod compact;
pub mod io;
pub mod snapshot;
