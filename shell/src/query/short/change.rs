//! An UPDATE or DELETE by key: its conditions say which rows, constants and parameters what they
//! become.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::common::ScalarValue;
use tidegate_engine::batch::arrow_type;
use tidegate_engine::{Column, ColumnId, DataType, Database, Mutation, SchemaRef, Value};

use super::condition::Conditions;
use super::lookup::{RunContext, want};
use super::shape::{ChangeShape, ChangeVerb, Operand};
use super::using::{options, want_numbers};
use super::value::whole_number;
use crate::query::error::Result;
use crate::query::outcome::Outcome;
use crate::query::parameter::row_of;
use crate::query::parse::{Name, TableName, Using};
use crate::query::run::write_rows;
use crate::query::scan::pushdown::{Keys, decide_for, is_single};
use crate::query::write::element::Changes;
use crate::query::write::{self, Target, scalar_value};

/// See the head of this file.
pub struct Change {
    table: SchemaRef,
    name: TableName,
    verb: Verb,
    conditions: Conditions,
    using: Using,
    parameter_count: usize,
}

enum Verb {
    Update(Vec<(ColumnId, Assigned)>),
    /// Of these columns, or of whole rows where there are none.
    Delete(Vec<Name>),
}

/// A value that a column gets, or is compared with.
pub enum Assigned {
    Parameter(usize),
    /// `None` is null.
    Constant(Option<Value>),
}

impl Change {
    /// Looks up the names of a statement, and makes its constants fit their columns. `types` learns
    /// which parameters it wants.
    pub fn new(shape: ChangeShape, table: &SchemaRef, types: &mut [ArrowType]) -> Option<Self> {
        let ChangeShape { table: name, verb, conditions, using, .. } = shape;
        want_numbers(using, types)?;
        let verb = match verb {
            ChangeVerb::Update(shapes) => {
                let mut assigned: Vec<(ColumnId, Assigned)> = Vec::with_capacity(shapes.len());
                for (column, operand) in shapes {
                    let (id, column) = table.find(&column.value)?;
                    if column.is_key() || assigned.iter().any(|(known, _)| *known == id) {
                        return None;
                    }
                    assigned.push((id, Assigned::of(&operand, column, types)?));
                }
                Verb::Update(assigned)
            }
            // The planner's path says that a DELETE has none.
            ChangeVerb::Delete(_) if using.ttl.is_some() => return None,
            ChangeVerb::Delete(columns) => {
                for column in &columns {
                    table.find(&column.value).filter(|(_, column)| !column.is_key())?;
                }
                Verb::Delete(columns)
            }
        };
        let conditions = Conditions::of(table, conditions, types)?;
        let parameter_count = types.len();
        Some(Change { table: Arc::clone(table), name, verb, conditions, using, parameter_count })
    }

    /// Writes, once for each row of parameters; `None` where one is refused, before anything is
    /// written.
    pub async fn run(
        &self,
        database: &Database,
        parameters: Option<&RecordBatch>,
        context: &RunContext<'_>,
    ) -> Result<Option<Outcome>> {
        let Some(writes) = self.writes(database, parameters)? else { return Ok(None) };
        let count = writes.iter().map(|mutation| mutation.rows.len().max(1) as u64).sum();
        write_rows(database, writes, context.terms).await?;
        Ok(Some(Outcome::count(count)))
    }

    fn writes(
        &self,
        database: &Database,
        parameters: Option<&RecordBatch>,
    ) -> Result<Option<Vec<Mutation>>> {
        let rows = match parameters {
            None if self.parameter_count == 0 => {
                return Ok(self.of_row(database, &[], None).map(|(_, writes)| writes));
            }
            Some(rows) if rows.num_columns() == self.parameter_count => rows,
            _ => return Ok(None),
        };
        let mut writes = Vec::with_capacity(rows.num_rows());
        for row in 0..rows.num_rows() {
            match self.of_row(database, &row_of(rows, row)?, None) {
                Some((_, mutations)) => writes.extend(mutations),
                None => return Ok(None),
            }
        }
        Ok((!writes.is_empty()).then_some(writes))
    }

    /// What one row of parameters touches and writes, at the time of a batch if it is part of one.
    pub fn of_row(
        &self,
        database: &Database,
        values: &[ScalarValue],
        of_batch: Option<i64>,
    ) -> Option<(Target, Vec<Mutation>)> {
        let options = options(self.using, database, values, of_batch)?;
        let whose = match self.verb {
            Verb::Update(_) => Keys::Named,
            Verb::Delete(_) => Keys::Own,
        };
        let access = decide_for(&self.table, &self.conditions.filters(&self.table, values)?, whose);
        let is_whole = access.residual.is_empty() && access.keys.is_some() && !access.is_empty();
        if !is_whole {
            return None;
        }
        let mut target = Target { access, values: Vec::new() };
        let changes = Changes::default();
        let written = match &self.verb {
            Verb::Update(assigned) => {
                for (id, assigned) in assigned {
                    target.values.push((*id, assigned.value(values, self.table.column(*id))?));
                }
                write::update(&self.table, &self.name, &target, &changes, &options)
            }
            Verb::Delete(columns) => {
                write::delete(&self.table, &self.name, columns, &target, &changes, &options)
            }
        };
        written.ok().map(|written| (target, written))
    }
}

impl Assigned {
    /// `None` where the planner has rules of its own for such a value.
    pub fn of(operand: &Operand, column: &Column, types: &mut [ArrowType]) -> Option<Self> {
        if !is_single(&column.ty) || column.ty == DataType::Counter {
            return None;
        }
        let scalar = match operand {
            Operand::Parameter(n) => {
                want(types, *n, arrow_type(&column.ty))?;
                return Some(Assigned::Parameter(*n));
            }
            Operand::Null => return Some(Assigned::Constant(None)),
            Operand::Number(number) => whole_number(*number, &column.ty)?,
            Operand::Text(text) if column.ty == DataType::Text => {
                ScalarValue::Utf8(Some(text.clone()))
            }
            Operand::Text(_) => return None,
        };
        scalar_value(&scalar, &column.ty).ok().map(Assigned::Constant)
    }

    /// The value with these parameters; `None` where one is of another type.
    pub fn value(&self, values: &[ScalarValue], column: &Column) -> Option<Option<Value>> {
        match self {
            Assigned::Constant(value) => Some(value.clone()),
            Assigned::Parameter(n) => {
                let scalar = values.get(n.checked_sub(1)?)?;
                let is_fitting = scalar.data_type() == arrow_type(&column.ty);
                scalar_value(scalar, &column.ty).ok().filter(|_| is_fitting)
            }
        }
    }
}
