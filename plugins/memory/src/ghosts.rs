//! Entries that are gone and still remembered, by fingerprint: an index from fingerprints to places
//! and, on top of it, queues of ghosts in order of departure.
//!
//! 32 bits of a fingerprint are kept. Among a million ghosts a stranger is taken for one of them
//! once in four thousand inserts, which moves an entry to another queue and nothing else.
//!
//! Invariant: what is found depends on the calls alone; nothing here is iterated by hash.

use crate::SlotQueues;

/// An empty bucket, and the end of the chain of free places.
const NONE: u32 = u32::MAX;

/// The part of a fingerprint that is remembered. Fingerprints are keyed hashes: any bits will do.
#[inline]
pub fn shorten(fingerprint: u64) -> u32 {
    fingerprint as u32
}

/// Where fingerprints stand in an array of them. Open addressing, at most half full.
#[derive(Debug, Clone)]
pub struct FingerprintIndex {
    buckets: Vec<u32>,
    shift: u32,
}

impl FingerprintIndex {
    /// An index for at most `places` fingerprints.
    pub fn new(places: u32) -> Self {
        let buckets = (places as usize * 2).next_power_of_two().max(4);
        FingerprintIndex { buckets: vec![NONE; buckets], shift: 32 - buckets.trailing_zeros() }
    }

    /// Place of a fingerprint in `fingerprints`, the array that all calls are about.
    #[inline]
    pub fn find(&self, fingerprint: u32, fingerprints: &[u32]) -> Option<u32> {
        let mut bucket = self.home(fingerprint);
        loop {
            match self.buckets[bucket] {
                NONE => return None,
                place if fingerprints[place as usize] == fingerprint => return Some(place),
                _ => bucket = self.after(bucket),
            }
        }
    }

    /// Notes where a fingerprint stands that is not in the index.
    #[inline]
    pub fn insert(&mut self, fingerprint: u32, place: u32) {
        let mut bucket = self.home(fingerprint);
        while self.buckets[bucket] != NONE {
            bucket = self.after(bucket);
        }
        self.buckets[bucket] = place;
    }

    /// Forgets the fingerprint at `place`, which is in the index and still in the array.
    pub fn remove(&mut self, place: u32, fingerprints: &[u32]) {
        let mut hole = self.home(fingerprints[place as usize]);
        while self.buckets[hole] != place {
            assert!(self.buckets[hole] != NONE, "the fingerprint is in the index");
            hole = self.after(hole);
        }
        // Close the gap: whoever stands behind it and may stand in it moves there.
        let mut bucket = self.after(hole);
        loop {
            let other = self.buckets[bucket];
            if other == NONE {
                break;
            }
            let home = self.home(fingerprints[other as usize]);
            if self.distance(home, bucket) >= self.distance(hole, bucket) {
                self.buckets[hole] = other;
                hole = bucket;
            }
            bucket = self.after(bucket);
        }
        self.buckets[hole] = NONE;
    }

    #[inline]
    fn home(&self, fingerprint: u32) -> usize {
        (fingerprint.wrapping_mul(0x9E37_79B1) >> self.shift) as usize
    }

    #[inline]
    fn after(&self, bucket: usize) -> usize {
        (bucket + 1) & (self.buckets.len() - 1)
    }

    #[inline]
    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.buckets.len() - 1)
    }
}

/// `N` queues of fingerprints in order of departure, a bounded number of them in all; one is in one
/// queue at most. 21 to 29 bytes each: an index is at most half full and at least a quarter.
#[derive(Debug, Clone)]
pub struct Ghosts<const N: usize> {
    /// Of a free place: the next free one.
    fingerprints: Vec<u32>,
    order: SlotQueues<N>,
    index: FingerprintIndex,
    free: u32,
}

impl<const N: usize> Ghosts<N> {
    /// Room for `max` ghosts.
    pub fn new(max: u32) -> Self {
        let mut ghosts = Ghosts {
            fingerprints: Vec::new(),
            order: SlotQueues::new(0),
            index: FingerprintIndex::new(0),
            free: NONE,
        };
        ghosts.grow(max);
        ghosts
    }

    /// Makes room for `max` ghosts; never shrinks.
    pub fn grow(&mut self, max: u32) {
        let held = self.fingerprints.len() as u32;
        if max <= held {
            return;
        }
        self.order.grow(max);
        self.fingerprints.extend((held..max).map(|place| place + 1));
        let last = self.fingerprints.last_mut().expect("max is above 0");
        *last = self.free;
        self.free = held;
        self.index = FingerprintIndex::new(max);
        for place in (0..N).flat_map(|queue| self.order.iter(queue)) {
            self.index.insert(self.fingerprints[place as usize], place);
        }
    }

