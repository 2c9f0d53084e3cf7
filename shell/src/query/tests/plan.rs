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

/// Whether a null is NOT IN depends on whether there is any row, not on the rows of the keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_null_is_in_no_list_but_the_empty_one() {
    let world = World::new().await;
    world.run("CREATE TABLE a (k int PRIMARY KEY, x int)").await;
    world.run("CREATE TABLE b (pk int PRIMARY KEY)").await;
    world.run("INSERT INTO a VALUES (1, 7), (2, NULL), (3, 5)").await;
    let query = "SELECT k FROM a WHERE x NOT IN (SELECT pk FROM b) ORDER BY k";
    assert_eq!(world.column(query).await, ["1", "2", "3"]);
    world.run("INSERT INTO b VALUES (5)").await;
    assert_eq!(world.column(query).await, ["1"]);
    world.run("INSERT INTO b VALUES (9)").await;
    world.run("DELETE FROM b WHERE pk = 5").await;
    assert_eq!(world.column(query).await, ["1", "3"], "none of the keys is there, and a row is");
}

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
    assert!(analyzed.contains("rows_read=128"), "{analyzed}");
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

/// A table of 40 partitions of 50 rows.
async fn forty_partitions() -> World {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, a int, b text, v int, PRIMARY KEY (pk, a, b))").await;
    world
        .run(
            "INSERT INTO t SELECT value / 50, value % 50 / 5, 'b' || CAST(value % 5 AS text), value \
             FROM generate_series(0, 1999) AS s(value)",
        )
        .await;
    world
}

/// Rows that a statement's scan has read, which EXPLAIN ANALYZE says of each scan.
async fn rows_read(world: &World, query: &str) -> u64 {
    let analyzed = world.rows(&format!("EXPLAIN ANALYZE {query}")).await;
    analyzed.split("rows_read=").skip(1).map(count_before_comma).sum()
}

