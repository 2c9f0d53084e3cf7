//! A statement that is watched, from its start to the end of its rows.

use std::cell::Cell;
use std::mem;
use std::sync::Arc;

use tidegate_engine::probe::Watch;

use super::current::Entered;
use super::journal::Journal;
use super::parent::TraceParent;
use super::record::{End, Record, counters_text, kept};
use super::tracing::{Tracing, TracingMode};

thread_local! {
    /// A text that was used before: most statements are over before the thread has another one.
    static SPARE: Cell<String> = const { Cell::new(String::new()) };
}

/// What is told of a statement that was let go before it had an outcome.
const CANCELLED: &str = "the statement was cancelled";

/// A statement that is watched, until it is dropped or told of its end.
pub(in crate::query) struct Watching {
    /// `None` when it has ended.
    pub(super) watch: Option<Arc<Watch>>,
    pub(super) mode: TracingMode,
    /// From how many milliseconds on it is slow; 0 for never.
    pub(super) slow_ms: u64,
    /// Rows that were given or written.
    pub(super) rows: u64,
    pub(super) has_outcome: bool,
    pub(super) watcher: Arc<Watcher>,
    /// The place of its call in the trace of a client.
    pub(super) parent: Option<TraceParent>,
    /// Its text, cut where it is long.
    pub(super) text: String,
}

/// Whose statements are watched, and where their traces go. A statement owns it once.
#[derive(Debug)]
pub struct Watcher {
    pub tracing: Arc<Tracing>,
    pub(super) journal: Arc<Journal>,
}

impl Watcher {
    /// That of a session of this name, which does not trace.
    pub fn new(name: &str, journal: &Arc<Journal>) -> Arc<Self> {
        Arc::new(Watcher { tracing: Tracing::new(name), journal: Arc::clone(journal) })
    }

    /// That of a session that begins as this one is; `None` for the same name.
    pub fn copied(&self, name: Option<&str>) -> Arc<Self> {
        let (tracing, journal) = (self.tracing.copied(name), Arc::clone(&self.journal));
        Arc::new(Watcher { tracing, journal })
    }

    /// The trace of the statement that ended last, if it was traced and nobody took it yet.
    pub fn take_last(&self) -> Option<Record> {
        self.journal.take_last(&self.tracing)
    }
}

/// The text of a statement that begins.
pub(super) fn owned(text: &str) -> String {
    let mut owned = SPARE.take();
    owned.clear();
    owned.push_str(text);
    owned
}

impl Watching {
    /// Does work of the statement.
    pub(super) fn within<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let _entered = Entered::new(&mut self.watch);
        work()
    }

    /// It gave or wrote so many rows more.
    pub fn give(&mut self, rows: u64) {
        self.rows += rows;
    }

    /// The statement is over, if it was not before.
    pub fn end(&mut self, error: Option<String>) {
        let Some(watch) = self.watch.take() else { return };
        let duration_us = watch.elapsed_ns() / 1000;
        let is_slow = self.slow_ms > 0 && duration_us >= self.slow_ms.saturating_mul(1000);
        let is_traced = self.mode != TracingMode::Off;
        if is_slow || is_traced {
            let started_us = self.watcher.journal.wall_us(watch.clock(), watch.start_ns());
            let trace_id = self.parent.as_ref().map(|own| Arc::clone(own.trace_id()));
            let end = End { started_us, duration_us, rows: self.rows, error, trace_id };
            if is_slow {
                self.end_slow(watch, is_traced, end);
            } else {
                self.add_trace(watch, end);
            }
        }
        SPARE.set(mem::take(&mut self.text));
    }

    /// Keeps a trace, with the text, and returns its number.
    fn add_trace(&mut self, watch: Arc<Watch>, end: End) -> u64 {
        let Watcher { tracing, journal } = &*self.watcher;
        journal.add_trace((watch, &mut self.text), tracing, end)
    }

    #[cold]
    fn end_slow(&mut self, watch: Arc<Watch>, is_traced: bool, end: End) {
        let (text, stats) = (self.text.clone(), watch.stats());
        let number = is_traced.then(|| self.add_trace(watch, end.clone()));
        let (journal, session) = (&self.watcher.journal, self.watcher.tracing.name());
        let End { duration_us, rows, .. } = end;
        let counters = counters_text(&stats);
        // The rows may have ended where nothing of the call was at work.
        TraceParent::within(self.parent.as_ref(), || {
            let text = kept(&text);
            tracing::warn!(%session, duration_us, rows, %counters, "slow statement: {text}");
        });
        journal.add_slow(number, (session, &text), stats, end);
    }
}

impl Drop for Watching {
    /// Nobody waits for the outcome, or takes more of the rows.
    fn drop(&mut self) {
        self.end((!self.has_outcome).then(|| CANCELLED.to_owned()));
    }
}
