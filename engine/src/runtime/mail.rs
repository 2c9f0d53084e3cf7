//! What stands in a shard's mailbox: jobs, questions, and the word to stop.

use std::rc::Rc;
use std::sync::Arc;

use futures::future::LocalBoxFuture;

/// What a job does on the shard's thread.
type Work<S> = Box<dyn FnOnce(Rc<S>) -> LocalBoxFuture<'static, ()> + Send>;

/// One piece of mail.
pub(super) enum Mail<S> {
    /// Becomes a task of this name.
    Job {
        name: &'static str,
        work: Work<S>,
    },
    Request(Letter<S>),
    /// There are tasks that a caller deferred.
    Deferred,
    /// Nothing is accepted behind it.
    Stop,
}

/// A question as the mailbox knows it.
pub(super) trait Request<S>: Send + Sync {
    fn name(&self) -> &'static str;
    /// Answers, or returns what is to be run for the answer.
    fn start(self: Arc<Self>, state: &Rc<S>) -> Option<LocalBoxFuture<'static, ()>>;
    /// Nobody will answer.
    fn give_up(&self);
}

/// A question in the mailbox. Dropping it answers that the shard is closed.
pub(super) struct Letter<S>(Option<Arc<dyn Request<S>>>);

impl<S> Letter<S> {
    pub(super) fn new(request: Arc<dyn Request<S>>) -> Self {
        Letter(Some(request))
    }

    pub(super) fn name(&self) -> &'static str {
        self.0.as_ref().map_or("request", |request| request.name())
    }

    pub(super) fn start(mut self, state: &Rc<S>) -> Option<LocalBoxFuture<'static, ()>> {
        self.0.take()?.start(state)
    }
}

impl<S> Drop for Letter<S> {
    fn drop(&mut self) {
        if let Some(request) = self.0.take() {
            request.give_up();
        }
    }
}
