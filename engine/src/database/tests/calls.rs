//! Rows by key, by scan and by batch, as programs ask for them.

use std::cmp::Ordering;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use super::*;
use crate::clock::SimulatedClock;
use crate::commitlog::Durability;
use crate::database::{Scan, WriteBatch};
use crate::disk::SimulatedDisk;
use crate::error::Error;
use crate::policy::admission::WorkClass;
use crate::reader::{RowKey, RowValues};

async fn open(definition: TableSchema) -> (tempfile::TempDir, Database, SchemaRef) {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        durability: Durability::Periodic { ms: 1000 },
        shards: Some(2),
        ..Options::new(directory.path())
    };
    let database = Database::open(options).await.unwrap();
    let schema = database.create_table(definition, false).await.unwrap();
    (directory, database, schema)
}

fn row_key(schema: &TableSchema, pk: &str, at: i32) -> RowKey {
    RowKey::from_values(schema, &[Value::Text(pk.into()), Value::Int(at)]).unwrap()
}

/// Rows 0 to 299 of twenty partitions, with their number as their value.
async fn fill(database: &Database, schema: &SchemaRef) {
    for pk in 0..20 {
        let writes = (0..300).map(|at| insert(schema, &pk.to_string(), at, i64::from(at), 1));
        database.apply_many(writes.collect()).await.unwrap();
    }
}

fn number(row: &Option<RowValues>) -> Option<i64> {
    match row.as_ref()?.value("v").unwrap() {
        Some(Value::BigInt(value)) => Some(value),
        other => panic!("{other:?} is no number"),
    }
}

#[tokio::test]
async fn a_row_is_the_same_from_memtable_sstable_and_cache() {
    let (_directory, database, schema) = open(definition()).await;
    fill(&database, &schema).await;
    for source in ["memtable", "SSTable", "cache"] {
        if source == "SSTable" {
            database.flush(None).await.unwrap();
            database.invalidate_cache(None).await.unwrap();
        }
        for (pk, at) in [("0", 0), ("7", 299), ("19", 150)] {
            let row = database.get(&schema, row_key(&schema, pk, at)).await.unwrap();
            let row = row.unwrap_or_else(|| panic!("{source}: {pk} {at} is there"));
            let wanted = [
                ("pk", Some(Value::Text(pk.into()))),
                ("ck", Some(Value::Int(at))),
                ("v", Some(Value::BigInt(i64::from(at)))),
            ];
            assert_eq!(row.values().unwrap(), wanted, "{source}");
            assert_eq!(row.stored(ColumnId(2)).unwrap(), i64::from(at).to_be_bytes());
        }
        for (pk, at) in [("0", 300), ("20", 0)] {
            let row = database.get(&schema, row_key(&schema, pk, at)).await.unwrap();
            assert_eq!(row, None, "{source}: {pk} {at}");
        }
    }
    let row = database.get(&schema, row_key(&schema, "0", 0)).await.unwrap().unwrap();
    assert!(matches!(row.value("w"), Err(Error::NotFound { .. })));
    let part = RowKey { partition: key(&schema, "0"), clustering: ClusteringKey::empty() };
    let refused = database.get(&schema, part).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    database.close().await.unwrap();
    let late = database.get(&schema, row_key(&schema, "0", 0)).await;
    assert!(matches!(late, Err(Error::Closed)));
}

#[tokio::test]
async fn many_rows_come_in_the_order_of_their_keys() {
    let (_directory, database, schema) = open(definition()).await;
    fill(&database, &schema).await;
    database.flush(None).await.unwrap();
    database.invalidate_cache(None).await.unwrap();
    let wanted: Vec<i32> = (0..600).map(|number| number * 7 % 320).collect();
    let keys = wanted.iter().map(|at| row_key(&schema, &(at % 23).to_string(), *at));
    let rows = database.get_many(&schema, keys.collect()).await.unwrap();
    for (at, row) in wanted.iter().zip(&rows) {
        let is_there = *at < 300 && at % 23 < 20;
        assert_eq!(number(row), is_there.then(|| i64::from(*at)), "row {at} of {}", at % 23);
    }
    assert_eq!(rows.len(), 600);
    assert_eq!(database.get_many(&schema, Vec::new()).await.unwrap(), []);
    database.close().await.unwrap();
}

