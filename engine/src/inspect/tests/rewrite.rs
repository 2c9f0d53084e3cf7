//! Cassandra's files written again: without compression the bytes are those that were compressed,
//! and compressed anew they are dumped as the first ones are.

use super::*;
use crate::mutation::Direction;
use crate::schema::Compression;
use crate::sstable::data::{file, window};
use crate::sstable::format::compression_info;
use crate::sstable::tests::fixtures::check_statistics;
use crate::sstable::tests::foreign::{fixtures, load, open_named, read_whole};

/// The data of generation 1 as its chunks were before they were compressed.
fn content(disk: &MemoryDisk, table: &Sstable) -> Vec<u8> {
    match &table.data {
        window::Content::Plain(_) => disk.content(&Component::Data.path(directory(), 1)),
        window::Content::Compressed(file) => {
            let mut out = Vec::new();
            block_on(file.read_into(file::Access::Scan, (0, file.size()), &mut out)).unwrap();
            out
        }
    }
}

#[test]
fn writing_compressed_tables_again_gives_the_bytes_that_were_compressed() {
    let mut tables = 0;
    for (version, name, schema) in fixtures() {
        // Later versions write other summaries and filters.
        if version != "me" || name == "types_ck_decimal" {
            continue;
        }
        let (disk, file) = load(version, &name);
        let table = open_named(&disk, &file, &schema).unwrap();
        let fragments = read_whole(&table, Direction::Forward).unwrap();
        let options = WriterOptions {
            column_index_bytes: 4096,
            bases: table.layout.bases,
            ..WriterOptions::default()
        };
        write(&disk, 2, &schema, options, fragments).unwrap();
        let ours = disk.content(&Component::Data.path(directory(), 2));
        let theirs = content(&disk, &table);
        let differs = (0..theirs.len().max(ours.len())).find(|&i| theirs.get(i) != ours.get(i));
        assert_eq!(differs, None, "{name} differs from that byte on");
        for component in [Component::Index, Component::Summary, Component::Filter] {
            let of = |generation| disk.content(&component.path(directory(), generation));
            assert!(of(1) == of(2), "{name} {component:?}");
        }
        check_statistics(&name, &disk);
        tables += 1;
    }
    assert_eq!(tables, 32);
}

/// Codecs of another make give other bytes for the same data; all else is the same.
#[test]
fn compressing_tables_again_changes_nothing_but_the_chunks() {
    let mut codecs = std::collections::BTreeMap::new();
    for (version, name, schema) in fixtures() {
        let (disk, file) = load(version, &name);
        let table = open_named(&disk, &file, &schema).unwrap();
        let window::Content::Compressed(_) = &table.data else { continue };
        if name == "types_ck_decimal" {
            continue;
        }
        let path = |component| file.path(directory(), component);
        let size = disk.content(&path(Component::Data)).len() as u64;
        let map = disk.content(&path(Component::CompressionInfo));
        let decoded =
            compression_info::CompressionInfo::decode(&map, file.version(), size, directory());
        let theirs = decoded.unwrap();
        let compression = Compression {
            compressor: theirs.codec,
            chunk_bytes: theirs.chunk_bytes as u32,
            level: None,
        };
        let fragments = read_whole(&table, Direction::Forward).unwrap();
        let options = WriterOptions {
            column_index_bytes: 4096,
            bases: table.layout.bases,
            compression: Some(compression),
            ..WriterOptions::default()
        };
        write(&disk, 2, &schema, options, fragments).unwrap();
        let own = SstableName::native(2);
        let ours = disk.content(&own.path(directory(), Component::CompressionInfo));
        if version == "me" {
            // Class, options, chunk length, data length and number of chunks.
            let front = 2 + compression.compressor.class().len() + 4 + 4 + 8 + 4;
            assert!(ours.len() == map.len() && ours[..front] == map[..front], "{name}");
            for component in [Component::Index, Component::Summary, Component::Filter] {
                let of = |generation| disk.content(&component.path(directory(), generation));
                assert!(of(1) == of(2), "{name} {component:?}");
            }
            let again = open(&disk, 2, &schema).unwrap();
            assert!(content(&disk, &table) == content(&disk, &again), "{name}");
        }
        if version == "me" || name == "simple_zstd" {
            // ASCII is text here, and prints alike.
            let (wanted, found) = (super::dumped(&disk, &file), super::dumped(&disk, &own));
            assert!(wanted == found, "{version} {name}");
        }
        let again = open(&disk, 2, &schema).unwrap();
        let read = |table| read_whole(table, Direction::Reversed).unwrap();
        assert!(read(&again) == read(&table), "{version} {name}");
        let count: &mut usize = codecs.entry(theirs.codec.class()).or_default();
        *count += 1;
    }
    assert!(codecs["LZ4Compressor"] >= 20 && codecs["ZstdCompressor"] == 1, "{codecs:?}");
}
