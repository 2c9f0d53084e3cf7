//! The owner of each slot of the budget: pages or rows.
//!
//! Every row has a slot, so an entry stays small: it names shared or large things by a number.
//!
//! Invariant: a slot has an owner exactly while it is taken, from right after the budget assigned
//! it until right after it was released. Not here: admission and eviction (`budget`).

use std::rc::Rc;

use super::budget::{Budget, EntryId, Owner, VICTIMS_AHEAD};
use super::pages::{LinkedPage, Pages};
use super::rows::{Entries, Handle, PlaceRef};
use crate::mutation::FlatRow;
use crate::policy::{Slot, SlotArray};

/// What a slot held.
pub(super) enum Held {
    Page(Box<LinkedPage>),
    /// The entry of a cached partition at this place; without one that at its end.
    Row(Rc<Handle>, Option<FlatRow>),
}

/// What a slot belongs to: the number of a partition, or of a page with a bit above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tag(u32);

const FREE: Tag = Tag(u32::MAX);
const IS_PAGE: u32 = 1 << 31;

enum Of {
    Nothing,
    Page(u32),
    Partition(u32),
}

impl Tag {
    fn page(number: u32) -> Self {
        let tag = Tag(number | IS_PAGE);
        assert!(number < IS_PAGE && tag != FREE, "there are fewer pages");
        tag
    }

    fn partition(number: u32) -> Self {
        assert!(number < IS_PAGE, "there are fewer partitions");
        Tag(number)
    }

    #[inline]
    fn of(self) -> Of {
        match self {
            FREE => Of::Nothing,
            Tag(number) if number & IS_PAGE != 0 => Of::Page(number & !IS_PAGE),
            Tag(number) => Of::Partition(number),
        }
    }
}

/// See the head of this file.
pub(super) struct Owners {
    tags: SlotArray<Tag>,
    pub pages: Pages,
    pub rows: Entries,
}

impl Owners {
    pub fn new(fingerprint_key: u64) -> Self {
        Owners {
            tags: SlotArray::default(),
            pages: Pages::new(fingerprint_key),
            rows: Entries::new(fingerprint_key),
        }
    }

    /// Gives a free slot an owner.
    fn own(&mut self, slot: Slot, tag: Tag) {
        self.tags.reach(slot, || FREE);
        let was = std::mem::replace(&mut self.tags[slot], tag);
        assert!(was == FREE, "slot {slot} is taken");
    }

    /// A slot holds the page with this number.
    pub fn own_page(&mut self, slot: Slot, number: u32) {
        debug_assert_eq!(self.pages.slot(number), slot, "a page knows its slot");
        self.own(slot, Tag::page(number));
    }

    /// A slot holds an entry of a partition: that at a place, else that at its end.
    pub fn own_row(&mut self, slot: Slot, handle: &Rc<Handle>, flat: Option<FlatRow>) {
        let number = self.rows.put(slot, handle, flat);
        self.own(slot, Tag::partition(number));
    }

    /// What the slot held, which is free from now on.
    pub fn take(&mut self, slot: Slot) -> Held {
        match std::mem::replace(&mut self.tags[slot], FREE).of() {
            Of::Nothing => panic!("slot {slot} holds nothing"),
            Of::Page(number) => {
                debug_assert_eq!(self.pages.slot(number), slot, "a page knows its slot");
                Held::Page(self.pages.remove(number))
            }
            Of::Partition(number) => {
                let (handle, flat) = self.rows.take(slot, number);
                Held::Row(handle, flat)
            }
        }
    }

    /// Walks all slots: those of the budget and those of the owners are the same.
    pub fn check(&self, budget: &Budget) {
        assert!(self.tags.len() <= budget.slots_used() as usize, "a slot has an owner only");
        let (mut pages, mut rows) = (0, 0);
        for slot in 0..budget.slots_used() {
            let tag = self.tags.get(slot).copied().unwrap_or(FREE);
            let resident = budget.resident(slot);
            assert_eq!(resident.is_some(), tag != FREE, "slot {slot} has an owner if it is taken");
            match tag.of() {
                Of::Nothing => {}
                Of::Page(number) => {
                    assert_eq!(self.pages.slot(number), slot, "a page knows its slot");
                    assert_eq!(resident, Some(self.pages.size(number)), "a page is what it was");
                    pages += 1;
                }
                Of::Partition(number) => {
                    self.rows.check_slot(slot, number);
                    rows += 1;
                }
            }
        }
        self.pages.check(pages);
        self.rows.check(rows);
    }

    /// Whether a slot holds the entry of a partition at a place.
    pub fn is_row(&self, slot: Slot, handle: &Rc<Handle>, place: PlaceRef<'_>) -> bool {
        match self.tags.get(slot).map(|tag| tag.of()) {
            Some(Of::Partition(number)) => self.rows.is_at(slot, number, handle, place),
            _ => false,
        }
    }

    /// Slots that have an owner.
    #[cfg(test)]
    pub fn taken(&self) -> impl Iterator<Item = Slot> {
        (0..self.tags.len() as Slot).filter(|slot| self.tags[*slot] != FREE)
    }
}

impl Owner for Owners {
    fn is_in_use(&self, slot: Slot) -> bool {
        match self.tags[slot].of() {
            Of::Nothing => true,
            Of::Page(number) => self.pages.is_in_use(number),
            Of::Partition(_) => false,
        }
    }

    /// Each step needs what the one before has fetched: what the slot holds, then row and number of
    /// the partition, then the steps of [`Handle::prefetch`].
    fn will_leave(&self, slot: Slot, ahead: usize) {
        if ahead == VICTIMS_AHEAD - 1 {
            self.tags.prefetch(slot);
            self.rows.prefetch_slot(slot);
            return;
        }
        let Of::Partition(number) = self.tags[slot].of() else { return };
        if ahead == VICTIMS_AHEAD - 2 {
            self.rows.prefetch(slot, number);
            return;
        }
        const { assert!(VICTIMS_AHEAD == 2 + Handle::PREFETCH_STEPS) };
        self.rows.handle(number).prefetch(Handle::PREFETCH_STEPS - 1 - ahead);
    }

    fn id(&self, slot: Slot) -> EntryId {
        match self.tags[slot].of() {
            Of::Nothing => panic!("slot {slot} holds nothing"),
            Of::Page(number) => self.pages.id(number),
            Of::Partition(number) => self.rows.id(slot, number),
        }
    }
}
