//! Shortens a long commitlog. A rarely written table must not pin all of it, so the shard flushes
//! tables that pin the oldest segments, and slows or holds writes meanwhile.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use super::Shard;
use super::log_limit::{Stage, stage};
use crate::database::report::CommitlogReport;
use crate::error::{Error, Result};
use crate::runtime;
use crate::table::Table;

/// Pause before a flush that freed nothing is tried again; it doubles up to the maximum.
const RETRY: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(8);

impl Shard {
    fn log_stage(&self) -> Stage {
        let Ok(log) = self.commitlog() else { return Stage::Free };
        let options = &self.options;
        let (limit, segment) = (options.commitlog_bytes, options.commitlog_segment_bytes);
        stage(log.bytes_on_disk(), limit as u64, segment as u64)
    }

    /// Whether the log is so long that something is to be done about it.
    pub(in crate::database) fn is_log_long(&self) -> bool {
        self.log_stage() != Stage::Free
    }

    /// Whether writes are held up for the log's sake.
    pub(in crate::database) fn is_log_near_limit(&self) -> bool {
        matches!(self.log_stage(), Stage::Slow(_) | Stage::Stop)
    }

    /// Has tables flushed that pin the oldest segments, holds a write up where the log nears its
    /// limit, and lets it wait where that is reached. `was_slowed` says whether a write of the same
    /// batch was held up already: once is enough.
    ///
    /// Errors: `Overloaded` when what pins the log cannot be flushed, naming it, or when the write
    /// waits for longer than load shedding lets it; `Closed`.
    pub(in crate::database) async fn wait_for_log(
        self: &Rc<Self>,
        was_slowed: &mut bool,
    ) -> Result<()> {
        let mut waiting = None;
        loop {
            match self.log_stage() {
                Stage::Free => return Ok(()),
                Stage::Flush => {
                    self.shorten_log();
                    return Ok(());
                }
                Stage::Slow(_) if *was_slowed || waiting.is_some() => return Ok(()),
                Stage::Slow(delay) => {
                    self.shorten_log();
                    *was_slowed = true;
                    count(&self.log_limit.slowed);
                    self.context.sleep(delay).await;
                }
                Stage::Stop => {
                    let waiting = waiting.get_or_insert_with(|| {
                        count(&self.log_limit.stopped);
                        self.admission.wait_write()
                    });
                    waiting.check()?;
                    self.wait_for_segments().await?;
                }
            }
        }
    }

    async fn wait_for_segments(self: &Rc<Self>) -> Result<()> {
        self.check_open()?;
        let tried = self.log_limit.tried.notified();
        self.shorten_log();
        if let Some(failure) = &*self.log_limit.failure.borrow() {
            let (shard, mebibytes) = (self.context.shard, self.options.commitlog_bytes >> 20);
            return Err(Error::short(format!(
                "the commitlog of shard {shard} has reached its limit of {mebibytes} MiB \
                 (--commitlog-bytes): {failure}"
            )));
        }
        tried.await;
        Ok(())
    }

    /// Has writes that wait for the log look again whether they still should.
    pub(in crate::database) fn wake_log_waiters(&self) {
        self.log_limit.tried.notify_waiters();
    }

    /// Flushes tables that pin the oldest segments until the log is short, unless that runs
    /// already.
    fn shorten_log(self: &Rc<Self>) {
        if self.log_limit.is_running.replace(true) {
            return;
        }
        let shard = self.clone();
        runtime::spawn_local("log limit", async move {
            let mut pause = RETRY;
            while shard.is_log_long() && shard.check_open().is_ok() {
                let failure = shard.flush_oldest_pin().await.err();
                let has_failed = failure.is_some();
                if let Some(failure) = &failure {
                    tracing::error!(shard = shard.context.shard, failure, "the log stays long");
                }
                *shard.log_limit.failure.borrow_mut() = failure;
                shard.log_limit.tried.notify_waiters();
                if has_failed {
                    shard.context.sleep(pause).await;
                    pause = (pause * 2).min(RETRY_MAX);
                } else {
                    pause = RETRY;
                }
            }
            *shard.log_limit.failure.borrow_mut() = None;
            shard.log_limit.is_running.set(false);
            shard.log_limit.tried.notify_waiters();
        });
    }

    /// Flushes one table that keeps the oldest segment.
    ///
    /// Errors: in words, why that freed nothing.
    async fn flush_oldest_pin(self: &Rc<Self>) -> Result<(), String> {
        let Ok(log) = self.commitlog() else { return Ok(()) };
        let before = (log.oldest_pin(), log.bytes_on_disk());
        let mut name = "no table".to_owned();
        if let Some((_, table)) = before.0 {
            let Ok(table) = self.table(table) else {
                return Err(format!("table {} pins it, which is not open", table.hex()));
            };
            name = table.schema().full_name();
            let flushed = self.flush_at_leisure(&table).await;
            self.note_stuck();
            flushed.map_err(|error| {
                format!("table {name} pins its oldest segment and cannot be flushed: {error}")
            })?;
        }
        log.release_free().await;
        if (log.oldest_pin(), log.bytes_on_disk()) != before {
            return Ok(());
        }
        Err(format!("{name} pins its oldest segment, and still nothing can be removed"))
    }

    pub(in crate::database) fn commitlog_report(&self) -> CommitlogReport {
        let log = self.commitlog().ok();
        let pin = log.as_ref().and_then(|log| log.oldest_pin());
        let pin = pin.and_then(|(_, table)| self.table(table).ok());
        let name = |table: Rc<Table>| {
            let schema = table.schema();
            (schema.keyspace.clone(), schema.name.clone())
        };
        CommitlogReport {
            shard: self.context.shard,
            bytes: log.map_or(0, |log| log.bytes_on_disk()),
            limit_bytes: self.options.commitlog_bytes as u64,
            slowed: self.log_limit.slowed.get(),
            stopped: self.log_limit.stopped.get(),
            oldest_pin: pin.map(name),
        }
    }
}

fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}
