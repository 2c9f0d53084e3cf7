//! Where an entry of a cached partition stands: a position whose key is shared with the row.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::mutation::position::compare;
use crate::mutation::{Position, Weight};
use crate::persistent::{Comparable, Equivalent};
use crate::schema::ClusteringKey;

/// A place in a partition, ordered as [`Position`] is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cache) struct Place {
    pub(in crate::cache) prefix: Rc<ClusteringKey>,
    pub(in crate::cache) weight: Weight,
}

impl Place {
    /// The row with this key.
    pub(super) fn row(key: Rc<ClusteringKey>) -> Self {
        Place { prefix: key, weight: Weight::At }
    }

    pub(super) fn of(position: &Position) -> Self {
        Place { prefix: Rc::new(position.prefix.clone()), weight: position.weight }
    }

    pub(super) fn position(&self) -> Position {
        Position { prefix: (*self.prefix).clone(), weight: self.weight }
    }

    pub(super) fn as_ref(&self) -> PlaceRef<'_> {
        PlaceRef { prefix: self.prefix.as_ordered(), weight: self.weight }
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_ref().cmp(&other.as_ref())
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A place to look for, without a key of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlaceRef<'a> {
    pub(super) prefix: &'a [u8],
    pub(super) weight: Weight,
}

impl<'a> PlaceRef<'a> {
    pub(super) fn of(position: &'a Position) -> Self {
        PlaceRef { prefix: position.prefix.as_ordered(), weight: position.weight }
    }
}

impl Ord for PlaceRef<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.prefix, self.weight, other.prefix, other.weight)
    }
}

impl PartialOrd for PlaceRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Equivalent<Place> for PlaceRef<'_> {
    fn equivalent(&self, place: &Place) -> bool {
        self.compare(place).is_eq()
    }
}

impl Comparable<Place> for PlaceRef<'_> {
    fn compare(&self, place: &Place) -> Ordering {
        self.cmp(&place.as_ref())
    }
}
