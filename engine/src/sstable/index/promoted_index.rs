//! The promoted index: blocks inside a wide partition, searched without reading it whole.
//!
//! ```text
//! promoted index := vint header length, deletion, vint n, block * n, u32 offset * n
//! block          := first, last, vint offset, svint width - 65536, u8 has open, [open deletion]
//! ```
//! `offset` counts from the start of the partition. `open` is the range tombstone in force after
//! the block's last row or marker. A partition of fewer than two blocks has none. The offsets at
//! the end (relative to the first block) give random access.
//!
//! One bound of a slice is searched for by halves: each probe looks at an offset and a block where
//! they lie in their pages, which stay cached as they are on disk. The other bound is looked for
//! only in what is in memory by then, above all the pages that the first search read: one that is
//! not found there costs the reader a little read-ahead, never a read of the index.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::{Deref, Range};
use std::rc::Rc;

use futures::future::try_join;

use crate::cache::Page;
use crate::config::PAGE_BYTES;
use crate::error::{Error, Result};
use crate::mutation::position::compare;
use crate::mutation::{Position, Tombstone, Weight};
use crate::probe::{self, Count};
use crate::schema::ClusteringKey;
use crate::sstable::data::file::CheckedFile;
use crate::sstable::format::coding::{Fault, Input, Parsed, put_svint, put_vint};
use crate::sstable::format::layout::{DELETION_BYTES, Layout, deletion, put_deletion};
use crate::sstable::format::prefix::{BATCH_COLUMNS, read_position_into};

const WIDTH_BASE: i64 = 65_536;
/// The block size doubles each time the index of one partition grows by this much.
const GROWTH_BYTES: usize = 10 << 20;
/// Longest front part (header length, deletion, count).
const FRONT_BYTES_MAX: u64 = 9 + DELETION_BYTES + 9;
/// Parsed blocks that one search keeps.
const BLOCKS_KEPT_MAX: usize = 64;
/// Pages read ahead for the last block, where its place is reckoned: enough for 2 GB in blocks of
/// 64 KiB.
const LAST_BLOCK_PAGES_MAX: u64 = 8;
const PAGE: u64 = PAGE_BYTES as u64;
/// Neighbouring pages of the offsets, and of the blocks, that a search holds: it goes to and fro
/// between the two.
const PAGES_HELD: usize = 2;
/// Room for most keys.
const KEY_BYTES: usize = 32;

/// Pages before the end of a promoted index of `size` bytes, the last block among them, where the
/// length of all clustering keys is known: reckoned from the least and the greatest length of a
/// block. A bound at the end of a block may be longer or shorter than a key, so this is a place to
/// read ahead, no more. `None` where nothing is reckoned or where it would be more than
/// `LAST_BLOCK_PAGES_MAX`.
pub(super) fn pages_of_last_block(layout: &Layout, (at, size): (u64, u64)) -> Option<Range<u64>> {
    let lengths = layout.clustering.iter().map(|(ty, _)| ty.fixed_bytes());
    let key = lengths.sum::<Option<usize>>()? as u64;
    let headers = layout.clustering.len().div_ceil(BATCH_COLUMNS) as u64;
    // Kind, header and values, twice; offset of 3 to 5 bytes, width of 1 to 3, no tombstone.
    let prefixes = 2 * (1 + headers + key);
    let (least, most) = (prefixes + 3 + 1 + 1, prefixes + 5 + 3 + 1);
    let (end, offset) = (at + size, 4);
    let from = end.saturating_sub(size * offset / (least + offset) + most).max(at) / PAGE;
    let to = (end - size * offset / (most + offset)).div_ceil(PAGE);
    (to - from <= LAST_BLOCK_PAGES_MAX).then_some(from..to)
}

/// Makes the promoted index of one partition after another.
#[derive(Debug)]
pub(crate) struct PromotedIndexBuilder {
    block_bytes_default: u64,
    block_bytes: u64,
    blocks: Vec<u8>,
    offsets: Vec<u32>,
    /// Start of the open block and its first prefix, encoded.
    start: Option<u64>,
    first: Vec<u8>,
    last: Vec<u8>,
    /// Start of the first row or marker of the partition, and the end of the last one.
    extent: Option<(u64, u64)>,
}

