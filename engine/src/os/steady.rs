//! The monotonic clock, read by the processor's time stamp counter where the kernel does so too.
//!
//! A look at the kernel's clock takes 25 to 35 ns, one at the counter 10 to 15, and a point read
//! of 2 µs looks several times. The counter is compared with the kernel's clock at the first look
//! behind each tenth of a second: that says how fast it counts, and keeps both together within
//! microseconds. Crates that do this measure for tens of milliseconds while a process starts, and
//! never again. Nothing is measured before it is used here: until the pace is known the kernel's
//! clock is read.
//!
//! Invariant: what a thread reads does not go back. Where the counter does not keep its pace (a
//! machine that slept or moved to another host) time goes on by the kernel's clock, a tenth of a
//! second ahead at most. If that happens several times in a row, the counter is not read any more.
//! Taken for granted: the counters of all cores are one, as the kernel has found (`os.rs`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Mutex, PoisonError};

/// What tells time.
pub(super) trait Source {
    /// Counts at a steady pace that nobody knows.
    fn ticks(&self) -> u64;
    /// The kernel's monotonic clock.
    fn ns(&self) -> u64;
}

/// Time in which the pace is learned at first.
const LEARN_NS: u64 = 20_000_000;
/// After so long the counter is compared with the clock.
const FRESH_NS: u64 = 100_000_000;
/// A comparison that took longer says nothing of the pace.
const LOOK_NS_MAX: u64 = 5_000;
/// Tries of a comparison.
const LOOKS_MAX: usize = 3;
/// A pace that differs by more than one part in so many is no steady one.
const STEADY_PARTS: u64 = 1_000;
/// By one part in so many the pace is slowed at most to come back to the clock.
const STEER_PARTS: u64 = 2_000;
/// The counter is left when it was found out of step so often, one time after another.
const DOUBTS_MAX: u32 = 3;

/// See the head of this file. Between two comparisons time is a line over the ticks.
pub(super) struct Steady<S> {
    source: S,
    is_on: AtomicBool,
    /// Odd while the line changes.
    version: AtomicU64,
    base_ticks: AtomicU64,
    base_ns: AtomicU64,
    /// Nanoseconds a tick, in parts of 2^32.
    pace: AtomicU64,
    /// Ticks for which the line holds; 0 while there is none.
    fresh_ticks: AtomicU64,
    /// What is to be added to the clock: it is where the line left it. It wraps.
    ahead_ns: AtomicU64,
    looked: Mutex<Looked>,
}

/// Comparisons so far.
struct Looked {
    last: Option<Look>,
    /// That of the counter, as `Steady::pace`; 0 while it is not known.
    pace: u64,
    doubts: u32,
}

/// Both at once.
#[derive(Debug, Clone, Copy)]
struct Look {
    ticks: u64,
    ns: u64,
    is_exact: bool,
}

impl<S: Source> Steady<S> {
    /// Reads the clock alone, until it is told to read the counter.
    pub(super) const fn new(source: S) -> Self {
        Steady {
            source,
            is_on: AtomicBool::new(false),
            version: AtomicU64::new(0),
            base_ticks: AtomicU64::new(0),
            base_ns: AtomicU64::new(0),
            pace: AtomicU64::new(0),
            fresh_ticks: AtomicU64::new(0),
            ahead_ns: AtomicU64::new(0),
            looked: Mutex::new(Looked { last: None, pace: 0, doubts: 0 }),
        }
    }

    /// Reads the counter from now on.
    pub(super) fn turn_on(&self) {
        self.is_on.store(true, Ordering::Release);
    }

    /// Nanoseconds since some moment.
    #[inline]
    pub(super) fn now_ns(&self) -> u64 {
        if !self.is_on.load(Ordering::Acquire) {
            return self.by_clock();
        }
        self.by_line().unwrap_or_else(|| self.look())
    }

    fn by_clock(&self) -> u64 {
        self.source.ns().wrapping_add(self.ahead_ns.load(Ordering::Relaxed))
    }

    /// The time by the line, where it holds.
    #[inline]
    fn by_line(&self) -> Option<u64> {
        let version = self.version.load(Ordering::Acquire);
        let base_ticks = self.base_ticks.load(Ordering::Relaxed);
        let base_ns = self.base_ns.load(Ordering::Relaxed);
        let pace = self.pace.load(Ordering::Relaxed);
        let fresh_ticks = self.fresh_ticks.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let is_whole = version.is_multiple_of(2) && version == self.version.load(Ordering::Relaxed);
        let passed = self.source.ticks().wrapping_sub(base_ticks);
        // So few ticks do not overflow.
        (is_whole && passed < fresh_ticks).then(|| base_ns + ((passed * pace) >> 32))
    }

