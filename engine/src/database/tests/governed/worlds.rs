//! Admission and rate-limiter policies in a database: obeyed, reported, brought back.

use std::path::Path;
use std::time::Duration;

use super::policies::component;
use super::*;
use crate::clock::SimulatedClock;
use crate::compaction::Reason;
use crate::error::Error;
use crate::governance::PolicyReport;
use crate::plugin::World;
use crate::plugin::tests::guest::{
    compaction, io_priority, load_shedding, merge_of, plan_of, read_admission,
};
use crate::schema::RateLimit;

fn options(directory: &Path) -> Options {
    let mut options = Options::new(directory);
    options.shards = Some(1);
    options.commitlog_segment_bytes = 1 << 20;
    options.cache_bytes = 1 << 20;
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

/// What each of two policies did is its own, in all its times in charge together.
#[tokio::test]
async fn a_policy_has_what_was_done_in_all_its_times_in_charge() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    let schema = fill(&database).await;
    database.create_policy("sieve", component("sieve"), vec![], None).await.unwrap();
    let evictions = async || {
        let reports = database.policies().await.unwrap();
        let of = |name: &str| reports.iter().find(|report| report.name == name).unwrap().evictions;
        [of("lru"), of("sieve")]
    };
    let mut before = evictions().await;
    for (wide, name) in (0..).zip([Some("sieve"), None, Some("sieve"), None, Some("sieve")]) {
        database.set_cache_policy(name).await.unwrap();
        assert_eq!(evictions().await, before, "{name:?} did nothing yet, time {wide}");
        misses_after_a_scan(&database, &schema, wide).await;
        let after = evictions().await;
        let (own, other) = if name.is_some() { (1, 0) } else { (0, 1) };
        assert!(after[own] > before[own], "{name:?}, time {wide}: {before:?}, {after:?}");
        assert_eq!(after[other], before[other], "{name:?} is in charge, time {wide}");
        before = after;
    }
    database.close().await.unwrap();
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

/// A batch was let in as a whole: one of which a part is refused would be there in part.
#[tokio::test]
async fn parts_of_a_logged_batch_pass_the_limits_of_their_partitions() {
    let directory = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let opening = Options { clock, ..options(directory.path()) };
    let database = Database::open(opening).await.unwrap();
    let schema = database.create_table(limited(None, Some(5)), false).await.unwrap();
    let refused = refused(&database, &schema, "hot", 400, true).await;
    assert!(refused > 300, "the partition is far beyond its limit: {refused}");
    let before = database.rate_report().await.unwrap()[0].clone();
    for at in 1000..1020 {
        let parts = ["cold", "hot"].map(|name| insert(&schema, name, at, 1, 1));
        database.apply_logged(parts.into()).await.unwrap();
    }
    let after = database.rate_report().await.unwrap()[0].clone();
    assert_eq!(after.writes_refused, before.writes_refused);
    assert_eq!(count_rows(&database, &schema, "cold").await.unwrap(), 20);
    let hot = 400 - refused as usize + 20;
    assert_eq!(count_rows(&database, &schema, "hot").await.unwrap(), hot);
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

/// Reads of several partitions at once, none of them cached: how many were refused.
async fn refused_at_once(database: &Database, schema: &SchemaRef) -> usize {
    database.invalidate_cache(None).await.unwrap();
    let names: Vec<String> = (0..20).map(|hot| format!("hot{hot}")).collect();
    let reads = names.iter().map(|name| count_rows(database, schema, name));
    let ended = futures::future::join_all(reads).await;
    for end in &ended {
        match end {
            Ok(rows) => assert_eq!(*rows, 150),
            Err(error) => assert!(matches!(error, Error::Overloaded(_)), "{error}"),
        }
    }
    ended.iter().filter(|end| end.is_err()).count()
}

/// Lets time pass, with reads, until a policy was asked for a plan.
async fn interval(database: &Database, schema: &SchemaRef, clock: &SimulatedClock, name: &str) {
    let asked = async || {
        let reports = database.policies().await.unwrap();
        reports.iter().find(|report| report.name == name).unwrap().calls
    };
    let before = asked().await;
    while asked().await == before {
        // It may be refused.
        count_rows(database, schema, "hot0").await.ok();
        clock.advance(Duration::from_millis(100));
        // The shard looks at its own time, which is real here.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn reads_enter_as_the_plan_of_a_component_says() {
    let directory = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let open = || Options { clock: clock.clone(), ..options(directory.path()) };
    let database = Database::open(open()).await.unwrap();
    let schema = fill(&database).await;
    assert_eq!(refused_at_once(&database, &schema).await, 0, "the native limits are wide");

    // One at a time, and nobody waits.
    let one = read_admission(&plan_of(&[1, 1 << 30, 0, 0], 8));
    let info = database.create_policy("one", one, vec![], None).await.unwrap();
    assert_eq!(info.world, "read-admission");
    let wrong = database.set_load_shedding_policy(Some("one")).await.unwrap_err();
    assert!(wrong.to_string().contains("not on load-shedding"), "{wrong}");
    database.set_read_admission_policy(Some("one")).await.unwrap();
    interval(&database, &schema, &clock, "one").await;
    let [keys, scan, write] = database.admission_report().await.unwrap()[..] else { panic!() };
    assert_eq!((keys.class, scan.class, write.class), ("keys", "scan", "write"));
    assert_eq!((keys.status.running_max, keys.status.queued_max), (1, 0));
    assert!(scan.status.running_max > 1 && write.status.admitted > 0);
    // It pushes the pages of the others out, so that their reads wait for the disk and meet.
    assert_eq!(count_rows(&database, &schema, "wide0").await.unwrap(), WIDE_ROWS as usize);
    assert!(refused_at_once(&database, &schema).await > 0);
    let report = database.policies().await.unwrap();
    let report = report.iter().find(|report| report.name == "one").unwrap();
    assert_eq!((report.state.as_str(), report.last_failure.clone()), ("active", None));
    assert!(report.calls > 0);
    // Scans are another class; one whose client takes nothing stops nobody.
    let mut slow = database.read(scan_of(&schema, 0));
    assert!(slow.try_next().await.unwrap().is_some());
    let rows: Vec<RecordBatch> = database.read(scan_of(&schema, 0)).try_collect().await.unwrap();
    assert!(rows.len() > 3, "a scan of many batches");
    drop(slow);

    // A policy that is driven by what it measures.
    let params = vec![("least".to_owned(), "3".to_owned()), ("most".to_owned(), "3".to_owned())];
    let latency = component("latency");
    database.create_policy("latency", latency, params, None).await.unwrap();
    database.set_read_admission_policy(Some("latency")).await.unwrap();
    interval(&database, &schema, &clock, "latency").await;
    let keys = database.admission_report().await.unwrap()[0].status;
    assert_eq!((keys.running_max, keys.wait_us_max), (3, 2_000_000));
    assert_eq!(refused_at_once(&database, &schema).await, 0, "they wait");
    let held = database.drop_policy("latency", false).await.unwrap_err();
    assert!(held.to_string().contains("decides on read admission"), "{held}");
    database.close().await.unwrap();

    let database = Database::open(open()).await.unwrap();
    let schema = database.catalog().table("default", "t").unwrap().clone();
    interval(&database, &schema, &clock, "latency").await;
    assert_eq!(database.admission_report().await.unwrap()[0].status.running_max, 3);
    database.set_read_admission_policy(None).await.unwrap();
    assert_eq!(database.admission_report().await.unwrap()[0].status.running_max, 100);
    database.drop_policy("latency", false).await.unwrap();
    database.close().await.unwrap();
}

#[tokio::test]
async fn what_a_component_sheds_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let open = || Options { clock: clock.clone(), ..options(directory.path()) };
    let database = Database::open(open()).await.unwrap();
    let schema = fill(&database).await;
    // Every second read of partitions and every fourth write.
    let some = load_shedding(&plan_of(&[500, 0, 0, 0, 250, 0], 4));
    database.create_policy("some", some, vec![], None).await.unwrap();
    database.create_policy("bad", load_shedding("unreachable"), vec![], None).await.unwrap();
    database.set_load_shedding_policy(Some("some")).await.unwrap();
    interval(&database, &schema, &clock, "some").await;
    assert_eq!(refused_at_once(&database, &schema).await, 10);
    let mut writes = 0;
    for at in 0..8 {
        match database.apply(insert(&schema, "hot0", at, 7, 1)).await {
            Ok(()) => {}
            Err(error @ Error::Overloaded(_)) => writes += u32::from(error.is_retryable()),
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(writes, 2);
    let rows: Vec<RecordBatch> = database.read(scan_of(&schema, 0)).try_collect().await.unwrap();
    assert!(!rows.is_empty(), "scans are not shed");
    // One that fails stays in the report, and nothing is refused.
    database.set_load_shedding_policy(Some("bad")).await.unwrap();
    interval(&database, &schema, &clock, "bad").await;
    assert_eq!(refused_at_once(&database, &schema).await, 0);
    let report = database.policies().await.unwrap();
    let report = report.iter().find(|report| report.name == "bad").unwrap();
    assert!(report.state == "failed" && report.shards > 0, "{report:?}");
    assert!(report.last_failure.as_ref().unwrap().contains("unreachable"), "{report:?}");
    database.set_load_shedding_policy(None).await.unwrap();
    database.close().await.unwrap();
}

async fn report_of(database: &Database, name: &str) -> PolicyReport {
    let reports = database.policies().await.unwrap();
    reports.into_iter().find(|report| report.name == name).unwrap()
}

/// Reasons of the compactions that ended.
async fn reasons(database: &Database) -> Vec<Reason> {
    let all = database.compaction_history().await.unwrap();
    all.into_iter().map(|record| record.reason).collect()
}

/// Waits until what another task does is done.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..3000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}: not after half a minute");
}

#[tokio::test]
async fn a_component_chooses_what_is_merged() {
    let directory = tempfile::tempdir().unwrap();
    let open = || options(directory.path());
    let database = Database::open(open()).await.unwrap();
    let schema = database.create_table(definition(), false).await.unwrap();
    let flushed = async |database: &Database, round: i64| {
        let writes = (0..100).map(|at| insert(&schema, "a", at, round, round)).collect();
        database.apply_many(writes).await.unwrap();
        database.flush(None).await.unwrap();
    };
    // The first two SSTables, where the strategy wants four; and then again, though they are gone.
    let two = compaction(&merge_of(&[1, 2], 0, 0));
    let info = database.create_policy("two", two, vec![], None).await.unwrap();
    assert_eq!(info.world, "compaction");
    let wrong = database.set_io_priority_policy(Some("two")).await.unwrap_err();
    assert!(wrong.to_string().contains("not on io-priority"), "{wrong}");
    flushed(&database, 1).await;
    flushed(&database, 2).await;
    let numbers = async |database: &Database| {
        let reports = database.sstable_report().await.unwrap();
        reports.iter().map(|report| report.status.info.generation).collect::<Vec<u64>>()
    };
    assert_eq!(numbers(&database).await, [1, 2], "two are too few for the strategy");
    database.set_compaction_policy(Some("two")).await.unwrap();
    until("a merge", async || reasons(&database).await == [Reason::Policy]).await;
    until("the answer that is not legal", async || {
        report_of(&database, "two").await.invalid_victims > 0
    })
    .await;
    let report = report_of(&database, "two").await;
    assert_eq!((report.state.as_str(), report.last_failure.clone()), ("active", None));
    assert!(report.calls >= 2 && report.events >= 2, "{report:?}");
    assert!(report.state_note.contains("SSTable 1 is none that may be merged"), "{report:?}");
    assert_eq!(numbers(&database).await.len(), 1);
    assert_eq!(count_rows(&database, &schema, "a").await.unwrap(), 100);
    let held = database.drop_policy("two", false).await.unwrap_err();
    assert!(held.to_string().contains("decides on compactions"), "{held}");
    database.close().await.unwrap();

    // It is in charge after a restart, and one that fails leaves merges to the strategy.
    let database = Database::open(open()).await.unwrap();
    assert_eq!(report_of(&database, "two").await.state, "active");
    let bad = compaction("unreachable");
    database.create_policy("bad", bad, vec![], None).await.unwrap();
    database.set_compaction_policy(Some("bad")).await.unwrap();
    for round in 3..7 {
        flushed(&database, round).await;
    }
    until("a failure", async || report_of(&database, "bad").await.state == "failed").await;
    until("a merge", async || reasons(&database).await.contains(&Reason::Tier)).await;
    assert_eq!(count_rows(&database, &schema, "a").await.unwrap(), 100);
    database.set_compaction_policy(None).await.unwrap();
    database.drop_policy("bad", false).await.unwrap();
    database.close().await.unwrap();
}

/// What a component says of itself is there in every world, and only while it is in charge.
#[tokio::test]
async fn components_of_every_world_have_figures_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(options(directory.path())).await.unwrap();
    let figures = async |name: &str| {
        let report = database.explain_policy(name).await.unwrap();
        assert_eq!(report.last_failure, None, "{name}");
        report.metrics.into_iter().map(|(_, figure, _)| figure).collect::<Vec<String>>()
    };
    for (world, file, figure) in [
        (World::CacheAdmission, "second_touch", "admitted"),
        (World::RateLimiter, "token_bucket", "held"),
        (World::ReadAdmission, "latency", "limit"),
        (World::LoadShedding, "codel", "plans with a queue of reads"),
        (World::IoPriority, "queue_guard", "plans with a late request"),
        (World::Compaction, "lazy_leveling", "merges of a tier"),
    ] {
        database.create_policy(file, component(file), vec![], None).await.unwrap();
        assert_eq!(figures(file).await, [""; 0], "{file} is in charge of nothing");
        let governance = &database.inner.governance;
        governance.put_in_charge(world, Some(file)).await.unwrap();
        let told = figures(file).await;
        assert!(told.iter().any(|told| told.contains(figure)), "{file}: {told:?}");
        governance.put_in_charge(world, None).await.unwrap();
        assert_eq!(figures(file).await, [""; 0], "{file} was in charge");
    }
    database.close().await.unwrap();
}

#[tokio::test]
async fn a_component_plans_the_shares_of_io() {
    let directory = tempfile::tempdir().unwrap();
    let open = || options(directory.path());
    let database = Database::open(open()).await.unwrap();
    let schema = fill(&database).await;
    let shares = async |database: &Database| {
        let report = database.io_report().await.unwrap();
        report.iter().map(|row| row.settings.shares).collect::<Vec<u32>>()
    };
    assert_eq!(shares(&database).await, [1000, 1000, 200, 100, 100]);
    let plan = io_priority(&plan_of(&[0, 900, 800, 7], 4));
    database.create_policy("plan", plan, vec![], None).await.unwrap();
    database.create_policy("bad", io_priority("unreachable"), vec![], None).await.unwrap();
    database.set_io_priority_policy(Some("plan")).await.unwrap();
    // A plan is made where there was I/O.
    let reads = async |database: &Database| {
        database.invalidate_cache(None).await.unwrap();
        count_rows(database, &schema, "hot1").await.unwrap();
    };
    until("a plan", async || {
        reads(&database).await;
        shares(&database).await == [1000, 900, 800, 7, 100]
    })
    .await;
    database.close().await.unwrap();

    let database = Database::open(open()).await.unwrap();
    until("a plan after a restart", async || {
        reads(&database).await;
        shares(&database).await[3] == 7
    })
    .await;
    database.set_io_priority_policy(Some("bad")).await.unwrap();
    until("a failure", async || {
        reads(&database).await;
        report_of(&database, "bad").await.state == "failed"
    })
    .await;
    assert_eq!(shares(&database).await, [1000, 1000, 200, 100, 100]);
    database.set_io_priority_policy(None).await.unwrap();
    database.close().await.unwrap();
}
