//! Values of Arrow arrays as values of columns.

use std::net::IpAddr;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType as ArrowType, Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    i256,
};

use super::types::NARROW_DIGITS_MAX;
use super::wide;
use crate::error::{Error, Result};
use crate::schema::value::parse_uuid;
use crate::schema::{DataType, UserType, Value};

/// The error of who gives a value to a counter.
pub(super) fn no_value_of_a_counter() -> Error {
    Error::invalid("a counter takes steps, as in SET c = c + 1, and no values")
}

/// The value at `row` of an Arrow array as a value of type `ty`; `None` for null. Integers are
/// taken from any integer type that holds the value, text is parsed for UUIDs and addresses.
///
/// Errors: `Invalid` naming the types when the array's type cannot give such a value, or saying
/// what does not fit.
pub fn value_at(array: &dyn Array, row: usize, ty: &DataType) -> Result<Option<Value>> {
    if array.data_type() == &ArrowType::Null || array.is_null(row) {
        return Ok(None);
    }
    let cell = ArrowCell { array, row, ty };
    let value = match ty {
        DataType::Boolean => Value::Boolean(cell.get(array.as_boolean_opt())?.value(row)),
        DataType::TinyInt => Value::TinyInt(cell.integer()?),
        DataType::SmallInt => Value::SmallInt(cell.integer()?),
        DataType::Int => Value::Int(cell.integer()?),
        DataType::BigInt => Value::BigInt(cell.integer()?),
        DataType::Float => cell.float()?,
        // There are many NaN, and a computed one has a sign: one of them is kept, as in Java.
        DataType::Double => {
            let value = cell.get(float_at(array, row))?;
            Value::Double(if value.is_nan() { f64::NAN } else { value })
        }
        DataType::Decimal { precision, scale } if *precision <= NARROW_DIGITS_MAX => {
            cell.narrow_decimal(*precision, *scale)?
        }
        DataType::Decimal { precision, scale } => cell.wide_decimal(*precision, *scale)?,
        DataType::Varint => cell.varint()?,
        DataType::Text => Value::Text(cell.get(text_at(array, row))?.to_owned()),
        DataType::Blob => Value::Blob(cell.get(bytes_at(array, row))?.to_vec()),
        DataType::Date => match array.data_type() {
            ArrowType::Date32 => Value::Date(array.as_primitive::<Date32Type>().value(row)),
            _ => return Err(cell.mismatch()),
        },
        DataType::Time => Value::Time(cell.get(time_at(array, row))?),
        DataType::Timestamp => Value::Timestamp(cell.get(timestamp_at(array, row))?),
        DataType::Uuid | DataType::TimeUuid => cell.uuid()?,
        DataType::Inet => cell.inet()?,
        DataType::Duration => match array.data_type() {
            ArrowType::Interval(IntervalUnit::MonthDayNano) => {
                let interval = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
                let IntervalMonthDayNano { months, days, nanoseconds } = interval;
                Value::Duration { months, days, nanoseconds }
            }
            _ => return Err(cell.mismatch()),
        },
        DataType::Counter => return Err(no_value_of_a_counter()),
        DataType::Frozen(inner) => return value_at(array, row, inner),
        DataType::List(element) => Value::List(cell.get(elements_at(array, row, element)?)?),
        DataType::Set(element) => {
            Value::set_of(element, cell.get(elements_at(array, row, element)?)?)?
        }
        DataType::Map(key, value) => cell.map(key, value)?,
        DataType::Tuple(types) => cell.tuple(types)?,
        DataType::User(user) => cell.user_value(user)?,
    };
    Ok(Some(value))
}

/// A value of an array, and the type of the column that it is for.
struct ArrowCell<'a> {
    array: &'a dyn Array,
    row: usize,
    ty: &'a DataType,
}

