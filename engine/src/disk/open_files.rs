//! The descriptors of a shard: files that are only read give theirs back when many are open, and a
//! shortage of descriptors is waited out.
//!
//! Invariant: a file that was opened for reading stays readable under its handle, whether it has a
//! descriptor at the moment or not; files that are written keep theirs. An operation under way
//! keeps a file open, so the bound is one of idle files. Not here: how many descriptors the process
//! may have (`os`).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{LocalBoxFuture, ready};

use super::{Access, AlignedBuffer, DirectoryEntry, Disk, DiskFile, OpenOptions};
use crate::config::{DESCRIPTOR_WAIT, OPEN_FILES_MAX};
use crate::error::{Error, Result};

/// First pause of an operation that lacks a descriptor; it doubles up to the maximum.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// Entries of the queue for each open file, from which on those of closed ones are cleared away.
const QUEUE_SLACK: usize = 64;

/// How a shard sleeps: by its clock.
pub type Sleep = Box<dyn Fn(Duration) -> LocalBoxFuture<'static, ()>>;

/// What the pool did since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenFilesStats {
    /// Files for reading that have a descriptor now.
    pub open: usize,
    /// Files that gave theirs back.
    pub closed: u64,
    /// Files that took one again.
    pub reopened: u64,
    /// Times that an operation had to wait because the process or the system had none.
    pub waits: u64,
}

/// A disk that keeps a bounded number of files open. See the head of this file.
pub struct OpenFiles {
    pool: Rc<Pool>,
}

struct Pool {
    disk: Rc<dyn Disk>,
    sleep: Sleep,
    shard: u32,
    open_max: Cell<usize>,
    /// Files that were opened, those used since they were looked at last go to the end again.
    queue: RefCell<VecDeque<Weak<Slot>>>,
    stats: Cell<OpenFilesStats>,
    is_short: Cell<bool>,
}

impl OpenFiles {
    /// Puts the bound before `disk`; `sleep` by the shard's clock.
    pub fn new(disk: Rc<dyn Disk>, shard: u32, sleep: Sleep) -> Rc<Self> {
        let pool = Pool {
            disk,
            sleep,
            shard,
            open_max: Cell::new(OPEN_FILES_MAX),
            queue: RefCell::default(),
            stats: Cell::default(),
            is_short: Cell::new(false),
        };
        Rc::new(OpenFiles { pool: Rc::new(pool) })
    }

    /// Files for reading that may be open while nobody reads them, one at least.
    pub fn set_max(&self, open_max: usize) {
        self.pool.open_max.set(open_max.max(1));
        self.pool.close_idle(open_max.max(1));
    }

    pub fn stats(&self) -> OpenFilesStats {
        self.pool.stats.get()
    }
}

