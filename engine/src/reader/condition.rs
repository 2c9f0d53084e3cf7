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
    use std::sync::Arc;

    use super::*;
    use crate::schema::{PartitionKey, TableId, TableOptions};

    /// `p int, c int, s int static, v int, m set<int>`, a column that was dropped, `n counter`
    fn schema() -> TableSchema {
        let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
        let order = ClusteringOrder::Ascending;
        TableSchema {
            id: TableId(1),
            keyspace: "ks".into(),
            name: "t".into(),
            columns: vec![
                column("p", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
                column("c", DataType::Int, ColumnKind::ClusteringKey { position: 0, order }),
                column("s", DataType::Int, ColumnKind::Static),
                column("v", DataType::Int, ColumnKind::Regular),
                column("m", DataType::set_of(DataType::Int), ColumnKind::Regular),
                column("gone", DataType::Int, ColumnKind::Dropped { was_static: false }),
                column("n", DataType::Counter, ColumnKind::Regular),
            ],
            options: TableOptions::default(),
            drops: Vec::new(),
        }
    }

    fn equal(column: u16, value: i32) -> Comparison {
        let comparator = Comparator::Equal(Some(Value::Int(value)));
        Comparison { column: ColumnId(column), comparator }
    }

    #[test]
    fn columns_that_no_condition_can_look_at_are_refused_by_name() {
        let schema = schema();
        let check = |is_static: bool, comparison: Comparison| {
            let row = (!is_static).then(ClusteringKey::empty);
            let condition = Condition::All(vec![comparison]);
            RowCondition { row, condition }.check(&schema)
        };
        for (is_static, column) in [(false, 2), (false, 3), (true, 2)] {
            check(is_static, equal(column, 1)).unwrap();
        }
        let text = || Value::Text("x".into());
        let of_v = |comparator| Comparison { column: ColumnId(3), comparator };
        let refused = [
            (false, equal(9, 1), "'number 9' of ks.t is not compared: the table has no such"),
            (false, equal(0, 1), "'p' of ks.t is not compared: it is part of the key"),
            (true, equal(1, 1), "'c' of ks.t is not compared: it is part of the key"),
            (true, equal(3, 1), "'v' of ks.t is not compared: it needs the key of a row"),
            (false, equal(4, 1), "'m' of ks.t is not compared: a condition takes columns of one"),
            (false, equal(5, 1), "'gone' of ks.t is not compared: it was dropped"),
            (false, equal(6, 1), "'n' of ks.t is not compared: a condition takes columns of one"),
            (false, of_v(Comparator::NotEqual(Some(text()))), "'v' of ks.t is not compared"),
            (false, of_v(Comparator::GreaterOrEqual(text())), "wanted int, found text"),
            (
                false,
                of_v(Comparator::In(vec![None, Some(Value::Int(1)), Some(text())])),
                "wanted int, found text",
            ),
        ];
        for (is_static, comparison, wanted) in refused {
            let error = check(is_static, comparison).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}, and not: {wanted}");
        }
        let mut plain = schema.clone();
        plain.columns[2].kind = ColumnKind::Regular;
        let exists = |row| RowCondition { row, condition: Condition::Exists }.check(&plain);
        exists(Some(ClusteringKey::empty())).unwrap();
        let error = exists(None).unwrap_err().to_string();
        assert!(error.contains("ks.t has no static columns to look at"), "{error}");
    }

    /// A partition may have a row, static columns, both or nothing.
    #[test]
    fn a_static_row_is_there_by_its_values_and_another_by_itself() {
        let schema = schema();
        let bytes = |value: i32| value.to_be_bytes().to_vec();
        let state = |values: &[(ColumnId, Vec<u8>)], exists| {
            let key = (PartitionKey::from_bytes(*b"k"), ClusteringKey::empty());
            let values = RowValues::of_stored(Arc::new(schema.clone()), key.into(), values);
            RowState { values: Some(values), exists, newest: None }
        };
        let (s, v) = (ColumnId(2), ColumnId(3));
        // What is there: the row, the static row.
        let cases = [
            (RowState::default(), [false, false]),
            (state(&[(s, bytes(1))], false), [false, true]),
            (state(&[(s, Vec::new())], false), [false, false]),
            (state(&[(v, bytes(2))], true), [true, false]),
            (state(&[(s, bytes(1)), (v, bytes(2))], true), [true, true]),
        ];
        let holds = |row: &Option<ClusteringKey>, condition: Condition, state: &RowState| {
            RowCondition { row: row.clone(), condition }.holds(&schema, state).unwrap()
        };
        let rows = [Some(ClusteringKey::empty()), None];
        for (state, wanted) in &cases {
            for (row, is_there) in rows.iter().zip(wanted) {
                assert_eq!(holds(row, Condition::Exists, state), *is_there, "{row:?}: {state:?}");
                assert_eq!(holds(row, Condition::NotExists, state), !is_there, "{row:?}");
            }
        }
        // All comparisons must hold; a static column is compared also where there is no row.
        let all = |comparisons, (state, _): &(RowState, [bool; 2])| {
            holds(&rows[0], Condition::All(comparisons), state)
        };
        let both = |v| vec![equal(2, 1), equal(3, v)];
        assert!(all(vec![equal(2, 1)], &cases[1]) && !all(vec![equal(2, 1)], &cases[2]));
        assert!(all(both(2), &cases[4]) && !all(both(3), &cases[4]) && !all(both(2), &cases[3]));
    }

    #[test]
    fn the_newest_of_all_that_was_noted_is_kept() {
        let tombstone = |timestamp| Some(Tombstone { timestamp, deletion_time: 90 });
        let mut state = RowState::default();
        state.note(None);
        state.note_tombstone(None);
        assert_eq!(state.newest, None);
        state.note_tombstone(tombstone(-5));
        assert_eq!(state.newest, Some(-5));
        state.note(Some(7));
        state.note_tombstone(tombstone(6));
        state.note(None);
        assert_eq!(state.newest, Some(7));
    }

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

    #[test]
    fn values_of_ordered_types_compare_as_they_are_sorted() {
        let cases = [
            (DataType::Boolean, [false, true].map(Value::Boolean).to_vec()),
            (DataType::TinyInt, [i8::MIN, -1, 0, i8::MAX].map(Value::TinyInt).to_vec()),
            (DataType::SmallInt, [i16::MIN, -1, 0, 255, 256].map(Value::SmallInt).to_vec()),
            (DataType::Int, [i32::MIN, -1, 0, i32::MAX].map(Value::Int).to_vec()),
            (DataType::BigInt, [i64::MIN, -256, -1, 0, i64::MAX].map(Value::BigInt).to_vec()),
            (DataType::Float, [-1e9, -1.5, -0.5, 0.0, 2.5].map(Value::Float).to_vec()),
            (DataType::Double, [-1e9, -1.5, -0.5, 0.0, 2.5].map(Value::Double).to_vec()),
            (DataType::Date, [i32::MIN, -1, 0, i32::MAX].map(Value::Date).to_vec()),
            (DataType::Time, [0, 1, 86_399_999_999_999].map(Value::Time).to_vec()),
            (DataType::Timestamp, [i64::MIN, -1, 0, 1].map(Value::Timestamp).to_vec()),
            (
                DataType::Text,
                ["", "B", "a", "a\u{1}", "ab", "b"].map(|text| Value::Text(text.into())).to_vec(),
            ),
            (
                DataType::Blob,
                [vec![], vec![0], vec![0, 0], vec![0, 255], vec![1]].map(Value::Blob).to_vec(),
            ),
            (
                // -256, -128, -1, 0, 127, 128
                DataType::Varint,
                [vec![255, 0], vec![128], vec![255], vec![0], vec![127], vec![0, 128]]
                    .map(Value::Varint)
                    .to_vec(),
            ),
        ];
        for (ty, values) in cases {
            for (at, found) in values.iter().enumerate() {
                for (other_at, other) in values.iter().enumerate() {
                    let order = at.cmp(&other_at);
                    let told = [
                        Comparator::Equal(Some(other.clone())),
                        Comparator::NotEqual(Some(other.clone())),
                        Comparator::Less(other.clone()),
                        Comparator::LessOrEqual(other.clone()),
                        Comparator::Greater(other.clone()),
                        Comparator::GreaterOrEqual(other.clone()),
                        Comparator::In(vec![None, Some(other.clone())]),
                    ]
                    .map(|comparator| holds(&comparator, Some(found.clone()), &ty));
                    let (is_equal, is_other) = (order.is_eq(), order.is_ne());
                    let (less, greater) = (order.is_lt(), order.is_gt());
                    let wanted = [is_equal, is_other, less, !greater, greater, !less, is_equal];
                    assert_eq!(told, wanted, "{found:?} against {other:?} of {}", ty.sql_name());
                }
            }
        }
    }
}
