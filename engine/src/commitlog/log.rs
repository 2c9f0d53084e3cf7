//! The running log of one shard: places records, remembers which are not in SSTables yet.
//!
//! Invariant: the order of `append` calls is the order of positions, of acknowledgement and of
//! replay. Once a write or sync has failed the log takes nothing more. Not here: writing
//! (`flush.rs`), new segments (`prepare.rs`).

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::ReplayPosition;
use super::block::{BLOCK_BYTES, PAYLOAD_BYTES};
use super::chunk::{Chunk, FRAME_BYTES, Flight};
use super::receipt::{Receipt, Wait};
use super::segment::{self, Header, RECORDS_START, Segment};
use crate::clock::Clock;
use crate::config::MUTATION_BYTES_MAX;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::ledger::Ledger;
use crate::mutation::{Mutation, codec};
use crate::runtime;
use crate::schema::TableId;

/// A chunk that has grown to this is closed, so that no write gets much larger than it needs to.
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Most memory of a payload that is kept for the next one: that of a full chunk, as it grows.
const PAYLOAD_BYTES_KEPT: usize = 2 * CHUNK_BYTES_MAX;
/// Outside mode `Sync`: bytes that gather before they are written.
pub(super) const BUFFER_BYTES: usize = 128 << 10;
/// Outside mode `Sync`: bytes waiting to be written from which on writers wait too.
const BACKLOG_BYTES_MAX: usize = 8 << 20;

/// When an append counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// When it is on stable storage. Writers that come together share a flush.
    Sync,
    /// When it is in memory; [`Commitlog::tick`] makes it durable every `ms` milliseconds.
    Periodic { ms: u64 },
    /// When it is in memory; [`Commitlog::tick`] hands it to the kernel. Durable only by
    /// [`Commitlog::sync`] or when its segment is full.
    None,
}

/// Where and how a log is kept.
#[derive(Debug, Clone)]
pub struct CommitlogOptions {
    /// The shard's own directory; created if missing.
    pub directory: PathBuf,
    pub shard: u32,
    pub shard_count: u32,
    pub durability: Durability,
    /// Size of a segment file: a multiple of the page size, at least four pages.
    pub segment_bytes: usize,
    /// Segments get ids from here on, or greater ones: above all that SSTables remember.
    pub first_segment_min: u64,
    /// Where the segments are recorded, if anywhere.
    pub ledger: Option<Rc<Ledger>>,
}

impl CommitlogOptions {
    /// Largest mutation taken: half a segment, `MUTATION_BYTES_MAX` at most.
    pub fn mutation_bytes_max(&self) -> usize {
        let blocks = self.segment_bytes / BLOCK_BYTES;
        // Of the blocks between header and end block, so that an empty segment holds any mutation.
        MUTATION_BYTES_MAX
            .min(self.segment_bytes / 2)
            .min((blocks - 2) * PAYLOAD_BYTES - FRAME_BYTES)
    }
}

/// What the log did since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommitlogStats {
    pub appends: u64,
    /// Bytes of mutations appended, without frames and padding.
    pub bytes: u64,
    /// Chunks written.
    pub flushes: u64,
    /// Bytes written, padding included.
    pub bytes_written: u64,
    /// Times data was made durable: in mode `Sync` every flush does that.
    pub syncs: u64,
    /// Records that syncs made durable.
    pub records_synced: u64,
    pub segments_created: u64,
    pub segments_recycled: u64,
    pub segments_removed: u64,
    /// Longest time an acknowledged record was not durable, milliseconds.
    pub unsynced_ms_max: u64,
}

impl CommitlogStats {
    /// Records that share one sync, on average.
    pub fn records_per_sync(&self) -> f64 {
        if self.syncs == 0 { 0.0 } else { self.records_synced as f64 / self.syncs as f64 }
    }
}

/// Tells when a record is as durable as the mode demands.
pub struct Durable(Option<Wait>);

impl Durable {
    /// Whether it is from the start.
    pub fn is_there(&self) -> bool {
        self.0.is_none()
    }
}

impl Future for Durable {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match &mut self.0 {
            Some(wait) => Pin::new(wait).poll(context),
            None => Poll::Ready(Ok(())),
        }
    }
}

