//! `cargo bench --bench engine`: the first slice of the engine, from durable writes to COPY.
//!
//! Writes and reads go through the public API of the library; rows have values of 100 bytes. CPU
//! time is the process's, all threads together, so background work counts.

#![expect(clippy::unwrap_used, reason = "a benchmark stops where it fails")]

#[allow(dead_code, reason = "a group uses of the frame what it needs")]
#[path = "frame/mod.rs"]
mod frame;

use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use frame::table::{VALUE_BYTES, clustering_key, definition, partition_key, write};
use frame::{Arguments, Row, Target, cpu_timed, median, print_head, timed};
use futures::future::join_all;
use futures::{FutureExt, TryStreamExt};
use tidegate::query::{Session, SessionOptions};
use tidegate_engine::batch::RecordBatch;
use tidegate_engine::clock::Random;
use tidegate_engine::database::Shard;
use tidegate_engine::mutation::{Fragment, PartitionRange};
use tidegate_engine::{
    Cell, ClusteringRange, ColumnId, Database, Direction, Durability, Options, PartitionKey,
    Partitions, Position, ReadCommand, SchemaRef, Slice, TableSchema,
};

const WRITERS: usize = 64;
const ROWS_PER_PARTITION: i64 = 100;
const REPEATS: usize = 3;
const MIB: f64 = (1 << 20) as f64;

async fn open(directory: &Path, durability: Durability) -> Database {
    let options = Options { durability, ..Options::new(directory) };
    Database::open(options).await.unwrap()
}

/// Acknowledged writes a second, in thousands, by writers that each wait for their own.
async fn durable_writes(directory: &Path, seconds: f64) -> f64 {
    let database = open(directory, Durability::Sync).await;
    let schema = database.create_table(definition("durable"), false).await.unwrap();
    let deadline = Duration::from_secs_f64(seconds);
    let clock = database.clock().clone();
    let start = clock.monotonic_ns();
    let writers = (0..WRITERS as i64).map(|writer| {
        let (database, schema, clock) = (database.clone(), schema.clone(), clock.clone());
        async move {
            let mut done = 0_u64;
            while u128::from(clock.monotonic_ns() - start) < deadline.as_nanos() {
                let ck = done as i64;
                database.apply(write(&schema, writer, ck, ck)).await.unwrap();
                done += 1;
            }
            done
        }
    });
    let done: u64 = join_all(writers).await.into_iter().sum();
    let elapsed = (clock.monotonic_ns() - start) as f64 / 1e9;
    database.close().await.unwrap();
    done as f64 / elapsed / 1000.0
}

/// Appends of 4 KiB, each made durable by itself, in thousands a second: what the disk gives to
/// writers that do not share.
fn naive_writes(directory: &Path, count: usize) -> f64 {
    let mut file = std::fs::File::create(directory.join("naive")).unwrap();
    let block = vec![7_u8; 4096];
    let ((), elapsed) = timed(|| {
        for _ in 0..count {
            file.write_all(&block).unwrap();
            file.sync_data().unwrap();
        }
    });
    count as f64 / elapsed.as_secs_f64() / 1000.0
}

/// The most that the commitlog of one shard takes on disk, MiB, and its limit, while one table is
/// written all the time and another was written once.
async fn log_beside_a_tiny_table(directory: &Path, bytes: usize) -> (f64, f64) {
    const VALUE_BYTES: usize = 16 << 10;
    const AT_ONCE: i64 = 64;
    let options = Options { shards: Some(1), ..Options::new(directory) };
    let limit = options.commitlog_bytes as f64 / MIB;
    let database = Database::open(options).await.unwrap();
    let tiny = database.create_table(definition("tiny"), false).await.unwrap();
    let hot = database.create_table(definition("hot"), false).await.unwrap();
    database.apply(write(&tiny, 1, 1, 1)).await.unwrap();
    let (mut written, mut timestamp, mut most) = (0, 0, 0.0_f64);
    while written < bytes {
        // Always the same rows, so that the SSTables stay small.
        let writes = (0..AT_ONCE).map(|ck| {
            timestamp += 1;
            let mut mutation = write(&hot, timestamp % 7, ck, timestamp);
            mutation.rows[0].1.cells[0].1 = Cell::live(timestamp, vec![b'h'; VALUE_BYTES]);
            mutation
        });
        database.apply_many(writes.collect()).await.unwrap();
        written += AT_ONCE as usize * VALUE_BYTES;
        most = most.max(folder_bytes(&directory.join("commitlog")) as f64 / MIB);
    }
    database.close().await.unwrap();
    (most, limit)
}

