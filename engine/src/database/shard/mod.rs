//! One shard: its tables and everything that they share.
//!
//! Invariant: a write is applied to the memtable only after the commitlog took it as durably as
//! the options demand; when memtables hold more than their share the largest is flushed, and past
//! twice the share writers wait.
//!
//! `opening.rs` and `replaying.rs` start it. Writes and reads enter through `write.rs` and
//! `read.rs`, those that depend on what is there through `conditional/`; `call.rs` answers what
//! callers ask most. `flushing.rs` decides when to flush,
//! `log_limit.rs` limits the log and `log_shortening.rs` shortens it. `compacting.rs` decides when
//! to merge SSTables. `tick.rs` does periodic work.

pub(in crate::database) mod call;
mod compacting;
mod compaction_state;
pub(in crate::database) mod conditional;
mod flush_state;
mod flushing;
mod left_out;
pub(in crate::database) mod log_limit;
mod log_shortening;
pub(in crate::database) mod opening;
pub(in crate::database) mod read;
pub(in crate::database) mod recording;
mod replaying;
mod tick;
mod write;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::Notify;

use self::compaction_state::Compacting;
pub(in crate::database) use self::compaction_state::Job;
pub use self::compaction_state::{CompactionEnd, CompactionRecord};
use self::conditional::Locks;
pub use self::conditional::{ConditionalWrite, Decision};
use self::flush_state::Flushing;
pub use self::left_out::LeftOut;
use self::log_limit::LogLimit;
use super::layout::Layout;
use super::snapshot::logged::LoggedBatches;
use crate::admission::rate::{Asked, HotPartitions, Limiter};
use crate::admission::{Admission, FailFast, ReadMemory};
use crate::cache::PageCache;
use crate::clock::{Random, Timestamps};
use crate::commitlog::{Commitlog, Durability, Recovery};
use crate::error::{Error, Result};
use crate::governance::{Governed, Parts, PolicyFiles, ShardPolicies};
use crate::ledger::Ledger;
use crate::os;
use crate::policy::rate::Operation;
use crate::runtime::ShardContext;
use crate::schema::table_schema::SchemaRef;
use crate::schema::{ColumnId, LargeDataThresholds, PartitionKey, TableId};
use crate::table::{Handovers, Reached, Table, TableOpening, TableStats, TombstoneLimits};

/// What a shard needs to know of the options.
#[derive(Debug, Clone)]
pub(in crate::database) struct ShardOptions {
    pub(in crate::database) layout: Layout,
    pub(in crate::database) durability: Durability,
    pub(in crate::database) memtable_bytes: usize,
    pub(in crate::database) cache_bytes: usize,
    pub(in crate::database) commitlog_segment_bytes: usize,
    pub(in crate::database) commitlog_bytes: usize,
    pub(in crate::database) recovery: Recovery,
    pub(in crate::database) large_data: LargeDataThresholds,
    pub(in crate::database) tombstones: TombstoneLimits,
    /// Files for reading that may be open while nobody reads them.
    pub(in crate::database) open_files: usize,
    /// Memory for the batches of reads, of all shards.
    pub(in crate::database) read_memory: Arc<ReadMemory>,
    /// What the shards say of SSTables of another shard count.
    pub(in crate::database) handovers: Arc<Handovers>,
    /// Of all shards.
    pub(in crate::database) timestamps: Arc<Timestamps>,
    pub(in crate::database) logged_batches: Arc<LoggedBatches>,
    /// What callers of the shard refuse by themselves.
    pub(in crate::database) fail_fast: Arc<FailFast>,
    /// Held by every shard: the last that ends lets the directory go.
    pub(in crate::database) _lock: Option<Arc<os::LockFile>>,
}

