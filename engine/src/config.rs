//! Every maximum and default of the engine, units in the name.
//!
//! Invariant: relations between maxima are asserted at compile time at the end of this file.

use std::time::Duration;

/// Size of a disk page: alignment of direct I/O, unit of the page cache.
pub const PAGE_BYTES: usize = 4096;
/// Sector size at which a torn write may stop.
pub const SECTOR_BYTES: usize = 512;

/// Compactions that have ended and that a shard remembers.
pub const COMPACTION_HISTORY_MAX: usize = 200;

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
/// Largest batch of writes to several partitions that is all or nothing: its file is one write.
pub const LOGGED_BYTES_MAX: usize = 2 * MUTATION_BYTES_MAX;

/// Default bytes of commitlog segments a shard keeps: near them tables are flushed for the log's
/// sake, then writers are slowed down, then they wait.
pub const COMMITLOG_BYTES_DEFAULT: usize = 512 << 20;
/// Segments that fit into the least limit of a commitlog.
pub const COMMITLOG_SEGMENTS_MIN: usize = 8;
/// Longest time that one write is held up because the commitlog nears its limit.
pub const COMMITLOG_DELAY_MAX: Duration = Duration::from_millis(20);

/// How long a thread is to have a core where others wait for it, a fifth of the task quota.
pub const TIME_SLICE: Duration = Duration::from_micros(TASK_QUOTA_US / 5);

/// Default bytes of memtables per shard before the largest is flushed.
pub const MEMTABLE_BYTES_DEFAULT: usize = 64 << 20;
/// Default bytes of the page cache per shard.
pub const CACHE_BYTES_DEFAULT: usize = 64 << 20;
/// Percent of the cache that indexes keep when all else wants room too.
pub const INDEX_PERCENT_DEFAULT: u64 = 20;
/// Default block size of the promoted index (`column_index_size_in_kb`).
pub const COLUMN_INDEX_BYTES_DEFAULT: u32 = 64 << 10;

/// Bytes of data in a compressed chunk, and the bounds of what may be asked for.
pub const COMPRESSION_CHUNK_BYTES_DEFAULT: u32 = 16 << 10;
pub const COMPRESSION_CHUNK_BYTES_MIN: u32 = 1 << 10;
pub const COMPRESSION_CHUNK_BYTES_MAX: u32 = 1 << 20;

/// Sizes above which an SSTable's writer records and warns of large data, as in ScyllaDB.
pub const LARGE_PARTITION_BYTES_DEFAULT: u64 = 1000 << 20;
pub const LARGE_ROW_BYTES_DEFAULT: u64 = 10 << 20;
pub const LARGE_CELL_BYTES_DEFAULT: u64 = 1 << 20;
pub const LARGE_PARTITION_ROWS_DEFAULT: u64 = 100_000;
pub const LARGE_COLLECTION_ELEMENTS_DEFAULT: u64 = 10_000;
/// Records of large data of one kind in one SSTable: the largest.
pub const LARGE_DATA_RECORDS_MAX: usize = 10;
/// Places of damage that one table of one shard remembers; more are only counted.
pub const DAMAGE_PLACES_MAX: usize = 256;

/// Most files for reading that a shard has open while nobody reads them.
pub const OPEN_FILES_MAX: usize = 32 << 10;
/// The share of the process' descriptors that all shards' idle files may have: one in so many.
pub const OPEN_FILES_ONE_IN: u64 = 2;
/// How long an operation waits for a descriptor before it fails.
pub const DESCRIPTOR_WAIT: Duration = Duration::from_secs(10);

