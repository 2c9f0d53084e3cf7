//! The share of indexes in the cache, as stored pages and as parsed ones, in the order of their
//! use.
//!
//! A share does not divide the cache: indexes may fill all of it while nothing else needs room.
//! Invariant: every resident of an index stands in `order` once with its present stamp; places with
//! other stamps belong to residents that left in another way. Not here: when a part of an index
//! leaves (`mod.rs`).

use std::collections::VecDeque;

use crate::config::INDEX_PERCENT_DEFAULT;
use crate::policy::event::EntryKind;

/// Places of residents that left, beyond which they are cleared away.
const LEFT_MAX: usize = 512;

/// See the head of this file.
pub(super) struct IndexShare {
    percent: u64,
    bytes: u64,
    count: usize,
    next_stamp: u64,
    /// Numbers of residents with a stamp, the one used longest ago first, about.
    order: VecDeque<(u32, u64)>,
}

impl IndexShare {
    pub(super) fn new() -> Self {
        let percent = INDEX_PERCENT_DEFAULT;
        IndexShare { percent, bytes: 0, count: 0, next_stamp: 0, order: VecDeque::new() }
    }

    pub(super) fn holds(kind: EntryKind) -> bool {
        use EntryKind::{IndexPage, PartitionIndexPage, ReversedIndexPage};
        matches!(kind, IndexPage | PartitionIndexPage | ReversedIndexPage)
    }

    pub(super) fn set_percent(&mut self, percent: u64) {
        self.percent = percent.min(100);
    }

    /// Whether indexes take more than their share of the capacity.
    pub(super) fn is_over(&self, capacity_bytes: u64) -> bool {
        self.bytes > capacity_bytes / 100 * self.percent
    }

    /// A resident came in; its stamp. `is_present` says whether the resident with a number
    /// has a stamp.
    pub(super) fn came(
        &mut self,
        number: u32,
        bytes: u32,
        is_present: impl Fn(u32, u64) -> bool,
    ) -> u64 {
        if self.order.len() > 2 * self.count + LEFT_MAX {
            self.order.retain(|(number, stamp)| is_present(*number, *stamp));
        }
        self.next_stamp += 1;
        self.bytes += u64::from(bytes);
        self.count += 1;
        self.order.push_back((number, self.next_stamp));
        debug_assert!(self.order.len() >= self.count, "every resident stands in the order");
        self.next_stamp
    }

    /// A resident left.
    pub(super) fn left(&mut self, bytes: u32) {
        debug_assert!(self.count > 0, "a resident leaves where there is none");
        debug_assert!(self.bytes >= u64::from(bytes), "a resident takes more than all of them");
        self.bytes -= u64::from(bytes);
        self.count -= 1;
    }

    /// Checks that so many residents, of so many bytes, are those of indexes.
    pub(super) fn check(&self, count: usize, bytes: u64) {
        assert_eq!(self.count, count, "residents of indexes are counted");
        assert_eq!(self.bytes, bytes, "bytes of indexes are counted");
        assert!(self.order.len() >= count, "every resident stands in the order");
    }

    /// The place of the one that came in or was put back longest ago; it may have left.
    pub(super) fn pop(&mut self) -> Option<(u32, u64)> {
        self.order.pop_front()
    }

    /// Puts a place back as the newest.
    pub(super) fn put_back(&mut self, place: (u32, u64)) {
        debug_assert!(place.1 <= self.next_stamp, "a stamp was given before");
        self.order.push_back(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_exceeded_by_the_first_byte_beyond_it() {
        let cases = [
            (None, 200),
            (Some(0), 0),
            (Some(1), 10),
            (Some(100), 1000),
            (Some(101), 1000),
            (Some(u64::MAX), 1000),
        ];
        for (percent, most) in cases {
            let mut share = IndexShare::new();
            if let Some(percent) = percent {
                share.set_percent(percent);
            }
            share.came(1, most, |_, _| true);
            assert!(!share.is_over(1000), "{percent:?} percent, {most} bytes");
            share.came(2, 1, |_, _| true);
            assert!(share.is_over(1000), "{percent:?} percent, {most} bytes and one");
            share.left(1);
            assert!(!share.is_over(1000), "{percent:?} percent, {most} bytes again");
        }
    }

    /// Places of those that left in another way are cleared away; the others keep their order.
    #[test]
    fn who_came_first_leaves_first_however_many_came_and_left_meanwhile() {
        let mut share = IndexShare::new();
        let first = [7, 3, 5].map(|number| (number, share.came(number, 10, |_, _| true)));
        for _ in 0..10 * LEFT_MAX {
            share.came(9, 10, |number, stamp| first.contains(&(number, stamp)));
            share.left(10);
            assert!(share.order.len() <= 2 * (first.len() + 1) + LEFT_MAX + 1);
        }
        share.check(3, 30);
        assert_eq!([share.pop(), share.pop()], [Some(first[0]), Some(first[1])]);
        share.put_back(first[0]);
        assert_eq!(share.pop(), Some(first[2]));
        let others = std::iter::from_fn(|| share.pop());
        let there: Vec<_> = others.filter(|place| first.contains(place)).collect();
        assert_eq!(there, [first[0]], "what was put back is the newest");
    }
}
