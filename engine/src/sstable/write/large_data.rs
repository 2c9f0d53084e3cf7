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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutation::{Liveness, MultiCell, Row, Tombstone, ViewRoom};

    const THRESHOLDS: LargeDataThresholds = LargeDataThresholds {
        partition_bytes: 100,
        row_bytes: 50,
        cell_bytes: 10,
        partition_rows: 3,
        collection_elements: 2,
    };

    fn key(name: &str) -> PartitionKey {
        PartitionKey::from_bytes(name)
    }

    fn live() -> Row {
        Row { liveness: Some(Liveness::at(1)), ..Row::default() }
    }

    /// A row of so many bytes, static or not.
    fn add(
        collector: &mut LargeDataCollector,
        partition_key: &PartitionKey,
        row: &Row,
        (bytes, is_static): (u64, bool),
    ) {
        ViewRoom::default().of_row(row, |row| {
            let written = WrittenRow { partition_key, row: &row, bytes, is_static };
            let clustering = || if is_static { Vec::new() } else { vec![b"ck".to_vec()] };
            collector.row(&written, clustering, |id| format!("c{}", id.0));
        });
    }

    /// Sizes of all kinds, and the records.
    fn found(collector: LargeDataCollector) -> (Vec<LargeData>, Vec<LargeRecord>) {
        let mut metadata = ScyllaMetadata::default();
        collector.finish(&mut metadata);
        assert_ne!(metadata.records, Some(Vec::new()), "no records are none at all");
        (metadata.large_data.unwrap(), metadata.records.unwrap_or_default())
    }

    /// Adds a partition that has nothing of note but this kind of thing, of this size.
    fn add_sized(collector: &mut LargeDataCollector, kind: LargeKind, size: u64) {
        let own = key("k");
        collector.partition();
        let mut row = live();
        let (mut rows, mut row_bytes, mut partition_bytes) = (1, 1, 1);
        match kind {
            LargeKind::PartitionBytes => partition_bytes = size,
            LargeKind::RowBytes => row_bytes = size,
            LargeKind::CellBytes => {
                row.put(ColumnId(4), Cell::live(1, vec![b'v'; size as usize]));
            }
            LargeKind::PartitionRows => rows = size,
            LargeKind::CollectionElements => {
                let path = |at: u64| CellPath::from_ordered([at as u8]);
                let cells = (0..size).map(|at| (path(at), Cell::live(1, *b"v"))).collect();
                row.multi.push((ColumnId(5), MultiCell { deletion: None, cells }));
            }
        }
        (0..rows).for_each(|_| add(collector, &own, &row, (row_bytes, false)));
        collector.partition_end(&own, partition_bytes);
    }

    #[test]
    fn of_every_kind_only_what_is_above_its_threshold_is_large() {
        for kind in LargeKind::ALL {
            let threshold = kind.threshold(&THRESHOLDS);
            for (size, is_large) in [(threshold, false), (threshold + 1, true)] {
                let mut collector = LargeDataCollector::new(&THRESHOLDS);
                add_sized(&mut collector, kind, size);
                // What is smaller and comes later changes nothing.
                add_sized(&mut collector, kind, 1);
                let (stats, records) = found(collector);
                let numbers: Vec<u32> = stats.iter().map(|stat| stat.kind).collect();
                assert_eq!(numbers, [1, 2, 3, 4, 5]);
                for (other, stat) in LargeKind::ALL.into_iter().zip(&stats) {
                    assert_eq!(stat.threshold, other.threshold(&THRESHOLDS), "{kind:?}: {other:?}");
                    let above = u32::from(is_large && other == kind);
                    assert_eq!(stat.above_count, above, "{kind:?} of {size}: {other:?}");
                    if other == kind {
                        assert_eq!(stat.max, size, "{kind:?}");
                    }
                }
                let mut wanted = LargeRecord {
                    kind: kind as u32,
                    partition_key: b"k".to_vec(),
                    bytes: size,
                    ..LargeRecord::default()
                };
                match kind {
                    LargeKind::PartitionBytes => wanted.elements = 1,
                    LargeKind::PartitionRows => (wanted.bytes, wanted.elements) = (1, size),
                    LargeKind::RowBytes => wanted.clustering_key = b"\0\x02ck".to_vec(),
                    LargeKind::CellBytes => {
                        wanted.clustering_key = b"\0\x02ck".to_vec();
                        wanted.column = "c4".to_owned();
                    }
                    LargeKind::CollectionElements => {
                        wanted.clustering_key = b"\0\x02ck".to_vec();
                        wanted.column = "c5".to_owned();
                        // A path and a value of a byte each.
                        (wanted.bytes, wanted.elements) = (2 * size, size);
                    }
                }
                let wanted = if is_large { vec![wanted] } else { Vec::new() };
                assert_eq!(records, wanted, "{kind:?} of {size}");
            }
        }
    }

    /// The largest come first, of those that are alike the first one, and all are counted.
    #[test]
    fn records_are_those_of_the_largest_and_all_others_are_counted() {
        const COUNT: u64 = 25;
        let size = |at: u64| 200 + (at * 7 % COUNT) / 2;
        let mut collector = LargeDataCollector::new(&THRESHOLDS);
        for at in 0..COUNT {
            let own = key(&format!("k{at}"));
            collector.partition();
            add(&mut collector, &own, &live(), (size(at), false));
            collector.partition_end(&own, size(at));
        }
        let (stats, records) = found(collector);
        let mut largest: Vec<(u64, u64)> = (0..COUNT).map(|at| (size(at), at)).collect();
        largest.sort_by_key(|(size, at)| (std::cmp::Reverse(*size), *at));
        largest.truncate(LARGE_DATA_RECORDS_MAX);
        let wanted: Vec<(u64, Vec<u8>)> =
            largest.iter().map(|(size, at)| (*size, format!("k{at}").into_bytes())).collect();
        for kind in [LargeKind::PartitionBytes, LargeKind::RowBytes] {
            let own = records.iter().filter(|record| record.kind == kind as u32);
            let own: Vec<(u64, Vec<u8>)> =
                own.map(|record| (record.bytes, record.partition_key.clone())).collect();
            assert_eq!(own, wanted, "{kind:?}");
            let stat = &stats[kind as usize - 1];
            assert_eq!((stat.max, stat.above_count), (largest[0].0, COUNT as u32), "{kind:?}");
        }
        assert_eq!(records.len(), 2 * LARGE_DATA_RECORDS_MAX);
    }

    #[test]
    fn each_partition_counts_its_own_rows_and_tombstones_and_no_static_row() {
        let mut collector = LargeDataCollector::new(&THRESHOLDS);
        let tombstone = Tombstone { timestamp: 1, deletion_time: 1 };
        let dead = Row { deletion: Some(tombstone), ..Row::default() };
        let mut deleted_cell = Row::default();
        deleted_cell.put(ColumnId(4), Cell::deleted(1, 1));
        let mut written = Row::default();
        written.put(ColumnId(4), Cell::expiring(1, *b"v", 10, 11));
        for (name, rows, ranges) in [
            ("a", vec![&dead, &written, &deleted_cell, &dead, &written], 2),
            ("b", vec![&written; 4], 0),
            ("c", vec![&dead; 3], 5),
            ("d", vec![&dead; 4], 1),
        ] {
            let own = key(name);
            collector.partition();
            add(&mut collector, &own, &deleted_cell, (60, true));
            rows.iter().for_each(|row| add(&mut collector, &own, row, (1, false)));
            (0..ranges).for_each(|_| collector.range_tombstone());
            collector.partition_end(&own, 9);
        }
        let (stats, records) = found(collector);
        assert_eq!((stats[3].max, stats[3].above_count), (5, 3));
        let counts = |record: &LargeRecord| {
            let name = String::from_utf8(record.partition_key.clone()).unwrap();
            (name, [record.elements, record.dead_rows, record.range_tombstones])
        };
        let of = |kind: LargeKind| records.iter().filter(move |record| record.kind == kind as u32);
        let counted: Vec<(String, [u64; 3])> = of(LargeKind::PartitionRows).map(counts).collect();
        let wanted = [("a", [5, 3, 2]), ("b", [4, 0, 0]), ("d", [4, 4, 1])];
        assert_eq!(counted, wanted.map(|(name, counts)| (name.to_owned(), counts)));
        let statics: Vec<&LargeRecord> = of(LargeKind::RowBytes).collect();
        assert_eq!(statics.len(), 4, "{statics:?}");
        assert!(statics.iter().all(|record| record.clustering_key.is_empty()), "{statics:?}");
    }
}