/// What an idle disk is given at once takes it so long: the latency that a request may add to one
/// that comes after it.
pub const IO_GOAL: Duration = Duration::from_micros(750);
/// Longest request that is handed to a disk in one piece, bytes.
pub const IO_PIECE_BYTES_MAX: usize = 16 << 20;
/// Requests of a shard that the disk has at once; more wait in the shard's queue.
pub const IO_IN_DISK_MAX: usize = 128;
/// Time of the whole disk that a class of I/O has for itself when it comes back.
pub const IO_NEWCOMER: Duration = Duration::from_millis(5);
/// Time without a query at the disk, of any shard, after which work in the background reads ahead.
pub const IO_QUERIES_REST: Duration = Duration::from_millis(20);
/// Most shares of a class of I/O.
pub const IO_SHARES_MAX: u32 = 1000;
/// Most shares of a service level, and those of one that says nothing.
pub const LEVEL_SHARES_MAX: u32 = 1000;
pub const LEVEL_SHARES_DEFAULT: u32 = 1000;
/// Bytes of a class of reads that a service level has for itself at least, where there are so many.
pub const LANE_BYTES_MIN: u64 = 1 << 20;
/// How long a read of an interactive service level waits for its turn.
pub const INTERACTIVE_WAIT: Duration = Duration::from_millis(50);
/// Most service levels beside the one of what names none.
pub const LEVELS_MAX: usize = 8;

/// Most roles of a database.
pub const ROLES_MAX: usize = 4096;
/// Most tokens of a role.
pub const TOKENS_MAX: usize = 64;
/// Most views of which each reads the next: as deep is a query that reads the first one.
pub const VIEW_DEPTH_MAX: usize = 16;
/// Most bytes of the name of a role.
pub const ROLE_NAME_BYTES_MAX: usize = 128;

/// Rows of the first batch of a read; later batches double up to the maximum. A read of a page of
/// rows has them in one batch, which is its answer.
pub const BATCH_ROWS_FIRST: usize = 128;
/// Most rows in one Arrow batch.
pub const BATCH_ROWS_MAX: usize = 8192;
/// Bytes at which an Arrow batch ends, the last row's beyond them; a batch has fewer where memory
/// is short, down to the least.
pub const BATCH_BYTES_MAX: usize = 8 << 20;
pub const BATCH_BYTES_MIN: usize = 64 << 10;
/// Bytes of a batch that are charged with the read itself.
pub const BATCH_BYTES_UNCHARGED: usize = 16 << 10;
/// Tombstones that a read meets for a page of rows from which on the log is warned, and at most.
pub const TOMBSTONES_WARN: u64 = 1_000;
pub const TOMBSTONES_MAX: u64 = 100_000;
/// Fragments that a source hands over at once.
pub const FRAGMENTS_PER_FILL_MAX: usize = 256;
/// Bytes of rows that an SSTable's reader makes at once, the last row's beyond them.
pub const FILL_BYTES_MAX: usize = 1 << 20;
/// Largest row that the row cache keeps of what is read.
pub const CACHED_ROW_BYTES_MAX: usize = 1 << 20;
/// Bytes of cached rows that are read in one turn, the last row's beyond it.
pub const PASS_BYTES_MAX: usize = 256 << 10;

/// Default bytes of the batches of all reads of all shards.
pub const BATCHES_BYTES_DEFAULT: u64 = 256 << 20;
/// How long a read waits for its part of them.
pub const READ_MEMORY_WAIT: Duration = Duration::from_secs(30);
/// Memory of a shard for the reads in progress: what they hold besides caches.
pub const READ_MEMORY_BYTES_MAX: u64 = 128 << 20;
/// From when on the wait of a read for its turn is long, and how many such waits a shard keeps.
pub const READ_WAIT_LONG: Duration = Duration::from_millis(500);
pub const LONG_WAITS_MAX: usize = 64;
/// Most reads of a class that wait for their turn, whatever a policy says.
pub const READ_QUEUE_MAX: u32 = 100_000;
/// Reads of a level in a class that compute at once, before one is done, waits, or turns out to be
/// long. More would not be done sooner: they share one processor.
pub const COMPUTING_READS_MAX: u32 = 4;
/// A read that has computed for longer is no short one: others begin beside it.
pub const SHORT_READ_NS: u64 = 1_000_000;
/// Time between two plans of what a shard lets in, and of how classes of I/O share the disk.
pub const READ_PLAN_MS: u64 = 100;
pub const IO_PLAN_MS: u64 = 100;

/// Reads of a watched statement that have counters of their own.
pub const WATCHED_READS_MAX: usize = 64;
/// Steps of a statement that are kept, and bytes of their texts; bytes of one text.
pub const STEPS_MAX: usize = 1000;
pub const STEPS_BYTES_MAX: usize = 128 << 10;
pub const STEP_BYTES_MAX: usize = 400;

