//! The commitlog: every write of a shard, on disk before it is acknowledged.
//!
//! ```text
//! directory := CommitLog-2-<id>.log ...           one per segment, ids only increase
//! segment   := header block, chunk ..., end block, unused blocks
//! chunk     := blocks written by one disk write; whole records, padded with zeros
//! block     := 4080 bytes of payload, u64 segment, u32 stable, u32 crc          4096 bytes
//!              (the top bit of the segment: a chunk starts here)
//! record    := u32 size, u32 crc of size, a mutation (`mutation::codec`)        big endian
//! ```
//! A block is written once and never again, so an acknowledged record cannot be torn later. Every
//! block says up to which offset the segment was `stable` when the block was formed. That tells a
//! torn tail from damage: behind the first block that is not this segment's, a valid one that
//! vouches for the missing place proves that an acknowledged write is gone (`Corrupt`); without
//! one, nothing there was ever acknowledged, and the log ends. Blocks of an earlier life of a
//! recycled file carry a foreign segment id and count as unwritten.
//!
//! In mode `Sync` chunks are direct writes with O_DSYNC into segments that were filled with zeros
//! (or recycled), so no flush waits for the file system's journal, and several are in flight at a
//! time while the next chunk forms; acknowledgements go out in order. Measured on a virtual disk:
//! one flush at a time took 4 ms for each of write+fdatasync, O_DSYNC, zeroed or only reserved;
//! with eight in flight O_DSYNC into zeros reached 22,000 flushes a second, into reserved space
//! 15,000, write+fdatasync through the page cache 10,000.
//!
//! Segments do not overlap: the first chunk of one is written when the one before is stable and
//! has its end block. So what replay finds is a prefix of what was appended. A header says which
//! segment was before and where it ended, and the shard's ledger (`crate::ledger`) which segments
//! there are: one that is missing, cut or empty is damage like any other. What damage may have cost
//! is told to the caller, segment by segment; the rest is handed out. `Recovery::SkipDamagedLog`
//! goes on behind damaged blocks as well, at the next block where a chunk starts.

mod block;
mod chunk;
mod flush;
mod log;
mod position;
mod prepare;
mod receipt;
mod records;
mod replay;
mod salvage;
mod segment;
#[cfg(test)]
mod tests;

pub use log::{Commitlog, CommitlogOptions, CommitlogStats, Durability, Durable};
pub use position::ReplayPosition;
pub use records::{Damaged, ReplaySummary};
pub use replay::{Recovery, Replay, remove_segments};
pub use segment::id_of;
