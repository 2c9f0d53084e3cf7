//! What a shard is asked most: one row, the first rows of a read, a write. Each is answered in the
//! turn of the mailbox where nothing has to be waited for.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures::FutureExt;
use tokio::sync::mpsc;

use super::{ConditionalWrite, Decision, Shard};
use crate::admission::{LevelId, Permit};
use crate::clock::Deadline;
use crate::error::{Error, Result};
use crate::mutation::Mutation;
use crate::policy::admission::ReadClass;
use crate::policy::rate::Operation;
use crate::probe::{Probe, probed};
use crate::reader::{RowKey, RowValues};
use crate::runtime::{self, Answering, Ask};
use crate::schema::table_schema::SchemaRef;
use crate::table::{PointQuery, Progress, ReadCommand, Sent, Table};

/// One row.
pub(in crate::database) struct Get {
    pub(in crate::database) schema: SchemaRef,
    pub(in crate::database) key: RowKey,
}

/// Rows of one shard, answered in the order of their keys.
pub(in crate::database) struct GetMany {
    pub(in crate::database) schema: SchemaRef,
    pub(in crate::database) keys: Vec<RowKey>,
}

/// The batches of a read. The answer comes when the first is there, or the end.
pub(in crate::database) struct Stream {
    pub(in crate::database) command: ReadCommand,
    /// Is told what the read does.
    pub(in crate::database) probe: Option<Arc<Probe>>,
    pub(in crate::database) batches: mpsc::Sender<Result<Sent>>,
    pub(in crate::database) is_complete: Arc<AtomicBool>,
}

/// One write.
pub(in crate::database) struct Apply(pub(in crate::database) Mutation);

/// Writes that share their syncs; those that the shard comes to behind the deadline are refused.
pub(in crate::database) struct ApplyMany(
    pub(in crate::database) Vec<Mutation>,
    pub(in crate::database) Option<Deadline>,
);

/// The parts of a logged batch that belong to one shard.
pub(in crate::database) struct ApplyLogged(pub(in crate::database) Vec<Mutation>);

/// A write that is done if its conditions hold.
pub(in crate::database) struct WriteIf(pub(in crate::database) ConditionalWrite);

impl Ask<Shard> for Get {
    type Answer = Result<Option<RowValues>>;
    const NAME: &'static str = "get";
    const IS_SHORT: bool = true;

    fn ask(self, shard: &Rc<Shard>) -> Answering<Self::Answer> {
        shard.get(self.schema, self.key)
    }
}

impl Ask<Shard> for GetMany {
    type Answer = Result<Vec<Option<RowValues>>>;
    const NAME: &'static str = "get many";
    const IS_SHORT: bool = true;

    fn ask(self, shard: &Rc<Shard>) -> Answering<Self::Answer> {
        let GetMany { schema, keys } = self;
        let mut rows = Vec::with_capacity(keys.len());
        let mut keys = keys.into_iter();
        let next = loop {
            if runtime::need_preempt() {
                break None;
            }
            let Some(key) = keys.next() else { return Answering::Now(Ok(rows)) };
            match shard.get(schema.clone(), key) {
                Answering::Now(Ok(row)) => rows.push(row),
                Answering::Now(Err(error)) => return Answering::Now(Err(error)),
                waits => break Some(waits),
            }
        };
        Answering::Later(shard.clone().get_rest(schema, rows, next, keys).boxed_local())
    }
}

impl Ask<Shard> for Stream {
    type Answer = ();
    const NAME: &'static str = "read";
    const IS_SHORT: bool = true;

    fn ask(self, shard: &Rc<Shard>) -> Answering<()> {
        let stream = shard.clone().stream(self.command, self.batches, self.is_complete);
        Answering::GoesOn(
            (),
            match self.probe {
                None => stream,
                Some(probe) => probed(probe.on(shard.context.shard), stream).boxed_local(),
            },
        )
    }
}

impl Ask<Shard> for Apply {
    type Answer = Result<()>;
    const NAME: &'static str = "apply";
    const IS_SHORT: bool = true;

    fn ask(self, shard: &Rc<Shard>) -> Answering<Result<()>> {
        shard.apply_now(self.0)
    }
}

impl Ask<Shard> for ApplyMany {
    type Answer = Result<()>;
    const NAME: &'static str = "apply many";

