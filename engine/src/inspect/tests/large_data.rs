//! What is large is counted, the largest is recorded, and `Scylla.db` says so again when it is
//! read.

use super::*;
use crate::config::LARGE_DATA_RECORDS_MAX;
use crate::mutation::{Cell, CellPath, Liveness, MultiCell, Position, Row, Tombstone};
use crate::schema::{
    ClusteringKey, ClusteringOrder, Column, ColumnId, ColumnKind, DataType, LargeDataThresholds,
    PartitionKey, TableId, TableOptions, TableSchema, Value,
};

fn schema() -> SchemaRef {
    let order = ClusteringOrder::Descending;
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    std::sync::Arc::new(TableSchema {
        id: TableId(1),
        keyspace: "ks".into(),
        name: "t".into(),
        columns: vec![
            column("a", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
            column("b", DataType::Text, ColumnKind::PartitionKey { position: 1 }),
            column("c", DataType::Int, ColumnKind::ClusteringKey { position: 0, order }),
            column("s", DataType::Blob, ColumnKind::Static),
            column("tags", DataType::set_of(DataType::Int), ColumnKind::Regular),
            column("v", DataType::Blob, ColumnKind::Regular),
        ],
        options: TableOptions::default(),
        drops: Vec::new(),
    })
}

fn row(value_bytes: usize) -> Row {
    Row {
        liveness: Some(Liveness::at(7)),
        cells: vec![(ColumnId(5), Cell::live(7, vec![1_u8; value_bytes]))],
        ..Row::default()
    }
}

/// Partitions `(0, 'p')` to `(11, 'p')`: number n has n + 1 rows of n * 10 bytes, the first one a
/// set of n elements, and in number 5 nothing else; number 11 has a static row, a dead row and a
/// range tombstone besides.
fn fragments(schema: &SchemaRef) -> Vec<Fragment> {
    let key = |n: i32| {
        let values = [Value::Int(n), Value::Text("p".into())];
        PartitionKey::from_values(schema, &values).unwrap()
    };
    let mut keys: Vec<(PartitionKey, i32)> = (0..12).map(|n| (key(n), n)).collect();
    keys.sort();
    let ck = |c: i32| ClusteringKey::from_values(schema, &[Value::Int(c)]).unwrap();
    let mut out = Vec::new();
    for (key, n) in keys {
        out.push(Fragment::PartitionStart { key: Rc::new(key), deletion: None });
        if n == 11 {
            let cells = vec![(ColumnId(3), Cell::live(7, vec![2_u8; 500]))];
            out.push(Fragment::StaticRow(Rc::new(Row { cells, ..Row::default() })));
        }
        for c in (0..=n).rev() {
            let mut row = row(10 * n as usize);
            if c == n && n > 0 {
                let path =
                    |i: i32| CellPath::from_stored(&DataType::Int, &i.to_be_bytes()).unwrap();
                let cells = (0..n).map(|i| (path(i), Cell::live(7, Vec::<u8>::new()))).collect();
                row.multi = vec![(ColumnId(4), MultiCell { deletion: None, cells })];
                if n == 5 {
                    (row.liveness, row.cells) = (None, Vec::new());
                }
            }
            out.push(Fragment::Row { key: Rc::new(ck(c)), row: Rc::new(row) });
        }
        if n == 11 {
            let deletion = Some(Tombstone { timestamp: 9, deletion_time: 9 });
            let dead = Row { deletion, ..Row::default() };
            out.push(Fragment::Row { key: Rc::new(ck(-1)), row: Rc::new(dead) });
            for (position, tombstone) in
                [(Position::before(ck(-5)), deletion), (Position::after(ck(-9)), None)]
            {
                out.push(Fragment::RangeTombstoneChange { position, tombstone });
            }
        }
        out.push(Fragment::PartitionEnd);
    }
    out
}

#[test]
fn the_largest_are_recorded_and_read_back() {
    let (disk, schema) = (MemoryDisk::default(), schema());
    let large_data = LargeDataThresholds {
        partition_bytes: 1_000,
        row_bytes: 10_000,
        cell_bytes: 100,
        partition_rows: 3,
        collection_elements: 9,
    };
    let options = WriterOptions { large_data, ..WriterOptions::default() };
    write(&disk, 1, &schema, options, fragments(&schema)).unwrap();
    let table = open(&disk, 1, &schema).unwrap();
    let scylla = table.scylla().unwrap();
    assert_eq!(scylla.origin.as_deref(), Some("memtable"));
    let stats = scylla.large_data.as_ref().unwrap();
    let of = |kind: LargeKind| stats.iter().find(|entry| entry.kind == kind as u32).unwrap();
    let records = scylla.records.as_ref().unwrap();
    let recorded = |kind: LargeKind| -> Vec<_> {
        records.iter().filter(|record| record.kind == kind as u32).collect()
    };

    // Numbers 3 to 11 have more than 3 rows; ten are kept of what may be more.
    let rows = of(LargeKind::PartitionRows);
    assert_eq!((rows.max, rows.threshold, rows.above_count), (13, 3, 9));
    let rows = recorded(LargeKind::PartitionRows);
    assert_eq!(
        rows.iter().map(|record| record.elements).collect::<Vec<_>>(),
        [13, 11, 10, 9, 8, 7, 6, 5, 4]
    );
    assert_eq!((rows[0].range_tombstones, rows[0].dead_rows), (1, 1));
    assert!(rows[1..].iter().all(|record| record.dead_rows == 0), "elements of a set live");
    assert_eq!(partition_key_text(&schema, &rows[0].partition_key), "11, p");
    assert!(rows[0].bytes > 13 * 110 && rows[0].clustering_key.is_empty());

    // Rows of number 11 alone have cells above 100 bytes, 12 of them, and the static row.
    let cells = of(LargeKind::CellBytes);
    assert_eq!((cells.max, cells.above_count), (500, 13));
    let cells = recorded(LargeKind::CellBytes);
    assert_eq!(cells.len(), LARGE_DATA_RECORDS_MAX);
    assert_eq!((cells[0].column.as_str(), cells[0].bytes), ("s", 500));
    assert_eq!(clustering_key_text(&schema, &cells[0].clustering_key), None);
    assert_eq!((cells[1].column.as_str(), cells[1].bytes), ("v", 110));
    assert_eq!(clustering_key_text(&schema, &cells[1].clustering_key).as_deref(), Some("11"));

    let sets = of(LargeKind::CollectionElements);
    assert_eq!((sets.max, sets.above_count), (11, 2));
    let sets = recorded(LargeKind::CollectionElements);
    assert_eq!((sets[0].column.as_str(), sets[0].elements), ("tags", 11));

    let row = of(LargeKind::RowBytes);
    assert!(row.max > 500 && row.above_count == 0 && recorded(LargeKind::RowBytes).is_empty());
    let partitions = of(LargeKind::PartitionBytes);
    assert_eq!(partitions.above_count as usize, recorded(LargeKind::PartitionBytes).len());
    let data_bytes = disk.content(&Component::Data.path(directory(), 1)).len() as u64;
    assert!((1_000..data_bytes).contains(&partitions.max), "{}", partitions.max);
}

#[test]
fn nothing_is_recorded_below_the_thresholds() {
    let (disk, schema) = (MemoryDisk::default(), schema());
    write(&disk, 1, &schema, WriterOptions::default(), fragments(&schema)).unwrap();
    let table = open(&disk, 1, &schema).unwrap();
    let scylla = table.scylla().unwrap();
    assert_eq!(scylla.records, None);
    let stats = scylla.large_data.as_ref().unwrap();
    assert!(stats.iter().all(|entry| entry.above_count == 0 && entry.max > 0));
    assert_eq!(stats[0].threshold, 1000 << 20);
}
