//! What the tools say beside rows and damage: what is expired, how far they are, what was not
//! checked, and what follows from numbers.

use std::collections::BTreeSet;

use super::*;
use crate::inspect::metadata::Sketch;
use crate::mutation::Liveness;
use crate::sstable::tests::foreign::table;

const INT: DataType = DataType::Int;
const TEXT: DataType = DataType::Text;

/// Every `expires_at` of a dump, and whether it says that it is over.
fn expiries(json: &Json, out: &mut Vec<(String, bool)>) {
    match json {
        Json::Array(items) => items.iter().for_each(|item| expiries(item, out)),
        Json::Object(members) => {
            if let Some(at) = members.get("expires_at") {
                let is_expired = members["expired"].as_bool().unwrap();
                out.push((at.as_str().unwrap().to_owned(), is_expired));
            }
            members.values().for_each(|member| expiries(member, out));
        }
        _ => {}
    }
}

/// A marker and cells with times to live of their own; one that is the row's is told with it.
#[test]
fn rows_and_cells_are_told_as_expired_from_the_second_after_their_expiry_on() {
    let schema = table(&[("p", INT)], &[("c", INT)], &[], &[("v", TEXT), ("w", TEXT)]);
    let row = |ck: i32, liveness, cells: Vec<(u16, Cell)>| {
        let key = ClusteringKey::from_values(&schema, &[Value::Int(ck)]).unwrap();
        let cells = cells.into_iter().map(|(id, cell)| (ColumnId(id), cell)).collect();
        let row = Row { liveness, cells, ..Row::default() };
        Fragment::Row { key: Rc::new(key), row: Rc::new(row) }
    };
    let cell = |ttl, expiry| Cell::expiring(7, *b"x", ttl, expiry);
    let (live, marker) = (|| Cell::live(7, *b"x"), Liveness::expiring(7, 60, 1000));
    let key = Rc::new(PartitionKey::from_bytes(1_i32.to_be_bytes()));
    let fragments = vec![
        Fragment::PartitionStart { key, deletion: None },
        row(1, Some(marker), vec![(2, cell(60, 1000)), (3, cell(30, 1001))]),
        row(2, None, vec![(2, cell(60, 1002))]),
        row(3, Some(Liveness::at(7)), vec![(2, live()), (3, cell(60, 1003))]),
        row(4, Some(Liveness::at(7)), vec![(2, live())]),
        Fragment::PartitionEnd,
    ];
    let disk = MemoryDisk::default();
    write(&disk, 1, &schema, WriterOptions::default(), fragments).unwrap();
    let sstable = inspector(&disk, directory(), &SstableName::native(1));
    for now in 998..=1005 {
        let text = block_on(async {
            let mut dump = DataDump::new(&sstable, now).await.unwrap();
            let mut out = String::new();
            while dump.next(&mut out).await.unwrap() {}
            out
        });
        let mut found = Vec::new();
        expiries(&serde_json::from_str(&text).unwrap(), &mut found);
        found.sort();
        let wanted: Vec<(String, bool)> =
            (1000..=1003).map(|expiry| (expiry.to_string(), now > expiry)).collect();
        assert_eq!(found, wanted, "at {now}");
    }
}

#[test]
fn dumps_tell_how_far_they_are_and_how_many_rows_they_have() {
    for (version, name) in [("me", "tombs"), ("me", "simple_lz4"), ("nb", "mixed")] {
        let sstable = open_fixture(version, name);
        block_on(async {
            let mut dump = DataDump::new(&sstable, NOW_SECONDS).await.unwrap();
            let (mut out, mut last) = (String::new(), (dump.rows(), dump.progress()));
            assert_eq!((last.0, last.1.0), (0, 0), "{name}");
            while dump.next(&mut out).await.unwrap() {
                let now = (dump.rows(), dump.progress());
                let (before, after) = (last.1, now.1);
                assert!(last.0 <= now.0 && before.0 <= after.0 && after.0 <= after.1, "{name}");
                assert_eq!(before.1, after.1, "{name}");
                last = now;
            }
            let (rows, (done, size)) = last;
            assert_eq!((rows, done), (out.matches("\"type\" : \"row\"").count() as u64, size));
            let printed = out.len();
            assert!(!dump.next(&mut out).await.unwrap() && out.len() == printed, "{name}");

            let mut dump = IndexDump::new(&sstable).await.unwrap();
            assert_eq!(dump.progress().0, 0, "{name}");
            out.clear();
            while dump.next(&mut out).await.unwrap() {
                assert!(dump.progress().0 <= dump.progress().1, "{name}");
            }
            let (done, size) = dump.progress();
            assert!(done == size && size > 0, "{name}: {done} of {size}");
            let printed = out.len();
            assert!(!dump.next(&mut out).await.unwrap() && out.len() == printed, "{name}");
        });
    }
}

