//! A log with a limit: a tiny table beside a busy one, and a table that cannot be flushed.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use tokio::task::LocalSet;

use super::failing_disk::{FailingDisk, WAITS, failing_at};
use super::*;
use crate::clock::SimulatedClock;
use crate::disk::{Disk, SimulatedDisk};
use crate::error::Error;
use crate::runtime::{ShardContext, SimulatedTimer};

pub(super) const SEGMENT_BYTES: usize = 64 << 10;
const LIMIT: usize = 10 * SEGMENT_BYTES;
/// Turns that tasks get between two steps of simulated time.
const TURNS_PER_MS: usize = 20;

pub(super) async fn open(disk: Rc<dyn Disk>, memtable_bytes: usize) -> Database {
    open_at(disk, memtable_bytes, 1_700_000_000_000_000).await
}

/// A database of one shard on a disk, whose time goes by itself from `start_us` on.
pub(super) async fn open_at(disk: Rc<dyn Disk>, memtable_bytes: usize, start_us: i64) -> Database {
    open_within(disk, (memtable_bytes, LIMIT), start_us).await
}

/// The same with another limit of the log.
pub(super) async fn open_within(
    disk: Rc<dyn Disk>,
    (memtable_bytes, commitlog_bytes): (usize, usize),
    start_us: i64,
) -> Database {
    let clock = SimulatedClock::new(start_us);
    let (timer, _) = SimulatedTimer::passing(clock.clone(), TURNS_PER_MS);
    let context = ShardContext::new((0, 1), disk, clock.clone(), Rc::new(timer), 5);
    let options = Options {
        commitlog_segment_bytes: SEGMENT_BYTES,
        commitlog_bytes,
        memtable_bytes,
        clock,
        ..Options::new(Path::new("/db"))
    };
    Database::open_local(options, vec![context]).await.unwrap()
}

/// Bytes of segment files on the disk.
pub(super) async fn log_bytes(disk: &SimulatedDisk) -> usize {
    let log = Path::new("/db/commitlog/0-of-1");
    disk.list(log).await.unwrap().len() * SEGMENT_BYTES
}

pub(in crate::database::tests) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    LocalSet::new().block_on(&runtime, test);
}

#[test]
fn a_tiny_table_does_not_keep_the_log_of_a_busy_one() {
    run(async {
        let disk = SimulatedDisk::new(1);
        // Memtables alone would never be flushed.
        let database = open(disk.shared(), 1 << 30).await;
        let tiny = TableSchema { name: "tiny".into(), ..definition() };
        let tiny = database.create_table(tiny, false).await.unwrap();
        let busy = database.create_table(definition(), false).await.unwrap();
        database.apply(insert(&tiny, "a", 1, 1, 1)).await.unwrap();
        let mut longest = 0;
        for at in 0..600 {
            // Alone each takes a block of the log.
            database.apply(insert(&busy, "a", at, 1, 1)).await.unwrap();
            if at % 100 == 0 {
                let many = (0..50).map(|row| insert(&busy, "b", 1000 * at + row, 2, 1));
                database.apply_many(many.collect()).await.unwrap();
            }
            longest = longest.max(log_bytes(&disk).await);
        }
        assert!(longest > LIMIT / 2 && longest <= LIMIT, "{longest} of {LIMIT}");
        let report = &database.commitlog_report().await.unwrap()[0];
        assert!(report.bytes <= report.limit_bytes, "{report:?}");
        let flushed = |name: &str, reports: &[crate::database::TableReport]| {
            reports.iter().find(|report| report.table == name).unwrap().sstables
        };
        let reports = database.table_report().await.unwrap();
        assert_eq!(flushed("tiny", &reports), 1, "it is flushed when it pins, and not again");
        assert!(flushed("t", &reports) >= 1);
        let again = open(disk.power_cut().shared(), 1 << 30).await;
        assert_eq!(count_rows(&again, &busy, "a").await.unwrap(), 600);
        assert_eq!(count_rows(&again, &tiny, "a").await.unwrap(), 1);
    });
}

#[test]
fn what_pins_the_log_and_cannot_be_flushed_stops_writers_with_its_name() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let is_sstable = |path: &Path| path.to_string_lossy().ends_with(".db");
        let (failing, met) = failing_at(disk.shared(), is_sstable);
        let database = open(failing, 1 << 30).await;
        let t = database.create_table(definition(), false).await.unwrap();
        met.set(Some(28));
        let mut written = 0;
        let error = loop {
            match database.apply(insert(&t, "a", written, 1, 1)).await {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
            assert!(written < 1000, "nothing stops the writer");
        };
        let text = error.to_string();
        assert!(matches!(error, Error::Overloaded(_)) && error.is_retryable(), "{text}");
        let wanted = ["commitlog of shard 0", "its limit", "--commitlog-bytes", "default.t pins"];
        assert!(wanted.iter().all(|part| text.contains(part)), "{text}");
        assert!(log_bytes(&disk).await <= LIMIT);
        let report = database.commitlog_report().await.unwrap().remove(0);
        assert!(report.slowed > 0 && report.stopped > 0, "{report:?}");
        assert_eq!(report.oldest_pin, Some(("default".to_owned(), "t".to_owned())));
        assert_eq!(count_rows(&database, &t, "a").await.unwrap(), written as usize, "reads go on");
        // Once it can be flushed, writes go on.
        met.set(None);
        let mut tries = 0;
        while database.apply(insert(&t, "a", written, 1, 1)).await.is_err() {
            tries += 1;
            assert!(tries < 100_000, "writes do not go on");
            tokio::task::yield_now().await;
        }
        assert!(log_bytes(&disk).await <= LIMIT);
        let again = open(disk.power_cut().shared(), 1 << 30).await;
        assert_eq!(count_rows(&again, &t, "a").await.unwrap(), written as usize + 1);
    });
}

