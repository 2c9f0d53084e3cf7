//! An immutable file, read page by page through the cache.
//!
//! Invariant: at most one I/O at a time reads a page for the cache. All readers of the page poll
//! the same future, so it goes on when the first of them is cancelled. An error reaches all of them
//! and leaves nothing behind. If the cache will not keep a piece, the reader fetches it on its own.
//! Not here: what stays in memory (`mod.rs`).

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::{Shared, join_all};

use super::flights::{Flight, Load, Run, flight_of};
use super::{Page, PageKey};
use crate::cache::PageCache;
use crate::config::PAGE_BYTES;
use crate::disk::{AlignedBuffer, DiskFile};
use crate::error::{Error, Result};
use crate::policy::event::EntryKind;
use crate::probe::{self, Count};

/// Pages read by one I/O at most: 1 MiB.
const RUN_PAGES_MAX: u64 = 256;

/// Checks a page that was read: its number and content.
pub type Verifier = Box<dyn Fn(u64, &[u8]) -> Result<()>>;

/// Which pages of a piece that was read are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// All that there is room for.
    All,
    /// Those of a piece that was read before, not long ago: what was wanted of it is kept
    /// elsewhere.
    SecondTime,
}

/// What a load needs; it outlives the call that began it.
struct Source {
    file: Rc<dyn DiskFile>,
    cache: Rc<PageCache>,
    id: u64,
    size: u64,
    kind: EntryKind,
    table: u32,
    verifier: RefCell<Option<Rc<Verifier>>>,
}

/// A file whose pages are read through the cache; its pages leave the cache with it.
pub struct PagedFile {
    source: Rc<Source>,
}

/// Takes a run off the cache's list, however the load ends.
struct Landing {
    cache: Rc<PageCache>,
    first: PageKey,
}

impl Drop for Landing {
    fn drop(&mut self) {
        let was = self.cache.flights.borrow_mut().remove(&self.first);
        debug_assert!(was.is_some(), "a load is on the list until it ends");
    }
}

impl PagedFile {
    /// Wraps an open file of data pages that does not change any more.
    ///
    /// Errors: `Io`.
    pub async fn new(cache: Rc<PageCache>, file: Rc<dyn DiskFile>) -> Result<Self> {
        PagedFile::with_kind(cache, file, EntryKind::DataPage, 0).await
    }

    /// Wraps an open file whose pages policies see as `kind` of table number `table`.
    ///
    /// Errors: `Io`.
    pub async fn with_kind(
        cache: Rc<PageCache>,
        file: Rc<dyn DiskFile>,
        kind: EntryKind,
        table: u32,
    ) -> Result<Self> {
        let size = file.size().await?;
        let id = cache.next_file();
        let verifier = RefCell::new(None);
        let source = Source { file, cache, id, size, kind, table, verifier };
        Ok(PagedFile { source: Rc::new(source) })
    }

    /// Checks every page from now on once when it was read from disk, before anyone sees it; what
    /// the check refuses is an error of the read and not kept.
    pub fn set_verifier(&self, verifier: Verifier) {
        *self.source.verifier.borrow_mut() = Some(Rc::new(verifier));
    }

    /// Size of the file in bytes.
    pub fn size(&self) -> u64 {
        self.source.size
    }

    pub fn path(&self) -> &Path {
        self.source.file.path()
    }

    /// The page if it is in memory; a hit then.
    pub fn cached_page(&self, number: u64) -> Option<Page> {
        let page = self.source.cache.lookup(self.source.key(number));
        probe::count(Count::PagesCached, u64::from(page.is_some()));
        page
    }

    /// Whether the page is in memory. This is no use of it.
    pub fn is_cached(&self, number: u64) -> bool {
        self.source.cache.holds(self.source.key(number))
    }

    /// The page, read from disk if need be. While it is held it stays in memory.
    ///
    /// Errors: `Io`; `Corrupt` past the end of the file or when the verifier refuses the page.
    pub async fn page(&self, number: u64) -> Result<Page> {
        if let Some(page) = self.cached_page(number) {
            return Ok(page);
        }
        self.source.check_range(number, 1)?;
        let (load, index) = match self.flight(number) {
            Some(joined) => joined,
            None => (self.begin(number, 1), 0),
        };
        Ok(load.await?.pages()[index].clone())
    }

