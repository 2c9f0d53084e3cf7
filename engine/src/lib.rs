//! The Tidegate storage engine: wide partitions, one shard per core, policies as Wasm components.
//!
//! Modules stand bottom-up, in reading order; a module names only modules above it in this list.
//! `ARCHITECTURE.md` has the map, the floors and the flows.

pub mod cache;
pub mod clock;
pub mod commitlog;
pub mod config;
pub mod disk;
pub mod error;
pub mod mutation;
pub mod plugin;
pub mod policy;
pub mod schema;
