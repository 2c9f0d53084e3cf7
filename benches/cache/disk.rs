//! Point reads over data that is many times the cache, with several of them on their way at once:
//! of wide partitions with an index of their rows, and of short ones, which are read whole.
//!
//! Beside them stands what the disk gives in the same run: as many direct reads of as many bytes as
//! a point read has to bring, from the same files, as many of them in flight, through the engine's
//! disk layer and nothing else.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use futures::stream::{self, StreamExt};
use futures::{FutureExt, future::join_all};
use tidegate_engine::clock::Random;
use tidegate_engine::config::PAGE_BYTES;
use tidegate_engine::database::Shard;
use tidegate_engine::disk::{AlignedBuffer, Backend, OpenOptions};
use tidegate_engine::mutation::{Filled, PartitionRange};
use tidegate_engine::{Cell, Database, Direction, Durability, Options, SchemaRef, Slice};

use super::frame::{Arguments, Row, Target, cpu_timed};
use super::{definition, partition_key, row_of, write};

const BYTES: usize = 1000;
const IN_FLIGHT: usize = 32;
/// What the baseline is.
const RAW: &str = "direct reads of as much";

/// How the rows lie.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    rows_per_partition: i64,
    column_index_bytes: u32,
    /// Bytes that hold a row that is read: a block of the index, or the partition.
    piece_bytes: u64,
}

const SHAPES: [Shape; 2] = [
    Shape {
        name: "wide partitions, cache of 1/16",
        rows_per_partition: 1000,
        column_index_bytes: 4 << 10,
        piece_bytes: 4 << 10,
    },
    Shape {
        name: "short partitions, cache of 1/16",
        rows_per_partition: 10,
        column_index_bytes: 64 << 10,
        piece_bytes: 10 << 10,
    },
];

/// Runs the rows if they are wanted.
pub async fn run(arguments: &Arguments) {
    for shape in SHAPES {
        if arguments.wants(shape.name) {
            run_shape(arguments, shape).await;
        }
    }
}

async fn run_shape(arguments: &Arguments, shape: Shape) {
    let shards = std::thread::available_parallelism().map_or(1, |count| count.get().min(2));
    let rows = arguments.scale(100_000, 1_000_000) as i64;
    let reads = arguments.scale(20_000, 200_000);
    let data_bytes = rows as usize * BYTES;
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        durability: Durability::None,
        shards: Some(shards as u32),
        cache_bytes: data_bytes / 16 / shards,
        memtable_bytes: 64 << 20,
        ..Options::new(directory.path())
    };
    let database = Database::open(options).await.unwrap();
    let mut table = definition();
    table.options.column_index_bytes = shape.column_index_bytes;
    let schema = database.create_table(table, false).await.unwrap();
    for from in (0..rows).step_by(1000) {
        let writes = (from..(from + 1000).min(rows)).map(|row| {
            let (pk, ck) = (row / shape.rows_per_partition, row % shape.rows_per_partition);
            let mut mutation = write(&schema, pk, ck, 1);
            mutation.rows[0].1.cells[0].1 = Cell::live(1, vec![b'v'; BYTES]);
            mutation
        });
        database.apply_many(writes.collect()).await.unwrap();
    }
    database.flush(None).await.unwrap();
    let bench = Bench { database, schema, rows, shape, shards };
    // Until the cache is full, and then what counts.
    bench.read(reads / 2, 1).await;
    let clock = bench.database.clock().clone();
    let start = clock.monotonic_ns();
    let ((), cpu) = cpu_timed(bench.read(reads, 2)).await;
    let seconds = (clock.monotonic_ns() - start) as f64 / 1e9;
    let files = data_files(directory.path());
    let start = clock.monotonic_ns();
    let work = async { read_raw(&files, shape.piece_bytes, reads, shards) };
    let ((), raw_cpu) = cpu_timed(work).await;
    let raw_seconds = (clock.monotonic_ns() - start) as f64 / 1e9;
    Row {
        name: &format!("point read, {}", shape.name),
        unit: "k/s",
        figure: reads as f64 / seconds / 1e3,
        baseline: Some((RAW, reads as f64 / raw_seconds / 1e3)),
        target: Target::AtLeast(50.0),
    }
    .print(arguments);
    Row {
        name: &format!("point read, {}, CPU", shape.name),
        unit: "us a read",
        figure: cpu.as_secs_f64() * 1e6 / reads as f64,
        baseline: Some((RAW, raw_cpu.as_secs_f64() * 1e6 / reads as f64)),
        target: Target::AtMost(12.0),
    }
    .print(arguments);
    let caches = bench.database.cache_report().await.unwrap();
    let over = caches.iter().map(|cache| cache.bytes as f64 / cache.capacity_bytes as f64);
    Row {
        name: &format!("point read, {}, bytes / budget", shape.name),
        unit: "",
        figure: over.fold(0.0, f64::max),
        baseline: None,
        target: Target::AtMost(1.02),
    }
    .print(arguments);
    bench.database.close().await.unwrap();
}

