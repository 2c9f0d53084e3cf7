//! What manifests and files of other shards and shard counts mean for one shard's numbers.

use super::*;
use crate::schema::{LargeDataOptions, OnCorruption};
use crate::sstable::SstableName;
use crate::sstable::manifest::{Edit, Manifest};
use crate::table::AttachedOpening;
use crate::table::open::manifest_name;

/// Of an SSTable that was replaced nothing may be left but its number in a manifest.
#[test]
fn a_number_that_the_manifest_of_another_shard_count_knew_is_not_given_again() {
    for (own, other, wanted) in [(0, 41, 42), (41, 0, 42), (50, 41, 51), (41, 50, 51)] {
        let disk = MemoryDisk::default();
        for (count, number) in [(1, own), (2, other)].into_iter().filter(|known| known.1 > 0) {
            let path = Path::new(DIRECTORY).join(manifest_name(0, count));
            let mut manifest = block_on(Manifest::open(Rc::new(disk.clone()), &path)).unwrap();
            let generations = vec![number];
            let spent = Edit::Spent { generations: generations.clone() };
            block_on(manifest.append(vec![spent])).unwrap();
            block_on(manifest.append(vec![Edit::Gone { generations }])).unwrap();
        }
        let world = World::open(disk, schema(true), 1 << 20, (0, 1));
        assert_eq!(world.table.take_generation(), wanted, "{own} and {other} were known");
    }
}

#[test]
fn files_of_an_attached_table_count_once_though_every_shard_has_them_open() {
    let large_data = LargeDataOptions { cell_bytes: Some(99), ..LargeDataOptions::default() };
    let mut definition = (*schema(true)).clone();
    definition.options.large_data = large_data;
    let world = World::open(MemoryDisk::default(), SchemaRef::new(definition), 1 << 20, (0, 1));
    for pk in 0..10 {
        world.write((pk, 1), 1, 100);
    }
    world.flush();
    let own = world.table.stats();
    assert_eq!((own.sstables, own.sstable_rows), (1, 10));
    let statuses = world.table.sstable_statuses(0);
    let numbers = statuses.iter().map(|status| status.info.generation);
    let names: Vec<SstableName> = numbers.map(SstableName::native).collect();
    let stats = |shard| {
        let opening = AttachedOpening {
            schema: schema(true),
            directory: Path::new(DIRECTORY).to_owned(),
            on_corruption: OnCorruption::Fail,
            disk: Rc::new(world.disk.clone()),
            cache: PageCache::new(1 << 20, 1),
            shard,
            shard_count: 3,
        };
        let (table, failed) = block_on(Table::attach(opening, &names, |_| {}));
        assert!(failed.is_empty(), "{failed:?}");
        let stats = table.stats();
        let listed = (table.sstable_statuses(0).len(), table.large_data());
        ((stats.sstables, stats.sstable_rows, stats.sstable_bytes), listed)
    };
    let ((sstables, rows, bytes), listed) = stats(0);
    assert_eq!((sstables, rows), (own.sstables, own.sstable_rows));
    assert!(bytes > 0, "they have data");
    let large = world.table.large_data();
    assert!(!large.is_empty(), "cells of 100 bytes are large");
    assert_eq!(listed, (1, large));
    for shard in [1, 2] {
        let nothing = ((0, 0, 0), (0, Vec::new()));
        assert_eq!(stats(shard), nothing, "the first shard tells of them, not {shard}");
    }
}
