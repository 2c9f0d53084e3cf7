//! The slots of a cache: which are resident, and the native CLOCK, which can always name a victim.
//!
//! Invariant: a slot is either resident or in the free list, and `bytes` is the sum over residents.
//! A touch is one store: the stamp orders residents by last touch, its lowest bit is the CLOCK's
//! reference bit. Maps beside hold what few residents have: a large size, or pins. Not here: the
//! order in which victims are requested (`mod.rs`), what a slot holds (see
//! [`Owner`](super::Owner)).

use std::collections::BTreeMap;

use crate::policy::event::EntryKind;
use crate::policy::{Slot, SlotArray};

/// Referenced candidates that one victim search looks at before it takes the oldest of them.
const CLOCK_WINDOW_MAX: u32 = 64;

const REFERENCED: u32 = 1;

/// The size in an entry's word; this one stands for itself and all above.
const SIZE_LARGE: u32 = (1 << KIND_SHIFT) - 1;
const KIND_SHIFT: u32 = 25;
const KIND: u32 = 0xF << KIND_SHIFT;
const STATE_SHIFT: u32 = 29;
const STATE: u32 = 3 << STATE_SHIFT;
const PINNED: u32 = 1 << 31;
/// The state of a resident that is neither proposed nor pinned.
const RESIDENT: u32 = (SlotState::Resident as u32) << STATE_SHIFT;

/// Who has a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum SlotState {
    Free,
    Resident,
    /// A resident that the active policy offered as a victim and counts as gone.
    Proposed,
}

/// One slot; 8 bytes, because every cached row has one and its touch should cost one line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// Lower bits of the sequence of the last touch, shifted left by one; lowest bit: touched since
    /// the hand passed.
    touched: u32,
    /// Size 0..25, kind 25..29, state 29..31, whether it is pinned 31.
    word: u32,
}

const _: () = assert!(size_of::<Entry>() == 8);

impl Entry {
    #[inline]
    pub fn kind(self) -> EntryKind {
        EntryKind::numbered(((self.word & KIND) >> KIND_SHIFT) as u8)
    }

    #[inline]
    pub fn is_resident(self) -> bool {
        self.word & STATE != (SlotState::Free as u32) << STATE_SHIFT
    }

    #[inline]
    pub fn is_proposed(self) -> bool {
        self.word & STATE == (SlotState::Proposed as u32) << STATE_SHIFT
    }

    #[inline]
    pub fn is_pinned(self) -> bool {
        self.word & PINNED != 0
    }

    fn set_state(&mut self, state: SlotState) {
        self.word = self.word & !STATE | (state as u32) << STATE_SHIFT;
    }
}

/// All slots of a cache.
#[derive(Debug)]
pub(super) struct SlotTable {
    entries: SlotArray<Entry>,
    free: Vec<Slot>,
    /// Sizes, and last sizes, that an entry has no room for.
    large: BTreeMap<Slot, u32>,
    /// How often each is pinned of those that are.
    pins: BTreeMap<Slot, u8>,
    hand: u32,
    sequence: u64,
    resident_count: u32,
    bytes: u64,
    slots_max: u32,
}

impl SlotTable {
    pub fn new(slots_max: u32) -> Self {
        SlotTable {
            entries: SlotArray::default(),
            free: Vec::new(),
            large: BTreeMap::new(),
            pins: BTreeMap::new(),
            hand: 0,
            sequence: 0,
            resident_count: 0,
            bytes: 0,
            slots_max,
        }
    }

