//! Changes of definitions that all nodes of a cluster make, also where no statement of its own says
//! so: a table that a query or an ingest fills.

use std::future::Future;
use std::sync::Arc;

use tidegate_engine::{Database, Resource, SchemaRef, TableSchema};
use tokio::runtime::Handle;

use crate::cluster::Cluster;
use crate::query::error::{QueryError, Result};
use crate::query::session::Session;
use crate::query::statements::definition_text as text;
use crate::text::named;

/// Makes changes here, and has the other nodes make them with the rights of the same role.
#[derive(Clone)]
pub(crate) struct Definer {
    database: Database,
    /// `None` for a node by itself.
    cluster: Option<Arc<Cluster>>,
    /// Keyspace of unqualified names.
    keyspace: String,
    role: Option<String>,
}

impl Definer {
    /// Makes a change here, then has all other nodes run a text that says the same; `None` where
    /// nothing was changed.
    ///
    /// Errors: those of the change, and then no node has made it; `Unavailable` naming a node that
    /// is down or has other definitions.
    pub async fn define<T>(
        &self,
        change: impl Future<Output = Result<T>>,
        text: impl FnOnce(&T) -> Option<String>,
    ) -> Result<T> {
        let Some(cluster) = &self.cluster else { return change.await };
        let defining = cluster.begin_defining().await?;
        let mut made = change.await;
        if let Some(text) = made.as_ref().ok().and_then(text) {
            let role = self.role.as_deref();
            if let Err(error) = defining.run_elsewhere(&text, &self.keyspace, role).await {
                made = Err(error.into());
            }
        }
        defining.end().await;
        made
    }

    /// Drops a table, unless another one has its name by now.
    ///
    /// Errors: as of [`Definer::define`]; `Io`.
    pub async fn drop_table(&self, table: &TableSchema) -> Result<()> {
        let TableSchema { keyspace, name, .. } = table;
        let change = async {
            let now = self.database.catalog().table(keyspace, name).map(|table| table.id);
            let is_same = now == Some(table.id);
            if is_same {
                self.database.drop_table(keyspace, name, true).await?;
            }
            Ok(is_same)
        };
        let text = |is_same: &bool| {
            is_same.then(|| format!("DROP TABLE IF EXISTS {}.{}", named(keyspace), named(name)))
        };
        self.define(change, text).await.map(|_| ())
    }
}

impl Session {
    /// Who changes definitions for the statements of this session.
    pub(crate) fn definer(&self) -> Definer {
        Definer {
            database: self.database.clone(),
            cluster: self.cluster_to_define().cloned(),
            keyspace: self.keyspace(),
            role: self.caller().role().map(str::to_owned),
        }
    }

    /// A table of all nodes that has no rows yet.
    pub(crate) fn unfilled(&self, table: SchemaRef) -> Unfilled {
        Unfilled { definer: self.definer(), table: Some(table) }
    }

    /// Makes a table on this node; whether it was not there before. Its maker may do everything
    /// with it.
    ///
    /// Errors: `Exists`, `Invalid`, `NotFound`, `Io`.
    pub(crate) async fn make_table(
        &self,
        schema: TableSchema,
        if_not_exists: bool,
    ) -> Result<(SchemaRef, bool)> {
        let before = self.database.catalog();
        let schema = self.database.create_table(schema, if_not_exists).await?;
        let is_new = before.table(&schema.keyspace, &schema.name).is_none();
        if is_new {
            self.hand_over(&Resource::table(&schema.keyspace, &schema.name)).await?;
        }
        Ok((schema, is_new))
    }

    /// As [`Session::make_table`], on all nodes of a cluster.
    ///
    /// Errors: also those of [`Definer::define`].
    pub(crate) async fn make_table_everywhere(
        &self,
        schema: TableSchema,
        if_not_exists: bool,
    ) -> Result<(SchemaRef, bool)> {
        let text = |(made, is_new): &(SchemaRef, bool)| is_new.then(|| text::table(made));
        self.definer().define(self.make_table(schema, if_not_exists), text).await
    }
}

/// A table whose rows are on their way: as this goes, so does the table.
pub(crate) struct Unfilled {
    definer: Definer,
    table: Option<SchemaRef>,
}

impl Unfilled {
    /// All rows are there.
    pub fn keep(mut self) {
        self.table = None;
    }

    /// Drops the table; the error says so.
    pub async fn take_back(mut self, error: QueryError) -> QueryError {
        let Some(table) = self.table.take() else { return error };
        let name = table.full_name();
        let message = match self.definer.drop_table(&table).await {
            Ok(()) => format!("{}; table {name} is not made", error.message),
            Err(why) => format!(
                "{}; table {name} is there without all its rows, for it could not \
                                 be dropped: {why}",
                error.message
            ),
        };
        QueryError { message, ..error }
    }
}

impl Drop for Unfilled {
    fn drop(&mut self) {
        let (Some(table), Ok(runtime)) = (self.table.take(), Handle::try_current()) else { return };
        let definer = self.definer.clone();
        runtime.spawn(async move {
            if let Err(error) = definer.drop_table(&table).await {
                let table = table.full_name();
                tracing::warn!(table, %error, "a table that was given up could not be dropped");
            }
        });
    }
}
