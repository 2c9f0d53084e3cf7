//! Whether to look for a moment for what is awaited before going to sleep.
//!
//! Putting a thread to sleep and waking it on another core takes tens of microseconds of both
//! cores; looking costs the time that it takes. So a shard without mail looks for some before its
//! thread sleeps, and a caller that blocks looks for its answer, each as long as that has paid
//! lately: what comes within the time counts one up, what does not counts two down. Where nothing
//! comes nobody looks any more, and an idle process uses no processor.
//!
//! Who looks and who is looked for may have to share a core. Then looking goes on by turns: the
//! side that is on the other's core hands it over instead. Where a third thread takes it then, and
//! keeps it, nobody looks for a good while.
//!
//! Invariant: looking ends by itself, also where the clock stands still.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use crate::clock::Clock;

/// Where counting ends: so many failures in a row stop it, at most.
const CREDIT_MAX: i32 = 16;
/// What one failure takes.
const FAILURE: i32 = 2;
/// Who slept was woken late: what came within so many times of the time would have been seen.
const SLEPT_FACTOR: u64 = 3;
/// What took so many times of the time was kept away from its core by others, who need it: that
/// costs more than many sleeps.
const LOST_FACTOR: u64 = 10;
/// So much has to pay before one looks again then.
const CREDIT_LOST: i32 = -64;
/// Looks between two looks at the clock: well under a microsecond.
const LOOKS: u32 = 12;
/// Looks at the clock in one call, at most.
const ROUNDS_MAX: u32 = 256;

/// See the head of this file.
pub(super) struct Polling {
    clock: Arc<dyn Clock>,
    /// Zero where nobody is to look.
    max_ns: u64,
    credit: AtomicI32,
}

impl Polling {
    /// Looks for `max` at most; zero never looks.
    pub(super) fn new(clock: Arc<dyn Clock>, max: Duration) -> Self {
        let max_ns = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX);
        Polling { clock, max_ns, credit: AtomicI32::new(0) }
    }

    pub(super) fn is_off(&self) -> bool {
        self.max_ns == 0
    }

    /// Whether to look.
    pub(super) fn pays(&self) -> bool {
        !self.is_off() && self.credit.load(Ordering::Relaxed) > 0
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }

    /// Whether the time is over that began at `since_ns`.
    pub(super) fn is_over(&self, since_ns: u64) -> bool {
        self.now_ns().saturating_sub(since_ns) >= self.max_ns
    }

    /// Slices of this length that the time has at most, the two at its ends included.
    pub(super) fn slices(&self, slice_ns: u64) -> u64 {
        self.max_ns / slice_ns + 2
    }

    /// Looks until `is_there`, for `slice_ns` at most. `lend` hands the core over where the other
    /// side is on it. False where it did not come.
    pub(super) fn look(
        &self,
        slice_ns: u64,
        is_there: impl Fn() -> bool,
        lend: impl Fn() -> bool,
    ) -> bool {
        let start_ns = self.now_ns();
        for _ in 0..ROUNDS_MAX {
            if lend() {
                std::thread::yield_now();
            }
            for _ in 0..LOOKS {
                if is_there() {
                    return true;
                }
                hint::spin_loop();
            }
            if self.now_ns().saturating_sub(start_ns) >= slice_ns {
                return false;
            }
        }
        false
    }

    /// Looks until `is_there`, in one piece, where that pays.
    pub(super) fn look_once(&self, is_there: impl Fn() -> bool, lend: impl Fn() -> bool) -> Looked {
        if self.is_off() {
            return Looked { since_ns: 0, how: How::InVain };
        }
        let since_ns = self.now_ns();
        let how = match self.pays() {
            false => How::NotAtAll,
            true if self.look(self.max_ns, is_there, lend) => How::Found,
            true => {
                self.failed(since_ns);
                How::InVain
            }
        };
        Looked { since_ns, how }
    }

    /// What was looked for is there.
    pub(super) fn found(&self, looked: Looked) {
        match looked.how {
            How::InVain => {}
            How::Found => self.note(looked.since_ns, false),
            How::NotAtAll => self.note(looked.since_ns, true),
        }
    }

    /// What was awaited since `since_ns` is there; `has_slept` where the thread slept for it.
    pub(super) fn note(&self, since_ns: u64, has_slept: bool) {
        if self.is_off() {
            return;
        }
        let took_ns = self.now_ns().saturating_sub(since_ns);
        // Who looked in vain and slept then was counted by `failed`.
        let bound = if has_slept { self.max_ns.saturating_mul(SLEPT_FACTOR) } else { self.max_ns };
        match took_ns <= bound {
            true => self.count(1),
            false if has_slept => self.count(-FAILURE),
            false => self.failed(since_ns),
        }
    }

    /// It did not come while one looked, or too late.
    pub(super) fn failed(&self, since_ns: u64) {
        let took_ns = self.now_ns().saturating_sub(since_ns);
        match took_ns > self.max_ns.saturating_mul(LOST_FACTOR) {
            true => self.credit.store(CREDIT_LOST, Ordering::Relaxed),
            false => self.count(-FAILURE),
        }
    }

    fn count(&self, change: i32) {
        let before = self.credit.load(Ordering::Relaxed);
        let after = (before + change).clamp(before.min(0), CREDIT_MAX);
        // Several callers may count at once: one count more or less is no matter.
        if after != before {
            self.credit.store(after, Ordering::Relaxed);
        }
    }
}

