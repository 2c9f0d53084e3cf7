//! Snapshots: what they hold, while the database is used, and when the power goes.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use tokio::task::LocalSet;

use super::*;
use crate::clock::{Random, SimulatedClock};
use crate::disk::{Faults, SimulatedDisk};
use crate::error::Error;
use crate::runtime::{ShardContext, SimulatedTimer};

const SHARDS: u32 = 2;
const PARTITIONS: usize = 6;

async fn open_at(disk: &SimulatedDisk, root: &str, shards: u32) -> crate::error::Result<Database> {
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let (timer, _) = SimulatedTimer::passing(clock.clone(), 50);
    let contexts = (0..shards).map(|shard| {
        let timer = Rc::new(timer.clone());
        ShardContext::new((shard, shards), disk.shared(), clock.clone(), timer, 7)
    });
    let options =
        Options { commitlog_segment_bytes: 1 << 16, clock: clock.clone(), ..Options::new(root) };
    Database::open_local(options, contexts.collect()).await
}

fn play<F: Future>(work: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    LocalSet::new().block_on(&runtime, work)
}

fn partition(at: usize) -> String {
    format!("p{at}")
}

/// The values of each partition, in the order of rows.
async fn all_values(database: &Database) -> Vec<Vec<i64>> {
    let schema = database.catalog().table("default", "t").unwrap().clone();
    let mut all = Vec::new();
    for at in 0..PARTITIONS {
        let read = read_of(&schema, &partition(at), Slice::full(Direction::Forward), None);
        all.push(values(database, read).await);
    }
    all
}

async fn write(database: &Database, schema: &SchemaRef, at: usize, row: i32) {
    let stamp = database.timestamp_us();
    let row = insert(schema, &partition(at), row, i64::from(row), stamp);
    database.apply(row).await.unwrap();
}

fn rows(count: i64) -> Vec<Vec<i64>> {
    vec![(0..count).collect(); PARTITIONS]
}

/// Names in the folder of exports.
async fn exports(disk: &SimulatedDisk) -> Vec<String> {
    let entries = disk.shared().list(Path::new("/db/exports")).await.unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

#[test]
fn an_export_is_a_snapshot_that_goes_when_it_was_sent() {
    play(async {
        let disk = SimulatedDisk::new(1);
        let database = open_at(&disk, "/db", SHARDS).await.unwrap();
        let schema = database.create_table(definition(), false).await.unwrap();
        for at in 0..PARTITIONS {
            write(&database, &schema, at, 0).await;
        }
        let [first, second] = [database.export().await.unwrap(), database.export().await.unwrap()];
        assert_eq!(first.snapshot().tables, 1);
        assert_ne!(first.folder(), second.folder());
        assert_eq!(exports(&disk).await.len(), 2);
        // What is compacted away meanwhile stays in it.
        for row in 1..3 {
            for at in 0..PARTITIONS {
                write(&database, &schema, at, row).await;
            }
            database.flush(None).await.unwrap();
        }
        database.compact(schema.id).await.unwrap();
        let copied = open_at(&disk, first.folder().to_str().unwrap(), SHARDS).await.unwrap();
        assert_eq!(all_values(&copied).await, rows(1));
        copied.close().await.unwrap();
        first.remove().await.unwrap();
        assert_eq!(exports(&disk).await.len(), 1);
        // Nobody waits for the second any more.
        drop(second);
        while !exports(&disk).await.is_empty() {
            tokio::task::yield_now().await;
        }
        // A place that is removed at the next opening is none for a snapshot.
        let within = database.snapshot("/db/exports/mine").await.unwrap_err();
        assert!(within.to_string().contains("is within the data directory"), "{within}");
        let left = database.export().await.unwrap();
        database.close().await.unwrap();
        drop(left);
        assert_eq!(exports(&disk).await.len(), 1, "a closed database removes nothing");
        let database = open_at(&disk, "/db", SHARDS).await.unwrap();
        assert!(exports(&disk).await.is_empty());
        assert_eq!(all_values(&database).await, rows(3));
        database.close().await.unwrap();
    });
}

#[test]
fn a_snapshot_holds_what_was_there_and_is_a_database() {
    play(async {
        let disk = SimulatedDisk::new(1);
        let database = open_at(&disk, "/db", SHARDS).await.unwrap();
        let schema = database.create_table(definition(), false).await.unwrap();
        for row in 0..3 {
            for at in 0..PARTITIONS {
                write(&database, &schema, at, row).await;
            }
            if row < 2 {
                database.flush(None).await.unwrap();
            }
        }
        let made = database.snapshot("/snap").await.unwrap();
        assert_eq!((made.tables, made.bytes > 0), (1, true), "{made:?}");
        let named: Vec<_> = database.sstable_report().await.unwrap();
        assert_eq!(made.sstables, named.len() as u64);
        // What comes later changes files and rows of the database alone.
        for at in 0..PARTITIONS {
            write(&database, &schema, at, 3).await;
        }
        database.flush(None).await.unwrap();
        database.compact(schema.id).await.unwrap();
        let disk = disk.power_cut();
        let copy = open_at(&disk, "/snap", SHARDS).await.unwrap();
        assert_eq!(all_values(&copy).await, rows(3));
        // Its own log begins anew: nothing in it is taken for flushed.
        let schema = copy.catalog().table("default", "t").unwrap().clone();
        for at in 0..PARTITIONS {
            write(&copy, &schema, at, 3).await;
        }
        let disk = disk.power_cut();
        for (root, shards) in [("/snap", SHARDS), ("/snap", 3), ("/db", SHARDS)] {
            let database = open_at(&disk, root, shards).await.unwrap();
            assert_eq!(all_values(&database).await, rows(4), "{root} on {shards} shards");
            database.close().await.unwrap();
        }
    });
}

#[test]
fn a_directory_that_will_not_do_is_refused_and_left_alone() {
    play(async {
        let disk = SimulatedDisk::new(1);
        let database = open_at(&disk, "/db", SHARDS).await.unwrap();
        database.create_table(definition(), false).await.unwrap();
        database.snapshot("/snap").await.unwrap();
        let before = disk.files().len();
        for (root, wanted) in [("/snap", "is not empty"), ("/db/inside", "within the data")] {
            let error = database.snapshot(root).await.unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "{error}");
            assert!(error.to_string().contains(wanted), "{error}");
        }
        assert_eq!(disk.files().len(), before);
        // A table of files of another shard count is known by several manifests.
        let schema = database.catalog().table("default", "t").unwrap().clone();
        for at in 0..PARTITIONS {
            write(&database, &schema, at, 0).await;
        }
        database.close().await.unwrap();
        let database = open_at(&disk, "/db", 3).await.unwrap();
        let error = database.snapshot("/other").await.unwrap_err().to_string();
        assert!(error.contains("another number of shards"), "{error}");
        assert!(disk.files().iter().all(|(path, _)| !path.starts_with("/other")), "parts stay");
        assert_eq!(all_values(&database).await, rows(1));
    });
}

