//! What a ledger keeps over crashes, damage and a full disk.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::{Entry, Known, Ledger, SegmentEntry, frame};
use crate::config::PAGE_BYTES;
use crate::disk::{Disk, Faults, SimulatedDisk, read_file};
use crate::schema::TableId;

fn run<T>(body: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(body)
}

fn path() -> PathBuf {
    Path::new("/db/ledger/0-of-1").to_owned()
}

async fn open(disk: &SimulatedDisk) -> Rc<Ledger> {
    // The data directory itself is durable.
    disk.create_directories(Path::new("/db")).await.unwrap();
    disk.sync_directory(Path::new("/")).await.unwrap();
    Ledger::open(disk.shared(), &path()).await.unwrap()
}

fn segment(id: u64) -> Entry {
    Entry::Segment { id, bytes: 4096 }
}

fn manifest(table: u128, sequence: u64) -> Entry {
    Entry::Manifest { table: TableId(table), sequence }
}

#[test]
fn what_was_recorded_is_known_after_power_cuts() {
    run(async {
        let mut disk = SimulatedDisk::new(1);
        let mut ledger = open(&disk).await;
        let mut expected = Known::default();
        // Far more than the file has room for.
        for id in 1..300 {
            let tables = BTreeMap::from([(TableId(id.into()), 7)]);
            let mut entries = vec![segment(id), manifest(u128::from(id % 5), id)];
            if id == 2 {
                entries.push(Entry::Catalog { version: 9 });
            }
            if id % 2 == 0 {
                entries.push(Entry::Finished { id, tables });
            }
            if id % 3 == 0 {
                entries.push(Entry::Released { ids: vec![id - 1] });
            }
            if id % 4 == 0 {
                entries.push(Entry::Numbered { table: TableId((id % 5).into()), generation: id });
            }
            entries.iter().for_each(|entry| expected.apply(entry));
            ledger.record(entries).await.unwrap();
            if id % 7 == 0 {
                disk = disk.power_cut();
                ledger = open(&disk).await;
                assert_eq!(ledger.known(), expected, "after {id}");
            }
        }
    });
}

#[test]
fn an_entry_that_waits_goes_along_with_the_next() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let ledger = open(&disk).await;
        ledger.record(vec![segment(1), segment(2)]).await.unwrap();
        ledger.record_later(Entry::Released { ids: vec![1] });
        assert!(open(&disk).await.names_segment(1) && !ledger.names_segment(1));
        ledger.record(vec![manifest(1, 1)]).await.unwrap();
        let found = open(&disk.power_cut()).await;
        assert_eq!(found.known(), ledger.known());
        assert_eq!(found.known().segments.into_keys().collect::<Vec<_>>(), [2]);
    });
}

#[test]
fn on_a_full_disk_the_reserved_room_serves() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let ledger = open(&disk).await;
        ledger.record(vec![segment(1)]).await.unwrap();
        disk.set_faults(Faults { capacity_bytes: Some(0), ..Faults::default() });
        for sequence in 1..60 {
            ledger.record(vec![manifest(1, sequence)]).await.unwrap();
        }
        let found = open(&disk).await.known();
        assert_eq!(found.manifests, BTreeMap::from([(TableId(1), 59)]));
        let refused = loop {
            if let Err(error) = ledger.record(vec![manifest(1, 60)]).await {
                break error;
            }
        };
        assert!(refused.is_disk_full(), "{refused}");
        disk.set_faults(Faults::default());
        // What could not be recorded is, as soon as there is room.
        ledger.record(vec![]).await.unwrap();
        assert_eq!(open(&disk.power_cut()).await.known(), ledger.known());
    });
}

/// The first frame says all that was known and may be long: its pages are none of that room.
#[test]
fn the_reserved_room_is_the_same_when_a_long_ledger_was_opened_again() {
    run(async {
        let mut taken = Vec::new();
        for is_opened_again in [false, true] {
            let disk = SimulatedDisk::new(1);
            let mut ledger = open(&disk).await;
            ledger.record((1..=400).map(segment).collect()).await.unwrap();
            if is_opened_again {
                ledger = open(&disk).await;
            }
            disk.set_faults(Faults { capacity_bytes: Some(0), ..Faults::default() });
            let mut sequence = 0;
            let refused = loop {
                match ledger.record(vec![manifest(1, sequence + 1)]).await {
                    Ok(()) => sequence += 1,
                    Err(error) => break error,
                }
            };
            assert!(refused.is_disk_full(), "{refused}");
            assert_eq!(open(&disk).await.manifest(TableId(1)), sequence);
            taken.push(sequence);
        }
        assert!(taken[0] > 50 && taken[0] == taken[1], "frames on a full disk: {taken:?}");
    });
}

