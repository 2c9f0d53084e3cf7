//! Each figure that a policy is told stands in the word that the contract names, and each word of
//! its answer is taken for what it stands for. The guests trap where they are told anything else.

use super::guest::{
    cache_admission, case_of, compaction, io_priority, load_shedding, plan_of, rate_limiter,
    read_admission,
};
use super::*;
use crate::plugin::{
    WasmAdmissionPolicy, WasmCompactionPolicy, WasmIoPriorityPolicy, WasmLoadSheddingPolicy,
    WasmRatePolicy, WasmReadAdmissionPolicy,
};
use crate::policy::FailureKind;
use crate::policy::admission::{
    LoadSheddingPolicy as _, LoadSignals, ReadAdmissionPolicy as _, ReadLimits, ReadLoad,
    SheddingPlan, WorkLoad,
};
use crate::policy::cache_admission::{AdmissionCandidate, AdmissionPolicy as _};
use crate::policy::compaction::{
    CompactionPolicy as _, Pick, SstableFacts, TableFacts, TableStrategy,
};
use crate::policy::event::EntryKind;
use crate::policy::io_priority::{ClassLoad, DiskLoad, IoPriorityPolicy as _};
use crate::policy::rate::{Excess, KeyLoad, Operation, PlannedRate, RatePolicy as _, Ruling};

const LIMITS: ReadLimits =
    ReadLimits { running_max: 1, memory_bytes_max: 1, queued_max: 1, wait_us_max: 1 };

/// Traps where what is loaded is not this.
fn check(kind: &str, loaded: &str, wanted: u64) -> String {
    format!("(if ({kind}.ne {loaded} ({kind}.const {wanted})) (then unreachable))")
}

/// Traps where a parameter is another word.
fn is_word(parameter: u32, word: u64) -> String {
    check("i64", &format!("(local.get {parameter})"), word)
}

/// Traps where the list whose address and length are this parameter and the next has other words.
fn is_list(parameter: u32, words: &[u64]) -> String {
    let length = format!("(local.get {})", parameter + 1);
    let mut all = check("i32", &length, words.len() as u64);
    for (at, word) in words.iter().enumerate() {
        let load = format!("(i64.load offset={} (local.get {parameter}))", 8 * at);
        all += &check("i64", &load, *word);
    }
    all
}

/// So many different words.
fn words<const N: usize>(first: u64) -> [u64; N] {
    std::array::from_fn(|at| first + at as u64)
}

#[test]
fn a_read_admission_policy_is_told_each_figure_in_its_own_word() {
    let load = |first: u64| {
        let [arrived, admitted, queued, running, refused, memory_bytes, p50_us, p99_us, busy_us] =
            words::<9>(first);
        let (queued, running_most) = (queued as u32, running as u32);
        ReadLoad {
            arrived,
            admitted,
            queued,
            running_most,
            refused,
            memory_bytes,
            p50_us,
            p99_us,
            busy_us,
        }
    };
    let wanted = |first: u64| {
        let [arrived, admitted, queued, running, rest @ ..] = words::<9>(first);
        [&[arrived, admitted, queued | running << 32][..], &rest].concat()
    };
    let list = is_list(2, &[wanted(100), wanted(200)].concat());
    let body = [is_word(0, 1), is_word(1, 2), list, plan_of(&[], 8)].concat();
    let compiled = load_policy(&read_admission(&body));
    let plan = |now_us, free, loads: [ReadLoad; 2]| {
        let mut policy = WasmReadAdmissionPolicy::new(compiled.clone(), options(0)).unwrap();
        policy.plan(now_us, free, &loads, &mut [LIMITS; 2])
    };
    plan(1, 2, [load(100), load(200)]).unwrap();
    for told in [
        plan(2, 1, [load(100), load(200)]),
        plan(1, 2, [load(200), load(100)]),
        plan(1, 2, [load(100), ReadLoad { busy_us: 1, ..load(200) }]),
    ] {
        assert_eq!(told.unwrap_err().kind, FailureKind::Trap, "the guest looks at every word");
    }
}

#[test]
fn a_load_shedding_policy_is_told_each_figure_in_its_own_word() {
    let signals = |first: u64| {
        let [elapsed_us, busy_us, memtable_bytes, memtable_bytes_max] = words::<4>(first);
        let classes = words::<3>(1).map(|class| {
            let [arrived, waiting, waited_us, shed] = words::<4>(first + 10 * class);
            WorkLoad { arrived, waiting: waiting as u32, waited_us, shed }
        });
        LoadSignals { elapsed_us, busy_us, memtable_bytes, memtable_bytes_max, classes }
    };
    let wanted = words::<4>(0).map(|class| words::<4>(500 + 10 * class)).concat();
    let body = [is_word(0, 7), is_list(1, &wanted), plan_of(&[], 4)].concat();
    let compiled = load_policy(&load_shedding(&body));
    let plan = |signals: &LoadSignals| {
        let mut policy = WasmLoadSheddingPolicy::new(compiled.clone(), options(0)).unwrap();
        policy.plan(7, signals, &mut SheddingPlan::default())
    };
    plan(&signals(500)).unwrap();
    assert_eq!(plan(&signals(501)).unwrap_err().kind, FailureKind::Trap);
}

