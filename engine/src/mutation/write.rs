//! A write to one partition of one table.

use super::cell::{Cell, CellState};
use super::multi_cell::MultiCell;
use super::position::Weight;
use super::range_tombstone::RangeTombstone;
use super::row::Row;
use super::tombstone::{Tombstone, strongest};
use crate::config::PARTITION_KEY_BYTES_MAX;
use crate::error::{Error, Result};
use crate::schema::{
    ClusteringKey, ClusteringShape, Column, ColumnId, ColumnKind, DataType, PartitionKey, TableId,
    TableSchema,
};

/// Everything one statement does to one partition; applied as a whole or not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct Mutation {
    pub table: TableId,
    pub key: PartitionKey,
    /// Deletion of the whole partition.
    pub deletion: Option<Tombstone>,
    pub static_row: Option<Row>,
    pub rows: Vec<(ClusteringKey, Row)>,
    pub range_tombstones: Vec<RangeTombstone>,
}

impl Mutation {
    /// A mutation that does nothing yet.
    pub fn new(table: TableId, key: PartitionKey) -> Self {
        Mutation {
            table,
            key,
            deletion: None,
            static_row: None,
            rows: Vec::new(),
            range_tombstones: Vec::new(),
        }
    }

    /// The mutation; one that does nothing is left in its place, of the same table.
    pub(crate) fn take(&mut self) -> Mutation {
        let nothing = Mutation::new(self.table, PartitionKey::from_bytes([]));
        std::mem::replace(self, nothing)
    }

    /// Checks that keys are keys of `schema`, whose clustering keys have `shape`, and that every
    /// cell is one of its columns, of the right kind and shape: what passes can be written to an
    /// SSTable. Whether a value is one of its column's type is looked at no further than its
    /// length.
    ///
    /// Errors: `Invalid` naming the key or the column.
    pub fn check(&self, schema: &TableSchema, shape: &ClusteringShape) -> Result<()> {
        self.check_keys(schema, shape)?;
        let dropped = ColumnKind::Dropped { was_static: true };
        if let Some(row) = &self.static_row
            && !schema.has_static_columns()
            // Else its cells say more.
            && (row.is_empty() || !schema.columns.iter().any(|column| column.kind == dropped))
        {
            let name = schema.full_name();
            return Err(Error::invalid(format!("{name} has no static columns, and a static row")));
        }
        let rows = self.rows.iter().map(|(_, row)| (row, ColumnKind::Regular));
        let statics = self.static_row.iter().map(|row| (row, ColumnKind::Static));
        for (row, kind) in rows.chain(statics) {
            if !row.cells.is_sorted_by(|(a, _), (b, _)| a < b)
                || !row.multi.is_sorted_by(|(a, _), (b, _)| a < b)
            {
                let name = schema.full_name();
                let why = "cells of a row stand in the order of columns, one a column";
                return Err(Error::invalid(format!("{name}: {why}")));
            }
            for (id, cell) in &row.cells {
                let column = column(schema, *id, kind)?;
                check_cell(schema, column, cell)?;
            }
            for (id, multi) in &row.multi {
                let column = column(schema, *id, kind)?;
                if !column.ty.is_multi_cell() {
                    return Err(refusal(schema, column, "it is written as one cell"));
                }
                if multi.is_empty() {
                    return Err(refusal(schema, column, "nothing is written to it"));
                }
                check_paths(schema, column, multi)?;
            }
        }
        Ok(())
    }

    /// Whether it writes to a static or regular column.
    pub fn names(&self, column: ColumnId) -> bool {
        let rows = self.rows.iter().map(|(_, row)| row).chain(&self.static_row);
        rows.into_iter().any(|row| row.cell(column).is_some() || row.multi_cell(column).is_some())
    }

