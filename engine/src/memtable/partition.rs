//! One partition of a memtable.
//!
//! A copy of it is made in constant time and shares everything with it: a reader takes one, and
//! sees the partition as of that instant, all of a write or nothing of it.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::Bound;
use std::rc::Rc;

use crate::config::is_strict;
use crate::mutation::tombstone::strongest;
use crate::mutation::{
    FlatRow, Fragment, Mutation, Position, RangeTombstoneList, Row, Tombstone, Weight,
};
use crate::persistent::Map;
use crate::schema::ClusteringKey;

/// Bookkeeping bytes of a row beyond its content: its share of a tree node that is half full, and
/// what the allocator rounds up by. The partition pays for its first node.
const ROW_OVERHEAD_BYTES: usize = 48;
/// More of a row that stands apart: three counted pieces of memory.
const APART_OVERHEAD_BYTES: usize = 96;
const RANGE_TOMBSTONE_BYTES: usize = 128;

/// Values of a row up to which it is kept flat: a copy of more costs more than pieces of memory.
const FLAT_VALUE_BYTES_MAX: usize = 8 << 10;

/// Content of one partition.
#[derive(Debug, Clone, Default)]
pub(super) struct Partition {
    pub(super) deletion: Option<Tombstone>,
    pub(super) static_row: Option<Rc<Row>>,
    /// The row stands apart exactly where its key has only the place.
    pub(super) rows: Map<AtKey, Option<Rc<Apart>>>,
    pub(super) range_tombstones: Rc<RangeTombstoneList>,
}

/// A row in its place, or only the place where the row stands apart.
///
/// Most rows are written once. These are kept flat, in one piece of memory, and go so to readers,
/// to the row cache and to the SSTable.
#[derive(Debug, Clone)]
pub(super) struct AtKey(FlatRow);

/// A row that several writes made, that has multi-cell columns, or that is long: in the form in
/// which the next write changes it where it is.
#[derive(Debug, Clone)]
pub(super) struct Apart {
    key: Rc<ClusteringKey>,
    row: Rc<Row>,
}

/// One of a partition's rows, as it is kept.
#[derive(Debug, Clone, Copy)]
pub(super) enum StoredRow<'a> {
    Flat(&'a FlatRow),
    Apart(&'a Apart),
}

/// What a write added.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Growth {
    pub(super) bytes: usize,
    pub(super) rows: usize,
}

impl Partition {
    /// Merges a write in, whose parts leave `mutation`.
    pub(super) fn apply(&mut self, mutation: &mut Mutation) -> Growth {
        let mut growth = Growth::default();
        self.deletion = strongest(self.deletion, mutation.deletion);
        if let Some(mut row) = mutation.static_row.take() {
            row.apply_own_tombstone();
            growth.bytes += row.memory_bytes();
            match &mut self.static_row {
                Some(own) => Rc::make_mut(own).merge(&row),
                None => self.static_row = Some(Rc::new(row)),
            }
        }
        for range_tombstone in std::mem::take(&mut mutation.range_tombstones) {
            growth.bytes += RANGE_TOMBSTONE_BYTES;
            Rc::make_mut(&mut self.range_tombstones).add(range_tombstone);
        }
        for (key, mut row) in std::mem::take(&mut mutation.rows) {
            row.check_order();
            row.apply_own_tombstone();
            self.put(key, row, &mut growth);
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

    /// Merges a row in.
    fn put(&mut self, key: ClusteringKey, row: Row, growth: &mut Growth) {
        let ordered = key.as_ordered();
        let found = self.rows.get_key_value_mut::<[u8]>(ordered);
        if found.is_none() {
            growth.rows += 1;
        }
        let merged = match found {
            Some((_, Some(apart))) => {
                growth.bytes += row.memory_bytes();
                let own = Rc::make_mut(&mut Rc::make_mut(apart).row);
                own.merge(&row);
                debug_assert!(own.is_compacted(), "{own:?} holds what its tombstone covers");
                return;
            }
            Some((flat, None)) => {
                // Its bytes stay counted: a node above may go on to hold it as a separator.
                let mut own = flat.0.thaw();
                own.merge(&row);
                own
            }
            None if is_kept_flat(&row) => {
                let flat = FlatRow::row(ordered, &row);
                growth.bytes += flat.memory_bytes() + ROW_OVERHEAD_BYTES;
                self.rows.insert(AtKey(flat), None);
                return;
            }
            None => row,
        };
        debug_assert!(merged.is_compacted(), "{merged:?} holds what its tombstone covers");
        let place = FlatRow::place(ordered, Weight::At);
        growth.bytes += merged.memory_bytes() + place.memory_bytes() + ordered.len();
        growth.bytes += ROW_OVERHEAD_BYTES + APART_OVERHEAD_BYTES;
        let apart = Apart { key: Rc::new(key), row: Rc::new(merged) };
        self.rows.insert(AtKey(place), Some(Rc::new(apart)));
    }

    /// Where `is_strict`: rows stand in the order of their keys, each in one form.
    fn check_order(&self) {
        if is_strict() {
            let mut last: Option<&[u8]> = None;
            for (key, apart) in self.rows.iter() {
                let own: &[u8] = key.borrow();
                assert!(last < Some(own), "row {key:?} of a memtable stands behind {last:?}");
                assert_eq!(key.0.has_row(), apart.is_none(), "{key:?} has two forms, or none");
                assert!(
                    apart.as_ref().is_none_or(|apart| apart.key.as_ordered() == own),
                    "{apart:?} stands at {key:?}"
                );
                last = Some(own);
            }
        }
    }

    /// Rows between two positions of the natural order.
    pub(super) fn rows_between<'a>(
        &'a self,
        start: &Position,
        end: &Position,
    ) -> impl DoubleEndedIterator<Item = StoredRow<'a>> + use<'a> {
        let range = (start < end).then(|| {
            let (lower, upper) = (lower(start), upper(end));
            let bounds = (ordered(&lower), ordered(&upper));
            self.rows.range::<_, [u8]>(bounds)
        });
        range.into_iter().flatten().map(|(key, apart)| match apart {
            Some(apart) => StoredRow::Apart(apart),
            None => StoredRow::Flat(&key.0),
        })
    }

    /// Takes the last row out; `None` when there is none. The other rows of its leaf stay where
    /// they are.
    pub(super) fn pop_last(&mut self) -> Option<()> {
        let (last, _) = self.rows.get_max()?;
        let last = last.clone();
        let popped = self.rows.remove(&last);
        assert!(popped.is_some(), "{last:?} is the last row, and is not there");
        Some(())
    }
}

/// Whether a row that no other write has made yet is kept in one piece of memory.
fn is_kept_flat(row: &Row) -> bool {
    let bytes: usize = row.cells.iter().map(|(_, cell)| cell.heap_bytes()).sum();
    row.multi.is_empty() && bytes <= FLAT_VALUE_BYTES_MAX
}

impl Borrow<[u8]> for AtKey {
    fn borrow(&self) -> &[u8] {
        self.0.key()
    }
}

impl Ord for AtKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key().cmp(other.0.key())
    }
}

