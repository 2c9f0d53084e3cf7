//! The part of a shard in a recording: it empties its ring into blocks. On one shard a writer
//! writes the blocks of all shards to a file.
//!
//! Not here: the start and end of a recording (`database/recording.rs`), the bytes of the file
//! (`trace/`).

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio::sync::mpsc;

use super::Shard;
use crate::config::PAGE_BYTES;
use crate::disk::{AlignedBuffer, Disk, DiskFile, OpenOptions, remove_if_there};
use crate::error::Result;
use crate::io::Class;
use crate::runtime;
use crate::trace::{BLOCK_REQUESTS_MAX, Recorder, encode_block, encode_end, encode_header};

/// How often a shard's ring is emptied.
const PAUSE: Duration = Duration::from_millis(10);
/// Bytes gathered before they are written.
const WRITE_BYTES: usize = 256 << 10;

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
pub(in crate::database) struct Recording {
    pub(in crate::database) path: PathBuf,
    pub(in crate::database) stop: Arc<AtomicBool>,
    pub(in crate::database) ended: Shared<BoxFuture<'static, Result<RecordingSummary>>>,
}

impl Recording {
    pub(in crate::database) fn runs(&self) -> bool {
        self.ended.clone().now_or_never().is_none()
    }
}

/// Some of the file, from a shard.
pub(in crate::database) struct Piece {
    block: Vec<u8>,
    requests: u64,
    lost: u64,
}

impl Shard {
    /// Records the reads of this shard's cache until `stop`, until nothing is left of `left`, or
    /// until the writer ends.
    pub(in crate::database) fn record(
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
                let (requests, lost) = shard.cache.take_recorded(ring);
                let (most, mut lost) = claim(&left, requests.len(), lost);
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

/// Takes of what remains of a recording. Returns how many of the requests belong to it, and how
/// many of those that were lost behind them. What came past its end is no loss.
fn claim(left: &AtomicU64, requests: usize, lost: u64) -> (usize, u64) {
    let wanted = requests as u64;
    let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        Some(left.saturating_sub(wanted))
    });
    let before = taken.unwrap_or(0);
    (before.min(wanted) as usize, if before > wanted { lost } else { 0 })
}

/// Appends blocks to a file in pieces that direct I/O takes.
pub(in crate::database) struct TraceWriter {
    disk: Rc<dyn Disk>,
    file: Rc<dyn DiskFile>,
    path: PathBuf,
    waiting: Vec<u8>,
    /// Bytes of the file that were written, a multiple of the page size.
    written: u64,
}

impl TraceWriter {
    pub(in crate::database) async fn create(shard: &Shard, path: PathBuf) -> Result<Self> {
        let disk = shard.context.disk_of(Class::Maintenance);
        remove_if_there(&*disk, &path).await?;
        let file = disk.open(&path, OpenOptions::CREATE).await?;
        let waiting = encode_header(shard.context.clock.wall_us());
        Ok(TraceWriter { disk, file, path, waiting, written: 0 })
    }

    pub(in crate::database) async fn run(
        mut self,
        mut pieces: mpsc::Receiver<Piece>,
    ) -> Result<RecordingSummary> {
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::disk::{OpenOptions, SimulatedDisk, read_file};
    use crate::trace::{Request, read_trace};

    /// A file holds what all pieces brought, and says what each of them lost.
    #[tokio::test]
    async fn a_trace_says_how_many_reads_were_lost() {
        let disk = SimulatedDisk::new(1).shared();
        let path = PathBuf::from("/reads.trace");
        let file = disk.open(&path, OpenOptions::CREATE).await.unwrap();
        let waiting = encode_header(7);
        let writer =
            TraceWriter { disk: disk.clone(), file, path: path.clone(), waiting, written: 0 };
        let request =
            |id: u64| Request { id: id << 32, size_bytes: 9, kind: 1, is_hit: true, time_us: id };
        let requests: Vec<Request> = (1..=BLOCK_REQUESTS_MAX as u64).map(request).collect();
        // So many that some of them are written before the last one comes.
        let blocks = 2 * WRITE_BYTES / encode_block(0, &requests).len() + 2;
        let (sender, pieces) = mpsc::channel(blocks + 1);
        let count = requests.len() as u64;
        for shard in 0..blocks {
            let block = encode_block(shard as u16, &requests);
            sender.send(Piece { block, requests: count, lost: 2 }).await.unwrap();
        }
        sender.send(Piece { block: Vec::new(), requests: 0, lost: 3 }).await.unwrap();
        drop(sender);
        let summary = writer.run(pieces).await.unwrap();
        let (requests, lost) = (blocks as u64 * count, blocks as u64 * 2 + 3);
        assert_eq!((summary.requests, summary.lost), (requests, lost));
        let content = read_file(&*disk, Path::new("/reads.trace")).await.unwrap();
        assert_eq!(summary.bytes, content.len() as u64);
        let trace = read_trace(&path, &content, None).unwrap();
        assert_eq!((trace.reads().len() as u64, trace.lost()), (requests, lost));
        assert!(trace.is_complete());
    }

    #[tokio::test]
    async fn a_trace_that_was_told_of_outlasts_a_power_cut() {
        for seed in 0..20 {
            let simulated = SimulatedDisk::new(seed);
            let disk = simulated.shared();
            let path = PathBuf::from("/reads.trace");
            let file = disk.open(&path, OpenOptions::CREATE).await.unwrap();
            let waiting = encode_header(7);
            let writer = TraceWriter { disk, file, path: path.clone(), waiting, written: 0 };
            let (sender, pieces) = mpsc::channel(1);
            let read = Request { id: 1 << 32, size_bytes: 9, kind: 1, is_hit: true, time_us: 1 };
            let block = encode_block(0, &[read]);
            sender.send(Piece { block, requests: 1, lost: 0 }).await.unwrap();
            drop(sender);
            let summary = writer.run(pieces).await.unwrap();
            let later = simulated.power_cut();
            let content = read_file(&later, &path).await.unwrap();
            assert_eq!(content.len() as u64, summary.bytes, "seed {seed}");
            let trace = read_trace(&path, &content, None).unwrap();
            assert!(trace.is_complete() && trace.reads().len() == 1, "seed {seed}");
        }
    }

    #[test]
    fn what_came_past_the_end_of_a_recording_is_no_loss() {
        let left = AtomicU64::new(100);
        assert_eq!(claim(&left, 60, 5), (60, 5));
        assert_eq!(claim(&left, 60, 5), (40, 0));
        assert_eq!(claim(&left, 60, 5), (0, 0));
        let left = AtomicU64::new(60);
        assert_eq!(claim(&left, 60, 5), (60, 0), "those that were lost came behind the last");
        let without_end = AtomicU64::new(u64::MAX);
        assert_eq!(claim(&without_end, 60, 5), (60, 5));
    }
}
