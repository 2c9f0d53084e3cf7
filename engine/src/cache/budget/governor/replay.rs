//! The order in which the governor shows residents to a new policy: first the old policy's own
//! order, then by last touch what that order left out, in slices of bounded work.
//!
//! Invariant: after the replay, it has named every resident that did not come in later. Not here:
//! delivery to the policies (`mod.rs`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::slot_table::SlotTable;
use crate::policy::Slot;

/// How a swap stands after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwapStep {
    /// No swap is under way.
    Idle,
    /// Residents are left to show: step again.
    Working,
    /// The candidate is the active policy now.
    Switched,
    /// The candidate failed and left its record; the policy before goes on.
    Failed,
}

/// Residents of one sorted run.
const RUN_SLOTS_MAX: u32 = 256;

/// How far a replay is.
#[derive(Debug)]
pub(super) enum Replay {
    /// Asking the old policy, from this place of its order on.
    Drain { cursor: u32 },
    /// Sorting the rest by last touch: runs so far, from this slot on.
    Collect { next: Slot, runs: Runs },
    /// Merging the runs.
    Merge(Runs),
}

/// Sorted runs of (last touch, slot), and the first of each in a heap.
#[derive(Debug, Default)]
pub(super) struct Runs {
    runs: Vec<std::vec::IntoIter<(u64, Slot)>>,
    heads: BinaryHeap<Reverse<(u64, Slot, u32)>>,
}

impl Runs {
    fn add(&mut self, mut run: Vec<(u64, Slot)>) {
        debug_assert!(run.len() <= RUN_SLOTS_MAX as usize, "a run is sorted in bounded time");
        run.sort_unstable();
        let mut run = run.into_iter();
        if let Some((touched, slot)) = run.next() {
            self.heads.push(Reverse((touched, slot, self.runs.len() as u32)));
            self.runs.push(run);
        }
    }

    fn pop(&mut self) -> Option<Slot> {
        let Reverse((touched_first, slot, number)) = self.heads.pop()?;
        if let Some((touched, slot)) = self.runs[number as usize].next() {
            debug_assert!(touched >= touched_first, "a run is in order");
            self.heads.push(Reverse((touched, slot, number)));
        }
        Some(slot)
    }
}

impl Replay {
    /// The part that needs no old policy.
    pub fn by_last_touch() -> Self {
        Replay::Collect { next: 0, runs: Runs::default() }
    }

    /// Goes on by last touch: appends at most `max` slots, coldest first, and says whether more
    /// may follow. `is_wanted` picks the slots whose residents are shown.
    pub fn advance(
        &mut self,
        table: &SlotTable,
        is_wanted: impl Fn(Slot) -> bool,
        max: u32,
        slots: &mut Vec<Slot>,
    ) -> bool {
        match self {
            Replay::Drain { .. } => *self = Replay::by_last_touch(),
            Replay::Collect { next, runs } if *next < table.len() => {
                let end = table.len().min(next.saturating_add(RUN_SLOTS_MAX));
                let run = (*next..end).filter_map(|slot| {
                    let entry = table.lookup(slot).filter(|_| is_wanted(slot))?;
                    Some((table.last_touch(entry), slot))
                });
                runs.add(run.collect());
                *next = end;
            }
            Replay::Collect { runs, .. } => *self = Replay::Merge(std::mem::take(runs)),
            Replay::Merge(runs) => {
                for _ in 0..max {
                    let Some(slot) = runs.pop() else { return false };
                    slots.push(slot);
                }
            }
        }
        true
    }
}
