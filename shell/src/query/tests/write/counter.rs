//! Counters: steps by statements, in batches, by many clients at once.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::DataType;

use super::super::World;
use crate::query::{ErrorKind, Session, SessionOptions, split};

async fn world() -> World {
    let world = World::new().await;
    world.run("CREATE TABLE hits (site text, day int, views counter, sales counter, PRIMARY KEY (site, day))").await;
    world.run("CREATE TABLE total (site text, day int, n counter, all_of counter STATIC, PRIMARY KEY (site, day))").await;
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_add_up_and_read_as_bigint() {
    let world = world().await;
    let row = "WHERE site = 'a' AND day = 1";
    assert_eq!(world.count(&format!("UPDATE hits SET views = views + 1 {row}")).await, 1);
    world.run(&format!("UPDATE hits SET views = 41 + views, sales = sales - 2 {row}")).await;
    world.run("FLUSH hits").await;
    world.run(&format!("UPDATE hits SET views = views + (3 - 5) {row}")).await;
    world.run("UPDATE hits SET views = views + 7 WHERE site IN ('a', 'b') AND day IN (1, 2)").await;
    insta::assert_snapshot!(world.rows("SELECT * FROM hits ORDER BY site, day").await, @r"
    +------+-----+-------+-------+
    | site | day | views | sales |
    +------+-----+-------+-------+
    | a    | 1   | 47    | -2    |
    | a    | 2   | 7     |       |
    | b    | 1   | 7     |       |
    | b    | 2   | 7     |       |
    +------+-----+-------+-------+
    ");
    let sum = world.run("SELECT views + 1 AS x, sum(views) OVER () AS s FROM hits").await;
    let schema = Arc::clone(&sum.schema);
    assert!(schema.fields().iter().all(|field| *field.data_type() == DataType::Int64), "{schema}");
    world.run(&format!("DELETE FROM hits {row}")).await;
    world.run(&format!("UPDATE hits SET views = views + 1 {row}")).await;
    assert_eq!(world.column(&format!("SELECT views FROM hits {row}")).await, ["1"]);
    // A static counter needs no row.
    world.run("UPDATE total SET all_of = all_of + 5 WHERE site = 'a'").await;
    world.run("UPDATE total SET n = n + 1, all_of = all_of + 1 WHERE site = 'a' AND day = 1").await;
    insta::assert_snapshot!(world.rows("SELECT * FROM total").await, @r"
    +------+-----+---+--------+
    | site | day | n | all_of |
    +------+-----+---+--------+
    | a    | 1   | 1 | 6      |
    +------+-----+---+--------+
    ");
    let plan = world.plan(&format!("UPDATE hits SET views = views + 1 {row}")).await;
    assert!(plan.contains("writes=cells") && plan.contains("views + 1"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_may_be_parameters() {
    let world = world().await;
    let update = split("UPDATE hits SET views = views + ? WHERE site = 'a' AND day = ?").unwrap();
    let prepared = world.session.prepare(update[0].clone(), "default");
    let wanted = world.session.parameters_of(&prepared).await.unwrap();
    let types: Vec<&DataType> = wanted.fields().iter().map(|field| field.data_type()).collect();
    assert_eq!(types, [&DataType::Int64, &DataType::Int32]);
    let by = Arc::new(Int64Array::from(vec![1, 2, 10])) as ArrayRef;
    let day = Arc::new(Int32Array::from(vec![1, 1, 2])) as ArrayRef;
    let rows = RecordBatch::try_from_iter([("$1", by), ("$2", day)]).unwrap();
    for _ in 0..2 {
        world.session.run_prepared(&prepared, Some(&rows)).await.unwrap();
    }
    assert_eq!(world.column("SELECT views FROM hits ORDER BY day").await, ["6", "20"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_batch_takes_the_steps_of_a_partition_together() {
    let world = world().await;
    let batch = "BEGIN COUNTER BATCH UPDATE hits SET views = views + 1 WHERE site = 'a' AND day = 1; \
                 UPDATE hits SET views = views + 2, sales = sales + 1 WHERE site = 'a' AND day = 1; \
                 UPDATE hits SET views = views + 4 WHERE site = 'a' AND day = 2; \
                 UPDATE total SET n = n - 1 WHERE site = 'b' AND day = 1; APPLY BATCH";
    for _ in 0..2 {
        assert_eq!(world.count(batch).await, 4);
    }
    assert_eq!(world.column("SELECT views FROM hits ORDER BY day").await, ["6", "8"]);
    assert_eq!(world.column("SELECT n FROM total").await, ["-2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_count_is_refused_with_help() {
    let world = world().await;
    world.run("CREATE TABLE t (pk int PRIMARY KEY, v int)").await;
    world
        .run("UPDATE hits SET views = views + 9223372036854775807 WHERE site = 'm' AND day = 1")
        .await;
    for (text, says) in [
        ("CREATE TABLE x (pk int PRIMARY KEY, c counter, v int)", "column 'v' is none"),
        ("CREATE TABLE x (c counter PRIMARY KEY)", "cannot be counter"),
        (
            "CREATE TABLE x (pk int PRIMARY KEY, c counter) WITH default_time_to_live = 5",
            "would expire",
        ),
        ("ALTER TABLE t ADD c counter", "column 'v' is none"),
        ("ALTER TABLE hits ADD v int", "column 'v' is none"),
        ("ALTER TABLE hits WITH default_time_to_live = 5", "would expire"),
        ("INSERT INTO hits (site, day, views) VALUES ('a', 1, 1)", "takes steps"),
        ("UPDATE hits SET views = 1 WHERE site = 'a' AND day = 1", "takes steps"),
        ("UPDATE hits SET views = sales + 1 WHERE site = 'a' AND day = 1", "not a constant"),
        ("UPDATE hits SET views = views + 1 WHERE site = 'a'", "whole primary key"),
        ("UPDATE hits SET views = views + 1.5 WHERE site = 'a' AND day = 1", ""),
        ("UPDATE hits SET views = views + NULL WHERE site = 'a' AND day = 1", "null"),
        ("UPDATE hits SET views = views + 1 WHERE site = 'm' AND day = 1", "cannot take a step"),
        (
            "UPDATE hits SET views = views - (-9223372036854775807 - 1) WHERE site = 'a' AND day = 1",
            "too long",
        ),
        ("UPDATE hits USING TTL 5 SET views = views + 1 WHERE site = 'a' AND day = 1", "no TTL"),
        (
            "UPDATE hits USING TIMESTAMP 5 SET views = views + 1 WHERE site = 'a' AND day = 1",
            "no TTL",
        ),
        ("UPDATE hits SET views = views + 1 WHERE site = 'a' AND day = 1 IF EXISTS", "no IF"),
        (
            "BEGIN COUNTER BATCH UPDATE hits USING TTL 5 SET views = views + 1 \
             WHERE site = 'a' AND day = 1; APPLY BATCH",
            "no TTL",
        ),
        (
            "BEGIN COUNTER BATCH UPDATE hits USING TIMESTAMP 5 SET views = views + 1 \
             WHERE site = 'a' AND day = 1; APPLY BATCH",
            "no TTL",
        ),
        (
            "BEGIN COUNTER BATCH UPDATE hits SET views = views + 1 \
             WHERE site = 'a' AND day = 1 IF EXISTS; APPLY BATCH",
            "no IF",
        ),
        ("UPDATE t SET v = v + 1 WHERE pk = 1", "not a constant"),
        ("DELETE views FROM hits WHERE site = 'a' AND day = 1", "by itself"),
        (
            "BEGIN BATCH UPDATE hits SET views = views + 1 WHERE site = 'a' AND day = 1; APPLY BATCH",
            "no steps",
        ),
        (
            "BEGIN COUNTER BATCH UPDATE t SET v = 1 WHERE pk = 1; APPLY BATCH",
            "steps of counters alone",
        ),
        (
            "BEGIN COUNTER BATCH USING TIMESTAMP 5 UPDATE hits SET views = views + 1 WHERE site = 'a' AND day = 1; APPLY BATCH",
            "no USING TIMESTAMP",
        ),
    ] {
        let error = world.error(text).await;
        let is_told = matches!(error.kind, ErrorKind::Invalid | ErrorKind::Unsupported);
        assert!(is_told && error.message.contains(says), "{text}: {error}");
        assert!(error.span.is_some(), "{text}: {error}");
    }
    assert_eq!(world.column("SELECT site FROM hits").await, ["m"]);
}

/// Sixty-four clients at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_clients_lose_no_step() {
    let world = world().await;
    let clients = (0..64).map(|_| {
        let database = world.session.database().clone();
        let session = Session::new(database, SessionOptions::default()).unwrap();
        tokio::spawn(async move {
            for day in [1, 2, 1] {
                let text =
                    format!("UPDATE hits SET views = views + 1 WHERE site = 'a' AND day = {day}");
                session.execute(&text).await.unwrap();
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    assert_eq!(world.column("SELECT views FROM hits ORDER BY day").await, ["128", "64"]);
}
