//! An INSERT of VALUES: rows of parameters, or of constants, become mutations at once.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, Schema};
use datafusion::common::ScalarValue;
use tidegate_engine::batch::{arrow_type, mutations};
use tidegate_engine::{ColumnId, DataType, Database, Mutation, SchemaRef};

use super::lookup::{RunContext, columns_of, want};
use super::shape::{InsertShape, Operand};
use super::using::{options, want_numbers};
use crate::query::error::Result;
use crate::query::outcome::Outcome;
use crate::query::parameter::row_of;
use crate::query::parse::{Using, UsingValue};
use crate::query::run::write_rows;
use crate::query::scan::pushdown::is_single;
use crate::query::types::assign;
use crate::query::write::insert::missing_key;
use crate::query::write::stamp;

/// See the head of this file.
pub struct Insert {
    table: SchemaRef,
    schema: Arc<Schema>,
    columns: Vec<ColumnId>,
    values: Values,
    using: Using,
}

enum Values {
    /// Column i of the INSERT is this parameter: one row for each row of parameters.
    Parameters(Vec<usize>),
    /// One array a column.
    Constants(Vec<ArrayRef>),
}

impl Insert {
    /// Looks up the names of a statement, and makes its constants fit their columns. `types` learns
    /// which parameters it wants.
    pub fn new(shape: InsertShape, table: &SchemaRef, types: &mut [ArrowType]) -> Option<Self> {
        let columns = columns_of(table, &shape.columns)?;
        want_numbers(shape.using, types)?;
        let named = |id: ColumnId| table.column(id);
        if missing_key(table, |column| columns.iter().any(|id| named(*id).name == column.name))
            .is_some()
            || columns.iter().any(|id| *named(*id).ty.unfrozen() == DataType::Counter)
            || shape.rows.iter().any(|row| row.len() != columns.len())
        {
            return None;
        }
        let values = match &*shape.rows {
            [row] if row.iter().all(|value| matches!(value, Operand::Parameter(_))) => {
                let mut parameters = Vec::with_capacity(row.len());
                for (value, id) in row.iter().zip(&columns) {
                    let Operand::Parameter(n) = value else { return None };
                    want(types, *n, arrow_type(&named(*id).ty))?;
                    parameters.push(n - 1);
                }
                Values::Parameters(parameters)
            }
            rows => {
                let column = |(at, id): (usize, &ColumnId)| constants(rows, at, &named(*id).ty);
                Values::Constants(columns.iter().enumerate().map(column).collect::<Option<_>>()?)
            }
        };
        let field = |id: &ColumnId| Field::new(&named(*id).name, arrow_type(&named(*id).ty), true);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let using = shape.using;
        Some(Insert { table: Arc::clone(table), schema, columns, values, using })
    }

    /// Writes all rows; `None` where one is refused, before anything is written.
    pub async fn run(
        &self,
        database: &Database,
        parameters: Option<&RecordBatch>,
        context: &RunContext<'_>,
    ) -> Result<Option<Outcome>> {
        let Some(mut rows) = self.rows(database, parameters, None) else { return Ok(None) };
        let count = rows.len() as u64;
        // Of two rows with one key the later wins.
        match self.using.timestamp {
            None => stamp::stamp(database, &mut rows),
            Some(_) => stamp::keep_last(&mut rows),
        }
        write_rows(database, rows, context.terms).await?;
        Ok(Some(Outcome::count(count)))
    }

    /// What one row of parameters writes, at the time of a batch if it is part of one.
    pub fn of_row(
        &self,
        database: &Database,
        row: Option<&RecordBatch>,
        of_batch: Option<i64>,
    ) -> Option<Vec<Mutation>> {
        // Where the values are constants, parameters are those of other statements of the batch.
        let is_constant = matches!(self.values, Values::Constants(_));
        self.rows(database, row.filter(|_| !is_constant), of_batch)
    }

    fn rows(
        &self,
        database: &Database,
        parameters: Option<&RecordBatch>,
        of_batch: Option<i64>,
    ) -> Option<Vec<Mutation>> {
        let arrays = match (&self.values, parameters) {
            (Values::Constants(arrays), None) => arrays.clone(),
            (Values::Parameters(places), Some(parameters)) => self.bound(places, parameters)?,
            _ => return None,
        };
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays).ok()?;
        let options = options(self.using, database, &self.numbers(parameters)?, of_batch)?;
        mutations(&self.table, &batch, &options).ok()?.into_iter().collect::<Result<_, _>>().ok()
    }

    /// The parameters, where USING names some; `None` where rows of them may have several. Rows of
    /// one timestamp that are bound at once are for the planner's path, which writes one by one.
    fn numbers(&self, parameters: Option<&RecordBatch>) -> Option<Vec<ScalarValue>> {
        let Using { ttl, timestamp } = self.using;
        let is_bound = [ttl, timestamp]
            .iter()
            .flatten()
            .any(|value| matches!(value, UsingValue::Parameter(_)));
        match parameters {
            Some(rows) if is_bound || timestamp.is_some() => {
                if rows.num_rows() != 1 {
                    return None;
                }
                row_of(rows, 0).ok()
            }
            _ => Some(Vec::new()),
        }
    }

    /// The parameters in the order of the columns, if all are of their types.
    fn bound(&self, places: &[usize], parameters: &RecordBatch) -> Option<Vec<ArrayRef>> {
        let array = |(id, place): (&ColumnId, &usize)| {
            let array = parameters.columns().get(*place)?;
            let is_fitting = *array.data_type() == arrow_type(&self.table.column(*id).ty);
            is_fitting.then(|| Arc::clone(array))
        };
        self.columns.iter().zip(places).map(array).collect()
    }
}

/// One column of the rows; `None` where values are of several types or do not fit.
fn constants(rows: &[Vec<Operand>], at: usize, ty: &DataType) -> Option<ArrayRef> {
    let all = || rows.iter().map(|row| &row[at]);
    let is_number = all().any(|value| matches!(value, Operand::Number(_)));
    let is_text = all().any(|value| matches!(value, Operand::Text(_)));
    // Texts for blobs, and parts of values, are for the planner.
    if is_number && is_text || !is_single(ty) || *ty == DataType::Blob {
        return None;
    }
    let scalar = |value: &Operand| match value {
        Operand::Number(number) => Some(ScalarValue::Int64(Some(*number))),
        Operand::Text(text) => Some(ScalarValue::Utf8(Some(text.clone()))),
        Operand::Null if is_number => Some(ScalarValue::Int64(None)),
        Operand::Null => Some(ScalarValue::Utf8(None)),
        Operand::Parameter(_) => None,
    };
    let scalars = all().map(scalar).collect::<Option<Vec<_>>>()?;
    let array = ScalarValue::iter_to_array(scalars).ok()?;
    assign::convert(&array, ty).ok()
}
