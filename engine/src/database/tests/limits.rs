//! What runs short: descriptors of files, and tables that cannot be written to disk.
//!
//! On the simulated disk with simulated time.

use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use tokio::task::LocalSet;

use super::*;
use crate::clock::{Clock, SimulatedClock};
use crate::config::DESCRIPTOR_WAIT;
use crate::disk::{Faults, SimulatedDisk};
use crate::error::{Error, Result};
use crate::runtime::{ShardContext, SimulatedTimer};

/// Turns that tasks get between two steps of simulated time.
const TURNS_PER_MS: usize = 20;

pub(super) fn run(test: impl AsyncFnOnce(Arc<SimulatedClock>)) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    LocalSet::new().block_on(&runtime, test(clock));
}

/// A database of one shard; time passes by itself.
pub(super) async fn open(
    disk: &SimulatedDisk,
    clock: &Arc<SimulatedClock>,
    change: impl FnOnce(Options) -> Options,
) -> Result<Database> {
    let (timer, _) = SimulatedTimer::passing(clock.clone(), TURNS_PER_MS);
    let options = change(Options {
        commitlog_segment_bytes: 1 << 18,
        clock: clock.clone(),
        ..Options::new("/db")
    });
    let context = ShardContext::new((0, 1), disk.shared(), clock.clone(), Rc::new(timer), 5);
    Database::open_local(options, vec![context]).await
}

async fn create(database: &Database, name: &str) -> SchemaRef {
    let definition = TableSchema { name: name.into(), ..definition() };
    database.create_table(definition, false).await.unwrap()
}

fn folder(schema: &TableSchema) -> PathBuf {
    format!("/db/data/default/{}-{}", schema.name, schema.id.hex()).into()
}

#[test]
fn many_sstables_are_read_and_written_with_few_descriptors() {
    const TABLES: usize = 10;
    const STARTS: i32 = 4;
    const FLUSHES: i32 = 10;
    run(async |clock| {
        // A row and its SSTable a flush, of which two files are read: 800 in the end.
        let faults = Faults { open_files_max: Some(60), delay_turns_max: 1, ..Faults::default() };
        let disk = SimulatedDisk::with_faults(1, faults);
        let few = |options| Options { open_files: Some(30), ..options };
        let names: Vec<String> = (0..TABLES).map(|number| format!("t{number}")).collect();
        let database = open(&disk, &clock, few).await.unwrap();
        for name in &names {
            create(&database, name).await;
        }
        database.close().await.unwrap();
        for start in 0..STARTS {
            let database = open(&disk, &clock, few).await.unwrap();
            let catalog = database.catalog();
            for round in start * FLUSHES..(start + 1) * FLUSHES {
                let insert = |schema: &SchemaRef| insert(schema, "a", round, round.into(), 1);
                let writes = catalog.all_tables().map(insert).collect();
                database.apply_many(writes).await.unwrap();
                database.flush(None).await.unwrap();
            }
            database.close().await.unwrap();
        }
        let database = open(&disk, &clock, few).await.unwrap();
        let wanted: Vec<i64> = (0..i64::from(STARTS * FLUSHES)).collect();
        let catalog = database.catalog();
        for schema in catalog.all_tables() {
            let found = rows(&database, schema, Slice::full(Direction::Forward), None).await;
            assert_eq!(found, wanted, "{}", schema.name);
        }
        assert!(disk.open_files() <= 60);
        database.close().await.unwrap();
    });
}

/// What comes of it in a time in which no wait for a descriptor lasts.
async fn in_time<F: Future>(clock: &SimulatedClock, work: F) -> F::Output {
    let wait_ns = u64::try_from(DESCRIPTOR_WAIT.as_nanos()).unwrap();
    let until_ns = clock.monotonic_ns() + 10 * wait_ns;
    let mut work = pin!(work);
    loop {
        if let Poll::Ready(done) = futures::poll!(work.as_mut()) {
            return done;
        }
        assert!(clock.monotonic_ns() < until_ns, "waiting for a descriptor never ends");
        tokio::task::yield_now().await;
    }
}

