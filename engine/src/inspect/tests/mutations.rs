//! Seeded damage of Cassandra's files, component by component: readers and tools answer or fail,
//! and never panic. The short sibling of the fuzz targets in `tests/fuzz`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::clock::Random;
use crate::mutation::Direction;
use crate::sstable::tests::foreign::{load, open_named};

/// Versions and tables: small ones, that have between them all that a component may hold.
const FIXTURES: [(&str, &str); 9] = [
    ("me", "mixed"),
    ("nb", "mixed"),
    ("me", "types"),
    ("me", "ckdesc2"),
    ("nb", "tombs"),
    ("me", "manyck"),
    ("nb", "widecols"),
    ("me", "counters"),
    ("me", "types_ck_decimal"),
];

const MUTATIONS: u64 = 40;

/// Numbers that lengths, counts and offsets should not be.
const EDGES: [u32; 8] = [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];

fn mutate(random: &mut Random, content: &mut Vec<u8>) {
    for _ in 0..1 + random.below(4) {
        let length = content.len() as u64;
        if length == 0 {
            content.push(random.below(256) as u8);
            continue;
        }
        let at = random.below(length) as usize;
        match random.below(7) {
            0 => content[at] ^= 1 << random.below(8),
            1 => content[at] = random.below(256) as u8,
            2 => content.truncate(at),
            3 => {
                let word = EDGES[random.below(8) as usize].to_be_bytes();
                let end = (at + 4).min(content.len());
                content[at..end].copy_from_slice(&word[..end - at]);
            }
            4 => content[at] = 0xff,
            5 => {
                let end = (at + 1 + random.below(16) as usize).min(content.len());
                let part = content[at..end].to_vec();
                let to = random.below(length) as usize;
                content.splice(to..to, part);
            }
            _ => {
                let end = (at + 1 + random.below(16) as usize).min(content.len());
                content.drain(at..end);
            }
        }
    }
}

/// Everything that reads a file.
fn read_everything(disk: &MemoryDisk, name: &SstableName, schema: Option<&SchemaRef>) {
    if let Some(schema) = schema
        && let Ok(table) = open_named(disk, name, schema)
    {
        for direction in [Direction::Forward, Direction::Reversed] {
            let _ = read(&table, &PartitionRange::full(), &Slice::full(direction));
        }
    }
    block_on(async {
        let Ok(sstable) = Inspector::open(shared(disk), directory(), name).await else { return };
        let mut out = String::new();
        if let Ok(mut dump) = DataDump::new(&sstable, 1_795_300_000).await {
            while dump.next(&mut out).await.unwrap_or(false) {}
        }
        if let Ok(mut dump) = IndexDump::new(&sstable).await {
            while dump.next(&mut out).await.unwrap_or(false) {}
        }
        let _ = dump_summary(&sstable).await;
        let _ = dump_statistics(&sstable).await;
        let _ = dump_statistics_json(&sstable).await;
        let _ = dump_scylla(&sstable).await;
        let _ = find_schema(&[&sstable]).await;
        verify(&sstable, &mut |_, _, _| {}).await;
    });
}

#[test]
fn mutated_files_of_cassandra_never_stop_the_process() {
    let schemas = crate::sstable::tests::foreign::schemas();
    for (number, (version, fixture)) in FIXTURES.into_iter().enumerate() {
        let (disk, name) = load(version, fixture);
        let schema = schemas.iter().find(|(name, _)| name == fixture).map(|(_, schema)| schema);
        read_everything(&disk, &name, schema);
        let components: Vec<_> = disk
            .names()
            .into_iter()
            .filter(|path| {
                let name = path.file_name().unwrap().to_string_lossy();
                name.starts_with(version) && !name.ends_with("TOC.txt")
            })
            .collect();
        assert!(components.len() >= 7, "{components:?}");
        for path in components {
            let content = disk.content(&path);
            for seed in 0..MUTATIONS {
                let mut random = Random::new(seed << 8 | number as u64);
                let mut mutated = content.clone();
                mutate(&mut random, &mut mutated);
                disk.set_content(&path, mutated);
                // Without checksums more of the parsers is reached.
                for drops_checksums in [false, true] {
                    let work = || read_everything(&without(&disk, drops_checksums), &name, schema);
                    let done = catch_unwind(AssertUnwindSafe(work));
                    assert!(done.is_ok(), "{version}/{fixture} {} seed {seed}", path.display());
                }
            }
            disk.set_content(&path, content);
        }
    }
}

/// The same files, perhaps without those that only hold checksums.
fn without(disk: &MemoryDisk, drops_checksums: bool) -> MemoryDisk {
    if !drops_checksums {
        return disk.clone();
    }
    let kept = MemoryDisk::default();
    for path in disk.names() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let content = disk.content(&path);
        if name.ends_with("TOC.txt") {
            let text = String::from_utf8(content).unwrap();
            let names = text.lines().filter(|line| !is_checksum(line));
            kept.set_content(
                &path,
                names.map(|line| format!("{line}\n")).collect::<String>().into(),
            );
        } else if !is_checksum(&name) {
            kept.set_content(&path, content);
        }
    }
    kept
}

fn is_checksum(name: &str) -> bool {
    name.ends_with("CRC.db") || name.ends_with("Digest.crc32")
}
