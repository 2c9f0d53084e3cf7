//! CQL types and schemas in Arrow's words.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field, Schema, SchemaRef, TimeUnit};

use crate::schema::{ColumnId, ColumnKind, DataType, TableSchema};

/// Time zone of timestamps: they are instants.
const UTC: &str = "UTC";

/// The Arrow type in which values of `ty` are shown. UUIDs and addresses are text.
pub fn arrow_type(ty: DataType) -> ArrowType {
    match ty {
        DataType::Boolean => ArrowType::Boolean,
        DataType::TinyInt => ArrowType::Int8,
        DataType::SmallInt => ArrowType::Int16,
        DataType::Int => ArrowType::Int32,
        DataType::BigInt => ArrowType::Int64,
        DataType::Float => ArrowType::Float32,
        DataType::Double => ArrowType::Float64,
        DataType::Decimal { precision, scale } => ArrowType::Decimal128(precision, scale),
        DataType::Text | DataType::Uuid | DataType::TimeUuid | DataType::Inet => ArrowType::Utf8,
        DataType::Blob => ArrowType::Binary,
        DataType::Date => ArrowType::Date32,
        DataType::Time => ArrowType::Time64(TimeUnit::Nanosecond),
        DataType::Timestamp => ArrowType::Timestamp(TimeUnit::Millisecond, Some(UTC.into())),
    }
}

/// The Arrow schema of the named columns, in that order. Key columns are not nullable, but for the
/// clustering key of a table with static columns: a partition may have those alone. Each field says its CQL type and role in its metadata (`tidegate.type`, `tidegate.kind`).
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
    };
    let nullable = match column.kind {
        ColumnKind::PartitionKey { .. } => false,
        ColumnKind::ClusteringKey { .. } => schema.has_static_columns(),
        ColumnKind::Static | ColumnKind::Regular => true,
    };
    Field::new(&column.name, arrow_type(column.ty), nullable).with_metadata(HashMap::from([
        ("tidegate.type".to_owned(), column.ty.sql_name()),
        ("tidegate.kind".to_owned(), kind.to_owned()),
    ]))
}
