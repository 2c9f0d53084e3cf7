//! Many callers, many shards, answers that nobody waits for, shards that stop with mail in flight.

use std::sync::atomic::AtomicU64;

use super::asking::{Echo, Watchdog};
use super::*;
use crate::clock::Random;

const SHARDS: usize = 3;
const CALLERS: u64 = 6;

/// Counts the questions that are still somewhere.
struct Held(Arc<AtomicUsize>);

impl Held {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Held(count.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Answers with a number in one of the ways in which a shard can answer, or its caller.
struct Any<const SHORT: bool> {
    number: u64,
    held: Held,
}

impl<const SHORT: bool> Ask<ShardContext> for Any<SHORT> {
    type Answer = u64;
    const NAME: &'static str = "any";
    const IS_SHORT: bool = SHORT;

    fn ask(self, context: &Rc<ShardContext>) -> Answering<u64> {
        let Any { number, held } = self;
        let later: futures::future::LocalBoxFuture<'static, u64> = match number % 7 {
            0 => {
                let sleep = context.sleep(Duration::from_micros(number % 300));
                Box::pin(async move {
                    sleep.await;
                    drop(held);
                    number
                })
            }
            // Its first turn is that of the mailbox, the others are its own.
            1 => Box::pin(async move {
                for _ in 0..number % 4 {
                    yield_now().await;
                }
                drop(held);
                number
            }),
            2 => {
                let sleep = context.sleep(Duration::from_micros(number % 100));
                let work = Box::pin(async move {
                    sleep.await;
                    drop(held);
                });
                return Answering::GoesOn(number, work);
            }
            3 => Box::pin(async move {
                let _held = held;
                // It ends when whoever asked goes, or not at all.
                std::future::pending().await
            }),
            _ => return Answering::Now(number),
        };
        Answering::Later(later)
    }
}

struct Storm {
    shards: Vec<ShardHandle<ShardContext>>,
    /// Set before a shard is told to stop.
    stopping: Vec<AtomicBool>,
    held: Arc<AtomicUsize>,
    /// Of all callers: steps that are done.
    steps: AtomicU64,
}

impl Storm {
    fn new(backend: Backend) -> Self {
        let shards = (0..SHARDS as u32).map(|shard| {
            let options = options(backend);
            let shard_count = SHARDS as u32;
            start_plain(ExecutorOptions { shard, shard_count, ..options })
        });
        Storm {
            shards: shards.collect(),
            stopping: std::iter::repeat_with(AtomicBool::default).take(SHARDS).collect(),
            held: Arc::default(),
            steps: AtomicU64::new(0),
        }
    }

    fn any<const SHORT: bool>(&self, number: u64) -> Any<SHORT> {
        Any { number, held: Held::new(&self.held) }
    }

    /// An answer is right, or says that the shard stops where it does.
    fn check(&self, shard: usize, number: u64, answer: &Result<u64>) {
        match answer {
            Ok(answer) => assert_eq!(*answer, number),
            Err(Error::Closed) => {
                let stops = self.stopping[shard].load(Ordering::SeqCst);
                assert!(stops, "shard {shard} refused question {number} and was not stopping");
            }
            Err(error) => panic!("question {number}: {error}"),
        }
    }

    /// A number whose question is answered without anybody leaving.
    fn number(random: &mut Random) -> u64 {
        let number = random.below(10_000);
        if number % 7 == 3 { number + 1 } else { number }
    }

    fn step(&self, random: &mut Random) {
        match random.one_in(2) {
            true => self.step_of::<true>(random),
            false => self.step_of::<false>(random),
        }
        self.steps.fetch_add(1, Ordering::SeqCst);
    }

    fn step_of<const SHORT: bool>(&self, random: &mut Random) {
        let shard = random.below(SHARDS as u64) as usize;
        let handle = &self.shards[shard];
        let number = Self::number(random);
        match random.below(8) {
            0 | 1 => self.check(shard, number, &handle.ask(self.any::<SHORT>(number)).wait()),
            2 => self.check(shard, number, &block_on(handle.ask(self.any::<SHORT>(number)))),
            3 => {
                let held = Held::new(&self.held);
                let answer = block_on(handle.call("call", move |context| {
                    Box::pin(async move {
                        context.sleep(Duration::from_micros(number % 50)).await;
                        drop(held);
                        number
                    })
                }));
                self.check(shard, number, &answer);
            }
            4 => self.leave::<SHORT>(random, shard),
            5 => self.leave_a_crowd::<SHORT>(random, shard),
            6 => {
                let answers = block_on(join_all((0..20).map(|at| {
                    let number = if (number + at) % 7 == 3 { 0 } else { number + at };
                    let asking = handle.ask(self.any::<SHORT>(number));
                    async move { (number, asking.await) }
                })));
                answers.iter().for_each(|(number, answer)| self.check(shard, *number, answer));
            }
            _ => {
                // On every shard at once; the answers are waited for in the other order.
                let mut asked: Vec<_> =
                    self.shards.iter().map(|shard| shard.ask(self.any::<SHORT>(number))).collect();
                asked.iter_mut().for_each(Asking::send);
                while let Some(asking) = asked.pop() {
                    self.check(asked.len(), number, &asking.wait());
                }
            }
        }
    }

