//! The manifest keeps acknowledged edits, drops torn ones and notices damage.

use futures::executor::block_on;

use std::collections::BTreeSet;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;

use super::manifest::{Edit, Manifest};
use super::{LOST, clear_unnamed};
use crate::cache::PageCache;
use crate::commitlog::ReplayPosition;
use crate::config::PAGE_BYTES;
use crate::disk::{Access, Faults, OpenOptions, SimulatedDisk, write_file_atomically};
use crate::error::{Error, Result};
use crate::ledger::frame;
use crate::mutation::{Direction, Fragment, PartitionRange, Slice};
use crate::schema::PartitionKey;
use crate::schema::table_schema::SchemaRef;
use crate::sstable::tests::damage::sample;
use crate::sstable::tests::memory_disk::MemoryDisk;
use crate::sstable::tests::model::all_fragments;
use crate::sstable::tests::{self as sstables, directory, shared};
use crate::sstable::*;

fn info(generation: u64) -> SstableInfo {
    SstableInfo {
        generation,
        data_bytes: 1,
        index_bytes: 2,
        partitions: 3,
        rows: 4,
        tombstones: Some(5),
        first_key: PartitionKey::from_bytes(*b"\x00first"),
        last_key: PartitionKey::from_bytes(*b"last\xff"),
        min_timestamp: i64::MIN,
        max_timestamp: i64::MAX,
        min_deletion_time: 0,
        max_deletion_time: i32::MAX,
        min_ttl: 0,
        max_ttl: 0,
        replay: Some((at(1), at(2))),
        level: 0,
    }
}

fn at(offset: u32) -> ReplayPosition {
    ReplayPosition { segment: 9, offset }
}

fn path() -> std::path::PathBuf {
    directory().join("manifest-0")
}

fn open_manifest(disk: &MemoryDisk) -> Result<Manifest> {
    block_on(Manifest::open(shared(disk), &path()))
}

fn add(generation: u64) -> Edit {
    Edit::Add { info: info(generation), replay_through: Some(at(generation as u32)), run: None }
}

#[test]
fn edits_survive_reopening_and_long_logs_are_rewritten() {
    let disk = MemoryDisk::default();
    let mut manifest = open_manifest(&disk).unwrap();
    assert!(manifest.live().is_empty() && disk.names().is_empty());
    block_on(manifest.append(vec![add(1), add(2)])).unwrap();
    for generation in 3..1000 {
        let edits = vec![add(generation), Edit::Remove { generation: generation - 2 }];
        block_on(manifest.append(edits)).unwrap();
        if generation % 100 == 0 {
            manifest = open_manifest(&disk).unwrap();
        }
        assert_eq!(
            manifest.live().keys().copied().collect::<Vec<_>>(),
            [generation - 1, generation]
        );
        assert_eq!(manifest.flushed_through(), Some(at(generation as u32)));
    }
    block_on(manifest.append(vec![Edit::Flushed { through: at(5) }])).unwrap();
    let reopened = open_manifest(&disk).unwrap();
    assert_eq!(reopened.live(), manifest.live());
    assert_eq!(reopened.live()[&999], info(999));
    assert_eq!(reopened.flushed_through(), Some(at(999)));
    assert!(disk.content(&path()).len() < 300 * PAGE_BYTES);
}

