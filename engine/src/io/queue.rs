//! The requests of one shard: those that wait, and those that the disk has.
//!
//! A request that finds nobody waiting and enough tokens starts at once. Otherwise it waits in the
//! fair queue, and [`IoQueue::dispatch`] starts requests whenever one ends, one comes, one is given
//! up, or the tokens of the next one have come. A waiting shard reserves tokens ahead, for what it
//! has queued and its part of the burst at most: so its place among the shards does not depend on
//! how often it gets the processor. What it does not need goes back.
//!
//! Invariant: a request that waits holds no tokens and counts against nobody; one that was started
//! is ended by the drop of its [`Running`], whatever becomes of its caller.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::class::Class;
use super::fair_queue::{FairQueue, Flow};
use super::model::Kind;
use super::priority::{Present, Priority};
use super::scheduler::Scheduler;
use super::stats::{ClassStats, Recent, Sums};
use crate::clock::Clock;
use crate::config::{IO_IN_DISK_MAX, IO_NEWCOMER, IO_QUERIES_REST};
use crate::disk::Sleep;
use crate::policy::PlanStatus;
use crate::policy::io_priority::{DiskLoad, IoPriorityPolicy};

thread_local! {
    /// Of the queue of this thread's shard.
    static QUERIES: RefCell<Rc<Queries>> = RefCell::default();
}

/// Requests of queries.
#[derive(Default)]
struct Queries {
    /// Those of this shard.
    in_disk: Cell<usize>,
    /// Who knows those of all, and by which clock.
    of_all: Option<(Arc<Scheduler>, Arc<dyn Clock>)>,
}

/// Whether the disk has a request of a query of this thread's shard. Its answer may be there
/// already: the thread takes note of it at the end of a turn.
pub fn query_waits() -> bool {
    QUERIES.with_borrow(|queries| queries.in_disk.get() > 0)
}

/// Whether no query of any shard has come to the disk for a while ([`IO_QUERIES_REST`]), and none
/// is there: who works in the background may then ask for more at once.
pub fn queries_rest() -> bool {
    QUERIES.with_borrow(|queries| {
        let rest_ns = IO_QUERIES_REST.as_nanos() as u64;
        let is_long_ago = |(scheduler, clock): &(Arc<Scheduler>, Arc<dyn Clock>)| {
            let query_ns = scheduler.query_ns();
            query_ns.is_none_or(|at_ns| clock.monotonic_ns().saturating_sub(at_ns) >= rest_ns)
        };
        queries.in_disk.get() == 0 && queries.of_all.as_ref().is_some_and(is_long_ago)
    })
}

/// See the head of this file.
pub struct IoQueue {
    me: Weak<IoQueue>,
    scheduler: Arc<Scheduler>,
    clock: Arc<dyn Clock>,
    sleep: Sleep,
    priority: Priority,
    state: RefCell<State>,
}

struct State {
    waiting: FairQueue<Rc<Waiter>>,
    in_disk: usize,
    /// Those of queries among them.
    queries: Rc<Queries>,
    /// Tokens that this shard has and no request needs yet.
    ready: u64,
    reserved: Option<Reserved>,
    /// When the queue wakes at the latest.
    alarm_ns: Option<u64>,
    counted: [Counted; Class::COUNT],
}

/// Tokens that were asked for and have not come: the last so many before a point of the time line.
#[derive(Debug, Clone, Copy)]
struct Reserved {
    point: u64,
    cost: u64,
}

/// What is counted of a class.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    stats: ClassStats,
    /// Of requests that wait.
    queued_bytes: u64,
    recent: Recent,
    /// Since when requests wait and the disk has none.
    starving_since_ns: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Request {
    class: Class,
    /// Whose part of the class it takes.
    flow: Flow,
    kind: Kind,
    bytes: usize,
    cost: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Waits,
    /// At this time.
    Started(u64),
    Over,
}

struct Waiter {
    request: Request,
    arrived_ns: u64,
    progress: Cell<Progress>,
    waker: RefCell<Option<Waker>>,
}

