//! What the tools print and find of files that Cassandra wrote.

mod checks;
mod compression;
mod large_data;
mod mutations;
mod products;
mod rewrite;
mod schemas;
mod told;
mod values;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use futures::executor::block_on;

use serde_json::{Value as Json, json};

use super::*;
use crate::config::PAGE_BYTES;
use crate::error::Error;
use crate::mutation::{Cell, Fragment, PartitionRange, Position, Row, Slice, Tombstone};
use crate::schema::table_schema::SchemaRef;
use crate::schema::{
    ClusteringKey, ClusteringOrder, Column, ColumnId, ColumnKind, Compression, Compressor,
    DataType, PartitionKey, Value,
};
use crate::sstable::tests::damage::make_foreign;
use crate::sstable::tests::fixtures::fixture_path;
use crate::sstable::tests::memory_disk::MemoryDisk;
use crate::sstable::tests::model;
use crate::sstable::tests::{directory, open, read, read_row, shared, write};
use crate::sstable::*;

/// When the files are looked into: nothing has expired.
const NOW_SECONDS: i64 = 1_795_300_000;

/// Version and name of every fixture.
fn fixtures() -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    for version in ["me", "nb"] {
        for entry in std::fs::read_dir(root().join(version)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                all.push((version, path.file_name().unwrap().to_string_lossy().into_owned()));
            }
        }
    }
    all.sort();
    assert!(all.len() >= 60, "{} fixtures", all.len());
    all
}

fn root() -> PathBuf {
    fixture_path("..")
}

fn file(version: &str, table: &str, name: &str) -> Option<String> {
    std::fs::read_to_string(root().join(version).join(table).join(name)).ok()
}

/// Files of a fixture in memory, as they would lie with `schema.cql` above them.
fn load(version: &str, table: &str) -> (MemoryDisk, PathBuf, SstableName) {
    let disk = MemoryDisk::default();
    let directory = Path::new("/data").join(table);
    for entry in std::fs::read_dir(root().join(version).join(table)).unwrap() {
        let path = entry.unwrap().path();
        let content = std::fs::read(&path).unwrap();
        disk.set_content(&directory.join(path.file_name().unwrap()), content);
    }
    let schema = std::fs::read(root().join(version).join("schema.cql")).unwrap();
    disk.set_content(Path::new("/data/schema.cql"), schema);
    (disk, directory, SstableName::parse(&format!("{version}-1-big-Data.db")).unwrap())
}

fn inspector(disk: &MemoryDisk, directory: &Path, name: &SstableName) -> Inspector {
    block_on(Inspector::open(shared(disk), directory, name)).unwrap()
}

fn open_fixture(version: &str, table: &str) -> Inspector {
    let (disk, directory, name) = load(version, table);
    inspector(&disk, &directory, &name)
}

fn dump(sstable: &Inspector) -> String {
    block_on(async {
        let mut dump = DataDump::new(sstable, NOW_SECONDS).await.unwrap();
        let mut out = String::new();
        while dump.next(&mut out).await.unwrap() {}
        out
    })
}

fn verified(sstable: &Inspector) -> Verification {
    block_on(verify(sstable, &mut |_, _, _| {}))
}

/// What the other reader finds wrong with generation 1.
pub(super) fn verified_native(disk: &MemoryDisk) -> Verification {
    verified(&inspector(disk, directory(), &SstableName::native(1)))
}

/// The dump of a table's data, of whichever name.
pub(super) fn dumped(disk: &MemoryDisk, name: &SstableName) -> String {
    dump(&inspector(disk, directory(), name))
}