impl PromotedIndexBuilder {
    pub(crate) fn new(block_bytes: u32) -> Self {
        PromotedIndexBuilder {
            block_bytes_default: u64::from(block_bytes.max(1)),
            block_bytes: u64::from(block_bytes.max(1)),
            blocks: Vec::new(),
            offsets: Vec::new(),
            start: None,
            first: Vec::new(),
            last: Vec::new(),
            extent: None,
        }
    }

    /// A row or marker stands at `from..to` of the partition; `prefix` appends its encoded prefix
    /// and `open` is the range tombstone in force after it.
    pub(crate) fn add(
        &mut self,
        (from, to): (u64, u64),
        prefix: impl FnOnce(&mut Vec<u8>),
        open: Option<Tombstone>,
    ) {
        assert!(from < to, "a row or marker at {from}..{to}");
        let (first, behind) = self.extent.unwrap_or((from, from));
        assert_eq!(from, behind, "a row or marker stands not behind the one before");
        self.extent = Some((first, to));
        self.last.clear();
        prefix(&mut self.last);
        let start = match self.start {
            Some(start) => start,
            None => {
                self.first.clone_from(&self.last);
                self.start = Some(from);
                from
            }
        };
        if to - start >= self.block_bytes {
            self.close_block(to, open);
        }
    }

    fn close_block(&mut self, end: u64, open: Option<Tombstone>) {
        let Some(start) = self.start.take() else { return };
        assert!(start < end, "a block at {start}..{end}");
        let offset = u32::try_from(self.blocks.len()).expect("the block size grows with the index");
        self.offsets.push(offset);
        let out = &mut self.blocks;
        out.extend_from_slice(&self.first);
        out.extend_from_slice(&self.last);
        put_vint(out, start);
        put_svint(out, (end - start) as i64 - WIDTH_BASE);
        out.push(u8::from(open.is_some()));
        if open.is_some() {
            put_deletion(out, open);
        }
        let growth = self.blocks.len() / GROWTH_BYTES;
        self.block_bytes = self.block_bytes_default << growth.min(20);
    }

    /// Ends the partition, `end` being the byte after its end mark; appends the promoted index to
    /// `out` unless there are too few blocks, and starts afresh.
    pub(crate) fn finish(
        &mut self,
        (header_bytes, end): (u64, u64),
        partition_deletion: Option<Tombstone>,
        out: &mut Vec<u8>,
    ) {
        let (first, behind) = self.extent.take().unwrap_or((header_bytes, header_bytes));
        assert!(
            first == header_bytes && behind < end,
            "rows at {first}..{behind} of a partition whose front ends at {header_bytes}, of {end}"
        );
        // Like Cassandra, count the end mark into a block that is still open.
        self.close_block(end, None);
        if self.offsets.len() >= 2 {
            put_vint(out, header_bytes);
            put_deletion(out, partition_deletion);
            put_vint(out, self.offsets.len() as u64);
            out.extend_from_slice(&self.blocks);
            self.offsets.iter().for_each(|o| out.extend_from_slice(&o.to_be_bytes()));
        }
        self.blocks.clear();
        self.offsets.clear();
        self.block_bytes = self.block_bytes_default;
    }
}

/// One block, parsed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Block {
    pub(crate) first: Position,
    pub(crate) last: Position,
    /// From the start of the partition.
    pub(crate) offset: u64,
    /// Of the last block it may or may not count the end mark, so it is a hint.
    pub(crate) width: u64,
    /// Range tombstone in force after the block.
    pub(crate) open: Option<Tombstone>,
}

/// A block that is looked at where it lies.
pub(crate) struct BlockRef<'a> {
    pub(crate) first: (&'a [u8], Weight),
    pub(crate) last: (&'a [u8], Weight),
    /// As in [`Block`].
    pub(crate) offset: u64,
    width: u64,
    pub(crate) open: Option<Tombstone>,
}

impl BlockRef<'_> {
    fn to_block(&self) -> Block {
        let position = |(prefix, weight)| {
            let prefix = ClusteringKey::from_ordered(prefix);
            Position { prefix, weight }
        };
        let &BlockRef { first, last, offset, width, open } = self;
        Block { first: position(first), last: position(last), offset, width, open }
    }

    pub(crate) fn cmp_first(&self, position: &Position) -> Ordering {
        compare(self.first.0, self.first.1, position.prefix.as_ordered(), position.weight)
    }

    fn cmp_last(&self, position: &Position) -> Ordering {
        compare(self.last.0, self.last.1, position.prefix.as_ordered(), position.weight)
    }
}

