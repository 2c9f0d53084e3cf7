//! Heads: short prefixes that let the nodes of a tree compare keys without reading them.
//!
//! Neighbours share the beginning of their keys. A node keeps that once, and the two bytes behind
//! it of each key side by side. Invariant: the order of heads is that of places, equal ones
//! excepted.

use super::place::{PlaceRef, are_same};
use crate::mutation::Weight;

/// Entries of a leaf, children of a node.
pub(super) const WIDTH: usize = 128;

/// What stands where there is no entry: no head is greater.
pub(super) const NO_HEAD: u16 = u16::MAX;
/// So many are compared together.
pub(super) const HEADS_AT_ONCE: usize = 8;

/// How many heads, in lots of [`HEADS_AT_ONCE`], are less than `head`. All are looked at: that
/// takes no longer than a search, and nothing has to be known before they are fetched.
#[inline(always)]
pub(super) fn below(heads: &[u16], head: u16) -> usize {
    debug_assert_eq!(heads.len() % HEADS_AT_ONCE, 0, "heads come in whole lots");
    let mut counts = [0; HEADS_AT_ONCE];
    for lot in heads.as_chunks::<HEADS_AT_ONCE>().0 {
        for (count, own) in counts.iter_mut().zip(lot) {
            *count += u16::from(*own < head);
        }
    }
    usize::from(counts.iter().sum::<u16>())
}

/// Of each separator of a node two bytes of the key behind what the keys have in common: in four
/// lines of the processor's cache, whereas pointers are in sixteen.
#[derive(Debug, Clone)]
pub(super) struct Heads(pub(super) [u16; WIDTH]);

impl Heads {
    pub(super) const NONE: Heads = Heads([NO_HEAD; WIDTH]);

    pub(super) fn insert(&mut self, at: usize, head: u16) {
        debug_assert_eq!(self.0[WIDTH - 1], NO_HEAD, "there is room for one more");
        self.0.copy_within(at..WIDTH - 1, at + 1);
        self.0[at] = head;
    }

    pub(super) fn remove(&mut self, at: usize) {
        debug_assert!(at < WIDTH, "a node has no separator {at}");
        self.0.copy_within(at + 1.., at);
        self.0[WIDTH - 1] = NO_HEAD;
    }

    pub(super) fn of<'a>(common: &Common, places: impl Iterator<Item = PlaceRef<'a>>) -> Self {
        let mut heads = Heads::NONE;
        for (head, place) in heads.0.iter_mut().zip(places) {
            *head = head_of(common.bytes(), place);
        }
        heads
    }
}

/// What the keys of a leaf's rows begin with, or a part of that; beside them, not behind a pointer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Common {
    bytes: [u8; 14],
    pub(super) length: u8,
    /// There was a row when it was found: bounds alone have nothing in common with rows.
    pub(super) is_of_rows: bool,
}

impl Common {
    pub(super) fn of(first: &[u8], last: &[u8]) -> Self {
        let mut common = Common { is_of_rows: true, ..Common::default() };
        for (byte, (a, b)) in common.bytes.iter_mut().zip(first.iter().zip(last)) {
            if a != b {
                break;
            }
            *byte = *a;
            common.length += 1;
        }
        common
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// The bytes of a key behind what is common, where it begins with that.
#[inline(always)]
fn behind<'a>(key: &'a [u8], common: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = key.split_at_checked(common.len())?;
    are_same(start, common).then_some(rest)
}

/// Two bytes by which a place is searched for. Where it does not begin with what is common, it
/// stands before or after all that does.
#[inline]
pub(super) fn head_of(common: &[u8], place: PlaceRef<'_>) -> u16 {
    let padding = if place.weight == Weight::After { 0xff } else { 0 };
    match behind(place.prefix, common) {
        Some([first, second, ..]) => u16::from_be_bytes([*first, *second]),
        Some([first]) => u16::from_be_bytes([*first, padding]),
        Some([]) => u16::from_be_bytes([padding; 2]),
        None if place < (PlaceRef { prefix: common, weight: Weight::Before }) => 0,
        None => u16::MAX,
    }
}