/// To the blank, but for what the head of `dump/data.rs` names.
#[test]
fn dumps_are_what_cassandras_tool_prints() {
    let mut compared = 0;
    for (version, table) in fixtures() {
        let found = dump(&open_fixture(version, &table));
        serde_json::from_str::<Json>(&found).unwrap();
        let Some(wanted) = file(version, &table, "expected.json") else {
            let sibling = match table.as_str() {
                "wide_lz4" | "wide_none" => "wide_none",
                _ => "simple_none",
            };
            let rows = found.matches("\"type\" : \"row\"").count();
            assert_eq!(rows, if sibling == "wide_none" { 20_003 } else { 3000 }, "{table}");
            continue;
        };
        compared += 1;
        let mut lines = found.lines().zip(wanted.lines());
        if table == "counters" {
            let is_value = |line: &str| line.contains("\"value\"");
            lines.by_ref().filter(|(a, b)| !(is_value(a) && is_value(b))).for_each(|(a, b)| {
                assert_eq!(a, b);
            });
            continue;
        }
        for (number, (found, wanted)) in lines.enumerate() {
            assert_eq!(found, wanted, "{version}/{table} line {}", number + 1);
        }
        assert_eq!(found.len(), wanted.len(), "{version}/{table}");
    }
    assert!(compared > 55, "{compared} dumps compared");
}

#[test]
fn counters_are_printed_as_their_totals() {
    for version in ["me", "nb"] {
        let dumped: Json = serde_json::from_str(&dump(&open_fixture(version, "counters"))).unwrap();
        let selected = file("me", "counters", "select.jsonl").unwrap();
        let selected: Vec<Json> =
            selected.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut found = Vec::new();
        for partition in dumped.as_array().unwrap() {
            let pk: i64 = partition["partition"]["key"][0].as_str().unwrap().parse().unwrap();
            for row in partition["rows"].as_array().unwrap() {
                for cell in row["cells"].as_array().unwrap() {
                    if cell["name"] == "c" && cell.get("value").is_some() {
                        found.push((pk, row["clustering"][0].clone(), cell["value"].clone()));
                    }
                }
            }
        }
        let wanted: Vec<_> = selected
            .iter()
            .filter(|row| !row["c"].is_null())
            .map(|row| (row["pk"].as_i64().unwrap(), row["ck"].clone(), row["c"].clone()))
            .collect();
        assert_eq!(found, wanted, "{version}");
    }
}

#[test]
fn metadata_is_what_cassandras_tool_prints() {
    for (version, table) in fixtures() {
        let sstable = open_fixture(version, &table);
        let text = block_on(dump_statistics(&sstable)).unwrap();
        let wanted = file(version, &table, "metadata.txt").unwrap();
        let found = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
            line.unwrap_or_else(|| panic!("{table}: no line {name}\n{text}"))
        };
        let last_number =
            |text: &str| text.rsplit('(').next().unwrap().trim_end_matches(')').to_owned();
        for line in wanted.lines() {
            let Some((name, value)) = line.split_once(": ") else { continue };
            match name {
                "Partitioner"
                | "SSTable Level"
                | "Repaired at"
                | "totalRows"
                | "Originating host id"
                | "Pending repair"
                | "totalColumnsSet"
                | "KeyType"
                | "ClusteringTypes"
                | "IsTransient"
                | "Estimated cardinality"
                | "Compression ratio" => assert_eq!(found(name), value, "{version}/{table} {name}"),
                "Compressor" => assert_eq!(value, found(name), "{table}"),
                "Bloom Filter FP chance" => {
                    assert_eq!(found(name).parse::<f64>().unwrap(), value.parse::<f64>().unwrap());
                }
                "Minimum timestamp"
                | "Maximum timestamp"
                | "EncodingStats minTimestamp"
                | "EncodingStats minLocalDeletionTime" => {
                    assert_eq!(last_number(found(name)), last_number(value), "{table} {name}");
                }
                "SSTable min local deletion time" | "SSTable max local deletion time" => {
                    match value.starts_with("no tombstones") {
                        true => assert_eq!(found(name), "no tombstones", "{table}"),
                        false => assert_eq!(last_number(found(name)), last_number(value)),
                    }
                }
                "TTL min" | "TTL max" | "EncodingStats minTTL" => {
                    assert_eq!(found(name), value, "{table} {name}");
                }
                "First token" | "Last token" => {
                    let token = |text: &str| text.split(' ').next().unwrap().to_owned();
                    assert_eq!(token(found(name)), token(value), "{table} {name}");
                }
                _ => {}
            }
        }
        let json: Json =
            serde_json::from_str(&block_on(dump_statistics_json(&sstable)).unwrap()).unwrap();
        assert_eq!(json["version"], version);
        assert_eq!(json["rows"].to_string(), found("totalRows"));
    }
}

