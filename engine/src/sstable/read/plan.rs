//! The plan of a read of SSTables: what it needs and how it proceeds.

use std::rc::Rc;

use super::damage::DamageLog;
use crate::mutation::{PartitionRange, Slice};
use crate::sstable::data::file::Access;
use crate::sstable::index::filter::HashedKey;

/// One plan does for all SSTables of a table: the key of a single partition is hashed once.
#[derive(Clone)]
pub struct ReadPlan<'a> {
    pub(crate) range: &'a PartitionRange,
    pub(crate) slice: &'a Slice,
    /// How the data of a single partition is read; that of a range of tokens goes past the page
    /// cache, in large pieces.
    pub(crate) caching: Access,
    /// Where damage is noted that the read goes on behind, at what the index says is readable: at
    /// the next block of the partition, or at the next partition. Without it damage ends the read.
    pub(crate) on_damage: Option<Rc<DamageLog>>,
    /// The key of the partition, if it is one.
    pub(crate) key: Option<HashedKey<'a>>,
    /// Rows without multi-cell columns come as the row cache keeps them: one piece of memory each.
    pub(crate) is_flat: bool,
}

impl<'a> ReadPlan<'a> {
    /// A read of the partitions in `range`, cut to `slice`, through the page cache.
    pub fn of(range: &'a PartitionRange, slice: &'a Slice) -> Self {
        let key = HashedKey::of_range(range);
        ReadPlan { range, slice, caching: Access::Cached, on_damage: None, key, is_flat: false }
    }

    /// The same for queries, which take rows as the row cache keeps them.
    pub(crate) fn for_queries(self) -> Self {
        ReadPlan { is_flat: true, ..self }
    }

    /// The same for a row cache that keeps the rows. Of a partition that is short enough to be read
    /// whole the page cache keeps the pages when it is read for the second time.
    pub(crate) fn for_rows(self) -> Self {
        ReadPlan { caching: Access::Rows, is_flat: true, ..self }
    }

    /// The same, without keeping the data of single partitions in the page cache.
    pub(crate) fn past_cache(self) -> Self {
        ReadPlan { caching: Access::Scan, ..self }
    }
}