/// First all bytes as they are stored, and then the rows in them.
#[test]
fn a_verification_tells_how_far_it_is_until_all_is_checked() {
    for (version, name) in [("me", "simple_none"), ("me", "simple_lz4"), ("nb", "tombs")] {
        let sstable = open_fixture(version, name);
        let mut told: Vec<(u64, u64, u64)> = Vec::new();
        let mut note = |rows, done, size| told.push((rows, done, size));
        let found = block_on(verify(&sstable, &mut note));
        assert!(found.is_sound(), "{name}: {:?}", found.problems);
        let share = |(_, done, size): &(u64, u64, u64)| *done as f64 / *size as f64;
        assert!(told.is_sorted_by(|a, b| a.0 <= b.0 && share(a) <= share(b)), "{name}: {told:?}");
        let is_half = |(rows, done, size): &(u64, u64, u64)| (*rows, *done) == (0, size / 2);
        assert!(told.iter().any(is_half), "{name}: {told:?}");
        let (rows, done, size) = *told.last().unwrap();
        assert_eq!((rows, size), (found.rows, found.data_bytes), "{name}");
        // Of an odd number the halves lack one.
        assert!(done <= size && size - done <= 1, "{name}: {done} of {size}");
    }
}

#[test]
fn what_a_missing_file_would_tell_is_named_as_not_checked() {
    let no_toc = "no TOC.txt: its list of files";
    for (missing, told) in [
        (Component::Toc, None),
        (Component::Crc, Some("no CRC.db: checksums of parts of the data file")),
        (Component::Digest, Some("no Digest.crc32: the checksum of the whole data file")),
        (Component::Filter, Some("no Filter.db: the bloom filter")),
        (Component::Summary, Some("no Summary.db: samples of the index")),
    ] {
        let (disk, directory, name) = load("me", "tombs");
        for component in BTreeSet::from([Component::Toc, missing]) {
            block_on(shared(&disk).remove(&name.path(&directory, component))).unwrap();
        }
        let found = verified(&inspector(&disk, &directory, &name));
        assert!(found.is_sound(), "{missing:?}: {:?}", found.problems);
        let wanted: Vec<&str> = [no_toc].into_iter().chain(told).collect();
        assert_eq!(found.skipped, wanted, "{missing:?}");
        assert!(found.partitions > 1, "{missing:?}");
    }
    // Tidegate.db has checksums of every page.
    let disk = own_files();
    for component in [Component::Toc, Component::Crc] {
        block_on(shared(&disk).remove(&component.path(directory(), 1))).unwrap();
    }
    let found = verified_native(&disk);
    assert!(found.is_sound(), "{:?}", found.problems);
    assert_eq!(found.skipped, [no_toc]);
    // Without these there is no SSTable.
    for (missing, is_walked) in
        [(Component::Data, false), (Component::Index, true), (Component::Statistics, false)]
    {
        let (disk, directory, name) = load("me", "tombs");
        for component in [Component::Toc, missing] {
            block_on(shared(&disk).remove(&name.path(&directory, component))).unwrap();
        }
        let found = verified(&inspector(&disk, &directory, &name));
        let Error::Corrupt(told) = &found.problems[0] else { panic!("{:?}", found.problems) };
        assert_eq!((&told.file, &*told.wanted), (&name.path(&directory, missing), "a file"));
        assert_eq!(found.partitions > 0, is_walked, "{missing:?}");
    }
}

/// Files of generation 1 with one row.
fn own_files() -> MemoryDisk {
    let schema = table(&[("p", INT)], &[("c", INT)], &[], &[("v", TEXT)]);
    let key = ClusteringKey::from_values(&schema, &[Value::Int(1)]).unwrap();
    let row = Row { cells: vec![(ColumnId(2), Cell::live(7, *b"v"))], ..Row::default() };
    let partition_key = Rc::new(PartitionKey::from_bytes(1_i32.to_be_bytes()));
    let fragments = [
        Fragment::PartitionStart { key: partition_key, deletion: None },
        Fragment::Row { key: Rc::new(key), row: Rc::new(row) },
        Fragment::PartitionEnd,
    ];
    let disk = MemoryDisk::default();
    write(&disk, 1, &schema, WriterOptions::default(), fragments).unwrap();
    disk
}

