//! Writes enter a shard here: admission, room, the commitlog, then the memtable.

use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::Shard;
use super::conditional::{Hold, Kind, Place};
use super::read::A_MOMENT;
use crate::admission::{LevelId, Terms};
use crate::clock::Deadline;
use crate::commitlog::Durable;
use crate::error::{Error, Result};
use crate::memtable::PendingWrite;
use crate::mutation::Mutation;
use crate::policy::admission::{ReadClass, WorkClass};
use crate::policy::rate::Operation;
use crate::runtime::{self, Answering};
use crate::table::Table;

/// How far a write came that has not begun.
const WRITE_QUEUED: &str = "a write waited for its turn";

/// A write that the commitlog has and that nobody sees yet.
struct Begun {
    // In this order: its partition is given back when the write can be seen.
    write: PendingWrite,
    durable: Durable,
    hold: Hold,
}

/// Whether the limits of partitions count a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limits {
    Count,
    Pass,
}

impl Shard {
    /// Errors: `Timeout` and `Overloaded` for a write that waited for its shard for too long.
    pub(in crate::database) fn check_write_wait(
        &self,
        terms: &Terms,
        waited_ns: u64,
    ) -> Result<()> {
        self.check_time(terms.deadline, WRITE_QUEUED)?;
        self.admission.check_wait(WorkClass::Write, terms, waited_ns)
    }

    /// Applies a write, in this turn where it has to wait for nothing.
    pub(super) fn apply_now(
        self: &Rc<Self>,
        mut mutation: Mutation,
        (terms, is_counted): (Terms, bool),
    ) -> Answering<Result<()>> {
        if self.has_to_wait(&mutation) {
            return Answering::Later(self.apply_under(mutation, (terms, is_counted)));
        }
        let entered = self.enter_write(&mutation, is_counted);
        let begun = entered.and_then(|table| self.begin(&table, &mut mutation, None));
        match begun {
            Ok(None) => Answering::Now(Ok(())),
            Ok(Some(begun)) => {
                let shard = self.clone();
                Answering::Later(async move { shard.finish(begun).await }.boxed_local())
            }
            Err(error) => Answering::Now(Err(error)),
        }
    }

    /// Whether a write waits before it begins: for memory, for the log, for its partition.
    fn has_to_wait(&self, mutation: &Mutation) -> bool {
        self.is_over_memory() || self.is_log_long() || !self.admits_write(mutation)
    }

    /// Whether nobody has the partition of a write for himself, or waits for that.
    fn admits_write(&self, mutation: &Mutation) -> bool {
        self.locks.admits_write(|| Place::of(mutation))
    }

    /// First of all: what is refused must cost next to nothing.
    pub(super) fn enter_write(&self, mutation: &Mutation, is_counted: bool) -> Result<Rc<Table>> {
        let table = self.table(mutation.table)?;
        self.admission.admit_write()?;
        self.admit_unless(is_counted, &table, (&mutation.key, Operation::Write))?;
        Ok(table)
    }

