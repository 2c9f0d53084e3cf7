//! Reads under way: who sees them, whose part they take, and who ends them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::*;
use crate::admission::{LevelOptions, ReadState};
use crate::clock::SimulatedClock;
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

/// Each shard numbers its own reads; the database tells them apart.
#[tokio::test]
async fn of_reads_on_several_shards_the_one_ends_whose_number_is_given() {
    const SHARDS: u32 = 3;
    const ROWS: i32 = 10_000;
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        durability: Durability::None,
        shards: Some(SHARDS),
        ..Options::new(directory.path())
    };
    let database = Database::open(options).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    database.create_service_level("bulk", LevelOptions::default(), false).await.unwrap();
    let level = database.catalog().service_level("bulk").unwrap().id;
    let mut reads = Vec::new();
    for shard in 0..SHARDS {
        let mut names = (0..).map(|number: i32| number.to_string());
        let pk = names.find(|pk| database.shard_of(&key(&schema, pk)) == shard).unwrap();
        let many = (0..ROWS).map(|at| insert(&schema, &pk, at, 1, 1)).collect();
        database.apply_many(many).await.unwrap();
        let scan = Scan::new(&schema).partition(key(&schema, &pk)).level(level);
        let mut read = database.scan(scan);
        let first = read.next().await.unwrap().unwrap();
        reads.push((shard, read, first.num_rows()));
    }
    let reports = database.reads_report().await.unwrap();
    let numbers: BTreeMap<u32, u64> =
        reports.iter().map(|report| (report.shard, report.number)).collect();
    let distinct: BTreeSet<u64> = numbers.values().copied().collect();
    assert_eq!((reports.len(), numbers.len(), distinct.len()), (3, 3, 3), "{reports:?}");
    let (name, _, status) = database.service_level_report().await.unwrap()[1].clone();
    assert_eq!((&*name, status.admitted, status.running + status.aside), ("bulk", 3, 3));
    database.kill_read(numbers[&1]).await.unwrap();
    for (shard, mut read, mut rows) in reads {
        let error = loop {
            match read.next().await {
                Some(Ok(batch)) => rows += batch.num_rows(),
                Some(Err(error)) => break Some(error),
                None => break None,
            }
        };
        match shard {
            1 => assert!(matches!(error, Some(Error::Unavailable(_))), "{error:?}"),
            _ => assert!(error.is_none() && rows == ROWS as usize, "shard {shard}: {error:?}"),
        }
    }
    database.close().await.unwrap();
}

/// Whichever shards they are on.
#[tokio::test]
async fn reads_are_told_in_the_order_in_which_they_came() {
    let directory = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let options = Options {
        durability: Durability::None,
        shards: Some(3),
        clock: clock.clone(),
        ..Options::new(directory.path())
    };
    let database = Database::open(options).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    let order = [2, 0, 1];
    let mut reads = Vec::new();
    for shard in order {
        let mut names = (0..).map(|number: i32| number.to_string());
        let pk = names.find(|pk| database.shard_of(&key(&schema, pk)) == shard).unwrap();
        let many = (0..10_000).map(|at| insert(&schema, &pk, at, 1, 1)).collect();
        database.apply_many(many).await.unwrap();
        clock.advance(Duration::from_secs(1));
        let mut read = database.scan(Scan::new(&schema).partition(key(&schema, &pk)));
        assert!(read.next().await.unwrap().is_ok(), "its client takes no more for now");
        reads.push(read);
    }
    let reports = database.reads_report().await.unwrap();
    let told: Vec<(u32, u64)> =
        reports.iter().map(|report| (report.shard, report.status.age_us)).collect();
    assert_eq!(told, [(2, 2_000_000), (0, 1_000_000), (1, 0)]);
    assert!(reports.iter().all(|report| report.service_level == "default"), "{reports:?}");
    drop(reads);
    database.close().await.unwrap();
}
