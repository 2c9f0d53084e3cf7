//! A component of a world other than eviction on trial: it starts, answers, and answers the same
//! again.

use std::sync::Arc;

use super::candidate::instance_options;
use super::finding::{Finding, Trial};
use crate::clock::Random;
use crate::error::{Error, Result};
use crate::plugin::{
    Budget, CompiledPolicy, InstanceCounters, InstanceOptions, WasmAdmissionPolicy,
    WasmCompactionPolicy, WasmIoPriorityPolicy, WasmLoadSheddingPolicy, WasmRatePolicy,
    WasmReadAdmissionPolicy,
};
use crate::policy::PolicyFailure;
use crate::policy::admission::{
    LoadSheddingPolicy, LoadSignals, ReadAdmissionPolicy, ReadLimits, ReadLoad, SheddingPlan,
    WorkLoad,
};
use crate::policy::cache_admission::{AdmissionCandidate, AdmissionPolicy, Fate, fate};
use crate::policy::compaction::{
    CompactionPolicy, Pick, SstableFacts, TableFacts, TableStrategy, WantedMerge,
};
use crate::policy::event::EntryKind;
use crate::policy::io_priority::{ClassLoad, DiskLoad, IoPriorityPolicy};
use crate::policy::rate::{Excess, KeyLoad, Operation, RatePolicy};

/// Questions of the trial.
const QUESTIONS: u64 = 20_000;
/// Entries of the cache that an admission policy is told of: 1 GiB of pages.
const SLOTS: u32 = 262_144;
/// Questions between two deliveries of fates, or two plans.
const QUESTIONS_PER_BATCH: u64 = 100;
/// Plans of the trial.
const PLANS: u64 = 2_000;
/// Time between two of them.
const PLAN_US: u64 = 100_000;
/// Classes of I/O of which a policy of I/O priority is told.
const IO_CLASSES: usize = 5;
/// Times that a compaction policy is asked, and SSTables above which its table is cut back.
const PICKS: u64 = 2_000;
const SSTABLES_MAX: usize = 200;

/// What one run of the trial came to.
struct Run {
    name: String,
    version: String,
    yes: u64,
    /// FNV-1a of the answers.
    answers_hash: u64,
    counters: InstanceCounters,
}

/// Tries a component of world `cache-admission`.
///
/// Errors: `Policy` when no instance of it starts.
pub(super) fn try_admission(
    compiled: &Arc<CompiledPolicy>,
    params: &[(String, String)],
) -> Result<Trial> {
    twice(compiled, params, answered("kept"), |options| {
        let mut policy = WasmAdmissionPolicy::new(compiled.clone(), options)?;
        let mut random = Random::new(11);
        let mut answers = Answers::default();
        for at in 0..QUESTIONS {
            // Half of them return, the others are read once.
            let id = if random.one_in(2) { random.below(500) } else { 1000 + at };
            let fingerprint = Random::new(id).next_u64();
            answers.add(policy.admit(&AdmissionCandidate {
                fingerprint,
                size_bytes: 4096,
                cost_us: 100,
                kind: EntryKind::DataPage,
                has_room: at < 100,
                run: (at % 64) as u16,
                table: 0,
            })?);
            if at % QUESTIONS_PER_BATCH == 0 && policy.wants_feedback() {
                let words: Vec<u64> = (0..100)
                    .flat_map(|_| {
                        let what = if random.one_in(3) { Fate::Evicted } else { Fate::Read };
                        let id = random.below(800);
                        fate(Random::new(id).next_u64(), what, EntryKind::DataPage)
                    })
                    .collect();
                policy.feedback(&words)?;
            }
        }
        Ok(answers.run(policy.name(), policy.version(), policy.counters()))
    })
}

/// Tries a component of world `rate-limiter`.
///
/// Errors: `Policy` when no instance of it starts.
pub(super) fn try_rate(
    compiled: &Arc<CompiledPolicy>,
    params: &[(String, String)],
) -> Result<Trial> {
    twice(compiled, params, answered("let through"), |options| {
        let mut policy = WasmRatePolicy::new(compiled.clone(), options)?;
        let mut random = Random::new(11);
        let mut answers = Answers::default();
        for at in 0..QUESTIONS {
            let (limit, over) = (100, random.below(1000) as u32);
            let excess =
                Excess { key: at % 50, operation: Operation::Read, limit, count: limit + over };
            answers.add(policy.exceeded(&excess)?.goes_through);
            if at % QUESTIONS_PER_BATCH == 0 {
                let load = |key| KeyLoad {
                    key,
                    operation: Operation::Read,
                    limit,
                    exceeded: 9,
                    refused: 3,
                };
                let loads: Vec<KeyLoad> = (0..random.below(64)).map(load).collect();
                let mut plan = Vec::new();
                policy.plan(at * 10_000, &loads, &mut plan)?;
                plan.iter().for_each(|rate| answers.hash(rate.key ^ rate.rate_milli));
            }
        }
        Ok(answers.run(policy.name(), policy.version(), policy.counters()))
    })
}