#[test]
fn an_io_priority_policy_is_told_each_figure_in_its_own_word() {
    let disk = {
        let [elapsed_us, read_iops, write_iops, read_bandwidth, write_bandwidth, rest @ ..] =
            words::<8>(900);
        let [in_disk, p50_us, p99_us] = rest;
        DiskLoad {
            elapsed_us,
            read_iops,
            write_iops,
            read_bandwidth,
            write_bandwidth,
            in_disk,
            p50_us,
            p99_us,
        }
    };
    let class = |first: u64| {
        let [arrived, started, bytes, queued, queued_bytes, p50_us, p99_us, shares] =
            words::<8>(first);
        let shares = shares as u32;
        ClassLoad { arrived, started, bytes, queued, queued_bytes, p50_us, p99_us, shares }
    };
    let classes = is_list(3, &[words::<8>(100), words(200), words(300)].concat());
    let body = [is_word(0, 7), is_list(1, &words::<8>(900)), classes, plan_of(&[], 4)].concat();
    let compiled = load_policy(&io_priority(&body));
    let plan = |classes: [ClassLoad; 3]| {
        let mut policy = WasmIoPriorityPolicy::new(compiled.clone(), options(0)).unwrap();
        policy.plan(7, &disk, &classes, &mut [1, 2, 3])
    };
    plan([100, 200, 300].map(class)).unwrap();
    assert_eq!(plan([100, 300, 200].map(class)).unwrap_err().kind, FailureKind::Trap);
}

fn sstable(first: u64) -> SstableFacts {
    let [number, run, level, bytes, partitions, rows, rest @ ..] = words::<12>(first);
    let [first_token, last_token, min_timestamp, max_timestamp, droppable, age] = rest;
    SstableFacts {
        number,
        run,
        level: level as u32,
        bytes,
        partitions,
        rows,
        first_token: first_token as i64,
        last_token: last_token as i64,
        min_timestamp: min_timestamp as i64,
        max_timestamp: max_timestamp as i64,
        droppable_per_mille: droppable as u32,
        age_seconds: age as u32,
    }
}

/// Traps where the SSTable at this offset of the list is another one.
fn is_sstable(offset: u64, first: u64) -> String {
    // Where the fields of the record stand.
    let fields = [0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 84];
    let mut all = String::new();
    for (at, word) in fields.into_iter().zip(words::<12>(first)) {
        let kind = if matches!(at, 16 | 80 | 84) { "i32" } else { "i64" };
        let load = format!("({kind}.load offset={} (local.get 7))", offset + at);
        all += &check(kind, &load, word);
    }
    all
}

#[test]
fn a_compaction_policy_is_told_all_of_a_table_of_any_strategy_and_of_its_sstables() {
    let host = host();
    for (number, strategy) in [
        (0, TableStrategy::SizeTiered),
        (1, TableStrategy::Leveled),
        (2, TableStrategy::TimeWindow),
        (3, TableStrategy::Incremental),
    ] {
        let body = [
            is_word(2, 21),
            check("i32", "(local.get 3)", number),
            check("i32", "(local.get 4)", 22),
            check("i32", "(local.get 5)", 23),
            is_word(6, 24),
            check("i32", "(local.get 8)", 2),
            is_sstable(0, 100),
            is_sstable(88, 200),
            case_of(1),
        ];
        let compiled = load(&host, &compaction(&body.concat()));
        let table = TableFacts {
            name: "k.t".into(),
            now_seconds: 21,
            strategy,
            min_threshold: 22,
            max_threshold: 23,
            sstable_bytes: 24,
        };
        let pick = |sstables: [SstableFacts; 2]| {
            let mut policy = WasmCompactionPolicy::new(compiled.clone(), options(0)).unwrap();
            policy.pick(&table, &sstables)
        };
        assert_eq!(pick([sstable(100), sstable(200)]).unwrap(), Pick::Strategy, "{strategy:?}");
        let other = SstableFacts { age_seconds: 0, ..sstable(200) };
        for wrong in [[sstable(200), sstable(100)], [sstable(100), other]] {
            assert_eq!(pick(wrong).unwrap_err().kind, FailureKind::Trap, "{strategy:?}");
        }
    }
}

#[test]
fn a_rate_limiter_policy_is_told_of_an_operation_and_its_answer_holds_for_others() {
    let host = host();
    let (read, write) = (Operation::Read, Operation::Write);
    for (operation, answer, goes_through, holds_for) in [
        (read, 0_u32, false, 0),
        (write, 1, true, 0),
        (read, 0x501, true, 5),
        (write, 0xFF00, false, 255),
    ] {
        let body = [
            is_word(0, 77),
            is_word(1, u64::from(operation == write) | 1000 << 32),
            is_word(2, 34_000),
            format!("i32.const {}", answer | 0xAB << 16),
        ];
        let compiled = load(&host, &rate_limiter(&plan_of(&[], 8), &body.concat()));
        let mut policy = WasmRatePolicy::new(compiled, options(0)).unwrap();
        let excess = Excess { key: 77, operation, limit: 1000, count: 1034 };
        let ruling = policy.exceeded(&excess).unwrap();
        assert_eq!(ruling, Ruling { goes_through, holds_for }, "{operation:?} {answer:#x}");
        let failure = policy.exceeded(&Excess { count: 1035, ..excess }).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Trap);
        let calls = policy.counters().calls;
        assert_eq!(policy.exceeded(&excess).unwrap_err(), failure, "it is out");
        assert_eq!(policy.counters().calls, calls);
    }
}

