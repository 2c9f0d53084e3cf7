//! Damaged files give an error or the right answer, never a wrong one and never a panic.

use super::model::*;
use super::*;
use crate::clock::Random;
use crate::error::Error;
use crate::mutation::{Cell, CellPath, Direction, MultiCell, Row, ViewRoom};
use crate::schema::{ClusteringOrder, Column, ColumnId, ColumnKind, DataType, Value};
use crate::sstable::format::coding::{Fault, Input, Parsed};
use crate::sstable::format::layout::{Header, Layout};
use crate::sstable::format::unfiltered::{self, Head, UnfilteredEncoder, read_head};

/// A small table of several partitions with promoted indexes.
pub(crate) fn sample(disk: &MemoryDisk) -> (SchemaRef, Partitions) {
    for seed in 1.. {
        let mut random = Random::new(seed);
        let schema = random_schema(&mut random);
        let partitions = random_partitions(&mut random, &schema);
        let rows: usize = partitions.values().map(|partition| partition.rows.len()).sum();
        let ranges: usize = partitions.values().map(|p| p.tombstones.len()).sum();
        if partitions.len() < 3 || !(20..40).contains(&rows) || ranges < 4 {
            continue;
        }
        // Every byte is damaged, so they should be few, and of every kind.
        let has_multi_cell = schema.columns.iter().any(|column| column.ty.is_multi_cell());
        if !has_multi_cell || schema.columns.len() > 10 {
            continue;
        }
        let options = WriterOptions { column_index_bytes: 256, ..WriterOptions::default() };
        let fragments = all_fragments(&partitions, &Slice::full(Direction::Forward));
        write(disk, 1, &schema, options, fragments).unwrap();
        return (schema, partitions);
    }
    unreachable!("some seed gives such a table")
}

/// All that can be read, by scan and by key.
pub(crate) fn read_all(
    disk: &MemoryDisk,
    schema: &SchemaRef,
    partitions: &Partitions,
) -> Result<()> {
    read_opened(&open(disk, 1, schema)?, partitions)
}

fn read_opened(table: &Rc<Sstable>, partitions: &Partitions) -> Result<()> {
    for direction in [Direction::Forward, Direction::Reversed] {
        let slice = Slice::full(direction);
        let found = read(table, &PartitionRange::full(), &slice)?;
        if found != all_fragments(partitions, &slice) {
            return Err(Error::invalid("another answer"));
        }
        for (key, partition) in partitions {
            let found = read(table, &PartitionRange::Single(key.clone()), &slice)?;
            if found != partition.fragments(key, &slice) {
                return Err(Error::invalid("another answer"));
            }
        }
    }
    for (key, partition) in partitions {
        for row in partition.rows.keys() {
            let found = read_row(table, key, row, true)?;
            if !found.is_some_and(|found| is_same_point(found, partition.point(row, true), true)) {
                return Err(Error::invalid("another answer"));
            }
        }
    }
    Ok(())
}

pub(crate) fn is_other_answer(result: &Result<()>) -> bool {
    matches!(result, Err(Error::Invalid(message)) if message == "another answer")
}

/// Reads a table of ours; also what was damaged and done without when it was opened.
fn read_own(
    disk: &MemoryDisk,
    schema: &SchemaRef,
    partitions: &Partitions,
) -> (Result<()>, Vec<Error>) {
    match open_own(disk, 1, schema) {
        Ok(table) => (read_opened(&table, partitions), table.mended().to_vec()),
        Err(error) => (Err(error), Vec::new()),
    }
}

/// Damage of data and index is an error that names them; damage of anything else is told, and all
/// rows are there.
fn check_noticed(
    (result, mended): &(Result<()>, Vec<Error>),
    (component, at): (Component, usize),
) -> bool {
    assert!(!is_other_answer(result), "{component:?} byte {at} gives other rows");
    let is_named = |error: &Error| error.to_string().contains(component.suffix());
    match (component, result) {
        (Component::Data | Component::Index, Err(error)) => {
            assert!(is_named(error), "{component:?} byte {at}: {error}");
            true
        }
        (Component::Data | Component::Index, Ok(())) => false,
        (_, Err(error)) => panic!("{component:?} byte {at}: {error}"),
        (_, Ok(())) => {
            assert!(mended.iter().all(is_named), "{component:?} byte {at}: {mended:?}");
            !mended.is_empty()
        }
    }
}

