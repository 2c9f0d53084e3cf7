//! A read of one partition through the row cache: what is known comes from memory, what is not is
//! read from below and kept.
//!
//! Invariant: a reader gives the data of one version, whatever the cache learns or forgets
//! meanwhile: it holds the version, and puts in what it reads only where the version is still the
//! partition's latest and no newer flush has touched it.

use std::collections::VecDeque;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::place::Place;
use super::version::{Entry, NO_SLOT, Step, Version, Walk};
use super::{Handle, RowCache};
use crate::config::FRAGMENTS_PER_FILL_MAX;
use crate::error::Result;
use crate::mutation::{
    ClusteringRange, Direction, Fragment, FragmentSource, PartitionRange, Position, Row, Slice,
    Tombstone, Weight,
};
use crate::schema::{ClusteringKey, PartitionKey};

/// What the cache mirrors: the SSTables of a table as of the start of a read.
pub trait Underlying {
    /// Reads them. A partition that none of them has gives nothing; any other begins with its start.
    fn read(&self, range: &PartitionRange, slice: &Slice) -> Box<dyn FragmentSource>;
}

/// See the head of this file.
pub(super) struct CachedRead {
    cache: Rc<RowCache>,
    key: Rc<PartitionKey>,
    underlying: Rc<dyn Underlying>,
    /// Number of the set of SSTables below.
    generation: u64,
    direction: Direction,
    /// Ranges still to read, in reading order.
    ranges: VecDeque<ClusteringRange>,
    place: Option<(Rc<Handle>, Rc<Version>)>,
    state: State,
}

enum State {
    Start,
    Between,
    Walking(Walk),
    Filling(Walk, Fill),
    Done,
}

impl CachedRead {
    pub(super) fn new(
        cache: Rc<RowCache>,
        key: &PartitionKey,
        slice: &Slice,
        underlying: Rc<dyn Underlying>,
        generation: u64,
    ) -> Self {
        let handle = cache.partitions.borrow().get(key).cloned();
        let place = handle.map(|handle| {
            let version = handle.latest.borrow().clone();
            (handle, version)
        });
        let key = place.as_ref().map_or_else(|| Rc::new(key.clone()), |(held, _)| held.key.clone());
        let mut ranges: VecDeque<ClusteringRange> = slice.ranges.iter().cloned().collect();
        if slice.direction.is_reversed() {
            ranges.make_contiguous().reverse();
        }
        let direction = slice.direction;
        CachedRead {
            cache,
            key,
            underlying,
            generation,
            direction,
            ranges,
            place,
            state: State::Start,
        }
    }

    fn open(&self, range: ClusteringRange) -> Box<dyn FragmentSource> {
        let slice = Slice { ranges: vec![range], direction: self.direction };
        self.underlying.read(&PartitionRange::Single((*self.key).clone()), &slice)
    }

    async fn start(&mut self, out: &mut VecDeque<Fragment>) -> Result<State> {
        self.cache.counts.borrow_mut().reads += 1;
        if let Some((_, version)) = &self.place {
            self.cache.counts.borrow_mut().partition_hits += 1;
            let deletion = version.deletion.get();
            out.push_back(Fragment::PartitionStart { key: self.key.clone(), deletion });
            if let Some(row) = &*version.static_row.borrow() {
                out.push_back(Fragment::StaticRow(row.clone()));
            }
            return Ok(State::Between);
        }
        self.cache.counts.borrow_mut().partition_misses += 1;
        let range = match self.ranges.pop_front() {
            Some(range) => range,
            // Only the partition itself is asked for: an empty range at its start.
            None => ClusteringRange { start: Position::start(), end: Position::start() },
        };
        let mut source = self.open(range.clone());
        let mut buffer = VecDeque::new();
        // A static row comes right after the start of its partition.
        let mut filled = 0;
        loop {
            source.fill(&mut buffer).await?;
            if buffer.len() == filled || buffer.len() > 1 {
                break;
            }
            filled = buffer.len();
        }
        let Some(Fragment::PartitionStart { deletion, .. }) = buffer.pop_front() else {
            let version = Version::new(None, None, NO_SLOT, true);
            self.cache.add_partition(self.key.clone(), version, self.generation);
            return Ok(State::Done);
        };
        let static_row = match buffer.front() {
            Some(Fragment::StaticRow(row)) => Some(row.clone()),
            _ => None,
        };
        out.push_back(Fragment::PartitionStart { key: self.key.clone(), deletion });
        if let Some(row) = &static_row {
            buffer.pop_front();
            out.push_back(Fragment::StaticRow(row.clone()));
        }
        let version = Version::new(deletion, static_row, NO_SLOT, false);
        self.place = self.cache.add_partition(self.key.clone(), version, self.generation);
        let walk = Walk { direction: self.direction, rest: range.clone(), in_force: None };
        let fill = self.fill_of(source, buffer, range);
        Ok(State::Filling(walk, fill))
    }

