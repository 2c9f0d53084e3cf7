//! The tables of the benchmark: written once, opened with a cache of their own, read and measured.

use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tidegate_engine::cache::PageCache;
use tidegate_engine::clock::Random;
use tidegate_engine::disk::Disk;
use tidegate_engine::mutation::{Fragment, FragmentSource, PartitionRange};
use tidegate_engine::policy::event::EntryKind;
use tidegate_engine::sstable::{ReadPlan, Sstable, SstableWriter, WriterOptions};
use tidegate_engine::{
    Cell, ClusteringKey, ClusteringOrder, ClusteringRange, Column, ColumnId, ColumnKind, DataType,
    Direction, Liveness, PartitionKey, Position, Row, SchemaRef, Slice, TableId, TableOptions,
    TableSchema, Value,
};

use crate::ALLOCATOR;
use crate::disk::{CountingDisk, Counts};
use crate::frame::cpu_timed;
use crate::memory::Allocated;

pub const CACHE_BYTES: usize = 64 << 20;

pub fn schema() -> SchemaRef {
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    let order = ClusteringOrder::Ascending;
    SchemaRef::new(TableSchema {
        id: TableId(1),
        keyspace: "default".into(),
        name: "wide".into(),
        columns: vec![
            column("pk", DataType::BigInt, ColumnKind::PartitionKey { position: 0 }),
            column("ck", DataType::BigInt, ColumnKind::ClusteringKey { position: 0, order }),
            column("v", DataType::Blob, ColumnKind::Regular),
        ],
        options: TableOptions::default(),
        drops: Vec::new(),
    })
}

pub fn partition_key(pk: i64) -> PartitionKey {
    PartitionKey::from_values(&schema(), &[Value::BigInt(pk)]).unwrap()
}

pub fn clustering_key(ck: i64) -> ClusteringKey {
    ClusteringKey::from_values(&schema(), &[Value::BigInt(ck)]).unwrap()
}

/// What one partition holds: rows with the clustering keys 0, 2, 4 and so on.
#[derive(Clone, Copy)]
pub struct Shape {
    pub partitions: i64,
    pub rows: i64,
    pub value_bytes: usize,
    pub column_index_bytes: u32,
}

/// A row with a value that does not compress to nothing.
pub fn row(random: &mut Random, ck: i64, value_bytes: usize) -> Fragment {
    let mut value = vec![b'v'; value_bytes];
    let at = random.below(value_bytes as u64 - 7) as usize;
    value[at..at + 8].copy_from_slice(&random.next_u64().to_be_bytes());
    let row = Row {
        liveness: Some(Liveness::at(1_600_000_000_000_000)),
        cells: vec![(ColumnId(2), Cell::live(1_600_000_000_000_000, value))],
        ..Row::default()
    };
    Fragment::Row { key: Rc::new(clustering_key(ck)), row: Rc::new(row) }
}

pub async fn writer(
    disk: Rc<dyn Disk>,
    directory: &Path,
    generation: u64,
    column_index_bytes: u32,
) -> SstableWriter {
    let options = WriterOptions { column_index_bytes, ..WriterOptions::default() };
    SstableWriter::create(disk, directory, generation, schema(), options).await.unwrap()
}

/// Writes a table of the shape.
pub async fn write(disk: &Rc<CountingDisk>, directory: &Path, generation: u64, shape: Shape) {
    let disk: Rc<dyn Disk> = disk.clone();
    let mut writer = writer(disk, directory, generation, shape.column_index_bytes).await;
    let mut random = Random::new(generation);
    let mut keys: Vec<PartitionKey> = (0..shape.partitions).map(partition_key).collect();
    keys.sort();
    for key in keys {
        let start = Fragment::PartitionStart { key: Rc::new(key), deletion: None };
        writer.push(start).await.unwrap();
        for ck in 0..shape.rows {
            writer.push(row(&mut random, 2 * ck, shape.value_bytes)).await.unwrap();
        }
        writer.push(Fragment::PartitionEnd).await.unwrap();
    }
    writer.finish().await.unwrap().unwrap();
}

