//! The simulated disk by itself: what it tears, loses, delays and refuses.

use std::collections::BTreeSet;

use futures::executor::block_on;
use futures::future::join_all;

use super::*;
use crate::config::PAGE_BYTES;
use crate::disk::{
    Access, AlignedBuffer, DiskFile, OpenOptions, conformance, read_file, write_file_atomically,
};

const PAGE: u64 = PAGE_BYTES as u64;

fn path(name: &str) -> PathBuf {
    PathBuf::from("/data").join(name)
}

fn page(fill: u8) -> AlignedBuffer {
    AlignedBuffer::padded(&[fill; PAGE_BYTES])
}

/// A disk with a durable directory `/data`.
fn disk(seed: u64, faults: Faults) -> SimulatedDisk {
    let disk =
        SimulatedDisk::with_faults(seed, Faults { capacity_bytes: None, ..Faults::default() });
    block_on(async {
        disk.create_directories(&path("")).await.unwrap();
        disk.sync_directory(Path::new("/")).await.unwrap();
    });
    disk.set_faults(faults);
    disk
}

async fn create(disk: &SimulatedDisk, name: &str) -> Rc<dyn DiskFile> {
    let file = disk.open(&path(name), OpenOptions::CREATE).await.unwrap();
    disk.sync_directory(&path("")).await.unwrap();
    file
}

