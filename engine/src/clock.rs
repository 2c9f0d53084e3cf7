//! Time and randomness, handed in through constructors so that a seed replays a run.
//!
//! Invariant: nothing else in the engine reads a clock or draws a random number.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::Error;

/// Source of time, shared by all shards.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Wall clock, microseconds since the Unix epoch: write timestamps.
    fn wall_us(&self) -> i64;
    /// Monotonic clock, nanoseconds since an arbitrary start: durations and deadlines.
    fn monotonic_ns(&self) -> u64;
    /// Time that the calling thread has had a processor, nanoseconds since an arbitrary start.
    /// Where time is simulated nobody waits for one.
    fn thread_cpu_ns(&self) -> u64 {
        self.monotonic_ns()
    }
    /// Wall clock, whole seconds since the Unix epoch: TTLs and deletion times.
    fn wall_seconds(&self) -> i64 {
        self.wall_us().div_euclid(1_000_000)
    }
}

/// Until when work is wanted, by the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    at_ns: u64,
    within: Duration,
}

impl Deadline {
    /// So much time from now on.
    pub fn after(within: Duration, clock: &dyn Clock) -> Self {
        let within_ns = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
        Deadline { at_ns: clock.monotonic_ns().saturating_add(within_ns), within }
    }

    /// The time that is left.
    pub fn left(&self, clock: &dyn Clock) -> Duration {
        Duration::from_nanos(self.at_ns.saturating_sub(clock.monotonic_ns()))
    }

    pub fn has_passed(&self, clock: &dyn Clock) -> bool {
        clock.monotonic_ns() >= self.at_ns
    }

    /// Whether of its time three tenths or less are left at this moment of the clock.
    pub fn is_nearly_over(&self, now_ns: u64) -> bool {
        let left_ns = u128::from(self.at_ns.saturating_sub(now_ns));
        left_ns * 10 <= self.within.as_nanos() * 3
    }

    /// Whether a wait of so long from this moment on takes half of the time that is left, or more.
    pub fn is_half_over_after(&self, wait_ns: u64, now_ns: u64) -> bool {
        wait_ns >= self.at_ns.saturating_sub(now_ns) / 2
    }

    /// The error of work that was not done by then; `what` says how far it came.
    pub fn passed(&self, what: &'static str) -> Error {
        Error::Timeout { what, within: self.within }
    }
}

/// Gives write timestamps, each later than the one before.
#[derive(Debug)]
pub struct Timestamps {
    clock: Arc<dyn Clock>,
    last: AtomicI64,
}

impl Timestamps {
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Timestamps { clock, last: AtomicI64::new(0) })
    }

    /// The wall clock in µs, but always later than the one before.
    pub fn next_us(&self) -> i64 {
        let now = self.clock.wall_us();
        let next = |last: i64| now.max(last + 1);
        self.last
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)))
            .map(next)
            .expect("the update always gives a value")
    }
}

/// The clocks of the operating system.
#[derive(Debug)]
pub struct SystemClock {
    start_ns: u64,
}

impl SystemClock {
    pub fn new() -> Self {
        crate::os::prepare_clock();
        SystemClock { start_ns: crate::os::monotonic_ns() }
    }

    /// A shared system clock.
    pub fn shared() -> Arc<dyn Clock> {
        Arc::new(SystemClock::new())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the real clock")]
    fn wall_us(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }

    fn monotonic_ns(&self) -> u64 {
        crate::os::monotonic_ns().saturating_sub(self.start_ns)
    }

    fn thread_cpu_ns(&self) -> u64 {
        crate::os::thread_cpu_ns()
    }
}

/// A clock that moves only when told to, for simulation and tests.
#[derive(Debug)]
pub struct SimulatedClock {
    now_us: AtomicI64,
    start_us: i64,
}

impl SimulatedClock {
    /// A clock that starts at `start_us` microseconds since the epoch.
    pub fn new(start_us: i64) -> Arc<Self> {
        Arc::new(SimulatedClock { now_us: AtomicI64::new(start_us), start_us })
    }

    /// Moves time forward.
    pub fn advance(&self, by: Duration) {
        let us = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.now_us.fetch_add(us, Ordering::Relaxed);
    }
}

impl Clock for SimulatedClock {
    fn wall_us(&self) -> i64 {
        self.now_us.load(Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.wall_us() - self.start_us).unwrap_or(0) * 1000
    }
}

/// A small seeded generator (SplitMix64, Steele et al. 2014): fast, and equal seeds give equal
/// runs.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator whose whole sequence is decided by `seed`.
    pub fn new(seed: u64) -> Self {
        Random { state: seed }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`. `bound` must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no random number");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True once in `n` draws on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_runs() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..100).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn the_simulated_clock_moves_only_when_told() {
        let clock = SimulatedClock::new(5_000_000);
        assert_eq!((clock.wall_us(), clock.monotonic_ns()), (5_000_000, 0));
        clock.advance(Duration::from_millis(3));
        assert_eq!((clock.wall_us(), clock.monotonic_ns()), (5_003_000, 3_000_000));
    }
}