async fn print_log_beside_a_tiny_table(arguments: &Arguments, directory: &Path) {
    let bytes = arguments.scale(2, 20) << 30;
    let (most, limit) = log_beside_a_tiny_table(directory, bytes).await;
    Row {
        name: "commitlog beside a tiny table, most",
        unit: "MiB",
        figure: most,
        baseline: Some(("its limit", limit)),
        target: Target::RatioAtMost(1.0),
    }
    .print(arguments);
}

/// Bytes of all files below a folder.
fn folder_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => folder_bytes(&entry.path()),
        Ok(metadata) => metadata.len(),
        // A segment that went meanwhile.
        Err(_) => 0,
    };
    entries.map(size).sum()
}

/// CPU µs of a write that is acknowledged in memory; written where the data lives.
async fn unsynced_write(directory: &Path, count: usize) -> f64 {
    let database = open(directory, Durability::Periodic { ms: 10_000 }).await;
    let schema = database.create_table(definition("unsynced"), false).await.unwrap();
    let shards = i64::from(database.shard_count());
    let per_shard = count as i64 / shards;
    let ((), cpu) = cpu_timed(async {
        let work = (0..database.shard_count()).map(|shard| {
            // A key of each shard to get there; the writes are of keys that live there.
            let key = (0..).find(|pk| database.shard_of(&partition_key(&schema, *pk)) == shard);
            let (route, schema) = (partition_key(&schema, key.unwrap()), schema.clone());
            let count = database.shard_count();
            let work = move |here: Rc<Shard>| {
                async move {
                    let mut pk = 0;
                    let mut written = 0;
                    while written < per_shard {
                        pk += 1;
                        if partition_key(&schema, pk).token().shard(count) != shard {
                            continue;
                        }
                        for ck in 0..ROWS_PER_PARTITION {
                            here.apply(write(&schema, pk, ck, written)).await.unwrap();
                            written += 1;
                        }
                    }
                }
                .boxed_local()
            };
            let database = &database;
            async move { database.on_shard(&route, work).await }
        });
        join_all(work).await.into_iter().for_each(Result::unwrap);
    })
    .await;
    database.close().await.unwrap();
    cpu.as_secs_f64() * 1e6 / (per_shard * shards) as f64
}

struct Loaded {
    database: Database,
    schema: SchemaRef,
    partitions: i64,
    mirror: BTreeMap<(i64, i64), Vec<u8>>,
}

/// A table in SSTables that the cache holds whole, and the same rows in a `BTreeMap`.
async fn load(directory: &Path, partitions: i64) -> Loaded {
    let mut options = Options::new(directory);
    options.durability = Durability::None;
    options.cache_bytes = 512 << 20;
    let database = Database::open(options).await.unwrap();
    let schema = database.create_table(definition("reads"), false).await.unwrap();
    let mut mirror = BTreeMap::new();
    for pk in 0..partitions {
        let writes = (0..ROWS_PER_PARTITION).map(|ck| write(&schema, pk, ck, 1));
        database.apply_many(writes.collect()).await.unwrap();
        for ck in 0..ROWS_PER_PARTITION {
            mirror.insert((pk, ck), vec![b'v'; VALUE_BYTES]);
        }
    }
    database.flush(None).await.unwrap();
    Loaded { database, schema, partitions, mirror }
}

