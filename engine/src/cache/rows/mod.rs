//! The row cache of one table on one shard: rows of the partitions that were read, and the gaps
//! between them.
//!
//! It mirrors the table's SSTables and nothing else. Readers merge memtables over it, and a flush
//! merges its memtable into it. Its entries share the shard's budget and eviction policy with the
//! pages of files.

mod entries;
mod fill;
mod gaps;
mod handle;
mod merge;
mod pace;
mod partitions;
mod read;
mod ring;
mod slots;
#[cfg(test)]
mod tests;
mod tree;

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

pub(super) use entries::Entries;
pub(super) use handle::Handle;
use partitions::Partitions;
pub use read::{AtHand, RowFuture, Underlying};
#[cfg(test)]
pub(super) use slots::AdmissionFault;
pub(super) use tree::PlaceRef;
pub use tree::{CachedEntry, CachedPartition};
use tree::{NO_SLOT, Version};

use super::budget::Arrival;
use super::shard_cache::PageCache;
use crate::config::is_strict;
use crate::mutation::{ClusteringRange, FlatRow};
use crate::policy::Slot;
use crate::policy::event::EntryKind;
use crate::schema::table_schema::SchemaRef;
use crate::schema::{ClusteringKey, ClusteringShape, PartitionKey};

/// Bytes of an entry beside its row: 14 in the tree, 28 of its slot, and a share of what a leaf
/// takes more and has as room.
const ENTRY_BYTES: usize = 46;
/// Bookkeeping bytes of a partition: its handle and key (150), its version (64), its places in the
/// ring and by token (70), the first leaf of its tree (64), its number and slot (44).
const PARTITION_BYTES: usize = 392;

/// Entries of a cache that is walked after each change where `is_strict`.
const WALKED_ENTRIES_MAX: u64 = 256;

/// What a row cache did since it was made, and holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowCacheStats {
    /// Reads of single partitions that asked the cache.
    pub reads: u64,
    pub partition_hits: u64,
    pub partition_misses: u64,
    /// Fragments that came from memory.
    pub row_hits: u64,
    /// Stretches of known partitions that were read from below.
    pub gaps_read: u64,
    pub insertions: u64,
    pub evictions: u64,
    pub partition_evictions: u64,
    /// Times that something read was not kept because a newer flush had come by.
    pub mispopulations: u64,
    /// Rows of flushed memtables that went in, and that did not because nothing was known there.
    pub rows_merged: u64,
    pub rows_dropped: u64,
    /// Held now.
    pub partitions: u64,
    pub rows: u64,
    /// Entries that say that a row is absent, or where a known stretch ends.
    pub dummies: u64,
    pub bytes: u64,
}

impl RowCacheStats {
    /// The count of entries of a kind.
    fn held(&mut self, kind: EntryKind) -> &mut u64 {
        match kind {
            EntryKind::Row => &mut self.rows,
            EntryKind::PartitionHeader => &mut self.partitions,
            _ => &mut self.dummies,
        }
    }
}

/// See the head of this file.
pub struct RowCache {
    cache: Rc<PageCache>,
    /// Number of the table in the events of policies.
    table: u32,
    clustering: ClusteringShape,
    partitions: RefCell<Partitions>,
    /// Whether the SSTables are known to have no partition behind the last one.
    is_end_known: Cell<bool>,
    /// Whether a scan has told a gap between partitions to be known since all was forgotten: most
    /// caches are read by key, and need not look for such gaps then.
    has_continuity: Cell<bool>,
    /// Scans that began.
    scans: Cell<u32>,
    /// Partitions that were forgotten and whose entries are not all freed.
    forgotten: RefCell<Vec<Partitions>>,
    /// Rises when everything is forgotten.
    life: Cell<u64>,
    /// Reads that began under an older set of SSTables do not bring partitions in.
    generation_min: Cell<u64>,
    counts: RefCell<RowCacheStats>,
    /// Entries that every read may bring in, where tests say so.
    fill_min: Cell<Option<usize>>,
    /// Room for the slots of the entries that a walk uses.
    used: Cell<Vec<Slot>>,
    own: Weak<RowCache>,
}

impl RowCache {
    /// An empty cache of a table, its entries kept within the budget of `cache`.
    pub fn new(cache: Rc<PageCache>, schema: SchemaRef) -> Rc<Self> {
        Rc::new_cyclic(|own| RowCache {
            cache,
            table: schema.id.0 as u32,
            clustering: ClusteringShape::of(&schema),
            partitions: RefCell::default(),
            is_end_known: Cell::new(false),
            has_continuity: Cell::new(false),
            scans: Cell::default(),
            forgotten: RefCell::default(),
            life: Cell::new(0),
            generation_min: Cell::new(0),
            counts: RefCell::default(),
            fill_min: Cell::default(),
            used: Cell::default(),
            own: own.clone(),
        })
    }

    /// Entries that every read may bring in, for tests of few rows.
    #[cfg(test)]
    pub fn set_fill_min(&self, entries: usize) {
        self.fill_min.set(Some(entries));
    }