/// What is derived other products make anew; a file of ours has all that it lists.
#[test]
fn a_table_of_contents_names_just_the_files_that_are_there() {
    let (disk, directory, name) = load("me", "tombs");
    let path = name.path(&directory, Component::Toc);
    let whole = String::from_utf8(disk.content(&path)).unwrap();
    let listed: Vec<&str> = whole.lines().collect();
    assert_eq!(listed.len(), 8, "{listed:?}");
    let told = |lines: &[&str], separator: &str| {
        disk.set_content(&path, lines.join(separator).into_bytes());
        let found = verified(&inspector(&disk, &directory, &name)).problems;
        found.iter().map(ToString::to_string).collect::<Vec<String>>()
    };
    let none: [&str; 0] = [];
    // In whatever order, with blanks and empty lines.
    let turned: Vec<&str> = listed.iter().rev().copied().collect();
    for separator in ["\n", "\r\n", " \n\n  "] {
        assert_eq!(told(&turned, separator), none, "{separator:?}");
    }
    for left_out in listed.iter().filter(|line| **line != "TOC.txt") {
        let others: Vec<&str> = listed.iter().filter(|line| *line != left_out).copied().collect();
        let found = told(&others, "\n");
        let wanted = format!("a line '{left_out}' for the file");
        assert!(found.len() == 1 && found[0].contains(&wanted), "{left_out}: {found:?}");
    }
    // A file of another product is one as well.
    let more = [&listed[..], &["Extra.db"]].concat();
    let found = told(&more, "\n");
    assert!(found.len() == 1 && found[0].contains("the line 'Extra.db'"), "{found:?}");
    disk.set_content(&directory.join("me-1-big-Extra.db"), Vec::new());
    assert_eq!(told(&more, "\n"), none);
    for derived in [Component::Summary, Component::Filter] {
        let disk = own_files();
        let path = derived.path(super::directory(), 1);
        block_on(shared(&disk).remove(&path)).unwrap();
        let found = verified_native(&disk);
        let wanted = format!("the line '{}'", derived.suffix());
        let is_told = found.problems.iter().any(|problem| problem.to_string().contains(&wanted));
        assert!(is_told && found.notes.is_empty(), "{:?} {:?}", found.problems, found.notes);
    }
}

/// How many samples there are follows from the number of keys and their distance.
#[test]
fn numbers_of_a_summary_are_held_against_each_other_and_the_keys() {
    let (disk, directory, name) = load("me", "tombs");
    let path = name.path(&directory, Component::Summary);
    let content = disk.content(&path);
    let keys = verified(&inspector(&disk, &directory, &name)).partitions as i32;
    assert!((2..128).contains(&keys), "{keys} keys");
    let odd = "an interval of 1 to 65536 and a level of 1 to 128";
    for (interval, level, full, told) in [
        (128, 128, 1, None),
        (keys, 128, 1, None),
        (1 << 16, 128, 1, None),
        (keys - 1, 128, 1, Some("2 samples of ")),
        (1, 128, 1, Some("samples of ")),
        (128, 128, 2, Some("1 samples of ")),
        (128, 128, 0, Some("1 samples of ")),
        // Of a part of the samples it is not known which those are.
        (128, 127, 1, None),
        (128, 127, 7, None),
        (128, 1, 7, None),
        (128, 0, 1, Some(odd)),
        (128, 129, 1, Some(odd)),
        (0, 128, 1, Some(odd)),
        (-1, 128, 1, Some(odd)),
        ((1 << 16) + 1, 128, 1, Some(odd)),
    ] {
        let mut changed = content.clone();
        for (at, number) in [(0, interval), (16, level), (20, full)] {
            changed[at..at + 4].copy_from_slice(&i32::to_be_bytes(number));
        }
        disk.set_content(&path, changed);
        let found = verified(&inspector(&disk, &directory, &name));
        let texts: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
        let what = format!("{interval} {level} {full}: {texts:?}");
        assert_eq!(texts.len(), usize::from(told.is_some()), "{what}");
        let is_told = |text: &String| told.is_some_and(|told| text.contains(told));
        assert!(texts.iter().all(is_told), "{what}");
    }
}

