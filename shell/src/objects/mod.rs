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
