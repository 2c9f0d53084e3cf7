//! Tidegate: one shard, LZ4, a commitlog that is synced in the background.

use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use futures::{FutureExt, TryStreamExt};
use tidegate_engine::batch::BatchBuilder;
use tidegate_engine::database::Shard;
use tidegate_engine::mutation::{Filled, Fragment, PartitionRange};
use tidegate_engine::reader::QueryReader;
use tidegate_engine::{
    Cell, ClusteringKey, ClusteringOrder, ClusteringRange, Column, ColumnId, ColumnKind,
    Compression, Compressor, DataType, Database, Direction, Durability, Liveness, Mutation,
    Options, PartitionKey, Partitions, ReadCommand, Row, SchemaRef, Slice, TableId, TableOptions,
    TableSchema, Value,
};
use tokio::runtime::Runtime;

use super::{CACHE_BYTES, MEMTABLE_BYTES, Order, Store};
use crate::work::{Place, ROWS_PER_PARTITION, value};

const SYNC_EVERY_MS: u64 = 10_000;

pub struct Tidegate {
    runtime: Runtime,
    database: Database,
    schema: SchemaRef,
}

pub fn definition() -> TableSchema {
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    let order = ClusteringOrder::Ascending;
    TableSchema {
        id: TableId(0),
        keyspace: "default".into(),
        name: "rows".into(),
        columns: vec![
            column("pk", DataType::BigInt, ColumnKind::PartitionKey { position: 0 }),
            column("ck", DataType::BigInt, ColumnKind::ClusteringKey { position: 0, order }),
            column("v", DataType::Blob, ColumnKind::Regular),
        ],
        options: TableOptions {
            compression: Some(Compression::new(Compressor::Lz4)),
            ..TableOptions::default()
        },
        drops: Vec::new(),
    }
}

fn partition_key(schema: &TableSchema, pk: i64) -> PartitionKey {
    PartitionKey::from_values(schema, &[Value::BigInt(pk)]).expect("a key of the table")
}

fn point(schema: &TableSchema, ck: i64) -> Slice {
    let key = ClusteringKey::from_values(schema, &[Value::BigInt(ck)]);
    let range = ClusteringRange::prefix(key.expect("a key of the table"));
    Slice { ranges: vec![range], direction: Direction::Forward }
}

pub fn insert(schema: &TableSchema, place: Place, timestamp: i64) -> Mutation {
    let mut mutation = Mutation::new(schema.id, partition_key(schema, place.0));
    let row = Row {
        liveness: Some(Liveness::at(timestamp)),
        cells: vec![(ColumnId(2), Cell::live(timestamp, value(place)))],
        ..Row::default()
    };
    let key = ClusteringKey::from_values(schema, &[Value::BigInt(place.1)]);
    mutation.rows.push((key.expect("a key of the table"), row));
    mutation
}

impl Tidegate {
    /// Runs work in the thread of the shard.
    fn on_shard<T, F>(&self, work: impl FnOnce(Rc<Shard>) -> F + Send + 'static) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let route = partition_key(&self.schema, 0);
        let work = self.database.on_shard(&route, move |shard| work(shard).boxed_local());
        self.runtime.block_on(work).expect("a shard that runs")
    }

    fn command(&self, partitions: Partitions, slice: Slice) -> ReadCommand {
        ReadCommand {
            schema: self.schema.clone(),
            partitions,
            slice,
            columns: vec![ColumnId(1), ColumnId(2)],
            stamps: Vec::new(),
            row_limit: None,
            partition_limit: None,
            deadline: None,
            level: Default::default(),
            past_cache: false,
            filter: None,
        }
    }

    fn rows_of(&self, command: ReadCommand) -> usize {
        self.runtime.block_on(async {
            let mut batches = self.database.read(command);
            let mut rows = 0;
            while let Some(batch) = batches.try_next().await.expect("a read") {
                rows += batch.num_rows();
            }
            rows
        })
    }
}

