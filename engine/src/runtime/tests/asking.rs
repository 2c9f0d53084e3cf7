//! Questions to a shard: answers, waiting, wake-ups, going away.

use futures::future::LocalBoxFuture;

use super::*;

/// Answers with the number, at once or when the shard has slept.
pub(super) struct Echo {
    pub(super) number: u64,
    pub(super) sleeps: bool,
}

impl Ask<ShardContext> for Echo {
    type Answer = u64;
    const NAME: &'static str = "echo";

    fn ask(self, context: &Rc<ShardContext>) -> Answering<u64> {
        let Echo { number, sleeps } = self;
        if !sleeps {
            return Answering::Now(number);
        }
        let sleep = context.sleep(Duration::from_millis(1));
        Answering::Later(Box::pin(async move {
            sleep.await;
            number
        }))
    }
}

/// The same, which a caller may answer itself.
pub(super) struct Short(pub(super) Echo);

impl Ask<ShardContext> for Short {
    type Answer = u64;
    const NAME: &'static str = "short echo";
    const IS_SHORT: bool = true;

    fn ask(self, context: &Rc<ShardContext>) -> Answering<u64> {
        self.0.ask(context)
    }
}

/// Says when it is dropped.
struct Endless(Arc<AtomicBool>);

impl Drop for Endless {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Ask<ShardContext> for Endless {
    type Answer = ();
    const NAME: &'static str = "endless";

