//! The budget of a shard's cache: bytes and slots, what enters, what leaves, and counters.
//!
//! Entries have an [`Owner`], which keeps what they hold. The budget knows their slots, sizes and
//! kinds. It asks the owner which thing a slot holds only on demand. It returns the slots of
//! victims and calls nobody to remove them.
//!
//! Invariant: an entry is counted exactly while its slot is taken; the bytes of all kinds are those
//! of the governor. Not here: pages and rows.

mod admission_filter;
mod counts;
mod doorkeeper;
mod governor;
mod owner;

use crate::policy::Slot;
use crate::policy::cache_admission::{AdmissionCandidate, AdmissionPolicy, Fate};
use crate::policy::event::{EntryAttributes, EntryKind};
use crate::trace::{Recorder, Request};

use admission_filter::AdmissionFilter;
pub use admission_filter::{AdmissionFilterStats, AdmissionFilterStatus};
pub use counts::{PageCacheStats, PageCounts};
use doorkeeper::Doorkeeper;
#[cfg(test)]
pub(super) use governor::failure;
pub use governor::{
    ExitRecord, Governor, PolicyCounters, PolicyIdentity, PolicyRole, PolicyState, PolicyStatus,
    ShadowLimits, ShadowPurpose, ShadowStatus, SwapStep,
};
pub use owner::{EntryId, Owner, VICTIMS_AHEAD};

/// No slot: of an entry that is not offered for eviction.
pub(super) const NO_SLOT: Slot = Slot::MAX;
/// Used entries that wait to be told of together: their slots lie apart, and are fetched side by
/// side.
const USED_MAX: usize = 64;
const KINDS: usize = 16;
/// Slots of a cache that is walked after each change where `is_strict`.
const WALKED_SLOTS_MAX: u64 = 512;
/// Bytes of a small entry, a row of 100 bytes: with this size for all, slots and bytes run out
/// together. Fewer would want more memory of policies, which have a limit.
const ENTRY_BYTES_SMALL: u64 = 192;

fn slots_of(capacity_bytes: u64) -> u32 {
    let slots = u32::try_from(capacity_bytes / ENTRY_BYTES_SMALL).unwrap_or(NO_SLOT - 1);
    let slots = slots.min(NO_SLOT - 1);
    debug_assert_ne!(slots, NO_SLOT, "a number stands for no slot");
    slots
}

/// How an entry comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It was not there and was read from disk, after so many neighbours.
    Read { run: u16 },
    /// It was written: a flush brings it.
    Written,
}

/// See the head of this file.
pub(super) struct Budget {
    governor: Governor,
    capacity_bytes: u64,
    counts: [PageCounts; KINDS],
    kinds: [Option<EntryKind>; KINDS],
    /// Entries that were used and whose slots were not touched yet.
    used: Vec<Slot>,
    /// Takes down all reads while a trace is recorded.
    recorder: Option<Recorder>,
    /// Decides what is kept; all is where there is none.
    filter: Option<AdmissionFilter>,
    /// What was read lately and not kept.
    doorkeeper: Doorkeeper,
}

impl Budget {
    pub fn new(capacity_bytes: u64) -> Self {
        Budget {
            governor: Governor::new(capacity_bytes, slots_of(capacity_bytes)),
            capacity_bytes,
            counts: [PageCounts::default(); KINDS],
            kinds: [None; KINDS],
            used: Vec::with_capacity(2 * USED_MAX),
            recorder: None,
            filter: None,
            doorkeeper: Doorkeeper::new(capacity_bytes),
        }
    }

    pub fn governor(&mut self) -> &mut Governor {
        &mut self.governor
    }

    pub fn slots_max(&self) -> u32 {
        self.governor.slots_max()
    }

    pub fn shadow_limits(&self, sample: u32) -> ShadowLimits {
        self.governor.shadow_limits(sample)
    }

    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Bytes of all entries.
    pub fn bytes(&self) -> u64 {
        self.governor.bytes()
    }

    pub fn set_capacity_bytes(&mut self, capacity_bytes: u64) {
        self.capacity_bytes = capacity_bytes;
        self.doorkeeper = Doorkeeper::new(capacity_bytes);
        self.governor.resize(capacity_bytes, slots_of(capacity_bytes));
        let slots_max = self.governor.slots_max();
        debug_assert!(slots_max >= slots_of(capacity_bytes), "a larger budget has more slots");
    }

