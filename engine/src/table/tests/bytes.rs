//! What a table counts and numbers: bytes of memtables, numbers of SSTables.

use std::collections::BTreeMap;

use super::*;
use crate::disk::read_file;
use crate::mutation::{Direction, PartitionRange, Slice};

#[test]
fn a_memtables_bytes_are_given_back_when_it_is_flushed_or_its_table_is_dropped() {
    let world = World::open(MemoryDisk::default(), schema(true), 1 << 20, (0, 1));
    for round in 0..3 {
        for ck in 0..50 {
            world.write((ck % 4, ck), round, 100);
        }
        let held = world.memtable_bytes.get();
        assert!(held > 50 * 100, "round {round}: the shard counts {held} bytes of 50 rows");
        assert_eq!(held, world.table.memtable_bytes(), "round {round}");
        if round == 1 {
            // Those of a memtable that nobody writes to any more count until it is flushed.
            world.table.seal();
            assert_eq!(world.memtable_bytes.get(), held, "a sealed memtable is still in memory");
        }
        world.flush();
        let left = world.memtable_bytes.get();
        assert_eq!(left, 0, "round {round}: a flush did not give {left} of {held} bytes back");
    }
    world.write((1, 1), 9, 100);
    world.table.mark_dropped();
    world.flush();
    let left = world.memtable_bytes.get();
    assert_eq!(left, 0, "a dropped table keeps {left} bytes of its shard's memtables");
}

#[test]
fn a_static_row_counts_in_its_memtable() {
    let world = World::open(MemoryDisk::default(), schema(true), 1 << 20, (0, 1));
    let mut mutation = Mutation::new(world.table.schema().id, partition_key(1));
    let cells = vec![(ColumnId(1), Cell::live(1, vec![b's'; 10_000]))];
    mutation.static_row = Some(Row { cells, ..Row::default() });
    world.table.active().replay(None, mutation);
    let held = world.memtable_bytes.get();
    assert!(held > 10_000, "the shard counts {held} bytes of a static row of 10,000");
    assert_eq!(held, world.table.memtable_bytes());
}

#[test]
fn numbers_that_were_given_once_are_not_given_again() {
    let disk = MemoryDisk::default();
    let world = World::open_after(41, disk.clone(), schema(true), 1 << 20, (0, 1));
    world.write((1, 1), 1, 10);
    world.flush();
    assert!(names(&disk).iter().all(|number| *number > 41), "{:?}", names(&disk));
}

#[test]
fn numbers_of_sstables_that_were_set_aside_are_not_given_again() {
    let (disk, lost) = (MemoryDisk::default(), Path::new(DIRECTORY).join("lost"));
    // This disk lists files only: one stands for the folder.
    for path in [lost.clone(), lost.join("me-41-big-Data.db")] {
        disk.set_content(&path, Vec::new());
    }
    let world = World::open(disk.clone(), schema(true), 1 << 20, (0, 1));
    world.write((1, 1), 1, 10);
    world.flush();
    let greatest = names(&disk).into_iter().max();
    assert!(greatest > Some(41), "{:?}", names(&disk));
}

#[test]
fn a_flush_that_fails_keeps_the_bytes_of_its_memtable() {
    let world = World::open(MemoryDisk::default(), schema(true), 1 << 20, (0, 1));
    world.write((1, 1), 1, 100);
    let held = world.memtable_bytes.get();
    // The name of one of the next SSTable's files is taken.
    let statistics = Path::new(DIRECTORY).join("me-1-big-Statistics.db");
    world.disk.set_content(&statistics, Vec::new());
    block_on(world.table.flush()).unwrap_err();
    assert_eq!(world.memtable_bytes.get(), held, "what is not on disk is still in memory");
    let left: Vec<_> = world.disk.names().into_iter().filter(|path| is_of_sstable(path)).collect();
    assert!(left.is_empty(), "files of a flush that failed: {left:?}");
    world.flush();
    assert_eq!(world.memtable_bytes.get(), 0);
}

#[test]
fn shards_that_share_a_folder_never_number_two_sstables_alike() {
    let disk = MemoryDisk::default();
    let mut owners: BTreeMap<u64, String> = BTreeMap::new();
    for start in 0..3 {
        for shards in [3, 2, 5] {
            let open = |shard| World::open(disk.clone(), schema(true), 1 << 20, (shard, shards));
            let worlds: Vec<World> = (0..shards).map(open).collect();
            for flush in 0..3 {
                for (shard, world) in worlds.iter().enumerate() {
                    world.write((flush, 1), 1, 10);
                    let before = names(&disk);
                    world.flush();
                    let new: Vec<u64> =
                        names(&disk).into_iter().filter(|n| !before.contains(n)).collect();
                    let owner = format!("shard {shard} of {shards}, start {start}, flush {flush}");
                    let [number] = new[..] else {
                        panic!(
                            "{owner} wrote SSTables {new:?}: one, with a number of its own, was wanted"
                        );
                    };
                    assert_eq!(
                        number % u64::from(shards),
                        shard as u64,
                        "{owner}: number {number}"
                    );
                    if let Some(other) = owners.insert(number, owner.clone()) {
                        panic!("{owner} took the number {number} of {other}");
                    }
                }
            }
        }
    }
}

fn is_of_sstable(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("me-"))
}

/// Numbers of the SSTables in the folder.
fn names(disk: &MemoryDisk) -> Vec<u64> {
    let data = |path: &std::path::PathBuf| {
        let name = path.file_name()?.to_str()?.to_owned();
        name.ends_with("-Data.db").then(|| crate::sstable::generation_of(&name))?
    };
    disk.names().iter().filter_map(data).collect()
}

/// Writes of another shard count's log have no position here, and that log goes once they are
/// flushed: their manifest edit is sealed and watched like any other.
#[test]
fn a_flush_of_writes_without_a_position_is_sealed_and_told_to_the_ledger() {
    let world = World::open(MemoryDisk::default(), schema(true), 1 << 20, (0, 1));
    for round in 1..3 {
        world.write((1, round), 1, 10);
        world.flush();
        let sequence = block_on(world.table.manifest.lock()).edited();
        let ledger = world.table.ledger.as_ref().unwrap();
        assert!(sequence > 0 && ledger.manifest(world.table.schema().id) == sequence, "{round}");
        let path = Path::new(DIRECTORY).join("manifest-0-of-1");
        let manifest = block_on(read_file(&world.disk, &path)).unwrap();
        assert_eq!(manifest.len(), round as usize * 2 * 4096, "an edit and its seal each");
    }
}

/// Each read of a partition is counted once, and as a hit or as a miss.
#[test]
fn every_read_of_a_partition_is_a_hit_or_a_miss() {
    let world = World::open(MemoryDisk::default(), schema(true), 1 << 20, (0, 1));
    world.write((1, 1), 1, 10);
    world.flush();
    let slice = Slice::full(Direction::Forward);
    let counts = [(1, 0, 1), (1, 1, 1), (2, 1, 2), (2, 2, 2)];
    for (reads, (pk, hits, misses)) in (1..).zip(counts) {
        rows_of(world.table.read(&PartitionRange::Single(partition_key(pk)), &slice, false), 9);
        let stats = world.table.rows().stats();
        let found = (stats.reads, stats.partition_hits, stats.partition_misses);
        assert_eq!(found, (reads, hits, misses), "read {reads}, of partition {pk}");
    }
}
