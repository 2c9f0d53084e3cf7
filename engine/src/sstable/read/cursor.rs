//! A cursor on the rows and markers of one partition, in either direction: the one place that knows
//! how to get from one to the next.
//!
//! Forward, a row tells where it ends. Reversed, it tells the size of the row or marker before it.
//! The cursor never reads beyond its bound, and reads ahead no further than that.
//!
//! Invariant: `open` is the range tombstone in force where the cursor stands, on the side not yet
//! read. Not here: where to begin (`seek`), what is made of a row (`partition_reader`, `row_read`).

use std::cell::Cell;
use std::rc::Rc;

use super::item::{Item, bytes_first, item_at_hand, pass, read_item};
use crate::error::{Error, Result};
use crate::mutation::{Direction, Position, Tombstone};
use crate::schema::ClusteringKey;
use crate::sstable::data::window::Window;
use crate::sstable::format::coding::{Fault, Input, Parsed};
use crate::sstable::format::layout::Layout;
use crate::sstable::format::unfiltered::{Frame, read_previous_size, read_size};

/// No offset of the data.
pub(super) const NOWHERE: u64 = u64::MAX;

/// Where a cursor stands, as an offset in the data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spot {
    /// Forward: `at` is the start of the next row or marker.
    Next { at: u64 },
    /// Reversed: the next row or marker fills `at..end`.
    Previous { at: u64, end: u64 },
    /// Reversed, before the first step: at the end of the partition.
    End,
    /// Nothing is left in this direction.
    Exhausted,
}

/// Where a partition stands in the data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u64,
    /// Of its first row or marker.
    pub(super) body: u64,
    /// Its end, or that of the file where only that is known: nothing is read ahead of it.
    pub(super) end: u64,
}

impl Span {
    /// The spot before the row or marker at `at`, whose previous one is `previous` bytes away;
    /// `None` where none can stand there.
    pub(super) fn spot_before(&self, at: u64, previous: u64) -> Option<Spot> {
        if at == self.body {
            return (previous == at - self.start).then_some(Spot::Exhausted);
        }
        let room = at.saturating_sub(self.body);
        let is_there = (1..=room).contains(&previous);
        is_there.then(|| Spot::Previous { at: at - previous, end: at })
    }
}

/// What a walk forward came over.
pub(super) struct Walked {
    /// Start and end of the last row or marker.
    pub(super) last: Option<(u64, u64)>,
    /// The place behind it if it is a row.
    pub(super) behind_row: Option<Position>,
    /// In force behind it.
    pub(super) open: Option<Tombstone>,
}

/// See the head of this file.
pub(super) struct RowCursor {
    pub(super) layout: Rc<Layout>,
    pub(super) direction: Direction,
    pub(super) span: Span,
    pub(super) spot: Spot,
    pub(super) open: Option<Tombstone>,
    /// What is wanted has nothing below (reversed) or at and above (forward) this offset.
    pub(super) bound: u64,
    /// Offset of what could not be read last; `NOWHERE` when it was not in the data.
    pub(super) failed_at: Cell<u64>,
}

impl RowCursor {
    /// At the beginning of the partition, in reading order.
    pub(super) fn new(layout: Rc<Layout>, direction: Direction, span: Span) -> Self {
        let Span { start, body, .. } = span;
        debug_assert!(start <= body, "rows begin at {body}, their partition at {start}");
        let (spot, bound) = match direction {
            Direction::Forward => (Spot::Next { at: span.body }, u64::MAX),
            Direction::Reversed => (Spot::End, span.body),
        };
        let failed_at = Cell::new(NOWHERE);
        RowCursor { layout, direction, span, spot, open: None, bound, failed_at }
    }

    /// Forgets the bound and the failure, for another range.
    pub(super) fn release(&mut self) {
        self.failed_at.set(NOWHERE);
        self.bound = match self.direction {
            Direction::Forward => u64::MAX,
            Direction::Reversed => self.span.body,
        };
    }

    /// Where what comes next begins; `None` where nothing of what is wanted does.
    pub(super) fn at(&self) -> Option<u64> {
        match self.spot {
            Spot::Next { at } if at < self.bound => Some(at),
            Spot::Previous { at, .. } if at >= self.bound => Some(at),
            _ => None,
        }
    }

    /// Where it stands; nowhere before the first step back and behind the last one.
    pub(super) fn here(&self) -> u64 {
        match self.spot {
            Spot::Next { at } | Spot::Previous { at, .. } => at,
            Spot::End | Spot::Exhausted => NOWHERE,
        }
    }

