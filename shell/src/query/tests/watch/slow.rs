//! The log of slow statements.

use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::clock::SimulatedClock;
use tidegate_engine::probe::Count;
use tidegate_engine::{Database, Options};

use super::super::World;
use super::cold;
use crate::query::{Outcome, Session, SessionOptions};

/// A world whose time passes when the test says so.
async fn timed() -> (World, Arc<SimulatedClock>) {
    let directory = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let mut open = Options::new(directory.path().join("data"));
    (open.shards, open.clock) = (Some(2), clock.clone());
    let database = Database::open(open).await.unwrap();
    let session = Session::new(database, SessionOptions::default()).unwrap();
    let world = World { session, directory };
    world.run("CREATE TABLE t (pk int, ck int, PRIMARY KEY (pk, ck))").await;
    world.run("INSERT INTO t VALUES (1, 1), (1, 2), (2, 1)").await;
    (world, clock)
}

/// Runs a statement whose rows take so long.
async fn run_for(world: &World, clock: &SimulatedClock, text: &str, ms: u64) {
    let outcome: Outcome = world.run(text).await;
    clock.advance(Duration::from_millis(ms));
    outcome.collect().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_beyond_the_threshold_are_kept() {
    let (world, clock) = timed().await;
    let page = "SELECT ck FROM t WHERE pk = 1";
    run_for(&world, &clock, page, 5000).await;
    assert_eq!(world.column("SELECT count(*) FROM system.slow_queries").await, ["0"]);
    world.run("SET tidegate.slow_query_ms = 200").await;
    run_for(&world, &clock, page, 199).await;
    run_for(&world, &clock, page, 200).await;
    run_for(&world, &clock, "SELECT count(*) FROM t", 3000).await;
    let slow = "SELECT statement || ' ' || CAST(duration_us AS text) || ' ' || CAST(rows AS text) \
                || ' ' || CAST(rows_read AS text) FROM system.slow_queries ORDER BY number";
    assert_eq!(
        world.column(slow).await,
        [format!("{page} 200000 2 2"), "SELECT count(*) FROM t 3000000 1 3".to_owned()]
    );
    assert!(world.session.take_trace().is_none(), "a slow statement is no trace");
    let shown = world.rows("SHOW SLOW QUERIES").await;
    let newest = shown.find("count(*)").unwrap();
    assert!(newest < shown.find(page).unwrap(), "the newest comes first: {shown}");
    world.run("SET tidegate.slow_query_ms = 0").await;
    run_for(&world, &clock, page, 5000).await;
    assert_eq!(world.column("SELECT count(*) FROM system.slow_queries").await, ["2"]);
}

/// A statement that nobody takes all rows of is over when its rows are let go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_up_is_kept_with_what_it_did() {
    let (world, clock) = timed().await;
    world.run("SET tidegate.slow_query_ms = 100").await;
    let outcome = world.run("SELECT ck FROM t WHERE pk = 1").await;
    clock.advance(Duration::from_millis(150));
    drop(outcome);
    let kept = "SELECT CAST(duration_us AS text) || ' ' || CAST(rows AS text) || ' ' || session \
                FROM system.slow_queries";
    assert_eq!(world.column(kept).await, ["150000 0 shell"]);
}

/// Columns of times say in their names that they are microseconds; probes count nanoseconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_counters_of_a_slow_statement_are_those_of_its_trace_in_the_units_that_they_name() {
    let world = cold().await;
    world.run("TRACING COMPACT").await;
    world.run("SET tidegate.slow_query_ms = 1").await;
    // So many pairs take more than a millisecond anywhere.
    let pairs = "SELECT count(t.v) FROM t, generate_series(1, 200) AS s(n)";
    assert_eq!(world.column(pairs).await, ["1000000"]);
    let trace = world.session.take_trace().expect("it is traced");
    world.run("TRACING OFF").await;
    world.run("SET tidegate.slow_query_ms = 0").await;
    let stats = trace.stats();
    assert!(stats[Count::TimeDisk] > 0, "a cold table is read from the disk");
    let columns = Count::ALL.map(|what| match what.is_time() {
        true => format!("CAST({}_us AS text)", what.name()),
        false => format!("CAST({} AS text)", what.name()),
    });
    let text = format!(
        "SELECT concat_ws(' ', {}) FROM system.slow_queries WHERE number = {}",
        columns.join(", "),
        trace.number
    );
    let wanted = Count::ALL.map(|what| match what.is_time() {
        true => (stats[what] / 1000).to_string(),
        false => stats[what].to_string(),
    });
    assert_eq!(world.column(&text).await, [wanted.join(" ")]);
}

/// Who asks why something was slow has to see that it failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_statement_is_kept_with_its_error_and_a_quick_one_that_fails_is_not() {
    let (world, clock) = timed().await;
    let page = "SELECT ck FROM t WHERE pk = 1";
    world.run("SET tidegate.slow_query_ms = 100").await;
    world.run("SET tidegate.result_max_bytes = 1").await;
    let mut told = String::new();
    for ms in [99, 100] {
        let outcome = world.run(page).await;
        clock.advance(Duration::from_millis(ms));
        told = outcome.collect().await.unwrap_err().to_string();
        assert!(told.contains("1 is most"), "{told}");
    }
    world.run("SET tidegate.result_max_bytes = 0").await;
    run_for(&world, &clock, page, 250).await;
    let kept = async |column: &str| {
        let query = format!("SELECT {column} FROM system.slow_queries ORDER BY number");
        world.column(&query).await
    };
    assert_eq!(kept("duration_us").await, ["100000", "250000"]);
    assert_eq!(kept("coalesce(error, 'none')").await, [told, "none".to_owned()]);
    assert_eq!(kept("statement").await, [page, page]);
    // The numbers of traces and of slow statements are one row of numbers.
    world.run("TRACING COMPACT").await;
    world.column(page).await;
    run_for(&world, &clock, page, 300).await;
    let trace = world.session.take_trace().expect("it is traced as well");
    world.run("TRACING OFF").await;
    run_for(&world, &clock, page, 300).await;
    let first = trace.number - 3;
    let numbers = [first, first + 1, trace.number, trace.number + 1].map(|n| n.to_string());
    assert_eq!(kept("number").await, numbers);
}
