//! Scripted policies, good and evil, against the governor, with a cache that is nothing but slots.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

mod figures;
mod shadow;
mod swap;
mod ticks;

use super::*;
use crate::clock::Random;
use crate::policy::{EvictionPolicy, Lru};

const ENTRY_BYTES: u32 = 10;

fn identity(name: &str) -> PolicyIdentity {
    PolicyIdentity { name: name.into(), version: "1".into(), digest: "d".into() }
}

/// Slots under a governor, named by key; checks that the governor never breaks the cache.
struct Harness {
    governor: Governor,
    capacity: usize,
    slots: BTreeMap<u64, Slot>,
    held: Held,
    hits: u64,
    misses: u64,
}

/// What the slots hold.
#[derive(Default)]
struct Held {
    keys: BTreeMap<Slot, u64>,
    in_use: Vec<Slot>,
    /// Who was said to leave after how many others.
    announced: RefCell<BTreeMap<u64, Vec<usize>>>,
}

impl Owner for Held {
    fn is_in_use(&self, slot: Slot) -> bool {
        self.in_use.contains(&slot)
    }

    fn id(&self, slot: Slot) -> EntryId {
        EntryId { fingerprint: self.keys[&slot], table: 0 }
    }

    fn will_leave(&self, slot: Slot, ahead: usize) {
        self.announced.borrow_mut().entry(self.keys[&slot]).or_default().push(ahead);
    }
}

impl Harness {
    fn new(capacity: usize) -> Self {
        Harness {
            governor: Governor::new((capacity * ENTRY_BYTES as usize) as u64, capacity as u32),
            capacity,
            slots: BTreeMap::new(),
            held: Held::default(),
            hits: 0,
            misses: 0,
        }
    }

    fn with(capacity: usize, policy: impl EvictionPolicy + 'static) -> Self {
        let mut harness = Harness::new(capacity);
        harness.replace(policy, "first");
        harness
    }

    fn replace(&mut self, policy: impl EvictionPolicy + 'static, name: &str) {
        self.begin_replace(policy, name).unwrap();
        while self.step_replace(256) == SwapStep::Working {}
    }

    fn begin_replace(
        &mut self,
        policy: impl EvictionPolicy + 'static,
        name: &str,
    ) -> Result<(), PolicyFailure> {
        self.governor.begin_replace(Box::new(policy), identity(name), &self.held)
    }

    fn step_replace(&mut self, max: u32) -> SwapStep {
        self.governor.step_replace(max, &self.held)
    }

    fn step_shadow(&mut self, max: u32) -> bool {
        self.governor.step_shadow(max, &self.held)
    }

    /// The cache gives up what it has of a key.
    fn remove(&mut self, key: u64) {
        let Some(slot) = self.slots.remove(&key) else { return };
        self.governor.remove(slot, &self.held);
        self.held.keys.remove(&slot);
    }

    /// One lookup; true when it hit.
    fn access(&mut self, key: u64) -> bool {
        if let Some(slot) = self.slots.get(&key) {
            self.governor.hit(*slot, &self.held);
            self.hits += 1;
            return true;
        }
        self.misses += 1;
        if self.slots.len() == self.capacity {
            self.evict(1);
        }
        let attributes = EntryAttributes {
            fingerprint: key,
            size_bytes: ENTRY_BYTES,
            cost_us: LOAD_COST_US,
            table: 0,
        };
        match self.governor.allocate(attributes, EntryKind::Row) {
            Some(slot) => {
                assert!(self.slots.insert(key, slot).is_none());
                assert!(self.held.keys.insert(slot, key).is_none(), "slot {slot} was still taken");
            }
            None => assert_eq!(self.slots.len(), self.capacity, "a free slot was refused"),
        }
        self.check();
        false
    }

