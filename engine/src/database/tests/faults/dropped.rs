//! What a table leaves behind: its log, its writers, its numbers; and what a clock that goes back
//! does not do.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::task::Poll;

use super::failing_disk::{FailingDisk, WAITS, failing_at};
use super::log_limit::{SEGMENT_BYTES, log_bytes, open, open_at, run};
use super::*;
use crate::clock::{Clock, SimulatedClock};
use crate::commitlog::Recovery;
use crate::disk::{AlignedBuffer, Disk, OpenOptions, SimulatedDisk, read_file};
use crate::error::Error;
use crate::runtime::{ShardContext, SimulatedTimer};

const MEMTABLE_BYTES: usize = 32 << 10;

/// A disk on which no SSTable is begun while it is held.
fn may_be_held(disk: &SimulatedDisk) -> (Rc<Cell<bool>>, Rc<dyn Disk>) {
    let is_held = Rc::new(Cell::new(false));
    let holds = is_held.clone();
    let slow = FailingDisk::shared(disk.shared(), move |path| {
        let is_sstable = path.to_string_lossy().ends_with("-Data.db");
        (holds.get() && is_sstable).then_some(WAITS)
    });
    (is_held, slow)
}

#[test]
fn a_dropped_table_releases_its_log() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let database = open(disk.shared(), 1 << 30).await;
        let kept = TableSchema { name: "kept".into(), ..definition() };
        let kept = database.create_table(kept, false).await.unwrap();
        let t = database.create_table(definition(), false).await.unwrap();
        // Each takes a block; the log does not come near its limit.
        for at in 0..50 {
            database.apply(insert(&t, "a", at, 1, 1)).await.unwrap();
        }
        database.apply(insert(&kept, "a", 1, 1, 1)).await.unwrap();
        let before = log_bytes(&disk).await;
        assert!(before > 3 * SEGMENT_BYTES, "{before}");
        database.drop_table("default", "t", false).await.unwrap();
        // The one that is written to, and spare ones.
        let after = log_bytes(&disk).await;
        assert!(after <= 3 * SEGMENT_BYTES, "{after} of {before}");
        let again = open(disk.power_cut().shared(), 1 << 30).await;
        assert_eq!(count_rows(&again, &kept, "a").await.unwrap(), 1);
        assert!(again.catalog().table("default", "t").is_none());
    });
}

#[test]
fn a_write_that_waited_for_memory_while_its_table_was_dropped_is_refused() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let (is_held, slow) = may_be_held(&disk);
        let database = open(slow, MEMTABLE_BYTES).await;
        let full = TableSchema { name: "full".into(), ..definition() };
        let full = database.create_table(full, false).await.unwrap();
        let t = database.create_table(definition(), false).await.unwrap();
        is_held.set(true);
        let memory = async || {
            let reports = database.table_report().await.unwrap();
            reports.iter().map(|report| report.memtable_bytes).sum::<u64>()
        };
        let mut at = 0;
        // Many at a time take few blocks, so that the log stays short; the last ones come alone.
        for (rows, left) in [(50, 8 << 10), (10, 1 << 10), (1, 0)] {
            while memory().await <= (2 * MEMTABLE_BYTES - left) as u64 {
                let many = (0..rows).map(|row| insert(&full, "a", at + row, 1, 1));
                database.apply_many(many.collect()).await.unwrap();
                at += rows;
            }
        }
        // Nothing is flushed meanwhile: both wait.
        let mut waiting = [
            Box::pin(database.apply(insert(&t, "a", 1, 1, 1))),
            Box::pin(database.apply(insert(&full, "a", at, 1, 1))),
        ];
        for _ in 0..200 {
            for write in &mut waiting {
                assert!(futures::poll!(write).is_pending(), "it waits for memory");
            }
            tokio::task::yield_now().await;
        }
        database.drop_table("default", "t", false).await.unwrap();
        is_held.set(false);
        let [of_dropped, of_full] = waiting;
        let refused = of_dropped.await;
        assert!(matches!(refused, Err(Error::NotFound { .. })), "{refused:?}");
        of_full.await.unwrap();
        assert_eq!(count_rows(&database, &full, "a").await.unwrap(), at as usize + 1);
        let again = open(disk.power_cut().shared(), MEMTABLE_BYTES).await;
        assert_eq!(count_rows(&again, &full, "a").await.unwrap(), at as usize + 1);
    });
}

/// What comes of it within some seconds of simulated time, if anything does.
async fn unless_it_waits<F: Future + Unpin>(work: &mut F) -> Option<F::Output> {
    for _ in 0..100_000 {
        if let Poll::Ready(done) = futures::poll!(&mut *work) {
            return Some(done);
        }
        tokio::task::yield_now().await;
    }
    None
}