    /// Where a forward cursor stands that has come behind its bound.
    pub(super) fn overrun(&self) -> Option<u64> {
        match self.spot {
            Spot::Next { at } if at > self.bound => Some(at),
            _ => None,
        }
    }

    /// Notes where an error arose.
    fn failed(&self, at: u64, error: Error) -> Error {
        self.failed_at.set(at);
        error
    }

    /// Where a forward cursor reads no further.
    fn limit(&self) -> u64 {
        self.bound.min(self.span.end)
    }

    /// Has all that is left for a forward cursor read at once, if it is short.
    ///
    /// Errors: `Io`, `Corrupt`.
    pub(super) async fn take_in(&self, data: &mut Window) -> Result<()> {
        let Spot::Next { at } = self.spot else { return Ok(()) };
        data.take_in(at, self.limit()).await.map_err(|error| self.failed(at, error))
    }

    /// Passes rows for which `is_before` holds, as far as they are at hand: nobody needs them, not
    /// even their keys. Only a forward cursor can; false where it stays.
    pub(super) fn pass(&mut self, data: &Window, is_before: impl Fn(&[u8]) -> bool) -> bool {
        let Spot::Next { at } = self.spot else { return false };
        let behind = pass(data, &self.layout, (at, self.limit()), is_before);
        debug_assert!(behind >= at, "a cursor at {at} goes back to {behind}");
        self.spot = Spot::Next { at: behind };
        behind > at
    }

