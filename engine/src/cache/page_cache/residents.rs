//! What the slots of the cache hold, and which thing each of them is.
//!
//! There is a slot for every row, so what is shared, and what is large anyhow, is named by a
//! number.
//!
//! Invariant: a slot holds something exactly while it is taken: from right after the governor gave
//! it until right after it was given back. A partition has its number while a slot holds an entry
//! of it. Not here: who comes and goes (`page_cache.rs`).

use std::hash::Hasher;
use std::rc::Rc;

use super::slab::Slab;
use super::{LinkedPage, PageKey, PageKeyHasher, mix};
use crate::cache::governor::{Contents, EntryId, VICTIMS_AHEAD};
use crate::cache::rows::{Handle, PlaceRef};
use crate::mutation::FlatRow;
use crate::policy::{Slot, SlotArray};

/// What a slot held.
pub(super) enum Held {
    Page(Box<LinkedPage>),
    /// The entry of a cached partition at this place; without one that at its end.
    Row(Rc<Handle>, Option<FlatRow>),
}

/// What a slot belongs to: the number of a partition, or of a page with a bit above.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Owner(u32);

const FREE: Owner = Owner(u32::MAX);
const IS_PAGE: u32 = 1 << 31;

enum Of {
    Nothing,
    Page(u32),
    Partition(u32),
}

impl Owner {
    fn page(number: u32) -> Self {
        let owner = Owner(number | IS_PAGE);
        assert!(number < IS_PAGE && owner != FREE, "there are fewer pages");
        owner
    }

    fn partition(number: u32) -> Self {
        assert!(number < IS_PAGE, "there are fewer partitions");
        Owner(number)
    }

    #[inline]
    fn of(self) -> Of {
        match self {
            FREE => Of::Nothing,
            Owner(number) if number & IS_PAGE != 0 => Of::Page(number & !IS_PAGE),
            Owner(number) => Of::Partition(number),
        }
    }
}

/// A partition of which slots hold entries.
struct Partition {
    handle: Rc<Handle>,
    slots: u32,
}

/// See the head of this file.
pub(super) struct Residents {
    owners: SlotArray<Owner>,
    /// Of the entries of partitions, those that have a place.
    rows: SlotArray<Option<FlatRow>>,
    pages: Slab<Box<LinkedPage>>,
    partitions: Slab<Partition>,
    /// Seed of fingerprints.
    fingerprint_key: u64,
}

impl Residents {
    pub fn new(fingerprint_key: u64) -> Self {
        Residents {
            owners: SlotArray::default(),
            rows: SlotArray::default(),
            pages: Slab::default(),
            partitions: Slab::default(),
            fingerprint_key,
        }
    }

    /// Gives a free slot an owner.
    fn own(&mut self, slot: Slot, owner: Owner) {
        self.owners.reach(slot, || FREE);
        self.rows.reach(slot, || None);
        let was = std::mem::replace(&mut self.owners[slot], owner);
        assert!(was == FREE, "slot {slot} is taken");
    }

    pub fn put_page(&mut self, slot: Slot, page: Box<LinkedPage>) {
        let number = self.pages.insert(page);
        self.own(slot, Owner::page(number));
    }

    pub fn put_row(&mut self, slot: Slot, handle: &Rc<Handle>, flat: Option<FlatRow>) {
        let number = handle.number.get().unwrap_or_else(|| {
            self.partitions.insert(Partition { handle: handle.clone(), slots: 0 })
        });
        handle.number.set(Some(number));
        let partition = &mut self.partitions[number];
        assert!(Rc::ptr_eq(&partition.handle, handle), "a partition has a number of its own");
        partition.slots += 1;
        self.own(slot, Owner::partition(number));
        self.rows[slot] = flat;
    }

    /// The row of an entry is another one now, at the same place.
    pub fn set_row(&mut self, slot: Slot, flat: FlatRow) {
        self.rows[slot] = Some(flat);
    }

    /// What the slot held, which is free from now on.
    pub fn take(&mut self, slot: Slot) -> Held {
        match std::mem::replace(&mut self.owners[slot], FREE).of() {
            Of::Nothing => panic!("slot {slot} holds nothing"),
            Of::Page(number) => Held::Page(self.pages.remove(number)),
            Of::Partition(number) => {
                let partition = &mut self.partitions[number];
                partition.slots -= 1;
                let handle = partition.handle.clone();
                if partition.slots == 0 {
                    self.partitions.remove(number);
                    handle.number.set(None);
                }
                Held::Row(handle, self.rows[slot].take())
            }
        }
    }

    /// The page or the parsed piece that the slot holds, if it holds one.
    pub fn page(&self, slot: Slot) -> Option<&LinkedPage> {
        match self.owners[slot].of() {
            Of::Page(number) => Some(&self.pages[number]),
            Of::Nothing | Of::Partition(_) => None,
        }
    }

    /// See [`page`](Self::page).
    pub fn page_mut(&mut self, slot: Slot) -> Option<&mut LinkedPage> {
        match self.owners[slot].of() {
            Of::Page(number) => Some(&mut self.pages[number]),
            Of::Nothing | Of::Partition(_) => None,
        }
    }

    #[cfg(test)]
    pub fn taken(&self) -> impl Iterator<Item = Slot> {
        (0..self.owners.len() as Slot).filter(|slot| self.owners[*slot] != FREE)
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
        match self.owners[slot].of() {
            Of::Nothing => true,
            Of::Page(number) => self.pages[number].content.is_in_use(),
            Of::Partition(_) => false,
        }
    }

    /// Each step needs what the one before has fetched: what the slot holds, then row and number of
    /// the partition, then the steps of [`Handle::prefetch`].
    fn will_leave(&self, slot: Slot, ahead: usize) {
        if ahead == VICTIMS_AHEAD - 1 {
            self.owners.prefetch(slot);
            self.rows.prefetch(slot);
            return;
        }
        let Of::Partition(number) = self.owners[slot].of() else { return };
        if ahead == VICTIMS_AHEAD - 2 {
            self.partitions.prefetch(number);
            if let Some(row) = &self.rows[slot] {
                row.prefetch();
            }
            return;
        }
        const { assert!(VICTIMS_AHEAD == 2 + Handle::PREFETCH_STEPS) };
        self.partitions[number].handle.prefetch(Handle::PREFETCH_STEPS - 1 - ahead);
    }

    fn id(&self, slot: Slot) -> EntryId {
        match self.owners[slot].of() {
            Of::Nothing => panic!("slot {slot} holds nothing"),
            Of::Page(number) => {
                let page = &self.pages[number];
                EntryId { fingerprint: self.fingerprint(page.key), table: page.table }
            }
            Of::Partition(number) => {
                let place = PlaceRef::of_entry(self.rows[slot].as_ref());
                self.row_id(&self.partitions[number].handle, place)
            }
        }
    }
}
