//! Where a read of a range begins and where it may stop, in either direction.
//!
//! The promoted index gives the block next to the edge of the range that is read first, and, where
//! its page is at hand, the block where the read may stop. In the last block, and in partitions
//! without promoted index, which are one block long, a reversed read finds its first row by walking
//! forward.

use std::rc::Rc;

use super::cursor::{Span, Spot};
use super::item::Item;
use super::partition_reader::{PartitionReader, Sought};
use crate::error::{Error, Result};
use crate::mutation::{ClusteringRange, Direction, Tombstone};
use crate::probe;
use crate::sstable::data::file::READ_BYTES_MAX;
use crate::sstable::data::window::Window;
use crate::sstable::index::index_page::LastItem;
use crate::sstable::index::promoted_index::{Block, BlockRef, PromotedIndex};

/// Bytes of the last block that are read at once to walk through it.
const WALK_BYTES_MAX: u64 = READ_BYTES_MAX;

/// The block that a range is entered by.
enum Near {
    /// Forward: it is read from its start, at this offset of the partition.
    From(u32, u64),
    /// Reversed: it is read from its end.
    Behind(u32, Rc<Block>),
    /// There is none; what is in force instead.
    Nothing(Option<Tombstone>),
}

impl PartitionReader {
    /// Moves the cursor to where a read of `range` begins.
    ///
    /// Errors: `Io`, `Corrupt`.
    pub(super) async fn seek(
        &mut self,
        range: &ClusteringRange,
        data: &mut Window,
    ) -> Result<Sought> {
        self.cursor.release();
        if self.stands_at_noted_end(range) {
            return Ok(Sought::Rows);
        }
        let Span { start, body, .. } = self.cursor.span;
        let direction = self.cursor.direction;
        let Some(promoted) = &mut self.promoted else {
            self.walk_to_edge(range, (body, None), self.body_bytes, data).await?;
            return Ok(Sought::Rows);
        };
        let near = near(promoted, direction, range).await?;
        let number = match &near {
            Near::From(number, _) | Near::Behind(number, _) => *number,
            Near::Nothing(open) => return Ok(Sought::Nothing(*open)),
        };
        let count = promoted.count();
        probe::note(|| format!("promoted index: begins at block {} of {count}", number + 1));
        let is_within = match direction {
            Direction::Forward => !range.start.is_start(),
            Direction::Reversed => !range.end.is_end(),
        };
        if is_within {
            // From the edge of a block to that of the range: half a block, as a rule.
            data.expect_walk(self.body_bytes / u64::from(count.max(1)));
        }
        if let Some(far) = far(promoted, direction, number, range)? {
            self.cursor.bound = start.saturating_add(offset_of(promoted, far).await?);
        }
        match near {
            Near::From(number, offset) => {
                let at = start.saturating_add(offset);
                let is_before = matches!(self.cursor.spot, Spot::Next { at: here } if here < at);
                if number > 0 && is_before {
                    self.cursor.open = promoted.open_before(number).await?;
                    self.cursor.spot = Spot::Next { at };
                }
            }
            Near::Behind(number, block) if number + 1 < promoted.count() => {
                let high = start.saturating_add(offset_of(promoted, number + 1).await?);
                self.stand_before(high, block.open, data).await?;
            }
            Near::Behind(number, block) if self.cursor.spot == Spot::End => {
                // At the end of a partition no tombstone is in force, whatever was before.
                let open = match range.end.is_end() {
                    true => None,
                    false => promoted.open_before(number).await?,
                };
                let from = start.saturating_add(block.offset);
                self.walk_to_edge(range, (from, open), block.width, data).await?;
            }
            Near::Behind(..) | Near::Nothing(_) => {}
        }
        Ok(Sought::Rows)
    }

    /// Puts a reversed cursor at the end of the partition, if that is where the range begins and
    /// somebody walked there before.
    fn stands_at_noted_end(&mut self, range: &ClusteringRange) -> bool {
        if self.cursor.spot == Spot::End
            && range.is_full()
            && let Some((at, end)) = self.last.as_ref().and_then(LastItem::get)
        {
            self.cursor.spot = Spot::Previous { at, end };
            return true;
        }
        false
    }

