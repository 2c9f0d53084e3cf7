//! A set of slots: one bit each, in pieces that are allocated on first use.

use crate::policy::Slot;

/// Slots of a piece: 8 KiB.
const PIECE_BITS: u32 = 16;
const PIECE_WORDS: usize = 1 << (PIECE_BITS - u64::BITS.ilog2());

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct SlotSet {
    /// Empty where no slot of a piece is in the set.
    pieces: Vec<Vec<u64>>,
}

/// The piece, the word in it and the bit in that.
fn place(slot: Slot) -> (usize, usize, u64) {
    let word = (slot / u64::BITS) as usize % PIECE_WORDS;
    ((slot >> PIECE_BITS) as usize, word, 1 << (slot % u64::BITS))
}

impl SlotSet {
    #[inline]
    pub fn contains(&self, slot: Slot) -> bool {
        let (piece, word, bit) = place(slot);
        let word = self.pieces.get(piece).and_then(|piece| piece.get(word));
        word.is_some_and(|word| word & bit != 0)
    }

    /// Puts a slot in; false when it was there.
    pub fn insert(&mut self, slot: Slot) -> bool {
        let (piece, word, bit) = place(slot);
        if piece >= self.pieces.len() {
            self.pieces.resize_with(piece + 1, Vec::new);
        }
        let piece = &mut self.pieces[piece];
        if piece.is_empty() {
            piece.resize(PIECE_WORDS, 0);
        }
        let was = piece[word] & bit != 0;
        piece[word] |= bit;
        debug_assert_eq!(piece.len(), PIECE_WORDS, "a piece is whole");
        !was
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_in_it_once_they_were_put_in() {
        let mut set = SlotSet::default();
        let slots = [0, 1, 63, 64, (1 << PIECE_BITS) - 1, 1 << PIECE_BITS, 5 << PIECE_BITS];
        for (count, slot) in slots.iter().enumerate() {
            assert!(!set.contains(*slot));
            assert!(set.insert(*slot) && !set.insert(*slot));
            assert!(slots.iter().take(count + 1).all(|slot| set.contains(*slot)));
        }
        assert!(!set.contains(2) && !set.contains(4 << PIECE_BITS) && !set.contains(Slot::MAX));
        assert!(set.pieces[4].is_empty());
    }
}
