//! A scan beside a hot set, in the row cache of a real engine: point reads by a Zipf law over
//! 60,000 rows, and between them 300,000 rows that are read once.

use std::path::Path;
use std::rc::Rc;

use futures::FutureExt;
use tidegate_engine::clock::Random;
use tidegate_engine::database::Shard;
use tidegate_engine::mutation::{Fragment, PartitionRange};
use tidegate_engine::{
    ClusteringRange, Database, Direction, Durability, Options, PartitionKey, SchemaRef, Slice,
};

use super::component;
use super::frame::table::{clustering_key, definition, partition_key, write};
use super::frame::{Arguments, Row, Target};

const HOT_PARTITIONS: i64 = 600;
const HOT_ROWS: i64 = 100;
const SCANNED_PARTITIONS: i64 = 300;
const SCANNED_ROWS: i64 = 1_000;
/// Point reads between two partitions of the scan: four scanned rows each. A scan that nothing
/// slows down reads ten and more in the time of a point read.
const READS: usize = 250;
/// Point reads before.
const READS_BEFORE: usize = 150_000;
/// Less than what the hot rows take in memory.
const CACHE_BYTES: usize = 10 << 20;
const ZIPF: f64 = 0.99;

struct Bench {
    database: Database,
    schema: SchemaRef,
    /// Sums of the weights of the hot rows.
    sums: Vec<f64>,
    random: Random,
}

impl Bench {
    async fn open(directory: &Path, policy: Option<&str>) -> Self {
        let mut options = Options::new(directory);
        options.shards = Some(1);
        options.durability = Durability::None;
        options.cache_bytes = CACHE_BYTES;
        let database = Database::open(options).await.unwrap();
        let schema = database.create_table(definition("scan"), false).await.unwrap();
        for pk in 0..HOT_PARTITIONS + SCANNED_PARTITIONS {
            let rows = if pk < HOT_PARTITIONS { HOT_ROWS } else { SCANNED_ROWS };
            let writes = (0..rows).map(|ck| write(&schema, pk, ck, 1)).collect();
            database.apply_many(writes).await.unwrap();
        }
        database.flush(None).await.unwrap();
        if let Some(policy) = policy {
            database.create_policy("component", component(policy), vec![], None).await.unwrap();
            database.set_cache_policy(Some("component")).await.unwrap();
        }
        let mut sum = 0.0;
        let weights = (1..=HOT_PARTITIONS * HOT_ROWS).map(|rank| {
            sum += (rank as f64).powf(-ZIPF);
            sum
        });
        Bench { sums: weights.collect(), database, schema, random: Random::new(4) }
    }

    async fn read(&self, reads: Vec<(PartitionKey, Slice)>) {
        let id = self.schema.id;
        let work = move |shard: Rc<Shard>| {
            async move {
                let table = shard.table(id).unwrap();
                let mut fragments = std::collections::VecDeque::<Fragment>::new();
                for (key, slice) in reads {
                    let mut source = table.read(&PartitionRange::Single(key), &slice, false);
                    loop {
                        source.fill(&mut fragments).await.unwrap();
                        if fragments.is_empty() {
                            break;
                        }
                        fragments.clear();
                    }
                }
            }
            .boxed_local()
        };
        let route = partition_key(&self.schema, 0);
        self.database.on_shard(&route, work).await.unwrap();
    }

    async fn row_hits(&self) -> u64 {
        self.database.row_cache_report().await.unwrap()[0].stats.row_hits
    }

    /// Reads hot rows; how many came from memory.
    async fn point_reads(&mut self) -> u64 {
        let total = *self.sums.last().unwrap();
        let reads = (0..READS)
            .map(|_| {
                let at = self.random.below(1 << 53) as f64 / (1_u64 << 53) as f64 * total;
                let rank = self.sums.partition_point(|sum| *sum < at) as i64;
                // Neighbours in rank are no neighbours on disk.
                let place = rank * 7_919 % (HOT_PARTITIONS * HOT_ROWS);
                let key = partition_key(&self.schema, place % HOT_PARTITIONS);
                let row = clustering_key(&self.schema, place / HOT_PARTITIONS);
                let range = ClusteringRange::prefix(row);
                (key, Slice { ranges: vec![range], direction: Direction::Forward })
            })
            .collect();
        let before = self.row_hits().await;
        self.read(reads).await;
        self.row_hits().await - before
    }

    /// Share of the point reads that came from memory while the scan went on.
    async fn run(mut self) -> f64 {
        for _ in 0..READS_BEFORE / READS {
            self.point_reads().await;
        }
        let mut hits = 0;
        for scanned in 0..SCANNED_PARTITIONS {
            let key = partition_key(&self.schema, HOT_PARTITIONS + scanned);
            self.read(vec![(key, Slice::full(Direction::Forward))]).await;
            hits += self.point_reads().await;
        }
        self.database.close().await.unwrap();
        hits as f64 / (SCANNED_PARTITIONS as usize * READS) as f64
    }
}

/// Runs the rows if they are wanted.
pub async fn run(arguments: &Arguments) {
    let rows = [
        ("scan beside a hot set, S3-FIFO, hit ratio", "s3_fifo"),
        ("scan beside a hot set, W-TinyLFU, hit ratio", "w_tinylfu"),
    ];
    let mut native = None;
    for (name, policy) in rows {
        if !arguments.wants(name) {
            continue;
        }
        let lru = match native {
            Some(lru) => lru,
            None => {
                let directory = tempfile::tempdir().unwrap();
                Bench::open(directory.path(), None).await.run().await
            }
        };
        native = Some(lru);
        let directory = tempfile::tempdir().unwrap();
        let found = Bench::open(directory.path(), Some(policy)).await.run().await;
        Row {
            name,
            unit: "%",
            figure: found * 100.0,
            baseline: Some(("native LRU", lru * 100.0)),
            target: Target::RatioAtLeast(1.3),
        }
        .print(arguments);
    }
}
