//! One row by its key, as a value.

use std::rc::Rc;

use crate::cache::AtHand;
use crate::error::{Error, Result};
use crate::mutation::{ClusteringRange, Direction, Filled, PartitionRange, Slice};
use crate::reader::{QueryReader, RowKey, RowValues, see_row};
use crate::runtime;
use crate::schema::table_schema::SchemaRef;
use crate::table::Table;

/// A read of one row.
pub struct PointQuery {
    schema: SchemaRef,
    key: Option<RowKey>,
    now_seconds: i32,
    reader: QueryReader,
    found: Option<RowValues>,
}

/// How far a read came without waiting.
#[expect(clippy::large_enum_variant, reason = "one a read, and taken apart at once")]
pub enum Progress {
    Done(Option<RowValues>),
    Waits(PointQuery),
}

impl Table {
    /// Begins to read the row with a key, with the values that a reader at `now_seconds` sees; in
    /// memory it is found at once. What `schema` has and the table no longer has is null.
    ///
    /// Errors: `Invalid` where stored bytes are no value of their column, and for a key that lacks
    /// columns.
    pub fn point(&self, schema: SchemaRef, key: RowKey, now_seconds: i32) -> Result<Progress> {
        if !self.clustering.is_whole(&key.clustering) {
            let name = schema.full_name();
            return Err(Error::invalid(format!("a row of {name} has a key of all its columns")));
        }
        let shard = key.partition.token().shard(self.shard_count);
        debug_assert_eq!(shard, self.shard, "{:?} is read on another shard", key.partition);
        if let Some(at_hand) = self.at_hand(&key) {
            let Some(row) = at_hand.row else { return Ok(Progress::Done(None)) };
            let (mut key, mut found) = (Some(key), None);
            let front = (at_hand.partition, at_hand.deletion, at_hand.static_row);
            let seen = (now_seconds, self.dropped_cells());
            see_row(front, &row, seen, &mut |rows| {
                if let Some(key) = key.take() {
                    found = Some(RowValues::of(schema.clone(), key, rows, now_seconds)?);
                }
                Ok(false)
            })?;
            return Ok(Progress::Done(found));
        }
        let range = ClusteringRange::prefix(key.clustering.clone());
        let slice = Slice { ranges: vec![range], direction: Direction::Forward };
        let partition = PartitionRange::Single(key.partition.clone());
        let source = self.read(&partition, &slice, false);
        let reader = QueryReader::new(source, now_seconds, false).without(self.dropped_cells());
        let mut query = PointQuery { schema, key: Some(key), now_seconds, reader, found: None };
        Ok(match self.noting_damage(query.pull())? {
            true => Progress::Done(query.found),
            false => Progress::Waits(query),
        })
    }

    /// The row where only the row cache has something of its partition, and all of the row.
    fn at_hand(&self, key: &RowKey) -> Option<AtHand> {
        let partition = &key.partition;
        let is_elsewhere = self.skips_damage()
            || self.active.borrow().contains(partition)
            || self.sealed.borrow().iter().any(|sealed| sealed.contains(partition));
        if is_elsewhere {
            return None;
        }
        self.rows.at_hand(partition, &key.clustering, self.generation.get())
    }

    /// Reads on where a read has to wait.
    ///
    /// Errors: as `point`; `Io`, `Corrupt`.
    pub async fn finish_point(self: Rc<Self>, query: PointQuery) -> Result<Option<RowValues>> {
        let found = query.finish().await;
        self.noting_damage(found)
    }

    pub(super) fn noting_damage<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| self.damage().add(error, false))
    }
}

impl PointQuery {
    /// Reads what is in memory; false where it has to wait for the rest.
    fn pull(&mut self) -> Result<bool> {
        let (schema, key, found) = (&self.schema, &mut self.key, &mut self.found);
        let now_seconds = self.now_seconds;
        let pulled = self.reader.pull(1, &mut |rows| {
            if let Some(key) = key.take() {
                *found = Some(RowValues::of(schema.clone(), key, rows, now_seconds)?);
            }
            Ok(false)
        })?;
        let is_over = self.found.is_some() || pulled == Filled::End;
        assert_eq!(self.key.is_none(), self.found.is_some(), "the key goes where its row is");
        Ok(is_over)
    }

    async fn finish(mut self) -> Result<Option<RowValues>> {
        loop {
            if !self.reader.refill().await? || self.pull()? {
                return Ok(self.found);
            }
            runtime::maybe_yield().await;
        }
    }
}
