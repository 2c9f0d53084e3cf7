//! The items that every reader streams, in one order for both directions.
//!
//! ```text
//! partition := PartitionStart, [StaticRow], (Row | RangeTombstoneChange)*, PartitionEnd
//! ```
//! Within a partition positions only advance in the direction of the read. A
//! `RangeTombstoneChange` says which range tombstone is in force from its position on (in reading
//! order), `None` for no one; every partition ends with none in force. In a reversed stream the
//! changes are turned round: the same deletion, opened at its end.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::rc::Rc;

use futures::future::LocalBoxFuture;

use super::direction::Direction;
use super::flat::FlatRow;
use super::position::Position;
use super::row::Row;
use super::tombstone::Tombstone;
use crate::error::Result;
use crate::schema::{ClusteringKey, PartitionKey};

/// One item of a stream of partitions. Rows are shared, not copied.
#[derive(Debug, Clone, PartialEq)]
pub enum Fragment {
    /// A partition begins; `deletion` is its partition tombstone.
    PartitionStart {
        key: Rc<PartitionKey>,
        deletion: Option<Tombstone>,
    },
    StaticRow(Rc<Row>),
    Row {
        key: Rc<ClusteringKey>,
        row: Rc<Row>,
    },
    /// A row in one piece of memory: what queries read, from memtables, the row cache and SSTables,
    /// and what merges read.
    FlatRow(FlatRow),
    RangeTombstoneChange {
        position: Position,
        tombstone: Option<Tombstone>,
    },
    PartitionEnd,
}

impl Fragment {
    /// Bytes of the row that it holds, about.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Fragment::StaticRow(row) | Fragment::Row { row, .. } => row.memory_bytes(),
            Fragment::FlatRow(flat) => flat.memory_bytes(),
            _ => 0,
        }
    }

    /// Whether it is a row with a clustering key.
    pub(crate) fn is_row(&self) -> bool {
        matches!(self, Fragment::Row { .. } | Fragment::FlatRow(_))
    }

    /// The row in one piece of memory, if it is one.
    pub(crate) fn flat(&self) -> Option<&FlatRow> {
        match self {
            Fragment::FlatRow(flat) => Some(flat),
            _ => None,
        }
    }

    /// A row in its other form; anything else stays.
    pub fn thawed(self) -> Fragment {
        match self {
            Fragment::FlatRow(flat) => Fragment::Row {
                key: Rc::new(ClusteringKey::from_ordered(flat.key())),
                row: Rc::new(flat.thaw()),
            },
            other => other,
        }
    }
}

/// Looks at the fragments of a stream one after another, for whoever makes the stream: asserts that
/// it keeps the contract of [`FragmentSource`].
#[derive(Debug)]
pub(crate) struct StreamCheck {
    direction: Direction,
    partition: Option<Rc<PartitionKey>>,
    is_open: bool,
    /// Of the row or change before, and whether it was a row.
    place: Option<(Position, bool)>,
    in_force: Option<Tombstone>,
}

impl StreamCheck {
    pub(crate) fn new(direction: Direction) -> Self {
        StreamCheck { direction, partition: None, is_open: false, place: None, in_force: None }
    }

    /// Panics where a fragment does not follow the ones before it.
    pub(crate) fn pass(&mut self, fragment: &Fragment) {
        match fragment {
            Fragment::PartitionStart { key, .. } => {
                assert!(!self.is_open, "{key:?} begins within {:?}", self.partition);
                let last = self.partition.replace(key.clone());
                assert!(last.is_none_or(|last| last < *key), "{key:?} is not in ring order");
                (self.is_open, self.place, self.in_force) = (true, None, None);
            }
            Fragment::StaticRow(_) => {
                let is_first = self.is_open && self.place.is_none();
                assert!(is_first, "a static row stands behind {:?}", self.place);
            }
            Fragment::Row { key, .. } => self.step(Position::at((**key).clone()), true),
            Fragment::FlatRow(flat) => self.step(flat.position(), true),
            Fragment::RangeTombstoneChange { position, tombstone } => {
                self.step(position.clone(), false);
                self.in_force = *tombstone;
            }
            Fragment::PartitionEnd => {
                assert!(self.is_open, "a partition ends that did not begin");
                let left = self.in_force;
                assert!(left.is_none(), "{:?} ends with {left:?} in force", self.partition);
                self.is_open = false;
            }
        }
    }

