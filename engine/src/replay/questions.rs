//! A component of a world with scalar calls on trial: it starts, answers, and answers the same again.

use std::sync::Arc;

use super::trial::{Finding, Trial};
use crate::clock::Random;
use crate::error::{Error, Result};
use crate::plugin::{
    Budget, CompiledPolicy, InstanceCounters, InstanceOptions, WasmAdmissionPolicy, WasmRatePolicy,
};
use crate::policy::PolicyFailure;
use crate::policy::admission::{AdmissionCandidate, AdmissionPolicy, Fate, fate};
use crate::policy::event::EntryKind;
use crate::policy::rate::{Excess, KeyLoad, Operation, RatePolicy};

/// Questions of the trial.
const QUESTIONS: u64 = 20_000;
/// Entries of the cache that an admission policy is told of: 1 GiB of pages.
const SLOTS: u32 = 262_144;
/// Questions between two deliveries of fates, or two plans.
const QUESTIONS_PER_BATCH: u64 = 100;

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
    twice(compiled, params, "kept", |options| {
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
    twice(compiled, params, "let through", |options| {
        let mut policy = WasmRatePolicy::new(compiled.clone(), options)?;
        let mut random = Random::new(11);
        let mut answers = Answers::default();
        for at in 0..QUESTIONS {
            let (limit, over) = (100, random.below(1000) as u32);
            let excess =
                Excess { key: at % 50, operation: Operation::Read, limit, count: limit + over };
            answers.add(policy.exceeded(&excess)?);
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

/// Runs the questions twice and says what was found.
fn twice(
    compiled: &CompiledPolicy,
    params: &[(String, String)],
    verb: &str,
    run: impl Fn(InstanceOptions) -> Result<Run, PolicyFailure>,
) -> Result<Trial> {
    let ask = || {
        let options = InstanceOptions {
            params: params.to_vec(),
            max_slots: SLOTS,
            seed: 7,
            ..InstanceOptions::default()
        };
        run(options).map_err(|failure| Error::Policy {
            name: compiled.name().to_owned(),
            message: failure.to_string(),
        })
    };
    let (first, again) = (ask()?, ask()?);
    let fuel = first.counters.fuel / first.counters.calls.max(1);
    let is_same = first.answers_hash == again.answers_hash;
    let same = if is_same { "give the same answers" } else { "gave different answers" };
    let findings = vec![
        good(format!("answers {QUESTIONS} questions: {} {verb}", first.yes)),
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
