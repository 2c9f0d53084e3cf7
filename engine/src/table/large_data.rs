//! What is large in a table's SSTables: told after a flush, and asked for.

use super::table::Table;
use crate::inspect::{clustering_key_text, partition_key_text};
use crate::sstable::{LargeKind, Sstable};

/// Something large in an SSTable, as its writer recorded it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LargeThing {
    /// File name of the SSTable's data.
    pub sstable: String,
    pub kind: LargeKind,
    /// Values of the key's columns as text, with commas between them.
    pub partition_key: String,
    /// Absent for partitions and static rows.
    pub clustering_key: Option<String>,
    /// Absent for partitions and rows.
    pub column: Option<String>,
    /// Of the partition, row, cell or collection.
    pub bytes: u64,
    /// Rows of the partition, or cells of the collection.
    pub elements: u64,
    /// Of the partition, as are rows that have nothing but tombstones.
    pub range_tombstones: u64,
    pub dead_rows: u64,
    /// What counts as large of this kind in this SSTable, how many do, and the greatest size.
    pub threshold: u64,
    pub above_count: u32,
    pub max: u64,
}

impl Table {
    /// The largest things of every live SSTable that are above their thresholds.
    pub fn large_data(&self) -> Vec<LargeThing> {
        // Files that every shard has open are told of once.
        if self.is_attached && self.shard != 0 {
            return Vec::new();
        }
        let sstables = self.sstables.borrow();
        sstables.0.iter().flat_map(|live| self.large_in(&live.sstable)).collect()
    }

    fn large_in(&self, sstable: &Sstable) -> Vec<LargeThing> {
        let Some(scylla) = sstable.scylla() else { return Vec::new() };
        let records = scylla.records.iter().flatten();
        let name = sstable.data_path().file_name().unwrap_or_default().to_string_lossy();
        let schema = self.schema();
        let things = records.filter_map(|record| {
            let mut stats = scylla.large_data.iter().flatten();
            let stats = stats.rfind(|stats| stats.kind == record.kind);
            Some(LargeThing {
                sstable: name.clone().into_owned(),
                kind: LargeKind::of_number(record.kind)?,
                partition_key: partition_key_text(&schema, &record.partition_key),
                clustering_key: clustering_key_text(&schema, &record.clustering_key),
                column: (!record.column.is_empty()).then(|| record.column.clone()),
                bytes: record.bytes,
                elements: record.elements,
                range_tombstones: record.range_tombstones,
                dead_rows: record.dead_rows,
                threshold: stats.map_or(0, |stats| stats.threshold),
                above_count: stats.map_or(0, |stats| stats.above_count),
                max: stats.map_or(0, |stats| stats.max),
            })
        });
        things.collect()
    }

    /// One warning for a new SSTable that holds something large: how many of each kind, and the
    /// largest.
    pub(super) fn warn_of_large_data(&self, sstable: &Sstable) {
        let things = self.large_in(sstable);
        let of_kind = |kind| things.iter().filter(move |thing| thing.kind == kind);
        let told = LargeKind::ALL.into_iter().filter_map(|kind| {
            let first = of_kind(kind).next()?;
            let (size, unit) = match kind {
                LargeKind::PartitionRows => (first.elements, "rows"),
                LargeKind::CollectionElements => (first.elements, "elements"),
                _ => (first.bytes, "bytes"),
            };
            let place = match (&first.clustering_key, &first.column) {
                (Some(key), Some(column)) => format!(", row ({key}), column {column}"),
                (Some(key), None) => format!(", row ({key})"),
                (None, Some(column)) => format!(", static column {column}"),
                (None, None) => String::new(),
            };
            Some(format!(
                "{} of kind {} above {}, the largest of {size} {unit} in partition ({}){place}",
                first.above_count,
                kind.name(),
                first.threshold,
                first.partition_key
            ))
        });
        let told: Vec<String> = told.collect();
        if !told.is_empty() {
            let (table, sstable) = (self.schema().full_name(), &things[0].sstable);
            tracing::warn!(table, sstable, "large data written: {}", told.join("; "));
        }
    }
}
