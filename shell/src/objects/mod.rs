//! Snapshots in object storage: S3 and what speaks its protocol, Google Cloud Storage, Azure, and
//! folders.
//!
//! ```text
//! PREFIX/<path in the snapshot>    each of its files
//! PREFIX/SNAPSHOT                  which they are, with lengths and BLAKE3 digests; comes last
//! ```
//! | file | holds |
//! |---|---|
//! | `place` | where that is, by its URL |
//! | `list` | the object `SNAPSHOT` |
//! | `send` | a snapshot to a place |
//! | `fetch` | a data directory from a place |
//!
//! Invariant: a place without the list holds no snapshot, so what was cut short is taken for none.
//! No file is restored whose length or digest is another than the list says.

mod fetch;
mod list;
mod place;
mod send;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use fetch::part_of;
pub(crate) use place::Place;

/// Files that are on their way at once.
const AT_ONCE: usize = 4;
/// Bytes of a file that are read and hashed at once.
const PIECE_BYTES: usize = 1 << 20;

/// What was sent or restored so far, and what there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pub files: u64,
    pub bytes: u64,
    pub bytes_max: u64,
}

/// Is told how far it came.
pub(crate) type Tell<'a> = &'a (dyn Fn(Moved) + Send + Sync);

/// Counts what files that are on their way side by side have moved, and tells it.
struct Meter<'a> {
    tell: Tell<'a>,
    files: AtomicU64,
    bytes: AtomicU64,
    bytes_max: u64,
}

impl<'a> Meter<'a> {
    fn new(bytes_max: u64, tell: Tell<'a>) -> Self {
        Meter { tell, files: AtomicU64::new(0), bytes: AtomicU64::new(0), bytes_max }
    }

    /// So many bytes more.
    fn add(&self, bytes: u64) {
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let (files, bytes_max) = (self.files.load(Ordering::Relaxed), self.bytes_max);
        (self.tell)(Moved { files, bytes, bytes_max });
    }

    /// A file is whole.
    fn end_file(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }
}

/// What went wrong with a file or folder of this machine, in words.
fn on_disk(path: &Path, error: impl fmt::Display) -> String {
    format!("{}: {error}", path.display())
}
