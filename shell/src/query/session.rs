//! One user's session: current keyspace, settings, and how it plans.
//!
//! A session is `Send + Sync`; every REPL and every Flight SQL connection has its own. Statements
//! of one session may run at the same time; `USE` changes where later statements look for tables.
//! Not here: the way from a statement to an outcome (`execute.rs`), what each statement does
//! (`statements/`, `run.rs`).

use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef as ArrowSchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{
    DataFusionError, ParamValues, ResolvedTableReference, ScalarValue, TableReference,
};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::logical_expr::{LogicalPlan, Union};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement as SqlStatement;
use datafusion_distributed::Worker;
use tidegate_engine::database::DEFAULT_KEYSPACE;
use tidegate_engine::{DEFAULT_LEVEL, Database, SchemaRef, ServiceLevel, TableSchema, Terms};

use super::access::Caller;
use super::aggregate;
use super::distributed::{Distributed, planned_by_all};
use super::engine::Engine;
use super::error::{QueryError, Result};
use super::limit::Warnings;
use super::memory::QueryMemory;
use super::outcome::Outcome;
use super::parse::statement::Statement;
use super::parse::{self, Name, TableName};
use super::plan::access::{divided, partition_limit, stamp};
use super::plan::deep;
use super::plan::heading::{headings, with_headings};
use super::plan::row_in;
use super::plan::rules;
use super::replay::{REPLAY_FUNCTION, ReplayFunction};
use super::roster::{Member, Roster};
use super::scan::catalog::{CATALOG, TideCatalog};
use super::scan::views::WithViews;
use super::scan::{OnlyShard, token};
use super::setting::{self, Settings, Stamp};
use super::system::SYSTEM_KEYSPACE;
use super::types::identifier::time_uuid;
use super::types::{growing, named_cast, seeking, series};
use super::watch::journal::Journal;
use super::watch::{TracingMode, Watcher};
use super::write::braces;
use super::write::values;
use crate::cluster::Cluster;
use crate::password::Passwords;

/// The name of a session that was given no other.
const NAME: &str = "shell";
/// Bytes that the merge above a removed sort may read ahead; reading ahead is the shard's work.
const SORT_BUFFER_BYTES: usize = 4 << 20;

/// What the planner says of two columns of one name, of which it may have given both.
const REPEATED_NAMES: [&str; 2] =
    ["Projections require unique expression names", "Schema contains duplicate unqualified field"];

/// How far a COPY, ATTACH or IMPORT has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub rows: u64,
    pub bytes: u64,
    /// Size of what is read; 0 where it is not known.
    pub bytes_max: u64,
}

/// Told how far a COPY, ATTACH or IMPORT has come.
pub type ProgressSink = Arc<dyn Fn(Progress) + Send + Sync>;

/// How a session is set up.
#[derive(Clone)]
pub struct SessionOptions {
    /// Keyspace of unqualified table names at the start.
    pub keyspace: String,
    /// Threads that one query may use; None = as many as there are shards.
    pub target_partitions: Option<usize>,
    /// Called by COPY and IMPORT after every batch of rows, from the task that runs the statement,
    /// and by ATTACH after every file.
    pub progress: Option<ProgressSink>,
    /// Whether COPY, CREATE POLICY and traces may name files of this machine.
    pub local_files: bool,
    pub memory: QueryMemory,
    /// Where traces and slow statements are kept.
    pub journal: Arc<Journal>,
    /// Where sessions and running statements are listed.
    pub roster: Arc<Roster>,
    /// Hashes passwords of roles.
    pub passwords: Arc<Passwords>,
    /// The other nodes, where the database is one of a cluster.
    pub cluster: Option<Arc<Cluster>>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        SessionOptions {
            keyspace: DEFAULT_KEYSPACE.to_owned(),
            target_partitions: None,
            progress: None,
            local_files: true,
            memory: QueryMemory::new(None),
            journal: Journal::new(),
            roster: Arc::default(),
            passwords: Arc::default(),
            cluster: None,
        }
    }
}

/// DataFusion's context, behind bounds: a task that borrows a session has to be `Send`, and rustc
/// walks all plans and expressions to see that a context is, 2 s for each such function.
pub(super) type Context = Box<dyn Deref<Target = SessionContext> + Send + Sync>;