/// Takes away what only files of ours have, and lists what is left.
pub(crate) fn make_foreign(disk: &MemoryDisk) {
    for component in [Component::Tidegate, Component::Scylla] {
        block_on(disk.remove(&component.path(directory(), 1))).unwrap();
    }
    let names = disk.names();
    let is_there = |component: &Component| names.contains(&component.path(directory(), 1));
    let listed = Component::ALL.into_iter().filter(is_there);
    let toc: String = listed.map(|component| format!("{}\n", component.suffix())).collect();
    disk.set_content(&Component::Toc.path(directory(), 1), toc.into_bytes());
}

#[test]
fn every_flipped_byte_is_noticed_and_costs_rows_only_in_data_and_index() {
    let disk = MemoryDisk::default();
    let (schema, partitions) = sample(&disk);
    read_own(&disk, &schema, &partitions).0.unwrap();
    for component in Component::WRITTEN {
        let path = component.path(directory(), 1);
        let content = disk.content(&path);
        // Registers and histograms of the statistics are all alike.
        let step = if component == Component::Statistics { 7 } else { 1 };
        let mut noticed = 0;
        for at in (0..content.len()).step_by(step) {
            let mut damaged = content.clone();
            damaged[at] ^= 1 << (at % 8);
            disk.set_content(&path, damaged);
            let read = read_own(&disk, &schema, &partitions);
            noticed += usize::from(check_noticed(&read, (component, at)));
        }
        // Another blank at the end of the table of contents says the same.
        let unseen = usize::from(component == Component::Toc);
        assert!(noticed + unseen >= content.len().div_ceil(step), "{component:?}: {noticed}");
        disk.set_content(&path, content);
    }
}

#[test]
fn every_truncation_is_noticed_and_costs_rows_only_in_data_and_index() {
    let disk = MemoryDisk::default();
    let (schema, partitions) = sample(&disk);
    for component in Component::WRITTEN {
        let path = component.path(directory(), 1);
        let content = disk.content(&path);
        for length in (0..content.len()).step_by(11) {
            disk.set_content(&path, content[..length].to_vec());
            let read = read_own(&disk, &schema, &partitions);
            assert!(check_noticed(&read, (component, length)), "{component:?} {length}");
        }
        block_on(shared(&disk).remove(&path)).unwrap();
        if !matches!(component, Component::Data | Component::Index) {
            let read = read_own(&disk, &schema, &partitions);
            assert!(check_noticed(&read, (component, 0)), "no {component:?}");
        }
        disk.set_content(&path, content);
    }
}

/// What one component is made good by may be damaged as well.
#[test]
fn two_damaged_components_are_an_error_or_the_same_answer() {
    let disk = MemoryDisk::default();
    let (schema, partitions) = sample(&disk);
    let known = open_own(&disk, 1, &schema).unwrap().info().clone();
    let mut refused = Vec::new();
    for (i, a) in Component::WRITTEN.into_iter().enumerate() {
        for b in &Component::WRITTEN[..i] {
            let both = [a, *b];
            let paths = both.map(|component| component.path(directory(), 1));
            let contents = paths.clone().map(|path| disk.content(&path));
            for (path, content) in paths.iter().zip(&contents) {
                disk.set_content(path, content[..content.len() / 2].to_vec());
            }
            let cache = PageCache::new(64 << 20, 1);
            let known = (1, Some(&known));
            let opened = Sstable::open(shared(&disk), cache, directory(), known, schema.clone());
            let opened = block_on(opened);
            let mended = opened.as_ref().map_or(0, |table| table.mended().len());
            let result = opened.and_then(|table| read_opened(&table, &partitions));
            assert!(!is_other_answer(&result), "{both:?}");
            let needed = [Component::Data, Component::Index];
            match result {
                Ok(()) => {
                    assert!(mended > 0 && !both.iter().any(|c| needed.contains(c)), "{both:?}")
                }
                Err(_) if both.iter().any(|c| needed.contains(c)) => {}
                Err(error) => refused.push((both, error.to_string())),
            }
            for (path, content) in paths.iter().zip(contents) {
                disk.set_content(path, content);
            }
        }
    }
    // How rows are laid out stands in two of them.
    let [(both, error)] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!(*both, [Component::Tidegate, Component::Statistics]);
    assert!(error.contains("Statistics.db") && error.contains("restore it from a copy"), "{error}");
}

