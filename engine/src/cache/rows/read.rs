//! Reads one partition through the row cache. Known stretches come from memory; gaps come from the
//! SSTables and stay in the cache.
//!
//! Invariant: a reader returns the data of one version, whatever the cache learns or forgets
//! meanwhile. It holds the version, and adds what it reads only while that version is the
//! partition's latest and no newer flush has touched it.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::fill::{Fill, Plan, Target, is_current};
use super::pace::FillPace;
use super::tree::{Known, NO_SLOT, Out, PlaceRef, Step, Version, Walk, sought};
use super::{Handle, RowCache};
use crate::cache::budget::Arrival;
use crate::config::{CACHED_ROW_BYTES_MAX, FRAGMENTS_PER_FILL_MAX};
use crate::error::Result;
use crate::mutation::{
    ClusteringRange, Direction, Filled, FlatRow, Fragment, FragmentSink, FragmentSource,
    PartitionRange, PointRead, Position, Row, Slice, Tombstone,
};
use crate::probe::{self, Count};
use crate::runtime;
use crate::schema::{ClusteringKey, PartitionKey};

/// What the cache mirrors: the SSTables of a table as of the start of a read.
pub trait Underlying {
    /// Reads them. A partition that none of them has gives nothing; any other begins with its
    /// start.
    fn read(&self, range: &PartitionRange, slice: &Slice) -> Box<dyn FragmentSource>;

    /// Reads one row, and deletion and static row of its partition where `wants_front` says so.
    /// `None` for a partition that none of them has.
    fn read_row(
        &self,
        partition: &Rc<PartitionKey>,
        row: ClusteringKey,
        wants_front: bool,
    ) -> RowFuture;

    /// Rows of a range that are read in sequence at the cost of beginning to read once more: so
    /// many at least have to be in memory for a read to break off and to begin again behind them.
    fn rows_per_opening(&self, range: &PartitionRange) -> usize;

    /// About how many rows and partitions there are.
    fn entries(&self) -> usize;
}

/// A row, or that there is none, of which all is known, with the front of its partition.
pub struct AtHand {
    pub partition: Rc<PartitionKey>,
    pub deletion: Option<Tombstone>,
    pub static_row: Option<Rc<Row>>,
    pub row: Option<FlatRow>,
}

impl RowCache {
    /// The row with a key where memory knows all of it as of the set of SSTables number
    /// `generation`: what [`read`](Self::read) would give, without a stream around it.
    pub fn at_hand(
        &self,
        partition: &PartitionKey,
        row: &ClusteringKey,
        generation: u64,
    ) -> Option<AtHand> {
        if row.is_empty() {
            return None;
        }
        let (handle, version) = self.find(partition, generation)?;
        let Known::All((flat, slot)) = version.at_hand(row.as_ordered()) else { return None };
        self.touch(&[slot]);
        let mut counts = self.counts.borrow_mut();
        counts.reads += 1;
        counts.partition_hits += 1;
        counts.row_hits += u64::from(flat.is_some());
        debug_assert!(counts.partition_hits <= counts.reads, "more hits than reads");
        Some(AtHand {
            partition: handle.key.clone(),
            deletion: version.deletion(),
            static_row: version.static_row(),
            row: flat,
        })
    }
}

/// A row on its way.
pub type RowFuture = LocalBoxFuture<'static, Result<Option<PointRead>>>;