    /// Of up to `max` gaps, between partitions and in them, how many are known, and how many were
    /// looked at.
    pub fn continuity(&self, max: usize) -> (u64, u64) {
        let (mut known, mut seen) = self.ring_continuity(max);
        for handle in self.partitions.borrow().values() {
            let left = max - seen as usize;
            if left == 0 {
                break;
            }
            let (own_known, own_seen) = handle.latest.borrow().continuity(left);
            (known, seen) = (known + own_known, seen + own_seen);
        }
        (known, seen)
    }

    /// What is known of a partition, up to `max` entries; `None` where nothing is.
    pub fn inspect(&self, key: &PartitionKey, max: usize) -> Option<CachedPartition> {
        let handle = self.partitions.borrow().get(key).cloned()?;
        let version = handle.latest.borrow().clone();
        Some(version.inspect(max))
    }

    pub fn stats(&self) -> RowCacheStats {
        RowCacheStats { partitions: self.partitions.borrow().len() as u64, ..*self.counts.borrow() }
    }

    /// Forgets everything in one step; [`free`](Self::free) then gives the memory back.
    pub fn invalidate(&self) {
        self.life.set(self.life.get() + 1);
        let partitions = self.partitions.borrow_mut().take();
        self.is_end_known.set(false);
        self.has_continuity.set(false);
        if !partitions.is_empty() {
            self.counts.borrow_mut().partition_evictions += partitions.len() as u64;
            self.forgotten.borrow_mut().push(partitions);
        }
    }

    /// Forgets everything and learns nothing more: the table is gone.
    pub fn close(&self) {
        self.generation_min.set(u64::MAX);
        self.invalidate();
    }

    /// Frees up to `max` entries of what was forgotten; true when more are left.
    pub fn free(&self, max: usize) -> bool {
        let mut left = max;
        while left > 0 {
            let first = {
                let mut forgotten = self.forgotten.borrow_mut();
                let Some(partitions) = forgotten.last() else { return false };
                let first = partitions.values().next().cloned();
                if first.is_none() {
                    forgotten.pop();
                }
                first
            };
            let Some(handle) = first else { continue };
            // Readers that hold the version see less of it and read that from below.
            let version = handle.latest.borrow().clone();
            let slots = version.slots(left);
            for (place, slot) in &slots {
                if *slot != NO_SLOT {
                    self.remove(*slot);
                }
                version.evict(PlaceRef::of_flat(place));
            }
            left -= slots.len().min(left);
            if version.is_spent()
                && let Some(partitions) = self.forgotten.borrow_mut().last_mut()
            {
                partitions.remove(&handle.key);
            }
        }
        self.check();
        !self.forgotten.borrow().is_empty()
    }

    /// A partition as a reader of the set of SSTables number `generation` finds it.
    fn find(&self, key: &PartitionKey, generation: u64) -> Option<(Rc<Handle>, Rc<Version>)> {
        self.partitions.borrow().find(key, |handle| {
            let version = handle.version_at(generation);
            let root = version.searched();
            (version, root)
        })
    }

    /// Entries with these slots were used.
    fn touch(&self, slots: &[Slot]) {
        self.cache.touch_rows(slots);
    }

    /// Keeps a partition that was read for the first time. `None` when a newer flush has come by.
    fn add_partition(
        &self,
        key: Rc<PartitionKey>,
        version: Version,
        generation: u64,
        arrival: Arrival,
    ) -> Option<(Rc<Handle>, Rc<Version>)> {
        let known = self.partitions.borrow().get(&key).cloned();
        if let Some(handle) = known {
            // Someone else read it at the same time.
            let is_older = handle.generation.get() <= generation;
            return is_older.then(|| (handle.clone(), handle.version_at(generation)));
        }
        if generation < self.generation_min.get() {
            return None;
        }
        let version = Rc::new(version);
        let handle = Rc::new(Handle {
            generation: Cell::new(generation),
            life: self.life.get(),
            table: self.table,
            owner: self.own.clone(),
            ..Handle::new(key.clone(), version.clone())
        });
        let bytes = bytes_of(&key, &version);
        let what = (EntryKind::PartitionHeader, bytes);
        let put = |slot| {
            debug_assert_ne!(slot, NO_SLOT, "a partition that comes in may leave");
            let mut counts = self.counts.borrow_mut();
            counts.bytes += bytes as u64;
            counts.partitions += 1;
            version.set_slot(slot);
            // In a known gap it divides that.
            handle.is_known_before.set(self.is_known_absent(&key));
            self.partitions.borrow_mut().insert(handle.clone());
        };
        let is_in = self.cache.admit_row(&handle, None, arrival, what, put);
        self.check();
        is_in.then_some((handle, version))
    }

    /// Room for an entry, which is `put` there; false when there is none.
    fn admit(
        &self,
        handle: &Rc<Handle>,
        flat: &FlatRow,
        arrival: Arrival,
        put: impl FnOnce(Slot),
    ) -> bool {
        debug_assert!(self.knows(handle), "an entry comes into a partition that readers meet");
        let kind = if flat.has_row() { EntryKind::Row } else { EntryKind::Dummy };
        let bytes = ENTRY_BYTES + flat.memory_bytes();
        let is_in = self.cache.admit_row(handle, Some(flat), arrival, (kind, bytes), |slot| {
            let mut counts = self.counts.borrow_mut();
            counts.insertions += 1;
            counts.bytes += bytes as u64;
            *counts.held(kind) += 1;
            put(slot);
        });
        self.check();
        is_in
    }

