//! The files of one SSTable, opened one by one as they are asked for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::metadata::Metadata;
use super::rows::{RowReader, StoredLayout};
use crate::cache::PageCache;
use crate::disk::{Disk, read_file};
use crate::error::{Error, Result};
use crate::policy::event::EntryKind;
use crate::sstable::data::compressed::CompressedFile;
use crate::sstable::data::file::{Access, CheckedFile, Checks};
use crate::sstable::data::window::{Content, Window};
use crate::sstable::format::component::{Component, SstableName};
use crate::sstable::format::compression_info::CompressionInfo;
use crate::sstable::format::scylla::ScyllaMetadata;

/// Everything here is read once and past the cache.
const CACHE_BYTES: usize = 1 << 20;

/// An SSTable to look into. Nothing but names is read when it is opened.
pub struct Inspector {
    pub(super) disk: Rc<dyn Disk>,
    cache: Rc<PageCache>,
    directory: PathBuf,
    name: SstableName,
    components: BTreeSet<Component>,
    /// Files of this SSTable whose component is not known.
    pub(super) others: Vec<String>,
}

/// Directory and name of the SSTable that the file at `path` is part of.
///
/// Errors: `Invalid` for other files and other versions.
pub fn locate(path: &Path) -> Result<(PathBuf, SstableName)> {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let name = SstableName::parse(&file)?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    Ok((directory, name))
}

/// SSTables in a directory by their data files, in the order of their names; an error for each that
/// is of a version that is not read.
///
/// Errors: `Io`.
pub async fn list(disk: &dyn Disk, directory: &Path) -> Result<Vec<(String, Result<SstableName>)>> {
    let suffix = format!("-{}", Component::Data.suffix());
    let entries = disk.list(directory).await?;
    let files = entries.into_iter().filter(|entry| !entry.is_directory);
    let data = files.filter(|entry| entry.name.ends_with(&suffix));
    let mut found: Vec<_> =
        data.map(|entry| (SstableName::parse(&entry.name), entry.name)).collect();
    // Numbers in their own order.
    found.sort_by_key(|(name, file)| {
        (name.as_ref().map_or(0, SstableName::generation), file.clone())
    });
    Ok(found.into_iter().map(|(name, file)| (file, name)).collect())
}

impl Inspector {
    /// Errors: `Io`; `NotFound` when the directory has no file of this name.
    pub async fn open(disk: Rc<dyn Disk>, directory: &Path, name: &SstableName) -> Result<Self> {
        let mut components = BTreeSet::new();
        let mut others = Vec::new();
        for entry in disk.list(directory).await?.into_iter().filter(|entry| !entry.is_directory) {
            if !SstableName::parse(&entry.name).is_ok_and(|other| other == *name) {
                continue;
            }
            match Component::of_file(&entry.name) {
                Some(component) => drop(components.insert(component)),
                None => others.push(entry.name),
            }
        }
        if components.is_empty() {
            let name = directory.join(name.prefix()).display().to_string();
            return Err(Error::NotFound { kind: "SSTable", name });
        }
        let cache = PageCache::new(CACHE_BYTES, 0);
        let (directory, name) = (directory.to_owned(), name.clone());
        Ok(Inspector { disk, cache, directory, name, components, others })
    }

    pub fn name(&self) -> &SstableName {
        &self.name
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether there is such a file.
    pub fn has(&self, component: Component) -> bool {
        self.components.contains(&component)
    }

    /// Components that are there.
    pub fn components(&self) -> impl Iterator<Item = Component> + '_ {
        self.components.iter().copied()
    }

    pub fn path(&self, component: Component) -> PathBuf {
        self.name.path(&self.directory, component)
    }

    /// Content of a small component.
    ///
    /// Errors: `Io`.
    pub(super) async fn read(&self, component: Component) -> Result<Vec<u8>> {
        read_file(&*self.disk, &self.path(component)).await
    }

    /// What `Statistics.db` says.
    ///
    /// Errors: `Io`, `Corrupt`.
    pub async fn metadata(&self) -> Result<Metadata> {
        let path = self.path(Component::Statistics);
        let content = self.read(Component::Statistics).await?;
        Metadata::decode(&content, self.name.version()).map_err(|fault| fault.into_error(&path, 0))
    }

    /// What `Scylla.db` says, if there is one.
    ///
    /// Errors: `Io`, `Corrupt`.
    pub async fn scylla(&self) -> Result<Option<ScyllaMetadata>> {
        if !self.has(Component::Scylla) {
            return Ok(None);
        }
        let path = self.path(Component::Scylla);
        let content = self.read(Component::Scylla).await?;
        ScyllaMetadata::decode(&content).map(Some).map_err(|fault| fault.into_error(&path, 0))
    }

    pub(super) async fn layout(&self, metadata: &Metadata) -> Result<Rc<StoredLayout>> {
        let path = self.path(Component::Statistics);
        StoredLayout::new(&metadata.header, &path).map(Rc::new)
    }

    /// The compression of the data, if it is compressed, of a data file of `file_bytes`.
    pub(super) async fn compression(&self, file_bytes: u64) -> Result<Option<CompressionInfo>> {
        if !self.has(Component::CompressionInfo) {
            return Ok(None);
        }
        let path = self.path(Component::CompressionInfo);
        let content = self.read(Component::CompressionInfo).await?;
        CompressionInfo::decode(&content, self.name.version(), file_bytes, &path).map(Some)
    }

    /// A file as it is stored, not checked.
    pub(super) async fn stored(&self, component: Component) -> Result<Rc<CheckedFile>> {
        let (path, cache) = (self.path(component), self.cache.clone());
        CheckedFile::open(&*self.disk, cache, (path, EntryKind::DataPage), None, Checks::None).await
    }

    /// The data as it was before compression; compressed chunks are checked.
    pub(super) async fn data(&self) -> Result<Content> {
        let stored = self.stored(Component::Data).await?;
        Ok(match self.compression(stored.size()).await? {
            Some(info) => Content::Compressed(CompressedFile::new(stored, info)),
            None => Content::Plain(stored),
        })
    }

    /// A reader at the start of the data.
    pub(super) async fn rows(&self, layout: Rc<StoredLayout>) -> Result<RowReader> {
        Ok(RowReader::new(Window::new(self.data().await?, Access::Scan), layout))
    }
}
