//! CPU time that the scheduler takes of a request, on a disk that does nothing.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use futures::future::{LocalBoxFuture, join_all};
use futures::{FutureExt, future::ready};
use tidegate_engine::Result;
use tidegate_engine::clock::SystemClock;
use tidegate_engine::config::{IO_IN_DISK_MAX, PAGE_BYTES};
use tidegate_engine::disk::{AlignedBuffer, DirectoryEntry, Disk, DiskFile, OpenOptions};
use tidegate_engine::io::{Class, DiskModel, DiskProperties, IoQueue, ScheduledDisk, Scheduler};
use tidegate_engine::runtime::{RealTimer, Timer};
use tokio::task::LocalSet;

use super::frame::{Arguments, Row, Target, median, thread_cpu_timed};

const REPEATS: usize = 9;
/// Faster than anything here: tokens are always there.
const FAST: DiskProperties = DiskProperties::new((1 << 40, 1 << 50), (1 << 40, 1 << 50));
const AT_ONCE: &str = "cost of a request that goes at once";
const WAITS: &str = "cost of a request that waits";

/// Nothing but names and answers.
struct Blank;

impl Disk for Blank {
    fn open<'a>(
        &'a self,
        path: &'a Path,
        _: OpenOptions,
    ) -> LocalBoxFuture<'a, Result<Rc<dyn DiskFile>>> {
        ready(Ok(Rc::new(BlankFile(path.to_owned())) as Rc<dyn DiskFile>)).boxed_local()
    }

    fn create_directories<'a>(&'a self, _: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        ready(Ok(())).boxed_local()
    }

    fn rename<'a>(&'a self, _: &'a Path, _: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        ready(Ok(())).boxed_local()
    }

    fn link<'a>(&'a self, _: &'a Path, _: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        ready(Ok(())).boxed_local()
    }

    fn remove<'a>(&'a self, _: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        ready(Ok(())).boxed_local()
    }

    fn remove_directory<'a>(&'a self, _: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        ready(Ok(())).boxed_local()
    }

    fn sync_directory<'a>(&'a self, _: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        ready(Ok(())).boxed_local()
    }

    fn list<'a>(&'a self, _: &'a Path) -> LocalBoxFuture<'a, Result<Vec<DirectoryEntry>>> {
        ready(Ok(Vec::new())).boxed_local()
    }
}

struct BlankFile(PathBuf);

impl DiskFile for BlankFile {
    fn path(&self) -> &Path {
        &self.0
    }

    fn size(&self) -> LocalBoxFuture<'_, Result<u64>> {
        ready(Ok(0)).boxed_local()
    }

    /// Has the buffer a turn later, as a disk that takes no time.
    fn read_at(
        &self,
        _: u64,
        buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        async move {
            tokio::task::yield_now().await;
            (Ok(()), buffer)
        }
        .boxed_local()
    }

    fn write_at(
        &self,
        _: u64,
        buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        ready((Ok(()), buffer)).boxed_local()
    }

    fn sync(&self) -> LocalBoxFuture<'_, Result<()>> {
        ready(Ok(())).boxed_local()
    }

    fn allocate(&self, _: u64) -> LocalBoxFuture<'_, Result<()>> {
        ready(Ok(())).boxed_local()
    }

    fn truncate(&self, _: u64) -> LocalBoxFuture<'_, Result<()>> {
        ready(Ok(())).boxed_local()
    }
}

/// ns of CPU time of one read of several tasks that read one after another.
fn ns_a_read(disk: &Rc<dyn Disk>, tasks: usize, reads: usize) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (local, each) = (LocalSet::new(), reads / tasks);
    let ((), time) = thread_cpu_timed(|| {
        local.block_on(&runtime, async {
            let file = disk.open(Path::new("blank"), OpenOptions::READ).await.unwrap();
            let read = |_| {
                let file = file.clone();
                tokio::task::spawn_local(async move {
                    let mut buffer = AlignedBuffer::for_reading(PAGE_BYTES);
                    for _ in 0..each {
                        let (result, back) = file.read_at(0, buffer).await;
                        result.unwrap();
                        buffer = back;
                    }
                })
            };
            join_all((0..tasks).map(read)).await.into_iter().for_each(|task| task.unwrap());
        });
    });
    time.as_nanos() as f64 / (each * tasks) as f64
}

pub fn print(arguments: &Arguments) {
    let count = arguments.scale(100_000, 1_000_000);
    let blank: Rc<dyn Disk> = Rc::new(Blank);
    for (name, tasks) in [(AT_ONCE, 8), (WAITS, 2 * IO_IN_DISK_MAX)] {
        if !arguments.wants(name) {
            continue;
        }
        let clock = SystemClock::shared();
        let scheduler = Scheduler::new(DiskModel::measured(&FAST), 2, clock.monotonic_ns());
        let sleep = Box::new(|duration| RealTimer.sleep_finely(duration));
        let queue = IoQueue::new(scheduler, clock, sleep);
        let scheduled: Rc<dyn Disk> = ScheduledDisk::new(blank.clone(), queue.clone(), None);
        let mut measured = [Vec::new(), Vec::new()];
        for _ in 0..REPEATS {
            measured[0].push(ns_a_read(&blank, tasks, count));
            measured[1].push(ns_a_read(&scheduled, tasks, count));
        }
        let stats = queue.stats()[Class::Query.index()];
        let waited = stats.delay_ns > 0;
        assert_eq!(waited, name == WAITS, "{stats:?}");
        let [bare, scheduled] = measured.map(median);
        Row {
            name,
            unit: "ns",
            figure: scheduled - bare,
            baseline: Some(("the same read without it", bare)),
            target: Target::AtMost(300.0),
        }
        .print(arguments);
    }
}
