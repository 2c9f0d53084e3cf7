//! Writes that depend on what is there, and batches, over nodes.

use super::*;

#[test]
fn of_racing_conditional_writes_one_wins_whichever_node_is_asked() {
    let cluster = Cluster::start(3);
    threads().block_on(async {
        let mut clients = cluster.clients().await;
        run(&mut clients[0], "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
        for k in 0..12 {
            let text = format!("INSERT INTO t (k, v) VALUES ({k}, ");
            let race = clients.iter_mut().enumerate().map(|(place, client)| {
                let text = format!("{text}{place}) IF NOT EXISTS");
                async move { run(client, &text).await[0].starts_with("true|") }
            });
            let won = futures::future::join_all(race).await;
            assert_eq!(won.iter().filter(|won| **won).count(), 1, "of key {k}: {won:?}");
            let winner = won.iter().position(|won| *won).unwrap();
            let text = format!("SELECT v FROM t WHERE k = {k}");
            for client in &mut clients {
                assert_eq!(run(client, &text).await, [format!("{winner}|")]);
            }
        }
    });
}

#[test]
fn a_logged_batch_reaches_a_node_that_was_down() {
    let mut cluster = Cluster::start(3);
    let threads = threads();
    threads.block_on(async {
        let mut client = cluster.client(0).await;
        run(&mut client, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
    });
    cluster.kill(1);
    threads.block_on(async {
        let mut client = cluster.client(0).await;
        let inserts: String =
            (0..30).map(|k| format!("INSERT INTO t (k, v) VALUES ({k}, 7); ")).collect();
        let text = format!("BEGIN BATCH {inserts} APPLY BATCH");
        let error = refused(&mut client, &text).await;
        assert!(error.contains("the batch is logged"), "{error}");
        assert!(error.contains("node 'b'"), "{error}");
    });
    // The node that has logged it ends, too.
    cluster.kill(0);
    cluster.start_node(1);
    cluster.start_node(0);
    threads.block_on(async {
        let mut client = cluster.client(2).await;
        for _ in 0..100 {
            if run(&mut client, "SELECT count(*) FROM t WHERE v = 7").await == ["30|"] {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        panic!("the rest of the batch does not come");
    });
}

#[test]
fn each_write_of_a_batch_goes_to_the_table_that_it_names() {
    const TABLES: [&str; 4] = ["first", "second", "first", "third"];
    let cluster = Cluster::start(2);
    threads().block_on(async {
        let mut clients = cluster.clients().await;
        for table in &TABLES[1..] {
            let text = format!("CREATE TABLE {table} (k int PRIMARY KEY, v int)");
            run(&mut clients[0], &text).await;
        }
        // Either node gets writes of all tables in one message, in turns.
        let insert = |(k, table)| format!("INSERT INTO {table} (k, v) VALUES ({k}, {k}); ");
        let inserts: String = (0..80).zip(TABLES.into_iter().cycle()).map(insert).collect();
        run(&mut clients[0], &format!("BEGIN BATCH {inserts} APPLY BATCH")).await;
        for table in &TABLES[1..] {
            let of_table = |k: &usize| TABLES[k % TABLES.len()] == *table;
            let wanted: Vec<String> = (0..80).filter(of_table).map(|k| format!("{k}|")).collect();
            let text = format!("SELECT k FROM {table} ORDER BY k");
            for client in &mut clients {
                assert_eq!(run(client, &text).await, wanted, "{table}");
            }
        }
    });
}

/// Conditions of `v = 5`, `w = 'b'` and `d = 1.50`, and whether they hold.
const CONDITIONS: [(&str, bool); 22] = [
    ("v < 5", false),
    ("v < 6", true),
    ("v <= 4", false),
    ("v <= 5", true),
    ("v = 5", true),
    ("v = 4", false),
    ("v != 5", false),
    ("v != 4", true),
    ("v >= 5", true),
    ("v >= 6", false),
    ("v > 5", false),
    ("v > 4", true),
    ("v IN (1, 5)", true),
    ("v IN (1, null)", false),
    ("n = null", true),
    ("n != null", false),
    ("n IN (1, null)", true),
    ("w >= 'b' AND w < 'ba'", true),
    ("w = 'a'", false),
    ("d = 1.5 AND v = 5", true),
    ("d > 1.5", false),
    ("EXISTS", true),
];

#[test]
fn a_condition_decides_alike_wherever_its_row_is() {
    const KEYS: i32 = 8;
    let cluster = Cluster::start(2);
    threads().block_on(async {
        let mut clients = cluster.clients().await;
        let table = "CREATE TABLE t (k int PRIMARY KEY, v int, w text, d decimal(10, 2), n int)";
        run(&mut clients[0], table).await;
        for k in 0..KEYS {
            let text = format!("INSERT INTO t (k, v, w, d) VALUES ({k}, 5, 'b', 1.50)");
            run(&mut clients[0], &text).await;
        }
        for (condition, wanted) in CONDITIONS {
            for k in 0..KEYS {
                let text = format!("UPDATE t SET w = 'b' WHERE k = {k} IF {condition}");
                let answer = run(&mut clients[(k % 2) as usize], &text).await;
                let is_applied = answer[0].starts_with("true|");
                assert_eq!(is_applied, wanted, "{text}");
            }
        }
        // Either node has some of the keys.
        let text = "SELECT count(*) FROM t WHERE token(k) >= 0";
        let above: i32 = run(&mut clients[0], text).await[0].trim_end_matches('|').parse().unwrap();
        assert!((1..KEYS).contains(&above), "{above} of {KEYS}");
    });
}

#[test]
fn a_definition_is_of_the_keyspace_that_its_session_is_in() {
    let cluster = Cluster::start(2);
    threads().block_on(async {
        let mut clients = cluster.clients().await;
        for text in [
            "CREATE KEYSPACE k2",
            "USE k2",
            "CREATE TYPE point (x int, y int)",
            "CREATE TABLE t (k int PRIMARY KEY, v int)",
            "ALTER TABLE t ADD more int",
            "CREATE VIEW w AS SELECT k FROM t",
        ] {
            run(&mut clients[0], text).await;
        }
        for client in &mut clients {
            let counts = run(client, "SELECT count(*), count(more) FROM k2.t").await;
            assert_eq!(counts, ["0|0|"]);
            assert_eq!(run(client, "SELECT count(*) FROM k2.w").await, ["0|"]);
            let error = refused(client, "SELECT * FROM default.t").await;
            assert!(error.contains("does not exist"), "{error}");
        }
        // One of the name is in the keyspace of the other session.
        run(&mut clients[1], "CREATE TABLE t (k int PRIMARY KEY)").await;
        run(&mut clients[0], "DROP VIEW w").await;
        run(&mut clients[0], "DROP TABLE t").await;
        for client in &mut clients {
            assert_eq!(run(client, "SELECT count(*) FROM default.t").await, ["0|"]);
            assert!(refused(client, "SELECT * FROM k2.t").await.contains("does not exist"));
        }
    });
}