#[test]
fn indexes_and_summaries_are_dumped() {
    for (version, table) in fixtures() {
        let sstable = open_fixture(version, &table);
        let index = block_on(async {
            let mut dump = IndexDump::new(&sstable).await.unwrap();
            let mut out = String::new();
            while dump.next(&mut out).await.unwrap() {}
            out
        });
        let index: Vec<Json> = serde_json::from_str(&index).unwrap();
        let summary = block_on(dump_summary(&sstable)).unwrap();
        let summary: Json = serde_json::from_str(&summary).unwrap();
        let samples = summary["samples"].as_array().unwrap();
        assert_eq!(samples.len(), index.len().div_ceil(128), "{version}/{table}");
        for (i, sample) in samples.iter().enumerate() {
            let entry = &index[128 * i];
            assert_eq!(sample["key"], entry["key"]);
            assert_eq!(sample["index_position"], entry["index_position"]);
        }
        assert_eq!(summary["last_key"], index.last().unwrap()["key"]);
        if table == "wide_none" {
            let wide = index.iter().find(|entry| entry.get("promoted_index").is_some()).unwrap();
            let blocks = wide["promoted_index"]["blocks"].as_array().unwrap();
            assert_eq!(blocks.len(), 227);
            assert_eq!(blocks[0]["first"], json!([-10_000]));
            assert_eq!(blocks[226]["last"], json!([9999]));
        }
    }
}

#[test]
fn schemas_are_those_that_made_the_files() {
    for (version, table) in fixtures() {
        let (disk, directory, name) = load(version, &table);
        let sstable = inspector(&disk, &directory, &name);
        let found = block_on(find_schema(&[&sstable])).unwrap();
        assert_eq!(found.source.as_deref(), Some(Path::new("/data/schema.cql")), "{table}");
        let text = found.to_cql();
        assert!(text.contains(&format!("CREATE TABLE fx.{table} (")), "{text}");
        // The text is a schema that says the same.
        disk.set_content(Path::new("/data/schema.cql"), text.clone().into_bytes());
        let again = block_on(find_schema(&[&sstable])).unwrap();
        assert_eq!(again, found, "{text}");
    }
    let (disk, directory, name) = load("me", "ckdesc2");
    disk.set_content(Path::new("/data/schema.cql"), Vec::new());
    let sstable = inspector(&disk, &directory, &name);
    let text = block_on(find_schema(&[&sstable])).unwrap().to_cql();
    let wanted = "CREATE TABLE ckdesc2 (\n    pk1 int,\n    pk2 text,\n    ck1 text,\n    ck2 timeuuid,\n    \
                  v int,\n    PRIMARY KEY ((pk1, pk2), ck1, ck2)\n) \
                  WITH CLUSTERING ORDER BY (ck1 ASC, ck2 DESC);\n";
    assert!(text.starts_with("-- The files do not") && text.ends_with(wanted), "{text}");
    // The only table of the text above is another one, and no reason to take it for this.
    disk.set_content(
        Path::new("/data/schema.cql"),
        b"CREATE TABLE t (a int PRIMARY KEY);".to_vec(),
    );
    let found = block_on(find_schema(&[&sstable])).unwrap();
    assert_eq!((found.source.is_none(), found.to_cql()), (true, text));
}

#[test]
fn a_schema_that_contradicts_the_files_is_refused() {
    let (disk, directory, name) = load("me", "simple_none");
    let sstable = inspector(&disk, &directory, &name);
    for (text, named) in [
        ("CREATE TABLE simple_none (pk text, ck bigint, v text, PRIMARY KEY (pk, ck));", "'ck'"),
        ("CREATE TABLE simple_none (pk text, ck int, v text, PRIMARY KEY (pk));", "the key"),
        ("CREATE TABLE simple_none (pk text, ck int, v int, PRIMARY KEY (pk, ck));", "'v'"),
    ] {
        disk.set_content(Path::new("/data/schema.cql"), text.as_bytes().to_vec());
        let error = block_on(find_schema(&[&sstable])).unwrap_err().to_string();
        assert!(error.contains(named) && error.contains("/data/schema.cql"), "{error}");
    }
}

