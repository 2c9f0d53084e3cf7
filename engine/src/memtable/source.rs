//! Streams a memtable, in either direction, without holding it still.
//!
//! A partition is seen as of one instant: a read of one partition takes its copy when it begins, a
//! scan when it comes to the partition.

use std::collections::VecDeque;
use std::ops::Bound;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::{LocalBoxFuture, ready};

use super::memtable::Memtable;
use super::partition::Partition;
use crate::config::FRAGMENTS_PER_FILL_MAX;
use crate::error::Result;
use crate::mutation::fragment::rows_in;
use crate::mutation::{
    ClusteringRange, Direction, Filled, Fragment, FragmentSource, PartitionRange, Position,
    RangeTombstone, Slice, StreamCheck,
};
use crate::probe::{self, Count};
use crate::schema::{ClusteringKey, PartitionKey};

struct MemtableSource {
    memtable: Rc<Memtable>,
    range: PartitionRange,
    slice: Slice,
    /// The last partition visited.
    last_key: Option<Rc<PartitionKey>>,
    /// The partition that a read of one took when it began.
    single: Option<(Rc<PartitionKey>, Partition)>,
    current: Option<Cursor>,
    done: bool,
    /// In debug builds: looks at all that is given.
    check: Option<StreamCheck>,
}

/// Place inside one partition.
struct Cursor {
    partition: Partition,
    /// Ranges still to read, next one in front, in reading order.
    ranges: VecDeque<ClusteringRange>,
    /// What is left of the range being read; shrinks from its first end.
    rest: Option<ClusteringRange>,
    /// Range tombstones of this range still to open, in reading order.
    tombstones: VecDeque<RangeTombstone>,
    /// Where the tombstone in force ends.
    open_until: Option<Position>,
}

impl Memtable {
    /// A stream of the fragments inside `range` and `slice`.
    pub fn read(self: &Rc<Self>, range: &PartitionRange, slice: &Slice) -> Box<dyn FragmentSource> {
        Box::new(MemtableSource::new(self.clone(), range.clone(), slice.clone()))
    }
}

impl MemtableSource {
    fn new(memtable: Rc<Memtable>, range: PartitionRange, slice: Slice) -> Self {
        let single = match &range {
            PartitionRange::Single(key) => {
                let partitions = memtable.partitions.borrow();
                let found = partitions.get_key_value(key);
                found.map(|(key, handle)| (key.clone(), handle.borrow().clone()))
            }
            PartitionRange::Tokens { .. } => None,
        };
        debug_assert!(slice.is_normal(), "ranges of a read are not in order: {:?}", slice.ranges);
        let check = cfg!(debug_assertions).then(|| StreamCheck::new(slice.direction));
        MemtableSource {
            check,
            memtable,
            range,
            slice,
            last_key: None,
            single,
            current: None,
            done: false,
        }
    }

    fn next_partition(&mut self) -> Option<(Rc<PartitionKey>, Partition)> {
        let partitions = self.memtable.partitions.borrow();
        match (&self.range, &self.last_key) {
            (PartitionRange::Single(_), _) => self.single.take(),
            (PartitionRange::Tokens { min, max }, last) => {
                let mut rest = match last {
                    Some(last) => partitions
                        .range::<PartitionKey, _>((Bound::Excluded(&**last), Bound::Unbounded)),
                    None => {
                        let from = PartitionKey::first_of(*min);
                        partitions
                            .range::<PartitionKey, _>((Bound::Included(&from), Bound::Unbounded))
                    }
                };
                let (key, handle) = rest.next()?;
                (key.token() <= *max).then(|| (key.clone(), handle.borrow().clone()))
            }
        }
    }

    fn fill_some(&mut self, out: &mut VecDeque<Fragment>) {
        let from = out.len();
        self.fill_up(out);
        probe::count_by(Count::MemtableRows, || rows_in(out.range(from..)));
        if let Some(check) = &mut self.check {
            out.range(from..).for_each(|fragment| check.pass(fragment));
        }
    }