    /// Reads what comes next; of a row `read` takes the size of what stands before it, and what is
    /// wanted of its body. `None` when it is not at hand and takes more than `read_max` bytes,
    /// which is what may be read for it. The cursor stays where it is.
    ///
    /// Errors: `Io`, `Corrupt`.
    pub(super) async fn next<R>(
        &self,
        data: &mut Window,
        read_max: u64,
        read: impl Fn(&mut Input<'_>, &ClusteringKey, Frame) -> Parsed<(u64, Option<R>)>,
    ) -> Result<Option<Item<R>>> {
        // What is at hand needs no future that could wait.
        match self.next_at_hand(data, &read) {
            Some(item) => item.map(Some),
            None => self.await_next(data, read_max, read).await,
        }
    }

    /// As [`next`](Self::next), where it is known not to be at hand.
    ///
    /// Errors: `Io`, `Corrupt`.
    pub(super) async fn await_next<R>(
        &self,
        data: &mut Window,
        read_max: u64,
        read: impl Fn(&mut Input<'_>, &ClusteringKey, Frame) -> Parsed<(u64, Option<R>)>,
    ) -> Result<Option<Item<R>>> {
        let (at, read_max, limit) = match self.spot {
            Spot::Next { at } => (at, read_max, self.limit()),
            Spot::Previous { at, end } => {
                if end - at > read_max && !data.holds(at, end - at) {
                    return Ok(None);
                }
                let held = data.retreat((at, end), self.bound).await;
                held.map_err(|error| self.failed(at, error))?;
                (at, u64::MAX, end)
            }
            Spot::End | Spot::Exhausted => unreachable!("nothing comes next"),
        };
        let item = read_item(data, &self.layout, ((at, read_max), limit), read).await;
        let item = item.map_err(|error| self.failed(at, error))?;
        if let (Spot::Previous { at, end }, Some(item)) = (self.spot, &item) {
            let (_, end_found) = item.extent();
            if end_found != end {
                let wanted = format!("a row that ends at {end}");
                return Err(self.failed(at, data.content().corrupt(at, wanted, end_found)));
            }
        }
        Ok(item)
    }

    /// As [`next`](Self::next) of a forward cursor, where what it needs is at hand.
    ///
    /// Errors: `Corrupt`.
    pub(super) fn next_at_hand<R>(
        &self,
        data: &Window,
        read: impl Fn(&mut Input<'_>, &ClusteringKey, Frame) -> Parsed<(u64, Option<R>)>,
    ) -> Option<Result<Item<R>>> {
        let Spot::Next { at } = self.spot else { return None };
        let item = item_at_hand(data, &self.layout, (at, self.limit()), read)?;
        Some(item.map_err(|error| self.failed(at, error)))
    }

    /// Moves over what comes next, which has this [`extent`](Item::extent).
    ///
    /// Errors: `Corrupt`.
    pub(super) fn step(&mut self, data: &Window, (previous, end): (u64, u64)) -> Result<()> {
        self.spot = match self.spot {
            Spot::Previous { at, .. } => self.stepped_back(data, at, previous)?,
            _ => {
                let here = self.here();
                debug_assert!(here < end, "a cursor at {here} stays or goes back, to {end}");
                Spot::Next { at: end }
            }
        };
        Ok(())
    }

    /// The spot before the row or marker at `at`, whose previous one is `previous` bytes away.
    ///
    /// Errors: `Corrupt`.
    fn stepped_back(&self, data: &Window, at: u64, previous: u64) -> Result<Spot> {
        self.span.spot_before(at, previous).ok_or_else(|| {
            let Span { start, body, .. } = self.span;
            let wanted = match at == body {
                true => format!("a previous size of {}", at - start),
                false => format!("a previous size up to {}", at.saturating_sub(body)),
            };
            self.failed(at, data.content().corrupt(at, wanted, previous))
        })
    }

    /// The spot of a reversed cursor before the row or marker at `at`; `None` where none stands
    /// there.
    ///
    /// Errors: `Io`, `Corrupt`.
    pub(super) async fn before(&self, data: &mut Window, at: u64) -> Result<Option<Spot>> {
        match self.item_at(data, at).await? {
            Item::End => Ok(None),
            item => self.stepped_back(data, at, item.extent().0).map(Some),
        }
    }

    /// Ends at the end of the partition, to which it has come.
    ///
    /// Errors: `Corrupt` where a range tombstone is in force there.
    pub(super) fn finish(&mut self, data: &Window) -> Result<()> {
        if self.open.is_some() {
            let at = self.here();
            let wanted = "the end of the range tombstone in force";
            let error = data.content().corrupt(at, wanted, "the end of the partition");
            return Err(self.failed(at, error));
        }
        self.spot = Spot::Exhausted;
        Ok(())
    }

    /// The row or marker at `at`, without cells.
    ///
    /// Errors: `Io`, `Corrupt`.
    pub(super) async fn item_at(&self, data: &mut Window, at: u64) -> Result<Item> {
        let read = |input: &mut Input<'_>, _: &ClusteringKey, _: Frame| {
            Ok((read_previous_size(input)?, None))
        };
        let item = read_item(data, &self.layout, ((at, u64::MAX), self.span.end), read).await;
        let item = item.map_err(|error| self.failed(at, error))?;
        Ok(item.expect("what may be read is there"))
    }

    /// Goes forward from `from`, where `open` is in force, up to `until` and as long as `is_passed`
    /// holds. Where something cannot be read, that is said beside what was come over.
    pub(super) async fn walk(
        &self,
        data: &mut Window,
        ((from, open), until): ((u64, Option<Tombstone>), u64),
        is_passed: impl Fn(&Item) -> bool,
    ) -> (Walked, Result<()>) {
        let (mut at, mut walked) = (from, Walked { last: None, behind_row: None, open });
        while at < until {
            let item = match self.item_at(data, at).await {
                Ok(item) if is_passed(&item) => item,
                Ok(_) => break,
                Err(error) => return (walked, Err(error)),
            };
            let (_, end) = item.extent();
            walked.behind_row = match item {
                Item::Row { key, .. } => Some(Position::after(key)),
                Item::Marker { opening, .. } => {
                    walked.open = opening;
                    None
                }
                Item::End => break,
            };
            debug_assert!(at < end, "a walk at {at} stays or goes back, to {end}");
            walked.last = Some((at, end));
            at = end;
        }
        (walked, Ok(()))
    }

    /// What stands last in the partition, going forward from `from` by sizes.
    ///
    /// Errors: `Io`, `Corrupt`.
    pub(super) async fn walk_to_end(
        &self,
        data: &mut Window,
        from: u64,
    ) -> Result<Option<(u64, u64)>> {
        let (mut at, mut last) = (from, None);
        while let Some(size) = self.size(data, at).await.map_err(|error| self.failed(at, error))? {
            debug_assert!(size > 0, "a row or marker of no bytes at {at}");
            let end = at.saturating_add(size);
            last = Some((at, end));
            at = end;
        }
        Ok(last)
    }

    /// Bytes of the row or marker at `at`; `None` at the end of the partition.
    async fn size(&self, data: &mut Window, at: u64) -> Result<Option<u64>> {
        let mut needed = bytes_first((at, self.span.end), data);
        loop {
            data.advance(at, needed, self.span.end).await?;
            match read_size(&mut Input::new(data.bytes_from(at)), &self.layout) {
                Ok(size) => return Ok(size),
                Err(Fault::Short { needed: more }) => {
                    assert!(more > needed, "{needed} bytes are there at {at}, {more} are wanted");
                    needed = more;
                }
                Err(fault) => return Err(data.content().fault(fault, at)),
            }
        }
    }
}
