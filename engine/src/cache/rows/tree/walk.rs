//! A walk over the known part of a version. It hands out rows and changes of the tombstone in
//! force, and stops at an unknown gap.
//!
//! Invariant: a walk hands out what its version claims, whether it continues at once or later. Not
//! here: filling of gaps (`fill.rs` of the row cache).

use std::ops::ControlFlow;

use super::btree::Tree;
use super::leaf::{Claim, View};
use super::place::PlaceRef;
use super::version::{Stop, Version};
use crate::config::is_strict;
use crate::mutation::{
    ClusteringRange, Direction, FlatRow, Fragment, FragmentSink, Position, Tombstone, Weight,
};
use crate::policy::Slot;
use crate::schema::ClusteringKey;

/// Entries without rows that a walk passes before others have their turn; fewer in tests, whose
/// partitions are small.
pub(in crate::cache::rows) const PASSED_AT_ONCE_MAX: usize = if cfg!(test) { 3 } else { 1024 };

/// Rows that a walk hands over at once: what they point to is fetched side by side.
const ROWS_AT_ONCE: usize = 32;

/// Where a walk through a version stopped.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cache::rows) enum Step {
    /// The range is at its end.
    Done,
    /// The sink has enough, or others should have their turn; what is left comes with the next
    /// call.
    More,
    /// Nothing is known of this part of the range; what lies beyond it comes after.
    Gap(ClusteringRange),
}

/// What is known of a row's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cache::rows) enum Known<T> {
    All(T),
    /// Not all, or more has to be said of it.
    Part,
    Nothing,
}

/// A reader's place in a range: what is left of it, and the tombstone in force there.
#[derive(Debug)]
pub(in crate::cache::rows) struct Walk {
    pub direction: Direction,
    pub rest: ClusteringRange,
    pub in_force: Option<Tombstone>,
}

impl Walk {
    /// Where `is_strict`: a step goes on within what was left `before`, and a gap that
    /// stops it lies where it stands.
    fn check_step(&self, before: &ClusteringRange, step: &Step) {
        let Walk { rest, direction, .. } = self;
        let order = |a: &Position, b: &Position| direction.order(a, b);
        let (first, last) = (direction.first(rest), direction.last(rest));
        assert!(
            order(direction.first(before), first).is_le() && last == direction.last(before),
            "a walk over {before:?} goes on over {rest:?}"
        );
        if let Step::Gap(gap) = step {
            assert!(
                order(first, direction.first(gap)).is_le()
                    && order(direction.last(gap), last).is_le()
                    && !gap.is_empty(),
                "a walk over {rest:?} stops before {gap:?}"
            );
        }
    }
}

/// Where a walk gives what it comes to.
pub(in crate::cache::rows) struct Out<'a, S: ?Sized> {
    sink: &'a mut S,
    /// Fragments given, and those of them that are no rows.
    pub given: u64,
    others: u64,
    /// The sink takes no more, or other tasks should have their turn.
    pub is_full: bool,
    /// Entries without rows that were passed.
    pub passed: usize,
}

impl<'a, S: FragmentSink + ?Sized> Out<'a, S> {
    pub fn new(sink: &'a mut S) -> Self {
        Out { sink, given: 0, others: 0, is_full: false, passed: 0 }
    }

    /// Rows given.
    pub fn rows(&self) -> u64 {
        self.given - self.others
    }

    #[inline]
    pub fn row(&mut self, flat: &FlatRow) {
        self.given += 1;
        self.is_full |= !self.sink.row(flat);
    }

