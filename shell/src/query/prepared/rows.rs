//! Queries by the key of a row, run for many keys at once.
//!
//! What one execution costs beside its read is done once for all of them: a client that sends many
//! keys waits for each as for one of many. Invariant: each execution gives what it gives by itself.
//! Where somebody watches statements, or where they have terms of their own, each is run by itself.

use std::pin::pin;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;

use super::Prepared;
use crate::query::error::Result;
use crate::query::limit::warn_of_tombstones;
use crate::query::roster::note_running;
use crate::query::session::Session;
use crate::query::setting;
use crate::query::short::{RunContext, Short};

impl Session {
    /// Whether a prepared statement is a query by the key of a row, which
    /// [`Session::run_rows_prepared`] takes.
    pub fn is_of_a_row(&self, prepared: &Prepared) -> bool {
        self.made(prepared).short().is_some_and(Short::is_of_a_row)
    }

    /// Runs a query by the key of a row for each of these batches, of a row of parameters each,
    /// at once. Gives what each of them gives, in their order. `None` means that nothing was done:
    /// each has to be run by [`Session::run_prepared`].
    ///
    /// Errors: `Denied`; `Overloaded` where too many queries run; `Unavailable` where somebody
    /// ended them. The error of one execution is in its place.
    pub async fn run_rows_prepared(
        &self,
        prepared: &Prepared,
        all: &[RecordBatch],
    ) -> Result<Option<Vec<Result<RecordBatch>>>> {
        let statement = &prepared.statement;
        let made = self.made(prepared);
        let short = made.short().filter(|short| short.is_of_a_row());
        let (Some(short), Some(first)) = (short, all.first()) else { return Ok(None) };
        let has_terms = !matches!(self.own_terms(statement, Some(first)), Ok(None));
        if has_terms || self.watching(statement).is_some() {
            return Ok(None);
        }
        self.allow_short(short)?;
        let running = self.begin_many(|| Arc::clone(&prepared.shown), all.len() as u64);
        let (past_cache, terms) = self.read_terms(self.terms);
        let (memory, tombstones) = (&self.options.memory, Arc::default());
        let context = RunContext { memory, past_cache, terms, tombstones };
        let run = pin!(async {
            note_running();
            short.run_rows(&self.database, all, &context).await
        });
        let found = match &running {
            Some(running) => running.unless_ended(run).await??,
            None => run.await?,
        };
        let Some(found) = found else { return Ok(None) };
        warn_of_tombstones(statement, &context.tombstones, &self.warnings);
        let limits = setting::result_limits(self.context.state_ref().read().config_options());
        let held = |row: Result<RecordBatch>| {
            let row = row?;
            // Each is a result of its own.
            limits.add(&row, &mut Default::default(), statement, &self.warnings)?;
            Ok(row)
        };
        Ok(Some(found.into_iter().map(held).collect()))
    }
}
