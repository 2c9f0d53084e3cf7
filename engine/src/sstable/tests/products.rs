//! Files as other products write them, made of files of ours: metadata of forms that are not known,
//! components that are not there, nulls in keys.

use super::damage::{read_all, sample};
use super::inspect::verified_native;
use super::*;
use crate::disk::Disk;

/// Takes away what only files of ours have, and lists what is left.
pub(super) fn make_foreign(disk: &MemoryDisk) {
    for component in [Component::Tidegate, Component::Scylla] {
        block_on(disk.remove(&component.path(directory(), 1))).unwrap();
    }
    let names = disk.names();
    let is_there = |component: &Component| names.contains(&component.path(directory(), 1));
    let listed = Component::ALL.into_iter().filter(is_there);
    let toc: String = listed.map(|component| format!("{}\n", component.suffix())).collect();
    disk.set_content(&Component::Toc.path(directory(), 1), toc.into_bytes());
}

/// The four parts of a `Statistics.db` without checksums.
fn parts(content: &[u8]) -> [Vec<u8>; 4] {
    let word = |at: usize| u32::from_be_bytes(content[at..at + 4].try_into().unwrap()) as usize;
    let starts: [usize; 4] = std::array::from_fn(|part| word(8 + 8 * part));
    std::array::from_fn(|part| {
        let end = starts.get(part + 1).copied().unwrap_or(content.len());
        content[starts[part]..end].to_vec()
    })
}

/// The file of these parts, which stand in it in the order that is given.
fn statistics_of(parts: &[Vec<u8>; 4], order: [usize; 4]) -> Vec<u8> {
    let mut out = 4u32.to_be_bytes().to_vec();
    let mut at = 4 + 4 * 8;
    for part in order {
        out.extend_from_slice(&(part as u32).to_be_bytes());
        out.extend_from_slice(&(at as u32).to_be_bytes());
        at += parts[part].len();
    }
    order.iter().for_each(|part| out.extend_from_slice(&parts[*part]));
    out
}

/// A byte string with its length before it.
fn framed(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

/// Sixteen registers of a byte each, as ScyllaDB keeps them.
fn scylla_sketch() -> Vec<u8> {
    let mut sketch = vec![0xff, 0xff, 0xff, 0xfe, 4, 0, 0, 16];
    sketch.extend_from_slice(&[0, 1, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0, 0]);
    sketch
}

/// What stands in the place of the estimate of the number of keys does not keep rows from being read.
#[test]
fn estimates_of_any_form_keep_no_sstable_from_being_read() {
    let disk = MemoryDisk::default();
    let (schema, partitions) = sample(&disk);
    make_foreign(&disk);
    let path = Component::Statistics.path(directory(), 1);
    let stored = parts(&disk.content(&path));
    let other_version = [&[0xff, 0xff, 0xff, 0xff][..], &[13, 25, 0, 1]].concat();
    let old_list = [&2u32.to_be_bytes()[..], &7u32.to_be_bytes(), &9u32.to_be_bytes()].concat();
    let others = [
        (framed(&scylla_sketch()), "precisions 4 and 0, as ScyllaDB's is"),
        (
            framed(&[&[0xff, 0xff, 0xff, 0xfe, 14, 25][..], &[1, 2]].concat()),
            "precisions 14 and 25",
        ),
        (framed(&other_version), "another version"),
        (framed(&[]), "another version"),
        // The files that this one was made of, then the estimate.
        ([&[0; 4][..], &framed(&scylla_sketch())].concat(), "precisions 4 and 0"),
        ([&old_list[..], &framed(&scylla_sketch())].concat(), "precisions 4 and 0"),
        // It ends early.
        (vec![0, 0], "ends early"),
        (framed(&scylla_sketch())[..20].to_vec(), "ends early"),
        (u32::MAX.to_be_bytes().to_vec(), "ends early"),
    ];
    for (compaction, told) in others {
        for order in [[0, 1, 2, 3], [3, 2, 0, 1]] {
            let mut parts = stored.clone();
            parts[1].clone_from(&compaction);
            disk.set_content(&path, statistics_of(&parts, order));
            read_all(&disk, &schema, &partitions).unwrap_or_else(|e| panic!("{told}: {e}"));
            let found = verified_native(&disk);
            assert!(found.is_sound(), "{told}: {:?}", found.problems);
            let [note] = &found.notes[..] else { panic!("{told}: {:?}", found.notes) };
            assert!(note.contains(told) && note.contains("Statistics.db"), "{told}: {note}");
            assert!(found.to_json().contains("\"notes\": [ \""), "{}", found.to_json());
        }
    }
    // One that says that it is Cassandra's and is not: damage, which reads do not meet.
    let of_cassandra = [0xff, 0xff, 0xff, 0xfe, 13, 25];
    for rest in [&[2, 0][..], &[0, 9], &[1, 0x85], &[1, 1, 7, 7], &[0xff; 9]] {
        let mut parts = stored.clone();
        parts[1] = framed(&[&of_cassandra[..], rest].concat());
        disk.set_content(&path, statistics_of(&parts, [0, 1, 2, 3]));
        read_all(&disk, &schema, &partitions).unwrap_or_else(|e| panic!("{rest:?}: {e}"));
        let found = verified_native(&disk);
        let [problem] = &found.problems[..] else { panic!("{rest:?}: {:?}", found.problems) };
        assert!(problem.to_string().contains("Statistics.db"), "{problem}");
    }
}

/// The estimate that ScyllaDB writes tells that it counted, which it does in other ways.
#[test]
fn files_with_scyllas_estimate_are_held_to_scyllas_counts() {
    let disk = MemoryDisk::default();
    let (schema, partitions) = sample(&disk);
    make_foreign(&disk);
    let path = Component::Statistics.path(directory(), 1);
    let mut parts = parts(&disk.content(&path));
    // One row more than there are: rows stand before the lower replay position, which comes before
    // the count of intervals, that host and the end.
    let rows_at = parts[2].len() - (1 + 16) - 4 - 12 - 8;
    parts[2][rows_at + 7] ^= 1;
    disk.set_content(&path, statistics_of(&parts, [0, 1, 2, 3]));
    assert!(!verified_native(&disk).is_sound());
    parts[1] = framed(&scylla_sketch());
    disk.set_content(&path, statistics_of(&parts, [0, 1, 2, 3]));
    let found = verified_native(&disk);
    assert!(found.is_sound(), "{:?}", found.problems);
    read_all(&disk, &schema, &partitions).unwrap();
}
