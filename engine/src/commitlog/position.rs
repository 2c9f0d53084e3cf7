//! Place of a record in a shard's commitlog.

use serde::{Deserialize, Serialize};

/// Segment and offset; later records of one shard are greater.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct ReplayPosition {
    /// Segment id: increases over the life of the data directory, per shard.
    pub segment: u64,
    /// Byte offset of the record in the segment.
    pub offset: u32,
}
