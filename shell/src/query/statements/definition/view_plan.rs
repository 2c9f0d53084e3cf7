//! Plans of views: their queries are planned as somebody reads them, and each table below knows
//! through which views it is read.
//!
//! Invariant: whoever reads a view needs SELECT on it, and its owner needs SELECT on what it reads.
//! Both are asked of the plan, so at each run (`access/plan.rs`).

use std::collections::hash_map::Entry;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef as ArrowSchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::catalog::view::ViewTable;
use datafusion::common::TableReference;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::logical_expr::LogicalPlan;
use futures::FutureExt;
use futures::future::BoxFuture;
use tidegate_engine::{Resource, View};

use crate::query::error::{QueryError, Result};
use crate::query::parse;
use crate::query::parse::statement::synthetic;
use crate::query::scan::TideTable;
use crate::query::scan::catalog::CATALOG;
use crate::query::scan::views::Views;
use crate::query::session::Session;

impl Session {
    /// The views among the tables that a statement names, planned; none where it names no view. Who
    /// asks what tables there are has all that can be planned.
    ///
    /// Errors: `Invalid` for a view that does not fit what it reads.
    pub(in crate::query) fn views_of<'a>(
        &'a self,
        references: &'a [TableReference],
    ) -> BoxFuture<'a, Result<Option<Views>>> {
        async move {
            let (catalog, keyspace) = (self.database.catalog(), self.keyspace());
            let mut views = Views::new();
            for reference in references {
                let resolved = reference.clone().resolve(CATALOG, &keyspace);
                if &*resolved.schema == "information_schema" {
                    for view in catalog.all_views() {
                        // One that cannot be planned has no columns to show.
                        if let Ok(plan) = self.plan_of_view(view).await {
                            views.insert(key(view), table(view, plan));
                        }
                    }
                }
                let Some(view) = catalog.view(&resolved.schema, &resolved.table) else { continue };
                if let Entry::Vacant(place) = views.entry(key(view)) {
                    place.insert(table(view, self.plan_of_view(view).await?));
                }
            }
            Ok((!views.is_empty()).then_some(views))
        }
        .boxed()
    }

    /// What a view reads, whoever asks.
    async fn plan_of_view(&self, view: &View) -> Result<LogicalPlan> {
        let planned = async { self.plan_freely(parse::sql(&synthetic(&view.query)?)?).await };
        let plan = planned.await.map_err(|error| {
            let View { keyspace, name, .. } = view;
            let message = format!(
                "view '{name}' of keyspace {keyspace} does not fit what it reads: {}",
                error.message
            );
            QueryError::invalid(message).with_help(format!(
                "CREATE OR REPLACE VIEW {0} makes it anew; DESCRIBE VIEW {0} shows its query",
                view.full_name()
            ))
        })?;
        Ok(seen_through(plan, view)?)
    }

    /// All views; where they are wanted with their columns, none for one that does not fit what it
    /// reads.
    pub async fn views(&self, with_columns: bool) -> Vec<(View, ArrowSchemaRef)> {
        let catalog = self.database.catalog();
        let mut all = Vec::new();
        for view in catalog.all_views() {
            let columns = match with_columns {
                true => self.view_schema(view).await.ok(),
                false => None,
            };
            all.push((view.clone(), columns.unwrap_or_else(|| Arc::new(Schema::empty()))));
        }
        all
    }

    /// The columns of a view.
    ///
    /// Errors: as of reading it; rights are not asked.
    pub async fn view_schema(&self, view: &View) -> Result<ArrowSchemaRef> {
        let plan = self.plan_of_view(view).await?;
        Ok(self.result_of(&plan).await?.0)
    }
}

fn key(view: &View) -> (String, String) {
    (view.keyspace.clone(), view.name.clone())
}

fn table(view: &View, plan: LogicalPlan) -> Arc<dyn TableProvider> {
    Arc::new(ViewTable::new(plan, Some(view.query.clone())))
}

/// Marks the tables of a view's plan as read through it.
fn seen_through(plan: LogicalPlan, view: &View) -> datafusion::common::Result<LogicalPlan> {
    let resource = Resource::table(&view.keyspace, &view.name);
    let mark = |node: LogicalPlan| {
        let LogicalPlan::TableScan(mut scan) = node else { return Ok(Transformed::no(node)) };
        let Ok(provider) = source_as_provider(&scan.source) else {
            return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
        };
        if let Some(table) = provider.downcast_ref::<TideTable>() {
            let table = table.seen_through(resource.clone(), view.owner.clone());
            scan.source = provider_as_source(Arc::new(table));
        }
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    };
    plan.transform_up_with_subqueries(mark).data()
}