#[test]
fn frames_go_on_counting_when_a_ledger_was_opened_again() {
    run(async {
        let disk = SimulatedDisk::new(1);
        for start in 0..3 {
            let ledger = open(&disk).await;
            for id in 1..=2 {
                ledger.record(vec![segment(10 * start + id)]).await.unwrap();
            }
        }
        let content = read_file(&disk, &path()).await.unwrap();
        let (mut rest, mut sequences) = (&content[..], Vec::new());
        while let Some((sequence, _, length)) = frame::parse::<Vec<Entry>>(*b"TGLD", rest) {
            sequences.push(sequence);
            rest = &rest[length..];
        }
        assert_eq!(sequences, [1, 2, 3, 4, 5, 6]);
    });
}

#[test]
fn a_failed_entry_is_written_again_with_the_next() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let ledger = open(&disk).await;
        ledger.record(vec![segment(1)]).await.unwrap();
        disk.set_faults(Faults { write_error_one_in: 1, ..Faults::default() });
        ledger.record(vec![segment(2)]).await.unwrap_err();
        disk.set_faults(Faults::default());
        ledger.record(vec![segment(3)]).await.unwrap();
        let found = open(&disk.power_cut()).await.known();
        assert_eq!(found.segments.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
    });
}

/// What waits goes along as well, and what one failure after another has kept from the disk.
#[test]
fn entries_of_several_failures_are_all_written_with_the_next() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let ledger = open(&disk).await;
        ledger.record(vec![segment(1), segment(2)]).await.unwrap();
        ledger.record_later(Entry::Released { ids: vec![1] });
        disk.set_faults(Faults { write_error_one_in: 1, ..Faults::default() });
        for id in 3..6 {
            ledger.record(vec![segment(id)]).await.unwrap_err();
            assert!(ledger.names_segment(id), "it is true, whether it is on disk or not");
        }
        ledger.record_later(manifest(1, 4));
        // There is nothing new to say, and yet it is not on disk.
        ledger.record(vec![]).await.unwrap_err();
        disk.set_faults(Faults::default());
        ledger.record(vec![]).await.unwrap();
        let found = open(&disk.power_cut()).await;
        assert!(found.was_whole());
        assert_eq!(found.known(), ledger.known());
        assert_eq!(found.known().segments.into_keys().collect::<Vec<_>>(), [2, 3, 4, 5]);
        assert_eq!(found.manifest(TableId(1)), 4);
    });
}

#[test]
fn damage_costs_the_damaged_entries_only() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let ledger = open(&disk).await;
        for id in 1..=4 {
            ledger.record(vec![segment(id)]).await.unwrap();
        }
        // The first entry makes the file, so the second stands in the second page.
        disk.corrupt(&path(), PAGE_BYTES as u64 + 30, 1);
        let ledger = open(&disk).await;
        let found = ledger.known().segments;
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), [1, 3, 4]);
        ledger.record(vec![segment(5)]).await.unwrap();
        assert_eq!(open(&disk).await.known(), ledger.known());
        disk.remove(&path()).await.unwrap();
        assert_eq!(open(&disk).await.known(), Known::default());
    });
}

/// Whoever opens it learns that something may be missing, until the file is written anew.
#[test]
fn a_damaged_ledger_is_not_whole_until_something_is_recorded() {
    run(async {
        // The first frame, one in the middle, and the last.
        for page in [0, 1, 3] {
            let disk = SimulatedDisk::new(1);
            let ledger = open(&disk).await;
            assert!(!ledger.was_whole(), "there is none yet");
            for id in 1..=4 {
                ledger.record(vec![segment(id)]).await.unwrap();
            }
            assert!(open(&disk).await.was_whole(), "the room behind the frames is no damage");
            disk.corrupt(&path(), page * PAGE_BYTES as u64 + 30, 1);
            let ledger = open(&disk).await;
            assert!(!ledger.was_whole(), "page {page} is damaged");
            // There is nothing new to say, and yet the damage goes.
            ledger.record(vec![]).await.unwrap();
            let found = open(&disk.power_cut()).await;
            assert!(found.was_whole(), "page {page} was mended");
            assert_eq!(found.known(), ledger.known(), "page {page}");
        }
    });
}

