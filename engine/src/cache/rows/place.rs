//! Where an entry of a cached partition stands: a position whose key lies elsewhere.

use std::cmp::Ordering;

use crate::mutation::position::compare;
use crate::mutation::{FlatRow, Position, Weight};
use crate::schema::ClusteringKey;

/// A place in a partition, ordered as [`Position`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cache) struct PlaceRef<'a> {
    pub(in crate::cache) prefix: &'a [u8],
    pub(in crate::cache) weight: Weight,
}

impl<'a> PlaceRef<'a> {
    /// After every row.
    pub(in crate::cache) const END: PlaceRef<'static> =
        PlaceRef { prefix: &[], weight: Weight::After };

    #[inline]
    pub(super) fn of(position: &'a Position) -> Self {
        PlaceRef { prefix: position.prefix.as_ordered(), weight: position.weight }
    }

    #[inline]
    pub(in crate::cache) fn of_flat(flat: &'a FlatRow) -> Self {
        PlaceRef { prefix: flat.key(), weight: flat.weight() }
    }

    /// The row with this key.
    #[inline]
    pub(super) fn row(key: &'a [u8]) -> Self {
        PlaceRef { prefix: key, weight: Weight::At }
    }

    pub(super) fn position(&self) -> Position {
        Position { prefix: ClusteringKey::from_ordered(self.prefix), weight: self.weight }
    }

    /// The place as one that lives by itself.
    pub(super) fn flat(&self) -> FlatRow {
        FlatRow::place(self.prefix, self.weight)
    }
}

impl Ord for PlaceRef<'_> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.prefix, self.weight, other.prefix, other.weight)
    }
}

impl PartialOrd for PlaceRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
