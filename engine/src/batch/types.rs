//! CQL types and schemas in Arrow's words.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{
    DataType as ArrowType, Field, Fields, IntervalUnit, Schema, SchemaRef, TimeUnit,
};

use crate::schema::types::DECIMAL_DIGITS_MAX;
use crate::schema::{ColumnId, ColumnKind, DataType, TableSchema};

/// Time zone of timestamps: they are instants.
const UTC: &str = "UTC";

/// Most digits that Arrow's narrower decimal holds.
pub(super) const NARROW_DIGITS_MAX: u8 = 38;
/// Most digits of an integer of any length that SQL takes and shows.
pub(super) const VARINT_DIGITS_MAX: u8 = DECIMAL_DIGITS_MAX;

/// The Arrow type in which values of `ty` are shown. UUIDs and addresses are text. A `varint` is a
/// decimal of 76 digits and not text, so that it compares, adds and sorts as the number it is.
/// Fields of a tuple are `c0`, `c1`, …, as in SQL's `struct(…)`.
pub fn arrow_type(ty: &DataType) -> ArrowType {
    match ty {
        DataType::Boolean => ArrowType::Boolean,
        DataType::TinyInt => ArrowType::Int8,
        DataType::SmallInt => ArrowType::Int16,
        DataType::Int => ArrowType::Int32,
        DataType::BigInt | DataType::Counter => ArrowType::Int64,
        DataType::Float => ArrowType::Float32,
        DataType::Double => ArrowType::Float64,
        DataType::Decimal { precision, scale } if *precision <= NARROW_DIGITS_MAX => {
            ArrowType::Decimal128(*precision, *scale)
        }
        DataType::Decimal { precision, scale } => ArrowType::Decimal256(*precision, *scale),
        DataType::Varint => ArrowType::Decimal256(VARINT_DIGITS_MAX, 0),
        DataType::Text | DataType::Uuid | DataType::TimeUuid | DataType::Inet => ArrowType::Utf8,
        DataType::Blob => ArrowType::Binary,
        DataType::Date => ArrowType::Date32,
        DataType::Time => ArrowType::Time64(TimeUnit::Nanosecond),
        DataType::Timestamp => ArrowType::Timestamp(TimeUnit::Millisecond, Some(UTC.into())),
        DataType::Duration => ArrowType::Interval(IntervalUnit::MonthDayNano),
        DataType::Frozen(inner) => arrow_type(inner),
        DataType::List(element) | DataType::Set(element) => {
            ArrowType::List(Arc::new(element_field(element)))
        }
        DataType::Map(key, value) => ArrowType::Map(Arc::new(entries_field(key, value)), false),
        DataType::Tuple(_) | DataType::User(_) => ArrowType::Struct(struct_fields(ty)),
    }
}

/// The narrowest type of a column that holds every value of an Arrow type; none where there is no
/// such type. A list or map is one cell: so an empty one is told from none, as it is in Arrow.
pub fn column_type(ty: &ArrowType) -> Option<DataType> {
    Some(match inner_type(ty)? {
        ty @ (DataType::List(_) | DataType::Set(_) | DataType::Map(..)) => {
            DataType::Frozen(Box::new(ty))
        }
        other => other,
    })
}

