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

    /// Whether it has every row.
    pub fn is_full(&self) -> bool {
        matches!(&*self.ranges, [range] if range.is_full())
    }

    /// The range with this number in reading order, from 0 on.
    #[inline]
    pub fn range_at(&self, number: usize) -> Option<&ClusteringRange> {
        match self.direction {
            Direction::Forward => self.ranges.get(number),
            Direction::Reversed => self.ranges.iter().rev().nth(number),
        }
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
    use crate::clock::Random;
    use crate::mutation::Position;
    use crate::schema::ClusteringKey;
    use crate::schema::token::key_with_token;

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

    /// The place before a key, of an even number, or the one behind it.
    fn place(number: u64) -> Position {
        let key = ClusteringKey::from_ordered([(number / 2) as u8]);
        if number.is_multiple_of(2) { Position::before(key) } else { Position::after(key) }
    }

    fn between(start: u64, end: u64) -> ClusteringRange {
        ClusteringRange { start: place(start), end: place(end) }
    }

    #[test]
    fn ranges_are_numbered_in_reading_order() {
        let ranges = vec![between(0, 3), between(4, 7), between(8, 9)];
        for (direction, order) in
            [(Direction::Forward, [0, 1, 2]), (Direction::Reversed, [2, 1, 0])]
        {
            let slice = Slice { ranges: ranges.clone(), direction };
            for (number, at) in order.into_iter().enumerate() {
                assert_eq!(slice.range_at(number), Some(&ranges[at]), "{direction:?} {number}");
            }
            assert_eq!(slice.range_at(3), None, "{direction:?}");
            assert_eq!(slice.range_at(usize::MAX), None, "{direction:?}");
            assert!(!slice.is_full(), "{direction:?}");
            assert!(Slice::full(direction).is_full(), "{direction:?}");
        }
        assert!(!ClusteringRange { start: place(0), end: Position::end() }.is_full());
        assert!(!ClusteringRange { start: Position::start(), end: place(1) }.is_full());
    }

    #[test]
    fn ranges_that_were_joined_have_the_rows_that_any_of_them_had() {
        let mut most = 0;
        for seed in 0..500 {
            let mut random = Random::new(seed);
            let mut ranges = Vec::new();
            for _ in 0..random.below(7) {
                // Empty ones among them, and such as end before they begin.
                let (start, end) = (random.below(24), random.below(24));
                ranges.push(between(start, end));
            }
            let joined = normalise(ranges.clone());
            most = most.max(joined.len());
            for number in 0..12_u8 {
                let key = ClusteringKey::from_ordered([number]);
                let had = ranges.iter().any(|range| range.contains(&key));
                let has = joined.iter().any(|range| range.contains(&key));
                assert_eq!(has, had, "seed {seed}, key {number}: {ranges:?} became {joined:?}");
            }
            let are_apart = joined.windows(2).all(|pair| pair[0].end < pair[1].start);
            assert!(are_apart, "seed {seed}: {joined:?}");
            assert_eq!(normalise(joined.clone()), joined, "seed {seed}: nothing more to join");
            for direction in [Direction::Forward, Direction::Reversed] {
                assert!(Slice { ranges: joined.clone(), direction }.is_normal(), "seed {seed}");
            }
        }
        assert!(most > 2, "some stay apart: {most}");
    }

    #[test]
    fn a_slice_is_normal_when_its_ranges_are_in_order_and_none_is_empty_or_overlaps() {
        let cases: [(&[(u64, u64)], bool); 9] = [
            (&[], true),
            (&[(1, 5)], true),
            (&[(1, 5), (7, 9)], true),
            (&[(1, 5), (5, 9)], true),
            (&[(1, 5), (4, 9)], false),
            (&[(1, 9), (2, 3)], false),
            (&[(7, 9), (1, 5)], false),
            (&[(1, 5), (7, 7)], false),
            (&[(5, 1), (7, 9)], false),
        ];
        for (ranges, is_normal) in cases {
            let all = ranges.iter().map(|(start, end)| between(*start, *end));
            let slice = Slice { ranges: all.collect(), direction: Direction::Reversed };
            assert_eq!(slice.is_normal(), is_normal, "{ranges:?}");
        }
    }

    #[test]
    fn a_range_of_partitions_has_the_tokens_at_both_of_its_ends() {
        let key = |token| PartitionKey::from_bytes(key_with_token(Token(token), 1));
        let tokens = [i64::MIN + 1, -6, -5, -4, 0, 4, 5, 6, i64::MAX];
        for (min, max) in [(-5, 5), (4, 4), (i64::MIN, -5), (5, i64::MAX), (5, -5)] {
            let range = PartitionRange::Tokens { min: Token(min), max: Token(max) };
            let found: Vec<i64> =
                tokens.into_iter().filter(|token| range.contains(&key(*token))).collect();
            let wanted: Vec<i64> =
                tokens.into_iter().filter(|token| (min..=max).contains(token)).collect();
            assert_eq!(found, wanted, "{range:?}");
        }
        assert!(tokens.iter().all(|token| PartitionRange::full().contains(&key(*token))));
        // Of two keys with one token the one that is named.
        let (named, other) = (key(7), PartitionKey::from_bytes(key_with_token(Token(7), 2)));
        assert_eq!(named.token(), other.token());
        let single = PartitionRange::Single(named.clone());
        assert!(single.contains(&named) && !single.contains(&other));
    }
}
