//! One shard: its tables and everything that they share.
//!
//! Invariant: a write is applied to the memtable only after the commitlog took it as durably as
//! the options demand; when memtables hold more than their share the largest is flushed, and past
//! twice the share writers wait.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use tokio::sync::{Notify, mpsc, oneshot};

use super::catalog::Catalog;
use super::layout::{self, Layout};
use super::report::PolicyReport;
use crate::batch::RecordBatch;
use crate::cache::PageCache;
use crate::commitlog::{
    self, Commitlog, CommitlogOptions, Durability, ReplayPosition, ReplaySummary,
};
use crate::disk::{read_file, write_file_atomically};
use crate::error::{Error, Result};
use crate::memtable::PendingWrite;
use crate::mutation::Mutation;
use crate::os;
use crate::runtime::{self, ShardContext};
use crate::schema::TableId;
use crate::schema::table_schema::SchemaRef;
use crate::table::{ReadCommand, Table, TableOpening, remove_leftovers};

/// Pause before a failed flush is tried again.
const FLUSH_RETRY: Duration = Duration::from_secs(1);
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
}

/// See the head of this file.
pub struct Shard {
    pub(super) context: Rc<ShardContext>,
    pub(super) options: ShardOptions,
    pub(super) cache: Rc<PageCache>,
    tables: RefCell<BTreeMap<TableId, Rc<Table>>>,
    commitlog: RefCell<Option<Rc<Commitlog>>>,
    /// A background flush is running.
    flushing: Cell<bool>,
    flushed: Notify,
    /// What the last flush in the background met.
    flush_error: RefCell<Option<Error>>,
    closing: Cell<bool>,
    /// What policies did that governed the cache earlier.
    pub(super) retired: RefCell<Vec<PolicyReport>>,
}

impl Shard {
    /// A shard without tables; `open_tables` comes next.
    pub(super) fn new(context: Rc<ShardContext>, options: ShardOptions) -> Rc<Shard> {
        let key = context.random.borrow_mut().next_u64();
        let cache = PageCache::new(options.cache_bytes, key);
        let shard = Rc::new(Shard {
            context,
            options,
            cache,
            tables: RefCell::default(),
            commitlog: RefCell::default(),
            flushing: Cell::new(false),
            flushed: Notify::new(),
            flush_error: RefCell::default(),
            closing: Cell::new(false),
            retired: RefCell::default(),
        });
        shard.start_native_policy();
        shard
    }

    /// Opens the tables, replays the commitlogs and writes what they held to SSTables. Returns the
    /// segments that are spent when every shard has come this far.
    ///
    /// Errors: `Io`, `Corrupt` naming the file.
    pub(super) async fn open_tables(
        self: &Rc<Self>,
        schemas: Vec<SchemaRef>,
        first_segment_min: u64,
    ) -> Result<Vec<PathBuf>> {
        let (shard, shard_count) = (self.context.shard, self.context.shard_count);
        let disk = self.context.disk.clone();
        let own = self.options.layout.commitlog(shard, shard_count);
        disk.create_directories(&own).await?;
        disk.sync_directory(&self.options.layout.commitlogs()).await?;
        // The segments of earlier runs, before this run adds its own.
        let old_logs = self.old_logs().await?;
        let commitlog = Commitlog::open(
            disk.clone(),
            self.context.clock.clone(),
            CommitlogOptions {
                directory: own,
                shard,
                shard_count,
                durability: self.options.durability,
                segment_bytes: self.options.commitlog_segment_bytes,
                first_segment_min,
            },
        )
        .await?;
        let first_segment = commitlog.current_position().segment;
        *self.commitlog.borrow_mut() = Some(commitlog);
        for schema in schemas {
            self.add_table(schema).await?;
        }
        let mut spent = Vec::new();
        for (directory, log) in old_logs {
            let summary = self.replay(&directory, log, first_segment).await?;
            spent.extend(summary.paths);
        }
        for table in self.tables() {
            table.flush().await?;
        }
        self.start_background();
        Ok(spent)
    }

