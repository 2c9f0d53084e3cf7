//! Queries that are being fetched, so that they can be cancelled by what their client knows of
//! them.
//!
//! Invariant: a query that was cancelled gives no more rows, neither to those who fetch it now nor
//! to those who come later with its ticket. At most [`CANCELLED_MAX`] cancelled queries are
//! remembered, each as long as its ticket holds.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};

use arrow::array::RecordBatch;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use prost::bytes::Bytes;
use tokio::sync::watch;
use tonic::Status;

/// Cancelled queries whose tickets are still refused.
const CANCELLED_MAX: usize = 10_000;

/// Rows on their way to a client.
pub(super) type Rows = BoxStream<'static, Result<RecordBatch, Status>>;

/// All queries that are being fetched.
#[derive(Default)]
pub(super) struct Running(Mutex<State>);

#[derive(Default)]
struct State {
    /// Of each query: those who fetch it.
    fetches: HashMap<Bytes, Vec<Arc<watch::Sender<bool>>>>,
    /// Until when the ticket of a cancelled query can hold, seconds since the epoch.
    cancelled: HashMap<Bytes, i64>,
}

/// One fetch of a query.
pub(super) struct Fetch {
    running: Arc<Running>,
    id: Bytes,
    cancel: Arc<watch::Sender<bool>>,
}

impl Running {
    /// A fetch of the query `id` begins.
    ///
    /// Errors: CANCELLED when it was cancelled before.
    pub(super) fn begin(self: &Arc<Self>, id: Bytes) -> Result<Fetch, Status> {
        let cancel = Arc::new(watch::Sender::new(false));
        let mut state = self.lock();
        if state.cancelled.contains_key(&id) {
            return Err(cancelled());
        }
        state.fetches.entry(id.clone()).or_default().push(Arc::clone(&cancel));
        Ok(Fetch { running: Arc::clone(self), id, cancel })
    }

    /// Cancels the query `id`, whoever fetches it. Its ticket holds until `expires` at most,
    /// seconds since the epoch; `now` is the time.
    pub(super) fn cancel(&self, id: &Bytes, now: i64, expires: i64) {
        let mut state = self.lock();
        for cancel in state.fetches.get(id).into_iter().flatten() {
            cancel.send_replace(true);
        }
        let cancelled = &mut state.cancelled;
        if cancelled.len() >= CANCELLED_MAX && !cancelled.contains_key(id) {
            cancelled.retain(|_, expires| *expires >= now);
            // All of them hold: the one that was cancelled first goes.
            if cancelled.len() >= CANCELLED_MAX {
                let first = cancelled.iter().min_by_key(|(_, expires)| **expires);
                if let Some(first) = first.map(|(id, _)| id.clone()) {
                    cancelled.remove(&first);
                }
            }
        }
        cancelled.insert(id.clone(), expires);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no one panics while holding the running queries")
    }
}

impl Fetch {
    /// What `work` gives, unless the query is cancelled meanwhile.
    ///
    /// Errors: CANCELLED, or those of `work`.
    pub(super) async fn unless_cancelled<T>(
        &self,
        work: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        let mut told = self.cancel.subscribe();
        tokio::select! {
            biased;
            _ = told.wait_for(|is_cancelled| *is_cancelled) => Err(cancelled()),
            done = work => done,
        }
    }

    /// `rows` until they end or the query is cancelled, which the last item says then.
    pub(super) fn rows(self, rows: Rows) -> Rows {
        stream::unfold(Some((self, rows)), |at_work| async move {
            let (fetch, mut rows) = at_work?;
            let next = fetch.unless_cancelled(async { rows.next().await.transpose() }).await;
            match next {
                Ok(None) => None,
                Ok(Some(batch)) => Some((Ok(batch), Some((fetch, rows)))),
                Err(error) => Some((Err(error), None)),
            }
        })
        .boxed()
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        let mut state = self.running.lock();
        if let Some(fetches) = state.fetches.get_mut(&self.id) {
            fetches.retain(|cancel| !Arc::ptr_eq(cancel, &self.cancel));
            if fetches.is_empty() {
                state.fetches.remove(&self.id);
            }
        }
    }
}

