//! What is gone from the data directory is noticed, costs no more than the tables it was of, and
//! the message says what to do.

use std::fs;
use std::path::{Path, PathBuf};

use super::flush::{crash_image, files};
use super::*;
use crate::clock::SystemClock;
use crate::commitlog::{Commitlog, CommitlogOptions, Durability, Recovery};
use crate::error::Error;

fn options(directory: &Path) -> Options {
    let mut options = Options::new(directory);
    options.shards = Some(1);
    options.commitlog_segment_bytes = 64 << 10;
    options
}

async fn open(directory: &Path) -> Database {
    Database::open(options(directory)).await.unwrap()
}

fn schema_of(database: &Database, name: &str) -> SchemaRef {
    database.catalog().table("default", name).unwrap().clone()
}

async fn create(database: &Database, name: &str) -> SchemaRef {
    let definition = TableSchema { name: name.into(), ..definition() };
    database.create_table(definition, false).await.unwrap()
}

async fn write(database: &Database, schema: &TableSchema, rows: std::ops::Range<i32>) {
    // One at a time, each in a block of the log.
    for row in rows {
        database.apply(insert(schema, "a", row, i64::from(row), 1)).await.unwrap();
    }
}

async fn count(database: &Database, name: &str) -> crate::error::Result<usize> {
    count_rows(database, &schema_of(database, name), "a").await
}

/// Segments of the log, oldest first.
fn segments(directory: &Path) -> Vec<PathBuf> {
    let log = directory.join("commitlog/0-of-1");
    let mut found = files(&log);
    found.sort();
    found
}

fn folder_of(directory: &Path, schema: &TableSchema) -> PathBuf {
    directory.join(format!("data/default/{}-{}", schema.name, schema.id.hex()))
}

#[tokio::test]
async fn a_manifest_that_is_gone_or_older_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path()).await;
    let (t, _) = (create(&database, "t").await, create(&database, "u").await);
    for round in 0..2 {
        for name in ["t", "u"] {
            let rows = round * 10..round * 10 + 10;
            write(&database, &schema_of(&database, name), rows).await;
        }
        database.flush(None).await.unwrap();
    }
    database.close().await.unwrap();
    let manifest = folder_of(directory.path(), &t).join("manifest-0-of-1");
    let whole = fs::read(&manifest).unwrap();
    // Of the frames of two flushes, each with its seal, those that are left.
    for pages in [None, Some(0), Some(1), Some(2)] {
        match pages {
            None => fs::remove_file(&manifest).unwrap(),
            Some(pages) => fs::write(&manifest, &whole[..pages * 4096]).unwrap(),
        }
        let before = files(directory.path());
        let database = open(directory.path()).await;
        let error = count(&database, "t").await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Corrupt(_)), "{pages:?}: {text}");
        let wanted = [manifest.to_str().unwrap(), "frame 3, which the ledger names", "IMPORT"];
        assert!(wanted.iter().all(|part| text.contains(part)), "{pages:?}: {text}");
        assert_eq!(count(&database, "u").await.unwrap(), 20);
        let write = database.apply(insert(&t, "a", 1, 1, 2)).await;
        assert!(matches!(write, Err(Error::Corrupt(_))), "{write:?}");
        database.close().await.unwrap();
        let data = |files: &[PathBuf]| {
            let is_data = |path: &&PathBuf| path.to_string_lossy().ends_with("-Data.db");
            let mut data: Vec<PathBuf> = files.iter().filter(is_data).cloned().collect();
            data.sort();
            data
        };
        assert!(!data(&before).is_empty());
        assert_eq!(data(&files(directory.path())), data(&before), "no SSTable is moved");
        fs::write(&manifest, &whole).unwrap();
    }
    // The seal alone is no loss.
    fs::write(&manifest, &whole[..3 * 4096]).unwrap();
    let database = open(directory.path()).await;
    assert_eq!(count(&database, "t").await.unwrap(), 20);
    database.close().await.unwrap();
}

