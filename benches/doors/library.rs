//! Calls of the library: `get`, `scan`, `apply`, from a thread that is no shard's.

use std::time::Duration;

use futures::executor::block_on;
use futures::{StreamExt, TryStreamExt, stream};
use tidegate_engine::clock::Random;
use tidegate_engine::{ColumnId, Database, Durability, Mutation, Options, RowKey, Scan, SchemaRef};

use crate::frame::table::{VALUE_BYTES, clustering_key, definition, partition_key, write};
use crate::frame::{Arguments, Row, Target, cpu_timed, median, median_ratio};
use crate::ping_pong;

const ROWS_PER_PARTITION: i64 = 100;
const IN_FLIGHT: usize = 64;
const REPEATS: usize = 3;
/// Slices forward and reversed that are measured in turns.
const PAIRS: usize = 5;
/// Rows of a page that are read to bring them in.
const PAGE_ROWS: usize = 2000;
/// The one large partition.
const LARGE: i64 = -1;

pub struct Loaded {
    pub database: Database,
    schema: SchemaRef,
    /// Small ones, of [`ROWS_PER_PARTITION`] rows.
    pub partitions: i64,
    large_rows: i64,
    _directory: tempfile::TempDir,
}

/// Small partitions and a large one, in SSTables and whole in the row cache.
pub fn load(arguments: &Arguments) -> Loaded {
    let directory = tempfile::tempdir().unwrap();
    let partitions = arguments.scale(5_000, 50_000) as i64;
    let large_rows = arguments.scale(200_000, 2_000_000) as i64;
    let options = Options {
        durability: Durability::Periodic { ms: 10_000 },
        cache_bytes: 2 << 30,
        ..Options::new(directory.path())
    };
    let database = block_on(Database::open(options)).unwrap();
    let schema = block_on(database.create_table(definition("rows"), false)).unwrap();
    for pk in 0..partitions {
        let rows = (0..ROWS_PER_PARTITION).map(|ck| write(&schema, pk, ck, 1));
        database.apply_many(rows.collect()).wait().unwrap();
    }
    let all: Vec<i64> = (0..large_rows).collect();
    for part in all.chunks(1000) {
        let rows = part.iter().map(|ck| write(&schema, LARGE, *ck, 1));
        database.apply_many(rows.collect()).wait().unwrap();
    }
    block_on(database.flush(None)).unwrap();
    // Nothing is left to compact while the rows below are measured.
    block_on(database.compact(schema.id)).unwrap();
    let loaded = Loaded { database, schema, partitions, large_rows, _directory: directory };
    loaded.warm();
    loaded
}

/// CPU µs a call.
fn per_call(calls: usize, work: impl Future<Output = ()>) -> f64 {
    let ((), cpu) = block_on(cpu_timed(work));
    cpu.as_secs_f64() * 1e6 / calls as f64
}

impl Loaded {
    /// Brings all rows into the row cache. A long read brings in a part of what it passes, so this
    /// reads page by page.
    fn warm(&self) {
        let pages = (0..self.large_rows).step_by(PAGE_ROWS).map(|from| (LARGE, from));
        let partitions = (0..self.partitions).map(|pk| (pk, 0));
        for (pk, from) in partitions.chain(pages) {
            let scan = Scan::new(&self.schema).partition(partition_key(&self.schema, pk));
            let scan = scan.from(clustering_key(&self.schema, from)).limit(PAGE_ROWS);
            let batches: Vec<_> = block_on(self.database.scan(scan).try_collect()).unwrap();
            let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
            let last = if pk == LARGE { self.large_rows - from } else { ROWS_PER_PARTITION };
            assert_eq!(rows, PAGE_ROWS.min(last as usize));
        }
        let reports = block_on(self.database.row_cache_report()).unwrap();
        let rows: u64 = reports.iter().map(|report| report.stats.rows).sum();
        let wanted = self.partitions * ROWS_PER_PARTITION + self.large_rows;
        assert_eq!(rows as i64, wanted, "not all rows are in the row cache");
    }

