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