#[test]
fn a_write_that_waited_for_the_log_while_its_table_was_dropped_is_refused() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let (is_held, slow) = may_be_held(&disk);
        let database = open(slow, 1 << 30).await;
        let full = TableSchema { name: "full".into(), ..definition() };
        let full = database.create_table(full, false).await.unwrap();
        let t = database.create_table(definition(), false).await.unwrap();
        is_held.set(true);
        let mut at = 0;
        // Each takes a block of the log, until that is full.
        let of_full = loop {
            let mut write = Box::pin(database.apply(insert(&full, "a", at, 1, 1)));
            match unless_it_waits(&mut write).await {
                Some(written) => written.unwrap(),
                None => break write,
            }
            at += 1;
            assert!(at < 1000, "nothing stops the writer");
        };
        let mut of_dropped = Box::pin(database.apply(insert(&t, "a", 1, 1, 1)));
        assert!(unless_it_waits(&mut of_dropped).await.is_none(), "it waits for the log");
        database.drop_table("default", "t", false).await.unwrap();
        is_held.set(false);
        let refused = of_dropped.await;
        assert!(matches!(refused, Err(Error::NotFound { .. })), "{refused:?}");
        of_full.await.unwrap();
        assert_eq!(count_rows(&database, &full, "a").await.unwrap(), at as usize + 1);
    });
}

/// What stopped a writer is told only while it lasts. Writes come so many rows at once, until one
/// is refused with what is `wanted`; from then on the disk is only slow, and the next one waits.
async fn check_next_one_waits(memtable_bytes: usize, rows: i32, wanted: impl Fn(&Error) -> bool) {
    let disk = SimulatedDisk::new(1);
    let met = Rc::new(Cell::new(Some(28)));
    let fails = met.clone();
    let failing = FailingDisk::shared(disk.shared(), move |path| {
        let is_sstable = path.to_string_lossy().ends_with("-Data.db");
        fails.get().filter(|_| is_sstable)
    });
    let database = open(failing, memtable_bytes).await;
    let full = TableSchema { name: "full".into(), ..definition() };
    let full = database.create_table(full, false).await.unwrap();
    let t = database.create_table(definition(), false).await.unwrap();
    let many = |schema: &SchemaRef, at: i32| {
        let rows = (0..rows).map(|row| insert(schema, "a", at + row, 1, 1));
        database.apply_many(rows.collect())
    };
    let mut at = 0;
    let refused = loop {
        match many(&full, at).await {
            Ok(()) => at += rows,
            Err(error) => break error,
        }
        assert!(at < 10_000, "nothing stops the writer");
    };
    assert!(wanted(&refused), "{refused}");
    // With the table goes what could not be flushed, and from here on the disk is only slow.
    database.drop_table("default", "full", false).await.unwrap();
    met.set(Some(WAITS));
    for _ in 0..200_000 {
        tokio::task::yield_now().await;
    }
    let mut at = 0;
    let mut waiting = loop {
        let mut write = Box::pin(many(&t, at));
        match unless_it_waits(&mut write).await {
            Some(written) => written.unwrap(),
            None => break write,
        }
        at += rows;
        assert!(at < 10_000, "nothing stops the writer");
    };
    met.set(None);
    let written = unless_it_waits(&mut waiting).await;
    written.expect("it waits though files can be made again").unwrap();
    assert_eq!(count_rows(&database, &t, "a").await.unwrap(), (at + rows) as usize);
}

#[test]
fn a_writer_waits_for_a_flush_whatever_an_earlier_one_met() {
    run(check_next_one_waits(MEMTABLE_BYTES, 20, Error::is_disk_full));
}

#[test]
fn a_writer_waits_for_the_log_whatever_an_earlier_one_met() {
    run(check_next_one_waits(1 << 30, 1, |error| matches!(error, Error::Overloaded(_))));
}

