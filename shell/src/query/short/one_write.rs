//! One INSERT, UPDATE or DELETE, by itself or in a batch, and what it depends on.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::common::ScalarValue;
use tidegate_engine::{
    Column, ColumnId, Comparison, Condition, ConditionalWrite, Database, Grant, Mutation,
    Permission, Resource, RowCondition, SchemaRef, TableSchema,
};

use super::change::{Assigned, Change};
use super::insert::Insert;
use super::lookup::RunContext;
use super::shape::{IfShape, WriteShape};
use crate::query::error::Result;
use crate::query::outcome::Outcome;
use crate::query::parameter::row_of;
use crate::query::parse::IfOperator;
use crate::query::write::condition::{comparator, is_comparable, is_static_alone, shown_of};
use crate::query::write::conditional::{answer, one_row, together};
use crate::query::write::stamp;

/// See the head of this file.
pub struct OneWrite {
    table: SchemaRef,
    verb: Verb,
    condition: Option<Clause>,
}

enum Verb {
    Insert(Insert),
    Change(Change),
}

/// `IF …` with the columns of the table.
enum Clause {
    NotExists,
    Exists,
    All(Vec<(ColumnId, IfOperator, Vec<Assigned>)>),
}

impl OneWrite {
    /// Looks up the names of a statement. `types` learns which parameters it wants. `None` where
    /// the planner has to look at it.
    pub fn new(shape: WriteShape, table: &SchemaRef, types: &mut [ArrowType]) -> Option<Self> {
        let (verb, condition) = match shape {
            WriteShape::Insert(mut shape) => {
                let condition = shape.condition.take();
                let is_fitting = matches!(condition, None | Some(IfShape::NotExists));
                if !is_fitting || condition.is_some() && shape.using.timestamp.is_some() {
                    return None;
                }
                (Verb::Insert(Insert::new(shape, table, types)?), condition)
            }
            WriteShape::Change(mut shape) => {
                let condition = shape.condition.take();
                let is_misplaced = condition == Some(IfShape::NotExists);
                if is_misplaced || condition.is_some() && shape.using.timestamp.is_some() {
                    return None;
                }
                (Verb::Change(Change::new(shape, table, types)?), condition)
            }
        };
        let condition = match condition {
            Some(shape) => Some(Clause::of(shape, table, types)?),
            None => None,
        };
        Some(OneWrite { table: Arc::clone(table), verb, condition })
    }

    pub fn table(&self) -> &SchemaRef {
        &self.table
    }

    /// Whether it depends on what is there.
    pub fn is_conditional(&self) -> bool {
        self.condition.is_some()
    }

    /// What its caller needs: a condition tells what is in a row.
    pub fn grants(&self) -> impl Iterator<Item = Grant> {
        let reads = self.condition.as_ref().map(|_| Permission::Select);
        let permissions = [Some(Permission::Modify), reads].into_iter().flatten();
        let table = Resource::table(&self.table.keyspace, &self.table.name);
        permissions.map(move |one| Grant::new(one, table.clone()))
    }

    /// Runs it once for each row of parameters, or once where it has none; `None` means that
    /// nothing was done, and that the planner's path has the answer or the error.
    pub async fn run(
        &self,
        database: &Database,
        parameters: Option<&RecordBatch>,
        context: &RunContext<'_>,
    ) -> Result<Option<Outcome>> {
        if self.condition.is_none() {
            return match &self.verb {
                Verb::Insert(insert) => insert.run(database, parameters, context).await,
                Verb::Change(change) => change.run(database, parameters, context).await,
            };
        }
        let mut writes = Vec::new();
        for row in rows_of(parameters) {
            match self.conditional(database, row.as_ref(), None)? {
                Some(write) => writes.push(write),
                None => return Ok(None),
            }
        }
        let mut answers = Vec::with_capacity(writes.len());
        for write in writes {
            let shown = shown_of(&self.table, &write.conditions[0].condition);
            let decision = database.under(context.terms).write_if(write).await?;
            answers.push(answer(&self.table, &shown, &decision)?);
        }
        if answers.is_empty() {
            return Ok(None);
        }
        together(&answers).map(Some)
    }

