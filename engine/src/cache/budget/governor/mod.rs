//! The eviction governor: the one place between a cache and its eviction policy.
//!
//! The cache reports what happens to its slots and asks for victims. The governor queues events for
//! the policy, checks every victim, completes a short answer from the native CLOCK and swaps
//! policies under load. Invariant: whatever a policy answers, a call does bounded work, frees only
//! residents that are not in use, and never fails. If a policy breaks the contract, the governor
//! detaches it within the call and records an [`ExitRecord`]. One shard, no locks.
//!
//! It keeps only what every use of a resident needs. It asks the owner ([`Owner`]) which thing a
//! resident is and whether it is in use, and only on demand.
//!
//! A second policy may listen. Before the switch it is a candidate, which the governor shows the
//! residents while the cache serves. After the switch it is the previous policy, kept up to date so
//! that a rollback is one exchange. A third may run as a shadow (`shadow.rs`) on its own directory,
//! where it evicts nothing.

mod replay;
mod policy_slot;
mod shadow;
mod slot_set;
mod slot_table;
mod status;
mod swap;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use policy_slot::PolicySlot;
use replay::Replay;
use shadow::Shadow;
use slot_set::SlotSet;
use slot_table::SlotTable;

use super::owner::{EntryId, Owner, VICTIMS_AHEAD};
use crate::policy::event::{
    EntryAttributes, EntryKind, LOAD_COST_US, Op, attributes as attribute_words, event,
};
use crate::policy::{FailureKind, PolicyFailure, PolicySnapshot, Slot, Tally};

#[cfg(test)]
pub(in crate::cache) use policy_slot::failure;
pub use policy_slot::{ExitRecord, PolicyCounters, PolicyIdentity, PolicyRole};
pub use replay::SwapStep;
pub use shadow::{ShadowLimits, ShadowPurpose, ShadowStatus};
pub use status::{PolicyState, PolicyStatus};

/// Victims asked for at once; taken one by one, and given back when used before that.
const PROPOSALS_MAX: u32 = 32;
/// Victims that one call of [`Governor::evict`] takes.
const VICTIMS_PER_CALL_MAX: usize = 256;
/// Slots that the native CLOCK looks at in one call.
const CLOCK_STEPS_PER_CALL_MAX: u32 = 4096;
/// Answers in a row without a usable victim before the CLOCK takes over for this call.
const FRUITLESS_ASKS_MAX: u32 = 2;
/// Exit records kept, newest last.
const EXIT_RECORDS_MAX: usize = 16;
/// One tick of an event's time difference: 1/16 ms.
const TICK_NS: u64 = 62_500;
/// Events are delivered at the latest this long after they happened, if the shard ticks.
const RING_AGE_NS_MAX: u64 = 1_000_000;

/// The policy that listens besides the active one.
enum Second {
    Nothing,
    Candidate {
        policy_slot: PolicySlot,
        replay: Replay,
        /// Where it knows the resident. After the switch it knows all of them, as who was active
        /// before does.
        known: SlotSet,
    },
    /// The policy before the last switch; `None` is the native CLOCK.
    Standby(Option<PolicySlot>),
}

/// The governor of one cache.
pub struct Governor {
    table: SlotTable,
    active: Option<PolicySlot>,
    second: Second,
    shadow: Option<Box<Shadow>>,
    /// Whether any policy wants events; saves the rest of the hit path otherwise.
    listening: bool,
    /// Valid victims that the active policy counts as gone, best first.
    proposals: VecDeque<Slot>,
    answer: Vec<Slot>,
    gap_ticks: u16,
    gap_start_ns: u64,
    delivered_ns: u64,
    capacity_bytes: u64,
    /// This is a directory of ghosts of one `scale`th of a cache; 1 for the cache itself.
    scale: u32,
    /// What is left over of victims to ask for ahead.
    ahead_credit: u32,
    failed: Option<PolicyIdentity>,
    /// Look-ups since the last change of policy, as `evictions`.
    tally: Tally,
    evictions: u64,
    records: VecDeque<ExitRecord>,
}

