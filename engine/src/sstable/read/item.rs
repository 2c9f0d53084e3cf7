//! What a partition consists of, read from a window at a place that is known: its front, and a row
//! or marker.

use crate::error::{Error, Result};
use crate::mutation::{Position, Row, Tombstone};
use crate::schema::{ClusteringKey, PartitionKey};
use crate::sstable::data::file::CheckedFile;
use crate::sstable::data::window::Window;
use crate::sstable::format::coding::{Fault, Input, Parsed};
use crate::sstable::format::layout::{Layout, deletion};
use crate::sstable::format::unfiltered::{
    Frame, Head, read_head, read_marker, read_passed, read_static_row,
};
use crate::sstable::index::index_page::PartitionPlace;
use crate::sstable::index::promoted_index::Stated;

/// Bytes asked for first where the length is not known yet.
const BYTES_FIRST: u64 = 64;

/// A row or marker, read; the row only if it was wanted, and as what it was wanted.
pub(super) enum Item<R = Row> {
    End,
    Row {
        key: ClusteringKey,
        row: Option<R>,
        previous: u64,
        end: u64,
    },
    Marker {
        position: Position,
        closing: Option<Tombstone>,
        opening: Option<Tombstone>,
        previous: u64,
        end: u64,
    },
}

impl<R> Item<R> {
    /// The size of what stands before it, and where it ends; nothing of an end.
    pub(super) fn extent(&self) -> (u64, u64) {
        match self {
            Item::Row { previous, end, .. } | Item::Marker { previous, end, .. } => {
                (*previous, *end)
            }
            Item::End => (0, 0),
        }
    }
}

