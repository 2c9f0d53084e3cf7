//! Rows and range-tombstone markers of `Data.db`, encoded and decoded.
//!
//! ```text
//! row    := flags, [extended flags], clustering values, vint size, body
//! body   := vint previous size, [liveness], [deletion], [column subset], cells
//! marker := flags, bound, vint size, vint previous size, deletion, [deletion]
//! end    := flags
//! ```
//! `size` counts from the byte after itself, so a reader can skip what it does not want; `previous
//! size` leads a reversed reader back. A multi-cell column is `[deletion], vint n, cells`, each
//! cell with a path before its value; once one such column of a row has a deletion, each has, be it
//! the one that deletes nothing.

use std::ops::Range;
use std::rc::Rc;

use super::coding::{Fault, Input, Parsed, put_vint};
use super::layout::{HeaderColumns, Layout};
use super::prefix::{Bound, PrefixEncoder, look_at_values, read_bound, read_values, skip_values};
use crate::mutation::{
    Cell, CellPath, FlatCell, FlatRow, FlatState, Liveness, MultiCell, NO_COLUMN, Position, Row,
    RowView, Tombstone,
};
use crate::schema::order::decode_component;
use crate::schema::{ClusteringKey, ClusteringOrder, ColumnId, DataType};

const END_OF_PARTITION: u8 = 0x01;
const IS_MARKER: u8 = 0x02;
const HAS_TIMESTAMP: u8 = 0x04;
const HAS_TTL: u8 = 0x08;
const HAS_DELETION: u8 = 0x10;
const HAS_ALL_COLUMNS: u8 = 0x20;
const HAS_COMPLEX_DELETION: u8 = 0x40;
const EXTENSION: u8 = 0x80;
const IS_STATIC: u8 = 0x01;
/// Flags behind `EXTENSION` of deletions that a newer row marker undoes: Cassandra's once, and
/// ScyllaDB's.
const SHADOWABLE: u8 = 0x02;
const SHADOWABLE_OF_SCYLLA: u8 = 0x80;

const CELL_IS_DELETED: u8 = 0x01;
const CELL_IS_EXPIRING: u8 = 0x02;
const CELL_HAS_EMPTY_VALUE: u8 = 0x04;
const CELL_USES_ROW_TIMESTAMP: u8 = 0x08;
const CELL_USES_ROW_TTL: u8 = 0x10;
const CELL_FLAGS: u8 = 0x1f;

/// From this many columns on the subset is a list instead of a bitmap.
const BITMAP_COLUMNS: usize = 64;

/// The byte that ends a partition.
pub(crate) const PARTITION_END: u8 = END_OF_PARTITION;

/// Encodes rows and markers, reusing its memory.
#[derive(Debug, Default)]
pub(crate) struct UnfilteredEncoder {
    pub(crate) prefix: PrefixEncoder,
    body: Vec<u8>,
    /// Place in the header and index in the row of each cell or multi-cell column.
    order: Vec<(u16, usize)>,
    /// Bytes of the path being written.
    path: Vec<u8>,
}

impl UnfilteredEncoder {
    /// Appends the static row; it is there even when it is empty.
    pub(crate) fn put_static_row(&mut self, layout: &Layout, row: &RowView<'_>, out: &mut Vec<u8>) {
        let flags = self.encode_body(layout, &layout.statics, row, 0);
        out.extend_from_slice(&[flags | EXTENSION, IS_STATIC]);
        self.put_body(out);
    }

