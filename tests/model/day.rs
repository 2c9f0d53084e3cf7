//! Simulated hours of writes whose rows live for one hour: what the disk holds meanwhile.
//!
//! A play stands for 10,000 rows a second of 100 bytes, memtables of 64 MiB and SSTables to match.
//! One row stands for so many as the scale says, and what is measured in bytes is as many times
//! smaller. Time is not scaled: the clock passes every second of every hour.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::clock::{Clock, SimulatedClock};
use tidegate_engine::disk::{Faults, SimulatedDisk};
use tidegate_engine::runtime::{ShardContext, SimulatedTimer, Timer};
use tidegate_engine::{
    Cell, ClusteringKey, ClusteringOrder, Column, ColumnId, ColumnKind, CompactionClass,
    CompactionOptions, DataType, Database, Durability, Liveness, Mutation, Options, PartitionKey,
    Row, SchemaRef, TableId, TableOptions, TableSchema, Thousandths, Value, WindowUnit,
};
use tokio::task::LocalSet;

const START_US: i64 = 1_700_000_000_000_000;
const TTL: i32 = 3600;
/// Seconds for which what has expired stays as a tombstone.
const GRACE: i32 = 600;
const ROWS_PER_SECOND: u64 = 10_000;
const MEMTABLE_BYTES: u64 = 64 << 20;
const VALUE_BYTES: usize = 100;
const PARTITIONS: u64 = 100;

/// What is played.
#[derive(Debug, Clone, Copy)]
pub struct Day {
    pub hours: u64,
    /// Rows for which one stands.
    pub scale: u64,
    pub class: CompactionClass,
}

fn definition(day: Day) -> TableSchema {
    let usual = CompactionOptions::of_class(day.class);
    let scaled = |bytes: u64| (bytes / day.scale).max(4096);
    let compaction = CompactionOptions {
        min_sstable_bytes: scaled(usual.min_sstable_bytes),
        sstable_bytes: scaled(usual.sstable_bytes),
        window_unit: WindowUnit::Minutes,
        window_size: 10,
        // A day is too long to wait where rows live for an hour.
        tombstone_interval_seconds: 600,
        space_amplification_goal: match day.class {
            CompactionClass::Incremental => Some(Thousandths(1500)),
            _ => None,
        },
        ..usual
    };
    let column = |name: &str, ty, kind| Column { name: name.into(), ty, kind };
    let order = ClusteringOrder::Ascending;
    TableSchema {
        id: TableId(0),
        keyspace: "default".into(),
        name: "samples".into(),
        columns: vec![
            column("source", DataType::BigInt, ColumnKind::PartitionKey { position: 0 }),
            column("at", DataType::BigInt, ColumnKind::ClusteringKey { position: 0, order }),
            column("v", DataType::Blob, ColumnKind::Regular),
        ],
        options: TableOptions { gc_grace_seconds: GRACE, compaction, ..TableOptions::default() },
        drops: Vec::new(),
    }
}

fn write(schema: &SchemaRef, number: u64, now_us: i64) -> Mutation {
    let values = |value: u64| [Value::BigInt(value as i64)];
    let partition = PartitionKey::from_values(schema, &values(number % PARTITIONS)).unwrap();
    let key = ClusteringKey::from_values(schema, &values(number)).unwrap();
    let expiry = (now_us / 1_000_000) as i32 + TTL;
    let value = number.to_le_bytes().repeat(VALUE_BYTES / 8);
    let row = Row {
        liveness: Some(Liveness::expiring(now_us, TTL, expiry)),
        cells: vec![(ColumnId(2), Cell::expiring(now_us, value, TTL, expiry))],
        ..Row::default()
    };
    let mut mutation = Mutation::new(schema.id, partition);
    mutation.rows.push((key, row));
    mutation
}

/// Most bytes that the disk held in each hour, commitlog and all.
pub fn play(day: Day) -> Vec<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    LocalSet::new().block_on(&runtime, live(day))
}

async fn live(day: Day) -> Vec<u64> {
    let disk = SimulatedDisk::with_faults(1, Faults { delay_turns_max: 1, ..Faults::default() });
    let clock = SimulatedClock::new(START_US);
    let (timer, _) = SimulatedTimer::passing(clock.clone(), 50);
    let time: (Arc<dyn Clock>, Rc<dyn Timer>) = (clock.clone(), Rc::new(timer.clone()));
    let context = ShardContext::new((0, 1), disk.shared(), time.0, time.1, 1);
    let options = Options {
        durability: Durability::Periodic { ms: 1000 },
        memtable_bytes: (MEMTABLE_BYTES / day.scale) as usize,
        cache_bytes: 1 << 20,
        commitlog_segment_bytes: 1 << 16,
        clock: clock.clone(),
        ..Options::new(Path::new("/db"))
    };
    let database = Database::open_local(options, vec![context]).await.unwrap();
    let schema = database.create_table(definition(day), false).await.unwrap();
    let (mut most, mut written) = (vec![0; day.hours as usize], 0);
    loop {
        let passed_us = (clock.wall_us() - START_US) as u64;
        let hour = (passed_us / 3_600_000_000) as usize;
        if hour >= most.len() {
            break;
        }
        let due = passed_us * ROWS_PER_SECOND / day.scale / 1_000_000;
        let rows = (written..due).map(|number| write(&schema, number, clock.wall_us()));
        database.apply_many(rows.collect()).await.unwrap();
        written = due;
        let used = disk.files().iter().map(|(_, bytes)| bytes).sum();
        most[hour] = most[hour].max(used);
        // A compaction gets turns, by which time passes as well; else nothing goes on.
        match database.compactions().await.unwrap().is_empty() {
            true => timer.advance(Duration::from_secs(1)),
            false => {
                for _ in 0..1000 {
                    tokio::task::yield_now().await;
                }
            }
        }
        tokio::task::yield_now().await;
    }
    database.close().await.unwrap();
    most
}