/// See the head of this file.
pub(super) struct CachedRead {
    cache: Rc<RowCache>,
    key: Rc<PartitionKey>,
    underlying: Rc<dyn Underlying>,
    /// Number of the set of SSTables below.
    generation: u64,
    direction: Direction,
    /// The requested row, or its absence, if that was known from the start.
    at_hand: Option<Option<FlatRow>>,
    /// Nothing is known of the requested row; the reader looks for it in the SSTables.
    is_below: bool,
    /// Else the place of one row, to be read first; or ranges still to read, in reading order. Most
    /// reads have one.
    only: Option<ClusteringKey>,
    first: Option<ClusteringRange>,
    rest: VecDeque<ClusteringRange>,
    place: Option<(Rc<Handle>, Rc<Version>)>,
    state: State,
    /// Fragments of the next fill: few at first, because many readers want the first rows only.
    fill_max: usize,
    /// Entries without rows that the last call passed.
    passed: usize,
    /// Made where it is needed first: most reads find all in memory.
    pace: OnceCell<Rc<FillPace>>,
    /// Entries from memory that a pace was not told of.
    saved: u64,
    /// Known entries that are worth another read behind them, once that was asked for.
    worth: Option<usize>,
}

/// A read brings in so much of the cache, and beyond it what there is spare room for: one that does
/// not fit pushes out neither others nor what it will come to itself.
const SHARE_OF_A_READ: u64 = 8;

/// Fragments of the first fill.
const FIRST_FILL: usize = 8;

#[expect(
    clippy::large_enum_variant,
    reason = "one a read; a box would cost every read that walks an allocation"
)]
enum State {
    Start,
    Between,
    Walking(Walk),
    /// The requested row must come from the SSTables.
    Row(ClusteringKey),
    /// What comes next is not known and has to be read from below.
    Gap(Walk, ClusteringRange),
    Filling(Walk, Fill),
    Done,
}

impl RowCache {
    /// Reads one partition, from memory where it is known and else from `underlying`, the set of
    /// SSTables number `generation`.
    pub fn read(
        &self,
        key: &PartitionKey,
        slice: &Slice,
        underlying: Rc<dyn Underlying>,
        generation: u64,
    ) -> Box<dyn FragmentSource> {
        let own = self.own.upgrade().expect("who calls holds it");
        Box::new(CachedRead::new(own, key, slice, underlying, generation))
    }
}

impl CachedRead {
    pub(super) fn new(
        cache: Rc<RowCache>,
        key: &PartitionKey,
        slice: &Slice,
        underlying: Rc<dyn Underlying>,
        generation: u64,
    ) -> Self {
        let place = cache.find(key, generation);
        let is_absent = place.is_none() && cache.is_known_absent(key);
        probe::note(|| match (&place, is_absent) {
            (Some(_), _) => "row cache: partition is known".to_owned(),
            (None, true) => "row cache: there is no such partition".to_owned(),
            (None, false) => "row cache: partition is not known".to_owned(),
        });
        let row = row_of(&slice.ranges);
        // At once: all that is fetched for it is fetched side by side, the key below as well.
        let (mut at_hand, mut is_below) = (None, false);
        if let Some((row, (_, version))) = row.zip(place.as_ref()) {
            match version.at_hand(row.as_ordered()) {
                Known::All((flat, slot)) => {
                    cache.touch(&[slot]);
                    at_hand = Some(flat);
                }
                Known::Part => {}
                Known::Nothing => is_below = cache.clustering.is_whole(row),
            }
        }
        let key = place.as_ref().map_or_else(|| Rc::new(key.clone()), |(held, _)| held.key.clone());
        // What is large in it is set where it lies: moving it there would take a tenth of a read.
        let mut read = CachedRead {
            cache,
            key,
            underlying,
            generation,
            direction: slice.direction,
            at_hand,
            is_below,
            only: None,
            first: None,
            rest: VecDeque::new(),
            place,
            state: State::Start,
            fill_max: FIRST_FILL,
            passed: 0,
            pace: OnceCell::new(),
            saved: 0,
            worth: None,
        };
        if is_absent {
            read.end_absent();
        }
        match row {
            Some(row) if read.at_hand.is_none() => read.only = Some(row.clone()),
            Some(_) => {}
            None => read.take_ranges(slice),
        }
        read
    }

    /// There is no such partition, as memory knows.
    fn end_absent(&mut self) {
        let mut counts = self.cache.counts.borrow_mut();
        counts.reads += 1;
        counts.partition_hits += 1;
        probe::count(Count::CacheHits, 1);
        self.state = State::Done;
    }

