//! When SSTables of a shard are merged: after flushes, as time passes, and when somebody asks.
//!
//! One compaction runs at a time, without haste (`runtime/pace.rs`). What somebody asked for comes
//! first, then the table with most SSTables of those that want a merge, in turns with SSTables of
//! another shard count that are to be rewritten. A table whose compaction failed waits, longer each
//! time; a full disk thus stops compactions and they go on later.
//!
//! Not here: what is merged and what goes (`compaction`), the exchange of files
//! (`table/compact.rs`).

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Shard;
use super::compaction_state::{CompactionEnd, CompactionRecord, Job, Request};
use crate::compaction::{self, Choice, Purged, Reason};
use crate::config::COMPACTION_HISTORY_MAX;
use crate::error::{Error, Result};
use crate::io::{Class, run_as};
use crate::runtime::{self, Pace};
use crate::schema::TableId;
use crate::table::{Compacted, CompactionOrder, Table};

/// Pause of a table whose compaction failed; it doubles up to the maximum.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(64);
/// How often every table is asked, whether anything has changed or not: what is in its SSTables
/// grows old.
const ASKED_EVERY: Duration = Duration::from_secs(60);
/// How long after a start SSTables of another shard count stay as they are: who opens a directory
/// for a statement or two leaves it as it is, and a start has other things to do.
const RESHARDED_AFTER: Duration = Duration::from_secs(5);
/// SSTables of a table beyond which its compaction hurries, and shares by backlog from which on all
/// do.
const BEHIND_FILES: u64 = 16;
const BEHIND_SHARES: u32 = 500;
/// How often the shares of compaction follow what there is to merge: as in ScyllaDB.
const SHARED_EVERY: Duration = Duration::from_millis(250);

impl Shard {
    /// From now on dead data may go: every log of earlier runs is gone.
    pub(in crate::database) fn allow_purge(&self) {
        self.compacting.may_purge.set(true);
    }

    /// Whether a start would apply batches again: what covers parts of them must stay.
    fn has_logged_batches(&self) -> bool {
        self.options.logged_batches.count.load(Ordering::Relaxed) > 0
    }

    /// Looks whether anything should be merged.
    pub(in crate::database) fn watch_compactions(self: &Rc<Self>) {
        let now_ns = self.context.clock.monotonic_ns();
        let since_ns = now_ns.saturating_sub(self.compacting.asked_all_ns.get());
        let is_new = self.compacting.chooser.take_new();
        if is_new || u128::from(since_ns) >= ASKED_EVERY.as_nanos() {
            self.compacting.asked_all_ns.set(now_ns);
            self.tables().iter().for_each(|table| table.set_compaction_due(true));
        }
        self.share_by_backlog(now_ns);
        if self.compacting.is_running.get() {
            return;
        }
        let has_request = !self.compacting.asked.borrow().is_empty();
        let wants =
            |table: &Rc<Table>| self.may_ask(table, now_ns) || self.may_reshard(table, now_ns);
        if has_request || self.tables().iter().any(wants) {
            self.compact_in_background();
        }
    }

    /// Gives compaction more of the disk, the more there is to merge.
    fn share_by_backlog(&self, now_ns: u64) {
        let since_ns = now_ns.saturating_sub(self.compacting.shared_ns.get());
        if u128::from(since_ns) < SHARED_EVERY.as_nanos() {
            return;
        }
        self.compacting.shared_ns.set(now_ns);
        let memory = self.options.cache_bytes + self.options.memtable_bytes;
        // What a strategy would merge says nothing where it is not asked.
        let backlog = match self.compacting.chooser.has_policy() {
            true => 0,
            false => self.known_backlog(),
        };
        let shares = compaction::shares(backlog, memory as u64);
        self.compacting.shares.set(shares);
        self.context.io.set_native(Class::Compaction, shares);
    }