    fn fill_up(&mut self, out: &mut VecDeque<Fragment>) {
        let target = out.len() + FRAGMENTS_PER_FILL_MAX;
        while !self.done && out.len() < target {
            if let Some(cursor) = &mut self.current {
                if cursor.advance(self.slice.direction, target, out) {
                    out.push_back(Fragment::PartitionEnd);
                    self.current = None;
                }
                continue;
            }
            let Some((key, partition)) = self.next_partition() else {
                self.done = true;
                return;
            };
            debug_assert!(self.range.contains(&key), "{key:?} is not in {:?}", self.range);
            let deletion = partition.deletion;
            out.push_back(Fragment::PartitionStart { key: key.clone(), deletion });
            if let Some(row) = &partition.static_row {
                out.push_back(Fragment::StaticRow(row.clone()));
            }
            self.last_key = Some(key);
            let mut ranges: VecDeque<ClusteringRange> = self.slice.ranges.iter().cloned().collect();
            if self.slice.direction == Direction::Reversed {
                ranges.make_contiguous().reverse();
            }
            self.current = Some(Cursor {
                partition,
                ranges,
                rest: None,
                tombstones: VecDeque::new(),
                open_until: None,
            });
        }
    }
}

impl Cursor {
    /// Emits fragments until `out` holds `target`; true when the partition is exhausted.
    fn advance(
        &mut self,
        direction: Direction,
        target: usize,
        out: &mut VecDeque<Fragment>,
    ) -> bool {
        let partition = self.partition.clone();
        while out.len() < target {
            let Some(rest) = self.rest.clone() else {
                let open = &self.open_until;
                debug_assert!(open.is_none(), "a range ends, and a tombstone goes on to {open:?}");
                let Some(range) = self.ranges.pop_front() else { return true };
                self.tombstones = partition.range_tombstones.within(&range).into();
                if direction == Direction::Reversed {
                    self.tombstones.make_contiguous().reverse();
                }
                self.rest = Some(range);
                continue;
            };
            let mut rows = partition.rows_between(&rest.start, &rest.end);
            loop {
                let row = match direction {
                    Direction::Forward => rows.next(),
                    Direction::Reversed => rows.next_back(),
                };
                // Tombstone changes that come before this row, or before the end of the range.
                while let Some((position, change)) = self.next_change(direction) {
                    let is_before_row = row.is_none_or(|row| {
                        let order = position.cmp_ordered(row.key());
                        if direction.is_reversed() { order.is_gt() } else { order.is_lt() }
                    });
                    if !is_before_row {
                        break;
                    }
                    self.take_change(direction);
                    out.push_back(Fragment::RangeTombstoneChange { position, tombstone: change });
                }
                let Some(row) = row else {
                    self.rest = None;
                    break;
                };
                out.push_back(row.fragment());
                if out.len() >= target {
                    let here = Position::at(ClusteringKey::from_ordered(row.key()));
                    self.rest = Some(match direction {
                        Direction::Forward => ClusteringRange { start: here, end: rest.end },
                        Direction::Reversed => ClusteringRange { start: rest.start, end: here },
                    });
                    break;
                }
            }
        }
        false
    }

    /// Where the tombstone in force changes next, and to what.
    fn next_change(
        &self,
        direction: Direction,
    ) -> Option<(Position, Option<crate::mutation::Tombstone>)> {
        let opening = self.tombstones.front();
        match (&self.open_until, opening) {
            (Some(end), Some(next)) if direction.first(&next.range) == end => {
                Some((end.clone(), Some(next.tombstone)))
            }
            (Some(end), _) => Some((end.clone(), None)),
            (None, Some(next)) => {
                Some((direction.first(&next.range).clone(), Some(next.tombstone)))
            }
            (None, None) => None,
        }
    }

    fn take_change(&mut self, direction: Direction) {
        let opens = match (&self.open_until, self.tombstones.front()) {
            (Some(end), Some(next)) => direction.first(&next.range) == end,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        self.open_until = if opens {
            self.tombstones.pop_front().map(|opened| direction.last(&opened.range).clone())
        } else {
            None
        };
    }
}

impl FragmentSource for MemtableSource {
    fn skip_partition(&mut self) {
        assert!(self.current.is_some(), "a memtable is read on behind {:?}", self.last_key);
        self.current = None;
        if let Some(check) = &mut self.check {
            check.skip();
        }
    }