    /// What it writes with a row of parameters, without its condition, as part of a batch of that
    /// timestamp.
    pub fn in_batch(
        &self,
        database: &Database,
        row: Option<&RecordBatch>,
        timestamp: i64,
    ) -> Result<Option<Vec<Mutation>>> {
        Ok(match &self.verb {
            Verb::Insert(insert) => {
                let rows = insert.of_row(database, row, Some(timestamp));
                rows.map(|mut rows| {
                    // They have one timestamp: of two with one key the later one stands.
                    stamp::keep_last(&mut rows);
                    rows
                })
            }
            Verb::Change(change) => {
                let written = change.of_row(database, &values_of(row)?, Some(timestamp));
                written.map(|(_, writes)| writes)
            }
        })
    }

    /// What it writes with a row of parameters, at the time of its batch if it is part of one, and
    /// on what condition; `None` where that is not one row by its whole key, and where it has no
    /// condition.
    pub fn conditional(
        &self,
        database: &Database,
        row: Option<&RecordBatch>,
        of_batch: Option<i64>,
    ) -> Result<Option<ConditionalWrite>> {
        let values = values_of(row)?;
        let written = match &self.verb {
            Verb::Insert(insert) => insert.of_row(database, row, of_batch).and_then(|mut rows| {
                let mutation = rows.pop().filter(|_| rows.is_empty())?;
                let row = mutation.rows.first().map(|(key, _)| key.clone());
                Some((mutation, row))
            }),
            Verb::Change(change) => change
                .of_row(database, &values, of_batch)
                .and_then(|(target, mutations)| one_row(&target, mutations).ok()),
        };
        let condition = self.condition.as_ref().and_then(|one| one.condition(&self.table, &values));
        let (Some((mutation, row)), Some(condition)) = (written, condition) else {
            return Ok(None);
        };
        if row.is_none() && !is_static_alone(&self.table, &condition) {
            return Ok(None);
        }
        let conditions = vec![RowCondition { row, condition }];
        Ok(Some(ConditionalWrite { mutation, conditions }))
    }
}

/// Each row of parameters by itself; nothing, once, where there are none.
pub fn rows_of(parameters: Option<&RecordBatch>) -> Vec<Option<RecordBatch>> {
    match parameters {
        None => vec![None],
        Some(rows) => (0..rows.num_rows()).map(|row| Some(rows.slice(row, 1))).collect(),
    }
}

/// The values of the one row of parameters.
pub fn values_of(row: Option<&RecordBatch>) -> Result<Vec<ScalarValue>> {
    row.map_or_else(|| Ok(Vec::new()), |row| row_of(row, 0))
}

impl Clause {
    fn of(shape: IfShape, table: &TableSchema, types: &mut [ArrowType]) -> Option<Self> {
        let comparisons = match shape {
            IfShape::NotExists => return Some(Clause::NotExists),
            IfShape::Exists => return Some(Clause::Exists),
            IfShape::All(comparisons) => comparisons,
        };
        let mut all = Vec::with_capacity(comparisons.len());
        for (column, operator, operands) in comparisons {
            let (id, column) = table.find(&column.value)?;
            if column.is_key() || !is_comparable(column) {
                return None;
            }
            let values = operands.iter().map(|operand| Assigned::of(operand, column, types));
            all.push((id, operator, values.collect::<Option<_>>()?));
        }
        Some(Clause::All(all))
    }

    /// The condition with these parameters; `None` where one is of another type, or is null where
    /// it cannot be.
    fn condition(&self, table: &TableSchema, values: &[ScalarValue]) -> Option<Condition> {
        let all = match self {
            Clause::NotExists => return Some(Condition::NotExists),
            Clause::Exists => return Some(Condition::Exists),
            Clause::All(all) => all,
        };
        let comparisons = all.iter().map(|(id, operator, operands)| {
            let column: &Column = table.column(*id);
            let given = operands.iter().map(|operand| operand.value(values, column));
            let comparator = comparator(*operator, given.collect::<Option<_>>()?)?;
            Some(Comparison { column: *id, comparator })
        });
        comparisons.collect::<Option<_>>().map(Condition::All)
    }
}
