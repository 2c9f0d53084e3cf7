//! A warning for a statement whose reads met many tombstones for a page of rows.
//!
//! The log is warned of a table; here whoever sent the statement learns which one it was.

use std::sync::Arc;

use futures::StreamExt;
use tidegate_engine::{ManyTombstones, TombstonePage};

use super::warnings::{About, Warnings};
use crate::query::outcome::{Outcome, OutcomeKind};
use crate::query::parse::statement::Statement;

/// Warns when it is dropped, which is when the reads have ended.
struct Last {
    statement: Statement,
    tombstones: Arc<ManyTombstones>,
    warnings: Arc<Warnings>,
}

impl Drop for Last {
    fn drop(&mut self) {
        if let Some(TombstonePage { table, met, rows }) = self.tombstones.most() {
            let text = format!(
                "a read of {table} met {met} tombstones for a page of {rows} rows: leave out by a \
                 condition what is deleted, or have it purged (COMPACT)"
            );
            self.warnings.add(&self.statement, About::Tombstones, text);
        }
    }
}

/// The outcome of a statement, behind whose rows the warning is kept, also where nobody reads them
/// to the end.
pub fn warn_of_tombstones(
    statement: &Statement,
    mut outcome: Outcome,
    warnings: &Arc<Warnings>,
) -> Outcome {
    let Some(tombstones) = outcome.tombstones.take() else { return outcome };
    if let OutcomeKind::Rows(rows) = outcome.kind {
        let (statement, warnings) = (statement.clone(), Arc::clone(warnings));
        let last = Last { statement, tombstones, warnings };
        let rows = futures::stream::unfold((rows, last), |(mut rows, last)| async move {
            let Some(batch) = rows.next().await else {
                // The reads end before what they met is looked at.
                drop(rows);
                return None;
            };
            Some((batch, (rows, last)))
        });
        outcome.kind = OutcomeKind::Rows(rows.boxed());
    }
    outcome
}