/// Generations of the table's SSTables, those set aside included.
async fn generations(disk: &SimulatedDisk, folder: &Path) -> Vec<u64> {
    let mut found = Vec::new();
    for folder in [folder.to_owned(), folder.join("lost")] {
        let names = disk.list(&folder).await.unwrap();
        found.extend(names.iter().filter_map(|entry| crate::sstable::generation_of(&entry.name)));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Copies an SSTable to another disk, or under another number.
async fn copy_sstable(from: &SimulatedDisk, to: &SimulatedDisk, folder: &Path, number: [u64; 2]) {
    let [old, new] = number.map(|number| format!("me-{number}-big-"));
    for entry in from.list(folder).await.unwrap() {
        let Some(component) = entry.name.strip_prefix(&old) else { continue };
        let content = read_file(from, &folder.join(&entry.name)).await.unwrap();
        let path = folder.join(format!("{new}{component}"));
        let file = to.open(&path, OpenOptions::CREATE).await.unwrap();
        file.write_at(0, AlignedBuffer::padded(&content)).await.0.unwrap();
        file.truncate(content.len() as u64).await.unwrap();
        file.sync().await.unwrap();
    }
    to.sync_directory(folder).await.unwrap();
}

/// A table of two rows, of which the first is in an SSTable; the second one, too, where it
/// `flushes`. The disk after the end, or else after a crash.
async fn with_two_rows(flushes: bool) -> (SimulatedDisk, SchemaRef, PathBuf) {
    let disk = SimulatedDisk::new(1);
    let database = open(disk.shared(), 1 << 30).await;
    let t = database.create_table(definition(), false).await.unwrap();
    database.apply(insert(&t, "a", 1, 1, 1)).await.unwrap();
    database.flush(None).await.unwrap();
    database.apply(insert(&t, "a", 2, 1, 1)).await.unwrap();
    let folder = PathBuf::from(format!("/db/data/default/t-{}", t.id.hex()));
    if flushes {
        database.close().await.unwrap();
        return (disk, t, folder);
    }
    (disk.power_cut(), t, folder)
}

/// That table after a crash between its second SSTable and the manifest, and the number of that.
async fn with_unnamed() -> (SimulatedDisk, SchemaRef, PathBuf, u64) {
    let (disk, t, folder) = with_two_rows(false).await;
    let (whole, same, _) = with_two_rows(true).await;
    assert_eq!(t.id, same.id, "a seed decides the run");
    let unnamed = generations(&whole, &folder).await.into_iter().max().unwrap();
    copy_sstable(&whole, &disk, &folder, [unnamed; 2]).await;
    (disk, t, folder, unnamed)
}

#[test]
fn what_was_set_aside_goes_when_the_log_had_it_and_its_number_is_never_given_again() {
    // Without ledgers nobody knows that the manifests are whole: then it stays.
    for has_ledger in [true, false] {
        run(async {
            let (disk, t, folder, unnamed) = with_unnamed().await;
            if !has_ledger {
                disk.remove(Path::new("/db/ledger/0-of-1")).await.unwrap();
            }
            let mut used = vec![unnamed];
            for round in 3..6 {
                let database = open(disk.shared(), 1 << 30).await;
                let lost = disk.list(&folder.join("lost")).await.unwrap().len();
                assert_eq!(lost == 0, has_ledger, "round {round}: {lost} files");
                let names = disk.list(&folder).await.unwrap();
                let has_folder = names.iter().any(|entry| entry.name == "lost");
                assert_eq!(has_folder, lost > 0, "round {round}: the folder goes with its files");
                database.apply(insert(&t, "a", round, 1, 1)).await.unwrap();
                database.flush(None).await.unwrap();
                database.close().await.unwrap();
                let mut new = generations(&disk, &folder).await;
                new.retain(|generation| *generation != unnamed);
                let new = new.into_iter().max().unwrap();
                assert!(used.iter().all(|old| *old < new), "{new} after {used:?}");
                used.push(new);
            }
            let database = open(disk.shared(), 1 << 30).await;
            assert_eq!(count_rows(&database, &t, "a").await.unwrap(), 5);
        });
    }
}

async fn open_recovering(disk: &SimulatedDisk, recovery: Recovery) -> Database {
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let timer = Rc::new(SimulatedTimer::new(clock.clone()));
    let context = ShardContext::new((0, 1), disk.shared(), clock.clone(), timer, 5);
    let options = Options {
        commitlog_segment_bytes: SEGMENT_BYTES,
        recovery,
        clock,
        ..Options::new(Path::new("/db"))
    };
    Database::open_local(options, vec![context]).await.unwrap()
}

/// The log had all of it, and is read no more: then it is the only one that has.
#[test]
fn what_was_set_aside_stays_when_a_part_of_the_log_is_left_out() {
    run(async {
        let (disk, t, folder, unnamed) = with_unnamed().await;
        let log = Path::new("/db/commitlog/0-of-1");
        for entry in disk.list(log).await.unwrap() {
            disk.remove(&log.join(entry.name)).await.unwrap();
        }
        for recovery in [Recovery::SkipDamagedLog, Recovery::Refuse] {
            let database = open_recovering(&disk, recovery).await;
            assert_eq!(count_rows(&database, &t, "a").await.unwrap(), 1, "{recovery:?}");
            database.close().await.unwrap();
            let lost = disk.list(&folder.join("lost")).await.unwrap();
            let prefix = format!("me-{unnamed}-big-");
            assert!(lost.len() > 5, "{recovery:?}: {lost:?}");
            assert!(lost.iter().all(|entry| entry.name.starts_with(&prefix)), "{lost:?}");
        }
    });
}

#[test]
fn files_that_the_manifest_did_not_take_go_with_the_next_flush() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let is_manifest = |path: &Path| path.to_string_lossy().contains("manifest");
        let (failing, met) = failing_at(disk.shared(), is_manifest);
        let database = open(failing, 1 << 30).await;
        let t = database.create_table(definition(), false).await.unwrap();
        let folder = PathBuf::from(format!("/db/data/default/t-{}", t.id.hex()));
        database.apply(insert(&t, "a", 1, 1, 1)).await.unwrap();
        met.set(Some(28));
        for _ in 0..2 {
            database.flush(None).await.unwrap_err();
        }
        // Perhaps the manifest names them all the same.
        assert_eq!(generations(&disk, &folder).await.len(), 2);
        met.set(None);
        database.flush(None).await.unwrap();
        let left = generations(&disk, &folder).await;
        assert_eq!(left.len(), 1, "SSTables {left:?} of one flush");
        assert_eq!(count_rows(&database, &t, "a").await.unwrap(), 1);
        let again = open(disk.power_cut().shared(), 1 << 30).await;
        assert_eq!(count_rows(&again, &t, "a").await.unwrap(), 1);
    });
}

