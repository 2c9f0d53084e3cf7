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
                Ok(begun) => pending.extend(begun),
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
