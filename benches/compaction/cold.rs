//! Point reads of rows that are on the disk: a cache that holds a small part of them.

use futures::executor::block_on;
use futures::{StreamExt, stream};
use tidegate_engine::clock::Random;
use tidegate_engine::{
    Cell, ColumnId, CompactionOptions, Database, Durability, Mutation, Options, SchemaRef,
};

use crate::frame::table::{VALUE_BYTES, write};
use crate::frame::{Arguments, Row, Target, cpu_timed, median, wall};
use crate::world::{self, ROWS_PER_PARTITION};

const NAME: &str = "cold point read, 16 in flight";
const ALONE: &str = "cold point read, one at a time";
const CACHE_BYTES: usize = 64 << 20;
const IN_FLIGHT: usize = 16;
const REPEATS: usize = 3;
/// Rows of one call.
const BATCH: usize = 1000;

/// An INSERT whose value compresses by half.
fn row(schema: &SchemaRef, row: i64, random: &mut Random) -> Mutation {
    let mut mutation = write(schema, row / ROWS_PER_PARTITION, row % ROWS_PER_PARTITION, 1);
    let mut value = vec![b'v'; VALUE_BYTES];
    for bytes in value[..VALUE_BYTES / 2].chunks_exact_mut(8) {
        bytes.copy_from_slice(&random.below(u64::MAX).to_ne_bytes());
    }
    mutation.rows[0].1.cells = vec![(ColumnId(2), Cell::live(1, value))];
    mutation
}

/// Reads rows at random: CPU µs and wall µs of one.
fn read(database: &Database, of: (&SchemaRef, i64), count: usize, at_once: usize) -> (f64, f64) {
    let ((schema, rows), mut random) = (of, Random::new(count as u64));
    let key = |_| world::key(schema, random.below(rows as u64) as i64);
    let keys: Vec<_> = (0..count).map(key).collect();
    let start = wall();
    let ((), cpu) = block_on(cpu_timed(async {
        let reads = keys.into_iter().map(|key| database.get(schema, key));
        let mut reads = stream::iter(reads).buffer_unordered(at_once);
        while let Some(row) = reads.next().await {
            assert!(row.unwrap().is_some());
        }
    }));
    let each = |time: std::time::Duration| time.as_secs_f64() * 1e6 / count as f64;
    (each(cpu), each(wall() - start))
}

pub fn print(arguments: &Arguments) {
    if !(arguments.wants(NAME) || arguments.wants(ALONE)) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let options = || Options {
        durability: Durability::Periodic { ms: 1_000 },
        cache_bytes: CACHE_BYTES,
        ..Options::new(directory.path())
    };
    let rows = arguments.scale(1_000_000, 7_000_000) as i64;
    let database = block_on(Database::open(options())).unwrap();
    let schema = world::create(&database, "rows", CompactionOptions::default());
    let mut random = Random::new(7);
    let all: Vec<i64> = (0..rows).collect();
    for part in all.chunks(BATCH) {
        let part = part.iter().map(|at| row(&schema, *at, &mut random)).collect();
        database.apply_many(part).wait().unwrap();
    }
    world::flush(&database);
    block_on(database.compact(schema.id)).unwrap();
    block_on(database.close()).unwrap();
    let database = block_on(Database::open(options())).unwrap();
    let of = (&schema, rows);
    // The cache is full of what reads brought in.
    let reads = arguments.scale(40_000, 200_000);
    read(&database, of, reads, IN_FLIGHT);
    for (name, at_once, bound) in
        [(NAME, IN_FLIGHT, Target::AtMost(15.0)), (ALONE, 1, Target::None)]
    {
        let rounds = (1..=REPEATS).map(|round| read(&database, of, reads / 4 + round, at_once));
        let (cpu, wall): (Vec<f64>, Vec<f64>) = rounds.unzip();
        let (figure, baseline) = (median(cpu), Some(("wall", median(wall))));
        Row { name, unit: "CPU us", figure, baseline, target: bound }.print(arguments);
    }
    block_on(database.close()).unwrap();
}