/// Runs statements against a database.
pub struct Session {
    pub(super) database: Database,
    pub(super) options: SessionOptions,
    pub(super) context: Context,
    /// What the time UUIDs of this session end with.
    pub(super) node: [u8; 8],
    /// Whose settings are these.
    pub(super) stamp: Stamp,
    /// Those of its one statement, where it was made for one.
    pub(super) terms: Option<Terms>,
    /// Whose statements these are, and whether they are traced.
    pub(super) watcher: Arc<Watcher>,
    pub(super) warnings: Arc<Warnings>,
    /// Whose rights they have.
    pub(super) caller: Caller,
    /// The session as others see it.
    pub(super) member: Arc<Member>,
    /// Runs parts of queries of other nodes, in a cluster.
    pub(super) worker: Option<Worker>,
}

/// The settings that a session begins with.
fn config(keyspace: &str, partitions: usize) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_default_catalog_and_schema(CATALOG, keyspace)
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(true)
        .with_target_partitions(partitions)
        .with_round_robin_repartition(false)
        .with_prefer_existing_sort(true);
    let settings = config.options_mut();
    settings.extensions.insert(Settings::default());
    settings.sql_parser.collect_spans = true;
    settings.sql_parser.parse_float_as_decimal = true;
    settings.execution.sort_pushdown_buffer_capacity = SORT_BUFFER_BYTES;
    // Fields of unions and conditions are declared otherwise than they are computed, which is
    // all that this check would see.
    settings.execution.skip_physical_aggregate_schema_check = true;
    // Groups with a LIMIT that are kept in a heap: DataFusion 55.2 does not find NaN among them
    // again, and panics.
    settings.optimizer.enable_topk_aggregation = false;
    config
}

impl Session {
    /// A session in the keyspace of `options`.
    ///
    /// Errors: `NotFound` when that keyspace does not exist.
    pub fn new(database: Database, options: SessionOptions) -> Result<Self> {
        let partitions = options.target_partitions.unwrap_or(database.shard_count() as usize);
        let config = config(&options.keyspace, partitions.max(1));
        let runtime = runtime(&options.memory)?;
        let engine = Engine::new(
            database.clone(),
            Arc::clone(&options.journal),
            Arc::clone(&options.roster),
        );
        let engine = engine.in_cluster(options.cluster.clone());
        let distributed = options.cluster.clone();
        let distributed = distributed.map(|cluster| Distributed::new(cluster, engine.clone()));
        let distributed = distributed.transpose()?;
        let builder = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(runtime)
            .with_default_features()
            .with_analyzer_rules(rules::analyzer())
            .with_optimizer_rules(rules::optimizer()?)
            .with_physical_optimizer_rules(rules::physical(distributed.is_some())?);
        let builder = match &distributed {
            Some(own) => planned_by_all(builder, &engine, own.channels().clone()),
            None => builder,
        };
        let state = builder.build();
        let mut context = SessionContext::new_with_state(state);
        if options.local_files {
            // A name that is no table of the keyspace may be that of a file.
            context = context.enable_url_table();
        }
        context.register_catalog(CATALOG, Arc::new(TideCatalog::new(engine.clone())));
        let node = time_uuid::node(RandomState::new().hash_one(0_u8));
        register_functions(&context, &engine, node);
        let call_bytes = options.memory.bytes() as u64 / 2;
        let guarded = growing::guarded(context.state().scalar_functions().values(), call_bytes);
        let widened = seeking::widened(context.state().scalar_functions().values());
        guarded.into_iter().chain(widened).for_each(|function| context.register_udf(function));
        aggregate::functions().into_iter().for_each(|function| context.register_udaf(function));
        for (name, function) in series::functions(&context.state()) {
            context.register_udtf(name, function);
        }
        let replay = ReplayFunction::new(engine, options.local_files);
        context.register_udtf(REPLAY_FUNCTION, Arc::new(replay));
        let worker = distributed.map(|distributed| {
            let worker = distributed.worker(&context);
            distributed.run_here(worker.clone(), &context);
            worker
        });
        let context: Context = Box::new(Arc::new(context));
        let (stamp, terms, caller) = (Stamp::new(), None, Caller::default());
        let (watcher, warnings) = (Watcher::new(NAME, &options.journal), Arc::default());
        let member = Member::new(NAME, Caller::Owner, database.clock().monotonic_ns());
        let member = Arc::new(member);
        let session = Session {
            database,
            options,
            context,
            node,
            stamp,
            terms,
            watcher,
            warnings,
            caller,
            member,
            worker,
        };
        session.set_keyspace(&session.options.keyspace)?;
        Ok(session)
    }

    /// What runs parts of queries of other nodes, in a cluster.
    pub fn worker(&self) -> Option<&Worker> {
        self.worker.as_ref()
    }

