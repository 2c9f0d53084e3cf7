//! Shards at work: calls, turns, stalls, stopping.

mod asking;
mod idle;
mod lease;
mod shares;
mod storm;

use std::cell::Cell;
use std::panic::Location;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::executor::block_on;
use futures::future::{join, join_all};
use tokio::task::LocalSet;

use super::*;
use crate::clock::{Clock, SimulatedClock, SystemClock};
use crate::disk::{AlignedBuffer, Backend, BlockingDisk, OpenOptions};
use crate::error::{Error, Result};
use crate::io::{Class, Kind, Scheduler};
use crate::os;

const BACKENDS: [Backend; 2] = [Backend::Auto, Backend::Blocking];

fn options(backend: Backend) -> ExecutorOptions {
    let clock = SystemClock::shared();
    let scheduler = Scheduler::unmeasured(1);
    let (shard, shard_count, core, seed) = (0, 1, None, 1);
    ExecutorOptions { shard, shard_count, core, backend, clock, seed, scheduler }
}

/// A shard whose state is its context.
fn start_plain(options: ExecutorOptions) -> ShardHandle<ShardContext> {
    block_on(start(options, |context| Box::pin(async move { Ok(context) }))).unwrap()
}

#[test]
fn a_shard_ends_when_its_jobs_have() {
    let handle = start_plain(options(Backend::Blocking));
    let is_done = Arc::new(AtomicBool::new(false));
    let mark = is_done.clone();
    block_on(handle.spawn("long", move |context: Rc<ShardContext>| {
        let work = async move {
            for _ in 0..20 {
                context.sleep(Duration::from_millis(1)).await;
            }
            mark.store(true, Ordering::SeqCst);
        };
        Box::pin(work)
    }))
    .unwrap();
    block_on(handle.stop()).unwrap();
    assert!(is_done.load(Ordering::SeqCst), "the shard ended before its job");
}

