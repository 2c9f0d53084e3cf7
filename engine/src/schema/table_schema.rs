//! The columns of a table, their roles and order, and the table's options.
//!
//! Invariant: a valid schema has at least one partition-key column; key positions are dense;
//! a column's id is its place in `columns` and never changes. A column that is dropped leaves its
//! place to nobody, and comes back there: what memtables, caches and commitlogs have by id, and
//! SSTables by name, means the same under every definition that the table had.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::compaction::CompactionOptions;
use super::options::{Compression, LargeDataOptions, OnCorruption};
use super::types::DataType;
use crate::config::{COLUMN_INDEX_BYTES_DEFAULT, TTL_SECONDS_MAX};
use crate::error::{Error, Result};

/// Identity of a table, for its whole life; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TableId(pub u128);

impl From<TableId> for String {
    fn from(id: TableId) -> String {
        id.hex()
    }
}

impl TryFrom<String> for TableId {
    type Error = std::num::ParseIntError;

    fn try_from(hex: String) -> Result<Self, Self::Error> {
        u128::from_str_radix(&hex, 16).map(TableId)
    }
}

impl TableId {
    /// 32 lower-case hex digits, as in directory names.
    pub fn hex(self) -> String {
        format!("{:032x}", self.0)
    }
}

/// Place of a column in its table's `columns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ColumnId(pub u16);

/// Order of a clustering column on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClusteringOrder {
    Ascending,
    Descending,
}

/// What a column is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnKind {
    /// Part `position` of the partition key.
    PartitionKey { position: u16 },
    /// Part `position` of the clustering key.
    ClusteringKey { position: u16, order: ClusteringOrder },
    /// One value a partition.
    Static,
    /// One value a row.
    Regular,
    /// None any more: what is left of a static or regular column that was dropped. Files may have
    /// cells of it until compactions have left them out.
    Dropped { was_static: bool },
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    pub name: String,
    pub ty: DataType,
    pub kind: ColumnKind,
}

impl Column {
    /// The column's clustering order; ascending for other columns.
    pub fn clustering_order(&self) -> ClusteringOrder {
        match self.kind {
            ColumnKind::ClusteringKey { order, .. } => order,
            _ => ClusteringOrder::Ascending,
        }
    }

    pub fn is_key(&self) -> bool {
        matches!(self.kind, ColumnKind::PartitionKey { .. } | ColumnKind::ClusteringKey { .. })
    }

    /// Whether this is what is left of a column that was dropped.
    pub fn is_dropped(&self) -> bool {
        matches!(self.kind, ColumnKind::Dropped { .. })
    }
}

/// A column was dropped. It may be back since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnDrop {
    pub column: ColumnId,
    /// Cells with this timestamp, µs, or an older one are gone.
    pub at: i64,
}

/// Options of `CREATE TABLE … WITH`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableOptions {
    /// Seconds after which new cells expire; 0 = never.
    pub default_time_to_live: i32,
    /// Seconds for which tombstones are kept.
    pub gc_grace_seconds: i32,
    /// Bytes of row data per promoted-index block.
    pub column_index_bytes: u32,
    pub comment: String,
    /// How often one partition may be read and written.
    pub per_partition_rate_limit: RateLimit,
    /// A column of the partition key: partitions with the same value of it share these limits, of
    /// which each shard gives an equal part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit_by: Option<String>,
    /// From which sizes on data is recorded as large.
    pub large_data: LargeDataOptions,
    /// What becomes of damaged files.
    pub on_corruption: OnCorruption,
    /// How new data files are compressed; not at all where absent.
    pub compression: Option<Compression>,
    /// Which SSTables are merged.
    pub compaction: CompactionOptions,
    /// Rows may lack the values of clustering columns behind the first, as those of tables `WITH
    /// COMPACT STORAGE` do. Of attached tables only.
    #[serde(skip)]
    pub has_partial_keys: bool,
}

/// Operations a second on one partition; none where absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RateLimit {
    pub max_reads_per_second: Option<u32>,
    pub max_writes_per_second: Option<u32>,
}

