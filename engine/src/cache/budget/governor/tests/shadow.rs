//! Shadows: what they estimate against the policy itself in charge, and that they harm nothing.

use super::*;
use crate::policy::TrialVerdict;

/// Keys of a Zipf law (exponent 0.9) with scans of keys that never come back, from a seed.
struct Load {
    random: Random,
    /// Keys differ from seed to seed, and with them which are sampled.
    seed: u64,
    /// Cumulated weights of the keys by rank.
    weights: Vec<f64>,
    scan_left: u64,
    next_scanned: u64,
}

impl Load {
    fn new(seed: u64, keys: u32) -> Self {
        let mut sum = 0.0;
        let weights = (1..=keys).map(|rank| {
            sum += f64::from(rank).powf(-0.9);
            sum
        });
        let weights = weights.collect();
        Load { random: Random::new(seed), seed, weights, scan_left: 0, next_scanned: 1 << 40 }
    }

    fn next(&mut self) -> u64 {
        if self.scan_left == 0 && self.random.one_in(20_000) {
            self.scan_left = 6_000;
        }
        // A scan shares the cache with the rest of the load.
        if self.scan_left > 0 && self.random.one_in(2) {
            self.scan_left -= 1;
            self.next_scanned += 1;
            return self.next_scanned;
        }
        let sum = *self.weights.last().expect("there are keys");
        let at = self.random.below(1 << 53) as f64 / (1_u64 << 53) as f64 * sum;
        // Ranks are not neighbours as numbers.
        let rank = self.weights.partition_point(|weight| *weight < at) as u64;
        Random::new(rank + (self.seed << 32)).next_u64()
    }
}

fn shadow(harness: &mut Harness, policy: impl EvictionPolicy + 'static, sample: u32) {
    let limits = harness.governor.shadow_limits(sample);
    let candidate = ShadowPurpose::Candidate;
    harness.governor.begin_shadow(Box::new(policy), identity("beside"), candidate, limits).unwrap();
    while harness.step_shadow(256) {}
}

/// A policy that is a good deal worse than LRU: who was read last leaves first.
fn newest_first() -> Scripted {
    Scripted { newest_first: true, ..scripted(|_, _, _| Ok(())) }
}

/// A policy that is a little worse: FIFO.
fn oldest_first() -> Scripted {
    Scripted { is_deaf: true, ..scripted(|_, _, _| Ok(())) }
}

/// Hit ratio of a policy in charge, over the part of a load that follows its warming up.
fn in_charge(policy: impl EvictionPolicy + 'static, capacity: usize, seed: u64) -> f64 {
    let mut harness = Harness::with(capacity, policy);
    let mut load = Load::new(seed, KEYS);
    (0..WARM_UP).for_each(|_| _ = harness.access(load.next()));
    let before = harness.hits;
    (0..MEASURED).for_each(|_| _ = harness.access(load.next()));
    (harness.hits - before) as f64 / MEASURED as f64
}

const CAPACITY: usize = 32_768;
const KEYS: u32 = 240_000;
const WARM_UP: u32 = 300_000;
const MEASURED: u32 = 500_000;

/// What a shadow of `policy` beside the native CLOCK says of the same part of the same load.
fn estimated(policy: impl EvictionPolicy + 'static, sample: u32, seed: u64) -> ShadowStatus {
    let mut harness = Harness::new(CAPACITY);
    let mut load = Load::new(seed, KEYS);
    // Its owner come from the native policy's, and change while it warms up as well.
    (0..WARM_UP / 2).for_each(|_| _ = harness.access(load.next()));
    shadow(&mut harness, policy, sample);
    (0..WARM_UP / 2).for_each(|_| _ = harness.access(load.next()));
    let tally = harness.governor.tally;
    harness.governor.shadow.as_mut().unwrap().count_from(tally);
    (0..MEASURED).for_each(|_| _ = harness.access(load.next()));
    harness.governor.status().shadow.unwrap()
}

