//! The calls of a program that lives with its data: rows by key, writes, scans. Each is a future,
//! and each has a form that blocks.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;

use super::refusal::read_of;
use super::{BatchStream, Scan, WriteBatch};
use crate::admission::{Terms, rate};
use crate::database::database::Database;
use crate::database::shard::Shard;
use crate::database::shard::call::{Apply, ApplyMany, Asked, Get, GetMany, Stopwatch};
use crate::error::{Error, Result};
use crate::mutation::Mutation;
use crate::policy::rate::Operation;
use crate::reader::{RowKey, RowValues};
use crate::runtime::{self, Ask, Asking, ShardHandle};
use crate::schema::PartitionKey;
use crate::schema::table_schema::SchemaRef;

impl Database {
    /// The same calls on other terms: as work of a service level, or wanted until some time.
    pub fn under(&self, terms: Terms) -> Under<'_> {
        Under { database: self, terms }
    }

    /// Reads the row with a key; `None` where there is none. It is answered by one message to the
    /// shard that owns the partition.
    ///
    /// Errors: `NotFound` when the table was dropped, `Io`, `Corrupt`, `RateLimited`, `Overloaded`,
    /// `Closed`.
    pub fn get(&self, schema: &SchemaRef, key: impl Into<RowKey>) -> Getting {
        self.under(Terms::default()).get(schema, key)
    }

    /// Reads the rows with these keys, with one message a shard; answers in the order of the keys,
    /// `None` for those that are not there.
    ///
    /// Errors: as [`get`](Self::get), the first that occurred.
    pub fn get_many(&self, schema: &SchemaRef, keys: Vec<RowKey>) -> GettingMany {
        self.under(Terms::default()).get_many(schema, keys)
    }

    /// Starts a scan of a partition, of several or of the whole table.
    pub fn scan(&self, scan: Scan) -> BatchStream {
        BatchStream::of_runs(self.clone(), scan)
    }

    /// Applies the writes of a batch. Those of one partition are seen together or not at all;
    /// after an error some may have been applied.
    ///
    /// Errors: as [`apply`](Self::apply).
    pub fn write(&self, batch: WriteBatch) -> Writing {
        self.apply_many(batch.into_mutations())
    }

    /// Applies a write to the partition's shard; done when it is as durable as the options demand.
    ///
    /// Errors: `NotFound` when the table was dropped, `Poisoned`, `Io` (disk full: retry later),
    /// `RateLimited`, `Overloaded`, `Closed`.
    pub fn apply(&self, mutation: Mutation) -> Writing {
        self.under(Terms::default()).apply(mutation)
    }

    /// Applies many writes with one message a shard. They are independent: after an error some may
    /// have been applied.
    ///
    /// Errors: as `apply`, the first that occurred.
    pub fn apply_many(&self, mutations: Vec<Mutation>) -> Writing {
        self.under(Terms::default()).apply_many(mutations)
    }

    /// About how many rows a table has: each counts as often as a memtable or an SSTable has it.
    ///
    /// Errors: `Closed`.
    pub async fn rows_about(&self, table: &SchemaRef) -> Result<u64> {
        let id = table.id;
        let of_shard = move |shard: &Shard| {
            let stats = shard.table(id).ok().map(|table| table.stats());
            stats.map_or(0, |stats| stats.memtable_rows + stats.sstable_rows)
        };
        Ok(self.of_shards("rows", of_shard).await?.into_iter().sum())
    }
}

/// A database, asked on terms; see [`Database::under`].
///
/// Errors of all calls: as those of the database, and `Timeout` behind the deadline. `Overloaded`
/// also for what waited longer than its level lets it, or has too little of its time left.
#[derive(Clone, Copy)]
pub struct Under<'a> {
    pub(in crate::database) database: &'a Database,
    terms: Terms,
}