    pub fn database(&self) -> &Database {
        &self.database
    }

    /// The keyspace of unqualified names.
    pub fn keyspace(&self) -> String {
        self.context.state_ref().read().config_options().catalog.default_schema.clone()
    }

    /// Whether its client has set nothing and would miss nothing in another session made of `from`,
    /// of which this was made in the keyspace.
    pub fn is_plain(&self, from: &Session, keyspace: &str) -> bool {
        self.stamp.value() == from.stamp.value()
            && self.keyspace() == keyspace
            && self.watcher.tracing.mode() == TracingMode::Off
            && self.warnings.all().is_empty()
    }

    /// What `USE` does.
    ///
    /// Errors: `NotFound`.
    pub fn set_keyspace(&self, name: &str) -> Result<()> {
        let catalog = self.database.catalog();
        if name != SYSTEM_KEYSPACE && !catalog.has_keyspace(name) {
            return Err(QueryError::not_found("keyspace", name, catalog.keyspaces()));
        }
        let state = self.context.state_ref();
        let mut state = state.write();
        state.config_mut().options_mut().catalog.default_schema = name.to_owned();
        Ok(())
    }

    /// This session as it is now, but with `keyspace` for unqualified names, whether or not it
    /// exists: who uses such a name is told. What is set in it later stays in it.
    pub fn at(&self, keyspace: &str) -> Session {
        let context = SessionContext::new_with_state(self.context.state());
        let state = context.state_ref();
        state.write().config_mut().options_mut().catalog.default_schema = keyspace.to_owned();
        let (database, options) = (self.database.clone(), self.options.clone());
        // Copied after the settings: one that changed meanwhile has another stamp.
        let (node, stamp) = (self.node, self.stamp.copied());
        let (context, terms): (Context, _) = (Box::new(Arc::new(context)), self.terms);
        let (watcher, warnings) = (self.watcher.copied(None), Arc::clone(&self.warnings));
        let (caller, worker) = (self.caller.clone(), self.worker.clone());
        let member = Arc::clone(&self.member);
        Session {
            database,
            options,
            context,
            node,
            stamp,
            terms,
            watcher,
            warnings,
            caller,
            member,
            worker,
        }
    }

    /// As [`at`](Self::at), for another client: warnings are its own, and so is the name by which
    /// traces and slow statements tell whose they are.
    pub fn apart(&self, keyspace: &str, name: &str) -> Session {
        let (watcher, warnings) = (self.watcher.copied(Some(name)), Arc::default());
        let now_ns = self.database.clock().monotonic_ns();
        let member = Arc::new(Member::new(name, self.caller.clone(), now_ns));
        let own = Session { watcher, warnings, ..self.at(keyspace) };
        own.seen_as(member)
    }

    /// The outcome of a statement, whose rows keep to the limits of the session.
    pub(super) fn hold(&self, statement: &Statement, outcome: Outcome) -> Outcome {
        let limits = setting::result_limits(self.context.state_ref().read().config_options());
        limits.hold(statement, outcome, &self.warnings)
    }

    /// This session as it is now, for one statement on these terms.
    pub(super) fn under(&self, terms: Terms) -> Session {
        let own = Session { terms: Some(terms), ..self.at(&self.keyspace()) };
        own.context.state_ref().write().config_mut().set_extension(Arc::new(terms));
        own
    }

    /// On what terms it writes.
    pub(super) fn write_terms(&self) -> Terms {
        self.read_terms(self.terms).1
    }

    /// The service level of statements that name none.
    pub fn service_level(&self) -> String {
        setting::service_level(self.context.state_ref().read().config_options()).to_owned()
    }

    /// Whether that is the one which is always there, and which nobody changes.
    pub(super) fn has_default_level(&self) -> bool {
        let state = self.context.state_ref();
        let state = state.read();
        setting::service_level(state.config_options()) == DEFAULT_LEVEL
    }

    /// What `SET tidegate.service_level` does.
    ///
    /// Errors: `NotFound`.
    pub fn set_service_level(&self, name: &str) -> Result<()> {
        self.level(name)?;
        let state = self.context.state_ref();
        setting::set_service_level(state.write().config_mut().options_mut(), name);
        self.member.set_service_level(name);
        Ok(())
    }

    /// The service level of this name.
    ///
    /// Errors: `NotFound`.
    pub(super) fn level(&self, name: &str) -> Result<ServiceLevel> {
        let catalog = self.database.catalog();
        let known = || catalog.service_levels().map(|(name, _)| name);
        let level = catalog.service_level(name);
        level.ok_or_else(|| QueryError::not_found("service level", name, known()))
    }

