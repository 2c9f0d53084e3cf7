//! Rows in conditions, columns of one name, precedence, and the literals of CQL.

use super::{World, on_long_stack};

async fn table() -> World {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, a int, b text, s text STATIC, PRIMARY KEY (pk, a))").await;
    for (pk, a, b) in [(1, -1, "w"), (1, -1 + 1, "x"), (1, 1, "x"), (1, 2, "y"), (2, 1, "z")] {
        world.run(&format!("INSERT INTO t (pk, a, b) VALUES ({pk}, {a}, '{b}')")).await;
    }
    world.run("INSERT INTO t (pk, a) VALUES (2, 9)").await;
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_compared_part_by_part() {
    let world = table().await;
    for (condition, wanted) in [
        ("(a, b) > (-1, 'w')", "0 1 2 1 9"),
        ("(a, b) >= (-1, 'w')", "-1 0 1 2 1 9"),
        ("(a, b) < (1, 'y')", "-1 0 1"),
        ("(a, b) <= (1, 'x')", "-1 0 1"),
        ("(a, b) = (1, 'x')", "1"),
        ("(a + 0, b) <> (1, 'x')", "-1 0 2 1 9"),
        ("(pk, a) IN ((1, 2), (2, 1))", "2 1"),
        ("(pk, a) NOT IN ((1, 2), (2, 1))", "-1 0 1 9"),
        ("(pk, a) BETWEEN (1, 1) AND (2, 1)", "1 2 1"),
        ("(a, b) IS NOT DISTINCT FROM (9, NULL)", "9"),
        ("(pk, a) IN (SELECT pk, a FROM t WHERE b = 'x')", "0 1"),
        ("(t.pk, t.a) IN (SELECT pk, max(a) FROM t GROUP BY pk)", "2 9"),
        ("(pk, a) NOT IN (SELECT pk, a FROM t WHERE b = 'x')", "-1 2 1 9"),
        ("(a, b) NOT IN (SELECT a, b FROM t)", ""),
        ("(pk, b) NOT IN (SELECT 1, NULL)", "1 9"),
        ("(pk, a, b) IN (SELECT pk, a, 'x' FROM t)", "0 1"),
        ("(pk, a, b) NOT IN (SELECT pk, a, 'x' FROM t)", "-1 2 1"),
        ("(pk, a, pk, b, a) IN (SELECT pk, a, pk, b, 1 FROM t)", "1 1"),
        ("(pk, a) IN (SELECT y.pk, y.a FROM t y WHERE y.pk = t.pk AND y.b = 'x')", "0 1"),
        ("(t.pk, a) IN (SELECT pk, max(a) FROM t y WHERE y.pk = t.pk GROUP BY pk)", "2 9"),
        ("(pk, a) NOT IN (SELECT y.pk, y.a FROM t y WHERE y.b = t.b)", "9"),
        ("(pk, a) IN (VALUES (1, 2), (2, 9))", "2 9"),
        ("(pk, a) IN (SELECT pk, a FROM t WHERE b = 'x' UNION ALL SELECT 2, 9)", "0 1 9"),
        ("(pk, (a, b)) = (1, (2, 'y'))", "2"),
        ("(pk, (a, b)) > (1, (1, 'x'))", "2 1 9"),
        ("((pk, a), b) IN (((1, 2), 'y'), ((2, 1), 'y'))", "2"),
        ("((pk, (a)), b) IS DISTINCT FROM ((2, (9)), NULL)", "-1 0 1 2 1"),
        ("((pk, a), b) BETWEEN ((1, 1), 'x') AND ((2, 1), 'y')", "1 2"),
        ("((pk, a) < (1, 1), b) < (true, 'x')", "-1 1 2 1 9"),
    ] {
        let query = format!("SELECT a FROM t WHERE {condition} ORDER BY pk, a");
        let wanted: Vec<&str> = wanted.split_whitespace().collect();
        assert_eq!(world.column(&query).await, wanted, "{query}");
    }
    let plan = world.plan("SELECT a FROM t WHERE pk = 1 AND (a, b) > (0, 'x')").await;
    assert!(plan.contains("slices=[0..]"), "{plan}");
    let groups = "SELECT pk FROM t GROUP BY pk HAVING (pk, count(*)) IN (SELECT 1, 4)";
    assert_eq!(world.column(groups).await, ["1"]);
    let error = world.error("SELECT a FROM t WHERE (a, b) IN (SELECT 1)").await;
    assert!(error.message.contains("2 values is looked for in a query of 1 columns"), "{error}");
    let error = world.error("SELECT a FROM t WHERE (a, b) = (1, 2, 3)").await;
    assert!(error.message.contains("a row of 2 values"), "{error}");
}