    /// Appends a clustering row with a key in its ordered form. `previous` is the distance to the
    /// start of what stands before. Returns where in `out` the values of the key stand.
    pub(crate) fn put_row(
        &mut self,
        layout: &Layout,
        (key, row): (&[u8], &RowView<'_>),
        previous: u64,
        out: &mut Vec<u8>,
    ) -> Range<usize> {
        let flags = self.encode_body(layout, &layout.regulars, row, previous);
        out.push(flags);
        let from = out.len();
        self.prefix.put_key(layout, key, out);
        let values = from..out.len();
        self.put_body(out);
        values
    }

    /// Appends a marker where the range tombstone `closing` ends and `opening` begins.
    pub(crate) fn put_marker(
        &mut self,
        layout: &Layout,
        position: &Position,
        (closing, opening): (Option<Tombstone>, Option<Tombstone>),
        previous: u64,
        out: &mut Vec<u8>,
    ) {
        out.push(IS_MARKER);
        let bound = Bound::new(position.weight, closing.is_some(), opening.is_some());
        self.prefix.put_bound(layout, bound, &position.prefix, out);
        self.body.clear();
        put_vint(&mut self.body, previous);
        for tombstone in [closing, opening].into_iter().flatten() {
            put_tombstone(layout, tombstone, &mut self.body);
        }
        self.put_body(out);
    }

    fn put_body(&self, out: &mut Vec<u8>) {
        put_vint(out, self.body.len() as u64);
        out.extend_from_slice(&self.body);
    }

    /// Fills `body` and returns the flags.
    fn encode_body(
        &mut self,
        layout: &Layout,
        columns: &HeaderColumns,
        row: &RowView<'_>,
        previous: u64,
    ) -> u8 {
        let body = &mut self.body;
        body.clear();
        put_vint(body, previous);
        let mut flags = 0;
        if let Some(live) = row.liveness {
            flags |= HAS_TIMESTAMP;
            put_timestamp(layout, live.timestamp, body);
            if live.ttl != 0 {
                flags |= HAS_TTL;
                put_ttl(layout, live.ttl, body);
                put_time(layout, live.expiry, body);
            }
        }
        if let Some(deletion) = row.deletion {
            flags |= HAS_DELETION;
            put_tombstone(layout, deletion, body);
        }
        self.order.clear();
        let place_of = |id| columns.place(id).expect("a row holds cells of its own kind of column");
        self.order.extend(row.cells.iter().enumerate().map(|(i, c)| (place_of(c.column), i)));
        self.order.extend(row.multi.iter().enumerate().map(|(i, (id, _))| (place_of(*id), i)));
        self.order.sort_unstable();
        debug_assert!(
            self.order.is_sorted_by(|(a, _), (b, _)| a < b),
            "two cells of one column: {row:?}"
        );
        let has_deletions = row.multi.iter().any(|(_, multi)| multi.deletion.is_some());
        if has_deletions {
            flags |= HAS_COMPLEX_DELETION;
        }
        if self.order.len() == columns.list.len() {
            flags |= HAS_ALL_COLUMNS;
        } else {
            let present = self.order.iter().map(|(place, _)| u64::from(*place));
            put_subset(columns.list.len() as u64, present, body);
        }
        for (place, i) in &self.order {
            let column = &columns.list[usize::from(*place)];
            let Some(path_type) = &column.path else {
                let cell = &row.cells[*i];
                assert_eq!(column.id, Some(cell.column), "a cell is written in another's place");
                put_cell(layout, cell, row.liveness, (column.shape.fixed_bytes, None), body);
                continue;
            };
            let (id, multi) = &row.multi[*i];
            assert_eq!(column.id, Some(*id), "elements are written in another column's place");
            if has_deletions {
                put_tombstone(layout, multi.deletion.unwrap_or(NO_DELETION), body);
            }
            put_vint(body, multi.cells.len() as u64);
            for (path, cell) in &multi.cells {
                self.path.clear();
                let order = ClusteringOrder::Ascending;
                decode_component(path_type, order, path.as_ordered(), &mut self.path)
                    .expect("paths in memory are in the ordered form of their column");
                let cell = FlatCell::of(*id, cell);
                put_cell(layout, &cell, row.liveness, (None, Some(&self.path)), body);
            }
        }
        flags
    }
}

/// Stands where a multi-cell column has no deletion.
const NO_DELETION: Tombstone = Tombstone { timestamp: i64::MIN, deletion_time: i32::MAX };

/// Appends which of `count` columns are present, for a proper subset of them.
fn put_subset(count: u64, present: impl ExactSizeIterator<Item = u64> + Clone, out: &mut Vec<u8>) {
    let present_count = present.len() as u64;
    debug_assert!(present_count < count, "{present_count} of {count} columns are no proper subset");
    if count < BITMAP_COLUMNS as u64 {
        let all = (1u64 << count) - 1;
        put_vint(out, present.fold(all, |missing, place| missing & !(1 << place)));
        return;
    }
    put_vint(out, count - present_count);
    if present_count < count / 2 {
        present.for_each(|place| put_vint(out, place));
    } else {
        let mut next = 0;
        for place in present {
            (next..place).for_each(|missing| put_vint(out, missing));
            next = place + 1;
        }
        (next..count).for_each(|missing| put_vint(out, missing));
    }
}

fn put_cell(
    layout: &Layout,
    cell: &FlatCell<'_>,
    live: Option<Liveness>,
    (fixed, path): (Option<usize>, Option<&[u8]>),
    out: &mut Vec<u8>,
) {
    let value = cell.state.value();
    let mut flags = if value.is_empty() { CELL_HAS_EMPTY_VALUE } else { 0 };
    if live.is_some_and(|live| live.timestamp == cell.timestamp) {
        flags |= CELL_USES_ROW_TIMESTAMP;
    }
    match cell.state {
        FlatState::Live(_) | FlatState::Counter(_) => {}
        FlatState::Deleted { .. } => flags |= CELL_IS_DELETED,
        FlatState::Expiring { ttl, expiry, .. } => {
            flags |= CELL_IS_EXPIRING;
            if live.is_some_and(|live| live.ttl != 0 && live.ttl == ttl && live.expiry == expiry) {
                flags |= CELL_USES_ROW_TTL;
            }
        }
    }
    out.push(flags);
    if flags & CELL_USES_ROW_TIMESTAMP == 0 {
        put_timestamp(layout, cell.timestamp, out);
    }
    match cell.state {
        FlatState::Live(_) | FlatState::Counter(_) => {}
        FlatState::Deleted { deletion_time } => put_time(layout, deletion_time, out),
        FlatState::Expiring { ttl, expiry, .. } if flags & CELL_USES_ROW_TTL == 0 => {
            put_time(layout, expiry, out);
            put_ttl(layout, ttl, out);
        }
        FlatState::Expiring { .. } => {}
    }
    if let Some(path) = path {
        put_vint(out, path.len() as u64);
        out.extend_from_slice(path);
    }
    if !value.is_empty() {
        match fixed {
            Some(length) => assert_eq!(value.len(), length, "a value has the length of its type"),
            None => put_vint(out, value.len() as u64),
        }
        out.extend_from_slice(value);
    }
}

fn put_timestamp(layout: &Layout, timestamp: i64, out: &mut Vec<u8>) {
    put_vint(out, timestamp.wrapping_sub(layout.bases.min_timestamp) as u64);
}

fn put_time(layout: &Layout, seconds: i32, out: &mut Vec<u8>) {
    put_vint(out, i64::from(seconds.wrapping_sub(layout.bases.min_deletion_time)) as u64);
}

fn put_ttl(layout: &Layout, ttl: i32, out: &mut Vec<u8>) {
    put_vint(out, i64::from(ttl.wrapping_sub(layout.bases.min_ttl)) as u64);
}

fn put_tombstone(layout: &Layout, tombstone: Tombstone, out: &mut Vec<u8>) {
    put_timestamp(layout, tombstone.timestamp, out);
    put_time(layout, tombstone.deletion_time, out);
}

/// The front of a row or marker: what it is, where, and how long.
#[derive(Debug, PartialEq)]
pub(crate) enum Head {
    End,
    Row { key: ClusteringKey, frame: Frame },
    Marker { position: Position, bound: Bound, frame: Frame },
}

/// Where the body of a row or marker lies in the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    flags: u8,
    /// First byte of the body.
    pub(crate) body: u64,
    /// First byte after it.
    pub(crate) end: u64,
}

