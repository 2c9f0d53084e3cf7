//! One open SSTable.

use std::cell::{Cell, OnceCell};
use std::path::Path;
use std::rc::Rc;

use super::part::Part;
use crate::cache::{PageCache, ParsedFile};
use crate::error::{Error, Result};
use crate::policy::event::EntryKind;
use crate::probe;
use crate::schema::{ColumnDrop, ColumnId, PartitionKey, TableSchema, Token};
use crate::sstable::data::file::CheckedFile;
use crate::sstable::data::window::Content;
use crate::sstable::format::info::SstableInfo;
use crate::sstable::format::layout::Layout;
use crate::sstable::format::scylla::ScyllaMetadata;
use crate::sstable::format::statistics::Statistics;
use crate::sstable::index::block_index::BlockIndex;
use crate::sstable::index::filter::{BloomFilter, HashedKey};
use crate::sstable::index::index_page::{IndexPage, PartitionPlace};
use crate::sstable::index::summary::Summary;

/// Bytes that the cache takes for a piece beside it.
const PIECE_BYTES: usize = 160;

/// An SSTable that is open for reading: summary and bloom filter in memory, data and index in
/// files.
pub struct Sstable {
    info: SstableInfo,
    /// None where they are lost.
    statistics: Option<Box<Statistics>>,
    scylla: Option<Box<ScyllaMetadata>>,
    pub(crate) layout: Rc<Layout>,
    pub(crate) summary: Summary,
    filter: Option<BloomFilter>,
    pub(crate) data: Content,
    pub(crate) index: Rc<CheckedFile>,
    pub(crate) pages: ParsedFile<IndexPage>,
    /// Partitions whose promoted index was parsed, by their token.
    pub(crate) known: ParsedFile<KnownPartition>,
    pub(crate) parses_left_out: Cell<u32>,
    mended: Vec<Error>,
    /// Which partitions count; all where it is not set.
    part: OnceCell<Part>,
}

/// Bytes of memory that SSTables hold while they are open, outside caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldMemory {
    pub filters: u64,
    pub summaries: u64,
    /// Checksums of pages and chunks, notes of what was checked, and maps of chunks.
    pub checksums: u64,
}

impl std::ops::AddAssign for HeldMemory {
    fn add_assign(&mut self, other: Self) {
        self.filters += other.filters;
        self.summaries += other.summaries;
        self.checksums += other.checksums;
    }
}

/// What an SSTable is made of once it was opened.
pub(crate) struct Parts {
    pub(crate) info: SstableInfo,
    pub(crate) statistics: Option<Statistics>,
    pub(crate) scylla: Option<Box<ScyllaMetadata>>,
    pub(crate) layout: Layout,
    pub(crate) summary: Summary,
    pub(crate) filter: Option<BloomFilter>,
    pub(crate) data: Content,
    pub(crate) index: Rc<CheckedFile>,
    pub(crate) mended: Vec<Error>,
}

impl Sstable {
    pub(super) fn of_parts(cache: Rc<PageCache>, parts: Parts) -> Rc<Self> {
        let Parts { info, statistics, scylla, layout, summary, filter, data, index, mended } =
            parts;
        Rc::new(Sstable {
            info,
            statistics: statistics.map(Box::new),
            scylla,
            layout: Rc::new(layout),
            summary,
            filter,
            data,
            index,
            pages: ParsedFile::new(cache.clone(), EntryKind::PartitionIndexPage, 0),
            known: ParsedFile::new(cache, EntryKind::PartitionIndexPage, 0),
            parses_left_out: Cell::new(0),
            mended,
            part: OnceCell::new(),
        })
    }

    /// Has reads leave out what is not of `part`. To be called once, before the first read.
    pub fn restrict(&self, part: Part) {
        let was = self.part.set(part);
        assert!(was.is_ok(), "{} is a part already", self.data_path().display());
    }

    /// Whether partitions with this token count, if they are here.
    pub(crate) fn has(&self, token: Token) -> bool {
        self.part.get().is_none_or(|part| part.has(token))
    }

    /// How much of it counts, 0 to 1; an estimate.
    pub fn share(&self) -> f64 {
        self.part.get().map_or(1.0, Part::share)
    }

    /// Whether every partition of it counts.
    pub fn is_whole(&self) -> bool {
        self.part.get().is_none_or(Part::is_whole)
    }