/// How somebody looked for what it awaits.
pub(super) struct Looked {
    since_ns: u64,
    how: How,
}

enum How {
    Found,
    /// That is counted already, or nothing is.
    InVain,
    NotAtAll,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SimulatedClock;

    fn polling(max_us: u64) -> (Arc<SimulatedClock>, Polling) {
        let clock = SimulatedClock::new(0);
        (clock.clone(), Polling::new(clock, Duration::from_micros(max_us)))
    }

    /// Something comes after `us`, and the thread slept or did not.
    fn comes_after(clock: &SimulatedClock, polling: &Polling, us: u64, has_slept: bool) {
        let since_ns = polling.now_ns();
        clock.advance(Duration::from_micros(us));
        polling.note(since_ns, has_slept);
    }

    #[test]
    fn it_begins_with_traffic_that_pays_and_ends_without() {
        let (clock, polling) = polling(20);
        assert!(!polling.pays(), "nothing came yet");
        comes_after(&clock, &polling, 59, true);
        assert!(polling.pays(), "it would have been seen by who does not sleep");
        for _ in 0..100 {
            comes_after(&clock, &polling, 5, false);
        }
        let mut vain = 0;
        while polling.pays() {
            polling.failed(polling.now_ns());
            vain += 1;
        }
        assert_eq!(vain, 8, "traffic that ended is looked for a few times");
        comes_after(&clock, &polling, 1000, true);
        assert!(!polling.pays());
    }

    #[test]
    fn traffic_that_mostly_comes_later_is_not_looked_for() {
        let (clock, polling) = polling(20);
        let mut looks = 0;
        for round in 0..1000 {
            let us = if round % 2 == 0 { 10 } else { 500 };
            let has_looked = polling.pays();
            looks += u32::from(has_looked);
            match has_looked && us > 20 {
                true => polling.failed(polling.now_ns()),
                false => comes_after(&clock, &polling, us, !has_looked),
            }
        }
        assert!(looks <= 500, "{looks} of 1000");
        let (_, off) = self::polling(0);
        off.note(off.now_ns(), false);
        assert!(!off.pays());
    }

    #[test]
    fn where_others_take_the_core_nobody_looks_for_a_good_while() {
        let (clock, polling) = polling(20);
        let mut lost = 0;
        for round in 0..10_000 {
            let looks = polling.pays();
            lost += u32::from(looks);
            comes_after(&clock, &polling, if looks { 3000 } else { 5 }, !looks);
            assert!(lost * 60 < round + 60, "{lost} of {round}");
        }
        assert!(lost > 100, "it is tried again");
    }

    #[test]
    fn a_caller_whose_shard_is_silent_looks_a_few_times_and_then_not_at_all() {
        let (clock, polling) = polling(20);
        for _ in 0..100 {
            comes_after(&clock, &polling, 5, false);
        }
        let looks = std::cell::Cell::new(0);
        let is_there = || {
            looks.set(looks.get() + 1);
            clock.advance(Duration::from_micros(1));
            false
        };
        let mut calls = 0;
        for _ in 0..1000 {
            calls += u32::from(polling.pays());
            let looked = polling.look_once(is_there, || false);
            // The answer comes when the caller sleeps.
            clock.advance(Duration::from_millis(1));
            polling.found(looked);
        }
        assert_eq!(calls, 8);
        assert_eq!(looks.get(), 8 * 2 * LOOKS, "24 us in each of them");
    }

    #[test]
    fn looking_ends_where_the_clock_stands_still() {
        let (_, polling) = polling(20);
        assert!(!polling.look(20_000, || false, || false));
        assert!(polling.look(20_000, || true, || true));
    }
}
