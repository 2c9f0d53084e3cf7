//! Recording what the caches are asked for, while they serve.
//!
//! ```text
//! read ──> ring of its shard ──(every few ms)──> blocks ──> one writer on shard 0 ──> file
//! ```
//! Invariant: a read never waits for the file. What does not fit into a ring is counted, told by
//! the end of the recording and written into the file. Not here: the bytes of the file (`trace/`).

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio::sync::{mpsc, oneshot};

use super::database::Database;
use super::shard::Shard;
use crate::config::PAGE_BYTES;
use crate::disk::{AlignedBuffer, Disk, DiskFile, OpenOptions, remove_if_there};
use crate::error::{Error, Result};
use crate::runtime;
use crate::trace::{BLOCK_REQUESTS_MAX, Recorder, encode_block, encode_end, encode_header};

/// How often a shard's ring is emptied.
const PAUSE: Duration = Duration::from_millis(10);
/// Blocks on their way to the writer: a slow disk fills the rings then, not memory.
const BLOCKS_WAITING_MAX: usize = 32;
/// Bytes gathered before they are written.
const WRITE_BYTES: usize = 256 << 10;
/// Requests of a recording that names no number.
const REQUESTS_DEFAULT: u64 = 10_000_000;

/// What a recording came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingSummary {
    pub path: PathBuf,
    pub requests: u64,
    /// Reads that happened meanwhile and did not fit into the rings.
    pub lost: u64,
    /// Size of the file.
    pub bytes: u64,
}

/// A recording that runs, or has ended and was not asked about.
pub(super) struct Recording {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    ended: Shared<BoxFuture<'static, Result<RecordingSummary>>>,
}

impl Recording {
    fn runs(&self) -> bool {
        self.ended.clone().now_or_never().is_none()
    }
}

/// Some of the file, from a shard.
struct Piece {
    block: Vec<u8>,
    requests: u64,
    lost: u64,
}

impl Database {
    /// Starts to record the reads of all caches into a file, which is replaced. Goes on until
    /// `requests_max` were recorded (10 million by default),
    /// [`stop_recording`](Self::stop_recording) or the end of the database.
    ///
    /// Errors: `Invalid` while another recording runs, `Io`.
    pub fn record_trace(
        &self,
        path: PathBuf,
        requests_max: Option<u64>,
    ) -> BoxFuture<'static, Result<()>> {
        let database = self.clone();
        let change = async move {
            let mut current = database.inner.recording.lock().await;
            if let Some(running) = current.as_ref().filter(|recording| recording.runs()) {
                return Err(Error::invalid(format!(
                    "a recording into {} runs already: stop it first",
                    running.path.display()
                )));
            }
            let (pieces, receiver) = mpsc::channel(BLOCKS_WAITING_MAX);
            let file = path.clone();
            let ended = database
                .handle(0)
                .call("record trace", move |shard| {
                    async move {
                        let writer = TraceWriter::create(&shard, file).await?;
                        let (sender, ended) = oneshot::channel();
                        runtime::spawn_local("write trace", async move {
                            // Nobody asks any more when the database is gone.
                            let _ = sender.send(writer.run(receiver).await);
                        });
                        Ok::<_, Error>(ended)
                    }
                    .boxed_local()
                })
                .await??;
            let stop = Arc::new(AtomicBool::new(false));
            let left = Arc::new(AtomicU64::new(requests_max.unwrap_or(REQUESTS_DEFAULT)));
            let start_ns = database.clock().monotonic_ns();
            for shard in &database.inner.shards {
                let (stop, left, pieces) = (stop.clone(), left.clone(), pieces.clone());
                let record = move |shard: Rc<Shard>| {
                    async move { shard.record(start_ns, stop, left, pieces) }.boxed_local()
                };
                shard.call("record reads", record).await?;
            }
            let ended = async move { ended.await.map_err(|_| Error::Closed)? };
            *current = Some(Recording { path, stop, ended: ended.boxed().shared() });
            Ok(())
        };
        self.uninterrupted(change)
    }

    /// Ends the recording, or asks about one that has ended by itself.
    ///
    /// Errors: `Invalid` when there is none; what writing the file met.
    pub fn stop_recording(&self) -> BoxFuture<'_, Result<RecordingSummary>> {
        async move {
            let recording = self.inner.recording.lock().await.take();
            let recording = recording.ok_or_else(|| Error::invalid("nothing is recorded"))?;
            recording.stop.store(true, Ordering::Relaxed);
            recording.ended.await
        }
        .boxed()
    }

    /// Ends a recording that runs, before the shards stop.
    pub(super) async fn end_recording(&self) {
        let Some(recording) = self.inner.recording.lock().await.take() else { return };
        recording.stop.store(true, Ordering::Relaxed);
        match recording.ended.await {
            Ok(RecordingSummary { path, requests, lost, .. }) => {
                tracing::info!(path = %path.display(), requests, lost, "the recording ended");
            }
            Err(error) => {
                tracing::error!(path = %recording.path.display(), %error, "the recording failed");
            }
        }
    }
}

