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