    /// What is held and was done since the start.
    pub fn stats(&self) -> PageCacheStats {
        let mut total = PageCounts::default();
        let mut kinds = Vec::new();
        for (kind, counts) in self.kinds.iter().zip(&self.counts) {
            if let Some(kind) = kind {
                total += *counts;
                kinds.push((*kind, *counts));
            }
        }
        let (bytes, capacity_bytes) = (self.governor.bytes(), self.capacity_bytes);
        debug_assert_eq!(total.bytes, bytes, "the bytes of all kinds are those of the governor");
        let entries = u64::from(self.governor.entry_count());
        debug_assert_eq!(total.pages, entries, "the entries of all kinds are the residents");
        PageCacheStats { total, bytes, capacity_bytes, kinds }
    }

    pub fn counts_of(&mut self, kind: EntryKind) -> &mut PageCounts {
        self.kinds[kind as usize] = Some(kind);
        &mut self.counts[kind as usize]
    }

    /// Whether an entry of this many bytes fits without an eviction.
    pub fn has_room_for(&self, bytes: u64) -> bool {
        self.governor.bytes() + bytes <= self.capacity_bytes && !self.governor.is_full()
    }

    /// Whether so much is free that what comes in pushes nothing out.
    pub fn has_spare_room(&self) -> bool {
        let free = self.capacity_bytes.saturating_sub(self.governor.bytes());
        free > self.capacity_bytes / 8 && !self.governor.is_full()
    }

    /// Bytes to evict before this many can enter with a slot.
    pub fn excess(&self, bytes: u64) -> u64 {
        let over = (self.governor.bytes() + bytes).saturating_sub(self.capacity_bytes);
        if bytes > 0 && self.governor.is_full() { over.max(1) } else { over }
    }

    /// What was looked up was there.
    #[inline]
    pub fn hit(&mut self, slot: Slot, owner: &impl Owner) {
        let kind = self.governor.hit(slot, owner);
        debug_assert!(self.kinds[kind as usize].is_some(), "{kind:?} was used and never came in");
        self.counts[kind as usize].hits += 1;
        if self.is_watched() {
            self.show_hit(slot, kind, owner);
        }
    }

    /// Entries with these slots were used. The budget reports uses later, many at once.
    #[inline]
    pub fn use_soon(&mut self, slots: &[Slot], owner: &impl Owner) {
        slots
            .iter()
            .filter(|slot| **slot != NO_SLOT)
            .for_each(|slot| self.governor.prefetch(*slot));
        self.used.extend_from_slice(slots);
        if self.used.len() >= USED_MAX {
            self.apply_used(owner);
        }
        debug_assert!(self.used.len() < USED_MAX, "what was used is told of after so many");
    }

    #[inline]
    pub fn has_used(&self) -> bool {
        !self.used.is_empty()
    }

    /// Tells of the entries that were used.
    pub fn apply_used(&mut self, owner: &impl Owner) {
        let mut used = std::mem::take(&mut self.used);
        let is_watched = self.is_watched();
        for slot in used.iter().copied().filter(|slot| *slot != NO_SLOT) {
            let kind = self.governor.hit(slot, owner);
            self.counts[kind as usize].hits += 1;
            if is_watched {
                self.show_hit(slot, kind, owner);
            }
        }
        used.clear();
        used.shrink_to(2 * USED_MAX);
        debug_assert!(self.used.is_empty(), "nothing is used while uses are told of");
        self.used = used;
    }

    /// Whether anybody needs the identity of used things.
    #[inline]
    fn is_watched(&self) -> bool {
        self.recorder.is_some() || self.wants_fates()
    }

    #[inline]
    fn wants_fates(&self) -> bool {
        self.filter.as_ref().is_some_and(AdmissionFilter::wants_fates)
    }

    #[cold]
    fn show_hit(&mut self, slot: Slot, kind: EntryKind, owner: &impl Owner) {
        let EntryId { fingerprint, .. } = owner.id(slot);
        self.record(fingerprint, kind, self.governor.last_size_bytes(slot), true);
        self.tell(fingerprint, Fate::Read, kind);
    }

    /// Takes a read down where a trace is recorded.
    #[inline]
    pub fn record(&mut self, fingerprint: u64, kind: EntryKind, bytes: u32, is_hit: bool) {
        if let Some(recorder) = &mut self.recorder {
            recorder.push(fingerprint, bytes, kind as u8, is_hit);
        }
    }

