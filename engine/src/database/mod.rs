//! The public API of the library: a database is its shards and its catalog.

mod catalog;
mod database;
mod layout;
mod policies;
mod report;
mod shard;
mod stream;
mod types;

#[cfg(test)]
mod tests;

pub use catalog::Catalog;
pub use database::{Database, Options};
pub use report::{CacheReport, PolicyInfo, PolicyReport, TableReport};
pub use shard::Shard;
pub use stream::BatchStream;
