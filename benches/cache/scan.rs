//! Scans through the cache beside scans past it, whatever the cache knows: what a scan of the empty
//! table, a load and a flush leave, nothing, and what one scan or some brought in.

use std::time::Duration;

use futures::TryStreamExt;
use tidegate_engine::batch::RecordBatch;
use tidegate_engine::{
    Cell, ColumnId, Database, Direction, Mutation, Partitions, ReadCommand, SchemaRef, Slice,
};

use super::frame::{Arguments, Row, Target, median};
use super::{open, write};

/// The default of the program.
const CACHE_BYTES: usize = tidegate_engine::config::CACHE_BYTES_DEFAULT;
const MEMTABLE_BYTES: usize = tidegate_engine::config::MEMTABLE_BYTES_DEFAULT;
const WRITES_AT_ONCE: i64 = 1000;
const ROUNDS: usize = 5;

/// How rows are spread.
struct Recipe {
    name: &'static str,
    rows_of_each: i64,
    value_bytes: usize,
}

const RECIPES: [Recipe; 3] = [
    // Orders with their lines.
    Recipe { name: "orders", rows_of_each: 4, value_bytes: 120 },
    Recipe { name: "wide rows", rows_of_each: 1, value_bytes: 300 },
    Recipe { name: "one partition", rows_of_each: i64::MAX, value_bytes: 120 },
];

/// What the cache knows before a scan.
#[derive(Clone, Copy, PartialEq)]
enum State {
    /// What a flush left, and the scans before.
    Flushed,
    /// Nothing: the first scan after a start.
    Empty,
    /// What the first scan brought in.
    ScannedOnce,
    /// What some scans brought in: a part of the rows.
    ScannedSome,
    /// What more scans brought in.
    ScannedOften,
}

const STATES: [(State, &str); 5] = [
    (State::Flushed, "scan through the cache / past it"),
    (State::Empty, "first scan through the cache / past it"),
    (State::ScannedOnce, "second scan through the cache / past it"),
    (State::ScannedSome, "fourth scan through the cache / past it"),
    (State::ScannedOften, "seventh scan through the cache / past it"),
];

/// Runs the rows if they are wanted.
pub async fn run(arguments: &Arguments) {
    for recipe in &RECIPES {
        let names = STATES.map(|(state, name)| (state, format!("{name}, {}", recipe.name)));
        if names.iter().any(|(_, name)| arguments.wants(name)) {
            run_one(arguments, recipe, &names).await;
        }
    }
}

async fn run_one(arguments: &Arguments, recipe: &Recipe, rows_wanted: &[(State, String)]) {
    let rows = arguments.scale(200_000, 600_000) as i64;
    let directory = tempfile::tempdir().unwrap();
    let (database, schema) = open(directory.path(), CACHE_BYTES, MEMTABLE_BYTES).await;
    let empty = scan(&database, &schema, false).await;
    assert_eq!(empty.0, 0, "the cache learns that there is nothing");
    let mut row = 0;
    while row < rows {
        let until = rows.min(row + WRITES_AT_ONCE);
        let writes = (row..until).map(|row| line(&schema, recipe, row));
        database.apply_many(writes.collect()).await.unwrap();
        row = until;
    }
    database.flush(None).await.unwrap();
    for (state, name) in rows_wanted.iter().filter(|(_, name)| arguments.wants(name)) {
        let (mut through, mut past) = (Vec::new(), Vec::new());
        // In turns, so that both have the same share of the machine's better and worse moments.
        for _ in 0..ROUNDS {
            prepare(&database, &schema, *state).await;
            for (past_cache, times) in [(false, &mut through), (true, &mut past)] {
                let (found, ms) = scan(&database, &schema, past_cache).await;
                assert_eq!(found, rows as usize, "past the cache: {past_cache}");
                times.push(ms);
            }
        }
        let (figure, past) = (median(through), median(past));
        let (unit, target) = ("ms", Target::RatioAtMost(1.2));
        Row { name, unit, figure, baseline: Some(("past it", past)), target }.print(arguments);
    }
    database.close().await.unwrap();
}

/// Makes what the cache is to know.
async fn prepare(database: &Database, schema: &SchemaRef, state: State) {
    let scans = match state {
        State::Flushed => return,
        State::Empty => 0,
        State::ScannedOnce => 1,
        State::ScannedSome => 3,
        State::ScannedOften => 6,
    };
    database.invalidate_cache(None).await.unwrap();
    // The shard frees what it forgot in the background.
    while database.row_cache_report().await.unwrap().iter().any(|report| report.stats.bytes > 0) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for _ in 0..scans {
        scan(database, schema, false).await;
    }
}

fn line(schema: &SchemaRef, recipe: &Recipe, row: i64) -> Mutation {
    let mut mutation = write(schema, row / recipe.rows_of_each, row % recipe.rows_of_each, row);
    let value = vec![b'x'; recipe.value_bytes];
    mutation.rows[0].1.cells[0].1 = Cell::live(row, value);
    mutation
}

/// Rows of the whole table, and how long that took, ms.
async fn scan(database: &Database, schema: &SchemaRef, past_cache: bool) -> (usize, f64) {
    let command = ReadCommand {
        schema: schema.clone(),
        partitions: Partitions::Shard(0),
        slice: Slice::full(Direction::Forward),
        columns: vec![ColumnId(0)],
        stamps: Vec::new(),
        row_limit: None,
        partition_limit: None,
        deadline: None,
        level: Default::default(),
        past_cache,
        filter: None,
    };
    let clock = database.clock().clone();
    let start = clock.monotonic_ns();
    let batches: Vec<RecordBatch> = database.read(command).try_collect().await.unwrap();
    let ms = (clock.monotonic_ns() - start) as f64 / 1e6;
    (batches.iter().map(RecordBatch::num_rows).sum(), ms)
}
