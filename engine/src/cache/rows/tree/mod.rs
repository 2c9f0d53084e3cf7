//! What is known of one partition: versions over a tree of entries.
//!
//! From below: `place.rs` says where an entry stands, `heads.rs` how keys are told apart without a
//! look at them, `continuity.rs` what is known of the gaps of a leaf, `leaf.rs` how entries lie in
//! memory and `btree.rs` how leaves make a tree. `version.rs` gives all that its meaning, `walk.rs`
//! and `ahead.rs` go along it, `inspect.rs` shows it.
//!
//! Not here: which partitions there are, what fills a gap, and who leaves.

mod ahead;
mod btree;
mod continuity;
mod heads;
mod inspect;
mod leaf;
mod place;
mod version;
mod walk;

pub(super) use ahead::Ahead;
pub use inspect::{CachedEntry, CachedPartition};
pub(in crate::cache) use place::PlaceRef;
pub(super) use place::are_same;
pub(super) use version::{AtRow, NO_SLOT, Version};
pub(super) use walk::{Known, Out, PASSED_AT_ONCE_MAX, Step, Walk, sought};
