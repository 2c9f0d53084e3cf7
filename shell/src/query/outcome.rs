//! The outcome of a statement: rows, a count or a message.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use futures::{FutureExt, Stream, StreamExt};
use tidegate_engine::clock::Clock;
use tidegate_engine::{Deadline, ManyTombstones, SchemaRef as TableRef};

use super::error::{QueryError, Result};
use super::watch::Watching;

/// Batches of one result, computed as they are pulled. Dropping the stream cancels the query, also
/// on the shards.
pub type RowStream = Pin<Box<dyn Stream<Item = Result<RecordBatch>> + Send>>;

/// Result of one statement.
pub struct Outcome {
    /// Schema of the batches of `rows`; a count has one column `count`, a message one column
    /// `message`.
    pub schema: SchemaRef,
    pub kind: OutcomeKind,
    /// A note for people beside the result, such as rejected lines.
    pub note: Option<String>,
    /// What the reads of the rows meet.
    pub(super) tombstones: Option<Arc<ManyTombstones>>,
    /// What watches its statement, until the rows end.
    pub(super) watching: Option<Watching>,
}

/// The shapes of a result.
pub enum OutcomeKind {
    /// A query: pull the stream.
    Rows(RowStream),
    /// A write: done, with the number of rows written (of mutations, for DELETE).
    Count(u64),
    /// A write with IF: decided. A row for each time that it ran, whose first column says whether
    /// it was done.
    Decided(RecordBatch),
    /// DDL, USE, ALTER and the like: done, with a sentence for people.
    Message(String),
}

impl Outcome {
    fn of(schema: SchemaRef, kind: OutcomeKind) -> Self {
        Outcome { schema, kind, note: None, tombstones: None, watching: None }
    }

    /// The same outcome, whose reads tell these what they meet.
    pub(super) fn noting(self, tombstones: Arc<ManyTombstones>) -> Self {
        Outcome { tombstones: Some(tombstones), ..self }
    }

    pub fn rows(schema: SchemaRef, rows: RowStream) -> Self {
        Outcome::of(schema, OutcomeKind::Rows(rows))
    }

    /// A result that is already complete.
    pub fn batches(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        let rows = futures::stream::iter(batches.into_iter().map(Ok)).boxed();
        Outcome::rows(schema, rows)
    }

    pub fn count(count: u64) -> Self {
        Outcome::of(count_schema(), OutcomeKind::Count(count))
    }

    /// The answers of a write with IF.
    pub fn decided(answers: RecordBatch) -> Self {
        Outcome::of(answers.schema(), OutcomeKind::Decided(answers))
    }

    pub fn message(message: impl Into<String>) -> Self {
        let field = Field::new("message", DataType::Utf8, false);
        Outcome::of(Arc::new(Schema::new(vec![field])), OutcomeKind::Message(message.into()))
    }

    /// The same outcome; rows end with an error where the time is over before they do.
    pub(super) fn by(self, deadline: Deadline, clock: &dyn Clock) -> Self {
        let OutcomeKind::Rows(mut rows) = self.kind else { return self };
        let mut over = Box::pin(tokio::time::sleep(deadline.left(clock)));
        let mut has_ended = false;
        let limited = futures::stream::poll_fn(move |context| {
            if has_ended {
                return Poll::Ready(None);
            }
            if over.poll_unpin(context).is_ready() {
                has_ended = true;
                // Shards and operators stop with it.
                rows = futures::stream::empty().boxed();
                let error = deadline.passed("rows were still to come");
                return Poll::Ready(Some(Err(error.into())));
            }
            rows.poll_next_unpin(context)
        });
        Outcome { kind: OutcomeKind::Rows(limited.boxed()), ..self }
    }

    /// Every outcome as rows: a count and a message become one row.
    pub fn into_rows(self) -> Result<(SchemaRef, RowStream)> {
        let column: ArrayRef = match self.kind {
            OutcomeKind::Rows(rows) => return Ok((self.schema, rows)),
            OutcomeKind::Decided(answers) => {
                return Ok((self.schema, futures::stream::iter([Ok(answers)]).boxed()));
            }
            OutcomeKind::Count(count) => Arc::new(UInt64Array::from(vec![count])),
            OutcomeKind::Message(message) => Arc::new(StringArray::from(vec![message])),
        };
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![column])
            .map_err(|error| QueryError::invalid(error.to_string()))?;
        Ok((self.schema, futures::stream::iter([Ok(batch)]).boxed()))
    }

    /// Runs a query to its end and keeps its batches in memory; counts and messages as in
    /// [`Outcome::into_rows`].
    pub async fn collect(self) -> Result<Vec<RecordBatch>> {
        let (_, mut rows) = self.into_rows()?;
        let mut batches = Vec::new();
        while let Some(batch) = rows.next().await {
            batches.push(batch?);
        }
        Ok(batches)
    }
}

/// A batch in parts of so many rows, which share its memory; none of an empty one.
pub fn parts_of(batch: &RecordBatch, rows_max: usize) -> impl Iterator<Item = RecordBatch> {
    let rows = batch.num_rows();
    let starts = (0..rows).step_by(rows_max);
    starts.map(move |start| batch.slice(start, rows_max.min(rows - start)))
}

/// Bytes of the rows of a column: of buffers that it shares its part alone, where its type says how
/// large that is.
pub fn column_bytes(column: &ArrayRef) -> usize {
    let part = column.to_data().get_slice_memory_size();
    part.unwrap_or_else(|_| column.get_array_memory_size())
}

/// How many of the answers of a write with IF say that it was done.
pub fn applied_count(answers: &RecordBatch) -> u64 {
    let applied = answers.column(0).as_boolean();
    applied.true_count() as u64
}

/// The answers of a write with IF without the columns that say nothing: where all were done there
/// are no values to show.
pub fn without_unsaid(answers: &RecordBatch) -> RecordBatch {
    let is_all_done = applied_count(answers) == answers.num_rows() as u64;
    let short = is_all_done.then(|| answers.project(&[0]).ok()).flatten();
    short.unwrap_or_else(|| answers.clone())
}

/// Schema of the result of a write.
pub fn count_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("count", DataType::UInt64, false)]))
}

/// Schema of columns of text without nulls.
pub(super) fn text_schema(names: &[&str]) -> SchemaRef {
    let fields: Vec<Field> =
        names.iter().map(|name| Field::new(*name, DataType::Utf8, false)).collect();
    Arc::new(Schema::new(fields))
}

/// Rows of a statement of our own.
pub(super) fn batch(schema: SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    RecordBatch::try_new(schema, columns).map_err(|error| QueryError::invalid(error.to_string()))
}

/// What a statement would give back and what it takes, found without running it.
#[derive(Debug, Clone)]
pub struct Description {
    /// Schema of the rows; without fields for writes and DDL.
    pub schema: SchemaRef,
    /// One field a parameter, in order, named `$1`, `$2`, …; of type `Null` where the statement
    /// does not say which type it wants.
    pub parameters: SchemaRef,
    /// Whether the statement gives rows: a query, a write with IF, ATTACH, IMPORT.
    pub returns_rows: bool,
    /// Whether it gives rows and changes nothing: SELECT, EXPLAIN, SHOW, DESCRIBE.
    pub is_query: bool,
    /// Whether it is a write with IF, whose rows say whether it was done.
    pub is_conditional: bool,
    /// The table whose shards are the parts of a query ([`Session::query_part`]); `None` for one
    /// that has none.
    ///
    /// [`Session::query_part`]: super::Session::query_part
    pub divided: Option<TableRef>,
}