impl Pool {
    fn count(&self, change: impl FnOnce(&mut OpenFilesStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }

    /// Closes files that nobody reads until `open_max` are left; returns how many it closed.
    fn close_idle(&self, open_max: usize) -> usize {
        let mut queue = self.queue.borrow_mut();
        let mut closed = 0;
        // Twice round: the first time those that were used lose their mark.
        let mut looks = 2 * queue.len();
        while self.stats.get().open > open_max && looks > 0 {
            looks -= 1;
            let Some(weak) = queue.pop_front() else { break };
            let Some(slot) = weak.upgrade() else { continue };
            if slot.was_used.replace(false) || slot.keeps_open.get() || slot.is_busy() {
                queue.push_back(weak);
                continue;
            }
            let file = slot.file.take();
            if file.is_some() {
                closed += 1;
                self.count(|stats| {
                    stats.open -= 1;
                    stats.closed += 1;
                });
            }
        }
        closed
    }

    /// Opens a file for reading, and others close for it where there are too many.
    async fn open_for_reading(&self, path: &Path) -> Result<Rc<dyn DiskFile>> {
        self.close_idle(self.open_max.get() - 1);
        self.patiently("open", path, || self.disk.open(path, OpenOptions::READ)).await
    }

    fn enqueue(&self, slot: &Rc<Slot>) {
        let mut queue = self.queue.borrow_mut();
        queue.push_back(Rc::downgrade(slot));
        if queue.len() > 2 * self.stats.get().open + QUEUE_SLACK {
            queue.retain(|slot| slot.upgrade().is_some_and(|slot| slot.file.borrow().is_some()));
        }
    }

    /// Does what needs a descriptor. Where there is none it closes idle files, waits, and tries
    /// again.
    ///
    /// Errors: those of `operation`; the shortage, with its remedy, when it lasts.
    async fn patiently<T, F: Future<Output = Result<T>>>(
        &self,
        operation: &'static str,
        path: &Path,
        attempt: impl Fn() -> F,
    ) -> Result<T> {
        let (mut pause, mut waited) = (PAUSE, Duration::ZERO);
        loop {
            let error = match attempt().await {
                Err(error) if error.lacks_descriptors() => error,
                result => {
                    if self.is_short.replace(false) {
                        tracing::info!(shard = self.shard, "there are descriptors of files again");
                    }
                    return result;
                }
            };
            self.count(|stats| stats.waits += 1);
            let open = self.stats.get().open;
            let closed = self.close_idle(open / 2);
            if !self.is_short.replace(true) {
                let (shard, path) = (self.shard, path.display());
                tracing::warn!(
                    shard, %path, %error, closed,
                    "{operation} waits: no descriptor is free; raise the limit (ulimit -n)"
                );
            }
            if waited >= DESCRIPTOR_WAIT {
                return Err(error.after_waiting_for_descriptors(waited));
            }
            // What was closed may come back only in a while.
            (self.sleep)(pause).await;
            waited += pause;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

impl Disk for OpenFiles {
    fn open<'a>(
        &'a self,
        path: &'a Path,
        options: OpenOptions,
    ) -> LocalBoxFuture<'a, Result<Rc<dyn DiskFile>>> {
        let pool = &self.pool;
        async move {
            if options.access != Access::Read {
                let file = pool.patiently("open", path, || pool.disk.open(path, options)).await?;
                return Ok(Rc::new(WrittenFile { file, pool: pool.clone() }) as Rc<dyn DiskFile>);
            }
            let file = pool.open_for_reading(path).await?;
            let slot = Rc::new(Slot {
                path: path.to_owned(),
                size: Cell::new(None),
                file: RefCell::default(),
                was_used: Cell::new(false),
                keeps_open: Cell::new(false),
                pool: pool.clone(),
            });
            slot.put(file);
            pool.enqueue(&slot);
            Ok(Rc::new(ReadFile { slot }) as Rc<dyn DiskFile>)
        }
        .boxed_local()
    }

    fn create_directories<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.pool.disk.create_directories(path)
    }

    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.pool.disk.rename(from, to)
    }

    fn link<'a>(&'a self, from: &'a Path, to: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.pool.disk.link(from, to)
    }

    fn remove<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.pool.disk.remove(path)
    }

    fn remove_directory<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.pool.disk.remove_directory(path)
    }

    fn sync_directory<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        let pool = &self.pool;
        pool.patiently("sync directory", path, || pool.disk.sync_directory(path)).boxed_local()
    }

    fn list<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<Vec<DirectoryEntry>>> {
        let pool = &self.pool;
        pool.patiently("list", path, || pool.disk.list(path)).boxed_local()
    }
}

/// A file for reading and, at the moment or not, its descriptor.
struct Slot {
    path: PathBuf,
    /// As it was when the file was first closed: what stands there later must be as long.
    size: Cell<Option<u64>>,
    file: RefCell<Option<Rc<dyn DiskFile>>>,
    /// Since the pool looked at it last.
    was_used: Cell<bool>,
    keeps_open: Cell<bool>,
    pool: Rc<Pool>,
}

impl Slot {
    /// Whether an operation is under way.
    fn is_busy(&self) -> bool {
        self.file.borrow().as_ref().is_some_and(|file| Rc::strong_count(file) > 1)
    }

    fn put(&self, file: Rc<dyn DiskFile>) {
        if self.file.replace(Some(file)).is_none() {
            self.pool.count(|stats| stats.open += 1);
        }
    }

