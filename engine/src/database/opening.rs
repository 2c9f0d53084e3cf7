//! Opening a shard: the catalog, what crashes left, tables, the commitlogs of earlier runs.
//!
//! Invariant: nothing that may hold acknowledged writes is removed before SSTables have them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::catalog::Catalog;
use super::layout;
use super::shard::Shard;
use crate::commitlog::{self, Commitlog, CommitlogOptions, ReplayPosition, ReplaySummary};
use crate::disk::{DirectoryEntry, read_file, write_file_atomically};
use crate::error::{Error, Result};
use crate::mutation::Mutation;
use crate::os;
use crate::schema::TableId;
use crate::schema::table_schema::SchemaRef;
use crate::table::clear_leftovers;

impl Shard {
    /// Opens the tables, replays the commitlogs and writes what they held to SSTables. Returns the
    /// segments that were read, which are spent when every shard has come this far; `None` when
    /// some of what they hold for this shard is in no SSTable, and no segment may go.
    ///
    /// A table that cannot be opened answers with the reason, one that cannot be flushed refuses
    /// writes and says so; without room for a commitlog all writes are refused.
    ///
    /// Errors: `Io`, `Corrupt` naming a file of the commitlog.
    pub(super) async fn open_tables(
        self: &Rc<Self>,
        schemas: Vec<SchemaRef>,
        first_segment_min: u64,
    ) -> Result<Option<Vec<PathBuf>>> {
        let (shard, shard_count) = (self.context.shard, self.context.shard_count);
        let disk = self.context.disk.clone();
        let own = self.options.layout.commitlog(shard, shard_count);
        disk.create_directories(&own).await?;
        disk.sync_directory(&self.options.layout.commitlogs()).await?;
        // The segments of earlier runs, before this run adds its own.
        let old_logs = self.old_logs().await?;
        let options = CommitlogOptions {
            directory: own,
            shard,
            shard_count,
            durability: self.options.durability,
            segment_bytes: self.options.commitlog_segment_bytes,
            first_segment_min,
        };
        let commitlog = Commitlog::open(disk, self.context.clock.clone(), options).await;
        match &commitlog {
            Err(error) if error.is_disk_full() => {
                tracing::error!(shard, %error, "no room for a commitlog: reads only");
            }
            Err(error) => return Err(error.clone()),
            Ok(_) => {}
        }
        let mut is_all_kept = commitlog.is_ok();
        // Of the own log only what stood there before this run is replayed.
        let first_segment =
            commitlog.as_ref().map_or(u64::MAX, |log| log.current_position().segment);
        *self.commitlog.borrow_mut() = commitlog;
        for schema in schemas {
            if let Err(error) = self.add_table(schema.clone()).await {
                let table = schema.full_name();
                tracing::error!(shard, table, %error, "a table cannot be opened; others go on");
                is_all_kept = false;
                self.tables.borrow_mut().insert(schema.id, Err(error));
            }
        }
        let mut read = Vec::new();
        for (directory, log) in old_logs {
            read.extend(self.replay(&directory, log, first_segment).await?.paths);
        }
        for table in self.tables() {
            match table.flush().await {
                Ok(()) => {}
                Err(error) => {
                    let table = table.schema().full_name();
                    tracing::error!(
                        shard, table, %error,
                        "a table cannot be flushed; the commitlog stays, other tables go on"
                    );
                    is_all_kept = false;
                }
            }
        }
        self.note_stuck();
        self.start_background();
        Ok(is_all_kept.then_some(read))
    }

    /// Cleans the data folder of what crashes left, `tables` being the folders of tables that exist.
    /// Returns the newest commitlog position that an SSTable reaches.
    ///
    /// Errors: `Io`, `Corrupt` naming the file.
    pub(super) async fn remove_leftovers(
        &self,
        tables: Vec<PathBuf>,
    ) -> Result<Option<ReplayPosition>> {
        self.context.disk.create_directories(&self.options.layout.data()).await?;
        let mut newest = None;
        for table in self.table_folders().await? {
            if tables.contains(&table) {
                newest = newest.max(self.clear_table(&table).await);
            } else {
                let directory = table.display();
                tracing::info!(%directory, "removing a table that was dropped");
                if let Err(error) = self.remove_directory(&table).await {
                    tracing::warn!(%directory, %error, "a dropped table's files stay for now");
                }
            }
        }
        Ok(newest)
    }

