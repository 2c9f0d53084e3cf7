//! Pages of files and pieces parsed from them: which are in memory, and where.
//!
//! `paged_file.rs` and `parsed_file.rs` read through this module. `access.rs` is their interface to
//! the shard's cache. `index_share.rs` says which parts of indexes leave before all else.
//!
//! Invariant: every page has one number and stands once by its key, and once in the list of its
//! file's. A reader holds a page by its `Rc`, so memory in use is never reused. Not here: room and
//! eviction (`budget`).

mod access;
mod flights;
mod index_share;
mod paged_file;
mod parsed_file;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::HashMap;
use std::rc::Rc;

pub(super) use flights::Flights;
use index_share::IndexShare;
pub use paged_file::{Keep, PagedFile, Verifier};
pub use parsed_file::ParsedFile;

use super::budget::EntryId;
use super::fingerprint::{BuildNumberHasher, mix};
use super::slab::{NONE, Slab};
use crate::disk::AlignedBuffer;
use crate::policy::Slot;
use crate::policy::event::EntryKind;

/// One page of a file; shorter than [`PAGE_BYTES`](crate::config::PAGE_BYTES) only at the end of
/// the file.
pub type Page = Rc<AlignedBuffer>;

/// Parts of indexes that one look for a victim passes.
pub(super) const INDEX_STEPS_MAX: usize = 512;
/// Pages of forgotten files that one insertion frees besides its own work.
const FORGET_PAGES_MAX: usize = 64;
/// The same for a call that does nothing else.
pub(super) const FORGET_PAGES_ALONE_MAX: usize = 4 * FORGET_PAGES_MAX;

/// A page of a file, by the number the cache gave the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct PageKey {
    pub file: u64,
    pub page: u64,
}

type KeyMap<V> = HashMap<PageKey, V, BuildNumberHasher>;

/// A resident page or parsed piece, in the list of its file's.
pub(super) struct LinkedPage {
    kind: EntryKind,
    content: Content,
    bytes: u32,
    table: u32,
    key: PageKey,
    slot: Slot,
    /// Of an index: its number among those that came in, and whether it was used since it was
    /// looked at last.
    stamp: u64,
    is_used: bool,
    previous: u32,
    next: u32,
}

impl LinkedPage {
    fn parsed_bytes(&self) -> u64 {
        match self.content {
            Content::Page(_) => 0,
            Content::Parsed(_) => u64::from(self.bytes),
        }
    }
}

/// A page as it is on disk, or what was parsed of some.
enum Content {
    Page(Page),
    Parsed(Rc<dyn Any>),
}

impl Content {
    fn is_in_use(&self) -> bool {
        match self {
            Content::Page(page) => Rc::strong_count(page) > 1,
            // Readers keep it only while they search it, without waiting.
            Content::Parsed(_) => false,
        }
    }
}

/// See the head of this file.
pub(super) struct Pages {
    numbers: KeyMap<u32>,
    linked: Slab<Box<LinkedPage>>,
    /// First resident page of each file that has one.
    files: HashMap<u64, u32>,
    /// Files that were closed and still have pages here.
    forgotten: Vec<u64>,
    index: IndexShare,
    /// Bytes of what was parsed.
    parsed_bytes: u64,
    next_file: u64,
    /// Seed of fingerprints.
    fingerprint_key: u64,
}

impl Pages {
    pub fn new(fingerprint_key: u64) -> Self {
        Pages {
            numbers: KeyMap::default(),
            linked: Slab::default(),
            files: HashMap::new(),
            forgotten: Vec::new(),
            index: IndexShare::new(),
            parsed_bytes: 0,
            next_file: 0,
            fingerprint_key,
        }
    }

    fn next_file(&mut self) -> u64 {
        self.next_file += 1;
        self.next_file
    }

    pub fn set_index_percent(&mut self, percent: u64) {
        self.index.set_percent(percent);
    }

    /// Bytes of the pieces that were parsed.
    pub fn parsed_bytes(&self) -> u64 {
        self.parsed_bytes
    }

    fn holds(&self, key: PageKey) -> bool {
        self.numbers.contains_key(&key)
    }

    fn get_mut(&mut self, key: PageKey) -> Option<&mut LinkedPage> {
        let number = *self.numbers.get(&key)?;
        let page = &mut self.linked[number];
        debug_assert!(page.key == key, "a page stands by its own key");
        Some(page)
    }

    /// The slot of a page.
    pub fn slot(&self, number: u32) -> Slot {
        self.linked[number].slot
    }

    /// Kind and bytes of a page.
    pub fn size(&self, number: u32) -> (EntryKind, u64) {
        let page = &self.linked[number];
        (page.kind, u64::from(page.bytes))
    }

