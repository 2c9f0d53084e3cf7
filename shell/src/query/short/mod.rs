//! The short path: statements that name their partition, run without the planner.
//!
//! A client that reads or writes by key sends the same few shapes over and over. Their tokens alone
//! say which partition, which slice, which direction and which columns. So this module turns them
//! into a `ReadCommand` or into mutations, in microseconds where the planner takes hundreds.
//!
//! | statement | what the short path takes |
//! |---|---|
//! | SELECT | columns, stamps or `*` of a table, key columns beside values, ORDER BY, LIMIT |
//! | INSERT | VALUES of one or more rows, USING, IF NOT EXISTS |
//! | UPDATE, DELETE | key columns compared with values, values of single columns, USING, IF |
//! | BEGIN BATCH | these writes |
//!
//! A value is a parameter, a whole number or a text. Invariant: the short path answers as the
//! planner's path does. Where it is not sure, it answers nothing and the planner decides: an
//! unknown word, a value of another type, a null key, a name that does not exist. So errors come
//! from the planner's path, with their places. `SET tidegate.short_path = false` turns it off.
//! EXPLAIN shows what the planner would do, and then the path that is taken.
//!
//! `shape` reads tokens, `value` makes values fit, `condition` and `using` look up what statements
//! share, `select`, `insert`, `change` and `batch` run, `one_write` decides, `selected` says what a
//! SELECT gives. `together` reads for many rows of parameters, `session` asks them all, `analyze`
//! tells what a read did.

mod analyze;
mod batch;
mod change;
mod condition;
mod insert;
mod lookup;
mod one_write;
mod select;
mod selected;
mod session;
mod shape;
mod together;
mod using;
mod value;

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use sqlparser::tokenizer::TokenWithSpan;
use tidegate_engine::{
    Catalog, Database, Grant, Permission, ReadCommand, Resource, SchemaRef as TableRef,
};

use self::batch::Batch;
pub(super) use self::lookup::RunContext;
use self::lookup::want;
use self::one_write::OneWrite;
use self::select::Select;
use self::shape::Shape;
use super::error::Result;
use super::outcome::Outcome;
use super::parameter::{QUERY_ROWS_MAX, row_of};
use super::parse::TableName;
use super::parse::said::Timeout;
use super::parse::statement::Statement;

/// A statement that the short path takes.
pub struct Short {
    kind: Kind,
    /// One field a parameter, as a description of the statement has them.
    parameters: SchemaRef,
    /// What its caller needs.
    grants: Vec<Grant>,
}

enum Kind {
    Select(Select),
    Write(OneWrite),
    Batch(Batch),
}

impl Short {
    /// Reads tokens of a statement, or of what it explains, whose unqualified names are those of
    /// `keyspace`; `None` is the planner's.
    pub(super) fn of(
        tokens: &[TokenWithSpan],
        statement: &Statement,
        catalog: &Catalog,
        keyspace: &str,
    ) -> Option<Self> {
        let find = |name: &TableName| {
            let keyspace = name.keyspace.as_ref().map_or(keyspace, |name| &name.value);
            let table = catalog.table(keyspace, &name.table.value)?;
            Some((Arc::clone(table), catalog.is_attached(keyspace, &table.name)))
        };
        // The planner's path says why nothing is written to one that is attached.
        let written = |name: &TableName| -> Option<TableRef> {
            find(name).filter(|(_, is_attached)| !is_attached).map(|(table, _)| table)
        };
        let mut types = vec![ArrowType::Null; statement.parameter_count()];
        if let Some(Timeout::Parameter(n)) = statement.said().timeout {
            want(&mut types, n, ArrowType::Utf8)?;
        }
        let (kind, grants) = match Shape::read(tokens)? {
            Shape::Select(shape) => {
                let (table, is_attached) = find(&shape.table)?;
                let resource = Resource::table(&table.keyspace, &table.name);
                let select = Select::new(shape, &table, is_attached, &mut types)?;
                (Kind::Select(select), vec![Grant::new(Permission::Select, resource)])
            }
            Shape::Write(shape) => {
                let table = written(shape.table())?;
                let write = OneWrite::new(shape, &table, &mut types)?;
                let grants = write.grants().collect();
                (Kind::Write(write), grants)
            }
            Shape::Batch(shape) => {
                let batch = Batch::new(shape, &written, &mut types)?;
                let grants = batch.grants().collect();
                (Kind::Batch(batch), grants)
            }
        };
        let field = |(n, ty): (usize, ArrowType)| Field::new(format!("${}", n + 1), ty, true);
        let fields: Vec<Field> = types.into_iter().enumerate().map(field).collect();
        Some(Short { kind, parameters: Arc::new(Schema::new(fields)), grants })
    }

