//! Names of the simulated file system: what is seen, what is stable, and changes in between.
//!
//! Invariant: a change is undone or done whole; one that needs an undone change is undone too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::clock::Random;

/// Number of a file in the simulated disk.
pub(super) type InodeNumber = u64;

/// What stands under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    File(InodeNumber),
    Directory,
}

/// A change that no sync of its directory has made stable yet.
#[derive(Debug, Clone)]
enum Change {
    Add(PathBuf, Entry),
    Rename { from: PathBuf, to: PathBuf, inode: InodeNumber },
    Remove(PathBuf, Entry),
}

impl Change {
    fn is_in(&self, directory: &Path) -> bool {
        let inside = |path: &Path| path.parent() == Some(directory);
        match self {
            Change::Add(path, _) | Change::Remove(path, _) => inside(path),
            Change::Rename { from, to, .. } => inside(from) || inside(to),
        }
    }

    /// Does the change if what it needs is there.
    fn apply(&self, entries: &mut BTreeMap<PathBuf, Entry>) {
        match self {
            Change::Add(path, entry) => {
                entries.entry(path.clone()).or_insert(*entry);
            }
            Change::Rename { from, to, inode } => {
                if entries.get(from) == Some(&Entry::File(*inode)) {
                    entries.remove(from);
                    entries.insert(to.clone(), Entry::File(*inode));
                }
            }
            Change::Remove(path, entry) => {
                if entries.get(path) == Some(entry) {
                    entries.remove(path);
                }
            }
        }
    }
}

/// The tree of names, by full path. The root and the working directory are always there.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    live: BTreeMap<PathBuf, Entry>,
    stable: BTreeMap<PathBuf, Entry>,
    /// In order of their numbers.
    pending: Vec<(u64, Change)>,
    next_change: u64,
}

impl Names {
    pub fn get(&self, path: &Path) -> Option<Entry> {
        if is_root(path) {
            return Some(Entry::Directory);
        }
        self.live.get(path).copied()
    }

    /// Files by their paths.
    pub fn files(&self) -> impl Iterator<Item = (&Path, InodeNumber)> {
        self.live.iter().filter_map(|(path, entry)| match entry {
            Entry::File(number) => Some((path.as_path(), *number)),
            Entry::Directory => None,
        })
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.live);
        self.pending.push((self.next_change, change));
        self.next_change += 1;
    }

    pub fn add(&mut self, path: &Path, entry: Entry) {
        self.change(Change::Add(path.to_path_buf(), entry));
    }

    pub fn rename(&mut self, from: &Path, to: &Path, inode: InodeNumber) {
        self.change(Change::Rename { from: from.to_path_buf(), to: to.to_path_buf(), inode });
    }

    pub fn remove(&mut self, path: &Path, entry: Entry) {
        self.change(Change::Remove(path.to_path_buf(), entry));
    }

    /// Number of the next change; a sync takes it when it begins.
    pub fn next_change(&self) -> u64 {
        self.next_change
    }

    /// Makes the changes of one directory before number `until` stable.
    pub fn commit(&mut self, directory: &Path, until: u64) {
        let stable = &mut self.stable;
        self.pending.retain(|(number, change)| {
            let done = *number < until && change.is_in(directory);
            if done {
                change.apply(stable);
            }
            !done
        });
    }

    /// Names and entries right under `directory`, sorted.
    pub fn children(&self, directory: &Path) -> impl Iterator<Item = (&Path, Entry)> {
        self.live
            .iter()
            .filter(move |(path, _)| path.parent() == Some(directory))
            .map(|(path, entry)| (path.as_path(), *entry))
    }

    /// Files that have a name now.
    pub fn linked(&self) -> BTreeSet<InodeNumber> {
        self.live.values().filter_map(inode).collect()
    }

    /// Files that have a name now or may have one after a power cut.
    pub fn reachable(&self) -> BTreeSet<InodeNumber> {
        let pending = self.pending.iter().filter_map(|(_, change)| match change {
            Change::Add(_, entry) | Change::Remove(_, entry) => inode(entry),
            Change::Rename { inode, .. } => Some(*inode),
        });
        let named = self.live.values().chain(self.stable.values()).filter_map(inode);
        pending.chain(named).collect()
    }

    /// The names after a power cut: each pending change is done or not.
    pub fn after_power_cut(&self, random: &mut Random) -> Names {
        let mut entries = self.stable.clone();
        for (_, change) in &self.pending {
            if random.one_in(2) {
                change.apply(&mut entries);
            }
        }
        // A lost directory takes everything under it along.
        let orphaned = |path: &PathBuf, entries: &BTreeMap<PathBuf, Entry>| {
            path.ancestors()
                .skip(1)
                .any(|above| !is_root(above) && entries.get(above) != Some(&Entry::Directory))
        };
        let kept = entries
            .iter()
            .filter(|(path, _)| !orphaned(path, &entries))
            .map(|(p, e)| (p.clone(), *e));
        let kept: BTreeMap<PathBuf, Entry> = kept.collect();
        Names { live: kept.clone(), stable: kept, ..Names::default() }
    }
}

fn inode(entry: &Entry) -> Option<InodeNumber> {
    match entry {
        Entry::File(inode) => Some(*inode),
        Entry::Directory => None,
    }
}

pub(super) fn is_root(path: &Path) -> bool {
    path.as_os_str().is_empty() || path.parent().is_none() || path == Path::new(".")
}
