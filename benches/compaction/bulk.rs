//! Bulk loads: the processor time of a row that goes through `apply_many`.

use futures::executor::block_on;
use tidegate_engine::{CompactionOptions, Mutation};

use crate::frame::table::write;
use crate::frame::{Arguments, Row, Target, cpu_timed, median};
use crate::world::{self, ROWS_PER_PARTITION};

const NAME: &str = "bulk load, CPU a row of 100 bytes";
/// Rows of one call.
const BATCH: i64 = 1000;
const REPEATS: i64 = 3;

pub fn print(arguments: &Arguments) {
    if !arguments.wants(NAME) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let database = world::open(directory.path());
    let schema = world::create(&database, "bulk", CompactionOptions::default());
    let rows = arguments.scale(200_000, 1_000_000) as i64;
    let load = |round: i64| {
        let from = round * rows;
        let batch = |at: i64| {
            let write =
                |row: i64| write(&schema, row / ROWS_PER_PARTITION, row % ROWS_PER_PARTITION, 1);
            (at * BATCH..(at + 1) * BATCH).map(write).collect::<Vec<Mutation>>()
        };
        let batches: Vec<_> = (from / BATCH..(from + rows) / BATCH).map(batch).collect();
        // With all that it brings about: log, flushes and compactions.
        let work = async {
            for batch in batches {
                database.apply_many(batch).await.unwrap();
            }
        };
        let ((), cpu) = block_on(cpu_timed(work));
        cpu.as_secs_f64() * 1e6 / rows as f64
    };
    let figure = median((0..REPEATS).map(load).collect());
    Row { name: NAME, unit: "CPU us", figure, baseline: None, target: Target::AtMost(1.0) }
        .print(arguments);
    block_on(database.close()).unwrap();
}
