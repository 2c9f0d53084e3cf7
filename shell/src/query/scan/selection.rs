//! What a scan reads of each row, and what of that leaves it.
//!
//! Invariant: a batch has the columns, then the stamps; of both those of the output come first.

use datafusion::arrow::datatypes::SchemaRef as ArrowSchemaRef;
use datafusion::common::{Result, internal_err};
use tidegate_engine::batch::{Stamp, read_schema};
use tidegate_engine::{ColumnId, TableSchema};

/// See the head of this file.
#[derive(Debug, Clone)]
pub struct Selection {
    columns: Vec<ColumnId>,
    output_columns: usize,
    stamps: Vec<Stamp>,
    output_stamps: usize,
}

impl Selection {
    /// What stands at these places of a table's columns, with these stamps behind them, is output.
    ///
    /// Errors: `Internal` for a column behind a stamp, which no rule of the planner asks for.
    pub fn of(table: &TableSchema, stamps: &[Stamp], places: &[usize]) -> Result<Self> {
        let all: Vec<ColumnId> = table.ids().collect();
        if !places.is_sorted_by_key(|place| *place >= all.len()) {
            return internal_err!("a scan is asked for the places {places:?} in this order");
        }
        let columns: Vec<ColumnId> =
            places.iter().filter_map(|place| all.get(*place)).copied().collect();
        let stamps: Vec<Stamp> =
            places[columns.len()..].iter().map(|place| stamps[place - all.len()]).collect();
        let (output_columns, output_stamps) = (columns.len(), stamps.len());
        Ok(Selection { columns, output_columns, stamps, output_stamps })
    }

    /// What another node selects: of both, the first ones are output.
    pub fn of_parts(
        (columns, output_columns): (Vec<ColumnId>, usize),
        (stamps, output_stamps): (Vec<Stamp>, usize),
    ) -> Self {
        debug_assert!(output_columns <= columns.len() && output_stamps <= stamps.len());
        Selection { columns, output_columns, stamps, output_stamps }
    }

    /// How many of the stamps are output.
    pub fn output_stamps(&self) -> usize {
        self.output_stamps
    }

    /// A predicate needs a column.
    pub fn need(&mut self, id: ColumnId) {
        if !self.columns.contains(&id) {
            self.columns.push(id);
        }
    }

    /// A predicate needs a stamp.
    pub fn need_stamp(&mut self, stamp: Stamp) {
        if !self.stamps.contains(&stamp) {
            self.stamps.push(stamp);
        }
    }

    /// All columns that are read.
    pub fn columns(&self) -> &[ColumnId] {
        &self.columns
    }

    /// All stamps that are read.
    pub fn stamps(&self) -> &[Stamp] {
        &self.stamps
    }

    /// The columns of the output, with which it begins.
    pub fn output(&self) -> &[ColumnId] {
        &self.columns[..self.output_columns]
    }

    /// The schema of what is read.
    pub fn read_schema(&self, table: &TableSchema) -> ArrowSchemaRef {
        read_schema(table, &self.columns, &self.stamps)
    }

    /// The schema of the output.
    pub fn schema(&self, table: &TableSchema) -> ArrowSchemaRef {
        read_schema(table, self.output(), &self.stamps[..self.output_stamps])
    }

    /// The places of the output among what is read.
    pub fn places(&self) -> Vec<usize> {
        let stamps = self.columns.len()..self.columns.len() + self.output_stamps;
        (0..self.output_columns).chain(stamps).collect()
    }
}