/// See the head of this file.
pub struct Shard {
    pub(in crate::database) context: Rc<ShardContext>,
    pub(in crate::database) options: ShardOptions,
    pub(in crate::database) cache: Rc<PageCache>,
    /// A table that could not be opened answers why.
    pub(in crate::database) tables: RefCell<BTreeMap<TableId, Result<Rc<Table>>>>,
    /// What writes are told where there is none.
    pub(in crate::database) commitlog: RefCell<Result<Rc<Commitlog>>>,
    pub(in crate::database) log_limit: LogLimit,
    /// What must be on disk; none before the tables are opened.
    pub(in crate::database) ledger: RefCell<Option<Rc<Ledger>>>,
    /// Segments of the commitlog with lesser ids are of earlier runs.
    pub(in crate::database) first_segment: Cell<u64>,
    /// What replay left out.
    pub(in crate::database) left_out: RefCell<Vec<LeftOut>>,
    /// Bytes of all memtables that were not flushed.
    pub(in crate::database) unflushed_bytes: Rc<Cell<usize>>,
    pub(in crate::database) flushing: Flushing,
    compacting: Compacting,
    pub(in crate::database) closing: Cell<bool>,
    /// Told when `closing` is set.
    pub(in crate::database) closed: Notify,
    /// Who may write to which partition.
    locks: Rc<Locks>,
    /// The folder of logged batches is there, durably.
    pub(in crate::database) has_batches_folder: Cell<bool>,
    /// Limits of how often a partition is read and written.
    pub(in crate::database) limiter: Rc<RefCell<Limiter>>,
    /// Which partitions are asked most.
    pub(in crate::database) hot: RefCell<HotPartitions>,
    /// What is let in, and what waits for it.
    pub(in crate::database) admission: Rc<Admission>,
    policies: Rc<ShardPolicies>,
}

impl Shard {
    /// A shard without tables; `open_tables` comes next.
    pub(in crate::database) fn new(context: Rc<ShardContext>, options: ShardOptions) -> Rc<Shard> {
        let key = context.random.borrow_mut().next_u64();
        let cache = PageCache::new(options.cache_bytes, key);
        context.files.set_max(options.open_files);
        // Of the key, so that the draws of the shard stay what they were.
        let mut of_key = Random::new(key);
        let fail_fast = options.fail_fast.clone();
        let limiter = Limiter::new(of_key.next_u64(), fail_fast.rates.clone());
        let limiter = Rc::new(RefCell::new(limiter));
        let hot = HotPartitions::new(of_key.next_u64(), context.clock.monotonic_ns());
        let memory = options.read_memory.clone();
        let admission = Rc::new(Admission::new(context.clock.clone(), memory, fail_fast));
        let compacting = Compacting::default();
        let policies = ShardPolicies::new(Parts {
            context: context.clone(),
            cache: cache.clone(),
            limiter: limiter.clone(),
            admission: admission.clone(),
            compactions: compacting.chooser.clone(),
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
            compacting,
            closing: Cell::new(false),
            closed: Notify::new(),
            locks: Rc::default(),
            has_batches_folder: Cell::new(false),
            limiter,
            hot: RefCell::new(hot),
            admission,
            policies,
        })
    }

    pub(in crate::database) fn commitlog(&self) -> Result<Rc<Commitlog>> {
        self.commitlog.borrow().clone()
    }

    pub(in crate::database) fn check_open(&self) -> Result<()> {
        if self.closing.get() { Err(Error::Closed) } else { Ok(()) }
    }

    /// The table with this id.
    ///
    /// Errors: `NotFound` when it was dropped; why it could not be opened.
    pub fn table(&self, id: TableId) -> Result<Rc<Table>> {
        let unknown = || Err(Error::NotFound { kind: "table", name: id.hex() });
        self.tables.borrow().get(&id).cloned().unwrap_or_else(unknown)
    }

    pub(in crate::database) fn tables(&self) -> Vec<Rc<Table>> {
        self.tables.borrow().values().flatten().cloned().collect()
    }

    /// The memory that the batches of reads have, of all shards.
    pub fn read_memory(&self) -> &Arc<ReadMemory> {
        self.admission.memory()
    }

    /// Sizes of each table, and what is wrong with it.
    pub(in crate::database) fn report_tables(&self) -> Vec<(TableId, TableStats, Option<String>)> {
        let report = |(id, table): (&TableId, &Result<Rc<Table>>)| match table {
            Ok(table) => (*id, table.stats(), table.stuck().map(|error| error.to_string())),
            Err(error) => (*id, TableStats::default(), Some(error.to_string())),
        };
        self.tables.borrow().iter().map(report).collect()
    }