    fn fill<'a>(&'a mut self, out: &'a mut VecDeque<Fragment>) -> LocalBoxFuture<'a, Result<()>> {
        self.fill_some(out);
        ready(Ok(())).boxed_local()
    }

    fn fill_now(&mut self, out: &mut VecDeque<Fragment>) -> Filled {
        let before = out.len();
        self.fill_some(out);
        if out.len() > before { Filled::Some } else { Filled::End }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutation::{Mutation, RangeTombstone, Row, Tombstone};
    use crate::schema::TableId;

    fn rows_of(source: &mut dyn FragmentSource) -> (Vec<Vec<u8>>, Vec<PartitionKey>) {
        let mut out = VecDeque::new();
        while source.fill_now(&mut out) == Filled::Some {}
        let (mut rows, mut keys) = (Vec::new(), Vec::new());
        for fragment in out.into_iter().map(Fragment::thawed) {
            match fragment {
                Fragment::Row { key, .. } => rows.push(key.as_ordered().to_vec()),
                Fragment::PartitionStart { key, .. } => keys.push((*key).clone()),
                _ => {}
            }
        }
        (rows, keys)
    }

    fn clustering(bytes: &[u8]) -> ClusteringKey {
        ClusteringKey::from_ordered(bytes)
    }

    #[test]
    fn a_slice_beside_a_prefix_has_all_of_its_rows_or_none() {
        let memtable = Memtable::new(Rc::default());
        let key = PartitionKey::from_bytes(*b"k");
        let mut mutation = Mutation::new(TableId(1), key.clone());
        let deletion = Some(Tombstone { timestamp: 1, deletion_time: 1 });
        let all = [[1, 0], [1, 7], [2, 0], [2, 7], [3, 0], [3, 7]];
        for row in all {
            mutation.rows.push((clustering(&row), Row { deletion, ..Row::default() }));
        }
        memtable.replay(None, mutation);
        let prefix = |byte| clustering(&[byte]);
        let (start, end) = (Position::start(), Position::end());
        let cases = [
            (Position::after(prefix(2)), end.clone(), 4..6),
            (Position::before(prefix(2)), end, 2..6),
            (start.clone(), Position::after(prefix(2)), 0..4),
            (start, Position::before(prefix(2)), 0..2),
            (Position::before(prefix(2)), Position::after(prefix(2)), 2..4),
            (Position::after(prefix(1)), Position::before(prefix(3)), 2..4),
        ];
        for (start, end, wanted) in cases {
            for direction in [Direction::Forward, Direction::Reversed] {
                let ranges = vec![ClusteringRange { start: start.clone(), end: end.clone() }];
                let slice = Slice { ranges, direction };
                let single = PartitionRange::Single(key.clone());
                let (mut rows, _) = rows_of(&mut *memtable.read(&single, &slice));
                if direction.is_reversed() {
                    rows.reverse();
                }
                assert_eq!(rows, all[wanted.clone()], "{start:?} to {end:?}, {direction:?}");
            }
        }
    }

    #[test]
    fn a_partition_begins_with_its_static_row_in_both_directions() {
        let memtable = Memtable::new(Rc::default());
        let key = PartitionKey::from_bytes(*b"k");
        let mut mutation = Mutation::new(TableId(1), key.clone());
        let row = |timestamp| {
            let deletion = Some(Tombstone { timestamp, deletion_time: 1 });
            Row { deletion, ..Row::default() }
        };
        mutation.static_row = Some(row(7));
        mutation.rows = vec![(clustering(&[1]), row(1)), (clustering(&[2]), row(2))];
        memtable.replay(None, mutation);
        for (direction, wanted) in
            [(Direction::Forward, [7, 1, 2]), (Direction::Reversed, [7, 2, 1])]
        {
            for range in [PartitionRange::Single(key.clone()), PartitionRange::full()] {
                let mut source = memtable.read(&range, &Slice::full(direction));
                let mut out = VecDeque::new();
                while source.fill_now(&mut out) == Filled::Some {}
                let timestamp = |fragment: &Fragment| match fragment {
                    Fragment::StaticRow(row) | Fragment::Row { row, .. } => {
                        row.deletion.map(|deletion| deletion.timestamp)
                    }
                    _ => None,
                };
                let out: Vec<Fragment> = out.into_iter().map(Fragment::thawed).collect();
                let found: Vec<i64> = out.iter().filter_map(timestamp).collect();
                assert_eq!(found, wanted, "{direction:?} {range:?}");
                let statics = out.iter().filter(|f| matches!(f, Fragment::StaticRow(_)));
                assert_eq!(statics.count(), 1);
            }
        }
    }

    #[test]
    fn one_range_tombstone_may_end_where_another_begins() {
        let memtable = Memtable::new(Rc::default());
        let key = PartitionKey::from_bytes(*b"k");
        let mut mutation = Mutation::new(TableId(1), key.clone());
        let tombstone = |timestamp| Tombstone { timestamp, deletion_time: 1 };
        let before = |byte| Position::before(clustering(&[byte]));
        for (at, timestamp) in [(1, 5), (2, 9), (3, 7)] {
            let range = ClusteringRange { start: before(at), end: before(at + 1) };
            let tombstone = tombstone(timestamp);
            mutation.range_tombstones.push(RangeTombstone { range, tombstone });
        }
        memtable.replay(None, mutation);
        let changes = |direction| {
            let single = PartitionRange::Single(key.clone());
            let mut source = memtable.read(&single, &Slice::full(direction));
            let mut out = VecDeque::new();
            while source.fill_now(&mut out) == Filled::Some {}
            let change = |fragment| match fragment {
                Fragment::RangeTombstoneChange { position, tombstone } => {
                    Some((position, tombstone.map(|tombstone| tombstone.timestamp)))
                }
                _ => None,
            };
            out.into_iter().filter_map(change).collect::<Vec<_>>()
        };
        let at = [before(1), before(2), before(3), before(4)];
        let said = |at: [&Position; 4], told: [Option<i64>; 4]| {
            at.into_iter().cloned().zip(told).collect::<Vec<_>>()
        };
        let [a, b, c, d] = &at;
        let forward = said([a, b, c, d], [Some(5), Some(9), Some(7), None]);
        assert_eq!(changes(Direction::Forward), forward);
        let reversed = said([d, c, b, a], [Some(7), Some(9), Some(5), None]);
        assert_eq!(changes(Direction::Reversed), reversed);
    }

    #[test]
    fn a_range_of_tokens_has_the_partitions_at_both_its_ends() {
        let memtable = Memtable::new(Rc::default());
        let mut keys: Vec<PartitionKey> =
            (0_u8..5).map(|number| PartitionKey::from_bytes([number])).collect();
        keys.sort();
        for key in &keys {
            let mut mutation = Mutation::new(TableId(1), key.clone());
            mutation.deletion = Some(Tombstone { timestamp: 1, deletion_time: 1 });
            memtable.replay(None, mutation);
        }
        for first in 0..keys.len() {
            for last in first..keys.len() {
                let (min, max) = (keys[first].token(), keys[last].token());
                let range = PartitionRange::Tokens { min, max };
                let slice = Slice::full(Direction::Forward);
                let (_, found) = rows_of(&mut *memtable.read(&range, &slice));
                assert_eq!(found, keys[first..=last]);
            }
        }
    }

    /// Some rows are covered, and a slice has two ranges: a turn ends before and behind each.
    #[test]
    fn rows_of_many_turns_come_once_each_with_what_covers_them() {
        const ROWS: u16 = 4 * FRAGMENTS_PER_FILL_MAX as u16;
        let key = |number: u16| clustering(&number.to_be_bytes());
        let tombstone = |timestamp| Tombstone { timestamp, deletion_time: 1 };
        let covering = |number: u16| match (number % 10, number / 10) {
            (3..=5, tens) => Some(1 + i64::from(tens % 3)),
            (6..=8, tens) if tens.is_multiple_of(2) => Some(9),
            _ => None,
        };
        let partition = PartitionKey::from_bytes(*b"k");
        let mut mutation = Mutation::new(TableId(1), partition.clone());
        for number in 0..ROWS {
            let row = Row { deletion: Some(tombstone(20)), ..Row::default() };
            mutation.rows.push((key(number), row));
        }
        let before = |number| Position::before(key(number));
        for first in (0..ROWS).step_by(10) {
            let mut cover = |start, end, number| {
                let range = ClusteringRange { start, end };
                let tombstone = covering(number).map(tombstone);
                let covers = tombstone.map(|tombstone| RangeTombstone { range, tombstone });
                mutation.range_tombstones.extend(covers);
            };
            let middle = Position::after(key(first + 5));
            cover(before(first + 3), middle.clone(), first + 3);
            cover(middle, before(first + 9), first + 6);
        }
        let memtable = Memtable::new(Rc::default());
        memtable.replay(None, mutation);
        for first in (0..60).step_by(7) {
            let range = |start, end| ClusteringRange {
                start: before(start),
                end: Position::after(key(end)),
            };
            let ranges = vec![range(first, 604), range(607 + first, 1020)];
            for direction in [Direction::Forward, Direction::Reversed] {
                let slice = Slice { ranges: ranges.clone(), direction };
                let found = covered_rows(&memtable, &partition, &slice);
                let numbers = (first..=604).chain(607 + first..=1020);
                let mut wanted: Vec<(u16, Option<i64>)> =
                    numbers.map(|number| (number, covering(number))).collect();
                if direction.is_reversed() {
                    wanted.reverse();
                }
                assert!(found == wanted, "{direction:?} from {first}: {found:?}");
            }
        }
    }

    /// The numbers of a partition's rows, and the time of what is in force at each.
    fn covered_rows(
        memtable: &Rc<Memtable>,
        partition: &PartitionKey,
        slice: &Slice,
    ) -> Vec<(u16, Option<i64>)> {
        let mut source = memtable.read(&PartitionRange::Single(partition.clone()), slice);
        let (mut out, mut found, mut turns) = (VecDeque::new(), Vec::new(), 0);
        let mut in_force: Option<Tombstone> = None;
        while source.fill_now(&mut out) == Filled::Some {
            turns += 1;
            for fragment in out.drain(..).map(Fragment::thawed) {
                match fragment {
                    Fragment::RangeTombstoneChange { tombstone, .. } => in_force = tombstone,
                    Fragment::Row { key, .. } => {
                        let number = u16::from_be_bytes(key.as_ordered().try_into().unwrap());
                        found.push((number, in_force.map(|own| own.timestamp)));
                    }
                    _ => {}
                }
            }
        }
        assert!(turns > 3, "{turns} turns");
        found
    }

    fn rest_of(source: &mut dyn FragmentSource) -> Vec<Fragment> {
        let mut out = VecDeque::new();
        while source.fill_now(&mut out) == Filled::Some {}
        out.into()
    }

    /// What is skipped is open, and a range tombstone is in force in it.
    #[test]
    fn behind_partitions_that_were_skipped_the_next_one_comes_whole() {
        const ROWS: u16 = 2 * FRAGMENTS_PER_FILL_MAX as u16;
        let memtable = Memtable::new(Rc::default());
        let tombstone = |timestamp| Tombstone { timestamp, deletion_time: 1 };
        for partition in 0_u8..3 {
            let mut mutation = Mutation::new(TableId(1), PartitionKey::from_bytes([partition]));
            mutation.rows.extend((0..ROWS).map(|number| {
                let row = Row { deletion: Some(tombstone(20)), ..Row::default() };
                (clustering(&number.to_be_bytes()), row)
            }));
            let (range, tombstone) = (ClusteringRange::full(), tombstone(9));
            mutation.range_tombstones.push(RangeTombstone { range, tombstone });
            memtable.replay(None, mutation);
        }
        for direction in [Direction::Forward, Direction::Reversed] {
            let open = || memtable.read(&PartitionRange::full(), &Slice::full(direction));
            let all = rest_of(&mut *open());
            let is_start = |at: &usize| matches!(all[*at], Fragment::PartitionStart { .. });
            let starts: Vec<usize> = (0..all.len()).filter(is_start).collect();
            assert_eq!(starts.len(), 3, "{direction:?}");
            for skipped in 1..=3 {
                let mut source = open();
                for _ in 0..skipped {
                    assert!(source.fill_now(&mut VecDeque::new()) == Filled::Some);
                    source.skip_partition();
                }
                let from = starts.get(skipped).copied().unwrap_or(all.len());
                assert!(rest_of(&mut *source) == all[from..], "{direction:?}, {skipped} skipped");
            }
        }
    }
}
