//! Rows of `Data.db` read without a schema, by the types of the serialization header alone.
//!
//! This is a second reader beside `unfiltered`, written from the format: it keeps what that one
//! drops (offsets, previous sizes, paths) and shares none of its decisions, so `verify` may judge
//! files by it. It steps through the file in order; memory is one row.

use std::path::Path;
use std::rc::Rc;

use super::order::Prefix;
use super::types::{KeyType, StoredType};
use crate::error::{Error, Result};
use crate::mutation::Tombstone;
use crate::sstable::data::window::{Content, Window};
use crate::sstable::format::coding::{Fault, Input, Parsed};
use crate::sstable::format::layout::{Bases, Header, deletion};
use crate::sstable::format::prefix::{Bound, KIND_ROW};

/// Bytes asked for first where the length is not known yet.
const BYTES_FIRST: u64 = 256;

/// A column of the header.
#[derive(Debug, Clone)]
pub(super) struct StoredColumn {
    pub(super) name: String,
    pub(super) ty: StoredType,
}

/// The types of a file's columns and the bases of its numbers.
#[derive(Debug, Clone)]
pub(super) struct StoredLayout {
    pub(super) bases: Bases,
    pub(super) partition_key: Vec<StoredType>,
    pub(super) clustering: Vec<KeyType>,
    pub(super) statics: Vec<StoredColumn>,
    pub(super) regulars: Vec<StoredColumn>,
}

impl StoredLayout {
    /// Errors: `Invalid` naming a type of which not even the length of values is known.
    pub(super) fn new(header: &Header, file: &Path) -> Result<Self> {
        let columns = |named: &[(Vec<u8>, String)]| -> Result<Vec<StoredColumn>> {
            let mut columns = Vec::with_capacity(named.len());
            for (name, class) in named {
                let name = String::from_utf8_lossy(name).into_owned();
                let ty = StoredType::parse(class);
                if let StoredType::Other(class) = &ty {
                    return Err(Error::invalid(format!(
                        "{} holds column '{name}' of type {class}, which is unknown",
                        file.display()
                    )));
                }
                columns.push(StoredColumn { name, ty });
            }
            // Multi-cell columns come last, whatever the order in the header.
            columns.sort_by(|a, b| {
                (a.ty.is_multi_cell(), &a.name).cmp(&(b.ty.is_multi_cell(), &b.name))
            });
            Ok(columns)
        };
        Ok(StoredLayout {
            bases: header.bases,
            partition_key: StoredType::parse_partition_key(&header.partition_key),
            clustering: header.clustering.iter().map(|name| KeyType::parse(name)).collect(),
            statics: columns(&header.statics)?,
            regulars: columns(&header.regulars)?,
        })
    }
}

/// Liveness of a row; `ttl` is 0 where it does not expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredLiveness {
    pub(super) timestamp: i64,
    pub(super) ttl: i32,
    /// `i32::MAX` where it does not expire.
    pub(super) expiry: i32,
}

/// A cell as stored.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StoredCell {
    /// In columns of many cells.
    pub(super) path: Option<Vec<u8>>,
    pub(super) timestamp: i64,
    pub(super) ttl: i32,
    /// Deletion time or expiry; `i32::MAX` for a cell that stays.
    pub(super) deletion_time: i32,
    pub(super) is_deleted: bool,
    pub(super) value: Vec<u8>,
}

