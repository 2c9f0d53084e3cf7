//! `cargo bench --bench cache`: the row cache, from point reads in memory to a time series and
//! scans whose cache is smaller than their data.
//!
//! CPU time is the process's, all threads together. Reads of rows go through a cursor on the shard
//! that owns them, as embedders and the SQL layer read. Memory is counted by the allocator.

#![expect(clippy::unwrap_used, reason = "a benchmark stops where it fails")]

#[path = "cache/allocator.rs"]
mod allocator;
#[path = "cache/disk.rs"]
mod disk;
#[path = "cache/flush.rs"]
mod flush;
#[allow(dead_code, reason = "a group uses of the frame what it needs")]
#[path = "frame/mod.rs"]
mod frame;
#[path = "cache/point.rs"]
mod point;
#[path = "cache/scan.rs"]
mod scan;
#[path = "cache/series.rs"]
mod series;

use std::path::Path;

use frame::{Arguments, print_head};
use tidegate_engine::config::TIME_SLICE;
use tidegate_engine::{
    Cell, ClusteringKey, ClusteringOrder, ClusteringRange, Column, ColumnId, ColumnKind, DataType,
    Database, Durability, Liveness, Mutation, Options, PartitionKey, Row as EngineRow, SchemaRef,
    TableId, TableOptions, TableSchema, Value, os,
};

const VALUE_BYTES: usize = 100;
/// Memory that the process takes at its start: what the reads of points take, and all else less.
const PREFAULT_BYTES: usize = 3 << 30;

#[global_allocator]
static ALLOCATOR: allocator::Counting = allocator::Counting;

fn definition() -> TableSchema {
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    let order = ClusteringOrder::Ascending;
    TableSchema {
        id: TableId(0),
        keyspace: "default".into(),
        name: "rows".into(),
        columns: vec![
            column("pk", DataType::BigInt, ColumnKind::PartitionKey { position: 0 }),
            column("ck", DataType::BigInt, ColumnKind::ClusteringKey { position: 0, order }),
            column("v", DataType::Blob, ColumnKind::Regular),
        ],
        options: TableOptions::default(),
        drops: Vec::new(),
    }
}

fn partition_key(schema: &TableSchema, pk: i64) -> PartitionKey {
    PartitionKey::from_values(schema, &[Value::BigInt(pk)]).unwrap()
}

fn clustering_key(schema: &TableSchema, ck: i64) -> ClusteringKey {
    ClusteringKey::from_values(schema, &[Value::BigInt(ck)]).unwrap()
}

fn row_of(schema: &TableSchema, ck: i64) -> ClusteringRange {
    ClusteringRange::prefix(clustering_key(schema, ck))
}

/// An INSERT of one row.
fn write(schema: &TableSchema, pk: i64, ck: i64, timestamp: i64) -> Mutation {
    let mut mutation = Mutation::new(schema.id, partition_key(schema, pk));
    let row = EngineRow {
        liveness: Some(Liveness::at(timestamp)),
        cells: vec![(ColumnId(2), Cell::live(timestamp, vec![b'v'; VALUE_BYTES]))],
        ..EngineRow::default()
    };
    mutation.rows.push((clustering_key(schema, ck), row));
    mutation
}

/// A database of one shard and its only table.
async fn open(
    directory: &Path,
    cache_bytes: usize,
    memtable_bytes: usize,
) -> (Database, SchemaRef) {
    let options = Options {
        durability: Durability::None,
        shards: Some(1),
        cache_bytes,
        memtable_bytes,
        ..Options::new(directory)
    };
    let database = Database::open(options).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    (database, schema)
}

fn main() {
    let arguments = Arguments::parse();
    // As the program does, with --prefault: its threads have short turns, and none waits for the
    // kernel to clear memory.
    os::set_time_slice(TIME_SLICE).unwrap();
    let prefault = tidegate::allocator::prefault(PREFAULT_BYTES).unwrap();
    prefault.join().unwrap();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.unwrap().block_on(async {
        print_head(&arguments);
        point::run(&arguments).await;
        flush::run(&arguments).await;
        series::run(&arguments).await;
        scan::run(&arguments).await;
        disk::run(&arguments).await;
    });
}