#[test]
fn files_that_cassandra_wrote_are_sound() {
    for (version, table) in fixtures() {
        let found = verified(&open_fixture(version, &table));
        assert!(found.is_sound(), "{version}/{table}: {:#?}", found.problems);
        assert!(found.partitions > 0 && found.skipped.is_empty(), "{:?}", found.skipped);
    }
}

/// Files of generation 1: 400 partitions of 20 rows, which together have 1.7 MB.
fn write_large(disk: &MemoryDisk, compression: Option<Compression>) {
    let schema = model::schema_of(vec![
        Column {
            name: "pk".into(),
            ty: DataType::Int,
            kind: ColumnKind::PartitionKey { position: 0 },
        },
        Column {
            name: "ck".into(),
            ty: DataType::Int,
            kind: ColumnKind::ClusteringKey { position: 0, order: ClusteringOrder::Descending },
        },
        Column { name: "v".into(), ty: DataType::Text, kind: ColumnKind::Regular },
    ]);
    let mut fragments = Vec::new();
    let mut keys: Vec<PartitionKey> =
        (0..400i32).map(|key| PartitionKey::from_bytes(key.to_be_bytes())).collect();
    keys.sort();
    for key in keys {
        fragments.push(Fragment::PartitionStart { key: Rc::new(key), deletion: None });
        for ck in (0..20).rev() {
            let value = [Value::Int(ck)];
            let key = ClusteringKey::from_values(&schema, &value).unwrap();
            let cell = Cell::live(7, vec![b'x'; 200].as_slice());
            let row = Row { cells: vec![(ColumnId(2), cell)], ..Row::default() };
            fragments.push(Fragment::Row { key: Rc::new(key), row: Rc::new(row) });
        }
        fragments.push(Fragment::PartitionEnd);
    }
    let options =
        WriterOptions { column_index_bytes: 1024, compression, ..WriterOptions::default() };
    write(disk, 1, &schema, options, fragments).unwrap();
}

#[test]
fn files_written_here_are_sound() {
    let disk = MemoryDisk::default();
    write_large(&disk, None);
    let sstable = inspector(&disk, directory(), &SstableName::native(1));
    let found = verified(&sstable);
    assert!(found.is_sound(), "{:#?}", found.problems);
    assert_eq!((found.partitions, found.rows), (400, 8000));
    // Its own checksums cover what the format leaves open: every byte of every file.
    for component in Component::WRITTEN {
        let path = component.path(directory(), 1);
        let content = disk.content(&path);
        for at in [0, content.len() / 3, content.len() - 1] {
            let mut damaged = content.clone();
            damaged[at] ^= 0x10;
            disk.set_content(&path, damaged);
            let found = verified(&inspector(&disk, directory(), &SstableName::native(1)));
            assert!(!found.is_sound(), "byte {at} of {component:?}");
        }
        disk.set_content(&path, content);
    }
}

/// Whatever the checksums are of: pages, chunks of plain data, compressed chunks. Files are read in
/// pieces, and the place is one in the file.
#[test]
fn damage_is_told_where_it_is_also_far_behind_the_start() {
    const CHUNK_BYTES: u64 = 16 << 10;
    let compression =
        Compression { compressor: Compressor::Lz4, chunk_bytes: CHUNK_BYTES as u32, level: None };
    for (compression, is_own, unit) in [
        (None, true, PAGE_BYTES as u64),
        (None, false, 64 << 10),
        (Some(compression), false, CHUNK_BYTES),
    ] {
        let disk = MemoryDisk::default();
        write_large(&disk, compression);
        if !is_own {
            make_foreign(&disk);
        }
        let path = Component::Data.path(directory(), 1);
        let content = disk.content(&path);
        // Compressed chunks are anywhere.
        let starts: Vec<u64> = match compression {
            None => (0..content.len() as u64).step_by(unit as usize).collect(),
            Some(_) => {
                let name = SstableName::native(1);
                let sstable = inspector(&disk, directory(), &name);
                let info = block_on(sstable.compression(content.len() as u64)).unwrap().unwrap();
                let count = info.data_bytes.div_ceil(unit);
                (0..count).map(|number| info.chunk(number).at).collect()
            }
        };
        for start in [starts[0], starts[1], starts[starts.len() / 2], *starts.last().unwrap()] {
            let mut damaged = content.clone();
            damaged[start as usize + 40] ^= 0x10;
            disk.set_content(&path, damaged);
            let found = verified_native(&disk);
            let Error::Corrupt(told) = &found.problems[0] else { panic!("{:?}", found.problems) };
            assert_eq!((&told.file, told.offset), (&path, start), "units of {unit}: {told}");
        }
    }
}

