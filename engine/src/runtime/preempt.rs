//! Taking turns: tasks offer to yield, those that held the thread too long are counted.
//!
//! A loop over rows calls [`maybe_yield`] once a row. On a shard thread that yields when the task
//! has run for three quarters of the quota, so that a task that listens stays within it; on a
//! local shard (simulation) the seed decides, because simulated time stands still while a task
//! runs, and because drawn turns show more interleavings than measured ones.
//!
//! Where mail waits for the shard, or a job out of it for its first turn, a turn is over sooner:
//! somebody's read should not wait for the whole turn of a flush, or of many writes that came just
//! before it. The same holds for background tasks while the disk has a page that a query waits for:
//! the thread takes note of it at the end of a turn only. Jobs have their whole turn: most pages
//! that wait beside a read are its own, and each yield costs a doorbell.
//!
//! A turn that took too long is told by the two looks between which most of it passed: their places
//! in the source, which the calls bring along.
//!
//! A call that need not yield costs a thread-local decrement: the clock is read after 1, 2, 4 …
//! at most 64 calls, fewer when the pace of the calls so far would overshoot.
//!
//! Yielding on a ring must let the thread come to the point where it would sleep, because that is
//! where tokio-uring submits; tokio's own `yield_now` polls for events without passing it, and one
//! busy task would hold back the I/O of all. So there the task waits for a [`Doorbell`] that it
//! rings itself: one write and one poll more in each quota, under 10 us in a debug build.
//!
//! Invariant: every task of a shard is polled under its [`Monitor`], which is the thread's current
//! one for exactly that long. A caller that has the shard's lease (`lease.rs`) works under it too.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn, ready};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::AbortHandle;

use super::gate::{Gate, GateGuard};
use super::pace;
use super::shares::{self, Groups};
use super::stats::{RuntimeStats, Stretch};
use crate::admission;
use crate::clock::{Clock, Random};
use crate::config::TASK_QUOTA_US;
use crate::io;
use crate::lent;
use crate::os;

/// A poll longer than this is a stall.
const QUOTA_NS: u64 = TASK_QUOTA_US * 1000;
/// When a task is asked to yield.
const YIELD_NS: u64 = QUOTA_NS / 4 * 3;
/// When a task is asked to yield to mail: yielding then costs some percent of the time at most.
const YIELD_TO_MAIL_NS: u64 = QUOTA_NS / 5;
/// How often a task that has time (`pace.rs`) offers its core to other threads: the kernel would
/// let them wait for the end of the turn.
const LEND_NS: u64 = QUOTA_NS / 10;
/// Longest time between two looks at the clock that is aimed at.
const LOOK_NS: u64 = YIELD_TO_MAIL_NS / 4;
/// How long a turn has lasted when the thread's use of its processor is first looked at, which
/// costs a call of the system.
const CPU_LOOK_NS: u64 = 50_000;
/// Most calls of `need_preempt` between two looks at the clock.
const CALLS_MAX: u32 = 64;
/// How long a process that a panic ends may take to say so.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// On a local shard, one call in so many yields.
pub(super) const DRAWN_CALLS: u64 = 16;

