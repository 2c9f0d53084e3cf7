//! Arrow rows to mutations: the way in of COPY, INSERT … SELECT and Flight ingestion.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType as ArrowType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};

use crate::config::{CELL_BYTES_MAX, LOCAL_DELETION_TIME_MAX, TTL_SECONDS_MAX};
use crate::error::{Error, Result};
use crate::mutation::{Cell, Liveness, Mutation, Row};
use crate::schema::value::parse_uuid;
use crate::schema::{
    ClusteringKey, Column, ColumnId, ColumnKind, DataType, PartitionKey, TableSchema, Value,
};

/// How rows are written.
#[derive(Debug, Clone, Copy)]
pub struct WriteOptions {
    /// Write timestamp of every cell, µs.
    pub timestamp: i64,
    /// Seconds to live; the table's default where absent; 0 = for ever.
    pub ttl: Option<i32>,
    /// Wall clock, seconds: base of expiry and deletion times.
    pub now_seconds: i32,
}

/// Why one row was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowError {
    /// Row within the batch.
    pub row: usize,
    pub column: Option<String>,
    pub message: String,
}

/// Time to live and expiry that `options` and the table give, if any.
///
/// Errors: `Invalid` for a time to live outside 0..=20 years.
pub fn expiry(schema: &TableSchema, options: &WriteOptions) -> Result<Option<(i32, i32)>> {
    let ttl = options.ttl.unwrap_or(schema.options.default_time_to_live);
    if !(0..=TTL_SECONDS_MAX).contains(&ttl) {
        return Err(Error::invalid(format!(
            "a time to live must be between 0 and {TTL_SECONDS_MAX} seconds, not {ttl}"
        )));
    }
    if ttl == 0 {
        return Ok(None);
    }
    Ok(Some((ttl, options.now_seconds.saturating_add(ttl).min(LOCAL_DELETION_TIME_MAX))))
}

/// Turns each row of `batch` into an INSERT. Columns are matched by name; columns that the batch
/// lacks stay unset; a null writes a tombstone, except that a null key refuses the row.
///
/// Errors: `Invalid` when the batch lacks a key column or has a column that the table lacks. A row
/// that does not fit is an `Err` in its place.
pub fn mutations(
    schema: &TableSchema,
    batch: &RecordBatch,
    options: &WriteOptions,
) -> Result<Vec<Result<Mutation, RowError>>> {
    let mut sources: Vec<(ColumnId, &dyn Array)> = Vec::new();
    for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let (id, _) = schema.find(field.name()).ok_or_else(|| Error::NotFound {
            kind: "column",
            name: format!("{}.{}", schema.name, field.name()),
        })?;
        sources.push((id, array.as_ref()));
    }
    for column in schema.columns.iter().filter(|column| column.is_key()) {
        if !batch.schema_ref().fields().iter().any(|field| *field.name() == column.name) {
            return Err(Error::invalid(format!(
                "key column '{}' of {} is missing",
                column.name,
                schema.full_name()
            )));
        }
    }
    let expiry = expiry(schema, options)?;
    let partition_ids = schema.partition_key_ids();
    let clustering_ids = schema.clustering_key_ids();
    let insert = Insert { schema, sources: &sources, options, expiry };
    Ok((0..batch.num_rows())
        .map(|row| insert.mutation(row, &partition_ids, &clustering_ids))
        .collect())
}

struct Insert<'a> {
    schema: &'a TableSchema,
    sources: &'a [(ColumnId, &'a dyn Array)],
    options: &'a WriteOptions,
    expiry: Option<(i32, i32)>,
}

impl Insert<'_> {
    fn mutation(
        &self,
        row: usize,
        partition_ids: &[ColumnId],
        clustering_ids: &[ColumnId],
    ) -> Result<Mutation, RowError> {
        let refuse = |error: Error| RowError { row, column: None, message: error.to_string() };
        let key = PartitionKey::from_values(self.schema, &self.key_values(row, partition_ids)?)
            .map_err(refuse)?;
        let clustering =
            ClusteringKey::from_values(self.schema, &self.key_values(row, clustering_ids)?)
                .map_err(refuse)?;
        let mut mutation = Mutation::new(self.schema.id, key);
        let timestamp = self.options.timestamp;
        let liveness = match self.expiry {
            Some((ttl, expiry)) => Liveness::expiring(timestamp, ttl, expiry),
            None => Liveness::at(timestamp),
        };
        let mut regular = Row {
            liveness: Some(liveness),
            deletion: None,
            cells: Vec::with_capacity(self.sources.len()),
        };
        let mut statics = Row::default();
        for (id, array) in self.sources {
            let column = self.schema.column(*id);
            let target = match column.kind {
                ColumnKind::Regular => &mut regular,
                ColumnKind::Static => &mut statics,
                ColumnKind::PartitionKey { .. } | ColumnKind::ClusteringKey { .. } => continue,
            };
            target.put(*id, self.cell(column, *array, row)?);
        }
        mutation.rows.push((clustering, regular));
        if !statics.cells.is_empty() {
            mutation.static_row = Some(statics);
        }
        Ok(mutation)
    }

    fn key_values(&self, row: usize, ids: &[ColumnId]) -> Result<Vec<Value>, RowError> {
        ids.iter()
            .map(|id| {
                let column = self.schema.column(*id);
                let refuse =
                    |message: String| RowError { row, column: Some(column.name.clone()), message };
                let (_, array) = self
                    .sources
                    .iter()
                    .find(|(source, _)| source == id)
                    .expect("all key columns were found before");
                value_at(*array, row, column.ty)
                    .map_err(|error| refuse(error.to_string()))?
                    .ok_or_else(|| refuse("a key column must not be null".into()))
            })
            .collect()
    }

    fn cell(&self, column: &Column, array: &dyn Array, row: usize) -> Result<Cell, RowError> {
        let refuse = |message: String| RowError { row, column: Some(column.name.clone()), message };
        let value = value_at(array, row, column.ty).map_err(|error| refuse(error.to_string()))?;
        let timestamp = self.options.timestamp;
        let Some(value) = value else {
            return Ok(Cell::deleted(timestamp, self.options.now_seconds));
        };
        let bytes = value.to_bytes();
        if bytes.len() > CELL_BYTES_MAX {
            return Err(refuse(format!(
                "the value takes {} bytes, at most {CELL_BYTES_MAX} are possible",
                bytes.len()
            )));
        }
        Ok(match self.expiry {
            Some((ttl, expiry)) => Cell::expiring(timestamp, bytes, ttl, expiry),
            None => Cell::live(timestamp, bytes),
        })
    }
}

