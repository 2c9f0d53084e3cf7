//! Places between and at the rows of a partition, and their total order.
//!
//! ```text
//!   prefix (1)          Before(1)  |  rows (1,1) (1,2) (1,3)  |  After(1)
//!   full key (1,2)           Before(1,2) | row (1,2) | After(1,2)
//!   empty prefix        Before() = start of the partition, After() = its end
//! ```

use std::cmp::Ordering;

use crate::schema::ClusteringKey;

/// On which side of everything that starts with the prefix a position stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Weight {
    Before = -1,
    At = 0,
    After = 1,
}

/// A place in a partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Position {
    pub prefix: ClusteringKey,
    pub weight: Weight,
}

impl Position {
    /// Before every row.
    pub fn start() -> Self {
        Position::before(ClusteringKey::empty())
    }

    /// After every row.
    pub fn end() -> Self {
        Position::after(ClusteringKey::empty())
    }

    pub fn before(prefix: ClusteringKey) -> Self {
        Position { prefix, weight: Weight::Before }
    }

    pub fn at(key: ClusteringKey) -> Self {
        Position { prefix: key, weight: Weight::At }
    }

    pub fn after(prefix: ClusteringKey) -> Self {
        Position { prefix, weight: Weight::After }
    }

    /// Whether it stands before every row.
    #[inline]
    pub fn is_start(&self) -> bool {
        self.weight == Weight::Before && self.prefix.is_empty()
    }

    /// Whether it stands after every row.
    #[inline]
    pub fn is_end(&self) -> bool {
        self.weight == Weight::After && self.prefix.is_empty()
    }

    /// Compares this position with the row `key`, without building a position for it.
    pub fn cmp_key(&self, key: &ClusteringKey) -> Ordering {
        self.cmp_ordered(key.as_ordered())
    }

    /// As [`cmp_key`](Self::cmp_key), the key in its ordered form.
    pub(crate) fn cmp_ordered(&self, key: &[u8]) -> Ordering {
        compare(self.prefix.as_ordered(), self.weight, key, Weight::At)
    }
}

impl Ord for Position {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.prefix.as_ordered(), self.weight, other.prefix.as_ordered(), other.weight)
    }
}

impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Components end by themselves, so a prefix of the key is a prefix of its bytes.
pub(crate) fn compare(a: &[u8], a_weight: Weight, b: &[u8], b_weight: Weight) -> Ordering {
    let common = a.len().min(b.len());
    match a[..common].cmp(&b[..common]) {
        Ordering::Equal => match a.len().cmp(&b.len()) {
            Ordering::Equal => a_weight.cmp(&b_weight),
            Ordering::Less if a_weight == Weight::After => Ordering::Greater,
            Ordering::Less => Ordering::Less,
            Ordering::Greater if b_weight == Weight::After => Ordering::Less,
            Ordering::Greater => Ordering::Greater,
        },
        unequal => unequal,
    }
}

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

    /// Whether it is the whole partition.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.start.is_start() && self.end.is_end()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_order_around_their_prefix() {
        let key = |bytes: &[u8]| ClusteringKey::from_ordered(bytes);
        let ladder = [
            Position::start(),
            Position::before(key(b"a")),
            Position::before(key(b"aa")),
            Position::at(key(b"aa")),
            Position::after(key(b"aa")),
            Position::at(key(b"ab")),
            Position::after(key(b"a")),
            Position::at(key(b"b")),
            Position::end(),
        ];
        for (i, a) in ladder.iter().enumerate() {
            for (j, b) in ladder.iter().enumerate() {
                assert_eq!(a.cmp(b), i.cmp(&j), "{a:?} against {b:?}");
            }
        }
    }

    /// All ranges between places of a ladder: their numbers say what lies within.
    #[test]
    fn a_range_has_the_rows_between_its_ends_and_knows_when_one_prefix_makes_it() {
        let key = |bytes: &[u8]| ClusteringKey::from_ordered(bytes);
        let ladder = [
            Position::start(),
            Position::before(key(b"a")),
            Position::before(key(b"aa")),
            Position::at(key(b"aa")),
            Position::after(key(b"aa")),
            Position::before(key(b"ab")),
            Position::at(key(b"ab")),
            Position::after(key(b"ab")),
            Position::after(key(b"a")),
            Position::before(key(b"b")),
            Position::at(key(b"b")),
            Position::after(key(b"b")),
            Position::end(),
        ];
        let prefixes = [&b""[..], b"a", b"aa", b"ab", b"b"].map(key);
        let places = || ladder.iter().enumerate();
        for ((from, start), (to, end)) in places().flat_map(|a| places().map(move |b| (a, b))) {
            let range = ClusteringRange { start: start.clone(), end: end.clone() };
            assert_eq!(range.is_empty(), from >= to, "{range:?}");
            for (at, row) in places().filter(|(_, place)| place.weight == Weight::At) {
                let row = &row.prefix;
                assert_eq!(range.contains(row), from < at && at < to, "{range:?}, {row:?}");
                assert_eq!(start.cmp_key(row), from.cmp(&at), "{start:?}, {row:?}");
            }
            let made = |prefix: &ClusteringKey| ClusteringRange::prefix(prefix.clone());
            let maker = prefixes.iter().find(|prefix| made(prefix) == range);
            assert_eq!(range.as_prefix(), maker, "{range:?}");
        }
        assert_eq!(ClusteringRange::prefix(ClusteringKey::empty()), ClusteringRange::full());
    }
}
