//! Components that make plans: agreement with the same code run natively, and guests that are
//! wrong.

use tidegate_plugin_decision as guest;
use tidegate_plugin_decision::{LoadSheddingPolicy as _, ReadAdmissionPolicy as _};
use tidegate_policy_codel::Codel;
use tidegate_policy_latency::Latency;

use super::guest::{FOREVER, load_shedding, plan_of, read_admission};
use super::*;
use crate::clock::Random;
use crate::plugin::{WasmLoadSheddingPolicy, WasmReadAdmissionPolicy, World};
use crate::policy::FailureKind;
use crate::policy::admission::{
    LoadSheddingPolicy as _, LoadSignals, ReadAdmissionPolicy as _, ReadLimits, ReadLoad, ReadPlan,
    Shedding, SheddingPlan, WorkLoad,
};

const START: ReadPlan =
    [ReadLimits { running_max: 9, memory_bytes_max: 8, queued_max: 7, wait_us_max: 6 }; 2];

#[test]
fn the_latency_component_plans_as_the_same_code_natively() {
    let host = host();
    let compiled = load(&host, &dist("latency.wasm"));
    assert_eq!(compiled.world(), World::ReadAdmission);
    let mut wasm = WasmReadAdmissionPolicy::new(compiled, options(0)).unwrap();
    let mut native = Latency::new(&guest::Setup::default()).unwrap();
    assert_eq!(wasm.name(), Latency::NAME);
    let mut random = Random::new(5);
    let mut plan = START;
    for at in 0..2_000 {
        let loads: [ReadLoad; 2] = std::array::from_fn(|_| {
            let p50_us = random.below(3_000);
            ReadLoad {
                arrived: random.below(1_000),
                admitted: random.below(1_000),
                queued: random.below(3) as u32,
                running_most: random.below(400) as u32,
                refused: random.below(10),
                memory_bytes: random.below(1 << 20),
                p50_us,
                p99_us: p50_us * (1 + random.below(3)),
                busy_us: random.below(100_000),
            }
        });
        let words = loads.map(|load| guest::ReadLoad {
            arrived: load.arrived,
            admitted: load.admitted,
            queued: load.queued.into(),
            running_most: load.running_most.into(),
            refused: load.refused,
            memory_bytes: load.memory_bytes,
            p50_us: load.p50_us,
            p99_us: load.p99_us,
            busy_us: load.busy_us,
        });
        let (now_us, free) = (at * 100_000, random.below(1 << 30));
        wasm.plan(now_us, free, &loads, &mut plan).unwrap();
        let wanted: Vec<ReadLimits> = native
            .plan(now_us, free, &words)
            .iter()
            .map(|limits| ReadLimits {
                running_max: limits.running_max as u32,
                memory_bytes_max: limits.memory_bytes_max,
                queued_max: limits.queued_max as u32,
                wait_us_max: limits.wait_us_max,
            })
            .collect();
        assert_eq!(plan.as_slice(), wanted, "plan {at}");
    }
    let counters = wasm.counters();
    assert!(counters.fuel / counters.calls < 20_000, "{counters:?}");
}

#[test]
fn the_codel_component_plans_as_the_same_code_natively() {
    let host = host();
    let compiled = load(&host, &dist("codel.wasm"));
    assert_eq!(compiled.world(), World::LoadShedding);
    let mut wasm = WasmLoadSheddingPolicy::new(compiled, options(0)).unwrap();
    let mut native = Codel::new(&guest::Setup::default()).unwrap();
    assert_eq!(wasm.name(), Codel::NAME);
    let mut random = Random::new(5);
    let mut plan = SheddingPlan::default();
    for at in 0..500 {
        let classes: [WorkLoad; 3] = std::array::from_fn(|_| WorkLoad {
            waiting: random.below(3) as u32,
            waited_us: random.below(100),
            ..WorkLoad::default()
        });
        let signals = LoadSignals { elapsed_us: 100_000, classes, ..LoadSignals::default() };
        let words = classes.map(|load| guest::WorkLoad {
            waiting: load.waiting.into(),
            waited_us: load.waited_us,
            ..guest::WorkLoad::default()
        });
        let words =
            guest::Signals { elapsed_us: 100_000, classes: words.to_vec(), ..Default::default() };
        wasm.plan(at, &signals, &mut plan).unwrap();
        let wanted: Vec<Shedding> = native
            .plan(at, &words)
            .iter()
            .map(|shed| Shedding { per_mille: shed.per_mille, wait_ms_max: shed.wait_ms_max })
            .collect();
        assert_eq!(plan.as_slice(), wanted, "plan {at}");
    }
}

