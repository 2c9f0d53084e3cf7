//! Seeded runs that end in a power cut: what was acknowledged is replayed, nothing is invented.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use super::*;
use crate::clock::Random;

/// What writers of one simulated run saw.
#[derive(Default)]
struct Seen {
    appended: Vec<(ReplayPosition, Mutation)>,
    acknowledged: Vec<ReplayPosition>,
    /// Everything of table 1 at or before this needs no log any more.
    flushed: ReplayPosition,
}

/// Writers and flushes on a disk until `steps` turns have passed; then the power is cut.
async fn crash_run(
    disk: &SimulatedDisk,
    durability: Durability,
    seed: u64,
) -> (Seen, SimulatedDisk) {
    let mut random = Random::new(seed ^ 0xC0FFEE);
    let seen = Rc::new(RefCell::new(Seen::default()));
    let synced = Rc::new(Cell::new(0));
    let clock = SimulatedClock::new(START_US);
    let opened = Commitlog::open(disk.shared(), clock, options(durability)).await;
    if let Ok(log) = opened {
        for writer in 0..1 + random.below(12) {
            let (log, seen) = (log.clone(), seen.clone());
            let mut random = Random::new(random.next_u64());
            tokio::task::spawn_local(async move {
                for number in 0..200 {
                    let large = if random.one_in(8) { 9000 } else { 300 };
                    let bytes = random.below(large) as usize;
                    let record = mutation(1, writer * 1000 + number, bytes);
                    let Ok((position, done)) = log.append(&record) else { return };
                    seen.borrow_mut().appended.push((position, record));
                    let in_order = done.await.is_ok();
                    if in_order {
                        seen.borrow_mut().acknowledged.push(position);
                    }
                    if random.one_in(20) {
                        let through = {
                            let mut seen = seen.borrow_mut();
                            let last = seen.acknowledged.last().copied();
                            seen.flushed = seen.flushed.max(last.unwrap_or_default());
                            seen.flushed
                        };
                        let _ = log.mark_flushed(TableId(1), through).await;
                    }
                    for _ in 0..random.below(6) {
                        tokio::task::yield_now().await;
                    }
                }
            });
        }
        if durability != Durability::Sync {
            let (log, seen, synced) = (log.clone(), seen.clone(), synced.clone());
            tokio::task::spawn_local(async move {
                loop {
                    for _ in 0..40 {
                        tokio::task::yield_now().await;
                    }
                    let before = seen.borrow().appended.len();
                    if log.sync().await.is_err() {
                        return;
                    }
                    synced.set(before);
                }
            });
        }
        for _ in 0..random.below(500) {
            tokio::task::yield_now().await;
        }
    }
    let after = disk.power_cut();
    let mut seen = std::mem::take(&mut *seen.borrow_mut());
    if durability != Durability::Sync {
        // In memory only, unless a sync covered it.
        let durable = seen.appended[..synced.get()].iter().map(|(position, _)| *position);
        let acknowledged = BTreeSet::from_iter(seen.acknowledged);
        seen.acknowledged = durable.filter(|at| acknowledged.contains(at)).collect();
    }
    (seen, after)
}

/// Checks what replay finds after a run: all that was acknowledged, in order, nothing invented.
async fn check(seen: &Seen, disk: &SimulatedDisk, is_whole: bool, seed: u64) -> u64 {
    let (records, summary) = replayed(disk).await;
    let mut appended = seen.appended.clone();
    appended.sort_by_key(|(position, _)| *position);
    for (position, record) in &records {
        let at = appended.binary_search_by_key(position, |(position, _)| *position);
        let at = at.unwrap_or_else(|_| panic!("seed {seed}: {position:?} was never appended"));
        assert_eq!(appended[at].1, *record, "seed {seed}: {position:?}");
    }
    let found: Vec<ReplayPosition> = records.iter().map(|(position, _)| *position).collect();
    for position in seen.acknowledged.iter().filter(|at| **at > seen.flushed) {
        assert!(found.binary_search(position).is_ok(), "seed {seed}: {position:?} is lost");
    }
    if is_whole && let Some(last) = found.last() {
        // No gap: everything appended before the last one found is there too.
        let wanted = appended.iter().map(|(position, _)| *position);
        let wanted: Vec<_> = wanted.filter(|at| *at > seen.flushed && at <= last).collect();
        let found: Vec<_> = found.iter().copied().filter(|at| *at > seen.flushed).collect();
        assert_eq!(found, wanted, "seed {seed}: a gap");
    }
    summary.torn_tails
}