    /// Takes out the cells of columns that were dropped: a write from before the drop may have
    /// them. Says whether anything is left.
    pub fn leave_out_dropped(&mut self, schema: &TableSchema) -> bool {
        if schema.drops.is_empty() {
            return true;
        }
        let is_present = |id: ColumnId| {
            // What no schema of the table had stays, to be refused.
            schema.columns.get(usize::from(id.0)).is_none_or(|column| !column.is_dropped())
        };
        let has_content = |row: &mut Row| {
            let was_empty = row.is_empty();
            row.cells.retain(|(id, _)| is_present(*id));
            row.multi.retain(|(id, _)| is_present(*id));
            was_empty || !row.is_empty()
        };
        self.rows.retain_mut(|(_, row)| has_content(row));
        if self.static_row.as_mut().is_some_and(|row| !has_content(row)) {
            self.static_row = None;
        }
        let gone = schema.drops.iter().filter(|drop| !is_present(drop.column));
        for drop in gone {
            assert!(!self.names(drop.column), "a write keeps a cell of dropped {:?}", drop.column);
        }
        self.deletion.is_some()
            || self.static_row.is_some()
            || !self.rows.is_empty()
            || !self.range_tombstones.is_empty()
    }

    /// Adds another write to the same partition: together they are one.
    pub fn add(&mut self, other: Mutation) {
        assert!(self.table == other.table && self.key == other.key, "two partitions become one");
        self.deletion = strongest(self.deletion, other.deletion);
        match (&mut self.static_row, other.static_row) {
            (Some(own), Some(other)) => own.merge(&other),
            (own @ None, other) => *own = other,
            (Some(_), None) => {}
        }
        self.rows.extend(other.rows);
        self.range_tombstones.extend(other.range_tombstones);
    }

    /// Least timestamp of anything in it; `None` when there is nothing.
    pub fn oldest_timestamp(&self) -> Option<i64> {
        let deletion = self.deletion.map(|deletion| deletion.timestamp);
        let ranges = self.range_tombstones.iter().map(|range| range.tombstone.timestamp);
        let rows = self.rows.iter().map(|(_, row)| row).chain(&self.static_row);
        let rows = rows.filter_map(Row::oldest_timestamp);
        deletion.into_iter().chain(ranges).chain(rows).min()
    }

    /// Greatest timestamp of anything in it; `None` when there is nothing.
    pub fn newest_timestamp(&self) -> Option<i64> {
        let deletion = self.deletion.map(|deletion| deletion.timestamp);
        let ranges = self.range_tombstones.iter().map(|range| range.tombstone.timestamp);
        let rows = self.rows.iter().map(|(_, row)| row).chain(&self.static_row);
        let rows = rows.filter_map(Row::newest_timestamp);
        deletion.into_iter().chain(ranges).chain(rows).max()
    }

    /// Makes all of it later, so that its newest part has this timestamp. What came just before
    /// another part, as the deletion of an old collection does, still does.
    pub fn make_later(&mut self, timestamp: i64) {
        let Some(newest) = self.newest_timestamp() else { return };
        assert!(newest <= timestamp, "a write of {newest} would become older: {timestamp}");
        // What is far older than the rest stays as far behind, and never below the least.
        let later = |own: i64| timestamp.saturating_sub(newest.saturating_sub(own));
        let later_tombstone = |tombstone: &mut Tombstone| {
            tombstone.timestamp = later(tombstone.timestamp);
        };
        self.deletion.iter_mut().for_each(later_tombstone);
        let ranges = self.range_tombstones.iter_mut().map(|range| &mut range.tombstone);
        ranges.for_each(later_tombstone);
        let rows = self.rows.iter_mut().map(|(_, row)| row).chain(&mut self.static_row);
        rows.for_each(|row| row.change_timestamps(later));
        let after = self.newest_timestamp();
        assert_eq!(after, Some(timestamp), "a write of {newest} was made as late as {after:?}");
    }

