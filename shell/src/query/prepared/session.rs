//! Prepared statements as a session runs them.

use std::pin::pin;
use std::sync::{Arc, OnceLock, RwLock};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef as ArrowSchemaRef;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use futures::FutureExt;
use futures::future::BoxFuture;
use tidegate_engine::Terms;

use super::{Made, Prepared};
use crate::query::error::{QueryError, Result};
use crate::query::execute::{check_bare, parsed};
use crate::query::outcome::{Description, Outcome};
use crate::query::parameter::check_count;
use crate::query::parse::statement::Statement;
use crate::query::roster::{Shown, planned};
use crate::query::scan::TideTable;
use crate::query::session::Session;
use crate::query::short::Short;
use crate::query::sketch::{Sketch, Sketched};
use crate::query::statements::Command;

impl Session {
    /// Prepares a statement, whose unqualified names are those of `keyspace`. Nothing is planned
    /// yet.
    pub fn prepare(&self, statement: Statement, keyspace: &str) -> Prepared {
        let made = RwLock::new(Arc::new(self.make(&statement, keyspace)));
        let changes_session = statement.changes_session();
        let (text, keyspace) = (Arc::clone(statement.shared_text()), keyspace.to_owned());
        Prepared { statement, shown: Arc::new(Shown { text, keyspace }), changes_session, made }
    }

    fn make(&self, statement: &Statement, keyspace: &str) -> Made {
        let (stamp, catalog) = (self.stamp.value(), self.database.catalog());
        let short = self.short_under(&catalog, statement, keyspace);
        let (sketch, description) = (OnceLock::new(), OnceLock::new());
        Made { catalog, stamp, short, sketch, description }
    }

    /// What was made of a statement, under the catalog and the settings of now.
    pub fn made(&self, prepared: &Prepared) -> Arc<Made> {
        let made = prepared.made.read().expect("no one panics while looking at it");
        if self.is_current(&made) {
            return Arc::clone(&made);
        }
        drop(made);
        let made = Arc::new(self.make(&prepared.statement, &prepared.shown.keyspace));
        *prepared.made.write().expect("no one panics while looking at it") = Arc::clone(&made);
        made
    }

    /// Errors: `Denied` where the caller lacks what the statement needs, as far as that is known
    /// before it runs.
    pub fn allow_made(&self, made: &Made) -> Result<()> {
        if let Some(short) = &made.short {
            self.allow_short(short)?;
        }
        made.sketch.get().map_or(Ok(()), |sketch| self.allow_sketch(sketch))
    }

    fn is_current(&self, made: &Made) -> bool {
        made.stamp == self.stamp.value() && Arc::ptr_eq(&made.catalog, &self.database.catalog())
    }

    /// Runs a prepared statement, with rows of parameters where it has any.
    ///
    /// Errors: as `run_with`.
    pub async fn run_prepared(
        &self,
        prepared: &Prepared,
        parameters: Option<&RecordBatch>,
    ) -> Result<Outcome> {
        let outcome = self.run_made(prepared, parameters, false).await?;
        Ok(self.hold(&prepared.statement, outcome))
    }

    /// As [`Session::run_prepared`], of a query.
    ///
    /// Errors: `Invalid` for anything but a query, of which nothing is done.
    pub async fn query_prepared(
        &self,
        prepared: &Prepared,
        parameters: Option<&RecordBatch>,
    ) -> Result<Outcome> {
        let outcome = self.run_made(prepared, parameters, true).await?;
        Ok(self.hold(&prepared.statement, outcome))
    }

    /// As [`Session::query_prepared`], of what one shard gives: the rows of all shards together are
    /// the result. See [`Description::divided`].
    ///
    /// Errors: `Invalid` for a query without parts.
    pub async fn query_part(
        &self,
        prepared: &Prepared,
        parameters: Option<&RecordBatch>,
        shard: u32,
    ) -> Result<Outcome> {
        if self.describe_prepared(prepared, parameters).await?.divided.is_none() {
            return Err(QueryError::invalid("the query has no parts"));
        }
        self.of_shard(shard).query_prepared(prepared, parameters).await
    }

    async fn run_made(
        &self,
        prepared: &Prepared,
        parameters: Option<&RecordBatch>,
        takes_queries_alone: bool,
    ) -> Result<Outcome> {
        match parameters {
            Some(rows) => check_count(&prepared.statement, rows)?,
            None => check_bare(&prepared.statement)?,
        }
        let run = pin!(self.run_checked(prepared, parameters, takes_queries_alone));
        self.attended(&prepared.statement, || Arc::clone(&prepared.shown), run).await
    }

    async fn run_checked(
        &self,
        prepared: &Prepared,
        parameters: Option<&RecordBatch>,
        takes_queries_alone: bool,
    ) -> Result<Outcome> {
        if let Some(terms) = self.own_terms(&prepared.statement, parameters)? {
            return self.run_made_under(terms, prepared, parameters, takes_queries_alone).await;
        }
        let made = self.made(prepared);
        if let Some(short) = short_of(&made, takes_queries_alone)
            && let Some(outcome) = self.run_short(short, parameters, self.terms).await?
        {
            return Ok(outcome);
        }
        let sketch = self.sketch_to_run(prepared, &made).await?;
        if takes_queries_alone && !sketch.command.is_query() {
            return Err(QueryError::invalid("the statement is no query"));
        }
        self.run_planned(prepared, &sketch, parameters).await
    }

