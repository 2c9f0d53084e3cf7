//! Reports of governance about policies: one struct a row.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::cache::PolicyCounters;
use crate::policy::{PolicyUsage, Tally, WINDOWS_JUDGED, WINDOWS_MAX};

/// A policy that was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyInfo {
    pub name: String,
    /// Version as the component states it.
    pub version: String,
    /// SHA-256 of the component, hex.
    pub digest: String,
    pub params: Vec<(String, String)>,
    /// The decision that it takes; see `plugin::World`.
    #[serde(default = "eviction")]
    pub world: String,
}

/// The only world of catalogs that name none.
fn eviction() -> String {
    "eviction".to_owned()
}

/// A policy and what it has done while in charge, all shards together. As a shadow it names victims
/// among its ghosts and evicts nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PolicyReport {
    pub name: String,
    pub version: String,
    /// SHA-256 of the component, hex; empty for the native policy.
    pub digest: String,
    /// The decision that it takes; see `plugin::World`.
    pub world: String,
    pub params: Vec<(String, String)>,
    /// The first of these that holds on any shard: `ejected`, `failed` and `suspended` (it failed;
    /// the last is tried again, and `failed` is one of the worlds that are exchanged at once),
    /// `canary`, `active`, `shadow`, `standby` (kept for a rollback), `unavailable` (it could not
    /// be brought back when the database was opened), `loaded`.
    pub state: String,
    /// Shards on which it is in that state; 0 when it is nowhere.
    pub shards: u32,
    /// Calls into the policy, and events they carried.
    pub calls: u64,
    pub events: u64,
    /// Look-ups of the caches while it was in charge.
    pub lookups: Tally,
    pub evictions: u64,
    /// Victims it named.
    pub victims: u64,
    /// Of these, pinned or read before they were taken.
    pub refused_victims: u64,
    /// Of these, not resident or named twice.
    pub invalid_victims: u64,
    /// Evictions that the fallback had to complete.
    pub shortfalls: u64,
    /// Time and instructions of its calls; zeros for the native policy, which is not measured.
    pub usage: PolicyUsage,
    /// What it would do, while it is a shadow.
    pub shadow: Option<ShadowReport>,
    /// Windows of its trial as a canary, and the mean gain of the last, percentage points.
    pub trial: Option<(u32, Option<f64>)>,
    /// What its last trial as a canary came to, for people: `took over: …` or `went back: …`. Known
    /// until the database is closed.
    pub trial_ended: Option<String>,
    /// Where the state that it started with came from.
    pub state_note: String,
    /// Its own figures, with the shard; only where one policy is explained.
    pub metrics: Vec<(u32, String, f64)>,
    /// Why it was detached, or could not be brought back.
    pub last_failure: Option<String>,
}

/// How a policy would do that runs beside the active one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ShadowReport {
    /// It sees one key in this many.
    pub rate: u32,
    /// Ghosts in its directory.
    pub entries: u64,
    /// Look-ups that it saw.
    pub sampled_lookups: u64,
    /// All look-ups since it began, as it would have answered them: an estimate.
    pub estimate: Tally,
    /// The same look-ups as the active policy answered them.
    pub active: Tally,
}

/// States of a policy on one shard, the one to tell first.
const STATES: [&str; 9] = [
    "ejected",
    "failed",
    "suspended",
    "canary",
    "active",
    "shadow",
    "standby",
    "unavailable",
    "loaded",
];

impl PolicyReport {
    /// Look-ups that its ratios are of: as a shadow those that it would have answered, else those
    /// that it did.
    pub fn judged(&self) -> Tally {
        match &self.shadow {
            Some(shadow) if self.state == "shadow" => shadow.estimate,
            _ => self.lookups,
        }
    }

    /// How its trial as a canary stands, or what the last one came to, for people.
    pub fn trial_text(&self) -> Option<String> {
        let (windows, gain) = match self.trial.filter(|_| self.state == "canary") {
            Some(trial) => trial,
            None => return self.trial_ended.clone(),
        };
        let gain = gain.map_or("no gain known".into(), |gain| format!("{gain:+.2} points"));
        Some(format!("{gain} after {windows} of {WINDOWS_JUDGED} to {WINDOWS_MAX} windows"))
    }

    /// Takes over what was counted at one place of the policy.
    pub(super) fn count(&mut self, counters: PolicyCounters) {
        self.calls = counters.calls;
        self.events = counters.events;
        self.victims = counters.victims;
        self.refused_victims = counters.refused_victims;
        self.invalid_victims = counters.invalid_victims;
        self.shortfalls = counters.shortfalls;
        self.usage = counters.usage;
    }

    /// Adds what the same policy did elsewhere or earlier.
    pub(super) fn add(&mut self, other: &PolicyReport) {
        let rank = |state: &str| STATES.iter().position(|known| *known == state);
        match rank(&other.state).cmp(&rank(&self.state)) {
            Ordering::Less => {
                self.state.clone_from(&other.state);
                self.shards = other.shards;
            }
            Ordering::Equal => self.shards += other.shards,
            Ordering::Greater => {}
        }
        self.calls += other.calls;
        self.events += other.events;
        self.lookups += other.lookups;
        self.evictions += other.evictions;
        self.victims += other.victims;
        self.refused_victims += other.refused_victims;
        self.invalid_victims += other.invalid_victims;
        self.shortfalls += other.shortfalls;
        self.usage.ns += other.usage.ns;
        self.usage.fuel += other.usage.fuel;
        match (&mut self.shadow, &other.shadow) {
            (Some(shadow), Some(other)) => shadow.add(other),
            (shadow @ None, Some(other)) => *shadow = Some(other.clone()),
            (_, None) => {}
        }
        if other.trial.is_some() {
            self.trial = other.trial;
        }
        if !other.state_note.is_empty() {
            self.state_note.clone_from(&other.state_note);
        }
        if other.last_failure.is_some() {
            self.last_failure.clone_from(&other.last_failure);
        }
    }
}