impl Block {
    fn view(&self) -> BlockRef<'_> {
        let Block { first, last, offset, width, open } = self;
        BlockRef {
            first: (first.prefix.as_ordered(), first.weight),
            last: (last.prefix.as_ordered(), last.weight),
            offset: *offset,
            width: *width,
            open: *open,
        }
    }
}

/// What a promoted index says of the front of its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stated {
    /// Offset of the first row or marker from the start of the partition.
    pub(crate) header_bytes: u64,
    pub(crate) deletion: Option<Tombstone>,
}

/// Where a row stands if it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowPlace {
    /// The one block that may hold it, from the start of the partition; `None` when none does.
    pub(crate) block: Option<BlockSpan>,
    /// Range tombstone in force before that block, or at the row when no block holds it.
    pub(crate) open: Option<Tombstone>,
}

/// Start of a block, and its end; of the last block that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockSpan {
    pub(crate) start: u64,
    pub(crate) end: Option<u64>,
}

/// Bytes of the file, where they lie in a page or, at the border of two, joined.
enum Bytes {
    Within(Page, Range<usize>),
    Joined(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Within(page, range) => &page[range.clone()],
            Bytes::Joined(bytes) => bytes,
        }
    }
}

/// The promoted index of one partition, read from the index file block by block.
pub(crate) struct PromotedIndex {
    file: Rc<CheckedFile>,
    layout: Rc<Layout>,
    /// Where the blocks start and the offsets start in the file.
    blocks_at: u64,
    offsets_at: u64,
    count: u32,
    pub(crate) stated: Stated,
    /// Blocks that were read from disk or wanted whole.
    parsed: BTreeMap<u32, Rc<Block>>,
    /// Room for the two keys of a block that is looked at.
    keys: [Vec<u8>; 2],
    /// Pages of the blocks and of the offsets used last, each at the place that its number gives
    /// it; holding one keeps it in memory.
    held: [Option<(u64, Page)>; 2 * PAGES_HELD],
}

impl PromotedIndex {
    /// Reads the front of the promoted index at `at..at + size` of the index file.
    ///
    /// Errors: `Io`, `Corrupt`.
    pub(crate) async fn open(
        file: Rc<CheckedFile>,
        layout: Rc<Layout>,
        at: u64,
        size: u64,
    ) -> Result<Self> {
        let mut index = PromotedIndex {
            file,
            layout,
            blocks_at: at,
            offsets_at: at + size,
            count: 0,
            stated: Stated { header_bytes: 0, deletion: None },
            parsed: BTreeMap::new(),
            keys: [(); 2].map(|()| Vec::with_capacity(KEY_BYTES)),
            held: Default::default(),
        };
        let front = index.bytes((at, size.min(FRONT_BYTES_MAX))).await?;
        let mut input = Input::new(&front);
        let parsed = (|| -> Parsed<_> {
            let header_bytes = input.vint()?;
            let deletion = deletion(&mut input)?;
            let before = input.clone();
            let count = input.vint()?;
            let room = (size - input.at()) / 4;
            if count < 2 || count > room {
                return Err(before.bad(format!("2 to {room} blocks"), count));
            }
            let count = u32::try_from(count).map_err(|_| before.bad("fewer blocks", count))?;
            Ok((header_bytes, deletion, count))
        })();
        let (header_bytes, deletion, count) =
            parsed.map_err(|fault| fault.into_error(index.file.path(), at))?;
        index.blocks_at += input.at();
        index.offsets_at -= 4 * u64::from(count);
        probe::note(|| format!("promoted index at {at} of {count} blocks, {size} bytes"));
        Ok(PromotedIndex { stated: Stated { header_bytes, deletion }, count, ..index })
    }

    /// Number of blocks.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Where a page is held.
    fn place_of(&self, number: u64) -> usize {
        let area = usize::from(number * PAGE >= self.offsets_at);
        PAGES_HELD * area + number as usize % PAGES_HELD
    }

