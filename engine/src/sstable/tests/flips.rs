//! Every byte of every component flipped once, in a small SSTable of each kind: an error, or the
//! same answer; never a wrong row, never a panic. In files of ours only data and index are
//! indispensable: with any other component damaged the answer is the same, and the damage is told.
//!
//! Kinds: simple rows, collections, static rows with all kinds of tombstone, and a promoted index;
//! as this engine writes them, and as another product compresses them. Index and summary have no
//! checksum in files of others: rows may be missing then, and only what a promoted index says of
//! tombstones may be wrong.

use std::path::PathBuf;

use super::codec::Codec;
use super::compression::{CODECS, compress};
use super::damage::read_all;
use super::foreign::{Named, mixed, table};
use super::model::*;
use super::*;
use crate::checksum::crc32;
use crate::clock::Random;
use crate::error::Error;
use crate::mutation::{ClusteringRange, Direction};
use crate::schema::{ClusteringKey, DataType, PartitionKey};

/// A kind of table: its name, its rows, and how they are written.
struct Kind {
    name: &'static str,
    schema: SchemaRef,
    partitions: Partitions,
    column_index_bytes: u32,
}

/// Random partitions of a table in which `is_fit` holds.
fn find(
    schema: &SchemaRef,
    shape: impl Fn(&mut Partition),
    is_fit: impl Fn(&Partitions) -> bool,
) -> Partitions {
    let mut random = Random::new(7);
    for _ in 0..10_000 {
        let mut partitions = random_partitions(&mut random, schema);
        partitions.values_mut().for_each(&shape);
        // More than its start and its end.
        partitions.retain(|key, partition| {
            partition.fragments(key, &Slice::full(Direction::Forward)).len() > 2
        });
        if is_fit(&partitions) {
            return partitions;
        }
    }
    panic!("no such table among ten thousand");
}

fn kinds() -> Vec<Kind> {
    const INT: DataType = DataType::Int;
    const TEXT: DataType = DataType::Text;
    let two_keys: [Named<'_>; 2] = [("a", INT), ("-b", TEXT)];
    let rows = |partitions: &Partitions| partitions.values().map(|p| p.rows.len()).sum::<usize>();
    let simple = table(&[("pk", INT)], &[("ck", INT)], &[], &[("v", TEXT), ("w", INT)]);
    let plain = |partition: &mut Partition| {
        partition.deletion = None;
        partition.tombstones = Default::default();
        partition.rows.values_mut().for_each(|row| row.deletion = None);
        partition.rows.retain(|_, row| !row.is_empty());
    };
    let statics = table(&[("pk", TEXT)], &two_keys, &[("s", INT), ("t", TEXT)], &[("v", INT)]);
    let wide = table(&[("pk", INT)], &two_keys, &[], &[("v", TEXT)]);
    let dead = |p: &Partitions| {
        p.values().any(|p| p.deletion.is_some())
            && p.values().any(|p| p.rows.values().any(|row| row.deletion.is_some()))
            && p.values().any(|p| !p.static_row.is_empty())
            && p.values().any(|p| !p.tombstones.is_empty())
    };
    let of = |name, schema: SchemaRef, partitions, column_index_bytes| Kind {
        name,
        schema,
        partitions,
        column_index_bytes,
    };
    let simple_rows = find(&simple, plain, |p| (3..5).contains(&p.len()) && rows(p) > 8);
    let mixed = mixed();
    let collections = find(
        &mixed,
        |_| {},
        |p| {
            let multi = p.values().flat_map(|p| p.rows.values()).flat_map(|row| &row.multi).count();
            (2..4).contains(&p.len()) && (6..12).contains(&rows(p)) && multi > 5
        },
    );
    let tombstones =
        find(&statics, |_| {}, |p| (3..5).contains(&p.len()) && rows(p) < 30 && dead(p));
    let blocks = find(
        &wide,
        |_| {},
        |p| p.len() < 3 && p.values().any(|p| p.rows.len() > 25 && !p.tombstones.is_empty()),
    );
    vec![
        of("simple", simple, simple_rows, 65_536),
        of("collections", mixed, collections, 65_536),
        of("tombstones", statics, tombstones, 65_536),
        of("blocks", wide, blocks, 128),
    ]
}

fn written(kind: &Kind) -> MemoryDisk {
    let disk = MemoryDisk::default();
    let options =
        WriterOptions { column_index_bytes: kind.column_index_bytes, ..WriterOptions::default() };
    let fragments = all_fragments(&kind.partitions, &Slice::full(Direction::Forward));
    write(&disk, 1, &kind.schema, options, fragments).unwrap();
    read_all(&disk, &kind.schema, &kind.partitions).unwrap();
    disk
}

/// What reading a damaged file came to.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Outcome {
    Same,
    Error,
    /// Some partition was not found by its key, or a slice lacks rows; what was found is right.
    Missing,
    Wrong,
}

