//! What a table is asked of its rows and of itself, and which writes it takes.

use super::*;
use crate::error::Error;
use crate::mutation::{ClusteringRange, RangeTombstone, Tombstone};
use crate::reader::RowKey;

const PK: i32 = 1;
const WRITTEN_AT: i64 = 5;
const NEW: Tombstone = Tombstone { timestamp: 9, deletion_time: 1 };
const OLD: Tombstone = Tombstone { timestamp: 3, deletion_time: 1 };

fn world() -> World {
    World::open(MemoryDisk::default(), schema(true), 1 << 20, (0, 1))
}

#[test]
fn a_row_is_asked_for_by_a_key_of_all_its_columns() {
    let world = world();
    let whole = world.clustering(1);
    let ordered = whole.as_ordered();
    let cut = ClusteringKey::from_ordered(&ordered[..ordered.len() - 1]);
    let behind = ClusteringKey::from_ordered([ordered, &[0]].concat());
    for (clustering, is_whole) in
        [(whole.clone(), true), (ClusteringKey::empty(), false), (cut, false), (behind, false)]
    {
        let schema = world.table.schema();
        let key = RowKey { partition: partition_key(PK), clustering: clustering.clone() };
        let point = world.table.point(schema, key, 1).map(drop);
        let state = world.table.clone().row_state(partition_key(PK), Some(clustering.clone()), 1);
        for asked in [point, block_on(state).map(drop)] {
            let refused = asked.err().map(|error| error.to_string());
            let wanted = "a row of k.t has a key of all its columns".to_owned();
            assert_eq!(refused, (!is_whole).then_some(wanted), "{clustering:?}");
        }
    }
}

/// A change of partition 1.
type Change = fn(&World, &mut Mutation);

fn over(range: ClusteringRange, tombstone: Tombstone) -> RangeTombstone {
    RangeTombstone { range, tombstone }
}

fn over_row(world: &World, ck: i32) -> RangeTombstone {
    over(ClusteringRange::prefix(world.clustering(ck)), NEW)
}

fn deleted_row() -> Row {
    Row { deletion: Some(NEW), ..Row::default() }
}

/// A write that depends on a row comes behind all that has to do with that row.
#[test]
fn the_state_of_a_row_is_as_new_as_what_concerns_it_and_nothing_else() {
    let new = NEW.timestamp;
    // What comes to a row that was written, how new the row is then, and whether it is there.
    let changes: [(&str, Change, i64, bool); 10] = [
        ("a write", |w, m| m.rows = w.mutation((PK, 1), 9, 10).rows, new, true),
        ("an older write", |w, m| m.rows = w.mutation((PK, 1), 3, 10).rows, WRITTEN_AT, true),
        ("its deletion", |w, m| m.rows.push((w.clustering(1), deleted_row())), new, false),
        ("a range of it alone", |w, m| m.range_tombstones.push(over_row(w, 1)), new, false),
        (
            "a range of all rows",
            |_, m| m.range_tombstones.push(over(ClusteringRange::full(), NEW)),
            new,
            false,
        ),
        (
            "an older one",
            |_, m| m.range_tombstones.push(over(ClusteringRange::full(), OLD)),
            WRITTEN_AT,
            true,
        ),
        ("that of its partition", |_, m| m.deletion = Some(NEW), new, false),
        ("an older one of that", |_, m| m.deletion = Some(OLD), WRITTEN_AT, true),
        ("another row", |w, m| m.rows = w.mutation((PK, 2), 9, 10).rows, WRITTEN_AT, true),
        ("a range of it", |w, m| m.range_tombstones.push(over_row(w, 2)), WRITTEN_AT, true),
    ];
    for (what, change, newest, exists) in changes {
        for flushed in [[false, false], [true, false], [true, true]] {
            let world = world();
            let state = |ck: i32| {
                let table = world.table.clone();
                block_on(table.row_state(partition_key(PK), Some(world.clustering(ck)), 1)).unwrap()
            };
            let none = state(1);
            assert!(none.newest.is_none() && !none.exists && none.values.is_none(), "{what}");
            world.write((PK, 1), WRITTEN_AT, 10);
            if flushed[0] {
                world.flush();
            }
            let mut mutation = Mutation::new(world.table.schema().id, partition_key(PK));
            change(&world, &mut mutation);
            world.table.active().replay(None, mutation);
            if flushed[1] {
                world.flush();
            }
            let found = state(1);
            let case = format!("{what}, flushed: {flushed:?}");
            assert_eq!((found.newest, found.exists), (Some(newest), exists), "{case}");
            assert_eq!(found.values.is_some(), exists, "{case}");
        }
    }
}