#[test]
fn statistics_are_told_without_the_keys_of_a_summary_that_cannot_be_read() {
    for damage in 0..3 {
        let (disk, directory, name) = load("me", "tombs");
        let path = name.path(&directory, Component::Summary);
        let content = disk.content(&path);
        match damage {
            0 => {}
            1 => disk.set_content(&path, content[..content.len() - 1].to_vec()),
            _ => block_on(shared(&disk).remove(&path)).unwrap(),
        }
        let sstable = inspector(&disk, &directory, &name);
        let text = block_on(dump_statistics(&sstable)).unwrap();
        for line in ["\nFirst token: ", "\nLast token: "] {
            assert_eq!(text.contains(line), damage == 0, "{damage}: {text}");
        }
        assert!(text.contains("\nCompressor: -\n"), "{text}");
        assert!(!text.contains("Compression ratio"), "{text}");
        let json: Json =
            serde_json::from_str(&block_on(dump_statistics_json(&sstable)).unwrap()).unwrap();
        for end in ["first", "last"] {
            assert_eq!(json[end].is_null(), damage != 0, "{damage}: {json}");
        }
        assert!(json["compressor"].is_null(), "{json}");
    }
    // The package of a compressor is told where it is in the file, and Cassandra's where not.
    for (class, told) in
        [("com.example.Odd", "com.example.Odd"), ("Odd", "org.apache.cassandra.io.compress.Odd")]
    {
        let (disk, directory, name) = load("me", "simple_lz4");
        let length = (class.len() as u16).to_be_bytes();
        let content = [&length[..], class.as_bytes(), &[0; 9]].concat();
        disk.set_content(&name.path(&directory, Component::CompressionInfo), content);
        let sstable = inspector(&disk, &directory, &name);
        let text = block_on(dump_statistics(&sstable)).unwrap();
        assert!(text.contains(&format!("\nCompressor: {told}\nCompression ratio: 0.")), "{text}");
        let json: Json =
            serde_json::from_str(&block_on(dump_statistics_json(&sstable)).unwrap()).unwrap();
        assert_eq!(json["compressor"], class);
    }
}

/// HyperLogLog++: by the registers that are still empty while these are many, else by all of them.
#[test]
fn the_number_of_keys_is_estimated_from_whatever_form_the_sketch_has() {
    let mut metadata = block_on(open_fixture("me", "tombs").metadata()).unwrap();
    let registers = |empty: usize, rank: u8| {
        let mut registers = vec![rank; 8192];
        registers[..empty].fill(0);
        Sketch::Registers(registers)
    };
    for (sketch, wanted) in [
        (Sketch::Sparse(Vec::new()), 0..=0),
        (Sketch::Sparse(vec![5, 7, 9]), 3..=3),
        (registers(8192, 1), 0..=0),
        (registers(8191, 1), 1..=1),
        (registers(8191, 31), 1..=1),
        (registers(4096, 1), 5678..=5678),
        (registers(0, 1), 11_700..=11_900),
        (registers(0, 3), 47_200..=47_300),
        (registers(1, 4), 94_200..=94_500),
    ] {
        let what = format!("{sketch:?}").chars().take(60).collect::<String>();
        metadata.sketch = sketch;
        let found = metadata.keys_estimate();
        assert!(found.is_some_and(|found| wanted.contains(&found)), "{found:?}: {what}");
    }
    metadata.sketch = Sketch::Other { bytes: vec![1; 9], what: "one".to_owned() };
    assert_eq!(metadata.keys_estimate(), None);
}

/// Keys of `Scylla.db` are of any writer, and perhaps of a table that was altered since.
#[test]
fn keys_of_records_are_told_as_values_and_in_hex_where_they_are_none() {
    let schema = table(&[("p", TEXT)], &[("-a", INT), ("b", TEXT)], &[], &[]);
    for (key, told) in [
        (&b""[..], None),
        (b"\0\x04\0\0\0\x05\0\x01x", Some("5, x")),
        (b"\0\x04\xff\xff\xff\xff\0\0", Some("-1, ")),
        (b"\0\x04\0\0\0\x05", Some("5")),
        (b"\0", Some("0x00")),
        (b"\0\x04\0\0", Some("0x00040000")),
        (b"\0\x02\x01\x02", Some("0x00020102")),
        (b"\0\x04\0\0\0\x05\0\x01\xff", Some("0x0004000000050001ff")),
        (b"\0\x04\0\0\0\x05\0\x01x\0\0", Some("0x0004000000050001780000")),
    ] {
        assert_eq!(clustering_key_text(&schema, key).as_deref(), told, "{key:02x?}");
    }
    assert_eq!(partition_key_text(&schema, b"abc"), "abc");
    assert_eq!(partition_key_text(&schema, b""), "");
    assert_eq!(partition_key_text(&schema, b"\xff\x01"), "0xff01");
    let schema = table(&[("p", INT), ("q", TEXT)], &[], &[], &[]);
    for (key, told) in [
        (&b"\0\x04\0\0\0\x07\0\0\x01y\0"[..], "7, y"),
        (b"\0\x04\0\0\0\x07\0\0\x01y", "0x00040000000700000179"),
        (b"\0\x04\0\0\0\x07\0", "0x00040000000700"),
        (b"\x07", "0x07"),
    ] {
        assert_eq!(partition_key_text(&schema, key), told, "{key:02x?}");
    }
}
