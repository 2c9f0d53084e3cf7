//! What a read tells of a cell beside its value: when it was written, and how long it has left.

use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};

use super::types::{arrow_schema, arrow_type};
use crate::error::{Error, Result};
use crate::mutation::{Cell, CellState};
use crate::schema::{ColumnId, DataType, TableSchema};

/// As [`arrow_schema`], with these stamps behind the columns.
pub fn read_schema(schema: &TableSchema, columns: &[ColumnId], stamps: &[Stamp]) -> SchemaRef {
    let columns = arrow_schema(schema, columns);
    if stamps.is_empty() {
        return columns;
    }
    let stamps = stamps.iter().map(|stamp| Arc::new(stamp.field(schema)));
    Arc::new(Schema::new(columns.fields().iter().cloned().chain(stamps).collect::<Vec<FieldRef>>()))
}

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StampKind {
    /// Microseconds since the epoch, as the writer said: a `bigint`.
    WriteTime,
    /// Seconds from the instant of the read on: an `int`. Nothing for a value that stays.
    TimeToLive,
}

/// A stamp of a regular or static column. It is nothing where a reader sees no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp {
    pub column: ColumnId,
    pub kind: StampKind,
}

impl StampKind {
    /// The function of CQL that gives it.
    pub fn function(self) -> &'static str {
        match self {
            StampKind::WriteTime => "writetime",
            StampKind::TimeToLive => "ttl",
        }
    }

    pub fn data_type(self) -> DataType {
        match self {
            StampKind::WriteTime => DataType::BigInt,
            StampKind::TimeToLive => DataType::Int,
        }
    }
}

impl Stamp {
    /// Errors: `Invalid` for a key column, and for one of several cells, each with its own stamps.
    pub fn check(&self, schema: &TableSchema) -> Result<()> {
        let column = schema.column(self.column);
        let (function, name) = (self.kind.function(), &column.name);
        if column.is_key() {
            return Err(Error::invalid(format!(
                "{function}({name}): a column of the primary key has no time of its own"
            )));
        }
        if column.ty.is_multi_cell() {
            return Err(Error::invalid(format!(
                "{function}({name}): each element of {} has a time of its own",
                column.ty.sql_name()
            )));
        }
        Ok(())
    }

    /// What the column of a batch is called: `writetime(v)`.
    pub fn name(&self, schema: &TableSchema) -> String {
        format!("{}({})", self.kind.function(), schema.column(self.column).name)
    }

    /// The field of a batch.
    pub fn field(&self, schema: &TableSchema) -> Field {
        Field::new(self.name(schema), arrow_type(&self.kind.data_type()), true)
    }

    /// What a reader at `now` (seconds) is told of a cell, as values are stored.
    pub(super) fn stored(&self, cell: &Cell, now: i32) -> Option<Stored> {
        cell.value_at(now)?;
        match (self.kind, &cell.state) {
            (StampKind::WriteTime, _) => Some(Stored::Long(cell.timestamp.to_be_bytes())),
            (StampKind::TimeToLive, CellState::Expiring { expiry, .. }) => {
                debug_assert!(*expiry > now, "a value that has ended at {expiry} is seen at {now}");
                Some(Stored::Int((expiry - now).to_be_bytes()))
            }
            (StampKind::TimeToLive, _) => None,
        }
    }
}

/// A stamp's bytes.
pub(super) enum Stored {
    Long([u8; 8]),
    Int([u8; 4]),
}

impl Stored {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Stored::Long(bytes) => bytes,
            Stored::Int(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_nobody_sees_has_no_stamps() {
        let stamp = |kind| Stamp { column: ColumnId(1), kind };
        let of = |cell: &Cell, kind, now| {
            let stored = stamp(kind).stored(cell, now);
            stored.map(|stored| stored.bytes().to_vec())
        };
        let (written, left) = (StampKind::WriteTime, StampKind::TimeToLive);
        let long = |time: i64| Some(time.to_be_bytes().to_vec());
        let int = |seconds: i32| Some(seconds.to_be_bytes().to_vec());
        let live = Cell::live(-7, *b"v");
        assert_eq!((of(&live, written, 5), of(&live, left, 5)), (long(-7), None));
        let ends = Cell::expiring(9, *b"v", 30, 100);
        assert_eq!((of(&ends, written, 99), of(&ends, left, 99)), (long(9), int(1)));
        assert_eq!(of(&ends, left, 70), int(30));
        assert_eq!((of(&ends, written, 100), of(&ends, left, 100)), (None, None));
        let deleted = Cell::deleted(9, 50);
        assert_eq!((of(&deleted, written, 5), of(&deleted, left, 5)), (None, None));
    }
}
