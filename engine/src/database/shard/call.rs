//! What a shard is asked most: one row, the first rows of a read, a write. Each is answered in the
//! turn of the mailbox where nothing has to be waited for.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use futures::{FutureExt, StreamExt, stream};
use tokio::sync::mpsc;

use super::read::{Arrival, Begun, QUEUED};
use super::{ConditionalWrite, Decision, Shard};
use crate::admission::{LevelId, Permit, QueuePlace, Terms};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::mutation::Mutation;
use crate::policy::admission::{ReadClass, WorkClass};
use crate::policy::rate::Operation;
use crate::probe::{Probe, Probed};
use crate::reader::{RowKey, RowValues};
use crate::runtime::{self, Answering, Ask};
use crate::schema::table_schema::SchemaRef;
use crate::table::{PointQuery, Progress, ReadCommand, Sent, Table, Told, Whole};

/// Batches of a read that wait for its receiver.
const BATCHES_AHEAD: usize = 2;
/// Rows of one question that are read at once where they are on the disk.
const GETS_AT_ONCE: usize = 16;
/// How far the read of a row came that is not done.
const GETTING: &str = "a row was still to be read";

/// One row.
pub(in crate::database) struct Get {
    pub(in crate::database) schema: SchemaRef,
    pub(in crate::database) key: RowKey,
    pub(in crate::database) asked: Asked,
}

/// Rows of one shard, answered in the order of their keys.
pub(in crate::database) struct GetMany {
    pub(in crate::database) schema: SchemaRef,
    pub(in crate::database) keys: Vec<RowKey>,
    pub(in crate::database) asked: Asked,
}

/// The batches of a read.
pub(in crate::database) struct Stream {
    pub(in crate::database) command: ReadCommand,
    /// Is told what the read does.
    pub(in crate::database) probe: Option<Probe>,
    pub(in crate::database) waits: Stopwatch,
    /// See [`Asked`].
    pub(in crate::database) is_counted: bool,
    /// Where its caller counts it among those that wait.
    pub(in crate::database) place: Option<QueuePlace>,
}

/// The answer to a read.
pub(in crate::database) enum Streamed {
    /// All that it gives.
    Whole(Whole),
    /// The answer comes when the first batch is there, or the end. `Told` says when the shard has
    /// sent everything.
    Batches(mpsc::Receiver<Result<Sent>>, Arc<Told>),
}

/// On what terms something is asked, and since when.
pub(in crate::database) struct Asked {
    pub(in crate::database) terms: Terms,
    pub(in crate::database) waits: Stopwatch,
    /// The caller has counted it against the limit of its partition.
    pub(in crate::database) is_counted: bool,
}

/// For how long a question has waited for its shard, where somebody wants to know.
pub(in crate::database) struct Stopwatch {
    clock: Option<Arc<dyn Clock>>,
    since_ns: Option<u64>,
}

impl Stopwatch {
    /// One that is to be looked at.
    pub(in crate::database) fn of(clock: &Arc<dyn Clock>) -> Self {
        Stopwatch { clock: Some(clock.clone()), since_ns: None }
    }

    /// One that tells nothing, and asks no clock.
    pub(in crate::database) fn none() -> Self {
        Stopwatch { clock: None, since_ns: None }
    }

    pub(in crate::database) fn start(&mut self) {
        self.since_ns = self.clock.as_ref().map(|clock| clock.monotonic_ns());
    }

    /// Since it was started; 0 where it was not.
    pub(in crate::database) fn passed_ns(&self) -> u64 {
        let passed = self.clock.as_ref().zip(self.since_ns);
        passed.map_or(0, |(clock, since_ns)| clock.monotonic_ns().saturating_sub(since_ns))
    }
}

/// One write.
pub(in crate::database) struct Apply(
    pub(in crate::database) Mutation,
    pub(in crate::database) Asked,
);

/// Writes that share their syncs; those that the shard comes to behind the deadline are refused.
pub(in crate::database) struct ApplyMany(
    pub(in crate::database) Vec<Mutation>,
    pub(in crate::database) Asked,
);

/// The parts of a logged batch that belong to one shard, and its service level.
pub(in crate::database) struct ApplyLogged(
    pub(in crate::database) Vec<Mutation>,
    pub(in crate::database) LevelId,
);

/// A write that is done if its conditions hold.
pub(in crate::database) struct WriteIf(
    pub(in crate::database) ConditionalWrite,
    pub(in crate::database) Asked,
);

impl Ask<Shard> for Get {
    type Answer = Result<Option<RowValues>>;
    const NAME: &'static str = "get";
    const IS_SHORT: bool = true;

