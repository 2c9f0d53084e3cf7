//! Statements about policies: shadow, promotion, canary, rollback, what is told of them.

use super::World;
use crate::query::ErrorKind;

fn dist(name: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/dist");
    format!("{root}/{name}.wasm")
}

/// Reads that go round a table larger than the cache.
async fn read_around(world: &World) {
    for origin in ["EWR", "JFK", "LGA"] {
        let query = format!("SELECT temp FROM weather WHERE origin = '{origin}'");
        assert_eq!(world.column(&query).await.len(), 9);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shadow_is_shown() {
    let world = World::weather().await;
    world.run("FLUSH").await;
    world.run(&format!("CREATE POLICY s3 FROM '{}'", dist("s3_fifo"))).await;
    let message = async |text: &str| world.column(text).await.join(";");
    assert_eq!(
        message("ALTER CACHE SET POLICY = s3 MODE = shadow SAMPLE = 1/16").await,
        "Shadow of s3 started on one key in 16."
    );
    for _ in 0..5 {
        read_around(&world).await;
    }
    insta::assert_snapshot!(
        world.rows(
            "SELECT name, state, sample, hits + misses > 0 AS looked, hit_ratio IS NOT NULL AS h, \
             active_hit_ratio IS NOT NULL AS a FROM system.policies \
             WHERE name IN ('lru', 's3') ORDER BY name"
        )
        .await,
        @"
    +------+--------+--------+--------+------+-------+
    | name | state  | sample | looked | h    | a     |
    +------+--------+--------+--------+------+-------+
    | lru  | active |        | true   | true | false |
    | s3   | shadow | 1/16   | true   | true | true  |
    +------+--------+--------+--------+------+-------+
    "
    );
    let figures = world.rows("EXPLAIN POLICY s3").await;
    for figure in [
        "| state ",
        "| shadow on 2 shards",
        "| sample ",
        "| hit ratio by bytes ",
        "| hit ratio by cost ",
        "| active policy's hit ratio ",
        "| ns per event ",
        "| fuel per event ",
        "| invalid victims ",
        "| shortfalls ",
    ] {
        assert!(figures.contains(figure), "{figure}: {figures}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_is_promoted_and_rolled_back() {
    let world = World::weather().await;
    world.run(&format!("CREATE POLICY s3 FROM '{}'", dist("s3_fifo"))).await;
    let message = async |text: &str| world.column(text).await.join(";");
    assert_eq!(message("ALTER CACHE SET POLICY = s3").await, "Eviction policy set to s3.");
    let states = "SELECT name || ' ' || state FROM system.policies WHERE name IN ('lru', 's3') \
                  ORDER BY name";
    assert_eq!(world.column(states).await, ["lru standby", "s3 active"]);
    assert_eq!(message("ROLLBACK POLICY").await, "Eviction policy set back to lru.");
    assert_eq!(world.column(states).await, ["lru active", "s3 standby"]);
    assert_eq!(
        message("ALTER CACHE SET POLICY = s3 MODE = canary").await,
        "Canary of s3 started on 1 of 2 shards."
    );
    assert_eq!(world.column(states).await, ["lru active", "s3 canary"]);
    let fares = "no gain known after 0 of 10 to 60 windows";
    assert!(world.rows("EXPLAIN POLICY s3").await.contains(fares));
    let canary = "SELECT coalesce(canary, '-') FROM system.policies WHERE name IN ('lru', 's3') \
                  ORDER BY name";
    assert_eq!(world.column(canary).await, ["-", fares]);
    assert_eq!(message("ROLLBACK CACHE POLICY").await, "Eviction policy set back to lru.");
    assert_eq!(world.column(canary).await, ["-", "went back: operator: rolled back by statement"]);
    assert_eq!(
        message("ALTER CACHE SHADOW POLICY = native").await,
        "Shadow of lru started on one key in 64."
    );
    assert_eq!(message("ALTER CACHE SHADOW POLICY = NONE").await, "Shadow ended.");
    insta::assert_snapshot!(
        world.rows("SELECT policy, role, kind, message FROM system.policy_exits").await,
        @"
    +--------+--------+----------+--------------------------+
    | policy | role   | kind     | message                  |
    +--------+--------+----------+--------------------------+
    | s3     | active | operator | rolled back by statement |
    +--------+--------+----------+--------------------------+
    "
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_of_policy_statements_point_at_the_name() {
    let world = World::new().await;
    for (text, kind, column) in [
        ("EXPLAIN POLICY nothing", ErrorKind::NotFound, 16),
        ("ALTER CACHE SET POLICY = nothing MODE = shadow", ErrorKind::NotFound, 26),
        ("ALTER CACHE SET POLICY = nothing MODE = canary", ErrorKind::NotFound, 26),
        ("ALTER CACHE SHADOW POLICY = nothing", ErrorKind::NotFound, 29),
        ("ALTER CACHE SET POLICY = lru MODE = canary", ErrorKind::Invalid, 26),
    ] {
        let error = world.error(text).await;
        assert_eq!(error.kind, kind, "{text}");
        assert_eq!(error.span.map(|span| span.column), Some(column), "{text}");
    }
    let nothing = world.error("ROLLBACK POLICY").await;
    assert!(nothing.to_string().contains("nothing to roll back"), "{nothing}");
    let sql = world.error("ROLLBACK").await;
    assert_eq!(sql.kind, ErrorKind::Unsupported);
}
