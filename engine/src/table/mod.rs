//! One table of one shard: memtables, SSTables and what moves data from the one to the other.

mod attached;
mod compact;
mod compacting;
mod exchange;
mod flush;
mod large_data;
mod fragments;
mod open;
mod point;
mod read;
mod resharding;
mod snapshot;
mod state;
mod table;
mod tombstones;
#[cfg(test)]
mod tests;

pub use attached::AttachedOpening;
pub use compact::{Compacted, SstableStatus};
pub use compacting::CompactionOrder;
pub use fragments::{FragmentKind, FragmentReport};
pub use large_data::LargeThing;
pub use open::{Cleared, Reached, SetAside, TableOpening, clear_leftovers};
pub use point::{PointQuery, Progress};
pub use read::{Partitions, ReadCommand, Sent, Told};
pub use resharding::Handovers;
pub use snapshot::Linked;
pub use table::{Table, TableStats};
pub use tombstones::{ManyTombstones, TombstoneLimits, TombstonePage};
