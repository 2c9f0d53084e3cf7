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
//! dummy: at a key it says that the row is absent, elsewhere it bounds a known stretch. The entry at
//! the end of the partition is always there.
//!
//! Invariant: what an entry claims is true of the SSTables that this version stands for. A version
//! never changes in what it says, only in how much it knows; other data is another version.

use std::cell::{Cell, RefCell};
use std::ops::Bound;
use std::rc::Rc;

use super::place::{Place, PlaceRef};
use super::{CachedEntry, CachedPartition};
use crate::mutation::tombstone::strongest;
use crate::mutation::{
    ClusteringRange, Direction, Fragment, Position, RangeTombstone, Row, Tombstone, Weight,
};
use crate::persistent::Map;
use crate::policy::Slot;
use crate::schema::ClusteringKey;

/// No slot: the entry is not offered for eviction.
pub(super) const NO_SLOT: Slot = Slot::MAX;

/// See the head of this file.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) row: Option<Rc<Row>>,
    pub(super) tombstone: Option<Tombstone>,
    pub(super) slot: Slot,
    pub(super) is_known_before: bool,
}

pub(super) type Tree = Map<Place, Entry>;

/// One version of a partition; copying it copies the root of its tree.
#[derive(Debug, Clone)]
pub(super) struct Version {
    pub(super) deletion: Cell<Option<Tombstone>>,
    pub(super) static_row: RefCell<Option<Rc<Row>>>,
    pub(super) tree: RefCell<Tree>,
}

/// Where a walk through a version stopped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The range is at its end.
    Done,
    /// Enough fragments were given; call again.
    More,
    /// Nothing is known of this part of the range; what lies beyond it comes after.
    Gap(ClusteringRange),
}

/// A reader's place in a range: what is left of it, and the tombstone in force there.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) direction: Direction,
    pub(super) rest: ClusteringRange,
    pub(super) in_force: Option<Tombstone>,
}

/// Says that another tombstone is in force, if it is another.
fn change(
    in_force: &mut Option<Tombstone>,
    tombstone: Option<Tombstone>,
    at: impl FnOnce() -> Position,
    out: &mut impl Extend<Fragment>,
) {
    if *in_force != tombstone {
        *in_force = tombstone;
        out.extend([Fragment::RangeTombstoneChange { position: at(), tombstone }]);
    }
}

/// The first place after which a row may follow `position`.
fn past(position: &Position) -> Position {
    let weight = if position.weight == Weight::At { Weight::After } else { position.weight };
    Position { prefix: position.prefix.clone(), weight }
}

/// The last place before which a row may precede `position`.
fn ahead_of(position: &Position) -> Position {
    let weight = if position.weight == Weight::At { Weight::Before } else { position.weight };
    Position { prefix: position.prefix.clone(), weight }
}

impl Version {
    /// A version that knows nothing of rows, or, with `is_known`, that there are none.
    pub(super) fn new(
        deletion: Option<Tombstone>,
        static_row: Option<Rc<Row>>,
        slot: Slot,
        is_known: bool,
    ) -> Self {
        let end = Entry { row: None, tombstone: None, slot, is_known_before: is_known };
        Version {
            deletion: Cell::new(deletion),
            static_row: RefCell::new(static_row),
            tree: RefCell::new([(Place::of(&Position::end()), end)].into_iter().collect()),
        }
    }

    /// Gives fragments of what is left of `walk`, about `max`, and tells `touch` the slots of the
    /// entries that were used.
    pub(super) fn walk<E: Extend<Fragment>>(
        &self,
        walk: &mut Walk,
        max: usize,
        out: &mut E,
        touch: &mut dyn FnMut(Slot),
    ) -> Step {
        if let Some(step) = self.walk_row(walk, out, touch) {
            return step;
        }
        match walk.direction {
            Direction::Forward => self.walk_forward(walk, max, out, touch),
            Direction::Reversed => self.walk_reversed(walk, max, out, touch),
        }
    }