#[tokio::test]
async fn the_last_edit_of_a_manifest_damaged_right_after_a_flush_is_corruption() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path()).await;
    let t = create(&database, "t").await;
    write(&database, &t, 0..10).await;
    database.flush(None).await.unwrap();
    let image = crash_image(directory.path());
    database.close().await.unwrap();
    let manifest = folder_of(image.path(), &t).join("manifest-0-of-1");
    let whole = fs::read(&manifest).unwrap();
    for at in [0, 5, 9, 21, 60] {
        // With the seal behind it, and without.
        for length in [whole.len(), 4096] {
            let mut damaged = whole[..length].to_vec();
            damaged[at] ^= 1;
            fs::write(&manifest, damaged).unwrap();
            let database = open(image.path()).await;
            let error = count(&database, "t").await.unwrap_err();
            assert!(matches!(error, Error::Corrupt(_)), "byte {at}: {error}");
            database.close().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_directory_without_ledger_opens_and_is_watched_from_then_on() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path()).await;
    let t = create(&database, "t").await;
    write(&database, &t, 0..10).await;
    database.flush(None).await.unwrap();
    write(&database, &t, 10..20).await;
    let image = crash_image(directory.path());
    database.close().await.unwrap();
    fs::remove_dir_all(image.path().join("ledger")).unwrap();
    let database = open(image.path()).await;
    assert_eq!(count(&database, "t").await.unwrap(), 20);
    database.close().await.unwrap();
    fs::remove_file(folder_of(image.path(), &t).join("manifest-0-of-1")).unwrap();
    let database = open(image.path()).await;
    assert!(matches!(count(&database, "t").await, Err(Error::Corrupt(_))));
    database.close().await.unwrap();
}

#[tokio::test]
async fn an_older_catalog_does_not_take_newer_tables_along() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path()).await;
    create(&database, "u").await;
    let catalog = directory.path().join("catalog");
    let older = fs::read(&catalog).unwrap();
    let t = create(&database, "t").await;
    write(&database, &t, 0..5).await;
    database.close().await.unwrap();
    let newer = fs::read(&catalog).unwrap();
    fs::write(&catalog, older).unwrap();
    let refused = Database::open(options(directory.path())).await.err().unwrap().to_string();
    let wanted = [catalog.to_str().unwrap(), "which the ledger names", "bring the newer file back"];
    assert!(wanted.iter().all(|part| refused.contains(part)), "{refused}");
    fs::write(&catalog, newer).unwrap();
    let database = open(directory.path()).await;
    assert_eq!(count(&database, "t").await.unwrap(), 5);
    database.close().await.unwrap();
}

/// A crash with writes of `t` in several segments; those of `u` were in the first and are flushed.
async fn crashed() -> (tempfile::TempDir, Vec<PathBuf>) {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path()).await;
    let (t, u) = (create(&database, "t").await, create(&database, "u").await);
    write(&database, &u, 0..3).await;
    database.flush(None).await.unwrap();
    write(&database, &t, 0..40).await;
    let image = crash_image(directory.path());
    database.close().await.unwrap();
    let found = segments(image.path());
    assert!(found.len() > 3, "{found:?}");
    (image, found)
}

#[tokio::test]
async fn a_segment_that_is_gone_refuses_the_tables_that_may_have_lost_writes() {
    for cut in [None, Some(0), Some(8192)] {
        let (image, segments) = crashed().await;
        let whole = fs::read(&segments[1]).unwrap();
        match cut {
            None => fs::remove_file(&segments[1]).unwrap(),
            Some(bytes) => fs::write(&segments[1], &whole[..bytes]).unwrap(),
        }
        for _ in 0..2 {
            let database = open(image.path()).await;
            let error = count(&database, "t").await.unwrap_err();
            let text = error.to_string();
            let wanted = [segments[1].to_str().unwrap(), "--recover=skip-damaged-log"];
            assert!(wanted.iter().all(|part| text.contains(part)), "{cut:?}: {text}");
            assert_eq!(count(&database, "u").await.unwrap(), 3, "SSTables have all of it");
            database.close().await.unwrap();
        }
        // Once it is back, nothing is lost.
        fs::write(&segments[1], &whole).unwrap();
        let database = open(image.path()).await;
        assert_eq!(count(&database, "t").await.unwrap(), 40, "{cut:?}");
        database.close().await.unwrap();
    }
}

