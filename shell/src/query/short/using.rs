//! Timestamp and time to live of a write.

use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::common::ScalarValue;
use tidegate_engine::Database;
use tidegate_engine::batch::WriteOptions;

use super::lookup::want;
use crate::query::parse::{Using, UsingValue};

/// Tells `types` which parameters `using` wants; `None` where one is wanted twice.
pub fn want_numbers(using: Using, types: &mut [ArrowType]) -> Option<()> {
    for value in [using.ttl, using.timestamp].into_iter().flatten() {
        if let UsingValue::Parameter(n) = value {
            want(types, n, ArrowType::Int64)?;
        }
    }
    Some(())
}

/// Options of a write that happens now, or at the time of its batch; `None` where a value is no
/// number, or is too large.
pub fn options(
    using: Using,
    database: &Database,
    values: &[ScalarValue],
    of_batch: Option<i64>,
) -> Option<WriteOptions> {
    let number = |value: UsingValue| match value {
        UsingValue::Number(number) => Some(number),
        UsingValue::Parameter(n) => match values.get(n.checked_sub(1)?)? {
            ScalarValue::Int64(number) => *number,
            _ => None,
        },
    };
    let ttl = match using.ttl {
        Some(ttl) => Some(i32::try_from(number(ttl)?).ok()?),
        None => None,
    };
    let timestamp = match using.timestamp {
        Some(timestamp) => number(timestamp)?,
        None => of_batch.unwrap_or_else(|| database.timestamp_us()),
    };
    let now_seconds = i32::try_from(database.clock().wall_seconds()).unwrap_or(i32::MAX);
    Some(WriteOptions { timestamp, ttl, now_seconds })
}
