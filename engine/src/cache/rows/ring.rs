//! Continuity between cached partitions, and scans that use it.
//!
//! ```text
//! partition        A           C     D            end of the ring
//! known        no      yes       yes      no      yes
//!        ??????|A|...........|C|...|D|?????????|..
//! ```
//! A partition's `is_known_before` says that the SSTables have no partition between the one that
//! stands before it and itself; the end of the ring says so too. A key in a known gap
//! is absent, and nobody asks the SSTables for it. A flush brings what it has in a known gap into
//! the cache, or forgets the gap.
//!
//! A scan of the ring, or of a stretch of it, takes whole partitions from the cache and reads the
//! rest from the SSTables in one stream. It leaves the stream for the cache only if the known part
//! is worth another stream behind it, or is all that remains. So whatever the cache has lost, the
//! scan reads little more than one past the cache.
//!
//! A short partition that is in memory is handed over without a read of its own. The scan looks at
//! some partitions at once, so that what they point to is fetched side by side.
//!
//! While the cache has free room, the scan inserts what it read, within its pace ([`FillPace`]).
//! Without free room and with frequent holes, it asks the cache only now and then.
//!
//! Invariant: what a partition says of the gap before it is true of the latest set of SSTables,
//! memtables that are being merged beside it; a scan that a flush overtakes goes on with its own
//! SSTables and leaves the cache alone.

use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::fill::{Population, Target};
use super::pace::{FillPace, SCANS_PER_USE, turn_of};
use super::read::CachedRead;
use super::tree::{NO_SLOT, Out, PASSED_AT_ONCE_MAX, Version};
use super::{Handle, RowCache, Underlying};
use crate::cache::budget::Arrival;
use crate::config::FRAGMENTS_PER_FILL_MAX;
use crate::error::Result;
use crate::mutation::fragment::drop_partition;
use crate::mutation::{
    ClusteringRange, Direction, Filled, FlatRow, Fragment, FragmentSink, FragmentSource,
    PartitionRange, Row, Slice, Tombstone,
};
use crate::policy::Slot;
use crate::probe::{self, Count};
use crate::schema::{PartitionKey, Token};

/// Partitions that are looked at ahead for each that is read from below.
const AHEAD_AT_ONCE_MAX: usize = if cfg!(test) { 2 } else { 64 };
/// With frequent holes and no room, a scan passes this many partitions for each fruitless look-up,
/// and at least and at most these.
const PASSED_FOR_EACH: usize = 4;
const PASSED_MIN: usize = if cfg!(test) { 1 } else { 4 };
const PASSED_MAX: usize = if cfg!(test) { 2 } else { 256 };
/// Partitions that a scan of the cache has at hand, once it came to as many short ones.
const AT_HAND_MAX: usize = if cfg!(test) { 3 } else { 32 };
/// Partitions between two of a file whose gaps become known in one step.
const LINKED_AT_ONCE_MAX: usize = 256;

impl RowCache {
    /// Reads every partition whole that lies between two tokens, both included, in ring order: what
    /// is known from memory, else from `underlying`, the set of SSTables number `generation`.
    pub fn scan(
        &self,
        (min, max): (Token, Token),
        direction: Direction,
        underlying: Rc<dyn Underlying>,
        generation: u64,
    ) -> Box<dyn FragmentSource> {
        debug_assert!(min <= max, "a stretch of the ring goes up");
        let cache = self.own.upgrade().expect("who calls holds it");
        let slice = Slice::full(direction);
        let worth = underlying.rows_per_opening(&PartitionRange::Tokens { min, max }).max(1);
        let start = (min > Token::MIN).then(|| Rc::new(PartitionKey::first_of(min)));
        // A scan pushes nothing out.
        let pace = Rc::new(FillPace::new(underlying.entries(), cache.fill_min.get(), 0));
        let number = cache.scans.get();
        cache.scans.set(number.wrapping_add(1));
        Box::new(RingRead {
            tells: turn_of(number, (min, max) == (Token::MIN, Token::MAX)),
            cache,
            underlying,
            generation,
            slice,
            last: start,
            max,
            state: State::Between,
            worth,
            pause: PASSED_MIN,
            pace,
            looked: 0,
            ahead: Ahead::default(),
        })
    }

