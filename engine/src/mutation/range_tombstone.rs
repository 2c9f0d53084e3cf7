//! Range tombstones and the disjoint list in which a partition keeps them.
//!
//! Invariant of the list: ranges are sorted, do not overlap, and neighbours that touch differ in
//! their tombstone.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::position::{ClusteringRange, Position};
use super::tombstone::Tombstone;
use crate::schema::ClusteringKey;

/// A deletion of every row between two positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeTombstone {
    pub range: ClusteringRange,
    pub tombstone: Tombstone,
}

/// Disjoint range tombstones of one partition, by start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RangeTombstoneList {
    by_start: BTreeMap<Position, (Position, Tombstone)>,
}

impl RangeTombstoneList {
    pub fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    pub fn len(&self) -> usize {
        self.by_start.len()
    }

    /// Adds a tombstone; where ranges overlap the stronger tombstone stands.
    pub fn add(&mut self, added: RangeTombstone) {
        let RangeTombstone { range, tombstone } = added;
        if range.is_empty() {
            return;
        }
        let mut at = range.start.clone();
        // All overlapped pieces leave first: a piece put back joins neighbours, and must not join
        // one that is about to be cut.
        let overlapped = self.overlapping(&range);
        for (start, ..) in &overlapped {
            self.by_start.remove(start);
        }
        for (start, end, old) in overlapped {
            if start > at {
                self.insert_piece(at, start.clone(), tombstone);
            }
            // Cut the old range where the new one starts and ends, then decide inside.
            let inner_start = start.clone().max(range.start.clone());
            let inner_end = end.clone().min(range.end.clone());
            if start < inner_start {
                self.insert_piece(start, inner_start.clone(), old);
            }
            self.insert_piece(inner_start, inner_end.clone(), old.max(tombstone));
            if inner_end < end {
                self.insert_piece(inner_end.clone(), end, old);
            }
            at = inner_end;
        }
        if at < range.end {
            self.insert_piece(at, range.end, tombstone);
        }
    }

    /// Puts a piece in and joins it with neighbours that touch it and say the same.
    fn insert_piece(&mut self, mut start: Position, mut end: Position, tombstone: Tombstone) {
        if let Some((left, (left_end, left_tombstone))) = self.by_start.range(..&start).next_back()
            && *left_end == start
            && *left_tombstone == tombstone
        {
            start = left.clone();
        }
        if let Some((right_end, right_tombstone)) = self.by_start.get(&end)
            && *right_tombstone == tombstone
        {
            let joined_end = right_end.clone();
            self.by_start.remove(&end);
            end = joined_end;
        }
        self.check_neighbours(&start, &end, tombstone);
        self.by_start.insert(start, (end, tombstone));
    }

    /// A piece that is put in is no empty one, overlaps none, and differs from those it touches.
    fn check_neighbours(&self, start: &Position, end: &Position, tombstone: Tombstone) {
        debug_assert!(start < end, "an empty range is deleted: {start:?} to {end:?}");
        let left = || self.by_start.range::<Position, _>(..start).next_back();
        debug_assert!(
            left().is_none_or(
                |(_, (until, own))| until < start || (until == start && *own != tombstone)
            ),
            "the range deleted from {start:?} overlaps or repeats {:?}",
            left()
        );
        let right = || self.by_start.range::<Position, _>(start..).next();
        debug_assert!(
            right().is_none_or(|(from, (_, own))| from == start
                || end < from
                || (end == from && *own != tombstone)),
            "the range deleted up to {end:?} overlaps or repeats {:?}",
            right()
        );
    }

    fn overlapping(&self, range: &ClusteringRange) -> Vec<(Position, Position, Tombstone)> {
        let first = self
            .by_start
            .range(..=&range.start)
            .next_back()
            .filter(|(_, (end, _))| *end > range.start)
            .map(|(start, _)| start.clone());
        let from = first.as_ref().unwrap_or(&range.start);
        self.by_start
            .range::<Position, _>((Bound::Included(from), Bound::Excluded(&range.end)))
            .map(|(start, (end, tombstone))| (start.clone(), end.clone(), *tombstone))
            .collect()
    }

