//! Classes of I/O of a whole database, and the figures that it finds in its directory.

use std::path::Path;

use super::*;
use crate::error::Error;
use crate::io::{Class, ClassSettings, ClassStats, DiskProperties, IoProperties, PROPERTIES_FILE};

/// Fast enough for a test, and slow enough that 64 KiB are the longest piece.
const DISK: DiskProperties = DiskProperties::new((20_000, 100_000_000), (20_000, 100_000_000));

fn options(directory: &Path) -> Options {
    let mut options = Options::new(directory);
    options.shards = Some(2);
    options.commitlog_segment_bytes = 1 << 20;
    options
}

/// What a class did, of all shards, and whether the disk was measured.
async fn did(database: &Database, class: Class) -> (ClassStats, bool) {
    let all = database.io_report().await.unwrap();
    assert_eq!(all.len(), 2 * Class::COUNT);
    let mut sum = ClassStats::default();
    for report in all.iter().filter(|report| report.class == class) {
        sum.reads += report.stats.reads;
        sum.writes += report.stats.writes;
        sum.written_bytes += report.stats.written_bytes;
        sum.split += report.stats.split;
        sum.disk_seconds += report.stats.disk_seconds;
    }
    (sum, all[0].is_measured)
}

#[tokio::test]
async fn every_request_has_the_class_of_its_work() {
    for is_measured in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        if is_measured {
            let text = IoProperties::text(Path::new("/"), &DISK);
            std::fs::write(directory.path().join(PROPERTIES_FILE), text).unwrap();
        }
        let database = Database::open(options(directory.path())).await.unwrap();
        let schema = database.create_table(definition(), false).await.unwrap();
        let before = did(&database, Class::Flush).await.0;
        assert_eq!((before.writes, before.reads), (0, 0), "nothing is flushed yet");
        let writes = (0..2000).map(|i| insert(&schema, "a", i, 1, 1)).collect();
        database.apply_many(writes).await.unwrap();
        let log = did(&database, Class::Commitlog).await.0;
        assert!(log.written_bytes >= 1 << 20 && log.writes > 1, "{log:?}");
        database.flush(None).await.unwrap();
        let (flush, was_measured) = did(&database, Class::Flush).await;
        assert!(flush.writes > 5 && flush.written_bytes > 2000, "{flush:?}");
        assert_eq!(was_measured, is_measured);
        let reads = did(&database, Class::Query).await.0.reads;
        let mut past_cache = read_of(&schema, "a", Slice::full(Direction::Forward), None);
        past_cache.past_cache = true;
        assert_eq!(values(&database, past_cache).await.len(), 2000);
        let (query, _) = did(&database, Class::Query).await;
        assert!(query.reads > reads && query.disk_seconds > 0.0, "{query:?}");
        assert_eq!(did(&database, Class::Compaction).await.0, ClassStats::default());
        // Segments are filled with zeros, a MiB at a time.
        assert_eq!(log.split > 0, is_measured, "{log:?}");
        database.close().await.unwrap();
        let database = Database::open(options(directory.path())).await.unwrap();
        let (opening, _) = did(&database, Class::Maintenance).await;
        assert!(opening.reads > 0, "{opening:?}");
        database.close().await.unwrap();
    }
}

#[tokio::test]
async fn settings_of_a_class_act_at_once_and_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let settings = |all: Vec<crate::IoReport>, class| {
        let of_class = all.into_iter().filter(move |report| report.class == class);
        of_class.map(|report| report.settings).collect::<Vec<_>>()
    };
    let wanted = ClassSettings { shares: 250, bandwidth: Some(50 << 20) };
    for is_set in [false, true] {
        let database = Database::open(options(directory.path())).await.unwrap();
        if !is_set {
            let change = move |settings: &mut ClassSettings| *settings = wanted;
            assert_eq!(database.alter_io_class(Class::Compaction, change).await.unwrap(), wanted);
            for wrong in [0, 1001] {
                let change = move |settings: &mut ClassSettings| settings.shares = wrong;
                let refused = database.alter_io_class(Class::Query, change).await;
                assert!(matches!(refused, Err(Error::Invalid(_))), "{wrong}");
            }
            let stop = |settings: &mut ClassSettings| settings.bandwidth = Some(0);
            assert!(database.alter_io_class(Class::Query, stop).await.is_err());
        }
        let report = database.io_report().await.unwrap();
        assert_eq!(settings(report.clone(), Class::Compaction), [wanted, wanted]);
        let default = ClassSettings { shares: 1000, bandwidth: None };
        assert_eq!(settings(report, Class::Query), [default, default]);
        database.close().await.unwrap();
    }
}

#[tokio::test]
async fn wrong_figures_are_named_and_those_of_another_disk_are_none() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(PROPERTIES_FILE);
    std::fs::write(&file, "disks:\n  - mountpoint: /\n    read_iops: none\n").unwrap();
    let error = Database::open(options(directory.path())).await.err().expect("refused");
    let error = error.to_string();
    assert!(error.contains(&format!("{}, line 3: read_iops", file.display())), "{error}");
    std::fs::write(&file, IoProperties::text(Path::new("/somewhere/else"), &DISK)).unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    assert!(!did(&database, Class::Query).await.1);
    database.close().await.unwrap();
}

/// Of both borders, and each class apart from the others.
#[tokio::test]
async fn a_change_of_a_class_keeps_what_it_does_not_name() {
    const BANDWIDTH: u64 = 1 << 30;
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    let shares = async |class, shares: u32| {
        let change = move |settings: &mut ClassSettings| settings.shares = shares;
        database.alter_io_class(class, change).await.unwrap()
    };
    let bandwidth = async |class, bandwidth: Option<u64>| {
        let change = move |settings: &mut ClassSettings| settings.bandwidth = bandwidth;
        database.alter_io_class(class, change).await.unwrap()
    };
    let wanted = |shares, bandwidth| ClassSettings { shares, bandwidth };
    let mut all = Vec::new();
    for (class, last) in Class::ALL.into_iter().zip(10_u32..) {
        assert_eq!(shares(class, 1).await, wanted(1, None));
        assert_eq!(bandwidth(class, Some(BANDWIDTH)).await, wanted(1, Some(BANDWIDTH)));
        assert_eq!(shares(class, 1000).await, wanted(1000, Some(BANDWIDTH)));
        assert_eq!(shares(class, last).await, wanted(last, Some(BANDWIDTH)));
        // Of every second class it is taken back.
        let is_limited = last.is_multiple_of(2);
        if !is_limited {
            assert_eq!(bandwidth(class, None).await, wanted(last, None));
        }
        all.push((class, wanted(last, is_limited.then_some(BANDWIDTH))));
    }
    let check = async |database: &Database| {
        let reports = database.io_report().await.unwrap();
        let told = reports.iter().map(|report| (report.class, report.settings));
        assert_eq!(told.collect::<Vec<_>>(), [&all[..], &all].concat(), "of both shards");
    };
    check(&database).await;
    database.close().await.unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    check(&database).await;
    database.close().await.unwrap();
}
