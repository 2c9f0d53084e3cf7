//! The rows of a statement as they leave its session.
//!
//! One stream keeps to the limits, watches, warns of tombstones, and ends where somebody ends the
//! statement: each layer more would be a piece of memory for each statement, and a call for each
//! batch.

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
use crate::query::roster::Running;
use crate::query::watch::Watching;

/// See the head of this file.
struct Held {
    /// `None` when they have ended. Behind an error nothing comes any more: shards and operators
    /// stop as they are dropped.
    rows: Option<RowStream>,
    /// Has the rows of a statement in the roster.
    running: Option<Running>,
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
        let mut running = outcome.running.take();
        if let OutcomeKind::Rows(rows) = outcome.kind {
            let (statement, warnings) = (statement.clone(), Arc::clone(warnings));
            let (limits, count) = (self, Count::default());
            let rows = match &mut running {
                Some(running) => {
                    running.take_rows(rows);
                    None
                }
                None => Some(rows),
            };
            let held =
                Held { rows, running, statement, limits, count, warnings, tombstones, watching };
            outcome.kind = OutcomeKind::Rows(Box::pin(held));
        }
        outcome
    }
}

impl Held {
    fn poll_rows(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        match (&mut self.running, &mut self.rows) {
            (Some(running), _) => running.poll_rows(context),
            (None, Some(rows)) => rows.poll_next_unpin(context),
            (None, None) => Poll::Ready(None),
        }
    }

    /// Counts a batch.
    ///
    /// Errors: as [`ResultLimits::add`].
    fn count(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        self.limits.add(&batch, &mut self.count, &self.statement, &self.warnings)?;
        if let Some(watching) = &mut self.watching {
            watching.give(batch.num_rows() as u64);
        }
        Ok(batch)
    }

    /// No more rows come. The reads end before what they met is looked at.
    fn end(&mut self, error: Option<String>) {
        (self.rows, self.running) = (None, None);
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

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, Int32Array};
    use futures::stream;

    use super::*;
    use crate::query::error::QueryError;
    use crate::query::parse::statement::split;

    fn batch() -> RecordBatch {
        let column = Arc::new(Int32Array::from(vec![1, 2, 3])) as ArrayRef;
        RecordBatch::try_from_iter([("a", column)]).unwrap()
    }

    /// What comes of two batches, or of one and an error before the second, and is asked for four
    /// times; the rows are gone as soon as they have ended.
    async fn given(
        limits: ResultLimits,
        is_damaged: bool,
        warnings: &Arc<Warnings>,
    ) -> [String; 4] {
        let statement = &split("SELECT a FROM t").unwrap()[0];
        let mut items = vec![Ok(batch()), Ok(batch())];
        if is_damaged {
            items.insert(1, Err(QueryError::invalid("a file is damaged")));
        }
        let alive = Arc::new(());
        let guard = Arc::clone(&alive);
        let rows = stream::iter(items).inspect(move |_| assert_eq!(Arc::strong_count(&guard), 2));
        let outcome = Outcome::rows(batch().schema(), rows.boxed());
        let OutcomeKind::Rows(mut rows) = limits.hold(statement, outcome, warnings).kind else {
            panic!("rows stay rows");
        };
        let mut given = [const { String::new() }; 4];
        for text in &mut given {
            let next = rows.next().await;
            let has_ended = !matches!(next, Some(Ok(_)));
            assert_eq!(Arc::strong_count(&alive), if has_ended { 1 } else { 2 });
            *text = match next {
                Some(Ok(batch)) => format!("{} rows", batch.num_rows()),
                Some(Err(error)) => error.message,
                None => "the end".to_owned(),
            };
        }
        given
    }

    #[tokio::test]
    async fn behind_an_error_nothing_comes_and_nothing_is_read() {
        let limits = |warn_bytes, max_bytes| ResultLimits { warn_bytes, max_bytes };
        let (rows, end, damage) = ("3 rows", "the end", "a file is damaged");
        for (limits, is_damaged, wanted, warned) in [
            (limits(0, 0), false, [rows, rows, end, end], 0),
            (limits(1, 0), false, [rows, rows, end, end], 1),
            (limits(0, 0), true, [rows, damage, end, end], 0),
            (limits(1, 1 << 40), true, [rows, damage, end, end], 1),
            (limits(1 << 40, 1 << 40), true, [rows, damage, end, end], 0),
        ] {
            let warnings = Arc::new(Warnings::default());
            let found = given(limits, is_damaged, &warnings).await;
            assert_eq!(found, wanted, "{limits:?}");
            assert_eq!(warnings.all().len(), warned, "{limits:?}");
        }
        for is_damaged in [false, true] {
            let warnings = Arc::new(Warnings::default());
            let [first, rest @ ..] = given(limits(0, 1), is_damaged, &warnings).await;
            assert!(first.contains("bytes after 3 rows, and 1 is most"), "{first}");
            assert_eq!(rest, [end; 3]);
        }
        // What is no rows has no size.
        let statement = &split("DELETE FROM t").unwrap()[0];
        let warnings = Arc::new(Warnings::default());
        let outcome = limits(1, 1).hold(statement, Outcome::count(3), &warnings);
        assert!(matches!(outcome.kind, OutcomeKind::Count(3)));
    }
}