    /// Takes the ranges of a slice in the order in which they are read.
    fn take_ranges(&mut self, slice: &Slice) {
        let mut ranges = slice.ranges.iter().cloned();
        self.first = match slice.direction {
            Direction::Forward => ranges.next(),
            Direction::Reversed => ranges.next_back(),
        };
        self.rest.extend(ranges);
        if slice.direction.is_reversed() {
            self.rest.make_contiguous().reverse();
        }
    }

    /// The same as a part of a scan, at the pace of that.
    pub(super) fn of_a_scan(mut self, pace: Rc<FillPace>) -> Self {
        self.pace = OnceCell::from(pace);
        self
    }

    fn pace(&self) -> &Rc<FillPace> {
        self.pace.get_or_init(|| {
            debug_assert!(self.place.is_some() || self.saved == 0, "what is not known saved reads");
            let room = self.cache.cache.capacity_bytes() / SHARE_OF_A_READ;
            let pace = FillPace::new(0, self.cache.fill_min.get(), room as usize);
            pace.saved(self.saved);
            Rc::new(pace)
        })
    }

    /// Entries came from memory.
    fn note_saved(&mut self, entries: u64) {
        match self.pace.get() {
            Some(pace) => pace.saved(entries),
            None => self.saved += entries,
        }
    }

    /// Known entries behind a gap that are worth another read behind them.
    fn worth(&mut self) -> usize {
        let (underlying, key) = (&self.underlying, &self.key);
        let ask = || underlying.rows_per_opening(&PartitionRange::Single((**key).clone()));
        *self.worth.get_or_insert_with(ask)
    }

    fn open(&self, range: ClusteringRange) -> Box<dyn FragmentSource> {
        let slice = Slice { ranges: vec![range], direction: self.direction };
        self.underlying.read(&PartitionRange::Single((*self.key).clone()), &slice)
    }

    fn next_range(&mut self) -> Option<ClusteringRange> {
        let only = || self.only.take().map(ClusteringRange::prefix);
        self.first.take().or_else(only).or_else(|| self.rest.pop_front())
    }

