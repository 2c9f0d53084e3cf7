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
async fn a_filter_is_on_the_column_that_it_names() {
    let world = joined().await;
    let query = "SELECT b.p FROM a FULL JOIN b ON a.v = b.x \
                 WHERE a.p IN (NULL, 1) AND b.p = (SELECT max(v) FROM a)";
    assert_eq!(world.column(query).await, ["5"]);
    let query = "SELECT b.p FROM a RIGHT JOIN b ON a.v = b.x \
                 WHERE coalesce(a.p, 7) = 7 AND b.p > (SELECT min(v) FROM a) ORDER BY b.p LIMIT 2";
    assert_eq!(world.column(query).await, ["2", "4"]);
}
