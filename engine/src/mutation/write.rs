//! A write to one partition of one table.

use super::range_tombstone::RangeTombstone;
use super::row::Row;
use super::tombstone::Tombstone;
use crate::schema::{ClusteringKey, PartitionKey, TableId};

/// Everything one statement does to one partition; applied as a whole or not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct Mutation {
    pub table: TableId,
    pub key: PartitionKey,
    /// Deletion of the whole partition.
    pub deletion: Option<Tombstone>,
    pub static_row: Option<Row>,
    pub rows: Vec<(ClusteringKey, Row)>,
    pub range_tombstones: Vec<RangeTombstone>,
}

impl Mutation {
    /// A mutation that does nothing yet.
    pub fn new(table: TableId, key: PartitionKey) -> Self {
        Mutation {
            table,
            key,
            deletion: None,
            static_row: None,
            rows: Vec::new(),
            range_tombstones: Vec::new(),
        }
    }
}
