//! The slot of one policy: its ring of undelivered events, its counters, and its record after a
//! failure.
//!
//! Invariant: the ring holds at most [`POLICY_RING_EVENTS_MAX`] events, in the order they happened,
//! and nobody calls a policy again after it returned an error.

use crate::config::POLICY_RING_EVENTS_MAX;
use crate::policy::{
    EvictionPolicy, FailureKind, PolicyFailure, PolicySnapshot, PolicyUsage, Slot,
};
use crate::probe::{Count, timer};

/// Events that an exit record keeps.
const RECORD_EVENTS_MAX: usize = 64;
/// Victims before the share of invalid ones is judged, and after which it is judged anew.
const VICTIMS_JUDGED_MIN: u64 = 256;
const VICTIMS_JUDGED_MAX: u64 = 4096;
/// The same for requests that were answered with nothing.
const REQUESTS_JUDGED_MIN: u64 = 32;
const REQUESTS_JUDGED_MAX: u64 = 1024;
/// Largest share that is borne: one invalid victim in 100, one empty answer in 10.
const INVALID_ONE_IN: u64 = 100;
const EMPTY_ONE_IN: u64 = 10;

/// Which policy, as it was loaded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PolicyIdentity {
    pub name: String,
    pub version: String,
    /// SHA-256 of the component, hex; empty for a native policy.
    pub digest: String,
}

/// What a policy did since it became active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PolicyCounters {
    pub calls: u64,
    /// Events delivered.
    pub events: u64,
    /// Victims it returned, of whatever worth.
    pub victims: u64,
    /// Of these, out of range, not resident or repeated.
    pub invalid_victims: u64,
    /// Of these, valid but pinned or used again before they were taken.
    pub refused_victims: u64,
    /// Evictions that the native fallback had to complete.
    pub shortfalls: u64,
    /// Time and fuel of its calls; zeros for a native policy.
    pub usage: PolicyUsage,
}

/// In which place a policy was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyRole {
    Active,
    /// Being shown the residents, about to become active.
    Candidate,
    /// Kept up to date for a rollback.
    Standby,
    Shadow,
}

impl PolicyRole {
    /// The role as `system.policy_exits` shows it.
    pub fn as_str(self) -> &'static str {
        match self {
            PolicyRole::Active => "active",
            PolicyRole::Candidate => "candidate",
            PolicyRole::Standby => "standby",
            PolicyRole::Shadow => "shadow",
        }
    }
}

/// What is kept of a policy that left because it failed or was taken away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitRecord {
    pub identity: PolicyIdentity,
    pub role: PolicyRole,
    /// Time of the shard's last tick before, ns of the monotonic clock.
    pub at_ns: u64,
    pub failure: PolicyFailure,
    pub counters: PolicyCounters,
    /// The last undelivered or failing events, at most 64.
    pub events: Vec<u64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Share {
    total: u64,
    bad: u64,
}

impl Share {
    fn add(&mut self, total: u64, bad: u64, judged_max: u64) {
        if self.total >= judged_max {
            *self = Share::default();
        }
        debug_assert!(bad <= total, "{bad} of {total} are bad");
        self.total += total;
        self.bad += bad;
    }

    fn is_over(&self, one_in: u64, judged_min: u64) -> bool {
        self.total >= judged_min && self.bad * one_in > self.total
    }
}

/// A policy in its slot, with its ring.
pub(super) struct PolicySlot {
    policy: Box<dyn EvictionPolicy>,
    pub identity: PolicyIdentity,
    /// All but `usage`, which the policy counts itself.
    pub counters: PolicyCounters,
    /// What the policy had used when the counters were last set to zero.
    used_before: PolicyUsage,
    /// When the policy wants to be told the time next, ns of the monotonic clock.
    next_tick_ns: u64,
    events: Vec<u64>,
    attributes: Vec<u64>,
    invalid: Share,
    empty: Share,
}

impl PolicySlot {
    pub fn new(policy: Box<dyn EvictionPolicy>, identity: PolicyIdentity) -> Self {
        PolicySlot {
            policy,
            identity,
            counters: PolicyCounters::default(),
            used_before: PolicyUsage::default(),
            next_tick_ns: 0,
            events: Vec::with_capacity(POLICY_RING_EVENTS_MAX),
            attributes: Vec::new(),
            invalid: Share::default(),
            empty: Share::default(),
        }
    }

    /// Adds an event, delivering those before it when the ring is full.
    #[inline]
    pub fn push(&mut self, word: u64) -> Result<(), PolicyFailure> {
        if self.events.len() == POLICY_RING_EVENTS_MAX {
            self.deliver()?;
        }
        self.events.push(word);
        debug_assert!(self.events.len() <= POLICY_RING_EVENTS_MAX, "events have a bound");
        Ok(())
    }

    /// Adds an event that carries attributes.
    pub fn push_with(&mut self, word: u64, attributes: [u64; 3]) -> Result<(), PolicyFailure> {
        self.push(word)?;
        self.attributes.extend_from_slice(&attributes);
        debug_assert_eq!(self.attributes.len() % 3, 0, "attributes come in threes");
        Ok(())
    }

