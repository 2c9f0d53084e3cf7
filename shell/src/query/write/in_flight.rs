//! Writes of many rows that are at work while further rows come: of an ingest, of INSERT … SELECT.
//!
//! Invariant: at most [`WRITES_MAX`] are at work, and a further one begins only where they have
//! less than [`BYTES_MAX`] together. A row that comes later has a later timestamp, so that writes
//! may end in any order.

use std::future::Future;

use futures::StreamExt;
use futures::future::{BoxFuture, Either, FutureExt, select};
use futures::stream::FuturesUnordered;
use tidegate_engine::{Result, Writing};

/// Writes at work at once.
const WRITES_MAX: usize = 4;
/// Bytes of Arrow that they have together before one more begins.
const BYTES_MAX: usize = 8 << 20;

/// See the head of this file.
pub(crate) struct InFlight {
    /// Each gives its bytes.
    writes: FuturesUnordered<BoxFuture<'static, Result<usize>>>,
    bytes: usize,
}

impl InFlight {
    pub fn new() -> Self {
        InFlight { writes: FuturesUnordered::new(), bytes: 0 }
    }

    /// Adds a write of about so many bytes, once there is room for it.
    ///
    /// Errors: that of a write before.
    pub async fn begin(&mut self, write: Writing, bytes: usize) -> Result<()> {
        while self.writes.len() >= WRITES_MAX || self.bytes >= BYTES_MAX {
            let Some(ended) = self.writes.next().await else { break };
            self.bytes -= ended?;
        }
        self.bytes += bytes;
        let write = async move { write.await.map(|()| bytes) };
        self.writes.push(write.boxed());
        // Its shards are asked now, not when somebody waits.
        if let Some(Some(ended)) = self.writes.next().now_or_never() {
            self.bytes -= ended?;
        }
        Ok(())
    }

    /// What `next` gives, while writes go on.
    ///
    /// Errors: that of a write.
    pub async fn while_waiting_for<T>(
        &mut self,
        next: impl Future<Output = T> + Unpin,
    ) -> Result<T> {
        let mut next = next;
        loop {
            if self.writes.is_empty() {
                return Ok(next.await);
            }
            match select(next, self.writes.next()).await {
                Either::Left((given, _)) => return Ok(given),
                Either::Right((ended, waiting)) => {
                    self.bytes -= ended.transpose()?.unwrap_or(0);
                    next = waiting;
                }
            }
        }
    }

    /// Waits until all have ended.
    ///
    /// Errors: the first that occurred.
    pub async fn end(mut self) -> Result<()> {
        let mut first = Ok(());
        while let Some(ended) = self.writes.next().await {
            first = first.and(ended.map(drop));
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use futures::future::{pending, ready};
    use tidegate_engine::{
        ClusteringKey, Database, Error, Liveness, Mutation, Options, PartitionKey, Row, Value,
    };

    use super::*;
    use crate::query::{Session, SessionOptions};

    #[tokio::test]
    async fn an_error_comes_out_whichever_write_ends_after_it() {
        for failing in 0..4 {
            let writes = InFlight::new();
            for write in 0..4 {
                let ended = if write == failing { Err(Error::Closed) } else { Ok(1) };
                writes.writes.push(ready(ended).boxed());
            }
            let ended = writes.end().await;
            assert!(matches!(ended, Err(Error::Closed)), "write {failing}: {ended:?}");
        }
    }

    #[tokio::test]
    async fn a_failed_write_comes_out_while_rows_are_awaited_and_the_others_go_on() {
        for failing in 0..4 {
            let mut writes = InFlight::new();
            for write in 0..4 {
                let bytes: usize = 1 << write;
                let ended = if write == failing { Err(Error::Closed) } else { Ok(bytes) };
                writes.writes.push(ready(ended).boxed());
                writes.bytes += bytes;
            }
            let told = writes.while_waiting_for(pending::<()>()).await;
            assert!(matches!(told, Err(Error::Closed)), "write {failing}: {told:?}");
            assert_eq!(writes.while_waiting_for(ready(7)).await.unwrap(), 7);
            writes.end().await.expect("an error comes out once");
        }
    }

    #[tokio::test]
    async fn writes_that_end_while_rows_are_awaited_give_their_bytes_back() {
        let mut writes = InFlight::new();
        for write in 0..4 {
            let ended: Result<usize> = Ok(1 << write);
            writes.writes.push(ready(ended).boxed());
            writes.bytes += 1 << write;
        }
        let mut polls = 0;
        let late = poll_fn(move |context| {
            polls += 1;
            context.waker().wake_by_ref();
            if polls < 20 { Poll::Pending } else { Poll::Ready(7) }
        });
        assert_eq!(writes.while_waiting_for(late).await.unwrap(), 7);
        assert_eq!((writes.bytes, writes.writes.len()), (0, 0));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn writes_go_on_while_rows_are_awaited_and_errors_come_out() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(Options::new(directory.path().join("data"))).await.unwrap();
        let session = Session::new(database.clone(), SessionOptions::default()).unwrap();
        session.execute("CREATE TABLE t (k int PRIMARY KEY)").await.unwrap();
        let table = database.catalog().table("default", "t").unwrap().clone();
        let mutation = |k| {
            let key = PartitionKey::from_values(&table, &[Value::Int(k)]).unwrap();
            let mut mutation = Mutation::new(table.id, key);
            let row = Row { liveness: Some(Liveness::at(1)), ..Row::default() };
            mutation.rows.push((ClusteringKey::from_values(&table, &[]).unwrap(), row));
            mutation
        };
        let mut writes = InFlight::new();
        for k in 0..20 {
            // More bytes than there is room for: each waits for the one before.
            writes.begin(database.apply(mutation(k)), BYTES_MAX).await.unwrap();
            assert!(writes.writes.len() <= 1);
        }
        for k in 20..60 {
            writes.begin(database.apply(mutation(k)), 1).await.unwrap();
            assert!(writes.writes.len() <= WRITES_MAX);
        }
        assert_eq!(writes.while_waiting_for(ready(7)).await.unwrap(), 7);
        writes.end().await.unwrap();
        let rows = session.execute("SELECT k FROM t").await.unwrap().collect().await.unwrap();
        assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 60);

        let mut writes = InFlight::new();
        database.close().await.unwrap();
        let begun = writes.begin(database.apply(mutation(1)), 1).await;
        let failed = match begun {
            Ok(()) => writes.while_waiting_for(pending::<()>()).await.unwrap_err(),
            Err(error) => error,
        };
        assert!(matches!(failed, Error::Closed), "{failed}");
        assert!(writes.end().await.is_ok(), "an error comes out once");
    }
}
