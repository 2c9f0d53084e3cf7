//! What a read asks for, and what comes of it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::tombstones::ManyTombstones;
use crate::admission::{BatchCharge, LevelId};
use crate::batch::{RecordBatch, Stamp};
use crate::clock::Deadline;
use crate::mutation::Slice;
use crate::reader::RowFilter;
use crate::schema::table_schema::SchemaRef;
use crate::schema::{ColumnId, PartitionKey, Token};

/// A read of one table on one shard.
#[derive(Debug, Clone)]
pub struct ReadCommand {
    pub schema: SchemaRef,
    pub partitions: Partitions,
    /// Rows of each partition, and the direction in which they come.
    pub slice: Slice,
    /// Columns of the result, in order; none to count rows only.
    pub columns: Vec<ColumnId>,
    /// Write times and times to live, which stand behind the columns.
    pub stamps: Vec<Stamp>,
    /// Stop after so many rows.
    pub row_limit: Option<usize>,
    /// After so many rows of a partition read on at the next one; at least 1.
    pub partition_limit: Option<usize>,
    /// End with `Timeout` where not all was read by then.
    pub deadline: Option<Deadline>,
    /// Whose part of the shard it takes.
    pub level: LevelId,
    /// Ask the row cache for nothing and leave nothing in the caches: for reads that will not come
    /// again.
    pub past_cache: bool,
    /// Leaves out rows that fail its comparisons, as far as their bytes tell; not beside a
    /// `partition_limit`.
    pub filter: Option<RowFilter>,
}

/// Partitions of a read.
#[derive(Debug, Clone)]
pub enum Partitions {
    /// These, visited in ring order, each once. [`Database::read`](crate::Database::read) asks each
    /// shard for its own; one shard refuses those of another.
    Keys(Vec<PartitionKey>),
    /// Every partition of this shard, in ring order.
    Shard(u32),
    /// Those of a shard that lie in these ranges of tokens, both ends included, which are sorted
    /// and disjoint. The whole shard is read, by way of the row cache: what lies elsewhere is
    /// little.
    Owned { shard: u32, ranges: Arc<[(Token, Token)]> },
    /// Those of a shard that lie between two tokens, both included, in ring order.
    Tokens { shard: u32, min: Token, max: Token },
}

/// A batch on its way to its receiver, with the memory that it has; a short one has none of its
/// own.
#[derive(Debug)]
pub struct Sent {
    pub batch: RecordBatch,
    pub charge: Option<BatchCharge>,
}

/// What is told of a read beside its batches.
#[derive(Debug, Default)]
pub struct Told {
    /// All batches were sent.
    pub is_complete: AtomicBool,
    pub tombstones: ManyTombstones,
}
