//! One open SSTable.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use super::coding::{Fault, Input, Parsed};
use super::component::{Component, SstableName, require};
use super::compressed::CompressedFile;
use super::compression_info::CompressionInfo;
use super::damage::DamageLog;
use super::file::{Access, CheckedFile, Checks, SCAN_BYTES_MAX};
use super::filter::{BloomFilter, HashedKey};
use super::index_page::IndexPage;
use super::info::SstableInfo;
use super::integrity::Integrity;
use super::layout::Layout;
use super::partition_index::read_entry;
use super::row_read::KnownPartition;
use super::scylla::ScyllaMetadata;
use super::source::SstableSource;
use super::statistics;
use super::summary::{Summary, SummaryBuilder};
use super::window::{Content, Window};
use crate::cache::{PageCache, ParsedFile};
use crate::config::PAGE_BYTES;
use crate::disk::{Disk, read_file};
use crate::error::{Error, Result};
use crate::mutation::{FragmentSource, PartitionRange, Slice};
use crate::policy::event::EntryKind;
use crate::schema::PartitionKey;
use crate::schema::table_schema::SchemaRef;

/// An SSTable that is open for reading: summary and bloom filter in memory, data and index in files.
pub struct Sstable {
    info: SstableInfo,
    scylla: Option<Box<ScyllaMetadata>>,
    pub(super) layout: Rc<Layout>,
    pub(super) summary: Summary,
    filter: Option<BloomFilter>,
    pub(super) data: Content,
    pub(super) index: Rc<CheckedFile>,
    pub(super) pages: ParsedFile<IndexPage>,
    /// Partitions whose promoted index was parsed, by their token.
    pub(super) known: ParsedFile<KnownPartition>,
    pub(super) parses_left_out: Cell<u32>,
}

impl Sstable {
    /// Opens the SSTable of this generation that this engine wrote; see
    /// [`open_named`](Self::open_named).
    pub async fn open(
        disk: Rc<dyn Disk>,
        cache: Rc<PageCache>,
        directory: &Path,
        generation: u64,
        schema: SchemaRef,
    ) -> Result<Rc<Self>> {
        let name = SstableName::native(generation);
        Sstable::open_named(disk, cache, directory, &name, schema).await
    }