    /// The backlog of all tables, of which one is looked at anew.
    fn known_backlog(&self) -> u64 {
        let now = self.context.clock.wall_seconds();
        let mut may_look = true;
        let of_table = |table: &Rc<Table>| {
            let is_stale = table.is_backlog_stale();
            if is_stale && !std::mem::replace(&mut may_look, false) {
                return 0;
            }
            table.compaction_backlog(now)
        };
        self.tables().iter().map(of_table).sum()
    }

    /// Bytes that the strategies of all tables have before them.
    pub(in crate::database) fn compaction_backlog(&self) -> u64 {
        let now = self.context.clock.wall_seconds();
        self.tables().iter().map(|table| table.compaction_backlog(now)).sum()
    }

    fn may_ask(&self, table: &Table, now_ns: u64) -> bool {
        table.is_compaction_due() && !self.waits(table, now_ns)
    }

    /// Whether the table has something of another shard count, and it is time for that.
    fn may_reshard(&self, table: &Table, now_ns: u64) -> bool {
        let since_ns = now_ns.saturating_sub(self.compacting.started_ns.get());
        let is_time = u128::from(since_ns) >= RESHARDED_AFTER.as_nanos();
        is_time && table.is_resharding() && !self.waits(table, now_ns)
    }

    /// Whether the table waits after a failure.
    fn waits(&self, table: &Table, now_ns: u64) -> bool {
        let pauses = self.compacting.pauses.borrow();
        pauses.get(&table.schema().id).is_some_and(|(until, _)| now_ns < *until)
    }

    fn compact_in_background(self: &Rc<Self>) {
        if self.closing.get() || self.compacting.is_running.replace(true) {
            return;
        }
        let shard = self.clone();
        let work = async move {
            let mut has_resharded = false;
            while !shard.closing.get() {
                let request = shard.compacting.asked.borrow_mut().pop_front();
                if let Some(Request { table, done }) = request {
                    let merged = shard.compact_all(&table).await;
                    if done.send(merged).is_err() {
                        let table = table.schema().full_name();
                        tracing::info!(table, "COMPACT has ended, and nobody waits for it");
                    }
                    continue;
                }
                let resharding = shard.choose_resharding().await;
                let wanted = match shard.choose_compaction().await {
                    // In turns: neither keeps the other waiting for long.
                    Some(wanted) if has_resharded || resharding.is_none() => Some(wanted),
                    wanted => resharding.or(wanted),
                };
                match wanted {
                    // Failures are told where they are met, and the table waits.
                    Some((table, choice)) if !shard.closing.get() && !table.is_dropped() => {
                        has_resharded = choice.is_resharding();
                        let _ = shard.run_compaction(&table, choice).await;
                    }
                    // Somebody may have asked meanwhile.
                    _ if shard.compacting.asked.borrow().is_empty() => break,
                    _ => {}
                }
            }
            for Request { done, .. } in shard.compacting.asked.take() {
                let _ = done.send(Err(Error::Closed));
            }
            shard.compacting.is_running.set(false);
            shard.compacting.ended.notify_waiters();
        };
        runtime::spawn_local("compaction", run_as(Class::Compaction, work));
    }

    /// Of the tables that want a merge the one with most SSTables.
    async fn choose_compaction(&self) -> Option<(Rc<Table>, Choice)> {
        let mut best: Option<(u64, Rc<Table>, Choice)> = None;
        for table in self.tables() {
            if !self.may_ask(&table, self.context.clock.monotonic_ns()) {
                continue;
            }
            let now = self.context.clock.wall_seconds();
            match table.choose_compaction(&self.compacting.chooser, now) {
                None => table.set_compaction_due(false),
                Some(choice) => {
                    let files = table.stats().sstables;
                    if best.as_ref().is_none_or(|(most, ..)| files > *most) {
                        best = Some((files, table, choice));
                    }
                }
            }
            runtime::maybe_yield().await;
        }
        best.map(|(_, table, choice)| (table, choice))
    }

