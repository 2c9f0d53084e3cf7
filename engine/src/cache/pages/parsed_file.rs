//! Parsed pieces of a file, kept in the cache by their place in the file or another number.
//!
//! Invariant: entries count against the cache's budget with their bytes in memory, and leave with
//! the file. Not here: reading, parsing and eviction (`budget`).

use std::any::Any;
use std::marker::PhantomData;
use std::rc::Rc;

use super::PageKey;
use crate::cache::PageCache;
use crate::policy::event::EntryKind;
use crate::probe::{self, Count};

/// Parsed pieces of one file.
pub struct ParsedFile<T> {
    cache: Rc<PageCache>,
    id: u64,
    kind: EntryKind,
    table: u32,
    what: PhantomData<T>,
}

impl<T: Any> ParsedFile<T> {
    /// No pieces yet; policies see them as `kind` of table number `table`.
    pub fn new(cache: Rc<PageCache>, kind: EntryKind, table: u32) -> Self {
        let id = cache.next_file();
        ParsedFile { cache, id, kind, table, what: PhantomData }
    }

    fn key(&self, at: u64) -> PageKey {
        PageKey { file: self.id, page: at }
    }

    /// The cache that the pieces count against.
    pub fn cache(&self) -> &Rc<PageCache> {
        &self.cache
    }

    /// The piece at `at` if it is in memory; a hit then.
    pub fn get(&self, at: u64) -> Option<Rc<T>> {
        let piece = self.cache.lookup_parsed(self.key(at))?;
        probe::count(Count::IndexPiecesCached, 1);
        Some(piece.downcast().unwrap_or_else(|_| unreachable!("a file holds pieces of one type")))
    }

    /// Keeps the piece at `at`, which takes `bytes` of memory, if there is room and the admission
    /// policy lets it in; a miss. One that is there already stays. Whether one is there now.
    pub fn insert(&self, at: u64, piece: Rc<T>, bytes: usize) -> bool {
        let least = size_of::<T>();
        debug_assert!(bytes >= least, "a piece of {bytes} bytes, of a type that takes {least}");
        self.cache.insert_parsed(self.key(at), self.kind, self.table, piece, bytes)
    }
}

