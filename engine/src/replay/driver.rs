//! A cache without content that talks to its policy as the engine's does: events in batches,
//! victims checked, a shortfall filled by the cache itself.
//!
//! Invariant: residents never exceed the capacity, and every victim taken was resident; so a policy
//! can only miss more.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use super::capacity::Capacity;
use crate::clock::Clock;
use crate::config::POLICY_RING_EVENTS_MAX;
use crate::policy::cache_admission::{AdmissionCandidate, AdmissionPolicy, Fate, fate};
use crate::policy::event::{EntryKind, Op};
use crate::policy::{EvictionPolicy, PolicyFailure, Slot};
use crate::trace::{Read, Trace};

const NONE: u32 = u32::MAX;
/// Spreads ids over the words that policies see as fingerprints; a bijection.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
/// Requests between two looks at whether anyone still wants the outcome.
const REQUESTS_PER_LOOK: usize = 4096;
/// Words of fates that are delivered at once: 128 fates.
const FATE_WORDS_MAX: usize = 256;
/// Events of one tick of `dt` are 1/16 ms.
const TICKS_PER_MS: u32 = 16;
const FNV_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
const FNV_PRIME: u64 = 0x100_0000_01B3;

/// How the cache of a replay is, and how it talks to its policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    pub capacity: Capacity,
    /// Events delivered at once, 1 to 256.
    pub batch: usize,
    /// Victims asked for at once; the engine asks for 32. With 1, miss ratios are those of papers.
    pub ahead: u32,
    pub seed: u64,
}

impl Settings {
    /// One victim at a time, whole batches.
    pub fn new(capacity: Capacity) -> Self {
        Settings { capacity, batch: POLICY_RING_EVENTS_MAX, ahead: 1, seed: 1 }
    }
}

/// What a replay counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    pub requests: u64,
    pub hits: u64,
    pub request_bytes: u64,
    pub hit_bytes: u64,
    pub evictions: u64,
    /// Misses that an admission policy did not let in.
    pub refused: u64,
    /// Victims that were not resident or named twice.
    pub invalid_victims: u64,
    /// Victims that the cache had to find, because the policy named none.
    pub shortfalls: u64,
    /// Events that the policy got.
    pub events: u64,
    /// Time inside the policy, ns.
    pub ns: u64,
    /// Instructions that a component executed.
    pub fuel: Option<u64>,
    /// FNV-1a of the ids evicted, in order: equal for equal decisions.
    pub victims_hash: u64,
}

impl Outcome {
    /// Hits of all requests; 0 of none.
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.requests.max(1) as f64
    }

    /// Bytes hit of all bytes requested; 0 of none.
    pub fn byte_hit_ratio(&self) -> f64 {
        self.hit_bytes as f64 / self.request_bytes.max(1) as f64
    }

    /// Time inside the policy for each request, ns.
    pub fn ns_per_request(&self) -> f64 {
        self.ns as f64 / self.requests.max(1) as f64
    }

    /// Instructions for each request.
    pub fn fuel_per_request(&self) -> Option<f64> {
        self.fuel.map(|fuel| fuel as f64 / self.requests.max(1) as f64)
    }

    pub(super) fn count(&mut self, read: &Read, is_hit: bool) {
        let bytes = u64::from(read.size_bytes);
        self.requests += 1;
        self.request_bytes += bytes;
        self.hits += u64::from(is_hit);
        self.hit_bytes += if is_hit { bytes } else { 0 };
    }

    pub(super) fn count_victim(&mut self, id: u64) {
        let before = if self.evictions == 0 { FNV_BASIS } else { self.victims_hash };
        self.victims_hash = (before ^ id).wrapping_mul(FNV_PRIME);
        self.evictions += 1;
    }
}

/// Why a replay has no outcome.
#[derive(Debug, Clone)]
pub(super) enum Stopped {
    /// The policy failed at this request, counted from 1.
    Failed { request: u64, failure: PolicyFailure },
    /// Nobody wants the outcome any more.
    Cancelled,
}

/// Slots that the cache of a replay needs.
pub(super) fn slots_of(capacity: Capacity, trace: &Trace) -> u32 {
    let entries = u64::from(trace.entry_count()).max(1);
    let slots = match capacity {
        Capacity::Entries(count) => u64::from(count),
        Capacity::Bytes(bytes) => {
            let smallest = trace.reads().iter().map(|read| read.size_bytes).min().unwrap_or(1);
            (bytes / u64::from(smallest)).clamp(1, entries)
        }
        Capacity::Percent(_) => panic!("a capacity is resolved before its slots are counted"),
    };
    u32::try_from(slots).unwrap_or(NONE - 1).min(NONE - 1)
}

