//! One partition of a memtable.
//!
//! A copy of it is made in constant time and shares everything with it: a reader takes one, and
//! sees the partition as of that instant, all of a write or nothing of it.

use std::ops::Bound;
use std::rc::Rc;

use crate::config::is_strict;
use crate::mutation::tombstone::strongest;
use crate::mutation::{
    ClusteringRange, Mutation, Position, RangeTombstoneList, Row, Tombstone, Weight,
};
use crate::persistent::Map;
use crate::schema::ClusteringKey;

/// Bookkeeping bytes of a row beyond its content: two counted pointers and its share of a tree
/// node.
const ROW_OVERHEAD_BYTES: usize = 96;
const RANGE_TOMBSTONE_BYTES: usize = 128;

/// Content of one partition.
#[derive(Debug, Clone, Default)]
pub(super) struct Partition {
    pub(super) deletion: Option<Tombstone>,
    pub(super) static_row: Option<Rc<Row>>,
    pub(super) rows: Map<Rc<ClusteringKey>, Rc<Row>>,
    pub(super) range_tombstones: Rc<RangeTombstoneList>,
}

/// What a write added.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Growth {
    pub(super) bytes: usize,
    pub(super) rows: usize,
}

impl Partition {
    /// Merges a write in.
    pub(super) fn apply(&mut self, mutation: Mutation) -> Growth {
        let mut growth = Growth::default();
        self.deletion = strongest(self.deletion, mutation.deletion);
        if let Some(mut row) = mutation.static_row {
            row.apply_own_tombstone();
            growth.bytes += row.memory_bytes();
            match &mut self.static_row {
                Some(own) => Rc::make_mut(own).merge(&row),
                None => self.static_row = Some(Rc::new(row)),
            }
        }
        for range_tombstone in mutation.range_tombstones {
            growth.bytes += RANGE_TOMBSTONE_BYTES;
            Rc::make_mut(&mut self.range_tombstones).add(range_tombstone);
        }
        for (key, mut row) in mutation.rows {
            row.check_order();
            row.apply_own_tombstone();
            growth.bytes += row.memory_bytes() + key.as_ordered().len() + ROW_OVERHEAD_BYTES;
            match self.rows.get_mut(&key) {
                Some(own) => {
                    Rc::make_mut(own).merge(&row);
                    debug_assert!(own.is_compacted(), "{own:?} holds what its tombstone covers");
                }
                None => {
                    growth.rows += 1;
                    self.rows.insert(Rc::new(key), Rc::new(row));
                }
            }
        }
        debug_assert!(
            self.deletion >= mutation.deletion,
            "a write's {:?} is not in force, {:?} is",
            mutation.deletion,
            self.deletion
        );
        self.check_order();
        growth
    }

    /// Where `is_strict`: rows stand in the order of their keys.
    fn check_order(&self) {
        if is_strict() {
            let mut keys = self.rows.iter().map(|(key, _)| key);
            let mut last = keys.next();
            for key in keys {
                assert!(last < Some(key), "row {key:?} of a memtable stands behind {last:?}");
                last = Some(key);
            }
        }
    }

    /// Rows between two positions of the natural order.
    pub(super) fn rows_between<'a>(
        &'a self,
        start: &Position,
        end: &Position,
    ) -> impl DoubleEndedIterator<Item = (&'a Rc<ClusteringKey>, &'a Rc<Row>)> + use<'a> {
        let bounds = ClusteringRange { start: start.clone(), end: end.clone() };
        let range = if bounds.is_empty() {
            None
        } else {
            Some(self.rows.range::<_, ClusteringKey>((lower(start), upper(end))))
        };
        range.into_iter().flatten()
    }
}

/// First key at or past a position.
fn lower(position: &Position) -> Bound<ClusteringKey> {
    match position.weight {
        Weight::Before => Bound::Included(position.prefix.clone()),
        Weight::At => Bound::Excluded(position.prefix.clone()),
        Weight::After => Bound::Included(position.prefix.after_all_extensions()),
    }
}

/// Everything up to a position. `At` stands for "up to and without this row".
fn upper(position: &Position) -> Bound<ClusteringKey> {
    match position.weight {
        Weight::Before | Weight::At => Bound::Excluded(position.prefix.clone()),
        Weight::After if position.prefix.is_empty() => Bound::Unbounded,
        Weight::After => Bound::Excluded(position.prefix.after_all_extensions()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutation::Cell;
    use crate::schema::{ColumnId, PartitionKey, TableId};

    fn deletion(timestamp: i64) -> Mutation {
        let mut mutation = Mutation::new(TableId(1), PartitionKey::from_bytes(b"k"));
        mutation.deletion = Some(Tombstone { timestamp, deletion_time: 1 });
        mutation
    }

    #[test]
    fn the_strongest_deletion_of_a_partition_counts_in_whatever_order_they_come() {
        for order in [[1, 9, 5], [9, 5, 1], [5, 1, 9]] {
            let mut partition = Partition::default();
            order.into_iter().for_each(|timestamp| {
                partition.apply(deletion(timestamp));
            });
            let strongest = partition.deletion.map(|tombstone| tombstone.timestamp);
            assert_eq!(strongest, Some(9), "{order:?}");
        }
    }

    #[test]
    fn what_a_write_adds_is_counted_once() {
        let mut partition = Partition::default();
        let key = ClusteringKey::from_ordered(*b"c");
        let mut write = || {
            let mut mutation = Mutation::new(TableId(1), PartitionKey::from_bytes(b"k"));
            let cells = vec![(ColumnId(2), Cell::live(1, *b"v"))];
            mutation.rows.push((key.clone(), Row { cells, ..Row::default() }));
            partition.apply(mutation).rows
        };
        assert_eq!((write(), write()), (1, 0));
        assert_eq!(
            partition.rows_between(&Position::before(key.clone()), &Position::after(key)).count(),
            1
        );
    }
}
