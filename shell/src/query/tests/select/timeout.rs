//! `USING TIMEOUT`: what is not done in time, by the short path and by the planner's.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::DataType;

use super::super::World;
use crate::query::{ErrorKind, Outcome, Result, split};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_takes_too_long_says_so() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await;
    world.run("INSERT INTO t VALUES (1, 1, 'a'), (1, 2, 'b') USING TIMEOUT 1h").await;
    for path in ["true", "false"] {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        for text in [
            "SELECT v FROM t WHERE pk = 1 USING TIMEOUT",
            "SELECT v FROM t WHERE v > 'x' ALLOW FILTERING USING TIMEOUT",
            "SELECT count(*) FROM t a, t b USING TIMEOUT",
            "INSERT INTO t (pk, ck, v) VALUES (2, 1, 'late') USING TIMEOUT",
            "INSERT INTO t (pk, ck, v) SELECT 2, ck, v FROM t USING TTL 50 AND TIMEOUT",
        ] {
            let ample = text.replace("INSERT", "EXPLAIN INSERT");
            world.run(&format!("{ample} 30s")).await.collect().await.unwrap();
            let error = world.error(&format!("{text} 1ns")).await;
            assert_eq!(error.kind, ErrorKind::Timeout, "{text}: {error}");
            assert!(error.is_retryable() && error.message.contains("allow more time"), "{error}");
        }
        let late = world.error("UPDATE t USING TIMEOUT 1ns SET v = 'late' WHERE pk = 1 AND ck = 1");
        assert_eq!(late.await.kind, ErrorKind::Timeout);
        world
            .run("UPDATE t USING TIMEOUT 30s AND TTL 900 SET v = 'c' WHERE pk = 1 AND ck = 3")
            .await;
        assert_eq!(world.column("SELECT v FROM t ORDER BY ck").await, ["a", "b", "c"], "{path}");
    }
    let text = "SELECT v FROM t WHERE pk = 1 AND ck = 2 USING TIMEOUT 1ns";
    let prepared = world.session.prepare(split(text).unwrap().remove(0), "default");
    let error = match world.session.run_prepared(&prepared, None).await {
        Err(error) => error,
        Ok(outcome) => outcome.collect().await.unwrap_err(),
    };
    assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
    // What the session does next takes its time.
    assert_eq!(world.column("SELECT v FROM t WHERE pk = 1 AND ck = 2").await, ["b"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_may_be_a_parameter() {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await;
    let column = |values: Vec<&str>| Arc::new(StringArray::from(values)) as ArrayRef;
    let rows = |timeouts: Vec<&str>| {
        let pk = Arc::new(Int32Array::from(vec![1; timeouts.len()])) as ArrayRef;
        RecordBatch::try_from_iter([("$1", pk), ("$2", column(timeouts))]).unwrap()
    };
    for path in [true, false] {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        for text in [
            "SELECT v FROM t WHERE pk = ? USING TIMEOUT ?",
            "SELECT count(*) FROM t WHERE pk = ? USING TIMEOUT ?",
            "DELETE FROM t USING TIMEOUT $2 WHERE pk = $1",
        ] {
            let statement = split(text).unwrap().remove(0);
            let wanted = world.session.parameters(&statement).await.unwrap();
            let types: Vec<_> = wanted.fields().iter().map(|field| field.data_type()).collect();
            assert_eq!(types, [&DataType::Int32, &DataType::Utf8], "{text}");
            let prepared = world.session.prepare(statement.clone(), "default");
            assert_eq!(world.session.parameters_of(&prepared).await.unwrap(), wanted, "{text}");
            for (timeouts, refused) in [
                (vec!["1h"], None),
                (vec!["1h", "1h"], None),
                (vec!["1ns"], Some("")),
                (vec!["soon"], Some("no duration")),
                (vec!["1h", "2h"], Some("another one")),
            ] {
                let rows = rows(timeouts);
                let ran = async |outcome: Result<Outcome>| outcome?.collect().await.map(drop);
                let once = ran(world.session.run_with(&statement, &rows).await).await;
                let again = ran(world.session.run_prepared(&prepared, Some(&rows)).await).await;
                for ended in [once, again] {
                    match (ended, refused) {
                        (Ok(()), None) => {}
                        (Err(error), Some("")) => assert_eq!(error.kind, ErrorKind::Timeout),
                        (Err(error), Some(says)) => {
                            assert!(
                                error.message.contains(says) && error.help.is_some(),
                                "{error}"
                            );
                        }
                        (ended, refused) => panic!("{text}: {ended:?}, {refused:?}"),
                    }
                }
            }
        }
    }
}
