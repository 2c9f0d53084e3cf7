//! USING TIMESTAMP: what is written or deleted at a time yields to what is newer, cell by cell.

use crate::query::tests::World;

/// Changes of a partition, a column to look at, and what its two rows hold then. The first row was
/// written at 1000, the second one and the static column at 2000.
const CHANGES: &[(&str, &str, &str)] = &[
    ("DELETE FROM t USING TIMESTAMP 1500 WHERE pk = <pk>", "a", "2"),
    ("DELETE FROM t USING TIMESTAMP 1500 WHERE pk = <pk> AND a >= 1", "a", "2"),
    ("DELETE FROM t USING TIMESTAMP 1500 WHERE pk = <pk> AND a = <a>", "a", "2"),
    ("DELETE FROM t USING TIMESTAMP 999 WHERE pk = <pk> AND a = <a>", "a", "1|2"),
    ("DELETE FROM t USING TIMESTAMP 2000 WHERE pk = <pk> AND a = <a>", "a", ""),
    ("DELETE v FROM t USING TIMESTAMP 1500 WHERE pk = <pk> AND a = <a>", "v", "|2"),
    ("DELETE v FROM t USING TIMESTAMP 2000 WHERE pk = <pk> AND a = <a>", "v", "|"),
    ("DELETE m FROM t USING TIMESTAMP 1500 WHERE pk = <pk> AND a = <a>", "m", "|{y: 2}"),
    ("DELETE m['x'] FROM t USING TIMESTAMP 1500 WHERE pk = <pk> AND a = <a>", "m", "|{y: 2}"),
    ("DELETE m['y'] FROM t USING TIMESTAMP 1500 WHERE pk = <pk> AND a = <a>", "m", "{x: 1}|{y: 2}"),
    ("DELETE s FROM t USING TIMESTAMP 1500 WHERE pk = <pk>", "s", "7|7"),
    ("DELETE s FROM t USING TIMESTAMP 2500 WHERE pk = <pk>", "s", "|"),
    ("UPDATE t USING TIMESTAMP 1500 SET v = NULL WHERE pk = <pk> AND a = <a>", "v", "|2"),
    ("UPDATE t USING TIMESTAMP 1500 SET v = 9 WHERE pk = <pk> AND a = <a>", "v", "9|2"),
    ("UPDATE t USING TIMESTAMP 1500 SET s = 9 WHERE pk = <pk>", "s", "7|7"),
    (
        "UPDATE t USING TIMESTAMP 1500 SET m['x'] = 9, m['y'] = 9 WHERE pk = <pk> AND a = <a>",
        "m",
        "{x: 9, y: 9}|{x: 9, y: 2}",
    ),
    (
        "UPDATE t USING TIMESTAMP 1500 SET m = m + MAP {'y': 9} WHERE pk = <pk> AND a = <a>",
        "m",
        "{x: 1, y: 9}|{y: 2}",
    ),
    (
        "UPDATE t USING TIMESTAMP 1500 SET m = m - ['x', 'y'] WHERE pk = <pk> AND a = <a>",
        "m",
        "|{y: 2}",
    ),
    ("UPDATE t USING TIMESTAMP 1500 SET m = NULL WHERE pk = <pk> AND a = <a>", "m", "|{y: 2}"),
    ("INSERT INTO t (pk, a, v) VALUES (<pk>, <a>, 9) USING TIMESTAMP 1500", "v", "9|2"),
    ("INSERT INTO t (pk, a, v) SELECT <pk> p, <a> q, 9 r USING TIMESTAMP 1500", "v", "9|2"),
];

/// A table with so many partitions of two rows.
async fn table(partitions: usize) -> World {
    let world = World::new().await;
    world
        .run(
            "CREATE TABLE t (pk int, a int, v int, s int STATIC, m map<text, int>, \
             PRIMARY KEY (pk, a))",
        )
        .await;
    let keys: Vec<String> = (0..partitions).map(|pk| pk.to_string()).collect();
    let rows = |values: &str| {
        let rows: Vec<String> = keys.iter().map(|pk| format!("({pk}, {values})")).collect();
        rows.join(", ")
    };
    let all = keys.join(", ");
    for text in [
        format!("INSERT INTO t (pk, a, v) VALUES {} USING TIMESTAMP 1000", rows("1, 1")),
        format!("INSERT INTO t (pk, a, v, s) VALUES {} USING TIMESTAMP 2000", rows("2, 2, 7")),
        format!("UPDATE t USING TIMESTAMP 1000 SET m['x'] = 1 WHERE pk IN ({all}) AND a = 1"),
        format!("UPDATE t USING TIMESTAMP 2000 SET m['y'] = 2 WHERE pk IN ({all}) AND a = 2"),
    ] {
        world.run(&text).await;
    }
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_done_at_a_time_spares_what_is_newer() {
    let world = table(2 * CHANGES.len()).await;
    for (round, path) in ["true", "false"].into_iter().enumerate() {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        for (number, (text, column, wanted)) in CHANGES.iter().enumerate() {
            let pk = round * CHANGES.len() + number;
            let text = text.replace("<pk>", &pk.to_string());
            // Those of the whole partition are done twice, which is as good as once.
            for a in 1..=2 {
                world.run(&text.replace("<a>", &a.to_string())).await;
            }
            let query = format!("SELECT {column} FROM t WHERE pk = {pk} ORDER BY a");
            let found = world.column(&query).await.join("|");
            assert_eq!(found, *wanted, "{text}, short path {path}");
        }
    }
}
