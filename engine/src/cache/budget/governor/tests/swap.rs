//! A candidate that keeps strict books of whom it is told of, under a load that goes on.

use std::collections::BTreeSet;

use super::*;

const INSERT: u64 = Op::Insert as u64;
const MISS: u64 = Op::Miss as u64;
const REMOVE: u64 = Op::Remove as u64;
const RESTORE: u64 = Op::Restore as u64;
const VICTIM_REFUSED: u64 = Op::VictimRefused as u64;

/// Knows who is resident, and fails the test when it is told anything else.
struct Ledger(Rc<RefCell<BTreeSet<Slot>>>);

impl EvictionPolicy for Ledger {
    fn name(&self) -> &str {
        "ledger"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn apply(
        &mut self,
        events: &[u64],
        _: &[u64],
        want_entries: u32,
        _: u64,
        victims: &mut Vec<Slot>,
    ) -> Result<(), PolicyFailure> {
        let mut known = self.0.borrow_mut();
        for word in events {
            let slot = *word as Slot;
            match *word >> 32 & 0xF {
                INSERT | RESTORE | VICTIM_REFUSED => {
                    assert!(known.insert(slot), "slot {slot} comes in and was there");
                }
                REMOVE => assert!(known.remove(&slot), "slot {slot} leaves and was not there"),
                MISS => {}
                _ => assert!(known.contains(&slot), "slot {slot} is used and was not there"),
            }
        }
        for _ in 0..want_entries {
            victims.extend(known.pop_first());
        }
        Ok(())
    }

    fn drain_order(&mut self, _: u32, _: u32, _: &mut Vec<Slot>) -> Result<(), PolicyFailure> {
        Ok(())
    }

    fn resize(&mut self, _: u64, _: u32) -> Result<(), PolicyFailure> {
        Ok(())
    }
}

#[test]
fn a_candidate_knows_who_came_and_who_went_in_the_midst_of_the_swap() {
    let mut harness = Harness::with(600, Lru::default());
    for key in 0..300 {
        harness.access(key);
    }
    let known: Rc<RefCell<BTreeSet<Slot>>> = Rc::default();
    harness.begin_replace(Ledger(known.clone()), "next").unwrap();
    let mut rounds = 0;
    loop {
        // Two come, of whom one goes at once; one goes that was there, shown already or not.
        let (goes, stays) = (1000 + 2 * rounds, 1001 + 2 * rounds);
        for key in [goes, stays, stays] {
            harness.access(key);
        }
        harness.remove(goes);
        harness.remove(rounds * 7 % 300);
        if harness.step_replace(16) != SwapStep::Working {
            break;
        }
        rounds += 1;
        assert!(rounds < 100, "the swap ends");
    }
    let status = harness.governor.status();
    assert_eq!((status.identity.name.as_str(), status.failures.len()), ("next", 0));
    assert!(rounds > 10, "all that is there is shown in {rounds} rounds");
    let residents: BTreeSet<Slot> = harness.slots.values().copied().collect();
    assert_eq!(*known.borrow(), residents);

    while !harness.evict(100).is_empty() {}
    let status = harness.governor.status();
    assert_eq!((status.counters.invalid_victims, status.counters.shortfalls), (0, 0));
    assert_eq!((status.state, status.failures.len()), (PolicyState::Active, 0));
    assert!(harness.slots.is_empty() && known.borrow().is_empty());
}
