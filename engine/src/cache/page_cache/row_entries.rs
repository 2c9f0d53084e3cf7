//! Entries of row caches in the budget that they share with pages: their slots come and go here.
//!
//! Not here: what is in which partition (`rows/`).

use std::rc::Rc;

use super::{NONE, PageCache, State, USED_MAX};
use crate::cache::governor::{Contents, EntryId};
use crate::cache::rows::{Handle, PlaceRef};
use crate::mutation::FlatRow;
use crate::policy::Slot;
use crate::policy::admission::Fate;
use crate::policy::event::{EntryAttributes, EntryKind, LOAD_COST_US};

/// How an entry of a row cache comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cache) enum Arrival {
    /// It was not there and was read from disk, after so many neighbours.
    Read { run: u16 },
    /// It was written: a flush brings it.
    Written,
}

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
    /// Has a fault come about once, after so many admissions more. Whether one was still to come.
    #[cfg(test)]
    pub(in crate::cache) fn fail_admission(&self, fault: Option<(usize, AdmissionFault)>) -> bool {
        std::mem::replace(&mut self.state.borrow_mut().admission_fault, fault).is_some()
    }

    /// All slots that are taken, and what each of them holds.
    #[cfg(test)]
    pub(in crate::cache) fn ids(&self) -> Vec<(Slot, EntryId)> {
        let state = self.state();
        let taken = state.residents.taken();
        taken.map(|slot| (slot, state.residents.id(slot))).collect()
    }

    /// A slot for an entry of a row cache (its kind and bytes), if it is let in and there is room
    /// beside what is in use. Others leave for it, of the same partition perhaps: none is given
    /// where the partition itself has left. Without a place it is the entry at the end of its
    /// partition.
    pub(in crate::cache) fn admit_row(
        &self,
        handle: &Rc<Handle>,
        flat: Option<&FlatRow>,
        arrival: Arrival,
        (kind, bytes): (EntryKind, usize),
    ) -> Option<Slot> {
        let size_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let place = PlaceRef::of_entry(flat);
        let attributes = self.evicting(|state| {
            let EntryId { fingerprint, table } = state.residents.row_id(handle, place);
            let attributes =
                EntryAttributes { fingerprint, size_bytes, cost_us: LOAD_COST_US, table };
            state.make_room_for_row(&attributes, kind, arrival).then_some(attributes)
        })?;
        // What left was taken out of its partition, and the partition with the last of it.
        if !handle.is_kept() {
            return None;
        }
        let state = &mut *self.state();
        let slot = match arrival {
            _ if state.governor.bytes() + u64::from(size_bytes) > state.capacity_bytes => None,
            Arrival::Read { .. } => state.governor.allocate(attributes, kind),
            Arrival::Written => state.governor.allocate_written(attributes, kind),
        };
        let Some(slot) = slot else {
            state.counts_of(kind).passed += 1;
            return None;
        };
        let counts = state.counts_of(kind);
        counts.pages += 1;
        counts.bytes += u64::from(size_bytes);
        state.residents.put_row(slot, handle, flat.cloned());
        Some(slot)
    }

    /// Whether so much is free that what comes in pushes nothing out.
    pub(in crate::cache) fn has_spare_room(&self) -> bool {
        let state = self.state.borrow();
        let free = state.capacity_bytes.saturating_sub(state.governor.bytes());
        free > state.capacity_bytes / 8 && !state.governor.is_full()
    }

    /// Whether so many bytes come in without that others leave.
    pub(in crate::cache) fn has_room_for(&self, bytes: usize) -> bool {
        let state = self.state.borrow();
        state.governor.bytes() + bytes as u64 <= state.capacity_bytes && !state.governor.is_full()
    }

    /// Gives the slot of a row cache's entry back; its kind and bytes.
    pub(in crate::cache) fn remove_row(&self, slot: Slot) -> (EntryKind, u64) {
        let state = &mut *self.state();
        state.governor.remove(slot, &state.residents);
        state.residents.take(slot);
        (state.left(slot), u64::from(state.governor.last_size_bytes(slot)))
    }

    /// A write changed the entry of a row cache: it is `flat`, where it is a row, and takes `bytes`
    /// now. Returns what it took before.
    pub(in crate::cache) fn resize_row(
        &self,
        slot: Slot,
        flat: Option<FlatRow>,
        bytes: u32,
    ) -> u32 {
        self.evicting(|state| {
            if let Some(flat) = flat {
                state.residents.set_row(slot, flat);
            }
            let was = state.governor.last_size_bytes(slot);
            let counts = state.counts_of(state.governor.last_kind(slot));
            counts.bytes = counts.bytes - u64::from(was) + u64::from(bytes);
            state.governor.resize_entry(slot, bytes, &state.residents);
            state.governor.update(slot, &state.residents);
            state.make_room(0);
            was
        })
    }

    /// A reader used the cached rows with these slots.
    #[inline]
    pub(in crate::cache) fn touch_rows(&self, slots: &[Slot]) {
        let mut state = self.state.borrow_mut();
        if let [slot] = slots {
            state.governor.prefetch(*slot);
        }
        state.used.extend_from_slice(slots);
        if state.used.len() >= USED_MAX {
            state.apply_used();
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
            self.counts_of(kind).misses += 1;
            if let Some(recorder) = &mut self.recorder {
                recorder.push(attributes.fingerprint, attributes.size_bytes, kind as u8, false);
            }
            if kind != EntryKind::Dummy && !self.admits(run, kind, attributes) {
                self.governor.miss(attributes, kind);
                self.counts_of(kind).refused += 1;
                return false;
            }
        }
        #[cfg(test)]
        match self.admission_fault.take() {
            Some((0, AdmissionFault::Refused)) => {
                self.counts_of(kind).passed += 1;
                return false;
            }
            Some((0, AdmissionFault::Crowded)) => {
                self.make_room(self.capacity_bytes);
            }
            fault => {
                self.admission_fault = fault.map(|(after, fault)| (after - 1, fault));
            }
        }
        self.make_room(u64::from(attributes.size_bytes));
        true
    }

    /// Tells of the rows that were used.
    pub(super) fn apply_used(&mut self) {
        let State { governor, residents, counts, recorder, filter, used, .. } = self;
        let mut filter = filter.as_mut().filter(|filter| filter.wants_fates());
        let is_watched = recorder.is_some() || filter.is_some();
        for slot in used.iter().copied().filter(|slot| *slot != NONE) {
            let kind = governor.hit(slot, residents);
            counts[kind as usize].hits += 1;
            if !is_watched {
                continue;
            }
            let EntryId { fingerprint, .. } = residents.id(slot);
            if let Some(recorder) = recorder {
                let size_bytes = governor.last_size_bytes(slot);
                recorder.push(fingerprint, size_bytes, kind as u8, true);
            }
            if let Some(filter) = &mut filter {
                filter.tell(fingerprint, Fate::Read, kind);
            }
        }
        used.clear();
        used.shrink_to(2 * USED_MAX);
    }
}
