//! A flush of large partitions into a cache that knows them.

use std::cell::Cell;
use std::panic::Location;
use std::rc::Rc;

use futures::FutureExt;
use futures::executor::block_on;
use futures::future::ready;
use tidegate_engine::SchemaRef;
use tidegate_engine::cache::{PageCache, RowCache, RowFuture, Underlying};
use tidegate_engine::commitlog::ReplayPosition;
use tidegate_engine::memtable::Memtable;
use tidegate_engine::mutation::{FragmentSource, PartitionRange};
use tidegate_engine::{ClusteringKey, Direction, PartitionKey, Slice};

use super::frame::{Arguments, Row, Target, timed};
use super::{definition, open, partition_key, write};

const PARTITIONS: i64 = 10;

/// Runs the row if it is wanted.
pub async fn run(arguments: &Arguments) {
    if !arguments.wants("flush into the cache") {
        return;
    }
    let rows = arguments.scale(20_000, 100_000) as i64;
    let whole = one_piece(rows);
    let directory = tempfile::tempdir().unwrap();
    let (database, schema) = open(directory.path(), 4 << 30, 4 << 30).await;
    // What is known, so that the flush has where to go: partitions that are absent.
    for pk in 0..PARTITIONS {
        let key = partition_key(&schema, pk);
        let read = tidegate_engine::ReadCommand {
            schema: schema.clone(),
            partitions: tidegate_engine::Partitions::Keys(vec![key]),
            slice: Slice::full(Direction::Forward),
            columns: vec![],
            stamps: Vec::new(),
            row_limit: None,
            partition_limit: None,
            deadline: None,
            level: Default::default(),
            past_cache: false,
            filter: None,
        };
        let batches: Vec<_> =
            futures::TryStreamExt::try_collect(database.read(read)).await.unwrap();
        assert!(batches.is_empty());
    }
    for pk in 0..PARTITIONS {
        for from in (0..rows).step_by(1000) {
            let writes = (from..from + 1000).map(|ck| write(&schema, pk, ck, 1));
            database.apply_many(writes.collect()).await.unwrap();
        }
    }
    let before = longest(&database, "flush");
    database.flush(None).await.unwrap();
    // What is freed after the flush counts as well.
    database.flush(None).await.unwrap();
    let merged = database.row_cache_report().await.unwrap()[0].stats.rows_merged;
    assert_eq!(merged as i64, PARTITIONS * rows, "all of it went into the cache");
    let after = longest(&database, "flush");
    eprintln!("longest stretch before the flush {before:.3} ms");
    print_stalls(&database);
    Row {
        name: "flush into the cache, longest stretch",
        unit: "ms",
        figure: after,
        baseline: Some(("merge in one piece", whole)),
        target: Target::AtMost(1.0),
    }
    .print(arguments);
    // All of it is forgotten, and freed in turns.
    database.invalidate_cache(None).await.unwrap();
    Row {
        name: "invalidation, longest stretch",
        unit: "ms",
        figure: longest(&database, "invalidate cache"),
        baseline: Some(("rows", (PARTITIONS * rows) as f64)),
        target: Target::AtMost(1.0),
    }
    .print(arguments);
    database.close().await.unwrap();
}

/// Where the longest stretches were.
pub fn print_stalls(database: &tidegate_engine::Database) {
    let mut stalls = database.stalls();
    stalls.sort_by_key(|(_, stall)| std::cmp::Reverse(stall.longest_ns));
    eprintln!("the longest turns of all tasks:");
    let place = |at: Option<&'static Location<'static>>| {
        at.map_or("-".to_owned(), |at| format!("{}:{}", at.file(), at.line()))
    };
    for (_, stall) in stalls.iter().take(8) {
        let ms = |ns: u64| ns as f64 / 1e6;
        eprintln!(
            "  {}: {} to {}: {} times, longest {:.3} ms, together {:.1}, of it {:.1} off the processor",
            stall.task,
            place(stall.stretch.after),
            place(stall.stretch.before),
            stall.count,
            ms(stall.longest_ns),
            ms(stall.total_ns),
            ms(stall.off_cpu_ns),
        );
    }
}

/// The longest time that a task held the thread, ms; the quota where it never held it longer.
fn longest(database: &tidegate_engine::Database, task: &str) -> f64 {
    let stalls = database.stalls();
    let own = stalls.iter().filter(|(_, stall)| stall.task == task);
    own.map(|(_, stall)| stall.longest_ns).max().unwrap_or(500_000) as f64 / 1e6
}

struct Nothing;

impl FragmentSource for Nothing {
    fn fill<'a>(
        &'a mut self,
        _out: &'a mut std::collections::VecDeque<tidegate_engine::mutation::Fragment>,
    ) -> futures::future::LocalBoxFuture<'a, tidegate_engine::Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn skip_partition(&mut self) {
        unreachable!("no partition is open");
    }
}

impl Underlying for Nothing {
    fn read(&self, _range: &PartitionRange, _slice: &Slice) -> Box<dyn FragmentSource> {
        Box::new(Nothing)
    }

    fn read_row(
        &self,
        _partition: &Rc<PartitionKey>,
        _row: ClusteringKey,
        _front: bool,
    ) -> RowFuture {
        ready(Ok(None)).boxed_local()
    }

    fn rows_per_opening(&self, _range: &PartitionRange) -> usize {
        1
    }

    fn entries(&self) -> usize {
        0
    }
}

/// ms that the merge takes where nothing interrupts it: outside of a shard nothing yields.
fn one_piece(rows: i64) -> f64 {
    let schema = SchemaRef::new(definition());
    let pages = PageCache::new(4 << 30, 1);
    let cache = RowCache::new(pages, schema.clone());
    let memtable = Memtable::new(Rc::new(Cell::new(0)));
    let all = Slice::full(Direction::Forward);
    for pk in 0..PARTITIONS {
        let key = partition_key(&schema, pk);
        let mut source = cache.read(&key, &all, Rc::new(Nothing), 0);
        let mut fragments = std::collections::VecDeque::new();
        block_on(source.fill(&mut fragments)).unwrap();
        for ck in 0..rows {
            let offset = u32::try_from(pk * rows + ck + 1).unwrap();
            let position = ReplayPosition { segment: 1, offset };
            memtable.begin_write(position, write(&schema, pk, ck, 1)).apply();
        }
    }
    cache.begin_generation(1);
    let merge = async {
        let mut last = None;
        while let Some(key) = memtable.next_key(last.as_deref()) {
            let source = || memtable.read(&PartitionRange::Single((*key).clone()), &all);
            cache.merge(&key, source, 1).await;
            last = Some(key);
        }
    };
    let ((), elapsed) = timed(|| block_on(merge));
    assert_eq!(cache.stats().rows_merged as i64, PARTITIONS * rows);
    elapsed.as_secs_f64() * 1e3
}
