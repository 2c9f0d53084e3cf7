//! Writes by the short path and by the planner's, bare and prepared: what they count, when they are
//! written, and what IF finds.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int32Array, RecordBatch};

use crate::query::tests::World;
use crate::query::{ErrorKind, OutcomeKind, split};

async fn table() -> World {
    let world = World::new().await;
    for text in [
        "CREATE TABLE t (pk int, ck int, v int, w text, s int STATIC, PRIMARY KEY (pk, ck))",
        "CREATE TABLE u (k int PRIMARY KEY, v int)",
        "INSERT INTO u VALUES (1, 1), (2, 2)",
    ] {
        world.run(text).await;
    }
    world
}

/// Runs a statement without parameters, prepared or not; what it counts.
async fn count(world: &World, text: &str, is_prepared: bool) -> u64 {
    let statement = split(text).unwrap().remove(0);
    let outcome = match is_prepared {
        true => {
            let prepared = world.session.prepare(statement, "default");
            world.session.run_prepared(&prepared, None).await
        }
        false => world.session.run(&statement).await,
    };
    match outcome {
        Ok(outcome) => match outcome.kind {
            OutcomeKind::Count(count) => count,
            _ => panic!("no count: {text}"),
        },
        Err(error) => panic!("{}", error.render(text)),
    }
}

