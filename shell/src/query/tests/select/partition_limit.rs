//! `PER PARTITION LIMIT n`, beside the window function that says the same.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array, RecordBatch};

use super::super::World;
use crate::query::{ErrorKind, split};

/// Partitions of 0 to 9 rows, the newest first; partition 12 has a static column alone.
async fn world() -> World {
    let world = World::new().await;
    world
        .run(
            "CREATE TABLE t (pk int, ck int, v text, s text STATIC, PRIMARY KEY (pk, ck)) \
             WITH CLUSTERING ORDER BY (ck DESC)",
        )
        .await;
    for pk in 0..10 {
        for ck in 0..pk {
            let text = format!("INSERT INTO t (pk, ck, v) VALUES ({pk}, {ck}, 'v{}')", ck % 3);
            world.run(&text).await;
        }
        if pk == 5 {
            world.run("FLUSH t").await;
        }
    }
    world.run("INSERT INTO t (pk, s) VALUES (12, 'alone')").await;
    world
}

/// The rows as texts in an order of their own.
async fn sorted(world: &World, text: &str) -> Vec<String> {
    let mut rows: Vec<String> = world.rows(text).await.lines().map(str::to_owned).collect();
    rows.sort_unstable();
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_rows_of_each_partition_are_those_that_a_window_numbers() {
    let world = world().await;
    // More rows than a batch has.
    world
        .run(
            "INSERT INTO t (pk, ck, v) SELECT 11, n, 'v' || (n % 3) \
             FROM generate_series(0, 399) AS r(n)",
        )
        .await;
    for read in ["memory", "files", "cache"] {
        if read == "files" {
            world.run("FLUSH t").await;
        }
        for (condition, order, descending) in [
            ("true", "", true),
            ("true", "ORDER BY ck", false),
            ("true", "ORDER BY ck DESC", true),
            ("true", "ORDER BY pk DESC, ck", false),
            ("true", "ORDER BY v, ck", true),
            ("pk IN (3, 7, 9)", "ORDER BY ck", false),
            ("pk = 7", "ORDER BY ck DESC", true),
            ("pk = 7 AND ck > 2", "ORDER BY ck", false),
            ("ck >= 2 AND ck < 6", "", true),
            ("v = 'v1'", "", true),
            ("v <> 'v1' AND pk > 3", "ORDER BY ck", false),
            ("token(pk) > 0", "ORDER BY ck", false),
            ("token(pk) <= 0", "", true),
        ] {
            for rows in [1, 2, 4, 100] {
                // The key of a partition counts whether it is shown or not.
                let columns = if rows == 2 { "ck" } else { "pk, ck, v, s" };
                let direction = if descending { "DESC" } else { "ASC" };
                let wanted = format!(
                    "SELECT {columns} FROM (SELECT *, row_number() OVER (PARTITION BY pk \
                     ORDER BY ck {direction}) AS n FROM t WHERE {condition}) WHERE n <= {rows}"
                );
                let wanted = sorted(&world, &wanted).await;
                let text = format!(
                    "SELECT {columns} FROM t WHERE {condition} {order} PER PARTITION LIMIT {rows}"
                );
                for path in ["true", "false"] {
                    world.run(&format!("SET tidegate.short_path = {path}")).await;
                    assert_eq!(sorted(&world, &text).await, wanted, "{read}: {text}");
                }
            }
        }
    }
}

/// What a limit leaves out is there for who reads it next, also by the row cache.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_limit_leaves_out_is_there_afterwards() {
    let world = world().await;
    world
        .run("INSERT INTO t (pk, ck, v) SELECT 11, n, 'v' FROM generate_series(0, 999) AS r(n)")
        .await;
    world.run("FLUSH t").await;
    for rows in [1, 3, 500] {
        world.run("INVALIDATE CACHE t").await;
        world
            .run(&format!("SELECT pk, ck FROM t PER PARTITION LIMIT {rows}"))
            .await
            .collect()
            .await
            .unwrap();
        for (pk, count) in (0..10).map(|pk| (pk, pk)).chain([(11, 1000)]) {
            let found = world.column(&format!("SELECT ck FROM t WHERE pk = {pk}")).await;
            assert_eq!(found.len(), count, "partition {pk}, limit {rows}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_limits_count_and_orders_hold() {
    let world = world().await;
    for path in ["true", "false"] {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        for (text, wanted) in [
            ("SELECT ck FROM t WHERE pk = 9 PER PARTITION LIMIT 3", &["8", "7", "6"][..]),
            ("SELECT ck FROM t WHERE pk = 9 ORDER BY ck PER PARTITION LIMIT 3", &["0", "1", "2"]),
            ("SELECT ck FROM t WHERE pk = 9 PER PARTITION LIMIT 3 LIMIT 2", &["8", "7"]),
            ("SELECT ck FROM t WHERE pk = 9 PER PARTITION LIMIT 2 LIMIT 3", &["8", "7"]),
            ("SELECT ck FROM t WHERE pk = 9 per partition limit 3 OFFSET 1", &["7", "6"]),
            ("SELECT ck FROM t WHERE pk = 9 PER PARTITION LIMIT 3 LIMIT 1 OFFSET 1", &["7"]),
            ("SELECT ck FROM t WHERE pk = 9 PER PARTITION LIMIT 3 LIMIT ALL", &["8", "7", "6"]),
            (
                "SELECT pk FROM t WHERE pk IN (2, 9, 5) ORDER BY pk DESC, ck PER PARTITION LIMIT 2",
                &["9", "9", "5", "5", "2", "2"],
            ),
            (
                "SELECT ck FROM t WHERE pk IN (2, 9, 5) ORDER BY ck DESC PER PARTITION LIMIT 2 LIMIT 4",
                &["8", "7", "4", "3"],
            ),
            ("SELECT s FROM t WHERE pk = 12 PER PARTITION LIMIT 1", &["alone"]),
            (
                "WITH x AS (SELECT * FROM t WHERE pk = 9) SELECT ck FROM x PER PARTITION LIMIT 1",
                &["8"],
            ),
            (
                "SELECT y.ck AS c FROM t AS y WHERE y.pk = 9 ORDER BY c PER PARTITION LIMIT 1",
                &["0"],
            ),
        ] {
            assert_eq!(world.column(text).await, wanted, "{text}");
        }
    }
    let count = "SELECT pk FROM t PER PARTITION LIMIT 2 LIMIT 7";
    assert_eq!(world.column(count).await.len(), 7);
    world.run("CREATE TABLE u (pk int, ck int, PRIMARY KEY (pk, ck))").await;
    let text = "INSERT INTO u SELECT pk, ck FROM t WHERE ck >= 0 PER PARTITION LIMIT 1";
    assert_eq!(world.count(text).await, 9);
    assert_eq!(world.column("SELECT ck FROM u WHERE pk = 6").await, ["5"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_shows_the_limit_and_shards_read_no_more() {
    let world = world().await;
    let scan = world.plan("SELECT ck FROM t ORDER BY ck PER PARTITION LIMIT 2").await;
    assert!(scan.contains("direction=reversed, limit per partition=2"), "{scan}");
    let analyzed =
        world.rows("EXPLAIN ANALYZE SELECT ck FROM t WHERE ck >= 0 PER PARTITION LIMIT 1").await;
    assert!(analyzed.contains("rows_read=9"), "{analyzed}");
    let filtered = world.plan("SELECT ck FROM t WHERE v = 'v1' PER PARTITION LIMIT 2").await;
    assert!(filtered.contains("limit per partition=2, filter=v@1 = v1"), "{filtered}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_clause_does_not_go_with_is_refused_with_help() {
    let world = world().await;
    for (text, kind, words) in [
        ("SELECT ck FROM t PER PARTITION LIMIT 0", ErrorKind::Invalid, "at least 1"),
        ("SELECT ck FROM t PER PARTITION LIMIT", ErrorKind::Syntax, "a number of rows"),
        ("SELECT ck FROM t PER PARTITION LIMIT -1", ErrorKind::Syntax, "a number of rows"),
        ("SELECT ck FROM t LIMIT 5 PER PARTITION LIMIT 1", ErrorKind::Syntax, "before LIMIT"),
        (
            "SELECT ck FROM t PER PARTITION LIMIT 1 PER PARTITION LIMIT 1",
            ErrorKind::Syntax,
            "twice",
        ),
        (
            "SELECT * FROM (SELECT ck FROM t PER PARTITION LIMIT 1) WHERE ck > 3",
            ErrorKind::Unsupported,
            "a query within a statement",
        ),
        ("SELECT max(ck) FROM t PER PARTITION LIMIT 1", ErrorKind::Unsupported, "aggregates"),
        ("SELECT DISTINCT v FROM t PER PARTITION LIMIT 1", ErrorKind::Unsupported, "DISTINCT"),
        (
            "SELECT a.ck FROM t a JOIN t b ON a.pk = b.pk PER PARTITION LIMIT 1",
            ErrorKind::Unsupported,
            "joins",
        ),
        (
            "SELECT row_number() OVER (ORDER BY ck) FROM t PER PARTITION LIMIT 1",
            ErrorKind::Unsupported,
            "window functions",
        ),
        (
            "SELECT ck FROM t UNION SELECT pk FROM t PER PARTITION LIMIT 1",
            ErrorKind::Unsupported,
            "not offered with",
        ),
        (
            "SELECT ck FROM t WHERE ck IN (SELECT 1) PER PARTITION LIMIT 1",
            ErrorKind::Unsupported,
            "conditions with queries",
        ),
        (
            "SELECT ck FROM t WHERE random() < 0.5 PER PARTITION LIMIT 1",
            ErrorKind::Unsupported,
            "random()",
        ),
        (
            "SELECT table_name FROM system.tables PER PARTITION LIMIT 1",
            ErrorKind::Unsupported,
            "no table of partitions",
        ),
    ] {
        let error = world.error(text).await;
        assert_eq!(error.kind, kind, "{text}: {error}");
        assert!(error.message.contains(words), "{text}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_partitions_are_parameters() {
    let world = world().await;
    let text = "SELECT pk, ck FROM t WHERE ck >= 0 PER PARTITION LIMIT ? LIMIT ?";
    let prepared = world.session.prepare(split(text).unwrap().remove(0), "default");
    let wanted = world.session.parameters_of(&prepared).await.unwrap();
    let types: Vec<String> =
        wanted.fields().iter().map(|field| field.data_type().to_string()).collect();
    assert_eq!(types, ["Int64", "Int64"]);
    let description = world.session.describe_prepared(&prepared, None).await.unwrap();
    assert_eq!(description.schema.fields().len(), 2);
    for (per_partition, limit, count) in [(1, 100, 9), (2, 100, 17), (2, 5, 5)] {
        let ints = |value: i32| Arc::new(Int32Array::from(vec![value])) as ArrayRef;
        let columns = [("$1", ints(per_partition)), ("$2", ints(limit))];
        let bound = RecordBatch::try_from_iter(columns).unwrap();
        let outcome = world.session.run_prepared(&prepared, Some(&bound)).await.unwrap();
        let batches = outcome.collect().await.unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), count);
    }
}
