//! Records the requests to the caches while they serve.
//!
//! ```text
//! read ──> ring of its shard ──(every few ms)──> blocks ──> one writer on shard 0 ──> file
//! ```
//! Invariant: a read never waits for the file. The recording counts reads that a full ring loses,
//! and reports the count at its end and in the file. Not here: the part of a shard
//! (`shard/recording.rs`), the bytes of the file (`trace/`).

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use super::database::Database;
use super::shard::Shard;
use super::shard::recording::{Recording, RecordingSummary, TraceWriter};
use crate::error::{Error, Result};
use crate::runtime;

/// Blocks on their way to the writer: a slow disk fills the rings then, not memory.
const BLOCKS_WAITING_MAX: usize = 32;
/// Requests of a recording that names no number.
const REQUESTS_DEFAULT: u64 = 10_000_000;

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