/// Writes, and how many rows, or deletions, they are.
const COUNTED: &[(&str, u64)] = &[
    ("INSERT INTO t (pk, ck, v) VALUES (1, 1, 1), (1, 2, 2), (2, 1, 3)", 3),
    ("INSERT INTO t (pk, s) VALUES (1, 1)", 1),
    ("INSERT INTO t (pk, ck, v) SELECT k, k, v FROM u", 2),
    ("INSERT INTO t (pk, ck, v) SELECT k, k, v FROM u WHERE k > 5", 0),
    ("UPDATE t SET v = 5 WHERE pk = 1 AND ck = 1", 1),
    ("UPDATE t SET v = 5, w = 'x', s = 1 WHERE pk = 1 AND ck = 1", 1),
    ("UPDATE t SET v = 5 WHERE pk IN (1, 2) AND ck IN (1, 2, 3)", 6),
    ("UPDATE t SET s = 5 WHERE pk = 1", 1),
    ("UPDATE t SET s = 5 WHERE pk IN (1, 2)", 2),
    ("UPDATE t SET v = 5 WHERE pk = 1 AND pk = 2 AND ck = 1", 0),
    ("DELETE v FROM t WHERE pk = 1 AND ck = 1", 1),
    ("DELETE s FROM t WHERE pk = 1", 1),
    ("DELETE FROM t WHERE pk = 1 AND ck = 1", 1),
    ("DELETE FROM t WHERE pk = 1 AND ck IN (1, 2)", 2),
    ("DELETE FROM t WHERE pk = 1 AND ck > 1", 1),
    ("DELETE FROM t WHERE pk = 1", 1),
    ("DELETE FROM t WHERE pk IN (1, 2)", 2),
    (
        "BEGIN BATCH INSERT INTO t (pk, ck, v) VALUES (1, 1, 1); DELETE FROM t WHERE pk = 2; \
         UPDATE t SET s = 1 WHERE pk = 3; APPLY BATCH",
        3,
    ),
    (
        "BEGIN UNLOGGED BATCH INSERT INTO t (pk, ck, v) VALUES (1, 1, 1), (1, 2, 1); \
         DELETE FROM u WHERE k = 9; APPLY BATCH",
        3,
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_counts_the_same_rows_on_every_way() {
    let world = table().await;
    for path in ["true", "false"] {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        for (text, wanted) in COUNTED {
            for is_prepared in [false, true] {
                let found = count(&world, text, is_prepared).await;
                assert_eq!(found, *wanted, "{text}, short path {path}, prepared {is_prepared}");
            }
        }
    }
}

/// The batch has a time, or each of its statements, or none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_batch_writes_has_its_time_or_that_of_the_statement_on_every_way() {
    let world = table().await;
    let mut pk = 0;
    for (path, is_prepared) in [("true", false), ("true", true), ("false", false), ("false", true)]
    {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        for begin in ["BEGIN BATCH", "BEGIN UNLOGGED BATCH", "BEGIN LOGGED BATCH"] {
            pk += 1;
            let case = format!("{begin}, short path {path}, prepared {is_prepared}");
            let first = format!(
                "{begin} USING TIMESTAMP 1000 INSERT INTO t (pk, ck, v) VALUES ({pk}, 1, 1); \
                 UPDATE t SET v = 2 WHERE pk = {pk} AND ck = 2; \
                 INSERT INTO t (pk, ck, v) VALUES ({pk}, 3, 3), ({pk}, 4, 4); \
                 UPDATE t SET s = 5 WHERE pk = {pk}; APPLY BATCH"
            );
            count(&world, &first, is_prepared).await;
            let all = async |column: &str| {
                let query = format!("SELECT {column} FROM t WHERE pk = {pk} ORDER BY ck");
                world.column(&query).await.join(" ")
            };
            assert_eq!(all("writetime(v)").await, "1000 1000 1000 1000", "{case}");
            assert_eq!(all("writetime(s)").await, "1000 1000 1000 1000", "{case}");
            let second = format!(
                "{begin} INSERT INTO t (pk, ck, v) VALUES ({pk}, 1, 9) USING TIMESTAMP 2000; \
                 UPDATE t USING TIMESTAMP 500 SET v = 9 WHERE pk = {pk} AND ck = 2; \
                 DELETE FROM t USING TIMESTAMP 1500 WHERE pk = {pk} AND ck = 3; \
                 DELETE FROM t USING TIMESTAMP 999 WHERE pk = {pk} AND ck = 4; \
                 UPDATE t SET s = 6 WHERE pk = {pk}; APPLY BATCH"
            );
            count(&world, &second, is_prepared).await;
            assert_eq!(all("v").await, "9 2 4", "{case}");
            assert_eq!(all("writetime(v)").await, "2000 1000 1000", "{case}");
            assert_eq!(all("s").await, "6 6 6", "{case}");
            let is_now = all("writetime(s) > 1000000").await;
            assert_eq!(is_now, "true true true", "{case}");
        }
    }
}

/// Column i is parameter i.
fn ints(columns: &[&[Option<i32>]]) -> RecordBatch {
    let arrays = columns.iter().enumerate().map(|(n, values)| {
        let array: ArrayRef = Arc::new(Int32Array::from(values.to_vec()));
        (format!("${}", n + 1), array)
    });
    RecordBatch::try_from_iter(arrays).unwrap()
}

/// Whether a write with IF was done for each row of parameters.
async fn applied(world: &World, text: &str, rows: &RecordBatch) -> Vec<bool> {
    let prepared = world.session.prepare(split(text).unwrap().remove(0), "default");
    let outcome = match world.session.run_prepared(&prepared, Some(rows)).await {
        Ok(outcome) => outcome,
        Err(error) => panic!("{}", error.render(text)),
    };
    let OutcomeKind::Decided(answers) = outcome.kind else { panic!("{text} is not decided") };
    answers.column(0).as_boolean().iter().flatten().collect()
}

/// A row that holds 10, and one that holds nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bound_value_is_compared_on_its_side_of_the_border_and_null_is_no_value() {
    let world = table().await;
    world.run("INSERT INTO t (pk, ck, v, w) VALUES (1, 1, 10, 'a')").await;
    world.run("INSERT INTO t (pk, ck, w) VALUES (1, 2, 'a')").await;
    let change = "UPDATE t SET w = 'a' WHERE pk = 1 AND ck = ?";
    for path in ["true", "false"] {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        for (operator, wanted) in [
            ("=", [false, true, false, false]),
            ("!=", [true, false, true, true]),
            ("<", [false, false, true, false]),
            ("<=", [false, true, true, false]),
            (">", [true, false, false, false]),
            (">=", [true, true, false, false]),
        ] {
            let text = format!("{change} IF v {operator} ?");
            let rows = ints(&[
                &[Some(1), Some(1), Some(1), Some(2)],
                &[Some(9), Some(10), Some(11), Some(10)],
            ]);
            assert_eq!(applied(&world, &text, &rows).await, wanted, "{text}, short path {path}");
            let nulls = ints(&[&[Some(1), Some(2)], &[None, None]]);
            if matches!(operator, "=" | "!=") {
                let wanted = [operator == "!=", operator == "="];
                let found = applied(&world, &text, &nulls).await;
                assert_eq!(found, wanted, "{text} of null, short path {path}");
                continue;
            }
            let prepared = world.session.prepare(split(&text).unwrap().remove(0), "default");
            let refused = world.session.run_prepared(&prepared, Some(&nulls)).await.err().unwrap();
            assert_eq!(refused.kind, ErrorKind::Invalid, "{text}: {refused}");
            assert!(refused.message.contains("null is neither"), "{text}: {refused}");
        }
        let text = format!("{change} IF v IN (?, ?)");
        let rows = ints(&[
            &[Some(1), Some(1), Some(1), Some(2), Some(2)],
            &[Some(9), Some(9), None, None, Some(10)],
            &[Some(10), Some(11), Some(11), Some(11), Some(9)],
        ]);
        let wanted = [true, false, false, true, false];
        assert_eq!(applied(&world, &text, &rows).await, wanted, "{text}, short path {path}");
    }
}
