//! Values of columns as text, and text as values: EXPLAIN, DESCRIBE and COPY.

use std::net::IpAddr;

use datafusion::arrow::compute::kernels::cast_utils::Parser;
use datafusion::arrow::datatypes::{
    Date32Type, Decimal128Type, Time64NanosecondType, TimestampMillisecondType,
    TimestampNanosecondType,
};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::ScalarValue;
use tidegate_engine::hex::unhex;
use tidegate_engine::schema::value::{format_uuid, parse_uuid};
use tidegate_engine::schema::varint::parse_varint;
use tidegate_engine::schema::{DataType, Value};
use tidegate_engine::{ClusteringKey, Column, PartitionKey, TableSchema};

/// Between the values of a key of several columns.
pub const KEY_SEPARATOR: &str = ", ";

/// A value as SQL shows it, without quotes.
pub fn text(value: &Value) -> String {
    let scalar = match value {
        Value::Text(text) => return text.clone(),
        Value::Uuid(uuid) | Value::TimeUuid(uuid) => return format_uuid(uuid),
        Value::Decimal { unscaled, scale } => {
            return match i8::try_from(*scale) {
                Ok(scale) => Decimal128(*unscaled, scale).to_string(),
                Err(_) => value.to_string(),
            };
        }
        Value::Date(days) => ScalarValue::Date32(Some(*days)),
        Value::Time(ns) => ScalarValue::Time64Nanosecond(Some(*ns)),
        Value::Timestamp(ms) => ScalarValue::TimestampMillisecond(Some(*ms), Some("UTC".into())),
        other => return other.to_string(),
    };
    scalar
        .to_array()
        .and_then(|array| Ok(array_value_to_string(&array, 0)?))
        .unwrap_or_else(|_| value.to_string())
}

struct Decimal128(i128, i8);

impl std::fmt::Display for Decimal128 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use datafusion::arrow::datatypes::DecimalType;
        f.write_str(&Decimal128Type::format_decimal(self.0, 38, self.1))
    }
}

/// Reads a value of type `ty`, as a CSV file writes it: ISO 8601 for times (with `Z`, `T` or a
/// blank), hex with or without `0x` for blobs.
///
/// Errors: why the text is no such value.
pub fn parse(ty: &DataType, text: &str) -> Result<Value, String> {
    let trimmed = text.trim();
    let wrong = || format!("'{text}' is no {}", ty.sql_name());
    let out_of_range = || format!("'{text}' is out of range for {}", ty.sql_name());
    let number = |error: std::num::ParseIntError| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        match error.kind() {
            PosOverflow | NegOverflow => out_of_range(),
            _ => wrong(),
        }
    };
    Ok(match ty {
        DataType::Text => Value::Text(text.to_owned()),
        DataType::Boolean => match trimmed.to_ascii_lowercase().as_str() {
            "true" | "t" | "1" => Value::Boolean(true),
            "false" | "f" | "0" => Value::Boolean(false),
            _ => return Err(wrong()),
        },
        DataType::TinyInt => Value::TinyInt(trimmed.parse().map_err(number)?),
        DataType::SmallInt => Value::SmallInt(trimmed.parse().map_err(number)?),
        DataType::Int => Value::Int(trimmed.parse().map_err(number)?),
        DataType::BigInt => Value::BigInt(trimmed.parse().map_err(number)?),
        DataType::Float | DataType::Double => float(ty, text)?,
        DataType::Decimal { precision, scale } => {
            let (unscaled, scale) = decimal(trimmed, *precision, *scale).ok_or_else(wrong)?;
            Value::Decimal { unscaled, scale }
        }
        DataType::Blob => Value::Blob(hex(trimmed).ok_or_else(wrong)?),
        DataType::Date => {
            let day = Date32Type::parse(trimmed).ok_or_else(wrong)?;
            let instant = TimestampNanosecondType::parse(trimmed);
            if instant.is_some_and(|instant| instant % DAY_NS != 0) {
                return Err(format!("'{text}' has a time of day, which a date does not hold"));
            }
            Value::Date(day)
        }
        DataType::Time if is_below_nanosecond(trimmed) => {
            return Err(format!("'{text}' is finer than a nanosecond, which a time ends at"));
        }
        DataType::Time => Value::Time(Time64NanosecondType::parse(trimmed).ok_or_else(wrong)?),
        DataType::Timestamp => {
            Value::Timestamp(TimestampMillisecondType::parse(trimmed).ok_or_else(wrong)?)
        }
        DataType::Uuid => Value::Uuid(parse_uuid(trimmed).ok_or_else(wrong)?),
        DataType::TimeUuid => {
            let uuid = parse_uuid(trimmed).ok_or_else(wrong)?;
            if uuid[6] >> 4 != 1 {
                return Err(format!("'{text}' is no version 1 UUID"));
            }
            Value::TimeUuid(uuid)
        }
        DataType::Inet => {
            let address: IpAddr = trimmed.parse().map_err(|_| wrong())?;
            Value::Inet(address.to_canonical())
        }
        DataType::Varint => Value::Varint(parse_varint(trimmed).ok_or_else(wrong)?),
        DataType::Counter => {
            return Err("a counter takes steps, as in SET c = c + 1, and no values".to_owned());
        }
        DataType::Duration
        | DataType::List(_)
        | DataType::Set(_)
        | DataType::Map(..)
        | DataType::Tuple(_)
        | DataType::User(_)
        | DataType::Frozen(_) => {
            return Err(format!("{} is not read from text: use INSERT or Parquet", ty.sql_name()));
        }
    })
}

