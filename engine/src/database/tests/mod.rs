//! The database at its public border.

use futures::{StreamExt, TryStreamExt};

use super::{Database, Options};
use crate::batch::RecordBatch;
use crate::mutation::{
    Cell, ClusteringRange, Direction, Liveness, Mutation, Position, RangeTombstone, Row, Slice,
    Tombstone,
};
use crate::schema::table_schema::SchemaRef;
use crate::schema::{
    ClusteringKey, ClusteringOrder, Column, ColumnId, ColumnKind, DataType, PartitionKey, TableId,
    TableOptions, TableSchema, Value,
};
use crate::table::{Partitions, ReadCommand};

mod calls;
mod charges;
mod collection;
mod compaction;
mod definition;
mod equal_tokens;
mod faults;
mod flush;
mod governed;
mod io;
mod options;
mod limits;
mod long_rows;
mod memory;
mod point_reads;
mod reads;
mod several_shards;
mod snapshot;
mod watched;
mod writes;

fn column(name: &str, ty: DataType, kind: ColumnKind) -> Column {
    Column { name: name.into(), ty, kind }
}

fn definition() -> TableSchema {
    TableSchema {
        id: TableId(0),
        keyspace: "default".into(),
        name: "t".into(),
        columns: vec![
            column("pk", DataType::Text, ColumnKind::PartitionKey { position: 0 }),
            column(
                "ck",
                DataType::Int,
                ColumnKind::ClusteringKey { position: 0, order: ClusteringOrder::Ascending },
            ),
            column("v", DataType::BigInt, ColumnKind::Regular),
        ],
        options: TableOptions::default(),
        drops: Vec::new(),
    }
}

fn key(schema: &TableSchema, pk: &str) -> PartitionKey {
    PartitionKey::from_values(schema, &[Value::Text(pk.into())]).unwrap()
}

fn ck(schema: &TableSchema, ck: i32) -> ClusteringKey {
    ClusteringKey::from_values(schema, &[Value::Int(ck)]).unwrap()
}

fn insert(schema: &TableSchema, pk: &str, at: i32, value: i64, timestamp: i64) -> Mutation {
    let mut mutation = Mutation::new(schema.id, key(schema, pk));
    let row = Row {
        liveness: Some(Liveness::at(timestamp)),
        cells: vec![(ColumnId(2), Cell::live(timestamp, value.to_be_bytes()))],
        ..Row::default()
    };
    mutation.rows.push((ck(schema, at), row));
    mutation
}

/// A read of column `v` of one partition.
fn read_of(schema: &SchemaRef, pk: &str, slice: Slice, row_limit: Option<usize>) -> ReadCommand {
    ReadCommand {
        schema: schema.clone(),
        partitions: Partitions::Keys(vec![key(schema, pk)]),
        slice,
        columns: vec![ColumnId(2)],
        stamps: Vec::new(),
        row_limit,
        partition_limit: None,
        deadline: None,
        level: Default::default(),
        past_cache: false,
        filter: None,
    }
}

/// Everything of one shard, in order.
fn scan_of(schema: &SchemaRef, shard: u32) -> ReadCommand {
    ReadCommand {
        schema: schema.clone(),
        partitions: Partitions::Shard(shard),
        slice: Slice::full(Direction::Forward),
        columns: vec![],
        stamps: Vec::new(),
        row_limit: None,
        partition_limit: None,
        deadline: None,
        level: Default::default(),
        past_cache: false,
        filter: None,
    }
}

async fn rows(
    database: &Database,
    schema: &SchemaRef,
    slice: Slice,
    limit: Option<usize>,
) -> Vec<i64> {
    values(database, read_of(schema, "a", slice, limit)).await
}