impl Governor {
    /// A governor of up to `slots_max` entries with the native CLOCK in charge.
    pub fn new(capacity_bytes: u64, slots_max: u32) -> Self {
        Governor {
            table: SlotTable::new(slots_max),
            active: None,
            second: Second::Nothing,
            shadow: None,
            listening: false,
            proposals: VecDeque::new(),
            answer: Vec::new(),
            gap_ticks: 0,
            gap_start_ns: 0,
            delivered_ns: 0,
            capacity_bytes,
            scale: 1,
            ahead_credit: 0,
            failed: None,
            tally: Tally::default(),
            evictions: 0,
            records: VecDeque::new(),
        }
    }

    /// Residents.
    pub fn entry_count(&self) -> u32 {
        self.table.resident_count()
    }

    /// Whether every slot is taken.
    pub fn is_full(&self) -> bool {
        self.table.resident_count() == self.table.slots_max()
    }

    /// Bytes of all residents.
    pub fn bytes(&self) -> u64 {
        self.table.bytes()
    }

    /// A lookup found the resident; its kind.
    #[inline]
    pub fn hit(&mut self, slot: Slot, owner: &dyn Owner) -> EntryKind {
        let (kind, size_bytes) = self.use_of(slot, Op::Access);
        // Sizes and costs are counted; who it is, only a shadow wants to know.
        self.tally.hit(&attributes_of(EntryId::default(), size_bytes));
        if self.shadow.is_some() {
            self.shadow_lookup(&attributes_of(owner.id(slot), size_bytes), kind, true);
        }
        kind
    }

    /// The slot will be used soon.
    #[inline]
    pub fn prefetch(&self, slot: Slot) {
        self.table.prefetch(slot);
        if let Some(policy_slot) = &self.active {
            policy_slot.prefetch(slot);
        }
    }

    /// Kind and bytes of what the slot holds, if it holds something.
    pub fn resident(&self, slot: Slot) -> Option<(EntryKind, u64)> {
        let entry = self.table.lookup(slot)?;
        Some((entry.kind(), u64::from(self.table.size_of(slot, entry))))
    }

    /// Walks all slots; see [`SlotTable::check`].
    pub(in crate::cache) fn check(&self) {
        self.table.check();
        let is_proposed = |slot: Slot| self.table.lookup(slot).is_some_and(|e| e.is_proposed());
        let proposed = (0..self.table.len()).filter(|slot| is_proposed(*slot)).count();
        assert_eq!(proposed, self.proposals.len(), "who is proposed waits to be taken");
        assert!(self.proposals.iter().all(|slot| is_proposed(*slot)), "who waits is proposed");
    }

    /// Slots below this were used.
    pub(in crate::cache) fn slots_used(&self) -> u32 {
        self.table.len()
    }

    /// What kind of thing the slot holds, or held last.
    pub fn last_kind(&self, slot: Slot) -> EntryKind {
        self.table.last_kind(slot)
    }

    /// Bytes of what the slot holds, or held last.
    pub fn last_size_bytes(&self, slot: Slot) -> u32 {
        self.table.last_size(slot)
    }

    /// A write changed the resident: it was used, but this is no lookup.
    pub fn update(&mut self, slot: Slot, owner: &dyn Owner) {
        self.use_of(slot, Op::Update);
        self.tell_shadow(|shadow| shadow.update(owner.id(slot).fingerprint));
    }

    /// Kind and bytes of the resident, which was used.
    #[inline]
    fn use_of(&mut self, slot: Slot, op: Op) -> (EntryKind, u32) {
        let entry = self.table.touch(slot);
        let kind = entry.kind();
        if self.listening {
            if entry.is_proposed() {
                self.rescue(slot, kind);
            }
            let word = event(slot, op, kind, 0, std::mem::take(&mut self.gap_ticks));
            self.tell_active(word);
            self.tell_second(slot, word);
        }
        (kind, self.table.size_of(slot, entry))
    }

    /// A lookup found nothing, and what was loaded does not come in.
    pub fn miss(&mut self, attributes: &EntryAttributes, kind: EntryKind) {
        self.tally.miss(attributes);
        self.report_with(0, Op::Miss, attributes, kind);
        self.shadow_lookup(attributes, kind, false);
    }

    /// A lookup found nothing, and what was loaded takes the slot returned. `None` when all slots
    /// are taken; that is the same as [`miss`](Self::miss) then.
    pub fn allocate(&mut self, attributes: EntryAttributes, kind: EntryKind) -> Option<Slot> {
        let Some(slot) = self.insert(attributes, kind, Op::Insert) else {
            self.miss(&attributes, kind);
            return None;
        };
        self.tally.miss(&attributes);
        self.sample(slot, &attributes);
        self.shadow_lookup(&attributes, kind, false);
        Some(slot)
    }

