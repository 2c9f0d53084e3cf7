//! Writes enter a shard here: admission, room, the commitlog, then the memtable.

use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::Shard;
use crate::error::Result;
use crate::memtable::PendingWrite;
use crate::mutation::Mutation;
use crate::policy::rate::Operation;
use crate::runtime;
use crate::table::Table;

impl Shard {
    /// Applies a write; done when it is as durable as the options demand.
    ///
    /// Errors: `NotFound`, `Poisoned`, `Io` (disk full: retry later), `RateLimited`, `Overloaded`.
    pub fn apply(self: &Rc<Self>, mutation: Mutation) -> LocalBoxFuture<'static, Result<()>> {
        let shard = self.clone();
        async move {
            // First of all: what is refused must cost next to nothing.
            let mut table = shard.table(mutation.table)?;
            shard.admission.admit_write()?;
            shard.admit(&table, &mutation.key, Operation::Write)?;
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
                    shard.wait_for_memory().await?;
                    has_waited = true;
                }
                if admitted.is_ok() && shard.is_log_long() {
                    // A flush waits for those that are announced: none may be while this one waits.
                    if shard.is_log_near_limit() {
                        shard.finish_all(std::mem::take(&mut pending)).await?;
                    }
                    shard.wait_for_log(&mut was_slowed).await?;
                    has_waited = true;
                }
                let begun = admitted.and_then(|table| {
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
    async fn finish_all(
        self: &Rc<Self>,
        writes: Vec<(PendingWrite, impl Future<Output = Result<()>>)>,
    ) -> Result<()> {
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
    fn begin(
        &self,
        table: &Table,
        mutation: Mutation,
    ) -> Result<(PendingWrite, impl Future<Output = Result<()>> + use<>)> {
        table.check_writable()?;
        self.check_owned(&mutation.key)?;
        table.check(&mutation)?;
        let (position, durable) = self.commitlog()?.append(&mutation)?;
        Ok((table.active().begin_write(position, mutation), durable))
    }

    async fn finish(
        self: &Rc<Self>,
        (write, durable): (PendingWrite, impl Future<Output = Result<()>>),
    ) -> Result<()> {
        match durable.await {
            Ok(()) => write.apply(),
            Err(error) => {
                write.give_up();
                return Err(error);
            }
        }
        if self.memtable_bytes() > self.options.memtable_bytes {
            self.flush_in_background();
        }
        Ok(())
    }
}
