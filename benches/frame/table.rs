//! The table that benchmarks write and read: a partition key, a clustering key and a value.

use tidegate_engine::{
    Cell, ClusteringKey, ClusteringOrder, Column, ColumnId, ColumnKind, DataType, Liveness,
    Mutation, PartitionKey, Row, TableId, TableOptions, TableSchema, Value,
};

/// Bytes of a value.
pub const VALUE_BYTES: usize = 100;

/// Its schema.
pub fn definition(name: &str) -> TableSchema {
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    let order = ClusteringOrder::Ascending;
    TableSchema {
        id: TableId(0),
        keyspace: "default".into(),
        name: name.into(),
        columns: vec![
            column("pk", DataType::BigInt, ColumnKind::PartitionKey { position: 0 }),
            column("ck", DataType::BigInt, ColumnKind::ClusteringKey { position: 0, order }),
            column("v", DataType::Blob, ColumnKind::Regular),
        ],
        options: TableOptions::default(),
        drops: Vec::new(),
    }
}

pub fn partition_key(schema: &TableSchema, pk: i64) -> PartitionKey {
    PartitionKey::from_values(schema, &[Value::BigInt(pk)]).unwrap()
}

pub fn clustering_key(schema: &TableSchema, ck: i64) -> ClusteringKey {
    ClusteringKey::from_values(schema, &[Value::BigInt(ck)]).unwrap()
}

/// An INSERT of one row.
pub fn write(schema: &TableSchema, pk: i64, ck: i64, timestamp: i64) -> Mutation {
    let mut mutation = Mutation::new(schema.id, partition_key(schema, pk));
    let mut value = vec![b'v'; VALUE_BYTES];
    value[..8].copy_from_slice(&ck.to_be_bytes());
    let row = Row {
        liveness: Some(Liveness::at(timestamp)),
        deletion: None,
        cells: vec![(ColumnId(2), Cell::live(timestamp, value))],
        ..Row::default()
    };
    mutation.rows.push((clustering_key(schema, ck), row));
    mutation
}
