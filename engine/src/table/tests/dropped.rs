//! A table that goes while somebody reads it.

use std::time::Duration;

use futures::FutureExt;
use futures::future::ready;

use super::*;
use crate::disk::{OpenFiles, OpenOptions};
use crate::mutation::{Direction, PartitionRange, Slice};

/// Such a read holds the table and none of its files: it asks for them where the cache ends.
#[test]
fn a_read_through_the_cache_finds_the_files_of_a_table_that_was_dropped() {
    const ROWS: i32 = 40;
    let disk = MemoryDisk::default();
    let before = World::open(disk.clone(), schema(true), 1 << 20, (0, 1));
    for ck in 0..ROWS {
        before.write((1, ck), 1, 100);
    }
    before.flush();
    drop(before);
    let sleep = |_: Duration| ready(()).boxed_local();
    let few = OpenFiles::new(Rc::new(disk.clone()), 0, Box::new(sleep));
    few.set_max(1);
    let world = World::open_through(few.clone(), (disk.clone(), 0), schema(true), 1 << 20, (0, 1));
    let partition = PartitionRange::Single(partition_key(1));
    let reading = world.table.read(&partition, &Slice::full(Direction::Forward), false);
    // Another file takes the one descriptor.
    let _other = block_on(few.open(&disk.names()[0], OpenOptions::READ)).unwrap();
    assert_eq!(few.stats().open, 1);
    block_on(world.table.clone().keep_files_of_readers()).unwrap();
    for name in disk.names() {
        block_on(disk.remove(&name)).unwrap();
    }
    assert_eq!(rows_of(reading, usize::MAX).len(), ROWS as usize);
}
