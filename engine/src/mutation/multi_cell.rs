//! A column that has a cell for each element: list, set, map or user type that is not frozen.
//!
//! Invariant: cells are sorted by path, one a path, and the deletion covers none of them.

use super::cell::Cell;
use super::tombstone::{Tombstone, strongest};
use crate::error::{Error, Result};
use crate::schema::order::{decode_component, encode_component, is_null};
use crate::schema::{ClusteringOrder, DataType};

/// Which element of its column a cell is: the ordered form of a value of the column's path type, so
/// that byte order is the order of elements.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellPath(Box<[u8]>);

impl CellPath {
    /// From the bytes of a value of type `ty`, the path type of the column.
    ///
    /// Errors: `Invalid` when the bytes are no such value.
    pub fn from_stored(ty: &DataType, stored: &[u8]) -> Result<Self> {
        let mut out = Vec::with_capacity(stored.len() + 4);
        encode_component(ty, ClusteringOrder::Ascending, stored, &mut out)?;
        Ok(CellPath(out.into()))
    }

    /// From bytes in the ordered form.
    pub fn from_ordered(bytes: impl Into<Box<[u8]>>) -> Self {
        CellPath(bytes.into())
    }

    pub fn as_ordered(&self) -> &[u8] {
        &self.0
    }

    /// The bytes of the value, whose type is `ty`.
    ///
    /// Errors: `Invalid` when this is no path of such a column.
    pub fn stored(&self, ty: &DataType) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(self.0.len());
        let taken = decode_component(ty, ClusteringOrder::Ascending, &self.0, &mut out)?;
        if taken != self.0.len() || is_null(ClusteringOrder::Ascending, &self.0) {
            return Err(Error::invalid(format!(
                "an element's place is null, or has bytes behind its {}",
                ty.sql_name()
            )));
        }
        Ok(out)
    }
}

/// The cells of one multi-cell column of a row; see the head of this file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MultiCell {
    /// Everything of the column that is at or before this is gone.
    pub deletion: Option<Tombstone>,
    /// Sorted by path, one a path.
    pub cells: Vec<(CellPath, Cell)>,
}

