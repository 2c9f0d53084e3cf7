//! Compaction: tiers of small runs, and one large run at the end.
//!
//! The largest run holds most of a table, so only there does a second copy of a row cost much room. Lazy
//! leveling (Dayan and Idreos, "Dostoevsky", SIGMOD 2018) therefore merges as size-tiered does above, and
//! keeps the last level a single run: as few rewrites as tiers need, and little wasted space.
//!
//! ```text
//! runs by size   ▁ ▁ ▁ | ▃ ▃ | █          `ratio` runs of a tier become one
//!                    all but the last, together, reach 1/`ratio` of it: all become one
//! ```
//! Merges are incremental, so that the large one needs room for few SSTables at a time.
//!
//! Invariant: a merge takes 64 runs and 1,024 SSTables at most; of more, the smallest runs first.

use tidegate_plugin_decision::{Choice, CompactionPolicy, Job, Setup, Sstable, Table};

tidegate_plugin_decision::export_compaction!(LazyLeveling, "../../wit/v0.1");

const RATIO: u64 = 4;
/// Runs and SSTables that a merge takes at most, by the contract.
const RUNS_MAX: usize = 64;
const INPUTS_MAX: usize = 1024;
/// Runs that are smaller are of one tier, bytes.
const SMALL: u64 = 1 << 20;
/// Least bytes of an SSTable that the host takes.
const SPLIT_BYTES_MIN: u64 = 1 << 20;

/// The policy of one shard.
#[derive(Debug)]
pub struct LazyLeveling {
    ratio: u64,
    /// Merges of a tier, and of everything.
    tiers: u64,
    all: u64,
}

/// SSTables of one run.
struct Run<'a> {
    bytes: u64,
    /// The least number, so that runs of one size stand in one order.
    first: u64,
    files: Vec<&'a Sstable>,
}

impl LazyLeveling {
    /// The runs of the first tier that is full, smallest runs first.
    fn full_tier<'a, 'b>(&self, runs: &'b [Run<'a>]) -> Option<&'b [Run<'a>]> {
        let mut start = 0;
        while start < runs.len() {
            let limit = runs[start].bytes.max(SMALL).saturating_mul(self.ratio);
            let end = start + runs[start..].iter().take_while(|run| run.bytes < limit).count();
            if (end - start) as u64 >= self.ratio {
                return Some(&runs[start..end]);
            }
            start = end.max(start + 1);
        }
        None
    }
}

/// Runs in the order of their size.
fn runs_of(sstables: &[Sstable]) -> Vec<Run<'_>> {
    let mut sorted: Vec<&Sstable> = sstables.iter().collect();
    sorted.sort_unstable_by_key(|file| (file.run, file.id));
    let mut runs: Vec<Run<'_>> = sorted
        .chunk_by(|a, b| a.run == b.run)
        .map(|files| Run {
            bytes: files.iter().map(|file| file.bytes).sum(),
            first: files.iter().map(|file| file.id).min().unwrap_or_default(),
            files: files.to_vec(),
        })
        .collect();
    runs.sort_unstable_by_key(|run| (run.bytes, run.first));
    runs
}

/// A merge of the first of these runs, as many as one takes; of two at least.
fn merge(table: &Table, runs: &[Run<'_>]) -> Option<Job> {
    let mut inputs: Vec<u64> = Vec::new();
    let mut taken = 0;
    for run in runs.iter().take(RUNS_MAX) {
        if inputs.len() + run.files.len() > INPUTS_MAX {
            break;
        }
        inputs.extend(run.files.iter().map(|file| file.id));
        taken += 1;
    }
    let split_bytes = table.sstable_bytes.max(SPLIT_BYTES_MIN);
    (taken >= 2).then_some(Job { inputs, level: 0, split_bytes, incremental: true })
}

impl CompactionPolicy for LazyLeveling {
    const NAME: &'static str = "lazy-leveling";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    fn new(setup: &Setup) -> Result<Self, String> {
        setup.allow_params(&["ratio"])?;
        Ok(LazyLeveling { ratio: setup.number("ratio", RATIO, 2..=32)?, tiers: 0, all: 0 })
    }

    fn pick(&mut self, table: &Table, sstables: &[Sstable]) -> Choice {
        let runs = runs_of(sstables);
        let Some((last, others)) = runs.split_last() else { return Choice::Nothing };
        let beside: u64 = others.iter().map(|run| run.bytes).sum();
        let is_much = beside.saturating_mul(self.ratio) >= last.bytes;
        // Small runs wait for a full tier: everything is rewritten for them otherwise.
        if is_much && runs.len() as u64 >= self.ratio {
            self.all += 1;
            return merge(table, &runs).map_or(Choice::Nothing, Choice::Merge);
        }
        // The last run of a tier may be the large one: it stays.
        let Some(tier) = self.full_tier(others) else { return Choice::Nothing };
        self.tiers += 1;
        merge(table, tier).map_or(Choice::Nothing, Choice::Merge)
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![("merges of a tier", self.tiers as f64), ("merges of all", self.all as f64)]
    }
}

#[cfg(test)]
mod tests;
