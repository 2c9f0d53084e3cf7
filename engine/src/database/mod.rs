//! The public API of the library: a database is its shards and its catalog.

mod catalog;
mod database;
mod layout;
mod policies;
mod recording;
mod replay;
mod report;
mod shard;
mod stream;
mod worlds;

#[cfg(test)]
mod tests;

pub use catalog::Catalog;
pub use database::{Database, Options};
pub use recording::RecordingSummary;
pub use report::{CacheReport, PolicyInfo, PolicyReport, RateReport, TableReport};
pub use shard::Shard;
pub use stream::BatchStream;
