//! The cached partitions of a table, in ring order and by token.
//!
//! A look-up by token costs one cache line; a walk down an ordered map costs one a level. The table
//! by token grows by linear hashing (Litwin, VLDB'80): it splits one bucket for every few
//! insertions, so nobody waits for a rehash. Beside the handle, a bucket hints at the memory that a
//! read touches next, so that the read fetches all of it at once.
//!
//! Invariant: both hold the same partitions.

use std::borrow::Borrow;
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::rc::Rc;

use super::Handle;
use super::tree::Version;
use crate::policy::SlotArray;
use crate::prefetch::{LINE_BYTES, Memory};
use crate::schema::{PartitionKey, Token};

/// Places of a bucket, which is a line of memory.
const PLACES: usize = 3;
/// Lines of a root that are fetched ahead: a full leaf has as many in front of its slots.
const ROOT_LINES_MAX: usize = 22;
/// Partitions for each bucket, in quarters: some have more, few are full.
const FILL_QUARTERS: usize = 6;
/// Rows of each partition that a scan has fetched ahead.
const ROWS_FETCHED_MAX: usize = 8;

/// See the head of this file.
#[derive(Default)]
pub(super) struct Partitions {
    ring: BTreeSet<Place>,
    buckets: SlotArray<Bucket>,
    /// How often a partition came or went.
    changes: u64,
}

/// A partition's place in the ring; searching looks at tokens only, side by side.
struct Place {
    token: Token,
    handle: Rc<Handle>,
}

/// What stands in ring order: by token, and where that is the same by the whole key.
trait OnRing {
    fn token(&self) -> Token;
    fn key(&self) -> &PartitionKey;
}

impl OnRing for PartitionKey {
    fn token(&self) -> Token {
        self.token()
    }

    fn key(&self) -> &PartitionKey {
        self
    }
}

/// A key as the ring is searched for it.
fn on_ring(key: &PartitionKey) -> &(dyn OnRing + 'static) {
    key
}

impl OnRing for Place {
    #[inline]
    fn token(&self) -> Token {
        self.token
    }

    #[inline]
    fn key(&self) -> &PartitionKey {
        &self.handle.key
    }
}

impl Ord for dyn OnRing {
    fn cmp(&self, other: &Self) -> Ordering {
        self.token().cmp(&other.token()).then_with(|| self.key().cmp(other.key()))
    }
}

