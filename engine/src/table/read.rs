//! What a read asks for, and how its rows become batches.

use std::rc::Rc;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::table::Table;
use crate::batch::{BatchBuilder, RecordBatch};
use crate::config::{BATCH_ROWS_FIRST, BATCH_ROWS_MAX};
use crate::error::Result;
use crate::intake::Permit;
use crate::mutation::{ClusteringRange, PartitionRange, Slice};
use crate::reader::{Pulled, QueryReader};
use crate::runtime;
use crate::schema::table_schema::SchemaRef;
use crate::schema::{ColumnId, PartitionKey};

/// A read of one table on one shard.
#[derive(Debug, Clone)]
pub struct ReadCommand {
    pub schema: SchemaRef,
    pub partitions: Partitions,
    /// Rows of each partition, and the direction in which they come.
    pub slice: Slice,
    /// Columns of the result, in order; none to count rows only.
    pub columns: Vec<ColumnId>,
    /// Stop after so many rows.
    pub row_limit: Option<usize>,
    /// Ask the row cache for nothing and leave nothing in the caches: for reads that will not come
    /// again.
    pub past_cache: bool,
}

/// Partitions of a read.
#[derive(Debug, Clone)]
pub enum Partitions {
    /// These, visited in ring order, each once. [`Database::read`](crate::Database::read) asks each shard for
    /// its own; one shard refuses those of another.
    Keys(Vec<PartitionKey>),
    /// Every partition of this shard, in ring order.
    Shard(u32),
}

impl Table {
    /// Runs a read and sends its batches; stops early when the receiver is gone. While the receiver
    /// takes nothing, others have the turn of the permit.
    pub async fn stream(
        self: Rc<Self>,
        command: ReadCommand,
        now_seconds: i32,
        batches: mpsc::Sender<Result<RecordBatch>>,
        permit: &mut Permit,
    ) {
        let ended = self.run(command, now_seconds, &batches, permit).await;
        permit.answer(0);
        if let Err(error) = ended {
            self.damage.add(&error, false);
            permit.step_aside();
            // The receiver may be gone already; then nobody wants the error.
            let _ = batches.send(Err(error)).await;
        }
    }

    async fn run(
        &self,
        command: ReadCommand,
        now_seconds: i32,
        batches: &mpsc::Sender<Result<RecordBatch>>,
        permit: &mut Permit,
    ) -> Result<()> {
        let ranges: Vec<PartitionRange> = match command.partitions {
            Partitions::Keys(mut keys) => {
                keys.sort();
                keys.dedup();
                keys.into_iter().map(PartitionRange::Single).collect()
            }
            Partitions::Shard(_) => vec![PartitionRange::full()],
        };
        let mut builder = BatchBuilder::new(command.schema, &command.columns, now_seconds);
        let mut left = command.row_limit.unwrap_or(usize::MAX);
        let mut batch_rows = BATCH_ROWS_FIRST;
        // A partition without live rows shows its static row, unless rows were asked for by key.
        let show_static_only = command.slice.ranges == [ClusteringRange::full()];
        'ranges: for range in &ranges {
            let source = self.read(range, &command.slice, command.past_cache);
            let mut reader = QueryReader::new(source, now_seconds, show_static_only);
            loop {
                if left == 0 {
                    break 'ranges;
                }
                let before = builder.rows();
                let wanted = left.min(batch_rows - before);
                let pulled = reader.pull(wanted, &mut |rows| builder.push(rows))?;
                left -= builder.rows() - before;
                if builder.rows() == batch_rows {
                    if !send(batches, builder.finish()?, permit).await {
                        return Ok(());
                    }
                    permit.step_in().await;
                    batch_rows = (batch_rows * 2).min(BATCH_ROWS_MAX);
                }
                if pulled == Pulled::End {
                    break;
                }
                runtime::maybe_yield().await;
                if batches.is_closed() {
                    return Ok(());
                }
                if pulled == Pulled::Waits && !reader.refill().await? {
                    break;
                }
            }
        }
        if builder.rows() > 0 {
            // A receiver that is gone wants nothing more.
            send(batches, builder.finish()?, permit).await;
        }
        Ok(())
    }
}

/// Hands over a batch; false when the receiver is gone.
async fn send(
    batches: &mpsc::Sender<Result<RecordBatch>>,
    batch: RecordBatch,
    permit: &mut Permit,
) -> bool {
    permit.answer(batch.get_array_memory_size());
    let batch = match batches.try_send(Ok(batch)) {
        Ok(()) => return true,
        Err(TrySendError::Closed(_)) => return false,
        Err(TrySendError::Full(batch)) => batch,
    };
    permit.step_aside();
    batches.send(batch).await.is_ok()
}
