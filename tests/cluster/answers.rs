//! Each node of a cluster answers as one node that has everything.

use super::*;

const TABLES: [&str; 3] = [
    "CREATE TABLE t (pk int, ck int, a int, b text, d decimal(12, 2), f double, \
     PRIMARY KEY (pk, ck))",
    "CREATE TABLE u (id int PRIMARY KEY, name text, t uuid)",
    "CREATE VIEW v AS SELECT pk, sum(a) AS s FROM t GROUP BY pk",
];

const FILL: [&str; 3] = [
    "INSERT INTO t SELECT g / 10, g % 10, (g * 7919) % 101, 'b' || (g % 13), g * 1.25, g / 7.0 \
     FROM generate_series(0, 1999) AS s(g)",
    "INSERT INTO u SELECT g, 'n' || (g % 5), '00000000-0000-4000-8000-0000000' || (10000 + g) \
     FROM generate_series(0, 299) AS s(g)",
    "DELETE FROM t WHERE pk = 17",
];

/// Those with an order are compared in it, others as sets.
const QUERIES: [&str; 40] = [
    "SELECT * FROM t",
    "SELECT count(*) FROM t",
    "SELECT * FROM t WHERE pk = 5",
    "SELECT * FROM t WHERE pk = 5 AND ck > 3 ORDER BY ck DESC LIMIT 2",
    "SELECT * FROM t WHERE pk IN (1, 2, 3, 150, 17)",
    "SELECT * FROM t WHERE pk = 5 OR (pk = 6 AND ck = 1)",
    "SELECT pk, ck FROM t WHERE a > 95",
    "SELECT pk, ck, a FROM t ORDER BY a DESC, pk, ck LIMIT 7",
    "SELECT pk, ck FROM t ORDER BY pk, ck LIMIT 5 OFFSET 13",
    "SELECT sum(a), avg(a), min(b), max(d), count(DISTINCT a) FROM t",
    "SELECT b, count(*), sum(d) FROM t GROUP BY b",
    "SELECT b, count(*) FROM t GROUP BY b HAVING count(*) > 153 ORDER BY b",
    "SELECT pk, max(ck) FROM t GROUP BY pk ORDER BY pk LIMIT 9",
    "SELECT DISTINCT pk FROM t WHERE pk < 50",
    "SELECT DISTINCT a % 7 FROM t",
    "SELECT t.pk, u.name FROM t JOIN u ON t.pk = u.id WHERE t.ck = 3",
    "SELECT count(*) FROM t LEFT JOIN u ON t.a = u.id WHERE u.name IS NULL",
    "SELECT u.name, sum(t.a) FROM t JOIN u ON t.pk = u.id GROUP BY u.name ORDER BY u.name",
    "SELECT count(*) FROM t a JOIN t b ON a.pk = b.ck AND a.ck = b.ck",
    "SELECT id FROM u WHERE id IN (SELECT a FROM t WHERE ck = 0)",
    "SELECT id FROM u WHERE id NOT IN (SELECT a FROM t)",
    "SELECT id FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.pk = u.id AND t.a = 7)",
    "SELECT id, (SELECT max(a) FROM t WHERE t.pk = u.id) FROM u WHERE id < 20",
    "SELECT pk FROM t WHERE a = 7 UNION SELECT id FROM u WHERE name = 'n1'",
    "SELECT a FROM t WHERE pk = 3 UNION ALL SELECT id FROM u WHERE id < 4",
    "SELECT a FROM t EXCEPT SELECT id FROM u WHERE id < 90",
    "SELECT pk, ck, sum(a) OVER (PARTITION BY pk ORDER BY ck) FROM t WHERE pk < 8",
    "SELECT pk, ck, row_number() OVER (ORDER BY a, pk, ck) FROM t WHERE a < 5",
    "SELECT d * 3.14159, d / 7, f * 2 FROM t WHERE a = 42",
    "SELECT sum(d * (1 - 0.05)) FROM t",
    "SELECT CASE WHEN a < 50 THEN 'low' ELSE 'high' END AS c, count(*) FROM t GROUP BY c",
    "SELECT s FROM v WHERE pk = 9",
    "SELECT max(s) FROM v",
    "SELECT token(pk), pk FROM t WHERE ck = 0 AND pk < 5",
    "SELECT count(*) FROM t WHERE token(pk) > 0",
    "SELECT * FROM t WHERE ck = 4 AND a % 2 = 1 PER PARTITION LIMIT 1",
    "SELECT writetime(a) > 0 FROM t WHERE pk = 3 AND ck = 1",
    "SELECT name, min(t) FROM u GROUP BY name",
    "SELECT id FROM u ORDER BY t DESC LIMIT 3",
    "WITH big AS (SELECT pk, sum(a) AS s FROM t GROUP BY pk) \
     SELECT count(*) FROM big JOIN u ON big.pk = u.id WHERE big.s > 400",
];

#[test]
fn every_node_answers_as_one_that_has_everything() {
    let (three, one) = (Cluster::start(3), Cluster::start(1));
    threads().block_on(async {
        let (mut clients, mut alone) = (three.clients().await, one.client(0).await);
        for (at, text) in TABLES.iter().chain(&FILL).enumerate() {
            // Whichever node is asked.
            run(&mut clients[at % 3], text).await;
            run(&mut alone, text).await;
        }
        for text in QUERIES {
            let in_order = |mut rows: Vec<String>| {
                if !text.contains("ORDER BY") || text.contains("OVER") {
                    rows.sort();
                }
                rows
            };
            let wanted = in_order(run(&mut alone, text).await);
            assert!(!wanted.is_empty(), "{text} tells nothing");
            for (place, client) in clients.iter_mut().enumerate() {
                let found = in_order(run(client, text).await);
                assert_eq!(found, wanted, "node {} on {text}", name(place));
            }
        }
        // Each node has a part.
        let text = "EXPLAIN ANALYZE SELECT b, sum(d * 2) FROM t GROUP BY b";
        let plan = run(&mut clients[1], text).await.join("\n");
        for node in ["a", "b", "c"] {
            let scan = format!("partitions=all of node {node}");
            assert!(plan.contains(&scan), "{plan}");
        }
    });
}

/// EXPLAIN shows the plan that would run, as EXPLAIN ANALYZE shows the one that ran.
#[test]
fn explain_shows_which_node_reads_what() {
    let three = Cluster::start(3);
    threads().block_on(async {
        let mut client = three.client(1).await;
        for text in TABLES {
            run(&mut client, text).await;
        }
        let query = "SELECT b, sum(d * 2) FROM t WHERE a > 3 GROUP BY b";
        for words in ["EXPLAIN", "EXPLAIN VERBOSE", "EXPLAIN FORMAT TREE"] {
            let plan = run(&mut client, &format!("{words} {query}")).await.join("\n");
            for node in ["a", "b", "c"] {
                let scan = format!("partitions=all of node {node}");
                assert!(plan.contains(&scan), "{words}: {plan}");
            }
            assert!(plan.contains("Stage 1"), "{words}: {plan}");
        }
        // One partition is read with no plan, by one hop.
        let plan = run(&mut client, "EXPLAIN SELECT a FROM t WHERE pk = 3").await.join("\n");
        assert!(!plan.contains("Stage"), "{plan}");
    });
}