#[test]
fn a_write_that_waits_for_the_log_is_told_that_it_stays_long() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let is_data = |path: &Path| path.to_string_lossy().ends_with("Data.db");
        let (failing, met) = failing_at(disk.shared(), is_data);
        let database = open(failing, 1 << 30).await;
        let t = database.create_table(definition(), false).await.unwrap();
        // A flush is under way until somebody waits for it.
        met.set(Some(WAITS));
        let (own, schema) = (database.clone(), t.clone());
        let writer = tokio::task::spawn_local(async move {
            let mut written = 0;
            loop {
                match own.apply(insert(&schema, "a", written, 1, 1)).await {
                    Ok(()) => written += 1,
                    Err(error) => return (written, error),
                }
            }
        });
        let mut turns = 0;
        while database.commitlog_report().await.unwrap()[0].stopped == 0 {
            turns += 1;
            assert!(turns < 1_000_000 && !writer.is_finished(), "no write waits");
            tokio::task::yield_now().await;
        }
        met.set(Some(28));
        let mut turns = 0;
        while !writer.is_finished() {
            turns += 1;
            assert!(turns < 100_000, "nobody tells the write that the flush failed");
            tokio::task::yield_now().await;
        }
        let (written, error) = writer.await.unwrap();
        let text = error.to_string();
        assert!(matches!(error, Error::Overloaded(_)), "{text}");
        let wanted = ["commitlog of shard 0", "its limit", "default.t pins"];
        assert!(wanted.iter().all(|part| text.contains(part)), "{text}");
        assert_eq!(count_rows(&database, &t, "a").await.unwrap(), written as usize);
    });
}

/// From half the limit on a flush is on its way, and nobody has to wait: a batch still shares its
/// syncs.
#[test]
fn a_batch_shares_its_syncs_while_the_log_is_being_shortened() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let is_slow = Rc::new(Cell::new(false));
        let waits = is_slow.clone();
        let waiting = FailingDisk::shared(disk.shared(), move |path| {
            (waits.get() && path.to_string_lossy().ends_with("Data.db")).then_some(WAITS)
        });
        let database = open(waiting, 1 << 30).await;
        let t = database.create_table(definition(), false).await.unwrap();
        is_slow.set(true);
        let mut at = 0;
        while database.commitlog_report().await.unwrap()[0].bytes <= LIMIT as u64 / 2 {
            database.apply(insert(&t, "a", at, 1, 1)).await.unwrap();
            at += 1;
        }
        let before = disk.counters().writes;
        let many = (0..50).map(|row| insert(&t, "b", row, 2, 1));
        database.apply_many(many.collect()).await.unwrap();
        let writes = disk.counters().writes - before;
        assert!(writes <= 8, "{writes} writes for 50 rows");
        let report = &database.commitlog_report().await.unwrap()[0];
        assert_eq!((report.slowed, report.stopped), (0, 0), "nobody had to wait");
        // Near the limit a batch is slowed down once, a write by itself each time.
        while database.commitlog_report().await.unwrap()[0].bytes <= LIMIT as u64 / 4 * 3 {
            database.apply(insert(&t, "a", at, 1, 1)).await.unwrap();
            at += 1;
        }
        for (writes, slowed) in [(5, 1), (1, 2), (1, 3)] {
            let many = (0..writes).map(|row| insert(&t, "c", row, 2, 1));
            match writes {
                1 => database.apply(insert(&t, "c", 5, 2, 1)).await.unwrap(),
                _ => database.apply_many(many.collect()).await.unwrap(),
            }
            let report = &database.commitlog_report().await.unwrap()[0];
            assert_eq!((report.slowed, report.stopped), (slowed, 0), "{writes} writes");
        }
        is_slow.set(false);
        assert_eq!(count_rows(&database, &t, "b").await.unwrap(), 50);
        assert_eq!(count_rows(&database, &t, "c").await.unwrap(), 6);
        database.close().await.unwrap();
    });
}

/// What a shard does about its log it does as often as the log grows long. No write waits here: a
/// log that nobody shortens stays where it is.
#[test]
fn a_log_is_shortened_each_time_that_it_has_grown_long() {
    const LONG: u64 = LIMIT as u64 / 2;
    run(async {
        let disk = SimulatedDisk::new(1);
        // Memtables alone would never be flushed.
        let database = open(disk.shared(), 1 << 30).await;
        let t = database.create_table(definition(), false).await.unwrap();
        let bytes = async || database.commitlog_report().await.unwrap()[0].bytes;
        let mut at = 0;
        for round in 1..=4 {
            let first = at;
            while bytes().await <= LONG {
                database.apply(insert(&t, "a", at, 1, 1)).await.unwrap();
                at += 1;
                assert!(at - first < 1_000, "round {round}: the log does not grow");
            }
            // Whoever writes next finds it long.
            database.apply(insert(&t, "a", at, 1, 1)).await.unwrap();
            at += 1;
            let mut turns = 0;
            while bytes().await > LONG {
                turns += 1;
                assert!(turns < 200_000, "round {round}: nobody shortens the log");
                tokio::task::yield_now().await;
            }
        }
        let report = database.commitlog_report().await.unwrap().remove(0);
        assert_eq!((report.slowed, report.stopped), (0, 0), "{report:?}");
        let again = open(disk.power_cut().shared(), 1 << 30).await;
        assert_eq!(count_rows(&again, &t, "a").await.unwrap(), at as usize);
    });
}