/// Runs `trace` against a policy that was made for [`slots_of`] slots, behind an admission filter
/// if there is one.
pub(super) fn run(
    policy: &mut dyn EvictionPolicy,
    filter: Option<&mut dyn AdmissionPolicy>,
    trace: &Trace,
    settings: &Settings,
    clock: &dyn Clock,
    cancelled: &AtomicBool,
) -> Result<Outcome, Stopped> {
    let slots = slots_of(settings.capacity, trace) as usize;
    let mut cache = Cache {
        policy,
        filter: filter.map(|policy| AdmissionFilter {
            policy,
            fates: Vec::new(),
            last_id: 0,
            run: 0,
        }),
        trace,
        clock,
        batch: settings.batch.clamp(1, POLICY_RING_EVENTS_MAX),
        ahead: settings.ahead.max(1),
        counts_entries: matches!(settings.capacity, Capacity::Entries(_)),
        capacity: match settings.capacity {
            Capacity::Entries(count) => u64::from(count),
            Capacity::Bytes(bytes) => bytes,
            Capacity::Percent(_) => panic!("a capacity is resolved before a replay"),
        },
        used: 0,
        slot_of: vec![NONE; trace.entry_count() as usize],
        slots: vec![Place { entry: NONE, size_bytes: 0, proposed: false }; slots],
        free: (0..slots as u32).rev().collect(),
        proposals: VecDeque::new(),
        answer: Vec::new(),
        events: Vec::with_capacity(POLICY_RING_EVENTS_MAX),
        attributes: Vec::new(),
        hand: 0,
        last_ms: 0,
        outcome: Outcome::default(),
    };
    for (number, read) in trace.reads().iter().enumerate() {
        if number % REQUESTS_PER_LOOK == 0 && cancelled.load(Ordering::Relaxed) {
            return Err(Stopped::Cancelled);
        }
        let request = number as u64 + 1;
        cache.request(read).map_err(|failure| Stopped::Failed { request, failure })?;
    }
    let request = trace.reads().len() as u64;
    cache.deliver(0, 0).map_err(|failure| Stopped::Failed { request, failure })?;
    Ok(cache.outcome)
}

/// What a slot holds.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// `NONE` when it is free.
    entry: u32,
    size_bytes: u32,
    /// The policy offered it as a victim and counts it as gone.
    proposed: bool,
}

/// An admission policy before the cache.
struct AdmissionFilter<'a> {
    policy: &'a mut dyn AdmissionPolicy,
    fates: Vec<u64>,
    /// The last id that was missed, and how many stood in sequence before it.
    last_id: u64,
    run: u16,
}

impl AdmissionFilter<'_> {
    fn tell(&mut self, id: u64, what: Fate) -> Result<(), PolicyFailure> {
        if !self.policy.wants_feedback() {
            return Ok(());
        }
        self.fates.extend_from_slice(&fate(id.wrapping_mul(SPREAD), what, EntryKind::DataPage));
        if self.fates.len() >= FATE_WORDS_MAX { self.deliver() } else { Ok(()) }
    }

    fn deliver(&mut self) -> Result<(), PolicyFailure> {
        if self.fates.is_empty() {
            return Ok(());
        }
        let delivered = self.policy.feedback(&self.fates);
        self.fates.clear();
        delivered
    }

    fn admits(&mut self, id: u64, read: &Read, has_room: bool) -> Result<bool, PolicyFailure> {
        self.deliver()?;
        let is_next = id.abs_diff(self.last_id) == 1;
        self.run = if is_next { self.run.saturating_add(1) } else { 0 };
        self.last_id = id;
        self.policy.admit(&AdmissionCandidate {
            fingerprint: id.wrapping_mul(SPREAD),
            size_bytes: read.size_bytes,
            cost_us: 0,
            kind: EntryKind::DataPage,
            has_room,
            run: self.run,
            table: 0,
        })
    }
}

struct Cache<'a> {
    policy: &'a mut dyn EvictionPolicy,
    filter: Option<AdmissionFilter<'a>>,
    trace: &'a Trace,
    clock: &'a dyn Clock,
    batch: usize,
    ahead: u32,
    counts_entries: bool,
    /// Entries or bytes.
    capacity: u64,
    used: u64,
    slot_of: Vec<Slot>,
    slots: Vec<Place>,
    free: Vec<Slot>,
    proposals: VecDeque<Slot>,
    answer: Vec<Slot>,
    events: Vec<u64>,
    attributes: Vec<u64>,
    /// Where the cache looks for a victim of its own.
    hand: usize,
    last_ms: u32,
    outcome: Outcome,
}