/// Reads the front of an unfiltered; `input` is left at the body.
pub(crate) fn read_head(input: &mut Input<'_>, layout: &Layout) -> Parsed<Head> {
    let before = input.clone();
    let flags = input.u8()?;
    if flags & END_OF_PARTITION != 0 {
        if flags != END_OF_PARTITION {
            return Err(before.bad("flags of a row", format!("{flags:#04x}")));
        }
        return Ok(Head::End);
    }
    if flags & EXTENSION != 0 {
        let found = match input.u8()? {
            SHADOWABLE | SHADOWABLE_OF_SCYLLA => {
                "a shadowable tombstone, of a materialized view, which is not supported".to_owned()
            }
            extended => format!("{flags:#04x} {extended:#04x}"),
        };
        return Err(before.bad("flags of a clustering row", found));
    }
    if flags & IS_MARKER != 0 {
        if flags != IS_MARKER {
            return Err(before.bad("flags of a marker", format!("{flags:#04x}")));
        }
        let kind = input.u8()?;
        let bound =
            Bound::from_kind(kind).ok_or_else(|| before.bad("the kind of a bound", kind))?;
        let position = read_bound(input, layout, bound)?;
        let frame = read_frame(input, flags)?;
        return Ok(Head::Marker { position, bound, frame });
    }
    let key = read_values(input, layout, layout.clustering.len())?;
    let frame = read_frame(input, flags)?;
    Ok(Head::Row { key, frame })
}