thread_local! {
    static CURRENT: RefCell<Option<Rc<Monitor>>> = const { RefCell::new(None) };
    /// Calls of `need_preempt` that may pass before the monitor is asked.
    static CALLS_LEFT: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// Whether the running task should yield soon. Once true, it stays true until the task yields.
/// False outside a shard.
#[inline]
#[track_caller]
pub fn need_preempt() -> bool {
    let place = Location::caller();
    CALLS_LEFT.with(|left| match left.get() {
        0 => ask_monitor(left, place),
        calls => {
            left.set(calls - 1);
            false
        }
    })
}

#[cold]
fn ask_monitor(left: &Cell<u32>, place: &'static Location<'static>) -> bool {
    CURRENT.with_borrow(|current| match current {
        Some(monitor) => match monitor.calls_until_next_look(place) {
            Some(calls) => {
                left.set(calls - 1);
                false
            }
            None => true,
        },
        None => {
            left.set(u32::MAX);
            false
        }
    })
}

/// Yields when the task has used up its turn. For every loop whose length the data decides.
#[inline]
#[track_caller]
pub fn maybe_yield() -> impl Future<Output = ()> {
    let is_over = need_preempt();
    async move {
        if is_over {
            yield_now().await;
        }
    }
}

/// Lets all other ready tasks of the shard run, and its I/O be submitted; a task with a
/// [`Pace`](super::Pace) may rest.
pub async fn yield_now() {
    let mut turn = pin!(next_turn());
    poll_fn(|context| {
        let polled = turn.as_mut().poll(context);
        admission::set_yields(polled.is_pending());
        polled
    })
    .await
}

/// Comes back when the others had their turns.
async fn next_turn() {
    if lent::is_lent() {
        // Who has the lease leaves the rest to the shard's thread.
        return lent::on_own_thread(ready(())).await;
    }
    if let Some(rest) = pace::rest() {
        return rest.await;
    }
    let mut queued = shares::queue_up();
    if let Some(queued) = &mut queued {
        queued.await;
    }
    let doorbell = CURRENT.with_borrow(|current| current.as_ref()?.doorbell.clone());
    match doorbell {
        Some(doorbell) => doorbell.ring_and_wait().await,
        None => tokio::task::yield_now().await,
    }
    if let Some(queued) = queued {
        queued.begin();
    }
}

/// Whether the calling code is a task of a shard.
pub fn is_on_shard() -> bool {
    CURRENT.with_borrow(|current| current.is_some())
}

/// Starts a background task on the shard that the calling task runs on. It is dropped when the
/// shard stops, after the jobs have ended; work that must end whole belongs behind a [`Gate`] that
/// a last job closes. A shard that is stopping starts no more tasks.
///
/// Panics outside a shard's task.
pub fn spawn_local(name: &'static str, future: impl Future<Output = ()> + 'static) {
    let monitor = CURRENT.with_borrow(|current| current.clone());
    let monitor = monitor.expect("background tasks are started by a task of a shard");
    match lent::is_lent() {
        true => monitor.defer(Deferred::Background(name, Box::pin(future))),
        false => monitor.spawn_background(name, future),
    }
}

/// Starts a task that nobody measures and nobody drops before the shard's thread ends, on the shard
/// or the `LocalSet` that the calling code runs on.
pub fn spawn_detached(future: impl Future<Output = ()> + 'static) {
    if !lent::is_lent() {
        drop(tokio::task::spawn_local(future));
        return;
    }
    let monitor = CURRENT.with_borrow(|current| current.clone());
    let monitor = monitor.expect("who has a shard's lease works under its monitor");
    monitor.defer(Deferred::Detached(Box::pin(future)));
}

/// A task that goes on for another. Its drop ends it.
#[must_use]
pub struct Request(AbortHandle);

impl Drop for Request {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts a task for what the running one asked for, on the shard's own thread.
///
/// Panics outside a shard's task.
pub fn spawn_request(name: &'static str, future: impl Future<Output = ()> + 'static) -> Request {
    debug_assert!(!lent::is_lent(), "the tasks belong to the shard's thread");
    let monitor = CURRENT.with_borrow(|current| current.clone());
    let monitor = monitor.expect("requests are made by a task of a shard");
    Request(monitor.spawn(name, future))
}

/// A task that the shard's thread is to start: its caller had the lease on another thread.
pub(super) enum Deferred {
    Background(&'static str, LocalBoxFuture<'static, ()>),
    Detached(LocalBoxFuture<'static, ()>),
    /// What is left to do for a question, which the shard's end waits for.
    Job(&'static str, LocalBoxFuture<'static, ()>),
}

/// What a shard's thread does when a task panics.
pub(super) enum OnPanic {
    /// End the process: the state may be half changed, and replay recovers.
    Abort,
    /// Keep the message for the next caller: a local shard lives inside a test.
    Keep(Arc<Mutex<Option<String>>>),
}

/// Measures the tasks of one shard and decides when they yield.
pub(super) struct Monitor {
    shard: u32,
    clock: Arc<dyn Clock>,
    stats: Arc<RuntimeStats>,
    doorbell: Option<Rc<Doorbell>>,
    /// On a local shard, turns are drawn: one call in so many yields.
    turns: Option<(RefCell<Random>, u64)>,
    on_panic: OnPanic,
    /// The task that is polled, or was last.
    running: Cell<&'static str>,
    due: Cell<bool>,
    poll_start_ns: Cell<u64>,
    looked_ns: Cell<u64>,
    looked_at: Cell<Option<&'static Location<'static>>>,
    /// Of this turn, the longest time between two looks.
    longest: Cell<(u64, Stretch)>,
    /// Of this turn, once it is not short: time, and time on the processor.
    on_cpu: Cell<Option<(u64, u64)>>,
    /// It is the turn of a background task.
    is_background: Cell<bool>,
    calls: Cell<u32>,
    /// Jobs out of the mailbox that have not had their first turn.
    unstarted: Cell<u32>,
    /// When the turn began, or the core was offered to other threads last.
    lent_ns: Cell<u64>,
    background: Gate,
    aborts: RefCell<BTreeMap<u64, AbortHandle>>,
    spawn_count: Cell<u64>,
    /// Tasks of callers that had the lease on other threads.
    deferred: RefCell<Vec<Deferred>>,
    pub(super) groups: Rc<Groups>,
}

impl Monitor {
    /// A monitor that measures turns by the clock.
    pub(super) fn measuring(
        shard: u32,
        clock: Arc<dyn Clock>,
        stats: Arc<RuntimeStats>,
        doorbell: Option<Rc<Doorbell>>,
    ) -> Rc<Self> {
        abort_before_unwinding();
        Rc::new(Monitor::new(shard, clock, stats, doorbell, None, OnPanic::Abort))
    }

    /// A monitor that draws turns from a seed, one in so many calls.
    pub(super) fn drawing(
        shard: u32,
        clock: Arc<dyn Clock>,
        stats: Arc<RuntimeStats>,
        (random, calls): (Random, u64),
        panic: Arc<Mutex<Option<String>>>,
    ) -> Rc<Self> {
        let turns = Some((RefCell::new(random), calls));
        Rc::new(Monitor::new(shard, clock, stats, None, turns, OnPanic::Keep(panic)))
    }

    fn new(
        shard: u32,
        clock: Arc<dyn Clock>,
        stats: Arc<RuntimeStats>,
        doorbell: Option<Rc<Doorbell>>,
        turns: Option<(RefCell<Random>, u64)>,
        on_panic: OnPanic,
    ) -> Self {
        let groups = Groups::new(clock.clone());
        Monitor {
            shard,
            clock,
            stats,
            doorbell,
            turns,
            on_panic,
            running: Cell::new("none"),
            due: Cell::new(false),
            poll_start_ns: Cell::new(0),
            looked_ns: Cell::new(0),
            looked_at: Cell::new(None),
            longest: Cell::default(),
            on_cpu: Cell::new(None),
            is_background: Cell::new(false),
            calls: Cell::new(1),
            unstarted: Cell::new(0),
            lent_ns: Cell::new(0),
            background: Gate::new(),
            aborts: RefCell::new(BTreeMap::new()),
            spawn_count: Cell::new(0),
            deferred: RefCell::default(),
            groups,
        }
    }

    /// Calls that may pass before the next look, at least one; `None` when the turn is over.
    fn calls_until_next_look(&self, place: &'static Location<'static>) -> Option<u32> {
        if self.due.get() {
            return None;
        }
        if let Some((random, calls)) = &self.turns {
            self.due.set(random.borrow_mut().one_in(*calls));
            return if self.due.get() { None } else { Some(1) };
        }
        let now = self.clock.monotonic_ns();
        let used_ns = now.saturating_sub(self.poll_start_ns.get());
        let passed_ns = self.look(now, Some(place));
        let others_wait = || {
            self.unstarted.get() > 0
                || self.stats.mail_waits()
                || self.is_background.get() && io::query_waits()
        };
        if used_ns >= YIELD_NS || used_ns >= YIELD_TO_MAIL_NS && others_wait() {
            self.due.set(true);
            return None;
        }
        if used_ns >= CPU_LOOK_NS && self.on_cpu.get().is_none() {
            self.on_cpu.set(Some((now, self.clock.thread_cpu_ns())));
        }
        if now.saturating_sub(self.lent_ns.get()) >= LEND_NS && pace::has_time() {
            std::thread::yield_now();
            self.lent_ns.set(self.clock.monotonic_ns());
        }
        let calls = u64::from(self.calls.get());
        let ns_per_call = (passed_ns / calls).max(1);
        let affordable = ((YIELD_NS - used_ns) / 2).min(LOOK_NS) / ns_per_call;
        let next = affordable.min(calls * 2).clamp(1, u64::from(CALLS_MAX)) as u32;
        self.calls.set(next);
        Some(next)
    }

    /// Notes that the task looked at this place, or that its turn ended; the time since the look
    /// before.
    fn look(&self, now: u64, place: Option<&'static Location<'static>>) -> u64 {
        let passed_ns = now.saturating_sub(self.looked_ns.replace(now));
        let after = self.looked_at.replace(place);
        if passed_ns > self.longest.get().0 {
            self.longest.set((passed_ns, Stretch { after, before: place }));
        }
        passed_ns
    }

    /// Counts a turn that was too long.
    #[cold]
    fn add_stall(&self, name: &'static str, now: u64, took_ns: u64) {
        let off_cpu_ns = self.on_cpu.get().map_or(0, |(since, cpu)| {
            let on_cpu_ns = self.clock.thread_cpu_ns().saturating_sub(cpu);
            now.saturating_sub(since).saturating_sub(on_cpu_ns)
        });
        let (_, stretch) = self.longest.get();
        self.stats.add_stall(name, stretch, took_ns, off_cpu_ns);
        let Stretch { after, before } = stretch;
        let (after, before) =
            (after.map(tracing::field::display), before.map(tracing::field::display));
        let shard = self.shard;
        tracing::debug!(
            shard,
            task = name,
            took_ns,
            off_cpu_ns,
            after,
            before,
            "a task held the shard"
        );
    }

    /// Polls a task under this monitor.
    fn poll<F: Future>(
        self: &Rc<Self>,
        name: &'static str,
        future: Pin<&mut F>,
        cx: &mut Context<'_>,
    ) -> Result<Poll<F::Output>, Box<dyn Any + Send>> {
        self.turn(name, || future.poll(cx))
    }

    /// Does something in a turn of its own on a caller's thread. Tasks that it starts are deferred.
    /// A panic ends the process, as one of a task does.
    pub(super) fn lent<T>(self: &Rc<Self>, name: &'static str, work: impl FnOnce() -> T) -> T {
        let result = lent::lent(|| self.turn(name, work));
        result.unwrap_or_else(|payload| {
            self.note_panic(name, &*payload);
            resume_unwind(payload)
        })
    }

    /// Leaves a task for the shard's thread to start.
    pub(super) fn defer(&self, task: Deferred) {
        self.deferred.borrow_mut().push(task);
    }

    pub(super) fn has_deferred(&self) -> bool {
        !self.deferred.borrow().is_empty()
    }

    pub(super) fn take_deferred(&self) -> Vec<Deferred> {
        self.deferred.take()
    }

    fn turn<T>(
        self: &Rc<Self>,
        name: &'static str,
        work: impl FnOnce() -> T,
    ) -> Result<T, Box<dyn Any + Send>> {
        let outer = CURRENT.replace(Some(self.clone()));
        let outer_groups = shares::exchange(Some(self.groups.clone()));
        let outer_calls = CALLS_LEFT.replace(0);
        self.running.set(name);
        self.begin_turn(self.clock.monotonic_ns());
        let result = catch_unwind(AssertUnwindSafe(work));
        let end = self.clock.monotonic_ns();
        let took_ns = end.saturating_sub(self.poll_start_ns.get());
        CALLS_LEFT.set(outer_calls);
        CURRENT.set(outer);
        shares::exchange(outer_groups);
        self.groups.end_turn(self.stats.mail_waits());
        if took_ns > QUOTA_NS {
            self.look(end, None);
            self.add_stall(self.running.get(), end, took_ns);
        }
        result
    }

    /// Runs a future to its end under this monitor.
    pub(super) async fn run<F: Future>(self: Rc<Self>, name: &'static str, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|cx| match self.poll(name, future.as_mut(), cx) {
            Ok(poll) => poll,
            Err(payload) => {
                self.note_panic(name, &*payload);
                resume_unwind(payload)
            }
        })
        .await
    }

    /// Starts a task under this monitor. The returned handle need not be kept.
    pub(super) fn spawn(
        self: &Rc<Self>,
        name: &'static str,
        future: impl Future<Output = ()> + 'static,
    ) -> AbortHandle {
        tokio::task::spawn_local(self.clone().run(name, future)).abort_handle()
    }

    /// Starts a job out of the mailbox; until its first turn it counts as mail that waits.
    pub(super) fn spawn_job(
        self: &Rc<Self>,
        name: &'static str,
        future: impl Future<Output = ()> + 'static,
    ) {
        let monitor = self.clone();
        self.unstarted.set(self.unstarted.get() + 1);
        self.spawn(name, async move {
            monitor.unstarted.set(monitor.unstarted.get() - 1);
            future.await;
        });
    }

    /// Does something for a job in the turn of the running task. `None` where that panicked.
    pub(super) fn within_turn<T>(&self, name: &'static str, work: impl FnOnce() -> T) -> Option<T> {
        // It stays until the turn ends: that is who made it long.
        self.running.set(name);
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(result) => Some(result),
            Err(payload) => {
                self.note_panic(name, &*payload);
                None
            }
        }
    }

    fn begin_turn(&self, now: u64) {
        self.due.set(false);
        self.poll_start_ns.set(now);
        self.looked_ns.set(now);
        self.lent_ns.set(now);
        self.looked_at.set(None);
        self.longest.set((0, Stretch::default()));
        self.on_cpu.set(None);
        self.is_background.set(false);
        self.calls.set(1);
    }

    pub(super) fn spawn_background(
        self: &Rc<Self>,
        name: &'static str,
        future: impl Future<Output = ()> + 'static,
    ) {
        let Ok(guard) = self.background.enter() else { return };
        let id = self.spawn_count.get();
        self.spawn_count.set(id + 1);
        let entry = BackgroundEntry { monitor: self.clone(), id, _guard: guard };
        let monitor = self.clone();
        let handle = self.spawn(name, async move {
            // Leaves the gate when the future is gone, be it done or dropped.
            let _entry = entry;
            let mut future = pin!(future);
            poll_fn(|context| {
                monitor.is_background.set(true);
                future.as_mut().poll(context)
            })
            .await;
        });
        self.aborts.borrow_mut().insert(id, handle);
    }

    /// Drops all background tasks and waits until they are gone.
    pub(super) async fn stop_background(&self) {
        let handles: Vec<_> = self.aborts.borrow().values().cloned().collect();
        handles.iter().for_each(AbortHandle::abort);
        self.background.close().await;
    }

    fn note_panic(&self, name: &'static str, payload: &(dyn Any + Send)) {
        let message = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("(no message)");
        let message = format!("shard {}: task '{name}' panicked: {message}", self.shard);
        match &self.on_panic {
            OnPanic::Abort => end_process(&message),
            OnPanic::Keep(kept) => {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.get_or_insert(message);
            }
        }
    }
}

