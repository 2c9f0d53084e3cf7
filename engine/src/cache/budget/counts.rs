//! What the cache counts, by kind of entry. Not here: the counting (`mod.rs`).

use crate::policy::event::EntryKind;

/// Counts of one kind of page since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageCounts {
    /// Lookups that found the page.
    pub hits: u64,
    /// Pages whose reading from disk was begun for the cache.
    pub misses: u64,
    /// Lookups that waited for a read already under way.
    pub joined: u64,
    pub evictions: u64,
    /// Pages read but not kept: all others were in use, or the rows that were wanted of them are
    /// kept instead, and then the cache was not asked.
    pub passed: u64,
    /// Pages read but not kept, because the admission policy said so.
    pub refused: u64,
    /// Resident now.
    pub pages: u64,
    pub bytes: u64,
}

impl std::ops::AddAssign for PageCounts {
    fn add_assign(&mut self, other: Self) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.joined += other.joined;
        self.evictions += other.evictions;
        self.passed += other.passed;
        self.refused += other.refused;
        self.pages += other.pages;
        self.bytes += other.bytes;
    }
}

/// What the cache holds and did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageCacheStats {
    pub total: PageCounts,
    /// Bytes of resident pages.
    pub bytes: u64,
    pub capacity_bytes: u64,
    /// The kinds that occurred, in the order of their numbers.
    pub kinds: Vec<(EntryKind, PageCounts)>,
}