fn cancelled() -> Status {
    Status::cancelled("the query was cancelled")
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[tokio::test]
    async fn a_cancelled_query_gives_no_more_rows() {
        let running = Arc::new(Running::default());
        let id = Bytes::from_static(b"one");
        let other = running.begin(Bytes::from_static(b"other")).unwrap();
        let fetch = running.begin(id.clone()).unwrap();
        let endless = stream::repeat_with(|| {
            Ok(RecordBatch::new_empty(Arc::new(arrow::datatypes::Schema::empty())))
        });
        let mut rows = fetch.rows(endless.boxed());
        assert!(rows.next().await.unwrap().is_ok());
        running.cancel(&id, 0, 1);
        assert_eq!(rows.next().await.unwrap().unwrap_err().code(), Code::Cancelled);
        assert!(rows.next().await.is_none());
        drop(rows);
        assert_eq!(running.begin(id).err().unwrap().code(), Code::Cancelled);
        assert!(other.unless_cancelled(async { Ok(1) }).await.is_ok());
        drop(other);
        assert!(running.lock().fetches.is_empty());
    }

    #[tokio::test]
    async fn all_who_fetch_a_query_are_told_that_it_is_cancelled() {
        let running = Arc::new(Running::default());
        let id = Bytes::from_static(b"one");
        let fetches = [(); 3].map(|()| running.begin(id.clone()).unwrap());
        running.cancel(&id, 0, 1);
        for fetch in fetches {
            let refused = fetch.unless_cancelled(async { Ok(1) }).await.unwrap_err();
            assert_eq!(refused.code(), Code::Cancelled);
        }
        assert!(running.lock().fetches.is_empty());
    }

    /// Parts of one query end at different times, in any order.
    #[tokio::test]
    async fn a_fetch_that_has_ended_leaves_the_others_of_its_query_to_be_cancelled() {
        for ended in 0..3 {
            let running = Arc::new(Running::default());
            let id = Bytes::from_static(b"one");
            let mut left: Vec<Fetch> =
                [(); 3].map(|()| running.begin(id.clone()).unwrap()).into_iter().collect();
            drop(left.remove(ended));
            for fetch in &left {
                assert!(fetch.unless_cancelled(async { Ok(1) }).await.is_ok(), "{ended} has ended");
            }
            running.cancel(&id, 0, 1);
            for fetch in left {
                let refused = fetch.unless_cancelled(async { Ok(1) }).await.unwrap_err();
                assert_eq!(refused.code(), Code::Cancelled, "{ended} has ended");
            }
            assert!(running.lock().fetches.is_empty());
        }
    }

    #[test]
    fn cancelled_queries_are_forgotten_when_their_tickets_have_expired() {
        let running = Arc::new(Running::default());
        let id = |n: usize| Bytes::from(n.to_be_bytes().to_vec());
        let at = |n: usize| i64::try_from(n).unwrap();
        for n in 0..=CANCELLED_MAX {
            running.cancel(&id(n), 0, at(n));
        }
        assert_eq!(running.lock().cancelled.len(), CANCELLED_MAX);
        assert!(running.begin(id(0)).is_ok(), "the oldest made room");
        assert!(running.begin(id(1)).is_err());
        running.cancel(&id(1), 0, at(CANCELLED_MAX + 1));
        assert!(running.begin(id(2)).is_err(), "one that was known already needs no room");
        running.cancel(&id(CANCELLED_MAX + 1), at(CANCELLED_MAX), at(CANCELLED_MAX + 1));
        assert_eq!(running.lock().cancelled.len(), 3);
        assert!(running.begin(id(1)).is_err() && running.begin(id(CANCELLED_MAX)).is_err());
    }
}