#[test]
fn a_plan_may_be_short_long_or_too_large() {
    let host = host();
    let instance =
        |bytes: Vec<u8>| WasmReadAdmissionPolicy::new(load(&host, &bytes), options(0)).unwrap();
    let loads = [ReadLoad::default(); 2];
    let limits = ReadLimits { running_max: 1, memory_bytes_max: 2, queued_max: 3, wait_us_max: 4 };
    for (words, wanted) in [
        (vec![], START),
        (vec![1, 2, 3], START),
        (vec![1, 2, 3, 4, 5], [limits, START[1]]),
        ([1, 2, 3, 4].repeat(9), [limits; 2]),
        (
            vec![u64::MAX >> 1; 4],
            [
                ReadLimits {
                    running_max: u32::MAX,
                    memory_bytes_max: u64::MAX >> 1,
                    queued_max: u32::MAX,
                    wait_us_max: u64::MAX >> 1,
                },
                START[1],
            ],
        ),
    ] {
        let mut plan = START;
        let mut policy = instance(read_admission(&plan_of(&words, 8)));
        policy.plan(1, 2, &loads, &mut plan).unwrap();
        assert_eq!(plan, wanted, "{words:?}");
    }
    let compiled = load(&host, &load_shedding(&plan_of(&[5_000, 7], 4)));
    let mut policy = WasmLoadSheddingPolicy::new(compiled, options(0)).unwrap();
    let mut plan = SheddingPlan::default();
    policy.plan(1, &LoadSignals::default(), &mut plan).unwrap();
    assert_eq!(plan[0], Shedding { per_mille: 1000, wait_ms_max: 7 });
    assert_eq!(plan[1], Shedding::default());
}

#[test]
fn plans_that_fail_leave_the_last_one_and_are_not_asked_again() {
    let host = host();
    let endless = format!("{FOREVER} unreachable");
    let far = "(i32.store (i32.const 264) (i32.const -8)) (i32.store (i32.const 268) (i32.const 4))
               i32.const 264";
    for (body, kind) in [
        ("unreachable", FailureKind::Trap),
        (endless.as_str(), FailureKind::Fuel),
        (far, FailureKind::Trap),
        ("(drop (memory.grow (i32.const 2000))) unreachable", FailureKind::OutOfMemory),
    ] {
        let compiled = load(&host, &read_admission(body));
        let mut policy = WasmReadAdmissionPolicy::new(compiled, options(0)).unwrap();
        let mut plan = START;
        let failure = policy.plan(1, 2, &[ReadLoad::default(); 2], &mut plan).unwrap_err();
        assert_eq!((failure.kind, plan), (kind, START), "{failure}");
        let calls = policy.counters().calls;
        let again = policy.plan(1, 2, &[ReadLoad::default(); 2], &mut plan).unwrap_err();
        assert_eq!((again, policy.counters().calls), (failure, calls));
    }
    let compiled = load(&host, &load_shedding("unreachable"));
    let mut policy = WasmLoadSheddingPolicy::new(compiled, options(0)).unwrap();
    assert!(policy.plan(1, &LoadSignals::default(), &mut SheddingPlan::default()).is_err());
}
