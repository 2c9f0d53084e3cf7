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
        // Beyond the clock's last moment nothing is left to count.
        let within_ns = self.within.as_nanos().min(u128::from(u64::MAX));
        left_ns * 10 <= within_ns * 3
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

    /// A wall clock that somebody sets.
    #[derive(Debug, Default)]
    struct SetClock(AtomicI64);

    impl Clock for SetClock {
        fn wall_us(&self) -> i64 {
            self.0.load(Ordering::Relaxed)
        }

        fn monotonic_ns(&self) -> u64 {
            0
        }
    }

    #[test]
    fn each_timestamp_is_later_than_the_one_before_though_the_clock_goes_back() {
        let clock = Arc::new(SetClock::default());
        let timestamps = Timestamps::new(clock.clone());
        let mut given = Vec::new();
        for now_us in [1000, 1000, 1000, 1001, 2000, 500, -7, 2001, 2002, 2003, 5000] {
            clock.0.store(now_us, Ordering::Relaxed);
            given.push(timestamps.next_us());
        }
        assert_eq!(given, [1000, 1001, 1002, 1003, 2000, 2001, 2002, 2003, 2004, 2005, 5000]);
    }

    #[test]
    fn whole_seconds_are_rounded_down_before_1970_too() {
        for (us, seconds) in
            [(1_999_999, 1), (999_999, 0), (0, 0), (-1, -1), (-1_000_000, -1), (-1_000_001, -2)]
        {
            assert_eq!(SimulatedClock::new(us).wall_seconds(), seconds, "{us}");
        }
    }

    #[test]
    fn a_deadline_knows_what_is_left_to_just_its_end() {
        let within = Duration::from_micros(100);
        // After so many microseconds: those that are left, whether it has passed, and nearly.
        for (us, left_us, has_passed, is_nearly_over) in [
            (0, 100, false, false),
            (69, 31, false, false),
            (70, 30, false, true),
            (99, 1, false, true),
            (100, 0, true, true),
            (250, 0, true, true),
        ] {
            let clock = SimulatedClock::new(7);
            clock.advance(Duration::from_micros(3));
            let deadline = Deadline::after(within, &*clock);
            clock.advance(Duration::from_micros(us));
            let now_ns = clock.monotonic_ns();
            assert_eq!(deadline.left(&*clock), Duration::from_micros(left_us), "after {us}");
            assert_eq!(deadline.has_passed(&*clock), has_passed, "after {us}");
            assert_eq!(deadline.is_nearly_over(now_ns), is_nearly_over, "after {us}");
            let half_ns = left_us * 500;
            assert!(deadline.is_half_over_after(half_ns, now_ns), "after {us}");
            if let Some(less_ns) = half_ns.checked_sub(1) {
                assert!(!deadline.is_half_over_after(less_ns, now_ns), "after {us}");
            }
            let error = deadline.passed("a read");
            assert!(matches!(error, Error::Timeout { what: "a read", within: of } if of == within));
        }
        let clock = SimulatedClock::new(7);
        let endless = Deadline::after(Duration::MAX, &*clock);
        assert!(!endless.is_nearly_over(clock.monotonic_ns()), "nobody sees its end");
    }
}
