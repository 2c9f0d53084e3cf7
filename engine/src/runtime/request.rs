//! A question to a shard that is mostly answered at once: one allocation at most, no task.
//!
//! A caller that finds the shard's thread asleep answers its question itself (`lease.rs`), where
//! the question says that it is short. Otherwise it goes to the shard. Then question, answer and
//! whoever waits for the other stand in one place that both sides hold. The shard answers in the
//! turn of its mailbox where nothing has to be waited for; only what waits becomes a task. An asker
//! that goes takes the question back, or has the task dropped.
//!
//! Invariant: whoever asked is answered, with `Closed` where the shard ends first.

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::thread::Thread;

use futures::future::LocalBoxFuture;

use super::executor::ShardHandle;
use super::mail::{Letter, Mail, Request};
use super::mailbox::Ticket;
use super::preempt::{self, Deferred};
use crate::error::{Error, Result};

/// What a shard with the state `S` can be asked.
pub trait Ask<S>: Send + 'static {
    type Answer: Send + 'static;
    /// For stalls and panics.
    const NAME: &'static str;
    /// Whether a caller may begin it on its own thread while the shard's thread sleeps: it looks
    /// whether its turn is over where it may take long.
    const IS_SHORT: bool = false;

    /// It is about to be sent. A caller that answers it itself lets it wait for nothing.
    fn sets_out(&mut self) {}

    /// Answers, under the shard's lease.
    fn ask(self, state: &Rc<S>) -> Answering<Self::Answer>;
}

