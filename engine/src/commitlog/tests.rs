//! The log at its own border: what is acknowledged, what replay finds, what is refused.

mod crash;
mod damage;
mod early;
mod full;
mod sizes;
mod time;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::block::{self, BLOCK_BYTES, PAYLOAD_BYTES, Trailer};
use super::flush::FLUSHES_IN_FLIGHT_MAX;
use super::*;
use crate::clock::SimulatedClock;
use crate::disk::{AlignedBuffer, Disk, Faults, OpenOptions, SimulatedDisk, read_file};
use crate::error::{Error, Result};
use crate::ledger::SegmentEntry;
use crate::mutation::{Cell as Value, Mutation, Row};
use crate::schema::{ColumnId, PartitionKey, TableId};

const SEGMENT_BYTES: usize = 16 * BLOCK_BYTES;
const START_US: i64 = 5_000_000;
/// Far more turns than all operations of a disk without delays take.
const TURNS_MAX: usize = 10_000;

/// Runs a test body as a shard would.
fn run<T>(body: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, body)
}

fn directory() -> PathBuf {
    PathBuf::from("/data/shard-0/commitlog")
}

fn options(durability: Durability) -> CommitlogOptions {
    CommitlogOptions {
        directory: directory(),
        shard: 0,
        shard_count: 1,
        durability,
        segment_bytes: SEGMENT_BYTES,
        first_segment_min: 0,
        ledger: None,
    }
}

async fn open(disk: &SimulatedDisk, durability: Durability) -> Rc<Commitlog> {
    let clock = SimulatedClock::new(START_US);
    Commitlog::open(disk.shared(), clock, options(durability)).await.unwrap()
}

/// Mutation `number` of `table`, of about `bytes` bytes.
fn mutation(table: u128, number: u64, bytes: usize) -> Mutation {
    let mut mutation =
        Mutation::new(TableId(table), PartitionKey::from_bytes(number.to_be_bytes()));
    let value: Vec<u8> = (0..bytes).map(|at| (number as usize + at) as u8 | 1).collect();
    mutation.static_row = Some(Row {
        cells: vec![(ColumnId(0), Value::live(number as i64, value))],
        ..Row::default()
    });
    mutation
}

async fn append(log: &Rc<Commitlog>, mutation: &Mutation) -> Result<ReplayPosition> {
    let (position, done) = log.append(mutation)?;
    done.await?;
    Ok(position)
}

/// What `work` comes to. Panics where it waits for ever.
async fn ended<T>(what: &str, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    for _ in 0..TURNS_MAX {
        if let std::task::Poll::Ready(ended) = futures::poll!(work.as_mut()) {
            return ended;
        }
        tokio::task::yield_now().await;
    }
    panic!("{what} waits for ever");
}

type Records = Vec<(ReplayPosition, Mutation)>;

async fn try_replay(disk: &SimulatedDisk) -> (Records, Result<ReplaySummary>) {
    let mut records = Vec::new();
    let result =
        replay_with(disk, Recovery::Refuse, &BTreeMap::new(), &mut |position, mutation| {
            records.push((position, mutation));
            Ok(())
        })
        .await;
    let whole = |summary: ReplaySummary| match summary.damaged.first() {
        Some(damaged) => Err(damaged.error.clone()),
        None => Ok(summary),
    };
    (records, result.and_then(whole))
}

async fn replay_with(
    disk: &SimulatedDisk,
    recovery: Recovery,
    known: &BTreeMap<u64, SegmentEntry>,
    apply: &mut records::Apply<'_>,
) -> Result<ReplaySummary> {
    let (disk, directory) = (&disk.shared(), &directory());
    Replay { disk, directory, before: u64::MAX, known, recovery }.run(apply).await
}

async fn replayed(disk: &SimulatedDisk) -> (Records, ReplaySummary) {
    let (records, summary) = try_replay(disk).await;
    let summary = summary.unwrap();
    assert!(records.is_sorted_by(|(a, _), (b, _)| a < b), "positions increase");
    assert_eq!(summary.records, records.len() as u64);
    (records, summary)
}

