//! One typed value and its serialised form (Cassandra's bytes, big-endian).
//!
//! Not here: the order-preserving form of key columns (`order.rs`), Arrow types (`batch/`).

use std::fmt;
use std::net::IpAddr;

use super::counter;
use super::frozen;
use super::order::encode_component;
use super::table_schema::ClusteringOrder;
use super::types::DataType;
use super::varint::{format_varint, minimal_twos_complement, sign_extended};
use super::vint::{put_svint, take_svint};
use crate::error::{Error, Result};
use crate::hex::Hex;

/// A typed value. Null is the absence of a `Value`.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Boolean(bool),
    TinyInt(i8),
    SmallInt(i16),
    Int(i32),
    BigInt(i64),
    Float(f32),
    Double(f64),
    /// `unscaled` x 10^-`scale`.
    Decimal {
        unscaled: i128,
        scale: i32,
    },
    /// Big-endian two's complement, as short as it can be.
    Varint(Vec<u8>),
    Text(String),
    Blob(Vec<u8>),
    /// Days since 1970-01-01.
    Date(i32),
    /// Nanoseconds since midnight.
    Time(i64),
    /// Milliseconds since the Unix epoch.
    Timestamp(i64),
    Duration {
        months: i32,
        days: i32,
        nanoseconds: i64,
    },
    Uuid([u8; 16]),
    TimeUuid([u8; 16]),
    Inet(IpAddr),
    /// The sum of what all nodes counted.
    Counter(i64),
    List(Vec<Value>),
    /// In the order of its elements, each once: see [`Value::set_of`].
    Set(Vec<Value>),
    /// In the order of its keys, each once: see [`Value::map_of`].
    Map(Vec<(Value, Value)>),
    /// Fields of a tuple or of a user type, in order; `None` is null.
    Tuple(Vec<Option<Value>>),
}

/// Fields beyond those of the type, which a later definition had, stay as they are.
fn fields_as_inserted<'a>(
    fields: Vec<Option<Value>>,
    types: impl Iterator<Item = &'a DataType>,
) -> Vec<Option<Value>> {
    let mut types = types;
    let inserted = |field: Option<Value>| match types.next() {
        Some(ty) => field.map(|value| value.as_inserted(ty)),
        None => field,
    };
    fields.into_iter().map(inserted).collect()
}

/// Digits of every decimal that is kept in memory.
const DIGITS_KEPT: u8 = 38;

/// Bias that makes the stored u32 of a date order as days do.
const DATE_EPOCH: u32 = 1 << 31;

