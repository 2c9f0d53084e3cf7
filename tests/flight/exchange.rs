//! DoExchange: one prepared statement, executed many times over one stream.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, StringArray};
use arrow::datatypes::Int64Type;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::{CommandPreparedStatementQuery, ProstMessageExt};
use arrow_flight::{FlightData, FlightDescriptor};
use futures::future::join_all;
use futures::stream;
use prost::Message;
use prost::bytes::Bytes;
use tidegate::flight::{Exchange, prepare};
use tonic::{Code, Status};

use super::*;

#[path = "../../examples/exchange.rs"]
#[expect(dead_code, reason = "the test calls what `main` prints")]
mod example;

const TABLE: &str = "CREATE TABLE t (pk bigint, ck bigint, v text, PRIMARY KEY (pk, ck))";
const ROWS: i64 = 400;

fn numbers(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn parameters(columns: Vec<ArrayRef>) -> RecordBatch {
    let names = (1..).map(|number| format!("${number}"));
    RecordBatch::try_from_iter(names.zip(columns)).unwrap()
}

/// A service with a table of some rows: partition `n % 4`, row `n`, value `v n`.
async fn started(directory: &Path) -> (Service, Client, FlightServiceClient<Channel>) {
    let service = Service::start(directory);
    let mut client = connect(&service).await;
    client.execute_update(TABLE.to_owned(), None).await.unwrap();
    let raw = FlightServiceClient::new(channel(&service).await);
    let mut writer = raw.clone();
    let write = "INSERT INTO t (pk, ck, v) VALUES (?, ?, ?)";
    let write = Exchange::prepare(&mut writer, write).await.unwrap();
    let values = StringArray::from_iter_values((0..ROWS).map(|n| format!("v {n}")));
    let rows = [numbers((0..ROWS).map(|n| n % 4)), numbers(0..ROWS), Arc::new(values)];
    let answer = write.execute(&parameters(rows.to_vec())).await.unwrap();
    assert_eq!(count(&answer), ROWS);
    (service, client, raw)
}

fn count(answer: &[RecordBatch]) -> i64 {
    answer[0].column(0).as_primitive::<Int64Type>().value(0)
}

fn texts(answer: &[RecordBatch]) -> Vec<String> {
    let rows = answer.iter().flat_map(|rows| rows.column(0).as_string::<i32>().iter());
    rows.map(|text| text.unwrap().to_owned()).collect()
}

#[test]
fn calls_at_once_have_their_own_answers() {
    let directory = tempfile::tempdir().unwrap();
    client_threads().block_on(async {
        let (service, _, mut raw) = started(directory.path()).await;
        let read = "SELECT v FROM t WHERE pk = ? AND ck = ?";
        let read = Exchange::prepare(&mut raw, read).await.unwrap();
        assert_eq!(read.schema().field(0).name(), "v");
        let keys = (0..2 * ROWS).map(|n| parameters(vec![numbers([n % 4]), numbers([n])]));
        let keys: Vec<RecordBatch> = keys.collect();
        let answers = join_all(keys.iter().map(|key| read.execute(key))).await;
        for (n, answer) in (0..2 * ROWS).zip(answers) {
            let wanted: Vec<_> = (n < ROWS).then(|| format!("v {n}")).into_iter().collect();
            assert_eq!(texts(&answer.unwrap()), wanted);
        }
        // Several rows are one execution, answered in their order.
        let keys = parameters(vec![numbers([3, 1, 2]), numbers([7, 5, 6])]);
        assert_eq!(texts(&read.execute(&keys).await.unwrap()), ["v 7", "v 5", "v 6"]);
        // A call that nobody waits for takes its answer along.
        let key = parameters(vec![numbers([0]), numbers([0])]);
        let mut given_up = Box::pin(read.execute(&key));
        for _ in 0..3 {
            assert!(futures::poll!(&mut given_up).is_pending());
            tokio::task::yield_now().await;
        }
        drop(given_up);
        let key = parameters(vec![numbers([1]), numbers([1])]);
        assert_eq!(texts(&read.execute(&key).await.unwrap()), ["v 1"]);
        let other = parameters(vec![Arc::new(StringArray::from(vec!["1"])), numbers([1])]);
        assert_eq!(read.execute(&other).await.unwrap_err().code(), Code::InvalidArgument);
        drop(read);
        assert_eq!(service.stop().0, Some(0));
    });
}

#[test]
fn a_long_answer_is_several_messages_of_one_execution() {
    let directory = tempfile::tempdir().unwrap();
    client_threads().block_on(async {
        let (_service, _, mut raw) = started(directory.path()).await;
        let write = "INSERT INTO t (pk, ck, v) VALUES (9, ?, ?)";
        let write = Exchange::prepare(&mut raw, write).await.unwrap();
        let long = "x".repeat(100_000);
        let values = StringArray::from_iter_values((0..100).map(|n| format!("{n} {long}")));
        let written = write.execute(&parameters(vec![numbers(0..100), Arc::new(values)])).await;
        assert_eq!(count(&written.unwrap()), 100);
        let read = "SELECT v FROM t WHERE pk = ? ORDER BY ck DESC";
        let read = Exchange::prepare(&mut raw, read).await.unwrap();
        let (long_key, short_key) =
            (parameters(vec![numbers([9])]), parameters(vec![numbers([1])]));
        let answers = join_all([&long_key, &short_key, &long_key].map(|key| read.execute(key)));
        let [first, second, third] = answers.await.try_into().unwrap();
        for answer in [first.unwrap(), third.unwrap()] {
            assert!(answer.len() > 1, "10 MB in one message");
            let wanted: Vec<_> = (0..100).rev().map(|n| format!("{n} {long}")).collect();
            assert!(texts(&answer) == wanted);
        }
        assert_eq!(texts(&second.unwrap()).len() as i64, ROWS / 4);
    });
}

#[test]
fn what_is_refused_ends_its_execution_only() {
    let directory = tempfile::tempdir().unwrap();
    client_threads().block_on(async {
        let (_service, mut client, mut raw) = started(directory.path()).await;
        let write = "INSERT INTO t (pk, ck, v) VALUES (?, ?, 'new')";
        let write = Exchange::prepare(&mut raw, write).await.unwrap();
        let null: ArrayRef = Arc::new(Int64Array::from(vec![None]));
        let [good, bad] = [numbers([1]), null].map(|ck| parameters(vec![numbers([20]), ck]));
        let answers = join_all([&good, &bad, &good].map(|key| write.execute(key))).await;
        assert_eq!(count(answers[0].as_ref().unwrap()), 1);
        let refused = answers[1].as_ref().unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains("ck"), "{refused}");
        assert_eq!(count(answers[2].as_ref().unwrap()), 1);

        let change = "UPDATE t SET v = 'other' WHERE pk = ? AND ck = ? IF v = 'new'";
        let change = Exchange::prepare(&mut raw, change).await.unwrap();
        let applied = async || {
            let answer = change.execute(&good).await.unwrap();
            answer[0].column(0).as_any().downcast_ref::<BooleanArray>().unwrap().value(0)
        };
        assert_eq!((applied().await, applied().await), (true, false));

        // A column more changes what this query gives; what it was told holds for its stream.
        let all = Exchange::prepare(&mut raw, "SELECT * FROM t WHERE pk = ?").await.unwrap();
        let key = parameters(vec![numbers([20])]);
        assert_eq!(all.execute(&key).await.unwrap()[0].num_rows(), 1);
        client.execute_update("ALTER TABLE t ADD w bigint".to_owned(), None).await.unwrap();
        let changed = all.execute(&key).await.unwrap_err();
        assert_eq!(changed.code(), Code::FailedPrecondition, "{changed}");
        assert_eq!(count(&write.execute(&good).await.unwrap()), 1);

        let ddl = Exchange::prepare(&mut raw, "DROP TABLE t").await.err().unwrap();
        assert_eq!(ddl.code(), Code::InvalidArgument, "{ddl}");
        let forged = Exchange::open(&mut raw, Bytes::from_static(b"no handle")).await;
        assert_eq!(forged.err().unwrap().code(), Code::InvalidArgument);
        let rows = run(&mut client, "SELECT count(*) FROM t").await;
        assert_eq!(count(&rows), ROWS + 1);
    });
}

