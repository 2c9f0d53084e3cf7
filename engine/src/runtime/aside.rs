//! Work that takes milliseconds and is no shard's: done on a thread of its own while the shard
//! serves.

use std::thread::Builder;

use tokio::sync::oneshot;

use crate::error::{Error, Result};

/// Runs `work` on a thread of its own, named `name`, and waits for its result. The work is done
/// even if nobody waits any more.
///
/// Errors: `Unavailable` when there is no thread to be had or it ended without a result.
pub async fn aside<R: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R> {
    let (sender, result) = oneshot::channel();
    let run = move || {
        // Nobody waits any more when the statement was cancelled.
        let _ = sender.send(work());
    };
    let spawned = Builder::new().name(name.into()).spawn(run);
    spawned.map_err(|error| Error::Unavailable(format!("no thread for the {name}: {error}")))?;
    result.await.map_err(|_| Error::Unavailable(format!("the {name} stopped")))
}