    /// Says that between `previous` (the start of the ring without one) and `key` (its end) the
    /// SSTables have nothing, unless one of the two is not there.
    fn link_ring(&self, previous: Option<&PartitionKey>, key: Option<&PartitionKey>) {
        debug_assert!(
            previous.is_none_or(|previous| key.is_none_or(|key| previous < key)),
            "partitions are linked in ring order"
        );
        let partitions = self.partitions.borrow();
        if previous.is_some_and(|previous| !partitions.contains_key(previous)) {
            return;
        }
        let from = previous.map_or(Bound::Unbounded, Bound::Excluded);
        let to = key.map_or(Bound::Unbounded, Bound::Included);
        let between = partitions.range((from, to));
        for (linked, handle) in between.enumerate() {
            if linked == LINKED_AT_ONCE_MAX {
                return;
            }
            self.has_continuity.set(true);
            handle.is_known_before.set(true);
        }
        if key.is_none() {
            self.has_continuity.set(true);
            self.is_end_known.set(true);
        }
    }

    /// Looks at some partitions behind those that were looked at before, as far as a token.
    fn look_on(&self, look: &mut Look, max: Token, worth: usize) -> Seen {
        let partitions = self.partitions.borrow();
        let first = look.last.clone();
        let mut behind = partitions.range((Bound::Excluded(&*first), Bound::Unbounded));
        for _ in 0..AHEAD_AT_ONCE_MAX {
            let Some(handle) = behind.next() else {
                return if self.is_end_known.get() { Seen::Enough } else { Seen::Unknown };
            };
            look.partitions += 1;
            if !handle.is_known_before.get() {
                return Seen::Unknown;
            }
            if handle.key.token() > max {
                return Seen::Enough;
            }
            let Some(entries) = handle.known_entries(worth) else { return Seen::Hole };
            look.rows += entries;
            if look.rows >= worth {
                return Seen::Enough;
            }
            look.last = handle.key.clone();
        }
        Seen::More
    }
}

/// A look at what is known behind a partition.
struct Look {
    last: Rc<PartitionKey>,
    partitions: usize,
    rows: usize,
}

/// What a look found.
enum Seen {
    /// So much is known, or all to the end of the ring, that it is worth to turn to the cache.
    Enough,
    /// Something of a partition is not.
    Hole,
    /// It is not known what lies between two partitions: reading on tells.
    Unknown,
    /// Neither so far.
    More,
}

impl Handle {
    /// Entries of the partition, if all of it is known, as far as `max`.
    fn known_entries(&self, max: usize) -> Option<usize> {
        self.latest.borrow().known_entries(max)
    }
}

/// See the head of this file.
struct RingRead {
    cache: Rc<RowCache>,
    underlying: Rc<dyn Underlying>,
    generation: u64,
    slice: Slice,
    /// The partition that was passed last, or what stands before the first one.
    last: Option<Rc<PartitionKey>>,
    /// The last token of the stretch.
    max: Token,
    state: State,
    /// Known entries that are worth another stream behind them.
    worth: usize,
    /// Partitions that the next look in vain lets pass.
    pause: usize,
    pace: Rc<FillPace>,
    /// Entries that this call looked at or passed and gave nothing of: beyond
    /// [`PASSED_AT_ONCE_MAX`] others have their turn.
    looked: usize,
    ahead: Ahead,
    /// Of which short partitions it tells the policy: see [`SCANS_PER_USE`].
    tells: u32,
}

