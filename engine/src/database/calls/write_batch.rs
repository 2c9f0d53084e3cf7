//! Writes by names and values: mutations for people who do not want to build them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::batch::{Expiry, WriteOptions, expiry, put_value};
use crate::error::{Error, Result};
use crate::mutation::{ClusteringRange, Liveness, Mutation, RangeTombstone, Row, Tombstone};
use crate::reader::RowKey;
use crate::schema::{ClusteringKey, ColumnKind, PartitionKey, TableId, TableSchema, Value};

/// Writes that are given to the shards together. Those of one partition become one mutation: they
/// are seen together or not at all.
#[derive(Debug, Clone)]
pub struct WriteBatch {
    options: WriteOptions,
    mutations: Vec<Mutation>,
    /// Where the mutation of a partition is, and in it each row.
    places: HashMap<(TableId, PartitionKey), (usize, HashMap<ClusteringKey, usize>)>,
}

impl WriteBatch {
    /// A batch whose writes have this timestamp, µs ([`Database::timestamp_us`]), and its second
    /// as the time of deletions.
    ///
    /// [`Database::timestamp_us`]: crate::Database::timestamp_us
    pub fn new(timestamp_us: i64) -> Self {
        let now_seconds = i32::try_from(timestamp_us.div_euclid(1_000_000)).unwrap_or(i32::MAX);
        let options = WriteOptions { timestamp: timestamp_us, ttl: None, now_seconds };
        WriteBatch { options, mutations: Vec::new(), places: HashMap::new() }
    }

    /// What is inserted from here on lives for so many seconds, zero for ever; the default of its
    /// table where this is not called.
    pub fn time_to_live(mut self, seconds: i32) -> Self {
        self.options.ttl = Some(seconds);
        self
    }

    pub fn is_empty(&self) -> bool {
        self.mutations.is_empty()
    }

    /// Inserts a row, or changes the columns that are named; `None` deletes a column's value.
    /// Static columns are those of the partition.
    ///
    /// Errors: `NotFound` for a column; `Invalid` for a key column, for a value that does not fit
    /// its column, and for a time to live that is too long.
    pub fn insert(
        &mut self,
        schema: &TableSchema,
        key: impl Into<RowKey>,
        values: &[(&str, Option<Value>)],
    ) -> Result<()> {
        let key = key.into();
        let expiry = expiry(schema, &self.options)?;
        let timestamp = self.options.timestamp;
        let liveness = match expiry {
            Some(Expiry { ttl, at }) => Liveness::expiring(timestamp, ttl, at),
            None => Liveness::at(timestamp),
        };
        let mut row = Row { liveness: Some(liveness), ..Row::default() };
        let mut statics = Row::default();
        for (name, value) in values {
            let Some((id, column)) = schema.find(name) else {
                let name = format!("{}.{name}", schema.name);
                return Err(Error::NotFound { kind: "column", name });
            };
            let target = match column.kind {
                ColumnKind::Regular => &mut row,
                ColumnKind::Static => &mut statics,
                ColumnKind::Dropped { .. } => unreachable!("only what is there is found"),
                ColumnKind::PartitionKey { .. } | ColumnKind::ClusteringKey { .. } => {
                    return Err(Error::invalid(format!("'{name}' is a column of the key")));
                }
            };
            put_value(target, id, column, value.as_ref(), &self.options, expiry)?;
        }
        let (mutation, rows) = self.of(schema.id, key.partition);
        match rows.entry(key.clustering) {
            Entry::Occupied(place) => mutation.rows[*place.get()].1.merge(&row),
            Entry::Vacant(place) => {
                mutation.rows.push((place.key().clone(), row));
                place.insert(mutation.rows.len() - 1);
            }
        }
        if !statics.is_empty() {
            mutation.static_row.get_or_insert_default().merge(&statics);
        }
        Ok(())
    }

    /// Deletes a row. An insert of the same row in the same batch does not outlive it.
    pub fn delete(&mut self, schema: &TableSchema, key: impl Into<RowKey>) {
        let key = key.into();
        let tombstone = self.tombstone();
        let range = ClusteringRange::prefix(key.clustering);
        let (mutation, _) = self.of(schema.id, key.partition);
        mutation.range_tombstones.push(RangeTombstone { range, tombstone });
    }

    /// Deletes a partition.
    pub fn delete_partition(&mut self, schema: &TableSchema, key: PartitionKey) {
        let tombstone = self.tombstone();
        self.of(schema.id, key).0.deletion = Some(tombstone);
    }

    fn tombstone(&self) -> Tombstone {
        let WriteOptions { timestamp, now_seconds, .. } = self.options;
        Tombstone { timestamp, deletion_time: now_seconds }
    }

    /// The mutation of a partition, and where its rows are.
    fn of(
        &mut self,
        table: TableId,
        key: PartitionKey,
    ) -> (&mut Mutation, &mut HashMap<ClusteringKey, usize>) {
        let (place, rows) = match self.places.entry((table, key)) {
            Entry::Occupied(place) => place.into_mut(),
            Entry::Vacant(place) => {
                self.mutations.push(Mutation::new(table, place.key().1.clone()));
                place.insert((self.mutations.len() - 1, HashMap::new()))
            }
        };
        (&mut self.mutations[*place], rows)
    }

    pub(super) fn into_mutations(self) -> Vec<Mutation> {
        self.mutations
    }
}
