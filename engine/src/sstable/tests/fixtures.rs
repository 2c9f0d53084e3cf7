//! Files that Cassandra wrote: their rows are what its own tool prints, and writing them again gives
//! the same bytes.

use std::path::PathBuf;

use serde_json::{Map, Value as Json, json};

use super::model::schema_of;
use super::*;
use crate::mutation::{Cell, CellState, Direction, Position, Row, Tombstone, Weight};
use crate::schema::{
    ClusteringOrder, Column, ColumnKind, DataType, PartitionKey, TableSchema, Value,
};

const SMALL_COMPONENTS: [Component; 6] = [
    Component::Summary,
    Component::Filter,
    Component::Statistics,
    Component::Crc,
    Component::Digest,
    Component::Toc,
];

fn fixture_path(table: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    root.join("tests/data/sstables/me").join(table)
}

fn load(table: &str) -> MemoryDisk {
    let disk = MemoryDisk::default();
    for component in SMALL_COMPONENTS.iter().chain(&[Component::Data, Component::Index]) {
        let content = std::fs::read(component.path(&fixture_path(table), 1)).unwrap();
        disk.set_content(&component.path(directory(), 1), content);
    }
    disk
}

fn schema(key: DataType, clustering: &[(&str, DataType)], value: Option<&str>) -> SchemaRef {
    let mut columns =
        vec![Column { name: "pk".into(), ty: key, kind: ColumnKind::PartitionKey { position: 0 } }];
    for (position, (name, ty)) in clustering.iter().enumerate() {
        let order = ClusteringOrder::Ascending;
        let kind = ColumnKind::ClusteringKey { position: position as u16, order };
        columns.push(Column { name: (*name).into(), ty: *ty, kind });
    }
    columns.extend(value.map(|name| Column {
        name: name.into(),
        ty: DataType::Text,
        kind: ColumnKind::Regular,
    }));
    schema_of(columns)
}

/// Name of a table, its schema, and the number of its partitions and rows where it is known.
type Fixture = (String, SchemaRef, Option<(u64, u64)>);

fn tables() -> Vec<Fixture> {
    let int = DataType::Int;
    let simple = schema(DataType::Text, &[("ck", int)], Some("v"));
    let wide = schema(int, &[("ck", int)], Some("payload"));
    let tombs = schema(int, &[("a", int), ("b", int)], Some("v"));
    let mut tables = vec![
        ("simple_none".to_owned(), simple, Some((1000, 3000))),
        ("wide_none".to_owned(), wide, Some((4, 20_003))),
        ("tombs".to_owned(), tombs, Some((8, 671))),
    ];
    for (name, ty) in clustering_types() {
        let schema = schema(int, &[("ck", ty)], None);
        tables.push((format!("types_ck_{name}"), schema, None));
    }
    tables
}

fn clustering_types() -> Vec<(&'static str, DataType)> {
    vec![
        ("ascii", DataType::Text),
        ("bigint", DataType::BigInt),
        ("blob", DataType::Blob),
        ("boolean", DataType::Boolean),
        ("date", DataType::Date),
        ("decimal", DataType::Decimal { precision: 38, scale: 4 }),
        ("double", DataType::Double),
        ("float", DataType::Float),
        ("inet", DataType::Inet),
        ("int", DataType::Int),
        ("smallint", DataType::SmallInt),
        ("text", DataType::Text),
        ("time", DataType::Time),
        ("timestamp", DataType::Timestamp),
        ("timeuuid", DataType::TimeUuid),
        ("tinyint", DataType::TinyInt),
        ("uuid", DataType::Uuid),
    ]
}

fn read_whole(disk: &MemoryDisk, schema: &SchemaRef, direction: Direction) -> Vec<Fragment> {
    let table = open(disk, 1, schema).unwrap();
    read(&table, &PartitionRange::full(), &Slice::full(direction)).unwrap()
}

