//! A row and its key in one counted piece of memory: how the row cache keeps rows, how memtables
//! keep most of theirs, and how readers get them without a copy.
//!
//! ```text
//! holders u32 | content bytes u16 | key bytes u8 | form u8 | [content bytes u32, key bytes u32] | key | row
//! form := weight u2, whether the row is wide u1
//! row  := nothing where there is none, else
//!         flags, [marker: timestamp, [ttl, expiry]], [tombstone: timestamp, second],
//!         [LEB n], n x cell, [LEB n, n x (LEB column, flags, [tombstone], LEB n, n x (bytes path, cell))]
//! flags := kind of marker u2, has tombstone, has multi-cell columns, n u4 (15: it stands behind)
//! cell := flags u3, column u5 (31: LEB column behind), [timestamp], [second | ttl, expiry], [bytes value]
//! bytes := LEB length, so many bytes
//! ```
//! Fixed integers are little endian; a cell written at the time of its row's marker has none of its
//! own. A value that is the last thing in a row has no length: it ends where the row does. What is
//! usual is short: a row is wide, with lengths behind its head, where its key has more than 255
//! bytes or its content more than 65,535; the timestamp of a marker takes seven bytes where it can.
//!
//! Invariant: the content never changes. It is written and read in this file only, so a form that
//! does not fit is a bug of this file. One thread: holders are counted without atomics.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::borrow::Borrow;
use std::cell::{Cell as Counter, RefCell};
use std::fmt;
use std::ptr::NonNull;

use super::cell::{Cell, CellState};
use super::multi_cell::{CellPath, MultiCell};
use super::position::{Position, Weight};
use super::row::{Liveness, Row};
use super::tombstone::Tombstone;
use crate::prefetch::{LINE_BYTES, Memory};
use crate::schema::{ClusteringKey, ColumnId};

/// What marker a row has: the lowest two bits of its flags. The lowest one says that it never ends.
const MARKER: u8 = 3;
const NO_MARKER: u8 = 0;
/// Its timestamp has seven bytes.
const SHORT_MARKER: u8 = 1;
const EXPIRING_MARKER: u8 = 2;
const LONG_MARKER: u8 = 3;
const IS_ENDLESS: u8 = 1;
/// Bytes of each kind of marker.
const MARKER_BYTES: [u8; 4] = [0, 7, 16, 8];
const HAS_DELETION: u8 = 4;
const HAS_MULTI: u8 = 8;
/// Where the number of cells stands in the flags, and the number that says that it stands behind.
const CELLS_SHIFT: u32 = 4;
const MANY_CELLS: u8 = 15;

/// What a cell says: the lowest two bits of its flags.
const STATE: u8 = 3;
const LIVE: u8 = 0;
const EXPIRING: u8 = 1;
const DELETED: u8 = 2;
const COUNTER: u8 = 3;
/// The cell's timestamp is that of the row's marker.
const OF_THE_ROW: u8 = 4;
/// Where the column stands in the flags of a cell, and the number that says that it stands behind.
const COLUMN_SHIFT: u32 = 3;
const FAR_COLUMN: u8 = 31;

/// The weight in a head's form, and that the row is wide.
const WEIGHT: u8 = 3;
const WIDE: u8 = 4;

#[repr(C)]
struct Head {
    holders: Counter<u32>,
    /// Zeros in a wide row.
    content_bytes: u16,
    key_bytes: u8,
    form: u8,
}

const _: () = assert!(size_of::<Head>() == 8);

/// Behind the head of a wide row: bytes of the content and of the key.
type WideLengths = [u32; 2];

/// A place in a partition with the row that stands there, if one does; see the head of this file.
/// Cloning it counts one holder more.
pub struct FlatRow(NonNull<Head>);

/// Room for a row that is put together, kept up to so many bytes.
const CONTENT_BYTES_KEPT: usize = 64 << 10;

thread_local! {
    /// Where a row is put together before its length is known.
    static CONTENT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A cell of which the value lies elsewhere: in a [`FlatRow`], or where that is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlatCell<'a> {
    pub(crate) column: ColumnId,
    pub(crate) timestamp: i64,
    pub(crate) state: FlatState<'a>,
}

