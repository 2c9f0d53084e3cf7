//! Reads the rows of one partition, forward or reversed, cut to a slice.
//!
//! Forward, the promoted index gives the first block that a range needs and, where its page is at
//! hand, the block where it may stop. Reversed, it gives the block to begin behind; from there each
//! row's `previous size` leads to the row before, in a window that ends at the row:
//!
//! ```text
//!   block            block            block (last)
//!  |r1 r2 r3 r4 r5 |r6 r7 r8 r9 ra  |rb rc rd re rf |end
//!                                    ------------->       1. the last block is walked through, sizes only
//!                                                <-rf     2. rf tells the size of re, and so on
//!            <-------------<---<----                      3. windows of 4, 8 ... 128 KiB, each ending
//!                                                            where the row begins that was read last
//! ```
//!
//! Memory is that of the window, in both directions. Both end a step before they would have to
//! read: a page of rows reads no more than it needs.
//!
//! Not here: where a range begins (`seek`), how a row leads to the next (`cursor`), going on behind
//! damage (`salvage`).

use std::collections::VecDeque;
use std::rc::Rc;

use super::clip::{Clip, Place};
use super::cursor::{NOWHERE, RowCursor, Span, Spot};
use super::item::{Item, PartitionFront, front_of};
use crate::error::Result;
use crate::mutation::{Direction, FlatRow, Fragment, Position, Row, Slice, Tombstone};
use crate::schema::ClusteringKey;
use crate::sstable::data::file::{CheckedFile, SCAN_BYTES_MAX};
use crate::sstable::data::window::Window;
use crate::sstable::format::coding::Input;
use crate::sstable::format::layout::Layout;
use crate::sstable::format::unfiltered::{
    Frame, RowAtHand, RowContent, RowsAtHand, read_content, read_previous_size, read_row,
};
use crate::sstable::index::index_page::{Entry, LastItem};
use crate::sstable::index::promoted_index::PromotedIndex;

/// Where a partition stands and how its front is read.
#[derive(Clone)]
pub(crate) struct Front {
    pub(crate) entry: Entry,
    /// The promoted index is used for every slice, and tells deletion and size of the front.
    pub(super) by_index: bool,
    /// The reader can go on behind damage.
    pub(super) salvages: bool,
}

/// Rows of more bytes are announced to whoever asked for that: up to here a window may be as long
/// anyway.
const LONG_ROW_BYTES: u64 = SCAN_BYTES_MAX;

/// What a seek found.
pub(super) enum Sought {
    /// The cursor stands where rows of the range may come next.
    Rows,
    /// The range has no data to read, though a tombstone may cover it.
    Nothing(Option<Tombstone>),
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Enough was emitted.
    Enough,
    /// Something was emitted, and more needs bytes that are not at hand.
    WouldRead,
    /// All is read.
    Done,
}

/// A row in one form or the other, with its key.
enum AtHand {
    Flat(FlatRow),
    Row(Rc<ClusteringKey>, Rc<Row>),
}

/// What going on behind damage needs: the index, and the promoted index's position and size in it
/// while it is thought to be good.
pub(super) type Salvage = (Rc<CheckedFile>, Option<(u64, u64)>);

/// A partition being read.
pub(super) struct PartitionReader {
    pub(super) cursor: RowCursor,
    pub(super) promoted: Option<PromotedIndex>,
    slice: Rc<Slice>,
    /// Number of the range that comes next, in reading order.
    next_range: usize,
    pub(super) clip: Option<Clip>,
    /// Where the last row or marker is noted.
    pub(super) last: Option<LastItem>,
    /// Bytes of all rows and markers; 0 where that is not known.
    pub(super) body_bytes: u64,
    /// For a reader that goes on behind damage.
    pub(super) salvage: Option<Salvage>,
    /// Where a long row stands is said before it is read; the one that was said last.
    pub(super) announces: bool,
    announced: u64,
    /// Rows without multi-cell columns come as the row cache keeps them.
    pub(super) is_flat: bool,
}

