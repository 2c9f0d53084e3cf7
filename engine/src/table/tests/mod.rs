//! A table of one shard on a disk that counts what is read of it.

mod answers;
mod asked;
mod bytes;
mod dropped;
mod flushes;
mod long_rows;
mod numbers;
mod parts;
mod purge;
mod scans;

use std::cell::Cell as Counter;
use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;

use futures::executor::block_on;

use super::{Handovers, Reached, Table, TableOpening, TombstoneLimits};
use crate::cache::PageCache;
use crate::disk::Disk;
use crate::ledger::Ledger;
use crate::mutation::{Cell, Fragment, FragmentSource, Liveness, Mutation, Row};
use crate::schema::table_schema::SchemaRef;
use crate::schema::{
    ClusteringKey, ClusteringOrder, Column, ColumnId, ColumnKind, DataType, LargeDataThresholds,
    PartitionKey, TableId, TableOptions, TableSchema, Value,
};
use crate::sstable::tests::memory_disk::MemoryDisk;

const DIRECTORY: &str = "/data/k/t";

/// A table on its disk.
struct World {
    disk: MemoryDisk,
    cache: Rc<PageCache>,
    /// Bytes of the shard's memtables.
    memtable_bytes: Rc<Counter<usize>>,
    table: Rc<Table>,
}

pub(super) fn schema(has_clustering: bool) -> SchemaRef {
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    let order = ClusteringOrder::Ascending;
    let mut columns = vec![
        column("pk", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
        column("v", DataType::Blob, ColumnKind::Regular),
    ];
    if has_clustering {
        columns.push(column("ck", DataType::Int, ColumnKind::ClusteringKey { position: 0, order }));
    }
    SchemaRef::new(TableSchema {
        id: TableId(7),
        keyspace: "k".into(),
        name: "t".into(),
        columns,
        options: TableOptions { column_index_bytes: 4096, ..TableOptions::default() },
        drops: Vec::new(),
    })
}

fn partition_key(pk: i32) -> PartitionKey {
    PartitionKey::from_bytes(pk.to_be_bytes())
}

impl World {
    /// Shard number `shard` of `shard_count`.
    fn open(disk: MemoryDisk, schema: SchemaRef, cache_bytes: usize, shard: (u32, u32)) -> World {
        World::open_after(0, disk, schema, cache_bytes, shard)
    }

    /// The same where SSTables up to number `generation_max` were there once.
    fn open_after(
        generation_max: u64,
        disk: MemoryDisk,
        schema: SchemaRef,
        cache_bytes: usize,
        shard: (u32, u32),
    ) -> World {
        let through = Rc::new(disk.clone());
        World::open_through(through, (disk, generation_max), schema, cache_bytes, shard)
    }

    /// The same where the table comes to its disk through another one.
    fn open_through(
        through: Rc<dyn Disk>,
        (disk, generation_max): (MemoryDisk, u64),
        schema: SchemaRef,
        cache_bytes: usize,
        shard: (u32, u32),
    ) -> World {
        let cache = PageCache::new(cache_bytes, 1);
        let memtable_bytes: Rc<Counter<usize>> = Rc::default();
        let ledger_path = Path::new(DIRECTORY).join("ledger");
        let ledger = block_on(Ledger::open(through.clone(), &ledger_path)).unwrap();
        let opening = TableOpening {
            schema,
            directory: Path::new(DIRECTORY).to_owned(),
            disk: through,
            commitlog: None,
            ledger,
            reached: Reached::new(),
            generation_max,
            cache: cache.clone(),
            shard_bytes: memtable_bytes.clone(),
            shard: shard.0,
            shard_count: shard.1,
            large_data: LargeDataThresholds::default(),
            tombstones: TombstoneLimits::default(),
            handovers: Handovers::new(shard.1),
        };
        let table = block_on(Table::open(opening)).unwrap();
        World { disk, cache, memtable_bytes, table }
    }

    fn clustering(&self, ck: i32) -> ClusteringKey {
        match self.table.schema().clustering_key().count() {
            0 => ClusteringKey::empty(),
            _ => ClusteringKey::from_values(&self.table.schema(), &[Value::Int(ck)]).unwrap(),
        }
    }

    fn mutation(&self, (pk, ck): (i32, i32), timestamp: i64, value_bytes: usize) -> Mutation {
        let mut mutation = Mutation::new(self.table.schema().id, partition_key(pk));
        let row = Row {
            liveness: Some(Liveness::at(timestamp)),
            cells: vec![(ColumnId(1), Cell::live(timestamp, vec![b'v'; value_bytes]))],
            ..Row::default()
        };
        mutation.rows.push((self.clustering(ck), row));
        mutation
    }

    fn write(&self, place: (i32, i32), timestamp: i64, value_bytes: usize) {
        let mutation = self.mutation(place, timestamp, value_bytes);
        self.table.active().replay(None, mutation);
    }

    fn flush(&self) {
        block_on(self.table.flush()).unwrap();
    }

    /// Reads of data and indexes that `work` makes, and their bytes.
    fn cost_of<T>(&self, work: impl FnOnce() -> T) -> (Cost, T) {
        self.disk.reads.borrow_mut().clear();
        let done = work();
        let reads = self.disk.reads.borrow();
        let bytes = reads.iter().map(|read| read.bytes).sum();
        (Cost { requests: reads.len() as u64, bytes }, done)
    }
}

/// What was asked of the disk.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    requests: u64,
    bytes: u64,
}

/// Rows as (partition, clustering key, timestamp), up to about `max` of them.
fn rows_of(mut source: Box<dyn FragmentSource>, max: usize) -> Vec<(PartitionKey, Vec<u8>, i64)> {
    let (mut rows, mut partition) = (Vec::new(), None);
    let mut fragments = VecDeque::new();
    while rows.len() < max {
        block_on(source.fill(&mut fragments)).unwrap();
        if fragments.is_empty() {
            break;
        }
        for fragment in fragments.drain(..) {
            match fragment.thawed() {
                Fragment::PartitionStart { key, .. } => partition = Some(key),
                Fragment::Row { key, row } => {
                    let partition = PartitionKey::clone(partition.as_ref().unwrap());
                    let newest = row.newest_timestamp().unwrap();
                    rows.push((partition, key.as_ordered().to_vec(), newest));
                }
                _ => {}
            }
        }
    }
    rows
}
