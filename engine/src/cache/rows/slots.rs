//! The interface of row caches to the shard's cache: they obtain and release slots for their
//! entries.
//!
//! Not here: what is in which partition, and which entry stands in a slot (`entries.rs`).

use std::rc::Rc;

use super::{Handle, PlaceRef};
use crate::cache::budget::Arrival;
use crate::cache::owners::Held;
use crate::cache::shard_cache::{PageCache, State};
use crate::mutation::FlatRow;
use crate::policy::Slot;
use crate::policy::event::{EntryAttributes, EntryKind, LOAD_COST_US};

/// What goes wrong with the admission of a row cache's entry, in tests.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cache) enum AdmissionFault {
    /// There is no room.
    Refused,
    /// All that can leave leaves for it.
    Crowded,
}

impl PageCache {
    /// Injects one fault after this many more admissions. Returns whether one was still pending.
    #[cfg(test)]
    pub(super) fn fail_admission(&self, fault: Option<(usize, AdmissionFault)>) -> bool {
        std::mem::replace(&mut self.state.borrow_mut().admission_fault, fault).is_some()
    }

    /// All slots that are taken, and what each of them holds.
    #[cfg(test)]
    pub(super) fn ids(&self) -> Vec<(Slot, crate::cache::EntryId)> {
        use crate::cache::Owner;
        let state = self.state();
        let taken = state.owners.taken();
        taken.map(|slot| (slot, state.owners.id(slot))).collect()
    }

    /// A slot for an entry of a row cache (its kind and bytes), if it is let in and there is room
    /// beside what is in use; whether there was one. Without a place it is the entry at the end of
    /// its partition.
    ///
    /// With its slot the entry is `put` where it belongs before those that leave for it are taken
    /// out. These may be of the same partition: that stays, since it has this entry.
    pub(super) fn admit_row(
        &self,
        handle: &Rc<Handle>,
        flat: Option<&FlatRow>,
        arrival: Arrival,
        (kind, bytes): (EntryKind, usize),
        put: impl FnOnce(Slot),
    ) -> bool {
        debug_assert_eq!(
            flat.is_some_and(FlatRow::has_row),
            kind == EntryKind::Row,
            "an entry is of kind {kind:?}"
        );
        let size_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let admit = |state: &mut State| {
            let id = state.owners.rows.id_of(handle, PlaceRef::of_entry(flat));
            let (fingerprint, table) = (id.fingerprint, id.table);
            let attributes =
                EntryAttributes { fingerprint, size_bytes, cost_us: LOAD_COST_US, table };
            if !state.make_room_for_row(&attributes, kind, arrival) {
                return None;
            }
            let slot = state.budget.allocate(attributes, kind, arrival)?;
            state.owners.own_row(slot, handle, flat.cloned());
            Some(slot)
        };
        self.evicting_for(admit, |slot| slot.map(put).is_some())
    }

    /// Whether so much is free that what comes in pushes nothing out.
    pub(super) fn has_spare_room(&self) -> bool {
        self.state.borrow().budget.has_spare_room()
    }

    /// Whether this many bytes fit without an eviction.
    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        self.state.borrow().budget.has_room_for(bytes as u64)
    }

    /// Gives the slot of a row cache's entry back; its kind and bytes.
    pub(super) fn remove_row(&self, slot: Slot) -> (EntryKind, u64) {
        let State { budget, owners, .. } = &mut *self.state();
        let gone = budget.remove(slot, owners);
        let held = owners.take(slot);
        debug_assert!(matches!(held, Held::Row(..)), "slot {slot} is no row's");
        gone
    }

    /// A write changed the entry of a row cache: it is `flat`, where it is a row, and takes `bytes`
    /// now. What it took before is `told` before others, or this entry itself, leave for that.
    pub(super) fn resize_row(
        &self,
        slot: Slot,
        flat: Option<FlatRow>,
        bytes: u32,
        told: impl FnOnce(u32),
    ) {
        let resize = |state: &mut State| {
            if let Some(flat) = flat {
                state.owners.rows.set(slot, flat);
            }
            let was = state.budget.resize_entry(slot, bytes, &state.owners);
            state.make_room(0);
            was
        };
        self.evicting_for(resize, told);
    }

    /// A reader used the cached rows with these slots.
    #[inline]
    pub(super) fn touch_rows(&self, slots: &[Slot]) {
        let State { budget, owners, .. } = &mut *self.state.borrow_mut();
        budget.use_soon(slots, owners);
    }

    /// A reader used so many rows, and ends of partitions, of which the policy is not told.
    pub(super) fn count_untold(&self, (rows, ends): (u64, u64)) {
        let State { budget, .. } = &mut *self.state.borrow_mut();
        for (kind, hits) in [(EntryKind::Row, rows), (EntryKind::Dummy, ends)] {
            if hits > 0 {
                budget.counts_of(kind).hits += hits;
            }
        }
    }
}

impl State {
    /// Counts the arrival of an entry and makes room for it; false where it is not let in.
    fn make_room_for_row(
        &mut self,
        attributes: &EntryAttributes,
        kind: EntryKind,
        arrival: Arrival,
    ) -> bool {
        if let Arrival::Read { run } = arrival {
            let EntryAttributes { fingerprint, size_bytes, .. } = *attributes;
            self.budget.counts_of(kind).misses += 1;
            self.budget.record(fingerprint, kind, size_bytes, false);
            if kind != EntryKind::Dummy && !self.budget.admits(attributes, kind, run) {
                return false;
            }
        }
        #[cfg(test)]
        match self.admission_fault.take() {
            Some((0, AdmissionFault::Refused)) => {
                self.budget.counts_of(kind).passed += 1;
                return false;
            }
            Some((0, AdmissionFault::Crowded)) => {
                self.make_room(self.budget.capacity_bytes());
            }
            fault => {
                self.admission_fault = fault.map(|(after, fault)| (after - 1, fault));
            }
        }
        self.make_room(u64::from(attributes.size_bytes));
        true
    }
}