impl PartitionReader {
    /// Reads the front of the partition at `entry` and emits its start and static row. `index`
    /// reads the promoted index if the slice needs one.
    ///
    /// Errors: `Io`; `Corrupt` also when index and data disagree.
    pub(super) async fn open(
        layout: Rc<Layout>,
        front: Front,
        slice: &Rc<Slice>,
        (index, data): (&Rc<CheckedFile>, &mut Window),
        out: &mut VecDeque<Fragment>,
    ) -> Result<Self> {
        let Front { entry, by_index, salvages } = front;
        let (start, end) = (entry.place.start, entry.place.end);
        let is_whole = slice.is_full() && !slice.direction.is_reversed();
        let mut promoted = None;
        if let Some((at, size)) = entry.place.promoted
            && (!is_whole || by_index)
        {
            promoted = Some(PromotedIndex::open(index.clone(), layout.clone(), at, size).await?);
        }
        let stated = promoted.as_ref().map(|promoted| (&**index, promoted.stated));
        let PartitionFront { deletion, static_row, body } =
            front_of(data, &layout, (&entry.key, entry.place), (stated, by_index)).await?;
        out.push_back(Fragment::PartitionStart { key: Rc::new(entry.key), deletion });
        if !static_row.is_empty() {
            out.push_back(Fragment::StaticRow(Rc::new(static_row)));
        }
        let span = Span { start, body, end: end.unwrap_or(data.content().size()) };
        Ok(PartitionReader {
            cursor: RowCursor::new(layout, slice.direction, span),
            promoted,
            slice: slice.clone(),
            next_range: 0,
            clip: None,
            last: entry.last,
            body_bytes: end.map_or(0, |end| end.saturating_sub(body)),
            salvage: salvages.then(|| (index.clone(), entry.place.promoted)),
            announces: false,
            announced: NOWHERE,
            is_flat: false,
        })
    }

    /// Emits fragments until `out`, which held `start`, holds `goal`, all is read, or rows are
    /// there and more would have to be read.
    ///
    /// Errors: `Io`, `Corrupt`.
    pub(super) async fn step(
        &mut self,
        data: &mut Window,
        out: &mut VecDeque<Fragment>,
        (start, goal): (usize, usize),
    ) -> Result<Progress> {
        while out.len() < goal {
            if self.clip.is_none() {
                if self.next_range == self.slice.ranges.len() {
                    return Ok(Progress::Done);
                }
                self.begin(data, out).await?;
                continue;
            }
            let Some(at) = self.cursor.at() else {
                self.leave(out)?;
                continue;
            };
            if self.emit_at_hand(data, out, goal) {
                continue;
            }
            let has_rows = out.len() > start && out.back().is_some_and(Fragment::is_row);
            if !self.emit(at, !has_rows, data, out).await? {
                return Ok(Progress::WouldRead);
            }
        }
        Ok(Progress::Enough)
    }

    /// Emits rows within the range that are at hand, as far as there is nothing to wait for and
    /// nothing to tell of: most rows. False where the next thing is none of these.
    fn emit_at_hand(&mut self, data: &Window, out: &mut VecDeque<Fragment>, goal: usize) -> bool {
        let Some(clip) = &mut self.clip else { return false };
        let cursor = &mut self.cursor;
        let (layout, open) = (cursor.layout.clone(), cursor.open);
        let (start, bytes) = data.held();
        let mut rows = RowsAtHand::new(&layout, bytes);
        let takes_all = clip.is_full();
        let before = out.len();
        while out.len() < goal {
            let Some(at) = cursor.at() else { break };
            let Some(from) = at.checked_sub(start) else { break };
            let is_inside = |key: &[u8]| takes_all || clip.place_of_key(key) == Place::Inside;
            let row = rows.row_at(from, self.is_flat, is_inside, |key, content| match content {
                RowContent::Flat(flat) => AtHand::Flat(flat),
                RowContent::Row(row) => AtHand::Row(Rc::new(ClusteringKey::from_ordered(key)), row),
            });
            let Some(RowAtHand { row, bytes, previous }) = row else { break };
            debug_assert!(bytes > 0, "a row of no bytes at {at}");
            cursor.spot = match cursor.spot {
                // What contradicts itself is read again, and told of.
                Spot::Previous { end, .. } => match cursor.span.spot_before(at, previous) {
                    Some(spot) if at + bytes == end => spot,
                    _ => break,
                },
                _ => Spot::Next { at: at + bytes },
            };
            match row {
                AtHand::Flat(flat) => clip.flat(flat, open, out),
                AtHand::Row(key, row) => clip.row(key, row, open, out),
            }
        }
        out.len() > before
    }

    /// Begins the next range, which stays to be read where that fails.
    async fn begin(&mut self, data: &mut Window, out: &mut VecDeque<Fragment>) -> Result<()> {
        debug_assert!(self.clip.is_none(), "a range begins within another");
        let (slice, number) = (self.slice.clone(), self.next_range);
        let range = slice.range_at(number).expect("a range is to be read");
        let sought = self.seek(range, data).await?;
        self.next_range = number + 1;
        let clip = Clip::new(slice, number);
        match sought {
            Sought::Rows => self.clip = Some(clip),
            Sought::Nothing(open) => clip.leave(open, out),
        }
        Ok(())
    }

