//! Single rows through the row cache, known there or not, are what a read past all caches gives.

use super::*;
use crate::clock::Random;
use crate::commitlog::Durability;
use crate::error::{Error, Result};

const KEYS: i32 = 12;
const PARTITIONS: [&str; 4] = ["a", "b", "c", "nobody writes this one"];

fn with_static() -> TableSchema {
    let mut definition = definition();
    definition.columns.push(column("s", DataType::BigInt, ColumnKind::Static));
    // Several blocks, so that rows are looked for in a promoted index too.
    definition.options.column_index_bytes = 64;
    definition
}

fn random_mutation(random: &mut Random, schema: &TableSchema) -> Mutation {
    let pk = PARTITIONS[random.below(3) as usize];
    let at = |random: &mut Random| ck(schema, random.below(KEYS as u64) as i32);
    let timestamp = random.below(40) as i64;
    let tombstone = Tombstone { timestamp, deletion_time: 1 };
    let value = random.next_u64() as i64;
    let mut mutation = insert(schema, pk, random.below(KEYS as u64) as i32, value, timestamp);
    match random.below(12) {
        0 => {
            mutation.rows.clear();
            mutation.deletion = Some(tombstone);
        }
        1 | 2 => {
            mutation.rows.clear();
            let (a, b) = (at(random), at(random));
            let (start, end) = (a.clone().min(b.clone()), a.max(b));
            let range =
                ClusteringRange { start: Position::before(start), end: Position::after(end) };
            mutation.range_tombstones.push(RangeTombstone { range, tombstone });
        }
        3 => {
            mutation.rows[0].1 = Row { deletion: Some(tombstone), ..Row::default() };
        }
        4 => {
            let cells = vec![(ColumnId(3), Cell::live(timestamp, value.to_be_bytes()))];
            mutation.static_row = Some(Row { cells, ..Row::default() });
        }
        _ => {}
    }
    mutation
}

#[tokio::test]
async fn rows_of_several_files_are_what_a_read_past_the_caches_gives() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let directory = tempfile::tempdir().unwrap();
        let options = Options {
            durability: Durability::None,
            shards: Some(1),
            ..Options::new(directory.path())
        };
        let database = Database::open(options).await.unwrap();
        let schema = database.create_table(with_static(), false).await.unwrap();
        for _ in 0..1 + random.below(4) {
            for _ in 0..random.below(40) {
                database.apply(random_mutation(&mut random, &schema)).await.unwrap();
            }
            database.flush(None).await.unwrap();
        }
        for _ in 0..200 {
            let pk = PARTITIONS[random.below(4) as usize];
            let direction = [Direction::Forward, Direction::Reversed][random.below(2) as usize];
            let row = ClusteringRange::prefix(ck(&schema, random.below(KEYS as u64) as i32));
            let slice = Slice { ranges: vec![row], direction };
            let mut command = read_of(&schema, pk, slice, None);
            command.columns = vec![ColumnId(2), ColumnId(3)];
            let wanted = ReadCommand { past_cache: true, ..command.clone() };
            let what = format!("seed {seed}, {pk}, {:?}", command.slice);
            let read = async |command| -> Vec<RecordBatch> {
                database.read(command).try_collect().await.unwrap()
            };
            assert_eq!(read(command).await, read(wanted).await, "{what}");
        }
        database.close().await.unwrap();
    }
}

/// A static row stands for its partition where all of that is asked for, and for no row that is
/// not there.
#[tokio::test]
async fn a_static_row_alone_answers_no_read_by_clustering_key() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(Options::new(directory.path())).await.unwrap();
    let schema = database.create_table(with_static(), false).await.unwrap();
    let mut mutation = insert(&schema, "a", 5, 50, 1);
    mutation.rows.clear();
    let cells = vec![(ColumnId(3), Cell::live(1, 7_i64.to_be_bytes()))];
    mutation.static_row = Some(Row { cells, ..Row::default() });
    database.apply(mutation).await.unwrap();
    let at = |key| ck(&schema, key);
    let by_key = [
        ClusteringRange::prefix(at(5)),
        ClusteringRange { start: Position::before(at(1)), end: Position::after(at(9)) },
        ClusteringRange { start: Position::before(at(1)), end: Position::end() },
    ];
    for flushed in [false, true] {
        for past_cache in [false, true, false] {
            for range in &by_key {
                let slice = Slice { ranges: vec![range.clone()], direction: Direction::Forward };
                let command = ReadCommand { past_cache, ..read_of(&schema, "a", slice, None) };
                let found = values(&database, command).await;
                assert_eq!(found.len(), 0, "flushed: {flushed}, past: {past_cache}, {range:?}");
            }
            let slice = Slice::full(Direction::Forward);
            let columns = vec![ColumnId(3)];
            let command = ReadCommand { past_cache, columns, ..read_of(&schema, "a", slice, None) };
            let found = values(&database, command).await;
            assert_eq!(found, [7], "flushed: {flushed}, past: {past_cache}");
        }
        database.flush(None).await.unwrap();
    }
    database.close().await.unwrap();
}

#[tokio::test]
async fn a_read_of_ranges_out_of_order_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { shards: Some(1), ..Options::new(directory.path()) };
    let database = Database::open(options).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    database.apply(insert(&schema, "a", 1, 7, 1)).await.unwrap();
    let row = |at| ClusteringRange::prefix(ck(&schema, at));
    let none = ClusteringRange { start: Position::end(), end: Position::start() };
    let cases = [
        (vec![row(1), row(2)], true),
        (vec![], true),
        (vec![row(2), row(1)], false),
        (vec![row(1), row(1)], false),
        (vec![ClusteringRange::full(), row(1)], false),
        (vec![none], false),
    ];
    for (ranges, is_read) in cases {
        let slice = Slice { ranges, direction: Direction::Forward };
        let what = format!("{:?}", slice.ranges);
        let read: Result<Vec<RecordBatch>> =
            database.read(read_of(&schema, "a", slice, None)).try_collect().await;
        match read {
            Ok(_) => assert!(is_read, "{what}"),
            Err(error) => {
                assert!(!is_read && matches!(error, Error::Invalid(_)), "{what}: {error}")
            }
        }
    }
    database.close().await.unwrap();
}
