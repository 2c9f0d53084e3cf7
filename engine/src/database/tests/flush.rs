//! Memtables become SSTables, and reads do not notice.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use futures::FutureExt;

use super::super::shard::Shard;
use super::*;
use crate::commitlog::Durability;
use crate::schema::TableOptions;

fn options(directory: &Path) -> Options {
    let mut options = Options::new(directory);
    options.shards = Some(2);
    options.commitlog_segment_bytes = 1 << 20;
    options
}

pub(super) fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// What a crash at this moment would leave.
pub(super) fn crash_image(directory: &Path) -> tempfile::TempDir {
    let image = tempfile::tempdir().unwrap();
    for path in files(directory) {
        let copy = image.path().join(path.strip_prefix(directory).unwrap());
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        std::fs::copy(&path, copy).unwrap();
    }
    image
}

/// Bytes of memtables as the shard of "a" counts them, and the sum over its tables.
async fn memtable_bytes(database: &Database, schema: &TableSchema) -> (usize, usize) {
    let key = key(schema, "a");
    let count = |shard: Rc<Shard>| {
        let of_tables = shard.tables().iter().map(|table| table.memtable_bytes()).sum();
        let of_shard = shard.memtable_bytes();
        async move { (of_shard, of_tables) }.boxed_local()
    };
    database.on_shard(&key, count).await.unwrap()
}

async fn sstables(database: &Database) -> (u64, u64) {
    let reports = database.table_report().await.unwrap();
    let count = reports.iter().map(|report| report.sstables).sum();
    (count, reports.iter().map(|report| report.memtable_rows).sum())
}

#[tokio::test]
async fn reads_merge_memtables_and_sstables_newest_wins() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    let write = |range: std::ops::Range<i32>, value: i64, at: i64| {
        range.map(|i| insert(&schema, "a", i, value + i64::from(i), at)).collect::<Vec<_>>()
    };
    database.apply_many(write(0..100, 0, 1)).await.unwrap();
    database.flush(None).await.unwrap();
    database.apply_many(write(50..150, 1000, 3)).await.unwrap();
    database.flush(Some(schema.id)).await.unwrap();
    // Older than what the second SSTable holds, newer than the first.
    database.apply_many(write(40..60, 2000, 2)).await.unwrap();
    assert_eq!(sstables(&database).await, (2, 20));

    let expected: Vec<i64> = (0..150)
        .map(|i| match i {
            0..40 => i,
            40..50 => 2000 + i,
            _ => 1000 + i,
        })
        .collect();
    let forward = rows(&database, &schema, Slice::full(Direction::Forward), None).await;
    assert_eq!(forward, expected);
    let reversed = rows(&database, &schema, Slice::full(Direction::Reversed), None).await;
    assert_eq!(reversed, expected.iter().rev().copied().collect::<Vec<_>>());

    let mut deletion = Mutation::new(schema.id, key(&schema, "a"));
    deletion.deletion = Some(Tombstone { timestamp: 2, deletion_time: 0 });
    database.apply(deletion).await.unwrap();
    let left = rows(&database, &schema, Slice::full(Direction::Forward), None).await;
    assert_eq!(left, expected[50..], "what is newer than the deletion stays");
    database.close().await.unwrap();

    let database = Database::open(options(directory.path())).await.unwrap();
    let left = rows(&database, &schema, Slice::full(Direction::Forward), None).await;
    assert_eq!(left, expected[50..]);
    assert_eq!(sstables(&database).await, (3, 0), "closing writes memtables out");
    database.close().await.unwrap();
}

#[tokio::test]
async fn full_memtables_are_flushed_and_their_segments_go() {
    let directory = tempfile::tempdir().unwrap();
    let mut small = options(directory.path());
    small.shards = Some(1);
    small.memtable_bytes = 256 << 10;
    let database = Database::open(small).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    for round in 0..40 {
        let writes = (0..1000).map(|i| insert(&schema, "a", round * 1000 + i, 7, 1)).collect();
        database.apply_many(writes).await.unwrap();
    }
    database.flush(None).await.unwrap();
    let (count, rows_in_memory) = sstables(&database).await;
    assert!(count > 3 && rows_in_memory == 0, "{count} SSTables, {rows_in_memory} rows");
    assert_eq!(memtable_bytes(&database, &schema).await, (0, 0));
    let wide = (0..10).map(|i| insert(&schema, "a", i, 8, 2)).collect();
    database.apply_many(wide).await.unwrap();
    let (of_shard, of_tables) = memtable_bytes(&database, &schema).await;
    assert!(of_shard > 0 && of_shard == of_tables, "{of_shard} and {of_tables}");
    database
        .create_table(TableSchema { name: "other".into(), ..definition() }, false)
        .await
        .unwrap();
    let other = database.catalog().table("default", "other").unwrap().clone();
    database.apply(insert(&other, "a", 1, 1, 1)).await.unwrap();
    let (with_other, of_tables) = memtable_bytes(&database, &schema).await;
    assert!(with_other > of_shard && with_other == of_tables, "{with_other} and {of_tables}");
    database.drop_table("default", "other", false).await.unwrap();
    assert_eq!(memtable_bytes(&database, &schema).await, (of_shard, of_shard));
    let found = rows(&database, &schema, Slice::full(Direction::Reversed), None).await;
    assert_eq!(found.len(), 40_000);
    let segments = files(directory.path())
        .iter()
        .filter(|path| path.starts_with(directory.path().join("commitlog")))
        .count();
    assert!(segments <= 4, "{segments} segments are kept of a log that wrote many");
    database.close().await.unwrap();
}

