//! The disk as plain system calls on a small pool of threads, where io_uring is not permitted.
//!
//! Invariant: the shard's own thread makes no call that may wait for the device. A dropped future
//! does not stop a call that has begun: the pool's closure owns descriptor and buffer.

use std::future::Future;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use futures::future::LocalBoxFuture;

use super::tasks::{Around, run_tasks};
use super::transfer::{after_read, after_write, assert_aligned};
use super::{Access, AlignedBuffer, DirectoryEntry, Disk, DiskFile, OpenOptions};
use crate::error::{Error, Result};
use crate::os;

/// Threads of one shard's pool: enough to keep a device's queue busy, few enough to be cheap.
const POOL_THREADS_MAX: usize = 16;

/// Runs a future on the calling thread, with a pool for the disk, until it is done. Local tasks
/// that are left are dropped then.
pub fn run<F: Future>(make: impl FnOnce(Rc<dyn Disk>) -> F) -> io::Result<F::Output> {
    run_within(Rc::new(|poll| poll()), make)
}

/// As [`run`]; the future and its local tasks are polled, and those that are left are dropped,
/// within calls of `around`.
pub fn run_within<F: Future>(
    around: Rc<Around>,
    make: impl FnOnce(Rc<dyn Disk>) -> F,
) -> io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(POOL_THREADS_MAX)
        .build()?;
    let all = run_tasks(around, async move { make(Rc::new(BlockingDisk::new())).await });
    Ok(runtime.block_on(all))
}

/// A disk whose operations run on the pool of the surrounding tokio runtime.
#[derive(Debug, Default)]
pub struct BlockingDisk;

impl BlockingDisk {
    pub fn new() -> Self {
        BlockingDisk
    }
}

/// Runs `work` on the pool. A panic there is a panic here.
pub(super) async fn on_pool<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(error) => panic!("the pool went away under a running task: {error}"),
    }
}

/// Runs a call on one path on the pool.
pub(super) async fn on_path<R: Send + 'static>(
    operation: &'static str,
    path: &Path,
    call: impl FnOnce(&Path) -> io::Result<R> + Send + 'static,
) -> Result<R> {
    let owned = path.to_owned();
    let result = on_pool(move || call(&owned)).await;
    result.map_err(|error| Error::io(operation, path, &error))
}

/// Lists a directory on the pool.
pub(super) async fn list(path: &Path) -> Result<Vec<DirectoryEntry>> {
    let names = on_path("list", path, os::list).await?;
    let entry = |(name, is_directory)| DirectoryEntry { name, is_directory };
    Ok(names.into_iter().map(entry).collect())
}

/// Opens with direct I/O, or without where the file system has none.
fn open(path: &Path, options: OpenOptions) -> io::Result<OwnedFd> {
    let write = options.access != Access::Read;
    let create = options.access == Access::Create;
    let flags = if options.data_sync { os::O_DSYNC } else { 0 };
    match os::open_file(path, write, create, create, flags | os::O_DIRECT) {
        Err(error) if error.raw_os_error() == Some(os::EINVAL) => {
            super::warn_not_direct(path);
            // The refused call may have made the file, and then an exclusive one would fail. A
            // file that was there before was refused with EEXIST.
            os::open_file(path, write, create, false, flags)
        }
        result => result,
    }
}

impl Disk for BlockingDisk {
    fn open<'a>(
        &'a self,
        path: &'a Path,
        options: OpenOptions,
    ) -> LocalBoxFuture<'a, Result<Rc<dyn DiskFile>>> {
        Box::pin(async move {
            let file = on_path("open", path, move |path| open(path, options)).await?;
            let file = BlockingFile { file: Arc::new(file), path: path.to_owned() };
            Ok(Rc::new(file) as Rc<dyn DiskFile>)
        })
    }

    fn create_directories<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(on_path("create directory", path, os::create_directories))
    }

    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        let to = to.to_owned();
        Box::pin(on_path("rename", from, move |from| os::rename(from, &to)))
    }

    fn link<'a>(&'a self, from: &'a Path, to: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        let to = to.to_owned();
        Box::pin(on_path("link", from, move |from| os::link(from, &to)))
    }

    fn remove<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(on_path("remove", path, os::remove_file))
    }

    fn remove_directory<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(on_path("remove directory", path, os::remove_directory))
    }

    fn sync_directory<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(on_path("sync directory", path, os::sync_directory))
    }

    fn list<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<Vec<DirectoryEntry>>> {
        Box::pin(list(path))
    }
}

