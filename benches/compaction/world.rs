//! Databases of the rows below, and what is counted of them.

use std::path::Path;
use std::time::Duration;

use futures::TryStreamExt;
use futures::executor::block_on;
use tidegate_engine::io::Class;
use tidegate_engine::{
    CompactionOptions, Database, Durability, Options, RowKey, Scan, SchemaRef, TableSchema,
};

use crate::frame::table::{clustering_key, definition, partition_key};

pub const ROWS_PER_PARTITION: i64 = 100;

/// A database of one shard that has little memory: what is read comes from the disk.
pub fn open(directory: &Path) -> Database {
    let options = Options {
        shards: Some(1),
        durability: Durability::Periodic { ms: 1_000 },
        memtable_bytes: 16 << 20,
        cache_bytes: 4 << 20,
        ..Options::new(directory)
    };
    block_on(Database::open(options)).unwrap()
}

pub fn create(database: &Database, name: &str, compaction: CompactionOptions) -> SchemaRef {
    let mut schema: TableSchema = definition(name);
    schema.options.compaction = compaction;
    block_on(database.create_table(schema, false)).unwrap()
}

/// Merges nothing by itself.
pub fn quiet() -> CompactionOptions {
    CompactionOptions { is_enabled: false, ..CompactionOptions::default() }
}

/// Key of a row by its number.
pub fn key(schema: &SchemaRef, row: i64) -> RowKey {
    let (pk, ck) = (row / ROWS_PER_PARTITION, row % ROWS_PER_PARTITION);
    RowKey::from((partition_key(schema, pk), clustering_key(schema, ck)))
}

pub fn flush(database: &Database) {
    block_on(database.flush(None)).unwrap();
}

/// Rows that a scan of everything gives.
pub fn scan(database: &Database, schema: &SchemaRef) -> usize {
    let batches: Vec<_> = block_on(database.scan(Scan::new(schema)).try_collect()).unwrap();
    batches.iter().map(|batch| batch.num_rows()).sum()
}

/// SSTables of a table and bytes of their data.
pub fn sstables(database: &Database, schema: &SchemaRef) -> (usize, u64) {
    let reports = block_on(database.sstable_report()).unwrap();
    let own = reports.iter().filter(|report| report.table == schema.name);
    let bytes: Vec<u64> = own.map(|report| report.status.info.data_bytes).collect();
    (bytes.len(), bytes.iter().sum())
}

/// What a class of I/O did so far: requests that read, and bytes written.
pub fn did(database: &Database, class: Class) -> (u64, u64) {
    let reports = block_on(database.io_report()).unwrap();
    let own = reports.iter().filter(|report| report.class == class);
    own.fold((0, 0), |(reads, bytes), report| {
        (reads + report.stats.reads, bytes + report.stats.written_bytes)
    })
}

/// Waits until no compaction has run for a second.
pub fn settle(database: &Database) {
    let mut quiet = 0;
    while quiet < 20 {
        let runs = !block_on(database.compactions()).unwrap().is_empty();
        quiet = if runs { 0 } else { quiet + 1 };
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Files that this process has open.
pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
