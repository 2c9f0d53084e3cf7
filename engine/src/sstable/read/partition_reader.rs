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
//! Only in the last block (and in partitions without promoted index, which are one block long) is
//! the last row of a range found by walking forward. Memory is that of the window, in both
//! directions. Both end a step before they would have to read: a page of rows reads no more than it
//! needs.
//!
//! Invariant: `open` is the range tombstone in force at `cursor`, on the side not yet read. Not
//! here: going on behind damage (`salvage`).

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::clip::{Clip, Place};
use super::item::{Item, bytes_first, front_of, pass, read_item};
use crate::error::{Error, Result};
use crate::mutation::{ClusteringRange, Direction, Fragment, Position, Slice, Tombstone};
use crate::schema::ClusteringKey;
use crate::sstable::data::file::{CheckedFile, READ_BYTES_MAX, SCAN_BYTES_MAX};
use crate::sstable::data::window::Window;
use crate::sstable::format::coding::{Fault, Input};
use crate::sstable::format::layout::Layout;
use crate::sstable::format::unfiltered::{Frame, read_previous_size, read_row, read_size};
use crate::sstable::index::index_page::LastItem;
use crate::sstable::index::partition_index::Entry;
use crate::sstable::index::promoted_index::{BlockRef, PromotedIndex};

/// No offset of the data.
pub(super) const NOWHERE: u64 = u64::MAX;

/// Where the reader stands, as an offset in the data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cursor {
    /// Forward: `at` is the start of the next row or marker.
    Next { at: u64 },
    /// Reversed: the next row or marker fills `at..end`.
    Previous { at: u64, end: u64 },
    /// Reversed, before the first step: at the end of the partition.
    End,
    /// Nothing is left in this direction.
    Exhausted,
}

/// Where a partition stands and how its front is read.
#[derive(Clone)]
pub(crate) struct Front {
    pub(crate) entry: Entry,
    /// The promoted index is used for every slice, and tells deletion and size of the front.
    pub(super) by_index: bool,
    /// The reader can go on behind damage.
    pub(super) salvages: bool,
}

/// Bytes of the last block that are read at once to walk through it.
const WALK_BYTES_MAX: u64 = READ_BYTES_MAX;

/// Rows of more bytes are announced to whoever asked for that: up to here a window may be as long
/// anyway.
const LONG_ROW_BYTES: u64 = SCAN_BYTES_MAX;

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

/// What going on behind damage needs: the index, and the promoted index's position and size in it
/// while it is thought to be good.
pub(super) type Salvage = (Rc<CheckedFile>, Option<(u64, u64)>);

/// A partition being read.
pub(super) struct PartitionReader {
    pub(crate) layout: Rc<Layout>,
    pub(crate) direction: Direction,
    /// Start of the partition and of its first row or marker in the data file.
    pub(crate) start: u64,
    pub(crate) body: u64,
    pub(crate) promoted: Option<PromotedIndex>,
    /// Ranges to come, in reading order.
    pub(crate) ranges: VecDeque<ClusteringRange>,
    pub(crate) clip: Option<Clip>,
    pub(crate) cursor: Cursor,
    pub(crate) open: Option<Tombstone>,
    /// End of the partition, or of the file where only that is known: nothing is read ahead of it.
    end: u64,
    last: Option<LastItem>,
    /// Bytes of all rows and markers; 0 where that is not known.
    body_bytes: u64,
    /// The present range has nothing below (reversed) or at and above (forward) this offset.
    pub(crate) bound: u64,
    /// For a reader that goes on behind damage: the index, and where the promoted index stands in
    /// it while it is thought to be good.
    pub(crate) salvage: Option<Salvage>,
    /// Where a long row stands is said before it is read; the one that was said last.
    pub(super) announces: bool,
    announced: u64,
    /// Offset of what could not be read last; `NOWHERE` when it was not in the data.
    pub(super) failed_at: Cell<u64>,
}

