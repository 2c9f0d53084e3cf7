//! Queries and writes: from parsed statements to plans, rows and mutations.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{Schema, SchemaRef as ArrowSchemaRef};
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::{LogicalPlan, SetVariable, Statement as SetStatement};
use datafusion::physical_plan::execute_stream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::Statement as SqlStatement;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use tidegate_engine::batch::{RowError, WriteOptions, expiry, mutations};
use tidegate_engine::probe::{Detail, Watch};
use tidegate_engine::{
    DataType, Database, ManyTombstones, Mutation, SchemaRef, TableSchema, Terms,
};

use super::error::{QueryError, Result};
use super::outcome::{Outcome, batch, text_schema};
use super::parse::{Name, Operands, TableName, Using, UsingValue, Write, WriteKind};
use super::plan::deep;
use super::roster::note_running;
use super::session::Session;
use super::setting::{SERVICE_LEVEL, check_name};
use super::statements::Command;
use super::system::SystemSource;
use super::types::assign;
use super::watch;
use super::write::element::{self, Changes};
use super::write::in_flight::InFlight;
use super::write::stamp::{self, Contradiction, Repeats};
use super::write::{self, Target, insert, values};

/// What arrow panics with where text or bytes of one batch take more than 2 GB.
const OFFSET_OVERFLOW: &str = "offset overflow";

/// Most rows of an INSERT that are written with one call.
pub(super) const WRITE_ROWS_MAX: usize = 4096;

/// Whether a plan reads tables of keyspace `system` and no others.
fn reads_system_alone(plan: &LogicalPlan) -> Result<bool> {
    let (mut has_system, mut has_others) = (false, false);
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let provider = source_as_provider(&scan.source)?;
            let is_system = provider.downcast_ref::<SystemSource>().is_some();
            (has_system, has_others) = (has_system | is_system, has_others | !is_system);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(has_system && !has_others)
}

impl Session {
    pub(super) async fn run_command(
        &self,
        command: Command,
        values: &[ScalarValue],
    ) -> Result<Outcome> {
        self.allow_command(&command)?;
        if !command.is_query() {
            note_running();
        }
        match command {
            Command::Query(sql) => self.query(sql, values).await,
            Command::Write(write) => self.write(&write, values).await,
            Command::Batch(batch) => self.batch(&batch, values).await,
            Command::ExplainWrite(write) => self.explain_write(&write, values).await,
            Command::Own(own) => own.run_any(self).await,
        }
    }

    /// Schema of a statement that DataFusion does not plan: of its rows, or none.
    pub(super) async fn own_schema(&self, command: &Command) -> Result<ArrowSchemaRef> {
        match command {
            Command::ExplainWrite(_) => Ok(plan_schema()),
            Command::Own(own) => own.schema_any(self).await,
            Command::Batch(batch) => {
                Ok(self.batch_schema(batch)?.unwrap_or_else(|| Arc::new(Schema::empty())))
            }
            Command::Query(_) | Command::Write(_) => Ok(Arc::new(Schema::empty())),
        }
    }