    /// Something was written, which nobody looked for, and takes the slot returned. `None` when all
    /// slots are taken.
    pub fn allocate_written(
        &mut self,
        attributes: EntryAttributes,
        kind: EntryKind,
    ) -> Option<Slot> {
        let slot = self.insert(attributes, kind, Op::Insert)?;
        self.sample(slot, &attributes);
        self.shadow_written(&attributes, kind);
        Some(slot)
    }

    fn insert(&mut self, attributes: EntryAttributes, kind: EntryKind, op: Op) -> Option<Slot> {
        assert_eq!(attributes.cost_us, LOAD_COST_US, "whatever it is costs the same to load");
        let slot = self.table.insert(attributes.size_bytes, kind)?;
        debug_assert!(slot < self.table.slots_max(), "slot {slot} is beyond the limit");
        debug_assert_eq!(self.table.last_kind(slot), kind, "a slot says what came into it");
        if let Second::Candidate { known, .. } = &mut self.second {
            known.insert(slot);
        }
        self.report_with(slot, op, &attributes, kind);
        Some(slot)
    }

    /// An entry was resident elsewhere before this governor came: the ghost directory of a shadow
    /// starts with what the cache holds. No lookup. `None` when all slots are taken.
    fn adopt(&mut self, attributes: EntryAttributes, kind: EntryKind) -> Option<Slot> {
        self.insert(attributes, kind, Op::Restore)
    }

    /// The cache gives up a resident of its own accord. The slot is free at once.
    pub fn remove(&mut self, slot: Slot, owner: &dyn Owner) {
        self.release(slot, owner);
        self.tell_shadow(|shadow| shadow.remove(owner.id(slot).fingerprint));
    }

    /// Keeps the resident from being a victim until as many `unpin`s follow.
    pub fn pin(&mut self, slot: Slot) {
        if self.table.pin(slot) {
            self.report(slot, Op::Pin);
        }
        debug_assert!(self.table.resident(slot).is_pinned(), "a pinned resident stays");
    }

    /// Undoes one `pin`.
    pub fn unpin(&mut self, slot: Slot) {
        if self.table.unpin(slot) {
            self.report(slot, Op::Unpin);
        }
    }

    /// The resident takes `size_bytes` from now on.
    pub fn resize_entry(&mut self, slot: Slot, size_bytes: u32, owner: &dyn Owner) {
        let was = self.table.resize(slot, size_bytes);
        debug_assert_eq!(self.table.last_size(slot), size_bytes, "a slot says what it takes");
        self.report(slot, Op::Resize);
        self.tell_shadow(|shadow| {
            let EntryId { fingerprint, .. } = owner.id(slot);
            if shadow.counts(slot, fingerprint) {
                shadow.sampled_bytes -= u64::from(was);
                shadow.sampled_bytes += u64::from(size_bytes);
            }
            shadow.resize_entry(fingerprint, size_bytes);
        });
    }

    /// Frees residents of at least `want_bytes` and appends their slots to `victims`; the cache
    /// drops what it holds there before it allocates again. Fewer are freed when the rest is in use
    /// or after a bounded number of steps; then the next call goes on. Returns the bytes freed.
    pub fn evict(&mut self, want_bytes: u64, owner: &dyn Owner, victims: &mut Vec<Slot>) -> u64 {
        let in_use = &|slot: Slot| owner.is_in_use(slot);
        let start = self.table.bytes();
        let freed = |table: &SlotTable| start - table.bytes();
        let most = victims.len() + VICTIMS_PER_CALL_MAX;
        let mut fruitless = 0;
        while self.active.is_some() && freed(&self.table) < want_bytes && victims.len() < most {
            let Some(slot) = self.next_proposal(in_use) else {
                if fruitless == FRUITLESS_ASKS_MAX || self.table.resident_count() == 0 {
                    break;
                }
                fruitless += 1;
                self.ask(want_bytes - freed(&self.table));
                continue;
            };
            fruitless = 0;
            self.take_victim(slot, owner, victims);
            for (ahead, next) in self.proposals.iter().take(VICTIMS_AHEAD).enumerate() {
                owner.will_leave(*next, ahead);
            }
        }
        let mut budget = CLOCK_STEPS_PER_CALL_MAX;
        let mut short = false;
        while freed(&self.table) < want_bytes && victims.len() < most {
            let Some(slot) = self.table.clock_victim(in_use, &mut budget) else { break };
            self.take_victim(slot, owner, victims);
            short = true;
        }
        debug_assert!(victims.len() <= most, "one call evicts a bounded number");
        if short && let Some(policy_slot) = &mut self.active {
            policy_slot.counters.shortfalls += 1;
        }
        freed(&self.table)
    }

