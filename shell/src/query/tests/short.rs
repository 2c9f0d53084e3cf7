//! The short path beside the planner's: the same answers, schemas, parameters and errors.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::util::pretty::pretty_format_batches;

use super::World;
use crate::query::{Outcome, OutcomeKind, Prepared, Result, Statement, split};

/// What each statement is: whether the short path takes it.
const READS: &[(&str, bool)] = &[
    ("SELECT * FROM t WHERE pk = 1", true),
    ("SELECT v, b, pk FROM default.t WHERE 7 = 7 AND pk = 1", false),
    ("SELECT v, b, pk FROM default.t WHERE pk = 1 AND a = 2", true),
    ("SELECT V FROM T WHERE PK = 1 AND A = 2 AND B = 3", true),
    ("SELECT \"v\" FROM \"t\" WHERE \"pk\" = 1 AND a > 1 AND a <= 3", true),
    ("SELECT v FROM t WHERE pk = 1 ORDER BY a DESC, b DESC LIMIT 4", true),
    ("SELECT v FROM t WHERE pk = 1 ORDER BY a ASC, b DESC LIMIT 4", true),
    ("SELECT v FROM t WHERE pk = 1 AND a = 2 ORDER BY pk DESC, a DESC, b LIMIT 2", true),
    ("SELECT v FROM t WHERE pk = 1 ORDER BY b LIMIT 2", true),
    ("SELECT v FROM t WHERE pk = 1 ORDER BY v DESC LIMIT 2", true),
    ("SELECT v FROM t WHERE pk = 1 AND a = 2 AND a = 3", true),
    ("SELECT v FROM t WHERE pk = 1 AND a > 3 AND a < 3", true),
    ("SELECT v FROM t WHERE pk = 1 AND b = 2", true),
    ("SELECT v FROM t WHERE pk = 99", true),
    ("SELECT s FROM t WHERE pk = 5", true),
    ("SELECT v FROM t WHERE pk = 1 LIMIT 0", false),
    ("SELECT v FROM t WHERE pk = -1", true),
    ("SELECT v FROM t WHERE pk = 1 AND w = 1", false),
    ("SELECT v FROM t WHERE pk = 1.0", false),
    ("SELECT v FROM t WHERE pk = '1'", false),
    ("SELECT v FROM t WHERE pk = 99999999999", false),
    ("SELECT v FROM t WHERE pk = NULL", false),
    ("SELECT v FROM t WHERE pk > 1", false),
    ("SELECT v, v FROM t WHERE pk = 1", false),
    ("SELECT v AS x FROM t WHERE pk = 1", false),
    ("SELECT count(*) FROM t WHERE pk = 1", false),
    ("SELECT DISTINCT pk FROM t WHERE pk = 1", false),
    ("SELECT v FROM t x WHERE pk = 1", false),
    ("SELECT v FROM t WHERE pk = 1 OR pk = 2", false),
    ("SELECT v FROM t WHERE pk = 1 + 1", false),
    ("SELECT v FROM t WHERE pk = 1 ORDER BY a NULLS FIRST LIMIT 1", false),
    ("SELECT v FROM t WHERE pk = 1 LIMIT 1 OFFSET 1", false),
    ("SELECT writetime(v) FROM t WHERE pk = 1", true),
    ("SELECT ttl(v), b, WRITETIME(w), v, a FROM t WHERE pk = 1 ORDER BY a DESC, b", true),
    ("SELECT writetime(s) FROM t WHERE pk = 5", true),
    ("SELECT writetime(v), writetime(v) FROM t WHERE pk = 1", false),
    ("SELECT writetime(\"v\") FROM t WHERE pk = 1", false),
    ("SELECT writetime(a) FROM t WHERE pk = 1", false),
    ("SELECT writetime(nosuch) FROM t WHERE pk = 1", false),
    ("SELECT writetime(v) AS w FROM t WHERE pk = 1", false),
    ("SELECT v FROM t WHERE pk = 1 PER PARTITION LIMIT 2", true),
    ("SELECT v FROM t WHERE pk = 1 ORDER BY a DESC, b PER PARTITION LIMIT 2 LIMIT 1", true),
    ("SELECT v FROM t WHERE pk = 1 PER PARTITION LIMIT 0", false),
    ("SELECT v FROM t WHERE pk = 1 LIMIT 2 ALLOW FILTERING", true),
    ("SELECT v FROM t WHERE pk = 1 AND w = 1 ALLOW FILTERING", false),
    ("SELECT v FROM t WHERE pk = 1 LIMIT 1 PER PARTITION LIMIT 2", false),
    ("SELECT nosuch FROM t WHERE pk = 1", false),
    ("SELECT v FROM nosuch WHERE pk = 1", false),
    ("SELECT * FROM weather WHERE origin = 'JFK'", true),
    ("SELECT temp FROM weather WHERE origin = 'JFK' ORDER BY time_hour LIMIT 3", true),
    ("SELECT temp FROM weather WHERE origin = '' LIMIT 3", true),
    ("SELECT temp FROM weather WHERE origin = 'JFK' AND time_hour = '2013-07-01'", false),
    ("SELECT * FROM u WHERE id = '6B29FC40-CA47-1067-B31D-00DD010662DA'", true),
    ("SELECT x FROM u WHERE id = '6b29fc40ca471067b31d00dd010662da' AND at = '10.0.0.1'", true),
    ("SELECT x FROM u WHERE id = 'nothing'", false),
    ("SELECT x FROM u WHERE id = '6b29fc40-ca47-1067-b31d-00dd010662da' AND at > '1.1.1.1'", false),
    ("SELECT x FROM u WHERE id = '6b29fc40-ca47-1067-b31d-00dd010662da' ORDER BY at", true),
    ("SELECT * FROM system.tables WHERE pk = 1", false),
];

