//! The engine on a simulated disk, and the words of the reference in the engine's.

use std::path::Path;
use std::rc::Rc;

use futures::TryStreamExt;
use tidegate_engine::batch::{RecordBatch, value_at};
use tidegate_engine::clock::{Clock, Random, SimulatedClock};
use tidegate_engine::disk::SimulatedDisk;
use tidegate_engine::io::{DiskModel, DiskProperties, Scheduler};
use tidegate_engine::mutation::{CellPath, MultiCell};
use tidegate_engine::runtime::{ShardContext, SimulatedTimer, Timer};
use tidegate_engine::{
    Cell, ClusteringKey, ClusteringOrder, ClusteringRange, Column, ColumnChange, ColumnId,
    ColumnKind, CompactionClass, CompactionOptions, Comparator, Comparison, Condition,
    ConditionalWrite, DataType, Database, Decision, Direction, Durability, Liveness, Mutation,
    NewColumn, Options, PartitionKey, Partitions, Position, RangeTombstone, ReadCommand, Result,
    Row, RowCondition, RowValues, SchemaRef, Slice, TableId, TableOptions, TableSchema, Tombstone,
    Value,
};

use crate::reference::{
    Bound, Change, Conditional, Elements, Key, Put, Range, Seen, Wanted, Write,
};

const S: ColumnId = ColumnId(3);
const V: ColumnId = ColumnId(4);
const W: ColumnId = ColumnId(5);
const M: ColumnId = ColumnId(6);
/// Turns that tasks get between two steps of simulated time.
const TURNS_PER_MS: usize = 50;

/// A disk that does about ten requests in the time of fifty turns.
const SLOW: DiskProperties = DiskProperties::new((20_000, 100_000_000), (20_000, 100_000_000));

/// Partitions of each table: those from 0 on are the first one's, those from here on the second's.
pub const PARTITIONS: i32 = 6;

/// Both tables.
#[derive(Debug, Clone)]
pub struct Tables([SchemaRef; 2]);

impl Tables {
    /// The table of a partition.
    pub fn of(&self, partition: i32) -> &SchemaRef {
        &self.0[usize::from(partition >= PARTITIONS)]
    }

    /// Puts a new definition in the place of the second table's.
    pub fn replace_second(&mut self, schema: SchemaRef) {
        self.0[1] = schema;
    }
}

fn map() -> DataType {
    DataType::Map(Box::new(DataType::Int), Box::new(DataType::Int))
}

/// A table that keeps its tombstones for `gc_grace_seconds`, and whose SSTables a strategy merges.
pub fn definition(name: &str, (gc_grace_seconds, class): (i32, CompactionClass)) -> TableSchema {
    let compaction = CompactionOptions {
        class,
        min_threshold: 2,
        // A few partitions: what is merged becomes several SSTables.
        sstable_bytes: 4 << 10,
        fanout: 2,
        ..CompactionOptions::default()
    };
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    let clustering = |position, order| ColumnKind::ClusteringKey { position, order };
    TableSchema {
        id: TableId(0),
        keyspace: "default".into(),
        name: name.into(),
        columns: vec![
            column("pk", DataType::Int, ColumnKind::PartitionKey { position: 0 }),
            column("a", DataType::Int, clustering(0, ClusteringOrder::Ascending)),
            column("b", DataType::Int, clustering(1, ClusteringOrder::Descending)),
            column("s", DataType::Text, ColumnKind::Static),
            column("v", DataType::BigInt, ColumnKind::Regular),
            column("w", DataType::Text, ColumnKind::Regular),
            column("m", map(), ColumnKind::Regular),
        ],
        // Small blocks: even small partitions have an index.
        options: TableOptions {
            column_index_bytes: 256,
            gc_grace_seconds,
            compaction,
            ..TableOptions::default()
        },
        drops: Vec::new(),
    }
}

/// How one life of the database is set up.
#[derive(Debug, Clone, Copy)]
pub struct Life {
    pub shards: u32,
    pub memtable_bytes: usize,
    pub cache_bytes: usize,
    pub segment_bytes: usize,
    pub durability: Durability,
    pub seed: u64,
    /// Seconds for which tables keep their tombstones, and the strategy of all tables.
    pub keeping: (i32, CompactionClass),
}

