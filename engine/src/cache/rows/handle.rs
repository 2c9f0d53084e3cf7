//! The shared handle of a cached partition.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use super::RowCache;
#[cfg(test)]
use super::tree::NO_SLOT;
use super::tree::{PlaceRef, Version, are_same};
use crate::policy::event::EntryKind;
use crate::prefetch::Memory;
use crate::schema::PartitionKey;

/// A cached partition: the newest version of it, and what refers to it.
///
/// Invariant: a holder of the latest version reads the set of SSTables with the handle's number. A
/// reader with a newer set gets a copy if somebody holds the version.
pub(in crate::cache) struct Handle {
    pub key: Rc<PartitionKey>,
    /// The key's bytes where they are few: a look-up compares them, and goes no further for them.
    pub(super) short_key: ShortKey,
    pub(super) latest: RefCell<Rc<Version>>,
    /// The set of SSTables that the latest version stands for.
    pub(super) generation: Cell<u64>,
    /// Whether the cache still knows it.
    pub(super) is_attached: Cell<bool>,
    /// Whether the SSTables are known to have no partition between the one before and this.
    pub(super) is_known_before: Cell<bool>,
    /// Number of the cache's life in which it came in.
    pub(super) life: u64,
    /// Number of the table in the events of policies.
    pub table: u32,
    /// Its number with the cache while that holds entries of it.
    pub number: Cell<Option<u32>>,
    pub(super) owner: Weak<RowCache>,
}

/// The bytes of a short key and their number; no bytes of a longer one. The key itself lies
/// elsewhere, so that readers can hold it.
#[derive(PartialEq, Eq)]
pub(super) struct ShortKey([u8; SHORT_KEY_BYTES_MAX], u8);

/// Keys of numbers, UUIDs and short names are not longer.
const SHORT_KEY_BYTES_MAX: usize = 23;

impl ShortKey {
    #[inline]
    fn of(key: &PartitionKey) -> Self {
        let mut bytes = [0; SHORT_KEY_BYTES_MAX];
        let whole = key.as_bytes();
        match bytes.get_mut(..whole.len()) {
            Some(start) => {
                start.copy_from_slice(whole);
                ShortKey(bytes, whole.len() as u8)
            }
            None => ShortKey(bytes, u8::MAX),
        }
    }
}

impl Handle {
    /// A partition of no cache yet.
    pub(super) fn new(key: Rc<PartitionKey>, version: Rc<Version>) -> Self {
        Handle {
            short_key: ShortKey::of(&key),
            key,
            latest: RefCell::new(version),
            generation: Cell::new(0),
            is_attached: Cell::new(true),
            is_known_before: Cell::new(false),
            life: 0,
            table: 0,
            number: Cell::new(None),
            owner: Weak::new(),
        }
    }

    /// A partition of which nothing is known.
    #[cfg(test)]
    pub(super) fn of_key(key: PartitionKey) -> Self {
        Handle::new(Rc::new(key), Rc::new(Version::new(None, None, NO_SLOT, false)))
    }

    /// The version that a reader of the set of SSTables number `generation`, not older than the
    /// handle's, may read and add to.
    pub(super) fn version_at(&self, generation: u64) -> Rc<Version> {
        let mut latest = self.latest.borrow_mut();
        if self.generation.replace(generation) < generation && Rc::strong_count(&latest) > 1 {
            *latest = Rc::new(Version::clone(&latest));
        }
        latest.clone()
    }

    /// Steps of [`prefetch`](Self::prefetch).
    pub const PREFETCH_STEPS: usize = 4;

    /// Has what an eviction or an insertion touches fetched, a step at a time: this, the version,
    /// the start and then all of the root of its entries. Each step is told by what the one before
    /// fetched.
    pub fn prefetch(self: &Rc<Self>, step: usize) {
        debug_assert!(step < Self::PREFETCH_STEPS, "there is no step {step}");
        if step == 0 {
            return Memory::of_shared(self).prefetch();
        }
        let Ok(version) = self.latest.try_borrow() else { return };
        if step == 1 {
            return Memory::of_shared(&*version).prefetch();
        }
        version.prefetch_root(step > 2);
    }

    /// Has what a read of its first rows touches fetched, once the steps of `prefetch` were done.
    pub(super) fn prefetch_rows(&self, max: usize) {
        Memory::of_shared(&self.key).prefetch();
        if let Ok(version) = self.latest.try_borrow() {
            version.prefetch_rows(max);
        }
    }

    #[inline]
    pub(super) fn is_of(&self, key: &PartitionKey) -> bool {
        let ShortKey(bytes, length) = &self.short_key;
        match bytes.get(..usize::from(*length)) {
            Some(own) => are_same(own, key.as_bytes()),
            None => *self.key == *key,
        }
    }

    /// The cache took the slot of this entry back.
    pub fn evicted(self: &Rc<Self>, place: PlaceRef<'_>, kind: EntryKind, bytes: u64) {
        if let Some(owner) = self.owner.upgrade() {
            owner.evicted(self, place, kind, bytes);
        }
    }
}
