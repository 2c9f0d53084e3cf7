//! What is known of the ring between cached partitions, and scans that go by it.
//!
//! ```text
//! partition        A           C     D            end of the ring
//! known        no      yes       yes      no      yes
//!        ??????|A|...........|C|...|D|?????????|..
//! ```
//! A partition's `is_known_before` says that the SSTables have no partition between the one that
//! stands before it and itself; the end of the ring has such a mark as well. A key in a known gap is
//! absent, and nobody asks the SSTables for it. A flush brings what it has in a known gap into the
//! cache, or forgets the gap.
//!
//! A scan of the whole ring hands out what is known whole and reads the rest from below in one
//! stream. What it read it brings in as long as there is room that nobody has to leave for.
//!
//! Invariant: a mark is true of the latest set of SSTables, memtables that are being merged beside
//! it; a scan that a flush overtakes goes on with its own SSTables and leaves the cache alone.

use std::collections::VecDeque;
use std::ops::Bound;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::read::{CachedRead, Population, Target};
use super::version::{NO_SLOT, PASSED_AT_ONCE_MAX, Version};
use super::{Handle, RowCache, Underlying};
use crate::cache::page_cache::Arrival;
use crate::config::FRAGMENTS_PER_FILL_MAX;
use crate::error::Result;
use crate::mutation::{
    ClusteringRange, Direction, Filled, Fragment, FragmentSink, FragmentSource, PartitionRange,
    Row, Slice, Tombstone,
};
use crate::schema::{PartitionKey, Token};

/// Entries up to which a partition is looked through before it is read from memory; what is missing
/// of a longer one is worth a read of its own.
const ENTRIES_LOOKED_AT_MAX: usize = 1024;
/// Partitions in a row that must be known for a scan to turn from the files to the cache.
const KNOWN_RUN: usize = 8;
/// Partitions between two of a file that are marked in one step.
const MARKED_AT_ONCE_MAX: usize = 256;

impl RowCache {
    /// Whether the SSTables are known to lack a key that has no entry.
    pub(super) fn is_known_absent(&self, key: &PartitionKey) -> bool {
        if !self.has_marks.get() {
            return false;
        }
        match self.after(Some(key)) {
            Some(next) => next.is_known_before.get(),
            None => self.is_end_known.get(),
        }
    }

    /// The first cached partition behind a key; of all without one.
    fn after(&self, key: Option<&PartitionKey>) -> Option<Rc<Handle>> {
        let partitions = self.partitions.borrow();
        let from = key.map_or(Bound::Unbounded, Bound::Excluded);
        partitions.range((from, Bound::Unbounded)).next().cloned()
    }

    /// Forgets that anything is known of the gap in which a key without an entry lies.
    pub(super) fn forget_gap(&self, key: &PartitionKey) {
        if !self.has_marks.get() {
            return;
        }
        match self.after(Some(key)) {
            Some(next) => next.is_known_before.set(false),
            None => self.is_end_known.set(false),
        }
    }

    /// Keeps a partition that a flush brings to a known gap; where there is no room for it the gap
    /// is forgotten.
    pub(super) fn add_to_known_gap(
        &self,
        key: &PartitionKey,
        generation: u64,
    ) -> Option<(Rc<Handle>, Rc<Version>)> {
        if !self.is_known_absent(key) {
            return None;
        }
        let version = Version::new(None, None, NO_SLOT, true);
        let arrival = Arrival::Written;
        let added = self.add_partition(Rc::new(key.clone()), version, generation, arrival);
        if added.is_none() {
            self.forget_gap(key);
        }
        added
    }

    /// Of up to `max` gaps between partitions, how many are known, and how many were looked at.
    pub(super) fn ring_continuity(&self, max: usize) -> (u64, u64) {
        let partitions = self.partitions.borrow();
        let marks = partitions.values().map(|handle| handle.is_known_before.get());
        let (mut known, mut seen) = (0, 0);
        for mark in marks.chain([self.is_end_known.get()]).take(max) {
            known += u64::from(mark);
            seen += 1;
        }
        (known, seen)
    }