impl Loaded {
    /// CPU µs a read of the rows of `slice`, in random partitions, by a cursor on the shard.
    async fn cursor(&self, reads: usize, slice: impl Fn(&mut Random) -> Slice, rows: usize) -> f64 {
        let mut random = Random::new(1);
        let mut by_shard: Vec<Vec<(PartitionKey, Slice)>> =
            vec![Vec::new(); self.database.shard_count() as usize];
        for _ in 0..reads {
            let pk = random.below(self.partitions as u64) as i64;
            let key = partition_key(&self.schema, pk);
            by_shard[self.database.shard_of(&key) as usize].push((key, slice(&mut random)));
        }
        let run = |reads: Vec<Vec<(PartitionKey, Slice)>>| {
            let id = self.schema.id;
            join_all(reads.into_iter().filter(|reads| !reads.is_empty()).map(move |reads| {
                let route = reads[0].0.clone();
                let work = move |shard: Rc<Shard>| {
                    async move {
                        let table = shard.table(id).unwrap();
                        let mut fragments = VecDeque::new();
                        for (key, slice) in reads {
                            let mut source =
                                table.read(&PartitionRange::Single(key), &slice, false);
                            let mut found = 0;
                            loop {
                                source.fill(&mut fragments).await.unwrap();
                                if fragments.is_empty() {
                                    break;
                                }
                                for fragment in fragments.drain(..) {
                                    found += usize::from(matches!(
                                        fragment,
                                        Fragment::Row { .. } | Fragment::FlatRow(_)
                                    ));
                                }
                            }
                            assert_eq!(found, rows, "a read found other rows than were written");
                        }
                    }
                    .boxed_local()
                };
                async move { self.database.on_shard(&route, work).await }
            }))
        };
        // The first run fills the cache.
        run(by_shard.clone()).await.into_iter().for_each(Result::unwrap);
        let (results, cpu) = cpu_timed(run(by_shard)).await;
        results.into_iter().for_each(Result::unwrap);
        cpu.as_secs_f64() * 1e6 / reads as f64
    }

    /// CPU µs of a read whose result is an Arrow batch in the caller's thread.
    async fn batch(&self, reads: usize) -> f64 {
        let mut random = Random::new(2);
        let ((), cpu) = cpu_timed(async {
            for _ in 0..reads {
                let pk = random.below(self.partitions as u64) as i64;
                let command = ReadCommand {
                    schema: self.schema.clone(),
                    partitions: Partitions::Keys(vec![partition_key(&self.schema, pk)]),
                    slice: point(&self.schema, &mut random),
                    columns: vec![ColumnId(2)],
                    stamps: Vec::new(),
                    row_limit: None,
                    partition_limit: None,
                    deadline: None,
                    level: Default::default(),
                    past_cache: false,
                    filter: None,
                };
                let batches: Vec<RecordBatch> =
                    self.database.read(command).try_collect().await.unwrap();
                assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
            }
        })
        .await;
        cpu.as_secs_f64() * 1e6 / reads as f64
    }

    /// CPU µs of the same look-ups in the `BTreeMap`.
    async fn tree(&self, reads: usize, rows: i64) -> f64 {
        let mut random = Random::new(1);
        let ((), cpu) = cpu_timed(async {
            for _ in 0..reads {
                let pk = random.below(self.partitions as u64) as i64;
                let from =
                    if rows == 1 { random.below(ROWS_PER_PARTITION as u64) as i64 } else { 0 };
                let range = self.mirror.range((pk, from)..(pk, from + rows));
                let bytes: usize = range.map(|(_, value)| std::hint::black_box(value).len()).sum();
                assert_eq!(bytes, rows as usize * VALUE_BYTES);
            }
        })
        .await;
        cpu.as_secs_f64() * 1e6 / reads as f64
    }
}

fn point(schema: &TableSchema, random: &mut Random) -> Slice {
    let key = clustering_key(schema, random.below(ROWS_PER_PARTITION as u64) as i64);
    let range = ClusteringRange { start: Position::before(key.clone()), end: Position::after(key) };
    Slice { ranges: vec![range], direction: Direction::Forward }
}

/// Thousands of rows a second that COPY loads from a CSV file, and that the engine takes when the
/// mutations are ready made.
async fn copy(directory: &Path, rows: usize) -> (f64, f64) {
    let path = directory.join("rows.csv");
    let mut text = String::from("pk,ck,v\n");
    for row in 0..rows as i64 {
        let value = "ab".repeat(VALUE_BYTES);
        text.push_str(&format!(
            "{},{},{value}\n",
            row / ROWS_PER_PARTITION,
            row % ROWS_PER_PARTITION
        ));
    }
    std::fs::write(&path, text).unwrap();
    let database = open(&directory.join("copy"), Durability::Sync).await;
    let schema = database.create_table(definition("direct"), false).await.unwrap();
    let session = Session::new(database.clone(), SessionOptions::default()).unwrap();
    let create = "CREATE TABLE copied (pk bigint, ck bigint, v blob, PRIMARY KEY (pk, ck))";
    session.execute(create).await.unwrap();
    let clock = database.clock().clone();
    let rate = |start: u64| rows as f64 / ((clock.monotonic_ns() - start) as f64 / 1e9) / 1000.0;
    let start = clock.monotonic_ns();
    session.execute(&format!("COPY copied FROM '{}'", path.display())).await.unwrap();
    let copied = rate(start);
    let start = clock.monotonic_ns();
    let mut row = 0;
    while row < rows as i64 {
        let batch = (row..row + 1000)
            .map(|row| write(&schema, row / ROWS_PER_PARTITION, row % ROWS_PER_PARTITION, 1));
        database.apply_many(batch.collect()).await.unwrap();
        row += 1000;
    }
    let direct = rate(start);
    database.close().await.unwrap();
    (copied, direct)
}

