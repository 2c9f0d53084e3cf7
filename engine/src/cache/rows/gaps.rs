//! Gaps between cached partitions: what is known of a key that has no entry. See `ring.rs`.

use std::ops::Bound;
use std::rc::Rc;

use super::tree::{NO_SLOT, Version};
use super::{Handle, RowCache};
use crate::cache::budget::Arrival;
use crate::schema::PartitionKey;

impl RowCache {
    /// Whether the SSTables are known to lack a key that has no entry.
    pub(super) fn is_known_absent(&self, key: &PartitionKey) -> bool {
        if !self.has_continuity.get() {
            return false;
        }
        match self.after(key) {
            Some(next) => next.is_known_before.get(),
            None => self.is_end_known.get(),
        }
    }

    /// The first cached partition behind a key.
    fn after(&self, key: &PartitionKey) -> Option<Rc<Handle>> {
        let partitions = self.partitions.borrow();
        partitions.range((Bound::Excluded(key), Bound::Unbounded)).next().cloned()
    }

    /// Forgets that anything is known of the gap in which a key without an entry lies.
    pub(super) fn forget_gap(&self, key: &PartitionKey) {
        if !self.has_continuity.get() {
            return;
        }
        match self.after(key) {
            Some(next) => next.is_known_before.set(false),
            None => self.is_end_known.set(false),
        }
    }

    /// Keeps a partition that a flush brings to a known gap; where there is no room for it the gap
    /// is forgotten.
    pub(super) fn add_to_known_gap(
        &self,
        key: &PartitionKey,
        generation: u64,
    ) -> Option<(Rc<Handle>, Rc<Version>)> {
        if !self.is_known_absent(key) {
            return None;
        }
        debug_assert!(!self.partitions.borrow().contains_key(key), "a partition comes in once");
        let version = Version::new(None, None, NO_SLOT, true);
        let arrival = Arrival::Written;
        let added = self.add_partition(Rc::new(key.clone()), version, generation, arrival);
        if added.is_none() {
            self.forget_gap(key);
        }
        added
    }

    /// Of up to `max` gaps between partitions, how many are known, and how many were looked at.
    pub(super) fn ring_continuity(&self, max: usize) -> (u64, u64) {
        let partitions = self.partitions.borrow();
        let gaps = partitions.values().map(|handle| handle.is_known_before.get());
        let (mut known, mut seen) = (0, 0);
        for is_known in gaps.chain([self.is_end_known.get()]).take(max) {
            known += u64::from(is_known);
            seen += 1;
        }
        (known, seen)
    }
}