impl ShadowReport {
    fn add(&mut self, other: &ShadowReport) {
        self.rate = self.rate.max(other.rate);
        self.entries += other.entries;
        self.sampled_lookups += other.sampled_lookups;
        self.estimate += other.estimate;
        self.active += other.active;
    }
}

/// A policy that left a shard because it failed, or was not better as a canary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyExit {
    pub policy: String,
    pub version: String,
    pub digest: String,
    pub shard: u32,
    /// Wall clock, µs since the epoch, to a tick of the shard.
    pub at_us: i64,
    /// `active`, `candidate`, `standby` or `shadow`.
    pub role: &'static str,
    /// What kind of failure; see `policy::FailureKind`.
    pub kind: &'static str,
    pub message: String,
    /// Wasm frames, innermost first.
    pub backtrace: Vec<String>,
    /// What it had done: calls, events delivered, victims named, of these invalid, and evictions
    /// that the fallback had to complete.
    pub calls: u64,
    pub events: u64,
    pub victims: u64,
    pub invalid_victims: u64,
    pub shortfalls: u64,
    /// Words of its last events, at most 64; `policy::event::describe` reads them.
    pub last_events: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(state: &str, factor: u64) -> PolicyReport {
        let tally = Tally { hits: factor, misses: 2 * factor, ..Tally::default() };
        let mut report = PolicyReport {
            state: state.to_owned(),
            shards: 1,
            lookups: tally,
            evictions: 3 * factor,
            shadow: Some(ShadowReport {
                rate: factor as u32,
                entries: 4 * factor,
                sampled_lookups: 5 * factor,
                estimate: Tally { hits: 6 * factor, ..tally },
                active: Tally { hits: 7 * factor, ..tally },
            }),
            ..PolicyReport::default()
        };
        report.count(PolicyCounters {
            calls: 8 * factor,
            events: 9 * factor,
            victims: 10 * factor,
            refused_victims: 11 * factor,
            invalid_victims: 12 * factor,
            shortfalls: 13 * factor,
            usage: PolicyUsage { ns: 14 * factor, fuel: 15 * factor },
        });
        report
    }

    #[test]
    fn what_shards_did_is_one_report() {
        let mut sum = report("active", 1);
        sum.add(&report("active", 10));
        let mut wanted = report("active", 11);
        wanted.shards = 2;
        // The rate is no sum.
        wanted.shadow.as_mut().unwrap().rate = 10;
        assert_eq!(sum, wanted);
        // Of several states the one that matters most is told, with its shards.
        sum.add(&report("suspended", 100));
        assert_eq!((sum.state.as_str(), sum.shards), ("suspended", 1));
        sum.add(&report("standby", 100));
        assert_eq!((sum.state.as_str(), sum.shards), ("suspended", 1));
        sum.add(&report("suspended", 100));
        assert_eq!((sum.state.as_str(), sum.shards), ("suspended", 2));
        assert_eq!(sum.evictions, 3 * 311);
        let mut none = PolicyReport { shadow: None, ..report("loaded", 0) };
        none.add(&report("active", 5));
        assert_eq!(none.shadow, report("active", 5).shadow);
        none.add(&PolicyReport { shadow: None, ..report("loaded", 0) });
        assert_eq!(none.shadow, report("active", 5).shadow, "one of no shadow takes none away");
    }

    #[test]
    fn what_one_shard_knows_is_told_of_all() {
        let mut sum = report("loaded", 0);
        let known = PolicyReport {
            trial: Some((4, Some(1.5))),
            state_note: "of shard 1".into(),
            last_failure: Some("it failed".into()),
            ..report("canary", 0)
        };
        sum.add(&known);
        sum.add(&report("loaded", 0));
        assert_eq!(sum.trial, known.trial);
        assert_eq!((&sum.state_note, &sum.last_failure), (&known.state_note, &known.last_failure));
        assert_eq!(sum.trial_text().unwrap(), "+1.50 points after 4 of 10 to 60 windows");
        sum.trial = Some((0, None));
        assert_eq!(sum.trial_text().unwrap(), "no gain known after 0 of 10 to 60 windows");
        (sum.state, sum.trial_ended) = ("active".into(), Some("took over".into()));
        assert_eq!(sum.trial_text().as_deref(), Some("took over"));
    }

    #[test]
    fn ratios_of_a_shadow_are_of_what_it_would_have_answered() {
        for state in ["shadow", "active"] {
            let report = report(state, 1);
            let estimate = report.shadow.as_ref().unwrap().estimate;
            let judged = if state == "shadow" { estimate } else { report.lookups };
            assert_eq!(report.judged(), judged, "{state}");
        }
    }

    #[test]
    fn of_two_states_the_one_to_tell_first_is_told_whichever_shard_has_it() {
        let states = [
            "ejected",
            "failed",
            "suspended",
            "canary",
            "active",
            "shadow",
            "standby",
            "unavailable",
            "loaded",
        ];
        for (at, first) in states.into_iter().enumerate() {
            for (other, second) in states.into_iter().enumerate() {
                let mut sum = PolicyReport { shards: 2, ..report(first, 0) };
                sum.add(&PolicyReport { shards: 3, ..report(second, 0) });
                let wanted = match at.cmp(&other) {
                    Ordering::Less => (first, 2),
                    Ordering::Equal => (first, 5),
                    Ordering::Greater => (second, 3),
                };
                assert_eq!((sum.state.as_str(), sum.shards), wanted, "{first} and {second}");
            }
        }
    }
}