/// The cached partitions that come next, as the ring had them.
#[derive(Default)]
struct Ahead {
    handles: VecDeque<Rc<Handle>>,
    /// The ring's changes when it was looked at.
    changes: u64,
    /// How many are taken at once: few at first, in case they are long.
    at_once: usize,
}

/// A short partition that is being handed over: the rows that were not yet.
struct Short {
    key: Rc<PartitionKey>,
    rest: VecDeque<FlatRow>,
}

/// What was handed over of short partitions, to be counted.
#[derive(Default)]
struct Passed {
    partitions: u64,
    rows: u64,
    used: Vec<Slot>,
    /// Rows, and ends of partitions, of which the policy is not told.
    untold: (u64, u64),
}

enum State {
    Between,
    Cached(Box<CachedRead>),
    /// The start of the partition was given, and perhaps some rows.
    Short(Short),
    Below(Below),
    Done,
}

/// The files being read.
struct Below {
    source: Box<dyn FragmentSource>,
    buffer: VecDeque<Fragment>,
    /// Whether the partition at hand was passed before and is left out.
    is_left_out: bool,
    population: Option<Population>,
    /// The partition to which the next one is linked: the start of the ring is `Some(None)`.
    /// `None` where the last one could not be kept.
    previous: Option<Option<Rc<PartitionKey>>>,
    /// Whether there was room for all until now.
    has_room: bool,
    /// What is known ahead is being looked at.
    look: Option<Look>,
    /// Enough is known: the next partition comes from the cache.
    leaves: bool,
    /// Partitions and rows that pass before the next look, and before the cache is asked again
    /// where nothing comes in.
    until_look: usize,
    passing: usize,
}

/// What a partition begins with: its deletion and its static row.
type Head<'a> = (Option<Tombstone>, Option<&'a Rc<Row>>);

impl Below {
    /// So many partitions were looked at in vain: lets more pass before the next look.
    fn pause_for(&mut self, partitions: usize, pause: &mut usize) {
        self.passing = (partitions * PASSED_FOR_EACH).max(*pause);
        self.until_look = self.passing;
        *pause = (*pause * 2).min(PASSED_MAX);
        debug_assert!((PASSED_MIN..=PASSED_MAX).contains(pause), "a pause has a bound");
    }

    /// Rows pass of which the cache is not told: pauses end within long partitions, too.
    fn pass_rows(&mut self, rows: usize) {
        if let Some(population) = self.population.take_if(|_| rows > 0) {
            population.stop();
        }
        self.passing = self.passing.saturating_sub(rows);
        self.until_look = self.until_look.saturating_sub(rows);
    }

    /// Hands on up to so many rows in front of which the cache is not told; false for none.
    fn pass_run(&mut self, out: &mut VecDeque<Fragment>, most: usize) -> bool {
        if self.population.as_ref().is_some_and(Population::goes_on) {
            return false;
        }
        let run = self.buffer.iter().take(most).take_while(|next| next.flat().is_some()).count();
        self.pass_rows(run);
        out.extend(self.buffer.drain(..run).filter(|_| !self.is_left_out));
        run > 0
    }
}

impl RingRead {
    /// Whether the cache stands for the SSTables that this scan reads.
    fn is_current(&self) -> bool {
        self.cache.generation_min.get() <= self.generation
    }

    /// Goes to what comes behind the partition that was passed last.
    fn turn(&mut self) -> State {
        if self.is_current() {
            match self.next() {
                Some(next) if !next.is_known_before.get() => {}
                Some(next) if next.key.token() > self.max => return State::Done,
                Some(next) if self.is_whole(&next) => {
                    self.ahead.handles.clear();
                    self.ahead.at_once = 0;
                    return self.cached(&next.key);
                }
                None if self.cache.is_end_known.get() => return State::Done,
                _ => {}
            }
        }
        self.ahead.handles.clear();
        let min = self.last.as_ref().map_or(Token::MIN, |last| last.token());
        // As far as the partition behind the stretch: what lies between is known then.
        let range = PartitionRange::Tokens { min, max: Token::MAX };
        State::Below(Below {
            source: self.underlying.read(&range, &self.slice),
            buffer: VecDeque::new(),
            is_left_out: false,
            population: None,
            previous: Some(self.last.clone()),
            has_room: true,
            look: None,
            leaves: false,
            until_look: 0,
            passing: 0,
        })
    }

