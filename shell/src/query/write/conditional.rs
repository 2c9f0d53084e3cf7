//! Writes with IF, as a session runs them: one row of one partition, and an answer in rows.
//!
//! The answer has a column `[applied]`, and the values of the row where the write was not done.
//! Its columns follow from the statement alone, so a prepared statement tells them before it runs;
//! where the write was done they are null.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use datafusion::arrow::compute::concat_batches;
use datafusion::common::{DataFusionError, ScalarValue};
use futures::StreamExt;
use tidegate_engine::batch::{WriteOptions, columns_of, mutations};
use tidegate_engine::{
    ClusteringKey, ColumnId, ConditionalWrite, Decision, Mutation, RowCondition, SchemaRef,
    TableSchema,
};

use super::condition::{answer_schema, explain, is_static_alone, resolve, shown_columns};
use super::values;
use super::write::Target;
use crate::query::error::{QueryError, Result};
use crate::query::outcome::Outcome;
use crate::query::parse::{If, IfKind, Name, Write, WriteKind};
use crate::query::run::row_refused;
use crate::query::session::Session;

impl Session {
    /// Runs a write with IF.
    ///
    /// Errors: `Invalid` and `Unsupported` for what is not one row by its whole key; those of the
    /// engine's `write_if`.
    pub(in crate::query) async fn write_if(
        &self,
        write: &Write,
        table: &SchemaRef,
        values: &[ScalarValue],
        options: &WriteOptions,
    ) -> Result<Outcome> {
        let condition = write.condition.as_ref().expect("it is called for writes with IF");
        let conditional = self.conditional(write, table, values, options).await?;
        let decision = self.database.under(self.write_terms()).write_if(conditional).await?;
        answer(table, &shown_columns(table, condition)?, &decision).map(Outcome::decided)
    }

    /// What a write with IF depends on, for EXPLAIN.
    pub(in crate::query) async fn explain_if(
        &self,
        write: &Write,
        table: &SchemaRef,
        values: &[ScalarValue],
        options: &WriteOptions,
    ) -> Result<String> {
        let conditional = self.conditional(write, table, values, options).await?;
        let conditions = conditional.conditions.iter();
        let texts = conditions.map(|condition| {
            let row = if condition.row.is_some() { "row" } else { "static row" };
            format!("\n  if: {row}, {}", explain(&condition.condition, table))
        });
        Ok(texts.collect())
    }

    /// A write with IF as the engine takes it.
    pub(in crate::query) async fn conditional(
        &self,
        write: &Write,
        table: &SchemaRef,
        values: &[ScalarValue],
        options: &WriteOptions,
    ) -> Result<ConditionalWrite> {
        let clause = write.condition.as_ref().expect("it is called for writes with IF");
        let operands = match &clause.kind {
            IfKind::Compare { operands, .. } => self.operands(operands, values).await?,
            _ => None,
        };
        let condition = resolve(table, clause, operands.as_ref())?;
        let (mutation, row) = match &write.kind {
            WriteKind::Insert(columns) => {
                let mutation =
                    self.only_row(write, clause, (table, columns), values, options).await?;
                let row = mutation.rows.first().map(|(key, _)| key.clone());
                (mutation, row)
            }
            WriteKind::Update(_) | WriteKind::Delete(_) => {
                let changed = self.changed(write, table, values, options).await?;
                let Some((target, mutations)) = changed else {
                    return Err(QueryError::invalid("the conditions of WHERE exclude each other")
                        .at(write.table.table.span)
                        .with_help("a write with IF names one row by its whole key"));
                };
                only_change(write, clause, table, &target, mutations)?
            }
        };
        if row.is_none() && !is_static_alone(table, &condition) {
            return Err(key_wanted(clause, table));
        }
        Ok(ConditionalWrite { mutation, conditions: vec![RowCondition { row, condition }] })
    }

    /// The one row of an INSERT.
    async fn only_row(
        &self,
        write: &Write,
        clause: &If,
        (table, columns): (&SchemaRef, &[Name]),
        bound: &[ScalarValue],
        options: &WriteOptions,
    ) -> Result<Mutation> {
        let refuse = |message: String| {
            Err(QueryError::unsupported(message)
                .at(clause.span)
                .with_help("write one INSERT for each row: each is decided by itself"))
        };
        if values::list(&write.statement).is_none() {
            return refuse("IF NOT EXISTS takes VALUES of one row, and no SELECT".to_owned());
        }
        let mut rows = self.inserted(write, table, columns, bound, options).await?;
        let count = rows.len();
        match rows.pop() {
            Some(row) if count == 1 => Ok(row),
            _ => refuse(format!("IF NOT EXISTS takes one row, not {count}")),
        }
    }

