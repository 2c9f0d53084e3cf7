//! The views of one statement as DataFusion's tables: what they read is planned, and it takes the
//! place of the view in the plan, so conditions reach the tables below.
//!
//! A catalog cannot plan. So the views that a statement needs are planned before it, and stand over
//! the catalogs of its session while it is planned.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::TableType;

use super::catalog::CATALOG;

/// Planned views by keyspace and name.
pub type Views = HashMap<(String, String), Arc<dyn TableProvider>>;

/// The catalogs of a session, with views.
#[derive(Debug)]
pub struct WithViews {
    below: Arc<dyn CatalogProviderList>,
    views: Arc<Views>,
}

impl WithViews {
    pub fn new(below: Arc<dyn CatalogProviderList>, views: Views) -> Self {
        WithViews { below, views: Arc::new(views) }
    }
}

impl CatalogProviderList for WithViews {
    fn register_catalog(
        &self,
        name: String,
        catalog: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        self.below.register_catalog(name, catalog)
    }

    fn catalog_names(&self) -> Vec<String> {
        self.below.catalog_names()
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let below = self.below.catalog(name)?;
        if name != CATALOG {
            return Some(below);
        }
        Some(Arc::new(Keyspaces { below, views: Arc::clone(&self.views) }))
    }
}

#[derive(Debug)]
struct Keyspaces {
    below: Arc<dyn CatalogProvider>,
    views: Arc<Views>,
}

impl CatalogProvider for Keyspaces {
    fn schema_names(&self) -> Vec<String> {
        self.below.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let (below, views) = (self.below.schema(name)?, Arc::clone(&self.views));
        Some(Arc::new(Keyspace { below, name: name.to_owned(), views }))
    }
}

#[derive(Debug)]
struct Keyspace {
    below: Arc<dyn SchemaProvider>,
    name: String,
    views: Arc<Views>,
}

#[async_trait]
impl SchemaProvider for Keyspace {
    fn table_names(&self) -> Vec<String> {
        self.below.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.views.get(&(self.name.clone(), name.to_owned())) {
            Some(view) => Ok(Some(Arc::clone(view))),
            None => self.below.table(name).await,
        }
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        match self.views.contains_key(&(self.name.clone(), name.to_owned())) {
            true => Ok(Some(TableType::View)),
            false => self.below.table_type(name).await,
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.below.table_exist(name)
    }
}
