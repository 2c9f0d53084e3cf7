//! The last traces and the last slow statements of all sessions of a process, in memory.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tidegate_engine::clock::Clock;
use tidegate_engine::probe::{ReadStats, Watch};

use super::record::{Did, End, Record};
use super::tracing::Tracing;
use crate::query::access::Audit;

/// Traces that are kept. One takes a quarter of a MiB at most.
pub const TRACES_MAX: usize = 64;
/// Slow statements that are kept; without steps each takes a few KiB.
pub const SLOW_MAX: usize = 256;
/// What began longer ago is shown no more: a day, as in ScyllaDB.
const SHOWN_US: i64 = 24 * 60 * 60 * 1_000_000;

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Journal {
    wall: WallClock,
    traces: Mutex<Traces>,
    slow: Mutex<VecDeque<Arc<Record>>>,
    audit: Audit,
}

/// What is kept of each statement that was traced, in a place that stays: most traces are written
/// over those before them. It becomes a [`Record`] when somebody wants to read it: nobody reads
/// most traces.
#[derive(Debug)]
struct Traced {
    /// Counts the traces and slow statements of a journal.
    number: u64,
    /// Of the session that ran it.
    tracing: Arc<Tracing>,
    statement: String,
    end: End,
    did: Did,
}

/// The last traces.
#[derive(Debug, Default)]
struct Traces {
    /// How many records there were, slow statements among them.
    count: u64,
    kept: Vec<Traced>,
    /// Place of the oldest.
    oldest: usize,
}

impl Traced {
    fn record(&self) -> Record {
        let Traced { number, tracing, statement, end, did } = self;
        Record::new(*number, (tracing.name(), statement), end.clone(), did.clone())
    }

    /// It leaves the journal. Its session gets it, if that has no newer one and did not take it.
    fn leave(&self) {
        if self.tracing.last() == self.number {
            self.tracing.keep(self.record());
        }
    }
}

impl Traces {
    /// Keeps one, in the place of the oldest where there are too many. `statement` is its text, and
    /// another one then. Returns what is to be dropped.
    fn push(
        &mut self,
        (watch, statement): (Arc<Watch>, &mut String),
        tracing: &Arc<Tracing>,
        end: End,
    ) -> Option<Arc<Watch>> {
        let number = self.count;
        let place = if self.kept.len() < TRACES_MAX {
            let (tracing, text, did) = (Arc::clone(tracing), String::new(), Did::default());
            self.kept.push(Traced { number, tracing, statement: text, end, did });
            self.kept.last_mut().expect("it was pushed")
        } else {
            let place = &mut self.kept[self.oldest];
            self.oldest = (self.oldest + 1) % TRACES_MAX;
            place.leave();
            if !Arc::ptr_eq(&place.tracing, tracing) {
                place.tracing = Arc::clone(tracing);
            }
            (place.number, place.end) = (number, end);
            place
        };
        mem::swap(&mut place.statement, statement);
        place.did.keep(watch)
    }

    /// Oldest first.
    fn all(&self) -> impl DoubleEndedIterator<Item = &Traced> {
        let (newer, older) = self.kept.split_at(self.oldest);
        older.iter().chain(newer)
    }
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

impl Journal {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The wall clock, in microseconds, at a moment of the monotonic one that is not long ago.
    pub(super) fn wall_us(&self, clock: &dyn Clock, at_ns: u64) -> i64 {
        self.wall.at(clock, at_ns)
    }

    /// Keeps a trace, which is the last one of its session, and returns its number. The oldest goes
    /// where there are too many: to its session, if that has no newer one and did not take it yet.
    /// `statement` is its text, and another one then.
    pub(super) fn add_trace(
        &self,
        (watch, statement): (Arc<Watch>, &mut String),
        tracing: &Arc<Tracing>,
        end: End,
    ) -> u64 {
        let mut traces = self.lock();
        traces.count += 1;
        let number = traces.count;
        tracing.set_last(number);
        let oldest = traces.push((watch, statement), tracing, end);
        drop(traces);
        // What is freed is freed when others may go on.
        drop(oldest);
        number
    }

    /// The trace that a session made last, if it did not take it yet.
    pub(super) fn take_last(&self, tracing: &Tracing) -> Option<Record> {
        let traces = self.lock();
        let number = tracing.take_last()?;
        let found = traces.all().rev().find(|traced| traced.number == number).map(Traced::record);
        let kept = tracing.take_kept().filter(|kept| kept.number == number);
        found.or(kept)
    }

    /// Keeps a slow statement of a session, without its steps; `number` is that of its trace, if it
    /// has one.
    pub(super) fn add_slow(
        &self,
        number: Option<u64>,
        whose: (&Arc<str>, &str),
        stats: ReadStats,
        end: End,
    ) {
        let next_number = || {
            let mut traces = self.lock();
            traces.count += 1;
            traces.count
        };
        let number = number.unwrap_or_else(next_number);
        let record = Record::new(number, whose, end, Did::counted(stats));
        let mut slow = self.slow.lock().expect("no one panics while holding it");
        if slow.len() >= SLOW_MAX {
            slow.pop_front();
        }
        slow.push_back(Arc::new(record));
    }