/// The files of data under a directory, with their sizes.
fn data_files(directory: &Path) -> Vec<(PathBuf, u64)> {
    let (mut directories, mut files) = (vec![directory.to_owned()], Vec::new());
    while let Some(directory) = directories.pop() {
        for entry in directory.read_dir().unwrap() {
            let (entry, path) =
                entry.map(|entry| (entry.metadata().unwrap(), entry.path())).unwrap();
            if entry.is_dir() {
                directories.push(path);
            } else if path.to_string_lossy().ends_with("-Data.db") {
                files.push((path, entry.len()));
            }
        }
    }
    files
}

/// Reads pieces of so many bytes of the files, at random places, and all pages that they lie on; on
/// as many threads as there are shards.
fn read_raw(files: &[(PathBuf, u64)], bytes: u64, count: usize, threads: usize) {
    let read = |seed: u64| {
        tidegate_engine::disk::run(Backend::Auto, |disk, _| async move {
            let mut open = Vec::new();
            for (path, size) in files {
                open.push((disk.open(path, OpenOptions::READ).await.unwrap(), *size));
            }
            let (mut random, page) = (Random::new(seed), PAGE_BYTES as u64);
            let places: Vec<_> = (0..count / threads)
                .map(|_| {
                    let (file, size) = &open[random.below(open.len() as u64) as usize];
                    let at = random.below(size.saturating_sub(bytes).max(1));
                    let from = at / page * page;
                    (file, from, (at + bytes).next_multiple_of(page) - from)
                })
                .collect();
            let reads = places.into_iter().map(|(file, from, bytes)| async move {
                let buffer = AlignedBuffer::for_reading(bytes as usize);
                let (result, buffer) = file.read_at(from, buffer).await;
                result.unwrap();
                assert!(!buffer.is_empty(), "within the file");
            });
            stream::iter(reads).buffer_unordered(IN_FLIGHT / threads).collect::<()>().await;
        })
        .unwrap();
    };
    std::thread::scope(|scope| {
        for seed in 0..threads as u64 {
            std::thread::Builder::new().spawn_scoped(scope, move || read(seed)).unwrap();
        }
    });
}

struct Bench {
    database: Database,
    schema: SchemaRef,
    rows: i64,
    shape: Shape,
    shards: usize,
}

impl Bench {
    /// Reads random rows, each on the shard that owns it.
    async fn read(&self, count: usize, seed: u64) {
        let mut random = Random::new(seed);
        let mut lists: Vec<Vec<(PartitionRange, Slice)>> = vec![Vec::new(); self.shards];
        for _ in 0..count {
            let row = random.below(self.rows as u64) as i64;
            let key = partition_key(&self.schema, row / self.shape.rows_per_partition);
            let range = row_of(&self.schema, row % self.shape.rows_per_partition);
            let slice = Slice { ranges: vec![range], direction: Direction::Forward };
            let shard = self.database.shard_of(&key) as usize;
            lists[shard].push((PartitionRange::Single(key), slice));
        }
        let (id, in_flight) = (self.schema.id, IN_FLIGHT / self.shards);
        let calls = lists.into_iter().filter_map(|list| {
            let PartitionRange::Single(route) = list.first()?.0.clone() else { return None };
            let work = move |shard: Rc<Shard>| {
                async move {
                    let table = shard.table(id).unwrap();
                    let reads = stream::iter(list).map(|(range, slice)| {
                        let mut source = table.read(&range, &slice, false);
                        async move {
                            let mut fragments = VecDeque::new();
                            loop {
                                let before = fragments.len();
                                if source.fill_now(&mut fragments) == Filled::Waits {
                                    source.fill(&mut fragments).await.unwrap();
                                }
                                if fragments.len() == before {
                                    break;
                                }
                            }
                            assert_eq!(fragments.len(), 3, "a partition with its row");
                        }
                    });
                    reads.buffer_unordered(in_flight).collect::<()>().await;
                }
                .boxed_local()
            };
            Some(async move { self.database.on_shard(&route, work).await.unwrap() })
        });
        join_all(calls).await;
    }
}