    fn evict(&mut self, want: u64) -> Vec<u64> {
        let mut victims = Vec::new();
        let want_bytes = want * u64::from(ENTRY_BYTES);
        let freed = self.governor.evict(want_bytes, &self.held, &mut victims);
        assert_eq!(freed, victims.len() as u64 * u64::from(ENTRY_BYTES));
        let mut keys = Vec::new();
        for slot in victims {
            assert!(!self.held.is_in_use(slot), "a slot in use was evicted");
            let key = self.held.keys.remove(&slot).expect("a victim is resident and named once");
            self.slots.remove(&key);
            keys.push(key);
        }
        self.check();
        keys
    }

    fn check(&self) {
        assert!(self.slots.len() <= self.capacity);
        assert_eq!(self.governor.entry_count() as usize, self.slots.len());
        assert_eq!(self.governor.bytes(), self.slots.len() as u64 * u64::from(ENTRY_BYTES));
    }
}

/// Keys of which few are hot, from a seed.
fn skewed(random: &mut Random, keys: u64) -> u64 {
    let bound = 1 + random.below(keys);
    random.below(bound)
}

/// An LRU by definition, for comparison.
struct NaiveLru {
    order: VecDeque<u64>,
    capacity: usize,
}

impl NaiveLru {
    fn access(&mut self, key: u64) -> bool {
        let at = self.order.iter().position(|held| *held == key);
        if let Some(at) = at {
            self.order.remove(at);
        } else if self.order.len() == self.capacity {
            self.order.pop_front();
        }
        self.order.push_back(key);
        at.is_some()
    }
}

/// What a scripted policy is to do with a call.
type Script = Box<dyn FnMut(u64, u32, &mut Vec<Slot>) -> Result<(), PolicyFailure>>;

/// A drain order in place of the honest one.
type Drain = fn(u32, u32, &mut Vec<Slot>) -> Result<(), PolicyFailure>;

/// An LRU whose answers pass through a script: (number of the call, entries wanted, its honest
/// answer).
struct Scripted {
    lru: Lru,
    calls: u64,
    script: Script,
    drain: Option<Drain>,
    /// Whether those that were read last leave first.
    newest_first: bool,
    /// Whether reads make no difference to it.
    is_deaf: bool,
}

fn scripted(
    script: impl FnMut(u64, u32, &mut Vec<Slot>) -> Result<(), PolicyFailure> + 'static,
) -> Scripted {
    Scripted {
        lru: Lru::default(),
        calls: 0,
        script: Box::new(script),
        drain: None,
        newest_first: false,
        is_deaf: false,
    }
}

fn trap() -> PolicyFailure {
    PolicyFailure {
        kind: FailureKind::Trap,
        message: "unreachable".into(),
        backtrace: vec!["apply".into()],
    }
}

impl EvictionPolicy for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn apply(
        &mut self,
        events: &[u64],
        attributes: &[u64],
        want_entries: u32,
        want_bytes: u64,
        victims: &mut Vec<Slot>,
    ) -> Result<(), PolicyFailure> {
        assert!(events.len() <= crate::config::POLICY_RING_EVENTS_MAX);
        let with_attributes =
            events.iter().filter(|word| matches!(**word >> 32 & 0xF, 1 | 3 | 4)).count();
        assert_eq!(attributes.len(), 3 * with_attributes);
        self.calls += 1;
        let is_heard = |word: &&u64| !self.is_deaf || **word >> 32 & 0xF != Op::Access as u64;
        let events: Vec<u64> = events.iter().filter(is_heard).copied().collect();
        let events = &events[..];
        if self.newest_first && want_entries > 0 {
            self.lru.apply(events, attributes, 0, 0, victims)?;
            let mut order = Vec::new();
            self.lru.drain_order(0, u32::MAX, &mut order)?;
            victims.extend(order.iter().rev().take(want_entries as usize));
            let gone: Vec<u64> =
                victims.iter().map(|slot| event(*slot, Op::Remove, EntryKind::Row, 0, 0)).collect();
            self.lru.apply(&gone, &[], 0, 0, &mut Vec::new())?;
        } else {
            self.lru.apply(events, attributes, want_entries, want_bytes, victims)?;
        }
        (self.script)(self.calls, want_entries, victims)
    }

    fn drain_order(
        &mut self,
        cursor: u32,
        max: u32,
        slots: &mut Vec<Slot>,
    ) -> Result<(), PolicyFailure> {
        match self.drain {
            Some(drain) => drain(cursor, max, slots),
            None => self.lru.drain_order(cursor, max, slots),
        }
    }

    fn resize(&mut self, capacity_bytes: u64, max_slots: u32) -> Result<(), PolicyFailure> {
        self.lru.resize(capacity_bytes, max_slots)
    }
}