    /// The cached partition that comes next.
    fn next(&mut self) -> Option<Rc<Handle>> {
        let partitions = self.cache.partitions.borrow();
        let Ahead { handles, changes, at_once } = &mut self.ahead;
        if handles.is_empty() || *changes != partitions.changes() {
            handles.clear();
            *changes = partitions.changes();
            *at_once = (*at_once * 2).clamp(1, AT_HAND_MAX);
            partitions.ahead(self.last.as_deref(), *at_once, handles);
        }
        let next = handles.front().cloned();
        debug_assert!(
            next.as_ref().is_none_or(|next| self.last.as_ref() < Some(&next.key)),
            "a scan goes on behind what it has passed"
        );
        next
    }

    /// Hands over the short partitions that come next, as far as they are in memory. Ends between
    /// two of them, or with what the sink was given last.
    fn pass_short(&mut self, sink: &mut dyn FragmentSink, passed: &mut Passed) -> Filled {
        debug_assert!(matches!(self.state, State::Between), "no partition is open");
        debug_assert!(self.tells < SCANS_PER_USE, "a scan tells of some partitions");
        let (is_reversed, tells) = (self.slice.direction.is_reversed(), self.tells);
        while self.is_current() {
            let Some(next) = self.next().filter(|next| next.is_known_before.get()) else { break };
            if next.key.token() > self.max {
                break;
            }
            let latest = next.latest.borrow().clone();
            let visited = latest.visit_short(|rows, slots, end_slot| {
                debug_assert_eq!(rows.len(), slots.len(), "each row has a slot");
                passed.partitions += 1;
                passed.rows += rows.len() as u64;
                let has_end = end_slot != NO_SLOT;
                if slots.first().is_some_and(|slot| slot % SCANS_PER_USE == tells) {
                    passed.used.extend(slots);
                    passed.used.extend(has_end.then_some(end_slot));
                } else {
                    passed.untold.0 += rows.len() as u64;
                    passed.untold.1 += u64::from(has_end);
                }
                let (key, deletion) = (next.key.clone(), latest.deletion());
                let mut goes_on = sink.fragment(Fragment::PartitionStart { key, deletion });
                if let Some(row) = latest.static_row() {
                    goes_on &= sink.fragment(Fragment::StaticRow(row));
                }
                let given = match (goes_on, is_reversed) {
                    (false, _) => ControlFlow::Break(0),
                    (true, false) => give(rows.iter(), sink),
                    (true, true) => give(rows.iter().rev(), sink),
                };
                given.map_break(|given| match is_reversed {
                    false => rows.iter().skip(given).cloned().collect(),
                    true => rows.iter().rev().skip(given).cloned().collect(),
                })
            });
            let Some(given) = visited else { break };
            self.ahead.handles.pop_front();
            let key = next.key.clone();
            match given {
                ControlFlow::Break(rest) => {
                    self.state = State::Short(Short { key, rest });
                    return Filled::Some;
                }
                ControlFlow::Continue(()) if !self.end_short(key, sink) => return Filled::Some,
                ControlFlow::Continue(()) => {}
            }
        }
        Filled::Waits
    }

    /// Hands over the rest of a short partition; false when the sink has enough.
    fn go_on(&mut self, mut short: Short, sink: &mut dyn FragmentSink) -> bool {
        match give(short.rest.iter(), sink) {
            ControlFlow::Break(given) => {
                short.rest.drain(..given);
                self.state = State::Short(short);
                false
            }
            ControlFlow::Continue(()) => self.end_short(short.key, sink),
        }
    }