/// One after the other they would wait for the disk as often as there are rows.
#[test]
fn rows_on_the_disk_are_waited_for_together() {
    limits::run(async |clock| {
        let disk = SimulatedDisk::new(1);
        let database = limits::open(&disk, &clock, |options| options).await.unwrap();
        let schema = database.create_table(definition(), false).await.unwrap();
        fill(&database, &schema).await;
        database.flush(None).await.unwrap();
        let turns = Rc::new(std::cell::Cell::new(0_u64));
        let counting = Rc::clone(&turns);
        tokio::task::spawn_local(async move {
            loop {
                counting.set(counting.get() + 1);
                tokio::task::yield_now().await;
            }
        });
        let keys = || (0..16).map(|pk| row_key(&schema, &pk.to_string(), 150)).collect::<Vec<_>>();
        let mut taken = Vec::new();
        for is_together in [false, true] {
            database.invalidate_cache(None).await.unwrap();
            let before = turns.get();
            let mut rows = Vec::new();
            if is_together {
                rows = database.get_many(&schema, keys()).await.unwrap();
            } else {
                for key in keys() {
                    rows.push(database.get(&schema, key).await.unwrap());
                }
            }
            assert!(rows.iter().all(|row| number(row) == Some(150)), "{rows:?}");
            taken.push(turns.get() - before);
        }
        assert!(taken[1] * 3 < taken[0], "{taken:?} turns, one by one and together");
        database.close().await.unwrap();
    });
}

/// A lone caller begins to read them all on its own thread, and the shard's thread goes on.
#[tokio::test]
async fn a_row_of_many_sstables_is_read() {
    let mut definition = definition();
    definition.options.compaction.is_enabled = false;
    let (_directory, database, schema) = open(definition).await;
    for at in 0..40 {
        let write = insert(&schema, "a", 7, at, 1 + at);
        database.apply_many(vec![write]).await.unwrap();
        database.flush(None).await.unwrap();
    }
    for _ in 0..3 {
        database.invalidate_cache(None).await.unwrap();
        let row = database.get(&schema, row_key(&schema, "a", 7)).await.unwrap();
        assert_eq!(number(&row), Some(39));
    }
    database.close().await.unwrap();
}