    /// Reads every partition whole, in ring order: what is known from memory, else from
    /// `underlying`, the set of SSTables number `generation`.
    pub fn scan(
        &self,
        direction: Direction,
        underlying: Rc<dyn Underlying>,
        generation: u64,
    ) -> Box<dyn FragmentSource> {
        let cache = self.own.upgrade().expect("who calls holds it");
        let slice = Slice::full(direction);
        Box::new(RingRead {
            cache,
            underlying,
            generation,
            slice,
            last: None,
            state: State::Between,
            looked: 0,
        })
    }

    /// Says that between `previous` (the start of the ring without one) and `key` (its end) the
    /// SSTables have nothing, unless one of the two is not there.
    fn mark(&self, previous: Option<&PartitionKey>, key: Option<&PartitionKey>) {
        let partitions = self.partitions.borrow();
        if previous.is_some_and(|previous| !partitions.contains_key(previous)) {
            return;
        }
        let from = previous.map_or(Bound::Unbounded, Bound::Excluded);
        let to = key.map_or(Bound::Unbounded, Bound::Included);
        let between = partitions.range((from, to));
        for (marked, handle) in between.enumerate() {
            if marked == MARKED_AT_ONCE_MAX {
                return;
            }
            self.has_marks.set(true);
            handle.is_known_before.set(true);
        }
        if key.is_none() {
            self.has_marks.set(true);
            self.is_end_known.set(true);
        }
    }

    /// Whether this partition and some behind it are known whole, and what is before each. Adds the
    /// entries that were looked at to `looked`.
    fn is_known_run(&self, key: &PartitionKey, count: usize, looked: &mut usize) -> bool {
        let partitions = self.partitions.borrow();
        let mut run = partitions.range((Bound::Included(key), Bound::Unbounded));
        let Some(first) = run.next() else { return false };
        let mut is_known =
            |handle: &Rc<Handle>| handle.is_known_before.get() && handle.is_whole(looked);
        *first.key == *key && is_known(first) && run.take(count - 1).all(is_known)
    }
}

impl Handle {
    /// Whether all of the partition is in memory, as far as that is soon seen. Adds the entries that
    /// were looked at to `looked`.
    fn is_whole(&self, looked: &mut usize) -> bool {
        let (known, seen) = self.latest.borrow().continuity(ENTRIES_LOOKED_AT_MAX);
        *looked += seen as usize;
        known == seen
    }
}

/// See the head of this file.
struct RingRead {
    cache: Rc<RowCache>,
    underlying: Rc<dyn Underlying>,
    generation: u64,
    slice: Slice,
    /// The partition that was passed last.
    last: Option<Rc<PartitionKey>>,
    state: State,
    /// Entries that this call looked at or passed and gave nothing of: beyond
    /// [`PASSED_AT_ONCE_MAX`] others have their turn.
    looked: usize,
}

enum State {
    Between,
    Cached(Box<CachedRead>),
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
    /// The partition behind which the next one is marked: the start of the ring is `Some(None)`.
    /// `None` where the last one could not be kept.
    previous: Option<Option<Rc<PartitionKey>>>,
    /// Whether there was room for all until now.
    has_room: bool,
}

impl RingRead {
    /// Whether the cache stands for the SSTables that this scan reads.
    fn is_current(&self) -> bool {
        self.cache.generation_min.get() <= self.generation
    }

