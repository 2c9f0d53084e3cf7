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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures::FutureExt;
    use futures::executor::block_on;

    use super::*;

    #[test]
    fn work_aside_gives_its_result_or_says_which_work_stopped() {
        assert_eq!(block_on(aside("adder", || 1 + 1)).unwrap(), 2);
        let stopped = block_on(aside("adder", || -> u32 { panic!("as work may") }));
        let error = stopped.expect_err("it has no result");
        assert!(matches!(error, Error::Unavailable(_)), "{error}");
        assert!(error.to_string().contains("the adder stopped"), "{error}");
    }

    #[test]
    fn work_aside_is_done_though_nobody_waits_any_more() {
        let (sender, done) = mpsc::channel();
        let _ = aside("sender", move || sender.send(7)).now_or_never();
        assert_eq!(done.recv(), Ok(7));
    }
}
