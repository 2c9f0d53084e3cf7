//! A future and its local tasks, polled within a call of somebody else's.

use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::ThreadId;

use futures::task::AtomicWaker;
use tokio::task::LocalSet;

/// What happens around each poll: it calls its argument.
pub type Around = dyn Fn(&mut dyn FnMut());

/// Runs a future with a set of local tasks of its own; all polls, and the end of the tasks that
/// are left, happen within calls of `around`.
pub(super) async fn run_tasks<F: Future>(around: Rc<Around>, future: F) -> F::Output {
    let mut tasks = Some(LocalSet::new());
    let output = {
        let set = tasks.as_ref().expect("it is taken below");
        let mut all = pin!(set.run_until(future));
        poll_fn(|context| {
            let mut polled = Poll::Pending;
            around(&mut || polled = all.as_mut().poll(context));
            polled
        })
        .await
    };
    around(&mut || drop(tasks.take()));
    output
}

/// As [`run_tasks`], where the surrounding runtime has a set of local tasks itself: one of those
/// wakes the others (tokio-uring's, when the kernel has completed a request).
///
/// A set that is the runtime's main future is woken by a write to the runtime's own descriptor,
/// and polled after another look at all events: two system calls for each wait for the disk. A set
/// that is a task gets its turn right after the task that woke it.
pub(super) async fn run_beside<F>(around: Rc<Around>, future: F) -> F::Output
where
    F: Future + 'static,
    F::Output: 'static,
{
    let bell = Arc::new(Bell::new());
    let mut task = tokio::task::spawn_local(woken_by(bell.clone(), run_tasks(around, future)));
    let ended = poll_fn(|context| {
        bell.pass_on(context.waker());
        Pin::new(&mut task).poll(context)
    });
    match ended.await {
        Ok(output) => output,
        Err(error) => resume_unwind(error.into_panic()),
    }
}

/// Polls a future that a bell wakes. The caller's task is the bell's from the first poll on.
async fn woken_by<F: Future>(bell: Arc<Bell>, future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(bell.clone());
    poll_fn(|context| {
        let task = bell.task.get_or_init(|| context.waker().clone());
        assert!(task.will_wake(context.waker()), "a task has one waker all its life");
        bell.is_polled.store(true, Ordering::Relaxed);
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        bell.is_polled.store(false, Ordering::Relaxed);
        polled
    })
    .await
}

/// Wakes a task that is a set of tasks.
///
/// Another task of the thread wakes it at once. All other calls come by the runtime's main future.
/// So a set that still has work after a round lets the thread look at events first, which is where
/// tokio-uring submits.
struct Bell {
    thread: ThreadId,
    /// The task has its turn. Only its own thread looks.
    is_polled: AtomicBool,
    task: OnceLock<Waker>,
    /// The main future is to wake the task.
    is_due: AtomicBool,
    main: AtomicWaker,
}

impl Bell {
    /// A bell for a task of this thread.
    fn new() -> Self {
        Bell {
            thread: std::thread::current().id(),
            is_polled: AtomicBool::new(false),
            task: OnceLock::new(),
            is_due: AtomicBool::new(false),
            main: AtomicWaker::new(),
        }
    }