/// Foreign files may have no checksums: damage may go unnoticed, but must not stop the process.
#[test]
fn damage_without_checksums_never_panics() {
    let disk = MemoryDisk::default();
    let (schema, partitions) = sample(&disk);
    let toc = Component::Toc.path(directory(), 1);
    disk.set_content(&toc, b"Data.db\nIndex.db\nSummary.db\nFilter.db\nStatistics.db\n".to_vec());
    read_all(&disk, &schema, &partitions).unwrap();
    let parts = [
        (Component::Data, 1),
        (Component::Index, 1),
        (Component::Summary, 1),
        (Component::Filter, 1),
        (Component::Statistics, 1),
    ];
    for (component, step) in parts {
        let path = component.path(directory(), 1);
        let content = disk.content(&path);
        for at in (0..content.len()).step_by(step) {
            let flips: &[u8] =
                if component == Component::Statistics { &[0xff] } else { &[1, 0x80, 0xff] };
            for flip in flips {
                let mut damaged = content.clone();
                damaged[at] ^= flip;
                disk.set_content(&path, damaged);
                let _ = read_all(&disk, &schema, &partitions);
            }
        }
        disk.set_content(&path, content);
    }
}

#[test]
fn data_is_checked_by_chunk_where_only_cassandras_checksums_exist() {
    let disk = MemoryDisk::default();
    let (schema, partitions) = sample(&disk);
    let toc = Component::Toc.path(directory(), 1);
    disk.set_content(&toc, b"Data.db\nIndex.db\nSummary.db\nStatistics.db\nCRC.db\n".to_vec());
    read_all(&disk, &schema, &partitions).unwrap();
    let path = Component::Data.path(directory(), 1);
    let content = disk.content(&path);
    for at in 0..content.len() {
        let mut damaged = content.clone();
        damaged[at] ^= 0x10;
        disk.set_content(&path, damaged);
        let error = read_all(&disk, &schema, &partitions).unwrap_err();
        let Error::Corrupt(corruption) = &error else { panic!("byte {at}: {error}") };
        assert_eq!((corruption.file.as_path(), corruption.offset), (path.as_path(), 0));
        assert!(corruption.wanted.starts_with("CRC"), "{error}");
        // A scan checks by itself; a read of one key does it in the page cache.
        let key = partitions.keys().next().unwrap().clone();
        let slice = Slice::full(Direction::Forward);
        let table = open(&disk, 1, &schema).unwrap();
        let by_key = read(&table, &PartitionRange::Single(key), &slice).err();
        assert!(matches!(by_key, Some(Error::Corrupt(_))), "byte {at}: {by_key:?}");
    }
}

#[test]
fn other_columns_and_unknown_codecs_are_refused_by_name() {
    let disk = MemoryDisk::default();
    let (schema, _) = sample(&disk);
    let mut other = (*schema).clone();
    other.columns[0].ty = match other.columns[0].ty {
        DataType::Int => DataType::Text,
        _ => DataType::Int,
    };
    let message = open(&disk, 1, &other.into()).err().unwrap().to_string();
    assert!(message.contains("partition key") && message.contains("ks.t"), "{message}");
    make_foreign(&disk);
    let toc = Component::Toc.path(directory(), 1);
    let mut content = disk.content(&toc);
    content.extend_from_slice(b"CompressionInfo.db\n");
    disk.set_content(&toc, content);
    let info = Component::CompressionInfo.path(directory(), 1);
    disk.set_content(&info, b"\0\x16LZ4WithDictsCompressor\0\0\0\0".to_vec());
    let message = open(&disk, 1, &schema).err().unwrap().to_string();
    assert!(message.contains("compressor 'LZ4WithDictsCompressor': readable are"), "{message}");
}

