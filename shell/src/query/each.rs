//! Queries with many rows of parameters, as the planner runs them: once a row, one after another.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Schema, SchemaRef as ArrowSchemaRef};
use datafusion::common::DataFusionError;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::error::{QueryError, Result};
use super::outcome::{Outcome, OutcomeKind, RowStream};
use super::parameter::{QUERY_ROWS_MAX, row_of};
use super::parse::statement::Statement;
use super::session::Session;
use super::sketch::{Sketched, nullable};
use super::watch;

impl Session {
    /// Runs a query once for each row of parameters. Rows for the first one come first; each later
    /// run begins when the one before it is read to its end.
    ///
    /// Errors: those of the first run; `Invalid` for no row or too many. Those of later runs come
    /// among the rows.
    pub(super) fn run_each<'a>(
        &'a self,
        statement: &'a Statement,
        query: &'a Sketched,
        parameters: &'a RecordBatch,
    ) -> BoxFuture<'a, Result<Outcome>> {
        async move {
            let count = parameters.num_rows();
            if !(1..=QUERY_ROWS_MAX).contains(&count) {
                return Err(QueryError::invalid(format!(
                    "a query takes 1 to {QUERY_ROWS_MAX} rows of parameters, {count} were given"
                )));
            }
            let first = self.run_sketch(statement, query, &row_of(parameters, 0)?).await?;
            if count == 1 || !matches!(first.kind, OutcomeKind::Rows(_)) {
                return Ok(first);
            }
            let (schema, note) = (nullable(&first.schema), first.note.clone());
            let tombstones = first.tombstones.clone();
            let own = Arc::new(self.at(&self.keyspace()));
            let (statement, query) = (statement.clone(), Arc::clone(query));
            let (parameters, wanted) = (parameters.clone(), Arc::clone(&schema));
            let watch = watch::current();
            let run = move |row| {
                let (own, statement, query) = (own.clone(), statement.clone(), query.clone());
                let (parameters, wanted) = (parameters.clone(), wanted.clone());
                let run = async move {
                    let values = row_of(&parameters, row)?;
                    let outcome = own.run_sketch(&statement, &query, &values).await?;
                    rows_like(outcome, &wanted)
                };
                watch::watched(watch.clone(), run.boxed())
            };
            let rows = rows_like(first, &schema)?;
            let rows = rows.chain(stream::iter(1..count).then(run).try_flatten());
            Ok(Outcome { note, tombstones, ..Outcome::rows(schema, rows.boxed()) })
        }
        .boxed()
    }
}

/// The rows of a further run, under the schema of the first.
fn rows_like(outcome: Outcome, wanted: &ArrowSchemaRef) -> Result<RowStream> {
    let OutcomeKind::Rows(rows) = outcome.kind else {
        return Err(QueryError::invalid("one row of parameters gives rows and another does not"));
    };
    if !has_types(&outcome.schema, wanted) {
        return Err(QueryError::invalid(
            "the rows of parameters give columns of different types: cast them, or bind one row at \
             a time",
        ));
    }
    let wanted = Arc::clone(wanted);
    Ok(rows.map(move |batch| with_schema(&batch?, &wanted)).boxed())
}

fn has_types(found: &Schema, wanted: &Schema) -> bool {
    let (found, wanted) = (found.fields(), wanted.fields());
    let mut pairs = found.iter().zip(wanted);
    found.len() == wanted.len() && pairs.all(|(a, b)| a.data_type() == b.data_type())
}

fn with_schema(batch: &RecordBatch, schema: &ArrowSchemaRef) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().to_vec();
    let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options);
    Ok(batch.map_err(DataFusionError::from)?)
}