type Open = fn(&MemoryDisk, u64, &SchemaRef) -> Result<Rc<Sstable>>;

/// What there is to read of a table, and what must come.
struct Wanted<'a> {
    slices: Vec<WantedSlice<'a>>,
    rows: Vec<(&'a PartitionKey, &'a ClusteringKey, Slice, Vec<Fragment>)>,
}

struct WantedSlice<'a> {
    slice: Slice,
    /// Of all partitions, where the slice is whole.
    all: Option<Vec<Fragment>>,
    partitions: Vec<(&'a PartitionKey, Vec<Fragment>)>,
}

impl<'a> Wanted<'a> {
    /// Whole, backward, and some slices of every partition; and every row.
    fn of(kind: &'a Kind) -> Self {
        let mut random = Random::new(3);
        let mut slices = [Direction::Forward, Direction::Reversed].map(Slice::full).to_vec();
        slices.extend((0..4).map(|_| random_slice(&mut random, &kind.schema)));
        let of_slice = |slice: Slice| {
            let is_full = slice == Slice::full(slice.direction);
            let partitions = kind.partitions.iter();
            WantedSlice {
                all: is_full.then(|| all_fragments(&kind.partitions, &slice)),
                partitions: partitions.map(|(key, p)| (key, p.fragments(key, &slice))).collect(),
                slice,
            }
        };
        let mut rows = Vec::new();
        for (key, partition) in &kind.partitions {
            for row in partition.rows.keys() {
                let ranges = vec![ClusteringRange::prefix(row.clone())];
                let slice = Slice { ranges, direction: Direction::Forward };
                let wanted = partition.fragments(key, &slice);
                rows.push((key, row, slice, wanted));
            }
        }
        Wanted { slices: slices.into_iter().map(of_slice).collect(), rows }
    }
}

/// Reads everything that is wanted, slices and rows. Also says which files were done without.
fn outcome(
    disk: &MemoryDisk,
    (kind, open): (&Kind, Open),
    wanted: &Wanted<'_>,
) -> (Outcome, Vec<PathBuf>) {
    let mut mended = Vec::new();
    let mut read_all = || -> Result<Outcome> {
        let table = open(disk, 1, &kind.schema)?;
        mended.extend(table.mended().iter().map(|error| match error {
            Error::Corrupt(corruption) => corruption.file.clone(),
            other => panic!("{other}"),
        }));
        let mut outcome = Outcome::Same;
        let mut compare = |found: Vec<Fragment>, wanted: &Vec<Fragment>| {
            if found != *wanted && outcome != Outcome::Wrong {
                let is_part = found.iter().all(|fragment| wanted.contains(fragment));
                outcome = if is_part { Outcome::Missing } else { Outcome::Wrong };
            }
        };
        for WantedSlice { slice, all, partitions } in &wanted.slices {
            if let Some(all) = all {
                compare(read(&table, &PartitionRange::full(), slice)?, all);
            }
            for (key, fragments) in partitions {
                let range = PartitionRange::Single((*key).clone());
                compare(read(&table, &range, slice)?, fragments);
            }
        }
        // By halves, and then parsed.
        for left_out in [u32::MAX, 0] {
            for (key, row, slice, fragments) in &wanted.rows {
                let partition = &kind.partitions[*key];
                table.parses_left_out.set(left_out);
                let found = read_row(&table, key, row, true)?;
                let is_right = found
                    .clone()
                    .is_some_and(|found| is_same_point(found, partition.point(row, true), true));
                if is_right || outcome == Outcome::Wrong {
                    continue;
                }
                // A row that another way of reading finds is not missing.
                let range = PartitionRange::Single((*key).clone());
                let other = read(&table, &range, slice)?;
                let is_missing = found.is_none_or(|found| found.row.is_none());
                let is_lost = is_missing && other != *fragments;
                outcome = if is_lost { Outcome::Missing } else { Outcome::Wrong };
            }
        }
        Ok(outcome)
    };
    let outcome = read_all().unwrap_or(Outcome::Error);
    (outcome, mended)
}

