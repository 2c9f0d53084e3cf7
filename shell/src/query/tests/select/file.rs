//! Files that stand for tables.

use super::super::*;
use crate::query::ErrorKind;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_read_as_a_table() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await;
    world.run("INSERT INTO t VALUES (1, 1, 'a'), (1, 2, 'b'), (2, 1, NULL)").await;
    let path = |name: &str| world.directory.path().join(name).display().to_string();
    for name in ["all.parquet", "all.csv"] {
        let file = path(name);
        world.run(&format!("COPY t TO '{file}'")).await;
        let sum = format!("SELECT sum(pk) * 100 + count(v) FROM '{file}'");
        assert_eq!(world.column(&sum).await, ["402"], "{name}");
        let join = format!(
            "SELECT f.v FROM '{file}' f JOIN t ON f.pk = t.pk AND f.ck = t.ck \
                            WHERE t.ck = 2"
        );
        assert_eq!(world.column(&join).await, ["b"], "{name}");
    }
    world.run(&format!("COPY t TO '{}'", path("more.parquet"))).await;
    let pattern = path("*.parquet");
    assert_eq!(world.column(&format!("SELECT count(*) FROM '{pattern}'")).await, ["6"]);
    // What a statement reads of a file is what the file has then.
    world.run("CREATE TABLE u (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await;
    world.run(&format!("INSERT INTO u SELECT pk, ck + 10, v FROM '{}'", path("all.parquet"))).await;
    assert_eq!(world.column("SELECT ck FROM u WHERE pk = 1").await, ["11", "12"]);
    std::fs::remove_file(path("all.parquet")).unwrap();
    assert_eq!(world.column(&format!("SELECT count(*) FROM '{pattern}'")).await, ["3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_cannot_be_read_is_told() {
    let world = World::new().await;
    let missing = "SELECT * FROM 'never.parquet'";
    let error = world.error(missing).await;
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.render(missing).contains("file 'never.parquet' does not exist"), "{error}");
    let file = world.directory.path().join("wrong.parquet");
    std::fs::write(&file, "this is no Parquet").unwrap();
    let text = format!("SELECT * FROM '{}'", file.display());
    let error = world.error(&text).await;
    assert!(error.render(&text).contains("the statement reads "), "{}", error.render(&text));
    // Names of tables are what they were.
    let error = world.error("SELECT * FROM never").await;
    assert!(error.to_string().contains("table 'never' does not exist"), "{error}");
    let remote = SessionOptions { local_files: false, ..Default::default() };
    let error = World::with(remote).await.error(missing).await;
    assert!(error.to_string().contains("table 'never.parquet' does not exist"), "{error}");
}
