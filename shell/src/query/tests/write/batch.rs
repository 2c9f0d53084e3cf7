//! BEGIN BATCH … APPLY BATCH.

use std::sync::Arc;

use datafusion::arrow::array::{Array, Int32Array, RecordBatch};

use crate::query::tests::World;
use crate::query::{ErrorKind, OutcomeKind, applied_count, split};

async fn table() -> World {
    let world = World::new().await;
    world.run("CREATE TABLE t (pk int, ck int, v int, s int STATIC, PRIMARY KEY (pk, ck))").await;
    world.run("CREATE TABLE u (k int PRIMARY KEY, v int)").await;
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_writes_all_of_its_statements() {
    let world = table().await;
    for (n, begin) in
        ["BEGIN BATCH", "begin unlogged batch", "BEGIN LOGGED BATCH"].iter().enumerate()
    {
        let text = format!(
            "{begin}\n  INSERT INTO t (pk, ck, v) VALUES ({n}, 1, 1), ({n}, 2, 2);\n  \
             UPDATE t SET v = 3 WHERE pk = {n} AND ck = 3;;\n  UPDATE t SET s = {n} WHERE pk = {n};\n  \
             DELETE FROM t WHERE pk = {n} AND ck = 9;\n  INSERT INTO u VALUES ({n}, 7)\nAPPLY BATCH;"
        );
        assert_eq!(split(&text).unwrap().len(), 1);
        assert_eq!(world.count(&text).await, 6, "{text}");
        let rows = format!("SELECT ck + v + s FROM t WHERE pk = {n} ORDER BY ck");
        assert_eq!(world.column(&rows).await, [2 + n, 4 + n, 6 + n].map(|sum| sum.to_string()));
        assert_eq!(world.column(&format!("SELECT v FROM u WHERE k = {n}")).await, ["7"]);
    }
    // One timestamp: of a row that is written and deleted the deletion stands, in any order.
    world
        .run(
            "BEGIN BATCH DELETE FROM u WHERE k = 50; INSERT INTO u VALUES (50, 1); \
             INSERT INTO u VALUES (51, 2); APPLY BATCH",
        )
        .await;
    assert_eq!(world.column("SELECT k FROM u WHERE k >= 50").await, ["51"]);
    // The timestamp of the batch, and those of its statements.
    world.run("BEGIN BATCH USING TIMESTAMP 5 INSERT INTO u VALUES (51, 9); APPLY BATCH").await;
    assert_eq!(world.column("SELECT v FROM u WHERE k = 51").await, ["2"]);
    world
        .run(
            "BEGIN BATCH INSERT INTO u VALUES (52, 1) USING TIMESTAMP 5; \
             INSERT INTO u VALUES (52, 2) USING TIMESTAMP 4 AND TTL 1000; APPLY BATCH",
        )
        .await;
    assert_eq!(world.column("SELECT v FROM u WHERE k = 52").await, ["1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_with_if_is_written_if_all_holds() {
    let world = table().await;
    let text = "BEGIN BATCH INSERT INTO t (pk, ck, v) VALUES (1, 1, 1) IF NOT EXISTS; \
                INSERT INTO t (pk, ck, v) VALUES (1, 2, 2); \
                UPDATE t SET s = 5 WHERE pk = 1 IF s = null; APPLY BATCH";
    for wanted in [1, 0] {
        let OutcomeKind::Decided(answer) = world.run(text).await.kind else {
            panic!("not decided")
        };
        assert_eq!(applied_count(&answer), wanted);
    }
    insta::assert_snapshot!(world.rows(text).await, @r"
    +-----------+----+----+---+---+
    | [applied] | pk | ck | v | s |
    +-----------+----+----+---+---+
    | false     | 1  | 1  | 1 | 5 |
    | false     | 1  |    |   | 5 |
    +-----------+----+----+---+---+
    ");
    assert_eq!(world.column("SELECT v FROM t WHERE pk = 1 ORDER BY ck").await, ["1", "2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_batch_is_refused_and_writes_nothing() {
    let world = table().await;
    let mut shown = String::new();
    for text in [
        "BEGIN BATCH APPLY BATCH",
        "BEGIN BATCH INSERT INTO u VALUES (1, 1);",
        "BEGIN BATCH INSERT INTO u VALUES (1, 1); SELECT 1; APPLY BATCH",
        "BEGIN BATCH INSERT INTO u VALUES (1, 1); INSERT INTO u SELECT * FROM u; APPLY BATCH",
        "BEGIN BATCH INSERT INTO u VALUES (1, 1);\nINSERT INTO nope VALUES (1);\nAPPLY BATCH",
        "BEGIN BATCH INSERT INTO u VALUES (1, 1); UPDATE u SET v = 'x' WHERE k = 2; APPLY BATCH",
        "BEGIN BATCH USING TIMESTAMP 1 INSERT INTO u VALUES (1, 1) USING TIMESTAMP 2; APPLY BATCH",
        "BEGIN BATCH USING TIMESTAMP 1 INSERT INTO u VALUES (1, 1) IF NOT EXISTS; APPLY BATCH",
        "BEGIN BATCH INSERT INTO u VALUES (1, 1) IF NOT EXISTS; INSERT INTO u VALUES (2, 2); \
         APPLY BATCH",
        "BEGIN COUNTER BATCH INSERT INTO u VALUES (1, 1); APPLY BATCH",
        "BEGIN BATCH INSERT INTO u VALUES (1, 1) INSERT INTO u VALUES (2, 2) APPLY BATCH",
        "APPLY BATCH",
        "BEGIN",
    ] {
        let error = world.error(text).await;
        assert!(error.span.is_some(), "{text}: {error}");
        shown.push_str(&format!("{}\n", error.render(text)));
    }
    insta::assert_snapshot!("what_a_batch_refuses", shown);
    assert_eq!(world.column("SELECT count(*) FROM u").await, ["0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_batch_runs_once_a_row() {
    let world = table().await;
    let text = "BEGIN BATCH USING TIMESTAMP ? INSERT INTO u (k, v) VALUES (?, ?); \
                UPDATE t SET v = ? WHERE pk = ? AND ck = 1; APPLY BATCH";
    let prepared = world.session.prepare(split(text).unwrap().remove(0), &world.session.keyspace());
    let parameters = world.session.parameters_of(&prepared).await.unwrap();
    use datafusion::arrow::datatypes::DataType::{Int32, Int64};
    let types: Vec<_> = parameters.fields().iter().map(|field| field.data_type()).collect();
    assert_eq!(types, [&Int64, &Int32, &Int32, &Int32, &Int32]);
    let description = world.session.describe_prepared(&prepared, None).await.unwrap();
    assert!(!description.returns_rows && !description.is_query && !description.is_conditional);
    let ints = |values: [i32; 2]| Arc::new(Int32Array::from(values.to_vec())) as Arc<dyn Array>;
    let stamps: Arc<dyn Array> = Arc::new(datafusion::arrow::array::Int64Array::from(vec![5, 6]));
    let rows = RecordBatch::try_from_iter([
        ("$1", stamps),
        ("$2", ints([1, 2])),
        ("$3", ints([10, 20])),
        ("$4", ints([30, 40])),
        ("$5", ints([1, 2])),
    ])
    .unwrap();
    let outcome = world.session.run_prepared(&prepared, Some(&rows)).await.unwrap();
    assert!(matches!(outcome.kind, OutcomeKind::Count(4)));
    assert_eq!(world.column("SELECT v FROM u ORDER BY k").await, ["10", "20"]);
    assert_eq!(world.column("SELECT v FROM t ORDER BY pk").await, ["30", "40"]);
    let error = world.error(text).await;
    assert_eq!(error.kind, ErrorKind::Invalid);
}

/// Each statement of a batch has a time to live of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_statements_of_a_batch_write_expires_as_each_says() {
    let world = table().await;
    for path in ["true", "false"] {
        world.run(&format!("SET tidegate.short_path = {path}")).await;
        world
            .run(
                "BEGIN BATCH INSERT INTO u VALUES (1, 1) USING TTL 100; \
                 UPDATE u USING TTL 500 SET v = 2 WHERE k = 2; INSERT INTO u VALUES (3, 3); \
                 APPLY BATCH",
            )
            .await;
        let times = "SELECT coalesce(ttl(v) / 100, 9) FROM u WHERE k IN (1, 2, 3) ORDER BY k";
        let found = world.column(times).await;
        let wanted = [["0", "1"], ["4", "5"], ["9", "9"]];
        assert!(
            found.len() == 3 && found.iter().zip(wanted).all(|(one, of)| of.contains(&&**one)),
            "short path {path}: {found:?}"
        );
    }
}

/// Whichever statement says it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_with_a_condition_takes_no_timestamp_of_any_of_its_statements() {
    let world = table().await;
    let condition = "INSERT INTO t (pk, ck, v) VALUES (1, 1, 1) IF NOT EXISTS;";
    let dated = "INSERT INTO t (pk, ck, v) VALUES (1, 2, 1) USING TIMESTAMP 5;";
    for (first, second) in [(condition, dated), (dated, condition)] {
        let error = world.error(&format!("BEGIN BATCH {first} {second} APPLY BATCH")).await;
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.message.contains("with IF takes no USING TIMESTAMP"), "{error}");
    }
    assert_eq!(world.column("SELECT count(*) FROM t").await, ["0"]);
}
