//! A shadow: a policy beside the active one, with the same events and its own directory of ids.
//!
//! The directory is a cache of ids in miniature (Waldspurger et al., "Cache Modeling and
//! Optimization using Miniature Simulations", ATC'17): it sees the keys that a hash picks, one in
//! `rate`, and decides with a governor of its own. Two things keep sampling error out of the
//! estimate. The directory is as large as the residents in the sample, not one `rate`th of the
//! cache: a sample with more of the important keys gets more of the cache. The shadow also counts
//! the active policy's hits on the same keys: the estimate is the active policy's figure, shifted
//! by the scaled difference.
//!
//! Invariant: a shadow holds ids only and decides nothing. If its policy fails, it ends. With and
//! without it, the residents, rings and counters of the cache are the same. It starts with the
//! residents, coldest first, and counts from then on. Limit: an entry that left the cache and is
//! then deleted stays a ghost until it is evicted there.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::policy_slot::{PolicyCounters, PolicyIdentity, PolicyRole, PolicySlot};
use super::replay::Replay;
use super::slot_table::SlotTable;
use super::{EntryId, Governor, Owner, SwapStep, attributes_of};
use crate::clock::Random;
use crate::config::SHADOW_ENTRIES_MIN;
use crate::policy::event::{EntryAttributes, EntryKind};
use crate::policy::{
    EvictionPolicy, PolicyFailure, PolicySnapshot, Slot, Tally, Trial, TrialVerdict,
};

/// Least look-ups of one window of a canary.
const WINDOW_LOOKUPS_MIN: u64 = 4096;
/// Residents that one step of the start looks at.
const STEP_SLOTS_MAX: u32 = 256;

/// What a shadow is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShadowPurpose {
    /// A policy that might become the active one.
    Candidate,
    /// The policy before, with which the active one, a canary, is compared.
    Baseline,
}

/// How large a shadow's directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShadowLimits {
    /// The shadow sees one key in this many.
    pub rate: u32,
    pub capacity_bytes: u64,
    pub slots_max: u32,
}

/// What there is to know of a shadow.
#[derive(Debug, Clone, PartialEq)]
pub struct ShadowStatus {
    pub identity: PolicyIdentity,
    pub purpose: ShadowPurpose,
    /// The shadow sees one key in this many.
    pub rate: u32,
    /// Ghosts now.
    pub entries: u32,
    pub counters: PolicyCounters,
    /// Evictions of ghosts.
    pub evictions: u64,
    /// All look-ups since it counts, as this policy would have answered them: an estimate.
    pub estimate: Tally,
    /// The same look-ups as the active policy answered them.
    pub active: Tally,
    /// Look-ups that the shadow saw.
    pub sampled_lookups: u64,
    /// Windows of the canary so far, and the mean gain of the last, points.
    pub trial: Option<(u32, Option<f64>)>,
}

#[derive(Default)]
struct FingerprintHasher(u64);

impl Hasher for FingerprintHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    // Other than the hash that samples, which has left its upper bits equal.
    fn write_u64(&mut self, fingerprint: u64) {
        let product = (self.0 ^ fingerprint).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ product >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Whether the hash of a fingerprint is in the sample.
#[inline]
fn is_sampled(fingerprint: u64, sampled_max: u64) -> bool {
    // One draw is a bijection that spreads every bit.
    Random::new(fingerprint).next_u64() <= sampled_max
}

/// Counts at the start of a window.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    whole: Tally,
    ghost: Tally,
    sampled: Tally,
}

/// What each slot of the directory stands for.
#[derive(Default)]
struct GhostIds(Vec<EntryId>);

impl Owner for GhostIds {
    fn is_in_use(&self, _: Slot) -> bool {
        false
    }

    fn id(&self, slot: Slot) -> EntryId {
        self.0[slot as usize]
    }
}

