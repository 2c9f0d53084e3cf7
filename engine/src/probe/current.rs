//! The probe of the task that is polled: how code below a read finds it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::future::Future;

use super::counts::Count;
use super::watch::OnShard;
use crate::scoped::{Entered, Within, scoped};

thread_local! {
    static CURRENT: RefCell<Option<OnShard>> = const { RefCell::new(None) };
}

/// What a read does is told to its probe, if it has one.
pub struct Probed(Within<Option<OnShard>>);

impl Probed {
    pub fn new(probe: Option<OnShard>) -> Self {
        Probed(Within::new(probe, |probe| CURRENT.replace(probe)))
    }

    /// Does work of the read that waits for nothing.
    pub fn within<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let _entered = Entered::new(&mut self.0);
        work()
    }

    /// Runs the read. Tasks that it spawns are not watched.
    pub fn run<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        scoped(future, self.0)
    }
}

/// The probe of the read that this thread works for.
#[inline]
pub fn current() -> Option<OnShard> {
    CURRENT.with_borrow(Clone::clone)
}

/// Tells that probe something, if there is one.
#[inline]
pub(crate) fn with(tell: impl FnOnce(&OnShard)) {
    CURRENT.with_borrow(|current| current.as_ref().map_or((), tell));
}

/// Counts something for the read that this thread works for, if it is watched.
#[inline]
pub fn count(what: Count, by: u64) {
    count_by(what, || by);
}

/// As [`count`], where it takes work to say how much.
#[inline]
pub fn count_by(what: Count, by: impl FnOnce() -> u64) {
    with(|probe| probe.add(what, by()));
}

/// Notes a step of the read that this thread works for, if its steps are wanted.
#[inline]
pub fn note<T: Into<Cow<'static, str>>>(text: impl FnOnce() -> T) {
    with(|probe| probe.note(text));
}

/// Counts the time until it is dropped, if the read that this thread works for is watched.
#[inline]
pub fn timer(what: Count) -> Option<Timer> {
    let probe = current()?;
    let start_ns = probe.now_ns();
    Some(Timer { probe, what, start_ns })
}

/// See [`timer`].
#[must_use]
pub struct Timer {
    probe: OnShard,
    what: Count,
    start_ns: u64,
}

impl Timer {
    /// Microseconds until now.
    pub fn elapsed_us(&self) -> u64 {
        self.probe.now_ns().saturating_sub(self.start_ns) / 1000
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let spent_ns = self.probe.now_ns().saturating_sub(self.start_ns);
        self.probe.add(self.what, spent_ns);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use futures::FutureExt;

    use super::super::{Detail, Watch};
    use super::*;
    use crate::clock::SimulatedClock;

    #[test]
    fn a_probe_is_that_of_its_own_future_only() {
        let watch = Watch::new(SimulatedClock::new(0), Detail::Counts);
        let [outer, inner] = ["outer", "inner"].map(|what| watch.read(Arc::new(what)).on(0));
        count(Count::Rows, 100);
        let work = async {
            count(Count::Rows, 1);
            Probed::new(Some(inner.clone())).run(async { count(Count::Rows, 10) }).await;
            count(Count::Rows, 2);
        };
        assert!(Probed::new(Some(outer.clone())).run(work).now_or_never().is_some());
        assert!(current().is_none());
        assert_eq!((outer.stats()[Count::Rows], inner.stats()[Count::Rows]), (3, 10));
        let panics = Probed::new(Some(outer)).run(async { panic!("as a task may") });
        let caught = std::panic::AssertUnwindSafe(panics).catch_unwind().now_or_never();
        let caught: Option<Result<(), _>> = caught;
        assert!(caught.is_some_and(|result| result.is_err()) && current().is_none());
    }

    #[test]
    fn a_timer_counts_the_time_while_it_lives() {
        let clock = SimulatedClock::new(0);
        let probe = Watch::new(clock.clone(), Detail::Counts).read(Arc::new("t")).on(0);
        assert!(timer(Count::TimeDisk).is_none());
        let work = async {
            let timer = timer(Count::TimeDisk);
            clock.advance(Duration::from_micros(7));
            drop(timer);
            clock.advance(Duration::from_micros(5));
        };
        assert!(Probed::new(Some(probe.clone())).run(work).now_or_never().is_some());
        assert_eq!(probe.stats()[Count::TimeDisk], 7000);
    }
}
