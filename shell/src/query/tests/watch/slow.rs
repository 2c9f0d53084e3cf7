//! The log of slow statements.

use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::clock::SimulatedClock;
use tidegate_engine::{Database, Options};

use super::super::World;
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
