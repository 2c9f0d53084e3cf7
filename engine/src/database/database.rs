//! Opening, routing and changing a database.

use std::future::ready;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, LocalBoxFuture, join_all, try_join_all};

use super::catalog::{Catalog, check_name, shared};
use super::keeper::CatalogKeeper;
use super::layout::Layout;
use super::ring::Ring;
use super::shard::opening::Ledgers;
use super::shard::recording::Recording;
use super::shard::{LeftOut, Shard, ShardOptions, log_limit};
use super::snapshot::logged::LoggedBatches;
use crate::admission::{FailFast, ReadMemory};
use crate::clock::{Clock, Random, SystemClock, Timestamps};
use crate::commitlog::{Durability, Recovery};
use crate::config::{
    BATCHES_BYTES_DEFAULT, CACHE_BYTES_DEFAULT, COMMITLOG_BYTES_DEFAULT, COMMITLOG_SEGMENT_BYTES,
    MEMTABLE_BYTES_DEFAULT, OPEN_FILES_MAX, OPEN_FILES_ONE_IN,
};
use crate::disk::Backend;
use crate::error::{Error, Result};
use crate::governance::{self, Governance, PolicyFiles, Setting};
use crate::io::{Class, Scheduler, run_as};
use crate::os;
use crate::plugin::CompilerCommand;
use crate::runtime::{ExecutorOptions, ShardContext, ShardHandle, start, start_local};
use crate::schema::table_schema::SchemaRef;
use crate::schema::{LargeDataThresholds, PartitionKey, TableId, TableSchema};
use crate::table::{Handovers, Reached, TombstoneLimits};

/// How a database is opened.
#[derive(Debug, Clone)]
pub struct Options {
    pub directory: PathBuf,
    /// One a core where absent.
    pub shards: Option<u32>,
    pub backend: Backend,
    /// When a write is acknowledged.
    pub durability: Durability,
    /// Bytes of memtables a shard holds before the largest is flushed.
    pub memtable_bytes: usize,
    /// Bytes of the page cache of a shard.
    pub cache_bytes: usize,
    /// Files for reading that all shards together may have open while nobody reads them; half of
    /// what the process may have where absent.
    pub open_files: Option<usize>,
    /// Bytes of the batches of all reads of all shards that their receivers have not taken yet.
    pub read_memory_bytes: u64,
    /// Size of a commitlog segment.
    pub commitlog_segment_bytes: usize,
    /// Bytes that the segments of a shard's commitlog take at most: near them tables are flushed
    /// for its sake, then writes are slowed down, then they wait. At least eight segments.
    pub commitlog_bytes: usize,
    /// What is done when a commitlog of an earlier run is damaged or incomplete.
    pub recovery: Recovery,
    /// From which sizes on data is recorded and warned of as large, unless a table says otherwise.
    pub large_data: LargeDataThresholds,
    /// How many tombstones a read may meet for a page of rows.
    pub tombstones: TombstoneLimits,
    /// Compiles policies in a process of its own; in this process where absent.
    pub policy_compiler: Option<CompilerCommand>,
    pub clock: Arc<dyn Clock>,
    pub seed: u64,
    /// The cluster of which it is a node.
    pub ring: Option<Arc<Ring>>,
}

impl Options {
    /// Defaults for a data directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Options {
            directory: directory.into(),
            shards: None,
            backend: Backend::default(),
            durability: Durability::Sync,
            memtable_bytes: MEMTABLE_BYTES_DEFAULT,
            cache_bytes: CACHE_BYTES_DEFAULT,
            open_files: None,
            read_memory_bytes: BATCHES_BYTES_DEFAULT,
            commitlog_segment_bytes: COMMITLOG_SEGMENT_BYTES,
            commitlog_bytes: COMMITLOG_BYTES_DEFAULT,
            recovery: Recovery::default(),
            large_data: LargeDataThresholds::default(),
            tombstones: TombstoneLimits::default(),
            policy_compiler: None,
            clock: SystemClock::shared(),
            seed: 0,
            ring: None,
        }
    }
}

