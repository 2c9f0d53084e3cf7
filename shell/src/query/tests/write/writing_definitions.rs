//! Definitions: what IF EXISTS and IF NOT EXISTS leave alone, and options that are taken back.

use crate::query::tests::World;

/// Definitions of what is there, and of what is not: the words before and behind IF.
const NOTHING_TO_DO: &[(&str, &str, &str)] = &[
    ("CREATE KEYSPACE", "IF NOT EXISTS", "ks"),
    ("CREATE TABLE", "IF NOT EXISTS", "t (pk text PRIMARY KEY, w int)"),
    ("CREATE TYPE", "IF NOT EXISTS", "ty (b text)"),
    ("CREATE VIEW", "IF NOT EXISTS", "vi AS SELECT pk FROM t"),
    ("CREATE SERVICE LEVEL", "IF NOT EXISTS", "gold WITH shares = 5"),
    ("ALTER TABLE t ADD", "IF NOT EXISTS", "v text"),
    ("ALTER TABLE t DROP", "IF EXISTS", "nosuch"),
    ("ALTER TABLE t RENAME", "IF EXISTS", "nosuch TO other"),
    ("DROP KEYSPACE", "IF EXISTS", "nosuch"),
    ("DROP TABLE", "IF EXISTS", "nosuch"),
    ("DROP TYPE", "IF EXISTS", "nosuch"),
    ("DROP VIEW", "IF EXISTS", "nosuch"),
    ("DROP SERVICE LEVEL", "IF EXISTS", "nosuch"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_there_or_gone_already_is_left_as_it_is() {
    let world = World::new().await;
    for text in [
        "CREATE KEYSPACE ks",
        "CREATE TYPE ty (a int)",
        "CREATE TABLE t (pk int PRIMARY KEY, v int)",
        "CREATE VIEW vi AS SELECT v FROM t",
        "CREATE SERVICE LEVEL gold WITH shares = 200",
        "INSERT INTO t VALUES (1, 7)",
    ] {
        world.run(text).await;
    }
    let schema = world.column("DESCRIBE SCHEMA").await;
    for (begin, condition, end) in NOTHING_TO_DO {
        world.run(&format!("{begin} {condition} {end}")).await;
        let error = world.error(&format!("{begin} {end}")).await;
        assert!(error.span.is_some(), "{begin} {end}: {error}");
        assert_eq!(world.column("DESCRIBE SCHEMA").await, schema, "{begin} {end}");
    }
    assert_eq!(world.column("SELECT v FROM vi").await, ["7"]);
    let shares = "SELECT shares FROM system.service_levels WHERE name = 'gold'";
    assert_eq!(world.column(shares).await, ["200"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_option_of_a_service_level_that_is_taken_away_is_the_default_again() {
    let world = World::new().await;
    let options = "timeout = 1h AND workload_type = 'batch' AND shares = 200";
    world.run(&format!("CREATE SERVICE LEVEL gold WITH {options}")).await;
    world.run("SET tidegate.service_level = gold").await;
    let effective = async || {
        let shown = world.rows("SHOW EFFECTIVE SERVICE LEVEL").await;
        shown.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let shown = effective().await;
    for row in [
        "| timeout | 3600s | service level gold |",
        "| workload_type | batch | service level gold |",
        "| shares | 200 | service level gold |",
    ] {
        assert!(shown.contains(row), "{row}: {shown}");
    }
    for (option, told, row) in [
        ("shares", "timeout 3600s, workload type batch, 1000 shares", "| shares | 1000 |"),
        ("workload_type", "timeout 3600s, 1000 shares", "| workload_type | none |"),
        ("timeout", "1000 shares", "| timeout | none |"),
    ] {
        let text = format!("ALTER SERVICE LEVEL gold WITH {option} = NULL");
        let message = world.column(&text).await.join(";");
        assert_eq!(message, format!("Service level gold has {told}."));
        let shown = effective().await;
        assert!(shown.contains(&format!("{row} default |")), "{option}: {shown}");
    }
}
