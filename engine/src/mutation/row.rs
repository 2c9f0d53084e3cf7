//! A row: liveness marker, row tombstone and cells, with their merge.
//!
//! Invariant: cells are sorted by column id, one a column; so are multi-cell columns, of which none
//! is empty; a row compacted with its own tombstone holds nothing which that tombstone covers.

use std::cmp::Reverse;

use super::cell::Cell;
use super::multi_cell::MultiCell;
use super::tombstone::{Tombstone, strongest};
use crate::schema::ColumnId;

/// Mark of an INSERT: the row exists even when all its cells are null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Liveness {
    pub timestamp: i64,
    /// Seconds asked for, 0 = for ever.
    pub ttl: i32,
    /// Second from which the marker is gone; `i32::MAX` when `ttl` is 0.
    pub expiry: i32,
}

impl Liveness {
    /// A marker that does not expire.
    pub fn at(timestamp: i64) -> Self {
        Liveness { timestamp, ttl: 0, expiry: i32::MAX }
    }

    /// A marker with a time to live.
    pub fn expiring(timestamp: i64, ttl: i32, expiry: i32) -> Self {
        Liveness { timestamp, ttl, expiry }
    }

    fn is_live_at(self, now: i32) -> bool {
        self.ttl == 0 || self.expiry > now
    }

    /// Which of two markers stands, as of two cells: the later one; of equal ones one that ends,
    /// the one that ends later, and of those the one that was written later.
    fn beats(self, other: Liveness) -> bool {
        let order =
            |live: Liveness| (live.timestamp, live.ttl != 0, live.expiry, Reverse(live.ttl));
        order(self) > order(other)
    }
}

/// The content of a clustering row or of the static row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row {
    pub liveness: Option<Liveness>,
    pub deletion: Option<Tombstone>,
    /// Sorted by column, one a column.
    pub cells: Vec<(ColumnId, Cell)>,
    /// Columns with a cell an element, sorted by column, one a column.
    pub multi: Vec<(ColumnId, MultiCell)>,
}

impl Row {
    pub fn is_empty(&self) -> bool {
        self.liveness.is_none()
            && self.deletion.is_none()
            && self.cells.is_empty()
            && self.multi.is_empty()
    }

    /// The cell of `column`, if the row has one.
    pub fn cell(&self, column: ColumnId) -> Option<&Cell> {
        let at = self.cells.binary_search_by_key(&column, |(id, _)| *id).ok()?;
        Some(&self.cells[at].1)
    }

    /// Puts a cell in, reconciling with what stands there.
    pub fn put(&mut self, column: ColumnId, cell: Cell) {
        match self.cells.binary_search_by_key(&column, |(id, _)| *id) {
            Ok(at) => self.cells[at].1.merge(cell),
            Err(at) => self.cells.insert(at, (column, cell)),
        }
        self.check_order();
    }

    /// Cells and multi-cell columns stand in the order of columns, one a column.
    pub(crate) fn check_order(&self) {
        debug_assert!(
            self.cells.is_sorted_by(|(a, _), (b, _)| a < b),
            "cells out of order: {:?}",
            self.cells
        );
        debug_assert!(
            self.multi.is_sorted_by(|(a, _), (b, _)| a < b),
            "multi-cell columns out of order: {:?}",
            self.multi
        );
    }

    /// The cells of the multi-cell column `column`, if the row has any.
    pub fn multi_cell(&self, column: ColumnId) -> Option<&MultiCell> {
        let at = self.multi.binary_search_by_key(&column, |(id, _)| *id).ok()?;
        Some(&self.multi[at].1)
    }

    /// Puts cells of a multi-cell column in, merging them with what stands there.
    pub fn put_multi(&mut self, column: ColumnId, multi: MultiCell) {
        if multi.is_empty() {
            return;
        }
        match self.multi.binary_search_by_key(&column, |(id, _)| *id) {
            Ok(at) => self.multi[at].1.merge(&multi),
            Err(at) => self.multi.insert(at, (column, multi)),
        }
        self.check_order();
    }