/// An open database. Cheap to clone; all clones are the same database.
///
/// Its futures are boxed: an `async fn` is compiled in the crate that awaits it, so a program that
/// embeds the engine would compile the engine again, with its own level of optimisation.
#[derive(Clone)]
pub struct Database {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) options: Options,
    pub(super) shards: Vec<ShardHandle<Shard>>,
    keeper: Arc<CatalogKeeper>,
    pub(super) governance: Governance,
    /// The trace that is recorded.
    pub(super) recording: tokio::sync::Mutex<Option<Recording>>,
    timestamps: Arc<Timestamps>,
    logged_batches: Arc<LoggedBatches>,
    /// Of each shard.
    pub(super) fail_fast: Vec<Arc<FailFast>>,
}

impl Database {
    /// Opens a data directory, creating it when it is absent.
    ///
    /// Errors: `Unavailable` when another process has it open or a newer version wrote it,
    /// `Corrupt` and `Io` naming the file.
    pub fn open(options: Options) -> BoxFuture<'static, Result<Database>> {
        async move {
            let layout = Layout::new(&options.directory);
            let root = layout.root();
            os::create_directories(root).map_err(|error| Error::io("create", root, &error))?;
            let lock = Arc::new(lock(&layout)?);
            let cores =
                os::available_cores().map_err(|error| Error::io("count cores of", root, &error))?;
            let shard_count = match options.shards {
                Some(0) => return Err(Error::invalid("a database has at least one shard")),
                Some(count) => count,
                None => cores.len() as u32,
            };
            let shared = Shared::new(&options, shard_count);
            let scheduler =
                Scheduler::of_directory(layout.root(), shard_count, options.clock.monotonic_ns())?;
            let mut shards = Shards::default();
            for shard in 0..shard_count {
                let executor = ExecutorOptions {
                    shard,
                    shard_count,
                    // More shards than cores share them as the kernel sees fit.
                    core: (shard_count as usize <= cores.len()).then(|| cores[shard as usize]),
                    backend: options.backend,
                    clock: options.clock.clone(),
                    seed: options.seed,
                    scheduler: scheduler.clone(),
                };
                let shard_options =
                    shard_options(&options, shard, &shared, (&layout, Some(lock.clone())));
                let init =
                    move |context| ready(Ok(Shard::new(context, shard_options))).boxed_local();
                shards.add(start(executor, init).await).await?;
            }
            shards.assemble(options, (layout, shared)).await
        }
        .boxed()
    }

    /// Opens a database whose shards run on the calling thread's `LocalSet`, on disks, a clock and
    /// a timer that are handed in: simulation. One shard a context.
    ///
    /// Errors: as `open`.
    pub fn open_local(
        options: Options,
        contexts: Vec<Rc<ShardContext>>,
    ) -> LocalBoxFuture<'static, Result<Database>> {
        async move {
            let layout = Layout::new(&options.directory);
            let shared = Shared::new(&options, contexts.len() as u32);
            let mut shards = Shards::default();
            for context in contexts {
                let shard_options =
                    shard_options(&options, context.shard, &shared, (&layout, None));
                context.disk.create_directories(layout.root()).await?;
                let init =
                    move |context| ready(Ok(Shard::new(context, shard_options))).boxed_local();
                shards.add(start_local(context, init).await).await?;
            }
            shards.assemble(options, (layout, shared)).await
        }
        .boxed_local()
    }

    async fn assemble(
        options: Options,
        (layout, shared): (Layout, Shared),
        shards: Vec<ShardHandle<Shard>>,
    ) -> Result<Database> {
        log_limit::check(options.commitlog_bytes, options.commitlog_segment_bytes)?;
        let first = &shards[0];
        let catalog = first
            .call("load catalog", |shard| async move { shard.load_catalog().await }.boxed_local())
            .await??;
        let schemas: Vec<SchemaRef> = catalog.all_tables().cloned().collect();
        let leftovers = first
            .call("remove leftovers", {
                let (schemas, version) = (schemas.clone(), catalog.version());
                move |shard: Rc<Shard>| {
                    async move { shard.remove_leftovers(schemas, version).await }.boxed_local()
                }
            })
            .await??;
        // Every shard replays before any segment goes: with another shard count they read the same.
        let opened = try_join_all(shards.iter().map(|shard| {
            let (schemas, leftovers) = (schemas.clone(), leftovers.clone());
            async move {
                let open = move |shard: Rc<Shard>| {
                    let open = async move { shard.open_tables(schemas, leftovers).await };
                    run_as(Class::Maintenance, open).boxed_local()
                };
                shard.call("open tables", open).await?
            }
        }))
        .await?;
        // Each shard found its own rows in them: where one could not keep all of its own, all stay.
        if let Some(read) = opened.into_iter().collect::<Option<Vec<_>>>() {
            let spent = read.into_iter().flatten().collect();
            let are_gone = remove_spent(&shards, spent, leftovers.ledgers).await?;
            for shard in shards.iter().filter(|_| are_gone) {
                let allow = |shard: Rc<Shard>| {
                    shard.allow_purge();
                    ready(()).boxed_local()
                };
                shard.call("allow purge", allow).await?;
            }
            let redundant = leftovers.redundant;
            let remove = move |shard: Rc<Shard>| {
                async move { shard.remove_redundant(redundant).await }.boxed_local()
            };
            shards[0].call("remove redundant", remove).await??;
        }
        let keeper = Arc::new(CatalogKeeper::new(shards[0].clone(), catalog));
        let governance = govern(&options, &layout, &shards, keeper.clone());
        let database = Database {
            inner: Arc::new(Inner {
                options,
                shards,
                keeper,
                governance,
                recording: tokio::sync::Mutex::new(None),
                timestamps: shared.timestamps,
                logged_batches: shared.logged_batches,
                fail_fast: shared.fail_fast,
            }),
        };
        database.restore_policies().await?;
        database.restore_io().await?;
        database.apply_service_levels().await?;
        database.replay_batches().await?;
        Ok(database)
    }

    /// What was left out of damaged commitlogs when the database was opened; only with
    /// `Options::recovery`.
    ///
    /// Errors: `Closed`.
    pub fn left_out(&self) -> BoxFuture<'_, Result<Vec<LeftOut>>> {
        async move {
            let mut all: Vec<LeftOut> = Vec::new();
            let told = self.of_shards("left out", |shard| shard.left_out.borrow().clone()).await?;
            for left_out in told.into_iter().flatten() {
                // Logs of another shard count are read by every shard.
                match all.iter_mut().find(|other| other.file == left_out.file) {
                    Some(other) => other.tables.extend(left_out.tables),
                    None => all.push(left_out),
                }
            }
            for left_out in &mut all {
                left_out.tables.sort();
                left_out.tables.dedup();
            }
            Ok(all)
        }
        .boxed()
    }

    /// The data directory.
    pub fn directory(&self) -> &Path {
        &self.inner.options.directory
    }

    /// What compiles policies, where that is another process.
    pub fn policy_compiler(&self) -> Option<CompilerCommand> {
        self.inner.options.policy_compiler.clone()
    }

    pub fn shard_count(&self) -> u32 {
        self.inner.shards.len() as u32
    }

    /// The shard that owns a partition.
    pub fn shard_of(&self, key: &PartitionKey) -> u32 {
        key.token().shard(self.shard_count())
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.options.clock
    }

    /// A write timestamp: wall clock in µs, but always later than the one before.
    pub fn timestamp_us(&self) -> i64 {
        self.inner.timestamps.next_us()
    }

    pub(super) fn logged_batches(&self) -> &Arc<LoggedBatches> {
        &self.inner.logged_batches
    }

    /// The catalog as of now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.inner.keeper.catalog()
    }

    /// Stores a changed catalog, then lets everyone see it.
    pub(super) async fn publish(&self, catalog: Catalog) -> Result<()> {
        self.inner.keeper.publish(catalog).await
    }

    /// Stores a changed catalog, which `replace_catalog` lets everyone see.
    pub(super) async fn store_catalog(&self, catalog: &Catalog) -> Result<()> {
        self.inner.keeper.store(catalog).await
    }

    /// Lets everyone see a changed catalog.
    pub(super) fn replace_catalog(&self, catalog: Catalog) {
        self.inner.keeper.replace(catalog);
    }

    /// Runs a change of the catalog after those before it and to its end.
    ///
    /// Errors: those of `change`; `Closed`.
    pub(super) fn uninterrupted<T: Send + 'static>(
        &self,
        change: impl Future<Output = Result<T>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T>> {
        self.inner.keeper.uninterrupted(change)
    }

    pub(super) fn handle(&self, shard: u32) -> &ShardHandle<Shard> {
        &self.inner.shards[shard as usize]
    }

    /// Errors: `Exists`, `Invalid` for an impossible name, `Io`.
    pub fn create_keyspace(
        &self,
        name: &str,
        if_not_exists: bool,
    ) -> BoxFuture<'static, Result<()>> {
        let database = self.clone();
        let name = name.to_owned();
        let change = async move {
            let name = name.as_str();
            check_name("keyspace", name)?;
            let catalog = database.catalog();
            if catalog.has_keyspace(name) {
                return if if_not_exists {
                    Ok(())
                } else {
                    Err(Error::Exists { kind: "keyspace", name: name.into() })
                };
            }
            let mut changed = catalog.changed();
            changed.add_keyspace(name);
            database.publish(changed).await
        };
        self.uninterrupted(change)
    }

    /// Errors: `NotFound`, `Invalid` when the keyspace still has tables or views, `Io`.
    pub fn drop_keyspace(&self, name: &str, if_exists: bool) -> BoxFuture<'static, Result<()>> {
        let database = self.clone();
        let name = name.to_owned();
        let change = async move {
            let name = name.as_str();
            let catalog = database.catalog();
            if !catalog.has_keyspace(name) {
                return if if_exists {
                    Ok(())
                } else {
                    Err(Error::NotFound { kind: "keyspace", name: name.into() })
                };
            }
            if name == super::catalog::DEFAULT_KEYSPACE {
                return Err(Error::invalid("the default keyspace cannot be dropped"));
            }
            let (tables, views) = (catalog.tables(name).count(), catalog.views(name).count());
            if tables + views > 0 {
                return Err(Error::invalid(format!(
                    "keyspace '{name}' still has {tables} tables and {views} views: drop them first"
                )));
            }
            let mut changed = catalog.changed();
            changed.remove_keyspace(name);
            database.publish(changed).await
        };
        self.uninterrupted(change)
    }

    /// Creates a table; the id of `schema` is replaced by a fresh one.
    ///
    /// Errors: `Exists`, `NotFound` for the keyspace, `Invalid` for an impossible schema, `Io`.
    pub fn create_table(
        &self,
        mut schema: TableSchema,
        if_not_exists: bool,
    ) -> BoxFuture<'static, Result<SchemaRef>> {
        let database = self.clone();
        let change = async move {
            check_name("table", &schema.name)?;
            schema.validate()?;
            let catalog = database.catalog();
            if !catalog.has_keyspace(&schema.keyspace) {
                return Err(Error::NotFound { kind: "keyspace", name: schema.keyspace });
            }
            catalog.check_no_view(&schema.keyspace, &schema.name)?;
            if let Some(existing) = catalog.table(&schema.keyspace, &schema.name) {
                return if if_not_exists {
                    Ok(existing.clone())
                } else {
                    Err(Error::Exists { kind: "table", name: schema.full_name() })
                };
            }
            schema.id = catalog.fresh_table_id(database.clock().wall_us());
            let schema = shared(schema);
            let mut changed = catalog.changed();
            changed.add_table(schema.clone());
            let made = async {
                database.add_on_shards(&schema).await?;
                database.publish(changed).await
            };
            if let Err(error) = made.await {
                database.take_back(&schema).await;
                return Err(error);
            }
            Ok(schema)
        };
        self.uninterrupted(change)
    }

    /// Makes a table that is in no catalog yet.
    pub(super) async fn add_on_shards(&self, schema: &SchemaRef) -> Result<()> {
        for shard in &self.inner.shards {
            let schema = schema.clone();
            let add = move |shard: Rc<Shard>| {
                async move { shard.add_table(schema, (Reached::new(), 0)).await }.boxed_local()
            };
            shard.call("add table", add).await??;
        }
        Ok(())
    }

    /// The same backwards, for a table that nobody could see.
    pub(super) async fn take_back(&self, schema: &SchemaRef) {
        if let Err(error) = self.forget_table(schema).await {
            let table = schema.full_name();
            tracing::warn!(
                table, %error,
                "a table that could not be made is not forgotten everywhere"
            );
        }
    }

    /// Has every shard forget a table; its files stay. Where one fails the others go on.
    ///
    /// Errors: the first one.
    async fn forget_table(&self, schema: &SchemaRef) -> Result<()> {
        let id = schema.id;
        let mut result = Ok(());
        for shard in &self.inner.shards {
            let remove =
                move |shard: Rc<Shard>| async move { shard.remove_table(id).await }.boxed_local();
            let removed = shard.call("remove table", remove).await.flatten();
            result = result.and(removed);
        }
        result
    }

    /// Stops the writes of a table that is about to be dropped or truncated, and waits for those
    /// under way, or lets writes go on.
    async fn freeze_table(&self, schema: &SchemaRef, is_frozen: bool) -> Result<()> {
        let id = schema.id;
        for shard in &self.inner.shards {
            let freeze = move |shard: Rc<Shard>| {
                async move {
                    if let Ok(table) = shard.table(id) {
                        table.freeze(is_frozen).await;
                    }
                }
                .boxed_local()
            };
            shard.call("freeze table", freeze).await?;
        }
        Ok(())
    }

    /// Drops a table and its data.
    ///
    /// Errors: `NotFound`; `Invalid` while a view reads it; `Io`, and the table is as before;
    /// `Unavailable` when it is not known whether the next start finds it: until it is dropped
    /// again it takes no writes.
    pub fn drop_table(
        &self,
        keyspace: &str,
        name: &str,
        if_exists: bool,
    ) -> BoxFuture<'static, Result<()>> {
        let database = self.clone();
        let keyspace = keyspace.to_owned();
        let name = name.to_owned();
        let change = async move {
            let catalog = database.catalog();
            let hint = format!("DETACH {name} takes it away and leaves its files");
            let schema = match catalog.own_table(&keyspace, &name, &hint) {
                Ok(schema) => schema.clone(),
                Err(Error::NotFound { .. }) if if_exists => return Ok(()),
                Err(error) => return Err(error),
            };
            catalog.check_unread("table", &keyspace, &name)?;
            let mut changed = catalog.changed();
            changed.drop_table(&keyspace, &name);
            database.publish_without(&schema, changed).await?;
            database.remove_for_good(schema).await
        };
        self.uninterrupted(change)
    }

    /// Publishes a catalog that lacks a table, whose writes are stopped for that. They go on where
    /// the catalog is known to be the one before.
    pub(super) async fn publish_without(&self, table: &SchemaRef, changed: Catalog) -> Result<()> {
        // What is acknowledged from here on would go with a table that the next start may not
        // find, though the statement fails.
        self.freeze_table(table, true).await?;
        if let Err(error) = self.publish(changed).await {
            if !matches!(error, Error::Unavailable(_)) {
                self.freeze_table(table, false).await?;
            }
            return Err(error);
        }
        Ok(())
    }

    /// Forgets a table that is in no catalog any more, and removes its files.
    pub(super) async fn remove_for_good(&self, schema: SchemaRef) -> Result<()> {
        self.forget_table(&schema).await?;
        let remove = move |shard: Rc<Shard>| {
            async move { shard.remove_table_files(&schema).await }.boxed_local()
        };
        self.handle(0).call("remove files", remove).await?
    }

    /// Writes memtables to SSTables: of one table, or of all. Shards that meet no error end theirs.
    ///
    /// Errors: `NotFound`, `Io`.
    pub fn flush(&self, table: Option<TableId>) -> BoxFuture<'_, Result<()>> {
        async move {
            let calls = self.inner.shards.iter().map(|shard| async move {
                let flush =
                    move |shard: Rc<Shard>| async move { shard.flush(table).await }.boxed_local();
                shard.call("flush", flush).await?
            });
            join_all(calls).await.into_iter().collect()
        }
        .boxed()
    }

    /// Runs a closure on the shard of this node that owns a partition, with no copy and no further
    /// hop: the way for programs that live with their data.
    ///
    /// Errors: `Closed`.
    pub async fn on_shard<R: Send + 'static>(
        &self,
        key: &PartitionKey,
        work: impl FnOnce(Rc<Shard>) -> LocalBoxFuture<'static, R> + Send + 'static,
    ) -> Result<R> {
        self.handle(self.shard_of(key)).call("on shard", work).await
    }

    /// What each shard answers to a question for which it does not wait, one after another.
    ///
    /// Errors: `Closed`.
    pub(super) async fn of_shards<R: Send + 'static>(
        &self,
        name: &'static str,
        question: impl Fn(&Shard) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>> {
        let mut answers = Vec::with_capacity(self.inner.shards.len());
        for shard in &self.inner.shards {
            let question = question.clone();
            let ask = move |shard: Rc<Shard>| ready(question(&shard)).boxed_local();
            answers.push(shard.call(name, ask).await?);
        }
        Ok(answers)
    }

    /// Flushes, syncs and stops all shards; the directory may be opened again then.
    ///
    /// Errors: `Io`.
    pub fn close(&self) -> BoxFuture<'_, Result<()>> {
        async move {
            self.end_recording().await;
            let change = self.inner.keeper.pause().await;
            let mut result = Ok(());
            for shard in &self.inner.shards {
                let close = |shard: Rc<Shard>| async move { shard.close().await }.boxed_local();
                // Each shard is closed, whatever the others answer; the first error is returned.
                let closed = match shard.call("close", close).await {
                    Ok(closed) => closed,
                    Err(Error::Closed) => Ok(()),
                    Err(error) => Err(error),
                };
                result = result.and(closed);
            }
            // A change that waits is told that the shards are closed; stopping waits for it.
            drop(change);
            for shard in &self.inner.shards {
                result = result.and(shard.stop().await);
            }
            result
        }
        .boxed()
    }
}

