//! The batches of a read in the order in which they arrive from the shards.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::mpsc::Receiver;

use super::Scan;
use super::refusal::refuse_here;
use crate::admission::{BatchCharge, Terms};
use crate::batch::RecordBatch;
use crate::database::database::Database;
use crate::database::ring::{NodeId, Ring};
use crate::database::shard::Shard;
use crate::database::shard::call::{Asked, Stream, Streamed};
use crate::error::{Error, Result};
use crate::probe::Probe;
use crate::runtime::{self, Asking};
use crate::schema::{PartitionKey, TableSchema};
use crate::table::{ManyTombstones, Partitions, ReadCommand, Sent, Told, TombstonePage, Whole};

/// Result of a read. Dropping it stops the work on the shards. After an error the stream is over.
pub struct BatchStream {
    state: State,
    /// Who wants to know of pages that met many tombstones.
    noting: Option<Arc<ManyTombstones>>,
    /// Where the read goes on.
    rest: Option<Rest>,
    /// Memory of the batch that was handed out last, until the next is asked for.
    held: Option<BatchCharge>,
}

#[expect(clippy::large_enum_variant, reason = "one a read, and most reads end as they start")]
enum State {
    /// A shard is about to begin it.
    Starting(Asking<Shard, Stream>),
    /// `Told` says when the shard has sent everything; a stream that ends without was cut.
    Receiving(Receiver<Result<Sent>>, Arc<Told>),
    /// The shard has given all.
    Given,
    /// Another node sends it.
    Far(BoxStream<'static, Result<RecordBatch>>),
    /// Its shard need not be asked.
    Refused(Error),
    Done,
}

/// Partitions of further shards.
struct Rest {
    database: Database,
    /// With the rows that are still to come, but without partitions.
    command: ReadCommand,
    probe: Option<Probe>,
    /// Partitions of one place each, in ring order.
    runs: VecDeque<(Place, Partitions)>,
}

/// Who has partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A shard of this node.
    Shard(u32),
    Node(NodeId),
}

impl Database {
    /// Starts a read; see [`BatchStream`]. Keys of several shards are read one shard after another,
    /// so that the rows come in ring order. In a cluster keys of other nodes are read there.
    pub fn read(&self, command: ReadCommand) -> BatchStream {
        BatchStream::new(self.clone(), command, None)
    }

    /// As [`read`](Self::read); `probe`, where there is one, is told what the read does.
    pub fn read_watched(
        &self,
        command: ReadCommand,
        probe: impl Into<Option<Probe>>,
    ) -> BatchStream {
        BatchStream::new(self.clone(), command, probe.into())
    }
}

impl BatchStream {
    fn new(database: Database, mut command: ReadCommand, probe: Option<Probe>) -> Self {
        let shared = shared(&database, &command);
        let place = match &mut command.partitions {
            Partitions::Shard(shard)
            | Partitions::Owned { shard, .. }
            | Partitions::Tokens { shard, .. } => Place::Shard(*shard),
            Partitions::Keys(all) => {
                let of_key = |key: &PartitionKey| place_of(&database, shared, key);
                let place = all.first().map_or(Place::Shard(0), of_key);
                if all.iter().skip(1).any(|key| of_key(key) != place) {
                    let runs = by_place(std::mem::take(all), of_key);
                    let probe = probe.map(Probe::known);
                    return Self::of_rest(Rest { database, command, probe, runs });
                }
                place
            }
        };
        Self::with_state(start(&database, place, (command, probe)))
    }

    /// A read that another node answers.
    pub(in crate::database) fn far(batches: BoxStream<'static, Result<RecordBatch>>) -> Self {
        Self::with_state(State::Far(batches))
    }

    /// A read that is not begun.
    pub(in crate::database) fn refused(error: Error) -> Self {
        Self::with_state(State::Refused(error))
    }

    fn with_state(state: State) -> Self {
        BatchStream { state, noting: None, rest: None, held: None }
    }

