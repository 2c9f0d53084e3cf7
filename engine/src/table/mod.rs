//! One table of one shard: memtables, SSTables and what moves data from the one to the other.

mod read;
mod table;

pub use read::{Partitions, ReadCommand};
pub use table::{Table, TableStats};
