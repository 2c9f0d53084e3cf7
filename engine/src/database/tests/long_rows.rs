//! Rows of hundreds of kilobytes: batches end by bytes, and reads share their memory.

use super::limits::{open, run};
use super::*;
use crate::config::BATCH_BYTES_MAX;
use crate::disk::{Faults, SimulatedDisk};
use crate::error::{Error, Result};
use crate::schema::{Compression, Compressor};

const VALUE: ColumnId = ColumnId(2);
const STATIC: ColumnId = ColumnId(3);

fn long_rows(name: &str, compression: Option<Compression>) -> TableSchema {
    let mut schema = TableSchema { name: name.into(), ..definition() };
    schema.columns[2].ty = DataType::Text;
    schema.columns.push(column("s", DataType::Text, ColumnKind::Static));
    schema.options.compression = compression;
    schema
}

fn long_row(schema: &TableSchema, pk: &str, at: i32, bytes: usize) -> Mutation {
    let mut mutation = Mutation::new(schema.id, key(schema, pk));
    let mut row = Row { liveness: Some(Liveness::at(1)), ..Row::default() };
    row.put(VALUE, Cell::live(1, vec![b'a' + (at % 26) as u8; bytes]));
    mutation.rows.push((ck(schema, at), row));
    mutation
}

fn read(schema: &SchemaRef, partitions: Partitions, columns: &[ColumnId]) -> ReadCommand {
    ReadCommand {
        schema: schema.clone(),
        partitions,
        slice: Slice::full(Direction::Forward),
        columns: columns.to_vec(),
        stamps: Vec::new(),
        row_limit: None,
        partition_limit: None,
        deadline: None,
        level: Default::default(),
        past_cache: false,
        filter: None,
    }
}

/// Rows of the batches; none of these is longer than a batch may be and one row more.
async fn count(database: &Database, command: ReadCommand, row_bytes: usize) -> Result<usize> {
    let mut stream = database.read(command);
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        let bytes: usize =
            batch.columns().iter().map(|column| column.get_buffer_memory_size()).sum();
        let most = BATCH_BYTES_MAX + 2 * row_bytes + (64 << 10);
        assert!(bytes <= most, "{} rows of {row_bytes} bytes take {bytes}", batch.num_rows());
        rows += batch.num_rows();
    }
    Ok(rows)
}

#[test]
fn batches_end_by_bytes_wherever_rows_come_from() {
    const ROWS: i32 = 70;
    const ROW_BYTES: usize = 600 << 10;
    run(async |clock| {
        let disk =
            SimulatedDisk::with_faults(1, Faults { delay_turns_max: 0, ..Faults::default() });
        let roomy = |options| Options {
            commitlog_segment_bytes: 4 << 20,
            memtable_bytes: 256 << 20,
            ..options
        };
        let database = open(&disk, &clock, roomy).await.unwrap();
        let plain = database.create_table(long_rows("plain", None), false).await.unwrap();
        let packed = long_rows("packed", Some(Compression::new(Compressor::Lz4)));
        let packed = database.create_table(packed, false).await.unwrap();
        for schema in [&plain, &packed] {
            for at in 0..ROWS {
                // One long partition, and partitions of one row.
                let alone = format!("p{at}");
                let writes = ["wide", &alone].map(|pk| long_row(schema, pk, at, ROW_BYTES));
                database.apply_many(writes.into()).await.unwrap();
            }
        }
        // From memtables, from files, and from the caches as far as they go.
        for place in ["memtables", "files", "caches"] {
            for schema in [&plain, &packed] {
                let of_key = || Partitions::Keys(vec![key(schema, "wide")]);
                for past_cache in [true, false] {
                    for (partitions, rows) in [(of_key(), ROWS), (Partitions::Shard(0), 2 * ROWS)] {
                        let command = read(schema, partitions, &[ColumnId(0), VALUE]);
                        let command = ReadCommand { past_cache, ..command };
                        let found = count(&database, command, ROW_BYTES).await.unwrap();
                        assert_eq!(found, rows as usize, "{} {place}", schema.name);
                    }
                }
                let mut reversed = read(schema, of_key(), &[VALUE]);
                reversed.slice = Slice::full(Direction::Reversed);
                let found = count(&database, reversed, ROW_BYTES).await.unwrap();
                assert_eq!(found, ROWS as usize, "{} {place}", schema.name);
            }
            if place == "memtables" {
                database.flush(None).await.unwrap();
            }
        }
        database.close().await.unwrap();
    });
}