async fn segment_files(disk: &SimulatedDisk) -> Vec<String> {
    disk.list(&directory()).await.unwrap().into_iter().map(|entry| entry.name).collect()
}

fn path_of(position: ReplayPosition) -> PathBuf {
    segment::path(&directory(), position.segment)
}

#[test]
fn what_was_appended_is_replayed_in_order_over_segments() {
    for durability in [Durability::Sync, Durability::Periodic { ms: 10 }, Durability::None] {
        run(async {
            let disk = SimulatedDisk::new(1);
            let log = open(&disk, durability).await;
            let mut expected = Vec::new();
            for number in 0..60 {
                // Some fill more than a block, some leave less than a frame at its end.
                let record = mutation(1, number, number as usize * 137);
                expected.push((append(&log, &record).await.unwrap(), record));
            }
            assert_eq!(log.current_position(), expected[59].0);
            log.close().await.unwrap();
            assert!(matches!(append(&log, &mutation(1, 0, 1)).await, Err(Error::Closed)));
            let (records, summary) = replayed(&disk.power_cut()).await;
            assert_eq!(records, expected);
            assert!(summary.segments > 3 && summary.torn_tails == 0, "{summary:?}");
        });
    }
}

#[test]
fn writers_that_come_together_share_flushes() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let log = open(&disk, Durability::Sync).await;
        let writers = (0..64).map(|writer| {
            let log = log.clone();
            async move {
                for number in 0..10 {
                    append(&log, &mutation(1, writer * 10 + number, 40)).await.unwrap();
                }
            }
        });
        futures::future::join_all(writers).await;
        let stats = log.stats();
        assert_eq!((stats.appends, stats.records_synced), (640, 640));
        assert!(stats.records_per_sync() > 4.0, "{stats:?}");
        assert_eq!(replayed(&disk.power_cut()).await.0.len(), 640);
    });
}

#[test]
fn a_new_log_goes_on_behind_the_old_ones() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let mut last = ReplayPosition::default();
        for round in 0..3 {
            let log = open(&disk, Durability::Sync).await;
            let position = append(&log, &mutation(1, round, 10)).await.unwrap();
            assert!(position > last);
            last = position;
            log.close().await.unwrap();
        }
        let (records, summary) = replayed(&disk).await;
        assert_eq!(records.len(), 3);
        // All files gone: ids still do not come back, for the clock has moved on.
        remove_segments(&disk.shared(), &summary.paths).await.unwrap();
        assert_eq!(segment_files(&disk).await, Vec::<String>::new());
        let clock = SimulatedClock::new(START_US);
        clock.advance(Duration::from_secs(1));
        let log = Commitlog::open(disk.shared(), clock, options(Durability::Sync)).await.unwrap();
        assert!(append(&log, &mutation(1, 9, 10)).await.unwrap() > last);
    });
}

/// A log that is synced every 10 ms.
async fn periodic(disk: &SimulatedDisk, clock: &Arc<SimulatedClock>) -> Rc<Commitlog> {
    let options = options(Durability::Periodic { ms: 10 });
    Commitlog::open(disk.shared(), clock.clone(), options).await.unwrap()
}

/// Looks at the time after so many milliseconds.
fn tick_after(log: &Rc<Commitlog>, clock: &SimulatedClock, ms: u64) {
    clock.advance(Duration::from_millis(ms));
    log.tick();
}

#[test]
fn periodic_syncs_come_with_the_clock_and_sync_on_demand() {
    run(async {
        let clock = SimulatedClock::new(START_US);
        let disk = SimulatedDisk::new(1);
        let log = periodic(&disk, &clock).await;
        append(&log, &mutation(1, 0, 10)).await.unwrap();
        let settle = || async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        };
        tick_after(&log, &clock, 9);
        settle().await;
        assert_eq!(log.stats().flushes, 0, "not due yet");
        tick_after(&log, &clock, 1);
        // Comes after the sync has begun, so that one does not cover it.
        settle().await;
        append(&log, &mutation(1, 1, 10)).await.unwrap();
        assert_eq!((log.stats().flushes, log.stats().syncs), (1, 1));
        assert_eq!(log.stats().unsynced_ms_max, 10);
        tick_after(&log, &clock, 10);
        append(&log, &mutation(1, 2, 10)).await.unwrap();
        settle().await;
        tick_after(&log, &clock, 10);
        settle().await;
        assert_eq!(log.stats().records_synced, 3);
        append(&log, &mutation(1, 3, 10)).await.unwrap();
        log.sync().await.unwrap();
        append(&log, &mutation(1, 4, 10)).await.unwrap();
        let (records, _) = replayed(&disk.power_cut()).await;
        assert_eq!(records.len(), 4, "the last one was in memory only");
    });
}