/// Prints the rows of reads beside a `BTreeMap` of the same rows.
async fn print_reads(arguments: &Arguments, path: &Path) {
    let loaded = load(path, arguments.scale(2_000, 20_000) as i64).await;
    let reads = arguments.scale(20_000, 200_000);
    let schema = loaded.schema.clone();
    let tree = loaded.tree(reads, 1).await;
    Row {
        name: "point read, hot, cursor",
        unit: "CPU us",
        figure: loaded.cursor(reads, |random| point(&schema, random), 1).await,
        baseline: Some(("BTreeMap", tree)),
        target: Target::None,
    }
    .print(arguments);
    Row {
        name: "point read, hot, Arrow batch",
        unit: "CPU us",
        figure: loaded.batch(reads / 4).await,
        baseline: Some(("BTreeMap", tree)),
        target: Target::None,
    }
    .print(arguments);
    let slices = reads / 10;
    let all = ROWS_PER_PARTITION as usize;
    let forward = loaded.cursor(slices, |_| Slice::full(Direction::Forward), all).await;
    Row {
        name: "slice of 100, forward",
        unit: "CPU us",
        figure: forward,
        baseline: Some(("BTreeMap", loaded.tree(slices, ROWS_PER_PARTITION).await)),
        target: Target::None,
    }
    .print(arguments);
    Row {
        name: "slice of 100, reversed",
        unit: "CPU us",
        figure: loaded.cursor(slices, |_| Slice::full(Direction::Reversed), all).await,
        baseline: Some(("forward", forward)),
        target: Target::RatioAtMost(1.25),
    }
    .print(arguments);
    loaded.database.close().await.unwrap();
}

fn main() {
    let arguments = Arguments::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.unwrap().block_on(run(&arguments));
}

async fn run(arguments: &Arguments) {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str, n: usize| directory.path().join(format!("{name}-{n}"));
    print_head(arguments);
    if arguments.wants("durable writes") {
        let seconds = if arguments.quick { 2.0 } else { 10.0 };
        let mut rates = Vec::new();
        let mut naive = Vec::new();
        for n in 0..REPEATS {
            naive.push(naive_writes(directory.path(), arguments.scale(100, 500)));
            rates.push(durable_writes(&place("durable", n), seconds).await);
        }
        Row {
            name: "durable writes, 64 writers",
            unit: "k/s",
            figure: median(rates),
            baseline: Some(("one fdatasync a write", median(naive))),
            target: Target::AtLeast(20.0),
        }
        .print(arguments);
    }
    if arguments.wants("unsynced write") {
        let count = arguments.scale(300_000, 2_000_000);
        let mut costs = Vec::new();
        for n in 0..REPEATS {
            costs.push(unsynced_write(&place("unsynced", n), count).await);
        }
        Row {
            name: "unsynced write",
            unit: "CPU us",
            figure: median(costs),
            baseline: None,
            target: Target::AtMost(3.0),
        }
        .print(arguments);
    }
    if arguments.wants("commitlog beside a tiny table") {
        print_log_beside_a_tiny_table(arguments, &place("log", 0)).await;
    }
    if ["point read", "slice of 100"].iter().any(|name| arguments.wants(name)) {
        print_reads(arguments, &place("reads", 0)).await;
    }
    if arguments.wants("COPY") {
        let rows = arguments.scale(50_000, 500_000);
        let path = place("copy", 0);
        std::fs::create_dir(&path).unwrap();
        let (copied, direct) = copy(&path, rows).await;
        Row {
            name: "COPY FROM csv, synced",
            unit: "k rows/s",
            figure: copied,
            baseline: Some(("apply_many, no parsing", direct)),
            target: Target::None,
        }
        .print(arguments);
    }
}