    /// Tells the time, as often as the policy wants to know it and not oftener than it is called.
    pub fn tick(&mut self, now_ns: u64) -> Result<(), PolicyFailure> {
        let wanted_ns = u64::from(self.policy.wants_ticks_ms()) * 1_000_000;
        if wanted_ns == 0 || now_ns < self.next_tick_ns {
            return Ok(());
        }
        self.next_tick_ns = now_ns + wanted_ns;
        debug_assert!(self.next_tick_ns > now_ns, "time goes on between two ticks");
        self.counters.calls += 1;
        self.policy.tick(now_ns / 1000)
    }

    /// Delivers the ring, asking for nothing.
    pub fn deliver(&mut self) -> Result<(), PolicyFailure> {
        if self.events.is_empty() {
            return Ok(());
        }
        self.ask(0, 0, &mut Vec::new())
    }

    /// Delivers the ring and asks for up to `want_entries` victims.
    ///
    /// Errors: the policy's own, and `ResultTooLarge` when it returned more.
    pub fn ask(
        &mut self,
        want_entries: u32,
        want_bytes: u64,
        victims: &mut Vec<Slot>,
    ) -> Result<(), PolicyFailure> {
        assert!(victims.is_empty(), "an answer starts empty");
        self.counters.calls += 1;
        let timer = timer(Count::TimePolicies);
        self.policy.apply(&self.events, &self.attributes, want_entries, want_bytes, victims)?;
        drop(timer);
        self.counters.events += self.events.len() as u64;
        self.events.clear();
        self.attributes.clear();
        self.counters.victims += victims.len() as u64;
        check_length(victims.len(), want_entries)
    }

    /// See [`EvictionPolicy::prefetch`].
    #[inline]
    pub fn prefetch(&self, slot: Slot) {
        self.policy.prefetch(slot);
    }

    /// See [`EvictionPolicy::drains_in_pages`].
    pub fn drains_in_pages(&self) -> bool {
        self.policy.drains_in_pages()
    }

    /// The next slots of the policy's order; see [`EvictionPolicy::drain_order`]. The ring goes
    /// first.
    pub fn drain_order(
        &mut self,
        cursor: u32,
        max: u32,
        slots: &mut Vec<Slot>,
    ) -> Result<(), PolicyFailure> {
        debug_assert!(slots.is_empty(), "an order is asked for piece by piece");
        self.deliver()?;
        self.policy.drain_order(cursor, max, slots)?;
        check_length(slots.len(), max)
    }

    pub fn resize(&mut self, capacity_bytes: u64, max_slots: u32) -> Result<(), PolicyFailure> {
        self.policy.resize(capacity_bytes, max_slots)
    }

    /// Counts from zero again.
    pub fn reset_counters(&mut self) {
        self.counters = PolicyCounters::default();
        self.used_before = self.policy.usage();
    }

    /// What the policy did since the counters were set to zero.
    pub fn counters(&self) -> PolicyCounters {
        let (used, before) = (self.policy.usage(), self.used_before);
        let usage = PolicyUsage { ns: used.ns - before.ns, fuel: used.fuel - before.fuel };
        PolicyCounters { usage, ..self.counters }
    }

    /// What the policy learnt, with every event so far; `None` where it keeps nothing.
    pub fn snapshot(&mut self) -> Result<Option<PolicySnapshot>, PolicyFailure> {
        self.deliver()?;
        let state = self.policy.snapshot()?;
        Ok((!state.is_empty()).then(|| PolicySnapshot {
            policy: self.policy.name().to_owned(),
            version: self.policy.version().to_owned(),
            schema: self.policy.state_schema(),
            state,
        }))
    }

    /// The policy's own figures.
    pub fn metrics(&mut self) -> Result<Vec<(String, f64)>, PolicyFailure> {
        self.policy.metrics()
    }

    /// Judges an answer of `returned` victims of which `invalid` were.
    ///
    /// Errors: `InvalidVictims` or `Shortfall` when the shares of the window are too large.
    pub fn judge(&mut self, returned: u64, invalid: u64) -> Result<(), PolicyFailure> {
        debug_assert!(invalid <= returned, "{invalid} of {returned} victims are invalid");
        self.counters.invalid_victims += invalid;
        self.invalid.add(returned, invalid, VICTIMS_JUDGED_MAX);
        self.empty.add(1, u64::from(returned == invalid), REQUESTS_JUDGED_MAX);
        if self.invalid.is_over(INVALID_ONE_IN, VICTIMS_JUDGED_MIN) {
            let Share { total, bad } = self.invalid;
            return Err(failure(
                FailureKind::InvalidVictims,
                format!("{bad} of the last {total} victims were invalid"),
            ));
        }
        if self.empty.is_over(EMPTY_ONE_IN, REQUESTS_JUDGED_MIN) {
            let Share { total, bad } = self.empty;
            return Err(failure(
                FailureKind::Shortfall,
                format!("{bad} of the last {total} requests brought no victim"),
            ));
        }
        Ok(())
    }

