//! Cassandra's files written again, those that were compressed without compression: the bytes are the
//! same.

use super::fixtures::check_statistics;
use super::foreign::{fixtures, load, open_named, read_whole};
use super::*;
use crate::mutation::Direction;

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
