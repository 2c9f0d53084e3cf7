//! Files as other products write them, made of files of ours: metadata of forms that are not known,
//! components that are not there, nulls in keys.

use super::*;
use super::{dumped, verified_native};
use crate::mutation::{Cell, ClusteringRange, Direction, Liveness, Row};
use crate::schema::order::{encode_component, encode_null};
use crate::schema::{Column, ColumnId, DataType, Value};
use crate::sstable::tests::damage::{make_foreign, read_all, sample};
use crate::sstable::tests::foreign::table;

/// The four parts of a `Statistics.db` without checksums.
fn parts(content: &[u8]) -> [Vec<u8>; 4] {
    let word = |at: usize| u32::from_be_bytes(content[at..at + 4].try_into().unwrap()) as usize;
    let starts: [usize; 4] = std::array::from_fn(|part| word(8 + 8 * part));
    std::array::from_fn(|part| {
        let end = starts.get(part + 1).copied().unwrap_or(content.len());
        content[starts[part]..end].to_vec()
    })
}

/// The file of these parts, which stand in it in the order that is given.
fn statistics_of(parts: &[Vec<u8>; 4], order: [usize; 4]) -> Vec<u8> {
    let mut out = 4u32.to_be_bytes().to_vec();
    let mut at = 4 + 4 * 8;
    for part in order {
        out.extend_from_slice(&(part as u32).to_be_bytes());
        out.extend_from_slice(&(at as u32).to_be_bytes());
        at += parts[part].len();
    }
    order.iter().for_each(|part| out.extend_from_slice(&parts[*part]));
    out
}

