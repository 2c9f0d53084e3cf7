//! Limits of a result: from one size on it is worth a warning, at another it ends with an error.
//!
//! A result comes batch by batch and is never held here; its client may hold all of it.

use datafusion::arrow::array::{Array as _, ArrayRef, RecordBatch};

use super::warnings::{About, Warnings};
use crate::query::error::{QueryError, Result};
use crate::query::outcome::column_bytes;
use crate::query::parse::statement::Statement;

/// Bytes of all rows of a result; 0 for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultLimits {
    pub warn_bytes: u64,
    pub max_bytes: u64,
}

/// What came of a result.
#[derive(Debug, Default)]
pub struct Count {
    rows: u64,
    bytes: u64,
    has_warned: bool,
}

impl ResultLimits {
    /// Counts a batch.
    ///
    /// Errors: `Invalid` where the result is larger than it may be.
    pub fn add(
        self,
        batch: &RecordBatch,
        count: &mut Count,
        statement: &Statement,
        warnings: &Warnings,
    ) -> Result<()> {
        if self.warn_bytes == 0 && self.max_bytes == 0 {
            return Ok(());
        }
        count.rows += batch.num_rows() as u64;
        count.bytes += bytes(batch);
        let Count { rows, bytes, has_warned } = count;
        if self.max_bytes > 0 && *bytes > self.max_bytes {
            let max = self.max_bytes;
            let message =
                format!("the result has {bytes} bytes after {rows} rows, and {max} is most");
            return Err(QueryError::invalid(message).with_help(
                "add LIMIT or a condition, select fewer columns, or raise \
                 tidegate.result_max_bytes (0 is no limit)",
            ));
        }
        if self.warn_bytes > 0 && *bytes > self.warn_bytes && !*has_warned {
            *has_warned = true;
            let warn = self.warn_bytes;
            warnings.add(
                statement,
                About::Size,
                format!(
                    "the result has over {warn} bytes: {rows} rows were not all of it; LIMIT or a \
                     condition makes it smaller"
                ),
            );
        }
        Ok(())
    }
}

/// Bytes of a column that are not worth a closer look.
const FEW_BYTES: usize = 4096;

/// Bytes of the rows of a batch, without what its columns share with others.
fn bytes(batch: &RecordBatch) -> u64 {
    let of_column = |column: &ArrayRef| {
        let whole = column.get_array_memory_size();
        let own = if whole <= FEW_BYTES { whole } else { column_bytes(column) };
        own as u64
    };
    batch.columns().iter().map(of_column).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::StringArray;

    use super::*;
    use crate::query::parse::statement::split;

    #[test]
    fn bytes_of_all_batches_count_together() {
        let text = "x".repeat(1000);
        let column = Arc::new(StringArray::from(vec![text.as_str(); 10])) as ArrayRef;
        let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
        let one = bytes(&batch);
        assert!((10_000..20_000).contains(&one), "{one}");
        let statement = &split("SELECT a FROM t").unwrap()[0];
        // Limits in batches, and the batch at which each is passed. As much as a limit is no more.
        for (warn, max, warned, ended) in [
            (0, 0, None, None),
            (3, 0, Some(4), None),
            (0, 3, None, Some(4)),
            (1, 5, Some(2), Some(6)),
        ] {
            let limits = ResultLimits { warn_bytes: warn * one, max_bytes: max * one };
            let (mut count, warnings) = (Count::default(), Warnings::default());
            let (mut warned_at, mut ended_at) = (None, None);
            for number in 1..=8_u64 {
                let added = limits.add(&batch, &mut count, statement, &warnings);
                if warned_at.is_none() && !warnings.all().is_empty() {
                    warned_at = Some(number);
                }
                if let Err(error) = added {
                    let size = format!("{} bytes after {} rows", number * one, number * 10);
                    assert!(error.message.contains(&size), "{error}");
                    ended_at = Some(number);
                    break;
                }
            }
            assert_eq!((warned_at, ended_at), (warned, ended), "{warn} and {max} batches");
            let told: u64 = warnings.all().iter().map(|warning| warning.count).sum();
            assert_eq!(told, u64::from(warned.is_some()), "{warn} and {max} batches");
        }
    }
}
