//! What a read asks for: which partitions, and which rows of each in which direction.

use super::direction::Direction;
use super::position::ClusteringRange;
use crate::schema::{PartitionKey, Token};

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

    /// Whether the ranges are in natural order, disjoint, and none is empty.
    pub fn is_normal(&self) -> bool {
        self.ranges.iter().all(|range| !range.is_empty())
            && self.ranges.is_sorted_by(|a, b| a.end <= b.start)
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
    assert!(
        joined.is_sorted_by(|a, b| a.end < b.start) && joined.iter().all(|range| !range.is_empty()),
        "ranges that overlap, touch or are empty are left: {joined:?}"
    );
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutation::Position;
    use crate::schema::ClusteringKey;

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
        let within = normalise(vec![range(b"a", b"e"), range(b"b", b"c"), range(b"d", b"e")]);
        assert_eq!(within, [range(b"a", b"e")], "one that lies within another shortens nothing");
    }
}