/// Bytes of the row that the input begins with, if it is a whole one with a key for which
/// `is_passed` holds; its body is not looked at.
pub(crate) fn read_passed(
    input: &Input<'_>,
    layout: &Layout,
    is_passed: impl FnOnce(&[u8]) -> bool,
) -> Option<u64> {
    let mut front = input.clone();
    let flags = front.u8().ok()?;
    if flags & (END_OF_PARTITION | EXTENSION | IS_MARKER) != 0 {
        return None;
    }
    let look = |_: &mut Input<'_>, key: &[u8]| is_passed(key);
    let is_passed = look_at_values(&mut front, layout, layout.clustering.len(), look);
    let frame = read_frame(&mut front, flags).ok()?;
    let is_whole = frame.end <= input.remaining();
    (is_passed.ok()? && is_whole).then_some(frame.end)
}

/// Bytes of the row or marker that the input begins with, `None` for the end of the partition. Its
/// place is stepped over, its body not looked at.
pub(crate) fn read_size(input: &mut Input<'_>, layout: &Layout) -> Parsed<Option<u64>> {
    let mut front = input.clone();
    let flags = front.u8()?;
    if flags & (END_OF_PARTITION | EXTENSION) != 0 {
        // The end, or what must not stand here.
        return read_head(input, layout).map(|_| None);
    }
    if flags & IS_MARKER != 0 {
        let _kind = front.u8()?;
        let count = usize::from(front.u16()?);
        skip_values(&mut front, layout, count)?;
    } else {
        skip_values(&mut front, layout, layout.clustering.len())?;
    }
    let frame = read_frame(&mut front, flags)?;
    Ok(Some(frame.end))
}

fn read_frame(input: &mut Input<'_>, flags: u8) -> Parsed<Frame> {
    let before = input.clone();
    let size = input.vint()?;
    let body = input.at();
    let end = body.checked_add(size).ok_or_else(|| before.bad("the size of a row", size))?;
    Ok(Frame { flags, body, end })
}

/// The body of `frame` as an input of its own.
fn body_of<'a>(input: &mut Input<'a>, frame: Frame) -> Parsed<Input<'a>> {
    Ok(Input::new(input.take(frame.end - frame.body)?))
}

/// Turns a fault within a body into one of the input.
fn within(frame: Frame, fault: Fault) -> Fault {
    fault.within((frame.body, frame.end - frame.body), |needed| {
        format!("a body of at least {needed} bytes")
    })
}

