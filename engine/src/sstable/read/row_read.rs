//! Reads one row of one partition, as most reads that miss the row cache do. It needs no stream, no
//! range and no state for continuing: the index says where the row would lie, and a cursor passes
//! rows by their keys up to it.

use std::cmp::Ordering;
use std::rc::Rc;

use super::cursor::{RowCursor, Span, Spot};
use super::item::{Item, PartitionFront, front_of};
use super::sstable::{KnownPartition, Sstable};
use crate::config::PAGE_BYTES;
use crate::error::{Error, Result};
use crate::mutation::{Direction, FlatRow, PointRead};
use crate::probe::{self, Count};
use crate::runtime;
use crate::schema::{ClusteringKey, PartitionKey};
use crate::sstable::data::file::Access;
use crate::sstable::data::window::{Content, Window};
use crate::sstable::format::coding::Input;
use crate::sstable::format::layout::Layout;
use crate::sstable::format::unfiltered::{Frame, RowContent, read_content};
use crate::sstable::index::block_index::{BlockIndex, PROMOTED_BYTES_MAX};
use crate::sstable::index::index_page::PartitionPlace;
use crate::sstable::index::partition_index::find;
use crate::sstable::index::promoted_index::{PromotedIndex, RowPlace, Stated};

const PAGE: u64 = PAGE_BYTES as u64;
/// Promoted indexes that are not parsed after one that could not be, or that the cache did not
/// take.
const PARSES_LEFT_OUT: u32 = 256;
/// Blocks parsed for each read: where what is parsed leaves before it is of use, it costs a read a
/// few microseconds at most.
const BLOCKS_PER_READ: u32 = 64;

impl Sstable {
    /// Reads the row with this key, for a row cache that keeps it; deletion and static row of its
    /// partition where `wants_front` says so. `None` when the partition is not here. The caller has
    /// asked [`may_contain`](Self::may_contain).
    ///
    /// Errors: `Io`; `Corrupt` also when index and data disagree.
    pub async fn read_row(
        self: Rc<Self>,
        key: Rc<PartitionKey>,
        row: ClusteringKey,
        wants_front: bool,
    ) -> Result<Option<PointRead>> {
        probe::count(Count::SstableReads, 1);
        self.note_read("a row");
        // One of several that are asked at once: who has the turn makes way when that is over.
        while runtime::need_preempt() {
            runtime::yield_now().await;
        }
        let Some((place, indexed)) = self.locate(&key, row.as_ordered()).await? else {
            return Ok(None);
        };
        let mut data = Window::new(self.data.clone(), Access::Rows);
        let stated = indexed.map(|(stated, _)| (&*self.index, stated));
        let front = front_of(&mut data, &self.layout, (&key, place), (stated, !wants_front));
        let PartitionFront { deletion, static_row, body } = front.await?;
        let static_row = (!static_row.is_empty()).then(|| Rc::new(static_row));
        let mut found = PointRead { deletion, static_row, ..PointRead::default() };
        let end = place.end.unwrap_or(data.content().size());
        let span = Span { start: place.start, body, end };
        let mut cursor = RowCursor::new(self.layout.clone(), Direction::Forward, span);
        if let Some((_, RowPlace { block, open })) = indexed {
            found.tombstone = open;
            let Some(block) = block else { return Ok(Some(found)) };
            cursor.open = open;
            cursor.spot = Spot::Next { at: body.max(place.start.saturating_add(block.start)) };
            // Behind the last block nothing else of the partition follows.
            cursor.bound = block.end.map_or(u64::MAX, |end| place.start.saturating_add(end));
            data.expect_walk(block.end.map_or(0, |end| end.saturating_sub(block.start)));
        }
        cursor.take_in(&mut data).await?;
        let is_told =
            look_for(&row, (&mut cursor, &self.layout), &mut data, &mut found.row).await?;
        found.tombstone = cursor.open;
        probe::count(Count::SstableRows, u64::from(found.row.is_some()));
        if is_told {
            return Ok(Some(found));
        }
        match place.promoted {
            // By it the block reaches up to the row, so something stands there or behind.
            Some((index_at, _)) if indexed.is_some() => {
                let wanted = format!("a block of the partition at {} up to {row:?}", place.start);
                let found = format!("its end at {}", cursor.here());
                Err(Error::corrupt(self.index.path(), index_at, wanted, found))
            }
            _ => cursor.finish(&data).map(|()| Some(found)),
        }
    }

