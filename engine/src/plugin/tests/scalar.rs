//! Components of the worlds with scalar calls: agreement with the same code run natively, and what
//! follows when they are of another world.

use tidegate_plugin_decision as guest;
use tidegate_policy_doorkeeper::Doorkeeper;
use tidegate_policy_scan_guard::ScanGuard;
use tidegate_policy_second_touch::SecondTouch;
use tidegate_policy_token_bucket::TokenBucket;

use super::*;
use crate::admission::rate::Decaying;
use crate::clock::Random;
use crate::plugin::{WasmAdmissionPolicy, WasmRatePolicy, World};
use crate::policy::FailureKind;
use crate::policy::cache_admission::{AdmissionCandidate, AdmissionPolicy, Fate, fate};
use crate::policy::event::EntryKind;
use crate::policy::rate::{Excess, KeyLoad, Operation, PlannedRate, RatePolicy, Ruling};

const SLOTS: u32 = 300;

fn seeded(seed: u64) -> InstanceOptions {
    InstanceOptions { seed, ..options(SLOTS) }
}

/// Runs a component and the same code natively on one stream of questions and fates.
fn agree<P: guest::AdmissionPolicy>(file: &str, name: &str) {
    let host = host();
    let compiled = load(&host, &dist(file));
    assert_eq!(compiled.world(), World::CacheAdmission);
    let mut wasm = WasmAdmissionPolicy::new(compiled, seeded(1)).unwrap();
    let setup = guest::Setup { max_slots: SLOTS, ..guest::Setup::default() };
    let mut native = P::new(&setup).unwrap();
    assert_eq!((wasm.name(), wasm.wants_feedback()), (name, P::WANTS_FEEDBACK));
    let mut random = Random::new(7);
    let (mut kept, mut refused) = (0, 0);
    for at in 0..20_000_u64 {
        let print = |id: u64| id.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ id << 7;
        let fingerprint = match random.one_in(3) {
            true => print(random.below(200)),
            false => print(1000 + at),
        };
        let candidate = AdmissionCandidate {
            fingerprint,
            size_bytes: 4096,
            cost_us: 100,
            kind: EntryKind::DataPage,
            has_room: at < 100,
            run: (at % 50) as u16,
            table: 3,
        };
        let words = guest::Candidate {
            fingerprint,
            size_cost: 4096 | 100 << 32,
            ctx: 4 | u64::from(candidate.has_room) << 4 | (at % 50) << 16 | 3 << 32,
        };
        let answer = wasm.admit(&candidate).unwrap();
        assert_eq!(answer, native.admit(&words), "{file}, question {at}");
        *if answer { &mut kept } else { &mut refused } += 1;
        if P::WANTS_FEEDBACK && at % 16 == 0 {
            let fates: Vec<u64> = (0..64)
                .flat_map(|_| {
                    let what = if random.one_in(4) { Fate::Evicted } else { Fate::Read };
                    fate(print(random.below(400)), what, EntryKind::DataPage)
                })
                .collect();
            wasm.feedback(&fates).unwrap();
            guest::words_of_fates(&fates).for_each(|fate| native.feedback(fate));
        }
    }
    assert!(kept > 1000 && refused > 1000, "{file}: {kept} kept, {refused} refused");
    assert!(wasm.counters().calls > 20_000);
}

#[test]
fn admission_components_decide_as_their_native_twins() {
    agree::<SecondTouch>("second_touch.wasm", "second-touch");
    agree::<ScanGuard>("scan_guard.wasm", "scan-guard");
    agree::<Doorkeeper>("doorkeeper.wasm", "doorkeeper");
}

#[test]
fn second_touch_in_assemblyscript_decides_as_second_touch() {
    let file = "assemblyscript_second_touch.wasm";
    agree::<SecondTouch>(file, "assemblyscript-second-touch");
    let host = host();
    let compiled = load(&host, &dist(file));
    // The largest cache that the claim of memory lets in: allocators that double must not hit the
    // cap.
    let mut large = WasmAdmissionPolicy::new(compiled.clone(), options(4 << 20)).unwrap();
    large.feedback(&fate(1, Fate::Read, EntryKind::DataPage).repeat(128)).unwrap();
    let refused = |name: &str, value: &str| {
        let params = vec![(name.to_string(), value.to_string())];
        let options = InstanceOptions { params, ..options(SLOTS) };
        WasmAdmissionPolicy::new(compiled.clone(), options).err().unwrap().message
    };
    assert_eq!(refused("size", "1"), "init: unknown parameter 'size'; known: [\"remembered\"]");
    let range = "init: parameter remembered: '3' is no whole number from 1 to 2";
    assert_eq!(refused("remembered", "3"), range);
}