/// Reads only the size of what stands before; `input` is at the body.
pub(crate) fn read_previous_size(input: &mut Input<'_>) -> Parsed<u64> {
    input.vint()
}

/// Reads the body of a row, to which `input` points: size of what stands before, and the row.
pub(crate) fn read_row(
    input: &mut Input<'_>,
    layout: &Layout,
    columns: &HeaderColumns,
    frame: Frame,
) -> Parsed<(u64, Row)> {
    let mut body = body_of(input, frame)?;
    read_row_body(&mut body, layout, columns, frame.flags).map_err(|fault| within(frame, fault))
}

/// Reads the body of a marker: size of what stands before, the range tombstone that ends and the
/// one that begins.
pub(crate) fn read_marker(
    input: &mut Input<'_>,
    layout: &Layout,
    bound: Bound,
    frame: Frame,
) -> Parsed<(u64, Option<Tombstone>, Option<Tombstone>)> {
    let mut body = body_of(input, frame)?;
    let mut read = || {
        let previous = body.vint()?;
        let closing = bound.closes().then(|| tombstone(&mut body, layout)).transpose()?;
        let opening = bound.opens().then(|| tombstone(&mut body, layout)).transpose()?;
        check_used_up(&body)?;
        Ok((previous, closing, opening))
    };
    read().map_err(|fault| within(frame, fault))
}

/// Reads a static row, flags and all.
pub(crate) fn read_static_row(input: &mut Input<'_>, layout: &Layout) -> Parsed<Row> {
    let before = input.clone();
    let flags = input.u8()?;
    let extended = input.u8()?;
    if flags & (EXTENSION | END_OF_PARTITION | IS_MARKER) != EXTENSION || extended != IS_STATIC {
        return Err(before.bad("flags of a static row", format!("{flags:#04x} {extended:#04x}")));
    }
    let frame = read_frame(input, flags & !EXTENSION)?;
    Ok(read_row(input, layout, &layout.statics, frame)?.1)
}

fn check_used_up(body: &Input<'_>) -> Parsed<()> {
    match body.remaining() {
        0 => Ok(()),
        left => Err(body.bad("the end of the body", format!("{left} more bytes"))),
    }
}

/// A row in one form or the other.
pub(crate) enum RowContent {
    /// With multi-cell columns.
    Row(Rc<Row>),
    /// As the row cache keeps it.
    Flat(FlatRow),
}

/// Reads rows that are at hand: in most scans, most rows. What is no such row is left to
/// [`read_head`] and [`read_content`], which say what it is.
pub(crate) struct RowsAtHand<'a> {
    layout: &'a Layout,
    bytes: &'a [u8],
    cells: Vec<FlatCell<'a>>,
}

/// What was made of a row at hand.
pub(crate) struct RowAtHand<T> {
    pub(crate) row: T,
    /// Bytes that it takes.
    pub(crate) bytes: u64,
    /// Bytes of what stands before it.
    pub(crate) previous: u64,
}

impl<'a> RowsAtHand<'a> {
    pub(crate) fn new(layout: &'a Layout, bytes: &'a [u8]) -> Self {
        RowsAtHand { layout, bytes, cells: Vec::new() }
    }

    /// What `take` makes of the row at `at` and its key, if it is whole and one for whose key
    /// `is_wanted` holds. It is flat if it may be and can be.
    #[inline]
    pub(crate) fn row_at<T>(
        &mut self,
        at: u64,
        may_be_flat: bool,
        is_wanted: impl FnOnce(&[u8]) -> bool,
        take: impl FnOnce(&[u8], RowContent) -> T,
    ) -> Option<RowAtHand<T>> {
        let RowsAtHand { layout, bytes, cells } = self;
        let mut input = Input::new(bytes.get(at as usize..)?);
        let flags = input.u8().ok()?;
        if flags & (END_OF_PARTITION | EXTENSION | IS_MARKER) != 0 {
            return None;
        }
        let read = |input: &mut Input<'a>, key: &[u8]| {
            if !is_wanted(key) {
                return None;
            }
            let frame = read_frame(input, flags).ok()?;
            let columns = &layout.regulars;
            let (previous, content) = if may_be_flat {
                read_content_with(cells, input, layout, columns, (key, frame)).ok()?
            } else {
                let (previous, row) = read_row(input, layout, columns, frame).ok()?;
                (previous, RowContent::Row(Rc::new(row)))
            };
            debug_assert!(frame.end > 0, "a row of no bytes");
            Some(RowAtHand { row: take(key, content), bytes: frame.end, previous })
        };
        look_at_values(&mut input, layout, layout.clustering.len(), read).ok()?
    }
}

