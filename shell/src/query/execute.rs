//! From the text of a statement to its outcome.
//!
//! Not here: how a session is set up and plans (`session.rs`), what each statement does
//! (`statements/`, `run.rs`), what is known of one before it runs (`sketch.rs`).
//!
//! Futures that hold plans or syntax trees are boxed: rustc walks all their types again in each
//! function that awaits one, to see that it is `Send`.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef as ArrowSchemaRef;
use datafusion::common::ScalarValue;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use tidegate_engine::{DEFAULT_LEVEL, Deadline, SchemaRef, ServiceLevel, Terms};

use super::error::{QueryError, Result};
use super::outcome::{Description, Outcome, OutcomeKind};
use super::parameter::{check_count, row_of};
use super::parse::said::{Said, Timeout, is_taker, timeout_of};
use super::parse::statement::{Statement, split};
use super::place::place;
use super::roster::planned;
use super::session::Session;
use super::setting::SERVICE_LEVEL;
use super::sketch::{Sketch, Sketched};
use super::statements::{self, Command};
use super::write::conditional::together;

impl Session {
    /// Runs every statement of `text` in order; all but the last run to their end and their rows
    /// are dropped, the last one's outcome is returned.
    ///
    /// Errors: the first that occurs; text without a statement is an error too.
    pub async fn execute(&self, text: &str) -> Result<Outcome> {
        let statements = split(text)?;
        let Some((last, others)) = statements.split_last() else {
            return Err(QueryError::new(super::ErrorKind::Syntax, "there is no statement"));
        };
        for statement in others {
            if let OutcomeKind::Rows(mut rows) = self.run(statement).await?.kind {
                while let Some(batch) = rows.next().await {
                    batch?;
                }
            }
        }
        self.run(last).await
    }

    /// Runs one statement. Writes are done when this returns, rows come while they are pulled.
    /// Dropping the future or the stream cancels.
    ///
    /// Errors: with a place in the text wherever there is one.
    pub async fn run(&self, statement: &Statement) -> Result<Outcome> {
        Ok(self.hold(statement, self.run_freely(statement).await?))
    }

    /// As `run`, whatever the size of the result.
    async fn run_freely(&self, statement: &Statement) -> Result<Outcome> {
        check_bare(statement)?;
        let run = pin!(self.run_bare(statement));
        self.attended(statement, || self.shown(statement), run).await
    }

    async fn run_bare(&self, statement: &Statement) -> Result<Outcome> {
        if let Some(terms) = self.own_terms(statement, None)? {
            return self.run_under(terms, statement, None).await;
        }
        if let Some(outcome) = self.run_if_short(statement, None, self.terms).await? {
            return Ok(outcome);
        }
        self.run_once(statement, parsed(statement)?, &[]).await
    }

    /// Runs one statement with parameters: column i of `parameters` is `$i`. A write runs once a
    /// row and counts are summed. A query runs once a row too: its rows for the first row of
    /// parameters come first, then those for the second. So do the answers of a write with IF.
    ///
    /// Errors: as `run`; `Invalid` for a wrong number of parameters or rows.
    pub async fn run_with(
        &self,
        statement: &Statement,
        parameters: &RecordBatch,
    ) -> Result<Outcome> {
        Ok(self.hold(statement, self.run_freely_with(statement, parameters).await?))
    }

    /// As `run_with`, whatever the size of the result.
    async fn run_freely_with(
        &self,
        statement: &Statement,
        parameters: &RecordBatch,
    ) -> Result<Outcome> {
        check_count(statement, parameters)?;
        let run = pin!(self.run_bound(statement, parameters));
        self.attended(statement, || self.shown(statement), run).await
    }

    async fn run_bound(&self, statement: &Statement, parameters: &RecordBatch) -> Result<Outcome> {
        if let Some(terms) = self.own_terms(statement, Some(parameters))? {
            return self.run_under(terms, statement, Some(parameters)).await;
        }
        if let Some(outcome) = self.run_if_short(statement, Some(parameters), self.terms).await? {
            return Ok(outcome);
        }
        self.run_rows(statement, parsed(statement)?, parameters).await
    }