#[test]
fn a_plan_of_rates_is_told_of_its_keys_and_has_64_whole_limits_at_most() {
    let host = host();
    let load_of = |key, operation| {
        let (limit, exceeded, refused) = (1000, 9, 3);
        KeyLoad { key, operation, limit, exceeded, refused }
    };
    let loads = [load_of(5, Operation::Read), load_of(6, Operation::Write)];
    let told = [5_u64, 1000 << 32, 9, 3, 6, 1 | 1000 << 32, 9, 3];
    for (count, wanted) in [(2, 0), (5, 1), (191, 63), (195, 64)] {
        let answer: Vec<u64> = (1..=count).collect();
        let body = [is_word(0, 7), is_list(1, &told), plan_of(&answer, 8)].concat();
        let compiled = load(&host, &rate_limiter(&body, "i32.const 0"));
        let mut policy = WasmRatePolicy::new(compiled, options(0)).unwrap();
        let mut planned = Vec::new();
        policy.plan(7, &loads, &mut planned).unwrap();
        let rate = |first| PlannedRate { key: first, rate_milli: first + 1, burst: first + 2 };
        let all: Vec<PlannedRate> = (0..wanted).map(|at| rate(1 + 3 * at)).collect();
        assert_eq!(planned, all, "of {count} words");
    }
}

#[test]
fn a_cache_admission_policy_is_told_all_of_what_was_read() {
    use EntryKind::*;
    let host = host();
    for (at, kind) in [Row, PartitionIndexPage, DataPage, Dummy].into_iter().enumerate() {
        let (has_room, answer) = (at % 2 == 1, at as u32);
        let candidate = AdmissionCandidate {
            fingerprint: 0x1234_5678_9ABC,
            size_bytes: 4096,
            cost_us: 100,
            kind,
            has_room,
            run: u16::MAX,
            table: 9,
        };
        let ctx = kind as u64 | u64::from(has_room) << 4 | 0xFFFF << 16 | 9 << 32;
        let body = [
            is_word(0, 0x1234_5678_9ABC),
            is_word(1, 4096 | 100 << 32),
            is_word(2, ctx),
            format!("i32.const {answer}"),
        ];
        let fates = is_list(0, &[1, 2, 3, 4]);
        let compiled = load(&host, &cache_admission(&body.concat(), &fates));
        let mut policy = WasmAdmissionPolicy::new(compiled, options(8)).unwrap();
        assert_eq!(policy.admit(&candidate).unwrap(), answer & 1 == 1, "{kind:?} {answer}");
        policy.feedback(&[1, 2, 3, 4]).unwrap();
        assert_eq!(policy.counters().events, 2, "a fate has two words");
        assert!(policy.admit(&AdmissionCandidate { run: 0, ..candidate }).is_err());
    }
}

/// What is asked some times a second only has its budget call by call, and what it saved.
#[test]
fn unused_fuel_of_plans_pays_for_a_later_one_and_figures_bring_none() {
    // Works hard where the time is not 0: 100,000 rounds of a few instructions.
    let body = format!(
        "(local $i i32)
         (if (i64.ne (local.get 0) (i64.const 0)) (then
           loop $next
             (br_if $next (i32.lt_u
               (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 100000)))
           end))
         {}",
        plan_of(&[], 8)
    );
    let compiled = load_policy(&read_admission(&body));
    let make = || WasmReadAdmissionPolicy::new(compiled.clone(), options(0)).unwrap();
    let plan = |policy: &mut WasmReadAdmissionPolicy, now_us| {
        policy.plan(now_us, 0, &[ReadLoad::default(); 2], &mut [LIMITS; 2])
    };
    assert_eq!(plan(&mut make(), 1).unwrap_err().kind, FailureKind::Fuel, "it saved nothing");
    let mut shown = make();
    for _ in 0..100 {
        assert!(shown.metrics().unwrap().is_empty());
    }
    assert_eq!(plan(&mut shown, 1).unwrap_err().kind, FailureKind::Fuel, "figures bring nothing");

    let mut saving = make();
    for _ in 0..1000 {
        plan(&mut saving, 0).unwrap();
    }
    for _ in 0..4 {
        plan(&mut saving, 1).unwrap();
    }
    let spent = (0..100).find(|_| plan(&mut saving, 1).is_err()).expect("it runs out");
    assert!(spent < 10, "what is kept has a cap");
}

/// A component, for tests that need no host besides.
fn load_policy(bytes: &[u8]) -> Arc<CompiledPolicy> {
    load(&host(), bytes)
}