    /// `count` pages from `first` on. Neighbours that are not in memory are read together.
    ///
    /// Errors: as [`page`](Self::page); then none is returned, but those read stay in the cache.
    pub async fn page_range(&self, first: u64, count: u64) -> Result<Vec<Page>> {
        let end = self.source.check_range(first, count)?;
        let mut parts = Vec::new();
        let mut number = first;
        while number < end {
            if let Some(page) = self.cached_page(number) {
                parts.push(Part::Here(page));
                number += 1;
            } else if let Some((load, index)) = self.flight(number) {
                parts.push(Part::Coming(load, index, 1));
                number += 1;
            } else {
                let run = (number + 1..end.min(number + RUN_PAGES_MAX))
                    .take_while(|next| self.is_absent(*next))
                    .count();
                parts.push(Part::Coming(self.begin(number, 1 + run as u64), 0, 1 + run));
                number += 1 + run as u64;
            }
        }
        if parts.len() == 1
            && let Some(only) = parts.pop()
        {
            return only.pages().await;
        }
        let mut pages = Vec::with_capacity(count as usize);
        for part in join_all(parts.into_iter().map(Part::pages)).await {
            pages.extend(part?);
        }
        debug_assert_eq!(pages.len() as u64, count, "a range is whole");
        Ok(pages)
    }

    /// `count` pages from `first` on in one piece, read by one I/O and kept as `keep` says; nothing
    /// where one of them is in memory or on its way, or an I/O cannot bring so many.
    ///
    /// Errors: as [`page`](Self::page).
    pub async fn absent_range(
        &self,
        (first, count): (u64, u64),
        keep: Keep,
    ) -> Result<Option<Page>> {
        let end = self.source.check_range(first, count)?;
        let is_one_read = (1..=RUN_PAGES_MAX).contains(&count);
        if !is_one_read || !(first..end).all(|page| self.is_absent(page)) {
            return Ok(None);
        }
        let source = &self.source;
        if keep == Keep::SecondTime && !source.cache.is_second_time(source.key(first)) {
            // Nobody joins: whoever wants it meanwhile is the second.
            source.cache.count(source.kind, |counts| counts.passed += count);
            probe::count(Count::PagesRead, count);
            return Ok(Some(Rc::new(source.read_run(first, count).await?)));
        }
        Ok(Some(self.begin(first, count).await?.whole.clone()))
    }

    /// Exactly `length` bytes at `offset`, through the cache.
    ///
    /// Errors: `Corrupt` when the file ends before, and as [`page`](Self::page).
    pub async fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        let end = self.source.end_of(offset, length)?;
        let mut out = Vec::with_capacity(length);
        let mut at = offset;
        while at < end {
            let page = self.page(at / PAGE_BYTES as u64).await?;
            let within = (at % PAGE_BYTES as u64) as usize;
            debug_assert!(within < page.len(), "a page reaches to the next or to the end");
            let take = (page.len() - within).min((end - at) as usize);
            out.extend_from_slice(&page[within..within + take]);
            at += take as u64;
        }
        Ok(out)
    }

    /// Exactly `length` bytes at `offset` in large reads past the cache, for long scans: neither
    /// looks pages up nor keeps them, so none counts as a hit or a miss.
    ///
    /// Errors: as [`read`](Self::read).
    pub async fn read_uncached(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        let end = self.source.end_of(offset, length)?;
        let mut out = Vec::with_capacity(length);
        let mut at = offset;
        while at < end {
            let first = at / PAGE_BYTES as u64;
            let pages = end.div_ceil(PAGE_BYTES as u64) - first;
            let run = self.source.read_run(first, pages.min(RUN_PAGES_MAX)).await?;
            probe::count(Count::PagesRead, pages.min(RUN_PAGES_MAX));
            let within = (at % PAGE_BYTES as u64) as usize;
            debug_assert!(within < run.len(), "a run begins with the page that is wanted");
            let take = (run.len() - within).min((end - at) as usize);
            out.extend_from_slice(&run[within..within + take]);
            at += take as u64;
        }
        Ok(out)
    }

    /// Whether the page is neither in memory nor on its way.
    fn is_absent(&self, number: u64) -> bool {
        let (key, cache) = (self.source.key(number), &self.source.cache);
        !cache.holds(key) && flight_of(&cache.flights.borrow(), key).is_none()
    }

    /// The read under way that brings the page.
    fn flight(&self, number: u64) -> Option<(Shared<Load>, usize)> {
        let source = &self.source;
        let flights = source.cache.flights.borrow();
        let (flight, index) = flight_of(&flights, source.key(number))?;
        let load = flight.load.upgrade().expect("a flight leaves the list when its load ends");
        source.cache.join(source.key(number), source.kind);
        probe::count(Count::PagesJoined, 1);
        Some((load, index))
    }

    /// Begins to read pages that are absent.
    fn begin(&self, number: u64, count: u64) -> Shared<Load> {
        debug_assert!((1..=RUN_PAGES_MAX).contains(&count), "one I/O brings {count} pages");
        let source = self.source.clone();
        let cache = source.cache.clone();
        let first = source.key(number);
        cache.count(source.kind, |counts| counts.misses += count);
        probe::count(Count::PagesRead, count);
        let landing = Landing { cache: cache.clone(), first };
        let load = async move {
            let landing = landing;
            let pages = source.load(number, count).await;
            drop(landing);
            pages
        };
        let load = load.boxed_local().shared();
        let weak = load.downgrade().expect("a load that was not polled is not over");
        let was = cache.flights.borrow_mut().insert(first, Flight { load: weak, count });
        assert!(was.is_none(), "a page is read once at a time");
        load
    }
}