/// What a row has of one column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StoredCells {
    /// Place in the layout's columns.
    pub(super) column: usize,
    pub(super) deletion: Option<Tombstone>,
    pub(super) cells: Vec<StoredCell>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct StoredRow {
    /// Where it starts and ends in the uncompressed data.
    pub(super) at: u64,
    pub(super) end: u64,
    pub(super) previous: u64,
    pub(super) prefix: Prefix,
    pub(super) liveness: Option<StoredLiveness>,
    pub(super) deletion: Option<Tombstone>,
    /// Of a materialized view: a newer row marker undoes it.
    pub(super) shadowable: Option<Tombstone>,
    pub(super) columns: Vec<StoredCells>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct StoredMarker {
    pub(super) at: u64,
    pub(super) end: u64,
    pub(super) previous: u64,
    pub(super) prefix: Prefix,
    pub(super) closing: Option<Tombstone>,
    pub(super) opening: Option<Tombstone>,
}

/// Key, deletion and static row of a partition.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StoredFront {
    pub(super) at: u64,
    pub(super) key: Vec<u8>,
    pub(super) deletion: Option<Tombstone>,
    pub(super) static_row: Option<StoredRow>,
    /// Where its rows start.
    pub(super) body: u64,
}

/// What comes next in a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Partition(StoredFront),
    Row(StoredRow),
    Marker(StoredMarker),
    /// The partition ended; `end` is the byte after its end mark.
    PartitionEnd {
        end: u64,
    },
    /// The file ended.
    Done,
}

/// Steps through a data file.
pub(super) struct RowReader {
    window: Window,
    layout: Rc<StoredLayout>,
    at: u64,
    is_inside: bool,
}

impl RowReader {
    pub(super) fn new(window: Window, layout: Rc<StoredLayout>) -> Self {
        RowReader { window, layout, at: 0, is_inside: false }
    }

    /// Where the next thing stands.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    pub(super) fn content(&self) -> &Content {
        self.window.content()
    }

    /// Goes on at `at`, where a partition starts.
    pub(super) fn skip_to(&mut self, at: u64) {
        self.at = at;
        self.is_inside = false;
    }

    /// Errors: `Io`, `Corrupt`; it may go on after `skip_to` only.
    pub(super) async fn next(&mut self) -> Result<Step> {
        let at = self.at;
        if !self.is_inside {
            if at >= self.content().size() {
                return Ok(Step::Done);
            }
            let front = self.parse(|input, layout| parse_front(input, layout, at)).await?;
            self.at = front.body;
            self.is_inside = true;
            return Ok(Step::Partition(front));
        }
        let step = self.parse(|input, layout| parse_unfiltered(input, layout, at)).await?;
        self.at = match &step {
            Step::Row(row) => row.end,
            Step::Marker(marker) => marker.end,
            _ => at + 1,
        };
        self.is_inside = !matches!(step, Step::PartitionEnd { .. });
        Ok(step)
    }

    async fn parse<T>(
        &mut self,
        parse: impl Fn(&mut Input<'_>, &StoredLayout) -> Parsed<T>,
    ) -> Result<T> {
        let at = self.at;
        let mut needed = BYTES_FIRST.min(self.content().size().saturating_sub(at)).max(1);
        loop {
            self.window.advance(at, needed, u64::MAX).await?;
            match parse(&mut Input::new(self.window.bytes_from(at)), &self.layout) {
                Ok(parsed) => return Ok(parsed),
                Err(Fault::Short { needed: more }) => needed = more,
                Err(fault) => return Err(self.content().fault(fault, at)),
            }
        }
    }
}

fn parse_front(input: &mut Input<'_>, layout: &StoredLayout, at: u64) -> Parsed<StoredFront> {
    let key = input.bytes16()?.to_vec();
    let deletion = deletion(input)?;
    let mut static_row = None;
    if !layout.statics.is_empty() {
        let before = input.clone();
        let start = at + input.at();
        let (flags, extended) = (input.u8()?, input.u8()?);
        if flags & 0x83 != 0x80 || extended != 1 {
            let found = format!("{flags:#04x} {extended:#04x}");
            return Err(before.bad("flags of a static row", found));
        }
        let prefix = Prefix { kind: KIND_ROW, values: Vec::new() };
        let shape = (&layout.statics[..], None);
        let row = parse_row(input, layout, shape, (flags, at, start), prefix)?;
        static_row = Some(row);
    }
    Ok(StoredFront { at, key, deletion, static_row, body: at + input.at() })
}