/// Runs a load over an evil policy; the cache serves on and the failure is on record.
fn ejected_for(policy: Scripted, kind: FailureKind) -> Harness {
    let mut harness = Harness::with(100, policy);
    let mut random = Random::new(3);
    let mut naive = NaiveLru { order: VecDeque::new(), capacity: 100 };
    let mut naive_hits = 0;
    for _ in 0..20_000 {
        let key = skewed(&mut random, 1000);
        harness.access(key);
        naive_hits += u64::from(naive.access(key));
    }
    let status = harness.governor.status();
    assert_eq!(status.state, PolicyState::Failed, "{status:?}");
    assert_eq!(status.identity.name, "first");
    assert_eq!(status.failures.len(), 1);
    assert_eq!(status.failures[0].failure.kind, kind);
    assert_eq!(harness.slots.len(), harness.capacity, "the fallback keeps the cache full");
    assert!(harness.hits >= naive_hits - naive_hits / 20, "{} and {naive_hits}", harness.hits);
    harness
}

#[test]
fn who_leaves_is_said_step_by_step() {
    let mut harness = Harness::with(256, Lru::default());
    for key in 0..256 {
        harness.access(key);
    }
    let steps: Vec<usize> = (0..VICTIMS_AHEAD).rev().collect();
    for key in 0..120 {
        assert_eq!(harness.evict(1), [key]);
        // Those that were named first in an answer leave before there is time for all steps.
        let at = (key % u64::from(PROPOSALS_MAX)) as usize;
        let said = harness.held.announced.borrow().get(&key).cloned().unwrap_or_default();
        assert_eq!(said, steps[steps.len() - steps.len().min(at)..], "{key}");
    }
}

#[test]
fn lru_through_the_governor_equals_a_naive_lru() {
    for capacity in [1, 3, 10, 100, 400] {
        let mut harness = Harness::with(capacity, Lru::default());
        let mut naive = NaiveLru { order: VecDeque::new(), capacity };
        let mut random = Random::new(capacity as u64);
        for _ in 0..10_000 {
            let key = skewed(&mut random, 1000);
            assert_eq!(harness.access(key), naive.access(key));
        }
        let status = harness.governor.status();
        assert_eq!((status.tally.hits, status.tally.misses), (harness.hits, harness.misses));
        assert_eq!(status.evictions, harness.misses - capacity as u64);
        assert_eq!((status.counters.shortfalls, status.counters.invalid_victims), (0, 0));
        assert!(status.counters.victims >= status.evictions);
    }
}

#[test]
fn the_native_clock_is_about_as_good_as_lru() {
    let mut harness = Harness::new(200);
    let mut naive = NaiveLru { order: VecDeque::new(), capacity: 200 };
    let mut random = Random::new(5);
    let mut naive_hits = 0;
    for _ in 0..30_000 {
        let key = skewed(&mut random, 1000);
        harness.access(key);
        naive_hits += u64::from(naive.access(key));
    }
    assert!(harness.hits >= naive_hits - naive_hits / 50, "{} and {naive_hits}", harness.hits);
    let status = harness.governor.status();
    assert_eq!((status.state, status.tally.hits), (PolicyState::Native, harness.hits));
    assert_eq!(status.tally.hit_ratio(), Some(harness.hits as f64 / 30_000.0));
}

