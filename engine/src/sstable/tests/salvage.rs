//! Reads that go on behind damage: what they give is part of the truth, in order, and what is lost
//! lies around the damage.

use std::collections::BTreeMap;

use super::model::*;
use super::*;
use crate::clock::Random;
use crate::config::PAGE_BYTES;
use crate::mutation::{Cell, Direction, Position, Row, Tombstone};
use crate::schema::{
    ClusteringKey, ClusteringOrder, Column, ColumnId, ColumnKind, Compression, Compressor,
    DataType, PartitionKey, TableId, TableOptions, TableSchema, Value,
};

const ROWS: i32 = 400;
const BLOCK_BYTES: u32 = 1024;

fn schema() -> SchemaRef {
    let order = ClusteringOrder::Ascending;
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    std::sync::Arc::new(TableSchema {
        id: TableId(1),
        keyspace: "ks".into(),
        name: "t".into(),
        columns: vec![
            column("pk", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
            column("ck", DataType::Int, ColumnKind::ClusteringKey { position: 0, order }),
            column("v", DataType::Blob, ColumnKind::Regular),
        ],
        options: TableOptions::default(),
        drops: Vec::new(),
    })
}

fn clustering(schema: &SchemaRef, ck: i32) -> ClusteringKey {
    ClusteringKey::from_values(schema, &[Value::Int(ck)]).unwrap()
}

/// Ten partitions in ring order, each of as many rows of 100 random bytes; a range tombstone covers
/// a quarter of them.
fn fragments(schema: &SchemaRef, rows: i32) -> Vec<Fragment> {
    let mut random = Random::new(7);
    let mut keys: Vec<PartitionKey> =
        (0..10).map(|pk| PartitionKey::from_values(schema, &[Value::Int(pk)]).unwrap()).collect();
    keys.sort();
    let mut out = Vec::new();
    let change = |ck: i32, tombstone| Fragment::RangeTombstoneChange {
        position: Position::before(clustering(schema, ck)),
        tombstone,
    };
    for key in keys {
        out.push(Fragment::PartitionStart { key: Rc::new(key), deletion: None });
        for ck in 0..rows {
            if ck == rows / 4 {
                out.push(change(ck, Some(Tombstone { timestamp: 3, deletion_time: 3 })));
            }
            if ck == rows / 2 {
                out.push(change(ck, None));
            }
            let value: Vec<u8> = (0..100).map(|_| random.below(256) as u8).collect();
            let cells = vec![(ColumnId(2), Cell::live(7, value))];
            let row = Rc::new(Row { cells, ..Row::default() });
            out.push(Fragment::Row { key: Rc::new(clustering(schema, ck)), row });
        }
        out.push(Fragment::PartitionEnd);
    }
    out
}

fn sample(rows: i32, options: WriterOptions) -> (MemoryDisk, SchemaRef, Vec<Fragment>) {
    let (disk, schema) = (MemoryDisk::default(), schema());
    let all = fragments(&schema, rows);
    write(&disk, 1, &schema, options, all.iter().cloned()).unwrap();
    (disk, schema, all)
}

/// A read that goes on behind damage.
fn past(
    table: &Rc<Sstable>,
    (range, slice): (&PartitionRange, &Slice),
    log: &Rc<DamageLog>,
) -> Option<Box<dyn FragmentSource>> {
    let on_damage = Some(log.clone());
    table.read(&ReadPlan { on_damage, ..ReadPlan::of(range, slice) })
}

fn read_past(
    table: &Rc<Sstable>,
    range: &PartitionRange,
    direction: Direction,
) -> (Vec<Fragment>, Rc<DamageLog>) {
    let log = Rc::new(DamageLog::default());
    let found = drain(past(table, (range, &Slice::full(direction)), &log)).unwrap();
    check_stream(&found, direction);
    (found, log)
}

/// Partitions ascend and are whole, positions move on in reading order, no tombstone stays in
/// force.
fn check_stream(fragments: &[Fragment], direction: Direction) {
    let mut last_key: Option<Rc<PartitionKey>> = None;
    let mut last: Option<Position> = None;
    let (mut is_inside, mut in_force) = (false, None);
    for fragment in fragments {
        let position = match fragment {
            Fragment::PartitionStart { key, .. } => {
                assert!(!is_inside && last_key.as_ref().is_none_or(|last| last < key));
                (is_inside, last_key, last) = (true, Some(key.clone()), None);
                continue;
            }
            Fragment::PartitionEnd => {
                assert!(is_inside && in_force.is_none(), "a tombstone stays in force");
                is_inside = false;
                continue;
            }
            Fragment::StaticRow(_) => continue,
            Fragment::FlatRow(_) => panic!("only the row cache has these"),
            Fragment::Row { key, .. } => Position::at((**key).clone()),
            Fragment::RangeTombstoneChange { position, tombstone } => {
                in_force = *tombstone;
                position.clone()
            }
        };
        let ascends = last.as_ref().is_none_or(|last| match direction {
            Direction::Forward => *last < position,
            Direction::Reversed => *last > position,
        });
        assert!(is_inside && ascends, "{last:?} then {position:?}");
        last = Some(position);
    }
    assert!(!is_inside);
}

/// Partition key and row of every row, in the order of the file.
fn rows_of(fragments: &[Fragment]) -> Vec<(PartitionKey, ClusteringKey, Rc<Row>)> {
    let mut partition = None;
    let mut rows = Vec::new();
    for fragment in fragments {
        match fragment {
            Fragment::PartitionStart { key, .. } => partition = Some((**key).clone()),
            Fragment::Row { key, row } => {
                rows.push((partition.clone().unwrap(), (**key).clone(), row.clone()));
            }
            _ => {}
        }
    }
    rows.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    rows
}

/// Which tombstone is in force where a row stands.
fn in_force(fragments: &[Fragment]) -> BTreeMap<(PartitionKey, ClusteringKey), Option<Tombstone>> {
    let (mut partition, mut open) = (None, None);
    let mut rows = BTreeMap::new();
    for fragment in fragments {
        match fragment {
            Fragment::PartitionStart { key, .. } => partition = Some((**key).clone()),
            Fragment::RangeTombstoneChange { tombstone, .. } => open = *tombstone,
            Fragment::Row { key, .. } => {
                rows.insert((partition.clone().unwrap(), (**key).clone()), open);
            }
            _ => {}
        }
    }
    rows
}

/// What damage took away takes no deletion along.
fn check_deleted(all: &[Fragment], found: &[Fragment], what: &str) {
    let (all, found) = (in_force(all), in_force(found));
    let differs = found.iter().find(|(row, open)| all[row] != **open);
    assert_eq!(differs, None, "{what}: a row that is found bears another tombstone");
}

/// Numbers of the rows of `all` that are not in `found`, which has no others.
fn missing(all: &[Fragment], found: &[Fragment]) -> Vec<usize> {
    let (all, found) = (rows_of(all), rows_of(found));
    let mut found = found.into_iter().peekable();
    let missing = all
        .iter()
        .enumerate()
        .filter_map(|(i, row)| found.next_if_eq(row).is_none().then_some(i))
        .collect();
    assert_eq!(found.next(), None, "a row that was not written");
    missing
}

fn flip(disk: &MemoryDisk, component: Component, at: usize) -> Vec<u8> {
    let path = component.path(directory(), 1);
    let content = disk.content(&path);
    let mut damaged = content.clone();
    damaged[at] ^= 0x20;
    disk.set_content(&path, damaged);
    content
}

fn repair(disk: &MemoryDisk, component: Component, content: Vec<u8>) {
    disk.set_content(&component.path(directory(), 1), content);
}

/// Damages one byte after another and looks at what is lost: at most `lost_max` rows, all beside
/// each other, in whichever way the file is read.
fn check_damage(options: WriterOptions, rows: i32, unit_bytes: usize, lost_max: usize) {
    let (disk, schema, all) = sample(rows, options);
    let path = Component::Data.path(directory(), 1);
    let size = disk.content(&path).len();
    let everything = [Direction::Forward, Direction::Reversed];
    for at in (0..size).step_by(2911) {
        let content = flip(&disk, Component::Data, at);
        let table = open(&disk, 1, &schema).unwrap();
        for direction in everything {
            let slice = Slice::full(direction);
            let error = read(&table, &PartitionRange::full(), &slice).unwrap_err();
            let (found, log) = read_past(&table, &PartitionRange::full(), direction);
            let lost = missing(&all, &found);
            check_deleted(&all, &found, &format!("byte {at}, {direction:?}"));
            let first = lost.first().copied().unwrap_or(0);
            assert!(lost.iter().copied().eq(first..first + lost.len()), "byte {at}: {lost:?}");
            assert!((1..=lost_max).contains(&lost.len()), "byte {at}: {} rows", lost.len());
            let [damage] = &log.places()[..] else { panic!("byte {at}: {:?}", log.places()) };
            assert_eq!(damage.file, path);
            let span = damage.offset..damage.offset + unit_bytes as u64;
            assert!(span.contains(&(at as u64)), "byte {at} in {span:?}");
            let named = error.to_string();
            assert!(named.contains(&damage.wanted) && named.contains(&damage.found), "{named}");
            // The same partition by partition.
            let mut one_by_one = Vec::new();
            for fragment in &all {
                let Fragment::PartitionStart { key, .. } = fragment else { continue };
                let range = PartitionRange::Single((**key).clone());
                one_by_one.extend(read_past(&table, &range, direction).0);
            }
            let lost = missing(&all, &one_by_one);
            check_deleted(&all, &one_by_one, &format!("byte {at}, {direction:?}, one by one"));
            assert!((1..=lost_max).contains(&lost.len()), "byte {at}: {} rows", lost.len());
        }
        repair(&disk, Component::Data, content);
    }
}

/// Rows that bytes may hold, one more for each end.
fn rows_in(bytes: usize) -> usize {
    bytes / 105 + 2
}

#[test]
fn a_damaged_page_costs_its_rows_and_the_rest_of_a_block() {
    let options = WriterOptions { column_index_bytes: BLOCK_BYTES, ..WriterOptions::default() };
    check_damage(options, ROWS, PAGE_BYTES, rows_in(PAGE_BYTES + BLOCK_BYTES as usize));
}

#[test]
fn a_damaged_chunk_costs_its_rows_and_the_rest_of_a_block() {
    for compressor in Compressor::ALL {
        let compression = Compression { chunk_bytes: 4096, ..Compression::new(compressor) };
        let options = WriterOptions {
            column_index_bytes: BLOCK_BYTES,
            compression: Some(compression),
            ..WriterOptions::default()
        };
        // A page of the file as stored may be part of two chunks.
        let lost_max = rows_in(3 * PAGE_BYTES + BLOCK_BYTES as usize);
        check_damage(options, ROWS / 4, 2 * PAGE_BYTES, lost_max);
    }
}

#[test]
fn without_blocks_the_rest_of_the_partition_is_lost_and_the_next_is_read() {
    let (disk, schema, all) = sample(ROWS, WriterOptions::default());
    let size = disk.content(&Component::Data.path(directory(), 1)).len();
    for at in (0..size).step_by(7919) {
        let content = flip(&disk, Component::Data, at);
        let table = open(&disk, 1, &schema).unwrap();
        for direction in [Direction::Forward, Direction::Reversed] {
            let (found, log) = read_past(&table, &PartitionRange::full(), direction);
            let lost = missing(&all, &found);
            // A page may end one partition and begin the next.
            assert!(!lost.is_empty() && lost.len() <= 2 * ROWS as usize, "byte {at}: {lost:?}");
            assert!(!log.places().is_empty());
        }
        repair(&disk, Component::Data, content);
    }
}

#[test]
fn a_damaged_index_costs_the_partitions_of_its_page_or_nothing() {
    let options = WriterOptions { column_index_bytes: BLOCK_BYTES, ..WriterOptions::default() };
    let (disk, schema, all) = sample(ROWS, options);
    let size = disk.content(&Component::Index.path(directory(), 1)).len();
    assert!(size > 2 * PAGE_BYTES);
    for at in (0..size).step_by(997) {
        let content = flip(&disk, Component::Index, at);
        let table = open(&disk, 1, &schema).unwrap();
        for direction in [Direction::Forward, Direction::Reversed] {
            let (found, log) = read_past(&table, &PartitionRange::full(), direction);
            // Whole partitions, or none: without blocks rows are found in order.
            assert_eq!(missing(&all, &found).len() % ROWS as usize, 0, "byte {at}");
            assert!(log.places().iter().all(|damage| damage.file.ends_with("me-1-big-Index.db")));
        }
        repair(&disk, Component::Index, content);
    }
}

/// Where there are no checksums damage may read as other rows, but it ends nothing.
#[test]
fn reads_past_damage_end_and_never_panic() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let schema = random_schema(&mut random);
        let partitions = random_partitions(&mut random, &schema);
        if partitions.is_empty() {
            continue;
        }
        let disk = MemoryDisk::default();
        let options = WriterOptions { column_index_bytes: 256, ..WriterOptions::default() };
        let wanted = all_fragments(&partitions, &Slice::full(Direction::Forward));
        write(&disk, 1, &schema, options, wanted.clone()).unwrap();
        let toc = Component::Toc.path(directory(), 1);
        disk.set_content(&toc, b"Data.db\nIndex.db\nSummary.db\nStatistics.db\n".to_vec());
        let whole = open(&disk, 1, &schema).unwrap();
        assert_eq!(read_past(&whole, &PartitionRange::full(), Direction::Forward).0, wanted);
        for component in [Component::Data, Component::Index] {
            let size = disk.content(&component.path(directory(), 1)).len();
            for at in (0..size).step_by(1 + size / 200) {
                let content = flip(&disk, component, at);
                let table = open(&disk, 1, &schema).unwrap();
                for _ in 0..3 {
                    let slice = random_slice(&mut random, &schema);
                    let key = random_key(&mut random, &schema);
                    for range in [PartitionRange::full(), PartitionRange::Single(key)] {
                        let log = Rc::new(DamageLog::default());
                        drain(past(&table, (&range, &slice), &log)).unwrap();
                    }
                }
                repair(&disk, component, content);
            }
        }
    }
}