    fn check_keys(&self, schema: &TableSchema, shape: &ClusteringShape) -> Result<()> {
        let refused = |what: &str, why: String| {
            let name = schema.full_name();
            Err(Error::invalid(format!("this is no {what} of {name}: {why}")))
        };
        let bytes = self.key.as_bytes().len();
        if bytes == 0 || bytes > PARTITION_KEY_BYTES_MAX {
            let why = format!("it has {bytes} bytes, 1 to {PARTITION_KEY_BYTES_MAX} are possible");
            return refused("partition key", why);
        }
        // One column takes any bytes.
        if schema.partition_key().nth(1).is_some()
            && let Err(error) = self.key.components(schema)
        {
            return refused("partition key", error.to_string());
        }
        for (key, _) in &self.rows {
            if let Err(why) = shape.check_whole(key) {
                return refused("clustering key", why);
            }
        }
        for deleted in &self.range_tombstones {
            for bound in [&deleted.range.start, &deleted.range.end] {
                if bound.weight == Weight::At {
                    let why = "it stands at a row, and not beside one".to_owned();
                    return refused("bound of a deleted range", why);
                }
                if let Err(why) = shape.check_prefix(&bound.prefix) {
                    return refused("bound of a deleted range", why);
                }
            }
        }
        Ok(())
    }
}

fn check_paths(schema: &TableSchema, column: &Column, multi: &MultiCell) -> Result<()> {
    let Some(ty) = column.ty.path_type() else { return Ok(()) };
    if !multi.cells.is_sorted_by(|(a, _), (b, _)| a < b) {
        return Err(refusal(schema, column, "its elements are not in order, or one comes twice"));
    }
    for (path, _) in &multi.cells {
        if path.stored(&ty).is_err() {
            return Err(refusal(schema, column, "an element's place is none of its type"));
        }
    }
    Ok(())
}

fn refusal(schema: &TableSchema, column: &Column, why: &str) -> Error {
    Error::invalid(format!(
        "column '{}' of {} is {}: {why}",
        column.name,
        schema.full_name(),
        column.ty.sql_name()
    ))
}

fn column(schema: &TableSchema, id: ColumnId, kind: ColumnKind) -> Result<&Column> {
    let found = schema.columns.get(usize::from(id.0));
    found.filter(|column| column.kind == kind).ok_or_else(|| {
        let name = schema.full_name();
        Error::invalid(match found.filter(|column| column.is_dropped()) {
            Some(column) => format!(
                "column '{}' of {name} was dropped, and a write to it came later: leave it out",
                column.name
            ),
            None => format!("column {} of {name} is none of the row's columns", id.0),
        })
    })
}

