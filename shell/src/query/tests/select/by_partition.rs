//! Groups and windows within partitions: neither hashed nor sorted, and right.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlanProperties;

use super::super::World;
use crate::query::SessionOptions;

/// `t`, and `u` with the same rows and other partitions: what groups within partitions of the one
/// hashes and sorts in the other.
async fn world(streams: usize) -> World {
    let options = SessionOptions { target_partitions: Some(streams), ..SessionOptions::default() };
    let world = World::of_shards(streams.min(2) as u32, options).await;
    world
        .run(
            "CREATE TABLE t (pk int, q text, ck int, d timeuuid, v int, PRIMARY KEY ((pk, q), ck, d)) \
             WITH CLUSTERING ORDER BY (ck DESC, d ASC)",
        )
        .await;
    world
        .run("CREATE TABLE u (id int PRIMARY KEY, pk int, q text, ck int, d timeuuid, v int)")
        .await;
    let mut id = 0;
    for pk in 0..40 {
        for ck in 0..=pk % 7 {
            id += 1;
            let q = ["a", "b", "c"][pk % 3];
            let d = format!("0000{:04x}-0000-1000-8000-000000000000", 9 - ck);
            let v = if id % 5 == 0 { "NULL".to_owned() } else { (id % 4).to_string() };
            let row = format!("{}, '{q}', {}, '{d}', {v}", pk / 2, ck / 2);
            world.run(&format!("INSERT INTO t (pk, q, ck, d, v) VALUES ({row})")).await;
            world.run(&format!("INSERT INTO u (id, pk, q, ck, d, v) VALUES ({id}, {row})")).await;
            // Some rows are in files, some in memory, some in both.
            if id == 60 {
                world.run("FLUSH").await;
            }
        }
    }
    world
}

/// What a query gives, in any order.
async fn sorted(world: &World, text: &str) -> Vec<String> {
    let mut lines: Vec<String> = world.rows(text).await.lines().map(str::to_owned).collect();
    assert!(lines.len() > 4, "{text} gives nothing");
    lines.sort();
    lines
}

/// Whether a query is planned without a hash of its rows, and without a sort.
async fn is_streamed(world: &World, text: &str) -> (bool, bool) {
    let plan = world.plan(text).await;
    (!plan.contains("RepartitionExec"), !plan.contains("SortExec"))
}

