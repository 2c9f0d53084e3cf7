//! Point reads over data that is many times the cache, with several of them on their way at once.

use std::collections::VecDeque;
use std::rc::Rc;

use futures::stream::{self, StreamExt};
use futures::{FutureExt, future::join_all};
use tidegate_engine::clock::Random;
use tidegate_engine::database::Shard;
use tidegate_engine::mutation::{Filled, PartitionRange};
use tidegate_engine::{Cell, Database, Direction, Durability, Options, SchemaRef, Slice};

use super::frame::{Arguments, Row, Target, cpu_timed};
use super::{definition, partition_key, row_of, write};

const ROWS_PER_PARTITION: i64 = 10;
const BYTES: usize = 1000;
const IN_FLIGHT: usize = 32;

/// Runs the rows if they are wanted.
pub async fn run(arguments: &Arguments) {
    if !arguments.wants("point read, cache of 1/16") {
        return;
    }
    let shards = std::thread::available_parallelism().map_or(1, |count| count.get().min(2));
    let partitions = arguments.scale(10_000, 100_000) as i64;
    let reads = arguments.scale(20_000, 200_000);
    let data_bytes = partitions as usize * ROWS_PER_PARTITION as usize * BYTES;
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        durability: Durability::None,
        shards: Some(shards as u32),
        cache_bytes: data_bytes / 16 / shards,
        memtable_bytes: 64 << 20,
        ..Options::new(directory.path())
    };
    let database = Database::open(options).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    for from in (0..partitions).step_by(100) {
        let keys = from..(from + 100).min(partitions);
        let rows = keys.flat_map(|pk| (0..ROWS_PER_PARTITION).map(move |ck| (pk, ck)));
        let writes = rows.map(|(pk, ck)| {
            let mut mutation = write(&schema, pk, ck, 1);
            mutation.rows[0].1.cells[0].1 = Cell::live(1, vec![b'v'; BYTES]);
            mutation
        });
        database.apply_many(writes.collect()).await.unwrap();
    }
    database.flush(None).await.unwrap();
    let bench = Bench { database, schema, partitions, shards };
    // Until the cache is full, and then what counts.
    bench.read(reads / 2, 1).await;
    let clock = bench.database.clock().clone();
    let start = clock.monotonic_ns();
    let ((), cpu) = cpu_timed(bench.read(reads, 2)).await;
    let seconds = (clock.monotonic_ns() - start) as f64 / 1e9;
    Row {
        name: "point read, cache of 1/16, 32 in flight",
        unit: "k/s",
        figure: reads as f64 / seconds / 1e3,
        baseline: None,
        target: Target::AtLeast(50.0),
    }
    .print(arguments);
    Row {
        name: "point read, cache of 1/16, CPU",
        unit: "us a read",
        figure: cpu.as_secs_f64() * 1e6 / reads as f64,
        baseline: None,
        target: Target::AtMost(12.0),
    }
    .print(arguments);
    let caches = bench.database.cache_report().await.unwrap();
    let over = caches.iter().map(|cache| cache.bytes as f64 / cache.capacity_bytes as f64);
    Row {
        name: "point read, cache of 1/16, bytes / budget",
        unit: "",
        figure: over.fold(0.0, f64::max),
        baseline: None,
        target: Target::AtMost(1.02),
    }
    .print(arguments);
    bench.database.close().await.unwrap();
}

struct Bench {
    database: Database,
    schema: SchemaRef,
    partitions: i64,
    shards: usize,
}

impl Bench {
    /// Reads random rows, each on the shard that owns it.
    async fn read(&self, count: usize, seed: u64) {
        let mut random = Random::new(seed);
        let mut lists: Vec<Vec<(PartitionRange, Slice)>> = vec![Vec::new(); self.shards];
        for _ in 0..count {
            let key = partition_key(&self.schema, random.below(self.partitions as u64) as i64);
            let range = row_of(&self.schema, random.below(ROWS_PER_PARTITION as u64) as i64);
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
