//! A request to the disk that goes on while nobody waits for it.
//!
//! It has a task of its own. Without one it would keep its place among the requests that the disk
//! may have, from its end until somebody asks for what came of it. The task should do little more
//! than wait: its turns count for nobody's group. One that is given up may hold its file for a turn
//! more.

use std::future::{Future, poll_fn};
use std::task::Poll;

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::LocalBoxFuture;

use crate::io::{Class, Flow, run_as, run_in};
use crate::lent::on_own_thread;
use crate::probe::{self, Probed};
use crate::runtime::{self, Request};

/// A request that was made, and whose end is taken later. Its drop gives it up.
pub(crate) struct Begun<T>(State<T>);

enum State<T> {
    Ended(T),
    /// The task is given up with the handle.
    UnderWay(oneshot::Receiver<T>, Request),
    /// Outside a shard nobody else would poll it.
    Left(LocalBoxFuture<'static, T>),
}

impl<T: 'static> Begun<T> {
    /// Makes a request, for the class, the flow and the probe of the task that asks for it.
    pub(crate) async fn new(work: impl Future<Output = T> + 'static) -> Self {
        let work = Probed::new(probe::current()).run(work);
        let mut work = run_as(Class::current(), run_in(Flow::current(), work)).boxed_local();
        // The thread of the shard has the ring and the tasks.
        on_own_thread(async move {
            // It is looked at now: its task has its first turn when this one's is over.
            let looked = poll_fn(|context| Poll::Ready(work.poll_unpin(context)));
            if let Poll::Ready(ended) = looked.await {
                return Begun(State::Ended(ended));
            }
            if !runtime::is_on_shard() {
                return Begun(State::Left(work));
            }
            let (answer, answered) = oneshot::channel();
            let request = runtime::spawn_request("I/O", async move {
                // Whoever gave it up wants no answer.
                let _ = answer.send(work.await);
            });
            Begun(State::UnderWay(answered, request))
        })
        .await
    }

    /// What came of it; `None` where its task was dropped: the shard stops.
    pub(crate) async fn end(self) -> Option<T> {
        match self.0 {
            State::Ended(ended) => Some(ended),
            State::UnderWay(answered, _request) => answered.await.ok(),
            State::Left(work) => Some(work.await),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::Path;
    use std::rc::Rc;

    use tokio::runtime::Builder;
    use tokio::task::LocalSet;

    use super::*;
    use crate::clock::SimulatedClock;
    use crate::config::PAGE_BYTES;
    use crate::disk::{AlignedBuffer, OpenOptions, SimulatedDisk};
    use crate::runtime::{ShardContext, SimulatedTimer, start_local, yield_now};

    /// Turns in which a simulated disk has answered.
    const TURNS: usize = 100;

    /// Runs work as a job of a shard on a simulated disk.
    fn on_shard<F: Future<Output = ()> + 'static>(
        work: impl FnOnce(Rc<ShardContext>) -> F + Send + 'static,
    ) {
        let runtime = Builder::new_current_thread().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let timer = SimulatedTimer::new(SimulatedClock::new(0));
            let (disk, clock) = (SimulatedDisk::new(1).shared(), timer.clock());
            let context = ShardContext::new((0, 1), disk, clock, Rc::new(timer), 1);
            let shard = start_local(context, |context| Box::pin(async { Ok(context) }));
            let shard = shard.await.unwrap();
            shard.call("work", |context| Box::pin(work(context))).await.unwrap();
        });
    }

    /// Requests of a class that wait, and those that the disk has.
    fn requests(context: &ShardContext, class: Class) -> (u64, u64) {
        let stats = context.io.stats()[class.index()];
        (stats.queued, stats.in_disk)
    }

    #[test]
    fn a_request_ends_while_nobody_waits_for_it() {
        on_shard(|context| async move {
            let path = Path::new("/file");
            let file = context.disk.open(path, OpenOptions::CREATE).await.unwrap();
            let writing = run_as(Class::Compaction, async {
                let buffer = AlignedBuffer::padded(&[7; PAGE_BYTES]);
                let file = file.clone();
                Begun::new(async move { file.write_at(0, buffer).await.0 }).await
            });
            let writing = writing.await;
            assert_eq!(requests(&context, Class::Compaction), (0, 1), "the disk has it");
            for _ in 0..TURNS {
                yield_now().await;
            }
            assert_eq!(requests(&context, Class::Compaction), (0, 0), "nobody waited for its end");
            assert_eq!(requests(&context, Class::Query), (0, 0));
            writing.end().await.unwrap().unwrap();
            let buffer = AlignedBuffer::with_capacity(PAGE_BYTES);
            let (result, read) = file.read_at(0, buffer).await;
            result.unwrap();
            assert_eq!(read[..], [7; PAGE_BYTES]);
        });
    }

    #[test]
    fn a_request_that_is_given_up_goes_with_its_task() {
        on_shard(|_| async move {
            let held = Rc::new(Cell::new(0));
            let (of_request, of_other) = (held.clone(), held.clone());
            let request = Begun::new(async move {
                loop {
                    of_request.set(of_request.get() + 1);
                    yield_now().await;
                }
            });
            let request: Begun<()> = request.await;
            yield_now().await;
            assert!(held.get() > 0 && Rc::strong_count(&held) == 3);
            drop(request);
            for _ in 0..TURNS {
                yield_now().await;
            }
            assert_eq!(Rc::strong_count(&held), 2, "its task has ended");
            drop(of_other);
        });
    }

    #[test]
    fn outside_a_shard_a_request_is_made_where_its_end_is_waited_for() {
        let request = async {
            let mut is_first = true;
            let twice = poll_fn(move |context| {
                context.waker().wake_by_ref();
                match std::mem::take(&mut is_first) {
                    true => Poll::Pending,
                    false => Poll::Ready(7),
                }
            });
            Begun::new(twice).await.end().await
        };
        assert_eq!(futures::executor::block_on(request), Some(7));
    }
}
