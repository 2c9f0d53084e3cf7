//! CREATE TABLE … AS SELECT: types, rows, rights, and what is left where it fails.

use std::time::Duration;

use super::super::World;
use crate::query::{ErrorKind, OutcomeKind, Session, SessionOptions};

/// A table of every kind of type, with three rows.
async fn world() -> World {
    let world = World::new().await;
    for text in [
        "CREATE TYPE addr (street text, no int)",
        "CREATE TABLE t (id uuid, at timeuuid, n int, v varint, d decimal(9, 2), l list<int>, \
         m frozen<map<text, inet>>, s set<text>, u frozen<addr>, p tuple<int, text>, \
         PRIMARY KEY ((id), n)) WITH CLUSTERING ORDER BY (n DESC)",
        "INSERT INTO t (id, n, v, d, l, m, s) VALUES \
         ('6b29fc40-ca47-1067-b31d-00dd010662da', 1, 12345678901234567890123, 1.25, [1, 2], \
          {'a': '10.0.0.1'}, {'x'})",
        "INSERT INTO t (id, n, v) VALUES ('6b29fc40-ca47-1067-b31d-00dd010662da', 2, 2), \
         ('00000000-0000-0000-0000-000000000001', 3, 3)",
    ] {
        world.run(text).await;
    }
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_has_the_types_and_rows_of_the_table() {
    let world = world().await;
    let text = "CREATE TABLE c (PRIMARY KEY ((id), n)) WITH CLUSTERING ORDER BY (n DESC) \
                AS SELECT * FROM t";
    assert_eq!(world.count(text).await, 3);
    let columns = |table: &str| {
        format!(
            "SELECT column_name, type, kind, clustering_order FROM system.columns \
                 WHERE table_name = '{table}' ORDER BY column_name"
        )
    };
    assert_eq!(world.rows(&columns("c")).await, world.rows(&columns("t")).await);
    let rows = async |table: &str| world.rows(&format!("SELECT * FROM {table} ORDER BY n")).await;
    assert_eq!(rows("c").await, rows("t").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_computed_has_its_own_type_or_the_listed_one() {
    let world = world().await;
    let text = "CREATE TABLE c (pages bigint, place text static, PRIMARY KEY (id, pages)) AS \
                SELECT CAST(id AS text) || '' AS id, row_number() OVER (ORDER BY n) AS pages, \
                       count(*) OVER () AS many, n / 2.0 AS half, upper('x') AS place, \
                       n > 1 AS is_more, [n, 7] AS list FROM t";
    assert_eq!(world.count(text).await, 3);
    insta::assert_snapshot!(
        world
            .rows("SELECT column_name, type, kind FROM system.columns WHERE table_name = 'c'")
            .await
    );
    let rows = "SELECT pages, many, half, place, is_more, list FROM c ORDER BY pages";
    insta::assert_snapshot!(world.rows(rows).await);
    // Later rows with one key win, as with INSERT.
    let text = "CREATE TABLE one (PRIMARY KEY (k)) AS SELECT 1 AS k, n FROM t ORDER BY n";
    assert_eq!(world.count(text).await, 3);
    assert_eq!(world.column("SELECT n FROM one").await, ["3"]);
    world.run("CREATE TABLE listed (PRIMARY KEY (column1)) AS VALUES (1, 'a'), (2, 'b')").await;
    assert_eq!(world.column("SELECT column2 FROM listed WHERE column1 = 2").await, ["b"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_leaves_no_table() {
    let world = world().await;
    for (text, kind, says) in [
        ("CREATE TABLE c AS SELECT id FROM t", ErrorKind::Invalid, "no primary key"),
        ("CREATE TABLE c (a int) AS SELECT id FROM t", ErrorKind::Invalid, "no primary key"),
        ("CREATE TABLE c (PRIMARY KEY (x)) AS SELECT id FROM t", ErrorKind::NotFound, "'x'"),
        (
            "CREATE TABLE c (x int, PRIMARY KEY (id)) AS SELECT id FROM t",
            ErrorKind::NotFound,
            "'x'",
        ),
        (
            "CREATE TABLE c (PRIMARY KEY (id)) AS SELECT id FROM nowhere",
            ErrorKind::NotFound,
            "'nowhere'",
        ),
        (
            "CREATE TABLE c (PRIMARY KEY (id)) AS SELECT id, NULL AS x FROM t",
            ErrorKind::Invalid,
            "column 'x' has type Null",
        ),
        (
            "CREATE TABLE c (PRIMARY KEY (n)) AS SELECT n, named_struct('a', n) AS x FROM t",
            ErrorKind::Invalid,
            "",
        ),
        (
            "CREATE TABLE c (PRIMARY KEY (id)) AS SELECT id, n AS id FROM t",
            ErrorKind::Invalid,
            "ambiguous",
        ),
        (
            "CREATE TABLE c (PRIMARY KEY (id)) AS SELECT id FROM t WHERE n = ?",
            ErrorKind::Unsupported,
            "takes no parameters",
        ),
        (
            "CREATE TABLE c (PRIMARY KEY (id)) AS DELETE FROM t",
            ErrorKind::Syntax,
            "expected SELECT",
        ),
        ("CREATE TABLE c (PRIMARY KEY (id)) AS SELECT", ErrorKind::Syntax, ""),
        ("CREATE TABLE t (PRIMARY KEY (id)) AS SELECT id FROM t", ErrorKind::Exists, "t"),
        // These are known as rows come.
        ("CREATE TABLE c (PRIMARY KEY (d)) AS SELECT d FROM t", ErrorKind::Invalid, "is not made"),
        (
            "CREATE TABLE c (PRIMARY KEY (n)) AS SELECT n, 1 / (n - 2) AS x FROM t",
            ErrorKind::Invalid,
            "is not made",
        ),
        (
            "CREATE TABLE c (s tinyint, PRIMARY KEY (n)) AS SELECT n, n * 1000 AS s FROM t",
            ErrorKind::Invalid,
            "is not made",
        ),
    ] {
        let error = match text.contains('?') {
            false => world.error(text).await,
            true => {
                let statement = super::super::split(text).unwrap().remove(0);
                world.session.describe(&statement).await.unwrap_err()
            }
        };
        assert_eq!(error.kind, kind, "{text}: {error}");
        assert!(error.message.contains(says), "{text}: {error}");
        assert!(error.span.is_some(), "{text}: {error}");
        assert!(world.session.database().catalog().table("default", "c").is_none(), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_is_there_stays_and_a_key_is_asked_for() {
    let world = world().await;
    let help = world.error("CREATE TABLE c AS SELECT id FROM t").await.help.unwrap();
    assert!(help.contains("CREATE TABLE t (PRIMARY KEY ((a), b)) AS SELECT"), "{help}");
    // One that was there stays, with its rows.
    let again = "CREATE TABLE IF NOT EXISTS t (PRIMARY KEY (x)) AS SELECT 1 AS x";
    let outcome = world.run(again).await;
    assert!(matches!(outcome.kind, OutcomeKind::Count(0)));
    assert!(outcome.note.unwrap().contains("default.t exists already"));
    assert_eq!(world.column("SELECT n FROM t").await.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_is_given_up_leaves_no_table() {
    let world = World::new().await;
    let session =
        Session::new(world.session.database().clone(), SessionOptions::default()).unwrap();
    let endless = "CREATE TABLE c (PRIMARY KEY (a)) AS \
                   SELECT a.value * 100000 + b.value AS a FROM generate_series(1, 99999) a \
                   CROSS JOIN generate_series(1, 99999) b";
    let is_there = || world.session.database().catalog().table("default", "c").is_some();
    let run = tokio::spawn(async move { session.execute(endless).await.map(drop) });
    // Its first rows are written: who gives up before the table is made may leave it.
    let has_rows = async || {
        let Ok(rows) = world.session.execute("SELECT a FROM c LIMIT 1").await else { return false };
        rows.collect().await.is_ok_and(|batches| batches.iter().any(|batch| batch.num_rows() > 0))
    };
    while !has_rows().await {
        tokio::task::yield_now().await;
    }
    run.abort();
    // The drop is a task of its own.
    let gone = async {
        while is_there() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), gone).await.unwrap();
}
