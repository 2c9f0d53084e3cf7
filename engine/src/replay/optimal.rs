//! Belady's optimum: what is used again last leaves first. It knows the future, so it is no policy
//! but the bound of all policies, for entries of equal size.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use super::driver::Outcome;
use crate::trace::Trace;

const NEVER: u32 = u32::MAX;
const REQUESTS_PER_LOOK: usize = 4096;

/// The fewest misses that a cache of `entries` that keeps all it reads can have; `None` when nobody
/// wants to know any more.
pub(super) fn run(trace: &Trace, entries: u32, cancelled: &AtomicBool) -> Option<Outcome> {
    let reads = trace.reads();
    let mut next_use = vec![NEVER; reads.len()];
    let mut seen = vec![NEVER; trace.entry_count() as usize];
    for (at, read) in reads.iter().enumerate().rev() {
        next_use[at] = std::mem::replace(&mut seen[read.entry as usize], at as u32);
    }
    let mut outcome = Outcome::default();
    // Residents by their next use, and that of each entry.
    let mut residents = BTreeSet::new();
    let mut resident_use: Vec<Option<u32>> = vec![None; trace.entry_count() as usize];
    for (at, read) in reads.iter().enumerate() {
        if at % REQUESTS_PER_LOOK == 0 && cancelled.load(Ordering::Relaxed) {
            return None;
        }
        let was = resident_use[read.entry as usize];
        outcome.count(read, was.is_some());
        match was {
            Some(used) => {
                residents.remove(&(used, read.entry));
            }
            None if residents.len() == entries as usize => {
                let (_, victim) = residents.pop_last().expect("a full cache has residents");
                resident_use[victim as usize] = None;
                outcome.count_victim(trace.id(victim));
            }
            None => {}
        }
        residents.insert((next_use[at], read.entry));
        resident_use[read.entry as usize] = Some(next_use[at]);
    }
    Some(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Random;
    use crate::trace::{Request, TraceBuilder};

    fn trace(ids: &[u64]) -> Trace {
        let mut builder = TraceBuilder::default();
        for id in ids {
            let request = Request { id: *id, size_bytes: 1, kind: 0, is_hit: false, time_us: 0 };
            builder.push(request).unwrap();
        }
        builder.finish()
    }

    /// The most hits that there are from here on, whichever victims are chosen.
    fn most_hits(ids: &[u64], entries: usize, residents: &[u64]) -> u64 {
        let Some((id, rest)) = ids.split_first() else { return 0 };
        if residents.contains(id) {
            return 1 + most_hits(rest, entries, residents);
        }
        let mut full = residents.to_vec();
        full.push(*id);
        if full.len() <= entries {
            return most_hits(rest, entries, &full);
        }
        let without = |at: usize| {
            let mut kept = full.clone();
            kept.remove(at);
            most_hits(rest, entries, &kept)
        };
        (0..residents.len()).map(without).max().expect("a cache holds one entry at least")
    }

    #[test]
    fn it_is_the_best_of_all_choices_of_victims() {
        let mut random = Random::new(17);
        for _ in 0..60 {
            let ids: Vec<u64> = (0..11).map(|_| random.below(5)).collect();
            let reads = trace(&ids);
            for entries in [1, 2, 3, 5] {
                let outcome = run(&reads, entries, &AtomicBool::new(false)).unwrap();
                let wanted = most_hits(&ids, entries as usize, &[]);
                assert_eq!(outcome.hits, wanted, "{ids:?} in {entries}");
                let misses = outcome.requests - outcome.hits;
                let left = u64::from(entries.min(reads.entry_count()));
                assert_eq!((outcome.requests, outcome.evictions), (11, misses - left), "{ids:?}");
            }
        }
    }
}