    /// The file where it has a descriptor.
    fn at_hand(&self) -> Option<Rc<dyn DiskFile>> {
        self.was_used.set(true);
        self.file.borrow().clone()
    }

    /// The file with a descriptor, opened again where it has none.
    async fn opened(self: &Rc<Self>) -> Result<Rc<dyn DiskFile>> {
        if let Some(file) = self.at_hand() {
            return Ok(file);
        }
        let opened = self.pool.open_for_reading(&self.path).await;
        // Somebody may have opened it meanwhile, to keep it, and then have removed its name.
        if let Some(file) = &*self.file.borrow() {
            return Ok(file.clone());
        }
        let file = opened?;
        self.check_size(&*file).await?;
        if let Some(file) = &*self.file.borrow() {
            return Ok(file.clone());
        }
        self.pool.count(|stats| stats.reopened += 1);
        self.put(file.clone());
        self.pool.enqueue(self);
        Ok(file)
    }

    /// A file that was replaced under its name is not read as if it were the old one.
    async fn check_size(&self, file: &dyn DiskFile) -> Result<()> {
        let found = file.size().await?;
        match self.size.get().filter(|wanted| *wanted != found) {
            None => Ok(()),
            Some(wanted) => {
                let found = format!("{found} bytes: the file was changed while it was in use");
                Err(Error::corrupt(&self.path, 0, format!("{wanted} bytes"), found))
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            self.pool.count(|stats| stats.open -= 1);
        }
    }
}

struct ReadFile {
    slot: Rc<Slot>,
}

impl ReadFile {
    fn read_only(&self) -> Error {
        Error::invalid(format!("{} is open for reading only", self.slot.path.display()))
    }
}

impl DiskFile for ReadFile {
    fn path(&self) -> &Path {
        &self.slot.path
    }

    fn size(&self) -> LocalBoxFuture<'_, Result<u64>> {
        async move {
            let size = self.slot.opened().await?.size().await?;
            self.slot.size.set(Some(size));
            Ok(size)
        }
        .boxed_local()
    }

    fn read_at(
        &self,
        offset: u64,
        buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        // Most reads find it open, and need no room for what opens it.
        if let Some(file) = self.slot.at_hand() {
            return async move { file.read_at(offset, buffer).await }.boxed_local();
        }
        async move {
            match self.slot.opened().await {
                Ok(file) => file.read_at(offset, buffer).await,
                Err(error) => (Err(error), buffer),
            }
        }
        .boxed_local()
    }

    fn write_at(
        &self,
        _offset: u64,
        buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        ready((Err(self.read_only()), buffer)).boxed_local()
    }

    fn sync(&self) -> LocalBoxFuture<'_, Result<()>> {
        async move { self.slot.opened().await?.sync().await }.boxed_local()
    }

    fn allocate(&self, _bytes: u64) -> LocalBoxFuture<'_, Result<()>> {
        ready(Err(self.read_only())).boxed_local()
    }

    fn truncate(&self, _bytes: u64) -> LocalBoxFuture<'_, Result<()>> {
        ready(Err(self.read_only())).boxed_local()
    }

    fn keep_open(&self) -> LocalBoxFuture<'_, Result<()>> {
        async move {
            self.slot.keeps_open.set(true);
            self.slot.opened().await.map(|_| ())
        }
        .boxed_local()
    }
}

/// A file that is written: it keeps its descriptor, but some calls on it need one more.
struct WrittenFile {
    file: Rc<dyn DiskFile>,
    pool: Rc<Pool>,
}

