//! Pages of SSTable files, kept after they were read.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::config::PAGE_BYTES;
use crate::disk::{AlignedBuffer, DiskFile};
use crate::error::{Error, Result};

/// One page of a file; shorter than [`PAGE_BYTES`] only at the end of the file.
pub type Page = Rc<AlignedBuffer>;

/// All cached pages of a shard.
#[derive(Default)]
pub struct PageCache {
    pages: RefCell<HashMap<(u64, u64), Page>>,
    next_file: RefCell<u64>,
}

impl PageCache {
    pub fn new(_capacity_bytes: usize) -> Rc<Self> {
        Rc::default()
    }
}

/// A file whose pages are read through the cache.
pub struct PagedFile {
    file: Rc<dyn DiskFile>,
    cache: Rc<PageCache>,
    id: u64,
    size: u64,
}

impl PagedFile {
    /// Wraps an open file that does not change any more.
    pub async fn new(cache: Rc<PageCache>, file: Rc<dyn DiskFile>) -> Result<Self> {
        let size = file.size().await?;
        let id = *cache.next_file.borrow();
        *cache.next_file.borrow_mut() += 1;
        Ok(PagedFile { file, cache, id, size })
    }

    /// Size of the file in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    pub fn path(&self) -> &std::path::Path {
        self.file.path()
    }

    /// The page if it is in memory.
    pub fn cached_page(&self, number: u64) -> Option<Page> {
        self.cache.pages.borrow().get(&(self.id, number)).cloned()
    }

    /// The page, read from disk if need be.
    pub async fn page(&self, number: u64) -> Result<Page> {
        if let Some(page) = self.cached_page(number) {
            return Ok(page);
        }
        let buffer = AlignedBuffer::with_capacity(PAGE_BYTES);
        let (result, buffer) = self.file.read_at(number * PAGE_BYTES as u64, buffer).await;
        result?;
        let page = Rc::new(buffer);
        self.cache.pages.borrow_mut().insert((self.id, number), page.clone());
        Ok(page)
    }

    /// Exactly `length` bytes at `offset`.
    ///
    /// Errors: `Corrupt` when the file ends before.
    pub async fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        let end = offset.checked_add(length as u64).filter(|end| *end <= self.size);
        let Some(end) = end else {
            let wanted = format!("{length} bytes");
            return Err(Error::corrupt(self.path(), offset, wanted, "end of file"));
        };
        let mut out = Vec::with_capacity(length);
        let mut at = offset;
        while at < end {
            let page = self.page(at / PAGE_BYTES as u64).await?;
            let within = (at % PAGE_BYTES as u64) as usize;
            let take = (page.len() - within).min((end - at) as usize);
            out.extend_from_slice(&page[within..within + take]);
            at += take as u64;
        }
        Ok(out)
    }
}
