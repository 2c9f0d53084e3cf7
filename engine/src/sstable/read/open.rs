//! Opens an SSTable: reads and checks its small components, and rebuilds damaged or missing ones
//! from the others.
//!
//! ```text
//! damaged       instead
//! TOC           what Tidegate.db names, or the files that are there
//! Tidegate      the checksums of CRC.db, or those of compressed chunks; Summary and Filter made anew
//! Scylla        nothing: no read needs it
//! Digest, CRC   nothing: Tidegate.db has a checksum of every page
//! Summary       samples of the index
//! Filter        a filter of the keys of the index
//! Statistics    the header that Tidegate.db repeats; for one of ours the manifest has the numbers
//! ```
//! Data, Index and the map of compressed chunks are nowhere else: damage there stays an error.
//!
//! Invariant: [`Sstable::mended`] lists every component that was missing or damaged. Opening writes
//! nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::sstable::{Parts, Sstable};
use crate::cache::PageCache;
use crate::commitlog::ReplayPosition;
use crate::disk::{Disk, read_file};
use crate::error::{Error, Result};
use crate::policy::event::EntryKind;
use crate::schema::PartitionKey;
use crate::schema::table_schema::SchemaRef;
use crate::schema::token::murmur3_x64_128;
use crate::sstable::data::compressed::CompressedFile;
use crate::sstable::data::file::{Access, CheckedFile, Checks, decode_chunks};
use crate::sstable::data::window::{Content, Window};
use crate::sstable::format::coding::{Fault, Parsed};
use crate::sstable::format::component::{Component, SstableName};
use crate::sstable::format::compression_info::CompressionInfo;
use crate::sstable::format::info::SstableInfo;
use crate::sstable::format::integrity::Integrity;
use crate::sstable::format::layout::{Bases, Header};
use crate::sstable::format::scylla::ScyllaMetadata;
use crate::sstable::format::statistics::{self, PARTITIONER, Statistics};
use crate::sstable::index::filter::BloomFilter;
use crate::sstable::index::partition_index::read_entry;
use crate::sstable::index::summary::{Summary, SummaryBuilder};

/// Components without which there is no SSTable.
const NEEDED: [Component; 3] = [Component::Data, Component::Index, Component::Statistics];
/// Part of absent keys that a filter lets pass whose own chance is not known.
const FP_CHANCE_DEFAULT: f64 = 0.01;

/// Who vouches for an SSTable.
#[derive(Clone, Copy)]
enum Origin<'a> {
    /// A manifest of this engine, which may repeat what is known of the SSTable.
    Own(Option<&'a SstableInfo>),
    /// Its table of contents.
    Foreign,
    /// Nobody: copies and old backups may lack the table of contents.
    Loose,
}

/// What an SSTable is opened from.
struct Opening<'a> {
    disk: Rc<dyn Disk>,
    cache: Rc<PageCache>,
    directory: &'a Path,
    name: &'a SstableName,
    schema: SchemaRef,
    origin: Origin<'a>,
}

/// The components that there are, those of them that check others, and what was wrong so far.
struct Found<'a> {
    opening: Opening<'a>,
    components: BTreeSet<Component>,
    integrity: Option<Integrity>,
    scylla: Option<Box<ScyllaMetadata>>,
    mended: Vec<Error>,
}

/// What `Statistics.db` tells that reads need.
struct Told {
    header: Header,
    statistics: Option<Statistics>,
    fp_chance: Option<f64>,
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
}

