//! The keyspace `system`: what the engine knows about itself.

mod columns;
mod compaction;
mod files;
mod fragments;
mod hot;
mod io;
mod levels;
mod memory;
mod reads;
mod system;
mod watch;

pub use system::{SYSTEM_KEYSPACE, SystemSchema};
