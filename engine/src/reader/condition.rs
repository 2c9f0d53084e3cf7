//! What must hold of a row for a write to be done, judged on what a reader sees of it.
//!
//! Values compare in the order that they have as clustering values. As in CQL, null equals null
//! alone, and a row that does not exist has null in all columns.

use super::row_values::{RowValues, has_value};
use crate::error::{Error, Result};
use crate::mutation::Tombstone;
use crate::schema::order::encode_component;
use crate::schema::{
    ClusteringKey, ClusteringOrder, Column, ColumnId, ColumnKind, DataType, TableSchema, Value,
};

/// A condition on one row of a partition, or on its static row.
#[derive(Debug, Clone, PartialEq)]
pub struct RowCondition {
    /// Empty in a table without clustering columns; `None` for the static row.
    pub row: Option<ClusteringKey>,
    pub condition: Condition,
}

/// What must hold of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// The row is not there. Of a static row: no static column has a value.
    NotExists,
    Exists,
    /// All of these.
    All(Vec<Comparison>),
}

/// A comparison of a regular or static column with constants.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    pub column: ColumnId,
    pub comparator: Comparator,
}

/// How the value of a column compares; `None` is null, which no order takes.
#[derive(Debug, Clone, PartialEq)]
pub enum Comparator {
    Equal(Option<Value>),
    NotEqual(Option<Value>),
    Less(Value),
    LessOrEqual(Value),
    Greater(Value),
    GreaterOrEqual(Value),
    In(Vec<Option<Value>>),
}

/// What a reader sees of a row, and how new it is.
#[derive(Debug, Clone, Default)]
pub struct RowState {
    /// Values of the row and of the static columns beside it, where there are any.
    pub values: Option<RowValues>,
    /// Whether the row itself is there.
    pub exists: bool,
    /// Timestamp of the newest cell or tombstone that has to do with it.
    pub newest: Option<i64>,
}

impl RowState {
    /// Takes note of a timestamp.
    pub fn note(&mut self, timestamp: Option<i64>) {
        self.newest = self.newest.max(timestamp);
    }

    /// Takes note of a tombstone.
    pub fn note_tombstone(&mut self, tombstone: Option<Tombstone>) {
        self.note(tombstone.map(|tombstone| tombstone.timestamp));
    }

    fn has_static(&self, schema: &TableSchema) -> bool {
        let statics = schema.ids().filter(|id| schema.column(*id).kind == ColumnKind::Static);
        statics.into_iter().any(|id| self.stored(id, schema.column(id)).is_some())
    }

    fn stored(&self, id: ColumnId, column: &Column) -> Option<&[u8]> {
        self.values.as_ref()?.stored(id).filter(|stored| has_value(&column.ty, stored))
    }
}

impl RowCondition {
    /// Checks that the row can be named so and that its columns can be compared so.
    ///
    /// Errors: `Invalid` naming the column.
    pub fn check(&self, schema: &TableSchema) -> Result<()> {
        let is_static = self.row.is_none();
        if is_static && !schema.has_static_columns() {
            let table = schema.full_name();
            return Err(Error::invalid(format!("{table} has no static columns to look at")));
        }
        let Condition::All(comparisons) = &self.condition else { return Ok(()) };
        comparisons.iter().try_for_each(|comparison| comparison.check(schema, is_static))
    }

