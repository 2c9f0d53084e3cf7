//! Work in the background that leaves the processor to others while it has time.
//!
//! A task that runs under a [`Pace`] rests for a moment wherever it yields, as long as it is said
//! to have time: it takes a part of the processor instead of all that others leave, so that who
//! comes finds the shard idle more often than in the middle of a turn. When time runs short it does
//! not rest. Scylla's controllers give flushes and compactions shares of the processor by their
//! backlog; this is the same with two steps.
//!
//! Not here: when a task yields (`preempt.rs`), who has time (the task's owner says).

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use super::timer::Timer;

/// How long a rest is; timers count milliseconds. A turn before it is at most three quarters of the
/// quota.
const REST: Duration = Duration::from_millis(1);

thread_local! {
    /// That of the task that is polled.
    static CURRENT: RefCell<Option<Rc<Pace>>> = const { RefCell::new(None) };
}

/// See the head of this file.
pub struct Pace {
    timer: Rc<dyn Timer>,
    has_time: Box<dyn Fn() -> bool>,
}

impl Pace {
    /// A pace by the shard's `timer`; `has_time` is asked in each turn now and then, and at its
    /// end.
    pub fn new(timer: Rc<dyn Timer>, has_time: impl Fn() -> bool + 'static) -> Rc<Self> {
        Rc::new(Pace { timer, has_time: Box::new(has_time) })
    }

    /// Runs a future at this pace.
    pub async fn run<F: Future>(self: Rc<Self>, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| {
            let outer = CURRENT.replace(Some(self.clone()));
            let polled = future.as_mut().poll(context);
            CURRENT.set(outer);
            polled
        })
        .await
    }
}

/// Whether the running task has a pace, and time.
pub(super) fn has_time() -> bool {
    CURRENT.with_borrow(|current| current.as_ref().is_some_and(|pace| (pace.has_time)()))
}

/// The rest that the running task takes instead of a plain yield, if it has time for one.
pub(super) fn rest() -> Option<impl Future<Output = ()>> {
    let pace = CURRENT.with_borrow(|current| current.clone())?;
    (pace.has_time)().then(|| pace.timer.sleep(REST))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::super::RealTimer;
    use super::*;

    #[test]
    fn a_pace_is_that_of_its_own_work_only() {
        let pace = |is_idle| Pace::new(Rc::new(RealTimer), move || is_idle);
        let inner = async || {
            let within = pace(false).run(async { has_time() }).await;
            (within, has_time())
        };
        assert!(!has_time());
        let seen = pace(true).run(inner()).now_or_never();
        assert_eq!(seen, Some((false, true)), "of the inner work, and of the outer behind it");
        assert!(!has_time() && rest().is_none(), "what comes next rests for the work before");
    }
}
