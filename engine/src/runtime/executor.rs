//! A shard's thread, its mailbox, and the handle by which other threads reach it.
//!
//! Invariant: a shard's state is made, used and dropped on its own thread; a handle carries only
//! closures there and `Send` results back. Jobs that were accepted run, also while stopping.

use std::cell::RefCell;
use std::future::Future;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use futures::future::LocalBoxFuture;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};

use super::gate::Gate;
use super::preempt::{self, Doorbell, Monitor};
use super::stats::RuntimeStats;
use super::timer::{RealTimer, Timer};
use crate::clock::{Clock, Random};
use crate::config::{MAILBOX_REQUESTS_MAX, TIME_SLICE};
use crate::disk::{self, Backend, Disk, OpenFiles};
use crate::error::{Error, Result};
use crate::os;

/// Jobs taken from the mailbox at once.
const BATCH_JOBS_MAX: usize = 128;

/// What a shard gets from its surroundings.
pub struct ShardContext {
    pub shard: u32,
    pub shard_count: u32,
    /// The disk, its files open as far as `files` lets them be.
    pub disk: Rc<dyn Disk>,
    /// How many files for reading are open.
    pub files: Rc<OpenFiles>,
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
        assert!(shard < shard_count, "shard {shard} of {shard_count}");
        // One draw mixes the shard in; neighbouring seeds themselves would give one sequence,
        // shifted.
        let mixed = Random::new(seed ^ (u64::from(shard) << 32)).next_u64();
        let random = RefCell::new(Random::new(mixed));
        let sleeper = timer.clone();
        let sleep = move |duration| sleeper.sleep(duration);
        let files = OpenFiles::new(disk, shard, Box::new(sleep));
        let disk: Rc<dyn Disk> = files.clone();
        Rc::new(ShardContext { shard, shard_count, disk, files, clock, timer, random })
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
}

type Work<S> = Box<dyn FnOnce(Rc<S>) -> LocalBoxFuture<'static, ()> + Send>;

enum Mail<S> {
    Job { name: &'static str, work: Work<S> },
    Stop,
}

/// A way to reach a shard from any thread. Clones reach the same shard; when the last is dropped
/// the shard ends as if stopped, but nobody waits for it.
pub struct ShardHandle<S> {
    mailbox: mpsc::Sender<Mail<S>>,
    shared: Arc<Shared>,
    /// `S` itself never crosses.
    state: PhantomData<fn(S)>,
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
        let (mailbox, shared) = (self.mailbox.clone(), self.shared.clone());
        ShardHandle { mailbox, shared, state: PhantomData }
    }
}

/// Starts a shard's thread; `init` makes the state there. Answers when `init` has.
///
/// Errors: what `init` answers; `Unavailable` when thread, core or disk backend cannot be had.
pub async fn start<S: 'static>(
    options: ExecutorOptions,
    init: impl FnOnce(Rc<ShardContext>) -> LocalBoxFuture<'static, Result<Rc<S>>> + Send + 'static,
) -> Result<ShardHandle<S>> {
    let (mailbox, receiver) = mpsc::channel(MAILBOX_REQUESTS_MAX);
    let (ready, started) = oneshot::channel();
    let (end, ended) = watch::channel(false);
    let stats = Arc::new(RuntimeStats::default());
    let thread_stats = stats.clone();
    let thread = std::thread::Builder::new()
        .name(format!("shard-{}", options.shard))
        .spawn(move || {
            run_thread(options, init, receiver, thread_stats, ready);
            end.send_replace(true);
        })
        .map_err(|error| Error::Unavailable(format!("no thread for a shard: {error}")))?;
    let result = started.await;
    let shared = Shared { stats, ended, thread: Mutex::new(Some(thread)), panic: None };
    match result {
        Ok(Ok(())) => Ok(ShardHandle { mailbox, shared: Arc::new(shared), state: PhantomData }),
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
    init: impl FnOnce(Rc<ShardContext>) -> LocalBoxFuture<'static, Result<Rc<S>>>,
    mailbox: mpsc::Receiver<Mail<S>>,
    stats: Arc<RuntimeStats>,
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
    let inner_ready = ready.clone();
    let result = disk::run(options.backend, move |disk, backend| async move {
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
        let timer = Rc::new(RealTimer);
        let context = ShardContext::new(shards, disk, options.clock, timer, options.seed);
        match monitor.clone().run("init", async move { init(context).await }).await {
            Ok(state) => {
                answer(&inner_ready, Ok(()));
                serve(monitor, stats, state, mailbox).await;
            }
            Err(error) => {
                monitor.stop_background().await;
                answer(&inner_ready, Err(error));
            }
        }
    });
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
    let (mailbox, receiver) = mpsc::channel(MAILBOX_REQUESTS_MAX);
    let (end, ended) = watch::channel(false);
    let stats = Arc::new(RuntimeStats::default());
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
        serve(monitor, serve_stats, state, receiver).await;
        end.send_replace(true);
    });
    let shared = Arc::new(Shared { stats, ended, thread: Mutex::new(None), panic: Some(panic) });
    Ok(ShardHandle { mailbox, shared, state: PhantomData })
}