    /// All rows of a short partition were handed over; false when the sink has enough.
    fn end_short(&mut self, key: Rc<PartitionKey>, sink: &mut dyn FragmentSink) -> bool {
        self.last = Some(key);
        self.state = State::Between;
        sink.fragment(Fragment::PartitionEnd)
    }

    /// Counts what came from memory of short partitions.
    fn count(&self, passed: Passed) {
        let Passed { partitions, rows, used, untold } = passed;
        if partitions == 0 {
            return;
        }
        let all = used.len() as u64 + untold.0 + untold.1;
        debug_assert!(all <= rows + partitions, "rows, and the ends behind them");
        self.cache.touch(&used);
        self.cache.cache.count_untold(untold);
        let mut counts = self.cache.counts.borrow_mut();
        counts.reads += partitions;
        counts.partition_hits += partitions;
        counts.row_hits += rows;
        drop(counts);
        self.pace.saved_short(rows);
        probe::count(Count::CacheHits, partitions);
        probe::count(Count::CacheRows, rows);
        probe::note(|| format!("row cache: rows of short partitions from memory: {rows}"));
    }

    /// Whether all of a partition is in memory, or so much that the rest is worth a read of its
    /// own.
    fn is_whole(&mut self, handle: &Handle) -> bool {
        self.looked += 1;
        handle.known_entries(self.worth).is_some()
    }

    fn cached(&self, key: &PartitionKey) -> State {
        let (cache, below) = (self.cache.clone(), self.underlying.clone());
        let read = CachedRead::new(cache, key, &self.slice, below, self.generation);
        State::Cached(Box::new(read.of_a_scan(self.pace.clone())))
    }

    /// A partition of the files begins. False when the cache has it and more, and goes on, and
    /// where it lies behind the stretch.
    fn begin(&mut self, key: &Rc<PartitionKey>, head: Head<'_>) -> bool {
        let is_current = self.is_current();
        let State::Below(below) = &mut self.state else { unreachable!("a file was read") };
        below.is_left_out = self.last.as_ref().is_some_and(|last| *key <= *last);
        if below.is_left_out {
            return true;
        }
        if key.token() > self.max {
            self.end(Some(key));
            return false;
        }
        if !is_current {
            below.previous = None;
            self.last = Some(key.clone());
            return true;
        }
        if below.leaves {
            self.state = State::Between;
            return false;
        }
        self.last = Some(key.clone());
        below.has_room = below.has_room && self.cache.cache.has_spare_room();
        let comes_in = below.has_room && self.pace.begins();
        if comes_in || below.passing == 0 {
            self.meet(key, head, comes_in);
        } else {
            below.passing -= 1;
            below.previous = None;
        }
        true
    }

    /// Tells the cache of a partition that was come to, brings it in where it `comes_in`, and looks
    /// at what the cache knows behind it.
    fn meet(&mut self, key: &Rc<PartitionKey>, head: Head<'_>, comes_in: bool) {
        let State::Below(below) = &mut self.state else { unreachable!("a file was read") };
        let cache = &self.cache;
        let previous = below.previous.take();
        let mut found = cache.find(key, self.generation);
        if found.is_none() && comes_in {
            let (deletion, static_row) = head;
            let version = Version::new(deletion, static_row.cloned(), NO_SLOT, false);
            let arrival = Arrival::Read { run: 0 };
            found = cache.add_partition(key.clone(), version, self.generation, arrival);
            self.pace.brought(0);
        }
        let Some((handle, version)) = found else {
            below.look = None;
            below.pause_for(1, &mut self.pause);
            return;
        };
        if let Some(previous) = &previous {
            cache.link_ring(previous.as_deref(), Some(key));
        }
        below.previous = Some(Some(key.clone()));
        if version.known_entries(self.worth).is_none() {
            if comes_in {
                let (cache, pace) = (cache.clone(), self.pace.clone());
                let target = Target { cache, handle, version, pace };
                let all = ClusteringRange::full();
                below.population = Some(Population::new(target, &all, self.slice.direction));
            } else if below.look.is_none() {
                below.pause_for(1, &mut self.pause);
                return;
            }
        }
        if below.until_look > 0 {
            below.until_look -= 1;
            return;
        }
        let begin = || Look { last: key.clone(), partitions: 0, rows: 0 };
        let look = below.look.get_or_insert_with(begin);
        let before = look.partitions;
        let seen = cache.look_on(look, self.max, self.worth);
        let partitions = look.partitions;
        self.looked += partitions - before;
        match seen {
            Seen::More => return,
            Seen::Enough => {
                self.pause = PASSED_MIN;
                below.leaves = true;
            }
            Seen::Unknown => below.until_look = PASSED_MAX,
            Seen::Hole => below.pause_for(partitions, &mut self.pause),
        }
        below.look = None;
    }