    pub fn is_recording(&self) -> bool {
        self.recorder.is_some()
    }

    fn tell(&mut self, fingerprint: u64, what: Fate, kind: EntryKind) {
        if let Some(filter) = self.filter.as_mut().filter(|filter| filter.wants_fates()) {
            filter.tell(fingerprint, what, kind);
        }
    }

    /// Whether what was read after `run` neighbours is let in. What is not is counted.
    pub fn admits(&mut self, attributes: &EntryAttributes, kind: EntryKind, run: u16) -> bool {
        let has_room = self.has_room_for(u64::from(attributes.size_bytes));
        let Some(filter) = &mut self.filter else { return true };
        let EntryAttributes { fingerprint, size_bytes, cost_us, table } = *attributes;
        let candidate =
            AdmissionCandidate { fingerprint, size_bytes, cost_us, kind, has_room, run, table };
        let is_let_in = filter.admits(&candidate);
        if !is_let_in {
            self.governor.miss(attributes, kind);
            self.counts_of(kind).refused += 1;
        }
        is_let_in
    }

    /// How many pieces of a source stood in sequence before this one, which is read now; where
    /// nobody asks, 0.
    pub fn run(&mut self, source: u64, piece: u64) -> u16 {
        self.filter.as_mut().map_or(0, |filter| filter.run(source, piece))
    }

    /// A source is closed.
    pub fn forget_source(&mut self, source: u64) {
        if let Some(filter) = &mut self.filter {
            filter.forget(source);
        }
    }

    /// Whether to keep something of which the better part is kept elsewhere: when it is read for
    /// the second time, or where an admission policy is to decide.
    pub fn is_second_time(&mut self, fingerprint: u64) -> bool {
        self.filter.is_some() || self.doorkeeper.is_known(fingerprint)
    }

    /// What was looked up and read finds no room.
    pub fn pass(&mut self, attributes: &EntryAttributes, kind: EntryKind) {
        let bytes = u64::from(attributes.size_bytes);
        debug_assert!(!self.has_room_for(bytes), "what has room is kept");
        self.governor.miss(attributes, kind);
        self.counts_of(kind).passed += 1;
    }

    /// A slot for an entry that comes in; `None` where there is no room.
    pub fn allocate(
        &mut self,
        attributes: EntryAttributes,
        kind: EntryKind,
        arrival: Arrival,
    ) -> Option<Slot> {
        let size_bytes = u64::from(attributes.size_bytes);
        let slot = match arrival {
            _ if self.governor.bytes() + size_bytes > self.capacity_bytes => None,
            Arrival::Read { .. } => self.governor.allocate(attributes, kind),
            Arrival::Written => self.governor.allocate_written(attributes, kind),
        };
        let counts = self.counts_of(kind);
        if slot.is_some() {
            counts.pages += 1;
            counts.bytes += size_bytes;
            let bytes = self.governor.bytes();
            debug_assert!(bytes <= self.capacity_bytes, "{bytes} bytes came in beyond the budget");
        } else {
            counts.passed += 1;
        }
        slot
    }

    /// Has entries of at least `over` bytes leave, if that can be, and appends their slots, which
    /// are free: the owner drops what it has there before it asks for a slot. Returns bytes freed.
    pub fn evict(&mut self, over: u64, owner: &impl Owner, victims: &mut Vec<Slot>) -> u64 {
        let first = victims.len();
        debug_assert!(over > 0, "entries leave where room is wanted");
        let freed = self.governor.evict(over, owner, victims);
        debug_assert!(freed == 0 || victims.len() > first, "bytes were freed by nobody");
        for slot in &victims[first..] {
            self.count_eviction(*slot, owner);
        }
        freed
    }

    /// As [`evict`](Self::evict), of an entry that the owner picked.
    pub fn evict_one(&mut self, slot: Slot, owner: &impl Owner) {
        self.governor.remove(slot, owner);
        self.count_eviction(slot, owner);
    }

    fn count_eviction(&mut self, slot: Slot, owner: &impl Owner) {
        let (kind, _) = self.count_out(slot);
        self.counts_of(kind).evictions += 1;
        if self.wants_fates() {
            self.tell(owner.id(slot).fingerprint, Fate::Evicted, kind);
        }
    }

