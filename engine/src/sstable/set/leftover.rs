//! Files of SSTables that no manifest names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::disk::Disk;
use crate::error::Result;
use crate::sstable::format::component::generation_of;

/// Folder of whole SSTables that no manifest named.
pub const LOST: &str = "lost";

/// Clears SSTable files away whose generation no manifest names. Those without table of contents
/// are what a crash in the middle of writing left: they are removed. Whole ones are either that of
/// a crash just before the manifest, and the commitlog has their data, or the manifest was lost:
/// they are moved to the folder `lost` and told. Those that a manifest says are spent are removed,
/// whole or not: a compaction was writing them, or has replaced them. `live` and `spent` must hold
/// the generations of all manifests that share the directory. Returns the names that were removed
/// and that were moved.
///
/// Errors: `Io`.
pub async fn clear_unnamed(
    disk: &dyn Disk,
    directory: &Path,
    (live, spent): (&BTreeSet<u64>, &BTreeSet<u64>),
) -> Result<(Vec<String>, Vec<String>)> {
    let mut unnamed: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let is_whole = |names: &[String]| names.iter().any(|name| name.ends_with("-TOC.txt"));
    for entry in disk.list(directory).await?.into_iter().filter(|entry| !entry.is_directory) {
        if let Some(generation) = generation_of(&entry.name).filter(|g| !live.contains(g)) {
            unnamed.entry(generation).or_default().push(entry.name);
        }
    }
    let (mut removed, mut moved) = (Vec::new(), Vec::new());
    let lost = directory.join(LOST);
    for (generation, names) in unnamed {
        if is_whole(&names) && !spent.contains(&generation) {
            disk.create_directories(&lost).await?;
            for name in names {
                disk.rename(&directory.join(&name), &lost.join(&name)).await?;
                moved.push(name);
            }
        } else {
            for name in names {
                disk.remove(&directory.join(&name)).await?;
                removed.push(name);
            }
        }
    }
    if !moved.is_empty() {
        disk.sync_directory(&lost).await?;
    }
    if !moved.is_empty() || !removed.is_empty() {
        disk.sync_directory(directory).await?;
    }
    Ok((removed, moved))
}
