//! A shard's thread, its mailbox, and the handle by which other threads reach it.
//!
//! Invariant: a shard's state is made and dropped on its own thread, and used under its lease only
//! (`lease.rs`): there, or by a caller while that thread sleeps. A handle carries only closures
//! there and `Send` results back. Jobs that were accepted run, also while stopping.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use futures::future::LocalBoxFuture;
use tokio::sync::{oneshot, watch};

use super::gate::Gate;
use super::lease::Lease;
use super::mail::{Letter, Mail};
use super::mailbox::{Receiver, Sender, Ticket, mailbox};
use super::preempt::{self, Deferred, Doorbell, Monitor};
use super::stats::RuntimeStats;
use super::timer::{RealTimer, Timer};
use crate::clock::{Clock, Random};
use crate::config::TIME_SLICE;
use crate::disk::{self, Backend, Disk, OpenFiles};
use crate::error::{Error, Result};
use crate::io::{Class, IoQueue, ScheduledDisk, Scheduler};
use crate::os;

/// Jobs out of the mailbox that become tasks before tasks have their turn.
const BATCH_JOBS_MAX: u64 = 128;

/// What a shard gets from its surroundings.
pub struct ShardContext {
    pub shard: u32,
    pub shard_count: u32,
    /// The disk: its files open as far as `files` lets them be, its requests in the turn of `io`
    /// and of the class of the task that makes them.
    pub disk: Rc<dyn Disk>,
    /// How many files for reading are open.
    pub files: Rc<OpenFiles>,
    /// Requests that wait for the disk.
    pub io: Rc<IoQueue>,
    pub clock: Arc<dyn Clock>,
    pub timer: Rc<dyn Timer>,
    /// Seeded; each shard draws its own sequence from one seed.
    pub random: RefCell<Random>,
}

impl ShardContext {
    pub fn new(
        (shard, shard_count): (u32, u32),
        disk: Rc<dyn Disk>,
        clock: Arc<dyn Clock>,
        timer: Rc<dyn Timer>,
        seed: u64,
    ) -> Rc<Self> {
        let scheduler = Scheduler::unmeasured(shard_count);
        ShardContext::scheduled((shard, shard_count), disk, (clock, timer), seed, scheduler)
    }

    /// As [`new`](Self::new), on a disk that the shards share by `scheduler`.
    pub fn scheduled(
        (shard, shard_count): (u32, u32),
        disk: Rc<dyn Disk>,
        (clock, timer): (Arc<dyn Clock>, Rc<dyn Timer>),
        seed: u64,
        scheduler: Arc<Scheduler>,
    ) -> Rc<Self> {
        assert!(shard < shard_count, "shard {shard} of {shard_count}");
        // One draw mixes the shard in; neighbouring seeds themselves would give one sequence,
        // shifted.
        let mixed = Random::new(seed ^ (u64::from(shard) << 32)).next_u64();
        let random = RefCell::new(Random::new(mixed));
        let (coarse, fine) = (timer.clone(), timer.clone());
        let files = OpenFiles::new(disk, shard, Box::new(move |time| coarse.sleep(time)));
        let sleep = Box::new(move |time| fine.sleep_finely(time));
        let io = IoQueue::new(scheduler, clock.clone(), sleep);
        let disk = ScheduledDisk::new(files.clone(), io.clone(), None);
        Rc::new(ShardContext { shard, shard_count, disk, files, io, clock, timer, random })
    }

    /// The disk for requests that all are of one class, whoever makes them.
    pub fn disk_of(&self, class: Class) -> Rc<dyn Disk> {
        ScheduledDisk::new(self.files.clone(), self.io.clone(), Some(class))
    }

    /// Sleeps at least `duration` of the shard's time.
    pub fn sleep(&self, duration: Duration) -> LocalBoxFuture<'static, ()> {
        self.timer.sleep(duration)
    }
}

/// How a shard's thread is made.
pub struct ExecutorOptions {
    pub shard: u32,
    pub shard_count: u32,
    /// The core the thread stays on; `None` lets it move.
    pub core: Option<usize>,
    pub backend: Backend,
    pub clock: Arc<dyn Clock>,
    pub seed: u64,
    /// What the shards of a database share of the disk.
    pub scheduler: Arc<Scheduler>,
}