/// Values of rows in batches, with their number.
fn scanned(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

#[tokio::test]
async fn a_scan_reads_what_it_names() {
    let (_directory, database, schema) = open(definition()).await;
    fill(&database, &schema).await;
    let all: Vec<RecordBatch> = database.scan(Scan::new(&schema)).try_collect().await.unwrap();
    assert_eq!((scanned(&all), all[0].num_columns()), (20 * 300, 3));
    let limited = database.scan(Scan::new(&schema).limit(5_000));
    assert_eq!(scanned(&limited.try_collect::<Vec<_>>().await.unwrap()), 5_000);
    let of = || Scan::new(&schema).partition_of(&[Value::Text("3".into())]).unwrap();
    let cases = [
        (of(), 300),
        (of().partition(key(&schema, "4")), 600),
        (of().from(ck(&schema, 290)), 10),
        (of().after(ck(&schema, 290)), 9),
        (of().before(ck(&schema, 10)), 10),
        (of().through(ck(&schema, 10)).reversed(), 11),
        (of().from(ck(&schema, 5)).before(ck(&schema, 8)).limit(2), 2),
    ];
    for (scan, wanted) in cases {
        let text = format!("{scan:?}");
        let batches: Vec<RecordBatch> = database.scan(scan).try_collect().await.unwrap();
        assert_eq!(scanned(&batches), wanted, "{text}");
    }
    let newest = of().reversed().limit(1).columns(&["v"]).unwrap();
    let batches: Vec<RecordBatch> = database.scan(newest).try_collect().await.unwrap();
    let value = crate::batch::value_at(batches[0].column(0), 0, &DataType::BigInt).unwrap();
    assert_eq!((batches[0].num_columns(), value), (1, Some(Value::BigInt(299))));
    assert!(matches!(of().columns(&["w"]), Err(Error::NotFound { .. })));
    database.close().await.unwrap();
}

/// Static columns, collections, and columns without a value.
#[tokio::test]
async fn values_of_every_kind_of_column_come_back_as_they_were_written() {
    let text = || Box::new(DataType::Text);
    let kinds = [
        ("list", DataType::List(text())),
        ("set", DataType::Set(text())),
        ("map", DataType::Map(Box::new(DataType::Int), text())),
        ("plain", DataType::Text),
    ];
    let mut schema = definition();
    schema.columns.push(column("shared", DataType::Text, ColumnKind::Static));
    schema.columns.extend(kinds.map(|(name, ty)| column(name, ty, ColumnKind::Regular)));
    let (_directory, database, schema) = open(schema).await;
    let word = |word: &str| Value::Text(word.into());
    let written = [
        ("shared", Some(word("of all"))),
        ("list", Some(Value::List(vec![word("b"), word("a"), word("b")]))),
        ("set", Some(Value::Set(vec![word("a"), word("b")]))),
        ("map", Some(Value::Map(vec![(Value::Int(1), word("x")), (Value::Int(2), word("y"))]))),
        ("plain", Some(word(""))),
    ];
    let (first, second) = (row_key(&schema, "p", 1), row_key(&schema, "p", 2));
    let mut batch = WriteBatch::new(database.timestamp_us());
    batch.insert(&schema, first.clone(), &written).unwrap();
    batch.insert(&schema, second.clone(), &[("v", Some(Value::BigInt(2)))]).unwrap();
    database.write(batch).await.unwrap();
    for source in ["memtable", "SSTable", "cache"] {
        if source == "SSTable" {
            database.flush(None).await.unwrap();
            database.invalidate_cache(None).await.unwrap();
        }
        let row = database.get(&schema, first.clone()).await.unwrap().unwrap();
        for (name, value) in &written {
            assert_eq!(row.value(name).unwrap(), *value, "{source}: {name}");
        }
        assert_eq!(row.value("v").unwrap(), None, "{source}");
        let row = database.get(&schema, second.clone()).await.unwrap().unwrap();
        assert_eq!(row.value("shared").unwrap(), Some(word("of all")), "{source}");
        assert_eq!(row.value("v").unwrap(), Some(Value::BigInt(2)), "{source}");
        assert_eq!(row.value("set").unwrap(), None, "{source}");
    }
    database.close().await.unwrap();
}

#[tokio::test]
async fn inserts_of_one_row_in_a_batch_are_one_row_of_all_their_columns() {
    let mut wider = definition();
    wider.columns.push(column("w", DataType::BigInt, ColumnKind::Regular));
    let (_directory, database, schema) = open(wider).await;
    let at = row_key(&schema, "a", 1);
    let mut batch = WriteBatch::new(10);
    for (name, value) in [("v", 1), ("w", 2)] {
        batch.insert(&schema, at.clone(), &[(name, Some(Value::BigInt(value)))]).unwrap();
    }
    database.write(batch).await.unwrap();
    let row = database.get(&schema, at).await.unwrap().unwrap();
    let found = ["v", "w"].map(|name| row.value(name).unwrap());
    assert_eq!(found, [Some(Value::BigInt(1)), Some(Value::BigInt(2))]);
    database.close().await.unwrap();
}

#[tokio::test]
async fn inserts_of_one_partition_in_a_batch_keep_each_others_static_columns() {
    let mut wider = definition();
    for name in ["s", "t"] {
        wider.columns.push(column(name, DataType::BigInt, ColumnKind::Static));
    }
    let (_directory, database, schema) = open(wider).await;
    let mut batch = WriteBatch::new(10);
    for (row, name) in [(1, "s"), (2, "t"), (3, "v")] {
        let value = Some(Value::BigInt(i64::from(row)));
        batch.insert(&schema, row_key(&schema, "a", row), &[(name, value)]).unwrap();
    }
    database.write(batch).await.unwrap();
    for row in 1..=3 {
        let found = database.get(&schema, row_key(&schema, "a", row)).await.unwrap().unwrap();
        let statics = ["s", "t"].map(|name| found.value(name).unwrap());
        assert_eq!(statics, [Some(Value::BigInt(1)), Some(Value::BigInt(2))], "row {row}");
    }
    database.close().await.unwrap();
}

#[tokio::test]
async fn a_batch_inserts_changes_and_deletes() {
    let (_directory, database, schema) = open(definition()).await;
    let at = |pk: &str, at| row_key(&schema, pk, at);
    let v = |value| [("v", Some(Value::BigInt(value)))];
    let mut batch = WriteBatch::new(10);
    assert!(batch.is_empty());
    for pk in ["a", "b", "c"] {
        for row in 0..3 {
            batch.insert(&schema, at(pk, row), &v(i64::from(row))).unwrap();
        }
    }
    batch.insert(&schema, at("a", 0), &v(100)).unwrap();
    database.write(batch).await.unwrap();
    let mut batch = WriteBatch::new(20);
    batch.delete(&schema, at("a", 1));
    batch.insert(&schema, at("a", 2), &[("v", None)]).unwrap();
    batch.delete_partition(&schema, key(&schema, "b"));
    database.write(batch).await.unwrap();
    let get = |pk, row| database.get(&schema, at(pk, row));
    for source in ["memtable", "SSTables", "cache"] {
        if source == "SSTables" {
            database.flush(None).await.unwrap();
            database.invalidate_cache(None).await.unwrap();
        }
        let greater = number(&get("a", 0).await.unwrap());
        assert_eq!(greater, Some(100), "{source}: the greater of two values");
        assert_eq!(get("a", 1).await.unwrap(), None, "{source}");
        let row = get("a", 2).await.unwrap().expect("a row without a value is a row");
        assert_eq!(row.value("v").unwrap(), None, "{source}");
        for row in 0..3 {
            assert_eq!(get("b", row).await.unwrap(), None, "{source}");
            assert_eq!(number(&get("c", row).await.unwrap()), Some(i64::from(row)), "{source}");
        }
    }
    let mut batch = WriteBatch::new(30);
    let refused = batch.insert(&schema, at("a", 0), &[("ck", Some(Value::Int(1)))]);
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    let refused = batch.insert(&schema, at("a", 0), &[("v", Some(Value::Int(1)))]);
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    let refused = batch.insert(&schema, at("a", 0), &[("w", None)]);
    assert!(matches!(refused, Err(Error::NotFound { .. })), "{refused:?}");
    assert!(batch.is_empty());
    database.write(batch).await.unwrap();
    database.close().await.unwrap();
}

/// The calls that block, from threads that no runtime knows, beside those that do not.
#[test]
fn calls_that_block_answer_the_same() {
    let (_directory, database, schema) = futures::executor::block_on(open(definition()));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (database, schema) = (&database, &schema);
            scope.spawn(move || {
                let pk = thread.to_string();
                for at in 0..300 {
                    let write = insert(schema, &pk, at, i64::from(at), 1);
                    database.apply(write).wait().unwrap();
                    let row = database.get(schema, row_key(schema, &pk, at)).wait().unwrap();
                    assert_eq!(number(&row), Some(i64::from(at)));
                }
                let keys = (0..301).map(|at| row_key(schema, &pk, at)).collect();
                let rows = database.get_many(schema, keys).wait().unwrap();
                assert_eq!(rows.iter().flatten().count(), 300);
                let mut scan = database.scan(Scan::new(schema).partition(key(schema, &pk)));
                let mut found = 0;
                while let Some(batch) = scan.wait() {
                    found += batch.unwrap().num_rows();
                }
                assert_eq!(found, 300);
            });
        }
    });
    let refused = futures::executor::block_on(database.on_shard(&key(&schema, "0"), {
        let (database, key) = (database.clone(), row_key(&schema, "0", 0));
        let schema = schema.clone();
        move |_| Box::pin(async move { database.get(&schema, key).wait() })
    }));
    assert!(matches!(refused.unwrap(), Err(Error::Invalid(_))), "it would wait for itself");
    futures::executor::block_on(database.close()).unwrap();
    assert!(matches!(database.get(&schema, row_key(&schema, "0", 0)).wait(), Err(Error::Closed)));
}