impl PartitionReader {
    /// Reads the front of the partition at `entry` and emits its start and static row. `index`
    /// reads the promoted index if the slice needs one.
    ///
    /// Errors: `Io`; `Corrupt` also when index and data disagree.
    pub(crate) async fn open(
        layout: Rc<Layout>,
        front: Front,
        slice: &Slice,
        (index, data): (&Rc<CheckedFile>, &mut Window),
        out: &mut VecDeque<Fragment>,
    ) -> Result<Self> {
        let Front { entry, by_index, salvages } = front;
        let start = entry.place.start;
        let data_end = entry.place.end;
        let end = data_end.unwrap_or(data.content().size());
        let is_whole = slice.ranges == [ClusteringRange::full()] && !slice.direction.is_reversed();
        let mut promoted = None;
        if let Some((at, size)) = entry.place.promoted
            && (!is_whole || by_index)
        {
            promoted = Some(PromotedIndex::open(index.clone(), layout.clone(), at, size).await?);
        }
        let stated = promoted.as_ref().map(|promoted| (&**index, promoted.stated));
        let (deletion, static_row, body) =
            front_of(data, &layout, (&entry.key, entry.place), (stated, by_index)).await?;
        out.push_back(Fragment::PartitionStart { key: Rc::new(entry.key), deletion });
        if !static_row.is_empty() {
            out.push_back(Fragment::StaticRow(Rc::new(static_row)));
        }
        let mut ranges: VecDeque<ClusteringRange> = slice.ranges.iter().cloned().collect();
        if slice.direction.is_reversed() {
            ranges.make_contiguous().reverse();
        }
        Ok(PartitionReader {
            layout,
            direction: slice.direction,
            start,
            body,
            promoted,
            ranges,
            clip: None,
            cursor: match slice.direction {
                Direction::Forward => Cursor::Next { at: body },
                Direction::Reversed => Cursor::End,
            },
            open: None,
            end,
            last: entry.last,
            body_bytes: data_end.map_or(0, |end| end.saturating_sub(body)),
            bound: 0,
            salvage: salvages.then(|| (index.clone(), entry.place.promoted)),
            announces: false,
            announced: NOWHERE,
            failed_at: Cell::new(NOWHERE),
        })
    }

    /// Emits fragments until `out`, which held `start`, holds `goal`, all is read, or rows are
    /// there and more would have to be read.
    ///
    /// Errors: `Io`, `Corrupt`.
    pub(crate) async fn step(
        &mut self,
        data: &mut Window,
        out: &mut VecDeque<Fragment>,
        (start, goal): (usize, usize),
    ) -> Result<Progress> {
        while out.len() < goal {
            let Some(clip) = self.clip.take() else {
                let Some(range) = self.ranges.pop_front() else { return Ok(Progress::Done) };
                let kept = self.salvage.is_some().then(|| range.clone());
                let clip = Clip::new(self.direction, range);
                self.failed_at.set(NOWHERE);
                let sought = match self.direction {
                    Direction::Forward => self.seek(clip, out).await,
                    Direction::Reversed => self.seek_reversed(clip, data, out).await,
                };
                if let Err(error) = sought {
                    if let Some(range) = kept {
                        self.ranges.push_front(range);
                    }
                    return Err(error);
                }
                continue;
            };
            let has_rows = out.len() > start && matches!(out.back(), Some(Fragment::Row { .. }));
            let may_read = !has_rows;
            let went_on = match self.cursor {
                Cursor::Next { at } if at < self.bound => {
                    self.forward(clip, (at, may_read), data, out).await?
                }
                Cursor::Previous { at, end } if at >= self.bound => {
                    self.backward(clip, (at, end, may_read), data, out).await?
                }
                Cursor::Next { at } if at > self.bound => {
                    self.failed_at.set(at);
                    self.clip = Some(clip);
                    return Err(self.contradicts("a row at the start of a block", at));
                }
                _ => {
                    clip.leave(self.open, out);
                    true
                }
            };
            if !went_on {
                return Ok(Progress::WouldRead);
            }
        }
        Ok(Progress::Enough)
    }