const STREAMED: [&str; 16] = [
    "SELECT pk, q, count(*), sum(v), min(d) FROM t GROUP BY pk, q",
    "SELECT q, pk FROM t GROUP BY q, pk",
    "SELECT q, count(v), pk FROM t WHERE v > 1 GROUP BY q, pk HAVING count(*) > 1",
    "SELECT pk, q, ck, count(*) FROM t GROUP BY pk, q, ck",
    "SELECT pk, q, v, count(*) FROM t GROUP BY v, pk, q",
    "SELECT pk + 1, q, v % 2, avg(v) FROM t GROUP BY pk, q, v % 2",
    "SELECT count(DISTINCT v), pk FROM t GROUP BY pk, q",
    "SELECT pk, q, sum(v) FILTER (WHERE ck = 1) FROM t GROUP BY pk, q",
    "SELECT pk, q, array_agg(v ORDER BY ck DESC, d) FROM t GROUP BY pk, q",
    "SELECT x.b, x.n FROM (SELECT pk a, q b, count(*) n FROM t GROUP BY pk, q) x WHERE x.n > 2",
    "SELECT pk, q, d, row_number() OVER (PARTITION BY pk, q ORDER BY ck DESC, d) FROM t",
    "SELECT pk, q, d, row_number() OVER (PARTITION BY q, pk ORDER BY ck, d DESC) FROM t",
    "SELECT pk, d, sum(v) OVER (PARTITION BY pk, q) FROM t WHERE v > 0",
    "SELECT pk, d, sum(v) OVER (PARTITION BY pk, q, ck) FROM t",
    "SELECT pk, d, lag(v) OVER w, max(v) OVER w FROM t \
     WINDOW w AS (PARTITION BY pk, q ORDER BY ck, d DESC)",
    "SELECT pk, q, count(*), sum(count(*)) OVER (PARTITION BY pk, q) FROM t GROUP BY pk, q, ck",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_and_windows_within_partitions_are_streamed() {
    // As many streams as shards, and more.
    for streams in [2, 7] {
        let world = world(streams).await;
        for flushed in [false, true] {
            if flushed {
                world.run("FLUSH").await;
            }
            for text in STREAMED {
                assert_eq!(is_streamed(&world, text).await, (true, true), "{text}");
                let other = text.replace("FROM t", "FROM u");
                assert!(!is_streamed(&world, &other).await.0, "{other}");
                assert_eq!(sorted(&world, text).await, sorted(&world, &other).await, "{text}");
            }
        }
    }
}

/// A scan has more streams than there are shards, where a query may have them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_are_divided_further_than_shards() {
    let (some, many) = (world(2).await, world(7).await);
    let streams = |plan: &str| -> usize {
        let text = plan.split("input_partitions=").nth(1).unwrap_or_else(|| panic!("{plan}"));
        text.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    let text = "SELECT v, count(*), sum(pk) FROM t GROUP BY v";
    assert_eq!(streams(&some.plan(text).await), 2);
    assert_eq!(streams(&many.plan(text).await), 8);
    for flushed in [false, true] {
        if flushed {
            many.run("FLUSH").await;
        }
        for text in [
            text,
            "SELECT count(*) FROM t",
            "SELECT * FROM t WHERE token(pk, q) > 0",
            "SELECT * FROM t WHERE token(pk, q) BETWEEN -4611686018427387904 AND 4611686018427387903",
            "SELECT DISTINCT pk, q FROM t",
            "SELECT pk, q, ck FROM t PER PARTITION LIMIT 2",
            "SELECT count(*) FROM t WHERE v = 2 AND ck > 0",
            "SELECT t.pk, t.d FROM u JOIN t ON t.pk = u.pk AND t.q = u.q WHERE u.id < 30",
            "SELECT count(*) FROM t x JOIN t y ON x.pk = y.pk AND x.q = y.q",
            "SELECT max(d), min(ck) FROM t",
        ] {
            assert_eq!(sorted(&many, text).await, sorted(&some, text).await, "{text}");
        }
        let limited = "SELECT * FROM (SELECT pk FROM t LIMIT 11)";
        assert_eq!(many.column(limited).await.len(), 11);
    }
}

/// What needs an order that no direction gives is sorted, stream by stream. What stands above is
/// planned as if it knew nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_partitions_do_not_give_is_planned_as_ever() {
    let world = world(2).await;
    // Both sides of a join are hashed, however small they are.
    for name in ["threshold", "threshold_rows"] {
        let name = format!("datafusion.optimizer.hash_join_single_partition_{name}");
        world.run(&format!("SET {name} = 0")).await;
    }
    for (text, streamed) in [
        ("SELECT pk, q, rank() OVER (PARTITION BY pk, q ORDER BY v) FROM t", (true, false)),
        ("SELECT pk, count(*) FROM t GROUP BY pk", (false, true)),
        ("SELECT q, sum(v) OVER (PARTITION BY q ORDER BY ck, d) FROM t", (false, false)),
        ("SELECT pk % 3, q, count(*) FROM t GROUP BY pk % 3, q", (false, true)),
        ("SELECT pk, q, count(*) FROM t GROUP BY ROLLUP (pk, q)", (false, true)),
        (
            "SELECT n, count(*) FROM (SELECT count(*) n FROM t GROUP BY pk, q) GROUP BY n",
            (false, true),
        ),
        (
            "SELECT pk, count(*) FROM (SELECT pk, q, count(*) FROM t GROUP BY pk, q) GROUP BY pk",
            (false, true),
        ),
        (
            "SELECT a.pk, a.q, a.n, b.v FROM (SELECT pk, q, count(*) n FROM t GROUP BY pk, q) a \
             JOIN (SELECT pk, q, v FROM t WHERE v > 0) b ON a.pk = b.pk AND a.q = b.q",
            (false, true),
        ),
        (
            "SELECT pk, q, d, row_number() OVER (PARTITION BY pk, q ORDER BY ck DESC, d) FROM t \
             ORDER BY pk, q, d",
            (true, false),
        ),
        ("SELECT pk, q FROM t GROUP BY pk, q ORDER BY pk LIMIT 5", (true, false)),
        (
            "SELECT pk, q, d, first_value(d) OVER (PARTITION BY pk, q ORDER BY ck DESC, d), \
             row_number() OVER (PARTITION BY pk, q ORDER BY ck, d DESC) FROM t",
            (true, false),
        ),
        // The order of the one is what the other wants, and nobody may know.
        (
            "SELECT ck, d, rank() OVER (PARTITION BY pk, q ORDER BY ck DESC, d), \
             rank() OVER (ORDER BY pk, q) FROM t",
            (true, false),
        ),
        (
            "SELECT pk, q, sum(n) OVER (ORDER BY pk, q) FROM \
             (SELECT pk, q, count(*) n FROM t GROUP BY pk, q)",
            (true, false),
        ),
    ] {
        assert_eq!(is_streamed(&world, text).await, streamed, "{text}");
        let other = text.replace("FROM t", "FROM u");
        let (found, wanted) = (sorted(&world, text).await, sorted(&world, &other).await);
        match text.contains("LIMIT") {
            true => assert_eq!(found.len(), wanted.len(), "{text}"),
            false => assert_eq!(found, wanted, "{text}"),
        }
    }
    // In order, not only in any.
    for text in [
        "SELECT q, pk, count(*) FROM t GROUP BY pk, q ORDER BY pk DESC, q",
        "SELECT q, pk, ck, d FROM (SELECT *, rank() OVER (PARTITION BY pk, q ORDER BY ck) r FROM t) \
         WHERE r = 1 ORDER BY pk, q, ck, d",
    ] {
        let other = text.replace("FROM t", "FROM u");
        assert_eq!(world.rows(text).await, world.rows(&other).await, "{text}");
    }
}