/// Reads the body of a row, to which `input` points: size of what stands before, and the row with
/// `key`, flat if it can be.
pub(crate) fn read_content(
    input: &mut Input<'_>,
    layout: &Layout,
    columns: &HeaderColumns,
    of: (&[u8], Frame),
) -> Parsed<(u64, RowContent)> {
    read_content_with(&mut Vec::new(), input, layout, columns, of)
}

/// The same with room for cells.
fn read_content_with<'a>(
    cells: &mut Vec<FlatCell<'a>>,
    input: &mut Input<'a>,
    layout: &Layout,
    columns: &HeaderColumns,
    (key, frame): (&[u8], Frame),
) -> Parsed<(u64, RowContent)> {
    let mut body = body_of(input, frame)?;
    cells.clear();
    let mut parts = RowParts::default();
    let read = read_parts(&mut body, layout, columns, (frame.flags, cells), &mut parts);
    read.map_err(|fault| within(frame, fault))?;
    let previous = parts.previous;
    let content = if parts.multi.is_empty() {
        RowContent::Flat(FlatRow::of_cells(key, (parts.liveness, parts.deletion), cells))
    } else {
        let cells = cells.drain(..).map(FromCell::of).collect();
        RowContent::Row(Rc::new(parts.into_row(cells)))
    };
    Ok((previous, content))
}

fn read_row_body(
    input: &mut Input<'_>,
    layout: &Layout,
    columns: &HeaderColumns,
    flags: u8,
) -> Parsed<(u64, Row)> {
    let mut cells: Vec<(ColumnId, Cell)> = Vec::new();
    let mut parts = RowParts::default();
    read_parts(input, layout, columns, (flags, &mut cells), &mut parts)?;
    Ok((parts.previous, parts.into_row(cells)))
}

/// What is made of a cell of a single-cell column.
trait FromCell<'a> {
    fn of(cell: FlatCell<'a>) -> Self;
    fn column(&self) -> ColumnId;
}

impl<'a> FromCell<'a> for FlatCell<'a> {
    fn of(cell: FlatCell<'a>) -> Self {
        cell
    }

    fn column(&self) -> ColumnId {
        self.column
    }
}

impl<'a> FromCell<'a> for (ColumnId, Cell) {
    fn of(cell: FlatCell<'a>) -> Self {
        (cell.column, cell.thaw())
    }

    fn column(&self) -> ColumnId {
        self.0
    }
}

/// A row but for the cells of its single-cell columns, and the size of what stands before it.
#[derive(Default)]
struct RowParts {
    previous: u64,
    liveness: Option<Liveness>,
    deletion: Option<Tombstone>,
    multi: Vec<(ColumnId, MultiCell)>,
}

impl RowParts {
    fn into_row(self, cells: Vec<(ColumnId, Cell)>) -> Row {
        let RowParts { liveness, deletion, multi, .. } = self;
        Row { liveness, deletion, cells, multi }
    }
}

