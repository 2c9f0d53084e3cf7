//! An array by slot that grows in pieces: what is there never moves, and what is held follows what
//! is used. A table of millions of slots that doubled by copying would hold its shard up for
//! milliseconds, and set twice the memory aside.

use std::ops::{Index, IndexMut};

use super::Slot;
use crate::prefetch::Memory;

/// Elements of a piece; only the first one is shorter. Of the last one half lies idle on average,
/// and all pieces of a large cache should be found in the processor's nearest memory.
const PIECE: usize = 1 << PIECE_BITS;
const PIECE_BITS: u32 = 13;

/// See the head of this file.
#[derive(Debug, Clone)]
pub struct SlotArray<T> {
    pieces: Vec<Vec<T>>,
    length: usize,
}

impl<T> Default for SlotArray<T> {
    fn default() -> Self {
        SlotArray { pieces: Vec::new(), length: 0 }
    }
}

fn place(slot: Slot) -> (usize, usize) {
    (slot as usize >> PIECE_BITS, slot as usize % PIECE)
}

impl<T> SlotArray<T> {
    /// Slots `0..len` have an element.
    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    #[inline]
    pub fn get(&self, slot: Slot) -> Option<&T> {
        let (piece, at) = place(slot);
        self.pieces.get(piece)?.get(at)
    }

    #[inline]
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        let (piece, at) = place(slot);
        self.pieces.get_mut(piece)?.get_mut(at)
    }

    /// Has a slot's element fetched, if it has one.
    #[inline]
    pub fn prefetch(&self, slot: Slot) {
        if let Some(element) = self.get(slot) {
            Memory::of(element).prefetch();
        }
    }

    /// Gives the next slot an element.
    pub fn push(&mut self, element: T) {
        let at = self.length % PIECE;
        if at == 0 {
            let room = if self.length == 0 { 0 } else { PIECE };
            self.pieces.push(Vec::with_capacity(room));
        }
        let last = self.pieces.last_mut().expect("a piece was begun");
        last.push(element);
        self.length += 1;
    }

    /// Makes sure that a slot has an element.
    pub fn reach(&mut self, slot: Slot, make: impl Fn() -> T) {
        while self.length <= slot as usize {
            self.push(make());
        }
    }
}

impl<T> Index<Slot> for SlotArray<T> {
    type Output = T;

    #[inline]
    fn index(&self, slot: Slot) -> &T {
        let (piece, at) = place(slot);
        &self.pieces[piece][at]
    }
}

impl<T> IndexMut<Slot> for SlotArray<T> {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        let (piece, at) = place(slot);
        &mut self.pieces[piece][at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_stay_where_they_are_over_pieces() {
        let mut array = SlotArray::default();
        assert!(array.is_empty() && array.get(0).is_none());
        array.reach(9, || 0);
        assert_eq!(array.len(), 10);
        for number in 10..3 * PIECE as u32 + 5 {
            array.push(number);
        }
        let second = &raw const array[PIECE as Slot];
        array.reach(5 * PIECE as Slot, || 7);
        assert_eq!(&raw const array[PIECE as Slot], second);
        for slot in [10, PIECE - 1, PIECE, 2 * PIECE + 1, 3 * PIECE + 4] {
            assert_eq!(array[slot as Slot], slot as u32);
        }
        assert_eq!((array[3 * PIECE as Slot + 5], array.len()), (7, 5 * PIECE + 1));
        array[3] = 4;
        assert_eq!(array.get(3), Some(&4));
        assert_eq!(array.get_mut(4), Some(&mut 0));
        assert_eq!(array.get(array.len() as Slot), None);
    }
}
