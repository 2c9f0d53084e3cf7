//! Fills gaps from the SSTables: what arrives goes to the reader and into the cache.
//!
//! The read stops at the end of a gap if the known stretch behind it is long enough to be worth
//! another read. Otherwise it goes on over that stretch and the following gaps in one sequence.
//!
//! Invariant: what a fill adds to a version is true of that version.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;

use futures::FutureExt;

use super::pace::FillPace;
use super::tree::{Ahead, PlaceRef, Version, Walk};
use super::{Handle, RowCache};
use crate::cache::budget::Arrival;
use crate::config::CACHED_ROW_BYTES_MAX;
use crate::error::Result;
use crate::mutation::{
    ClusteringRange, Direction, FlatRow, Fragment, FragmentSource, Position, Row, Tombstone, Weight,
};
use crate::runtime;
use crate::schema::ClusteringKey;

/// Entries between two rows of the files that are linked in one step: absent rows that were asked
/// for may be any number.
const LINKED_AT_ONCE_MAX: usize = 256;

/// How far a gap is read.
pub(super) struct Plan {
    /// What is asked for: the gap, and perhaps what comes behind it.
    pub(super) range: ClusteringRange,
    /// Where to look again how far it is worth to go; nowhere where that is certain.
    until: Option<Position>,
    worth: usize,
}

impl Plan {
    /// All of `range`, in one sequence.
    pub(super) fn whole(range: ClusteringRange) -> Self {
        Plan { range, until: None, worth: 0 }
    }

    /// The gap that `walk` came to, and what follows it up to the next place behind which `worth`
    /// entries or all of the rest are known.
    pub(super) fn of_gap(
        version: &Version,
        walk: &Walk,
        gap: ClusteringRange,
        worth: usize,
    ) -> Self {
        let direction = walk.direction;
        let (start, end) = match direction {
            Direction::Forward => (gap.start, walk.rest.end.clone()),
            Direction::Reversed => (walk.rest.start.clone(), gap.end),
        };
        let mut range = ClusteringRange { start, end };
        let until = match version.ahead(direction, &range, worth) {
            Ahead::Known(at) => {
                cut(direction, &mut range, at);
                None
            }
            Ahead::Unknown(at) => Some(at),
        };
        Plan { range, until, worth }
    }
}

/// Ends a range, in reading order, at a place.
fn cut(direction: Direction, range: &mut ClusteringRange, at: Position) {
    match direction {
        Direction::Forward => range.end = at,
        Direction::Reversed => range.start = at,
    }
}

/// A gap being read from below.
pub(super) struct Fill {
    source: Box<dyn FragmentSource>,
    buffer: VecDeque<Fragment>,
    plan: Plan,
    direction: Direction,
    in_force: Option<Tombstone>,
    population: Option<Population>,
    /// The place to look at is where the reading ends.
    leaves: bool,
    /// A row came: the start of the partition lies behind.
    has_begun: bool,
}

impl Fill {
    pub(super) fn new(
        source: Box<dyn FragmentSource>,
        buffer: VecDeque<Fragment>,
        (plan, direction): (Plan, Direction),
        target: Option<Target>,
    ) -> Self {
        let population = target.map(|target| Population::new(target, &plan.range, direction));
        let (in_force, leaves, has_begun) = (None, false, false);
        Fill { source, buffer, plan, direction, in_force, population, leaves, has_begun }
    }

    /// What was read of in the end.
    pub(super) fn range(self) -> ClusteringRange {
        self.plan.range
    }

    /// Whether nothing of what comes next is kept or looked at.
    fn only_passes(&self) -> bool {
        let keeps = self.population.as_ref().is_some_and(Population::goes_on);
        self.has_begun && self.plan.until.is_none() && !keeps
    }

    /// Hands on what comes next as it is; true at the end.
    async fn pass(&mut self, out: &mut VecDeque<Fragment>) -> Result<bool> {
        if let Some(population) = self.population.take() {
            population.stop();
        }
        let before = out.len();
        self.source.fill(out).await?;
        debug_assert!(
            out.range(before..).all(|fragment| !matches!(fragment, Fragment::StaticRow(_))),
            "a partition begins once"
        );
        let is_at_end = matches!(out.back(), Some(Fragment::PartitionEnd));
        if is_at_end {
            out.pop_back();
        }
        Ok(is_at_end || out.len() == before)
    }