    /// The schema that running `plan` gives: the physical plan's, which knows of coercions. And the
    /// table whose shards are the parts of the query, if it has parts.
    pub(super) async fn result_of(
        &self,
        plan: &LogicalPlan,
    ) -> Result<(ArrowSchemaRef, Option<SchemaRef>)> {
        if matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_)) {
            return Ok((Arc::clone(plan.schema().inner()), None));
        }
        let optimised = deep::optimise(&self.context.state(), plan)?;
        // The shards of one node are no parts of what all nodes have.
        let divided = match self.database.ring() {
            Some(_) => None,
            None => divided(plan, &optimised)?,
        };
        Ok((Arc::clone(optimised.schema().inner()), divided))
    }

    /// This session as it is now, for a query of which the part of one shard is read.
    pub(super) fn of_shard(&self, shard: u32) -> Session {
        let own = self.at(&self.keyspace());
        own.context.state_ref().write().config_mut().set_extension(Arc::new(OnlyShard(shard)));
        own
    }

    /// The logical plan of SQL whose tables all exist, and which the caller may run.
    pub(super) async fn plan(&self, sql: SqlStatement) -> Result<LogicalPlan> {
        let plan = self.plan_freely(sql).await?;
        self.allow_plan(&plan)?;
        Ok(plan)
    }

    /// As `plan`, whoever may run it.
    pub(super) async fn plan_freely(&self, mut sql: SqlStatement) -> Result<LogicalPlan> {
        let mut state = self.context.state();
        let mut files = Vec::new();
        let references = state.resolve_table_references(&sql)?;
        for reference in &references {
            if is_file(reference.table()) {
                files.push(reference.table().to_owned());
            }
            self.check_table(reference.clone())?;
        }
        if let Some(views) = self.views_of(&references).await? {
            let list = Arc::new(WithViews::new(Arc::clone(state.catalog_list()), views));
            state = SessionStateBuilder::new_from_existing(state).with_catalog_list(list).build();
        }
        let headings = headings(&sql);
        let has_row_in = parse::take_apart(&mut sql)?;
        let is_repeated = |error: &DataFusionError| {
            let message = error.strip_backtrace();
            REPEATED_NAMES.iter().any(|repeated| message.contains(repeated))
        };
        // Only a SELECT has columns whose names could repeat.
        let mut spare = (!values::is_without_query(&sql)).then(|| sql.clone());
        let mut planned = state.statement_to_plan(sql).await;
        for all in [false, true] {
            let is_to_retry = planned.as_ref().is_err_and(is_repeated);
            let Some(sql) = spare.as_mut().filter(|_| is_to_retry) else { break };
            parse::tell_apart(sql, all)?;
            planned = state.statement_to_plan(sql.clone()).await;
        }
        let mut plan = planned.map_err(|error| {
            let error = QueryError::from(error);
            // What a reader of files says of one does not name it.
            match files.is_empty() {
                true => error,
                false => error.with_help(format!("the statement reads {}", files.join(", "))),
            }
        })?;
        if has_row_in {
            plan = row_in::resolve(plan)?;
        }
        match plan {
            LogicalPlan::Ddl(_) | LogicalPlan::Copy(_) => {
                Err(QueryError::unsupported("this statement is not offered"))
            }
            plan => Ok(with_headings(plan, &headings)?),
        }
    }

    /// Tells the literals of a write by the columns that they are for.
    pub(super) fn tell_literals(
        &self,
        statement: &mut SqlStatement,
        table: &TableSchema,
        names: &[String],
    ) {
        let now = || time_uuid::current(&self.database, self.node);
        braces::tell(statement, table, names, &now);
    }

    /// Replaces the parameters of a plan.
    pub(super) fn bind(&self, plan: LogicalPlan, values: &[ScalarValue]) -> Result<LogicalPlan> {
        if values.is_empty() {
            return Ok(plan);
        }
        let values: Vec<_> = values.iter().cloned().map(Into::into).collect();
        let plan = plan.with_param_values(ParamValues::List(values))?;
        if !has_union(&plan)? {
            return Ok(plan);
        }
        // A union keeps the types that its columns had without values: none.
        let renew = |node: LogicalPlan| match node {
            LogicalPlan::Union(union) => {
                let union = Union::try_new_with_loose_types(union.inputs)?;
                Ok(Transformed::yes(LogicalPlan::Union(union)))
            }
            other => other.recompute_schema().map(Transformed::yes),
        };
        Ok(plan.transform_up_with_subqueries(renew).data()?)
    }

    /// Whether an unqualified name is that of a table or view of the keyspace in use.
    pub(super) fn has_table(&self, name: &str) -> bool {
        let schema = self.context.catalog(CATALOG).and_then(|all| all.schema(&self.keyspace()));
        schema.is_some_and(|schema| schema.table_exist(name))
    }

    fn check_table(&self, reference: TableReference) -> Result<()> {
        if let TableReference::Bare { table } = &reference
            && self.context.state_ref().read().table_functions().contains_key(&**table)
        {
            // Or a table of that name: planning finds out.
            return Ok(());
        }
        if let TableReference::Bare { table } = &reference
            && self.options.local_files
            && is_file(table)
        {
            return check_file(table);
        }
        let resolved: ResolvedTableReference = reference.resolve(CATALOG, &self.keyspace());
        let Some(catalog) = self.context.catalog(&resolved.catalog) else {
            return Err(QueryError::not_found("catalog", &resolved.catalog, [CATALOG]));
        };
        if &*resolved.schema == "information_schema" {
            return Ok(());
        }
        let Some(schema) = catalog.schema(&resolved.schema) else {
            let known = catalog.schema_names();
            let known = known.iter().map(String::as_str);
            return Err(QueryError::not_found("keyspace", &resolved.schema, known));
        };
        if schema.table_exist(&resolved.table) {
            return Ok(());
        }
        let known = schema.table_names();
        Err(QueryError::not_found("table", &resolved.table, known.iter().map(String::as_str)))
    }

    /// The engine's schema of a table that is named in a write, COPY or DESCRIBE.
    ///
    /// Errors: `NotFound` at the name, `Unsupported` for tables of `system`.
    pub(super) fn table(&self, name: &TableName) -> Result<SchemaRef> {
        let catalog = self.database.catalog();
        let (keyspace, span) = match &name.keyspace {
            Some(keyspace) => (keyspace.value.clone(), keyspace.span),
            None => (self.keyspace(), name.table.span),
        };
        if keyspace == SYSTEM_KEYSPACE {
            return Err(QueryError::unsupported("tables of keyspace system are read only").at(span));
        }
        if !catalog.has_keyspace(&keyspace) {
            let known = catalog.keyspaces();
            return Err(QueryError::not_found("keyspace", &keyspace, known).at(span));
        }
        let table = catalog.table(&keyspace, &name.table.value).cloned();
        table.ok_or_else(|| {
            if catalog.view(&keyspace, &name.table.value).is_some() {
                return not_a_table(&name.table);
            }
            let known = catalog.tables(&keyspace).map(|table| table.name.as_str());
            QueryError::not_found("table", &name.table.value, known).at(name.table.span)
        })
    }
}

