//! What is known of a partition by some rows of it: DISTINCT, `min` and `max`, `count(*)`.

use super::super::World;

/// Partitions of 4, 5 and 6 rows, and one of a static column alone.
async fn world() -> World {
    let world = World::new().await;
    world
        .run(
            "CREATE TABLE t (pk int, q int, ck int, d text, v int, s int STATIC, \
             PRIMARY KEY ((pk, q), ck, d))",
        )
        .await;
    for pk in 4..=6 {
        for ck in 0..pk {
            let text = format!(
                "INSERT INTO t (pk, q, ck, d, v, s) VALUES ({pk}, 1, {ck}, 'd{ck}', {}, {pk})",
                ck % 2
            );
            world.run(&text).await;
        }
    }
    world.run("INSERT INTO t (pk, q, s) VALUES (9, 1, 90)").await;
    world
}

/// The rows that the scans of a query read.
async fn rows_read(world: &World, text: &str) -> usize {
    let analyzed = world.rows(&format!("EXPLAIN ANALYZE {text}")).await;
    let counts = analyzed.split("rows_read=").skip(1);
    let number = |rest: &str| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<usize>().unwrap()
    };
    let all: Vec<usize> = counts.map(number).collect();
    assert!(!all.is_empty(), "no scan tells what it read: {analyzed}");
    all.iter().sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_all_rows_of_a_partition_share_takes_one_row_of_each() {
    let world = world().await;
    for flushed in [false, true] {
        if flushed {
            world.run("FLUSH t").await;
        }
        for (text, wanted, rows) in [
            ("SELECT DISTINCT pk FROM t ORDER BY pk", &["4", "5", "6", "9"][..], 4),
            ("SELECT DISTINCT pk, q FROM t ORDER BY pk", &["4", "5", "6", "9"], 4),
            ("SELECT DISTINCT q FROM t", &["1"], 4),
            ("SELECT DISTINCT s FROM t ORDER BY s", &["4", "5", "6", "90"], 4),
            (
                "SELECT DISTINCT x.pk AS p FROM t AS x WHERE x.ck > 1 ORDER BY p",
                &["4", "5", "6"],
                3,
            ),
            ("SELECT DISTINCT pk FROM t WHERE pk IN (4, 5) AND q = 1 ORDER BY 1", &["4", "5"], 2),
            ("SELECT pk FROM t WHERE s > 4 GROUP BY pk ORDER BY pk", &["5", "6", "9"], 16),
            ("SELECT count(DISTINCT pk) FROM t", &["4"], 4),
            ("SELECT DISTINCT pk + 1 FROM t ORDER BY 1", &["5", "6", "7", "10"], 16),
            ("SELECT DISTINCT ck FROM t ORDER BY ck LIMIT 2", &["0", "1"], 16),
            ("SELECT pk FROM t WHERE v = 1 GROUP BY pk ORDER BY pk", &["4", "5", "6"], 16),
            ("SELECT count(*) FROM t GROUP BY pk ORDER BY 1", &["1", "4", "5", "6"], 16),
        ] {
            assert_eq!(world.column(text).await, wanted, "{text}");
            assert_eq!(rows_read(&world, text).await, rows, "{text}");
        }
    }
    let plan = world.plan("SELECT DISTINCT pk FROM t").await;
    assert!(plan.contains("limit per partition=1"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn least_and_greatest_are_two_rows() {
    let world = world().await;
    let of = "FROM t WHERE pk = 6 AND q = 1";
    for (select, wanted, rows) in [
        ("min(ck), max(ck)", "0       | 5", 2),
        ("max(ck), min(ck)", "5       | 0", 2),
        ("max(ck) - min(ck), min(ck)", "5", 2),
        ("min(ck), max(ck), count(*)", "0       | 5       | 6", 6),
    ] {
        let text = format!("SELECT {select} {of}");
        let found = world.rows(&text).await;
        assert!(found.contains(wanted), "{text}: {found}");
        assert_eq!(rows_read(&world, &text).await, rows, "{text}");
    }
    let none = world.rows("SELECT min(ck), max(ck) FROM t WHERE pk = 77 AND q = 1").await;
    assert_eq!(none.lines().count(), 5, "{none}");
    let counted = world.plan("SELECT count(*) FROM t").await;
    assert!(counted.contains("TideScan"), "{counted}");
    assert_eq!(world.column("SELECT count(*) FROM t").await, ["16"]);
}