#[test]
fn without_durability_a_full_buffer_is_written_and_sync_works() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let mut options = options(Durability::None);
        options.segment_bytes = 1 << 20;
        let clock = SimulatedClock::new(START_US);
        let log = Commitlog::open(disk.shared(), clock, options).await.unwrap();
        for number in 0..200 {
            append(&log, &mutation(1, number, 1000)).await.unwrap();
        }
        tokio::task::yield_now().await;
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        assert_eq!((log.stats().flushes, log.stats().syncs), (1, 0));
        log.sync().await.unwrap();
        assert_eq!(replayed(&disk.power_cut()).await.0.len(), 200);
    });
}

#[test]
fn without_durability_a_tick_hands_over_what_has_gathered() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let log = open(&disk, Durability::None).await;
        append(&log, &mutation(1, 0, 100)).await.unwrap();
        log.tick();
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        assert_eq!((log.stats().flushes, log.stats().syncs), (1, 0));
        // The process is gone; the machine is not.
        assert_eq!(replayed(&disk).await.0.len(), 1);
    });
}

#[test]
fn flushed_segments_are_released_and_others_stay() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let log = open(&disk, Durability::Sync).await;
        let mut positions = Vec::new();
        // Table 2 writes only into the first and the third segment.
        for number in 0..100 {
            let position = append(&log, &mutation(1, number, 3000)).await.unwrap();
            positions.push(position);
            if number == 0 || number == 35 {
                append(&log, &mutation(2, number, 10)).await.unwrap();
            }
        }
        let mut used: Vec<u64> = positions.iter().map(|position| position.segment).collect();
        used.dedup();
        assert!(used.len() >= 5, "{used:?}");
        let held = positions[35].segment;
        let exists = |files: &[String], id: u64| files.contains(&format!("CommitLog-2-{id}.log"));

        // One record short of everything: the segment of the last one must stay.
        log.mark_flushed(TableId(1), positions[98]).await.unwrap();
        let files = segment_files(&disk).await;
        let last = *used.last().unwrap();
        for id in &used {
            let stays = [used[0], held, last].contains(id);
            assert_eq!(exists(&files, *id), stays, "segment {id} of {used:?}: {files:?}");
        }
        assert_eq!(log.bytes_on_disk(), (files.len() * SEGMENT_BYTES) as u64);
        let stats = log.stats();
        assert!(stats.segments_removed > 0 && stats.segments_recycled > 0, "{stats:?}");

        log.mark_flushed(TableId(2), positions[34]).await.unwrap();
        assert!(!exists(&segment_files(&disk).await, used[0]));
        assert!(exists(&segment_files(&disk).await, held));
        log.mark_flushed(TableId(2), log.current_position()).await.unwrap();
        assert!(!exists(&segment_files(&disk).await, held));
        let (records, _) = replayed(&disk.power_cut()).await;
        assert!(records.iter().any(|(position, _)| *position == positions[99]));
    });
}

