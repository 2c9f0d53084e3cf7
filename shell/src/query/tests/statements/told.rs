//! What statements say that they did, or would do.

use crate::query::tests::World;

/// One after another, and what each says.
const TOLD: &[(&str, &str)] = &[
    ("FLUSH t", "Table default.t flushed."),
    ("FLUSH", "All tables flushed."),
    ("COMPACT TABLE t", "Table default.t compacted: 1 SSTable."),
    ("COMPACT u", "Table default.u compacted: 0 SSTables."),
    ("INVALIDATE CACHE t", "Cached rows of default.t dropped."),
    ("INVALIDATE CACHE", "Cached rows of all tables dropped."),
    ("CREATE ROLE a", "Role a is there."),
    ("ALTER ROLE a WITH LOGIN = true", "Role a is changed."),
    ("CREATE USER b", "Role b is there."),
    ("GRANT SELECT, MODIFY ON t TO a", "Role a has SELECT, MODIFY on TABLE default.t."),
    ("REVOKE MODIFY ON t FROM a", "Role a is without a grant of MODIFY on TABLE default.t."),
    ("GRANT ALTER ON ADMINISTRATION TO a", "Role a has ALTER on ADMINISTRATION."),
    ("GRANT a TO b", "Role b has role a."),
    ("REVOKE a FROM b", "Role b is without a grant of role a."),
    ("DROP TOKEN IF EXISTS w OF a", "Token w of role a is gone."),
    ("CREATE SERVICE LEVEL gold", "Service level gold is there."),
    (
        "ALTER SERVICE LEVEL gold WITH timeout = 1500ms",
        "Service level gold has timeout 1.5s, 1000 shares.",
    ),
    ("ATTACH SERVICE LEVEL gold TO a", "Role a has service level gold."),
    ("DETACH SERVICE LEVEL FROM a", "Role a has no service level of its own."),
    ("DROP SERVICE LEVEL gold", "Service level gold is gone."),
    ("DROP ROLE b", "Role b is gone."),
    ("CREATE VIEW v AS SELECT pk FROM t", "View default.v created."),
    ("CREATE VIEW IF NOT EXISTS v AS SELECT pk FROM u", "View default.v exists already."),
    ("CREATE OR REPLACE VIEW v AS SELECT pk FROM u", "View default.v replaced."),
    ("CREATE OR REPLACE VIEW w AS SELECT pk FROM u", "View default.w created."),
    ("DROP VIEW v", "View default.v dropped."),
    ("DROP VIEW IF EXISTS v", "There is no view v."),
    (
        "ALTER IO CLASS flush SET shares = 7 AND bandwidth = '2 MiB'",
        "I/O class flush has 7 shares, at most 2097152 bytes a second.",
    ),
    (
        "ALTER IO CLASS flush SET shares = 9",
        "I/O class flush has 9 shares, at most 2097152 bytes a second.",
    ),
    ("ALTER IO CLASS flush SET bandwidth = NONE", "I/O class flush has 9 shares."),
    ("TRUNCATE t", "Table default.t truncated."),
    ("USE default", "Using keyspace default."),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_says_what_it_did_and_to_what() {
    let world = World::new().await;
    for table in ["t", "u"] {
        world.run(&format!("CREATE TABLE {table} (pk int PRIMARY KEY, v int)")).await;
    }
    world.run("INSERT INTO t VALUES (1, 7)").await;
    for (text, wanted) in TOLD {
        assert_eq!(world.column(text).await, [*wanted], "{text}");
    }
}

/// Writes with IF, and what EXPLAIN says that they depend on.
const CONDITIONS: &[(&str, &str)] = &[
    ("UPDATE t SET w = 'a' WHERE pk = 1 AND ck = 1 IF v = 5", "row, v = 5"),
    ("UPDATE t SET w = 'a' WHERE pk = 1 AND ck = 1 IF v != 5", "row, v != 5"),
    ("UPDATE t SET w = 'a' WHERE pk = 1 AND ck = 1 IF v < 5", "row, v < 5"),
    ("UPDATE t SET w = 'a' WHERE pk = 1 AND ck = 1 IF v <= 5", "row, v <= 5"),
    ("UPDATE t SET w = 'a' WHERE pk = 1 AND ck = 1 IF v > 5", "row, v > 5"),
    ("UPDATE t SET w = 'a' WHERE pk = 1 AND ck = 1 IF v >= 5", "row, v >= 5"),
    ("UPDATE t SET w = 'a' WHERE pk = 1 AND ck = 1 IF v IN (5, 6)", "row, v IN (5, 6)"),
    ("UPDATE t SET w = 'a' WHERE pk = 1 AND ck = 1 IF v = null", "row, v = null"),
    ("UPDATE t SET w = 'a' WHERE pk = 1 AND ck = 1 IF v != null", "row, v != null"),
    ("DELETE FROM t WHERE pk = 1 AND ck = 1 IF w = 'b c' AND s > 5", "row, w = b c and s > 5"),
    ("DELETE v FROM t WHERE pk = 1 AND ck = 1 IF EXISTS", "row, exists"),
    ("UPDATE t SET s = 8 WHERE pk = 1 IF s = 7", "static row, s = 7"),
    ("UPDATE t SET s = 8 WHERE pk = 1 IF EXISTS", "static row, exists"),
    ("INSERT INTO t (pk, ck) VALUES (1, 1) IF NOT EXISTS", "row, not exists"),
    ("INSERT INTO t (pk, s) VALUES (1, 1) IF NOT EXISTS", "static row, not exists"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_says_what_a_write_depends_on_on_either_path() {
    let world = World::new().await;
    world
        .run("CREATE TABLE t (pk int, ck int, v int, w text, s int STATIC, PRIMARY KEY (pk, ck))")
        .await;
    for path in ["true", "false"] {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        for (text, wanted) in CONDITIONS {
            let plan = world.rows(&format!("EXPLAIN {text}")).await;
            // Behind it there is nothing but what fills the line.
            let is_told = plan.lines().any(|line| line.contains(&format!(" if: {wanted} ")));
            assert!(is_told, "{text}: {plan}");
        }
    }
    assert_eq!(world.column("SELECT count(*) FROM t").await, ["0"]);
}
