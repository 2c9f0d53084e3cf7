//! Cuts what a reader walks over to one clustering range, in either direction.
//!
//! Invariant: what was emitted for a range ends with no range tombstone in force.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::rc::Rc;

use crate::mutation::{ClusteringRange, FlatRow, Fragment, Position, Row, Slice, Tombstone};
use crate::schema::ClusteringKey;

/// Where something stands, seen in reading direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Before the range begins: its content does not matter, a change of tombstone does.
    Before,
    Inside,
    /// Where the range has ended.
    Beyond,
}

/// One range being emitted.
#[derive(Debug)]
pub(super) struct Clip {
    slice: Rc<Slice>,
    /// Number of the range, in reading order.
    number: usize,
    has_entered: bool,
    /// In force in what was emitted.
    emitted: Option<Tombstone>,
}

impl Clip {
    /// Of the range with this number, in reading order.
    pub(super) fn new(slice: Rc<Slice>, number: usize) -> Self {
        debug_assert!(number < slice.ranges.len(), "range {number} of {:?}", slice.ranges);
        Clip { slice, number, has_entered: false, emitted: None }
    }

    fn range(&self) -> &ClusteringRange {
        self.slice.range_at(self.number).expect("a clip is of a range")
    }

    /// Whether anything inside the range was emitted.
    pub(super) fn has_entered(&self) -> bool {
        self.has_entered
    }

    /// Whether every row lies inside. In a damaged file, rows before a range may stand within it.
    pub(super) fn is_full(&self) -> bool {
        self.range().is_full()
    }

    pub(crate) fn place_of_row(&self, key: &ClusteringKey) -> Place {
        self.place_of_key(key.as_ordered())
    }

    /// The place of the row with this key in its ordered form.
    pub(super) fn place_of_key(&self, key: &[u8]) -> Place {
        let is_reversed = self.slice.direction.is_reversed();
        self.place(|edge| match is_reversed {
            false => edge.cmp_ordered(key),
            true => edge.cmp_ordered(key).reverse(),
        })
    }

    pub(super) fn place_of_change(&self, position: &Position) -> Place {
        self.place(|edge| self.slice.direction.order(edge, position))
    }

    /// The place of what `order` compares an edge of the range with, in reading direction.
    fn place(&self, order: impl Fn(&Position) -> Ordering) -> Place {
        let (direction, range) = (self.slice.direction, self.range());
        if order(direction.last(range)) != Ordering::Greater {
            Place::Beyond
        } else if order(direction.first(range)) != Ordering::Less {
            Place::Before
        } else {
            Place::Inside
        }
    }

    /// Emits a row inside the range; `open` is the tombstone in force before it.
    #[inline(never)]
    pub(crate) fn row(
        &mut self,
        key: Rc<ClusteringKey>,
        row: Rc<Row>,
        open: Option<Tombstone>,
        out: &mut VecDeque<Fragment>,
    ) {
        debug_assert_eq!(self.place_of_row(&key), Place::Inside, "{key:?}: {:?}", self.range());
        self.enter(open, out);
        out.push_back(Fragment::Row { key, row });
    }

    /// The same with a row as the row cache keeps it.
    #[inline(always)]
    pub(super) fn flat(
        &mut self,
        flat: FlatRow,
        open: Option<Tombstone>,
        out: &mut VecDeque<Fragment>,
    ) {
        debug_assert_eq!(self.place_of_key(flat.key()), Place::Inside, "{:?}", self.range());
        self.enter(open, out);
        out.push_back(Fragment::FlatRow(flat));
    }

    /// Emits a change inside the range from `open` to `to`.
    pub(crate) fn change(
        &mut self,
        position: Position,
        (open, to): (Option<Tombstone>, Option<Tombstone>),
        out: &mut VecDeque<Fragment>,
    ) {
        debug_assert_eq!(self.place_of_change(&position), Place::Inside, "{:?}", self.range());
        self.enter(open, out);
        self.emit(position, to, out);
    }

    /// Says that nothing of the range stands before `position` that was not emitted.
    pub(super) fn announce(
        &mut self,
        position: Position,
        open: Option<Tombstone>,
        out: &mut VecDeque<Fragment>,
    ) {
        self.enter(open, out);
        out.push_back(Fragment::RangeTombstoneChange { position, tombstone: self.emitted });
    }

    /// Ends the range, in which `open` is in force at the end.
    pub(crate) fn leave(mut self, open: Option<Tombstone>, out: &mut VecDeque<Fragment>) {
        self.enter(open, out);
        if self.emitted.is_some() {
            let last = self.slice.direction.last(self.range()).clone();
            self.emit(last, None, out);
        }
        let left = self.emitted;
        debug_assert!(left.is_none(), "{:?} ended with {left:?} in force", self.range());
    }

    fn enter(&mut self, open: Option<Tombstone>, out: &mut VecDeque<Fragment>) {
        if !self.has_entered {
            self.has_entered = true;
            self.open(open, out);
        }
    }

    /// Emits the tombstone that is in force at the edge.
    #[inline(never)]
    fn open(&mut self, open: Option<Tombstone>, out: &mut VecDeque<Fragment>) {
        if open.is_some() {
            self.emit(self.slice.direction.first(self.range()).clone(), open, out);
        }
    }

    fn emit(&mut self, position: Position, to: Option<Tombstone>, out: &mut VecDeque<Fragment>) {
        if self.emitted != to {
            self.emitted = to;
            out.push_back(Fragment::RangeTombstoneChange { position, tombstone: to });
        }
    }
}
