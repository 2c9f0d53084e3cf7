//! Names of column types as Cassandra writes them into `Statistics.db`.
//!
//! Collections, tuples, counters, `varint` and `duration` are not column types of this engine;
//! a file that has them is refused by name.

use crate::error::{Error, Result};
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

/// Whether the stored type `name` fits `column`.
pub(super) fn fits_column(name: &str, column: &Column) -> bool {
    let Some(parsed) = parse_all(name) else { return false };
    match (column.clustering_order(), parsed.class, parsed.parameters.as_slice()) {
        (ClusteringOrder::Descending, "ReversedType", [inner]) => is_scalar(inner, column.ty),
        (ClusteringOrder::Descending, ..) => false,
        (ClusteringOrder::Ascending, ..) => is_scalar(&parsed, column.ty),
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

/// Length of non-empty values of a type that the table does not have (any more), `None` where a
/// length is written.
///
/// Errors: `Invalid` for a multi-cell or unknown type, whose cells cannot be skipped.
pub(super) fn fixed_bytes(name: &str) -> Result<Option<usize>> {
    let unknown = || Error::invalid(format!("columns of type '{name}' are not readable yet"));
    let parsed = parse_all(name).ok_or_else(unknown)?;
    Ok(match parsed.class {
        "BooleanType" => Some(1),
        "Int32Type" | "FloatType" => Some(4),
        "LongType" | "DoubleType" | "TimestampType" | "DateType" => Some(8),
        "UUIDType" | "TimeUUIDType" | "LexicalUUIDType" => Some(16),
        "EmptyType" => Some(0),
        "ByteType" | "ShortType" | "SimpleDateType" | "TimeType" | "InetAddressType"
        | "DecimalType" | "IntegerType" | "DurationType" | "UTF8Type" | "AsciiType"
        | "BytesType" | "FrozenType" | "TupleType" => None,
        _ => return Err(unknown()),
    })
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
            assert_eq!(fixed_bytes(&of_column(&ascending)).unwrap(), ty.fixed_bytes());
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
        assert!(fixed_bytes("org.apache.cassandra.db.marshal.ListType(UTF8Type)").is_err());
    }
}
