//! What the engine holds in memory, by what it is for: counted where it is held.
//!
//! Not here: what nobody counts, such as schemas, manifests, statistics of SSTables and slots of
//! caches; `docs/memory-and-limits.md` has a list.

use futures::FutureExt;
use futures::future::BoxFuture;

use super::database::Database;
use super::shard::Shard;
use crate::disk::buffer_bytes;
use crate::error::Result;
use crate::plugin::instance_bytes;
use crate::policy::event::EntryKind;

/// A kind of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryPool {
    /// All memtables.
    Memtables,
    ActiveMemtables,
    SealedMemtables,
    /// All that is cached.
    Cache,
    CachedRows,
    /// Pages as they are on the disk.
    DataPages,
    IndexPages,
    /// What was parsed of indexes.
    IndexEntries,
    Filters,
    Summaries,
    /// Checksums of pages and chunks, and maps of chunks.
    Checksums,
    /// Records that gather, or wait to be written.
    Commitlog,
    /// Batches that reads have sent, or are about to.
    Batches,
    /// Counters of the rate limiter.
    RateLimits,
    /// Memory of requests to the disk, and what threads keep of it; of cached pages it is not told
    /// here.
    IoBuffers,
    /// Instances of components.
    Policies,
}

impl MemoryPool {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            MemoryPool::Memtables => "memtables",
            MemoryPool::ActiveMemtables => "active memtables",
            MemoryPool::SealedMemtables => "sealed memtables",
            MemoryPool::Cache => "cache",
            MemoryPool::CachedRows => "row cache",
            MemoryPool::DataPages => "data pages",
            MemoryPool::IndexPages => "index pages",
            MemoryPool::IndexEntries => "index entries",
            MemoryPool::Filters => "filters",
            MemoryPool::Summaries => "summaries",
            MemoryPool::Checksums => "checksums",
            MemoryPool::Commitlog => "commitlog buffers",
            MemoryPool::Batches => "batches of reads",
            MemoryPool::RateLimits => "rate limits",
            MemoryPool::IoBuffers => "I/O buffers",
            MemoryPool::Policies => "policies",
        }
    }

    /// The pool that it is a part of.
    pub fn whole(self) -> Option<MemoryPool> {
        match self {
            MemoryPool::ActiveMemtables | MemoryPool::SealedMemtables => {
                Some(MemoryPool::Memtables)
            }
            MemoryPool::CachedRows
            | MemoryPool::DataPages
            | MemoryPool::IndexPages
            | MemoryPool::IndexEntries => Some(MemoryPool::Cache),
            _ => None,
        }
    }
}

/// What one kind of memory takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryReport {
    /// None for what is of all shards.
    pub shard: Option<u32>,
    pub pool: MemoryPool,
    pub bytes: u64,
    /// What it may take at most, if it has a limit of its own.
    pub limit_bytes: Option<u64>,
}

impl Database {
    /// What is held in memory: by shard what is of one, then what is of all, each in the order of
    /// the pools. Parts follow their whole.
    ///
    /// Errors: `Closed`.
    pub fn memory_report(&self) -> BoxFuture<'_, Result<Vec<MemoryReport>>> {
        async move {
            let question = |shard: &Shard| (shard.report_memory(), shard.read_memory().status());
            let (of_shards, batches): (Vec<_>, Vec<_>) =
                self.of_shards("memory", question).await?.into_iter().unzip();
            let mut reports: Vec<MemoryReport> = of_shards.into_iter().flatten().collect();
            let pages = |report: &&MemoryReport| {
                matches!(report.pool, MemoryPool::DataPages | MemoryPool::IndexPages)
            };
            let pages: u64 = reports.iter().filter(pages).map(|report| report.bytes).sum();
            let all =
                |pool, bytes, limit_bytes| MemoryReport { shard: None, pool, bytes, limit_bytes };
            let instances = instance_bytes() as u64;
            // That is one for all shards: each tells the same.
            let batches = batches.first().map(|batches| (batches.used, batches.bytes_max));
            let (used, most) = batches.unwrap_or_default();
            reports.extend([
                all(MemoryPool::Batches, used, Some(most)),
                all(MemoryPool::IoBuffers, (buffer_bytes() as u64).saturating_sub(pages), None),
                all(MemoryPool::Policies, instances, None),
            ]);
            Ok(reports)
        }
        .boxed()
    }
}

impl Shard {
    fn report_memory(&self) -> Vec<MemoryReport> {
        let (mut active, mut sealed, mut held) = (0, 0, crate::sstable::HeldMemory::default());
        for table in self.tables() {
            let (own_active, own_sealed) = table.memtables_bytes();
            active += own_active as u64;
            sealed += own_sealed as u64;
            held += table.held_memory();
        }
        let stats = self.cache.stats();
        let of = |kinds: &[EntryKind]| {
            let found = stats.kinds.iter().filter(|(kind, _)| kinds.contains(kind));
            found.map(|(_, counts)| counts.bytes).sum::<u64>()
        };
        let rows = of(&[EntryKind::Row, EntryKind::Dummy, EntryKind::PartitionHeader]);
        let data = of(&[EntryKind::DataPage]);
        let entries = self.cache.parsed_bytes();
        let indexes = stats.bytes.saturating_sub(rows + data + entries);
        let memtables_max = self.memtable_bytes_max() as u64;
        let log = self.commitlog().map_or(0, |log| log.buffer_bytes() as u64);
        let limits = self.limiter.borrow().memory_bytes() as u64;
        let pools = [
            (MemoryPool::Memtables, active + sealed, Some(memtables_max)),
            (MemoryPool::ActiveMemtables, active, None),
            (MemoryPool::SealedMemtables, sealed, None),
            (MemoryPool::Cache, stats.bytes, Some(stats.capacity_bytes)),
            (MemoryPool::CachedRows, rows, None),
            (MemoryPool::DataPages, data, None),
            (MemoryPool::IndexPages, indexes, None),
            (MemoryPool::IndexEntries, entries, None),
            (MemoryPool::Filters, held.filters, None),
            (MemoryPool::Summaries, held.summaries, None),
            (MemoryPool::Checksums, held.checksums, None),
            (MemoryPool::Commitlog, log, None),
            (MemoryPool::RateLimits, limits, None),
        ];
        let shard = Some(self.context.shard);
        let report = |(pool, bytes, limit_bytes)| MemoryReport { shard, pool, bytes, limit_bytes };
        pools.into_iter().map(report).collect()
    }
}