/// Ends the process in a while, should nobody read its last words.
fn abort_soon() {
    // Without a thread the words may wait for good, as they would without this.
    let _ = std::thread::Builder::new().name("last words".to_owned()).spawn(|| {
        std::thread::sleep(LAST_WORDS);
        std::process::abort();
    });
}

fn end_process(message: &str) -> ! {
    abort_soon();
    tracing::error!("{message}; the process stops, reopening replays the commitlog");
    // Past the test harness's capture and any log filter: these are the last words.
    let _ = writeln!(std::io::stderr(), "{message}; the process stops");
    std::process::abort();
}

/// Sees to it, once a process, that a panic of a shard's task ends the process before its locals
/// are dropped. Unwinding first would close the task's channels, and a reader elsewhere would take
/// a result cut short for a whole one. Where another hook has replaced this one, the process still
/// ends, after the unwinding.
fn abort_before_unwinding() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let earlier = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let ended = CURRENT.try_with(|current| {
                let current = current.try_borrow().ok()?;
                let monitor = current.as_ref()?;
                let ends = matches!(monitor.on_panic, OnPanic::Abort);
                ends.then(|| (monitor.shard, monitor.running.get()))
            });
            let ended = ended.ok().flatten();
            if ended.is_some() {
                abort_soon();
            }
            earlier(info);
            if let Some((shard, task)) = ended {
                let message = info.payload_as_str().unwrap_or("(no message)");
                end_process(&format!("shard {shard}: task '{task}' panicked: {message}"));
            }
        }));
    });
}