impl Store for Tidegate {
    const NAME: &'static str = "Tidegate";
    const POINT_NAMES: [&'static str; 2] =
        ["point read, hot set, on the shard", "point read, random, on the shard"];
    const POINT_CALLS_NAME: Option<&'static str> = Some("point read, random, one call each");
    const WRITE_NAME: &'static str = "unsynced write, on the shard";
    const WRITE_CALLS_NAME: Option<&'static str> = Some("unsynced write, one call each");

    fn open(folder: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let options = Options {
            shards: Some(1),
            durability: Durability::Periodic { ms: SYNC_EVERY_MS },
            cache_bytes: CACHE_BYTES,
            memtable_bytes: MEMTABLE_BYTES,
            ..Options::new(folder)
        };
        let (database, schema) = runtime.block_on(async {
            let database = Database::open(options).await.expect("an empty folder");
            let schema = database.create_table(definition(), false).await.expect("a new table");
            (database, schema)
        });
        Tidegate { runtime, database, schema }
    }

    fn write_partition(&self, pk: i64) {
        let writes = (0..ROWS_PER_PARTITION).map(|ck| insert(&self.schema, (pk, ck), 1));
        self.runtime.block_on(self.database.apply_many(writes.collect())).expect("a write");
    }

    fn flush(&self) {
        self.runtime.block_on(self.database.flush(None)).expect("a flush");
    }

    /// Nothing to do: its SSTables stay as they were written.
    fn settle(&self) {}

    fn points(&self, places: &[Place]) -> usize {
        let (schema, places): (_, Arc<[Place]>) = (self.schema.clone(), places.into());
        self.on_shard(move |shard| async move {
            let table = shard.table(schema.id).expect("the table");
            let mut fragments = VecDeque::new();
            let mut found = 0;
            for (pk, ck) in places.iter() {
                let partition = PartitionRange::Single(partition_key(&schema, *pk));
                let mut source = table.read(&partition, &point(&schema, *ck), false);
                loop {
                    if source.fill_now(&mut fragments) == Filled::Waits {
                        source.fill(&mut fragments).await.expect("a read");
                    }
                    if fragments.is_empty() {
                        break;
                    }
                    let is_row =
                        |f: &Fragment| matches!(f, Fragment::Row { .. } | Fragment::FlatRow(_));
                    found += fragments.drain(..).filter(is_row).count();
                }
            }
            found
        })
    }

    fn point_calls(&self, places: &[Place]) -> usize {
        let read = |(pk, ck): &Place| {
            let partitions = Partitions::Keys(vec![partition_key(&self.schema, *pk)]);
            self.rows_of(self.command(partitions, point(&self.schema, *ck)))
        };
        places.iter().map(read).sum()
    }

    /// Each slice becomes an Arrow batch.
    fn slices(&self, partitions: &[i64], order: Order) -> usize {
        let (schema, partitions): (_, Arc<[i64]>) = (self.schema.clone(), partitions.into());
        self.on_shard(move |shard| async move {
            let table = shard.table(schema.id).expect("the table");
            let slice = Slice::full(match order {
                Order::Forward => Direction::Forward,
                Order::Reversed => Direction::Reversed,
            });
            let mut rows = 0;
            for pk in partitions.iter() {
                let partition = PartitionRange::Single(partition_key(&schema, *pk));
                let mut reader = QueryReader::new(table.read(&partition, &slice, false), 0, true);
                let mut builder = BatchBuilder::new(schema.clone(), &[ColumnId(1), ColumnId(2)], 0);
                loop {
                    let pulled =
                        reader.pull(usize::MAX, &mut |rows| builder.push(rows).map(|()| true));
                    match pulled.expect("a read") {
                        Filled::Some => {}
                        Filled::Waits => assert!(reader.refill().await.expect("a read")),
                        Filled::End => break,
                    }
                }
                rows += builder.finish().expect("a batch").num_rows();
            }
            rows
        })
    }

    fn scan(&self) -> usize {
        self.rows_of(self.command(Partitions::Shard(0), Slice::full(Direction::Forward)))
    }

    fn writes(&self, places: &[Place]) {
        let (schema, places): (_, Arc<[Place]>) = (self.schema.clone(), places.into());
        let timestamp = self.database.timestamp_us();
        self.on_shard(move |shard| async move {
            for place in places.iter() {
                shard.apply(insert(&schema, *place, timestamp)).await.expect("a write");
            }
        });
    }

    fn write_calls(&self, places: &[Place]) {
        let timestamp = self.database.timestamp_us();
        for place in places {
            let write = self.database.apply(insert(&self.schema, *place, timestamp));
            self.runtime.block_on(write).expect("a write");
        }
    }

    fn close(self) {
        self.runtime.block_on(self.database.close()).expect("a clean end");
    }
}
