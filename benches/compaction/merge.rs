//! One merge of everything: how fast it is, and what point reads beside it notice.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::executor::block_on;
use tidegate_engine::clock::Random;
use tidegate_engine::{Database, SchemaRef};

use crate::frame::table::{VALUE_BYTES, write};
use crate::frame::{Arguments, Row, Target, timed};
use crate::world::{self, ROWS_PER_PARTITION};

const SPEED: &str = "compaction, one core, no overlap";
const COPIED: &str = "compaction beside a copy";
const READS: &str = "read p99 beside a full compaction";
const READS_P50: &str = "read p50 beside a full compaction";
const SSTABLES: i64 = 8;
/// Rows of one call.
const BATCH: usize = 1000;

pub fn print(arguments: &Arguments) {
    if arguments.wants(SPEED) || arguments.wants(COPIED) {
        print_speed(arguments);
    }
    if arguments.wants(READS) || arguments.wants(READS_P50) {
        print_reads(arguments);
    }
}

/// Rows in SSTables that have no row in common: every row is in one of them.
fn load(database: &Database, bytes: usize) -> (SchemaRef, i64) {
    let schema = world::create(database, "rows", world::quiet());
    let rows = (bytes / (VALUE_BYTES + 20)) as i64 / SSTABLES * SSTABLES;
    for part in 0..SSTABLES {
        let rows: Vec<i64> = (0..rows).filter(|row| row % SSTABLES == part).collect();
        for rows in rows.chunks(BATCH) {
            let write =
                |row: &i64| write(&schema, row / ROWS_PER_PARTITION, row % ROWS_PER_PARTITION, 1);
            block_on(database.apply_many(rows.iter().map(write).collect())).unwrap();
        }
        world::flush(database);
    }
    (schema, rows)
}

/// Seconds in which a plain program copies all data files of a folder, durably.
fn copy_data(from: &Path, to: &Path) -> f64 {
    let mut files = Vec::new();
    data_files(from, &mut files);
    let ((), wall) = timed(|| {
        let mut buffer = vec![0; 256 << 10];
        for (at, path) in files.iter().enumerate() {
            let mut source = File::open(path).unwrap();
            let mut target = File::create(to.join(at.to_string())).unwrap();
            loop {
                let count = source.read(&mut buffer).unwrap();
                if count == 0 {
                    break;
                }
                target.write_all(&buffer[..count]).unwrap();
            }
            target.sync_all().unwrap();
        }
    });
    wall.as_secs_f64()
}

fn data_files(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            data_files(&path, files);
        } else if path.to_string_lossy().ends_with("-Data.db") {
            files.push(path);
        }
    }
}

fn print_speed(arguments: &Arguments) {
    let directory = tempfile::tempdir().unwrap();
    let copies = tempfile::tempdir().unwrap();
    let database = world::open(directory.path());
    let (schema, _) = load(&database, arguments.scale(150 << 20, 1 << 30));
    let bytes = world::sstables(&database, &schema).1 as f64 / 1e6;
    let copied = bytes / copy_data(directory.path(), copies.path());
    let (merged, wall) = timed(|| block_on(database.compact(schema.id)));
    merged.unwrap();
    let speed = bytes / wall.as_secs_f64();
    for (name, target) in [(SPEED, Target::AtLeast(150.0)), (COPIED, Target::RatioAtLeast(0.5))] {
        let baseline = Some(("a plain copy, fsync", copied));
        Row { name, unit: "MB/s", figure: speed, baseline, target }.print(arguments);
    }
    block_on(database.close()).unwrap();
}

/// Reads rows at random, one at a time, while `goes_on`; the time of each, µs, ascending.
fn read(database: &Database, of: (&SchemaRef, i64), goes_on: impl Fn(usize) -> bool) -> Vec<f64> {
    let ((schema, rows), mut random) = (of, Random::new(1));
    let mut times = Vec::new();
    while goes_on(times.len()) {
        let key = world::key(schema, random.below(rows as u64) as i64);
        let (row, wall) = timed(|| database.get(schema, key).wait());
        assert!(row.unwrap().is_some());
        times.push(wall.as_secs_f64() * 1e6);
        // A client that reads as fast as it can would measure itself alone.
        std::thread::sleep(Duration::from_micros(200));
    }
    times.sort_by(f64::total_cmp);
    times
}

fn at(times: &[f64], part: f64) -> f64 {
    times[((times.len() - 1) as f64 * part) as usize]
}

fn print_reads(arguments: &Arguments) {
    let directory = tempfile::tempdir().unwrap();
    let database = world::open(directory.path());
    let (schema, rows) = load(&database, arguments.scale(150 << 20, 2 << 30));
    let count = arguments.scale(5_000, 50_000);
    read(&database, (&schema, rows), |read| read < count / 10);
    let alone = read(&database, (&schema, rows), |read| read < count);
    let is_over = AtomicBool::new(false);
    let beside = std::thread::scope(|scope| {
        scope.spawn(|| {
            block_on(database.compact(schema.id)).unwrap();
            is_over.store(true, Ordering::Relaxed);
        });
        read(&database, (&schema, rows), |_| !is_over.load(Ordering::Relaxed))
    });
    assert!(beside.len() >= 100, "{} reads beside the compaction are too few", beside.len());
    for (name, part, target) in
        [(READS, 0.99, Target::RatioAtMost(1.5)), (READS_P50, 0.5, Target::None)]
    {
        let baseline = Some(("without", at(&alone, part)));
        Row { name, unit: "us", figure: at(&beside, part), baseline, target }.print(arguments);
    }
    block_on(database.close()).unwrap();
}