#[test]
fn always_keeps_everything() {
    let host = host();
    let compiled = load(&host, &dist("always.wasm"));
    let mut policy = WasmAdmissionPolicy::new(compiled, seeded(1)).unwrap();
    let candidate = AdmissionCandidate {
        fingerprint: 1,
        size_bytes: 4096,
        cost_us: 100,
        kind: EntryKind::DataPage,
        has_room: false,
        run: 9,
        table: 0,
    };
    assert!(policy.admit(&candidate).unwrap() && !policy.wants_feedback());
    policy.feedback(&[1, 0]).unwrap();
}

#[test]
fn the_decaying_component_draws_as_the_native_policy() {
    let host = host();
    let compiled = load(&host, &dist("decaying.wasm"));
    assert_eq!(compiled.world(), World::RateLimiter);
    let mut wasm = WasmRatePolicy::new(compiled, seeded(77)).unwrap();
    let mut native = Decaying::new(77);
    assert_eq!(wasm.name(), native.name());
    let mut random = Random::new(3);
    let mut through = 0;
    for at in 0..20_000_u64 {
        let limit = random.below(1000) as u32;
        let count = limit + random.below(20_000) as u32;
        let excess = Excess { key: at, operation: Operation::Write, limit, count };
        let answer = wasm.exceeded(&excess).unwrap();
        let wanted = native.exceeded(&excess).unwrap();
        assert_eq!(answer.goes_through, wanted.goes_through, "{excess:?}");
        // What it says of the next operations holds of them.
        let last = count + u32::from(answer.holds_for);
        assert!(answer.holds_for == 0 || last <= 2 * limit, "{excess:?}: {answer:?}");
        through += u64::from(answer.goes_through);
    }
    assert!((1000..19_000).contains(&through), "{through}");
    let excess = Excess { key: 1, operation: Operation::Read, limit: 100, count: 150 };
    assert_eq!(wasm.exceeded(&excess).unwrap(), Ruling { goes_through: true, holds_for: 50 });
    let mut plan = Vec::new();
    wasm.plan(5, &[], &mut plan).unwrap();
    assert!(plan.is_empty());
}

#[test]
fn the_token_bucket_component_plans_as_the_same_code_natively() {
    use guest::RatePolicy as _;
    let host = host();
    let mut wasm = WasmRatePolicy::new(load(&host, &dist("token_bucket.wasm")), seeded(1)).unwrap();
    let mut native = TokenBucket::new(&guest::Setup::default()).unwrap();
    let mut random = Random::new(5);
    for second in 0..200 {
        let loads: Vec<KeyLoad> = (0..random.below(64))
            .map(|_| KeyLoad {
                key: random.below(100),
                operation: Operation::Read,
                limit: 50,
                exceeded: 9,
                refused: random.below(9) as u32,
            })
            .collect();
        let words: Vec<guest::KeyLoad> = loads
            .iter()
            .map(|load| guest::KeyLoad {
                key: load.key,
                class_op: 50 << 32,
                exceeded: 9,
                refused: u64::from(load.refused),
            })
            .collect();
        let mut plan = Vec::new();
        wasm.plan(second, &loads, &mut plan).unwrap();
        let wanted: Vec<PlannedRate> = native
            .plan(second, &words)
            .iter()
            .map(|rate| PlannedRate {
                key: rate.key,
                rate_milli: rate.rate_milli,
                burst: rate.burst,
            })
            .collect();
        assert_eq!(plan, wanted, "second {second}");
    }
}

#[test]
fn a_component_of_another_world_is_named() {
    let host = host();
    let (lru, always) = (load(&host, &dist("lru.wasm")), load(&host, &dist("always.wasm")));
    let failure = WasmAdmissionPolicy::new(lru.clone(), seeded(1)).err().unwrap();
    assert_eq!(failure.kind, FailureKind::InitError);
    let text = "the policy decides on eviction, not on cache-admission";
    assert!(failure.message.contains(text), "{failure}");
    assert!(WasmRatePolicy::new(always.clone(), seeded(1)).is_err());
    let failure = WasmEvictionPolicy::new(always, options(8)).err().unwrap();
    assert!(failure.message.contains("not on eviction"), "{failure}");
    let params = vec![("a".to_string(), "1".to_string())];
    let doorkeeper = load(&host, &dist("doorkeeper.wasm"));
    let options = InstanceOptions { params, ..seeded(1) };
    let refused = WasmAdmissionPolicy::new(doorkeeper, options).err().unwrap();
    assert!(refused.message.contains("unknown parameter 'a'"), "{refused}");
}