    /// Hands on fragments of the gap; true at its end.
    pub(super) async fn advance(
        &mut self,
        out: &mut VecDeque<Fragment>,
        goal: usize,
    ) -> Result<bool> {
        if self.buffer.is_empty() && self.only_passes() {
            return self.pass(out).await;
        }
        if self.buffer.is_empty() {
            let filled = self.source.fill(&mut self.buffer);
            match &self.population {
                Some(population) => population.target.fetch_while(filled).await?,
                None => filled.await?,
            }
            if self.buffer.is_empty() {
                self.end();
                return Ok(true);
            }
        }
        while out.len() < goal {
            while self.is_beyond() {
                if self.leaves {
                    self.leave(out);
                    return Ok(true);
                }
                self.look_again();
                runtime::maybe_yield().await;
            }
            let Some(fragment) = self.buffer.pop_front() else { break };
            match &fragment {
                Fragment::PartitionStart { .. } | Fragment::StaticRow(_) => continue,
                Fragment::PartitionEnd => {
                    self.end();
                    return Ok(true);
                }
                Fragment::Row { key, row } => {
                    self.has_begun = true;
                    if let Some(population) = &mut self.population {
                        population.row(key, row);
                    }
                }
                Fragment::FlatRow(flat) => {
                    self.has_begun = true;
                    if let Some(population) = &mut self.population {
                        population.flat(flat);
                    }
                }
                Fragment::RangeTombstoneChange { position, tombstone } => {
                    self.in_force = *tombstone;
                    if let Some(population) = &mut self.population {
                        population.change(position, *tombstone, &self.plan.range);
                    }
                }
            }
            out.push_back(fragment);
        }
        Ok(false)
    }

    /// Whether what comes next lies at the place to look at, or behind it.
    fn is_beyond(&self) -> bool {
        let Some(until) = &self.plan.until else { return false };
        let order = match self.buffer.front() {
            Some(Fragment::Row { key, .. }) => until.cmp_key(key),
            Some(Fragment::FlatRow(flat)) => until.cmp_ordered(flat.key()),
            Some(Fragment::RangeTombstoneChange { position, .. }) => until.cmp(position),
            _ => return false,
        };
        match self.direction {
            Direction::Forward => order.is_le(),
            Direction::Reversed => order.is_ge(),
        }
    }

    fn look_again(&mut self) {
        let (Some(until), Some(population)) = (&self.plan.until, &self.population) else {
            self.plan.until = None;
            return;
        };
        let ClusteringRange { start, end } = &self.plan.range;
        let rest = match self.direction {
            Direction::Forward => ClusteringRange { start: until.clone(), end: end.clone() },
            Direction::Reversed => ClusteringRange { start: start.clone(), end: until.clone() },
        };
        let ahead = population.target.version.ahead(self.direction, &rest, self.plan.worth);
        self.leaves = matches!(ahead, Ahead::Known(_));
        self.plan.until = match ahead {
            Ahead::Known(at) if at == *self.direction.last(&rest) => None,
            Ahead::Known(at) | Ahead::Unknown(at) => Some(at),
        };
    }

    /// Ends at the place from which on enough is known.
    fn leave(&mut self, out: &mut VecDeque<Fragment>) {
        let position = self.plan.until.take().expect("it is left at a place");
        cut(self.direction, &mut self.plan.range, position.clone());
        if self.in_force.take().is_some() {
            out.push_back(Fragment::RangeTombstoneChange { position, tombstone: None });
        }
        self.end();
    }

    fn end(&mut self) {
        if let Some(population) = self.population.take() {
            population.end(&self.plan.range);
        }
    }
}

/// Where a gap's content is put.
pub(super) struct Target {
    pub(super) cache: Rc<RowCache>,
    pub(super) handle: Rc<Handle>,
    pub(super) version: Rc<Version>,
    pub(super) pace: Rc<FillPace>,
}

/// Whether what the holder of `version` reads is what the cache stands for.
pub(super) fn is_current(cache: &RowCache, handle: &Handle, version: &Rc<Version>) -> bool {
    cache.knows(handle) && Rc::ptr_eq(&handle.latest.borrow(), version)
}

impl Target {
    /// Waits, and has what will be changed then fetched whenever there is something new.
    pub(super) async fn fetch_while<T>(&self, mut waiting: impl Future<Output = T> + Unpin) -> T {
        poll_fn(|context| {
            self.handle.prefetch(Handle::PREFETCH_STEPS - 1);
            waiting.poll_unpin(context)
        })
        .await
    }

