//! What a scan reads, step by step: a [`ReadCommand`] for people who do not want to build one.

use crate::admission::LevelId;
use crate::error::{Error, Result};
use crate::mutation::{ClusteringRange, Direction, Position, Slice};
use crate::schema::table_schema::SchemaRef;
use crate::schema::{ClusteringKey, ColumnId, PartitionKey, Value};
use crate::table::{Partitions, ReadCommand};

/// A scan: of the whole table, all columns, in the order of the table, unless it says otherwise.
#[derive(Debug, Clone)]
pub struct Scan {
    schema: SchemaRef,
    partitions: Vec<PartitionKey>,
    range: ClusteringRange,
    direction: Direction,
    columns: Option<Vec<ColumnId>>,
    limit: Option<usize>,
    partition_limit: Option<usize>,
    level: LevelId,
}

impl Scan {
    pub fn new(schema: &SchemaRef) -> Self {
        Scan {
            schema: schema.clone(),
            partitions: Vec::new(),
            range: ClusteringRange::full(),
            direction: Direction::Forward,
            columns: None,
            limit: None,
            partition_limit: None,
            level: LevelId::DEFAULT,
        }
    }

    /// Reads this partition, and those named before; they come in ring order.
    pub fn partition(mut self, key: PartitionKey) -> Self {
        self.partitions.push(key);
        self
    }

    /// The same for the partition with these values of the key columns.
    ///
    /// Errors: `Invalid` for a wrong number or type of values.
    pub fn partition_of(self, values: &[Value]) -> Result<Self> {
        let key = PartitionKey::from_values(&self.schema, values)?;
        Ok(self.partition(key))
    }

    /// Of each partition, rows from this key or prefix of one on, itself included.
    pub fn from(mut self, first: ClusteringKey) -> Self {
        self.range.start = Position::before(first);
        self
    }

    /// Of each partition, rows behind this key or prefix of one: the next page behind a row.
    pub fn after(mut self, last: ClusteringKey) -> Self {
        self.range.start = Position::after(last);
        self
    }

    /// Of each partition, rows before this key or prefix of one.
    pub fn before(mut self, end: ClusteringKey) -> Self {
        self.range.end = Position::before(end);
        self
    }

    /// Of each partition, rows up to this key or prefix of one, itself included.
    pub fn through(mut self, last: ClusteringKey) -> Self {
        self.range.end = Position::after(last);
        self
    }

    /// Each partition from its end.
    pub fn reversed(mut self) -> Self {
        self.direction = Direction::Reversed;
        self
    }

    /// These columns, in this order.
    ///
    /// Errors: `NotFound`.
    pub fn columns(mut self, names: &[&str]) -> Result<Self> {
        let id = |name: &&str| match self.schema.find(name) {
            Some((id, _)) => Ok(id),
            None => {
                let name = format!("{}.{name}", self.schema.name);
                Err(Error::NotFound { kind: "column", name })
            }
        };
        self.columns = Some(names.iter().map(id).collect::<Result<_>>()?);
        Ok(self)
    }

    /// So many rows at most.
    pub fn limit(mut self, rows: usize) -> Self {
        self.limit = Some(rows);
        self
    }

    /// So many rows of each partition at most, at least one: the rest of it is not read.
    pub fn limit_partitions(mut self, rows: usize) -> Self {
        self.partition_limit = Some(rows);
        self
    }

    /// Takes its part of the shards as work of this service level.
    pub fn level(mut self, level: LevelId) -> Self {
        self.level = level;
        self
    }

    /// The command, and whether it names partitions.
    pub(super) fn into_command(self) -> (ReadCommand, bool) {
        let has_keys = !self.partitions.is_empty();
        let columns = self.columns.unwrap_or_else(|| self.schema.ids().collect());
        let command = ReadCommand {
            schema: self.schema,
            partitions: Partitions::Keys(self.partitions),
            slice: Slice { ranges: vec![self.range], direction: self.direction },
            columns,
            stamps: Vec::new(),
            row_limit: self.limit,
            partition_limit: self.partition_limit,
            deadline: None,
            level: self.level,
            past_cache: false,
            filter: None,
        };
        (command, has_keys)
    }
}
