//! Work that others do once it was looked at: a request to the disk.

use std::future::{Future, poll_fn};
use std::task::Poll;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

/// A request that was made, and whose end is taken later. Where it had to wait for its turn, it is
/// made when its end is waited for.
pub(crate) struct Begun<T> {
    work: LocalBoxFuture<'static, T>,
    done: Option<T>,
}

impl<T> Begun<T> {
    /// Looks at it once.
    pub(crate) async fn new(work: impl Future<Output = T> + 'static) -> Self {
        let mut work = work.boxed_local();
        let looked = poll_fn(|context| match work.poll_unpin(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => Poll::Ready(None),
        });
        let done = looked.await;
        Begun { work, done }
    }

    /// What came of it.
    pub(crate) async fn end(self) -> T {
        match self.done {
            Some(done) => done,
            None => self.work.await,
        }
    }
}