#[test]
fn parts_that_were_taken_stay_taken_until_they_are_released() {
    let disk = MemoryDisk::default();
    let mut manifest = open_manifest(&disk).unwrap();
    block_on(manifest.append(vec![add(3), Edit::Taken { generation: 1 }])).unwrap();
    block_on(manifest.append(vec![Edit::Taken { generation: 2 }])).unwrap();
    assert_eq!(open_manifest(&disk).unwrap().taken(), &BTreeSet::from([1, 2]));
    // As often as it takes until the log is rewritten.
    for generation in 4..600 {
        let edits = vec![add(generation), Edit::Remove { generation: generation - 1 }];
        block_on(manifest.append(edits)).unwrap();
    }
    let mut reopened = open_manifest(&disk).unwrap();
    assert_eq!(reopened.taken(), &BTreeSet::from([1, 2]));
    let released = Edit::Released { generations: vec![1, 9] };
    block_on(reopened.append(vec![released])).unwrap();
    assert_eq!(open_manifest(&disk).unwrap().taken(), &BTreeSet::from([2]));
    // What fails changes nothing.
    let full = SimulatedDisk::new(1);
    let path = path();
    block_on(full.shared().create_directories(directory())).unwrap();
    let mut manifest = block_on(Manifest::open(full.shared(), &path)).unwrap();
    block_on(manifest.append(vec![Edit::Taken { generation: 1 }])).unwrap();
    full.set_faults(Faults { capacity_bytes: Some(0), ..Faults::default() });
    for edits in [
        vec![Edit::Taken { generation: 2 }, add(5)],
        vec![Edit::Released { generations: vec![1, 7] }],
    ] {
        assert!(block_on(manifest.append(edits)).is_err());
        assert_eq!(manifest.taken(), &BTreeSet::from([1]));
    }
}

#[test]
fn a_torn_tail_is_dropped_and_damage_before_it_is_an_error() {
    let disk = MemoryDisk::default();
    let mut manifest = open_manifest(&disk).unwrap();
    for generation in 1..=3 {
        block_on(manifest.append(vec![add(generation)])).unwrap();
    }
    let content = disk.content(&path());
    assert_eq!(content.len(), 3 * PAGE_BYTES);
    let used = content.iter().rposition(|byte| *byte != 0).unwrap();
    for length in (2 * PAGE_BYTES..used).step_by(13) {
        // What was not written is missing, or reads as zero.
        for pad in [false, true] {
            let mut torn = content[..length].to_vec();
            if pad {
                torn.resize(content.len(), 0);
            }
            disk.set_content(&path(), torn);
            let mut manifest = open_manifest(&disk).unwrap();
            assert_eq!(manifest.live().len(), 2);
            block_on(manifest.append(vec![add(7)])).unwrap();
            let live: Vec<u64> = open_manifest(&disk).unwrap().live().keys().copied().collect();
            assert_eq!(live, [1, 2, 7]);
        }
    }
    let meaningful = content[PAGE_BYTES..].iter().position(|byte| *byte == 0);
    assert!(meaningful.is_some());
    for at in (PAGE_BYTES..PAGE_BYTES + 300).step_by(3) {
        let mut damaged = content.clone();
        damaged[at] ^= 0x20;
        disk.set_content(&path(), damaged);
        match open_manifest(&disk) {
            Err(Error::Corrupt(corruption)) => {
                assert_eq!(corruption.offset, PAGE_BYTES as u64);
                assert_eq!(corruption.file, path());
            }
            Err(error) => panic!("byte {at}: {error}"),
            Ok(_) => panic!("byte {at} was not noticed"),
        }
    }
}

#[test]
fn a_manifest_that_lacks_a_frame_is_an_error() {
    let disk = MemoryDisk::default();
    let mut manifest = open_manifest(&disk).unwrap();
    for generation in 1..=3 {
        block_on(manifest.append(vec![add(generation)])).unwrap();
    }
    let content = disk.content(&path());
    let without = [&content[..PAGE_BYTES], &content[2 * PAGE_BYTES..]].concat();
    disk.set_content(&path(), without);
    let Err(Error::Corrupt(corruption)) = open_manifest(&disk) else {
        panic!("edits behind a missing frame were taken");
    };
    assert_eq!((corruption.offset, corruption.file), (PAGE_BYTES as u64, path()));
}

