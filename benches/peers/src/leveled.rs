//! Updates of random rows under leveled compaction: what is written for a byte of the user.
//!
//! Both engines have memtables of one size, SSTables of one size, a first level of ten of them and
//! ten times as much on each level below. Logs are not counted: both write each byte there once.

use std::path::Path;
use std::time::Duration;

use futures::executor::block_on;
use tidegate_engine::clock::Random;
use tidegate_engine::io::Class;
use tidegate_engine::{CompactionClass, CompactionOptions, Database, Durability, Options};

use crate::store::{definition, insert};
use crate::work::{Place, ROWS_PER_PARTITION, VALUE_BYTES};

pub const NAME: &str = "updates, leveled: written";
/// Updates a row has, on average.
const UPDATES: usize = 5;
/// Rows of one call.
const BATCH: usize = 1000;
const MEMTABLE_BYTES: usize = 16 << 20;
const SSTABLE_BYTES: u64 = 16 << 20;
/// Bytes of keys and value that the user gives for a row.
const ROW_BYTES: usize = VALUE_BYTES + 16;

/// The rows of each call, in order.
fn calls(updates: usize) -> impl Iterator<Item = Vec<Place>> {
    let rows = (updates / UPDATES) as u64;
    let mut random = Random::new(7);
    let place = move |_| {
        let row = random.below(rows) as i64;
        (row / ROWS_PER_PARTITION, row % ROWS_PER_PARTITION)
    };
    let mut places = (0..updates).map(place);
    (0..updates / BATCH).map(move |_| places.by_ref().take(BATCH).collect())
}

fn times(written: u64, updates: usize) -> f64 {
    written as f64 / (updates * ROW_BYTES) as f64
}

pub fn of_tidegate(updates: usize, folder: &Path) -> f64 {
    let options = Options {
        shards: Some(1),
        durability: Durability::Periodic { ms: 1_000 },
        memtable_bytes: MEMTABLE_BYTES,
        ..Options::new(folder)
    };
    let database = block_on(Database::open(options)).unwrap();
    let mut table = definition();
    table.options.compaction = CompactionOptions {
        sstable_bytes: SSTABLE_BYTES,
        ..CompactionOptions::of_class(CompactionClass::Leveled)
    };
    let schema = block_on(database.create_table(table, false)).unwrap();
    for (call, places) in (1..).zip(calls(updates)) {
        let write = |place: &Place| insert(&schema, *place, call);
        block_on(database.apply_many(places.iter().map(write).collect())).unwrap();
    }
    block_on(database.flush(None)).unwrap();
    let mut quiet = 0;
    while quiet < 20 {
        let runs = !block_on(database.compactions()).unwrap().is_empty();
        quiet = if runs { 0 } else { quiet + 1 };
        std::thread::sleep(Duration::from_millis(50));
    }
    let reports = block_on(database.io_report()).unwrap();
    let own =
        reports.iter().filter(|report| matches!(report.class, Class::Flush | Class::Compaction));
    let written = own.map(|report| report.stats.written_bytes).sum();
    block_on(database.close()).unwrap();
    times(written, updates)
}

#[cfg(feature = "rocksdb")]
pub fn of_rocksdb(updates: usize, folder: &Path) -> f64 {
    use rocksdb::statistics::{StatsLevel, Ticker};
    use rocksdb::{WaitForCompactOptions, WriteBatch};

    let mut options = crate::store::rocksdb_options();
    options.enable_statistics();
    options.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
    options.set_write_buffer_size(MEMTABLE_BYTES);
    options.set_target_file_size_base(SSTABLE_BYTES);
    options.set_max_bytes_for_level_base(10 * SSTABLE_BYTES);
    let database = rocksdb::DB::open(&options, folder).expect("an empty folder");
    for places in calls(updates) {
        let mut batch = WriteBatch::default();
        for place in places {
            batch.put(crate::store::key(place), crate::work::value(place));
        }
        database.write(batch).expect("a write");
    }
    database.flush().expect("a flush");
    database.wait_for_compact(&WaitForCompactOptions::default()).expect("compactions that end");
    let written = [Ticker::FlushWriteBytes, Ticker::CompactWriteBytes];
    let written = written.map(|ticker| options.get_ticker_count(ticker)).iter().sum();
    times(written, updates)
}
