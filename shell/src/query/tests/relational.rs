//! Windows and set operations, where DataFusion alone would not answer, or not rightly.

use super::World;

async fn table() -> World {
    let world = World::new().await;
    world.run("CREATE TABLE t (k int PRIMARY KEY, at time, b blob, v int)").await;
    world
        .run(
            "INSERT INTO t (k, at, b, v) VALUES \
             (1, TIME '10:00:00', X'01', 7), (2, TIME '09:00:00', X'00ff', 7), \
             (3, TIME '10:00:00', X'02', 7), (4, NULL, NULL, NULL), (5, NULL, X'01', NULL)",
        )
        .await;
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_are_ordered_by_times_of_day_and_bytes() {
    let world = table().await;
    for (window, wanted) in [
        ("rank() OVER (ORDER BY at)", "2 1 2 4 4"),
        ("dense_rank() OVER (ORDER BY b DESC)", "3 4 2 1 3"),
        // All rows that sort like this one are within the frame.
        ("count(*) OVER (ORDER BY at)", "3 1 3 5 5"),
        ("sum(k) OVER (PARTITION BY v ORDER BY b)", "3 2 6 9 5"),
        ("lag(k) OVER (ORDER BY at, k)", "2  1 3 4"),
        (
            "count(*) OVER (ORDER BY at RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
            "4 5 4 2 2",
        ),
    ] {
        let text = format!("SELECT {window} AS w FROM t ORDER BY k");
        assert_eq!(world.column(&text).await.join(" "), wanted, "{window}");
    }
    // There is no distance between two of them.
    let error = world
        .error("SELECT count(*) OVER (ORDER BY b RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t")
        .await;
    assert!(error.message.contains("Cannot run range queries"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn set_operations_with_all_count_copies() {
    let world = table().await;
    for (text, wanted) in [
        ("SELECT v FROM t EXCEPT ALL SELECT 7", ",,7,7"),
        ("SELECT v FROM t EXCEPT ALL SELECT v FROM t WHERE k IN (1, 3, 4)", ",7"),
        ("SELECT v FROM t EXCEPT ALL SELECT v FROM t", ""),
        ("SELECT v FROM t EXCEPT SELECT 8", ",7"),
        ("SELECT v FROM t INTERSECT ALL SELECT v FROM t WHERE k IN (1, 2, 4)", ",7,7"),
        ("SELECT v FROM t INTERSECT ALL SELECT 7::bigint", "7"),
        ("SELECT v FROM t INTERSECT SELECT 7", "7"),
        ("SELECT DISTINCT v FROM t INTERSECT ALL SELECT v FROM t", ",7"),
        ("SELECT v FROM (SELECT v FROM t EXCEPT ALL SELECT 7) WHERE v IS NOT NULL", "7,7"),
    ] {
        let mut found = world.column(text).await;
        found.sort();
        assert_eq!(found.join(","), wanted, "{text}");
    }
    let rows = "SELECT count(*) FROM (SELECT v, k FROM t EXCEPT ALL SELECT 7, 1)";
    assert_eq!(world.column(rows).await, ["4"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_of_any_role_and_nullability_are_united_and_grouped() {
    let world = table().await;
    world.run("CREATE TABLE s (k smallint PRIMARY KEY, f boolean)").await;
    world.run("INSERT INTO s (k, f) VALUES (1, true), (9, NULL)").await;
    let mut found = world.column("SELECT k FROM s UNION SELECT v FROM t").await;
    found.sort();
    assert_eq!(found, ["", "1", "7", "9"]);
    let mut found = world.column("SELECT DISTINCT f IS TRUE FROM s").await;
    found.sort();
    assert_eq!(found, ["false", "true"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_group_sums_what_its_filter_leaves() {
    let world = World::new().await;
    world
        .run(
            "CREATE TABLE f (k int, n int, v bigint, d double, m decimal(9, 2), x varint, \
             PRIMARY KEY (k, n))",
        )
        .await;
    for (k, n) in [(1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 9)] {
        world.run(&format!("INSERT INTO f VALUES ({k}, {n}, {n}, {n}.5, {n}.25, {n})")).await;
    }
    let of = |aggregate: &str, filter: &str| {
        format!(
            "SELECT CAST({aggregate} FILTER (WHERE {filter}) AS double) FROM f GROUP BY k ORDER BY k"
        )
    };
    for (aggregate, wanted) in [
        ("sum(v)", ["7.0", "9.0"]),
        ("sum(d)", ["8.0", "9.5"]),
        ("sum(m)", ["7.5", "9.25"]),
        ("sum(x)", ["7.0", "9.0"]),
        ("avg(d)", ["4.0", "9.5"]),
        ("max(d)", ["4.5", "9.5"]),
        ("count(v)", ["2.0", "1.0"]),
    ] {
        assert_eq!(world.column(&of(aggregate, "n > 2")).await, wanted, "{aggregate}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_of_many_groups_may_be_nan() {
    let world = World::new().await;
    world.run("CREATE TABLE f (k int PRIMARY KEY, d double)").await;
    for (k, d) in ["'NaN'", "1", "'NaN'", "2", "'Infinity'", "3", "'NaN'", "0"].iter().enumerate() {
        world.run(&format!("INSERT INTO f (k, d) VALUES ({k}, CAST({d} AS double))")).await;
    }
    let text = "SELECT DISTINCT d FROM f ORDER BY d DESC LIMIT 3";
    assert_eq!(world.column(text).await, ["NaN", "inf", "3.0"]);
    let text = "SELECT d FROM f GROUP BY d ORDER BY d LIMIT 2";
    assert_eq!(world.column(text).await, ["0.0", "1.0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_selected_once_each_orders_it() {
    let world = table().await;
    for (text, wanted) in [
        ("SELECT DISTINCT k + 1 FROM t ORDER BY k + 1 DESC", "6 5 4 3 2"),
        ("SELECT DISTINCT v + 1, k % 2 FROM t ORDER BY k % 2, v + 1", "8  8 "),
        ("SELECT DISTINCT t.k + 1 AS x FROM t ORDER BY k + 1 LIMIT 2", "2 3"),
        ("SELECT DISTINCT abs(k) FROM t x ORDER BY abs(x.k) LIMIT 1", "1"),
        ("SELECT DISTINCT CAST(k AS text) FROM t ORDER BY CAST(k AS text) DESC LIMIT 1", "5"),
        ("SELECT DISTINCT count(*) FROM t GROUP BY v ORDER BY count(*)", "2 3"),
        ("SELECT max(x) FROM (SELECT DISTINCT k * 2 AS x FROM t ORDER BY k * 2 LIMIT 3)", "6"),
    ] {
        assert_eq!(world.column(text).await.join(" "), wanted, "{text}");
    }
    for (fetch, wanted) in [
        ("FETCH FIRST ROW ONLY", "1"),
        ("FETCH FIRST 2 ROWS ONLY", "1 2"),
        ("OFFSET 1 ROW FETCH NEXT 2 ROWS ONLY", "2 3"),
    ] {
        let text = format!("SELECT k FROM t ORDER BY k {fetch}");
        assert_eq!(world.column(&text).await.join(" "), wanted, "{text}");
    }
    for (text, named) in [
        ("SELECT TOP 1 k FROM t", "TOP is not offered"),
        ("SELECT k FROM t ORDER BY v FETCH FIRST 1 ROW WITH TIES", "FETCH takes a number of rows"),
        ("SELECT (SELECT count(*) FROM t u WHERE u.k > t.k) FROM t", "beside = only"),
    ] {
        let error = world.error(text).await;
        assert!(error.message.contains(named) && error.help.is_some(), "{text}: {error}");
        assert!(error.span.is_some(), "{text}: {error}");
    }
    let error = world.error("SELECT DISTINCT v FROM t ORDER BY k * 2").await;
    assert!(error.message.contains("must appear in select list"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_in_from_may_name_the_query_around() {
    let world = table().await;
    for (condition, wanted) in [
        ("EXISTS (SELECT 1 FROM (SELECT * FROM t u WHERE u.k > t.k) x)", "1 2 3 4"),
        ("EXISTS (SELECT 1 FROM (SELECT u.v FROM t u WHERE u.k > t.k) x WHERE x.v = 7)", "1 2"),
        (
            "EXISTS (SELECT 1 FROM (SELECT v AS w FROM t u WHERE u.k = t.k + 1) x WHERE w = 7)",
            "1 2",
        ),
        ("NOT EXISTS (SELECT 1 FROM (SELECT u.v FROM t u WHERE u.k > t.k) x)", "5"),
        ("k IN (SELECT x.k FROM (SELECT u.k FROM t u WHERE u.at = t.at) x)", "1 2 3"),
        ("k + 2 IN (SELECT x.k FROM (SELECT u.k FROM t u WHERE u.at = t.at) x)", "1"),
        ("k = (SELECT max(x.k) FROM (SELECT u.k FROM t u WHERE u.v = t.v) x)", "3"),
        (
            "k = (SELECT max(y.a) FROM (SELECT x.k AS a FROM (SELECT u.k FROM t u WHERE u.v = t.v) x) y)",
            "3",
        ),
        (
            "EXISTS (SELECT 1 FROM (SELECT u.k FROM t u WHERE u.k > t.k) x JOIN t y ON x.k = y.k)",
            "1 2 3 4",
        ),
        (
            "EXISTS (SELECT * FROM (SELECT u.at FROM t u WHERE u.k > t.k ORDER BY u.k) x WHERE x.at = t.at)",
            "1",
        ),
    ] {
        let text = format!("SELECT k FROM t WHERE {condition} ORDER BY k");
        assert_eq!(world.column(&text).await.join(" "), wanted, "{text}");
    }
    for (inner, wanted) in [
        ("(SELECT u.v FROM t u WHERE u.k > t.k) x WHERE x.v = t.v", "1 2"),
        (
            "(SELECT u.v, u.k FROM t u WHERE u.k > t.k) x JOIN t y ON x.k = y.k WHERE y.at = t.at",
            "1",
        ),
        (
            "t y JOIN (SELECT u.v AS w FROM t u WHERE u.k > t.k) x ON x.w = y.v WHERE y.k = t.k",
            "1 2",
        ),
    ] {
        let text = format!("SELECT k FROM t WHERE EXISTS (SELECT * FROM {inner}) ORDER BY k");
        assert_eq!(world.column(&text).await.join(" "), wanted, "{text}");
    }
    // Columns that go along stay within.
    let text =
        "SELECT k FROM t WHERE EXISTS (SELECT * FROM (SELECT u.v FROM t u WHERE u.k > t.k) x)";
    assert_eq!(
        world.rows(&format!("SELECT * FROM ({text}) WHERE k = 1")).await.matches('k').count(),
        1
    );
}

/// The first and the last row of a partition need not be those that a filter keeps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_extremes_of_a_partition_are_of_what_a_filter_keeps() {
    let world = World::new().await;
    world.run("CREATE TABLE e (pk int, ck int, v bigint, PRIMARY KEY (pk, ck))").await;
    world.run("INSERT INTO e VALUES (1, 1, 0), (1, 2, 5), (1, 3, 5), (1, 4, 0)").await;
    for (aggregate, wanted) in [
        ("max(ck)", "4"),
        ("min(ck)", "1"),
        ("max(ck) FILTER (WHERE v > 1)", "3"),
        ("min(ck) FILTER (WHERE v > 1)", "2"),
    ] {
        for path in ["true", "false"] {
            world.run(&format!("SET tidegate.short_path = {path}")).await;
            let text = format!("SELECT {aggregate} FROM e WHERE pk = 1");
            assert_eq!(world.column(&text).await, [wanted], "{text}, short path {path}");
        }
    }
}