/// Opens an SSTable.
///
/// Errors: `Io`, also when it has no table of contents; `Corrupt` for damage that nothing makes
/// good; `Invalid` when its columns are not those of the schema or when its codec is unknown;
/// `Unavailable` when a newer engine wrote it.
async fn open(opening: Opening<'_>) -> Result<Rc<Sstable>> {
    let mut found = Found {
        opening,
        components: BTreeSet::new(),
        integrity: None,
        scylla: None,
        mended: Vec::new(),
    };
    found.find_components().await?;
    found.read_scylla().await?;
    let told = found.read_statistics().await?;
    let layout = told.header.layout(&found.opening.schema, &found.path(Component::Statistics))?;
    let filter = found.read_filter().await?;
    // They are looked at to be told; Tidegate.db alone knows what the digest must be.
    if found.integrity.is_some() {
        found.optional(Component::Digest).await?;
    }
    let (data, data_bytes) = found.open_data().await?;
    let index_pages = found.integrity.as_ref().map(|integrity| &integrity.index);
    let (index_size, index_checks) = match index_pages {
        Some(pages) => (Some(pages.size), Checks::Pages(pages.crcs.clone())),
        None => (found.known().map(|info| info.index_bytes), Checks::None),
    };
    let index = found.open_file(Component::Index, index_size, index_checks).await?;
    let summary = found.read_summary(&index).await?;
    let (filter, summary) = match (filter, summary) {
        (filter, Some(summary)) if !filter.is_lost() => (filter.stored(), summary),
        (filter, summary) => {
            let chance = filter.is_lost().then(|| told.fp_chance.unwrap_or(FP_CHANCE_DEFAULT));
            let (built, keys) = build_from_index(&index, chance).await?;
            (keys.or_else(|| filter.stored()), summary.unwrap_or(built))
        }
    };
    let sizes = (data_bytes, index.size());
    let info = found.info(&summary, told.statistics.as_ref(), sizes);
    let statistics = told.statistics;
    let Found { opening, scylla, mended, .. } = found;
    let parts = Parts { info, statistics, scylla, layout, summary, filter, data, index, mended };
    Ok(Sstable::of_parts(opening.cache, parts))
}

/// What became of the bloom filter.
enum FoundFilter {
    Stored(BloomFilter),
    /// The writer made none.
    Absent,
    Lost,
}

impl FoundFilter {
    fn is_lost(&self) -> bool {
        matches!(self, FoundFilter::Lost)
    }

    fn stored(self) -> Option<BloomFilter> {
        match self {
            FoundFilter::Stored(filter) => Some(filter),
            FoundFilter::Absent | FoundFilter::Lost => None,
        }
    }
}