/// A way to reach a shard from any thread. Clones reach the same shard; when the last is dropped
/// the shard ends as if stopped, but nobody waits for it.
pub struct ShardHandle<S> {
    reach: Arc<Reach<S>>,
    /// `S` itself never crosses.
    state: PhantomData<fn(S)>,
}

/// The ways to a shard.
struct Reach<S> {
    mailbox: Sender<Mail<S>>,
    lease: Arc<Lease<S>>,
    shared: Shared,
}

struct Shared {
    stats: Arc<RuntimeStats>,
    /// Turns true when the shard's state is gone.
    ended: watch::Receiver<bool>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// First panic of a local shard; a thread's panic ends the process.
    panic: Option<Arc<Mutex<Option<String>>>>,
}

impl<S> Clone for ShardHandle<S> {
    fn clone(&self) -> Self {
        ShardHandle { reach: self.reach.clone(), state: PhantomData }
    }
}

impl<S> ShardHandle<S> {
    fn new(mailbox: Sender<Mail<S>>, lease: Arc<Lease<S>>, shared: Shared) -> Self {
        ShardHandle { reach: Arc::new(Reach { mailbox, lease, shared }), state: PhantomData }
    }
}

/// Starts a shard's thread; `init` makes the state there. Answers when `init` has.
///
/// Errors: what `init` answers; `Unavailable` when thread, core or disk backend cannot be had.
pub async fn start<S: 'static>(
    options: ExecutorOptions,
    init: impl FnOnce(Rc<ShardContext>) -> LocalBoxFuture<'static, Result<Rc<S>>> + Send + 'static,
) -> Result<ShardHandle<S>> {
    let stats = Arc::new(RuntimeStats::default());
    let (mailbox, receiver) = mailbox(stats.clone());
    let (ready, started) = oneshot::channel();
    let (end, ended) = watch::channel(false);
    let lease = Lease::new();
    let post = (receiver, stats.clone(), lease.clone());
    let thread = std::thread::Builder::new()
        .name(format!("shard-{}", options.shard))
        .spawn(move || {
            run_thread(options, init, post, ready);
            end.send_replace(true);
        })
        .map_err(|error| Error::Unavailable(format!("no thread for a shard: {error}")))?;
    let result = started.await;
    let shared = Shared { stats, ended, thread: Mutex::new(Some(thread)), panic: None };
    match result {
        Ok(Ok(())) => Ok(ShardHandle::new(mailbox, lease, shared)),
        Ok(Err(error)) => {
            drop(mailbox);
            shared.wait_for_end().await;
            Err(error)
        }
        Err(_) => unreachable!("a shard's thread answers before it ends, or aborts"),
    }
}