/// See the head of this file.
pub(super) struct Shadow {
    /// The policy and its ghosts; has no shadow itself.
    ghosts: Governor,
    identity: PolicyIdentity,
    purpose: ShadowPurpose,
    rate: u32,
    /// Fingerprints whose hash is not above this are seen.
    sampled_max: u64,
    /// Bytes of the cache's residents that are in the sample and in slots that were looked at.
    pub sampled_bytes: u64,
    /// Slots below this one were looked at; all were when the first ghosts come.
    counted: Slot,
    /// Looked up only, never walked.
    slots: HashMap<u64, Slot, BuildHasherDefault<FingerprintHasher>>,
    ids: GhostIds,
    /// What is left of the residents to take over.
    start: Option<Replay>,
    /// The cache's look-ups before this shadow counted.
    before: Tally,
    /// What the active policy made of the sampled look-ups.
    sampled: Tally,
    trial: Trial,
    window: Mark,
    victims: Vec<Slot>,
}

impl Shadow {
    fn new(
        policy: Box<dyn EvictionPolicy>,
        identity: PolicyIdentity,
        purpose: ShadowPurpose,
        limits: ShadowLimits,
    ) -> Result<Self, PolicyFailure> {
        let ShadowLimits { rate, capacity_bytes, slots_max } = limits;
        let mut ghosts = Governor::new(capacity_bytes, slots_max);
        ghosts.scale = rate;
        let ids = GhostIds::default();
        ghosts.begin_replace(policy, identity.clone(), &ids)?;
        while ghosts.step_replace(STEP_SLOTS_MAX, &ids) == SwapStep::Working {}
        ghosts.drop_standby();
        let mut shadow = Shadow {
            ghosts,
            identity,
            purpose,
            rate,
            sampled_max: u64::MAX / u64::from(rate),
            sampled_bytes: 0,
            counted: 0,
            slots: HashMap::default(),
            ids,
            start: Some(Replay::by_last_touch()),
            before: Tally::default(),
            sampled: Tally::default(),
            trial: Trial::default(),
            window: Mark::default(),
            victims: Vec::new(),
        };
        match shadow.failure() {
            Some(failure) => Err(failure),
            None => Ok(shadow),
        }
    }

    /// Why its policy was detached, if it was.
    fn failure(&mut self) -> Option<PolicyFailure> {
        if self.ghosts.active.is_some() {
            return None;
        }
        let record = self.ghosts.records.back();
        Some(record.expect("a policy that was detached left a record").failure.clone())
    }

    #[inline]
    fn sees(&self, fingerprint: u64) -> bool {
        is_sampled(fingerprint, self.sampled_max)
    }

    /// Whether the resident of a slot is counted into the bytes of the sample.
    #[inline]
    pub fn counts(&self, slot: Slot, fingerprint: u64) -> bool {
        slot < self.counted && self.sees(fingerprint)
    }

    /// A look-up of the cache, which has `free_bytes` left.
    fn lookup(
        &mut self,
        attributes: &EntryAttributes,
        kind: EntryKind,
        was_hit: bool,
        free_bytes: u64,
    ) {
        debug_assert!(self.sees(attributes.fingerprint), "a shadow sees its sample only");
        if self.start.is_some() {
            return;
        }
        match was_hit {
            true => self.sampled.hit(attributes),
            false => self.sampled.miss(attributes),
        }
        if let Some(slot) = self.slots.get(&attributes.fingerprint) {
            self.ghosts.hit(*slot, &self.ids);
        } else if self.make_room(attributes.size_bytes, free_bytes) {
            let slot = self.ghosts.allocate(*attributes, kind);
            self.place(slot, attributes);
        } else {
            self.ghosts.miss(attributes, kind);
        }
    }

    /// A ghost of a resident.
    fn adopt(&mut self, attributes: EntryAttributes, kind: EntryKind, free_bytes: u64) {
        debug_assert!(self.sees(attributes.fingerprint), "a shadow sees its sample only");
        let is_new = !self.slots.contains_key(&attributes.fingerprint);
        if is_new && self.make_room(attributes.size_bytes, free_bytes) {
            let slot = self.ghosts.adopt(attributes, kind);
            self.place(slot, &attributes);
        }
    }