impl MultiCell {
    /// No cells, and what was there is deleted.
    pub fn deleted(deletion: Tombstone) -> Self {
        MultiCell { deletion: Some(deletion), cells: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.deletion.is_none() && self.cells.is_empty()
    }

    /// Puts a cell in, merging it with what stands there. A cell that the deletion covers is left
    /// out.
    pub fn put(&mut self, path: CellPath, cell: Cell) {
        if self.deletion.is_some_and(|deletion| deletion.covers(cell.timestamp)) {
            return;
        }
        // Cells mostly come in order.
        if self.cells.last().is_none_or(|(last, _)| *last < path) {
            self.cells.push((path, cell));
            return;
        }
        match self.cells.binary_search_by(|(own, _)| own.cmp(&path)) {
            Ok(at) => self.cells[at].1.merge(cell),
            Err(at) => self.cells.insert(at, (path, cell)),
        }
        debug_assert!(self.is_sorted(), "elements out of order: {:?}", self.cells);
    }

    /// Whether elements stand in order, one a path.
    fn is_sorted(&self) -> bool {
        self.cells.is_sorted_by(|(a, _), (b, _)| a < b)
    }

    /// Merges another version of this column into it; the result does not depend on the order.
    pub fn merge(&mut self, other: &MultiCell) {
        self.deletion = strongest(self.deletion, other.deletion);
        let own = std::mem::take(&mut self.cells);
        self.cells.reserve(own.len() + other.cells.len());
        let (mut own, mut others) = (own.into_iter().peekable(), other.cells.iter().peekable());
        loop {
            let takes_own = match (own.peek(), others.peek()) {
                (Some((a, _)), Some((b, _))) => a <= b,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => break,
            };
            let next = match takes_own {
                true => own.next(),
                false => others.next().cloned(),
            };
            // Of equal paths the second one finds the first at the end.
            let (path, cell) = next.expect("one was there");
            self.put(path, cell);
        }
        debug_assert!(self.is_sorted(), "merged elements out of order: {:?}", self.cells);
        debug_assert!(
            self.deletion
                .is_none_or(|own| !self.cells.iter().any(|(_, c)| own.covers(c.timestamp))),
            "a merge left elements that the deletion covers: {self:?}"
        );
    }

    /// Takes away what `tombstone` covers, the deletion too where it says no more.
    pub fn drop_covered(&mut self, tombstone: Tombstone) {
        if self.deletion.is_some_and(|own| own <= tombstone) {
            self.deletion = None;
        }
        self.cells.retain(|(_, cell)| !tombstone.covers(cell.timestamp));
        debug_assert!(!self.is_touched_by(tombstone), "{tombstone:?} left some of {self:?}");
    }

    /// Whether `tombstone` covers something of this.
    pub fn is_touched_by(&self, tombstone: Tombstone) -> bool {
        self.deletion.is_some_and(|own| own <= tombstone)
            || self.cells.iter().any(|(_, cell)| tombstone.covers(cell.timestamp))
    }

    /// Paths and values that a reader sees at `now` (seconds), in order.
    pub fn live_cells(&self, now: i32) -> impl Iterator<Item = (&CellPath, &[u8])> {
        // A file of another product may hold cells that its own deletion covers.
        let deletion = self.deletion;
        self.cells
            .iter()
            .filter(move |(_, cell)| !deletion.is_some_and(|own| own.covers(cell.timestamp)))
            .filter_map(move |(path, cell)| Some((path, cell.value_at(now)?)))
    }

    /// Bytes held beyond the struct itself.
    pub fn heap_bytes(&self) -> usize {
        self.cells.capacity() * size_of::<(CellPath, Cell)>()
            + self.cells.iter().map(|(path, cell)| path.0.len() + cell.heap_bytes()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &str) -> CellPath {
        CellPath::from_stored(&DataType::Text, path.as_bytes()).unwrap()
    }

    fn multi(deletion: Option<i64>, cells: &[(&str, i64, &str)]) -> MultiCell {
        let deletion = deletion.map(|timestamp| Tombstone { timestamp, deletion_time: 7 });
        let mut multi = MultiCell { deletion, cells: Vec::new() };
        for (at, timestamp, value) in cells {
            multi.put(path(at), Cell::live(*timestamp, value.as_bytes()));
        }
        multi
    }

    fn merged(a: &MultiCell, b: &MultiCell) -> MultiCell {
        let mut ab = a.clone();
        ab.merge(b);
        let mut ba = b.clone();
        ba.merge(a);
        assert_eq!(ab, ba);
        ab
    }

    #[test]
    fn elements_merge_one_by_one_and_a_deletion_shadows_older_ones() {
        let a = multi(None, &[("a", 5, "old"), ("c", 9, "kept"), ("d", 3, "gone")]);
        let b = multi(Some(4), &[("b", 5, "added"), ("a", 6, "new")]);
        let wanted = multi(Some(4), &[("a", 6, "new"), ("b", 5, "added"), ("c", 9, "kept")]);
        assert_eq!(merged(&a, &b), wanted);
        assert_eq!(merged(&wanted, &a), wanted);
        let over = multi(Some(8), &[]);
        assert_eq!(merged(&wanted, &over), multi(Some(8), &[("c", 9, "kept")]));
    }

    #[test]
    fn a_tombstone_of_the_row_takes_what_it_covers() {
        let mut target = multi(Some(4), &[("a", 5, "x"), ("b", 9, "y")]);
        let at = |timestamp| Tombstone { timestamp, deletion_time: 7 };
        assert!(!target.is_touched_by(at(3)));
        target.drop_covered(at(5));
        assert_eq!(target, multi(None, &[("b", 9, "y")]));
        target.drop_covered(at(9));
        assert!(target.is_empty());
    }

    #[test]
    fn a_deletion_that_is_newer_than_a_tombstone_of_the_row_stays() {
        let at = |timestamp| Tombstone { timestamp, deletion_time: 7 };
        for (tombstone, wanted) in [(3, Some(4)), (4, None), (5, None)] {
            let mut target = multi(Some(4), &[("b", 9, "y")]);
            target.drop_covered(at(tombstone));
            assert_eq!(target, multi(wanted, &[("b", 9, "y")]), "a tombstone of {tombstone}");
        }
    }

    #[test]
    fn readers_see_what_is_neither_expired_nor_covered() {
        let mut target = multi(None, &[("a", 5, "x")]);
        target.put(path("b"), Cell::expiring(5, *b"y", 10, 100));
        target.put(path("c"), Cell::deleted(5, 50));
        let seen = |target: &MultiCell, now| target.live_cells(now).count();
        assert_eq!((seen(&target, 99), seen(&target, 100)), (2, 1));
        target.deletion = Some(Tombstone { timestamp: 5, deletion_time: 7 });
        assert_eq!(seen(&target, 0), 0);
    }
}
