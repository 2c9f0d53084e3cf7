//! Single rows through the row cache, known there or not, are what a read past all caches gives.

use super::*;
use crate::clock::Random;
use crate::commitlog::Durability;

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