    /// Applies a write; done when it is as durable as the options demand.
    ///
    /// Errors: `NotFound`, `Poisoned`, `Io` (disk full: retry later), `RateLimited`, `Overloaded`.
    pub fn apply(self: &Rc<Self>, mutation: Mutation) -> LocalBoxFuture<'static, Result<()>> {
        let shard = self.clone();
        async move { shard.apply_now(mutation, (Terms::default(), false)).finished().await }
            .boxed_local()
    }

    /// The same on these terms; it is not given up once it has begun.
    ///
    /// Errors: as `apply`, and `Timeout`.
    fn apply_under(
        self: &Rc<Self>,
        mutation: Mutation,
        (terms, is_counted): (Terms, bool),
    ) -> LocalBoxFuture<'static, Result<()>> {
        let shard = self.clone();
        async move {
            shard.enter_write(&mutation, is_counted)?;
            shard.waiting(&terms, shard.wait_for_room()).await??;
            let hold = shard.locks.hold(Place::of(&mutation), Kind::Write);
            let hold = shard.waiting(&terms, hold).await?;
            // Meanwhile it may have been dropped.
            let table = shard.table(mutation.table)?;
            shard.write_held(&table, mutation, hold).await
        }
        .boxed_local()
    }

    /// Waits for something that a write needs before it begins, for as long as its terms let it.
    ///
    /// Errors: `Timeout`; `Overloaded` for one of an interactive level.
    pub(super) async fn waiting<T>(
        &self,
        terms: &Terms,
        something: impl Future<Output = T>,
    ) -> Result<T> {
        let patience = self.admission.wait_max(ReadClass::Keys, terms.level);
        let patience = patience.map(|most| Deadline::after(most + A_MOMENT, &*self.context.clock));
        let since_ns = self.context.clock.monotonic_ns();
        tokio::select! {
            biased;
            there = something => return Ok(there),
            () = self.sleep_until(terms.deadline) => {}
            () = self.sleep_until(patience) => {}
        }
        let waited_ns = self.context.clock.monotonic_ns().saturating_sub(since_ns);
        self.check_write_wait(terms, waited_ns)?;
        // Its level is another one meanwhile.
        Err(Error::short("a write waited for too long: try again later"))
    }

    /// Waits until memory and the log have room for a write.
    pub(super) async fn wait_for_room(self: &Rc<Self>) -> Result<()> {
        if self.is_over_memory() {
            self.wait_for_memory().await?;
        }
        if self.is_log_long() {
            self.wait_for_log(&mut false).await?;
        }
        Ok(())
    }

    /// Writes to a partition that is held; done when the write is durable and can be seen.
    pub(super) async fn write_held(
        self: &Rc<Self>,
        table: &Table,
        mut mutation: Mutation,
        hold: Hold,
    ) -> Result<()> {
        match self.begin(table, &mut mutation, Some(hold))? {
            Some(begun) => self.finish(begun).await,
            None => Ok(()),
        }
    }

    /// Applies many writes that share their syncs.
    ///
    /// Errors: as `apply`; writes before the one that failed were applied, later ones may be.
    pub fn apply_many(
        self: &Rc<Self>,
        mutations: Vec<Mutation>,
    ) -> LocalBoxFuture<'static, Result<()>> {
        self.apply_many_under(mutations, Terms::default())
    }

    /// The same on these terms, as far as they have begun by the deadline.
    ///
    /// Errors: as `apply_many`, and `Timeout`.
    pub(super) fn apply_many_under(
        self: &Rc<Self>,
        mutations: Vec<Mutation>,
        terms: Terms,
    ) -> LocalBoxFuture<'static, Result<()>> {
        let shard = self.clone();
        async move {
            shard.admission.admit_write()?;
            let all = shard.apply_all(mutations, Limits::Count, &terms);
            runtime::in_group(terms.level.0, all).await
        }
        .boxed_local()
    }

    /// Applies parts of a batch that was let in as a whole, as work of a service level. They wait
    /// for as long as it takes: others of the batch are there already.
    ///
    /// Errors: as `apply_many`, without those of limits.
    pub(super) fn apply_logged(
        self: &Rc<Self>,
        mutations: Vec<Mutation>,
        level: LevelId,
    ) -> LocalBoxFuture<'static, Result<()>> {
        let shard = self.clone();
        async move {
            let patient = Terms::default();
            let all = shard.apply_all(mutations, Limits::Pass, &patient);
            runtime::in_group(level.0, all).await
        }
        .boxed_local()
    }

    async fn apply_all(
        self: &Rc<Self>,
        mut mutations: Vec<Mutation>,
        limits: Limits,
        terms: &Terms,
    ) -> Result<()> {
        let mut pending = Vec::new();
        let mut was_slowed = false;
        for mutation in &mut mutations {
            let begun = match self.has_to_wait(mutation) {
                false => self.begin_one_now(mutation, limits, terms),
                true => {
                    let progress = (&mut pending, &mut was_slowed);
                    self.begin_one((mutation, limits), progress, terms).await
                }
            };
            match begun {
                // Most writes of a load are done: nothing of them is moved.
                Ok(None) => {}
                Ok(Some(begun)) => pending.push(begun),
                Err(error) => {
                    self.finish_all(pending).await?;
                    return Err(error);
                }
            }
            runtime::maybe_yield().await;
        }
        self.finish_all(pending).await
    }

    /// Begins one of many writes that waits for nothing. The future of [`Self::begin_one`] has some
    /// KiB, which would be copied for each row of a load.
    fn begin_one_now(
        self: &Rc<Self>,
        mutation: &mut Mutation,
        limits: Limits,
        terms: &Terms,
    ) -> Result<Option<Begun>> {
        let table = self.admit_one(mutation, limits)?;
        self.check_time(terms.deadline, WRITE_QUEUED)?;
        self.begin(&table, mutation, None)
    }

    /// The table of one of many writes, which the limits of partitions let in.
    fn admit_one(&self, mutation: &Mutation, limits: Limits) -> Result<Rc<Table>> {
        let table = self.table(mutation.table)?;
        if limits == Limits::Count {
            self.admit(&table, &mutation.key, Operation::Write)?;
        }
        Ok(table)
    }

    /// Begins one of many writes, whose parts leave `mutation`; `pending` are those before it that
    /// nobody sees yet.
    async fn begin_one(
        self: &Rc<Self>,
        (mutation, limits): (&mut Mutation, Limits),
        (pending, was_slowed): (&mut Vec<Begun>, &mut bool),
        terms: &Terms,
    ) -> Result<Option<Begun>> {
        let mut table = self.admit_one(mutation, limits)?;
        let (mut hold, mut has_waited) = (None, false);
        if self.is_over_memory() {
            self.finish_all(std::mem::take(pending)).await?;
            self.waiting(terms, self.wait_for_memory()).await??;
            has_waited = true;
        }
        if self.is_log_long() {
            // A flush waits for those that are announced: none may be while this one waits.
            if self.is_log_near_limit() {
                self.finish_all(std::mem::take(pending)).await?;
            }
            self.waiting(terms, self.wait_for_log(was_slowed)).await??;
            has_waited = true;
        }
        if !self.admits_write(mutation) {
            // Who waits for a partition holds none: two that wait could wait for each other.
            self.finish_all(std::mem::take(pending)).await?;
            let held = self.locks.hold(Place::of(mutation), Kind::Write);
            hold = Some(self.waiting(terms, held).await?);
            has_waited = true;
        }
        self.check_time(terms.deadline, WRITE_QUEUED)?;
        if has_waited {
            // Meanwhile it may have been dropped.
            table = self.table(mutation.table)?;
        }
        self.begin(&table, mutation, hold)
    }

    /// Waits for each write, also after a failed one; returns the first error.
    async fn finish_all(self: &Rc<Self>, writes: Vec<Begun>) -> Result<()> {
        let mut result = Ok(());
        for write in writes {
            let finished = self.finish(write).await;
            result = result.and(finished);
            runtime::maybe_yield().await;
        }
        result
    }

    /// Commitlog first, in one step with the announcement: positions rise in the order in which
    /// memtables are sealed. `None` where the write is durable enough from the start, and done.
    /// Without a hold nobody may have the partition for himself. The parts of the write leave
    /// `mutation`: it has 200 bytes itself, which are not moved from hand to hand.
    fn begin(
        self: &Rc<Self>,
        table: &Table,
        mutation: &mut Mutation,
        hold: Option<Hold>,
    ) -> Result<Option<Begun>> {
        table.check_writable()?;
        self.check_owned(&mutation.key)?;
        table.check(mutation)?;
        let (position, durable) = self.commitlog()?.append(mutation)?;
        if durable.is_there() {
            table.active().write(position, mutation);
            self.flush_where_large();
            return Ok(None);
        }
        let place = Place::of(mutation);
        let mutation = mutation.take();
        let write = table.active().begin_write(position, mutation);
        let hold = hold.or_else(|| self.locks.try_hold(place, Kind::Write));
        let hold = hold.expect("a write begins where nobody has the partition for himself");
        Ok(Some(Begun { write, durable, hold }))
    }

    async fn finish(self: &Rc<Self>, begun: Begun) -> Result<()> {
        // In this order: dropped when nobody waits, the write is seen before its hold goes.
        let Begun { hold, write, durable } = begun;
        match durable.await {
            Ok(()) => write.apply(),
            Err(error) => {
                write.give_up();
                return Err(error);
            }
        }
        drop(hold);
        self.flush_where_large();
        Ok(())
    }

    fn flush_where_large(self: &Rc<Self>) {
        if self.memtable_bytes() > self.options.memtable_bytes {
            self.flush_in_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::LocalSet;

    use super::*;
    use crate::clock::SimulatedClock;
    use crate::commitlog::{Commitlog, CommitlogOptions, Durability, ReplayPosition};
    use crate::database::{Database, Options};
    use crate::disk::{Faults, SimulatedDisk};
    use crate::mutation::{Liveness, Row};
    use crate::runtime::{ShardContext, SimulatedTimer};
    use crate::schema::{
        ClusteringKey, Column, ColumnKind, DataType, PartitionKey, TableId, TableOptions,
        TableSchema,
    };

    const NOW_US: i64 = 1_700_000_000_000_000;

    async fn database() -> Database {
        let clock = SimulatedClock::new(NOW_US);
        let timer = Rc::new(SimulatedTimer::new(clock.clone()));
        let disk = SimulatedDisk::new(1).shared();
        let context = ShardContext::new((0, 1), disk, clock.clone(), timer, 5);
        let options = Options { commitlog_segment_bytes: 1 << 16, clock, ..Options::new("/db") };
        Database::open_local(options, vec![context]).await.unwrap()
    }

    fn definition() -> TableSchema {
        let column = |name: &str, kind| Column { name: name.into(), ty: DataType::Int, kind };
        TableSchema {
            id: TableId(0),
            keyspace: "default".into(),
            name: "t".into(),
            columns: vec![
                column("pk", ColumnKind::PartitionKey { position: 0 }),
                column("v", ColumnKind::Regular),
            ],
            options: TableOptions::default(),
            drops: Vec::new(),
        }
    }

    fn mutation(table: TableId, pk: u32) -> Mutation {
        let mut mutation = Mutation::new(table, PartitionKey::from_bytes(pk.to_be_bytes()));
        let row = Row { liveness: Some(Liveness::at(1)), ..Row::default() };
        mutation.rows.push((ClusteringKey::empty(), row));
        mutation
    }

    /// What a log of its own says of a write, which its disk takes or not.
    async fn logged(mutation: &Mutation, fails: bool) -> (Rc<Commitlog>, Durable) {
        let disk = SimulatedDisk::new(2);
        let options = CommitlogOptions {
            directory: "/log".into(),
            shard: 0,
            shard_count: 1,
            durability: Durability::Sync,
            segment_bytes: 1 << 16,
            first_segment_min: 0,
            ledger: None,
        };
        let clock = SimulatedClock::new(NOW_US);
        let log = Commitlog::open(disk.shared(), clock, options).await.unwrap();
        let write_error_one_in = u64::from(fails);
        disk.set_faults(Faults { write_error_one_in, ..Faults::default() });
        let (_, durable) = log.append(mutation).unwrap();
        (log, durable)
    }

    /// Finishes two writes, of which the log loses some; the answer, and the rows that are seen.
    async fn finished(shard: Rc<Shard>, table: TableId, fails: [bool; 2]) -> (Result<()>, u64) {
        let table = shard.table(table).unwrap();
        let (mut begun, mut logs) = (Vec::new(), Vec::new());
        for (at, fails) in (1..).zip(fails) {
            let mutation = mutation(table.id(), at);
            let (log, durable) = logged(&mutation, fails).await;
            logs.push(log);
            let hold = shard.locks.try_hold(Place::of(&mutation), Kind::Write).unwrap();
            let position = ReplayPosition { segment: 1, offset: at };
            let write = table.active().begin_write(position, mutation);
            begun.push(Begun { write, durable, hold });
        }
        let told = shard.finish_all(begun).await;
        (told, table.stats().memtable_rows)
    }

    #[test]
    fn of_many_writes_those_that_the_log_took_are_seen_and_any_failure_is_told() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for fails in [[false, false], [true, false], [false, true], [true, true]] {
            LocalSet::new().block_on(&runtime, async {
                let database = database().await;
                let schema = database.create_table(definition(), false).await.unwrap();
                let (id, key) = (schema.id, mutation(schema.id, 1).key);
                let work = move |shard: Rc<Shard>| finished(shard, id, fails).boxed_local();
                let (told, seen) = database.on_shard(&key, work).await.unwrap();
                let lost = fails.iter().filter(|fails| **fails).count() as u64;
                assert_eq!(told.is_err(), lost > 0, "{fails:?}: {told:?}");
                assert_eq!(seen, 2 - lost, "{fails:?}");
            });
        }
    }
}