#[test]
fn stale_blocks_of_a_recycled_file_are_not_replayed() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let log = open(&disk, Durability::Sync).await;
        let mut number = 0;
        while log.stats().segments_recycled < 4 {
            let position = append(&log, &mutation(1, number, 2000)).await.unwrap();
            log.mark_flushed(TableId(1), position).await.unwrap();
            number += 1;
        }
        // Into a recycled file, of which nearly all stays as it was.
        let segment = log.current_position().segment;
        while log.current_position().segment == segment {
            append(&log, &mutation(1, number, 2000)).await.unwrap();
            number += 1;
        }
        let (_, done) = log.append(&mutation(1, number, 9000)).unwrap();
        done.await.unwrap();
        let content = read_file(&disk, &path_of(log.current_position())).await.unwrap();
        let last = content.chunks(BLOCK_BYTES).next_back().unwrap();
        assert!(!block::is_zero(last), "the file was used before");
        let (records, summary) = replayed(&disk.power_cut()).await;
        assert_eq!(records.last().unwrap().1, mutation(1, number, 9000));
        let numbers: Vec<i64> = records.iter().map(|(_, record)| number_of(record)).collect();
        assert!(numbers.is_sorted(), "{numbers:?}");
        assert_eq!(summary.torn_tails, 0, "stale blocks are an end, not a torn tail");
    });
}

fn number_of(mutation: &Mutation) -> i64 {
    mutation.static_row.as_ref().unwrap().cells[0].1.timestamp
}

/// A segment as one run left it: two acknowledged chunks and a third of two blocks.
async fn three_chunks() -> (SimulatedDisk, Vec<ReplayPosition>, Vec<u8>) {
    let disk = SimulatedDisk::new(1);
    let log = open(&disk, Durability::Sync).await;
    let mut positions = Vec::new();
    for (number, bytes) in [(0, 100), (1, 200), (2, 5000)] {
        positions.push(append(&log, &mutation(1, number, bytes)).await.unwrap());
    }
    let content = read_file(&disk, &path_of(positions[0])).await.unwrap();
    (disk, positions, content)
}

async fn overwrite(disk: &SimulatedDisk, path: &Path, content: &[u8]) {
    let access = crate::disk::Access::ReadWrite;
    let file = disk.open(path, OpenOptions { access, data_sync: true }).await.unwrap();
    file.write_at(0, AlignedBuffer::padded(content)).await.0.unwrap();
}

#[test]
fn a_tail_torn_at_any_byte_is_the_end_and_no_error() {
    run(async {
        let (disk, positions, whole) = three_chunks().await;
        let path = path_of(positions[0]);
        let (start, end) = (positions[2].offset as usize, positions[2].offset as usize + 8192);
        let whole = whole[..end + 2 * BLOCK_BYTES].to_vec();
        // Before the last chunk: zeros of a new file, or blocks of an earlier life of it.
        let mut old = whole.clone();
        for at in (start..end).step_by(BLOCK_BYTES) {
            let block = &mut old[at..at + BLOCK_BYTES];
            block[..PAYLOAD_BYTES].fill(7);
            block::seal(
                block,
                at as u32,
                Trailer { segment: 3, stable: u32::MAX, starts_chunk: true },
            );
        }
        let mut zeros = whole.clone();
        zeros[start..end].fill(0);
        for before in [zeros, old] {
            for cut in start..end {
                // What the front of the write left, and what its back would have.
                for is_front in [true, false] {
                    let mut torn = before.clone();
                    let kept = if is_front { start..cut } else { cut..end };
                    torn[kept.clone()].copy_from_slice(&whole[kept]);
                    if torn == whole {
                        continue;
                    }
                    let mut found = Vec::new();
                    let mut summary = ReplaySummary::default();
                    replay::replay_segment(
                        positions[0].segment,
                        &path,
                        &torn,
                        &mut |position, _| {
                            found.push(position);
                            Ok(())
                        },
                        &mut summary,
                    )
                    .unwrap();
                    assert_eq!(found, positions[..2], "cut at {cut}");
                    let is_unwritten = torn == before;
                    assert_eq!(summary.torn_tails, u64::from(!is_unwritten), "cut at {cut}");
                }
            }
        }
        // The same through a disk, sector by sector.
        for cut in (start..end).step_by(512) {
            let mut torn = whole.clone();
            torn[cut..cut + 512].fill(0xee);
            overwrite(&disk, &path, &torn).await;
            let (records, summary) = replayed(&disk).await;
            assert_eq!((records.len(), summary.torn_tails), (2, 1), "cut at {cut}");
        }
        overwrite(&disk, &path, &whole).await;
        assert_eq!(replayed(&disk).await.0.len(), 3);
    });
}