#[test]
fn writing_cassandras_tables_again_gives_the_same_bytes() {
    for (name, schema, counts) in tables() {
        let disk = load(&name);
        let table = open(&disk, 1, &schema).unwrap();
        if let Some(counts) = counts {
            assert_eq!((table.info().partitions, table.info().rows), counts, "{name}");
        }
        if name == "types_ck_decimal" {
            // Decimals that compare equal are one key here, so 1.00 is written as 1.
            continue;
        }
        let fragments = read_whole(&disk, &schema, Direction::Forward);
        let options = WriterOptions {
            column_index_bytes: 4096,
            bases: table.layout.bases,
            ..WriterOptions::default()
        };
        let info = write(&disk, 2, &schema, options, fragments).unwrap();
        let same = [
            Component::Data,
            Component::Index,
            Component::Summary,
            Component::Filter,
            Component::Crc,
            Component::Digest,
        ];
        for component in same {
            let of = |generation| disk.content(&component.path(directory(), generation));
            let (theirs, ours) = (of(1), of(2));
            let differs = (0..theirs.len().max(ours.len())).find(|&i| theirs.get(i) != ours.get(i));
            assert_eq!(differs, None, "{name} {component:?} differs from that byte on");
        }
        check_statistics(&name, &disk);
        assert_eq!(info.partitions, table.info().partitions);
        let back = open(&disk, 2, &schema).unwrap();
        assert_eq!(back.info(), &info);
    }
}

/// The statistics are Cassandra's but for the replay positions and clustering bounds, which it keeps
/// where a range tombstone is.
fn check_statistics(name: &str, disk: &MemoryDisk) {
    let of = |generation| {
        let content = disk.content(&Component::Statistics.path(directory(), generation));
        statistics::decode_file(&content).unwrap()
    };
    let ((mut theirs, their_header), (ours, our_header)) = (of(1), of(2));
    theirs.replay = None;
    if ours.min_clustering.is_empty() {
        theirs.min_clustering.clear();
        theirs.max_clustering.clear();
    }
    assert_eq!(theirs, ours, "{name}");
    if name != "types_ck_ascii" {
        assert_eq!(their_header, our_header, "{name}");
    }
}

/// Reversing the forward stream of every partition by hand gives the reversed read.
#[test]
fn cassandras_tables_read_backward() {
    for (name, schema, _) in tables() {
        let disk = load(&name);
        let forward = read_whole(&disk, &schema, Direction::Forward);
        let mut wanted = Vec::new();
        for partition in forward.split_inclusive(|f| *f == Fragment::PartitionEnd) {
            let (start, rest) = partition.split_first().unwrap();
            wanted.push(start.clone());
            let mut changes: Vec<Fragment> = Vec::new();
            let mut open: Option<Tombstone> = None;
            for fragment in &rest[..rest.len() - 1] {
                changes.push(match fragment {
                    Fragment::RangeTombstoneChange { position, tombstone } => {
                        let before = std::mem::replace(&mut open, *tombstone);
                        let position = position.clone();
                        Fragment::RangeTombstoneChange { position, tombstone: before }
                    }
                    other => other.clone(),
                });
            }
            wanted.extend(changes.into_iter().rev());
            wanted.push(Fragment::PartitionEnd);
        }
        let found = read_whole(&disk, &schema, Direction::Reversed);
        let differs = (0..wanted.len().max(found.len())).find(|&i| wanted.get(i) != found.get(i));
        assert_eq!(differs, None, "{name}");
    }
}

#[test]
fn slices_of_cassandras_wide_partition_are_found_in_every_block() {
    let (_, schema, _) = tables().swap_remove(1);
    let disk = load("wide_none");
    let table = open(&disk, 1, &schema).unwrap();
    let key = PartitionKey::from_values(&schema, &[Value::Int(1)]).unwrap();
    for start in (-10_050..10_050).step_by(37) {
        for direction in [Direction::Forward, Direction::Reversed] {
            let bound = |value| {
                let value = [Value::Int(value)];
                Position::before(
                    crate::schema::ClusteringKey::from_values(&schema, &value).unwrap(),
                )
            };
            let range =
                crate::mutation::ClusteringRange { start: bound(start), end: bound(start + 5) };
            let slice = Slice { ranges: vec![range], direction };
            let found = read(&table, &PartitionRange::Single(key.clone()), &slice).unwrap();
            let mut wanted: Vec<i32> =
                (start..start + 5).filter(|ck| (-10_000..10_000).contains(ck)).collect();
            if direction.is_reversed() {
                wanted.reverse();
            }
            let keys: Vec<i32> = found
                .iter()
                .filter_map(|fragment| match fragment {
                    Fragment::Row { key, .. } => Some(key.stored(&schema).unwrap().remove(0)),
                    _ => None,
                })
                .map(|stored| i32::from_be_bytes(stored.try_into().unwrap()))
                .collect();
            assert_eq!(keys, wanted, "from {start} {direction:?}");
        }
    }
}