/// As [`CellState`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlatState<'a> {
    Live(&'a [u8]),
    Expiring { value: &'a [u8], ttl: i32, expiry: i32 },
    Deleted { deletion_time: i32 },
    Counter(&'a [u8]),
}

impl FlatRow {
    /// The row with this key.
    pub fn row(key: &[u8], row: &Row) -> Self {
        row.check_order();
        let cells = row.cells.iter().map(|(column, cell)| FlatCell::of(*column, cell));
        let flat = FlatRow::put_together(key, (row.liveness, row.deletion), cells, &row.multi);
        debug_assert_eq!(flat.thaw(), *row, "a row is not read back as it was put together");
        flat
    }

    /// The row with this key, marker, row tombstone and cells of single-cell columns, sorted by
    /// column.
    pub(crate) fn of_cells(
        key: &[u8],
        front: (Option<Liveness>, Option<Tombstone>),
        cells: &[FlatCell<'_>],
    ) -> Self {
        assert!(cells.is_sorted_by_key(|cell| cell.column), "cells stand in the order of columns");
        FlatRow::put_together(key, front, cells.iter(), &[])
    }

    fn put_together<'c>(
        key: &[u8],
        front: (Option<Liveness>, Option<Tombstone>),
        cells: impl ExactSizeIterator<Item: Borrow<FlatCell<'c>>>,
        multi: &[(ColumnId, MultiCell)],
    ) -> Self {
        CONTENT.with_borrow_mut(|content| {
            content.clear();
            content.extend_from_slice(key);
            put_row(content, front, cells, multi);
            let flat = FlatRow::new(key.len(), Weight::At, content);
            content.clear();
            content.shrink_to(CONTENT_BYTES_KEPT);
            flat
        })
    }

    /// A place without a row.
    pub fn place(key: &[u8], weight: Weight) -> Self {
        FlatRow::new(key.len(), weight, key)
    }

    #[expect(unsafe_code, reason = "one piece of memory behind a thin pointer, with its count")]
    fn new(key_bytes: usize, weight: Weight, content: &[u8]) -> Self {
        let bytes = content.len();
        debug_assert!(key_bytes <= bytes, "a key of {key_bytes} bytes in a content of {bytes}");
        let weight = match weight {
            Weight::Before => 0,
            Weight::At => 1,
            Weight::After => 2,
        };
        let holders = Counter::new(1);
        let short = (u16::try_from(content.len()), u8::try_from(key_bytes));
        let (head, wide) = if let (Ok(content_bytes), Ok(key_bytes)) = short {
            (Head { holders, content_bytes, key_bytes, form: weight }, None)
        } else {
            let length = |bytes| u32::try_from(bytes).expect("a row is below 4 GiB");
            let lengths: WideLengths = [length(content.len()), length(key_bytes)];
            let form = weight | WIDE;
            (Head { holders, content_bytes: 0, key_bytes: 0, form }, Some(lengths))
        };
        let start = start_of(wide.is_some());
        let layout = layout(start, content.len());
        // SAFETY: the layout is never empty, it has the head in it.
        let memory = unsafe { alloc(layout) };
        let Some(place) = NonNull::new(memory.cast::<Head>()) else { handle_alloc_error(layout) };
        // SAFETY: the memory is new, of the size and alignment of a head, of the lengths behind it
        // if there are some, and of the content behind these.
        unsafe {
            place.write(head);
            if let Some(lengths) = wide {
                place.add(1).cast::<WideLengths>().write(lengths);
            }
            memory.add(start).copy_from_nonoverlapping(content.as_ptr(), content.len());
        }
        let flat = FlatRow(place);
        debug_assert_eq!(flat.whole(), (content, key_bytes), "memory holds another content");
        flat
    }

    #[inline]
    #[expect(unsafe_code, reason = "a thin pointer is followed")]
    fn head(&self) -> &Head {
        // SAFETY: the pointer is that of an allocation that lives while `self` is one of its
        // holders.
        unsafe { self.0.as_ref() }
    }

    /// Has the head and a short key fetched.
    #[inline]
    pub(crate) fn prefetch(&self) {
        Memory { address: self.0.as_ptr().addr(), bytes: LINE_BYTES / 2 }.prefetch();
    }

    /// Has as much fetched as most rows have.
    #[inline]
    pub(crate) fn prefetch_start(&self) {
        Memory { address: self.0.as_ptr().addr(), bytes: 2 * LINE_BYTES }.prefetch();
    }

    /// The content, and how much of it is the key.
    #[inline]
    #[expect(unsafe_code, reason = "a thin pointer is followed")]
    fn whole(&self) -> (&[u8], usize) {
        let head = self.head();
        let (start, content_bytes, key_bytes) = if head.form & WIDE == 0 {
            (start_of(false), usize::from(head.content_bytes), usize::from(head.key_bytes))
        } else {
            let [content_bytes, key_bytes] = self.wide_lengths();
            (start_of(true), content_bytes as usize, key_bytes as usize)
        };
        // SAFETY: `new` allocated so many bytes from there on and filled them all; nothing writes
        // to them afterwards, and they live as long as the borrow of this holder.
        let content = unsafe {
            let start = self.0.as_ptr().cast::<u8>().add(start);
            std::slice::from_raw_parts(start, content_bytes)
        };
        (content, key_bytes)
    }

    #[cold]
    #[expect(unsafe_code, reason = "a thin pointer is followed")]
    fn wide_lengths(&self) -> WideLengths {
        assert!(self.head().form & WIDE != 0, "only a wide row has lengths behind its head");
        // SAFETY: `new` wrote them there, aligned as the head is, and nothing writes to them again.
        unsafe { self.0.add(1).cast::<WideLengths>().read() }
    }

    /// The row behind the key.
    #[inline]
    fn input(&self) -> Input<'_> {
        let (content, key_bytes) = self.whole();
        Input { rest: &content[key_bytes..] }
    }

    /// The key or prefix, in its ordered form.
    #[inline]
    pub fn key(&self) -> &[u8] {
        let (content, key_bytes) = self.whole();
        &content[..key_bytes]
    }

    #[inline]
    pub fn weight(&self) -> Weight {
        match self.head().form & WEIGHT {
            0 => Weight::Before,
            1 => Weight::At,
            _ => Weight::After,
        }
    }

    pub fn position(&self) -> Position {
        Position { prefix: ClusteringKey::from_ordered(self.key()), weight: self.weight() }
    }

    #[inline]
    pub fn has_row(&self) -> bool {
        let (content, key_bytes) = self.whole();
        content.len() > key_bytes
    }

    /// Bytes of memory, once for all holders.
    pub fn memory_bytes(&self) -> usize {
        self.layout().size()
    }

    fn layout(&self) -> Layout {
        layout(start_of(self.head().form & WIDE != 0), self.whole().0.len())
    }

    /// Whether the row has cells of multi-cell columns, which only [`thaw`](Self::thaw) shows.
    #[inline]
    pub fn has_multi(&self) -> bool {
        self.input().rest.first().is_some_and(|flags| flags & HAS_MULTI != 0)
    }

    /// Whether every reader sees the row as it is, but for single cells that may have expired: it
    /// has a marker for ever, no tombstone and no multi-cell columns. There must be a row.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        debug_assert!(self.has_row(), "a place without a row: {:?}", self.position());
        let flags = self.input().byte();
        flags & (IS_ENDLESS | HAS_DELETION | HAS_MULTI) == IS_ENDLESS
    }

    /// The tombstone of the row itself.
    #[inline]
    pub fn deletion(&self) -> Option<Tombstone> {
        let mut input = self.input();
        let flags = input.rest.first().copied().unwrap_or(0);
        if flags & HAS_DELETION == 0 {
            return None;
        }
        input.skip(1 + usize::from(MARKER_BYTES[usize::from(flags & MARKER)]));
        Some(input.tombstone())
    }

    /// The row as one that can be changed. There must be a row.
    pub fn thaw(&self) -> Row {
        let (liveness, deletion, mut cells) = self.parts();
        let mut row = Row { liveness, deletion, ..Row::default() };
        row.cells.reserve_exact(cells.left);
        row.cells.extend(cells.by_ref().map(|cell| (cell.column, cell.thaw())));
        if self.has_multi() {
            row.multi = cells.input.multi(cells.row_timestamp);
        }
        let left = cells.input.rest.len();
        debug_assert_eq!(left, 0, "{left} bytes behind the last cell of a row: {row:?}");
        row
    }

    /// The marker, the row tombstone and the cells of single-cell columns, sorted by column.
    #[inline(always)]
    pub(super) fn parts(&self) -> (Option<Liveness>, Option<Tombstone>, FlatCells<'_>) {
        debug_assert!(self.has_row(), "cells of a place without a row: {:?}", self.position());
        let mut input = self.input();
        let flags = input.byte();
        let liveness = match flags & MARKER {
            NO_MARKER => None,
            SHORT_MARKER => Some(Liveness::at(input.short_long())),
            LONG_MARKER => Some(Liveness::at(input.long())),
            _ => Some(Liveness::expiring(input.long(), input.int(), input.int())),
        };
        let deletion = (flags & HAS_DELETION != 0).then(|| input.tombstone());
        let left = input.cells(flags);
        let row_timestamp = liveness.map_or(0, |liveness| liveness.timestamp);
        let is_all = flags & HAS_MULTI == 0;
        (liveness, deletion, FlatCells { input, left, is_all, row_timestamp })
    }

    /// The single-cell columns that have a cell, sorted, and the values that a reader at `now`
    /// (seconds) sees. There must be a row.
    #[inline]
    pub fn values(&self, now: i32) -> FlatValues<'_> {
        debug_assert!(self.has_row(), "values of a place without a row: {:?}", self.position());
        let mut input = self.input();
        let flags = input.byte();
        input.skip(usize::from(MARKER_BYTES[usize::from(flags & MARKER)]));
        if flags & HAS_DELETION != 0 {
            input.skip(12);
        }
        let left = input.cells(flags);
        FlatValues { input, left, is_all: flags & HAS_MULTI == 0, now }
    }

    /// Whether a reader at `now` (seconds) sees this row, as far as its single-cell columns say.
    #[inline]
    pub fn is_live_at(&self, now: i32) -> bool {
        if self.input().byte() & IS_ENDLESS != 0 {
            return true;
        }
        let (liveness, ..) = self.parts();
        liveness.is_some_and(|live| live.ttl == 0 || live.expiry > now)
            || self.values(now).any(|(_, value)| value.is_some())
    }

    /// The cells of single-cell columns, sorted by column. There must be a row.
    pub(crate) fn cells(&self) -> impl Iterator<Item = FlatCell<'_>> {
        self.parts().2
    }

    /// Whether `tombstone` covers something of the marker or of the single-cell columns.
    pub fn is_touched_by(&self, tombstone: Tombstone) -> bool {
        let (liveness, _, mut cells) = self.parts();
        liveness.is_some_and(|live| tombstone.covers(live.timestamp))
            || cells.any(|cell| tombstone.covers(cell.timestamp))
    }
}

