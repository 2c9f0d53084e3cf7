//! Changes of definitions that all nodes of a cluster make, also where no statement of its own says
//! so: a table that a query or an ingest fills.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::schema::named;
use tidegate_engine::{Database, Resource, SchemaRef, TableSchema};
use tokio::runtime::Handle;

use crate::cluster::Cluster;
use crate::query::access::{AuditEvent, hand_over};
use crate::query::error::{ErrorKind, QueryError, Result};
use crate::query::session::Session;
use crate::query::statements::definition_text as text;

/// How often a table that is given up is tried to be dropped while somebody else defines.
const DROP_TRIES: u32 = 5;
const DROP_PAUSE: Duration = Duration::from_secs(1);

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

    /// Makes a table on all nodes, in the place of the one before where there is one. Where a node
    /// cannot make it, the others drop it again. It goes on to its end, whoever waits for it.
    ///
    /// Errors: `Exists`, `Invalid`, `NotFound`, `Io`; `Unavailable` naming the nodes that did not
    /// make it.
    async fn make(self, schema: TableSchema, before: Option<SchemaRef>) -> Result<SchemaRef> {
        to_its_end(async move { self.make_now(schema, before).await }).await
    }

    async fn make_now(&self, schema: TableSchema, before: Option<SchemaRef>) -> Result<SchemaRef> {
        let here = self.make_here(schema, before.as_deref());
        let Some(cluster) = &self.cluster else { return here.await };
        let defining = cluster.begin_defining().await?;
        let table = match here.await {
            Ok(table) => table,
            Err(error) => {
                defining.end().await;
                return Err(error);
            }
        };
        let (drop, role) = (dropping(&table), self.role.as_deref());
        let mut failed = Vec::new();
        if before.is_some() {
            failed = defining.failed_elsewhere(&drop, &self.keyspace, role).await;
        }
        if failed.is_empty() {
            let text = text::table(&table);
            failed = defining.failed_elsewhere(&text, &self.keyspace, role).await;
        }
        if failed.is_empty() {
            defining.end().await;
            return Ok(table);
        }
        // Those that have made it lose it again: definitions have to be alike.
        let dropped = self.database.drop_table(&table.keyspace, &table.name, true).await;
        let kept = defining.failed_elsewhere(&drop, &self.keyspace, role).await;
        defining.end().await;
        let (name, failed) = (table.full_name(), failed.join("; "));
        let message =
            format!("table {name} is not made, for not all nodes could make it: {failed}");
        let error = QueryError::new(ErrorKind::Unavailable, message);
        Err(match dropped.is_ok() && kept.is_empty() {
            true => error,
            false => error.with_help(
                "look at each node with SHOW TABLES, and drop it where it is left, with SET \
                 tidegate.this_node_alone = true",
            ),
        })
    }

    async fn make_here(
        &self,
        schema: TableSchema,
        before: Option<&TableSchema>,
    ) -> Result<SchemaRef> {
        if let Some(before) = before {
            self.drop_here(before).await?;
        }
        let table = self.database.create_table(schema, false).await?;
        let Some(role) = &self.role else { return Ok(table) };
        let resource = Resource::table(&table.keyspace, &table.name);
        if let Err(error) = hand_over(&self.database, role, &resource).await {
            self.drop_here(&table).await?;
            return Err(error);
        }
        Ok(table)
    }

    /// Drops a table of this node, unless another one has its name by now; whether none has.
    async fn drop_here(&self, table: &TableSchema) -> Result<bool> {
        let TableSchema { keyspace, name, .. } = table;
        let now = self.database.catalog().table(keyspace, name).map(|table| table.id);
        let may_go = now.is_none_or(|now| now == table.id);
        if may_go {
            self.database.drop_table(keyspace, name, true).await?;
        }
        Ok(may_go)
    }

    /// Drops a table on all nodes, unless another one has its name by now. It goes on to its end,
    /// and tries again where somebody else defines.
    ///
    /// Errors: as of [`Definer::define`]; `Io`.
    pub async fn drop_table(&self, table: &SchemaRef) -> Result<()> {
        let (own, table) = (self.clone(), Arc::clone(table));
        to_its_end(async move {
            let tries = if own.cluster.is_some() { DROP_TRIES } else { 1 };
            for _ in 1..tries {
                match own.try_drop(&table).await {
                    Err(error) if error.kind == ErrorKind::Unavailable => {}
                    ended => return ended,
                }
                tokio::time::sleep(DROP_PAUSE).await;
            }
            own.try_drop(&table).await
        })
        .await
    }

    async fn try_drop(&self, table: &TableSchema) -> Result<()> {
        let text = |may_go: &bool| may_go.then(|| dropping(table));
        self.define(self.drop_here(table), text).await.map(|_| ())
    }
}

/// Does work to its end, whoever waits for it.
async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    tokio::spawn(work).await.unwrap_or_else(|error| {
        let message = format!("a change of definitions ended: {error}");
        Err(QueryError::new(ErrorKind::Internal, message))
    })
}

fn dropping(table: &TableSchema) -> String {
    format!("DROP TABLE IF EXISTS {}.{}", named(&table.keyspace), named(&table.name))
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
    /// Errors: also `Unavailable`, naming the nodes that did not make it.
    pub(crate) async fn make_table_everywhere(
        &self,
        schema: TableSchema,
        if_not_exists: bool,
    ) -> Result<(SchemaRef, bool)> {
        let (keyspace, name) = (schema.keyspace.clone(), schema.name.clone());
        let known = || self.database.catalog().table(&keyspace, &name).cloned();
        if let Some(known) = known().filter(|_| if_not_exists) {
            return Ok((known, false));
        }
        match self.definer().make(schema, None).await {
            Ok(made) => Ok((made, true)),
            Err(error) if if_not_exists && error.kind == ErrorKind::Exists => {
                known().map(|known| (known, false)).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes the table of an ingest on all nodes, in the place of the one before where there is
    /// one.
    ///
    /// Errors: as of [`Session::make_table_everywhere`].
    pub(crate) async fn make_for_ingest(
        &self,
        schema: TableSchema,
        before: Option<SchemaRef>,
    ) -> Result<SchemaRef> {
        let name = schema.full_name();
        let replaced =
            if before.is_some() { format!("DROP TABLE {name}; ") } else { String::new() };
        let what = format!("{replaced}CREATE TABLE {name}, by an ingest");
        let made = self.definer().make(schema, before).await;
        self.audit_ended(AuditEvent::Definition, &what, &made);
        made
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
        let Some(table) = self.table.clone() else { return error };
        let name = table.full_name();
        let dropped = self.definer.drop_table(&table).await;
        self.table = None;
        let message = match dropped {
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