    /// Folders in the data folder that are named as a table's, of all keyspaces.
    async fn table_folders(&self) -> Result<Vec<PathBuf>> {
        let data = self.options.layout.data();
        let mut tables = Vec::new();
        for keyspace in self.list(&data).await?.iter().filter(|entry| entry.is_directory) {
            let keyspace = data.join(&keyspace.name);
            let entries = self.list(&keyspace).await?;
            let folders = entries.iter().filter(|entry| entry.is_directory);
            tables.extend(
                folders
                    .map(|entry| keyspace.join(&entry.name))
                    .filter(|path| layout::is_table(path)),
            );
        }
        Ok(tables)
    }

    /// What is in a folder; nothing where there is none.
    async fn list(&self, folder: &Path) -> Result<Vec<DirectoryEntry>> {
        match self.context.disk.list(folder).await {
            Err(error) if error.is_missing_file() => Ok(Vec::new()),
            result => result,
        }
    }

    /// A manifest that is damaged or cannot be read is left as it is: its table will not open, and
    /// says why.
    async fn clear_table(&self, directory: &Path) -> Option<ReplayPosition> {
        match clear_leftovers(&self.context.disk, directory).await {
            Ok(newest) => newest,
            Err(error) => {
                tracing::error!(%error, "a table's files are left as they are");
                None
            }
        }
    }

    /// Removes a folder of files, and folders of files in it.
    pub(super) async fn remove_directory(&self, directory: &Path) -> Result<()> {
        let disk = &self.context.disk;
        for entry in disk.list(directory).await? {
            let path = directory.join(&entry.name);
            if entry.is_directory {
                for inner in disk.list(&path).await? {
                    disk.remove(&path.join(&inner.name)).await?;
                }
                disk.remove_directory(&path).await?;
            } else {
                disk.remove(&path).await?;
            }
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
            Err(error) if error.is_missing_file() => {
                let catalog = Catalog::new();
                let layout = &self.options.layout;
                if let Some(found) = self.first_data().await? {
                    let found = format!("none, and {} beside it", found.display());
                    return Err(Error::corrupt(&path, 0, "the catalog of the data", found));
                }
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

    /// A folder of a table or of commitlog segments: it shows that there was a catalog.
    async fn first_data(&self) -> Result<Option<PathBuf>> {
        let commitlogs = self.options.layout.commitlogs();
        for entry in self.list(&commitlogs).await? {
            let path = commitlogs.join(&entry.name);
            let is_log = layout::parse_commitlog_name(&entry.name).is_some();
            if is_log && !self.list(&path).await?.is_empty() {
                return Ok(Some(path));
            }
        }
        Ok(self.table_folders().await?.into_iter().next())
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
        self.check_open()?;
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
        let is_own_log = log == (shard, shard_count);
        let mut flushed: BTreeMap<TableId, Option<ReplayPosition>> = BTreeMap::new();
        for table in self.tables() {
            flushed.insert(table.schema().id, table.flushed_through(log).await);
        }
        let tables = self.tables.borrow().clone();
        let mut apply = |position: ReplayPosition, mutation: Mutation| {
            let Some(Ok(table)) = tables.get(&mutation.table) else {
                // The table was dropped, or could not be opened: then the log is kept.
                return Ok(());
            };
            let is_flushed = flushed[&mutation.table].is_some_and(|through| position <= through);
            let is_own = mutation.key.token().shard(shard_count) == shard;
            if !is_flushed && is_own {
                table.active().replay(is_own_log.then_some(position), mutation);
            }
            Ok(())
        };
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
}