/// Where the content stands behind the start of the memory.
#[inline]
fn start_of(is_wide: bool) -> usize {
    size_of::<Head>() + if is_wide { size_of::<WideLengths>() } else { 0 }
}

fn layout(start: usize, content_bytes: usize) -> Layout {
    Layout::from_size_align(start + content_bytes, align_of::<Head>())
        .expect("a row is below 4 GiB")
}

impl Clone for FlatRow {
    #[inline]
    fn clone(&self) -> Self {
        let holders = &self.head().holders;
        holders.set(holders.get().checked_add(1).expect("a row has less than 2^32 holders"));
        FlatRow(self.0)
    }
}

impl Drop for FlatRow {
    #[inline]
    #[expect(unsafe_code, reason = "the last holder gives the memory back")]
    fn drop(&mut self) {
        let holders = self.head().holders.get();
        debug_assert!(holders > 0, "a row is let go of more often than it was taken");
        let holders = holders - 1;
        self.head().holders.set(holders);
        if holders == 0 {
            let layout = self.layout();
            // SAFETY: `new` allocated it with this layout, and nobody else holds it.
            unsafe { dealloc(self.0.as_ptr().cast(), layout) };
        }
    }
}

impl PartialEq for FlatRow {
    /// The same place and the same row.
    fn eq(&self, other: &Self) -> bool {
        self.weight() == other.weight() && self.whole() == other.whole()
    }
}