/// A write that is done before it is on disk starts a flush as one that waits for the disk does.
#[tokio::test]
async fn full_memtables_are_flushed_however_durable_writes_are() {
    for durability in [Durability::Sync, Durability::Periodic { ms: 1000 }, Durability::None] {
        let directory = tempfile::tempdir().unwrap();
        let small = Options {
            shards: Some(1),
            memtable_bytes: 256 << 10,
            durability,
            ..options(directory.path())
        };
        let database = Database::open(small).await.unwrap();
        let schema = database.create_table(definition(), false).await.unwrap();
        for round in 0.. {
            let writes = (0..100).map(|i| insert(&schema, "a", round * 100 + i, 7, 1)).collect();
            database.apply_many(writes).await.unwrap();
            if sstables(&database).await.0 > 0 {
                break;
            }
            // A flush runs beside the writes.
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            assert!(round < 1000, "{durability:?}: nothing was flushed");
        }
        database.close().await.unwrap();
    }
}

#[tokio::test]
async fn leftovers_of_a_crash_are_removed_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    database.apply(insert(&schema, "a", 1, 1, 1)).await.unwrap();
    database.close().await.unwrap();

    let data = directory.path().join("data/default");
    let table = data.join(format!("t-{}", schema.id.hex()));
    let unfinished = table.join("me-4711-big-Data.db");
    std::fs::write(&unfinished, "half").unwrap();
    let dropped = data.join(format!("gone-{}", TableId(77).hex()));
    std::fs::create_dir(&dropped).unwrap();
    std::fs::write(dropped.join("me-1-big-Data.db"), "old").unwrap();
    let stranger = data.join("notes");
    std::fs::create_dir(&stranger).unwrap();

    let database = Database::open(options(directory.path())).await.unwrap();
    assert_eq!(rows(&database, &schema, Slice::full(Direction::Forward), None).await, [1]);
    database.close().await.unwrap();
    assert!(!unfinished.exists() && !dropped.exists());
    assert!(stranger.exists(), "what the engine did not make stays");
}

#[tokio::test]
async fn a_dropped_table_leaves_no_files() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    database.apply(insert(&schema, "a", 1, 1, 1)).await.unwrap();
    database.flush(None).await.unwrap();
    database.apply(insert(&schema, "a", 2, 1, 1)).await.unwrap();
    database.drop_table("default", "t", false).await.unwrap();
    assert_eq!(files(&directory.path().join("data")), Vec::<PathBuf>::new());
    let gone = database.apply(insert(&schema, "a", 2, 1, 1)).await.unwrap_err();
    assert!(gone.to_string().contains("does not exist"), "{gone}");
    // The same name again is another table.
    let again = database.create_table(definition(), false).await.unwrap();
    assert_ne!(again.id, schema.id);
    assert!(rows(&database, &again, Slice::full(Direction::Forward), None).await.is_empty());
    database.close().await.unwrap();
}

#[tokio::test]
async fn a_damaged_sstable_is_named_and_the_rest_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    let healthy =
        TableSchema { name: "healthy".into(), options: TableOptions::default(), ..definition() };
    let healthy = database.create_table(healthy, false).await.unwrap();
    let writes = (0..1000).map(|i| insert(&schema, "a", i, 1, 1)).collect();
    database.apply_many(writes).await.unwrap();
    database.apply(insert(&healthy, "a", 1, 9, 1)).await.unwrap();
    database.close().await.unwrap();
    let damaged = files(&directory.path().join("data/default"))
        .into_iter()
        .find(|path| {
            let text = path.to_string_lossy();
            text.contains("/t-") && text.ends_with("Data.db")
        })
        .unwrap();
    let mut content = std::fs::read(&damaged).unwrap();
    content[5000] ^= 0x10;
    std::fs::write(&damaged, content).unwrap();

    let database = Database::open(options(directory.path())).await.unwrap();
    let command = read_of(&schema, "a", Slice::full(Direction::Forward), None);
    let read: Result<Vec<RecordBatch>, _> = database.read(command).try_collect().await;
    let error = read.unwrap_err().to_string();
    assert!(error.contains("Data.db") && error.contains("at offset 4096"), "{error}");
    assert_eq!(rows(&database, &healthy, Slice::full(Direction::Forward), None).await, [9]);
    database.close().await.unwrap();
}