/// The commitlog of a shard.
///
/// Must be used within a tokio `LocalSet` (tokio-uring has one): flushes run as local tasks, so
/// that nothing is lost when a caller drops its future.
pub struct Commitlog {
    pub(super) disk: Rc<dyn Disk>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) options: CommitlogOptions,
    pub(super) inner: RefCell<Inner>,
}

pub(super) struct Inner {
    /// The segments of this log, spare ones (ids above `last_used`) included.
    pub segments: BTreeMap<u64, Segment>,
    next_id: u64,
    /// Segments whose files are being removed.
    pub removing: usize,
    /// The greatest segment that ever got a record.
    pub last_used: u64,
    /// Records may still go into segment `last_used`.
    pub is_active: bool,
    /// Where the next chunk of segment `last_used` starts.
    next_start: u32,
    /// Position of the last record appended.
    position: ReplayPosition,
    pub forming: Option<Chunk>,
    /// Chunks that wait to be written, in order.
    pub queue: VecDeque<Chunk>,
    /// Chunks being written, and those behind one that still is.
    pub flights: VecDeque<Flight>,
    pub in_flight: usize,
    pub next_flight: u64,
    /// The segment that chunks are written to.
    pub writing: Option<u64>,
    /// The last segment that got its end block, and where that stands; zeros for none.
    pub previous: (u64, u32),
    pub is_pumping: bool,
    /// What has gathered must be written though it is little.
    pub flush_wanted: bool,
    pub is_syncing: bool,
    /// Monotonic time of the first append that no sync covers.
    pub unsynced_since_ns: Option<u64>,
    /// How many appends syncs cover, outside mode `Sync`.
    pub synced_appends: u64,
    /// The segment in which a spare one was last asked for.
    pub spare_wanted_in: u64,
    pub failure: Option<String>,
    pub is_closed: bool,
    scratch: Vec<u8>,
    /// Memory of a payload that was written, for the next chunk: the kernel would clear new pages.
    spare_payload: Vec<u8>,
    pub stats: CommitlogStats,
}

impl Inner {
    /// Bytes of records that gather, or wait to be written.
    pub fn buffer_bytes(&self) -> usize {
        let chunks = self.queue.iter().chain(&self.forming);
        let kept = self.scratch.capacity() + self.spare_payload.capacity();
        kept + chunks.map(Chunk::memory_bytes).sum::<usize>()
    }

    /// Closes the chunk in formation: it waits to be written from now on.
    pub fn seal(&mut self) {
        if let Some(chunk) = self.forming.take() {
            let (segment, start) = (chunk.segment, chunk.start);
            assert_eq!(start, self.next_start, "a chunk of segment {segment} stands elsewhere");
            let last = self.queue.back().map(|last| (last.segment, last.end()));
            assert!(
                last.is_none_or(|last| last <= (segment, start)),
                "a chunk of {segment} at {start} waits behind {last:?}"
            );
            self.next_start = chunk.end();
            self.queue.push_back(chunk);
        }
    }

    /// Keeps the memory of a chunk whose blocks are made, if it is not of an unusual length.
    pub fn keep_payload(&mut self, chunk: Chunk) {
        let payload = chunk.into_payload();
        let own = payload.capacity();
        if own > self.spare_payload.capacity() && own <= PAYLOAD_BYTES_KEPT {
            self.spare_payload = payload;
        }
    }

    /// Whether every chunk not yet written has a place on disk, and there are not too many.
    fn may_acknowledge_early(&self) -> bool {
        let first = self.queue.front().map_or(self.last_used, |chunk| chunk.segment);
        let waiting: usize = self.queue.iter().map(Chunk::payload_bytes).sum();
        waiting < BACKLOG_BYTES_MAX
            && self.segments.range(first..=self.last_used).all(|(id, segment)| {
                segment.is_ready() || (segment.is_finished && *id < self.last_used)
            })
    }
}

