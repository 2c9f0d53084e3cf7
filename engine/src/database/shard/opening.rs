//! Opens a shard: the catalog, leftovers of crashes, tables. `replaying.rs` reads the commitlogs of
//! earlier runs.
//!
//! Invariant: a shard removes nothing that may hold acknowledged writes before SSTables have them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt};

use super::Shard;
use crate::commitlog::{Commitlog, CommitlogOptions, Recovery, ReplayPosition};
use crate::database::catalog::Catalog;
use crate::database::layout;
use crate::disk::{
    DirectoryEntry, make_durable, read_file, remove_if_there, remove_tree, write_file_atomically,
};
use crate::error::{Error, Result};
use crate::io::Class;
use crate::ledger::{Entry, Known, Ledger};
use crate::os;
use crate::runtime;
use crate::schema::TableId;
use crate::schema::table_schema::SchemaRef;
use crate::sstable::LOST;
use crate::sstable::generation_of;
use crate::table::{Cleared, Reached, SetAside, clear_leftovers};

/// Tables whose files are read or written at a time while a shard opens: each waits for the disk
/// most of the time.
const TABLES_AT_ONCE: usize = 16;
/// Pause before a commitlog for which there was no room is tried again.
const COMMITLOG_RETRY: Duration = Duration::from_secs(1);

/// What all ledgers said at the start, by shard and shard count.
pub(in crate::database) type Ledgers = Arc<BTreeMap<(u32, u32), Known>>;

/// What cleaning the data folder found.
#[derive(Clone, Default)]
pub(in crate::database) struct Leftovers {
    /// Ids of commitlog segments begin here, above all that SSTables remember.
    pub(in crate::database) first_segment_min: u64,
    pub(in crate::database) ledgers: Ledgers,
    /// Files of SSTables that were set aside and that the commitlog has all of, by table.
    pub(in crate::database) redundant: Vec<(TableId, PathBuf)>,
    /// Tables of which the manifests are not known to be durable, each with what stood against it.
    pub(in crate::database) unsure: BTreeMap<TableId, Error>,
    /// That of the catalog.
    pub(in crate::database) version: u64,
}

/// What the ledgers know of the manifests of one table.
pub(in crate::database) fn reached(ledgers: &Ledgers, table: TableId) -> Reached {
    let known =
        ledgers.iter().filter_map(|(log, known)| Some((*log, known.manifests.get(&table)?)));
    known.map(|(log, sequence)| (log, *sequence)).collect()
}

/// Whether the logs have every write of an SSTable that was set aside: it is a flush of this host
/// that no manifest was told of, later than those that manifests name. What a person put there,
/// such as a copy of a backup, is none.
fn is_in_log(ledgers: &Ledgers, newest: Option<ReplayPosition>, set: &SetAside) -> bool {
    let is_there = |position: ReplayPosition| {
        ledgers.values().any(|known| known.segments.contains_key(&position.segment))
    };
    set.replay
        .is_some_and(|(lower, upper)| Some(lower) > newest && is_there(lower) && is_there(upper))
}

/// Says what lies in a table's folder of SSTables that no manifest names, and what to do with it.
fn tell_of_lost(table: &Path, files: usize) {
    if files > 0 {
        let folder = table.join(LOST);
        let folder = folder.display();
        tracing::warn!(
            %folder, files,
            "SSTables that no manifest names are kept here: ATTACH SSTABLES reads them, IMPORT \
             SSTABLES brings them back; what is not needed may be removed by hand"
        );
    }
}

/// Some of these at a time; what they give comes in their order.
fn side_by_side<T>(works: impl Iterator<Item = impl Future<Output = T>>) -> impl Stream<Item = T> {
    stream::iter(works).buffered(TABLES_AT_ONCE)
}