/// An answer, or what it may have to wait for.
pub enum Answering<R> {
    Now(R),
    /// Tried at once; what waits becomes a task that is dropped when the asker goes.
    Later(LocalBoxFuture<'static, R>),
    /// The same for work that goes on behind its answer, and ends by itself. The answer is given
    /// when the work waits first, or has ended.
    GoesOn(R, LocalBoxFuture<'static, ()>),
}

impl<R> Answering<R> {
    /// The answer, once all work is done: for who needs many within one turn or several.
    pub async fn finished(self) -> R {
        match self {
            Answering::Now(answer) => answer,
            Answering::Later(work) => work.await,
            Answering::GoesOn(answer, work) => {
                work.await;
                answer
            }
        }
    }
}

/// See the head of this file.
struct Place<Q, R> {
    inner: Mutex<Inner<Q, R>>,
}

struct Inner<Q, R> {
    question: Option<Q>,
    answer: Option<Result<R>>,
    is_answered: bool,
    asker: Option<Waker>,
    task: Option<Waker>,
    is_left: bool,
}

impl<Q, R> Place<Q, R> {
    /// `question` where the shard is still to be asked it.
    fn new(question: Option<Q>) -> Arc<Self> {
        let inner = Inner {
            question,
            answer: None,
            is_answered: false,
            asker: None,
            task: None,
            is_left: false,
        };
        Arc::new(Place { inner: Mutex::new(inner) })
    }

    fn lock(&self) -> MutexGuard<'_, Inner<Q, R>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first answer stands.
    fn answer(&self, answer: Result<R>) {
        let mut inner = self.lock();
        if !mem::replace(&mut inner.is_answered, true) && !inner.is_left {
            inner.answer = Some(answer);
        }
        let asker = inner.asker.take();
        drop(inner);
        if let Some(asker) = asker {
            asker.wake();
        }
    }

    fn poll_answer(&self, context: &mut Context<'_>) -> Poll<Result<R>> {
        let mut inner = self.lock();
        if let Some(answer) = inner.answer.take() {
            return Poll::Ready(answer);
        }
        match &mut inner.asker {
            Some(asker) => asker.clone_from(context.waker()),
            asker => *asker = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    fn leave(&self) {
        let mut inner = self.lock();
        inner.is_left = true;
        let (question, answer) = (inner.question.take(), inner.answer.take());
        let task = inner.task.take();
        drop(inner);
        drop((question, answer));
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Ready when the asker is gone.
    fn poll_left(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.lock();
        if inner.is_left {
            return Poll::Ready(());
        }
        match &mut inner.task {
            Some(task) => task.clone_from(context.waker()),
            task => *task = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl<S: 'static, Q: Ask<S>> Request<S> for Place<Q, Q::Answer> {
    fn name(&self) -> &'static str {
        Q::NAME
    }

    fn start(self: Arc<Self>, state: &Rc<S>) -> Option<LocalBoxFuture<'static, ()>> {
        let question = self.lock().question.take()?;
        let place = EndsAnswered(self);
        match begin(question.ask(state)) {
            Begun::Done(answer) => {
                place.0.answer(Ok(answer));
                None
            }
            Begun::GoesOn(answer, work) => {
                place.0.answer(Ok(answer));
                Some(work)
            }
            Begun::Waits(work) => Some(Box::pin(place.answer_later(work))),
        }
    }

    fn give_up(&self) {
        self.answer(Err(Error::Closed));
    }
}

/// How far work came in its first turn.
enum Begun<R> {
    Done(R),
    Waits(LocalBoxFuture<'static, R>),
    GoesOn(R, LocalBoxFuture<'static, ()>),
}

/// Polls work once.
fn begin<R>(answering: Answering<R>) -> Begun<R> {
    // Whatever it waits for is told its task's waker when that begins.
    let context = &mut Context::from_waker(Waker::noop());
    match answering {
        Answering::Now(answer) => Begun::Done(answer),
        Answering::Later(mut work) => match work.as_mut().poll(context) {
            Poll::Ready(answer) => Begun::Done(answer),
            Poll::Pending => Begun::Waits(work),
        },
        Answering::GoesOn(answer, mut work) => match work.as_mut().poll(context) {
            Poll::Ready(()) => Begun::Done(answer),
            Poll::Pending => Begun::GoesOn(answer, work),
        },
    }
}

/// Work that may panic, or be dropped, before it has answered.
struct EndsAnswered<Q, R>(Arc<Place<Q, R>>);

impl<Q, R> EndsAnswered<Q, R> {
    /// Answers when the work is done, which ends with the asker.
    async fn answer_later(self, mut work: LocalBoxFuture<'static, R>) {
        let answer = poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => self.0.poll_left(context).map(|()| None),
        });
        let answer = answer.await;
        // Dropped here, not with the task: the asker may rely on the work being gone.
        drop(work);
        if let Some(answer) = answer {
            self.0.answer(Ok(answer));
        }
    }
}

impl<Q, R> Drop for EndsAnswered<Q, R> {
    fn drop(&mut self) {
        // That is no answer where there is one.
        self.0.answer(Err(Error::Closed));
    }
}

/// A question on its way: a future, or [`wait`](Asking::wait) for who blocks. It is sent when it is
/// polled first. Dropping it drops the work where that waits.
pub struct Asking<S: 'static, Q: Ask<S>> {
    shard: ShardHandle<S>,
    stage: Stage<Q, Q::Answer>,
    ticket: Ticket,
}

enum Stage<Q, R> {
    /// Nobody has it yet.
    Asked(Q),
    /// It waits for room in the mailbox.
    Waits(Arc<Place<Q, R>>),
    /// The shard has it.
    Sent(Arc<Place<Q, R>>),
    Answered(R),
    Over,
}

impl<S: 'static> ShardHandle<S> {
    /// Asks the shard something that it mostly answers at once.
    pub fn ask<Q: Ask<S>>(&self, question: Q) -> Asking<S, Q> {
        Asking { shard: self.clone(), stage: Stage::Asked(question), ticket: None }
    }
}

impl<S: 'static, Q: Ask<S>> Asking<S, Q> {
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        if let Stage::Asked(_) = self.stage {
            let Stage::Asked(question) = mem::replace(&mut self.stage, Stage::Over) else {
                unreachable!("it was just looked at")
            };
            self.stage = self.start(question);
        }
        if let Stage::Waits(place) = &self.stage {
            let letter = || Mail::Request(Letter::<S>::new(place.clone()));
            ready!(self.shard.poll_put(context, &mut self.ticket, letter))?;
            self.stage = Stage::Sent(place.clone());
        }
        Poll::Ready(Ok(()))
    }

    /// Answers the question here where the shard lets its caller do that. What waits then is the
    /// shard's to do.
    fn start(&self, question: Q) -> Stage<Q, Q::Answer> {
        let mut question = Some(question);
        if Q::IS_SHORT {
            let stage = self.shard.with_lease(|monitor, state| {
                let question = question.take().expect("it is asked once");
                let begun = monitor.lent(Q::NAME, || begin(question.ask(state)));
                match begun {
                    Begun::Done(answer) => Stage::Answered(answer),
                    Begun::GoesOn(answer, work) => {
                        monitor.defer(Deferred::Job(Q::NAME, work));
                        Stage::Answered(answer)
                    }
                    Begun::Waits(work) => {
                        let place = Place::new(None);
                        let work = EndsAnswered(place.clone()).answer_later(work);
                        monitor.defer(Deferred::Job(Q::NAME, Box::pin(work)));
                        Stage::Sent(place)
                    }
                }
            });
            if let Some(stage) = stage {
                return stage;
            }
        }
        if let Some(question) = &mut question {
            question.sets_out();
        }
        Stage::Waits(Place::new(question))
    }

    /// Sends the question now, where there is room for it: several answers are then awaited side by
    /// side.
    pub fn send(&mut self) {
        // An error, or want of room, is met again when the answer is awaited.
        let _ = self.poll_send(&mut Context::from_waker(Waker::noop()));
    }

    /// Blocks the calling thread until the answer is there.
    ///
    /// Errors: `Closed` when the shard is stopping; `Invalid` on a thread that shards run on, which
    /// would wait for itself.
    pub fn wait(self) -> Result<Q::Answer> {
        self.check_may_block()?;
        wait(self)
    }

    /// Errors: `Invalid` on a thread that shards run on.
    pub fn check_may_block(&self) -> Result<()> {
        if self.shard.is_local() || preempt::is_on_shard() {
            return Err(Error::invalid("a thread that shards run on may not block for an answer"));
        }
        Ok(())
    }
}

/// Blocks the calling thread until a future is done.
pub fn wait<F: Future + Unpin>(mut future: F) -> F::Output {
    PARKED.with(|waker| {
        let context = &mut Context::from_waker(waker);
        loop {
            match Pin::new(&mut future).poll(context) {
                Poll::Ready(output) => return output,
                Poll::Pending => std::thread::park(),
            }
        }
    })
}

impl<S: 'static, Q: Ask<S>> Unpin for Asking<S, Q> {}

impl<S: 'static, Q: Ask<S>> Future for Asking<S, Q> {
    type Output = Result<Q::Answer>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = match ready!(self.poll_send(context)) {
            Ok(()) => match mem::replace(&mut self.stage, Stage::Over) {
                Stage::Answered(answer) => Ok(answer),
                Stage::Sent(place) => match place.poll_answer(context) {
                    Poll::Ready(answer) => answer,
                    Poll::Pending => {
                        self.stage = Stage::Sent(place);
                        return Poll::Pending;
                    }
                },
                Stage::Asked(_) | Stage::Waits(_) => unreachable!("it was sent"),
                Stage::Over => panic!("an answer is taken once"),
            },
            Err(error) => Err(error),
        };
        self.stage = Stage::Over;
        self.shard.pass_panic_on();
        Poll::Ready(answer)
    }
}

impl<S: 'static, Q: Ask<S>> Drop for Asking<S, Q> {
    fn drop(&mut self) {
        if let Stage::Sent(place) = &self.stage {
            place.leave();
        }
    }
}

/// Wakes a thread that parks.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    /// That of the calling thread.
    static PARKED: Waker = Waker::from(Arc::new(Unpark(std::thread::current())));
}