/// Which tombstone of a row a newer row marker undoes.
#[derive(Debug, Clone, Copy)]
enum Shadowable {
    /// Its deletion, in Cassandra's form.
    Deletion,
    /// One that ScyllaDB writes behind the deletion.
    Another,
}

impl Shadowable {
    fn of_flags(flags: u8, extended: u8) -> Option<Self> {
        match extended {
            0x02 if flags & 0x10 != 0 => Some(Shadowable::Deletion),
            0x80 => Some(Shadowable::Another),
            _ => None,
        }
    }
}

fn parse_unfiltered(input: &mut Input<'_>, layout: &StoredLayout, at: u64) -> Parsed<Step> {
    let before = input.clone();
    let flags = input.u8()?;
    match flags {
        0x01 => Ok(Step::PartitionEnd { end: at + 1 }),
        0x02 => {
            let kind = input.u8()?;
            let count = u64::from(input.u16()?);
            let bound =
                Bound::from_kind(kind).ok_or_else(|| before.bad("the kind of a bound", kind))?;
            let prefix = Prefix { kind, values: parse_values(input, layout, count)? };
            let size = input.vint()?;
            let body_at = input.at();
            let mut body = Input::new(input.take(size)?);
            let parsed = (|| -> Parsed<_> {
                let previous = body.vint()?;
                let closing = bound.closes().then(|| tombstone(&mut body, layout)).transpose()?;
                let opening = bound.opens().then(|| tombstone(&mut body, layout)).transpose()?;
                used_up(&body)?;
                Ok((previous, closing, opening))
            })();
            let (previous, closing, opening) =
                parsed.map_err(|fault| within(fault, body_at, size))?;
            let end = at + input.at();
            Ok(Step::Marker(StoredMarker { at, end, previous, prefix, closing, opening }))
        }
        flags if flags & 0x03 == 0 => {
            let shadowable = match flags & 0x80 {
                0 => None,
                _ => Some(Shadowable::of_flags(flags, input.u8()?).ok_or_else(|| {
                    before.bad("flags of a row", format!("{flags:#04x} and others"))
                })?),
            };
            let values = parse_values(input, layout, layout.clustering.len() as u64)?;
            let prefix = Prefix { kind: KIND_ROW, values };
            let shape = (&layout.regulars[..], shadowable);
            let row = parse_row(input, layout, shape, (flags, at, at), prefix)?;
            Ok(Step::Row(row))
        }
        flags => Err(before.bad("flags of a row, marker or end", format!("{flags:#04x}"))),
    }
}

/// Reads size and body; `base` is where the input starts in the file and `at` where the row does.
fn parse_row(
    input: &mut Input<'_>,
    layout: &StoredLayout,
    shape: (&[StoredColumn], Option<Shadowable>),
    (flags, base, at): (u8, u64, u64),
    prefix: Prefix,
) -> Parsed<StoredRow> {
    let size = input.vint()?;
    let body_at = input.at();
    let mut body = Input::new(input.take(size)?);
    let mut row = parse_body(&mut body, layout, shape, flags)
        .map_err(|fault| within(fault, body_at, size))?;
    row.at = at;
    row.end = base + input.at();
    row.prefix = prefix;
    Ok(row)
}