/// The folder of the own log, and that of another shard count.
#[tokio::test]
async fn a_log_whose_folder_is_gone_is_missed() {
    for shards in [1, 2] {
        let (image, segments) = crashed().await;
        let folder = image.path().join("commitlog/0-of-1");
        let kept: Vec<Vec<u8>> = segments.iter().map(|path| fs::read(path).unwrap()).collect();
        fs::remove_dir_all(&folder).unwrap();
        let of_start = Options { shards: Some(shards), ..options(image.path()) };
        for _ in 0..2 {
            let database = Database::open(of_start.clone()).await.unwrap();
            let text = count(&database, "t").await.unwrap_err().to_string();
            let wanted = [folder.to_str().unwrap(), "--recover=skip-damaged-log"];
            assert!(wanted.iter().all(|part| text.contains(part)), "{shards} shards: {text}");
            database.close().await.unwrap();
        }
        fs::create_dir_all(&folder).unwrap();
        for (path, content) in segments.iter().zip(kept) {
            fs::write(path, content).unwrap();
        }
        let database = Database::open(of_start).await.unwrap();
        assert_eq!(count(&database, "t").await.unwrap(), 40, "{shards} shards");
        assert_eq!(count(&database, "u").await.unwrap(), 3, "{shards} shards");
        database.close().await.unwrap();
    }
}

#[tokio::test]
async fn what_cannot_be_read_of_a_log_is_left_out_where_that_is_asked_for() {
    let (image, segments) = crashed().await;
    let mut content = fs::read(&segments[1]).unwrap();
    content[2 * 4096 + 100] ^= 1;
    fs::write(&segments[1], &content).unwrap();
    fs::remove_file(&segments[2]).unwrap();
    let database = open(image.path()).await;
    let refused = count(&database, "t").await.unwrap_err().to_string();
    assert!(refused.contains("at offset 8192") && refused.contains("--recover"), "{refused}");
    assert_eq!(database.left_out().await.unwrap(), []);
    database.close().await.unwrap();

    let mut recovering = options(image.path());
    recovering.recovery = Recovery::SkipDamagedLog;
    let database = Database::open(recovering).await.unwrap();
    let found = count(&database, "t").await.unwrap();
    assert!((20..39).contains(&found), "{found} rows");
    let left_out = database.left_out().await.unwrap();
    let told: Vec<_> = left_out.iter().map(|one| (&one.file, one.ranges.as_slice())).collect();
    let torn: Vec<_> = std::iter::once(8192..12288).collect();
    assert_eq!(told, [(&segments[1], &torn[..]), (&segments[2], &[])]);
    assert!(left_out.iter().all(|one| one.tables == ["default.t"]), "{left_out:?}");
    let words = left_out[0].to_string();
    assert!(words.contains("bytes 8192 to 12288") && words.contains("default.t"), "{words}");
    database.close().await.unwrap();
    // From then on nothing is missed any more.
    let database = open(image.path()).await;
    assert_eq!(count(&database, "t").await.unwrap(), found);
    database.close().await.unwrap();
}

/// Every shard reads a log of another shard count, and each leaves the same out.
#[tokio::test]
async fn what_several_shards_leave_out_of_one_log_is_told_once() {
    let (image, segments) = crashed().await;
    fs::remove_file(&segments[1]).unwrap();
    let recovery = Recovery::SkipDamagedLog;
    let recovering = Options { shards: Some(3), recovery, ..options(image.path()) };
    let database = Database::open(recovering).await.unwrap();
    let left_out = database.left_out().await.unwrap();
    let told: Vec<_> = left_out.iter().map(|one| (&one.file, one.tables.as_slice())).collect();
    assert_eq!(told, [(&segments[1], &["default.t".to_owned()][..])]);
    let found = count(&database, "t").await.unwrap();
    assert!((1..40).contains(&found), "{found} rows");
    assert_eq!(count(&database, "u").await.unwrap(), 3);
    database.close().await.unwrap();
}

#[tokio::test]
async fn another_shard_count_misses_the_same_files() {
    let (image, segments) = crashed().await;
    let whole = fs::read(&segments[1]).unwrap();
    fs::remove_file(&segments[1]).unwrap();
    let two = Options { shards: Some(2), ..options(image.path()) };
    let database = Database::open(two.clone()).await.unwrap();
    assert!(matches!(count(&database, "t").await, Err(Error::Corrupt(_))));
    assert_eq!(count(&database, "u").await.unwrap(), 3);
    database.close().await.unwrap();
    fs::write(&segments[1], whole).unwrap();
    let database = Database::open(two.clone()).await.unwrap();
    assert_eq!(count(&database, "t").await.unwrap(), 40);
    let u = schema_of(&database, "u");
    database.close().await.unwrap();
    // The old count's manifest is as necessary as the own one.
    let manifest = folder_of(image.path(), &u).join("manifest-0-of-1");
    fs::remove_file(&manifest).unwrap();
    let database = Database::open(two).await.unwrap();
    assert_eq!(count(&database, "t").await.unwrap(), 40);
    let refused = count(&database, "u").await.unwrap_err().to_string();
    assert!(refused.contains("manifest-0-of-1"), "{refused}");
    database.close().await.unwrap();
}