#[test]
fn memory_that_a_file_holds_is_that_of_the_parts_that_it_has() {
    let disk = MemoryDisk::default();
    let (schema, _) = sample(&disk);
    let held = open_own(&disk, 1, &schema).unwrap().held_memory();
    let is_there = [held.filters, held.summaries, held.checksums].map(|bytes| bytes > 0);
    assert_eq!(is_there, [true; 3], "{held:?}");
    let toc = Component::Toc.path(directory(), 1);
    disk.set_content(&toc, b"Data.db\nIndex.db\nSummary.db\nStatistics.db\n".to_vec());
    let held = open(&disk, 1, &schema).unwrap().held_memory();
    assert_eq!((held.filters, held.summaries > 0), (0, true), "{held:?}");
}

/// Its keys stand in an order in which none would be found.
#[test]
fn a_file_of_another_partitioner_is_refused() {
    let disk = MemoryDisk::default();
    let (schema, partitions) = sample(&disk);
    make_foreign(&disk);
    read_all(&disk, &schema, &partitions).unwrap();
    let path = Component::Statistics.path(directory(), 1);
    let mut content = disk.content(&path);
    let (own, other) = (&b"Murmur3Partitioner"[..], &b"Ordered4Partitions"[..]);
    let at = content.windows(own.len()).position(|bytes| bytes == own).unwrap();
    content[at..at + own.len()].copy_from_slice(other);
    disk.set_content(&path, content);
    let error = open(&disk, 1, &schema).err().unwrap();
    let Error::Corrupt(corruption) = &error else { panic!("{error}") };
    assert_eq!(corruption.file, path);
    assert_eq!(corruption.found, "org.apache.cassandra.dht.Ordered4Partitions", "{error}");
}