impl Life {
    pub fn draw(
        random: &mut Random,
        durability: Durability,
        keeping: (i32, CompactionClass),
    ) -> Life {
        Life {
            shards: 1 + random.below(3) as u32,
            memtable_bytes: 1 << (10 + random.below(6)),
            // From a few rows to all of them.
            cache_bytes: 1 << (12 + random.below(8)),
            segment_bytes: 1 << (16 + random.below(3)),
            durability,
            seed: random.next_u64(),
            keeping,
        }
    }
}

/// Opens the database with shards on the calling thread's `LocalSet`; also starts what moves time.
pub async fn open(
    disk: &SimulatedDisk,
    clock: &std::sync::Arc<SimulatedClock>,
    life: Life,
) -> Result<(Database, Tables)> {
    let (timer, _) = SimulatedTimer::passing(clock.clone(), TURNS_PER_MS);
    // In every other life requests queue.
    let model = match life.seed.is_multiple_of(2) {
        true => DiskModel::measured(&SLOW),
        false => DiskModel::unmeasured(),
    };
    let scheduler = Scheduler::new(model, life.shards, clock.monotonic_ns());
    let contexts = (0..life.shards)
        .map(|shard| {
            let place = (shard, life.shards);
            let time: (std::sync::Arc<dyn Clock>, Rc<dyn Timer>) =
                (clock.clone(), Rc::new(timer.clone()));
            ShardContext::scheduled(place, disk.shared(), time, life.seed, scheduler.clone())
        })
        .collect();
    let options = Options {
        durability: life.durability,
        memtable_bytes: life.memtable_bytes,
        cache_bytes: life.cache_bytes,
        commitlog_segment_bytes: life.segment_bytes,
        clock: clock.clone(),
        seed: life.seed,
        ..Options::new(Path::new("/db"))
    };
    let database = Database::open_local(options, contexts).await?;
    let first = table(&database, FIRST, life.keeping).await?;
    let second = table(&database, SECOND, life.keeping).await?;
    Ok((database, Tables([first, second])))
}

pub const FIRST: &str = "t";
pub const SECOND: &str = "u";

/// A table, which is made when it is not there.
async fn table(
    database: &Database,
    name: &str,
    keeping: (i32, CompactionClass),
) -> Result<SchemaRef> {
    match database.catalog().table("default", name) {
        Some(schema) => Ok(schema.clone()),
        None => database.create_table(definition(name, keeping), false).await,
    }
}

/// Drops columns of a table, with what was written to them up to a timestamp, and adds them again.
pub async fn empty_columns(
    database: &Database,
    tables: &mut Tables,
    is_second: bool,
    (columns, at): (&[&str], i64),
) {
    let name = if is_second { SECOND } else { FIRST };
    let names = columns.iter().map(|column| (*column).to_owned()).collect();
    let drop = ColumnChange::Drop { columns: names, if_exists: false, timestamp: Some(at) };
    let table = &mut tables.0[usize::from(is_second)];
    let new = |name: &&str| {
        let column = table.find(name).expect("it is a column").1;
        let is_static = column.kind == ColumnKind::Static;
        NewColumn { name: (*name).to_owned(), ty: column.ty.clone(), is_static }
    };
    let columns = columns.iter().map(new).collect();
    database.alter_columns("default", name, drop).await.unwrap();
    let add = ColumnChange::Add { columns, if_not_exists: false };
    *table = database.alter_columns("default", name, add).await.unwrap().schema;
}

pub fn now(clock: &SimulatedClock) -> i32 {
    clock.wall_seconds() as i32
}

fn partition_key(schema: &TableSchema, partition: i32) -> PartitionKey {
    PartitionKey::from_values(schema, &[Value::Int(partition)]).unwrap()
}

fn clustering_key(schema: &TableSchema, key: Key) -> ClusteringKey {
    ClusteringKey::from_values(schema, &[Value::Int(key.a), Value::Int(key.b)]).unwrap()
}

