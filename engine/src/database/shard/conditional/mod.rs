//! Writes that depend on what is there: the shard reads, judges and writes in one step.
//!
//! A conditional write has its partition for itself (`locks.rs`): first it waits for the writes
//! that are on their way to it, and those that come later wait for it. So what it reads is what its
//! write meets. It passes the gates of other writes in their order, and takes a turn among the
//! reads for what it reads. Its answer comes when its write is as durable as that of any other.
//! Steps of counters are such writes, too: what was counted is read, and the step added to it.

mod counting;
mod locks;

use std::rc::Rc;

pub(in crate::database) use self::counting::{rows as rows_of, steps};
pub(super) use self::locks::{Hold, Kind, Locks, Place};
use super::Shard;
use crate::admission::Terms;
use crate::error::{Error, Result};
use crate::mutation::Mutation;
use crate::policy::admission::ReadClass;
use crate::reader::{RowCondition, RowState, RowValues};
use crate::runtime;
use crate::schema::TableSchema;

/// How far a write came whose conditions were not judged.
const JUDGING: &str = "the rows that a write depends on were still to be read";

/// A write to one partition that is done if all conditions hold of rows of that partition.
#[derive(Debug, Clone, PartialEq)]
pub struct ConditionalWrite {
    pub mutation: Mutation,
    pub conditions: Vec<RowCondition>,
}

/// What became of a conditional write.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The timestamp of the write, µs, if it was done: that which it came with, or a later one
    /// where the rows it depends on had something as new.
    pub applied_at_us: Option<i64>,
    /// The rows as the conditions saw them, in their order, static columns included; `None` where
    /// nothing was there.
    pub rows: Vec<Option<RowValues>>,
}

impl Decision {
    /// Whether all conditions held and the write was done.
    pub fn is_applied(&self) -> bool {
        self.applied_at_us.is_some()
    }
}

impl ConditionalWrite {
    fn check(&self, schema: &TableSchema) -> Result<()> {
        if self.conditions.is_empty() {
            return Err(Error::invalid("a conditional write has a condition"));
        }
        self.conditions.iter().try_for_each(|condition| condition.check(schema))
    }
}

impl Shard {
    /// Writes if the conditions hold.
    ///
    /// Errors: as `apply`, and those of a read. After one of the disk the write may be there at the
    /// next start, as any other.
    pub(super) async fn write_if(
        self: Rc<Self>,
        write: ConditionalWrite,
        terms: Terms,
    ) -> Result<Decision> {
        self.check_open()?;
        let table = self.enter_write(&write.mutation, false)?;
        write.check(&table.schema())?;
        drop(table);
        // Declared first, given back last: when the write can be seen.
        let hold = self.locks.hold(Place::of(&write.mutation), Kind::Alone);
        let hold = self.waiting(&terms, hold).await?;
        self.waiting(&terms, self.wait_for_room()).await??;
        self.decide(write, hold, &terms).await
    }

    /// Reads, judges and writes; nobody else writes to the partition meanwhile.
    async fn decide(
        self: &Rc<Self>,
        write: ConditionalWrite,
        hold: Hold,
        terms: &Terms,
    ) -> Result<Decision> {
        let ConditionalWrite { mut mutation, conditions } = write;
        let states = self.states(&mutation, &conditions, terms).await?;
        // Meanwhile it may have been dropped, or lost a column.
        let table = self.table(mutation.table)?;
        let schema = table.schema();
        let mut holds = true;
        for (condition, state) in conditions.iter().zip(&states) {
            condition.check(&schema)?;
            holds &= condition.holds(&schema, state)?;
        }
        let newest = states.iter().filter_map(|state| state.newest).max();
        let seen = counting::stored(&mutation, &conditions, &states);
        let rows = states.into_iter().map(|state| state.values).collect();
        if !holds {
            return Ok(Decision { applied_at_us: None, rows });
        }
        let timestamp = self.make_newer(&mut mutation, newest)?;
        counting::take_steps(&schema, &mut mutation, (&seen, timestamp))?;
        self.write_held(&table, mutation, hold).await?;
        Ok(Decision { applied_at_us: Some(timestamp), rows })
    }

    /// The rows that the conditions are about, as they are now.
    async fn states(
        self: &Rc<Self>,
        mutation: &Mutation,
        conditions: &[RowCondition],
        terms: &Terms,
    ) -> Result<Vec<RowState>> {
        let Terms { level, deadline } = *terms;
        let closed = self.closed.notified();
        let now_seconds = self.now_seconds();
        let read = async {
            self.check_open()?;
            let schema = self.table(mutation.table)?.schema();
            let mut permit = self.wait_turn(ReadClass::Keys, level, (deadline, &schema)).await?;
            // Meanwhile it may have been dropped.
            let table = self.table(mutation.table)?;
            let mut states = Vec::with_capacity(conditions.len());
            for RowCondition { row, .. } in conditions {
                let state = table.clone().row_state(mutation.key.clone(), row.clone(), now_seconds);
                let terms = (ReadClass::Keys, level, permit.account());
                states.push(self.working(terms, state).await?);
                runtime::maybe_yield().await;
            }
            permit.answer(0);
            Ok(states)
        };
        tokio::select! {
            biased;
            () = closed => Err(Error::Closed),
            states = read => states,
            () = self.sleep_until(deadline) => {
                Err(deadline.map_or(Error::Closed, |deadline| deadline.passed(JUDGING)))
            }
        }
    }

    /// Gives a write a later timestamp where what it is to come after is as new.
    fn make_newer(&self, mutation: &mut Mutation, newest: Option<i64>) -> Result<i64> {
        let Some(own) = mutation.newest_timestamp() else {
            // It adds nothing to a collection, for example.
            return Ok(self.options.timestamps.next_us());
        };
        let Some(newest) = newest.filter(|newest| *newest >= own) else { return Ok(own) };
        let Some(above) = newest.checked_add(1) else {
            return Err(Error::invalid(
                "a row that the write depends on has the latest timestamp that there is: nothing \
                 can be written after it; delete its partition's table, or write to another row",
            ));
        };
        // One that nobody else was given, unless the row is from the future.
        let later = self.options.timestamps.next_us().max(above);
        mutation.make_later(later);
        assert_eq!(mutation.newest_timestamp(), Some(later), "a write is older than it was made");
        Ok(later)
    }
}
