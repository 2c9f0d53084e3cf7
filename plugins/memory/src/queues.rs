//! Several doubly linked queues over one array of links: nine bytes a slot however many queues, no
//! allocation after construction, every operation constant.
//!
//! Invariant: a slot is in at most one queue, once; `len` slots are linked between the ends of each.

use tidegate_plugin::Slot;

/// No slot: an end of a queue.
const NONE: u32 = u32::MAX;
/// Not in a queue.
const OUT: u8 = u8::MAX;

/// `N` queues of slots, each from coldest to hottest.
#[derive(Debug, Clone)]
pub struct SlotQueues<const N: usize> {
    links: Vec<Link>,
    queue: Vec<u8>,
    ends: [Ends; N],
}

#[derive(Debug, Clone, Copy)]
struct Link {
    colder: u32,
    hotter: u32,
}

#[derive(Debug, Clone, Copy)]
struct Ends {
    coldest: u32,
    hottest: u32,
    len: u32,
}

const EMPTY: Ends = Ends { coldest: NONE, hottest: NONE, len: 0 };
const UNLINKED: Link = Link { colder: NONE, hotter: NONE };

impl<const N: usize> SlotQueues<N> {
    /// Empty queues for slots below `max_slots`.
    pub fn new(max_slots: u32) -> Self {
        assert!(N > 0 && N < usize::from(OUT), "queues are numbered by a byte");
        let slots = max_slots as usize;
        SlotQueues { links: vec![UNLINKED; slots], queue: vec![OUT; slots], ends: [EMPTY; N] }
    }

    /// Makes room for slots below `max_slots`; never shrinks.
    pub fn grow(&mut self, max_slots: u32) {
        let slots = self.links.len().max(max_slots as usize);
        self.links.resize(slots, UNLINKED);
        self.queue.resize(slots, OUT);
    }

    /// Number of slots in one queue.
    #[inline]
    pub fn len(&self, queue: usize) -> u32 {
        self.ends[queue].len
    }

    /// Number of slots in all queues.
    #[inline]
    pub fn total(&self) -> u32 {
        self.ends.iter().map(|ends| ends.len).sum()
    }

    /// The queue that the slot is in.
    #[inline]
    pub fn queue_of(&self, slot: Slot) -> Option<usize> {
        let queue = self.queue[slot as usize];
        (queue != OUT).then_some(usize::from(queue))
    }

    /// Whether the slot is in a queue.
    #[inline]
    pub fn contains(&self, slot: Slot) -> bool {
        self.queue[slot as usize] != OUT
    }

    #[inline]
    pub fn coldest(&self, queue: usize) -> Option<Slot> {
        present(self.ends[queue].coldest)
    }

    /// Puts a slot that is in no queue at the hot end of one.
    #[inline]
    pub fn push_hottest(&mut self, queue: usize, slot: Slot) {
        self.enter(queue, slot);
        let hottest = self.ends[queue].hottest;
        self.links[slot as usize] = Link { colder: hottest, hotter: NONE };
        self.ends[queue].hottest = slot;
        match hottest {
            NONE => self.ends[queue].coldest = slot,
            _ => self.links[hottest as usize].hotter = slot,
        }
    }

    /// Puts a slot that is in no queue at the cold end of one.
    pub fn push_coldest(&mut self, queue: usize, slot: Slot) {
        self.enter(queue, slot);
        let coldest = self.ends[queue].coldest;
        self.links[slot as usize] = Link { colder: NONE, hotter: coldest };
        self.ends[queue].coldest = slot;
        match coldest {
            NONE => self.ends[queue].hottest = slot,
            _ => self.links[coldest as usize].colder = slot,
        }
    }

    /// Takes a slot out of its queue and says which that was.
    #[inline]
    pub fn remove(&mut self, slot: Slot) -> Option<usize> {
        let queue = self.queue_of(slot)?;
        let Link { colder, hotter } = self.links[slot as usize];
        match colder {
            NONE => self.ends[queue].coldest = hotter,
            _ => self.links[colder as usize].hotter = hotter,
        }
        match hotter {
            NONE => self.ends[queue].hottest = colder,
            _ => self.links[hotter as usize].colder = colder,
        }
        self.queue[slot as usize] = OUT;
        self.ends[queue].len -= 1;
        Some(queue)
    }

    /// Takes out the coldest slot of a queue.
    #[inline]
    pub fn pop_coldest(&mut self, queue: usize) -> Option<Slot> {
        let slot = self.coldest(queue)?;
        let hotter = self.links[slot as usize].hotter;
        let ends = &mut self.ends[queue];
        ends.coldest = hotter;
        ends.len -= 1;
        match hotter {
            NONE => ends.hottest = NONE,
            _ => self.links[hotter as usize].colder = NONE,
        }
        self.queue[slot as usize] = OUT;
        Some(slot)
    }

    /// Moves a slot, wherever it is, to the hot end of a queue.
    #[inline]
    pub fn move_hottest(&mut self, queue: usize, slot: Slot) {
        if self.ends[queue].hottest != slot {
            self.remove(slot);
            self.push_hottest(queue, slot);
        }
    }

    /// The slots of one queue from coldest to hottest.
    pub fn iter(&self, queue: usize) -> impl Iterator<Item = Slot> + '_ {
        std::iter::successors(self.coldest(queue), |slot| {
            present(self.links[*slot as usize].hotter)
        })
    }

    #[inline]
    fn enter(&mut self, queue: usize, slot: Slot) {
        assert!(!self.contains(slot), "a slot is in one queue at most");
        self.queue[slot as usize] = queue as u8;
        self.ends[queue].len += 1;
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

    /// Runs the same moves on the queues and on deques.
    #[test]
    fn the_queues_behave_like_deques() {
        let mut queues = SlotQueues::<3>::new(4);
        queues.grow(9);
        let mut model: [VecDeque<Slot>; 3] = Default::default();
        let mut state = 3u64;
        for step in 0..30_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (slot, queue) = ((state >> 40) as u32 % 9, (state >> 33) as usize % 3);
            let there = model.iter().position(|held| held.contains(&slot));
            assert_eq!(queues.queue_of(slot), there);
            match ((state >> 50) % 5, there) {
                (0, None) => {
                    queues.push_hottest(queue, slot);
                    model[queue].push_back(slot);
                }
                (1, None) => {
                    queues.push_coldest(queue, slot);
                    model[queue].push_front(slot);
                }
                (2, _) => assert_eq!(queues.pop_coldest(queue), model[queue].pop_front()),
                (3, _) => {
                    queues.move_hottest(queue, slot);
                    there.iter().for_each(|from| model[*from].retain(|held| *held != slot));
                    model[queue].push_back(slot);
                }
                (4, _) => {
                    assert_eq!(queues.remove(slot), there);
                    there.iter().for_each(|from| model[*from].retain(|held| *held != slot));
                }
                _ => {}
            }
            for (queue, held) in model.iter().enumerate() {
                assert!(queues.iter(queue).eq(held.iter().copied()), "step {step}, queue {queue}");
                assert_eq!(queues.len(queue) as usize, held.len());
            }
            assert_eq!(queues.total() as usize, model.iter().map(VecDeque::len).sum::<usize>());
        }
    }
}