/// Tries a component of world `read-admission`: loads that rise and fall.
///
/// Errors: `Policy` when no instance of it starts.
pub(super) fn try_read_admission(
    compiled: &Arc<CompiledPolicy>,
    params: &[(String, String)],
) -> Result<Trial> {
    twice(compiled, params, planned, |options| {
        let mut policy = WasmReadAdmissionPolicy::new(compiled.clone(), options)?;
        let mut random = Random::new(11);
        let mut answers = Answers::default();
        let start = ReadLimits {
            running_max: 50,
            memory_bytes_max: 1 << 26,
            queued_max: 1,
            wait_us_max: 0,
        };
        let mut plan = [start; 2];
        for at in 0..PLANS {
            let loads = plan.map(|limits| {
                let offered = random.below(4 * (1 + at % 200)) as u32;
                let running_most = offered.min(limits.running_max.max(1));
                let p50_us = 100 + u64::from(running_most) * random.below(40);
                ReadLoad {
                    arrived: u64::from(offered) * 100,
                    admitted: u64::from(running_most) * 100,
                    queued: offered - running_most,
                    running_most,
                    refused: random.below(3),
                    memory_bytes: u64::from(running_most) << 14,
                    p50_us,
                    p99_us: p50_us * 3,
                    busy_us: random.below(PLAN_US),
                }
            });
            let before = plan;
            policy.plan(at * PLAN_US, 1 << 26, &loads, &mut plan)?;
            answers.add(plan != before);
            for limits in plan {
                answers
                    .hash(u64::from(limits.running_max) ^ limits.memory_bytes_max.rotate_left(20));
                answers.hash(u64::from(limits.queued_max) ^ limits.wait_us_max.rotate_left(32));
            }
        }
        Ok(answers.run(policy.name(), policy.version(), policy.counters()))
    })
}

/// Tries a component of world `load-shedding`.
///
/// Errors: `Policy` when no instance of it starts.
pub(super) fn try_load_shedding(
    compiled: &Arc<CompiledPolicy>,
    params: &[(String, String)],
) -> Result<Trial> {
    twice(compiled, params, planned, |options| {
        let mut policy = WasmLoadSheddingPolicy::new(compiled.clone(), options)?;
        let mut random = Random::new(11);
        let mut answers = Answers::default();
        let mut plan = SheddingPlan::default();
        for at in 0..PLANS {
            let waiting_most = 1 + at % 100;
            let classes = plan.map(|_| {
                let waiting = random.below(waiting_most) as u32;
                let waited_us = u64::from(waiting) * random.below(5_000);
                WorkLoad { arrived: random.below(5_000), waiting, waited_us, shed: random.below(9) }
            });
            let signals = LoadSignals {
                elapsed_us: PLAN_US,
                busy_us: random.below(PLAN_US),
                memtable_bytes: random.below(1 << 27),
                memtable_bytes_max: 1 << 27,
                classes,
            };
            let before = plan;
            policy.plan(at * PLAN_US, &signals, &mut plan)?;
            answers.add(plan != before);
            for shed in plan {
                answers.hash(u64::from(shed.per_mille) << 32 | u64::from(shed.wait_ms_max));
            }
        }
        Ok(answers.run(policy.name(), policy.version(), policy.counters()))
    })
}

