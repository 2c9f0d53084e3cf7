//! Reads under way: who sees them, whose part they take, and who ends them.

use super::*;
use crate::admission::{LevelOptions, ReadState};
use crate::commitlog::Durability;
use crate::database::Scan;
use crate::error::Error;

#[tokio::test]
async fn a_read_is_seen_with_its_level_and_ends_when_somebody_kills_it() {
    let directory = tempfile::tempdir().unwrap();
    let options =
        Options { durability: Durability::None, shards: Some(2), ..Options::new(directory.path()) };
    let database = Database::open(options).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    let many = (0..50_000).map(|at| insert(&schema, "a", at, 1, 1)).collect();
    database.apply_many(many).await.unwrap();
    database.create_service_level("bulk", LevelOptions::default(), false).await.unwrap();
    let level = database.catalog().service_level("bulk").unwrap().id;
    let key = read_of(&schema, "a", Slice::full(Direction::Forward), None).partitions;
    let Partitions::Keys(keys) = key else { panic!("a read of one partition") };
    let scan = Scan::new(&schema).partition(keys[0].clone()).level(level);
    let mut read = database.scan(scan);
    assert!(read.next().await.unwrap().is_ok(), "it has begun, and its client takes no more");
    let reports = database.reads_report().await.unwrap();
    let [report] = &reports[..] else { panic!("one read is under way: {reports:?}") };
    assert_eq!((&*report.service_level, report.status.class), ("bulk", "keys"));
    assert_ne!(report.status.state, ReadState::Queued);
    assert!(report.status.memory_bytes > 0 && report.status.table.ends_with(&schema.name));
    let of_level = || async { database.service_level_report().await.unwrap()[1].clone() };
    let (name, _, status) = of_level().await;
    assert_eq!((&*name, status.admitted, status.running + status.aside), ("bulk", 1, 1));
    database.kill_read(report.number).await.unwrap();
    let error = loop {
        match read.next().await {
            Some(Ok(_)) => {}
            Some(Err(error)) => break error,
            None => panic!("a read that was ended passes for a whole one"),
        }
    };
    assert!(matches!(&error, Error::Unavailable(told) if told.contains("KILL READ")), "{error}");
    assert!(database.reads_report().await.unwrap().is_empty());
    let (_, _, status) = of_level().await;
    assert_eq!((status.running, status.aside, status.memory_bytes), (0, 0, 0));
    let gone = database.kill_read(report.number).await;
    assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");
    database.close().await.unwrap();
}