    /// The tombstones that overlap `range`, in natural order, cut to it.
    pub fn within(&self, range: &ClusteringRange) -> Vec<RangeTombstone> {
        self.overlapping(range)
            .into_iter()
            .map(|(start, end, tombstone)| RangeTombstone {
                range: ClusteringRange {
                    start: start.max(range.start.clone()),
                    end: end.min(range.end.clone()),
                },
                tombstone,
            })
            .collect()
    }

    /// The tombstone that covers the row `key`.
    pub fn covering(&self, key: &ClusteringKey) -> Option<Tombstone> {
        let at = Position::at(key.clone());
        let (_, (end, tombstone)) = self.by_start.range(..at).next_back()?;
        end.cmp_key(key).is_gt().then_some(*tombstone)
    }

    /// All tombstones, in natural order.
    pub fn iter(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        self.by_start.iter().map(|(start, (end, tombstone))| RangeTombstone {
            range: ClusteringRange { start: start.clone(), end: end.clone() },
            tombstone: *tombstone,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Random;

    fn range(start: u8, end: u8) -> ClusteringRange {
        ClusteringRange {
            start: Position::before(ClusteringKey::from_ordered([start])),
            end: Position::after(ClusteringKey::from_ordered([end])),
        }
    }

    /// The place before a key, of an even number, or the one behind it.
    fn place(number: u64) -> Position {
        let key = ClusteringKey::from_ordered([(number / 2) as u8]);
        if number.is_multiple_of(2) { Position::before(key) } else { Position::after(key) }
    }

    #[test]
    fn the_list_says_what_a_map_of_single_keys_says() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let mut list = RangeTombstoneList::default();
            let mut model = [None; 24];
            for _ in 0..random.below(12) {
                let start = random.below(46);
                let end = start + 1 + random.below(47 - start);
                let range = ClusteringRange { start: place(start), end: place(end) };
                let tombstone = Tombstone { timestamp: random.below(5) as i64, deletion_time: 0 };
                list.add(RangeTombstone { range, tombstone });
                let covered = start.div_ceil(2) as usize..end.div_ceil(2) as usize;
                for own in &mut model[covered] {
                    *own = (*own).max(Some(tombstone));
                }
            }
            for (key, wanted) in model.iter().enumerate() {
                let key = ClusteringKey::from_ordered([key as u8]);
                assert_eq!(list.covering(&key), *wanted, "seed {seed}, key {key:?}");
            }
            let pieces: Vec<_> = list.iter().collect();
            for pair in pieces.windows(2) {
                assert!(pair[0].range.end <= pair[1].range.start, "seed {seed}");
                let touch = pair[0].range.end == pair[1].range.start;
                assert!(!touch || pair[0].tombstone != pair[1].tombstone, "seed {seed}");
            }
        }
    }

    /// `ck > 1 AND ck <= 3`, `ck > 3 AND ck <= 5` and so on, in any order.
    #[test]
    fn ranges_that_touch_become_one_where_they_say_the_same() {
        let deleted = |(start, end): (u8, u8), timestamp| {
            let after = |key: u8| Position::after(ClusteringKey::from_ordered([key]));
            let range = ClusteringRange { start: after(start), end: after(end) };
            RangeTombstone { range, tombstone: Tombstone { timestamp, deletion_time: 0 } }
        };
        let list_of = |added: [RangeTombstone; 3]| {
            let mut list = RangeTombstoneList::default();
            added.into_iter().for_each(|added| list.add(added));
            list.iter().collect::<Vec<_>>()
        };
        let pieces = [(1, 3), (3, 5), (5, 9)];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let alike = list_of(order.map(|at| deleted(pieces[at], 7)));
            assert_eq!(alike, [deleted((1, 9), 7)], "{order:?}");
            let times = [7, 7, 8];
            let unlike = list_of(order.map(|at| deleted(pieces[at], times[at])));
            assert_eq!(unlike, [deleted((1, 5), 7), deleted((5, 9), 8)], "{order:?}");
        }
    }

    #[test]
    fn pieces_are_cut_to_the_range_asked_for() {
        let mut list = RangeTombstoneList::default();
        let tombstone = Tombstone { timestamp: 1, deletion_time: 0 };
        list.add(RangeTombstone { range: range(2, 9), tombstone });
        assert_eq!(list.within(&range(4, 5)), [RangeTombstone { range: range(4, 5), tombstone }]);
        assert!(list.within(&range(10, 12)).is_empty());
    }
}