impl Cache<'_> {
    fn cost(&self, size_bytes: u32) -> u64 {
        if self.counts_entries { 1 } else { u64::from(size_bytes) }
    }

    fn request(&mut self, read: &Read) -> Result<(), PolicyFailure> {
        let slot = self.slot_of[read.entry as usize];
        self.outcome.count(read, slot != NONE);
        if slot != NONE {
            return self.hit(slot, read);
        }
        let cost = self.cost(read.size_bytes);
        if cost > self.capacity {
            return self.push(0, Op::Miss, read, true);
        }
        if let Some(filter) = &mut self.filter {
            let has_room = self.used + cost <= self.capacity;
            if !filter.admits(self.trace.id(read.entry), read, has_room)? {
                self.outcome.refused += 1;
                return self.push(0, Op::Miss, read, true);
            }
        }
        self.make_room(cost)?;
        let slot = self.free.pop().expect("within the capacity there is a slot for each entry");
        let place = Place { entry: read.entry, size_bytes: read.size_bytes, proposed: false };
        self.slots[slot as usize] = place;
        self.slot_of[read.entry as usize] = slot;
        self.used += cost;
        self.push(slot, Op::Insert, read, true)
    }

    fn hit(&mut self, slot: Slot, read: &Read) -> Result<(), PolicyFailure> {
        if let Some(filter) = &mut self.filter {
            filter.tell(self.trace.id(read.entry), Fate::Read)?;
        }
        if self.slots[slot as usize].proposed {
            self.slots[slot as usize].proposed = false;
            self.proposals.retain(|proposed| *proposed != slot);
            self.push(slot, Op::VictimRefused, read, false)?;
        }
        self.push(slot, Op::Access, read, false)?;
        let was = std::mem::replace(&mut self.slots[slot as usize].size_bytes, read.size_bytes);
        if was == read.size_bytes {
            return Ok(());
        }
        self.used = self.used - self.cost(was) + self.cost(read.size_bytes);
        self.push(slot, Op::Resize, read, false)?;
        self.make_room(0)
    }

    fn push(
        &mut self,
        slot: Slot,
        op: Op,
        read: &Read,
        with_attributes: bool,
    ) -> Result<(), PolicyFailure> {
        let passed_ms = read.time_ms.saturating_sub(self.last_ms);
        self.last_ms = self.last_ms.max(read.time_ms);
        let ticks = passed_ms.saturating_mul(TICKS_PER_MS).min(u32::from(u16::MAX));
        self.events.push(
            u64::from(slot)
                | (op as u64) << 32
                | u64::from(read.kind) << 36
                | u64::from(ticks) << 48,
        );
        if with_attributes {
            let fingerprint = self.trace.id(read.entry).wrapping_mul(SPREAD);
            self.attributes.extend([fingerprint, u64::from(read.size_bytes), 0]);
        }
        if self.events.len() >= self.batch {
            self.deliver(0, 0)?;
        }
        Ok(())
    }

    /// Delivers what waits and asks for victims, which are left in `answer`.
    fn deliver(&mut self, want_entries: u32, want: u64) -> Result<(), PolicyFailure> {
        self.answer.clear();
        if self.events.is_empty() && want_entries == 0 {
            return Ok(());
        }
        let start_ns = self.clock.monotonic_ns();
        let applied =
            self.policy.apply(&self.events, &self.attributes, want_entries, want, &mut self.answer);
        self.outcome.ns += self.clock.monotonic_ns().saturating_sub(start_ns);
        self.outcome.events += self.events.len() as u64;
        self.events.clear();
        self.attributes.clear();
        applied
    }

    /// Evicts until `cost` more fits.
    fn make_room(&mut self, cost: u64) -> Result<(), PolicyFailure> {
        while self.used + cost > self.capacity {
            let slot = match self.proposals.pop_front() {
                Some(slot) => slot,
                None => {
                    self.ask(self.used + cost - self.capacity)?;
                    match self.proposals.pop_front() {
                        Some(slot) => slot,
                        None => self.own_victim()?,
                    }
                }
            };
            let place = &mut self.slots[slot as usize];
            let (entry, size_bytes) = (place.entry, place.size_bytes);
            *place = Place { entry: NONE, size_bytes: 0, proposed: false };
            self.used -= self.cost(size_bytes);
            self.slot_of[entry as usize] = NONE;
            self.free.push(slot);
            self.outcome.count_victim(self.trace.id(entry));
            if let Some(filter) = &mut self.filter {
                filter.tell(self.trace.id(entry), Fate::Evicted)?;
            }
        }
        Ok(())
    }

    fn ask(&mut self, want: u64) -> Result<(), PolicyFailure> {
        self.deliver(self.ahead, want)?;
        for slot in std::mem::take(&mut self.answer) {
            match self.slots.get_mut(slot as usize) {
                Some(place) if place.entry != NONE && !place.proposed => {
                    place.proposed = true;
                    self.proposals.push_back(slot);
                }
                _ => self.outcome.invalid_victims += 1,
            }
        }
        Ok(())
    }

    /// The next resident by slot number, where the policy named none.
    fn own_victim(&mut self) -> Result<Slot, PolicyFailure> {
        self.outcome.shortfalls += 1;
        let count = self.slots.len();
        let mut slots = (0..count).map(|step| (self.hand + step) % count);
        let found = slots.find(|slot| self.slots[*slot].entry != NONE);
        let slot = found.expect("a full cache has a resident");
        self.hand = slot + 1;
        let entry = self.slots[slot].entry;
        let read = Read { entry, size_bytes: 1, time_ms: self.last_ms, kind: 0 };
        self.push(slot as Slot, Op::Remove, &read, false)?;
        Ok(slot as Slot)
    }
}
