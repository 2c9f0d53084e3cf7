//! The table that benchmarks write and read: a partition key, a clustering key and a value.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, Int64Array, RecordBatch};
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

/// So many rows from number `first` on, as a client sends them.
pub fn batch((first, count): (i64, i64), rows_per_partition: i64) -> RecordBatch {
    let numbers = || first..first + count;
    let pk = Int64Array::from_iter_values(numbers().map(|row| row / rows_per_partition));
    let ck = Int64Array::from_iter_values(numbers().map(|row| row % rows_per_partition));
    let value = |row: i64| {
        let mut value = [b'v'; VALUE_BYTES];
        value[..8].copy_from_slice(&row.to_be_bytes());
        value
    };
    let v = BinaryArray::from_iter_values(numbers().map(value));
    let columns: [(&str, ArrayRef); 3] =
        [("pk", Arc::new(pk)), ("ck", Arc::new(ck)), ("v", Arc::new(v))];
    RecordBatch::try_from_iter(columns).unwrap()
}