/// The value at `row` of an Arrow array as a value of type `ty`; `None` for null. Integers are
/// taken from any integer type that holds the value, text is parsed for UUIDs and addresses.
///
/// Errors: `Invalid` naming the types when the array's type cannot give such a value, or saying
/// what does not fit.
pub fn value_at(array: &dyn Array, row: usize, ty: DataType) -> Result<Option<Value>> {
    if array.data_type() == &ArrowType::Null || array.is_null(row) {
        return Ok(None);
    }
    let mismatch =
        || Error::invalid(format!("wanted {}, found {}", ty.sql_name(), array.data_type()));
    let range =
        |value: i128| Error::invalid(format!("{value} is out of range for {}", ty.sql_name()));
    let integer = || integer_at(array, row).ok_or_else(mismatch);
    let value = match ty {
        DataType::Boolean => {
            Value::Boolean(array.as_boolean_opt().ok_or_else(mismatch)?.value(row))
        }
        DataType::TinyInt => {
            let value = integer()?;
            Value::TinyInt(value.try_into().map_err(|_| range(value))?)
        }
        DataType::SmallInt => {
            let value = integer()?;
            Value::SmallInt(value.try_into().map_err(|_| range(value))?)
        }
        DataType::Int => {
            let value = integer()?;
            Value::Int(value.try_into().map_err(|_| range(value))?)
        }
        DataType::BigInt => {
            let value = integer()?;
            Value::BigInt(value.try_into().map_err(|_| range(value))?)
        }
        DataType::Float => Value::Float(float_at(array, row).ok_or_else(mismatch)? as f32),
        DataType::Double => Value::Double(float_at(array, row).ok_or_else(mismatch)?),
        DataType::Decimal { precision, scale } => {
            let (unscaled, own) = match array.data_type() {
                ArrowType::Decimal128(_, own) => {
                    (array.as_primitive::<Decimal128Type>().value(row), i64::from(*own))
                }
                _ => (integer()?, 0),
            };
            let value = super::builder::rescale(unscaled, i64::from(scale) - own)
                .filter(|value| value.unsigned_abs() < 10u128.pow(u32::from(precision)))
                .ok_or_else(|| {
                    Error::invalid(format!("{unscaled}e-{own} does not fit {}", ty.sql_name()))
                })?;
            Value::Decimal { unscaled: value, scale: i32::from(scale) }
        }
        DataType::Text => Value::Text(text_at(array, row).ok_or_else(mismatch)?.to_owned()),
        DataType::Blob => Value::Blob(bytes_at(array, row).ok_or_else(mismatch)?.to_vec()),
        DataType::Date => match array.data_type() {
            ArrowType::Date32 => Value::Date(array.as_primitive::<Date32Type>().value(row)),
            _ => return Err(mismatch()),
        },
        DataType::Time => Value::Time(time_at(array, row).ok_or_else(mismatch)?),
        DataType::Timestamp => Value::Timestamp(timestamp_at(array, row).ok_or_else(mismatch)?),
        DataType::Uuid | DataType::TimeUuid => {
            let uuid = match text_at(array, row) {
                Some(text) => parse_uuid(text)
                    .ok_or_else(|| Error::invalid(format!("'{text}' is no {}", ty.sql_name())))?,
                None => bytes_at(array, row)
                    .and_then(|bytes| bytes.try_into().ok())
                    .ok_or_else(mismatch)?,
            };
            if ty == DataType::Uuid {
                Value::Uuid(uuid)
            } else if uuid[6] >> 4 == 1 {
                Value::TimeUuid(uuid)
            } else {
                return Err(Error::invalid("a timeuuid must be a version 1 UUID"));
            }
        }
        DataType::Inet => {
            let text = text_at(array, row).ok_or_else(mismatch)?;
            Value::Inet(
                text.parse().map_err(|_| Error::invalid(format!("'{text}' is no inet address")))?,
            )
        }
    };
    Ok(Some(value))
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
