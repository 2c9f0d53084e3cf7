//! Many flushes of a small table: what is left of them, and how it reads and opens.

use std::time::Duration;

use futures::executor::block_on;
use tidegate_engine::clock::Random;
use tidegate_engine::{CompactionOptions, Database, SchemaRef};

use crate::frame::table::write;
use crate::frame::{Arguments, Row, Target, median, timed};
use crate::world::{self, ROWS_PER_PARTITION};

const NAME: &str = "flushes of a small table";
const ROWS: i64 = 6000;
/// Rows that change between two flushes.
const CHANGES: u64 = 20;

/// µs of a point read and of a scan, each the median of several.
fn reads(database: &Database, schema: &SchemaRef) -> (f64, f64) {
    let mut random = Random::new(5);
    let mut point = || {
        let key = world::key(schema, random.below(ROWS as u64) as i64);
        let (row, wall) = timed(|| database.get(schema, key).wait());
        assert!(row.unwrap().is_some());
        wall.as_secs_f64() * 1e6
    };
    let points = median((0..2001).map(|_| point()).collect());
    let scan = || {
        let (rows, wall) = timed(|| world::scan(database, schema));
        assert_eq!(rows as i64, ROWS);
        wall.as_secs_f64() * 1e6
    };
    (points, median((0..21).map(|_| scan()).collect()))
}

pub fn print(arguments: &Arguments) {
    if !arguments.wants(NAME) {
        return;
    }
    let flushes = arguments.scale(300, 10_000);
    let directory = tempfile::tempdir().unwrap();
    let database = world::open(directory.path());
    let schema = world::create(&database, "small", CompactionOptions::default());
    let at = |row: i64, timestamp| {
        write(&schema, row / ROWS_PER_PARTITION, row % ROWS_PER_PARTITION, timestamp)
    };
    block_on(database.apply_many((0..ROWS).map(|row| at(row, 1)).collect())).unwrap();
    world::flush(&database);
    let mut random = Random::new(3);
    let mut most = 0;
    for round in 0..flushes as i64 {
        let changes = (0..CHANGES).map(|_| at(random.below(ROWS as u64) as i64, round + 2));
        block_on(database.apply_many(changes.collect())).unwrap();
        world::flush(&database);
        most = most.max(world::sstables(&database, &schema).0);
    }
    let (point, scan) = reads(&database, &schema);
    let open = world::descriptors();
    block_on(database.close()).unwrap();
    let (database, start) = timed(|| world::open(directory.path()));
    let schema = database.catalog().table("default", "small").unwrap().clone();
    block_on(database.compact(schema.id)).unwrap();
    // What was read of the old SSTables is out of the caches.
    std::thread::sleep(Duration::from_millis(100));
    let (point_of_one, scan_of_one) = reads(&database, &schema);
    let ratio = Target::RatioAtMost(1.2);
    for (what, unit, figure, baseline, target) in [
        ("SSTables, most", "", most as f64, None, Target::AtMost(20.0)),
        ("descriptors", "", open as f64, None, Target::AtMost(60.0)),
        ("start", "s", start.as_secs_f64(), None, Target::AtMost(1.0)),
        ("point read", "us", point, Some(("one SSTable", point_of_one)), ratio),
        ("scan", "us", scan, Some(("one SSTable", scan_of_one)), ratio),
    ] {
        let name = format!("{flushes} {NAME}: {what}");
        Row { name: &name, unit, figure, baseline, target }.print(arguments);
    }
    block_on(database.close()).unwrap();
}