    fn sets_out(&mut self) {
        self.asked.waits.start();
    }

    fn ask(self, shard: &Rc<Shard>) -> Answering<Self::Answer> {
        let Asked { terms, waits, is_counted } = self.asked;
        let arrival = Arrival { waited_ns: waits.passed_ns(), is_counted };
        shard.get(self.schema, self.key, (terms, arrival))
    }
}

impl Ask<Shard> for GetMany {
    type Answer = Result<Vec<Option<RowValues>>>;
    const NAME: &'static str = "get many";
    const IS_SHORT: bool = true;

    fn sets_out(&mut self) {
        self.asked.waits.start();
    }

    fn ask(self, shard: &Rc<Shard>) -> Answering<Self::Answer> {
        let GetMany { schema, keys, asked: Asked { terms, waits, .. } } = self;
        let arrival = Arrival { waited_ns: waits.passed_ns(), is_counted: false };
        let mut rows = Vec::with_capacity(keys.len());
        let mut keys = keys.into_iter();
        let next = loop {
            if runtime::need_preempt() {
                break None;
            }
            let Some(key) = keys.next() else { return Answering::Now(Ok(rows)) };
            match shard.get(schema.clone(), key, (terms, arrival)) {
                Answering::Now(Ok(row)) => rows.push(row),
                Answering::Now(Err(error)) => return Answering::Now(Err(error)),
                waits => break Some(waits),
            }
        };
        let rest = shard.clone().get_rest((schema, terms), rows, next, keys);
        Answering::Later(rest.boxed_local())
    }
}

impl Ask<Shard> for Stream {
    type Answer = Result<Streamed>;
    const NAME: &'static str = "read";
    const IS_SHORT: bool = true;

    fn sets_out(&mut self) {
        self.waits.start();
    }

    fn ask(self, shard: &Rc<Shard>) -> Answering<Self::Answer> {
        let Stream { command, probe, waits, is_counted, place } = self;
        let arrival = Arrival { waited_ns: waits.passed_ns(), is_counted };
        let mut probed = Probed::new(probe.map(|probe| probe.on(shard.context.shard)));
        let (terms, stage) = match probed.within(|| shard.begin_read(command, arrival, place)) {
            Ok(Begun::GoesOn(terms, stage)) => (terms, stage),
            Ok(Begun::Whole(whole)) => return Answering::Now(Ok(Streamed::Whole(whole))),
            Err(error) => return Answering::Now(Err(error)),
        };
        let (batches, receiver) = mpsc::channel(BATCHES_AHEAD);
        let told = Arc::<Told>::default();
        let work = shard.clone().stream((terms, stage), (batches, Arc::clone(&told)));
        Answering::GoesOn(Ok(Streamed::Batches(receiver, told)), probed.run(work).boxed_local())
    }
}

impl Ask<Shard> for Apply {
    type Answer = Result<()>;
    const NAME: &'static str = "apply";
    const IS_SHORT: bool = true;

    fn sets_out(&mut self) {
        self.1.waits.start();
    }

    fn ask(self, shard: &Rc<Shard>) -> Answering<Result<()>> {
        let Asked { terms, waits, is_counted } = self.1;
        match shard.check_write_wait(&terms, waits.passed_ns()) {
            Ok(()) => shard.apply_now(self.0, (terms, is_counted)),
            Err(error) => Answering::Now(Err(error)),
        }
    }
}

impl Ask<Shard> for ApplyMany {
    type Answer = Result<()>;
    const NAME: &'static str = "apply many";

    fn sets_out(&mut self) {
        self.1.waits.start();
    }

    fn ask(self, shard: &Rc<Shard>) -> Answering<Result<()>> {
        let Asked { terms, waits, .. } = self.1;
        match shard.check_write_wait(&terms, waits.passed_ns()) {
            Ok(()) => Answering::Later(shard.apply_many_under(self.0, terms)),
            Err(error) => Answering::Now(Err(error)),
        }
    }
}

impl Ask<Shard> for ApplyLogged {
    type Answer = Result<()>;
    const NAME: &'static str = "apply logged";

    fn ask(self, shard: &Rc<Shard>) -> Answering<Result<()>> {
        Answering::Later(shard.apply_logged(self.0, self.1))
    }
}

impl Ask<Shard> for WriteIf {
    type Answer = Result<Decision>;
    const NAME: &'static str = "write if";
    const IS_SHORT: bool = true;

    fn sets_out(&mut self) {
        self.1.waits.start();
    }

    fn ask(self, shard: &Rc<Shard>) -> Answering<Self::Answer> {
        let Asked { terms, waits, .. } = self.1;
        match shard.check_write_wait(&terms, waits.passed_ns()) {
            Ok(()) => Answering::Later(shard.clone().write_if(self.0, terms).boxed_local()),
            Err(error) => Answering::Now(Err(error)),
        }
    }
}

