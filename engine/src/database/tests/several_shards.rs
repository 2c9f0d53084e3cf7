//! Reads and writes that name partitions of several shards.

use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;

use super::*;
use crate::clock::SimulatedClock;
use crate::commitlog::Durability;
use crate::database::shard::call::{Stopwatch, Stream};
use crate::database::{AdmissionReport, ColumnChange, Shard};
use crate::error::Error;
use crate::reader::RowKey;

async fn open(shards: u32) -> (tempfile::TempDir, Database, SchemaRef) {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        durability: Durability::None,
        shards: Some(shards),
        ..Options::new(directory.path())
    };
    let database = Database::open(options).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    (directory, database, schema)
}

/// Partitions of one customer share a limit, on whatever shards they are.
#[tokio::test]
async fn partitions_can_share_a_limit() {
    let directory = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let options = Options {
        durability: Durability::None,
        shards: Some(2),
        clock: clock.clone(),
        ..Options::new(directory.path())
    };
    let database = Database::open(options).await.unwrap();
    let day = column("day", DataType::Int, ColumnKind::PartitionKey { position: 1 });
    let mut table = definition();
    table.columns.push(day);
    table.options.per_partition_rate_limit.max_reads_per_second = Some(40);
    table.options.rate_limit_by = Some("total".into());
    let wrong = database.create_table(table.clone(), false).await.unwrap_err();
    assert!(wrong.to_string().contains("column of the partition key"), "{wrong}");
    table.options.rate_limit_by = Some("pk".into());
    let schema = database.create_table(table, false).await.unwrap();
    let key = |customer: &str, day: i32| {
        let values = [Value::Text(customer.into()), Value::Int(day)];
        RowKey::from((PartitionKey::from_values(&schema, &values).unwrap(), ck(&schema, 1)))
    };
    let mut through = [0; 2];
    for round in 0..6_000 {
        clock.advance(Duration::from_millis(1));
        // One customer asks for many partitions, another one now and then.
        match database.get(&schema, key("a", round % 50)).await {
            Ok(_) => through[0] += 1,
            Err(Error::RateLimited { .. }) => {}
            Err(other) => panic!("{other}"),
        }
        if round % 100 == 0 {
            through[1] += i32::from(database.get(&schema, key("b", round % 50)).await.is_ok());
        }
    }
    assert!((300..=500).contains(&through[0]), "6 s at 40 a second, a burst first: {through:?}");
    assert_eq!(through[1], 60);
    // The column has another name: the limit stays.
    let rename =
        ColumnChange::Rename { columns: vec![("pk".into(), "who".into())], if_exists: false };
    let altered =
        database.alter_columns(&schema.keyspace, &schema.name, rename).await.unwrap().schema;
    assert_eq!(altered.options.rate_limit_by.as_deref(), Some("who"));
    database.close().await.unwrap();
}

#[test]
fn a_limit_by_a_column_is_divided_only_where_it_has_several_partitions() {
    let mut table = definition();
    table.options.per_partition_rate_limit.max_reads_per_second = Some(40);
    table.options.per_partition_rate_limit.max_writes_per_second = Some(9);
    let limits = |table: &TableSchema| {
        let part = table.rate_limit_on(2);
        [part.max_reads_per_second, part.max_writes_per_second]
    };
    assert_eq!(limits(&table), [Some(40), Some(9)]);
    table.options.rate_limit_by = Some("pk".into());
    assert_eq!(limits(&table), [Some(40), Some(9)], "the column is the whole key");
    table.columns.push(column("day", DataType::Int, ColumnKind::PartitionKey { position: 1 }));
    assert_eq!(limits(&table), [Some(20), Some(5)]);
}

/// Values of all rows, each shard asked for its own, in order.
async fn scanned(database: &Database, schema: &SchemaRef) -> Vec<i64> {
    let mut all = Vec::new();
    for shard in 0..database.shard_count() {
        let command = ReadCommand {
            partitions: Partitions::Shard(shard),
            ..read_of(schema, "0", Slice::full(Direction::Forward), None)
        };
        all.extend(values(database, command).await);
    }
    all.sort_unstable();
    all
}

