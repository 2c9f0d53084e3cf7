//! What a table holds, in another folder, without a copy of a byte: second names of its files.

use std::path::Path;

use super::table::Table;
use crate::error::{Error, Result};
use crate::sstable::link_files;

/// What of a table, or of all, is in a snapshot.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Linked {
    pub sstables: u64,
    /// Of their data.
    pub bytes: u64,
}

impl Table {
    /// Gives the SSTables of this shard second names in `folder`, durably, and puts a manifest of
    /// them there. What memtables hold is not part of it.
    ///
    /// Errors: `Unavailable` while the table has SSTables of another shard count: manifests of
    /// several shards say together what of those is live; `Io`.
    pub async fn link_into(&self, folder: &Path) -> Result<Linked> {
        // Files of live SSTables stay for as long as it is held.
        let manifest = self.manifest.lock().await;
        let foreign = self.sstables.borrow().0.iter().filter(|live| live.is_shared).count();
        if foreign > 0 {
            return Err(Error::Unavailable(format!(
                "{} has {foreign} SSTables of another number of shards, which are being rewritten: \
                 try again when SHOW COMPACTIONS shows no `reshard`",
                self.schema().full_name()
            )));
        }
        let mut linked = Linked::default();
        for info in manifest.live().values() {
            link_files(&*self.disk, &self.directory, folder, info.generation).await?;
            linked = linked + Linked { sstables: 1, bytes: info.data_bytes };
        }
        self.disk.sync_directory(folder).await?;
        manifest.copy_into(folder).await?;
        Ok(linked)
    }
}

impl std::ops::Add for Linked {
    type Output = Linked;

    fn add(self, other: Linked) -> Linked {
        let (sstables, bytes) = (self.sstables + other.sstables, self.bytes + other.bytes);
        Linked { sstables, bytes }
    }
}