impl Shard {
    /// Records the reads of this shard's cache until `stop`, until nothing is left of `left`, or
    /// until the writer ends.
    fn record(
        self: &Rc<Self>,
        start_ns: u64,
        stop: Arc<AtomicBool>,
        left: Arc<AtomicU64>,
        pieces: mpsc::Sender<Piece>,
    ) {
        self.cache.start_recording(Recorder::new(self.context.clock.clone(), start_ns));
        let shard = self.clone();
        runtime::spawn_local("record", async move {
            let mut ring = Vec::new();
            loop {
                let is_last = stop.load(Ordering::Relaxed) || left.load(Ordering::Relaxed) == 0;
                if !is_last {
                    shard.context.sleep(PAUSE).await;
                }
                let (requests, mut lost) = shard.cache.take_recorded(ring);
                let most = claim(&left, requests.len() as u64) as usize;
                if most < requests.len() {
                    // What came past the end of the recording is no loss.
                    lost = 0;
                }
                for requests in requests[..most].chunks(BLOCK_REQUESTS_MAX) {
                    let block = encode_block(shard.context.shard as u16, requests);
                    let count = requests.len() as u64;
                    let piece = Piece { block, requests: count, lost: std::mem::take(&mut lost) };
                    if pieces.send(piece).await.is_err() {
                        shard.cache.stop_recording();
                        return;
                    }
                    runtime::maybe_yield().await;
                }
                if lost > 0 {
                    let piece = Piece { block: Vec::new(), requests: 0, lost };
                    // A writer that is gone is noticed with the next block.
                    let _ = pieces.send(piece).await;
                }
                if is_last {
                    shard.cache.stop_recording();
                    return;
                }
                ring = requests;
            }
        });
    }
}

/// Takes up to `wanted` off what is left; returns how many.
fn claim(left: &AtomicU64, wanted: u64) -> u64 {
    let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        Some(left.saturating_sub(wanted))
    });
    taken.map_or(0, |before| before.min(wanted))
}

/// Appends blocks to a file in pieces that direct I/O takes.
struct TraceWriter {
    disk: Rc<dyn Disk>,
    file: Rc<dyn DiskFile>,
    path: PathBuf,
    waiting: Vec<u8>,
    /// Bytes of the file that were written, a multiple of the page size.
    written: u64,
}

impl TraceWriter {
    async fn create(shard: &Shard, path: PathBuf) -> Result<Self> {
        let disk = shard.context.disk.clone();
        remove_if_there(&*disk, &path).await?;
        let file = disk.open(&path, OpenOptions::CREATE).await?;
        let waiting = encode_header(shard.context.clock.wall_us());
        Ok(TraceWriter { disk, file, path, waiting, written: 0 })
    }

    async fn run(mut self, mut pieces: mpsc::Receiver<Piece>) -> Result<RecordingSummary> {
        let (mut requests, mut lost) = (0, 0);
        while let Some(piece) = pieces.recv().await {
            requests += piece.requests;
            lost += piece.lost;
            self.waiting.extend_from_slice(&piece.block);
            if self.waiting.len() >= WRITE_BYTES {
                let whole = self.waiting.len() / PAGE_BYTES * PAGE_BYTES;
                self.write(whole).await?;
            }
        }
        self.waiting.extend_from_slice(&encode_end(requests, lost));
        let bytes = self.written + self.waiting.len() as u64;
        self.write(self.waiting.len()).await?;
        self.file.truncate(bytes).await?;
        self.file.sync().await?;
        if let Some(directory) = self.path.parent().filter(|path| !path.as_os_str().is_empty()) {
            self.disk.sync_directory(directory).await?;
        }
        Ok(RecordingSummary { path: self.path, requests, lost, bytes })
    }

    /// Writes the first `bytes` of what waits, filled up to whole pages.
    async fn write(&mut self, bytes: usize) -> Result<()> {
        let rest = self.waiting.split_off(bytes);
        let buffer = AlignedBuffer::padded(&self.waiting);
        let length = buffer.len() as u64;
        let (result, _) = self.file.write_at(self.written, buffer).await;
        self.written += length;
        self.waiting = rest;
        result
    }
}
