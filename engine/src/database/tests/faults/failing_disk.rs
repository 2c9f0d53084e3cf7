//! A disk on which a test decides which names cannot be made, renamed or made durable.

use std::cell::Cell;
use std::future::ready;
use std::path::Path;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use crate::disk::{Access, DirectoryEntry, Disk, DiskFile, OpenOptions};
use crate::error::{Error, Result};

/// Instead of an errno: the operation waits, and asks again.
pub(super) const WAITS: i32 = -1;

/// See the head of this file.
pub(super) struct FailingDisk<F> {
    inner: Rc<dyn Disk>,
    /// The errno that an operation on this path ends with: making a file or folder, renaming to it,
    /// or syncing the folder.
    fails: F,
}

/// A disk on which operations on what a test names end with an errno, or wait, once the test says
/// so: the cell has that errno.
pub(super) fn failing_at(
    inner: Rc<dyn Disk>,
    names: impl Fn(&Path) -> bool + 'static,
) -> (Rc<dyn Disk>, Rc<Cell<Option<i32>>>) {
    let met = Rc::new(Cell::new(None));
    let fails = met.clone();
    (FailingDisk::shared(inner, move |path| fails.get().filter(|_| names(path))), met)
}

impl<F: Fn(&Path) -> Option<i32> + 'static> FailingDisk<F> {
    pub(super) fn shared(inner: Rc<dyn Disk>, fails: F) -> Rc<dyn Disk> {
        Rc::new(FailingDisk { inner, fails })
    }

    fn refused<'a, T: 'a>(&self, path: &Path) -> Option<LocalBoxFuture<'a, Result<T>>> {
        let code = (self.fails)(path)?;
        Some(ready(Err(failed(path, code))).boxed_local())
    }
}

fn failed(path: &Path, code: i32) -> Error {
    Error::io("make", path, &std::io::Error::from_raw_os_error(code))
}

impl<F: Fn(&Path) -> Option<i32> + 'static> Disk for FailingDisk<F> {
    fn open<'a>(
        &'a self,
        path: &'a Path,
        options: OpenOptions,
    ) -> LocalBoxFuture<'a, Result<Rc<dyn DiskFile>>> {
        let open = async move {
            let makes = options.access == Access::Create;
            loop {
                match (self.fails)(path).filter(|_| makes) {
                    None => return self.inner.open(path, options).await,
                    Some(WAITS) => tokio::task::yield_now().await,
                    Some(code) => return Err(failed(path, code)),
                }
            }
        };
        open.boxed_local()
    }

    fn create_directories<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.refused(path).unwrap_or_else(|| self.inner.create_directories(path))
    }

    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.refused(to).unwrap_or_else(|| self.inner.rename(from, to))
    }

    fn link<'a>(&'a self, from: &'a Path, to: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.refused(to).unwrap_or_else(|| self.inner.link(from, to))
    }

    fn remove<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.inner.remove(path)
    }

    fn remove_directory<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.inner.remove_directory(path)
    }

    fn sync_directory<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        self.refused(path).unwrap_or_else(|| self.inner.sync_directory(path))
    }

    fn list<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<Vec<DirectoryEntry>>> {
        self.inner.list(path)
    }
}
