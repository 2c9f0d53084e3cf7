//! Incremental: size-tiered over runs, where a run is fragments that do not overlap.
//!
//! ScyllaDB's strategy. A merge of runs writes a run, and lets an input fragment go when it has
//! passed its last key. So it needs room for a few fragments, and not for a second copy of all.

use std::collections::BTreeMap;

use super::facts::{Choice, Facts, FileFacts, Reason};
use super::size_tiered;

/// The fullest tier of runs; or else the two largest tiers, when the smaller one of them takes more
/// room beside the other than the goal allows.
pub(super) fn choose(facts: &Facts<'_>) -> Option<Choice> {
    let options = facts.options;
    let runs = runs_of(facts.files);
    let runs: Vec<&FileFacts> = runs.iter().collect();
    if let Some(tier) = size_tiered::choose(&runs, options) {
        return Some(of_runs(&tier, facts, Reason::Tier));
    }
    let goal = options.space_amplification_goal?;
    let tiers = size_tiered::tiers(&runs, options);
    let [.., second, largest] = &tiers[..] else { return None };
    let bytes = |tier: &[&FileFacts]| tier.iter().map(|run| run.bytes).sum::<u64>() as f64;
    let amplification = 1.0 + bytes(second) / bytes(largest).max(1.0);
    if amplification <= goal.ratio() {
        return None;
    }
    let mut both = [second.as_slice(), largest].concat();
    both.truncate(options.max_threshold as usize);
    Some(of_runs(&both, facts, Reason::Space))
}

/// All runs, or the smallest of more than one merge takes; none where a merge would change nothing.
pub(super) fn major(facts: &Facts<'_>) -> Option<Choice> {
    let runs = runs_of(facts.files);
    let is_dead = |file: &FileFacts| file.droppable > 0.0 || file.is_expired || file.has_dropped;
    let has_dead = facts.files.iter().any(is_dead);
    if runs.len() < 2 && !has_dead {
        return None;
    }
    let mut runs: Vec<&FileFacts> = runs.iter().collect();
    runs.sort_by_key(|run| (run.bytes, run.number));
    runs.truncate(facts.options.max_threshold as usize);
    Some(of_runs(&runs, facts, Reason::Asked))
}

/// Each run as if it was one SSTable whose number is the run's.
fn runs_of(files: &[FileFacts]) -> Vec<FileFacts> {
    let mut runs: BTreeMap<u64, FileFacts> = BTreeMap::new();
    for file in files {
        let whole = |run: &mut FileFacts| {
            run.bytes += file.bytes;
            run.partitions += file.partitions;
            run.rows += file.rows;
            run.age_seconds = run.age_seconds.min(file.age_seconds);
        };
        let alone = || FileFacts { number: file.run, ..file.clone() };
        runs.entry(file.run).and_modify(whole).or_insert_with(alone);
    }
    runs.into_values().collect()
}

/// A merge of all fragments of these runs.
fn of_runs(runs: &[&FileFacts], facts: &Facts<'_>, reason: Reason) -> Choice {
    let is_chosen = |file: &&FileFacts| runs.iter().any(|run| run.number == file.run);
    let files = facts.files.iter().filter(is_chosen);
    Choice::run(files, facts.options.sstable_bytes, reason)
}