    /// Walks a run of plain entries while the sink takes more; returns how many it passed.
    #[inline]
    pub fn run<'t>(&mut self, mut run: impl Iterator<Item = &'t FlatRow> + Clone) -> usize {
        let Some(first) = run.clone().next() else { return 0 };
        let mut rows = [first; ROWS_AT_ONCE];
        let mut passed = 0;
        while !self.is_full {
            // They lie here and there, and to look at one would wait for its memory.
            run.clone().take(ROWS_AT_ONCE).for_each(FlatRow::prefetch_start);
            let mut count = 0;
            for (at, row) in rows.iter_mut().zip(run.clone().take_while(|row| row.has_row())) {
                *at = row;
                count += 1;
            }
            if count == 0 {
                if run.next().is_none() {
                    break;
                }
                self.pass();
                passed += 1;
                continue;
            }
            let taken = match self.sink.rows(&rows[..count]) {
                ControlFlow::Continue(()) => count,
                ControlFlow::Break(taken) => {
                    self.is_full = true;
                    taken
                }
            };
            debug_assert!(taken > 0 && taken <= count, "a sink takes some of what it gets");
            self.given += taken as u64;
            passed += taken;
            run.nth(taken - 1);
        }
        passed
    }

    /// Passes an entry that has no row: that takes time as well.
    #[inline]
    fn pass(&mut self) {
        self.passed += 1;
        self.is_full |= self.passed >= PASSED_AT_ONCE_MAX;
    }

    #[inline]
    pub fn give(&mut self, fragment: Fragment) {
        self.given += 1;
        self.others += 1;
        self.is_full |= !self.sink.fragment(fragment);
    }

    /// Says that another tombstone is in force, if it is another.
    #[inline]
    fn change(
        &mut self,
        in_force: &mut Option<Tombstone>,
        tombstone: Option<Tombstone>,
        at: impl FnOnce() -> Position,
    ) {
        if *in_force != tombstone {
            *in_force = tombstone;
            self.give(Fragment::RangeTombstoneChange { position: at(), tombstone });
        }
    }
}

/// The prefix, mostly the key of a row, that a range stands for: it is looked up instead of walked
/// over.
#[inline]
pub(in crate::cache::rows) fn sought(range: &ClusteringRange) -> Option<&ClusteringKey> {
    range.as_prefix().filter(|prefix| !prefix.is_empty())
}

/// The slot of the entry that says where a known stretch begins, if one stands at this lower bound.
/// A walk uses it as well: without it nothing behind it is known.
fn bound_slot(tree: &Tree, start: &Position) -> Option<Slot> {
    let place = PlaceRef::of(start);
    // Nothing needs an entry at the start, and a row that stands here was given before.
    let is_bound = !place.prefix.is_empty() && place.weight != Weight::At;
    if is_bound { tree.get(place).map(|view| view.claim.slot) } else { None }
}

/// The first place after which a row may follow `place`.
pub(super) fn past(place: PlaceRef<'_>) -> Position {
    let weight = if place.weight == Weight::At { Weight::After } else { place.weight };
    debug_assert!(weight != Weight::At, "a walk goes on beside a row");
    PlaceRef { weight, ..place }.position()
}

/// The last place before which a row may precede `place`.
pub(super) fn ahead_of(place: PlaceRef<'_>) -> Position {
    let weight = if place.weight == Weight::At { Weight::Before } else { place.weight };
    PlaceRef { weight, ..place }.position()
}
impl Version {
    /// Gives fragments of what is left of `walk` until there is enough, and adds the slots of the
    /// entries that were used to `used`.
    pub fn walk<S: FragmentSink + ?Sized>(
        &self,
        walk: &mut Walk,
        out: &mut Out<'_, S>,
        used: &mut Vec<Slot>,
    ) -> Step {
        if let Some(step) = self.walk_row(walk, out, used) {
            return step;
        }
        let before = is_strict().then(|| walk.rest.clone());
        let step = match walk.direction {
            Direction::Forward => self.walk_forward(walk, out, used),
            Direction::Reversed => self.walk_reversed(walk, out, used),
        };
        if let Some(before) = before {
            walk.check_step(&before, &step);
        }
        step
    }

