//! Merging a flushed memtable into the row cache, row by row.
//!
//! Order of a flush: the SSTable joins the set, under a new generation; the memtable is merged here
//! while readers still have it beside the cache; then the memtable goes. Merging twice changes
//! nothing, so a reader that meets a partition half merged, and has the memtable as well, sees all
//! of it. A reader that began earlier and holds the version keeps it: the merge goes to a copy, which
//! shares what it does not change.
//!
//! A row goes in only where the cache knows what was there: what it does not know it reads later,
//! from the new SSTable as well.

use std::collections::VecDeque;
use std::rc::Rc;

use super::place::Place;
use super::version::{AtRow, Entry, Version};
use super::{ENTRY_BYTES, Handle, RowCache};
use crate::error::Result;
use crate::mutation::tombstone::strongest;
use crate::mutation::{
    ClusteringRange, Fragment, FragmentSource, Position, RangeTombstone, Row, Tombstone,
};
use crate::runtime;
use crate::schema::{ClusteringKey, PartitionKey};

/// Entries that a range tombstone is put on before others have their turn.
const COVERED_AT_ONCE_MAX: usize = 64;

impl RowCache {
    /// From now on the set of SSTables has this number: reads that began earlier bring no new
    /// partitions in. To be called in the step in which the set changes.
    pub fn begin_generation(&self, generation: u64) {
        self.generation_min.set(generation);
    }

    /// Merges one partition of a flushed memtable in, read from `source` in natural order.
    ///
    /// Errors: those of `source`; the partition is forgotten then.
    pub async fn merge(
        &self,
        key: &PartitionKey,
        source: impl FnOnce() -> Box<dyn FragmentSource>,
        generation: u64,
    ) -> Result<()> {
        let handle = self.partitions.borrow().get(key).cloned();
        let Some(handle) = handle else { return Ok(()) };
        let merged = self.merge_into(&handle, source(), generation).await;
        if merged.is_err() {
            self.forget(&handle);
        }
        merged
    }

    async fn merge_into(
        &self,
        handle: &Rc<Handle>,
        mut source: Box<dyn FragmentSource>,
        generation: u64,
    ) -> Result<()> {
        // No await between: a read takes the version before the change or after it.
        let mut version = handle.latest.borrow().clone();
        if Rc::strong_count(&version) > 2 {
            version = Rc::new(Version::clone(&version));
            handle.latest.replace(version.clone());
        }
        handle.generation.set(generation);
        let mut fragments = VecDeque::new();
        let mut open: Option<(Position, Tombstone)> = None;
        loop {
            source.fill(&mut fragments).await?;
            if fragments.is_empty() {
                return Ok(());
            }
            for fragment in fragments.drain(..) {
                if !handle.is_attached.get() {
                    return Ok(());
                }
                match fragment {
                    Fragment::PartitionStart { deletion, .. } => {
                        version.deletion.set(strongest(version.deletion.get(), deletion));
                    }
                    Fragment::StaticRow(row) => match &mut *version.static_row.borrow_mut() {
                        Some(own) => Rc::make_mut(own).merge(&row),
                        none => *none = Some(row),
                    },
                    Fragment::Row { key, row } => self.merge_row(handle, &version, &key, &row),
                    Fragment::RangeTombstoneChange { position, tombstone } => {
                        if let Some((start, tombstone)) = open.take() {
                            let range = ClusteringRange { start, end: position.clone() };
                            let deletion = RangeTombstone { range, tombstone };
                            self.merge_range(handle, &version, &deletion).await;
                        }
                        open = tombstone.map(|tombstone| (position, tombstone));
                    }
                    Fragment::PartitionEnd => {}
                }
                runtime::maybe_yield().await;
            }
        }
    }

    fn merge_row(
        &self,
        handle: &Rc<Handle>,
        version: &Version,
        key: &Rc<ClusteringKey>,
        row: &Rc<Row>,
    ) {
        let slot = match version.at_row(key) {
            AtRow::Entry(slot) => slot,
            AtRow::Unknown => {
                self.counts.borrow_mut().rows_dropped += 1;
                return;
            }
            AtRow::Known => {
                let place = Place::row(key.clone());
                let slot = self.admit(handle, &place, true, row.memory_bytes());
                // Making room may have taken what was known here.
                if let Some(slot) = slot {
                    let entry = Entry {
                        row: Some(row.clone()),
                        tombstone: None,
                        slot,
                        is_known_before: false,
                    };
                    match version.at_row(key) {
                        AtRow::Known => {
                            version.insert(place, entry);
                            self.counts.borrow_mut().rows_merged += 1;
                        }
                        AtRow::Entry(_) | AtRow::Unknown => self.cache.remove_row(slot),
                    }
                } else {
                    version.forget_gap(place.as_ref());
                }
                return;
            }
        };
        let bytes = ENTRY_BYTES + key.as_ordered().len() + version.merge_row(key, row);
        self.cache.resize_row(slot, bytes);
        self.counts.borrow_mut().rows_merged += 1;
    }

    async fn merge_range(&self, handle: &Rc<Handle>, version: &Version, deletion: &RangeTombstone) {
        for bound in [&deletion.range.start, &deletion.range.end] {
            if version.needs_bound(bound) {
                let place = Place::of(bound);
                match self.admit(handle, &place, false, 0) {
                    Some(slot) => {
                        if version.needs_bound(bound) {
                            let is_known_before = false;
                            let entry = Entry { row: None, tombstone: None, slot, is_known_before };
                            version.insert(place, entry);
                        } else {
                            self.cache.remove_row(slot);
                        }
                    }
                    None => version.forget_gap(place.as_ref()),
                }
            }
        }
        let mut from = Some(deletion.range.start.clone());
        while let Some(at) = from {
            from = version.cover(&at, deletion, COVERED_AT_ONCE_MAX);
            runtime::maybe_yield().await;
        }
    }

    /// Forgets a partition whole: what it says cannot be relied on.
    fn forget(&self, handle: &Rc<Handle>) {
        for (_, slot) in handle.latest.borrow().slots(usize::MAX) {
            if slot != super::NO_SLOT {
                self.cache.remove_row(slot);
            }
        }
        self.detach(handle);
    }
}
