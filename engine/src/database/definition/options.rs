//! Changes the options of a table, and reports large data and damage.

use std::rc::Rc;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::database::catalog::shared;
use crate::database::database::Database;
use crate::database::report::{DamageReport, LargeDataReport};
use crate::database::shard::Shard;
use crate::error::Result;
use crate::schema::TableOptions;
use crate::schema::table_schema::SchemaRef;
use crate::sstable::Damage;
use crate::table::LargeThing;

/// A table whose definition was changed.
#[derive(Debug, Clone)]
pub struct AlteredTable {
    pub schema: SchemaRef,
    /// Shards on which the table could not be opened: there it is changed from the next start on.
    pub shards_closed: u32,
}

impl Database {
    /// Changes the options of a table. Reads and flushes that begin later follow them.
    ///
    /// Errors: `NotFound`; `Invalid` for impossible options and for attached tables; `Io`.
    pub fn alter_table(
        &self,
        keyspace: &str,
        name: &str,
        change: impl FnOnce(&mut TableOptions) + Send + 'static,
    ) -> BoxFuture<'static, Result<AlteredTable>> {
        let database = self.clone();
        let (keyspace, name) = (keyspace.to_owned(), name.to_owned());
        self.uninterrupted(async move {
            let catalog = database.catalog();
            let hint = "DETACH it and give the options to ATTACH";
            let table = catalog.own_table(&keyspace, &name, hint)?;
            let mut schema = (**table).clone();
            change(&mut schema.options);
            schema.validate()?;
            let schema = shared(schema);
            let mut changed = catalog.changed();
            changed.add_table(schema.clone());
            database.publish(changed).await?;
            database.set_schema(schema).await
        })
    }

    /// Gives every shard a changed definition of a table.
    ///
    /// Errors: `Closed`, `NotFound`.
    pub(super) async fn set_schema(&self, schema: SchemaRef) -> Result<AlteredTable> {
        let mut shards_closed = 0;
        for number in 0..self.shard_count() {
            let altered = schema.clone();
            let set =
                move |shard: Rc<Shard>| async move { shard.set_schema(altered) }.boxed_local();
            let is_open = self.handle(number).call("alter table", set).await??;
            shards_closed += u32::from(!is_open);
        }
        Ok(AlteredTable { schema, shards_closed })
    }

    /// What is large in the SSTables of all tables: the largest of each kind of each SSTable.
    ///
    /// Errors: `Closed`.
    pub fn large_data_report(&self) -> BoxFuture<'_, Result<Vec<LargeDataReport>>> {
        async move {
            let mut reports = Vec::new();
            let told = self.of_shards("large data", Shard::large_data).await?;
            for (shard, tables) in (0..).zip(told) {
                for (schema, things) in tables {
                    let report = |thing| LargeDataReport {
                        keyspace: schema.keyspace.clone(),
                        table: schema.name.clone(),
                        thing,
                        shard,
                    };
                    reports.extend(things.into_iter().map(report));
                }
            }
            // An SSTable of another shard count is open on every shard: the first tells of it.
            reports.sort();
            reports.dedup_by(|a, b| {
                (&a.keyspace, &a.table, &a.thing) == (&b.keyspace, &b.table, &b.thing)
            });
            Ok(reports)
        }
        .boxed()
    }

    /// The damage that reads met since the tables were opened, by table, shard, file and offset.
    ///
    /// Errors: `Closed`.
    pub fn damage_report(&self) -> BoxFuture<'_, Result<Vec<DamageReport>>> {
        async move {
            let mut reports = Vec::new();
            let told = self.of_shards("damage", Shard::damage).await?;
            for (shard, tables) in (0..).zip(told) {
                for (schema, places) in tables {
                    let report = |damage| DamageReport {
                        keyspace: schema.keyspace.clone(),
                        table: schema.name.clone(),
                        shard,
                        damage,
                    };
                    reports.extend(places.into_iter().map(report));
                }
            }
            Ok(reports)
        }
        .boxed()
    }
}

impl Shard {
    fn large_data(&self) -> Vec<(SchemaRef, Vec<LargeThing>)> {
        let tables = self.tables().into_iter();
        tables.map(|table| (table.schema(), table.large_data())).collect()
    }

    fn damage(&self) -> Vec<(SchemaRef, Vec<Damage>)> {
        let tables = self.tables().into_iter();
        tables.map(|table| (table.schema(), table.damage().places())).collect()
    }
}