    /// Gives everything that an INSERT wrote another timestamp. The deletions by which it replaces
    /// collections stay just before it.
    pub fn restamp(&mut self, timestamp: i64) {
        if let Some(live) = &mut self.liveness {
            live.timestamp = timestamp;
        }
        self.cells.iter_mut().for_each(|(_, cell)| cell.timestamp = timestamp);
        for (_, multi) in &mut self.multi {
            if let Some(deletion) = &mut multi.deletion {
                deletion.timestamp = timestamp.saturating_sub(1);
            }
            multi.cells.iter_mut().for_each(|(_, cell)| cell.timestamp = timestamp);
        }
    }

    /// Gives everything in the row another timestamp, by that which it has.
    pub fn change_timestamps(&mut self, change: impl Fn(i64) -> i64) {
        let by = |timestamp: &mut i64| *timestamp = change(*timestamp);
        self.liveness.iter_mut().for_each(|live| by(&mut live.timestamp));
        self.deletion.iter_mut().for_each(|deletion| by(&mut deletion.timestamp));
        self.cells.iter_mut().for_each(|(_, cell)| by(&mut cell.timestamp));
        for (_, multi) in &mut self.multi {
            multi.deletion.iter_mut().for_each(|deletion| by(&mut deletion.timestamp));
            multi.cells.iter_mut().for_each(|(_, cell)| by(&mut cell.timestamp));
        }
    }

    /// Merges another version of this row into it; the result does not depend on the order.
    pub fn merge(&mut self, other: &Row) {
        self.deletion = strongest(self.deletion, other.deletion);
        self.liveness = match (self.liveness, other.liveness) {
            (Some(a), Some(b)) => Some(if a.beats(b) { a } else { b }),
            (a, b) => a.or(b),
        };
        if self.cells.is_empty() {
            self.cells.clone_from(&other.cells);
        } else {
            for (column, cell) in &other.cells {
                self.put(*column, cell.clone());
            }
        }
        if self.multi.is_empty() {
            self.multi.clone_from(&other.multi);
        } else {
            for (column, multi) in &other.multi {
                self.put_multi(*column, multi.clone());
            }
        }
        self.apply_own_tombstone();
        self.check_order();
        debug_assert!(
            self.multi.iter().all(|(_, multi)| !multi.is_empty()),
            "a merge left a multi-cell column that says nothing: {self:?}"
        );
    }

    /// Removes everything that `tombstone` covers, an equal or older row tombstone included when
    /// it is not this row's own.
    pub fn apply_tombstone(&mut self, tombstone: Tombstone) {
        if self.deletion.is_some_and(|own| own <= tombstone) {
            self.deletion = None;
        }
        self.drop_covered(tombstone);
        debug_assert!(
            !self.is_touched_by(tombstone) && self.deletion.is_none_or(|own| own > tombstone),
            "{tombstone:?} left what it covers: {self:?}"
        );
    }

    /// Removes what the row's own tombstone covers, as merging does: a row that was written or
    /// stored in one piece may still hold it.
    pub fn apply_own_tombstone(&mut self) {
        if let Some(own) = self.deletion {
            self.drop_covered(own);
        }
        debug_assert!(self.is_compacted(), "a row holds what its own tombstone covers: {self:?}");
    }

    fn drop_covered(&mut self, tombstone: Tombstone) {
        if self.liveness.is_some_and(|live| tombstone.covers(live.timestamp)) {
            self.liveness = None;
        }
        self.cells.retain(|(_, cell)| !tombstone.covers(cell.timestamp));
        self.multi.retain_mut(|(_, multi)| {
            multi.drop_covered(tombstone);
            !multi.is_empty()
        });
    }

    /// Whether `tombstone` covers something of the row's content.
    pub fn is_touched_by(&self, tombstone: Tombstone) -> bool {
        self.liveness.is_some_and(|live| tombstone.covers(live.timestamp))
            || self.cells.iter().any(|(_, cell)| tombstone.covers(cell.timestamp))
            || self.multi.iter().any(|(_, multi)| multi.is_touched_by(tombstone))
    }

    /// Whether the row holds nothing that its own tombstone covers.
    pub fn is_compacted(&self) -> bool {
        self.deletion.is_none_or(|own| !self.is_touched_by(own))
    }