/// A float or a double.
fn float(ty: &DataType, text: &str) -> Result<Value, String> {
    let trimmed = text.trim();
    let wrong = |_| format!("'{text}' is no {}", ty.sql_name());
    let (value, is_infinite) = match ty {
        DataType::Float => {
            let value: f32 = trimmed.parse().map_err(wrong)?;
            (Value::Float(value), value.is_infinite())
        }
        _ => {
            let value: f64 = trimmed.parse().map_err(wrong)?;
            (Value::Double(value), value.is_infinite())
        }
    };
    match is_infinite && !says_infinity(trimmed) {
        true => Err(format!("'{text}' does not fit a {}", ty.sql_name())),
        false => Ok(value),
    }
}

/// Whether a text that is read as infinity says so, and is no number that is too great.
pub fn says_infinity(text: &str) -> bool {
    !text.bytes().any(|byte| byte.is_ascii_digit())
}

/// Whether a time has digits behind its nanoseconds that are no zeros.
fn is_below_nanosecond(text: &str) -> bool {
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    let digits = fraction.bytes().take_while(u8::is_ascii_digit);
    digits.skip(NANOSECOND_DIGITS).any(|digit| digit != b'0')
}

/// `-12.5` as an unscaled number and its scale; digits beyond the scale are refused, not rounded. A
/// number of a type that is wider than what is kept has the scale that it needs.
fn decimal(text: &str, precision: u8, scale: i8) -> Option<(i128, i32)> {
    let scale = usize::try_from(scale).ok()?;
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    if (whole.is_empty() && fraction.is_empty() && !digits.contains('0')) || fraction.len() > scale
    {
        return None;
    }
    if !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    if whole.len() + scale > usize::from(precision) {
        return None;
    }
    let kept = if usize::from(precision) > DIGITS_KEPT { fraction.len() } else { scale };
    let padded = format!("{whole}{fraction}{}", "0".repeat(kept - fraction.len()));
    let unscaled: i128 = if padded.is_empty() { 0 } else { padded.parse().ok()? };
    Some((if negative { -unscaled } else { unscaled }, i32::try_from(kept).ok()?))
}

/// Nanoseconds of a day.
const DAY_NS: i64 = 86_400_000_000_000;
/// Digits of a second's fraction that end at nanoseconds.
const NANOSECOND_DIGITS: usize = 9;
/// Digits of every number that the engine keeps.
const DIGITS_KEPT: usize = 38;

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("\\x")).unwrap_or(text);
    unhex(digits)
}

/// The values of a clustering prefix, as text.
pub fn prefix_text(table: &TableSchema, key: &ClusteringKey) -> String {
    let Ok(stored) = key.stored(table) else { return "?".to_owned() };
    joined(table.clustering_key().zip(stored.iter().map(|bytes| &**bytes)))
}

/// The values of a partition key, as text.
pub fn partition_text(table: &TableSchema, key: &PartitionKey) -> String {
    let Ok(stored) = key.components(table) else { return "?".to_owned() };
    joined(table.partition_key().zip(stored))
}