#[test]
fn garbage_and_repeated_victims_end_a_policy() {
    let mut random = Random::new(1);
    let garbage = scripted(move |_, want, victims| {
        victims.clear();
        victims.extend((0..want).map(|_| random.next_u64() as u32));
        Ok(())
    });
    let harness = ejected_for(garbage, FailureKind::InvalidVictims);
    let record = &harness.governor.status().failures[0];
    assert!(record.counters.invalid_victims >= 250 && record.counters.shortfalls > 0);

    let repeated = scripted(|_, want, victims| {
        let first = victims.first().copied().unwrap_or(7);
        victims.clear();
        victims.resize(want as usize, first);
        Ok(())
    });
    ejected_for(repeated, FailureKind::InvalidVictims);
}

#[test]
fn few_invalid_victims_are_borne_and_counted() {
    let rare = scripted(|call, _, victims| {
        if call % 300 == 0 && !victims.is_empty() {
            victims[0] = u32::MAX;
        }
        Ok(())
    });
    let mut harness = Harness::with(100, rare);
    let mut random = Random::new(3);
    for _ in 0..50_000 {
        harness.access(skewed(&mut random, 1000));
    }
    let status = harness.governor.status();
    assert_eq!(status.state, PolicyState::Active);
    assert!(status.counters.invalid_victims > 0);
}

#[test]
fn empty_and_oversized_answers_end_a_policy() {
    let empty = scripted(|_, _, victims| {
        victims.clear();
        Ok(())
    });
    ejected_for(empty, FailureKind::Shortfall);
    let oversized = scripted(|call, _, victims| {
        if call > 50 {
            victims.resize(1_000_000, 0);
        }
        Ok(())
    });
    ejected_for(oversized, FailureKind::ResultTooLarge);
}

#[test]
fn a_policy_that_fails_at_any_call_is_replaced_within_that_call() {
    for fails_at in [1, 2, 3, 10, 77] {
        let traps = scripted(move |call, _, _| if call == fails_at { Err(trap()) } else { Ok(()) });
        let harness = ejected_for(traps, FailureKind::Trap);
        let record = &harness.governor.status().failures[0];
        assert_eq!(record.counters.calls, fails_at, "a failed policy is not called again");
        assert_eq!(record.failure.backtrace, ["apply"]);
        assert!(!record.events.is_empty() && record.events.len() <= 64);
    }
}

#[test]
fn what_is_pinned_or_in_use_stays_and_goes_back_to_the_policy() {
    let mut harness = Harness::with(40, Lru::default());
    for key in 0..40 {
        harness.access(key);
    }
    for key in 0..10 {
        harness.governor.pin(harness.slots[&key]);
    }
    harness.held.in_use = (10..20).map(|key| harness.slots[&key]).collect();
    assert_eq!(harness.evict(3), [20, 21, 22]);
    assert_eq!(harness.governor.status().counters.refused_victims, 20);
    // Refused ones went to the hot end, so the rest of the cold ones leave before them.
    for key in 0..10 {
        harness.governor.unpin(harness.slots[&key]);
    }
    harness.held.in_use.clear();
    let gone = harness.evict(37);
    assert_eq!(gone[..17], (23..40).collect::<Vec<_>>());
    assert_eq!(gone.len(), 37);
}

#[test]
fn a_cache_wholly_in_use_gives_nothing_up_and_blames_nobody() {
    let mut harness = Harness::with(100, Lru::default());
    for key in 0..100 {
        harness.access(key);
    }
    harness.held.in_use = harness.slots.values().copied().collect();
    for _ in 0..200 {
        assert!(harness.evict(1).is_empty());
    }
    assert!(!harness.access(1000), "it does not come in");
    assert_eq!(harness.governor.status().state, PolicyState::Active);
    harness.held.in_use.clear();
    assert_eq!(harness.evict(100).len(), 100);
}

#[test]
fn a_hit_on_a_proposed_victim_saves_it() {
    let mut harness = Harness::with(40, Lru::default());
    for key in 0..40 {
        harness.access(key);
    }
    assert_eq!(harness.evict(1), [0]);
    harness.access(1);
    harness.remove(2);
    assert_eq!(harness.evict(2), [3, 4]);
    assert_eq!(harness.evict(40).last(), Some(&1));
}