#[test]
fn rows_are_what_cassandras_tool_prints() {
    for (name, schema, _) in tables() {
        let Ok(expected) = std::fs::read(fixture_path(&name).join("expected.json")) else {
            assert!(matches!(name.as_str(), "simple_none" | "wide_none"), "{name}");
            continue;
        };
        let expected: Vec<Json> = serde_json::from_slice(&expected).unwrap();
        let fragments = read_whole(&load(&name), &schema, Direction::Forward);
        let found = dump(&schema, &fragments);
        assert_eq!(found.len(), expected.len(), "{name}");
        for (found, mut wanted) in found.into_iter().zip(expected) {
            wanted.as_object_mut().unwrap().remove("table kind");
            wanted["partition"].as_object_mut().unwrap().remove("position");
            for row in wanted["rows"].as_array_mut().unwrap() {
                row.as_object_mut().unwrap().remove("position");
            }
            assert!(same(&found, &wanted), "{name}\n found {found}\nwanted {wanted}");
        }
    }
}

/// Equality with numbers compared by value; the tool prints floats its own way.
fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => {
            if a.as_i64().is_some() && b.as_i64().is_some() {
                return a == b;
            }
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            a == b || ((a as f32) == (b as f32) && (a as f32).is_finite())
        }
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// The partitions as sstabledump prints them, without positions.
fn dump(schema: &TableSchema, fragments: &[Fragment]) -> Vec<Json> {
    let mut partitions: Vec<Json> = Vec::new();
    let mut open = None;
    for fragment in fragments {
        let item = match fragment {
            Fragment::PartitionStart { key, deletion } => {
                let columns: Vec<_> = schema.partition_key().collect();
                let text = render(columns[0].ty, key.as_bytes());
                let text = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
                let mut partition = json!({ "key": [text] });
                if let Some(deletion) = deletion {
                    partition["deletion_info"] = deletion_info(*deletion);
                }
                partitions.push(json!({ "partition": partition, "rows": [] }));
                continue;
            }
            Fragment::StaticRow(_) | Fragment::PartitionEnd => continue,
            Fragment::Row { key, row } => {
                let stored = key.stored(schema).unwrap();
                let mut item = dump_row(schema, row);
                item["clustering"] = dump_clustering(schema, &stored, false);
                item
            }
            Fragment::RangeTombstoneChange { position, tombstone } => {
                let before = std::mem::replace(&mut open, *tombstone);
                dump_marker(schema, position, before, *tombstone)
            }
        };
        partitions.last_mut().unwrap()["rows"].as_array_mut().unwrap().push(item);
    }
    partitions
}

fn deletion_info(tombstone: Tombstone) -> Json {
    json!({
        "marked_deleted": tombstone.timestamp.to_string(),
        "local_delete_time": tombstone.deletion_time.to_string(),
    })
}

fn dump_clustering(schema: &TableSchema, stored: &[Vec<u8>], pad: bool) -> Json {
    let columns = schema.clustering_key().enumerate();
    let values = columns.filter_map(|(i, column)| match stored.get(i) {
        Some(value) => Some(render(column.ty, value)),
        None => pad.then(|| json!("*")),
    });
    Json::Array(values.collect())
}

