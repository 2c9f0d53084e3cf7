//! Admission and rate-limiter policies in a database: obeyed, reported, brought back.

use std::path::Path;
use std::time::Duration;

use super::policies::component;
use super::*;
use crate::clock::SimulatedClock;
use crate::error::Error;
use crate::schema::RateLimit;

fn options(directory: &Path) -> Options {
    let mut options = Options::new(directory);
    options.shards = Some(1);
    options.commitlog_segment_bytes = 1 << 20;
    options.cache_bytes = 2 << 20;
    options
}

/// Partitions that are scanned once each: to a policy of second touches a scan that comes again is
/// no scan.
const WIDE_PARTITIONS: i32 = 8;
const WIDE_ROWS: i32 = 12_000;

/// Twenty hot partitions that fit into the cache, and wide ones that are larger than it.
async fn fill(database: &Database) -> SchemaRef {
    let schema = database.create_table(definition(), false).await.unwrap();
    for hot in 0..20 {
        let name = format!("hot{hot}");
        let writes = (0..150).map(|i| insert(&schema, &name, i, 7, 1)).collect();
        database.apply_many(writes).await.unwrap();
    }
    for wide in 0..WIDE_PARTITIONS {
        let name = format!("wide{wide}");
        let writes = (0..WIDE_ROWS).map(|i| insert(&schema, &name, i, 7, 1)).collect();
        database.apply_many(writes).await.unwrap();
    }
    database.flush(None).await.unwrap();
    schema
}

/// Misses of the hot partitions after a wide one was read that was not read before.
async fn misses_after_a_scan(database: &Database, schema: &SchemaRef, wide: i32) -> u64 {
    for _ in 0..4 {
        for hot in 0..20 {
            count_rows(database, schema, &format!("hot{hot}")).await.unwrap();
        }
    }
    let wide = format!("wide{wide}");
    assert_eq!(count_rows(database, schema, &wide).await.unwrap(), WIDE_ROWS as usize);
    let before = database.cache_report().await.unwrap()[0].misses;
    for hot in 0..20 {
        assert_eq!(count_rows(database, schema, &format!("hot{hot}")).await.unwrap(), 150);
    }
    database.cache_report().await.unwrap()[0].misses - before
}

#[tokio::test]
async fn a_scan_does_not_push_out_the_hot_set() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    let schema = fill(&database).await;
    let without = misses_after_a_scan(&database, &schema, 0).await;
    assert!(without >= 10, "the scan pushed all of it out: {without}");

    for name in ["always", "second_touch", "doorkeeper", "scan_guard"] {
        let info = database.create_policy(name, component(name), vec![], None).await.unwrap();
        assert_eq!(info.world, "cache-admission");
    }
    let wrong = database.set_cache_policy(Some("always")).await.unwrap_err();
    assert!(wrong.to_string().contains("not on eviction"), "{wrong}");
    let wrong = database.set_rate_policy(Some("always")).await.unwrap_err();
    assert!(wrong.to_string().contains("not on rate-limiter"), "{wrong}");

    database.set_admission_policy(Some("always")).await.unwrap();
    let always = misses_after_a_scan(&database, &schema, 1).await;
    assert!(always >= 10, "always is as no policy: {always}");
    for (at, name) in (0..).zip(["scan_guard", "second_touch", "doorkeeper"]) {
        database.set_admission_policy(Some(name)).await.unwrap();
        // What the scan before left in the cache has to go first.
        misses_after_a_scan(&database, &schema, 2 + 2 * at).await;
        let with = misses_after_a_scan(&database, &schema, 3 + 2 * at).await;
        assert!(with * 3 <= without, "{name}: {with} misses, {without} without it");
        let reports = database.policies().await.unwrap();
        let report = reports.iter().find(|report| report.name == name).unwrap();
        assert_eq!((report.state.as_str(), report.world.as_str()), ("active", "cache-admission"));
        assert!(report.calls > 0 && report.last_failure.is_none(), "{report:?}");
    }
    assert!(database.cache_report().await.unwrap()[0].refused > 0);
    let held = database.drop_policy("doorkeeper", false).await.unwrap_err();
    assert!(held.to_string().contains("decides what the cache keeps"), "{held}");
    database.close().await.unwrap();

    let database = Database::open(options(directory.path())).await.unwrap();
    let reports = database.policies().await.unwrap();
    let active = reports.iter().find(|report| report.name == "doorkeeper").unwrap();
    assert_eq!(active.state, "active", "a restart brings it back");
    database.set_admission_policy(None).await.unwrap();
    database.drop_policy("doorkeeper", false).await.unwrap();
    database.close().await.unwrap();
}

fn limited(reads: Option<u32>, writes: Option<u32>) -> TableSchema {
    let mut schema = definition();
    let limit = RateLimit { max_reads_per_second: reads, max_writes_per_second: writes };
    schema.options.per_partition_rate_limit = limit;
    schema
}

