//! Names of column types as Cassandra writes them into `Statistics.db`.
//!
//! Collections, tuples, counters, `varint` and `duration` are not column types of this engine. Files
//! that have them are read all the same: a column that the table lacks is skipped, and one whose
//! values are whole (frozen, `varint`, `duration`) may be a blob in the table. Such a type within a
//! key, or a counter or multi-cell column of the table, is refused by name.

use crate::schema::{ClusteringOrder, Column, DataType, TableSchema};

const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

/// Simple name of the class of `ty`.
fn class(ty: DataType) -> &'static str {
    match ty {
        DataType::Boolean => "BooleanType",
        DataType::TinyInt => "ByteType",
        DataType::SmallInt => "ShortType",
        DataType::Int => "Int32Type",
        DataType::BigInt => "LongType",
        DataType::Float => "FloatType",
        DataType::Double => "DoubleType",
        DataType::Decimal { .. } => "DecimalType",
        DataType::Text => "UTF8Type",
        DataType::Blob => "BytesType",
        DataType::Date => "SimpleDateType",
        DataType::Time => "TimeType",
        DataType::Timestamp => "TimestampType",
        DataType::Uuid => "UUIDType",
        DataType::TimeUuid => "TimeUUIDType",
        DataType::Inet => "InetAddressType",
    }
}

/// Name of a column's type, with the order of a clustering column.
pub(super) fn of_column(column: &Column) -> String {
    let plain = format!("{PACKAGE}{}", class(column.ty));
    match column.clustering_order() {
        ClusteringOrder::Ascending => plain,
        ClusteringOrder::Descending => format!("{PACKAGE}ReversedType({plain})"),
    }
}

/// Name of the type of a table's partition key.
pub(super) fn of_partition_key(schema: &TableSchema) -> String {
    let names: Vec<String> = schema.partition_key().map(of_column).collect();
    match names.as_slice() {
        [name] => name.clone(),
        _ => format!("{PACKAGE}CompositeType({})", names.join(",")),
    }
}

/// A type name with its parameters, package and blanks removed.
#[derive(Debug, PartialEq)]
struct Parsed<'a> {
    class: &'a str,
    parameters: Vec<Parsed<'a>>,
}

/// Most levels of types within types that are looked at.
const DEPTH_MAX: usize = 16;

fn parse<'a>(text: &mut &'a str, depth: usize) -> Option<Parsed<'a>> {
    let end = text.find(['(', ')', ',', ' ']).unwrap_or(text.len());
    let (name, mut rest) = text.split_at(end);
    let class = name.strip_prefix(PACKAGE).unwrap_or(name);
    if class.is_empty() || depth > DEPTH_MAX {
        return None;
    }
    let mut parameters = Vec::new();
    if let Some(inner) = rest.strip_prefix('(') {
        rest = inner;
        loop {
            rest = rest.trim_start_matches([',', ' ']);
            if let Some(after) = rest.strip_prefix(')') {
                rest = after;
                break;
            }
            parameters.push(parse(&mut rest, depth + 1)?);
        }
    }
    *text = rest;
    Some(Parsed { class, parameters })
}

fn parse_all(name: &str) -> Option<Parsed<'_>> {
    let mut rest = name.trim();
    let parsed = parse(&mut rest, 0)?;
    rest.trim().is_empty().then_some(parsed)
}

/// Whether values of the stored type `parsed` are values of `ty` with equal bytes and order.
fn is_scalar(parsed: &Parsed<'_>, ty: DataType) -> bool {
    parsed.parameters.is_empty()
        && (parsed.class == class(ty)
            // ASCII is a subset of UTF-8 with the same order.
            || (ty == DataType::Text && parsed.class == "AsciiType"))
}

/// Whether values of the stored type are whole and may stand as blobs. Outside of keys their order does
/// not matter.
fn is_opaque(parsed: &Parsed<'_>) -> bool {
    matches!(
        parsed.class,
        "FrozenType" | "TupleType" | "VectorType" | "IntegerType" | "DurationType"
    )
}

/// Whether the stored type `name` fits `column`.
pub(super) fn fits_column(name: &str, column: &Column) -> bool {
    let Some(parsed) = parse_all(name) else { return false };
    match (column.clustering_order(), parsed.class, parsed.parameters.as_slice()) {
        (ClusteringOrder::Descending, "ReversedType", [inner]) => is_scalar(inner, column.ty),
        (ClusteringOrder::Descending, ..) => false,
        (ClusteringOrder::Ascending, ..) => {
            is_scalar(&parsed, column.ty)
                || (column.ty == DataType::Blob && !column.is_key() && is_opaque(&parsed))
        }
    }
}

/// Whether the stored type `name` fits the partition key of `schema`.
pub(super) fn fits_partition_key(name: &str, schema: &TableSchema) -> bool {
    let Some(parsed) = parse_all(name) else { return false };
    let columns: Vec<&Column> = schema.partition_key().collect();
    if let [column] = columns.as_slice() {
        return is_scalar(&parsed, column.ty);
    }
    parsed.class == "CompositeType"
        && parsed.parameters.len() == columns.len()
        && parsed
            .parameters
            .iter()
            .zip(columns)
            .all(|(stored, column)| is_scalar(stored, column.ty))
}

/// How a column's cells are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Length of non-empty values; `None` where a length is written.
    pub(super) fixed_bytes: Option<usize>,
    /// A row may have many cells of the column, each with a path.
    pub(super) is_multi_cell: bool,
}

/// The layout of columns of the stored type `name`; `None` when the type is unknown, so that not even
/// skipping is possible.
pub(super) fn shape(name: &str) -> Option<Shape> {
    shape_of(&parse_all(name)?)
}

