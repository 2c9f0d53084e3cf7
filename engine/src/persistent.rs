//! Ordered maps that are copied in constant time and share what the copies have in common: how a
//! reader keeps one instant of a partition while writers go on.
//!
//! A map that has no copy is changed in place; one that has copies its path to the change. Source:
//! B+ trees with counted nodes, as the crate `imbl` builds them.

/// What looks a key up without being one.
pub use equivalent::{Comparable, Equivalent};

/// A map of one thread.
pub type Map<K, V> = imbl::GenericOrdMap<K, V, imbl::shared_ptr::RcK>;