/// The count that a text begins with, as EXPLAIN ANALYZE writes it.
fn count_before_comma(text: &str) -> u64 {
    let end = text.find([',', ']']).expect("EXPLAIN ANALYZE ends a count");
    // Long ones are in thousands.
    text[..end].trim().replace("_", "").parse::<u64>().unwrap_or_else(|_| {
        let thousands: f64 = text[..end].trim_end_matches([' ', 'K']).parse().expect("a count");
        (thousands * 1000.0) as u64
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_of_whole_keys_read_their_rows_only() {
    let world = forty_partitions().await;
    let keys: Vec<String> = (0..5000).map(|key| (key * 3).to_string()).collect();
    let many = format!("SELECT v FROM t WHERE pk IN ({}) AND a = 2", keys.join(", "));
    let apart = format!(
        "SELECT v FROM t WHERE (pk IN ({}) AND a = 2) OR (pk IN (3, 9, 27, 39) AND a = 4)",
        keys[..17].join(", ")
    );
    for (query, wanted, read) in [
        ("SELECT v FROM t WHERE (pk = 1 AND a = 2) OR (pk = 3 AND a = 4)", 10, 10),
        ("SELECT v FROM t WHERE (pk = 1 AND a = 2) OR (pk = 3 AND a > 7) OR pk = 5", 65, 65),
        ("SELECT v FROM t WHERE pk = 1 AND (a, b) IN ((1, 'b1'), (3, 'b4'), (77, 'b0'))", 2, 2),
        ("SELECT v FROM t WHERE (pk, a, b) IN ((1, 1, 'b1'), (2, 2, 'b2'))", 2, 2),
        ("SELECT v FROM t WHERE pk = 1 AND (a, b) > (8, 'b2')", 7, 7),
        ("SELECT v FROM t WHERE pk = 1 AND (a, b) <= (1, 'b2')", 8, 8),
        ("SELECT v FROM t WHERE pk IN (1, NULL) AND a = 3", 5, 5),
        ("SELECT v FROM t WHERE pk = 99999999999", 0, 0),
        ("SELECT v FROM t WHERE pk IN (7, 99999999999) AND a < 1", 5, 5),
        ("SELECT v FROM t WHERE pk = 7 AND a > 99999999999", 0, 0),
        ("SELECT v FROM t WHERE pk = 7 AND a < 99999999999", 50, 50),
        ("SELECT v FROM t WHERE pk = 7 AND a = 1 AND b LIKE 'b%'", 5, 5),
        ("SELECT v FROM t WHERE pk = 7 AND a = 1 AND b LIKE 'b3%'", 1, 1),
        ("SELECT v FROM t WHERE pk = 7 AND a = 1 AND starts_with(b, 'b3')", 1, 1),
        // What a condition says beside the keys is checked row by row.
        ("SELECT v FROM t WHERE (pk = 1 AND a = 2 AND v % 2 = 0) OR (pk = 3 AND a = 4)", 8, 10),
        ("SELECT v FROM t WHERE pk = 7 AND a = 1 AND b LIKE 'b_'", 5, 5),
        ("SELECT v FROM t WHERE pk = 7 AND a = 1 AND b LIKE 'b%3'", 1, 5),
        ("SELECT v FROM t WHERE pk = 7 AND a = 1 AND b LIKE 'b%3%'", 1, 5),
        ("SELECT v FROM t WHERE pk = 7 AND a = 1 AND b LIKE 'b_3%'", 0, 5),
        // 14 of the keys are there: more are asked for than have a stream each.
        (&apart, 14 * 5 + 4 * 5, 14 * 5 + 4 * 5),
        (&many, 14 * 5, 14 * 5),
    ] {
        let shown = &query[..query.len().min(100)];
        assert_eq!(world.column(query).await.len(), wanted, "{shown}");
        assert_eq!(rows_read(&world, query).await, read, "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_over_partitions_with_slices_of_their_own_holds() {
    let world = forty_partitions().await;
    let query = "SELECT concat(CAST(a AS text), b, '/', CAST(pk AS text)) FROM t \
                 WHERE (pk = 1 AND a = 2) OR (pk = 3 AND a IN (1, 4)) ORDER BY a DESC, b DESC LIMIT 8";
    assert_eq!(
        world.column(query).await.join(" "),
        "4b4/3 4b3/3 4b2/3 4b1/3 4b0/3 2b4/1 2b3/1 2b2/1"
    );
    let limited = "SELECT v FROM t WHERE (pk = 1 AND a = 2) OR (pk = 3 AND a = 4) LIMIT 7";
    assert_eq!(world.column(limited).await.len(), 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_take_conditions_of_whole_keys() {
    let world = forty_partitions().await;
    world.run("DELETE FROM t WHERE (pk = 1 AND a = 2) OR (pk = 3 AND a >= 4)").await;
    world.run("DELETE FROM t WHERE pk = 5 AND (a, b) > (1, 'b1')").await;
    world.run("UPDATE t SET v = -1 WHERE (pk, a, b) IN ((7, 1, 'b1'), (8, 2, 'b2'))").await;
    let left = "SELECT CAST(pk AS text) || ':' || CAST(count(*) AS text) FROM t \
                WHERE pk IN (1, 3, 4, 5) GROUP BY pk ORDER BY pk";
    assert_eq!(world.column(left).await, ["1:45", "3:20", "4:50", "5:7"]);
    let changed = "SELECT CAST(pk AS text) || b FROM t WHERE v = -1 ORDER BY pk";
    assert_eq!(world.column(changed).await, ["7b1", "8b2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ends_of_a_partition_are_read_as_rows() {
    let world = forty_partitions().await;
    for (query, wanted, read) in [
        ("SELECT max(a) FROM t WHERE pk = 4", "9", 1),
        ("SELECT min(a) FROM t WHERE pk = 4", "0", 1),
        ("SELECT max(b) FROM t WHERE pk = 4 AND a = 3", "b4", 1),
        ("SELECT max(a) FROM t WHERE pk = 4 AND a < 7", "6", 1),
        ("SELECT max(x) FROM (SELECT a AS x FROM t WHERE pk = 4) AS q", "9", 1),
        // Another column, or more than one partition: all rows.
        ("SELECT max(b) FROM t WHERE pk = 4", "b4", 50),
        ("SELECT max(a) FROM t WHERE pk IN (4, 5)", "9", 100),
    ] {
        assert_eq!(world.column(query).await, [wanted], "{query}");
        assert_eq!(rows_read(&world, query).await, read, "{query}");
    }
    assert_eq!(world.column("SELECT max(a) IS NULL FROM t WHERE pk = 400").await, ["true"]);
    let both = "SELECT min(a) + max(a) FROM t WHERE pk = 4";
    assert_eq!(world.column(both).await, ["9"]);
}

/// However the statement has them: tables tell how many rows they have, about.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_smaller_side_of_a_join_is_read_first() {
    let world = forty_partitions().await;
    world.run("CREATE TABLE few (id int PRIMARY KEY, a int)").await;
    world.run("INSERT INTO few VALUES (1, 1), (2, 2), (3, 3)").await;
    for is_flushed in [false, true] {
        for query in [
            "SELECT count(*) FROM few JOIN t ON t.a = few.a",
            "SELECT count(*) FROM t JOIN few ON t.a = few.a",
            "SELECT count(*) FROM t JOIN few ON t.a = few.a AND few.id < 9 AND t.b <> ''",
        ] {
            assert_eq!(world.column(query).await, ["600"], "{query}");
            let plan = world.plan(query).await;
            let [few, many] =
                ["table=default.few,", "table=default.t,"].map(|name| plan.find(name));
            assert!(few.is_some() && few < many, "{query}, flushed: {is_flushed}\n{plan}");
            assert!(plan.contains("mode=CollectLeft"), "{plan}");
        }
        world.run("FLUSH").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_by_key_reads_the_partners_only() {
    let world = forty_partitions().await;
    world.run("CREATE TABLE want (id int PRIMARY KEY, key bigint, name text)").await;
    world
        .run(
            "INSERT INTO want VALUES (1, 3, 'three'), (2, 5, 'five'), (3, 5, 'again'), (4, NULL, 'no'), \
             (5, 99999999999, 'far'), (6, 77, 'none')",
        )
        .await;
    for (query, wanted, read) in [
        ("SELECT count(*) FROM want JOIN t ON t.pk = want.key", "150", 6 + 100),
        // The side that names its partitions is read first.
        ("SELECT count(*) FROM t JOIN want ON t.pk = want.key AND want.id IN (1, 6)", "50", 2 + 50),
        ("SELECT count(*) FROM want LEFT JOIN t ON t.pk = want.key", "153", 6 + 100),
        ("SELECT count(*) FROM want WHERE key IN (SELECT pk FROM t)", "3", 6 + 100),
        (
            "SELECT count(*) FROM want WHERE key NOT IN (SELECT pk FROM t WHERE a = 1) AND id < 9",
            "2",
            6 + 200,
        ),
        ("SELECT count(*) FROM want JOIN t ON t.pk = want.key AND t.a = want.id", "15", 6 + 100),
        ("SELECT count(*) FROM want WHERE key NOT IN (SELECT pk FROM t WHERE a = 77)", "6", 6),
        (
            "SELECT count(*) FROM want WHERE NOT EXISTS (SELECT 1 FROM t WHERE pk = want.key)",
            "3",
            6 + 100,
        ),
        // All rows of t are answered here, with partners or without.
        ("SELECT count(*) FROM want RIGHT JOIN t ON t.pk = want.key", "2050", 6 + 2000),
        ("SELECT count(*) FROM want FULL JOIN t ON t.pk = want.key", "2053", 6 + 2000),
        ("SELECT count(*) FROM want JOIN t ON t.a = want.key", "600", 6 + 2000),
        (
            "SELECT count(*) FROM (VALUES (1), (2), (2)) AS v(k) JOIN t ON t.pk = v.k WHERE t.a = 1",
            "15",
            10,
        ),
    ] {
        assert_eq!(world.column(query).await, [wanted], "{query}");
        let plan = world.plan(query).await;
        assert_eq!(rows_read(&world, query).await, read, "{query}\n{plan}");
    }
    // A cast that loses digits makes other keys equal than those that are asked for.
    world.run("CREATE TABLE far (pk int PRIMARY KEY); INSERT INTO far VALUES (16777217)").await;
    world.run("INSERT INTO want VALUES (7, 16777216, 'rounded')").await;
    let rounded = "SELECT count(*) FROM want JOIN far \
                   ON CAST(CAST(far.pk AS FLOAT) AS BIGINT) = want.key";
    assert_eq!(world.column(rounded).await, ["1"]);
    // What is run again and again asks for other keys each time.
    let steps = "WITH RECURSIVE walk(k) AS (SELECT 0 UNION ALL \
                 SELECT t.pk + 1 FROM walk JOIN t ON t.pk = walk.k WHERE t.a = 0 AND t.b = 'b0') \
                 SELECT count(*) FROM walk";
    assert_eq!(world.column(steps).await, ["41"]);
}

/// Rows that the scan of a table gave, by EXPLAIN ANALYZE.
async fn rows_given(world: &World, table: &str, query: &str) -> u64 {
    let analyzed = world.rows(&format!("EXPLAIN ANALYZE {query}")).await;
    let from = analyzed.find(&format!("table=default.{table},")).expect("the table is scanned");
    let of_scan = analyzed[from..].split("output_rows=").nth(1);
    count_before_comma(of_scan.expect("a scan counts its rows"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_by_values_leaves_out_rows_without_partners() {
    let world = forty_partitions().await;
    world.run("CREATE TABLE want (id int PRIMARY KEY, far bigint, near int)").await;
    world
        .run(
            "INSERT INTO want VALUES (1, 300, 3), (2, 1500, 9), (3, 1500, 9), (4, NULL, NULL), \
             (5, 99999999999, -1)",
        )
        .await;
    for (query, wanted, given) in [
        ("SELECT count(*) FROM want JOIN t ON t.v = want.near", "3", 2),
        ("SELECT count(*) FROM want JOIN t ON t.v = want.near AND t.v > 5", "2", 1),
        // Values that lie far apart are a range.
        ("SELECT count(*) FROM want JOIN t ON t.v = want.far", "3", 1700),
        ("SELECT count(*) FROM want LEFT JOIN t ON t.v = want.near", "5", 2),
        ("SELECT count(*) FROM want WHERE near IN (SELECT v FROM t)", "3", 2),
        ("SELECT count(*) FROM want WHERE NOT EXISTS (SELECT 1 FROM t WHERE v = near)", "2", 2),
        // All rows of t are answered here, or null has a partner, or rows are counted first.
        ("SELECT count(*) FROM want RIGHT JOIN t ON t.v = want.near", "2001", 2000),
        ("SELECT count(*) FROM want FULL JOIN t ON t.v = want.near", "2003", 2000),
        ("SELECT count(*) FROM want JOIN t ON t.v IS NOT DISTINCT FROM near", "3", 2000),
    ] {
        assert_eq!(world.column(query).await, [wanted], "{query}");
        let plan = world.plan(query).await;
        let is_told = plan.contains("dynamic filter=[v]");
        assert_eq!(is_told, given < 2000, "{query}\n{plan}");
        assert_eq!(rows_given(&world, "t", query).await, given, "{query}\n{plan}");
    }
    // A limit counts rows before the join, and each shard gives up to seven of them.
    let few = "SELECT count(*) FROM want JOIN (SELECT v FROM t LIMIT 7) AS l ON l.v = near";
    let plan = world.plan(few).await;
    assert!(plan.contains("limit=7") && !plan.contains("dynamic filter"), "{plan}");
    let given = rows_given(&world, "t", few).await;
    assert!((7..=14).contains(&given), "{given}");
    // So many partitions that a scan reads all of them leaves the others out by their keys.
    world.run("CREATE TABLE one (pk int PRIMARY KEY, v int)").await;
    world
        .run("INSERT INTO one SELECT value, value FROM generate_series(0, 1999) AS s(value)")
        .await;
    let many = "SELECT count(*) FROM t JOIN one ON one.pk = t.v WHERE t.a < 5";
    assert_eq!(world.column(many).await, ["1000"]);
    assert_eq!(rows_given(&world, "one", many).await, 1000);
    assert_eq!(rows_read(&world, many).await, 1000 + 2000);
}

/// A type, and three of its values in their order.
const ORDERED: [(&str, [&str; 3]); 12] = [
    ("tinyint", ["-7", "0", "8"]),
    ("smallint", ["-300", "0", "300"]),
    ("int", ["-70000", "0", "70000"]),
    ("bigint", ["-5000000000", "0", "5000000000"]),
    ("float", ["-1.5", "0.5", "2.25"]),
    ("double", ["-1.1", "0.5", "2.2"]),
    ("decimal(9, 2)", ["-1.10", "0.05", "2.20"]),
    ("text", ["'a'", "'ab'", "'b'"]),
    ("blob", ["X'00ff'", "X'01'", "X'0100'"]),
    ("date", ["'1969-12-31'", "'1970-01-01'", "'2020-02-29'"]),
    ("time", ["'00:00:01'", "'12:00:00'", "'23:59:59.5'"]),
    ("timestamp", ["'1969-12-31T23:59:59Z'", "'1970-01-01T00:00:00Z'", "'2020-02-29T12:00:00Z'"]),
];

/// Rows of files and rows in memory: shards leave out none that a condition keeps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_every_type_are_compared_as_they_are_ordered_and_null_with_nothing() {
    let world = World::new().await;
    for (n, (ty, [low, middle, high])) in ORDERED.iter().enumerate() {
        world.run(&format!("CREATE TABLE t{n} (k int PRIMARY KEY, v {ty})")).await;
        world.run(&format!("INSERT INTO t{n} VALUES (0, {low}), (1, {middle})")).await;
        world.run(&format!("INSERT INTO t{n} (k) VALUES (3)")).await;
        world.run(&format!("FLUSH t{n}")).await;
        world.run(&format!("INSERT INTO t{n} VALUES (2, {high})")).await;
        world.run(&format!("INSERT INTO t{n} (k) VALUES (4)")).await;
        for (condition, wanted) in [
            (format!("v = {middle}"), "1"),
            (format!("v <> {middle}"), "0 2"),
            (format!("v < {middle}"), "0"),
            (format!("{middle} >= v"), "0 1"),
            (format!("{middle} < v"), "2"),
            (format!("v >= {middle}"), "1 2"),
        ] {
            let text = format!("SELECT k FROM t{n} WHERE {condition} ORDER BY k");
            assert_eq!(world.column(&text).await.join(" "), wanted, "{ty}: {condition}");
        }
    }
}
