//! The budget counts what entries take, however merges change them.

use super::*;
use crate::schema::{Column, ColumnKind, DataType, TableSchema};

/// One partition as a memtable has it.
fn memtable(key: &PartitionKey, static_bytes: usize, rows: &[(u8, usize)]) -> VecDeque<Fragment> {
    let row = |bytes: usize| {
        let mut row = Row { liveness: Some(Liveness::at(1)), ..Row::default() };
        row.put(ColumnId(2), RowCell::live(bytes as i64, vec![b'v'; bytes]));
        Rc::new(row)
    };
    let mut out = VecDeque::new();
    out.push_back(Fragment::PartitionStart { key: Rc::new(key.clone()), deletion: None });
    if static_bytes > 0 {
        out.push_back(Fragment::StaticRow(row(static_bytes)));
    }
    out.extend(rows.iter().map(|(ck, bytes)| {
        let key = Rc::new(ClusteringKey::from_ordered([*ck]));
        Fragment::Row { key, row: row(*bytes) }
    }));
    out.push_back(Fragment::PartitionEnd);
    out
}

#[test]
fn the_budget_is_the_sum_of_entries_after_any_merge() {
    let mut definition = TableSchema::clone(&schema());
    let kind = ColumnKind::Static;
    definition.columns.push(Column { name: "s".into(), ty: DataType::Blob, kind });
    for capacity in [1 << 20, 9000, 4000] {
        let pages = PageCache::new(capacity, 1);
        let rows = RowCache::new(pages.clone(), SchemaRef::new(definition.clone()));
        let check = |what: &str| {
            let (held, counted) = (bytes_held(&rows), pages.stats().bytes);
            assert_eq!(
                counted, held,
                "{what}, {capacity} bytes: the budget is not what entries take"
            );
            assert_eq!(rows.stats().bytes, held, "{what}, {capacity} bytes: what is reported");
            // Rows that grow push others out at once.
            assert!(held <= capacity as u64, "{what}: {held} bytes in a cache of {capacity}");
        };
        let disk = Disk { schema: schema(), data: BTreeMap::new(), reads: Cell::new(0), chunk: 1 };
        let disk = Rc::new(disk);
        let keys: Vec<_> = (0..3).map(|n| PartitionKey::from_bytes(i32::to_be_bytes(n))).collect();
        // All partitions are known, and known to be empty.
        for key in &keys {
            read_all(rows.read(key, &Slice::full(Direction::Forward), disk.clone(), 0));
        }
        check("before the first merge");
        for round in 1..40 {
            let key = &keys[round % 3];
            // Rows and static rows that grow, shrink and come anew.
            let size = |of: usize| 1 + (round * 37 + of * 101) % 300;
            let content: Vec<_> =
                (0..5).map(|ck| ((ck * 3 + round as u8) % 11, size(ck.into()))).collect();
            let mut content = content;
            content.sort();
            content.dedup_by_key(|(ck, _)| *ck);
            let statics = if round % 2 == 0 { size(9) + 40 * round } else { 0 };
            let fragments = memtable(key, statics, &content);
            let generation = round as u64;
            rows.begin_generation(generation);
            block_on(rows.merge(key, || Box::new(Chunked(fragments, 2)), generation));
            check(&format!("merge {round}"));
        }
        rows.invalidate();
        check("forgotten");
        while rows.free(2) {
            check("being freed");
        }
        assert_eq!(pages.stats().bytes, 0);
    }
}

#[test]
fn partitions_that_are_forgotten_at_once_are_counted_once() {
    let world = World::new(1);
    world.pages.set_capacity_bytes(1 << 20);
    for number in 0..3 {
        let key = PartitionKey::from_bytes(i32::to_be_bytes(number));
        world.read_now(Asked::One(key, Slice::full(Direction::Forward)), "an empty partition");
    }
    let counted = || {
        let stats = world.rows.stats();
        (stats.partitions, stats.partition_evictions)
    };
    assert_eq!(counted(), (3, 0));
    world.rows.invalidate();
    assert_eq!(counted(), (0, 3));
    // To give their memory back, or to forget nothing, is no other eviction.
    while world.rows.free(1) {}
    world.rows.invalidate();
    assert_eq!(counted(), (0, 3));
    assert_eq!(world.pages.stats().bytes, 0);
}
