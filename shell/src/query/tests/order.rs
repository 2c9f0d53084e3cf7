//! Orders over several keys and streams, with limits.

use super::World;

/// Rows `(pk, a, b)` of three partitions, and a column that repeats.
async fn keyed() -> World {
    let world = World::new().await;
    world.run("CREATE TABLE k (pk int, a int, b int, v int, PRIMARY KEY ((pk), a, b))").await;
    world.run("CREATE TABLE c (p int, q int, a int, PRIMARY KEY ((p, q), a))").await;
    for pk in 1..=3 {
        for a in 1..=3 {
            for b in 1..=3 {
                world.run(&format!("INSERT INTO k VALUES ({pk}, {a}, {b}, {})", (a + b) % 3)).await;
            }
            world.run(&format!("INSERT INTO c VALUES (7, {pk}, {a})")).await;
        }
    }
    world
}

/// The same rows, sorted here.
fn sorted(keys: &[(usize, bool)]) -> Vec<String> {
    let mut rows: Vec<[i32; 3]> = (0..27).map(|n| [n / 9 + 1, n / 3 % 3 + 1, n % 3 + 1]).collect();
    rows.sort_by(|left, right| {
        let orders = keys.iter().map(|(column, descending)| {
            let order = left[*column].cmp(&right[*column]);
            if *descending { order.reverse() } else { order }
        });
        orders.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    });
    rows.iter().map(|row| format!("{} {} {}", row[0], row[1], row[2])).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_keys_with_a_limit_over_several_partitions() {
    let world = keyed().await;
    let names = ["pk", "a", "b"];
    let orders = [[0, 1, 2], [1, 0, 2], [1, 2, 0], [0, 2, 1], [2, 0, 1], [2, 1, 0]];
    for order in orders {
        for signs in 0..8 {
            let keys: Vec<(usize, bool)> =
                (0..3).map(|n| (order[n], signs >> n & 1 == 1)).collect();
            let texts: Vec<String> = keys
                .iter()
                .map(|(n, down)| format!("{}{}", names[*n], if *down { " DESC" } else { "" }))
                .collect();
            let wanted = sorted(&keys);
            for limit in [1, 2, 10, 27] {
                let query = format!(
                    "SELECT concat(pk, ' ', a, ' ', b) FROM k WHERE pk IN (1, 2, 3) \
                     ORDER BY {} LIMIT {limit}",
                    texts.join(", ")
                );
                assert_eq!(world.column(&query).await, wanted[..limit], "{query}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sort_over_a_column_that_is_constant_in_each_stream_keeps_it() {
    let world = keyed().await;
    // A TopK's filter is shared by the streams: a run in which one is late shows what it lacks.
    for _ in 0..20 {
        let query = "SELECT concat(pk, a, b) FROM k WHERE pk IN (1, 2) \
                     ORDER BY pk DESC, a, b DESC LIMIT 2";
        assert_eq!(world.column(query).await, ["213", "212"]);
    }
    let query = "SELECT concat(q, a) FROM c WHERE p = 7 AND q IN (1, 2, 3) \
                 ORDER BY p DESC, q DESC, a LIMIT 4";
    assert_eq!(world.column(query).await, ["31", "32", "33", "21"]);
    assert!(!world.plan(query).await.contains("SortExec"), "{}", world.plan(query).await);
    let query = "SELECT concat(pk, v, b) FROM k WHERE pk IN (1, 2) AND a = 1 \
                 ORDER BY pk DESC, v, b LIMIT 3";
    assert_eq!(world.column(query).await, ["202", "213", "221"]);
    let window = "SELECT concat(pk, a, b) FROM (SELECT *, row_number() OVER \
                  (PARTITION BY a ORDER BY pk DESC, b DESC) AS n FROM k WHERE pk IN (1, 2)) \
                  WHERE n = 1 ORDER BY pk, a";
    assert_eq!(world.column(window).await, ["213", "223", "233"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_union_is_sorted_by_what_differs_between_its_inputs() {
    let world = keyed().await;
    for limit in ["", " LIMIT 20"] {
        let query = format!(
            "SELECT concat(n, pk, a) FROM (SELECT 2 AS n, pk, a FROM k WHERE b = 1 AND pk = 1 \
             UNION ALL SELECT 1 AS n, pk, a FROM k WHERE b = 1 AND pk = 2) ORDER BY n, a{limit}"
        );
        let wanted = ["121", "122", "123", "211", "212", "213"];
        assert_eq!(world.column(&query).await, wanted, "{}", world.plan(&query).await);
        let query = format!(
            "SELECT concat(pk, a) FROM (SELECT pk, a FROM k WHERE pk = 2 AND b = 1 UNION ALL \
             SELECT pk, a FROM k WHERE pk = 1 AND b = 1) ORDER BY pk, a DESC{limit}"
        );
        let wanted = ["13", "12", "11", "23", "22", "21"];
        assert_eq!(world.column(&query).await, wanted, "{}", world.plan(&query).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_that_has_a_limit_is_not_reversed() {
    let world = keyed().await;
    world.run("CREATE TABLE l (pk int, c int, PRIMARY KEY (pk, c))").await;
    world.run("INSERT INTO l SELECT 1, value FROM generate_series(1, 50) AS s(value)").await;
    for (query, wanted) in [
        ("SELECT c FROM (SELECT c FROM l WHERE pk = 1 LIMIT 3) ORDER BY c DESC", "3 2 1"),
        (
            "SELECT c FROM (SELECT c FROM l WHERE pk = 1 ORDER BY c DESC LIMIT 3) ORDER BY c",
            "48 49 50",
        ),
        ("SELECT c FROM (SELECT c FROM l WHERE pk = 1 LIMIT 5) ORDER BY c DESC LIMIT 2", "5 4"),
        (
            "SELECT c FROM (SELECT c FROM l WHERE pk = 1 AND c % 2 = 0 LIMIT 2) ORDER BY c DESC",
            "4 2",
        ),
        (
            "SELECT max(c) FROM (SELECT c FROM l WHERE pk = 1 LIMIT 3) GROUP BY c \
             ORDER BY c DESC LIMIT 1",
            "3",
        ),
    ] {
        let plan = world.plan(query).await;
        assert_eq!(world.column(query).await.join(" "), wanted, "{query}\n{plan}");
    }
}
