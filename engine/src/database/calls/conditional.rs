//! Writes that depend on what is there, as programs ask for them.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;

use super::{Under, WriteBatch};
use crate::admission::Terms;
use crate::database::database::Database;
use crate::database::shard::call::WriteIf;
use crate::database::shard::conditional::{rows_of, steps};
use crate::database::shard::{ConditionalWrite, Decision, Shard};
use crate::error::{Error, Result};
use crate::mutation::{Mutation, Row};
use crate::reader::{Condition, RowCondition};
use crate::runtime::{self, Asking};
use crate::schema::ClusteringKey;

impl Database {
    /// Writes to one partition if all conditions hold of rows of that partition. Reading, judging
    /// and writing are one step there: nobody else writes to the partition meanwhile. A write that
    /// is done is newer than all that its conditions have read, and as durable as any other.
    ///
    /// Errors: `Invalid` for conditions that the table cannot judge, above all those on
    /// collections; else as [`apply`](Self::apply) and [`get`](Self::get). After an error of the
    /// disk nobody knows whether the write was done: read the row, or write again.
    pub fn write_if(&self, write: ConditionalWrite) -> Deciding {
        self.under(Terms::default()).write_if(write)
    }
}

impl Database {
    /// Takes the steps of counters of one partition. Reading, adding and writing are one step
    /// there: no step of another caller is lost. Steps of several counters of the partition are
    /// taken together or not at all.
    ///
    /// Errors: `Invalid` for a write that has no step, or something else than steps; else as
    /// [`write_if`](Self::write_if). After an error of the disk nobody knows whether the steps were
    /// taken: another try may count twice.
    pub fn count(&self, steps: Mutation) -> Result<Deciding> {
        self.under(Terms::default()).count(steps)
    }
}

impl Under<'_> {
    /// As [`Database::count`].
    pub fn count(&self, mut write: Mutation) -> Result<Deciding> {
        // Steps of one row are one row.
        let mut rows: BTreeMap<ClusteringKey, Row> = BTreeMap::new();
        for (key, row) in std::mem::take(&mut write.rows) {
            rows.entry(key).or_default().merge(&row);
        }
        write.rows = rows.into_iter().collect();
        let is_other = write.deletion.is_some() || !write.range_tombstones.is_empty();
        let counts = |row: &Row| {
            let only = Row { cells: row.cells.clone(), ..Row::default() };
            only == *row && steps(row).count() == row.cells.len() && !row.cells.is_empty()
        };
        let is_empty = rows_of(&write).next().is_none();
        if is_other || is_empty || !rows_of(&write).all(|(_, row)| counts(row)) {
            return Err(Error::invalid(
                "a write that counts has steps of counters, and nothing else",
            ));
        }
        let always = || Condition::All(Vec::new());
        let condition =
            |row: Option<&ClusteringKey>| RowCondition { row: row.cloned(), condition: always() };
        let conditions = rows_of(&write).map(|(row, _)| condition(row)).collect();
        Ok(self.write_if(ConditionalWrite { mutation: write, conditions }))
    }

    /// As [`Database::write_if`].
    pub fn write_if(&self, write: ConditionalWrite) -> Deciding {
        if let Some((ring, node)) = self.database.elsewhere(&write.mutation.key) {
            let catalog = self.database.catalog();
            let deciding = ring.peers().write_if(node, write, self.terms(), &catalog);
            return Deciding(Decides::Far(deciding));
        }
        let shard = self.database.shard_of(&write.mutation.key);
        Deciding(Decides::Here(self.database.handle(shard).ask(WriteIf(write, self.asked()))))
    }
}

impl ConditionalWrite {
    /// The writes of a batch, which go to one partition, under conditions on rows of it.
    ///
    /// Errors: `Invalid` for a batch that is empty or writes to several partitions.
    pub fn new(batch: WriteBatch, conditions: Vec<RowCondition>) -> Result<Self> {
        let mut mutations = batch.into_mutations();
        let count = mutations.len();
        match mutations.pop() {
            Some(mutation) if count == 1 => Ok(ConditionalWrite { mutation, conditions }),
            _ => Err(Error::invalid(format!(
                "a conditional write goes to one partition, {count} were given: conditions are \
                 judged where the partition is"
            ))),
        }
    }
}

/// A conditional write on its way; see [`Database::write_if`]. Nothing is done before it is polled
/// or waited for. Dropping it later may leave the write done or not.
pub struct Deciding(Decides);

#[expect(clippy::large_enum_variant, reason = "most are decided here, and then nothing is boxed")]
enum Decides {
    Here(Asking<Shard, WriteIf>),
    /// Another node decides it.
    Far(BoxFuture<'static, Result<Decision>>),
}

impl Deciding {
    /// Blocks the calling thread until it is decided, and the write as durable as the options
    /// demand.
    ///
    /// Errors: those of the write; `Invalid` on a thread that shards run on.
    pub fn wait(self) -> Result<Decision> {
        match self.0 {
            Decides::Here(asking) => asking.wait().flatten(),
            Decides::Far(deciding) => runtime::wait(deciding),
        }
    }
}

impl Future for Deciding {
    type Output = Result<Decision>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Decides::Here(asking) => Pin::new(asking).poll(context).map(Result::flatten),
            Decides::Far(deciding) => deciding.poll_unpin(context),
        }
    }
}