#[test]
fn writes_go_on_after_a_shortage_of_descriptors() {
    run(async |clock| {
        let disk = SimulatedDisk::new(2);
        // Each segment takes a few writes, so that many are opened.
        let small = |options| Options { commitlog_segment_bytes: 1 << 14, ..options };
        let database = open(&disk, &clock, small).await.unwrap();
        let schema = create(&database, "t").await;
        let mut acknowledged = Vec::new();
        for number in 0..300 {
            // Longer than an operation waits for a descriptor, so that it fails as well.
            if number == 100 {
                disk.set_faults(Faults { open_files_max: Some(0), ..Faults::default() });
            }
            let write = insert(&schema, "a", number, number.into(), 1);
            match in_time(&clock, database.apply(write)).await {
                Ok(()) => acknowledged.push(i64::from(number)),
                Err(error) => {
                    assert!(error.lacks_descriptors() && error.is_retryable(), "{error}");
                    assert!(error.to_string().contains("ulimit -n"), "{error}");
                    disk.set_faults(Faults::default());
                }
            }
        }
        assert!((1..300).contains(&(300 - acknowledged.len())), "one at least was refused");
        let forward = || Slice::full(Direction::Forward);
        assert_eq!(rows(&database, &schema, forward(), None).await, acknowledged);
        let after = disk.power_cut();
        let database = open(&after, &clock, small).await.unwrap();
        assert_eq!(rows(&database, &schema, forward(), None).await, acknowledged);
        database.close().await.unwrap();
    });
}

#[test]
fn a_reader_of_a_dropped_table_reads_on_with_few_descriptors() {
    run(async |clock| {
        let disk = SimulatedDisk::new(3);
        let few = |options| Options { open_files: Some(1), ..options };
        let database = open(&disk, &clock, few).await.unwrap();
        let (schema, other) = (create(&database, "t").await, create(&database, "other").await);
        for schema in [&schema, &other] {
            let writes = (0..5000).map(|at| insert(schema, "a", at, at.into(), 1)).collect();
            database.apply_many(writes).await.unwrap();
        }
        database.flush(None).await.unwrap();
        let past_cache = |schema: &SchemaRef| {
            let slice = Slice::full(Direction::Forward);
            ReadCommand { past_cache: true, ..read_of(schema, "a", slice, None) }
        };
        let mut reading = database.read(past_cache(&schema));
        let first = reading.next().await.unwrap().unwrap().num_rows();
        // The files of the other table take the one descriptor.
        assert_eq!(values(&database, past_cache(&other)).await.len(), 5000);
        database.drop_table("default", "t", false).await.unwrap();
        let rest: Vec<RecordBatch> = reading.try_collect().await.unwrap();
        assert_eq!(first + rest.iter().map(RecordBatch::num_rows).sum::<usize>(), 5000);
        database.close().await.unwrap();
    });
}

/// Writes rows until one is refused; returns how many were taken, and why no more.
async fn write_until_refused(database: &Database, schema: &SchemaRef) -> (i64, Error) {
    for at in 0.. {
        let write = insert(schema, "a", at, at.into(), 1);
        if let Err(error) = database.apply(write).await {
            return (at.into(), error);
        }
        assert!(at < 100_000, "a table that cannot be flushed must refuse at last");
    }
    unreachable!("the loop ends at the first refusal");
}

/// Writes 5,000 rows, some hundred at a time.
async fn write_all(database: &Database, schema: &SchemaRef) {
    for first in (0..5000).step_by(100) {
        let writes = (first..first + 100).map(|at| insert(schema, "a", at, at.into(), 1));
        database.apply_many(writes.collect()).await.unwrap();
    }
}

