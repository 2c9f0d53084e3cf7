//! Instants that nanoseconds do not reach.

use crate::query::tests::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn far_instants_stand_beside_near_ones() {
    let world = World::new().await;
    world.run("CREATE TABLE f (pk int PRIMARY KEY, ts timestamp, d date)").await;
    world
        .run(
            "INSERT INTO f VALUES (1, '0001-01-01T00:00:00Z', '0001-01-01'), \
             (2, '2024-01-01T00:00:00Z', '2024-01-01'), (3, '9999-12-31T00:00:00Z', '9999-12-31')",
        )
        .await;
    let near = "TIMESTAMP '2024-01-01'";
    for (query, wanted) in [
        ("SELECT count(*) FROM (SELECT ts FROM f UNION ALL SELECT NEAR)", "4"),
        ("SELECT count(*) FROM (SELECT ts FROM f UNION SELECT NEAR)", "3"),
        ("SELECT count(*) FROM f JOIN (SELECT NEAR AS t) b ON f.ts = b.t", "1"),
        ("SELECT count(*) FROM f LEFT JOIN (SELECT now() AS t) b ON f.ts < b.t", "3"),
        ("SELECT pk FROM f WHERE ts IN (SELECT NEAR)", "2"),
        ("SELECT pk FROM f WHERE ts = (SELECT NEAR)", "2"),
        ("SELECT count(coalesce(ts, NEAR)) FROM f", "3"),
        ("SELECT count(coalesce(ts, now())) FROM f", "3"),
        ("SELECT count(CASE WHEN pk = 1 THEN ts ELSE NEAR END) FROM f", "3"),
        ("SELECT count(greatest(ts, NEAR)) FROM f", "3"),
        ("SELECT count(nullif(ts, NEAR)) FROM f", "2"),
        ("SELECT count(ts - NEAR) FROM f", "3"),
        ("SELECT pk FROM f WHERE ts = DATE '0001-01-01'", "1"),
        ("SELECT pk FROM f WHERE ts > DATE '0001-01-01' ORDER BY pk", "2 3"),
        ("SELECT pk FROM f WHERE ts IN (DATE '0001-01-01', DATE '2024-01-01') ORDER BY pk", "1 2"),
        ("SELECT pk FROM f WHERE d = TIMESTAMP '9999-12-31'", "3"),
        ("SELECT count(*) FROM f WHERE ts = d", "3"),
        ("SELECT count(CAST(d AS timestamp)) FROM f", "3"),
        ("SELECT count(ts AT TIME ZONE 'Europe/Berlin') FROM f", "3"),
        ("SELECT CAST(DATE '0001-01-01' AS timestamp)", "0001-01-01T00:00:00"),
        ("SELECT NEAR + INTERVAL '1000 years'", "3024-01-01T00:00:00"),
        (
            "SELECT pk FROM f WHERE ts BETWEEN TIMESTAMP '0001-01-01' AND \
             TIMESTAMP '2024-01-01T00:00:00.0000001' ORDER BY pk",
            "1 2",
        ),
        (
            "SELECT pk FROM f WHERE ts NOT BETWEEN TIMESTAMP '0001-01-02' AND \
             TIMESTAMP '2024-01-01T00:00:00.0000001' ORDER BY pk",
            "1 3",
        ),
        // What is finer is not cut.
        ("SELECT count(*) FROM f WHERE ts = TIMESTAMP '2024-01-01T00:00:00.000000001'", "0"),
        ("SELECT TIMESTAMP '2024-01-01T00:00:00.123456789'", "2024-01-01T00:00:00.123456789"),
    ] {
        let query = query.replace("NEAR", near);
        assert_eq!(world.column(&query).await.join(" "), wanted, "{query}");
    }
}
