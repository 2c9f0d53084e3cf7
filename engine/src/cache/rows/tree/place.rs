//! Where an entry of a cached partition stands: a position whose key lies elsewhere.

use std::cmp::Ordering;

use crate::mutation::position::compare;
use crate::mutation::{FlatRow, Position, Weight};
use crate::schema::ClusteringKey;

/// Whether two keys are the same, without a call where they are short: most are.
#[inline(always)]
pub(in crate::cache::rows) fn are_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match a.len() {
        8..=16 => a.first_chunk::<8>() == b.first_chunk() && a.last_chunk::<8>() == b.last_chunk(),
        4..=7 => a.first_chunk::<4>() == b.first_chunk() && a.last_chunk::<4>() == b.last_chunk(),
        0..=3 => a.iter().eq(b),
        _ => a == b,
    }
}

/// A place in a partition, ordered as [`Position`] is.
#[derive(Debug, Clone, Copy)]
pub(in crate::cache) struct PlaceRef<'a> {
    pub prefix: &'a [u8],
    pub weight: Weight,
}

impl<'a> PlaceRef<'a> {
    /// After every row.
    pub const END: PlaceRef<'static> = PlaceRef { prefix: &[], weight: Weight::After };

    #[inline]
    pub fn of(position: &'a Position) -> Self {
        PlaceRef { prefix: position.prefix.as_ordered(), weight: position.weight }
    }

    #[inline]
    pub fn of_flat(flat: &'a FlatRow) -> Self {
        PlaceRef { prefix: flat.key(), weight: flat.weight() }
    }

    /// The entry of a cached partition that is this row or bound; without one that at its end.
    #[inline]
    pub fn of_entry(flat: Option<&'a FlatRow>) -> Self {
        flat.map_or(PlaceRef::END, PlaceRef::of_flat)
    }

    /// The row with this key.
    #[inline]
    pub fn row(key: &'a [u8]) -> Self {
        PlaceRef { prefix: key, weight: Weight::At }
    }

    pub fn position(&self) -> Position {
        Position { prefix: ClusteringKey::from_ordered(self.prefix), weight: self.weight }
    }

    /// The place as one that lives by itself.
    pub fn flat(&self) -> FlatRow {
        FlatRow::place(self.prefix, self.weight)
    }
}

impl PartialEq for PlaceRef<'_> {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.weight == other.weight && are_same(self.prefix, other.prefix)
    }
}

impl Eq for PlaceRef<'_> {}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Random;

    #[test]
    fn short_keys_are_the_same_where_their_bytes_are() {
        let mut random = Random::new(1);
        for length in 0..40 {
            let key: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
            assert!(are_same(&key, &key.clone()));
            assert!(!are_same(&key, &[&key[..], &[0]].concat()));
            for at in 0..length {
                let mut other = key.clone();
                other[at] ^= 1 << random.below(8);
                assert!(!are_same(&key, &other), "{length} bytes, byte {at}");
            }
        }
    }
}
