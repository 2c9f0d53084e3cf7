//! A write to one partition of one table.

use super::cell::{Cell, CellState};
use super::range_tombstone::RangeTombstone;
use super::row::Row;
use super::tombstone::Tombstone;
use crate::error::{Error, Result};
use crate::schema::{
    ClusteringKey, Column, ColumnId, ColumnKind, DataType, PartitionKey, TableId, TableSchema,
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
    /// Checks that every cell is one of a column of `schema`, of the right kind and shape. Whether a
    /// value is one of its column's type is looked at no further than its length.
    ///
    /// Errors: `Invalid` naming the column.
    pub fn check(&self, schema: &TableSchema) -> Result<()> {
        let rows = self.rows.iter().map(|(_, row)| (row, ColumnKind::Regular));
        let statics = self.static_row.iter().map(|row| (row, ColumnKind::Static));
        for (row, kind) in rows.chain(statics) {
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
            }
        }
        Ok(())
    }
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
    schema.columns.get(usize::from(id.0)).filter(|column| column.kind == kind).ok_or_else(|| {
        let name = schema.full_name();
        Error::invalid(format!("column {} of {name} is none of the row's columns", id.0))
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
        return Err(refusal(schema, column, "counters are read, not written"));
    }
    match column.ty.fixed_bytes() {
        Some(bytes) if !value.is_empty() && value.len() != bytes => {
            Err(refusal(schema, column, &format!("{} bytes are no value of it", value.len())))
        }
        _ => Ok(()),
    }
}