    fn contradicts(&self, wanted: &str, found: impl ToString) -> Error {
        let promoted = self.promoted.as_ref().expect("without promoted index no bound is passed");
        promoted.contradiction(wanted, found)
    }

    /// Offset in the data file of a block.
    async fn block_at(&mut self, number: u32) -> Result<u64> {
        let promoted = self.promoted.as_mut().expect("blocks come from the promoted index");
        let offset = promoted.look(number, |block| block.offset).await?;
        Ok(self.start.saturating_add(offset))
    }

    async fn open_before(&mut self, number: u32) -> Result<Option<Tombstone>> {
        let promoted = self.promoted.as_mut().expect("blocks come from the promoted index");
        promoted.open_before(number).await
    }

    fn block_count(&self) -> u32 {
        self.promoted.as_ref().map_or(0, PromotedIndex::count)
    }

    /// Moves the cursor to where a forward read of the clip's range begins.
    async fn seek(&mut self, clip: Clip, out: &mut VecDeque<Fragment>) -> Result<()> {
        self.bound = u64::MAX;
        if let Some(promoted) = &mut self.promoted {
            let range = clip.range();
            let (mut first, mut target) = (0, self.start);
            if range.start != Position::start() {
                first = promoted.first_after(&range.start).await?;
                let mut is_between = true;
                if first < promoted.count() {
                    let look =
                        |block: BlockRef<'_>| (block.offset, block.cmp_first(&range.end).is_ge());
                    let (offset, is_behind) = promoted.look(first, look).await?;
                    (target, is_between) = (self.start.saturating_add(offset), is_behind);
                }
                if is_between {
                    // No data to read, though a tombstone may cover it.
                    clip.leave(self.open_before(first).await?, out);
                    return Ok(());
                }
            }
            let mut after = promoted.count();
            if range.end != Position::end() {
                after = promoted.known_from(first, &range.end)?;
            }
            if first > 0 && matches!(self.cursor, Cursor::Next { at } if at < target) {
                self.open = self.open_before(first).await?;
                self.cursor = Cursor::Next { at: target };
            }
            if after < self.block_count() {
                self.bound = self.block_at(after).await?;
            }
        }
        self.clip = Some(clip);
        Ok(())
    }

    /// Whether the row at `at`, if it is a long one, has to be announced before it is read.
    fn must_announce(&self, at: u64) -> bool {
        self.announces && self.announced != at
    }

    /// Emits where the long row at `at` stands. False if it did: the row is for the next step.
    async fn announce(
        &mut self,
        mut clip: Clip,
        at: u64,
        data: &mut Window,
        out: &mut VecDeque<Fragment>,
    ) -> Result<bool> {
        self.announced = at;
        let went_on = match self.item_read(data, at).await {
            Ok(Item::Row { key, .. }) if clip.place_of_row(&key) == Place::Inside => {
                let position = match self.direction {
                    Direction::Forward => Position::before(key),
                    Direction::Reversed => Position::after(key),
                };
                clip.announce(position, self.open, out);
                Ok(false)
            }
            item => item.map(|_| true),
        };
        self.clip = Some(clip);
        went_on
    }

