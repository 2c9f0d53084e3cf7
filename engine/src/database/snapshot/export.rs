//! A snapshot that is sent elsewhere: a folder of the data directory as long as that takes.
//!
//! Invariant: nothing of the database depends on such a folder, so an opening removes those that a
//! crash left.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt;

use super::{Database, Snapshot, Target};
use crate::database::shard::Shard;
use crate::error::Result;

/// Counts the exports of the process: a data directory has no other's.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// See the head of this file. Its folder is removed when it is dropped, or by
/// [`remove`](Self::remove), which says whether that went well.
pub struct Export {
    database: Database,
    folder: PathBuf,
    snapshot: Snapshot,
    is_removed: bool,
}

impl Database {
    /// As [`snapshot`](Self::snapshot), in a folder that is there until the export is dropped. So
    /// it needs no room but for what the database replaces meanwhile.
    ///
    /// Errors: as for a snapshot.
    pub async fn export(&self) -> Result<Export> {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let (snapshot, folder) = self.snapshot_at(Target::Export(number)).await?;
        Ok(Export { database: self.clone(), folder, snapshot, is_removed: false })
    }
}

impl Export {
    /// A data directory, whose files do not change.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Removes the folder.
    ///
    /// Errors: `Io`, `Closed`; then the next opening removes it.
    pub async fn remove(mut self) -> Result<()> {
        self.is_removed = true;
        let folder = self.folder.clone();
        let work = move |shard: Rc<Shard>| {
            async move { shard.remove_directory(&folder).await }.boxed_local()
        };
        self.database.handle(0).call("remove export", work).await?
    }
}

impl Drop for Export {
    /// Nobody waits for what was to be sent.
    fn drop(&mut self) {
        if self.is_removed {
            return;
        }
        let folder = self.folder.clone();
        let work = move |shard: Rc<Shard>| {
            let work = async move {
                if let Err(error) = shard.remove_directory(&folder).await {
                    let folder = folder.display();
                    tracing::warn!(%folder, %error, "an export stays until the next opening");
                }
            };
            work.boxed_local()
        };
        // A shard that is busy or closed leaves it to the next opening.
        let _ = self.database.handle(0).spawn("remove export", work).now_or_never();
    }
}

impl Shard {
    /// Removes what an end without notice left.
    pub(in crate::database) async fn remove_exports(&self) {
        let folder = self.options.layout.exports();
        let disk = &self.context.disk;
        let is_there = disk.list(&folder).await.is_ok_and(|entries| !entries.is_empty());
        if is_there && let Err(error) = self.remove_directory(&folder).await {
            let folder = folder.display();
            tracing::warn!(%folder, %error, "what exports left stays");
        }
    }
}
