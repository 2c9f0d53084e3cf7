//! Statements of a session that are watched, from their start to the end of their rows.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use futures::{Stream, StreamExt};
use tidegate_engine::probe::Watch;

use super::journal::Journal;
use super::record::{Did, Record, counters_text, kept};
use super::tracing::{Tracing, TracingMode};
use crate::query::error::Result;
use crate::query::outcome::{Outcome, OutcomeKind, RowStream};
use crate::query::parse::statement::Statement;
use crate::query::session::Session;
use crate::query::setting::slow_query_ms;

tokio::task_local! {
    /// That of the statement which is planned, started, or asked for rows.
    static WATCH: Arc<Watch>;
}

/// The watch of the statement that this task works for.
pub fn current() -> Option<Arc<Watch>> {
    WATCH.try_with(Arc::clone).ok()
}

/// Notes a step of that statement, if its steps are wanted.
pub fn note<T: Into<Cow<'static, str>>>(text: impl FnOnce() -> T) {
    // Most statements are not watched.
    let _ = WATCH.try_with(|watch| watch.note(text));
}

/// Notes by what path that statement runs.
pub fn note_path(text: &'static str) {
    let _ = WATCH.try_with(|watch| watch.note_path(text));
}

/// A statement that is watched.
pub(in crate::query) struct Watching {
    watch: Arc<Watch>,
    session: Arc<str>,
    statement: Arc<str>,
    mode: TracingMode,
    /// From which duration on it is slow.
    slow: Option<Duration>,
    tracing: Arc<Tracing>,
    journal: Arc<Journal>,
}

impl Session {
    /// What watches a statement; `None` where nobody wants to know what it does, or knows already.
    pub(in crate::query) fn watching(&self, statement: &Statement) -> Option<Watching> {
        let mode = self.tracing.mode();
        let slow_ms = slow_query_ms(self.context.state_ref().read().config_options());
        if mode == TracingMode::Off && slow_ms == 0 {
            return None;
        }
        if statement.begins_with(&["tracing"]) || current().is_some() {
            return None;
        }
        let clock = self.database.clock();
        Some(Watching {
            watch: Watch::new(Arc::clone(clock), mode.detail()),
            session: Arc::clone(&self.name),
            statement: kept(statement.shared_text()),
            mode,
            slow: (slow_ms > 0).then(|| Duration::from_millis(slow_ms)),
            tracing: Arc::clone(&self.tracing),
            journal: Arc::clone(&self.options.journal),
        })
    }

    /// The trace of the statement that ended last, if it was traced and nobody took it yet.
    pub fn take_trace(&self) -> Option<Arc<Record>> {
        self.tracing.take()
    }
}

impl Watching {
    /// Runs the statement. It is pinned where its caller is, for on the heap it would cost more
    /// than all that watches it.
    ///
    /// Errors: its own.
    pub async fn run<F>(self, run: Pin<&mut F>) -> Result<Outcome>
    where
        F: Future<Output = Result<Outcome>>,
    {
        match WATCH.scope(Arc::clone(&self.watch), run).await {
            Ok(outcome) => Ok(self.until_its_end(outcome)),
            Err(error) => {
                self.end(0, Some(error.to_string()));
                Err(error)
            }
        }
    }

    fn until_its_end(self, outcome: Outcome) -> Outcome {
        let kind = match outcome.kind {
            OutcomeKind::Rows(rows) => {
                OutcomeKind::Rows(Rows { rows, watching: Some(self), count: 0 }.boxed())
            }
            OutcomeKind::Count(count) => {
                self.watch.note(|| format!("written, rows: {count}"));
                self.end(count, None);
                OutcomeKind::Count(count)
            }
            kind => {
                self.end(0, None);
                kind
            }
        };
        Outcome { kind, ..outcome }
    }

    /// The statement is over.
    fn end(self, rows: u64, error: Option<String>) {
        let duration = Duration::from_nanos(self.watch.elapsed_ns());
        let is_slow = self.slow.is_some_and(|slow| duration >= slow);
        let is_traced = self.mode != TracingMode::Off;
        if !is_slow && !is_traced {
            return;
        }
        let Watching { watch, session, statement, tracing, journal, .. } = self;
        let record = Record {
            number: journal.next_number(),
            started_us: journal.wall_us(watch.clock(), watch.start_ns()),
            duration_us: u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
            session,
            statement,
            rows,
            error,
            did: Did::Watched(watch),
        };
        if is_slow {
            let Record { session, statement, duration_us, rows, .. } = &record;
            let counters = counters_text(&record.stats());
            tracing::warn!(%session, duration_us, rows, %counters, "slow statement: {statement}");
            journal.add_slow(&record);
        }
        if is_traced {
            let record = Arc::new(record);
            journal.add_trace(Arc::clone(&record));
            tracing.keep(record);
        }
    }
}

/// The rows of a statement that is watched.
struct Rows {
    rows: RowStream,
    watching: Option<Watching>,
    count: u64,
}

impl Rows {
    fn end(&mut self, error: Option<String>) {
        if let Some(watching) = self.watching.take() {
            watching.end(self.count, error);
        }
    }
}

impl Stream for Rows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let polled = match &this.watching {
            Some(watching) => {
                let watch = Arc::clone(&watching.watch);
                WATCH.sync_scope(watch, || this.rows.poll_next_unpin(context))
            }
            None => this.rows.poll_next_unpin(context),
        };
        match &polled {
            Poll::Ready(Some(Ok(batch))) => this.count += batch.num_rows() as u64,
            Poll::Ready(Some(Err(error))) => this.end(Some(error.to_string())),
            Poll::Ready(None) => this.end(None),
            Poll::Pending => {}
        }
        polled
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        // Nobody takes more of them.
        self.end(None);
    }
}