    /// Emits what stands at `at`; false when that is not at hand and must not be read.
    async fn forward(
        &mut self,
        mut clip: Clip,
        (at, may_read): (u64, bool),
        data: &mut Window,
        out: &mut VecDeque<Fragment>,
    ) -> Result<bool> {
        let limit = self.bound.min(self.end);
        // All that is left of the range, by one read.
        if may_read && let Err(error) = data.take_in(at, limit).await {
            self.failed_at.set(at);
            self.clip = Some(clip);
            return Err(error);
        }
        let is_before = |key: &[u8]| clip.place_of_key(key) == Place::Before;
        let behind = match clip.has_entered() {
            true => at,
            false => pass(data, &self.layout, (at, limit), is_before),
        };
        if behind > at {
            self.cursor = Cursor::Next { at: behind };
            self.clip = Some(clip);
            return Ok(true);
        }
        let read_max = match may_read {
            true if self.must_announce(at) => LONG_ROW_BYTES,
            true => u64::MAX,
            false => 0,
        };
        let item = match self.item(data, (at, read_max), limit, Some(&clip)).await {
            Ok(Some(item)) => item,
            Ok(None) if may_read => return self.announce(clip, at, data, out).await,
            Ok(None) => {
                self.clip = Some(clip);
                return Ok(false);
            }
            Err(error) => {
                self.clip = Some(clip);
                return Err(error);
            }
        };
        match item {
            Item::End => {
                if self.open.is_some() {
                    self.failed_at.set(at);
                    self.clip = Some(clip);
                    let wanted = "the end of the range tombstone in force";
                    let found = "the end of the partition";
                    return Err(data.content().corrupt(at, wanted, found));
                }
                self.cursor = Cursor::Exhausted;
            }
            Item::Row { key, row, end, .. } => match clip.place_of_row(&key) {
                Place::Beyond => {
                    clip.leave(self.open, out);
                    return Ok(true);
                }
                place => {
                    if let Some(row) = row.filter(|_| place == Place::Inside) {
                        clip.row(key, row, self.open, out);
                    }
                    self.cursor = Cursor::Next { at: end };
                }
            },
            Item::Marker { position, opening, end, .. } => match clip.place_of_change(&position) {
                Place::Beyond => {
                    clip.leave(self.open, out);
                    return Ok(true);
                }
                place => {
                    if place == Place::Inside {
                        clip.change(position, (self.open, opening), out);
                    }
                    self.open = opening;
                    self.cursor = Cursor::Next { at: end };
                }
            },
        }
        self.clip = Some(clip);
        Ok(true)
    }

    /// Moves the cursor to where a reversed read of the clip's range begins.
    async fn seek_reversed(
        &mut self,
        clip: Clip,
        data: &mut Window,
        out: &mut VecDeque<Fragment>,
    ) -> Result<()> {
        self.bound = self.body;
        let range = clip.range();
        let to_the_end = range.end == Position::end();
        let mut walk_from = Some((self.body, None));
        let mut walk_bytes = self.body_bytes;
        let is_first = to_the_end && self.cursor == Cursor::End;
        if is_first
            && range.start == Position::start()
            && let Some((at, end)) = self.last.as_ref().and_then(LastItem::get)
        {
            // Somebody walked there before.
            self.cursor = Cursor::Previous { at, end };
            self.clip = Some(clip);
            return Ok(());
        }
        if let Some(promoted) = &mut self.promoted {
            let mut after = promoted.count();
            if !to_the_end {
                after = promoted.first_from(&range.end).await?;
            }
            let Some(last) = after.checked_sub(1) else {
                clip.leave(None, out);
                return Ok(());
            };
            let block = match to_the_end {
                true => promoted.last().await?,
                false => promoted.block(last).await?,
            };
            if block.last <= range.start {
                clip.leave(block.open, out);
                return Ok(());
            }
            if range.start != Position::start() {
                let low = promoted.known_up_to(last, &range.start)?;
                if low > 0 {
                    self.bound = self.block_at(low).await?;
                }
            }
            if after < self.block_count() {
                walk_from = None;
                let high = self.block_at(after).await?;
                let is_below = match self.cursor {
                    Cursor::Previous { at, .. } => at < high,
                    Cursor::Exhausted => true,
                    _ => false,
                };
                if !is_below {
                    self.cursor = self.before(data, high).await?;
                    self.open = block.open;
                }
            } else if self.cursor == Cursor::End {
                // At the end of a partition no tombstone is in force, whatever was before.
                let open = if to_the_end { None } else { self.open_before(last).await? };
                walk_from = Some((self.start.saturating_add(block.offset), open));
                walk_bytes = block.width;
            }
        }
        if let Some((from, open)) = walk_from
            && self.cursor == Cursor::End
        {
            // All of the walk in one read, if it is that short.
            let rest = data.content().size().saturating_sub(from);
            let ahead = walk_bytes.min(WALK_BYTES_MAX).min(rest);
            if ahead > 0 && !data.is_careful() {
                data.advance(from, ahead, from + ahead).await?;
            }
            if to_the_end {
                self.walk_to_end(from, data).await?;
            } else {
                self.walk(&clip, (from, open), data).await?;
            }
        }
        self.clip = Some(clip);
        Ok(())
    }