fn run_thread<S: 'static>(
    options: ExecutorOptions,
    init: impl FnOnce(Rc<ShardContext>) -> LocalBoxFuture<'static, Result<Rc<S>>> + 'static,
    (mailbox, stats, lease): (Receiver<Mail<S>>, Arc<RuntimeStats>, Arc<Lease<S>>),
    ready: oneshot::Sender<Result<()>>,
) {
    let ready = Rc::new(RefCell::new(Some(ready)));
    let answer = |ready: &RefCell<Option<oneshot::Sender<_>>>, result| {
        // Nobody listens any more when the future of `start` was dropped.
        let sender = ready.borrow_mut().take();
        sender.is_some_and(|sender| sender.send(result).is_ok())
    };
    if let Some(core) = options.core
        && let Err(error) = os::pin_to_core(core)
    {
        let shard = options.shard;
        let message = format!("shard {shard} cannot run on core {core}: {error}");
        answer(&ready, Err(Error::Unavailable(message)));
        return;
    }
    // Where others use its core as well, a shard should not wait for them for milliseconds.
    if let Err(error) = os::set_time_slice(TIME_SLICE) {
        tracing::debug!(shard = options.shard, %error, "the kernel gives no time slice");
    }
    let (inner_ready, served) = (ready.clone(), lease.clone());
    let serve_all = move |disk, backend| async move {
        let doorbell = match backend {
            Backend::Uring => Some(Doorbell::new()),
            _ => None,
        };
        let doorbell = match doorbell.transpose() {
            Ok(doorbell) => doorbell,
            Err(error) => {
                let message = format!("a shard's wake-up cannot be made: {error}");
                answer(&inner_ready, Err(Error::Unavailable(message)));
                return;
            }
        };
        let monitor =
            Monitor::measuring(options.shard, options.clock.clone(), stats.clone(), doorbell);
        let shards = (options.shard, options.shard_count);
        let time: (_, Rc<dyn Timer>) = (options.clock, Rc::new(RealTimer));
        let context = ShardContext::scheduled(shards, disk, time, options.seed, options.scheduler);
        match monitor.clone().run("init", async move { init(context).await }).await {
            Ok(state) => {
                answer(&inner_ready, Ok(()));
                served.settle(monitor.clone(), state.clone());
                serve(monitor, (stats, Some(served)), state, mailbox).await;
            }
            Err(error) => {
                monitor.stop_background().await;
                answer(&inner_ready, Err(error));
            }
        }
    };
    let around = Rc::new(move |poll: &mut dyn FnMut()| lease.during(poll));
    let result = disk::run_within(options.backend, around, serve_all);
    if let Err(error) = result {
        answer(&ready, Err(error));
    }
}

/// Starts a shard on the calling thread's `LocalSet`, with a context that is handed in: simulation
/// and tests. Turns are drawn from the context's seed, so one seed gives one run. A task that
/// panics makes the next caller panic.
///
/// Errors: what `init` answers.
pub async fn start_local<S: 'static>(
    context: Rc<ShardContext>,
    init: impl FnOnce(Rc<ShardContext>) -> LocalBoxFuture<'static, Result<Rc<S>>> + 'static,
) -> Result<ShardHandle<S>> {
    let stats = Arc::new(RuntimeStats::default());
    let (mailbox, receiver) = mailbox(stats.clone());
    let (end, ended) = watch::channel(false);
    let panic = Arc::new(Mutex::new(None));
    let turns = Random::new(context.random.borrow_mut().next_u64());
    let (shard, clock) = (context.shard, context.clock.clone());
    let monitor =
        Monitor::drawing(shard, clock, stats.clone(), (turns, preempt::DRAWN_CALLS), panic.clone());
    let state = match monitor.clone().run("init", async move { init(context).await }).await {
        Ok(state) => state,
        Err(error) => {
            monitor.stop_background().await;
            return Err(error);
        }
    };
    let serve_stats = stats.clone();
    tokio::task::spawn_local(async move {
        serve(monitor, (serve_stats, None), state, receiver).await;
        end.send_replace(true);
    });
    let (thread, panic) = (Mutex::new(None), Some(panic));
    // Nobody settles there: callers are on the same thread.
    Ok(ShardHandle::new(mailbox, Lease::new(), Shared { stats, ended, thread, panic }))
}

/// Runs jobs until stopped or unreachable, then lets them end and drops the background tasks and
/// the state.
async fn serve<S: 'static>(
    monitor: Rc<Monitor>,
    (stats, lease): (Arc<RuntimeStats>, Option<Arc<Lease<S>>>),
    state: Rc<S>,
    mailbox: Receiver<Mail<S>>,
) {
    let jobs = Gate::new();
    let (served, serving) = (state.clone(), monitor.clone());
    let post = Post { monitor: serving, stats, state: served, mailbox, jobs, lease };
    let jobs = post.jobs.clone();
    monitor.clone().run("mailbox", post.serve()).await;
    jobs.close().await;
    monitor.stop_background().await;
    drop(state);
}

/// A shard's mailbox and whoever does what comes out of it.
struct Post<S> {
    monitor: Rc<Monitor>,
    stats: Arc<RuntimeStats>,
    state: Rc<S>,
    mailbox: Receiver<Mail<S>>,
    jobs: Gate,
    /// For callers; `None` where they are on the same thread.
    lease: Option<Arc<Lease<S>>>,
}