/// Polls futures that then yield wherever they may, for tests that look at what is there at each
/// such place.
#[cfg(test)]
pub(crate) struct EachTurn(Rc<Monitor>);

#[cfg(test)]
impl EachTurn {
    pub(crate) fn new() -> Self {
        let clock = crate::clock::SimulatedClock::new(0);
        let (turns, panic) = ((Random::new(0), 1), Arc::default());
        EachTurn(Monitor::drawing(0, clock, Arc::default(), turns, panic))
    }

    pub(crate) fn poll<T>(&self, future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Poll<T> {
        let mut future = future;
        let mut cx = Context::from_waker(std::task::Waker::noop());
        match self.0.poll("each turn", pin!(&mut future), &mut cx) {
            Ok(poll) => poll,
            Err(payload) => resume_unwind(payload),
        }
    }
}

/// A background task in its monitor's books.
struct BackgroundEntry {
    monitor: Rc<Monitor>,
    id: u64,
    _guard: GateGuard,
}

impl Drop for BackgroundEntry {
    fn drop(&mut self) {
        self.monitor.aborts.borrow_mut().remove(&self.id);
    }
}

/// A way to be woken only by the thread's wait for events.
pub(super) struct Doorbell {
    counter: AsyncFd<OwnedFd>,
    /// It was rung, and nobody has been woken by that.
    is_rung: Cell<bool>,
}

impl Doorbell {
    /// A doorbell of the surrounding tokio runtime.
    #[expect(unsafe_code, reason = "tokio wants a promise about the descriptor")]
    pub(super) fn new() -> std::io::Result<Rc<Self>> {
        let counter = os::event_counter()?;
        // SAFETY: the `AsyncFd` owns the descriptor, so it stays open and the same as long as that.
        let counter = unsafe { AsyncFd::register_with_interest(counter, Interest::READABLE) }?;
        Ok(Rc::new(Doorbell { counter, is_rung: Cell::new(false) }))
    }