    /// The rest of a partition is left out.
    pub(crate) fn skip(&mut self) {
        assert!(self.is_open, "the rest of a partition is left out, and none is open");
        (self.is_open, self.place, self.in_force) = (false, None, None);
    }

    /// Changes at one place may follow one another; two rows do not.
    fn step(&mut self, to: Position, is_row: bool) {
        assert!(self.is_open, "{to:?} stands in no partition");
        let follows = self.place.as_ref().is_none_or(|(from, was_row)| {
            let order = self.direction.order(from, &to);
            order.is_lt() || (order.is_eq() && !(is_row && *was_row))
        });
        assert!(follows, "{to:?} stands behind {:?}, {:?}", self.place, self.direction);
        self.place = Some((to, is_row));
    }
}

/// A stream of fragments, pulled in batches.
///
/// Contract: `fill` appends at least one fragment, or none when the stream is at its end, and stays
/// at its end. Partitions come in ring order, whole or cut by the slice asked for; a partition with
/// nothing in the slice may be left out or be empty. A source appends about
/// `config::FRAGMENTS_PER_FILL_MAX` fragments at most and keeps its place between calls. After an
/// error the stream must not be used again.
pub trait FragmentSource {
    fn fill<'a>(&'a mut self, out: &'a mut VecDeque<Fragment>) -> LocalBoxFuture<'a, Result<()>>;

    /// Tells the source that it is one of `inputs` sources of a merge, before its first fill.
    ///
    /// It then says where a long row stands before it reads that row: a fill ends with a
    /// `RangeTombstoneChange` there that changes nothing. By that a merge holds one long row at a
    /// time, and not the next one of each source. And it appends fewer fragments at once, for a
    /// merge works on those of all its sources: together they should fit a processor's cache.
    fn join_merge(&mut self, _inputs: usize) {}

    /// As `fill`, as far as that needs no waiting: what is in memory costs no future.
    fn fill_now(&mut self, _out: &mut VecDeque<Fragment>) -> Filled {
        Filled::Waits
    }

    /// Leaves out the rest of a partition: what comes next is the start of another one. Only where
    /// the start of a partition was given and its end was not.
    fn skip_partition(&mut self);

    /// As `fill_now`, to a sink that takes rows where they lie: `Some` when the sink has enough, or
    /// so much was passed that others should have their turn; `Waits` when the sink wants more and
    /// `fill` has to be asked. Until then the source keeps its place.
    fn pass_now(&mut self, _sink: &mut dyn FragmentSink) -> Filled {
        Filled::Waits
    }
}

/// How many rows there are among fragments, static ones left out.
pub fn rows_in<'a>(fragments: impl Iterator<Item = &'a Fragment>) -> u64 {
    let is_row =
        |fragment: &&Fragment| matches!(fragment, Fragment::Row { .. } | Fragment::FlatRow(_));
    fragments.filter(is_row).count() as u64
}

/// Drops the rest of a partition from what was read ahead. False where its end is not there: then
/// the source has to leave out what is left.
pub fn drop_partition(ahead: &mut VecDeque<Fragment>) -> bool {
    while let Some(fragment) = ahead.pop_front() {
        debug_assert!(
            !matches!(fragment, Fragment::PartitionStart { .. }),
            "{fragment:?} stands within a partition"
        );
        if matches!(fragment, Fragment::PartitionEnd) {
            return true;
        }
    }
    false
}

/// Who takes fragments. `row` and `fragment` return whether more is wanted; a source may hand over
/// what belongs to the same place all the same.
///
/// A sink must not read or change what the source reads from.
pub trait FragmentSink {
    /// A row as the row cache keeps it.
    fn row(&mut self, flat: &FlatRow) -> bool;

    /// Such rows that follow one another with nothing between them. Breaks with how many of them
    /// were taken, the first at least, where no more is wanted.
    fn rows(&mut self, rows: &[&FlatRow]) -> ControlFlow<usize> {
        for (taken, flat) in (1..).zip(rows) {
            if !self.row(flat) {
                return ControlFlow::Break(taken);
            }
        }
        ControlFlow::Continue(())
    }

    /// Anything else.
    fn fragment(&mut self, fragment: Fragment) -> bool;
}

/// How far a source, or a reader above one, went without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filled {
    /// It gave something: as much as was wanted, or as is good in one turn.
    Some,
    /// It is at its end.
    End,
    /// It has to wait, or passed so much that others should have their turn: whoever pulls has to
    /// ask again by the call that waits.
    Waits,
}
