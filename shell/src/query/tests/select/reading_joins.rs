//! What joins answer of rows that have no partner, or null beside it.

use super::super::World;

/// A large table `t`, whose `v` is null in the rows with `ck` 7, and a small one with nulls.
async fn world() -> World {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, ck int, v int, PRIMARY KEY (pk, ck))").await;
    world
        .run(
            "INSERT INTO t SELECT value / 50, value % 50, \
             CASE WHEN value % 50 = 7 THEN NULL ELSE value END \
             FROM generate_series(0, 1999) AS s(value)",
        )
        .await;
    world.run("CREATE TABLE few (id int PRIMARY KEY, key int, v int)").await;
    world
        .run("INSERT INTO few VALUES (1, 3, 100), (2, 5, NULL), (3, NULL, 157), (4, 77, -1)")
        .await;
    world
}

/// Whichever side is read first, and whichever side's rows the join keeps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_without_partners_are_answered_where_the_join_asks_for_them() {
    let world = world().await;
    for is_flushed in [false, true] {
        for (query, wanted) in [
            // The large side is kept, by its key and by a value.
            ("FROM t WHERE NOT EXISTS (SELECT 1 FROM few WHERE few.key = t.pk)", "1900"),
            ("FROM t WHERE NOT EXISTS (SELECT 1 FROM few WHERE few.v = t.v)", "1999"),
            ("FROM t LEFT JOIN few ON few.key = t.pk WHERE few.id IS NULL", "1900"),
            ("FROM t WHERE pk NOT IN (SELECT key FROM few WHERE key IS NOT NULL)", "1900"),
            ("FROM t WHERE pk IN (SELECT key FROM few) OR ck = 0", "138"),
            ("FROM t WHERE pk IN (SELECT key FROM few)", "100"),
            // The small one is.
            ("FROM few WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.pk = few.key)", "2"),
            ("FROM few WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.v = few.v)", "3"),
            ("FROM few LEFT JOIN t ON few.v = t.v WHERE t.pk IS NULL", "3"),
            ("FROM few WHERE v IN (SELECT v FROM t)", "1"),
            ("FROM few WHERE v IN (SELECT v FROM t) OR id = 4", "2"),
        ] {
            let query = format!("SELECT count(*) {query}");
            assert_eq!(world.column(&query).await, [wanted], "{query}, flushed: {is_flushed}");
        }
        world.run("FLUSH").await;
    }
}

/// A null among the values makes NOT IN true of nothing, though no row is its partner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_null_in_a_list_is_no_proof_that_a_value_is_missing() {
    let world = world().await;
    for is_flushed in [false, true] {
        for (query, wanted) in [
            ("FROM few WHERE v NOT IN (SELECT v FROM t)", "0"),
            ("FROM few WHERE v NOT IN (SELECT v FROM t WHERE ck <> 7)", "2"),
            ("FROM few WHERE v NOT IN (SELECT v FROM t WHERE ck = 7)", "0"),
            ("FROM few WHERE v NOT IN (SELECT v FROM t WHERE ck = 77)", "4"),
            ("FROM t WHERE pk NOT IN (SELECT key FROM few)", "0"),
            ("FROM t WHERE v NOT IN (SELECT v FROM few)", "0"),
        ] {
            let query = format!("SELECT count(*) {query}");
            assert_eq!(world.column(&query).await, [wanted], "{query}, flushed: {is_flushed}");
        }
        world.run("FLUSH").await;
    }
}
