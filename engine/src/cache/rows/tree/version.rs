//! A version: what the cache knows of one partition as of one state of its data. It holds rows and,
//! for every gap between neighbours, whether everything in it is known.
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
//! never changes its claims; it only learns more. Other data is another version.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::btree::Tree;
use super::leaf::{Claim, Run, View};
use super::place::PlaceRef;
use crate::mutation::tombstone::strongest;
use crate::mutation::{FlatRow, Position, RangeTombstone, Row, RowForm, Tombstone, Weight};
use crate::policy::Slot;
use crate::prefetch::Memory;

/// No slot: the entry is not offered for eviction.
pub(in crate::cache::rows) const NO_SLOT: Slot = Slot::MAX;

/// One version of a partition; copying it copies the root of its tree.
#[derive(Debug, Clone)]
pub(in crate::cache::rows) struct Version {
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

/// Where an entry would stand.
#[derive(Debug)]
pub(in crate::cache::rows) struct Landing {
    /// What the entry behind it says.
    next: Claim,
    /// The entry that was asked about stands right before it.
    pub is_beside: bool,
}

/// An entry that a walk comes to.
#[derive(Clone, Copy)]
pub(super) struct Stop<'a> {
    pub place: PlaceRef<'a>,
    /// `None` at the end of the partition.
    pub flat: Option<&'a FlatRow>,
    pub claim: Claim,
}

impl<'a> Stop<'a> {
    #[inline]
    pub fn new(view: Option<View<'a>>, end: Claim) -> Self {
        match view {
            Some(view) => Stop { place: view.place(), flat: Some(view.flat), claim: view.claim },
            None => Stop { place: PlaceRef::END, flat: None, claim: end },
        }
    }

    #[inline]
    pub fn row(&self) -> Option<&'a FlatRow> {
        self.flat.filter(|flat| flat.has_row())
    }
}