const WRITES: &[(&str, bool)] = &[
    ("INSERT INTO t (pk, a, b, v) VALUES (7, 1, 1, 'x')", true),
    ("INSERT INTO t (pk, a, b, v) VALUES (7, 1, 2, 'y'), (7, 1, 2, 'x'), (7, 1, 3, NULL)", true),
    ("INSERT INTO t VALUES (7, 2, 2, 'all', -5, 's')", true),
    ("INSERT INTO t (pk, s) VALUES (8, 'static alone')", true),
    ("INSERT INTO t (pk, a, b, w) VALUES (7, 3, 3, 3000000000)", false),
    ("INSERT INTO t (pk, a, b, w) VALUES (7, 3, 3, 3.0)", false),
    ("INSERT INTO t (pk, a, b, w) VALUES (7, 3, 4, 1), (7, 3, 5, '2')", false),
    ("INSERT INTO t (pk, a, b) VALUES (7, 3, NULL)", true),
    ("INSERT INTO t (pk, a) VALUES (7, 3)", false),
    ("INSERT INTO t (pk, a, b) VALUES (7, 3, 1, 1)", false),
    ("INSERT INTO t (pk, a, b, v) VALUES (7, 4, 1, 'ttl') USING TTL 100", true),
    ("INSERT INTO t (pk, a, b, v) VALUES (7, 4, 2, 'x') USING TTL 700000000", true),
    ("INSERT INTO t (pk, a, b, v) VALUES (7, 4, 2, 'x') USING TTL 3000000000", true),
    ("INSERT INTO t (pk, a, b, v) VALUES (7, 4, 2, 'x') USING TTL 5 AND TTL 6", false),
    ("INSERT INTO t (pk, a, b, v) VALUES (7, 4, 2, 'x') USING NONSENSE 5", false),
    (
        "INSERT INTO t (pk, a, b, v) VALUES (7, 4, 3, 'z'), (7, 4, 3, 'a') \
         USING TIMESTAMP 1000 AND TTL 100",
        true,
    ),
    ("INSERT INTO t (pk, a, b, v) SELECT pk, a, 9, v FROM t WHERE pk = 7", false),
    ("INSERT INTO weather (origin, time_hour, temp) VALUES ('X', '2013-07-01T00:00:00Z', 5)", true),
    ("INSERT INTO weather (origin, time_hour, temp) VALUES ('X', 'yesterday', 5)", false),
    ("INSERT INTO u (id, at, x) VALUES ('6B29FC40-CA47-1067-B31D-00DD010662DB', '::1', 1)", true),
    ("UPDATE t SET v = 'u', w = 5 WHERE pk = 7 AND a = 1 AND b = 1", true),
    ("UPDATE default.t SET \"v\" = NULL WHERE pk = 7 AND a = 1 AND b = 2", true),
    ("UPDATE t SET v = 'new row' WHERE pk = 7 AND a = 8 AND b = 8", true),
    ("UPDATE t SET s = 'of all' WHERE pk = 7", true),
    ("UPDATE t SET s = 'of all' WHERE pk = 8 AND a = 1 AND b = 1", true),
    ("UPDATE t USING TIMESTAMP 5 SET v = 'old' WHERE pk = 7 AND a = 1 AND b = 1", true),
    ("UPDATE t USING TIMESTAMP 9000000000000000 SET w = 8 WHERE pk = 7 AND a = 1 AND b = 1", true),
    ("UPDATE t SET w = 9 WHERE pk = 7 AND a = 1 AND b = 1", true),
    ("UPDATE t USING TTL 100 SET w = 9 WHERE pk = 7 AND a = 1 AND b = 3", true),
    ("UPDATE t SET v = 'x' WHERE pk = 7 AND a = 1", true),
    ("UPDATE t SET v = 'x' WHERE pk = 7 AND a = 1 AND a = 2 AND b = 1", true),
    ("UPDATE t SET v = 'x' WHERE pk = 7 AND a = 1 AND b > 1", true),
    ("UPDATE t SET v = 'x' WHERE a = 1 AND b = 1", false),
    ("UPDATE t SET v = 'x'", false),
    ("UPDATE t SET a = 1 WHERE pk = 7", false),
    ("UPDATE t SET v = 'x', v = 'y' WHERE pk = 7 AND a = 1 AND b = 1", false),
    ("UPDATE t SET v = 5 WHERE pk = 7 AND a = 1 AND b = 1", false),
    ("UPDATE t SET w = '5' WHERE pk = 7 AND a = 1 AND b = 1", false),
    ("UPDATE t SET w = 3000000000 WHERE pk = 7 AND a = 1 AND b = 1", false),
    ("UPDATE t SET w = w + 1 WHERE pk = 7 AND a = 1 AND b = 1", false),
    ("UPDATE t SET nosuch = 1 WHERE pk = 7 AND a = 1 AND b = 1", false),
    ("UPDATE nosuch SET v = 1 WHERE pk = 7 AND a = 1 AND b = 1", false),
    ("INSERT INTO t (pk, a, b, v) VALUES (9, 1, 1, 'x'), (9, 1, 2, 'y'), (9, 2, 1, 'z')", true),
    ("INSERT INTO t (pk, a, b, v, s) VALUES (9, 3, 1, 'x', 's'), (10, 1, 1, 'x', 't')", true),
    ("DELETE FROM t WHERE pk = 9 AND a = 1 AND b = 2", true),
    ("DELETE v, w FROM t WHERE pk = 9 AND a = 2 AND b = 1", true),
    ("DELETE s FROM t WHERE pk = 9", true),
    ("DELETE FROM t WHERE pk = 9 AND a > 2 AND a <= 4", true),
    ("DELETE FROM t USING TIMESTAMP 5 WHERE pk = 9", true),
    ("DELETE FROM t WHERE pk = 10", true),
    ("DELETE FROM t USING TTL 5 WHERE pk = 9", false),
    ("DELETE v FROM t WHERE pk = 9", true),
    ("DELETE a FROM t WHERE pk = 9", false),
    ("DELETE nosuch FROM t WHERE pk = 9", false),
    ("DELETE FROM t WHERE pk = 9 AND b = 1", true),
    ("DELETE FROM t WHERE pk = 9 AND v = 'x'", false),
    ("DELETE FROM t WHERE pk = 9 AND a IN (1, 2)", false),
    ("DELETE FROM t", false),
    (
        "UPDATE u SET x = 3 WHERE id = '6B29FC40-CA47-1067-B31D-00DD010662DA' AND at = '9.0.0.1'",
        true,
    ),
    ("INSERT INTO t (pk, a, b, v) VALUES (7, 1, 1, 'no') IF NOT EXISTS", true),
    ("INSERT INTO t (pk, a, b, v) VALUES (7, 9, 1, 'yes') IF NOT EXISTS USING TTL 100", true),
    ("INSERT INTO t (pk, a, b, v) VALUES (7, 9, 2, 'yes') USING TTL 100 IF NOT EXISTS", true),
    ("INSERT INTO t (pk, s) VALUES (11, 'first') IF NOT EXISTS", true),
    ("INSERT INTO t (pk, s) VALUES (11, 'second') IF NOT EXISTS", true),
    ("INSERT INTO t (pk, a, b) VALUES (7, 9, 3), (7, 9, 4) IF NOT EXISTS", true),
    ("INSERT INTO t (pk, a, b) VALUES (7, 9, 3) IF EXISTS", false),
    ("INSERT INTO t (pk, a, b) VALUES (7, 9, 3) IF NOT EXISTS USING TIMESTAMP 5", false),
    ("UPDATE t SET w = 1 WHERE pk = 7 AND a = 9 AND b = 1 IF v = 'yes' AND w = NULL", true),
    ("UPDATE t SET w = 2 WHERE pk = 7 AND a = 9 AND b = 1 IF w IN (3, 1) AND v != 'no'", true),
    ("UPDATE t SET w = 3 WHERE pk = 7 AND a = 9 AND b = 1 IF w > 2", true),
    ("UPDATE t SET w = 3 WHERE pk = 7 AND a = 9 AND b = 1 IF w >= 2 AND w <= 2 AND w < 3", true),
    ("UPDATE t SET s = 'third' WHERE pk = 11 IF s = 'first'", true),
    ("UPDATE t SET v = 'x' WHERE pk = 11 IF s = 'third'", true),
    ("UPDATE t SET v = 'x' WHERE pk = 11 AND a = 1 AND b = 1 IF EXISTS", true),
    ("UPDATE t SET v = 'x' WHERE pk = 7 AND a = 9 AND b = 1 IF EXISTS", true),
    ("UPDATE t SET v = 'x' WHERE pk = 7 AND a = 9 IF EXISTS", true),
    ("UPDATE t SET v = 'x' WHERE pk = 7 AND a = 9 AND b = 1 IF w > NULL", true),
    ("UPDATE t SET v = 'x' WHERE pk = 7 AND a = 9 AND b = 1 IF w = '2'", false),
    ("UPDATE t SET v = 'x' WHERE pk = 7 AND a = 9 AND b = 1 IF a = 9", false),
    ("UPDATE t SET v = 'x' WHERE pk = 7 AND a = 9 AND b = 1 IF w = 1 + 1", false),
    ("UPDATE t SET v = 'x' WHERE pk = 7 AND a = 9 AND b = 1 IF w IN ()", false),
    ("UPDATE t SET v = 'x' WHERE pk = 7 AND a = 9 AND b = 1 IF nosuch = 1", false),
    ("UPDATE t SET v = 'x' WHERE pk = 7 AND a = 9 AND b = 1 IF", false),
    ("UPDATE t SET v = 'x' WHERE pk = 7 AND a = 9 AND b = 1 IF NOT EXISTS", false),
    ("UPDATE t USING TIMESTAMP 5 SET v = 'x' WHERE pk = 7 AND a = 9 AND b = 1 IF EXISTS", false),
    ("DELETE FROM t WHERE pk = 7 AND a = 9 AND b = 2 IF v = 'no'", true),
    ("DELETE FROM t WHERE pk = 7 AND a = 9 AND b = 2 IF EXISTS", true),
    ("DELETE w FROM t WHERE pk = 7 AND a = 9 AND b = 1 IF w = 3", true),
    ("DELETE FROM t WHERE pk = 7 IF EXISTS", true),
    (
        "BEGIN BATCH INSERT INTO t (pk, a, b, v) VALUES (12, 1, 1, 'x'), (12, 1, 1, 'a'); \
         UPDATE t SET w = 5 WHERE pk = 12 AND a = 1 AND b = 2; \
         DELETE FROM t WHERE pk = 9 AND a = 3; APPLY BATCH",
        true,
    ),
    (
        "BEGIN UNLOGGED BATCH USING TIMESTAMP 9000000000000000 \
         INSERT INTO t (pk, a, b, v) VALUES (12, 2, 1, 'late') USING TTL 100; \
         INSERT INTO u (id, at, x) VALUES ('6B29FC40-CA47-1067-B31D-00DD010662DB', '::2', 1) \
         APPLY BATCH",
        true,
    ),
    (
        "BEGIN LOGGED BATCH UPDATE t USING TIMESTAMP 5 SET v = 'old' WHERE pk = 12 AND a = 2 \
         AND b = 1; ; APPLY BATCH",
        true,
    ),
    (
        "BEGIN BATCH INSERT INTO t (pk, a, b, v) VALUES (12, 3, 1, 'x') IF NOT EXISTS; \
         UPDATE t SET w = 6 WHERE pk = 12 AND a = 1 AND b = 1 IF v IN ('x', 'a'); \
         UPDATE t SET s = 'both' WHERE pk = 12; APPLY BATCH",
        true,
    ),
    (
        "BEGIN BATCH INSERT INTO t (pk, a, b, v) VALUES (12, 3, 1, 'y') IF NOT EXISTS; \
         UPDATE t SET s = 'none' WHERE pk = 12; APPLY BATCH",
        true,
    ),
    // These are refused, by the planner's path.
    (
        "BEGIN BATCH UPDATE t SET w = 6 WHERE pk = 12 AND a = 1 AND b = 1 IF EXISTS; \
         UPDATE t SET s = 's' WHERE pk = 13; APPLY BATCH",
        true,
    ),
    (
        "BEGIN BATCH USING TIMESTAMP 5 UPDATE t SET s = 's' WHERE pk = 12; \
         UPDATE t USING TIMESTAMP 5 SET s = 's' WHERE pk = 12; APPLY BATCH",
        false,
    ),
    ("BEGIN BATCH APPLY BATCH", false),
    (
        "BEGIN BATCH UPDATE t SET s = 's' WHERE pk = 12 UPDATE t SET s = 's' WHERE pk = 12; APPLY BATCH",
        false,
    ),
    ("BEGIN BATCH UPDATE t SET w = w + 1 WHERE pk = 12 AND a = 1 AND b = 1; APPLY BATCH", false),
    ("BEGIN BATCH UPDATE nosuch SET s = 's' WHERE pk = 12; APPLY BATCH", false),
    ("BEGIN BATCH SELECT 1; APPLY BATCH", false),
    // Its values are refused as they are written, which leaves the answer to the planner.
    ("INSERT INTO u (id, at, x) VALUES ('none', '::1', 1)", true),
];