    /// Rings once for all who wait for the same look at events: many reads of one task do.
    async fn ring_and_wait(&self) {
        // An earlier ring may still count as an event; waiting for that would be no wait.
        if let Some(Ok(mut earlier)) = self.counter.readable().now_or_never() {
            earlier.clear_ready();
            self.is_rung.set(false);
        }
        if !self.is_rung.replace(true) {
            // The counter is never read: each write is a new event for an edge-triggered poll.
            os::ring_event_counter(self.counter.get_ref()).expect("an eventfd takes a write");
        }
        self.counter
            .readable()
            .await
            .expect("the runtime that polls this task lives")
            .retain_ready();
        self.is_rung.set(false);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use futures::future::join_all;

    use super::*;

    /// Rings since the last call.
    fn rings(doorbell: &Doorbell) -> u64 {
        let counter = doorbell.counter.get_ref().try_clone().unwrap();
        let mut count = [0; 8];
        std::fs::File::from(counter).read_exact(&mut count).unwrap();
        u64::from_ne_bytes(count)
    }

    #[tokio::test]
    async fn one_ring_wakes_all_who_wait_for_it_and_none_passes_without_a_wait() {
        let doorbell = Doorbell::new().unwrap();
        for round in 0..5 {
            let mut all = Box::pin(join_all((0..32).map(|_| doorbell.ring_and_wait())));
            assert!((&mut all).now_or_never().is_none(), "round {round}: all wait");
            all.await;
            assert_eq!(rings(&doorbell), 1, "round {round}");
            // Who waits behind them waits for another look at events, and so do two in turn.
            let mut next = Box::pin(doorbell.ring_and_wait());
            assert!((&mut next).now_or_never().is_none(), "round {round}: the next one waits");
            next.await;
            doorbell.ring_and_wait().await;
            assert_eq!(rings(&doorbell), 2, "round {round}");
        }
    }

    #[tokio::test]
    async fn a_ring_whose_waiter_has_gone_is_no_end_of_waiting() {
        let doorbell = Doorbell::new().unwrap();
        for _ in 0..3 {
            assert!(doorbell.ring_and_wait().now_or_never().is_none());
            doorbell.ring_and_wait().await;
            assert!(doorbell.ring_and_wait().now_or_never().is_none(), "told of once");
            // The event comes while nobody waits.
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            assert!(doorbell.ring_and_wait().now_or_never().is_none(), "an old event is none");
            doorbell.ring_and_wait().await;
        }
    }
}