impl Version {
    /// A version that knows nothing of rows, or, with `is_known`, that there are none.
    pub fn new(
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

    /// The memory in which a search for an entry begins, for prefetching.
    #[inline]
    pub fn searched(&self) -> Memory {
        self.tree.borrow().searched()
    }

    /// Has the root of its entries fetched, all of it or what tells how much there is, for those
    /// who will change it; nothing while it is changed.
    pub fn prefetch_root(&self, is_whole: bool) {
        let Ok(tree) = self.tree.try_borrow() else { return };
        let root = if is_whole { tree.root_memory() } else { tree.root_start() };
        root.prefetch();
    }

    /// Has its first rows fetched, where they stand in the root; nothing while it is changed.
    pub fn prefetch_rows(&self, max: usize) {
        if let Ok(tree) = self.tree.try_borrow() {
            tree.prefetch_rows(max);
        }
    }

    /// What `visit` makes of all rows of a short partition of which everything is known and nothing
    /// else has to be said, and of the slots of the entries that say so; `None` for any other
    /// partition. What it visits may not ask the cache for this partition.
    pub fn visit_short<T>(&self, visit: impl FnOnce(&[FlatRow], &[Slot], Slot) -> T) -> Option<T> {
        let tree = self.tree.borrow();
        let (Run { rows, slots }, is_start_known) = tree.plain_rows()?;
        let end = self.end();
        // Behind the one row that a partition can have there is no gap, nor before it.
        let is_all = || matches!(rows, [only] if only.key().is_empty());
        let is_known = is_start_known && end.is_known_before || is_all();
        let end_slot = if end.is_known_before { end.slot } else { NO_SLOT };
        (is_known && end.tombstone.is_none()).then(|| visit(rows, slots, end_slot))
    }

    pub fn deletion(&self) -> Option<Tombstone> {
        self.rare.borrow().as_ref().and_then(|rare| rare.deletion)
    }

    pub fn static_row(&self) -> Option<Rc<Row>> {
        self.rare.borrow().as_ref().and_then(|rare| rare.static_row.clone())
    }

    /// Merges the deletion of the partition in.
    pub fn merge_deletion(&self, deletion: Option<Tombstone>) {
        if deletion.is_some() {
            let mut rare = self.rare.borrow_mut();
            let own = &mut rare.get_or_insert_default().deletion;
            *own = strongest(*own, deletion);
        }
    }

    pub fn merge_static_row(&self, row: Rc<Row>) {
        match &mut self.rare.borrow_mut().get_or_insert_default().static_row {
            Some(own) => Rc::make_mut(own).merge(&row),
            none => *none = Some(row),
        }
    }

    /// What the entry at the end says.
    #[inline]
    pub fn end(&self) -> Claim {
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
    pub fn fit(&self, place: PlaceRef<'_>) {
        self.tree.borrow_mut().fit(place);
    }
    /// The entry at a place, if one stands there; not that at the end.
    pub fn entry_at(&self, place: PlaceRef<'_>) -> Option<FlatRow> {
        self.tree.borrow().get(place).map(|view| view.flat.clone())
    }

    /// The entry that stands at a bound of a gap, or is the row beside it on the side
    /// `Weight::After` of the row for a lower bound, `Weight::Before` for an upper one.
    pub fn place_at(&self, bound: &Position, row_side: Weight) -> Option<FlatRow> {
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

    /// The entry at a place, or where it would stand, and whether `lower` is its neighbour there.
    pub fn landing(
        &self,
        place: PlaceRef<'_>,
        lower: Option<&FlatRow>,
    ) -> Result<FlatRow, Landing> {
        let tree = self.tree.borrow();
        tree.seek(place).map(|view| view.flat.clone()).map_err(|mut cursor| {
            let is_at = |lower: &FlatRow| {
                let neighbour = cursor.neighbour().map(PlaceRef::of_flat);
                neighbour == Some(PlaceRef::of_flat(lower))
            };
            let is_beside = lower.is_some_and(is_at);
            Landing { next: Stop::new(cursor.next(), self.end()).claim, is_beside }
        })
    }

    /// Puts an entry in where none stands, of which nothing is known before it. Inside a known
    /// stretch it splits that.
    pub fn insert(&self, flat: FlatRow, tombstone: Option<Tombstone>, slot: Slot) {
        let landing = self.landing(PlaceRef::of_flat(&flat), None);
        self.land(landing.expect_err("none stands there"), flat, tombstone, slot);
    }

    /// As [`insert`](Self::insert), at a place that `landing` describes; no entry has come or gone
    /// since. If the entry that was asked about stands right before it, the two are linked: nothing
    /// lies between them, and `tombstone` is in force there.
    pub fn land(&self, landing: Landing, flat: FlatRow, tombstone: Option<Tombstone>, slot: Slot) {
        debug_assert_ne!(slot, NO_SLOT, "every entry may leave");
        let Landing { next, is_beside } = landing;
        let claim = match next.is_known_before {
            true => Claim { slot, ..next },
            false => Claim { tombstone, slot, is_known_before: is_beside },
        };
        self.tree.borrow_mut().insert(flat, claim);
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
    pub fn link(
        &self,
        lower: PlaceRef<'_>,
        upper: PlaceRef<'_>,
        tombstone: Option<Tombstone>,
    ) -> Option<bool> {
        debug_assert!(lower <= upper, "a gap lies between two places in order");
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
    pub fn first_between(&self, lower: PlaceRef<'_>, upper: PlaceRef<'_>) -> Option<FlatRow> {
        let tree = self.tree.borrow();
        tree.behind(lower).next().filter(|view| view.place() < upper).map(|view| view.flat.clone())
    }

    /// Takes an entry out and with it what was known of the gaps beside it.
    pub fn evict(&self, place: PlaceRef<'_>) {
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
    pub fn tombstone_at(&self, place: PlaceRef<'_>) -> Option<Tombstone> {
        self.tree.borrow().get(place).and_then(|view| view.claim.tombstone)
    }

    /// What the entry at a place says; it must stand there.
    #[cfg(test)]
    pub fn claim_at(&self, place: PlaceRef<'_>) -> Claim {
        let found = self.tree.borrow().get(place).map(|view| view.claim);
        found.unwrap_or_else(|| self.end())
    }

    /// Walks all entries; see [`Tree::check`].
    pub fn check(&self) {
        let tree = self.tree.borrow();
        tree.check();
        let is_listed = |view: View<'_>| view.claim.slot != NO_SLOT;
        assert!(tree.iter().all(is_listed), "every entry has a slot");
        assert!(tree.get(PlaceRef::END).is_none(), "the entry at the end stands apart");
    }

    /// The slot of the entry at the end.
    pub fn set_slot(&self, slot: Slot) {
        debug_assert_eq!(self.end().slot, NO_SLOT, "a partition gets its slot once");
        self.set_end(Claim { slot, ..self.end() });
    }

    /// All entries, that at the end too.
    pub(super) fn stops<'a>(&self, tree: &'a Tree) -> impl Iterator<Item = Stop<'a>> {
        let end = Stop::new(None, self.end());
        tree.iter().map(move |view| Stop::new(Some(view), end.claim)).chain([end])
    }
    /// Up to `max` entries from the start, with their slots.
    pub fn slots(&self, max: usize) -> Vec<(FlatRow, Slot)> {
        let tree = self.tree.borrow();
        let place = |stop: Stop<'_>| stop.flat.cloned().unwrap_or_else(|| stop.place.flat());
        self.stops(&tree).take(max).map(|stop| (place(stop), stop.claim.slot)).collect()
    }

    /// Whether nothing but the end is left, and that not offered for eviction.
    pub fn is_spent(&self) -> bool {
        self.end().slot == NO_SLOT && self.tree.borrow().is_empty()
    }

    /// What a write of the row `key` meets here.
    pub fn at_row(&self, key: &[u8]) -> AtRow {
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
    pub fn merge_row(&self, key: &[u8], row: RowForm<'_>) -> FlatRow {
        let merged = self.tree.borrow_mut().change(PlaceRef::row(key), |mut entry| {
            let flat = if entry.flat().has_row() {
                let mut own = entry.flat().thaw();
                match row {
                    RowForm::Row(row) => own.merge(row),
                    RowForm::Flat(flat) => own.merge(&flat.thaw()),
                }
                debug_assert!(own.is_compacted(), "a row holds what its own deletion covers");
                FlatRow::row(key, &own)
            } else {
                row.to_flat(key)
            };
            entry.set_row(flat.clone());
            flat
        });
        merged.expect("an entry stands there")
    }

    /// Forgets that anything is known of the gap in which a place without an entry lies.
    pub fn forget_gap(&self, place: PlaceRef<'_>) {
        self.change_next(place, |_| false);
    }

    /// Whether `position` lies inside a known stretch with no entry at it: a tombstone that begins
    /// or ends there needs one.
    pub fn needs_bound(&self, position: &Position) -> bool {
        let tree = self.tree.borrow();
        let place = PlaceRef::of(position);
        let stop = Stop::new(tree.at(place).next(), self.end());
        stop.place != place && stop.claim.is_known_before
    }

    /// Puts a range tombstone over up to `max` entries from `from` on; the bounds of the tombstone
    /// have entries where they lie in known stretches. Returns where to go on.
    pub fn cover(
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
pub(in crate::cache::rows) enum AtRow {
    /// An entry, with this slot.
    Entry(Slot),
    /// A gap of which everything is known.
    Known,
    Unknown,
}