impl DiskFile for WrittenFile {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn size(&self) -> LocalBoxFuture<'_, Result<u64>> {
        self.file.size()
    }

    fn read_at(
        &self,
        offset: u64,
        buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        self.file.read_at(offset, buffer)
    }

    fn write_at(
        &self,
        offset: u64,
        buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        self.file.write_at(offset, buffer)
    }

    fn sync(&self) -> LocalBoxFuture<'_, Result<()>> {
        self.file.sync()
    }

    fn allocate(&self, bytes: u64) -> LocalBoxFuture<'_, Result<()>> {
        let attempt = move || self.file.allocate(bytes);
        self.pool.patiently("allocate", self.file.path(), attempt).boxed_local()
    }

    fn truncate(&self, bytes: u64) -> LocalBoxFuture<'_, Result<()>> {
        let attempt = move || self.file.truncate(bytes);
        self.pool.patiently("truncate", self.file.path(), attempt).boxed_local()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::PAGE_BYTES;
    use crate::disk::{Faults, SimulatedDisk, conformance};

    fn bounded(disk: Rc<dyn Disk>, open_max: usize) -> Rc<OpenFiles> {
        let waited = Cell::new(Duration::ZERO);
        let sleep = move |pause| {
            waited.set(waited.get() + pause);
            assert!(waited.get() < 10 * DESCRIPTOR_WAIT, "waiting for a descriptor never ends");
            tokio::task::yield_now().boxed_local()
        };
        let files = OpenFiles::new(disk, 0, Box::new(sleep));
        files.set_max(open_max);
        files
    }

    fn run<F: Future>(future: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, future)
    }

    async fn make(disk: &dyn Disk, number: u8) -> PathBuf {
        let path = PathBuf::from(format!("/files/{number}"));
        let file = disk.open(&path, OpenOptions::CREATE).await.unwrap();
        file.write_at(0, AlignedBuffer::padded(&[number; PAGE_BYTES])).await.0.unwrap();
        path
    }

    async fn first_byte(file: &dyn DiskFile) -> Result<u8> {
        let (result, buffer) = file.read_at(0, AlignedBuffer::with_capacity(PAGE_BYTES)).await;
        result.map(|()| buffer[0])
    }

    #[test]
    fn it_behaves_as_every_disk() {
        run(async {
            let disk = bounded(SimulatedDisk::new(1).shared(), 1000);
            conformance::run(disk, Path::new("/disk")).await;
        });
    }

    #[test]
    fn many_files_are_read_through_few_descriptors() {
        run(async {
            let simulated = SimulatedDisk::new(2);
            simulated.set_faults(Faults { open_files_max: Some(4), ..Faults::default() });
            let disk = bounded(simulated.shared(), 3);
            disk.create_directories(Path::new("/files")).await.unwrap();
            let mut files = Vec::new();
            for number in 0..50 {
                let path = make(&*disk, number).await;
                let file = disk.open(&path, OpenOptions::READ).await.unwrap();
                assert_eq!(file.size().await.unwrap(), PAGE_BYTES as u64);
                files.push(file);
            }
            for _ in 0..2 {
                for (number, file) in files.iter().enumerate() {
                    assert_eq!(first_byte(&**file).await.unwrap(), number as u8);
                    assert!(simulated.open_files() <= 3, "{}", simulated.open_files());
                }
            }
            let stats = disk.stats();
            assert!(stats.open <= 3 && stats.reopened >= 94 && stats.waits == 0, "{stats:?}");
            drop(files);
            assert_eq!((disk.stats().open, simulated.open_files()), (0, 0));
        });
    }

    #[test]
    fn a_shortage_is_waited_out_and_told_when_it_lasts() {
        run(async {
            let simulated = SimulatedDisk::new(3);
            let disk = bounded(simulated.shared(), 100);
            disk.create_directories(Path::new("/files")).await.unwrap();
            let (a, b) = (make(&*disk, 1).await, make(&*disk, 2).await);
            let idle = disk.open(&a, OpenOptions::READ).await.unwrap();
            idle.size().await.unwrap();
            simulated.set_faults(Faults { open_files_max: Some(1), ..Faults::default() });
            // The idle file closes for the other.
            let other = disk.open(&b, OpenOptions::READ).await.unwrap();
            assert_eq!(first_byte(&*other).await.unwrap(), 2);
            assert!(disk.stats().waits > 0);
            // Somebody else has all of them: it waits, and goes on when there are some again.
            simulated.set_faults(Faults { open_files_max: Some(0), ..Faults::default() });
            let mut reading = Box::pin(first_byte(&*idle));
            for _ in 0..20 {
                assert!(futures::poll!(&mut reading).is_pending());
                tokio::task::yield_now().await;
            }
            simulated.set_faults(Faults::default());
            assert_eq!(reading.await.unwrap(), 1);
            // And in the end it says what to do.
            simulated.set_faults(Faults { open_files_max: Some(0), ..Faults::default() });
            let error = disk.sync_directory(Path::new("/files")).await.unwrap_err();
            assert!(error.is_retryable() && error.lacks_descriptors(), "{error}");
            let text = error.to_string();
            assert!(text.contains("ulimit -n") && text.contains("/files"), "{text}");
        });
    }

    async fn opened(disk: &OpenFiles, path: &Path, options: OpenOptions) -> Result<()> {
        disk.open(path, options).await.map(drop)
    }

    #[test]
    fn every_operation_that_needs_a_descriptor_waits_for_one() {
        run(async {
            let simulated = SimulatedDisk::new(7);
            let disk = bounded(simulated.shared(), 100);
            let folder = Path::new("/files");
            disk.create_directories(folder).await.unwrap();
            let (path, new) = (make(&*disk, 1).await, folder.join("new"));
            let write = OpenOptions { access: Access::ReadWrite, data_sync: false };
            let read = opened(&disk, &path, OpenOptions::READ).boxed_local();
            let create = opened(&disk, &new, OpenOptions::CREATE).boxed_local();
            let list = async { disk.list(folder).await.map(drop) }.boxed_local();
            let operations: [(&str, LocalBoxFuture<'_, Result<()>>); 5] = [
                ("opening for reading", read),
                ("opening for writing", opened(&disk, &path, write).boxed_local()),
                ("making", create),
                ("listing", list),
                ("syncing a folder", disk.sync_directory(folder)),
            ];
            for (what, mut operation) in operations {
                let before = disk.stats().waits;
                simulated.set_faults(Faults { open_files_max: Some(0), ..Faults::default() });
                for _ in 0..20 {
                    assert!(futures::poll!(&mut operation).is_pending(), "{what} does not wait");
                    tokio::task::yield_now().await;
                }
                simulated.set_faults(Faults::default());
                let done = operation.await;
                assert!(done.is_ok() && disk.stats().waits > before, "{what}: {done:?}");
            }
        });
    }

    #[test]
    fn a_file_that_was_replaced_meanwhile_is_refused_and_a_kept_one_outlives_its_name() {
        run(async {
            let simulated = SimulatedDisk::new(4);
            let disk = bounded(simulated.shared(), 1);
            disk.create_directories(Path::new("/files")).await.unwrap();
            let (a, b, c) = (make(&*disk, 1).await, make(&*disk, 2).await, make(&*disk, 3).await);
            let replaced = disk.open(&a, OpenOptions::READ).await.unwrap();
            replaced.size().await.unwrap();
            let kept = disk.open(&b, OpenOptions::READ).await.unwrap();
            kept.size().await.unwrap();
            kept.keep_open().await.unwrap();
            let other = disk.open(&c, OpenOptions::READ).await.unwrap();
            assert_eq!(first_byte(&*other).await.unwrap(), 3);
            for path in [&a, &b] {
                disk.remove(path).await.unwrap();
            }
            assert_eq!(first_byte(&*kept).await.unwrap(), 2);
            let longer = disk.open(&a, OpenOptions::CREATE).await.unwrap();
            longer.write_at(0, AlignedBuffer::padded(&[7; 2 * PAGE_BYTES])).await.0.unwrap();
            let error = first_byte(&*replaced).await.unwrap_err();
            assert!(error.to_string().contains("changed while it was in use"), "{error}");
        });
    }

    #[test]
    fn a_file_is_kept_for_a_read_that_is_just_opening_it() {
        run(async {
            let simulated = SimulatedDisk::new(6);
            let disk = bounded(simulated.shared(), 1);
            disk.create_directories(Path::new("/files")).await.unwrap();
            let (a, b) = (make(&*disk, 1).await, make(&*disk, 2).await);
            let kept = disk.open(&a, OpenOptions::READ).await.unwrap();
            kept.size().await.unwrap();
            let other = disk.open(&b, OpenOptions::READ).await.unwrap();
            assert_eq!(first_byte(&*other).await.unwrap(), 2);
            let mut reading = Box::pin(first_byte(&*kept));
            simulated.set_faults(Faults { delay_turns_max: 1 << 14, ..Faults::default() });
            assert!(futures::poll!(&mut reading).is_pending());
            simulated.set_faults(Faults::default());
            kept.keep_open().await.unwrap();
            disk.remove(&a).await.unwrap();
            assert_eq!(reading.await.unwrap(), 1);
        });
    }

    #[test]
    fn a_file_that_is_being_read_counts_as_open() {
        run(async {
            let simulated = SimulatedDisk::new(5);
            let disk = bounded(simulated.shared(), 2);
            disk.create_directories(Path::new("/files")).await.unwrap();
            let mut files = Vec::new();
            for number in 0..6 {
                let path = make(&*disk, number).await;
                let file = disk.open(&path, OpenOptions::READ).await.unwrap();
                file.size().await.unwrap();
                files.push(file);
            }
            let last = files.pop().unwrap();
            let mut reading = Box::pin(first_byte(&*last));
            simulated.set_faults(Faults { delay_turns_max: 1 << 20, ..Faults::default() });
            assert!(futures::poll!(&mut reading).is_pending());
            simulated.set_faults(Faults::default());
            for file in files.iter().chain(&files) {
                first_byte(&**file).await.unwrap();
                let (counted, open) = (disk.stats().open as u64, simulated.open_files());
                assert_eq!(counted, open, "descriptors that the bound counts, and those there are");
            }
            assert!(futures::poll!(&mut reading).is_pending());
        });
    }

    #[test]
    fn pauses_add_up_to_the_wait() {
        assert!(PAUSE < PAUSE_MAX && PAUSE_MAX < DESCRIPTOR_WAIT);
        assert!(DESCRIPTOR_WAIT < Duration::from_secs(60), "a client waits for this");
    }

    #[test]
    fn a_file_for_reading_refuses_every_change_and_one_stays_open() {
        run(async {
            let simulated = SimulatedDisk::new(9);
            // Of no files one is open all the same.
            let disk = bounded(simulated.shared(), 0);
            disk.create_directories(Path::new("/files")).await.unwrap();
            let (a, b) = (make(&*disk, 1).await, make(&*disk, 2).await);
            let file = disk.open(&a, OpenOptions::READ).await.unwrap();
            let page = AlignedBuffer::padded(&[7; PAGE_BYTES]);
            let (written, page) = file.write_at(0, page).await;
            assert_eq!(page.len(), PAGE_BYTES, "whoever gave the page has it again");
            for refused in [written, file.allocate(1 << 20).await, file.truncate(0).await] {
                let error = refused.unwrap_err();
                assert!(matches!(error, Error::Invalid(_)), "{error}");
                assert_eq!(error.to_string(), "/files/1 is open for reading only");
            }
            assert_eq!(file.size().await.unwrap(), PAGE_BYTES as u64);
            assert_eq!(first_byte(&*file).await.unwrap(), 1);
            let counts = || {
                let OpenFilesStats { open, closed, reopened, waits } = disk.stats();
                (open, closed, reopened, waits)
            };
            assert_eq!(counts(), (1, 0, 0, 0));
            let other = disk.open(&b, OpenOptions::READ).await.unwrap();
            assert_eq!(first_byte(&*other).await.unwrap(), 2);
            assert_eq!((counts(), simulated.open_files()), ((1, 1, 0, 0), 1));
            assert_eq!(first_byte(&*file).await.unwrap(), 1);
            assert_eq!((counts(), simulated.open_files()), ((1, 2, 1, 0), 1));
            drop((file, other));
            assert_eq!((counts(), simulated.open_files()), ((0, 2, 1, 0), 0));
        });
    }
}
