//! The table `system.fragments`: which source holds which part of one partition, and what the row
//! cache knows of the gaps.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, StringArray, UInt32Array};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use tidegate_engine::mutation::Weight;
use tidegate_engine::schema::table_schema::SchemaRef;
use tidegate_engine::{
    Error as EngineError, FragmentKind, PartitionKey, Position, TableSchema, Value,
};

use super::columns::{shard, texts};
use crate::query::engine::Engine;
use crate::query::types::literal::{self, KEY_SEPARATOR, prefix_text};

/// Parts of each source that are shown.
const PARTS_MAX: usize = 10_000;

pub fn fields() -> Vec<Field> {
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    vec![
        text("keyspace_name"),
        text("table_name"),
        text("partition"),
        shard(),
        text("source"),
        text("kind"),
        Field::new("from_key", DataType::Utf8, true),
        Field::new("to_key", DataType::Utf8, true),
        Field::new("timestamp", DataType::Int64, true),
    ]
}

/// Errors: `Invalid` without a table and a partition among the conditions; those of the engine.
pub async fn columns(database: &Engine, filters: &[Expr]) -> Result<Vec<ArrayRef>, EngineError> {
    let (Some(table), Some(partition)) =
        (wanted(filters, "table_name"), wanted(filters, "partition"))
    else {
        return Err(EngineError::invalid(
            "system.fragments shows one partition: WHERE table_name = '…' AND partition = '…'",
        ));
    };
    let keyspace = wanted(filters, "keyspace_name");
    let schema = find(database, keyspace.as_deref(), &table)?;
    let key = key(&schema, &partition)?;
    let (shard, parts) = database.fragments(schema.id, key, PARTS_MAX).await?;
    let same = |text: &str| texts(std::iter::repeat_n(text, parts.len()));
    let positions = |of: fn(&tidegate_engine::FragmentReport) -> &Position| -> ArrayRef {
        let all = parts.iter().map(|part| place(&schema, of(part)));
        Arc::new(all.collect::<StringArray>())
    };
    Ok(vec![
        same(&schema.keyspace),
        same(&schema.name),
        same(&partition),
        Arc::new(UInt32Array::from_iter_values(std::iter::repeat_n(shard, parts.len()))),
        texts(parts.iter().map(|part| part.source.as_str())),
        texts(parts.iter().map(|part| kind(part.kind))),
        positions(|part| &part.start),
        positions(|part| &part.end),
        Arc::new(parts.iter().map(|part| part.timestamp).collect::<Int64Array>()),
    ])
}

/// The text that a column must be equal to.
fn wanted(filters: &[Expr], name: &str) -> Option<String> {
    use ScalarValue::{LargeUtf8, Utf8, Utf8View};
    let value = |left: &Expr, right: &Expr| match (left, right) {
        (Expr::Column(column), Expr::Literal(Utf8(text) | Utf8View(text) | LargeUtf8(text), _))
            if column.name == name =>
        {
            text.clone()
        }
        _ => None,
    };
    filters.iter().find_map(|filter| match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            value(left, right).or_else(|| value(right, left))
        }
        _ => None,
    })
}

fn find(database: &Engine, keyspace: Option<&str>, name: &str) -> Result<SchemaRef, EngineError> {
    let catalog = database.catalog();
    let is_it = |table: &&SchemaRef| {
        table.name == name && keyspace.is_none_or(|keyspace| table.keyspace == keyspace)
    };
    let mut found = catalog.all_tables().filter(is_it);
    let first = found.next().cloned();
    let table =
        first.ok_or_else(|| EngineError::NotFound { kind: "table", name: name.to_owned() })?;
    if found.next().is_some() {
        let message = format!("several keyspaces have a table '{name}': AND keyspace_name = '…'");
        return Err(EngineError::invalid(message));
    }
    Ok(table)
}