impl Eq for FlatRow {}

impl fmt::Debug for FlatRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = self.has_row().then(|| self.thaw());
        f.debug_struct("FlatRow").field("place", &self.position()).field("row", &row).finish()
    }
}

impl<'a> FlatCell<'a> {
    pub(crate) fn of(column: ColumnId, cell: &'a Cell) -> Self {
        let state = match &cell.state {
            CellState::Live { value } => FlatState::Live(value),
            CellState::Expiring { value, ttl, expiry } => {
                FlatState::Expiring { value, ttl: *ttl, expiry: *expiry }
            }
            CellState::Deleted { deletion_time } => {
                FlatState::Deleted { deletion_time: *deletion_time }
            }
            CellState::Counter { context } => FlatState::Counter(context),
        };
        FlatCell { column, timestamp: cell.timestamp, state }
    }

    /// The cell with a copy of the value.
    pub(crate) fn thaw(&self) -> Cell {
        let state = match self.state {
            FlatState::Live(value) => CellState::Live { value: value.into() },
            FlatState::Expiring { value, ttl, expiry } => {
                CellState::Expiring { value: value.into(), ttl, expiry }
            }
            FlatState::Deleted { deletion_time } => CellState::Deleted { deletion_time },
            FlatState::Counter(context) => CellState::Counter { context: context.into() },
        };
        Cell { timestamp: self.timestamp, state }
    }
}

