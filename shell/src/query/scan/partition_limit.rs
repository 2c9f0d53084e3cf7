//! The first rows of each partition: what a scan is asked for, and how it counts them where a
//! filter drops rows first.

use datafusion::arrow::array::{ArrayRef, BooleanArray, BooleanBufferBuilder, RecordBatch};
use datafusion::arrow::compute::{filter_record_batch, partition};
use datafusion::common::{Result, ScalarValue};
use tidegate_engine::Direction;

/// How many rows of each partition are wanted, and from which end of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionLimit {
    pub rows: usize,
    pub direction: Direction,
}

/// Counts the rows of partitions that stand together in a stream, and leaves out the rest.
pub struct FirstRows {
    /// Places of the columns of the partition key.
    key: Vec<usize>,
    rows: usize,
    /// The partition of the last row that was seen, and how many of its rows were kept.
    last: Option<Vec<ScalarValue>>,
    kept: usize,
}

impl FirstRows {
    pub fn new(key: Vec<usize>, rows: usize) -> Self {
        assert!(!key.is_empty() && rows > 0, "{rows} rows of partitions with key {key:?}");
        FirstRows { key, rows, last: None, kept: 0 }
    }

    /// The wanted rows of the next batch.
    pub fn of(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let count = batch.num_rows();
        if count == 0 {
            return Ok(batch.clone());
        }
        if self.last.as_ref() != Some(&self.key_at(batch, 0)?) {
            self.kept = 0;
        }
        let key: Vec<ArrayRef> =
            self.key.iter().map(|at| ArrayRef::clone(batch.column(*at))).collect();
        let mut wanted = BooleanBufferBuilder::new(count);
        for (number, rows) in partition(&key)?.ranges().into_iter().enumerate() {
            if number > 0 {
                self.kept = 0;
            }
            let kept = rows.len().min(self.rows - self.kept);
            wanted.append_n(kept, true);
            wanted.append_n(rows.len() - kept, false);
            self.kept += kept;
        }
        self.last = Some(self.key_at(batch, count - 1)?);
        assert_eq!(wanted.len(), count, "every row is wanted or not");
        Ok(filter_record_batch(batch, &BooleanArray::new(wanted.finish(), None))?)
    }

    fn key_at(&self, batch: &RecordBatch, row: usize) -> Result<Vec<ScalarValue>> {
        let value = |at: &usize| ScalarValue::try_from_array(batch.column(*at), row);
        self.key.iter().map(value).collect()
    }
}