    fn fill_of(
        &self,
        source: Box<dyn FragmentSource>,
        buffer: VecDeque<Fragment>,
        gap: ClusteringRange,
    ) -> Fill {
        let mut population = None;
        if let Some((handle, version)) = &self.place {
            let target = Target {
                cache: self.cache.clone(),
                handle: handle.clone(),
                version: version.clone(),
                generation: self.generation,
            };
            population = Some(Population::new(target, &gap, self.direction));
        }
        Fill { source, buffer, gap, population }
    }

    async fn step(&mut self, out: &mut VecDeque<Fragment>, goal: usize) -> Result<()> {
        self.state = match std::mem::replace(&mut self.state, State::Done) {
            State::Start => self.start(out).await?,
            State::Between => match self.ranges.pop_front() {
                Some(rest) => {
                    State::Walking(Walk { direction: self.direction, rest, in_force: None })
                }
                None => {
                    out.push_back(Fragment::PartitionEnd);
                    State::Done
                }
            },
            State::Walking(mut walk) => {
                let Some((_, version)) = &self.place else {
                    // The partition could not be kept: everything comes from below.
                    let range = walk.rest.clone();
                    let fill = self.fill_of(self.open(range.clone()), VecDeque::new(), range);
                    self.state = State::Filling(walk, fill);
                    return Ok(());
                };
                let max = goal.saturating_sub(out.len()).max(1);
                let before = out.len();
                let step = self.cache.touch(|touch| version.walk(&mut walk, max, out, touch));
                let rows = (out.len() - before) as u64;
                self.cache.counts.borrow_mut().row_hits += rows;
                match step {
                    Step::More => State::Walking(walk),
                    Step::Done => State::Between,
                    Step::Gap(gap) => {
                        self.cache.counts.borrow_mut().gaps_read += 1;
                        let fill = self.fill_of(self.open(gap.clone()), VecDeque::new(), gap);
                        State::Filling(walk, fill)
                    }
                }
            }
            State::Filling(mut walk, mut fill) => {
                if fill.advance(out, goal).await? {
                    match self.direction {
                        Direction::Forward => walk.rest.start = fill.gap.end,
                        Direction::Reversed => walk.rest.end = fill.gap.start,
                    }
                    if walk.rest.is_empty() { State::Between } else { State::Walking(walk) }
                } else {
                    State::Filling(walk, fill)
                }
            }
            State::Done => State::Done,
        };
        Ok(())
    }
}

impl FragmentSource for CachedRead {
    fn fill<'a>(&'a mut self, out: &'a mut VecDeque<Fragment>) -> LocalBoxFuture<'a, Result<()>> {
        async move {
            let before = out.len();
            let goal = before + FRAGMENTS_PER_FILL_MAX;
            while out.len() < goal && !matches!(self.state, State::Done) {
                // What waits for the disk is handed on before more is asked for.
                if matches!(self.state, State::Filling(..)) && out.len() > before {
                    break;
                }
                self.step(out, goal).await?;
            }
            Ok(())
        }
        .boxed_local()
    }
}

/// A gap being read from below.
struct Fill {
    source: Box<dyn FragmentSource>,
    buffer: VecDeque<Fragment>,
    gap: ClusteringRange,
    population: Option<Population>,
}

impl Fill {
    /// Hands on fragments of the gap; true at its end.
    async fn advance(&mut self, out: &mut VecDeque<Fragment>, goal: usize) -> Result<bool> {
        if self.buffer.is_empty() {
            self.source.fill(&mut self.buffer).await?;
            if self.buffer.is_empty() {
                self.end();
                return Ok(true);
            }
        }
        while out.len() < goal {
            let Some(fragment) = self.buffer.pop_front() else { break };
            match &fragment {
                Fragment::PartitionStart { .. } | Fragment::StaticRow(_) => continue,
                Fragment::PartitionEnd => {
                    self.end();
                    return Ok(true);
                }
                Fragment::Row { key, row } => {
                    if let Some(population) = &mut self.population {
                        population.row(key, row);
                    }
                }
                Fragment::RangeTombstoneChange { position, tombstone } => {
                    if let Some(population) = &mut self.population {
                        population.change(position, *tombstone, &self.gap);
                    }
                }
            }
            out.push_back(fragment);
        }
        Ok(false)
    }

    fn end(&mut self) {
        if let Some(population) = self.population.take() {
            population.end(&self.gap);
        }
    }
}