fn parse_body(
    body: &mut Input<'_>,
    layout: &StoredLayout,
    (columns, shadowable): (&[StoredColumn], Option<Shadowable>),
    flags: u8,
) -> Parsed<StoredRow> {
    let mut row = StoredRow {
        at: 0,
        end: 0,
        previous: body.vint()?,
        prefix: Prefix { kind: KIND_ROW, values: Vec::new() },
        liveness: None,
        deletion: None,
        shadowable: None,
        columns: Vec::new(),
    };
    if flags & 0x04 != 0 {
        let timestamp = timestamp(body, layout)?;
        let (mut life, mut expiry) = (0, i32::MAX);
        if flags & 0x08 != 0 {
            life = ttl(body, layout)?;
            expiry = time(body, layout)?;
        }
        row.liveness = Some(StoredLiveness { timestamp, ttl: life, expiry });
    } else if flags & 0x08 != 0 {
        return Err(body.bad("a row marker", "a time to live without one"));
    }
    if flags & 0x10 != 0 {
        row.deletion = Some(tombstone(body, layout)?);
    }
    match shadowable {
        None => {}
        Some(Shadowable::Deletion) => row.shadowable = row.deletion.take(),
        Some(Shadowable::Another) => row.shadowable = Some(tombstone(body, layout)?),
    }
    let places = match flags & 0x20 {
        0 => parse_subset(body, columns.len())?,
        _ => (0..columns.len()).collect(),
    };
    for place in places {
        let ty = &columns[place].ty;
        let mut stored = StoredCells { column: place, deletion: None, cells: Vec::new() };
        if ty.is_multi_cell() {
            if flags & 0x40 != 0 {
                let found = tombstone(body, layout)?;
                stored.deletion = (found.timestamp != i64::MIN).then_some(found);
            }
            let before = body.clone();
            let count = body.vint()?;
            if count > body.remaining() {
                return Err(before.bad("the number of cells of a column", count));
            }
            for _ in 0..count {
                stored.cells.push(parse_cell(body, layout, row.liveness, (None, true))?);
            }
        } else {
            let shape = (ty.fixed_bytes(), false);
            stored.cells.push(parse_cell(body, layout, row.liveness, shape)?);
        }
        row.columns.push(stored);
    }
    used_up(body)?;
    Ok(row)
}

fn parse_subset(input: &mut Input<'_>, count: usize) -> Parsed<Vec<usize>> {
    let before = input.clone();
    let encoded = input.vint()?;
    if count < 64 {
        if encoded >> count != 0 {
            return Err(before.bad(format!("a bitmap of {count} columns"), format!("{encoded:#x}")));
        }
        return Ok((0..count).filter(|place| encoded >> place & 1 == 0).collect());
    }
    if encoded > count as u64 {
        return Err(before.bad(format!("at most {count} missing columns"), encoded));
    }
    let present = count - encoded as usize;
    let lists_present = present < count / 2;
    let mut is_listed = vec![false; count];
    let mut least = 0;
    for _ in 0..if lists_present { present } else { count - present } {
        let before = input.clone();
        let place = input.vint()?;
        if place < least || place >= count as u64 {
            return Err(before.bad("the place of a column, ascending", place));
        }
        is_listed[place as usize] = true;
        least = place + 1;
    }
    Ok((0..count).filter(|place| is_listed[*place] == lists_present).collect())
}

fn parse_cell(
    input: &mut Input<'_>,
    layout: &StoredLayout,
    live: Option<StoredLiveness>,
    (fixed, has_path): (Option<usize>, bool),
) -> Parsed<StoredCell> {
    let before = input.clone();
    let flags = input.u8()?;
    let bad = || before.bad("flags of a cell", format!("{flags:#04x}"));
    let (is_deleted, is_expiring) = (flags & 0x01 != 0, flags & 0x02 != 0);
    if flags & 0xe0 != 0 || (is_deleted && is_expiring) {
        return Err(bad());
    }
    let timestamp = match flags & 0x08 {
        0 => timestamp(input, layout)?,
        _ => live.ok_or_else(bad)?.timestamp,
    };
    let (mut deletion_time, mut life) = (i32::MAX, 0);
    if flags & 0x10 != 0 {
        let live = live.ok_or_else(bad)?;
        (deletion_time, life) = (live.expiry, live.ttl);
    } else if is_deleted || is_expiring {
        deletion_time = time(input, layout)?;
        if is_expiring {
            life = ttl(input, layout)?;
        }
    }
    let path = if has_path { Some(input.vbytes()?.to_vec()) } else { None };
    let value = match (flags & 0x04, fixed) {
        (0, Some(length)) => input.take(length as u64)?.to_vec(),
        (0, None) => input.vbytes()?.to_vec(),
        _ => Vec::new(),
    };
    Ok(StoredCell { path, timestamp, ttl: life, deletion_time, is_deleted, value })
}

