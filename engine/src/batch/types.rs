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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{ClusteringOrder, Column, TableId, TableOptions};

    #[test]
    fn a_column_that_is_made_for_a_type_holds_all_of_its_values() {
        let list = |ty: ArrowType| Arc::new(Field::new_list_field(ty, true));
        let ints = || DataType::list_of(DataType::Int);
        let map = DataType::map_of(DataType::Text, DataType::Int);
        let names = ArrowType::Dictionary(Box::new(ArrowType::Int8), Box::new(ArrowType::Utf8));
        let cases = [
            (ArrowType::Int8, Some(DataType::TinyInt)),
            (ArrowType::UInt8, Some(DataType::SmallInt)),
            (ArrowType::UInt16, Some(DataType::Int)),
            (ArrowType::UInt32, Some(DataType::BigInt)),
            (ArrowType::UInt64, None),
            (ArrowType::Decimal256(50, 3), Some(DataType::Decimal { precision: 50, scale: 3 })),
            (ArrowType::FixedSizeBinary(16), Some(DataType::Blob)),
            (ArrowType::Time32(TimeUnit::Second), Some(DataType::Time)),
            (ArrowType::Timestamp(TimeUnit::Second, None), Some(DataType::Timestamp)),
            (ArrowType::Interval(IntervalUnit::MonthDayNano), Some(DataType::Duration)),
            (ArrowType::Interval(IntervalUnit::YearMonth), None),
            (names, Some(DataType::Text)),
            (ArrowType::LargeList(list(ArrowType::UInt16)), Some(ints().frozen())),
            (ArrowType::FixedSizeList(list(ArrowType::Int32), 3), Some(ints().frozen())),
            (ArrowType::List(list(arrow_type(&ints()))), Some(DataType::list_of(ints()).frozen())),
            (ArrowType::List(list(ArrowType::UInt64)), None),
            (arrow_type(&map), Some(map.frozen())),
            (arrow_type(&DataType::tuple_of([DataType::Int])), None),
        ];
        for (ty, wanted) in cases {
            assert_eq!(column_type(&ty), wanted, "{ty}");
        }
    }

    #[test]
    fn fields_say_what_columns_are_and_whether_they_may_be_null() {
        let column = |name: &str, kind| Column { name: name.into(), ty: DataType::Int, kind };
        let order = ClusteringOrder::Descending;
        let mut schema = TableSchema {
            id: TableId(1),
            keyspace: "ks".into(),
            name: "t".into(),
            columns: vec![
                column("q", ColumnKind::PartitionKey { position: 1 }),
                column("p", ColumnKind::PartitionKey { position: 0 }),
                column("a", ColumnKind::ClusteringKey { position: 0, order }),
                column("b", ColumnKind::ClusteringKey { position: 1, order }),
                column("v", ColumnKind::Regular),
                column("s", ColumnKind::Static),
            ],
            options: TableOptions::default(),
            drops: Vec::new(),
        };
        let ids = [5, 4, 3, 2, 1, 0].map(ColumnId);
        let nullable = |schema: &TableSchema| {
            let arrow = arrow_schema(schema, &ids);
            let fields = arrow.fields().iter().filter(|field| field.is_nullable());
            fields.map(|field| field.name().as_str()).collect::<String>()
        };
        assert_eq!(nullable(&schema), "svba", "a partition may have its static columns alone");
        let arrow = arrow_schema(&schema, &ids);
        let said = |what: &str| {
            let said = arrow.fields().iter().map(|field| field.metadata().get(what).cloned());
            said.map(Option::unwrap_or_default).collect::<Vec<String>>().join(" ")
        };
        assert_eq!(said("tidegate.key"), "    0/2 1/2");
        assert_eq!(said("tidegate.type"), "int int int int int int");
        let kinds = "static regular clustering_key clustering_key partition_key partition_key";
        assert_eq!(said("tidegate.kind"), kinds);
        schema.columns[5].kind = ColumnKind::Regular;
        assert_eq!(nullable(&schema), "sv");
        schema.options.has_partial_keys = true;
        assert_eq!(nullable(&schema), "svb", "the last values of a key may be missing");
    }

    /// As where a table is made of what a query shows.
    #[test]
    fn a_column_that_is_made_for_what_another_one_shows_has_its_type() {
        use DataType::{
            BigInt, Blob, Boolean, Counter, Date, Decimal, Double, Duration, Float, Inet, Int,
            SmallInt, Text, Time, TimeUuid, Timestamp, TinyInt, Uuid, Varint,
        };
        let numbers = [Boolean, TinyInt, SmallInt, Int, BigInt, Float, Double];
        let others = [Text, Blob, Date, Time, Timestamp, Duration];
        let decimals = [Decimal { precision: 38, scale: 5 }, DataType::DECIMAL_WIDE];
        for ty in numbers.into_iter().chain(others).chain(decimals) {
            assert_eq!(column_type(&arrow_type(&ty)), Some(ty));
        }
        let whole = Decimal { precision: VARINT_DIGITS_MAX, scale: 0 };
        for (ty, wanted) in
            [(Counter, BigInt), (Uuid, Text), (TimeUuid, Text), (Inet, Text), (Varint, whole)]
        {
            assert_eq!(column_type(&arrow_type(&ty)), Some(wanted), "{ty:?}");
        }
        for (ty, wanted) in [
            (ArrowType::Float16, Float),
            (ArrowType::LargeUtf8, Text),
            (ArrowType::Utf8View, Text),
            (ArrowType::LargeBinary, Blob),
            (ArrowType::BinaryView, Blob),
            (ArrowType::Date64, Date),
            (ArrowType::Time64(TimeUnit::Microsecond), Time),
            (ArrowType::Timestamp(TimeUnit::Nanosecond, Some(UTC.into())), Timestamp),
            (ArrowType::Duration(TimeUnit::Second), Duration),
        ] {
            assert_eq!(column_type(&ty), Some(wanted), "{ty}");
        }
    }
}
