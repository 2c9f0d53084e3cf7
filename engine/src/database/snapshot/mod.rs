//! Snapshots: a data directory of what the database holds, made while it is read and written.
//!
//! | step | what |
//! |---|---|
//! | 1 | Every table is flushed, so everything acknowledged before is in SSTables. |
//! | 2 | Files of logged batches stay from here on. |
//! | 3 | Every shard gives its SSTables second names and writes manifests of them. |
//! | 4 | Logged batches and components of policies get second names too. |
//! | 5 | The catalog is written, last. |
//!
//! Invariant: a directory without a catalog does not open, so what was cut short is taken for no
//! snapshot. A partition is as of one moment. A logged batch is whole in a snapshot or not in it:
//! one that has begun by step 4 and may be in a part has its file there, and the next opening
//! applies it. Nothing says how far commitlogs were flushed, for a snapshot has none.

pub(super) mod export;
pub(super) mod logged;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};

use super::Database;
use super::catalog::Catalog;
use super::layout::Layout;
use super::shard::Shard;
use crate::disk::{Disk, write_file_atomically};
use crate::error::{Error, Result};
use crate::schema::table_schema::SchemaRef;
use crate::table::Linked;

/// Errno of a second name on another file system.
const EXDEV: i32 = 18;

/// Where a snapshot goes.
enum Target {
    /// A directory that somebody named.
    Beside(PathBuf),
    /// A folder of the data directory, by its number.
    Export(u64),
}

/// A snapshot that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub tables: usize,
    pub sstables: u64,
    /// Of the data of SSTables. The files are shared with the database until it removes its own.
    pub bytes: u64,
}

