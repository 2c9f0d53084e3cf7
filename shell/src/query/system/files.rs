//! Tables of `system` about files: what is large in them, and where they are damaged.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, StringArray, UInt32Array};
use datafusion::arrow::datatypes::{DataType, Field};
use tidegate_engine::{Error as EngineError, LargeDataReport, LargeKind};

use super::columns::{count, counts, shard, text, texts};
use crate::query::engine::Engine;

/// What a table of large data lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::query) enum Large {
    Partitions,
    Rows,
    Cells,
}

impl Large {
    fn holds(self, kind: LargeKind) -> bool {
        match kind {
            LargeKind::PartitionBytes | LargeKind::PartitionRows => self == Large::Partitions,
            LargeKind::RowBytes => self == Large::Rows,
            LargeKind::CellBytes | LargeKind::CollectionElements => self == Large::Cells,
        }
    }

    pub(in crate::query) fn fields(self) -> Vec<Field> {
        let mut fields = vec![
            text("keyspace_name"),
            text("table_name"),
            shard(),
            text("sstable_name"),
            text("kind"),
            text("partition_key"),
        ];
        let optional = |name: &str| Field::new(name, DataType::Utf8, true);
        match self {
            Large::Partitions => fields.extend([
                count("partition_size"),
                count("rows"),
                count("range_tombstones"),
                count("dead_rows"),
            ]),
            Large::Rows => fields.extend([optional("clustering_key"), count("row_size")]),
            Large::Cells => fields.extend([
                optional("clustering_key"),
                text("column_name"),
                count("cell_size"),
                count("collection_elements"),
            ]),
        }
        fields.extend([count("threshold"), count("above_threshold")]);
        fields
    }

    pub(in crate::query) async fn columns(
        self,
        database: &Engine,
    ) -> Result<Vec<ArrayRef>, EngineError> {
        let mut all = database.large_data_report().await?;
        all.retain(|report| self.holds(report.thing.kind));
        // The largest first.
        let size = |report: &LargeDataReport| match report.thing.kind {
            LargeKind::PartitionRows | LargeKind::CollectionElements => report.thing.elements,
            _ => report.thing.bytes,
        };
        all.sort_by_key(|report| {
            let table = (report.keyspace.clone(), report.table.clone());
            (table, report.thing.kind, std::cmp::Reverse(size(report)))
        });
        let numbers = |of: fn(&LargeDataReport) -> u64| -> ArrayRef { counts(all.iter().map(of)) };
        let clustering = all.iter().map(|report| report.thing.clustering_key.as_deref());
        let clustering: ArrayRef = Arc::new(clustering.collect::<StringArray>());
        let mut columns = vec![
            texts(all.iter().map(|report| report.keyspace.as_str())),
            texts(all.iter().map(|report| report.table.as_str())),
            Arc::new(UInt32Array::from_iter_values(all.iter().map(|report| report.shard))),
            texts(all.iter().map(|report| report.thing.sstable.as_str())),
            texts(all.iter().map(|report| report.thing.kind.name())),
            texts(all.iter().map(|report| report.thing.partition_key.as_str())),
        ];
        match self {
            Large::Partitions => columns.extend([
                numbers(|report| report.thing.bytes),
                numbers(|report| report.thing.elements),
                numbers(|report| report.thing.range_tombstones),
                numbers(|report| report.thing.dead_rows),
            ]),
            Large::Rows => columns.extend([clustering, numbers(|report| report.thing.bytes)]),
            Large::Cells => columns.extend([
                clustering,
                texts(all.iter().map(|r| r.thing.column.clone().unwrap_or_default())),
                numbers(|report| report.thing.bytes),
                numbers(|report| report.thing.elements),
            ]),
        }
        columns.extend([
            numbers(|report| report.thing.threshold),
            numbers(|report| u64::from(report.thing.above_count)),
        ]);
        Ok(columns)
    }
}

/// A row for each place of damage that reads met since the start.
pub(in crate::query) fn corruption_fields() -> Vec<Field> {
    let (file, offset) = (text("file"), count("offset"));
    let counts = [count("times"), count("skipped"), count("rebuilt")];
    let found = [file, offset, text("wanted"), text("found")].into_iter().chain(counts);
    let set_aside = Field::new("set_aside", DataType::Boolean, false);
    let found = found.chain([set_aside]);
    [text("keyspace_name"), text("table_name"), shard()].into_iter().chain(found).collect()
}

pub(in crate::query) async fn corruption(database: &Engine) -> Result<Vec<ArrayRef>, EngineError> {
    let all = database.damage_report().await?;
    Ok(vec![
        texts(all.iter().map(|report| report.keyspace.as_str())),
        texts(all.iter().map(|report| report.table.as_str())),
        Arc::new(UInt32Array::from_iter_values(all.iter().map(|report| report.shard))),
        texts(all.iter().map(|report| report.damage.file.display().to_string())),
        counts(all.iter().map(|report| report.damage.offset)),
        texts(all.iter().map(|report| report.damage.wanted.as_str())),
        texts(all.iter().map(|report| report.damage.found.as_str())),
        counts(all.iter().map(|report| report.damage.count)),
        counts(all.iter().map(|report| report.damage.skipped_count)),
        counts(all.iter().map(|report| report.damage.rebuilt_count)),
        Arc::new(
            all.iter().map(|report| Some(report.damage.is_set_aside)).collect::<BooleanArray>(),
        ),
    ])
}