#[test]
fn power_cuts_lose_nothing_acknowledged_and_leave_no_gap() {
    let (mut acknowledged, mut torn) = (0, 0);
    for seed in 0..600 {
        let durability = match seed % 4 {
            0 => Durability::Periodic { ms: 10 },
            1 if seed % 8 == 1 => Durability::None,
            _ => Durability::Sync,
        };
        let delay_turns_max = [1, 4, 30][seed as usize % 3];
        let faults = Faults { delay_turns_max, ..Faults::default() };
        let disk = SimulatedDisk::with_faults(seed, faults);
        let (seen, after) = run(crash_run(&disk, durability, seed));
        acknowledged += seen.acknowledged.len();
        torn += run(check(&seen, &after, true, seed));
        if seed % 3 != 0 {
            continue;
        }
        // A second run on what the first one left, cut again; both are there then.
        let (second, after) = run(crash_run(&after, durability, seed + 1_000_000));
        let mut both = Seen { flushed: seen.flushed.max(second.flushed), ..Seen::default() };
        both.appended = [seen.appended, second.appended].concat();
        both.acknowledged = second.acknowledged;
        if second.flushed == ReplayPosition::default() {
            both.acknowledged.extend(seen.acknowledged);
        }
        run(check(&both, &after, false, seed));
    }
    assert!(acknowledged > 20_000 && torn > 50, "{acknowledged} acknowledged, {torn} torn");
}

#[test]
fn faults_and_power_cuts_together_lose_nothing_acknowledged() {
    let (mut acknowledged, mut refused) = (0, 0);
    for seed in 0..400 {
        let faults = Faults {
            write_error_one_in: [0, 60, 300][seed as usize % 3],
            sync_error_one_in: [0, 0, 5, 20][seed as usize % 4],
            capacity_bytes: [None, Some(3 * SEGMENT_BYTES as u64)][seed as usize % 2],
            delay_turns_max: 1 + seed as u32 % 9,
            ..Faults::default()
        };
        let durability =
            if seed % 5 == 0 { Durability::Periodic { ms: 10 } } else { Durability::Sync };
        let disk = SimulatedDisk::with_faults(seed, faults);
        let (seen, after) = run(crash_run(&disk, durability, seed));
        acknowledged += seen.acknowledged.len();
        refused += usize::from(seen.acknowledged.len() < seen.appended.len());
        run(check(&seen, &after, false, seed));
    }
    assert!(
        acknowledged > 5_000 && refused > 100,
        "{acknowledged} acknowledged, {refused} refused"
    );
}

#[test]
fn a_seed_decides_the_whole_run() {
    let once = |seed| {
        let disk = SimulatedDisk::new(seed);
        let (seen, after) = run(crash_run(&disk, Durability::Sync, seed));
        let (records, summary) = run(replayed(&after));
        let told = (summary.segments, summary.bytes, summary.torn_tails, summary.paths);
        (seen.acknowledged, records, disk.counters(), told)
    };
    for seed in [3, 4] {
        assert_eq!(once(seed), once(seed));
    }
    assert_ne!(once(3).2, once(4).2);
}

async fn files_in(disk: &SimulatedDisk, directories: &[PathBuf]) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for directory in directories {
        let entries = disk.list(directory).await.unwrap();
        all.extend(entries.into_iter().map(|entry| directory.join(entry.name)));
    }
    all
}

/// With them would come back what they held, and what was deleted and purged since.
#[test]
fn segments_that_were_removed_stay_gone_after_a_power_cut() {
    run(async {
        let directories = ["/data/shard-0/commitlog", "/data/shard-1/commitlog"].map(PathBuf::from);
        for seed in 0..20 {
            let disk = SimulatedDisk::new(seed);
            for (shard, directory) in (0..).zip(&directories) {
                let own = CommitlogOptions {
                    directory: directory.clone(),
                    shard,
                    shard_count: 2,
                    ..options(Durability::Sync)
                };
                let clock = SimulatedClock::new(START_US);
                let log = Commitlog::open(disk.shared(), clock, own).await.unwrap();
                append(&log, &mutation(1, 1, 10)).await.unwrap();
                log.close().await.unwrap();
            }
            let paths = files_in(&disk, &directories).await;
            assert!(paths.len() >= 2, "{paths:?}");
            remove_segments(&disk.shared(), &paths).await.unwrap();
            let left = files_in(&disk.power_cut(), &directories).await;
            assert!(left.is_empty(), "seed {seed}: {left:?} came back");
            // An earlier attempt may have removed them already.
            let again = SimulatedDisk::new(seed);
            for directory in &directories {
                again.create_directories(directory).await.unwrap();
            }
            remove_segments(&again.shared(), &paths).await.unwrap();
        }
    });
}
