//! The public API of the library: a database is its shards and its catalog.

mod attach;
mod catalog;
mod database;
mod flushing;
mod import;
mod keeper;
mod layout;
mod log_limit;
mod opening;
mod options;
mod policies;
mod recording;
mod replaying;
mod report;
mod rows;
mod shard;
mod stream;
mod types;

#[cfg(test)]
mod tests;

pub use attach::{AttachProgress, Attached, AttachedFile, Attachment, OnUnknown};
pub use catalog::Catalog;
pub use database::{Database, Options};
pub use import::{Import, ImportProgress, Imported};
pub use options::AlteredTable;
pub use recording::RecordingSummary;
pub use replaying::LeftOut;
pub use report::{
    CacheReport, CommitlogReport, DamageReport, IntakeReport, LargeDataReport, RateReport,
    RowCacheReport, TableReport,
};
pub use shard::Shard;
pub use stream::BatchStream;
