//! What a role may read of the system, what it keeps of what is gone, and its service levels.

use super::{run, world};
use crate::query::ErrorKind;

/// What there is and how much of it: every role may know.
const OPEN: [&str; 15] = [
    "admission",
    "cache",
    "columns",
    "compactions",
    "io",
    "memory",
    "metrics",
    "policies",
    "policy_exits",
    "row_cache",
    "service_levels",
    "sstables",
    "stalls",
    "tables",
    "views",
];

/// Keys, statements, roles and addresses of others.
const CLOSED: [&str; 16] = [
    "audit",
    "corruption",
    "fragments",
    "hot_partitions",
    "large_cells",
    "large_partitions",
    "large_rows",
    "long_waits",
    "nodes",
    "permissions",
    "rate_limits",
    "reads",
    "roles",
    "slow_queries",
    "tokens",
    "traces",
];

/// A role finds what is its own there, and with the right what is of others.
const OWN: [&str; 2] = ["queries", "sessions"];

/// A table that is new has to be in one of the lists.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_table_of_the_system_is_open_or_wants_the_right_to_see_what_others_do() {
    let world = world().await;
    let listed = "SELECT table_name FROM information_schema.tables \
                  WHERE table_schema = 'system' ORDER BY table_name";
    let mut known = [&OPEN[..], &CLOSED, &OWN].concat();
    known.sort_unstable();
    assert_eq!(world.column(listed).await, known);
    let ann = world.as_role("ann");
    let read = |name: &str| format!("SELECT count(*) FROM system.{name}");
    for name in [&OPEN[..], &OWN].concat() {
        let done = run(&ann, &read(name)).await;
        assert!(done.is_ok(), "{name}: {:?}", done.err());
    }
    for name in CLOSED {
        let error = run(&ann, &read(name)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Denied, "{name}: {error}");
        assert!(error.message.contains("SELECT on ADMINISTRATION"), "{name}: {error}");
    }
    world.run("GRANT SELECT ON ADMINISTRATION TO ann").await;
    for name in CLOSED {
        // One of them wants a condition.
        if let Err(error) = run(&ann, &read(name)).await {
            assert_ne!(error.kind, ErrorKind::Denied, "{name}: {error}");
        }
    }
}

/// A keyspace is its maker's with all that is in it, until it is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_on_what_was_dropped_is_none_on_what_has_its_name_later() {
    let world = world().await;
    world.run("GRANT CREATE ON ALL KEYSPACES TO ann").await;
    world.run("GRANT SELECT ON t TO ann").await;
    let ann = world.as_role("ann");
    run(&ann, "CREATE KEYSPACE mine").await.unwrap();
    world.run("REVOKE CREATE ON ALL KEYSPACES FROM ann").await;
    world.run("CREATE TABLE mine.x (a int PRIMARY KEY)").await;
    for text in [
        "INSERT INTO mine.x (a) VALUES (1)",
        "SELECT * FROM mine.x",
        "CREATE TABLE mine.y (a int PRIMARY KEY)",
        "DROP TABLE mine.y",
        "DROP TABLE mine.x",
        "DROP KEYSPACE mine",
    ] {
        run(&ann, text).await.unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    assert_eq!(run(&ann, "SELECT * FROM t").await.unwrap(), "1");
    for text in [
        "CREATE KEYSPACE mine",
        "CREATE TABLE mine.x (a int PRIMARY KEY)",
        "DROP TABLE t",
        "CREATE TABLE t (pk int PRIMARY KEY, v int)",
    ] {
        world.run(text).await;
    }
    for text in [
        "SELECT * FROM t",
        "SELECT * FROM mine.x",
        "INSERT INTO mine.x (a) VALUES (1)",
        "CREATE TABLE mine.y (a int PRIMARY KEY)",
        "DROP KEYSPACE mine",
    ] {
        let error = run(&ann, text).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Denied, "{text}: {error}");
    }
    assert!(world.column("LIST PERMISSIONS OF ann").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_administers_may_run_under_any_service_level() {
    let world = world().await;
    for text in ["CREATE SERVICE LEVEL bulk", "CREATE SERVICE LEVEL other"] {
        world.run(text).await;
    }
    let ann = world.as_role("ann");
    for (change, is_free) in [
        ("ATTACH SERVICE LEVEL bulk TO ann", false),
        ("GRANT SELECT ON ADMINISTRATION TO ann", false),
        ("GRANT ALTER ON ADMINISTRATION TO ann", true),
        ("REVOKE ALTER ON ADMINISTRATION FROM ann", false),
        ("DETACH SERVICE LEVEL FROM ann", true),
    ] {
        world.run(change).await;
        run(&ann, "SELECT 1 USING SERVICE LEVEL bulk").await.unwrap();
        match run(&ann, "SELECT 1 USING SERVICE LEVEL other").await {
            Ok(_) => assert!(is_free, "{change}"),
            Err(error) => {
                assert!(!is_free, "{change}: {error}");
                assert_eq!(error.kind, ErrorKind::Denied, "{change}: {error}");
            }
        }
    }
}