    fn ask(self, _: &Rc<ShardContext>) -> Answering<()> {
        Answering::Later(Box::pin(async move {
            let _held = self;
            std::future::pending().await
        }))
    }
}

/// Ends the process with words where a test has not ended in time: a lost wake-up would hang it.
pub(super) struct Watchdog(Arc<AtomicBool>);

impl Watchdog {
    pub(super) fn new(what: &'static str, clock: Arc<dyn Clock>) -> Self {
        const LONGEST_NS: u64 = 120_000_000_000;
        let is_done = Arc::new(AtomicBool::new(false));
        let seen = is_done.clone();
        let watch = move || {
            let start_ns = clock.monotonic_ns();
            while !seen.load(Ordering::SeqCst) {
                if clock.monotonic_ns() - start_ns > LONGEST_NS {
                    eprintln!("{what}: somebody waits for ever, so a wake-up was lost");
                    std::process::abort();
                }
                std::thread::park_timeout(Duration::from_millis(100));
            }
        };
        std::thread::Builder::new().name("watchdog".into()).spawn(watch).unwrap();
        Watchdog(is_done)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Callers that block and callers that do not, many and one, with pauses about as long as it takes
/// to wake up: each boundary between awake and asleep is crossed many times.
#[test]
fn no_wake_up_is_lost_between_callers_and_a_shard_that_sleep() {
    const CALLS: u64 = 5000;
    for backend in BACKENDS {
        let options = options(backend);
        let clock = options.clock.clone();
        let _watchdog = Watchdog::new("callers and a shard", clock.clone());
        let handle = start_plain(options);
        for callers in [1_u64, 4] {
            std::thread::scope(|scope| {
                for caller in 0..callers {
                    let (handle, clock) = (&handle, &clock);
                    scope.spawn(move || call_with_pauses(handle, &**clock, caller, CALLS));
                }
            });
        }
        block_on(handle.stop()).unwrap();
    }
}

fn call_with_pauses(
    handle: &ShardHandle<ShardContext>,
    clock: &dyn Clock,
    caller: u64,
    calls: u64,
) {
    let mut random = crate::clock::Random::new(caller);
    for number in 0..calls {
        let sleeps = random.one_in(200);
        let question = Echo { number, sleeps };
        let answer = match random.below(4) {
            0 => block_on(handle.ask(question)),
            1 => block_on(handle.ask(Short(question))),
            2 => handle.ask(Short(question)).wait(),
            _ => handle.ask(question).wait(),
        };
        assert_eq!(answer.unwrap(), number);
        let pause_ns = random.below(60_000).saturating_sub(20_000);
        let start_ns = clock.monotonic_ns();
        while clock.monotonic_ns() - start_ns < pause_ns {
            std::hint::spin_loop();
        }
    }
}

#[test]
fn many_questions_at_once_wait_for_room_and_are_all_answered() {
    const QUESTIONS: u64 = 5000;
    for backend in BACKENDS {
        let options = options(backend);
        let _watchdog = Watchdog::new("many questions", options.clock.clone());
        let handle = start_plain(options);
        let answers = block_on(async {
            let ask = |number| handle.ask(Echo { number, sleeps: number % 50 == 0 });
            join_all((0..QUESTIONS).map(ask)).await
        });
        let sum: u64 = answers.into_iter().map(Result::unwrap).sum();
        assert_eq!(sum, QUESTIONS * (QUESTIONS - 1) / 2);
        block_on(handle.stop()).unwrap();
        assert_eq!(handle.stats().job_count(), QUESTIONS);
    }
}

#[test]
fn who_leaves_takes_the_work_along() {
    for backend in BACKENDS {
        let handle = start_plain(options(backend));
        let ended = Arc::new(AtomicBool::new(false));
        let mut asking = handle.ask(Endless(ended.clone()));
        block_on(async {
            assert!(futures::poll!(&mut asking).is_pending());
            handle.ask(Echo { number: 1, sleeps: false }).await.unwrap();
        });
        assert!(!ended.load(Ordering::SeqCst));
        drop(asking);
        // Endless work would also make this wait for ever.
        block_on(handle.stop()).unwrap();
        assert!(ended.load(Ordering::SeqCst));
        // What was never sent has no work.
        let unsent = handle.ask(Endless(ended));
        drop(unsent);
    }
}

#[test]
fn stopping_answers_what_was_accepted_and_refuses_the_rest() {
    for backend in BACKENDS {
        let handle = start_plain(options(backend));
        let (accepted, stopped) = block_on(async {
            let mut asked: Vec<_> =
                (0..20).map(|number| handle.ask(Echo { number, sleeps: true })).collect();
            asked.iter_mut().for_each(Asking::send);
            join(join_all(asked), handle.stop()).await
        });
        stopped.unwrap();
        let answers: Vec<u64> = accepted.into_iter().map(Result::unwrap).collect();
        assert!(answers.into_iter().eq(0..20));
        let late = handle.ask(Echo { number: 0, sleeps: false });
        assert!(matches!(late.wait(), Err(Error::Closed)));
        let late = handle.ask(Echo { number: 0, sleeps: false });
        assert!(matches!(block_on(late), Err(Error::Closed)));
    }
}

/// A question that holds the thread is told by its own name.
#[test]
fn a_question_that_holds_the_thread_is_counted_by_name() {
    struct Busy;
    impl Ask<ShardContext> for Busy {
        type Answer = ();
        const NAME: &'static str = "busy question";

        fn ask(self, context: &Rc<ShardContext>) -> Answering<()> {
            let start = context.clock.monotonic_ns();
            while context.clock.monotonic_ns() - start < 5_000_000 {
                std::hint::spin_loop();
            }
            Answering::Now(())
        }
    }
    let handle = start_plain(options(Backend::Auto));
    handle.ask(Busy).wait().unwrap();
    let stats = handle.stats();
    block_on(handle.stop()).unwrap();
    let stalls = stats.stalls();
    let busy = stalls.iter().find(|stall| stall.task == "busy question");
    assert!(busy.is_some_and(|busy| busy.longest_ns >= 5_000_000), "{stalls:?}");
}

/// Work that goes on behind its answer is waited for at the end.
#[test]
fn an_answer_may_come_before_the_work_is_done() {
    struct GoesOn(Arc<AtomicBool>);
    impl Ask<ShardContext> for GoesOn {
        type Answer = u8;
        const NAME: &'static str = "goes on";

        fn ask(self, context: &Rc<ShardContext>) -> Answering<u8> {
            let sleep = context.sleep(Duration::from_millis(2));
            let work: LocalBoxFuture<'static, ()> = Box::pin(async move {
                sleep.await;
                self.0.store(true, Ordering::SeqCst);
            });
            Answering::GoesOn(7, work)
        }
    }
    for backend in BACKENDS {
        let handle = start_plain(options(backend));
        let is_done = Arc::new(AtomicBool::new(false));
        assert_eq!(handle.ask(GoesOn(is_done.clone())).wait().unwrap(), 7);
        block_on(handle.stop()).unwrap();
        assert!(is_done.load(Ordering::SeqCst));
    }
}

#[test]
#[should_panic(expected = "shard 0: task 'broken question' panicked: told to")]
fn a_question_that_panics_on_a_local_shard_reaches_the_caller() {
    struct Broken;
    impl Ask<ShardContext> for Broken {
        type Answer = ();
        const NAME: &'static str = "broken question";

        fn ask(self, _: &Rc<ShardContext>) -> Answering<()> {
            panic!("told to")
        }
    }
    run_local(async {
        let timer = SimulatedTimer::new(SimulatedClock::new(0));
        let context = local_context(0, &timer, 1);
        let handle = start_local(context, |context| Box::pin(async { Ok(context) })).await.unwrap();
        assert!(matches!(
            handle.ask(Echo { number: 1, sleeps: false }).wait(),
            Err(Error::Invalid(_))
        ));
        assert_eq!(handle.ask(Echo { number: 1, sleeps: false }).await.unwrap(), 1);
        let _ = handle.ask(Broken).await;
    });
}
