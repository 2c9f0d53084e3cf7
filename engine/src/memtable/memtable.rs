//! A sorted map of partitions that takes writes until it is sealed.
//!
//! Invariant: once sealed and without writes in flight a memtable never changes again. The bytes of
//! a memtable count towards its shard's until it is released.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

use super::partition::Partition;
use crate::commitlog::ReplayPosition;
use crate::mutation::Mutation;
use crate::runtime;
use crate::schema::PartitionKey;

/// Bookkeeping bytes of a partition beyond its rows: its place in the map, an empty list of range
/// tombstones, and the first node of its rows.
const PARTITION_OVERHEAD_BYTES: usize = 512;

/// Shared handle on one partition: readers keep it while the map grows.
pub(super) type PartitionHandle = Rc<RefCell<Partition>>;

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Memtable {
    pub(super) partitions: RefCell<BTreeMap<Rc<PartitionKey>, PartitionHandle>>,
    /// The partition that was written to last: rows of one partition often come together.
    latest: RefCell<Option<(Rc<PartitionKey>, PartitionHandle)>>,
    bytes: Cell<usize>,
    /// Bytes of all memtables of the shard that were not released.
    shard_bytes: Rc<Cell<usize>>,
    released: Cell<bool>,
    rows: Cell<usize>,
    sealed: Cell<bool>,
    writes_in_flight: Cell<usize>,
    lowest: Cell<Option<ReplayPosition>>,
    highest: Cell<Option<ReplayPosition>>,
    /// A write came from the log of another shard count.
    has_others: Cell<bool>,
    /// Least timestamp of a write that was announced; none before the first.
    oldest: Cell<Option<i64>>,
    settled: tokio::sync::Notify,
}

/// Size of a memtable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemtableStats {
    pub bytes: usize,
    pub rows: usize,
    pub partitions: usize,
}

/// Rows of a partition that are freed in one go: some microseconds.
const ROWS_FREED_AT_ONCE: usize = 64;

impl Memtable {
    /// An empty memtable that adds its bytes to `shard_bytes`.
    pub fn new(shard_bytes: Rc<Cell<usize>>) -> Rc<Self> {
        Rc::new(Memtable { shard_bytes, ..Memtable::default() })
    }

    /// Announces a write that is on its way through the commitlog at `position`; the memtable is
    /// not flushed before it was applied or given up.
    pub fn begin_write(
        self: &Rc<Self>,
        position: ReplayPosition,
        mutation: Mutation,
    ) -> PendingWrite {
        self.announce(position, &mutation);
        self.writes_in_flight.set(self.writes_in_flight.get() + 1);
        PendingWrite { memtable: self.clone(), mutation: Some(mutation) }
    }

    /// Merges in a write at `position` of the commitlog, which is durable enough already. Its parts
    /// leave `mutation`, which is of no use afterwards.
    pub fn write(&self, position: ReplayPosition, mutation: &mut Mutation) {
        self.announce(position, mutation);
        self.apply(mutation);
    }

    fn announce(&self, position: ReplayPosition, mutation: &Mutation) {
        assert!(!self.sealed.get(), "a sealed memtable takes no new writes");
        let last = self.highest.get();
        assert!(last < Some(position), "a write at {position:?} is announced behind {last:?}");
        self.note(position);
        self.note_timestamp(mutation);
    }

    /// Merges in a write that came back from the commitlog of an earlier run; `position` where that
    /// was this shard's own log, not one of another shard count.
    pub fn replay(&self, position: Option<ReplayPosition>, mut mutation: Mutation) {
        assert!(!self.sealed.get(), "a sealed memtable takes no writes of an earlier run");
        match position {
            Some(position) => self.note(position),
            None => self.has_others.set(true),
        }
        self.note_timestamp(&mutation);
        self.apply(&mut mutation);
    }

    fn note(&self, position: ReplayPosition) {
        self.lowest.set(Some(self.lowest.get().map_or(position, |lowest| lowest.min(position))));
        self.highest.set(self.highest.get().max(Some(position)));
    }