/// A file that was put together from others.
#[test]
fn edits_that_contradict_those_before_them_are_damage_of_their_frame() {
    let remove = |generation| Edit::Remove { generation };
    let taken = |generation| Edit::Taken { generation };
    let spent = |generations: &[u64]| Edit::Spent { generations: generations.to_vec() };
    let first = frame::encode(*b"TGMF", 1, &[add(1), taken(7), spent(&[5])]);
    for (edits, wanted) in [
        (vec![add(1)], Some("SSTable 1 added twice")),
        (vec![add(2), add(2)], Some("SSTable 2 added twice")),
        (vec![remove(2)], Some("SSTable 2 removed, which is not live")),
        (vec![remove(5)], Some("SSTable 5 removed, which is not live")),
        (vec![remove(1), remove(1)], Some("SSTable 1 removed, which is not live")),
        (vec![spent(&[8, 1, 9])], Some("SSTable 1 is spent and live")),
        (vec![taken(1)], Some("SSTable 1 is live, or was taken before")),
        (vec![taken(7)], Some("SSTable 7 is live, or was taken before")),
        // What is told twice, and what was never there.
        (vec![spent(&[5]), spent(&[])], None),
        (vec![Edit::Gone { generations: vec![5, 6] }], None),
        (vec![Edit::Released { generations: vec![7, 8] }, taken(7)], None),
        (vec![remove(1), add(1), add(5)], None),
    ] {
        let disk = MemoryDisk::default();
        let second = frame::encode(*b"TGMF", 2, &edits);
        disk.set_content(&path(), [&first[..], &second].concat());
        let found = match open_manifest(&disk) {
            Ok(_) => None,
            Err(Error::Corrupt(corruption)) => {
                assert_eq!((&corruption.file, corruption.offset), (&path(), PAGE_BYTES as u64));
                Some(corruption.found)
            }
            Err(error) => panic!("{edits:?}: {error}"),
        };
        assert_eq!(found.as_deref(), wanted, "{edits:?}");
    }
}

#[tokio::test]
async fn what_the_disk_refuses_is_not_in_the_live_set() {
    let disk = SimulatedDisk::new(1);
    disk.shared().create_directories(directory()).await.unwrap();
    let mut manifest = Manifest::open(disk.shared(), &path()).await.unwrap();
    manifest.append(vec![add(1)]).await.unwrap();
    disk.set_faults(Faults { write_error_one_in: 1, ..Faults::default() });
    manifest.append(vec![add(2), Edit::Remove { generation: 1 }]).await.unwrap_err();
    assert!(manifest.live().keys().eq([&1]) && manifest.edited() == 1);
    assert_eq!(manifest.flushed_through(), Some(at(1)));
    disk.set_faults(Faults::default());
    manifest.append(vec![add(3)]).await.unwrap();
    let manifest = Manifest::open(disk.shared(), &path()).await.unwrap();
    assert!(manifest.live().keys().eq([&1, &3]));
}

/// Edits of every kind are taken back, the latest first.
#[tokio::test]
async fn what_the_disk_refuses_is_taken_back_whatever_it_was() {
    let disk = SimulatedDisk::new(2);
    disk.shared().create_directories(directory()).await.unwrap();
    let mut manifest = Manifest::open(disk.shared(), &path()).await.unwrap();
    let of_run =
        |generation| Edit::Add { info: info(generation), replay_through: None, run: Some(7) };
    let spent = |generations: &[u64]| Edit::Spent { generations: generations.to_vec() };
    let gone = |generations: &[u64]| Edit::Gone { generations: generations.to_vec() };
    manifest.append(vec![spent(&[3, 4, 5]), add(1), of_run(2)]).await.unwrap();
    let before = (manifest.live().clone(), manifest.spent().clone());
    disk.set_faults(Faults { write_error_one_in: 1, ..Faults::default() });
    let edits = vec![
        of_run(3),
        Edit::Remove { generation: 2 },
        spent(&[4, 6]),
        gone(&[4, 5, 8]),
        Edit::Remove { generation: 3 },
        gone(&[2]),
    ];
    manifest.append(edits).await.unwrap_err();
    assert_eq!((manifest.live().clone(), manifest.spent().clone()), before);
    assert_eq!([1, 2, 3].map(|generation| manifest.run(generation)), [1, 7, 3]);
    disk.set_faults(Faults::default());
    manifest.append(vec![gone(&[5])]).await.unwrap();
    let manifest = Manifest::open(disk.shared(), &path()).await.unwrap();
    let live: Vec<u64> = manifest.live().keys().copied().collect();
    let spent: Vec<u64> = manifest.spent().iter().copied().collect();
    // The greatest number that was ever told stays told, so that nobody is given it.
    assert_eq!((live, spent), (vec![1, 2], vec![3, 4, 6]));
    assert_eq!([1, 2].map(|generation| manifest.run(generation)), [1, 7]);
}

