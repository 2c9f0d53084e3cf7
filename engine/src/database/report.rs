//! Reports of the engine about itself: one struct a row. Not here: policies (`governance`).

use crate::admission::rate::HotPartition;
use crate::admission::{ClassStatus, ReadStatus};
use crate::cache::RowCacheStats;
use crate::io::{Class, ClassSettings, ClassStats};
use crate::schema::table_schema::SchemaRef;
use crate::sstable::Damage;
use crate::table::LargeThing;

/// The commitlog of one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitlogReport {
    pub shard: u32,
    /// Bytes of its segment files, those that wait for their turn included.
    pub bytes: u64,
    pub limit_bytes: u64,
    /// Writes that were slowed down near the limit, and that had to wait at it.
    pub slowed: u64,
    pub stopped: u64,
    /// Keyspace and name of a table that keeps the oldest segment.
    pub oldest_pin: Option<(String, String)>,
}

/// The cache of one shard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CacheReport {
    pub shard: u32,
    pub capacity_bytes: u64,
    pub bytes: u64,
    /// Pages of files.
    pub pages: u64,
    /// Entries of row caches: rows, bounds of what is known, partitions.
    pub entries: u64,
    /// Bytes of the entries, of pages of indexes, parsed ones too, and of pages of data.
    pub row_bytes: u64,
    pub index_bytes: u64,
    pub data_bytes: u64,
    /// Of pages and entries together, as all that follows.
    pub hits: u64,
    pub misses: u64,
    pub evictions: u64,
    /// Pages that the admission policy did not let in.
    pub refused: u64,
}

/// The row cache of a table on one shard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowCacheReport {
    pub keyspace: String,
    pub table: String,
    pub shard: u32,
    pub stats: RowCacheStats,
    /// Gaps between neighbours that are known, of those that were looked at.
    pub continuity: (u64, u64),
}

/// The rate limiter of one shard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RateReport {
    pub shard: u32,
    /// Name of the policy that decides beyond the limits.
    pub policy: String,
    /// Operations on partitions of tables that have a limit.
    pub reads: u64,
    pub reads_refused: u64,
    pub writes: u64,
    pub writes_refused: u64,
    /// Questions to the policy.
    pub asked: u64,
    /// Operations for which the table of counts had no place: they went through.
    pub not_counted: u64,
    pub last_failure: Option<String>,
}

/// A partition that is asked often.
#[derive(Debug, Clone)]
pub struct HotReport {
    pub shard: u32,
    /// Its table.
    pub schema: SchemaRef,
    pub hot: HotPartition,
}

/// Something large in an SSTable of a table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LargeDataReport {
    pub keyspace: String,
    pub table: String,
    pub thing: LargeThing,
    pub shard: u32,
}

/// A place of damage that reads of a table met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamageReport {
    pub keyspace: String,
    pub table: String,
    pub shard: u32,
    pub damage: Damage,
}

/// What enters one shard, by class of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmissionReport {
    pub shard: u32,
    /// `keys`, `scan` or `write`.
    pub class: &'static str,
    pub status: ClassStatus,
}

/// A read under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadReport {
    /// Names it among all shards, for as long as the database is open.
    pub number: u64,
    pub shard: u32,
    pub service_level: String,
    pub status: ReadStatus,
}

/// A class of I/O on one shard.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IoReport {
    pub shard: u32,
    pub class: Class,
    pub settings: ClassSettings,
    /// Whether the disk was measured: otherwise disk-seconds say nothing.
    pub is_measured: bool,
    pub stats: ClassStats,
}

/// A table on one shard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableReport {
    pub keyspace: String,
    pub table: String,
    pub shard: u32,
    pub memtable_rows: u64,
    pub memtable_bytes: u64,
    pub sstables: u64,
    pub sstable_bytes: u64,
    pub sstable_rows: u64,
    /// Why it could not be opened, or takes no writes because it cannot be flushed.
    pub problem: Option<String>,
}
