//! One open SSTable.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use super::open::{Opening, Origin, open};
use super::plan::ReadPlan;
use super::row_read::KnownPartition;
use super::source::SstableSource;
use crate::cache::{PageCache, ParsedFile};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::mutation::{FragmentSource, PartitionRange};
use crate::policy::event::EntryKind;
use crate::schema::PartitionKey;
use crate::schema::table_schema::SchemaRef;
use crate::sstable::data::file::CheckedFile;
use crate::sstable::data::window::Content;
use crate::sstable::format::component::SstableName;
use crate::sstable::format::info::SstableInfo;
use crate::sstable::format::layout::Layout;
use crate::sstable::format::scylla::ScyllaMetadata;
use crate::sstable::index::filter::{BloomFilter, HashedKey};
use crate::sstable::index::index_page::IndexPage;
use crate::sstable::index::summary::Summary;

/// An SSTable that is open for reading: summary and bloom filter in memory, data and index in
/// files.
pub struct Sstable {
    info: SstableInfo,
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
}

/// What an SSTable is made of once it was opened.
pub(crate) struct Parts {
    pub(crate) info: SstableInfo,
    pub(crate) scylla: Option<Box<ScyllaMetadata>>,
    pub(crate) layout: Layout,
    pub(crate) summary: Summary,
    pub(crate) filter: Option<BloomFilter>,
    pub(crate) data: Content,
    pub(crate) index: Rc<CheckedFile>,
    pub(crate) mended: Vec<Error>,
}

impl Sstable {
    /// Opens the SSTable of this generation that this engine wrote and that a manifest names, with
    /// what that says of it if it is at hand; see [`open_named`](Self::open_named).
    pub async fn open(
        disk: Rc<dyn Disk>,
        cache: Rc<PageCache>,
        directory: &Path,
        (generation, known): (u64, Option<&SstableInfo>),
        schema: SchemaRef,
    ) -> Result<Rc<Self>> {
        let (name, origin) = (&SstableName::native(generation), Origin::Own(known));
        open(Opening { disk, cache, directory, name, schema, origin }).await
    }

    /// Opens an SSTable of any readable version, whoever wrote it. Small components are read and
    /// checked whole; data and index are checked page by page, or chunk by chunk, as they are read.
    /// Small components that are damaged or missing are made anew from the others, in memory, as
    /// far as those tell what was in them: [`mended`](Self::mended).
    ///
    /// Errors: `Io`, also when it has no table of contents; `Corrupt`; `Invalid` when its columns
    /// are not those of `schema` or when its codec is unknown.
    pub async fn open_named(
        disk: Rc<dyn Disk>,
        cache: Rc<PageCache>,
        directory: &Path,
        name: &SstableName,
        schema: SchemaRef,
    ) -> Result<Rc<Self>> {
        open(Opening { disk, cache, directory, name, schema, origin: Origin::Foreign }).await
    }

    /// As [`open_named`](Self::open_named), but an SSTable without table of contents is taken to
    /// have the files that are there: copies and old backups lack it.
    ///
    /// Errors: as there.
    pub async fn open_foreign(
        disk: Rc<dyn Disk>,
        cache: Rc<PageCache>,
        directory: &Path,
        name: &SstableName,
        schema: SchemaRef,
    ) -> Result<Rc<Self>> {
        open(Opening { disk, cache, directory, name, schema, origin: Origin::Loose }).await
    }

    pub(super) fn of_parts(cache: Rc<PageCache>, parts: Parts) -> Rc<Self> {
        let Parts { info, scylla, layout, summary, filter, data, index, mended } = parts;
        Rc::new(Sstable {
            info,
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
        })
    }

    /// Damage of small components that was met while the SSTable was opened, and that something
    /// else made good.
    pub fn mended(&self) -> &[Error] {
        &self.mended
    }

    /// The data file.
    pub fn data_path(&self) -> &Path {
        match &self.data {
            Content::Plain(file) => file.path(),
            Content::Compressed(file) => file.path(),
        }
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

    /// False when the partition is certainly not in this SSTable.
    pub fn may_contain(&self, key: &HashedKey<'_>) -> bool {
        self.first_key() <= key.key
            && key.key <= self.last_key()
            && self.filter.as_ref().is_none_or(|filter| filter.may_contain_hashes(key.hashes))
    }

    pub fn first_key(&self) -> &PartitionKey {
        &self.info.first_key
    }

    pub fn last_key(&self) -> &PartitionKey {
        &self.info.last_key
    }

    /// Reads what a plan asks for, in the direction of its slice; `None` when certainly nothing of
    /// that is here.
    pub fn read(self: &Rc<Self>, plan: &ReadPlan<'_>) -> Option<Box<dyn FragmentSource>> {
        let may_have = match (&plan.key, plan.range) {
            (Some(key), _) => self.may_contain(key),
            (None, PartitionRange::Tokens { min, max }) => {
                let (first, last) = (self.first_key().token(), self.last_key().token());
                first <= *max && *min <= last && min <= max
            }
            (None, PartitionRange::Single(_)) => true,
        };
        may_have.then(|| Box::new(SstableSource::new(self.clone(), plan)) as _)
    }
}