/// Writers write rows 0, 1, 2, … of each partition, and batches to all of them, while a snapshot is
/// made. Each partition has what was acknowledged before, and no row without those before it.
async fn beside_writers(seed: u64) {
    let mut random = Random::new(seed);
    let disk = SimulatedDisk::new(seed);
    let database = open_at(&disk, "/db", SHARDS).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    disk.set_faults(Faults { delay_turns_max: 1 + random.below(40) as u32, ..Faults::default() });
    let is_over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let written = Rc::new(std::cell::Cell::new(0));
    let writer = tokio::task::spawn_local({
        let (database, schema) = (database.clone(), schema.clone());
        let (is_over, written) = (is_over.clone(), written.clone());
        async move {
            for row in 0.. {
                if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    return;
                }
                let stamp = database.timestamp_us();
                let parts = (0..PARTITIONS)
                    .map(|at| insert(&schema, &partition(at), row, i64::from(row), stamp));
                // Every row is one batch: all partitions have it, or none.
                database.apply_logged(parts.collect()).await.unwrap();
                written.set(i64::from(row) + 1);
                if row % 5 == 4 {
                    database.flush(None).await.unwrap();
                }
            }
        }
    });
    for _ in 0..random.below(2000) {
        tokio::task::yield_now().await;
    }
    let before = written.get();
    database.snapshot("/snap").await.unwrap();
    is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    writer.await.unwrap();
    let disk = disk.power_cut();
    let copy = open_at(&disk, "/snap", SHARDS).await.unwrap();
    let found = all_values(&copy).await;
    let count = found[0].len() as i64;
    assert_eq!(found, rows(count), "seed {seed}: {before} were acknowledged");
    assert!(count >= before && count <= written.get(), "seed {seed}: {count} of {before}");
    // Nothing of the batches is left to apply.
    assert!(disk.files().iter().all(|(path, _)| !path.starts_with("/snap/batches")));
}

#[test]
fn a_snapshot_beside_writers_is_whole() {
    for seed in 0..8 {
        play(beside_writers(seed));
    }
}