    /// Finds what stands last in the partition, going forward from `from` by sizes.
    async fn walk_to_end(&mut self, from: u64, data: &mut Window) -> Result<()> {
        let (mut at, mut last) = (from, None);
        while let Some(size) = self.size(data, at).await? {
            let end = at.saturating_add(size);
            last = Some(Cursor::Previous { at, end });
            at = end;
        }
        self.open = None;
        if let (Some(Cursor::Previous { at, end }), Some(noted)) = (last, &self.last) {
            noted.set((at, end));
        }
        self.cursor = match last {
            Some(cursor) => cursor,
            None if from == self.body => Cursor::Exhausted,
            None => self.before(data, from).await?,
        };
        Ok(())
    }

    /// Bytes of the row or marker at `at`; `None` at the end of the partition.
    async fn size(&self, data: &mut Window, at: u64) -> Result<Option<u64>> {
        let size = self.try_size(data, at).await;
        if size.is_err() {
            self.failed_at.set(at);
        }
        size
    }

    async fn try_size(&self, data: &mut Window, at: u64) -> Result<Option<u64>> {
        let mut needed = bytes_first((at, self.end), data);
        loop {
            data.advance(at, needed, self.end).await?;
            match read_size(&mut Input::new(data.bytes_from(at)), &self.layout) {
                Ok(size) => return Ok(size),
                Err(Fault::Short { needed: more }) => needed = more,
                Err(fault) => return Err(data.content().fault(fault, at)),
            }
        }
    }

    /// Finds what stands last before the end of the range, going forward from `from`.
    async fn walk(
        &mut self,
        clip: &Clip,
        (from, open): (u64, Option<Tombstone>),
        data: &mut Window,
    ) -> Result<()> {
        let end_of_range = &clip.range().end;
        let (mut at, mut last) = (from, None);
        self.open = open;
        loop {
            let end = match self.item_read(data, at).await? {
                Item::End => break,
                Item::Row { key, end, .. } if end_of_range.cmp_key(&key).is_gt() => end,
                Item::Marker { position, opening, end, .. } if *end_of_range > position => {
                    self.open = opening;
                    end
                }
                _ => break,
            };
            last = Some(Cursor::Previous { at, end });
            at = end;
        }
        self.cursor = match last {
            Some(cursor) => cursor,
            None if from == self.body => Cursor::Exhausted,
            None => self.before(data, from).await?,
        };
        Ok(())
    }

    /// The row or marker before the one at `at`, which is not the first.
    async fn before(&mut self, data: &mut Window, at: u64) -> Result<Cursor> {
        match self.item_read(data, at).await? {
            Item::Row { previous, .. } | Item::Marker { previous, .. } => {
                self.failed_at.set(at);
                self.stepped_back(data, at, previous)
            }
            Item::End => Err(self.contradicts("a row at the start of a block", at)),
        }
    }

