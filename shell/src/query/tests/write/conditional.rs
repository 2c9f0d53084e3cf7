//! INSERT … IF NOT EXISTS, UPDATE … IF and DELETE … IF.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, Int32Array, RecordBatch};

use crate::query::tests::World;
use crate::query::{ErrorKind, OutcomeKind, Session, SessionOptions, applied_count, split};

async fn table() -> World {
    let world = World::new().await;
    world
        .run(
            "CREATE TABLE t (pk int, ck int, v int, w text, s int STATIC, tags set<text>, \
             PRIMARY KEY (pk, ck))",
        )
        .await;
    world
}

async fn is_applied(world: &World, text: &str) -> bool {
    match world.run(text).await.kind {
        OutcomeKind::Decided(answer) => applied_count(&answer) == 1,
        _ => panic!("{text} is not decided"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_is_done_once_and_then_shows_what_is_there() {
    let world = table().await;
    let insert = "INSERT INTO t (pk, ck, v, w) VALUES (1, 2, 3, 'x') IF NOT EXISTS USING TTL 1000";
    insta::assert_snapshot!(world.rows(insert).await, @r"
    +-----------+----+----+---+---+---+------+
    | [applied] | pk | ck | v | w | s | tags |
    +-----------+----+----+---+---+---+------+
    | true      |    |    |   |   |   |      |
    +-----------+----+----+---+---+---+------+
    ");
    insta::assert_snapshot!(world.rows(insert).await, @r"
    +-----------+----+----+---+---+---+------+
    | [applied] | pk | ck | v | w | s | tags |
    +-----------+----+----+---+---+---+------+
    | false     | 1  | 2  | 3 | x |   |      |
    +-----------+----+----+---+---+---+------+
    ");
    let short = world.column("SELECT count(*) FROM t").await;
    assert_eq!(short, ["1"]);
    // Another row of the partition, and the static row by itself.
    assert!(is_applied(&world, "INSERT INTO t (pk, ck) VALUES (1, 3) IF NOT EXISTS").await);
    assert!(is_applied(&world, "INSERT INTO t (pk, s) VALUES (1, 5) IF NOT EXISTS").await);
    assert!(!is_applied(&world, "INSERT INTO t (pk, s) VALUES (1, 6) IF NOT EXISTS").await);
    assert_eq!(world.column("SELECT DISTINCT s FROM t WHERE pk = 1").await, ["5"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_or_delete_is_done_where_its_condition_holds() {
    let world = table().await;
    world.run("INSERT INTO t (pk, ck, v, w, s) VALUES (1, 1, 10, 'a', 7)").await;
    let row = "WHERE pk = 1 AND ck = 1";
    for (condition, wanted) in [
        ("v = 10", true),
        ("v = 5 + 5 AND w = 'a' AND s = 7", true),
        ("v != 10", false),
        ("v > 9 AND v <= 10", true),
        ("v < 10", false),
        ("v IN (1, 2)", false),
        ("v IN (1, 10, null)", true),
        ("v IN ()", false),
        ("w >= 'a'", true),
        ("w = null", false),
        ("w != null", true),
        ("EXISTS", true),
    ] {
        let text = format!("UPDATE t SET w = 'a' {row} IF {condition}");
        assert_eq!(is_applied(&world, &text).await, wanted, "{text}");
    }
    let refused = format!("UPDATE t SET v = 1 {row} IF v = 1 AND s > 9");
    insta::assert_snapshot!(world.rows(&refused).await, @r"
    +-----------+----+---+
    | [applied] | v  | s |
    +-----------+----+---+
    | false     | 10 | 7 |
    +-----------+----+---+
    ");
    let nobody = "UPDATE t SET v = 1 WHERE pk = 9 AND ck = 9";
    assert!(!is_applied(&world, &format!("{nobody} IF EXISTS")).await);
    assert!(!is_applied(&world, &format!("{nobody} IF v = 1")).await);
    assert_eq!(world.column("SELECT count(*) FROM t WHERE pk = 9").await, ["0"]);
    // As in CQL, null holds of a row that is not there.
    assert!(is_applied(&world, &format!("{nobody} IF v = null")).await);
    // Static columns need no row.
    assert!(is_applied(&world, "UPDATE t SET s = 8 WHERE pk = 1 IF s = 7").await);
    assert!(!is_applied(&world, "UPDATE t SET s = 9 WHERE pk = 1 IF s = 7").await);
    assert!(
        is_applied(&world, &format!("UPDATE t SET tags = tags + {{'x'}} {row} IF v = 10")).await
    );
    assert!(!is_applied(&world, &format!("DELETE v FROM t {row} IF v = 11")).await);
    assert!(is_applied(&world, &format!("DELETE v FROM t {row} IF v = 10")).await);
    assert!(!is_applied(&world, &format!("DELETE FROM t {row} IF v = 10")).await);
    assert!(is_applied(&world, &format!("DELETE FROM t {row} IF EXISTS")).await);
    assert!(!is_applied(&world, &format!("DELETE FROM t {row} IF EXISTS")).await);
    world.run("CREATE TABLE one (k int PRIMARY KEY, v int)").await;
    assert!(is_applied(&world, "INSERT INTO one VALUES (1, 1) IF NOT EXISTS").await);
    assert!(is_applied(&world, "UPDATE one SET v = 2 WHERE k = 1 IF v = 1").await);
    assert!(is_applied(&world, "DELETE FROM one WHERE k = 1 IF EXISTS").await);
    assert_eq!(world.column("SELECT count(*) FROM one").await, ["0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_stand_behind_values_in_any_quotes() {
    let world = World::new().await;
    world.run("CREATE TABLE named (k text PRIMARY KEY, v int)").await;
    world.run("INSERT INTO named VALUES ('a', 1)").await;
    for key in ["'a'", "$$a$$", "E'a'"] {
        let update = format!("UPDATE named SET v = 1 WHERE k = {key} IF v =");
        assert!(is_applied(&world, &format!("{update} 1")).await, "{key}");
        assert!(!is_applied(&world, &format!("{update} 2")).await, "{key}");
    }
}

/// Below, at and above the value of a row, and of one that has none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_comparison_holds_on_its_side_of_the_border_alone() {
    let world = table().await;
    world.run("INSERT INTO t (pk, ck, v, w) VALUES (1, 1, 10, 'a')").await;
    world.run("INSERT INTO t (pk, ck, w) VALUES (1, 2, 'a')").await;
    let change = "UPDATE t SET w = 'a' WHERE pk = 1";
    for path in ["true", "false"] {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        for (operator, wanted) in [
            ("=", [false, true, false]),
            ("!=", [true, false, true]),
            ("<", [false, false, true]),
            ("<=", [false, true, true]),
            (">", [true, false, false]),
            (">=", [true, true, false]),
        ] {
            let of_null = operator == "!=";
            let keys = [(1, 9), (1, 10), (1, 11), (2, 10)];
            for ((ck, value), wanted) in keys.into_iter().zip(wanted.into_iter().chain([of_null])) {
                let text = format!("{change} AND ck = {ck} IF v {operator} {value}");
                assert_eq!(is_applied(&world, &text).await, wanted, "{text}, short path {path}");
            }
        }
    }
}

/// Types that literals and parameters are converted to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_are_compared_as_their_columns_have_them() {
    let world = World::new().await;
    world
        .run(
            "CREATE TABLE t (k int PRIMARY KEY, d decimal(10, 2), i bigint, f double, ts timestamp, \
             u uuid, b boolean, x blob, n inet)",
        )
        .await;
    world
        .run(
            "INSERT INTO t VALUES (1, 1.50, 5000000000, 0.5, '2020-01-01T00:00:00Z', \
             '123e4567-e89b-12d3-a456-426614174000', true, X'0102', '10.0.0.1')",
        )
        .await;
    for condition in [
        "d = 1.5 AND d > 1.49",
        "i = 5000000000",
        "f > 0.25",
        "ts = '2020-01-01T00:00:00Z' AND ts < '2021-01-01'",
        "u = '123E4567-E89B-12D3-A456-426614174000'",
        "b = true",
        "x = X'0102'",
        "n = '10.0.0.1'",
    ] {
        let text = format!("UPDATE t SET f = 0.5 WHERE k = 1 IF {condition}");
        assert!(is_applied(&world, &text).await, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_one_row_by_its_key_is_refused_with_help() {
    let world = table().await;
    let row = "WHERE pk = 1 AND ck = 1";
    let mut shown = String::new();
    for text in [
        "INSERT INTO t (pk, ck) VALUES (1, 1), (1, 2) IF NOT EXISTS".to_owned(),
        "INSERT INTO t (pk, ck) SELECT pk, ck FROM t IF NOT EXISTS".to_owned(),
        "INSERT INTO t (pk, ck) VALUES (1, 1) IF EXISTS".to_owned(),
        "INSERT INTO t (pk, ck) VALUES (1, 1) IF NOT EXISTS USING TIMESTAMP 5".to_owned(),
        format!("UPDATE t USING TIMESTAMP 5 SET v = 1 {row} IF EXISTS"),
        format!("UPDATE t SET v = 1 {row} IF NOT EXISTS"),
        "UPDATE t SET v = 1 WHERE pk = 1 IF v = 1".to_owned(),
        "UPDATE t SET s = 1 WHERE pk = 1 IF v = 1".to_owned(),
        "UPDATE t SET v = 1 WHERE pk IN (1, 2) AND ck = 1 IF EXISTS".to_owned(),
        "UPDATE t SET v = 1 WHERE pk = 1 AND ck IN (1, 2) IF EXISTS".to_owned(),
        "DELETE FROM t WHERE pk = 1 IF EXISTS".to_owned(),
        "DELETE FROM t WHERE pk = 1 AND ck > 1 IF EXISTS".to_owned(),
        format!("UPDATE t SET v = 1 {row} IF tags = {{'a'}}"),
        format!("UPDATE t SET v = 1 {row} IF tags['a'] = 1"),
        format!("UPDATE t SET v = 1 {row} IF ck = 1"),
        format!("UPDATE t SET v = 1 {row} IF nope = 1"),
        format!("UPDATE t SET v = 1 {row} IF v > null"),
        format!("UPDATE t SET v = 1 {row} IF v = 'x'"),
        format!("UPDATE t SET v = 1 {row} IF v ="),
        format!("UPDATE t SET v = 1 {row} IF v LIKE 1"),
        format!("UPDATE t SET v = 1 {row} IF v = 1 AND"),
        format!("UPDATE t SET v = 1 {row} IF"),
        format!("UPDATE t SET v = 1 {row} IF v IN 1"),
    ] {
        let error = world.error(&text).await;
        assert!(error.span.is_some(), "{text}: {error}");
        shown.push_str(&format!("{}\n", error.render(&text)));
    }
    insta::assert_snapshot!("what_if_refuses", shown);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_statements_tell_their_columns_and_run_once_a_row() {
    let world = table().await;
    let prepare = |text: &str| {
        world.session.prepare(split(text).unwrap().remove(0), &world.session.keyspace())
    };
    let ints = |columns: &[&[Option<i32>]]| {
        let arrays = columns.iter().enumerate().map(|(n, values)| {
            let array: Arc<dyn datafusion::arrow::array::Array> =
                Arc::new(Int32Array::from(values.to_vec()));
            (format!("${}", n + 1), array)
        });
        RecordBatch::try_from_iter(arrays).unwrap()
    };
    let insert = prepare("INSERT INTO t (pk, ck, v) VALUES (?, ?, ?) IF NOT EXISTS");
    let description = world.session.describe_prepared(&insert, None).await.unwrap();
    assert!(description.returns_rows && description.is_conditional && !description.is_query);
    let names: Vec<_> = description.schema.fields().iter().map(|field| field.name()).collect();
    assert_eq!(names, ["[applied]", "pk", "ck", "v", "w", "s", "tags"]);
    let rows = ints(&[&[Some(1), Some(1), Some(1)], &[Some(1), Some(1), Some(2)], &[Some(5); 3]]);
    let outcome = world.session.run_prepared(&insert, Some(&rows)).await.unwrap();
    assert_eq!(outcome.schema, description.schema);
    let OutcomeKind::Decided(answers) = outcome.kind else { panic!("not decided") };
    let applied: Vec<bool> = answers.column(0).as_boolean().iter().flatten().collect();
    assert_eq!(applied, [true, false, true]);

    let update = prepare("UPDATE t SET v = ? WHERE pk = ? AND ck = ? IF v = ? OR");
    assert!(world.session.run_prepared(&update, None).await.is_err());
    let update = prepare("UPDATE t SET v = ? WHERE pk = ? AND ck = ? IF v = ? AND v IN (?, 7)");
    let parameters = world.session.parameters_of(&update).await.unwrap();
    let types: Vec<_> = parameters.fields().iter().map(|field| field.data_type()).collect();
    assert_eq!(types, [&datafusion::arrow::datatypes::DataType::Int32; 5]);
    let values = ints(&[&[Some(6)], &[Some(1)], &[Some(1)], &[Some(5)], &[Some(5)]]);
    for wanted in [true, false] {
        let outcome = world.session.run_prepared(&update, Some(&values)).await.unwrap();
        let OutcomeKind::Decided(answer) = outcome.kind else { panic!("not decided") };
        assert_eq!(applied_count(&answer) == 1, wanted);
        assert_eq!(answer.schema().fields().len(), 2);
        let shown = answer.column(1).as_primitive::<datafusion::arrow::datatypes::Int32Type>();
        assert_eq!(shown.iter().next().unwrap(), (!wanted).then_some(6));
    }
    // EXPLAIN writes nothing.
    let plan = world.rows("EXPLAIN UPDATE t SET v = 1 WHERE pk = 1 AND ck = 1 IF v = 6").await;
    assert!(plan.contains("if: row, v = 6") && plan.contains("short: one decision"), "{plan}");
    assert_eq!(world.column("SELECT v FROM t WHERE pk = 1 AND ck = 1").await, ["6"]);
}

/// Sixty-four clients want the same name; of each name one gets it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_racing_clients_one_wins() {
    let world = World::new().await;
    world.run("CREATE TABLE users (name text PRIMARY KEY, owner int)").await;
    let database = world.session.database().clone();
    let clients = (0..64).map(|client| {
        let session = Session::new(database.clone(), SessionOptions::default()).unwrap();
        tokio::spawn(async move {
            let mut won = Vec::new();
            for name in 0..4 {
                let text = format!(
                    "INSERT INTO users (name, owner) VALUES ('n{name}', {client}) IF NOT EXISTS"
                );
                let OutcomeKind::Decided(answer) = session.execute(&text).await.unwrap().kind
                else {
                    panic!("not decided")
                };
                won.extend((applied_count(&answer) == 1).then_some((name, client)));
            }
            won
        })
    });
    let mut winners = Vec::new();
    for client in clients.collect::<Vec<_>>() {
        winners.extend(client.await.unwrap());
    }
    winners.sort_unstable();
    let names: Vec<i32> = winners.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, [0, 1, 2, 3]);
    let owners = world.column("SELECT owner FROM users ORDER BY name").await;
    let wanted: Vec<String> = winners.iter().map(|(_, client)| client.to_string()).collect();
    assert_eq!(owners, wanted);
    let closed = world.error("INSERT INTO users (name) VALUES (null) IF NOT EXISTS").await;
    assert_eq!(closed.kind, ErrorKind::Invalid);
}
