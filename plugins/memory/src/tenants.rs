//! Who is or was in each slot, and from which queue a victim was given away: a victim that stays
//! after all goes back to where it was.
//!
//! Five bytes a slot. Invariant: a slot counts as given away from [`give`](Tenants::give) until
//! something comes into it or it is put back.

use tidegate_plugin::Slot;

use crate::SlotQueues;

/// The slot was not given away as a victim.
const KEPT: u8 = u8::MAX;

/// The tenants of slots, by the part of their fingerprint that is remembered.
#[derive(Debug, Clone)]
pub struct Tenants {
    identity: Vec<u32>,
    /// The queue that the slot was given away from when nothing came in since, or `KEPT`.
    given: Vec<u8>,
}

impl Tenants {
    /// Nobody in slots below `max_slots`.
    pub fn new(max_slots: u32) -> Self {
        let slots = max_slots as usize;
        Tenants { identity: vec![0; slots], given: vec![KEPT; slots] }
    }

    /// Makes room for slots below `max_slots`; never shrinks.
    pub fn grow(&mut self, max_slots: u32) {
        let slots = self.identity.len().max(max_slots as usize);
        self.identity.resize(slots, 0);
        self.given.resize(slots, KEPT);
    }

    /// Who is in the slot, or was there last.
    #[inline]
    pub fn identity(&self, slot: Slot) -> u32 {
        self.identity[slot as usize]
    }

    /// Somebody comes into the slot.
    #[inline]
    pub fn enter(&mut self, slot: Slot, identity: u32) {
        let at = slot as usize;
        (self.identity[at], self.given[at]) = (identity, KEPT);
    }

    /// Nobody will come back to the slot.
    #[inline]
    pub fn leave(&mut self, slot: Slot) {
        self.given[slot as usize] = KEPT;
    }

    /// The slot was taken out of a queue and is given away as a victim.
    #[inline]
    pub fn give(&mut self, slot: Slot, queue: usize) {
        self.given[slot as usize] = queue as u8;
    }

    /// The queue that the slot was given away from, if `identity` was in it and nobody came since:
    /// a victim that was read before the cache took it comes in again like this.
    #[inline]
    pub fn given(&self, slot: Slot, identity: u32) -> Option<usize> {
        let at = slot as usize;
        let queue = self.given[at];
        (queue != KEPT && self.identity[at] == identity).then_some(usize::from(queue))
    }

    /// Puts a slot that was given away, and is in no queue, at the cold end of the one it came from,
    /// and says which that is.
    pub fn put_back<const N: usize>(
        &mut self,
        slot: Slot,
        queues: &mut SlotQueues<N>,
    ) -> Option<usize> {
        if queues.contains(slot) {
            return None;
        }
        let queue = std::mem::replace(&mut self.given[slot as usize], KEPT);
        if queue == KEPT {
            return None;
        }
        queues.push_coldest(usize::from(queue), slot);
        Some(usize::from(queue))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_victim_goes_back_once_to_the_cold_end_of_its_queue() {
        let (mut tenants, mut queues) = (Tenants::new(2), SlotQueues::<2>::new(2));
        tenants.grow(4);
        queues.grow(4);
        for slot in 0..4 {
            tenants.enter(slot, slot + 100);
            queues.push_hottest(1, slot);
        }
        assert_eq!(tenants.put_back(1, &mut queues), None, "it is in its queue");
        assert_eq!(tenants.given(1, 101), None);
        for slot in [0, 1] {
            assert_eq!(queues.pop_coldest(1), Some(slot));
            tenants.give(slot, 1);
        }
        assert_eq!((tenants.given(1, 101), tenants.given(1, 102)), (Some(1), None));
        assert_eq!(tenants.put_back(1, &mut queues), Some(1));
        assert_eq!(tenants.put_back(1, &mut queues), None);
        assert!(queues.iter(1).eq([1, 2, 3]));
        // Somebody else came into slot 0 and left: there is nothing to put back.
        tenants.enter(0, 200);
        assert_eq!((tenants.given(0, 200), tenants.put_back(0, &mut queues)), (None, None));
        queues.pop_coldest(1);
        tenants.give(1, 1);
        tenants.leave(1);
        assert_eq!((tenants.given(1, 101), tenants.put_back(1, &mut queues)), (None, None));
        assert_eq!(tenants.identity(1), 101);
    }
}