fn key(schema: &TableSchema, text: &str) -> Result<PartitionKey, EngineError> {
    let columns: Vec<_> = schema.partition_key().collect();
    let texts: Vec<&str> = match columns.len() {
        1 => vec![text],
        _ => text.split(KEY_SEPARATOR).collect(),
    };
    if texts.len() != columns.len() {
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let message =
            format!("partition '{text}' has not the values of: {}", names.join(KEY_SEPARATOR));
        return Err(EngineError::invalid(message));
    }
    let parse = |(column, text): (&&tidegate_engine::Column, &&str)| {
        let wrong = |reason| EngineError::invalid(format!("column '{}': {reason}", column.name));
        literal::parse(&column.ty, text).map_err(wrong)
    };
    let values: Vec<Value> = columns.iter().zip(&texts).map(parse).collect::<Result<_, _>>()?;
    PartitionKey::from_values(schema, &values)
}

fn kind(kind: FragmentKind) -> &'static str {
    match kind {
        FragmentKind::Partition => "partition",
        FragmentKind::StaticRow => "static row",
        FragmentKind::Row => "row",
        FragmentKind::RangeTombstone => "range tombstone",
        FragmentKind::AbsentRow => "absent row",
        FragmentKind::KnownGap => "known gap",
        FragmentKind::UnknownGap => "unknown gap",
    }
}

/// A position as text; none for the ends of the partition.
fn place(schema: &TableSchema, position: &Position) -> Option<String> {
    if position.prefix.is_empty() {
        return None;
    }
    let values = prefix_text(schema, &position.prefix);
    Some(match position.weight {
        Weight::Before => format!("before {values}"),
        Weight::At => values,
        Weight::After => format!("after {values}"),
    })
}

#[cfg(test)]
mod tests {
    use tidegate_engine::schema::ClusteringOrder;
    use tidegate_engine::{
        ClusteringKey, Column, ColumnKind, DataType as Type, TableId, TableOptions,
    };

    use super::*;

    /// `pk int | a int, b text desc`
    fn table() -> TableSchema {
        let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
        let clustering = |position, order| ColumnKind::ClusteringKey { position, order };
        TableSchema {
            id: TableId(1),
            keyspace: "ks".into(),
            name: "t".into(),
            columns: vec![
                column("pk", Type::Int, ColumnKind::PartitionKey { position: 0 }),
                column("a", Type::Int, clustering(0, ClusteringOrder::Ascending)),
                column("b", Type::Text, clustering(1, ClusteringOrder::Descending)),
            ],
            options: TableOptions::default(),
            drops: Vec::new(),
        }
    }

    #[test]
    fn a_place_says_on_which_side_of_which_values_it_is_and_an_end_says_nothing() {
        let table = table();
        let key = |values: &[Value]| ClusteringKey::from_values(&table, values).unwrap();
        let (one, both) = ([Value::Int(-5)], [Value::Int(7), Value::Text("x".into())]);
        for (position, wanted) in [
            (Position::start(), None),
            (Position::end(), None),
            (Position::before(key(&one)), Some("before -5")),
            (Position::after(key(&one)), Some("after -5")),
            (Position::before(key(&both)), Some("before 7, x")),
            (Position::at(key(&both)), Some("7, x")),
            (Position::after(key(&both)), Some("after 7, x")),
        ] {
            assert_eq!(place(&table, &position).as_deref(), wanted, "{position:?}");
        }
    }

    #[test]
    fn each_kind_of_part_has_its_own_name() {
        for (of, wanted) in [
            (FragmentKind::Partition, "partition"),
            (FragmentKind::StaticRow, "static row"),
            (FragmentKind::Row, "row"),
            (FragmentKind::RangeTombstone, "range tombstone"),
            (FragmentKind::AbsentRow, "absent row"),
            (FragmentKind::KnownGap, "known gap"),
            (FragmentKind::UnknownGap, "unknown gap"),
        ] {
            assert_eq!(kind(of), wanted);
        }
    }
}
