//! What is refused, and where.

use crate::query::tests::World;
use crate::query::{ErrorKind, QueryError};

/// Checks that an error stands where this part of the text stands last.
fn check_place(error: &QueryError, text: &str, part: &str) {
    let column = text.rfind(part).unwrap() as u64 + 1;
    assert_eq!(error.span.map(|span| span.column), Some(column), "{text}: {error}");
}

/// Tables, why there is no such table, and where that is.
const NO_TABLES: &[(&str, &str, &str)] = &[
    ("(a int PRIMARY KEY, b int PRIMARY KEY)", "two primary keys", ")"),
    ("(a int PRIMARY KEY, b int, PRIMARY KEY (b))", "two primary keys", "(b))"),
    ("(a int, b int, PRIMARY KEY (a), PRIMARY KEY (b))", "two primary keys", "(b))"),
    ("(a int, b int, PRIMARY KEY (a, b, a))", "'a' is in the key twice", "a))"),
    ("(a int, b int, PRIMARY KEY ((a, b), b))", "'b' is in the key twice", "b))"),
    ("(a int, b int, PRIMARY KEY ((a, a), b))", "'a' is in the key twice", "a), b)"),
    ("(a int STATIC, b int, PRIMARY KEY (a, b))", "key column 'a' cannot be static", "a int"),
    ("(a int, b int STATIC, PRIMARY KEY (a, b))", "key column 'b' cannot be static", "b int"),
    ("(a int PRIMARY KEY STATIC, b int)", "key column 'a' cannot be static", "a int"),
    (
        "(a int, b int, PRIMARY KEY (a, b)) WITH CLUSTERING ORDER BY (b ASC, a DESC)",
        "'a' is no clustering column",
        "a DESC",
    ),
    (
        "(a int, hour int, PRIMARY KEY (a, hour)) WITH CLUSTERING ORDER BY (hours DESC)",
        "'hours' is no clustering column",
        "hours DESC",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_whose_key_or_order_is_wrong_is_refused_at_the_column_that_is() {
    let world = World::new().await;
    for (definition, says, part) in NO_TABLES {
        let text = format!("CREATE TABLE t {definition}");
        let error = world.error(&text).await;
        assert_eq!(error.kind, ErrorKind::Invalid, "{text}: {error}");
        assert!(error.message.contains(says), "{text}: {error}");
        check_place(&error, &text, part);
        let near = error.help.is_some_and(|help| help == "did you mean 'hour'?");
        assert_eq!(near, part.starts_with("hours"), "{text}");
    }
    assert!(world.session.database().catalog().table("default", "t").is_none());
}

/// FETCH is a LIMIT wherever a query stands, and a query has one of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_within_another_fetches_its_rows_and_has_one_limit() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY)").await;
    world.run("INSERT INTO t VALUES (1), (2), (3)").await;
    for (text, wanted) in [
        ("SELECT k FROM (SELECT k FROM t ORDER BY k FETCH FIRST 2 ROWS ONLY) x ORDER BY k", "1 2"),
        ("SELECT (SELECT k FROM t ORDER BY k DESC FETCH NEXT ROW ONLY)", "3"),
        (
            "WITH x AS (SELECT k FROM t ORDER BY k OFFSET 1 ROW FETCH NEXT 1 ROWS ONLY) \
             SELECT k FROM x",
            "2",
        ),
        (
            "SELECT k FROM t UNION ALL SELECT k + 10 FROM t ORDER BY k FETCH FIRST 4 ROWS ONLY",
            "1 2 3 11",
        ),
    ] {
        assert_eq!(world.column(text).await.join(" "), wanted, "{text}");
    }
    for (text, says) in [
        ("SELECT k FROM t ORDER BY k LIMIT 2 FETCH FIRST 1 ROW ONLY", "LIMIT or FETCH, not both"),
        ("SELECT k FROM t FETCH FIRST 50 PERCENT ROWS ONLY", "FETCH takes a number of rows"),
        ("SELECT k FROM (SELECT TOP 1 k FROM t) x", "TOP is not offered"),
    ] {
        let error = world.error(text).await;
        assert!(error.message.contains(says), "{text}: {error}");
    }
}

/// Numbers of what runs: those of nothing, and those that none has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_run_is_neither_killed_nor_cancelled() {
    let world = World::new().await;
    for (text, says, part) in [
        ("KILL READ 99", "no read 99 is under way", "99"),
        ("KILL QUERY 99", "no query 99 runs", "99"),
        ("KILL QUERY -1", "the number of a statement is not negative", "-1"),
        ("KILL READ -1", "the number of a read is not negative", "-1"),
        ("CANCEL COMPACTION 99", "no compaction 99 runs", "99"),
        ("CANCEL COMPACTION -1", "the number of a compaction is not negative", "-1"),
    ] {
        let error = world.error(text).await;
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Invalid, says), "{text}");
        check_place(&error, text, part);
        assert_eq!(error.help.is_some(), part == "99", "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_comes_out_as_null_is_named_on_every_way() {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c))").await;
    for (row, column) in [
        ("(k, c, v) VALUES (nullif(1, 1), 2, 3)", "k"),
        ("(k, c, v) VALUES (1, nullif(2, 2), 3)", "c"),
        ("(v, c, k) VALUES (3, nullif(2, 2), 1)", "c"),
        ("(v, c, k) VALUES (3, 2, nullif(1, 1))", "k"),
    ] {
        for text in [
            format!("INSERT INTO t {row}"),
            format!("INSERT INTO t {row} IF NOT EXISTS"),
            format!("BEGIN BATCH INSERT INTO t {row}; APPLY BATCH"),
            format!("BEGIN UNLOGGED BATCH INSERT INTO t {row}; APPLY BATCH"),
        ] {
            let error = world.error(&text).await;
            let wanted = format!("column '{column}': a key column must not be null");
            assert!(error.message.starts_with(&wanted), "{text}: {error}");
        }
    }
    assert_eq!(world.column("SELECT count(*) FROM t").await, ["0"]);
}