    /// What its caller needs.
    pub(super) fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// The types that parameters are wanted in.
    pub fn parameters(&self) -> &SchemaRef {
        &self.parameters
    }

    /// The schema of its rows; `None` for a write.
    pub fn rows_schema(&self) -> Option<&SchemaRef> {
        match &self.kind {
            Kind::Select(select) => Some(select.schema()),
            Kind::Write(_) | Kind::Batch(_) => None,
        }
    }

    /// Whether a query with these rows of parameters is read on the short path.
    pub fn takes(&self, parameters: Option<&RecordBatch>) -> bool {
        let rows = self.values(parameters).ok().flatten();
        let takes_all = |rows: Vec<Vec<ScalarValue>>| rows.iter().all(|row| self.takes_values(row));
        self.rows_schema().is_some() && rows.is_some_and(takes_all)
    }

    /// Whether the statement needs no plan with these values. Those of a write are judged when it
    /// runs.
    pub(super) fn takes_values(&self, values: &[ScalarValue]) -> bool {
        match &self.kind {
            Kind::Select(select) => select.command(values, false).is_some(),
            Kind::Write(_) | Kind::Batch(_) => true,
        }
    }

    /// The read of a query with these values; `None` for a write, and where the planner has to look
    /// at them.
    fn command(&self, values: &[ScalarValue], past_cache: bool) -> Option<ReadCommand> {
        match &self.kind {
            Kind::Select(select) => select.command(values, past_cache),
            Kind::Write(_) | Kind::Batch(_) => None,
        }
    }

    /// Whether it gives one row at most, whatever the values are: a query by the key of a row.
    pub(super) fn is_of_a_row(&self) -> bool {
        match &self.kind {
            Kind::Select(select) => select.is_of_a_row(),
            Kind::Write(_) | Kind::Batch(_) => false,
        }
    }

    /// Runs such a query at once for each of these batches, of a row of parameters each, and gives
    /// what each gives. `None` means that nothing was done and that each has to be run by itself.
    pub(super) async fn run_rows(
        &self,
        database: &Database,
        all: &[RecordBatch],
        context: &RunContext<'_>,
    ) -> Result<Option<Vec<Result<RecordBatch>>>> {
        let Kind::Select(select) = &self.kind else { return Ok(None) };
        let count = self.parameters.fields().len();
        let mut rows = Vec::with_capacity(all.len());
        for batch in all {
            if batch.num_rows() != 1 || batch.num_columns() != count {
                return Ok(None);
            }
            rows.push(row_of(batch, 0)?);
        }
        select.run_rows(database, &rows, context).await
    }

    /// What is done, for EXPLAIN.
    pub(super) fn path(&self) -> &'static str {
        match &self.kind {
            Kind::Select(_) => "short: one read, without this plan",
            Kind::Write(write) if write.is_conditional() => {
                "short: one decision, without this plan"
            }
            Kind::Write(_) | Kind::Batch(_) => "short: one write, without this plan",
        }
    }

    /// The rows of parameters of a query; `None` where there are none, too many, or where they are
    /// not of all parameters.
    fn values(&self, parameters: Option<&RecordBatch>) -> Result<Option<Vec<Vec<ScalarValue>>>> {
        let count = self.parameters.fields().len();
        match parameters {
            None if count == 0 => Ok(Some(vec![Vec::new()])),
            Some(rows)
                if (1..=QUERY_ROWS_MAX).contains(&rows.num_rows())
                    && rows.num_columns() == count =>
            {
                (0..rows.num_rows()).map(|row| row_of(rows, row)).collect::<Result<_>>().map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Runs the statement with rows of parameters, or without any where it has none. `None` means
    /// that nothing was done and that the planner's path has the answer, or the error.
    pub(super) async fn run(
        &self,
        database: &Database,
        parameters: Option<&RecordBatch>,
        context: &RunContext<'_>,
    ) -> Result<Option<Outcome>> {
        match &self.kind {
            Kind::Select(select) => match self.values(parameters)? {
                Some(rows) => select.run(database, &rows, context).await,
                None => Ok(None),
            },
            Kind::Write(write) => write.run(database, parameters, context).await,
            Kind::Batch(batch) => batch.run(database, parameters, context).await,
        }
    }
}