    fn take_victim(&mut self, slot: Slot, owner: &dyn Owner, victims: &mut Vec<Slot>) {
        debug_assert!(!owner.is_in_use(slot), "slot {slot} is in use and evicted");
        debug_assert!(!self.table.resident(slot).is_pinned(), "slot {slot} is pinned and evicted");
        self.release(slot, owner);
        self.evictions += 1;
        victims.push(slot);
    }

    /// The next proposed victim that is not in use; the others go back to the policy.
    fn next_proposal(&mut self, in_use: &dyn Fn(Slot) -> bool) -> Option<Slot> {
        while let Some(slot) = self.proposals.front().copied() {
            let entry = self.table.resident(slot);
            if !entry.is_pinned() && !in_use(slot) {
                return Some(slot);
            }
            self.rescue(slot, entry.kind());
        }
        None
    }

    /// Asks the active policy for victims and keeps the valid ones as proposals.
    fn ask(&mut self, want_bytes: u64) {
        assert!(self.proposals.is_empty(), "victims are asked for when none is left");
        let want_entries = self.victims_wanted();
        debug_assert!(want_entries > 0, "who is asked is asked for something");
        let Some(policy_slot) = &mut self.active else { return };
        let mut answer = std::mem::take(&mut self.answer);
        answer.clear();
        let asked = policy_slot.ask(want_entries, want_bytes, &mut answer).and_then(|()| {
            let mut invalid = 0;
            for slot in &answer {
                match self.table.lookup(*slot) {
                    Some(entry) if !entry.is_proposed() => {
                        self.table.set_proposed(*slot, true);
                        self.proposals.push_back(*slot);
                    }
                    _ => invalid += 1,
                }
            }
            policy_slot.judge(answer.len() as u64, invalid)
        });
        self.answer = answer;
        // An answer refused for its length may be huge; its memory is not kept.
        self.answer.shrink_to(PROPOSALS_MAX as usize);
        self.delivered_ns = self.gap_start_ns;
        if let Err(failure) = asked {
            self.detach(failure);
        }
    }

    /// How many victims to ask for at once.
    ///
    /// Who is named ahead and read before it leaves gets a second chance, so a directory in
    /// miniature asks ahead by as much less: the mean number of proposals that wait is scaled as
    /// all else is, by asking for one more now and then.
    fn victims_wanted(&mut self) -> u32 {
        let entries = self.table.resident_count().saturating_mul(self.scale);
        let most = (entries / 4).clamp(1, PROPOSALS_MAX);
        if self.scale == 1 {
            return most;
        }
        let (ahead, scale) = (most - 1, self.scale);
        self.ahead_credit += ahead;
        // Of one and two in turn, the share of twos that leaves the wanted number waiting.
        let price = if ahead < scale { 2 * scale - ahead } else { scale };
        let more = self.ahead_credit / price;
        self.ahead_credit %= price;
        1 + more
    }

    /// Takes a proposed victim back: it stays.
    #[cold]
    fn rescue(&mut self, slot: Slot, kind: EntryKind) {
        debug_assert!(self.proposals.contains(&slot), "slot {slot} was not proposed");
        self.table.set_proposed(slot, false);
        self.proposals.retain(|proposed| *proposed != slot);
        if let Some(policy_slot) = &mut self.active {
            policy_slot.counters.refused_victims += 1;
        }
        self.tell_active(event(slot, Op::VictimRefused, kind, 0, 0));
    }