    /// Compares the counter with the clock.
    #[cold]
    fn look(&self) -> u64 {
        // Nobody waits for a comparison while the clock is read by all.
        let is_learning = self.pace.load(Ordering::Relaxed) == 0;
        let looked = match is_learning {
            true => self.looked.try_lock().ok(),
            false => Some(self.looked.lock().unwrap_or_else(PoisonError::into_inner)),
        };
        let Some(mut looked) = looked else { return self.by_clock() };
        if !self.is_on.load(Ordering::Relaxed) {
            return self.by_clock();
        }
        // Another thread may have looked while this one waited.
        if let Some(now_ns) = self.by_line() {
            return now_ns;
        }
        let look = self.both();
        match looked.last {
            Some(before) if looked.pace > 0 => self.go_on(&mut looked, before, look),
            Some(first) if look.ns.saturating_sub(first.ns) >= LEARN_NS && look.is_exact => {
                looked.last = Some(look);
                looked.pace = pace_of(look.ticks.wrapping_sub(first.ticks), look.ns - first.ns);
                self.set_line(look.ticks, look.ns, looked.pace)
            }
            Some(_) => look.ns,
            None => {
                looked.last = look.is_exact.then_some(look);
                look.ns
            }
        }
    }

    /// Continues the line at a look: from the clock on, or from what somebody may have read, where
    /// that is later.
    fn go_on(&self, looked: &mut Looked, before: Look, look: Look) -> u64 {
        let passed = look.ticks.wrapping_sub(before.ticks);
        let base_ns = self.base_ns.load(Ordering::Relaxed);
        let line_ns = time_of(passed, self.pace.load(Ordering::Relaxed)).min(FRESH_NS);
        let now_ns = look.ns.max(base_ns.saturating_add(line_ns));
        looked.last = Some(look);
        if look.is_exact && before.is_exact {
            let measured = pace_of(passed, look.ns.saturating_sub(before.ns));
            if measured.abs_diff(looked.pace) <= looked.pace / STEADY_PARTS {
                (looked.pace, looked.doubts) = (measured, 0);
            } else {
                looked.doubts += 1;
            }
        }
        if looked.doubts > DOUBTS_MAX {
            self.ahead_ns.store(now_ns - look.ns, Ordering::Relaxed);
            self.is_on.store(false, Ordering::Release);
            return self.set_line(look.ticks, now_ns, 0);
        }
        let slower_ns = (now_ns - look.ns).min(FRESH_NS / STEER_PARTS);
        let steered =
            u128::from(looked.pace) * u128::from(FRESH_NS - slower_ns) / u128::from(FRESH_NS);
        self.set_line(look.ticks, now_ns, steered as u64)
    }

    /// The counter and the clock, read as near to each other as may be.
    fn both(&self) -> Look {
        let mut tries = 1;
        loop {
            let (before, ticks, ns) = (self.source.ns(), self.source.ticks(), self.source.ns());
            let is_exact = ns.saturating_sub(before) <= LOOK_NS_MAX;
            if is_exact || tries == LOOKS_MAX {
                // The counter may have been read long before the second look.
                let ns = if is_exact { ns } else { before };
                return Look { ticks, ns, is_exact };
            }
            tries += 1;
        }
    }

    /// Time goes on from here at this pace; where that is 0, by no line. Returns it.
    fn set_line(&self, base_ticks: u64, base_ns: u64, pace: u64) -> u64 {
        let ticks_of = |ns: u64| (u128::from(ns) << 32).checked_div(u128::from(pace));
        let fresh_ticks = ticks_of(FRESH_NS).unwrap_or(0);
        self.version.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.base_ticks.store(base_ticks, Ordering::Relaxed);
        self.base_ns.store(base_ns, Ordering::Relaxed);
        self.pace.store(pace, Ordering::Relaxed);
        self.fresh_ticks.store(fresh_ticks as u64, Ordering::Relaxed);
        self.version.fetch_add(1, Ordering::Release);
        base_ns
    }
}

/// Nanoseconds a tick, in parts of 2^32.
fn pace_of(ticks: u64, ns: u64) -> u64 {
    let pace = (u128::from(ns) << 32) / u128::from(ticks.max(1));
    u64::try_from(pace).unwrap_or(u64::MAX)
}