    /// Cleans the data folder of what crashes left, `tables` being the folders of tables that exist.
    /// Returns the newest commitlog position that an SSTable reaches.
    ///
    /// Errors: `Io`, `Corrupt` naming the file.
    pub(super) async fn remove_leftovers(
        &self,
        tables: Vec<PathBuf>,
    ) -> Result<Option<ReplayPosition>> {
        let disk = &self.context.disk;
        let data = self.options.layout.data();
        disk.create_directories(&data).await?;
        let mut newest = None;
        for keyspace in disk.list(&data).await?.iter().filter(|entry| entry.is_directory) {
            let keyspace = data.join(&keyspace.name);
            for table in disk.list(&keyspace).await?.iter().filter(|entry| entry.is_directory) {
                let table = keyspace.join(&table.name);
                if tables.contains(&table) {
                    newest = newest.max(remove_leftovers(disk, &table).await?);
                } else if layout::is_table(&table) {
                    tracing::info!(directory = %table.display(), "removing a table that was dropped");
                    self.remove_directory(&table).await?;
                }
            }
        }
        Ok(newest)
    }

    /// Removes a folder of files.
    async fn remove_directory(&self, directory: &Path) -> Result<()> {
        let disk = &self.context.disk;
        for entry in disk.list(directory).await? {
            disk.remove(&directory.join(&entry.name)).await?;
        }
        disk.remove_directory(directory).await?;
        match directory.parent() {
            Some(parent) => disk.sync_directory(parent).await,
            None => Ok(()),
        }
    }