impl Shard {
    /// Opens the tables, replays the commitlogs and writes what they held to SSTables. Returns the
    /// segments that were read, which are spent when every shard has come this far; `None` when
    /// some of what they hold for this shard is in no SSTable, and no segment may go.
    ///
    /// A table that cannot be opened, or that may have lost writes, answers with the reason; one
    /// that cannot be flushed refuses writes and says so. Without room for a commitlog all writes
    /// are refused until there is some.
    ///
    /// Errors: `Io`; `Unavailable` for a commitlog of a newer format.
    pub(in crate::database) async fn open_tables(
        self: &Rc<Self>,
        schemas: Vec<SchemaRef>,
        leftovers: Leftovers,
    ) -> Result<Option<Vec<PathBuf>>> {
        let (shard, shard_count) = (self.context.shard, self.context.shard_count);
        let path = self.options.layout.ledger(shard, shard_count);
        let ledger = Ledger::open(self.context.disk_of(Class::Commitlog), &path).await?;
        *self.ledger.borrow_mut() = Some(ledger.clone());
        self.forget_dropped(&ledger, &schemas);
        if shard == 0 {
            ledger.record_later(Entry::Catalog { version: leftovers.version });
        }
        // The segments of earlier runs, before this run adds its own.
        let old_logs = self.old_logs(&leftovers.ledgers).await?;
        self.first_segment.set(leftovers.first_segment_min);
        let commitlog = self.start_commitlog().await;
        match &commitlog {
            Err(error) if error.is_disk_full() => {
                tracing::error!(shard, %error, "no room for a commitlog: reads only until there is");
            }
            Err(error) => return Err(error.clone()),
            Ok(_) => {}
        }
        let mut is_all_kept = commitlog.is_ok();
        // Of the own log only what stood there before this run is replayed.
        let first_segment =
            commitlog.as_ref().map_or(u64::MAX, |log| log.current_position().segment);
        if commitlog.is_ok() {
            self.first_segment.set(first_segment);
        }
        *self.commitlog.borrow_mut() = commitlog;
        is_all_kept &= self.add_tables(schemas, &leftovers).await;
        if let Err(error) = ledger.record(Vec::new()).await {
            tracing::warn!(shard, %error, "the ledger could not record manifests");
        }
        let mut read = Vec::new();
        for (directory, log) in old_logs {
            let known = leftovers.ledgers.get(&log).cloned().unwrap_or_default();
            let replayed = self.replay(&directory, (log, known), first_segment).await?;
            is_all_kept &= replayed.is_all_kept;
            read.extend(replayed.paths);
        }
        is_all_kept &= self.flush_replayed().await;
        self.note_stuck();
        self.compacting.started_ns.set(self.context.clock.monotonic_ns());
        self.start_background();
        if self.commitlog().is_err() {
            self.start_commitlog_later();
        }
        Ok(is_all_kept.then_some(read))
    }

    /// Opens the tables; false where one cannot be opened.
    async fn add_tables(&self, schemas: Vec<SchemaRef>, leftovers: &Leftovers) -> bool {
        let (shard, ledgers) = (self.context.shard, &leftovers.ledgers);
        let opened = schemas.into_iter().map(|schema| async move {
            let id = schema.id;
            let numbered = ledgers.values();
            let numbered = numbered.filter_map(|known| known.generations.get(&id)).max();
            let before = (reached(ledgers, id), numbered.copied().unwrap_or(0));
            let opened = match leftovers.unsure.get(&id) {
                Some(error) => Err(error.clone()),
                None => self.add_table(schema.clone(), before).await,
            };
            if let Err(error) = &opened {
                let table = schema.full_name();
                tracing::error!(shard, table, %error, "a table cannot be opened; others go on");
                self.tables.borrow_mut().insert(id, Err(error.clone()));
            }
            opened.is_ok()
        });
        let opened: Vec<bool> = side_by_side(opened).collect().await;
        opened.into_iter().all(|is_open| is_open)
    }

