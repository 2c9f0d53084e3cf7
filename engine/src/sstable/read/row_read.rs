//! Reads one row of one partition: what most reads that miss the row cache want. No stream, no
//! range and nothing that could be gone on with: the index says where the row would lie, and from
//! there rows are passed by their keys up to it.

use std::cmp::Ordering;
use std::rc::Rc;

use super::item::{Item, front_of, pass, read_item};
use super::sstable::Sstable;
use crate::config::PAGE_BYTES;
use crate::error::{Error, Result};
use crate::mutation::position::compare;
use crate::mutation::{PointRead, Weight};
use crate::runtime;
use crate::schema::{ClusteringKey, PartitionKey};
use crate::sstable::data::file::Access;
use crate::sstable::data::window::{Content, Window};
use crate::sstable::format::coding::Input;
use crate::sstable::format::unfiltered::{Frame, read_flat_row};
use crate::sstable::index::block_index::{BlockIndex, PROMOTED_BYTES_MAX};
use crate::sstable::index::partition_index::{PartitionPlace, find};
use crate::sstable::index::promoted_index::{PromotedIndex, RowPlace, Stated};

const PAGE: u64 = PAGE_BYTES as u64;
/// Promoted indexes that are not parsed after one that could not be, or that the cache did not
/// take.
const PARSES_LEFT_OUT: u32 = 256;
/// Blocks parsed for each read: where what is parsed leaves before it is of use, it costs a read a
/// few microseconds at most.
const BLOCKS_PER_READ: u32 = 64;
/// Bytes that the cache takes for a piece beside it.
const PIECE_BYTES: usize = 160;

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
        // One of several that are asked at once: who has the turn makes way when that is over.
        while runtime::need_preempt() {
            runtime::yield_now().await;
        }
        let Some((place, indexed)) = self.locate(&key, row.as_ordered()).await? else {
            return Ok(None);
        };
        let layout = &*self.layout;
        let mut data = Window::new(self.data.clone(), Access::Rows);
        let stated = indexed.map(|(stated, _)| (&*self.index, stated));
        let front = front_of(&mut data, layout, (&key, place), (stated, !wants_front));
        let (deletion, static_row, body) = front.await?;
        let static_row = (!static_row.is_empty()).then(|| Rc::new(static_row));
        let mut found = PointRead { deletion, static_row, ..PointRead::default() };
        let end = place.end.unwrap_or(data.content().size());
        // Where the row may stand, and whether nothing else of the partition follows there.
        let (mut at, mut bound, mut is_all) = (body, end, true);
        if let Some((_, RowPlace { block, open })) = indexed {
            found.tombstone = open;
            let Some(block) = block else { return Ok(Some(found)) };
            at = at.max(place.start.saturating_add(block.start));
            if let Some(block_end) = block.end {
                (bound, is_all) = (place.start.saturating_add(block_end), false);
            }
        }
        data.take_in(at, bound).await?;
        while is_all || at < bound {
            at = pass(&data, layout, (at, bound), |key| key < row.as_ordered());
            if !is_all && at >= bound {
                break;
            }
            let read = |input: &mut Input<'_>, key: &ClusteringKey, frame: Frame| {
                if *key != row {
                    return Ok((0, None));
                }
                let of = (key.as_ordered(), frame);
                let flat = read_flat_row(input, layout, &layout.regulars, of)?;
                Ok((0, Some(flat)))
            };
            let item = read_item(&mut data, layout, ((at, u64::MAX), bound), read).await?;
            match item.expect("what may be read is there") {
                Item::Row { key, row: content, end, .. } => match key.cmp(&row) {
                    Ordering::Less => at = end,
                    Ordering::Equal => {
                        found.row = content;
                        return Ok(Some(found));
                    }
                    Ordering::Greater => return Ok(Some(found)),
                },
                Item::Marker { position, opening, end, .. } => {
                    let place = (position.prefix.as_ordered(), position.weight);
                    if compare(place.0, place.1, row.as_ordered(), Weight::At).is_gt() {
                        return Ok(Some(found));
                    }
                    found.tombstone = opening;
                    at = end;
                }
                Item::End if indexed.is_some() || found.tombstone.is_some() => break,
                Item::End => return Ok(Some(found)),
            }
        }
        match place.promoted {
            // By it the block reaches up to the row, so something stands there or behind.
            Some((index_at, _)) if indexed.is_some() => {
                let wanted = format!("a block of the partition at {} up to {row:?}", place.start);
                Err(Error::corrupt(self.index.path(), index_at, wanted, format!("its end at {at}")))
            }
            _ => {
                let wanted = "the end of the range tombstone in force";
                Err(data.content().corrupt(at, wanted, "the end of the partition"))
            }
        }
    }

    /// Where a partition stands, what its promoted index says of the front, and where a row stands
    /// by it. A promoted index that is in memory and not long is parsed and kept so.
    async fn locate(&self, key: &PartitionKey, row: &[u8]) -> Result<Option<Located>> {
        let token = key.token().0 as u64;
        if let Some(known) = self.known.get(token)
            && known.key == *key
        {
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

/// A partition, and what its promoted index says where it has one.
type Located = (PartitionPlace, Option<(Stated, RowPlace)>);

/// A partition with its promoted index, as they are kept in memory; found by the token of its key,
/// of which another partition's may be the same.
pub(crate) struct KnownPartition {
    key: PartitionKey,
    place: PartitionPlace,
    blocks: BlockIndex,
}

impl KnownPartition {
    /// Bytes of memory that it takes, and the cache for it.
    fn memory_bytes(&self) -> usize {
        PIECE_BYTES + size_of::<Self>() + self.key.as_bytes().len() + self.blocks.heap_bytes()
    }
}
