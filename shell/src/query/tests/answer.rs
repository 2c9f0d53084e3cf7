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