impl Shard {
    /// Reads one row: in the order in which reads enter (`read.rs`).
    fn get(
        self: &Rc<Self>,
        schema: SchemaRef,
        key: RowKey,
        (terms, arrival): (Terms, Arrival),
    ) -> Answering<Result<Option<RowValues>>> {
        let table = match self.enter_get(&schema, &key, (&terms, arrival)) {
            Ok(table) => table,
            Err(error) => return Answering::Now(Err(error)),
        };
        let Some(permit) = self.admission.brief_turn_now(ReadClass::Keys, terms.level) else {
            drop(table);
            return self.until_over(terms, self.clone().get_in_turn(schema, key, terms));
        };
        match table.point(schema, key, self.now_seconds()) {
            Ok(Progress::Done(row)) => {
                runtime::charge_group(terms.level.0, permit.answer_at_once());
                Answering::Now(Ok(row))
            }
            Ok(Progress::Waits(query)) => {
                let finish = self.clone().finish_get(table, query, (permit, terms.level));
                self.until_over(terms, finish)
            }
            Err(error) => Answering::Now(Err(error)),
        }
    }

    /// Goes on with `next`, which has begun, and `keys` where `rows` ends. Several wait for the
    /// disk at once.
    async fn get_rest(
        self: Rc<Self>,
        (schema, terms): (SchemaRef, Terms),
        mut rows: Vec<Option<RowValues>>,
        next: Option<Answering<Result<Option<RowValues>>>>,
        keys: impl Iterator<Item = RowKey>,
    ) -> Result<Vec<Option<RowValues>>> {
        let get = |key| self.get(schema.clone(), key, (terms, Arrival::default()));
        let begun = stream::iter(next.into_iter().chain(keys.map(get)));
        let mut rest = pin!(begun.map(Answering::finished).buffered(GETS_AT_ONCE));
        while let Some(row) = rest.next().await {
            rows.push(row?);
            runtime::maybe_yield().await;
        }
        Ok(rows)
    }

    fn enter_get(
        &self,
        schema: &SchemaRef,
        key: &RowKey,
        (terms, arrival): (&Terms, Arrival),
    ) -> Result<Rc<Table>> {
        self.check_open()?;
        self.check_time(terms.deadline, QUEUED)?;
        let table = self.table(schema.id)?;
        self.admission.admit_read(ReadClass::Keys)?;
        self.admission.check_wait(WorkClass::Keys, terms, arrival.waited_ns)?;
        self.check_owned(&key.partition)?;
        self.admit_unless(arrival.is_counted, &table, (&key.partition, Operation::Read))?;
        Ok(table)
    }

    async fn get_in_turn(
        self: Rc<Self>,
        schema: SchemaRef,
        key: RowKey,
        Terms { level, deadline }: Terms,
    ) -> Result<Option<RowValues>> {
        let permit = self.wait_turn(ReadClass::Keys, level, (deadline, &schema)).await?;
        // Meanwhile it may have been dropped.
        let table = self.table(schema.id)?;
        match table.point(schema, key, self.now_seconds())? {
            Progress::Done(row) => {
                runtime::charge_group(level.0, permit.answer_at_once());
                Ok(row)
            }
            Progress::Waits(query) => self.finish_get(table, query, (permit, level)).await,
        }
    }

    async fn finish_get(
        self: Rc<Self>,
        table: Rc<Table>,
        query: PointQuery,
        (mut permit, level): (Permit, LevelId),
    ) -> Result<Option<RowValues>> {
        let terms = (ReadClass::Keys, level, permit.account());
        let found = self.working(terms, table.finish_point(query)).await;
        permit.answer(0);
        found
    }

    /// What waits must not keep the shard from closing, and ends with its time.
    fn until_over<T: 'static>(
        self: &Rc<Self>,
        terms: Terms,
        work: impl Future<Output = Result<T>> + 'static,
    ) -> Answering<Result<T>> {
        let shard = self.clone();
        let ended = async move {
            tokio::select! {
                biased;
                () = shard.closed.notified() => Err(Error::Closed),
                ended = work => ended,
                () = shard.sleep_until(terms.deadline) => {
                    Err(terms.deadline.map_or(Error::Closed, |deadline| deadline.passed(GETTING)))
                }
            }
        };
        Answering::Later(ended.boxed_local())
    }

    pub(super) fn now_seconds(&self) -> i32 {
        i32::try_from(self.context.clock.wall_seconds()).unwrap_or(i32::MAX)
    }
}