#[test]
fn an_estimate_is_within_a_point_of_the_policy_in_charge() {
    for seed in [1, 2] {
        let wanted = in_charge(Lru::default(), CAPACITY, seed);
        for (sample, error_max) in [(64, 0.01), (1, 0.002)] {
            let status = estimated(Lru::default(), sample, seed);
            assert_eq!(status.rate, sample);
            let found = status.estimate.hit_ratio().unwrap();
            let error = (found - wanted).abs();
            assert!(error < error_max, "1/{sample}, seed {seed}: {found} for {wanted}");
            // All entries are of one size and cost here.
            assert_eq!(status.estimate.byte_hit_ratio(), status.estimate.hit_ratio());
            assert_eq!(status.estimate.lookups(), u64::from(MEASURED));
        }
    }
}

#[test]
fn an_estimate_tells_a_bad_policy_from_a_good_one() {
    let seed = 2;
    let wanted = in_charge(oldest_first(), CAPACITY, seed);
    let good = in_charge(Lru::default(), CAPACITY, seed);
    assert!(good > wanted + 0.015, "{good} and {wanted}");
    for (sample, error_max) in [(64, 0.01), (1, 0.002)] {
        let found = estimated(oldest_first(), sample, seed).estimate.hit_ratio().unwrap();
        assert!((found - wanted).abs() < error_max, "1/{sample}: {found} for {wanted}");
    }
}

#[test]
fn a_shadow_changes_nothing_that_the_cache_does() {
    let run = |beside: Option<Scripted>| {
        let mut harness = Harness::with(2048, Lru::default());
        let mut load = Load::new(7, 20_000);
        (0..20_000).for_each(|_| _ = harness.access(load.next()));
        if let Some(policy) = beside {
            shadow(&mut harness, policy, 4);
        }
        let decided: Vec<bool> = (0..50_000).map(|_| harness.access(load.next())).collect();
        let status = harness.governor.status();
        (decided, drained(harness), status)
    };
    let (alone, order, plain) = run(None);
    for fails_at in [None, Some(1), Some(2), Some(3), Some(50), Some(300)] {
        let beside = scripted(move |call, _, victims| {
            if Some(call) == fails_at {
                return Err(trap());
            }
            victims.reverse();
            Ok(())
        });
        let (decided, drained, status) = run(Some(beside));
        assert!(decided == alone && drained == order, "{fails_at:?}");
        assert_eq!((status.tally, status.counters), (plain.tally, plain.counters));
        match fails_at {
            None => assert!(status.shadow.is_some() && status.failures.is_empty()),
            Some(_) => {
                assert_eq!(status.shadow, None);
                let [record] = &status.failures[..] else { panic!("{:?}", status.failures) };
                assert_eq!(
                    (record.role, record.identity.name.as_str()),
                    (PolicyRole::Shadow, "beside")
                );
                assert_eq!(record.failure.kind, FailureKind::Trap);
            }
        }
    }
}

#[test]
fn a_shadow_that_names_garbage_ends_and_one_that_fails_at_once_is_refused() {
    let mut chance = Random::new(3);
    let garbage = scripted(move |_, want, victims| {
        victims.clear();
        victims.extend((0..want).map(|_| chance.next_u64() as u32));
        Ok(())
    });
    let mut harness = Harness::with(1000, Lru::default());
    shadow(&mut harness, garbage, 1);
    let mut load = Load::new(2, 20_000);
    (0..20_000).for_each(|_| _ = harness.access(load.next()));
    let status = harness.governor.status();
    assert_eq!((status.state, &status.shadow), (PolicyState::Active, &None));
    assert_eq!(status.failures[0].failure.kind, FailureKind::InvalidVictims);

    struct NoResize;
    impl EvictionPolicy for NoResize {
        fn name(&self) -> &str {
            "no"
        }
        fn version(&self) -> &str {
            "1"
        }
        fn apply(
            &mut self,
            _: &[u64],
            _: &[u64],
            _: u32,
            _: u64,
            _: &mut Vec<Slot>,
        ) -> Result<(), PolicyFailure> {
            Ok(())
        }
        fn drain_order(&mut self, _: u32, _: u32, _: &mut Vec<Slot>) -> Result<(), PolicyFailure> {
            Ok(())
        }
        fn resize(&mut self, _: u64, _: u32) -> Result<(), PolicyFailure> {
            Err(trap())
        }
    }
    let limits = harness.governor.shadow_limits(1);
    let candidate = ShadowPurpose::Candidate;
    let refused =
        harness.governor.begin_shadow(Box::new(NoResize), identity("no"), candidate, limits);
    assert_eq!(refused.unwrap_err(), trap());
    assert!(harness.governor.status().shadow.is_none());
}