/// An open SSTable with a cache of its own.
pub struct Table {
    pub disk: Rc<CountingDisk>,
    pub cache: Rc<PageCache>,
    pub sstable: Rc<Sstable>,
}

/// What a read cost.
#[derive(Clone, Copy, Default)]
pub struct Cost {
    pub reads: Counts,
    /// Pages and parsed pages of the index that were found in memory.
    pub index_hits: u64,
    pub wall_us: f64,
    pub cpu_us: f64,
    pub allocated: Allocated,
    pub rows: u64,
}

/// The rows of one clustering key.
pub fn point(ck: i64) -> Slice {
    let key = clustering_key(ck);
    let range = ClusteringRange { start: Position::before(key.clone()), end: Position::after(key) };
    Slice { ranges: vec![range], direction: Direction::Forward }
}

/// The rows from `ck` on.
pub fn from(ck: i64) -> Slice {
    let start = Position::before(clustering_key(ck));
    let range = ClusteringRange { start, end: Position::end() };
    Slice { ranges: vec![range], direction: Direction::Forward }
}

impl Table {
    pub async fn open(disk: &Rc<CountingDisk>, directory: &Path, generation: u64) -> Table {
        let cache = PageCache::new(CACHE_BYTES, 1);
        let below: Rc<dyn Disk> = disk.clone();
        let sstable =
            Sstable::open(below, cache.clone(), directory, (generation, None), schema()).await;
        disk.take();
        Table { disk: disk.clone(), cache, sstable: sstable.unwrap() }
    }

    /// Forgets every page, so that the next read is cold.
    pub fn cool(&self) {
        self.cache.set_capacity_bytes(0);
        while self.cache.trim() {}
        assert_eq!(self.cache.stats().bytes, 0, "nobody holds a page");
        self.cache.set_capacity_bytes(CACHE_BYTES);
    }

    fn index_hits(&self) -> u64 {
        let is_index = |kind| matches!(kind, EntryKind::IndexPage | EntryKind::PartitionIndexPage);
        let stats = self.cache.stats();
        let counts = stats.kinds.iter().filter(|(kind, _)| is_index(*kind));
        counts.map(|(_, counts)| counts.hits).sum()
    }

    /// Reads up to `limit` rows of a slice of one partition; how many there were.
    pub async fn rows(&self, key: &PartitionKey, slice: &Slice, limit: u64) -> u64 {
        self.rows_in(&PartitionRange::Single(key.clone()), slice, limit).await
    }

    /// The same of a range of partitions.
    pub async fn rows_in(&self, range: &PartitionRange, slice: &Slice, limit: u64) -> u64 {
        match self.sstable.read(&ReadPlan::of(range, slice)) {
            Some(mut source) => drain(&mut *source, limit).await,
            None => 0,
        }
    }

    /// The same, measured.
    pub async fn read(&self, key: &PartitionKey, slice: &Slice, limit: u64) -> Cost {
        self.disk.take();
        let hits = self.index_hits();
        let mark = ALLOCATOR.mark();
        let work = timed_async(self.rows(key, slice, limit));
        let ((rows, wall), cpu) = cpu_timed(work).await;
        let allocated = ALLOCATOR.since(&mark);
        Cost {
            reads: self.disk.take(),
            index_hits: self.index_hits() - hits,
            wall_us: wall.as_secs_f64() * 1e6,
            cpu_us: cpu.as_secs_f64() * 1e6,
            allocated,
            rows,
        }
    }
}

/// Wall time until `work` is done.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub async fn timed_async<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let start = Instant::now();
    let result = work.await;
    (result, start.elapsed())
}

/// Reads up to `limit` rows; how many there were.
async fn drain(source: &mut dyn FragmentSource, limit: u64) -> u64 {
    let mut fragments = VecDeque::new();
    let mut rows = 0;
    while rows < limit {
        source.fill(&mut fragments).await.unwrap();
        if fragments.is_empty() {
            break;
        }
        for fragment in fragments.drain(..) {
            rows += u64::from(matches!(fragment, Fragment::Row { .. }));
        }
    }
    rows.min(limit)
}
