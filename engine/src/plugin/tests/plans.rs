//! Components that make plans: agreement with the same code run natively, and guests that are
//! wrong.

use tidegate_plugin_decision as guest;
use tidegate_plugin_decision::{
    CompactionPolicy as _, IoPriorityPolicy as _, LoadSheddingPolicy as _, ReadAdmissionPolicy as _,
};
use tidegate_policy_codel::Codel;
use tidegate_policy_latency::Latency;
use tidegate_policy_lazy_leveling::LazyLeveling;
use tidegate_policy_queue_guard::QueueGuard;

use super::guest::{
    FOREVER, case_of, compaction, io_priority, load_shedding, merge_of, plan_of, read_admission,
};
use super::*;
use crate::clock::Random;
use crate::plugin::{
    WasmCompactionPolicy, WasmIoPriorityPolicy, WasmLoadSheddingPolicy, WasmReadAdmissionPolicy,
    World,
};
use crate::policy::FailureKind;
use crate::policy::admission::{
    LoadSheddingPolicy as _, LoadSignals, ReadAdmissionPolicy as _, ReadLimits, ReadLoad, ReadPlan,
    Shedding, SheddingPlan, WorkLoad,
};
use crate::policy::compaction::{
    CompactionPolicy as _, Pick, SstableFacts, TableFacts, TableStrategy, WantedMerge,
};
use crate::policy::io_priority::{ClassLoad, DiskLoad, IoPriorityPolicy as _};

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

#[test]
fn the_queue_guard_component_plans_as_the_same_code_natively() {
    let host = host();
    let compiled = load(&host, &dist("queue_guard.wasm"));
    assert_eq!(compiled.world(), World::IoPriority);
    let mut wasm = WasmIoPriorityPolicy::new(compiled, options(0)).unwrap();
    let mut native = QueueGuard::new(&guest::Setup::default()).unwrap();
    assert_eq!(wasm.name(), QueueGuard::NAME);
    let mut random = Random::new(5);
    let mut shares = [1000, 1000, 200, 100, 100];
    let mut differ = 0;
    for at in 0..500 {
        let classes: [ClassLoad; 5] = std::array::from_fn(|class| ClassLoad {
            arrived: random.below(100),
            started: random.below(100),
            bytes: random.below(1 << 20),
            queued: random.below(9),
            queued_bytes: random.below(1 << 16),
            p50_us: random.below(100),
            p99_us: random.below(3_000),
            shares: shares[class],
        });
        let disk =
            DiskLoad { elapsed_us: 100_000, p99_us: random.below(900), ..DiskLoad::default() };
        let words = classes.map(|load| guest::ClassLoad {
            arrived: load.arrived,
            started: load.started,
            bytes: load.bytes,
            queued: load.queued,
            queued_bytes: load.queued_bytes,
            p50_us: load.p50_us,
            p99_us: load.p99_us,
            shares: load.shares,
        });
        let told =
            guest::DiskLoad { elapsed_us: 100_000, p99_us: disk.p99_us, ..Default::default() };
        let before = shares;
        wasm.plan(at, &disk, &classes, &mut shares).unwrap();
        assert_eq!(shares.as_slice(), native.plan(at, &told, &words), "plan {at}");
        differ += u32::from(shares != before);
    }
    assert!(differ > 100, "{differ} plans differ from the one before");
}

fn table() -> TableFacts {
    TableFacts {
        name: "k.t".into(),
        now_seconds: 5,
        strategy: TableStrategy::TimeWindow,
        min_threshold: 4,
        max_threshold: 32,
        sstable_bytes: 160 << 20,
    }
}

fn sstable(number: u64, bytes: u64) -> SstableFacts {
    SstableFacts {
        number,
        run: number,
        level: 0,
        bytes,
        partitions: 1,
        rows: 2,
        first_token: i64::MIN,
        last_token: i64::MAX,
        min_timestamp: -5,
        max_timestamp: 5,
        droppable_per_mille: 0,
        age_seconds: 9,
    }
}

