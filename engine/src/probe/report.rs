//! What is told of a read.

use std::fmt;
use std::sync::Arc;

use super::counts::ReadStats;

/// What a read reads, where somebody wants to see it.
pub type What = Arc<dyn fmt::Display + Send + Sync>;

/// What a read did, as of one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadReport {
    /// What is read: the name of a table.
    pub what: String,
    /// By shard, those that were asked.
    pub shards: Vec<(u32, ReadStats)>,
}