    /// The owner gives an entry up; its kind and bytes. The slot is free.
    pub fn remove(&mut self, slot: Slot, owner: &impl Owner) -> (EntryKind, u64) {
        self.governor.remove(slot, owner);
        self.count_out(slot)
    }

    /// Counts what the governor freed as gone; its kind and bytes.
    fn count_out(&mut self, slot: Slot) -> (EntryKind, u64) {
        let (kind, bytes) = self.last(slot);
        let counts = self.counts_of(kind);
        debug_assert!(counts.pages > 0, "an entry of {kind:?} leaves that never came in");
        debug_assert!(counts.bytes >= bytes, "{kind:?} gives back more bytes than it took");
        counts.pages -= 1;
        counts.bytes -= bytes;
        (kind, bytes)
    }

    /// Kind and bytes of what the slot holds, or held last.
    pub fn last(&self, slot: Slot) -> (EntryKind, u64) {
        (self.governor.last_kind(slot), u64::from(self.governor.last_size_bytes(slot)))
    }

    /// A write changed an entry, which takes `bytes` now. Returns what it took before.
    pub fn resize_entry(&mut self, slot: Slot, bytes: u32, owner: &impl Owner) -> u32 {
        let was = self.governor.last_size_bytes(slot);
        let counts = self.counts_of(self.governor.last_kind(slot));
        debug_assert!(counts.bytes >= u64::from(was), "an entry takes more than all of its kind");
        counts.bytes = counts.bytes - u64::from(was) + u64::from(bytes);
        self.governor.resize_entry(slot, bytes, owner);
        self.governor.update(slot, owner);
        was
    }

    /// Kind and bytes of what the slot holds, if it holds something.
    pub fn resident(&self, slot: Slot) -> Option<(EntryKind, u64)> {
        self.governor.resident(slot)
    }

    /// Slots below this were used.
    pub fn slots_used(&self) -> u32 {
        self.governor.slots_used()
    }

    /// Whether a walk over everything is worth its time: in a large cache, one walk in many misses.
    pub fn is_walk_due(&self) -> bool {
        let misses: u64 = self.counts.iter().map(|counts| counts.misses).sum();
        u64::from(self.slots_used()) <= WALKED_SLOTS_MAX || misses.is_multiple_of(WALKED_SLOTS_MAX)
    }

    /// Walks all slots: what is counted of each kind is what stands in the slots.
    pub fn check(&self) {
        self.governor.check();
        let mut found = [(0u64, 0u64); KINDS];
        for slot in 0..self.slots_used() {
            if let Some((kind, bytes)) = self.resident(slot) {
                let (entries, sum) = &mut found[kind as usize];
                (*entries, *sum) = (*entries + 1, *sum + bytes);
            }
        }
        for (counts, (entries, bytes)) in self.counts.iter().zip(found) {
            assert_eq!(counts.pages, entries, "entries of a kind are counted");
            assert_eq!(counts.bytes, bytes, "bytes of a kind are counted");
        }
    }

    pub fn set_admission(&mut self, policy: Option<(String, Box<dyn AdmissionPolicy>)>) {
        self.filter = policy.map(|(name, policy)| AdmissionFilter::new(name, policy));
    }

    pub fn admission_status(&self) -> Option<AdmissionFilterStatus> {
        self.filter.as_ref().map(AdmissionFilter::status)
    }

    pub fn admission_metrics(&mut self) -> Vec<(String, f64)> {
        self.filter.as_mut().map_or_else(Vec::new, AdmissionFilter::metrics)
    }

    pub fn set_recorder(&mut self, recorder: Option<Recorder>) {
        self.recorder = recorder;
    }

