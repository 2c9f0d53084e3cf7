//! World `compaction-policy`: which SSTables of a table are merged.

use crate::Setup;

/// The strategy that a table names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    #[default]
    SizeTiered,
    Leveled,
    TimeWindow,
    Incremental,
}

/// The table, on one shard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// `keyspace.table`.
    pub name: String,
    /// Since 1970, by the wall clock.
    pub now_seconds: u64,
    pub strategy: Strategy,
    /// Options of the table: SSTables that a merge takes at least and at most, and the bytes at which
    /// strategies with SSTables of one size cut what they write.
    pub min_threshold: u32,
    pub max_threshold: u32,
    pub sstable_bytes: u64,
}

/// One SSTable that is not being merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sstable {
    /// A greater one is newer.
    pub id: u64,
    /// SSTables of one run do not overlap. What a flush wrote is a run of its own.
    pub run: u64,
    /// As the merge said that wrote it; 0 after a flush.
    pub level: u32,
    /// Of data, as stored.
    pub bytes: u64,
    pub partitions: u64,
    pub rows: u64,
    /// Least and greatest token.
    pub first_token: i64,
    pub last_token: i64,
    /// Of its data and tombstones, microseconds since 1970.
    pub min_timestamp: i64,
    pub max_timestamp: i64,
    /// Of a thousand of its cells and tombstones, those whose grace has passed.
    pub droppable_per_mille: u32,
    /// Since the engine first saw it.
    pub age_seconds: u32,
}

/// A merge that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Job {
    /// Ids of SSTables, in any order.
    pub inputs: Vec<u64>,
    /// Level of what it writes.
    pub level: u32,
    /// Where what it writes is cut: bytes of data; 0 nowhere.
    pub split_bytes: u64,
    /// Inputs go as soon as the merge has passed them. What it writes is one run.
    pub incremental: bool,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Nothing is merged until something changes, or a minute has passed.
    Nothing,
    /// What the table's own strategy says.
    Strategy,
    Merge(Job),
}

/// A policy of world `compaction-policy`.
pub trait CompactionPolicy: Sized {
    const NAME: &'static str;
    const VERSION: &'static str;

    /// Makes the policy of one shard.
    ///
    /// Errors: a parameter is unknown or out of range, in words for the operator.
    fn new(setup: &Setup) -> Result<Self, String>;

    /// What is merged next of a table, after each flush, after each merge and once a minute.
    /// `sstables` are those of one shard, oldest first.
    fn pick(&mut self, table: &Table, sstables: &[Sstable]) -> Choice;

    /// Figures for people.
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}