    /// Has every table hand over what it can of SSTables of another shard count, and gives the next
    /// one of them to be rewritten.
    async fn choose_resharding(&self) -> Option<(Rc<Table>, Choice)> {
        let mut next = None;
        for table in self.tables() {
            let now_ns = self.context.clock.monotonic_ns();
            if self.closing.get() || !self.may_reshard(&table, now_ns) {
                continue;
            }
            if let Err(error) = table.hand_over().await {
                // The files of one that was dropped meanwhile are gone.
                if !table.is_dropped() {
                    self.pause(&table, &error);
                }
            } else if next.is_none() {
                next = table.choose_resharding().map(|choice| (table, choice));
            }
        }
        next
    }

    /// Merges all SSTables of a table.
    ///
    /// Errors: as `run_compaction`; `Unavailable` when it was cancelled; `NotFound` when the table
    /// was dropped; `Closed`.
    async fn compact_all(self: &Rc<Self>, table: &Rc<Table>) -> Result<()> {
        loop {
            self.check_there(table)?;
            let Some((choice, is_last)) = table.choose_major(self.context.clock.wall_seconds())
            else {
                return Ok(());
            };
            let is_cancelled = self.run_compaction(table, choice).await?.is_cancelled;
            if is_last && !is_cancelled {
                return Ok(());
            }
            if is_cancelled {
                self.check_there(table)?;
                let name = table.schema().full_name();
                let shard = self.context.shard;
                return Err(Error::Unavailable(format!(
                    "the compaction of {name} on shard {shard} was cancelled; what it has not \
                     replaced is as it was"
                )));
            }
        }
    }

    /// Whether compactions of a table may begin.
    ///
    /// Errors: `Closed`; `NotFound` when it was dropped.
    fn check_there(&self, table: &Table) -> Result<()> {
        self.check_open()?;
        match table.is_dropped() {
            true => Err(Error::NotFound { kind: "table", name: table.schema().full_name() }),
            false => Ok(()),
        }
    }

    /// Runs a compaction, and tells how it ended.
    ///
    /// Errors: those of `Table::compact`; the table waits then before it is asked again.
    async fn run_compaction(
        self: &Rc<Self>,
        table: &Rc<Table>,
        choice: Choice,
    ) -> Result<Compacted> {
        let job = self.begin_job(table, choice);
        let order = CompactionOrder {
            choice: job.choice.clone(),
            now_seconds: self.context.clock.wall_seconds(),
            may_purge: self.compacting.may_purge.get() && !self.has_logged_batches(),
            progress: job.progress.clone(),
        };
        let (shard, own) = (self.clone(), table.clone());
        let is_asked = job.choice.reason == Reason::Asked;
        let has_time = move || {
            let is_awaited = is_asked || !shard.compacting.asked.borrow().is_empty();
            let is_behind = own.stats().sstables > BEHIND_FILES
                || shard.compacting.shares.get() >= BEHIND_SHARES;
            !is_awaited && !shard.closing.get() && !is_behind
        };
        let pace = Pace::new(self.context.timer.clone(), has_time);
        let compacted = pace.run(table.compact(order)).await;
        self.end_job(&job, &compacted);
        compacted
    }

    fn begin_job(&self, table: &Rc<Table>, choice: Choice) -> Rc<Job> {
        let count = self.compacting.count.get();
        self.compacting.count.set(count + 1);
        let stride = u64::from(self.context.shard_count);
        let job = Rc::new(Job {
            number: count * stride + u64::from(self.context.shard) + 1,
            input_bytes: table.bytes_of(&choice.inputs),
            table: table.clone(),
            choice,
            progress: Rc::default(),
            started_us: self.context.clock.wall_us(),
            started_ns: self.context.clock.monotonic_ns(),
        });
        *self.compacting.running.borrow_mut() = Some(job.clone());
        job
    }

