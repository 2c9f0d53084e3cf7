//! TRACING, and the table of traces.

use std::sync::Arc;

use datafusion::arrow::array::{Int32Array, RecordBatch};
use futures::StreamExt;
use tidegate_engine::probe::Count;

use super::super::World;
use super::cold;
use crate::query::Record;

const PAGE: &str = "SELECT ck FROM t WHERE pk = 1 ORDER BY ck LIMIT 10";

/// The trace of a statement.
async fn traced(world: &World, text: &str) -> Record {
    world.rows(text).await;
    world.session.take_trace().unwrap_or_else(|| panic!("no trace of {text}"))
}

/// The steps as people read them, without what differs from run to run.
fn steps(record: &Record) -> String {
    let line = |step: &tidegate_engine::probe::Step| {
        let shard = step.shard.map_or("-".to_owned(), |_| "n".to_owned());
        format!("{shard} {}", masked(&step.text))
    };
    record.steps().iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A text without its times, sizes and places.
fn masked(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let mask = |(at, word): (usize, &&str)| {
        let next = words.get(at + 1).copied().unwrap_or_default();
        let is_amount = next.starts_with("µs") || next.starts_with("bytes");
        let is_place = at > 0 && words[at - 1] == "at";
        let Some(first) = word.find(|c: char| c.is_ascii_digit()).filter(|_| is_amount || is_place)
        else {
            return (*word).to_owned();
        };
        let end = word.rfind(|c: char| c.is_ascii_digit()).map_or("", |last| &word[last + 1..]);
        format!("{}…{end}", &word[..first])
    };
    let masked = words.iter().enumerate().map(mask).collect::<Vec<_>>().join(" ");
    let of_disk = masked.split(", ").map(|part| match part.strip_prefix("disk_bytes=") {
        Some(_) => "disk_bytes=…",
        None => part,
    });
    of_disk.collect::<Vec<_>>().join(", ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_step_of_a_page_is_told() {
    let world = cold().await;
    assert!(world.session.take_trace().is_none(), "nothing is traced before it is asked for");
    world.run("TRACING ON").await;
    assert!(world.session.take_trace().is_none(), "TRACING is not traced");
    let first = traced(&world, PAGE).await;
    let again = traced(&world, PAGE).await;
    let planned = traced(&world, "SELECT count(*) FROM t WHERE pk = 1 AND ck < 4").await;
    insta::assert_snapshot!([steps(&first), steps(&again), steps(&planned)].join("\n\n"),);
    // The disk was asked for what the counters say.
    let all = first.steps();
    let of_disk = all.iter().filter(|step| step.class == Some("query"));
    let (count, bytes) =
        of_disk.fold((0, 0), |(count, bytes), step| (count + 1, bytes + step.bytes.unwrap_or(0)));
    assert!(count > 0, "a cold page asks the disk");
    assert_eq!((count, bytes), (first.stats()[Count::DiskReads], first.stats()[Count::DiskBytes]));
    assert_eq!(again.stats()[Count::DiskReads], 0);
    assert_eq!((first.rows, &*first.session, &*first.statement), (10, "shell", PAGE));
    assert!(all.is_sorted_by_key(|step| step.at_ns), "{all:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compact_has_a_line_a_shard() {
    let world = cold().await;
    world.run("INSERT INTO t SELECT value, 1, 'y' FROM generate_series(2, 40) AS s(value)").await;
    world.run("TRACING COMPACT").await;
    for short_path in [true, false] {
        world.run(&format!("SET tidegate.short_path = {short_path}")).await;
        let page = traced(&world, PAGE).await;
        let all = page.steps();
        let of_shards: Vec<_> = all.iter().filter(|step| step.shard.is_some()).collect();
        let [line] = of_shards[..] else { panic!("{all:?}") };
        assert!(line.text.starts_with("default.t: partitions=1, rows_read=10,"), "{}", line.text);
    }
    let scan = traced(&world, "SELECT count(v) FROM t").await;
    let all = scan.steps();
    let shards: Vec<_> = all.iter().filter_map(|step| step.shard).collect();
    assert_eq!(shards, [0, 1], "{all:?}");
    assert_eq!((scan.stats()[Count::Rows], scan.stats()[Count::Partitions]), (5039, 40));
    let phases = all.iter().filter(|step| step.shard.is_none());
    let phases: Vec<_> = phases.map(|step| &*step.text).collect();
    assert_eq!(phases, ["parsed", "has its turn among queries", "planned", "rows begin"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn traces_are_a_table() {
    let world = cold().await;
    world.run("TRACING ON").await;
    let record = traced(&world, PAGE).await;
    let written = world.count("INSERT INTO t VALUES (7, 7, 'z')").await;
    let insert = world.session.take_trace().expect("writes are traced");
    assert_eq!((written, insert.rows), (1, 1));
    world.error("SELECT 1 / (ck - ck) FROM t WHERE pk = 1").await;
    let failed = world.session.take_trace().expect("what fails is traced");
    assert!(failed.error.as_ref().is_some_and(|error| error.contains("zero")), "{failed:?}");
    world.run("TRACING OFF").await;
    let of_page = format!("FROM system.traces WHERE trace = {}", record.number);
    let activities = world.column(&format!("SELECT activity {of_page} ORDER BY step")).await;
    let wanted: Vec<_> = record.steps().iter().map(|step| step.text.to_string()).collect();
    assert_eq!(activities, wanted);
    let statement = world.column(&format!("SELECT DISTINCT statement {of_page}")).await;
    assert_eq!(statement, [PAGE]);
    assert_eq!(world.column("SELECT count(DISTINCT trace) FROM system.traces").await, ["3"]);
    world.rows(PAGE).await;
    assert!(world.session.take_trace().is_none(), "tracing is off");
    assert_eq!(world.column("SELECT count(DISTINCT trace) FROM system.traces").await, ["3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_is_cancelled_says_so() {
    let world = cold().await;
    world.run("INSERT INTO t VALUES (8, 8, 'z')").await;
    world.run("TRACING COMPACT").await;
    {
        let flush = std::pin::pin!(world.session.execute("FLUSH"));
        assert!(futures::poll!(flush).is_pending(), "the disk has to be asked");
    }
    let record = world.session.take_trace().expect("what is cancelled is traced");
    assert_eq!(record.error.as_deref(), Some("the statement was cancelled"));
    // Rows that nobody takes are no error.
    drop(world.run(PAGE).await);
    let record = world.session.take_trace().expect("what is given up is traced");
    assert_eq!((record.rows, record.error), (0, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_is_too_large_ends_its_trace() {
    let world = cold().await;
    world.run("TRACING COMPACT").await;
    world.run("SET tidegate.result_max_bytes = 100").await;
    let mut rows = world.run("SELECT ck, v FROM t WHERE pk = 1").await.into_rows().unwrap().1;
    let error = rows.next().await.expect("it fails").unwrap_err().to_string();
    assert!(error.contains("100 is most"), "{error}");
    assert!(rows.next().await.is_none(), "behind an error nothing comes");
    let record = world.session.take_trace().expect("it is over, though its stream is still there");
    assert_eq!(record.error, Some(error));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_traces_its_own_statements_only() {
    let world = cold().await;
    world.run("TRACING ON").await;
    let other = world.session.apart("default", "other");
    other.execute("TRACING OFF").await.unwrap();
    other.execute(PAGE).await.unwrap().collect().await.unwrap();
    assert!(other.take_trace().is_none() && world.session.take_trace().is_none());
    assert_eq!(&*traced(&world, PAGE).await.session, "shell");
    other.execute("TRACING COMPACT").await.unwrap();
    other.execute(PAGE).await.unwrap().collect().await.unwrap();
    assert_eq!(other.take_trace().expect("it traces now").session.as_ref(), "other");
    // Both keep theirs in one table.
    let sessions = "SELECT DISTINCT session FROM system.traces ORDER BY session";
    world.run("TRACING OFF").await;
    assert_eq!(world.column(sessions).await, ["other", "shell"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_statements_are_traced() {
    let world = cold().await;
    world.run("TRACING COMPACT").await;
    let statement = crate::query::split("SELECT ck FROM t WHERE pk = 1 AND ck = 7").unwrap();
    let prepared = world.session.prepare(statement[0].clone(), "default");
    for _ in 0..2 {
        let outcome = world.session.run_prepared(&prepared, None).await.unwrap();
        assert_eq!(outcome.collect().await.unwrap()[0].num_rows(), 1);
        let record = world.session.take_trace().expect("it is traced");
        assert_eq!((record.rows, record.stats()[Count::Rows]), (1, 1));
    }
}

/// The planner runs a query once for each row of parameters, the later ones between rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_rows_of_parameters_are_traced() {
    let world = cold().await;
    world.run("TRACING COMPACT").await;
    let text = "SELECT sum(ck) FROM t WHERE pk = 1 AND ck < $1";
    let statement = crate::query::split(text).unwrap().remove(0);
    let values = Arc::new(Int32Array::from(vec![4, 11, 31]));
    let parameters = RecordBatch::try_from_iter([("$1", values as _)]).unwrap();
    let outcome = world.session.run_with(&statement, &parameters).await.unwrap();
    assert_eq!(outcome.collect().await.unwrap().len(), 3);
    let record = world.session.take_trace().expect("it is traced");
    assert_eq!((record.rows, record.stats()[Count::Rows]), (3, 3 + 10 + 30));
    let steps = record.steps();
    assert_eq!(steps.iter().filter(|step| step.text == "planned").count(), 3, "{steps:?}");
}
