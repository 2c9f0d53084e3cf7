//! From the text of a statement to its outcome, or to what is known of it before it runs.
//!
//! Not here: how a session is set up and plans (`session.rs`), what each statement does
//! (`statements/`, `run.rs`).
//!
//! Futures that hold plans or syntax trees are boxed: rustc walks all their types again in each
//! function that awaits one, to see that it is `Send`.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef as ArrowSchemaRef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use tidegate_engine::SchemaRef;

use super::error::{QueryError, Result};
use super::outcome::{Description, Outcome, OutcomeKind};
use super::parameter::{self, check_count, row_of};
use super::parse::statement::{Statement, split};
use super::parse::{UsingValue, WriteKind};
use super::place::place;
use super::session::{Session, has_union};
use super::statements::{self, Command};
use super::write::element;
use super::write::insert;

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
        check_bare(statement)?;
        if let Some(outcome) = self.run_if_short(statement, None).await? {
            return Ok(outcome);
        }
        self.run_once(statement, parsed(statement)?, &[]).await
    }

    /// Runs one statement with parameters: column i of `parameters` is `$i`. A write runs once a
    /// row and counts are summed; a query takes exactly one row.
    ///
    /// Errors: as `run`; `Invalid` for a wrong number of parameters or rows.
    pub async fn run_with(
        &self,
        statement: &Statement,
        parameters: &RecordBatch,
    ) -> Result<Outcome> {
        check_count(statement, parameters)?;
        if let Some(outcome) = self.run_if_short(statement, Some(parameters)).await? {
            return Ok(outcome);
        }
        self.run_rows(statement, parsed(statement)?, parameters).await
    }

    fn run_rows<'a>(
        &'a self,
        statement: &'a Statement,
        command: Command,
        parameters: &'a RecordBatch,
    ) -> BoxFuture<'a, Result<Outcome>> {
        async move {
            let count = parameters.num_rows();
            if !matches!(command, Command::Write(_)) {
                if count != 1 {
                    return Err(QueryError::invalid(format!(
                        "a query takes one row of parameters, {count} were given"
                    )));
                }
                return self.run_once(statement, command, &row_of(parameters, 0)?).await;
            }
            let mut sum = 0;
            for row in 0..count {
                let values = row_of(parameters, row)?;
                let outcome = self.run_once(statement, command.clone(), &values).await?;
                match outcome.kind {
                    OutcomeKind::Count(count) => sum += count,
                    _ => return Ok(outcome),
                }
            }
            Ok(Outcome::count(sum))
        }
        .boxed()
    }

    /// The table that a `DROP TABLE` would drop; `None` for other statements.
    pub fn table_to_drop(&self, statement: &Statement) -> Option<SchemaRef> {
        if !statement.begins_with(&["drop", "table"]) {
            return None;
        }
        match statements::parse(statement).ok()? {
            Command::Own(own) => own.table_to_drop().and_then(|name| self.table(name).ok()),
            _ => None,
        }
    }

    /// Runs a query, with one row of parameters where it has any.
    ///
    /// Errors: as `run_with`; `Invalid` for anything but a query, of which nothing is done.
    pub async fn run_query(
        &self,
        statement: &Statement,
        parameters: Option<&RecordBatch>,
    ) -> Result<Outcome> {
        let command = parsed(statement)?;
        if !command.is_query() {
            return Err(QueryError::invalid("the statement is no query"));
        }
        match parameters {
            Some(parameters) if statement.parameter_count() > 0 => {
                check_count(statement, parameters)?;
                self.run_rows(statement, command, parameters).await
            }
            _ => {
                check_bare(statement)?;
                self.run_once(statement, command, &[]).await
            }
        }
    }

    /// Schema of the result and of the parameters, without running the statement.
    ///
    /// Errors: as `run`, as far as planning finds them.
    pub async fn describe(&self, statement: &Statement) -> Result<Description> {
        self.describe_bound(statement, None).await
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
        self.describe_bound(statement, Some(parameters)).await
    }

    /// The types of the parameters of a statement, planned no further than they need.
    ///
    /// Errors: as `describe`.
    pub async fn parameters(&self, statement: &Statement) -> Result<ArrowSchemaRef> {
        let command = parsed(statement)?;
        let sketch = self.sketch(statement, &command).await;
        let sketch = sketch.map_err(|error| place(statement, error))?;
        Ok(sketch.map_or_else(|| Arc::new(Schema::empty()), |(_, parameters)| parameters))
    }

    fn describe_bound<'a>(
        &'a self,
        statement: &'a Statement,
        bound: Option<&'a RecordBatch>,
    ) -> BoxFuture<'a, Result<Description>> {
        async move {
            let in_text = |error| place(statement, error);
            let command = parsed(statement)?;
            let sketch = self.sketch(statement, &command).await.map_err(in_text)?;
            let Some((plan, parameters)) = sketch else {
                let schema = self.own_schema(&command).await?;
                let returns_rows = !schema.fields().is_empty();
                let (parameters, is_query) = (Arc::new(Schema::empty()), command.is_query());
                return Ok(Description { schema, parameters, returns_rows, is_query });
            };
            let returns_rows =
                matches!(command, Command::Query(_)) && !matches!(plan, LogicalPlan::Statement(_));
            let schema = match bound.filter(|rows| returns_rows && rows.num_rows() > 0) {
                Some(rows) => {
                    let plan = self.bind(plan, &row_of(rows, 0)?).map_err(in_text)?;
                    self.result_schema(&plan).await.map_err(in_text)?
                }
                // The planner loses parameters in branches of a union.
                None if returns_rows && has_union(&plan)? => {
                    let none = vec![ScalarValue::Null; statement.parameter_count()];
                    let plan = self.bind(plan, &none).map_err(in_text)?;
                    self.result_schema(&plan).await.map_err(in_text)?
                }
                None if returns_rows => self.result_schema(&plan).await.map_err(in_text)?,
                None => Arc::new(Schema::empty()),
            };
            let is_query = returns_rows && command.is_query();
            Ok(Description { schema, parameters, returns_rows, is_query })
        }
        .boxed()
    }

    /// The logical plan of a query or write and the types of its parameters; `None` for statements
    /// of our own.
    async fn sketch(
        &self,
        statement: &Statement,
        command: &Command,
    ) -> Result<Option<(LogicalPlan, ArrowSchemaRef)>> {
        let (mut known, mut given) = (Vec::new(), Vec::new());
        let plan = match command {
            Command::Query(sql) => self.plan(sql.clone()).await?,
            Command::Write(write) => {
                let table = self.table(&write.table)?;
                if !write.elements.changes.is_empty() {
                    known = element::parameters(&table, &write.elements)?;
                }
                let numbers = [write.using.ttl, write.using.timestamp].into_iter();
                known.extend(numbers.filter_map(|value| match value {
                    Some(UsingValue::Parameter(n)) => Some((n, DataType::Int64)),
                    _ => None,
                }));
                let names = match &write.kind {
                    WriteKind::Insert(columns) => insert::names(write, &table, columns)?,
                    WriteKind::Update(_) | WriteKind::Delete(_) => Vec::new(),
                };
                let mut sql = write.statement.clone();
                self.tell_literals(&mut sql, &table, &names);
                match insert::selected(&sql) {
                    // As it runs: DataFusion takes VALUES within the query for rows of the table.
                    Some(query) => {
                        let plan = self.plan(query).await?;
                        given = insert::parameters(&plan, &table, &names);
                        insert::of_query(plan, &table, &names)?
                    }
                    None => self.plan(sql).await?,
                }
            }
            _ => return Ok(None),
        };
        let mut found = parameter::types(&plan)?;
        found.extend(given);
        found.extend(known.into_iter().map(|(n, ty)| (format!("${n}"), ty)));
        let parameters: Vec<Field> = (1..=statement.parameter_count())
            .map(|n| {
                let name = format!("${n}");
                // As in SELECT ?: what is bound says what it is.
                let ty = found.get(&name).cloned().unwrap_or(DataType::Null);
                Field::new(name, ty, true)
            })
            .collect();
        Ok(Some((plan, Arc::new(Schema::new(parameters)))))
    }

    fn run_once<'a>(
        &'a self,
        statement: &'a Statement,
        command: Command,
        values: &'a [ScalarValue],
    ) -> BoxFuture<'a, Result<Outcome>> {
        async move {
            let mut outcome =
                self.run_command(command, values).await.map_err(|error| place(statement, error))?;
            // What goes wrong while rows are made, such as a division, has a place too.
            if let OutcomeKind::Rows(rows) = outcome.kind {
                let statement = statement.clone();
                let rows = rows.map(move |rows| rows.map_err(|error| place(&statement, error)));
                outcome.kind = OutcomeKind::Rows(rows.boxed());
            }
            self.name_path(statement, values, outcome)
        }
        .boxed()
    }
}

fn parsed(statement: &Statement) -> Result<Command> {
    statements::parse(statement).map_err(|error| place(statement, error))
}

/// Errors: `Invalid` for a statement that needs values.
fn check_bare(statement: &Statement) -> Result<()> {
    match statement.parameter_count() {
        0 => Ok(()),
        count => {
            let message = format!("the statement has parameters without values: {count}");
            Err(place(statement, QueryError::invalid(message)))
        }
    }
}