    /// Something new was written to the cache.
    fn written(&mut self, attributes: EntryAttributes, kind: EntryKind, free_bytes: u64) {
        debug_assert!(self.sees(attributes.fingerprint), "a shadow sees its sample only");
        let is_new = !self.slots.contains_key(&attributes.fingerprint);
        if is_new && self.make_room(attributes.size_bytes, free_bytes) {
            let slot = self.ghosts.allocate_written(attributes, kind);
            self.place(slot, &attributes);
        }
    }

    fn place(&mut self, slot: Option<Slot>, attributes: &EntryAttributes) {
        let Some(slot) = slot else { return };
        let GhostIds(ids) = &mut self.ids;
        if slot as usize >= ids.len() {
            ids.resize(slot as usize + 1, EntryId::default());
        }
        let EntryAttributes { fingerprint, table, .. } = *attributes;
        ids[slot as usize] = EntryId { fingerprint, table };
        let was = self.slots.insert(fingerprint, slot);
        debug_assert!(was.is_none(), "a ghost has one slot");
    }

    /// Evicts ghosts until `size_bytes` fit; false when that was not to be had.
    fn make_room(&mut self, size_bytes: u32, free_bytes: u64) -> bool {
        let capacity_bytes = self.sampled_bytes + free_bytes / u64::from(self.rate);
        let needed = self.ghosts.bytes() + u64::from(size_bytes);
        if needed <= capacity_bytes {
            return true;
        }
        let mut victims = std::mem::take(&mut self.victims);
        let freed = self.ghosts.evict(needed - capacity_bytes, &self.ids, &mut victims);
        for slot in victims.drain(..) {
            self.slots.remove(&self.ids.id(slot).fingerprint);
        }
        debug_assert_eq!(self.slots.len(), self.ghosts.entry_count() as usize, "a slot a ghost");
        self.victims = victims;
        needed - freed <= capacity_bytes
    }

    pub fn update(&mut self, fingerprint: u64) {
        if let Some(slot) = self.slots.get(&fingerprint) {
            self.ghosts.update(*slot, &self.ids);
        }
    }

    pub fn remove(&mut self, fingerprint: u64) {
        if let Some(slot) = self.slots.remove(&fingerprint) {
            self.ghosts.remove(slot, &self.ids);
        }
    }

    pub fn resize_entry(&mut self, fingerprint: u64, size_bytes: u32) {
        if let Some(slot) = self.slots.get(&fingerprint) {
            self.ghosts.resize_entry(*slot, size_bytes, &self.ids);
        }
    }

    pub fn resize(&mut self, capacity_bytes: u64, slots_max: u32) {
        let limits = ShadowLimits::at(self.rate, capacity_bytes, slots_max);
        self.ghosts.resize(limits.capacity_bytes, limits.slots_max);
    }

    pub fn tick(&mut self, now_ns: u64) {
        self.ghosts.tick(now_ns);
    }

    /// Takes over residents, up to `max` of them; true while more are left.
    fn step(&mut self, table: &SlotTable, owner: &dyn Owner, max: u32, free_bytes: u64) -> bool {
        let Some(start) = &mut self.start else { return false };
        let sampled_max = self.sampled_max;
        let is_seen = |slot| is_sampled(owner.id(slot).fingerprint, sampled_max);
        // As many at a time as the replay collects, so all are counted before the first is shown.
        // Who comes in is counted then if its slot was looked at, else here.
        if self.counted >= table.len() {
            self.counted = Slot::MAX;
        }
        let end = table.len().min(self.counted.saturating_add(STEP_SLOTS_MAX));
        for slot in self.counted..end {
            if table.lookup(slot).is_some() && is_seen(slot) {
                self.sampled_bytes += u64::from(table.last_size(slot));
            }
        }
        self.counted = self.counted.max(end);
        let mut slots = Vec::new();
        let more = start.advance(table, is_seen, max, &mut slots);
        for slot in slots {
            if let Some(entry) = table.lookup(slot)
                && is_seen(slot)
            {
                let attributes = attributes_of(owner.id(slot), table.last_size(slot));
                self.adopt(attributes, entry.kind(), free_bytes);
            }
        }
        more
    }

