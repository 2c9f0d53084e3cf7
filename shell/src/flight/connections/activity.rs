//! The calls of a connection, and for how long there was none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_engine::clock::Clock;

use super::STRANGER_PATIENCE;

/// What goes on on a connection.
pub(in crate::flight) struct Activity {
    clock: Arc<dyn Clock>,
    /// How long it may have no call.
    idle_max: Duration,
    /// Calls whose answers have not ended.
    calls: AtomicUsize,
    /// When the last one ended, or the connection began.
    since_ns: AtomicU64,
    /// Whether a call was let in.
    is_known: AtomicBool,
}

impl Activity {
    /// Of a connection that begins now. It may have no call for `idle_max`; zero is for ever.
    pub(in crate::flight) fn new(clock: Arc<dyn Clock>, idle_max: Duration) -> Arc<Self> {
        let since_ns = AtomicU64::new(clock.monotonic_ns());
        let (calls, is_known) = (AtomicUsize::new(0), AtomicBool::new(false));
        Arc::new(Activity { clock, idle_max, calls, since_ns, is_known })
    }

    /// A call begins, which ends when the result is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Call {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Call(Arc::clone(self))
    }

    /// A call was let in.
    pub(in crate::flight) fn let_in(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }

    /// How long the connection may still go without a call: nothing where it is to be closed, and
    /// `None` where it may for ever.
    pub(super) fn left(&self) -> Option<Duration> {
        let most = match self.is_known.load(Ordering::Relaxed) {
            true if self.idle_max.is_zero() => return None,
            true => self.idle_max,
            false if self.idle_max.is_zero() => STRANGER_PATIENCE,
            false => STRANGER_PATIENCE.min(self.idle_max),
        };
        if self.calls.load(Ordering::Relaxed) > 0 {
            return Some(most);
        }
        let since_ns = self.since_ns.load(Ordering::Relaxed);
        let unused_ns = self.clock.monotonic_ns().saturating_sub(since_ns);
        Some(most.saturating_sub(Duration::from_nanos(unused_ns)))
    }
}

/// A call of a connection.
pub(super) struct Call(Arc<Activity>);

impl Drop for Call {
    fn drop(&mut self) {
        self.0.since_ns.store(self.0.clock.monotonic_ns(), Ordering::Relaxed);
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tidegate_engine::clock::SimulatedClock;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_stranger_has_a_minute_and_who_was_let_in_has_what_the_limit_says() {
        let clock = SimulatedClock::new(1);
        let activity = Activity::new(Arc::clone(&clock) as Arc<dyn Clock>, HOUR);
        assert_eq!(activity.left(), Some(STRANGER_PATIENCE));
        clock.advance(STRANGER_PATIENCE);
        assert_eq!(activity.left(), Some(Duration::ZERO));
        activity.let_in();
        assert_eq!(activity.left(), Some(HOUR - STRANGER_PATIENCE));
        clock.advance(HOUR);
        assert_eq!(activity.left(), Some(Duration::ZERO));
    }

    #[test]
    fn calls_hold_the_time_and_the_last_one_begins_it_anew() {
        let clock = SimulatedClock::new(1);
        let activity = Activity::new(Arc::clone(&clock) as Arc<dyn Clock>, HOUR);
        activity.let_in();
        let (one, other) = (activity.begin(), activity.begin());
        clock.advance(2 * HOUR);
        drop(one);
        clock.advance(2 * HOUR);
        assert_eq!(activity.left(), Some(HOUR), "one is under way");
        drop(other);
        assert_eq!(activity.left(), Some(HOUR), "it has just ended");
        clock.advance(HOUR / 2);
        assert_eq!(activity.left(), Some(HOUR / 2));
    }

    #[test]
    fn without_a_limit_only_strangers_have_one() {
        let clock = SimulatedClock::new(1);
        let activity = Activity::new(Arc::clone(&clock) as Arc<dyn Clock>, Duration::ZERO);
        assert_eq!(activity.left(), Some(STRANGER_PATIENCE));
        activity.let_in();
        clock.advance(1000 * HOUR);
        assert_eq!(activity.left(), None);
        // A limit below a minute holds for strangers as well.
        let short = Activity::new(clock, Duration::from_secs(5));
        assert_eq!(short.left(), Some(Duration::from_secs(5)));
    }
}
