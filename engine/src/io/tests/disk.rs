//! Files behind the scheduler: what every disk must do, pieces, classes.

use std::path::Path;

use super::*;
use crate::config::PAGE_BYTES;
use crate::disk::{AlignedBuffer, Disk, DiskFile, Faults, OpenOptions, SimulatedDisk, conformance};

/// A slow disk: 64 KiB are the longest piece in either direction.
const SLOW: DiskProperties = DiskProperties::new((1000, 20 << 20), (1000, 20 << 20));

fn scheduled(time: &Rc<Time>, model: DiskModel, disk: Rc<dyn Disk>) -> (Rc<IoQueue>, Rc<dyn Disk>) {
    let queue = time.queue(&Scheduler::new(model, 1, time.now_ns()));
    (queue.clone(), ScheduledDisk::new(disk, queue, None))
}

#[test]
fn it_behaves_as_every_disk() {
    for model in [DiskModel::unmeasured(), DiskModel::measured(&SLOW)] {
        simulate(|time| async move {
            let (queue, disk) = scheduled(&time, model, SimulatedDisk::new(1).shared());
            conformance::run(disk, Path::new("/files")).await;
            let stats = queue.stats()[Class::Query.index()];
            assert!(stats.reads > 600 && stats.writes > 600, "{stats:?}");
            assert_eq!((stats.queued, stats.in_disk), (0, 0));
        });
    }
}

#[test]
fn long_requests_go_in_pieces() {
    let bytes = 300 << 10;
    simulate(|time| async move {
        let raw = SimulatedDisk::new(1);
        let (queue, disk) = scheduled(&time, DiskModel::measured(&SLOW), raw.shared());
        let file = disk.open(Path::new("/file"), OpenOptions::CREATE).await.unwrap();
        let content: Vec<u8> = (0..bytes).map(|at: usize| (at / 1000) as u8).collect();
        let (result, buffer) = file.write_at(0, AlignedBuffer::padded(&content)).await;
        result.unwrap();
        assert_eq!(&buffer[..], &content[..], "a write hands its buffer back");
        file.truncate(bytes as u64 - 100).await.unwrap();
        let read = async |wanted| {
            let (result, buffer) = file.read_at(4096, AlignedBuffer::for_reading(wanted)).await;
            result.map(|()| buffer.to_vec())
        };
        assert_eq!(read(bytes - 4096).await.unwrap(), content[4096..bytes - 100]);
        assert_eq!(read(2 * bytes).await.unwrap(), content[4096..bytes - 100], "past its end");
        let stats = queue.stats()[Class::Query.index()];
        assert_eq!((stats.split, stats.writes, stats.reads), (3, 5, 5 + 10));
        assert!(raw.counters().writes == 5, "{:?}", raw.counters());
        raw.set_faults(Faults { read_error_one_in: 1, ..Faults::default() });
        assert!(read(bytes).await.is_err());
    });
}

/// As of a short one: the length that a buffer comes with does not matter, its capacity does.
#[test]
fn a_long_read_replaces_what_its_buffer_held() {
    let bytes = 200 << 10;
    simulate(|time| async move {
        let raw = SimulatedDisk::new(1);
        let (_queue, disk) = scheduled(&time, DiskModel::measured(&SLOW), raw.shared());
        let file = disk.open(Path::new("/file"), OpenOptions::CREATE).await.unwrap();
        let content: Vec<u8> = (0..bytes).map(|at: usize| (at / 1000) as u8).collect();
        file.write_at(0, AlignedBuffer::padded(&content)).await.0.unwrap();
        let (result, buffer) = file.read_at(0, AlignedBuffer::padded(&vec![7; bytes])).await;
        result.unwrap();
        assert!(buffer[..] == content, "{} bytes were read", buffer.len());
        let (result, buffer) = file.read_at(bytes as u64, buffer).await;
        result.unwrap();
        assert_eq!(buffer.len(), 0, "nothing stands past the end");
    });
}

#[test]
fn a_write_fails_where_any_of_its_pieces_does() {
    simulate(|time| async move {
        let raw = SimulatedDisk::new(1);
        let (_queue, disk) = scheduled(&time, DiskModel::measured(&SLOW), raw.shared());
        let file = disk.open(Path::new("/file"), OpenOptions::CREATE).await.unwrap();
        let (mut written, mut failed) = (0, 0);
        for round in 1..60_u8 {
            raw.set_faults(Faults { write_error_one_in: 4, ..Faults::default() });
            let content = vec![round; 192 << 10];
            let (result, _) = file.write_at(0, AlignedBuffer::padded(&content)).await;
            raw.set_faults(Faults::default());
            if result.is_err() {
                failed += 1;
                continue;
            }
            written += 1;
            let (result, found) = file.read_at(0, AlignedBuffer::for_reading(192 << 10)).await;
            result.unwrap();
            assert!(found[..] == content, "write {round} says that it is done");
        }
        assert!(written > 5 && failed > 5, "{written} were written, {failed} failed");
    });
}