    fn lock(&self) -> MutexGuard<'_, Traces> {
        self.traces.lock().expect("no one panics while holding it")
    }

    /// What concerns all.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    /// The traces of the last day, oldest first.
    pub fn traces(&self, now_us: i64) -> Vec<Record> {
        let traces = self.lock();
        let shown = traces.all().filter(|traced| is_shown(traced.end.started_us, now_us));
        shown.map(Traced::record).collect()
    }

    /// The slow statements of the last day, oldest first.
    pub fn slow(&self, now_us: i64) -> Vec<Arc<Record>> {
        let slow = self.slow.lock().expect("no one panics while holding it");
        slow.iter().filter(|record| is_shown(record.started_us, now_us)).cloned().collect()
    }
}

fn is_shown(started_us: i64, now_us: i64) -> bool {
    started_us > now_us.saturating_sub(SHOWN_US)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_engine::clock::SimulatedClock;
    use tidegate_engine::probe::{Count, Detail};

    use super::*;

    /// A statement that read seven rows, with a step or without.
    fn watched(is_stepped: bool) -> (Arc<Watch>, End) {
        let clock: Arc<dyn Clock> = SimulatedClock::new(0);
        let watch = Watch::of(&clock, Detail::Phases);
        if is_stepped {
            watch.note(|| "a step");
        }
        watch.read_by("a path", &Arc::new("t")).on(0).add(Count::Rows, 7);
        (watch, End { started_us: 0, duration_us: 1, rows: 1, error: None, trace_id: None })
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
        let tracing = Tracing::new("shell");
        for at in 1..=TRACES_MAX as u64 + 3 {
            let (watch, end) = watched(at % 3 == 0);
            let mut text = format!("SELECT {at}");
            assert_eq!(journal.add_trace((watch, &mut text), &tracing, end), at);
        }
        let traces = journal.traces(0);
        let numbers: Vec<u64> = traces.iter().map(|trace| trace.number).collect();
        assert_eq!(numbers, (4..=TRACES_MAX as u64 + 3).collect::<Vec<_>>());
        for Record { number, statement, session, did, .. } in &traces {
            assert_eq!((&**session, &**statement), ("shell", &*format!("SELECT {number}")));
            assert_eq!(did.is_brief(), number % 3 != 0, "{did:?}");
        }
        let told = traces.iter().map(|trace| (trace.steps().len(), trace.stats()[Count::Rows]));
        let wanted = numbers.iter().map(|number| (2 + usize::from(number % 3 == 0), 7));
        assert!(told.eq(wanted), "the path and what was read, however it is kept");
        for at in 0..SLOW_MAX + 2 {
            let (watch, end) = watched(false);
            let whose = (tracing.name(), "SELECT 1");
            journal.add_slow((at == 0).then_some(1), whose, watch.stats(), end);
        }
        let slow = journal.slow(0);
        assert_eq!((slow.len(), slow[0].number), (SLOW_MAX, TRACES_MAX as u64 + 5));
        assert!(slow.iter().all(|record| record.steps().is_empty()), "slow ones have no steps");
        assert!(slow.iter().all(|record| record.stats()[Count::Rows] == 7), "but their counters");
        let shown = |now_us| (journal.traces(now_us).len(), journal.slow(now_us).len());
        assert_eq!(shown(SHOWN_US - 1), (TRACES_MAX, SLOW_MAX));
        assert_eq!(shown(SHOWN_US), (0, 0), "a day later");
    }

    /// Others trace so much that the trace of a session leaves the journal before it is taken.
    #[test]
    fn the_last_trace_of_a_session_is_there_until_it_is_taken() {
        let journal = Journal::new();
        let add = |tracing: &Arc<Tracing>| {
            let (watch, end) = watched(false);
            journal.add_trace((watch, &mut "SELECT 1".to_owned()), tracing, end)
        };
        let [busy, slow_ones @ ..] = ["busy", "a", "b", "c"].map(Tracing::new);
        let numbers = [&slow_ones[0], &slow_ones[0], &slow_ones[1], &slow_ones[2]].map(add);
        let take = |tracing: &Tracing| journal.take_last(tracing);
        assert_eq!(take(&slow_ones[1]).map(|taken| taken.number), Some(numbers[2]));
        let last = (0..TRACES_MAX + 9).fold(0, |_, _| add(&busy));
        let taken = take(&slow_ones[0]).expect("it is the last one of its session");
        assert_eq!((taken.number, &*taken.session), (numbers[1], "a"));
        assert!(take(&slow_ones[0]).is_none() && take(&slow_ones[1]).is_none(), "once");
        // One that was kept for a session is not taken for a later one.
        let later = add(&slow_ones[2]);
        assert_eq!(take(&slow_ones[2]).map(|taken| taken.number), Some(later));
        assert!(take(&slow_ones[2]).is_none());
        assert_eq!(take(&busy).map(|taken| taken.number), Some(last));
    }
}