#[tokio::test]
async fn writes_that_no_sstable_can_hold_are_refused_at_the_door() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path()).await;
    let schema = create(&database, "t").await;
    for unfit in unfit(&schema) {
        let refused = database.apply(unfit.clone()).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{unfit:?}: {refused:?}");
    }
    database.apply(insert(&schema, "a", 1, 1, 1)).await.unwrap();
    database.close().await.unwrap();
    assert_eq!(count(&open(directory.path()).await, "t").await.unwrap(), 1);
}

/// Writes that pass for ones of the table, and stopped the process at the flush.
fn unfit(schema: &TableSchema) -> Vec<Mutation> {
    let good = || insert(schema, "a", 1, 1, 1);
    let with_key = |bytes: &[u8]| {
        let mut mutation = good();
        mutation.rows[0].0 = ClusteringKey::from_ordered(bytes);
        mutation
    };
    let whole = good().rows[0].0.as_ordered().to_vec();
    let mut null = Vec::new();
    crate::schema::order::encode_null(ClusteringOrder::Ascending, &mut null);
    let mut long = Mutation::new(schema.id, PartitionKey::from_bytes(vec![b'k'; 65_536]));
    long.rows = good().rows;
    let mut bound = good();
    let tombstone = Tombstone { timestamp: 1, deletion_time: 0 };
    let start = Position::before(ClusteringKey::from_ordered([0xff; 3]));
    let range = ClusteringRange { start, end: Position::end() };
    bound.range_tombstones.push(RangeTombstone { range, tombstone });
    let mut statics = good();
    statics.static_row = Some(Row::default());
    let mut twice = good();
    let cell = twice.rows[0].1.cells[0].clone();
    twice.rows[0].1.cells.push(cell);
    let empty = Mutation { key: PartitionKey::from_bytes([]), ..good() };
    vec![
        with_key(&[]),
        with_key(&whole[..whole.len() - 1]),
        with_key(&[&whole[..], &[1, 2]].concat()),
        with_key(&null),
        long,
        bound,
        statics,
        twice,
        empty,
    ]
}

#[tokio::test]
async fn writes_of_a_log_that_no_sstable_can_hold_are_set_aside() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path()).await;
    let schema = create(&database, "t").await;
    database.close().await.unwrap();
    let mut writes = unfit(&schema);
    // Of what the log's own form cannot hold, nothing is ever in a log.
    writes.retain(|write| {
        let mut record = Vec::new();
        crate::mutation::codec::encode(write, &mut record);
        crate::mutation::codec::decode(&record).is_ok()
    });
    let count_unfit = writes.len();
    writes.insert(2, insert(&schema, "a", 7, 7, 7));
    let folder = directory.path().join("commitlog/0-of-1");
    let append = || {
        let log = CommitlogOptions {
            directory: folder,
            shard: 0,
            shard_count: 1,
            durability: Durability::Sync,
            segment_bytes: 1 << 20,
            first_segment_min: 0,
            ledger: None,
        };
        crate::disk::run(crate::disk::Backend::Blocking, |disk, _| async move {
            let log = Commitlog::open(disk, SystemClock::shared(), log).await?;
            for write in &writes {
                log.append(write)?.1.await?;
            }
            log.close().await
        })
    };
    // The disk has a runtime of its own.
    std::thread::scope(|scope| scope.spawn(append).join().unwrap().unwrap().unwrap());
    for _ in 0..2 {
        let database = open(directory.path()).await;
        assert_eq!(count(&database, "t").await.unwrap(), 1);
        assert_eq!(files(&directory.path().join("set-aside")).len(), count_unfit);
        database.close().await.unwrap();
    }
    let kept = files(&directory.path().join("set-aside"));
    let first = kept.iter().map(|path| fs::read(path).unwrap()).find_map(|content| {
        let mutation = crate::mutation::codec::decode(&content).unwrap();
        (mutation.key.as_bytes().len() > 65_535).then_some(mutation)
    });
    let is_long = |mutation: &Mutation| mutation.key.as_bytes().len() > 65_535;
    assert_eq!(first, unfit(&schema).into_iter().find(is_long));
}