#[test]
fn a_request_is_of_its_task_or_of_its_disk() {
    simulate(|time| async move {
        let raw: Rc<dyn Disk> = SimulatedDisk::new(1).shared();
        let (queue, disk) = scheduled(&time, DiskModel::unmeasured(), raw.clone());
        let logs = ScheduledDisk::new(raw, queue.clone(), Some(Class::Commitlog));
        let write = async |disk: &dyn Disk, path: &str| {
            let file = disk.open(Path::new(path), OpenOptions::CREATE).await.unwrap();
            file.write_at(0, AlignedBuffer::padded(&[1; PAGE_BYTES])).await.0.unwrap();
            file
        };
        let file: Rc<dyn DiskFile> = run_as(Class::Flush, write(&*disk, "/a")).await;
        run_as(Class::Flush, write(&*logs, "/b")).await.sync().await.unwrap();
        run_as(Class::Maintenance, file.sync()).await.unwrap();
        file.read_at(0, AlignedBuffer::for_reading(PAGE_BYTES)).await.0.unwrap();
        let counts = queue.stats().map(|stats| (stats.reads, stats.writes, stats.written_bytes));
        let page = PAGE_BYTES as u64;
        assert_eq!(counts, [(1, 0, 0), (0, 2, page), (0, 1, page), (0, 0, 0), (0, 1, 0)]);
    });
}

/// It takes no place, no tokens and no buffer, and whoever comes after it is served.
#[test]
fn a_request_that_is_given_up_while_it_waits_is_never_made() {
    simulate(|time| async move {
        let raw = SimulatedDisk::new(1);
        let (queue, disk) = scheduled(&time, DiskModel::measured(&SLOW), raw.shared());
        let file = disk.open(Path::new("/file"), OpenOptions::CREATE).await.unwrap();
        let write =
            |at: u8| file.write_at(u64::from(at) << 16, AlignedBuffer::padded(&[at; 64 << 10]));
        write(0).await.0.unwrap();
        let mut given_up = [write(1), file.read_at(0, AlignedBuffer::for_reading(64 << 10))];
        for request in &mut given_up {
            assert!(futures::poll!(request).is_pending(), "the first took all that there was");
        }
        let stats = || queue.stats()[Class::Query.index()];
        assert_eq!((stats().queued, stats().in_disk), (2, 0));
        drop(given_up);
        assert_eq!((stats().queued, stats().in_disk, stats().cancelled), (0, 0, 2));
        write(2).await.0.unwrap();
        file.sync().await.unwrap();
        assert_eq!((raw.counters().writes, raw.counters().reads), (2, 0));
        let (result, buffer) = file.read_at(1 << 16, AlignedBuffer::for_reading(128 << 10)).await;
        result.unwrap();
        let (hole, written) = buffer.split_at(64 << 10);
        assert!(hole.iter().all(|byte| *byte == 0) && written.iter().all(|byte| *byte == 2));
        assert_eq!((stats().queued, stats().in_disk), (0, 0));
    });
}

/// Its client may go in the moment in which its turn has come.
#[test]
fn a_request_that_is_given_up_at_its_turn_leaves_its_tokens_to_the_next() {
    simulate(|time| async move {
        let scheduler = Scheduler::new(DiskModel::measured(&SLOW), 1, time.now_ns());
        let queue = time.queue(&scheduler);
        let admit = || Box::pin(queue.admit(Class::Query, Kind::Read, 64 << 10));
        drop(admit().await);
        let mut given_up = admit();
        assert!(futures::poll!(&mut given_up).is_pending(), "the first took all that there was");
        // So long that its tokens have come, and not those of another one.
        time.sleep_until(time.now_ns() + 5_000_000).await;
        let stats = || queue.stats()[Class::Query.index()];
        assert_eq!((stats().queued, stats().in_disk, query_waits()), (0, 1, true));
        drop(given_up);
        assert_eq!((stats().queued, stats().in_disk, query_waits()), (0, 0, false));
        assert_eq!((stats().reads, stats().cancelled), (1, 1), "the disk never had it");
        assert!(futures::poll!(admit()).is_ready(), "its tokens are there for the next");
    });
}