#[test]
fn damage_before_the_tail_names_file_and_offset() {
    run(async {
        let (disk, positions, whole) = three_chunks().await;
        let path = path_of(positions[0]);
        for at in [0, 20, 4000, 4096, 4100, 5000, 8191] {
            disk.corrupt(&path, at, 0x10);
            let (records, result) = try_replay(&disk).await;
            let Err(Error::Corrupt(corruption)) = result else { panic!("{at}: {result:?}") };
            assert_eq!(corruption.file, path);
            assert_eq!(corruption.offset, at / 4096 * 4096);
            assert!(corruption.found.starts_with("checksum"), "{corruption}");
            assert_eq!(records.len(), 0);
            disk.corrupt(&path, at, 0x10);
        }
        // A lost write is damage too: the block is whole, but it is not what was acknowledged.
        let mut lost = whole.clone();
        lost[4096..8192].fill(0);
        overwrite(&disk, &path, &lost).await;
        let (_, result) = try_replay(&disk).await;
        assert!(result.unwrap_err().to_string().contains("found zeros"));
        overwrite(&disk, &path, &whole).await;
        assert_eq!(replayed(&disk).await.0.len(), 3);
    });
}

#[test]
fn after_a_close_or_a_new_segment_even_the_last_chunk_is_vouched_for() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let log = open(&disk, Durability::Sync).await;
        let mut positions = vec![append(&log, &mutation(1, 0, 100)).await.unwrap()];
        while positions.last().unwrap().segment == positions[0].segment {
            positions.push(append(&log, &mutation(1, 1, 3000)).await.unwrap());
        }
        log.close().await.unwrap();
        let lasts = [positions[positions.len() - 2], positions[positions.len() - 1]];
        assert_ne!(lasts[0].segment, lasts[1].segment);
        for last in lasts {
            disk.corrupt(&path_of(last), u64::from(last.offset) + 50, 1);
            let (_, result) = try_replay(&disk).await;
            let Err(Error::Corrupt(corruption)) = result else { panic!("{result:?}") };
            let offset = u64::from(last.offset / 4096 * 4096);
            assert_eq!((corruption.file, corruption.offset), (path_of(last), offset));
            disk.corrupt(&path_of(last), u64::from(last.offset) + 50, 1);
        }
    });
}

#[test]
fn a_failed_write_or_sync_poisons_the_log_for_good() {
    for durability in [Durability::Sync, Durability::Periodic { ms: 10 }] {
        run(async {
            let disk = SimulatedDisk::new(1);
            let log = open(&disk, durability).await;
            append(&log, &mutation(1, 0, 10)).await.unwrap();
            log.sync().await.unwrap();
            let syncs = disk.counters().syncs;
            let faults = match durability {
                Durability::Sync => Faults { write_error_one_in: 1, ..Faults::default() },
                _ => Faults { sync_error_one_in: 1, ..Faults::default() },
            };
            disk.set_faults(faults);
            let (_, done) = log.append(&mutation(1, 1, 10)).unwrap();
            let synced = log.sync().await;
            assert!(matches!(synced, Err(Error::Poisoned { shard: 0, .. })), "{synced:?}");
            if durability == Durability::Sync {
                assert!(matches!(done.await, Err(Error::Poisoned { .. })));
            } else {
                assert_eq!(disk.counters().syncs, syncs + 1, "a sync is never tried again");
            }
            disk.set_faults(Faults::default());
            let refused = log.append(&mutation(1, 2, 10)).map(|_| ());
            assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
            assert!(matches!(log.sync().await, Err(Error::Poisoned { .. })));
            assert!(matches!(log.close().await, Err(Error::Poisoned { .. })));
            let (records, _) = replayed(&disk.power_cut()).await;
            assert_eq!(number_of(&records[0].1), 0, "what was acknowledged is there");
        });
    }
}

