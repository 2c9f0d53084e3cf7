//! The public API of the library: a database is its shards and its catalog.

mod canary;
mod catalog;
mod component;
mod database;
mod layout;
mod policies;
mod policy_change;
mod policy_shard;
mod report;
mod shard;
mod stream;

#[cfg(test)]
mod tests;

pub use catalog::Catalog;
pub use database::{Database, Options};
pub use policy_change::RolledBack;
pub use report::{CacheReport, PolicyExit, PolicyInfo, PolicyReport, ShadowReport, TableReport};
pub use shard::Shard;
pub use stream::BatchStream;
