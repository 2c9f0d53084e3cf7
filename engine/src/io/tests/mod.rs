//! The scheduler at work: on disks and in time that are simulated.

mod disk;
mod priority;
mod shares;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use tokio::sync::oneshot;

use super::*;
use crate::clock::{Clock, SimulatedClock};
use crate::disk::Sleep;

/// Turns that tasks have between two steps of time: a request that ends, its task, the next one.
const TURNS: usize = 12;

/// So often nobody sleeps where all is well.
const IDLE_MAX: u32 = 10_000;

/// 100 µs for a page in both directions, 1 ms for 256 KiB.
const DISK: DiskProperties = DiskProperties::new((11_650, 288_000_000), (11_650, 288_000_000));

/// Time that moves when all tasks wait.
struct Time {
    clock: Arc<SimulatedClock>,
    sleepers: RefCell<BTreeMap<(u64, u64), oneshot::Sender<()>>>,
    sleeps: Cell<u64>,
}

impl Time {
    fn now_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }

    async fn sleep_until(self: &Rc<Self>, at_ns: u64) {
        let (sender, woken) = oneshot::channel();
        let order = self.sleeps.replace(self.sleeps.get() + 1);
        // The clock counts microseconds.
        self.sleepers.borrow_mut().insert((at_ns.next_multiple_of(1000), order), sender);
        let _ = woken.await;
    }

    fn sleep(self: &Rc<Self>) -> Sleep {
        let time = self.clone();
        Box::new(move |duration| {
            let time = time.clone();
            let at_ns = time.now_ns() + duration.as_nanos() as u64;
            async move { time.sleep_until(at_ns).await }.boxed_local()
        })
    }

    /// A queue of a shard in this time.
    fn queue(self: &Rc<Self>, scheduler: &Arc<Scheduler>) -> Rc<IoQueue> {
        IoQueue::new(scheduler.clone(), self.clock.clone(), self.sleep())
    }

    /// Wakes the next sleeper; false where there is none.
    fn step(&self) -> bool {
        let Some(((at_ns, _), sender)) = self.sleepers.borrow_mut().pop_first() else {
            return false;
        };
        let wait_ns = at_ns.saturating_sub(self.now_ns());
        self.clock.advance(Duration::from_nanos(wait_ns));
        let _ = sender.send(());
        true
    }
}

/// Whether a future wants to be polled.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a future in simulated time.
fn simulate<F: Future>(make: impl FnOnce(Rc<Time>) -> F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let time = Rc::new(Time {
        clock: SimulatedClock::new(0),
        sleepers: RefCell::default(),
        sleeps: Cell::new(0),
    });
    let driven = async {
        let mut future = pin!(make(time.clone()));
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(woken.clone());
        let mut idle = 0;
        loop {
            for _ in 0..TURNS {
                // To ask a future of many loads in each turn takes longer than the loads.
                if woken.0.swap(false, Ordering::Relaxed)
                    && let Poll::Ready(output) =
                        future.as_mut().poll(&mut Context::from_waker(&waker))
                {
                    return output;
                }
                tokio::task::yield_now().await;
            }
            // A simulated disk waits for turns only.
            idle = if time.step() { 0 } else { idle + 1 };
            assert!(idle < IDLE_MAX, "all wait, and nobody for time");
        }
    };
    tokio::task::LocalSet::new().block_on(&runtime, driven)
}

/// A disk that serves one request after another, each for as long as it costs: where more comes
/// than it can do, its own queue grows.
struct Served {
    time: Rc<Time>,
    free_at_ns: Cell<u64>,
    longest_ns: Cell<u64>,
    /// Disk-seconds of each class, and when the last request of all ended.
    cost: RefCell<[f64; Class::COUNT]>,
}

impl Served {
    fn new(time: &Rc<Time>) -> Rc<Self> {
        let (free_at_ns, longest_ns) = (Cell::new(0), Cell::new(0));
        Rc::new(Served { time: time.clone(), free_at_ns, longest_ns, cost: RefCell::default() })
    }

    async fn serve(&self, class: Class, cost: u64) {
        let now_ns = self.time.now_ns();
        let ends_ns = self.free_at_ns.get().max(now_ns) + cost / 1000;
        self.free_at_ns.set(ends_ns);
        self.longest_ns.set(self.longest_ns.get().max(ends_ns - now_ns));
        self.time.sleep_until(ends_ns).await;
        self.cost.borrow_mut()[class.index()] += cost as f64 / 1e12;
    }

    fn disk_seconds(&self, class: Class) -> f64 {
        self.cost.borrow()[class.index()]
    }

    /// Makes requests of a class, one after another, until time is over. It is a task of its own:
    /// of many loads only those run that have something to do.
    fn load(
        self: &Rc<Self>,
        queue: &Rc<IoQueue>,
        (class, kind, bytes): (Class, Kind, usize),
        until_ns: u64,
    ) -> LocalBoxFuture<'static, ()> {
        let (served, queue) = (self.clone(), queue.clone());
        let load = async move {
            while served.time.now_ns() < until_ns {
                let running = queue.admit(class, kind, bytes).await;
                served.serve(class, queue.scheduler().model().cost(kind, bytes)).await;
                drop(running);
            }
        };
        tokio::task::spawn_local(load).map(|done| done.expect("a load panics")).boxed_local()
    }
}