    /// Walks all pages, of which there are `count`: by key, in the lists of files, in the share of
    /// indexes.
    pub fn check(&self, count: usize) {
        assert_eq!(self.linked.iter().count(), count, "a page has a slot");
        assert_eq!(self.numbers.len(), count, "a page stands by its key");
        let mut in_lists = 0;
        for (file, first) in &self.files {
            let (mut previous, mut next) = (NONE, *first);
            while next != NONE {
                let page = &self.linked[next];
                assert_eq!(page.key.file, *file, "a page is in the list of its file");
                assert_eq!(page.previous, previous, "neighbours know each other");
                assert_eq!(self.numbers.get(&page.key), Some(&next), "a page stands by its key");
                (previous, next) = (next, page.next);
                in_lists += 1;
            }
        }
        assert_eq!(in_lists, count, "a page is in a list");
        let indexes = || self.linked.iter().filter(|(_, page)| IndexShare::holds(page.kind));
        let bytes = indexes().map(|(_, page)| u64::from(page.bytes)).sum();
        self.index.check(indexes().count(), bytes);
    }

    /// Whether a reader holds the page.
    pub fn is_in_use(&self, number: u32) -> bool {
        self.linked[number].content.is_in_use()
    }

    /// A keyed hash of a page's identity, equal when it returns.
    fn fingerprint(&self, key: PageKey) -> u64 {
        mix(mix(self.fingerprint_key ^ key.file) ^ key.page)
    }

    /// Which page it is.
    pub fn id(&self, number: u32) -> EntryId {
        let LinkedPage { key, table, .. } = *self.linked[number];
        EntryId { fingerprint: self.fingerprint(key), table }
    }

    /// Takes a page in; its number.
    fn insert(&mut self, mut page: Box<LinkedPage>) -> u32 {
        debug_assert!(page.previous == NONE && page.next == NONE, "a page comes in unlinked");
        let (key, kind, bytes) = (page.key, page.kind, page.bytes);
        self.parsed_bytes += page.parsed_bytes();
        let first = self.files.get(&key.file).copied();
        page.next = first.unwrap_or(NONE);
        let number = self.linked.insert(page);
        self.files.insert(key.file, number);
        if let Some(first) = first {
            debug_assert_eq!(self.linked[first].previous, NONE, "the first has none before it");
            self.linked[first].previous = number;
        }
        let was = self.numbers.insert(key, number);
        assert!(was.is_none(), "a page has one number");
        if IndexShare::holds(kind) {
            let linked = &self.linked;
            let is_present =
                |number, stamp| linked.get(number).is_some_and(|there| there.stamp == stamp);
            let stamp = self.index.came(number, bytes, is_present);
            self.linked[number].stamp = stamp;
        }
        number
    }

    /// Takes a page out. Whoever gets it drops it when the cache is free: what it holds is not
    /// known here.
    pub fn remove(&mut self, number: u32) -> Box<LinkedPage> {
        let page = self.linked.remove(number);
        self.parsed_bytes -= page.parsed_bytes();
        let was = self.numbers.remove(&page.key);
        debug_assert_eq!(was, Some(number), "a page stands by its key");
        if IndexShare::holds(page.kind) {
            self.index.left(page.bytes);
        }
        match (page.previous, page.next) {
            (NONE, NONE) => {
                let first = self.files.remove(&page.key.file);
                debug_assert_eq!(first, Some(number), "the only page is the first");
            }
            (NONE, next) => {
                let first = self.files.insert(page.key.file, next);
                debug_assert_eq!(first, Some(number), "a page with none before is the first");
                self.linked[next].previous = NONE;
            }
            (previous, NONE) => self.linked[previous].next = NONE,
            (previous, next) => {
                debug_assert_eq!(self.linked[previous].next, number, "neighbours know each other");
                debug_assert_eq!(self.linked[next].previous, number, "neighbours know each other");
                self.linked[previous].next = next;
                self.linked[next].previous = previous;
            }
        }
        page
    }

    /// Of what indexes take beyond their share of the capacity, the slot and the bytes of the least
    /// recently used part; nothing after so many `steps`.
    pub fn over_share(&mut self, capacity_bytes: u64, steps: &mut usize) -> Option<(Slot, u64)> {
        while *steps > 0 && self.index.is_over(capacity_bytes) {
            *steps -= 1;
            let (number, stamp) = self.index.pop()?;
            let Some(page) = self.linked.get_mut(number) else { continue };
            if page.stamp != stamp {
                continue;
            }
            if std::mem::take(&mut page.is_used) || page.content.is_in_use() {
                self.index.put_back((number, stamp));
                continue;
            }
            debug_assert!(IndexShare::holds(page.kind), "indexes have a share");
            return Some((page.slot, u64::from(page.bytes)));
        }
        None
    }

    /// A file was closed: its pages are to go.
    fn forget_file(&mut self, file: u64) {
        debug_assert!(!self.forgotten.contains(&file), "a file is closed once");
        debug_assert!(file <= self.next_file, "file {file} has no number of ours");
        self.forgotten.push(file);
    }

    /// Whether closed files have pages here.
    pub fn has_forgotten(&self) -> bool {
        !self.forgotten.is_empty()
    }

    /// The slot of a page of the file that was closed last; that file is done with where it has
    /// none. `None` where no file is left.
    pub fn next_forgotten(&mut self) -> Option<Option<Slot>> {
        let file = self.forgotten.last()?;
        let first = self.files.get(file).map(|number| self.linked[*number].slot);
        if first.is_none() {
            self.forgotten.pop();
        }
        Some(first)
    }
}
