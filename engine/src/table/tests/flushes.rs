//! A flush under way: readers miss nothing at any of its steps.

use std::pin::pin;
use std::task::Poll;

use super::*;
use crate::commitlog::ReplayPosition;
use crate::mutation::{
    ClusteringRange, Direction, PartitionRange, Position, RangeTombstone, Slice, Tombstone, Weight,
};
use crate::reader::RowKey;
use crate::runtime::EachTurn;
use crate::table::Progress;

#[test]
fn reads_have_every_row_at_every_step_of_a_flush() {
    const ROWS: i32 = 40;
    for capacity in [3_000, 1 << 20] {
        let world = World::open(MemoryDisk::default(), schema(true), capacity, (0, 1));
        // Timestamps of all rows, in order.
        let read = |partitions: &PartitionRange| {
            let slice = Slice::full(Direction::Forward);
            let rows = rows_of(world.table.read(partitions, &slice, false), usize::MAX);
            rows.into_iter().map(|(_, _, timestamp)| timestamp).collect::<Vec<_>>()
        };
        let (single, all) = (PartitionRange::Single(partition_key(1)), PartitionRange::full());
        for ck in 0..ROWS {
            world.write((1, 2 * ck), 1, 10);
        }
        world.flush();
        // The cache knows the partition, and that there is no other.
        assert_eq!((read(&single).len(), read(&all).len()), (ROWS as usize, ROWS as usize));
        for ck in 0..ROWS {
            world.write((1, 2 * ck + 1), 2, 10);
        }
        let wanted: Vec<i64> = (0..2 * ROWS).map(|ck| 1 + i64::from(ck % 2)).collect();
        let turns = EachTurn::new();
        let mut flush = pin!(world.table.flush());
        let mut steps = 0;
        let flushed = loop {
            if let Poll::Ready(flushed) = turns.poll(flush.as_mut()) {
                break flushed;
            }
            steps += 1;
            assert_eq!(read(&single), wanted, "a cache of {capacity} bytes, step {steps}");
            assert_eq!(read(&all), wanted, "a cache of {capacity} bytes, step {steps}");
        };
        flushed.unwrap();
        assert!(steps >= ROWS, "a flush gives way between its rows: {steps} steps");
        assert_eq!((read(&single), read(&all)), (wanted.clone(), wanted));
    }
}

/// What the cache has of a row at hand is older than its memtable until the flush has merged it.
#[test]
fn a_read_of_one_row_has_the_newest_write_at_every_step_of_a_flush() {
    const ROWS: i32 = 20;
    let world = World::open(MemoryDisk::default(), schema(true), 1 << 20, (0, 1));
    // Bytes of a row's value, which tell of which write it is.
    let read = |ck: i32| {
        let key = RowKey { partition: partition_key(1), clustering: world.clustering(ck) };
        let found = match world.table.point(world.table.schema().clone(), key, 1).unwrap() {
            Progress::Done(found) => found,
            Progress::Waits(query) => block_on(world.table.clone().finish_point(query)).unwrap(),
        };
        found.unwrap().stored(ColumnId(1)).unwrap().len()
    };
    for timestamp in [1, 2] {
        for ck in 0..ROWS {
            world.write((1, ck), timestamp, 10 * timestamp as usize);
        }
        let turns = EachTurn::new();
        let mut flush = pin!(world.table.flush());
        let mut steps = 0;
        while turns.poll(flush.as_mut()).is_pending() {
            steps += 1;
            for ck in 0..ROWS {
                assert_eq!(read(ck), 10 * timestamp as usize, "row {ck} at step {steps}");
            }
        }
        assert!(steps >= ROWS, "a flush gives way between its rows: {steps} steps");
        (0..ROWS).for_each(|ck| assert_eq!(read(ck), 10 * timestamp as usize, "row {ck}"));
    }
}

/// What a reader brings in that began before a flush lacks what the flush brings, and the flush may
/// have passed that partition already.
#[test]
fn a_reader_from_before_a_flush_leaves_nothing_older_in_the_cache() {
    const PARTITIONS: i32 = 6;
    let slice = Slice::full(Direction::Forward);
    let ranges = || (0..PARTITIONS).map(|pk| PartitionRange::Single(partition_key(pk)));
    for is_scan in [false, true] {
        let (mut steps, mut is_over) = (0, false);
        while !is_over {
            let world = World::open(MemoryDisk::default(), schema(true), 1 << 20, (0, 1));
            for timestamp in [1, 2] {
                if timestamp == 2 {
                    world.flush();
                }
                (0..PARTITIONS).for_each(|pk| world.write((pk, timestamp), timestamp.into(), 10));
            }
            let ranges = || match is_scan {
                true => vec![PartitionRange::full()],
                false => ranges().collect(),
            };
            let read = |range: &PartitionRange| world.table.read(range, &slice, false);
            let count = |source| rows_of(source, usize::MAX).len();
            let early: Vec<_> = ranges().iter().map(read).collect();
            let turns = EachTurn::new();
            let mut flush = pin!(world.table.flush());
            for _ in 0..steps {
                is_over |= turns.poll(flush.as_mut()).is_ready();
                if is_over {
                    break;
                }
            }
            let wanted = 2 * PARTITIONS as usize;
            assert_eq!(early.into_iter().map(count).sum::<usize>(), wanted, "after {steps} steps");
            if !is_over {
                block_on(flush).unwrap();
            }
            let late: usize = ranges().iter().map(|range| count(read(range))).sum();
            assert_eq!(late, wanted, "a scan: {is_scan}, read after {steps} steps");
            steps += 1;
        }
        assert!(steps > PARTITIONS, "a flush gives way between its partitions: {steps} steps");
    }
}

/// A deleted range ends beside rows: an SSTable has no form for a bound that stands at one.
#[test]
fn every_deleted_range_that_the_check_of_a_write_lets_pass_can_be_flushed() {
    let sides = [Position::before, Position::at, Position::after];
    for (start, end) in sides.iter().flat_map(|start| sides.iter().map(move |end| (start, end))) {
        let world = World::open(MemoryDisk::default(), schema(true), 1 << 20, (0, 1));
        let range =
            ClusteringRange { start: start(world.clustering(1)), end: end(world.clustering(2)) };
        let is_beside = |bound: &Position| bound.weight != Weight::At;
        let wanted = is_beside(&range.start) && is_beside(&range.end);
        let mut mutation = Mutation::new(world.table.schema().id, partition_key(1));
        let tombstone = Tombstone { timestamp: 1, deletion_time: 1 };
        mutation.range_tombstones.push(RangeTombstone { range, tombstone });
        let checked = world.table.check(&mutation);
        assert_eq!(checked.is_ok(), wanted, "{mutation:?}: {checked:?}");
        if checked.is_ok() {
            world.table.active().replay(None, mutation);
            world.flush();
        }
    }
}

#[test]
fn a_flush_waits_for_a_write_that_is_the_first_of_its_memtable() {
    let world = World::open(MemoryDisk::default(), schema(true), 1 << 20, (0, 1));
    let position = ReplayPosition { segment: 1, offset: 1 };
    let write = world.table.active().begin_write(position, world.mutation((1, 1), 1, 10));
    let turns = EachTurn::new();
    let mut flush = pin!(world.table.flush());
    for _ in 0..10 {
        assert!(turns.poll(flush.as_mut()).is_pending(), "the log has a write that no file has");
    }
    write.apply();
    block_on(flush).unwrap();
    let stats = world.table.stats();
    assert_eq!((stats.sstables, stats.memtable_rows), (1, 0));
}
