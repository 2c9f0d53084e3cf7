//! One shard: its tables and everything that they share.
//!
//! Invariant: a write is applied to the memtable only after the commitlog took it as durably as
//! the options demand; when memtables hold more than their share the largest is flushed, and past
//! twice the share writers wait.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use tokio::sync::{Notify, mpsc};

use super::flushing::Flushing;
use super::layout::Layout;
use super::log_limit::LogLimit;
use super::replaying::LeftOut;
use super::rows::free_rows;
use crate::cache::PageCache;
use crate::clock::Random;
use crate::commitlog::{Commitlog, Durability, Recovery};
use crate::error::{Error, Result};
use crate::governance::{Governed, Parts, PolicyFiles, ShardPolicies};
use crate::intake::{Intake, ReadMemory};
use crate::ledger::Ledger;
use crate::memtable::PendingWrite;
use crate::mutation::Mutation;
use crate::os;
use crate::policy::intake::ReadClass;
use crate::policy::rate::Operation;
use crate::rate::Limiter;
use crate::runtime::{self, ShardContext};
use crate::schema::table_schema::SchemaRef;
use crate::schema::{LargeDataThresholds, PartitionKey, TableId};
use crate::table::{Partitions, Reached, ReadCommand, Sent, Table, TableOpening, TableStats};

/// Longest time between two looks at what time brings: unsynced records, waiting cache events.
const TICK: Duration = Duration::from_millis(50);

/// What a shard needs to know of the options.
#[derive(Debug, Clone)]
pub(super) struct ShardOptions {
    pub(super) layout: Layout,
    pub(super) durability: Durability,
    pub(super) memtable_bytes: usize,
    pub(super) cache_bytes: usize,
    pub(super) commitlog_segment_bytes: usize,
    pub(super) commitlog_bytes: usize,
    pub(super) recovery: Recovery,
    pub(super) large_data: LargeDataThresholds,
    /// Files for reading that may be open while nobody reads them.
    pub(super) open_files: usize,
    /// Memory for the batches of reads, of all shards.
    pub(super) read_memory: Arc<ReadMemory>,
    /// Held by every shard: the last that ends lets the directory go.
    pub(super) _lock: Option<Arc<os::LockFile>>,
}

/// See the head of this file.
pub struct Shard {
    pub(super) context: Rc<ShardContext>,
    pub(super) options: ShardOptions,
    pub(super) cache: Rc<PageCache>,
    /// A table that could not be opened answers why.
    pub(super) tables: RefCell<BTreeMap<TableId, Result<Rc<Table>>>>,
    /// What writes are told where there is none.
    pub(super) commitlog: RefCell<Result<Rc<Commitlog>>>,
    pub(super) log_limit: LogLimit,
    /// What must be on disk; none before the tables are opened.
    pub(super) ledger: RefCell<Option<Rc<Ledger>>>,
    /// Segments of the commitlog with lesser ids are of earlier runs.
    pub(super) first_segment: Cell<u64>,
    /// What replay left out.
    pub(super) left_out: RefCell<Vec<LeftOut>>,
    /// Bytes of all memtables that were not flushed.
    pub(super) unflushed_bytes: Rc<Cell<usize>>,
    pub(super) flushing: Flushing,
    pub(super) closing: Cell<bool>,
    /// Told when `closing` is set.
    closed: Notify,
    /// Limits of how often a partition is read and written.
    pub(super) limiter: Rc<RefCell<Limiter>>,
    /// What is let in, and what waits for it.
    pub(super) intake: Rc<Intake>,
    policies: Rc<ShardPolicies>,
}

impl Shard {
    /// A shard without tables; `open_tables` comes next.
    pub(super) fn new(context: Rc<ShardContext>, options: ShardOptions) -> Rc<Shard> {
        let key = context.random.borrow_mut().next_u64();
        let cache = PageCache::new(options.cache_bytes, key);
        context.files.set_max(options.open_files);
        // Of the key, so that the draws of the shard stay what they were.
        let limiter = Rc::new(RefCell::new(Limiter::new(Random::new(key).next_u64())));
        let intake = Rc::new(Intake::new(context.clock.clone(), options.read_memory.clone()));
        let policies = ShardPolicies::new(Parts {
            context: context.clone(),
            cache: cache.clone(),
            limiter: limiter.clone(),
            intake: intake.clone(),
            files: PolicyFiles::new(options.layout.policies()),
        });
        Rc::new(Shard {
            context,
            options,
            cache,
            tables: RefCell::default(),
            commitlog: RefCell::new(Err(Error::Closed)),
            log_limit: LogLimit::default(),
            ledger: RefCell::default(),
            first_segment: Cell::new(0),
            left_out: RefCell::default(),
            unflushed_bytes: Rc::default(),
            flushing: Flushing::default(),
            closing: Cell::new(false),
            closed: Notify::new(),
            limiter,
            intake,
            policies,
        })
    }

    pub(super) fn commitlog(&self) -> Result<Rc<Commitlog>> {
        self.commitlog.borrow().clone()
    }

