//! How large results may be.

use futures::StreamExt;

use super::super::World;
use crate::query::{ErrorKind, OutcomeKind, split};

const SELECT: &str = "SELECT * FROM t WHERE pk = 1";

async fn world() -> World {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await;
    let rows = "SELECT 1, CAST(value AS int), 'a text of thirty characters ..' FROM range(5000)";
    world.run(&format!("INSERT INTO t (pk, ck, v) {rows}")).await;
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_is_too_large_ends_with_an_error_and_says_how_large_it_is() {
    let world = world().await;
    world.run("SET tidegate.result_max_bytes = 100000").await;
    let prepared = world.session.prepare(split(SELECT).unwrap().remove(0), "default");
    for path in ["short", "planned", "timed", "prepared"] {
        world.run(&format!("SET tidegate.short_path = {}", path != "planned")).await;
        let outcome = match path {
            "prepared" => world.session.run_prepared(&prepared, None).await.unwrap(),
            "timed" => world.run(&format!("{SELECT} USING TIMEOUT 1h")).await,
            _ => world.run(SELECT).await,
        };
        let OutcomeKind::Rows(mut rows) = outcome.kind else { panic!("{path}: a query has rows") };
        let (mut count, mut error) = (0, None);
        while let Some(batch) = rows.next().await {
            assert!(error.is_none(), "{path}: something comes behind the error");
            match batch {
                Ok(batch) => count += batch.num_rows(),
                Err(found) => error = Some(found),
            }
        }
        let error = error.unwrap_or_else(|| panic!("{path}: {count} rows came"));
        assert_eq!(error.kind, ErrorKind::Invalid, "{path}: {error}");
        assert!(error.message.contains("100000 is most"), "{path}: {error}");
        assert!(error.help.unwrap().contains("LIMIT"), "{path}");
        assert!(count < 5000, "{path}: all rows came");
    }
    let few = world.column("SELECT ck FROM t WHERE pk = 1 LIMIT 100").await;
    assert_eq!(few.len(), 100, "what is small is not touched");
    // Either limit holds without the other one.
    world.run("SET tidegate.result_warn_bytes = 0").await;
    let ended = world.run(SELECT).await.collect().await;
    assert!(ended.unwrap_err().message.contains("100000 is most"));
    world.run("SET tidegate.result_max_bytes = 0").await;
    assert_eq!(world.column(SELECT).await.len(), 5000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_result_is_worth_one_warning_for_each_shape_of_statement() {
    let world = world().await;
    assert!(world.column("SHOW WARNINGS").await.is_empty());
    world.run("SET tidegate.result_warn_bytes = 100000").await;
    for key in [1, 2, 1] {
        world.column(&format!("SELECT * FROM t WHERE pk = {key}")).await;
    }
    assert_eq!(world.column("SHOW WARNINGS").await, ["SELECT * FROM t WHERE pk = ?"]);
    let shown = world.rows("SHOW WARNINGS").await;
    assert!(shown.contains("over 100000 bytes") && shown.contains("| 2 "), "{shown}");
    let other = world.session.apart("default", "other");
    let rows = other.execute("SHOW WARNINGS").await.unwrap().collect().await.unwrap();
    let count: usize = rows.iter().map(|batch| batch.num_rows()).sum();
    assert_eq!(count, 0, "another client has its own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_whose_page_met_many_tombstones_has_a_warning() {
    let world = world().await;
    world.run("DELETE FROM t WHERE pk = 1 AND ck < 10").await;
    for path in ["true", "false"] {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        world.column("SELECT ck FROM t WHERE pk = 1 LIMIT 1").await;
    }
    assert!(world.column("SHOW WARNINGS").await.is_empty(), "few are worth none");
    let keys: Vec<String> = (0..1_500).map(|ck| ck.to_string()).collect();
    world.run(&format!("DELETE FROM t WHERE pk = 1 AND ck IN ({})", keys.join(", "))).await;
    for path in ["true", "false"] {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        assert_eq!(world.column("SELECT ck FROM t WHERE pk = 1 LIMIT 1").await, ["1500"]);
    }
    assert_eq!(world.column("SELECT count(*) FROM t").await, ["3500"]);
    let warnings = world.rows("SHOW WARNINGS").await;
    assert!(warnings.contains("| SELECT ck FROM t WHERE pk = ? LIMIT ?"), "{warnings}");
    assert!(warnings.contains("| SELECT count ( * ) FROM t"), "{warnings}");
    assert_eq!(warnings.matches("a read of default.t met ").count(), 2, "{warnings}");
    assert!(warnings.contains("have it purged (COMPACT)"), "{warnings}");
    // By both paths, and one has the same shape as the other.
    assert!(warnings.contains("| 2     |"), "{warnings}");
}