#[test]
fn a_log_of_many_sstables_is_rewritten_when_it_has_doubled() {
    let disk = MemoryDisk::default();
    let mut manifest = open_manifest(&disk).unwrap();
    block_on(manifest.append((1..=8000).map(add).collect())).unwrap();
    let base = disk.content(&path()).len();
    assert!(base > 400 * PAGE_BYTES, "{base} bytes are less than what is rewritten anyhow");
    let mut rewritten = Vec::new();
    for generation in 8001..10_000 {
        let before = disk.content(&path()).len();
        block_on(manifest.append(vec![add(generation)])).unwrap();
        let after = disk.content(&path()).len();
        if after != before + PAGE_BYTES {
            rewritten.push(before);
        }
    }
    assert!((1..=3).contains(&rewritten.len()), "{rewritten:?}");
    assert!(rewritten.iter().all(|bytes| *bytes >= 2 * base), "{rewritten:?} of {base}");
    assert_eq!(open_manifest(&disk).unwrap().live(), manifest.live());
}

/// A cut that takes zeros behind the last frame only.
#[test]
fn edits_go_on_behind_a_frame_that_lost_the_end_of_its_page() {
    for cut in [1, 511, 512, 1000, 3000] {
        let disk = MemoryDisk::default();
        let mut manifest = open_manifest(&disk).unwrap();
        block_on(manifest.append(vec![add(1)])).unwrap();
        block_on(manifest.seal()).unwrap();
        let mut content = disk.content(&path());
        let whole = content.len();
        assert!(
            content[whole - cut..].iter().all(|byte| *byte == 0),
            "{cut}: what is cut is padding"
        );
        content.truncate(whole - cut);
        disk.set_content(&path(), content);
        let mut manifest = open_manifest(&disk).unwrap();
        assert!(manifest.live().keys().eq([&1]), "{cut} bytes were cut");
        block_on(manifest.append(vec![add(2)])).unwrap();
        let manifest = open_manifest(&disk).unwrap();
        assert!(manifest.live().keys().eq([&1, &2]), "{cut} bytes were cut");
        assert!(disk.content(&path()).len().is_multiple_of(PAGE_BYTES), "{cut} bytes were cut");
    }
}

#[test]
fn unnamed_files_are_removed_and_whole_sstables_set_aside() {
    let disk = MemoryDisk::default();
    for name in [
        "me-1-big-Data.db",
        "me-2-big-Data.db",
        "me-2-big-TOC.txt.tmp",
        "me-3-big-Data.db",
        "me-3-big-TOC.txt",
        "manifest-0",
    ] {
        disk.set_content(&directory().join(name), Vec::new());
    }
    let live = BTreeSet::from([1]);
    let (removed, moved) =
        block_on(clear_unnamed(&disk, directory(), (&live, &BTreeSet::new()))).unwrap();
    assert_eq!(removed, ["me-2-big-Data.db", "me-2-big-TOC.txt.tmp"]);
    assert_eq!(moved, ["me-3-big-Data.db", "me-3-big-TOC.txt"]);
    let lost = directory().join("lost");
    let kept = [lost.join("me-3-big-Data.db"), lost.join("me-3-big-TOC.txt")];
    let [data, toc] = kept;
    let mut left = disk.names();
    left.sort();
    let mut wanted = vec![path(), directory().join("me-1-big-Data.db"), data, toc];
    wanted.sort();
    assert_eq!(left, wanted);
}