    /// A walk over the place of one row that has an entry: the commonest, and a look-up.
    fn walk_row<E: Extend<Fragment>>(
        &self,
        walk: &mut Walk,
        out: &mut E,
        touch: &mut dyn FnMut(Slot),
    ) -> Option<Step> {
        let Walk { rest: ClusteringRange { start, end }, in_force, direction } = walk;
        let is_row = (start.weight, end.weight) == (Weight::Before, Weight::After)
            && !start.prefix.is_empty()
            && start.prefix == end.prefix;
        if !is_row {
            return None;
        }
        let tree = self.tree.borrow();
        let row = PlaceRef { prefix: start.prefix.as_ordered(), weight: Weight::At };
        let (place, entry) = tree.get_key_value(&row)?;
        touch(entry.slot);
        let (first, last) = match direction {
            Direction::Forward => (&*start, &*end),
            Direction::Reversed => (&*end, &*start),
        };
        change(in_force, entry.tombstone, || first.clone(), out);
        if let Some(row) = &entry.row {
            out.extend([Fragment::Row { key: place.prefix.clone(), row: row.clone() }]);
        }
        change(in_force, None, || last.clone(), out);
        Some(Step::Done)
    }

    fn walk_forward<E: Extend<Fragment>>(
        &self,
        walk: &mut Walk,
        max: usize,
        out: &mut E,
        touch: &mut dyn FnMut(Slot),
    ) -> Step {
        let tree = self.tree.borrow();
        let Walk { rest: ClusteringRange { start, end }, in_force, .. } = walk;
        let from = (Bound::Excluded(PlaceRef::of(start)), Bound::Unbounded);
        // The entry behind which the walk stands; at the start of the range there is none.
        let mut last: Option<&Place> = None;
        let mut given = 0;
        for (place, entry) in tree.range::<_, PlaceRef<'_>>(from) {
            let here = || last.map_or_else(|| past(start), |last| past(&last.position()));
            let is_beyond = place.as_ref() >= PlaceRef::of(end);
            if entry.is_known_before {
                change(in_force, entry.tombstone, here, out);
            } else {
                let until = if is_beyond { end.clone() } else { ahead_of(&place.position()) };
                let gap = ClusteringRange { start: here(), end: until };
                if !gap.is_empty() {
                    change(in_force, None, || gap.start.clone(), out);
                    if let Some(last) = last {
                        *start = last.position();
                    }
                    return Step::Gap(gap);
                }
            }
            if is_beyond {
                change(in_force, None, || end.clone(), out);
                if entry.is_known_before {
                    touch(entry.slot);
                }
                return Step::Done;
            }
            touch(entry.slot);
            if place.weight == Weight::At {
                // Also where the row is absent: a source beside this one may have it.
                change(in_force, entry.tombstone, || ahead_of(&place.position()), out);
            }
            if let Some(row) = &entry.row {
                out.extend([Fragment::Row { key: place.prefix.clone(), row: row.clone() }]);
                given += 1;
            }
            if given >= max {
                *start = place.position();
                return Step::More;
            }
            last = Some(place);
        }
        unreachable!("the entry at the end of a partition is always there")
    }

    fn walk_reversed<E: Extend<Fragment>>(
        &self,
        walk: &mut Walk,
        max: usize,
        out: &mut E,
        touch: &mut dyn FnMut(Slot),
    ) -> Step {
        let tree = self.tree.borrow();
        let Walk { rest: ClusteringRange { start, end }, in_force, .. } = walk;
        let top = PlaceRef::of(end);
        let (_, mut upper) = tree
            .range::<_, PlaceRef<'_>>((Bound::Included(top), Bound::Unbounded))
            .next()
            .expect("the entry at the end of a partition is always there");
        let mut below = tree.range::<_, PlaceRef<'_>>((Bound::Unbounded, Bound::Excluded(top)));
        // The entry before which the walk stands; at the end of the range there is none.
        let mut last: Option<&Place> = None;
        let mut given = 0;
        loop {
            let here = || last.map_or_else(|| ahead_of(end), |last| ahead_of(&last.position()));
            let lower = below.next_back().filter(|(place, _)| place.as_ref() > PlaceRef::of(start));
            if upper.is_known_before {
                change(in_force, upper.tombstone, here, out);
                touch(upper.slot);
            } else {
                let from =
                    lower.map_or_else(|| start.clone(), |(place, _)| past(&place.position()));
                let gap = ClusteringRange { start: from, end: here() };
                if !gap.is_empty() {
                    change(in_force, None, || gap.end.clone(), out);
                    if let Some(last) = last {
                        *end = last.position();
                    }
                    return Step::Gap(gap);
                }
            }
            let Some((place, entry)) = lower else {
                change(in_force, None, || start.clone(), out);
                return Step::Done;
            };
            if place.weight == Weight::At {
                change(in_force, entry.tombstone, || past(&place.position()), out);
            }
            if let Some(row) = &entry.row {
                out.extend([Fragment::Row { key: place.prefix.clone(), row: row.clone() }]);
                given += 1;
            }
            touch(entry.slot);
            upper = entry;
            if given >= max {
                *end = place.position();
                return Step::More;
            }
            last = Some(place);
        }
    }

    /// Whether this place has an entry.
    pub(super) fn holds(&self, place: &Place) -> bool {
        self.tree.borrow().contains_key(place)
    }

    /// The entry that stands at a bound of a gap, or is the row beside it on the side `Weight::After`
    /// of the row for a lower bound, `Weight::Before` for an upper one.
    pub(super) fn place_at(&self, bound: &Position, row_side: Weight) -> Option<Place> {
        let tree = self.tree.borrow();
        let exact = tree.get_key_value(&PlaceRef::of(bound));
        let beside = || {
            let row = PlaceRef { prefix: bound.prefix.as_ordered(), weight: Weight::At };
            (bound.weight == row_side).then(|| tree.get_key_value(&row)).flatten()
        };
        exact.or_else(beside).map(|(place, _)| place.clone())
    }

    /// Puts an entry in where none stands. Inside a known stretch it splits that.
    pub(super) fn insert(&self, place: Place, mut entry: Entry) {
        let mut tree = self.tree.borrow_mut();
        let from = (Bound::Excluded(place.as_ref()), Bound::Unbounded);
        if let Some((_, next)) = tree.range::<_, PlaceRef<'_>>(from).next()
            && next.is_known_before
        {
            entry.is_known_before = true;
            entry.tombstone = next.tombstone;
        }
        let was = tree.insert(place, entry);
        assert!(was.is_none(), "an entry is put in where none stands");
    }

    /// Says that nothing lies between two entries and that `tombstone` is in force there, unless
    /// one of them has gone meanwhile. True when it was said. `None` where a further entry just
    /// before `upper` has to bear the tombstone.
    pub(super) fn link(
        &self,
        lower: &Place,
        upper: &Place,
        tombstone: Option<Tombstone>,
    ) -> Option<bool> {
        let mut tree = self.tree.borrow_mut();
        if !tree.contains_key(lower) {
            return Some(false);
        }
        let Some(entry) = tree.get_mut(upper) else { return Some(false) };
        if entry.is_known_before {
            return Some(true);
        }
        if entry.tombstone != tombstone {
            if upper.weight == Weight::At {
                return None;
            }
            entry.tombstone = tombstone;
        }
        entry.is_known_before = true;
        Some(true)
    }

    /// Takes an entry out and with it what was known of the gaps beside it.
    pub(super) fn evict(&self, place: &Place) {
        let mut tree = self.tree.borrow_mut();
        if place.prefix.is_empty() && place.weight == Weight::After {
            let end = tree.get_mut(place).expect("the end is always there");
            end.is_known_before = false;
            end.tombstone = None;
            end.slot = NO_SLOT;
            return;
        }
        let Some(gone) = tree.remove(place) else { return };
        let from = place.as_ref();
        if let Some((_, next)) = tree.get_next_mut(&from) {
            let joins = gone.row.is_none()
                && place.weight != Weight::At
                && gone.is_known_before
                && gone.tombstone == next.tombstone;
            next.is_known_before &= joins;
        }
    }

    /// The tombstone at an entry.
    pub(super) fn tombstone_at(&self, place: &Place) -> Option<Tombstone> {
        self.tree.borrow().get(place).and_then(|entry| entry.tombstone)
    }

    pub(super) fn set_slot(&self, place: &Place, slot: Slot) {
        if let Some(entry) = self.tree.borrow_mut().get_mut(place) {
            entry.slot = slot;
        }
    }

    /// Of up to `max` gaps, how many are known, and how many there were.
    pub(super) fn continuity(&self, max: usize) -> (u64, u64) {
        let tree = self.tree.borrow();
        let (mut known, mut seen) = (0, 0);
        for entry in tree.values().take(max) {
            known += u64::from(entry.is_known_before);
            seen += 1;
        }
        (known, seen)
    }

    /// Up to `max` entries, for people to look at.
    pub(super) fn inspect(&self, max: usize) -> CachedPartition {
        let entries = self
            .tree
            .borrow()
            .iter()
            .take(max)
            .map(|(place, entry)| CachedEntry {
                position: place.position(),
                newest: entry.row.as_ref().and_then(|row| row.newest_timestamp()),
                tombstone: entry.tombstone,
                is_known_before: entry.is_known_before,
            })
            .collect();
        CachedPartition {
            deletion: self.deletion.get(),
            has_static_row: self.static_row.borrow().is_some(),
            entries,
        }
    }

    /// Up to `max` entries from the start, with their slots.
    pub(super) fn slots(&self, max: usize) -> Vec<(Place, Slot)> {
        let tree = self.tree.borrow();
        tree.iter().take(max).map(|(place, entry)| (place.clone(), entry.slot)).collect()
    }

    /// Whether nothing but the end is left, and that not offered for eviction.
    pub(super) fn is_spent(&self) -> bool {
        let tree = self.tree.borrow();
        tree.len() == 1 && tree.get_max().is_none_or(|(_, end)| end.slot == NO_SLOT)
    }

    /// What a write of the row `key` meets here.
    pub(super) fn at_row(&self, key: &ClusteringKey) -> AtRow {
        let tree = self.tree.borrow();
        let place = PlaceRef { prefix: key.as_ordered(), weight: Weight::At };
        match tree.range::<_, PlaceRef<'_>>((Bound::Included(place), Bound::Unbounded)).next() {
            Some((found, entry)) if found.as_ref() == place => AtRow::Entry(entry.slot),
            Some((_, next)) if next.is_known_before => AtRow::Known,
            _ => AtRow::Unknown,
        }
    }

    /// Merges a row into the entry that stands at its key; returns the bytes it takes now.
    pub(super) fn merge_row(&self, key: &ClusteringKey, row: &Row) -> usize {
        let mut tree = self.tree.borrow_mut();
        let place = PlaceRef { prefix: key.as_ordered(), weight: Weight::At };
        let entry = tree.get_mut(&place).expect("an entry stands there");
        match &mut entry.row {
            Some(own) => Rc::make_mut(own).merge(row),
            None => entry.row = Some(Rc::new(row.clone())),
        }
        entry.row.as_ref().map_or(0, |row| row.memory_bytes())
    }

    /// Forgets that anything is known of the gap in which a place without an entry lies.
    pub(super) fn forget_gap(&self, place: PlaceRef<'_>) {
        if let Some((_, next)) = self.tree.borrow_mut().get_next_mut(&place) {
            next.is_known_before = false;
        }
    }

    /// Whether `position` lies inside a known stretch with no entry at it: a tombstone that begins
    /// or ends there needs one.
    pub(super) fn needs_bound(&self, position: &Position) -> bool {
        let tree = self.tree.borrow();
        let place = PlaceRef::of(position);
        match tree.range::<_, PlaceRef<'_>>((Bound::Included(place), Bound::Unbounded)).next() {
            Some((found, entry)) => found.as_ref() != place && entry.is_known_before,
            None => false,
        }
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
        let bounds = (Bound::Excluded(PlaceRef::of(from)), Bound::Included(end));
        let mut places: Vec<Place> = tree
            .range::<_, PlaceRef<'_>>(bounds)
            .take(max + 1)
            .map(|(place, _)| place.clone())
            .collect();
        let is_more = places.len() > max;
        places.truncate(max);
        for place in &places {
            let entry = tree.get_mut(place).expect("an entry stands there");
            entry.tombstone = strongest(entry.tombstone, Some(deletion.tombstone));
        }
        is_more.then(|| places[max - 1].position())
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