    /// The cursor before the row or marker at `at`, whose previous one is `previous` bytes away.
    fn stepped_back(&self, data: &Window, at: u64, previous: u64) -> Result<Cursor> {
        let room = at.saturating_sub(self.body);
        let is_first = at == self.body;
        let wanted = if is_first { at - self.start } else { room };
        if (is_first && previous == wanted) || (!is_first && (1..=room).contains(&previous)) {
            return Ok(match is_first {
                true => Cursor::Exhausted,
                false => Cursor::Previous { at: at - previous, end: at },
            });
        }
        let wanted = format!("a previous size {} {wanted}", if is_first { "of" } else { "up to" });
        Err(data.content().corrupt(at, wanted, previous))
    }

    /// Emits what fills `at..end`; false when that is not at hand and must not be read.
    async fn backward(
        &mut self,
        mut clip: Clip,
        (at, end, may_read): (u64, u64, bool),
        data: &mut Window,
        out: &mut VecDeque<Fragment>,
    ) -> Result<bool> {
        if !may_read && !data.holds(at, end - at) {
            self.clip = Some(clip);
            return Ok(false);
        }
        if end - at > LONG_ROW_BYTES && !data.holds(at, end - at) && self.must_announce(at) {
            return self.announce(clip, at, data, out).await;
        }
        let item = match data.retreat((at, end), self.bound).await {
            Ok(()) => self.item(data, (at, u64::MAX), end, Some(&clip)).await,
            Err(error) => Err(error),
        };
        self.failed_at.set(at);
        let item = match item {
            Ok(item) => item.expect("what may be read is there"),
            Err(error) => {
                self.clip = Some(clip);
                return Err(error);
            }
        };
        let (previous, end_found) = match &item {
            Item::Row { previous, end, .. } | Item::Marker { previous, end, .. } => {
                (*previous, *end)
            }
            Item::End => (0, 0),
        };
        if end_found != end {
            self.clip = Some(clip);
            let (wanted, found) = (format!("a row that ends at {end}"), end_found);
            return Err(data.content().corrupt(at, wanted, found));
        }
        match item {
            Item::Row { key, row, .. } => match clip.place_of_row(&key) {
                Place::Beyond => {
                    clip.leave(self.open, out);
                    return Ok(true);
                }
                place => {
                    if let Some(row) = row.filter(|_| place == Place::Inside) {
                        clip.row(key, row, self.open, out);
                    }
                }
            },
            Item::Marker { position, closing, .. } => match clip.place_of_change(&position) {
                Place::Beyond => {
                    clip.leave(self.open, out);
                    return Ok(true);
                }
                place => {
                    // Seen from the other side, a range is in force before its end.
                    if place == Place::Inside {
                        clip.change(position, (self.open, closing), out);
                    }
                    self.open = closing;
                }
            },
            Item::End => {}
        }
        self.clip = Some(clip);
        self.cursor = self.stepped_back(data, at, previous)?;
        Ok(true)
    }

    /// The row or marker at `at`, without cells.
    pub(super) async fn item_read(&self, data: &mut Window, at: u64) -> Result<Item> {
        let item = self.item(data, (at, u64::MAX), self.end, None).await?;
        Ok(item.expect("what may be read is there"))
    }

    /// Reads the row or marker at `at`; a row's cells only where `wanted` says they lie inside.
    /// `None` as of [`read_item`].
    pub(crate) async fn item(
        &self,
        data: &mut Window,
        at: (u64, u64),
        limit: u64,
        wanted: Option<&Clip>,
    ) -> Result<Option<Item>> {
        let read = |input: &mut Input<'_>, key: &ClusteringKey, frame: Frame| {
            if wanted.is_some_and(|clip| clip.place_of_row(key) == Place::Inside) {
                let columns = &self.layout.regulars;
                let (previous, row) = read_row(input, &self.layout, columns, frame)?;
                return Ok((previous, Some(row)));
            }
            Ok((read_previous_size(input)?, None))
        };
        let item = read_item(data, &self.layout, (at, limit), read).await;
        if item.is_err() {
            self.failed_at.set(at.0);
        }
        item
    }
}
