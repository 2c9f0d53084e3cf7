//! A thousand long reads at once, with little memory for reads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use futures::StreamExt;
use futures::executor::block_on;
use tidegate_engine::config::{BATCHES_BYTES_DEFAULT, READ_MEMORY_BYTES_MAX};
use tidegate_engine::{
    Cell, ColumnId, Liveness, Mutation, ReadCommand, Row as EngineRow, SchemaRef,
};

use crate::frame::table::{clustering_key, definition, partition_key};
use crate::frame::{Arguments, Row, Target, timed};
use crate::world::{World, command, rows_of};

const PARTITIONS: i64 = 16;
/// 10 MiB a partition.
const ROWS: i64 = 160;
const ROW_BYTES: usize = 64 << 10;
const READ_MIB: f64 = 10.0;
/// Times their budget that reads may hold before one is ended.
const KILL_TIMES: u64 = 4;
const CONCURRENCIES: [usize; 6] = [1, 2, 4, 8, 16, 64];
const QUICK_CONCURRENCIES: [usize; 3] = [2, 8, 32];
/// Between two looks at what reads hold.
const LOOK: Duration = Duration::from_millis(2);

fn load(world: &World) -> SchemaRef {
    let schema = block_on(world.database.create_table(definition("long"), false)).unwrap();
    for pk in 0..PARTITIONS {
        for ck in 0..ROWS {
            let mut mutation = Mutation::new(schema.id, partition_key(&schema, pk));
            let row = EngineRow {
                liveness: Some(Liveness::at(1)),
                cells: vec![(ColumnId(2), Cell::live(1, vec![b'v'; ROW_BYTES]))],
                ..EngineRow::default()
            };
            mutation.rows.push((clustering_key(&schema, ck), row));
            world.database.apply(mutation).wait().unwrap();
        }
    }
    block_on(world.database.flush(Some(schema.id))).unwrap();
    schema
}

/// Reads so many partitions whole from the disk, some at once; MiB a second of those that came
/// whole, and how many did not.
fn read(world: &World, schema: &SchemaRef, count: usize, at_once: usize) -> (f64, usize) {
    let ask = |number: usize| {
        let pk = number as i64 % PARTITIONS;
        rows_of(world.database.read(ReadCommand { past_cache: true, ..command(schema, pk) }))
    };
    let (served, time) = timed(|| {
        let reads = futures::stream::iter(0..count).map(ask).buffer_unordered(at_once);
        let served = reads.filter(|read| {
            assert!(
                read.as_ref().is_ok_and(|rows| *rows == ROWS as usize)
                    || read.as_ref().is_err_and(|error| error.is_retryable()),
                "{read:?}"
            );
            futures::future::ready(read.is_ok())
        });
        block_on(served.count())
    });
    (served as f64 * READ_MIB / time.as_secs_f64(), count - served)
}

/// Most bytes that reads of partitions held while `work` ran, as the shard counts them.
fn tracked<T>(world: &World, work: impl FnOnce() -> T) -> (T, u64) {
    let (stop, peak) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                let report = block_on(world.database.admission_report()).unwrap();
                let held = report.iter().filter(|class| class.class == "keys");
                peak.fetch_max(held.map(|class| class.status.memory_bytes).sum(), Relaxed);
                thread::sleep(LOOK);
            }
        });
        let result = work();
        stop.store(true, Relaxed);
        (result, peak.load(Relaxed))
    })
}

/// A field of what the kernel says of this process, MiB.
fn process_mib(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

/// Runs the rows if they are wanted.
pub fn print(arguments: &Arguments) {
    let count = arguments.scale(200, 1000);
    let long = |what: &str| format!("{count} reads of 10 MiB at once, {what}");
    let names = [long("rate"), long("counted"), long("process"), long("ended")];
    if !names.iter().any(|name| arguments.wants(name)) {
        return;
    }
    let world = World::open(Some(1), 16 << 20);
    let schema = load(&world);
    let all = if arguments.quick { &QUICK_CONCURRENCIES[..] } else { &CONCURRENCIES };
    let fixed = |at_once: &usize| read(&world, &schema, count / 4, *at_once).0;
    let best = all.iter().map(fixed).fold(0.0, f64::max);
    let before = process_mib("VmRSS");
    // The kernel forgets the highest mark of this process.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let ((rate, ended), peak) = tracked(&world, || read(&world, &schema, count, count));
    let process = process_mib("VmHWM") - before;
    let budget = READ_MEMORY_BYTES_MAX / 2;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let best = Some(("the best number at once", best));
    let most = Target::AtMost(mib(budget * KILL_TIMES));
    let bound = Target::AtMost(mib(budget * KILL_TIMES + BATCHES_BYTES_DEFAULT));
    let rows = [
        ("MiB/s", rate, best, Target::RatioAtLeast(0.8)),
        ("MiB", mib(peak), Some(("the budget", mib(budget))), most),
        ("MiB", process, None, bound),
        ("reads", ended as f64, None, Target::None),
    ];
    for (name, (unit, figure, baseline, target)) in names.iter().zip(rows) {
        Row { name, unit, figure, baseline, target }.print(arguments);
    }
    world.close();
}