#[test]
fn spent_numbers_are_known_until_their_files_are_gone() {
    let disk = MemoryDisk::default();
    let mut manifest = open_manifest(&disk).unwrap();
    let known = |manifest: &Manifest| manifest.spent().iter().copied().collect::<Vec<_>>();
    block_on(manifest.append(vec![add(1), add(2)])).unwrap();
    block_on(manifest.append(vec![Edit::Spent { generations: vec![3, 4] }])).unwrap();
    assert_eq!(known(&open_manifest(&disk).unwrap()), [3, 4], "they are being written");
    let remove = |generation| Edit::Remove { generation };
    block_on(manifest.append(vec![remove(1), remove(2), add(3)])).unwrap();
    assert_eq!(known(&open_manifest(&disk).unwrap()), [1, 2, 4], "one is live, two were replaced");
    block_on(manifest.append(vec![Edit::Gone { generations: vec![1, 4] }])).unwrap();
    block_on(manifest.append(vec![remove(3)])).unwrap();
    block_on(manifest.append(vec![Edit::Gone { generations: vec![3] }])).unwrap();
    assert_eq!((known(&manifest), manifest.number_max()), (vec![2], 4));
    // The log is rewritten meanwhile.
    for _ in 0..300 {
        block_on(manifest.seal()).unwrap();
    }
    assert!(disk.content(&path()).len() < 100 * PAGE_BYTES);
    let reopened = open_manifest(&disk).unwrap();
    assert!(reopened.live().is_empty() && reopened.spent().contains(&2));
    assert_eq!(reopened.number_max(), 4, "no number is given twice");
}

#[test]
fn spent_files_are_removed_whole_or_not() {
    let disk = MemoryDisk::default();
    for generation in 1..=4 {
        for name in ["Data.db", "TOC.txt"].iter().take(1 + generation % 2) {
            let name = format!("me-{generation}-big-{name}");
            disk.set_content(&directory().join(name), Vec::new());
        }
    }
    // Of live ones nothing goes, whatever another manifest says.
    let (live, spent) = (BTreeSet::from([1]), BTreeSet::from([1, 3, 4]));
    let cleared = block_on(clear_unnamed(&disk, directory(), (&live, &spent))).unwrap();
    let wanted = ["me-2-big-Data.db", "me-3-big-Data.db", "me-3-big-TOC.txt", "me-4-big-Data.db"];
    assert_eq!(cleared, (wanted.map(String::from).to_vec(), Vec::new()));
    assert_eq!(disk.names().len(), 2);
}

#[test]
fn damage_of_the_last_edits_is_noticed_once_they_are_sealed() {
    let disk = MemoryDisk::default();
    let shared: std::rc::Rc<dyn crate::disk::Disk> = std::rc::Rc::new(disk.clone());
    let through = crate::commitlog::ReplayPosition { segment: 7, offset: 9 };
    block_on(async {
        let mut manifest = Manifest::open(shared.clone(), &path()).await.unwrap();
        manifest.append(vec![Edit::Flushed { through }]).await.unwrap();
        manifest.seal().await.unwrap();
    });
    let mut content = disk.content(&path());
    content[40] ^= 1;
    disk.set_content(&path(), content);
    let error = block_on(Manifest::open(shared, &path())).err().unwrap().to_string();
    assert!(error.contains("at offset 0") && error.contains("damage"), "{error}");
}

/// A disk on which the directory is there, durably.
async fn with_directory(seed: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(seed);
    let shared = disk.shared();
    shared.create_directories(directory()).await.unwrap();
    for folder in directory().ancestors() {
        shared.sync_directory(folder).await.unwrap();
    }
    disk
}

#[tokio::test]
async fn what_was_set_aside_is_there_after_a_power_cut() {
    for seed in 0..8 {
        let disk = with_directory(seed).await;
        let shared = disk.shared();
        for name in ["me-3-big-Data.db", "me-3-big-TOC.txt"] {
            write_file_atomically(&*shared, &directory().join(name), b"x").await.unwrap();
        }
        let live = BTreeSet::new();
        let (_, moved) = clear_unnamed(&*shared, directory(), (&live, &live)).await.unwrap();
        assert_eq!(moved.len(), 2);
        let after = disk.power_cut().shared();
        let kept = after.list(&directory().join(LOST)).await.unwrap();
        assert!(kept.iter().map(|entry| &entry.name).eq(&moved), "seed {seed}: {kept:?}");
    }
}

/// An edit that was taken is durable, and so is the name of a manifest that is new.
#[tokio::test]
async fn the_first_edit_is_there_after_a_power_cut() {
    for seed in 0..8 {
        let disk = with_directory(seed).await;
        let shared = disk.shared();
        let mut manifest = Manifest::open(shared, &path()).await.unwrap();
        manifest.append(vec![add(1)]).await.unwrap();
        let after = Manifest::open(disk.power_cut().shared(), &path()).await.unwrap();
        assert!(after.live().keys().eq([&1]), "seed {seed}: {:?}", after.live());
    }
}