fn dump_row(schema: &TableSchema, row: &Row) -> Json {
    let mut item = Map::new();
    item.insert("type".into(), json!("row"));
    if let Some(live) = row.liveness {
        item.insert("liveness_info".into(), json!({ "tstamp": live.timestamp.to_string() }));
    }
    if let Some(deletion) = row.deletion {
        item.insert("deletion_info".into(), deletion_info(deletion));
    }
    let cells = row.cells.iter().map(|(id, cell)| {
        let column = schema.column(*id);
        dump_cell(column, cell, row.liveness.map(|live| live.timestamp))
    });
    item.insert("cells".into(), Json::Array(cells.collect()));
    Json::Object(item)
}

fn dump_cell(column: &Column, cell: &Cell, row_timestamp: Option<i64>) -> Json {
    let mut item = json!({ "name": column.name });
    match &cell.state {
        CellState::Live { value } => item["value"] = render(column.ty, value),
        CellState::Deleted { deletion_time } => {
            item["deletion_info"] = json!({ "local_delete_time": deletion_time.to_string() });
        }
        CellState::Expiring { .. } => panic!("the fixtures here have no expiring cells"),
    }
    if row_timestamp != Some(cell.timestamp) {
        item["tstamp"] = json!(cell.timestamp.to_string());
    }
    item
}

fn dump_marker(
    schema: &TableSchema,
    position: &Position,
    closing: Option<Tombstone>,
    opening: Option<Tombstone>,
) -> Json {
    let stored = position.prefix.stored(schema).unwrap();
    let is_before = position.weight == Weight::Before;
    let bound = |tombstone: Tombstone, is_inclusive: bool| {
        let mut bound = json!({
            "type": if is_inclusive { "inclusive" } else { "exclusive" },
            "deletion_info": deletion_info(tombstone),
        });
        if !stored.is_empty() {
            bound["clustering"] = dump_clustering(schema, &stored, true);
        }
        bound
    };
    let mut item = Map::new();
    let both = closing.is_some() && opening.is_some();
    let kind = if both { "range_tombstone_boundary" } else { "range_tombstone_bound" };
    item.insert("type".into(), json!(kind));
    if let Some(opening) = opening {
        item.insert("start".into(), bound(opening, is_before));
    }
    if let Some(closing) = closing {
        item.insert("end".into(), bound(closing, !is_before));
    }
    Json::Object(item)
}

/// A value as the tool prints it.
fn render(ty: DataType, stored: &[u8]) -> Json {
    match Value::decode(ty, stored).unwrap() {
        Value::Boolean(v) => json!(v),
        Value::TinyInt(v) => json!(v),
        Value::SmallInt(v) => json!(v),
        Value::Int(v) => json!(v),
        Value::BigInt(v) => json!(v),
        Value::Float(v) => json!(v),
        Value::Double(v) => json!(v),
        Value::Decimal { unscaled, scale } => {
            let number: f64 = format!("{unscaled}e{}", -i64::from(scale)).parse().unwrap();
            json!(number)
        }
        Value::Text(v) => json!(v),
        Value::Blob(v) => {
            json!(format!("0x{}", v.iter().map(|b| format!("{b:02x}")).collect::<String>()))
        }
        Value::Date(days) => json!(civil(i64::from(days))),
        Value::Time(ns) => {
            json!(format!("{}.{:09}", clock(ns / 1_000_000_000), ns % 1_000_000_000))
        }
        Value::Timestamp(ms) => {
            let (day, ms) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
            json!(format!("{} {}.{:03}Z", civil(day), clock(ms / 1000), ms % 1000))
        }
        Value::Uuid(v) | Value::TimeUuid(v) => json!(crate::schema::value::format_uuid(&v)),
        Value::Inet(std::net::IpAddr::V4(v)) => json!(v.to_string()),
        Value::Inet(std::net::IpAddr::V6(v)) => {
            json!(v.segments().map(|segment| format!("{segment:x}")).join(":"))
        }
    }
}

fn clock(seconds: i64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Day since 1970-01-01 as year-month-day (proleptic Gregorian).
fn civil(days: i64) -> String {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year_of_era + era * 400 + carry;
    let sign = if year < 0 { "-" } else { "" };
    format!("{sign}{:04}-{month:02}-{day:02}", year.abs())
}