/// Runs jobs until stopped or unreachable, then lets them end and drops the background tasks and
/// the state.
async fn serve<S: 'static>(
    monitor: Rc<Monitor>,
    stats: Arc<RuntimeStats>,
    state: Rc<S>,
    mailbox: mpsc::Receiver<Mail<S>>,
) {
    let jobs = Gate::new();
    let receive = receive(monitor.clone(), stats, state.clone(), mailbox, jobs.clone());
    monitor.clone().run("mailbox", receive).await;
    jobs.close().await;
    monitor.stop_background().await;
    drop(state);
}

async fn receive<S: 'static>(
    monitor: Rc<Monitor>,
    stats: Arc<RuntimeStats>,
    state: Rc<S>,
    mut mailbox: mpsc::Receiver<Mail<S>>,
    jobs: Gate,
) {
    let mut batch = Vec::with_capacity(BATCH_JOBS_MAX);
    while mailbox.recv_many(&mut batch, BATCH_JOBS_MAX).await > 0 {
        // What comes just now is fetched all the same, at the latest when the next turn ends.
        stats.set_mail_waits(!mailbox.is_empty());
        let mut job_count = 0;
        for mail in batch.drain(..) {
            match mail {
                Mail::Job { name, work } => {
                    let guard = jobs.enter().expect("the gate closes after the mailbox");
                    let state = state.clone();
                    monitor.spawn_job(name, async move {
                        work(state).await;
                        drop(guard);
                    });
                    job_count += 1;
                }
                Mail::Stop => mailbox.close(),
            }
        }
        stats.add_jobs(job_count);
        // With more mail waiting, receiving would not wait, and the jobs would not get their turn.
        if !mailbox.is_empty() {
            preempt::yield_now().await;
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
        self.shared.pass_panic_on();
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
        self.shared.pass_panic_on();
        let place = match self.mailbox.try_reserve() {
            Ok(place) => place,
            Err(TrySendError::Full(())) => {
                self.shared.stats.add_mailbox_full();
                self.mailbox.reserve().await.map_err(|_| Error::Closed)?
            }
            Err(TrySendError::Closed(())) => return Err(Error::Closed),
        };
        // Before it is sent: who fetches it takes this back.
        self.shared.stats.set_mail_waits(true);
        place.send(mail);
        Ok(())
    }

    /// Ends the shard: accepts no more jobs, lets the accepted ones end, drops the background
    /// tasks and the state, and waits for the thread. A second stop waits for the first. Must not
    /// be awaited by a job of the same shard, which would wait for itself.
    pub async fn stop(&self) -> Result<()> {
        // An error means that it is stopping already.
        let _ = self.send(Mail::Stop).await;
        self.shared.wait_for_end().await;
        self.shared.pass_panic_on();
        Ok(())
    }

    /// Counters of the shard's runtime.
    pub fn stats(&self) -> Arc<RuntimeStats> {
        self.shared.stats.clone()
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
