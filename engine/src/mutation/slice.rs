//! Ranges of clustering positions that a read or a range deletion asks for.

use super::direction::Direction;
use super::position::{Position, Weight};
use crate::schema::{ClusteringKey, PartitionKey, Token};

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

/// Which partitions a read visits, in ring order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionRange {
    /// One partition.
    Single(PartitionKey),
    /// All partitions whose token lies between two tokens, both included.
    Tokens { min: Token, max: Token },
}

impl PartitionRange {
    /// The whole ring.
    pub fn full() -> Self {
        PartitionRange::Tokens { min: Token::MIN, max: Token::MAX }
    }

    pub fn contains(&self, key: &PartitionKey) -> bool {
        match self {
            PartitionRange::Single(wanted) => wanted == key,
            PartitionRange::Tokens { min, max } => (*min..=*max).contains(&key.token()),
        }
    }
}

/// Which rows of each partition a read returns, and in which direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// In natural order, disjoint, none empty: the result of [`normalise`].
    pub ranges: Vec<ClusteringRange>,
    pub direction: Direction,
}

impl Slice {
    /// Every row, in one direction.
    pub fn full(direction: Direction) -> Self {
        Slice { ranges: vec![ClusteringRange::full()], direction }
    }
}

/// Sorts ranges by start and joins those that overlap or touch; drops empty ones.
pub fn normalise(mut ranges: Vec<ClusteringRange>) -> Vec<ClusteringRange> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by(|a, b| a.start.cmp(&b.start));
    let mut joined: Vec<ClusteringRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => {
                if range.end > last.end {
                    last.end = range.end;
                }
            }
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_ranges_are_joined() {
        let range = |start: &[u8], end: &[u8]| ClusteringRange {
            start: Position::before(ClusteringKey::from_ordered(start)),
            end: Position::after(ClusteringKey::from_ordered(end)),
        };
        let joined = normalise(vec![
            range(b"d", b"e"),
            range(b"a", b"b"),
            range(b"b", b"c"),
            range(b"z", b"y"),
        ]);
        assert_eq!(joined, [range(b"a", b"c"), range(b"d", b"e")]);
    }
}