impl PartialOrd for dyn OnRing {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn OnRing {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for dyn OnRing {}

impl Borrow<dyn OnRing> for Place {
    fn borrow(&self) -> &(dyn OnRing + 'static) {
        self
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        let (own, other): (&dyn OnRing, &dyn OnRing) = (self, other);
        own.cmp(other)
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Place {}

/// Where a partition's version and the root of its tree lay when it was found last, as seen from
/// its handle: they are fetched while the handle is. Only a hint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C, packed)]
struct Near {
    version: i32,
    root: i32,
    root_lines: u8,
}

/// Addresses of what is allocated differ by a multiple of this; what is further away than this
/// allows for is not hinted at.
const NEAR_UNIT: usize = 16;

impl Near {
    #[inline]
    fn of(handle: &Rc<Handle>, version: &Rc<Version>, root: Memory) -> Self {
        let start = Memory::of_shared(handle).address;
        let from_handle = |address: usize| (address.wrapping_sub(start) / NEAR_UNIT) as i32;
        let version = from_handle(Memory::of_shared(version).address);
        let root_lines = root.bytes.div_ceil(LINE_BYTES).min(ROOT_LINES_MAX) as u8;
        Near { version, root: from_handle(root.address), root_lines }
    }

    #[inline]
    fn prefetch(self, handle: &Rc<Handle>) {
        let handle = Memory::of_shared(handle);
        let at = |near: i32| {
            handle.address.wrapping_add_signed((near as isize).wrapping_mul(NEAR_UNIT as isize))
        };
        handle.prefetch();
        Memory { address: at(self.version), bytes: LINE_BYTES }.prefetch();
        let bytes = usize::from(self.root_lines) * LINE_BYTES;
        Memory { address: at(self.root), bytes }.prefetch();
    }
}

/// Places are taken from the first on.
#[derive(Default)]
#[repr(align(64))]
struct Bucket {
    near: [Cell<Near>; PLACES],
    /// The upper bits of tokens; the lower ones are alike in a bucket.
    tags: [u8; PLACES],
    handles: [Option<Rc<Handle>>; PLACES],
    /// What found no place.
    more: Option<Box<Bucket>>,
}

fn tag_of(token: Token) -> u8 {
    (token.0 >> 56) as u8
}

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    fn push(&mut self, handle: Rc<Handle>) {
        match self.handles.iter().position(Option::is_none) {
            Some(at) => self.put(at, handle),
            None => self.more.get_or_insert_default().push(handle),
        }
    }

    fn put(&mut self, at: usize, handle: Rc<Handle>) {
        self.tags[at] = tag_of(handle.key.token());
        self.near[at] = Cell::default();
        self.handles[at] = Some(handle);
    }

    /// Removes one of the partitions.
    fn pop(&mut self) -> Option<Rc<Handle>> {
        if let Some(more) = &mut self.more
            && let Some(last) = more.pop()
        {
            return Some(last);
        }
        self.more = None;
        let at = self.handles.iter().rposition(Option::is_some)?;
        self.handles[at].take()
    }

    #[inline]
    fn get(&self, key: &PartitionKey) -> Option<(&Rc<Handle>, &Cell<Near>)> {
        for ((tag, handle), near) in self.tags.iter().zip(&self.handles).zip(&self.near) {
            let handle = handle.as_ref()?;
            if *tag == tag_of(key.token()) {
                near.get().prefetch(handle);
                if handle.is_of(key) {
                    return Some((handle, near));
                }
            }
        }
        self.more.as_ref()?.get(key)
    }

    /// How many partitions stand here.
    fn len(&self) -> usize {
        let more = self.more.as_ref().map_or(0, |more| more.len());
        self.handles.iter().flatten().count() + more
    }

    /// Whether a partition stands here.
    fn has(&self, key: &PartitionKey) -> bool {
        self.get(key).is_some()
    }

    /// The last one takes the place of the one that leaves.
    fn remove(&mut self, key: &PartitionKey) {
        let Some(last) = self.pop() else { return };
        if last.is_of(key) {
            return;
        }
        let mut bucket = self;
        loop {
            let is_it = |handle: &Option<Rc<Handle>>| handle.as_ref().is_some_and(|h| h.is_of(key));
            if let Some(at) = bucket.handles.iter().position(is_it) {
                return bucket.put(at, last);
            }
            bucket = bucket.more.as_mut().expect("what is in the ring is in its bucket");
        }
    }
}

impl Partitions {
    pub(super) fn len(&self) -> usize {
        self.ring.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    #[inline]
    pub(super) fn get(&self, key: &PartitionKey) -> Option<&Rc<Handle>> {
        self.place(key).map(|(handle, _)| handle)
    }

    #[inline]
    fn place(&self, key: &PartitionKey) -> Option<(&Rc<Handle>, &Cell<Near>)> {
        if self.buckets.is_empty() {
            return None;
        }
        self.buckets[self.bucket_of(key.token())].get(key)
    }

    /// The partition with its version as `version_of` gives it, and where they lie next time is
    /// known.
    #[inline]
    pub(super) fn find(
        &self,
        key: &PartitionKey,
        version_of: impl FnOnce(&Rc<Handle>) -> (Rc<Version>, Memory),
    ) -> Option<(Rc<Handle>, Rc<Version>)> {
        let (handle, near) = self.place(key)?;
        Memory::of_shared(&handle.key).prefetch();
        let (version, root) = version_of(handle);
        let now = Near::of(handle, &version, root);
        if near.get() != now {
            near.set(now);
        }
        Some((handle.clone(), version))
    }

    pub(super) fn contains_key(&self, key: &PartitionKey) -> bool {
        self.get(key).is_some()
    }

    /// In ring order.
    pub(super) fn values(&self) -> impl Iterator<Item = &Rc<Handle>> {
        self.ring.iter().map(|place| &place.handle)
    }

    /// Those with a token.
    pub(super) fn with_token(&self, token: Token) -> impl Iterator<Item = &Rc<Handle>> {
        let first = (!self.buckets.is_empty()).then(|| &self.buckets[self.bucket_of(token)]);
        let buckets = std::iter::successors(first, |bucket| bucket.more.as_deref());
        let handles = buckets.flat_map(|bucket| bucket.handles.iter().flatten());
        handles.filter(move |handle| handle.key.token() == token)
    }

    /// In ring order, those within bounds.
    pub(super) fn range(
        &self,
        (from, to): (Bound<&PartitionKey>, Bound<&PartitionKey>),
    ) -> impl Iterator<Item = &Rc<Handle>> {
        let range = (from.map(on_ring), to.map(on_ring));
        self.ring.range::<dyn OnRing, _>(range).map(|place| &place.handle)
    }

    /// How often a partition came or went: what was seen of the ring is as it was while this is.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Adds up to `max` partitions behind a key (the first ones without) to `handles`, in ring
    /// order. What a read of a short one touches is on its way to the processor then.
    pub(super) fn ahead(
        &self,
        key: Option<&PartitionKey>,
        max: usize,
        handles: &mut VecDeque<Rc<Handle>>,
    ) {
        let from = key.map_or(Bound::Unbounded, |key| Bound::Excluded(on_ring(key)));
        let places = self.ring.range::<dyn OnRing, _>((from, Bound::Unbounded)).take(max);
        // All of one kind are fetched side by side, then what they point to.
        places.clone().for_each(|place| place.handle.prefetch(0));
        let before = handles.len();
        handles.extend(places.map(|place| place.handle.clone()));
        debug_assert!(handles.len() - before <= max, "so many were wanted");
        debug_assert!(handles.iter().is_sorted_by(|a, b| a.key < b.key), "they come in ring order");
        for step in 1..Handle::PREFETCH_STEPS {
            handles.range(before..).for_each(|handle| handle.prefetch(step));
        }
        handles.range(before..).for_each(|handle| handle.prefetch_rows(ROWS_FETCHED_MAX));
    }

    /// All partitions, which leave.
    pub(super) fn take(&mut self) -> Partitions {
        let changes = self.changes + 1;
        std::mem::replace(self, Partitions { changes, ..Partitions::default() })
    }

    /// Adds a partition that is not there.
    pub(super) fn insert(&mut self, handle: Rc<Handle>) {
        self.changes += 1;
        let token = handle.key.token();
        let is_new = self.ring.insert(Place { token, handle: handle.clone() });
        assert!(is_new, "a partition comes in once");
        if self.buckets.len() * FILL_QUARTERS < self.ring.len() * 4 {
            self.split();
        }
        let bucket = self.bucket_of(token);
        debug_assert!(!self.buckets[bucket].has(&handle.key), "a partition stands in one bucket");
        self.buckets[bucket].push(handle);
    }

    pub(super) fn remove(&mut self, key: &PartitionKey) {
        self.changes += 1;
        if self.ring.remove::<dyn OnRing>(key) {
            let bucket = self.bucket_of(key.token());
            self.buckets[bucket].remove(key);
            debug_assert!(!self.buckets[bucket].has(key), "a partition stands in one bucket");
        }
    }

    /// Walks all of them: ring and buckets hold the same.
    pub(super) fn check(&self) {
        let mut last: Option<&Place> = None;
        for place in &self.ring {
            assert!(last.is_none_or(|last| last < place), "partitions stand in ring order");
            assert_eq!(place.token, place.handle.key.token(), "a place has the token of its key");
            let found = self.get(&place.handle.key);
            let is_same = found.is_some_and(|found| Rc::ptr_eq(found, &place.handle));
            assert!(is_same, "a partition of the ring is found by its token");
            last = Some(place);
        }
        let counts = (0..self.buckets.len()).map(|bucket| self.buckets[bucket as u32].len());
        assert_eq!(counts.sum::<usize>(), self.ring.len(), "buckets hold what is in the ring");
    }

    /// Buckets are numbered by the lower bits of tokens: by as many as all buckets need, or one
    /// less where that bucket has not been split off yet.
    #[inline]
    fn bucket_of(&self, token: Token) -> u32 {
        let count = self.buckets.len();
        let mask = count.next_power_of_two() - 1;
        let bucket = token.0 as usize & mask;
        let bucket = if bucket < count { bucket } else { bucket & mask >> 1 };
        debug_assert!(bucket < count, "a token has a bucket");
        bucket as u32
    }

    /// Adds a bucket, which takes its share of the one it is split off from.
    fn split(&mut self) {
        let new = self.buckets.len();
        self.buckets.push(Bucket::default());
        if new == 0 {
            return;
        }
        let old = new - (new + 1).next_power_of_two() / 2;
        let mut whole = std::mem::take(&mut self.buckets[old as u32]);
        while let Some(handle) = whole.pop() {
            let bucket = self.bucket_of(handle.key.token());
            self.buckets[bucket].push(handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Random;

    #[test]
    fn every_partition_is_found_by_its_key_however_many_came_and_left() {
        let mut partitions = Partitions::default();
        let mut random = Random::new(1);
        for step in 0..6000 {
            let number = random.below(2000);
            let key = key_of(number);
            let grows = random.below(10) < if step < 4000 { 8 } else { 2 };
            match (partitions.contains_key(&key), grows) {
                (false, true) => partitions.insert(Rc::new(Handle::of_key(key))),
                (true, false) => partitions.remove(&key),
                _ => {}
            }
            if step % 500 == 0 {
                let mut count = 0;
                for number in 0..2000 {
                    let key = key_of(number);
                    let in_ring = partitions.ring.get::<dyn OnRing>(&key);
                    let in_ring = in_ring.map(|place| Rc::as_ptr(&place.handle));
                    let found = partitions.get(&key);
                    assert_eq!(found.map(Rc::as_ptr), in_ring);
                    count += usize::from(found.is_some());
                }
                assert_eq!(count, partitions.len());
                assert!(partitions.values().is_sorted_by_key(|handle| handle.key.clone()));
                let (from, to) = (key_of(random.below(2000)), key_of(random.below(2000)));
                let is_in = |handle: &&Rc<Handle>| *handle.key > from && *handle.key <= to;
                let wanted: Vec<_> = partitions.values().filter(is_in).map(Rc::as_ptr).collect();
                if from < to {
                    let range = (Bound::Excluded(&from), Bound::Included(&to));
                    let found: Vec<_> = partitions.range(range).map(Rc::as_ptr).collect();
                    assert_eq!(found, wanted);
                }
            }
        }
        for number in 0..2000 {
            partitions.remove(&key_of(number));
        }
        assert!(partitions.is_empty());
        assert!(partitions.get(&key_of(1)).is_none());
    }

    #[test]
    fn keys_of_one_token_are_told_apart() {
        let mut bucket = Bucket::default();
        let keys: Vec<PartitionKey> = (0..10).map(key_of).collect();
        for key in &keys {
            bucket.push(Rc::new(Handle::of_key(key.clone())));
        }
        for (at, key) in keys.iter().enumerate() {
            bucket.remove(key);
            let mut left = 0;
            let mut place = Some(&bucket);
            while let Some(bucket) = place {
                left += bucket.handles.iter().flatten().count();
                assert!(!bucket.handles.iter().flatten().any(|handle| handle.is_of(key)));
                place = bucket.more.as_deref();
            }
            assert_eq!(left, keys.len() - at - 1);
        }
    }

    fn key_of(number: u64) -> PartitionKey {
        PartitionKey::from_bytes(number.to_be_bytes())
    }
}