/// Order in which a governor would evict all it has.
fn drained(mut harness: Harness) -> Vec<u64> {
    let mut keys = Vec::new();
    loop {
        let gone = harness.evict(100_000);
        if gone.is_empty() {
            return keys;
        }
        keys.extend(gone);
    }
}

#[test]
fn a_swap_under_load_keeps_residents_and_nearly_all_hits() {
    let mut swapped = Harness::with(2000, Lru::default());
    let mut plain = Harness::with(2000, Lru::default());
    let mut random = Random::new(9);
    for round in 0..40_000 {
        if round % 4000 == 3000 {
            let residents = swapped.slots.len();
            swapped.begin_replace(Lru::default(), "next").unwrap();
            assert_eq!(swapped.slots.len(), residents);
        }
        if round % 4000 >= 3000 && round % 10 == 0 {
            swapped.step_replace(256);
        }
        let key = skewed(&mut random, 10_000);
        swapped.access(key);
        plain.access(key);
    }
    let status = swapped.governor.status();
    assert_eq!(status.identity.name, "next");
    assert_eq!(status.standby, Some(identity("next")));
    assert!(status.failures.is_empty());
    assert_eq!(swapped.slots.len(), 2000, "the cache stays full");
    assert!(swapped.hits >= plain.hits - plain.hits / 50, "{} {}", swapped.hits, plain.hits);
    assert_eq!(drained(swapped).len(), 2000);
}

#[test]
fn a_swap_at_rest_keeps_the_order() {
    let mut swapped = Harness::with(2000, Lru::default());
    let mut plain = Harness::with(2000, Lru::default());
    let mut random = Random::new(9);
    for round in 0..20_000 {
        if round % 4000 == 3500 {
            swapped.replace(Lru::default(), "next");
        }
        let key = skewed(&mut random, 10_000);
        assert_eq!(swapped.access(key), plain.access(key), "access {round}");
    }
    assert_eq!(drained(swapped), drained(plain));
}

#[test]
fn a_swap_from_the_clock_replays_by_last_touch() {
    let mut harness = Harness::new(1000);
    for key in 0..1000 {
        harness.access(key);
    }
    for key in (0..1000).rev() {
        harness.access(key);
    }
    harness.replace(Lru::default(), "lru");
    assert_eq!(harness.governor.status().state, PolicyState::Active);
    assert_eq!(drained(harness), (0..1000).rev().collect::<Vec<_>>());
}

#[test]
fn a_bad_drain_order_does_not_stop_the_swap() {
    let endless: Drain = |_, max, slots| {
        slots.extend((0..max).map(|index| index % 3));
        Ok(())
    };
    let failing: Drain = |_, _, slots| {
        slots.extend([1, 2, 3]);
        Err(trap())
    };
    let oversized: Drain = |_, max, slots| {
        slots.extend(0..=max);
        Ok(())
    };
    for (drain, failures) in [(endless, 0), (failing, 1), (oversized, 1)] {
        let mut first = scripted(|_, _, _| Ok(()));
        first.drain = Some(drain);
        let mut harness = Harness::with(1000, first);
        for key in 0..1000 {
            harness.access(key);
        }
        harness.begin_replace(Lru::default(), "next").unwrap();
        let mut steps = 0;
        while harness.step_replace(256) == SwapStep::Working {
            steps += 1;
            assert!(steps < 100, "the replay ends");
        }
        let status = harness.governor.status();
        assert_eq!(status.identity.name, "next");
        assert_eq!(status.failures.len(), failures);
        assert_eq!(drained(harness).len(), 1000);
    }
}

#[test]
fn a_large_cache_is_not_held_up_by_an_order_that_is_fixed_at_once() {
    let mut first = scripted(|_, _, _| Ok(()));
    first.drain = Some(|_, _, _| panic!("an order of so many is not asked for"));
    let count = 20_000;
    let mut harness = Harness::with(count, first);
    for key in (0..count as u64).rev() {
        harness.access(key);
    }
    harness.replace(Lru::default(), "next");
    assert_eq!(harness.governor.status().identity.name, "next");
    // By last touch, then.
    assert_eq!(drained(harness), (0..count as u64).rev().collect::<Vec<_>>());
}