/// What all shards have in common.
struct Shared {
    read_memory: Arc<ReadMemory>,
    timestamps: Arc<Timestamps>,
    handovers: Arc<Handovers>,
    logged_batches: Arc<LoggedBatches>,
    fail_fast: Vec<Arc<FailFast>>,
}

impl Shared {
    fn new(options: &Options, shard_count: u32) -> Self {
        let mut random = Random::new(options.seed);
        Shared {
            fail_fast: (0..shard_count).map(|_| FailFast::new(random.next_u64())).collect(),
            read_memory: ReadMemory::new(options.read_memory_bytes),
            handovers: Handovers::new(shard_count),
            timestamps: Timestamps::new(options.clock.clone()),
            logged_batches: LoggedBatches::new(),
        }
    }
}

/// The shards of a database that is being opened: one that cannot be must not keep the directory.
#[derive(Default)]
struct Shards(Vec<ShardHandle<Shard>>);

impl Shards {
    async fn add(&mut self, started: Result<ShardHandle<Shard>>) -> Result<()> {
        match started {
            Ok(shard) => self.0.push(shard),
            Err(error) => return self.stop(error).await,
        }
        Ok(())
    }

    async fn assemble(self, options: Options, places: (Layout, Shared)) -> Result<Database> {
        match Database::assemble(options, places, self.0.clone()).await {
            Err(error) => self.stop(error).await,
            database => database,
        }
    }