    /// A page of the file, if it is in memory.
    fn page_in_memory(&mut self, number: u64) -> Option<Page> {
        let place = self.place_of(number);
        match &self.held[place] {
            Some((held, page)) if *held == number => Some(page.clone()),
            _ => {
                let page = self.file.page_in_memory(number)?;
                self.held[place] = Some((number, page.clone()));
                Some(page)
            }
        }
    }

    /// `length` bytes at `at`, which the file has, if they are in memory.
    fn bytes_in_memory(&mut self, (at, length): (u64, u64)) -> Option<Bytes> {
        debug_assert!(length > 0, "no bytes of an index are wanted at {at}");
        let (first, last) = (at / PAGE, (at + length - 1) / PAGE);
        let mut joined = Vec::new();
        for number in first..=last {
            let page = self.page_in_memory(number)?;
            let from = at.saturating_sub(number * PAGE) as usize;
            let to = (at + length - number * PAGE).min(page.len() as u64) as usize;
            if first == last {
                return Some(Bytes::Within(page, from..to));
            }
            joined.extend_from_slice(&page[from..to]);
        }
        debug_assert_eq!(joined.len() as u64, length, "pages were joined wrongly at {at}");
        Some(Bytes::Joined(joined))
    }

    /// `length` bytes at `at`, which the file has.
    async fn bytes(&mut self, (at, length): (u64, u64)) -> Result<Bytes> {
        if let Some(bytes) = self.bytes_in_memory((at, length)) {
            return Ok(bytes);
        }
        let number = at / PAGE;
        if number < (at + length - 1) / PAGE {
            return self.file.read(at, length).await.map(Bytes::Joined);
        }
        let (place, page) = (self.place_of(number), self.file.page(number).await?);
        self.held[place] = Some((number, page.clone()));
        let from = (at - number * PAGE) as usize;
        Ok(Bytes::Within(page, from..from + length as usize))
    }

    /// The block with this number.
    ///
    /// Errors: `Io`, `Corrupt`.
    pub(crate) async fn block(&mut self, number: u32) -> Result<Rc<Block>> {
        if let Some(block) = self.parsed.get(&number) {
            return Ok(block.clone());
        }
        let offsets = self.offsets_of(number);
        let bytes = self.bytes(offsets).await?;
        let place = self.place_of_block(number, &bytes)?;
        let bytes = self.bytes(place).await?;
        let block = Rc::new(self.view(place, &bytes, |block| block.to_block())?);
        if self.parsed.len() >= BLOCKS_KEPT_MAX {
            self.parsed.pop_first();
        }
        self.parsed.insert(number, block.clone());
        let kept = self.parsed.len();
        debug_assert!(kept <= BLOCKS_KEPT_MAX, "{kept} blocks are kept");
        Ok(block)
    }