/// A flush may fill the cache for long before anybody looks something up.
#[test]
fn a_shadow_that_fails_at_something_written_ends_at_once() {
    let mut harness = Harness::with(100, Lru::default());
    let fails = scripted(|_, want, _| if want > 0 { Err(trap()) } else { Ok(()) });
    shadow(&mut harness, fails, 1);
    for key in 0..=100 {
        assert!(harness.governor.status().shadow.is_some(), "{key} ghosts have room");
        if harness.slots.len() == harness.capacity {
            assert_eq!(harness.evict(1).len(), 1);
        }
        let (size_bytes, cost_us) = (ENTRY_BYTES, LOAD_COST_US);
        let written = EntryAttributes { fingerprint: key, size_bytes, cost_us, table: 0 };
        let slot = harness.governor.allocate_written(written, EntryKind::Row).unwrap();
        harness.slots.insert(key, slot);
        harness.held.keys.insert(slot, key);
    }
    let status = harness.governor.status();
    assert_eq!(status.shadow, None, "its ghosts had no room");
    let [record] = &status.failures[..] else { panic!("{:?}", status.failures) };
    assert_eq!((record.role, record.identity.name.as_str()), (PolicyRole::Shadow, "beside"));
    assert_eq!((status.state, harness.slots.len()), (PolicyState::Active, 100));
}

#[test]
fn a_shadow_sees_removals_sizes_and_a_new_capacity() {
    let mut harness = Harness::with(1000, Lru::default());
    (0..1000).for_each(|key| _ = harness.access(key));
    shadow(&mut harness, Lru::default(), 1);
    let entries = |harness: &Harness| harness.governor.status().shadow.unwrap().entries;
    assert_eq!(entries(&harness), 1000, "it starts with the residents");
    for key in 0..100 {
        harness.remove(key);
    }
    assert_eq!(entries(&harness), 900);
    harness.governor.resize(400 * u64::from(ENTRY_BYTES), 1000);
    while harness.slots.len() > 400 {
        harness.evict(harness.slots.len() as u64 - 400);
    }
    harness.capacity = 400;
    (2000..2200).for_each(|key| _ = harness.access(key));
    assert_eq!(entries(&harness), 400, "it follows the capacity as look-ups come");
    let before = harness.governor.status().shadow.unwrap();
    harness.governor.rollback();
    let after = harness.governor.status().shadow.unwrap();
    assert!(before.active.lookups() > 0);
    assert_eq!(after.active.lookups(), 0, "another active policy is another comparison");
    assert!(harness.governor.end_shadow() && !harness.governor.end_shadow());
}

/// Checks that what the shadow counts as the bytes of its sample is that, as far as it looked.
fn check_sample(harness: &Harness) {
    let shadow = harness.governor.shadow.as_ref().unwrap();
    let is_counted = |(slot, key): &(&Slot, &u64)| shadow.counts(**slot, **key);
    let counted = harness.held.keys.iter().filter(is_counted);
    let bytes = counted.map(|(slot, _)| u64::from(harness.governor.last_size_bytes(*slot)));
    assert_eq!(shadow.sampled_bytes, bytes.sum::<u64>());
}

