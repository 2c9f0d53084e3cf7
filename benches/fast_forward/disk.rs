//! A disk that counts the reads of the disk below it, by component of the SSTable.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use futures::future::LocalBoxFuture;
use tidegate_engine::Result;
use tidegate_engine::disk::{AlignedBuffer, DirectoryEntry, Disk, DiskFile, OpenOptions};

/// Reads of one kind of file.
#[derive(Clone, Copy, Default, PartialEq)]
pub struct Reads {
    pub count: u64,
    pub bytes: u64,
}

/// Reads of the files that a lookup may touch.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    pub index: Reads,
    pub data: Reads,
}

impl Counts {
    pub fn count(&self) -> u64 {
        self.index.count + self.data.count
    }

    pub fn bytes(&self) -> u64 {
        self.index.bytes + self.data.bytes
    }
}

/// See the head of this file.
pub struct CountingDisk {
    below: Rc<dyn Disk>,
    counts: Rc<Cell<Counts>>,
}

struct CountingFile {
    below: Rc<dyn DiskFile>,
    counts: Rc<Cell<Counts>>,
}

impl CountingDisk {
    pub fn new(below: Rc<dyn Disk>) -> Rc<Self> {
        Rc::new(CountingDisk { below, counts: Rc::default() })
    }

    /// Reads since the last call.
    pub fn take(&self) -> Counts {
        self.counts.take()
    }
}

impl Disk for CountingDisk {
    fn open<'a>(
        &'a self,
        path: &'a Path,
        options: OpenOptions,
    ) -> LocalBoxFuture<'a, Result<Rc<dyn DiskFile>>> {
        Box::pin(async move {
            let below = self.below.open(path, options).await?;
            let counts = self.counts.clone();
            Ok(Rc::new(CountingFile { below, counts }) as Rc<dyn DiskFile>)
        })
    }

    fn create_directories<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.below.create_directories(path)
    }

    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.below.rename(from, to)
    }

    fn link<'a>(&'a self, from: &'a Path, to: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.below.link(from, to)
    }

    fn remove<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.below.remove(path)
    }

    fn remove_directory<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.below.remove_directory(path)
    }

    fn sync_directory<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.below.sync_directory(path)
    }

    fn list<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<Vec<DirectoryEntry>>> {
        self.below.list(path)
    }
}

impl DiskFile for CountingFile {
    fn path(&self) -> &Path {
        self.below.path()
    }

    fn size(&self) -> LocalBoxFuture<'_, Result<u64>> {
        self.below.size()
    }

    fn read_at(
        &self,
        offset: u64,
        buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        let name = self.path().to_string_lossy();
        let (is_data, is_index) = (name.ends_with("-Data.db"), name.ends_with("-Index.db"));
        let mut counts = self.counts.get();
        let reads = if is_data { &mut counts.data } else { &mut counts.index };
        if is_data || is_index {
            reads.count += 1;
            reads.bytes += buffer.capacity() as u64;
            self.counts.set(counts);
        }
        self.below.read_at(offset, buffer)
    }

    fn write_at(
        &self,
        offset: u64,
        buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        self.below.write_at(offset, buffer)
    }

    fn sync(&self) -> LocalBoxFuture<'_, Result<()>> {
        self.below.sync()
    }

    fn allocate(&self, bytes: u64) -> LocalBoxFuture<'_, Result<()>> {
        self.below.allocate(bytes)
    }

    fn truncate(&self, bytes: u64) -> LocalBoxFuture<'_, Result<()>> {
        self.below.truncate(bytes)
    }
}