    /// Whether an entry comes in without that others leave.
    fn has_room_for(&self, flat: &FlatRow) -> bool {
        self.cache.has_room_for(ENTRY_BYTES + flat.memory_bytes())
    }

    /// Gives an entry's slot back.
    fn remove(&self, slot: Slot) {
        let (kind, bytes) = self.cache.remove_row(slot);
        self.left(kind, bytes);
    }

    fn left(&self, kind: EntryKind, bytes: u64) {
        let mut counts = self.counts.borrow_mut();
        debug_assert!(counts.bytes >= bytes, "an entry takes more than all of them");
        debug_assert!(*counts.held(kind) > 0, "an entry of {kind:?} leaves that never came in");
        counts.bytes -= bytes;
        *counts.held(kind) -= 1;
    }

    /// An entry's row is another one now.
    fn resize(&self, slot: Slot, flat: FlatRow) {
        let bytes = ENTRY_BYTES + flat.memory_bytes();
        self.resize_entry(slot, Some(flat), bytes);
    }

    /// The static row of a partition is another one now.
    fn resize_partition(&self, key: &PartitionKey, version: &Version) {
        let slot = version.end().slot;
        if slot != NO_SLOT {
            self.resize_entry(slot, None, bytes_of(key, version));
        }
    }

    fn resize_entry(&self, slot: Slot, flat: Option<FlatRow>, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.cache.resize_row(slot, flat, bytes, |was| {
            let mut counts = self.counts.borrow_mut();
            debug_assert!(counts.bytes >= u64::from(was), "an entry takes more than all of them");
            counts.bytes = counts.bytes + u64::from(bytes) - u64::from(was);
        });
        self.check();
    }

    /// An entry's slot was taken back.
    fn evicted(&self, handle: &Rc<Handle>, place: PlaceRef<'_>, kind: EntryKind, bytes: u64) {
        self.counts.borrow_mut().evictions += 1;
        self.left(kind, bytes);
        let version = handle.latest.borrow().clone();
        version.evict(place);
        if version.is_spent() {
            self.detach(handle);
        }
    }

    /// Lets a partition go that has no entries left.
    fn detach(&self, handle: &Handle) {
        let is_known = self.knows(handle);
        handle.is_attached.set(false);
        if is_known {
            self.counts.borrow_mut().partition_evictions += 1;
            self.partitions.borrow_mut().remove(&handle.key);
            self.forget_gap(&handle.key);
        }
    }

    /// Forgets one partition whole: what it says cannot be relied on.
    fn forget(&self, handle: &Rc<Handle>) {
        if self.knows(handle) {
            self.detach(handle);
            let mut forgotten = Partitions::default();
            forgotten.insert(handle.clone());
            self.forgotten.borrow_mut().push(forgotten);
        }
        self.check();
    }

    /// Where `is_strict`: walks all that is known, of a large cache now and then. Slots are
    /// those of entries, so nothing may be on its way in or out.
    #[inline]
    fn check(&self) {
        if !is_strict() {
            return;
        }
        let counts = *self.counts.borrow();
        let entries = counts.rows + counts.dummies + counts.partitions;
        if entries > WALKED_ENTRIES_MAX && !counts.insertions.is_multiple_of(WALKED_ENTRIES_MAX) {
            return;
        }
        let (partitions, forgotten) = (self.partitions.borrow(), self.forgotten.borrow());
        partitions.check();
        for handle in partitions.values() {
            assert!(self.knows(handle), "a partition that readers meet is known");
            assert_eq!(handle.table, self.table, "a partition is of its table");
        }
        let mut slots = 0;
        for handle in partitions.values().chain(forgotten.iter().flat_map(Partitions::values)) {
            let version = handle.latest.borrow();
            version.check();
            let held = version.slots(usize::MAX);
            for (flat, slot) in held.iter().filter(|(_, slot)| *slot != NO_SLOT) {
                self.cache.check_row(*slot, handle, PlaceRef::of_flat(flat));
                slots += 1;
            }
        }
        assert_eq!(slots, entries, "an entry is counted while it has a slot");
    }

    /// Whether new readers meet this partition.
    fn knows(&self, handle: &Handle) -> bool {
        handle.is_attached.get() && handle.life == self.life.get()
    }

    /// The key of the one row that `gap` has room for, if it has no room for more.
    fn single_row(&self, gap: &ClusteringRange) -> Option<ClusteringKey> {
        gap.as_prefix().filter(|key| self.clustering.is_whole(key)).cloned()
    }
}

/// Bytes that a partition takes besides its entries.
fn bytes_of(key: &PartitionKey, version: &Version) -> usize {
    let content = version.static_row().map_or(0, |row| row.memory_bytes());
    PARTITION_BYTES + key.as_bytes().len() + content
}