/// Damages a fixture and verifies it; says what was found.
fn damaged(
    (version, table): (&str, &str),
    component: Component,
    damage: impl FnOnce(&mut Vec<u8>),
) -> Verification {
    let (disk, directory, name) = load(version, table);
    let path = name.path(&directory, component);
    let mut content = disk.content(&path);
    damage(&mut content);
    disk.set_content(&path, content);
    verified(&inspector(&disk, &directory, &name))
}

fn assert_names(found: &Verification, component: Component) {
    let named = found.problems.iter().any(|problem| {
        matches!(problem, Error::Corrupt(corruption)
            if corruption.file.to_string_lossy().ends_with(component.suffix()))
    });
    assert!(named, "{component:?}: {:#?}", found.problems);
}

#[test]
fn a_flipped_byte_is_found_in_every_component() {
    let fixtures = [("me", "simple_none"), ("me", "simple_lz4"), ("nb", "tombs"), ("nb", "mixed")];
    for fixture in fixtures {
        let components = [Component::Data, Component::Index, Component::Summary, Component::Filter];
        for component in components {
            let (disk, directory, name) = load(fixture.0, fixture.1);
            let size = disk.content(&name.path(&directory, component)).len();
            let step = (size / 24).max(1);
            // The distance of samples shows where there are several.
            let is_large = fixture.1.starts_with("simple");
            let first = if component == Component::Summary && !is_large { 4 } else { 0 };
            for at in (first..size).step_by(step) {
                let found = damaged(fixture, component, |content| content[at] ^= 0x04);
                assert!(!found.is_sound(), "{fixture:?}: byte {at} of {component:?}");
                assert_names(&found, component);
            }
        }
    }
}

#[test]
fn wrong_checksums_are_found() {
    let found = damaged(("me", "simple_lz4"), Component::Digest, |content| content[0] ^= 1);
    assert_eq!(found.problem_count, 1);
    assert_names(&found, Component::Digest);
    let found = damaged(("me", "tombs"), Component::Crc, |content| content[5] ^= 1);
    assert_eq!(found.problem_count, 1);
    assert_names(&found, Component::Data);
    let found = damaged(("nb", "mixed"), Component::CompressionInfo, |content| content[22] ^= 1);
    assert_names(&found, Component::CompressionInfo);
}

