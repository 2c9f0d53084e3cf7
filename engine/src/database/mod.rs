//! The public API of the library: a database is its shards and its catalog.

mod attach;
mod batch_log;
mod calls;
mod catalog;
mod compaction;
mod database;
mod definition;
mod import;
mod io;
mod keeper;
mod layout;
mod memory;
mod policies;
mod recording;
mod report;
mod ring;
mod rows;
mod shard;
mod snapshot;

#[cfg(test)]
mod tests;

pub use attach::{AttachProgress, Attached, AttachedFile, Attachment, OnUnknown};
pub use calls::{BatchStream, Deciding, Getting, GettingMany, Scan, Under, WriteBatch, Writing};
pub use catalog::{Catalog, DEFAULT_KEYSPACE};
pub use compaction::{CompactionReport, SstableReport};
pub use database::{Database, Options};
pub use definition::{AlteredTable, ColumnChange, NewColumn};
pub use import::{Import, ImportProgress, Imported};
pub use memory::{MemoryPool, MemoryReport};
pub use report::{
    AdmissionReport, CacheReport, CommitlogReport, DamageReport, HotReport, IoReport,
    LargeDataReport, RateReport, ReadReport, RowCacheReport, TableReport,
};
pub use ring::{NodeId, Peers, Ring, Taking};
pub use shard::recording::RecordingSummary;
pub use shard::{CompactionEnd, CompactionRecord, ConditionalWrite, Decision, LeftOut, Shard};
pub use snapshot::Snapshot;
pub use snapshot::export::Export;