impl Database {
    /// Makes a snapshot in `directory`, which must not exist or be empty, on the file system of the
    /// data. It holds everything that was acknowledged before the call; of what is written
    /// meanwhile it may hold some. It is a data directory by itself: to restore it, open a copy.
    /// Attached tables are not part of it. DDL waits for its end.
    ///
    /// Errors: `Invalid` for a directory that is not empty, lies within the data directory or is on
    /// another file system; `Unavailable` while SSTables of another shard count are rewritten;
    /// those of a table that could not be opened; `Io`. What was made of it is removed then.
    pub fn snapshot(&self, directory: impl Into<PathBuf>) -> BoxFuture<'static, Result<Snapshot>> {
        let made = self.snapshot_at(Target::Beside(absolute(&directory.into())));
        made.map(|made| made.map(|(snapshot, _)| snapshot)).boxed()
    }

    /// Returns its folder too.
    fn snapshot_at(&self, target: Target) -> BoxFuture<'static, Result<(Snapshot, PathBuf)>> {
        let database = self.clone();
        self.uninterrupted(async move {
            let begin = move |shard: Rc<Shard>| {
                async move { shard.begin_snapshot(target).await }.boxed_local()
            };
            let into = database.handle(0).call("snapshot", begin).await??;
            let made = database.fill_snapshot(&into).await;
            if made.is_err() {
                let root = into.root().to_owned();
                let work = move |shard: Rc<Shard>| {
                    async move { shard.remove_directory(&root).await }.boxed_local()
                };
                if let Err(error) = database.handle(0).call("snapshot", work).await.flatten() {
                    let directory = into.root().display();
                    tracing::warn!(%directory, %error, "a part of a failed snapshot stays");
                }
            }
            let made = made.map_err(|error| explained(error, into.root()))?;
            Ok((made, into.root().to_owned()))
        })
    }

    async fn fill_snapshot(&self, into: &Layout) -> Result<Snapshot> {
        // First of all: shards flush one sooner than another, and of a batch that is applied and
        // forgotten meanwhile a part would be here, and the rest nowhere.
        let batches = self.logged_batches().clone();
        let _kept = batches.files.write().await;
        self.flush(None).await?;
        let catalog = self.catalog();
        let own = |table: &&SchemaRef| !catalog.is_attached(&table.keyspace, &table.name);
        let tables: Vec<SchemaRef> = catalog.all_tables().filter(own).cloned().collect();
        let (folders, layout) = (tables.clone(), into.clone());
        let make = move |shard: Rc<Shard>| {
            async move { shard.make_table_folders(&layout, &folders).await }.boxed_local()
        };
        self.handle(0).call("snapshot", make).await??;
        let parts = (0..self.shard_count()).map(|shard| {
            let (tables, layout) = (tables.clone(), into.clone());
            let link = move |shard: Rc<Shard>| {
                async move { shard.link_tables(&layout, &tables).await }.boxed_local()
            };
            async move { self.handle(shard).call("snapshot", link).await? }
        });
        // A shard that met an error waits for the others: what they make is removed with its own.
        let linked: Result<Vec<Linked>> = join_all(parts).await.into_iter().collect();
        let linked = linked?.into_iter().fold(Linked::default(), |a, b| a + b);
        let (layout, stored) = (into.clone(), catalog.clone());
        let end = move |shard: Rc<Shard>| {
            async move { shard.end_snapshot(&layout, &stored).await }.boxed_local()
        };
        self.handle(0).call("snapshot", end).await??;
        let Linked { sstables, bytes } = linked;
        Ok(Snapshot { tables: tables.len(), sstables, bytes })
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// What the disk says of a directory where no snapshot can be, in words.
fn explained(error: Error, directory: &Path) -> Error {
    match error {
        Error::Io { code: Some(EXDEV), .. } => Error::invalid(format!(
            "'{}' is on another file system than the data: make the snapshot beside the data \
             directory, then copy it",
            directory.display()
        )),
        other => other,
    }
}

impl Shard {
    /// Makes the folder of a snapshot.
    ///
    /// Errors: `Invalid`, `Io`.
    async fn begin_snapshot(&self, target: Target) -> Result<Layout> {
        let own = &self.options.layout;
        let into = match target {
            Target::Export(number) => Layout::new(own.exports().join(number.to_string())),
            Target::Beside(root) if root.starts_with(absolute(own.root())) => {
                return Err(Error::invalid(format!(
                    "'{}' is within the data directory: a snapshot goes beside it",
                    root.display()
                )));
            }
            Target::Beside(root) => Layout::new(root),
        };
        let (disk, root) = (&self.context.disk, into.root());
        if !disk.list(root).await?.is_empty() {
            let root = root.display();
            return Err(Error::invalid(format!("'{root}' is not empty: name a new directory")));
        }
        disk.create_directories(root).await?;
        let named = match root.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => disk.sync_directory(parent).await,
            _ => Ok(()),
        };
        if let Err(error) = named {
            if let Err(error) = self.remove_directory(root).await {
                tracing::warn!(directory = %root.display(), %error, "an empty folder stays");
            }
            return Err(error);
        }
        Ok(into)
    }

    async fn make_table_folders(&self, into: &Layout, tables: &[SchemaRef]) -> Result<()> {
        let disk = &self.context.disk;
        for table in tables {
            let folder = into.table(table);
            disk.create_directories(&folder).await?;
            // Up to the root, whose own name is durable.
            for parent in folder.ancestors().skip(1).take_while(|at| at.starts_with(into.root())) {
                disk.sync_directory(parent).await?;
            }
        }
        Ok(())
    }

    async fn link_tables(&self, into: &Layout, tables: &[SchemaRef]) -> Result<Linked> {
        let mut all = Linked::default();
        for schema in tables {
            all = all + self.table(schema.id)?.link_into(&into.table(schema)).await?;
        }
        Ok(all)
    }

    /// Everything else, the catalog last.
    async fn end_snapshot(&self, into: &Layout, catalog: &Catalog) -> Result<()> {
        let (disk, own) = (&*self.context.disk, &self.options.layout);
        let is_batch = |name: &str| !name.ends_with(".tmp");
        link_all(disk, &own.batches(), &into.batches(), is_batch).await?;
        let is_component = |name: &str| name.ends_with(".wasm");
        link_all(disk, &own.policies(), &into.policies(), is_component).await?;
        disk.sync_directory(into.root()).await?;
        write_file_atomically(disk, &into.catalog(), &catalog.encode()).await
    }
}

/// Gives files of a folder second names in another one.
async fn link_all(
    disk: &dyn Disk,
    from: &Path,
    to: &Path,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<()> {
    let entries = disk.list(from).await?;
    let wanted: Vec<_> =
        entries.iter().filter(|entry| !entry.is_directory && is_wanted(&entry.name)).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    disk.create_directories(to).await?;
    for entry in wanted {
        disk.link(&from.join(&entry.name), &to.join(&entry.name)).await?;
    }
    disk.sync_directory(to).await
}
