//! The ends of partitions, and limits that several reads of one stream share.

use super::super::World;

/// Rows `(a, b, v)` of partition 1.
fn rows() -> Vec<[i64; 3]> {
    (0..20).map(|n| [n / 4, n % 4, (n / 4 + n % 4) % 3]).collect()
}

/// Twenty rows in partition 1; partition 2 has a static column alone.
async fn world(order: &str) -> World {
    let world = World::new().await;
    world
        .run(&format!(
            "CREATE TABLE t (pk int, a int, b int, v int, s int STATIC, PRIMARY KEY (pk, a, b)) \
             WITH CLUSTERING ORDER BY ({order})"
        ))
        .await;
    let values = rows().into_iter().map(|[a, b, v]| format!("(1, {a}, {b}, {v})"));
    let values = values.collect::<Vec<_>>().join(", ");
    world.run(&format!("INSERT INTO t (pk, a, b, v) VALUES {values}")).await;
    world.run("INSERT INTO t (pk, s) VALUES (2, 7)").await;
    world
}

type Holds = fn(&[i64; 3]) -> bool;

/// Least and greatest of a column, as a query has them that writes -1 for none.
fn ends(column: usize, holds: &dyn Fn(&[i64; 3]) -> bool) -> String {
    let rows = rows();
    let values = || rows.iter().filter(|row| holds(row)).map(|row| row[column]);
    format!("{},{}", values().min().unwrap_or(-1), values().max().unwrap_or(-1))
}

/// One row is read for an end only where that row is sure to have it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ends_of_a_partition_are_those_of_the_rows_that_conditions_leave() {
    let conditions: [(&str, Holds); 7] = [
        ("", |_| true),
        (" AND v = 2", |row| row[2] == 2),
        (" AND a < 3 AND v <> 1", |row| row[0] < 3 && row[2] != 1),
        (" AND b > 1", |row| row[1] > 1),
        (" AND a IN (1, 3)", |row| row[0] == 1 || row[0] == 3),
        (" AND a = 2", |row| row[0] == 2),
        (" AND a > 9", |_| false),
    ];
    let of = |column: &str, filter: &str| {
        format!("coalesce(min({column}){filter}, -1), coalesce(max({column}){filter}, -1)")
    };
    for order in ["a ASC, b DESC", "a DESC, b ASC"] {
        let world = world(order).await;
        for (condition, holds) in conditions {
            let is_zero = |row: &[i64; 3]| holds(row) && row[2] == 0;
            for (select, wanted) in [
                (of("a", ""), ends(0, &holds)),
                (of("b", ""), ends(1, &holds)),
                (of("a", " FILTER (WHERE v = 0)"), ends(0, &is_zero)),
            ] {
                let of_rows = format!("FROM t WHERE pk = 1{condition}");
                let text = format!("SELECT concat_ws(',', {select}) {of_rows}");
                assert_eq!(world.column(&text).await, [wanted], "{text}, {order}");
            }
        }
        for (from, wanted) in [
            ("(SELECT a FROM t WHERE pk = 1 ORDER BY a LIMIT 5)", "0,1"),
            ("(SELECT a FROM t WHERE pk = 1 ORDER BY a LIMIT 5 OFFSET 15)", "3,4"),
            ("(SELECT a FROM t WHERE pk = 1 ORDER BY a DESC LIMIT 5)", "3,4"),
            ("(SELECT a FROM t WHERE pk = 2)", "-1,-1"),
            ("(SELECT -a AS a FROM t WHERE pk = 1)", "-4,0"),
        ] {
            let text = format!("SELECT concat_ws(',', {}) FROM {from} AS q", of("a", ""));
            assert_eq!(world.column(&text).await, [wanted], "{text}, {order}");
        }
    }
}

/// More keys than have a stream each: a stream reads one after another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_counts_the_rows_of_all_the_partitions_that_are_named() {
    let world = World::new().await;
    world.run("CREATE TABLE u (pk int, ck int, v int, PRIMARY KEY (pk, ck))").await;
    let numbered = "SELECT n / 3, n % 3, n % 3 FROM generate_series(0, 59) AS r(n)";
    world.run(&format!("INSERT INTO u {numbered}")).await;
    let keys = (0..20).map(|pk| pk.to_string()).collect::<Vec<_>>().join(", ");
    let pairs = (0..20).map(|pk| format!("({pk}, {})", pk % 3)).collect::<Vec<_>>().join(", ");
    let (keys, pairs) = (format!("pk IN ({keys})"), format!("(pk, ck) IN ({pairs})"));
    for flushed in [false, true] {
        if flushed {
            world.run("FLUSH u").await;
        }
        for (condition, all) in [
            (keys.clone(), 60),
            (format!("{keys} AND ck > 0"), 40),
            (format!("{keys} AND v > 0"), 40),
            (pairs.clone(), 20),
            (format!("{pairs} AND v = 1"), 7),
        ] {
            for limit in [0, 5, 19, 100] {
                let text = format!("SELECT pk FROM u WHERE {condition} LIMIT {limit}");
                assert_eq!(world.column(&text).await.len(), all.min(limit), "{text}");
            }
        }
        let few = format!("SELECT pk * 10 + ck FROM u WHERE {keys} AND v > 0");
        for (order, wanted) in [
            ("pk, ck DESC LIMIT 4", ["2", "1", "12", "11"]),
            ("pk DESC, ck LIMIT 4", ["191", "192", "181", "182"]),
        ] {
            let text = format!("{few} ORDER BY {order}");
            assert_eq!(world.column(&text).await, wanted, "{text}");
        }
    }
}