/// Reads `count` clustering values.
pub(super) fn parse_values(
    input: &mut Input<'_>,
    layout: &StoredLayout,
    count: u64,
) -> Parsed<Vec<Option<Vec<u8>>>> {
    if count > layout.clustering.len() as u64 {
        let wanted = format!("at most {} clustering values", layout.clustering.len());
        return Err(input.bad(wanted, count));
    }
    let mut values = Vec::with_capacity(count as usize);
    let mut header = 0;
    for (i, key) in layout.clustering[..count as usize].iter().enumerate() {
        if i % 32 == 0 {
            header = input.vint()?;
        }
        let before = input.clone();
        values.push(match header >> (2 * (i % 32)) & 3 {
            0 => Some(match key.ty.fixed_bytes() {
                Some(length) => input.take(length as u64)?.to_vec(),
                None => input.vbytes()?.to_vec(),
            }),
            1 => Some(Vec::new()),
            2 => None,
            _ => return Err(before.bad("a clustering value", "one that is empty and null")),
        });
    }
    Ok(values)
}

/// Reads a prefix of the promoted index.
pub(super) fn parse_prefix(input: &mut Input<'_>, layout: &StoredLayout) -> Parsed<Prefix> {
    let before = input.clone();
    let kind = input.u8()?;
    let count = if kind == KIND_ROW {
        layout.clustering.len() as u64
    } else {
        Bound::from_kind(kind)
            .ok_or_else(|| before.bad("the kind of a clustering prefix", kind))?;
        u64::from(input.u16()?)
    };
    Ok(Prefix { kind, values: parse_values(input, layout, count)? })
}

fn used_up(body: &Input<'_>) -> Parsed<()> {
    match body.remaining() {
        0 => Ok(()),
        left => Err(body.bad("the end of the body", format!("{left} more bytes"))),
    }
}

/// A fault within a body as one of the input.
fn within(fault: Fault, body_at: u64, size: u64) -> Fault {
    fault.within((body_at, size), |needed| format!("a body of at least {needed} bytes"))
}

fn timestamp(input: &mut Input<'_>, layout: &StoredLayout) -> Parsed<i64> {
    Ok(layout.bases.min_timestamp.wrapping_add(input.vint()? as i64))
}

fn time(input: &mut Input<'_>, layout: &StoredLayout) -> Parsed<i32> {
    Ok(layout.bases.min_deletion_time.wrapping_add(input.vint()? as i32))
}

fn ttl(input: &mut Input<'_>, layout: &StoredLayout) -> Parsed<i32> {
    Ok(layout.bases.min_ttl.wrapping_add(input.vint()? as i32))
}