/// Reads a row, the cells of its single-cell columns into `cells`, sorted by column.
fn read_parts<'a>(
    input: &mut Input<'a>,
    layout: &Layout,
    columns: &HeaderColumns,
    (flags, cells): (u8, &mut Vec<impl FromCell<'a>>),
    parts: &mut RowParts,
) -> Parsed<()> {
    parts.previous = input.vint()?;
    let has_multi_cell = columns.list.last().is_some_and(|column| column.shape.is_multi_cell);
    let has_deletions = flags & HAS_COMPLEX_DELETION != 0;
    if has_deletions && !has_multi_cell {
        return Err(input.bad("a row of simple columns", "a multi-cell deletion"));
    }
    if flags & HAS_TIMESTAMP != 0 {
        let timestamp = timestamp(input, layout)?;
        parts.liveness = Some(if flags & HAS_TTL != 0 {
            let ttl = ttl(input, layout)?;
            Liveness { timestamp, ttl, expiry: time(input, layout)? }
        } else {
            Liveness::at(timestamp)
        });
    } else if flags & HAS_TTL != 0 {
        return Err(input.bad("a row marker", "a time to live without one"));
    }
    let liveness = parts.liveness;
    if flags & HAS_DELETION != 0 {
        parts.deletion = Some(tombstone(input, layout)?);
    }
    let present = if flags & HAS_ALL_COLUMNS != 0 {
        None
    } else {
        Some(read_subset(input, columns.list.len())?)
    };
    let count = present.as_ref().map_or(columns.list.len(), Vec::len);
    cells.reserve_exact(count);
    let multi = &mut parts.multi;
    for i in 0..count {
        let place = present.as_ref().map_or(i, |places| places[i]);
        let column = &columns.list[place];
        if column.shape.is_multi_cell {
            let path = column.path.as_ref();
            let cells = read_multi_cell(input, layout, liveness, (path, has_deletions))?;
            if let Some(id) = column.id.filter(|_| !cells.is_empty()) {
                multi.push((id, cells));
            }
            continue;
        }
        let id = column.id.unwrap_or(NO_COLUMN);
        let (_, mut cell) =
            read_cell(input, layout, liveness, (id, column.shape.fixed_bytes, false))?;
        if column.shape.is_counter
            && let FlatState::Live(context) = cell.state
        {
            cell.state = FlatState::Counter(context);
        }
        if column.id.is_some() {
            cells.push(FromCell::of(cell));
        }
    }
    check_used_up(input)?;
    // Header order is by name, row order by id.
    columns.sort_all(cells);
    if !cells.is_sorted_by_key(FromCell::column) {
        cells.sort_unstable_by_key(FromCell::column);
    }
    multi.sort_unstable_by_key(|(id, _)| *id);
    // The header names each column once.
    debug_assert!(multi.is_sorted_by(|(a, _), (b, _)| a < b), "a column comes twice: {multi:?}");
    Ok(())
}

/// The places of the columns that are present.
fn read_subset(input: &mut Input<'_>, count: usize) -> Parsed<Vec<usize>> {
    let before = input.clone();
    let encoded = input.vint()?;
    if count < BITMAP_COLUMNS {
        if encoded >> count != 0 {
            return Err(before.bad(format!("a bitmap of {count} columns"), format!("{encoded:#x}")));
        }
        return Ok((0..count).filter(|place| encoded >> place & 1 == 0).collect());
    }
    if encoded > count as u64 {
        return Err(before.bad(format!("at most {count} missing columns"), encoded));
    }
    let missing_count = encoded as usize;
    let present_count = count - missing_count;
    let lists_present = present_count < count / 2;
    let listed = if lists_present { present_count } else { missing_count };
    let mut places = Vec::with_capacity(listed);
    for _ in 0..listed {
        let before = input.clone();
        let place = input.vint()?;
        let above = places.last().is_none_or(|last| (*last as u64) < place);
        if place >= count as u64 || !above {
            return Err(before.bad("the place of a column, ascending", place));
        }
        places.push(place as usize);
    }
    if lists_present {
        return Ok(places);
    }
    Ok((0..count).filter(|place| places.binary_search(place).is_err()).collect())
}