async fn world() -> World {
    let world = World::weather().await;
    for text in [
        "CREATE TABLE t (pk int, a int, b int, v text, w int, s text STATIC, \
         PRIMARY KEY (pk, a, b)) WITH CLUSTERING ORDER BY (a ASC, b DESC)",
        "CREATE TABLE u (id uuid, at inet, x int, PRIMARY KEY (id, at))",
        "INSERT INTO t (pk, s) VALUES (5, 'alone')",
        "INSERT INTO u (id, at, x) VALUES ('6b29fc40-ca47-1067-b31d-00dd010662da', '9.0.0.1', 1)",
        "INSERT INTO u (id, at, x) VALUES ('6b29fc40-ca47-1067-b31d-00dd010662da', '10.0.0.1', 2)",
    ] {
        world.run(text).await;
    }
    for (a, b) in (1..=3).flat_map(|a| (1..=3).map(move |b| (a, b))) {
        let text = format!("INSERT INTO t (pk, a, b, v, w) VALUES (1, {a}, {b}, 'v{a}{b}', {b})");
        world.run(&text).await;
        if (a, b) == (2, 1) {
            world.run("FLUSH t").await;
        }
    }
    world
}

fn statement(text: &str) -> Statement {
    split(text).unwrap().remove(0)
}