#[test]
fn a_candidate_that_fails_leaves_the_active_policy_in_place() {
    for fails_at in [1, 2, 4] {
        let mut harness = Harness::with(1000, Lru::default());
        for key in 0..1000 {
            harness.access(key);
        }
        let traps = scripted(move |call, _, _| if call == fails_at { Err(trap()) } else { Ok(()) });
        harness.begin_replace(traps, "bad").unwrap();
        let mut last = SwapStep::Working;
        while last == SwapStep::Working {
            last = harness.step_replace(256);
        }
        assert_eq!(last, SwapStep::Failed);
        assert_eq!(harness.step_replace(256), SwapStep::Idle);
        let status = harness.governor.status();
        assert_eq!((status.identity.name.as_str(), status.state), ("first", PolicyState::Active));
        assert_eq!(status.failures[0].identity.name, "bad");
        assert_eq!(drained(harness), (0..1000).collect::<Vec<_>>());
    }
}

#[test]
fn a_rollback_brings_back_a_policy_that_missed_nothing() {
    let mut harness = Harness::with(100, Lru::default());
    let mut naive = NaiveLru { order: VecDeque::new(), capacity: 100 };
    let mut random = Random::new(21);
    assert!(harness.governor.rollback(), "the native CLOCK stands by");
    assert_eq!(harness.governor.status().state, PolicyState::Native);
    assert!(harness.governor.rollback(), "and back");
    for _ in 0..1000 {
        let key = skewed(&mut random, 500);
        assert_eq!(harness.access(key), naive.access(key));
    }
    // A policy that evicts the hottest first: residents differ from an LRU's from here on.
    let reversed = scripted(|_, _, victims| {
        victims.reverse();
        Ok(())
    });
    harness.replace(reversed, "reversed");
    for _ in 0..1000 {
        harness.access(skewed(&mut random, 500));
    }
    let touched: Vec<u64> = harness.slots.keys().copied().collect();
    for key in &touched {
        harness.access(*key);
    }
    assert!(harness.governor.rollback());
    let status = harness.governor.status();
    assert_eq!(status.identity.name, "first");
    let PolicyCounters { calls, events, victims, .. } = status.counters;
    assert_eq!((calls, events, victims), (0, 0, 0), "it is counted from here on");
    assert_eq!(status.standby.map(|standby| standby.name), Some("reversed".into()));
    assert_eq!(drained(harness), touched);
}

#[test]
fn a_candidate_is_shown_every_resident_however_many_there_were_before() {
    let mut harness = Harness::with(10, Lru::default());
    for key in 0..10 {
        harness.access(key);
    }
    // None of these gets so far; as many as a number of 16 bits can tell apart, and more.
    for _ in 0..(1 << 16) - 1 {
        harness.begin_replace(Lru::default(), "gives way").unwrap();
    }
    harness.replace(Lru::default(), "next");
    assert_eq!(harness.evict(3), [0, 1, 2]);
    let status = harness.governor.status();
    assert_eq!((status.identity.name.as_str(), status.counters.shortfalls), ("next", 0));
}

#[test]
fn the_operator_ends_a_policy_and_drops_the_standby() {
    let mut harness = Harness::with(10, Lru::default());
    harness.replace(Lru::default(), "next");
    harness.governor.drop_standby();
    assert!(!harness.governor.rollback());
    harness.governor.detach(policy_slot::failure(FailureKind::Operator, "by statement"));
    let status = harness.governor.status();
    assert_eq!((status.state, status.identity.name.as_str()), (PolicyState::Native, "clock"));
    assert_eq!(status.failures.len(), 1);
    for key in 0..100 {
        harness.access(key);
    }
}

