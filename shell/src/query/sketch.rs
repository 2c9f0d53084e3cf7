//! What is known of a statement before values are bound to it: its command, its logical plan, the
//! types of its parameters and of its result.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef as ArrowSchemaRef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::error::Result;
use super::outcome::Description;
use super::parameter::{self, row_of};
use super::parse::said::Timeout;
use super::parse::statement::Statement;
use super::parse::{UsingValue, Write, WriteKind};
use super::place::place;
use super::session::{Session, has_union};
use super::statements::{self, Command};
use super::write::condition::{self, answer_schema, shown_columns};
use super::write::element;
use super::write::insert;

/// See the head of this file.
pub struct Sketch {
    pub command: Command,
    /// Of a query or write, without values; `None` for statements of our own.
    pub plan: Option<LogicalPlan>,
    /// One field a parameter, named `$n`; of type `Null` where what is bound says what it is.
    pub parameters: ArrowSchemaRef,
}

/// A sketch behind bounds, as a session's context is: rustc need not walk all plans and syntax
/// trees to see that it is `Send`.
pub type Sketched = Arc<dyn Deref<Target = Sketch> + Send + Sync>;

impl Sketch {
    /// Of a command that is planned when it runs.
    pub fn unplanned(command: Command) -> Self {
        Sketch { command, plan: None, parameters: Arc::new(Schema::empty()) }
    }

    pub fn shared(self) -> Sketched {
        Arc::new(Box::new(self))
    }

    /// The plan that a query runs by, once values are in it.
    pub fn plan_of_query(&self) -> Option<&LogicalPlan> {
        let is_query = matches!(self.command, Command::Query(_));
        self.plan.as_ref().filter(|plan| is_query && !matches!(plan, LogicalPlan::Statement(_)))
    }
}

impl Session {
    /// Parses a statement and plans it without values.
    ///
    /// Errors: as `run`, as far as planning finds them.
    pub(super) fn sketch<'a>(&'a self, statement: &'a Statement) -> BoxFuture<'a, Result<Sketch>> {
        async move {
            let in_text = |error| place(statement, error);
            let command = statements::parse(statement).map_err(in_text)?;
            self.allow_command(&command).map_err(in_text)?;
            let (plan, found) = match &command {
                Command::Query(sql) => {
                    let plan = self.plan(sql.clone()).await.map_err(in_text)?;
                    (plan, Vec::new())
                }
                Command::Write(write) => self.sketch_write(write).await.map_err(in_text)?,
                Command::Batch(batch) => {
                    let found = self.batch_parameters(batch).await.map_err(in_text)?;
                    let parameters = fields(statement, &found.into_iter().collect());
                    return Ok(Sketch { command, plan: None, parameters });
                }
                _ => return Ok(Sketch::unplanned(command)),
            };
            let mut types = parameter::types(&plan).map_err(in_text)?;
            types.extend(found);
            let parameters = fields(statement, &types);
            Ok(Sketch { command, plan: Some(plan), parameters })
        }
        .boxed()
    }

    /// The types of parameters of a write, by their names.
    pub(super) async fn write_parameters(&self, write: &Write) -> Result<Vec<(String, DataType)>> {
        let (plan, found) = self.sketch_write(write).await?;
        Ok(parameter::types(&plan)?.into_iter().chain(found).collect())
    }

    /// The plan of a write, and the types of parameters that do not follow from it.
    async fn sketch_write(&self, write: &Write) -> Result<(LogicalPlan, Vec<(String, DataType)>)> {
        let table = self.table(&write.table)?;
        let (mut known, mut given) = (Vec::new(), Vec::new());
        if !write.elements.changes.is_empty() {
            known = element::parameters(&table, &write.elements)?;
        }
        if let Some(clause) = &write.condition {
            known.extend(condition::parameters(&table, clause)?);
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
        let plan = match insert::selected(&sql) {
            // As it runs: DataFusion takes VALUES within the query for rows of the table.
            Some(query) => {
                let plan = self.plan(query).await?;
                given = insert::parameters(&plan, &table, &names).into_iter().collect();
                insert::of_query(plan, &table, &names)?
            }
            None => self.plan(sql).await?,
        };
        given.extend(known.into_iter().map(|(n, ty)| (format!("${n}"), ty)));
        Ok((plan, given))
    }

    /// What a statement would give and take, with the first row of `bound` in it, if any.
    pub(super) fn describe_sketch<'a>(
        &'a self,
        statement: &'a Statement,
        sketch: &'a Sketch,
        bound: Option<&'a RecordBatch>,
    ) -> BoxFuture<'a, Result<Description>> {
        async move {
            let in_text = |error| place(statement, error);
            let (command, parameters) = (&sketch.command, Arc::clone(&sketch.parameters));
            let Some(plan) = &sketch.plan else {
                let schema = self.own_schema(command).await.map_err(in_text)?;
                let returns_rows = !schema.fields().is_empty();
                let is_query = command.is_query();
                let is_conditional = returns_rows && matches!(command, Command::Batch(_));
                return Ok(Description {
                    schema,
                    parameters,
                    returns_rows,
                    is_query,
                    is_conditional,
                    divided: None,
                });
            };
            if let Command::Write(Write { table, condition: Some(condition), .. }) = command {
                let table = self.table(table).map_err(in_text)?;
                let columns = shown_columns(&table, condition).map_err(in_text)?;
                let schema = answer_schema(&table, &columns);
                return Ok(Description {
                    schema,
                    parameters,
                    returns_rows: true,
                    is_query: false,
                    is_conditional: true,
                    divided: None,
                });
            }
            let returns_rows = sketch.plan_of_query().is_some();
            let (schema, divided) = match bound.filter(|rows| returns_rows && rows.num_rows() > 0) {
                Some(rows) => {
                    let plan = self.bind(plan.clone(), &row_of(rows, 0)?).map_err(in_text)?;
                    let (schema, divided) = self.result_of(&plan).await.map_err(in_text)?;
                    match rows.num_rows() {
                        1 => (schema, divided),
                        // Those of the first row of parameters come first.
                        _ => (nullable(&schema), None),
                    }
                }
                // The planner loses parameters in branches of a union.
                None if returns_rows && has_union(plan)? => {
                    let none = vec![ScalarValue::Null; statement.parameter_count()];
                    let plan = self.bind(plan.clone(), &none).map_err(in_text)?;
                    self.result_of(&plan).await.map_err(in_text)?
                }
                None if returns_rows => self.result_of(plan).await.map_err(in_text)?,
                None => (Arc::new(Schema::empty()), None),
            };
            let is_query = returns_rows && command.is_query();
            let is_conditional = false;
            Ok(Description { schema, parameters, returns_rows, is_query, is_conditional, divided })
        }
        .boxed()
    }
}

/// A field for each parameter of a statement.
fn fields(statement: &Statement, types: &HashMap<String, DataType>) -> ArrowSchemaRef {
    let timeout = match statement.said().timeout {
        Some(Timeout::Parameter(n)) => Some(n),
        _ => None,
    };
    let field = |n: usize| {
        let name = format!("${n}");
        if timeout == Some(n) {
            return Field::new(name, DataType::Utf8, true);
        }
        // As in SELECT ?: what is bound says what it is.
        let ty = types.get(&name).cloned().unwrap_or(DataType::Null);
        Field::new(name, ty, true)
    };
    Arc::new(Schema::new((1..=statement.parameter_count()).map(field).collect::<Vec<_>>()))
}

/// The columns of a query that runs with several rows of parameters: a later row may bring a null.
pub fn nullable(schema: &Schema) -> ArrowSchemaRef {
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}