/// Live SSTables with their runs, spent and taken ones, the greatest number, and up to where the
/// commitlog was flushed.
type Told = (Vec<(u64, u64)>, BTreeSet<u64>, BTreeSet<u64>, u64, Option<ReplayPosition>);

fn told(manifest: &Manifest) -> Told {
    let live = manifest.live().keys().map(|number| (*number, manifest.run(*number))).collect();
    let (spent, taken) = (manifest.spent().clone(), manifest.taken().clone());
    (live, spent, taken, manifest.number_max(), manifest.flushed_through())
}

/// Edits of every kind that leaves something to be told.
fn edits() -> Vec<Edit> {
    vec![
        add(1),
        Edit::Add { info: info(2), replay_through: None, run: Some(7) },
        Edit::Spent { generations: vec![3, 9] },
        Edit::Taken { generation: 20 },
        Edit::Flushed { through: at(50) },
    ]
}

#[tokio::test]
async fn a_log_that_was_written_anew_says_all_that_it_said() {
    for why in ["many frames", "a failed append", "a cut"] {
        let disk = with_directory(3).await;
        let mut manifest = Manifest::open(disk.shared(), &path()).await.unwrap();
        manifest.append(edits()).await.unwrap();
        manifest.seal().await.unwrap();
        let wanted = told(&manifest);
        assert_eq!((wanted.3, wanted.4), (9, Some(at(50))));
        match why {
            "many frames" => {
                for _ in 0..300 {
                    manifest.seal().await.unwrap();
                }
            }
            "a failed append" => {
                disk.set_faults(Faults { write_error_one_in: 1, ..Faults::default() });
                let flushed = Edit::Flushed { through: at(60) };
                let refused = vec![Edit::Remove { generation: 2 }, flushed];
                manifest.append(refused).await.unwrap_err();
                disk.set_faults(Faults::default());
                manifest.seal().await.unwrap();
            }
            _ => {
                let options = OpenOptions { access: Access::ReadWrite, data_sync: false };
                let file = disk.shared().open(&path(), options).await.unwrap();
                let bytes = file.size().await.unwrap();
                file.truncate(bytes - 1).await.unwrap();
            }
        }
        let manifest = Manifest::open(disk.shared(), &path()).await.unwrap();
        assert_eq!(told(&manifest), wanted, "{why}");
        let bytes: u64 = disk.files().iter().map(|(_, bytes)| bytes).sum();
        assert!(bytes < 100 * PAGE_BYTES as u64, "{why}: {bytes} bytes were not written anew");
        let manifest = Manifest::open(disk.power_cut().shared(), &path()).await.unwrap();
        assert_eq!(told(&manifest), wanted, "{why}, and a power cut");
    }
}

/// The copy has a commitlog of its own, and files of nobody else stand beside it.
#[tokio::test]
async fn a_copy_says_what_is_live_and_nothing_of_logs_and_other_files() {
    let disk = with_directory(4).await;
    let folder = directory().join("copy");
    disk.shared().create_directories(&folder).await.unwrap();
    let mut manifest = Manifest::open(disk.shared(), &path()).await.unwrap();
    manifest.append(edits()).await.unwrap();
    manifest.copy_into(&folder).await.unwrap();
    let copy = Manifest::open(disk.shared(), &folder.join("manifest-0")).await.unwrap();
    assert_eq!(copy.live(), manifest.live());
    // Of numbers only the greatest is told, so that it is not given again.
    let wanted: Told = (vec![(1, 1), (2, 7)], BTreeSet::from([9]), BTreeSet::new(), 9, None);
    assert_eq!(told(&copy), wanted);
    assert_eq!(manifest.flushed_through(), Some(at(50)), "the original is as it was");
}