    fn end_job(&self, job: &Job, compacted: &Result<Compacted>) {
        *self.compacting.running.borrow_mut() = None;
        self.compacting.ended.notify_waiters();
        let end = match compacted {
            Ok(compacted) if compacted.is_cancelled => CompactionEnd::Cancelled,
            Ok(_) => CompactionEnd::Done,
            Err(error) => CompactionEnd::Failed(error.to_string()),
        };
        let id = job.table.schema().id;
        match compacted {
            Ok(_) => {
                self.compacting.pauses.borrow_mut().remove(&id);
            }
            // It goes on without the damaged SSTable.
            Err(Error::Corrupt(_)) if job.table.has_set_aside(&job.choice.inputs) => {
                self.compacting.pauses.borrow_mut().remove(&id);
            }
            Err(error) => self.pause(&job.table, error),
        }
        if end == CompactionEnd::Cancelled && !job.table.is_dropped() {
            // Else it would begin again at once.
            self.wait_after(id, RETRY_MAX);
        }
        let (outputs, purged) = match compacted {
            Ok(compacted) => (compacted.outputs.as_slice(), compacted.purged),
            Err(_) => (&[][..], Purged::default()),
        };
        let record = CompactionRecord {
            number: job.number,
            keyspace: job.table.schema().keyspace.clone(),
            table: job.table.schema().name.clone(),
            shard: self.context.shard,
            reason: job.choice.reason,
            started_us: job.started_us,
            ended_us: self.context.clock.wall_us(),
            inputs: job.choice.inputs.clone(),
            input_bytes: job.input_bytes,
            outputs: outputs.iter().map(|info| info.generation).collect(),
            output_bytes: outputs.iter().map(|info| info.data_bytes).sum(),
            purged,
            end,
        };
        let mut history = self.compacting.history.borrow_mut();
        if history.len() >= COMPACTION_HISTORY_MAX {
            history.pop_front();
        }
        history.push_back(record);
    }

    /// A table whose compaction failed waits, longer each time.
    fn pause(&self, table: &Table, error: &Error) {
        let id = table.schema().id;
        let last = self.compacting.pauses.borrow().get(&id).map(|(_, pause)| *pause);
        let pause = last.map_or(RETRY, |last| (last * 2).min(RETRY_MAX));
        let (shard, table) = (self.context.shard, table.schema().full_name());
        let seconds = pause.as_secs();
        if error.is_disk_full() {
            tracing::warn!(
                shard, table, %error, seconds,
                "no room to merge SSTables: compactions of the table go on when there is"
            );
        } else if !self.closing.get() {
            tracing::error!(shard, table, %error, seconds, "a compaction failed; it is tried again");
        }
        self.wait_after(id, pause);
    }

    fn wait_after(&self, table: TableId, pause: Duration) {
        let pause_ns = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
        let until_ns = self.context.clock.monotonic_ns().saturating_add(pause_ns);
        self.compacting.pauses.borrow_mut().insert(table, (until_ns, pause));
    }

    /// Merges all SSTables of a table, after those that others asked for. Whoever stops waiting
    /// does not stop it.
    ///
    /// Errors: `NotFound`; `Invalid` for an attached table; those of the flush before it and of the
    /// merge; `Unavailable` when it was cancelled; `Closed`.
    pub(in crate::database) async fn compact(self: &Rc<Self>, id: TableId) -> Result<()> {
        let table = self.table(id)?;
        table.check_own()?;
        self.flush(Some(id)).await?;
        self.check_open()?;
        let (done, waits) = oneshot::channel();
        self.compacting.asked.borrow_mut().push_back(Request { table, done });
        self.compact_in_background();
        waits.await.map_err(|_| Error::Closed).flatten()
    }

    /// Ends a compaction; false when no such one runs here, or its outputs are taking over.
    pub(in crate::database) fn cancel_compaction(&self, number: u64) -> bool {
        let running = self.compacting.running.borrow();
        let job = running.as_ref().filter(|job| job.number == number);
        job.is_some_and(|job| job.progress.cancel())
    }

