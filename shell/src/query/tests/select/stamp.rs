//! `writetime(v)` and `ttl(v)`: by the short path and by the planner's, and what has none.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array, RecordBatch};
use datafusion::arrow::util::pretty::pretty_format_batches;

use super::super::World;
use crate::query::{ErrorKind, split};

async fn world() -> World {
    let world = World::new().await;
    for text in [
        "CREATE TABLE t (pk int, ck int, v text, w int, s text STATIC, l list<int>, \
         f frozen<list<int>>, PRIMARY KEY (pk, ck))",
        "INSERT INTO t (pk, ck, v, w, f) VALUES (1, 1, 'a', 10, [1, 2]) USING TIMESTAMP 1000",
        "INSERT INTO t (pk, ck, v) VALUES (1, 2, 'b') USING TIMESTAMP 2000 AND TTL 5000",
        "UPDATE t USING TIMESTAMP 3000 SET w = 20 WHERE pk = 1 AND ck = 2",
        "UPDATE t USING TIMESTAMP 4000 AND TTL 7000 SET s = 'static' WHERE pk = 1",
        "INSERT INTO t (pk, ck, v) VALUES (2, 1, NULL) USING TIMESTAMP 5000",
        "INSERT INTO t (pk, ck, v) VALUES (2, 2, 'deleted') USING TIMESTAMP 5000",
        "DELETE v FROM t USING TIMESTAMP 6000 WHERE pk = 2 AND ck = 2",
        "UPDATE t USING TIMESTAMP 7000 SET s = 'alone' WHERE pk = 3",
    ] {
        world.run(text).await;
    }
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stamps_are_those_of_the_writes() {
    let world = world().await;
    for read in ["memory", "files", "cache", "past the cache"] {
        match read {
            "files" => drop(world.run("FLUSH t").await),
            "past the cache" => drop(world.run("SET tidegate.bypass_cache = true").await),
            _ => {}
        }
        for path in ["true", "false"] {
            world.run(&format!("SET tidegate.short_path = {path}")).await;
            for (text, wanted) in [
                ("SELECT writetime(v) FROM t WHERE pk = 1", &["1000", "2000"][..]),
                ("SELECT writetime(w), v FROM t WHERE pk = 1 ORDER BY ck DESC", &["3000", "1000"]),
                ("SELECT writetime(s) FROM t WHERE pk = 1", &["4000", "4000"]),
                ("SELECT writetime(s) FROM t WHERE pk = 3", &["7000"]),
                ("SELECT writetime(v) FROM t WHERE pk = 3", &[""]),
                ("SELECT writetime(f) FROM t WHERE pk = 1", &["1000", ""]),
                ("SELECT writetime(v) FROM t WHERE pk = 2", &["", ""]),
                ("SELECT ttl(w) FROM t WHERE pk = 1", &["", ""]),
                ("SELECT WriteTime(V) FROM t WHERE pk = 1 LIMIT 1", &["1000"]),
                ("SELECT ck FROM t WHERE writetime(v) > 1500", &["2"]),
                ("SELECT ck FROM t WHERE pk = 1 AND ttl(v) > 100", &["2"]),
                ("SELECT max(writetime(v)) FROM t", &["2000"]),
                ("SELECT writetime(x.v) + 1 FROM t x WHERE x.pk = 1 AND ck = 1", &["1001"]),
                ("SELECT n FROM (SELECT writetime(v) AS n FROM t) WHERE n > 1000", &["2000"]),
                ("SELECT ck FROM t WHERE pk = 1 ORDER BY writetime(w) DESC", &["2", "1"]),
                ("SELECT v FROM t WHERE pk = 1 ORDER BY writetime(v) DESC", &["b", "a"]),
                (
                    "SELECT b.ck FROM t a JOIN t b ON a.pk = b.pk WHERE writetime(a.v) = 1000 \
                     AND writetime(b.w) = 3000",
                    &["2"],
                ),
                (
                    "SELECT writetime(v) FROM t WHERE pk IN (1, 2) ORDER BY ck PER PARTITION LIMIT 1",
                    &["1000", ""],
                ),
                ("SELECT count(*) FROM t GROUP BY writetime(s) ORDER BY 1", &["1", "2", "2"]),
            ] {
                assert_eq!(world.column(text).await, wanted, "{read}, {path}: {text}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_to_live_runs_down_from_the_read_on() {
    let world = world().await;
    for path in ["true", "false"] {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        let left = world.column("SELECT ttl(v) FROM t WHERE pk = 1 AND ck = 2").await;
        let left: i32 = left[0].parse().unwrap();
        assert!((4900..=5000).contains(&left), "{left}");
        let left = world.column("SELECT ttl(s) FROM t WHERE pk = 1 AND ck = 1").await;
        let left: i32 = left[0].parse().unwrap();
        assert!((6900..=7000).contains(&left), "{left}");
        let types = world.run("SELECT writetime(v), ttl(v) FROM t WHERE pk = 1").await.schema;
        let types: Vec<_> =
            types.fields().iter().map(|f| (f.name().clone(), f.data_type().clone())).collect();
        use datafusion::arrow::datatypes::DataType::{Int32, Int64};
        assert_eq!(types, [("writetime(v)".to_owned(), Int64), ("ttl(v)".to_owned(), Int32)]);
    }
    // A second later there is a second less, of a statement that was prepared before.
    let text = "SELECT ttl(v) FROM t WHERE pk = ? AND ck = ?";
    let prepared = world.session.prepare(split(text).unwrap().remove(0), "default");
    world.run("UPDATE t USING TTL 2 SET v = 'short' WHERE pk = 1 AND ck = 2").await;
    let bound = |ck: i32| {
        let one = |value: i32| Arc::new(Int32Array::from(vec![value])) as ArrayRef;
        RecordBatch::try_from_iter([("$1", one(1)), ("$2", one(ck))]).unwrap()
    };
    let read = async |ck| {
        let outcome = world.session.run_prepared(&prepared, Some(&bound(ck))).await.unwrap();
        pretty_format_batches(&outcome.collect().await.unwrap()).unwrap().to_string()
    };
    let before = read(2).await;
    assert!(before.contains("| 2 ") || before.contains("| 1 "), "{before}");
    tokio::time::sleep(std::time::Duration::from_millis(2100)).await;
    let after = read(2).await;
    assert!(!after.contains("| 2 ") && !after.contains("| 1 "), "{after}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_no_stamp_is_refused_with_help() {
    let world = world().await;
    for path in ["true", "false"] {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        for (text, words) in [
            ("SELECT writetime(pk) FROM t WHERE pk = 1", "a column of the primary key"),
            ("SELECT ttl(ck) FROM t WHERE pk = 1", "a column of the primary key"),
            ("SELECT writetime(l) FROM t WHERE pk = 1", "each element of list<int>"),
            ("SELECT writetime(1) FROM t WHERE pk = 1", "takes a column of a table"),
            ("SELECT writetime(w + 1) FROM t WHERE pk = 1", "takes a column of a table"),
            ("SELECT writetime(c) FROM (SELECT count(*) AS c FROM t)", "takes a column of a table"),
            ("SELECT ttl(table_name) FROM system.tables", "takes a column of a table"),
        ] {
            let error = world.error(text).await;
            assert_eq!(error.kind, ErrorKind::Invalid, "{text}: {error}");
            assert!(error.message.contains(words) && error.help.is_some(), "{text}: {error}");
        }
        let error = world.error("SELECT writetime(nosuch) FROM t WHERE pk = 1").await;
        assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    }
}