fn position(schema: &TableSchema, bound: Bound) -> Position {
    let values: Vec<Value> = [bound.a, bound.b].into_iter().flatten().map(Value::Int).collect();
    let prefix = ClusteringKey::from_values(schema, &values).unwrap();
    if bound.is_after { Position::after(prefix) } else { Position::before(prefix) }
}

fn clustering_range(schema: &TableSchema, range: Range) -> ClusteringRange {
    ClusteringRange { start: position(schema, range.start), end: position(schema, range.end) }
}

fn cell<T>(put: &Put<T>, timestamp: i64, now: i32, bytes: impl Fn(&T) -> Vec<u8>) -> Cell {
    match (&put.value, put.expiry) {
        (None, _) => Cell::deleted(timestamp, now),
        (Some(value), None) => Cell::live(timestamp, bytes(value)),
        (Some(value), Some((expiry, ttl))) => Cell::expiring(timestamp, bytes(value), ttl, expiry),
    }
}

/// Elements that are written with `tombstone`'s timestamp.
fn multi_cell(elements: &Elements, tombstone: Tombstone) -> MultiCell {
    let Tombstone { timestamp, deletion_time } = tombstone;
    let before = Tombstone { timestamp: timestamp - 1, deletion_time };
    let mut multi = MultiCell { deletion: elements.replaces.then_some(before), cells: Vec::new() };
    for (key, put) in &elements.puts {
        let path = CellPath::from_stored(&DataType::Int, &key.to_be_bytes()).unwrap();
        multi.put(path, cell(put, timestamp, deletion_time, |value| value.to_be_bytes().to_vec()));
    }
    multi
}

/// The write as the engine takes it.
pub fn mutation(tables: &Tables, write: &Write) -> Mutation {
    let schema = tables.of(write.partition);
    let timestamp = write.timestamp;
    let tombstone = Tombstone { timestamp, deletion_time: write.now };
    let text = |text: &String| text.as_bytes().to_vec();
    let mut mutation = Mutation::new(schema.id, partition_key(schema, write.partition));
    for change in &write.changes {
        match change {
            Change::DeletePartition => mutation.deletion = Some(tombstone),
            Change::DeleteRange(range) => {
                let range = clustering_range(schema, *range);
                mutation.range_tombstones.push(RangeTombstone { range, tombstone });
            }
            Change::DeleteRow(key) => {
                let row = Row { deletion: Some(tombstone), ..Row::default() };
                mutation.rows.push((clustering_key(schema, *key), row));
            }
            Change::Static(put) => {
                let mut row = Row::default();
                row.put(S, cell(put, timestamp, write.now, text));
                mutation.static_row = Some(row);
            }
            Change::Row { key, insert, expiry, v, w, m } => {
                let liveness = insert.then(|| match expiry {
                    None => Liveness::at(timestamp),
                    Some((expiry, ttl)) => Liveness::expiring(timestamp, *ttl, *expiry),
                });
                let mut row = Row { liveness, ..Row::default() };
                if let Some(put) = v {
                    row.put(V, cell(put, timestamp, write.now, |v| v.to_be_bytes().to_vec()));
                }
                if let Some(put) = w {
                    row.put(W, cell(put, timestamp, write.now, text));
                }
                if let Some(elements) = m {
                    row.put_multi(M, multi_cell(elements, tombstone));
                }
                mutation.rows.push((clustering_key(schema, *key), row));
            }
        }
    }
    mutation
}

fn condition(schema: &TableSchema, key: Key, wanted: &Wanted) -> RowCondition {
    let compare = |column, comparator| Condition::All(vec![Comparison { column, comparator }]);
    let row = Some(clustering_key(schema, key));
    match wanted {
        Wanted::NotExists => RowCondition { row, condition: Condition::NotExists },
        Wanted::Exists => RowCondition { row, condition: Condition::Exists },
        Wanted::V(value) => {
            let condition = compare(V, Comparator::Equal(value.map(Value::BigInt)));
            RowCondition { row, condition }
        }
        Wanted::VLess(value) => {
            RowCondition { row, condition: compare(V, Comparator::Less(Value::BigInt(*value))) }
        }
        Wanted::Shared(value) => {
            let value = value.as_ref().map(|value| Value::Text(value.as_str().into()));
            RowCondition { row: None, condition: compare(S, Comparator::Equal(value)) }
        }
    }
}

