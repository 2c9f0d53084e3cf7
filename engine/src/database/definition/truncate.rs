//! TRUNCATE: a table with another id, and no rows, takes the place of the one that has them.
//!
//! The catalog changes from one to the other in a single store, so a crash leaves all rows or none.
//! The rest is what CREATE TABLE and DROP TABLE do.

use futures::future::BoxFuture;

use crate::database::catalog::shared;
use crate::database::database::Database;
use crate::error::Result;
use crate::schema::TableSchema;
use crate::schema::table_schema::SchemaRef;

impl Database {
    /// Removes all rows of a table; answers the table that has its name from now on.
    ///
    /// Reads that run still see the old rows. A write that meets the change is refused with
    /// `Unavailable` or `NotFound`; what was acknowledged before is removed.
    ///
    /// Errors: `NotFound`; `Invalid` for an attached table; `Io`, and the table is as before;
    /// `Unavailable` when it is not known whether the next start finds its rows: until it is
    /// truncated again or dropped it takes no writes.
    pub fn truncate_table(
        &self,
        keyspace: &str,
        name: &str,
    ) -> BoxFuture<'static, Result<SchemaRef>> {
        let database = self.clone();
        let (keyspace, name) = (keyspace.to_owned(), name.to_owned());
        self.uninterrupted(async move { database.truncate(&keyspace, &name).await })
    }

    async fn truncate(&self, keyspace: &str, name: &str) -> Result<SchemaRef> {
        let catalog = self.catalog();
        let hint = format!("its files belong to others; DETACH {name} takes it away");
        let old = catalog.own_table(keyspace, name, &hint)?.clone();
        let id = catalog.fresh_table_id(self.clock().wall_us());
        assert_ne!(id, old.id, "a table's id is never given again");
        let new = shared(TableSchema { id, ..(*old).clone() });
        let mut changed = catalog.changed();
        changed.remove_table(keyspace, name);
        changed.add_table(new.clone());
        let made = async {
            self.add_on_shards(&new).await?;
            self.publish_without(&old, changed).await
        };
        if let Err(error) = made.await {
            self.take_back(&new).await;
            return Err(error);
        }
        self.remove_for_good(old).await?;
        Ok(new)
    }
}
