//! The keyspace `system` and its tables as DataFusion sees them.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{SchemaProvider, Session, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::system::SystemTable;
use crate::query::engine::Engine;

/// Name of the keyspace.
pub const SYSTEM_KEYSPACE: &str = "system";

#[derive(Debug)]
pub struct SystemSchema {
    database: Engine,
}

impl SystemSchema {
    pub fn new(database: Engine) -> Self {
        SystemSchema { database }
    }
}

#[async_trait]
impl SchemaProvider for SystemSchema {
    fn table_names(&self) -> Vec<String> {
        SystemTable::ALL.iter().map(|table| table.name().to_owned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        Ok(SystemTable::ALL.into_iter().find(|table| table.name() == name).map(|table| {
            let source = SystemSource { database: self.database.clone(), table };
            Arc::new(source) as Arc<dyn TableProvider>
        }))
    }

    fn table_exist(&self, name: &str) -> bool {
        SystemTable::ALL.iter().any(|table| table.name() == name)
    }
}

/// One table.
#[derive(Debug)]
pub struct SystemSource {
    database: Engine,
    table: SystemTable,
}

impl SystemSource {
    pub fn name(&self) -> &'static str {
        self.table.name()
    }
}

impl TableProvider for SystemSource {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    /// Conditions are looked at, and checked above all the same.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    /// What `async_trait` makes of an async function, without its bounds on what waits.
    fn scan<'table, 'state, 'projection, 'filters, 'scan>(
        &'table self,
        state: &'state dyn Session,
        projection: Option<&'projection Vec<usize>>,
        filters: &'filters [Expr],
        _limit: Option<usize>,
    ) -> BoxFuture<'scan, Result<Arc<dyn ExecutionPlan>>>
    where
        'table: 'scan,
        'state: 'scan,
        'projection: 'scan,
        'filters: 'scan,
    {
        self.read(state, projection, filters)
    }
}

impl SystemSource {
    /// What the table holds now, as a plan.
    fn read<'a>(
        &'a self,
        state: &'a dyn Session,
        projection: Option<&'a Vec<usize>>,
        filters: &'a [Expr],
    ) -> BoxFuture<'a, Result<Arc<dyn ExecutionPlan>>> {
        let read = async move {
            let queries = &state.runtime_env().memory_pool;
            let columns = self.table.columns(&self.database, (filters, queries)).await;
            let columns = columns.map_err(|error| DataFusionError::External(Box::new(error)))?;
            let batch = RecordBatch::try_new(self.table.schema(), columns)?;
            let (schema, projection) = (self.table.schema(), projection.cloned());
            let plan = MemorySourceConfig::try_new_exec(&[vec![batch]], schema, projection)?;
            Ok(plan as Arc<dyn ExecutionPlan>)
        };
        read.boxed()
    }
}
