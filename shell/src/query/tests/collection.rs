//! Collections, tuples and user types in SQL.

use super::World;

async fn table() -> World {
    let world = World::new().await;
    world.run("CREATE TYPE addr (street text, zip int, tags frozen<set<text>>)").await;
    world
        .run(
            "CREATE TABLE t (pk int, ck frozen<list<int>>, s set<int> STATIC, l list<int>, \
             m map<text, int>, u addr, f frozen<addr>, p tuple<int, text>, n varint, \
             d duration, PRIMARY KEY (pk, ck)) WITH CLUSTERING ORDER BY (ck DESC)",
        )
        .await;
    world
}

const ROW: &str = "SELECT l, m, u, f, p, n FROM t WHERE pk = 1 AND ck = [1, 2]";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_are_written_read_and_replaced() {
    let world = table().await;
    world
        .run(
            "INSERT INTO t (pk, ck, s, l, m, u, p, n, d) VALUES (1, [1, 2], [3, 1, 3], [1, 2], \
             MAP {'b': 2, 'a': 1}, {street: 's', zip: 7, tags: ['y', 'x']}, struct(1, 'x'), \
             123456789012345678901234567890, INTERVAL '1 month 2 days')",
        )
        .await;
    world.run("INSERT INTO t (pk, ck, l) VALUES (1, [5], [9])").await;
    insta::assert_snapshot!(world.rows(ROW).await, @r"
    +--------+--------------+-----------------------------------+---+----------------+--------------------------------+
    | l      | m            | u                                 | f | p              | n                              |
    +--------+--------------+-----------------------------------+---+----------------+--------------------------------+
    | [1, 2] | {a: 1, b: 2} | {street: s, zip: 7, tags: [x, y]} |   | {c0: 1, c1: x} | 123456789012345678901234567890 |
    +--------+--------------+-----------------------------------+---+----------------+--------------------------------+
    ");
    // The old elements go with the new ones, before and after a flush.
    world.run("UPDATE t SET l = [7], m = NULL, p = NULL WHERE pk = 1 AND ck = [1, 2]").await;
    world.run("FLUSH t").await;
    world
        .run("INSERT INTO t (pk, ck, u) VALUES (1, [1, 2], {street: 't', zip: 8, tags: ['z']})")
        .await;
    insta::assert_snapshot!(world.rows(ROW).await, @r"
    +-----+---+--------------------------------+---+---+--------------------------------+
    | l   | m | u                              | f | p | n                              |
    +-----+---+--------------------------------+---+---+--------------------------------+
    | [7] |   | {street: t, zip: 8, tags: [z]} |   |   | 123456789012345678901234567890 |
    +-----+---+--------------------------------+---+---+--------------------------------+
    ");
    let plan = world.rows(&format!("EXPLAIN {ROW}")).await;
    assert!(plan.contains("slices=[[1, 2]]") && !plan.contains("filter="), "{plan}");
    let keys = "SELECT ck FROM t WHERE pk = 1";
    assert_eq!(world.column(keys).await, ["[5]", "[1, 2]"]);
    assert_eq!(world.column("SELECT s FROM t WHERE pk = 1 LIMIT 1").await, ["[1, 3]"]);
    world.run("DELETE l FROM t WHERE pk = 1 AND ck = [5]").await;
    assert_eq!(world.column("SELECT l FROM t WHERE pk = 1 AND ck = [5]").await, [""]);
    assert_eq!(world.column("SELECT d FROM t WHERE d IS NOT NULL").await, ["1 mons 2 days"]);
    assert_eq!(
        world.column("SELECT n FROM t WHERE n > 5").await,
        ["123456789012345678901234567890"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_is_refused_with_its_place() {
    let world = table().await;
    let error = world.error("CREATE TABLE x (a list<int> PRIMARY KEY)").await;
    assert!(error.message.contains("key column 'a' cannot be list<int>: freeze it"), "{error}");
    let error = world.error("CREATE TABLE x (a int PRIMARY KEY, b adr)").await;
    assert_eq!(error.help.as_deref(), Some("did you mean 'addr'?"));
    assert_eq!(error.span.unwrap().column, 38);
    let error = world.error("DROP TYPE addr").await;
    assert!(error.message.contains("is used by table default.t"), "{error}");
    let error = world.error("CREATE TYPE addr (a int)").await;
    assert!(error.message.contains("exists already"), "{error}");
    world.run("CREATE TYPE IF NOT EXISTS addr (a int)").await;
    world.run("CREATE TYPE outer_type (inner_type frozen<addr>)").await;
    let error = world.error("CREATE TYPE bad (a int, a int)").await;
    assert!(error.message.contains("'a' is there twice"), "{error}");
    let error = world.error("INSERT INTO t (pk, ck, l) VALUES (1, [1], [1, NULL])").await;
    assert!(error.message.contains("a collection holds no nulls"), "{error}");

    world.run("CREATE TABLE c (pk int PRIMARY KEY, n counter)").await;
    let error = world.error("INSERT INTO c (pk, n) VALUES (1, 1)").await;
    assert!(error.message.contains("counters are read, not written"), "{error}");
    let error = world.error("UPDATE c SET n = 1 WHERE pk = 1").await;
    assert!(error.message.contains("counters are read, not written"), "{error}");
    world.run("DROP TABLE t").await;
    let error = world.error("DROP TYPE addr").await;
    assert!(error.message.contains("is used by type default.outer_type"), "{error}");
    world.run("DROP TYPE outer_type").await;
    world.run("DROP TYPE addr").await;
    world.run("DROP TYPE IF EXISTS addr").await;
}