impl Value {
    /// The name of the variant's type, for messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Boolean(_) => "boolean",
            Value::TinyInt(_) => "tinyint",
            Value::SmallInt(_) => "smallint",
            Value::Int(_) => "int",
            Value::BigInt(_) => "bigint",
            Value::Float(_) => "float",
            Value::Double(_) => "double",
            Value::Decimal { .. } => "decimal",
            Value::Varint(_) => "varint",
            Value::Text(_) => "text",
            Value::Blob(_) => "blob",
            Value::Date(_) => "date",
            Value::Time(_) => "time",
            Value::Timestamp(_) => "timestamp",
            Value::Duration { .. } => "duration",
            Value::Uuid(_) => "uuid",
            Value::TimeUuid(_) => "timeuuid",
            Value::Inet(_) => "inet",
            Value::Counter(_) => "counter",
            Value::List(_) => "list",
            Value::Set(_) => "set",
            Value::Map(_) => "map",
            Value::Tuple(_) => "tuple",
        }
    }

    /// A set of these elements: in their order, each once.
    ///
    /// Errors: `Invalid` for a value that is none of type `element`.
    pub fn set_of(element: &DataType, values: Vec<Value>) -> Result<Self> {
        let mut ranked = Vec::with_capacity(values.len());
        for value in values {
            ranked.push((rank(element, &value)?, value));
        }
        ranked.sort_by(|(a, _), (b, _)| a.cmp(b));
        ranked.dedup_by(|(a, _), (b, _)| a == b);
        Ok(Value::Set(ranked.into_iter().map(|(_, value)| value).collect()))
    }

    /// A map of these entries: in the order of their keys, of two with one key the last.
    ///
    /// Errors: `Invalid` for a key that is none of type `key`.
    pub fn map_of(key: &DataType, entries: Vec<(Value, Value)>) -> Result<Self> {
        let mut ranked = Vec::with_capacity(entries.len());
        for (place, entry) in entries.into_iter().enumerate() {
            ranked.push((rank(key, &entry.0)?, std::cmp::Reverse(place), entry));
        }
        ranked.sort_by(|(a, p, _), (b, q, _)| (a, p).cmp(&(b, q)));
        ranked.dedup_by(|(a, ..), (b, ..)| a == b);
        Ok(Value::Map(ranked.into_iter().map(|(_, _, entry)| entry).collect()))
    }

    /// Whether this value may stand in a column of type `ty`.
    pub fn fits(&self, ty: &DataType) -> bool {
        match (self, ty.unfrozen()) {
            (Value::List(values), DataType::List(element))
            | (Value::Set(values), DataType::Set(element)) => {
                values.iter().all(|value| value.fits(element))
            }
            (Value::Map(entries), DataType::Map(key, value)) => {
                entries.iter().all(|(k, v)| k.fits(key) && v.fits(value))
            }
            (Value::Tuple(values), DataType::Tuple(fields)) => {
                fit_fields(values, fields.iter(), fields.len())
            }
            (Value::Tuple(values), DataType::User(user)) => {
                fit_fields(values, user.fields.iter().map(|(_, ty)| ty), user.fields.len())
            }
            (value, ty) => value.fits_scalar(ty),
        }
    }

    fn fits_scalar(&self, ty: &DataType) -> bool {
        matches!(
            (self, ty),
            (Value::Boolean(_), DataType::Boolean)
                | (Value::TinyInt(_), DataType::TinyInt)
                | (Value::SmallInt(_), DataType::SmallInt)
                | (Value::Int(_), DataType::Int)
                | (Value::BigInt(_), DataType::BigInt)
                | (Value::Float(_), DataType::Float)
                | (Value::Double(_), DataType::Double)
                | (Value::Decimal { .. }, DataType::Decimal { .. })
                | (Value::Varint(_), DataType::Varint)
                | (Value::Text(_), DataType::Text)
                | (Value::Blob(_), DataType::Blob)
                | (Value::Date(_), DataType::Date)
                | (Value::Time(_), DataType::Time)
                | (Value::Timestamp(_), DataType::Timestamp)
                | (Value::Duration { .. }, DataType::Duration)
                | (Value::Uuid(_), DataType::Uuid)
                | (Value::TimeUuid(_), DataType::TimeUuid)
                | (Value::Inet(_), DataType::Inet)
                | (Value::Counter(_), DataType::Counter)
        )
    }

    /// The value that an INSERT of it into a column of type `ty` stores: one NaN, addresses of IPv4
    /// as such, and decimals as [`decimal_as_inserted`](Self::decimal_as_inserted) says, within
    /// collections and tuples as well. What does not fit the type is as it was.
    pub fn as_inserted(self, ty: &DataType) -> Value {
        match (self, ty) {
            (value, DataType::Frozen(inner)) => value.as_inserted(inner),
            (Value::Float(v), _) if v.is_nan() => Value::Float(f32::NAN),
            (Value::Double(v), _) if v.is_nan() => Value::Double(f64::NAN),
            (Value::Inet(address), _) => Value::Inet(address.to_canonical()),
            (Value::List(values), DataType::List(element)) => {
                Value::List(values.into_iter().map(|value| value.as_inserted(element)).collect())
            }
            (Value::Set(values), DataType::Set(element)) => {
                let inserted: Vec<Value> =
                    values.iter().map(|value| value.clone().as_inserted(element)).collect();
                Value::set_of(element, inserted).unwrap_or(Value::Set(values))
            }
            (Value::Map(entries), DataType::Map(key, ty)) => {
                let inserted = |(k, v): &(Value, Value)| {
                    (k.clone().as_inserted(key), v.clone().as_inserted(ty))
                };
                let inserted = entries.iter().map(inserted).collect();
                Value::map_of(key, inserted).unwrap_or(Value::Map(entries))
            }
            (Value::Tuple(fields), DataType::Tuple(types)) => {
                Value::Tuple(fields_as_inserted(fields, types.iter()))
            }
            (Value::Tuple(fields), DataType::User(user)) => {
                Value::Tuple(fields_as_inserted(fields, user.fields.iter().map(|(_, ty)| ty)))
            }
            (value, ty) => value.decimal_as_inserted(ty),
        }
    }

    /// A decimal with the scale that an INSERT into a column of type `ty` gives it: the column's,
    /// or as few digits behind the point as it has where the type is wider than what is kept. Any
    /// other value, and a decimal that does not fit the column, is as it was.
    fn decimal_as_inserted(self, ty: &DataType) -> Value {
        let (Value::Decimal { unscaled, scale }, DataType::Decimal { precision, scale: wanted }) =
            (&self, ty)
        else {
            return self;
        };
        let (mut number, mut own) = (*unscaled, *scale);
        while number != 0 && number % 10 == 0 && own > 0 {
            (number, own) = (number / 10, own - 1);
        }
        let target = match precision {
            _ if *precision <= DIGITS_KEPT => i32::from(*wanted),
            _ if number == 0 => 0,
            _ => own.max(0),
        };
        let shift = target.checked_sub(own).and_then(|shift| u32::try_from(shift).ok());
        let power = shift.and_then(|shift| 10i128.checked_pow(shift));
        match power.and_then(|power| number.checked_mul(power)) {
            Some(unscaled) => Value::Decimal { unscaled, scale: target },
            None if number == 0 => Value::Decimal { unscaled: 0, scale: target },
            None => self,
        }
    }

    /// Appends the serialised form to `out`. A counter has none of its own: what nodes counted is
    /// more than the sum, so the sum is written as a number.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Value::Boolean(v) => out.push(u8::from(*v)),
            Value::TinyInt(v) => out.extend_from_slice(&v.to_be_bytes()),
            Value::SmallInt(v) => out.extend_from_slice(&v.to_be_bytes()),
            Value::Int(v) => out.extend_from_slice(&v.to_be_bytes()),
            Value::BigInt(v) | Value::Time(v) | Value::Timestamp(v) | Value::Counter(v) => {
                out.extend_from_slice(&v.to_be_bytes());
            }
            Value::Float(v) => out.extend_from_slice(&v.to_bits().to_be_bytes()),
            Value::Double(v) => out.extend_from_slice(&v.to_bits().to_be_bytes()),
            Value::Decimal { unscaled, scale } => {
                out.extend_from_slice(&scale.to_be_bytes());
                out.extend_from_slice(minimal_twos_complement(&unscaled.to_be_bytes()));
            }
            Value::Text(v) => out.extend_from_slice(v.as_bytes()),
            Value::Blob(v) | Value::Varint(v) => out.extend_from_slice(v),
            Value::Duration { months, days, nanoseconds } => {
                for part in [i64::from(*months), i64::from(*days), *nanoseconds] {
                    put_svint(out, part);
                }
            }
            Value::Date(v) => {
                out.extend_from_slice(&(*v as u32).wrapping_add(DATE_EPOCH).to_be_bytes());
            }
            Value::Uuid(v) | Value::TimeUuid(v) => out.extend_from_slice(v),
            Value::Inet(IpAddr::V4(v)) => out.extend_from_slice(&v.octets()),
            Value::Inet(IpAddr::V6(v)) => out.extend_from_slice(&v.octets()),
            Value::List(values) | Value::Set(values) => {
                let elements: Vec<Vec<u8>> = values.iter().map(Value::to_bytes).collect();
                frozen::put_all(values.len(), elements.iter().map(|e| Some(e.as_slice())), out);
            }
            Value::Map(entries) => {
                let both = entries.iter().flat_map(|(k, v)| [k.to_bytes(), v.to_bytes()]);
                let elements: Vec<Vec<u8>> = both.collect();
                frozen::put_all(entries.len(), elements.iter().map(|e| Some(e.as_slice())), out);
            }
            Value::Tuple(fields) => {
                for field in fields {
                    frozen::put(field.as_ref().map(Value::to_bytes).as_deref(), out);
                }
            }
        }
    }

    /// The serialised form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16);
        self.encode(&mut out);
        out
    }

    /// Reads the serialised form of a value of type `ty`.
    ///
    /// Errors: `Invalid` when the length or content is impossible for the type. An empty slice is
    /// a value only for text and blob.
    pub fn decode(ty: &DataType, bytes: &[u8]) -> Result<Value> {
        let wrong =
            || Error::invalid(format!("{} bytes are no {} value", bytes.len(), ty.sql_name()));
        Ok(match ty {
            DataType::Boolean => Value::Boolean(fixed::<1>(bytes).ok_or_else(wrong)?[0] != 0),
            DataType::TinyInt => Value::TinyInt(i8::from_be_bytes(fixed(bytes).ok_or_else(wrong)?)),
            DataType::SmallInt => {
                Value::SmallInt(i16::from_be_bytes(fixed(bytes).ok_or_else(wrong)?))
            }
            DataType::Int => Value::Int(i32::from_be_bytes(fixed(bytes).ok_or_else(wrong)?)),
            DataType::BigInt => Value::BigInt(i64::from_be_bytes(fixed(bytes).ok_or_else(wrong)?)),
            DataType::Float => Value::Float(f32::from_be_bytes(fixed(bytes).ok_or_else(wrong)?)),
            DataType::Double => Value::Double(f64::from_be_bytes(fixed(bytes).ok_or_else(wrong)?)),
            DataType::Decimal { .. } => {
                let (scale, unscaled) = bytes.split_first_chunk::<4>().ok_or_else(wrong)?;
                Value::Decimal {
                    unscaled: sign_extended(unscaled).ok_or_else(wrong)?,
                    scale: i32::from_be_bytes(*scale),
                }
            }
            DataType::Varint if bytes.is_empty() => return Err(wrong()),
            DataType::Varint => Value::Varint(minimal_twos_complement(bytes).to_vec()),
            DataType::Text => {
                Value::Text(std::str::from_utf8(bytes).map_err(|_| wrong())?.to_owned())
            }
            DataType::Blob => Value::Blob(bytes.to_vec()),
            DataType::Date => {
                let days = u32::from_be_bytes(fixed(bytes).ok_or_else(wrong)?);
                Value::Date(days.wrapping_sub(DATE_EPOCH) as i32)
            }
            DataType::Time => Value::Time(i64::from_be_bytes(fixed(bytes).ok_or_else(wrong)?)),
            DataType::Timestamp => {
                Value::Timestamp(i64::from_be_bytes(fixed(bytes).ok_or_else(wrong)?))
            }
            DataType::Duration => {
                let (months, days, nanoseconds) = duration(bytes).ok_or_else(wrong)?;
                Value::Duration { months, days, nanoseconds }
            }
            DataType::Uuid => Value::Uuid(fixed(bytes).ok_or_else(wrong)?),
            DataType::TimeUuid => Value::TimeUuid(fixed(bytes).ok_or_else(wrong)?),
            DataType::Inet => match bytes.len() {
                4 => Value::Inet(fixed::<4>(bytes).ok_or_else(wrong)?.into()),
                16 => Value::Inet(fixed::<16>(bytes).ok_or_else(wrong)?.into()),
                _ => return Err(wrong()),
            },
            DataType::Counter => Value::Counter(counter::total(bytes).ok_or_else(wrong)?),
            DataType::Frozen(inner) => Value::decode(inner, bytes)?,
            DataType::List(element) => Value::List(decode_all(element, bytes)?.ok_or_else(wrong)?),
            DataType::Set(element) => Value::Set(decode_all(element, bytes)?.ok_or_else(wrong)?),
            DataType::Map(key, value) => {
                let elements = frozen::elements(bytes, 2).ok_or_else(wrong)?;
                let entry = |entry: &[Option<&[u8]>]| {
                    let part = |ty, part: Option<&[u8]>| Value::decode(ty, part.ok_or_else(wrong)?);
                    Ok((part(key, entry[0])?, part(value, entry[1])?))
                };
                Value::Map(elements.chunks_exact(2).map(entry).collect::<Result<_>>()?)
            }
            DataType::Tuple(fields) => {
                let stored = frozen::fields(bytes, fields.len()).ok_or_else(wrong)?;
                decode_fields(fields.iter(), stored)?
            }
            DataType::User(user) => {
                let stored = frozen::fields(bytes, user.fields.len()).ok_or_else(wrong)?;
                decode_fields(user.fields.iter().map(|(_, ty)| ty), stored)?
            }
        })
    }
}

