//! What the clock decides: periodic syncs, and ids of segments that never come back.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use super::*;
use crate::ledger::Ledger;

/// Lets every operation of the disk end.
async fn settle() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

/// A log whose first record was just written by a tick after 10 ms. Where the seed has it so, the
/// sync behind that is under way.
async fn flushed(seed: u64) -> (Arc<SimulatedClock>, SimulatedDisk, Rc<Commitlog>) {
    let clock = SimulatedClock::new(START_US);
    // Long enough for the test to get a turn meanwhile.
    let faults = Faults { delay_turns_max: 2000, ..Faults::default() };
    let disk = SimulatedDisk::with_faults(seed, faults);
    let log = periodic(&disk, &clock).await;
    append(&log, &mutation(1, 0, 10)).await.unwrap();
    tick_after(&log, &clock, 10);
    while log.stats().flushes == 0 {
        tokio::task::yield_now().await;
    }
    (clock, disk, log)
}

/// A task for each record would cost more than the record.
#[test]
fn an_append_that_only_joins_a_chunk_starts_no_task() {
    run(async {
        let options = options(Durability::Periodic { ms: 10 });
        let disk = SimulatedDisk::new(1);
        let clock = SimulatedClock::new(START_US);
        let log = Commitlog::open(disk.shared(), clock, options).await.unwrap();
        let mut records = 0;
        // A write that is awaited is over by the time that one looks.
        while !log.inner.borrow().is_pumping && log.stats().flushes == 0 {
            append(&log, &mutation(1, records, 1000)).await.unwrap();
            records += 1;
            assert!(records < 1000, "a buffer that is full is written at once");
        }
        assert!(records > 10, "{records} records of a kilobyte fit no buffer");
    });
}

#[test]
fn an_append_that_comes_during_a_sync_is_durable_after_the_next_tick() {
    let mut met = 0;
    for seed in 0..40 {
        run(async {
            let (clock, disk, log) = flushed(seed).await;
            let syncs = log.stats().syncs;
            append(&log, &mutation(1, 1, 10)).await.unwrap();
            met += u32::from(syncs == 0);
            settle().await;
            // Nobody writes any more.
            tick_after(&log, &clock, 10);
            settle().await;
            let (records, _) = replayed(&disk.power_cut()).await;
            let numbers: Vec<i64> = records.iter().map(|(_, record)| number_of(record)).collect();
            assert_eq!(numbers, [0, 1], "seed {seed}");
        });
    }
    assert!(met > 20, "only {met} appends came while a sync was under way");
}

/// A record that comes during a sync waits from the start of that one on.
#[test]
fn the_longest_time_without_durability_counts_from_the_sync_before() {
    let mut met = 0;
    for seed in 0..40 {
        run(async {
            let (clock, _disk, log) = flushed(seed).await;
            append(&log, &mutation(1, 1, 10)).await.unwrap();
            if log.stats().syncs > 0 {
                return;
            }
            clock.advance(Duration::from_millis(30));
            settle().await;
            settle().await;
            assert_eq!(log.stats().unsynced_ms_max, 40, "seed {seed}");
            tick_after(&log, &clock, 50);
            settle().await;
            settle().await;
            settle().await;
            assert_eq!(log.stats().unsynced_ms_max, 80, "seed {seed}");
            met += 1;
        });
    }
    assert!(met > 5, "only {met} appends came while a sync was under way");
}

/// What lands while a sync is under way is not covered by it: the next tick syncs once more.
#[test]
fn a_chunk_that_lands_during_a_sync_is_durable_after_the_next_tick() {
    let mut met = 0;
    for seed in 0..40 {
        run(async {
            let clock = SimulatedClock::new(START_US);
            let faults = Faults { delay_turns_max: 2000, ..Faults::default() };
            let disk = SimulatedDisk::with_faults(seed, faults);
            let mut options = options(Durability::Periodic { ms: 10 });
            options.segment_bytes = 1 << 20;
            let log = Commitlog::open(disk.shared(), clock.clone(), options).await.unwrap();
            append(&log, &mutation(1, 0, 10)).await.unwrap();
            tick_after(&log, &clock, 10);
            while log.stats().flushes == 0 {
                tokio::task::yield_now().await;
            }
            // So much at once is written without a tick.
            append(&log, &mutation(1, 1, 200 << 10)).await.unwrap();
            while log.stats().flushes == 1 {
                tokio::task::yield_now().await;
            }
            met += u32::from(log.stats().syncs == 0);
            settle().await;
            settle().await;
            tick_after(&log, &clock, 10);
            settle().await;
            settle().await;
            let (records, _) = replayed(&disk.power_cut()).await;
            let numbers: Vec<i64> = records.iter().map(|(_, record)| number_of(record)).collect();
            assert_eq!(numbers, [0, 1], "seed {seed}");
        });
    }
    assert!(met > 5, "only {met} chunks landed while a sync was under way");
}

