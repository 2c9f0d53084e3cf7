//! The public API of the library: a database is its shards and its catalog.

mod attach;
mod canary;
mod catalog;
mod component;
mod database;
mod flushing;
mod import;
mod layout;
mod log_limit;
mod opening;
mod options;
mod policies;
mod policy_change;
mod policy_shard;
mod recording;
mod replay;
mod replaying;
mod report;
mod rows;
mod shard;
mod stream;
mod types;
mod worlds;

#[cfg(test)]
mod tests;

pub use attach::{AttachProgress, Attached, AttachedFile, Attachment, OnUnknown};
pub use catalog::Catalog;
pub use database::{Database, Options};
pub use import::{Import, ImportProgress, Imported};
pub use options::AlteredTable;
pub use policy_change::RolledBack;
pub use recording::RecordingSummary;
pub use replaying::LeftOut;
pub use report::{
    CacheReport, CommitlogReport, DamageReport, IntakeReport, LargeDataReport, PolicyExit,
    PolicyInfo, PolicyReport, RateReport, RowCacheReport, ShadowReport, TableReport,
};
pub use shard::Shard;
pub use stream::BatchStream;