#[tokio::test]
async fn keys_of_several_shards_give_all_their_rows_in_ring_order() {
    for shards in [1, 2, 5] {
        let (_directory, database, schema) = open(shards).await;
        let mut keys: Vec<PartitionKey> = Vec::new();
        for pk in 0..40 {
            let name = pk.to_string();
            keys.push(key(&schema, &name));
            for at in 0..3 {
                let value = i64::from(10 * pk + at);
                database.apply(insert(&schema, &name, at, value, 1)).await.unwrap();
            }
        }
        let owners: std::collections::BTreeSet<u32> =
            keys.iter().map(|key| database.shard_of(key)).collect();
        assert_eq!(owners.len(), shards as usize, "the keys are of all shards");
        let mut in_order: Vec<(PartitionKey, i64)> = keys.iter().cloned().zip(0..).collect();
        in_order.sort();
        let wanted: Vec<i64> =
            in_order.iter().flat_map(|(_, pk)| (0..3).map(move |at| 10 * pk + at)).collect();
        // One is asked for twice, one is not there.
        keys.push(keys[7].clone());
        keys.push(key(&schema, "nobody"));
        let command = ReadCommand {
            partitions: Partitions::Keys(keys),
            ..read_of(&schema, "0", Slice::full(Direction::Forward), None)
        };
        assert_eq!(values(&database, command.clone()).await, wanted, "{shards} shards");
        for limit in [0, 1, 4, 50, 119, 120, 121] {
            let limited = ReadCommand { row_limit: Some(limit), ..command.clone() };
            let wanted = &wanted[..limit.min(wanted.len())];
            assert_eq!(values(&database, limited).await, wanted, "{shards} shards, {limit} rows");
        }
        let none = ReadCommand { partitions: Partitions::Keys(vec![]), ..command };
        assert_eq!(values(&database, none).await, [0_i64; 0]);
        database.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_read_that_a_later_shard_cuts_off_says_so() {
    let (_directory, database, schema) = open(2).await;
    let names = (0..40).map(|number: i32| number.to_string());
    let mut all: Vec<_> = names.map(|name| (key(&schema, &name), name)).collect();
    all.sort();
    let (first, short) = all[0].clone();
    let of_other =
        |(key, _): &&(PartitionKey, String)| database.shard_of(key) != database.shard_of(&first);
    let (second, long) = all.iter().find(of_other).cloned().unwrap();
    database.apply(insert(&schema, &short, 1, 1, 1)).await.unwrap();
    let many = (0..20_000).map(|at| insert(&schema, &long, at, 1, 1));
    database.apply_many(many.collect()).await.unwrap();
    let command = ReadCommand {
        partitions: Partitions::Keys(vec![first, second]),
        ..read_of(&schema, "0", Slice::full(Direction::Forward), None)
    };
    let mut read = database.read(command);
    assert_eq!(read.next().await.unwrap().unwrap().num_rows(), 1, "the first shard's is whole");
    assert!(read.next().await.unwrap().is_ok(), "the second one has begun");
    // Until as much is on its way as may be: then no error finds room behind it.
    let is_aside = |reports: Vec<AdmissionReport>| {
        reports.iter().any(|report| report.class == "keys" && report.status.aside == 1)
    };
    while !is_aside(database.admission_report().await.unwrap()) {
        tokio::task::yield_now().await;
    }
    database.close().await.unwrap();
    let mut last = None;
    while let Some(batch) = read.next().await {
        last = Some(batch);
    }
    let cut = last.expect("there is more to come");
    assert!(matches!(cut, Err(Error::Closed)), "a read that was cut off passes as whole: {cut:?}");
}

#[tokio::test]
async fn each_shard_takes_its_own_of_what_another_shard_count_logged() {
    let directory = tempfile::tempdir().unwrap();
    let options = |directory: &std::path::Path, shards| Options {
        shards: Some(shards),
        ..Options::new(directory)
    };
    let database = Database::open(options(directory.path(), 1)).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    let write = |pk: i64| insert(&schema, &pk.to_string(), 0, pk, 1);
    database.apply_many((0..40).map(write).collect()).await.unwrap();
    let image = super::flush::crash_image(directory.path());
    database.close().await.unwrap();
    for shards in [2, 3] {
        let copy = super::flush::crash_image(image.path());
        let database = Database::open(options(copy.path(), shards)).await.unwrap();
        let all = scanned(&database, &schema).await;
        assert!(all.iter().copied().eq(0..40), "{shards} shards give {all:?}");
        database.close().await.unwrap();
    }
}

/// SSTables of another number of shards are read by several: each gives its own partitions only,
/// also when it remembers what it has read.
#[tokio::test]
async fn scans_give_rows_once_of_files_that_another_shard_count_wrote() {
    let (directory, database, schema) = open(1).await;
    let write = |pk: i64| insert(&schema, &pk.to_string(), 0, pk, 1);
    database.apply_many((0..60).map(write).collect()).await.unwrap();
    database.close().await.unwrap();
    drop(database);
    for shards in [3, 2] {
        let options = Options { shards: Some(shards), ..Options::new(directory.path()) };
        let database = Database::open(options).await.unwrap();
        for round in 0..3 {
            let all = scanned(&database, &schema).await;
            assert!(all.iter().copied().eq(0..60), "{shards} shards, round {round}: {all:?}");
        }
        database.close().await.unwrap();
    }
}

#[tokio::test]
async fn row_caches_and_tables_are_told_by_name_and_then_by_shard() {
    let (_directory, database, _) = open(2).await;
    database.create_keyspace("a", false).await.unwrap();
    // Those that come first by name are made last.
    for (keyspace, name) in [("default", "b"), ("a", "z")] {
        let (keyspace, name) = (keyspace.to_owned(), name.to_owned());
        let definition = TableSchema { keyspace, name, ..definition() };
        database.create_table(definition, false).await.unwrap();
    }
    let reports = database.row_cache_report().await.unwrap();
    let told: Vec<(&str, &str, u32)> = reports
        .iter()
        .map(|report| (report.keyspace.as_str(), report.table.as_str(), report.shard))
        .collect();
    let wanted = [("a", "z"), ("default", "b"), ("default", "t")];
    let wanted = wanted.map(|(keyspace, table)| [(keyspace, table, 0_u32), (keyspace, table, 1)]);
    assert_eq!(told, wanted.concat());
    let reports = database.table_report().await.unwrap();
    let told: Vec<(&str, &str, u32)> = reports
        .iter()
        .map(|report| (report.keyspace.as_str(), report.table.as_str(), report.shard))
        .collect();
    assert_eq!(told, wanted.concat());
    database.close().await.unwrap();
}

#[tokio::test]
async fn a_shard_refuses_a_read_of_another_shards_partition() {
    let (_directory, database, schema) = open(2).await;
    let names = (0..).map(|number: i32| number.to_string());
    let keys = names.map(|name| key(&schema, &name));
    let foreign = keys.into_iter().find(|key| database.shard_of(key) == 1).unwrap();
    let command = ReadCommand {
        partitions: Partitions::Keys(vec![foreign]),
        ..read_of(&schema, "0", Slice::full(Direction::Forward), None)
    };
    let waits = Stopwatch::none();
    let stream = Stream { command, probe: None, waits, is_counted: false, place: None };
    let Err(Error::Invalid(message)) = database.handle(0).ask(stream).await.unwrap() else {
        panic!("shard 0 answers for a partition of shard 1");
    };
    assert!(message.contains("belongs to shard 1 and was given to shard 0"), "{message}");
    database.close().await.unwrap();
}

#[tokio::test]
async fn a_shard_refuses_a_write_of_another_shards_partition() {
    let (_directory, database, schema) = open(2).await;
    let pk = |shard| {
        let names = (0..).map(|number: i32| number.to_string());
        names.into_iter().find(|name| database.shard_of(&key(&schema, name)) == shard).unwrap()
    };
    let (own, foreign) = (pk(0), pk(1));
    let (right, wrong) = (insert(&schema, &own, 1, 1, 1), insert(&schema, &foreign, 1, 1, 1));
    let write = |mutation: Mutation| {
        move |shard: Rc<Shard>| async move { shard.apply(mutation).await }.boxed_local()
    };
    database.on_shard(&key(&schema, &own), write(right)).await.unwrap().unwrap();
    let refused = database.on_shard(&key(&schema, &own), write(wrong.clone())).await.unwrap();
    let Err(Error::Invalid(message)) = refused else { panic!("it was taken: {refused:?}") };
    assert!(message.contains("belongs to shard 1 and was given to shard 0"), "{message}");
    let many =
        move |shard: Rc<Shard>| async move { shard.apply_many(vec![wrong]).await }.boxed_local();
    let refused = database.on_shard(&key(&schema, &own), many).await.unwrap();
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    assert_eq!(count_rows(&database, &schema, &foreign).await.unwrap(), 0);
    assert_eq!(count_rows(&database, &schema, &own).await.unwrap(), 1);
    database.close().await.unwrap();
}

#[tokio::test]
async fn the_cached_rows_of_one_table_are_forgotten_alone_and_on_all_shards() {
    let (_directory, database, t) = open(2).await;
    let other = TableSchema { name: "u".into(), ..definition() };
    let u = database.create_table(other, false).await.unwrap();
    let names: Vec<String> = (0..20).map(|pk: i32| pk.to_string()).collect();
    for pk in &names {
        for table in [&t, &u] {
            database.apply(insert(table, pk, 1, 1, 1)).await.unwrap();
        }
    }
    database.flush(None).await.unwrap();
    let read_all = async || {
        for table in [&t, &u] {
            for pk in &names {
                assert_eq!(count_rows(&database, table, pk).await.unwrap(), 1, "{pk}");
            }
        }
    };
    // Partitions that the caches of all shards hold, of each table.
    let held = async || {
        let reports = database.row_cache_report().await.unwrap();
        ["t", "u"].map(|name| {
            let of_table = reports.iter().filter(|report| report.table == name);
            of_table.map(|report| report.stats.partitions).sum::<u64>()
        })
    };
    read_all().await;
    assert_eq!(held().await, [20, 20]);
    database.invalidate_cache(Some(t.id)).await.unwrap();
    assert_eq!(held().await, [0, 20]);
    read_all().await;
    assert_eq!(held().await, [20, 20]);
    database.invalidate_cache(None).await.unwrap();
    assert_eq!(held().await, [0, 0]);
    read_all().await;
    database.drop_table("default", "u", false).await.unwrap();
    let gone = database.invalidate_cache(Some(u.id)).await;
    assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");
    database.close().await.unwrap();
}

#[tokio::test]
async fn options_that_no_database_can_have_are_refused_and_keep_nothing_open() {
    let directory = tempfile::tempdir().unwrap();
    let good = || Options {
        shards: Some(2),
        commitlog_segment_bytes: 1 << 20,
        ..Options::new(directory.path())
    };
    for (wrong, says) in [
        (Options { shards: Some(0), ..good() }, "at least one shard"),
        (Options { commitlog_bytes: (8 << 20) - 1, ..good() }, "8 segments"),
    ] {
        let refused = Database::open(wrong).await.err().expect("no such database is opened");
        assert!(matches!(&refused, Error::Invalid(why) if why.contains(says)), "{refused}");
    }
    Database::open(good()).await.unwrap().close().await.unwrap();
}

#[tokio::test]
async fn a_refusal_of_one_of_many_writes_is_told_whichever_shard_it_is_on() {
    let (_directory, database, schema) = open(3).await;
    let name_on = |shard: u32| {
        let mut names = (0..).map(|number: i32| number.to_string());
        names.find(|name| database.shard_of(&key(&schema, name)) == shard).unwrap()
    };
    let names = [0, 1, 2].map(name_on);
    let unfit = |pk: &str| {
        let cells = vec![(ColumnId(2), Cell::live(1, *b"123"))];
        let mut write = Mutation::new(schema.id, key(&schema, pk));
        write.rows.push((ck(&schema, 1), Row { cells, ..Row::default() }));
        write
    };
    for refusing in 0..3 {
        for first in 0..3 {
            // Two of each shard: the last one of a shard does not stand for those before.
            let places = (first..first + 3).flat_map(|at| [(at % 3, 1), (at % 3, 2)]);
            let places: Vec<(usize, i32)> = places.collect();
            for unfit_row in [1, 2] {
                let write = |&(shard, row): &(usize, i32)| match (shard, row) {
                    place if place == (refusing, unfit_row) => unfit(&names[shard]),
                    _ => insert(&schema, &names[shard], row, 7, 1),
                };
                let writes: Vec<Mutation> = places.iter().map(write).collect();
                let grouped = database.apply_by_partition(writes.clone());
                for told in [grouped.await, database.apply_many(writes).await] {
                    let is_told = matches!(told, Err(Error::Invalid(_)));
                    assert!(is_told, "shard {refusing}, row {unfit_row}, from {first}: {told:?}");
                }
            }
        }
    }
    let all = names.iter().map(|name| insert(&schema, name, 3, 7, 1)).collect();
    database.apply_many(all).await.unwrap();
    for name in &names {
        assert!(count_rows(&database, &schema, name).await.unwrap() >= 1, "{name}");
    }
    database.close().await.unwrap();
}

/// The first partition by its name that a shard has.
fn of_shard(database: &Database, schema: &SchemaRef, shard: u32) -> String {
    let mut names = (0..).map(|number: i32| number.to_string());
    names.find(|name| database.shard_of(&key(schema, name)) == shard).unwrap()
}

#[tokio::test]
async fn the_log_of_each_shard_is_told_with_the_table_that_keeps_it() {
    const SEGMENT_BYTES: u64 = 1 << 16;
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        shards: Some(2),
        commitlog_segment_bytes: SEGMENT_BYTES as usize,
        commitlog_bytes: 1 << 20,
        ..Options::new(directory.path())
    };
    let database = Database::open(options).await.unwrap();
    let rarely = TableSchema { name: "rarely".into(), ..definition() };
    let often = database.create_table(definition(), false).await.unwrap();
    let rarely = database.create_table(rarely, false).await.unwrap();
    for busy in [1, 0] {
        let pk = of_shard(&database, &often, busy);
        database.apply(insert(&rarely, &pk, 1, 1, 1)).await.unwrap();
        // Each of them takes a page of the log: these are more than two segments.
        for at in 0..40 {
            database.apply(insert(&often, &pk, at, 1, 1)).await.unwrap();
        }
        // The table that was made first is named first.
        let steps = [(None, Some("t")), (Some(&often), Some("rarely")), (Some(&rarely), None)];
        for (flushed, pin) in steps {
            if let Some(flushed) = flushed {
                database.flush(Some(flushed.id)).await.unwrap();
            }
            let reports = database.commitlog_report().await.unwrap();
            let told: Vec<_> = reports.iter().map(|report| report.oldest_pin.clone()).collect();
            let mut wanted = [None, None];
            wanted[busy as usize] = pin.map(|table| ("default".to_owned(), table.to_owned()));
            assert_eq!(told, wanted, "shard {busy} was written to");
            for (number, report) in (0..).zip(&reports) {
                assert_eq!((report.shard, report.limit_bytes), (number, 1 << 20));
                assert!(
                    report.bytes > 0 && report.bytes.is_multiple_of(SEGMENT_BYTES),
                    "{report:?}"
                );
                assert_eq!((report.slowed, report.stopped), (0, 0), "{report:?}");
            }
        }
    }
    database.close().await.unwrap();
}

#[tokio::test]
async fn partitions_of_all_shards_are_told_in_the_order_of_their_operations() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        durability: Durability::None,
        shards: Some(2),
        clock: SimulatedClock::new(1_700_000_000_000_000),
        ..Options::new(directory.path())
    };
    let database = Database::open(options).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    let names = (0..).map(|number: i32| number.to_string());
    let (first, others): (Vec<String>, Vec<String>) =
        names.take(40).partition(|name| database.shard_of(&key(&schema, name)) == 0);
    // Shard, partition, reads and writes: reads and writes count alike.
    let wanted = [
        (1, &others[0], 9, 4),
        (0, &first[0], 0, 12),
        (0, &first[1], 11, 0),
        (1, &others[1], 4, 6),
        (1, &others[2], 1, 8),
        (0, &first[2], 5, 0),
    ];
    for (_, pk, reads, writes) in wanted {
        for at in 0..writes {
            database.apply(insert(&schema, pk, at, 1, 1)).await.unwrap();
        }
        for _ in 0..reads {
            let row = RowKey::from((key(&schema, pk), ck(&schema, 0)));
            database.get(&schema, row).await.unwrap();
        }
    }
    let told = database.hot_partitions().await.unwrap();
    let told: Vec<_> = told
        .iter()
        .map(|told| (told.shard, told.hot.key.clone(), told.hot.reads, told.hot.writes))
        .collect();
    let wanted = wanted.map(|(shard, pk, reads, writes)| {
        (shard, key(&schema, pk), reads, u64::try_from(writes).unwrap())
    });
    assert_eq!(told, wanted);
    database.close().await.unwrap();
}