    /// What was recorded since the last call and how many reads were lost; `empty` becomes the
    /// ring.
    pub fn take_recorded(&mut self, empty: Vec<Request>) -> (Vec<Request>, u64) {
        match &mut self.recorder {
            Some(recorder) => recorder.take(empty),
            None => (Vec::new(), 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::event::LOAD_COST_US;

    #[test]
    fn there_is_spare_room_while_bytes_and_slots_are_left() {
        let capacity_bytes = 100 * ENTRY_BYTES_SMALL;
        for size_bytes in [1, 50, ENTRY_BYTES_SMALL, 1000, capacity_bytes / 8] {
            let mut budget = Budget::new(capacity_bytes);
            for fingerprint in 0_u64.. {
                let bytes = fingerprint * size_bytes;
                let has_bytes = capacity_bytes - bytes > capacity_bytes / 8;
                let has_slots = fingerprint < u64::from(budget.slots_max());
                let wanted = has_bytes && has_slots;
                let told = format!("{fingerprint} entries of {size_bytes} bytes");
                assert_eq!(budget.has_spare_room(), wanted, "{told}");
                if !wanted {
                    assert!(fingerprint > 0, "an empty cache has room");
                    break;
                }
                let (cost_us, table) = (LOAD_COST_US, 0);
                let size_bytes = size_bytes as u32;
                let attributes = EntryAttributes { fingerprint, size_bytes, cost_us, table };
                let slot = budget.allocate(attributes, EntryKind::Row, Arrival::Written);
                assert!(slot.is_some(), "{told} and one more");
            }
        }
    }

    /// A budget of ten slots with so many entries of so many bytes each.
    fn with_entries(count: u64, size_bytes: u32) -> Budget {
        let mut budget = Budget::new(10 * ENTRY_BYTES_SMALL);
        assert_eq!(budget.slots_max(), 10);
        for fingerprint in 0..count {
            let (cost_us, table) = (LOAD_COST_US, 0);
            let attributes = EntryAttributes { fingerprint, size_bytes, cost_us, table };
            let kind = if fingerprint % 2 == 0 { EntryKind::Row } else { EntryKind::DataPage };
            assert!(budget.allocate(attributes, kind, Arrival::Read { run: 0 }).is_some());
        }
        budget
    }

    #[test]
    fn there_is_room_up_to_the_last_byte_and_the_last_slot() {
        let whole = 10 * ENTRY_BYTES_SMALL;
        for (count, size_bytes) in [(0, 0), (1, 7), (9, 10), (10, 1), (10, 192), (5, 384), (0, 1)] {
            let mut budget = with_entries(count, size_bytes);
            let used = count * u64::from(size_bytes);
            let left = whole - used;
            assert_eq!((budget.bytes(), budget.capacity_bytes()), (used, whole));
            let has_slot = count < 10;
            for bytes in [0, 1, left.saturating_sub(1), left, left + 1, left + 1000] {
                let told = format!("{bytes} beside {count} of {size_bytes}");
                assert_eq!(budget.has_room_for(bytes), has_slot && bytes <= left, "{told}");
                let over = bytes.saturating_sub(left);
                let least = u64::from(!has_slot && bytes > 0);
                assert_eq!(budget.excess(bytes), over.max(least), "{told}");
            }
            // A lower capacity takes no slot from anyone, and a larger one has more of both.
            budget.set_capacity_bytes(used / 2);
            assert_eq!((budget.excess(0), budget.slots_max()), (used - used / 2, 10));
            assert!(!budget.has_room_for(1), "{count} of {size_bytes}");
            budget.set_capacity_bytes(2 * whole);
            assert_eq!((budget.excess(whole), budget.slots_max()), (0, 20));
            assert!(budget.has_room_for(whole), "{count} of {size_bytes}");
        }
    }

    #[test]
    fn what_finds_no_room_is_counted_by_its_kind_and_takes_none() {
        let mut budget = with_entries(10, 1);
        let (cost_us, table, size_bytes) = (LOAD_COST_US, 0, 1);
        let another = EntryAttributes { fingerprint: 77, size_bytes, cost_us, table };
        let large = EntryAttributes { size_bytes: 10_000, ..another };
        for (attributes, kind, arrival) in [
            (another, EntryKind::Row, Arrival::Read { run: 0 }),
            (large, EntryKind::Row, Arrival::Read { run: 0 }),
            (another, EntryKind::DataPage, Arrival::Written),
            (large, EntryKind::IndexPage, Arrival::Written),
        ] {
            assert_eq!(budget.allocate(attributes, kind, arrival), None);
        }
        let PageCacheStats { total, bytes, capacity_bytes, kinds } = budget.stats();
        let of = |pages, passed| PageCounts { pages, bytes: pages, passed, ..Default::default() };
        assert_eq!((total, bytes, capacity_bytes), (of(10, 4), 10, 10 * ENTRY_BYTES_SMALL));
        let wanted = [
            (EntryKind::Row, of(5, 2)),
            (EntryKind::IndexPage, of(0, 1)),
            (EntryKind::DataPage, of(5, 1)),
        ];
        assert_eq!(kinds, wanted, "in the order of their numbers");
        budget.check();
    }
}
