//! Column types and the length rules of their serialised form (Cassandra's).

use serde::{Deserialize, Serialize};

/// A scalar CQL type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataType {
    Boolean,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    Float,
    Double,
    /// Arbitrary precision on disk; `precision` and `scale` bound what SQL takes and shows.
    Decimal {
        precision: u8,
        scale: i8,
    },
    Text,
    Blob,
    /// Days; stored as u32 with 2^31 = 1970-01-01.
    Date,
    /// Nanoseconds since midnight.
    Time,
    /// Milliseconds since the Unix epoch, UTC.
    Timestamp,
    Uuid,
    TimeUuid,
    Inet,
}

impl DataType {
    /// Length of every non-empty value as stored, or `None` where it varies or the format
    /// writes a length all the same (tinyint, smallint, date, time).
    pub fn fixed_bytes(self) -> Option<usize> {
        match self {
            DataType::Boolean => Some(1),
            DataType::Int | DataType::Float => Some(4),
            DataType::BigInt | DataType::Double | DataType::Timestamp => Some(8),
            DataType::Uuid | DataType::TimeUuid => Some(16),
            _ => None,
        }
    }

    /// The type's name in SQL, lower case.
    pub fn sql_name(self) -> String {
        match self {
            DataType::Boolean => "boolean".into(),
            DataType::TinyInt => "tinyint".into(),
            DataType::SmallInt => "smallint".into(),
            DataType::Int => "int".into(),
            DataType::BigInt => "bigint".into(),
            DataType::Float => "float".into(),
            DataType::Double => "double".into(),
            DataType::Decimal { precision, scale } => format!("decimal({precision}, {scale})"),
            DataType::Text => "text".into(),
            DataType::Blob => "blob".into(),
            DataType::Date => "date".into(),
            DataType::Time => "time".into(),
            DataType::Timestamp => "timestamp".into(),
            DataType::Uuid => "uuid".into(),
            DataType::TimeUuid => "timeuuid".into(),
            DataType::Inet => "inet".into(),
        }
    }
}