    /// Opens an SSTable of any readable version, whoever wrote it. Small components are read and
    /// checked whole; data and index are checked page by page, or chunk by chunk, as they are read.
    /// A summary that is not in the table of contents is made from the index.
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
        let toc = read_file(&*disk, &name.path(directory, Component::Toc)).await?;
        let toc =
            String::from_utf8_lossy(&toc).lines().map(|line| line.trim().to_owned()).collect();
        Sstable::open_listed(disk, cache, (directory, name), schema, toc).await
    }

    /// As [`open_named`](Self::open_named), but an SSTable without table of contents is taken to have
    /// the files that are there: copies and old backups lack it.
    ///
    /// Errors: as there.
    pub async fn open_foreign(
        disk: Rc<dyn Disk>,
        cache: Rc<PageCache>,
        directory: &Path,
        name: &SstableName,
        schema: SchemaRef,
    ) -> Result<Rc<Self>> {
        match read_file(&*disk, &name.path(directory, Component::Toc)).await {
            Err(error) if error.is_missing_file() => {}
            _ => return Sstable::open_named(disk, cache, directory, name, schema).await,
        }
        let prefix = format!("{}-", name.prefix());
        let entries = disk.list(directory).await?.into_iter();
        let toc = entries.filter_map(|entry| Some(entry.name.strip_prefix(&prefix)?.to_owned()));
        let toc = toc.collect();
        Sstable::open_listed(disk, cache, (directory, name), schema, toc).await
    }

    /// Opens an SSTable that has the components of `toc`.
    async fn open_listed(
        disk: Rc<dyn Disk>,
        cache: Rc<PageCache>,
        (directory, name): (&Path, &SstableName),
        schema: SchemaRef,
        toc: Vec<String>,
    ) -> Result<Rc<Self>> {
        let version = name.version();
        let path = |component: Component| name.path(directory, component);
        let toc_path = path(Component::Toc);
        let has = |component: Component| toc.iter().any(|name| name == component.suffix());
        for needed in [Component::Data, Component::Index, Component::Statistics] {
            require(&toc, needed, &toc_path)?;
        }
        let mut integrity = None;
        if has(Component::Tidegate) {
            let path = path(Component::Tidegate);
            integrity = Some(Integrity::decode(&read_file(&*disk, &path).await?, &path)?);
        }
        let mut scylla = None;
        if has(Component::Scylla) {
            let path = path(Component::Scylla);
            let content = read_file(&*disk, &path).await?;
            if let Some(integrity) = &integrity {
                integrity.check(Component::Scylla, &path, &content)?;
            }
            let decoded = ScyllaMetadata::decode(&content);
            scylla = Some(Box::new(decoded.map_err(|fault| fault.into_error(&path, 0))?));
        }
        let read = async |component: Component| -> Result<Vec<u8>> {
            let path = name.path(directory, component);
            let content = read_file(&*disk, &path).await?;
            if let Some(integrity) = &integrity {
                integrity.check(component, &path, &content)?;
            }
            if let Some(scylla) = &scylla {
                scylla.check(component, &path, &content)?;
            }
            Ok(content)
        };
        let whole = |component: Component| {
            let path = path(component);
            move |fault: Fault| fault.into_error(&path, 0)
        };

        let content = read(Component::Statistics).await?;
        let (statistics, header) =
            statistics::decode_file(&content, version).map_err(whole(Component::Statistics))?;
        let layout = Rc::new(header.layout(&schema, &path(Component::Statistics))?);
        let mut filter = None;
        if has(Component::Filter) {
            let content = read(Component::Filter).await?;
            filter =
                Some(BloomFilter::decode(&content, version).map_err(whole(Component::Filter))?);
        }
        if has(Component::Digest) && integrity.is_some() {
            read(Component::Digest).await?;
        }
        let mut chunks = None;
        if has(Component::Crc) {
            let content = read(Component::Crc).await?;
            chunks = Some(decode_chunks(&content).map_err(whole(Component::Crc))?);
        }

        let (data_checks, index_checks, data_size, index_size) = match &integrity {
            Some(integrity) => (
                Checks::Pages(integrity.data.crcs.clone()),
                Checks::Pages(integrity.index.crcs.clone()),
                Some(integrity.data.size),
                Some(integrity.index.size),
            ),
            None => (
                chunks.map_or(Checks::None, |(bytes, crcs)| Checks::Chunks(bytes, crcs)),
                Checks::None,
                None,
                None,
            ),
        };
        let data_path = path(Component::Data);
        let stored = CheckedFile::open(
            &*disk,
            cache.clone(),
            (data_path, EntryKind::DataPage),
            data_size,
            data_checks,
        )
        .await?;
        let data_bytes = stored.size();
        let data = if has(Component::CompressionInfo) {
            let content = read(Component::CompressionInfo).await?;
            let path = path(Component::CompressionInfo);
            let info = CompressionInfo::decode(&content, version, data_bytes, &path)?;
            Content::Compressed(CompressedFile::new(stored, info))
        } else {
            Content::Plain(stored)
        };
        let pages = ParsedFile::new(cache.clone(), EntryKind::PartitionIndexPage, 0);
        let known = ParsedFile::new(cache.clone(), EntryKind::PartitionIndexPage, 0);
        let index_path = path(Component::Index);
        let index = CheckedFile::open(
            &*disk,
            cache,
            (index_path, EntryKind::IndexPage),
            index_size,
            index_checks,
        )
        .await?;
        let summary = if has(Component::Summary) {
            let content = read(Component::Summary).await?;
            Summary::decode(&content, index.size()).map_err(whole(Component::Summary))?
        } else {
            build_summary(&index).await?
        };
        let parses_left_out = Cell::new(0);
        let generation = name.generation();
        let info = match &integrity {
            Some(integrity) => SstableInfo::new(generation, &summary, &statistics, integrity),
            None => {
                let sizes = (data_bytes, index.size());
                SstableInfo::of_foreign(generation, &summary, &statistics, sizes)
            }
        };
        Ok(Rc::new(Sstable {
            info,
            scylla,
            layout,
            summary,
            filter,
            data,
            index,
            pages,
            known,
            parses_left_out,
        }))
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
    pub(super) fn cache_stats(&self) -> crate::cache::PageCacheStats {
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

    /// Reads the partitions in `range`, cut to `slice`, in the slice's direction. A single partition
    /// is read through the page cache; a range of tokens past it, in large pieces.
    pub fn read(self: &Rc<Self>, range: &PartitionRange, slice: &Slice) -> Box<dyn FragmentSource> {
        Box::new(SstableSource::new(self.clone(), (range, slice), Access::Cached, None))
    }

    /// As [`read`](Self::read), but a read that meets damage notes it and goes on where the index says
    /// that something readable begins: at the next block of the partition, or at the next partition.
    pub fn read_past_damage(
        self: &Rc<Self>,
        range: &PartitionRange,
        slice: &Slice,
        damage: Rc<DamageLog>,
    ) -> Box<dyn FragmentSource> {
        Box::new(SstableSource::new(self.clone(), (range, slice), Access::Cached, Some(damage)))
    }

    /// As [`read`](Self::read), without keeping the data of single partitions in the page cache.
    pub fn read_past_cache(
        self: &Rc<Self>,
        range: &PartitionRange,
        slice: &Slice,
    ) -> Box<dyn FragmentSource> {
        Box::new(SstableSource::new(self.clone(), (range, slice), Access::Scan, None))
    }

    /// As [`read`](Self::read) of a single partition, for a row cache that keeps its rows: of one that is
    /// short enough to be read whole the page cache keeps the pages when it is read for the second time. The
    /// caller has asked [`may_contain`](Self::may_contain).
    pub fn read_for_rows(
        self: &Rc<Self>,
        range: &PartitionRange,
        slice: &Slice,
    ) -> Box<dyn FragmentSource> {
        Box::new(SstableSource::new(self.clone(), (range, slice), Access::Rows, None))
    }
}

/// Reads a whole `CRC.db`: bytes that one checksum covers, and the checksums.
pub(super) fn decode_chunks(content: &[u8]) -> Parsed<(u64, Vec<u32>)> {
    let mut input = Input::new(content);
    let before = input.clone();
    let bytes = u64::from(input.u32()?);
    let sizes = PAGE_BYTES as u64..=SCAN_BYTES_MAX;
    if !bytes.is_power_of_two() || !sizes.contains(&bytes) {
        let wanted =
            format!("chunks of {} to {} bytes, a power of two", sizes.start(), sizes.end());
        return Err(before.bad(wanted, bytes));
    }
    let count = input.remaining() / 4;
    Ok((bytes, input.items(count, 4, |input| input.u32())?))
}

/// Samples an index anew.
async fn build_summary(index: &Rc<CheckedFile>) -> Result<Summary> {
    let mut window = Window::new(Content::Plain(index.clone()), Access::Scan);
    let mut builder = SummaryBuilder::default();
    let mut at = 0;
    let mut last: Option<PartitionKey> = None;
    while at < index.size() {
        let entry = read_entry(&mut window, at, u64::MAX).await?;
        if let Some(last) = last.filter(|last| *last >= entry.key) {
            let (wanted, found) = (format!("a key after {last:?}"), format!("{:?}", entry.key));
            return Err(Error::corrupt(index.path(), at, wanted, found));
        }
        builder.add(&entry.key, at);
        at = entry.next;
        last = Some(entry.key);
    }
    builder.finish().ok_or_else(|| Error::corrupt(index.path(), 0, "an entry", "an empty file"))
}