/// The error of a statement that wants a table and names a view.
fn not_a_table(view: &Name) -> QueryError {
    let error =
        QueryError::invalid(format!("'{}' is a view, which has no rows of its own", view.value));
    error.at(view.span).with_help(
        "name the table that it reads: DESCRIBE VIEW says which; \
                                   CREATE OR REPLACE VIEW and DROP VIEW change views",
    )
}

/// Functions of ours, of a session whose time UUIDs end with `node`.
fn register_functions(context: &SessionContext, engine: &Engine, node: [u8; 8]) {
    let functions = time_uuid::functions(engine, node).into_iter();
    let functions = functions.chain(braces::functions()).chain([
        named_cast::function(),
        row_in::function(),
        token::function(),
        partition_limit::function(),
    ]);
    functions.chain(stamp::functions()).for_each(|function| context.register_udf(function));
}

/// Where plans run.
fn runtime(memory: &QueryMemory) -> Result<Arc<RuntimeEnv>> {
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::clone(memory.pool()))
        // Files come and go between two statements.
        .with_object_list_cache_limit(0);
    Ok(runtime.build_arc()?)
}

/// Whether there is a union in a plan, whose columns lose the parameters in them.
pub(super) fn has_union(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::Union(_));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether a table's name is that of a file which can be read, as in `FROM 'day.parquet'`.
fn is_file(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| {
        ["csv", "json", "parquet"].iter().any(|known| extension.eq_ignore_ascii_case(known))
    })
}

/// Errors: `NotFound` for a file that is not there; a pattern may match nothing.
fn check_file(name: &str) -> Result<()> {
    match name.contains(['*', '?', '[']) || Path::new(name).exists() {
        true => Ok(()),
        false => Err(QueryError::not_found("file", name, [])),
    }
}
