//! A time series: writers prepend to partitions, a reader asks for the newest row, the cache is
//! much smaller than the data.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use futures::{FutureExt, TryStreamExt};
use tidegate_engine::batch::RecordBatch;
use tidegate_engine::{ColumnId, Database, Direction, Partitions, ReadCommand, SchemaRef, Slice};

use super::frame::{Arguments, Row, Target};
use super::{open, partition_key, write};

const PARTITIONS: i64 = 10;
const ROWS_PER_SECOND: i64 = 20_000;
const CACHE_BYTES: usize = 4 << 20;
const MEMTABLE_BYTES: usize = 8 << 20;
/// Between two reads: ten a second of the issue, and more so that there is a 99th percentile.
const PAUSE: Duration = Duration::from_millis(5);

/// Forced evictions.
const ROUNDS: u32 = 10;

struct Sample {
    ms: f64,
    /// Whether a memtable was being flushed.
    is_flushing: bool,
}

/// Runs the rows if they are wanted.
pub async fn run(arguments: &Arguments) {
    if !arguments.wants("time series") {
        return;
    }
    let seconds = arguments.scale(5, 30) as u64;
    let directory = tempfile::tempdir().unwrap();
    let (database, schema) = open(directory.path(), CACHE_BYTES, MEMTABLE_BYTES).await;
    let stop = Arc::new(AtomicBool::new(false));
    let next = Arc::new(AtomicI64::new(0));
    let writer =
        tokio::spawn(write_series(database.clone(), schema.clone(), stop.clone(), next.clone()));
    // Every partition has rows, and some of them are in SSTables.
    while database.table_report().await.unwrap()[0].sstables < 2 {
        tokio::time::sleep(PAUSE).await;
    }
    let newest = command(&schema, Some(1), false);
    read(&database, &schema, &newest, Duration::from_millis(500)).await;
    let start = misses(&database).await;
    let part = Duration::from_secs(seconds) / ROUNDS;
    let long = read(&database, &schema, &newest, part * ROUNDS).await;
    let missed = misses(&database).await - start;
    let stats = database.row_cache_report().await.unwrap()[0].stats;
    Row {
        name: "time series, misses",
        unit: "%",
        figure: missed as f64 * 100.0 / long.len() as f64,
        baseline: None,
        target: Target::AtMost(1.0),
    }
    .print(arguments);
    Row {
        name: "time series, partition evictions",
        unit: "",
        figure: stats.partition_evictions as f64,
        baseline: Some(("row evictions", stats.evictions as f64)),
        target: Target::AtMost(0.0),
    }
    .print(arguments);
    // In turns, so that both have the same share of the machine's better and worse moments.
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        before.extend(read(&database, &schema, &newest, part).await);
        database.invalidate_cache(None).await.unwrap();
        after.extend(read(&database, &schema, &newest, part).await);
    }
    let whole = command(&schema, None, true);
    let partition = read(&database, &schema, &whole, Duration::from_secs(seconds / 5)).await;
    stop.store(true, Relaxed);
    writer.await.unwrap();
    super::flush::print_stalls(&database);
    let p = |samples: &[Sample], share: f64| percentile(samples.iter(), share);
    Row {
        name: "time series, p50 after a forced eviction",
        unit: "ms",
        figure: p(&after, 0.5),
        baseline: Some(("before", p(&before, 0.5))),
        target: Target::RatioAtMost(1.1),
    }
    .print(arguments);
    // Without those behind an eviction, of which one in a hundred goes to the disk.
    let flushing = || long.iter().chain(&before).filter(|sample| sample.is_flushing);
    let quiet = || long.iter().chain(&before).filter(|sample| !sample.is_flushing);
    assert!(flushing().count() > 0, "no read met a flush");
    Row {
        name: "time series, p99 during flushes",
        unit: "ms",
        figure: percentile(flushing(), 0.99),
        baseline: Some(("outside", percentile(quiet(), 0.99))),
        target: Target::RatioAtMost(1.3),
    }
    .print(arguments);
    Row {
        name: "time series, by whole partitions / by rows",
        unit: "x, p50",
        figure: p(&partition, 0.5) / p(&after, 0.5),
        baseline: None,
        target: Target::AtLeast(20.0),
    }
    .print(arguments);
    database.close().await.unwrap();
}

fn command(schema: &SchemaRef, row_limit: Option<usize>, past_cache: bool) -> ReadCommand {
    ReadCommand {
        schema: schema.clone(),
        partitions: Partitions::Keys(vec![]),
        slice: Slice::full(Direction::Reversed),
        columns: vec![ColumnId(1), ColumnId(2)],
        stamps: Vec::new(),
        row_limit,
        partition_limit: None,
        deadline: None,
        level: Default::default(),
        past_cache,
        filter: None,
    }
}

/// Twenty times a millisecond one row, to each partition in turn.
async fn write_series(
    database: Database,
    schema: SchemaRef,
    stop: Arc<AtomicBool>,
    next: Arc<AtomicI64>,
) {
    let mut tick = tokio::time::interval(Duration::from_millis(10));
    while !stop.load(Relaxed) {
        tick.tick().await;
        let from = next.fetch_add(ROWS_PER_SECOND / 100, Relaxed);
        let rows = from..from + ROWS_PER_SECOND / 100;
        let writes = rows.map(|row| write(&schema, row % PARTITIONS, row / PARTITIONS, row));
        database.apply_many(writes.collect()).await.unwrap();
    }
}

async fn read(
    database: &Database,
    schema: &SchemaRef,
    command: &ReadCommand,
    time: Duration,
) -> Vec<Sample> {
    let clock = database.clock().clone();
    let start = clock.monotonic_ns();
    let mut samples = Vec::new();
    while u128::from(clock.monotonic_ns() - start) < time.as_nanos() {
        tokio::time::sleep(PAUSE).await;
        let key = partition_key(schema, samples.len() as i64 % PARTITIONS);
        let id = schema.id;
        let state = move |shard: std::rc::Rc<tidegate_engine::database::Shard>| {
            async move { shard.table(id).unwrap().stats().sealed_memtables }.boxed_local()
        };
        let sealed = database.on_shard(&key, state).await.unwrap();
        let command = ReadCommand { partitions: Partitions::Keys(vec![key]), ..command.clone() };
        let begin = clock.monotonic_ns();
        let batches: Vec<RecordBatch> = database.read(command).try_collect().await.unwrap();
        let ms = (clock.monotonic_ns() - begin) as f64 / 1e6;
        assert!(batches.iter().map(RecordBatch::num_rows).sum::<usize>() > 0);
        samples.push(Sample { ms, is_flushing: sealed > 0 });
    }
    samples
}

/// Times that reads went below the row cache.
async fn misses(database: &Database) -> u64 {
    let stats = database.row_cache_report().await.unwrap()[0].stats;
    stats.gaps_read + stats.partition_misses
}

fn percentile<'a>(samples: impl Iterator<Item = &'a Sample>, share: f64) -> f64 {
    let mut all: Vec<f64> = samples.map(|sample| sample.ms).collect();
    assert!(!all.is_empty(), "nothing was measured");
    all.sort_by(f64::total_cmp);
    all[((all.len() - 1) as f64 * share) as usize]
}