#[test]
fn the_lazy_leveling_component_chooses_as_the_same_code_natively() {
    let host = host();
    let compiled = load(&host, &dist("lazy_leveling.wasm"));
    assert_eq!(compiled.world(), World::Compaction);
    let mut wasm = WasmCompactionPolicy::new(compiled, options(0)).unwrap();
    let mut native = LazyLeveling::new(&guest::Setup::default()).unwrap();
    assert_eq!(wasm.name(), LazyLeveling::NAME);
    let mut random = Random::new(5);
    let mut merges = 0;
    for at in 0..400 {
        let count = random.below(40);
        let all: Vec<SstableFacts> = (1..=count)
            .map(|number| SstableFacts {
                run: number - random.below(2),
                ..sstable(number, 1 << (15 + random.below(14)))
            })
            .collect();
        let told: Vec<guest::Sstable> = all
            .iter()
            .map(|file| guest::Sstable {
                id: file.number,
                run: file.run,
                bytes: file.bytes,
                ..guest::Sstable::default()
            })
            .collect();
        let of = guest::Table { sstable_bytes: 160 << 20, ..guest::Table::default() };
        let wanted = match native.pick(&of, &told) {
            guest::Choice::Nothing => Pick::Nothing,
            guest::Choice::Strategy => Pick::Strategy,
            guest::Choice::Merge(job) => Pick::Merge(WantedMerge {
                inputs: job.inputs,
                level: job.level,
                split_bytes: job.split_bytes,
                is_incremental: job.incremental,
            }),
        };
        merges += u32::from(matches!(wanted, Pick::Merge(_)));
        assert_eq!(wasm.pick(&table(), &all).unwrap(), wanted, "question {at}");
    }
    assert!(merges > 100, "{merges} merges");
    // As much as an engine asks about at once.
    let many: Vec<SstableFacts> = (1..=5_000).map(|number| sstable(number, number << 12)).collect();
    wasm.pick(&table(), &many).expect("the budget grows with what is asked");
}

#[test]
fn choices_cross_as_they_are_and_wrong_ones_are_failures() {
    let host = host();
    let instance =
        |body: &str| WasmCompactionPolicy::new(load(&host, &compaction(body)), options(0)).unwrap();
    let all = [sstable(3, 7), sstable(4, 8)];
    let merge = |split_bytes| {
        Pick::Merge(WantedMerge {
            inputs: vec![u64::MAX >> 1, 3],
            level: 77,
            split_bytes,
            is_incremental: split_bytes > 0,
        })
    };
    // The name of the table, its second and the second SSTable's fields are where they should be.
    let checks = "(if (i32.ne (local.get 1) (i32.const 3)) (then unreachable))
        (if (i64.ne (local.get 2) (i64.const 5)) (then unreachable))
        (if (i32.ne (local.get 3) (i32.const 2)) (then unreachable))
        (if (i64.ne (local.get 6) (i64.const 167772160)) (then unreachable))
        (if (i32.ne (local.get 8) (i32.const 2)) (then unreachable))
        (if (i64.ne (i64.load offset=88 (local.get 7)) (i64.const 4)) (then unreachable))
        (if (i64.ne (i64.load offset=112 (local.get 7)) (i64.const 8)) (then unreachable))
        (if (i32.ne (i32.load offset=172 (local.get 7)) (i32.const 9)) (then unreachable))";
    for (body, wanted) in [
        (case_of(0), Pick::Nothing),
        (case_of(1), Pick::Strategy),
        (merge_of(&[u64::MAX >> 1, 3], 77, 0), merge(0)),
        (merge_of(&[u64::MAX >> 1, 3], 77, 9), merge(9)),
        (format!("{checks} {}", case_of(1)), Pick::Strategy),
    ] {
        assert_eq!(instance(&body).pick(&table(), &all).unwrap(), wanted, "{body}");
    }
    let long =
        "(i32.store8 (i32.const 768) (i32.const 2)) (i32.store (i32.const 776) (i32.const 1024))
        (i32.store (i32.const 780) (i32.const -1)) i32.const 768";
    for (body, kind) in [
        ("unreachable".to_owned(), FailureKind::Trap),
        (format!("{FOREVER} unreachable"), FailureKind::Fuel),
        (case_of(3), FailureKind::Trap),
        (long.to_owned(), FailureKind::Trap),
    ] {
        let mut policy = instance(&body);
        let failure = policy.pick(&table(), &all).unwrap_err();
        assert_eq!(failure.kind, kind, "{failure}");
        assert_eq!(policy.pick(&table(), &all).unwrap_err(), failure, "it is not asked again");
    }
    // Shares: those that are left out stay.
    let compiled = load(&host, &io_priority(&plan_of(&[5, 0], 4)));
    let mut policy = WasmIoPriorityPolicy::new(compiled, options(0)).unwrap();
    let mut shares = [1, 2, 3, 4, 5];
    policy.plan(1, &DiskLoad::default(), &[ClassLoad::default(); 5], &mut shares).unwrap();
    assert_eq!(shares, [5, 0, 3, 4, 5]);
    let compiled = load(&host, &io_priority("unreachable"));
    let mut policy = WasmIoPriorityPolicy::new(compiled, options(0)).unwrap();
    assert!(policy.plan(1, &DiskLoad::default(), &[], &mut shares).is_err());
    assert_eq!(shares, [5, 0, 3, 4, 5]);
}