    /// Keys of rows of all partitions, the large one among them as often as its rows.
    fn keys(&self, count: usize, seed: u64) -> Vec<RowKey> {
        let mut random = Random::new(seed);
        let small = self.partitions * ROWS_PER_PARTITION;
        let mut key = || {
            let row = random.below((small + self.large_rows) as u64) as i64;
            let (pk, ck) = match row.checked_sub(small) {
                Some(ck) if ck >= 0 => (LARGE, ck),
                _ => (row / ROWS_PER_PARTITION, row % ROWS_PER_PARTITION),
            };
            let key = (partition_key(&self.schema, pk), clustering_key(&self.schema, ck));
            RowKey::from(key)
        };
        (0..count).map(|_| key()).collect()
    }

    /// Whether there is such a row.
    pub async fn get(&self, pk: i64, ck: i64) -> bool {
        let key = (partition_key(&self.schema, pk), clustering_key(&self.schema, ck));
        self.database.get(&self.schema, key).await.unwrap().is_some()
    }

    fn get_alone(&self, reads: usize, seed: u64) -> f64 {
        let keys = self.keys(reads, seed);
        per_call(reads, async {
            for key in keys {
                let row = self.database.get(&self.schema, key).wait().unwrap().unwrap();
                assert_eq!(row.stored(ColumnId(2)).unwrap().len(), VALUE_BYTES);
            }
        })
    }

    fn get_awaited(&self, reads: usize, seed: u64) -> f64 {
        let keys = self.keys(reads, seed);
        per_call(reads, async {
            for key in keys {
                let row = self.database.get(&self.schema, key).await.unwrap().unwrap();
                assert_eq!(row.stored(ColumnId(2)).unwrap().len(), VALUE_BYTES);
            }
        })
    }

    fn get_in_flight(&self, reads: usize, seed: u64) -> f64 {
        let keys = self.keys(reads, seed);
        per_call(reads, async {
            let reads = keys.into_iter().map(|key| self.database.get(&self.schema, key));
            let mut reads = stream::iter(reads).buffer_unordered(IN_FLIGHT);
            while let Some(row) = reads.next().await {
                assert!(row.unwrap().is_some());
            }
        })
    }

    fn get_many(&self, reads: usize, seed: u64) -> f64 {
        let keys = self.keys(reads, seed);
        per_call(reads, async {
            for keys in keys.chunks(IN_FLIGHT) {
                let rows = self.database.get_many(&self.schema, keys.to_vec()).wait().unwrap();
                assert!(rows.iter().all(Option::is_some));
            }
        })
    }

    fn slice(&self, slices: usize, is_large: bool, is_reversed: bool) -> f64 {
        let mut random = Random::new(3);
        let mut scan = || {
            let (pk, from) = match is_large {
                true => (LARGE, random.below((self.large_rows - 200) as u64) as i64 + 100),
                false => (random.below(self.partitions as u64) as i64, 0),
            };
            let scan = Scan::new(&self.schema).partition(partition_key(&self.schema, pk));
            let scan = scan.columns(&["ck", "v"]).unwrap().limit(100);
            let at = |ck| clustering_key(&self.schema, ck);
            match (is_large, is_reversed) {
                (true, false) => scan.from(at(from)),
                (true, true) => scan.before(at(from + 100)).reversed(),
                (false, false) => scan,
                (false, true) => scan.reversed(),
            }
        };
        let scans: Vec<Scan> = (0..slices).map(|_| scan()).collect();
        per_call(slices, async {
            for scan in scans {
                let mut batches = self.database.scan(scan);
                let mut rows = 0;
                while let Some(batch) = batches.wait() {
                    rows += batch.unwrap().num_rows();
                }
                assert_eq!(rows, 100);
            }
        })
    }
}

fn repeated(work: impl FnMut(u64) -> f64) -> f64 {
    median((0..REPEATS as u64).map(work).collect())
}

fn print_reads(arguments: &Arguments, loaded: &Loaded, hop: f64) {
    let reads = arguments.scale(100_000, 1_000_000);
    let row = |name: &str, figure: f64, bound: f64| {
        let baseline = Some(("ping-pong of two threads", hop));
        let target = Target::AtMost(bound);
        Row { name, unit: "CPU us", figure, baseline, target }.print(arguments);
    };
    loaded.get_alone(20_000, 99);
    row("get, one at a time", repeated(|seed| loaded.get_alone(reads, seed)), 4.5);
    row("get, awaited one at a time", repeated(|seed| loaded.get_awaited(reads, seed)), 4.5);
    row("get, 64 in flight", repeated(|seed| loaded.get_in_flight(reads, seed)), 2.5);
    row("get_many of 64", repeated(|seed| loaded.get_many(reads, seed)), 2.5);
}

