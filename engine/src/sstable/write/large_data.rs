//! Large data of an SSTable: found while it is written, recorded in `Scylla.db`.
//!
//! Of every kind the writer keeps the greatest size, how many are above the threshold and the
//! records of the largest of those. A flush looks at each row once more; keys are copied only for
//! what is recorded.

use crate::config::LARGE_DATA_RECORDS_MAX;
use crate::mutation::{Cell, CellPath, FlatState, RowView};
use crate::schema::{ColumnId, LargeDataThresholds, PartitionKey};
use crate::sstable::format::scylla::{LargeData, LargeKind, LargeRecord, ScyllaMetadata};

/// What is known of one kind so far.
#[derive(Debug)]
struct Largest {
    max: u64,
    threshold: u64,
    above_count: u32,
    /// Size and record, the largest first.
    records: Vec<(u64, LargeRecord)>,
}

impl Largest {
    fn add(&mut self, size: u64, record: impl FnOnce() -> LargeRecord) {
        self.max = self.max.max(size);
        if size <= self.threshold {
            return;
        }
        self.above_count = self.above_count.saturating_add(1);
        let place = self.records.partition_point(|(other, _)| *other >= size);
        if place < LARGE_DATA_RECORDS_MAX {
            self.records.truncate(LARGE_DATA_RECORDS_MAX - 1);
            self.records.insert(place, (size, record()));
        }
        debug_assert!(
            self.records.is_sorted_by(|(a, _), (b, _)| a >= b),
            "the largest does not come first: {:?}",
            self.records
        );
    }
}

/// Rows and tombstones of the partition that is being written.
#[derive(Debug, Default)]
struct Counts {
    rows: u64,
    range_tombstones: u64,
    dead_rows: u64,
}

/// Finds what is large among what is written.
#[derive(Debug)]
pub(super) struct LargeDataCollector {
    /// By kind, in the order of `LargeKind::ALL`.
    kinds: [Largest; 5],
    partition: Counts,
}

/// A row as it was written.
pub(super) struct WrittenRow<'a> {
    pub(crate) partition_key: &'a PartitionKey,
    pub(crate) row: &'a RowView<'a>,
    /// In the data file.
    pub(crate) bytes: u64,
    pub(crate) is_static: bool,
}

impl LargeDataCollector {
    pub(crate) fn new(thresholds: &LargeDataThresholds) -> Self {
        let kinds = LargeKind::ALL.map(|kind| Largest {
            max: 0,
            threshold: kind.threshold(thresholds),
            above_count: 0,
            records: Vec::new(),
        });
        LargeDataCollector { kinds, partition: Counts::default() }
    }

    fn of(&mut self, kind: LargeKind) -> &mut Largest {
        let at = kind as usize - 1;
        debug_assert_eq!(LargeKind::ALL[at], kind, "kinds stand in another order");
        &mut self.kinds[at]
    }

    pub(crate) fn partition(&mut self) {
        self.partition = Counts::default();
    }

    /// A row was written. `clustering` gives the stored values of its key, if it has one; `column`
    /// the name of a column.
    pub(crate) fn row(
        &mut self,
        written: &WrittenRow<'_>,
        mut clustering: impl FnMut() -> Vec<Vec<u8>>,
        column: impl Fn(ColumnId) -> String,
    ) {
        let WrittenRow { partition_key, row, bytes, is_static } = written;
        if !is_static {
            self.partition.rows += 1;
            self.partition.dead_rows += u64::from(row.is_dead());
        }
        let mut record = |kind: LargeKind, bytes: u64, elements: u64| LargeRecord {
            kind: kind as u32,
            partition_key: partition_key.as_bytes().to_vec(),
            clustering_key: joined(&clustering()),
            bytes,
            elements,
            ..LargeRecord::default()
        };
        let kind = LargeKind::RowBytes;
        self.of(kind).add(*bytes, || record(kind, *bytes, 0));
        for cell in row.cells {
            let (kind, size) = (LargeKind::CellBytes, cell.state.value().len() as u64);
            let named = || LargeRecord { column: column(cell.column), ..record(kind, size, 0) };
            self.of(kind).add(size, named);
        }
        for (id, multi) in row.multi {
            let size = |(path, cell): &(CellPath, Cell)| {
                (path.as_ordered().len() + FlatState::of(cell).value().len()) as u64
            };
            let size: u64 = multi.cells.iter().map(size).sum();
            let elements = multi.cells.len() as u64;
            for (kind, measure) in
                [(LargeKind::CellBytes, size), (LargeKind::CollectionElements, elements)]
            {
                let named = || LargeRecord { column: column(*id), ..record(kind, size, elements) };
                self.of(kind).add(measure, named);
            }
        }
    }

    /// A range tombstone begins.
    pub(super) fn range_tombstone(&mut self) {
        self.partition.range_tombstones += 1;
    }

    pub(crate) fn partition_end(&mut self, key: &PartitionKey, bytes: u64) {
        let Counts { rows, range_tombstones, dead_rows } = self.partition;
        assert!(dead_rows <= rows, "{dead_rows} of {rows} rows are dead: {key:?}");
        for (kind, size) in [(LargeKind::PartitionBytes, bytes), (LargeKind::PartitionRows, rows)] {
            let record = || LargeRecord {
                kind: kind as u32,
                partition_key: key.as_bytes().to_vec(),
                bytes,
                elements: rows,
                range_tombstones,
                dead_rows,
                ..LargeRecord::default()
            };
            self.of(kind).add(size, record);
        }
    }

    /// Adds what was found to `metadata`.
    pub(crate) fn finish(self, metadata: &mut ScyllaMetadata) {
        let (mut stats, mut records) = (Vec::new(), Vec::new());
        for (kind, largest) in LargeKind::ALL.into_iter().zip(self.kinds) {
            let (count, first) = (largest.records.len(), largest.records.first());
            assert!(
                count <= (largest.above_count as usize).min(LARGE_DATA_RECORDS_MAX)
                    && first.is_none_or(|(size, _)| *size == largest.max),
                "{count} records of {} {kind:?}, the largest of {}",
                largest.above_count,
                largest.max
            );
            stats.push(LargeData {
                kind: kind as u32,
                max: largest.max,
                threshold: largest.threshold,
                above_count: largest.above_count,
            });
            records.extend(largest.records.into_iter().map(|(_, record)| record));
        }
        metadata.large_data = Some(stats);
        metadata.records = (!records.is_empty()).then_some(records);
    }
}

/// Values with a u16 length each, as ScyllaDB serialises a clustering key.
fn joined(values: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    values.iter().for_each(|value| crate::sstable::format::coding::put_bytes16(&mut out, value));
    out
}
