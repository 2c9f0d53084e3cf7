//! The row cache of one table on one shard: rows and the gaps between them, of the partitions that
//! were read.
//!
//! It mirrors the table's SSTables and nothing else: memtables are merged over it by its readers,
//! and a flushed memtable is merged into it. Its entries share the shard's budget and eviction
//! policy with the pages of files.

mod merge;
mod place;
mod read;
#[cfg(test)]
mod tests;
mod version;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

pub(super) use place::Place;
use read::CachedRead;
pub use read::Underlying;
use version::{NO_SLOT, Version};

use super::page_cache::PageCache;
use crate::mutation::{ClusteringRange, FragmentSource, Position, Slice, Weight};
use crate::policy::Slot;
use crate::policy::event::EntryKind;
use crate::schema::table_schema::SchemaRef;
use crate::schema::{ClusteringKey, ColumnKind, PartitionKey};

/// Bookkeeping bytes of an entry: its place in the tree, counted pointers, its slot.
const ENTRY_BYTES: usize = 160;
/// Bookkeeping bytes of a partition.
const PARTITION_BYTES: usize = 512;

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
    pub rows_merged: u64,
    pub rows_dropped: u64,
    pub partitions: u64,
    pub entries: u64,
    pub bytes: u64,
}

/// A cached partition: the newest version of it, and what refers to it.
pub(super) struct Handle {
    pub(super) key: Rc<PartitionKey>,
    latest: RefCell<Rc<Version>>,
    /// The set of SSTables that the latest version stands for at least.
    generation: Cell<u64>,
    /// Whether the cache still knows it.
    is_attached: Cell<bool>,
    owner: Weak<RowCache>,
}

/// See the head of this file.
pub struct RowCache {
    cache: Rc<PageCache>,
    schema: SchemaRef,
    /// Number of the table in what policies are told.
    table: u32,
    clustering_count: usize,
    partitions: RefCell<BTreeMap<Rc<PartitionKey>, Rc<Handle>>>,
    /// Reads that began under an older set of SSTables do not bring partitions in.
    generation_min: Cell<u64>,
    counts: RefCell<RowCacheStats>,
    own: Weak<RowCache>,
}

impl RowCache {
    /// An empty cache of a table, its entries kept within the budget of `cache`.
    pub fn new(cache: Rc<PageCache>, schema: SchemaRef) -> Rc<Self> {
        let is_clustering = |kind| matches!(kind, ColumnKind::ClusteringKey { .. });
        Rc::new_cyclic(|own| RowCache {
            cache,
            table: schema.id.0 as u32,
            clustering_count: schema.columns.iter().filter(|c| is_clustering(c.kind)).count(),
            schema,
            partitions: RefCell::default(),
            generation_min: Cell::new(0),
            counts: RefCell::default(),
            own: own.clone(),
        })
    }

    /// Reads one partition, from memory where it is known and else from `underlying`, the set of
    /// SSTables number `generation`.
    pub fn read(
        &self,
        key: &PartitionKey,
        slice: &Slice,
        underlying: Rc<dyn Underlying>,
        generation: u64,
    ) -> Box<dyn FragmentSource> {
        let own = self.own.upgrade().expect("who calls holds it");
        Box::new(CachedRead::new(own, key, slice, underlying, generation))
    }

    pub fn stats(&self) -> RowCacheStats {
        RowCacheStats { partitions: self.partitions.borrow().len() as u64, ..*self.counts.borrow() }
    }

    /// Forgets up to `max` entries; true when more are left.
    pub fn clear(&self, max: usize) -> bool {
        let mut left = max;
        loop {
            let first = self.partitions.borrow().values().next().cloned();
            let Some(handle) = first else { return false };
            let slots = handle.latest.borrow().slots(left);
            for (place, slot) in &slots {
                if *slot != NO_SLOT {
                    self.cache.remove_row(*slot);
                }
                self.evicted(&handle, place);
            }
            if slots.is_empty() {
                self.detach(&handle);
            }
            left -= slots.len().min(left);
            if left == 0 {
                return !self.partitions.borrow().is_empty();
            }
        }
    }

    /// Runs a walk that tells which entries it used.
    fn touch<T>(&self, walk: impl FnOnce(&mut dyn FnMut(Slot)) -> T) -> T {
        self.cache.touch_rows(walk)
    }

    /// Keeps a partition that was read for the first time. `None` when a newer flush has come by.
    fn add_partition(
        &self,
        key: Rc<PartitionKey>,
        version: Version,
        generation: u64,
    ) -> Option<(Rc<Handle>, Rc<Version>)> {
        let known = self.partitions.borrow().get(&key).cloned();
        if let Some(handle) = known {
            // Someone else read it at the same time.
            let version = handle.latest.borrow().clone();
            return (handle.generation.get() <= generation).then_some((handle, version));
        }
        if generation < self.generation_min.get() {
            return None;
        }
        let version = Rc::new(version);
        let handle = Rc::new(Handle {
            key: key.clone(),
            latest: RefCell::new(version.clone()),
            generation: Cell::new(generation),
            is_attached: Cell::new(true),
            owner: self.own.clone(),
        });
        let end = Place::of(&Position::end());
        let bytes = PARTITION_BYTES + key.as_bytes().len();
        let kind = EntryKind::PartitionHeader;
        let slot = self.cache.admit_row(&handle, &end, kind, bytes, self.table)?;
        version.set_slot(&end, slot);
        self.partitions.borrow_mut().insert(key, handle.clone());
        Some((handle, version))
    }

    /// Room for an entry of a row (or a dummy) of `row_bytes`; `None` when there is none.
    fn admit(
        &self,
        handle: &Rc<Handle>,
        place: &Place,
        is_row: bool,
        row_bytes: usize,
    ) -> Option<Slot> {
        let kind = if is_row { EntryKind::Row } else { EntryKind::Dummy };
        let bytes = ENTRY_BYTES + row_bytes + place.prefix.as_ordered().len();
        let slot = self.cache.admit_row(handle, place, kind, bytes, self.table)?;
        if !handle.is_attached.get() {
            // Making room took the partition itself.
            self.cache.remove_row(slot);
            return None;
        }
        self.counts.borrow_mut().insertions += 1;
        Some(slot)
    }

    /// An entry's slot was taken back.
    fn evicted(&self, handle: &Rc<Handle>, place: &Place) {
        self.counts.borrow_mut().evictions += 1;
        let version = handle.latest.borrow().clone();
        version.evict(place);
        if version.is_spent() {
            self.detach(handle);
        }
    }

    fn detach(&self, handle: &Rc<Handle>) {
        if handle.is_attached.replace(false) {
            self.counts.borrow_mut().partition_evictions += 1;
            self.partitions.borrow_mut().remove(&handle.key);
        }
    }

    /// The key of the one row that `gap` has room for, if it has no room for more.
    fn single_row(&self, gap: &ClusteringRange) -> Option<Rc<ClusteringKey>> {
        let (start, end) = (&gap.start, &gap.end);
        let is_prefix = start.prefix == end.prefix
            && (start.weight, end.weight) == (Weight::Before, Weight::After);
        let is_full = || {
            let components = start.prefix.stored(&self.schema);
            components.is_ok_and(|components| components.len() == self.clustering_count)
        };
        (is_prefix && is_full()).then(|| Rc::new(start.prefix.clone()))
    }
}

impl Handle {
    /// The cache took the slot of this entry back.
    pub(super) fn evicted(self: &Rc<Self>, place: &Place) {
        if let Some(owner) = self.owner.upgrade() {
            owner.evicted(self, place);
        }
    }
}