/// Nanoseconds of so many ticks.
fn time_of(ticks: u64, pace: u64) -> u64 {
    u64::try_from((u128::from(ticks) * u128::from(pace)) >> 32).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A counter and a clock that move when told to.
    #[derive(Default)]
    struct Machine {
        ns: Cell<u64>,
        ticks: Cell<u64>,
        /// Ticks of a microsecond.
        pace: Cell<u64>,
        /// Thousandths of the next tick.
        parts: Cell<u64>,
        looks: Cell<u64>,
        /// What each look at the clock takes.
        look_ns: Cell<u64>,
    }

    impl Machine {
        fn advance(&self, ns: u64) {
            self.ns.set(self.ns.get() + ns);
            let parts = self.parts.get() + ns * self.pace.get();
            self.parts.set(parts % 1000);
            self.ticks.set(self.ticks.get().wrapping_add(parts / 1000));
        }
    }

    impl Source for &Machine {
        fn ticks(&self) -> u64 {
            self.ticks.get()
        }

        fn ns(&self) -> u64 {
            self.looks.set(self.looks.get() + 1);
            self.advance(self.look_ns.get());
            self.ns.get()
        }
    }

    fn machine() -> Machine {
        let machine = Machine::default();
        machine.ns.set(7_000_000_000);
        machine.ticks.set(u64::MAX - 5_000_000);
        machine.pace.set(2_900);
        machine
    }

    /// Lets a second pass in uneven steps; the time is to be near the clock, as far as `error_ns`.
    fn run(machine: &Machine, steady: &Steady<&Machine>, offset_ns: i64, error_ns: u64) {
        run_in_steps(machine, steady, (offset_ns, error_ns), (10_000, 100_000));
    }

    /// The same in so many steps of so many nanoseconds, more or less.
    fn run_in_steps(
        machine: &Machine,
        steady: &Steady<&Machine>,
        (offset_ns, error_ns): (i64, u64),
        (steps, step_ns): (u64, u64),
    ) {
        let (mut drawn, mut before) = (3_u64, steady.now_ns());
        for _ in 0..steps {
            drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040);
            machine.advance((drawn >> 33) % (2 * step_ns));
            let now = steady.now_ns();
            assert!(now >= before, "{now} comes behind {before}");
            let wanted = machine.ns.get().wrapping_add_signed(offset_ns);
            assert!(now.abs_diff(wanted) <= error_ns, "{now} for {wanted}");
            before = now;
        }
    }

    #[test]
    fn it_is_the_clock_and_looks_at_it_seldom() {
        let machine = machine();
        let steady = Steady::new(&machine);
        run(&machine, &steady, 0, 0);
        assert!(machine.looks.get() > 5_000, "it is off");
        steady.turn_on();
        run(&machine, &steady, 0, 1_000);
        machine.looks.set(0);
        run(&machine, &steady, 0, 1_000);
        assert!(machine.looks.get() <= 2 * 10 + 2, "{} looks", machine.looks.get());
    }

    #[test]
    fn who_looks_seldom_reads_the_clock() {
        let machine = machine();
        let steady = Steady::new(&machine);
        steady.turn_on();
        run(&machine, &steady, 0, 1_000);
        for step_ms in [30, 99, 150, 300, 1_000, 10_000, 60_000, 3_600_000] {
            machine.look_ns.set(step_ms % 50);
            run_in_steps(&machine, &steady, (0, 1_000), (100, step_ms * 1_000_000));
        }
        run(&machine, &steady, 0, 1_000);
        assert!(steady.is_on.load(Ordering::Relaxed));
    }

    #[test]
    fn looks_that_take_long_say_nothing_of_the_pace() {
        let machine = machine();
        let steady = Steady::new(&machine);
        steady.turn_on();
        machine.look_ns.set(2 * LOOK_NS_MAX);
        run(&machine, &steady, 0, 5 * LOOK_NS_MAX);
        assert_eq!(steady.pace.load(Ordering::Relaxed), 0, "nothing is known of it");
        machine.look_ns.set(0);
        run(&machine, &steady, 0, 1_000);
        machine.look_ns.set(2 * LOOK_NS_MAX);
        run(&machine, &steady, 0, 5 * LOOK_NS_MAX);
        machine.look_ns.set(0);
        run(&machine, &steady, 0, 5 * LOOK_NS_MAX);
        assert!(steady.is_on.load(Ordering::Relaxed));
    }

    /// The counter went on while the machine slept, and the clock did not; or it began anew.
    #[test]
    fn a_counter_that_jumps_moves_no_time() {
        for jump in [1_u64 << 50, 1 << 32, 1 << 29, 1 << 27, u64::MAX - (1 << 40)] {
            let machine = machine();
            let steady = Steady::new(&machine);
            steady.turn_on();
            run(&machine, &steady, 0, 1_000);
            machine.ticks.set(machine.ticks.get().wrapping_add(jump));
            // Somebody may have read the time just before the next comparison.
            run(&machine, &steady, 0, FRESH_NS + 1_000);
            assert!(steady.is_on.load(Ordering::Relaxed), "once is no habit");
        }
    }

    #[test]
    fn a_counter_that_keeps_no_pace_is_left() {
        let machine = machine();
        let steady = Steady::new(&machine);
        steady.turn_on();
        run(&machine, &steady, 0, 1_000);
        // What it says until it is compared next may be wrong by so much.
        let wrong_ns = FRESH_NS / 10;
        for pace in [3_000, 2_800, 3_100, 2_700, 3_050] {
            machine.pace.set(pace);
            run(&machine, &steady, 0, 10 * wrong_ns);
        }
        assert!(!steady.is_on.load(Ordering::Relaxed));
        let offset = steady.now_ns() as i64 - machine.ns.get() as i64;
        run(&machine, &steady, offset, 0);
    }
}