#[test]
fn a_power_cut_leaves_a_snapshot_or_what_is_told_from_one() {
    let (mut whole, mut cut) = (0, 0);
    let mut turns = 0_u64;
    loop {
        let disk = SimulatedDisk::new(turns);
        let is_over = play(async {
            let database = open_at(&disk, "/db", SHARDS).await.unwrap();
            let schema = database.create_table(definition(), false).await.unwrap();
            for at in 0..PARTITIONS {
                write(&database, &schema, at, 0).await;
            }
            disk.set_faults(Faults { delay_turns_max: 40, ..Faults::default() });
            let mut making = Box::pin(database.snapshot("/snap"));
            let mut is_over = false;
            for _ in 0..turns {
                is_over = futures::poll!(&mut making).is_ready();
                if is_over {
                    break;
                }
                tokio::task::yield_now().await;
            }
            is_over
        });
        let disk = disk.power_cut();
        play(async {
            let has_catalog =
                disk.files().iter().any(|(path, _)| path == Path::new("/snap/catalog"));
            assert!(has_catalog || !is_over, "after {turns} turns it was answered, and is gone");
            match has_catalog {
                true => {
                    let copy = open_at(&disk, "/snap", SHARDS).await.unwrap();
                    assert_eq!(all_values(&copy).await, rows(1), "after {turns} turns");
                    whole += 1;
                }
                false => cut += 1,
            }
            let database = open_at(&disk, "/db", SHARDS).await.unwrap();
            assert_eq!(all_values(&database).await, rows(1), "after {turns} turns");
        });
        if is_over {
            break;
        }
        turns += 1 + turns / 16;
    }
    assert!(whole > 0 && cut > 10, "{whole} whole, {cut} cut short");
}

#[tokio::test]
async fn files_are_shared_with_the_database() {
    let directory = tempfile::tempdir().unwrap();
    let (root, snap) = (directory.path().join("db"), directory.path().join("deep/snap"));
    let options = Options { shards: Some(SHARDS), ..Options::new(&root) };
    let database = Database::open(options).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    for at in 0..PARTITIONS {
        write(&database, &schema, at, 0).await;
    }
    let made = database.snapshot(&snap).await.unwrap();
    database.close().await.unwrap();
    let folder = snap.join("data/default");
    let folder = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let mut shared = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        use std::os::unix::fs::MetadataExt;
        let entry = entry.unwrap();
        if entry.file_name().to_str().unwrap().ends_with("-Data.db") {
            assert_eq!(entry.metadata().unwrap().nlink(), 2, "{:?}", entry.path());
            shared += 1;
        }
    }
    assert_eq!(shared, made.sstables);
    let copy = Options { shards: Some(SHARDS), ..Options::new(&snap) };
    let copy = Database::open(copy).await.unwrap();
    assert_eq!(all_values(&copy).await, rows(1));
    copy.close().await.unwrap();
    let elsewhere = Path::new("/dev/shm").join(format!("tidegate-{}", std::process::id()));
    let database = Database::open(Options { shards: Some(SHARDS), ..Options::new(&root) });
    let database = database.await.unwrap();
    match database.snapshot(&elsewhere).await {
        // The same file system, in some containers.
        Ok(_) => {}
        Err(error) => assert!(error.to_string().contains("another file system"), "{error}"),
    }
    let _ = std::fs::remove_dir_all(&elsewhere);
    database.close().await.unwrap();
}

/// Rows that are in memory only are in no file that a snapshot could have.
#[test]
fn no_snapshot_is_made_of_a_table_that_cannot_be_flushed() {
    play(async {
        let disk = SimulatedDisk::new(1);
        let database = open_at(&disk, "/db", SHARDS).await.unwrap();
        let schema = database.create_table(definition(), false).await.unwrap();
        for row in 0..2 {
            database.flush(None).await.unwrap();
            for at in 0..PARTITIONS {
                write(&database, &schema, at, row).await;
            }
        }
        let folder = PathBuf::from(format!("/db/data/default/t-{}", schema.id.hex()));
        disk.set_read_only(Some(&folder));
        for _ in 0..2 {
            let refused = database.snapshot("/snap").await.unwrap_err().to_string();
            assert!(refused.contains("Permission denied"), "{refused}");
            assert!(disk.files().iter().all(|(path, _)| !path.starts_with("/snap")), "parts stay");
            let refused = database.export().await.err().unwrap().to_string();
            assert!(refused.contains("Permission denied"), "{refused}");
            assert!(exports(&disk).await.is_empty());
        }
        disk.set_read_only(None);
        database.snapshot("/snap").await.unwrap();
        let copy = open_at(&disk, "/snap", SHARDS).await.unwrap();
        assert_eq!(all_values(&copy).await, rows(2));
        copy.close().await.unwrap();
        database.close().await.unwrap();
    });
}