#[tokio::test]
async fn a_value_too_long_for_a_key_is_refused_before_it_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    let mut definition = definition();
    definition.columns[1].ty = DataType::Text;
    let schema = database.create_table(definition, false).await.unwrap();
    let of =
        |length: usize| ClusteringKey::from_values(&schema, &[Value::Text("x".repeat(length))]);
    let refused = of(65_536).unwrap_err().to_string();
    assert!(refused.contains("'ck'") && refused.contains("65535"), "{refused}");
    let mut mutation = Mutation::new(schema.id, key(&schema, "a"));
    mutation
        .rows
        .push((of(65_535).unwrap(), Row { liveness: Some(Liveness::at(1)), ..Row::default() }));
    database.apply(mutation).await.unwrap();
    database.close().await.unwrap();
    Database::open(options(directory.path())).await.unwrap().close().await.unwrap();
}

#[tokio::test]
async fn a_lost_catalog_or_segment_end_is_corruption_not_a_fresh_start() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    database.apply(insert(&schema, "a", 1, 1, 1)).await.unwrap();
    // As a crash would find it: the log is full of what no SSTable holds.
    let image = crash_image(directory.path());
    let segments = files(&image.path().join("commitlog"));
    let used = segments.iter().find(|path| std::fs::read(path).unwrap()[0] != 0).unwrap();
    let copy = std::fs::read(used).unwrap();
    database.close().await.unwrap();

    std::fs::write(used, &copy[..copy.len() / 2]).unwrap();
    let database = Database::open(options(image.path())).await.unwrap();
    let error = count_rows(&database, &schema, "a").await.unwrap_err().to_string();
    let wanted = ["CommitLog", "wanted a commitlog segment of"];
    assert!(wanted.iter().all(|part| error.contains(part)), "{error}");
    database.close().await.unwrap();
    std::fs::write(used, &copy).unwrap();
    let database = Database::open(options(image.path())).await.unwrap();
    assert_eq!(count_rows(&database, &schema, "a").await.unwrap(), 1);
    database.close().await.unwrap();

    let catalog = directory.path().join("catalog");
    let content = std::fs::read(&catalog).unwrap();
    std::fs::remove_file(&catalog).unwrap();
    let error = Database::open(options(directory.path())).await.err().unwrap().to_string();
    assert!(error.contains("catalog") && error.contains("found none"), "{error}");
    std::fs::write(&catalog, content).unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    assert_eq!(rows(&database, &schema, Slice::full(Direction::Forward), None).await, [1]);
    database.close().await.unwrap();
}

#[tokio::test]
async fn a_table_that_cannot_be_opened_keeps_the_others_going_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    let healthy = TableSchema { name: "healthy".into(), ..definition() };
    let healthy = database.create_table(healthy, false).await.unwrap();
    database.apply(insert(&schema, "a", 1, 1, 1)).await.unwrap();
    database.apply(insert(&healthy, "a", 1, 9, 1)).await.unwrap();
    database.close().await.unwrap();
    let table = directory.path().join(format!("data/default/t-{}", schema.id.hex()));
    let index = files(&table)
        .into_iter()
        .find(|path| path.to_string_lossy().ends_with("Index.db"))
        .unwrap();
    let good = std::fs::read(&index).unwrap();
    std::fs::write(&index, &good[1..]).unwrap();

    let database = Database::open(options(directory.path())).await.unwrap();
    assert_eq!(rows(&database, &healthy, Slice::full(Direction::Forward), None).await, [9]);
    let refused = database.apply(insert(&schema, "a", 2, 2, 1)).await.unwrap_err().to_string();
    assert!(refused.contains("Index.db"), "{refused}");
    database.close().await.unwrap();
    std::fs::write(&index, good).unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    assert_eq!(rows(&database, &schema, Slice::full(Direction::Forward), None).await, [1]);
    database.close().await.unwrap();
}

