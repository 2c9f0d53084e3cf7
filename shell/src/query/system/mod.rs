//! The keyspace `system`: what the engine knows about itself.

pub mod access;
mod columns;
mod compaction;
mod files;
mod fragments;
mod hot;
mod io;
mod levels;
mod memory;
mod provider;
mod system;
mod under_way;
mod views;
mod watch;

pub use provider::{SYSTEM_KEYSPACE, SystemSchema, SystemSource};