    /// Whether a reader at `now` (seconds) sees this row.
    pub fn is_live_at(&self, now: i32) -> bool {
        self.liveness.is_some_and(|live| live.is_live_at(now))
            || self.cells.iter().any(|(_, cell)| cell.value_at(now).is_some())
            || self.multi.iter().any(|(_, multi)| multi.live_cells(now).next().is_some())
    }

    /// Timestamp of the newest thing in the row; `None` of an empty one.
    pub fn newest_timestamp(&self) -> Option<i64> {
        let own = self.liveness.map(|live| live.timestamp);
        let deletion = self.deletion.map(|deletion| deletion.timestamp);
        let cells = self.cells.iter().map(|(_, cell)| cell.timestamp).max();
        let multi = self.multi.iter().filter_map(|(_, multi)| {
            let deletion = multi.deletion.map(|deletion| deletion.timestamp);
            deletion.max(multi.cells.iter().map(|(_, cell)| cell.timestamp).max())
        });
        own.max(deletion).max(cells).max(multi.max())
    }

    /// Timestamp of the oldest thing in the row; `None` of an empty one.
    pub fn oldest_timestamp(&self) -> Option<i64> {
        let own = self.liveness.map(|live| live.timestamp);
        let deletion = self.deletion.map(|deletion| deletion.timestamp);
        let cells = self.cells.iter().map(|(_, cell)| cell.timestamp);
        let multi = self.multi.iter().flat_map(|(_, multi)| {
            let deletion = multi.deletion.map(|deletion| deletion.timestamp);
            deletion.into_iter().chain(multi.cells.iter().map(|(_, cell)| cell.timestamp))
        });
        own.into_iter().chain(deletion).chain(cells).chain(multi).min()
    }

