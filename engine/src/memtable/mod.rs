//! Writes that are not in an SSTable yet, sorted.
//!
//! Not here: the order in which memtables and SSTables are merged (`reader/`), when a memtable is
//! sealed and flushed (`table/`).

mod memtable;
mod partition;
mod source;

pub use memtable::{Memtable, MemtableStats, PendingWrite};