    /// Asks what may never be answered, and goes: before it was sent, before it was looked at, or
    /// once it runs.
    fn leave<const SHORT: bool>(&self, random: &mut Random, shard: usize) {
        let handle = &self.shards[shard];
        let mut asking = handle.ask(self.any::<SHORT>(random.below(10_000)));
        match random.below(4) {
            0 => {}
            1 => asking.send(),
            2 => block_on(async { drop(futures::poll!(&mut asking)) }),
            _ => {
                asking.send();
                // Behind it, so that it has begun.
                let answer = handle.ask(Echo { number: 1, sleeps: false }).wait();
                self.check(shard, 1, &answer);
            }
        }
    }

    /// More than the mailbox takes, so that some wait for room when they go.
    fn leave_a_crowd<const SHORT: bool>(&self, random: &mut Random, shard: usize) {
        if !random.one_in(8) {
            return;
        }
        let count = crate::config::MAILBOX_REQUESTS_MAX as u64 + 100;
        let mut asked: Vec<_> =
            (0..count).map(|number| self.shards[shard].ask(self.any::<SHORT>(number))).collect();
        block_on(async {
            for asking in &mut asked {
                drop(futures::poll!(asking));
            }
        });
        asked.truncate(random.below(count) as usize);
        drop(asked);
    }

    /// Stops one shard after another while the callers go on.
    fn stop_all(&self, steps: u64) {
        for (shard, handle) in self.shards.iter().enumerate() {
            let begin = steps * (shard as u64 + 1) / (SHARDS as u64 + 1);
            while self.steps.load(Ordering::SeqCst) < begin {
                std::thread::yield_now();
            }
            self.stopping[shard].store(true, Ordering::SeqCst);
            block_on(handle.stop()).unwrap();
        }
    }
}

#[test]
fn every_question_is_answered_or_refused_whoever_leaves_or_stops() {
    const STEPS: u64 = 800;
    for backend in BACKENDS {
        let _watchdog = Watchdog::new("a storm of questions", SystemClock::shared());
        let storm = Storm::new(backend);
        std::thread::scope(|scope| {
            for caller in 0..CALLERS {
                let storm = &storm;
                scope.spawn(move || {
                    let mut random = Random::new(caller);
                    (0..STEPS).for_each(|_| storm.step(&mut random));
                });
            }
            scope.spawn(|| storm.stop_all(STEPS * CALLERS));
        });
        assert_eq!(storm.held.load(Ordering::SeqCst), 0, "a question stayed somewhere");
    }
}

/// The process must die of it though many wait for answers, so the test runs itself as a child.
#[test]
fn a_question_that_panics_amid_others_ends_the_process_with_a_message() {
    struct Broken<const SHORT: bool>;
    impl<const SHORT: bool> Ask<ShardContext> for Broken<SHORT> {
        type Answer = u64;
        const NAME: &'static str = "broken question";
        const IS_SHORT: bool = SHORT;

        fn ask(self, _: &Rc<ShardContext>) -> Answering<u64> {
            panic!("told to")
        }
    }
    const CHILD: &str = "TIDEGATE_TEST_PANIC_CHILD";
    if let Some(how) = std::env::var_os(CHILD) {
        let is_short = how == "short";
        let _watchdog = Watchdog::new("who waits when a shard panics", SystemClock::shared());
        let storm = Storm::new(Backend::Auto);
        std::thread::scope(|scope| {
            for caller in 0..CALLERS {
                let storm = &storm;
                scope.spawn(move || {
                    let mut random = Random::new(caller);
                    while storm.steps.load(Ordering::SeqCst) < 300 {
                        storm.step(&mut random);
                    }
                    let _ = match is_short {
                        true => storm.shards[0].ask(Broken::<true>).wait(),
                        false => storm.shards[0].ask(Broken::<false>).wait(),
                    };
                });
            }
        });
        return;
    }
    let module = "runtime::tests::storm::";
    let name = "a_question_that_panics_amid_others_ends_the_process_with_a_message";
    for how in ["short", "long"] {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("{module}{name}")])
            .env(CHILD, how)
            .output()
            .unwrap();
        assert!(!child.status.success());
        let words = String::from_utf8_lossy(&child.stderr);
        assert!(words.contains("shard 0: task 'broken question' panicked: told to"), "{words}");
    }
}