/// The ordered form of a value of type `ty`.
fn rank(ty: &DataType, value: &Value) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    encode_component(ty, ClusteringOrder::Ascending, &value.to_bytes(), &mut out)?;
    Ok(out)
}

fn fit_fields<'a>(
    values: &[Option<Value>],
    types: impl Iterator<Item = &'a DataType>,
    count: usize,
) -> bool {
    values.len() == count
        && values.iter().zip(types).all(|(value, ty)| value.as_ref().is_none_or(|v| v.fits(ty)))
}

/// Elements of a frozen list or set; `None` when the bytes are none or hold a null.
fn decode_all(element: &DataType, bytes: &[u8]) -> Result<Option<Vec<Value>>> {
    let Some(elements) = frozen::elements(bytes, 1) else { return Ok(None) };
    elements
        .into_iter()
        .map(|part| part.map(|bytes| Value::decode(element, bytes)).transpose())
        .collect()
}

fn decode_fields<'a>(
    types: impl Iterator<Item = &'a DataType>,
    stored: Vec<Option<&[u8]>>,
) -> Result<Value> {
    let fields = types.zip(stored);
    let field = |(ty, bytes): (&DataType, Option<&[u8]>)| {
        // A field of no bytes is null where the type has no empty value.
        let is_null =
            |bytes: &[u8]| bytes.is_empty() && !matches!(ty, DataType::Text | DataType::Blob);
        bytes.filter(|bytes| !is_null(bytes)).map(|bytes| Value::decode(ty, bytes)).transpose()
    };
    Ok(Value::Tuple(fields.map(field).collect::<Result<_>>()?))
}