/// Everything that a client sees of a statement.
async fn seen(
    world: &World,
    text: &str,
    parameters: Option<&RecordBatch>,
) -> (Option<SchemaRef>, String) {
    let statement = statement(text);
    let outcome = match parameters {
        Some(rows) => world.session.run_with(&statement, rows).await,
        None => world.session.run(&statement).await,
    };
    shown(text, outcome).await
}

/// The same of a statement that was prepared.
async fn seen_prepared(
    world: &World,
    prepared: &Prepared,
    parameters: Option<&RecordBatch>,
) -> (Option<SchemaRef>, String) {
    let text = prepared.statement().text().to_owned();
    shown(&text, world.session.run_prepared(prepared, parameters).await).await
}

async fn shown(text: &str, outcome: Result<Outcome>) -> (Option<SchemaRef>, String) {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return (None, error.render(text)),
    };
    let schema = Arc::clone(&outcome.schema);
    let text = match outcome.kind {
        OutcomeKind::Count(count) => format!("{count} written"),
        OutcomeKind::Message(message) => message,
        OutcomeKind::Rows(_) | OutcomeKind::Decided(_) => match outcome.collect().await {
            Ok(batches) => pretty_format_batches(&batches).unwrap().to_string(),
            Err(error) => error.render(text),
        },
    };
    (Some(schema), text)
}