    /// Frees a slot and tells the policies that still count it as resident.
    fn release(&mut self, slot: Slot, owner: &dyn Owner) {
        let was = self.table.release(slot);
        let word = event(slot, Op::Remove, was.kind(), 0, 0);
        if !was.is_proposed() {
            self.tell_active(word);
        } else if self.proposals.front() == Some(&slot) {
            self.proposals.pop_front();
        } else {
            self.proposals.retain(|proposed| *proposed != slot);
        }
        self.tell_second(slot, word);
        debug_assert!(self.table.lookup(slot).is_none(), "slot {slot} is free");
        debug_assert!(!self.proposals.contains(&slot), "slot {slot} is free and proposed");
        if let Some(shadow) = &mut self.shadow
            && shadow.counts(slot, owner.id(slot).fingerprint)
        {
            shadow.sampled_bytes -= u64::from(self.table.last_size(slot));
        }
    }

    fn report(&mut self, slot: Slot, op: Op) {
        if !self.listening {
            return;
        }
        let entry = self.table.resident(slot);
        let kind = entry.kind();
        if entry.is_proposed() {
            self.rescue(slot, kind);
        }
        let word = event(slot, op, kind, 0, std::mem::take(&mut self.gap_ticks));
        self.tell_active(word);
        self.tell_second(slot, word);
    }

    fn report_with(&mut self, slot: Slot, op: Op, attributes: &EntryAttributes, kind: EntryKind) {
        if !self.listening {
            return;
        }
        let word = event(slot, op, kind, 0, std::mem::take(&mut self.gap_ticks));
        let words = attribute_words(attributes);
        self.tell_both(|policy_slot| policy_slot.push_with(word, words));
    }

    /// Tells the active policy and the second one; whoever fails at it leaves.
    fn tell_both(&mut self, tell: impl Fn(&mut PolicySlot) -> Result<(), PolicyFailure>) {
        if let Some(policy_slot) = &mut self.active
            && let Err(failure) = tell(policy_slot)
        {
            self.detach(failure);
        }
        if let Some(policy_slot) = self.second.policy_slot()
            && let Err(failure) = tell(policy_slot)
        {
            self.drop_second(failure);
        }
    }

    #[inline]
    fn tell_active(&mut self, word: u64) {
        if let Some(policy_slot) = &mut self.active
            && let Err(failure) = policy_slot.push(word)
        {
            self.detach(failure);
        }
    }

    /// Tells of a resident that the second policy may not know yet.
    #[inline]
    fn tell_second(&mut self, slot: Slot, word: u64) {
        if self.second.knows(slot)
            && let Some(policy_slot) = self.second.policy_slot()
            && let Err(failure) = policy_slot.push(word)
        {
            self.drop_second(failure);
        }
    }

    /// Tells the time (a monotonic clock, ns) for the events that follow, and delivers events that
    /// have waited for a millisecond. The shard calls it between tasks.
    pub fn tick(&mut self, now_ns: u64) {
        let ticks = now_ns.saturating_sub(self.gap_start_ns) / TICK_NS;
        self.gap_start_ns += ticks * TICK_NS;
        self.gap_ticks = self.gap_ticks.saturating_add(u16::try_from(ticks).unwrap_or(u16::MAX));
        if self.gap_start_ns.saturating_sub(self.delivered_ns) >= RING_AGE_NS_MAX {
            self.delivered_ns = self.gap_start_ns;
            self.deliver();
        }
        self.tell_both(|policy_slot| policy_slot.tick(now_ns));
        self.tell_shadow(|shadow| shadow.tick(now_ns));
    }

    /// Delivers all events that wait.
    pub fn deliver(&mut self) {
        self.tell_both(PolicySlot::deliver);
    }

    /// Slots are numbered below this.
    pub fn slots_max(&self) -> u32 {
        self.table.slots_max()
    }

    /// Changes the limits of the cache. The number of slots only ever grows.
    pub fn resize(&mut self, capacity_bytes: u64, slots_max: u32) {
        self.capacity_bytes = capacity_bytes;
        self.table.raise_slots_max(slots_max);
        let slots_max = self.table.slots_max();
        self.tell_both(|policy_slot| policy_slot.resize(capacity_bytes, slots_max));
        self.tell_shadow(|shadow| shadow.resize(capacity_bytes, slots_max));
    }