    /// Slots that were ever used: `0..len`.
    pub fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    pub fn resident_count(&self) -> u32 {
        self.resident_count
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn slots_max(&self) -> u32 {
        self.slots_max
    }

    /// Raises the limit; it never falls, because residents keep their slots.
    pub fn raise_slots_max(&mut self, slots_max: u32) {
        self.slots_max = self.slots_max.max(slots_max);
    }

    /// The entry of a resident. A slot that is not resident is a bug of the cache above.
    #[inline]
    fn resident_mut(&mut self, slot: Slot) -> &mut Entry {
        let entry = &mut self.entries[slot];
        assert!(entry.is_resident(), "slot {slot} is not resident");
        entry
    }

    /// What is known of a resident; see [`resident_mut`](Self::resident_mut).
    #[inline]
    pub fn resident(&self, slot: Slot) -> Entry {
        let entry = self.entries[slot];
        assert!(entry.is_resident(), "slot {slot} is not resident");
        entry
    }

    /// The entry of any number that a policy may have made up, if that is a resident's.
    pub fn lookup(&self, slot: Slot) -> Option<Entry> {
        self.entries.get(slot).copied().filter(|entry| entry.is_resident())
    }

    /// Has a slot's entry fetched.
    #[inline]
    pub fn prefetch(&self, slot: Slot) {
        self.entries.prefetch(slot);
    }

    /// The kind of the slot's resident, or of its last one.
    pub fn last_kind(&self, slot: Slot) -> EntryKind {
        self.entries[slot].kind()
    }

    /// The size of the slot's resident, or of its last one.
    #[inline]
    pub fn last_size(&self, slot: Slot) -> u32 {
        self.size_of(slot, self.entries[slot])
    }

    /// The size in what was read of a slot.
    #[inline]
    pub fn size_of(&self, slot: Slot, entry: Entry) -> u32 {
        match entry.word & SIZE_LARGE {
            SIZE_LARGE => self.large[&slot],
            size_bytes => size_bytes,
        }
    }

    fn set_size(&mut self, slot: Slot, size_bytes: u32) {
        let entry = &mut self.entries[slot];
        if entry.word & SIZE_LARGE == SIZE_LARGE {
            self.large.remove(&slot);
        }
        entry.word = entry.word & !SIZE_LARGE | size_bytes.min(SIZE_LARGE);
        if size_bytes >= SIZE_LARGE {
            self.large.insert(slot, size_bytes);
        }
        debug_assert_eq!(self.last_size(slot), size_bytes, "slot {slot} says what it takes");
    }

    /// The resident is offered as a victim, or no more.
    pub fn set_proposed(&mut self, slot: Slot, is_proposed: bool) {
        let state = if is_proposed { SlotState::Proposed } else { SlotState::Resident };
        let entry = self.resident_mut(slot);
        debug_assert_ne!(entry.is_proposed(), is_proposed, "slot {slot} is that already");
        entry.set_state(state);
    }

    /// Pins a resident once more; true when it was not pinned before.
    pub fn pin(&mut self, slot: Slot) -> bool {
        self.resident_mut(slot).word |= PINNED;
        let pins = self.pins.entry(slot).or_insert(0);
        *pins = pins.checked_add(1).expect("few pin one entry");
        *pins == 1
    }

    /// Undoes one `pin`; true when that was the last.
    pub fn unpin(&mut self, slot: Slot) -> bool {
        let pins = self.pins.get_mut(&slot).unwrap_or_else(|| panic!("slot {slot} is not pinned"));
        debug_assert!(*pins > 0, "slot {slot} is kept as pinned by nobody");
        *pins -= 1;
        let is_last = *pins == 0;
        if is_last {
            self.drop_pins(slot);
        }
        is_last
    }

    fn drop_pins(&mut self, slot: Slot) {
        self.pins.remove(&slot);
        self.entries[slot].word &= !PINNED;
    }

    /// Marks a resident as just used.
    #[inline]
    pub fn touch(&mut self, slot: Slot) -> Entry {
        self.sequence += 2;
        let stamp = self.sequence as u32 | REFERENCED;
        let entry = self.resident_mut(slot);
        entry.touched = stamp;
        *entry
    }

    /// Takes a slot for a new resident, not yet referenced; `None` when all are taken.
    pub fn insert(&mut self, size_bytes: u32, kind: EntryKind) -> Option<Slot> {
        self.sequence += 2;
        let touched = self.sequence as u32;
        let mut entry = Entry { touched, word: u32::from(kind as u8) << KIND_SHIFT };
        entry.set_state(SlotState::Resident);
        let slot = match self.free.pop() {
            Some(slot) => {
                // The size of the last one, which is forgotten below.
                entry.word |= self.entries[slot].word & SIZE_LARGE;
                self.entries[slot] = entry;
                slot
            }
            None if self.len() < self.slots_max => {
                self.entries.push(entry);
                self.len() - 1
            }
            None => return None,
        };
        self.set_size(slot, size_bytes);
        debug_assert!(slot < self.slots_max, "slot {slot} is beyond the limit");
        debug_assert!(self.resident_count < self.len(), "there are more residents than slots");
        self.resident_count += 1;
        self.bytes += u64::from(size_bytes);
        Some(slot)
    }

    /// Frees a resident's slot and returns what it was; its kind and size are known until the slot
    /// is taken again.
    pub fn release(&mut self, slot: Slot) -> Entry {
        let was = self.resident(slot);
        if was.is_pinned() {
            self.drop_pins(slot);
        }
        self.entries[slot].set_state(SlotState::Free);
        self.free.push(slot);
        debug_assert!(self.resident_count > 0, "a resident leaves where there is none");
        self.resident_count -= 1;
        self.bytes -= u64::from(self.size_of(slot, was));
        was
    }

    /// Changes the size of a resident and returns what it was.
    pub fn resize(&mut self, slot: Slot, size_bytes: u32) -> u32 {
        let was = self.size_of(slot, self.resident(slot));
        debug_assert!(self.bytes >= u64::from(was), "a resident takes more than all of them");
        self.set_size(slot, size_bytes);
        self.bytes = self.bytes - u64::from(was) + u64::from(size_bytes);
        was
    }

    /// Orders residents by their last touch; right for those of the last two thousand million
    /// touches.
    pub fn last_touch(&self, entry: Entry) -> u64 {
        let touched = entry.touched & !REFERENCED;
        self.sequence - u64::from((self.sequence as u32).wrapping_sub(touched))
    }

    /// Walks all slots: counts and sums are those of the residents.
    pub fn check(&self) {
        let table = self;
        let residents = || (0..table.len()).filter(move |slot| table.entries[*slot].is_resident());
        let count = residents().count();
        assert_eq!(count, self.resident_count as usize, "residents are counted");
        let bytes: u64 = residents().map(|slot| u64::from(self.last_size(slot))).sum();
        assert_eq!(bytes, self.bytes, "bytes are the sum of all residents");
        assert_eq!(self.free.len() + count, self.entries.len(), "who is not free is resident");
        let is_free = |slot: &Slot| !self.entries[*slot].is_resident();
        assert!(self.free.iter().all(is_free), "a resident's slot is free");
        let pinned = residents().filter(|slot| self.entries[*slot].is_pinned());
        assert!(pinned.eq(self.pins.keys().copied()), "pins are those of residents");
        assert!(self.len() <= self.slots_max, "there are more slots than there may be");
    }

    /// The next victim by CLOCK: the first evictable resident not touched since the hand last
    /// passed, or the one longest untouched of a window in which all were touched. Each slot looked
    /// at costs one of `budget`; `None` when that ends without an evictable resident.
    pub fn clock_victim(
        &mut self,
        in_use: &dyn Fn(Slot) -> bool,
        budget: &mut u32,
    ) -> Option<Slot> {
        let mut oldest: Option<(u32, Slot)> = None;
        let mut window = 0;
        while *budget > 0 && window < CLOCK_WINDOW_MAX && !self.entries.is_empty() {
            *budget -= 1;
            let slot = self.hand % self.len();
            self.hand = slot + 1;
            let sequence = self.sequence;
            let entry = &mut self.entries[slot];
            if entry.word & (STATE | PINNED) != RESIDENT || in_use(slot) {
                continue;
            }
            if entry.touched & REFERENCED == 0 {
                return Some(slot);
            }
            entry.touched &= !REFERENCED;
            window += 1;
            let age = (sequence as u32).wrapping_sub(entry.touched);
            if oldest.is_none_or(|(oldest, _)| age > oldest) {
                oldest = Some((age, slot));
            }
        }
        oldest.map(|(_, slot)| slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(slots: u32) -> SlotTable {
        let mut table = SlotTable::new(slots);
        for slot in 0..slots {
            assert_eq!(table.insert(10, EntryKind::DataPage), Some(slot));
        }
        table
    }

    #[test]
    fn slots_are_dense_reused_and_limited() {
        let mut table = full(3);
        assert_eq!(table.insert(10, EntryKind::DataPage), None);
        assert!(table.release(1).is_resident());
        assert!(table.lookup(1).is_none() && table.lookup(7).is_none());
        assert_eq!((table.resident_count(), table.bytes()), (2, 20));
        assert_eq!((table.last_kind(1), table.last_size(1)), (EntryKind::DataPage, 10));
        assert_eq!(table.insert(10, EntryKind::Dummy), Some(1));
        assert_eq!(table.last_kind(1), EntryKind::Dummy);
        assert_eq!(table.resize(1, 25), 10);
        assert_eq!((table.resident_count(), table.bytes()), (3, 45));
        table.raise_slots_max(2);
        assert_eq!(table.slots_max(), 3);
    }

    #[test]
    fn sizes_of_any_magnitude_are_kept_until_the_slot_is_taken_again() {
        let mut table = full(2);
        let sizes = [0, 1, SIZE_LARGE - 1, SIZE_LARGE, SIZE_LARGE + 1, u32::MAX, 0, u32::MAX];
        for size_bytes in sizes {
            table.resize(0, size_bytes);
            assert_eq!(table.size_of(0, table.resident(0)), size_bytes);
            assert_eq!(table.bytes(), u64::from(size_bytes) + 10);
            assert_eq!(table.resident(0).kind(), EntryKind::DataPage);
            let is_large = size_bytes >= SIZE_LARGE;
            assert_eq!(table.large.len(), usize::from(is_large));
        }
        table.release(0);
        assert_eq!((table.last_size(0), table.bytes()), (u32::MAX, 10));
        for size_bytes in sizes {
            assert_eq!(table.insert(size_bytes, EntryKind::Row), Some(0));
            assert_eq!((table.last_kind(0), table.last_size(0)), (EntryKind::Row, size_bytes));
            assert_eq!(table.bytes(), u64::from(size_bytes) + 10);
            table.release(0);
        }
        assert_eq!(table.insert(7, EntryKind::Row), Some(0));
        assert!(table.large.is_empty());
    }

    #[test]
    fn a_pin_ends_with_as_many_unpins_or_with_its_resident() {
        let mut table = full(2);
        assert!(table.pin(0) && !table.pin(0));
        assert!(!table.unpin(0) && table.resident(0).is_pinned());
        assert!(table.unpin(0) && !table.resident(0).is_pinned());
        table.pin(1);
        table.release(1);
        assert_eq!(table.insert(10, EntryKind::DataPage), Some(1));
        assert!(!table.resident(1).is_pinned() && table.pins.is_empty());
    }

    #[test]
    fn the_clock_passes_over_what_was_touched_or_is_in_use() {
        let mut table = full(5);
        table.touch(0);
        table.pin(1);
        let mut budget = 100;
        let in_use = |slot| slot == 2;
        assert_eq!(table.clock_victim(&in_use, &mut budget), Some(3));
        assert_eq!(budget, 96);
        table.release(3);
        assert_eq!(table.clock_victim(&in_use, &mut budget), Some(4));
        table.release(4);
        // Its reference bit went when the hand passed.
        assert_eq!(table.clock_victim(&in_use, &mut budget), Some(0));
        table.release(0);
        assert_eq!(table.clock_victim(&in_use, &mut budget), None);
        assert_eq!(budget, 0);
    }

    #[test]
    fn where_all_were_touched_the_oldest_of_a_window_leaves() {
        let mut table = full(1000);
        for slot in (0..1000).rev() {
            table.touch(slot);
        }
        let mut budget = 1000;
        assert_eq!(table.clock_victim(&|_| false, &mut budget), Some(63));
        assert_eq!(budget, 1000 - 64);
    }
}
