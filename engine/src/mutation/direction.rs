//! Forward or reversed: the one place that knows what "next" and "first" mean in a direction.
//!
//! `min`/`max` and `start`/`end` mean natural order; `first`/`last` mean order of the read.

use std::cmp::Ordering;

use super::position::{ClusteringRange, Position};

/// The direction in which a partition's rows are read. The ring is always read forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    Forward,
    Reversed,
}

impl Direction {
    /// Order of two things in this direction.
    pub fn order<T: Ord + ?Sized>(self, a: &T, b: &T) -> Ordering {
        match self {
            Direction::Forward => a.cmp(b),
            Direction::Reversed => b.cmp(a),
        }
    }

    /// Where a read of `range` begins.
    pub fn first(self, range: &ClusteringRange) -> &Position {
        match self {
            Direction::Forward => &range.start,
            Direction::Reversed => &range.end,
        }
    }

    /// Where a read of `range` ends.
    pub fn last(self, range: &ClusteringRange) -> &Position {
        match self {
            Direction::Forward => &range.end,
            Direction::Reversed => &range.start,
        }
    }

    pub fn is_reversed(self) -> bool {
        self == Direction::Reversed
    }
}
