//! Shows what a version knows to people.

use super::version::{Stop, Version};
use crate::mutation::{Position, Tombstone, Weight};

/// What a row cache knows of one partition, in natural order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CachedPartition {
    pub deletion: Option<Tombstone>,
    pub has_static_row: bool,
    pub entries: Vec<CachedEntry>,
}

/// An entry of a cached partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedEntry {
    pub position: Position,
    /// Timestamp of the newest thing in the row; `None` where there is no row.
    pub newest: Option<i64>,
    /// The range tombstone in force at the entry, and before it where that is known.
    pub tombstone: Option<Tombstone>,
    /// Whether everything between the entry before and this one is known.
    pub is_known_before: bool,
}

impl Version {
    /// Of up to `max` gaps, how many are known, and how many there were.
    pub fn continuity(&self, max: usize) -> (u64, u64) {
        let tree = self.tree.borrow();
        let (mut known, mut seen) = (0, 0);
        // Before an entry at the start there is no gap.
        let is_start =
            |stop: &Stop<'_>| stop.place.prefix.is_empty() && stop.place.weight == Weight::Before;
        for stop in self.stops(&tree).skip_while(is_start).take(max) {
            known += u64::from(stop.claim.is_known_before);
            seen += 1;
        }
        (known, seen)
    }

    /// Up to `max` entries, for people to look at.
    pub fn inspect(&self, max: usize) -> CachedPartition {
        let tree = self.tree.borrow();
        let entries = self.stops(&tree).take(max).map(|stop| CachedEntry {
            position: stop.place.position(),
            newest: stop.row().and_then(|flat| flat.thaw().newest_timestamp()),
            tombstone: stop.claim.tombstone,
            is_known_before: stop.claim.is_known_before,
        });
        let entries = entries.collect();
        CachedPartition {
            deletion: self.deletion(),
            has_static_row: self.static_row().is_some(),
            entries,
        }
    }
}
