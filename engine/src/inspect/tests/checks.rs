//! What the walk over the data finds where no checksum speaks.

use std::collections::BTreeSet;

use super::verified_native;
use super::*;
use crate::mutation::{Cell, CellPath, MultiCell, Row};
use crate::schema::{Column, ColumnId, DataType, Value};

/// What the checks of neighbours say, each by its first words.
const CHECKS: [&str; 5] = [
    "a previous size of ",
    "the end of the range tombstone of ",
    "no end of a range tombstone",
    "ascending cells of column 's'",
    "a row or marker after the one before",
];

fn schema() -> SchemaRef {
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    let order = ClusteringOrder::Ascending;
    model::schema_of(vec![
        column("pk", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
        column("ck", DataType::Int, ColumnKind::ClusteringKey { position: 0, order }),
        column("s", DataType::Set(Box::new(DataType::Int)), ColumnKind::Regular),
    ])
}

/// Rows 2 and 3 with a set of 2 and 3, and a range tombstone from 4 to 5.
fn fragments(schema: &SchemaRef) -> Vec<Fragment> {
    let clustering = |ck| ClusteringKey::from_values(schema, &[Value::Int(ck)]).unwrap();
    let row = |ck| {
        let mut set = MultiCell::default();
        for element in [2_i32, 3] {
            let path = CellPath::from_stored(&DataType::Int, &element.to_be_bytes()).unwrap();
            set.put(path, Cell::live(7, *b""));
        }
        let mut row = Row::default();
        row.put_multi(ColumnId(2), set);
        Fragment::Row { key: Rc::new(clustering(ck)), row: Rc::new(row) }
    };
    let change = |position, tombstone| Fragment::RangeTombstoneChange { position, tombstone };
    let deleted = Tombstone { timestamp: 9, deletion_time: 9 };
    let key = Rc::new(PartitionKey::from_bytes(1_i32.to_be_bytes()));
    vec![
        Fragment::PartitionStart { key, deletion: None },
        row(2),
        row(3),
        change(Position::before(clustering(4)), Some(deleted)),
        change(Position::after(clustering(5)), None),
        Fragment::PartitionEnd,
    ]
}

/// The lowest bit of each byte in turn: sizes, bounds, times and elements that are next to right.
#[test]
fn rows_markers_and_cells_are_held_against_those_before_them() {
    let (disk, schema) = (MemoryDisk::default(), schema());
    write(&disk, 1, &schema, WriterOptions::default(), fragments(&schema)).unwrap();
    for component in [Component::Crc, Component::Digest] {
        block_on(shared(&disk).remove(&component.path(directory(), 1))).unwrap();
    }
    make_foreign(&disk);
    let path = Component::Data.path(directory(), 1);
    let told_of = |content: Vec<u8>| -> BTreeSet<String> {
        disk.set_content(&path, content);
        let wanted = |problem: Error| match problem {
            Error::Corrupt(corruption) => Some(corruption.wanted),
            _ => None,
        };
        verified_native(&disk).problems.into_iter().filter_map(wanted).collect()
    };
    let content = disk.content(&path);
    let mut told = told_of(content.clone());
    for check in CHECKS {
        assert!(!told.iter().any(|told| told.starts_with(check)), "nothing is wrong: {told:#?}");
    }
    for at in 0..content.len() {
        let mut damaged = content.clone();
        damaged[at] ^= 1;
        told.append(&mut told_of(damaged));
    }
    for check in CHECKS {
        assert!(told.iter().any(|told| told.starts_with(check)), "{check}: {told:#?}");
    }
}