    /// Writes what was replayed to SSTables; false where a table cannot be flushed.
    async fn flush_replayed(&self) -> bool {
        let shard = self.context.shard;
        let flushed = self.tables().into_iter().map(|table| async move {
            let flushed = table.flush().await;
            if let Err(error) = &flushed {
                let table = table.schema().full_name();
                tracing::error!(
                    shard, table, %error,
                    "a table cannot be flushed; the commitlog stays, other tables go on"
                );
            }
            flushed.is_ok()
        });
        let flushed: Vec<bool> = side_by_side(flushed).collect().await;
        flushed.into_iter().all(|is_flushed| is_flushed)
    }

    /// The ledger forgets tables that the catalog does not have.
    fn forget_dropped(&self, ledger: &Ledger, schemas: &[SchemaRef]) {
        let ids: BTreeSet<TableId> = schemas.iter().map(|schema| schema.id).collect();
        let known = ledger.known();
        let dropped = known.manifests.keys().filter(|id| !ids.contains(id));
        dropped.for_each(|table| ledger.record_later(Entry::Dropped { table: *table }));
    }

    /// Starts the shard's commitlog behind the segments that are there.
    ///
    /// Errors: as `Commitlog::open`.
    async fn start_commitlog(&self) -> Result<Rc<Commitlog>> {
        let (shard, shard_count) = (self.context.shard, self.context.shard_count);
        let disk = self.context.disk_of(Class::Commitlog);
        let directory = self.options.layout.commitlog(shard, shard_count);
        disk.create_directories(&directory).await?;
        disk.sync_directory(&self.options.layout.commitlogs()).await?;
        let options = CommitlogOptions {
            directory,
            shard,
            shard_count,
            durability: self.options.durability,
            segment_bytes: self.options.commitlog_segment_bytes,
            first_segment_min: self.first_segment.get(),
            ledger: self.ledger.borrow().clone(),
        };
        Commitlog::open(disk, self.context.clock.clone(), options).await
    }

    /// Tries again and again to start a commitlog for which there was no room.
    fn start_commitlog_later(self: &Rc<Self>) {
        let shard = Rc::downgrade(self);
        let context = self.context.clone();
        runtime::spawn_local("commitlog", async move {
            loop {
                context.sleep(COMMITLOG_RETRY).await;
                let Some(shard) = shard.upgrade().filter(|shard| shard.check_open().is_ok()) else {
                    return;
                };
                match shard.start_commitlog().await {
                    Ok(commitlog) => return shard.take_commitlog(commitlog).await,
                    Err(error) => *shard.commitlog.borrow_mut() = Err(error),
                }
            }
        });
    }

    /// Writes go on with a commitlog for which there is room at last.
    async fn take_commitlog(&self, commitlog: Rc<Commitlog>) {
        if self.check_open().is_err() {
            // What closes has not seen it.
            let _ = commitlog.close().await;
            return;
        }
        for table in self.tables() {
            table.set_commitlog(commitlog.clone());
        }
        *self.commitlog.borrow_mut() = Ok(commitlog);
        tracing::warn!(shard = self.context.shard, "there is room for a commitlog: writes go on");
    }

