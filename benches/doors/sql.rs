//! SQL in process, from a text or a prepared statement to a batch.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use futures::{StreamExt, stream};
use tidegate::query::{Plans, Prepared, Session, SessionOptions, split};
use tidegate_engine::clock::Random;

use crate::frame::{Arguments, Row, Target, cpu_timed, median};
use crate::library::Loaded;

const IN_FLIGHT: usize = 64;
const REPEATS: usize = 3;
const PREPARED: &str = "SELECT v FROM rows WHERE pk = ? AND ck = ?";

/// Keys of rows of small partitions.
fn keys(loaded: &Loaded, count: usize, seed: u64) -> Vec<(i64, i64)> {
    let mut random = Random::new(seed);
    let mut key = || (random.below(loaded.partitions as u64) as i64, random.below(100) as i64);
    (0..count).map(|_| key()).collect()
}

async fn text(session: &Session, (pk, ck): (i64, i64)) {
    let text = format!("SELECT v FROM rows WHERE pk = {pk} AND ck = {ck}");
    let statement = split(&text).unwrap().remove(0);
    let batches = session.run(&statement).await.unwrap().collect().await.unwrap();
    assert_eq!(batches[0].num_rows(), 1);
}

async fn prepared(session: &Session, statement: &Prepared, (pk, ck): (i64, i64)) {
    let column = |value| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
    let key = RecordBatch::try_from_iter([("$1", column(pk)), ("$2", column(ck))]).unwrap();
    let outcome = session.run_prepared(statement, Some(&key)).await.unwrap();
    let batches = outcome.collect().await.unwrap();
    assert_eq!(batches[0].num_rows(), 1);
}

/// CPU µs a call, so many of them at once.
async fn measure<F: Future<Output = ()>>(
    loaded: &Loaded,
    calls: usize,
    at_once: usize,
    call: impl Fn((i64, i64)) -> F,
) -> f64 {
    let mut figures = Vec::new();
    for seed in 0..REPEATS as u64 {
        let keys = keys(loaded, calls, seed);
        let calls_of = stream::iter(keys).map(&call).buffer_unordered(at_once);
        let ((), cpu) = cpu_timed(calls_of.for_each(|()| std::future::ready(()))).await;
        figures.push(cpu.as_secs_f64() * 1e6 / calls as f64);
    }
    median(figures)
}

pub async fn print(arguments: &Arguments, loaded: &Loaded) {
    let options = SessionOptions::default();
    let session = &Session::new(loaded.database.clone(), options).unwrap();
    let plans = Plans::new();
    let statement = split(PREPARED).unwrap().remove(0);
    let statement = &*plans.keep(session, PREPARED, statement, &session.keyspace());
    let calls = arguments.scale(20_000, 200_000);
    for at_once in [1, IN_FLIGHT] {
        let how = match at_once {
            1 => "one at a time".to_owned(),
            many => format!("{many} in flight"),
        };
        // The library's own read of a row, by as many calls.
        let get = measure(loaded, calls, at_once, async |(pk, ck)| {
            assert!(loaded.get(pk, ck).await);
        });
        let get = get.await;
        let row = |name: String, figure: f64, bound: f64| {
            let baseline = Some(("get of the library", get));
            let target = Target::AtMost(bound);
            Row { name: &name, unit: "CPU us", figure, baseline, target }.print(arguments);
        };
        let figure = measure(loaded, calls, at_once, |key| text(session, key)).await;
        row(format!("SQL point read, text, {how}"), figure, 45.0);
        let figure = measure(loaded, calls, at_once, |key| prepared(session, statement, key));
        row(format!("SQL point read, prepared, {how}"), figure.await, 12.0);
    }
}