/// A new database of one shard whose time a test moves.
async fn by_simulated_clock(directory: &Path) -> (Arc<SimulatedClock>, Database) {
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let options = Options {
        shards: Some(1),
        durability: Durability::None,
        clock: clock.clone(),
        ..Options::new(directory)
    };
    (clock, Database::open(options).await.unwrap())
}

#[tokio::test]
async fn limits_and_admission_count_the_calls() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, database) = by_simulated_clock(directory.path()).await;
    let mut limited = definition();
    limited.options.per_partition_rate_limit.max_reads_per_second = Some(10);
    let schema = database.create_table(limited, false).await.unwrap();
    database.apply(insert(&schema, "a", 1, 1, 1)).await.unwrap();
    let mut refused = 0;
    for _ in 0..200 {
        clock.advance(Duration::from_micros(10));
        match database.get(&schema, row_key(&schema, "a", 1)).await {
            Ok(row) => assert_eq!(number(&row), Some(1)),
            Err(Error::RateLimited { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 0, "no read was refused");
    let report = database.admission_report().await.unwrap();
    let reads = report.iter().find(|report| report.class == WorkClass::Keys.as_str()).unwrap();
    let status = reads.status;
    assert!(status.arrived >= 200 && status.running == 0 && status.memory_bytes == 0);
    database.close().await.unwrap();
}

/// Nobody waits for these any more; what they left behind hinders nobody.
#[tokio::test]
async fn dropped_calls_leave_nothing_behind() {
    let (_directory, database, schema) = open(definition()).await;
    fill(&database, &schema).await;
    database.flush(None).await.unwrap();
    database.invalidate_cache(None).await.unwrap();
    for round in 0..50 {
        let mut calls: Vec<_> = (0..20)
            .map(|pk| database.get(&schema, row_key(&schema, &pk.to_string(), round)))
            .collect();
        for call in &mut calls {
            let _ = futures::poll!(call);
        }
    }
    let all = (0..20).map(|pk| database.get(&schema, row_key(&schema, &pk.to_string(), 7)));
    for row in join_all(all).await {
        assert_eq!(number(&row.unwrap()), Some(7));
    }
    for report in database.admission_report().await.unwrap() {
        assert_eq!((report.status.running, report.status.queued), (0, 0));
    }
    database.close().await.unwrap();
}

/// It lies in the mailbox of its shard, which has had no turn yet.
#[test]
fn a_write_whose_caller_goes_before_it_begins_is_not_done() {
    super::limits::run(async |clock| {
        let disk = SimulatedDisk::new(1);
        let open = async |disk: SimulatedDisk| {
            super::limits::open(&disk, &clock, |options| options).await.unwrap()
        };
        let database = open(disk.clone()).await;
        let schema = database.create_table(definition(), false).await.unwrap();
        let mut one = database.apply(insert(&schema, "a", 1, 1, 1));
        let many = [2, 3].map(|at| insert(&schema, "a", at, i64::from(at), 1));
        let mut many = database.apply_many(many.into());
        for write in [&mut one, &mut many] {
            assert!(futures::poll!(write).is_pending(), "its shard has not begun it");
        }
        drop((one, many));
        database.apply(insert(&schema, "a", 9, 9, 1)).await.unwrap();
        let all = || Slice::full(Direction::Forward);
        assert_eq!(rows(&database, &schema, all(), None).await, [9]);
        let again = open(disk.power_cut()).await;
        assert_eq!(rows(&again, &schema, all(), None).await, [9]);
        again.close().await.unwrap();
    });
}

/// Each row by the seconds that it lives, none for one without an end.
#[tokio::test]
async fn rows_of_a_batch_live_as_long_as_it_or_their_table_says() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, database) = by_simulated_clock(directory.path()).await;
    let mut short = definition();
    short.options.default_time_to_live = 60;
    let schema = database.create_table(short, false).await.unwrap();
    let seven = [("v", Some(Value::BigInt(7)))];
    let mut batch = WriteBatch::new(database.timestamp_us());
    batch.insert(&schema, row_key(&schema, "a", 60), &seven).unwrap();
    for seconds in [5, 0, 90] {
        batch = batch.time_to_live(seconds);
        batch.insert(&schema, row_key(&schema, "a", seconds), &seven).unwrap();
    }
    for wrong in [-1, i32::MAX] {
        let mut other = batch.clone().time_to_live(wrong);
        let refused = other.insert(&schema, row_key(&schema, "a", 1), &seven);
        assert!(matches!(refused, Err(Error::Invalid(_))), "{wrong}: {refused:?}");
    }
    database.write(batch).await.unwrap();
    let mut passed = 0;
    for (second, wanted) in [
        (4, &[0, 5, 60, 90][..]),
        (5, &[0, 60, 90]),
        (59, &[0, 60, 90]),
        (60, &[0, 90]),
        (89, &[0, 90]),
        (90, &[0]),
    ] {
        clock.advance(Duration::from_secs(second - passed));
        passed = second;
        let mut found = Vec::new();
        for at in [0, 5, 60, 90] {
            let row = database.get(&schema, row_key(&schema, "a", at)).await.unwrap();
            found.extend(number(&row).map(|_| at));
        }
        assert_eq!(found, wanted, "after {second} s");
        let whole = database.scan(Scan::new(&schema)).try_collect::<Vec<_>>().await.unwrap();
        assert_eq!(scanned(&whole), wanted.len(), "after {second} s, of a scan");
    }
    database.close().await.unwrap();
}