/// A table with a map, and how its rows are laid out.
fn table_with_map() -> (SchemaRef, Layout) {
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    let order = ClusteringOrder::Ascending;
    let map = DataType::map_of(DataType::Text, DataType::Int);
    let schema = schema_of(vec![
        column("p", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
        column("c", DataType::Int, ColumnKind::ClusteringKey { position: 0, order }),
        column("m", map, ColumnKind::Regular),
    ]);
    let header = Header::of_schema(&schema, Bases::default());
    let layout = header.layout(&schema, directory()).unwrap();
    (schema, layout)
}

/// A row whose map has elements with these keys, as it is read back.
fn written_and_read(keys: &[&str]) -> Parsed<Row> {
    let (schema, layout) = table_with_map();
    let element = |key: &&str| {
        let path = CellPath::from_stored(&DataType::Text, key.as_bytes()).unwrap();
        (path, Cell::live(5, 1i32.to_be_bytes()))
    };
    let multi = MultiCell { deletion: None, cells: keys.iter().map(element).collect() };
    let row = Row { multi: vec![(ColumnId(2), multi)], ..Row::default() };
    let key = ClusteringKey::from_values(&schema, &[Value::Int(1)]).unwrap();
    let (mut encoder, mut bytes) = (UnfilteredEncoder::default(), Vec::new());
    ViewRoom::default().of_row(&row, |view| {
        encoder.put_row(&layout, (key.as_ordered(), &view), 0, &mut bytes);
    });
    let mut input = Input::new(&bytes);
    match read_head(&mut input, &layout)? {
        Head::Row { key: found, frame } => {
            assert_eq!(found, key);
            Ok(unfiltered::read_row(&mut input, &layout, &layout.regulars, frame)?.1)
        }
        head => panic!("{head:?}"),
    }
}

/// They are merged in order, and looked for by halves.
#[test]
fn elements_that_are_out_of_order_or_come_twice_are_damage() {
    for keys in [&["a"][..], &["a", "b", "c"], &["A", "a", "aa"]] {
        let row = written_and_read(keys).unwrap();
        assert_eq!(row.multi[0].1.cells.len(), keys.len());
    }
    for keys in [&["b", "a"][..], &["a", "a"], &["a", "c", "b"], &["a", "b", "b", "c"]] {
        let found = written_and_read(keys);
        let Err(Fault::Bad { what, .. }) = &found else { panic!("{keys:?}: {found:?}") };
        assert_eq!(what.wanted, "cells of a multi-cell column in order", "{keys:?}");
    }
}

/// The end of a partition above all: what stood behind it would be lost without a word.
#[test]
fn flags_that_contradict_each_other_are_damage() {
    const END: u8 = 0x01;
    const MARKER: u8 = 0x02;
    const EXTENSION: u8 = 0x80;
    let (_, layout) = table_with_map();
    for flags in 0..=u8::MAX {
        let mut bytes = [0; 32];
        bytes[0] = flags;
        let found = read_head(&mut Input::new(&bytes), &layout);
        match flags {
            END => assert_eq!(found, Ok(Head::End)),
            MARKER => assert!(matches!(found, Ok(Head::Marker { .. })), "{found:?}"),
            _ if flags & (END | MARKER | EXTENSION) == 0 => {
                assert!(matches!(found, Ok(Head::Row { .. })), "{flags:#04x}: {found:?}");
            }
            _ => {
                let is_told = matches!(found, Err(Fault::Bad { at: 0, .. }));
                assert!(is_told, "{flags:#04x}: {found:?}");
            }
        }
    }
}

/// Merges drop files whole by their extents: what is not known must look neither expired nor old.
#[test]
fn what_lost_statistics_said_may_be_anything() {
    let disk = MemoryDisk::default();
    let (schema, partitions) = sample(&disk);
    let whole = open_own(&disk, 1, &schema).unwrap().info().clone();
    let path = Component::Statistics.path(directory(), 1);
    let mut content = disk.content(&path);
    content[10] ^= 1;
    disk.set_content(&path, content);
    let table = open_own(&disk, 1, &schema).unwrap();
    let wanted = SstableInfo {
        min_timestamp: i64::MIN,
        max_timestamp: i64::MAX,
        min_deletion_time: i32::MIN,
        max_deletion_time: i32::MAX,
        min_ttl: 0,
        max_ttl: i32::MAX,
        replay: None,
        level: 0,
        ..whole.clone()
    };
    assert_eq!((table.info(), table.droppable(i64::MAX)), (&wanted, 0.0));
    read_opened(&table, &partitions).unwrap();
    // A manifest repeats them.
    let (cache, known) = (PageCache::new(64 << 20, 1), (1, Some(&whole)));
    let opened = Sstable::open(shared(&disk), cache, directory(), known, schema.clone());
    assert_eq!(block_on(opened).unwrap().info(), &whole);
}

/// Made anew from what this engine knows, it would lack what the newer one relies on.
#[test]
fn a_file_of_a_newer_engine_is_refused_and_not_taken_for_damage() {
    let disk = MemoryDisk::default();
    let (schema, _) = sample(&disk);
    let path = Component::Tidegate.path(directory(), 1);
    let mut content = disk.content(&path);
    let end = content.len() - 4;
    content[7] += 1;
    let crc = crate::checksum::crc32(&content[..end]);
    content[end..].copy_from_slice(&crc.to_be_bytes());
    disk.set_content(&path, content);
    for opened in [open_own(&disk, 1, &schema), open(&disk, 1, &schema)] {
        let refused = opened.map(|_| ());
        let Err(Error::Unavailable(text)) = &refused else { panic!("{refused:?}") };
        assert!(text.contains("format 2; this engine reads up to 1"), "{text}");
    }
}
