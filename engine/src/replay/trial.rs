//! A component on trial: what its author should know before anyone loads it.
//!
//! Each finding is a sentence; those that are faults say what is wrong. The trial has two made-up
//! traces, small batches and large ones, and runs everything twice.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::candidate::Candidate;
use super::capacity::Capacity;
use super::driver::{Outcome, Settings, slots_of};
use super::finding::Trial;
use super::questions;
use crate::clock::Clock;
use crate::config::{POLICY_MEMORY_BYTES_MAX, POLICY_RING_EVENTS_MAX};
use crate::error::{Error, Result};
use crate::plugin::{Budget, CompiledPolicy, World};
use crate::policy::EvictionPolicy;
use crate::policy::event::{EntryKind, Op, event};
use crate::trace::{Synthetic, Trace};

/// Traces of the trial.
const TRACES: [&str; 2] =
    ["zipf:ids=4000,requests=60000,skew=0.9,seed=7", "loop:ids=700,requests=20000"];
/// Entries of its cache.
const ENTRIES: u32 = 500;
/// Slots of a cache of 1 GiB of pages: a policy must start there too.
const SLOTS_LARGE: u32 = 262_144;
/// Slots asked for at once when the order is drained.
const PAGE_SLOTS: u32 = 100;

/// Tries a component of any world. Takes up to some seconds.
///
/// Errors: `Policy` when no instance of it starts.
pub fn try_component(
    compiled: &Arc<CompiledPolicy>,
    params: &[(String, String)],
    clock: &dyn Clock,
) -> Result<Trial> {
    match compiled.world() {
        World::Eviction => try_eviction(compiled, params, clock),
        World::CacheAdmission => questions::try_admission(compiled, params),
        World::RateLimiter => questions::try_rate(compiled, params),
        World::ReadAdmission => questions::try_read_admission(compiled, params),
        World::LoadShedding => questions::try_load_shedding(compiled, params),
        World::IoPriority => questions::try_io_priority(compiled, params),
        World::Compaction => questions::try_compaction(compiled, params),
    }
}

fn try_eviction(
    compiled: &Arc<CompiledPolicy>,
    params: &[(String, String)],
    clock: &dyn Clock,
) -> Result<Trial> {
    let candidate = Candidate::Component { compiled: compiled.clone(), params: params.to_vec() };
    let traces: Vec<Trace> = TRACES
        .iter()
        .map(|recipe| Ok(Synthetic::parse(recipe)?.expect("a recipe").make()))
        .collect::<Result<_>>()?;
    let settings = Settings::new(Capacity::Entries(ENTRIES));
    let first = candidate.instance(&traces[0], &settings)?;
    let (name, version) = (first.name().to_owned(), first.version().to_owned());
    let is_deterministic = first.is_deterministic();
    drop(first);
    let mut trial = Trial { name, version, findings: Vec::new(), outcome: None };
    trial.good(format!("starts with {ENTRIES} slots"));
    let large = Settings::new(Capacity::Entries(SLOTS_LARGE));
    match candidate.instance(&traces[0], &large) {
        Ok(_) => trial.good(format!("starts with {SLOTS_LARGE} slots, a cache of 1 GiB")),
        Err(error) => trial.fault(format!(
            "a cache of 1 GiB is too large for it ({error}); {POLICY_MEMORY_BYTES_MAX} bytes of \
             memory are there"
        )),
    }
    for (recipe, trace) in TRACES.iter().zip(&traces) {
        run_all(&mut trial, &candidate, recipe, trace, is_deterministic, clock);
    }
    if trial.is_passed() {
        drain(&mut trial, &candidate, &traces[0])?;
    }
    Ok(trial)
}

/// Runs one trace in several ways.
fn run_all(
    trial: &mut Trial,
    candidate: &Candidate,
    recipe: &str,
    trace: &Trace,
    is_deterministic: bool,
    clock: &dyn Clock,
) {
    let ahead = (ENTRIES / 4).min(32);
    let mut outcomes = Vec::new();
    for (batch, ahead) in [(POLICY_RING_EVENTS_MAX, ahead), (1, 1), (POLICY_RING_EVENTS_MAX, 1)] {
        let settings = Settings { batch, ahead, ..Settings::new(Capacity::Entries(ENTRIES)) };
        let run = || candidate.run(trace, &settings, clock, &AtomicBool::new(false));
        let (outcome, again) = match (run(), run()) {
            (Ok(Some(outcome)), Ok(Some(again))) => (outcome, again),
            (Err(Error::Policy { message, .. }), _) | (_, Err(Error::Policy { message, .. })) => {
                trial.fault(format!("{recipe}, batches of {batch}: {message}"));
                return;
            }
            (first, _) => {
                trial.fault(format!("{recipe}: {first:?}"));
                return;
            }
        };
        if outcome.victims_hash != again.victims_hash {
            let text = format!("{recipe}: two runs with one seed named different victims");
            if is_deterministic {
                trial.fault(format!("{text}, though it says that it is deterministic"));
                return;
            }
            trial.good(text);
        }
        outcomes.push(outcome);
    }
    judge(trial, recipe, &outcomes);
    if trial.outcome.is_none() {
        trial.outcome = outcomes.first().copied();
    }
}