    fn note_timestamp(&self, mutation: &Mutation) {
        let (known, own) = (self.oldest.get(), mutation.oldest_timestamp());
        let oldest = known.into_iter().chain(own).min();
        self.oldest.set(oldest);
        assert!(
            own.is_none_or(|own| oldest <= Some(own)),
            "a write of {own:?} in a memtable whose oldest is of {oldest:?}"
        );
    }

    /// No write that was announced, be it applied or not, has a timestamp below this one;
    /// `i64::MAX` when there was none.
    pub fn oldest_timestamp(&self) -> i64 {
        self.oldest.get().unwrap_or(i64::MAX)
    }

    /// Waits until no write is in flight.
    pub async fn wait_for_writes(&self) {
        while self.writes_in_flight.get() > 0 {
            self.settled.notified().await;
        }
    }

    /// Merges a write in, whose parts leave `mutation`.
    fn apply(&self, mutation: &mut Mutation) {
        let written = mutation.rows.len();
        let mut latest = self.latest.borrow_mut();
        let (_, partition) = match latest.take() {
            Some(same) if *same.0 == mutation.key => latest.insert(same),
            _ => latest.insert(self.partition_of(mutation)),
        };
        let growth = partition.borrow_mut().apply(mutation);
        let added = growth.rows;
        debug_assert!(added <= written, "{added} rows more by a write of {written}");
        self.grow(growth.bytes);
        self.rows.set(self.rows.get() + growth.rows);
    }

    /// The partition that is written to. Where it is a new one, the key leaves `mutation`.
    fn partition_of(&self, mutation: &mut Mutation) -> (Rc<PartitionKey>, PartitionHandle) {
        let mut partitions = self.partitions.borrow_mut();
        if let Some((key, partition)) = partitions.get_key_value(&mutation.key) {
            return (key.clone(), partition.clone());
        }
        let key = std::mem::replace(&mut mutation.key, PartitionKey::from_bytes([]));
        self.grow(PARTITION_OVERHEAD_BYTES + key.as_bytes().len());
        let (key, partition) = (Rc::new(key), PartitionHandle::default());
        let before = partitions.insert(key.clone(), partition.clone());
        debug_assert!(before.is_none(), "{key:?} is in the memtable already");
        (key, partition)
    }

    fn grow(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() + bytes);
        if !self.released.get() {
            self.shard_bytes.set(self.shard_bytes.get() + bytes);
        }
    }

    /// Takes the memtable's bytes out of the shard's: it was flushed, or its table dropped. Readers
    /// that run may keep it for a while.
    pub fn release(&self) {
        if !self.released.replace(true) {
            let (all, own) = (self.shard_bytes.get(), self.bytes.get());
            assert!(own <= all, "a memtable of {own} bytes, all of its shard's have {all}");
            self.shard_bytes.set(all - own);
        }
    }

    /// Stops new writes; those in flight may still finish.
    pub fn seal(&self) {
        assert!(!self.sealed.replace(true), "a memtable is sealed for the second time");
    }

    /// A memtable that is about to be written holds what it says, and takes no more.
    pub fn check_sealed(&self) {
        let (is_sealed, writes) = (self.sealed.get(), self.writes_in_flight.get());
        assert!(is_sealed && writes == 0, "{writes} writes in flight, sealed: {is_sealed}");
        let (lowest, highest) = (self.lowest.get(), self.highest.get());
        assert!(lowest <= highest, "the first write is at {lowest:?}, the last at {highest:?}");
        let has_writes = highest.is_some() || self.has_others.get();
        assert!(self.is_empty() || has_writes, "a memtable has rows of no write");
        debug_assert_eq!(self.rows.get(), self.rows_in_partitions(), "the sum of rows is wrong");
        debug_assert!(
            self.bytes.get() >= self.partitions.borrow().len() * PARTITION_OVERHEAD_BYTES,
            "{} bytes are too few for its partitions",
            self.bytes.get()
        );
    }

    fn rows_in_partitions(&self) -> usize {
        self.partitions.borrow().values().map(|partition| partition.borrow().rows.len()).sum()
    }

    /// Writes announced and not applied yet.
    pub fn writes_in_flight(&self) -> usize {
        self.writes_in_flight.get()
    }

    /// Position of the newest write announced: every write of the table up to it is in this
    /// memtable or in older ones.
    pub fn highest_position(&self) -> Option<ReplayPosition> {
        self.highest.get()
    }

    /// Positions of its first and last write in the shard's own log; `None` where other writes are
    /// here as well.
    pub fn positions(&self) -> Option<(ReplayPosition, ReplayPosition)> {
        self.lowest.get().zip(self.highest.get()).filter(|_| !self.has_others.get())
    }

    pub fn is_empty(&self) -> bool {
        self.partitions.borrow().is_empty()
    }

    pub fn stats(&self) -> MemtableStats {
        MemtableStats {
            bytes: self.bytes.get(),
            rows: self.rows.get(),
            partitions: self.partitions.borrow().len(),
        }
    }

    /// The key of the first partition, or of the one that follows another, in ring order.
    pub fn next_key(&self, after: Option<&PartitionKey>) -> Option<Rc<PartitionKey>> {
        let partitions = self.partitions.borrow();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        partitions
            .range::<PartitionKey, _>((from, Bound::Unbounded))
            .next()
            .map(|(key, _)| key.clone())
    }

    /// Frees the memtable some rows at a time, in turns with other tasks. Where somebody reads it
    /// still, it goes with the last who does.
    pub async fn dismantle(self: Rc<Self>) {
        assert!(self.released.get(), "a memtable goes whose bytes still count");
        let Ok(memtable) = Rc::try_unwrap(self) else { return };
        drop(memtable.latest.take());
        let mut partitions = memtable.partitions.into_inner();
        while let Some((_, partition)) = partitions.pop_first() {
            if let Ok(partition) = Rc::try_unwrap(partition) {
                // The map's own way to take it apart would first make a list of all its leaves. The
                // last row of a leaf leaves the others where they are.
                let mut partition = partition.into_inner();
                while partition.rows.len() > ROWS_FREED_AT_ONCE && partition.pop_last().is_some() {
                    runtime::maybe_yield().await;
                }
            }
            runtime::maybe_yield().await;
        }
    }

    /// Whether the partition is here: lets a point read leave this memtable out.
    pub fn contains(&self, key: &PartitionKey) -> bool {
        self.partitions.borrow().contains_key(key)
    }
}