    pub(super) fn query<'a>(
        &'a self,
        sql: SqlStatement,
        values: &'a [ScalarValue],
    ) -> BoxFuture<'a, Result<Outcome>> {
        async move {
            let plan = self.plan(sql).await?;
            watch::note(|| "parsed");
            if let LogicalPlan::Statement(set) = &plan {
                self.check_setting(set)?;
                // SET and RESET change the session; they have no rows.
                self.stamp.renew();
                let set = self.context.execute_logical_plan(plan).await;
                self.stamp.renew();
                self.member.set_service_level(&self.service_level());
                return set.map(|_| Outcome::message("done")).map_err(QueryError::from);
            }
            self.rows_of_plan(plan, values).await
        }
        .boxed()
    }

    /// Errors: `NotFound` for a setting or service level that does not exist.
    fn check_setting(&self, set: &SetStatement) -> Result<()> {
        let name = match set {
            SetStatement::SetVariable(set) => &set.variable,
            SetStatement::ResetVariable(reset) => &reset.variable,
            _ => return Ok(()),
        };
        check_name(name, self.context.state_ref().read().config_options())?;
        match set {
            SetStatement::SetVariable(SetVariable { variable, value })
                if variable == SERVICE_LEVEL =>
            {
                self.level(value).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Runs the plan of a query.
    pub(super) async fn rows_of_plan(
        &self,
        plan: LogicalPlan,
        values: &[ScalarValue],
    ) -> Result<Outcome> {
        let tombstones = Arc::default();
        let stream = self.stream_noting(self.bind(plan, values)?, &tombstones).await?;
        let schema = stream.schema();
        let rows = stream.map(|batch| batch.map_err(QueryError::from)).boxed();
        Ok(Outcome::rows(schema, rows).noting(tombstones))
    }

    /// Plans and starts a query, when it is its turn; the stream gives that back as it is dropped.
    pub(super) async fn stream(&self, plan: LogicalPlan) -> Result<SendableRecordBatchStream> {
        self.stream_noting(plan, &Arc::default()).await
    }

    /// The same; scans tell of pages that met many tombstones.
    async fn stream_noting(
        &self,
        plan: LogicalPlan,
        tombstones: &Arc<ManyTombstones>,
    ) -> Result<SendableRecordBatchStream> {
        self.allow_plan(&plan)?;
        // Who looks at what goes on when there is too much of it must not wait for it to end.
        let turn = match reads_system_alone(&plan)? {
            true => None,
            false => Some(self.options.memory.turn().await?),
        };
        let mut state = self.context.state();
        state.config_mut().set_extension(Arc::clone(tombstones));
        let is_analyzed = || matches!(plan, LogicalPlan::Analyze(_));
        let analyzes = || Watch::new(Arc::clone(self.database.clock()), Detail::Counts);
        if let Some(watch) = watch::current().or_else(|| is_analyzed().then(analyzes)) {
            state.config_mut().set_extension(watch);
        }
        watch::note(|| "has its turn among queries");
        // Expressions of constants are computed while it plans.
        let physical = AssertUnwindSafe(deep::physical(&state, &plan)).catch_unwind().await;
        let physical = physical.map_err(|panic| panicked(&*panic))??;
        watch::note(|| "planned");
        note_running();
        let rows = execute_stream(physical, state.task_ctx())?;
        watch::note(|| "rows begin");
        let schema = rows.schema();
        let rows = AssertUnwindSafe(rows).catch_unwind().map(move |rows| {
            let _held = &turn;
            rows.unwrap_or_else(|panic| Err(panicked(&*panic)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    /// The rows of a query statement.
    pub(super) fn rows_of<'a>(
        &'a self,
        sql: SqlStatement,
    ) -> BoxFuture<'a, Result<SendableRecordBatchStream>> {
        async move {
            let plan = self.plan(sql).await?;
            self.stream(plan).await
        }
        .boxed()
    }

    async fn write(&self, write: &Write, values: &[ScalarValue]) -> Result<Outcome> {
        let table = self.table(&write.table)?;
        let options = self.write_options(write.using, values)?;
        expiry(&table, &options)?;
        if element::is_counting(&table, &write.elements) {
            return self.count(write, &table, values, &options).await;
        }
        if write.condition.is_some() {
            return self.write_if(write, &table, values, &options).await;
        }
        if let WriteKind::Insert(columns) = &write.kind {
            return self.insert(write, &table, columns, values, &options).await;
        }
        let changed = self.changed(write, &table, values, &options).await?;
        let mutations = changed.map_or_else(Vec::new, |(_, mutations)| mutations);
        let count = mutations.iter().map(|mutation| mutation.rows.len().max(1) as u64).sum();
        write_rows(&self.database, mutations, self.write_terms()).await?;
        Ok(Outcome::count(count))
    }

    /// What an UPDATE or DELETE touches and writes; `None` when its conditions exclude each other.
    pub(super) async fn changed(
        &self,
        write: &Write,
        table: &TableSchema,
        values: &[ScalarValue],
        options: &WriteOptions,
    ) -> Result<Option<(Target, Vec<Mutation>)>> {
        let changes = self.changes(write, table, values, options).await?;
        let name = &write.table;
        Ok(match &write.kind {
            WriteKind::Insert(_) => unreachable!("an INSERT touches what its rows say"),
            WriteKind::Update(columns) => {
                let target = self.target(write, table, columns, values, "UPDATE").await?;
                let Some(target) = target else { return Ok(None) };
                let mutations = write::update(table, name, &target, &changes, options)?;
                Some((target, mutations))
            }
            WriteKind::Delete(columns) => {
                let target = self.target(write, table, &[], values, "DELETE").await?;
                let Some(target) = target else { return Ok(None) };
                let mutations = write::delete(table, name, columns, &target, &changes, options)?;
                Some((target, mutations))
            }
        })
    }

    /// Options of a write that happens now.
    pub(super) fn write_options(
        &self,
        using: Using,
        values: &[ScalarValue],
    ) -> Result<WriteOptions> {
        let number = |value: Option<UsingValue>| match value {
            None => Ok(None),
            Some(UsingValue::Number(number)) => Ok(Some(number)),
            Some(UsingValue::Parameter(n)) => {
                let value = values.get(n - 1).filter(|value| !value.is_null());
                match value.map(|value| assign::scalar(value, &DataType::BigInt)) {
                    Some(Ok(ScalarValue::Int64(number))) => Ok(number),
                    Some(Err(reason)) => {
                        Err(QueryError::invalid(format!("parameter ${n}: {reason}")))
                    }
                    _ => Err(QueryError::invalid(format!("parameter ${n} has no value"))),
                }
            }
        };
        let ttl = match number(using.ttl)? {
            Some(ttl) => Some(i32::try_from(ttl).map_err(|_| {
                QueryError::invalid(format!("a time to live of {ttl} seconds is too long"))
            })?),
            None => None,
        };
        let timestamp = number(using.timestamp)?.unwrap_or_else(|| self.database.timestamp_us());
        let now_seconds = i32::try_from(self.database.clock().wall_seconds()).unwrap_or(i32::MAX);
        Ok(WriteOptions { timestamp, ttl, now_seconds })
    }

    /// The input of an INSERT, with just the columns that it names, and these.
    pub(super) async fn insert_input(
        &self,
        write: &Write,
        table: &TableSchema,
        columns: &[Name],
        values: &[ScalarValue],
    ) -> Result<(LogicalPlan, Vec<String>)> {
        let names = insert::names(write, table, columns)?;
        values::check(&write.statement, table, &names)?;
        let mut statement = write.statement.clone();
        self.tell_literals(&mut statement, table, &names);
        let plan = match insert::selected(&statement) {
            Some(query) => {
                let rows = self.bind(self.plan(query).await?, values)?;
                insert::of_query(rows, table, &names)?
            }
            None => {
                let casts = insert::casts_of(&statement)?;
                let plan = self.bind(self.plan(statement).await?, values)?;
                insert::of_values(plan, &casts, table, &names)?
            }
        };
        Ok((plan, names))
    }

    async fn insert(
        &self,
        write: &Write,
        table: &SchemaRef,
        columns: &[Name],
        values: &[ScalarValue],
        options: &WriteOptions,
    ) -> Result<Outcome> {
        let input = self.insert_input(write, table, columns, values).await?;
        let repeats = Repeats::new(
            write.using.timestamp.is_some(),
            values::list(&write.statement).is_some(),
            &self.context.runtime_env().memory_pool,
        );
        let count = self.insert_rows((table, &write.table), input, options, repeats).await?;
        Ok(Outcome::count(count))
    }

    /// Writes the rows of a query into the columns `names` of a table, of which a later row with
    /// the same key wins. Returns how many rows there were.
    ///
    /// Errors: those of the query; `Invalid` at a row that the table does not hold. Rows before it
    /// may be written.
    pub(super) async fn fill(
        &self,
        into: (&SchemaRef, &TableName),
        plan: LogicalPlan,
        names: Vec<String>,
    ) -> Result<u64> {
        let options = self.write_options(Using::default(), &[])?;
        let plan = insert::of_query(plan, into.0, &names)?;
        self.insert_rows(into, (plan, names), &options, Repeats::Stamp).await
    }

    async fn insert_rows(
        &self,
        (table, name): (&SchemaRef, &TableName),
        (plan, names): (LogicalPlan, Vec<String>),
        options: &WriteOptions,
        repeats: Repeats,
    ) -> Result<u64> {
        let rows = self.stream(plan).await.map_err(|error| values::rename(error, &names))?;
        let mut writes = InFlight::new();
        let begun = self.begin_rows((table, name), (rows, &names), options, repeats, &mut writes);
        let begun = begun.await;
        // What was begun is ended, also behind an error: then it is known what is written.
        let ended = writes.end().await;
        let count = begun?;
        ended?;
        Ok(count)
    }

    /// Begins the writes of all rows, while further ones come. Returns how many there are.
    async fn begin_rows(
        &self,
        (table, name): (&SchemaRef, &TableName),
        (mut rows, names): (SendableRecordBatchStream, &[String]),
        options: &WriteOptions,
        mut repeats: Repeats,
        writes: &mut InFlight,
    ) -> Result<u64> {
        let (mut count, mut whole) = (0, Vec::new());
        while let Some(batch) = writes.while_waiting_for(rows.next()).await? {
            let batch = batch.map_err(|error| values::rename(error.into(), names))?;
            whole.reserve(batch.num_rows());
            for mutation in mutations(table, &batch, options)? {
                whole.push(mutation.map_err(|refused| row_refused(refused, count))?);
            }
            match &mut repeats {
                Repeats::Stamp => stamp::stamp(&self.database, &mut whole),
                // Which is the last is known when all are there; they were in the statement's text.
                Repeats::KeepLast => {}
                Repeats::Refuse(written) => {
                    if let Some(found) = written.add(&whole)? {
                        let error = contradiction(table, &batch, &found, count)?;
                        return Err(error.at(name.table.span));
                    }
                }
            }
            count += batch.num_rows() as u64;
            if !matches!(repeats, Repeats::KeepLast) {
                let bytes = batch.get_array_memory_size();
                self.begin_writes(writes, std::mem::take(&mut whole), bytes).await?;
            }
        }
        stamp::keep_last(&mut whole);
        self.begin_writes(writes, whole, 0).await?;
        Ok(count)
    }

    /// Begins to write rows that took so many bytes, as far as there is room before the deadline.
    async fn begin_writes(
        &self,
        writes: &mut InFlight,
        rows: Vec<Mutation>,
        bytes: usize,
    ) -> Result<()> {
        let bytes_of_row = bytes / rows.len().max(1);
        let database = self.database.under(self.write_terms());
        for part in at_once(rows) {
            let bytes = bytes_of_row * part.len();
            writes.begin(database.apply_many(part), bytes).await?;
        }
        Ok(())
    }

    /// What an UPDATE or DELETE touches; `None` when its conditions exclude each other.
    async fn target(
        &self,
        write: &Write,
        table: &TableSchema,
        assigned: &[Name],
        values: &[ScalarValue],
        verb: &str,
    ) -> Result<Option<Target>> {
        for name in assigned {
            write::find_column(table, name)?;
        }
        let mut statement = write.statement.clone();
        self.tell_literals(&mut statement, table, &[]);
        let plan = self.bind(self.plan(statement.clone()).await?, values)?;
        let LogicalPlan::Dml(dml) = plan else {
            return Err(QueryError::unsupported(format!("{verb} of this form is not offered")));
        };
        let input = insert::of_update(Arc::unwrap_or_clone(dml.input), &statement, table)?;
        let optimised = deep::optimise(&self.context.state(), &input)?;
        write::target(table, &optimised, assigned, verb).map_err(|error| {
            if error.span.is_some() { error } else { error.at(write.table.table.span) }
        })
    }

    /// The changes of single elements that a write asks for.
    async fn changes(
        &self,
        write: &Write,
        table: &TableSchema,
        values: &[ScalarValue],
        options: &WriteOptions,
    ) -> Result<Changes> {
        if write.elements.changes.is_empty() {
            return Ok(Changes::default());
        }
        let operands = self.operands(&write.elements.operands, values).await?;
        // What is said to be written in the future comes after what is added now.
        let place_us = self.database.timestamp_us().max(options.timestamp);
        element::resolve(table, &write.elements, operands.as_ref(), place_us)
    }

    /// The values of expressions, as one row; `None` where there are no expressions.
    pub(super) async fn operands(
        &self,
        operands: &Operands,
        values: &[ScalarValue],
    ) -> Result<Option<RecordBatch>> {
        let Some(select) = &operands.select else { return Ok(None) };
        let plan = self.bind(self.plan(select.clone()).await?, values)?;
        let mut rows = self.stream(plan).await?;
        Ok(rows.next().await.transpose()?)
    }

    async fn explain_write(&self, write: &Write, values: &[ScalarValue]) -> Result<Outcome> {
        let table = self.table(&write.table)?;
        let options = self.write_options(write.using, values)?;
        let text = match &write.kind {
            WriteKind::Insert(columns) => {
                let (plan, _) = self.insert_input(write, &table, columns, values).await?;
                let state = self.context.state();
                let physical = deep::physical(&state, &plan).await?;
                let input = datafusion::physical_plan::displayable(&*physical).indent(false);
                let lines =
                    input.to_string().lines().map(|line| format!("  {line}\n")).collect::<String>();
                format!("TideInsert: table={}\n{lines}", table.full_name())
            }
            WriteKind::Update(columns) => {
                let changes = self.changes(write, &table, values, &options).await?;
                let target = self.target(write, &table, columns, values, "UPDATE").await?;
                if let Some(target) = &target {
                    write::update(&table, &write.table, target, &changes, &options)?;
                }
                write::explain(&table, "TideUpdate", target.as_ref(), columns, &changes)
            }
            WriteKind::Delete(columns) => {
                let changes = self.changes(write, &table, values, &options).await?;
                let target = self.target(write, &table, &[], values, "DELETE").await?;
                if let Some(target) = &target {
                    write::delete(&table, &write.table, columns, target, &changes, &options)?;
                }
                write::explain(&table, "TideDelete", target.as_ref(), columns, &changes)
            }
        };
        let text = match &write.condition {
            Some(_) => {
                let condition = self.explain_if(write, &table, values, &options).await?;
                format!("{}{condition}", text.trim_end())
            }
            None => text,
        };
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(vec!["physical_plan"])),
            Arc::new(StringArray::from(vec![text])),
        ];
        let batch = batch(plan_schema(), columns)?;
        Ok(Outcome::batches(plan_schema(), vec![batch]))
    }

    /// Errors: `Unsupported` in sessions that may not name files of this machine.
    pub(super) fn check_local_files(&self) -> Result<()> {
        if self.options.local_files {
            return Ok(());
        }
        Err(QueryError::unsupported("this session may not name files of the server"))
    }
}

/// The error of a row of an INSERT behind so many others.
pub(super) fn row_refused(refused: RowError, before: u64) -> QueryError {
    let column = refused.column.map_or(String::new(), |column| format!("column '{column}': "));
    let row = before + refused.row as u64 + 1;
    QueryError::invalid(format!("row {row}: {column}{}", refused.message))
}

/// Writes rows, as far as they are begun by the deadline.
pub(super) async fn write_rows(
    database: &Database,
    rows: Vec<Mutation>,
    terms: Terms,
) -> Result<()> {
    for part in at_once(rows) {
        database.under(terms).apply_many(part).await?;
    }
    Ok(())
}

/// Rows in parts that are written with one call each.
fn at_once(mut rows: Vec<Mutation>) -> impl Iterator<Item = Vec<Mutation>> {
    std::iter::from_fn(move || {
        let rest = rows.split_off(rows.len().min(WRITE_ROWS_MAX));
        let part = std::mem::replace(&mut rows, rest);
        (!part.is_empty()).then_some(part)
    })
}

/// Two rows of a batch, or of it and an earlier one, have one key and one timestamp and differ.
fn contradiction(
    table: &TableSchema,
    batch: &RecordBatch,
    found: &Contradiction,
    written: u64,
) -> Result<QueryError> {
    let mut key = Vec::new();
    let columns: Vec<_> = match found.is_static {
        true => table.partition_key().collect(),
        false => table.partition_key().chain(table.clustering_key()).collect(),
    };
    for column in columns {
        let array = batch.column_by_name(&column.name).expect("an INSERT has all key columns");
        let value = ScalarValue::try_from_array(array, found.row)?;
        key.push(format!("{} = {value}", column.name));
    }
    let key = key.join(", ");
    let what = match found.is_static {
        true => format!("of partition ({key}) differ in their static columns"),
        false => format!("with the key ({key}) differ"),
    };
    let message = format!("two rows {what}, and with one timestamp neither is the later");
    Ok(QueryError::invalid(message).with_help(format!(
        "select each key once, or leave USING TIMESTAMP out: then the later row wins; {written} rows \
         had been written before and stay"
    )))
}

fn plan_schema() -> ArrowSchemaRef {
    text_schema(&["plan_type", "plan"])
}

/// The error of a query that panicked; what else runs goes on.
fn panicked(panic: &(dyn Any + Send)) -> DataFusionError {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    match text {
        Some(text) if text.contains(OFFSET_OVERFLOW) => DataFusionError::Execution(
            "a column of one batch would take more than 2 GB: ask for fewer rows or shorter values"
                .to_owned(),
        ),
        text => {
            let text = text.unwrap_or("without a message");
            DataFusionError::Internal(format!("a step of the query panicked: {text}"))
        }
    }
}