/// Months, days and nanoseconds of a stored duration.
pub(crate) fn duration(mut bytes: &[u8]) -> Option<(i32, i32, i64)> {
    let mut next = || take_svint(&mut bytes);
    let (months, days, nanoseconds) = (next()?, next()?, next()?);
    let whole = bytes.is_empty();
    whole.then_some((i32::try_from(months).ok()?, i32::try_from(days).ok()?, nanoseconds))
}

fn fixed<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

/// Writes the 8-4-4-4-12 form of a UUID.
pub fn format_uuid(bytes: &[u8; 16]) -> String {
    let mut out = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        out.push(char::from(b"0123456789abcdef"[usize::from(byte >> 4)]));
        out.push(char::from(b"0123456789abcdef"[usize::from(byte & 15)]));
    }
    out
}

/// Reads a UUID in the 8-4-4-4-12 form or as 32 hex digits.
pub fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|&b| b != b'-')
        .map(|b| char::from(b).to_digit(16).map(|d| d as u8))
        .collect::<Option<_>>()?;
    if digits.len() != 32 || !matches!(text.len(), 32 | 36) {
        return None;
    }
    let mut out = [0; 16];
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Some(out)
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Boolean(v) => write!(f, "{v}"),
            Value::TinyInt(v) => write!(f, "{v}"),
            Value::SmallInt(v) => write!(f, "{v}"),
            Value::Int(v) => write!(f, "{v}"),
            Value::BigInt(v) => write!(f, "{v}"),
            Value::Float(v) => write!(f, "{v}"),
            Value::Double(v) => write!(f, "{v}"),
            Value::Decimal { unscaled, scale } => write!(f, "{unscaled}e-{scale}"),
            Value::Text(v) => write!(f, "'{v}'"),
            Value::Blob(v) => write!(f, "0x{}", Hex(v)),
            Value::Date(v) => write!(f, "date day {v}"),
            Value::Time(v) => write!(f, "time {v} ns"),
            Value::Timestamp(v) => write!(f, "timestamp {v} ms"),
            Value::Uuid(v) | Value::TimeUuid(v) => write!(f, "{}", format_uuid(v)),
            Value::Inet(v) => write!(f, "{v}"),
            Value::Varint(v) => f.write_str(&format_varint(v)),
            Value::Duration { months, days, nanoseconds } => {
                write!(f, "{months}mo{days}d{nanoseconds}ns")
            }
            Value::Counter(v) => write!(f, "{v}"),
            Value::List(values) => write_all(f, "[]", values),
            Value::Set(values) => write_all(f, "{}", values),
            Value::Map(entries) => {
                let entries: Vec<String> =
                    entries.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                write_all(f, "{}", &entries)
            }
            Value::Tuple(fields) => {
                let text = |field: &Option<Value>| match field {
                    Some(value) => value.to_string(),
                    None => "null".to_owned(),
                };
                write_all(f, "()", &fields.iter().map(text).collect::<Vec<_>>())
            }
        }
    }
}