/// Flips every byte of a component once; how many flips came to what.
fn flip(
    disk: &MemoryDisk,
    (kind, open): (&Kind, Open),
    wanted: &Wanted<'_>,
    component: Component,
) -> Flips {
    let path = component.path(directory(), 1);
    let content = disk.content(&path);
    assert_eq!(outcome(disk, (kind, open), wanted), (Outcome::Same, Vec::new()));
    let mut flips = Flips { bytes: content.len(), ..Flips::default() };
    for at in 0..content.len() {
        let mut damaged = content.clone();
        damaged[at] ^= 1 << (at % 8);
        disk.set_content(&path, damaged);
        let (outcome, mended) = outcome(disk, (kind, open), wanted);
        match outcome {
            Outcome::Same if mended == [path.clone()] => flips.mended += 1,
            Outcome::Same => assert!(mended.is_empty(), "{component:?} {at}: {mended:?}"),
            Outcome::Error => flips.errors += 1,
            Outcome::Missing => flips.missing.push(at),
            Outcome::Wrong => flips.wrong.push(at),
        }
    }
    disk.set_content(&path, content);
    flips
}

#[derive(Debug, Default)]
struct Flips {
    bytes: usize,
    errors: usize,
    /// Told, and the answer is the same.
    mended: usize,
    missing: Vec<usize>,
    wrong: Vec<usize>,
}

#[test]
fn no_flip_in_files_of_ours_gives_another_answer() {
    for kind in kinds() {
        let (disk, wanted) = (written(&kind), Wanted::of(&kind));
        for component in Component::WRITTEN {
            let flips = flip(&disk, (&kind, open_own), &wanted, component);
            let what = format!("{} {component:?}: {flips:?}", kind.name);
            assert!(flips.missing.is_empty() && flips.wrong.is_empty(), "{what}");
            match component {
                Component::Data | Component::Index => {
                    assert_eq!(flips.errors, flips.bytes, "{what}")
                }
                // Another blank at the end says the same.
                Component::Toc => {
                    assert!(flips.errors == 0 && flips.mended + 1 >= flips.bytes, "{what}")
                }
                _ => assert_eq!(flips.mended, flips.bytes, "{what}"),
            }
        }
    }
}

/// `Scylla.db` with nothing but checksums of small components.
fn add_checksums(disk: &MemoryDisk) {
    let numbered =
        [(Component::CompressionInfo, 1u32), (Component::Filter, 7), (Component::Statistics, 8)];
    let mut body = (numbered.len() as u32).to_be_bytes().to_vec();
    for (component, number) in numbered {
        let crc = crc32(&disk.content(&component.path(directory(), 1)));
        body.extend_from_slice(&number.to_be_bytes());
        body.extend_from_slice(&crc.to_be_bytes());
    }
    let mut content = Vec::new();
    for word in [1, 12, body.len() as u32] {
        content.extend_from_slice(&word.to_be_bytes());
    }
    content.extend_from_slice(&body);
    content.extend_from_slice(&crc32(&content).to_be_bytes());
    disk.set_content(&Component::Scylla.path(directory(), 1), content);
    let toc = Component::Toc.path(directory(), 1);
    let mut names = disk.content(&toc);
    names.extend_from_slice(b"Scylla.db\n");
    disk.set_content(&toc, names);
}

#[test]
fn no_flip_in_compressed_files_gives_another_answer() {
    for kind in kinds() {
        let wanted = Wanted::of(&kind);
        for codec in CODECS {
            let disk = written(&kind);
            compress(&disk, codec, 256);
            add_checksums(&disk);
            read_all(&disk, &kind.schema, &kind.partitions).unwrap();
            let mut components = vec![
                Component::Data,
                Component::CompressionInfo,
                Component::Index,
                Component::Summary,
                Component::Filter,
                Component::Scylla,
                Component::Toc,
            ];
            // It is the same whatever the codec, and long.
            if codec.0 == Codec::Lz4 {
                components.push(Component::Statistics);
            }
            for component in components {
                let flips = flip(&disk, (&kind, open), &wanted, component);
                let what = format!("{} {codec:?} {component:?}: {flips:?}", kind.name);
                // The promoted index says which tombstones are open between its blocks, and nothing
                // in files of others shows that it says so wrongly.
                let is_promoted = component == Component::Index && kind.name == "blocks";
                assert!(flips.wrong.is_empty() || is_promoted, "{what}");
                match component {
                    // They have no checksum in any version: an entry may not be found any more.
                    Component::Index | Component::Summary => {}
                    // Files whose names are lost are there.
                    Component::Toc => {
                        assert!(flips.errors == 0 && flips.mended + 1 >= flips.bytes, "{what}");
                    }
                    Component::Filter | Component::Scylla => {
                        assert_eq!(flips.mended, flips.bytes, "{what}");
                    }
                    // Options of the codec do not matter.
                    Component::CompressionInfo => assert!(flips.missing.is_empty(), "{what}"),
                    _ => assert!(flips.errors == flips.bytes, "{what}"),
                }
            }
        }
    }
}