    fn ask(self, shard: &Rc<Shard>) -> Answering<Result<()>> {
        Answering::Later(shard.apply_many_within(self.0, self.1))
    }
}

impl Ask<Shard> for ApplyLogged {
    type Answer = Result<()>;
    const NAME: &'static str = "apply logged";

    fn ask(self, shard: &Rc<Shard>) -> Answering<Result<()>> {
        Answering::Later(shard.apply_logged(self.0))
    }
}

impl Ask<Shard> for WriteIf {
    type Answer = Result<Decision>;
    const NAME: &'static str = "write if";
    const IS_SHORT: bool = true;

    fn ask(self, shard: &Rc<Shard>) -> Answering<Self::Answer> {
        Answering::Later(shard.clone().write_if(self.0).boxed_local())
    }
}

impl Shard {
    /// Reads one row: in the order in which reads enter (`read.rs`).
    fn get(
        self: &Rc<Self>,
        schema: SchemaRef,
        key: RowKey,
    ) -> Answering<Result<Option<RowValues>>> {
        let table = match self.enter_get(&schema, &key) {
            Ok(table) => table,
            Err(error) => return Answering::Now(Err(error)),
        };
        let Some(permit) = self.admission.turn_now(ReadClass::Keys, LevelId::DEFAULT) else {
            drop(table);
            return self.until_closed(self.clone().get_in_turn(schema, key));
        };
        match table.point(schema, key, self.now_seconds()) {
            Ok(Progress::Done(row)) => {
                permit.answer_at_once();
                Answering::Now(Ok(row))
            }
            Ok(Progress::Waits(query)) => {
                self.until_closed(self.clone().finish_get(table, query, permit))
            }
            Err(error) => Answering::Now(Err(error)),
        }
    }

    /// Goes on with `next`, which has begun, and `keys` where `rows` ends.
    async fn get_rest(
        self: Rc<Self>,
        schema: SchemaRef,
        mut rows: Vec<Option<RowValues>>,
        next: Option<Answering<Result<Option<RowValues>>>>,
        keys: impl Iterator<Item = RowKey>,
    ) -> Result<Vec<Option<RowValues>>> {
        if let Some(next) = next {
            rows.push(next.finished().await?);
        }
        for key in keys {
            runtime::maybe_yield().await;
            rows.push(self.get(schema.clone(), key).finished().await?);
        }
        Ok(rows)
    }

    fn enter_get(&self, schema: &SchemaRef, key: &RowKey) -> Result<Rc<Table>> {
        self.check_open()?;
        let table = self.table(schema.id)?;
        self.admission.admit_read(ReadClass::Keys)?;
        self.check_owned(&key.partition)?;
        self.admit(&table, &key.partition, Operation::Read)?;
        Ok(table)
    }

    async fn get_in_turn(
        self: Rc<Self>,
        schema: SchemaRef,
        key: RowKey,
    ) -> Result<Option<RowValues>> {
        let terms = (LevelId::DEFAULT, None);
        let permit = self.admission.turn_of(ReadClass::Keys, terms, || schema.full_name()).await?;
        // Meanwhile it may have been dropped.
        let table = self.table(schema.id)?;
        match table.point(schema, key, self.now_seconds())? {
            Progress::Done(row) => {
                permit.answer_at_once();
                Ok(row)
            }
            Progress::Waits(query) => self.finish_get(table, query, permit).await,
        }
    }

    async fn finish_get(
        self: Rc<Self>,
        table: Rc<Table>,
        query: PointQuery,
        mut permit: Permit,
    ) -> Result<Option<RowValues>> {
        let (account, finish) = (permit.account(), table.finish_point(query));
        let found = self.admission.measured(ReadClass::Keys, account, finish).await;
        permit.answer(0);
        found
    }

    /// What waits must not keep the shard from closing.
    fn until_closed<T: 'static>(
        self: &Rc<Self>,
        work: impl Future<Output = Result<T>> + 'static,
    ) -> Answering<Result<T>> {
        let shard = self.clone();
        let ended = async move {
            tokio::select! {
                biased;
                () = shard.closed.notified() => Err(Error::Closed),
                ended = work => ended,
            }
        };
        Answering::Later(ended.boxed_local())
    }

    pub(super) fn now_seconds(&self) -> i32 {
        i32::try_from(self.context.clock.wall_seconds()).unwrap_or(i32::MAX)
    }
}