/// Where a gap's content is put.
struct Target {
    cache: Rc<RowCache>,
    handle: Rc<Handle>,
    version: Rc<Version>,
    generation: u64,
}

impl Target {
    /// Whether what this read sees is what the cache stands for.
    fn is_current(&self) -> bool {
        self.handle.is_attached.get()
            && self.handle.generation.get() <= self.generation
            && Rc::ptr_eq(&self.handle.latest.borrow(), &self.version)
    }

    /// Makes sure of an entry at `place`; false when it cannot be kept.
    fn put(&self, place: &Place, row: Option<&Rc<Row>>, tombstone: Option<Tombstone>) -> bool {
        if !self.is_current() {
            self.cache.counts.borrow_mut().mispopulations += 1;
            return false;
        }
        if self.version.holds(place) {
            return true;
        }
        let bytes = row.map_or(0, |row| row.memory_bytes());
        let Some(slot) = self.cache.admit(&self.handle, place, row.is_some(), bytes) else {
            return false;
        };
        let row = row.cloned();
        self.version.insert(place.clone(), Entry { row, tombstone, slot, is_known_before: false });
        true
    }

    /// Says that between two entries there is nothing, `tombstone` being in force.
    fn link(&self, lower: &Place, upper: &Place, tombstone: Option<Tombstone>) {
        if !self.is_current() {
            self.cache.counts.borrow_mut().mispopulations += 1;
            return;
        }
        if self.version.link(lower, upper, tombstone).is_some() {
            return;
        }
        // A row that stood there bears another tombstone than the gap before it.
        let bound = Place { prefix: upper.prefix.clone(), weight: Weight::Before };
        if self.put(&bound, None, tombstone)
            && self.version.link(lower, &bound, tombstone) == Some(true)
        {
            let own = self.version.tombstone_at(upper);
            self.version.link(&bound, upper, own);
        }
    }
}

/// The state of putting a gap's content into the cache, in reading order.
struct Population {
    target: Target,
    direction: Direction,
    /// The entry that was put in or met last; `None` where there is none to link to.
    previous: Option<Place>,
    in_force: Option<Tombstone>,
    /// The gap is one row's place.
    single: Option<Rc<ClusteringKey>>,
    is_empty: bool,
}

impl Population {
    fn new(target: Target, gap: &ClusteringRange, direction: Direction) -> Self {
        let single = target.cache.single_row(gap);
        let first = direction.first(gap);
        let previous = target.version.place_at(first, row_side(direction, true));
        let mut population =
            Population { target, direction, previous, in_force: None, single, is_empty: true };
        if population.previous.is_none() && population.single.is_none() {
            population.previous = population.bound(first);
        }
        population
    }

    fn bound(&self, position: &Position) -> Option<Place> {
        let place = Place::of(position);
        self.target.put(&place, None, None).then_some(place)
    }

    fn row(&mut self, key: &Rc<ClusteringKey>, row: &Rc<Row>) {
        self.is_empty = false;
        self.reach(Place::row(key.clone()), Some(row), self.in_force);
    }

    fn change(&mut self, position: &Position, tombstone: Option<Tombstone>, gap: &ClusteringRange) {
        if position == self.direction.last(gap) {
            // The gap's own end closes what is in force; it is no bound of a tombstone.
            return;
        }
        if position != self.direction.first(gap) && self.single.is_none() {
            let at = match self.direction {
                Direction::Forward => self.in_force,
                Direction::Reversed => tombstone,
            };
            self.reach(Place::of(position), None, at);
        }
        self.in_force = tombstone;
    }

    /// Puts in the entry that comes next and links it to the one before.
    fn reach(&mut self, place: Place, row: Option<&Rc<Row>>, tombstone: Option<Tombstone>) {
        if !self.target.put(&place, row, tombstone) {
            self.previous = None;
            return;
        }
        if let Some(previous) = self.previous.replace(place.clone()) {
            self.link(&previous, &place);
        }
    }

    fn link(&self, previous: &Place, next: &Place) {
        let (lower, upper) = match self.direction {
            Direction::Forward => (previous, next),
            Direction::Reversed => (next, previous),
        };
        self.target.link(lower, upper, self.in_force);
    }

    fn end(mut self, gap: &ClusteringRange) {
        if let Some(key) = self.single.take() {
            if self.is_empty {
                self.target.put(&Place::row(key), None, self.in_force);
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
    }
}

/// On which side of a row a bound of a gap stands when the row is the gap's neighbour.
fn row_side(direction: Direction, is_first: bool) -> Weight {
    if direction.is_reversed() == is_first { Weight::Before } else { Weight::After }
}