/// A caller may rely on what its job held being let go of.
#[test]
fn a_job_is_gone_when_its_caller_is_answered() {
    struct Held(Arc<AtomicBool>);
    impl Drop for Held {
        fn drop(&mut self) {
            // So long that an answer before it would be seen.
            std::thread::sleep(Duration::from_millis(20));
            self.0.store(true, Ordering::SeqCst);
        }
    }
    impl Future for Held {
        type Output = u32;

        fn poll(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<u32> {
            std::task::Poll::Ready(7)
        }
    }
    let handle = start_plain(options(Backend::Blocking));
    for _ in 0..3 {
        let is_gone = Arc::new(AtomicBool::new(false));
        let held = Held(is_gone.clone());
        assert_eq!(block_on(handle.call("held", move |_| Box::pin(held))).unwrap(), 7);
        assert!(is_gone.load(Ordering::SeqCst), "the job is still there");
    }
    block_on(handle.stop()).unwrap();
}

#[test]
fn state_is_made_used_and_dropped_on_the_shards_own_pinned_thread() {
    struct State {
        thread: std::thread::ThreadId,
        dropped_there: Arc<AtomicBool>,
    }
    impl Drop for State {
        fn drop(&mut self) {
            let there = std::thread::current().id() == self.thread;
            self.dropped_there.store(there, Ordering::SeqCst);
        }
    }
    for backend in BACKENDS {
        let core = *os::available_cores().unwrap().last().unwrap();
        let dropped_there = Arc::new(AtomicBool::new(false));
        let mark = dropped_there.clone();
        let options = ExecutorOptions { core: Some(core), ..options(backend) };
        let handle = block_on(start(options, |_| {
            Box::pin(async move {
                let thread = std::thread::current().id();
                Ok(Rc::new(State { thread, dropped_there: mark }))
            })
        }))
        .unwrap();
        let (same, cores, name) = block_on(handle.call("look", |state| {
            Box::pin(async move {
                let thread = std::thread::current();
                let name = thread.name().map(str::to_owned);
                (thread.id() == state.thread, os::available_cores().unwrap(), name)
            })
        }))
        .unwrap();
        assert!(same);
        assert_eq!((cores, name.as_deref()), (vec![core], Some("shard-0")));
        block_on(handle.stop()).unwrap();
        assert!(dropped_there.load(Ordering::SeqCst));
    }
}

#[test]
fn a_shard_that_cannot_start_says_why() {
    let refused = block_on(start::<()>(options(Backend::Auto), |_| {
        Box::pin(async { Err(Error::invalid("no such thing")) })
    }));
    assert!(matches!(refused, Err(Error::Invalid(_))));
    let nowhere = ExecutorOptions { core: Some(usize::MAX), ..options(Backend::Auto) };
    let refused = block_on(start::<()>(nowhere, |_| Box::pin(async { Ok(Rc::new(())) })));
    let Err(Error::Unavailable(message)) = refused else { panic!("wanted Unavailable") };
    assert!(message.contains("core"), "{message}");
}

#[test]
fn dropping_a_call_drops_its_work() {
    struct SetOnDrop(Arc<AtomicBool>);
    impl Drop for SetOnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    for backend in BACKENDS {
        let handle = start_plain(options(backend));
        let (started, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (mark, guard) = (started.clone(), SetOnDrop(ended.clone()));
        let call = handle.call("endless", move |context| {
            Box::pin(async move {
                let _guard = guard;
                loop {
                    mark.store(true, Ordering::SeqCst);
                    context.sleep(Duration::from_millis(1)).await;
                }
            })
        });
        let mut call: futures::future::LocalBoxFuture<'_, Result<()>> = Box::pin(call);
        let begun = block_on(async {
            for _ in 0..10_000 {
                assert!(futures::poll!(&mut call).is_pending());
                if started.load(Ordering::SeqCst) {
                    return true;
                }
                handle.call("tick", |c| c.sleep(Duration::from_millis(1))).await.unwrap();
            }
            false
        });
        assert!(begun && !ended.load(Ordering::SeqCst));
        drop(call);
        // An endless job would also make this wait for ever.
        block_on(handle.stop()).unwrap();
        assert!(ended.load(Ordering::SeqCst));
    }
}

#[test]
fn stopping_lets_accepted_jobs_end_and_refuses_new_ones() {
    for backend in BACKENDS {
        let handle = start_plain(options(backend));
        let done = Arc::new(AtomicUsize::new(0));
        block_on(async {
            for _ in 0..100 {
                let done = done.clone();
                let job = move |context: Rc<ShardContext>| -> futures::future::LocalBoxFuture<_> {
                    Box::pin(async move {
                        context.sleep(Duration::from_millis(5)).await;
                        done.fetch_add(1, Ordering::SeqCst);
                    })
                };
                handle.spawn("slow", job).await.unwrap();
            }
            // An endless background task does not hold the shard back.
            let background = |context: Rc<ShardContext>| -> futures::future::LocalBoxFuture<_> {
                Box::pin(async move {
                    spawn_local("endless", async move {
                        loop {
                            context.sleep(Duration::from_millis(1)).await;
                        }
                    });
                })
            };
            handle.call("background", background).await.unwrap();
            let (first, second) = futures::join!(handle.stop(), handle.stop());
            assert!(first.is_ok() && second.is_ok());
            assert_eq!(done.load(Ordering::SeqCst), 100);
            let late = handle.call("late", |_| Box::pin(async {})).await;
            assert!(matches!(late, Err(Error::Closed)));
            assert_eq!(handle.stats().job_count(), 101);
        });
    }
}

#[test]
fn many_callers_wait_at_a_full_mailbox_and_all_finish() {
    const CALLERS: u64 = 4;
    const CALLS: u64 = 1000;
    for backend in BACKENDS {
        let handle = start_plain(options(backend));
        let full = handle.stats();
        // Holds the shard until the mailbox is full.
        let watched = full.clone();
        block_on(handle.spawn("hold", move |_| {
            Box::pin(async move {
                while watched.mailbox_full_count() == 0 {
                    std::thread::yield_now();
                }
            })
        }))
        .unwrap();
        let sums: Vec<u64> = std::thread::scope(|scope| {
            let callers: Vec<_> = (0..CALLERS)
                .map(|_| {
                    let handle = handle.clone();
                    scope.spawn(move || {
                        block_on(async {
                            let calls = (0..CALLS).map(|number| {
                                handle.call("echo", move |_| Box::pin(async move { number }))
                            });
                            join_all(calls).await.into_iter().map(Result::unwrap).sum()
                        })
                    })
                })
                .collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).collect()
        });
        assert_eq!(sums, [CALLS * (CALLS - 1) / 2; CALLERS as usize]);
        assert!(full.mailbox_full_count() > 0);
        block_on(handle.stop()).unwrap();
        assert_eq!(full.job_count(), CALLERS * CALLS + 1);
    }
}

#[test]
fn a_task_that_holds_the_thread_is_counted_by_name() {
    let handle = start_plain(options(Backend::Auto));
    block_on(handle.call("busy", |context| {
        Box::pin(async move {
            let start = context.clock.monotonic_ns();
            while context.clock.monotonic_ns() - start < 5_000_000 {
                std::hint::spin_loop();
            }
        })
    }))
    .unwrap();
    let stats = handle.stats();
    block_on(handle.stop()).unwrap();
    let busy = stats.stalls().into_iter().find(|stall| stall.task == "busy").expect("counted");
    assert_eq!((busy.count, busy.total_ns), (1, busy.longest_ns));
    assert_eq!(busy.stretch, Stretch::default(), "it never looked");
    assert!(busy.longest_ns >= 5_000_000 && stats.longest_stall_ns() >= busy.longest_ns);
    assert!(stats.stall_count() >= 1);
}

#[test]
fn a_stall_says_between_which_two_places_it_was() {
    let clock = SimulatedClock::new(0);
    let options = ExecutorOptions { clock: clock.clone(), ..options(Backend::Auto) };
    let handle = start_plain(options);
    let first = line!() + 4;
    block_on(handle.call("merge", move |_| {
        Box::pin(async move {
            clock.advance(Duration::from_micros(100));
            maybe_yield().await;
            clock.advance(Duration::from_micros(700));
            maybe_yield().await;
            clock.advance(Duration::from_micros(300));
            maybe_yield().await;
            clock.advance(Duration::from_micros(900));
        })
    }))
    .unwrap();
    let stats = handle.stats();
    // A turn is judged when it has ended, which may be after its answer.
    block_on(handle.stop()).unwrap();
    let stalls = stats.stalls();
    let line =
        |place: Option<&'static Location<'static>>| place.map(|place| (place.file(), place.line()));
    let seen: Vec<_> = stalls
        .iter()
        .map(|stall| (line(stall.stretch.after), line(stall.stretch.before), stall.longest_ns))
        .collect();
    let at = |offset| Some((file!(), first + offset));
    let wanted = [(at(0), at(2), 800_000), (at(4), None, 1_200_000)];
    assert_eq!(seen, wanted);
}

/// The clock moves only by what the job says that a step costs, so the outcome is exact.
#[test]
fn a_loop_that_offers_to_yield_stays_within_its_quota() {
    for step_us in [1, 10, 90] {
        let clock = SimulatedClock::new(0);
        let options = ExecutorOptions { clock: clock.clone(), ..options(Backend::Auto) };
        let handle = start_plain(options);
        let yields = block_on(handle.call("scan", move |_| {
            Box::pin(async move {
                let mut yields = 0;
                for _ in 0..50_000 / step_us {
                    clock.advance(Duration::from_micros(step_us));
                    if need_preempt() {
                        assert!(need_preempt(), "true until the task yields");
                        yields += 1;
                        yield_now().await;
                    }
                }
                yields
            })
        }))
        .unwrap();
        // 50 ms at 500 us need 100 turns; offering at 375 us makes at most 134.
        assert!((100..=134).contains(&yields), "{yields} yields at {step_us} us a step");
        assert_eq!(handle.stats().stalls(), []);
        block_on(handle.stop()).unwrap();
    }
    assert!(!need_preempt(), "outside a shard nobody is preempted");
}

#[test]
fn a_turn_ends_sooner_where_mail_waits() {
    let clock = SimulatedClock::new(0);
    let options = ExecutorOptions { clock: clock.clone(), ..options(Backend::Auto) };
    let handle = start_plain(options);
    let (other, sent) = (handle.clone(), Arc::new(AtomicBool::new(false)));
    let (seen, started) = (sent.clone(), Arc::new(AtomicBool::new(false)));
    let running = started.clone();
    let took_us = block_on(async {
        let scan = handle.call("scan", move |_| {
            Box::pin(async move {
                running.store(true, Ordering::Relaxed);
                // From here on the other job is in the mailbox.
                while !seen.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                let start = clock.wall_us();
                clock.advance(Duration::from_micros(90));
                assert!(!need_preempt(), "some of a turn everybody has");
                while !need_preempt() {
                    clock.advance(Duration::from_micros(1));
                }
                clock.wall_us() - start
            })
        });
        let mail = async {
            while !started.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            other.spawn("read", |_| Box::pin(async {})).await.unwrap();
            sent.store(true, Ordering::Relaxed);
        };
        join(scan, mail).await.0.unwrap()
    });
    // The clock is not looked at in every step.
    assert!((100..=125).contains(&took_us), "{took_us}");
    block_on(handle.stop()).unwrap();
}

/// Turns of a task, each a request of another class in the disk: none, a compaction's, a query's,
/// none. In microseconds.
async fn turns_beside_io(clock: Arc<SimulatedClock>, context: Rc<ShardContext>) -> Vec<i64> {
    let mut turns = Vec::new();
    for class in [None, Some(Class::Compaction), Some(Class::Query), None] {
        let _running = match class {
            Some(class) => Some(context.io.admit(class, Kind::Read, 4096).await),
            None => None,
        };
        yield_now().await;
        let start = clock.wall_us();
        while !need_preempt() {
            clock.advance(Duration::from_micros(1));
        }
        turns.push(clock.wall_us() - start);
    }
    turns
}

/// What the disk has read is seen at the end of a turn: a query should not wait for a long one of a
/// background task. A read goes on: such pages are mostly its own.
#[test]
fn a_background_turn_ends_sooner_while_the_disk_has_a_page_of_a_query() {
    let clock = SimulatedClock::new(0);
    let options = ExecutorOptions { clock: clock.clone(), ..options(Backend::Auto) };
    let handle = start_plain(options);
    let turns = block_on(handle.call("scan", move |context: Rc<ShardContext>| {
        Box::pin(async move {
            let of_read = turns_beside_io(clock.clone(), context.clone()).await;
            let (done, of_background) = futures::channel::oneshot::channel();
            spawn_local("merge", async move {
                done.send(turns_beside_io(clock, context).await).expect("the job waits");
            });
            (of_read, of_background.await.expect("the task sends"))
        })
    }));
    let (of_read, of_background) = turns.unwrap();
    // The clock is not looked at in every step.
    let (whole, short) = (375..=400, 100..=125);
    let fits = |wanted: [&std::ops::RangeInclusive<i64>; 4], turns: &[i64]| {
        wanted.iter().zip(turns).all(|(wanted, turn)| wanted.contains(turn))
    };
    assert!(fits([&whole; 4], &of_read), "{of_read:?}");
    assert!(fits([&whole, &whole, &short, &whole], &of_background), "{of_background:?}");
    block_on(handle.stop()).unwrap();
}

/// Jobs that come out of the mailbox together: the first should not keep the others waiting.
#[test]
fn a_turn_ends_sooner_where_a_job_waits_for_its_first() {
    let clock = SimulatedClock::new(0);
    let options = ExecutorOptions { clock: clock.clone(), ..options(Backend::Auto) };
    let handle = start_plain(options);
    let sent = Arc::new(AtomicBool::new(false));
    let seen = sent.clone();
    let turns: Vec<_> = block_on(async {
        let busy = handle.spawn("wait", move |_| {
            Box::pin(async move {
                while !seen.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        });
        busy.await.unwrap();
        let (results, turns) = std::sync::mpsc::channel();
        for _ in 0..3 {
            let (clock, results) = (clock.clone(), results.clone());
            let job = handle.spawn("write", move |_| {
                Box::pin(async move {
                    let start = clock.wall_us();
                    while !need_preempt() {
                        clock.advance(Duration::from_micros(1));
                    }
                    results.send(clock.wall_us() - start).unwrap();
                })
            });
            job.await.unwrap();
        }
        sent.store(true, Ordering::Relaxed);
        drop(results);
        handle.stop().await.unwrap();
        turns.iter().collect()
    });
    let is_short = |took_us: &i64| (100..=125).contains(took_us);
    assert!(turns[..2].iter().all(is_short), "{turns:?}");
    assert!((375..=400).contains(&turns[2]), "nobody waits for the last: {turns:?}");
}

#[test]
fn a_busy_task_that_yields_does_not_hold_back_io_or_calls() {
    let directory = tempfile::tempdir().unwrap();
    for backend in BACKENDS {
        let path: PathBuf = directory.path().join(format!("{backend:?}"));
        let handle = start_plain(options(backend));
        let (stop, spins) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (busy_stop, busy_spins) = (stop.clone(), spins.clone());
        let (written, spun) = block_on(async {
            handle
                .spawn("busy", move |_| {
                    Box::pin(async move {
                        while !busy_stop.load(Ordering::Relaxed) {
                            busy_spins.fetch_add(1, Ordering::Relaxed);
                            maybe_yield().await;
                        }
                    })
                })
                .await
                .unwrap();
            let written = handle.call("write", move |context| {
                Box::pin(async move {
                    let file = context.disk.open(&path, OpenOptions::CREATE).await?;
                    file.write_at(0, AlignedBuffer::padded(b"x")).await.0?;
                    file.sync().await?;
                    file.size().await
                })
            });
            (written.await, spins.load(Ordering::Relaxed))
        });
        stop.store(true, Ordering::Relaxed);
        block_on(handle.stop()).unwrap();
        assert_eq!(written.unwrap().unwrap(), 4096);
        assert!(spun > 0);
    }
}

/// Runs a future where local shards can be started.
fn run_local<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    LocalSet::new().block_on(&runtime, future)
}

fn local_context(shard: u32, timer: &Rc<SimulatedTimer>, seed: u64) -> Rc<ShardContext> {
    let clock = timer.clock();
    ShardContext::new((shard, 2), Rc::new(BlockingDisk::new()), clock, Rc::new(timer.clone()), seed)
}

/// Two local shards, each with tasks that draw, yield, sleep and call; what happened, in order.
fn local_trace(seed: u64) -> Vec<String> {
    run_local(async {
        let timer = SimulatedTimer::new(SimulatedClock::new(0));
        let trace = Rc::new(std::cell::RefCell::new(Vec::new()));
        let mut handles = Vec::new();
        for shard in 0..2 {
            let context = local_context(shard, &timer, seed);
            let trace = trace.clone();
            let state = (context.clone(), trace);
            handles.push(
                start_local(context, |_| Box::pin(async { Ok(Rc::new(state)) })).await.unwrap(),
            );
        }
        let finished = Rc::new(Cell::new(0));
        for task in 0..6_usize {
            let handle = handles[task % 2].clone();
            let finished = finished.clone();
            tokio::task::spawn_local(async move {
                handle
                    .call("work", move |state| {
                        Box::pin(async move {
                            let (context, trace) = &*state;
                            for step in 0..40 {
                                maybe_yield().await;
                                let drawn = context.random.borrow_mut().below(100);
                                let now = context.clock.monotonic_ns();
                                let shard = context.shard;
                                let line = format!("{shard} {task} {step} {drawn} {now}");
                                trace.borrow_mut().push(line);
                                if drawn < 20 {
                                    context.sleep(Duration::from_micros(drawn)).await;
                                }
                            }
                        })
                    })
                    .await
                    .unwrap();
                finished.set(finished.get() + 1);
            });
        }
        while finished.get() < 6 {
            tokio::task::yield_now().await;
            timer.advance_to_next();
        }
        for handle in handles {
            handle.stop().await.unwrap();
        }
        trace.take()
    })
}

#[test]
fn a_local_shard_repeats_itself_for_a_seed() {
    let (first, again, other) = (local_trace(7), local_trace(7), local_trace(8));
    assert_eq!(first.len(), 240);
    assert_eq!(first, again);
    assert_ne!(first, other);
}

#[test]
fn a_local_shard_stops_with_its_background_tasks_gone() {
    run_local(async {
        let timer = SimulatedTimer::new(SimulatedClock::new(0));
        let context = local_context(0, &timer, 1);
        let watched = context.clone();
        let handle =
            start_local(context, |context| Box::pin(async move { Ok(context) })).await.unwrap();
        let background = |context: Rc<ShardContext>| -> futures::future::LocalBoxFuture<_> {
            Box::pin(async move {
                spawn_local("sleeper", async move {
                    context.sleep(Duration::from_secs(1)).await;
                });
            })
        };
        handle.call("start", background).await.unwrap();
        assert!(Rc::strong_count(&watched) > 1);
        handle.stop().await.unwrap();
        assert_eq!(Rc::strong_count(&watched), 1, "nothing of the shard is left");
    });
}

#[test]
#[should_panic(expected = "shard 0: task 'broken' panicked: told to")]
fn a_panic_on_a_local_shard_reaches_the_caller() {
    run_local(async {
        let timer = SimulatedTimer::new(SimulatedClock::new(0));
        let context = local_context(0, &timer, 1);
        let handle = start_local(context, |_| Box::pin(async { Ok(Rc::new(())) })).await.unwrap();
        let _ = handle.call::<()>("broken", |_| Box::pin(async { panic!("told to") })).await;
    });
}

/// The process must die of it, so the test runs itself as a child.
#[test]
fn a_panic_on_a_shards_thread_ends_the_process_with_a_message() {
    const CHILD: &str = "TIDEGATE_TEST_PANIC_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let handle = start_plain(options(Backend::Auto));
        let _ = block_on(handle.call::<()>("broken", |_| Box::pin(async { panic!("told to") })));
        return;
    }
    let name = "runtime::tests::a_panic_on_a_shards_thread_ends_the_process_with_a_message";
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(CHILD, "1")
        .output()
        .unwrap();
    assert!(!child.status.success());
    let words = String::from_utf8_lossy(&child.stderr);
    assert!(words.contains("shard 0: task 'broken' panicked: told to"), "{words}");
}

#[test]
fn a_task_with_a_pace_rests_where_it_yields_while_it_has_time() {
    let clock = SimulatedClock::new(0);
    let timer = SimulatedTimer::new(clock.clone());
    let (has_time, steps) = (Rc::new(Cell::new(true)), Rc::new(Cell::new(0)));
    let work = |steps: Rc<Cell<u32>>| async move {
        for _ in 0..3 {
            yield_now().await;
            steps.set(steps.get() + 1);
        }
    };
    let told = has_time.clone();
    let pace = Pace::new(Rc::new(timer.clone()), move || told.get());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let task = tokio::task::spawn_local(pace.run(work(steps.clone())));
        let other = Rc::new(Cell::new(0));
        tokio::task::spawn_local(work(other.clone())).await.unwrap();
        assert_eq!((steps.get(), other.get()), (0, 3), "only the task itself rests");
        assert!(timer.advance_to_next());
        assert_eq!(clock.monotonic_ns(), 1_000_000);
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(steps.get(), 1);
        has_time.set(false);
        assert!(timer.advance_to_next(), "the rest that was begun is taken");
        task.await.unwrap();
        assert_eq!(steps.get(), 3);
        assert!(!timer.advance_to_next());
    });
}