/// A request that the disk has. Its drop says that it ended.
pub struct Running<'a> {
    queue: &'a IoQueue,
    request: Request,
    delay_ns: u64,
    started_ns: u64,
}

/// A request that waits for its turn. Its drop gives it up.
struct Waiting<'a> {
    queue: &'a IoQueue,
    waiter: Rc<Waiter>,
}

impl Counted {
    fn note_starving(&mut self, now_ns: u64) {
        let starves = self.stats.queued > 0 && self.stats.in_disk == 0;
        match self.starving_since_ns {
            None if starves => self.starving_since_ns = Some(now_ns),
            Some(since_ns) if !starves => {
                self.stats.starved_ns += now_ns.saturating_sub(since_ns);
                self.starving_since_ns = None;
            }
            _ => {}
        }
    }
}

impl IoQueue {
    /// The queue of one shard, whose thread calls this. `clock` is that by which the scheduler was
    /// made.
    pub fn new(scheduler: Arc<Scheduler>, clock: Arc<dyn Clock>, sleep: Sleep) -> Rc<Self> {
        let credit = u64::try_from(IO_NEWCOMER.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000);
        let of_all = Some((scheduler.clone(), clock.clone()));
        let queries = Rc::new(Queries { in_disk: Cell::default(), of_all });
        let state = RefCell::new(State {
            waiting: FairQueue::new(&Class::ALL.map(Class::default_shares), credit),
            in_disk: 0,
            queries: queries.clone(),
            ready: 0,
            reserved: None,
            alarm_ns: None,
            counted: [Counted::default(); Class::COUNT],
        });
        QUERIES.set(queries);
        let priority = Priority::new();
        Rc::new_cyclic(|me| IoQueue { me: me.clone(), scheduler, clock, sleep, priority, state })
    }

    /// Lets a policy plan the shares of this shard's classes, under the name of its statement;
    /// `None`: the shares that statements set.
    pub fn set_policy(&self, policy: Option<(String, Box<dyn IoPriorityPolicy>)>) {
        let now_ns = self.clock.monotonic_ns();
        self.priority.set(policy, now_ns);
        self.dispatch(now_ns);
    }

    /// What the policy did that was put in charge last.
    pub fn policy_status(&self) -> PlanStatus {
        self.priority.status()
    }

    /// Its own figures.
    pub fn policy_metrics(&self) -> Vec<(String, f64)> {
        self.priority.metrics()
    }

    /// Gives a class these shares on this shard where no policy plans others, and no statement sets
    /// them.
    pub fn set_native(&self, class: Class, shares: u32) {
        if self.priority.set_native(class.index(), shares) {
            self.dispatch(self.clock.monotonic_ns());
        }
    }

    /// The shares of a class that are in force on this shard.
    pub fn shares(&self, class: Class) -> u32 {
        self.shares_of(class.index())
    }

    fn shares_of(&self, class: usize) -> u32 {
        self.priority.shares(class, self.scheduler.shares(class))
    }

    /// Asks the policy for a plan when it is time.
    pub fn tick(&self) {
        let now_ns = self.clock.monotonic_ns();
        let mut disk =
            DiskLoad { in_disk: self.state.borrow().in_disk as u64, ..DiskLoad::default() };
        if let Some(figures) = self.scheduler.model().measured_figures() {
            (disk.read_iops, disk.read_bandwidth) = (figures.read_iops, figures.read_bandwidth);
            (disk.write_iops, disk.write_bandwidth) = (figures.write_iops, figures.write_bandwidth);
        }
        let present = || {
            let state = self.state.borrow();
            std::array::from_fn(|class| Present {
                queued: state.counted[class].stats.queued,
                queued_bytes: state.counted[class].queued_bytes,
                set: self.scheduler.shares(class),
            })
        };
        if self.priority.tick(now_ns, disk, present) {
            self.dispatch(now_ns);
        }
    }

    pub fn scheduler(&self) -> &Arc<Scheduler> {
        &self.scheduler
    }