    /// The rows of an INSERT of VALUES.
    ///
    /// Errors: `Unsupported` for a SELECT; `Invalid` for a row that does not fit.
    pub(in crate::query) async fn inserted(
        &self,
        write: &Write,
        table: &SchemaRef,
        columns: &[Name],
        bound: &[ScalarValue],
        options: &WriteOptions,
    ) -> Result<Vec<Mutation>> {
        if values::list(&write.statement).is_none() {
            return Err(QueryError::unsupported("an INSERT of a batch takes VALUES")
                .at(write.table.table.span)
                .with_help("run INSERT … SELECT by itself"));
        }
        let (plan, names) = self.insert_input(write, table, columns, bound).await?;
        let renamed = |error: QueryError| values::rename(error, &names);
        let mut batches = self.stream(plan).await.map_err(renamed)?;
        let mut rows = Vec::new();
        while let Some(batch) = batches.next().await {
            let batch = batch.map_err(|error| renamed(error.into()))?;
            let before = rows.len() as u64;
            for row in mutations(table, &batch, options)? {
                rows.push(row.map_err(|refused| row_refused(refused, before))?);
            }
        }
        Ok(rows)
    }
}

/// The one mutation of an UPDATE or DELETE, and the row that it is about; `None` for static columns
/// alone.
fn only_change(
    write: &Write,
    clause: &If,
    table: &TableSchema,
    target: &Target,
    mutations: Vec<Mutation>,
) -> Result<(Mutation, Option<ClusteringKey>)> {
    let several = |what: &str| {
        QueryError::unsupported(format!("a write with IF goes to one row, and not to {what}"))
            .at(write.table.table.span)
            .with_help("write one statement for each row: each is decided by itself")
    };
    one_row(target, mutations).map_err(|why| match why {
        NotOneRow::Partitions => several("several partitions"),
        NotOneRow::Rows => several("several rows"),
        NotOneRow::Open => key_wanted(clause, table),
    })
}

/// Why a change is not one of one row.
pub(in crate::query) enum NotOneRow {
    Partitions,
    Rows,
    /// The clustering key is not given whole.
    Open,
}

/// The mutation of a change of one row, and the row; `None` for static columns alone.
pub(in crate::query) fn one_row(
    target: &Target,
    mut mutations: Vec<Mutation>,
) -> Result<(Mutation, Option<ClusteringKey>), NotOneRow> {
    let parts = target.access.parts();
    let [part] = &parts[..] else { return Err(NotOneRow::Partitions) };
    let mutation = mutations.pop().filter(|_| mutations.is_empty() && part.keys.len() == 1);
    let mutation = mutation.ok_or(NotOneRow::Partitions)?;
    let row = match part.rows.as_deref() {
        Some([row]) => Some(row.clone()),
        Some(_) => return Err(NotOneRow::Rows),
        None => None,
    };
    let writes_rows = !mutation.rows.is_empty()
        || !mutation.range_tombstones.is_empty()
        || mutation.deletion.is_some();
    match row.is_none() && writes_rows {
        true => Err(NotOneRow::Open),
        false => Ok((mutation, row)),
    }
}

fn key_wanted(clause: &If, table: &TableSchema) -> QueryError {
    let columns: Vec<&str> = table
        .partition_key()
        .chain(table.clustering_key())
        .map(|column| column.name.as_str())
        .collect();
    QueryError::invalid(format!("IF needs the whole primary key of {}", table.full_name()))
        .at(clause.span)
        .with_help(format!("give every column of it a value: {}", columns.join(", ")))
}

/// What a decision says to who asked.
pub(in crate::query) fn answer(
    table: &TableSchema,
    columns: &[ColumnId],
    decision: &Decision,
) -> Result<RecordBatch> {
    let schema = answer_schema(table, columns);
    let rows = match decision.is_applied() {
        true => vec![None],
        false => decision.rows.clone(),
    };
    let applied: ArrayRef = Arc::new(BooleanArray::from(vec![decision.is_applied(); rows.len()]));
    let mut arrays = vec![applied];
    arrays.extend(columns_of(table, columns, &rows)?);
    Ok(RecordBatch::try_new(schema, arrays).map_err(DataFusionError::from)?)
}

/// The answers of a statement that ran once for each of several rows of parameters, in their order.
pub(in crate::query) fn together(answers: &[RecordBatch]) -> Result<Outcome> {
    let schema = answers.first().expect("a statement runs once at least").schema();
    let all = concat_batches(&schema, answers).map_err(DataFusionError::from)?;
    debug_assert!(all.num_rows() >= answers.len(), "an answer is lost");
    Ok(Outcome::decided(all))
}