    pub(super) fn check_open(&self) -> Result<()> {
        if self.closing.get() { Err(Error::Closed) } else { Ok(()) }
    }

    /// The table with this id.
    ///
    /// Errors: `NotFound` when it was dropped; why it could not be opened.
    pub fn table(&self, id: TableId) -> Result<Rc<Table>> {
        let unknown = || Err(Error::NotFound { kind: "table", name: id.hex() });
        self.tables.borrow().get(&id).cloned().unwrap_or_else(unknown)
    }

    pub(super) fn tables(&self) -> Vec<Rc<Table>> {
        self.tables.borrow().values().flatten().cloned().collect()
    }

    /// The memory that the batches of reads have, of all shards.
    pub fn read_memory(&self) -> &Arc<ReadMemory> {
        self.intake.memory()
    }

    /// Sizes of each table, and what is wrong with it.
    pub(super) fn report_tables(&self) -> Vec<(TableId, TableStats, Option<String>)> {
        let report = |(id, table): (&TableId, &Result<Rc<Table>>)| match table {
            Ok(table) => (*id, table.stats(), table.stuck().map(|error| error.to_string())),
            Err(error) => (*id, TableStats::default(), Some(error.to_string())),
        };
        self.tables.borrow().iter().map(report).collect()
    }

    /// Opens a table of which the ledgers know what its manifests have reached, and the greatest
    /// number of an SSTable that is gone.
    pub(super) async fn add_table(
        &self,
        schema: SchemaRef,
        (reached, generation_max): (Reached, u64),
    ) -> Result<()> {
        self.check_open()?;
        let ledger = self.ledger.borrow().clone().ok_or(Error::Closed)?;
        let opening = TableOpening {
            schema: schema.clone(),
            directory: self.options.layout.table(&schema),
            disk: self.context.disk.clone(),
            commitlog: self.commitlog().ok(),
            ledger,
            reached,
            generation_max,
            cache: self.cache.clone(),
            shard_bytes: self.unflushed_bytes.clone(),
            shard: self.context.shard,
            shard_count: self.context.shard_count,
            large_data: self.options.large_data,
        };
        let table = Table::open(opening).await?;
        self.tables.borrow_mut().insert(schema.id, Ok(table));
        Ok(())
    }

    /// Gives a table its changed options; false when it could not be opened, and has none yet.
    ///
    /// Errors: `NotFound`.
    pub(super) fn set_options(&self, schema: &SchemaRef) -> Result<bool> {
        match self.tables.borrow().get(&schema.id) {
            Some(Ok(table)) => {
                table.set_options(schema.options.clone());
                Ok(true)
            }
            Some(Err(_)) => Ok(false),
            None => Err(Error::NotFound { kind: "table", name: schema.full_name() }),
        }
    }

    /// Forgets a dropped table: reads that run still end, its files may be removed afterwards.
    ///
    /// Errors: `Io`.
    pub(super) async fn remove_table(&self, id: TableId) -> Result<()> {
        let removed = self.tables.borrow_mut().remove(&id);
        let Some(Ok(table)) = removed else { return Ok(()) };
        table.mark_dropped();
        table.rows().close();
        free_rows(&table).await;
        // Waits for a flush that is writing files.
        let flushed = table.flush().await;
        self.note_stuck();
        // Whatever failed: the name is gone, and nobody can drop the table again.
        let released = table.release_commitlog().await;
        let kept = table.keep_files_of_readers().await;
        flushed.and(released).and(kept)
    }

    /// Removes the folder of a dropped table, once every shard has forgotten it.
    ///
    /// Errors: `Io`.
    pub(super) async fn remove_table_files(&self, schema: &SchemaRef) -> Result<()> {
        self.remove_directory(&self.options.layout.table(schema)).await
    }

