//! The batches of a read in the order in which they arrive from the shards.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;
use futures::{FutureExt, Stream};
use tokio::sync::mpsc::{self, Receiver};

use super::database::Database;
use crate::admission::BatchCharge;
use crate::batch::RecordBatch;
use crate::error::{Error, Result};
use crate::schema::PartitionKey;
use crate::table::{Partitions, ReadCommand, Sent};

/// A read that a shard is about to begin.
pub(super) type Starting = BoxFuture<'static, Result<Receiver<Result<Sent>>>>;

/// Result of a read. Dropping it stops the work on the shards. After an error the stream is over.
pub struct BatchStream {
    state: State,
    /// Set by the shard when it has sent everything; a stream that ends without was cut.
    is_complete: Arc<AtomicBool>,
    /// Where the read goes on.
    rest: Option<Rest>,
    /// Memory of the batch that was handed out last, until the next is asked for.
    held: Option<BatchCharge>,
}

enum State {
    Starting(Starting),
    Receiving(Receiver<Result<Sent>>),
    Done,
}

/// Keys of further shards.
struct Rest {
    database: Database,
    /// With the rows that are still to come, but without keys.
    command: ReadCommand,
    /// Keys of one shard each, in ring order.
    keys: VecDeque<(u32, Vec<PartitionKey>)>,
}

impl Database {
    /// Starts a read; see [`BatchStream`]. Keys of several shards are read one shard after another,
    /// so that the rows come in ring order.
    pub fn read(&self, command: ReadCommand) -> BatchStream {
        BatchStream::new(self.clone(), command)
    }

    /// Starts a read of one shard; the flag is set when that has sent everything.
    pub(super) fn read_shard(
        &self,
        shard: u32,
        command: ReadCommand,
    ) -> (Starting, Arc<AtomicBool>) {
        let handle = self.handle(shard).clone();
        let is_complete = Arc::new(AtomicBool::new(false));
        let told = is_complete.clone();
        let start = async move {
            let (sender, receiver) = mpsc::channel(2);
            handle.spawn("read", move |shard| shard.stream(command, sender, told)).await?;
            Ok(receiver)
        };
        (start.boxed(), is_complete)
    }
}

impl BatchStream {
    fn new(database: Database, mut command: ReadCommand) -> Self {
        let mut keys = VecDeque::new();
        let shard = match &mut command.partitions {
            Partitions::Shard(shard) => *shard,
            Partitions::Keys(all) => {
                let shard = all.first().map_or(0, |key| database.shard_of(key));
                if all.iter().any(|key| database.shard_of(key) != shard) {
                    keys = by_shard(&database, std::mem::take(all));
                }
                shard
            }
        };
        if keys.is_empty() {
            let (start, is_complete) = database.read_shard(shard, command);
            return BatchStream {
                state: State::Starting(start),
                is_complete,
                rest: None,
                held: None,
            };
        }
        let is_complete = Arc::new(AtomicBool::new(false));
        let mut rest = Rest { database, command, keys };
        let mut stream = BatchStream { state: State::Done, is_complete, rest: None, held: None };
        if let Some((start, is_complete)) = rest.start() {
            (stream.state, stream.is_complete) = (State::Starting(start), is_complete);
        }
        stream.rest = Some(rest);
        stream
    }
}

/// Runs of keys of one shard, in ring order.
fn by_shard(
    database: &Database,
    mut keys: Vec<PartitionKey>,
) -> VecDeque<(u32, Vec<PartitionKey>)> {
    keys.sort();
    let mut runs: VecDeque<(u32, Vec<PartitionKey>)> = VecDeque::new();
    for key in keys {
        let shard = database.shard_of(&key);
        match runs.back_mut() {
            Some((last, run)) if *last == shard => run.push(key),
            _ => runs.push_back((shard, vec![key])),
        }
    }
    runs
}

impl Rest {
    /// Starts the read of the next shard, if the receiver takes more.
    fn start(&mut self) -> Option<(Starting, Arc<AtomicBool>)> {
        if self.command.row_limit == Some(0) {
            return None;
        }
        let (shard, keys) = self.keys.pop_front()?;
        let command = ReadCommand { partitions: Partitions::Keys(keys), ..self.command.clone() };
        Some(self.database.read_shard(shard, command))
    }
}

impl Stream for BatchStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.held = None;
        loop {
            match &mut self.state {
                State::Starting(start) => match ready!(start.as_mut().poll(context)) {
                    Ok(receiver) => self.state = State::Receiving(receiver),
                    Err(error) => {
                        self.state = State::Done;
                        return Poll::Ready(Some(Err(error)));
                    }
                },
                State::Receiving(receiver) => {
                    let item = match ready!(receiver.poll_recv(context)) {
                        None => None,
                        Some(Ok(Sent { batch, charge })) => {
                            self.held = charge;
                            Some(Ok(batch))
                        }
                        Some(Err(error)) => Some(Err(error)),
                    };
                    if let (Some(Ok(batch)), Some(rest)) = (&item, &mut self.rest)
                        && let Some(limit) = &mut rest.command.row_limit
                    {
                        *limit = limit.saturating_sub(batch.num_rows());
                    }
                    if matches!(item, Some(Ok(_))) {
                        return Poll::Ready(item);
                    }
                    self.state = State::Done;
                    if item.is_none() && !self.is_complete.load(Ordering::Acquire) {
                        return Poll::Ready(Some(Err(Error::Closed)));
                    }
                    let next = self.rest.as_mut().filter(|_| item.is_none()).and_then(Rest::start);
                    let Some((start, is_complete)) = next else { return Poll::Ready(item) };
                    self.state = State::Starting(start);
                    self.is_complete = is_complete;
                }
                State::Done => return Poll::Ready(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;
    use crate::batch::BatchBuilder;
    use crate::schema::{Column, ColumnKind, DataType, TableId, TableOptions, TableSchema};

    fn batch() -> RecordBatch {
        let kind = ColumnKind::PartitionKey { position: 0 };
        let schema = TableSchema {
            id: TableId(0),
            keyspace: "default".into(),
            name: "t".into(),
            columns: vec![Column { name: "pk".into(), ty: DataType::Int, kind }],
            options: TableOptions::default(),
        };
        BatchBuilder::new(Arc::new(schema), &[], 0).finish().unwrap()
    }

    /// A shard may stop at any moment: after no batch, after some, after the last but before it
    /// says so.
    #[tokio::test]
    async fn a_stream_that_was_cut_is_never_taken_for_a_whole_one() {
        for sent in 0..4 {
            for is_whole in [true, false] {
                let (sender, receiver) = mpsc::channel(4);
                for _ in 0..sent {
                    sender.send(Ok(Sent { batch: batch(), charge: None })).await.unwrap();
                }
                drop(sender);
                let is_complete = Arc::new(AtomicBool::new(is_whole));
                let state = State::Receiving(receiver);
                let mut stream = BatchStream { state, is_complete, rest: None, held: None };
                let items: Vec<_> = stream.by_ref().collect().await;
                let what = format!("{sent} batches, all sent: {is_whole}");
                let batches = items.iter().filter(|item| item.is_ok()).count();
                assert_eq!(batches, sent, "{what}");
                match is_whole {
                    true => {
                        assert_eq!(items.len(), sent, "{what}: nothing comes after the last batch")
                    }
                    false => assert!(
                        matches!(items.last(), Some(Err(Error::Closed))),
                        "{what}: the stream was cut and reads as a whole one"
                    ),
                }
                assert!(stream.next().await.is_none(), "{what}: the stream is over");
            }
        }
    }
}
