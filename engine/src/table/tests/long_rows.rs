//! Long rows of many files: a read has one of them in memory at a time, and what comes is what all
//! files hold together.

use super::*;
use crate::mutation::{ClusteringRange, Direction, PartitionRange, Slice};

const FILES: i32 = 12;
const ROW_BYTES: usize = 2 << 20;

fn whole() -> [PartitionRange; 2] {
    let key = partition_key(1);
    [PartitionRange::Tokens { min: key.token(), max: key.token() }, PartitionRange::Single(key)]
}

#[test]
fn of_many_files_the_long_row_is_read_that_comes_next() {
    let world = World::open(MemoryDisk::default(), schema(true), 1 << 20, (0, 1));
    for file in 0..FILES {
        // In each file one row of the first half and one of the second.
        world.write((1, file), 1, ROW_BYTES);
        world.write((1, 100 + file), 1, ROW_BYTES);
        world.flush();
    }
    for range in whole() {
        for direction in [Direction::Forward, Direction::Reversed] {
            let slice = Slice::full(direction);
            let (cost, rows) = world.cost_of(|| rows_of(world.table.read(&range, &slice, true), 2));
            // Beside the rows: heads of the others, with what a window reads ahead.
            let most = (rows.len() + 1) * ROW_BYTES + FILES as usize * (256 << 10);
            assert!(cost.bytes <= most as u64, "{direction:?}: {} rows, {cost:?}", rows.len());
        }
    }
}

#[test]
fn a_merge_of_long_rows_gives_the_newest_of_all_files() {
    let world = World::open(MemoryDisk::default(), schema(true), 1 << 20, (0, 1));
    // Rows of all files, of some, and of one; long ones over short ones and under them.
    for file in 0..FILES {
        for ck in 0..40 {
            if ck % 8 == 0 || (ck + file) % 5 == 0 || ck == file + 20 {
                let bytes = if (ck * 7 + file) % 3 == 0 { 300 << 10 } else { 100 };
                world.write((1, ck), i64::from((file * 5 + ck) % 13), bytes);
            }
        }
        world.flush();
    }
    let newest = |ck: i32| {
        let is_in = |file: &i32| ck % 8 == 0 || (ck + file) % 5 == 0 || ck == file + 20;
        (0..FILES).filter(is_in).map(|file| i64::from((file * 5 + ck) % 13)).max()
    };
    let mut wanted: Vec<_> = (0..40)
        .filter_map(|ck| {
            Some((partition_key(1), world.clustering(ck).as_ordered().to_vec(), newest(ck)?))
        })
        .collect();
    for direction in [Direction::Forward, Direction::Reversed] {
        for range in whole() {
            let slice = Slice::full(direction);
            for past_cache in [true, false] {
                let read = world.table.read(&range, &slice, past_cache);
                assert!(rows_of(read, usize::MAX) == wanted, "{direction:?}");
            }
        }
        wanted.reverse();
    }
}

#[test]
fn a_row_that_is_too_long_to_keep_comes_at_each_read() {
    let world = World::open(MemoryDisk::default(), schema(true), 8 << 20, (0, 1));
    for (ck, bytes) in [(1, 10), (2, 3 << 20), (3, 10)] {
        world.write((1, ck), 1, bytes);
    }
    world.flush();
    for direction in [Direction::Forward, Direction::Reversed, Direction::Forward] {
        for range in whole() {
            let slice = Slice::full(direction);
            let found = rows_of(world.table.read(&range, &slice, false), usize::MAX);
            assert_eq!(found.len(), 3, "{direction:?}");
        }
    }
}

#[test]
fn a_point_read_keeps_no_row_that_is_as_long_as_thousands() {
    let world = World::open(MemoryDisk::default(), schema(true), 8 << 20, (0, 1));
    for (ck, bytes) in [(1, 10), (2, 3 << 20), (3, 10)] {
        world.write((1, ck), 1, bytes);
    }
    world.flush();
    let partition = PartitionRange::Single(partition_key(1));
    for ck in [1, 2, 3, 2] {
        let ranges = vec![ClusteringRange::prefix(world.clustering(ck))];
        let slice = Slice { ranges, direction: Direction::Forward };
        let found = rows_of(world.table.read(&partition, &slice, false), usize::MAX);
        assert_eq!(found.len(), 1, "row {ck}");
    }
    let stats = world.table.rows().stats();
    assert!(stats.rows == 2 && stats.bytes < 100 << 10, "{stats:?}");
}
