//! The disk through io_uring, by tokio-uring; the only module that names that crate.
//!
//! Invariant: the kernel owns a buffer from submission to completion. A future dropped in between
//! leaves the buffer with the ring, which frees it when the kernel is done. A ring that goes would
//! free them at once (tokio-uring's driver forgets what it cancels), so [`run`] waits until the
//! kernel has given back every buffer.
//!
//! What the ring cannot do here runs on tokio's pool: `ftruncate` (a ring operation only since
//! 6.9, unknown to tokio-uring), listing (no ring operation exists) and `mkdir -p` (a chain of
//! calls that happens a few times in the life of a table). `fstat` of an open file is answered
//! from memory and called directly.
//!
//! Submissions go to the kernel a few at a time, and when the shard's thread is about to
//! sleep. A task that keeps the thread busy must let it come to that point: `runtime/preempt.rs`
//! says how.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::OnceLock;

use futures::future::LocalBoxFuture;
use tokio_uring::buf::{BoundedBuf, IoBuf, IoBufMut};

use super::blocking::{list, on_path, on_pool};
use super::tasks::{Around, run_beside};
use super::transfer::{after_read, after_write, assert_aligned};
use super::{Access, AlignedBuffer, DirectoryEntry, Disk, DiskFile, OpenOptions};
use crate::error::{Error, Result};
use crate::os::{self, RingSupport};

/// Submissions that fit the ring. A full ring goes to the kernel with the next submission, so this
/// is no maximum: of a long round of tasks the disk has the first requests while the others are
/// still made.
const RING_ENTRIES: u32 = 4;
/// Completions that fit before the kernel must keep them aside.
const RING_COMPLETIONS: u32 = 4096;

/// What the kernel offers, or why it offers nothing. Asked once a process.
pub fn support() -> &'static Result<RingSupport, String> {
    static SUPPORT: OnceLock<Result<RingSupport, String>> = OnceLock::new();
    SUPPORT.get_or_init(os::probe_io_uring)
}

/// Runs a future on the calling thread, with a ring of its own, until it is done. Local tasks that
/// are left are dropped then.
///
/// Errors: the ring cannot be made.
pub fn run<F: Future>(make: impl FnOnce(Rc<dyn Disk>) -> F) -> io::Result<F::Output> {
    make_runtime()?.block_on(until_given_back(make))
}

/// As [`run`]; the future and its local tasks are polled, and those that are left are dropped,
/// within calls of `around`.
///
/// Errors: as `run`.
pub fn run_within<F>(
    around: Rc<Around>,
    make: impl FnOnce(Rc<dyn Disk>) -> F + 'static,
) -> io::Result<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    make_runtime()?.block_on(run_beside(around, until_given_back(make)))
}

fn make_runtime() -> io::Result<tokio_uring::Runtime> {
    let support = support().as_ref().map_err(|reason| io::Error::other(reason.as_str()))?;
    let mut ring = tokio_uring::uring_builder();
    ring.setup_cqsize(RING_COMPLETIONS);
    if support.cooperative {
        ring.setup_coop_taskrun();
    }
    if support.single_issuer {
        ring.setup_single_issuer();
    }
    let mut builder = tokio_uring::builder();
    builder.entries(RING_ENTRIES).uring_builder(&ring);
    tokio_uring::Runtime::new(&builder)
}

/// Runs a future with a disk on the surrounding ring, and waits for the buffers that the kernel
/// still has at its end.
async fn until_given_back<F: Future>(
    make: impl FnOnce(Rc<dyn Disk>) -> F,
) -> io::Result<F::Output> {
    let lent = Rc::new(Lent::default());
    let output = make(Rc::new(UringDisk { lent: lent.clone() })).await;
    lent.drain().await?;
    Ok(output)
}

/// A disk on the ring of the surrounding tokio-uring runtime.
#[derive(Debug)]
pub struct UringDisk {
    lent: Rc<Lent>,
}