fn code(result: Result<impl Sized>) -> Option<i32> {
    match result.err() {
        Some(Error::Io { code, .. }) => code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_simulated_disk_conforms() {
    for seed in 0..20 {
        block_on(conformance::run(disk(seed, Faults::default()).shared(), &path("root")));
    }
}

#[test]
fn short_transfers_and_stalls_change_nothing() {
    for seed in 0..20 {
        let faults = Faults { short_one_in: 2, stall_one_in: 50, ..Faults::default() };
        let disk = disk(seed, faults);
        block_on(conformance::run(disk.shared(), &path("root")));
        block_on(async {
            let file = create(&disk, "a").await;
            let pages: Vec<u8> = (0..16 * PAGE_BYTES).map(|at| (at / PAGE_BYTES) as u8).collect();
            file.write_at(0, AlignedBuffer::padded(&pages)).await.0.unwrap();
            let (read, found) = file.read_at(0, AlignedBuffer::for_reading(20 * PAGE_BYTES)).await;
            read.unwrap();
            assert_eq!(found[..], pages, "as much as there is, in order");
        });
    }
}

#[test]
fn a_disk_without_room_for_names_says_so_and_changes_nothing() {
    let disk = disk(1, Faults::default());
    block_on(async {
        create(&disk, "a").await;
        disk.set_faults(Faults { name_error_one_in: 1, ..Faults::default() });
        assert_eq!(code(disk.open(&path("b"), OpenOptions::CREATE).await), Some(ENOSPC));
        assert_eq!(code(disk.rename(&path("a"), &path("b")).await), Some(ENOSPC));
        assert_eq!(code(disk.create_directories(&path("c/d")).await), Some(ENOSPC));
        // What is there can be opened, and goes.
        disk.open(&path("a"), OpenOptions::READ).await.unwrap();
        assert_eq!(disk.files(), [(path("a"), 0)]);
        disk.remove(&path("a")).await.unwrap();
        assert_eq!(disk.files(), []);
    });
}

#[test]
fn a_lying_disk_acknowledges_what_it_loses_or_puts_elsewhere() {
    let fill = |faults: Faults| {
        let disk = disk(7, Faults::default());
        block_on(async {
            let file = create(&disk, "a").await;
            file.write_at(0, AlignedBuffer::padded(&[1; 4 * PAGE_BYTES])).await.0.unwrap();
            disk.set_faults(faults);
            file.write_at(2 * PAGE, page(2)).await.0.unwrap();
            let (read, found) = file.read_at(0, AlignedBuffer::for_reading(4 * PAGE_BYTES)).await;
            read.unwrap();
            found.chunks(PAGE_BYTES).map(|page| page[0]).collect::<Vec<u8>>()
        })
    };
    assert_eq!(fill(Faults::default()), [1, 1, 2, 1]);
    assert_eq!(fill(Faults { lost_write_one_in: 1, ..Faults::default() }), [1, 1, 1, 1]);
    let misdirected = fill(Faults { misdirected_write_one_in: 1, ..Faults::default() });
    assert_eq!(misdirected.iter().filter(|page| **page == 2).count(), 1, "{misdirected:?}");
    assert_eq!(misdirected[2], 1, "the seed puts it elsewhere");
}

#[test]
fn errors_carry_real_codes() {
    let disk = disk(1, Faults::default());
    block_on(async {
        create(&disk, "a").await;
        assert_eq!(code(disk.open(&path("b"), OpenOptions::READ).await), Some(ENOENT));
        assert_eq!(code(disk.open(&path("a"), OpenOptions::CREATE).await), Some(EEXIST));
        assert_eq!(code(disk.open(&path("x/a"), OpenOptions::CREATE).await), Some(ENOENT));
        assert_eq!(code(disk.remove(&path("b")).await), Some(ENOENT));
        assert_eq!(code(disk.remove_directory(&path("")).await), Some(ENOTEMPTY));
        let file = disk.open(&path("a"), OpenOptions::READ).await.unwrap();
        assert_eq!(code(file.write_at(0, page(1)).await.0), Some(EBADF));
        disk.remove(&path("a")).await.unwrap();
        assert_eq!(disk.list(&path("")).await.unwrap(), []);
        assert_eq!(disk.list(&path("none")).await.unwrap(), []);
        assert_eq!(file.size().await.unwrap(), 0, "a removed file lives while it is open");
    });
}

#[test]
fn concurrent_operations_are_reordered_and_a_seed_repeats() {
    let order = |seed| {
        let disk = disk(seed, Faults { delay_turns_max: 10, ..Faults::default() });
        block_on(async {
            let file = create(&disk, "a").await;
            let done = RefCell::new(Vec::new());
            join_all((0..8).map(|at| {
                let (file, done) = (&file, &done);
                async move {
                    file.write_at(at * PAGE, page(at as u8)).await.0.unwrap();
                    done.borrow_mut().push(at);
                }
            }))
            .await;
            done.into_inner()
        })
    };
    assert_eq!(order(3), order(3));
    assert!(BTreeSet::from_iter((0..10).map(order)).len() > 5);
    assert!((0..10).map(order).any(|order| !order.is_sorted()));
}

#[test]
fn synced_content_survives_and_unsynced_pages_are_kept_lost_or_torn() {
    let (mut kept, mut lost, mut torn) = (0, 0, 0);
    for seed in 0..200 {
        let disk = disk(seed, Faults::default());
        let new = block_on(async {
            let file = create(&disk, "a").await;
            file.write_at(0, page(1)).await.0.unwrap();
            file.write_at(PAGE, page(1)).await.0.unwrap();
            file.sync().await.unwrap();
            file.write_at(PAGE, page(2)).await.0.unwrap();
            let new = disk.power_cut();
            assert_eq!(code(file.sync().await), Some(EIO));
            assert_eq!(code(disk.list(&path("")).await), Some(EIO));
            new
        });
        let content = block_on(read_file(&new, &path("a"))).unwrap();
        assert_eq!(content.len() as u64, 2 * PAGE);
        assert!(content[..PAGE_BYTES].iter().all(|byte| *byte == 1));
        let sectors: BTreeSet<&[u8]> = content[PAGE_BYTES..].chunks(512).collect();
        assert!(sectors.iter().all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        match (sectors.len(), content[PAGE_BYTES]) {
            (1, 1) => lost += 1,
            (1, 2) => kept += 1,
            (2, _) => torn += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(kept > 30 && lost > 30 && torn > 30, "{kept} {lost} {torn}");
}

#[test]
fn a_data_sync_write_is_durable_when_done_and_torn_while_running() {
    let mut torn = 0;
    for seed in 0..100 {
        let disk = disk(seed, Faults::default());
        let new = block_on(async {
            let options = OpenOptions { access: Access::Create, data_sync: true };
            let file = disk.open(&path("a"), options).await.unwrap();
            file.allocate(4 * PAGE).await.unwrap();
            file.sync().await.unwrap();
            disk.sync_directory(&path("")).await.unwrap();
            file.write_at(0, page(1)).await.0.unwrap();
            disk.set_faults(Faults { delay_turns_max: 1000, ..Faults::default() });
            let mut running = file.write_at(PAGE, page(2));
            assert!(futures::poll!(running.as_mut()).is_pending());
            disk.power_cut()
        });
        let content = block_on(read_file(&new, &path("a"))).unwrap();
        assert_eq!(content.len() as u64, 4 * PAGE);
        assert!(content[..PAGE_BYTES].iter().all(|byte| *byte == 1));
        let second = &content[PAGE_BYTES..2 * PAGE_BYTES];
        torn += usize::from(second.contains(&0) && second.contains(&2));
    }
    assert!(torn > 10, "{torn}");
}

#[test]
fn names_survive_only_with_their_directory_synced_and_renames_are_whole() {
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let disk = disk(seed, Faults::default());
        let new = block_on(async {
            let file = create(&disk, "old").await;
            file.write_at(0, page(7)).await.0.unwrap();
            file.sync().await.unwrap();
            disk.rename(&path("old"), &path("new")).await.unwrap();
            disk.open(&path("unsynced"), OpenOptions::CREATE).await.unwrap();
            disk.create_directories(&path("below/deep")).await.unwrap();
            disk.sync_directory(&path("below")).await.unwrap();
            disk.power_cut()
        });
        let names: Vec<String> =
            block_on(new.list(&path(""))).unwrap().into_iter().map(|entry| entry.name).collect();
        let one = names.iter().filter(|name| *name == "old" || *name == "new").count();
        assert_eq!(one, 1, "{names:?}");
        let below = block_on(new.list(&path("below"))).unwrap();
        assert_eq!(!below.is_empty(), names.contains(&"below".to_owned()));
        seen.insert(names);
    }
    assert_eq!(seen.len(), 8, "{seen:?}");
}

#[test]
fn a_file_is_replaced_atomically() {
    for seed in 0..200 {
        let disk = disk(seed, Faults::default());
        let new = block_on(async {
            write_file_atomically(&disk, &path("a"), &[1; 5000]).await.unwrap();
            disk.set_faults(Faults { delay_turns_max: 5, ..Faults::default() });
            let target = path("a");
            let mut replacing = Box::pin(write_file_atomically(&disk, &target, &[2; 9000]));
            for _ in 0..seed / 4 {
                if futures::poll!(replacing.as_mut()).is_ready() {
                    break;
                }
            }
            disk.power_cut()
        });
        let content = block_on(read_file(&new, &path("a"))).unwrap();
        assert!(content == [1; 5000] || content == [2; 9000], "seed {seed}: {}", content.len());
    }
}

#[test]
fn a_full_disk_refuses_and_recovers() {
    let disk = disk(1, Faults { capacity_bytes: Some(4 * PAGE), ..Faults::default() });
    block_on(async {
        let (a, b) = (create(&disk, "a").await, create(&disk, "b").await);
        a.allocate(3 * PAGE).await.unwrap();
        assert!(b.allocate(2 * PAGE).await.unwrap_err().is_disk_full());
        b.write_at(0, page(1)).await.0.unwrap();
        assert!(b.write_at(PAGE, page(1)).await.0.unwrap_err().is_disk_full());
        a.write_at(2 * PAGE, page(1)).await.0.unwrap();
        drop(a);
        disk.remove(&path("a")).await.unwrap();
        b.write_at(PAGE, page(1)).await.0.unwrap();
    });
}

#[test]
fn a_failed_sync_may_forget_for_good() {
    let mut forgotten = 0;
    for seed in 0..100 {
        let disk = disk(seed, Faults::default());
        let new = block_on(async {
            let file = create(&disk, "a").await;
            file.allocate(PAGE).await.unwrap();
            file.sync().await.unwrap();
            file.write_at(0, page(1)).await.0.unwrap();
            disk.set_faults(Faults { sync_error_one_in: 1, ..Faults::default() });
            assert_eq!(code(file.sync().await), Some(EIO));
            disk.set_faults(Faults::default());
            file.sync().await.unwrap();
            disk.power_cut()
        });
        let content = block_on(read_file(&new, &path("a"))).unwrap();
        forgotten += usize::from(content[0] == 0);
    }
    assert!(forgotten > 30 && forgotten < 70, "{forgotten}");
}

#[test]
fn faults_strike_and_are_counted() {
    let disk = disk(1, Faults { read_error_one_in: 2, write_error_one_in: 2, ..Faults::default() });
    block_on(async {
        let file = create(&disk, "a").await;
        let mut failed = (0, 0);
        for _ in 0..100 {
            failed.0 += u64::from(file.write_at(0, page(1)).await.0.is_err());
            failed.1 += u64::from(file.read_at(0, page(0)).await.0.is_err());
        }
        assert!((30..70).contains(&failed.0) && (30..70).contains(&failed.1), "{failed:?}");
        let counters = disk.counters();
        assert_eq!((counters.writes, counters.reads), (100, 100));
        assert_eq!(counters.bytes_written, (100 - failed.0) * PAGE);
    });
}

#[test]
fn corruption_flips_one_byte() {
    let disk = disk(1, Faults::default());
    block_on(async {
        let file = create(&disk, "a").await;
        file.write_at(0, page(3)).await.0.unwrap();
        disk.corrupt(&path("a"), 17, 0x81);
        let content = read_file(&disk, &path("a")).await.unwrap();
        assert_eq!((content[16], content[17], content[18]), (3, 3 ^ 0x81, 3));
    });
}
