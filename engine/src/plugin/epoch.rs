//! The thread that counts milliseconds for the epoch backstop, and frees the memory of instances
//! that are gone: for a million slots that takes a millisecond, which no shard has.
//!
//! Invariant: it ticks only while a policy is loaded, and it ends before the engine does. What was
//! given away is free once [`Ticker::settle`] has returned.

use std::any::Any;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use wasmtime::Engine;

use crate::error::{Error, Result};

/// Length of one epoch.
const TICK: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Load {
    policies: usize,
    /// To be dropped.
    gone: Vec<Box<dyn Any + Send>>,
    /// Some are being dropped.
    is_freeing: bool,
    stop: bool,
}

#[derive(Default)]
struct Shared {
    load: Mutex<Load>,
    changed: Condvar,
    freed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Load> {
        // What it holds is valid at any moment, so a panic elsewhere does not spoil them.
        self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The ticking thread; ends when dropped.
pub(super) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Starts the thread, which sleeps until a policy is loaded.
    ///
    /// Errors: `Unavailable` when the process may not start a thread.
    pub fn start(engine: Engine) -> Result<Arc<Self>> {
        let shared = Arc::new(Shared::default());
        let seen = shared.clone();
        let thread = std::thread::Builder::new()
            .name("tidegate-epoch".to_string())
            .spawn(move || tick(&engine, &seen))
            .map_err(|error| Error::Unavailable(format!("starting the epoch thread: {error}")))?;
        Ok(Arc::new(Ticker { shared, thread: Some(thread) }))
    }

    /// Keeps the clock ticking for as long as the result lives.
    pub fn hold(self: &Arc<Self>) -> TickerHold {
        self.shared.lock().policies += 1;
        self.shared.changed.notify_one();
        TickerHold { ticker: self.clone() }
    }

    /// Has something dropped by the thread.
    pub fn free(&self, gone: Box<dyn Any + Send>) {
        self.shared.lock().gone.push(gone);
        self.shared.changed.notify_one();
    }

    /// Waits until all that was given away is dropped.
    pub fn settle(&self) {
        let load = self.shared.lock();
        let is_busy = |load: &mut Load| load.is_freeing || !load.gone.is_empty();
        drop(self.shared.freed.wait_while(load, is_busy).unwrap_or_else(PoisonError::into_inner));
    }

    #[cfg(test)]
    pub fn policies(&self) -> usize {
        self.shared.lock().policies
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok(), "the epoch thread does not panic");
        }
    }
}

/// One loaded policy.
pub(super) struct TickerHold {
    ticker: Arc<Ticker>,
}

impl TickerHold {
    pub fn ticker(&self) -> &Arc<Ticker> {
        &self.ticker
    }
}

impl Drop for TickerHold {
    fn drop(&mut self) {
        self.ticker.shared.lock().policies -= 1;
    }
}

fn tick(engine: &Engine, shared: &Shared) {
    let mut load = shared.lock();
    while !load.stop {
        if !load.gone.is_empty() {
            let gone = std::mem::take(&mut load.gone);
            load.is_freeing = true;
            drop(load);
            drop(gone);
            load = shared.lock();
            load.is_freeing = false;
            shared.freed.notify_all();
            continue;
        }
        if load.policies == 0 {
            load = shared.changed.wait(load).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        let waited = shared.changed.wait_timeout(load, TICK);
        load = waited.unwrap_or_else(PoisonError::into_inner).0;
        engine.increment_epoch();
    }
}
