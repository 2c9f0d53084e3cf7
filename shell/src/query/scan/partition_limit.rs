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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{AsArray, Int32Array};
    use datafusion::arrow::datatypes::Int32Type;

    use super::*;

    /// A batch `a | number | b` of rows of partitions `(a, b)`, numbered from `first` on.
    fn batch(partitions: &[(i32, i32)], first: usize) -> RecordBatch {
        let ints = |of: &dyn Fn(usize) -> i32| {
            Arc::new((0..partitions.len()).map(|at| Some(of(at))).collect::<Int32Array>())
                as ArrayRef
        };
        RecordBatch::try_from_iter([
            ("a", ints(&|at| partitions[at].0)),
            ("number", ints(&|at| (first + at) as i32)),
            ("b", ints(&|at| partitions[at].1)),
        ])
        .unwrap()
    }

    /// A partition may begin, end and go on at the border of a batch, full or not.
    #[test]
    fn the_first_rows_of_a_partition_are_the_same_however_batches_cut_it() {
        let rows = [1, 1, 1, 2, 3, 3, 4, 5, 5, 5, 5, 6];
        let rows = rows.map(|number| (number / 2, number % 2));
        for limit in 1..=5 {
            let before = |at: usize| (0..at).filter(|earlier| rows[*earlier] == rows[at]).count();
            let wanted: Vec<i32> =
                (0..rows.len()).filter(|at| before(*at) < limit).map(|at| at as i32).collect();
            for size in 1..=rows.len() {
                let mut first_rows = FirstRows::new(vec![0, 2], limit);
                let mut found: Vec<i32> = Vec::new();
                for (at, part) in rows.chunks(size).enumerate() {
                    // A filter may leave nothing of a batch.
                    assert_eq!(first_rows.of(&batch(&[], 0)).unwrap().num_rows(), 0);
                    let kept = first_rows.of(&batch(part, at * size)).unwrap();
                    found.extend(kept.column(1).as_primitive::<Int32Type>().values().iter());
                }
                assert_eq!(found, wanted, "{limit} rows of each, batches of {size}");
            }
        }
    }
}
