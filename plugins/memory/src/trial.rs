//! What every policy has to stand, natively: decisions that do not depend on batches, events of any
//! order, and a small cache to compute cases by hand for.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_plugin::{Driver, Event, EvictionPolicy, Op, Outcome, Replay, Setup, Slot, replay};

/// A policy without parameters.
pub fn driver<P: EvictionPolicy>(max_slots: u32) -> Driver<P> {
    driver_with(max_slots, &[])
}

/// A policy with parameters, which it has to accept.
pub fn driver_with<P: EvictionPolicy>(max_slots: u32, params: &[(&str, &str)]) -> Driver<P> {
    let params = params.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let setup = Setup { params, max_slots, shard: 0, seed: 7 };
    match Driver::new(&setup) {
        Ok(driver) => driver,
        Err(message) => panic!("{}: {message}", P::NAME),
    }
}

/// The message with which the policy refuses a parameter.
pub fn refusal<P: EvictionPolicy>(name: &str, value: &str) -> String {
    let params = vec![(name.to_string(), value.to_string())];
    match P::new(&Setup { params, max_slots: 16, shard: 0, seed: 7 }) {
        Ok(_) => panic!("{} accepts {name} = {value}", P::NAME),
        Err(message) => message,
    }
}

/// Delivers events in one batch and returns the victims; the fingerprint of an entry is its slot.
pub fn apply<P: EvictionPolicy>(
    driver: &mut Driver<P>,
    events: &[(Op, Slot)],
    want: u32,
) -> Vec<Slot> {
    let mut attributes = Vec::new();
    for (op, slot) in events {
        if op.has_attributes() {
            attributes.extend([u64::from(*slot), 1, 0]);
        }
    }
    let words: Vec<u64> = events.iter().map(|(op, slot)| Event::new(*slot, *op).0).collect();
    let mut victims = Vec::new();
    driver.apply(&words, &attributes, want, 0, &mut victims);
    victims
}

/// Ids that a cache of `entries` evicts, in order, one victim at a time.
pub fn evicted<P: EvictionPolicy>(
    driver: &mut Driver<P>,
    entries: u32,
    trace: impl IntoIterator<Item = u32>,
) -> Vec<u32> {
    let (mut slots, mut ids) = (BTreeMap::new(), Vec::new());
    for id in trace {
        if let Some(slot) = slots.get(&id) {
            apply(driver, &[(Op::Access, *slot)], 0);
            continue;
        }
        let slot = if slots.len() < entries as usize {
            slots.len() as Slot
        } else {
            let victims = apply(driver, &[], 1);
            let (id, slot) = slots
                .iter()
                .find(|(_, slot)| victims == [**slot])
                .map(|(id, slot)| (*id, *slot))
                .expect("the policy names a resident victim");
            slots.remove(&id);
            ids.push(id);
            slot
        };
        slots.insert(id, slot);
        let word = Event::new(slot, Op::Insert).0;
        driver.apply(&[word], &[u64::from(id), 1, 0], 0, 0, &mut Vec::new());
    }
    ids
}

/// A skewed trace with scans in it; the working set drifts.
pub fn mixed_trace(requests: u32) -> impl Iterator<Item = u32> {
    let mut state = 17u64;
    (0..requests).map(move |at| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let draw = (state >> 33) as u32;
        match at / 500 % 8 {
            7 => 1_000_000 + at,
            _ => at / 20_000 * 30 + draw % (1 + draw / 7 % 701),
        }
    })
}

/// Runs a trace with several batch sizes and asserts that the decisions are the same.
pub fn assert_batches_agree<P: EvictionPolicy>() -> Outcome {
    let run = |batch| {
        let settings = Replay { entries: 100, batch, victims_ahead: 1 };
        replay(&mut driver::<P>(100), settings, mixed_trace(60_000))
    };
    let one = run(1);
    assert!(one.misses > 5_000 && one.misses < 50_000, "{one:?}");
    assert_eq!(one.shortfalls, 0, "every victim was named");
    for batch in [7, 64, 256, 1024] {
        assert_eq!(run(batch), one, "{}: batches of {batch}", P::NAME);
    }
    one
}

/// Sends events in random order, also such as do not fit, and asserts what the contract asks for:
/// each victim is resident and named once, `order` lists the residents, and all of them can be
/// drained.
pub fn assert_contract<P: EvictionPolicy>() {
    const SLOTS: u32 = 48;
    for seed in 0..8 {
        let mut driver = driver::<P>(SLOTS / 2);
        driver.policy_mut().resize(1 << 20, SLOTS);
        let mut resident = BTreeSet::new();
        let mut taken: Vec<Slot> = Vec::new();
        let mut state = 0x5851_F42Du64 + seed;
        for step in 0..12_000u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let slot = (state >> 35) as u32 % SLOTS;
            let op = match state >> 58 {
                0..16 => Op::Insert,
                16..18 => Op::Restore,
                18..22 => Op::Remove,
                22..24 => Op::Update,
                24 => Op::Pin,
                25 => Op::Unpin,
                26 => Op::Resize,
                27 => Op::Other(13),
                28 => Op::Miss,
                29..32 if !taken.is_empty() => Op::VictimRefused,
                _ => Op::Access,
            };
            let slot = match op {
                Op::VictimRefused => taken.swap_remove(slot as usize % taken.len()),
                Op::Miss => 0,
                _ => slot,
            };
            match op {
                Op::Insert | Op::Restore | Op::VictimRefused => {
                    resident.insert(slot);
                    taken.retain(|gone| *gone != slot);
                }
                Op::Remove => {
                    resident.remove(&slot);
                    taken.retain(|gone| *gone != slot);
                }
                _ => {}
            }
            let word = Event::new(slot, op).0;
            // Few identities, so that many of them return while they are remembered.
            let fingerprint = ((state >> 45) % 80).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let attributes: &[u64] = if op.has_attributes() { &[fingerprint, 1, 0] } else { &[] };
            let want = if resident.len() > 36 { 1 + state as u32 % 5 } else { 0 };
            let mut victims = Vec::new();
            driver.apply(&[word], attributes, want, 0, &mut victims);
            for victim in victims {
                assert!(resident.remove(&victim), "step {step}: {victim} is not resident");
                taken.push(victim);
            }
            if step % 97 == 0 {
                let listed = driver.drain_order(0, SLOTS).to_vec();
                let set: BTreeSet<Slot> = listed.iter().copied().collect();
                assert_eq!((set.len(), &set), (listed.len(), &resident), "step {step}");
            }
        }
        let mut left = Vec::new();
        driver.apply(&[], &[], SLOTS, 0, &mut left);
        assert_eq!(left.iter().copied().collect::<BTreeSet<_>>(), resident);
        assert_eq!(left.len(), resident.len());
        left.clear();
        driver.apply(&[], &[], 1, 0, &mut left);
        assert!(left.is_empty());
    }
}
