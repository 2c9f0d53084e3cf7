//! What is known of one partition as of one state of its data: rows, and for every gap between
//! neighbours whether everything in it is known.
//!
//! ```text
//! entry      a          b              c            end
//! known      no         yes            no           yes
//!       ?????|a|........|b|????????????|c|..........|
//! ```
//! An entry's `is_known_before` says that nothing else lies between its predecessor and it; there
//! its `tombstone` is in force, and at the entry itself in any case. An entry without a row is a
//! dummy: at a key it says that the row is absent, elsewhere it bounds a known stretch. The entry
//! at the end of the partition is always there.
//!
//! Invariant: what an entry claims is true of the SSTables that this version stands for. A version
//! never changes in what it says, only in how much it knows; other data is another version.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::rc::Rc;

use super::leaf::{Claim, View};
use super::place::PlaceRef;
use super::tree::Tree;
use super::{CachedEntry, CachedPartition};
use crate::mutation::tombstone::strongest;
use crate::mutation::{
    ClusteringRange, Direction, FlatRow, Fragment, FragmentSink, Position, RangeTombstone, Row,
    Tombstone, Weight,
};
use crate::policy::Slot;
use crate::schema::ClusteringKey;

/// No slot: the entry is not offered for eviction.
pub(super) const NO_SLOT: Slot = Slot::MAX;

/// Entries without rows that a walk passes before others have their turn; fewer in tests, whose
/// partitions are small.
pub(super) const PASSED_AT_ONCE_MAX: usize = if cfg!(test) { 3 } else { 1024 };

/// Rows that a walk hands over at once: what they point to is fetched side by side.
const ROWS_AT_ONCE: usize = 32;

/// One version of a partition; copying it copies the root of its tree.
#[derive(Debug, Clone)]
pub(super) struct Version {
    /// All entries but that at the end.
    pub(super) tree: RefCell<Tree>,
    /// What few partitions have.
    rare: RefCell<Option<Box<Rare>>>,
    end_slot: Cell<Slot>,
    is_end_known: Cell<bool>,
}

const _: () = assert!(size_of::<Version>() == 48);

#[derive(Debug, Clone, Default)]
struct Rare {
    deletion: Option<Tombstone>,
    static_row: Option<Rc<Row>>,
    /// What the entry at the end says.
    end_tombstone: Option<Tombstone>,
}

/// An entry that a walk comes to.
#[derive(Clone, Copy)]
pub(super) struct Stop<'a> {
    pub(super) place: PlaceRef<'a>,
    /// `None` at the end of the partition.
    flat: Option<&'a FlatRow>,
    pub(super) claim: Claim,
}

impl<'a> Stop<'a> {
    #[inline]
    pub(super) fn new(view: Option<View<'a>>, end: Claim) -> Self {
        match view {
            Some(view) => Stop { place: view.place(), flat: Some(view.flat), claim: view.claim },
            None => Stop { place: PlaceRef::END, flat: None, claim: end },
        }
    }

    #[inline]
    fn row(&self) -> Option<&'a FlatRow> {
        self.flat.filter(|flat| flat.has_row())
    }
}

/// Where a walk through a version stopped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
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
pub(super) enum Known<T> {
    All(T),
    /// Not all, or more has to be said of it.
    Part,
    Nothing,
}

/// A reader's place in a range: what is left of it, and the tombstone in force there.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) direction: Direction,
    pub(super) rest: ClusteringRange,
    pub(super) in_force: Option<Tombstone>,
}

/// Where a walk gives what it comes to.
pub(super) struct Out<'a, S: ?Sized> {
    sink: &'a mut S,
    /// Fragments given.
    pub(super) given: u64,
    /// The sink wants no more, or others should have their turn.
    pub(super) is_full: bool,
    /// Entries without rows that were passed.
    pub(super) passed: usize,
}

impl<'a, S: FragmentSink + ?Sized> Out<'a, S> {
    pub(super) fn new(sink: &'a mut S) -> Self {
        Out { sink, given: 0, is_full: false, passed: 0 }
    }

    #[inline]
    pub(super) fn row(&mut self, flat: &FlatRow) {
        self.given += 1;
        self.is_full |= !self.sink.row(flat);
    }

