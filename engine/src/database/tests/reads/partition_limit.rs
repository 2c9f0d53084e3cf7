//! Reads that go on at the next partition after some rows of one.

use super::*;
use crate::clock::Random;
use crate::commitlog::Durability;
use crate::error::Error;
use crate::io::Class;

const KEYS: u64 = 24;
const PARTITIONS: u64 = 7;

/// `v` and a static column.
fn with_static() -> TableSchema {
    let mut definition = definition();
    definition.columns.push(column("s", DataType::BigInt, ColumnKind::Static));
    // Several blocks a partition.
    definition.options.column_index_bytes = 64;
    definition
}

async fn open(directory: &std::path::Path, shards: u32) -> Database {
    let options =
        Options { durability: Durability::None, shards: Some(shards), ..Options::new(directory) };
    Database::open(options).await.unwrap()
}

/// Rows, or what deletes some.
fn random_mutation(random: &mut Random, schema: &TableSchema) -> Mutation {
    let pk = format!("p{}", random.below(PARTITIONS));
    let at = |random: &mut Random| random.below(KEYS) as i32;
    let timestamp = random.below(30) as i64;
    let tombstone = Tombstone { timestamp, deletion_time: 1 };
    let mut mutation = insert(schema, &pk, at(random), random.next_u64() as i64, timestamp);
    match random.below(16) {
        0 => {
            mutation.rows.clear();
            mutation.deletion = Some(tombstone);
        }
        1 | 2 => {
            mutation.rows.clear();
            let (a, b) = (ck(schema, at(random)), ck(schema, at(random)));
            let (start, end) = (a.clone().min(b.clone()), a.max(b));
            let range =
                ClusteringRange { start: Position::before(start), end: Position::after(end) };
            mutation.range_tombstones.push(RangeTombstone { range, tombstone });
        }
        3 => {
            let cells = vec![(ColumnId(3), Cell::live(timestamp, 5_i64.to_be_bytes()))];
            mutation.static_row = Some(Row { cells, ..Row::default() });
        }
        _ => {}
    }
    mutation
}

/// The partition of each row, and its value.
async fn pairs(database: &Database, command: ReadCommand) -> Vec<(Value, Option<Value>)> {
    let columns = vec![ColumnId(0), ColumnId(2)];
    let read = database.read(ReadCommand { columns, ..command });
    let batches: Vec<RecordBatch> = read.try_collect().await.unwrap();
    let value = |batch: &RecordBatch, column: usize, row, ty| {
        crate::batch::value_at(batch.column(column), row, ty).unwrap()
    };
    let pair = |batch: &RecordBatch, row| {
        let pk = value(batch, 0, row, &DataType::Text).unwrap();
        (pk, value(batch, 1, row, &DataType::BigInt))
    };
    let rows = |batch| (0..RecordBatch::num_rows(batch)).map(move |row| pair(batch, row));
    batches.iter().flat_map(rows).collect()
}

/// The first rows of each partition.
fn first(all: &[(Value, Option<Value>)], limit: usize) -> Vec<(Value, Option<Value>)> {
    let same = all.chunk_by(|one, other| one.0 == other.0);
    same.flat_map(|rows| rows.iter().take(limit)).cloned().collect()
}

