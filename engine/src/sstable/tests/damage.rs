//! Damaged files give an error or the right answer, never a wrong one and never a panic.

use super::model::*;
use super::*;
use crate::clock::Random;
use crate::error::Error;
use crate::mutation::Direction;

/// A small table of several partitions with promoted indexes.
pub(super) fn sample(disk: &MemoryDisk) -> (SchemaRef, Partitions) {
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
pub(super) fn read_all(
    disk: &MemoryDisk,
    schema: &SchemaRef,
    partitions: &Partitions,
) -> Result<()> {
    let table = open(disk, 1, schema)?;
    for direction in [Direction::Forward, Direction::Reversed] {
        let slice = Slice::full(direction);
        let found = read(&table, &PartitionRange::full(), &slice)?;
        if found != all_fragments(partitions, &slice) {
            return Err(Error::invalid("another answer"));
        }
        for (key, partition) in partitions {
            let found = read(&table, &PartitionRange::Single(key.clone()), &slice)?;
            if found != partition.fragments(key, &slice) {
                return Err(Error::invalid("another answer"));
            }
        }
    }
    for (key, partition) in partitions {
        for row in partition.rows.keys() {
            let found = read_row(&table, key, row, true)?;
            if !found.is_some_and(|found| is_same_point(found, partition.point(row, true), true)) {
                return Err(Error::invalid("another answer"));
            }
        }
    }
    Ok(())
}

pub(super) fn is_other_answer(result: &Result<()>) -> bool {
    matches!(result, Err(Error::Invalid(message)) if message == "another answer")
}

#[test]
fn every_flipped_byte_is_noticed_or_does_not_matter() {
    let disk = MemoryDisk::default();
    let (schema, partitions) = sample(&disk);
    read_all(&disk, &schema, &partitions).unwrap();
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
            let result = read_all(&disk, &schema, &partitions);
            assert!(!is_other_answer(&result), "{component:?} byte {at} gives other rows");
            if let Err(error) = result {
                let name = component.suffix();
                let is_named = error.to_string().contains(name) || component == Component::Toc;
                assert!(is_named, "{component:?} byte {at}: {error}");
                noticed += 1;
            }
        }
        if component != Component::Toc {
            assert_eq!(noticed, content.len().div_ceil(step), "{component:?}");
        }
        disk.set_content(&path, content);
    }
}

#[test]
fn every_truncation_is_noticed() {
    let disk = MemoryDisk::default();
    let (schema, partitions) = sample(&disk);
    for component in Component::WRITTEN {
        let path = component.path(directory(), 1);
        let content = disk.content(&path);
        for length in (0..content.len()).step_by(11) {
            disk.set_content(&path, content[..length].to_vec());
            let result = read_all(&disk, &schema, &partitions);
            assert!(!is_other_answer(&result), "{component:?} of {length} bytes");
            assert!(result.is_err() || component == Component::Toc, "{component:?} {length}");
        }
        disk.set_content(&path, content);
    }
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
    }
}

#[test]
fn other_columns_and_unknown_codecs_are_refused_by_name() {
    let disk = MemoryDisk::default();
    let (schema, _) = sample(&disk);
    let mut other = (*schema).clone();
    other.columns[0].ty = match other.columns[0].ty {
        crate::schema::DataType::Int => crate::schema::DataType::Text,
        _ => crate::schema::DataType::Int,
    };
    let message = open(&disk, 1, &other.into()).err().unwrap().to_string();
    assert!(message.contains("partition key") && message.contains("ks.t"), "{message}");
    let toc = Component::Toc.path(directory(), 1);
    let mut content = disk.content(&toc);
    content.extend_from_slice(b"CompressionInfo.db\n");
    disk.set_content(&toc, content);
    let info = Component::CompressionInfo.path(directory(), 1);
    disk.set_content(&info, b"\0\x16LZ4WithDictsCompressor\0\0\0\0".to_vec());
    let message = open(&disk, 1, &schema).err().unwrap().to_string();
    assert!(message.contains("compressor 'LZ4WithDictsCompressor': readable are"), "{message}");
}
