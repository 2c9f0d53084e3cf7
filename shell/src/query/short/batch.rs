//! BEGIN BATCH of statements that name their partitions: mutations of one timestamp.
//!
//! Invariant: all statements of a batch have their mutations before any is written.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::DataType as ArrowType;
use tidegate_engine::{ConditionalWrite, Database, Grant, Mutation, RowCondition, SchemaRef};

use super::lookup::RunContext;
use super::one_write::{OneWrite, rows_of, values_of};
use super::shape::{BatchShape, WriteShape};
use super::using::{options, want_numbers};
use crate::query::error::Result;
use crate::query::outcome::Outcome;
use crate::query::parse::{Batch as ParsedBatch, TableName, Using};
use crate::query::write::batch::{of_one_partition, with_key};
use crate::query::write::condition::shown_of;
use crate::query::write::conditional::{answer, together};

/// See the head of this file.
pub struct Batch {
    is_logged: bool,
    /// What it says of its own timestamp.
    using: Using,
    /// One at least.
    writes: Vec<OneWrite>,
}

/// What a batch writes with one row of parameters.
enum Written {
    Always(Vec<Mutation>),
    If(Box<ConditionalWrite>),
}

impl Batch {
    /// Looks up the names of all statements; `find` knows the tables that may be written. `types`
    /// learns which parameters they want. `None` where the planner has to look at it.
    pub fn new(
        shape: BatchShape,
        find: &dyn Fn(&TableName) -> Option<SchemaRef>,
        types: &mut [ArrowType],
    ) -> Option<Self> {
        let BatchShape { is_logged, timestamp, writes } = shape;
        let is_dated = |write: &WriteShape| match write {
            WriteShape::Insert(insert) => insert.using.timestamp.is_some(),
            WriteShape::Change(change) => change.using.timestamp.is_some(),
        };
        let has_dated = writes.iter().any(is_dated);
        let using = Using { ttl: None, timestamp };
        want_numbers(using, types)?;
        let mut all = Vec::with_capacity(writes.len());
        for write in writes {
            let table = find(write.table())?;
            all.push(OneWrite::new(write, &table, types)?);
        }
        let is_conditional = all.iter().any(OneWrite::is_conditional);
        // What does not go together the planner's path says.
        let is_fitting = (1..=ParsedBatch::STATEMENTS_MAX).contains(&all.len())
            && !(has_dated && timestamp.is_some())
            && !(is_conditional && (has_dated || timestamp.is_some()));
        is_fitting.then_some(Batch { is_logged, using, writes: all })
    }

    /// What its caller needs.
    pub fn grants(&self) -> impl Iterator<Item = Grant> {
        self.writes.iter().flat_map(OneWrite::grants)
    }

    pub fn is_conditional(&self) -> bool {
        self.writes.iter().any(OneWrite::is_conditional)
    }

    /// Runs it once for each row of parameters, or once where it has none; `None` means that
    /// nothing was done, and that the planner's path has the answer or the error.
    pub async fn run(
        &self,
        database: &Database,
        parameters: Option<&RecordBatch>,
        context: &RunContext<'_>,
    ) -> Result<Option<Outcome>> {
        let mut batches = Vec::new();
        for row in rows_of(parameters) {
            match self.written(database, row.as_ref())? {
                Some(written) => batches.push(written),
                None => return Ok(None),
            }
        }
        let (mut count, mut answers) = (0, Vec::new());
        for written in batches {
            match written {
                Written::Always(mutations) => {
                    let rows = mutations.iter().map(|one| one.rows.len().max(1) as u64);
                    count += rows.sum::<u64>();
                    let database = database.under(context.terms);
                    match self.is_logged {
                        true => database.apply_logged(mutations).await?,
                        false => database.apply_by_partition(mutations).await?,
                    }
                }
                Written::If(write) => answers.push(self.decide(database, *write, context).await?),
            }
        }
        match answers.is_empty() {
            true => Ok(Some(Outcome::count(count))),
            false => together(&answers).map(Some),
        }
    }

    /// What it writes with a row of parameters.
    fn written(&self, database: &Database, row: Option<&RecordBatch>) -> Result<Option<Written>> {
        let Some(options) = options(self.using, database, &values_of(row)?, None) else {
            return Ok(None);
        };
        let (mut mutations, mut conditions) = (Vec::new(), Vec::new());
        for write in &self.writes {
            if write.is_conditional() {
                // All parts have one time, so all become later together.
                let one = write.conditional(database, row, Some(options.timestamp))?;
                let Some(one) = one else { return Ok(None) };
                mutations.push(one.mutation);
                conditions.extend(one.conditions);
                continue;
            }
            match write.in_batch(database, row, options.timestamp)? {
                Some(written) => mutations.extend(written),
                None => return Ok(None),
            }
        }
        if !self.is_conditional() {
            return Ok(Some(Written::Always(mutations)));
        }
        let whole = of_one_partition(mutations);
        let write = whole.map(|mutation| Box::new(ConditionalWrite { mutation, conditions }));
        Ok(write.map(Written::If))
    }

    async fn decide(
        &self,
        database: &Database,
        write: ConditionalWrite,
        context: &RunContext<'_>,
    ) -> Result<RecordBatch> {
        let table = self.writes[0].table();
        let shown = |one: &RowCondition| shown_of(table, &one.condition);
        let columns = with_key(table, write.conditions.iter().flat_map(shown));
        let decision = database.under(context.terms).write_if(write).await?;
        answer(table, &columns, &decision)
    }
}
