//! Values of a statement as values of the columns that they stand for.
//!
//! Invariant: a value that fits is the one that the planner's path would take; any other is `None`.

use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::common::ScalarValue;
use tidegate_engine::batch::arrow_type;
use tidegate_engine::{Column, DataType, Value};

use super::shape::Operand;
use crate::query::scan::pushdown::is_plain;
use crate::query::types::identifier::Kind as Identifier;

/// The type of a value that is compared with a key column; `None` where the planner has rules of
/// its own for such comparisons.
pub fn compared_type(column: &Column) -> Option<ArrowType> {
    let is_taken = is_plain(&column.ty)
        || matches!(column.ty, DataType::Uuid | DataType::TimeUuid | DataType::Inet);
    is_taken.then(|| arrow_type(&column.ty))
}

/// A value beside a key column in a condition.
pub fn compared(operand: &Operand, values: &[ScalarValue], column: &Column) -> Option<ScalarValue> {
    let scalar = match operand {
        Operand::Parameter(n) => values.get(n.checked_sub(1)?)?.clone(),
        Operand::Number(number) => whole_number(*number, &column.ty)?,
        Operand::Text(text) if matches!(arrow_type(&column.ty), ArrowType::Utf8) => {
            ScalarValue::Utf8(Some(text.clone()))
        }
        Operand::Text(_) | Operand::Null => return None,
    };
    if scalar.is_null() || scalar.data_type() != arrow_type(&column.ty) {
        return None;
    }
    let identifier = match column.ty {
        DataType::Uuid => Identifier::Uuid,
        DataType::TimeUuid => Identifier::TimeUuid,
        DataType::Inet => Identifier::Inet,
        _ => return Some(scalar),
    };
    let text = identifier.canonical(scalar.try_as_str().flatten()?)?;
    Some(ScalarValue::Utf8(Some(text)))
}

/// A value of a plain type as a key has it; `None` for null and for types that take a closer look.
pub fn plain_value(scalar: &ScalarValue) -> Option<Value> {
    Some(match scalar {
        ScalarValue::Boolean(value) => Value::Boolean((*value)?),
        ScalarValue::Int8(value) => Value::TinyInt((*value)?),
        ScalarValue::Int16(value) => Value::SmallInt((*value)?),
        ScalarValue::Int32(value) => Value::Int((*value)?),
        ScalarValue::Int64(value) => Value::BigInt((*value)?),
        ScalarValue::Utf8(value) => Value::Text(value.clone()?),
        ScalarValue::TimestampMillisecond(value, _) => Value::Timestamp((*value)?),
        _ => return None,
    })
}

/// A whole number in a column of whole numbers.
pub fn whole_number(number: i64, ty: &DataType) -> Option<ScalarValue> {
    Some(match ty {
        DataType::TinyInt => ScalarValue::Int8(Some(number.try_into().ok()?)),
        DataType::SmallInt => ScalarValue::Int16(Some(number.try_into().ok()?)),
        DataType::Int => ScalarValue::Int32(Some(number.try_into().ok()?)),
        DataType::BigInt => ScalarValue::Int64(Some(number)),
        _ => return None,
    })
}