impl<S: 'static> Post<S> {
    async fn serve(self) {
        let mut batch = Vec::new();
        while self.next(&mut batch).await {
            self.monitor.groups.begin_mail();
            let mut jobs_begun = 0;
            let mut count = 0;
            let mut rest = batch.drain(..);
            while let Some(mail) = rest.next() {
                match mail {
                    Mail::Job { name, work } => {
                        let state = self.state.clone();
                        self.begin(name, async move { work(state).await });
                        jobs_begun += 1;
                        count += 1;
                    }
                    Mail::Request(letter) => {
                        let name = letter.name();
                        if let Some(work) = self.answer(name, letter) {
                            self.begin(name, work);
                        }
                        count += 1;
                    }
                    Mail::Deferred => jobs_begun += self.begin_deferred(),
                    Mail::Stop => self.close(),
                }
                // With more mail at hand, receiving would not wait, and tasks would not get their
                // turn.
                if jobs_begun >= BATCH_JOBS_MAX || preempt::need_preempt() {
                    self.stats.add_jobs(std::mem::take(&mut count));
                    jobs_begun = 0;
                    // Taken back where the mailbox is found empty.
                    if rest.len() > 0 {
                        self.stats.set_mail_waits(true);
                    }
                    self.monitor.groups.end_mail(false);
                    preempt::yield_now().await;
                    self.monitor.groups.begin_mail();
                }
            }
            drop(rest);
            self.stats.add_jobs(count);
            self.monitor.groups.end_mail(false);
        }
        self.close();
    }

    /// Answers a request in this turn; returns what is left to do where it has to wait.
    fn answer(&self, name: &'static str, letter: Letter<S>) -> Option<LocalBoxFuture<'static, ()>> {
        self.monitor.within_turn(name, || letter.start(&self.state)).flatten()
    }

    /// Makes a task of a job, which the shard's end waits for.
    fn begin(&self, name: &'static str, work: impl Future<Output = ()> + 'static) {
        let guard = self.jobs.enter().expect("the gate closes after the mailbox");
        self.monitor.spawn_job(name, async move {
            work.await;
            drop(guard);
        });
    }

    /// Starts the tasks that callers deferred, and says how many.
    fn begin_deferred(&self) -> u64 {
        let tasks = self.monitor.take_deferred();
        let count = tasks.len() as u64;
        for task in tasks {
            match task {
                Deferred::Background(name, work) => self.monitor.spawn_background(name, work),
                Deferred::Detached(work) => drop(tokio::task::spawn_local(work)),
                Deferred::Job(name, work) => self.begin(name, work),
            }
        }
        count
    }

    /// Accepts nothing from now on, neither mail nor callers.
    fn close(&self) {
        self.mailbox.close();
        self.monitor.groups.end_mail(true);
        if let Some(lease) = &self.lease {
            lease.leave();
        }
    }

    /// Waits for mail and takes it into `batch`; false when none will come any more.
    async fn next(&self, batch: &mut Vec<Mail<S>>) -> bool {
        match self.mailbox.take_now(batch) {
            Some(is_there) => is_there,
            None => poll_fn(|context| self.mailbox.poll_take(context, batch)).await,
        }
    }
}

