//! Every maximum and default of the engine, units in the name.
//!
//! Invariant: relations between maxima are asserted at compile time at the end of this file.

/// Size of a disk page: alignment of direct I/O, unit of the page cache.
pub const PAGE_BYTES: usize = 4096;
/// Sector size at which a torn write may stop.
pub const SECTOR_BYTES: usize = 512;

/// How long a task may run before it must offer to yield.
pub const TASK_QUOTA_US: u64 = 500;
/// Requests that may wait in a shard's mailbox before senders wait.
pub const MAILBOX_REQUESTS_MAX: usize = 1024;

/// Most bytes in one serialised partition key (u16 in the SSTable format).
pub const PARTITION_KEY_BYTES_MAX: usize = 65_535;
/// Most bytes in one value of a clustering key (u16 in the statistics of the SSTable format).
pub const CLUSTERING_VALUE_BYTES_MAX: usize = 65_535;
/// Most bytes in one cell value.
pub const CELL_BYTES_MAX: usize = 16 << 20;
/// Longest time to live, seconds (20 years; ScyllaDB refuses more when reading).
pub const TTL_SECONDS_MAX: i32 = 630_720_000;
/// Latest local deletion time that the `me` format holds.
pub const LOCAL_DELETION_TIME_MAX: i32 = i32::MAX - 1;

/// Commitlog segment size on disk.
pub const COMMITLOG_SEGMENT_BYTES: usize = 32 << 20;
/// Largest mutation the commitlog takes: half a segment.
pub const MUTATION_BYTES_MAX: usize = COMMITLOG_SEGMENT_BYTES / 2;

/// Default bytes of memtables per shard before the largest is flushed.
pub const MEMTABLE_BYTES_DEFAULT: usize = 64 << 20;
/// Default bytes of the page cache per shard.
pub const CACHE_BYTES_DEFAULT: usize = 64 << 20;
/// Percent of the cache that indexes keep when all else wants room too.
pub const INDEX_PERCENT_DEFAULT: u64 = 20;
/// Default block size of the promoted index (`column_index_size_in_kb`).
pub const COLUMN_INDEX_BYTES_DEFAULT: u32 = 64 << 10;

/// Rows of the first batch of a read; later batches double up to the maximum.
pub const BATCH_ROWS_FIRST: usize = 64;
/// Most rows in one Arrow batch.
pub const BATCH_ROWS_MAX: usize = 8192;
/// Fragments that a source hands over at once.
pub const FRAGMENTS_PER_FILL_MAX: usize = 256;

/// Events that the policy ring holds before it must be delivered.
pub const POLICY_RING_EVENTS_MAX: usize = 256;
/// Largest policy component accepted, bytes.
pub const POLICY_COMPONENT_BYTES_MAX: usize = 1 << 20;
/// Linear memory one policy instance may grow to.
pub const POLICY_MEMORY_BYTES_MAX: usize = 64 << 20;

/// Requests of a recorded cache that may wait to be written; more are counted as lost.
pub const TRACE_RING_REQUESTS_MAX: usize = 64 << 10;
/// Requests that a trace may have: a replay holds 16 bytes of each.
pub const TRACE_REQUESTS_MAX: usize = 50_000_000;
/// Largest file of a trace, unpacked.
pub const TRACE_FILE_BYTES_MAX: u64 = 2 << 30;

const _: () = assert!(PAGE_BYTES.is_multiple_of(SECTOR_BYTES));
const _: () = assert!(COMMITLOG_SEGMENT_BYTES.is_multiple_of(PAGE_BYTES));
const _: () = assert!(MUTATION_BYTES_MAX < COMMITLOG_SEGMENT_BYTES);
const _: () = assert!(BATCH_ROWS_FIRST <= BATCH_ROWS_MAX);