    /// Goes to what comes behind the partition that was passed last.
    fn turn(&mut self) -> State {
        let last = self.last.as_deref();
        if self.is_current() {
            match self.cache.after(last) {
                Some(next) if next.is_known_before.get() && next.is_whole(&mut self.looked) => {
                    return self.cached(&next.key);
                }
                None if self.cache.is_end_known.get() => return State::Done,
                _ => {}
            }
        }
        let min = last.map_or(Token::MIN, PartitionKey::token);
        let range = PartitionRange::Tokens { min, max: Token::MAX };
        State::Below(Below {
            source: self.underlying.read(&range, &self.slice),
            buffer: VecDeque::new(),
            is_left_out: false,
            population: None,
            previous: Some(self.last.clone()),
            has_room: true,
        })
    }

    fn cached(&self, key: &PartitionKey) -> State {
        let (cache, below) = (self.cache.clone(), self.underlying.clone());
        State::Cached(Box::new(CachedRead::new(cache, key, &self.slice, below, self.generation)))
    }

    /// A partition of the files begins. False when the cache has it and more, and goes on.
    fn begin(
        &mut self,
        key: &Rc<PartitionKey>,
        head: (Option<Tombstone>, Option<&Rc<Row>>),
    ) -> bool {
        let is_current = self.is_current();
        let State::Below(below) = &mut self.state else { unreachable!("a file was read") };
        below.is_left_out = self.last.as_ref().is_some_and(|last| *key <= *last);
        if below.is_left_out {
            return true;
        }
        if !is_current {
            below.previous = None;
            self.last = Some(key.clone());
            return true;
        }
        let previous = below.previous.take();
        let is_there = self.cache.partitions.borrow().contains_key(key);
        if is_there {
            if let Some(previous) = &previous {
                self.cache.mark(previous.as_deref(), Some(key));
            }
            if self.cache.is_known_run(key, KNOWN_RUN, &mut self.looked) {
                return false;
            }
        }
        below.has_room &= self.cache.cache.has_spare_room();
        if !is_there && below.has_room {
            let (deletion, static_row) = head;
            let version = Version::new(deletion, static_row.cloned(), NO_SLOT, false);
            let arrival = Arrival::Read { run: 0 };
            let added = self.cache.add_partition(key.clone(), version, self.generation, arrival);
            if let Some((handle, version)) = added {
                if let Some(previous) = &previous {
                    self.cache.mark(previous.as_deref(), Some(key));
                }
                let target = Target { cache: self.cache.clone(), handle, version };
                let all = ClusteringRange::full();
                below.population = Some(Population::new(target, &all, self.slice.direction));
            }
        }
        if is_there || below.population.is_some() {
            below.previous = Some(Some(key.clone()));
        }
        self.last = Some(key.clone());
        true
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
            let Some(fragment) = below.buffer.pop_front() else { return true };
            match &fragment {
                Fragment::PartitionStart { key, deletion } => {
                    let static_row = match below.buffer.front() {
                        Some(Fragment::StaticRow(row)) => Some(row.clone()),
                        _ => None,
                    };
                    if !self.begin(key, (*deletion, static_row.as_ref())) {
                        self.state = State::Between;
                        return false;
                    }
                }
                Fragment::Row { key, row } => {
                    if let Some(population) = &mut below.population {
                        population.row(key, row);
                    }
                }
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
                Fragment::FlatRow(_) => unreachable!("below the cache there is no other"),
            }
            let State::Below(below) = &self.state else { return false };
            if !below.is_left_out {
                out.push_back(fragment);
            }
        }
        false
    }

    /// The files have no more.
    fn end(&mut self) {
        let is_current = self.is_current();
        if let State::Below(Below { previous: Some(previous), .. }) = &self.state
            && is_current
        {
            self.cache.mark(previous.as_deref(), None);
        }
        self.state = State::Done;
    }
}

impl FragmentSource for RingRead {
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
                            self.end();
                        }
                    }
                    State::Between | State::Done => {}
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
        self.looked = 0;
        while self.looked < PASSED_AT_ONCE_MAX {
            match &mut self.state {
                State::Done => return Filled::End,
                State::Between => self.state = self.turn(),
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
}
