//! Collects live rows into an Arrow batch, a builder a column.

use std::net::IpAddr;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder,
    Float64Builder, Int8Builder, Int16Builder, Int32Builder, Int64Builder, RecordBatch,
    RecordBatchOptions, StringBuilder, Time64NanosecondBuilder, TimestampMillisecondBuilder,
};
use arrow::datatypes::SchemaRef;

use super::types::{arrow_schema, arrow_type};
use crate::error::{Error, Result};
use crate::reader::LiveRow;
use crate::schema::table_schema::SchemaRef as TableSchemaRef;
use crate::schema::value::{format_uuid, sign_extended};
use crate::schema::{ColumnId, ColumnKind, DataType, TableSchema};

/// See the head of this file.
pub struct BatchBuilder {
    schema: TableSchemaRef,
    arrow: SchemaRef,
    columns: Vec<OutputColumn>,
    now_seconds: i32,
    rows: usize,
    /// The partition key last split, since neighbours mostly share it.
    last_partition: Option<std::rc::Rc<crate::schema::PartitionKey>>,
    partition_components: Vec<Vec<u8>>,
    clustering_components: Vec<Vec<u8>>,
    needs_clustering: bool,
}

struct OutputColumn {
    id: ColumnId,
    kind: ColumnKind,
    builder: Builder,
}

enum Builder {
    Boolean(BooleanBuilder),
    TinyInt(Int8Builder),
    SmallInt(Int16Builder),
    Int(Int32Builder),
    BigInt(Int64Builder),
    Float(Float32Builder),
    Double(Float64Builder),
    Decimal(Decimal128Builder, u8, i8),
    Text(StringBuilder),
    Uuid(StringBuilder),
    Inet(StringBuilder),
    Blob(BinaryBuilder),
    Date(Date32Builder),
    Time(Time64NanosecondBuilder),
    Timestamp(TimestampMillisecondBuilder),
}

impl BatchBuilder {
    /// A builder for the named columns, in that order; values as of `now_seconds`.
    pub fn new(schema: TableSchemaRef, columns: &[ColumnId], now_seconds: i32) -> Self {
        let arrow = arrow_schema(&schema, columns);
        let needs_clustering = columns
            .iter()
            .any(|id| matches!(schema.column(*id).kind, ColumnKind::ClusteringKey { .. }));
        let columns = columns
            .iter()
            .map(|id| {
                let column = schema.column(*id);
                OutputColumn { id: *id, kind: column.kind, builder: Builder::new(column.ty) }
            })
            .collect();
        BatchBuilder {
            schema,
            arrow,
            columns,
            now_seconds,
            rows: 0,
            last_partition: None,
            partition_components: Vec::new(),
            clustering_components: Vec::new(),
            needs_clustering,
        }
    }

    /// Rows collected since the last `finish`.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds a row.
    ///
    /// Errors: `Invalid` when stored bytes are no value of their column's type.
    pub fn push(&mut self, live: &LiveRow) -> Result<()> {
        let same = self
            .last_partition
            .as_ref()
            .is_some_and(|last| std::rc::Rc::ptr_eq(last, &live.partition));
        if !same {
            self.partition_components =
                live.partition.components(&self.schema)?.into_iter().map(<[u8]>::to_vec).collect();
            self.last_partition = Some(live.partition.clone());
        }
        if self.needs_clustering {
            self.clustering_components = match &live.key {
                Some(key) => key.stored(&self.schema)?,
                None => Vec::new(),
            };
        }
        let now = self.now_seconds;
        for column in &mut self.columns {
            let value = match column.kind {
                ColumnKind::PartitionKey { position } => {
                    self.partition_components.get(usize::from(position)).map(Vec::as_slice)
                }
                ColumnKind::ClusteringKey { position, .. } => {
                    self.clustering_components.get(usize::from(position)).map(Vec::as_slice)
                }
                ColumnKind::Static => live
                    .static_row
                    .as_ref()
                    .and_then(|row| row.cell(column.id))
                    .and_then(|cell| cell.value_at(now)),
                ColumnKind::Regular => live.row.cell(column.id).and_then(|cell| cell.value_at(now)),
            };
            column.builder.push(value).map_err(|wanted| wrong(&self.schema, column.id, wanted))?;
        }
        self.rows += 1;
        Ok(())
    }

    /// The collected rows as a batch; the builder starts anew.
    ///
    /// Errors: `Invalid` when a key column has no value (a partition of static columns only).
    pub fn finish(&mut self) -> Result<RecordBatch> {
        let arrays: Vec<ArrayRef> =
            self.columns.iter_mut().map(|column| column.builder.finish()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.rows = 0;
        RecordBatch::try_new_with_options(self.arrow.clone(), arrays, &options)
            .map_err(|error| Error::invalid(error.to_string()))
    }
}

fn wrong(schema: &TableSchema, id: ColumnId, wanted: &'static str) -> Error {
    let column = schema.column(id);
    Error::invalid(format!(
        "a stored value of {}.{} is no {}: {wanted}",
        schema.full_name(),
        column.name,
        column.ty.sql_name()
    ))
}

impl Builder {
    fn new(ty: DataType) -> Self {
        match ty {
            DataType::Boolean => Builder::Boolean(BooleanBuilder::new()),
            DataType::TinyInt => Builder::TinyInt(Int8Builder::new()),
            DataType::SmallInt => Builder::SmallInt(Int16Builder::new()),
            DataType::Int => Builder::Int(Int32Builder::new()),
            DataType::BigInt => Builder::BigInt(Int64Builder::new()),
            DataType::Float => Builder::Float(Float32Builder::new()),
            DataType::Double => Builder::Double(Float64Builder::new()),
            DataType::Decimal { precision, scale } => Builder::Decimal(
                Decimal128Builder::new().with_data_type(arrow_type(ty)),
                precision,
                scale,
            ),
            DataType::Text => Builder::Text(StringBuilder::new()),
            DataType::Uuid | DataType::TimeUuid => Builder::Uuid(StringBuilder::new()),
            DataType::Inet => Builder::Inet(StringBuilder::new()),
            DataType::Blob => Builder::Blob(BinaryBuilder::new()),
            DataType::Date => Builder::Date(Date32Builder::new()),
            DataType::Time => Builder::Time(Time64NanosecondBuilder::new()),
            DataType::Timestamp => Builder::Timestamp(
                TimestampMillisecondBuilder::new().with_data_type(arrow_type(ty)),
            ),
        }
    }

