//! What statements show that were prepared before, and which keyspace a session is in.

use std::collections::HashSet;

use datafusion::arrow::util::pretty::pretty_format_batches;

use crate::query::tests::World;
use crate::query::{Outcome, Prepared, split};

/// Statements that show what there is.
const SHOWN: &[&str] = &[
    "SHOW TABLES",
    "SHOW KEYSPACES",
    "DESCRIBE t",
    "DESCRIBE TABLE t",
    "DESCRIBE SCHEMA",
    "DESCRIBE KEYSPACE",
    "LIST ROLES",
    "LIST ROLES OF ann",
    "LIST PERMISSIONS",
    "LIST PERMISSIONS OF ann",
    "SHOW EFFECTIVE SERVICE LEVEL OF ann",
    "SELECT name, shares FROM system.service_levels",
    "SELECT * FROM system.views",
    "SELECT * FROM v",
    "SELECT token FROM system.tokens",
];

const CHANGES: &[&str] = &[
    "ALTER TABLE t ADD w int",
    "ALTER TABLE t WITH comment = 'new'",
    "INSERT INTO t (k, v) VALUES (1, 7)",
    "CREATE OR REPLACE VIEW v AS SELECT v, k FROM t",
    "CREATE KEYSPACE other",
    "CREATE TABLE x (a int PRIMARY KEY)",
    "CREATE ROLE team",
    "GRANT team TO ann",
    "GRANT SELECT ON t TO ann",
    "CREATE SERVICE LEVEL gold WITH shares = 200",
    "ATTACH SERVICE LEVEL gold TO ann",
    "ALTER SERVICE LEVEL gold WITH shares = 300",
    "CREATE TOKEN ci OF ann",
    "REVOKE SELECT ON t FROM ann",
    "DROP TABLE x",
    "DROP KEYSPACE other",
];

async fn text(outcome: Outcome) -> String {
    pretty_format_batches(&outcome.collect().await.unwrap()).unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_prepared_before_a_change_shows_what_there_is_after_it() {
    let world = World::new().await;
    for text in [
        "CREATE TABLE t (k int PRIMARY KEY, v int)",
        "CREATE VIEW v AS SELECT k FROM t",
        "CREATE ROLE ann WITH LOGIN = true",
    ] {
        world.run(text).await;
    }
    let prepare = |text: &&str| world.session.prepare(split(text).unwrap().remove(0), "default");
    let prepared: Vec<Prepared> = SHOWN.iter().map(prepare).collect();
    let mut seen = HashSet::new();
    for change in ["SELECT 1"].iter().chain(CHANGES) {
        world.run(change).await;
        for (shown, prepared) in SHOWN.iter().zip(&prepared) {
            let described = world.session.describe_prepared(prepared, None).await.unwrap();
            assert!(described.is_query && described.returns_rows, "{shown} after {change}");
            let outcome = world.session.query_prepared(prepared, None).await.unwrap();
            let names = |schema: &datafusion::arrow::datatypes::Schema| {
                schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>()
            };
            assert_eq!(names(&described.schema), names(&outcome.schema), "{shown} after {change}");
            let found = text(outcome).await;
            assert_eq!(found, world.rows(shown).await, "{shown} after {change}");
            seen.insert((*shown, found));
        }
    }
    for shown in SHOWN {
        let count = seen.iter().filter(|(text, _)| text == shown).count();
        assert!(count > 1, "no change is seen by {shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_leaves_its_keyspace_when_that_one_is_dropped_and_no_other() {
    let world = World::new().await;
    for text in ["CREATE KEYSPACE a", "CREATE KEYSPACE ab", "CREATE KEYSPACE b", "USE a"] {
        world.run(text).await;
    }
    let other = world.session.at("b");
    for (text, keyspace) in [
        ("DROP KEYSPACE ab", "a"),
        ("DROP KEYSPACE IF EXISTS nosuch", "a"),
        ("DROP KEYSPACE b", "a"),
        ("CREATE TABLE t (k int PRIMARY KEY)", "a"),
        ("DROP TABLE a.t", "a"),
        ("DROP KEYSPACE IF EXISTS a", "default"),
        ("CREATE TABLE t (k int PRIMARY KEY)", "default"),
    ] {
        world.run(text).await;
        assert_eq!(world.session.keyspace(), keyspace, "{text}");
    }
    assert!(world.session.database().catalog().table("default", "t").is_some());
    // Whose keyspace others dropped is told so, until it uses another.
    assert_eq!(other.keyspace(), "b");
    let Err(error) = other.execute("INSERT INTO t VALUES (1)").await else { panic!("it is gone") };
    assert!(error.message.contains("'b'"), "{error}");
    other.execute("USE \"default\"").await.unwrap();
    other.execute("INSERT INTO t VALUES (1)").await.unwrap();
    assert_eq!(world.column("SELECT k FROM t").await, ["1"]);
}
