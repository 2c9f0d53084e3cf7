//! The last traces and the last slow statements of all sessions of a process, in memory.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_engine::clock::Clock;

use super::record::{Did, Record};
use crate::query::access::Audit;

/// Traces that are kept. One takes a quarter of a MiB at most.
pub const TRACES_MAX: usize = 64;
/// Slow statements that are kept; without steps each takes a few KiB.
pub const SLOW_MAX: usize = 256;

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Journal {
    count: AtomicU64,
    wall: WallClock,
    traces: Ring,
    slow: Ring,
    audit: Audit,
}

/// The wall clock as it stands to the monotonic one, looked at once a second: statements that are
/// traced read one clock only.
#[derive(Debug)]
struct WallClock {
    ahead_us: AtomicI64,
    looked_at_ns: AtomicU64,
}

/// So long an old look will do.
const LOOK_NS: u64 = 1_000_000_000;
const NEVER: u64 = u64::MAX;

impl Default for WallClock {
    fn default() -> Self {
        WallClock { ahead_us: AtomicI64::new(0), looked_at_ns: AtomicU64::new(NEVER) }
    }
}

impl WallClock {
    /// What it showed at a moment of the monotonic clock that is not long ago, microseconds.
    fn at(&self, clock: &dyn Clock, at_ns: u64) -> i64 {
        let looked_at_ns = self.looked_at_ns.load(Ordering::Relaxed);
        if looked_at_ns == NEVER || at_ns.abs_diff(looked_at_ns) >= LOOK_NS {
            let (wall_us, now_ns) = (clock.wall_us(), clock.monotonic_ns());
            self.ahead_us.store(wall_us - (now_ns / 1000) as i64, Ordering::Relaxed);
            self.looked_at_ns.store(now_ns, Ordering::Relaxed);
        }
        self.ahead_us.load(Ordering::Relaxed) + (at_ns / 1000) as i64
    }
}

type Ring = Mutex<VecDeque<Arc<Record>>>;

impl Journal {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The number of the next record.
    pub(super) fn next_number(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The wall clock, in microseconds, at a moment of the monotonic one that is not long ago.
    pub(super) fn wall_us(&self, clock: &dyn Clock, at_ns: u64) -> i64 {
        self.wall.at(clock, at_ns)
    }

    /// Keeps a trace; the oldest goes where there are too many.
    pub(super) fn add_trace(&self, record: Arc<Record>) {
        push(&self.traces, TRACES_MAX, record);
    }

    /// Keeps a slow statement, without its steps.
    pub(super) fn add_slow(&self, record: &Record) {
        let Record { number, started_us, duration_us, rows, .. } = *record;
        let (session, statement) = (Arc::clone(&record.session), Arc::clone(&record.statement));
        let (error, did) = (record.error.clone(), Did::Counted(Box::new(record.stats())));
        let record =
            Record { number, started_us, duration_us, session, statement, rows, error, did };
        push(&self.slow, SLOW_MAX, Arc::new(record));
    }

    /// What concerns all.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    /// The traces, oldest first.
    pub fn traces(&self) -> Vec<Arc<Record>> {
        all(&self.traces)
    }

    /// The slow statements, oldest first.
    pub fn slow(&self) -> Vec<Arc<Record>> {
        all(&self.slow)
    }
}

fn push(ring: &Ring, max: usize, record: Arc<Record>) {
    let mut ring = ring.lock().expect("no one panics while holding it");
    if ring.len() >= max {
        ring.pop_front();
    }
    ring.push_back(record);
}

fn all(ring: &Ring) -> Vec<Arc<Record>> {
    ring.lock().expect("no one panics while holding it").iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_engine::clock::SimulatedClock;
    use tidegate_engine::probe::{Count, Detail, Watch};

    use super::*;

    fn record(journal: &Journal) -> Record {
        let watch = Watch::new(SimulatedClock::new(0), Detail::Phases);
        watch.note(|| "a step");
        watch.read(Arc::new("t")).on(0).add(Count::Rows, 7);
        Record {
            number: journal.next_number(),
            started_us: 0,
            duration_us: 1,
            session: "shell".into(),
            statement: "SELECT 1".into(),
            rows: 1,
            error: None,
            did: Did::Watched(watch),
        }
    }

    #[test]
    fn the_wall_clock_is_looked_at_once_a_second() {
        let (clock, journal) = (SimulatedClock::new(5_000_000), Journal::new());
        let now = || (clock.wall_us(), journal.wall_us(&*clock, clock.monotonic_ns()));
        for step_us in [0, 1, 999_000, 3_000_000] {
            clock.advance(Duration::from_micros(step_us));
            let (wall_us, told_us) = now();
            assert_eq!(told_us, wall_us, "{step_us}");
        }
        let before_ns = clock.monotonic_ns() - 2_000;
        assert_eq!(journal.wall_us(&*clock, before_ns), clock.wall_us() - 2);
    }

    #[test]
    fn the_oldest_go_where_there_are_too_many() {
        let journal = Journal::new();
        for _ in 0..TRACES_MAX + 3 {
            journal.add_trace(Arc::new(record(&journal)));
        }
        let numbers: Vec<u64> = journal.traces().iter().map(|trace| trace.number).collect();
        assert_eq!(numbers, (4..=TRACES_MAX as u64 + 3).collect::<Vec<_>>());
        for _ in 0..SLOW_MAX + 2 {
            journal.add_slow(&record(&journal));
        }
        let slow = journal.slow();
        assert_eq!((slow.len(), slow[0].number), (SLOW_MAX, TRACES_MAX as u64 + 6));
        assert!(slow.iter().all(|record| record.steps().is_empty()), "slow ones have no steps");
        assert!(slow.iter().all(|record| record.stats()[Count::Rows] == 7), "but their counters");
    }
}