    fn is_current(&self) -> bool {
        is_current(&self.cache, &self.handle, &self.version)
    }

    /// Makes sure of an entry at `place` and returns it; `None` when it cannot be kept, or when the
    /// read brought in its share.
    ///
    /// `run` says how many rows were read in sequence before.
    pub(super) fn put(
        &self,
        place: PlaceRef<'_>,
        flat: impl FnOnce() -> FlatRow,
        tombstone: Option<Tombstone>,
        run: u16,
    ) -> Option<FlatRow> {
        self.put_behind(None, (place, flat), tombstone, run).map(|(flat, _)| flat)
    }

    /// As [`put`](Self::put). If `lower` stands right before the new entry, this links the two as
    /// well, `tombstone` being in force between them: a link of its own takes three searches more.
    /// The second part of the result says whether they are linked.
    fn put_behind(
        &self,
        lower: Option<&FlatRow>,
        (place, flat): (PlaceRef<'_>, impl FnOnce() -> FlatRow),
        tombstone: Option<Tombstone>,
        run: u16,
    ) -> Option<(FlatRow, bool)> {
        if !self.pace.goes_on() {
            return None;
        }
        if !self.is_current() {
            self.cache.counts.borrow_mut().mispopulations += 1;
            return None;
        }
        let landing = match self.version.landing(place, lower) {
            Ok(there) => {
                self.pace.met();
                return Some((there, false));
            }
            Err(landing) => landing,
        };
        if !self.pace.has_room() && !self.cache.cache.has_spare_room() {
            return None;
        }
        let (flat, is_linked) = (flat(), landing.is_beside);
        let put = |slot| self.version.land(landing, flat.clone(), tombstone, slot);
        if !self.cache.admit(&self.handle, &flat, Arrival::Read { run }, put) {
            return None;
        }
        debug_assert!(self.version.entry_at(place).is_some(), "an entry stays that came in last");
        self.pace.brought(flat.memory_bytes());
        Some((flat, is_linked))
    }

    /// Says that between two entries there are none but those that stand there already, `tombstone`
    /// being in force.
    fn link_all(&self, lower: &FlatRow, upper: &FlatRow, tombstone: Option<Tombstone>) {
        let mut last = lower.clone();
        let place = PlaceRef::of_flat(upper);
        for _ in 0..LINKED_AT_ONCE_MAX {
            let Some(between) = self.version.first_between(PlaceRef::of_flat(&last), place) else {
                return self.link(&last, upper, tombstone);
            };
            self.link(&last, &between, tombstone);
            last = between;
        }
        // What is behind stays unknown.
    }

    /// Says that between two entries there is nothing, `tombstone` being in force.
    fn link(&self, lower: &FlatRow, upper: &FlatRow, tombstone: Option<Tombstone>) {
        if !self.is_current() {
            self.cache.counts.borrow_mut().mispopulations += 1;
            return;
        }
        let (lower, upper) = (PlaceRef::of_flat(lower), PlaceRef::of_flat(upper));
        debug_assert!(lower <= upper, "a gap lies between two places in order");
        if self.version.link(lower, upper, tombstone).is_some() {
            self.cache.check();
            return;
        }
        // A row that stood there bears another tombstone than the gap before it.
        let bound = PlaceRef { prefix: upper.prefix, weight: Weight::Before };
        if self.put(bound, || bound.flat(), tombstone, 0).is_some()
            && self.version.link(lower, bound, tombstone) == Some(true)
        {
            let own = self.version.tombstone_at(upper);
            self.version.link(bound, upper, own);
        }
        self.cache.check();
    }
}

/// The state of putting a gap's content into the cache, in reading order.
pub(super) struct Population {
    target: Target,
    direction: Direction,
    /// The entry that was put in or met last; `None` where there is none to link to.
    previous: Option<FlatRow>,
    in_force: Option<Tombstone>,
    /// The gap is one row's place: all of a partition without clustering columns, to a scan.
    single: Option<ClusteringKey>,
    /// Rows so far.
    run: u16,
}

impl Population {
    pub(super) fn new(target: Target, gap: &ClusteringRange, direction: Direction) -> Self {
        let single = target.cache.single_row(gap);
        let first = direction.first(gap);
        let previous = target.version.place_at(first, row_side(direction, true));
        let mut population =
            Population { target, direction, previous, in_force: None, single, run: 0 };
        if population.previous.is_none() && population.single.is_none() {
            population.previous = population.bound(first);
        }
        population
    }

