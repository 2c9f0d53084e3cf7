//! What is told of a policy counts from the moment at which it took charge.

use super::*;
use crate::policy::PolicyUsage;

/// An LRU that takes one nanosecond and two units of fuel a call.
#[derive(Default)]
struct Metered {
    lru: Lru,
    usage: PolicyUsage,
}

impl EvictionPolicy for Metered {
    fn name(&self) -> &str {
        "metered"
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
        self.usage.ns += 1;
        self.usage.fuel += 2;
        self.lru.apply(events, attributes, want_entries, want_bytes, victims)
    }

    fn drain_order(
        &mut self,
        cursor: u32,
        max: u32,
        slots: &mut Vec<Slot>,
    ) -> Result<(), PolicyFailure> {
        self.lru.drain_order(cursor, max, slots)
    }

    fn resize(&mut self, capacity_bytes: u64, max_slots: u32) -> Result<(), PolicyFailure> {
        self.lru.resize(capacity_bytes, max_slots)
    }

    fn usage(&self) -> PolicyUsage {
        self.usage
    }
}

/// Calls of the policy in charge, and what it used for them.
fn counted(harness: &Harness) -> u64 {
    let PolicyCounters { calls, usage, .. } = harness.governor.status().counters;
    let wanted = PolicyUsage { ns: calls, fuel: 2 * calls };
    assert_eq!(usage, wanted, "what {calls} calls used");
    calls
}

#[test]
fn a_policy_in_charge_is_counted_from_then_on() {
    let mut harness = Harness::with(100, Metered::default());
    let mut random = Random::new(5);
    let mut play = |harness: &mut Harness| {
        for _ in 0..1000 {
            harness.access(skewed(&mut random, 500));
        }
        assert!(counted(harness) > 0, "it was asked for victims");
    };
    play(&mut harness);
    // A candidate is shown all that is there before it takes charge.
    harness.replace(Metered::default(), "second");
    assert_eq!(counted(&harness), 0);
    play(&mut harness);
    assert!(harness.governor.rollback());
    assert_eq!(counted(&harness), 0);
    play(&mut harness);
}

#[test]
fn the_last_sixteen_ends_are_on_record_and_the_oldest_goes_first() {
    let mut harness = Harness::with(10, Lru::default());
    for number in 0..20_u64 {
        harness.governor.tick(number * 1_000_000);
        harness.replace(Lru::default(), &format!("policy {number}"));
        let message = format!("end {number}");
        harness.governor.detach(policy_slot::failure(FailureKind::Trap, message));
        let status = harness.governor.status();
        assert_eq!(status.state, PolicyState::Failed);
        assert_eq!(status.identity.name, format!("policy {number}"), "who failed last");
        let told: Vec<_> = status.failures.iter().map(|record| &*record.failure.message).collect();
        let wanted: Vec<String> =
            (0..=number).rev().take(16).map(|end| format!("end {end}")).collect();
        assert!(told.iter().rev().eq(wanted.iter()), "{told:?}");
        let last = status.failures.last().unwrap();
        assert_eq!((last.at_ns, last.role), (number * 1_000_000, PolicyRole::Active));
    }
}