/// A disk that is slow already would be asked once more by each tick.
#[test]
fn ticks_that_come_during_a_sync_start_no_other() {
    let mut met = 0;
    for seed in 0..40 {
        run(async {
            let (clock, _disk, log) = flushed(seed).await;
            if log.stats().syncs > 0 {
                return;
            }
            for _ in 0..5 {
                tick_after(&log, &clock, 10);
            }
            settle().await;
            settle().await;
            settle().await;
            assert_eq!(log.stats().syncs, 1, "seed {seed}");
            // What comes afterwards is synced by a tick of its own.
            append(&log, &mutation(1, 1, 10)).await.unwrap();
            tick_after(&log, &clock, 10);
            settle().await;
            settle().await;
            settle().await;
            settle().await;
            settle().await;
            assert_eq!(log.stats().syncs, 2, "seed {seed}");
            met += 1;
        });
    }
    assert!(met > 5, "only {met} syncs were under way when ticks came");
}

/// A full disk does not poison the log: when there is room, ticks sync again.
#[test]
fn a_tick_that_finds_no_room_is_not_the_last_that_syncs() {
    run(async {
        let clock = SimulatedClock::new(START_US);
        let disk = SimulatedDisk::new(1);
        let log = periodic(&disk, &clock).await;
        append(&log, &mutation(1, 0, 10)).await.unwrap();
        log.sync().await.unwrap();
        let used = disk.files().iter().map(|(_, bytes)| bytes).sum();
        disk.set_faults(Faults { capacity_bytes: Some(used), ..Faults::default() });
        for number in 1.. {
            assert!(number < 100, "the disk must get full");
            let record = mutation(1, number, 3000);
            let mut appended = pin!(append(&log, &record));
            let at_once = futures::poll!(appended.as_mut());
            // What this tick syncs may wait for a segment that cannot be made.
            tick_after(&log, &clock, 10);
            settle().await;
            let done = match at_once {
                Poll::Ready(done) => done,
                Poll::Pending => ended("a record", appended).await,
            };
            if done.is_err() {
                break;
            }
        }
        disk.set_faults(Faults::default());
        append(&log, &mutation(1, 1000, 10)).await.unwrap();
        tick_after(&log, &clock, 10);
        settle().await;
        let (records, _) = replayed(&disk.power_cut()).await;
        assert_eq!(number_of(&records.last().unwrap().1), 1000);
    });
}

#[test]
fn a_sync_makes_durable_what_was_written_while_another_one_ran() {
    for seed in 0..40 {
        run(async {
            let clock = SimulatedClock::new(START_US);
            let faults = Faults { delay_turns_max: 2000, ..Faults::default() };
            let disk = SimulatedDisk::with_faults(seed, faults);
            let log = periodic(&disk, &clock).await;
            append(&log, &mutation(1, 0, 10)).await.unwrap();
            let first = log.clone();
            let first = tokio::task::spawn_local(async move { first.sync().await });
            while log.stats().flushes == 0 {
                tokio::task::yield_now().await;
            }
            append(&log, &mutation(1, 1, 10)).await.unwrap();
            log.sync().await.unwrap();
            let (records, _) = replayed(&disk.power_cut()).await;
            let numbers: Vec<i64> = records.iter().map(|(_, record)| number_of(record)).collect();
            assert_eq!(numbers, [0, 1], "seed {seed}");
            // Of the disk whose power was cut nothing comes any more.
            first.abort();
        });
    }
}

#[test]
fn ids_of_segments_never_come_back_whatever_the_clock_says() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let path = PathBuf::from("/data/ledger/0-of-1");
        let mut last = ReplayPosition::default();
        // It stands still, goes back by an hour, and to before the epoch.
        for start_us in [START_US, START_US, START_US - 3_600_000_000, -1] {
            let clock = SimulatedClock::new(start_us);
            let ledger = Ledger::open(disk.shared(), &path).await.unwrap();
            let options = CommitlogOptions { ledger: Some(ledger), ..options(Durability::Sync) };
            let log = Commitlog::open(disk.shared(), clock, options).await.unwrap();
            for number in 0..30 {
                let position = append(&log, &mutation(1, number, 3000)).await.unwrap();
                assert!(position > last, "{position:?} after {last:?}");
                last = position;
            }
            // All files go: only the ledger knows.
            log.mark_flushed(TableId(1), last).await.unwrap();
            log.close().await.unwrap();
            assert_eq!(segment_files(&disk).await, Vec::<String>::new());
        }
    });
}
