//! Which rows conditions let through: on tokens, and of partitions that have static columns alone.

use super::super::World;

/// Rows of an answer, as numbers in order.
async fn numbers(world: &World, text: &str) -> Vec<i64> {
    let found = world.column(text).await;
    let mut numbers: Vec<i64> = found.iter().map(|text| text.parse().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

/// An operator, the one that it is turned round, and what it says of two tokens.
type Operator = (&'static str, &'static str, fn(i64, i64) -> bool);

/// The borders belong to a stretch of the ring or not, whichever side the token stands on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_on_tokens_hold_at_their_borders_on_either_side() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int PRIMARY KEY, v int)").await;
    world.run("INSERT INTO t SELECT value, 1 FROM generate_series(0, 11) AS s(value)").await;
    let mut ring = Vec::new();
    for pk in 0..12 {
        let text = format!("SELECT token(pk) FROM t WHERE pk = {pk}");
        ring.push((numbers(&world, &text).await[0], pk));
    }
    ring.sort_unstable();
    let operators: [Operator; 6] = [
        ("<", ">", |token, border| token < border),
        ("<=", ">=", |token, border| token <= border),
        (">", "<", |token, border| token > border),
        (">=", "<=", |token, border| token >= border),
        ("=", "=", |token, border| token == border),
        ("<>", "<>", |token, border| token != border),
    ];
    let of = |holds: &dyn Fn(i64) -> bool| {
        let mut keys: Vec<i64> =
            ring.iter().filter(|(token, _)| holds(*token)).map(|(_, pk)| *pk).collect();
        keys.sort_unstable();
        keys
    };
    for border in [ring[0].0, ring[5].0, ring[11].0] {
        for (operator, turned, holds) in operators {
            let wanted = of(&|token| holds(token, border));
            for condition in
                [format!("token(pk) {operator} {border}"), format!("{border} {turned} token(pk)")]
            {
                let text = format!("SELECT pk FROM t WHERE {condition}");
                assert_eq!(numbers(&world, &text).await, wanted, "{condition}");
            }
        }
    }
    let (low, high) = (ring[3].0, ring[8].0);
    let is_between = |token: i64| (low..=high).contains(&token);
    for (condition, wanted) in [
        (format!("token(pk) BETWEEN {low} AND {high}"), of(&is_between)),
        (format!("token(pk) NOT BETWEEN {low} AND {high}"), of(&|token| !is_between(token))),
        (format!("token(pk) BETWEEN {high} AND {low}"), Vec::new()),
        (format!("NOT token(pk) > {low}"), of(&|token| token <= low)),
        (format!("token(pk) IN ({low}, {high})"), of(&|token| token == low || token == high)),
        (
            format!("token(pk) < {low} OR token(pk) > {high}"),
            of(&|token| token < low || token > high),
        ),
    ] {
        let text = format!("SELECT pk FROM t WHERE {condition}");
        assert_eq!(numbers(&world, &text).await, wanted, "{condition}");
    }
}

/// The one row of such a partition has null for its clustering columns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_of_static_columns_alone_passes_no_condition_on_clustering_columns() {
    let world = World::new().await;
    for order in ["ASC", "DESC"] {
        let table = format!("t_{order}").to_lowercase();
        world
            .run(&format!(
                "CREATE TABLE {table} (pk int, ck int, v int, s int STATIC, PRIMARY KEY (pk, ck)) \
                 WITH CLUSTERING ORDER BY (ck {order})"
            ))
            .await;
        world.run(&format!("INSERT INTO {table} (pk, s) VALUES (1, 10)")).await;
        let rows = "(2, 1, 7, 20), (2, 2, 7, 20), (2, 3, NULL, 20)";
        world.run(&format!("INSERT INTO {table} (pk, ck, v, s) VALUES {rows}")).await;
        for path in ["true", "false"] {
            world.run(&format!("SET tidegate.short_path = {path}")).await;
            for (condition, wanted) in [
                ("pk = 1", &[10][..]),
                ("pk = 1 AND ck < 5", &[]),
                ("pk = 1 AND ck > -5", &[]),
                ("pk = 1 AND ck <> 5", &[]),
                ("pk = 1 AND ck IN (0, 1)", &[]),
                ("pk = 1 AND ck IS NULL", &[10]),
                ("pk IN (1, 2) AND ck < 3", &[20, 20]),
                ("ck < 3", &[20, 20]),
                ("NOT ck > 1", &[20]),
                ("ck IS NULL", &[10]),
                ("v IS NULL", &[10, 20]),
                ("s = 10", &[10]),
                ("s > 10 AND ck > 2", &[20]),
                ("ck = 1 OR s = 10", &[10, 20]),
            ] {
                let text = format!("SELECT s FROM {table} WHERE {condition}");
                assert_eq!(numbers(&world, &text).await, wanted, "{text}, short path {path}");
            }
        }
    }
}