/// Tries a component of world `io-priority`: requests that come in waves.
///
/// Errors: `Policy` when no instance of it starts.
pub(super) fn try_io_priority(
    compiled: &Arc<CompiledPolicy>,
    params: &[(String, String)],
) -> Result<Trial> {
    twice(compiled, params, planned, |options| {
        let mut policy = WasmIoPriorityPolicy::new(compiled.clone(), options)?;
        let mut random = Random::new(11);
        let mut answers = Answers::default();
        let mut shares = [1000, 1000, 200, 100, 100];
        for at in 0..PLANS {
            let wave = 1 + at % 100;
            let classes: [ClassLoad; IO_CLASSES] = std::array::from_fn(|class| {
                let started = random.below(10 * wave);
                let queued = random.below(wave);
                let p50_us = queued * random.below(300);
                ClassLoad {
                    arrived: started + random.below(wave),
                    started,
                    bytes: started << 14,
                    queued,
                    queued_bytes: queued << 14,
                    p50_us,
                    p99_us: p50_us * 3,
                    shares: shares[class],
                }
            });
            let disk = DiskLoad {
                elapsed_us: PLAN_US,
                read_iops: 100_000,
                write_iops: 50_000,
                read_bandwidth: 1 << 30,
                write_bandwidth: 1 << 29,
                in_disk: random.below(64),
                p50_us: 80 + wave,
                p99_us: 200 + 10 * wave,
            };
            let before = shares;
            policy.plan(at * PLAN_US, &disk, &classes, &mut shares)?;
            answers.add(shares != before);
            shares.iter().for_each(|shares| answers.hash(u64::from(*shares)));
        }
        Ok(answers.run(policy.name(), policy.version(), policy.counters()))
    })
}

/// Tries a component of world `compaction`: a table to which flushes add SSTables, and that is
/// merged as the policy says.
///
/// Errors: `Policy` when no instance of it starts.
pub(super) fn try_compaction(
    compiled: &Arc<CompiledPolicy>,
    params: &[(String, String)],
) -> Result<Trial> {
    let sentence = |merges| format!("is asked {PICKS} times: {merges} merges");
    twice(compiled, params, sentence, |options| {
        let mut policy = WasmCompactionPolicy::new(compiled.clone(), options)?;
        let mut random = Random::new(11);
        let mut answers = Answers::default();
        let mut sstables: Vec<SstableFacts> = Vec::new();
        for at in 1..=PICKS {
            sstables.push(flushed(at, 1 + random.below(8)));
            if sstables.len() > SSTABLES_MAX {
                sstables.remove(0);
            }
            let table = TableFacts {
                name: "trial.t".to_owned(),
                now_seconds: 1_700_000_000 + at,
                strategy: TableStrategy::SizeTiered,
                min_threshold: 4,
                max_threshold: 32,
                sstable_bytes: 160 << 20,
            };
            match policy.pick(&table, &sstables)? {
                Pick::Merge(wanted) => {
                    answers.add(true);
                    wanted.inputs.iter().for_each(|number| answers.hash(*number));
                    answers.hash(u64::from(wanted.level) << 32 ^ wanted.split_bytes);
                    merge(&mut sstables, &wanted, PICKS + at);
                }
                other => {
                    answers.add(false);
                    answers.hash(u64::from(other == Pick::Strategy));
                }
            }
        }
        Ok(answers.run(policy.name(), policy.version(), policy.counters()))
    })
}

/// An SSTable of so many MiB as a flush writes it.
fn flushed(number: u64, mib: u64) -> SstableFacts {
    SstableFacts {
        number,
        run: number,
        level: 0,
        bytes: mib << 20,
        partitions: mib * 1_000,
        rows: mib * 10_000,
        first_token: i64::MIN,
        last_token: i64::MAX,
        min_timestamp: number as i64 * 1_000_000,
        max_timestamp: (number as i64 + 1) * 1_000_000,
        droppable_per_mille: 0,
        age_seconds: 1,
    }
}

/// One SSTable in the place of those that are merged.
fn merge(sstables: &mut Vec<SstableFacts>, wanted: &WantedMerge, number: u64) {
    let is_input = |file: &SstableFacts| wanted.inputs.contains(&file.number);
    let inputs: Vec<SstableFacts> = sstables.extract_if(.., |file| is_input(file)).collect();
    let Some(first) = inputs.first() else { return };
    let sum = |of: fn(&SstableFacts) -> u64| inputs.iter().map(of).sum();
    let merged = SstableFacts {
        number,
        run: number,
        level: wanted.level,
        bytes: sum(|file| file.bytes),
        partitions: sum(|file| file.partitions),
        rows: sum(|file| file.rows),
        ..*first
    };
    sstables.push(merged);
    sstables.sort_by_key(|file| file.number);
}

fn answered(verb: &'static str) -> impl Fn(u64) -> String {
    move |yes| format!("answers {QUESTIONS} questions: {yes} {verb}")
}

fn planned(changes: u64) -> String {
    format!("makes {PLANS} plans: {changes} differ from the one before")
}

