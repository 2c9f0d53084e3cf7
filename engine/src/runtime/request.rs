//! A question to a shard that is mostly answered at once: one allocation, no task.
//!
//! Question, answer and whoever waits for the other stand in one place that both sides hold. The
//! shard answers in the turn of its mailbox where nothing has to be waited for; only what waits
//! becomes a task. An asker that goes takes the question back, or has the task dropped.
//!
//! Invariant: whoever asked is answered, with `Closed` where the shard ends first.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::thread::Thread;

use futures::future::LocalBoxFuture;

use super::executor::ShardHandle;
use super::mail::{Letter, Mail, Request};
use super::mailbox::Ticket;
use super::polling::Looked;
use super::preempt;
use crate::error::{Error, Result};

/// What a shard with the state `S` can be asked.
pub trait Ask<S>: Send + 'static {
    type Answer: Send + 'static;
    /// For stalls and panics.
    const NAME: &'static str;

    /// Answers, on the shard's thread.
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
    /// There is an answer: what a caller looks at without the lock.
    is_answered: AtomicBool,
}

struct Inner<Q, R> {
    question: Option<Q>,
    answer: Option<Result<R>>,
    asker: Option<Waker>,
    task: Option<Waker>,
    is_left: bool,
}

impl<Q, R> Place<Q, R> {
    fn lock(&self) -> MutexGuard<'_, Inner<Q, R>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first answer stands.
    fn answer(&self, answer: Result<R>) {
        let mut inner = self.lock();
        if inner.answer.is_none() && !inner.is_left {
            inner.answer = Some(answer);
        }
        let asker = inner.asker.take();
        drop(inner);
        self.is_answered.store(true, Ordering::Release);
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
        // Whatever it waits for is told its task's waker when that begins.
        let context = &mut Context::from_waker(Waker::noop());
        let place = EndsAnswered(self);
        let mut work = match question.ask(state) {
            Answering::Now(answer) => {
                place.0.answer(Ok(answer));
                return None;
            }
            Answering::Later(work) => work,
            Answering::GoesOn(answer, mut work) => {
                let polled = work.as_mut().poll(context);
                place.0.answer(Ok(answer));
                return polled.is_pending().then_some(work);
            }
        };
        if let Poll::Ready(answer) = work.as_mut().poll(context) {
            place.0.answer(Ok(answer));
            return None;
        }
        Some(Box::pin(async move {
            let answer = poll_fn(|context| match work.as_mut().poll(context) {
                Poll::Ready(answer) => Poll::Ready(Some(answer)),
                Poll::Pending => place.0.poll_left(context).map(|()| None),
            });
            let answer = answer.await;
            // Dropped here, not with the task: the asker may rely on the work being gone.
            drop(work);
            if let Some(answer) = answer {
                place.0.answer(Ok(answer));
            }
        }))
    }

    fn give_up(&self) {
        self.answer(Err(Error::Closed));
    }
}

/// Work that may panic, or be dropped, before it has answered.
struct EndsAnswered<Q, R>(Arc<Place<Q, R>>);

impl<Q, R> Drop for EndsAnswered<Q, R> {
    fn drop(&mut self) {
        if !self.0.is_answered.load(Ordering::Relaxed) {
            self.0.answer(Err(Error::Closed));
        }
    }
}

/// A question on its way: a future, or [`wait`](Asking::wait) for who blocks. It is sent when it is
/// polled first. Dropping it drops the work where that waits.
pub struct Asking<S: 'static, Q: Ask<S>> {
    shard: ShardHandle<S>,
    place: Arc<Place<Q, Q::Answer>>,
    ticket: Ticket,
    is_sent: bool,
    is_over: bool,
    looked: Option<Looked>,
}

impl<S: 'static> ShardHandle<S> {
    /// Asks the shard something that it mostly answers at once.
    pub fn ask<Q: Ask<S>>(&self, question: Q) -> Asking<S, Q> {
        Asking::new(self.clone(), question)
    }
}

impl<S: 'static, Q: Ask<S>> Asking<S, Q> {
    fn new(shard: ShardHandle<S>, question: Q) -> Self {
        let inner = Inner {
            question: Some(question),
            answer: None,
            asker: None,
            task: None,
            is_left: false,
        };
        let place =
            Arc::new(Place { inner: Mutex::new(inner), is_answered: AtomicBool::new(false) });
        Asking { shard, place, ticket: None, is_sent: false, is_over: false, looked: None }
    }

    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        if !self.is_sent {
            let letter = || Mail::Request(Letter::<S>::new(self.place.clone()));
            ready!(self.shard.poll_put(context, &mut self.ticket, letter))?;
            self.is_sent = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends the question now, where there is room for it: several answers are then awaited side by
    /// side.
    pub fn send(&mut self) {
        // An error, or want of room, is met again when the answer is awaited.
        let _ = self.poll_send(&mut Context::from_waker(Waker::noop()));
    }

    /// Blocks the calling thread until the answer is there. It looks for a moment before it sleeps.
    ///
    /// Errors: `Closed` when the shard is stopping; `Invalid` on a thread that shards run on, which
    /// would wait for itself.
    pub fn wait(mut self) -> Result<Q::Answer> {
        self.look()?;
        wait(self)
    }

    /// What a caller does before it blocks: sends the question, and looks for the answer for a
    /// moment where that pays.
    ///
    /// Errors: `Invalid` on a thread that shards run on.
    pub fn look(&mut self) -> Result<()> {
        if self.shard.is_local() || preempt::is_on_shard() {
            return Err(Error::invalid("a thread that shards run on may not block for an answer"));
        }
        self.send();
        if self.is_sent && self.looked.is_none() {
            self.looked = Some(self.shard.look_for(&self.place.is_answered));
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

impl<S: 'static, Q: Ask<S>> Future for Asking<S, Q> {
    type Output = Result<Q::Answer>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let sent = ready!(self.poll_send(context));
        let answer = match sent {
            Ok(()) => ready!(self.place.poll_answer(context)),
            Err(error) => Err(error),
        };
        self.is_over = true;
        if let Some(looked) = self.looked.take() {
            self.shard.note(looked);
        }
        self.shard.pass_panic_on();
        Poll::Ready(answer)
    }
}

impl<S: 'static, Q: Ask<S>> Drop for Asking<S, Q> {
    fn drop(&mut self) {
        if self.is_sent && !self.is_over {
            self.place.leave();
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