/// Whatever stage a record has come to when a write fails, whoever waits for it is told.
#[test]
fn no_record_waits_for_ever_behind_one_that_failed() {
    let (mut told, mut gathering) = (0, 0);
    for turns in 0..80 {
        run(async {
            let disk = SimulatedDisk::new(turns);
            let log = open(&disk, Durability::Sync).await;
            // Many turns of the disk pass while this one yields once.
            let delay_turns_max = 3000;
            let faults = Faults { write_error_one_in: 1, delay_turns_max, ..Faults::default() };
            disk.set_faults(faults);
            let first = log.append(&mutation(1, 0, 10)).unwrap().1;
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            // By then the log may have failed already.
            let Ok((_, second)) = log.append(&mutation(1, 1, 10)) else { return };
            let mut all = vec![first, second];
            // With so many writes in flight the last ones gather.
            while all.len() < FLUSHES_IN_FLIGHT_MAX + 3
                && let Ok((_, next)) = log.append(&mutation(1, all.len() as u64, 10))
            {
                all.push(next);
                tokio::task::yield_now().await;
            }
            gathering += u32::from(log.inner.borrow().forming.is_some());
            let mut all = std::pin::pin!(futures::future::join_all(all));
            for _ in 0..10_000 {
                if let std::task::Poll::Ready(all) = futures::poll!(&mut all) {
                    assert!(all.iter().all(Result::is_err), "{all:?}");
                    told += 1;
                    return;
                }
                tokio::task::yield_now().await;
            }
            panic!("a record that came after {turns} turns is told nothing");
        });
    }
    assert!((3..80).contains(&told), "{told} records came before the log had failed");
    assert!(gathering > 3, "{gathering} times records had gathered when it failed");
}

#[test]
fn a_full_disk_fails_appends_until_there_is_room() {
    for durability in [Durability::Sync, Durability::Periodic { ms: 10 }] {
        run(async {
            let disk = SimulatedDisk::new(1);
            let log = open(&disk, durability).await;
            let append = async |log: &Rc<Commitlog>, record: &Mutation| {
                ended("a record", append(log, record)).await
            };
            let full = Faults {
                capacity_bytes: Some(2 * SEGMENT_BYTES as u64 + 4096),
                ..Faults::default()
            };
            disk.set_faults(full);
            let mut acknowledged = Vec::new();
            let error = loop {
                let record = mutation(1, acknowledged.len() as u64, 3000);
                match append(&log, &record).await {
                    Ok(position) => acknowledged.push((position, record)),
                    Err(error) => break error,
                }
                assert!(acknowledged.len() < 100, "the disk must get full");
            };
            assert!(error.is_disk_full() && error.is_retryable(), "{error}");
            assert!(append(&log, &mutation(1, 1000, 10)).await.unwrap_err().is_disk_full());
            // Room comes from a flush, or from outside.
            let first = acknowledged[0].0.segment;
            if durability == Durability::Sync {
                log.mark_flushed(TableId(1), acknowledged[0].0).await.unwrap();
                assert!(append(&log, &mutation(1, 1001, 10)).await.is_err(), "nothing is free");
                log.mark_flushed(TableId(1), acknowledged.last().unwrap().0).await.unwrap();
                acknowledged.clear();
            } else {
                disk.set_faults(Faults::default());
            }
            for number in 2000..2050 {
                let record = mutation(2, number, 1000);
                acknowledged.push((append(&log, &record).await.unwrap(), record));
                log.mark_flushed(TableId(3), log.current_position()).await.unwrap();
                if log.stats().segments_created > 20 {
                    break;
                }
                if durability == Durability::Sync && number == 2010 {
                    break;
                }
            }
            assert!(acknowledged.last().unwrap().0.segment > first);
            log.sync().await.unwrap();
            let (records, _) = replayed(&disk.power_cut()).await;
            for record in &acknowledged {
                assert!(records.contains(record), "{:?} is gone", record.0);
            }
        });
    }
}