impl PartialOrd for AtKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for AtKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for AtKey {}

impl<'a> StoredRow<'a> {
    /// The key in its ordered form.
    pub(super) fn key(self) -> &'a [u8] {
        match self {
            StoredRow::Flat(flat) => flat.key(),
            StoredRow::Apart(apart) => apart.key.as_ordered(),
        }
    }

    /// The row as readers get it, which shares its memory.
    pub(super) fn fragment(self) -> Fragment {
        match self {
            StoredRow::Flat(flat) => Fragment::FlatRow(flat.clone()),
            StoredRow::Apart(Apart { key, row }) => {
                Fragment::Row { key: key.clone(), row: row.clone() }
            }
        }
    }
}

fn ordered(bound: &Bound<ClusteringKey>) -> Bound<&[u8]> {
    bound.as_ref().map(ClusteringKey::as_ordered)
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
    use crate::mutation::{Cell, CellPath, Liveness, MultiCell};
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
                partition.apply(&mut deletion(timestamp));
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
            partition.apply(&mut mutation).rows
        };
        assert_eq!((write(), write()), (1, 0));
        assert_eq!(
            partition.rows_between(&Position::before(key.clone()), &Position::after(key)).count(),
            1
        );
    }

    fn key(number: u8) -> ClusteringKey {
        ClusteringKey::from_ordered([number])
    }

    fn write(rows: Vec<(ClusteringKey, Row)>) -> Mutation {
        Mutation { rows, ..Mutation::new(TableId(1), PartitionKey::from_bytes(b"k")) }
    }

    /// All rows, in both directions.
    fn rows(partition: &Partition) -> Vec<(ClusteringKey, Row)> {
        let all = || partition.rows_between(&Position::start(), &Position::end());
        let thawed = |kept: StoredRow<'_>| match kept.fragment().thawed() {
            Fragment::Row { key, row } => {
                assert_eq!(key.as_ordered(), kept.key());
                ((*key).clone(), (*row).clone())
            }
            other => panic!("no row: {other:?}"),
        };
        let forward: Vec<_> = all().map(thawed).collect();
        let mut reversed: Vec<_> = all().rev().map(thawed).collect();
        reversed.reverse();
        assert_eq!(forward, reversed);
        forward
    }

    /// A row that one write can make: some of what a row may have, by the bits of a number.
    fn some_row(bits: u32) -> Row {
        let timestamp = i64::from(bits % 7);
        let mut row = Row {
            liveness: (bits & 8 != 0).then(|| Liveness::at(timestamp)),
            deletion: (bits & 0x70 == 0).then_some(Tombstone { timestamp: 3, deletion_time: 1 }),
            ..Row::default()
        };
        for column in (0..3).filter(|column| bits >> (8 + column) & 1 == 1) {
            let value = vec![bits as u8; if bits & 0x1f00_0000 == 0 { 9000 } else { 3 }];
            row.put(ColumnId(column), Cell::live(timestamp, value));
        }
        if bits & 0x3000 == 0 {
            let path = CellPath::from_ordered([bits as u8]);
            let cells = vec![(path, Cell::live(timestamp, *b"e"))];
            row.put_multi(ColumnId(9), MultiCell { deletion: None, cells });
        }
        row
    }

    /// A row may be kept in two forms, and goes from one to the other.
    #[test]
    fn rows_are_the_sum_of_their_writes_in_whatever_form_they_are_kept() {
        let (mut partition, mut state) = (Partition::default(), 0x9e37_79b9_u32);
        let mut model = std::collections::BTreeMap::<ClusteringKey, Row>::new();
        let (mut counted, mut flat, mut apart, mut long) = (0, 0, 0, 0);
        for number in 0..3000 {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            // At first most keys are new.
            let (key, row) = (key((state >> 3) as u8), some_row(state.rotate_left(number)));
            long += usize::from(row.cells.iter().any(|(_, cell)| cell.heap_bytes() > 8192));
            // Without a copy the partition changes where it is.
            let before = (number % 100 == 0).then(|| partition.clone());
            let then = before.as_ref().map(rows);
            counted += partition.apply(&mut write(vec![(key.clone(), row.clone())])).rows;
            let own = model.entry(key).or_default();
            own.merge(&row);
            if let (Some(before), Some(then)) = (before, then) {
                assert_eq!(rows(&before), then, "a reader's copy has changed");
                assert_eq!(rows(&partition), model.clone().into_iter().collect::<Vec<_>>());
            }
        }
        for kept in partition.rows_between(&Position::start(), &Position::end()) {
            match kept {
                StoredRow::Flat(_) => flat += 1,
                StoredRow::Apart(_) => apart += 1,
            }
        }
        assert_eq!(rows(&partition), model.into_iter().collect::<Vec<_>>());
        assert_eq!(counted, partition.rows.len());
        assert!(apart > 200 && long > 20, "{flat} rows flat, {apart} apart, {long} long");
        while partition.pop_last().is_some() {
            counted -= 1;
        }
        assert_eq!((counted, partition.rows.len()), (0, 0));
    }

    /// A row may grow without end, and its memtable has to reach its budget all the same.
    #[test]
    fn every_write_to_a_row_that_grows_is_counted() {
        let value = || Cell::live(1, vec![7; 1000]);
        let column = |at: u16| Row { cells: vec![(ColumnId(at), value())], ..Row::default() };
        let element = |at: u16| {
            let cells = vec![(CellPath::from_ordered(at.to_be_bytes()), value())];
            let multi = vec![(ColumnId(900), MultiCell { deletion: None, cells })];
            Row { multi, ..Row::default() }
        };
        let fixed = |row| Mutation { static_row: Some(row), ..write(Vec::new()) };
        let mut partition = Partition::default();
        for at in 0..100 {
            for (kind, mut mutation) in [
                ("column", write(vec![(key(1), column(at))])),
                ("element", write(vec![(key(2), element(at))])),
                ("static column", fixed(column(at))),
                ("static element", fixed(element(at))),
            ] {
                let bytes = partition.apply(&mut mutation).bytes;
                assert!((1000..4000).contains(&bytes), "{kind} {at} counts {bytes} bytes");
            }
        }
        assert_eq!(rows(&partition).len(), 2);
    }

    #[test]
    fn rows_that_are_written_once_are_flat_unless_they_are_long_or_have_elements() {
        let mut partition = Partition::default();
        let cells = |bytes: usize| vec![(ColumnId(1), Cell::live(1, vec![7; bytes]))];
        let of = |bytes| Row { cells: cells(bytes), ..Row::default() };
        let multi =
            vec![(ColumnId(9), MultiCell::deleted(Tombstone { timestamp: 1, deletion_time: 1 }))];
        let with_multi = Row { multi, ..of(1) };
        let all = [of(100), of(8 << 10), of((8 << 10) + 1), with_multi, Row::default()];
        let rows: Vec<_> = (0..).map(key).zip(all).collect();
        let mut bytes = Vec::new();
        for row in rows.clone() {
            bytes.push(partition.apply(&mut write(vec![row])).bytes);
        }
        let is_flat = |partition: &Partition| {
            let all = partition.rows_between(&Position::start(), &Position::end());
            all.map(|kept| matches!(kept, StoredRow::Flat(_))).collect::<Vec<_>>()
        };
        assert_eq!(is_flat(&partition), [true, true, false, false, true]);
        assert!((101..200).contains(&bytes[0]), "{} bytes of a row of 100", bytes[0]);
        assert!(bytes[2] > 8 << 10, "{} bytes of a row of 8 KiB", bytes[2]);
        assert_eq!(super::tests::rows(&partition), rows);
        partition.apply(&mut write(vec![(key(0), of(3))]));
        assert_eq!(is_flat(&partition), [false, true, false, false, true]);
    }
}
