//! Instants that nanoseconds do not reach: before 1678 and after 2261.
//!
//! DataFusion reads `TIMESTAMP '…'` in nanoseconds and refuses such a one, which a column may well
//! hold. So it is read in microseconds.

use datafusion::arrow::compute::kernels::cast_utils::Parser;
use datafusion::arrow::datatypes::{DataType as ArrowType, TimeUnit, TimestampNanosecondType};
use datafusion::common::ScalarValue;
use sqlparser::ast::{DataType, Expr, Value};

/// Digits behind the point of a second in microseconds.
const MICROSECONDS: u64 = 6;

/// Makes `TIMESTAMP '…'`, or a cast of a text to it, one of microseconds where it must be.
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
        && is_far(text)
    {
        *digits = Some(MICROSECONDS);
    }
}

/// Whether a text is an instant that nanoseconds do not reach.
fn is_far(text: &str) -> bool {
    let microseconds = ArrowType::Timestamp(TimeUnit::Microsecond, None);
    TimestampNanosecondType::parse(text.trim()).is_none()
        && ScalarValue::from(text).cast_to(&microseconds).is_ok_and(|instant| !instant.is_null())
}