    /// Bytes this row holds in memory, heap and struct.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Row>()
            + self.cells.capacity() * size_of::<(ColumnId, Cell)>()
            + self.cells.iter().map(|(_, cell)| cell.heap_bytes()).sum::<usize>()
            + self.multi.capacity() * size_of::<(ColumnId, MultiCell)>()
            + self.multi.iter().map(|(_, multi)| multi.heap_bytes()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutation::CellPath;

    fn row(liveness: i64, cells: &[(u16, i64, &[u8])]) -> Row {
        Row {
            liveness: Some(Liveness::at(liveness)),
            deletion: None,
            cells: cells.iter().map(|(c, ts, v)| (ColumnId(*c), Cell::live(*ts, *v))).collect(),
            multi: Vec::new(),
        }
    }

    #[test]
    fn merging_is_commutative_and_newest_wins() {
        let a = row(1, &[(0, 5, b"old"), (2, 9, b"kept")]);
        let b = row(3, &[(0, 6, b"new"), (1, 1, b"added")]);
        let (mut ab, mut ba) = (a.clone(), b.clone());
        ab.merge(&b);
        ba.merge(&a);
        assert_eq!(ab, ba);
        assert_eq!(ab.cell(ColumnId(0)).unwrap().value_at(0), Some(&b"new"[..]));
        assert_eq!(ab.cells.len(), 3);
        assert_eq!(ab.liveness, Some(Liveness::at(3)));
    }

    #[test]
    fn of_equal_markers_the_same_one_stands_in_any_order() {
        let expiring = |ttl, expiry| Liveness::expiring(5, ttl, expiry);
        // Each beats those before it.
        let ladder = [
            Liveness::expiring(4, 1, 900),
            Liveness::at(5),
            expiring(30, 100),
            expiring(20, 100),
            expiring(90, 101),
            Liveness::at(6),
        ];
        for (at, stronger) in ladder.iter().enumerate() {
            for weaker in &ladder[..=at] {
                for (a, b) in [(stronger, weaker), (weaker, stronger)] {
                    let mut merged = Row { liveness: Some(*a), ..Row::default() };
                    merged.merge(&Row { liveness: Some(*b), ..Row::default() });
                    assert_eq!(merged.liveness, Some(*stronger), "{a:?} with {b:?}");
                }
            }
        }
    }

    #[test]
    fn the_newest_timestamp_may_be_that_of_any_part() {
        let deletion = |timestamp| Tombstone { timestamp, deletion_time: 0 };
        assert_eq!(Row::default().newest_timestamp(), None);
        for newest in 0..7 {
            let at = |part| if part == newest { 9 } else { part };
            let element =
                |path, part| (CellPath::from_ordered([path]), Cell::live(at(part), *b"e"));
            let cells = vec![element(1, 4), element(2, 5), element(3, 6)];
            let multi = MultiCell { deletion: Some(deletion(at(3))), cells };
            let whole = Row {
                liveness: Some(Liveness::at(at(0))),
                deletion: Some(deletion(at(1))),
                cells: vec![(ColumnId(1), Cell::live(at(2), *b"v"))],
                multi: vec![(ColumnId(2), multi)],
            };
            assert_eq!(whole.newest_timestamp(), Some(9), "part {newest}");
        }
    }

    /// Compactions ask for it before they purge what covers a row of a memtable.
    #[test]
    fn the_oldest_timestamp_may_be_that_of_any_part() {
        let deletion = |timestamp| Tombstone { timestamp, deletion_time: 0 };
        assert_eq!(Row::default().oldest_timestamp(), None);
        for oldest in 0..8 {
            let at = |part| if part == oldest { -9 } else { part };
            let element =
                |path, part| (CellPath::from_ordered([path]), Cell::live(at(part), *b"e"));
            let cell = |column, part| (ColumnId(column), Cell::live(at(part), *b"v"));
            let cells = vec![element(1, 5), element(2, 6), element(3, 7)];
            let multi = MultiCell { deletion: Some(deletion(at(4))), cells };
            let whole = Row {
                liveness: Some(Liveness::at(at(0))),
                deletion: Some(deletion(at(1))),
                cells: vec![cell(1, 2), cell(3, 3)],
                multi: vec![(ColumnId(2), multi)],
            };
            assert_eq!(whole.oldest_timestamp(), Some(-9), "part {oldest}");
        }
    }

    #[test]
    fn a_row_tombstone_removes_what_is_older_and_keeps_what_is_newer() {
        let mut target = row(1, &[(0, 5, b"gone"), (1, 7, b"kept")]);
        let deletion = Tombstone { timestamp: 6, deletion_time: 0 };
        target.merge(&Row { deletion: Some(deletion), ..Row::default() });
        assert_eq!(target.liveness, None);
        assert_eq!(target.cells.len(), 1);
        assert!(target.is_live_at(0));
        target.apply_tombstone(Tombstone { timestamp: 7, deletion_time: 0 });
        assert!(target.is_empty());
    }

    #[test]
    fn multi_cell_columns_merge_with_the_row() {
        let path = |byte: u8| CellPath::from_ordered([2, byte]);
        let multi = |deletion: Option<i64>, cells: &[(u8, i64)]| MultiCell {
            deletion: deletion.map(|timestamp| Tombstone { timestamp, deletion_time: 0 }),
            cells: cells.iter().map(|(at, ts)| (path(*at), Cell::live(*ts, *b"v"))).collect(),
        };
        let mut a = row(1, &[(0, 5, b"x")]);
        a.put_multi(ColumnId(7), multi(Some(4), &[(1, 5)]));
        a.put_multi(ColumnId(8), MultiCell::default());
        assert_eq!(a.multi.len(), 1);
        let mut b = Row::default();
        b.put_multi(ColumnId(7), multi(None, &[(1, 3), (2, 6)]));
        b.put_multi(ColumnId(5), multi(None, &[(9, 2)]));
        let (mut ab, mut ba) = (a.clone(), b.clone());
        ab.merge(&b);
        ba.merge(&a);
        assert_eq!(ab, ba);
        assert_eq!(ab.multi_cell(ColumnId(7)), Some(&multi(Some(4), &[(1, 5), (2, 6)])));
        let deletion = Tombstone { timestamp: 5, deletion_time: 0 };
        assert!(ab.is_touched_by(deletion));
        ab.apply_tombstone(deletion);
        assert_eq!(ab.multi, [(ColumnId(7), multi(None, &[(2, 6)]))]);
        assert!(ab.is_live_at(0) && ab.cells.is_empty());
        a.restamp(100);
        assert_eq!(a.multi_cell(ColumnId(7)), Some(&multi(Some(99), &[(1, 100)])));
    }
}