/// Writes a list between a pair of brackets.
fn write_all<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    brackets: &str,
    values: &[T],
) -> fmt::Result {
    let (open, close) = brackets.split_at(1);
    f.write_str(open)?;
    for (i, value) in values.iter().enumerate() {
        write!(f, "{}{value}", if i == 0 { "" } else { ", " })?;
    }
    f.write_str(close)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_within_others_get_the_form_that_an_insert_gives_them() {
        let decimal = |unscaled, scale| Value::Decimal { unscaled, scale };
        let ty = DataType::Decimal { precision: 9, scale: 2 };
        let tuple = DataType::tuple_of([ty.clone(), DataType::Int]).frozen();
        assert!(tuple.has_several_forms() && !DataType::Text.has_several_forms());
        let row = |value| Value::Tuple(vec![Some(value), None, Some(Value::Int(1))]);
        assert_eq!(row(decimal(15, 1)).as_inserted(&tuple), row(decimal(150, 2)));
        let set = DataType::set_of(ty.clone()).frozen();
        let two = Value::Set(vec![decimal(15, 1), decimal(150, 2)]);
        assert_eq!(two.as_inserted(&set), Value::Set(vec![decimal(150, 2)]));
        let map = DataType::map_of(ty.clone(), DataType::Double).frozen();
        let entry = |key, value| Value::Map(vec![(key, Value::Double(value))]);
        let other_nan = f64::from_bits(f64::NAN.to_bits() | 1 << 63 | 1);
        let Value::Map(found) = entry(decimal(15, 1), other_nan).as_inserted(&map) else {
            panic!("a map stays one");
        };
        let [(key, Value::Double(value))] = &found[..] else { panic!("{found:?}") };
        assert_eq!((key, value.to_bits()), (&decimal(150, 2), f64::NAN.to_bits()));
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        let wanted = Value::Inet("10.0.0.1".parse().unwrap());
        assert_eq!(Value::Inet(mapped).as_inserted(&DataType::Inet), wanted);
        // As far from the column's scale as can be.
        let far = decimal(7, i32::MIN);
        assert_eq!(far.clone().as_inserted(&ty), far);
    }

    #[test]
    fn decimals_get_the_scale_that_an_insert_gives_them() {
        let decimal = |unscaled, scale| Value::Decimal { unscaled, scale };
        let narrow = DataType::Decimal { precision: 9, scale: 2 };
        let wide = DataType::DECIMAL_WIDE;
        assert_eq!(decimal(15, 1).as_inserted(&narrow), decimal(150, 2));
        assert_eq!(decimal(1500, 3).as_inserted(&narrow), decimal(150, 2));
        assert_eq!(decimal(15, -1).as_inserted(&narrow), decimal(15_000, 2));
        assert_eq!(decimal(1505, 3).as_inserted(&narrow), decimal(1505, 3));
        assert_eq!(decimal(0, 5).as_inserted(&narrow), decimal(0, 2));
        assert_eq!(decimal(150, 2).as_inserted(&wide), decimal(15, 1));
        assert_eq!(decimal(15, -2).as_inserted(&wide), decimal(1500, 0));
        assert_eq!(decimal(1500, 0).as_inserted(&wide), decimal(1500, 0));
        assert_eq!(decimal(0, 7).as_inserted(&wide), decimal(0, 0));
        assert_eq!(Value::Int(5).as_inserted(&wide), Value::Int(5));
    }
    use crate::schema::UserType;

    /// Of these only texts and blobs have an empty value.
    #[test]
    fn empty_fields_are_null_where_the_type_has_no_empty_value() {
        let types = [DataType::Text, DataType::Blob, DataType::Int, DataType::Uuid];
        let tuple = DataType::tuple_of(types).frozen();
        let fields = vec![Some(Value::Text("".into())), Some(Value::Blob(vec![])), None, None];
        let value = Value::Tuple(fields);
        let mut stored = Vec::new();
        value.encode(&mut stored);
        assert_eq!(Value::decode(&tuple, &stored).unwrap(), value);
        // Nulls, as others write them: of no bytes.
        let nulls = stored.len() - 8;
        stored[nulls..].fill(0);
        assert_eq!(Value::decode(&tuple, &stored).unwrap(), value);
    }

    #[test]
    fn every_type_survives_a_round_trip() {
        let cases = [
            (DataType::Boolean, Value::Boolean(true)),
            (DataType::TinyInt, Value::TinyInt(-7)),
            (DataType::SmallInt, Value::SmallInt(i16::MIN)),
            (DataType::Int, Value::Int(-1)),
            (DataType::BigInt, Value::BigInt(i64::MAX)),
            (DataType::Float, Value::Float(-0.5)),
            (DataType::Double, Value::Double(f64::INFINITY)),
            (
                DataType::Decimal { precision: 38, scale: 2 },
                Value::Decimal { unscaled: -12345, scale: 2 },
            ),
            (DataType::Text, Value::Text("ä".into())),
            (DataType::Blob, Value::Blob(vec![0, 255])),
            (DataType::Date, Value::Date(-719_528)),
            (DataType::Time, Value::Time(86_399_999_999_999)),
            (DataType::Timestamp, Value::Timestamp(-1)),
            (DataType::Uuid, Value::Uuid([9; 16])),
            (DataType::Inet, Value::Inet("::1".parse().unwrap())),
            (DataType::Inet, Value::Inet("10.0.0.1".parse().unwrap())),
        ];
        for (ty, value) in cases {
            assert!(value.fits(&ty));
            assert_eq!(Value::decode(&ty, &value.to_bytes()).unwrap(), value);
        }
    }

    #[test]
    fn collections_tuples_and_user_types_survive_a_round_trip() {
        let int = |v| Value::Int(v);
        let text = |v: &str| Value::Text(v.into());
        let user = DataType::User(Box::new(UserType::new(
            "ks",
            "u",
            [("a".to_owned(), DataType::Int), ("b".to_owned(), DataType::set_of(DataType::Text))],
        )));
        let cases = [
            (DataType::list_of(DataType::Int), Value::List(vec![int(3), int(-1)])),
            (DataType::list_of(DataType::Int).frozen(), Value::List(vec![])),
            (DataType::set_of(DataType::Text), Value::Set(vec![text(""), text("a")])),
            (
                DataType::map_of(DataType::Int, DataType::list_of(DataType::Text)),
                Value::Map(vec![
                    (int(1), Value::List(vec![text("x")])),
                    (int(2), Value::List(vec![])),
                ]),
            ),
            (
                DataType::tuple_of([DataType::Int, DataType::Text, DataType::Duration]),
                Value::Tuple(vec![
                    None,
                    Some(text("")),
                    Some(Value::Duration { months: -14, days: 25, nanoseconds: i64::MIN }),
                ]),
            ),
            (user.clone().frozen(), Value::Tuple(vec![Some(int(1)), None])),
        ];
        for (ty, value) in cases {
            assert!(value.fits(&ty), "{value}");
            let bytes = value.to_bytes();
            assert_eq!(Value::decode(&ty, &bytes).unwrap(), value);
            for length in 0..bytes.len() {
                // Fields may be missing at the end; what is cut within one is no value.
                if let Ok(other) = Value::decode(&ty, &bytes[..length]) {
                    assert!(matches!(other, Value::Tuple(_)), "{value} {length}");
                }
            }
        }
        assert!(!Value::List(vec![text("x")]).fits(&DataType::list_of(DataType::Int)));
        assert!(!Value::Tuple(vec![None]).fits(&user));
        let shown = Value::Map(vec![(int(1), Value::Set(vec![text("x"), text("y")]))]);
        assert_eq!(shown.to_string(), "{1: {'x', 'y'}}");
    }

    /// What fits is stored as it is: a wrong part would be read as a value of another type.
    #[test]
    fn a_map_fits_with_all_of_its_keys_and_all_of_its_values_only() {
        let map = DataType::map_of(DataType::Int, DataType::Text);
        let good = (Value::Int(1), Value::Text("a".into()));
        assert!(Value::Map(vec![good.clone(), (Value::Int(2), Value::Text("".into()))]).fits(&map));
        let other = || Value::BigInt(2);
        for wrong in [(Value::Int(2), other()), (other(), good.1.clone()), (other(), other())] {
            for entries in [vec![wrong.clone()], vec![good.clone(), wrong]] {
                let value = Value::Map(entries);
                assert!(!value.fits(&map) && !value.fits(&map.clone().frozen()), "{value}");
                let within = DataType::list_of(map.clone().frozen());
                assert!(!Value::List(vec![value]).fits(&within), "in a list");
            }
        }
    }

    #[test]
    fn impossible_lengths_are_refused() {
        assert!(Value::decode(&DataType::Int, &[0; 3]).is_err());
        assert!(Value::decode(&DataType::Int, &[]).is_err());
        assert!(Value::decode(&DataType::Inet, &[0; 5]).is_err());
        assert!(Value::decode(&DataType::Text, &[0xff]).is_err());
        for (ty, length) in [
            (DataType::Boolean, 1),
            (DataType::TinyInt, 1),
            (DataType::SmallInt, 2),
            (DataType::Int, 4),
            (DataType::BigInt, 8),
            (DataType::Float, 4),
            (DataType::Double, 8),
            (DataType::Date, 4),
            (DataType::Time, 8),
            (DataType::Timestamp, 8),
            (DataType::Uuid, 16),
            (DataType::TimeUuid, 16),
        ] {
            for found in [0, length - 1, length, length + 1] {
                let decoded = Value::decode(&ty, &vec![0; found]);
                assert_eq!(decoded.is_ok(), found == length, "{found} bytes of {ty:?}");
            }
        }
        for length in [0, 3, 4, 5, 15, 16, 17] {
            let decoded = Value::decode(&DataType::Inet, &vec![0; length]);
            assert_eq!(decoded.is_ok(), [4, 16].contains(&length), "{length} bytes");
        }
        // Of what has no fixed length only some may be empty.
        for (ty, may_be_empty) in [
            (DataType::Text, true),
            (DataType::Blob, true),
            (DataType::Varint, false),
            (DataType::DECIMAL_WIDE, false),
            (DataType::Duration, false),
            (DataType::list_of(DataType::Int), false),
            (DataType::map_of(DataType::Int, DataType::Int), false),
        ] {
            assert_eq!(Value::decode(&ty, &[]).is_ok(), may_be_empty, "{ty:?}");
        }
    }

    #[test]
    fn decimals_are_stored_in_the_shortest_form() {
        let bytes = Value::Decimal { unscaled: 128, scale: 1 }.to_bytes();
        assert_eq!(bytes, [0, 0, 0, 1, 0, 0x80]);
        assert_eq!(Value::Decimal { unscaled: -128, scale: 0 }.to_bytes(), [0, 0, 0, 0, 0x80]);
    }

    #[test]
    fn uuids_read_and_write_their_text() {
        let text = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
        assert_eq!(format_uuid(&parse_uuid(text).unwrap()), text);
        assert!(parse_uuid("f81d4fae").is_none());
    }

    #[test]
    fn varints_are_taken_in_their_shortest_form() {
        let value = Value::decode(&DataType::Varint, &[0xff, 0xff, 0x80]).unwrap();
        assert_eq!(value, Value::Varint(vec![0x80]));
    }

    #[test]
    fn sets_and_maps_are_put_in_order() {
        let ints = |ints: &[i32]| ints.iter().map(|i| Value::Int(*i)).collect::<Vec<_>>();
        let set = Value::set_of(&DataType::Int, ints(&[3, -1, 3, 2])).unwrap();
        assert_eq!(set, Value::Set(ints(&[-1, 2, 3])));
        let text = |text: &str| Value::Text(text.into());
        let entries = vec![
            (text("b"), Value::Int(1)),
            (text("a"), Value::Int(2)),
            (text("b"), Value::Int(3)),
        ];
        let map = Value::map_of(&DataType::Text, entries).unwrap();
        assert_eq!(map, Value::Map(vec![(text("a"), Value::Int(2)), (text("b"), Value::Int(3))]));
    }

    #[test]
    fn a_value_is_shown_as_messages_have_it() {
        let decimal = Value::Decimal { unscaled: -15, scale: 1 };
        let (x, y) = (Value::Text("x".into()), Value::Text("y".into()));
        let entries = vec![(Value::Int(1), x.clone()), (Value::Int(2), y.clone())];
        for (value, wanted) in [
            (Value::Boolean(false), "false"),
            (Value::TinyInt(-1), "-1"),
            (Value::SmallInt(-2), "-2"),
            (Value::Int(-3), "-3"),
            (Value::BigInt(i64::MIN), "-9223372036854775808"),
            (Value::Float(0.5), "0.5"),
            (Value::Double(-0.25), "-0.25"),
            (decimal, "-15e-1"),
            (Value::Varint(vec![0xff]), "-1"),
            (Value::Blob(vec![1, 0xff]), "0x01ff"),
            (Value::Date(-1), "date day -1"),
            (Value::Time(5), "time 5 ns"),
            (Value::Timestamp(-1), "timestamp -1 ms"),
            (Value::Duration { months: -1, days: 2, nanoseconds: 3 }, "-1mo2d3ns"),
            (Value::TimeUuid([0xab; 16]), "abababab-abab-abab-abab-abababababab"),
            (Value::Inet("::1".parse().unwrap()), "::1"),
            (Value::Counter(7), "7"),
            (Value::List(vec![x.clone(), y.clone()]), "['x', 'y']"),
            (Value::Set(Vec::new()), "{}"),
            (Value::Map(entries), "{1: 'x', 2: 'y'}"),
            (Value::Tuple(vec![Some(x), None, Some(y)]), "('x', null, 'y')"),
        ] {
            assert_eq!(value.to_string(), wanted, "{value:?}");
        }
    }

    #[test]
    fn a_uuid_is_read_with_its_dashes_or_without_and_in_either_case() {
        let text = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
        let bare = text.replace('-', "");
        let wanted = parse_uuid(text);
        assert!(wanted.is_some_and(|uuid| (uuid[0], uuid[15]) == (0xf8, 0xf6)));
        for same in [bare.as_str(), &text.to_uppercase(), &bare.to_uppercase()] {
            assert_eq!(parse_uuid(same), wanted, "{same}");
        }
        let (short, long) = (&text[1..], format!("0{text}"));
        // As long as a UUID with dashes, or with as many digits as it has, and none all the same.
        let (digits, two_dashes) = (format!("{bare}0000"), text.replacen('-', "", 2));
        let letters = text.replace('f', "g");
        for other in ["", short, &long, &bare[1..], &text[..35], &digits, &two_dashes, &letters] {
            assert_eq!(parse_uuid(other), None, "{other}");
        }
    }
}
