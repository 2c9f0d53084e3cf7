//! Counters of a read, by name.

use std::mem;
use std::ops::{AddAssign, Index};
use std::sync::atomic::{AtomicU64, Ordering};

/// What is counted of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// Partitions that the read came to.
    Partitions,
    /// Rows that left the shard.
    Rows,
    /// Rows that were there and that no reader sees: deleted or expired ones.
    RowsDropped,
    /// Deletions that were met: of partitions, of ranges, of rows.
    Tombstones,
    /// Rows of memtables, of the row cache, and of SSTables, before they are merged.
    MemtableRows,
    CacheRows,
    SstableRows,
    /// Partitions of which the row cache knew something, and of which it knew nothing.
    CacheHits,
    CacheMisses,
    /// Stretches of known partitions that were read from SSTables.
    GapsFilled,
    /// Reads of single SSTables, and SSTables left out by their filter or their range of keys.
    SstableReads,
    SstablesPassed,
    /// Pages of files that were in memory, were read, or were on their way for another read.
    PagesCached,
    PagesRead,
    PagesJoined,
    /// Pieces of indexes that were in memory, parsed, and blocks of promoted indexes that were
    /// looked at.
    IndexPiecesCached,
    IndexBlocks,
    DiskReads,
    DiskBytes,
    /// Time in which the read waited for its turn on the shard, or for memory.
    TimeAdmission,
    /// Time of its requests in the queue of the I/O scheduler, and in the disk; of requests side by
    /// side the sum.
    TimeQueued,
    TimeDisk,
    /// Time that policies took, native ones included.
    TimePolicies,
}

impl Count {
    pub const ALL: [Count; 23] = [
        Count::Partitions,
        Count::Rows,
        Count::RowsDropped,
        Count::Tombstones,
        Count::MemtableRows,
        Count::CacheRows,
        Count::SstableRows,
        Count::CacheHits,
        Count::CacheMisses,
        Count::GapsFilled,
        Count::SstableReads,
        Count::SstablesPassed,
        Count::PagesCached,
        Count::PagesRead,
        Count::PagesJoined,
        Count::IndexPiecesCached,
        Count::IndexBlocks,
        Count::DiskReads,
        Count::DiskBytes,
        Count::TimeAdmission,
        Count::TimeQueued,
        Count::TimeDisk,
        Count::TimePolicies,
    ];

    /// Its name where counters are shown.
    pub fn name(self) -> &'static str {
        match self {
            Count::Partitions => "partitions",
            Count::Rows => "rows_read",
            Count::RowsDropped => "rows_dropped",
            Count::Tombstones => "tombstones",
            Count::MemtableRows => "memtable_rows",
            Count::CacheRows => "cache_rows",
            Count::SstableRows => "sstable_rows",
            Count::CacheHits => "cache_hits",
            Count::CacheMisses => "cache_misses",
            Count::GapsFilled => "gaps_filled",
            Count::SstableReads => "sstable_reads",
            Count::SstablesPassed => "sstables_passed",
            Count::PagesCached => "pages_cached",
            Count::PagesRead => "pages_read",
            Count::PagesJoined => "pages_joined",
            Count::IndexPiecesCached => "index_pieces_cached",
            Count::IndexBlocks => "index_blocks",
            Count::DiskReads => "disk_reads",
            Count::DiskBytes => "disk_bytes",
            Count::TimeAdmission => "time_admission",
            Count::TimeQueued => "time_queued",
            Count::TimeDisk => "time_disk",
            Count::TimePolicies => "time_policies",
        }
    }

    /// Whether it is a time, in nanoseconds.
    pub fn is_time(self) -> bool {
        let times = [Count::TimeAdmission, Count::TimeQueued, Count::TimeDisk, Count::TimePolicies];
        times.contains(&self)
    }
}

/// The counters of a read, as of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadStats([u64; Count::ALL.len()]);

impl ReadStats {
    /// Those that are not zero, in the order of [`Count::ALL`].
    pub fn nonzero(&self) -> impl Iterator<Item = (Count, u64)> {
        let all = Count::ALL.into_iter().map(|what| (what, self[what]));
        all.filter(|(_, value)| *value > 0)
    }
}

impl Index<Count> for ReadStats {
    type Output = u64;

    fn index(&self, what: Count) -> &u64 {
        &self.0[what as usize]
    }
}

impl AddAssign for ReadStats {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, value)| *sum += value);
    }
}

/// The counters of a read that is under way. One thread adds to them, others look at them.
#[derive(Debug, Default)]
pub(super) struct Counters([AtomicU64; Count::ALL.len()]);

impl Counters {
    pub fn add(&self, what: Count, by: u64) {
        let counter = &self.0[what as usize];
        counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
    }

    /// Begins again at zero.
    pub fn take_to(&mut self, stats: &mut ReadStats) {
        for (taken, counter) in stats.0.iter_mut().zip(&mut self.0) {
            *taken = mem::take(counter.get_mut());
        }
    }

    pub fn stats(&self) -> ReadStats {
        ReadStats(std::array::from_fn(|at| self.0[at].load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_names_and_places() {
        for (at, what) in Count::ALL.into_iter().enumerate() {
            assert_eq!(what as usize, at, "{}", what.name());
            let namesakes = Count::ALL.iter().filter(|other| other.name() == what.name());
            assert_eq!(namesakes.count(), 1, "{}", what.name());
            assert_eq!(what.is_time(), what.name().starts_with("time_"));
        }
    }

    #[test]
    fn sums_are_those_of_each_counter() {
        let counters = Counters::default();
        counters.add(Count::Rows, 3);
        counters.add(Count::TimeDisk, 5);
        counters.add(Count::Rows, 4);
        let mut sum = counters.stats();
        sum += counters.stats();
        let found: Vec<_> = sum.nonzero().collect();
        assert_eq!(found, [(Count::Rows, 14), (Count::TimeDisk, 10)]);
    }

    /// As it is called, in small letters; only of rows it is said which.
    #[test]
    fn each_count_is_shown_by_its_own_name() {
        for what in Count::ALL {
            let mut words = String::new();
            for character in format!("{what:?}").chars() {
                if character.is_uppercase() && !words.is_empty() {
                    words.push('_');
                }
                words.extend(character.to_lowercase());
            }
            let wanted = if what == Count::Rows { "rows_read" } else { words.as_str() };
            assert_eq!(what.name(), wanted);
        }
    }
}
