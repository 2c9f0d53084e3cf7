//! Statements of a session that are watched.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use tidegate_engine::probe::Watch;

use super::current::{is_watched, note};
use super::parent::TraceParent;
use super::record::{Record, kept};
use super::tracing::TracingMode;
use super::watching::{Watching, owned};
use crate::query::error::Result;
use crate::query::outcome::{Outcome, OutcomeKind};
use crate::query::parse::statement::Statement;
use crate::query::session::Session;
use crate::query::setting::slow_query_ms;

impl Session {
    /// What watches a statement; `None` where nobody wants to know what it does, or knows already.
    pub(in crate::query) fn watching(&self, statement: &Statement) -> Option<Watching> {
        let mode = self.watcher.tracing.mode();
        let slow_ms = slow_query_ms(self.context.state_ref().read().config_options());
        if mode == TracingMode::Off && slow_ms == 0 {
            return None;
        }
        if statement.begins_with(&["tracing"]) || is_watched() {
            return None;
        }
        let text = kept(statement.text());
        Some(Watching {
            watch: Some(Watch::of(self.database.clock(), mode.detail())),
            mode,
            slow_ms,
            rows: 0,
            has_outcome: false,
            watcher: Arc::clone(&self.watcher),
            parent: TraceParent::current(),
            text: owned(&text),
        })
    }

    /// The trace of the statement that ended last, if it was traced and nobody took it yet.
    pub fn take_trace(&self) -> Option<Record> {
        self.watcher.take_last()
    }
}

impl Watching {
    /// Runs the statement. It is pinned where its caller is, for on the heap it would cost more
    /// than all that watches it. An outcome that has rows is watched until they end.
    ///
    /// Errors: its own.
    pub async fn run<F>(mut self, mut run: Pin<&mut F>) -> Result<Outcome>
    where
        F: Future<Output = Result<Outcome>>,
    {
        let ran = poll_fn(|context| self.within(|| run.as_mut().poll(context))).await;
        self.has_outcome = true;
        match ran {
            Err(error) => {
                self.end(Some(error.to_string()));
                Err(error)
            }
            Ok(mut outcome) => {
                match outcome.kind {
                    OutcomeKind::Rows(_) => outcome.watching = Some(self),
                    OutcomeKind::Count(count) => {
                        self.within(|| note(|| format!("written, rows: {count}")));
                        self.give(count);
                    }
                    _ => {}
                }
                Ok(outcome)
            }
        }
    }
}