#[test]
fn the_sample_has_the_bytes_of_its_residents_while_they_come_and_leave() {
    for seed in 0..5 {
        let mut random = Random::new(seed);
        let mut harness = Harness::with(2000, Lru::default());
        (0..1500).for_each(|key| _ = harness.access(key));
        let limits = harness.governor.shadow_limits(3);
        let policy = Box::new(Lru::default());
        let purpose = ShadowPurpose::Candidate;
        harness.governor.begin_shadow(policy, identity("beside"), purpose, limits).unwrap();
        let mut more = true;
        for round in 0..20_000 {
            match random.below(10) {
                0 => harness.remove(skewed(&mut random, 5000)),
                1 => _ = harness.evict(random.below(5)),
                2 if round % 40 == 0 => more = harness.step_shadow(256),
                _ => _ = harness.access(skewed(&mut random, 5000)),
            }
            check_sample(&harness);
        }
        while more {
            more = harness.step_shadow(256);
        }
        check_sample(&harness);
        let status = harness.governor.status().shadow.unwrap();
        assert!(status.active.lookups() > 0, "it counts, so it saw all of them");
    }
}

#[test]
fn the_sample_follows_entries_that_grow_and_shrink() {
    for rate in [1, 3] {
        let mut harness = Harness::with(2000, Lru::default());
        (0..1500).for_each(|key| _ = harness.access(key));
        shadow(&mut harness, Lru::default(), rate);
        for key in 0..1500 {
            let slot = harness.slots[&key];
            let bytes = 1 + (key * 37 % (2 * u64::from(ENTRY_BYTES))) as u32;
            harness.governor.resize_entry(slot, bytes, &harness.held);
        }
        check_sample(&harness);
    }
}

#[test]
fn ghosts_of_entries_that_shrank_leave_room_for_others() {
    let capacity_bytes = 100 * u64::from(ENTRY_BYTES);
    let governor = Governor::new(capacity_bytes, 400);
    let mut harness = Harness { governor, ..Harness::new(100) };
    harness.replace(Lru::default(), "first");
    (0..100).for_each(|key| _ = harness.access(key));
    shadow(&mut harness, Lru::default(), 1);
    for key in 0..50 {
        let slot = harness.slots[&key];
        harness.governor.resize_entry(slot, 1, &harness.held);
    }
    let (size_bytes, cost_us) = (ENTRY_BYTES, LOAD_COST_US);
    for key in 1000..1020 {
        let written = EntryAttributes { fingerprint: key, size_bytes, cost_us, table: 0 };
        let slot = harness.governor.allocate_written(written, EntryKind::Row).unwrap();
        harness.slots.insert(key, slot);
        harness.held.keys.insert(slot, key);
    }
    assert!(harness.governor.bytes() < capacity_bytes, "the cache has room for all of them");
    let status = harness.governor.status().shadow.unwrap();
    assert_eq!((status.entries, status.evictions), (120, 0), "and so has the shadow");
    check_sample(&harness);
}

#[test]
fn the_sample_has_all_its_bytes_however_many_shadows_there_were() {
    let mut harness = Harness::with(100, Lru::default());
    (0..100).for_each(|key| _ = harness.access(key));
    shadow(&mut harness, Lru::default(), 1);
    // As many as a number of 16 bits can tell apart.
    for _ in 0..1 << 16 {
        let limits = harness.governor.shadow_limits(1);
        let policy = Box::new(Lru::default());
        let purpose = ShadowPurpose::Candidate;
        harness.governor.begin_shadow(policy, identity("beside"), purpose, limits).unwrap();
    }
    while harness.step_shadow(256) {}
    let shadow = harness.governor.shadow.as_ref().unwrap();
    assert_eq!(shadow.sampled_bytes, 100 * u64::from(ENTRY_BYTES));
    assert_eq!(harness.governor.status().shadow.unwrap().entries, 100);
    (100..300).for_each(|key| _ = harness.access(key));
    check_sample(&harness);
}

