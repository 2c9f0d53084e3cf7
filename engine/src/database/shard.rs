//! One shard: its tables and everything that they share.
//!
//! Invariant: a write is applied to the memtable only after the commitlog took it as durably as
//! the options demand.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::catalog::Catalog;
use super::layout::{self, Layout};
use crate::batch::RecordBatch;
use crate::commitlog::{self, Commitlog, CommitlogOptions, Durability, ReplayPosition};
use crate::disk::{read_file, write_file_atomically};
use crate::error::{Error, Result};
use crate::memtable::PendingWrite;
use crate::mutation::Mutation;
use crate::os;
use crate::runtime::{self, ShardContext};
use crate::schema::TableId;
use crate::schema::table_schema::SchemaRef;
use crate::table::{ReadCommand, Table};

/// What a shard needs to know of the options.
#[derive(Debug, Clone)]
pub(super) struct ShardOptions {
    pub(super) layout: Layout,
    pub(super) durability: Durability,
    pub(super) commitlog_segment_bytes: usize,
}

/// See the head of this file.
pub struct Shard {
    pub(super) context: Rc<ShardContext>,
    pub(super) options: ShardOptions,
    tables: RefCell<BTreeMap<TableId, Rc<Table>>>,
    commitlog: RefCell<Option<Rc<Commitlog>>>,
    closing: Cell<bool>,
}

impl Shard {
    /// A shard without tables; `open_tables` comes next.
    pub(super) fn new(context: Rc<ShardContext>, options: ShardOptions) -> Rc<Shard> {
        Rc::new(Shard {
            context,
            options,
            tables: RefCell::default(),
            commitlog: RefCell::default(),
            closing: Cell::new(false),
        })
    }

    /// Opens the tables and replays the commitlogs into their memtables.
    ///
    /// Errors: `Io`, `Corrupt` naming the file.
    pub(super) async fn open_tables(self: &Rc<Self>, schemas: Vec<SchemaRef>) -> Result<()> {
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
            },
        )
        .await?;
        *self.commitlog.borrow_mut() = Some(commitlog);
        for schema in schemas {
            self.add_table(schema).await?;
        }
        for directory in old_logs {
            self.replay(&directory).await?;
        }
        self.start_background();
        Ok(())
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
                Ok(catalog)
            }
            Err(error) => Err(error),
        }
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
    async fn old_logs(&self) -> Result<Vec<PathBuf>> {
        let own = (self.context.shard, self.context.shard_count);
        let commitlogs = self.options.layout.commitlogs();
        let entries = self.context.disk.list(&commitlogs).await?;
        Ok(entries
            .iter()
            .filter_map(|entry| Some((entry, layout::parse_commitlog_name(&entry.name)?)))
            .filter(|(_, log)| *log == own || log.1 != own.1)
            .map(|(entry, _)| commitlogs.join(&entry.name))
            .collect())
    }

    async fn replay(&self, directory: &Path) -> Result<()> {
        let (shard, shard_count) = (self.context.shard, self.context.shard_count);
        let tables = self.tables.borrow().clone();
        let mut apply = |_: ReplayPosition, mutation: Mutation| {
            let is_own = mutation.key.token().shard(shard_count) == shard;
            // A table that is not there was dropped.
            if let Some(table) = tables.get(&mutation.table).filter(|_| is_own) {
                table.active().replay(mutation);
            }
            Ok(())
        };
        commitlog::replay(&self.context.disk, directory, &mut apply).await.map(|_| ())
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
        let table = Table::new(schema.clone());
        self.tables.borrow_mut().insert(schema.id, table);
        Ok(())
    }

    /// Forgets a dropped table: reads that run still end, its files may be removed afterwards.
    ///
    /// Errors: `Io`.
    pub(super) async fn remove_table(&self, id: TableId) -> Result<()> {
        let removed = self.tables.borrow_mut().remove(&id);
        let Some(table) = removed else { return Ok(()) };
        // Its records go with the segments that hold nothing else.
        let everything = ReplayPosition { segment: u64::MAX, offset: u32::MAX };
        self.commitlog()?.mark_flushed(table.schema().id, everything).await
    }

    /// Applies a write; done when it is as durable as the options demand.
    ///
    /// Errors: `NotFound`, `Poisoned`, `Io` (disk full: retry later).
    pub async fn apply(self: &Rc<Self>, mutation: Mutation) -> Result<()> {
        let pending = self.begin(mutation)?;
        self.finish(pending).await
    }

    /// Applies many writes that share their syncs.
    ///
    /// Errors: as `apply`; writes before the one that failed were applied, later ones may be.
    pub async fn apply_many(self: &Rc<Self>, mutations: Vec<Mutation>) -> Result<()> {
        let mut pending = Vec::with_capacity(mutations.len());
        for mutation in mutations {
            pending.push(self.begin(mutation)?);
            runtime::maybe_yield().await;
        }
        for write in pending {
            self.finish(write).await?;
        }
        Ok(())
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
        Ok(())
    }

    fn start_background(self: &Rc<Self>) {
        let Durability::Periodic { ms } = self.options.durability else { return };
        let shard = Rc::downgrade(self);
        let context = self.context.clone();
        runtime::spawn_local("commitlog sync", async move {
            loop {
                context.sleep(Duration::from_millis(ms.max(1))).await;
                let Some(shard) = shard.upgrade() else { return };
                if shard.closing.get() {
                    return;
                }
                let Ok(commitlog) = shard.commitlog() else { return };
                if let Err(error) = commitlog.sync().await {
                    tracing::error!(shard = shard.context.shard, %error, "periodic sync failed");
                    return;
                }
            }
        });
    }

    /// Runs a read, see [`Table::stream`].
    pub async fn stream(
        self: Rc<Self>,
        command: ReadCommand,
        batches: mpsc::Sender<Result<RecordBatch>>,
    ) {
        let now = i32::try_from(self.context.clock.wall_seconds()).unwrap_or(i32::MAX);
        match self.table(command.schema.id) {
            Ok(table) => table.stream(command, now, batches).await,
            Err(error) => {
                // The receiver may be gone already; then nobody wants the error.
                let _ = batches.send(Err(error)).await;
            }
        }
    }

    /// Makes everything durable and ends the commitlog.
    ///
    /// Errors: `Io`.
    pub(super) async fn close(&self) -> Result<()> {
        self.closing.set(true);
        let commitlog = self.commitlog.borrow_mut().take();
        if let Some(commitlog) = commitlog {
            commitlog.close().await?;
        }
        Ok(())
    }
}
