//! Answers that were once wrong.

use super::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_condition_may_be_there_twice() {
    let world = World::new().await;
    world.run("CREATE TABLE t (p int, q text, v double, w double, PRIMARY KEY ((p, q)))").await;
    world.run("INSERT INTO t VALUES (4, 'a', CAST('-0.0' AS double), 1.0)").await;
    world.run("INSERT INTO t VALUES (4, 'b', 0.0, 2.0), (3, 'c', 3.0, 3.0)").await;
    let zero = "CAST('0.0' AS double)";
    let negative = "CAST('-0.0' AS double)";
    for (condition, count) in [
        ("p = 4 AND CAST(4 AS int) = p".to_owned(), "2"),
        ("p >= 4 AND 4 <= p AND 4 >= p".to_owned(), "2"),
        ("q = 'a' AND 'a' = q".to_owned(), "1"),
        ("p = 4 AND CAST(3 AS int) = p".to_owned(), "0"),
        (format!("v = {zero} AND v = {negative}"), "2"),
        (format!("{negative} = v AND v = {zero}"), "2"),
        (format!("v >= {zero} AND v > {negative}"), "1"),
        (format!("v > {negative} AND v >= {zero}"), "1"),
        (format!("v <= {negative} AND v < {zero}"), "0"),
    ] {
        let query = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(world.column(&query).await, [count], "{condition}");
        // Conditions of two filters are taken together, and columns of an inner query are replaced.
        let (first, rest) = condition.split_once(" AND ").unwrap();
        let query = format!("SELECT count(*) FROM (SELECT * FROM t WHERE {first}) WHERE {rest}");
        assert_eq!(world.column(&query).await, [count], "{condition}");
    }
    let query = "SELECT count(*) FROM (SELECT p AS a, 4 AS b FROM t) WHERE a = 4 AND b = a";
    assert_eq!(world.column(query).await, ["2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_zeros_count_once() {
    let world = World::new().await;
    let rows = "(VALUES (CAST('-0.0' AS double), CAST('-0.0' AS float), 1), (0.0, 0.0, 1), \
                (2.5, 2.5, 2), (NULL, NULL, 2)) AS r (d, f, n)";
    for (items, wanted) in [
        ("count(DISTINCT d)", "2"),
        ("count(DISTINCT d) + 0 * sum(n)", "2"),
        ("count(DISTINCT f) + 0 * count(DISTINCT n)", "2"),
        ("count(DISTINCT f) FILTER (WHERE n = 1) + 0 * min(n)", "1"),
        ("count(DISTINCT d + f) + 0 * sum(n)", "2"),
    ] {
        let query = format!("SELECT {items} AS found FROM {rows}");
        assert_eq!(world.column(&query).await, [wanted], "{items}");
        let query = format!(
            "SELECT max(found) FROM (SELECT n > 5, {items} AS found FROM {rows} GROUP BY n > 5)"
        );
        assert_eq!(world.column(&query).await, [wanted], "grouped: {items}");
    }
    let query = format!("SELECT count(DISTINCT d) OVER (ORDER BY n) AS found FROM {rows}");
    assert_eq!(world.column(&query).await, ["1", "1", "2", "2"]);
    let plan = world.plan(&format!("SELECT count(DISTINCT d), sum(n) FROM {rows}")).await;
    assert!(plan.contains("count(DISTINCT r.d)"), "{plan}");
}

/// Tables `a` (one partition of three rows) and `b` (six rows).
async fn joined() -> World {
    let world = World::new().await;
    world.run("CREATE TABLE a (p int, q int, c int, v int, PRIMARY KEY ((p, q), c))").await;
    world.run("CREATE TABLE b (p int, x int, PRIMARY KEY (p))").await;
    world.run("INSERT INTO a VALUES (1, 2, 9, 1), (1, 2, 8, 3), (1, 2, 7, 5)").await;
    for n in 1..=6 {
        world.run(&format!("INSERT INTO b VALUES ({n}, {n})")).await;
    }
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nulls_of_an_outer_join_are_sorted() {
    let world = joined().await;
    let wanted = ["1", "3", "5", "2", "4", "6"];
    let fixed = "(SELECT v, q AS k FROM a WHERE p = 1 AND q = 2) s";
    let literal = "(SELECT v, 5 AS k FROM a) s";
    let counted = "(SELECT v, count(*) AS k FROM a GROUP BY v HAVING count(*) = 1) s";
    for inner in [fixed, literal, counted] {
        for join in [
            format!("{inner} RIGHT JOIN b ON s.v = b.x"),
            format!("{inner} FULL JOIN b ON s.v = b.x"),
            format!("b LEFT JOIN {inner} ON s.v = b.x"),
            format!("b FULL JOIN {inner} ON s.v = b.x"),
            format!("{inner} RIGHT JOIN b ON s.v >= b.x AND s.v <= b.x"),
            format!("b LEFT JOIN {inner} ON s.v >= b.x AND s.v <= b.x"),
        ] {
            let query = format!("SELECT b.x FROM {join} ORDER BY s.k, b.x");
            assert_eq!(world.column(&query).await, wanted, "{join}");
            let query = format!("SELECT count(*) FROM {join} GROUP BY s.k ORDER BY s.k");
            assert_eq!(world.column(&query).await, ["3", "3"], "{join}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_may_be_sorted_by_a_constant() {
    let world = joined().await;
    for (inner, order) in [
        ("SELECT * FROM a WHERE p = 1 AND q = 2", "s.q"),
        ("SELECT * FROM a WHERE p = 1 AND q = 2", "s.p, s.c"),
        ("SELECT * FROM a WHERE p = 1 AND q = 2", "s.c DESC, s.q"),
        ("SELECT v, c, 5 AS k FROM a", "s.k"),
        ("SELECT v, c, 5 AS k FROM a", "s.k, s.c"),
        ("SELECT v, c, 5 AS k FROM a WHERE p = 1 AND q = 2", "s.k DESC, s.c"),
    ] {
        for join in [
            format!("b JOIN ({inner}) s ON s.v = b.x"),
            format!("({inner}) s JOIN b ON s.v = b.x"),
            format!("b RIGHT JOIN ({inner}) s ON s.v = b.x"),
        ] {
            let query = format!("SELECT b.x FROM {join} ORDER BY {order}");
            let mut found = world.column(&query).await;
            if !order.contains("s.c") {
                found.sort();
                found.reverse();
            }
            let wanted = if order.contains("s.c DESC") { ["1", "3", "5"] } else { ["5", "3", "1"] };
            assert_eq!(found, wanted, "{query}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constant_columns_are_not_equal() {
    let world = joined().await;
    // Rows are spread by `q` as by `p` if the two are one.
    let query = "SELECT b.x FROM (SELECT * FROM a WHERE p = 1 AND q = 2) s \
                 JOIN b ON s.p = b.p JOIN b AS d ON s.q = d.p";
    assert_eq!(world.column(query).await, ["1"; 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partners_of_equal_rows_are_sorted() {
    let world = World::new().await;
    for name in ["l", "r"] {
        world
            .run(&format!("CREATE TABLE {name} (p int, c int, d int, PRIMARY KEY ((p), c, d))"))
            .await;
        let rows = "(1, 1, 1), (1, 1, 2), (1, 2, 1), (1, 2, 2)";
        world.run(&format!("INSERT INTO {name} VALUES {rows}")).await;
    }
    let from = "l JOIN r ON l.c = r.c WHERE l.p = 1 AND r.p = 1";
    let wanted = ["1 1", "1 1", "1 2", "1 2", "2 1", "2 1", "2 2", "2 2"];
    for (one, other) in [("l", "r"), ("r", "l")] {
        let query = format!(
            "SELECT concat({one}.c, ' ', {other}.d) FROM {from} ORDER BY {one}.c, {other}.d"
        );
        assert_eq!(world.column(&query).await, wanted, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_is_on_the_column_that_it_names() {
    let world = joined().await;
    let query = "SELECT b.p FROM a FULL JOIN b ON a.v = b.x \
                 WHERE a.p IN (NULL, 1) AND b.p = (SELECT max(v) FROM a)";
    assert_eq!(world.column(query).await, ["5"]);
    let query = "SELECT b.p FROM a RIGHT JOIN b ON a.v = b.x \
                 WHERE coalesce(a.p, 7) = 7 AND b.p > (SELECT min(v) FROM a) ORDER BY b.p LIMIT 2";
    assert_eq!(world.column(query).await, ["2", "4"]);
}

/// Rows `(n, f, d)`: floats with both zeros, and what breaks their tie.
async fn zeros() -> World {
    let world = World::new().await;
    world.run("CREATE TABLE z (p int, c float, n int, v double, PRIMARY KEY ((p), c, n))").await;
    let row = |sign: &str, n: i32| {
        format!("(1, CAST('{sign}0.0' AS float), {n}, CAST('{sign}0.0' AS double))")
    };
    let rows = [row("-", 4), row("-", 2), row("", 3), row("", 1)].join(", ");
    world.run(&format!("INSERT INTO z VALUES {rows}, (1, CAST(-1.0 AS float), 0, -1.0)")).await;
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zeros_are_peers() {
    let world = zeros().await;
    let all = ["0", "1", "2", "3", "4"];
    for key in ["v", "c", "v + 0.0", "CAST(c AS double)"] {
        for source in ["z", "z WHERE p = 1", "(SELECT * FROM z) z", "(SELECT * FROM z LIMIT 9) z"] {
            let query = format!("SELECT n FROM {source} ORDER BY {key}, n");
            assert_eq!(world.column(&query).await, all, "{query}");
            let query = format!("SELECT n FROM {source} ORDER BY {key} DESC, n LIMIT 4");
            assert_eq!(world.column(&query).await, all[1..], "{query}");
            let query = format!("SELECT rank() OVER (ORDER BY {key}) FROM {source} ORDER BY 1");
            assert_eq!(world.column(&query).await, ["1", "2", "2", "2", "2"], "{query}");
            let query = format!("SELECT count(*) OVER (ORDER BY {key}) FROM {source} ORDER BY 1");
            assert_eq!(world.column(&query).await, ["1", "5", "5", "5", "5"], "{query}");
            let query = format!(
                "SELECT row_number() OVER (PARTITION BY {key} ORDER BY n) FROM {source} ORDER BY 1"
            );
            assert_eq!(world.column(&query).await, ["1", "1", "2", "3", "4"], "{query}");
            let query = format!("SELECT first_value(n ORDER BY {key} DESC, n) FROM {source}");
            assert_eq!(world.column(&query).await, ["1"], "{query}");
            let query = format!("SELECT DISTINCT ON ({key}) n FROM {source} ORDER BY {key}, n");
            assert_eq!(world.column(&query).await, ["0", "1"], "{query}");
            let query = format!("SELECT count(*) FROM {source} GROUP BY {key} ORDER BY 1");
            assert_eq!(world.column(&query).await, ["1", "4"], "{query}");
            let query = format!("SELECT count(*) FROM {source} GROUP BY p, {key} ORDER BY 1");
            assert_eq!(world.column(&query).await, ["1", "4"], "{query}");
        }
    }
    let zero = "SELECT v FROM z WHERE v = 0.0";
    for (operation, count) in [("INTERSECT", 2), ("EXCEPT", 2)] {
        let query = format!(
            "SELECT count(*) FROM ({zero} {operation} ALL SELECT v FROM z WHERE n IN (1, 3))"
        );
        assert_eq!(world.column(&query).await, [count.to_string()], "{query}");
        let query =
            format!("SELECT count(*) FROM ({zero} {operation} ALL SELECT v FROM z WHERE n < 3)");
        assert_eq!(world.column(&query).await, [count.to_string()], "{query}");
    }
    // What is given back is as it was written.
    let query = "SELECT v FROM z WHERE n IN (1, 2) ORDER BY v, n";
    assert_eq!(world.column(query).await, ["0.0", "-0.0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_float_that_rows_are_kept_by_is_read_in_its_order() {
    let world = zeros().await;
    for query in [
        "SELECT n FROM z WHERE p = 1 ORDER BY c",
        "SELECT n FROM z WHERE p = 1 ORDER BY c DESC LIMIT 2",
        "SELECT n FROM z WHERE p = 1 ORDER BY p, c",
        "SELECT n, rank() OVER (ORDER BY c) FROM z WHERE p = 1",
        "SELECT n, rank() OVER (PARTITION BY c ORDER BY p) FROM z WHERE p = 1",
    ] {
        let plan = world.plan(query).await;
        assert!(!plan.contains("SortExec"), "{query}\n{plan}");
    }
    // Here the order of the table is not the one asked for.
    let plan = world.plan("SELECT n FROM z WHERE p = 1 ORDER BY c, n").await;
    assert!(plan.contains("SortExec"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_uuid_that_is_chosen_is_a_uuid() {
    let world = World::new().await;
    let (id, other) =
        ("0ffe8400-e29b-41d4-a716-446655440000", "0abe8400-e29b-41d4-a716-446655440000");
    world.run("CREATE TABLE u (p int, id uuid, t text, PRIMARY KEY (p))").await;
    world.run(&format!("INSERT INTO u VALUES (1, '{id}', 'x'), (2, NULL, NULL)")).await;
    let (written, otherwise) = (id.to_uppercase(), other.to_uppercase());
    for (chosen, rows) in [
        ("CASE WHEN p < 5 THEN id END".to_owned(), vec!["1"]),
        (format!("CASE p WHEN 2 THEN '{written}' ELSE id END"), vec!["1", "2"]),
        (format!("coalesce(id, '{written}')"), vec!["1", "2"]),
        (format!("coalesce(id, '{otherwise}')"), vec!["1"]),
        (format!("nullif(id, '{otherwise}')"), vec!["1"]),
        (format!("nullif(id, '{written}')"), vec![]),
        (format!("greatest(id, '{otherwise}')"), vec!["1"]),
        // Texts are compared as they are written.
        ("coalesce(lower(id), id)".to_owned(), vec![]),
        ("coalesce(t, id)".to_owned(), vec![]),
    ] {
        let query = format!("SELECT p FROM u WHERE {chosen} = '{written}' ORDER BY p");
        assert_eq!(world.column(&query).await, rows, "{chosen}");
    }
    let query = format!("SELECT coalesce(id, '{otherwise}') FROM u ORDER BY p");
    assert_eq!(world.column(&query).await, [id, other]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nullif_takes_both_zeros_for_one() {
    let world = World::new().await;
    let rows = "(VALUES (0, CAST('-0.0' AS float)), (1, 0.0), (2, 1.5), (3, NULL)) AS r (n, v)";
    for (zero, wanted) in [
        ("0", ["true", "true", "false", "true"]),
        ("n - n", ["true", "true", "false", "true"]),
        ("CAST('-0.0' AS double)", ["true", "true", "false", "true"]),
        ("1.5", ["false", "false", "true", "true"]),
        ("NULL", ["false", "false", "false", "true"]),
    ] {
        let query = format!("SELECT nullif(v, {zero}) IS NULL FROM {rows} ORDER BY n");
        assert_eq!(world.column(&query).await, wanted, "{zero}");
    }
}