/// A write that was announced. Dropping it applies it as well: its record is in the commitlog and
/// would come back at the next start, so a caller that stops waiting must not make it half-gone.
#[derive(Debug)]
pub struct PendingWrite {
    memtable: Rc<Memtable>,
    mutation: Option<Mutation>,
}

impl PendingWrite {
    /// Makes the write visible.
    pub fn apply(self) {}

    /// Gives the write up: the commitlog refused it.
    pub fn give_up(mut self) {
        self.mutation = None;
    }
}

impl Drop for PendingWrite {
    fn drop(&mut self) {
        if let Some(mut mutation) = self.mutation.take() {
            self.memtable.apply(&mut mutation);
        }
        let in_flight = self.memtable.writes_in_flight.get();
        assert!(in_flight > 0, "a write ends that was not announced");
        let left = in_flight - 1;
        self.memtable.writes_in_flight.set(left);
        if left == 0 {
            self.memtable.settled.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::FutureExt;

    use super::*;
    use crate::mutation::{ClusteringRange, RangeTombstone, Tombstone};
    use crate::schema::TableId;

    fn at(offset: u32) -> ReplayPosition {
        ReplayPosition { segment: 7, offset }
    }

    /// A write that deletes rows of one partition.
    fn deletion(timestamp: i64) -> Mutation {
        let mut mutation = Mutation::new(TableId(1), PartitionKey::from_bytes(b"k"));
        let tombstone = Tombstone { timestamp, deletion_time: 1 };
        mutation
            .range_tombstones
            .push(RangeTombstone { range: ClusteringRange::full(), tombstone });
        mutation
    }

    #[test]
    fn positions_are_stated_only_where_they_are_those_of_all_writes() {
        let memtable = Memtable::new(Rc::default());
        assert_eq!(memtable.positions(), None);
        memtable.replay(Some(at(1)), deletion(1));
        memtable.replay(Some(at(5)), deletion(2));
        assert_eq!(memtable.positions(), Some((at(1), at(5))));
        // A write of another log: an SSTable of all three is not what this log has from 1 to 5.
        memtable.replay(None, deletion(3));
        assert_eq!((memtable.positions(), memtable.highest_position()), (None, Some(at(5))));
    }

    #[test]
    fn range_tombstones_take_memory_as_rows_do() {
        let shard_bytes = Rc::new(Cell::new(0));
        let memtable = Memtable::new(shard_bytes.clone());
        memtable.replay(None, deletion(1));
        let before = shard_bytes.get();
        for timestamp in 2..12 {
            memtable.replay(None, deletion(timestamp));
        }
        let grown = shard_bytes.get() - before;
        assert!(grown >= 10 * size_of::<RangeTombstone>(), "{grown} bytes of ten range tombstones");
        assert_eq!(memtable.stats().bytes, shard_bytes.get());
    }

    #[test]
    fn a_write_that_comes_after_its_memtable_was_released_is_not_counted() {
        let shard_bytes = Rc::new(Cell::new(0));
        let memtable = Memtable::new(shard_bytes.clone());
        let (first, second) =
            (memtable.begin_write(at(1), deletion(1)), memtable.begin_write(at(2), deletion(2)));
        first.apply();
        assert!(shard_bytes.get() > 0);
        memtable.seal();
        memtable.release();
        second.apply();
        memtable.release();
        assert_eq!(shard_bytes.get(), 0, "nobody would give those bytes back");
    }

    /// A flush, a DROP and a TRUNCATE wait for the writes that are on their way.
    #[test]
    fn who_waits_for_writes_goes_on_when_the_last_one_ends_or_is_given_up() {
        for ends in [PendingWrite::apply, PendingWrite::give_up, drop] {
            let memtable = Memtable::new(Rc::default());
            let (first, last) = (
                memtable.begin_write(at(1), deletion(1)),
                memtable.begin_write(at(2), deletion(2)),
            );
            let mut settled = pin!(memtable.wait_for_writes());
            assert!((&mut settled).now_or_never().is_none(), "two are on their way");
            first.apply();
            assert!((&mut settled).now_or_never().is_none(), "one is on its way");
            ends(last);
            assert!(settled.now_or_never().is_some(), "none is on its way");
        }
    }

    #[test]
    fn a_write_that_was_given_up_is_not_there_and_one_that_nobody_waits_for_is() {
        let cases: [(fn(PendingWrite), bool); 3] =
            [(PendingWrite::apply, true), (PendingWrite::give_up, false), (drop, true)];
        for (ends, is_there) in cases {
            let shard_bytes = Rc::new(Cell::new(0));
            let memtable = Memtable::new(shard_bytes.clone());
            let key = PartitionKey::from_bytes(b"k");
            let write = memtable.begin_write(at(1), deletion(5));
            assert!(memtable.is_empty() && !memtable.contains(&key), "it is on its way");
            ends(write);
            assert_eq!(memtable.contains(&key), is_there);
            assert_eq!(memtable.next_key(None).is_some(), is_there);
            assert_eq!((memtable.is_empty(), shard_bytes.get() > 0), (!is_there, is_there));
            // What was announced counts, whatever became of it.
            let announced = (memtable.oldest_timestamp(), memtable.highest_position());
            assert_eq!(announced, (5, Some(at(1))));
            memtable.seal();
            memtable.check_sealed();
        }
    }

    #[test]
    fn the_outermost_of_all_writes_are_known_in_whatever_order_they_come_back() {
        for order in [[1_u32, 5, 9], [9, 1, 5], [5, 9, 1], [9, 5, 1]] {
            let memtable = Memtable::new(Rc::default());
            let of_none = (memtable.oldest_timestamp(), memtable.highest_position());
            assert_eq!(of_none, (i64::MAX, None));
            for (count, number) in (1..).zip(order) {
                memtable.replay(Some(at(number)), deletion(5 - i64::from(number)));
                let so_far = &order[..count];
                let (first, last) = (so_far.iter().min().unwrap(), so_far.iter().max().unwrap());
                assert_eq!(memtable.positions(), Some((at(*first), at(*last))), "{so_far:?}");
                assert_eq!(memtable.highest_position(), Some(at(*last)), "{so_far:?}");
                assert_eq!(memtable.oldest_timestamp(), 5 - i64::from(*last), "{so_far:?}");
            }
        }
    }
}
