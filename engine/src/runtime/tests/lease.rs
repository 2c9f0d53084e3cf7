//! Callers that answer their own questions under a shard's lease.

use std::cell::RefCell;
use std::sync::mpsc;
use std::thread::{self, ThreadId};

use super::asking::Watchdog;
use super::*;
use crate::clock::Random;

/// A state that says where it is used, and would not survive two threads at once.
#[derive(Default)]
struct Books {
    count: Cell<u64>,
    lines: RefCell<Vec<Rc<u64>>>,
    ran_on: RefCell<Vec<(&'static str, ThreadId)>>,
}

impl Books {
    fn note(&self, what: &'static str) {
        self.ran_on.borrow_mut().push((what, thread::current().id()));
    }
}

fn start_books(backend: Backend) -> ShardHandle<Books> {
    block_on(start(options(backend), |_| Box::pin(async { Ok(Rc::new(Books::default())) })))
        .unwrap()
}

fn ran_on(handle: &ShardHandle<Books>) -> Vec<(&'static str, ThreadId)> {
    let books = |books: Rc<Books>| Box::pin(async move { books.ran_on.take() }) as _;
    block_on(handle.call("ran on", books)).unwrap()
}

/// Says on which thread it was answered.
struct Where;

impl Ask<Books> for Where {
    type Answer = ThreadId;
    const NAME: &'static str = "where";
    const IS_SHORT: bool = true;

    fn ask(self, _: &Rc<Books>) -> Answering<ThreadId> {
        Answering::Now(thread::current().id())
    }
}

/// Asks until the caller has answered itself: the shard falls asleep soon.
fn ask_until_here(handle: &ShardHandle<Books>) {
    let _watchdog = Watchdog::new("a caller that answers itself", SystemClock::shared());
    while handle.ask(Where).wait().unwrap() != thread::current().id() {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_caller_answers_a_short_question_itself_while_the_shard_sleeps() {
    for backend in BACKENDS {
        let handle = start_books(backend);
        ask_until_here(&handle);
        // Both ways of waiting begin alike.
        let _watchdog = Watchdog::new("a future that answers itself", SystemClock::shared());
        while block_on(handle.ask(Where)).unwrap() != thread::current().id() {
            thread::sleep(Duration::from_millis(1));
        }
        let asked = handle.stats().job_count();
        handle.ask(Where).wait().unwrap();
        assert_eq!(handle.stats().job_count(), asked + 1, "it is counted wherever it is answered");
        block_on(handle.stop()).unwrap();
        assert!(matches!(handle.ask(Where).wait(), Err(Error::Closed)));
    }
}

#[test]
fn a_shard_that_is_awake_answers_itself() {
    for backend in BACKENDS {
        let handle = start_books(backend);
        ask_until_here(&handle);
        let (begun, begins) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let holds = move |_: Rc<Books>| {
            let work = async move {
                begun.send(thread::current().id()).unwrap();
                ends.recv().unwrap();
            };
            Box::pin(work) as futures::future::LocalBoxFuture<'static, ()>
        };
        block_on(handle.spawn("holds the thread", holds)).unwrap();
        let shard = begins.recv().unwrap();
        let mut asking = handle.ask(Where);
        block_on(async { assert!(futures::poll!(&mut asking).is_pending()) });
        end.send(()).unwrap();
        assert_eq!(asking.wait().unwrap(), shard);
        block_on(handle.stop()).unwrap();
    }
}

/// Starts a task of each kind, and waits for one of them.
struct StartsTasks {
    how: u8,
}

impl Ask<Books> for StartsTasks {
    type Answer = ThreadId;
    const NAME: &'static str = "starts tasks";
    const IS_SHORT: bool = true;

    fn ask(self, books: &Rc<Books>) -> Answering<ThreadId> {
        let here = thread::current().id();
        let books = books.clone();
        match self.how {
            0 => spawn_local("background", async move { books.note("background") }),
            1 => spawn_detached(async move { books.note("detached") }),
            2 => {
                return Answering::Later(Box::pin(async move {
                    RealTimer.sleep(Duration::from_millis(1)).await;
                    books.note("later");
                    here
                }));
            }
            _ => {
                let work = async move {
                    RealTimer.sleep(Duration::from_millis(1)).await;
                    books.note("goes on");
                };
                return Answering::GoesOn(here, Box::pin(work));
            }
        }
        Answering::Now(here)
    }
}

/// Tasks use the ring and the timers of the shard's thread.
#[test]
fn what_a_caller_starts_or_leaves_runs_on_the_shards_thread() {
    for backend in BACKENDS {
        let handle = start_books(backend);
        let shard = block_on(handle.call("thread", |_| Box::pin(async { thread::current().id() })));
        for (how, what) in (0..).zip(["background", "detached", "later", "goes on"]) {
            let _watchdog = Watchdog::new(what, SystemClock::shared());
            loop {
                let by = handle.ask(StartsTasks { how }).wait().unwrap();
                let mut ran = ran_on(&handle);
                while ran.is_empty() {
                    thread::sleep(Duration::from_millis(1));
                    ran = ran_on(&handle);
                }
                assert_eq!(ran, [(what, *shard.as_ref().unwrap())]);
                if by == thread::current().id() {
                    break;
                }
            }
        }
        block_on(handle.stop()).unwrap();
    }
}

/// Counts without atomics, shares without atomics, and sometimes waits.
struct Adds {
    number: u64,
    waits: bool,
}

impl Ask<Books> for Adds {
    type Answer = usize;
    const NAME: &'static str = "adds";
    const IS_SHORT: bool = true;

    fn ask(self, books: &Rc<Books>) -> Answering<usize> {
        let books = books.clone();
        let add = move || {
            books.count.set(books.count.get() + self.number);
            let mut lines = books.lines.borrow_mut();
            let line = lines.last().cloned().unwrap_or_default();
            lines.push(line);
            lines.len()
        };
        match self.waits {
            false => Answering::Now(add()),
            true => Answering::Later(Box::pin(async move {
                tokio::task::yield_now().await;
                add()
            })),
        }
    }
}

#[test]
fn what_is_not_atomic_is_touched_by_one_thread_at_a_time() {
    const CALLERS: u64 = 4;
    const CALLS: u64 = 3000;
    for backend in BACKENDS {
        let _watchdog = Watchdog::new("many callers that add", SystemClock::shared());
        let handle = start_books(backend);
        let sums = thread::scope(|scope| {
            let adds = |caller| {
                let handle = &handle;
                scope.spawn(move || {
                    let (mut random, mut sum) = (Random::new(caller), 0);
                    for _ in 0..CALLS {
                        let number = random.below(100);
                        let adds = Adds { number, waits: random.one_in(20) };
                        match random.one_in(2) {
                            true => handle.ask(adds).wait().unwrap(),
                            false => block_on(handle.ask(adds)).unwrap(),
                        };
                        sum += number;
                    }
                    sum
                })
            };
            let callers: Vec<_> = (0..CALLERS).map(adds).collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).sum::<u64>()
        });
        let end = |books: Rc<Books>| {
            let end = async move { (books.count.get(), books.lines.borrow().len()) };
            Box::pin(end) as futures::future::LocalBoxFuture<'static, (u64, usize)>
        };
        let (count, lines) = block_on(handle.call("end", end)).unwrap();
        assert_eq!((count, lines as u64), (sums, CALLERS * CALLS));
        block_on(handle.stop()).unwrap();
    }
}
