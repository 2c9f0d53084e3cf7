//! The short path as a session offers it.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::common::ScalarValue;
use futures::{StreamExt, stream};
use tidegate_engine::{Catalog, Terms};

use super::Short;
use super::lookup::RunContext;
use crate::query::error::Result;
use crate::query::outcome::{Outcome, OutcomeKind, batch};
use crate::query::parse::statement::Statement;
use crate::query::roster::note_running;
use crate::query::session::Session;
use crate::query::setting::{bypasses_cache, has_short_path, terms_of_options};

impl Session {
    /// The statement as the short path takes it, with the unqualified names of `keyspace`; `None`
    /// where the planner has to look at it.
    pub fn short(&self, statement: &Statement, keyspace: &str) -> Option<Short> {
        self.short_under(&self.database.catalog(), statement, keyspace)
    }

    /// As [`Session::short`], with the tables of a catalog that was looked at before.
    pub(in crate::query) fn short_under(
        &self,
        catalog: &Catalog,
        statement: &Statement,
        keyspace: &str,
    ) -> Option<Short> {
        if !has_short_path(self.context.state_ref().read().config_options()) {
            return None;
        }
        Short::of(statement.tokens(), statement, catalog, keyspace)
    }

    /// Runs a statement on the short path, with rows of parameters where it has any, on these terms
    /// or on those of the settings. `None` means that nothing was done: the planner's path has the
    /// answer, or the error.
    ///
    /// Errors: as `run`.
    pub(in crate::query) async fn run_short(
        &self,
        short: &Short,
        parameters: Option<&RecordBatch>,
        terms: Option<Terms>,
    ) -> Result<Option<Outcome>> {
        self.allow_short(short)?;
        note_running();
        let (past_cache, terms) = self.read_terms(terms);
        let (memory, tombstones) = (&self.options.memory, Arc::default());
        let context = RunContext { memory, past_cache, terms, tombstones };
        let outcome = short.run(&self.database, parameters, &context).await?;
        Ok(outcome.map(|outcome| outcome.noting(context.tombstones)))
    }

    /// Whether reads pass the caches, and the terms of a statement that says none itself.
    pub(in crate::query) fn read_terms(&self, terms: Option<Terms>) -> (bool, Terms) {
        let state = self.context.state_ref();
        let state = state.read();
        let options = state.config_options();
        let of_session = || terms_of_options(options, &self.database.catalog());
        (bypasses_cache(options), terms.unwrap_or_else(of_session))
    }

    /// As [`Session::run_short`], of a statement that was not read yet.
    pub(in crate::query) async fn run_if_short(
        &self,
        statement: &Statement,
        parameters: Option<&RecordBatch>,
        terms: Option<Terms>,
    ) -> Result<Option<Outcome>> {
        match self.short(statement, &self.keyspace()) {
            Some(short) => self.run_short(&short, parameters, terms).await,
            None => Ok(None),
        }
    }

    /// Adds to the outcome of an EXPLAIN that its statement runs without the plan, if it does.
    pub(in crate::query) fn name_path(
        &self,
        statement: &Statement,
        values: &[ScalarValue],
        outcome: Outcome,
    ) -> Result<Outcome> {
        let is_on = || has_short_path(self.context.state_ref().read().config_options());
        if !statement.begins_with(&["explain"]) || !is_on() {
            return Ok(outcome);
        }
        let explained = &statement.tokens()[1..];
        let catalog = self.database.catalog();
        let short = Short::of(explained, statement, &catalog, &self.keyspace());
        let Some(short) = short.filter(|short| short.takes_values(values)) else {
            return Ok(outcome);
        };
        let Outcome { schema, kind: OutcomeKind::Rows(rows), note, .. } = outcome else {
            return Ok(outcome);
        };
        let text = |text: &str| Arc::new(StringArray::from(vec![text])) as ArrayRef;
        let path = vec![text("path"), text(short.path())];
        let last = batch(Arc::clone(&schema), path)?;
        let rows = rows.chain(stream::iter([Ok(last)])).boxed();
        Ok(Outcome { note, ..Outcome::rows(schema, rows) })
    }
}
