//! What is pushed down: EXPLAIN of every shape of read, and the rows it gives.

use super::World;

/// A query, a name for its snapshot.
const QUERIES: [(&str, &str); 18] = [
    ("point_read", "SELECT temp FROM weather WHERE origin = 'JFK' AND time_hour = '2013-07-03'"),
    ("forward_page", "SELECT * FROM weather WHERE origin = 'JFK' ORDER BY time_hour LIMIT 3"),
    ("reversed_page", "SELECT * FROM weather WHERE origin = 'JFK' ORDER BY time_hour DESC LIMIT 3"),
    (
        "reversed_page_with_filter",
        "SELECT note FROM weather WHERE origin = 'JFK' AND temp < 5 \
         ORDER BY time_hour DESC LIMIT 3",
    ),
    (
        "range",
        "SELECT note FROM weather WHERE origin = 'JFK' AND time_hour >= '2013-07-02' \
         AND time_hour < '2013-07-05' ORDER BY time_hour",
    ),
    (
        "range_of_typed_literals",
        "SELECT note FROM weather WHERE origin = 'JFK' \
         AND time_hour > TIMESTAMP '2013-07-02 00:00:00' AND time_hour <= DATE '2013-07-05' \
         ORDER BY time_hour",
    ),
    (
        "between",
        "SELECT note FROM weather WHERE origin = 'JFK' \
         AND time_hour BETWEEN '2013-07-02' AND '2013-07-04' ORDER BY time_hour DESC",
    ),
    (
        "in_clustering",
        "SELECT note FROM weather WHERE origin = 'JFK' \
         AND time_hour IN ('2013-07-02', '2013-07-04', '2013-07-08') ORDER BY time_hour",
    ),
    (
        "in_many",
        "SELECT note FROM weather WHERE origin = 'JFK' AND time_hour IN ('2013-07-01', \
         '2013-07-02', '2013-07-03', '2013-07-04', '2013-07-05', '2013-07-06') ORDER BY time_hour",
    ),
    (
        "in_partition_ordered",
        "SELECT origin, note FROM weather WHERE origin IN ('JFK', 'EWR') \
         ORDER BY time_hour DESC, origin LIMIT 3",
    ),
    (
        "in_partition_merged",
        "SELECT time_hour, note FROM weather WHERE origin IN ('JFK', 'EWR') \
         ORDER BY time_hour DESC LIMIT 4",
    ),
    (
        "full_scan",
        "SELECT origin, count(*), max(temp) FROM weather GROUP BY origin ORDER BY origin",
    ),
    ("count", "SELECT count(*) FROM weather"),
    ("filter_only", "SELECT count(*) FROM weather WHERE temp > 8"),
    ("limit_only", "SELECT count(*) FROM (SELECT origin FROM weather LIMIT 5)"),
    (
        "join",
        "SELECT a.note, b.temp FROM weather a JOIN weather b ON a.time_hour = b.time_hour \
         WHERE a.origin = 'JFK' AND b.origin = 'EWR' AND a.temp > 8 ORDER BY a.time_hour",
    ),
    ("contradiction", "SELECT note FROM weather WHERE origin = 'JFK' AND origin = 'EWR'"),
    ("system_table", "SELECT table_name FROM system.tables WHERE keyspace_name = 'default'"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_and_their_rows() {
    let world = World::weather().await;
    for (name, query) in QUERIES {
        let plan = world.plan(query).await;
        let rows = world.rows(query).await;
        insta::assert_snapshot!(name, format!("{query}\n\n{plan}\n{rows}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reversed_page_reads_only_its_page() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await;
    world
        .run("INSERT INTO t SELECT 1, value, 'x' FROM generate_series(1, 20000) AS s(value)")
        .await;
    let page = "SELECT ck FROM t WHERE pk = 1 ORDER BY ck DESC LIMIT 10";
    let wanted: Vec<String> = (19_991..=20_000).rev().map(|ck| ck.to_string()).collect();
    assert_eq!(world.column(page).await, wanted);
    let analyzed = world.rows(&format!("EXPLAIN ANALYZE {page}")).await;
    assert!(analyzed.contains("direction=reversed, limit=10"), "{analyzed}");
    assert!(analyzed.contains("rows_read=10,") || analyzed.contains("rows_read=10]"), "{analyzed}");
    // With a condition that no slice can say, the page still stops early.
    let filtered = "SELECT ck FROM t WHERE pk = 1 AND ck % 2 = 0 ORDER BY ck DESC LIMIT 10";
    let wanted: Vec<String> = (0..10).map(|n| (20_000 - 2 * n).to_string()).collect();
    assert_eq!(world.column(filtered).await, wanted);
    let analyzed = world.rows(&format!("EXPLAIN ANALYZE {filtered}")).await;
    assert!(analyzed.contains("rows_read=64"), "{analyzed}");
    assert!(!analyzed.contains("SortExec"), "{analyzed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clustering_order_turns_the_directions_round() {
    let world = World::new().await;
    world
        .run(
            "CREATE TABLE t (pk int, a int, b text, v int, PRIMARY KEY (pk, a, b)) \
             WITH CLUSTERING ORDER BY (a DESC, b ASC)",
        )
        .await;
    for (a, b) in [(1, "x"), (1, "y"), (2, "x"), (2, "y"), (3, "x"), (3, "y")] {
        world.run(&format!("INSERT INTO t (pk, a, b, v) VALUES (1, {a}, '{b}', {a})")).await;
    }
    for (query, direction, wanted) in [
        ("pk = 1 ORDER BY a DESC, b", "forward", "3x 3y 2x 2y 1x 1y"),
        ("pk = 1 ORDER BY a, b DESC", "reversed", "1y 1x 2y 2x 3y 3x"),
        ("pk = 1 AND a = 2 ORDER BY b DESC", "reversed", "2y 2x"),
        ("pk = 1 AND a > 1 ORDER BY a DESC, b", "forward", "3x 3y 2x 2y"),
        ("pk = 1 AND a <= 2 ORDER BY a, b DESC", "reversed", "1y 1x 2y 2x"),
        ("pk = 1 AND a = 1 AND b > 'x' ORDER BY b", "forward", "1y"),
        ("pk = 1 AND a IN (1, 3) AND b = 'x' ORDER BY a DESC", "forward", "3x 1x"),
        ("pk = 1 AND a IN (1, 3) AND b >= 'y' ORDER BY a", "reversed", "1y 3y"),
        ("1 = pk AND 2 >= a AND a > 0 AND b = 'y' ORDER BY a", "reversed", "1y 2y"),
    ] {
        let query = format!("SELECT concat(CAST(a AS text), b) FROM t WHERE {query}");
        let plan = world.plan(&query).await;
        assert!(plan.contains(&format!("direction={direction}")), "{query}\n{plan}");
        assert!(!plan.contains("SortExec"), "{query}\n{plan}");
        assert_eq!(world.column(&query).await.join(" "), wanted, "{query}\n{plan}");
    }
    // An order that neither direction gives is sorted, and right.
    let mixed = "SELECT concat(CAST(a AS text), b) FROM t WHERE pk = 1 ORDER BY a, b";
    assert!(world.plan(mixed).await.contains("SortExec"));
    assert_eq!(world.column(mixed).await.join(" "), "1x 1y 2x 2y 3x 3y");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_type_of_key_is_found_and_ordered() {
    let world = World::new().await;
    let cases = [
        ("boolean", ["false", "true"]),
        ("tinyint", ["-7", "8"]),
        ("smallint", ["-300", "300"]),
        ("int", ["-70000", "70000"]),
        ("bigint", ["-5000000000", "5000000000"]),
        ("float", ["-1.5", "2.25"]),
        ("double", ["-1.1", "2.2"]),
        ("decimal(9, 2)", ["-1.10", "2.20"]),
        ("text", ["'a'", "'b'"]),
        ("blob", ["X'00ff'", "X'01'"]),
        ("date", ["'1969-12-31'", "'2020-02-29'"]),
        ("time", ["'00:00:01'", "'23:59:59.5'"]),
        ("timestamp", ["'1969-12-31T23:59:59.999Z'", "'2020-02-29 12:00:00'"]),
        (
            "uuid",
            ["'00000000-0000-4000-8000-000000000001'", "'f0000000-0000-4000-8000-000000000001'"],
        ),
        (
            "timeuuid",
            ["'00000000-0000-1000-8000-000000000001'", "'f0000000-0000-1000-8000-000000000001'"],
        ),
        ("inet", ["'9.0.0.1'", "'10.0.0.1'"]),
    ];
    for (n, (ty, values)) in cases.iter().enumerate() {
        world
            .run(&format!("CREATE TABLE t{n} (pk {ty}, ck {ty}, v int, PRIMARY KEY (pk, ck))"))
            .await;
        let [low, high] = values;
        world.run(&format!("INSERT INTO t{n} VALUES ({low}, {low}, 1), ({low}, {high}, 2)")).await;
        let point = format!("SELECT v FROM t{n} WHERE pk = {low} AND ck = {high}");
        let plan = world.plan(&point).await;
        assert!(plan.contains("partitions=1 key, slices=["), "{ty}: {plan}");
        assert!(!plan.contains("filter="), "{ty}: {plan}");
        assert_eq!(world.column(&point).await, ["2"], "{ty}");
        let above = format!("SELECT v FROM t{n} WHERE pk = {low} AND ck > {low} ORDER BY ck DESC");
        if *ty != "boolean" {
            let plan = world.plan(&above).await;
            assert!(!plan.contains("filter=") && !plan.contains("SortExec"), "{ty}: {plan}");
        }
        assert_eq!(world.column(&above).await, ["2"], "{ty}");
    }
}