    /// Hands on what was read of the files; true when they have to be asked for more.
    fn drain(&mut self, out: &mut VecDeque<Fragment>, goal: usize, is_at_end: bool) -> bool {
        while out.len() < goal && self.looked < PASSED_AT_ONCE_MAX {
            let State::Below(below) = &mut self.state else { return false };
            // A static row comes right after the start of its partition.
            let is_start = matches!(below.buffer.front(), Some(Fragment::PartitionStart { .. }));
            if below.buffer.is_empty() || is_start && below.buffer.len() < 2 && !is_at_end {
                return true;
            }
            if below.pass_run(out, goal - out.len()) {
                continue;
            }
            let Some(fragment) = below.buffer.pop_front() else { return true };
            match &fragment {
                Fragment::PartitionStart { key, deletion } => {
                    let static_row = match below.buffer.front() {
                        Some(Fragment::StaticRow(row)) => Some(row.clone()),
                        _ => None,
                    };
                    if !self.begin(key, (*deletion, static_row.as_ref())) {
                        return false;
                    }
                }
                Fragment::Row { key, row } => match &mut below.population {
                    Some(population) if population.goes_on() => population.row(key, row),
                    _ => below.pass_rows(1),
                },
                Fragment::RangeTombstoneChange { position, tombstone } => {
                    if let Some(population) = &mut below.population {
                        population.change(position, *tombstone, &ClusteringRange::full());
                    }
                }
                Fragment::PartitionEnd => {
                    if let Some(population) = below.population.take() {
                        population.end(&ClusteringRange::full());
                    }
                }
                Fragment::StaticRow(_) => {}
                Fragment::FlatRow(flat) => match &mut below.population {
                    Some(population) if population.goes_on() => population.flat(flat),
                    _ => below.pass_rows(1),
                },
            }
            let State::Below(below) = &self.state else { return false };
            if !below.is_left_out {
                out.push_back(fragment);
            }
        }
        false
    }

    /// Hands over what is in memory.
    fn pass(&mut self, sink: &mut dyn FragmentSink, passed: &mut Passed) -> Filled {
        self.looked = 0;
        while self.looked < PASSED_AT_ONCE_MAX {
            match &mut self.state {
                State::Done => return Filled::End,
                State::Between => match self.pass_short(sink, passed) {
                    Filled::Some => return Filled::Some,
                    Filled::Waits | Filled::End => self.state = self.turn(),
                },
                State::Short(_) => {
                    let short = std::mem::replace(&mut self.state, State::Between);
                    let State::Short(short) = short else { unreachable!("it was looked at") };
                    if !self.go_on(short, sink) {
                        return Filled::Some;
                    }
                }
                State::Cached(read) => match read.pass_now(sink) {
                    Filled::End => {
                        self.looked += read.passed();
                        self.last = Some(read.key().clone());
                        self.state = State::Between;
                    }
                    filled => return filled,
                },
                State::Below(_) => return Filled::Waits,
            }
        }
        Filled::Some
    }

