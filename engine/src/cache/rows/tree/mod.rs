//! A cached partition: versions over a tree of entries.
//!
//! Bottom-up: `place.rs` is the position of an entry, `heads.rs` compares keys without reading
//! them, `continuity.rs` holds what is known of the gaps of a leaf, `leaf.rs` lays entries out in
//! memory, and `btree.rs` makes a tree of leaves. `version.rs` gives all of it a meaning, `walk.rs`
//! and `ahead.rs` traverse it, `inspect.rs` shows it.
//!
//! Not here: the set of partitions, filling of gaps, and eviction.

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