    /// Runs a statement on its own terms.
    fn run_under<'a>(
        &'a self,
        terms: Terms,
        statement: &'a Statement,
        parameters: Option<&'a RecordBatch>,
    ) -> BoxFuture<'a, Result<Outcome>> {
        let run = async move {
            // A session of its own is more work than most short statements are.
            if let Some(outcome) = self.run_if_short(statement, parameters, Some(terms)).await? {
                return Ok(outcome);
            }
            let own = self.under(terms);
            match parameters {
                None => own.run_freely(statement).await,
                Some(parameters) => own.run_freely_with(statement, parameters).await,
            }
        };
        self.by_deadline(terms, statement.is_write_or_batch(), run.boxed()).boxed()
    }

    /// Runs a statement by its deadline. A write is not given up half-way: its shards refuse what
    /// they come to too late.
    ///
    /// Errors: `Timeout`, and those of the statement.
    pub(super) async fn by_deadline(
        &self,
        terms: Terms,
        is_write: bool,
        run: BoxFuture<'_, Result<Outcome>>,
    ) -> Result<Outcome> {
        let Some(deadline) = terms.deadline.filter(|_| !is_write) else { return run.await };
        let clock = self.database.clock();
        match tokio::time::timeout(deadline.left(&**clock), run).await {
            Ok(outcome) => Ok(outcome?.by(deadline, &**clock)),
            Err(_) => Err(deadline.passed("a statement was planned").into()),
        }
    }

    /// The terms of a statement, where they are not those of its session's settings: it names its
    /// service level, or has a time, which is the statement's own or else its level's.
    ///
    /// Errors: `NotFound` for a service level that does not exist; `Invalid` for a parameter that
    /// is no duration.
    pub(super) fn own_terms(
        &self,
        statement: &Statement,
        parameters: Option<&RecordBatch>,
    ) -> Result<Option<Terms>> {
        if self.terms.is_some() || !is_taker(statement.tokens()) {
            return Ok(None);
        }
        let said = statement.said();
        let of_caller = match said.level.is_none() && self.has_default_level() {
            true => self.level_of_caller(),
            false => None,
        };
        // Most statements say nothing, and the level of those that name none has no time.
        if *said == Said::default() && self.has_default_level() && of_caller.is_none() {
            return Ok(None);
        }
        let (id, timeout) = match &of_caller {
            Some(own) => {
                let timeout = own.timeout_ms.as_ref().map(|found| found.value);
                (own.level.value.id, timeout.map(Duration::from_millis))
            }
            None => {
                let level = self.named_level(said)?;
                (level.id, level.options.timeout())
            }
        };
        // A load takes as long as its file: what its role has is for single statements.
        let of_level = timeout.filter(|_| !statement.begins_with(&["copy"]));
        let timeout = said_timeout(statement, parameters)?.or(of_level);
        if timeout.is_none() && said.level.is_none() && of_caller.is_none() {
            return Ok(None);
        }
        let deadline = timeout.map(|time| Deadline::after(time, &**self.database.clock()));
        Ok(Some(Terms { deadline, level: id }))
    }

    /// On what terms an ingest runs: as work of the service level of its session, or of its
    /// caller, and without a time limit.
    ///
    /// Errors: `NotFound`, and `Denied` for a level that the caller may not use.
    pub fn ingest_terms(&self) -> Result<Terms> {
        let own = if self.has_default_level() { self.level_of_caller() } else { None };
        let level = match own {
            Some(own) => own.level.value.id,
            None => self.named_level(&Said::default())?.id,
        };
        Ok(Terms { deadline: None, level })
    }

    /// The service level that a statement names, or else its session.
    ///
    /// Errors: `NotFound`, and `Denied` for one that the caller may not use.
    fn named_level(&self, said: &Said) -> Result<ServiceLevel> {
        if let Some(name) = &said.level {
            let level = self.level(&name.value).map_err(|error| error.at(name.span))?;
            self.allow_level(&name.value).map_err(|error| error.at(name.span))?;
            return Ok(level);
        }
        let name = self.service_level();
        let level = self.level(&name).map_err(|error| {
            let help = format!("SET {SERVICE_LEVEL} = {DEFAULT_LEVEL}, or to another one");
            error.with_help(help)
        })?;
        self.allow_level(&name)?;
        Ok(level)
    }

    pub(super) fn run_rows<'a>(
        &'a self,
        statement: &'a Statement,
        command: Command,
        parameters: &'a RecordBatch,
    ) -> BoxFuture<'a, Result<Outcome>> {
        async move {
            if command.is_query() {
                let query = Sketch::unplanned(command).shared();
                return self.run_each(statement, &query, parameters).await;
            }
            let count = parameters.num_rows();
            if !matches!(command, Command::Write(_) | Command::Batch(_)) {
                if count != 1 {
                    return Err(QueryError::invalid(format!(
                        "this statement takes one row of parameters, {count} were given"
                    )));
                }
                return self.run_once(statement, command, &row_of(parameters, 0)?).await;
            }
            let (mut sum, mut answers) = (0, Vec::new());
            for row in 0..count {
                let values = row_of(parameters, row)?;
                let outcome = self.run_once(statement, command.clone(), &values).await?;
                match outcome.kind {
                    OutcomeKind::Count(count) => sum += count,
                    OutcomeKind::Decided(answer) => answers.push(answer),
                    _ => return Ok(outcome),
                }
            }
            match answers.is_empty() {
                true => Ok(Outcome::count(sum)),
                false => together(&answers),
            }
        }
        .boxed()
    }

    /// The table that a `DROP TABLE` would drop, with the unqualified names of `keyspace`; `None`
    /// for other statements.
    pub fn table_to_drop(&self, statement: &Statement, keyspace: &str) -> Option<SchemaRef> {
        if !statement.begins_with(&["drop", "table"]) {
            return None;
        }
        let own = self.at(keyspace);
        match statements::parse(statement).ok()? {
            Command::Own(drop) => drop.table_to_drop().and_then(|name| own.table(name).ok()),
            _ => None,
        }
    }

    /// Schema of the result and of the parameters, without running the statement.
    ///
    /// Errors: as `run`, as far as planning finds them.
    pub async fn describe(&self, statement: &Statement) -> Result<Description> {
        let running = self.begin(|| self.shown(statement));
        let describe = async {
            let sketch = self.sketch(statement).await?;
            self.describe_sketch(statement, &sketch, None).await
        };
        planned(running, pin!(describe)).await
    }

    /// As [`Session::describe`], of the statement with the first row of `parameters` in it: the
    /// types of a result can follow from those of its parameters.
    ///
    /// Errors: as `run_with`, as far as planning finds them.
    pub async fn describe_with(
        &self,
        statement: &Statement,
        parameters: &RecordBatch,
    ) -> Result<Description> {
        check_count(statement, parameters)?;
        let sketch = self.sketch(statement).await?;
        self.describe_sketch(statement, &sketch, Some(parameters)).await
    }

    /// The types of the parameters of a statement, planned no further than they need.
    ///
    /// Errors: as `describe`.
    pub async fn parameters(&self, statement: &Statement) -> Result<ArrowSchemaRef> {
        Ok(Arc::clone(&self.sketch(statement).await?.parameters))
    }

    /// Runs a statement once, by the plan of its sketch where it is a query that has one.
    pub(super) fn run_sketch<'a>(
        &'a self,
        statement: &'a Statement,
        sketch: &'a Sketched,
        values: &'a [ScalarValue],
    ) -> BoxFuture<'a, Result<Outcome>> {
        async move {
            let Some(plan) = sketch.plan_of_query().cloned() else {
                return self.run_once(statement, sketch.command.clone(), values).await;
            };
            if let Some(outcome) = self.analyze_short(statement, values).await? {
                return Ok(outcome);
            }
            let outcome = self.rows_of_plan(plan, values).await;
            let outcome = outcome.map_err(|error| place(statement, error))?;
            self.name_path(statement, values, placed(statement, outcome))
        }
        .boxed()
    }

    fn run_once<'a>(
        &'a self,
        statement: &'a Statement,
        command: Command,
        values: &'a [ScalarValue],
    ) -> BoxFuture<'a, Result<Outcome>> {
        async move {
            if let Some(outcome) = self.analyze_short(statement, values).await? {
                return Ok(outcome);
            }
            let outcome = match self.is_run_on_all(statement, &command) {
                true => self.run_on_all(statement, command, values).await,
                false => self.run_command(command, values).await,
            };
            self.audit_statement(statement, &outcome);
            let outcome = outcome.map_err(|error| place(statement, error))?;
            self.name_path(statement, values, placed(statement, outcome))
        }
        .boxed()
    }
}