#[test]
fn a_long_static_row_counts_in_each_row_that_repeats_it() {
    const STATIC_BYTES: usize = 300 << 10;
    run(async |clock| {
        let disk = SimulatedDisk::new(2);
        let roomy = |options| Options { commitlog_segment_bytes: 4 << 20, ..options };
        let database = open(&disk, &clock, roomy).await.unwrap();
        let schema = database.create_table(long_rows("t", None), false).await.unwrap();
        let mut of_partition = Mutation::new(schema.id, key(&schema, "a"));
        let mut fixed = Row::default();
        fixed.put(STATIC, Cell::live(1, vec![b's'; STATIC_BYTES]));
        of_partition.static_row = Some(fixed);
        database.apply(of_partition).await.unwrap();
        let writes = (0..400).map(|at| long_row(&schema, "a", at, 10)).collect();
        database.apply_many(writes).await.unwrap();
        for _ in 0..3 {
            for partitions in [Partitions::Keys(vec![key(&schema, "a")]), Partitions::Shard(0)] {
                let command = read(&schema, partitions, &[STATIC, VALUE]);
                // All rows that are handed over in one turn may be beyond the limit.
                assert_eq!(count(&database, command, 2 * STATIC_BYTES).await.unwrap(), 400);
            }
            database.flush(None).await.unwrap();
        }
        database.close().await.unwrap();
    });
}

/// Bytes that batches hold, and how many reads wait.
async fn memory(database: &Database, schema: &TableSchema) -> (u64, usize) {
    use futures::FutureExt;
    let status = |shard: std::rc::Rc<crate::database::Shard>| {
        let status = shard.read_memory().status();
        async move { (status.used, status.waiting) }.boxed_local()
    };
    database.on_shard(&key(schema, "a"), status).await.unwrap()
}

#[test]
fn reads_that_nobody_takes_share_one_budget_and_late_ones_are_refused() {
    const BUDGET: u64 = 4 << 20;
    const READS: usize = 60;
    run(async |clock| {
        let disk =
            SimulatedDisk::with_faults(3, Faults { delay_turns_max: 0, ..Faults::default() });
        let tight = |options| Options { read_memory_bytes: BUDGET, ..options };
        let database = open(&disk, &clock, tight).await.unwrap();
        let schema = database.create_table(long_rows("t", None), false).await.unwrap();
        for first in (0..2000).step_by(100) {
            let rows = (first..first + 100).map(|at| long_row(&schema, "a", at, 1000));
            database.apply_many(rows.collect()).await.unwrap();
        }
        let command = || read(&schema, Partitions::Shard(0), &[VALUE]);
        let mut reads: Vec<_> = (0..READS).map(|_| database.read(command())).collect();
        // One is there before the others begin; nobody takes a second batch.
        assert!(reads[0].next().await.unwrap().unwrap().num_rows() > 0);
        let mut waiting = database.read(command());
        let mut next = Box::pin(waiting.next());
        for read in &mut reads {
            let _ = futures::poll!(read.next());
        }
        let refused = loop {
            let (used, _) = memory(&database, &schema).await;
            // A batch may turn out longer than it was thought, by its last row and its slack.
            assert!(used <= 2 * BUDGET, "{used} of {BUDGET}");
            if let std::task::Poll::Ready(item) = futures::poll!(&mut next) {
                match item {
                    Some(Err(error)) => break error,
                    // A first batch is little enough to come at once.
                    Some(Ok(_)) => {}
                    None => panic!("the read cannot end before it was read"),
                }
            }
            tokio::task::yield_now().await;
        };
        assert!(matches!(refused, Error::Overloaded(_)) && refused.is_retryable(), "{refused}");
        assert!(refused.to_string().contains("of the 4 MiB"), "{refused}");
        drop(next);
        drop(waiting);
        drop(reads);
        // What they held is there again.
        let mut left = u64::MAX;
        for _ in 0..10_000 {
            (left, _) = memory(&database, &schema).await;
            if left == 0 {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(left, 0);
        assert_eq!(count(&database, command(), 1000).await.unwrap(), 2000);
        database.close().await.unwrap();
    });
}

#[test]
fn reads_that_are_taken_all_end_however_little_memory_there_is() {
    run(async |clock| {
        let disk =
            SimulatedDisk::with_faults(4, Faults { delay_turns_max: 0, ..Faults::default() });
        let tight = |options| Options { read_memory_bytes: 300 << 10, ..options };
        let database = open(&disk, &clock, tight).await.unwrap();
        let schema = database.create_table(long_rows("t", None), false).await.unwrap();
        for first in (0..1000).step_by(100) {
            let rows = (first..first + 100).map(|at| long_row(&schema, "a", at, 1000));
            database.apply_many(rows.collect()).await.unwrap();
        }
        let command = || read(&schema, Partitions::Shard(0), &[VALUE]);
        let reads = (0..40).map(|_| count(&database, command(), 1000));
        let counts = futures::future::try_join_all(reads).await.unwrap();
        assert_eq!(counts, [1000; 40]);
        database.close().await.unwrap();
    });
}