impl Default for TableOptions {
    fn default() -> Self {
        TableOptions {
            default_time_to_live: 0,
            gc_grace_seconds: 864_000,
            column_index_bytes: COLUMN_INDEX_BYTES_DEFAULT,
            comment: String::new(),
            per_partition_rate_limit: RateLimit::default(),
            rate_limit_by: None,
            large_data: LargeDataOptions::default(),
            on_corruption: OnCorruption::default(),
            compression: None,
            compaction: CompactionOptions::default(),
            has_partial_keys: false,
        }
    }
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSchema {
    pub id: TableId,
    pub keyspace: String,
    pub name: String,
    /// In the order of `CREATE TABLE`, then as they were added; those that were dropped are among
    /// them: see [`present_columns`](Self::present_columns).
    pub columns: Vec<Column>,
    #[serde(default)]
    pub options: TableOptions,
    /// The last drop of each column that was ever dropped, by column.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drops: Vec<ColumnDrop>,
}

/// A schema shared between threads.
pub type SchemaRef = Arc<TableSchema>;

/// The full name, see [`TableSchema::full_name`].
impl fmt::Display for TableSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.keyspace, self.name)
    }
}

impl TableSchema {
    /// Columns of the partition key, in key order.
    pub fn partition_key(&self) -> impl Iterator<Item = &Column> {
        self.partition_key_ids().into_iter().map(|id| self.column(id))
    }

    /// Columns of the clustering key, in key order.
    pub fn clustering_key(&self) -> impl Iterator<Item = &Column> {
        self.clustering_key_ids().into_iter().map(|id| self.column(id))
    }

    pub fn partition_key_ids(&self) -> Vec<ColumnId> {
        self.ids_by(|kind| match kind {
            ColumnKind::PartitionKey { position } => Some(position),
            _ => None,
        })
    }

    pub fn clustering_key_ids(&self) -> Vec<ColumnId> {
        self.ids_by(|kind| match kind {
            ColumnKind::ClusteringKey { position, .. } => Some(position),
            _ => None,
        })
    }