    /// Wakes the task if that is due; `main` is woken when it is due again.
    fn pass_on(&self, main: &Waker) {
        // Before the look: a call in between then wakes the main future once more.
        self.main.register(main);
        if self.is_due.swap(false, Ordering::Acquire)
            && let Some(task) = self.task.get()
        {
            task.wake_by_ref();
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let is_beside =
            std::thread::current().id() == self.thread && !self.is_polled.load(Ordering::Relaxed);
        match self.task.get() {
            Some(task) if is_beside => task.wake_by_ref(),
            _ => {
                self.is_due.store(true, Ordering::Release);
                self.main.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicUsize;

    use tokio::sync::{Notify, oneshot};
    use tokio::task::{spawn_local, yield_now};

    use super::*;

    /// Counts how often a main future is woken.
    #[derive(Default)]
    struct Main(AtomicUsize);

    impl Wake for Main {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn around() -> Rc<Around> {
        Rc::new(|poll: &mut dyn FnMut()| poll())
    }

    /// Runs a future as a set beside others until it is done, and counts polls of the main future.
    /// After each, `look` looks.
    fn polls(
        set: &LocalSet,
        future: impl Future<Output = ()> + 'static,
        mut look: impl FnMut(),
    ) -> usize {
        let main = Arc::new(Main::default());
        let waker = Waker::from(main.clone());
        let mut all = pin!(set.run_until(run_beside(around(), future)));
        for count in 1.. {
            let polled = all.as_mut().poll(&mut Context::from_waker(&waker));
            look();
            if polled.is_ready() {
                return count;
            }
            assert!(main.0.swap(0, Ordering::SeqCst) > 0, "it waits, and nobody wakes it");
        }
        unreachable!("it ends")
    }

    #[test]
    fn a_set_gets_its_turn_after_the_task_that_woke_it() {
        let (to_set, to_driver) = (Rc::new(Notify::new()), Rc::new(Notify::new()));
        let (rings, rung) = (to_set.clone(), to_driver.clone());
        let set = LocalSet::new();
        // Beside the set, as what dispatches completions is.
        set.spawn_local(async move {
            loop {
                rung.notified().await;
                rings.notify_one();
            }
        });
        let waits = async move {
            for _ in 0..20 {
                to_driver.notify_one();
                to_set.notified().await;
            }
        };
        let count = polls(&set, waits, || {});
        assert!(count <= 4, "the main future was polled {count} times for 20 waits");
    }

    #[test]
    fn a_set_that_has_always_work_lets_the_thread_look_at_events() {
        const TURNS: usize = 1000;
        let turns = Rc::new(Cell::new(0));
        let (counted, mut before) = (turns.clone(), 0);
        let work = async move {
            let tasks = (0..4).map(|_| {
                let counted = counted.clone();
                spawn_local(async move {
                    for _ in 0..TURNS / 4 {
                        counted.set(counted.get() + 1);
                        yield_now().await;
                    }
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                task.await.unwrap();
            }
        };
        let mut most = 0;
        polls(&LocalSet::new(), work, || {
            most = most.max(turns.get() - before);
            before = turns.get();
        });
        assert_eq!(turns.get(), TURNS);
        assert!(most <= 128, "{most} turns went by before the thread could look");
    }

    /// Runs a future as a set beside others on a runtime.
    fn run<F: Future<Output: 'static> + 'static>(around: Rc<Around>, future: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        LocalSet::new().block_on(&runtime, run_beside(around, future))
    }

    #[test]
    fn another_thread_wakes_it() {
        let answer = run(around(), async {
            let (asks, asked) = oneshot::channel();
            let (answers, answer) = oneshot::channel();
            let other = std::thread::Builder::new();
            let other = other.spawn(move || answers.send(asked.blocking_recv().unwrap() + 1));
            let other = other.unwrap();
            yield_now().await;
            asks.send(1).unwrap();
            let answer = answer.await.unwrap();
            other.join().unwrap().unwrap();
            answer
        });
        assert_eq!(answer, 2);
    }

    #[test]
    fn a_panic_is_the_callers() {
        let panic = catch_unwind(AssertUnwindSafe(|| {
            run(around(), async {
                yield_now().await;
                panic!("as it was said");
            })
        }));
        assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"as it was said"));
    }

    #[test]
    fn polls_and_the_end_of_tasks_that_are_left_happen_within_calls() {
        thread_local! {
            static IS_WITHIN: Cell<bool> = const { Cell::new(false) };
            static ENDS: Cell<u32> = const { Cell::new(0) };
        }
        struct Ends;
        impl Drop for Ends {
            fn drop(&mut self) {
                assert!(IS_WITHIN.get());
                ENDS.set(ENDS.get() + 1);
            }
        }
        let around = |poll: &mut dyn FnMut()| {
            assert!(!IS_WITHIN.replace(true));
            poll();
            IS_WITHIN.set(false);
        };
        run(Rc::new(around), async {
            let own = Ends;
            let task = spawn_local(async {
                let _ends = Ends;
                std::future::pending::<()>().await;
            });
            yield_now().await;
            assert!(!task.is_finished());
            drop(own);
        });
        assert_eq!(ENDS.get(), 2);
    }
}