    /// Where a partition stands, what its promoted index says of the front, and where a row stands
    /// by it. A promoted index that is in memory and not long is parsed and kept so.
    async fn locate(&self, key: &PartitionKey, row: &[u8]) -> Result<Option<Located>> {
        let token = key.token().0 as u64;
        if let Some(known) = self.known.get(token)
            && known.key == *key
        {
            probe::note(|| "promoted index is in memory, parsed".to_owned());
            let indexed = (known.blocks.stated, known.blocks.place_of_row(row));
            return Ok(Some((known.place, Some(indexed))));
        }
        let mut index = Window::new(Content::Plain(self.index.clone()), Access::Cached);
        let entry = find(&self.summary, &mut index, &self.pages, (key, None)).await?;
        let Some(entry) = entry else { return Ok(None) };
        let place = entry.place;
        let Some((at, size)) = place.promoted else { return Ok(Some((place, None))) };
        let pages = (at / PAGE, (at + size).div_ceil(PAGE));
        let left_out = self.parses_left_out.get();
        self.parses_left_out.set(left_out.saturating_sub(1));
        let is_parsed =
            size <= PROMOTED_BYTES_MAX && left_out == 0 && self.index.holds(pages.0, pages.1);
        let (index, layout) = (self.index.clone(), self.layout.clone());
        let mut promoted = PromotedIndex::open(index, layout, at, size).await?;
        let stated = promoted.stated;
        // A block that cannot be parsed is met by who needs it.
        let parsed = if is_parsed { BlockIndex::parse(&mut promoted).ok().flatten() } else { None };
        let Some(blocks) = parsed else {
            if is_parsed {
                self.parses_left_out.set(PARSES_LEFT_OUT);
            }
            let by_halves = promoted.place_of_row(row).await?;
            return Ok(Some((place, Some((stated, by_halves)))));
        };
        let indexed = (stated, blocks.place_of_row(row));
        let known = KnownPartition { key: entry.key, place, blocks };
        let bytes = known.memory_bytes();
        let is_kept = self.known.insert(token, Rc::new(known), bytes);
        let left_out = if is_kept { promoted.count() / BLOCKS_PER_READ } else { PARSES_LEFT_OUT };
        self.parses_left_out.set(left_out);
        Ok(Some((place, Some(indexed))))
    }
}

/// Goes forward to the row with this key, or to where it would stand, up to which what is in force
/// is followed. False where the block or the partition ends before.
async fn look_for(
    row: &ClusteringKey,
    (cursor, layout): (&mut RowCursor, &Layout),
    data: &mut Window,
    found: &mut Option<FlatRow>,
) -> Result<bool> {
    loop {
        cursor.pass(data, |key| key < row.as_ordered());
        if cursor.at().is_none() {
            return Ok(false);
        }
        let read = |input: &mut Input<'_>, key: &ClusteringKey, frame: Frame| {
            if key != row {
                return Ok((0, None));
            }
            let of = (key.as_ordered(), frame);
            let (previous, content) = read_content(input, layout, &layout.regulars, of)?;
            let flat = match content {
                RowContent::Flat(flat) => flat,
                RowContent::Row(row) => FlatRow::row(key.as_ordered(), &row),
            };
            Ok((previous, Some(flat)))
        };
        let item = cursor.next(data, u64::MAX, read).await?.expect("what may be read is there");
        let extent = item.extent();
        match item {
            Item::Row { key, row: content, .. } => match key.cmp(row) {
                Ordering::Less => {}
                Ordering::Equal => {
                    *found = content;
                    return Ok(true);
                }
                Ordering::Greater => return Ok(true),
            },
            Item::Marker { position, opening, .. } => {
                if position.cmp_key(row).is_gt() {
                    return Ok(true);
                }
                cursor.open = opening;
            }
            Item::End => return Ok(false),
        }
        cursor.step(data, extent)?;
    }
}

/// A partition, and what its promoted index says where it has one.
type Located = (PartitionPlace, Option<(Stated, RowPlace)>);