/// What comes late or twice takes nothing back, and what is dropped takes all of its table along.
#[test]
fn what_was_reached_never_goes_back() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let ledger = open(&disk).await;
        let numbered =
            |table: u128, generation| Entry::Numbered { table: TableId(table), generation };
        let catalog = |version| Entry::Catalog { version };
        let first = [manifest(1, 5), manifest(2, 7), catalog(4), numbered(1, 30), numbered(2, 20)];
        ledger.record(first.to_vec()).await.unwrap();
        let late = [manifest(1, 3), catalog(2), numbered(1, 10)];
        ledger.record(late.to_vec()).await.unwrap();
        let (one, two) = (TableId(1), TableId(2));
        let mut wanted = Known {
            manifests: BTreeMap::from([(one, 5), (two, 7)]),
            catalog: 4,
            generations: BTreeMap::from([(one, 30), (two, 20)]),
            ..Known::default()
        };
        assert_eq!(ledger.known(), wanted);
        assert_eq!(open(&disk).await.known(), wanted);
        ledger.record(vec![Entry::Dropped { table: one }]).await.unwrap();
        wanted.manifests.remove(&one);
        wanted.generations.remove(&one);
        assert_eq!(open(&disk.power_cut()).await.known(), wanted);
    });
}

#[test]
fn a_segment_tells_whose_records_it_may_hold() {
    let (one, two) = (TableId(1), TableId(2));
    let finished = SegmentEntry { bytes: 1, tables: Some(BTreeMap::from([(one, 100)])) };
    assert!(finished.may_hold((5, 0), one, None) && finished.may_hold((5, 0), one, Some((5, 99))));
    assert!(
        !finished.may_hold((5, 0), one, Some((5, 100))) && !finished.may_hold((5, 0), two, None)
    );
    assert!(finished.may_hold((5, 100), one, None) && !finished.may_hold((5, 101), one, None));
    let open = SegmentEntry { bytes: 1, tables: None };
    assert!(open.may_hold((5, 0), one, None) && open.may_hold((5, 0), two, Some((5, 9999))));
    assert!(!open.may_hold((5, 0), one, Some((6, 0))));
}

/// Its id must not come again, whatever else is recorded meanwhile.
#[test]
fn the_greatest_segment_is_known_though_it_is_gone() {
    run(async {
        let disk = SimulatedDisk::new(6);
        let ledger = open(&disk).await;
        ledger.record(vec![segment(9), segment(70)]).await.unwrap();
        ledger.record(vec![Entry::Released { ids: vec![70] }]).await.unwrap();
        // As often as it takes until the file is written anew.
        for sequence in 1..200 {
            ledger.record(vec![manifest(1, sequence)]).await.unwrap();
        }
        let ledger = open(&disk.power_cut()).await;
        let segments: Vec<u64> = ledger.known().segments.into_keys().collect();
        assert_eq!((segments, ledger.segment_max()), (vec![9], 70));
    });
}

/// Half a file must not take the room that others wait for, and nothing of it is lost.
#[test]
fn a_ledger_that_could_not_be_written_anew_leaves_nothing_beside_it() {
    let no_room = Faults { capacity_bytes: Some(0), ..Faults::default() };
    let no_name = Faults { name_error_one_in: 2, ..Faults::default() };
    let no_write = Faults { write_error_one_in: 2, ..Faults::default() };
    let no_sync = Faults { sync_error_one_in: 2, ..Faults::default() };
    for (what, faults) in
        [("room", no_room), ("names", no_name), ("writes", no_write), ("syncs", no_sync)]
    {
        for seed in 0..4 {
            run(async {
                let disk = SimulatedDisk::new(seed);
                let ledger = open(&disk).await;
                ledger.record(vec![segment(1)]).await.unwrap();
                disk.set_faults(faults);
                // More than the reserved room holds.
                for sequence in 1..80 {
                    let _ = ledger.record(vec![manifest(1, sequence)]).await;
                    let entries = disk.list(path().parent().unwrap()).await.unwrap();
                    let names: Vec<&str> = entries.iter().map(|entry| &*entry.name).collect();
                    assert_eq!(names, ["0-of-1"], "{what} {seed}, at {sequence}");
                }
                disk.set_faults(Faults::default());
                ledger.record(vec![manifest(1, 80)]).await.unwrap();
                let found = open(&disk.power_cut()).await;
                assert_eq!(found.known(), ledger.known(), "{what} {seed}");
                assert_eq!(found.manifest(TableId(1)), 80, "{what} {seed}");
            });
        }
    }
}
