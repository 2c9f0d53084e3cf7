//! Scans through a cache that a flush filled and that has lost a part since, beside scans past it:
//! what a scan of the empty table, a load and a flush leave.

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

const RECIPES: [Recipe; 2] = [
    // Orders with their lines.
    Recipe { name: "scan through the cache / past it, orders", rows_of_each: 4, value_bytes: 120 },
    Recipe {
        name: "scan through the cache / past it, wide rows",
        rows_of_each: 1,
        value_bytes: 300,
    },
];

/// Runs the rows if they are wanted.
pub async fn run(arguments: &Arguments) {
    for recipe in RECIPES.iter().filter(|recipe| arguments.wants(recipe.name)) {
        run_one(arguments, recipe).await;
    }
}

async fn run_one(arguments: &Arguments, recipe: &Recipe) {
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
    let (mut through, mut past) = (Vec::new(), Vec::new());
    // In turns, so that both have the same share of the machine's better and worse moments.
    for _ in 0..ROUNDS {
        for (past_cache, times) in [(false, &mut through), (true, &mut past)] {
            let (found, ms) = scan(&database, &schema, past_cache).await;
            assert_eq!(found, rows as usize, "past the cache: {past_cache}");
            times.push(ms);
        }
    }
    Row {
        name: recipe.name,
        unit: "ms",
        figure: median(through),
        baseline: Some(("past it", median(past))),
        target: Target::RatioAtMost(1.2),
    }
    .print(arguments);
    database.close().await.unwrap();
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
        row_limit: None,
        past_cache,
    };
    let clock = database.clock().clone();
    let start = clock.monotonic_ns();
    let batches: Vec<RecordBatch> = database.read(command).try_collect().await.unwrap();
    let ms = (clock.monotonic_ns() - start) as f64 / 1e6;
    (batches.iter().map(RecordBatch::num_rows).sum(), ms)
}