    /// Counts from zero again; the cache's own counts begin with `before`.
    pub fn count_from(&mut self, before: Tally) {
        self.before = before;
        self.sampled = Tally::default();
        self.ghosts.tally = Tally::default();
        self.ghosts.evictions = 0;
        self.trial = Trial::default();
        self.window = Mark::default();
    }

    /// The active policy changed, and with it the counts that this one is compared with.
    pub fn restart(&mut self) {
        self.count_from(Tally::default());
    }

    /// The evidence for or against a canary grows by a window once there were enough look-ups.
    fn close_window(&mut self, tally: &Tally, slots_max: u64) {
        if self.purpose != ShadowPurpose::Baseline || self.start.is_some() {
            return;
        }
        let now =
            Mark { whole: *tally - self.before, ghost: self.ghosts.tally, sampled: self.sampled };
        let whole = now.whole - self.window.whole;
        if whole.lookups() < slots_max.max(WINDOW_LOOKUPS_MIN) {
            return;
        }
        let ghost = now.ghost - self.window.ghost;
        let sampled = now.sampled - self.window.sampled;
        let baseline = whole.with_difference(self.rate, &ghost, &sampled);
        if let (Some(canary), Some(before)) = (whole.cost_hit_ratio(), baseline.cost_hit_ratio()) {
            self.trial.close_window((canary - before) * 100.0);
        }
        self.window = now;
    }

    pub fn status(&self, tally: &Tally) -> ShadowStatus {
        // Nothing was compared before the residents were taken over.
        let active = match self.start {
            Some(_) => Tally::default(),
            None => *tally - self.before,
        };
        ShadowStatus {
            identity: self.identity.clone(),
            purpose: self.purpose,
            rate: self.rate,
            entries: self.ghosts.entry_count(),
            counters: self.ghosts.active.as_ref().map(PolicySlot::counters).unwrap_or_default(),
            evictions: self.ghosts.evictions,
            estimate: active.with_difference(self.rate, &self.ghosts.tally, &self.sampled),
            active,
            sampled_lookups: self.sampled.lookups(),
            trial: (self.purpose == ShadowPurpose::Baseline)
                .then(|| (self.trial.windows(), self.trial.gain())),
        }
    }
}

impl ShadowLimits {
    /// One `rate`th of a cache, and slots to spare for a sample that has more of it.
    fn at(rate: u32, capacity_bytes: u64, slots_max: u32) -> Self {
        debug_assert!(rate > 0, "a shadow sees one key in some");
        let share = slots_max.div_ceil(rate);
        let spare = if rate == 1 { 0 } else { share / 4 };
        ShadowLimits {
            rate,
            capacity_bytes: capacity_bytes / u64::from(rate),
            slots_max: share + spare,
        }
    }
}

impl Governor {
    /// The directory of a shadow that sees one key in `sample`: of small caches it sees more, so
    /// that there is something to order.
    pub fn shadow_limits(&self, sample: u32) -> ShadowLimits {
        let rate_max = (self.slots_max() / SHADOW_ENTRIES_MIN).max(1);
        ShadowLimits::at(sample.clamp(1, rate_max), self.capacity_bytes, self.slots_max())
    }

    /// Starts a shadow in place of the one before; [`step_shadow`](Self::step_shadow) goes on.
    ///
    /// Errors: the policy failed at once; then there is no shadow.
    pub fn begin_shadow(
        &mut self,
        policy: Box<dyn EvictionPolicy>,
        identity: PolicyIdentity,
        purpose: ShadowPurpose,
        limits: ShadowLimits,
    ) -> Result<(), PolicyFailure> {
        self.shadow = None;
        self.shadow = Some(Box::new(Shadow::new(policy, identity, purpose, limits)?));
        Ok(())
    }

