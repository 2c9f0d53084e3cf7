//! One table of one shard: memtables, SSTables and what moves data from the one to the other.

mod attached;
mod compact;
mod compacting;
mod exchange;
mod flush;
mod large_data;
mod fragments;
mod open;
mod read;
mod resharding;
mod snapshot;
mod state;
mod table;
#[cfg(test)]
mod tests;

pub use attached::AttachedOpening;
pub use compact::{Compacted, SstableStatus};
pub use compacting::CompactionOrder;
pub use fragments::{FragmentKind, FragmentReport};
pub use large_data::LargeThing;
pub use open::{Cleared, Reached, SetAside, TableOpening, clear_leftovers};
pub use read::{
    ManyTombstones, Partitions, PointQuery, Progress, ReadCommand, Reading, Sent, Told,
    TombstoneLimits, TombstonePage, Whole,
};
pub use resharding::Handovers;
pub use snapshot::Linked;
pub use table::{Table, TableStats};