/// Reads the row or marker at `at`; of a row `read` takes the size of what stands before it, and
/// what is wanted of its body. `None` when it is not at hand and takes more than `read_max` bytes,
/// which is what may be read for it.
///
/// Errors: `Io`, `Corrupt`.
pub(super) async fn read_item<R>(
    data: &mut Window,
    layout: &Layout,
    ((at, read_max), limit): ((u64, u64), u64),
    read: impl Fn(&mut Input<'_>, &ClusteringKey, Frame) -> Parsed<(u64, Option<R>)>,
) -> Result<Option<Item<R>>> {
    let mut needed = bytes_first((at, limit), data);
    loop {
        if needed > read_max && !data.holds(at, needed) {
            return Ok(None);
        }
        data.advance(at, needed, limit).await?;
        match parse(&mut Input::new(data.bytes_from(at)), layout, at, &read) {
            Ok(item) => return Ok(Some(item)),
            Err(Fault::Short { needed: more }) => {
                assert!(more > needed, "{needed} bytes are there at {at}, {more} are wanted");
                needed = more;
            }
            Err(fault) => return Err(data.content().fault(fault, at)),
        }
    }
}

/// What [`read_item`] gives, where what it needs is at hand.
///
/// Errors: `Corrupt`.
pub(super) fn item_at_hand<R>(
    data: &Window,
    layout: &Layout,
    (at, limit): (u64, u64),
    read: impl Fn(&mut Input<'_>, &ClusteringKey, Frame) -> Parsed<(u64, Option<R>)>,
) -> Option<Result<Item<R>>> {
    if !data.holds(at, bytes_first((at, limit), data)) {
        return None;
    }
    match parse(&mut Input::new(data.bytes_from(at)), layout, at, read) {
        Ok(item) => Some(Ok(item)),
        Err(Fault::Short { .. }) => None,
        Err(fault) => Some(Err(data.content().fault(fault, at))),
    }
}

fn parse<R>(
    input: &mut Input<'_>,
    layout: &Layout,
    at: u64,
    read: impl Fn(&mut Input<'_>, &ClusteringKey, Frame) -> Parsed<(u64, Option<R>)>,
) -> Parsed<Item<R>> {
    match read_head(input, layout)? {
        Head::End => Ok(Item::End),
        Head::Row { key, frame } => {
            let end = at.saturating_add(frame.end);
            let (previous, row) = read(input, &key, frame)?;
            Ok(Item::Row { key, row, previous, end })
        }
        Head::Marker { position, bound, frame } => {
            let end = at.saturating_add(frame.end);
            let (previous, closing, opening) = read_marker(input, layout, bound, frame)?;
            Ok(Item::Marker { position, closing, opening, previous, end })
        }
    }
}

/// Where the first row from `at` on begins for which `is_before` does not hold, or what is no whole
/// row at hand, or `limit`: nobody needs the others, not even their keys.
pub(super) fn pass(
    data: &Window,
    layout: &Layout,
    (mut at, limit): (u64, u64),
    is_before: impl Fn(&[u8]) -> bool,
) -> u64 {
    while at < limit
        && let Some(bytes) = read_passed(&Input::new(data.bytes_from(at)), layout, &is_before)
    {
        debug_assert!(bytes > 0, "a row of no bytes at {at}");
        at += bytes;
    }
    at
}

/// What stands before the rows of a partition.
pub(super) struct PartitionFront {
    pub(super) deletion: Option<Tombstone>,
    pub(super) static_row: Row,
    /// Where the first row or marker begins.
    pub(super) body: u64,
}

/// The start of a partition as it was read, and its bytes.
struct ReadFront {
    key: PartitionKey,
    deletion: Option<Tombstone>,
    static_row: Row,
    size: u64,
}

/// What a promoted index says of the front of its partition, with the file that it stands in, and
/// whether that is to be taken for the whole, though it does not know of the static row.
pub(super) type StatedFront<'a> = (Option<(&'a CheckedFile, Stated)>, bool);

/// Error of a promoted index that says something else than the data.
fn contradiction(place: &PartitionPlace, (index, stated): (&CheckedFile, Stated)) -> Error {
    let at = place.promoted.map_or(0, |(at, _)| at);
    let found = format!("{} bytes, {:?}", stated.header_bytes, stated.deletion);
    Error::corrupt(index.path(), at, "the size and deletion of the front", found)
}

/// What [`front_of`] gives, where the promoted index knows all that the front holds: then the front
/// is not read.
///
/// Errors: `Corrupt` when it lies outside of the data.
pub(super) fn front_at_hand(
    data: &Window,
    layout: &Layout,
    place: &PartitionPlace,
    (stated, is_enough): StatedFront<'_>,
) -> Option<Result<PartitionFront>> {
    let (index, stated) = stated.filter(|_| layout.statics.list.is_empty() || is_enough)?;
    let body = place.start.checked_add(stated.header_bytes);
    let body = body.filter(|at| *at < data.content().size());
    let front =
        |body| PartitionFront { deletion: stated.deletion, static_row: Row::default(), body };
    Some(body.map(front).ok_or_else(|| contradiction(place, (index, stated))))
}

/// Deletion and static row of a partition, and where its first row or marker begins.
///
/// Errors: `Io`; `Corrupt` also when index and data disagree.
pub(super) async fn front_of(
    data: &mut Window,
    layout: &Layout,
    (key, place): (&PartitionKey, PartitionPlace),
    (stated, is_enough): StatedFront<'_>,
) -> Result<PartitionFront> {
    if let Some(front) = front_at_hand(data, layout, &place, (stated, is_enough)) {
        return front;
    }
    let PartitionPlace { start, end, .. } = place;
    if let Some(end) = end.filter(|_| stated.is_none()) {
        data.take_in(start, end).await?;
    }
    let end = end.unwrap_or(data.content().size());
    let ReadFront { key: found, deletion, static_row, size } =
        read_front(data, layout, (start, end)).await?;
    if found != *key {
        let (wanted, found) = (format!("{key:?}"), format!("{found:?}"));
        return Err(data.content().corrupt(start, wanted, found));
    }
    match stated {
        Some((index, stated)) if stated != (Stated { header_bytes: size, deletion }) => {
            Err(contradiction(&place, (index, stated)))
        }
        _ => Ok(PartitionFront { deletion, static_row, body: start + size }),
    }
}

/// Bytes to ask for first at `at`, where nothing is wanted from `end` on: none beyond, which might
/// lie in a page that nobody needs.
pub(super) fn bytes_first((at, end): (u64, u64), data: &Window) -> u64 {
    BYTES_FIRST.min(end.min(data.content().size()).saturating_sub(at)).max(1)
}

/// Reads key, deletion and static row at the start of a partition, and their size.
async fn read_front(
    data: &mut Window,
    layout: &Layout,
    (start, end): (u64, u64),
) -> Result<ReadFront> {
    let mut needed = bytes_first((start, end), data);
    loop {
        data.advance(start, needed, end).await?;
        let mut input = Input::new(data.bytes_from(start));
        let parsed = (|| -> Parsed<_> {
            let key = PartitionKey::from_bytes(input.bytes16()?);
            let deletion = deletion(&mut input)?;
            let static_row = if layout.statics.list.is_empty() {
                Row::default()
            } else {
                read_static_row(&mut input, layout)?
            };
            Ok(ReadFront { key, deletion, static_row, size: input.at() })
        })();
        match parsed {
            Ok(front) => return Ok(front),
            Err(Fault::Short { needed: more }) => {
                assert!(more > needed, "{needed} bytes are there at {start}, {more} are wanted");
                needed = more;
            }
            Err(fault) => return Err(data.content().fault(fault, start)),
        }
    }
}