    /// As `run_made`, on the statement's own terms.
    fn run_made_under<'a>(
        &'a self,
        terms: Terms,
        prepared: &'a Prepared,
        parameters: Option<&'a RecordBatch>,
        takes_queries_alone: bool,
    ) -> BoxFuture<'a, Result<Outcome>> {
        let run = async move {
            let made = self.made(prepared);
            if let Some(short) = short_of(&made, takes_queries_alone)
                && let Some(outcome) = self.run_short(short, parameters, Some(terms)).await?
            {
                return Ok(outcome);
            }
            self.under(terms).run_made(prepared, parameters, takes_queries_alone).await
        };
        self.by_deadline(terms, prepared.statement.is_write_or_batch(), run.boxed()).boxed()
    }

    fn run_planned<'a>(
        &'a self,
        prepared: &'a Prepared,
        sketch: &'a Sketched,
        parameters: Option<&'a RecordBatch>,
    ) -> BoxFuture<'a, Result<Outcome>> {
        async move {
            let statement = &prepared.statement;
            let is_explained = statement.begins_with(&["explain"]);
            let is_planned = sketch.plan_of_query().is_some() && sketch.command.is_query();
            if is_planned && !is_explained {
                return match parameters {
                    Some(rows) => self.run_each(statement, sketch, rows).await,
                    None => self.run_sketch(statement, sketch, &[]).await,
                };
            }
            let own = self.at(&prepared.shown.keyspace);
            match parameters {
                Some(rows) => own.run_rows(statement, sketch.command.clone(), rows).await,
                None => own.run_sketch(statement, sketch, &[]).await,
            }
        }
        .boxed()
    }

    /// The types that the parameters of a prepared statement are wanted in.
    ///
    /// Errors: as `parameters`.
    pub async fn parameters_of(&self, prepared: &Prepared) -> Result<ArrowSchemaRef> {
        let made = self.made(prepared);
        if let Some(short) = &made.short {
            // Types of columns are told to who may read or write them.
            self.allow_made(&made)?;
            return Ok(Arc::clone(short.parameters()));
        }
        let sketch = self.sketch_of(prepared, &made).await?;
        Ok(Arc::clone(&sketch.parameters))
    }

    /// What a prepared statement would give and take, with the first row of `parameters` in it
    /// where there are any.
    ///
    /// Errors: as `describe_with`.
    pub fn describe_prepared<'a>(
        &'a self,
        prepared: &'a Prepared,
        parameters: Option<&'a RecordBatch>,
    ) -> BoxFuture<'a, Result<Description>> {
        async move {
            let running = self.begin(|| Arc::clone(&prepared.shown));
            let describe = pin!(self.describe_made(prepared, parameters));
            planned(running, describe).await
        }
        .boxed()
    }

    fn describe_made<'a>(
        &'a self,
        prepared: &'a Prepared,
        parameters: Option<&'a RecordBatch>,
    ) -> BoxFuture<'a, Result<Description>> {
        async move {
            let statement = &prepared.statement;
            let made = self.made(prepared);
            if let Some(rows) = parameters {
                check_count(statement, rows)?;
                let sketch = self.sketch_of(prepared, &made).await?;
                return self.describe_sketch(statement, &sketch, Some(rows)).await;
            }
            if let Some(known) = made.description.get() {
                self.allow_made(&made)?;
                return Ok(known.clone());
            }
            let sketch = self.sketch_of(prepared, &made).await?;
            // Those of our own name tables of the keyspace.
            let own = self.at(&prepared.shown.keyspace);
            let description = own.describe_sketch(statement, &sketch, None).await?;
            if made.sketch.get().is_some() {
                return Ok(made.description.get_or_init(|| description).clone());
            }
            Ok(description)
        }
        .boxed()
    }

    /// As [`Session::sketch_of`] for queries. Anything else is planned as it runs, which finds
    /// errors with their places.
    fn sketch_to_run<'a>(
        &'a self,
        prepared: &'a Prepared,
        made: &'a Made,
    ) -> BoxFuture<'a, Result<Sketched>> {
        async move {
            if made.sketch.get().is_none() {
                let command = parsed(&prepared.statement)?;
                if !matches!(command, Command::Query(_)) {
                    return Ok(Sketch::unplanned(command).shared());
                }
            }
            self.sketch_of(prepared, made).await
        }
        .boxed()
    }

    /// Parses and plans a statement once; again each time where its plan is not to be kept.
    fn sketch_of<'a>(
        &'a self,
        prepared: &'a Prepared,
        made: &'a Made,
    ) -> BoxFuture<'a, Result<Sketched>> {
        async move {
            if let Some(known) = made.sketch.get() {
                // Another caller may have made it.
                self.allow_sketch(known)?;
                return Ok(Arc::clone(known));
            }
            // In its keyspace, whatever the session is told meanwhile.
            let own = self.at(&prepared.shown.keyspace);
            let sketch = own.sketch(&prepared.statement).await?;
            let is_to_keep = match &sketch.plan {
                Some(plan) => reads_own_tables(plan)? && own.is_current(made),
                None => false,
            };
            let sketch = sketch.shared();
            if is_to_keep {
                return Ok(Arc::clone(made.sketch.get_or_init(|| sketch)));
            }
            Ok(sketch)
        }
        .boxed()
    }
}

/// Whether all tables of a plan are tables of the engine, which are read as the plan runs.
fn reads_own_tables(plan: &LogicalPlan) -> Result<bool> {
    let mut is_all = true;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let provider = source_as_provider(&scan.source);
            is_all &= provider.is_ok_and(|provider| provider.downcast_ref::<TideTable>().is_some());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(is_all)
}

/// The short path of a statement; of a query only where `takes_queries_alone`.
fn short_of(made: &Made, takes_queries_alone: bool) -> Option<&Short> {
    made.short.as_ref().filter(|short| !takes_queries_alone || short.rows_schema().is_some())
}