/// What a plan says of its order is the same wherever it is looked up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_say_one_thing_of_their_order() {
    let world = world(2).await;
    let more = [
        "SELECT rank() OVER (PARTITION BY pk, q ORDER BY ck), rank() OVER (ORDER BY pk) FROM t",
        "SELECT x.ck, u.v FROM (SELECT * FROM t WHERE pk = 1 AND q = 'a' ORDER BY ck) x \
         LEFT JOIN u ON x.v = u.v",
        "SELECT x.ck, u.v FROM u RIGHT JOIN (SELECT * FROM t WHERE pk = 1 AND q = 'a') x ON x.v = u.v",
        "SELECT token(pk, q) FROM t ORDER BY token(pk, q)",
        "SELECT 1 AS a, ck FROM t UNION ALL SELECT 2, ck FROM t WHERE pk = 1 AND q = 'a' ORDER BY a, ck",
    ];
    for text in STREAMED.into_iter().chain(more) {
        let query = world.session.context.sql(text).await.unwrap();
        let mut left = vec![query.create_physical_plan().await.unwrap()];
        while let Some(plan) = left.pop() {
            let known = plan.equivalence_properties().output_ordering();
            assert_eq!(plan.output_ordering(), known.as_ref(), "{} in {text}", plan.name());
            left.extend(plan.children().into_iter().map(Arc::clone));
        }
    }
}