    /// Begins with a partition that the cache does not know.
    async fn begin(&mut self, out: &mut VecDeque<Fragment>) -> Result<State> {
        debug_assert!(self.place.is_none(), "a known partition is read from memory");
        {
            let mut counts = self.cache.counts.borrow_mut();
            counts.reads += 1;
            counts.partition_misses += 1;
            probe::count(Count::CacheMisses, 1);
        }
        let range = match self.next_range() {
            Some(range) => range,
            // Only the partition itself is asked for: an empty range at its start.
            None => ClusteringRange { start: Position::start(), end: Position::start() },
        };
        if let Some(row) = self.cache.single_row(&range) {
            let Some(found) = self.underlying.read_row(&self.key, row.clone(), true).await? else {
                self.keep(Version::new(None, None, NO_SLOT, true));
                return Ok(State::Done);
            };
            let (deletion, static_row) = (found.deletion, found.static_row.clone());
            self.give_front(deletion, static_row.clone(), out);
            self.place = self.keep(Version::new(deletion, static_row, NO_SLOT, false));
            self.give_row(&row, found, (self.target(), out));
            return Ok(State::Between);
        }
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
            self.keep(Version::new(None, None, NO_SLOT, true));
            return Ok(State::Done);
        };
        let static_row = match buffer.front() {
            Some(Fragment::StaticRow(row)) => Some(row.clone()),
            _ => None,
        };
        if static_row.is_some() {
            buffer.pop_front();
        }
        self.give_front(deletion, static_row.clone(), out);
        let version = Version::new(deletion, static_row, NO_SLOT, false);
        self.place = self.keep(version);
        let walk = Walk { direction: self.direction, rest: range.clone(), in_force: None };
        let fill = self.fill_of(source, buffer, Plan::whole(range));
        Ok(State::Filling(walk, fill))
    }

    fn give_front(
        &self,
        deletion: Option<Tombstone>,
        static_row: Option<Rc<Row>>,
        out: &mut VecDeque<Fragment>,
    ) {
        out.push_back(Fragment::PartitionStart { key: self.key.clone(), deletion });
        out.extend(static_row.map(Fragment::StaticRow));
    }

    /// Reads one row of a known partition from below.
    async fn read_row(&self, row: &ClusteringKey, out: &mut VecDeque<Fragment>) -> Result<()> {
        debug_assert!(self.place.is_some(), "a partition is read whole before rows of it");
        self.note_gap("row");
        let reading = self.underlying.read_row(&self.key, row.clone(), false);
        let target = self.target();
        let found = match &target {
            Some(target) => target.fetch_while(reading).await?,
            None => reading.await?,
        };
        self.give_row(row, found.unwrap_or_default(), (target, out));
        Ok(())
    }

    /// Gives one row as it was read from below, and keeps it, or that there is none.
    fn give_row(
        &self,
        row: &ClusteringKey,
        found: PointRead,
        (target, out): (Option<Target>, &mut VecDeque<Fragment>),
    ) {
        let place = PlaceRef::row(row.as_ordered());
        let has_row = found.row.is_some();
        let flat = found.row.unwrap_or_else(|| place.flat());
        debug_assert!(PlaceRef::of_flat(&flat) == place, "{flat:?} was read for {row:?}");
        if let Some(target) = target.filter(|_| flat.memory_bytes() <= CACHED_ROW_BYTES_MAX) {
            target.put(place, || flat.clone(), found.tombstone, 0);
        }
        let range = found.tombstone.map(|_| ClusteringRange::prefix(row.clone()));
        let change = |position: &Position, tombstone| {
            let position = position.clone();
            Fragment::RangeTombstoneChange { position, tombstone }
        };
        let first = range.as_ref().map(|range| self.direction.first(range));
        let last = range.as_ref().map(|range| self.direction.last(range));
        out.extend(first.map(|first| change(first, found.tombstone)));
        out.extend(has_row.then_some(Fragment::FlatRow(flat)));
        out.extend(last.map(|last| change(last, None)));
    }

    /// Where what is read is kept.
    fn target(&self) -> Option<Target> {
        let (handle, version) = self.place.as_ref()?;
        let (handle, version) = (handle.clone(), version.clone());
        let (cache, pace) = (self.cache.clone(), self.pace().clone());
        Some(Target { cache, handle, version, pace })
    }

    fn keep(&self, version: Version) -> Option<(Rc<Handle>, Rc<Version>)> {
        let arrival = Arrival::Read { run: 0 };
        self.cache.add_partition(self.key.clone(), version, self.generation, arrival)
    }

    /// Entries without rows that the last call without waiting passed.
    pub(super) fn passed(&self) -> usize {
        self.passed
    }

    /// The key of the partition that is read.
    pub(super) fn key(&self) -> &Rc<PartitionKey> {
        &self.key
    }

    fn fill_of(
        &self,
        source: Box<dyn FragmentSource>,
        buffer: VecDeque<Fragment>,
        plan: Plan,
    ) -> Fill {
        Fill::new(source, buffer, (plan, self.direction), self.target())
    }

    /// Begins to read a gap, and what comes behind it where that is better than to begin again
    /// there. `None` where another reader has filled it since it was met.
    fn fill_gap(&mut self, walk: &Walk, gap: ClusteringRange) -> Option<Fill> {
        debug_assert!(!gap.is_empty(), "a walk stops before a gap that has room for something");
        // Behind a gap that reaches to the end of the range there is nothing to go on over.
        let is_last = self.direction.last(&gap) == self.direction.last(&walk.rest);
        let worth = if is_last { 1 } else { self.worth() };
        let plan = match &self.place {
            Some((_, version)) => Plan::of_gap(version, walk, gap, worth),
            None => Plan::whole(gap),
        };
        if plan.range.is_empty() {
            return None;
        }
        self.note_gap("range");
        Some(self.fill_of(self.open(plan.range.clone()), VecDeque::new(), plan))
    }

    /// A stretch of a known partition is read from below.
    fn note_gap(&self, what: &str) {
        probe::note(|| format!("row cache: {what} is not known, read from SSTables"));
        self.cache.counts.borrow_mut().gaps_read += 1;
        probe::count(Count::GapsFilled, 1);
    }

    /// Goes on as far as that is possible without waiting; false when it is not.
    fn step_now<S: FragmentSink + ?Sized>(&mut self, out: &mut Out<'_, S>) -> bool {
        match (&mut self.state, &self.place) {
            (State::Start, Some((_, version))) => {
                {
                    let mut counts = self.cache.counts.borrow_mut();
                    counts.reads += 1;
                    counts.partition_hits += 1;
                    probe::count(Count::CacheHits, 1);
                }
                let deletion = version.deletion();
                out.give(Fragment::PartitionStart { key: self.key.clone(), deletion });
                if let Some(row) = version.static_row() {
                    out.give(Fragment::StaticRow(row));
                }
                if let Some(Some(row)) = self.at_hand.take() {
                    out.row(&row);
                    self.cache.counts.borrow_mut().row_hits += 1;
                    note_rows(1);
                }
                self.state = State::Between;
            }
            (State::Between, _) => {
                let row = self.only.take_if(|_| self.is_below);
                if let Some(row) = row {
                    self.state = State::Row(row);
                    return true;
                }
                self.state = match self.next_range() {
                    Some(rest) => {
                        State::Walking(Walk { direction: self.direction, rest, in_force: None })
                    }
                    None => {
                        out.give(Fragment::PartitionEnd);
                        State::Done
                    }
                }
            }
            (State::Walking(walk), Some((handle, version))) => {
                let (before, rows_before) = (out.given, out.rows());
                let mut used = self.cache.used.take();
                let step = version.walk(walk, out, &mut used);
                // Slots of an older version are others' by now.
                if is_current(&self.cache, handle, version) {
                    self.cache.touch(&used);
                }
                used.clear();
                used.shrink_to(2 * FRAGMENTS_PER_FILL_MAX);
                self.cache.used.set(used);
                self.cache.counts.borrow_mut().row_hits += out.given - before;
                note_rows(out.rows() - rows_before);
                self.note_saved(out.given - before);
                match step {
                    Step::More => {}
                    Step::Done => self.state = State::Between,
                    Step::Gap(gap) => {
                        let State::Walking(walk) = std::mem::replace(&mut self.state, State::Done)
                        else {
                            unreachable!("the state was looked at above");
                        };
                        self.state = State::Gap(walk, gap);
                    }
                }
            }
            _ => return false,
        }
        true
    }

    /// Goes on without waiting until the sink has enough or others should have their turn.
    #[inline]
    fn pass<S: FragmentSink + ?Sized>(&mut self, sink: &mut S) -> Filled {
        let mut out = Out::new(sink);
        let mut can_go_on = true;
        while !out.is_full && can_go_on {
            can_go_on = self.step_now(&mut out);
        }
        self.passed = out.passed;
        match self.state {
            _ if can_go_on => Filled::Some,
            State::Done => Filled::End,
            _ => Filled::Waits,
        }
    }

    /// Where a walk goes on behind a gap.
    fn behind(&self, mut walk: Walk, gap: ClusteringRange) -> State {
        let (direction, rest) = (self.direction, &walk.rest);
        debug_assert!(
            direction.order(direction.first(rest), direction.last(&gap)).is_le(),
            "a walk over {rest:?} goes back behind {gap:?}"
        );
        match self.direction {
            Direction::Forward => walk.rest.start = gap.end,
            Direction::Reversed => walk.rest.end = gap.start,
        }
        if walk.rest.is_empty() { State::Between } else { State::Walking(walk) }
    }

    /// Goes on where something has to be read from below.
    async fn step(&mut self, out: &mut VecDeque<Fragment>, goal: usize) -> Result<()> {
        if let State::Filling(_, fill) = &mut self.state {
            // It stays where it stands: this future needs no room for it.
            let is_over = fill.advance(out, goal).await;
            let State::Filling(walk, fill) = std::mem::replace(&mut self.state, State::Done) else {
                unreachable!("the state was looked at above");
            };
            self.state = match is_over? {
                true => self.behind(walk, fill.range()),
                false => State::Filling(walk, fill),
            };
            return Ok(());
        }
        self.state = match std::mem::replace(&mut self.state, State::Done) {
            State::Start => self.begin(out).await?,
            State::Walking(walk) if self.place.is_some() => {
                // It passed many entries without rows.
                runtime::maybe_yield().await;
                State::Walking(walk)
            }
            State::Walking(walk) => {
                // The partition could not be kept: everything comes from below.
                let range = walk.rest.clone();
                let source = self.open(range.clone());
                let fill = self.fill_of(source, VecDeque::new(), Plan::whole(range));
                State::Filling(walk, fill)
            }
            State::Row(row) => {
                self.read_row(&row, out).await?;
                State::Between
            }
            State::Gap(walk, gap) => match self.cache.single_row(&gap) {
                Some(row) => {
                    self.read_row(&row, out).await?;
                    self.behind(walk, gap)
                }
                None => match self.fill_gap(&walk, gap) {
                    Some(fill) => State::Filling(walk, fill),
                    None => State::Walking(walk),
                },
            },
            state @ (State::Between | State::Done | State::Filling(..)) => state,
        };
        Ok(())
    }
}