/// Events that the policy ring holds before it must be delivered.
pub const POLICY_RING_EVENTS_MAX: usize = 256;
/// Largest policy component accepted, bytes.
pub const POLICY_COMPONENT_BYTES_MAX: usize = 1 << 20;
/// Linear memory one policy instance may grow to.
pub const POLICY_MEMORY_BYTES_MAX: usize = 64 << 20;
/// Largest snapshot of a policy's state.
pub const POLICY_STATE_BYTES_MAX: usize = 1 << 20;
/// How long the policy before a switch is kept up to date, so that a rollback is one exchange.
pub const POLICY_STANDBY_MS: u64 = 60_000;

/// Requests of a recorded cache that may wait to be written; more are counted as lost.
pub const TRACE_RING_REQUESTS_MAX: usize = 64 << 10;
/// Requests that a trace may have: a replay holds 16 bytes of each.
pub const TRACE_REQUESTS_MAX: usize = 50_000_000;
/// Largest file of a trace, unpacked.
pub const TRACE_FILE_BYTES_MAX: u64 = 2 << 30;

/// A shadow policy sees one key in so many, unless the statement says otherwise.
pub const SHADOW_SAMPLE_DEFAULT: u32 = 64;
/// Least entries of a shadow policy's ghost directory: smaller caches are sampled less, because
/// with 128 the chance of the pick moves an estimate by a point and more.
pub const SHADOW_ENTRIES_MIN: u32 = 512;
/// Most ghosts of the policy that a canary is compared with.
pub const CANARY_GHOSTS_MAX: u32 = 1 << 16;
/// One shard in so many is the canary, at least one.
pub const CANARY_SHARDS_ONE_IN: u32 = 8;

/// Pause before a policy that failed is tried again; it doubles with each failure up to the
/// maximum.
pub const POLICY_RETRY_MS_FIRST: u64 = 1_000;
pub const POLICY_RETRY_MS_MAX: u64 = 300_000;
/// So many failures within the window, and the policy is not tried again.
pub const POLICY_FAILURES_MAX: usize = 3;
pub const POLICY_FAILURE_WINDOW_MS: u64 = 600_000;

/// Whether caches, memtables and merges are checked whole after each change: with the feature
/// `strict`, and in this crate's tests where `TIDEGATE_STRICT` is set.
#[cfg(not(test))]
#[inline]
pub(crate) const fn is_strict() -> bool {
    cfg!(feature = "strict")
}

/// The same for the tests of this crate, so that one build runs both ways.
#[cfg(test)]
pub(crate) fn is_strict() -> bool {
    static IS_SET: std::sync::LazyLock<bool> =
        std::sync::LazyLock::new(|| std::env::var_os("TIDEGATE_STRICT").is_some());
    cfg!(feature = "strict") || *IS_SET
}

const _: () = assert!(POLICY_RETRY_MS_FIRST <= POLICY_RETRY_MS_MAX);
const _: () = assert!(POLICY_STATE_BYTES_MAX <= POLICY_MEMORY_BYTES_MAX);
const _: () = assert!(PAGE_BYTES.is_multiple_of(SECTOR_BYTES));
const _: () = assert!(COMMITLOG_SEGMENT_BYTES.is_multiple_of(PAGE_BYTES));
const _: () = assert!(MUTATION_BYTES_MAX < COMMITLOG_SEGMENT_BYTES);
const _: () = assert!(COMMITLOG_BYTES_DEFAULT >= COMMITLOG_SEGMENTS_MIN * COMMITLOG_SEGMENT_BYTES);
const _: () = assert!(COMPRESSION_CHUNK_BYTES_DEFAULT.is_power_of_two());
const _: () = assert!(COMPRESSION_CHUNK_BYTES_DEFAULT <= COMPRESSION_CHUNK_BYTES_MAX);
const _: () = assert!(BATCH_ROWS_FIRST <= BATCH_ROWS_MAX);
const _: () = assert!(BATCH_BYTES_UNCHARGED <= BATCH_BYTES_MIN);
const _: () = assert!(BATCH_BYTES_MIN <= BATCH_BYTES_MAX);