#[tokio::test]
async fn what_a_batch_deletes_is_gone_whatever_it_inserts_there() {
    let (_directory, database, schema) = open(definition()).await;
    let at = |pk: &str, at| row_key(&schema, pk, at);
    let v = |value| [("v", Some(Value::BigInt(value)))];
    // In the year 2033: no tombstone is purged meanwhile.
    let deleted_us = 2_000_000_000_000_000;
    let mut batch = WriteBatch::new(deleted_us);
    batch.insert(&schema, at("a", 1), &v(1)).unwrap();
    batch.delete(&schema, at("a", 1));
    batch.delete(&schema, at("a", 2));
    batch.insert(&schema, at("a", 2), &v(2)).unwrap();
    batch.insert(&schema, at("a", 3), &v(3)).unwrap();
    batch.insert(&schema, at("b", 1), &v(1)).unwrap();
    batch.delete_partition(&schema, key(&schema, "b"));
    batch.insert(&schema, at("b", 2), &v(2)).unwrap();
    batch.insert(&schema, at("c", 1), &v(1)).unwrap();
    database.write(batch).await.unwrap();
    let found = async || {
        let mut found = Vec::new();
        for (pk, row) in [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2), ("c", 1)] {
            found.push(number(&database.get(&schema, at(pk, row)).await.unwrap()));
        }
        found
    };
    let wanted = [None, None, Some(3), None, None, Some(1)];
    assert_eq!(found().await, wanted);
    database.flush(None).await.unwrap();
    assert_eq!(found().await, wanted, "in SSTables");
    let all = [Some(7), Some(7), Some(3), Some(7), Some(7), Some(1)];
    // Older than the deletions by the least, and newer.
    for (timestamp_us, wanted) in [(deleted_us - 1, wanted), (deleted_us + 1, all)] {
        let mut batch = WriteBatch::new(timestamp_us);
        for (pk, row) in [("a", 1), ("a", 2), ("b", 1), ("b", 2)] {
            batch.insert(&schema, at(pk, row), &v(7)).unwrap();
        }
        database.write(batch).await.unwrap();
        assert_eq!(found().await, wanted, "written at {timestamp_us}");
    }
    database.close().await.unwrap();
}