impl<S: 'static> ShardHandle<S> {
    /// Runs a closure on the shard and waits for its result. Dropping the returned future drops
    /// the work at the point where it waits: what must not stop half-way belongs in `spawn` or in
    /// a background task.
    ///
    /// Errors: `Closed` when the shard is stopping.
    pub async fn call<R: Send + 'static>(
        &self,
        name: &'static str,
        work: impl FnOnce(Rc<S>) -> LocalBoxFuture<'static, R> + Send + 'static,
    ) -> Result<R> {
        let (mut reply, answer) = oneshot::channel();
        let work = move |state: Rc<S>| -> LocalBoxFuture<'static, ()> {
            Box::pin(async move {
                if reply.is_closed() {
                    return;
                }
                let mut work = work(state);
                let result = tokio::select! {
                    biased;
                    result = &mut work => result,
                    () = reply.closed() => return,
                };
                // Dropped here, not with the task: the caller may rely on the job being gone.
                drop(work);
                let _ = reply.send(result);
            })
        };
        self.send(Mail::Job { name, work: Box::new(work) }).await?;
        let result = answer.await;
        self.pass_panic_on();
        result.map_err(|_| Error::Closed)
    }

    /// Starts a closure on the shard and answers when the mailbox has taken it. For work that
    /// streams into a bounded channel of the caller's; stopping the shard waits for it.
    ///
    /// Errors: `Closed` when the shard is stopping.
    pub async fn spawn(
        &self,
        name: &'static str,
        work: impl FnOnce(Rc<S>) -> LocalBoxFuture<'static, ()> + Send + 'static,
    ) -> Result<()> {
        self.send(Mail::Job { name, work: Box::new(work) }).await
    }

    async fn send(&self, mail: Mail<S>) -> Result<()> {
        let (mut mail, mut ticket) = (Some(mail), None);
        let mut take = || mail.take().expect("mail is put in once");
        poll_fn(|context| self.poll_put(context, &mut ticket, &mut take)).await
    }

    /// Puts mail in, or waits for room.
    ///
    /// Errors: `Closed`.
    pub(super) fn poll_put(
        &self,
        context: &mut Context<'_>,
        ticket: &mut Ticket,
        mail: impl FnOnce() -> Mail<S>,
    ) -> Poll<Result<()>> {
        self.pass_panic_on();
        self.reach.mailbox.poll_put(context, ticket, mail)
    }

    /// Panics when a task of a local shard did.
    pub(super) fn pass_panic_on(&self) {
        self.reach.shared.pass_panic_on();
    }

    /// Whether the shard runs on the thread of whoever calls it.
    pub(super) fn is_local(&self) -> bool {
        self.reach.shared.panic.is_some()
    }

    /// Does something short under the shard's lease where its thread sleeps and no mail waits for
    /// it: mail comes first.
    pub(super) fn with_lease<T>(&self, work: impl FnOnce(&Rc<Monitor>, &Rc<S>) -> T) -> Option<T> {
        // A shard's thread works on its own state only.
        if self.reach.mailbox.has_mail() || preempt::is_on_shard() {
            return None;
        }
        self.reach.lease.try_take(|monitor, state| {
            let result = work(monitor, state);
            self.reach.shared.stats.add_jobs(1);
            if monitor.has_deferred() && self.reach.mailbox.put_now(Mail::Deferred).is_err() {
                // The shard stops, and starts no more tasks; the lease is still held.
                drop(monitor.take_deferred());
            }
            result
        })
    }

    /// Ends the shard: accepts no more jobs, lets the accepted ones end, drops the background
    /// tasks and the state, and waits for the thread. A second stop waits for the first. Must not
    /// be awaited by a job of the same shard, which would wait for itself.
    pub async fn stop(&self) -> Result<()> {
        // An error means that it is stopping already.
        let _ = self.send(Mail::Stop).await;
        self.reach.shared.wait_for_end().await;
        self.reach.shared.pass_panic_on();
        Ok(())
    }

    /// Counters of the shard's runtime.
    pub fn stats(&self) -> Arc<RuntimeStats> {
        self.reach.shared.stats.clone()
    }
}

impl Shared {
    /// Panics when a task of a local shard did.
    fn pass_panic_on(&self) {
        let Some(panic) = &self.panic else { return };
        let message = panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(message) = message {
            panic!("{message}");
        }
    }

    async fn wait_for_end(&self) {
        // An error means that the sender is gone without a word: a local shard whose LocalSet was
        // dropped.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // Its last act was to say that it ended, so this does not block for long.
            thread.join().expect("a panic on a shard's thread aborts the process");
        }
    }
}

const _: () = {
    const fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<ShardHandle<Rc<()>>>();
};

/// The future of a call crosses threads too.
#[expect(dead_code, reason = "checked by the compiler, never run")]
fn calls_cross_threads(handle: &ShardHandle<Rc<()>>) -> impl Future<Output = Result<u8>> + Send {
    handle.call("check", |_| Box::pin(async { 1 }))
}