/// Statistics of `nb` have checksums; those of `me` are held against the data.
#[test]
fn wrong_statistics_are_found() {
    let (disk, directory, name) = load("nb", "mixed");
    let size = disk.content(&name.path(&directory, Component::Statistics)).len();
    for at in (0..size).step_by(size / 60) {
        let found = damaged(("nb", "mixed"), Component::Statistics, |content| content[at] ^= 0x20);
        assert!(!found.is_sound(), "byte {at}");
        assert_names(&found, Component::Statistics);
    }
    let sstable = open_fixture("me", "tombs");
    let metadata = block_on(sstable.metadata()).unwrap();
    let content = disk_content(&sstable);
    let fields = vec![
        metadata.min_timestamp.to_be_bytes().to_vec(),
        metadata.max_timestamp.to_be_bytes().to_vec(),
        [metadata.columns_count.to_be_bytes(), metadata.rows_count.to_be_bytes()].concat(),
        metadata.min_deletion_time.to_be_bytes().to_vec(),
    ];
    let with_other = |field: &[u8]| {
        let at = content.windows(field.len()).position(|bytes| bytes == field).unwrap();
        let last = at + field.len() - 1;
        damaged(("me", "tombs"), Component::Statistics, |content| content[last] ^= 1)
    };
    for field in fields {
        let found = with_other(&field);
        assert!(!found.is_sound(), "{field:?}");
        assert_names(&found, Component::Statistics);
    }
    // Times of deletion and times to live, the least and the greatest.
    let (deleted, ttls) = (
        [metadata.min_deletion_time, metadata.max_deletion_time],
        [metadata.min_ttl, metadata.max_ttl],
    );
    let extents = [deleted, ttls].concat().into_iter().flat_map(i32::to_be_bytes);
    let extents: Vec<u8> = extents.collect();
    let at = content.windows(extents.len()).position(|bytes| bytes == extents).unwrap();
    for last in (at + 3..at + extents.len()).step_by(4) {
        let found = damaged(("me", "tombs"), Component::Statistics, |content| content[last] ^= 1);
        assert!(!found.is_sound(), "byte {} of the extents", last - at);
        assert_names(&found, Component::Statistics);
    }
    // Versions of Cassandra gather these in different ways: told, and no damage.
    let found = with_other(&metadata.drop_times[0].0.to_be_bytes());
    assert!(found.is_sound(), "{:?}", found.problems);
    assert!(found.notes[0].contains("drop times"), "{:?}", found.notes);
    let compressed = block_on(open_fixture("me", "simple_lz4").metadata()).unwrap();
    let ratio = compressed.compression_ratio.to_be_bytes();
    let found = damaged(("me", "simple_lz4"), Component::Statistics, |content| {
        let at = content.windows(8).position(|bytes| bytes == ratio).unwrap();
        content[at + 1] ^= 1;
    });
    assert!(found.is_sound(), "{:?}", found.problems);
    assert!(found.notes[0].contains("a compression ratio of 0."), "{:?}", found.notes);
    // The cardinality estimate.
    let found = damaged(("me", "simple_none"), Component::Statistics, |content| content[600] ^= 1);
    assert_names(&found, Component::Statistics);
}

