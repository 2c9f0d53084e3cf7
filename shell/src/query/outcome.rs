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
use super::roster::Running;
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
    /// Its statement in the roster, until the rows end.
    pub(super) running: Option<Running>,
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
        Outcome { schema, kind, note: None, tombstones: None, watching: None, running: None }
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

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{BooleanArray, Int32Array};
    use datafusion::arrow::compute::concat_batches;

    use super::*;

    /// Answers of a write with IF, with a value beside each.
    fn answers(applied: &[bool]) -> RecordBatch {
        let applied = Arc::new(BooleanArray::from(applied.to_vec())) as ArrayRef;
        let values = Int32Array::from_iter_values(0..applied.len() as i32);
        let columns = [("[applied]", applied), ("v", Arc::new(values) as ArrayRef)];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn values_are_shown_unless_all_writes_were_done() {
        for (applied, count) in [
            (&[][..], 0),
            (&[true], 1),
            (&[false], 0),
            (&[true, true], 2),
            (&[true, false], 1),
            (&[false, true], 1),
            (&[false, false, true], 1),
        ] {
            let answers = answers(applied);
            assert_eq!(applied_count(&answers), count, "{applied:?}");
            let shown = without_unsaid(&answers);
            let columns = if count == applied.len() as u64 { 1 } else { 2 };
            assert_eq!((shown.num_columns(), shown.num_rows()), (columns, applied.len()));
            assert_eq!(shown.schema().field(0).name(), "[applied]");
            assert_eq!(shown.column(0), answers.column(0), "{applied:?}");
        }
    }

    #[test]
    fn parts_of_a_batch_are_all_of_its_rows_in_their_order() {
        for rows in [0, 1, 6, 7, 8, 13, 14, 15, 100] {
            let batch = answers(&vec![true; rows]);
            for rows_max in [1, 7, 100, usize::MAX] {
                let parts: Vec<RecordBatch> = parts_of(&batch, rows_max).collect();
                assert_eq!(parts.len(), rows.div_ceil(rows_max), "{rows} in {rows_max}");
                let full = parts.len().saturating_sub(1);
                assert!(parts[..full].iter().all(|part| part.num_rows() == rows_max));
                let whole = concat_batches(&batch.schema(), &parts).unwrap();
                assert_eq!(whole, batch, "{rows} in {rows_max}");
            }
        }
    }

    #[test]
    fn of_a_shared_buffer_the_part_of_a_column_counts_alone() {
        let numbers = Arc::new(Int32Array::from_iter_values(0..1000)) as ArrayRef;
        assert_eq!(column_bytes(&numbers), 4000);
        assert_eq!(column_bytes(&numbers.slice(990, 10)), 40);
        let texts: StringArray = (0..1000).map(|_| Some("a text of twenty-four by")).collect();
        let texts = Arc::new(texts) as ArrayRef;
        assert!(column_bytes(&texts) >= 24_000);
        let part = column_bytes(&texts.slice(500, 10));
        assert!((240..400).contains(&part), "{part}");
        assert_eq!(column_bytes(&numbers.slice(5, 0)), 0);
    }

    #[tokio::test]
    async fn every_outcome_is_rows_under_its_own_schema() {
        let decided = answers(&[true, false]);
        let (schema, two) = (decided.schema(), vec![decided.clone(); 2]);
        for (outcome, names, rows) in [
            (Outcome::count(7), &["count"][..], 1),
            (Outcome::message("done"), &["message"], 1),
            (Outcome::decided(decided.clone()), &["[applied]", "v"], 2),
            (Outcome::batches(Arc::clone(&schema), two), &["[applied]", "v"], 4),
            (Outcome::batches(schema, Vec::new()), &["[applied]", "v"], 0),
        ] {
            let promised = Arc::clone(&outcome.schema);
            let fields: Vec<&str> = promised.fields().iter().map(|f| f.name().as_str()).collect();
            assert_eq!(fields, names);
            let batches = outcome.collect().await.unwrap();
            assert!(batches.iter().all(|batch| batch.schema() == promised), "{names:?}");
            assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), rows);
        }
        let count = Outcome::count(u64::MAX).collect().await.unwrap().remove(0);
        let counts = count.column(0).as_any().downcast_ref::<UInt64Array>().unwrap();
        assert_eq!(counts.value(0), u64::MAX);
        let text = Outcome::message("a sentence").collect().await.unwrap().remove(0);
        assert_eq!(text.column(0).as_string::<i32>().value(0), "a sentence");
        // Rows before an error are no result.
        let rows = futures::stream::iter([Ok(decided.clone()), Err(QueryError::invalid("m"))]);
        let failed = Outcome::rows(decided.schema(), rows.boxed()).collect().await;
        assert_eq!(failed.unwrap_err().message, "m");
    }
}
