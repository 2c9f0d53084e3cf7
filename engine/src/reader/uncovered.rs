//! What of a stream an SSTable needs: not what tombstones of the same stream cover.
//!
//! A covered row is invisible for ever, as its tombstone is written beside it. Cassandra leaves it
//! out as well, so that files with the same writes are the same.

use std::rc::Rc;

use crate::mutation::tombstone::strongest;
use crate::mutation::{Fragment, Row, RowView, Tombstone};

/// Looks at the fragments of a forward stream one after another.
#[derive(Debug, Default)]
pub struct Uncovered {
    partition: Option<Tombstone>,
    /// Of the range tombstones, the one that is in force and was let through.
    range: Option<Tombstone>,
}

impl Uncovered {
    /// Whether a row is left as it is.
    pub(crate) fn leaves(&self, row: &RowView<'_>) -> bool {
        let covering = strongest(self.partition, self.range);
        covering.is_none_or(|tombstone| {
            row.deletion.is_none_or(|own| own > tombstone) && !row.is_touched_by(tombstone)
        })
    }

    /// What is left of a fragment.
    pub fn pass(&mut self, fragment: Fragment) -> Option<Fragment> {
        Some(match fragment {
            Fragment::PartitionStart { deletion, .. } => {
                let left = self.range;
                assert!(left.is_none(), "a partition begins with {left:?} in force");
                *self = Uncovered { partition: deletion, range: None };
                fragment
            }
            Fragment::StaticRow(row) => Fragment::StaticRow(left(row, self.partition)?),
            Fragment::RangeTombstoneChange { position, tombstone } => {
                let tombstone = tombstone.filter(|own| self.partition.is_none_or(|all| all < *own));
                if tombstone == self.range {
                    return None;
                }
                self.range = tombstone;
                Fragment::RangeTombstoneChange { position, tombstone }
            }
            Fragment::Row { key, row } => {
                Fragment::Row { key, row: left(row, strongest(self.partition, self.range))? }
            }
            // As good as the other form.
            Fragment::FlatRow(_) => return self.pass(fragment.thawed()),
            Fragment::PartitionEnd => fragment,
        })
    }
}

