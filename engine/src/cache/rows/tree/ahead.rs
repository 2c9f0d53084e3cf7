//! Looks past a gap of a partition: how far should a read that begins there go?

use super::place::PlaceRef;
use super::version::{Stop, Version};
use super::walk::{ahead_of, past};
use crate::mutation::{ClusteringRange, Direction, Position, Weight};

/// Entries that are looked at one by one in a turn, and for each so many that lie side by side and
/// are known; fewer in tests, whose partitions are small.
const LOOKED_AT_ONCE_MAX: usize = if cfg!(test) { 4 } else { 1024 };
const SIDE_BY_SIDE: usize = 32;

/// The same where entries of a partition are counted, which is not gone on with later.
const COUNTED_AT_ONCE_MAX: usize = 8 * 1024;

/// Where a read from below may end; see [`Version::ahead`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cache::rows) enum Ahead {
    /// What comes from here on, in reading order, is known: for long enough, or to the end of the
    /// range.
    Known(Position),
    /// There is no such place until here.
    Unknown(Position),
}

/// What was seen since the last gap.
struct Seen {
    worth: usize,
    looked: usize,
    known: usize,
}

impl Seen {
    fn gap(&mut self) {
        self.known = 0;
    }

    fn run(&mut self, count: usize) {
        self.known += count;
        self.looked += count / SIDE_BY_SIDE;
    }

    fn entry(&mut self) {
        self.known += 1;
        self.looked += 1;
    }

    fn is_worth_it(&self) -> bool {
        self.known >= self.worth
    }

    fn is_over(&self) -> bool {
        self.looked >= LOOKED_AT_ONCE_MAX
    }
}

impl Version {
    /// Looks along `rest`, in reading order, for the first place from which on at least `worth`
    /// entries or all of the range are known.
    pub fn ahead(&self, direction: Direction, rest: &ClusteringRange, worth: usize) -> Ahead {
        let seen = Seen { worth: worth.max(1), looked: 0, known: 0 };
        let ahead = match direction {
            Direction::Forward => self.ahead_forward(rest, seen),
            Direction::Reversed => self.ahead_reversed(rest, seen),
        };
        let (Ahead::Known(place) | Ahead::Unknown(place)) = &ahead;
        debug_assert!(
            (&rest.start..=&rest.end).contains(&place),
            "{ahead:?} is not within {rest:?}"
        );
        ahead
    }

    fn ahead_forward(&self, rest: &ClusteringRange, mut seen: Seen) -> Ahead {
        let tree = self.tree.borrow();
        let limit = PlaceRef::of(&rest.end);
        let mut entries = tree.behind(PlaceRef::of(&rest.start));
        // Where what is known begins.
        let mut since = PlaceRef::of(&rest.start);
        loop {
            let run = entries.run(limit).rows.len();
            entries.pass(run);
            seen.run(run);
            let Stop { place, claim, .. } = Stop::new(entries.next(), self.end());
            let is_beyond = place >= limit;
            if !claim.is_known_before {
                if is_beyond {
                    return Ahead::Known(rest.end.clone());
                }
                since = place;
                seen.gap();
            }
            if is_beyond || seen.is_worth_it() {
                return Ahead::Known(ahead_of(since));
            }
            seen.entry();
            if seen.is_over() {
                return Ahead::Unknown(past(place));
            }
        }
    }

    fn ahead_reversed(&self, rest: &ClusteringRange, mut seen: Seen) -> Ahead {
        let tree = self.tree.borrow();
        let first = PlaceRef::of(&rest.start);
        let mut below = tree.at(PlaceRef::of(&rest.end));
        let mut is_known = Stop::new(below.clone().next(), self.end()).claim.is_known_before;
        // Where what is known begins, going back.
        let mut since = PlaceRef::of(&rest.end);
        loop {
            if is_known {
                let run = below.run_before(first).rows.len();
                below.pass_before(run);
                seen.run(run);
            }
            let lower = below.previous().filter(|view| view.place() > first);
            let Some(view) = lower else {
                return Ahead::Known(if is_known { past(since) } else { rest.start.clone() });
            };
            let place = view.place();
            if !is_known {
                since = place;
                seen.gap();
            }
            if seen.is_worth_it() {
                return Ahead::Known(past(since));
            }
            seen.entry();
            is_known = view.claim.is_known_before;
            if seen.is_over() {
                return Ahead::Unknown(ahead_of(place));
            }
        }
    }

    /// Entries of the partition, if all of it is known; of a longer one `max` or more, if that many
    /// from its start are.
    pub fn known_entries(&self, max: usize) -> Option<usize> {
        let tree = self.tree.borrow();
        let mut entries = tree.iter();
        let mut seen = Seen { worth: max, looked: 0, known: 0 };
        while !seen.is_worth_it() {
            if seen.looked >= COUNTED_AT_ONCE_MAX {
                // What takes so long to look at is long enough.
                return Some(max);
            }
            let run = entries.run(PlaceRef::END).rows.len();
            entries.pass(run);
            seen.run(run);
            let Stop { place, claim, .. } = Stop::new(entries.next(), self.end());
            // Before what stands at the start there is no gap, nor behind the one row that there
            // can be.
            let is_start = place.prefix.is_empty() && place.weight != Weight::After;
            if is_start && place.weight == Weight::At {
                return Some(1);
            }
            if !claim.is_known_before && !is_start {
                return None;
            }
            if place == PlaceRef::END {
                return Some(seen.known);
            }
            seen.entry();
        }
        Some(seen.known)
    }
}