impl FragmentSource for CachedRead {
    fn skip_partition(&mut self) {
        debug_assert!(!matches!(self.state, State::Start | State::Done), "no partition is open");
        // What was to be kept of it stays as far as it came: this is as when its reader goes.
        self.state = State::Done;
    }

    fn fill<'a>(&'a mut self, out: &'a mut VecDeque<Fragment>) -> LocalBoxFuture<'a, Result<()>> {
        async move {
            let goal = out.len() + FRAGMENTS_PER_FILL_MAX;
            // What waits for the disk is handed on before more is asked for.
            while self.fill_now(out) == Filled::Waits {
                let before = out.len();
                self.step(out, goal).await?;
                if out.len() > before {
                    break;
                }
            }
            Ok(())
        }
        .boxed_local()
    }

    fn fill_now(&mut self, out: &mut VecDeque<Fragment>) -> Filled {
        let before = out.len();
        let goal = before + self.fill_max;
        let filled = self.pass(&mut Queue { out, goal });
        if out.len() >= goal {
            self.fill_max = (4 * self.fill_max).min(FRAGMENTS_PER_FILL_MAX);
        }
        match filled {
            _ if out.len() > before => Filled::Some,
            Filled::Some => Filled::Waits,
            filled => filled,
        }
    }

    fn pass_now(&mut self, sink: &mut dyn FragmentSink) -> Filled {
        self.pass(sink)
    }
}

/// Rows came from memory.
fn note_rows(rows: u64) {
    probe::count(Count::CacheRows, rows);
    if rows > 0 {
        probe::note(|| format!("row cache: rows from memory: {rows}"));
    }
}

/// Fragments for a reader that takes them later.
struct Queue<'a> {
    out: &'a mut VecDeque<Fragment>,
    /// About how long it becomes.
    goal: usize,
}

impl FragmentSink for Queue<'_> {
    #[inline]
    fn row(&mut self, flat: &FlatRow) -> bool {
        self.fragment(Fragment::FlatRow(flat.clone()))
    }

    #[inline]
    fn fragment(&mut self, fragment: Fragment) -> bool {
        self.out.push_back(fragment);
        self.out.len() < self.goal
    }
}

/// The one prefix, mostly the key of a row, that the ranges stand for.
fn row_of(ranges: &[ClusteringRange]) -> Option<&ClusteringKey> {
    let [range] = ranges else { return None };
    sought(range)
}
