//! The slots of a cache: who is resident, and the native CLOCK that can always name a victim.
//!
//! Invariant: a slot is either resident or in the free list, and `bytes` is the sum over residents.
//! A touch is one store: the stamp orders residents by last touch, its lowest bit is the CLOCK's
//! reference bit. Not here: who is asked first (`governor.rs`).

use crate::policy::event::{EntryAttributes, EntryKind};
use crate::policy::{Slot, SlotArray};

/// Referenced candidates that one victim search looks at before it takes the oldest of them.
const CLOCK_WINDOW_MAX: u32 = 64;

const REFERENCED: u32 = 1;

/// Who has a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum SlotState {
    Free,
    Resident,
    /// A resident that the active policy offered as a victim and counts as gone.
    Proposed,
}

/// One slot; 32 bytes, because every cached row has one and its touch should cost one line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub fingerprint: u64,
    /// Lower bits of the sequence of the last touch, shifted left by one; lowest bit: touched since
    /// the hand passed.
    touched: u32,
    pub size_bytes: u32,
    cost_us: u32,
    table: u32,
    /// The round of the second policy that knows this resident; see `governor.rs`. Rounds count
    /// anew after 65,536: a resident of so long ago may be taken for known, and then ranks as one that
    /// the policy never heard of.
    pub known: u16,
    /// The round of the shadow that counts this resident into its sample.
    pub sampled: u16,
    pub pins: u8,
    pub kind: EntryKind,
    pub state: SlotState,
}

const _: () = assert!(size_of::<Entry>() == 32);

impl Entry {
    #[inline]
    pub fn attributes(&self) -> EntryAttributes {
        let Entry { fingerprint, size_bytes, cost_us, table, .. } = *self;
        EntryAttributes { fingerprint, size_bytes, cost_us, table }
    }

    #[inline]
    pub fn is_resident(&self) -> bool {
        self.state != SlotState::Free
    }

    #[inline]
    pub fn is_proposed(&self) -> bool {
        self.state == SlotState::Proposed
    }
}

/// All slots of a cache.
#[derive(Debug)]
pub(super) struct SlotTable {
    entries: SlotArray<Entry>,
    free: Vec<Slot>,
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
    pub fn resident(&mut self, slot: Slot) -> &mut Entry {
        let entry = &mut self.entries[slot];
        assert!(entry.is_resident(), "slot {slot} is not resident");
        entry
    }

    /// The entry of any number that a policy may have made up.
    pub fn lookup(&mut self, slot: Slot) -> Option<&mut Entry> {
        self.entries.get_mut(slot).filter(|entry| entry.is_resident())
    }

    /// What is known of the slot's resident, or of its last one.
    pub fn last(&self, slot: Slot) -> EntryAttributes {
        self.entries[slot].attributes()
    }

    /// The kind of the slot's resident, or of its last one.
    pub fn last_kind(&self, slot: Slot) -> EntryKind {
        self.entries[slot].kind
    }

    /// Marks a resident as just used.
    #[inline]
    pub fn touch(&mut self, slot: Slot) -> &mut Entry {
        self.sequence += 2;
        let stamp = self.sequence as u32 | REFERENCED;
        let entry = self.resident(slot);
        entry.touched = stamp;
        entry
    }

    /// Takes a slot for a new resident, not yet referenced; `None` when all are taken.
    pub fn insert(&mut self, attributes: EntryAttributes, kind: EntryKind) -> Option<Slot> {
        self.sequence += 2;
        let EntryAttributes { fingerprint, size_bytes, cost_us, table } = attributes;
        let entry = Entry {
            fingerprint,
            touched: self.sequence as u32,
            size_bytes,
            cost_us,
            table,
            known: 0,
            sampled: 0,
            pins: 0,
            kind,
            state: SlotState::Resident,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot] = entry;
                slot
            }
            None if self.len() < self.slots_max => {
                self.entries.push(entry);
                self.len() - 1
            }
            None => return None,
        };
        self.resident_count += 1;
        self.bytes += u64::from(attributes.size_bytes);
        Some(slot)
    }

    /// Frees a resident's slot and returns what it was.
    pub fn release(&mut self, slot: Slot) -> Entry {
        let entry = self.resident(slot);
        let was = *entry;
        entry.state = SlotState::Free;
        self.free.push(slot);
        self.resident_count -= 1;
        self.bytes -= u64::from(was.size_bytes);
        was
    }

    /// Changes the size of a resident.
    pub fn resize(&mut self, slot: Slot, size_bytes: u32) {
        let entry = self.resident(slot);
        let was = std::mem::replace(&mut entry.size_bytes, size_bytes);
        self.bytes = self.bytes - u64::from(was) + u64::from(size_bytes);
    }

    /// Orders residents by their last touch; right for those of the last two thousand million touches.
    pub fn last_touch(&self, entry: &Entry) -> u64 {
        let touched = entry.touched & !REFERENCED;
        self.sequence - u64::from((self.sequence as u32).wrapping_sub(touched))
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
            if entry.state != SlotState::Resident || entry.pins > 0 || in_use(slot) {
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

    fn attributes(fingerprint: u64) -> EntryAttributes {
        EntryAttributes { fingerprint, size_bytes: 10, cost_us: 1, table: 0 }
    }

    fn full(slots: u32) -> SlotTable {
        let mut table = SlotTable::new(slots);
        for slot in 0..slots {
            let taken = table.insert(attributes(u64::from(slot)), EntryKind::DataPage);
            assert_eq!(taken, Some(slot));
        }
        table
    }

    #[test]
    fn slots_are_dense_reused_and_limited() {
        let mut table = full(3);
        assert_eq!(table.insert(attributes(9), EntryKind::DataPage), None);
        assert_eq!(table.release(1).fingerprint, 1);
        assert!(table.lookup(1).is_none() && table.lookup(7).is_none());
        assert_eq!((table.resident_count(), table.bytes()), (2, 20));
        assert_eq!(table.insert(attributes(9), EntryKind::DataPage), Some(1));
        table.resize(1, 25);
        assert_eq!((table.resident_count(), table.bytes()), (3, 45));
        table.raise_slots_max(2);
        assert_eq!(table.slots_max(), 3);
    }

    #[test]
    fn the_clock_passes_over_what_was_touched_or_is_in_use() {
        let mut table = full(5);
        table.touch(0);
        table.resident(1).pins = 1;
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