fn print_slices(arguments: &Arguments, loaded: &Loaded) {
    let slices = arguments.scale(10_000, 100_000);
    for (is_large, bound) in [(false, 10.0), (true, 12.0)] {
        let of = if is_large { "the large partition" } else { "small partitions" };
        // In turns, so that both meet the machine as it is at one time.
        let both = |is_reversed| loaded.slice(slices, is_large, is_reversed);
        let pairs: Vec<(f64, f64)> = (0..PAIRS).map(|_| (both(true), both(false))).collect();
        let (reversed, forward): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let (reversed, forward) = (median(reversed), median(forward));
        let (of_pair, beside) = median_ratio(pairs);
        Row {
            name: &format!("slice of 100, {of}"),
            unit: "CPU us",
            figure: forward,
            baseline: None,
            target: Target::AtMost(bound),
        }
        .print(arguments);
        Row {
            name: &format!("slice of 100 reversed, {of}"),
            unit: "CPU us",
            figure: reversed,
            baseline: Some(("forward", forward)),
            target: Target::AtMost(bound),
        }
        .print(arguments);
        Row {
            name: &format!("reversed beside forward, {of}"),
            unit: "CPU us",
            figure: of_pair,
            baseline: Some(("forward", beside)),
            target: Target::RatioAtMost(1.05),
        }
        .print(arguments);
    }
}

fn writes(schema: &SchemaRef, count: usize, round: u64) -> Vec<Mutation> {
    let mutation = |row: i64| {
        let (pk, ck) = (row / ROWS_PER_PARTITION, row % ROWS_PER_PARTITION);
        write(schema, pk + round as i64 * count as i64, ck, row + 1)
    };
    (0..count as i64).map(mutation).collect()
}

fn print_writes(arguments: &Arguments) {
    let directory = tempfile::tempdir().unwrap();
    let durability = Durability::Periodic { ms: 10_000 };
    let options = Options { durability, ..Options::new(directory.path()) };
    let database = block_on(Database::open(options)).unwrap();
    let schema = block_on(database.create_table(definition("writes"), false)).unwrap();
    let count = arguments.scale(50_000, 300_000);
    let alone = repeated(|round| {
        let writes = writes(&schema, count, round);
        per_call(count, async {
            writes.into_iter().for_each(|write| database.apply(write).wait().unwrap());
        })
    });
    let in_flight = repeated(|round| {
        let writes = writes(&schema, count, 3 + round);
        per_call(count, async {
            let writes = writes.into_iter().map(|write| database.apply(write));
            let mut writes = stream::iter(writes).buffer_unordered(IN_FLIGHT);
            while let Some(written) = writes.next().await {
                written.unwrap();
            }
        })
    });
    for (name, figure, bound) in
        [("write, one at a time", alone, 6.0), ("write, 64 in flight", in_flight, 3.5)]
    {
        let target = Target::AtMost(bound);
        Row { name, unit: "CPU us", figure, baseline: None, target }.print(arguments);
    }
    block_on(database.close()).unwrap();
}

/// CPU of a database that has just answered and is asked for nothing, in percent of a core.
fn idle(loaded: &Loaded, wall: Duration) -> f64 {
    loaded.get_alone(10_000, 7);
    let ((), cpu) = block_on(cpu_timed(async { std::thread::sleep(wall) }));
    100.0 * cpu.as_secs_f64() / wall.as_secs_f64()
}

pub fn print(arguments: &Arguments) {
    let (wants_gets, wants_slices) = (arguments.wants("get"), arguments.wants("slice of 100"));
    let wants_idle = arguments.wants("idle process");
    if wants_gets || wants_slices || wants_idle {
        let loaded = load(arguments);
        if wants_gets {
            print_reads(arguments, &loaded, ping_pong::baseline(arguments));
        }
        if wants_slices {
            print_slices(arguments, &loaded);
        }
        if wants_idle {
            let wall = Duration::from_secs(arguments.scale(3, 10) as u64);
            Row {
                name: "idle process, behind calls",
                unit: "% of core",
                figure: idle(&loaded, wall),
                baseline: None,
                target: Target::AtMost(0.5),
            }
            .print(arguments);
        }
        block_on(loaded.database.close()).unwrap();
    }
    if arguments.wants("write") {
        print_writes(arguments);
    }
}
