//! Reads for many rows of parameters: several at work at once, answered in the order of the rows.
//!
//! Invariant: the rows of one read stand together, behind those of the reads before it. Small
//! answers share a batch.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::SchemaRef as ArrowSchemaRef;
use datafusion::common::DataFusionError;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use tidegate_engine::{BatchStream, Database, ReadCommand};

use crate::query::error::{QueryError, Result};

/// Reads that are at work at once.
const READS_MAX: usize = 32;
/// Rows that are gathered before a batch is handed on.
const BATCH_ROWS: usize = 1024;

/// Starts the reads, each as `reads` does it.
pub fn read<R: Fn(&Database, ReadCommand) -> BatchStream + Send + 'static>(
    database: &Database,
    (commands, reads): (Vec<ReadCommand>, R),
    schema: &ArrowSchemaRef,
) -> impl Stream<Item = Result<RecordBatch>> + Send + use<R> {
    let database = database.clone();
    let begun = stream::iter(commands).map(move |command| {
        let mut batches = reads(&database, command);
        async move {
            // Until its turn comes a read holds its first batch, and what waits in its channel.
            let first = batches.next().await;
            stream::iter(first).chain(batches)
        }
    });
    let batches = begun.buffered(READS_MAX).flatten();
    gathered(batches.map(|batch| batch.map_err(QueryError::from)).boxed(), Arc::clone(schema))
}

/// The row of a read that gives one at most, as a batch.
pub async fn row(mut read: BatchStream) -> Result<Option<RecordBatch>> {
    let mut found = None;
    while let Some(batch) = read.next().await {
        found = Some(batch?);
    }
    Ok(found)
}

/// The same rows in fewer batches.
fn gathered(
    batches: BoxStream<'static, Result<RecordBatch>>,
    schema: ArrowSchemaRef,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    stream::unfold(batches, move |mut batches| {
        let schema = Arc::clone(&schema);
        async move {
            let (mut small, mut rows) = (Vec::new(), 0);
            while rows < BATCH_ROWS {
                match batches.next().await {
                    Some(Ok(batch)) => {
                        rows += batch.num_rows();
                        small.push(batch);
                    }
                    Some(Err(error)) => return Some((Err(error), stream::empty().boxed())),
                    None => break,
                }
            }
            match &small[..] {
                [] => None,
                [batch] => Some((Ok(batch.clone()), batches)),
                all => {
                    let whole = concat_batches(&schema, all).map_err(DataFusionError::from);
                    Some((whole.map_err(QueryError::from), batches))
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, AsArray, Int32Array};
    use datafusion::arrow::datatypes::Int32Type;

    use super::*;

    type Batches = Vec<Result<RecordBatch>>;

    /// Batches of so many rows, which are numbered through.
    fn numbered(lengths: &[i32]) -> Batches {
        let mut next = 0;
        let batch = |&length: &i32| {
            let rows = next..next + length;
            next += length;
            let column = Arc::new(Int32Array::from_iter_values(rows)) as ArrayRef;
            Ok(RecordBatch::try_from_iter([("n", column)]).unwrap())
        };
        lengths.iter().map(batch).collect()
    }

    /// What comes out of what reads give.
    async fn out(batches: Batches) -> Batches {
        let Some(Ok(one)) = numbered(&[1]).pop() else { panic!("it is one batch") };
        gathered(stream::iter(batches).boxed(), one.schema()).collect().await
    }

    #[tokio::test]
    async fn small_answers_share_a_batch_and_keep_their_order() {
        for (lengths, wanted) in [
            (&[5][..], &[5][..]),
            (&[], &[]),
            (&[1023, 1, 7], &[1024, 7]),
            (&[1023, 0, 2, 3], &[1025, 3]),
            (&[4000, 1, 1], &[4000, 2]),
        ] {
            let batches: Result<Vec<_>> = out(numbered(lengths)).await.into_iter().collect();
            let batches = batches.unwrap();
            let found: Vec<i32> = batches.iter().map(|batch| batch.num_rows() as i32).collect();
            assert_eq!(found, wanted, "{lengths:?}");
            let rows = batches.iter().flat_map(|batch| {
                batch.column(0).as_primitive::<Int32Type>().values().iter().copied()
            });
            let count: i32 = lengths.iter().sum();
            assert!(rows.eq(0..count), "{lengths:?}");
        }
    }

    #[tokio::test]
    async fn a_read_that_fails_ends_the_answer_with_its_error() {
        for failing in 0..=5 {
            // Those behind it are well.
            let mut batches = numbered(&[600; 5]);
            batches.insert(failing, Err(QueryError::invalid("a read failed")));
            let mut answers = out(batches).await;
            let last = answers.pop().expect("an error is no end");
            assert_eq!(last.unwrap_err().message, "a read failed", "behind {failing} reads");
            assert!(answers.iter().all(|answer| answer.is_ok()), "behind {failing} reads");
        }
    }
}
