//! A disk whose reads, writes and syncs wait for their turn.
//!
//! Requests that are longer than the disk takes at once go in pieces, which wait one by one. What
//! only touches names and sizes is passed on. A request that is given up while it waits is never
//! made, writes as well as reads: a disk promises nothing of what nobody waits for. Requests are
//! polled on the shard's own thread only.

use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use futures::future::{LocalBoxFuture, join_all};

use super::class::Class;
use super::model::Kind;
use super::queue::IoQueue;
use crate::disk::{AlignedBuffer, DirectoryEntry, Disk, DiskFile, OpenOptions};
use crate::error::Result;
use crate::lent::on_own_thread;
use crate::probe::{self, DiskRead};

/// See the head of this file.
pub struct ScheduledDisk {
    disk: Rc<dyn Disk>,
    queue: Rc<IoQueue>,
    /// That of all requests; none: that of the task.
    class: Option<Class>,
}

impl ScheduledDisk {
    /// Puts a queue before a disk. Requests belong to `class`, or to the class of the task that
    /// makes them.
    pub fn new(disk: Rc<dyn Disk>, queue: Rc<IoQueue>, class: Option<Class>) -> Rc<Self> {
        Rc::new(ScheduledDisk { disk, queue, class })
    }
}

impl Disk for ScheduledDisk {
    fn open<'a>(
        &'a self,
        path: &'a Path,
        options: OpenOptions,
    ) -> LocalBoxFuture<'a, Result<Rc<dyn DiskFile>>> {
        on_own_thread(async move {
            let file = self.disk.open(path, options).await?;
            let (queue, class) = (self.queue.clone(), self.class);
            Ok(Rc::new(ScheduledFile { file, queue, class }) as Rc<dyn DiskFile>)
        })
    }

    fn create_directories<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        on_own_thread(async move { self.disk.create_directories(path).await })
    }

    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        on_own_thread(async move { self.disk.rename(from, to).await })
    }

    fn link<'a>(&'a self, from: &'a Path, to: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        on_own_thread(async move { self.disk.link(from, to).await })
    }

    fn remove<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        on_own_thread(async move { self.disk.remove(path).await })
    }

    fn remove_directory<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        on_own_thread(async move { self.disk.remove_directory(path).await })
    }

    fn sync_directory<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        on_own_thread(async move { self.disk.sync_directory(path).await })
    }

    fn list<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<Vec<DirectoryEntry>>> {
        on_own_thread(async move { self.disk.list(path).await })
    }
}

struct ScheduledFile {
    file: Rc<dyn DiskFile>,
    queue: Rc<IoQueue>,
    class: Option<Class>,
}

impl ScheduledFile {
    fn class(&self) -> Class {
        self.class.unwrap_or_else(Class::current)
    }

    /// The pieces of a request of so many bytes.
    fn pieces(&self, kind: Kind, class: Class, bytes: usize) -> Vec<Range<usize>> {
        let piece = self.queue.scheduler().model().piece_bytes_max(kind);
        self.queue.note_split(class);
        (0..bytes).step_by(piece).map(|start| start..bytes.min(start + piece)).collect()
    }

    fn is_whole(&self, kind: Kind, bytes: usize) -> bool {
        bytes <= self.queue.scheduler().model().piece_bytes_max(kind)
    }

    /// Waits for its turn and reads up to so many bytes at `offset`.
    async fn read_once(
        &self,
        class: Class,
        (offset, bytes): (u64, usize),
        buffer: AlignedBuffer,
    ) -> (Result<()>, AlignedBuffer) {
        // Later others may poll the request.
        let probe = probe::current();
        let running = self.queue.admit(class, Kind::Read, bytes).await;
        let (result, buffer) = self.file.read_at(offset, buffer).await;
        if let Some(probe) = probe {
            let (queued_ns, disk_ns) = running.times_ns();
            let (file, bytes, class) = (self.file.path(), buffer.len(), class.name());
            probe.disk_read(&DiskRead { file, class, offset, bytes, queued_ns, disk_ns });
        }
        (result, buffer)
    }

    async fn read_in_pieces(
        &self,
        class: Class,
        offset: u64,
        mut buffer: AlignedBuffer,
    ) -> (Result<()>, AlignedBuffer) {
        let pieces = self.pieces(Kind::Read, class, buffer.capacity());
        let reads = pieces.into_iter().map(|piece| async move {
            let part = AlignedBuffer::for_reading(piece.len());
            let (start, bytes) = (offset + piece.start as u64, piece.len());
            let (result, part) = self.read_once(class, (start, bytes), part).await;
            (piece, result.map(|()| part))
        });
        buffer.set_len(0);
        for (piece, part) in join_all(reads).await {
            match part {
                Err(error) => {
                    buffer.set_len(0);
                    return (Err(error), buffer);
                }
                Ok(part) => {
                    buffer.extend(&part);
                    if part.len() < piece.len() {
                        break;
                    }
                }
            }
        }
        (Ok(()), buffer)
    }

    async fn write_in_pieces(&self, class: Class, offset: u64, buffer: &[u8]) -> Result<()> {
        let pieces = self.pieces(Kind::Write, class, buffer.len());
        let writes = pieces.into_iter().map(|piece| async move {
            let _running = self.queue.admit(class, Kind::Write, piece.len()).await;
            let start = piece.start as u64;
            let mut part = AlignedBuffer::for_reading(piece.len());
            part.extend(&buffer[piece]);
            self.file.write_at(offset + start, part).await.0
        });
        join_all(writes).await.into_iter().collect()
    }
}

impl DiskFile for ScheduledFile {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn size(&self) -> LocalBoxFuture<'_, Result<u64>> {
        on_own_thread(async move { self.file.size().await })
    }

    fn read_at(
        &self,
        offset: u64,
        buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        on_own_thread(async move {
            let (class, bytes) = (self.class(), buffer.capacity());
            if !self.is_whole(Kind::Read, bytes) {
                return self.read_in_pieces(class, offset, buffer).await;
            }
            self.read_once(class, (offset, bytes), buffer).await
        })
    }

    fn write_at(
        &self,
        offset: u64,
        buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        on_own_thread(async move {
            let (class, bytes) = (self.class(), buffer.len());
            if !self.is_whole(Kind::Write, bytes) {
                return (self.write_in_pieces(class, offset, &buffer).await, buffer);
            }
            let _running = self.queue.admit(class, Kind::Write, bytes).await;
            self.file.write_at(offset, buffer).await
        })
    }

    fn sync(&self) -> LocalBoxFuture<'_, Result<()>> {
        on_own_thread(async move {
            let _running = self.queue.admit(self.class(), Kind::Write, 0).await;
            self.file.sync().await
        })
    }

    fn allocate(&self, bytes: u64) -> LocalBoxFuture<'_, Result<()>> {
        on_own_thread(async move { self.file.allocate(bytes).await })
    }

    fn truncate(&self, bytes: u64) -> LocalBoxFuture<'_, Result<()>> {
        on_own_thread(async move { self.file.truncate(bytes).await })
    }

    fn keep_open(&self) -> LocalBoxFuture<'_, Result<()>> {
        on_own_thread(async move { self.file.keep_open().await })
    }
}