    /// Number of ghosts in one queue.
    #[inline]
    pub fn len(&self, queue: usize) -> u32 {
        self.order.len(queue)
    }

    /// Whether one more can be remembered without another having to go.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.free != NONE
    }

    /// Remembers a fingerprint as the newest of a queue; without room the oldest of it goes, and if
    /// it has none nothing is remembered. The place, below the bound, is the ghost's until it goes.
    pub fn push(&mut self, queue: usize, fingerprint: u32) -> Option<u32> {
        self.remove(fingerprint);
        if self.free == NONE && !self.drop_oldest(queue) {
            return None;
        }
        let place = self.free;
        self.free = self.fingerprints[place as usize];
        self.fingerprints[place as usize] = fingerprint;
        self.order.push_hottest(queue, place);
        self.index.insert(fingerprint, place);
        Some(place)
    }

    /// The place of a ghost.
    #[inline]
    pub fn find(&self, fingerprint: u32) -> Option<u32> {
        self.index.find(fingerprint, &self.fingerprints)
    }

    /// The place of the oldest ghost of a queue.
    pub fn oldest(&self, queue: usize) -> Option<u32> {
        self.order.coldest(queue)
    }

    /// Forgets the ghost at a place.
    pub fn forget(&mut self, place: u32) {
        assert!(self.order.contains(place), "there is a ghost");
        self.release(place);
    }

    /// Forgets a fingerprint and says in which queue it was.
    #[inline]
    pub fn remove(&mut self, fingerprint: u32) -> Option<usize> {
        let place = self.find(fingerprint)?;
        let queue = self.order.queue_of(place);
        self.release(place);
        queue
    }

    /// Forgets the oldest of a queue; false when there is none.
    pub fn drop_oldest(&mut self, queue: usize) -> bool {
        match self.order.coldest(queue) {
            None => false,
            Some(place) => {
                self.release(place);
                true
            }
        }
    }

    /// Forgets the oldest of a queue until at most `max` are left, but two at most: a bound that
    /// fell far is reached over many calls.
    pub fn trim(&mut self, queue: usize, max: u32) {
        for _ in 0..2 {
            if self.len(queue) <= max {
                return;
            }
            self.drop_oldest(queue);
        }
    }

    fn release(&mut self, place: u32) {
        self.index.remove(place, &self.fingerprints);
        self.order.remove(place);
        self.fingerprints[place as usize] = self.free;
        self.free = place;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn ghosts_behave_like_bounded_deques() {
        let mut ghosts = Ghosts::<2>::new(0);
        let mut model: [VecDeque<u32>; 2] = Default::default();
        let (mut state, mut max) = (5u64, 0);
        for step in 0..60_000 {
            if step == 10 || step == 20_000 || step == 40_000 {
                max = 7 + step / 1000;
                ghosts.grow(max as u32);
            }
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let fingerprint = (state >> 40) as u32 % 97;
            let queue = (state >> 50) as usize % 2;
            let forget = |model: &mut [VecDeque<u32>; 2]| {
                let there = model.iter().position(|held| held.contains(&fingerprint));
                model.iter_mut().for_each(|held| held.retain(|other| *other != fingerprint));
                there
            };
            match (state >> 33) % 4 {
                0 | 1 => {
                    let place = ghosts.push(queue, fingerprint);
                    assert_eq!(place, ghosts.find(fingerprint));
                    forget(&mut model);
                    if model[0].len() + model[1].len() < max || model[queue].pop_front().is_some() {
                        model[queue].push_back(fingerprint);
                    }
                }
                2 => assert_eq!(ghosts.remove(fingerprint), forget(&mut model), "step {step}"),
                _ if state >> 60 == 0 => {
                    let room = model[queue].len() / 2;
                    while ghosts.len(queue) as usize > room {
                        ghosts.trim(queue, room as u32);
                    }
                    let gone = model[queue].len() - room;
                    model[queue].drain(..gone);
                }
                _ => assert_eq!(ghosts.drop_oldest(queue), model[queue].pop_front().is_some()),
            }
            for (queue, held) in model.iter().enumerate() {
                assert_eq!(ghosts.len(queue) as usize, held.len(), "step {step}");
            }
            for fingerprint in 0..97 {
                let place = ghosts.index.find(fingerprint, &ghosts.fingerprints);
                let found = place.and_then(|place| ghosts.order.queue_of(place));
                let held = model.iter().position(|held| held.contains(&fingerprint));
                assert_eq!(found, held, "step {step}: {fingerprint}");
            }
        }
    }

    #[test]
    fn a_fingerprint_is_shortened_to_its_low_half() {
        assert_eq!(shorten(0xAAAA_BBBB_CCCC_DDDD), 0xCCCC_DDDD);
    }
}