impl Commitlog {
    /// Starts a log behind the segments that `directory` has. Does not replay them.
    ///
    /// Errors: `Io`, `Invalid` for a segment size that cannot work.
    pub async fn open(
        disk: Rc<dyn Disk>,
        clock: Arc<dyn Clock>,
        options: CommitlogOptions,
    ) -> Result<Rc<Commitlog>> {
        let bytes = options.segment_bytes;
        if !bytes.is_multiple_of(BLOCK_BYTES)
            || bytes < 4 * BLOCK_BYTES
            || u32::try_from(bytes).is_err()
        {
            return Err(Error::invalid(format!("a commitlog segment cannot have {bytes} bytes")));
        }
        make_directory(&*disk, &options.directory).await?;
        let entries = disk.list(&options.directory).await?;
        let last = entries.iter().filter_map(|entry| segment::id_of(&entry.name)).max();
        // SSTables remember positions, so an id must not come back even if all files are gone and
        // the clock was set back.
        let now_ms = u64::try_from(clock.wall_us() / 1000).unwrap_or(0);
        let named = options.ledger.as_ref().map_or(0, |ledger| ledger.segment_max());
        let last = last.unwrap_or(0).max(named);
        let first = (last + 1).max(now_ms).max(options.first_segment_min);
        let log = Rc::new(Commitlog {
            disk,
            clock,
            options,
            inner: RefCell::new(Inner {
                segments: BTreeMap::from([(first, Segment::preparing())]),
                next_id: first + 1,
                removing: 0,
                last_used: first,
                is_active: true,
                next_start: RECORDS_START,
                position: ReplayPosition { segment: first, offset: 0 },
                forming: None,
                queue: VecDeque::new(),
                flights: VecDeque::new(),
                in_flight: 0,
                next_flight: 0,
                writing: None,
                previous: (0, 0),
                is_pumping: false,
                flush_wanted: false,
                is_syncing: false,
                unsynced_since_ns: None,
                synced_appends: 0,
                spare_wanted_in: 0,
                failure: None,
                is_closed: false,
                scratch: Vec::new(),
                spare_payload: Vec::new(),
                stats: CommitlogStats::default(),
            }),
        });
        let file = log.make_segment(first).await?;
        log.segment_ready(first, file);
        Ok(log)
    }

    /// Adds a record. Its position is taken at once; the future says when it is as durable as the
    /// mode demands. Dropping the future changes nothing about the record.
    ///
    /// Errors at once: `Invalid` for a mutation that is too large, `Poisoned`, `Closed`. Errors of
    /// the future: `Poisoned`; `Io` when the disk is full, and then the record is not in the log.
    pub fn append(self: &Rc<Self>, mutation: &Mutation) -> Result<(ReplayPosition, Durable)> {
        self.check_open()?;
        let mut record = std::mem::take(&mut self.inner.borrow_mut().scratch);
        record.clear();
        codec::encode(mutation, &mut record);
        let max = self.options.mutation_bytes_max();
        let placed = if record.len() > max {
            Err(Error::invalid(format!("a mutation of {} bytes; {max} is most", record.len())))
        } else {
            Ok(self.place(mutation.table, &record))
        };
        self.inner.borrow_mut().scratch = record;
        let (position, receipt) = placed?;
        Ok((position, Durable(receipt.map(Receipt::wait))))
    }

    /// Largest mutation that the log takes, bytes.
    pub fn mutation_bytes_max(&self) -> usize {
        self.options.mutation_bytes_max()
    }