impl Found<'_> {
    fn path(&self, component: Component) -> PathBuf {
        self.opening.name.path(self.opening.directory, component)
    }

    fn has(&self, component: Component) -> bool {
        self.components.contains(&component)
    }

    fn is_own(&self) -> bool {
        matches!(self.opening.origin, Origin::Own(_))
    }

    /// What the manifest repeats.
    fn known(&self) -> Option<&SstableInfo> {
        match self.opening.origin {
            Origin::Own(known) => known,
            Origin::Foreign | Origin::Loose => None,
        }
    }

    /// Notes damage that can be done without; other errors stay errors.
    fn mend<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error @ Error::Corrupt(_)) => {
                self.mended.push(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The content of a component that there should be, checked as far as others know it; nothing,
    /// and a note, when it is damaged or missing.
    ///
    /// Errors: `Io`.
    async fn optional(&mut self, component: Component) -> Result<Option<Vec<u8>>> {
        if !self.has(component) {
            return Ok(None);
        }
        let content = self.read(component).await;
        self.mend(content)
    }

    /// As `optional`, decoded.
    async fn decoded<T>(
        &mut self,
        component: Component,
        decode: impl FnOnce(&[u8]) -> Parsed<T>,
    ) -> Result<Option<T>> {
        let Some(content) = self.optional(component).await? else { return Ok(None) };
        let path = self.path(component);
        self.mend(decode(&content).map_err(|fault| fault.into_error(&path, 0)))
    }

    /// Errors: `Io`; `Corrupt` also when it is missing.
    async fn read(&self, component: Component) -> Result<Vec<u8>> {
        let path = self.path(component);
        let content = read_file(&*self.opening.disk, &path).await.map_err(|error| {
            match error.is_missing_file() {
                true => Error::corrupt(&path, 0, "a file", "none"),
                false => error,
            }
        })?;
        if let Some(integrity) = &self.integrity {
            integrity.check(component, &path, &content)?;
        }
        if let Some(scylla) = &self.scylla {
            scylla.check(component, &path, &content)?;
        }
        Ok(content)
    }

    /// Finds out which components there are, and reads `Tidegate.db` on the way.
    async fn find_components(&mut self) -> Result<()> {
        let toc_path = self.path(Component::Toc);
        let toc = match read_file(&*self.opening.disk, &toc_path).await {
            Ok(toc) => Some(toc),
            Err(error) if error.is_missing_file() => match self.opening.origin {
                Origin::Foreign => return Err(error),
                Origin::Loose => None,
                // The manifest names none that was not whole.
                Origin::Own(_) => {
                    self.mended.push(Error::corrupt(&toc_path, 0, "a file", "none"));
                    None
                }
            },
            Err(error) => return Err(error),
        };
        self.components = match toc {
            Some(toc) => self.listed(&toc, &toc_path).await?,
            None => self.there().await?,
        };
        if self.is_own() {
            self.components.insert(Component::Tidegate);
        }
        if let Some(content) = self.optional(Component::Tidegate).await? {
            let decoded = Integrity::decode(&content, &self.path(Component::Tidegate));
            self.integrity = self.mend(decoded)?;
        }
        if let Some(integrity) = &self.integrity {
            let wanted = integrity.components();
            let is_other = wanted != self.components;
            self.components = wanted;
            let is_told = self.mended.iter().any(|error| is_of(error, &toc_path));
            if is_other && !is_told {
                let wanted = "the names of all files of the SSTable";
                self.mended.push(Error::corrupt(&toc_path, 0, wanted, "other names"));
            }
        }
        match NEEDED.into_iter().find(|needed| !self.has(*needed)) {
            None => Ok(()),
            Some(needed) => {
                let wanted = format!("a line '{}'", needed.suffix());
                Err(Error::corrupt(&toc_path, 0, wanted, "none"))
            }
        }
    }

    /// The components that a table of contents lists; those of which there are files, too, where it
    /// names files that there are not, or lacks what must be there.
    async fn listed(&mut self, toc: &[u8], path: &Path) -> Result<BTreeSet<Component>> {
        let text = String::from_utf8_lossy(toc);
        let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
        let component = |line: &str| Component::ALL.into_iter().find(|c| c.suffix() == line);
        let mut listed: BTreeSet<Component> = lines().filter_map(component).collect();
        let unknown: Vec<&str> = lines().filter(|line| component(line).is_none()).collect();
        let lacks_needed = NEEDED.iter().any(|needed| !listed.contains(needed));
        if unknown.is_empty() && !lacks_needed {
            return Ok(listed);
        }
        let files = self.files().await?;
        // Other products have files of their own.
        let absent = unknown.iter().find(|line| !files.iter().any(|file| file == *line));
        let there = components_of(&files);
        if absent.is_some() || !there.is_subset(&listed) && lacks_needed {
            let found = match absent {
                Some(line) => format!("'{}', which is none of them", line.escape_default()),
                None => "fewer".to_owned(),
            };
            let wanted = "the names of all files of the SSTable";
            self.mended.push(Error::corrupt(path, 0, wanted, found));
            listed.extend(there);
        }
        Ok(listed)
    }

    /// Components of which there are files.
    async fn there(&self) -> Result<BTreeSet<Component>> {
        Ok(components_of(&self.files().await?))
    }

    /// Ends of the names of all its files.
    async fn files(&self) -> Result<Vec<String>> {
        let prefix = format!("{}-", self.opening.name.prefix());
        let entries = self.opening.disk.list(self.opening.directory).await?.into_iter();
        Ok(entries.filter_map(|entry| Some(entry.name.strip_prefix(&prefix)?.to_owned())).collect())
    }

    async fn read_scylla(&mut self) -> Result<()> {
        let scylla = self.decoded(Component::Scylla, ScyllaMetadata::decode).await?;
        self.scylla = scylla.map(Box::new);
        Ok(())
    }

    /// Errors: `Corrupt` when the serialization header is lost and nothing else tells it.
    async fn read_statistics(&mut self) -> Result<Told> {
        let version = self.opening.name.version();
        let path = self.path(Component::Statistics);
        let at_path = |fault: Fault| fault.into_error(&path, 0);
        let content = match self.read(Component::Statistics).await {
            Ok(content) => content,
            Err(error @ Error::Corrupt(_)) => return self.told_elsewhere(error),
            Err(error) => return Err(error),
        };
        let header = match statistics::decode_header(&content, version).map_err(at_path) {
            Ok(header) => header,
            Err(error) => return self.told_elsewhere(error),
        };
        let statistics = statistics::decode_statistics(&content, version).map_err(at_path);
        let statistics = self.mend(statistics)?;
        let validation = statistics::decode_validation(&content, version).map_err(at_path);
        let validation = self.mend(validation)?;
        // Under another one keys stand in another order.
        if let Some((partitioner, _)) = validation.as_ref().filter(|(name, _)| name != PARTITIONER)
        {
            return Err(Error::corrupt(&path, 0, PARTITIONER, partitioner));
        }
        Ok(Told { header, statistics, fp_chance: validation.map(|(_, chance)| chance) })
    }

    /// The header of an SSTable whose `Statistics.db` is lost to `error`.
    fn told_elsewhere(&mut self, error: Error) -> Result<Told> {
        let header = match &self.integrity {
            Some(integrity) => match &integrity.header {
                Some(header) => Some(header.clone()),
                // Of a time when files of ours had the columns of the schema and these bases.
                None if self.is_own() => {
                    Some(Header::of_schema(&self.opening.schema, Bases::default()))
                }
                None => None,
            },
            None => None,
        };
        let Some(header) = header else { return Err(without_header(error)) };
        self.mended.push(error);
        Ok(Told { header, statistics: None, fp_chance: None })
    }

    async fn read_filter(&mut self) -> Result<FoundFilter> {
        if !self.has(Component::Filter) {
            return Ok(FoundFilter::Absent);
        }
        let version = self.opening.name.version();
        let decode = |content: &[u8]| BloomFilter::decode(content, version);
        let filter = self.decoded(Component::Filter, decode).await?;
        let filter = filter.filter(|_| self.is_checked());
        Ok(filter.map_or(FoundFilter::Lost, FoundFilter::Stored))
    }

    async fn read_summary(&mut self, index: &CheckedFile) -> Result<Option<Summary>> {
        let index_bytes = index.size();
        let decode = |content: &[u8]| Summary::decode(content, index_bytes);
        let summary = self.decoded(Component::Summary, decode).await?;
        Ok(summary.filter(|_| self.is_checked()))
    }

    /// Whether small components were held against checksums, as far as there should be any: of one
    /// of ours without `Tidegate.db` a damaged filter would hide rows.
    fn is_checked(&self) -> bool {
        !self.is_own() || self.integrity.is_some()
    }

    async fn open_file(
        &self,
        component: Component,
        size: Option<u64>,
        checks: Checks,
    ) -> Result<Rc<CheckedFile>> {
        let kind = match component {
            Component::Index => EntryKind::IndexPage,
            _ => EntryKind::DataPage,
        };
        let (disk, cache) = (&*self.opening.disk, self.opening.cache.clone());
        CheckedFile::open(disk, cache, (self.path(component), kind), size, checks).await
    }

    /// The data, and the bytes of its file.
    async fn open_data(&mut self) -> Result<(Content, u64)> {
        let chunks = self.decoded(Component::Crc, decode_chunks).await?;
        let pages = self.integrity.as_ref().map(|integrity| integrity.data.clone());
        let (size, checks) = match pages {
            Some(pages) => (Some(pages.size), Checks::Pages(pages.crcs)),
            None => {
                let size = self.known().map(|info| info.data_bytes);
                (size, self.covering(size, chunks).await?)
            }
        };
        let stored = self.open_file(Component::Data, size, checks).await?;
        let bytes = stored.size();
        if !self.has(Component::CompressionInfo) {
            return Ok((Content::Plain(stored), bytes));
        }
        let content = self.read(Component::CompressionInfo).await?;
        let (path, version) = (self.path(Component::CompressionInfo), self.opening.name.version());
        let info = CompressionInfo::decode(&content, version, bytes, &path)?;
        Ok((Content::Compressed(CompressedFile::new(stored, info)), bytes))
    }

    /// The checksums of `CRC.db`, if they cover the data.
    async fn covering(
        &mut self,
        size: Option<u64>,
        chunks: Option<(u64, Vec<u32>)>,
    ) -> Result<Checks> {
        let Some((bytes, crcs)) = chunks else { return Ok(Checks::None) };
        let data = self.open_file(Component::Data, size, Checks::None).await?;
        let wanted = data.size().div_ceil(bytes);
        if crcs.len() as u64 >= wanted {
            return Ok(Checks::Chunks(bytes, crcs));
        }
        let path = self.path(Component::Crc);
        self.mended.push(Error::corrupt(path, 4, format!("{wanted} checksums"), crcs.len()));
        Ok(Checks::None)
    }

    fn info(
        &self,
        summary: &Summary,
        statistics: Option<&Statistics>,
        sizes: (u64, u64),
    ) -> SstableInfo {
        let generation = self.opening.name.generation();
        let keys = (&summary.first, &summary.last);
        match (&self.integrity, statistics, self.known()) {
            (Some(integrity), Some(statistics), _) => {
                SstableInfo::new(generation, keys, statistics, integrity)
            }
            (None, Some(statistics), _) => {
                SstableInfo::of_foreign(generation, keys, statistics, sizes)
            }
            (_, None, Some(known)) => known.clone(),
            (integrity, None, None) => {
                SstableInfo::without_statistics(generation, keys, integrity.as_ref(), sizes)
            }
        }
    }
}

/// Commitlog positions of the first and last write that an SSTable of this host has, from its
/// `Statistics.db`; `None` where that does not tell them or cannot be read.
pub async fn stated_positions(
    disk: &dyn Disk,
    statistics: &Path,
) -> Option<(ReplayPosition, ReplayPosition)> {
    let name = SstableName::parse(statistics.file_name()?.to_str()?).ok()?;
    let content = read_file(disk, statistics).await.ok()?;
    statistics::decode_statistics(&content, name.version()).ok()?.replay
}

fn components_of(files: &[String]) -> BTreeSet<Component> {
    let is_there = |component: &Component| files.iter().any(|file| file == component.suffix());
    Component::ALL.into_iter().filter(is_there).collect()
}

/// Whether damage is of this file.
fn is_of(error: &Error, path: &Path) -> bool {
    matches!(error, Error::Corrupt(corruption) if corruption.file == path)
}

/// The error of a `Statistics.db` that says more than what is wrong in it.
fn without_header(error: Error) -> Error {
    let Error::Corrupt(mut corruption) = error else { return error };
    if corruption.remedy.is_empty() {
        corruption.remedy = "it says how rows are laid out, which no other file tells: \
                             restore it from a copy"
            .to_owned();
    }
    Error::Corrupt(corruption)
}

/// Samples an index anew, and makes a bloom filter of its keys where a chance is given.
///
/// Errors: `Io`; `Corrupt` for damage of the index.
async fn build_from_index(
    index: &Rc<CheckedFile>,
    fp_chance: Option<f64>,
) -> Result<(Summary, Option<BloomFilter>)> {
    let mut window = Window::new(Content::Plain(index.clone()), Access::Scan);
    let mut builder = SummaryBuilder::default();
    let mut hashes = Vec::new();
    let mut at = 0;
    let mut last: Option<PartitionKey> = None;
    while at < index.size() {
        let entry = read_entry(&mut window, at, u64::MAX).await?;
        if let Some(last) = last.filter(|last| *last >= entry.key) {
            let (wanted, found) = (format!("a key after {last:?}"), format!("{:?}", entry.key));
            return Err(Error::corrupt(index.path(), at, wanted, found));
        }
        builder.add(&entry.key, at);
        if fp_chance.is_some() {
            hashes.push(murmur3_x64_128(entry.key.as_bytes()));
        }
        at = entry.next;
        last = Some(entry.key);
        crate::runtime::maybe_yield().await;
    }
    let filter = fp_chance.map(|chance| {
        let mut filter = BloomFilter::new(hashes.len() as u64, chance);
        hashes.into_iter().for_each(|hashes| filter.add(hashes));
        filter
    });
    let empty = || Error::corrupt(index.path(), 0, "an entry", "an empty file");
    Ok((builder.finish().ok_or_else(empty)?, filter))
}
