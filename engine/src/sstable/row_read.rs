//! Reads one row of one partition: what most reads that miss the row cache want. No stream, no range and
//! nothing that could be gone on with: the index says where the row would lie, and from there rows are
//! passed by their keys up to it.

use std::cmp::Ordering;
use std::rc::Rc;

use super::block_index::{BlockIndex, PARSED_BYTES_MAX};
use super::file::Access;
use super::item::{Item, front_of, pass, read_item};
use super::partition_index::find;
use super::promoted_index::{PromotedIndex, RowPlace, Stated};
use super::sstable::Sstable;
use super::window::{Content, Window};
use crate::config::PAGE_BYTES;
use crate::error::{Error, Result};
use crate::mutation::position::compare;
use crate::mutation::{PointRead, Weight};
use crate::schema::{ClusteringKey, PartitionKey};

const PAGE: u64 = PAGE_BYTES as u64;

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
        let mut index = Window::new(Content::Plain(self.index.clone()), Access::Cached);
        let entry = find(&self.summary, &mut index, &self.pages, (&*key, None)).await?;
        let Some(entry) = entry else { return Ok(None) };
        let layout = &*self.layout;
        let mut data = Window::new(self.data.clone(), Access::Rows);
        let mut indexed = None;
        if let Some(promoted) = entry.promoted {
            indexed = Some(self.place_of_row(promoted, row.as_ordered()).await?);
        }
        let stated = indexed.map(|(stated, _)| (&*self.index, stated));
        let front = front_of(&mut data, layout, &entry, (stated, !wants_front));
        let (deletion, static_row, body) = front.await?;
        let static_row = (!static_row.is_empty()).then(|| Rc::new(static_row));
        let mut found = PointRead { deletion, static_row, ..PointRead::default() };
        let end = entry.data_end.unwrap_or(data.content().size());
        // Where the row may stand, and whether nothing else of the partition follows there.
        let (mut at, mut bound, mut is_all) = (body, end, true);
        if let Some((_, place)) = indexed {
            found.tombstone = place.open;
            let Some(block) = place.block else { return Ok(Some(found)) };
            at = at.max(entry.data_position.saturating_add(block.start));
            if let Some(block_end) = block.end {
                bound = entry.data_position.saturating_add(block_end).min(end);
                is_all = false;
            }
        }
        data.take_in(at, bound).await?;
        while is_all || at < bound {
            at = pass(&data, layout, (at, bound), |key| key < row.as_ordered());
            if !is_all && at >= bound {
                break;
            }
            let item = read_item(&mut data, layout, ((at, true), bound), |key| *key == row).await?;
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
                Item::End => {
                    if found.tombstone.is_some() {
                        let wanted = "the end of the range tombstone in force";
                        let end = "the end of the partition";
                        return Err(data.content().corrupt(at, wanted, end));
                    }
                    return Ok(Some(found));
                }
            }
        }
        match entry.promoted {
            Some((index_at, _)) if at > bound => {
                let wanted = "a row at the start of a block";
                Err(Error::corrupt(self.index.path(), index_at, wanted, at))
            }
            _ => Ok(Some(found)),
        }
    }

    /// What the promoted index at a place of this size says of the front of its partition, and where a
    /// row stands. One that is in memory and not long is parsed and kept so.
    async fn place_of_row(&self, (at, size): (u64, u64), row: &[u8]) -> Result<(Stated, RowPlace)> {
        if let Some(blocks) = self.blocks.get(at) {
            return Ok((blocks.stated, blocks.place_of_row(row)));
        }
        let pages = (at / PAGE, (at + size).div_ceil(PAGE));
        let is_parsed = size <= PARSED_BYTES_MAX && self.index.holds(pages.0, pages.1);
        let (index, layout) = (self.index.clone(), self.layout.clone());
        let mut promoted = PromotedIndex::open(index, layout, at, size).await?;
        if is_parsed && let Some(blocks) = BlockIndex::parse(&mut promoted)? {
            let place = blocks.place_of_row(row);
            let bytes = blocks.memory_bytes();
            self.blocks.insert(at, Rc::new(blocks), bytes);
            return Ok((promoted.stated, place));
        }
        Ok((promoted.stated, promoted.place_of_row(row).await?))
    }
}