impl Under<'_> {
    pub(super) fn terms(&self) -> Terms {
        self.terms
    }

    /// A question on these terms.
    pub(in crate::database) fn asked(&self) -> Asked {
        let is_plain = self.terms == Terms::default();
        let clock = self.database.clock();
        let waits = if is_plain { Stopwatch::none() } else { Stopwatch::of(clock) };
        Asked { terms: self.terms, waits, is_counted: false }
    }

    /// As `asked`, for an operation on one partition.
    ///
    /// Errors: `RateLimited` where its shard need not be asked for that.
    fn asked_of(
        &self,
        key: &PartitionKey,
        of_key: impl FnOnce() -> Option<rate::Asked>,
    ) -> Result<(&ShardHandle<Shard>, Asked)> {
        let database = self.database;
        let shard = database.shard_of(key);
        let is_counted = database.fail_fast(shard).check_rate(of_key, &**database.clock())?;
        Ok((database.handle(shard), Asked { is_counted, ..self.asked() }))
    }

    /// As [`Database::get`].
    pub fn get(&self, schema: &SchemaRef, key: impl Into<RowKey>) -> Getting {
        self.start_get(schema.clone(), key.into())
    }

    fn start_get(&self, schema: SchemaRef, key: RowKey) -> Getting {
        if let Err(error) = self.check_here(&key) {
            return Getting(One::Refused(Some(error)));
        }
        let of_key = || read_of(&schema, &key.partition);
        Getting(match self.asked_of(&key.partition, of_key) {
            Ok((shard, asked)) => One::Asking(shard.ask(Get { schema, key, asked })),
            Err(error) => One::Refused(Some(error)),
        })
    }

    /// Errors: `Unavailable` for a row of another node of a cluster.
    fn check_here(&self, key: &RowKey) -> Result<()> {
        match self.database.elsewhere(&key.partition) {
            None => Ok(()),
            Some((ring, node)) => Err(Error::Unavailable(format!(
                "the row is on node '{}': look it up there, or read it with `Database::read`",
                ring.name(node)
            ))),
        }
    }

    /// As [`Database::get_many`].
    pub fn get_many(&self, schema: &SchemaRef, keys: Vec<RowKey>) -> GettingMany {
        let rows = vec![None; keys.len()];
        if let Some(error) = keys.iter().find_map(|key| self.check_here(key).err()) {
            return GettingMany { parts: Vec::new(), rows, refused: Some(error) };
        }
        let mut by_shard = vec![(Vec::new(), Vec::new()); self.database.shard_count() as usize];
        for (place, key) in keys.into_iter().enumerate() {
            let (places, keys) = &mut by_shard[self.database.shard_of(&key.partition) as usize];
            places.push(place);
            keys.push(key);
        }
        let by_shard = (0..).zip(by_shard).filter(|(_, (places, _))| !places.is_empty());
        let parts = by_shard.map(|(shard, (places, keys))| {
            let (schema, asked) = (schema.clone(), self.asked());
            (places, Some(self.database.handle(shard).ask(GetMany { schema, keys, asked })))
        });
        GettingMany { parts: parts.collect(), rows, refused: None }
    }

    /// As [`Database::write`].
    pub fn write(&self, batch: WriteBatch) -> Writing {
        self.apply_many(batch.into_mutations())
    }

    /// As [`Database::apply`]; a write that has begun is not given up.
    pub fn apply(&self, mutation: Mutation) -> Writing {
        match self.database.elsewhere(&mutation.key) {
            Some(_) => self.database.apply_over(vec![mutation], self.terms),
            None => self.apply_one(mutation),
        }
    }

    fn apply_one(&self, mutation: Mutation) -> Writing {
        // A write has no schema with it: where partitions share a limit, their shards count.
        let (table, token) = (mutation.table, mutation.key.token());
        let of_key = || Some(rate::Asked { table, token, operation: Operation::Write });
        Writing(Writes::One(match self.asked_of(&mutation.key, of_key) {
            Ok((shard, asked)) => One::Asking(shard.ask(Apply(mutation, asked))),
            Err(error) => One::Refused(Some(error)),
        }))
    }

    /// As [`Database::apply_many`]; a write that its shard has not begun by the deadline is
    /// refused, and those behind it.
    pub fn apply_many(&self, mutations: Vec<Mutation>) -> Writing {
        match self.database.ring() {
            Some(_) => self.database.apply_over(mutations, self.terms),
            None => self.apply_own(mutations),
        }
    }

    /// Applies writes to partitions of this node.
    pub(in crate::database) fn apply_own(&self, mutations: Vec<Mutation>) -> Writing {
        if mutations.len() == 1 {
            let only = mutations.into_iter().next();
            return self.apply_one(only.expect("there is one"));
        }
        let by_shard = (0..).zip(self.by_shard(mutations)).filter(|(_, writes)| !writes.is_empty());
        let ask = |(shard, writes)| {
            Some(self.database.handle(shard).ask(ApplyMany(writes, self.asked())))
        };
        let parts = by_shard.map(ask);
        Writing(Writes::Many(parts.collect()))
    }

    /// The writes of each shard.
    fn by_shard(&self, mutations: Vec<Mutation>) -> Vec<Vec<Mutation>> {
        let shards = self.database.shard_count() as usize;
        if shards == 1 {
            return vec![mutations];
        }
        let shard_of = |mutation: &Mutation| self.database.shard_of(&mutation.key) as usize;
        let mut counts = vec![0; shards];
        mutations.iter().for_each(|mutation| counts[shard_of(mutation)] += 1);
        let mut by_shard: Vec<_> = counts.into_iter().map(Vec::with_capacity).collect();
        for mutation in mutations {
            by_shard[shard_of(&mutation)].push(mutation);
        }
        by_shard
    }
}

/// A row on its way; see [`Database::get`].
pub struct Getting(One<Get>);

/// A question about one partition.
enum One<Q: Ask<Shard>> {
    Asking(Asking<Shard, Q>),
    /// Its shard need not be asked; taken once.
    Refused(Option<Error>),
}