/// Buffers that the kernel may be writing to or reading from.
#[derive(Debug, Default)]
struct Lent {
    count: Cell<usize>,
    /// No more are lent.
    is_closing: Cell<bool>,
}

impl Lent {
    /// Waits until all are back. Reads and writes that come meanwhile are refused.
    async fn drain(&self) -> io::Result<()> {
        self.is_closing.set(true);
        while self.count.get() > 0 {
            // Lets the ring and the tasks that are left go on.
            tokio_uring::no_op().await?;
        }
        Ok(())
    }
}

/// One buffer that is lent: given back when it is dropped, by whoever has it then.
#[derive(Debug)]
struct Loan(Rc<Lent>);

impl Loan {
    /// Errors: the ring is about to go.
    fn new(lent: &Rc<Lent>) -> io::Result<Loan> {
        if lent.is_closing.get() {
            return Err(io::Error::from_raw_os_error(os::ECANCELED));
        }
        lent.count.set(lent.count.get() + 1);
        Ok(Loan(lent.clone()))
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
    }
}

/// A buffer in the form that tokio-uring hands to the kernel. Fields are dropped in this order.
struct RingBuffer(AlignedBuffer, #[expect(dead_code, reason = "held until it is dropped")] Loan);

// SAFETY: the memory is on the heap and stays put when the buffer moves; `AlignedBuffer` frees it
// only when dropped, and all of it is initialised.
#[expect(unsafe_code, reason = "tokio-uring's promise of a stable address")]
unsafe impl IoBuf for RingBuffer {
    fn stable_ptr(&self) -> *const u8 {
        self.0.as_ptr()
    }

    fn bytes_init(&self) -> usize {
        self.0.len()
    }

    fn bytes_total(&self) -> usize {
        self.0.capacity()
    }
}

// SAFETY: as above; `&mut self` excludes other views of the memory.
#[expect(unsafe_code, reason = "tokio-uring's promise of a stable address")]
unsafe impl IoBufMut for RingBuffer {
    fn stable_mut_ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr()
    }

    unsafe fn set_init(&mut self, length: usize) {
        if self.0.len() < length {
            self.0.set_len(length);
        }
    }
}

async fn open(path: &Path, options: OpenOptions) -> io::Result<tokio_uring::fs::File> {
    let mut open = tokio_uring::fs::OpenOptions::new();
    open.read(true).write(options.access != Access::Read).mode(0o644);
    open.create_new(options.access == Access::Create);
    let flags = if options.data_sync { os::O_DSYNC } else { 0 };
    open.custom_flags(flags | os::O_DIRECT);
    match open.open(path).await {
        Err(error) if error.raw_os_error() == Some(os::EINVAL) => {
            super::warn_not_direct(path);
            // The refused call may have made the file, and then an exclusive one would fail. A
            // file that was there before was refused with EEXIST.
            open.create_new(false).create(options.access == Access::Create);
            open.custom_flags(flags).open(path).await
        }
        result => result,
    }
}

async fn sync_directory(path: &Path) -> io::Result<()> {
    let mut open = tokio_uring::fs::OpenOptions::new();
    let directory = open.read(true).custom_flags(os::O_DIRECTORY).open(path).await?;
    directory.sync_all().await
}

impl Disk for UringDisk {
    fn open<'a>(
        &'a self,
        path: &'a Path,
        options: OpenOptions,
    ) -> LocalBoxFuture<'a, Result<Rc<dyn DiskFile>>> {
        Box::pin(async move {
            let file = open(path, options).await.map_err(|e| Error::io("open", path, &e))?;
            let (path, lent) = (path.to_owned(), self.lent.clone());
            Ok(Rc::new(UringFile { file, path, lent }) as Rc<dyn DiskFile>)
        })
    }

    fn create_directories<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(on_path("create directory", path, os::create_directories))
    }

    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let result = tokio_uring::fs::rename(from, to).await;
            result.map_err(|error| Error::io("rename", from, &error))
        })
    }

    fn link<'a>(&'a self, from: &'a Path, to: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        let to = to.to_owned();
        Box::pin(on_path("link", from, move |from| os::link(from, &to)))
    }

    fn remove<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let result = tokio_uring::fs::remove_file(path).await;
            result.map_err(|error| Error::io("remove", path, &error))
        })
    }

    fn remove_directory<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let result = tokio_uring::fs::remove_dir(path).await;
            result.map_err(|error| Error::io("remove directory", path, &error))
        })
    }

    fn sync_directory<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let result = sync_directory(path).await;
            result.map_err(|error| Error::io("sync directory", path, &error))
        })
    }

    fn list<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<Vec<DirectoryEntry>>> {
        Box::pin(list(path))
    }
}

