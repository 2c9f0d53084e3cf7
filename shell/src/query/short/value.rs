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

#[cfg(test)]
mod tests {
    use tidegate_engine::ColumnKind;

    use super::*;

    fn column(ty: DataType) -> Column {
        Column { name: "k".into(), ty, kind: ColumnKind::PartitionKey { position: 0 } }
    }

    #[test]
    fn a_whole_number_stands_for_a_value_that_its_column_can_have() {
        for (ty, min, max) in [
            (DataType::TinyInt, i64::from(i8::MIN), i64::from(i8::MAX)),
            (DataType::SmallInt, i64::from(i16::MIN), i64::from(i16::MAX)),
            (DataType::Int, i64::from(i32::MIN), i64::from(i32::MAX)),
            (DataType::BigInt, i64::MIN, i64::MAX),
        ] {
            let (below, above) = (min.checked_sub(1), max.checked_add(1));
            let inside = [min, min + 1, -1, 0, 7, max - 1, max].map(Some);
            for number in inside.into_iter().chain([below, above]).flatten() {
                let found = whole_number(number, &ty);
                let what = format!("{number} as {ty:?}");
                assert_eq!(found.is_some(), (min..=max).contains(&number), "{what}");
                let compared = compared(&Operand::Number(number), &[], &column(ty.clone()));
                assert_eq!(compared, found, "{what}");
                let Some(found) = found else { continue };
                assert_eq!(found.data_type(), arrow_type(&ty), "{what}");
                assert_eq!(found.to_string(), number.to_string(), "{what}");
                let wanted = match ty {
                    DataType::TinyInt => Value::TinyInt(number as i8),
                    DataType::SmallInt => Value::SmallInt(number as i16),
                    DataType::Int => Value::Int(number as i32),
                    _ => Value::BigInt(number),
                };
                assert_eq!(plain_value(&found), Some(wanted), "{what}");
            }
        }
        for ty in [
            DataType::Float,
            DataType::Double,
            DataType::Varint,
            DataType::Counter,
            DataType::Boolean,
            DataType::Text,
            DataType::Date,
            DataType::Timestamp,
            DataType::Uuid,
        ] {
            assert_eq!(whole_number(1, &ty), None, "{ty:?}");
        }
    }

    #[test]
    fn a_text_stands_for_texts_and_for_what_it_names_in_its_one_form() {
        let id = "6b29fc40-ca47-1067-b31d-00dd010662da";
        for (ty, text, wanted) in [
            (DataType::Text, "", Some("")),
            (DataType::Text, "Ab", Some("Ab")),
            (DataType::Uuid, id, Some(id)),
            (DataType::Uuid, "6B29FC40-CA47-1067-B31D-00DD010662DA", Some(id)),
            (DataType::TimeUuid, "6B29FC40-CA47-1067-B31D-00DD010662DA", Some(id)),
            (DataType::Inet, "10.0.0.1", Some("10.0.0.1")),
            (DataType::Inet, "0:0:0:0:0:0:0:1", Some("::1")),
            (DataType::Uuid, "none", None),
            (DataType::TimeUuid, "none", None),
            (DataType::Inet, "none", None),
            (DataType::Int, "1", None),
            (DataType::Boolean, "true", None),
            (DataType::Timestamp, "2020-01-01", None),
            (DataType::Blob, "x", None),
        ] {
            let own = column(ty.clone());
            let wanted = wanted.map(|text| ScalarValue::Utf8(Some(text.to_owned())));
            let found = compared(&Operand::Text(text.to_owned()), &[], &own);
            assert_eq!(found, wanted, "'{text}' as {ty:?}");
            if arrow_type(&ty) == ArrowType::Utf8 {
                // Bound, it is the same.
                let bound = [ScalarValue::Utf8(Some(text.to_owned()))];
                let found = compared(&Operand::Parameter(1), &bound, &own);
                assert_eq!(found, wanted, "'{text}' as {ty:?}");
            }
            assert_eq!(compared(&Operand::Null, &[], &own), None, "{ty:?}");
        }
    }

    #[test]
    fn a_parameter_stands_for_a_value_of_its_own_type_alone() {
        let values = [
            ScalarValue::Int32(Some(5)),
            ScalarValue::Int32(None),
            ScalarValue::Int64(Some(6)),
            ScalarValue::Null,
        ];
        for (n, is_taken) in [(0, false), (1, true), (2, false), (3, false), (4, false), (5, false)]
        {
            let found = compared(&Operand::Parameter(n), &values, &column(DataType::Int));
            assert_eq!(found, is_taken.then_some(ScalarValue::Int32(Some(5))), "${n}");
        }
        let long = compared(&Operand::Parameter(3), &values, &column(DataType::BigInt));
        assert_eq!(long, Some(ScalarValue::Int64(Some(6))));
        for value in [
            ScalarValue::Boolean(None),
            ScalarValue::Int8(None),
            ScalarValue::Int16(None),
            ScalarValue::Int32(None),
            ScalarValue::Int64(None),
            ScalarValue::Utf8(None),
            ScalarValue::TimestampMillisecond(None, None),
            ScalarValue::Float64(Some(1.0)),
            ScalarValue::Binary(Some(vec![1])),
        ] {
            assert_eq!(plain_value(&value), None, "{value:?}");
        }
        let at = ScalarValue::TimestampMillisecond(Some(-7), Some("UTC".into()));
        assert_eq!(plain_value(&at), Some(Value::Timestamp(-7)));
        assert_eq!(plain_value(&ScalarValue::Boolean(Some(true))), Some(Value::Boolean(true)));
    }
}