/// As [`column_type`], of what stands within another type.
fn inner_type(ty: &ArrowType) -> Option<DataType> {
    Some(match ty {
        ArrowType::Boolean => DataType::Boolean,
        ArrowType::Int8 => DataType::TinyInt,
        ArrowType::Int16 | ArrowType::UInt8 => DataType::SmallInt,
        ArrowType::Int32 | ArrowType::UInt16 => DataType::Int,
        ArrowType::Int64 | ArrowType::UInt32 => DataType::BigInt,
        ArrowType::Float16 | ArrowType::Float32 => DataType::Float,
        ArrowType::Float64 => DataType::Double,
        ArrowType::Decimal128(precision, scale) | ArrowType::Decimal256(precision, scale) => {
            DataType::Decimal { precision: *precision, scale: *scale }
        }
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => DataType::Text,
        ArrowType::Binary
        | ArrowType::LargeBinary
        | ArrowType::BinaryView
        | ArrowType::FixedSizeBinary(_) => DataType::Blob,
        ArrowType::Date32 | ArrowType::Date64 => DataType::Date,
        ArrowType::Time32(_) | ArrowType::Time64(_) => DataType::Time,
        ArrowType::Timestamp(..) => DataType::Timestamp,
        ArrowType::Interval(IntervalUnit::MonthDayNano) | ArrowType::Duration(_) => {
            DataType::Duration
        }
        ArrowType::Dictionary(_, values) => return inner_type(values),
        ArrowType::List(element)
        | ArrowType::LargeList(element)
        | ArrowType::FixedSizeList(element, _) => {
            DataType::list_of(inner_type(element.data_type())?)
        }
        ArrowType::Map(entries, _) => {
            let ArrowType::Struct(fields) = entries.data_type() else { return None };
            let [key, value] = &**fields else { return None };
            DataType::map_of(inner_type(key.data_type())?, inner_type(value.data_type())?)
        }
        _ => return None,
    })
}

/// The field of a list's elements.
pub(super) fn element_field(element: &DataType) -> Field {
    Field::new_list_field(arrow_type(element), true)
}

/// The field of a map's entries.
pub(super) fn entries_field(key: &DataType, value: &DataType) -> Field {
    let fields = vec![
        Field::new("key", arrow_type(key), false),
        Field::new("value", arrow_type(value), true),
    ];
    Field::new("entries", ArrowType::Struct(fields.into()), false)
}

/// The fields of a tuple or user type.
pub(super) fn struct_fields(ty: &DataType) -> Fields {
    match ty {
        DataType::Tuple(fields) => {
            let field = |(i, ty)| Field::new(format!("c{i}"), arrow_type(ty), true);
            fields.iter().enumerate().map(field).collect()
        }
        DataType::User(user) => {
            let field = |(name, ty): &(String, DataType)| Field::new(name, arrow_type(ty), true);
            user.fields.iter().map(field).collect()
        }
        _ => Fields::empty(),
    }
}

/// The Arrow schema of the named columns, in that order. Key columns are not nullable, but for the
/// clustering key of a table with static columns: a partition may have those alone; and for that of
/// old tables, whose rows may lack the last values. Each field says its CQL type and role in its
/// metadata (`tidegate.type`, `tidegate.kind`), one of the partition key also its place there and
/// the number of places (`tidegate.key`, as `0/2`).
pub fn arrow_schema(schema: &TableSchema, columns: &[ColumnId]) -> SchemaRef {
    let fields: Vec<Field> = columns.iter().map(|id| field(schema, *id)).collect();
    Arc::new(Schema::new(fields))
}

fn field(schema: &TableSchema, id: ColumnId) -> Field {
    let column = schema.column(id);
    let kind = match column.kind {
        ColumnKind::PartitionKey { .. } => "partition_key",
        ColumnKind::ClusteringKey { .. } => "clustering_key",
        ColumnKind::Static => "static",
        ColumnKind::Regular => "regular",
        ColumnKind::Dropped { .. } => "dropped",
    };
    let nullable = match column.kind {
        ColumnKind::PartitionKey { .. } => false,
        ColumnKind::ClusteringKey { .. } => schema.has_static_columns() || schema.may_lack(id),
        ColumnKind::Static | ColumnKind::Regular | ColumnKind::Dropped { .. } => true,
    };
    let mut metadata = HashMap::from([
        ("tidegate.type".to_owned(), column.ty.sql_name()),
        ("tidegate.kind".to_owned(), kind.to_owned()),
    ]);
    if let ColumnKind::PartitionKey { position } = column.kind {
        let place = format!("{position}/{}", schema.partition_key().count());
        metadata.insert("tidegate.key".to_owned(), place);
    }
    Field::new(&column.name, arrow_type(&column.ty), nullable).with_metadata(metadata)
}