    /// Waits until the disk may have a request; it has it until the answer is dropped.
    pub async fn admit(&self, class: Class, kind: Kind, bytes: usize) -> Running<'_> {
        let cost = self.scheduler.model().cost(kind, bytes);
        let request = Request { class, flow: Flow::current(), kind, bytes, cost };
        let now_ns = self.clock.monotonic_ns();
        self.note_query(class, now_ns);
        self.priority.note_arrived(class.index());
        if self.starts_at_once(&request, now_ns) {
            self.priority.note_started(class.index(), bytes, 0);
            return Running { queue: self, request, delay_ns: 0, started_ns: now_ns };
        }
        let (progress, waker) = (Cell::new(Progress::Waits), RefCell::new(None));
        let waiter = Rc::new(Waiter { request, arrived_ns: now_ns, progress, waker });
        {
            let mut state = self.state.borrow_mut();
            state.waiting.set_shares(class.index(), self.shares_of(class.index()));
            state.waiting.push((class.index(), request.flow), cost, waiter.clone());
            let counted = &mut state.counted[class.index()];
            counted.stats.queued += 1;
            counted.queued_bytes += bytes as u64;
            counted.note_starving(now_ns);
        }
        let waiting = Waiting { queue: self, waiter };
        self.dispatch(now_ns);
        waiting.await
    }

    /// A query comes to the disk, or leaves it.
    fn note_query(&self, class: Class, now_ns: u64) {
        if class == Class::Query {
            self.scheduler.note_query(now_ns);
        }
    }

    /// Counts a request that is cut into pieces.
    pub(super) fn note_split(&self, class: Class) {
        self.state.borrow_mut().counted[class.index()].stats.split += 1;
    }

    fn starts_at_once(&self, request: &Request, now_ns: u64) -> bool {
        let mut state = self.state.borrow_mut();
        if !state.waiting.is_empty() || state.in_disk >= IO_IN_DISK_MAX {
            return false;
        }
        let class = request.class.index();
        if self.scheduler.held_ns(class, now_ns).is_some() {
            return false;
        }
        if let Some(bucket) = self.scheduler.bucket() {
            bucket.replenish(now_ns);
            if !bucket.take(request.cost) {
                return false;
            }
        }
        state.waiting.set_shares(class, self.shares_of(class));
        state.waiting.pass((class, request.flow), request.cost);
        self.scheduler.charge_bytes(class, request.bytes);
        state.begin(request.class);
        true
    }

    /// Starts what may start.
    fn dispatch(&self, now_ns: u64) {
        if let Some(bucket) = self.scheduler.bucket() {
            bucket.replenish(now_ns);
        }
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        for class in 0..Class::COUNT {
            state.waiting.set_shares(class, self.shares_of(class));
        }
        while state.in_disk < IO_IN_DISK_MAX {
            let may = |class| self.scheduler.held_ns(class, now_ns).is_none();
            let Some((class, cost)) = state.waiting.next(may) else {
                state.give_back(&self.scheduler);
                self.wait_for_bandwidth(state, now_ns);
                break;
            };
            if let Err(wait_ns) = state.pay(&self.scheduler, cost) {
                self.wake_in(state, now_ns, wait_ns);
                break;
            }
            let (_, waiter) = state.waiting.pop(class).expect("the next request waits");
            self.scheduler.charge_bytes(class, waiter.request.bytes);
            state.begin(waiter.request.class);
            let counted = &mut state.counted[class];
            counted.leave(&waiter.request);
            counted.note_starving(now_ns);
            let delay_ns = now_ns.saturating_sub(waiter.arrived_ns);
            self.priority.note_started(class, waiter.request.bytes, delay_ns);
            waiter.progress.set(Progress::Started(now_ns));
            if let Some(waker) = waiter.waker.take() {
                waker.wake();
            }
        }
        if state.waiting.is_empty() {
            state.give_back(&self.scheduler);
        }
    }

    /// Where all that waits is held by limits of bandwidth, the first that may go on wakes it.
    fn wait_for_bandwidth(&self, state: &mut State, now_ns: u64) {
        let queued = (0..Class::COUNT).filter(|class| state.waiting.len_of(*class) > 0);
        let held = queued.filter_map(|class| self.scheduler.held_ns(class, now_ns)).min();
        if let Some(wait_ns) = held {
            self.wake_in(state, now_ns, wait_ns);
        }
    }

    /// Has the queue go on in a while, unless it will sooner.
    fn wake_in(&self, state: &mut State, now_ns: u64, wait_ns: u64) {
        let at_ns = now_ns.saturating_add(wait_ns.max(1));
        if state.alarm_ns.is_some_and(|alarm_ns| alarm_ns <= at_ns) {
            return;
        }
        state.alarm_ns = Some(at_ns);
        let (me, slept) = (self.me.clone(), (self.sleep)(Duration::from_nanos(wait_ns.max(1))));
        tokio::task::spawn_local(async move {
            slept.await;
            let Some(queue) = me.upgrade() else { return };
            {
                let mut state = queue.state.borrow_mut();
                // A sooner alarm may have gone off, and set another one.
                state.alarm_ns.take_if(|alarm_ns| *alarm_ns == at_ns);
            }
            queue.dispatch(queue.clock.monotonic_ns());
        });
    }

    /// Ends a request that was started; one that the disk never had gets its tokens back, and
    /// leaves nothing on the limit of its class.
    fn end(&self, request: &Request, delay_ns: u64, started_ns: u64, had_it: bool) {
        let now_ns = self.clock.monotonic_ns();
        self.note_query(request.class, now_ns);
        let goes_on = {
            let mut state = self.state.borrow_mut();
            let counted = state.end(request.class);
            if had_it {
                let execution_ns = now_ns.saturating_sub(started_ns);
                self.priority.note_ended(execution_ns);
                counted.add(request, delay_ns, execution_ns, now_ns);
            } else {
                counted.stats.cancelled += 1;
            }
            counted.note_starving(now_ns);
            !state.waiting.is_empty()
        };
        if !had_it {
            self.scheduler.refund_bytes(request.class.index(), request.bytes);
            if let Some(bucket) = self.scheduler.bucket() {
                bucket.give_back(request.cost);
            }
        }
        if goes_on {
            self.dispatch(now_ns);
        }
    }

    /// Takes out a request that nobody waits for any more.
    fn give_up(&self, waiter: &Rc<Waiter>) {
        let now_ns = self.clock.monotonic_ns();
        let class = waiter.request.class.index();
        {
            let mut state = self.state.borrow_mut();
            let removed = state.waiting.remove(class, |other| Rc::ptr_eq(other, waiter));
            debug_assert!(removed.is_some(), "a request that waits is in the queue");
            let counted = &mut state.counted[class];
            counted.leave(&waiter.request);
            counted.stats.cancelled += 1;
            counted.note_starving(now_ns);
        }
        // The one behind it may cost less.
        self.dispatch(now_ns);
    }

    /// The classes as of now.
    pub fn stats(&self) -> [ClassStats; Class::COUNT] {
        let now_ns = self.clock.monotonic_ns();
        let state = self.state.borrow();
        state.counted.map(|counted| {
            let sums = counted.recent.sums(now_ns);
            let mean_us = |sum_ns: f64| match sums.requests > 0.0 {
                true => sum_ns / sums.requests / 1e3,
                false => 0.0,
            };
            let starving =
                counted.starving_since_ns.map_or(0, |since| now_ns.saturating_sub(since));
            ClassStats {
                recent_requests: sums.requests,
                recent_delay_us: mean_us(sums.delay_ns),
                recent_execution_us: mean_us(sums.execution_ns),
                recent_disk_share: sums.cost / super::model::DISK_SECOND as f64,
                starved_ns: counted.stats.starved_ns + starving,
                ..counted.stats
            }
        })
    }
}

