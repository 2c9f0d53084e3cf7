//! Which source of a table has which part of a partition, as people are shown it.

use super::*;
use crate::mutation::{ClusteringRange, Position, RangeTombstone, Tombstone};
use crate::table::{FragmentKind, FragmentReport};

#[test]
fn each_source_tells_what_it_has_of_a_partition_and_no_more_than_was_asked_for() {
    let world = World::open(MemoryDisk::default(), schema(true), 1 << 20, (0, 1));
    for ck in 1..=3 {
        world.write((1, ck), 1, 10);
    }
    world.flush();
    let tombstone = Tombstone { timestamp: 5, deletion_time: 1 };
    let bounds = (Position::before(world.clustering(2)), Position::after(world.clustering(2)));
    let range = ClusteringRange { start: bounds.0.clone(), end: bounds.1.clone() };
    let mut mutation = world.mutation((1, 3), 7, 10);
    mutation.range_tombstones.push(RangeTombstone { range, tombstone });
    world.table.active().replay(None, mutation);
    // Of a source, all parts or so many.
    let told = |pk: i32, source: &str, max: usize| -> Vec<FragmentReport> {
        let all = block_on(world.table.fragments(&partition_key(pk), max)).unwrap();
        all.into_iter().filter(|part| part.source.starts_with(source)).collect()
    };
    let part = |source: &str, kind, start: &Position, end: &Position, timestamp| {
        let (source, start, end) = (source.to_owned(), start.clone(), end.clone());
        FragmentReport { source, kind, start, end, timestamp }
    };
    let (first, last) = (Position::start(), Position::end());
    let row = |source: &str, ck: i32, timestamp: i64| {
        let at = Position::at(world.clustering(ck));
        part(source, FragmentKind::Row, &at, &at, Some(timestamp))
    };
    let number = world.table.sstable_statuses(0)[0].info.generation;
    let sstable = format!("sstable {number}");
    let whole = part(&sstable, FragmentKind::Partition, &first, &last, None);
    let wanted = [whole, row(&sstable, 1, 1), row(&sstable, 2, 1), row(&sstable, 3, 1)];
    assert_eq!(told(1, "sstable", 100), wanted);
    assert_eq!(told(1, "sstable", 2), wanted[..2]);
    let wanted = [
        part("memtable", FragmentKind::Partition, &first, &last, None),
        part("memtable", FragmentKind::RangeTombstone, &bounds.0, &bounds.1, Some(5)),
        row("memtable", 3, 7),
    ];
    assert_eq!(told(1, "memtable", 100), wanted);
    assert_eq!(told(1, "memtable", 2), wanted[..2]);
    for source in ["sstable", "memtable"] {
        assert!(told(2, source, 100).is_empty(), "nobody wrote it");
    }
}