    /// Whether it holds of the row as it is.
    ///
    /// Errors: `Invalid` where stored bytes are no value of their column.
    pub fn holds(&self, schema: &TableSchema, state: &RowState) -> Result<bool> {
        let exists = match self.row {
            Some(_) => state.exists,
            None => state.has_static(schema),
        };
        match &self.condition {
            Condition::NotExists => Ok(!exists),
            Condition::Exists => Ok(exists),
            Condition::All(comparisons) => {
                for Comparison { column: id, comparator } in comparisons {
                    let column = schema.column(*id);
                    if !comparator.holds(&column.ty, state.stored(*id, column))? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }
}

impl Comparison {
    fn check(&self, schema: &TableSchema, is_static: bool) -> Result<()> {
        let refused = |name: &str, why: &str| {
            let table = schema.full_name();
            Err(Error::invalid(format!("column '{name}' of {table} is not compared: {why}")))
        };
        let Some(column) = schema.columns.get(usize::from(self.column.0)) else {
            return refused(&format!("number {}", self.column.0), "the table has no such column");
        };
        match column.kind {
            ColumnKind::Static => {}
            ColumnKind::Regular if !is_static => {}
            ColumnKind::Regular => return refused(&column.name, "it needs the key of a row"),
            ColumnKind::Dropped { .. } => return refused(&column.name, "it was dropped"),
            ColumnKind::PartitionKey { .. } | ColumnKind::ClusteringKey { .. } => {
                return refused(&column.name, "it is part of the key");
            }
        }
        if column.ty.is_multi_cell() || column.ty == DataType::Counter {
            return refused(&column.name, "a condition takes columns of one value");
        }
        for value in self.comparator.values() {
            if !value.fits(&column.ty) {
                let (wanted, found) = (column.ty.sql_name(), value.type_name());
                return refused(&column.name, &format!("wanted {wanted}, found {found}"));
            }
            ordered(&column.ty, &value.to_bytes())?;
        }
        Ok(())
    }
}

impl Comparator {
    /// The constants that are not null.
    fn values(&self) -> impl Iterator<Item = &Value> {
        let (one, many): (Option<&Value>, &[Option<Value>]) = match self {
            Comparator::Equal(value) | Comparator::NotEqual(value) => (value.as_ref(), &[]),
            Comparator::Less(value)
            | Comparator::LessOrEqual(value)
            | Comparator::Greater(value)
            | Comparator::GreaterOrEqual(value) => (Some(value), &[]),
            Comparator::In(values) => (None, values),
        };
        one.into_iter().chain(many.iter().flatten())
    }

    fn holds(&self, ty: &DataType, stored: Option<&[u8]>) -> Result<bool> {
        let found = stored.map(|stored| ordered(ty, stored)).transpose()?;
        let wanted = |value: &Value| ordered(ty, &value.to_bytes());
        let is_equal = |value: &Option<Value>| match (&found, value) {
            (Some(found), Some(value)) => Ok(*found == wanted(value)?),
            (found, value) => Ok(found.is_none() && value.is_none()),
        };
        let against = |value: &Value| match &found {
            Some(found) => Ok(Some(found.cmp(&wanted(value)?))),
            None => Ok::<_, Error>(None),
        };
        Ok(match self {
            Comparator::Equal(value) => is_equal(value)?,
            Comparator::NotEqual(value) => !is_equal(value)?,
            Comparator::Less(value) => against(value)?.is_some_and(|order| order.is_lt()),
            Comparator::LessOrEqual(value) => against(value)?.is_some_and(|order| order.is_le()),
            Comparator::Greater(value) => against(value)?.is_some_and(|order| order.is_gt()),
            Comparator::GreaterOrEqual(value) => against(value)?.is_some_and(|order| order.is_ge()),
            Comparator::In(values) => {
                let found = values.iter().map(is_equal).collect::<Result<Vec<bool>>>()?;
                found.contains(&true)
            }
        })
    }
}

fn ordered(ty: &DataType, stored: &[u8]) -> Result<Vec<u8>> {
    let mut ordered = Vec::with_capacity(stored.len() + 4);
    encode_component(ty, ClusteringOrder::Ascending, stored, &mut ordered)?;
    debug_assert!(!ordered.is_empty(), "a value of {} has no ordered form", ty.sql_name());
    Ok(ordered)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(comparator: &Comparator, found: Option<Value>, ty: &DataType) -> bool {
        let found = found.map(|found| found.to_bytes());
        comparator.holds(ty, found.as_deref()).unwrap()
    }

    #[test]
    fn numbers_compare_by_their_value_and_null_by_equality_alone() {
        let int = |value: i32| Value::Int(value);
        let some = |value: i32| Some(int(value));
        let cases: [(Comparator, [bool; 4]); 9] = [
            // Against null, -5, 3 and 7.
            (Comparator::Equal(some(3)), [false, false, true, false]),
            (Comparator::Equal(None), [true, false, false, false]),
            (Comparator::NotEqual(some(3)), [true, true, false, true]),
            (Comparator::NotEqual(None), [false, true, true, true]),
            (Comparator::Less(int(3)), [false, true, false, false]),
            (Comparator::LessOrEqual(int(3)), [false, true, true, false]),
            (Comparator::Greater(int(3)), [false, false, false, true]),
            (Comparator::GreaterOrEqual(int(3)), [false, false, true, true]),
            (Comparator::In(vec![some(7), None]), [true, false, false, true]),
        ];
        for (comparator, wanted) in cases {
            let found = [None, some(-5), some(3), some(7)];
            let found = found.map(|found| holds(&comparator, found, &DataType::Int));
            assert_eq!(found, wanted, "{comparator:?}");
        }
        assert!(!holds(&Comparator::In(Vec::new()), some(1), &DataType::Int));
    }

    #[test]
    fn an_empty_text_is_a_value() {
        let empty = || Some(Value::Text("".into()));
        assert!(holds(&Comparator::Equal(empty()), empty(), &DataType::Text));
        assert!(!holds(&Comparator::Equal(empty()), None, &DataType::Text));
        assert!(holds(&Comparator::Less(Value::Text("a".into())), empty(), &DataType::Text));
    }
}
