//! SSTables: immutable files of sorted partitions, in Cassandra's big format.
//!
//! ```text
//!  Summary.db (memory)       Index.db                            Data.db
//! +--------------------+    +------------------------------+    +-----------------------------+
//! | key 0    -> 0      |--->| key 0, position, (none)      |--->| key, deletion, [static row] |
//! | key 128  -> 4711   |-+  | key 1, position, promoted  --|-+  |   row                       |
//! | ...                | |  |   block 0 first last offset  | |  |   marker: tombstone opens   |
//! +--------------------+ |  |   block 1 first last offset  | +->|   row   <- a block starts   |
//!  Filter.db (memory)    |  |   offsets of the blocks      |    |   marker: tombstone closes  |
//!  bits of all keys      |  | ...                          |    |   end                       |
//!                        +->| key 128, position, ...       |    | key, deletion, ...          |
//!                           +------------------------------+    +-----------------------------+
//!  Statistics.db  column names, types, delta bases, extents      CRC.db, Digest.crc32  checksums
//!  Tidegate.db    checksum of every page of Data and Index       TOC.txt  written last
//!  Scylla.db      what is large: greatest sizes, counts above the thresholds, the largest by key
//!  CompressionInfo.db  codec and chunks, where Data.db is compressed: positions then count
//!                      uncompressed bytes, and `compressed` turns chunks into them
//! ```
//!
//! A point read asks the filter, then the summary, reads one page of the index and, in a wide
//! partition, a few blocks of its promoted index, then the blocks of data that the slice needs.
//!
//! Invariants: an SSTable never changes; one without table of contents does not exist; the live
//! ones are those that a [`manifest`] names; and every byte that is read was checked when the file
//! has checksums: all of them with `Tidegate.db`, the data with `CRC.db` alone or where it is
//! compressed. Files that have none are read unchecked, and damage shows only where bytes become
//! impossible.
//!
//! `me` is what is written, compressed where the table says so. `mc`, `md` and `nb` are read too,
//! compressed or not, whoever wrote them. A column that the table lacks is stepped over; one of
//! another type than the table's is refused by name.
//!
//! Imports run one way, and `tests/tidy.rs` holds them to it:
//!
//! ```text
//! format <- data <- index <- read, write <- set
//! ```
//!
//! Not here: merging several SSTables and choosing which (`compaction`), looking into files of any
//! table (`inspect`).

pub(crate) mod format;
pub(crate) mod data;
pub(crate) mod index;
mod read;
mod write;
mod set;
#[cfg(test)]
pub(crate) mod tests;

pub use format::component::{Component, SstableName, Version, generation_of};
pub use format::info::SstableInfo;
pub use format::layout::Bases;
pub use format::scylla::{
    LargeData, LargeKind, LargeRecord, ScyllaColumn, ScyllaMetadata, ScyllaSchema, TokenBound,
};
pub use format::type_name::{cql_type, marshal_name, partition_key_types};
pub use index::filter::HashedKey;
pub use read::{Damage, DamageLog, HeldMemory, Part, ReadPlan, Sstable, overlap, stated_positions};
pub use set::{LOST, clear_unnamed, manifest};
pub use write::{ORIGIN_COMPACTION, SstableWriter, WriterOptions, link_files, remove_files};