/// Whatever its number and whoever wrote it: the log has nothing of a copy of a backup.
#[test]
fn an_sstable_that_a_person_put_into_the_folder_is_never_removed() {
    for is_after_a_crash in [false, true] {
        run(async {
            let mut disk = SimulatedDisk::new(1);
            let database = open(disk.shared(), 1 << 30).await;
            let t = database.create_table(definition(), false).await.unwrap();
            database.apply(insert(&t, "a", 1, 1, 1)).await.unwrap();
            database.flush(None).await.unwrap();
            let folder = PathBuf::from(format!("/db/data/default/t-{}", t.id.hex()));
            let number = generations(&disk, &folder).await.into_iter().max().unwrap();
            if is_after_a_crash {
                database.apply(insert(&t, "a", 2, 1, 1)).await.unwrap();
                disk = disk.power_cut();
            } else {
                database.close().await.unwrap();
            }
            copy_sstable(&disk, &disk, &folder, [number, number + 40]).await;
            for _ in 0..2 {
                open(disk.shared(), 1 << 30).await.close().await.unwrap();
                let lost = disk.list(&folder.join("lost")).await.unwrap();
                let prefix = format!("me-{}-big-", number + 40);
                assert!(lost.len() > 5, "{lost:?}");
                assert!(lost.iter().all(|entry| entry.name.starts_with(&prefix)), "{lost:?}");
            }
        });
    }
}

#[test]
fn writes_after_the_clock_went_back_are_replayed_and_the_later_one_wins() {
    run(async {
        let (start_us, hour_us) = (1_700_000_000_000_000, 3_600_000_000);
        for has_ledger in [true, false] {
            let mut disk = SimulatedDisk::new(1);
            let database = open_at(disk.shared(), 1 << 30, start_us).await;
            let t = database.create_table(definition(), false).await.unwrap();
            for round in 0..4 {
                database.apply(insert(&t, "a", round, 1, 1)).await.unwrap();
            }
            // Segments are gone, SSTables remember the position.
            database.close().await.unwrap();
            for round in 1..4 {
                if !has_ledger {
                    for entry in disk.list(Path::new("/db/ledger")).await.unwrap() {
                        disk.remove(&Path::new("/db/ledger").join(entry.name)).await.unwrap();
                    }
                }
                let database = open_at(disk.shared(), 1 << 30, start_us - round * hour_us).await;
                let at = 10 * round as i32;
                database.apply(insert(&t, "a", at, round, 2)).await.unwrap();
                disk = disk.power_cut();
                let database = open_at(disk.shared(), 1 << 30, start_us - round * hour_us).await;
                let found = count_rows(&database, &t, "a").await.unwrap();
                assert_eq!(found, 4 + round as usize, "round {round}, ledger {has_ledger}");
                database.close().await.unwrap();
            }
        }
    });
}

#[test]
fn timestamps_ascend_though_the_clock_stands_still() {
    run(async {
        let clock = SimulatedClock::new(1_700_000_000_000_000);
        let disk = SimulatedDisk::new(1);
        let database = open(disk.shared(), 1 << 30).await;
        let t = database.create_table(definition(), false).await.unwrap();
        // Each is written before any time can pass.
        let stamps: Vec<i64> = (0..100).map(|_| database.timestamp_us()).collect();
        assert!(stamps.is_sorted_by(|a, b| a < b) && stamps[0] >= clock.wall_us(), "{stamps:?}");
        let writes = stamps.iter().map(|at| insert(&t, "a", 1, *at, *at));
        database.apply_many(writes.collect()).await.unwrap();
        let all = Slice::full(Direction::Forward);
        assert_eq!(rows(&database, &t, all, None).await, [*stamps.last().unwrap()]);
    });
}