struct BlockingFile {
    file: Arc<OwnedFd>,
    path: PathBuf,
}

impl BlockingFile {
    /// Runs a call on this file on the pool.
    async fn call<R: Send + 'static>(
        &self,
        operation: &'static str,
        call: impl FnOnce(&OwnedFd) -> io::Result<R> + Send + 'static,
    ) -> Result<R> {
        let file = self.file.clone();
        let result = on_pool(move || call(&file)).await;
        result.map_err(|error| Error::io(operation, &self.path, &error))
    }
}

fn read_fully(file: &OwnedFd, offset: u64, buffer: &mut AlignedBuffer) -> io::Result<()> {
    let wanted = buffer.capacity();
    buffer.set_len(wanted);
    let mut done = 0;
    loop {
        let result = os::read_at(file, offset + done as u64, &mut buffer[done..]);
        match after_read(done, wanted, result) {
            Ok(ControlFlow::Continue(next)) => done = next,
            Ok(ControlFlow::Break(read)) => {
                buffer.set_len(read);
                return Ok(());
            }
            Err(error) => {
                buffer.set_len(0);
                return Err(error);
            }
        }
    }
}

fn write_fully(file: &OwnedFd, offset: u64, buffer: &AlignedBuffer) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        let result = os::write_at(file, offset + done as u64, &buffer[done..]);
        done = after_write(done, buffer.len(), result)?;
    }
    Ok(())
}

impl DiskFile for BlockingFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn size(&self) -> LocalBoxFuture<'_, Result<u64>> {
        let size = os::file_size(&*self.file).map_err(|e| Error::io("stat", &self.path, &e));
        Box::pin(async move { size })
    }

    fn read_at(
        &self,
        offset: u64,
        mut buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        assert_aligned(offset, buffer.capacity());
        let file = self.file.clone();
        Box::pin(async move {
            let (result, buffer) = on_pool(move || {
                let result = read_fully(&file, offset, &mut buffer);
                (result, buffer)
            })
            .await;
            (result.map_err(|error| Error::io("read", &self.path, &error)), buffer)
        })
    }

    fn write_at(
        &self,
        offset: u64,
        buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        assert_aligned(offset, buffer.len());
        let file = self.file.clone();
        Box::pin(async move {
            let (result, buffer) = on_pool(move || {
                let result = write_fully(&file, offset, &buffer);
                (result, buffer)
            })
            .await;
            (result.map_err(|error| Error::io("write", &self.path, &error)), buffer)
        })
    }

    fn sync(&self) -> LocalBoxFuture<'_, Result<()>> {
        Box::pin(self.call("sync", |file| os::sync_data(file)))
    }

    fn allocate(&self, bytes: u64) -> LocalBoxFuture<'_, Result<()>> {
        Box::pin(self.call("allocate", move |file| os::allocate(file, bytes)))
    }

    fn truncate(&self, bytes: u64) -> LocalBoxFuture<'_, Result<()>> {
        Box::pin(self.call("truncate", move |file| os::truncate(file, bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::conformance;

    #[test]
    fn the_pool_behaves_as_every_disk() {
        let directory = tempfile::tempdir().unwrap();
        run(|disk| conformance::run(disk, directory.path())).unwrap();
    }

    #[test]
    fn a_file_system_without_direct_io_is_read_through_the_page_cache() {
        run(conformance::reads_without_direct_io).unwrap();
    }
}