    /// The files have no more of the stretch: what comes next in them, where something does.
    fn end(&mut self, next: Option<&PartitionKey>) {
        let is_current = self.is_current();
        if let State::Below(Below { previous: Some(previous), .. }) = &self.state
            && is_current
        {
            self.cache.link_ring(previous.as_deref(), next);
        }
        self.state = State::Done;
    }
}

/// Hands over rows side by side; how many were taken where the sink has enough.
fn give<'a>(
    rows: impl Iterator<Item = &'a FlatRow> + Clone,
    sink: &mut dyn FragmentSink,
) -> ControlFlow<usize> {
    let mut out = Out::new(sink);
    let given = out.run(rows);
    if out.is_full { ControlFlow::Break(given) } else { ControlFlow::Continue(()) }
}

impl FragmentSource for RingRead {
    fn skip_partition(&mut self) {
        match &mut self.state {
            State::Cached(read) => {
                self.last = Some(read.key().clone());
                self.state = State::Between;
            }
            State::Below(below) => {
                debug_assert!(!below.is_left_out, "nothing of the partition was given");
                if let Some(population) = below.population.take() {
                    population.stop();
                }
                if !drop_partition(&mut below.buffer) {
                    below.source.skip_partition();
                }
            }
            State::Short(short) => {
                self.last = Some(short.key.clone());
                self.state = State::Between;
            }
            State::Between | State::Done => unreachable!("no partition of the scan is open"),
        }
    }

    fn fill<'a>(&'a mut self, out: &'a mut VecDeque<Fragment>) -> LocalBoxFuture<'a, Result<()>> {
        async move {
            let before = out.len();
            let goal = before + FRAGMENTS_PER_FILL_MAX;
            while self.fill_now(out) == Filled::Waits {
                match &mut self.state {
                    State::Cached(read) => read.fill(out).await?,
                    State::Below(below) => {
                        self.looked = 0;
                        let held = below.buffer.len();
                        below.source.fill(&mut below.buffer).await?;
                        let is_at_end = below.buffer.len() == held;
                        let wants_more = self.drain(out, goal, is_at_end);
                        if is_at_end && wants_more {
                            self.end(None);
                        }
                    }
                    State::Short(_) | State::Between | State::Done => {}
                }
                if out.len() > before {
                    break;
                }
                crate::runtime::maybe_yield().await;
            }
            Ok(())
        }
        .boxed_local()
    }

    fn fill_now(&mut self, out: &mut VecDeque<Fragment>) -> Filled {
        let before = out.len();
        let goal = before + FRAGMENTS_PER_FILL_MAX;
        self.looked = 0;
        while out.len() < goal && self.looked < PASSED_AT_ONCE_MAX {
            match &mut self.state {
                State::Done => break,
                State::Between => self.state = self.turn(),
                State::Short(short) => {
                    out.extend(short.rest.drain(..).map(Fragment::FlatRow));
                    out.push_back(Fragment::PartitionEnd);
                    self.last = Some(short.key.clone());
                    self.state = State::Between;
                }
                State::Cached(read) => {
                    let filled = read.fill_now(out);
                    self.looked += read.passed();
                    match filled {
                        Filled::Some => {}
                        Filled::Waits => break,
                        Filled::End => {
                            self.last = Some(read.key().clone());
                            self.state = State::Between;
                        }
                    }
                }
                State::Below(_) => {
                    if self.drain(out, goal, false) {
                        break;
                    }
                }
            }
        }
        match self.state {
            _ if out.len() > before => Filled::Some,
            State::Done => Filled::End,
            _ => Filled::Waits,
        }
    }

    fn pass_now(&mut self, sink: &mut dyn FragmentSink) -> Filled {
        let mut passed = Passed::default();
        let filled = self.pass(sink, &mut passed);
        self.count(passed);
        filled
    }
}
