//! One typed value and its serialised form (Cassandra's bytes, big-endian).
//!
//! Not here: the order-preserving form of key columns (`order.rs`), Arrow types (`batch/`).

use std::fmt;
use std::net::IpAddr;

use super::types::DataType;
use crate::error::{Error, Result};

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
    Text(String),
    Blob(Vec<u8>),
    /// Days since 1970-01-01.
    Date(i32),
    /// Nanoseconds since midnight.
    Time(i64),
    /// Milliseconds since the Unix epoch.
    Timestamp(i64),
    Uuid([u8; 16]),
    TimeUuid([u8; 16]),
    Inet(IpAddr),
}

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
            Value::Text(_) => "text",
            Value::Blob(_) => "blob",
            Value::Date(_) => "date",
            Value::Time(_) => "time",
            Value::Timestamp(_) => "timestamp",
            Value::Uuid(_) => "uuid",
            Value::TimeUuid(_) => "timeuuid",
            Value::Inet(_) => "inet",
        }
    }

    /// Whether this value may stand in a column of type `ty`.
    pub fn fits(&self, ty: DataType) -> bool {
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
                | (Value::Text(_), DataType::Text)
                | (Value::Blob(_), DataType::Blob)
                | (Value::Date(_), DataType::Date)
                | (Value::Time(_), DataType::Time)
                | (Value::Timestamp(_), DataType::Timestamp)
                | (Value::Uuid(_), DataType::Uuid)
                | (Value::TimeUuid(_), DataType::TimeUuid)
                | (Value::Inet(_), DataType::Inet)
        )
    }

    /// Appends the serialised form to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Value::Boolean(v) => out.push(u8::from(*v)),
            Value::TinyInt(v) => out.extend_from_slice(&v.to_be_bytes()),
            Value::SmallInt(v) => out.extend_from_slice(&v.to_be_bytes()),
            Value::Int(v) => out.extend_from_slice(&v.to_be_bytes()),
            Value::BigInt(v) | Value::Time(v) | Value::Timestamp(v) => {
                out.extend_from_slice(&v.to_be_bytes());
            }
            Value::Float(v) => out.extend_from_slice(&v.to_bits().to_be_bytes()),
            Value::Double(v) => out.extend_from_slice(&v.to_bits().to_be_bytes()),
            Value::Decimal { unscaled, scale } => {
                out.extend_from_slice(&scale.to_be_bytes());
                out.extend_from_slice(minimal_twos_complement(&unscaled.to_be_bytes()));
            }
            Value::Text(v) => out.extend_from_slice(v.as_bytes()),
            Value::Blob(v) => out.extend_from_slice(v),
            Value::Date(v) => {
                out.extend_from_slice(&(*v as u32).wrapping_add(DATE_EPOCH).to_be_bytes());
            }
            Value::Uuid(v) | Value::TimeUuid(v) => out.extend_from_slice(v),
            Value::Inet(IpAddr::V4(v)) => out.extend_from_slice(&v.octets()),
            Value::Inet(IpAddr::V6(v)) => out.extend_from_slice(&v.octets()),
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
    pub fn decode(ty: DataType, bytes: &[u8]) -> Result<Value> {
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
            DataType::Uuid => Value::Uuid(fixed(bytes).ok_or_else(wrong)?),
            DataType::TimeUuid => Value::TimeUuid(fixed(bytes).ok_or_else(wrong)?),
            DataType::Inet => match bytes.len() {
                4 => Value::Inet(fixed::<4>(bytes).ok_or_else(wrong)?.into()),
                16 => Value::Inet(fixed::<16>(bytes).ok_or_else(wrong)?.into()),
                _ => return Err(wrong()),
            },
        })
    }
}

fn fixed<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

/// The shortest two's complement form that keeps the sign.
pub(crate) fn minimal_twos_complement(bytes: &[u8]) -> &[u8] {
    let mut start = 0;
    while start + 1 < bytes.len() {
        let redundant = (bytes[start] == 0 && bytes[start + 1] < 0x80)
            || (bytes[start] == 0xff && bytes[start + 1] >= 0x80);
        if !redundant {
            break;
        }
        start += 1;
    }
    &bytes[start..]
}

/// Big-endian two's complement of 1 to 16 bytes.
pub(crate) fn sign_extended(bytes: &[u8]) -> Option<i128> {
    if bytes.is_empty() || bytes.len() > 16 {
        return None;
    }
    let mut wide = [if bytes[0] >= 0x80 { 0xff } else { 0 }; 16];
    wide[16 - bytes.len()..].copy_from_slice(bytes);
    Some(i128::from_be_bytes(wide))
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
            Value::Blob(v) => {
                write!(f, "0x")?;
                v.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Value::Date(v) => write!(f, "date day {v}"),
            Value::Time(v) => write!(f, "time {v} ns"),
            Value::Timestamp(v) => write!(f, "timestamp {v} ms"),
            Value::Uuid(v) | Value::TimeUuid(v) => write!(f, "{}", format_uuid(v)),
            Value::Inet(v) => write!(f, "{v}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert!(value.fits(ty));
            assert_eq!(Value::decode(ty, &value.to_bytes()).unwrap(), value);
        }
    }

    #[test]
    fn impossible_lengths_are_refused() {
        assert!(Value::decode(DataType::Int, &[0; 3]).is_err());
        assert!(Value::decode(DataType::Int, &[]).is_err());
        assert!(Value::decode(DataType::Inet, &[0; 5]).is_err());
        assert!(Value::decode(DataType::Text, &[0xff]).is_err());
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
}