    /// Ends the compactions of a table that was dropped, or of all when the shard closes, and waits
    /// until none runs.
    pub(in crate::database) async fn stop_compactions(&self, table: Option<TableId>) {
        let concerns = |id: TableId| table.is_none_or(|table| table == id);
        self.compacting.pauses.borrow_mut().retain(|id, _| !concerns(*id));
        let asked = self.compacting.asked.take().into_iter();
        let (ended, others): (VecDeque<Request>, VecDeque<Request>) =
            asked.partition(|request| concerns(request.table.schema().id));
        *self.compacting.asked.borrow_mut() = others;
        for Request { table, done } in ended {
            // Whoever asked may have gone.
            let _ = done.send(self.check_there(&table));
        }
        loop {
            let ended = self.compacting.ended.notified();
            {
                let running = self.compacting.running.borrow();
                match running.as_ref().filter(|job| concerns(job.table.schema().id)) {
                    // Too late is as good: it ends by itself.
                    Some(job) => _ = job.progress.cancel(),
                    // What goes on between two of them ends as well before a shard does.
                    None if table.is_none() && self.compacting.is_running.get() => {}
                    None => return,
                }
            }
            ended.await;
        }
    }

    pub(in crate::database) fn running_compaction(&self) -> Option<Rc<Job>> {
        self.compacting.running.borrow().clone()
    }

