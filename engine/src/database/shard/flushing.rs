//! Decides when a shard flushes memtables, which writers wait for it, and what happens on failure.
//!
//! Invariant: if a flush fails for lack of disk space or descriptors, the shard's writers wait or
//! fail once memtables hold twice their share. Any other failure concerns its table alone: that
//! table refuses writes, the shard retries its flush, and its bytes do not count against the
//! others.

use std::rc::Rc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Shard;
use crate::error::{Error, Result};
use crate::runtime::{self, Pace};
use crate::schema::TableId;
use crate::table::Table;

/// Pause before a failed flush is tried again; it doubles up to the maximum.
const FLUSH_RETRY: Duration = Duration::from_secs(1);
const FLUSH_RETRY_MAX: Duration = Duration::from_secs(8);
/// Bytes of memtables that cannot be flushed, as a multiple of the share of all memtables, beyond
/// which every write is refused: one table alone never comes there.
const STUCK_SHARES_MAX: usize = 3;

impl Shard {
    /// Bytes of the memtables of all tables that were not flushed yet.
    pub fn memtable_bytes(&self) -> usize {
        self.unflushed_bytes.get()
    }

    /// Bytes of memtables beyond which writers wait: that of one that fills, and of one that is
    /// written.
    pub(in crate::database) fn memtable_bytes_max(&self) -> usize {
        2 * self.options.memtable_bytes
    }

    /// Bytes of those that a flush would write.
    fn flushable_bytes(&self) -> usize {
        self.memtable_bytes().saturating_sub(self.flushing.stuck_bytes.get())
    }

    pub(in crate::database) fn is_over_memory(&self) -> bool {
        self.flushable_bytes() > self.memtable_bytes_max() || self.is_stuck()
    }

    /// Whether tables that cannot be flushed hold so much that nothing more can be written.
    fn is_stuck(&self) -> bool {
        self.flushing.stuck_bytes.get() > STUCK_SHARES_MAX * self.options.memtable_bytes
    }

    /// Waits while memtables hold twice their share: flushing is behind.
    ///
    /// Errors: what the last flush met, above all a full disk; `Overloaded` when it waits for
    /// longer than load shedding lets it, or when tables that cannot be flushed hold the memory;
    /// `Closed`.
    pub(in crate::database) async fn wait_for_memory(self: &Rc<Self>) -> Result<()> {
        let waiting = self.admission.wait_write();
        while self.is_over_memory() {
            if self.closing.get() {
                return Err(Error::Closed);
            }
            if self.is_stuck() {
                return Err(self.stuck_error());
            }
            waiting.check()?;
            let flushed = self.flushing.flushed.notified();
            self.flush_in_background();
            if self.flushing.error.borrow().is_none() {
                flushed.await;
            }
            let failure = self.flushing.error.borrow().clone();
            if let Some(error) = failure.filter(|_| self.is_over_memory()) {
                return Err(error);
            }
        }
        Ok(())
    }

    fn stuck_tables(&self) -> Vec<Rc<Table>> {
        self.tables().into_iter().filter(|table| table.stuck().is_some()).collect()
    }

    fn stuck_error(&self) -> Error {
        let tables = self.stuck_tables();
        let names: Vec<String> = tables.iter().map(|table| table.schema().full_name()).collect();
        let mebibytes = self.flushing.stuck_bytes.get() >> 20;
        Error::short(format!(
            "memtables that cannot be written to disk hold {mebibytes} MiB of shard {}: mend or drop {}",
            self.context.shard,
            names.join(", ")
        ))
    }

    /// Starts to flush the largest tables, unless a flush runs already.
    pub(in crate::database) fn flush_in_background(self: &Rc<Self>) {
        if !self.flushing.is_running.replace(true) {
            self.start_flushing();
        }
    }

