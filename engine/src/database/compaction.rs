//! Compactions for people: asked for, cancelled, looked at.

use std::rc::Rc;

use futures::FutureExt;
use futures::future::{BoxFuture, try_join_all};

use super::database::Database;
use super::shard::{CompactionRecord, Job, Shard};
use crate::compaction::Reason;
use crate::error::Result;
use crate::schema::TableId;
use crate::table::SstableStatus;

/// A compaction that runs.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionReport {
    /// Unique among the compactions of all shards since the start.
    pub number: u64,
    pub keyspace: String,
    pub table: String,
    pub shard: u32,
    pub reason: Reason,
    /// Wall clock, microseconds since the epoch.
    pub started_us: i64,
    /// SSTables that it merges, and bytes of their data.
    pub input_files: u64,
    pub input_bytes: u64,
    /// Bytes of data that it has written.
    pub output_bytes: u64,
    /// Part that is done, 0 to 1.
    pub done: f64,
    /// Seconds that it has run.
    pub seconds: f64,
}

impl CompactionReport {
    /// Bytes of the inputs that are done a second; `None` in the beginning.
    pub fn bytes_per_second(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.input_bytes as f64 * self.done / self.seconds)
    }

    /// Seconds that are left at this rate; `None` in the beginning.
    pub fn seconds_left(&self) -> Option<f64> {
        (self.done > 0.0).then(|| self.seconds * (1.0 - self.done) / self.done)
    }
}

/// An SSTable of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct SstableReport {
    pub keyspace: String,
    pub table: String,
    pub shard: u32,
    pub status: SstableStatus,
}

impl Database {
    /// Merges all SSTables of a table on every shard, what is in memory included; returns when that
    /// is done. Whoever stops waiting does not stop it.
    ///
    /// Errors: `NotFound`; `Invalid` for an attached table; `Io`; `Corrupt`; `Unavailable` when it
    /// was cancelled. Shards that met no error go on.
    pub fn compact(&self, table: TableId) -> BoxFuture<'_, Result<()>> {
        async move {
            let calls = (0..self.shard_count()).map(|number| async move {
                let compact =
                    move |shard: Rc<Shard>| async move { shard.compact(table).await }.boxed_local();
                self.handle(number).call("compact", compact).await?
            });
            try_join_all(calls).await.map(|_| ())
        }
        .boxed()
    }

    /// Ends a compaction: everything is as before it. False when no such one runs, or when it is
    /// about to end by itself.
    ///
    /// Errors: `Closed`.
    pub fn cancel_compaction(&self, number: u64) -> BoxFuture<'_, Result<bool>> {
        async move {
            let cancel = move |shard: &Shard| shard.cancel_compaction(number);
            Ok(self.of_shards("cancel compaction", cancel).await?.contains(&true))
        }
        .boxed()
    }

    /// The compactions that run, by shard.
    ///
    /// Errors: `Closed`.
    pub fn compactions(&self) -> BoxFuture<'_, Result<Vec<CompactionReport>>> {
        async move {
            let reports = self.of_shards("compactions", Shard::report_compaction).await?;
            Ok(reports.into_iter().flatten().collect())
        }
        .boxed()
    }

    /// Bytes that merges would read until the strategies of all tables want none, by shard.
    ///
    /// Errors: `Closed`.
    pub fn compaction_backlog(&self) -> BoxFuture<'_, Result<Vec<u64>>> {
        self.of_shards("compaction backlog", Shard::compaction_backlog).boxed()
    }

    /// The latest compactions that have ended, by shard, the latest of each last.
    ///
    /// Errors: `Closed`.
    pub fn compaction_history(&self) -> BoxFuture<'_, Result<Vec<CompactionRecord>>> {
        async move {
            let records = self.of_shards("compaction history", Shard::compaction_history).await?;
            Ok(records.into_iter().flatten().collect())
        }
        .boxed()
    }

    /// The SSTables of all tables, by shard, table and number.
    ///
    /// Errors: `Closed`.
    pub fn sstable_report(&self) -> BoxFuture<'_, Result<Vec<SstableReport>>> {
        async move {
            let reports = self.of_shards("sstables", Shard::report_sstables).await?;
            Ok(reports.into_iter().flatten().collect())
        }
        .boxed()
    }
}

impl Shard {
    fn report_compaction(&self) -> Option<CompactionReport> {
        let job = self.running_compaction()?;
        let Job { number, table, choice, input_bytes, progress, started_us, started_ns } = &*job;
        let now_ns = self.context.clock.monotonic_ns();
        Some(CompactionReport {
            number: *number,
            keyspace: table.schema().keyspace.clone(),
            table: table.schema().name.clone(),
            shard: self.context.shard,
            reason: choice.reason,
            started_us: *started_us,
            input_files: choice.inputs.len() as u64,
            input_bytes: *input_bytes,
            output_bytes: progress.written_bytes(),
            done: progress.share(),
            seconds: now_ns.saturating_sub(*started_ns) as f64 / 1e9,
        })
    }

    fn report_sstables(&self) -> Vec<SstableReport> {
        let now = self.context.clock.wall_seconds();
        let tables = self.tables();
        let of_table = |table: &Rc<crate::table::Table>| {
            let (keyspace, name) = (table.schema().keyspace.clone(), table.schema().name.clone());
            let statuses = table.sstable_statuses(now).into_iter();
            let shard = self.context.shard;
            let report = move |status| SstableReport {
                keyspace: keyspace.clone(),
                table: name.clone(),
                shard,
                status,
            };
            statuses.map(report).collect::<Vec<_>>()
        };
        tables.iter().flat_map(of_table).collect()
    }
}