#[test]
fn rows_may_be_wide_and_deep_and_are_not_copied_without_end() {
    on_long_stack(wide_and_deep_rows());
}

async fn wide_and_deep_rows() {
    let world = World::new().await;
    let nested = |levels: usize, last: &str| {
        let inner = (0..levels).fold(format!("(1, {last})"), |inner, _| format!("({inner}, 1)"));
        format!("SELECT {inner} < {}", inner.replace(last, "2"))
    };
    assert_eq!(world.column(&nested(30, "1.5")).await, ["true"]);
    let wide = |last: &str| vec!["1"; 5000].join(", ") + ", " + last;
    for (op, wanted) in [("<", "true"), (">=", "false"), ("=", "false"), ("<>", "true")] {
        let query = format!("SELECT ({}) {op} ({})", wide("1"), wide("2"));
        assert_eq!(world.column(&query).await, [wanted], "{op}");
    }
    // Rows in the scalars of rows, which cannot be told otherwise than by copies.
    let scalars = |levels: usize, op: &str| {
        let inner =
            (0..levels).fold("1".to_owned(), |inner, _| format!("(({inner}, 1) {op} (2, 1))"));
        format!("SELECT {inner}")
    };
    let many = scalars(40, "<").replace("2, 1", "true, 1");
    let error = world.error(&many).await;
    assert_eq!(error.message, "the statement has too many rows within rows");
    let deep = scalars(120, "=").replace("2, 1", "true, 1").replacen("(1, 1)", "(true, 1)", 1);
    assert_eq!(world.column(&deep).await, ["true"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_of_one_name_are_told_apart() {
    let world = table().await;
    // A cast has the name of what it casts, also in an aggregate.
    let counts = "SELECT count(a), count(CAST(a AS bigint)) AS b FROM t";
    assert_eq!(world.column(counts).await, ["6"]);
    let counts = format!("SELECT b FROM ({counts}) WHERE b > 0");
    assert_eq!(world.column(&counts).await, ["6"]);
    insta::assert_snapshot!(world.rows("SELECT count(*), count(*), count(*) FROM t").await, @r"
    +----------+------------+------------+
    | count(*) | count(*)_1 | count(*)_2 |
    +----------+------------+------------+
    | 6        | 6          | 6          |
    +----------+------------+------------+
    ");
    insta::assert_snapshot!(
        world.rows("SELECT a, a, 1 AS x, 2 AS x FROM t WHERE pk = 2 ORDER BY a LIMIT 1").await,
        @r"
    +---+-----+---+-----+
    | a | a_1 | x | x_1 |
    +---+-----+---+-----+
    | 1 | 1   | 1 | 2   |
    +---+-----+---+-----+
    "
    );
    insta::assert_snapshot!(
        world.rows("SELECT *, a FROM (SELECT pk, a FROM t WHERE pk = 2 AND a = 1)").await,
        @r"
    +----+---+-----+
    | pk | a | a_1 |
    +----+---+-----+
    | 2  | 1 | 1   |
    +----+---+-----+
    "
    );
    let alike = "SELECT -0.0, -0.0::double, 1::bigint, 1::int";
    assert_eq!(world.column(alike).await, ["0.0"]);
    let grouped = "SELECT count(*) FROM (SELECT CAST(a AS text), a, count(*) FROM t WHERE pk = 1 \
                   GROUP BY CAST(a AS text), a HAVING CAST(a AS text) <> '5')";
    assert_eq!(world.column(grouped).await, ["4"]);
    let outer = "SELECT \"count(*)_1\" FROM (SELECT count(*), count(*) FROM t)";
    assert_eq!(world.column(outer).await, ["6"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn is_distinct_from_binds_closer_than_and_and_or() {
    let world = table().await;
    for (expression, wanted) in [
        ("true IS DISTINCT FROM true OR true", "true"),
        ("true IS DISTINCT FROM true AND false", "false"),
        ("true IS NOT DISTINCT FROM false OR true", "true"),
        ("1 IS NOT DISTINCT FROM 1 AND true", "true"),
        ("NOT 1 IS DISTINCT FROM 1 AND true", "true"),
        ("1 IS DISTINCT FROM 1 + 1", "true"),
        ("1 IS NOT DISTINCT FROM 0 + 1 AND 2 IS DISTINCT FROM 3", "true"),
        ("(1 IS DISTINCT FROM 1) IS NOT DISTINCT FROM false", "true"),
        ("CASE WHEN 1 IS DISTINCT FROM 2 THEN 'a' ELSE 'b' END", "a"),
    ] {
        let query = format!("SELECT {expression}");
        assert_eq!(world.column(&query).await, [wanted], "{query}");
    }
    let join = "SELECT count(*) FROM t AS l JOIN t AS r ON l.b IS NOT DISTINCT FROM r.b \
                AND l.a IS NOT DISTINCT FROM r.a AND l.pk = r.pk";
    assert_eq!(world.column(join).await, ["6"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn literals_of_cql_are_written() {
    let world = World::new().await;
    world.run("CREATE TYPE address (street text, zip int)").await;
    world
        .run(
            "CREATE TABLE t (pk int PRIMARY KEY, m map<text, int>, s set<text>, l list<int>, \
             u frozen<address>, n map<int, frozen<set<int>>>, f frozen<set<int>>, tu timeuuid)",
        )
        .await;
    world
        .run(
            "INSERT INTO t (pk, m, s, l, u, n, f, tu) VALUES (1, {'k': 1, 'j': 2}, {'b', 'a'}, \
             [1, 2], {street: 'x', zip: 5}, {7: {2, 1}, 8: {}}, {}, now())",
        )
        .await;
    insta::assert_snapshot!(world.rows("SELECT m, s, l, u, n, f FROM t WHERE pk = 1").await, @r"
    +--------------+--------+--------+---------------------+--------------------+----+
    | m            | s      | l      | u                   | n                  | f  |
    +--------------+--------+--------+---------------------+--------------------+----+
    | {j: 2, k: 1} | [a, b] | [1, 2] | {street: x, zip: 5} | {7: [1, 2], 8: []} | [] |
    +--------------+--------+--------+---------------------+--------------------+----+
    ");
    for (assignment, column, wanted) in [
        ("m = {'k': 3}", "m", "{k: 3}"),
        ("m = {}", "m", ""),
        ("m = m + {'z': 9}", "m", "{z: 9}"),
        ("m['y'] = 8", "m", "{y: 8, z: 9}"),
        ("s = {'a'}", "s", "[a]"),
        ("s = s + {'c', 'b'}", "s", "[a, b, c]"),
        ("s = s - {'a'}", "s", "[b, c]"),
        ("s = s + {}", "s", "[b, c]"),
        ("s = {}", "s", ""),
        ("u = {zip: 6}", "u", "{street: , zip: 6}"),
        ("u = {'street': 'y', 'zip': 7}", "u", "{street: y, zip: 7}"),
        ("n = {1: {3}}", "n", "{1: [3]}"),
        ("l = []", "l", ""),
    ] {
        let text = format!("UPDATE t SET {assignment} WHERE pk = 1");
        world.run(&text).await;
        let query = format!("SELECT {column} FROM t WHERE pk = 1");
        assert_eq!(world.column(&query).await, [wanted], "{text}");
    }
    assert_eq!(world.column("SELECT toTimestamp(tu) > '2020-01-01' FROM t").await, ["true"]);
    world.run("UPDATE t SET tu = now() WHERE pk = 1").await;
    world.run("INSERT INTO t (pk, tu) VALUES (2, now()), (3, now())").await;
    assert_eq!(world.column("SELECT count(DISTINCT tu) FROM t").await, ["3"]);
    for text in [
        "UPDATE t SET m = {'a'} WHERE pk = 1",
        "UPDATE t SET s = {'k': 1} WHERE pk = 1",
        "UPDATE t SET m = {'k': 1, 'j'} WHERE pk = 1",
        "UPDATE t SET u = {nothing: 1} WHERE pk = 1",
        "UPDATE t SET m = {'k': 1.5} WHERE pk = 1",
    ] {
        world.error(text).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn static_columns_are_inserted_without_a_row() {
    let world = table().await;
    world.run("INSERT INTO t (pk, s) VALUES (1, 'one'), (7, 'seven')").await;
    world.run("INSERT INTO t (pk, s) SELECT 8, 'eight'").await;
    assert_eq!(world.column("SELECT DISTINCT s FROM t WHERE pk = 1").await, ["one"]);
    insta::assert_snapshot!(world.rows("SELECT pk, a, s FROM t WHERE pk IN (7, 8) ORDER BY pk").await, @r"
    +----+---+-------+
    | pk | a | s     |
    +----+---+-------+
    | 7  |   | seven |
    | 8  |   | eight |
    +----+---+-------+
    ");
    assert_eq!(world.column("SELECT count(*) FROM t WHERE pk = 1").await, ["4"]);
    for text in [
        "INSERT INTO t (pk, s, b) VALUES (1, 'x', 'y')",
        "INSERT INTO t (pk) VALUES (1)",
        "INSERT INTO t (s) VALUES ('x')",
    ] {
        assert!(world.error(text).await.message.contains("lacks key column"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_that_say_yes_or_no_are_values() {
    let world = table().await;
    for (value, wanted) in [
        ("a IN (SELECT 1)", "false false true false true false"),
        ("a NOT IN (SELECT 1)", "true true false true false true"),
        ("a IN (SELECT a FROM t WHERE false)", "false false false false false false"),
        ("a IN (SELECT CASE WHEN a = 1 THEN 1 END FROM t)", " null null true null true null"),
        ("b IN (SELECT 'x')", "false true true false false null"),
        ("b NOT IN (SELECT 'x' WHERE false)", "true true true true true true"),
        ("a + 0 IN (SELECT y.a + 0 FROM t y WHERE y.pk = 2)", "false false true false true true"),
        ("EXISTS (SELECT 1 FROM t)", "true true true true true true"),
        ("NOT EXISTS (SELECT 1 FROM t WHERE a = 77)", "true true true true true true"),
        (
            "EXISTS (SELECT 1 FROM t y WHERE y.pk = 2 AND y.a = t.a)",
            "false false true false true true",
        ),
        (
            "a IN (SELECT y.a FROM t y WHERE y.pk = t.pk AND y.b = 'x')",
            "false true true false false false",
        ),
        ("CASE WHEN a IN (SELECT 1) THEN true ELSE a = 9 END", "false false true false true true"),
        ("(pk, a) IN (SELECT 2, 9)", "false false false false false true"),
        ("a = ANY (SELECT 1)", "false false true false true false"),
    ] {
        let query = format!("SELECT coalesce(({value})::text, 'null') FROM t ORDER BY pk, a");
        let wanted: Vec<&str> = wanted.split_whitespace().collect();
        assert_eq!(world.column(&query).await, wanted, "{query}");
    }
    let error = world.error("SELECT a FROM t ORDER BY a IN (SELECT 1)").await;
    assert_eq!(error.message, "IN and EXISTS of a query are not offered here");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn similar_to_is_refused() {
    let world = World::new().await;
    for text in ["SELECT 'abc' SIMILAR TO 'a%'", "SELECT 1 WHERE 'abc' NOT SIMILAR TO 'a%'"] {
        assert_eq!(world.error(text).await.message, "SIMILAR TO is not offered", "{text}");
    }
}
