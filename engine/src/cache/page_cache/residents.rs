//! What the slots of the cache hold, and which thing each of them is.
//!
//! Invariant: a slot holds something exactly while it is taken: from right after the governor gave
//! it until right after it was given back. Not here: who comes and goes (`page_cache.rs`).

use std::hash::Hasher;
use std::rc::Rc;

use super::{LinkedPage, PageKey, PageKeyHasher, mix};
use crate::cache::governor::{Contents, EntryId};
use crate::cache::rows::{Handle, PlaceRef};
use crate::mutation::FlatRow;
use crate::policy::{Slot, SlotArray};

/// What a slot holds: 16 bytes, because there is one for every row.
pub(super) enum Held {
    /// Nothing where the slot is free.
    Page(Option<Box<LinkedPage>>),
    /// The entry of a cached partition at this place; without one that at its end.
    Row(Rc<Handle>, Option<FlatRow>),
}

const _: () = assert!(size_of::<Held>() == 16);

/// See the head of this file.
pub(super) struct Residents {
    held: SlotArray<Held>,
    /// Seed of fingerprints.
    fingerprint_key: u64,
}

impl Residents {
    pub fn new(fingerprint_key: u64) -> Self {
        Residents { held: SlotArray::default(), fingerprint_key }
    }

    /// Makes sure that there is a place for what the slot holds.
    fn reserve(&mut self, slot: Slot) {
        self.held.reach(slot, || Held::Page(None));
        let is_free = matches!(self.held[slot], Held::Page(None));
        assert!(is_free, "slot {slot} is taken");
    }

    pub fn put_page(&mut self, slot: Slot, page: Box<LinkedPage>) {
        self.reserve(slot);
        self.held[slot] = Held::Page(Some(page));
    }

    pub fn put_row(&mut self, slot: Slot, handle: &Rc<Handle>, flat: Option<FlatRow>) {
        self.reserve(slot);
        self.held[slot] = Held::Row(handle.clone(), flat);
    }

    /// The row of an entry is another one now, at the same place.
    pub fn set_row(&mut self, slot: Slot, flat: FlatRow) {
        if let Held::Row(_, held) = &mut self.held[slot] {
            *held = Some(flat);
        }
    }

    /// What the slot held, which is free from now on.
    pub fn take(&mut self, slot: Slot) -> Held {
        std::mem::replace(&mut self.held[slot], Held::Page(None))
    }

    /// The page or the parsed piece that the slot holds, if it holds one.
    pub fn page(&self, slot: Slot) -> Option<&LinkedPage> {
        match &self.held[slot] {
            Held::Page(page) => page.as_deref(),
            Held::Row(..) => None,
        }
    }

    /// See [`page`](Self::page).
    pub fn page_mut(&mut self, slot: Slot) -> Option<&mut LinkedPage> {
        match &mut self.held[slot] {
            Held::Page(page) => page.as_deref_mut(),
            Held::Row(..) => None,
        }
    }

    #[cfg(test)]
    pub fn taken(&self) -> impl Iterator<Item = Slot> {
        let is_free = |slot: &Slot| matches!(self.held[*slot], Held::Page(None));
        (0..self.held.len() as Slot).filter(move |slot| !is_free(slot))
    }

    /// A keyed hash of a page's identity, equal when it returns.
    pub fn fingerprint(&self, key: PageKey) -> u64 {
        mix(mix(self.fingerprint_key ^ key.file) ^ key.page)
    }

    /// Which entry of a row cache it is that stands at a place of a partition.
    pub fn row_id(&self, handle: &Handle, place: PlaceRef<'_>) -> EntryId {
        let mut hasher = PageKeyHasher(self.fingerprint_key ^ u64::from(handle.table));
        hasher.write_u64(handle.key.token().0 as u64);
        for chunk in place.prefix.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            hasher.write_u64(u64::from_le_bytes(word));
        }
        hasher.write_u64(place.weight as i8 as u64);
        EntryId { fingerprint: hasher.finish(), table: handle.table }
    }
}

impl Contents for Residents {
    fn is_in_use(&self, slot: Slot) -> bool {
        match &self.held[slot] {
            Held::Page(page) => page.as_ref().is_none_or(|page| page.content.is_in_use()),
            Held::Row(..) => false,
        }
    }

    fn id(&self, slot: Slot) -> EntryId {
        match &self.held[slot] {
            Held::Page(page) => {
                let page = page.as_ref().expect("a resident is held");
                EntryId { fingerprint: self.fingerprint(page.key), table: page.table }
            }
            Held::Row(handle, flat) => {
                let place = flat.as_ref().map_or(PlaceRef::END, PlaceRef::of_flat);
                self.row_id(handle, place)
            }
        }
    }
}