    /// Appends the stored bytes of one value; empty bytes of a type that has no empty value are
    /// null, as Cassandra shows them.
    fn push(&mut self, stored: Option<&[u8]>) -> Result<(), &'static str> {
        const LENGTH: &str = "wrong length";
        macro_rules! fixed {
            ($builder:expr, $convert:expr) => {
                match stored {
                    None | Some([]) => $builder.append_null(),
                    Some(bytes) => {
                        $builder.append_value($convert(bytes.try_into().map_err(|_| LENGTH)?))
                    }
                }
            };
        }
        match self {
            Builder::Boolean(b) => fixed!(b, |[byte]: [u8; 1]| byte != 0),
            Builder::TinyInt(b) => fixed!(b, i8::from_be_bytes),
            Builder::SmallInt(b) => fixed!(b, i16::from_be_bytes),
            Builder::Int(b) => fixed!(b, i32::from_be_bytes),
            Builder::BigInt(b) => fixed!(b, i64::from_be_bytes),
            Builder::Float(b) => fixed!(b, f32::from_be_bytes),
            Builder::Double(b) => fixed!(b, f64::from_be_bytes),
            Builder::Date(b) => {
                fixed!(b, |bytes| u32::from_be_bytes(bytes).wrapping_sub(1 << 31) as i32)
            }
            Builder::Time(b) => fixed!(b, i64::from_be_bytes),
            Builder::Timestamp(b) => fixed!(b, i64::from_be_bytes),
            Builder::Text(b) => match stored {
                None => b.append_null(),
                Some(bytes) => {
                    b.append_value(std::str::from_utf8(bytes).map_err(|_| "not UTF-8")?);
                }
            },
            Builder::Blob(b) => match stored {
                None => b.append_null(),
                Some(bytes) => b.append_value(bytes),
            },
            Builder::Uuid(b) => match stored {
                None | Some([]) => b.append_null(),
                Some(bytes) => b.append_value(format_uuid(bytes.try_into().map_err(|_| LENGTH)?)),
            },
            Builder::Inet(b) => match stored {
                None | Some([]) => b.append_null(),
                Some(bytes) => {
                    let address: IpAddr = match bytes.len() {
                        4 => <[u8; 4]>::try_from(bytes).map_err(|_| LENGTH)?.into(),
                        16 => <[u8; 16]>::try_from(bytes).map_err(|_| LENGTH)?.into(),
                        _ => return Err(LENGTH),
                    };
                    b.append_value(address.to_string());
                }
            },
            Builder::Decimal(b, precision, scale) => match stored {
                None | Some([]) => b.append_null(),
                Some(bytes) => {
                    let (own, unscaled) = bytes.split_first_chunk::<4>().ok_or(LENGTH)?;
                    let unscaled = sign_extended(unscaled).ok_or(LENGTH)?;
                    let shift = i64::from(*scale) - i64::from(i32::from_be_bytes(*own));
                    let value =
                        rescale(unscaled, shift).ok_or("does not fit the column's scale")?;
                    if value.unsigned_abs() >= 10u128.pow(u32::from(*precision)) {
                        return Err("does not fit the column's precision");
                    }
                    b.append_value(value);
                }
            },
        }
        Ok(())
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Builder::Boolean(b) => Arc::new(b.finish()),
            Builder::TinyInt(b) => Arc::new(b.finish()),
            Builder::SmallInt(b) => Arc::new(b.finish()),
            Builder::Int(b) => Arc::new(b.finish()),
            Builder::BigInt(b) => Arc::new(b.finish()),
            Builder::Float(b) => Arc::new(b.finish()),
            Builder::Double(b) => Arc::new(b.finish()),
            Builder::Decimal(b, ..) => Arc::new(b.finish()),
            Builder::Text(b) | Builder::Uuid(b) | Builder::Inet(b) => Arc::new(b.finish()),
            Builder::Blob(b) => Arc::new(b.finish()),
            Builder::Date(b) => Arc::new(b.finish()),
            Builder::Time(b) => Arc::new(b.finish()),
            Builder::Timestamp(b) => Arc::new(b.finish()),
        }
    }
}

/// Multiplies by 10^shift without loss.
pub(super) fn rescale(unscaled: i128, shift: i64) -> Option<i128> {
    let power = 10i128.checked_pow(u32::try_from(shift.unsigned_abs()).ok()?)?;
    if shift >= 0 {
        unscaled.checked_mul(power)
    } else {
        (unscaled % power == 0).then_some(unscaled / power)
    }
}