#[tokio::test]
async fn a_scan_takes_so_many_rows_of_each_partition_on_every_shard() {
    let (_directory, database, schema) = open(definition()).await;
    fill(&database, &schema).await;
    let all = || Scan::new(&schema);
    let two = || all().partition(key(&schema, "3")).partition(key(&schema, "4"));
    let cases = [
        (all().limit_partitions(2), 40),
        (all().limit_partitions(2).limit(31), 31),
        (all().limit_partitions(1000), 20 * 300),
        (two().limit_partitions(3), 6),
        (two().limit_partitions(3).limit(4), 4),
        (two().from(ck(&schema, 298)).limit_partitions(5), 4),
    ];
    for (scan, wanted) in cases {
        let text = format!("{scan:?}");
        let batches: Vec<RecordBatch> = database.scan(scan).try_collect().await.unwrap();
        assert_eq!(scanned(&batches), wanted, "{text}");
    }
    let ends = two().before(ck(&schema, 10)).reversed().limit_partitions(2).columns(&["v"]);
    let mut read = database.scan(ends.unwrap());
    let mut found = Vec::new();
    while let Some(batch) = read.next().await {
        let batch = batch.unwrap();
        for row in 0..batch.num_rows() {
            let value = crate::batch::value_at(batch.column(0), row, &DataType::BigInt).unwrap();
            found.push(value);
        }
    }
    let wanted = [9, 8, 9, 8].map(|value| Some(Value::BigInt(value)));
    assert_eq!(found, wanted, "each from its end");
    let none = database.scan(all().limit_partitions(0)).try_collect::<Vec<_>>().await;
    assert!(matches!(none, Err(Error::Invalid(_))), "{none:?}");
    database.close().await.unwrap();
}