#[tokio::test]
async fn a_limit_of_partitions_gives_the_first_rows_of_each() {
    let mut cut = 0;
    for seed in 0..8 {
        let mut random = Random::new(seed);
        let directory = tempfile::tempdir().unwrap();
        let shards = 1 + random.below(2) as u32;
        let database = open(directory.path(), shards).await;
        let schema = database.create_table(with_static(), false).await.unwrap();
        let names = (0..PARTITIONS).map(|number| key(&schema, &format!("p{number}")));
        let names: Vec<PartitionKey> = names.collect();
        for _ in 0..1 + random.below(4) {
            for _ in 0..random.below(150) {
                database.apply(random_mutation(&mut random, &schema)).await.unwrap();
            }
            if !random.one_in(4) {
                database.flush(None).await.unwrap();
            }
        }
        for round in 0..60 {
            let direction = [Direction::Forward, Direction::Reversed][random.below(2) as usize];
            let from = Position::before(ck(&schema, random.below(KEYS) as i32));
            let slice = match random.below(3) {
                0 => Slice {
                    ranges: vec![ClusteringRange { start: from, end: Position::end() }],
                    direction,
                },
                _ => Slice::full(direction),
            };
            let partitions = match random.below(3) {
                0 => Partitions::Keys(names[..1 + random.below(PARTITIONS) as usize].to_vec()),
                _ => Partitions::Shard(random.below(u64::from(shards)) as u32),
            };
            let past_cache = random.one_in(3);
            let whole =
                ReadCommand { partitions, past_cache, ..read_of(&schema, "p0", slice, None) };
            let limit = 1 + random.below(9) as usize;
            let row_limit = random.one_in(3).then(|| random.below(30) as usize);
            let limited = ReadCommand { partition_limit: Some(limit), row_limit, ..whole.clone() };
            let what = format!("seed {seed}, round {round}: {limited:?}");
            // What is limited comes first: it fills the cache otherwise than the whole read.
            let found = pairs(&database, limited).await;
            let all = pairs(&database, whole).await;
            let mut wanted = first(&all, limit);
            cut += all.len() - wanted.len();
            wanted.truncate(row_limit.unwrap_or(usize::MAX));
            assert_eq!(found, wanted, "{what}");
        }
        database.close().await.unwrap();
    }
    assert!(cut > 1_000, "{cut} rows were left out");
}

#[tokio::test]
async fn what_lies_behind_the_last_row_of_a_partition_is_not_read() {
    const ROWS: i32 = 20_000;
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path(), 1).await;
    let mut definition = definition();
    definition.columns[2].ty = DataType::Blob;
    let schema = database.create_table(definition, false).await.unwrap();
    let row = |pk: &str, at: i32| {
        let mut mutation = insert(&schema, pk, at, 0, 1);
        let bytes = (0..100).map(|n| (n * at) as u8).collect::<Vec<_>>();
        mutation.rows[0].1.cells = vec![(ColumnId(2), Cell::live(1, bytes))];
        mutation
    };
    for pk in ["a", "b", "c", "d"] {
        database.apply_many((0..ROWS).map(|at| row(pk, at)).collect()).await.unwrap();
    }
    database.flush(None).await.unwrap();
    let read_bytes = async || {
        let all = database.io_report().await.unwrap();
        let own = all.iter().filter(|report| report.class == Class::Query);
        own.map(|report| report.stats.read_bytes).sum::<u64>()
    };
    let count = async |command| -> usize {
        let batches: Vec<RecordBatch> = database.read(command).try_collect().await.unwrap();
        batches.iter().map(RecordBatch::num_rows).sum()
    };
    for direction in [Direction::Forward, Direction::Reversed] {
        let whole =
            ReadCommand { slice: Slice::full(direction), past_cache: true, ..scan_of(&schema, 0) };
        let before = read_bytes().await;
        assert_eq!(count(whole.clone()).await, 4 * ROWS as usize);
        let all = read_bytes().await - before;
        assert!(all > 8_000_000, "{all} bytes of all");
        let limited = ReadCommand { partition_limit: Some(2), ..whole };
        let before = read_bytes().await;
        assert_eq!(count(limited).await, 8);
        let some = read_bytes().await - before;
        assert!(some * 4 < all, "{some} bytes for two rows of each partition, {all} for all");
    }
    database.close().await.unwrap();
}

#[tokio::test]
async fn a_read_of_no_row_of_each_partition_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path(), 1).await;
    let schema = database.create_table(definition(), false).await.unwrap();
    let command = ReadCommand { partition_limit: Some(0), ..scan_of(&schema, 0) };
    let read: Result<Vec<RecordBatch>, Error> = database.read(command).try_collect().await;
    assert!(matches!(read, Err(Error::Invalid(_))), "{read:?}");
    database.close().await.unwrap();
}