    /// A walk over the place of one row that has an entry: the commonest, and a look-up.
    fn walk_row<S: FragmentSink + ?Sized>(
        &self,
        walk: &mut Walk,
        out: &mut Out<'_, S>,
        used: &mut Vec<Slot>,
    ) -> Option<Step> {
        let Walk { rest, in_force, direction } = walk;
        let key = sought(rest)?;
        let change = |tombstone, is_start| {
            let position = if is_start { direction.first(rest) } else { direction.last(rest) };
            *in_force = tombstone;
            Fragment::RangeTombstoneChange { position: position.clone(), tombstone }
        };
        let found = self.look_up(key.as_ordered(), out, used, change);
        found.then_some(Step::Done)
    }

    /// What is known of the row with this key, or of its absence, and the claim of the entry that
    /// knows.
    #[inline]
    fn known<'a>(&self, tree: &'a Tree, key: &[u8]) -> Known<(Option<&'a FlatRow>, Claim)> {
        let next = match tree.find(PlaceRef::row(key)) {
            Ok(View { flat, claim }) => return Known::All((flat.has_row().then_some(flat), claim)),
            Err(next) => next,
        };
        let Stop { place, claim, .. } = Stop::new(next, self.end());
        match claim {
            // An entry of this key that is no row says something of what is beside the row.
            _ if place.prefix.starts_with(key) => Known::Part,
            Claim { is_known_before: false, .. } => Known::Nothing,
            Claim { tombstone: Some(_), .. } => Known::Part,
            claim => Known::All((None, claim)),
        }
    }

    /// The row with this key, or that there is none, and the slot of the entry that knows.
    #[inline]
    pub fn at_hand(&self, key: &[u8]) -> Known<(Option<FlatRow>, Slot)> {
        let tree = self.tree.borrow();
        match self.known(&tree, key) {
            Known::All((flat, Claim { tombstone: None, slot, .. })) => {
                Known::All((flat.cloned(), slot))
            }
            Known::All(_) | Known::Part => Known::Part,
            Known::Nothing => Known::Nothing,
        }
    }

    /// The row with this key, where it is known, between the `change`s to the tombstone that is in
    /// force there and back; false where it is not known, or where more has to be said of it. Adds
    /// the slot of the entry that knows to `used`.
    fn look_up<S: FragmentSink + ?Sized>(
        &self,
        key: &[u8],
        out: &mut Out<'_, S>,
        used: &mut Vec<Slot>,
        mut change: impl FnMut(Option<Tombstone>, bool) -> Fragment,
    ) -> bool {
        let tree = self.tree.borrow();
        let Known::All((flat, claim)) = self.known(&tree, key) else { return false };
        used.push(claim.slot);
        if claim.tombstone.is_some() {
            out.give(change(claim.tombstone, true));
        }
        if let Some(flat) = flat {
            out.row(flat);
        }
        if claim.tombstone.is_some() {
            out.give(change(None, false));
        }
        true
    }

    fn walk_forward<S: FragmentSink + ?Sized>(
        &self,
        walk: &mut Walk,
        out: &mut Out<'_, S>,
        used: &mut Vec<Slot>,
    ) -> Step {
        let tree = self.tree.borrow();
        let Walk { rest: ClusteringRange { start, end }, in_force, .. } = walk;
        used.extend(bound_slot(&tree, start));
        let mut entries = tree.behind(PlaceRef::of(start));
        let last_place = PlaceRef::of(end);
        // The entry behind which the walk stands; at the start of the range there is none.
        let mut last: Option<PlaceRef<'_>> = None;
        loop {
            if in_force.is_none() {
                // Mostly there is nothing but rows in known stretches.
                let run = entries.run(last_place);
                let passed = out.run(run.rows.iter());
                used.extend_from_slice(&run.slots[..passed]);
                if let Some(row) = run.rows[..passed].last() {
                    let place = PlaceRef::of_flat(row);
                    last = Some(place);
                    if out.is_full {
                        *start = place.position();
                        return Step::More;
                    }
                }
                entries.pass(passed);
            }
            let Stop { place, flat, claim } = Stop::new(entries.next(), self.end());
            let here = || last.map_or_else(|| past(PlaceRef::of(start)), past);
            let is_beyond = place >= last_place;
            if claim.is_known_before {
                out.change(in_force, claim.tombstone, here);
            } else {
                let until = if is_beyond { end.clone() } else { ahead_of(place) };
                let gap = ClusteringRange { start: here(), end: until };
                if !gap.is_empty() {
                    out.change(in_force, None, || gap.start.clone());
                    if let Some(last) = last {
                        *start = last.position();
                    }
                    return Step::Gap(gap);
                }
            }
            let Some(flat) = flat.filter(|_| !is_beyond) else {
                out.change(in_force, None, || end.clone());
                if claim.is_known_before {
                    used.push(claim.slot);
                }
                return Step::Done;
            };
            used.push(claim.slot);
            if place.weight == Weight::At {
                // Also where the row is absent: a source beside this one may have it.
                out.change(in_force, claim.tombstone, || ahead_of(place));
            }
            match flat.has_row() {
                true => out.row(flat),
                false => out.pass(),
            }
            if out.is_full {
                *start = place.position();
                return Step::More;
            }
            last = Some(place);
        }
    }

    fn walk_reversed<S: FragmentSink + ?Sized>(
        &self,
        walk: &mut Walk,
        out: &mut Out<'_, S>,
        used: &mut Vec<Slot>,
    ) -> Step {
        let tree = self.tree.borrow();
        let Walk { rest: ClusteringRange { start, end }, in_force, .. } = walk;
        let top = PlaceRef::of(end);
        let first_place = PlaceRef::of(start);
        let mut below = tree.at(top);
        let mut upper = Stop::new(below.clone().next(), self.end()).claim;
        // The entry before which the walk stands; at the end of the range there is none.
        let mut last: Option<PlaceRef<'_>> = None;
        loop {
            if in_force.is_none() && upper.is_known_before && upper.tombstone.is_none() {
                // Mostly there is nothing but rows in known stretches.
                let run = below.run_before(first_place);
                let passed = out.run(run.rows.iter().rev());
                let from = run.rows.len() - passed;
                if let [slot, others @ ..] = &run.slots[from..] {
                    used.push(upper.slot);
                    used.extend(others.iter().rev());
                    upper.slot = *slot;
                    let place = PlaceRef::of_flat(&run.rows[from]);
                    last = Some(place);
                    if out.is_full {
                        used.push(upper.slot);
                        *end = place.position();
                        return Step::More;
                    }
                }
                below.pass_before(passed);
            }
            let here = || last.map_or_else(|| ahead_of(PlaceRef::of(end)), ahead_of);
            let lower = below.previous().map(|view| Stop::new(Some(view), upper));
            let lower = lower.filter(|stop| stop.place > first_place);
            if upper.is_known_before {
                out.change(in_force, upper.tombstone, here);
                used.push(upper.slot);
            } else {
                let from = lower.map_or_else(|| start.clone(), |stop| past(stop.place));
                let gap = ClusteringRange { start: from, end: here() };
                if !gap.is_empty() {
                    out.change(in_force, None, || gap.end.clone());
                    if let Some(last) = last {
                        *end = last.position();
                    }
                    return Step::Gap(gap);
                }
            }
            let Some(stop) = lower else {
                out.change(in_force, None, || start.clone());
                used.extend(bound_slot(&tree, start));
                return Step::Done;
            };
            let Stop { place, claim, .. } = stop;
            if place.weight == Weight::At {
                out.change(in_force, claim.tombstone, || past(place));
            }
            match stop.row() {
                Some(flat) => out.row(flat),
                None => out.pass(),
            }
            if !claim.is_known_before || out.is_full {
                // Else the next step tells of it.
                used.push(claim.slot);
            }
            upper = claim;
            if out.is_full {
                *end = place.position();
                return Step::More;
            }
            last = Some(place);
        }
    }
}