impl Counted {
    /// A request does not wait any more.
    fn leave(&mut self, request: &Request) {
        self.stats.queued -= 1;
        self.queued_bytes -= request.bytes as u64;
    }

    fn add(&mut self, request: &Request, delay_ns: u64, execution_ns: u64, now_ns: u64) {
        let stats = &mut self.stats;
        match request.kind {
            Kind::Read => {
                stats.reads += 1;
                stats.read_bytes += request.bytes as u64;
            }
            Kind::Write => {
                stats.writes += 1;
                stats.written_bytes += request.bytes as u64;
            }
        }
        stats.delay_ns += delay_ns;
        stats.execution_ns += execution_ns;
        stats.disk_seconds += request.cost as f64 / super::model::DISK_SECOND as f64;
        let (delay_ns, execution_ns) = (delay_ns as f64, execution_ns as f64);
        let cost = request.cost as f64;
        self.recent.add(now_ns, &Sums { requests: 1.0, delay_ns, execution_ns, cost });
    }
}

impl State {
    /// Counts a request that goes to the disk.
    fn begin(&mut self, class: Class) {
        self.in_disk += 1;
        self.counted[class.index()].stats.in_disk += 1;
        if class == Class::Query {
            self.queries.in_disk.set(self.queries.in_disk.get() + 1);
        }
    }