/// Who skips files by the bounds of their rows would pass by what deletes rows of other files.
#[test]
fn beside_a_range_tombstone_no_bounds_of_rows_are_stated() {
    let order = ClusteringOrder::Ascending;
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    let schema = model::schema_of(vec![
        column("pk", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
        column("ck", DataType::Int, ColumnKind::ClusteringKey { position: 0, order }),
        column("v", DataType::Text, ColumnKind::Regular),
    ]);
    let clustering = |ck| ClusteringKey::from_values(&schema, &[Value::Int(ck)]).unwrap();
    let row = |ck| {
        let row = Row { cells: vec![(ColumnId(2), Cell::live(7, *b"v"))], ..Row::default() };
        Fragment::Row { key: Rc::new(clustering(ck)), row: Rc::new(row) }
    };
    let change = |position, tombstone| Fragment::RangeTombstoneChange { position, tombstone };
    let deleted = Tombstone { timestamp: 3, deletion_time: 3 };
    let key = Rc::new(PartitionKey::from_bytes(1i32.to_be_bytes()));
    for has_range in [false, true] {
        let mut fragments = vec![Fragment::PartitionStart { key: key.clone(), deletion: None }];
        fragments.extend([row(5), row(6)]);
        if has_range {
            fragments.push(change(Position::before(clustering(8)), Some(deleted)));
            fragments.push(change(Position::after(clustering(9)), None));
        }
        fragments.push(Fragment::PartitionEnd);
        let disk = MemoryDisk::default();
        write(&disk, 1, &schema, WriterOptions::default(), fragments).unwrap();
        let sstable = inspector(&disk, directory(), &SstableName::native(1));
        let metadata = block_on(sstable.metadata()).unwrap();
        let stated = (metadata.min_clustering, metadata.max_clustering);
        let of = |ck: i32| if has_range { vec![] } else { vec![ck.to_be_bytes().to_vec()] };
        assert_eq!(stated, (of(5), of(6)), "a range tombstone: {has_range}");
    }
}

/// Data and index agree, and no checksum speaks: the order itself is looked at.
#[test]
fn partitions_out_of_order_are_found() {
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    let schema = model::schema_of(vec![
        column("pk", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
        column("v", DataType::Text, ColumnKind::Regular),
    ]);
    let bytes = [0x1122_3344_i32, 0x5566_7788].map(i32::to_be_bytes);
    let mut keys = bytes.map(PartitionKey::from_bytes);
    keys.sort();
    let partition = |key: &PartitionKey| {
        let row = Row { cells: vec![(ColumnId(1), Cell::live(7, *b"v"))], ..Row::default() };
        let key = Rc::new(key.clone());
        let (empty, row) = (Rc::new(ClusteringKey::empty()), Rc::new(row));
        [
            Fragment::PartitionStart { key, deletion: None },
            Fragment::Row { key: empty, row },
            Fragment::PartitionEnd,
        ]
    };
    let disk = MemoryDisk::default();
    let fragments: Vec<Fragment> = keys.iter().flat_map(partition).collect();
    write(&disk, 1, &schema, WriterOptions::default(), fragments).unwrap();
    for component in [Component::Crc, Component::Digest] {
        block_on(shared(&disk).remove(&component.path(directory(), 1))).unwrap();
    }
    make_foreign(&disk);
    for component in [Component::Data, Component::Index] {
        let path = component.path(directory(), 1);
        let mut content = disk.content(&path);
        let place = |key: &[u8; 4]| content.windows(4).position(|part| part == key).unwrap();
        let places = [place(&bytes[0]), place(&bytes[1])];
        for (at, other) in places.into_iter().zip([bytes[1], bytes[0]]) {
            content[at..at + 4].copy_from_slice(&other);
        }
        disk.set_content(&path, content);
    }
    let found = verified_native(&disk);
    let is_order = |problem: &Error| {
        matches!(problem, Error::Corrupt(corruption)
            if corruption.file.ends_with("me-1-big-Data.db")
                && corruption.wanted.starts_with("a key after"))
    };
    assert!(found.problems.iter().any(is_order), "{:#?}", found.problems);
}

/// One row twice, and no checksum speaks.
#[test]
fn a_row_that_comes_twice_is_found() {
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    let order = ClusteringOrder::Ascending;
    let schema = model::schema_of(vec![
        column("pk", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
        column("ck", DataType::Int, ColumnKind::ClusteringKey { position: 0, order }),
        column("v", DataType::Text, ColumnKind::Regular),
    ]);
    let keys = [0x1122_3344, 0x5566_7788];
    let row = |ck: &i32| {
        let key = ClusteringKey::from_values(&schema, &[Value::Int(*ck)]).unwrap();
        let row = Row { cells: vec![(ColumnId(2), Cell::live(7, *b"v"))], ..Row::default() };
        Fragment::Row { key: Rc::new(key), row: Rc::new(row) }
    };
    let start = Fragment::PartitionStart {
        key: Rc::new(PartitionKey::from_bytes(1_i32.to_be_bytes())),
        deletion: None,
    };
    let rows = keys.iter().map(row);
    let fragments: Vec<Fragment> =
        std::iter::once(start).chain(rows).chain([Fragment::PartitionEnd]).collect();
    let disk = MemoryDisk::default();
    write(&disk, 1, &schema, WriterOptions::default(), fragments).unwrap();
    for component in [Component::Crc, Component::Digest] {
        block_on(shared(&disk).remove(&component.path(directory(), 1))).unwrap();
    }
    make_foreign(&disk);
    let path = Component::Data.path(directory(), 1);
    let mut content = disk.content(&path);
    let [first, second] = keys.map(i32::to_be_bytes);
    let at = content.windows(4).position(|part| part == second).unwrap();
    content[at..at + 4].copy_from_slice(&first);
    disk.set_content(&path, content);
    let found = verified_native(&disk);
    let is_order = |problem: &Error| {
        matches!(problem, Error::Corrupt(corruption)
            if corruption.wanted == "a row or marker after the one before")
    };
    assert!(found.problems.iter().any(is_order), "{:#?}", found.problems);
}

fn disk_content(sstable: &Inspector) -> Vec<u8> {
    std::fs::read(
        root().join("me/tombs").join(sstable.path(Component::Statistics).file_name().unwrap()),
    )
    .unwrap()
}

#[test]
fn a_wrong_promoted_index_is_found() {
    // All the index of the wide partition, whatever its bytes mean.
    let (disk, directory, name) = load("me", "wide_none");
    let index = disk.content(&name.path(&directory, Component::Index));
    for at in (30..index.len() - 40).step_by(139) {
        for bit in [0x01, 0x80] {
            let found = damaged(("me", "wide_none"), Component::Index, |c| c[at] ^= bit);
            assert!(!found.is_sound(), "bit {bit:#x} of byte {at}");
            assert_names(&found, Component::Index);
        }
    }
    // Range tombstones in force after blocks.
    let (disk, directory, name) = load("me", "tombs");
    let index = disk.content(&name.path(&directory, Component::Index));
    for at in 0..index.len() {
        let found = damaged(("me", "tombs"), Component::Index, |content| content[at] ^= 1);
        assert!(!found.is_sound(), "byte {at}");
    }
}

#[test]
fn missing_and_foreign_files_are_told() {
    let (disk, directory, name) = load("me", "tombs");
    let toc = b"Data.db\nIndex.db\nStatistics.db\nFilter.db\nSummary.db\nTOC.txt\nNone.db\n";
    disk.set_content(&name.path(&directory, Component::Toc), toc.to_vec());
    let found = verified(&inspector(&disk, &directory, &name));
    let texts: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
    assert_eq!(found.problem_count, 3, "{texts:?}");
    assert!(texts.iter().any(|text| text.contains("'None.db'")), "{texts:?}");
    assert!(found.to_json().contains("\"status\": \"damaged\""));
    let error = block_on(Inspector::open(shared(&disk), &directory, &SstableName::native(77)));
    assert!(matches!(error.err(), Some(Error::NotFound { .. })));
}

/// Listed, and not there.
#[test]
fn what_the_index_tells_anew_is_missed_without_harm() {
    let (disk, directory, name) = load("me", "simple_none");
    for missing in [Component::Summary, Component::Filter] {
        block_on(shared(&disk).remove(&name.path(&directory, missing))).unwrap();
    }
    let found = verified(&inspector(&disk, &directory, &name));
    assert!(found.is_sound(), "{:?}", found.problems);
    for missing in ["Summary.db", "Filter.db"] {
        assert!(found.notes.iter().any(|note| note.contains(missing)), "{:?}", found.notes);
    }
}

/// One byte spoils a chunk, and with it each partition in it: that is one place.
#[test]
fn one_flipped_byte_is_told_once() {
    for (fixture, most) in [
        (("me", "simple_lz4"), 1),
        (("nb", "simple_zstd"), 1),
        (("me", "hashkeys"), 1),
        // The checksum of the chunk, and what became of the partition that has the byte.
        (("me", "simple_none"), 2),
        (("me", "wide_none"), 2),
    ] {
        for share in [3, 7, 11] {
            let found = damaged(fixture, Component::Data, |content| {
                let at = content.len() * share / 13;
                content[at] ^= 0x40;
            });
            let told: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
            assert!((1..=most).contains(&found.problem_count), "{fixture:?} {share}: {told:#?}");
            assert_eq!(told.len() as u64, found.problem_count);
        }
    }
}

#[test]
fn the_walk_goes_on_after_damage() {
    // Uncompressed, so that damage of one place does not hide the others.
    let found = damaged(("me", "simple_none"), Component::Data, |content| {
        content[2000] ^= 0xff;
        content[60_000] ^= 0xff;
    });
    assert!(found.partitions >= 990, "{} partitions", found.partitions);
    assert!(found.problem_count >= 3, "{:#?}", found.problems);
}
