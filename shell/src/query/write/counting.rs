//! Steps of counters, as a session runs them: `SET c = c + 1`, by itself and in a batch.

use std::collections::HashMap;

use datafusion::common::ScalarValue;
use tidegate_engine::batch::WriteOptions;
use tidegate_engine::{Mutation, PartitionKey, SchemaRef, TableId};

use super::element::is_counting;
use crate::query::error::{QueryError, Result};
use crate::query::outcome::Outcome;
use crate::query::parse::{Batch, Using, Write};
use crate::query::session::Session;

impl Session {
    /// Runs an UPDATE that steps counters.
    ///
    /// Errors: those of an UPDATE; `Invalid` for what goes with steps nowhere; those of the engine,
    /// after which the steps of some partitions may be taken.
    pub(in crate::query) async fn count(
        &self,
        write: &Write,
        table: &SchemaRef,
        values: &[ScalarValue],
        options: &WriteOptions,
    ) -> Result<Outcome> {
        check(write)?;
        let changed = self.changed(write, table, values, options).await?;
        let mutations = changed.map_or_else(Vec::new, |(_, mutations)| mutations);
        self.take_steps(mutations).await
    }

    /// Runs a batch of such statements: the steps of each partition are taken together.
    ///
    /// Errors: as [`Session::count`]; `Invalid` for another statement.
    pub(in crate::query) async fn count_batch(
        &self,
        batch: &Batch,
        values: &[ScalarValue],
    ) -> Result<Outcome> {
        let mut partitions: HashMap<(TableId, PartitionKey), Mutation> = HashMap::new();
        for write in &batch.writes {
            let table = self.table(&write.table)?;
            if !is_counting(&table, &write.elements) {
                let error = QueryError::invalid("a counter batch takes steps of counters alone");
                return Err(error
                    .at(write.table.table.span)
                    .with_help("write other statements by themselves, or in BEGIN BATCH"));
            }
            check(write)?;
            let options = self.write_options(Using::default(), values)?;
            let changed = self.changed(write, &table, values, &options).await?;
            for mutation in changed.into_iter().flat_map(|(_, mutations)| mutations) {
                let place = (mutation.table, mutation.key.clone());
                match partitions.remove(&place) {
                    Some(mut all) => {
                        all.add(mutation);
                        partitions.insert(place, all);
                    }
                    None => drop(partitions.insert(place, mutation)),
                }
            }
        }
        self.take_steps(partitions.into_values().collect()).await
    }

    async fn take_steps(&self, mutations: Vec<Mutation>) -> Result<Outcome> {
        let mut count = 0;
        for mutation in mutations {
            count += mutation.rows.len().max(1) as u64;
            let counting = self.database.under(self.write_terms()).count(mutation)?;
            counting.await?;
        }
        Ok(Outcome::count(count))
    }
}

/// Errors: `Invalid` for a clause that goes with no step.
fn check(write: &Write) -> Result<()> {
    let refuse = |message: &str, help: &str| {
        Err(QueryError::invalid(message).at(write.table.table.span).with_help(help))
    };
    if write.using != Using::default() {
        return refuse(
            "a step of a counter takes no TTL and no TIMESTAMP",
            "leave USING out: a counter goes on from what it holds now, for ever",
        );
    }
    if write.condition.is_some() {
        return refuse("a step of a counter takes no IF", "read the counter, and decide by it");
    }
    Ok(())
}