    /// Counts a request that the disk has no longer.
    fn end(&mut self, class: Class) -> &mut Counted {
        self.in_disk -= 1;
        if class == Class::Query {
            let queries = self.queries.in_disk.get();
            assert!(queries > 0, "a request of a query ended that was not begun");
            self.queries.in_disk.set(queries - 1);
        }
        let counted = &mut self.counted[class.index()];
        counted.stats.in_disk -= 1;
        counted
    }

    /// Pays for the next request.
    ///
    /// Errors: the time until there is enough, nanoseconds.
    fn pay(&mut self, scheduler: &Scheduler, cost: u64) -> Result<(), u64> {
        let Some(bucket) = scheduler.bucket() else { return Ok(()) };
        loop {
            if self.ready >= cost {
                self.ready -= cost;
                return Ok(());
            }
            let wanted = cost - self.ready;
            let Some(reserved) = &mut self.reserved else {
                let ahead = self.waiting.cost().saturating_sub(self.ready);
                let cost = ahead.min(scheduler.reserve_max()).max(wanted);
                self.reserved = Some(Reserved { point: bucket.reserve(cost), cost });
                continue;
            };
            let lacking = bucket.lacking(reserved.point);
            let come = reserved.cost - lacking.min(reserved.cost);
            self.ready += come;
            reserved.cost -= come;
            if reserved.cost == 0 {
                self.reserved = None;
            } else if self.ready < cost {
                // The first of what was reserved is enough where the request is small.
                let enough = (cost - self.ready).min(reserved.cost);
                return Err(bucket.wait_ns(lacking - (reserved.cost - enough)));
            }
        }
    }

    /// Nobody waits for tokens: what is left of the shard's goes to the others.
    fn give_back(&mut self, scheduler: &Scheduler) {
        let Some(bucket) = scheduler.bucket() else { return };
        let reserved = self.reserved.take().map_or(0, |reserved| reserved.cost);
        let rest = std::mem::take(&mut self.ready) + reserved;
        if rest > 0 {
            bucket.give_back(rest);
        }
    }
}

impl Running<'_> {
    /// How long it waited in the queue, and how long the disk has had it, nanoseconds.
    pub fn times_ns(&self) -> (u64, u64) {
        (self.delay_ns, self.queue.clock.monotonic_ns().saturating_sub(self.started_ns))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.queue.end(&self.request, self.delay_ns, self.started_ns, true);
    }
}

impl<'a> Future for Waiting<'a> {
    type Output = Running<'a>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Running<'a>> {
        let waiter = &self.waiter;
        match waiter.progress.get() {
            Progress::Started(started_ns) => {
                waiter.progress.set(Progress::Over);
                let (queue, request) = (self.queue, waiter.request);
                let delay_ns = started_ns.saturating_sub(waiter.arrived_ns);
                Poll::Ready(Running { queue, request, delay_ns, started_ns })
            }
            _ => {
                *waiter.waker.borrow_mut() = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        match self.waiter.progress.replace(Progress::Over) {
            Progress::Waits => self.queue.give_up(&self.waiter),
            Progress::Started(started_ns) => {
                self.queue.end(&self.waiter.request, 0, started_ns, false);
            }
            Progress::Over => {}
        }
    }
}