/// How long a statement says that it may take.
///
/// Errors: `Invalid` for a parameter that is no duration, or another one in another row.
fn said_timeout(
    statement: &Statement,
    parameters: Option<&RecordBatch>,
) -> Result<Option<Duration>> {
    let number = match statement.said().timeout {
        None => return Ok(None),
        Some(Timeout::Given(timeout)) => return Ok(Some(timeout)),
        Some(Timeout::Parameter(number)) => number,
    };
    let refuse = |why: &str| {
        let error = QueryError::invalid(format!("parameter ${number}, the timeout, {why}"));
        Err(error.with_help("bind a text with a number and a unit: 500ms, 2s, 1m30s"))
    };
    let Some(rows) = parameters.filter(|rows| rows.num_rows() > 0) else { return Ok(None) };
    let mut all = None;
    for row in 0..rows.num_rows() {
        let value = ScalarValue::try_from_array(rows.column(number - 1), row)?;
        let text = value.try_as_str().flatten();
        let Some(timeout) = text.and_then(timeout_of) else {
            return refuse(&format!("is no duration: {value}"));
        };
        if all.replace(timeout).is_some_and(|other| other != timeout) {
            return refuse("is another one in another row, and all rows are one run");
        }
    }
    Ok(all)
}

/// What goes wrong while rows are made, such as a division, has a place too.
fn placed(statement: &Statement, mut outcome: Outcome) -> Outcome {
    if let OutcomeKind::Rows(rows) = outcome.kind {
        let statement = statement.clone();
        let rows = rows.map(move |rows| rows.map_err(|error| place(&statement, error)));
        outcome.kind = OutcomeKind::Rows(rows.boxed());
    }
    outcome
}

pub(super) fn parsed(statement: &Statement) -> Result<Command> {
    statements::parse(statement).map_err(|error| place(statement, error))
}

/// Errors: `Invalid` for a statement that needs values.
pub(super) fn check_bare(statement: &Statement) -> Result<()> {
    match statement.parameter_count() {
        0 => Ok(()),
        count => {
            let message = format!("the statement has parameters without values: {count}");
            Err(place(statement, QueryError::invalid(message)))
        }
    }
}
