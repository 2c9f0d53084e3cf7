//! Times to live: the table's default, and none.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use tidegate_engine::batch::{WriteOptions, mutations};
use tidegate_engine::clock::SimulatedClock;
use tidegate_engine::{Database, Options};

use crate::query::tests::World;
use crate::query::write::stamp::stamp;
use crate::query::{Session, SessionOptions};

/// A table whose rows live an hour, and the clock.
async fn mortal() -> (World, Arc<SimulatedClock>) {
    let directory = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let mut open = Options::new(directory.path().join("data"));
    open.shards = Some(1);
    open.clock = clock.clone();
    let database = Database::open(open).await.unwrap();
    let session = Session::new(database, SessionOptions::default()).unwrap();
    let world = World { session, directory };
    world
        .run(
            "CREATE TABLE t (pk int PRIMARY KEY, v text, w text) \
             WITH default_time_to_live = 3600",
        )
        .await;
    (world, clock)
}

fn batch(pks: Vec<i32>, vs: Vec<Option<&str>>, ws: Vec<Option<&str>>) -> RecordBatch {
    let field = |name: &str, ty| Field::new(name, ty, true);
    let schema = Schema::new(vec![
        field("pk", DataType::Int32),
        field("v", DataType::Utf8),
        field("w", DataType::Utf8),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(pks)),
        Arc::new(StringArray::from(vs)),
        Arc::new(StringArray::from(ws)),
    ];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

/// Writes as an ingest does.
async fn ingest(world: &World, rows: &RecordBatch, ttl: Option<i32>) {
    let database = &world.session.database;
    let table = database.catalog().table("default", "t").cloned().unwrap();
    let now_seconds = i32::try_from(database.clock().wall_seconds()).unwrap();
    let options = WriteOptions { timestamp: database.timestamp_us(), ttl, now_seconds };
    let rows = mutations(&table, rows, &options).unwrap();
    let mut rows: Vec<_> = rows.into_iter().map(Result::unwrap).collect();
    stamp(database, &mut rows);
    database.apply_many(rows).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_to_live_of_zero_outlives_the_table_s_default() {
    let (world, clock) = mortal().await;
    let (csv, parquet) = (world.path("t.csv"), world.path("t.parquet"));
    let load = async |pk: i32, with: &str, file: &str| {
        let columns = format!("SELECT {pk} AS pk, 'x' AS v, 'y' AS w");
        world.run(&format!("COPY ({columns}) TO '{file}'")).await;
        world.run(&format!("COPY t FROM '{file}' {with}")).await;
    };
    // Even keys are to stay.
    world.run("INSERT INTO t VALUES (1, 'x', 'y')").await;
    world.run("INSERT INTO t VALUES (2, 'x', 'y') USING TTL 0").await;
    world.run("UPDATE t SET v = 'x' WHERE pk = 3").await;
    world.run("UPDATE t USING TTL 0 SET v = 'x' WHERE pk = 4").await;
    world.run("INSERT INTO t SELECT 5, 'x', 'y'").await;
    world.run("INSERT INTO t SELECT 6, 'x', 'y' USING TTL 0").await;
    load(7, "", &csv).await;
    load(8, "WITH (TTL = 0)", &csv).await;
    load(9, "", &parquet).await;
    load(10, "WITH (TTL = 0)", &parquet).await;
    ingest(&world, &batch(vec![11], vec![Some("x")], vec![None]), None).await;
    ingest(&world, &batch(vec![12], vec![Some("x")], vec![None]), Some(0)).await;
    world.run("INSERT INTO t VALUES (13, 'x', 'y') USING TTL 7200").await;
    load(15, "WITH (TTL = 7200)", &csv).await;
    let keys = "SELECT pk FROM t ORDER BY pk";
    let all: Vec<String> = (1..=13).chain([15]).map(|pk| pk.to_string()).collect();
    assert_eq!(world.column(keys).await, all);
    clock.advance(Duration::from_secs(3601));
    let stay = ["2", "4", "6", "8", "10", "12", "13", "15"];
    assert_eq!(world.column(keys).await, stay);
    world.run("FLUSH").await;
    assert_eq!(world.column(keys).await, stay);
    clock.advance(Duration::from_secs(3600));
    assert_eq!(world.column(keys).await, stay[..6]);
    let values = "SELECT v FROM t ORDER BY pk";
    assert_eq!(world.column(values).await, ["x"; 6]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_rows_with_one_key_in_one_ingest_the_later_wins_whole() {
    let (world, _clock) = mortal().await;
    let rows = batch(
        vec![1, 2, 1, 2],
        vec![Some("z"), None, None, Some("b")],
        vec![Some("a"), Some("z"), Some("c"), None],
    );
    ingest(&world, &rows, None).await;
    insta::assert_snapshot!(world.rows("SELECT * FROM t ORDER BY pk").await, @r"
    +----+---+---+
    | pk | v | w |
    +----+---+---+
    | 1  |   | c |
    | 2  | b |   |
    +----+---+---+
    ");
    // Expiry and key are those of the later row, too.
    ingest(&world, &batch(vec![3, 3], vec![Some("x"), None], vec![None, None]), Some(0)).await;
    assert_eq!(world.column("SELECT v FROM t WHERE pk = 3").await, [""]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn elements_that_are_added_live_as_long_as_they_are_told_to() {
    let (world, clock) = mortal().await;
    world.run("CREATE TABLE c (pk int PRIMARY KEY, s set<int>, m map<int, int>)").await;
    for text in [
        "UPDATE c USING TTL 10 SET s = s + {1}, m[1] = 1 WHERE pk = 1",
        "UPDATE c SET s = s + {2}, m[2] = 2 WHERE pk = 1",
    ] {
        world.run(text).await;
    }
    let all =
        "SELECT concat_ws(' ', array_to_string(s, ','), array_to_string(map_keys(m), ',')) FROM c";
    assert_eq!(world.column(all).await, ["1,2 1,2"]);
    clock.advance(Duration::from_secs(10));
    assert_eq!(world.column(all).await, ["2 2"]);
}