fn judge(trial: &mut Trial, recipe: &str, outcomes: &[Outcome]) {
    let all = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    let (evictions, invalid) = (all(|o| o.evictions), all(|o| o.invalid_victims));
    let shortfalls = all(|o| o.shortfalls);
    let named = (evictions - shortfalls + invalid).max(1);
    if invalid * 100 > named {
        trial.fault(format!(
            "{recipe}: {invalid} of {named} victims were not resident or named twice; the engine \
             puts a policy out at 1 in 100"
        ));
    }
    if shortfalls * 10 > evictions.max(1) {
        trial.fault(format!(
            "{recipe}: {shortfalls} of {evictions} times it named no victim though the cache was \
             full; the engine puts a policy out at 1 in 10"
        ));
    }
    if outcomes[1].victims_hash != outcomes[2].victims_hash {
        trial.good(format!("{recipe}: the size of batches changes its victims"));
    }
    let ratio = outcomes[2].hit_ratio();
    trial.good(format!("{recipe}: {:.2} % hits in {ENTRIES} entries", ratio * 100.0));
    let fuel = outcomes[0].fuel_per_request().unwrap_or(0.0);
    let budget = Budget::default();
    let share = fuel / budget.event_fuel as f64;
    let text = format!("{recipe}: {fuel:.0} instructions a request, {:.0} % of", share * 100.0);
    trial.good(format!("{text} the {} that an event brings", budget.event_fuel));
}

/// The order that a successor would be shown: every resident once, and an end.
fn drain(trial: &mut Trial, candidate: &Candidate, trace: &Trace) -> Result<()> {
    let settings = Settings::new(Capacity::Entries(ENTRIES));
    let mut policy = candidate.instance(trace, &settings)?;
    let slots = slots_of(settings.capacity, trace);
    let words: Vec<u64> =
        (0..slots).map(|slot| event(slot, Op::Restore, EntryKind::DataPage, 0, 0)).collect();
    let mut order = Vec::new();
    let mut shown = || {
        for (at, words) in words.chunks(POLICY_RING_EVENTS_MAX).enumerate() {
            let first = (at * POLICY_RING_EVENTS_MAX) as u64;
            let attributes: Vec<u64> =
                (0..words.len() as u64).flat_map(|slot| [first + slot, 4096, 0]).collect();
            policy.apply(words, &attributes, 0, 0, &mut Vec::new())?;
        }
        // One page more than there can be: an order without end shows.
        for _ in 0..slots / PAGE_SLOTS + 2 {
            let before = order.len();
            policy.drain_order(before as u32, PAGE_SLOTS, &mut order)?;
            if order.len() == before {
                return Ok(true);
            }
        }
        Ok(false)
    };
    match shown() {
        Err(failure) => {
            let failure: crate::policy::PolicyFailure = failure;
            trial.fault(format!("draining its order: {failure}"));
        }
        Ok(false) => trial.fault(format!("its order has more than {slots} slots: no end")),
        Ok(true) => {
            let found = order.len();
            order.sort_unstable();
            order.dedup();
            if order.len() == slots as usize && found == order.len() {
                trial.good(format!("hands over the order of all {slots} residents"));
            } else {
                trial.good(format!(
                    "hands over {found} slots, {} different, of {slots} residents; the engine adds \
                     the rest by last touch",
                    order.len()
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is wrong with a policy whose replays came to this together.
    fn faults(evictions: u64, invalid_victims: u64, shortfalls: u64) -> Vec<String> {
        let (name, version) = (String::new(), String::new());
        let mut trial = Trial { name, version, findings: Vec::new(), outcome: None };
        let outcomes = [
            Outcome { evictions, ..Outcome::default() },
            Outcome { invalid_victims, ..Outcome::default() },
            Outcome { shortfalls, ..Outcome::default() },
        ];
        judge(&mut trial, "loop", &outcomes);
        let faults = trial.findings.into_iter().filter(|finding| finding.is_fault);
        faults.map(|fault| fault.text).collect()
    }

    #[test]
    fn a_trial_finds_fault_from_just_the_shares_on_at_which_the_engine_puts_a_policy_out() {
        let table: [(_, &[&str]); 9] = [
            ([0, 0, 0], &[]),
            ([1000, 0, 0], &[]),
            ([990, 10, 0], &[]),
            ([990, 11, 0], &["11 of 1001 victims"]),
            ([0, 1, 0], &["1 of 1 victims"]),
            // Whom the policy did not name is no victim of its own.
            ([1000, 10, 20], &["10 of 990 victims"]),
            ([1000, 0, 100], &[]),
            ([1000, 0, 101], &["101 of 1000 times"]),
            ([100, 100, 100], &["100 of 100 victims", "100 of 100 times"]),
        ];
        for ([evictions, invalid, shortfalls], wanted) in table {
            let found = faults(evictions, invalid, shortfalls);
            let case = format!("{evictions} evictions, {invalid} invalid, {shortfalls} short");
            assert_eq!(found.len(), wanted.len(), "{case}: {found:?}");
            for (found, wanted) in found.iter().zip(wanted) {
                assert!(found.starts_with(&format!("loop: {wanted} ")), "{case}: {found}");
            }
        }
    }
}
