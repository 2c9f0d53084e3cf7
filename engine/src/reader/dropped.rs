//! Cells of columns that were dropped: no reader sees them, and what is written anew lacks them.
//!
//! Memtables, the row cache and SSTables keep such cells as they are. They are left out where all
//! sources of a row are merged, so that nothing need be rebuilt or forgotten when a column goes.
//! Of a column that is back, cells are gone up to the timestamp of its drop, as in Cassandra.

use std::rc::Rc;

use crate::mutation::{FlatRow, Fragment, Row, RowView};
use crate::schema::{ColumnId, TableSchema};

/// Which cells of a table are gone with their columns.
#[derive(Debug, Clone)]
pub struct DroppedCells(Rc<[(ColumnId, i64)]>);

impl DroppedCells {
    /// Those of a table of which columns were dropped.
    pub fn of(schema: &TableSchema) -> Option<Self> {
        let until = schema.drops.iter().map(|drop| {
            let is_gone = schema.column(drop.column).is_dropped();
            (drop.column, if is_gone { i64::MAX } else { drop.at })
        });
        (!schema.drops.is_empty()).then(|| DroppedCells(until.collect()))
    }

    fn has(&self, column: ColumnId, timestamp: i64) -> bool {
        self.0.iter().any(|(dropped, until)| *dropped == column && timestamp <= *until)
    }

    /// Whether any of them is in a row.
    pub fn touch(&self, row: &Row) -> bool {
        row.cells.iter().any(|(column, cell)| self.has(*column, cell.timestamp))
            || row.multi.iter().any(|(column, multi)| {
                multi.deletion.is_some_and(|own| self.has(*column, own.timestamp))
                    || multi.cells.iter().any(|(_, cell)| self.has(*column, cell.timestamp))
            })
    }

    /// Whether a row without multi-cell columns has none of them.
    pub(crate) fn leave(&self, row: &RowView<'_>) -> bool {
        assert!(row.multi.is_empty(), "a row with multi-cell columns: {row:?}");
        !row.cells.iter().any(|cell| self.has(cell.column, cell.timestamp))
    }

    /// Whether any of them is among the single-cell columns of a flat row.
    pub fn touch_flat(&self, row: &FlatRow) -> bool {
        row.cells().any(|cell| self.has(cell.column, cell.timestamp))
    }

    /// Takes them out of a row. What is left may be nothing.
    pub fn leave_out(&self, row: &mut Rc<Row>) {
        if !self.touch(row) {
            return;
        }
        let row = Rc::make_mut(row);
        row.cells.retain(|(column, cell)| !self.has(*column, cell.timestamp));
        row.multi.retain_mut(|(column, multi)| {
            multi.deletion = multi.deletion.filter(|own| !self.has(*column, own.timestamp));
            multi.cells.retain(|(_, cell)| !self.has(*column, cell.timestamp));
            !multi.is_empty()
        });
        assert!(!self.touch(row), "a cell of a dropped column is left");
    }

    /// A fragment without them.
    pub fn pass(&self, fragment: Fragment) -> Fragment {
        match fragment.thawed() {
            Fragment::Row { key, mut row } => {
                self.leave_out(&mut row);
                Fragment::Row { key, row }
            }
            Fragment::StaticRow(mut row) => {
                self.leave_out(&mut row);
                Fragment::StaticRow(row)
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutation::{Cell, CellPath, MultiCell, Tombstone, ViewRoom};

    #[test]
    fn of_a_column_that_is_back_what_is_newer_stays() {
        let (gone, back, other) = (ColumnId(1), ColumnId(2), ColumnId(3));
        let dropped = DroppedCells(Rc::new([(gone, i64::MAX), (back, 10)]));
        let cell = |at| Cell::live(at, *b"v");
        let multi = |deleted, times: &[i64]| MultiCell {
            deletion: Some(Tombstone { timestamp: deleted, deletion_time: 1 }),
            cells: (0..)
                .zip(times)
                .map(|(n, at)| (CellPath::from_ordered([n]), cell(*at)))
                .collect(),
        };
        let of = |cells: &[(ColumnId, i64)]| Row {
            cells: cells.iter().map(|(column, at)| (*column, cell(*at))).collect(),
            ..Row::default()
        };
        let left = |row: Row| {
            let mut row = Rc::new(row);
            let flat = FlatRow::row(b"k", &row);
            let cells = of_cells(&row);
            assert_eq!(dropped.touch_flat(&flat), dropped.touch(&cells), "{row:?}");
            let leaves = ViewRoom::default().of_row(&cells, |cells| dropped.leave(&cells));
            assert_eq!(leaves, !dropped.touch(&cells), "{row:?}");
            dropped.leave_out(&mut row);
            assert!(!dropped.touch(&row), "{row:?}");
            (*row).clone()
        };
        fn of_cells(row: &Row) -> Row {
            Row { multi: Vec::new(), ..row.clone() }
        }
        assert_eq!(left(of(&[(gone, i64::MAX), (back, 10), (other, 0)])), of(&[(other, 0)]));
        assert_eq!(left(of(&[(back, 11), (other, 0)])), of(&[(back, 11), (other, 0)]));
        let row =
            Row { multi: vec![(gone, multi(99, &[])), (back, multi(9, &[10, 11]))], ..of(&[]) };
        let newer = (CellPath::from_ordered([1]), cell(11));
        let wanted = MultiCell { deletion: None, cells: vec![newer] };
        assert_eq!(left(row).multi, [(back, wanted)]);
        assert!(left(Row { multi: vec![(back, multi(10, &[10]))], ..of(&[]) }).is_empty());
    }
}