/// The row without what `covering` deletes; `None` when nothing is left.
fn left(mut row: Rc<Row>, covering: Option<Tombstone>) -> Option<Rc<Row>> {
    if let Some(tombstone) = covering {
        let covers_deletion = row.deletion.is_some_and(|own| own <= tombstone);
        if covers_deletion || row.is_touched_by(tombstone) {
            Rc::make_mut(&mut row).apply_tombstone(tombstone);
        }
        assert!(
            !row.is_touched_by(tombstone),
            "{tombstone:?} covers what would be written beside it: {row:?}"
        );
    }
    assert!(row.is_compacted(), "a row holds what its own tombstone covers: {row:?}");
    (!row.is_empty()).then_some(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutation::{Cell, Liveness, Position, ViewRoom};
    use crate::schema::{ClusteringKey, ColumnId, PartitionKey};

    fn at(timestamp: i64) -> Tombstone {
        Tombstone { timestamp, deletion_time: 7 }
    }

    fn key(byte: u8) -> ClusteringKey {
        ClusteringKey::from_ordered([byte])
    }

    fn row(liveness: i64, cell: i64, deletion: Option<i64>) -> Rc<Row> {
        Rc::new(Row {
            liveness: Some(Liveness::at(liveness)),
            deletion: deletion.map(at),
            cells: vec![(ColumnId(2), Cell::live(cell, *b"v"))],
            multi: Vec::new(),
        })
    }

    fn pass(deletion: Option<i64>, body: Vec<Fragment>) -> Vec<Fragment> {
        let start = Fragment::PartitionStart {
            key: Rc::new(PartitionKey::from_bytes(*b"k")),
            deletion: deletion.map(at),
        };
        let mut uncovered = Uncovered::default();
        let all = [vec![start], body, vec![Fragment::PartitionEnd]].concat();
        let mut passed: Vec<Fragment> =
            all.into_iter().filter_map(|fragment| uncovered.pass(fragment)).collect();
        assert_eq!(passed.pop(), Some(Fragment::PartitionEnd));
        passed.remove(0);
        passed
    }

    fn change(byte: u8, tombstone: Option<i64>) -> Fragment {
        let position = Position::before(key(byte));
        Fragment::RangeTombstoneChange { position, tombstone: tombstone.map(at) }
    }

    fn row_at(byte: u8, row: Rc<Row>) -> Fragment {
        Fragment::Row { key: Rc::new(key(byte)), row }
    }

    #[test]
    fn what_a_range_tombstone_covers_is_left_out() {
        let newer = row(3, 20, None);
        let body = vec![
            row_at(1, row(5, 5, None)),
            change(2, Some(10)),
            row_at(3, row(9, 10, Some(8))),
            row_at(4, newer.clone()),
            row_at(5, row(11, 12, Some(10))),
            change(6, None),
            row_at(7, row(1, 1, Some(0))),
        ];
        let mut half = (*newer).clone();
        half.liveness = None;
        let mut alive = (*row(11, 12, None)).clone();
        alive.deletion = None;
        let wanted = vec![
            body[0].clone(),
            body[1].clone(),
            row_at(4, Rc::new(half)),
            row_at(5, Rc::new(alive)),
            body[5].clone(),
            body[6].clone(),
        ];
        assert_eq!(pass(None, body), wanted);
    }

    #[test]
    fn what_the_partitions_tombstone_covers_is_left_out() {
        let body = vec![
            Fragment::StaticRow(row(1, 2, None)),
            change(1, Some(4)),
            row_at(2, row(3, 5, None)),
            change(3, Some(9)),
            row_at(4, row(6, 7, None)),
            change(5, Some(3)),
            row_at(6, row(6, 7, None)),
            change(7, None),
        ];
        let wanted = vec![change(3, Some(9)), change(5, None), body[6].clone()];
        assert_eq!(pass(Some(5), body), wanted);
    }

    /// Of two deletions of one time the one whose grace ends later is kept, and what covers a
    /// partition has no part in the next one.
    #[test]
    fn a_deletion_covers_its_own_partition_and_one_of_its_time_that_is_not_stronger() {
        let mut uncovered = Uncovered::default();
        let start = |name: &str, deletion: Option<i64>| Fragment::PartitionStart {
            key: Rc::new(PartitionKey::from_bytes(name)),
            deletion: deletion.map(at),
        };
        let ranged = |byte: u8, deletion_time| Fragment::RangeTombstoneChange {
            position: Position::before(key(byte)),
            tombstone: Some(Tombstone { timestamp: 5, deletion_time }),
        };
        let old = || row_at(4, row(5, 5, None));
        let statics = || Fragment::StaticRow(row(5, 5, None));
        let all = [
            (start("a", Some(5)), true),
            (statics(), false),
            (ranged(1, 6), false),
            (ranged(2, 7), false),
            (ranged(3, 8), true),
            (old(), false),
            (row_at(5, row(6, 6, None)), true),
            (change(6, None), true),
            (Fragment::PartitionEnd, true),
            (start("b", None), true),
            (statics(), true),
            (old(), true),
            (ranged(5, 1), true),
            (row_at(6, row(5, 5, None)), false),
            (change(7, None), true),
            (row_at(8, row(1, 1, None)), true),
            (Fragment::PartitionEnd, true),
            (start("c", Some(4)), true),
            (statics(), true),
            (ranged(1, 1), true),
            (old(), false),
            (change(7, None), true),
            (row_at(8, row(4, 4, None)), false),
            (Fragment::PartitionEnd, true),
        ];
        for (number, (fragment, is_left)) in all.into_iter().enumerate() {
            let wanted = is_left.then(|| fragment.clone());
            assert_eq!(uncovered.pass(fragment), wanted, "fragment {number}");
        }
    }

    /// What is written as it is, without a copy, is what would be left of a copy.
    #[test]
    fn a_row_is_left_as_it_is_where_passing_it_changes_nothing() {
        let mut room = ViewRoom::default();
        let times = [None, Some(3), Some(5), Some(7)];
        let cells = [(6, 6), (4, 6), (6, 4), (5, 6), (6, 5), (9, 9)];
        let rows = || cells.iter().flat_map(|(a, b)| [None, Some(2), Some(5)].map(|o| (*a, *b, o)));
        for (partition, range) in times.iter().flat_map(|a| times.map(|b| (*a, b))) {
            let mut uncovered = Uncovered { partition: partition.map(at), range: range.map(at) };
            let covering = partition.max(range);
            for (liveness, cell, own) in rows().filter(|(a, b, own)| *own < Some(*a.min(b))) {
                let row = row(liveness, cell, own);
                let is_newer = |time: i64| covering.is_none_or(|covering| covering < time);
                let wanted = is_newer(liveness) && is_newer(cell) && own.is_none_or(is_newer);
                let what = format!("{liveness}, {cell}, {own:?} under {covering:?}");
                assert_eq!(room.of_row(&row, |row| uncovered.leaves(&row)), wanted, "{what}");
                let passed = uncovered.pass(row_at(1, row.clone()));
                assert_eq!(passed == Some(row_at(1, row)), wanted, "{what}");
            }
        }
    }
}
