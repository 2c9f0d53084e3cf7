//! Instants in microseconds, unless they are finer.
//!
//! DataFusion reads `TIMESTAMP '…'` in nanoseconds. They reach from 1678 to 2261, and a column that
//! stands beside one, in a join, a union or `coalesce`, would have to be within these years. So an
//! instant is read in microseconds where these say all of it.

use datafusion::arrow::compute::kernels::cast_utils::Parser;
use datafusion::arrow::datatypes::{DataType as ArrowType, TimeUnit, TimestampNanosecondType};
use datafusion::common::ScalarValue;
use sqlparser::ast::{DataType, Expr, Value};

/// Digits behind the point of a second in microseconds.
const MICROSECONDS: u64 = 6;

/// Makes `TIMESTAMP '…'`, or a cast of a text to it, one of microseconds where it may be.
pub fn reach(expr: &mut Expr) {
    let (ty, text) = match expr {
        Expr::TypedString(typed) => (&mut typed.data_type, &typed.value.value),
        Expr::Cast { expr, data_type, .. } => match &**expr {
            Expr::Value(value) => (data_type, &value.value),
            _ => return,
        },
        _ => return,
    };
    if let (DataType::Timestamp(digits @ None, _), Value::SingleQuotedString(text)) = (ty, text)
        && is_whole(text)
    {
        *digits = Some(MICROSECONDS);
    }
}

/// Whether a text is an instant of whole microseconds.
fn is_whole(text: &str) -> bool {
    let microseconds = ArrowType::Timestamp(TimeUnit::Microsecond, None);
    match TimestampNanosecondType::parse(text.trim()) {
        Some(nanoseconds) => nanoseconds % 1_000 == 0,
        // Nanoseconds do not reach it, or it is none.
        None => {
            let instant = ScalarValue::from(text).cast_to(&microseconds);
            instant.is_ok_and(|instant| !instant.is_null())
        }
    }
}