    /// Ends the slot, leaving its record. The policy is dropped without another call.
    pub fn exit(self, failure: PolicyFailure, role: PolicyRole, at_ns: u64) -> ExitRecord {
        let first = self.events.len().saturating_sub(RECORD_EVENTS_MAX);
        ExitRecord {
            counters: self.counters(),
            identity: self.identity,
            role,
            at_ns,
            failure,
            events: self.events[first..].to_vec(),
        }
    }
}

pub(in crate::cache) fn failure(kind: FailureKind, message: impl Into<String>) -> PolicyFailure {
    PolicyFailure { kind, message: message.into(), backtrace: Vec::new() }
}

fn check_length(returned: usize, max: u32) -> Result<(), PolicyFailure> {
    if returned > max as usize {
        let message = format!("{returned} slots returned where at most {max} were asked for");
        return Err(failure(FailureKind::ResultTooLarge, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Lru;

    fn slot() -> PolicySlot {
        PolicySlot::new(Box::new(Lru::default()), PolicyIdentity::default())
    }

    #[test]
    fn a_policy_is_out_from_just_the_share_of_wrong_victims_that_is_too_large() {
        for (returned, invalid, is_borne) in [
            (255, 255, true),
            (256, 2, true),
            (256, 3, false),
            (299, 3, false),
            (300, 3, true),
            (4095, 40, true),
            (4095, 41, false),
        ] {
            let judged = slot().judge(returned, invalid);
            let told = format!("{invalid} of {returned}: {judged:?}");
            assert_eq!(judged.is_ok(), is_borne, "{told}");
            let is_named = |failure: PolicyFailure| {
                let wanted = format!("{invalid} of the last {returned} victims were invalid");
                failure.kind == FailureKind::InvalidVictims && failure.message == wanted
            };
            assert!(judged.err().is_none_or(is_named), "{told}");
        }
    }

    #[test]
    fn a_policy_is_out_from_just_the_share_of_empty_answers_that_is_too_large() {
        for (requests, empty, is_borne) in
            [(31, 31, true), (32, 3, true), (32, 4, false), (39, 4, false), (40, 4, true)]
        {
            // The empty ones come first; what counts is the share in the end.
            let mut slot = slot();
            let mut judged = Ok(());
            for at in 0..requests {
                judged = slot.judge(u64::from(at >= empty), 0);
            }
            assert_eq!(judged.is_ok(), is_borne, "{empty} of {requests}: {judged:?}");
            if let Err(failure) = judged {
                assert_eq!(failure.kind, FailureKind::Shortfall);
                let wanted = format!("{empty} of the last {requests} requests brought no victim");
                assert_eq!(failure.message, wanted);
            }
        }
        // An answer of which nothing is right is as good as none.
        let mut slot = slot();
        assert!((1..32).all(|_| slot.judge(3, 3).is_ok()));
        assert_eq!(slot.judge(3, 3).unwrap_err().kind, FailureKind::Shortfall);
    }

    #[test]
    fn what_was_long_ago_is_not_held_against_a_policy_nor_does_it_excuse_it() {
        let mut slot = slot();
        slot.judge(VICTIMS_JUDGED_MAX, 0).unwrap();
        slot.judge(255, 255).unwrap();
        let failure = slot.judge(1, 0).unwrap_err();
        assert_eq!(failure.message, "255 of the last 256 victims were invalid");
        let mut slot = self::slot();
        slot.judge(VICTIMS_JUDGED_MAX - 1, 0).unwrap();
        assert!(slot.judge(1, 1).is_ok() && slot.judge(0, 0).is_ok());
        assert_eq!(slot.counters.invalid_victims, 1);
    }

    #[test]
    fn the_record_of_an_end_has_the_last_events_that_were_not_delivered() {
        for (count, kept) in [(0, 0..0), (5, 0..5), (64, 0..64), (65, 1..65), (256, 192..256)] {
            let mut slot = slot();
            for word in 0..count {
                slot.push(word).unwrap();
            }
            let failure = failure(FailureKind::Operator, "enough");
            let record = slot.exit(failure.clone(), PolicyRole::Standby, 7);
            assert_eq!(record.events, kept.collect::<Vec<u64>>(), "of {count}");
            assert_eq!((record.role, record.at_ns), (PolicyRole::Standby, 7));
            assert_eq!((record.failure, record.counters.calls), (failure, 0));
        }
        // A full ring is delivered before the next event comes in.
        let mut slot = slot();
        for word in 0..POLICY_RING_EVENTS_MAX as u64 + 3 {
            slot.push(word).unwrap();
        }
        let record = slot.exit(failure(FailureKind::Operator, "enough"), PolicyRole::Active, 7);
        assert_eq!((record.events, record.counters.events), (vec![256, 257, 258], 256));
        for (role, word) in [
            (PolicyRole::Active, "active"),
            (PolicyRole::Candidate, "candidate"),
            (PolicyRole::Standby, "standby"),
            (PolicyRole::Shadow, "shadow"),
        ] {
            assert_eq!(role.as_str(), word);
        }
    }
}
