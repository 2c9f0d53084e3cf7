//! Partition keys that other products wrote: decimals keep the scale that they were given with
//! there.

use crate::query::tests::World;

/// A table whose keys have two digits behind the point, and the directory of its files.
async fn foreign() -> (World, String) {
    let world = World::new().await;
    world.run("CREATE TABLE theirs (pk decimal(9, 2), ck int, v int, PRIMARY KEY (pk, ck))").await;
    world
        .run("INSERT INTO theirs VALUES (1.50, 1, 10), (1.50, 2, 11), (0, 1, 20), (700, 1, 30)")
        .await;
    world.run("FLUSH").await;
    let keyspace = world.directory.path().join("data/data/default");
    let mut tables = std::fs::read_dir(keyspace).unwrap();
    let files = tables.next().unwrap().unwrap().path();
    (world, files.to_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attached_decimal_keys_are_found_in_any_scale() {
    let (world, files) = foreign().await;
    world.run(&format!("ATTACH SSTABLES '{files}' AS a")).await;
    for (condition, wanted) in [
        ("= 1.50", "10 11"),
        ("= 1.5", "10 11"),
        ("= 1.500", "10 11"),
        ("= 0", "20"),
        ("= 0.0", "20"),
        ("= 7e2", "30"),
        ("= 700", "30"),
        ("IN (700.0, 1.5)", "10 11 30"),
        ("= 1.51", ""),
    ] {
        let query = format!("SELECT v FROM a WHERE pk {condition} ORDER BY v");
        assert_eq!(world.column(&query).await.join(" "), wanted, "{query}");
    }
    let plan = world.plan("SELECT v FROM a WHERE pk = 1.5").await;
    assert!(plan.contains("keys") && !plan.contains("partitions=all"), "{plan}");
    // Of an own table the scale is known.
    assert!(world.plan("SELECT v FROM theirs WHERE pk = 1.5").await.contains("partitions=1 key"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_after_an_import_goes_to_the_same_partition() {
    let (world, files) = foreign().await;
    for ty in ["decimal", "decimal(9, 2)", "decimal(20, 5)"] {
        world.run(&format!("CREATE TABLE o (pk {ty}, ck int, v int, PRIMARY KEY (pk, ck))")).await;
        world.run(&format!("IMPORT SSTABLES '{files}' INTO o")).await;
        let query = "SELECT v FROM o WHERE pk = 1.5 ORDER BY ck";
        assert_eq!(world.column(query).await, ["10", "11"], "{ty}");
        world.run("INSERT INTO o VALUES (1.5, 2, 99), (0, 1, 98), (700, 1, 97)").await;
        assert_eq!(world.column(query).await, ["10", "99"], "{ty}");
        let all = "SELECT v FROM o ORDER BY v";
        assert_eq!(world.column(all).await, ["10", "97", "98", "99"], "{ty}");
        world.run(&format!("IMPORT SSTABLES '{files}' INTO o")).await;
        assert_eq!(world.column(all).await, ["10", "97", "98", "99"], "{ty}");
        world.run("DROP TABLE o").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decimals_within_attached_keys_are_found_in_any_scale() {
    let world = World::new().await;
    world
        .run("CREATE TABLE theirs (pk frozen<list<decimal(9, 2)>>, ck int, PRIMARY KEY (pk, ck))")
        .await;
    world.run("INSERT INTO theirs VALUES ([1.50], 1), ([0, 7], 2), ([1.5, 2.25, 3.75], 3)").await;
    world.run("FLUSH").await;
    let keyspace = world.directory.path().join("data/data/default");
    let files = std::fs::read_dir(keyspace).unwrap().next().unwrap().unwrap().path();
    world.run(&format!("ATTACH SSTABLES '{}' AS a", files.to_str().unwrap())).await;
    for (condition, wanted) in [
        ("= [1.5]", "1"),
        ("= [1.50]", "1"),
        ("= [1.500]", "1"),
        ("= [0.0, 7]", "2"),
        ("IN ([1.5], [0, 7.0])", "1 2"),
        // Too many ways to write it: all keys are read.
        ("= [1.5, 2.25, 3.75]", "3"),
        ("= [1.51]", ""),
    ] {
        let query = format!("SELECT ck FROM a WHERE pk {condition} ORDER BY ck");
        assert_eq!(world.column(&query).await.join(" "), wanted, "{query}");
    }
    assert!(world.plan("SELECT ck FROM a WHERE pk = [1.5]").await.contains("keys"));
}