fn joined<'a>(stored: impl Iterator<Item = (&'a Column, &'a [u8])>) -> String {
    let value = |(column, bytes): (&Column, &[u8])| {
        Value::decode(&column.ty, bytes).map_or_else(|_| "?".to_owned(), |value| text(&value))
    };
    stored.map(value).collect::<Vec<_>>().join(KEY_SEPARATOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_by_type() {
        let timestamp = |text| parse(&DataType::Timestamp, text);
        let wanted = Ok(Value::Timestamp(1_357_020_000_000));
        assert_eq!(timestamp("2013-01-01T06:00:00Z"), wanted);
        assert_eq!(timestamp("2013-01-01 06:00:00"), wanted);
        assert_eq!(timestamp("2013-01-01T06:00:00"), wanted);
        assert_eq!(timestamp("2013-01-01T08:00:00.000+02:00"), wanted);
        assert!(timestamp("yesterday").is_err());
        assert_eq!(parse(&DataType::Double, "8.05546"), Ok(Value::Double(8.05546)));
        assert_eq!(parse(&DataType::Int, "x"), Err("'x' is no int".into()));
        assert_eq!(
            parse(&DataType::TinyInt, "128"),
            Err("'128' is out of range for tinyint".into())
        );
        assert_eq!(parse(&DataType::Blob, "0x00ff"), Ok(Value::Blob(vec![0, 255])));
        assert_eq!(parse(&DataType::Date, "1970-01-03"), Ok(Value::Date(2)));
        let mapped = parse(&DataType::Inet, "::ffff:1.2.3.4");
        assert_eq!(mapped, Ok(Value::Inet([1, 2, 3, 4].into())));
    }

    /// Texts up to the border of their type, in each way that they may be written.
    #[test]
    fn texts_are_values_up_to_the_border_of_their_type() {
        use DataType::{
            BigInt, Blob, Boolean, Date, Double, Float, Inet, Int, SmallInt, Text, Time, TimeUuid,
            Timestamp, TinyInt, Uuid,
        };
        let uuid = |last: u8| [0, 0, 0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0, 0, 0, 0, last];
        for (ty, text, wanted) in [
            (Boolean, "TRUE", Value::Boolean(true)),
            (Boolean, " t ", Value::Boolean(true)),
            (Boolean, "1", Value::Boolean(true)),
            (Boolean, "False", Value::Boolean(false)),
            (Boolean, "F", Value::Boolean(false)),
            (Boolean, "0", Value::Boolean(false)),
            (TinyInt, "-128", Value::TinyInt(i8::MIN)),
            (TinyInt, " 127", Value::TinyInt(i8::MAX)),
            (SmallInt, "-32768", Value::SmallInt(i16::MIN)),
            (SmallInt, "32767", Value::SmallInt(i16::MAX)),
            (Int, "-2147483648", Value::Int(i32::MIN)),
            (Int, "2147483647 ", Value::Int(i32::MAX)),
            (BigInt, "-9223372036854775808", Value::BigInt(i64::MIN)),
            (BigInt, "9223372036854775807", Value::BigInt(i64::MAX)),
            (Float, "1.5", Value::Float(1.5)),
            (Float, "3.4e38", Value::Float(3.4e38)),
            (Float, "Infinity", Value::Float(f32::INFINITY)),
            (Double, "-inf", Value::Double(f64::NEG_INFINITY)),
            (Double, "1.7e308", Value::Double(1.7e308)),
            (Text, " a ", Value::Text(" a ".into())),
            (Text, "", Value::Text(String::new())),
            (Blob, "", Value::Blob(Vec::new())),
            (Blob, "0xFF00", Value::Blob(vec![255, 0])),
            (Blob, "\\xff", Value::Blob(vec![255])),
            (Blob, "fF", Value::Blob(vec![255])),
            (Date, "1969-12-31", Value::Date(-1)),
            (Date, "1970-01-02 00:00:00", Value::Date(1)),
            (Time, "00:00:00.000000001", Value::Time(1)),
            (Time, "23:59:59.999999999", Value::Time(DAY_NS - 1)),
            (Timestamp, "1969-12-31T23:59:59.999Z", Value::Timestamp(-1)),
            (Uuid, "00000000-0000-1000-8000-000000000001", Value::Uuid(uuid(1))),
            (TimeUuid, "00000000000010008000000000000002", Value::TimeUuid(uuid(2))),
            (Inet, "10.0.0.1", Value::Inet([10, 0, 0, 1].into())),
        ] {
            assert_eq!(parse(&ty, text), Ok(wanted), "{text} of {}", ty.sql_name());
        }
    }

    #[test]
    fn texts_beyond_the_border_of_their_type_are_refused_with_the_reason() {
        use DataType::{
            BigInt, Blob, Boolean, Counter, Date, Double, Duration, Float, Inet, Int, SmallInt,
            Time, TimeUuid, Timestamp, TinyInt, Uuid, Varint,
        };
        for (ty, text, reason) in [
            (Boolean, "yes", "is no boolean"),
            (Boolean, "", "is no boolean"),
            (TinyInt, "-129", "is out of range for tinyint"),
            (SmallInt, "32768", "is out of range for smallint"),
            (SmallInt, "-32769", "is out of range for smallint"),
            (Int, "2147483648", "is out of range for int"),
            (Int, "-2147483649", "is out of range for int"),
            (Int, "1.0", "is no int"),
            (Int, "", "is no int"),
            (BigInt, "9223372036854775808", "is out of range for bigint"),
            (BigInt, "-9223372036854775809", "is out of range for bigint"),
            (Float, "3.5e38", "does not fit a float"),
            (Float, "-1e39", "does not fit a float"),
            (Float, "x", "is no float"),
            (Double, "1.8e308", "does not fit a double"),
            (Double, "", "is no double"),
            (Blob, "0xf", "is no blob"),
            (Blob, "zz", "is no blob"),
            (Date, "1970-13-01", "is no date"),
            (Date, "1970-01-02 00:00:01", "has a time of day"),
            (Time, "25:00:00", "is no time"),
            (Time, "00:00:00.0000000001", "is finer than a nanosecond"),
            (Timestamp, "x", "is no timestamp"),
            (Uuid, "00000000-0000-1000-8000-00000000000", "is no uuid"),
            (TimeUuid, "00000000-0000-4000-8000-000000000001", "is no version 1 UUID"),
            (Inet, "10.0.0", "is no inet"),
            (Varint, "1.5", "is no varint"),
            (Counter, "1", "takes steps"),
            (Duration, "1h", "is not read from text"),
            (DataType::list_of(Int), "[1]", "is not read from text"),
            (DataType::list_of(Int).frozen(), "[1]", "is not read from text"),
        ] {
            let found = parse(&ty, text);
            assert!(found.as_ref().is_err_and(|error| error.contains(reason)), "{text}: {found:?}");
        }
    }

    #[test]
    fn decimals_keep_every_digit() {
        let ty = DataType::Decimal { precision: 5, scale: 2 };
        let unscaled = |text| match parse(&ty, text) {
            Ok(Value::Decimal { unscaled, scale: 2 }) => Some(unscaled),
            _ => None,
        };
        assert_eq!(unscaled("-1.5"), Some(-150));
        assert_eq!(unscaled("0"), Some(0));
        assert_eq!(unscaled(".25"), Some(25));
        assert_eq!(unscaled("999.990"), Some(99_999));
        assert_eq!(unscaled("1000"), None);
        assert_eq!(unscaled("1.005"), None);
        assert_eq!(unscaled("1e3"), None);
        assert_eq!(unscaled(""), None);
        let wide = |text| parse(&DataType::DECIMAL_WIDE, text);
        assert_eq!(wide("2.50"), Ok(Value::Decimal { unscaled: 25, scale: 1 }));
        assert_eq!(wide("007"), Ok(Value::Decimal { unscaled: 7, scale: 0 }));
        assert!(wide(&"9".repeat(39)).is_err());
    }

    #[test]
    fn values_are_shown_as_sql_writes_them() {
        assert_eq!(text(&Value::Timestamp(1_357_020_000_000)), "2013-01-01T06:00:00Z");
        assert_eq!(text(&Value::Decimal { unscaled: -150, scale: 2 }), "-1.50");
        assert_eq!(text(&Value::Text("a".into())), "a");
    }
}
