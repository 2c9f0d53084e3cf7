//! Which thing a slot holds is found out where somebody asks: that must be what policies were told
//! when it came in.

use std::cell::RefCell;

use super::*;
use crate::cache::{EntryId, PolicyIdentity, SwapStep};
use crate::policy::event::Op;
use crate::policy::{EvictionPolicy, Lru, PolicyFailure};

type Told = Rc<RefCell<BTreeMap<Slot, EntryId>>>;
/// How often each slot was said to be used.
pub(super) type Uses = Rc<RefCell<BTreeMap<Slot, u32>>>;

/// An LRU that takes down what it is told of residents.
#[derive(Default)]
struct Witness {
    lru: Lru,
    told: Told,
    uses: Uses,
}

impl EvictionPolicy for Witness {
    fn name(&self) -> &str {
        "witness"
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
        let mut attributes_left = attributes.chunks_exact(3);
        for word in events {
            // Insertions, misses and restored residents have attributes.
            let op = word >> 32 & 0xF;
            if op == Op::Access as u64 {
                *self.uses.borrow_mut().entry(*word as Slot).or_default() += 1;
            }
            if let 1 | 3 | 4 = op
                && let Some([fingerprint, _, table]) = attributes_left.next()
                && op != 3
            {
                let id = EntryId { fingerprint: *fingerprint, table: *table as u32 };
                self.told.borrow_mut().insert(*word as Slot, id);
            }
        }
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
}

fn witness(world: &World) -> Told {
    watched(world, Witness::default()).0
}

/// Uses of slots from here on.
pub(super) fn uses(world: &World) -> Uses {
    watched(world, Witness::default()).1
}

fn watched(world: &World, policy: Witness) -> (Told, Uses) {
    let of = (policy.told.clone(), policy.uses.clone());
    world.pages.begin_policy(Box::new(policy), PolicyIdentity::default()).unwrap();
    while world.pages.step_policy_swap(256) == SwapStep::Working {}
    of
}

/// Checks what was told of all that is there; how many that are.
fn check(world: &World, told: &Told, what: &str) -> usize {
    world.pages.deliver();
    let ids = world.pages.ids();
    for (slot, id) in &ids {
        assert_eq!(told.borrow().get(slot), Some(id), "{what}: slot {slot}");
    }
    ids.len()
}

#[test]
fn what_a_slot_holds_is_what_was_told_when_it_came() {
    let mut seen = 0;
    for seed in 0..60 {
        let mut world = World::new(seed);
        let what = format!("seed {seed}");
        let told = witness(&world);
        for _ in 0..60 {
            match world.below(10) {
                0 | 1 => world.flush(),
                2 => world.evict(),
                3 => _ = read_all(world.open_scan().1),
                _ => _ = read_all(world.open().1),
            }
            seen += check(&world, &told, &what);
        }
        let next = witness(&world);
        seen += check(&world, &next, &what);
    }
    assert!(seen > 10_000, "{seen} slots were looked at");
}