#[test]
fn small_caches_are_sampled_less() {
    for (slots, sample, rate) in
        [(32, 64, 1), (512, 64, 1), (1024, 64, 2), (32768, 64, 64), (1 << 20, 64, 64), (4096, 8, 8)]
    {
        let governor = Governor::new(u64::from(slots) * 10, slots);
        let limits = governor.shadow_limits(sample);
        assert_eq!(limits.rate, rate, "{slots} slots");
        assert!((slots / rate..=slots).contains(&limits.slots_max), "{limits:?}");
        assert_eq!(limits.capacity_bytes, u64::from(slots) * 10 / u64::from(rate));
    }
}

/// The verdict on a canary after a load, with the policy before it as the baseline.
fn tried(
    canary: impl EvictionPolicy + 'static,
    baseline: impl EvictionPolicy + 'static,
) -> (TrialVerdict, ShadowStatus) {
    let mut harness = Harness::with(4096, canary);
    let mut load = Load::new(11, 60_000);
    (0..50_000).for_each(|_| _ = harness.access(load.next()));
    let limits = harness.governor.shadow_limits(1);
    let purpose = ShadowPurpose::Baseline;
    let identity = identity("before");
    harness.governor.begin_shadow(Box::new(baseline), identity, purpose, limits).unwrap();
    while harness.step_shadow(256) {}
    let (mut verdict, mut lookups) = (TrialVerdict::Waits, 0);
    while verdict == TrialVerdict::Waits && lookups < 400_000 {
        harness.access(load.next());
        lookups += 1;
        if lookups % 500 == 0 {
            verdict = harness.governor.trial_verdict();
        }
    }
    let status = harness.governor.status().shadow.unwrap();
    // Each look-up is in one window, and a window has as many as the cache has slots at least.
    let windows = status.trial.unwrap().0;
    assert!(windows * 4096 <= lookups, "{windows} windows of {lookups} look-ups");
    (verdict, status)
}

#[test]
fn a_canary_goes_on_when_it_is_better_and_back_when_it_is_worse() {
    let (verdict, status) = tried(Lru::default(), newest_first());
    let TrialVerdict::GoesOn { gain } = verdict else { panic!("{verdict:?}") };
    assert!(gain >= 0.5 && status.trial.unwrap().0 >= 10, "{gain} {:?}", status.trial);

    let (verdict, status) = tried(newest_first(), Lru::default());
    let TrialVerdict::RollsBack { reason } = verdict else { panic!("{verdict:?}") };
    assert!(reason.contains("windows in a row"), "{reason}");
    assert!(status.trial.unwrap().0 < 60);

    let (verdict, status) = tried(Lru::default(), Lru::default());
    let TrialVerdict::RollsBack { reason } = verdict else { panic!("{verdict:?}") };
    assert!(reason.contains("no gain"), "{reason}");
    assert_eq!(status.trial.unwrap().0, 60);
}

/// Look-ups after which a canary in a cache of so many slots has its first window.
fn first_window(slots: usize) -> u64 {
    let mut harness = Harness::with(slots, Lru::default());
    (0..50).for_each(|key| _ = harness.access(key));
    let limits = harness.governor.shadow_limits(1);
    let (policy, purpose) = (Box::new(Lru::default()), ShadowPurpose::Baseline);
    harness.governor.begin_shadow(policy, identity("before"), purpose, limits).unwrap();
    while harness.step_shadow(256) {}
    let mut lookups = 0;
    let windows = |harness: &Harness| harness.governor.status().shadow.unwrap().trial.unwrap().0;
    while windows(&harness) == 0 {
        harness.access(lookups % 50);
        lookups += 1;
        assert_eq!(harness.governor.trial_verdict(), TrialVerdict::Waits);
        assert!(lookups < 20_000, "a window comes to its end");
    }
    lookups
}

#[test]
fn a_window_has_some_thousand_look_ups_and_as_many_as_the_cache_has_slots() {
    assert_eq!([100, 4096, 10_000].map(first_window), [4096, 4096, 10_000]);
}
