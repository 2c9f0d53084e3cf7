//! ALTER TABLE: the next statement knows the new definition, on every path.

use super::super::World;
use crate::query::{OutcomeKind, Session, SessionOptions};

const NONE: [&str; 0] = [];

async fn told(world: &World, text: &str) -> String {
    match world.run(text).await.kind {
        OutcomeKind::Message(told) => told,
        _ => panic!("no message: {text}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_statement_knows_the_columns_of_the_moment() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await;
    world.run("INSERT INTO t VALUES (1, 1, 'a'), (1, 2, 'b'), (2, 1, 'c')").await;
    world.run("FLUSH t").await;
    let other = Session::new(world.session.database().clone(), SessionOptions::default()).unwrap();
    for path in ["true", "false"] {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        let told = told(&world, "ALTER TABLE t ADD COLUMN w int, s bigint STATIC").await;
        assert_eq!(told, "Table default.t altered.");
        assert_eq!(world.column("SELECT w FROM t WHERE pk = 1").await, ["", ""], "{path}");
        world.run("INSERT INTO t VALUES (1, 1, 'a', 10, 7)").await;
        other.execute("UPDATE t SET w = 20 WHERE pk = 1 AND ck = 3").await.unwrap();
        assert_eq!(world.column("SELECT w FROM t WHERE pk = 1").await, ["10", "", "20"]);
        assert_eq!(world.column("SELECT s FROM t WHERE pk = 1 AND ck = 2").await, ["7"]);
        assert_eq!(world.column("SELECT sum(w) FROM t").await, ["30"]);
        let drop = "ALTER TABLE default.t DROP COLUMN IF EXISTS w, s, none";
        let far = i64::MAX;
        match path {
            "true" => world.run(drop).await,
            // So far that nothing of it comes back.
            _ => world.run(&format!("{drop} USING TIMESTAMP {far}")).await,
        };
        assert_eq!(world.column("SELECT * FROM t WHERE pk = 1").await, ["1", "1"], "{path}");
        assert_eq!(world.column("SELECT count(*) FROM t").await, ["3"]);
        for text in ["SELECT w FROM t", "INSERT INTO t (pk, ck, w) VALUES (1, 1, 1)"] {
            let error = world.error(text).await.to_string();
            assert!(error.contains("'w'") && error.contains("does not exist"), "{error}");
        }
        assert!(other.execute("UPDATE t SET s = 1 WHERE pk = 1").await.is_err());
        world.run("INSERT INTO t VALUES (1, 1, 'a')").await;
        world.run("ALTER TABLE t RENAME ck TO at").await;
        assert_eq!(world.column("SELECT at FROM t WHERE pk = 1 AND at > 1").await, ["2"]);
        other.execute("DELETE FROM t WHERE pk = 1 AND at = 9").await.unwrap();
        world.run("ALTER TABLE t RENAME at TO ck").await;
    }
    world.run("ALTER TABLE t ADD (w int, s bigint STATIC)").await;
    world.run("INSERT INTO t VALUES (1, 1, 'a', 10, 7)").await;
    assert_eq!(world.column("SELECT w FROM t WHERE w IS NOT NULL").await, NONE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_shown_of_a_table_is_what_it_has() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await;
    world.run("ALTER TABLE t DROP v").await;
    world.run("ALTER TABLE t ADD w int, ADD COLUMN x text").await;
    world.run("ALTER TABLE t RENAME pk TO id AND ck TO at").await;
    let shown = world.rows("DESCRIBE t").await;
    assert!(!shown.contains("| v ") && shown.contains("| w "), "{shown}");
    let columns = "SELECT column_name FROM system.columns WHERE table_name = 't' ORDER BY position";
    assert_eq!(world.column(columns).await, ["id", "at", "w", "x"]);
    assert_eq!(
        world.column("SELECT position FROM system.columns WHERE table_name = 't'").await,
        ["0", "1", "2", "3"]
    );
    let file = world.path("t.csv");
    world.run("INSERT INTO t VALUES (1, 2, 3, 'y')").await;
    world.run(&format!("COPY t TO '{file}' WITH (HEADER true)")).await;
    world.run("TRUNCATE t").await;
    world.run(&format!("COPY t FROM '{file}' WITH (HEADER true)")).await;
    world.run("ALTER TABLE t ADD v text").await;
    let loaded = world.rows("SELECT id, at, w, x, v FROM t").await;
    assert!(loaded.contains("| 1  | 2  | 3 | y |"), "{loaded}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_altered_is_told_where_it_stands() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await;
    for (text, words) in [
        ("ALTER TABLE t DROP pk", &["primary key", "create another table"][..]),
        ("ALTER TABLE t DROP vv", &["'vv' does not exist"]),
        ("ALTER TABLE t ADD v text", &["v", "exists"]),
        ("ALTER TABLE t ADD w intt", &["intt"]),
        ("ALTER TABLE t ADD w", &["expected"]),
        ("ALTER TABLE t RENAME v TO w", &["not part of the primary key", "add 'w'"]),
        ("ALTER TABLE t RENAME ck", &["expected TO"]),
        ("ALTER TABLE t ALTER v TYPE blob", &["ADD, DROP, RENAME or WITH", "add another column"]),
        ("ALTER TABLE tt ADD w int", &["'tt' does not exist"]),
        ("ALTER TABLE system.tables ADD w int", &["system"]),
    ] {
        let error = world.error(text).await;
        let all = error.render(text);
        assert!(words.iter().all(|word| all.contains(word)), "{text}: {all}");
        assert!(error.span.is_some(), "{text}: {all}");
    }
    world.run("CREATE TYPE address (street text)").await;
    world.run("ALTER TABLE t ADD home frozen<address>").await;
    let used = world.error("DROP TYPE address").await.to_string();
    assert!(used.contains("used by table default.t"), "{used}");
    world.run("ALTER TABLE t DROP home").await;
    world.run("DROP TYPE address").await;
}