#[tokio::test]
async fn the_rows_of_a_table_are_counted_on_every_shard_wherever_they_lie() {
    let (_directory, database, schema) = open(definition()).await;
    let other = TableSchema { name: "other".into(), ..definition() };
    let other = database.create_table(other, false).await.unwrap();
    fill(&database, &schema).await;
    let about = async || database.rows_about(&schema).await.unwrap();
    assert_eq!(about().await, 20 * 300);
    database.flush(None).await.unwrap();
    assert_eq!(about().await, 20 * 300);
    for pk in 0..20 {
        database.apply(insert(&schema, &pk.to_string(), 300, 1, 1)).await.unwrap();
    }
    assert_eq!(about().await, 20 * 301, "in memtables and SSTables");
    assert_eq!(database.rows_about(&other).await.unwrap(), 0, "nobody wrote to it");
    database.drop_table("default", "t", false).await.unwrap();
    assert_eq!(about().await, 0);
    database.close().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_inserted_leaves_a_batch_as_it_was() {
    let (_directory, database, schema) = open(definition()).await;
    let seven = || ("v", Some(Value::BigInt(7)));
    let text = |name| (name, Some(Value::Text("x".into())));
    let mut batch = WriteBatch::new(database.timestamp_us());
    for is_empty in [true, false] {
        for (values, wanted) in [
            (vec![seven(), ("w", None)], "column 't.w' does not exist"),
            (vec![seven(), text("pk")], "'pk' is a column of the key"),
            (vec![("ck", Some(Value::Int(1))), seven()], "'ck' is a column of the key"),
            (vec![text("v")], "wanted bigint, found text"),
        ] {
            let refused = batch.insert(&schema, row_key(&schema, "a", 2), &values).unwrap_err();
            assert_eq!(refused.to_string(), wanted);
            assert_eq!(batch.is_empty(), is_empty, "{wanted}");
        }
        batch.insert(&schema, row_key(&schema, "a", 1), &[seven()]).unwrap();
    }
    database.write(batch).await.unwrap();
    for (at, wanted) in [(1, Some(7)), (2, None)] {
        let row = database.get(&schema, row_key(&schema, "a", at)).await.unwrap();
        assert_eq!(number(&row), wanted, "row {at}");
    }
    database.close().await.unwrap();
}

#[tokio::test]
async fn writes_of_a_batch_to_two_tables_stay_apart() {
    let (_directory, database, schema) = open(definition()).await;
    let other = TableSchema { name: "other".into(), ..definition() };
    let other = database.create_table(other, false).await.unwrap();
    let v = |value| [("v", Some(Value::BigInt(value)))];
    let mut batch = WriteBatch::new(database.timestamp_us());
    for (table, value) in [(&schema, 1), (&other, 2)] {
        for at in 0..3 {
            batch.insert(table, row_key(table, "a", at), &v(value)).unwrap();
        }
    }
    batch.delete(&schema, row_key(&schema, "a", 0));
    batch.delete(&other, row_key(&other, "a", 1));
    batch.delete_partition(&other, key(&other, "b"));
    batch.insert(&schema, row_key(&schema, "b", 0), &v(3)).unwrap();
    database.write(batch).await.unwrap();
    for (table, wanted) in
        [(&schema, [None, Some(1), Some(1), Some(3)]), (&other, [Some(2), None, Some(2), None])]
    {
        let mut found = Vec::new();
        for (pk, at) in [("a", 0), ("a", 1), ("a", 2), ("b", 0)] {
            found.push(number(&database.get(table, row_key(table, pk, at)).await.unwrap()));
        }
        assert_eq!(found, wanted, "{}", table.name);
    }
    database.close().await.unwrap();
}

/// How the row `(a, b)` stands to a key or a prefix of one; `b` descends.
fn side(row: (i32, i32), bound: &[i32]) -> Ordering {
    let of_b = |b: &i32| b.cmp(&row.1);
    row.0.cmp(&bound[0]).then(bound.get(1).map_or(Ordering::Equal, of_b))
}

#[tokio::test]
async fn bounds_of_a_scan_are_keys_or_prefixes_of_them_in_both_directions() {
    let mut table = definition();
    let kind = ColumnKind::ClusteringKey { position: 1, order: ClusteringOrder::Descending };
    table.columns.push(column("cd", DataType::Int, kind));
    let (_directory, database, schema) = open(table).await;
    let key_of = |bound: &[i32]| {
        let values: Vec<Value> = bound.iter().map(|value| Value::Int(*value)).collect();
        ClusteringKey::from_values(&schema, &values).unwrap()
    };
    let rows: Vec<(i32, i32)> = (0..4).flat_map(|a| (0..4).rev().map(move |b| (a, b))).collect();
    let mut mutation = Mutation::new(schema.id, key(&schema, "p"));
    for (a, b) in &rows {
        let cell = Cell::live(1, i64::from(10 * a + b).to_be_bytes());
        let liveness = Some(Liveness::at(1));
        let row = Row { liveness, cells: vec![(ColumnId(2), cell)], ..Row::default() };
        mutation.rows.push((key_of(&[*a, *b]), row));
    }
    database.apply(mutation).await.unwrap();
    let bounds = [&[1][..], &[1, 2], &[3], &[3, 0], &[0, 3], &[7]];
    // With what has the bound as a prefix, or without.
    let with_and_without = |bound| [Some((bound, true)), Some((bound, false))];
    let any = || std::iter::once(None).chain(bounds.into_iter().flat_map(with_and_without));
    for (start, end) in any().flat_map(|start| any().map(move |end| (start, end))) {
        let mut scan = Scan::new(&schema).partition(key(&schema, "p")).columns(&["v"]).unwrap();
        scan = match start {
            None => scan,
            Some((bound, true)) => scan.from(key_of(bound)),
            Some((bound, false)) => scan.after(key_of(bound)),
        };
        scan = match end {
            None => scan,
            Some((bound, true)) => scan.through(key_of(bound)),
            Some((bound, false)) => scan.before(key_of(bound)),
        };
        let is_in = |row: &&(i32, i32)| {
            let begins = start.is_none_or(|(bound, itself)| match side(**row, bound) {
                Ordering::Equal => itself,
                side => side == Ordering::Greater,
            });
            let ends = end.is_none_or(|(bound, itself)| match side(**row, bound) {
                Ordering::Equal => itself,
                side => side == Ordering::Less,
            });
            begins && ends
        };
        let mut wanted: Vec<i64> =
            rows.iter().filter(is_in).map(|(a, b)| i64::from(10 * a + b)).collect();
        // A range that ends before it begins is none.
        if wanted.is_empty() && start.is_some() && end.is_some() {
            continue;
        }
        let text = format!("{start:?} to {end:?}");
        assert_eq!(numbers(&database, scan.clone()).await, wanted, "{text}");
        wanted.reverse();
        assert_eq!(numbers(&database, scan.reversed()).await, wanted, "{text}, reversed");
    }
    database.close().await.unwrap();
}

/// The one column, of type bigint, that a scan reads.
async fn numbers(database: &Database, scan: Scan) -> Vec<i64> {
    let batches: Vec<RecordBatch> = database.scan(scan).try_collect().await.unwrap();
    let of_batch = |batch: &RecordBatch| {
        let value = |row| crate::batch::value_at(batch.column(0), row, &DataType::BigInt).unwrap();
        let values = (0..batch.num_rows()).map(|row| match value(row) {
            Some(Value::BigInt(value)) => value,
            other => panic!("{other:?} is no number"),
        });
        values.collect::<Vec<i64>>()
    };
    batches.iter().flat_map(of_batch).collect()
}