    /// What the active policy learnt; `None` where it keeps nothing. If the policy fails at it, the
    /// governor detaches it.
    pub fn snapshot(&mut self) -> Option<PolicySnapshot> {
        match self.active.as_mut()?.snapshot() {
            Ok(snapshot) => snapshot,
            Err(failure) => {
                self.detach(failure);
                None
            }
        }
    }

    /// The active policy's own figures. If the policy fails at it, the governor detaches it.
    pub fn metrics(&mut self) -> Vec<(String, f64)> {
        match self.active.as_mut().map(PolicySlot::metrics) {
            Some(Ok(metrics)) => metrics,
            Some(Err(failure)) => {
                self.detach(failure);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// Ends the active policy: the native CLOCK orders from here on. The record stays.
    #[cold]
    pub fn detach(&mut self, failure: PolicyFailure) {
        let Some(policy_slot) = self.active.take() else { return };
        for slot in self.proposals.drain(..) {
            self.table.set_proposed(slot, false);
        }
        debug_assert!(self.proposals.is_empty(), "who is out proposes nobody");
        let failed = (failure.kind != FailureKind::Operator).then(|| policy_slot.identity.clone());
        self.leave(policy_slot, failure, PolicyRole::Active);
        if matches!(self.second, Second::Standby(None)) {
            self.second = Second::Nothing;
        }
        self.changed_policy(failed);
    }

    /// Everything told and nothing proposed: a batch boundary of the active policy.
    fn settle(&mut self) {
        while let Some(slot) = self.proposals.front().copied() {
            let kind = self.table.resident(slot).kind();
            self.rescue(slot, kind);
        }
        debug_assert!(self.proposals.is_empty(), "at a batch boundary nobody is proposed");
        self.deliver();
    }

    #[cold]
    fn drop_second(&mut self, failure: PolicyFailure) {
        match std::mem::replace(&mut self.second, Second::Nothing) {
            Second::Candidate { policy_slot, .. } => {
                self.leave(policy_slot, failure, PolicyRole::Candidate)
            }
            Second::Standby(Some(policy_slot)) => {
                self.leave(policy_slot, failure, PolicyRole::Standby)
            }
            Second::Standby(None) | Second::Nothing => {}
        }
        self.changed_listeners();
    }

    /// A policy's end: only its record stays.
    fn leave(&mut self, policy_slot: PolicySlot, failure: PolicyFailure, role: PolicyRole) {
        self.record(policy_slot.exit(failure, role, self.gap_start_ns));
    }

    fn record(&mut self, record: ExitRecord) {
        // What becomes of one in charge, or about to be, is told by those who wanted it there.
        if matches!(record.role, PolicyRole::Shadow | PolicyRole::Standby) {
            let ExitRecord { identity, failure, role, .. } = &record;
            let (policy, role) = (&identity.name, role.as_str());
            tracing::warn!(policy, role, %failure, "a policy that was not in charge failed");
        }
        if self.records.len() == EXIT_RECORDS_MAX {
            self.records.pop_front();
        }
        self.records.push_back(record);
        debug_assert!(self.records.len() <= EXIT_RECORDS_MAX, "records have a bound");
    }

    fn changed_policy(&mut self, failed: Option<PolicyIdentity>) {
        self.failed = failed;
        (self.tally, self.evictions) = (Tally::default(), 0);
        if let Some(shadow) = &mut self.shadow {
            shadow.restart();
        }
        self.changed_listeners();
    }

    fn changed_listeners(&mut self) {
        self.listening = self.active.is_some() || self.second.policy_slot().is_some();
    }
}

/// What a policy is told of a resident.
fn attributes_of(id: EntryId, size_bytes: u32) -> EntryAttributes {
    let EntryId { fingerprint, table } = id;
    EntryAttributes { fingerprint, size_bytes, cost_us: LOAD_COST_US, table }
}

impl Second {
    /// Whether it knows the resident of this slot, if it is there at all.
    #[inline]
    fn knows(&self, slot: Slot) -> bool {
        match self {
            Second::Candidate { known, .. } => known.contains(slot),
            Second::Nothing | Second::Standby(_) => true,
        }
    }

    #[inline]
    fn policy_slot(&mut self) -> Option<&mut PolicySlot> {
        match self {
            Second::Candidate { policy_slot, .. } | Second::Standby(Some(policy_slot)) => {
                Some(policy_slot)
            }
            Second::Nothing | Second::Standby(None) => None,
        }
    }
}