    /// Damage of small components that was met while the SSTable was opened, and that something
    /// else made good.
    pub fn mended(&self) -> &[Error] {
        &self.mended
    }

    /// Bytes of memory that it holds outside caches.
    pub fn held_memory(&self) -> HeldMemory {
        let data = match &self.data {
            Content::Plain(file) => file.checks_bytes(),
            Content::Compressed(file) => file.checks_bytes(),
        };
        HeldMemory {
            filters: self.filter.as_ref().map_or(0, BloomFilter::heap_bytes) as u64,
            summaries: self.summary.heap_bytes() as u64,
            checksums: (data + self.index.checks_bytes()) as u64,
        }
    }

    /// The data file.
    pub fn data_path(&self) -> &Path {
        match &self.data {
            Content::Plain(file) => file.path(),
            Content::Compressed(file) => file.path(),
        }
    }

    /// Says, for a read that is watched, what is read of it.
    pub(super) fn note_read(&self, what: &str) {
        probe::note(|| {
            let file = self.data_path().file_name().unwrap_or_default();
            format!("{}: reads {what}", file.display())
        });
    }

    /// Keeps its files open, so that they can be read when they have no names any more.
    ///
    /// Errors: `Io`.
    pub async fn keep_open(&self) -> Result<()> {
        match &self.data {
            Content::Plain(file) => file.keep_open().await?,
            Content::Compressed(file) => file.keep_open().await?,
        }
        self.index.keep_open().await
    }

    /// Part of its cells and tombstones whose deletion time or expiry lies before a second, 0 to 1;
    /// an estimate, and 0 where its statistics are lost.
    pub fn droppable(&self, before: i64) -> f64 {
        self.statistics.as_ref().map_or(0.0, |statistics| statistics.droppable(before))
    }

    /// Whether its header names cells of columns that were dropped: those that are gone, or older
    /// ones of a column that is back.
    pub fn may_have_dropped(&self, schema: &TableSchema) -> bool {
        let has = |id: ColumnId| {
            self.layout.statics.place(id).or(self.layout.regulars.place(id)).is_some()
        };
        let is_old = |drop: &ColumnDrop| self.info.min_timestamp <= drop.at;
        let mut drops = schema.drops.iter();
        drops.any(|drop| {
            has(drop.column) && (schema.column(drop.column).is_dropped() || is_old(drop))
        })
    }

    pub fn info(&self) -> &SstableInfo {
        &self.info
    }

    /// What the cache that pages go through holds and did.
    #[cfg(test)]
    pub(crate) fn cache_stats(&self) -> crate::cache::PageCacheStats {
        self.pages.cache().stats()
    }

    /// What ScyllaDB noted, in a file that it wrote.
    pub fn scylla(&self) -> Option<&ScyllaMetadata> {
        self.scylla.as_deref()
    }

    /// False when the partition is certainly not in this SSTable, or does not count.
    pub fn may_contain(&self, key: &HashedKey<'_>) -> bool {
        self.first_key() <= key.key
            && key.key <= self.last_key()
            && self.has(key.key.token())
            && self.filter.as_ref().is_none_or(|filter| filter.may_contain_hash(key.hash))
    }

    pub fn first_key(&self) -> &PartitionKey {
        &self.info.first_key
    }

    pub fn last_key(&self) -> &PartitionKey {
        &self.info.last_key
    }
}

/// A partition with its promoted index, as they are kept in memory; found by the token of its key,
/// of which another partition's may be the same.
pub(crate) struct KnownPartition {
    pub(super) key: PartitionKey,
    pub(super) place: PartitionPlace,
    pub(super) blocks: BlockIndex,
}

impl KnownPartition {
    /// Bytes of memory that it takes, and the cache for it.
    pub(super) fn memory_bytes(&self) -> usize {
        PIECE_BYTES + size_of::<Self>() + self.key.as_bytes().len() + self.blocks.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_several_hold_is_added_up_by_its_kind() {
        let mut all = HeldMemory { filters: 1, summaries: 20, checksums: 300 };
        all += HeldMemory { filters: 4, summaries: 50, checksums: 600 };
        assert_eq!(all, HeldMemory { filters: 5, summaries: 70, checksums: 900 });
    }
}