    pub(in crate::database) fn compaction_history(&self) -> Vec<CompactionRecord> {
        self.compacting.history.borrow().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::task::LocalSet;

    use super::*;
    use crate::clock::SimulatedClock;
    use crate::database::{Database, Options};
    use crate::disk::SimulatedDisk;
    use crate::mutation::{Liveness, Mutation, Row};
    use crate::runtime::{ShardContext, SimulatedTimer};
    use crate::schema::table_schema::SchemaRef;
    use crate::schema::{
        ClusteringKey, Column, ColumnKind, DataType, PartitionKey, TableOptions, TableSchema,
    };

    fn key() -> PartitionKey {
        PartitionKey::from_bytes(1_u32.to_be_bytes())
    }

    async fn create(database: &Database, name: &str) -> SchemaRef {
        let column = |name: &str, kind| Column { name: name.into(), ty: DataType::Int, kind };
        let schema = TableSchema {
            id: TableId(0),
            keyspace: "default".into(),
            name: name.into(),
            columns: vec![
                column("pk", ColumnKind::PartitionKey { position: 0 }),
                column("v", ColumnKind::Regular),
            ],
            options: TableOptions::default(),
            drops: Vec::new(),
        };
        database.create_table(schema, false).await.unwrap()
    }

    /// A database of one shard in which no time passes and nothing is merged by itself.
    fn run(test: impl AsyncFnOnce(Database)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let clock = SimulatedClock::new(1_700_000_000_000_000);
            let timer = Rc::new(SimulatedTimer::new(clock.clone()));
            let disk = SimulatedDisk::new(1).shared();
            let context = ShardContext::new((0, 1), disk, clock.clone(), timer, 5);
            let options =
                Options { commitlog_segment_bytes: 1 << 16, clock, ..Options::new("/db") };
            let database = Database::open_local(options, vec![context]).await.unwrap();
            let set = async |is_running: bool| {
                let work = move |shard: Rc<Shard>| {
                    async move { shard.compacting.is_running.set(is_running) }.boxed_local()
                };
                database.on_shard(&key(), work).await.unwrap();
            };
            set(true).await;
            test(database.clone()).await;
            set(false).await;
            database.close().await.unwrap();
        });
    }

    /// Begins and ends a merge that has read and written nothing.
    fn end(shard: &Rc<Shard>, table: &Rc<Table>, ended: Result<Compacted>) {
        let choice = Choice {
            inputs: vec![1],
            level: 0,
            cut_bytes: None,
            is_incremental: false,
            reason: Reason::Asked,
        };
        let job = shard.begin_job(table, choice);
        shard.end_job(&job, &ended);
    }

    #[test]
    fn a_table_waits_longer_after_each_failure_and_not_after_a_success() {
        run(async |database: Database| {
            let id = create(&database, "t").await.id;
            let work = move |shard: Rc<Shard>| {
                async move {
                    let table = shard.table(id).unwrap();
                    let now_ns = shard.context.clock.monotonic_ns();
                    let check = |seconds: u64| {
                        let pause = Duration::from_secs(seconds);
                        let until_ns = now_ns + seconds * 1_000_000_000;
                        let found = shard.compacting.pauses.borrow().get(&id).copied();
                        assert_eq!(found, (seconds > 0).then_some((until_ns, pause)));
                        assert_eq!(shard.waits(&table, now_ns), seconds > 0, "{seconds} s");
                        assert!(!shard.waits(&table, until_ns), "{seconds} s are over");
                    };
                    check(0);
                    for _ in 0..2 {
                        for seconds in [1, 2, 4, 8, 16, 32, 64, 64] {
                            end(&shard, &table, Err(Error::invalid("it is a test")));
                            check(seconds);
                        }
                        end(&shard, &table, Ok(Compacted::default()));
                        check(0);
                    }
                    // Who cancels it wants it to be over for a while.
                    let cancelled = Compacted { is_cancelled: true, ..Compacted::default() };
                    end(&shard, &table, Ok(cancelled));
                    check(64);
                    end(&shard, &table, Ok(Compacted::default()));
                    // Damage of an SSTable that stays where it is would only be met again.
                    end(&shard, &table, Err(Error::corrupt("/db/file", 0, "a", "b")));
                    check(1);
                }
                .boxed_local()
            };
            database.on_shard(&key(), work).await.unwrap();
        });
    }

    #[test]
    fn the_latest_compactions_are_told_and_no_more_than_that() {
        run(async |database: Database| {
            let id = create(&database, "t").await.id;
            let work = move |shard: Rc<Shard>| {
                async move {
                    let table = shard.table(id).unwrap();
                    for count in 1..=COMPACTION_HISTORY_MAX as u64 + 3 {
                        end(&shard, &table, Ok(Compacted::default()));
                        let told = shard.compaction_history();
                        let numbers = told.iter().map(|record| record.number);
                        let first = count.saturating_sub(COMPACTION_HISTORY_MAX as u64) + 1;
                        assert!(numbers.eq(first..=count), "after {count}");
                    }
                }
                .boxed_local()
            };
            database.on_shard(&key(), work).await.unwrap();
        });
    }

    /// Whichever was made first. One that waits after a failure keeps no other one waiting.
    #[test]
    fn of_tables_that_want_a_merge_the_one_with_most_sstables_comes_first() {
        for flushes in [[4, 6], [6, 4]] {
            run(async |database: Database| {
                let tables = [create(&database, "a").await, create(&database, "b").await];
                for (schema, flushes) in tables.iter().zip(flushes) {
                    for at in 0..flushes {
                        let mut mutation = Mutation::new(schema.id, key());
                        let row = Row { liveness: Some(Liveness::at(at)), ..Row::default() };
                        mutation.rows.push((ClusteringKey::empty(), row));
                        database.apply(mutation).await.unwrap();
                        database.flush(Some(schema.id)).await.unwrap();
                    }
                }
                let work = move |shard: Rc<Shard>| {
                    async move {
                        let mut names = Vec::new();
                        while let Some((table, _)) = shard.choose_compaction().await {
                            names.push(table.schema().name.clone());
                            shard.wait_after(table.schema().id, RETRY);
                        }
                        names
                    }
                    .boxed_local()
                };
                let names = database.on_shard(&key(), work).await.unwrap();
                let wanted = if flushes[0] > flushes[1] { ["a", "b"] } else { ["b", "a"] };
                assert_eq!(names, wanted, "{flushes:?}");
            });
        }
    }
}