    /// Opens a table of which the ledgers know what its manifests have reached, and the greatest
    /// number of an SSTable that is gone.
    pub(in crate::database) async fn add_table(
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
            tombstones: self.options.tombstones,
            handovers: self.options.handovers.clone(),
        };
        let table = Table::open(opening).await?;
        self.tables.borrow_mut().insert(schema.id, Ok(table));
        Ok(())
    }

    /// Gives a table its changed definition; false when it could not be opened, and has none yet.
    ///
    /// Errors: `NotFound`.
    pub(in crate::database) fn set_schema(&self, schema: SchemaRef) -> Result<bool> {
        match self.tables.borrow().get(&schema.id) {
            Some(Ok(table)) => {
                // The limits may be others now.
                self.limiter.borrow_mut().withdraw();
                table.set_schema(schema);
                Ok(true)
            }
            Some(Err(_)) => Ok(false),
            None => Err(Error::NotFound { kind: "table", name: schema.full_name() }),
        }
    }

    /// Has a table refuse writes to these columns, and to no others.
    pub(in crate::database) fn refuse_columns(&self, id: TableId, columns: Vec<ColumnId>) {
        if let Ok(table) = self.table(id) {
            table.refuse_columns(columns);
        }
    }

    /// Forgets a dropped table: reads that run still end, its files may be removed afterwards.
    ///
    /// Errors: `Io`.
    pub(in crate::database) async fn remove_table(&self, id: TableId) -> Result<()> {
        let removed = self.tables.borrow_mut().remove(&id);
        let Some(Ok(table)) = removed else { return Ok(()) };
        self.limiter.borrow_mut().withdraw();
        table.mark_dropped();
        // It would write files into a folder that is about to go.
        self.stop_compactions(Some(id)).await;
        self.options.handovers.forget(id);
        table.rows().close();
        table.free_rows().await;
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
    pub(in crate::database) async fn remove_table_files(&self, schema: &SchemaRef) -> Result<()> {
        self.remove_directory(&self.options.layout.table(schema)).await
    }

    /// Counts a read or write of a partition, and against its limit.
    ///
    /// Errors: `RateLimited`.
    fn admit(&self, table: &Table, key: &PartitionKey, operation: Operation) -> Result<()> {
        self.admit_unless(false, table, (key, operation))
    }

    /// As `admit`; against its limit only where the caller has not counted the operation.
    fn admit_unless(
        &self,
        is_counted: bool,
        table: &Table,
        (key, operation): (&PartitionKey, Operation),
    ) -> Result<()> {
        let admitted = if is_counted {
            self.limiter.borrow_mut().note_counted(operation);
            Ok(())
        } else {
            self.admit_within_limit(table, key, operation)
        };
        self.hot.borrow_mut().count((table.id(), key), operation, admitted.is_err());
        admitted
    }

    fn admit_within_limit(
        &self,
        table: &Table,
        key: &PartitionKey,
        operation: Operation,
    ) -> Result<()> {
        if !Limiter::is_limited(&table.options().per_partition_rate_limit, operation) {
            return Ok(());
        }
        let (schema, now_us) = (table.schema(), self.context.clock.wall_us());
        let limits = schema.rate_limit_on(self.context.shard_count);
        let token = key.rate_token(&schema)?;
        self.limiter.borrow_mut().admit(&schema, &limits, token, operation, now_us)
    }

    /// Takes over what callers refused of partitions that are asked far beyond their limits.
    pub(in crate::database) fn take_refused(&self) {
        let now_us = self.context.clock.wall_us();
        let refused = self.limiter.borrow_mut().take_refused(now_us);
        let mut hot = self.hot.borrow_mut();
        for (Asked { table, token, operation }, times) in refused {
            // What several partitions share says nothing of any of them.
            let is_shared = self.table(table).is_ok_and(|t| t.options().rate_limit_by.is_some());
            if is_shared {
                continue;
            }
            hot.count_refused((table, token), operation, times);
        }
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

    /// Writes everything to SSTables and ends the commitlog.
    ///
    /// Errors: `Io`; what is not in SSTables is still in the commitlog then.
    pub(in crate::database) async fn close(self: &Rc<Self>) -> Result<()> {
        self.closing.set(true);
        self.limiter.borrow_mut().withdraw();
        self.closed.notify_waiters();
        self.wake_log_waiters();
        self.flushing.flushed.notify_waiters();
        self.policies.close().await;
        self.stop_compactions(None).await;
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
