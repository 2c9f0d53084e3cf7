//! What SSTables say of one row: the answer to the commonest read, without a stream around it.

use std::rc::Rc;

use super::flat::FlatRow;
use super::row::Row;
use super::tombstone::{Tombstone, strongest};

/// A row of a partition that exists, as one SSTable has it, or several of them together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PointRead {
    /// The deletion of the partition and its static row; nobody may rely on them who did not ask
    /// for them.
    pub deletion: Option<Tombstone>,
    pub static_row: Option<Rc<Row>>,
    /// The range tombstone in force at the row; the row is as it is stored, whatever that covers.
    pub tombstone: Option<Tombstone>,
    /// `None` where no such row is stored.
    pub row: Option<FlatRow>,
}

impl PointRead {
    /// Takes in what another SSTable says.
    pub fn merge(&mut self, other: PointRead) {
        self.deletion = strongest(self.deletion, other.deletion);
        self.tombstone = strongest(self.tombstone, other.tombstone);
        match (&mut self.static_row, other.static_row) {
            (Some(own), Some(other)) => Rc::make_mut(own).merge(&other),
            (own @ None, other) => *own = other,
            (Some(_), None) => {}
        }
        match (&mut self.row, other.row) {
            (Some(own), Some(other)) => {
                debug_assert_eq!(own.key(), other.key(), "rows of two places are merged");
                let mut row = own.thaw();
                row.merge(&other.thaw());
                *own = FlatRow::row(own.key(), &row);
            }
            (own @ None, other) => *own = other,
            (Some(_), None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutation::{Cell, Liveness};
    use crate::schema::ColumnId;

    const DELETION: u8 = 1;
    const TOMBSTONE: u8 = 2;
    const STATIC: u8 = 4;
    const ROW: u8 = 8;

    /// A row that another one, of another time, does not cover.
    fn row(timestamp: i64) -> Row {
        let own = (ColumnId(timestamp as u16), Cell::live(timestamp, *b"own"));
        let shared = (ColumnId(9), Cell::live(timestamp, *b"shared"));
        let liveness = Some(Liveness::at(timestamp));
        Row { liveness, cells: vec![own, shared], ..Row::default() }
    }

    fn read(parts: u8, timestamp: i64) -> PointRead {
        let has = |part: u8| parts & part != 0;
        let tombstone = |deletion_time| Tombstone { timestamp, deletion_time };
        PointRead {
            deletion: has(DELETION).then(|| tombstone(1)),
            static_row: has(STATIC).then(|| Rc::new(row(timestamp))),
            tombstone: has(TOMBSTONE).then(|| tombstone(2)),
            row: has(ROW).then(|| FlatRow::row(b"k", &row(timestamp))),
        }
    }

    /// Each part may be in neither SSTable, in the older one, in the newer one, and in both.
    #[test]
    fn every_part_is_that_of_both_sstables_whichever_comes_first() {
        let mut both = row(1);
        both.merge(&row(2));
        assert_eq!(both.cells.len(), 3, "each has a cell of its own");
        for (older, newer) in (0..16).flat_map(|older| (0..16).map(move |newer| (older, newer))) {
            let newest = |part: u8| match (older & part != 0, newer & part != 0) {
                (_, true) => Some(2),
                (true, false) => Some(1),
                (false, false) => None,
            };
            let tombstone = |part: u8, deletion_time| {
                newest(part).map(|timestamp| Tombstone { timestamp, deletion_time })
            };
            let whole = |part: u8| match older & newer & part != 0 {
                true => Some(both.clone()),
                false => newest(part).map(row),
            };
            for is_older_first in [true, false] {
                let (mut merged, other) = match is_older_first {
                    true => (read(older, 1), read(newer, 2)),
                    false => (read(newer, 2), read(older, 1)),
                };
                merged.merge(other);
                let what = format!("parts {older:#06b} and {newer:#06b}, {is_older_first}");
                assert_eq!(merged.deletion, tombstone(DELETION, 1), "{what}");
                assert_eq!(merged.tombstone, tombstone(TOMBSTONE, 2), "{what}");
                assert_eq!(merged.static_row.as_deref(), whole(STATIC).as_ref(), "{what}");
                let found = merged.row.as_ref().map(|row| (row.key(), row.thaw()));
                assert_eq!(found, whole(ROW).map(|row| (&b"k"[..], row)), "{what}");
            }
        }
    }
}