impl ArrowCell<'_> {
    /// The array's type cannot give such a value.
    fn mismatch(&self) -> Error {
        let (wanted, found) = (self.ty.sql_name(), self.array.data_type());
        Error::invalid(format!("wanted {wanted}, found {found}"))
    }

    fn get<T>(&self, found: Option<T>) -> Result<T> {
        found.ok_or_else(|| self.mismatch())
    }

    fn whole(&self) -> Result<i128> {
        self.get(integer_at(self.array, self.row))
    }

    fn wide(&self) -> Result<(i256, i32)> {
        self.get(wide_at(self.array, self.row))
    }

    fn integer<T: TryFrom<i128>>(&self) -> Result<T> {
        let value = self.whole()?;
        T::try_from(value).map_err(|_| {
            Error::invalid(format!("{value} is out of range for {}", self.ty.sql_name()))
        })
    }

    fn float(&self) -> Result<Value> {
        let wide = self.get(float_at(self.array, self.row))?;
        let value = wide as f32;
        if value.is_infinite() && wide.is_finite() {
            return Err(Error::invalid(format!("{wide:e} is out of range for float")));
        }
        Ok(Value::Float(if value.is_nan() { f32::NAN } else { value }))
    }

    fn narrow_decimal(&self, precision: u8, scale: i8) -> Result<Value> {
        let (unscaled, own) = match self.array.data_type() {
            ArrowType::Decimal128(_, own) => {
                (self.array.as_primitive::<Decimal128Type>().value(self.row), i64::from(*own))
            }
            ArrowType::Decimal256(..) => {
                let (unscaled, own) = self.wide()?;
                let (unscaled, own) = wide::narrow(unscaled, own).ok_or_else(too_long)?;
                (unscaled, i64::from(own))
            }
            _ => (self.whole()?, 0),
        };
        let value = super::column::rescale(unscaled, i64::from(scale) - own)
            .filter(|value| value.unsigned_abs() < 10u128.pow(u32::from(precision)))
            .ok_or_else(|| {
                Error::invalid(format!("{unscaled}e-{own} does not fit {}", self.ty.sql_name()))
            })?;
        Ok(Value::Decimal { unscaled: value, scale: i32::from(scale) })
    }

    fn wide_decimal(&self, precision: u8, scale: i8) -> Result<Value> {
        let (number, own) = self.wide()?;
        wide::rescale(number, i64::from(scale) - i64::from(own))
            .filter(|value| wide::has_digits(*value, precision))
            .ok_or_else(|| {
                Error::invalid(format!("{number}e-{own} does not fit {}", self.ty.sql_name()))
            })?;
        let (unscaled, scale) = wide::narrow(number, own).ok_or_else(too_long)?;
        Ok(Value::Decimal { unscaled, scale })
    }

    fn varint(&self) -> Result<Value> {
        let (number, scale) = self.wide()?;
        let number = wide::rescale(number, -i64::from(scale))
            .ok_or_else(|| Error::invalid(format!("{number}e-{scale} is no whole number")))?;
        Ok(Value::Varint(wide::to_bytes(number)))
    }

    fn uuid(&self) -> Result<Value> {
        let uuid = match text_at(self.array, self.row) {
            Some(text) => parse_uuid(text)
                .ok_or_else(|| Error::invalid(format!("'{text}' is no {}", self.ty.sql_name())))?,
            None => {
                let bytes = bytes_at(self.array, self.row);
                self.get(bytes.and_then(|bytes| bytes.try_into().ok()))?
            }
        };
        match self.ty {
            DataType::Uuid => Ok(Value::Uuid(uuid)),
            _ if uuid[6] >> 4 == 1 => Ok(Value::TimeUuid(uuid)),
            _ => Err(Error::invalid("a timeuuid must be a version 1 UUID")),
        }
    }

    fn inet(&self) -> Result<Value> {
        let text = self.get(text_at(self.array, self.row))?;
        let address: IpAddr =
            text.parse().map_err(|_| Error::invalid(format!("'{text}' is no inet address")))?;
        // As in Cassandra: an IPv4 address that is written as an IPv6 one is the same address.
        Ok(Value::Inet(address.to_canonical()))
    }

    fn map(&self, key: &DataType, value: &DataType) -> Result<Value> {
        let entries = self.get(self.array.as_map_opt())?.value(self.row);
        let (keys, values) = (entries.column(0), entries.column(1));
        let entry = |i| Ok((part_at(keys, i, key)?, part_at(values, i, value)?));
        Value::map_of(key, (0..entries.len()).map(entry).collect::<Result<_>>()?)
    }

    fn tuple(&self, types: &[DataType]) -> Result<Value> {
        let fields = self.get(self.array.as_struct_opt())?;
        if fields.num_columns() != types.len() {
            return Err(self.mismatch());
        }
        let field = |(column, ty): (&ArrayRef, &DataType)| value_at(column, self.row, ty);
        Ok(Value::Tuple(fields.columns().iter().zip(types).map(field).collect::<Result<_>>()?))
    }

    fn user_value(&self, user: &UserType) -> Result<Value> {
        let fields = self.get(self.array.as_struct_opt())?;
        let known = |name: &&str| user.fields.iter().any(|(field, _)| field == name);
        if let Some(name) = fields.column_names().into_iter().find(|name| !known(name)) {
            let user = self.ty.sql_name();
            return Err(Error::invalid(format!("{user} has no field '{name}'")));
        }
        let field = |(name, ty): &(String, DataType)| match fields.column_by_name(name) {
            Some(column) => value_at(column, self.row, ty),
            None => Ok(None),
        };
        Ok(Value::Tuple(user.fields.iter().map(field).collect::<Result<_>>()?))
    }
}

fn too_long() -> Error {
    Error::invalid("the number has over 38 digits that count")
}

/// An element of a collection, which is never null.
fn part_at(array: &ArrayRef, row: usize, ty: &DataType) -> Result<Value> {
    value_at(array, row, ty)?.ok_or_else(|| Error::invalid("a collection holds no nulls"))
}