    /// Puts a reversed cursor before the block at `high`, where `open` is in force, unless it
    /// stands below already.
    async fn stand_before(
        &mut self,
        high: u64,
        open: Option<Tombstone>,
        data: &mut Window,
    ) -> Result<()> {
        let is_below = match self.cursor.spot {
            Spot::Previous { at, .. } => at < high,
            Spot::Exhausted => true,
            Spot::Next { .. } | Spot::End => false,
        };
        if !is_below {
            let spot = self.cursor.before(data, high).await?;
            self.cursor.spot = spot.ok_or_else(|| self.no_row_at(high))?;
            self.cursor.open = open;
        }
        Ok(())
    }

    /// Puts a reversed cursor that stands at the end of the partition where the range ends, going
    /// forward from `from` over about so many bytes.
    async fn walk_to_edge(
        &mut self,
        range: &ClusteringRange,
        (from, open): (u64, Option<Tombstone>),
        bytes: u64,
        data: &mut Window,
    ) -> Result<()> {
        if self.cursor.spot != Spot::End {
            return Ok(());
        }
        // All of the walk in one read, if it is that short.
        let rest = data.content().size().saturating_sub(from);
        let ahead = bytes.min(WALK_BYTES_MAX).min(rest);
        if ahead > 0 && !data.is_careful() {
            data.advance(from, ahead, from + ahead).await?;
        }
        let last = if range.end.is_end() {
            let last = self.cursor.walk_to_end(data, from).await?;
            self.cursor.open = None;
            if let (Some(last), Some(noted)) = (last, &self.last) {
                noted.set(last);
            }
            last
        } else {
            let is_within = |item: &Item| match item {
                Item::Row { key, .. } => range.end.cmp_key(key).is_gt(),
                Item::Marker { position, .. } => range.end > *position,
                Item::End => false,
            };
            let (walked, ended) = self.cursor.walk(data, ((from, open), u64::MAX), is_within).await;
            self.cursor.open = walked.open;
            ended?;
            walked.last
        };
        self.cursor.spot = match last {
            Some((at, end)) => Spot::Previous { at, end },
            None if from == self.cursor.span.body => Spot::Exhausted,
            None => {
                let spot = self.cursor.before(data, from).await?;
                spot.ok_or_else(|| self.no_row_at(from))?
            }
        };
        Ok(())
    }

    /// The error for a block that the promoted index says begins at `at`.
    pub(super) fn no_row_at(&self, at: u64) -> Error {
        let promoted = self.promoted.as_ref().expect("without promoted index no bound is passed");
        promoted.contradiction("a row at the start of a block", at)
    }
}

/// Offset of a block in its partition.
async fn offset_of(promoted: &mut PromotedIndex, number: u32) -> Result<u64> {
    promoted.look(number, |block| block.offset).await
}

/// The block that `range` is entered by.
async fn near(
    promoted: &mut PromotedIndex,
    direction: Direction,
    range: &ClusteringRange,
) -> Result<Near> {
    match direction {
        Direction::Forward if range.start.is_start() => Ok(Near::From(0, 0)),
        Direction::Forward => {
            let number = promoted.first_after(&range.start).await?;
            if number < promoted.count() {
                let look =
                    |block: BlockRef<'_>| (block.offset, block.cmp_first(&range.end).is_ge());
                let (offset, is_behind) = promoted.look(number, look).await?;
                if !is_behind {
                    return Ok(Near::From(number, offset));
                }
            }
            promoted.open_before(number).await.map(Near::Nothing)
        }
        Direction::Reversed => {
            let to_the_end = range.end.is_end();
            let behind = match to_the_end {
                true => promoted.count(),
                false => promoted.first_from(&range.end).await?,
            };
            let Some(number) = behind.checked_sub(1) else { return Ok(Near::Nothing(None)) };
            let block = match to_the_end {
                true => promoted.last().await?,
                false => promoted.block(number).await?,
            };
            Ok(match block.last <= range.start {
                true => Near::Nothing(block.open),
                false => Near::Behind(number, block),
            })
        }
    }
}

/// The block at whose start a read of `range` may stop that is entered by block `number`, as far as
/// that is in memory.
fn far(
    promoted: &mut PromotedIndex,
    direction: Direction,
    number: u32,
    range: &ClusteringRange,
) -> Result<Option<u32>> {
    match direction {
        Direction::Forward if !range.end.is_end() => {
            let behind = promoted.known_from(number, &range.end)?;
            Ok((behind < promoted.count()).then_some(behind))
        }
        Direction::Reversed if !range.start.is_start() => {
            let low = promoted.known_up_to(number, &range.start)?;
            Ok((low > 0).then_some(low))
        }
        _ => Ok(None),
    }
}