/// Asks `work` so many times at most; how often it was until that was over, if it was.
async fn asked(most: usize, work: impl Future<Output = ()>) -> Option<usize> {
    let mut work = pin!(work);
    for count in 1..=most {
        if futures::poll!(work.as_mut()).is_ready() {
            return Some(count);
        }
    }
    None
}

/// Writes SSTable 1.
async fn write_one(disk: &SimulatedDisk, schema: &SchemaRef, fragments: &[Fragment]) {
    let options = WriterOptions::default();
    let created = SstableWriter::create(disk.shared(), directory(), 1, schema.clone(), options);
    let mut writer = created.await.unwrap();
    for fragment in fragments {
        writer.push(fragment.clone()).await.unwrap();
    }
    assert!(writer.finish().await.unwrap().is_some(), "nothing was written");
}

fn files_in(disk: &SimulatedDisk, folder: &Path) -> BTreeSet<PathBuf> {
    let paths = disk.files().into_iter().map(|(path, _)| path);
    paths.filter(|path| path.parent() == Some(folder)).collect()
}

#[test]
fn an_sstable_with_a_table_of_contents_is_whole_whenever_the_power_goes() {
    let (schema, partitions) = sample(&MemoryDisk::default());
    let slice = Slice::full(Direction::Forward);
    let wanted = all_fragments(&partitions, &slice);
    let mut met = [0; 2];
    for seed in 0..12 {
        let empty = || block_on(with_directory(seed));
        let total = block_on(asked(usize::MAX, write_one(&empty(), &schema, &wanted))).unwrap();
        // The last steps, of which one makes the table of contents.
        for count in total - 8..=total {
            let disk = empty();
            let over = block_on(asked(count, write_one(&disk, &schema, &wanted)));
            assert_eq!(over.is_some(), count == total, "seed {seed}: a seed decides all");
            let disk = disk.power_cut();
            let toc = Component::Toc.path(directory(), 1);
            let has_toc = files_in(&disk, directory()).contains(&toc);
            assert!(has_toc || over.is_none(), "seed {seed}: what was finished is not durable");
            met[usize::from(has_toc)] += 1;
            if !has_toc {
                continue;
            }
            let (shared, cache) = (disk.shared(), PageCache::new(1 << 20, 1));
            let opened = Sstable::open(shared, cache, directory(), (1, None), schema.clone());
            let table = block_on(opened).unwrap();
            let mended = table.mended();
            assert!(mended.is_empty(), "seed {seed}, {count} of {total}: {mended:?}");
            let found = sstables::read(&table, &PartitionRange::full(), &slice).unwrap();
            assert!(found == wanted, "seed {seed}, {count} of {total}: other rows");
        }
    }
    assert!(met.iter().all(|count| *count > 10), "without and with one: {met:?}");
}

/// A stop in between leaves what the next start takes for unfinished, and removes.
#[test]
fn files_that_go_or_get_second_names_have_a_table_of_contents_only_all_together() {
    let (schema, partitions) = sample(&MemoryDisk::default());
    let fragments = all_fragments(&partitions, &Slice::full(Direction::Forward));
    let base = block_on(with_directory(1));
    block_on(write_one(&base, &schema, &fragments));
    let folder = PathBuf::from("/linked");
    block_on(base.shared().create_directories(&folder)).unwrap();
    for seen in [directory(), folder.as_path()] {
        let (mut count, mut is_over, mut met) = (0, false, BTreeSet::new());
        while !is_over {
            let disk = base.copy(5);
            let shared = disk.shared();
            let work = async {
                let done = match seen == directory() {
                    true => remove_files(&*shared, directory(), 1).await,
                    false => link_files(&*shared, directory(), &folder, 1).await,
                };
                done.unwrap();
            };
            is_over = block_on(asked(count, work)).is_some();
            let files = files_in(&disk, seen);
            let has_toc = files.contains(&Component::Toc.path(seen, 1));
            let is_whole = files.len() == Component::WRITTEN.len();
            assert!(!has_toc || is_whole, "after {count} turns: {files:?}");
            met.insert(files.len());
            count += 1;
        }
        let all = Component::WRITTEN.len();
        assert!(met.len() > 3 && met.contains(&0) && met.contains(&all), "{seen:?}: {met:?}");
    }
}