    /// Applies a write; done when it is as durable as the options demand.
    ///
    /// Errors: `NotFound`, `Poisoned`, `Io` (disk full: retry later), `RateLimited`, `Overloaded`.
    pub fn apply(self: &Rc<Self>, mutation: Mutation) -> LocalBoxFuture<'static, Result<()>> {
        let shard = self.clone();
        async move {
            // First of all: what is refused must cost next to nothing.
            let mut table = shard.table(mutation.table)?;
            shard.intake.admit_write()?;
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
            shard.intake.admit_write()?;
            let mut pending = Vec::with_capacity(mutations.len());
            let mut was_slowed = false;
            for mutation in mutations {
                if shard.is_over_memory() {
                    shard.finish_all(std::mem::take(&mut pending)).await?;
                    shard.wait_for_memory().await?;
                }
                if shard.is_log_long() {
                    // A flush waits for those that are announced: none may be while this one waits.
                    if shard.is_log_near_limit() {
                        shard.finish_all(std::mem::take(&mut pending)).await?;
                    }
                    shard.wait_for_log(&mut was_slowed).await?;
                }
                let begun = shard.table(mutation.table).and_then(|table| {
                    shard.admit(&table, &mutation.key, Operation::Write)?;
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

    /// Counts a read or write against the limit of its partition.
    ///
    /// Errors: `RateLimited`.
    fn admit(&self, table: &Table, key: &PartitionKey, operation: Operation) -> Result<()> {
        let options = table.options();
        let limits = &options.per_partition_rate_limit;
        if !Limiter::is_limited(limits, operation) {
            return Ok(());
        }
        let now_us = self.context.clock.wall_us();
        let token = key.token();
        self.limiter.borrow_mut().admit(table.schema(), limits, token, operation, now_us)
    }

    /// Refuses a partition of another shard: what is written or sought here is not found there.
    ///
    /// Errors: `Invalid`.
    fn check_owned(&self, key: &PartitionKey) -> Result<()> {
        let own = self.context.shard;
        match key.token().shard(self.context.shard_count) {
            owner if owner == own => Ok(()),
            owner => Err(Error::invalid(format!(
                "{key:?} belongs to shard {owner} and was given to shard {own}: go through the \
                 database, or through `on_shard` with this key"
            ))),
        }
    }

    /// Counts a read of each partition that is named.
    ///
    /// Errors: `RateLimited`; `Invalid` for a partition of another shard.
    fn admit_read(&self, table: &Table, partitions: &Partitions) -> Result<()> {
        match partitions {
            Partitions::Keys(keys) => keys.iter().try_for_each(|key| {
                self.check_owned(key)?;
                self.admit(table, key, Operation::Read)
            }),
            Partitions::Shard(_) => Ok(()),
        }
    }

    /// Waits for each write, also after one that failed; the first error is told.
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

    pub(super) fn start_background(self: &Rc<Self>) {
        let shard = Rc::downgrade(self);
        let context = self.context.clone();
        let tick = match self.options.durability {
            Durability::Periodic { ms } => TICK.min(Duration::from_millis((ms / 2).max(1))),
            Durability::Sync | Durability::None => TICK,
        };
        runtime::spawn_local("tick", async move {
            loop {
                context.sleep(tick).await;
                let Some(shard) = shard.upgrade().filter(|shard| !shard.closing.get()) else {
                    return;
                };
                if let Ok(commitlog) = shard.commitlog() {
                    commitlog.tick();
                }
                shard.cache.tick(context.clock.monotonic_ns());
                shard.cache.trim();
                shard.retry_stuck();
                shard.policies.tick();
                shard.watch_intake();
            }
        });
    }

    /// Refuses what waited for too long, and follows the plans of policies.
    fn watch_intake(&self) {
        let most = 2 * self.options.memtable_bytes;
        self.intake.tick(self.memtable_bytes() as u64, most as u64);
        if self.intake.has_late_write() {
            self.wake_log_waiters();
            self.flushing.flushed.notify_waiters();
        }
    }

    /// Runs a read, see [`Table::stream`]; sets `is_complete` when all was sent. This is where
    /// reads enter: limits of partitions first, then a turn.
    pub(super) fn stream(
        self: Rc<Self>,
        command: ReadCommand,
        batches: mpsc::Sender<Result<Sent>>,
        is_complete: Arc<AtomicBool>,
    ) -> LocalBoxFuture<'static, ()> {
        async move {
            let now = i32::try_from(self.context.clock.wall_seconds()).unwrap_or(i32::MAX);
            let closed = self.closed.notified();
            let class = match &command.partitions {
                Partitions::Keys(_) => ReadClass::Keys,
                Partitions::Shard(_) => ReadClass::Scan,
            };
            let read = async {
                self.check_open()?;
                let id = command.schema.id;
                let table = self.table(id)?;
                self.admit_read(&table, &command.partitions)?;
                let mut permit = tokio::select! {
                    biased;
                    permit = self.intake.admit(class) => permit?,
                    () = batches.closed() => return Ok(()),
                };
                // Meanwhile it may have been dropped.
                let table = self.table(id)?;
                let stream = table.stream(command, now, batches.clone(), &mut permit);
                self.intake.measured(class, stream).await;
                Ok(())
            };
            // A reader that takes nothing must not keep the shard from closing.
            let ended = tokio::select! {
                biased;
                () = closed => Err(Error::Closed),
                ended = read => ended,
            };
            match ended {
                Ok(()) => is_complete.store(true, Ordering::Release),
                Err(error) => {
                    // A receiver that is full sees a stream that was cut; one that is gone,
                    // nothing.
                    let _ = batches.try_send(Err(error));
                }
            }
        }
        .boxed_local()
    }

    /// Writes everything to SSTables and ends the commitlog.
    ///
    /// Errors: `Io`; what is not in SSTables is still in the commitlog then.
    pub(super) async fn close(&self) -> Result<()> {
        self.closing.set(true);
        self.closed.notify_waiters();
        self.wake_log_waiters();
        self.flushing.flushed.notify_waiters();
        self.policies.close().await;
        let flushed = self.flush(None).await;
        let commitlog = self.commitlog.replace(Err(Error::Closed));
        if let Ok(commitlog) = commitlog {
            commitlog.close().await?;
        }
        flushed
    }
}

impl Governed for Shard {
    fn policies(&self) -> &Rc<ShardPolicies> {
        &self.policies
    }
}