    /// Cleans the data folder of what crashes left, `schemas` being the tables that exist in this
    /// version of the catalog.
    ///
    /// Errors: `Io`, `Corrupt` naming the file; the catalog is named, and nothing was removed, when
    /// it is an older one: the folders of newer tables would go.
    pub(in crate::database) async fn remove_leftovers(
        &self,
        schemas: Vec<SchemaRef>,
        version: u64,
    ) -> Result<Leftovers> {
        let (ledgers, vouches) = self.read_ledgers().await?;
        let reached_version = ledgers.values().map(|known| known.catalog).max().unwrap_or(0);
        if version < reached_version {
            let wanted =
                format!("version {reached_version} of the catalog, which the ledger names");
            let found = format!("version {version}");
            let error = Error::corrupt(self.options.layout.catalog(), 0, wanted, found);
            return Err(error.with_remedy(format!(
                "bring the newer file back; or remove the folder {} to go on with this one, and \
                 tables that it does not know are removed with their data",
                self.options.layout.ledgers().display()
            )));
        }
        let ledgers = Arc::new(ledgers);
        self.remove_exports().await;
        self.context.disk.create_directories(&self.options.layout.data()).await?;
        let tables: BTreeMap<PathBuf, TableId> =
            schemas.iter().map(|schema| (self.options.layout.table(schema), schema.id)).collect();
        let mut newest = None;
        let (mut redundant, mut unsure) = (Vec::new(), BTreeMap::new());
        let folders = self.table_folders().await?.into_iter();
        let cleared = folders.map(|table| async {
            let id = tables.get(&table).copied();
            let cleared = match id {
                Some(id) => Some((id, self.clear_table(&table, &reached(&ledgers, id)).await)),
                None => None,
            };
            (table, cleared)
        });
        let cleared: Vec<(PathBuf, Option<(TableId, Cleared)>)> =
            side_by_side(cleared).collect().await;
        for (table, cleared) in cleared {
            if let Some((id, cleared)) = cleared {
                newest = newest.max(cleared.newest);
                unsure.extend(cleared.unsure.map(|error| (id, error)));
                let mut unexplained = 0;
                for set in cleared.set_aside {
                    // A log of which something is left out does not have all of them.
                    let is_in_log = vouches
                        && self.options.recovery == Recovery::Refuse
                        && is_in_log(&ledgers, cleared.newest, &set);
                    match is_in_log {
                        true => redundant.extend(set.files.into_iter().map(|path| (id, path))),
                        false => unexplained += set.files.len(),
                    }
                }
                tell_of_lost(&table, cleared.lost_before + unexplained);
            } else {
                let directory = table.display();
                tracing::info!(%directory, "removing a table that was dropped");
                if let Err(error) = self.remove_directory(&table).await {
                    tracing::warn!(%directory, %error, "a dropped table's files stay for now");
                }
            }
        }
        let first_segment_min = newest.map_or(0, |newest: ReplayPosition| newest.segment + 1);
        Ok(Leftovers { first_segment_min, ledgers, redundant, unsure, version })
    }

    /// Removes files that were set aside at this start and that SSTables have all of meanwhile.
    ///
    /// Errors: `Io`.
    pub(in crate::database) async fn remove_redundant(
        &self,
        files: Vec<(TableId, PathBuf)>,
    ) -> Result<()> {
        let Some(ledger) = self.ledger.borrow().clone().filter(|_| !files.is_empty()) else {
            return Ok(());
        };
        let numbered = files.iter().filter_map(|(table, path)| {
            let generation = generation_of(path.file_name()?.to_str()?)?;
            Some(Entry::Numbered { table: *table, generation })
        });
        // Their numbers must not be given again, so they are kept where the files are not.
        if let Err(error) = ledger.record(numbered.collect()).await {
            tracing::warn!(%error, "SSTables that were set aside stay in 'lost'");
            return Ok(());
        }
        let disk = &*self.context.disk;
        let mut folders = BTreeSet::new();
        for (_, path) in &files {
            remove_if_there(disk, path).await?;
            folders.extend(path.parent().map(Path::to_path_buf));
        }
        for lost in folders {
            if disk.list(&lost).await?.is_empty() {
                disk.remove_directory(&lost).await?;
            } else {
                disk.sync_directory(&lost).await?;
            }
        }
        tracing::info!(files = files.len(), "removed SSTables that the commitlog had all of");
        Ok(())
    }

