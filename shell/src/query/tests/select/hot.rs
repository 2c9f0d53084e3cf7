//! SHOW HOT PARTITIONS.

use super::super::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_partitions_that_are_asked_most_come_first() {
    let world = World::new().await;
    world.run("CREATE TABLE t (a text, b int, v int, PRIMARY KEY ((a, b)))").await;
    let limit = "{'max_writes_per_second': 1}";
    world
        .run(&format!("CREATE TABLE u (a int PRIMARY KEY) WITH per_partition_rate_limit = {limit}"))
        .await;
    for _ in 0..6 {
        world.run("INSERT INTO t (a, b, v) VALUES ('x', 7, 1)").await;
        world.column("SELECT v FROM t WHERE a = 'x' AND b = 7").await;
    }
    world.column("SELECT v FROM t WHERE a = 'once' AND b = 7").await;
    let mut rejected = 0;
    for _ in 0..100 {
        let written = world.session.execute("INSERT INTO u (a) VALUES (3)").await;
        rejected += u32::from(written.is_err());
    }
    assert!(rejected > 0, "a hundred writes at once are beyond the limit");
    let columns = ["table_name", "partition", "reads", "writes", "rejected"];
    let shown = world.rows("SHOW HOT PARTITIONS").await;
    let rows: Vec<Vec<&str>> = shown
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    let rejected = rejected.to_string();
    assert_eq!(
        rows,
        [
            &columns[..],
            &["default.u", "3", "0", "100", &rejected],
            &["default.t", "x, 7", "6", "6", "0"],
        ]
    );
    // The text of a partition is what system.fragments takes.
    let parts = "SELECT kind FROM system.fragments WHERE table_name = 't' AND partition = 'x, 7'";
    assert!(!world.column(parts).await.is_empty());
}