    /// Nothing more of the slice is read.
    pub(super) fn leave_out_the_rest(&mut self) {
        self.clip = None;
        self.next_range = self.slice.ranges.len();
    }

    /// Ends the range behind which the cursor stands.
    fn leave(&mut self, out: &mut VecDeque<Fragment>) -> Result<()> {
        if let Some(at) = self.cursor.overrun() {
            self.cursor.failed_at.set(at);
            return Err(self.no_row_at(at));
        }
        if let Some(clip) = self.clip.take() {
            clip.leave(self.cursor.open, out);
        }
        Ok(())
    }

    /// Emits what stands at `at`, where the cursor is; false when that is not at hand and must not
    /// be read.
    async fn emit(
        &mut self,
        at: u64,
        may_read: bool,
        data: &mut Window,
        out: &mut VecDeque<Fragment>,
    ) -> Result<bool> {
        let cursor = &mut self.cursor;
        let clip = self.clip.as_mut().expect("a range is being read");
        if may_read {
            // All that is left of the range, by one read.
            cursor.take_in(data).await?;
        }
        let is_before = |key: &[u8]| clip.place_of_key(key) == Place::Before;
        if !clip.has_entered() && cursor.pass(data, is_before) {
            return Ok(true);
        }
        // The row at `at`, if it is a long one, has to be announced before it is read.
        let read_max = match may_read {
            true if self.announces && self.announced != at => LONG_ROW_BYTES,
            true => u64::MAX,
            false => 0,
        };
        let (layout, is_flat) = (&*cursor.layout, self.is_flat);
        let read = |input: &mut Input<'_>, key: &ClusteringKey, frame: Frame| {
            if clip.place_of_row(key) != Place::Inside {
                return Ok((read_previous_size(input)?, None));
            }
            let (previous, content) = if is_flat {
                read_content(input, layout, &layout.regulars, (key.as_ordered(), frame))?
            } else {
                let (previous, row) = read_row(input, layout, &layout.regulars, frame)?;
                (previous, RowContent::Row(Rc::new(row)))
            };
            Ok((previous, Some(content)))
        };
        let Some(item) = cursor.next(data, read_max, read).await? else {
            return if may_read { self.announce(at, data, out).await } else { Ok(false) };
        };
        let extent = item.extent();
        let (place, open) = (place_of(&item, clip), cursor.open);
        match item {
            Item::End => {
                cursor.finish(data)?;
                return Ok(true);
            }
            _ if place == Place::Beyond => {
                self.clip.take().expect("a range is being read").leave(open, out);
                return Ok(true);
            }
            Item::Row { key, row, .. } => match row {
                Some(RowContent::Row(row)) => clip.row(Rc::new(key), row, open, out),
                Some(RowContent::Flat(flat)) => clip.flat(flat, open, out),
                None => {}
            },
            Item::Marker { position, closing, opening, .. } => {
                // Seen from the other side, a range is in force before its end.
                let to = if cursor.direction.is_reversed() { closing } else { opening };
                if place == Place::Inside {
                    clip.change(position, (open, to), out);
                }
                cursor.open = to;
            }
        }
        cursor.step(data, extent)?;
        Ok(true)
    }

    /// Emits where the long row at `at` stands. False if it did: the row is for the next step.
    async fn announce(
        &mut self,
        at: u64,
        data: &mut Window,
        out: &mut VecDeque<Fragment>,
    ) -> Result<bool> {
        debug_assert!(self.announces && self.announced != at, "a row at {at} is said twice");
        self.announced = at;
        let clip = self.clip.as_mut().expect("a range is being read");
        match self.cursor.item_at(data, at).await? {
            Item::Row { key, .. } if clip.place_of_row(&key) == Place::Inside => {
                let position = match self.cursor.direction {
                    Direction::Forward => Position::before(key),
                    Direction::Reversed => Position::after(key),
                };
                clip.announce(position, self.cursor.open, out);
                Ok(false)
            }
            _ => Ok(true),
        }
    }
}

/// Where a row or marker stands; a row that was read with its cells lies inside.
fn place_of(item: &Item<RowContent>, clip: &Clip) -> Place {
    match item {
        Item::Row { row: None, key, .. } => clip.place_of_row(key),
        Item::Marker { position, .. } => clip.place_of_change(position),
        Item::Row { .. } | Item::End => Place::Inside,
    }
}