    /// Apart, since a write calls this while another flush runs: the task takes many KiB of the
    /// stack, which are touched on entry.
    #[inline(never)]
    fn start_flushing(self: &Rc<Self>) {
        let shard = self.clone();
        runtime::spawn_local("flush", async move {
            let mut pause = FLUSH_RETRY;
            while shard.flushable_bytes() > shard.options.memtable_bytes && !shard.closing.get() {
                let tables = shard.tables().into_iter().filter(|table| table.stuck().is_none());
                let Some(table) = tables.max_by_key(|table| table.memtable_bytes()) else { break };
                let failure = shard.flush_at_leisure(&table).await.err();
                shard.note_stuck();
                if let Some(error) = &failure {
                    let (shard, table) = (shard.context.shard, table.schema().full_name());
                    tracing::error!(shard, table, %error, "flush failed; it will be tried again");
                }
                shard.watch_compactions();
                // Otherwise the table stands aside, and the next one may be flushed.
                let shortage = failure.filter(Error::is_shortage);
                let is_short = shortage.is_some();
                *shard.flushing.error.borrow_mut() = shortage;
                shard.flushing.flushed.notify_waiters();
                if is_short {
                    shard.context.sleep(pause).await;
                    pause = (pause * 2).min(FLUSH_RETRY_MAX);
                } else {
                    pause = FLUSH_RETRY;
                }
            }
            // Whatever went wrong, memory is below its share now.
            *shard.flushing.error.borrow_mut() = None;
            shard.flushing.is_running.set(false);
            shard.flushing.flushed.notify_waiters();
        });
    }

    /// Flushes a table without haste, until memtables have grown by a quarter of their share beyond
    /// it, the log nears its limit, or somebody waits.
    pub(in crate::database) async fn flush_at_leisure(
        self: &Rc<Self>,
        table: &Rc<Table>,
    ) -> Result<()> {
        let (shard, own) = (self.clone(), table.clone());
        let has_time = move || {
            let share = shard.options.memtable_bytes;
            let backlog = shard.flushable_bytes().saturating_sub(share);
            let is_late = backlog >= share / 4 || shard.is_log_near_limit();
            !is_late && !own.is_flush_awaited() && !shard.closing.get()
        };
        let pace = Pace::new(self.context.timer.clone(), has_time);
        pace.run(table.flush_in_background()).await
    }

    /// Counts what cannot be flushed, and sees to it that it is tried again.
    pub(in crate::database) fn note_stuck(&self) {
        let stuck = self.stuck_tables();
        let bytes = stuck.iter().map(|table| table.memtable_bytes()).sum();
        self.flushing.stuck_bytes.set(bytes);
        if stuck.is_empty() {
            self.flushing.retry.set(None);
        } else if self.flushing.retry.get().is_none() {
            self.retry_after(FLUSH_RETRY);
        }
    }

    fn retry_after(&self, pause: Duration) {
        let pause_ns = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
        let at_ns = self.context.clock.monotonic_ns().saturating_add(pause_ns);
        self.flushing.retry.set(Some((at_ns, (pause * 2).min(FLUSH_RETRY_MAX))));
    }

    /// Tries tables again that could not be flushed, when it is time.
    pub(in crate::database) fn retry_stuck(self: &Rc<Self>) {
        let Some((at_ns, pause)) = self.flushing.retry.get() else { return };
        if self.context.clock.monotonic_ns() < at_ns {
            return;
        }
        self.retry_after(pause);
        let shard = self.clone();
        runtime::spawn_local("flush", async move {
            for table in shard.stuck_tables() {
                let table_name = table.schema().full_name();
                match table.flush_in_background().await {
                    Ok(()) => tracing::warn!(table = table_name, "the table is flushed again"),
                    Err(error) => tracing::debug!(table = table_name, %error, "still not flushed"),
                }
            }
            shard.note_stuck();
            shard.flushing.flushed.notify_waiters();
        });
    }

    /// Flushes one table, or all.
    ///
    /// Errors: `NotFound`, `Io`.
    pub(in crate::database) async fn flush(self: &Rc<Self>, table: Option<TableId>) -> Result<()> {
        let tables = match table {
            Some(id) => vec![self.table(id)?],
            None => self.tables(),
        };
        let mut result = Ok(());
        for table in tables {
            // A task of its own: a flush must not stop half-way when its caller goes.
            let (sender, flushed) = oneshot::channel();
            runtime::spawn_local("flush", async move {
                // Nobody waits any more when the caller has gone.
                let _ = sender.send(table.flush().await);
            });
            // Every table is tried; the first error is returned.
            let flushed = flushed.await.map_err(|_| Error::Closed).flatten();
            result = result.and(flushed);
        }
        self.note_stuck();
        self.watch_compactions();
        result
    }
}