    fn ids_by(&self, position: impl Fn(ColumnKind) -> Option<u16>) -> Vec<ColumnId> {
        let mut found: Vec<(u16, ColumnId)> = self
            .ids()
            .filter_map(|id| position(self.column(id).kind).map(|place| (place, id)))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, id)| id).collect()
    }

    /// Ids of all columns, in table order; not of those that were dropped.
    pub fn ids(&self) -> impl Iterator<Item = ColumnId> {
        (0..).map(ColumnId).zip(&self.columns).filter(|(_, c)| !c.is_dropped()).map(|(id, _)| id)
    }

    /// All columns, in table order, without those that were dropped.
    pub fn present_columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| !column.is_dropped())
    }

    /// The column with this id. Panics for an id of another table: that is a bug.
    pub fn column(&self, id: ColumnId) -> &Column {
        &self.columns[usize::from(id.0)]
    }

    /// Finds a column by its exact name.
    pub fn find(&self, name: &str) -> Option<(ColumnId, &Column)> {
        self.find_also_dropped(name).filter(|(_, column)| !column.is_dropped())
    }

    /// As [`find`](Self::find), also among the columns that were dropped.
    pub fn find_also_dropped(&self, name: &str) -> Option<(ColumnId, &Column)> {
        (0..).map(ColumnId).zip(&self.columns).find(|(_, column)| column.name == name)
    }

    pub fn has_static_columns(&self) -> bool {
        self.columns.iter().any(|column| column.kind == ColumnKind::Static)
    }

    /// Whether rows may lack a value of this clustering column. Where they do, they stand before
    /// others.
    pub fn may_lack(&self, id: ColumnId) -> bool {
        let kind = self.column(id).kind;
        let is_behind = matches!(kind, ColumnKind::ClusteringKey { position: 1.., .. });
        self.options.has_partial_keys && is_behind
    }

    /// The limits of the rate on one of so many shards.
    pub fn rate_limit_on(&self, shard_count: u32) -> RateLimit {
        let whole = self.options.per_partition_rate_limit;
        // A partition has one shard; what has several partitions is on all of them.
        if self.options.rate_limit_by.is_none() || self.partition_key_ids().len() == 1 {
            return whole;
        }
        let part = |limit: u32| limit.div_ceil(shard_count);
        RateLimit {
            max_reads_per_second: whole.max_reads_per_second.map(part),
            max_writes_per_second: whole.max_writes_per_second.map(part),
        }
    }

    /// `keyspace.name`.
    pub fn full_name(&self) -> String {
        self.to_string()
    }

    /// Checks the invariants in the head of this file.
    ///
    /// Errors: `Invalid` naming the rule that is broken.
    pub fn validate(&self) -> Result<()> {
        if self.columns.len() > usize::from(u16::MAX) {
            let why = "a table has at most 65,535 columns, those that were dropped among them";
            return Err(Error::invalid(why));
        }
        for (i, column) in self.columns.iter().enumerate() {
            if column.name.is_empty() {
                return Err(Error::invalid("a column has no name"));
            }
            if self.columns[..i].iter().any(|other| other.name == column.name) {
                return Err(Error::invalid(format!("column '{}' is defined twice", column.name)));
            }
            let of_column =
                |error: Error| Error::invalid(format!("column '{}': {error}", column.name));
            column.ty.validate().map_err(of_column)?;
            if column.is_key() && !column.ty.is_key_type() {
                return Err(Error::invalid(format!(
                    "key column '{}' cannot be {}{}",
                    column.name,
                    column.ty.sql_name(),
                    if column.ty.has_order() { ": freeze it" } else { ", which has no order" }
                )));
            }
            if column.kind == ColumnKind::Static && self.clustering_key_ids().is_empty() {
                return Err(Error::invalid(format!(
                    "static column '{}' needs a table with a clustering key",
                    column.name
                )));
            }
        }
        if self.partition_key_ids().is_empty() {
            return Err(Error::invalid(format!(
                "table '{}' has no partition key: add PRIMARY KEY ((column, …), …)",
                self.name
            )));
        }
        if !(0..=TTL_SECONDS_MAX).contains(&self.options.default_time_to_live) {
            return Err(Error::invalid(format!(
                "default_time_to_live must be between 0 and {TTL_SECONDS_MAX} seconds"
            )));
        }
        if let Some(name) = &self.options.rate_limit_by
            && !self.partition_key().any(|column| column.name == *name)
        {
            return Err(Error::invalid(format!(
                "rate_limit_by names a column of the partition key, and '{name}' is none"
            )));
        }
        if !self.drops.is_sorted_by(|a, b| a.column < b.column) {
            return Err(Error::invalid("a column was dropped last at two times"));
        }
        for (id, column) in (0..).map(ColumnId).zip(&self.columns) {
            if column.is_dropped() && !self.drops.iter().any(|drop| drop.column == id) {
                let name = &column.name;
                return Err(Error::invalid(format!(
                    "when column '{name}' was dropped is not said"
                )));
            }
        }
        self.options.compaction.validate()?;
        self.options.compression.as_ref().map_or(Ok(()), Compression::validate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Compressor;

    /// `p int, c int, s int static, v int`
    fn schema() -> TableSchema {
        let column = |name: &str, kind| Column { name: name.into(), ty: DataType::Int, kind };
        let order = ClusteringOrder::Ascending;
        TableSchema {
            id: TableId(1),
            keyspace: "ks".into(),
            name: "t".into(),
            columns: vec![
                column("p", ColumnKind::PartitionKey { position: 0 }),
                column("c", ColumnKind::ClusteringKey { position: 0, order }),
                column("s", ColumnKind::Static),
                column("v", ColumnKind::Regular),
            ],
            options: TableOptions::default(),
            drops: Vec::new(),
        }
    }

    fn dropped_at(times: &[i64]) -> Vec<ColumnDrop> {
        times.iter().map(|at| ColumnDrop { column: ColumnId(3), at: *at }).collect()
    }

    #[test]
    fn a_schema_that_breaks_a_rule_is_refused_and_the_rule_is_named() {
        type Change = fn(&mut TableSchema);
        let good: [Change; 5] = [
            |_| {},
            |t| t.options.default_time_to_live = TTL_SECONDS_MAX,
            |t| t.options.rate_limit_by = Some("p".into()),
            |t| t.columns[1].ty = DataType::list_of(DataType::Int).frozen(),
            |t| {
                t.columns[3].kind = ColumnKind::Dropped { was_static: false };
                t.drops = dropped_at(&[7]);
            },
        ];
        for change in good {
            let mut table = schema();
            change(&mut table);
            table.validate().unwrap();
        }
        let broken: [(Change, &str); 15] = [
            (|t| t.columns[3].name = String::new(), "a column has no name"),
            (|t| t.columns[3].name = "p".into(), "column 'p' is defined twice"),
            (|t| t.columns[3].ty = DataType::tuple_of([]), "column 'v': type tuple<>"),
            (|t| t.columns[0].kind = ColumnKind::Regular, "table 't' has no partition key"),
            (|t| t.columns[1].kind = ColumnKind::Regular, "static column 's' needs a table with"),
            (|t| t.columns[0].ty = DataType::Duration, "'p' cannot be duration, which has no"),
            (
                |t| t.columns[1].ty = DataType::list_of(DataType::Int),
                "'c' cannot be list<int>: freeze it",
            ),
            (|t| t.options.default_time_to_live = -1, "default_time_to_live must be between 0"),
            (
                |t| t.options.default_time_to_live = TTL_SECONDS_MAX + 1,
                "default_time_to_live must be between 0",
            ),
            (|t| t.options.rate_limit_by = Some("c".into()), "and 'c' is none"),
            (
                |t| t.columns[3].kind = ColumnKind::Dropped { was_static: false },
                "when column 'v' was dropped is not said",
            ),
            (|t| t.drops = dropped_at(&[1, 1]), "was dropped last at two times"),
            (|t| t.drops = dropped_at(&[1, 2]), "was dropped last at two times"),
            (|t| t.options.compaction.min_threshold = 1, "min_threshold is at least 2"),
            (
                |t| {
                    let usual = Compression::new(Compressor::Lz4);
                    t.options.compression = Some(Compression { chunk_bytes: 3000, ..usual });
                },
                "a power of two",
            ),
        ];
        for (breaks, wanted) in broken {
            let mut table = schema();
            breaks(&mut table);
            let error = table.validate().unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}, and not: {wanted}");
        }
    }

    #[test]
    fn columns_that_were_dropped_are_seen_only_by_who_asks_for_them() {
        let mut table = schema();
        let order = ClusteringOrder::Descending;
        let kind = ColumnKind::ClusteringKey { position: 1, order };
        table.columns.push(Column { name: "d".into(), ty: DataType::Int, kind });
        assert!(table.has_static_columns());
        for (dropped, was_static) in [(2, true), (3, false)] {
            let before = table.clone();
            table.columns[dropped].kind = ColumnKind::Dropped { was_static };
            table.drops = vec![ColumnDrop { column: ColumnId(dropped as u16), at: 7 }];
            table.validate().unwrap();
            let name = before.columns[dropped].name.clone();
            assert!(table.find(&name).is_none() && before.find(&name).is_some(), "{name}");
            let found = table.find_also_dropped(&name).map(|(id, _)| usize::from(id.0));
            assert_eq!(found, Some(dropped));
            assert_eq!(table.has_static_columns(), !was_static, "{name}");
            let left: Vec<usize> = (0..5).filter(|id| *id != dropped).collect();
            let ids: Vec<usize> = table.ids().map(|id| usize::from(id.0)).collect();
            assert_eq!(ids, left);
            let names = |ids: &[usize]| -> Vec<String> {
                ids.iter().map(|id| before.columns[*id].name.clone()).collect()
            };
            let present: Vec<String> =
                table.present_columns().map(|column| column.name.clone()).collect();
            assert_eq!(present, names(&left));
            table = before;
        }
        // Only values of the clustering key behind its first may be missing, where any may.
        for may in [false, true] {
            table.options.has_partial_keys = may;
            let lacks: Vec<bool> = table.ids().map(|id| table.may_lack(id)).collect();
            assert_eq!(lacks, [false, false, false, false, may]);
        }
        let orders: Vec<ClusteringOrder> =
            table.columns.iter().map(Column::clustering_order).collect();
        assert_eq!(orders[1..4], [ClusteringOrder::Ascending; 3]);
        assert_eq!(orders[4], order);
    }

    #[test]
    fn a_table_is_named_in_files_by_its_number_in_hex() {
        for (number, hex) in [
            (0, "00000000000000000000000000000000"),
            (0xab, "000000000000000000000000000000ab"),
            (u128::MAX, "ffffffffffffffffffffffffffffffff"),
        ] {
            let json = serde_json::to_string(&TableId(number)).unwrap();
            assert_eq!(json, format!("\"{hex}\""));
            assert_eq!(serde_json::from_str::<TableId>(&json).unwrap(), TableId(number));
        }
        for wrong in ["\"\"", "\"xy\"", "\"100000000000000000000000000000000\"", "7"] {
            assert!(serde_json::from_str::<TableId>(wrong).is_err(), "{wrong}");
        }
    }
}