#[test]
fn events_tell_time_in_sixteenths_of_a_millisecond() {
    let seen: Rc<RefCell<Vec<u64>>> = Rc::default();
    struct Recorder(Rc<RefCell<Vec<u64>>>);
    impl EvictionPolicy for Recorder {
        fn name(&self) -> &str {
            "recorder"
        }
        fn version(&self) -> &str {
            "1"
        }
        fn apply(
            &mut self,
            events: &[u64],
            _: &[u64],
            _: u32,
            _: u64,
            _: &mut Vec<Slot>,
        ) -> Result<(), PolicyFailure> {
            self.0.borrow_mut().extend(events);
            Ok(())
        }
        fn drain_order(&mut self, _: u32, _: u32, _: &mut Vec<Slot>) -> Result<(), PolicyFailure> {
            Ok(())
        }
        fn resize(&mut self, _: u64, _: u32) -> Result<(), PolicyFailure> {
            Ok(())
        }
    }
    let mut harness = Harness::with(10, Recorder(seen.clone()));
    harness.governor.tick(125_000);
    harness.access(1);
    harness.governor.tick(500_000);
    harness.access(1);
    harness.access(1);
    assert!(seen.borrow().is_empty(), "the ring is young");
    harness.governor.tick(1_100_000);
    let gaps: Vec<u64> = seen.borrow().iter().map(|word| word >> 48).collect();
    assert_eq!(gaps, [2, 6, 0]);
    harness.governor.tick(u64::MAX);
    harness.access(1);
    harness.governor.deliver();
    assert_eq!(seen.borrow().last().map(|word| word >> 48), Some(u64::from(u16::MAX)));
}

#[test]
fn random_policies_never_break_the_cache() {
    // Answers are honest, garbage, short or errors by chance, swaps and pins come at any time.
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let mut harness = Harness::new(64);
        let mut pinned: Vec<u64> = Vec::new();
        for round in 0..4000 {
            match random.below(40) {
                0 => {
                    let mut chance = Random::new(seed ^ round);
                    let evil = scripted(move |_, _, victims| {
                        match chance.below(60) {
                            0 => return Err(trap()),
                            1 => victims.clear(),
                            2 => victims.reverse(),
                            3 => victims.extend([1, 1]),
                            4 if !victims.is_empty() => victims[0] = chance.next_u64() as u32,
                            _ => {}
                        }
                        Ok(())
                    });
                    let _ = harness.begin_replace(evil, "evil");
                }
                1..=4 => {
                    harness.step_replace(1 + random.below(40) as u32);
                }
                5 if random.one_in(4) => {
                    harness.governor.rollback();
                }
                5 if random.one_in(4) => {
                    let mut chance = Random::new(seed ^ round ^ 1);
                    let evil = scripted(move |_, _, victims| {
                        match chance.below(60) {
                            0 => return Err(trap()),
                            1 if !victims.is_empty() => victims[0] = chance.next_u64() as u32,
                            _ => {}
                        }
                        Ok(())
                    });
                    let limits = harness.governor.shadow_limits(1 + random.below(8) as u32);
                    let purpose = ShadowPurpose::Candidate;
                    let _ = harness.governor.begin_shadow(
                        Box::new(evil),
                        identity("beside"),
                        purpose,
                        limits,
                    );
                }
                11 => {
                    harness.step_shadow(1 + random.below(40) as u32);
                }
                6 => {
                    let key = harness.slots.keys().nth(random.below(32) as usize).copied();
                    if let Some(key) = key
                        && !pinned.contains(&key)
                    {
                        harness.governor.pin(harness.slots[&key]);
                        harness.held.in_use.push(harness.slots[&key]);
                        pinned.push(key);
                    }
                }
                7..=8 if !pinned.is_empty() => {
                    let key = pinned.swap_remove(random.below(pinned.len() as u64) as usize);
                    let slot = harness.slots[&key];
                    harness.governor.unpin(slot);
                    harness.held.in_use.retain(|held| *held != slot);
                }
                9 => {
                    let key = skewed(&mut random, 200);
                    if !pinned.contains(&key) {
                        harness.remove(key);
                    }
                }
                10 => {
                    harness.evict(random.below(8));
                }
                _ => {
                    harness.access(skewed(&mut random, 200));
                }
            }
            harness.check();
        }
        let status = harness.governor.status();
        assert!(status.failures.len() <= EXIT_RECORDS_MAX);
    }
}