/// The elements of a list at `row`; `None` when the array is of another type.
fn elements_at(array: &dyn Array, row: usize, ty: &DataType) -> Result<Option<Vec<Value>>> {
    let elements = match array.data_type() {
        ArrowType::List(_) => array.as_list::<i32>().value(row),
        ArrowType::LargeList(_) => array.as_list::<i64>().value(row),
        ArrowType::FixedSizeList(..) => array.as_fixed_size_list().value(row),
        _ => return Ok(None),
    };
    (0..elements.len()).map(|i| part_at(&elements, i, ty)).collect::<Result<_>>().map(Some)
}

/// A number of any width and its scale.
fn wide_at(array: &dyn Array, row: usize) -> Option<(i256, i32)> {
    Some(match array.data_type() {
        ArrowType::Decimal128(_, scale) => {
            let number = array.as_primitive::<Decimal128Type>().value(row);
            (i256::from_i128(number), i32::from(*scale))
        }
        ArrowType::Decimal256(_, scale) => {
            (array.as_primitive::<Decimal256Type>().value(row), i32::from(*scale))
        }
        _ => (i256::from_i128(integer_at(array, row)?), 0),
    })
}

fn integer_at(array: &dyn Array, row: usize) -> Option<i128> {
    Some(match array.data_type() {
        ArrowType::Int8 => array.as_primitive::<Int8Type>().value(row).into(),
        ArrowType::Int16 => array.as_primitive::<Int16Type>().value(row).into(),
        ArrowType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        ArrowType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        ArrowType::UInt8 => array.as_primitive::<UInt8Type>().value(row).into(),
        ArrowType::UInt16 => array.as_primitive::<UInt16Type>().value(row).into(),
        ArrowType::UInt32 => array.as_primitive::<UInt32Type>().value(row).into(),
        ArrowType::UInt64 => array.as_primitive::<UInt64Type>().value(row).into(),
        _ => return None,
    })
}

fn float_at(array: &dyn Array, row: usize) -> Option<f64> {
    match array.data_type() {
        ArrowType::Float32 => Some(array.as_primitive::<Float32Type>().value(row).into()),
        ArrowType::Float64 => Some(array.as_primitive::<Float64Type>().value(row)),
        ArrowType::Decimal128(_, scale) => {
            let unscaled = array.as_primitive::<Decimal128Type>().value(row) as f64;
            Some(unscaled / 10f64.powi(i32::from(*scale)))
        }
        _ => integer_at(array, row).map(|value| value as f64),
    }
}

fn text_at(array: &dyn Array, row: usize) -> Option<&str> {
    match array.data_type() {
        ArrowType::Utf8 => Some(array.as_string::<i32>().value(row)),
        ArrowType::LargeUtf8 => Some(array.as_string::<i64>().value(row)),
        ArrowType::Utf8View => Some(array.as_string_view().value(row)),
        _ => None,
    }
}

fn bytes_at(array: &dyn Array, row: usize) -> Option<&[u8]> {
    match array.data_type() {
        ArrowType::Binary => Some(array.as_binary::<i32>().value(row)),
        ArrowType::LargeBinary => Some(array.as_binary::<i64>().value(row)),
        ArrowType::BinaryView => Some(array.as_binary_view().value(row)),
        ArrowType::FixedSizeBinary(_) => Some(array.as_fixed_size_binary().value(row)),
        _ => None,
    }
}

fn time_at(array: &dyn Array, row: usize) -> Option<i64> {
    Some(match array.data_type() {
        ArrowType::Time64(TimeUnit::Nanosecond) => {
            array.as_primitive::<Time64NanosecondType>().value(row)
        }
        ArrowType::Time64(TimeUnit::Microsecond) => {
            array.as_primitive::<Time64MicrosecondType>().value(row).checked_mul(1000)?
        }
        ArrowType::Time32(TimeUnit::Millisecond) => {
            i64::from(array.as_primitive::<Time32MillisecondType>().value(row)) * 1_000_000
        }
        ArrowType::Time32(TimeUnit::Second) => {
            i64::from(array.as_primitive::<Time32SecondType>().value(row)) * 1_000_000_000
        }
        _ => return None,
    })
}

/// Milliseconds since the epoch, rounded down.
fn timestamp_at(array: &dyn Array, row: usize) -> Option<i64> {
    Some(match array.data_type() {
        ArrowType::Timestamp(TimeUnit::Second, _) => {
            array.as_primitive::<TimestampSecondType>().value(row).checked_mul(1000)?
        }
        ArrowType::Timestamp(TimeUnit::Millisecond, _) => {
            array.as_primitive::<TimestampMillisecondType>().value(row)
        }
        ArrowType::Timestamp(TimeUnit::Microsecond, _) => {
            array.as_primitive::<TimestampMicrosecondType>().value(row).div_euclid(1000)
        }
        ArrowType::Timestamp(TimeUnit::Nanosecond, _) => {
            array.as_primitive::<TimestampNanosecondType>().value(row).div_euclid(1_000_000)
        }
        ArrowType::Date32 => {
            i64::from(array.as_primitive::<Date32Type>().value(row)).checked_mul(86_400_000)?
        }
        _ => return None,
    })
}