fn shape_of(parsed: &Parsed<'_>) -> Option<Shape> {
    let whole = |fixed_bytes| Some(Shape { fixed_bytes, is_multi_cell: false });
    match (parsed.class, parsed.parameters.as_slice()) {
        ("BooleanType", _) => whole(Some(1)),
        ("Int32Type" | "FloatType", _) => whole(Some(4)),
        ("LongType" | "DoubleType" | "TimestampType" | "DateType", _) => whole(Some(8)),
        ("UUIDType" | "TimeUUIDType" | "LexicalUUIDType", _) => whole(Some(16)),
        ("EmptyType", _) => whole(Some(0)),
        (
            "ByteType"
            | "ShortType"
            | "SimpleDateType"
            | "TimeType"
            | "InetAddressType"
            | "DecimalType"
            | "IntegerType"
            | "DurationType"
            | "UTF8Type"
            | "AsciiType"
            | "BytesType"
            | "TupleType"
            | "CompositeType"
            | "DynamicCompositeType"
            | "CounterColumnType",
            _,
        ) => whole(None),
        ("ListType" | "SetType" | "MapType" | "UserType", _) => {
            Some(Shape { fixed_bytes: None, is_multi_cell: true })
        }
        // Frozen collections vary in length, frozen scalars are scalars.
        ("FrozenType" | "ReversedType", [inner]) => whole(shape_of(inner)?.fixed_bytes),
        ("VectorType", [element, dimension]) => {
            let dimension: usize = dimension.class.parse().ok()?;
            match shape_of(element)?.fixed_bytes {
                Some(bytes) => whole(Some(bytes.checked_mul(dimension)?)),
                None => whole(None),
            }
        }
        _ => None,
    }
}

/// Whether columns of the stored type `name` are counters.
pub(super) fn is_counter(name: &str) -> bool {
    parse_all(name).is_some_and(|parsed| parsed.class == "CounterColumnType")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::ColumnKind;

    fn column(ty: DataType, order: ClusteringOrder) -> Column {
        Column { name: "c".into(), ty, kind: ColumnKind::ClusteringKey { position: 0, order } }
    }

    #[test]
    fn every_type_reads_the_name_it_writes() {
        let types = [
            DataType::Boolean,
            DataType::TinyInt,
            DataType::SmallInt,
            DataType::Int,
            DataType::BigInt,
            DataType::Float,
            DataType::Double,
            DataType::Decimal { precision: 9, scale: 2 },
            DataType::Text,
            DataType::Blob,
            DataType::Date,
            DataType::Time,
            DataType::Timestamp,
            DataType::Uuid,
            DataType::TimeUuid,
            DataType::Inet,
        ];
        for ty in types {
            for order in [ClusteringOrder::Ascending, ClusteringOrder::Descending] {
                let column = column(ty, order);
                let name = of_column(&column);
                assert!(fits_column(&name, &column), "{name}");
                for other in types.iter().filter(|other| **other != ty) {
                    assert!(!fits_column(&name, &Column { ty: *other, ..column.clone() }));
                }
            }
            let ascending = column(ty, ClusteringOrder::Ascending);
            let stored = shape(&of_column(&ascending)).unwrap();
            assert_eq!((stored.fixed_bytes, stored.is_multi_cell), (ty.fixed_bytes(), false));
        }
    }

    #[test]
    fn odd_names_are_read_or_refused_but_never_panic() {
        let text = column(DataType::Text, ClusteringOrder::Ascending);
        assert!(fits_column(" org.apache.cassandra.db.marshal.AsciiType ", &text));
        let deep = "A(".repeat(1000);
        for name in ["", "(", ")", "A(", "A)", "A(,)x", "UTF8Type()x", &deep] {
            assert!(!fits_column(name, &text), "{name}");
        }
        assert_eq!(shape("com.example.CustomType"), None);
        assert_eq!(shape("VectorType(FloatType, 18446744073709551615)"), None);
    }

    #[test]
    fn foreign_types_have_their_layout() {
        let whole = |fixed_bytes| Shape { fixed_bytes, is_multi_cell: false };
        let many = Shape { fixed_bytes: None, is_multi_cell: true };
        let user = "UserType(fx,61646472,737472656574:org.apache.cassandra.db.marshal.UTF8Type,\
                    74616773:FrozenType(SetType(Int32Type)))";
        let cases = [
            ("ListType(Int32Type)", many, false),
            ("MapType(UTF8Type,Int32Type)", many, false),
            (user, many, false),
            (&format!("FrozenType({user})"), whole(None), true),
            ("org.apache.cassandra.db.marshal.FrozenType(SetType(UUIDType))", whole(None), true),
            ("TupleType(Int32Type,UTF8Type)", whole(None), true),
            ("VectorType(FloatType , 3)", whole(Some(12)), true),
            ("VectorType(UTF8Type, 3)", whole(None), true),
            ("IntegerType", whole(None), true),
            ("DurationType", whole(None), true),
            ("CounterColumnType", whole(None), false),
            ("UTF8Type", whole(None), false),
        ];
        let blob = Column { name: "c".into(), ty: DataType::Blob, kind: ColumnKind::Regular };
        let key = column(DataType::Blob, ClusteringOrder::Ascending);
        for (name, wanted, is_opaque) in cases {
            assert_eq!(shape(name), Some(wanted), "{name}");
            assert_eq!(fits_column(name, &blob), is_opaque, "{name}");
            assert!(!fits_column(name, &key), "{name}");
        }
    }
}