/// Writes if the condition holds.
pub async fn write_if(
    database: &Database,
    tables: &Tables,
    Conditional { write, key, wanted }: &Conditional,
) -> Result<Decision> {
    let mutation = mutation(tables, write);
    let conditions = vec![condition(tables.of(write.partition), *key, wanted)];
    database.write_if(ConditionalWrite { mutation, conditions }).await
}

/// A number of a row that a condition saw.
pub fn number(row: &RowValues, column: &str) -> Option<i64> {
    match row.value(column).unwrap() {
        Some(Value::BigInt(number)) => Some(number),
        None => None,
        other => panic!("no bigint: {other:?}"),
    }
}

fn element(element: (Value, Value)) -> (i32, i32) {
    match element {
        (Value::Int(key), Value::Int(value)) => (key, value),
        other => panic!("no element: {other:?}"),
    }
}

fn seen(batch: &RecordBatch) -> Vec<(i32, Seen)> {
    let value = |column: usize, row: usize, ty| value_at(batch.column(column), row, &ty).unwrap();
    let int = |column, row| match value(column, row, DataType::Int) {
        Some(Value::Int(int)) => Some(int),
        None => None,
        other => panic!("no int: {other:?}"),
    };
    let text = |column, row| match value(column, row, DataType::Text) {
        Some(Value::Text(text)) => Some(text.to_string()),
        None => None,
        other => panic!("no text: {other:?}"),
    };
    (0..batch.num_rows())
        .map(|row| {
            let key = int(1, row).map(|a| Key { a, b: int(2, row).unwrap() });
            let v = match value(4, row, DataType::BigInt) {
                Some(Value::BigInt(v)) => Some(v),
                None => None,
                other => panic!("no bigint: {other:?}"),
            };
            let m = match value(6, row, map()) {
                Some(Value::Map(elements)) => elements.into_iter().map(element).collect(),
                None => Vec::new(),
                other => panic!("no map: {other:?}"),
            };
            (int(0, row).unwrap(), Seen { key, s: text(3, row), v, w: text(5, row), m })
        })
        .collect()
}

async fn run(database: &Database, command: ReadCommand) -> Result<Vec<(i32, Seen)>> {
    let batches: Vec<RecordBatch> = database.read(command).try_collect().await?;
    Ok(batches.iter().flat_map(seen).collect())
}

fn command(schema: &SchemaRef, partitions: Partitions, slice: Slice) -> ReadCommand {
    let columns = (0..7).map(ColumnId).collect();
    ReadCommand {
        schema: schema.clone(),
        partitions,
        slice,
        columns,
        stamps: Vec::new(),
        row_limit: None,
        partition_limit: None,
        deadline: None,
        level: Default::default(),
        past_cache: false,
        filter: None,
    }
}

/// Reads slices of one partition; rows come in `direction`.
pub async fn read(
    database: &Database,
    tables: &Tables,
    partition: i32,
    (ranges, direction): (&[Range], Direction),
    (row_limit, past_cache): (Option<usize>, bool),
) -> Result<Vec<Seen>> {
    let schema = tables.of(partition);
    let ranges = ranges.iter().map(|range| clustering_range(schema, *range)).collect();
    let partitions = Partitions::Keys(vec![partition_key(schema, partition)]);
    let command = command(schema, partitions, Slice { ranges, direction });
    let command = ReadCommand { row_limit, past_cache, ..command };
    Ok(run(database, command).await?.into_iter().map(|(_, seen)| seen).collect())
}

/// Reads both tables: partition and row, each partition in one piece.
pub async fn scan(
    database: &Database,
    tables: &Tables,
    direction: Direction,
) -> Result<Vec<(i32, Seen)>> {
    let mut all = Vec::new();
    for schema in &tables.0 {
        for shard in 0..database.shard_count() {
            let slice = Slice::full(direction);
            all.extend(run(database, command(schema, Partitions::Shard(shard), slice)).await?);
        }
    }
    Ok(all)
}