impl<T> Drop for ParsedFile<T> {
    fn drop(&mut self) {
        self.cache.forget_file(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::PageCounts;

    const PIECE_BYTES: usize = 4096;

    fn counts(cache: &PageCache, wanted: EntryKind) -> PageCounts {
        let kinds = cache.stats().kinds;
        kinds.iter().find(|(kind, _)| *kind == wanted).map_or(PageCounts::default(), |(_, c)| *c)
    }

    #[test]
    fn a_piece_is_there_until_its_file_is_closed() {
        let cache = PageCache::new(10 * PIECE_BYTES, 1);
        let file = ParsedFile::new(cache.clone(), EntryKind::PartitionIndexPage, 0);
        assert!(file.get(8192).is_none());
        file.insert(8192, Rc::new("first"), PIECE_BYTES);
        file.insert(8192, Rc::new("second"), PIECE_BYTES);
        assert_eq!(file.get(8192).as_deref(), Some(&"first"));
        let found = counts(&cache, EntryKind::PartitionIndexPage);
        assert_eq!((found.hits, found.misses, found.pages), (1, 1, 1));
        assert_eq!(cache.parsed_bytes(), PIECE_BYTES as u64);
        drop(file);
        assert_eq!((cache.stats().bytes, cache.parsed_bytes()), (0, 0));
    }

    #[test]
    fn indexes_fill_what_is_free_and_leave_down_to_their_share() {
        let cache = PageCache::new(100 * PIECE_BYTES, 1);
        let index = ParsedFile::new(cache.clone(), EntryKind::PartitionIndexPage, 0);
        for at in 0..60_u64 {
            index.insert(at, Rc::new(at), PIECE_BYTES);
        }
        assert_eq!(counts(&cache, EntryKind::PartitionIndexPage).pages, 60);
        let used = [3, 17, 40];
        let data = ParsedFile::new(cache.clone(), EntryKind::DataPage, 0);
        for at in 0..80_u64 {
            used.iter().for_each(|at| assert_eq!(index.get(*at).as_deref(), Some(at)));
            data.insert(at, Rc::new(()), PIECE_BYTES);
        }
        let (index_now, data_now) =
            (counts(&cache, EntryKind::PartitionIndexPage), counts(&cache, EntryKind::DataPage));
        assert_eq!((index_now.pages, data_now.pages), (20, 80));
        assert_eq!((index_now.evictions, data_now.evictions), (40, 0));
        // Within their share they are like all else: the policy decides.
        for at in 80..400_u64 {
            data.insert(at, Rc::new(()), PIECE_BYTES);
        }
        assert_eq!(cache.stats().total.pages, 100);
        assert!(counts(&cache, EntryKind::DataPage).evictions > 0);
    }

    #[test]
    fn a_part_of_an_index_that_was_used_once_leaves_the_second_time() {
        let cache = PageCache::new(100 * PIECE_BYTES, 1);
        let index = ParsedFile::new(cache.clone(), EntryKind::PartitionIndexPage, 0);
        let data = ParsedFile::new(cache.clone(), EntryKind::DataPage, 0);
        // Data that nobody used since would leave first, were it not for the share.
        for at in 0..40_u64 {
            data.insert(at, Rc::new(()), PIECE_BYTES);
        }
        for at in 0..60_u64 {
            index.insert(at, Rc::new(at), PIECE_BYTES);
        }
        (0..60_u64).for_each(|at| assert_eq!(index.get(at).as_deref(), Some(&at)));
        for at in 40..80_u64 {
            data.insert(at, Rc::new(()), PIECE_BYTES);
        }
        let (index_now, data_now) =
            (counts(&cache, EntryKind::PartitionIndexPage), counts(&cache, EntryKind::DataPage));
        assert_eq!((index_now.pages, data_now.pages), (20, 80));
        assert_eq!((index_now.evictions, data_now.evictions), (40, 0));
    }

    #[test]
    fn the_share_can_be_changed() {
        let cache = PageCache::new(100 * PIECE_BYTES, 1);
        cache.set_index_percent(50);
        let index = ParsedFile::new(cache.clone(), EntryKind::PartitionIndexPage, 0);
        let data = ParsedFile::new(cache.clone(), EntryKind::DataPage, 0);
        for at in 0..100_u64 {
            index.insert(at, Rc::new(at), PIECE_BYTES);
        }
        for at in 0..50_u64 {
            data.insert(at, Rc::new(()), PIECE_BYTES);
        }
        assert_eq!(counts(&cache, EntryKind::PartitionIndexPage).pages, 50);
    }

    #[test]
    fn what_indexes_take_beyond_a_smaller_share_leaves_before_older_data() {
        let cache = PageCache::new(100 * PIECE_BYTES, 1);
        let index = ParsedFile::new(cache.clone(), EntryKind::PartitionIndexPage, 0);
        let data = ParsedFile::new(cache.clone(), EntryKind::DataPage, 0);
        for at in 0..85_u64 {
            data.insert(at, Rc::new(()), PIECE_BYTES);
        }
        for at in 0..15_u64 {
            index.insert(at, Rc::new(at), PIECE_BYTES);
        }
        cache.set_index_percent(10);
        for at in 85..90_u64 {
            data.insert(at, Rc::new(()), PIECE_BYTES);
        }
        let (index_now, data_now) =
            (counts(&cache, EntryKind::PartitionIndexPage), counts(&cache, EntryKind::DataPage));
        assert_eq!((index_now.pages, data_now.pages), (10, 90));
        assert_eq!((index_now.evictions, data_now.evictions), (5, 0));
        // The least recently used parts were those that left.
        assert!((0..5_u64).all(|at| index.get(at).is_none()));
        assert!((5..15_u64).all(|at| index.get(at).as_deref() == Some(&at)));
    }
}