    fn place(
        self: &Rc<Self>,
        table: TableId,
        record: &[u8],
    ) -> (ReplayPosition, Option<Rc<Receipt>>) {
        // The last block of a segment is kept for the end block.
        let limit = (self.options.segment_bytes - BLOCK_BYTES) as u32;
        let is_sync = self.options.durability == Durability::Sync;
        let (fresh, spare_wanted, step_due);
        let result = {
            let mut guard = self.inner.borrow_mut();
            let inner = &mut *guard;
            let start = inner.next_start;
            let end = match &inner.forming {
                Some(chunk) => chunk.end_with(record.len()),
                None => Chunk::end_of_one(start, record.len()),
            };
            fresh = if end > limit || !inner.is_active { inner.next_segment() } else { None };
            let (segment, start) = (inner.last_used, inner.next_start);
            let spare = &mut inner.spare_payload;
            let new = || Chunk::new(segment, start, std::mem::take(spare));
            let chunk = inner.forming.get_or_insert_with(new);
            assert_eq!(chunk.segment, segment, "a record goes to a segment that is full");
            let offset = chunk.push(record);
            assert!(chunk.end() <= limit, "a record was placed beyond its segment");
            let receipt = chunk.receipt.clone();
            let (chunk_bytes, end) = (chunk.payload_bytes(), chunk.end());
            if chunk_bytes >= CHUNK_BYTES_MAX {
                inner.seal();
            }
            let entry = inner.segments.get_mut(&segment).expect("the active segment is known");
            let before = entry.tables.insert(table, offset);
            assert!(
                before.is_none_or(|before| before < offset),
                "a record behind {offset}: {before:?}"
            );
            let position = ReplayPosition { segment, offset };
            let last = inner.position;
            assert!(position > last, "a record at {position:?}, the last one was at {last:?}");
            inner.position = position;
            inner.stats.appends += 1;
            inner.stats.bytes += record.len() as u64;
            spare_wanted = end > limit / 2;
            let waits = is_sync || !inner.may_acknowledge_early();
            inner.flush_wanted |= waits && !is_sync;
            if !is_sync {
                inner.unsynced_since_ns.get_or_insert_with(|| self.clock.monotonic_ns());
            }
            step_due = inner.may_have_step(is_sync);
            (inner.position, waits.then_some(receipt))
        };
        if let Some(id) = fresh {
            self.spawn_prepare(id);
        }
        if spare_wanted {
            self.want_spare();
        }
        // Most records only join a chunk that is written later: a task for each would cost more.
        if step_due {
            self.pump();
        }
        result
    }