#[test]
fn a_table_that_cannot_be_flushed_stops_only_itself() {
    run(async |clock| {
        let disk = SimulatedDisk::new(4);
        let small = |options| Options { memtable_bytes: 32 << 10, ..options };
        let database = open(&disk, &clock, small).await.unwrap();
        let (stuck, healthy) = (create(&database, "stuck").await, create(&database, "fine").await);
        disk.set_read_only(Some(&folder(&stuck)));
        let (taken, error) = write_until_refused(&database, &stuck).await;
        let text = error.to_string();
        assert!(matches!(error, Error::Unavailable(_)), "{text}");
        assert!(text.contains("default.stuck") && text.contains("Permission denied"), "{text}");
        // Many times what memtables may hold.
        write_all(&database, &healthy).await;
        let report = database.table_report().await.unwrap();
        assert!(report[0].table == "fine" && report[0].sstables > 0, "{report:?}");
        assert_eq!(report[0].problem, None);
        let problem = report[1].problem.as_deref().unwrap();
        assert!(problem.contains("Permission denied") && problem.contains("stuck-"), "{problem}");
        let forward = || Slice::full(Direction::Forward);
        let (of_stuck, of_healthy) =
            ((0..taken).collect::<Vec<_>>(), (0..5000).collect::<Vec<_>>());
        assert_eq!(rows(&database, &stuck, forward(), None).await, of_stuck);

        // The next start opens the database, though nothing can be flushed there.
        let disk = disk.power_cut();
        for _ in 0..2 {
            let database = open(&disk, &clock, small).await.unwrap();
            assert_eq!(rows(&database, &stuck, forward(), None).await, of_stuck);
            assert_eq!(rows(&database, &healthy, forward(), None).await, of_healthy);
            let refused = database.apply(insert(&stuck, "b", 1, 1, 1)).await.unwrap_err();
            assert!(refused.to_string().contains("cannot be flushed"), "{refused}");
            write_all(&database, &healthy).await;
            let report = database.table_report().await.unwrap();
            assert!(report[0].problem.is_none() && report[1].problem.is_some(), "{report:?}");
            // What could not be written to disk is told, and still in the commitlog.
            assert!(database.close().await.is_err());
        }

        // It goes on by itself once the cause is mended.
        let database = open(&disk, &clock, small).await.unwrap();
        disk.set_read_only(None);
        let mut tries = 0;
        while let Err(error) = database.apply(insert(&stuck, "b", 1, 1, 1)).await {
            tries += 1;
            assert!(tries < 200_000, "{error}");
            tokio::task::yield_now().await;
        }
        database.close().await.unwrap();
        let database = open(&disk, &clock, small).await.unwrap();
        assert_eq!(rows(&database, &stuck, forward(), None).await, of_stuck);
        assert_eq!(count_rows(&database, &stuck, "b").await.unwrap(), 1);
        assert_eq!(database.table_report().await.unwrap()[1].problem, None);
        database.close().await.unwrap();
    });
}

#[test]
fn a_stuck_table_can_be_dropped_and_its_files_do_not_stop_the_next_start() {
    run(async |clock| {
        let disk = SimulatedDisk::new(5);
        let small = |options| Options { memtable_bytes: 32 << 10, ..options };
        let database = open(&disk, &clock, small).await.unwrap();
        let (stuck, healthy) = (create(&database, "stuck").await, create(&database, "fine").await);
        database.apply(insert(&stuck, "a", 1, 1, 1)).await.unwrap();
        database.flush(None).await.unwrap();
        disk.set_read_only(Some(&folder(&stuck)));
        database.apply(insert(&healthy, "a", 1, 1, 1)).await.unwrap();
        write_until_refused(&database, &stuck).await;
        let error = database.drop_table("default", "stuck", false).await.unwrap_err();
        assert!(error.to_string().contains("Permission denied"), "{error}");
        assert!(database.catalog().table("default", "stuck").is_none());
        database.apply(insert(&healthy, "a", 2, 2, 1)).await.unwrap();
        database.close().await.unwrap();
        let database = open(&disk, &clock, small).await.unwrap();
        let found = rows(&database, &healthy, Slice::full(Direction::Forward), None).await;
        assert_eq!(found, [1, 2]);
        database.close().await.unwrap();
    });
}
