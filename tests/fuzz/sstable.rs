//! SSTables of which a component is whatever the fuzzer makes it: one of a fixture is replaced by
//! its bytes, and everything that reads SSTables reads it, queries in both directions, dumps and
//! verification.
//!
//! Results do not matter; a panic, an endless loop or memory without bound does.

use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use futures::executor::block_on;
use tidegate_engine::cache::PageCache;
use tidegate_engine::disk::Disk;
use tidegate_engine::inspect::{
    DataDump, IndexDump, Inspector, dump_scylla, dump_statistics, dump_statistics_json,
    dump_summary, find_schema, verify,
};
use tidegate_engine::mutation::PartitionRange;
use tidegate_engine::schema::{Column, ColumnKind, TableId, TableOptions};
use tidegate_engine::sstable::{Component, ReadPlan, Sstable, SstableName};
use tidegate_engine::{DataType, Direction, SchemaRef, Slice, TableSchema};

use crate::memory_disk::MemoryDisk;

/// Versions, tables and whether they are compressed: between them they have all that a file may
/// hold.
const FIXTURES: [(&str, &str); 3] = [("me", "tombs"), ("nb", "tombs"), ("nb", "types_ck_text")];

/// Small, because every run makes one.
const CACHE_BYTES: usize = 256 << 10;

const NOW_SECONDS: i64 = 1_795_300_000;

/// Components and the names of their targets.
pub const COMPONENTS: [(&str, Component); 9] = [
    ("compression_info", Component::CompressionInfo),
    ("crc", Component::Crc),
    ("data", Component::Data),
    ("filter", Component::Filter),
    ("index", Component::Index),
    ("scylla", Component::Scylla),
    ("statistics", Component::Statistics),
    ("summary", Component::Summary),
    ("toc", Component::Toc),
];

/// Longest component of a fixture that a fuzzer begins with, bytes. Large ones are slow, and hold
/// what small ones hold.
const SEED_BYTES_MAX: usize = 20_000;

struct Fixture {
    name: SstableName,
    schema: SchemaRef,
    files: Vec<(String, Vec<u8>)>,
}

thread_local! {
    static LOADED: Vec<Fixture> = FIXTURES.iter().map(|(version, table)| load(version, table)).collect();
}

fn load(version: &str, table: &str) -> Fixture {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/sstables");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(root.join(version).join(table)).expect("the fixtures are there")
    {
        let path = entry.expect("a readable folder").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if name.starts_with(version) {
            files.push((name, std::fs::read(&path).expect("a readable file")));
        }
    }
    let name =
        SstableName::parse(&format!("{version}-1-big-Data.db")).expect("a name of the format");
    Fixture { name, schema: schema(table), files }
}

fn schema(table: &str) -> SchemaRef {
    let order = tidegate_engine::ClusteringOrder::Ascending;
    let partition = ColumnKind::PartitionKey { position: 0 };
    let clustering = |position| ColumnKind::ClusteringKey { position, order };
    let columns = match table {
        "tombs" => vec![
            ("pk", DataType::Int, partition),
            ("a", DataType::Int, clustering(0)),
            ("b", DataType::Int, clustering(1)),
            ("v", DataType::Text, ColumnKind::Regular),
        ],
        _ => vec![("pk", DataType::Int, partition), ("ck", DataType::Text, clustering(0))],
    };
    let column =
        |(name, ty, kind): (&str, DataType, ColumnKind)| Column { name: name.into(), ty, kind };
    Arc::new(TableSchema {
        id: TableId(1),
        keyspace: "fx".into(),
        name: table.into(),
        columns: columns.into_iter().map(column).collect(),
        options: TableOptions::default(),
        drops: Vec::new(),
    })
}

/// The components of this kind that the fixtures have.
pub fn seeds(component: Component) -> Vec<Vec<u8>> {
    LOADED.with(|fixtures| {
        let files = fixtures.iter().flat_map(|fixture| &fixture.files);
        let of_kind = files.filter(|(name, content)| {
            name.ends_with(component.suffix()) && content.len() <= SEED_BYTES_MAX
        });
        of_kind.map(|(_, content)| content.clone()).collect()
    })
}

/// Reads each fixture with its `component` replaced by `content`, with and without checksums.
pub fn read_with(component: Component, content: &[u8]) {
    LOADED.with(|fixtures| {
        for fixture in fixtures {
            for keeps_checksums in [true, false] {
                read(fixture, component, content, keeps_checksums);
            }
        }
    });
}

fn read(fixture: &Fixture, component: Component, content: &[u8], keeps_checksums: bool) {
    let directory = Path::new("/fx/t");
    let memory = MemoryDisk::default();
    let suffix = component.suffix();
    let mut names: Vec<String> = Vec::new();
    for (name, own) in &fixture.files {
        let is_checksum = name.ends_with("CRC.db") || name.ends_with("Digest.crc32");
        if name.ends_with("TOC.txt") || (is_checksum && !keeps_checksums) {
            continue;
        }
        names.push(name.rsplit('-').next().expect("a suffix").to_owned());
        let content = if name.ends_with(suffix) { content } else { own };
        memory.set_content(&directory.join(name), content.to_vec());
    }
    let path = fixture.name.path(directory, component);
    memory.set_content(&path, content.to_vec());
    if component != Component::Toc {
        names.push(suffix.to_owned());
        names.sort();
        names.dedup();
        let toc = fixture.name.path(directory, Component::Toc);
        memory.set_content(
            &toc,
            names.iter().map(|name| format!("{name}\n")).collect::<String>().into(),
        );
    }
    let disk: Rc<dyn Disk> = Rc::new(memory);
    block_on(async {
        let cache = PageCache::new(CACHE_BYTES, 1);
        let schema = fixture.schema.clone();
        let name = &fixture.name;
        if let Ok(table) = Sstable::open_named(disk.clone(), cache, directory, name, schema).await {
            for direction in [Direction::Forward, Direction::Reversed] {
                let (range, slice) = (PartitionRange::full(), Slice::full(direction));
                let Some(mut source) = table.read(&ReadPlan::of(&range, &slice)) else { continue };
                loop {
                    let mut out = VecDeque::new();
                    if source.fill(&mut out).await.is_err() || out.is_empty() {
                        break;
                    }
                }
            }
        }
        let Ok(sstable) = Inspector::open(disk, directory, name).await else { return };
        let mut out = String::new();
        if let Ok(mut dump) = DataDump::new(&sstable, NOW_SECONDS).await {
            while dump.next(&mut out).await.unwrap_or(false) {
                out.clear();
            }
        }
        if let Ok(mut dump) = IndexDump::new(&sstable).await {
            while dump.next(&mut out).await.unwrap_or(false) {
                out.clear();
            }
        }
        let _ = dump_summary(&sstable).await;
        let _ = dump_statistics(&sstable).await;
        let _ = dump_statistics_json(&sstable).await;
        let _ = dump_scylla(&sstable).await;
        let _ = find_schema(&[&sstable]).await;
        verify(&sstable, &mut |_, _, _| {}).await;
    });
}
