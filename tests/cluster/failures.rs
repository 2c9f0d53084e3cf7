//! A node that is down, and definitions that differ.

use super::*;

#[test]
fn a_node_that_is_down_fails_what_needs_it_and_nothing_else() {
    let mut cluster = Cluster::start(3);
    let threads = threads();
    threads.block_on(async {
        let mut client = cluster.client(0).await;
        run(&mut client, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
        run(&mut client, "INSERT INTO t SELECT g, g FROM generate_series(1, 100) AS s(g)").await;
    });
    cluster.kill(2);
    let (here, there) = threads.block_on(async {
        let mut client = cluster.client(0).await;
        let (mut here, mut there) = (Vec::new(), Vec::new());
        for k in 1..=100 {
            let text = format!("SELECT v FROM t WHERE k = {k}");
            match try_run(&mut client, &text).await {
                Ok(_) => here.push(k),
                Err(error) => {
                    let error = error.to_string();
                    assert!(error.contains("node 'c' at grpc://127.0.0.1:"), "{error}");
                    assert!(error.contains("does not answer"), "{error}");
                    there.push(k);
                }
            }
        }
        assert!(here.len() > 40 && there.len() > 15, "{} and {}", here.len(), there.len());
        for text in [
            "SELECT count(*) FROM t".to_owned(),
            format!("INSERT INTO t VALUES ({}, 0)", there[0]),
            format!("UPDATE t SET v = 1 WHERE k = {} IF v = 2", there[0]),
            "CREATE TABLE u (k int PRIMARY KEY)".to_owned(),
            "DROP TABLE t".to_owned(),
        ] {
            let error = refused(&mut client, &text).await;
            assert!(error.contains("node 'c'"), "{text}: {error}");
        }
        // Of the definition nothing is done anywhere.
        for place in [0, 1] {
            let mut client = cluster.client(place).await;
            let error = refused(&mut client, "SELECT * FROM u").await;
            assert!(error.contains("'u' does not exist"), "{error}");
        }
        let nodes = run(&mut client, "SELECT node, is_this, answers FROM system.nodes").await;
        assert_eq!(nodes, ["a|true|true|", "b|false|true|", "c|false|false|"]);
        let text = format!("INSERT INTO t VALUES ({}, 1000)", here[0]);
        run(&mut client, &text).await;
        (here, there)
    });
    cluster.start_node(2);
    threads.block_on(async {
        for place in 0..3 {
            let mut client = cluster.client(place).await;
            assert_eq!(run(&mut client, "SELECT count(*) FROM t").await, ["100|"]);
            let text = format!("SELECT v FROM t WHERE k = {}", here[0]);
            assert_eq!(run(&mut client, &text).await, ["1000|"]);
            let text = format!("SELECT v FROM t WHERE k = {}", there[0]);
            assert_eq!(run(&mut client, &text).await, [format!("{}|", there[0])]);
        }
        let mut client = cluster.client(2).await;
        run(&mut client, "CREATE TABLE u (k int PRIMARY KEY)").await;
        assert_eq!(run(&mut client, "SELECT count(*) FROM u").await, ["0|"]);
    });
}

#[test]
fn definitions_that_differ_are_not_changed_until_they_are_alike() {
    let cluster = Cluster::start(2);
    threads().block_on(async {
        let mut clients = cluster.clients().await;
        run(&mut clients[0], "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
        run(&mut clients[0], "INSERT INTO t SELECT g, g FROM generate_series(1, 50) AS s(g)").await;
        // One node alone, as after a failure between two.
        run(&mut clients[1], "SET tidegate.this_node_alone = true").await;
        run(&mut clients[1], "ALTER TABLE t ADD w int").await;
        let error = refused(&mut clients[0], "CREATE TABLE u (k int PRIMARY KEY)").await;
        assert!(error.contains("definitions of nodes 'a' and 'b' differ"), "{error}");
        let error = refused(&mut clients[0], "SELECT count(*) FROM t").await;
        assert!(error.contains("has other columns"), "{error}");
        // The other one runs what it missed.
        run(&mut clients[0], "SET tidegate.this_node_alone = true").await;
        run(&mut clients[0], "ALTER TABLE t ADD w int").await;
        run(&mut clients[0], "SET tidegate.this_node_alone = false").await;
        assert_eq!(run(&mut clients[0], "SELECT count(*), count(w) FROM t").await, ["50|0|"]);
        run(&mut clients[0], "CREATE TABLE u (k int PRIMARY KEY)").await;
        // What fails on the first node is done on none.
        let error = refused(&mut clients[0], "CREATE TABLE u (k int PRIMARY KEY)").await;
        assert!(error.contains("exists already"), "{error}");
        run(&mut clients[1], "SET tidegate.this_node_alone = false").await;
        run(&mut clients[1], "DROP TABLE u").await;
        assert!(refused(&mut clients[0], "SELECT * FROM u").await.contains("does not exist"));
    });
}

#[test]
fn a_node_that_is_killed_in_the_middle_ends_what_needs_it_and_keeps_what_it_acknowledged() {
    let mut cluster = Cluster::start(3);
    let threads = threads();
    threads.block_on(async {
        let mut client = cluster.client(0).await;
        run(&mut client, "CREATE TABLE t (pk int, ck int, v bigint, PRIMARY KEY (pk, ck))").await;
        let fill = "INSERT INTO t SELECT g / 10, g % 10, g FROM generate_series(0, 39999) AS s(g)";
        run(&mut client, fill).await;
    });
    let (mut asking, mut writing) =
        threads.block_on(async { (cluster.client(0).await, cluster.client(1).await) });
    // More than all buffers on the way have room for; and writes one after another.
    let mut rows = threads.block_on(async {
        let text = "SELECT v, repeat('x', 20000) FROM t";
        let info = asking.execute(text.to_owned(), None).await.unwrap();
        let mut rows = asking.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
        assert!(rows.try_next().await.unwrap().is_some());
        rows
    });
    let writes = threads.spawn(async move {
        let mut acknowledged = 0;
        for pk in 10_000..30_000 {
            let text = format!("INSERT INTO t VALUES ({pk}, 0, 1), ({pk}, 1, 1)");
            match try_run(&mut writing, &text).await {
                Ok(_) => acknowledged += 1,
                Err(error) => return (acknowledged, error.to_string()),
            }
        }
        panic!("a node went, and no write failed")
    });
    std::thread::sleep(std::time::Duration::from_millis(500));
    cluster.kill(2);
    let error = threads.block_on(async {
        loop {
            match rows.try_next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("all rows came without node c"),
                Err(error) => return error.to_string(),
            }
        }
    });
    assert!(error.contains("node 'c'") && error.contains("does not answer"), "{error}");
    let (acknowledged, error) = threads.block_on(writes).unwrap();
    assert!(error.contains("node 'c'"), "{error}");
    assert!(acknowledged > 0, "no write came before");
    cluster.start_node(2);
    threads.block_on(async {
        for place in 0..3 {
            let mut client = cluster.client(place).await;
            let text = "SELECT count(*) FROM t WHERE pk >= 10000 AND ck = 0";
            let found: u64 = run(&mut client, text).await[0].trim_end_matches('|').parse().unwrap();
            // The one that failed may be there, too.
            assert!((acknowledged..=acknowledged + 1).contains(&found), "{found}, {acknowledged}");
            let text = "SELECT count(*), sum(v) FROM t WHERE pk < 10000";
            assert_eq!(run(&mut client, text).await, ["40000|799980000|"]);
        }
    });
}

#[test]
fn what_a_role_defines_is_its_own_on_every_node() {
    let cluster = Cluster::start(3);
    threads().block_on(async {
        let mut client = cluster.client(0).await;
        for text in [
            "CREATE TABLE t (k int PRIMARY KEY, v int)",
            "CREATE ROLE ann WITH PASSWORD = 'a'",
            "GRANT SELECT ON t TO ann",
            "GRANT CREATE ON KEYSPACE default TO ann",
        ] {
            run(&mut client, text).await;
        }
        // One call: the next one needs a name.
        let root = "CREATE ROLE root WITH PASSWORD = 'r' AND SUPERUSER = true AND LOGIN = true";
        client.execute_update(root.to_owned(), None).await.unwrap();
        client.handshake("root", "r").await.unwrap();
        run(&mut client, "ALTER ROLE ann WITH LOGIN = true").await;
        let mut ann = cluster.client(1).await;
        ann.handshake("ann", "a").await.unwrap();
        run(&mut ann, "CREATE VIEW v AS SELECT k FROM t").await;
        for place in 0..3 {
            let mut client = cluster.client(place).await;
            // What a history shows in the place of a password is none.
            assert!(client.handshake("root", "***").await.is_err(), "on node {}", name(place));
            client.handshake("root", "r").await.unwrap();
            let owners = run(&mut client, "SELECT owner FROM system.views").await;
            assert_eq!(owners, ["ann|"], "on node {}", name(place));
        }
        // A right that its owner loses is lost everywhere.
        run(&mut client, "REVOKE SELECT ON t FROM ann").await;
        for place in 0..3 {
            let mut client = cluster.client(place).await;
            client.handshake("root", "r").await.unwrap();
            let error = refused(&mut client, "SELECT * FROM v").await;
            assert!(error.contains("role 'ann'"), "{error}");
        }
    });
}

#[test]
fn a_definition_that_fails_on_other_nodes_says_on_which() {
    let cluster = Cluster::start(3);
    threads().block_on(async {
        let mut clients = cluster.clients().await;
        run(&mut clients[1], "SET tidegate.this_node_alone = true").await;
        run(&mut clients[1], "CREATE ROLE some").await;
        run(&mut clients[2], "SET tidegate.this_node_alone = true").await;
        for at in [1, 2] {
            run(&mut clients[at], "CREATE ROLE others").await;
        }
        // It fails on one of the others, and on all of them.
        for (role, failed) in [("some", "b"), ("others", "bc")] {
            let error = refused(&mut clients[0], &format!("CREATE ROLE {role}")).await;
            assert!(error.contains("has run the statement, but not all others did"), "{error}");
            for node in ["b", "c"] {
                let is_named = error.contains(&format!("node '{node}'"));
                assert_eq!(is_named, failed.contains(node), "{role}: {error}");
            }
        }
        // It is done where it could be.
        for client in &mut clients {
            assert_eq!(run(client, "SELECT count(*) FROM system.roles").await, ["2|"]);
        }
    });
}
