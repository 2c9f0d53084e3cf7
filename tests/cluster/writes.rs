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