    async fn stop<T>(&self, error: Error) -> Result<T> {
        for shard in &self.0 {
            // The error that is told is the one that came first.
            let _ = shard.stop().await;
        }
        Err(error)
    }
}

/// The administration of the policies of these shards.
fn govern(
    options: &Options,
    layout: &Layout,
    shards: &[ShardHandle<Shard>],
    keeper: Arc<CatalogKeeper>,
) -> Governance {
    // Machine code cannot be checked: where others could write it, it is made anew each time. What
    // is not there is on a disk that was handed in.
    let is_private = |folder: &Path| match os::is_private(folder) {
        Ok(is_private) => is_private,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    Governance::new(Setting {
        shards: governance::Shards::new(shards),
        keeper,
        files: PolicyFiles::new(layout.policies()),
        compiler: options.policy_compiler.clone(),
        keeps_code: is_private(layout.root()) && is_private(&layout.policies()),
    })
}

/// Removes segments that SSTables of all shards have; false when some had to stay.
async fn remove_spent(
    shards: &[ShardHandle<Shard>],
    mut spent: Vec<PathBuf>,
    ledgers: Ledgers,
) -> Result<bool> {
    spent.sort();
    spent.dedup();
    let release =
        |shard: Rc<Shard>| async move { shard.release_old_segments().await }.boxed_local();
    for shard in shards {
        if !shard.call("release segments", release).await?? {
            return Ok(false);
        }
    }
    let remove = move |shard: Rc<Shard>| {
        async move { shard.remove_spent(spent, ledgers).await }.boxed_local()
    };
    shards[0].call("remove segments", remove).await?
}

fn shard_options(
    options: &Options,
    shard: u32,
    shared: &Shared,
    (layout, lock): (&Layout, Option<Arc<os::LockFile>>),
) -> ShardOptions {
    let open_files = options.open_files.unwrap_or_else(|| {
        usize::try_from(os::descriptor_limit() / OPEN_FILES_ONE_IN).unwrap_or(usize::MAX)
    });
    ShardOptions {
        layout: layout.clone(),
        durability: options.durability,
        memtable_bytes: options.memtable_bytes,
        cache_bytes: options.cache_bytes,
        commitlog_segment_bytes: options.commitlog_segment_bytes,
        commitlog_bytes: options.commitlog_bytes,
        recovery: options.recovery,
        large_data: options.large_data,
        tombstones: options.tombstones,
        open_files: (open_files / shared.fail_fast.len()).min(OPEN_FILES_MAX),
        read_memory: shared.read_memory.clone(),
        timestamps: shared.timestamps.clone(),
        handovers: shared.handovers.clone(),
        logged_batches: shared.logged_batches.clone(),
        fail_fast: shared.fail_fast[shard as usize].clone(),
        _lock: lock,
    }
}

fn lock(layout: &Layout) -> Result<os::LockFile> {
    os::try_lock(&layout.lock()).map_err(|error| match error {
        os::LockError::Held(holder) => {
            let pid = holder.pid.map_or_else(String::new, |pid| format!(" (process {pid})"));
            Error::Unavailable(format!(
                "the data directory {} is in use by '{}'{pid}: close it there, or use another directory",
                layout.root().display(),
                holder.command
            ))
        }
        os::LockError::Io(error) => Error::io("lock", layout.lock(), &error),
    })
}
