//! TRUNCATE: a table without its rows, for statements that come later on every path.

use crate::query::tests::World;
use crate::query::{OutcomeKind, Session, SessionOptions};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_table_has_its_columns_and_no_rows() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await;
    for pk in 0..20 {
        world.run(&format!("INSERT INTO t VALUES ({pk}, 1, 'a'), ({pk}, 2, 'b')")).await;
    }
    world.run("FLUSH t").await;
    assert_eq!(world.column("SELECT count(*) FROM t").await, ["40"]);
    assert_eq!(world.column("SELECT v FROM t WHERE pk = 3 AND ck = 2").await, ["b"]);
    let other = Session::new(world.session.database().clone(), SessionOptions::default()).unwrap();
    let outcome = world.run("TRUNCATE TABLE t").await;
    let told = match outcome.kind {
        OutcomeKind::Message(told) => told,
        _ => panic!("no message"),
    };
    assert_eq!(told, "Table default.t truncated.");
    assert_eq!(world.column("SELECT count(*) FROM t").await, ["0"]);
    for path in ["true", "false"] {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        let none: Vec<String> = Vec::new();
        assert_eq!(world.column("SELECT v FROM t WHERE pk = 3 AND ck = 2").await, none, "{path}");
        world.run("INSERT INTO t VALUES (3, 2, 'new')").await;
        assert_eq!(world.column("SELECT v FROM t WHERE pk = 3 AND ck = 2").await, ["new"]);
        world.run("TRUNCATE default.t").await;
    }
    // Whoever knew the table before writes to the one that is there.
    other.execute("INSERT INTO t VALUES (5, 1, 'theirs')").await.unwrap();
    assert_eq!(world.column("SELECT v FROM t").await, ["theirs"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_own_table_is_not_truncated() {
    let world = World::new().await;
    world.run("CREATE TABLE weather (pk int PRIMARY KEY)").await;
    let error = world.error("TRUNCATE wether").await;
    assert!(error.to_string().contains("wether"), "{error}");
    let error = world.error("TRUNCATE system.metrics").await;
    assert!(error.to_string().contains("system"), "{error}");
}