fn tombstone(input: &mut Input<'_>, layout: &StoredLayout) -> Parsed<Tombstone> {
    let timestamp = timestamp(input, layout)?;
    Ok(Tombstone { timestamp, deletion_time: time(input, layout)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Scalar;
    use crate::sstable::format::coding::put_vint;

    /// A key of so many `int` columns, and one regular column of that type. Numbers are as stored.
    fn layout(clustering: usize) -> StoredLayout {
        let int = || StoredType::Scalar(Scalar::Int);
        StoredLayout {
            bases: Bases { min_timestamp: 0, min_deletion_time: 0, min_ttl: 0 },
            partition_key: vec![int()],
            clustering: vec![KeyType { ty: int(), is_descending: false }; clustering],
            statics: Vec::new(),
            regulars: vec![StoredColumn { name: "v".into(), ty: int() }],
        }
    }

    fn is_bad<T>(parsed: &Parsed<T>) -> bool {
        matches!(parsed, Err(Fault::Bad { .. }))
    }

    /// A row with these flags and one empty cell; each number in it is another.
    fn row_bytes(flags: u8, extended: Option<u8>) -> Vec<u8> {
        let mut body = vec![10];
        if flags & 0x04 != 0 {
            body.push(11);
            body.extend_from_slice(if flags & 0x08 != 0 { &[12, 13] } else { &[] });
        }
        body.extend_from_slice(if flags & 0x10 != 0 { &[14, 15] } else { &[] });
        body.extend_from_slice(if extended == Some(0x80) { &[16, 17] } else { &[] });
        body.extend_from_slice(if flags & 0x20 == 0 { &[0] } else { &[] });
        body.extend_from_slice(&[0x04, 18]);
        let mut bytes = vec![flags];
        bytes.extend(extended);
        bytes.extend_from_slice(&[0, 0, 0, 0, 7, body.len() as u8]);
        bytes.extend(body);
        bytes
    }

    /// What a row of [`row_bytes`] says; nothing where its flags contradict each other.
    fn row_wanted(flags: u8, extended: Option<u8>) -> Option<StoredRow> {
        let is_known = match extended {
            None | Some(0x80) => true,
            Some(0x02) => flags & 0x10 != 0,
            Some(_) => false,
        };
        if !is_known || flags & 0x0c == 0x08 {
            return None;
        }
        let own = Some(Tombstone { timestamp: 14, deletion_time: 15 });
        let own = own.filter(|_| flags & 0x10 != 0);
        let another = Some(Tombstone { timestamp: 16, deletion_time: 17 });
        let (deletion, shadowable) = match extended {
            Some(0x02) => (None, own),
            other => (own, another.filter(|_| other.is_some())),
        };
        let (ttl, expiry) = if flags & 0x08 != 0 { (12, 13) } else { (0, i32::MAX) };
        let liveness = StoredLiveness { timestamp: 11, ttl, expiry };
        let cell = StoredCell {
            path: None,
            timestamp: 18,
            ttl: 0,
            deletion_time: i32::MAX,
            is_deleted: false,
            value: Vec::new(),
        };
        Some(StoredRow {
            at: 100,
            end: 100 + row_bytes(flags, extended).len() as u64,
            previous: 10,
            prefix: Prefix { kind: KIND_ROW, values: vec![Some(vec![0, 0, 0, 7])] },
            liveness: Some(liveness).filter(|_| flags & 0x04 != 0),
            deletion,
            shadowable,
            columns: vec![StoredCells { column: 0, deletion: None, cells: vec![cell] }],
        })
    }

    #[test]
    fn a_row_has_what_its_flags_say_and_none_that_contradict_each_other() {
        let layout = layout(1);
        let parse = |bytes: &[u8]| parse_unfiltered(&mut Input::new(bytes), &layout, 100);
        for flags in 0..=u8::MAX {
            if flags & 0x03 != 0 {
                match flags {
                    0x01 => assert_eq!(parse(&[1]), Ok(Step::PartitionEnd { end: 101 })),
                    0x02 => {}
                    _ => assert!(is_bad(&parse(&row_bytes(flags, None))), "{flags:#04x}"),
                }
                continue;
            }
            let extended: Vec<Option<u8>> = match flags & 0x80 {
                0 => vec![None],
                _ => (0..=u8::MAX).map(Some).collect(),
            };
            for extended in extended {
                let bytes = row_bytes(flags, extended);
                let found = parse(&bytes);
                match row_wanted(flags, extended) {
                    Some(row) => assert_eq!(found, Ok(Step::Row(row)), "{flags:#04x} {extended:?}"),
                    None => assert!(is_bad(&found), "{flags:#04x} {extended:?}: {found:?}"),
                }
            }
        }
        // Of a part of it more is asked for, and no more than there is.
        let bytes = row_bytes(0x1c, None);
        for at in 0..bytes.len() {
            let found = parse(&bytes[..at]);
            let Err(Fault::Short { needed }) = found else { panic!("{at} bytes: {found:?}") };
            assert!((at as u64 + 1..=bytes.len() as u64).contains(&needed), "{at}: {needed}");
        }
        // A body is neither shorter nor longer than it says.
        for change in [1, -1] {
            let mut other = [&bytes[..], &[0]].concat();
            other[6] = other[6].wrapping_add_signed(change);
            assert!(is_bad(&parse(&other)), "{change}");
        }
    }

    #[test]
    fn a_marker_closes_and_opens_what_its_kind_says() {
        let layout = layout(2);
        let tombstone = |timestamp, deletion_time| Some(Tombstone { timestamp, deletion_time });
        for kind in 0..=u8::MAX {
            let (closes, opens) = (matches!(kind, 0 | 2 | 5 | 6), matches!(kind, 1 | 2 | 5 | 7));
            let count = u8::from(closes) + u8::from(opens);
            let numbers = [[11, 12], [13, 14]].concat();
            let mut bytes = vec![0x02, kind, 0, 1, 0, 0, 0, 0, 7, 1 + 2 * count, 10];
            bytes.extend_from_slice(&numbers[..2 * usize::from(count)]);
            let found = parse_unfiltered(&mut Input::new(&bytes), &layout, 100);
            if count == 0 {
                assert!(is_bad(&found), "{kind}: {found:?}");
                continue;
            }
            let first = tombstone(11, 12);
            let second = if closes { tombstone(13, 14) } else { first };
            let wanted = StoredMarker {
                at: 100,
                end: 100 + bytes.len() as u64,
                previous: 10,
                prefix: Prefix { kind, values: vec![Some(vec![0, 0, 0, 7])] },
                closing: first.filter(|_| closes),
                opening: second.filter(|_| opens),
            };
            assert_eq!(found, Ok(Step::Marker(wanted)), "{kind}");
            // A prefix has no more values than the key has columns.
            bytes[3] = 3;
            assert!(is_bad(&parse_unfiltered(&mut Input::new(&bytes), &layout, 100)), "{kind}");
        }
    }

    #[test]
    fn a_cell_has_what_its_flags_say_and_of_a_row_only_what_that_has() {
        let rows = [
            None,
            Some(StoredLiveness { timestamp: 31, ttl: 0, expiry: i32::MAX }),
            Some(StoredLiveness { timestamp: 31, ttl: 32, expiry: 33 }),
        ];
        for (flags, live) in (0..=u8::MAX).flat_map(|flags| rows.map(|live| (flags, live))) {
            let (is_deleted, is_expiring) = (flags & 0x01 != 0, flags & 0x02 != 0);
            let of_row = (flags & 0x08 != 0, flags & 0x10 != 0);
            let mut bytes = vec![flags];
            bytes.extend_from_slice(if of_row.0 { &[] } else { &[21] });
            if !of_row.1 && (is_deleted || is_expiring) {
                bytes.push(22);
                bytes.extend_from_slice(if is_expiring { &[23] } else { &[] });
            }
            bytes.extend_from_slice(&[1, b'p']);
            bytes.extend_from_slice(if flags & 0x04 == 0 { &[1, 2, 3, 4] } else { &[] });
            let mut input = Input::new(&bytes);
            let found = parse_cell(&mut input, &layout(0), live, (Some(4), true));
            let is_odd = flags & 0xe0 != 0 || is_deleted && is_expiring;
            if is_odd || live.is_none() && (of_row.0 || of_row.1) {
                assert!(is_bad(&found), "{flags:#04x} {live:?}: {found:?}");
                continue;
            }
            let row = live.or(rows[1]).unwrap();
            let (ttl, deletion_time) = match (of_row.1, is_deleted, is_expiring) {
                (true, ..) => (row.ttl, row.expiry),
                (_, true, _) => (0, 22),
                (_, _, true) => (23, 22),
                _ => (0, i32::MAX),
            };
            let wanted = StoredCell {
                path: Some(b"p".to_vec()),
                timestamp: if of_row.0 { row.timestamp } else { 21 },
                ttl,
                deletion_time,
                is_deleted,
                value: if flags & 0x04 == 0 { vec![1, 2, 3, 4] } else { Vec::new() },
            };
            assert_eq!((found, input.remaining()), (Ok(wanted), 0), "{flags:#04x} {live:?}");
        }
    }

    /// Which columns a row has, as Cassandra writes it.
    fn subset(has: &[bool]) -> Vec<u8> {
        let places = |wanted: bool| (0..has.len()).filter(move |at| has[*at] == wanted);
        let mut out = Vec::new();
        if has.len() < 64 {
            put_vint(&mut out, places(false).fold(0, |bits, at| bits | 1_u64 << at));
            return out;
        }
        let present = places(true).count();
        put_vint(&mut out, (has.len() - present) as u64);
        places(present < has.len() / 2).for_each(|at| put_vint(&mut out, at as u64));
        out
    }

    #[test]
    fn the_columns_of_a_row_are_those_that_are_listed_or_those_that_are_not() {
        for count in [1, 2, 3, 62, 63, 64, 65, 128, 129, 300] {
            let (half, least) = (count / 2, (count / 2_usize).saturating_sub(1));
            for present in [0, 1, least, half, half + 1, count - 1, count] {
                for is_front in [true, false] {
                    let has: Vec<bool> = (0..count).map(|at| (at < present) == is_front).collect();
                    let bytes = subset(&has);
                    let found = parse_subset(&mut Input::new(&bytes), count);
                    let wanted: Vec<usize> = (0..count).filter(|at| has[*at]).collect();
                    assert_eq!(found, Ok(wanted), "{present} of {count}");
                    for at in 0..bytes.len() {
                        let found = parse_subset(&mut Input::new(&bytes[..at]), count);
                        assert!(matches!(found, Err(Fault::Short { .. })), "{at}");
                    }
                }
            }
        }
        let parse = |numbers: &[u64], count| {
            let mut bytes = Vec::new();
            numbers.iter().for_each(|number| put_vint(&mut bytes, *number));
            parse_subset(&mut Input::new(&bytes), count)
        };
        assert_eq!(parse(&[0b111], 3), Ok(Vec::new()));
        for (numbers, count) in [
            (&[0b1000][..], 3),
            (&[1 << 63], 63),
            (&[65], 64),
            (&[2, 5, 5], 64),
            (&[2, 5, 64], 64),
            (&[62, 0, 64], 64),
        ] {
            assert!(is_bad(&parse(numbers, count)), "{numbers:?} of {count}");
        }
        assert!(parse(&[2, 5, 63], 64).is_ok() && parse(&[62, 0, 63], 64).is_ok());
    }

    /// Two bits a column, for 32 of them at once.
    #[test]
    fn values_of_a_key_may_be_empty_or_null_in_each_column() {
        let kind = |value: &Option<Vec<u8>>| value.as_ref().map_or(2, |v| u64::from(v.is_empty()));
        for count in [0, 1, 2, 31, 32, 33, 64, 65] {
            for turn in 0..3 {
                let value = |at: usize| match (at + turn) % 3 {
                    0 => Some((at as u32).to_be_bytes().to_vec()),
                    1 => Some(Vec::new()),
                    _ => None,
                };
                let values: Vec<Option<Vec<u8>>> = (0..count).map(value).collect();
                let mut bytes = Vec::new();
                for batch in values.chunks(32) {
                    let kinds = batch.iter().map(kind).enumerate();
                    let bits = kinds.fold(0_u64, |bits, (at, kind)| bits | kind << (2 * at));
                    put_vint(&mut bytes, bits);
                    batch.iter().flatten().for_each(|value| bytes.extend_from_slice(value));
                }
                // A prefix has the first ones alone.
                for columns in [count, count + 1] {
                    let mut input = Input::new(&bytes);
                    let found = parse_values(&mut input, &layout(columns), count as u64);
                    assert_eq!((found, input.remaining()), (Ok(values.clone()), 0), "{count}");
                }
            }
        }
        let parse = |bytes, count| parse_values(&mut Input::new(bytes), &layout(1), count);
        assert!(is_bad(&parse(&[0; 9], 2)), "more than there are columns");
        assert!(is_bad(&parse(&[0b11], 1)), "empty and null at once");
    }
}