    /// All ledgers, and whether nothing that one of them said is missing.
    async fn read_ledgers(&self) -> Result<(BTreeMap<(u32, u32), Known>, bool)> {
        let folder = self.options.layout.ledgers();
        let mut ledgers = BTreeMap::new();
        let mut are_whole = true;
        for entry in self.list(&folder).await? {
            if let Some(log) = layout::parse_log_name(&entry.name) {
                let path = folder.join(&entry.name);
                // Segments go by what it says. Its folder became durable with the catalog's name.
                make_durable(&*self.context.disk, &path).await?;
                let ledger = Ledger::open(self.context.disk.clone(), &path).await?;
                are_whole &= ledger.was_whole();
                ledgers.insert(log, ledger.known());
            }
        }
        let counts: BTreeSet<u32> = ledgers.keys().map(|(_, count)| *count).collect();
        let are_all = |count: &u32| (0..*count).all(|shard| ledgers.contains_key(&(shard, *count)));
        let vouches = are_whole && !ledgers.is_empty() && counts.iter().all(are_all);
        Ok((ledgers, vouches))
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
    pub(in crate::database) async fn list(&self, folder: &Path) -> Result<Vec<DirectoryEntry>> {
        match self.context.disk.list(folder).await {
            Err(error) if error.is_missing_file() => Ok(Vec::new()),
            result => result,
        }
    }

    /// A manifest that is damaged, missing, older than it was or cannot be read is left as it is:
    /// its table will not open, and says why.
    async fn clear_table(&self, directory: &Path, reached: &Reached) -> Cleared {
        match clear_leftovers(&self.context.disk, directory, reached).await {
            Ok(cleared) => cleared,
            Err(error) => {
                tracing::error!(%error, "a table's files are left as they are");
                Cleared::default()
            }
        }
    }

    /// Removes a folder with all that is in it.
    pub(in crate::database) async fn remove_directory(&self, directory: &Path) -> Result<()> {
        let disk = &self.context.disk;
        remove_tree(&**disk, directory).await?;
        match directory.parent() {
            Some(parent) => disk.sync_directory(parent).await,
            None => Ok(()),
        }
    }

    /// Reads the catalog; a fresh one when the directory is new.
    ///
    /// Errors: `Unavailable` for a newer format, `Corrupt`, `Io`.
    pub(in crate::database) async fn load_catalog(&self) -> Result<Catalog> {
        let path = self.options.layout.catalog();
        match read_file(&*self.context.disk, &path).await {
            Ok(content) => {
                let catalog = Catalog::decode(&path, &content)?;
                // An earlier run may have replaced it, and failed to make its name durable: tables
                // would be gone after a power cut, or be back without their files.
                self.context.disk.sync_directory(self.options.layout.root()).await?;
                Ok(catalog)
            }
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
                // Before there is a catalog: with one, the next start takes all this as done.
                self.sync_ancestors().await?;
                // Makes the folders durable as well: they stand beside the catalog.
                self.store_catalog(&catalog, None).await?;
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
            let is_log = layout::parse_log_name(&entry.name).is_some();
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

    /// Has the ledger know how far the catalog is. It is a watch more, so it may fail.
    async fn watch_catalog(&self, catalog: &Catalog) {
        let Some(ledger) = self.ledger.borrow().clone() else { return };
        let version = catalog.version();
        if let Err(error) = ledger.record(vec![Entry::Catalog { version }]).await {
            tracing::warn!(%error, "the ledger could not record the catalog");
        }
    }

    /// Replaces the catalog `before` on disk, in one step.
    ///
    /// Errors: `Io`, and the one before stands there; `Unavailable` when nobody knows which it is.
    pub(in crate::database) async fn store_catalog(
        &self,
        catalog: &Catalog,
        before: Option<&Catalog>,
    ) -> Result<()> {
        self.check_open()?;
        let path = self.options.layout.catalog();
        let disk = &*self.context.disk;
        let stored = write_file_atomically(disk, &path, &catalog.encode()).await;
        if stored.is_ok() {
            self.watch_catalog(catalog).await;
        }
        let (Err(error), Some(before)) = (&stored, before) else { return stored };
        // It may have its name already, and only that not be durable.
        let content = read_file(disk, &path).await;
        let found = content.and_then(|content| Catalog::decode(&path, &content));
        if found.is_ok_and(|found| found.version() == before.version()) {
            return stored;
        }
        match write_file_atomically(disk, &path, &before.encode()).await {
            Ok(()) => stored,
            Err(second) => Err(Error::Unavailable(format!(
                "the catalog could not be written ({error}), and the one before not put back \
                 ({second}): which of them the next start finds is not known; do it again, or open \
                 the database again"
            ))),
        }
    }
}
