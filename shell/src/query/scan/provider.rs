//! A table of the engine as DataFusion sees it.
//!
//! It accepts all conditions (`Exact`): the scan checks those that keys and slices cannot express.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef as ArrowSchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use futures::FutureExt;
use futures::future::BoxFuture;
use tidegate_engine::batch::{Stamp, read_schema};
use tidegate_engine::schema::ColumnId;
use tidegate_engine::schema::table_schema::SchemaRef;
use tidegate_engine::{Resource, RowFilter};

use super::partition_limit::PartitionLimit;
use super::pushdown::{self, Access, Keys, comparisons};
use super::scan::{TideScan, table_arrow_schema};
use super::selection::Selection;
use super::source::OnlyShard;
use crate::query::conjunction::all_of;
use crate::query::engine::Engine;
use crate::query::setting::bypasses_cache;

/// Through which view a table is read.
#[derive(Debug, PartialEq, Eq)]
pub struct Through {
    pub view: Resource,
    /// The role with whose rights the view reads; none may read everything.
    pub owner: Option<String>,
    /// The view that this one reads, where it is not the table itself.
    pub inner: Option<Arc<Through>>,
}

/// See the head of this file.
#[derive(Debug, Clone)]
pub struct TideTable {
    database: Engine,
    table: SchemaRef,
    schema: ArrowSchemaRef,
    /// What stands behind the columns of the table.
    stamps: Vec<Stamp>,
    partition_limit: Option<PartitionLimit>,
    through: Option<Arc<Through>>,
}

impl TideTable {
    pub fn new(database: Engine, table: SchemaRef) -> Self {
        let schema = table_arrow_schema(&table);
        let (stamps, partition_limit, through) = (Vec::new(), None, None);
        TideTable { database, table, schema, stamps, partition_limit, through }
    }

    /// The same table, of which so many rows of each partition are read.
    pub fn limited(&self, limit: PartitionLimit) -> Self {
        TideTable { partition_limit: Some(limit), ..self.clone() }
    }

    /// The same table with a stamp among its columns.
    pub fn stamped(&self, stamp: Stamp) -> Self {
        let mut stamps = self.stamps.clone();
        if !stamps.contains(&stamp) {
            stamps.push(stamp);
        }
        let columns: Vec<ColumnId> = self.table.ids().collect();
        let schema = read_schema(&self.table, &columns, &stamps);
        TideTable { schema, stamps, ..self.clone() }
    }

    /// The same table, read through a view: through the one that it is read through now.
    pub fn seen_through(&self, view: Resource, owner: Option<String>) -> Self {
        let inner = self.through.clone();
        TideTable { through: Some(Arc::new(Through { view, owner, inner })), ..self.clone() }
    }

    /// The view that the statement names, where it does not name the table.
    pub fn through(&self) -> Option<&Through> {
        self.through.as_deref()
    }

    /// How many rows of each partition are read, where that is limited.
    pub fn partition_limit(&self) -> Option<PartitionLimit> {
        self.partition_limit
    }

    /// The table.
    pub fn table(&self) -> &SchemaRef {
        &self.table
    }

    /// What a read of the rows that satisfy all these conditions reads.
    pub fn access(&self, filters: &[Expr]) -> Access {
        let (keyspace, table) = (&self.table.keyspace, &self.table.name);
        let whose = match self.database.catalog().is_attached(keyspace, table) {
            true => Keys::Foreign,
            false => Keys::Own,
        };
        pushdown::decide_apart(&self.table, filters, whose)
    }
}

impl TableProvider for TideTable {
    fn schema(&self) -> ArrowSchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Exact; filters.len()])
    }

    /// What `async_trait` makes of an async function.
    fn scan<'table, 'state, 'projection, 'filters, 'scan>(
        &'table self,
        state: &'state dyn Session,
        projection: Option<&'projection Vec<usize>>,
        filters: &'filters [Expr],
        limit: Option<usize>,
    ) -> BoxFuture<'scan, Result<Arc<dyn ExecutionPlan>>>
    where
        'table: 'scan,
        'state: 'scan,
        'projection: 'scan,
        'filters: 'scan,
    {
        async move {
            let access = self.access(filters);
            // What is read by its keys is few, and a look at the shards would cost as much.
            let wants_rows = access.keys.is_none() && !access.is_empty();
            let rows = match wants_rows {
                // Nodes have about as many each.
                true => {
                    let nodes = self.database.ring().map_or(1, |ring| ring.nodes().count() as u64);
                    let rows = self.database.rows_about(&self.table).await.ok();
                    rows.map(|rows| rows * nodes)
                }
                false => None,
            };
            self.planned((state, rows), projection, access, limit)
        }
        .boxed()
    }
}

impl TideTable {
    /// The scan of some columns of a table that has about so many rows.
    fn planned(
        &self,
        (state, rows): (&dyn Session, Option<u64>),
        projection: Option<&Vec<usize>>,
        access: Access,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all: Vec<ColumnId> = self.table.ids().collect();
        let whole: Vec<usize> = (0..self.schema.fields().len()).collect();
        let places = projection.unwrap_or(&whole);
        let mut selection = Selection::of(&self.table, &self.stamps, places)?;
        if access.is_empty() {
            return Ok(Arc::new(EmptyExec::new(selection.schema(&self.table))));
        }
        let row_filter = comparisons(&self.table, &access.residual);
        let row_filter = RowFilter::of(&self.table, &row_filter);
        let predicate = match all_of(access.residual.clone()) {
            None => None,
            Some(residual) => {
                let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
                let predicate = state.create_physical_expr(residual, &schema)?;
                let mut needed: Vec<usize> =
                    collect_columns(&predicate).iter().map(|column| column.index()).collect();
                needed.sort_unstable();
                for place in needed {
                    match all.get(place) {
                        Some(id) => selection.need(*id),
                        None => selection.need_stamp(self.stamps[place - all.len()]),
                    }
                }
                if self.partition_limit.is_some() {
                    // Rows that are left are counted by partition.
                    self.table.partition_key_ids().into_iter().for_each(|id| selection.need(id));
                }
                Some(reassign_expr_columns(predicate, &selection.read_schema(&self.table))?)
            }
        };
        let scan = TideScan::new(
            self.database.clone(),
            Arc::clone(&self.table),
            access,
            selection,
            predicate,
            limit,
        );
        let streams = state.config().target_partitions();
        let scan = scan.filtered(row_filter).of_rows(rows, streams);
        let scan = scan.past_cache(bypasses_cache(state.config_options()));
        let scan = match OnlyShard::of(state.config()) {
            Some(OnlyShard(shard)) => scan.of_shard(shard),
            None => scan,
        };
        Ok(match self.partition_limit {
            Some(limit) => Arc::new(scan.limited(limit)),
            None => Arc::new(scan),
        })
    }
}
