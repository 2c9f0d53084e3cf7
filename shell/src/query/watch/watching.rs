//! A statement that is watched, from its start to the end of its rows.

use std::sync::Arc;

use tidegate_engine::probe::Watch;

use super::current::Entered;
use super::journal::Journal;
use super::record::{End, counters_text};
use super::tracing::{Tracing, TracingMode};

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
    pub(super) tracing: Arc<Tracing>,
    pub(super) journal: Arc<Journal>,
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
        if !is_slow && !is_traced {
            return;
        }
        let started_us = self.journal.wall_us(watch.clock(), watch.start_ns());
        let end = End { started_us, duration_us, rows: self.rows, error };
        if is_slow {
            return self.end_slow(watch, is_traced, end);
        }
        self.journal.add_trace(watch, &self.tracing, end);
    }

    #[cold]
    fn end_slow(&self, watch: Arc<Watch>, is_traced: bool, end: End) {
        let (journal, session) = (&self.journal, self.tracing.name());
        let (statement, stats) = (watch.statement().to_owned(), watch.stats());
        let number = is_traced.then(|| journal.add_trace(watch, &self.tracing, end.clone()));
        let End { duration_us, rows, .. } = end;
        let counters = counters_text(&stats);
        tracing::warn!(%session, duration_us, rows, %counters, "slow statement: {statement}");
        journal.add_slow(number, (session, &statement), stats, end);
    }
}

impl Drop for Watching {
    /// Nobody waits for the outcome, or takes more of the rows.
    fn drop(&mut self) {
        self.end((!self.has_outcome).then(|| CANCELLED.to_owned()));
    }
}