    /// Whether the next row may come in.
    pub(super) fn goes_on(&self) -> bool {
        self.target.pace.goes_on()
    }

    /// Ends where nothing more comes in: nothing is said of what lies behind.
    pub(super) fn stop(self) {
        if let Some(previous) = &self.previous {
            self.target.version.fit(PlaceRef::of_flat(previous));
        }
    }

    fn bound(&self, position: &Position) -> Option<FlatRow> {
        let place = PlaceRef::of(position);
        self.target.put(place, || place.flat(), None, self.run)
    }

    pub(super) fn row(&mut self, key: &ClusteringKey, row: &Row) {
        let key = key.as_ordered();
        self.came(PlaceRef::row(key), row.memory_bytes(), || FlatRow::row(key, row));
    }

    /// The same for a row in the form that is kept.
    pub(super) fn flat(&mut self, flat: &FlatRow) {
        self.came(PlaceRef::of_flat(flat), flat.memory_bytes(), || flat.clone());
    }

    fn came(&mut self, place: PlaceRef<'_>, bytes: usize, flat: impl FnOnce() -> FlatRow) {
        self.reach((place, bytes), flat, self.in_force);
        self.run = self.run.saturating_add(1);
    }

    pub(super) fn change(
        &mut self,
        position: &Position,
        tombstone: Option<Tombstone>,
        gap: &ClusteringRange,
    ) {
        if position == self.direction.last(gap) {
            // The gap's own end closes what is in force; it is no bound of a tombstone.
            return;
        }
        if position != self.direction.first(gap) && self.single.is_none() {
            let at = match self.direction {
                Direction::Forward => self.in_force,
                Direction::Reversed => tombstone,
            };
            let place = PlaceRef::of(position);
            self.reach((place, 0), || place.flat(), at);
        }
        self.in_force = tombstone;
    }

    /// Puts in the entry that comes next, of so many bytes, and links it to the one before.
    fn reach(
        &mut self,
        (place, bytes): (PlaceRef<'_>, usize),
        flat: impl FnOnce() -> FlatRow,
        tombstone: Option<Tombstone>,
    ) {
        let lower = self.previous.as_ref().filter(|_| !self.direction.is_reversed());
        debug_assert!(
            lower.is_none() || tombstone == self.in_force,
            "an entry bears what is in force before it"
        );
        // A row that is as long as thousands is read again rather than kept.
        let entry = match bytes > CACHED_ROW_BYTES_MAX {
            true => None,
            false => self.target.put_behind(lower, (place, flat), tombstone, self.run),
        };
        let (entry, is_linked) = entry.unzip();
        let previous = std::mem::replace(&mut self.previous, entry);
        if is_linked != Some(true)
            && let (Some(previous), Some(entry)) = (&previous, &self.previous)
        {
            self.link(previous, entry);
        }
    }

    fn link(&self, previous: &FlatRow, next: &FlatRow) {
        let (lower, upper) = match self.direction {
            Direction::Forward => (previous, next),
            Direction::Reversed => (next, previous),
        };
        self.target.link_all(lower, upper, self.in_force);
    }

    pub(super) fn end(mut self, gap: &ClusteringRange) {
        if gap.is_empty() {
            // Of nothing there is nothing to say; what stands there may have an unknown gap before
            // it.
            return;
        }
        if let Some(key) = self.single.take() {
            if self.run == 0 {
                let place = PlaceRef::row(key.as_ordered());
                self.target.put(place, || place.flat(), self.in_force, 0);
            }
            return;
        }
        let Some(previous) = self.previous.clone() else { return };
        let last = self.direction.last(gap);
        let place = self
            .target
            .version
            .place_at(last, row_side(self.direction, false))
            .or_else(|| self.bound(last));
        if let Some(place) = place {
            self.link(&previous, &place);
        }
        self.target.version.fit(PlaceRef::of_flat(&previous));
    }
}

/// On which side of a row a bound of a gap stands when the row is the gap's neighbour.
fn row_side(direction: Direction, is_first: bool) -> Weight {
    if direction.is_reversed() == is_first { Weight::Before } else { Weight::After }
}
