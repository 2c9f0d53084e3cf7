//! What an earlier run could not make durable is made so before anything follows from it.

use std::cell::Cell;
use std::future::ready;
use std::path::Path;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::log_limit::{open, run};
use super::*;
use crate::disk::{AlignedBuffer, DirectoryEntry, Disk, DiskFile, OpenOptions, SimulatedDisk};
use crate::error::{Error, Result};

const EIO: i32 = 5;
const MEMTABLE_BYTES: usize = 1 << 20;

/// A disk that does not sync what a test names, file or folder: what is written there can be read,
/// and a power cut may take it away.
struct Unsynced {
    inner: Rc<dyn Disk>,
    fails: Fails,
}

struct UnsyncedFile {
    inner: Rc<dyn DiskFile>,
    fails: Fails,
}

#[derive(Clone)]
struct Fails {
    is_on: Rc<Cell<bool>>,
    names: fn(&Path) -> bool,
}

impl Unsynced {
    /// The disk, and what ends the fault.
    fn shared(disk: &SimulatedDisk, names: fn(&Path) -> bool) -> (Rc<dyn Disk>, Rc<Cell<bool>>) {
        let is_on = Rc::new(Cell::new(false));
        let fails = Fails { is_on: is_on.clone(), names };
        (Rc::new(Unsynced { inner: disk.shared(), fails }), is_on)
    }
}

impl Fails {
    fn check(&self, path: &Path) -> Result<()> {
        match self.is_on.get() && (self.names)(path) {
            true => Err(Error::io("sync", path, &std::io::Error::from_raw_os_error(EIO))),
            false => Ok(()),
        }
    }
}

impl Disk for Unsynced {
    fn open<'a>(
        &'a self,
        path: &'a Path,
        options: OpenOptions,
    ) -> LocalBoxFuture<'a, Result<Rc<dyn DiskFile>>> {
        let open = async move {
            let inner = self.inner.open(path, options).await?;
            Ok(Rc::new(UnsyncedFile { inner, fails: self.fails.clone() }) as Rc<dyn DiskFile>)
        };
        open.boxed_local()
    }

    fn create_directories<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.inner.create_directories(path)
    }

    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.inner.rename(from, to)
    }

    fn link<'a>(&'a self, from: &'a Path, to: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.inner.link(from, to)
    }

    fn remove<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.inner.remove(path)
    }

    fn remove_directory<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.inner.remove_directory(path)
    }

    fn sync_directory<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        match self.fails.check(path) {
            Ok(()) => self.inner.sync_directory(path),
            failed => ready(failed).boxed_local(),
        }
    }

    fn list<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<Vec<DirectoryEntry>>> {
        self.inner.list(path)
    }
}

impl DiskFile for UnsyncedFile {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn size(&self) -> LocalBoxFuture<'_, Result<u64>> {
        self.inner.size()
    }

    fn read_at(
        &self,
        offset: u64,
        buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        self.inner.read_at(offset, buffer)
    }

    fn write_at(
        &self,
        offset: u64,
        buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        self.inner.write_at(offset, buffer)
    }

    fn sync(&self) -> LocalBoxFuture<'_, Result<()>> {
        match self.fails.check(self.path()) {
            Ok(()) => self.inner.sync(),
            failed => ready(failed).boxed_local(),
        }
    }

    fn allocate(&self, bytes: u64) -> LocalBoxFuture<'_, Result<()>> {
        self.inner.allocate(bytes)
    }

    fn truncate(&self, bytes: u64) -> LocalBoxFuture<'_, Result<()>> {
        self.inner.truncate(bytes)
    }
}

/// A start reads of a manifest what the kernel has of it. The commitlog goes by that.
#[test]
fn an_edit_that_could_not_be_synced_is_made_durable_by_the_next_start() {
    for seed in 0..20 {
        run(async move {
            let disk = SimulatedDisk::new(seed);
            let is_manifest = |path: &Path| path.to_string_lossy().contains("/manifest-");
            let (unsynced, is_failing) = Unsynced::shared(&disk, is_manifest);
            let database = open(unsynced, MEMTABLE_BYTES).await;
            let t = database.create_table(definition(), false).await.unwrap();
            database.apply(insert(&t, "a", 1, 1, 1)).await.unwrap();
            database.flush(None).await.unwrap();
            database.apply(insert(&t, "a", 2, 1, 1)).await.unwrap();
            is_failing.set(true);
            let flushed = database.flush(None).await;
            assert!(matches!(flushed, Err(Error::Io { code: Some(EIO), .. })), "{flushed:?}");
            // The process ends, and the machine goes on.
            drop(database);
            let again = open(disk.shared(), MEMTABLE_BYTES).await;
            assert_eq!(count_rows(&again, &t, "a").await.unwrap(), 2, "seed {seed}");
            again.close().await.unwrap();
            let last = open(disk.power_cut().shared(), MEMTABLE_BYTES).await;
            assert_eq!(count_rows(&last, &t, "a").await.unwrap(), 2, "seed {seed}");
        });
    }
}

/// A start goes by the catalog that it reads: a power cut later must not bring another one.
#[test]
fn a_catalog_whose_name_could_not_be_synced_is_made_durable_by_the_next_start() {
    for seed in 0..20 {
        run(async move {
            let disk = SimulatedDisk::new(seed);
            let is_root = |path: &Path| path == Path::new("/db");
            let (unsynced, is_failing) = Unsynced::shared(&disk, is_root);
            let database = open(unsynced, MEMTABLE_BYTES).await;
            let t = database.create_table(definition(), false).await.unwrap();
            database.apply(insert(&t, "a", 1, 1, 1)).await.unwrap();
            is_failing.set(true);
            // One without the table has the name for a moment, then the one before has it again.
            let dropped = database.drop_table("default", "t", false).await;
            assert!(matches!(dropped, Err(Error::Unavailable(_))), "{dropped:?}");
            // The process ends, and the machine goes on.
            drop(database);
            let again = open(disk.shared(), MEMTABLE_BYTES).await;
            again.apply(insert(&t, "a", 2, 1, 1)).await.unwrap();
            let last = open(disk.power_cut().shared(), MEMTABLE_BYTES).await;
            assert_eq!(count_rows(&last, &t, "a").await.unwrap(), 2, "seed {seed}");
        });
    }
}
