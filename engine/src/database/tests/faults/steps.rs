//! A work of several steps or tables of which one fails, and what is left of it.

use std::path::Path;
use std::rc::Rc;

use super::failing_disk::failing_at;
use super::log_limit::{SEGMENT_BYTES, open, run};
use super::*;
use crate::clock::SimulatedClock;
use crate::disk::{Disk, SimulatedDisk};
use crate::error::Error;
use crate::runtime::{ShardContext, SimulatedTimer};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const MEMTABLE_BYTES: usize = 1 << 20;

async fn open_at(disk: Rc<dyn Disk>, root: &str) -> Database {
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let (timer, _) = SimulatedTimer::passing(clock.clone(), 20);
    let context = ShardContext::new((0, 1), disk, clock.clone(), Rc::new(timer), 5);
    let options =
        Options { commitlog_segment_bytes: SEGMENT_BYTES, clock, ..Options::new(Path::new(root)) };
    Database::open_local(options, vec![context]).await.unwrap()
}

/// Whether an operation ended with this errno.
fn ended_with(error: &Error, wanted: i32) -> bool {
    matches!(error, Error::Io { code: Some(code), .. } if *code == wanted)
}

/// How many SSTables each of these tables has.
async fn sstables(database: &Database, names: [&str; 3]) -> [u64; 3] {
    let reports = database.table_report().await.unwrap();
    names.map(|name| reports.iter().find(|report| report.table == name).unwrap().sstables)
}

/// Each table is tried, and the failure is told whichever of them it is, also a second time.
#[test]
fn a_table_that_cannot_be_flushed_keeps_no_other_one_from_it() {
    let names = ["t0", "t1", "t2"];
    for failing in 0..3 {
        run(async move {
            let disk = SimulatedDisk::new(1);
            let of_table = format!("/{}-", names[failing]);
            let (failing_disk, met) = failing_at(disk.shared(), move |path: &Path| {
                let text = path.to_string_lossy();
                text.contains(&of_table) && text.ends_with("Data.db")
            });
            let database = open(failing_disk, MEMTABLE_BYTES).await;
            let mut tables = Vec::new();
            for name in names {
                let schema = TableSchema { name: name.into(), ..definition() };
                let schema = database.create_table(schema, false).await.unwrap();
                database.apply(insert(&schema, "a", 1, 1, 1)).await.unwrap();
                tables.push(schema);
            }
            met.set(Some(EIO));
            let mut wanted = [1; 3];
            wanted[failing] = 0;
            for round in 0..2 {
                let error = database.flush(None).await.unwrap_err();
                assert!(ended_with(&error, EIO), "{failing}, {round}: {error}");
                assert_eq!(sstables(&database, names).await, wanted, "{failing}, {round}");
            }
            met.set(None);
            database.flush(None).await.unwrap();
            assert_eq!(sstables(&database, names).await, [1; 3], "{failing}");
            for schema in &tables {
                database.apply(insert(schema, "a", 2, 1, 1)).await.unwrap();
            }
            database.close().await.unwrap();
            let again = open(disk.shared(), MEMTABLE_BYTES).await;
            for schema in &tables {
                let rows = count_rows(&again, schema, "a").await.unwrap();
                assert_eq!(rows, 2, "{failing}: {}", schema.name);
            }
            again.close().await.unwrap();
        });
    }
}

/// The folder of a table, its SSTable, its manifest, and the catalog, which comes last.
#[test]
fn a_snapshot_that_fails_at_any_step_leaves_nothing_and_holds_nobody_up() {
    for part in ["/t-", "Data.db", "manifest", "catalog"] {
        for code in [EIO, ENOSPC] {
            run(fail_at_step(part, code));
        }
    }
}

async fn fail_at_step(part: &'static str, code: i32) {
    let disk = SimulatedDisk::new(1);
    let (failing, met) = failing_at(disk.shared(), move |path: &Path| {
        path.starts_with("/snap") && path.to_string_lossy().contains(part)
    });
    let database = open_at(failing, "/db").await;
    let schema = database.create_table(definition(), false).await.unwrap();
    for row in 0..3 {
        database.apply(insert(&schema, "a", row, 1, 1)).await.unwrap();
    }
    met.set(Some(code));
    // What is left of the first would be refused as a folder that is not empty.
    for round in 0..2 {
        let error = database.snapshot("/snap").await.unwrap_err();
        assert!(ended_with(&error, code), "{part} {code}, {round}: {error}");
        let is_left = disk.files().iter().any(|(path, _)| path.starts_with("/snap"));
        assert!(!is_left, "{part} {code}, {round}");
    }
    let parts = vec![insert(&schema, "a", 3, 1, 1), insert(&schema, "b", 1, 1, 1)];
    database.apply_logged(parts).await.unwrap();
    let other = TableSchema { name: "other".into(), ..definition() };
    database.create_table(other, false).await.unwrap();
    met.set(None);
    assert_eq!(database.snapshot("/snap").await.unwrap().tables, 2, "{part} {code}");
    let copy = open_at(disk.shared(), "/snap").await;
    for (pk, wanted) in [("a", 4), ("b", 1)] {
        let rows = count_rows(&copy, &schema, pk).await.unwrap();
        assert_eq!(rows, wanted, "{part} {code}: {pk}");
    }
    copy.close().await.unwrap();
    database.close().await.unwrap();
}

#[test]
fn a_snapshot_on_another_file_system_says_where_there_can_be_one() {
    const EXDEV: i32 = 18;
    run(async {
        let disk = SimulatedDisk::new(1);
        let (failing, met) = failing_at(disk.shared(), |path: &Path| {
            path.starts_with("/snap") && path.to_string_lossy().ends_with("Data.db")
        });
        let database = open_at(failing, "/db").await;
        let schema = database.create_table(definition(), false).await.unwrap();
        database.apply(insert(&schema, "a", 1, 1, 1)).await.unwrap();
        met.set(Some(EXDEV));
        let error = database.snapshot("/snap").await.unwrap_err();
        let Error::Invalid(told) = &error else { panic!("{error}") };
        assert!(told.contains("'/snap' is on another file system than the data"), "{told}");
        assert!(disk.files().iter().all(|(path, _)| !path.starts_with("/snap")), "parts stay");
        // One within the data directory is on that of the data.
        let export = database.export().await.unwrap();
        assert_eq!(export.snapshot().sstables, 1);
        export.remove().await.unwrap();
        assert_eq!(count_rows(&database, &schema, "a").await.unwrap(), 1);
        database.close().await.unwrap();
    });
}