impl<T: Send + 'static, Q: Ask<Shard, Answer = Result<T>>> One<Q> {
    fn check_may_block(&self) -> Result<()> {
        match self {
            One::Asking(asking) => asking.check_may_block(),
            One::Refused(_) => Ok(()),
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<T>> {
        match self {
            One::Asking(asking) => Pin::new(asking).poll(context).map(Result::flatten),
            One::Refused(error) => Poll::Ready(Err(error.take().expect("an answer is taken once"))),
        }
    }
}

impl Getting {
    /// Blocks the calling thread until the row is there.
    ///
    /// Errors: those of the read; `Invalid` on a thread that shards run on.
    pub fn wait(self) -> Result<Option<RowValues>> {
        self.0.check_may_block()?;
        runtime::wait(self)
    }
}

impl Future for Getting {
    type Output = Result<Option<RowValues>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context)
    }
}

/// What one shard is asked for several rows; `None` once it has answered.
type AskingMany = Option<Asking<Shard, GetMany>>;

/// Rows on their way; see [`Database::get_many`].
pub struct GettingMany {
    /// Of each shard, where its rows go, until they are there.
    parts: Vec<(Vec<usize>, AskingMany)>,
    rows: Vec<Option<RowValues>>,
    /// Why no shard is asked; taken once.
    refused: Option<Error>,
}

impl GettingMany {
    /// Blocks the calling thread until all rows are there.
    ///
    /// Errors: those of the reads; `Invalid` on a thread that shards run on.
    pub fn wait(mut self) -> Result<Vec<Option<RowValues>>> {
        send_all(self.parts.iter_mut().filter_map(|(_, asking)| asking.as_mut()))?;
        runtime::wait(self)
    }
}

impl Future for GettingMany {
    type Output = Result<Vec<Option<RowValues>>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(error) = this.refused.take() {
            return Poll::Ready(Err(error));
        }
        let mut is_done = true;
        for (places, asking) in &mut this.parts {
            match poll_part(asking, context)? {
                Poll::Ready(Some(rows)) => {
                    for (place, row) in places.drain(..).zip(rows) {
                        this.rows[place] = row;
                    }
                }
                Poll::Ready(None) => {}
                Poll::Pending => is_done = false,
            }
        }
        if is_done { Poll::Ready(Ok(std::mem::take(&mut this.rows))) } else { Poll::Pending }
    }
}

/// Writes on their way; see [`Database::apply`]. Nothing is written before it is polled or waited
/// for. Dropping it later may leave writes half-way: what the commitlog took is kept.
pub struct Writing(Writes);

#[expect(clippy::large_enum_variant, reason = "a lone write allocates nothing for its call")]
enum Writes {
    One(One<Apply>),
    /// Of each shard, until its writes are done.
    Many(Vec<Option<Asking<Shard, ApplyMany>>>),
    /// Other nodes have a part in it.
    Far(BoxFuture<'static, Result<()>>),
}

impl Writing {
    /// Writes of several nodes.
    pub(in crate::database) fn far(writing: BoxFuture<'static, Result<()>>) -> Self {
        Writing(Writes::Far(writing))
    }

    /// Blocks the calling thread until the writes are as durable as the options demand.
    ///
    /// Errors: those of the writes; `Invalid` on a thread that shards run on.
    pub fn wait(mut self) -> Result<()> {
        match &mut self.0 {
            Writes::One(one) => one.check_may_block()?,
            Writes::Many(parts) => send_all(parts.iter_mut().flatten())?,
            Writes::Far(_) => {}
        }
        runtime::wait(self)
    }
}

impl Future for Writing {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let parts = match &mut self.0 {
            Writes::One(one) => return one.poll(context),
            Writes::Many(parts) => parts,
            Writes::Far(writing) => return writing.poll_unpin(context),
        };
        let mut is_done = true;
        for asking in parts {
            is_done &= poll_part(asking, context)?.is_ready();
        }
        if is_done { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

/// What one shard answers; `None` where that was given before.
fn poll_part<Q: Ask<Shard, Answer = Result<T>>, T>(
    part: &mut Option<Asking<Shard, Q>>,
    context: &mut Context<'_>,
) -> Result<Poll<Option<T>>> {
    let Some(asking) = part else { return Ok(Poll::Ready(None)) };
    let Poll::Ready(answer) = Pin::new(asking).poll(context) else { return Ok(Poll::Pending) };
    *part = None;
    answer.flatten().map(|answer| Poll::Ready(Some(answer)))
}

/// Sends all questions: their answers are then awaited side by side.
///
/// Errors: `Invalid` on a thread that shards run on.
fn send_all<'a, Q: Ask<Shard>>(
    parts: impl Iterator<Item = &'a mut Asking<Shard, Q>>,
) -> Result<()> {
    for asking in parts {
        asking.check_may_block()?;
        asking.send();
    }
    Ok(())
}