/// The one column, of type bigint, that `command` reads.
async fn values(database: &Database, command: ReadCommand) -> Vec<i64> {
    let batches: Vec<RecordBatch> = database.read(command).try_collect().await.unwrap();
    batches
        .iter()
        .flat_map(|batch| {
            (0..batch.num_rows())
                .map(|row| match crate::batch::value_at(batch.column(0), row, &DataType::BigInt) {
                    Ok(Some(Value::BigInt(value))) => value,
                    other => panic!("no bigint: {other:?}"),
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Rows of a whole partition.
async fn count_rows(
    database: &Database,
    schema: &SchemaRef,
    pk: &str,
) -> crate::error::Result<usize> {
    let command = ReadCommand {
        schema: schema.clone(),
        partitions: Partitions::Keys(vec![key(schema, pk)]),
        slice: Slice::full(Direction::Forward),
        columns: vec![ColumnId(2)],
        stamps: Vec::new(),
        row_limit: None,
        partition_limit: None,
        deadline: None,
        level: Default::default(),
        past_cache: false,
        filter: None,
    };
    let batches: Vec<RecordBatch> = database.read(command).try_collect().await?;
    Ok(batches.iter().map(RecordBatch::num_rows).sum())
}

#[tokio::test]
async fn what_was_written_is_read_in_both_directions() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = Options::new(directory.path());
    options.commitlog_segment_bytes = 1 << 20;
    let database = Database::open(options).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    let writes = (0..1000).map(|i| insert(&schema, "a", i, i64::from(i) * 10, 1)).collect();
    database.apply_many(writes).await.unwrap();
    database.apply(insert(&schema, "b", 5, 7, 1)).await.unwrap();

    let all: Vec<i64> = (0..1000).map(|i| i * 10).collect();
    let forward = rows(&database, &schema, Slice::full(Direction::Forward), None).await;
    assert_eq!(forward, all);
    let reversed = rows(&database, &schema, Slice::full(Direction::Reversed), None).await;
    assert_eq!(reversed, all.iter().rev().copied().collect::<Vec<_>>());
    let page = rows(&database, &schema, Slice::full(Direction::Reversed), Some(3)).await;
    assert_eq!(page, [9990, 9980, 9970]);
    let range = ClusteringRange {
        start: Position::before(ck(&schema, 10)),
        end: Position::after(ck(&schema, 12)),
    };
    let slice = Slice { ranges: vec![range.clone()], direction: Direction::Reversed };
    assert_eq!(rows(&database, &schema, slice, None).await, [120, 110, 100]);

    let mut deletion = Mutation::new(schema.id, key(&schema, "a"));
    let tombstone = Tombstone { timestamp: 2, deletion_time: 0 };
    deletion.range_tombstones.push(RangeTombstone { range, tombstone });
    database.apply(deletion).await.unwrap();
    for direction in [Direction::Forward, Direction::Reversed] {
        let left = rows(&database, &schema, Slice::full(direction), None).await;
        assert_eq!(left.len(), 997);
        assert!(!left.contains(&110));
    }
    database.apply(insert(&schema, "a", 11, 1, 3)).await.unwrap();
    let left = rows(&database, &schema, Slice::full(Direction::Reversed), None).await;
    assert_eq!(left.len(), 998);

    let mut counted = 0;
    for shard in 0..database.shard_count() {
        let mut stream = database.read(scan_of(&schema, shard));
        while let Some(batch) = stream.next().await {
            counted += batch.unwrap().num_rows();
        }
    }
    assert_eq!(counted, 999);
}

#[tokio::test]
async fn a_second_run_finds_the_data_under_any_shard_count() {
    let directory = tempfile::tempdir().unwrap();
    let open = |shards| {
        let mut options = Options::new(directory.path());
        options.shards = Some(shards);
        options.commitlog_segment_bytes = 1 << 20;
        Database::open(options)
    };
    let database = open(2).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    let writes = (0..100).map(|i| insert(&schema, "a", i, i64::from(i), 1)).collect();
    database.apply_many(writes).await.unwrap();
    let second = open(2).await;
    let held = second.err().unwrap().to_string();
    assert!(held.contains("in use"), "{held}");
    database.close().await.unwrap();
    drop(database);
    for shards in [3, 1, 2] {
        let database = open(shards).await.unwrap();
        let schema = database.catalog().table("default", "t").unwrap().clone();
        let found = rows(&database, &schema, Slice::full(Direction::Forward), None).await;
        assert_eq!(found, (0..100).collect::<Vec<i64>>(), "{shards} shards");
        database.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_newer_or_damaged_catalog_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = Options::new(directory.path());
    options.commitlog_segment_bytes = 1 << 20;
    Database::open(options.clone()).await.unwrap().close().await.unwrap();
    let path = directory.path().join("catalog");
    let good = std::fs::read(&path).unwrap();
    let crc = crate::checksum::crc32(b"tidegate-catalog 99 {}");
    std::fs::write(&path, format!("tidegate-catalog 99 {crc:08x}\n{{}}")).unwrap();
    let newer = Database::open(options.clone()).await.err().unwrap().to_string();
    assert!(newer.contains("newer version"), "{newer}");
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    std::fs::write(&path, damaged).unwrap();
    let corrupt = Database::open(options.clone()).await.err().unwrap().to_string();
    assert!(corrupt.contains("corrupt file") && corrupt.contains("catalog"), "{corrupt}");
    // Of the first line every byte is covered, the digit of the version too.
    let line = good.iter().position(|byte| *byte == b'\n').unwrap();
    for at in 0..=line {
        for flip in [1, 2, 4, 8, 0x10] {
            let mut damaged = good.clone();
            damaged[at] ^= flip;
            std::fs::write(&path, damaged).unwrap();
            let error = Database::open(options.clone()).await.err();
            let text = error.map(|error| error.to_string()).unwrap_or_default();
            assert!(text.contains("corrupt file"), "byte {at}, bit {flip}: {text}");
        }
    }
    // A catalog of the format before.
    let body = &good[line + 1..];
    let old = format!("tidegate-catalog 2 {:08x}\n", crate::checksum::crc32(body));
    std::fs::write(&path, [old.as_bytes(), body].concat()).unwrap();
    Database::open(options.clone()).await.unwrap().close().await.unwrap();
    std::fs::write(&path, good).unwrap();
    Database::open(options).await.unwrap().close().await.unwrap();
}