struct UringFile {
    file: tokio_uring::fs::File,
    path: PathBuf,
    lent: Rc<Lent>,
}

impl UringFile {
    #[expect(unsafe_code, reason = "tokio-uring's file lends only a raw descriptor")]
    fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: `self.file` keeps the descriptor open for as long as `self` is borrowed: it is
        // closed only by `close`, which takes the file and is not called, or by its drop.
        unsafe { BorrowedFd::borrow_raw(self.file.as_raw_fd()) }
    }

    fn error(&self, operation: &'static str, error: &io::Error) -> Error {
        Error::io(operation, &self.path, error)
    }

    /// Runs a call on this file on the pool, which gets a descriptor of its own.
    async fn call_on_pool(
        &self,
        operation: &'static str,
        call: impl FnOnce(&std::os::fd::OwnedFd) -> io::Result<()> + Send + 'static,
    ) -> Result<()> {
        let file = os::duplicate(self.descriptor()).map_err(|e| self.error(operation, &e))?;
        on_pool(move || call(&file)).await.map_err(|e| self.error(operation, &e))
    }

    async fn read_fully(&self, offset: u64, buffer: AlignedBuffer) -> (Result<()>, AlignedBuffer) {
        let wanted = buffer.capacity();
        let loan = match Loan::new(&self.lent) {
            Ok(loan) => loan,
            Err(error) => return (Err(self.error("read", &error)), buffer),
        };
        let mut buffer = RingBuffer(buffer, loan);
        buffer.0.set_len(0);
        let mut done = 0;
        loop {
            let rest = buffer.slice(done..wanted);
            let (result, rest) = self.file.read_at(rest, offset + done as u64).await;
            buffer = rest.into_inner();
            match after_read(done, wanted, result) {
                Ok(ControlFlow::Continue(next)) => done = next,
                Ok(ControlFlow::Break(read)) => {
                    buffer.0.set_len(read);
                    return (Ok(()), buffer.0);
                }
                Err(error) => {
                    buffer.0.set_len(0);
                    return (Err(self.error("read", &error)), buffer.0);
                }
            }
        }
    }

    async fn write_fully(&self, offset: u64, buffer: AlignedBuffer) -> (Result<()>, AlignedBuffer) {
        let length = buffer.len();
        let loan = match Loan::new(&self.lent) {
            Ok(loan) => loan,
            Err(error) => return (Err(self.error("write", &error)), buffer),
        };
        let mut buffer = RingBuffer(buffer, loan);
        let mut done = 0;
        while done < length {
            let rest = buffer.slice(done..length);
            let (result, rest) = self.file.write_at(rest, offset + done as u64).submit().await;
            buffer = rest.into_inner();
            match after_write(done, length, result) {
                Ok(next) => done = next,
                Err(error) => return (Err(self.error("write", &error)), buffer.0),
            }
        }
        (Ok(()), buffer.0)
    }
}

