//! Reads one row of one partition, as most reads that miss the row cache do. It needs no stream, no
//! range and no state for continuing: the index says where the row would lie, and a cursor passes
//! rows by their keys up to it.

use std::cmp::Ordering;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::cursor::{RowCursor, Span, Spot};
use super::item::{Item, PartitionFront, front_at_hand, front_of};
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
    pub fn read_row(
        self: Rc<Self>,
        key: Rc<PartitionKey>,
        row: ClusteringKey,
        wants_front: bool,
    ) -> LocalBoxFuture<'static, Result<Option<PointRead>>> {
        probe::count(Count::SstableReads, 1);
        self.note_read("a row");
        let mut data = Window::new(self.data.clone(), Access::Rows);
        let known = self.known_place(&key, row.as_ordered());
        let at_hand = |located| self.sought_at_hand(&data, located, wants_front);
        // Most reads of wide partitions: this future takes two thirds of the other's room at most.
        if let Some(sought) = known.and_then(at_hand) {
            let read = async move {
                make_way().await;
                let mut sought = sought?;
                self.look_where_sought(&row, &mut sought, &mut data).await?;
                Ok(Some(sought.found))
            };
            return read.boxed_local();
        }
        let read = async move {
            make_way().await;
            let sought = self.seek_row(&mut data, (&key, &row), known, wants_front).await?;
            let Some(mut sought) = sought else { return Ok(None) };
            self.look_where_sought(&row, &mut sought, &mut data).await?;
            Ok(Some(sought.found))
        };
        read.boxed_local()
    }

    /// What [`seek_row`](Self::seek_row) gives of a known place, where the front need not be read.
    ///
    /// Errors: `Corrupt` when index and data disagree.
    fn sought_at_hand(
        &self,
        data: &Window,
        (place, indexed): Located,
        wants_front: bool,
    ) -> Option<Result<Sought>> {
        let stated = indexed.map(|(stated, _)| (&*self.index, stated));
        let front = front_at_hand(data, &self.layout, &place, (stated, !wants_front))?;
        Some(front.map(|front| Sought::behind(front, place, indexed)))
    }

    /// Where a row is to be looked for, and what its partition begins with; `None` where the
    /// partition is not here. `known` is its [`known_place`](Self::known_place).
    ///
    /// Errors: `Io`; `Corrupt` also when index and data disagree.
    async fn seek_row(
        &self,
        data: &mut Window,
        (key, row): (&PartitionKey, &ClusteringKey),
        known: Option<Located>,
        wants_front: bool,
    ) -> Result<Option<Sought>> {
        let located = match known {
            Some(known) => Some(known),
            None => self.locate(key, row.as_ordered()).await?,
        };
        let Some((place, indexed)) = located else { return Ok(None) };
        let stated = indexed.map(|(stated, _)| (&*self.index, stated));
        let front = front_of(data, &self.layout, (key, place), (stated, !wants_front)).await?;
        Ok(Some(Sought::behind(front, place, indexed)))
    }

    /// Adds the row to what is found, and what is in force there.
    ///
    /// Errors: `Io`; `Corrupt` also when index and data disagree.
    async fn look_where_sought(
        &self,
        row: &ClusteringKey,
        sought: &mut Sought,
        data: &mut Window,
    ) -> Result<()> {
        let Sought { place, indexed, body, found } = sought;
        debug_assert!(found.row.is_none(), "{row:?} is looked for once");
        let end = place.end.unwrap_or(data.content().size());
        let span = Span { start: place.start, body: *body, end };
        let mut cursor = RowCursor::new(self.layout.clone(), Direction::Forward, span);
        if let Some((_, RowPlace { block, open })) = *indexed {
            found.tombstone = open;
            let Some(block) = block else { return Ok(()) };
            cursor.open = open;
            cursor.spot = Spot::Next { at: span.body.max(place.start.saturating_add(block.start)) };
            // Behind the last block nothing else of the partition follows.
            cursor.bound = block.end.map_or(u64::MAX, |end| place.start.saturating_add(end));
            data.expect_walk(block.end.map_or(0, |end| end.saturating_sub(block.start)));
        }
        cursor.take_in(data).await?;
        let is_told = look_for(row, (&mut cursor, &self.layout), data, &mut found.row).await?;
        found.tombstone = cursor.open;
        probe::count(Count::SstableRows, u64::from(found.row.is_some()));
        if is_told {
            return Ok(());
        }
        match place.promoted {
            // By it the block reaches up to the row, so something stands there or behind.
            Some((index_at, _)) if indexed.is_some() => {
                let wanted = format!("a block of the partition at {} up to {row:?}", place.start);
                let found = format!("its end at {}", cursor.here());
                Err(Error::corrupt(self.index.path(), index_at, wanted, found))
            }
            _ => cursor.finish(data),
        }
    }

    /// What [`locate`](Self::locate) gives of a partition whose promoted index is kept parsed.
    fn known_place(&self, key: &PartitionKey, row: &[u8]) -> Option<Located> {
        let known = self.known.get(key.token().0 as u64).filter(|known| known.key == *key)?;
        probe::note(|| "promoted index is in memory, parsed".to_owned());
        let indexed = (known.blocks.stated, known.blocks.place_of_row(row));
        Some((known.place, Some(indexed)))
    }

    /// Where a partition stands, what its promoted index says of the front, and where a row stands
    /// by it. A promoted index that is in memory and not long is parsed and kept so.
    async fn locate(&self, key: &PartitionKey, row: &[u8]) -> Result<Option<Located>> {
        let token = key.token().0 as u64;
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

/// One of several reads that are asked at once: who has the turn makes way when that is over.
async fn make_way() {
    while runtime::need_preempt() {
        runtime::yield_now().await;
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
        let item = match cursor.next_at_hand(data, read) {
            Some(item) => item?,
            None => {
                let item = Box::pin(cursor.await_next(data, u64::MAX, read)).await?;
                item.expect("what may be read is there")
            }
        };
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

/// Where a row is to be looked for.
struct Sought {
    place: PartitionPlace,
    indexed: Option<(Stated, RowPlace)>,
    /// Where the rows of the partition begin.
    body: u64,
    /// What is found so far.
    found: PointRead,
}

impl Sought {
    /// Behind the front of its partition.
    fn behind(
        PartitionFront { deletion, static_row, body }: PartitionFront,
        place: PartitionPlace,
        indexed: Option<(Stated, RowPlace)>,
    ) -> Self {
        let start = place.start;
        debug_assert!(start <= body, "rows begin at {body}, their partition at {start}");
        let static_row = (!static_row.is_empty()).then(|| Rc::new(static_row));
        let found = PointRead { deletion, static_row, ..PointRead::default() };
        Sought { place, indexed, body, found }
    }
}