impl Drop for PagedFile {
    fn drop(&mut self) {
        // Calls borrow the file, so none of its reads is under way.
        self.source.cache.forget_file(self.source.id);
    }
}

/// A piece of a range: a page in memory, or some of a run on its way.
enum Part {
    Here(Page),
    Coming(Shared<Load>, usize, usize),
}

impl Part {
    async fn pages(self) -> Result<Vec<Page>> {
        match self {
            Part::Here(page) => Ok(vec![page]),
            Part::Coming(load, index, count) => {
                Ok(load.await?.pages()[index..index + count].to_vec())
            }
        }
    }
}

impl Source {
    fn key(&self, page: u64) -> PageKey {
        PageKey { file: self.id, page }
    }

    /// The end of a range of pages that the file holds, or where it is cut short.
    fn check_range(&self, first: u64, count: u64) -> Result<u64> {
        let end = first.checked_add(count);
        match end.filter(|end| *end <= self.size.div_ceil(PAGE_BYTES as u64)) {
            Some(end) => Ok(end),
            None => {
                let offset = first.saturating_mul(PAGE_BYTES as u64);
                let wanted = format!("{count} pages");
                Err(Error::corrupt(self.file.path(), offset, wanted, self.end_of_file()))
            }
        }
    }

    fn end_of(&self, offset: u64, length: usize) -> Result<u64> {
        offset.checked_add(length as u64).filter(|end| *end <= self.size).ok_or_else(|| {
            let wanted = format!("{length} bytes");
            Error::corrupt(self.file.path(), offset, wanted, self.end_of_file())
        })
    }

    fn end_of_file(&self) -> String {
        format!("end of file at {}", self.size)
    }

    /// Reads pages and verifies each.
    async fn read_run(&self, first: u64, count: u64) -> Result<AlignedBuffer> {
        let offset = first * PAGE_BYTES as u64;
        debug_assert!(offset < self.size, "pages are read of what the file has");
        let bytes = (self.size - offset).min(count * PAGE_BYTES as u64) as usize;
        let buffer = AlignedBuffer::for_reading(bytes);
        let (result, mut buffer) = self.file.read_at(offset, buffer).await;
        result?;
        if buffer.len() < bytes {
            let at = offset + buffer.len() as u64;
            let wanted = format!("{} bytes more", bytes - buffer.len());
            return Err(Error::corrupt(self.file.path(), at, wanted, "end of file"));
        }
        buffer.set_len(bytes);
        let verifier = self.verifier.borrow().clone();
        if let Some(verify) = verifier {
            for (page, content) in (first..).zip(buffer.chunks(PAGE_BYTES)) {
                verify(page, content)?;
            }
        }
        Ok(buffer)
    }

    /// Reads pages and hands them to the cache.
    async fn load(&self, first: u64, count: u64) -> Result<Rc<Run>> {
        let run = Run::new(Rc::new(self.read_run(first, count).await?));
        for (number, page) in (first..).zip(run.pages()) {
            self.cache.insert(self.key(number), self.kind, self.table, page.clone());
        }
        Ok(Rc::new(run))
    }
}
