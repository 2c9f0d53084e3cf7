//! A doubly linked list whose links are arrays indexed by slot: eight bytes a slot, no allocation
//! after construction, every operation constant.
//!
//! Invariant: a slot is in the list at most once; `len` slots are linked between the two ends.

use crate::Slot;

/// No slot: an end of the list.
const NONE: u32 = u32::MAX;
/// In `colder` of a slot that is not in the list.
const UNLINKED: u32 = u32::MAX - 1;

/// Slots from coldest to hottest.
#[derive(Debug, Clone)]
pub struct SlotList {
    colder: Vec<u32>,
    hotter: Vec<u32>,
    coldest: u32,
    hottest: u32,
    len: u32,
}

impl SlotList {
    /// An empty list for slots below `max_slots`.
    pub fn new(max_slots: u32) -> Self {
        let slots = max_slots as usize;
        SlotList {
            colder: vec![UNLINKED; slots],
            hotter: vec![NONE; slots],
            coldest: NONE,
            hottest: NONE,
            len: 0,
        }
    }

    /// Makes room for slots below `max_slots`; never shrinks.
    pub fn grow(&mut self, max_slots: u32) {
        let slots = self.colder.len().max(max_slots as usize);
        self.colder.resize(slots, UNLINKED);
        self.hotter.resize(slots, NONE);
    }

    /// Number of slots in the list.
    pub fn len(&self) -> u32 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the slot is in the list.
    #[inline]
    pub fn contains(&self, slot: Slot) -> bool {
        self.colder[slot as usize] != UNLINKED
    }

    pub fn coldest(&self) -> Option<Slot> {
        present(self.coldest)
    }

    pub fn hottest(&self) -> Option<Slot> {
        present(self.hottest)
    }

    /// The next slot towards the hot end.
    #[inline]
    pub fn hotter_than(&self, slot: Slot) -> Option<Slot> {
        present(self.hotter[slot as usize])
    }

    /// Puts a slot that is not in the list at the hot end.
    #[inline]
    pub fn push_hottest(&mut self, slot: Slot) {
        self.link(self.hottest, slot, NONE);
    }

    /// Puts a slot that is not in the list at the cold end.
    #[inline]
    pub fn push_coldest(&mut self, slot: Slot) {
        self.link(NONE, slot, self.coldest);
    }

    /// Puts a slot that is not in the list next to `anchor`, on its cold side.
    pub fn insert_colder_than(&mut self, anchor: Slot, slot: Slot) {
        assert!(self.contains(anchor), "the anchor must be in the list");
        self.link(self.colder[anchor as usize], slot, anchor);
    }

    /// Takes a slot out; false when it was not in the list.
    #[inline]
    pub fn remove(&mut self, slot: Slot) -> bool {
        if !self.contains(slot) {
            return false;
        }
        let (colder, hotter) = (self.colder[slot as usize], self.hotter[slot as usize]);
        match colder {
            NONE => self.coldest = hotter,
            _ => self.hotter[colder as usize] = hotter,
        }
        match hotter {
            NONE => self.hottest = colder,
            _ => self.colder[hotter as usize] = colder,
        }
        self.colder[slot as usize] = UNLINKED;
        self.len -= 1;
        true
    }

    /// Moves a slot of the list to the hot end; does nothing when it is not in the list.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        if self.hottest != slot && self.remove(slot) {
            self.push_hottest(slot);
        }
    }

    /// All slots from coldest to hottest.
    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        std::iter::successors(self.coldest(), |slot| self.hotter_than(*slot))
    }

    #[inline]
    fn link(&mut self, colder: u32, slot: Slot, hotter: u32) {
        assert!(!self.contains(slot), "a slot is in the list at most once");
        self.colder[slot as usize] = colder;
        self.hotter[slot as usize] = hotter;
        match colder {
            NONE => self.coldest = slot,
            _ => self.hotter[colder as usize] = slot,
        }
        match hotter {
            NONE => self.hottest = slot,
            _ => self.colder[hotter as usize] = slot,
        }
        self.len += 1;
    }
}

#[inline]
fn present(slot: u32) -> Option<Slot> {
    (slot != NONE).then_some(slot)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Runs the same moves on the list and on a deque.
    #[test]
    fn the_list_behaves_like_a_deque() {
        let (mut list, mut model) = (SlotList::new(8), VecDeque::new());
        let mut state = 1u64;
        for step in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (slot, action) = ((state >> 40) as u32 % 8, (state >> 50) % 5);
            let there = model.iter().position(|held| *held == slot);
            match (action, there) {
                (0, None) => {
                    list.push_hottest(slot);
                    model.push_back(slot);
                }
                (1, None) => {
                    list.push_coldest(slot);
                    model.push_front(slot);
                }
                (2, None) if !model.is_empty() => {
                    let at = (state >> 33) as usize % model.len();
                    list.insert_colder_than(model[at], slot);
                    model.insert(at, slot);
                }
                (3, _) => {
                    list.touch(slot);
                    if let Some(at) = there {
                        model.remove(at);
                        model.push_back(slot);
                    }
                }
                (4, _) => {
                    assert_eq!(list.remove(slot), there.is_some());
                    there.map(|at| model.remove(at));
                }
                _ => {}
            }
            assert_eq!(list.iter().collect::<VecDeque<_>>(), model, "step {step}");
            assert_eq!(list.len() as usize, model.len());
            assert_eq!(
                (list.coldest(), list.hottest()),
                (model.front().copied(), model.back().copied())
            );
        }
    }
}