    /// The same read; `many` has its page that met most tombstones, when it ends or is dropped.
    pub fn noting(mut self, many: Arc<ManyTombstones>) -> Self {
        self.noting = Some(many);
        self
    }

    /// Hands on the page of a shard that met most tombstones.
    fn note(&self, page: Option<TombstonePage>) {
        if let (Some(many), Some(page)) = (&self.noting, page) {
            many.note(page);
        }
    }

    /// Takes note of a batch that is handed out.
    fn count(&mut self, batch: &RecordBatch) {
        if let Some(rest) = &mut self.rest
            && let Some(limit) = &mut rest.command.row_limit
        {
            *limit = limit.saturating_sub(batch.num_rows());
        }
    }

    /// A read of the partitions of a command, or of every shard where it has no keys.
    pub(super) fn of_runs(database: Database, scan: Scan) -> Self {
        let (command, has_keys) = scan.into_command();
        if has_keys {
            return Self::new(database, command, None);
        }
        let runs = match shared(&database, &command) {
            Some(ring) => all_of(&database, ring),
            None => {
                let of_shard = |shard| (Place::Shard(shard), Partitions::Shard(shard));
                (0..database.shard_count()).map(of_shard).collect()
            }
        };
        Self::of_rest(Rest { database, command, probe: None, runs })
    }

    fn of_rest(mut rest: Rest) -> Self {
        let mut stream = Self::with_state(rest.start().unwrap_or(State::Done));
        stream.rest = Some(rest);
        stream
    }

    /// Blocks the calling thread until the next batch is there; `None` at the end.
    ///
    /// Errors: those of the read; `Invalid` on a thread that shards run on.
    pub fn wait(&mut self) -> Option<Result<RecordBatch>> {
        if let State::Starting(asking) = &self.state
            && let Err(error) = asking.check_may_block()
        {
            self.state = State::Done;
            return Some(Err(error));
        }
        runtime::wait(self.next())
    }
}

/// The ring whose nodes share the table that is read; files that are attached are this node's.
fn shared<'a>(database: &'a Database, command: &ReadCommand) -> Option<&'a Ring> {
    let TableSchema { keyspace, name, .. } = &*command.schema;
    database.ring().filter(|_| !database.catalog().is_attached(keyspace, name))
}

/// Who has a partition.
fn place_of(database: &Database, ring: Option<&Ring>, key: &PartitionKey) -> Place {
    match ring.and_then(|ring| ring.other_owner(key)) {
        Some(node) => Place::Node(node),
        None => Place::Shard(database.shard_of(key)),
    }
}

/// All partitions of a cluster, those of this node first.
fn all_of(database: &Database, ring: &Ring) -> VecDeque<(Place, Partitions)> {
    let ranges: Arc<[_]> = ring.ranges_of(ring.own()).into();
    let of_shard =
        |shard| (Place::Shard(shard), Partitions::Owned { shard, ranges: Arc::clone(&ranges) });
    let mut runs: VecDeque<_> = (0..database.shard_count()).map(of_shard).collect();
    for node in ring.nodes().filter(|node| *node != ring.own()) {
        let of_range = |(min, max)| (Place::Node(node), Partitions::Tokens { shard: 0, min, max });
        runs.extend(ring.ranges_of(node).into_iter().map(of_range));
    }
    runs
}

/// Asks a shard for a read, or another node.
fn start(
    database: &Database,
    place: Place,
    (command, probe): (ReadCommand, Option<Probe>),
) -> State {
    let shard = match (place, database.ring()) {
        (Place::Shard(shard), _) => shard,
        (Place::Node(node), Some(ring)) => {
            return State::Far(ring.peers().read(node, command, &database.catalog()));
        }
        (Place::Node(_), None) => unreachable!("nodes are those of a ring"),
    };
    let terms = Terms { level: command.level, deadline: command.deadline };
    // Who watches a read wants to see what the shard makes of it.
    let let_in = match probe {
        Some(_) => Ok((None, false)),
        None => refuse_here(database, shard, (&command, &terms)),
    };
    let (place, is_counted) = match let_in {
        Ok(let_in) => let_in,
        Err(error) => return State::Refused(error),
    };
    let Asked { waits, .. } = database.under(terms).asked();
    let stream = Stream { command, probe, waits, is_counted, place };
    State::Starting(database.handle(shard).ask(stream))
}

