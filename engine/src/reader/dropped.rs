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
    use crate::schema::table_schema::ColumnDrop;
    use crate::schema::{ClusteringKey, Column, ColumnKind, DataType, TableId, TableOptions};

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

    /// Of four columns one stays, one is gone, and two are back.
    #[test]
    fn every_kind_of_row_passes_without_what_went_with_the_columns_of_its_table() {
        let column = |name: &str, kind| Column { name: name.into(), ty: DataType::Blob, kind };
        let mut schema = TableSchema {
            id: TableId(1),
            keyspace: "ks".into(),
            name: "t".into(),
            columns: vec![
                column("k", ColumnKind::PartitionKey { position: 0 }),
                column("stays", ColumnKind::Regular),
                column("gone", ColumnKind::Dropped { was_static: false }),
                column("back", ColumnKind::Regular),
                column("later", ColumnKind::Regular),
            ],
            options: TableOptions::default(),
            drops: Vec::new(),
        };
        assert!(DroppedCells::of(&schema).is_none(), "nothing was dropped");
        schema.drops = [(2, 10), (3, 10), (4, 20)]
            .map(|(column, at)| ColumnDrop { column: ColumnId(column), at })
            .into();
        let dropped = DroppedCells::of(&schema).unwrap();
        for at in [-5, 9, 10, 11, 20, 21, i64::MAX] {
            let cells = [1, 2, 3, 4].map(|column| (ColumnId(column), Cell::live(at, *b"v")));
            let row = Rc::new(Row { cells: cells.into(), ..Row::default() });
            let wanted: Vec<u16> = match at {
                ..=10 => vec![1],
                11..=20 => vec![1, 3],
                _ => vec![1, 3, 4],
            };
            let key = Rc::new(ClusteringKey::from_ordered(*b"c"));
            let kinds = [
                Fragment::FlatRow(FlatRow::row(b"c", &row)),
                Fragment::StaticRow(row.clone()),
                Fragment::Row { key, row: row.clone() },
            ];
            for fragment in kinds {
                let what = format!("{fragment:?}");
                let left = match dropped.pass(fragment) {
                    Fragment::StaticRow(row) | Fragment::Row { row, .. } => row,
                    other => panic!("{other:?} is no row"),
                };
                let left: Vec<u16> = left.cells.iter().map(|(column, _)| column.0).collect();
                assert_eq!(left, wanted, "{what}");
            }
            assert_eq!(row.cells.len(), 4, "others that share the row keep all of it");
        }
        assert_eq!(dropped.pass(Fragment::PartitionEnd), Fragment::PartitionEnd);
    }
}