#[tokio::test]
async fn segments_stay_while_one_shard_cannot_keep_what_they_hold_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let open = |directory: &Path, shards| {
        let mut options = options(directory);
        options.shards = Some(shards);
        Database::open(options)
    };
    let keys: Vec<String> = (0..60).map(|i| format!("key {i}")).collect();
    let write = |schema: &TableSchema, value| {
        keys.iter().map(|pk| insert(schema, pk, 1, value, value)).collect::<Vec<_>>()
    };
    let database = open(directory.path(), 3).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    database.apply_many(write(&schema, 1)).await.unwrap();
    database.close().await.unwrap();
    // Rows of three shards in the logs of two.
    let database = open(directory.path(), 2).await.unwrap();
    database.apply_many(write(&schema, 2)).await.unwrap();
    let image = crash_image(directory.path());
    database.close().await.unwrap();

    let indexes: Vec<PathBuf> = files(image.path())
        .into_iter()
        .filter(|path| path.to_string_lossy().ends_with("Index.db"))
        .collect();
    assert_eq!(indexes.len(), 3, "an SSTable a shard");
    let good = std::fs::read(&indexes[0]).unwrap();
    std::fs::write(&indexes[0], b"short").unwrap();
    open(image.path(), 3).await.unwrap().close().await.unwrap();

    std::fs::write(&indexes[0], good).unwrap();
    let database = open(image.path(), 3).await.unwrap();
    for pk in &keys {
        let command = read_of(&schema, pk, Slice::full(Direction::Forward), None);
        assert_eq!(values(&database, command).await, [2], "{pk}");
    }
    database.close().await.unwrap();
}

#[tokio::test]
async fn a_reader_that_takes_nothing_does_not_keep_the_database_open() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    let writes = (0..20_000).map(|i| insert(&schema, "a", i, 1, 1)).collect();
    database.apply_many(writes).await.unwrap();
    let command = read_of(&schema, "a", Slice::full(Direction::Forward), None);
    let mut stalled = database.read(command);
    assert!(stalled.next().await.unwrap().is_ok());
    tokio::time::timeout(std::time::Duration::from_secs(60), database.close())
        .await
        .unwrap()
        .unwrap();
    let mut last = None;
    while let Some(batch) = stalled.next().await {
        last = Some(batch);
    }
    let cut = last.unwrap().unwrap_err().to_string();
    assert_eq!(cut, "the database is closed", "a stream that was cut says so");
}

#[tokio::test]
async fn a_change_goes_on_when_its_caller_does_not_wait() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    for turns in 0..40 {
        let name = format!("t{turns}");
        let definition = TableSchema { name: name.clone(), ..definition() };
        let mut creating = database.create_table(definition, false);
        for _ in 0..turns {
            if futures::poll!(&mut creating).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(creating);
    }
    // The next change waits for those before it.
    database.create_keyspace("after", false).await.unwrap();
    let in_memory: Vec<String> =
        database.catalog().tables("default").map(|table| table.name.clone()).collect();
    database.close().await.unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    let on_disk: Vec<String> =
        database.catalog().tables("default").map(|table| table.name.clone()).collect();
    assert_eq!(in_memory, on_disk);
    database.close().await.unwrap();
}

#[tokio::test]
async fn a_flush_of_one_table_leaves_the_others_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    let t = database.create_table(definition(), false).await.unwrap();
    database.create_keyspace("a", false).await.unwrap();
    let z = TableSchema { keyspace: "a".into(), name: "z".into(), ..definition() };
    let z = database.create_table(z, false).await.unwrap();
    for pk in 0..40 {
        for table in [&t, &z] {
            database.apply(insert(table, &pk.to_string(), 1, 1, 1)).await.unwrap();
        }
    }
    let owned = |shard: u32| {
        let keys = (0..40).map(|pk: i32| key(&t, &pk.to_string()));
        keys.filter(|key| database.shard_of(key) == shard).count() as u64
    };
    let rows = [owned(0), owned(1)];
    assert!(rows[0] > 0 && rows[1] > 0, "both shards have some: {rows:?}");
    database.flush(Some(t.id)).await.unwrap();
    let reports = database.table_report().await.unwrap();
    let told: Vec<(&str, &str, u32)> = reports
        .iter()
        .map(|report| (report.keyspace.as_str(), report.table.as_str(), report.shard))
        .collect();
    assert_eq!(told, [("a", "z", 0), ("a", "z", 1), ("default", "t", 0), ("default", "t", 1)]);
    let counts: Vec<[u64; 3]> = reports
        .iter()
        .map(|report| [report.memtable_rows, report.sstables, report.sstable_rows])
        .collect();
    let [first, second] = rows;
    assert_eq!(counts, [[first, 0, 0], [second, 0, 0], [0, 1, first], [0, 1, second]]);
    assert!(reports.iter().all(|report| report.problem.is_none()), "{reports:?}");
    database.drop_table("a", "z", false).await.unwrap();
    let gone = database.flush(Some(z.id)).await;
    assert!(matches!(gone, Err(crate::error::Error::NotFound { .. })), "{gone:?}");
    database.close().await.unwrap();
}
