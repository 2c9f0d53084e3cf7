//! The disk behind one trait: direct I/O on files that own their buffers until done.
//!
//! Three backends give the same answers (`conformance.rs` is one body of tests for all): `uring.rs`
//! (io_uring), `blocking.rs` (a pool of threads) and `simulated/` (seeded faults). Offsets and
//! lengths of writes are multiples of [`PAGE_BYTES`](crate::config::PAGE_BYTES); the true size of a
//! file is set by [`DiskFile::truncate`].

mod backend;
mod blocking;
mod buffer;
#[cfg(test)]
pub(crate) mod conformance;
mod files;
mod open_files;
mod simulated;
mod tasks;
mod transfer;
mod uring;

use std::path::Path;
use std::rc::Rc;
use std::sync::Once;

use futures::future::LocalBoxFuture;

use crate::error::Result;
pub use backend::{Backend, run, run_within};
pub use blocking::BlockingDisk;
pub use buffer::{AlignedBuffer, buffer_bytes};
pub use files::{make_durable, read_file, remove_if_there, remove_tree, write_file_atomically};
pub use open_files::{OpenFiles, OpenFilesStats, Sleep};
pub use simulated::{Counters, Faults, SimulatedDisk};
pub use uring::UringDisk;

/// Says once that files of a file system are not opened for direct I/O.
fn warn_not_direct(path: &Path) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        tracing::warn!(path = %path.display(), "no direct I/O here; files go through the page cache");
    });
}
/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Existing file, reading only.
    Read,
    /// Existing file, reading and writing.
    ReadWrite,
    /// New file, reading and writing; an existing one is an error.
    Create,
}

/// Options of [`Disk::open`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenOptions {
    pub access: Access,
    /// Each completed write is on stable storage (O_DSYNC); no `sync` is needed for the data.
    pub data_sync: bool,
}

impl OpenOptions {
    pub const READ: OpenOptions = OpenOptions { access: Access::Read, data_sync: false };
    pub const CREATE: OpenOptions = OpenOptions { access: Access::Create, data_sync: false };
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    pub name: String,
    pub is_directory: bool,
}

/// A shard's way to the file system. Not `Send`: each shard has its own.
pub trait Disk {
    /// Opens a file. Errors: `Io`; a missing file has code ENOENT.
    fn open<'a>(
        &'a self,
        path: &'a Path,
        options: OpenOptions,
    ) -> LocalBoxFuture<'a, Result<Rc<dyn DiskFile>>>;

    /// Creates a directory and its parents. Existing ones are no error. Durable only after
    /// `sync_directory` of each parent.
    fn create_directories<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>>;

    /// Renames a file, replacing `to`. Durable only after `sync_directory`.
    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> LocalBoxFuture<'a, Result<()>>;

    /// Gives a file a second name, on the same file system. Durable only after `sync_directory`.
    /// Errors: `Io`; EEXIST when `to` is there, EXDEV for another file system.
    fn link<'a>(&'a self, from: &'a Path, to: &'a Path) -> LocalBoxFuture<'a, Result<()>>;

    /// Removes a file. Durable only after `sync_directory`.
    fn remove<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>>;

    /// Removes an empty directory.
    fn remove_directory<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>>;

    /// Makes creations, renames and removals in this directory durable.
    fn sync_directory<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>>;

    /// Names in a directory, sorted; empty when the directory does not exist.
    fn list<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<Vec<DirectoryEntry>>>;
}

/// An open file. Closed when dropped. Operations of one file may run at the same time. Of one whose
/// future is dropped before its end nobody knows whether it happens: whole, in part or not at all.
pub trait DiskFile {
    fn path(&self) -> &Path;

    /// Size in bytes.
    fn size(&self) -> LocalBoxFuture<'_, Result<u64>>;

    /// Reads up to `buffer.capacity()` bytes at `offset` (a multiple of the page size) and sets the
    /// buffer's length to what was read: less only at the end of the file.
    fn read_at(
        &self,
        offset: u64,
        buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)>;

    /// Writes the whole buffer, whose length must be a multiple of the page size, at `offset`, a
    /// multiple too. After an error any part may have been written.
    fn write_at(
        &self,
        offset: u64,
        buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)>;

    /// Makes all completed writes and the size durable (fdatasync). After an error nothing is known
    /// about what is durable; never call it again to find out.
    fn sync(&self) -> LocalBoxFuture<'_, Result<()>>;

    /// Reserves `bytes` of disk from the start of the file and extends its size to that; new bytes
    /// read as zero.
    fn allocate(&self, bytes: u64) -> LocalBoxFuture<'_, Result<()>>;

    /// Sets the size.
    fn truncate(&self, bytes: u64) -> LocalBoxFuture<'_, Result<()>>;

    /// Holds on to the descriptor from now on, so that the file can be read when its name is gone.
    ///
    /// Errors: `Io` where it had none at the moment and gets none.
    fn keep_open(&self) -> LocalBoxFuture<'_, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