/// Reads a multi-cell column: its deletion, where this row has deletions, and its cells, which are
/// dropped where no type of their paths is given.
fn read_multi_cell(
    input: &mut Input<'_>,
    layout: &Layout,
    live: Option<Liveness>,
    (path_type, has_deletion): (Option<&DataType>, bool),
) -> Parsed<MultiCell> {
    let mut multi = MultiCell::default();
    if has_deletion {
        // Only the timestamp says that there is none: writers differ in the other number.
        multi.deletion = Some(tombstone(input, layout)?).filter(|d| d.timestamp != i64::MIN);
    }
    let before = input.clone();
    let count = input.vint()?;
    if count > input.remaining() {
        return Err(before.bad("the number of cells of a multi-cell column", count));
    }
    if path_type.is_some() {
        multi.cells.reserve_exact(count as usize);
    }
    for _ in 0..count {
        let before = input.clone();
        // Elements are written with a length whatever their type.
        let (path, cell) = read_cell(input, layout, live, (NO_COLUMN, None, true))?;
        let Some(path_type) = path_type else { continue };
        let path = CellPath::from_stored(path_type, path).map_err(|error| {
            before.bad(format!("the path of a cell, of type {}", path_type.sql_name()), error)
        })?;
        if multi.cells.last().is_some_and(|(last, _)| *last >= path) {
            return Err(before.bad("cells of a multi-cell column in order", format!("{path:?}")));
        }
        multi.cells.push((path, cell.thaw()));
    }
    Ok(multi)
}

/// Reads a cell of a column whose values have a fixed length or not, and its path if it has one.
#[inline(always)]
fn read_cell<'a>(
    input: &mut Input<'a>,
    layout: &Layout,
    live: Option<Liveness>,
    (column, fixed, has_path): (ColumnId, Option<usize>, bool),
) -> Parsed<(&'a [u8], FlatCell<'a>)> {
    let before = input.clone();
    let flags = input.u8()?;
    let bad = || before.bad("flags of a cell", format!("{flags:#04x}"));
    let deleted = flags & CELL_IS_DELETED != 0;
    let expiring = flags & CELL_IS_EXPIRING != 0;
    if flags & !CELL_FLAGS != 0 || (deleted && expiring) {
        return Err(bad());
    }
    let timestamp = if flags & CELL_USES_ROW_TIMESTAMP != 0 {
        live.ok_or_else(bad)?.timestamp
    } else {
        timestamp(input, layout)?
    };
    let (expiry, ttl) = if flags & CELL_USES_ROW_TTL != 0 {
        let live = live.ok_or_else(bad)?;
        (live.expiry, live.ttl)
    } else {
        let expiry = if deleted || expiring { time(input, layout)? } else { 0 };
        (expiry, if expiring { ttl(input, layout)? } else { 0 })
    };
    let path: &[u8] = if has_path { input.vbytes()? } else { &[] };
    let value = if flags & CELL_HAS_EMPTY_VALUE != 0 {
        &[]
    } else {
        match fixed {
            Some(length) => input.take(length as u64)?,
            None => input.vbytes()?,
        }
    };
    let state = if deleted {
        FlatState::Deleted { deletion_time: expiry }
    } else if expiring {
        FlatState::Expiring { value, ttl, expiry }
    } else {
        FlatState::Live(value)
    };
    Ok((path, FlatCell { column, timestamp, state }))
}

fn timestamp(input: &mut Input<'_>, layout: &Layout) -> Parsed<i64> {
    Ok(layout.bases.min_timestamp.wrapping_add(input.vint()? as i64))
}

fn time(input: &mut Input<'_>, layout: &Layout) -> Parsed<i32> {
    Ok(layout.bases.min_deletion_time.wrapping_add(input.vint()? as i32))
}

fn ttl(input: &mut Input<'_>, layout: &Layout) -> Parsed<i32> {
    Ok(layout.bases.min_ttl.wrapping_add(input.vint()? as i32))
}

fn tombstone(input: &mut Input<'_>, layout: &Layout) -> Parsed<Tombstone> {
    let timestamp = timestamp(input, layout)?;
    Ok(Tombstone { timestamp, deletion_time: time(input, layout)? })
}