/// What a client sees that reads messages by itself.
#[test]
fn every_message_says_which_execution_it_answers() {
    let directory = tempfile::tempdir().unwrap();
    client_threads().block_on(async {
        let (_service, _, mut raw) = started(directory.path()).await;
        let query = "SELECT v FROM t WHERE pk = ? AND ck = ?";
        let prepared_statement_handle = prepare(&mut raw, query).await.unwrap();
        let command = CommandPreparedStatementQuery { prepared_statement_handle };
        let named = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
        let keys: Vec<_> = [5, 999]
            .map(|n| Ok(parameters(vec![numbers([n % 4]), numbers([n])])))
            .into_iter()
            .collect();
        let encoded = FlightDataEncoderBuilder::new().build(stream::iter(keys));
        let mut messages: Vec<FlightData> = encoded.try_collect().await.unwrap();
        // The schema may come with the descriptor.
        messages[0].flight_descriptor = Some(named.clone());
        messages[1].app_metadata = Bytes::from_static(b"five");
        messages.push(FlightData { app_metadata: vec![b't'; 2000].into(), ..messages[2].clone() });
        let mut answers = raw.do_exchange(stream::iter(messages)).await.unwrap().into_inner();
        let mut said = Vec::new();
        let end: Status = loop {
            match answers.message().await {
                Ok(message) => said.push(message.unwrap().app_metadata),
                Err(status) => break status,
            }
        };
        assert_eq!(said, [&b""[..], b"\x01five", b"\x01"]);
        assert_eq!(end.code(), Code::InvalidArgument);
        assert!(end.message().contains("2000 bytes, at most 1024"), "{end}");

        let nothing = raw.do_exchange(stream::iter([FlightData::default()])).await.unwrap_err();
        assert!(nothing.message().contains("prepare the statement first"), "{nothing}");
    });
}

#[test]
fn the_examples_run() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    let said = client_threads().block_on(example::run(&service.address)).unwrap();
    assert_eq!(
        said,
        [
            "300 visits written by 100 executions",
            "the last visit of 100 pages read; page 7 was seen last by visitor 23"
        ]
    );
    if !has_driver("DoExchange from Python") {
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/exchange.py");
    let output = Command::new(python()).arg(script).arg(&service.address).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(text, "1000 titles read by 1000 executions over one stream\n", "{errors}");
}