/// The cells of a row's single-cell columns.
pub(super) struct FlatCells<'a> {
    input: Input<'a>,
    left: usize,
    /// Nothing comes behind them.
    is_all: bool,
    row_timestamp: i64,
}

impl<'a> Iterator for FlatCells<'a> {
    type Item = FlatCell<'a>;

    #[inline]
    fn next(&mut self) -> Option<FlatCell<'a>> {
        self.left = self.left.checked_sub(1)?;
        let is_last = self.is_all && self.left == 0;
        Some(self.input.cell(self.row_timestamp, is_last))
    }
}

/// The values of a row's single-cell columns; see [`FlatRow::values`].
pub struct FlatValues<'a> {
    input: Input<'a>,
    left: usize,
    /// Nothing comes behind them.
    is_all: bool,
    now: i32,
}

impl<'a> Iterator for FlatValues<'a> {
    type Item = (ColumnId, Option<&'a [u8]>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let is_last = self.is_all && self.left == 0;
        let flags = self.input.byte();
        let near = flags >> COLUMN_SHIFT;
        // Most cells: a value as old as its row, of one of the first columns.
        if flags & (STATE | OF_THE_ROW) == LIVE | OF_THE_ROW && near != FAR_COLUMN {
            return Some((ColumnId(u16::from(near)), Some(self.input.value(is_last))));
        }
        Some(self.other(flags, is_last))
    }
}

impl<'a> FlatValues<'a> {
    /// Any cell, behind its flags.
    #[inline(never)]
    fn other(&mut self, flags: u8, is_last: bool) -> (ColumnId, Option<&'a [u8]>) {
        let column = self.input.column(flags);
        if flags & OF_THE_ROW == 0 {
            self.input.skip(8);
        }
        let value = match flags & STATE {
            LIVE | COUNTER => Some(self.input.value(is_last)),
            DELETED => {
                self.input.skip(4);
                None
            }
            _ => {
                self.input.skip(4);
                let expiry = self.input.int();
                Some(self.input.value(is_last)).filter(|_| expiry > self.now)
            }
        };
        (column, value)
    }
}