/// Runs of keys of one place, in ring order.
fn by_place(
    mut keys: Vec<PartitionKey>,
    place_of: impl Fn(&PartitionKey) -> Place,
) -> VecDeque<(Place, Partitions)> {
    keys.sort();
    let mut runs: VecDeque<(Place, Vec<PartitionKey>)> = VecDeque::new();
    for key in keys {
        let place = place_of(&key);
        match runs.back_mut() {
            Some((last, run)) if *last == place => run.push(key),
            _ => runs.push_back((place, vec![key])),
        }
    }
    runs.into_iter().map(|(place, keys)| (place, Partitions::Keys(keys))).collect()
}

impl Rest {
    /// Starts the read of the next shard, if the receiver takes more.
    fn start(&mut self) -> Option<State> {
        if self.command.row_limit == Some(0) {
            return None;
        }
        let (place, partitions) = self.runs.pop_front()?;
        let command = ReadCommand { partitions, ..self.command.clone() };
        Some(start(&self.database, place, (command, self.probe.clone())))
    }
}

impl Drop for BatchStream {
    /// Whoever has enough rows stops before the end.
    fn drop(&mut self) {
        if let State::Receiving(_, told) = &self.state {
            self.note(told.tombstones.most());
        }
    }
}

impl futures::Stream for BatchStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        this.held = None;
        loop {
            match &mut this.state {
                State::Starting(asking) => {
                    let begun = ready!(Pin::new(asking).poll(context));
                    this.state = State::Done;
                    match begun.flatten() {
                        Err(error) => return Poll::Ready(Some(Err(error))),
                        Ok(Streamed::Batches(receiver, told)) => {
                            this.state = State::Receiving(receiver, told);
                        }
                        Ok(Streamed::Whole(Whole { batch, page })) => {
                            this.state = State::Given;
                            this.note(page);
                            if let Some(batch) = batch {
                                this.count(&batch);
                                return Poll::Ready(Some(Ok(batch)));
                            }
                        }
                    }
                }
                State::Receiving(receiver, told) => {
                    let item = ready!(receiver.poll_recv(context));
                    if let Some(Ok(Sent { batch, charge })) = item {
                        this.held = charge;
                        this.count(&batch);
                        return Poll::Ready(Some(Ok(batch)));
                    }
                    let page = told.tombstones.most();
                    let is_whole = told.is_complete.load(Ordering::Acquire);
                    this.state = State::Done;
                    this.note(page);
                    match item {
                        Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                        None if !is_whole => return Poll::Ready(Some(Err(Error::Closed))),
                        _ => this.state = State::Given,
                    }
                }
                State::Far(batches) => {
                    let item = ready!(batches.poll_next_unpin(context));
                    match item {
                        Some(Ok(batch)) => {
                            this.count(&batch);
                            return Poll::Ready(Some(Ok(batch)));
                        }
                        Some(Err(error)) => {
                            this.state = State::Done;
                            return Poll::Ready(Some(Err(error)));
                        }
                        None => this.state = State::Given,
                    }
                }
                State::Given => {
                    this.state = this.rest.as_mut().and_then(Rest::start).unwrap_or(State::Done);
                }
                State::Refused(_) => {
                    let State::Refused(error) = std::mem::replace(&mut this.state, State::Done)
                    else {
                        unreachable!("it was just looked at")
                    };
                    return Poll::Ready(Some(Err(error)));
                }
                State::Done => return Poll::Ready(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use tokio::sync::mpsc;

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
            drops: Vec::new(),
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
                let told = Arc::<Told>::default();
                told.is_complete.store(is_whole, Ordering::Release);
                let mut stream = BatchStream::with_state(State::Receiving(receiver, told));
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