    /// Makes everything appended so far durable.
    ///
    /// Errors: `Poisoned`; `Io` when the disk is full.
    pub async fn sync(self: &Rc<Self>) -> Result<()> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        // A task of its own: a sync whose failure nobody sees would be forgotten.
        let log = self.clone();
        match tokio::task::spawn_local(async move { log.sync_now().await }).await {
            Ok(result) => result,
            Err(_) => Err(Error::Closed),
        }
    }

    /// Starts a sync when one is due, in mode `Periodic`; in mode `None` hands what has gathered to
    /// the kernel. The shard calls this every few milliseconds.
    pub fn tick(self: &Rc<Self>) {
        let ms = match self.options.durability {
            Durability::Periodic { ms } => ms,
            Durability::None => return self.hand_over(),
            Durability::Sync => return,
        };
        {
            let mut inner = self.inner.borrow_mut();
            let Some(since) = inner.unsynced_since_ns else { return };
            let age_ms = self.clock.monotonic_ns().saturating_sub(since) / 1_000_000;
            if age_ms < ms || inner.is_syncing || inner.failure.is_some() || inner.is_closed {
                return;
            }
            inner.is_syncing = true;
        }
        let log = self.clone();
        runtime::spawn_detached(async move {
            // A failure has poisoned the log; a full disk is told to the writers.
            let _ = log.sync_now().await;
            log.inner.borrow_mut().is_syncing = false;
        });
    }

    fn hand_over(self: &Rc<Self>) {
        let mut inner = self.inner.borrow_mut();
        if inner.forming.is_some() && inner.failure.is_none() && !inner.is_closed {
            inner.flush_wanted = true;
            drop(inner);
            self.pump();
        }
    }

    /// Everything of `table` at or before `through` is in SSTables now. Segments that nothing else
    /// needs are recycled or removed; this waits until that is done.
    ///
    /// Errors: `Poisoned`.
    pub async fn mark_flushed(
        self: &Rc<Self>,
        table: TableId,
        through: ReplayPosition,
    ) -> Result<()> {
        {
            let mut inner = self.inner.borrow_mut();
            for (id, segment) in inner.segments.range_mut(..=through.segment) {
                let last = segment.tables.get(&table).copied();
                if last.is_some_and(|last| *id < through.segment || last <= through.offset) {
                    segment.tables.remove(&table);
                }
            }
        }
        let log = self.clone();
        if tokio::task::spawn_local(async move { log.release().await }).await.is_err() {
            return Err(Error::Closed);
        }
        self.failure().map_or(Ok(()), Err)
    }

    /// Position of the last record appended: later ones have greater positions.
    pub fn current_position(&self) -> ReplayPosition {
        self.inner.borrow().position
    }

    /// Bytes of the segment files of this log, spare ones included; older logs' do not count.
    pub fn bytes_on_disk(&self) -> u64 {
        let inner = self.inner.borrow();
        ((inner.segments.len() + inner.removing) * self.options.segment_bytes) as u64
    }

    /// The oldest segment that cannot go, other than the one that is written to, and a table whose
    /// records are in it and in no SSTable.
    pub fn oldest_pin(&self) -> Option<(u64, TableId)> {
        let inner = self.inner.borrow();
        let mut older = inner.segments.range(..inner.last_used);
        older.find_map(|(id, segment)| Some((*id, *segment.tables.keys().next()?)))
    }

    /// Tries again to let segments go that nothing needs.
    pub async fn release_free(self: &Rc<Self>) {
        self.release().await;
    }

    /// Bytes of records that gather, or wait to be written.
    pub fn buffer_bytes(&self) -> usize {
        self.inner.borrow().buffer_bytes()
    }

    pub fn stats(&self) -> CommitlogStats {
        self.inner.borrow().stats
    }

    /// Makes everything durable and ends the log; later appends fail with `Closed`.
    ///
    /// Errors: `Poisoned`; `Io` when the disk is full.
    pub async fn close(self: &Rc<Self>) -> Result<()> {
        if std::mem::replace(&mut self.inner.borrow_mut().is_closed, true) {
            return Ok(());
        }
        let log = self.clone();
        let closing = async move {
            log.sync_now().await?;
            let last = log.inner.borrow_mut().writing.take();
            if let Some(last) = last {
                log.finish(last).await;
                log.tell_finished(last).await;
            }
            log.release().await;
            log.discard_spares().await;
            log.tell_the_rest().await;
            log.failure().map_or(Ok(()), Err)
        };
        tokio::task::spawn_local(closing).await.unwrap_or(Err(Error::Closed))
    }

    pub(super) fn header(&self, segment: u64) -> Header {
        Header {
            segment,
            shard: self.options.shard,
            shard_count: self.options.shard_count,
            segment_bytes: self.options.segment_bytes as u32,
            previous: self.inner.borrow().previous,
        }
    }

    pub(super) fn failure(&self) -> Option<Error> {
        let reason = self.inner.borrow().failure.clone()?;
        Some(Error::Poisoned { shard: self.options.shard, reason })
    }

    fn check_open(&self) -> Result<()> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        if self.inner.borrow().is_closed { Err(Error::Closed) } else { Ok(()) }
    }
}

impl Inner {
    /// Moves on to another segment. Returns its id when nobody prepares it yet.
    fn next_segment(&mut self) -> Option<u64> {
        self.seal();
        let spare = self.segments.range(self.last_used + 1..).next().map(|(id, _)| *id);
        let id = spare.unwrap_or_else(|| self.prepare_next());
        let (last, next) = (self.last_used, self.next_id);
        assert!((last + 1..next).contains(&id), "segment {id} behind {last}, {next} comes next");
        self.last_used = id;
        self.next_start = RECORDS_START;
        self.is_active = true;
        if spare.is_none() { Some(id) } else { None }
    }

    /// Takes the next id for a segment that is about to be prepared.
    pub fn prepare_next(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let before = self.segments.insert(id, Segment::preparing());
        assert!(before.is_none(), "segment {id} comes for the second time");
        id
    }
}

/// Creates a directory so that a power cut does not take it away.
async fn make_directory(disk: &dyn Disk, directory: &Path) -> Result<()> {
    let mut missing = Vec::new();
    for path in directory.ancestors() {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { break };
        if parent.as_os_str().is_empty() {
            break;
        }
        let name = name.to_string_lossy();
        if disk.list(parent).await?.iter().any(|entry| entry.name == name) {
            break;
        }
        missing.push(parent);
    }
    disk.create_directories(directory).await?;
    for parent in missing.into_iter().rev() {
        disk.sync_directory(parent).await?;
    }
    Ok(())
}
