//! Sleeping by the shard's clock: real time, or simulated time that moves only when told.
//!
//! Invariant: sleepers of a simulated timer wake in the order of their deadlines, and of their
//! calls where deadlines are equal.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::future::LocalBoxFuture;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinHandle;

use crate::clock::{Clock, SimulatedClock};
use crate::lent;
use crate::os;

/// Longest sleep that is worth a timer of the kernel: the timer of tokio counts milliseconds.
const FINE_MAX: Duration = Duration::from_millis(20);

/// A way to sleep on a shard.
pub trait Timer {
    /// Sleeps at least `duration`.
    fn sleep(&self, duration: Duration) -> LocalBoxFuture<'static, ()>;

    /// As [`sleep`](Self::sleep), and not much longer either: for waits of less than a millisecond,
    /// at the price of some system calls.
    fn sleep_finely(&self, duration: Duration) -> LocalBoxFuture<'static, ()> {
        self.sleep(duration)
    }
}

/// Sleeps by the timer of the surrounding tokio runtime, which counts milliseconds.
#[derive(Debug)]
pub struct RealTimer;

impl Timer for RealTimer {
    fn sleep(&self, duration: Duration) -> LocalBoxFuture<'static, ()> {
        lent::on_own_thread(async move { tokio::time::sleep(duration).await })
    }

    fn sleep_finely(&self, duration: Duration) -> LocalBoxFuture<'static, ()> {
        if duration > FINE_MAX {
            return self.sleep(duration);
        }
        lent::on_own_thread(async move {
            if let Err(error) = wait_for_timer(duration).await {
                tracing::debug!(%error, "no timer of the kernel; the sleep is a coarse one");
                tokio::time::sleep(duration).await;
            }
        })
    }
}

/// Waits for a timer of the kernel.
#[expect(unsafe_code, reason = "tokio wants a promise about the descriptor")]
async fn wait_for_timer(duration: Duration) -> io::Result<()> {
    let timer = os::timer(duration)?;
    // SAFETY: the `AsyncFd` owns the descriptor, so it stays open and the same as long as that.
    let timer = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) }?;
    timer.readable().await?.retain_ready();
    Ok(())
}

/// Sleeps by a [`SimulatedClock`]. Whoever drives the simulation moves time with
/// [`SimulatedTimer::advance`] or [`SimulatedTimer::advance_to_next`] when all tasks wait.
pub struct SimulatedTimer {
    clock: Arc<SimulatedClock>,
    waiting: RefCell<BTreeMap<Deadline, Option<Waker>>>,
    sleep_count: Cell<u64>,
}

/// When a sleeper wakes: monotonic nanoseconds, then the order of the calls.
type Deadline = (u64, u64);

impl SimulatedTimer {
    pub fn new(clock: Arc<SimulatedClock>) -> Rc<Self> {
        let waiting = RefCell::new(BTreeMap::new());
        Rc::new(SimulatedTimer { clock, waiting, sleep_count: Cell::new(0) })
    }

    /// The clock that this timer moves.
    pub fn clock(&self) -> Arc<SimulatedClock> {
        self.clock.clone()
    }

    /// Moves time forward and wakes all whose deadline has come.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
        let now = self.clock.monotonic_ns();
        let mut woken = Vec::new();
        for (_, waker) in self.waiting.borrow_mut().range_mut(..=(now, u64::MAX)) {
            woken.extend(waker.take());
        }
        woken.into_iter().for_each(Waker::wake);
    }

    /// A timer whose time passes by itself on the `LocalSet` at hand: a millisecond after every
    /// `turns_per_ms` turns of the other tasks.
    pub fn passing(clock: Arc<SimulatedClock>, turns_per_ms: usize) -> (Rc<Self>, JoinHandle<()>) {
        let timer = Self::new(clock);
        let moved = timer.clone();
        let mover = tokio::task::spawn_local(async move {
            loop {
                for _ in 0..turns_per_ms {
                    tokio::task::yield_now().await;
                }
                moved.advance(Duration::from_millis(1));
            }
        });
        (timer, mover)
    }

    /// Moves time to the earliest deadline and wakes its sleepers. False when nobody sleeps.
    pub fn advance_to_next(&self) -> bool {
        let first = self.waiting.borrow().keys().next().map(|(deadline_ns, _)| *deadline_ns);
        let Some(deadline_ns) = first else { return false };
        let wait_ns = deadline_ns.saturating_sub(self.clock.monotonic_ns());
        self.advance(Duration::from_nanos(wait_ns));
        true
    }
}

/// One call of `sleep`.
struct Sleep {
    timer: Rc<SimulatedTimer>,
    deadline: Deadline,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.timer.clock.monotonic_ns() >= self.deadline.0 {
            return Poll::Ready(());
        }
        self.timer.waiting.borrow_mut().insert(self.deadline, Some(cx.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.timer.waiting.borrow_mut().remove(&self.deadline);
    }
}

impl Timer for Rc<SimulatedTimer> {
    fn sleep(&self, duration: Duration) -> LocalBoxFuture<'static, ()> {
        let order = self.sleep_count.get();
        self.sleep_count.set(order + 1);
        // The simulated clock counts microseconds: a deadline between two would not be reached.
        let wait_us = u64::try_from(duration.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX);
        let wait_ns = wait_us.saturating_mul(1000);
        let deadline = (self.clock.monotonic_ns().saturating_add(wait_ns), order);
        Box::pin(Sleep { timer: self.clone(), deadline })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_fine_sleep_is_as_long_as_it_should_be() {
        let clock = crate::clock::SystemClock::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let slept_ns = |duration| {
            let start_ns = clock.monotonic_ns();
            runtime.block_on(async { RealTimer.sleep_finely(duration).await });
            clock.monotonic_ns() - start_ns
        };
        for us in [0, 100, 700, 21_000] {
            assert!(slept_ns(Duration::from_micros(us)) >= us * 1000, "{us}");
        }
    }

    #[test]
    fn simulated_sleepers_wake_at_their_deadlines() {
        let clock = SimulatedClock::new(0);
        let timer = SimulatedTimer::new(clock.clone());
        let mut short = timer.sleep(Duration::from_micros(5));
        let mut long = timer.sleep(Duration::from_nanos(6_500));
        let dropped = timer.sleep(Duration::from_micros(1));
        assert!((&mut short).now_or_never().is_none() && (&mut long).now_or_never().is_none());
        drop(dropped);
        assert!(timer.advance_to_next());
        assert_eq!(clock.monotonic_ns(), 5_000);
        assert!(short.now_or_never().is_some() && (&mut long).now_or_never().is_none());
        timer.advance(Duration::from_micros(1));
        assert!((&mut long).now_or_never().is_none());
        assert!(timer.advance_to_next());
        assert!(long.now_or_never().is_some());
        assert_eq!((clock.monotonic_ns(), timer.advance_to_next()), (7_000, false));
    }
}