/// How many of `count` operations on partition `name` were refused for their rate.
async fn refused(
    database: &Database,
    schema: &SchemaRef,
    name: &str,
    count: u32,
    is_write: bool,
) -> u32 {
    let mut refused = 0;
    for at in 0..count {
        let ended = match is_write {
            true => database.apply(insert(schema, name, at as i32, 1, 1)).await,
            false => count_rows(database, schema, name).await.map(|_| ()),
        };
        match ended {
            Ok(()) => {}
            Err(Error::RateLimited { limit, .. }) => refused += u32::from(limit > 0),
            Err(other) => panic!("{other}"),
        }
    }
    refused
}

#[tokio::test]
async fn one_hot_partition_is_limited_in_reads_and_writes_apart() {
    let directory = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let open = || Options { clock: clock.clone(), ..options(directory.path()) };
    let database = Database::open(open()).await.unwrap();
    let schema = database.create_table(limited(Some(50), Some(20)), false).await.unwrap();
    // Within twice the limit all goes through in the first second, reads and writes apart.
    assert_eq!(refused(&database, &schema, "a", 40, true).await, 0);
    assert_eq!(refused(&database, &schema, "a", 100, false).await, 0);
    // Beyond, most are refused; another partition is not touched by that.
    let writes = refused(&database, &schema, "a", 200, true).await;
    assert!((120..200).contains(&writes), "{writes}");
    let reads = refused(&database, &schema, "a", 300, false).await;
    assert!((150..300).contains(&reads), "{reads}");
    assert_eq!(refused(&database, &schema, "b", 40, true).await, 0);
    let report = database.rate_report().await.unwrap()[0].clone();
    assert_eq!((report.writes, report.reads), (280, 400));
    assert_eq!((report.writes_refused, report.reads_refused), (writes.into(), reads.into()));
    assert_eq!(report.policy, "decaying");
    // Counts decay: after some seconds the partition is as before.
    clock.advance(Duration::from_secs(8));
    assert_eq!(refused(&database, &schema, "a", 40, true).await, 0);
    assert_eq!(refused(&database, &schema, "a", 90, false).await, 0);
    // A batch is refused as a whole where one of its writes is.
    let many = (0..400).map(|i| insert(&schema, "c", i, 1, 1)).collect();
    let error = database.apply_many(many).await.unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains("too many writes"), "{error}");
    // A scan is no read of one partition.
    for _ in 0..5 {
        let _: Vec<RecordBatch> = database.read(scan_of(&schema, 0)).try_collect().await.unwrap();
    }
    database.close().await.unwrap();
    // The limit is a part of the table.
    let database = Database::open(open()).await.unwrap();
    let schema = database.catalog().table("default", "t").unwrap().clone();
    assert_eq!(schema.options.per_partition_rate_limit.max_reads_per_second, Some(50));
    assert!(refused(&database, &schema, "a", 400, false).await > 200);
    database.close().await.unwrap();
}

#[tokio::test]
async fn a_component_decides_beyond_the_limit() {
    let directory = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let open = || Options { clock: clock.clone(), ..options(directory.path()) };
    let database = Database::open(open()).await.unwrap();
    let schema = database.create_table(limited(None, Some(20)), false).await.unwrap();
    for name in ["token_bucket", "decaying_wasm"] {
        let file = name.trim_end_matches("_wasm");
        let info = database.create_policy(name, component(file), vec![], None).await.unwrap();
        assert_eq!(info.world, "rate-limiter");
    }
    database.set_rate_policy(Some("token_bucket")).await.unwrap();
    // A bucket is strict: nothing goes beyond the limit.
    assert_eq!(refused(&database, &schema, "a", 100, true).await, 80);
    clock.advance(Duration::from_secs(1));
    let second = refused(&database, &schema, "a", 100, true).await;
    assert_eq!(second, 80, "the bucket holds a second of the limit");
    database.set_rate_policy(Some("decaying_wasm")).await.unwrap();
    clock.advance(Duration::from_secs(20));
    let component = refused(&database, &schema, "a", 200, true).await;
    assert!((90..140).contains(&component), "{component}");
    let report = database.rate_report().await.unwrap()[0].clone();
    assert_eq!((report.policy.as_str(), report.last_failure), ("decaying_wasm", None));
    let held = database.drop_policy("decaying_wasm", false).await.unwrap_err();
    assert!(held.to_string().contains("decides on rate limits"), "{held}");
    database.close().await.unwrap();
    let database = Database::open(open()).await.unwrap();
    assert_eq!(database.rate_report().await.unwrap()[0].policy, "decaying_wasm");
    database.set_rate_policy(None).await.unwrap();
    assert_eq!(database.rate_report().await.unwrap()[0].policy, "decaying");
    database.close().await.unwrap();
}