#[test]
fn a_column_that_is_about_to_be_dropped_takes_no_writes_until_its_table_has_a_definition() {
    let world = world();
    let with_value = world.mutation((PK, 1), 1, 10);
    let mut without = with_value.clone();
    without.rows[0].1.cells.clear();
    for mutation in [&with_value, &without] {
        world.table.check(mutation).unwrap();
    }
    world.table.refuse_columns(vec![ColumnId(1)]);
    let refused = world.table.check(&with_value).unwrap_err();
    assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
    let told = refused.to_string();
    assert!(told.contains("column 'v' of k.t takes no writes: it is being dropped"), "{told}");
    world.table.check(&without).unwrap();
    world.table.refuse_columns(Vec::new());
    world.table.check(&with_value).unwrap();
    world.table.refuse_columns(vec![ColumnId(1)]);
    world.table.set_schema(world.table.schema());
    world.table.check(&with_value).unwrap();
}

#[test]
fn a_table_tells_how_much_it_has_in_memory_and_in_files() {
    let world = world();
    let table = &world.table;
    assert!(!table.has_unflushed());
    (1..=3).for_each(|ck| world.write((PK, ck), 1, 100));
    let three = table.memtable_bytes();
    let counts = || {
        let stats = table.stats();
        (stats.sealed_memtables, stats.memtable_rows, stats.sstables, stats.sstable_rows)
    };
    assert_eq!((counts(), table.memtables_bytes()), ((0, 3, 0, 0), (three, 0)));
    assert!(three > 300 && table.has_unflushed(), "{three} bytes");
    table.seal();
    assert_eq!((counts(), table.memtables_bytes()), ((1, 3, 0, 0), (0, three)));
    world.write((PK + 1, 1), 1, 1000);
    let more = table.memtable_bytes() - three;
    assert_eq!((counts(), table.memtables_bytes()), ((1, 4, 0, 0), (more, three)));
    assert_eq!(table.stats().memtable_bytes, (more + three) as u64);
    assert!(more > 1000 && table.has_unflushed(), "{more} bytes");
    world.flush();
    assert_eq!((counts(), table.memtables_bytes()), ((0, 0, 2, 4), (0, 0)));
    assert!(!table.has_unflushed());
    let statuses = table.sstable_statuses(0);
    let rows: Vec<u64> = statuses.iter().map(|status| status.info.rows).collect();
    assert_eq!(rows, [3, 1], "by their numbers");
    let numbers: Vec<u64> = statuses.iter().map(|status| status.info.generation).collect();
    let bytes: Vec<u64> = statuses.iter().map(|status| status.info.data_bytes).collect();
    assert_eq!(table.stats().sstable_bytes, bytes[0] + bytes[1]);
    assert_eq!(table.bytes_of(&numbers), bytes[0] + bytes[1]);
    for at in 0..2 {
        assert_eq!(table.bytes_of(&[numbers[at], numbers[1] + 7]), bytes[at]);
    }
    assert_eq!(table.bytes_of(&[]), 0);
    for status in &statuses {
        assert_eq!(status.run, status.info.generation, "each is a run by itself");
        assert!(!status.is_shared && !status.is_input && !status.is_set_aside, "{status:?}");
    }
}