fn check_cell(schema: &TableSchema, column: &Column, cell: &Cell) -> Result<()> {
    if column.ty.is_multi_cell() {
        return Err(refusal(schema, column, "it is written element by element"));
    }
    let is_counter = column.ty == DataType::Counter;
    let (CellState::Live { value } | CellState::Expiring { value, .. }) = &cell.state else {
        let counts = matches!(cell.state, CellState::Counter { .. });
        return match counts && !is_counter {
            true => Err(refusal(schema, column, "it does not count")),
            false => Ok(()),
        };
    };
    if is_counter {
        return Err(refusal(schema, column, "a counter takes steps, and no values"));
    }
    match column.ty.fixed_bytes() {
        Some(bytes) if !value.is_empty() && value.len() != bytes => {
            Err(refusal(schema, column, &format!("{} bytes are no value of it", value.len())))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutation::{CellPath, ClusteringRange, Liveness, Position};
    use crate::schema::{ColumnDrop, TableOptions};

    /// A map that is replaced is deleted a moment before its elements: made one moment, they would
    /// go with what they replace.
    #[test]
    fn all_parts_of_a_write_become_later_by_the_same_time() {
        let tombstone = |timestamp| Tombstone { timestamp, deletion_time: 1 };
        let write = |by: i64| {
            let cells = vec![(CellPath::from_ordered([1]), Cell::live(by + 9, *b"e"))];
            let multi = MultiCell { deletion: Some(tombstone(by + 8)), cells };
            let row = Row {
                liveness: Some(Liveness::at(by + 7)),
                deletion: Some(tombstone(by + 4)),
                cells: vec![(ColumnId(1), Cell::live(by + 6, *b"v"))],
                multi: vec![(ColumnId(2), multi)],
            };
            let cells = vec![(ColumnId(3), Cell::deleted(by + 5, 1))];
            let deleted =
                RangeTombstone { range: ClusteringRange::full(), tombstone: tombstone(by + 3) };
            Mutation {
                deletion: Some(tombstone(by + 2)),
                static_row: Some(Row { cells, ..Row::default() }),
                rows: vec![(ClusteringKey::from_ordered([7]), row)],
                range_tombstones: vec![deleted],
                ..Mutation::new(TableId(1), PartitionKey::from_bytes(*b"k"))
            }
        };
        let mut later = write(0);
        later.make_later(1009);
        assert_eq!(later, write(1000));
        later.make_later(1009);
        assert_eq!(later, write(1000), "it is that late already");
    }

    #[test]
    fn only_cells_of_dropped_columns_are_left_out_and_those_of_no_column_are_refused() {
        let column = |name: &str, kind| Column { name: name.into(), ty: DataType::Blob, kind };
        let schema = TableSchema {
            id: TableId(1),
            keyspace: "ks".into(),
            name: "t".into(),
            columns: vec![
                column("p", ColumnKind::PartitionKey { position: 0 }),
                column("kept", ColumnKind::Regular),
                column("gone", ColumnKind::Dropped { was_static: false }),
                column("back", ColumnKind::Regular),
            ],
            options: TableOptions::default(),
            drops: [2, 3].map(|id| ColumnDrop { column: ColumnId(id), at: 5 }).to_vec(),
        };
        let nothing = || Mutation::new(TableId(1), PartitionKey::from_bytes(*b"k"));
        let write = |ids: &[u16]| {
            let cells = ids.iter().map(|id| (ColumnId(*id), Cell::live(1, *b"v"))).collect();
            let elements = |id: &u16| {
                let cells = vec![(CellPath::from_ordered([1]), Cell::live(1, *b"e"))];
                (ColumnId(*id), MultiCell { deletion: None, cells })
            };
            let multi = ids.iter().map(elements).collect();
            let row = Row { cells, multi, ..Row::default() };
            let rows = vec![(ClusteringKey::empty(), row.clone())];
            Mutation { rows, static_row: Some(row), ..nothing() }
        };
        let left = |ids: &[u16]| {
            let mut left = write(ids);
            (left.leave_out_dropped(&schema), left)
        };
        assert_eq!(left(&[1, 2, 3, 9]), (true, write(&[1, 3, 9])));
        assert_eq!(left(&[2]), (false, nothing()));
        assert_eq!(left(&[]), (true, write(&[])), "rows that were empty stay");
        let mut deletes = write(&[2]);
        deletes.deletion = Some(Tombstone { timestamp: 1, deletion_time: 1 });
        let wanted = Mutation { deletion: deletes.deletion, ..nothing() };
        assert!(deletes.leave_out_dropped(&schema));
        assert_eq!(deletes, wanted);
        let unknown = Mutation { static_row: None, ..left(&[1, 2, 9]).1 };
        let refused = unknown.check(&schema, &ClusteringShape::of(&schema)).unwrap_err();
        assert_eq!(refused.to_string(), "column 9 of ks.t is none of the row's columns");
    }

    fn nothing() -> Mutation {
        Mutation::new(TableId(1), PartitionKey::from_bytes(*b"k"))
    }

    /// Writes of this time: a deletion, a static row, a row and a deleted range.
    fn parts(timestamp: i64) -> [Mutation; 4] {
        let tombstone = Tombstone { timestamp, deletion_time: 1 };
        let cells = vec![(ColumnId(1), Cell::live(timestamp, *b"v"))];
        let row = Row { cells, ..Row::default() };
        let range = RangeTombstone { range: ClusteringRange::full(), tombstone };
        [
            Mutation { deletion: Some(tombstone), ..nothing() },
            Mutation { static_row: Some(row.clone()), ..nothing() },
            Mutation { rows: vec![(ClusteringKey::empty(), row)], ..nothing() },
            Mutation { range_tombstones: vec![range], ..nothing() },
        ]
    }

    #[test]
    fn two_writes_to_one_partition_are_one_with_the_parts_of_both() {
        for (first, second) in (0..4).flat_map(|first| (0..4).map(move |second| (first, second))) {
            let (a, b) = (parts(3)[first].clone(), parts(8)[second].clone());
            for (own, other) in [(&a, &b), (&b, &a)] {
                let mut both = own.clone();
                both.add(other.clone());
                // A partition has one deletion and one static row: what is newer stands.
                let is_replaced = first == second && first < 2;
                let times = (both.oldest_timestamp(), both.newest_timestamp());
                let oldest = if is_replaced { 8 } else { 3 };
                assert_eq!(times, (Some(oldest), Some(8)), "{own:?} and {other:?}");
                assert_eq!(both.rows.len(), a.rows.len() + b.rows.len());
                let ranges = a.range_tombstones.len() + b.range_tombstones.len();
                assert_eq!(both.range_tombstones.len(), ranges);
            }
        }
    }

    #[test]
    fn what_no_file_could_hold_is_refused_and_the_key_or_column_is_named() {
        let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
        let order = crate::schema::ClusteringOrder::Ascending;
        let schema = TableSchema {
            id: TableId(1),
            keyspace: "ks".into(),
            name: "t".into(),
            columns: vec![
                column("p", DataType::Blob, ColumnKind::PartitionKey { position: 0 }),
                column("c", DataType::Blob, ColumnKind::ClusteringKey { position: 0, order }),
                column("v", DataType::Blob, ColumnKind::Regular),
                column("m", DataType::set_of(DataType::Int), ColumnKind::Regular),
            ],
            options: TableOptions::default(),
            drops: Vec::new(),
        };
        let check = |write: &Mutation| write.check(&schema, &ClusteringShape::of(&schema));
        let key = ClusteringKey::from_stored(&schema, [&b"c"[..]]).unwrap();
        let of_key = |bytes| {
            let key = PartitionKey::from_bytes(vec![7_u8; bytes]);
            Mutation { key, ..nothing() }
        };
        let row = |key: ClusteringKey, row| Mutation { rows: vec![(key, row)], ..nothing() };
        let ends = |start| {
            let range = ClusteringRange { start, end: Position::end() };
            let tombstone = Tombstone { timestamp: 1, deletion_time: 1 };
            Mutation { range_tombstones: vec![RangeTombstone { range, tombstone }], ..nothing() }
        };
        let cells = |ids: [u16; 2]| {
            let cells = ids.map(|id| (ColumnId(id), Cell::live(1, *b"v"))).to_vec();
            row(key.clone(), Row { cells, ..Row::default() })
        };
        let element = |number: i32| CellPath::from_stored(&DataType::Int, &number.to_be_bytes());
        let elements = |paths: Vec<CellPath>| {
            let cells = paths.into_iter().map(|path| (path, Cell::live(1, *b""))).collect();
            let multi = vec![(ColumnId(3), MultiCell { deletion: None, cells })];
            row(key.clone(), Row { multi, ..Row::default() })
        };
        let both = |numbers: [i32; 2]| elements(numbers.map(|at| element(at).unwrap()).to_vec());
        let longest = PARTITION_KEY_BYTES_MAX;
        for good in [of_key(1), of_key(longest), ends(Position::after(key.clone())), both([1, 2])] {
            check(&good).unwrap();
        }
        let no_key = ClusteringKey::from_ordered([9]);
        let refused = [
            (of_key(0), "no partition key of ks.t: it has 0 bytes"),
            (of_key(longest + 1), "no partition key of ks.t: it has 65536 bytes, 1 to 65535"),
            (row(ClusteringKey::empty(), Row::default()), "it has 0 of 1 values"),
            (row(no_key.clone(), Row::default()), "no clustering key of ks.t"),
            (ends(Position::at(key.clone())), "it stands at a row, and not beside one"),
            (ends(Position::before(no_key)), "no bound of a deleted range of ks.t"),
            (parts(1)[1].clone(), "ks.t has no static columns"),
            (cells([3, 2]), "cells of a row stand in the order of columns"),
            (cells([2, 2]), "cells of a row stand in the order of columns"),
            (both([2, 1]), "'m' of ks.t is set<int>: its elements are not in order"),
            (both([1, 1]), "its elements are not in order, or one comes twice"),
            (elements(vec![CellPath::from_ordered([9])]), "an element's place is none of its type"),
        ];
        for (write, wanted) in refused {
            let error = check(&write).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}, and not: {wanted}");
        }
    }
}
