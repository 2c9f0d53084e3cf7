//! Writes enter a shard here: admission, room, the commitlog, then the memtable.

use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::Shard;
use crate::clock::Deadline;
use crate::commitlog::Durable;
use crate::error::Result;
use crate::memtable::PendingWrite;
use crate::mutation::Mutation;
use crate::policy::rate::Operation;
use crate::runtime::{self, Answering};
use crate::table::Table;

impl Shard {
    /// Applies a write, in this turn where it has to wait for nothing.
    pub(super) fn apply_now(self: &Rc<Self>, mutation: Mutation) -> Answering<Result<()>> {
        if self.is_over_memory() || self.is_log_long() {
            return Answering::Later(self.apply(mutation));
        }
        let begun = self.enter_write(&mutation).and_then(|table| self.begin(&table, mutation));
        match begun {
            Ok((write, durable)) if durable.is_there() => {
                write.apply();
                self.flush_where_large();
                Answering::Now(Ok(()))
            }
            Ok(begun) => {
                let shard = self.clone();
                Answering::Later(async move { shard.finish(begun).await }.boxed_local())
            }
            Err(error) => Answering::Now(Err(error)),
        }
    }

    /// First of all: what is refused must cost next to nothing.
    fn enter_write(&self, mutation: &Mutation) -> Result<Rc<Table>> {
        let table = self.table(mutation.table)?;
        self.admission.admit_write()?;
        self.admit(&table, &mutation.key, Operation::Write)?;
        Ok(table)
    }

    /// Applies a write; done when it is as durable as the options demand.
    ///
    /// Errors: `NotFound`, `Poisoned`, `Io` (disk full: retry later), `RateLimited`, `Overloaded`.
    pub fn apply(self: &Rc<Self>, mutation: Mutation) -> LocalBoxFuture<'static, Result<()>> {
        let shard = self.clone();
        async move {
            let mut table = shard.enter_write(&mutation)?;
            if shard.is_over_memory() {
                shard.wait_for_memory().await?;
                // Meanwhile it may have been dropped.
                table = shard.table(mutation.table)?;
            }
            if shard.is_log_long() {
                shard.wait_for_log(&mut false).await?;
                table = shard.table(mutation.table)?;
            }
            let pending = shard.begin(&table, mutation)?;
            shard.finish(pending).await
        }
        .boxed_local()
    }

    /// Applies many writes that share their syncs.
    ///
    /// Errors: as `apply`; writes before the one that failed were applied, later ones may be.
    pub fn apply_many(
        self: &Rc<Self>,
        mutations: Vec<Mutation>,
    ) -> LocalBoxFuture<'static, Result<()>> {
        self.apply_many_within(mutations, None)
    }

    /// The same, as far as they have begun by the deadline.
    ///
    /// Errors: as `apply_many`, and `Timeout`.
    pub(super) fn apply_many_within(
        self: &Rc<Self>,
        mutations: Vec<Mutation>,
        deadline: Option<Deadline>,
    ) -> LocalBoxFuture<'static, Result<()>> {
        let shard = self.clone();
        async move {
            shard.admission.admit_write()?;
            let mut pending = Vec::with_capacity(mutations.len());
            let mut was_slowed = false;
            for mutation in mutations {
                let admitted = shard.table(mutation.table).and_then(|table| {
                    shard.admit(&table, &mutation.key, Operation::Write)?;
                    Ok(table)
                });
                let mut has_waited = false;
                if admitted.is_ok() && shard.is_over_memory() {
                    shard.finish_all(std::mem::take(&mut pending)).await?;
                    tokio::select! {
                        biased;
                        freed = shard.wait_for_memory() => freed?,
                        () = shard.sleep_until(deadline) => {}
                    }
                    has_waited = true;
                }
                if admitted.is_ok() && shard.is_log_long() {
                    // A flush waits for those that are announced: none may be while this one waits.
                    if shard.is_log_near_limit() {
                        shard.finish_all(std::mem::take(&mut pending)).await?;
                    }
                    tokio::select! {
                        biased;
                        shortened = shard.wait_for_log(&mut was_slowed) => shortened?,
                        () = shard.sleep_until(deadline) => {}
                    }
                    has_waited = true;
                }
                let begun = admitted.and_then(|table| {
                    shard.check_time(deadline, "a write waited for its turn")?;
                    // Meanwhile it may have been dropped.
                    let table = if has_waited { shard.table(mutation.table)? } else { table };
                    shard.begin(&table, mutation)
                });
                match begun {
                    Ok(write) => pending.push(write),
                    Err(error) => {
                        shard.finish_all(pending).await?;
                        return Err(error);
                    }
                }
                runtime::maybe_yield().await;
            }
            shard.finish_all(pending).await
        }
        .boxed_local()
    }

    /// Waits for each write, also after a failed one; returns the first error.
    async fn finish_all(self: &Rc<Self>, writes: Vec<(PendingWrite, Durable)>) -> Result<()> {
        let mut result = Ok(());
        for write in writes {
            let finished = self.finish(write).await;
            result = result.and(finished);
            runtime::maybe_yield().await;
        }
        result
    }

    /// Commitlog first, in one step with the announcement: positions rise in the order in which
    /// memtables are sealed.
    fn begin(&self, table: &Table, mutation: Mutation) -> Result<(PendingWrite, Durable)> {
        table.check_writable()?;
        self.check_owned(&mutation.key)?;
        table.check(&mutation)?;
        let (position, durable) = self.commitlog()?.append(&mutation)?;
        Ok((table.active().begin_write(position, mutation), durable))
    }

    async fn finish(self: &Rc<Self>, (write, durable): (PendingWrite, Durable)) -> Result<()> {
        match durable.await {
            Ok(()) => write.apply(),
            Err(error) => {
                write.give_up();
                return Err(error);
            }
        }
        self.flush_where_large();
        Ok(())
    }

    fn flush_where_large(self: &Rc<Self>) {
        if self.memtable_bytes() > self.options.memtable_bytes {
            self.flush_in_background();
        }
    }
}
