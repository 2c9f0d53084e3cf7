//! A range moves to another node: snapshot, restore, another ring file.

use super::*;

#[test]
fn a_range_moves_with_a_snapshot_and_another_ring_file() {
    let mut cluster = Cluster::start(2);
    let threads = threads();
    threads.block_on(async {
        let mut client = cluster.client(0).await;
        run(&mut client, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
        run(&mut client, "INSERT INTO t SELECT g, g FROM generate_series(1, 500) AS s(g)").await;
    });
    // A third node takes the upper half of what b has: it begins with all that b has.
    cluster.kill(0);
    cluster.kill(1);
    let tidegate = || Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let snapshot = cluster.directory.path().join("snapshot");
    let text = format!("SNAPSHOT TO '{}'", snapshot.display());
    let done = tidegate().arg("--data").arg(cluster.data(1)).args(["-c", &text]).status().unwrap();
    assert!(done.success());
    let mut restore = tidegate();
    restore.arg("--data").arg(cluster.data(2)).arg("restore").arg(&snapshot);
    assert!(restore.status().unwrap().success());
    cluster.ports.extend(free_ports(1));
    let file = fs::read_to_string(cluster.ring_file()).unwrap();
    let mut ring: serde_json::Value = serde_json::from_str(&file).unwrap();
    ring["version"] = 2.into();
    ring["nodes"]["c"] = format!("grpc://127.0.0.1:{}", cluster.ports[2]).into();
    let ranges = ring["ranges"].as_array_mut().unwrap();
    ranges[1]["through"] = (i64::MAX / 2).into();
    ranges.push(serde_json::json!({ "through": i64::MAX, "node": "c" }));
    fs::write(cluster.ring_file(), ring.to_string()).unwrap();
    let cluster = cluster.started(3);
    threads.block_on(async {
        for place in 0..3 {
            let mut client = cluster.client(place).await;
            let text = "SELECT count(*), count(DISTINCT k), sum(v) FROM t";
            assert_eq!(run(&mut client, text).await, ["500|500|125250|"], "node {}", name(place));
        }
        let mut client = cluster.client(0).await;
        run(&mut client, "UPDATE t SET v = 0 WHERE k IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)").await;
        let text = "SELECT sum(v) FROM t WHERE k < 12";
        for place in 0..3 {
            assert_eq!(run(&mut cluster.client(place).await, text).await, ["11|"]);
        }
    });
}