/// Runs the questions twice and says what was found.
fn twice(
    compiled: &CompiledPolicy,
    params: &[(String, String)],
    sentence: impl Fn(u64) -> String,
    run: impl Fn(InstanceOptions) -> Result<Run, PolicyFailure>,
) -> Result<Trial> {
    let ask = || {
        run(instance_options(params, SLOTS, 7)).map_err(|failure| Error::Policy {
            name: compiled.name().to_owned(),
            message: failure.to_string(),
        })
    };
    let (first, again) = (ask()?, ask()?);
    let fuel = first.counters.fuel / first.counters.calls.max(1);
    let is_same = first.answers_hash == again.answers_hash;
    let same = if is_same { "give the same answers" } else { "gave different answers" };
    let findings = vec![
        good(sentence(first.yes)),
        Finding { is_fault: !is_same, text: format!("two runs with one seed {same}") },
        good(format!("{fuel} instructions a call, of {}", Budget::default().call_fuel)),
    ];
    let Run { name, version, .. } = first;
    Ok(Trial { name, version, findings, outcome: None })
}

fn good(text: String) -> Finding {
    Finding { is_fault: false, text }
}

#[derive(Default)]
struct Answers {
    yes: u64,
    hash: u64,
}

impl Answers {
    fn add(&mut self, answer: bool) {
        self.yes += u64::from(answer);
        self.hash(u64::from(answer));
    }

    fn hash(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x100_0000_01B3).rotate_left(5);
    }

    fn run(&self, name: &str, version: &str, counters: InstanceCounters) -> Run {
        let Answers { yes, hash } = *self;
        let (name, version) = (name.to_owned(), version.to_owned());
        Run { name, version, yes, answers_hash: hash, counters }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::plugin::tests::guest::{load_shedding, plan_of};
    use crate::plugin::{HostOptions, PolicyHost};
    use crate::policy::FailureKind;

    #[test]
    fn a_component_that_answers_otherwise_the_second_time_does_not_pass() {
        let options = HostOptions { instances_max: 1, ..HostOptions::default() };
        let host = PolicyHost::new(options).unwrap();
        let compiled = host.compile("p", &load_shedding(&plan_of(&[], 4))).unwrap();
        // What the two runs answer, and whether that is the same.
        for (answers, is_same) in [
            ([[true, false], [true, false]], true),
            ([[true, false], [false, true]], false),
            ([[true, true], [true, false]], false),
        ] {
            let runs = Cell::new(0_usize);
            let tried = twice(&compiled, &[], planned, |_| {
                let mut run = Answers::default();
                answers[runs.replace(runs.get() + 1)].iter().for_each(|yes| run.add(*yes));
                let counters =
                    InstanceCounters { calls: 2, fuel: 7, ..InstanceCounters::default() };
                Ok(run.run("mine", "9", counters))
            });
            let trial = tried.unwrap();
            assert_eq!((runs.get(), trial.is_passed()), (2, is_same), "{answers:?}");
            assert_eq!((trial.name.as_str(), trial.version.as_str()), ("mine", "9"));
            let texts: Vec<&str> = trial.findings.iter().map(|found| &*found.text).collect();
            let yes = answers[0].iter().filter(|yes| **yes).count() as u64;
            let same = if is_same { "give the same answers" } else { "gave different answers" };
            let same = format!("two runs with one seed {same}");
            assert_eq!(texts, [&*planned(yes), &*same, "3 instructions a call, of 20000"]);
        }
        let failure = || PolicyFailure {
            kind: FailureKind::Fuel,
            message: "too much".to_owned(),
            backtrace: Vec::new(),
        };
        let told = twice(&compiled, &[], planned, |_| Err(failure())).unwrap_err();
        assert!(told.to_string().contains("fuel: too much"), "{told}");
    }

    /// What a trial merges is what the policy is asked about next.
    #[test]
    fn merged_sstables_are_one_that_has_all_of_them() {
        let all: Vec<SstableFacts> = (1..=4).map(|number| flushed(number, 10 * number)).collect();
        let wanted = |inputs: &[u64]| WantedMerge {
            inputs: inputs.to_vec(),
            level: 3,
            split_bytes: 0,
            is_incremental: false,
        };
        let mut sstables = all.clone();
        merge(&mut sstables, &wanted(&[4, 2]), 9);
        let merged = SstableFacts { number: 9, run: 9, level: 3, ..flushed(2, 20 + 40) };
        assert_eq!(sstables, [all[0], all[2], merged]);
        let before = sstables.clone();
        merge(&mut sstables, &wanted(&[2, 77]), 10);
        assert_eq!(sstables, before, "there are none of these");
    }
}