    /// Reads the catalog; a fresh one when the directory is new.
    ///
    /// Errors: `Unavailable` for a newer format, `Corrupt`, `Io`.
    pub(super) async fn load_catalog(&self) -> Result<Catalog> {
        let path = self.options.layout.catalog();
        match read_file(&*self.context.disk, &path).await {
            Ok(content) => Catalog::decode(&path, &content),
            Err(Error::Io { code: Some(os::ENOENT), .. }) => {
                let catalog = Catalog::new();
                let layout = &self.options.layout;
                for folder in [layout.commitlogs(), layout.data(), layout.policies()] {
                    self.context.disk.create_directories(&folder).await?;
                }
                // Makes the folders durable as well: they stand beside the catalog.
                self.store_catalog(&catalog).await?;
                self.sync_ancestors().await?;
                Ok(catalog)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes the data directory's own name durable, and those of folders made on the way to it.
    async fn sync_ancestors(&self) -> Result<()> {
        for ancestor in self.options.layout.root().ancestors().skip(1) {
            let is_here = ancestor.as_os_str().is_empty();
            let ancestor = if is_here { Path::new(".") } else { ancestor };
            match self.context.disk.sync_directory(ancestor).await {
                // What may not be read was not made by this process.
                Err(Error::Io { code: Some(os::EACCES), .. }) => {}
                result => result?,
            }
        }
        Ok(())
    }

    /// Replaces the catalog on disk, in one step.
    ///
    /// Errors: `Io`.
    pub(super) async fn store_catalog(&self, catalog: &Catalog) -> Result<()> {
        let path = self.options.layout.catalog();
        write_file_atomically(&*self.context.disk, &path, &catalog.encode()).await
    }

    /// Commitlog folders with the shard and shard count that wrote them: the own one, and those of
    /// other shard counts.
    async fn old_logs(&self) -> Result<Vec<(PathBuf, (u32, u32))>> {
        let own = (self.context.shard, self.context.shard_count);
        let commitlogs = self.options.layout.commitlogs();
        let entries = self.context.disk.list(&commitlogs).await?;
        Ok(entries
            .iter()
            .filter_map(|entry| Some((entry, layout::parse_commitlog_name(&entry.name)?)))
            .filter(|(_, log)| *log == own || log.1 != own.1)
            .map(|(entry, log)| (commitlogs.join(&entry.name), log))
            .collect())
    }

    async fn replay(
        &self,
        directory: &Path,
        log: (u32, u32),
        first_segment: u64,
    ) -> Result<ReplaySummary> {
        let (shard, shard_count) = (self.context.shard, self.context.shard_count);
        let mut flushed: BTreeMap<TableId, Option<ReplayPosition>> = BTreeMap::new();
        for table in self.tables() {
            flushed.insert(table.schema().id, table.flushed_through(log).await);
        }
        let tables = self.tables.borrow().clone();
        let mut apply = |position: ReplayPosition, mutation: Mutation| {
            let Some(table) = tables.get(&mutation.table) else {
                // The table was dropped.
                return Ok(());
            };
            let is_flushed = flushed[&mutation.table].is_some_and(|through| position <= through);
            let is_own = mutation.key.token().shard(shard_count) == shard;
            if !is_flushed && is_own {
                table.active().replay(mutation);
            }
            Ok(())
        };
        let is_own_log = log == (shard, shard_count);
        let before = if is_own_log { first_segment } else { u64::MAX };
        commitlog::replay(&self.context.disk, directory, before, &mut apply).await
    }

    /// Removes segments that every shard has replayed, and folders of other shard counts that are
    /// empty then.
    ///
    /// Errors: `Io`.
    pub(super) async fn remove_spent(&self, segments: Vec<PathBuf>) -> Result<()> {
        commitlog::remove_segments(&self.context.disk, &segments).await?;
        let commitlogs = self.options.layout.commitlogs();
        for entry in self.context.disk.list(&commitlogs).await? {
            let is_foreign = layout::parse_commitlog_name(&entry.name)
                .is_some_and(|(_, count)| count != self.context.shard_count);
            let path = commitlogs.join(&entry.name);
            if is_foreign && self.context.disk.list(&path).await?.is_empty() {
                self.context.disk.remove_directory(&path).await?;
            }
        }
        self.context.disk.sync_directory(&commitlogs).await
    }

    fn commitlog(&self) -> Result<Rc<Commitlog>> {
        self.commitlog.borrow().clone().ok_or(Error::Closed)
    }

    /// The table with this id.
    ///
    /// Errors: `NotFound` when it was dropped.
    pub fn table(&self, id: TableId) -> Result<Rc<Table>> {
        let table = self.tables.borrow().get(&id).cloned();
        table.ok_or_else(|| Error::NotFound { kind: "table", name: id.hex() })
    }

    pub(super) fn tables(&self) -> Vec<Rc<Table>> {
        self.tables.borrow().values().cloned().collect()
    }

    pub(super) async fn add_table(&self, schema: SchemaRef) -> Result<()> {
        let opening = TableOpening {
            schema: schema.clone(),
            root: self.options.layout.data(),
            disk: self.context.disk.clone(),
            commitlog: self.commitlog()?,
            cache: self.cache.clone(),
            shard: self.context.shard,
            shard_count: self.context.shard_count,
        };
        let table = Table::open(opening).await?;
        self.tables.borrow_mut().insert(schema.id, table);
        Ok(())
    }

    /// Forgets a dropped table: reads that run still end, its files may be removed afterwards.
    ///
    /// Errors: `Io`.
    pub(super) async fn remove_table(&self, id: TableId) -> Result<()> {
        let removed = self.tables.borrow_mut().remove(&id);
        let Some(table) = removed else { return Ok(()) };
        table.mark_dropped();
        // Waits for a flush that is writing files.
        table.flush().await?;
        table.release_commitlog().await
    }

    /// Removes the folder of a dropped table, once every shard has forgotten it.
    ///
    /// Errors: `Io`.
    pub(super) async fn remove_table_files(&self, schema: &SchemaRef) -> Result<()> {
        self.remove_directory(&self.options.layout.table(schema)).await
    }

    /// Applies a write; done when it is as durable as the options demand.
    ///
    /// Errors: `NotFound`, `Poisoned`, `Io` (disk full: retry later).
    pub fn apply(self: &Rc<Self>, mutation: Mutation) -> LocalBoxFuture<'static, Result<()>> {
        let shard = self.clone();
        async move {
            shard.wait_for_memory().await?;
            let pending = shard.begin(mutation)?;
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
            let mut pending = Vec::with_capacity(mutations.len());
            for mutation in mutations {
                if shard.is_over_memory() {
                    for write in pending.drain(..) {
                        shard.finish(write).await?;
                    }
                    shard.wait_for_memory().await?;
                }
                pending.push(shard.begin(mutation)?);
                runtime::maybe_yield().await;
            }
            for write in pending {
                shard.finish(write).await?;
            }
            Ok(())
        }
        .boxed_local()
    }

    /// Commitlog first, in one step with the announcement: positions rise in the order in which
    /// memtables are sealed.
    fn begin(
        &self,
        mutation: Mutation,
    ) -> Result<(PendingWrite, impl Future<Output = Result<()>> + use<>)> {
        let table = self.table(mutation.table)?;
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

    fn memtable_bytes(&self) -> usize {
        self.tables.borrow().values().map(|table| table.memtable_bytes()).sum()
    }

    fn is_over_memory(&self) -> bool {
        self.memtable_bytes() > 2 * self.options.memtable_bytes
    }

    /// Waits while memtables hold twice their share: flushing is behind.
    ///
    /// Errors: what the last flush met, above all a full disk; `Closed`.
    async fn wait_for_memory(self: &Rc<Self>) -> Result<()> {
        while self.is_over_memory() {
            if self.closing.get() {
                return Err(Error::Closed);
            }
            let flushed = self.flushed.notified();
            self.flush_in_background();
            if self.flush_error.borrow().is_none() {
                flushed.await;
            }
            let failure = self.flush_error.borrow().clone();
            if let Some(error) = failure.filter(|_| self.is_over_memory()) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Starts to flush the largest tables, unless a flush runs already.
    fn flush_in_background(self: &Rc<Self>) {
        if self.flushing.replace(true) {
            return;
        }
        let shard = self.clone();
        runtime::spawn_local("flush", async move {
            while shard.memtable_bytes() > shard.options.memtable_bytes && !shard.closing.get() {
                let largest = shard.tables().into_iter().max_by_key(|table| table.memtable_bytes());
                let Some(table) = largest else { break };
                let failure = table.flush().await.err();
                let has_failed = failure.is_some();
                if let Some(error) = &failure {
                    let (shard, table) = (shard.context.shard, table.schema().full_name());
                    tracing::error!(shard, table, %error, "flush failed; it will be tried again");
                }
                *shard.flush_error.borrow_mut() = failure;
                shard.flushed.notify_waiters();
                if has_failed {
                    shard.context.sleep(FLUSH_RETRY).await;
                }
            }
            shard.flushing.set(false);
            shard.flushed.notify_waiters();
        });
    }

    fn start_background(self: &Rc<Self>) {
        let shard = Rc::downgrade(self);
        let context = self.context.clone();
        let tick = match self.options.durability {
            Durability::Periodic { ms } => TICK.min(Duration::from_millis((ms / 2).max(1))),
            Durability::Sync | Durability::None => TICK,
        };
        runtime::spawn_local("tick", async move {
            loop {
                context.sleep(tick).await;
                let Some(shard) = shard.upgrade() else { return };
                let Ok(commitlog) = shard.commitlog() else { return };
                commitlog.tick();
                shard.cache.tick(context.clock.monotonic_ns());
                shard.cache.trim();
            }
        });
    }

    /// Runs a read, see [`Table::stream`].
    pub fn stream(
        self: Rc<Self>,
        command: ReadCommand,
        batches: mpsc::Sender<Result<RecordBatch>>,
    ) -> LocalBoxFuture<'static, ()> {
        async move {
            let now = i32::try_from(self.context.clock.wall_seconds()).unwrap_or(i32::MAX);
            match self.table(command.schema.id) {
                Ok(table) => table.stream(command, now, batches).await,
                Err(error) => {
                    // The receiver may be gone already; then nobody wants the error.
                    let _ = batches.send(Err(error)).await;
                }
            }
        }
        .boxed_local()
    }

    /// Flushes one table, or all.
    ///
    /// Errors: `NotFound`, `Io`.
    pub(super) async fn flush(&self, table: Option<TableId>) -> Result<()> {
        let tables = match table {
            Some(id) => vec![self.table(id)?],
            None => self.tables(),
        };
        for table in tables {
            // A task of its own: a flush must not stop half-way when its caller goes.
            let (sender, flushed) = oneshot::channel();
            runtime::spawn_local("flush", async move {
                // Nobody waits any more when the caller has gone.
                let _ = sender.send(table.flush().await);
            });
            flushed.await.map_err(|_| Error::Closed)??;
        }
        Ok(())
    }

    /// Writes everything to SSTables and ends the commitlog.
    ///
    /// Errors: `Io`; what is not in SSTables is still in the commitlog then.
    pub(super) async fn close(&self) -> Result<()> {
        self.closing.set(true);
        self.flushed.notify_waiters();
        let flushed = self.flush(None).await;
        let commitlog = self.commitlog.borrow_mut().take();
        if let Some(commitlog) = commitlog {
            commitlog.close().await?;
        }
        flushed
    }
}
