//! A disk of plain byte vectors whose content a test may look at and damage.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::task::Poll;

use futures::future::{LocalBoxFuture, poll_fn, ready};

use crate::config::PAGE_BYTES;
use crate::disk::{Access, AlignedBuffer, DirectoryEntry, Disk, DiskFile, OpenOptions};
use crate::error::{Error, Result};

type Content = Rc<RefCell<Vec<u8>>>;

#[derive(Clone, Default)]
pub(crate) struct MemoryDisk {
    files: Rc<RefCell<BTreeMap<PathBuf, Content>>>,
    /// Path and offset of each page that was read.
    pub(crate) pages_read: Rc<RefCell<Vec<(PathBuf, u64)>>>,
    pub(crate) reads: Rc<RefCell<Vec<Read>>>,
}

/// One read: of which file, where, how much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) path: PathBuf,
    pub(crate) at: u64,
    pub(crate) bytes: u64,
}

struct MemoryFile {
    path: PathBuf,
    content: Content,
    pages_read: Rc<RefCell<Vec<(PathBuf, u64)>>>,
    reads: Rc<RefCell<Vec<Read>>>,
}

fn failed(path: &Path, code: i32) -> Error {
    Error::io("open", path, &std::io::Error::from_raw_os_error(code))
}

fn done<'a, T: 'a>(value: T) -> LocalBoxFuture<'a, T> {
    Box::pin(ready(value))
}

impl MemoryDisk {
    #[allow(dead_code, reason = "the fuzz targets only write")]
    pub(crate) fn content(&self, path: &Path) -> Vec<u8> {
        self.files.borrow()[path].borrow().clone()
    }

    pub(crate) fn set_content(&self, path: &Path, content: Vec<u8>) {
        let file = Rc::new(RefCell::new(content));
        self.files.borrow_mut().insert(path.to_owned(), file);
    }

    pub(crate) fn names(&self) -> Vec<PathBuf> {
        self.files.borrow().keys().cloned().collect()
    }
}

impl Disk for MemoryDisk {
    fn open<'a>(
        &'a self,
        path: &'a Path,
        options: OpenOptions,
    ) -> LocalBoxFuture<'a, Result<Rc<dyn DiskFile>>> {
        let mut files = self.files.borrow_mut();
        let found = files.get(path).cloned();
        let content = match (options.access, found) {
            (Access::Create, Some(_)) => return done(Err(failed(path, 17))),
            (Access::Create, None) => {
                let content = Content::default();
                files.insert(path.to_owned(), content.clone());
                content
            }
            (_, Some(content)) => content,
            (_, None) => return done(Err(failed(path, 2))),
        };
        let (pages_read, reads) = (self.pages_read.clone(), self.reads.clone());
        done(Ok(Rc::new(MemoryFile { path: path.to_owned(), content, pages_read, reads })))
    }

    fn create_directories<'a>(&'a self, _path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        done(Ok(()))
    }

    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        let mut files = self.files.borrow_mut();
        let Some(content) = files.remove(from) else { return done(Err(failed(from, 2))) };
        files.insert(to.to_owned(), content);
        done(Ok(()))
    }

    fn link<'a>(&'a self, from: &'a Path, to: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        let mut files = self.files.borrow_mut();
        let Some(content) = files.get(from).cloned() else { return done(Err(failed(from, 2))) };
        files.insert(to.to_owned(), content);
        done(Ok(()))
    }

    fn remove<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        let removed = self.files.borrow_mut().remove(path);
        done(removed.map(|_| ()).ok_or_else(|| failed(path, 2)))
    }

    fn remove_directory<'a>(&'a self, _path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        done(Ok(()))
    }

    fn sync_directory<'a>(&'a self, _path: &'a Path) -> LocalBoxFuture<'a, Result<()>> {
        done(Ok(()))
    }

    fn list<'a>(&'a self, path: &'a Path) -> LocalBoxFuture<'a, Result<Vec<DirectoryEntry>>> {
        let names = self.names();
        let inside = names.iter().filter(|name| name.parent() == Some(path));
        let entry = |name: &PathBuf| DirectoryEntry {
            name: name.file_name().unwrap().to_str().unwrap().to_owned(),
            is_directory: false,
        };
        done(Ok(inside.map(entry).collect()))
    }
}

impl DiskFile for MemoryFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn size(&self) -> LocalBoxFuture<'_, Result<u64>> {
        done(Ok(self.content.borrow().len() as u64))
    }

    fn read_at(
        &self,
        offset: u64,
        mut buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        assert!(offset.is_multiple_of(PAGE_BYTES as u64));
        let content = self.content.borrow();
        let rest = content.get(offset as usize..).unwrap_or(&[]);
        let taken = &rest[..rest.len().min(buffer.capacity())];
        let pages = (offset..offset + taken.len() as u64).step_by(PAGE_BYTES);
        self.pages_read.borrow_mut().extend(pages.map(|at| (self.path.clone(), at)));
        let read = Read { path: self.path.clone(), at: offset, bytes: taken.len() as u64 };
        self.reads.borrow_mut().push(read);
        buffer.set_len(0);
        buffer.extend(taken);
        // Not done at once, so that others get to run meanwhile, as they do with a real disk.
        let mut buffer = Some(buffer);
        let mut is_asked_again = false;
        Box::pin(poll_fn(move |context| {
            if !std::mem::replace(&mut is_asked_again, true) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready((Ok(()), buffer.take().expect("a future that is done is not asked again")))
        }))
    }

    fn write_at(
        &self,
        offset: u64,
        buffer: AlignedBuffer,
    ) -> LocalBoxFuture<'_, (Result<()>, AlignedBuffer)> {
        assert!(offset.is_multiple_of(PAGE_BYTES as u64));
        assert!(buffer.len().is_multiple_of(PAGE_BYTES));
        let mut content = self.content.borrow_mut();
        let (start, end) = (offset as usize, offset as usize + buffer.len());
        if content.len() < end {
            content.resize(end, 0);
        }
        content[start..end].copy_from_slice(&buffer);
        done((Ok(()), buffer))
    }

    fn sync(&self) -> LocalBoxFuture<'_, Result<()>> {
        done(Ok(()))
    }

    fn allocate(&self, bytes: u64) -> LocalBoxFuture<'_, Result<()>> {
        self.content.borrow_mut().resize(bytes as usize, 0);
        done(Ok(()))
    }

    fn truncate(&self, bytes: u64) -> LocalBoxFuture<'_, Result<()>> {
        self.content.borrow_mut().resize(bytes as usize, 0);
        done(Ok(()))
    }
}
