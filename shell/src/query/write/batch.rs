//! BEGIN BATCH … APPLY BATCH, as a session runs it: the mutations of all statements, with one
//! timestamp.
//!
//! | batch | how |
//! |---|---|
//! | of one partition | one mutation, and so one record of the commitlog |
//! | of several | through the engine's log of batches, all or nothing |
//! | UNLOGGED, of several | those of each partition together, and the partitions by themselves |
//! | with IF | of one partition: all is written if all conditions hold |
//! | COUNTER | steps of counters, those of each partition together (`counting.rs`) |

use datafusion::arrow::datatypes::{DataType, SchemaRef as ArrowSchemaRef};
use datafusion::common::ScalarValue;
use tidegate_engine::batch::{WriteOptions, expiry};
use tidegate_engine::{ColumnId, ConditionalWrite, Mutation, SchemaRef, TableSchema};

use super::condition::{answer_schema, distinct, shown_columns};
use super::conditional::answer;
use super::element::is_counting;
use super::stamp;
use crate::query::error::{QueryError, Result};
use crate::query::outcome::Outcome;
use crate::query::parse::{Batch, Using, UsingValue, Write, WriteKind};
use crate::query::session::Session;

impl Session {
    /// Runs a batch.
    ///
    /// Errors: those of its statements, at their places, and nothing is written; those of the
    /// engine.
    pub(in crate::query) async fn batch(
        &self,
        batch: &Batch,
        values: &[ScalarValue],
    ) -> Result<Outcome> {
        if batch.is_counter {
            return self.count_batch(batch, values).await;
        }
        let common = Using { ttl: None, timestamp: batch.timestamp };
        let WriteOptions { timestamp, now_seconds, .. } = self.write_options(common, values)?;
        let is_conditional = batch.writes.iter().any(|write| write.condition.is_some());
        let mut mutations = Vec::new();
        let mut conditions = Vec::new();
        for write in &batch.writes {
            let table = self.table(&write.table)?;
            check_no_steps(write, &table)?;
            let own = self.write_options(write.using, values)?;
            let is_dated = write.using.timestamp.is_some();
            let timestamp = if is_dated { own.timestamp } else { timestamp };
            let options = WriteOptions { timestamp, now_seconds, ..own };
            expiry(&table, &options)?;
            if write.condition.is_some() {
                let write = self.conditional(write, &table, values, &options).await?;
                mutations.push(write.mutation);
                conditions.extend(write.conditions);
            } else {
                mutations.extend(self.batched(write, &table, values, &options).await?);
            }
        }
        let database = self.database.under(self.write_terms());
        if is_conditional {
            let mutation = only_partition(batch, mutations)?;
            let decision = database.write_if(ConditionalWrite { mutation, conditions }).await?;
            let (table, columns) = self.shown_of_batch(batch)?;
            return answer(&table, &columns, &decision).map(Outcome::decided);
        }
        let count = mutations.iter().map(|mutation| mutation.rows.len().max(1) as u64).sum();
        match batch.is_logged {
            true => database.apply_logged(mutations).await?,
            false => database.apply_by_partition(mutations).await?,
        }
        Ok(Outcome::count(count))
    }

    /// The mutations of a statement of a batch that depends on nothing.
    async fn batched(
        &self,
        write: &Write,
        table: &SchemaRef,
        values: &[ScalarValue],
        options: &WriteOptions,
    ) -> Result<Vec<Mutation>> {
        if let WriteKind::Insert(columns) = &write.kind {
            let mut rows = self.inserted(write, table, columns, values, options).await?;
            // They have one timestamp: of two with one key the later one stands.
            stamp::keep_last(&mut rows);
            return Ok(rows);
        }
        let changed = self.changed(write, table, values, options).await?;
        Ok(changed.map_or_else(Vec::new, |(_, mutations)| mutations))
    }

    /// The table of a batch with IF, and the columns that its answer shows: the key of each row,
    /// and what the conditions look at.
    fn shown_of_batch(&self, batch: &Batch) -> Result<(SchemaRef, Vec<ColumnId>)> {
        let table = self.table(&batch.writes[0].table)?;
        let mut shown = Vec::new();
        for write in &batch.writes {
            let Some(condition) = &write.condition else { continue };
            let own = self.table(&write.table)?;
            shown.extend(shown_columns(&own, condition)?);
        }
        let columns = with_key(&table, shown);
        Ok((table, columns))
    }

    /// The schema of a batch's answer; `None` for one without IF, which has no rows.
    pub(in crate::query) fn batch_schema(&self, batch: &Batch) -> Result<Option<ArrowSchemaRef>> {
        if batch.writes.iter().all(|write| write.condition.is_none()) {
            return Ok(None);
        }
        let (table, columns) = self.shown_of_batch(batch)?;
        Ok(Some(answer_schema(&table, &columns)))
    }

    /// The types of parameters of a batch that its statements say: each by its name.
    pub(in crate::query) async fn batch_parameters(
        &self,
        batch: &Batch,
    ) -> Result<Vec<(String, DataType)>> {
        let mut found = Vec::new();
        for write in &batch.writes {
            found.extend(self.write_parameters(write).await?);
        }
        if let Some(UsingValue::Parameter(n)) = batch.timestamp {
            found.push((format!("${n}"), DataType::Int64));
        }
        Ok(found)
    }
}

/// Errors: `Invalid` for a statement that steps counters: a batch that is applied again after a
/// crash would count twice.
fn check_no_steps(write: &Write, table: &TableSchema) -> Result<()> {
    match is_counting(table, &write.elements) {
        false => Ok(()),
        true => Err(QueryError::invalid("a batch takes no steps of counters")
            .at(write.table.table.span)
            .with_help("write BEGIN COUNTER BATCH … APPLY BATCH, with nothing but steps")),
    }
}

/// The columns of the answer of a batch: the key, then those that its conditions show.
pub(in crate::query) fn with_key(
    table: &TableSchema,
    shown: impl IntoIterator<Item = ColumnId>,
) -> Vec<ColumnId> {
    let key = table.partition_key_ids().into_iter().chain(table.clustering_key_ids());
    distinct(key.chain(shown))
}

/// The mutations of a batch with IF as one.
fn only_partition(batch: &Batch, mutations: Vec<Mutation>) -> Result<Mutation> {
    if mutations.is_empty() {
        return Err(QueryError::invalid("a batch writes nothing"));
    }
    of_one_partition(mutations).ok_or_else(|| {
        QueryError::unsupported("a batch with IF writes to one partition").at(batch.span).with_help(
            "it is decided where the partition is: write to the rows of one partition of one \
                 table, or make several batches",
        )
    })
}

/// Mutations as one; `None` where they are none, or of several partitions.
pub(in crate::query) fn of_one_partition(mutations: Vec<Mutation>) -> Option<Mutation> {
    let mut mutations = mutations.into_iter();
    let mut all = mutations.next()?;
    for mutation in mutations {
        if mutation.table != all.table || mutation.key != all.key {
            return None;
        }
        all.add(mutation);
    }
    Some(all)
}
