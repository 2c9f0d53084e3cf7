//! The engine's keyspaces and tables as DataFusion's schemas and tables, looked up when asked.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::DataFusionError;
use datafusion::logical_expr::TableType;

use super::provider::TideTable;
use crate::query::engine::Engine;
use crate::query::system::{SYSTEM_KEYSPACE, SystemSchema};

/// Name of the one catalog.
pub const CATALOG: &str = "tidegate";

/// All keyspaces, and `system`.
#[derive(Debug)]
pub struct TideCatalog {
    database: Engine,
}

impl TideCatalog {
    pub fn new(database: Engine) -> Self {
        TideCatalog { database }
    }
}

impl CatalogProvider for TideCatalog {
    fn schema_names(&self) -> Vec<String> {
        let catalog = self.database.catalog();
        let mut names: Vec<String> = catalog.keyspaces().map(str::to_owned).collect();
        names.push(SYSTEM_KEYSPACE.to_owned());
        names
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if name == SYSTEM_KEYSPACE {
            return Some(Arc::new(SystemSchema::new(self.database.clone())));
        }
        let catalog = self.database.catalog();
        catalog.keyspaces().any(|keyspace| keyspace == name).then(|| {
            let keyspace = Keyspace { database: self.database.clone(), name: name.to_owned() };
            Arc::new(keyspace) as Arc<dyn SchemaProvider>
        })
    }
}

#[derive(Debug)]
struct Keyspace {
    database: Engine,
    name: String,
}

#[async_trait]
impl SchemaProvider for Keyspace {
    fn table_names(&self) -> Vec<String> {
        let catalog = self.database.catalog();
        let tables = catalog.tables(&self.name).map(|table| table.name.clone());
        tables.chain(catalog.views(&self.name).map(|view| view.name.clone())).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let catalog = self.database.catalog();
        Ok(catalog.table(&self.name, name).map(|table| {
            let table = TideTable::new(self.database.clone(), Arc::clone(table));
            Arc::new(table) as Arc<dyn TableProvider>
        }))
    }

    /// Views have no table here: those of a statement stand over this (`views.rs`).
    async fn table_type(&self, name: &str) -> Result<Option<TableType>, DataFusionError> {
        let catalog = self.database.catalog();
        let view = catalog.view(&self.name, name).map(|_| TableType::View);
        Ok(catalog.table(&self.name, name).map(|_| TableType::Base).or(view))
    }

    fn table_exist(&self, name: &str) -> bool {
        let catalog = self.database.catalog();
        catalog.table(&self.name, name).is_some() || catalog.view(&self.name, name).is_some()
    }
}
