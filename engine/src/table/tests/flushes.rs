//! A flush under way: readers miss nothing at any of its steps.

use std::pin::pin;
use std::task::Poll;

use super::*;
use crate::mutation::{Direction, PartitionRange, Slice};
use crate::runtime::EachTurn;

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
