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
    /// A long scan reads ahead also while queries have the disk.
    pub(crate) looks_ahead: bool,
}

impl<'a> ReadPlan<'a> {
    /// A read of the partitions in `range`, cut to `slice`, through the page cache.
    pub fn of(range: &'a PartitionRange, slice: &'a Slice) -> Self {
        let key = HashedKey::of_range(range);
        ReadPlan {
            range,
            slice,
            caching: Access::Cached,
            on_damage: None,
            key,
            is_flat: false,
            looks_ahead: false,
        }
    }

    /// The same for queries, which take rows as the row cache keeps them.
    pub(crate) fn for_queries(self) -> Self {
        ReadPlan { is_flat: true, looks_ahead: true, ..self }
    }

    /// The same for merges, which leave the disk to queries.
    pub(crate) fn for_merges(self) -> Self {
        ReadPlan { is_flat: true, ..self }
    }

    /// The same for a row cache that keeps the rows. Of a partition that is short enough to be read
    /// whole the page cache keeps the pages when it is read for the second time.
    pub(crate) fn for_rows(self) -> Self {
        ReadPlan { caching: Access::Rows, is_flat: true, looks_ahead: true, ..self }
    }

    /// The same, without keeping the data of single partitions in the page cache.
    pub(crate) fn past_cache(self) -> Self {
        ReadPlan { caching: Access::Scan, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutation::Direction;

    /// Reads beside a merge would wait longer for a disk that it reads ahead from.
    #[test]
    fn merges_read_rows_as_queries_do_and_leave_the_disk_to_them() {
        let (range, slice) = (PartitionRange::full(), Slice::full(Direction::Forward));
        let plan = || ReadPlan::of(&range, &slice);
        let form = |plan: ReadPlan<'_>| (plan.is_flat, plan.looks_ahead);
        assert_eq!(form(plan()), (false, false));
        assert_eq!(form(plan().for_merges()), (true, false));
        assert_eq!(form(plan().for_queries()), (true, true));
        assert_eq!(form(plan().for_rows()), (true, true));
    }
}