#[test]
fn behind_a_segment_that_could_not_be_made_no_file_stays_and_records_share_the_next() {
    for seed in 0..20 {
        run(async {
            let disk = SimulatedDisk::new(seed);
            let log = open(&disk, Durability::Sync).await;
            disk.set_faults(Faults { name_error_one_in: 2, ..Faults::default() });
            // Segments are made side by side: of some the first one fails.
            let records = (0..60).map(|number| log.append(&mutation(1, number, 3000)).unwrap());
            let waiting: Vec<_> = records.collect();
            for (_, done) in waiting {
                let written = ended("a record", done).await;
                assert!(written.is_ok() || written.as_ref().unwrap_err().is_disk_full());
            }
            disk.set_faults(Faults::default());
            let mut segments = Vec::new();
            for number in 100..103 {
                segments.push(append(&log, &mutation(1, number, 10)).await.unwrap().segment);
            }
            assert_eq!(segments, [segments[0]; 3], "seed {seed}: a segment for each record");
            log.close().await.unwrap();
            let counted = log.bytes_on_disk() / SEGMENT_BYTES as u64;
            assert_eq!(segment_files(&disk).await.len() as u64, counted, "seed {seed}");
        });
    }
}

#[test]
fn a_mutation_that_is_too_large_is_refused_and_the_largest_fits() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let log = open(&disk, Durability::Sync).await;
        let max = options(Durability::Sync).mutation_bytes_max();
        let refused = log.append(&mutation(1, 0, max)).map(|_| ());
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
        let mut encoded = Vec::new();
        crate::mutation::codec::encode(&mutation(1, 1, max - 64), &mut encoded);
        let largest = mutation(1, 1, max - 64 + (max - encoded.len()));
        append(&log, &largest).await.unwrap();
        append(&log, &largest).await.unwrap();
        assert_eq!(replayed(&disk.power_cut()).await.0[1].1, largest);
    });
}

#[test]
fn dropping_an_append_changes_nothing_for_others() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let log = open(&disk, Durability::Sync).await;
        let (_, never_polled) = log.append(&mutation(1, 0, 10)).unwrap();
        drop(never_polled);
        let (_, polled) = log.append(&mutation(1, 1, 10)).unwrap();
        let mut polled = Box::pin(polled);
        assert!(futures::poll!(polled.as_mut()).is_pending());
        tokio::task::yield_now().await;
        drop(polled);
        append(&log, &mutation(1, 2, 10)).await.unwrap();
        let mut syncing = Box::pin(log.sync());
        assert!(futures::poll!(syncing.as_mut()).is_pending());
        drop(syncing);
        append(&log, &mutation(1, 3, 10)).await.unwrap();
        let (records, _) = replayed(&disk.power_cut()).await;
        let numbers: Vec<i64> = records.iter().map(|(_, record)| number_of(record)).collect();
        assert_eq!(numbers, [0, 1, 2, 3], "what was appended is in the log");
    });
}

#[test]
fn errors_of_apply_stop_replay() {
    run(async {
        let (disk, _, _) = three_chunks().await;
        let mut count = 0;
        let result = replay_with(&disk, Recovery::Refuse, &BTreeMap::new(), &mut |_, _| {
            count += 1;
            if count == 2 { Err(Error::invalid("enough")) } else { Ok(()) }
        })
        .await;
        assert!(matches!(result, Err(Error::Invalid(_))));
        assert_eq!(count, 2);
    });
}

#[test]
fn a_segment_counts_until_its_file_is_gone() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let log = open(&disk, Durability::Sync).await;
        let mut last = append(&log, &mutation(1, 0, 3000)).await.unwrap();
        for number in 1..200 {
            last = append(&log, &mutation(1, number, 3000)).await.unwrap();
        }
        // So slow that this test, which has a turn now and then, sees files on their way out.
        disk.set_faults(Faults { delay_turns_max: 1000, ..Faults::default() });
        let held = log.clone();
        let releasing =
            tokio::task::spawn_local(async move { held.mark_flushed(TableId(1), last).await });
        let counted = || log.bytes_on_disk() / SEGMENT_BYTES as u64;
        let (before, mut turns) = (counted(), 0);
        while !releasing.is_finished() {
            let gone = log.stats().segments_removed;
            assert_eq!(counted() + gone, before, "after {turns} turns {gone} are gone");
            turns += 1;
            tokio::task::yield_now().await;
        }
        releasing.await.unwrap().unwrap();
        assert_eq!(counted(), segment_files(&disk).await.len() as u64);
        assert!(log.stats().segments_removed > 3, "{:?}", log.stats());
    });
}