    /// Goes along a run of plain entries as long as more is wanted; returns how many were passed.
    #[inline]
    fn run<'t>(&mut self, mut run: impl Iterator<Item = &'t FlatRow> + Clone) -> usize {
        let Some(first) = run.clone().next() else { return 0 };
        let mut rows = [first; ROWS_AT_ONCE];
        let mut passed = 0;
        while !self.is_full {
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
    pub(super) fn give(&mut self, fragment: Fragment) {
        self.given += 1;
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
pub(super) fn sought(range: &ClusteringRange) -> Option<&ClusteringKey> {
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
    PlaceRef { weight, ..place }.position()
}

/// The last place before which a row may precede `place`.
pub(super) fn ahead_of(place: PlaceRef<'_>) -> Position {
    let weight = if place.weight == Weight::At { Weight::Before } else { place.weight };
    PlaceRef { weight, ..place }.position()
}

impl Version {
    /// A version that knows nothing of rows, or, with `is_known`, that there are none.
    pub(super) fn new(
        deletion: Option<Tombstone>,
        static_row: Option<Rc<Row>>,
        slot: Slot,
        is_known: bool,
    ) -> Self {
        let rare = Rare { deletion, static_row, end_tombstone: None };
        let has_some = rare.deletion.is_some() || rare.static_row.is_some();
        Version {
            tree: RefCell::default(),
            rare: RefCell::new(has_some.then(|| Box::new(rare))),
            end_slot: Cell::new(slot),
            is_end_known: Cell::new(is_known),
        }
    }

    pub(super) fn deletion(&self) -> Option<Tombstone> {
        self.rare.borrow().as_ref().and_then(|rare| rare.deletion)
    }

    pub(super) fn static_row(&self) -> Option<Rc<Row>> {
        self.rare.borrow().as_ref().and_then(|rare| rare.static_row.clone())
    }

    /// Merges the deletion of the partition in.
    pub(super) fn merge_deletion(&self, deletion: Option<Tombstone>) {
        if deletion.is_some() {
            let mut rare = self.rare.borrow_mut();
            let own = &mut rare.get_or_insert_default().deletion;
            *own = strongest(*own, deletion);
        }
    }

    pub(super) fn merge_static_row(&self, row: Rc<Row>) {
        match &mut self.rare.borrow_mut().get_or_insert_default().static_row {
            Some(own) => Rc::make_mut(own).merge(&row),
            none => *none = Some(row),
        }
    }

    /// What the entry at the end says.
    #[inline]
    pub(super) fn end(&self) -> Claim {
        Claim {
            tombstone: self.rare.borrow().as_ref().and_then(|rare| rare.end_tombstone),
            slot: self.end_slot.get(),
            is_known_before: self.is_end_known.get(),
        }
    }

    fn set_end(&self, end: Claim) {
        let Claim { tombstone, slot, is_known_before } = end;
        self.end_slot.set(slot);
        self.is_end_known.set(is_known_before);
        let mut rare = self.rare.borrow_mut();
        if tombstone.is_some() || rare.is_some() {
            rare.get_or_insert_default().end_tombstone = tombstone;
        }
    }

    /// Gives up room for further entries around a place.
    pub(super) fn fit(&self, place: PlaceRef<'_>) {
        self.tree.borrow_mut().fit(place);
    }

    /// Gives fragments of what is left of `walk` until there is enough, and adds the slots of the
    /// entries that were used to `used`.
    pub(super) fn walk<S: FragmentSink + ?Sized>(
        &self,
        walk: &mut Walk,
        out: &mut Out<'_, S>,
        used: &mut Vec<Slot>,
    ) -> Step {
        if let Some(step) = self.walk_row(walk, out, used) {
            return step;
        }
        match walk.direction {
            Direction::Forward => self.walk_forward(walk, out, used),
            Direction::Reversed => self.walk_reversed(walk, out, used),
        }
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
    pub(super) fn at_hand(&self, key: &[u8]) -> Known<(Option<FlatRow>, Slot)> {
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

    /// The entry at a place, if one stands there; not that at the end.
    pub(super) fn entry_at(&self, place: PlaceRef<'_>) -> Option<FlatRow> {
        self.tree.borrow().get(place).map(|view| view.flat.clone())
    }

    /// The entry that stands at a bound of a gap, or is the row beside it on the side
    /// `Weight::After` of the row for a lower bound, `Weight::Before` for an upper one.
    pub(super) fn place_at(&self, bound: &Position, row_side: Weight) -> Option<FlatRow> {
        let place = PlaceRef::of(bound);
        if place == PlaceRef::END {
            return Some(place.flat());
        }
        let beside = || {
            let row = PlaceRef::row(place.prefix);
            (bound.weight == row_side).then(|| self.entry_at(row)).flatten()
        };
        self.entry_at(place).or_else(beside)
    }

    /// Puts an entry in where none stands, of which nothing is known before it. Inside a known
    /// stretch it splits that.
    pub(super) fn insert(&self, flat: FlatRow, tombstone: Option<Tombstone>, slot: Slot) {
        let next = self.next(PlaceRef::of_flat(&flat));
        let claim = match next.is_known_before {
            true => Claim { slot, ..next },
            false => Claim { tombstone, slot, is_known_before: false },
        };
        self.tree.borrow_mut().insert(flat, claim);
    }

    /// What the entry behind a place says.
    fn next(&self, place: PlaceRef<'_>) -> Claim {
        Stop::new(self.tree.borrow().behind(place).next(), self.end()).claim
    }

    /// Changes what the entry behind a place says of the gap before it.
    fn change_next(&self, place: PlaceRef<'_>, change: impl FnOnce(Claim) -> bool) {
        let mut tree = self.tree.borrow_mut();
        let Some(View { flat, claim }) = tree.behind(place).next() else {
            let end = self.end();
            self.set_end(Claim { is_known_before: change(end), ..end });
            return;
        };
        let is_known = change(claim);
        // Mostly it stays, and the row is not looked at: it lies apart.
        if is_known != claim.is_known_before {
            let next = flat.clone();
            tree.change(PlaceRef::of_flat(&next), |mut entry| entry.set_known_before(is_known));
        }
    }

    /// Says that nothing lies between two entries and that `tombstone` is in force there, unless
    /// one of them has gone meanwhile. True when it was said. `None` where a further entry just
    /// before `upper` has to bear the tombstone.
    pub(super) fn link(
        &self,
        lower: PlaceRef<'_>,
        upper: PlaceRef<'_>,
        tombstone: Option<Tombstone>,
    ) -> Option<bool> {
        let mut tree = self.tree.borrow_mut();
        if tree.get(lower).is_none() {
            return Some(false);
        }
        if upper == PlaceRef::END {
            let end = self.end();
            if !end.is_known_before {
                self.set_end(Claim { tombstone, is_known_before: true, ..end });
            }
            return Some(true);
        }
        let linked = tree.change(upper, |mut entry| {
            let claim = entry.claim();
            if claim.is_known_before {
                return Some(true);
            }
            if claim.tombstone != tombstone {
                if upper.weight == Weight::At {
                    return None;
                }
                entry.set_tombstone(tombstone);
            }
            entry.set_known_before(true);
            Some(true)
        });
        linked.unwrap_or(Some(false))
    }

    /// The first entry that stands between two places.
    pub(super) fn first_between(
        &self,
        lower: PlaceRef<'_>,
        upper: PlaceRef<'_>,
    ) -> Option<FlatRow> {
        let tree = self.tree.borrow();
        tree.behind(lower).next().filter(|view| view.place() < upper).map(|view| view.flat.clone())
    }

    /// Takes an entry out and with it what was known of the gaps beside it.
    pub(super) fn evict(&self, place: PlaceRef<'_>) {
        if place == PlaceRef::END {
            self.set_end(Claim { tombstone: None, slot: NO_SLOT, is_known_before: false });
            return;
        }
        let Some((flat, gone)) = self.tree.borrow_mut().remove(place) else { return };
        let is_bound = !flat.has_row() && place.weight != Weight::At;
        self.change_next(place, |next| {
            // Nothing lies before the start.
            let is_start = place.prefix.is_empty();
            let joins =
                is_bound && (is_start || gone.is_known_before && gone.tombstone == next.tombstone);
            next.is_known_before && joins
        });
    }

    /// The tombstone at an entry.
    pub(super) fn tombstone_at(&self, place: PlaceRef<'_>) -> Option<Tombstone> {
        self.tree.borrow().get(place).and_then(|view| view.claim.tombstone)
    }

    /// What the entry at a place says; it must stand there.
    #[cfg(test)]
    pub(super) fn claim_at(&self, place: PlaceRef<'_>) -> Claim {
        let found = self.tree.borrow().get(place).map(|view| view.claim);
        found.unwrap_or_else(|| self.end())
    }

    /// The slot of the entry at the end.
    pub(super) fn set_slot(&self, slot: Slot) {
        self.set_end(Claim { slot, ..self.end() });
    }

    /// All entries, that at the end too.
    fn stops<'a>(&self, tree: &'a Tree) -> impl Iterator<Item = Stop<'a>> {
        let end = Stop::new(None, self.end());
        tree.iter().map(move |view| Stop::new(Some(view), end.claim)).chain([end])
    }

    /// Of up to `max` gaps, how many are known, and how many there were.
    pub(super) fn continuity(&self, max: usize) -> (u64, u64) {
        let tree = self.tree.borrow();
        let (mut known, mut seen) = (0, 0);
        // Before an entry at the start there is no gap.
        let is_start =
            |stop: &Stop<'_>| stop.place.prefix.is_empty() && stop.place.weight == Weight::Before;
        for stop in self.stops(&tree).skip_while(is_start).take(max) {
            known += u64::from(stop.claim.is_known_before);
            seen += 1;
        }
        (known, seen)
    }

    /// Up to `max` entries, for people to look at.
    pub(super) fn inspect(&self, max: usize) -> CachedPartition {
        let tree = self.tree.borrow();
        let entries = self.stops(&tree).take(max).map(|stop| CachedEntry {
            position: stop.place.position(),
            newest: stop.row().and_then(|flat| flat.thaw().newest_timestamp()),
            tombstone: stop.claim.tombstone,
            is_known_before: stop.claim.is_known_before,
        });
        let entries = entries.collect();
        CachedPartition {
            deletion: self.deletion(),
            has_static_row: self.static_row().is_some(),
            entries,
        }
    }

    /// Up to `max` entries from the start, with their slots.
    pub(super) fn slots(&self, max: usize) -> Vec<(FlatRow, Slot)> {
        let tree = self.tree.borrow();
        let place = |stop: Stop<'_>| stop.flat.cloned().unwrap_or_else(|| stop.place.flat());
        self.stops(&tree).take(max).map(|stop| (place(stop), stop.claim.slot)).collect()
    }

    /// Whether nothing but the end is left, and that not offered for eviction.
    pub(super) fn is_spent(&self) -> bool {
        self.end().slot == NO_SLOT && self.tree.borrow().is_empty()
    }

    /// What a write of the row `key` meets here.
    pub(super) fn at_row(&self, key: &[u8]) -> AtRow {
        let tree = self.tree.borrow();
        let place = PlaceRef::row(key);
        let stop = Stop::new(tree.at(place).next(), self.end());
        match stop.claim {
            claim if stop.place == place => AtRow::Entry(claim.slot),
            claim if claim.is_known_before => AtRow::Known,
            _ => AtRow::Unknown,
        }
    }

    /// Merges a row into the entry that stands at its key; returns it as it is now.
    pub(super) fn merge_row(&self, key: &[u8], row: &Row) -> FlatRow {
        let merged = self.tree.borrow_mut().change(PlaceRef::row(key), |mut entry| {
            let flat = if entry.flat().has_row() {
                let mut own = entry.flat().thaw();
                own.merge(row);
                FlatRow::row(key, &own)
            } else {
                FlatRow::row(key, row)
            };
            entry.set_row(flat.clone());
            flat
        });
        merged.expect("an entry stands there")
    }

    /// Forgets that anything is known of the gap in which a place without an entry lies.
    pub(super) fn forget_gap(&self, place: PlaceRef<'_>) {
        self.change_next(place, |_| false);
    }

    /// Whether `position` lies inside a known stretch with no entry at it: a tombstone that begins
    /// or ends there needs one.
    pub(super) fn needs_bound(&self, position: &Position) -> bool {
        let tree = self.tree.borrow();
        let place = PlaceRef::of(position);
        let stop = Stop::new(tree.at(place).next(), self.end());
        stop.place != place && stop.claim.is_known_before
    }

    /// Puts a range tombstone over up to `max` entries from `from` on; the bounds of the tombstone
    /// have entries where they lie in known stretches. Returns where to go on.
    pub(super) fn cover(
        &self,
        from: &Position,
        deletion: &RangeTombstone,
        max: usize,
    ) -> Option<Position> {
        let mut tree = self.tree.borrow_mut();
        let end = PlaceRef::of(&deletion.range.end);
        let mut covered: Vec<FlatRow> = tree
            .behind(PlaceRef::of(from))
            .take_while(|view| view.place() <= end)
            .take(max + 1)
            .map(|view| view.flat.clone())
            .collect();
        let is_more = covered.len() > max;
        covered.truncate(max);
        let all = |own: Option<Tombstone>| strongest(own, Some(deletion.tombstone));
        for flat in &covered {
            tree.change(PlaceRef::of_flat(flat), |mut entry| {
                entry.set_tombstone(all(entry.claim().tombstone));
            });
        }
        if is_more {
            return covered.last().map(FlatRow::position);
        }
        if end == PlaceRef::END {
            let claim = self.end();
            self.set_end(Claim { tombstone: all(claim.tombstone), ..claim });
        }
        None
    }
}

/// What a write of a row meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtRow {
    /// An entry, with this slot.
    Entry(Slot),
    /// A gap of which everything is known.
    Known,
    Unknown,
}
