//! Ranges of clustering positions that a read or a range deletion asks for.

use super::position::{Position, Weight};
use crate::schema::ClusteringKey;

/// Everything between two positions. Bounds never stand `At` a key, so inclusive and exclusive
/// ends are just positions before or after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusteringRange {
    pub start: Position,
    pub end: Position,
}

impl ClusteringRange {
    /// The whole partition.
    pub fn full() -> Self {
        ClusteringRange { start: Position::start(), end: Position::end() }
    }

    /// All rows whose key starts with `prefix`; a full key gives one row.
    pub fn prefix(prefix: ClusteringKey) -> Self {
        ClusteringRange { start: Position::before(prefix.clone()), end: Position::after(prefix) }
    }

    /// The prefix that makes this range, where one does, as [`prefix`](Self::prefix) would: the
    /// empty one makes the whole partition.
    #[inline]
    pub fn as_prefix(&self) -> Option<&ClusteringKey> {
        let (start, end) = (&self.start, &self.end);
        let is_prefix = (start.weight, end.weight) == (Weight::Before, Weight::After)
            && start.prefix == end.prefix;
        is_prefix.then_some(&start.prefix)
    }

    /// Whether the row `key` lies inside.
    pub fn contains(&self, key: &ClusteringKey) -> bool {
        self.start.cmp_key(key).is_lt() && self.end.cmp_key(key).is_gt()
    }

    /// Whether nothing can lie inside.
    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }
}
