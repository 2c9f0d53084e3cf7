//! A statement that runs, from its start to the end of its rows.

use std::cell::RefCell;
use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use futures::StreamExt;

use super::list::Place;
use super::signal::{Rows, Signal, State, ended};
use crate::query::error::Result;

thread_local! {
    /// That of the statement which is planned or started.
    static CURRENT: RefCell<Option<Arc<Signal>>> = const { RefCell::new(None) };
}

/// The statement that this thread works for is planned, and runs.
pub fn note_running() {
    CURRENT.with_borrow(|signal| signal.as_ref().map_or((), |signal| signal.set(State::Running)));
}

/// Whether this thread works for a statement that is in the roster.
pub(super) fn is_within() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

/// Work of a statement. Its signal is that of the thread meanwhile.
struct Entered<'a>(&'a mut Option<Arc<Signal>>);

impl<'a> Entered<'a> {
    fn new(signal: &'a mut Option<Arc<Signal>>) -> Self {
        CURRENT.with_borrow_mut(|current| mem::swap(current, signal));
        Entered(signal)
    }
}

impl Drop for Entered<'_> {
    /// Also where the work panics.
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|current| mem::swap(current, self.0));
    }
}

/// See the head of this file. It leaves the roster as it is dropped.
pub struct Running(Place);

impl Running {
    pub(super) fn new(place: Place) -> Self {
        Running(place)
    }

    fn is_ended(&self) -> bool {
        self.0.signal.is_ended(self.0.number)
    }

    /// What `work` gives, unless somebody ends the statement meanwhile. Work that is done stays so.
    ///
    /// Errors: `Unavailable` where somebody ended it.
    pub async fn unless_ended<F: Future>(&self, mut work: Pin<&mut F>) -> Result<F::Output> {
        let Place { signal, number, .. } = &self.0;
        let mut own = Some(Arc::clone(signal));
        poll_fn(|context| {
            if self.is_ended() {
                return Poll::Ready(Err(ended(*number)));
            }
            let polled = {
                let _entered = Entered::new(&mut own);
                work.as_mut().poll(context)
            };
            if polled.is_pending() {
                signal.wake_by(context.waker());
                // It may have been ended before there was somebody to wake.
                if self.is_ended() {
                    return Poll::Ready(Err(ended(*number)));
                }
            }
            polled.map(Ok)
        })
        .await
    }

    /// The statement has these rows.
    pub fn take_rows(&mut self, rows: Rows) {
        *self.0.signal.rows() = Some(rows);
    }

    /// The next of its rows. Where somebody ends it, an error is the last.
    pub fn poll_rows(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let Place { signal, number, .. } = &self.0;
        signal.set(State::Running);
        let polled = match signal.rows().as_mut() {
            Some(rows) => rows.poll_next_unpin(context),
            None => Poll::Ready(None),
        };
        if polled.is_pending() {
            signal.wake_by(context.waker());
        }
        // After the rows were let go of: who ended it meanwhile could not drop them.
        if self.is_ended() {
            let rows = signal.rows().take();
            drop(rows);
            return Poll::Ready(Some(Err(ended(*number))));
        }
        if let Poll::Ready(Some(Ok(batch))) = &polled {
            signal.give(batch.num_rows() as u64);
            signal.set(State::Sending);
        }
        polled
    }
}
