//! What the engine tells about itself: one struct a row.

use serde::{Deserialize, Serialize};

/// A policy that was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyInfo {
    pub name: String,
    /// Version as the component states it.
    pub version: String,
    /// SHA-256 of the component, hex.
    pub digest: String,
    pub params: Vec<(String, String)>,
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