/// Zeros and NaN are several keys of the engine and one value of SQL, so such partitions are no
/// groups.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_sql_takes_for_one_are_one_group() {
    let world = World::new().await;
    world.run("CREATE TABLE f (pk double, q decimal(6, 2), ck int, PRIMARY KEY (pk, ck))").await;
    for (ck, pk) in ["0.0", "-0.0", "1.5", "'NaN'", "0.0", "-0.0"].into_iter().enumerate() {
        world.run(&format!("INSERT INTO f (pk, ck) VALUES ({pk}, {ck})")).await;
    }
    let text = "SELECT count(*) AS n FROM f GROUP BY pk ORDER BY n";
    assert_eq!(world.column(text).await, ["1", "1", "4"]);
    let counts = "SELECT max(n) FROM (SELECT count(*) OVER (PARTITION BY pk) n FROM f)";
    assert_eq!(world.column(counts).await, ["4"]);
    let plan = world.plan(text).await;
    assert!(!plan.contains("EachPartition"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_of_shards_are_in_the_order_of_tokens() {
    for streams in [2, 7] {
        let world = world(streams).await;
        world.run("CREATE TABLE w (k text, ck int, v int, PRIMARY KEY (k, ck))").await;
        for (at, k) in ["a", "b", "longer", "x", "z", "é", "0", "1", "2"].iter().enumerate() {
            for ck in 0..3 {
                world.run(&format!("INSERT INTO w (k, ck, v) VALUES ('{k}', {ck}, {at})")).await;
            }
        }
        for flushed in [false, true] {
            if flushed {
                world.run("FLUSH").await;
            }
            for (select, order, is_sorted) in [
                ("k, ck FROM w", "token(k), k, ck", true),
                ("k, ck FROM w", "token(k), k, ck DESC", true),
                ("token(k) FROM w", "token(k)", true),
                ("token(k) FROM w WHERE v > 1", "token(k)", true),
                ("k, ck FROM w", "token(k) DESC, k, ck", false),
                ("ck, k FROM w", "token(k), ck, k", false),
                ("token(pk, q) FROM t", "token(pk, q)", true),
                ("ck, d, v FROM t", "token(pk, q), ck, d", false),
            ] {
                let text = format!("SELECT {select} ORDER BY {order}");
                assert_eq!(is_streamed(&world, &text).await.1, is_sorted, "{text}");
                // A limit in a query within keeps the rows, and nothing is known of their order.
                let (columns, table) = select.split_once(" FROM ").unwrap();
                let table = match table.split_once(" WHERE ") {
                    Some((table, condition)) => format!("{table} WHERE {condition} LIMIT 999"),
                    None => format!("{table} LIMIT 999"),
                };
                let other =
                    format!("SELECT {columns} FROM (SELECT * FROM {table}) ORDER BY {order}");
                assert!(!is_streamed(&world, &other).await.1, "{other}");
                let (found, wanted) = (world.rows(&text).await, world.rows(&other).await);
                assert_eq!(found, wanted, "{text}");
                let first = world.column(&format!("{text} LIMIT 4")).await;
                assert_eq!(first, world.column(&other).await[..4], "{text} LIMIT 4");
            }
        }
    }
}

/// One shard, partitions that conditions name, and partitions of a static column alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn named_partitions_and_single_streams_are_grouped() {
    for streams in [1, 2] {
        let world = world(streams).await;
        world
            .run("CREATE TABLE s (pk int, ck int, x int STATIC, v int, PRIMARY KEY (pk, ck))")
            .await;
        world.run("CREATE TABLE r (id int PRIMARY KEY, pk int, ck int, x int, v int)").await;
        for pk in 0..30 {
            world.run(&format!("INSERT INTO s (pk, x) VALUES ({pk}, {})", pk * 2)).await;
            let rows = if pk % 3 == 0 { 0..1 } else { 0..pk };
            for ck in rows {
                let id = pk * 100 + ck;
                let (key, mut value) = (ck.to_string(), (ck % 3).to_string());
                if pk % 3 != 0 {
                    let row = format!("({pk}, {ck}, {value})");
                    world.run(&format!("INSERT INTO s (pk, ck, v) VALUES {row}")).await;
                } else {
                    value = "NULL".to_owned();
                }
                let key = if pk % 3 == 0 { "NULL".to_owned() } else { key };
                let row = format!("({id}, {pk}, {key}, {}, {value})", pk * 2);
                world.run(&format!("INSERT INTO r (id, pk, ck, x, v) VALUES {row}")).await;
            }
        }
        world.run("FLUSH s").await;
        let many = (0..25).map(|pk| pk.to_string()).collect::<Vec<_>>().join(", ");
        for (text, is_by_partition) in [
            (
                &*format!("SELECT pk, count(*), max(x) FROM s WHERE pk IN ({many}) GROUP BY pk"),
                true,
            ),
            ("SELECT pk, ck, x, count(v) FROM s GROUP BY pk, ck, x", true),
            ("SELECT pk, ck, row_number() OVER (PARTITION BY pk ORDER BY ck DESC) FROM s", true),
            ("SELECT pk, max(ck) FROM s WHERE pk IN (1, 2, 3, 4) GROUP BY pk", false),
            ("SELECT ck, sum(v) OVER (PARTITION BY pk ORDER BY ck) FROM s WHERE pk = 8", false),
        ] {
            let plan = world.plan(text).await;
            assert_eq!(plan.contains("EachPartition"), is_by_partition, "{text}: {plan}");
            let other = text.replace("FROM s", "FROM r");
            assert_eq!(sorted(&world, text).await, sorted(&world, &other).await, "{text}");
        }
    }
}
