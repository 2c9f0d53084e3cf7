//! The rows of a statement as they leave its session.
//!
//! One stream keeps to the limits, watches, and warns of tombstones: each layer more would be a
//! piece of memory for each statement, and a call for each batch.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use datafusion::arrow::array::RecordBatch;
use futures::{Stream, StreamExt};
use tidegate_engine::ManyTombstones;

use super::result::{Count, ResultLimits};
use super::tombstones::warn_of_tombstones;
use super::warnings::Warnings;
use crate::query::error::Result;
use crate::query::outcome::{Outcome, OutcomeKind, RowStream};
use crate::query::parse::statement::Statement;
use crate::query::watch::Watching;

/// See the head of this file.
struct Held {
    /// `None` when they have ended. Behind an error nothing comes any more: shards and operators
    /// stop as they are dropped.
    rows: Option<RowStream>,
    statement: Statement,
    limits: ResultLimits,
    count: Count,
    warnings: Arc<Warnings>,
    tombstones: Option<Arc<ManyTombstones>>,
    watching: Option<Watching>,
}

impl ResultLimits {
    /// The outcome of a statement, whose rows keep to the limits. Their end is that of the
    /// statement.
    pub fn hold(
        self,
        statement: &Statement,
        mut outcome: Outcome,
        warnings: &Arc<Warnings>,
    ) -> Outcome {
        let (tombstones, watching) = (outcome.tombstones.take(), outcome.watching.take());
        if let OutcomeKind::Rows(rows) = outcome.kind {
            let (statement, warnings) = (statement.clone(), Arc::clone(warnings));
            let (rows, limits, count) = (Some(rows), self, Count::default());
            let held = Held { rows, statement, limits, count, warnings, tombstones, watching };
            outcome.kind = OutcomeKind::Rows(Box::pin(held));
        }
        outcome
    }
}

impl Held {
    fn poll_rows(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        match &mut self.rows {
            None => Poll::Ready(None),
            Some(rows) => rows.poll_next_unpin(context),
        }
    }

    /// Counts a batch.
    ///
    /// Errors: as [`ResultLimits::add`].
    fn count(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        if let Some(watching) = &mut self.watching {
            watching.give(batch.num_rows() as u64);
        }
        self.limits.add(&batch, &mut self.count, &self.statement, &self.warnings)?;
        Ok(batch)
    }

    /// No more rows come. The reads end before what they met is looked at.
    fn end(&mut self, error: Option<String>) {
        self.rows = None;
        if let Some(mut watching) = self.watching.take() {
            watching.end(error);
        }
        if let Some(tombstones) = self.tombstones.take() {
            warn_of_tombstones(&self.statement, &tombstones, &self.warnings);
        }
    }
}

impl Stream for Held {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let next = ready!(this.poll_rows(context));
        let next = next.map(|batch| batch.and_then(|batch| this.count(batch)));
        match &next {
            Some(Ok(_)) => {}
            Some(Err(error)) => this.end(Some(error.to_string())),
            None => this.end(None),
        }
        Poll::Ready(next)
    }
}

impl Drop for Held {
    /// Nobody takes more of them.
    fn drop(&mut self) {
        self.end(None);
    }
}