fn put_number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_tombstone(out: &mut Vec<u8>, tombstone: Tombstone) {
    out.extend_from_slice(&tombstone.timestamp.to_le_bytes());
    out.extend_from_slice(&tombstone.deletion_time.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_value(out: &mut Vec<u8>, value: &[u8], is_last: bool) {
    match is_last {
        true => out.extend_from_slice(value),
        false => put_bytes(out, value),
    }
}

fn put_row<'c>(
    out: &mut Vec<u8>,
    (liveness, deletion): (Option<Liveness>, Option<Tombstone>),
    cells: impl ExactSizeIterator<Item: Borrow<FlatCell<'c>>>,
    multi: &[(ColumnId, MultiCell)],
) {
    let is_expiring = |live: Liveness| live != Liveness::at(live.timestamp);
    let marker = match liveness {
        None => NO_MARKER,
        Some(live) if is_expiring(live) => EXPIRING_MARKER,
        Some(live) if short_long(live.timestamp).is_some() => SHORT_MARKER,
        Some(_) => LONG_MARKER,
    };
    let count = u8::try_from(cells.len()).map_or(MANY_CELLS, |count| count.min(MANY_CELLS));
    let flags = marker
        | deletion.map_or(0, |_| HAS_DELETION)
        | if multi.is_empty() { 0 } else { HAS_MULTI }
        | count << CELLS_SHIFT;
    out.push(flags);
    if let Some(live) = liveness {
        match short_long(live.timestamp).filter(|_| marker == SHORT_MARKER) {
            Some(bytes) => out.extend_from_slice(&bytes),
            None => out.extend_from_slice(&live.timestamp.to_le_bytes()),
        }
        if is_expiring(live) {
            out.extend_from_slice(&live.ttl.to_le_bytes());
            out.extend_from_slice(&live.expiry.to_le_bytes());
        }
    }
    if let Some(deletion) = deletion {
        put_tombstone(out, deletion);
    }
    let row_timestamp = liveness.map_or(0, |live| live.timestamp);
    if count == MANY_CELLS {
        put_number(out, cells.len());
    }
    let last = if multi.is_empty() { cells.len() } else { 0 };
    for (number, cell) in (1..).zip(cells) {
        put_cell(out, cell.borrow(), (row_timestamp, number == last));
    }
    if !multi.is_empty() {
        put_number(out, multi.len());
    }
    for (column, multi) in multi {
        put_number(out, usize::from(column.0));
        out.push(u8::from(multi.deletion.is_some()));
        if let Some(deletion) = multi.deletion {
            put_tombstone(out, deletion);
        }
        put_number(out, multi.cells.len());
        for (path, cell) in &multi.cells {
            put_bytes(out, path.as_ordered());
            put_cell(out, &FlatCell::of(NO_COLUMN, cell), (row_timestamp, false));
        }
    }
}

/// In place of the column, where that is known or does not matter.
pub(crate) const NO_COLUMN: ColumnId = ColumnId(0);

/// A number in seven bytes, if it has no more.
fn short_long(number: i64) -> Option<[u8; 7]> {
    let is_short = number << 8 >> 8 == number;
    let [bytes @ .., _] = number.to_le_bytes();
    debug_assert!(
        !is_short || Input { rest: &bytes }.short_long() == number,
        "{number} is not read back from seven bytes"
    );
    is_short.then_some(bytes)
}

fn put_cell(out: &mut Vec<u8>, cell: &FlatCell<'_>, (row_timestamp, is_last): (i64, bool)) {
    let FlatCell { column, timestamp, state } = *cell;
    let kind = match state {
        FlatState::Live(_) => LIVE,
        FlatState::Expiring { .. } => EXPIRING,
        FlatState::Deleted { .. } => DELETED,
        FlatState::Counter(_) => COUNTER,
    };
    let is_of_row = timestamp == row_timestamp;
    let near = u8::try_from(column.0).map_or(FAR_COLUMN, |column| column.min(FAR_COLUMN));
    out.push(kind | if is_of_row { OF_THE_ROW } else { 0 } | near << COLUMN_SHIFT);
    if near == FAR_COLUMN {
        put_number(out, usize::from(column.0));
    }
    if !is_of_row {
        out.extend_from_slice(&timestamp.to_le_bytes());
    }
    match state {
        FlatState::Live(value) | FlatState::Counter(value) => put_value(out, value, is_last),
        FlatState::Expiring { value, ttl, expiry } => {
            out.extend_from_slice(&ttl.to_le_bytes());
            out.extend_from_slice(&expiry.to_le_bytes());
            put_value(out, value, is_last);
        }
        FlatState::Deleted { deletion_time } => {
            out.extend_from_slice(&deletion_time.to_le_bytes());
        }
    }
}

/// What is left to read of a row.
struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    #[inline]
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (taken, rest) = self.rest.split_first_chunk().expect("a flat row is whole");
        self.rest = rest;
        *taken
    }

    #[inline]
    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    #[inline]
    fn byte(&mut self) -> u8 {
        let [byte] = self.take();
        byte
    }

    #[inline]
    fn int(&mut self) -> i32 {
        i32::from_le_bytes(self.take())
    }

    #[inline]
    fn long(&mut self) -> i64 {
        i64::from_le_bytes(self.take())
    }

    /// A number in seven bytes.
    #[inline]
    fn short_long(&mut self) -> i64 {
        let bytes: [u8; 7] = self.take();
        let mut whole = [0; 8];
        whole[1..].copy_from_slice(&bytes);
        i64::from_le_bytes(whole) >> 8
    }

    /// How many cells follow; `flags` are those of the row.
    #[inline]
    fn cells(&mut self, flags: u8) -> usize {
        match flags >> CELLS_SHIFT {
            MANY_CELLS => self.number(),
            count => usize::from(count),
        }
    }

    /// The column of a cell with these flags.
    #[inline]
    fn column(&mut self, flags: u8) -> ColumnId {
        let near = flags >> COLUMN_SHIFT;
        if near != FAR_COLUMN {
            return ColumnId(u16::from(near));
        }
        let column = self.number();
        debug_assert!(
            (usize::from(FAR_COLUMN)..=usize::from(u16::MAX)).contains(&column),
            "column {column} stands behind the flags of its cell"
        );
        ColumnId(column as u16)
    }

    #[inline]
    fn number(&mut self) -> usize {
        let byte = self.byte();
        if byte < 0x80 { usize::from(byte) } else { self.rest_of_number(byte) }
    }

    fn rest_of_number(&mut self, first: u8) -> usize {
        let mut number = usize::from(first & 0x7f);
        for shift in (7..).step_by(7) {
            let byte = self.byte();
            number |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        number
    }

    #[inline]
    fn bytes(&mut self) -> &'a [u8] {
        let length = self.number();
        let (bytes, rest) = self.rest.split_at(length);
        self.rest = rest;
        bytes
    }

    /// The value of a cell.
    #[inline]
    fn value(&mut self, is_last: bool) -> &'a [u8] {
        if is_last { std::mem::take(&mut self.rest) } else { self.bytes() }
    }

    fn tombstone(&mut self) -> Tombstone {
        Tombstone { timestamp: self.long(), deletion_time: self.int() }
    }

    #[inline(always)]
    fn cell(&mut self, row_timestamp: i64, is_last: bool) -> FlatCell<'a> {
        let flags = self.byte();
        let column = self.column(flags);
        let timestamp = if flags & OF_THE_ROW != 0 { row_timestamp } else { self.long() };
        let state = match flags & STATE {
            LIVE => FlatState::Live(self.value(is_last)),
            EXPIRING => {
                let (ttl, expiry) = (self.int(), self.int());
                FlatState::Expiring { value: self.value(is_last), ttl, expiry }
            }
            DELETED => FlatState::Deleted { deletion_time: self.int() },
            _ => FlatState::Counter(self.value(is_last)),
        };
        FlatCell { column, timestamp, state }
    }

    fn multi(&mut self, row_timestamp: i64) -> Vec<(ColumnId, MultiCell)> {
        let count = self.number();
        debug_assert!(count > 0, "a row says that it has multi-cell columns, and has none");
        let column = |_| {
            let column = ColumnId(self.number() as u16);
            let deletion = (self.byte() != 0).then(|| self.tombstone());
            let count = self.number();
            let cell = |_| {
                let path = CellPath::from_ordered(self.bytes());
                (path, self.cell(row_timestamp, false).thaw())
            };
            let cells = (0..count).map(cell).collect();
            (column, MultiCell { deletion, cells })
        };
        (0..count).map(column).collect()
    }
}

#[cfg(test)]
#[path = "tests/flat.rs"]
mod tests;
