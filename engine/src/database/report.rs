//! What the engine tells about itself: one struct a row.

use serde::{Deserialize, Serialize};

use crate::cache::RowCacheStats;

/// A policy that was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyInfo {
    pub name: String,
    /// Version as the component states it.
    pub version: String,
    /// SHA-256 of the component, hex.
    pub digest: String,
    pub params: Vec<(String, String)>,
    /// The decision that it takes: `eviction`, `cache-admission` or `rate-limiter`.
    #[serde(default = "eviction")]
    pub world: String,
}

/// The only world of catalogs that name none.
fn eviction() -> String {
    "eviction".to_owned()
}

/// A policy and what it has done since it became active, all shards together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PolicyReport {
    pub name: String,
    pub version: String,
    /// SHA-256 of the component, hex; empty for the native policy.
    pub digest: String,
    /// `eviction`, `cache-admission` or `rate-limiter`.
    pub world: String,
    /// `active`, `loaded`, `failed`, or `unavailable`: it governed before the database was opened and
    /// could not be brought back.
    pub state: String,
    /// Calls into the policy, and events they carried.
    pub calls: u64,
    pub events: u64,
    /// Cache hits and misses while it was active.
    pub hits: u64,
    pub misses: u64,
    pub evictions: u64,
    /// Victims that were not resident, pinned or named twice.
    pub invalid_victims: u64,
    /// Victims that the fallback had to find.
    pub shortfalls: u64,
    /// Why it was put out, or could not be brought back.
    pub last_failure: Option<String>,
}

impl PolicyReport {
    /// Hits of all look-ups; `None` before the first.
    pub fn hit_ratio(&self) -> Option<f64> {
        let all = self.hits + self.misses;
        (all > 0).then(|| self.hits as f64 / all as f64)
    }
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
}