    /// What `look` makes of a block.
    ///
    /// Errors: `Io`, `Corrupt`.
    pub(crate) async fn look<T>(
        &mut self,
        number: u32,
        look: impl Fn(BlockRef<'_>) -> T,
    ) -> Result<T> {
        // Most blocks are looked at once: only those that the disk had to be asked for are kept.
        if let Some(looked) = self.look_in_memory(number, &look)? {
            return Ok(looked);
        }
        let block = self.block(number).await?;
        Ok(look(block.view()))
    }

    /// What `look` makes of a block, where it lies; `None` when it is not in memory, read or not
    /// read by this search.
    pub(super) fn look_in_memory<T>(
        &mut self,
        number: u32,
        look: impl FnOnce(BlockRef<'_>) -> T,
    ) -> Result<Option<T>> {
        if let Some(block) = self.parsed.get(&number) {
            return Ok(Some(look(block.view())));
        }
        let offsets = self.offsets_of(number);
        let Some(bytes) = self.bytes_in_memory(offsets) else { return Ok(None) };
        let place = self.place_of_block(number, &bytes)?;
        let Some(bytes) = self.bytes_in_memory(place) else { return Ok(None) };
        self.view(place, &bytes, look).map(Some)
    }

    /// Place and length of the offset of a block, and of the next one's where there is one.
    fn offsets_of(&self, number: u32) -> (u64, u64) {
        assert!(number < self.count, "a search stays within the blocks");
        let has_next = number + 1 < self.count;
        (self.offsets_at + 4 * u64::from(number), if has_next { 8 } else { 4 })
    }

    /// Place and length of a block, by the offsets that stand at its number.
    fn place_of_block(&self, number: u32, offsets: &[u8]) -> Result<(u64, u64)> {
        let mut input = Input::new(offsets);
        let area = self.offsets_at - self.blocks_at;
        let range = (|| -> Parsed<_> {
            let from = u64::from(input.u32()?);
            let has_next = number + 1 < self.count;
            let to = if has_next { u64::from(input.u32()?) } else { area };
            if from >= to || to > area {
                let found = format!("{from} to {to}");
                return Err(Fault::bad(0, format!("a block within {area}"), found));
            }
            Ok((self.blocks_at + from, to - from))
        })();
        let (at, _) = self.offsets_of(number);
        range.map_err(|fault| fault.into_error(self.file.path(), at))
    }

    /// What `look` makes of the block with these bytes.
    fn view<T>(
        &mut self,
        (at, _): (u64, u64),
        bytes: &[u8],
        look: impl FnOnce(BlockRef<'_>) -> T,
    ) -> Result<T> {
        probe::count(Count::IndexBlocks, 1);
        let header_bytes = self.stated.header_bytes;
        let looked = parse_block(&mut Input::new(bytes), &self.layout, &mut self.keys);
        let looked = looked.and_then(|block| {
            let (first, last) = (block.first, block.last);
            if block.offset >= header_bytes && compare(first.0, first.1, last.0, last.1).is_le() {
                return Ok(look(block));
            }
            let wanted = "a block after the header, its first key first";
            Err(Fault::bad(0, wanted, format!("{:?}", block.to_block())))
        });
        looked.map_err(|fault| fault.into_error(self.file.path(), at))
    }

    /// Number of the first block for which `is_right` holds, or the number of blocks. The blocks
    /// for which it does not hold come first.
    ///
    /// Errors: `Io`, `Corrupt`.
    async fn first_block(&mut self, is_right: impl Fn(BlockRef<'_>) -> bool) -> Result<u32> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.look(middle, &is_right).await? {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(low)
    }

    /// Where the row with this key stands: each block is looked at once.
    ///
    /// Errors: `Io`, `Corrupt`.
    pub(crate) async fn place_of_row(&mut self, key: &[u8]) -> Result<RowPlace> {
        // Of the last block that is before the row, and of the first that is not.
        let (open, reached) = (Cell::new(None), Cell::new(None));
        let number = self.first_block(|block| {
            let (first, last) = (block.first, block.last);
            let is_right = compare(last.0, last.1, key, Weight::At).is_ge();
            if is_right {
                let begins_before = compare(first.0, first.1, key, Weight::At).is_le();
                reached.set(begins_before.then_some((block.offset, block.width)));
            } else {
                open.set(block.open);
            }
            is_right
        });
        let number = number.await?;
        let block = reached.get().map(|(offset, width): (u64, u64)| BlockSpan {
            // Nothing stands before the first block.
            start: if number == 0 { self.stated.header_bytes } else { offset },
            end: (number + 1 < self.count).then_some(offset.saturating_add(width)),
        });
        Ok(RowPlace { block, open: open.get() })
    }

    /// First block that reaches beyond `position`: the first one a read from there needs.
    pub(crate) async fn first_after(&mut self, position: &Position) -> Result<u32> {
        self.first_block(|block| block.cmp_last(position).is_gt()).await
    }

    /// First block that starts at or beyond `position`: the first one a read up to there does not
    /// need.
    pub(crate) async fn first_from(&mut self, position: &Position) -> Result<u32> {
        self.first_block(|block| block.cmp_first(position).is_ge()).await
    }

    /// First block that begins behind `offset` of the partition.
    pub(crate) async fn first_behind(&mut self, offset: u64) -> Result<u32> {
        self.first_block(|block| block.offset > offset).await
    }

    /// A block behind `first` that starts at or beyond `position`: the first one of those in memory
    /// as far as they hang together, or the number of blocks.
    pub(crate) fn known_from(&mut self, first: u32, position: &Position) -> Result<u32> {
        let mut known = self.parsed.range(first.saturating_add(1)..);
        let known = known.find(|(_, block)| block.first >= *position);
        let (mut low, mut high) = (first, known.map_or(self.count, |(number, _)| *number));
        let mut step = 1;
        while high - low > 1 {
            let middle = low + step.min((high - low) / 2);
            let look = |block: BlockRef<'_>| block.cmp_first(position).is_ge();
            let Some(is_behind) = self.look_in_memory(middle, look)? else { break };
            if is_behind {
                high = middle;
                step = (step / 2).max(1);
            } else {
                low = middle;
                step = step.saturating_mul(2);
            }
        }
        debug_assert!(
            (first + 1..=self.count).contains(&high),
            "block {high} of {} behind block {first}",
            self.count
        );
        Ok(high)
    }

    /// A block up to `last` that starts at or before `position`: the last one of those in memory as
    /// far as they hang together, or 0.
    pub(crate) fn known_up_to(&mut self, last: u32, position: &Position) -> Result<u32> {
        let mut known = self.parsed.range(..=last).rev();
        let known = known.find(|(_, block)| block.first <= *position);
        let (mut low, mut high) = (known.map_or(0, |(number, _)| *number), last.saturating_add(1));
        let mut step = 1;
        while high - low > 1 {
            let middle = high - step.min((high - low) / 2);
            let look = |block: BlockRef<'_>| block.cmp_first(position).is_le();
            let Some(is_before) = self.look_in_memory(middle, look)? else { break };
            if is_before {
                low = middle;
                step = (step / 2).max(1);
            } else {
                high = middle;
                step = step.saturating_mul(2);
            }
        }
        debug_assert!(low <= last, "block {low} comes up to block {last}");
        Ok(low)
    }

    /// The last block. Where it and its offset are on disk, both are read at once: it ends where
    /// the offsets begin.
    ///
    /// Errors: `Io`, `Corrupt`.
    pub(crate) async fn last(&mut self) -> Result<Rc<Block>> {
        let mean_bytes = (self.offsets_at - self.blocks_at) / u64::from(self.count);
        let start =
            self.offsets_at.saturating_sub((2 * mean_bytes).min(4 * PAGE)).max(self.blocks_at);
        let end = self.offsets_at + 4 * u64::from(self.count);
        let blocks = (start / PAGE, self.offsets_at.div_ceil(PAGE));
        let offsets = ((end - 4) / PAGE, end.div_ceil(PAGE));
        if offsets.0 <= blocks.1 {
            self.file.warm(blocks.0, offsets.1).await?;
        } else {
            let blocks = self.file.warm(blocks.0, blocks.1);
            try_join(blocks, self.file.warm(offsets.0, offsets.1)).await?;
        }
        self.block(self.count - 1).await
    }

    /// The range tombstone in force between block `number - 1` and block `number`.
    pub(crate) async fn open_before(&mut self, number: u32) -> Result<Option<Tombstone>> {
        match number.checked_sub(1) {
            Some(before) => self.look(before, |block| block.open).await,
            None => Ok(None),
        }
    }

    /// The error for an index that contradicts the data at `found`.
    pub(crate) fn contradiction(&self, wanted: &str, found: impl ToString) -> Error {
        Error::corrupt(self.file.path(), self.blocks_at, wanted, found.to_string())
    }
}

/// Parses a block, its keys into `keys`.
fn parse_block<'a>(
    input: &mut Input<'_>,
    layout: &Layout,
    keys: &'a mut [Vec<u8>; 2],
) -> Parsed<BlockRef<'a>> {
    let [first, last] = keys;
    let first_weight = read_position_into(input, layout, first)?;
    let last_weight = read_position_into(input, layout, last)?;
    let offset = input.vint()?;
    let width = WIDTH_BASE.saturating_add(input.svint()?);
    let width = u64::try_from(width).map_err(|_| input.bad("the width of a block", width))?;
    let open = if input.u8()? != 0 { deletion(input)? } else { None };
    if input.remaining() != 0 {
        return Err(input.bad("the end of the block", format!("{} bytes", input.remaining())));
    }
    let (first, last) = ((first.as_slice(), first_weight), (last.as_slice(), last_weight));
    Ok(BlockRef { first, last, offset, width, open })
}