async fn set_short(world: &World, is_on: bool) {
    world.run(&format!("SET tidegate.short_path = {is_on}")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_answer_as_the_planner_answers() {
    let world = world().await;
    for (text, is_short) in READS {
        set_short(&world, false).await;
        assert!(world.session.short(&statement(text), "default").is_none(), "{text}");
        let planned = seen(&world, text, None).await;
        let described = world.session.describe(&statement(text)).await;
        let prepared = world.session.prepare(statement(text), "default");
        // The second time with what the first has kept.
        for _ in 0..2 {
            assert_eq!(seen_prepared(&world, &prepared, None).await, planned, "{text}");
        }
        set_short(&world, true).await;
        let short = world.session.short(&statement(text), "default");
        assert_eq!(short.is_some(), *is_short, "{text}");
        assert_eq!(seen(&world, text, None).await, planned, "{text}");
        assert_eq!(seen_prepared(&world, &prepared, None).await, planned, "{text}");
        if let (Some(short), Ok(described)) = (short, described) {
            assert_eq!(short.rows_schema(), Some(&described.schema), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_leave_what_the_planner_leaves() {
    let mut left = Vec::new();
    for (is_on, is_prepared) in [(false, false), (true, false), (false, true), (true, true)] {
        let world = world().await;
        set_short(&world, is_on).await;
        let mut all = Vec::new();
        for (text, is_short) in WRITES {
            let short = world.session.short(&statement(text), "default");
            assert_eq!(short.is_some(), *is_short && is_on, "{text}");
            all.push(match is_prepared {
                true => {
                    let prepared = world.session.prepare(statement(text), "default");
                    seen_prepared(&world, &prepared, None).await.1
                }
                false => seen(&world, text, None).await.1,
            });
        }
        for text in [
            "SELECT * FROM t WHERE pk IN (7, 8, 9, 10, 11, 12) ORDER BY pk, a, b",
            "SELECT a, b, writetime(v) FROM t WHERE pk = 12 AND a = 2",
            "SELECT * FROM weather WHERE origin IN ('X')",
            "SELECT * FROM u ORDER BY x",
        ] {
            all.push(world.rows(text).await);
        }
        left.push(all);
    }
    for others in &left[1..] {
        assert_eq!(*others, left[0]);
    }
}

/// Columns of parameters.
fn rows(columns: Vec<ArrayRef>) -> RecordBatch {
    let names = (1..=columns.len()).map(|n| format!("${n}"));
    RecordBatch::try_from_iter(names.zip(columns)).unwrap()
}

fn ints<const N: usize>(values: [Option<i32>; N]) -> ArrayRef {
    Arc::new(Int32Array::from(values.to_vec()))
}

fn texts<const N: usize>(values: [Option<&str>; N]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_are_bound_as_the_planner_binds_them() {
    let long = |value| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
    let instant =
        |ms| Arc::new(TimestampMillisecondArray::from(vec![ms]).with_timezone("UTC")) as ArrayRef;
    let reads = [
        ("SELECT v FROM t WHERE pk = ? AND a = ?", vec![ints([Some(1)]), ints([Some(2)])]),
        (
            "SELECT v FROM t WHERE pk = $1 AND a >= $2 LIMIT $3",
            vec![ints([Some(1)]), ints([Some(2)]), long(2)],
        ),
        ("SELECT v FROM t WHERE pk = ? AND a = 2", vec![ints([None])]),
        ("SELECT v FROM t WHERE pk = ?", vec![long(1)]),
        ("SELECT v FROM t WHERE pk = ?", vec![texts([Some("x")])]),
        ("SELECT v FROM t WHERE pk = ?", vec![ints([Some(1), Some(2)])]),
        ("SELECT v FROM t WHERE pk = ?", vec![ints([Some(1)]), ints([Some(1)])]),
        ("SELECT v FROM t WHERE pk = 1 LIMIT ?", vec![long(-1)]),
        ("SELECT v FROM t WHERE pk = 1 LIMIT ?", vec![long(0)]),
        (
            "SELECT * FROM u WHERE id = ?",
            vec![texts([Some("6B29FC40-CA47-1067-B31D-00DD010662DA")])],
        ),
        (
            "SELECT temp FROM weather WHERE origin = ? AND time_hour < ?",
            vec![texts([Some("JFK")]), instant(1_372_800_000_000)],
        ),
    ];
    let world = world().await;
    // One parameter for two columns is refused by the planner.
    let twice = "SELECT v FROM t WHERE pk = $1 AND a = $1";
    assert!(world.session.short(&statement(twice), "default").is_none());
    for (text, values) in reads {
        let values = rows(values);
        set_short(&world, false).await;
        let planned = seen(&world, text, Some(&values)).await;
        let wanted = world.session.parameters(&statement(text)).await.unwrap();
        let prepared = world.session.prepare(statement(text), "default");
        for is_on in [false, false, true] {
            set_short(&world, is_on).await;
            assert_eq!(seen_prepared(&world, &prepared, Some(&values)).await, planned, "{text}");
            assert_eq!(world.session.parameters_of(&prepared).await.unwrap(), wanted, "{text}");
        }
        let short = world.session.short(&statement(text), "default").expect(text);
        assert_eq!(*short.parameters(), wanted, "{text}");
        assert_eq!(seen(&world, text, Some(&values)).await, planned, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_parameters_are_written_in_their_order() {
    let insert = "INSERT INTO t (a, pk, b, v) VALUES ($2, $1, $3, $4)";
    let mut left = Vec::new();
    for is_on in [false, true] {
        let world = world().await;
        set_short(&world, is_on).await;
        let mut all = Vec::new();
        // The last of two rows with one key wins, and a null key writes what stands before it.
        for keys in [[Some(1), Some(2), Some(2)], [Some(4), Some(5), None]] {
            let pk = ints([Some(7); 3]);
            let b = ints([Some(1); 3]);
            let values = rows(vec![pk, ints(keys), b, texts([Some("x"), Some("y"), Some("z")])]);
            let wanted = world.session.parameters(&statement(insert)).await.unwrap();
            if let Some(short) = world.session.short(&statement(insert), "default") {
                assert_eq!(*short.parameters(), wanted);
            }
            all.push(seen(&world, insert, Some(&values)).await.1);
        }
        all.push(world.rows("SELECT * FROM t WHERE pk = 7 ORDER BY a, b").await);
        left.push(all);
    }
    assert_eq!(left[0], left[1]);
    assert!(left[0][0].contains("3 written"), "{}", left[0][0]);
}

fn longs(values: Vec<i64>) -> ArrayRef {
    Arc::new(Int64Array::from(values))
}

/// Changes with rows of their parameters.
type Bound = Vec<(&'static str, Vec<ArrayRef>)>;

fn plain_changes() -> Bound {
    vec![
        (
            "UPDATE t SET v = ?, w = ? WHERE pk = ? AND a = ? AND b = ?",
            vec![
                texts([Some("x"), None]),
                ints([Some(1), Some(2)]),
                ints([Some(1); 2]),
                ints([Some(2), Some(3)]),
                ints([Some(1); 2]),
            ],
        ),
        (
            "UPDATE t USING TTL ? AND TIMESTAMP ? SET w = 4 WHERE pk = ? AND a = 2 AND b = 2",
            vec![longs(vec![100]), longs(vec![9_000_000_000_000_000]), ints([Some(1)])],
        ),
        ("UPDATE t SET w = 5 WHERE pk = ? AND a = 2 AND b = 2", vec![ints([Some(1)])]),
        ("UPDATE t SET w = 5 WHERE pk = ? AND a = 2 AND b = 2", vec![ints([None])]),
        ("UPDATE t SET w = ? WHERE pk = 1 AND a = 2 AND b = 3", vec![texts([Some("many")])]),
        ("UPDATE t SET w = 5 WHERE pk = 1 AND a = 2 AND b = ?", vec![ints([])]),
        ("DELETE FROM t WHERE pk = ? AND a = ?", vec![ints([Some(1)]), ints([Some(4)])]),
        (
            "DELETE FROM t USING TIMESTAMP $1 WHERE pk = $2",
            vec![longs(vec![5, 6]), ints([Some(1), Some(2)])],
        ),
        (
            "INSERT INTO t (pk, a, b, v) VALUES (?, ?, ?, ?) USING TIMESTAMP ?",
            vec![
                ints([Some(1)]),
                ints([Some(6)]),
                ints([Some(1)]),
                texts([Some("x")]),
                longs(vec![5]),
            ],
        ),
        (
            "INSERT INTO t (pk, a, b, v) VALUES (?, ?, ?, ?) USING TIMESTAMP 7",
            vec![
                ints([Some(1); 2]),
                ints([Some(7); 2]),
                ints([Some(1); 2]),
                texts([Some("z"), Some("a")]),
            ],
        ),
    ]
}

/// Those that depend on what is there, and batches.
fn other_changes() -> Bound {
    vec![
        (
            "INSERT INTO t (pk, a, b, v) VALUES (?, ?, ?, ?) IF NOT EXISTS",
            vec![
                ints([Some(1); 3]),
                ints([Some(8), Some(8), Some(9)]),
                ints([Some(1); 3]),
                texts([Some("x"), Some("y"), Some("z")]),
            ],
        ),
        (
            "UPDATE t SET w = ? WHERE pk = 1 AND a = 8 AND b = 1 IF v = ? AND w IN (NULL, ?)",
            vec![
                ints([Some(1), Some(2), Some(3)]),
                texts([Some("x"), Some("x"), None]),
                ints([None, Some(1), Some(2)]),
            ],
        ),
        (
            "UPDATE t SET w = 9 WHERE pk = 1 AND a = 8 AND b = 1 IF w < ?",
            vec![ints([Some(5), None])],
        ),
        ("DELETE FROM t WHERE pk = ? AND a = 9 AND b = 1 IF EXISTS", vec![ints([Some(1), None])]),
        (
            "BEGIN BATCH USING TIMESTAMP ? INSERT INTO t (pk, a, b, v) VALUES (?, ?, ?, ?); \
             INSERT INTO t (pk, a, b, v) VALUES (2, 1, 1, 'two'); \
             UPDATE t USING TTL ? SET w = ? WHERE pk = 1 AND a = 11 AND b = 1; APPLY BATCH",
            vec![
                longs(vec![9_000_000_000_000_000, 9_000_000_000_000_001]),
                ints([Some(1); 2]),
                ints([Some(11), Some(12)]),
                ints([Some(1); 2]),
                texts([Some("x"), Some("y")]),
                longs(vec![1000, 2000]),
                ints([Some(1), Some(2)]),
            ],
        ),
        (
            "BEGIN BATCH UPDATE t SET w = 1 WHERE pk = $1 AND a = 11 AND b = 1 IF w = $2; \
             DELETE FROM t WHERE pk = $3 AND a = 12; APPLY BATCH",
            vec![ints([Some(1), Some(2)]), ints([Some(2), Some(2)]), ints([Some(1), Some(2)])],
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_take_their_parameters_as_the_planner_does() {
    let changes = [plain_changes(), other_changes()].concat();
    let mut left = Vec::new();
    for is_on in [false, true] {
        let world = world().await;
        set_short(&world, is_on).await;
        let mut all = Vec::new();
        for (text, values) in &changes {
            let wanted = world.session.parameters(&statement(text)).await.unwrap();
            let short = world.session.short(&statement(text), "default");
            assert_eq!(short.is_some(), is_on, "{text}");
            if let Some(short) = short {
                assert_eq!(*short.parameters(), wanted, "{text}");
            }
            all.push(seen(&world, text, Some(&rows(values.clone()))).await.1);
        }
        all.push(world.rows("SELECT * FROM t WHERE pk IN (1, 2) ORDER BY pk, a, b").await);
        left.push(all);
    }
    assert_eq!(left[0], left[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_names_the_path() {
    let world = world().await;
    let row = |text: &str| format!("EXPLAIN {text}");
    for (is_on, text, wanted) in [
        (true, "SELECT v FROM t WHERE pk = 1", Some("short: one read")),
        (true, "DELETE FROM t WHERE pk = 1", Some("short: one write")),
        (true, "INSERT INTO t (pk, a, b) VALUES (1, 1, 1)", Some("short: one write")),
        (
            true,
            "DELETE FROM t WHERE pk = 1 AND a = 1 AND b = 1 IF v = 'x'",
            Some("short: one decision"),
        ),
        (true, "SELECT v FROM t WHERE pk = 1 AND b = 2", None),
        (true, "SELECT count(*) FROM t WHERE pk = 1", None),
        (false, "SELECT v FROM t WHERE pk = 1", None),
    ] {
        set_short(&world, is_on).await;
        let plan = world.rows(&row(text)).await;
        assert!(plan.contains("physical_plan"), "{text}: {plan}");
        match wanted {
            Some(wanted) => assert!(plan.contains("| path") && plan.contains(wanted), "{plan}"),
            None => assert!(!plan.contains("| path"), "{text}: {plan}"),
        }
    }
}
