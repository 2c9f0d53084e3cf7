//! Maps slots of the budget to entries of cached partitions.
//!
//! Invariant: a partition has its number while a slot holds an entry of it; of the entries of
//! partitions those have a row here that have a place. Not here: what is in which partition.

use std::hash::Hasher;
use std::rc::Rc;

use super::{Handle, PlaceRef};
use crate::cache::budget::EntryId;
use crate::cache::fingerprint::NumberHasher;
use crate::cache::slab::Slab;
use crate::mutation::FlatRow;
use crate::policy::{Slot, SlotArray};

/// A partition of which slots hold entries.
struct Partition {
    handle: Rc<Handle>,
    slots: u32,
}

/// See the head of this file.
pub(in crate::cache) struct Entries {
    rows: SlotArray<Option<FlatRow>>,
    partitions: Slab<Partition>,
    /// Seed of fingerprints.
    fingerprint_key: u64,
}

impl Entries {
    pub fn new(fingerprint_key: u64) -> Self {
        let (rows, partitions) = (SlotArray::default(), Slab::default());
        Entries { rows, partitions, fingerprint_key }
    }

    /// A slot holds an entry; the number of its partition.
    pub fn put(&mut self, slot: Slot, handle: &Rc<Handle>, flat: Option<FlatRow>) -> u32 {
        let number = handle.number.get().unwrap_or_else(|| {
            self.partitions.insert(Partition { handle: handle.clone(), slots: 0 })
        });
        handle.number.set(Some(number));
        let partition = &mut self.partitions[number];
        assert!(Rc::ptr_eq(&partition.handle, handle), "a partition has a number of its own");
        partition.slots += 1;
        self.rows.reach(slot, || None);
        debug_assert!(self.rows[slot].is_none(), "slot {slot} holds a row of another entry");
        self.rows[slot] = flat;
        number
    }

    /// The row of an entry is another one now, at the same place.
    pub fn set(&mut self, slot: Slot, flat: FlatRow) {
        let place = PlaceRef::of_flat(&flat);
        debug_assert!(
            self.rows[slot].as_ref().is_some_and(|was| PlaceRef::of_flat(was) == place),
            "the entry in slot {slot} stands elsewhere"
        );
        self.rows[slot] = Some(flat);
    }

    /// What a slot held of the partition with this number.
    pub fn take(&mut self, slot: Slot, number: u32) -> (Rc<Handle>, Option<FlatRow>) {
        let partition = &mut self.partitions[number];
        debug_assert!(partition.slots > 0, "a partition without slots has no number");
        partition.slots -= 1;
        let handle = partition.handle.clone();
        debug_assert_eq!(handle.number.get(), Some(number), "a partition knows its number");
        if partition.slots == 0 {
            self.partitions.remove(number);
            handle.number.set(None);
        }
        (handle, self.rows[slot].take())
    }

    /// Whether a slot holds the entry of a partition at a place, as that with this number has it.
    pub fn is_at(&self, slot: Slot, number: u32, handle: &Rc<Handle>, place: PlaceRef<'_>) -> bool {
        let own = PlaceRef::of_entry(self.rows[slot].as_ref());
        Rc::ptr_eq(self.handle(number), handle) && own == place
    }

    /// Checks the slot of an entry of the partition with this number.
    pub fn check_slot(&self, slot: Slot, number: u32) {
        let partition = &self.partitions[number];
        assert!(partition.slots > 0, "a partition without slots has no number");
        assert_eq!(partition.handle.number.get(), Some(number), "a partition knows its number");
        assert!(self.rows.get(slot).is_some(), "slot {slot} says no place");
    }

    /// Checks that all partitions together have this many slots.
    pub fn check(&self, slots: u32) {
        let held: u32 = self.partitions.iter().map(|(_, partition)| partition.slots).sum();
        assert_eq!(held, slots, "partitions count their slots");
    }

    pub fn handle(&self, number: u32) -> &Rc<Handle> {
        &self.partitions[number].handle
    }

    /// Has what a slot says fetched.
    pub fn prefetch_slot(&self, slot: Slot) {
        self.rows.prefetch(slot);
    }

    /// Has what a slot says of the partition with this number fetched.
    pub fn prefetch(&self, slot: Slot, number: u32) {
        self.partitions.prefetch(number);
        if let Some(row) = &self.rows[slot] {
            row.prefetch();
        }
    }

    /// Which entry it is that a slot holds of the partition with this number.
    pub fn id(&self, slot: Slot, number: u32) -> EntryId {
        self.id_of(self.handle(number), PlaceRef::of_entry(self.rows[slot].as_ref()))
    }

    /// Which entry it is that stands at a place of a partition.
    pub fn id_of(&self, handle: &Handle, place: PlaceRef<'_>) -> EntryId {
        let mut hasher = NumberHasher::with_seed(self.fingerprint_key ^ u64::from(handle.table));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutation::{Liveness, Row, Weight};
    use crate::schema::PartitionKey;

    #[test]
    fn a_partition_has_a_number_and_is_held_while_a_slot_has_an_entry_of_it() {
        let mut entries = Entries::new(1);
        let handle = Rc::new(Handle::of_key(PartitionKey::from_bytes([1])));
        let number = entries.put(5, &handle, None);
        assert_eq!(entries.put(6, &handle, Some(FlatRow::place(&[7], Weight::At))), number);
        let row = FlatRow::row(&[7], &Row { liveness: Some(Liveness::at(3)), ..Row::default() });
        entries.set(6, row.clone());
        let (of, left) = entries.take(6, number);
        assert!(Rc::ptr_eq(&of, &handle), "the row is of its partition");
        assert_eq!(left, Some(row), "it is the one that was set last");
        assert_eq!(handle.number.get(), Some(number), "its end is still there");
        assert_eq!(entries.take(5, number).1, None);
        entries.check(0);
        assert_eq!(handle.number.get(), None);
        drop(of);
        assert_eq!(Rc::strong_count(&handle), 1, "nobody else holds a partition that left");

        let next = Rc::new(Handle::of_key(PartitionKey::from_bytes([2])));
        assert_eq!(entries.put(6, &next, None), number, "its number is given again");
        assert_ne!(entries.put(5, &handle, None), number, "it has another one now");
        entries.check(2);
    }
}