/// A byte string with its length before it.
fn framed(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

/// Sixteen registers of a byte each, as ScyllaDB keeps them.
fn scylla_sketch() -> Vec<u8> {
    let mut sketch = vec![0xff, 0xff, 0xff, 0xfe, 4, 0, 0, 16];
    sketch.extend_from_slice(&[0, 1, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0, 0]);
    sketch
}

/// What stands in the place of the estimate of the number of keys does not keep rows from being
/// read.
#[test]
fn estimates_of_any_form_keep_no_sstable_from_being_read() {
    let disk = MemoryDisk::default();
    let (schema, partitions) = sample(&disk);
    make_foreign(&disk);
    let path = Component::Statistics.path(directory(), 1);
    let stored = parts(&disk.content(&path));
    let other_version = [&[0xff, 0xff, 0xff, 0xff][..], &[13, 25, 0, 1]].concat();
    let old_list = [&2u32.to_be_bytes()[..], &7u32.to_be_bytes(), &9u32.to_be_bytes()].concat();
    let others = [
        (framed(&scylla_sketch()), "precisions 4 and 0, as ScyllaDB's is"),
        (
            framed(&[&[0xff, 0xff, 0xff, 0xfe, 14, 25][..], &[1, 2]].concat()),
            "precisions 14 and 25",
        ),
        (framed(&other_version), "another version"),
        (framed(&[]), "another version"),
        // The files that this one was made of, then the estimate.
        ([&[0; 4][..], &framed(&scylla_sketch())].concat(), "precisions 4 and 0"),
        ([&old_list[..], &framed(&scylla_sketch())].concat(), "precisions 4 and 0"),
        // It ends early.
        (vec![0, 0], "ends early"),
        (framed(&scylla_sketch())[..20].to_vec(), "ends early"),
        (u32::MAX.to_be_bytes().to_vec(), "ends early"),
    ];
    for (compaction, told) in others {
        for order in [[0, 1, 2, 3], [3, 2, 0, 1]] {
            let mut parts = stored.clone();
            parts[1].clone_from(&compaction);
            disk.set_content(&path, statistics_of(&parts, order));
            read_all(&disk, &schema, &partitions).unwrap_or_else(|e| panic!("{told}: {e}"));
            let found = verified_native(&disk);
            assert!(found.is_sound(), "{told}: {:?}", found.problems);
            let [note] = &found.notes[..] else { panic!("{told}: {:?}", found.notes) };
            assert!(note.contains(told) && note.contains("Statistics.db"), "{told}: {note}");
            assert!(found.to_json().contains("\"notes\": [ \""), "{}", found.to_json());
        }
    }
    // One that says that it is Cassandra's and is not: damage, which reads do not meet.
    let of_cassandra = [0xff, 0xff, 0xff, 0xfe, 13, 25];
    for rest in [&[2, 0][..], &[0, 9], &[1, 0x85], &[1, 1, 7, 7], &[0xff; 9]] {
        let mut parts = stored.clone();
        parts[1] = framed(&[&of_cassandra[..], rest].concat());
        disk.set_content(&path, statistics_of(&parts, [0, 1, 2, 3]));
        read_all(&disk, &schema, &partitions).unwrap_or_else(|e| panic!("{rest:?}: {e}"));
        let found = verified_native(&disk);
        let [problem] = &found.problems[..] else { panic!("{rest:?}: {:?}", found.problems) };
        assert!(problem.to_string().contains("Statistics.db"), "{problem}");
    }
}

/// The estimate that ScyllaDB writes tells that it counted, which it does in other ways.
#[test]
fn files_with_scyllas_estimate_are_held_to_scyllas_counts() {
    let disk = MemoryDisk::default();
    let (schema, partitions) = sample(&disk);
    make_foreign(&disk);
    let path = Component::Statistics.path(directory(), 1);
    let mut parts = parts(&disk.content(&path));
    // One row more than there are: rows stand before the lower replay position, which comes before
    // the count of intervals, that host and the end.
    let rows_at = parts[2].len() - (1 + 16) - 4 - 12 - 8;
    parts[2][rows_at + 7] ^= 1;
    disk.set_content(&path, statistics_of(&parts, [0, 1, 2, 3]));
    assert!(!verified_native(&disk).is_sound());
    parts[1] = framed(&scylla_sketch());
    disk.set_content(&path, statistics_of(&parts, [0, 1, 2, 3]));
    let found = verified_native(&disk);
    assert!(found.is_sound(), "{:?}", found.problems);
    read_all(&disk, &schema, &partitions).unwrap();
    // Its bounds may be wider than the data, and never narrower.
    let stated = inspector(&disk, directory(), &SstableName::native(1));
    let stated = block_on(stated.metadata()).unwrap();
    let bounds = [stated.min_timestamp, stated.max_timestamp];
    assert!(bounds[0] < bounds[1]);
    let stored = bounds.map(i64::to_be_bytes).concat();
    let at = parts[2].windows(16).position(|bytes| bytes == stored).unwrap();
    for (bounds, is_sound) in [
        ([bounds[0].saturating_sub(1), bounds[1]], true),
        ([bounds[0], bounds[1].saturating_add(1)], true),
        ([bounds[0] + 1, bounds[1]], false),
        ([bounds[0], bounds[1] - 1], false),
    ] {
        let mut other = parts.clone();
        other[2][at..at + 16].copy_from_slice(&bounds.map(i64::to_be_bytes).concat());
        disk.set_content(&path, statistics_of(&other, [0, 1, 2, 3]));
        assert_eq!(verified_native(&disk).is_sound(), is_sound, "{bounds:?}");
    }
}

/// Rows of tables WITH COMPACT STORAGE may lack the last values of their key.
#[test]
fn rows_without_a_clustering_value_stand_before_those_with_one() {
    for name in ["b", "-b"] {
        let schema = table(
            &[("pk", DataType::Int)],
            &[("a", DataType::Text), (name, DataType::Int), ("c", DataType::Text)],
            &[],
            &[("v", DataType::Int)],
        );
        let (rows, all) = partial_rows(&schema);
        let disk = MemoryDisk::default();
        let options = WriterOptions { column_index_bytes: 64, ..WriterOptions::default() };
        write(&disk, 1, &schema, options, all.iter().cloned()).unwrap();
        make_foreign(&disk);
        let data = disk.content(&Component::Data.path(directory(), 1));
        // 'x' alone: two bits a column, the second and the third null; then its length and itself.
        let stored = [0x20 | 0x04, 0b10_10_00, 1, b'x'];
        assert_eq!(data.windows(4).filter(|bytes| *bytes == stored).count(), 1, "{name}");

        let opened = open(&disk, 1, &schema).unwrap();
        for direction in [Direction::Forward, Direction::Reversed] {
            let wanted = match direction.is_reversed() {
                true => crate::sstable::tests::fixtures::reversed(&all),
                false => all.clone(),
            };
            let found = read(&opened, &PartitionRange::full(), &Slice::full(direction)).unwrap();
            assert_eq!(found, wanted, "{name}");
        }
        let key = PartitionKey::from_values(&schema, &[Value::Int(1)]).unwrap();
        for (row, _) in &rows {
            for left_out in [u32::MAX, 0] {
                opened.parses_left_out.set(left_out);
                let found = read_row(&opened, &key, row, true).unwrap().unwrap();
                assert!(found.row.is_some(), "{row:?}");
            }
            let ranges = vec![ClusteringRange::prefix(row.clone())];
            let slice = Slice { ranges, direction: Direction::Forward };
            let range = PartitionRange::Single(key.clone());
            let found = read(&opened, &range, &slice).unwrap();
            assert_eq!(found.len(), 3, "{row:?}: {found:?}");
        }
        let found = verified_native(&disk);
        assert!(found.is_sound() && found.rows == rows.len() as u64, "{:?}", found.problems);
        let dump = dumped(&disk, &SstableName::native(1));
        assert_eq!(dump.matches("\"clustering\" : [ \"x\", null, null ]").count(), 1, "{dump}");
        assert!(dump.contains("\"clustering\" : [ \"x\", 3, null ]"), "{dump}");
    }
}

/// Partition 1 with rows that lack values, in their order, and what a reader gives of it.
fn partial_rows(schema: &SchemaRef) -> (Vec<(ClusteringKey, Row)>, Vec<Fragment>) {
    let columns: Vec<&Column> = schema.clustering_key().collect();
    let int = |value: i32| Some(value.to_be_bytes().to_vec());
    let text = |value: &str| Some(value.as_bytes().to_vec());
    let mut rows = Vec::new();
    for a in ["", "x", "y"] {
        for b in [None, Some(Vec::new()), int(-5), int(3)] {
            for c in [None, text(""), text("z")] {
                let mut ordered = Vec::new();
                for (column, value) in columns.iter().zip([text(a), b.clone(), c]) {
                    let order = column.clustering_order();
                    match value {
                        None => encode_null(order, &mut ordered),
                        Some(value) => {
                            encode_component(&column.ty, order, &value, &mut ordered).unwrap();
                        }
                    }
                }
                let cells = vec![(ColumnId(4), Cell::live(7, int(9).unwrap()))];
                let row = Row { liveness: Some(Liveness::at(7)), cells, ..Row::default() };
                rows.push((ClusteringKey::from_ordered(ordered), row));
            }
        }
    }
    let null = |(key, _): &(ClusteringKey, Row)| key.first_null(schema).unwrap().map(|c| &c.name);
    assert_eq!(null(&rows[0]).map(String::as_str), Some("b"));
    assert_eq!(null(&rows[6]).map(String::as_str), Some("c"));
    assert_eq!(null(&rows[8]), None);
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    let key = PartitionKey::from_values(schema, &[Value::Int(1)]).unwrap();
    let mut all = vec![Fragment::PartitionStart { key: Rc::new(key), deletion: None }];
    all.extend(
        rows.iter().map(|(key, row)| Fragment::Row {
            key: Rc::new(key.clone()),
            row: Rc::new(row.clone()),
        }),
    );
    all.push(Fragment::PartitionEnd);
    (rows, all)
}

/// Rows of materialized views may have a tombstone that a newer row marker undoes. Queries do not
/// know it: they say so, and the tools show it.
#[test]
fn shadowable_tombstones_are_shown_and_refused_by_name() {
    let columns = [("pk", DataType::Int)];
    let schema = table(&columns, &[("ck", DataType::Int)], &[], &[("v", DataType::Int)]);
    let epoch = Bases::default().min_timestamp;
    let key = PartitionKey::from_values(&schema, &[Value::Int(1)]).unwrap();
    let row = Row {
        liveness: Some(Liveness::at(epoch)),
        cells: vec![(ColumnId(2), Cell::live(epoch, 7i32.to_be_bytes()))],
        ..Row::default()
    };
    let disk = MemoryDisk::default();
    let fragments = [
        Fragment::PartitionStart { key: Rc::new(key), deletion: None },
        Fragment::Row {
            key: Rc::new(ClusteringKey::from_values(&schema, &[Value::Int(2)]).unwrap()),
            row: Rc::new(row),
        },
        Fragment::PartitionEnd,
    ];
    write(&disk, 1, &schema, WriterOptions::default(), fragments).unwrap();
    make_foreign(&disk);
    let path = Component::Data.path(directory(), 1);
    let stored = disk.content(&path);
    let (front, row) = stored.split_at(18);
    assert_eq!(row, [0x24, 0, 0, 0, 0, 2, 7, 18, 0, 8, 0, 0, 0, 7, 1]);
    // ScyllaDB's: two numbers more; Cassandra's: the row's deletion is of that kind.
    for (flags, extended) in [(0xa4, 0x80), (0xb4, 0x02)] {
        let row = [flags, extended, 0, 0, 0, 0, 2, 9, 18, 0, 0, 0, 8, 0, 0, 0, 7, 1];
        disk.set_content(&path, [front, &row].concat());
        for component in [Component::Crc, Component::Digest] {
            let toc = format!("{}\n", component.suffix());
            let listed = String::from_utf8(disk.content(&Component::Toc.path(directory(), 1)));
            let kept = listed.unwrap().replace(&toc, "");
            disk.set_content(&Component::Toc.path(directory(), 1), kept.into_bytes());
        }
        let opened = open(&disk, 1, &schema).unwrap();
        let read = read(&opened, &PartitionRange::full(), &Slice::full(Direction::Forward));
        let error = read.unwrap_err().to_string();
        assert!(error.contains("shadowable tombstone") && error.contains("Data.db"), "{error}");
        let found = verified_native(&disk);
        assert_eq!((found.partitions, found.rows), (1, 1));
        assert!(found.notes.iter().any(|note| note.contains("shadowable")), "{:?}", found.notes);
        let dump = dumped(&disk, &SstableName::native(1));
        assert!(dump.contains("\"shadowable_deletion_info\" : { \"marked_deleted\""), "{dump}");
    }
}