impl DiskFile for UringFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn size(&self) -> LocalBoxFuture<'_, Result<u64>> {
        let size = os::file_size(self.descriptor()).map_err(|e| self.error("stat", &e));
        Box::pin(async move { size })
    }

    fn read_at(
        &self,
        offset: u64,
        buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        assert_aligned(offset, buffer.capacity());
        Box::pin(self.read_fully(offset, buffer))
    }

    fn write_at(
        &self,
        offset: u64,
        buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        assert_aligned(offset, buffer.len());
        Box::pin(self.write_fully(offset, buffer))
    }

    fn sync(&self) -> LocalBoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let result = self.file.sync_data().await;
            result.map_err(|error| self.error("sync", &error))
        })
    }

    fn allocate(&self, bytes: u64) -> LocalBoxFuture<'_, Result<()>> {
        Box::pin(async move {
            if bytes == 0 {
                return Ok(());
            }
            match self.file.fallocate(0, bytes, 0).await {
                Err(error) if error.raw_os_error() == Some(os::EOPNOTSUPP) => {
                    self.call_on_pool("allocate", move |file| os::allocate(file, bytes)).await
                }
                result => result.map_err(|error| self.error("allocate", &error)),
            }
        })
    }

    fn truncate(&self, bytes: u64) -> LocalBoxFuture<'_, Result<()>> {
        Box::pin(self.call_on_pool("truncate", move |file| os::truncate(file, bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::conformance;
    use crate::skip::skip;

    /// Where io_uring is denied the ring cannot be tested; that is said, not hidden.
    fn permitted() -> bool {
        support().as_ref().inspect_err(|reason| skip("io_uring", reason)).is_ok()
    }

    #[test]
    fn the_ring_behaves_as_every_disk() {
        if permitted() {
            let directory = tempfile::tempdir().unwrap();
            run(|disk| conformance::run(disk, directory.path())).unwrap();
        }
    }

    #[test]
    fn a_file_system_without_direct_io_is_read_through_the_page_cache() {
        if permitted() {
            run(conformance::reads_without_direct_io).unwrap();
        }
    }

    #[test]
    fn a_ring_that_goes_waits_for_the_buffers_that_the_kernel_has() {
        if !permitted() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let (closes, closing) = std::sync::mpsc::channel();
        let is_written = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (told, writes_to) = (is_written.clone(), path.clone());
        // A read of an empty pipe is with the kernel until somebody writes.
        let writer = std::thread::Builder::new().name("writer".into());
        let writer = writer.spawn(move || {
            closing.recv().unwrap();
            told.store(true, std::sync::atomic::Ordering::SeqCst);
            std::fs::write(&writes_to, [7; 4096]).unwrap();
        });
        let writer = writer.unwrap();
        run(|disk| async move {
            let options = OpenOptions { access: Access::ReadWrite, data_sync: false };
            let pipe = disk.open(&path, options).await.unwrap();
            let mut abandoned = pipe.read_at(0, AlignedBuffer::with_capacity(4096));
            assert!(futures::poll!(&mut abandoned).is_pending());
            drop(abandoned);
            let held = pipe.clone();
            // It comes when the ring is closing, and is refused.
            tokio::task::spawn_local(async move {
                loop {
                    let buffer = AlignedBuffer::with_capacity(4096);
                    if held.read_at(0, buffer).await.0.is_err() {
                        return;
                    }
                }
            });
            closes.send(()).unwrap();
        })
        .unwrap();
        let was_written = is_written.load(std::sync::atomic::Ordering::SeqCst);
        assert!(was_written, "the ring went while the kernel had a buffer");
        writer.join().unwrap();
    }

    #[test]
    fn files_and_operations_left_behind_do_no_harm_when_the_ring_goes() {
        if permitted() {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("file");
            let file = run(|disk| async move {
                let file = disk.open(&path, OpenOptions::CREATE).await.unwrap();
                let mut pending = file.write_at(0, AlignedBuffer::padded(b"left behind"));
                let _ = futures::poll!(&mut pending);
                drop(pending);
                let task_file = file.clone();
                tokio::task::spawn_local(async move {
                    let _ = task_file.read_at(0, AlignedBuffer::with_capacity(1)).await;
                });
                tokio::task::yield_now().await;
                file
            })
            .unwrap();
            drop(file);
        }
    }
}