    /// Shows the shadow up to `max` (at most 256) residents; true while more are left. It counts
    /// once it has seen all.
    pub fn step_shadow(&mut self, max: u32, owner: &dyn Owner) -> bool {
        let Some(shadow) = &mut self.shadow else { return false };
        let free_bytes = self.capacity_bytes.saturating_sub(self.table.bytes());
        let max = max.clamp(1, STEP_SLOTS_MAX);
        let more = shadow.step(&self.table, owner, max, free_bytes);
        if !more && shadow.start.take().is_some() {
            shadow.count_from(self.tally);
        }
        self.check_shadow();
        more && self.shadow.is_some()
    }

    /// Ends the shadow; false when there is none.
    pub fn end_shadow(&mut self) -> bool {
        self.shadow.take().is_some()
    }

    /// What the shadow learnt, where it saw every key: learnt from a sample, it does not fit.
    pub fn snapshot_shadow(&mut self) -> Option<PolicySnapshot> {
        let shadow = self.shadow.as_mut().filter(|shadow| shadow.rate == 1)?;
        let snapshot = shadow.ghosts.snapshot();
        self.check_shadow();
        snapshot
    }

    /// The shadow policy's own figures.
    pub fn shadow_metrics(&mut self) -> Vec<(String, f64)> {
        let metrics = self.shadow.as_mut().map(|shadow| shadow.ghosts.metrics());
        self.check_shadow();
        metrics.unwrap_or_default()
    }

    /// Tells the shadow, so that its counters are those of now.
    pub fn deliver_shadow(&mut self) {
        self.tell_shadow(|shadow| shadow.ghosts.deliver());
    }

    /// What the windows say so far of the active policy as a canary; `Waits` without a baseline.
    pub fn trial_verdict(&mut self) -> TrialVerdict {
        let Some(shadow) = &mut self.shadow else { return TrialVerdict::Waits };
        shadow.close_window(&self.tally, u64::from(self.table.slots_max()));
        shadow.trial.verdict()
    }

    pub(super) fn tell_shadow(&mut self, tell: impl FnOnce(&mut Shadow)) {
        if let Some(shadow) = &mut self.shadow {
            tell(shadow);
            self.check_shadow();
        }
    }

    /// Counts a new resident into the sample, if it is of it.
    pub(super) fn sample(&mut self, slot: Slot, attributes: &EntryAttributes) {
        if let Some(shadow) = &mut self.shadow
            && shadow.counts(slot, attributes.fingerprint)
        {
            shadow.sampled_bytes += u64::from(attributes.size_bytes);
        }
    }

    /// Something came into the cache that nobody looked for.
    pub(super) fn shadow_written(&mut self, attributes: &EntryAttributes, kind: EntryKind) {
        let Some(shadow) = &mut self.shadow else { return };
        if shadow.sees(attributes.fingerprint) {
            let free_bytes = self.capacity_bytes.saturating_sub(self.table.bytes());
            shadow.written(*attributes, kind, free_bytes);
            self.check_shadow();
        }
    }

    /// A look-up of the cache, and what came of it there.
    pub(super) fn shadow_lookup(
        &mut self,
        attributes: &EntryAttributes,
        kind: EntryKind,
        was_hit: bool,
    ) {
        let Some(shadow) = &mut self.shadow else { return };
        if shadow.sees(attributes.fingerprint) {
            let free_bytes = self.capacity_bytes.saturating_sub(self.table.bytes());
            shadow.lookup(attributes, kind, was_hit, free_bytes);
            self.check_shadow();
        }
    }

    /// A shadow whose policy failed ends; its record goes to the others.
    #[inline]
    fn check_shadow(&mut self) {
        if self.shadow.as_ref().is_some_and(|shadow| shadow.ghosts.active.is_none()) {
            self.end_failed_shadow();
        }
    }

    #[cold]
    fn end_failed_shadow(&mut self) {
        let Some(mut shadow) = self.shadow.take() else { return };
        if let Some(mut record) = shadow.ghosts.records.pop_back() {
            record.role = PolicyRole::Shadow;
            record.at_ns = self.gap_start_ns;
            self.record(record);
        }
    }
}
