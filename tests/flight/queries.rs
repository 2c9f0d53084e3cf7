//! Statements and sessions of clients as others see them, and statements that somebody ends.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{Int64Type, UInt64Type};
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use tidegate::flight::Exchange;
use tonic::{Code, Status};

use super::users::{ROLES, in_shell, log_in};
use super::*;

/// Rows without an end.
const ENDLESS: &str = "SELECT value FROM generate_series(1, 1000000000000)";
/// Questions after which a condition is held not to come.
const TRIES: usize = 20_000;

/// The numbers of statements with such a text, in such a state.
async fn numbers(client: &mut Client, of: &str) -> Vec<u64> {
    let text = format!(
        "SELECT number FROM system.queries WHERE statement NOT LIKE '%system.queries%' AND {of}"
    );
    let batches = run(client, &text).await;
    let column = |batch: &RecordBatch| batch.column(0).clone();
    let columns: Vec<ArrayRef> = batches.iter().map(column).collect();
    let value = |column: &ArrayRef| -> Vec<u64> {
        match column.as_primitive_opt::<Int64Type>() {
            Some(numbers) => numbers.values().iter().map(|number| *number as u64).collect(),
            None => column.as_primitive::<UInt64Type>().values().to_vec(),
        }
    };
    columns.iter().flat_map(value).collect()
}

/// The one number of these, as soon as there is one.
async fn number(client: &mut Client, of: &str) -> u64 {
    for _ in 0..TRIES {
        if let [number] = numbers(client, of).await[..] {
            return number;
        }
    }
    panic!("no statement where {of}");
}

async fn until_none(client: &mut Client) {
    for _ in 0..TRIES {
        if numbers(client, "true").await.is_empty() {
            return;
        }
    }
    panic!("a statement stays");
}

fn is_ended_by(error: &Status, number: u64) {
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    let wanted = format!("the statement was ended by KILL QUERY {number}");
    assert_eq!(error.message(), wanted);
}

fn status(error: FlightError) -> Status {
    match error {
        FlightError::Tonic(status) => *status,
        other => panic!("no status: {other}"),
    }
}

async fn kill(client: &mut Client, number: u64) {
    client.execute_update(format!("KILL QUERY {number}"), None).await.unwrap();
}

#[test]
fn a_statement_of_a_client_is_seen_ended_and_gone_with_its_client() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let (mut client, mut other) = (connect(&service).await, connect(&service).await);
        // Its client takes one batch and stalls.
        let mut rows = query(&mut other, ENDLESS).await.unwrap();
        assert!(rows.next().await.unwrap().unwrap().num_rows() > 0);
        let seen = "peer = '127.0.0.1' AND role = 'owner' AND rows > 0 AND state = 'sending'";
        let stalled = number(&mut client, seen).await;
        kill(&mut client, stalled).await;
        let error = loop {
            match rows.next().await.unwrap() {
                Ok(_) => {}
                Err(error) => break status(error),
            }
        };
        is_ended_by(&error, stalled);
        until_none(&mut client).await;
        let again = client.execute_update(format!("KILL QUERY {stalled}"), None).await;
        assert!(again.unwrap_err().to_string().contains("SHOW QUERIES lists"));
        // One whose client goes is gone as well.
        let mut rows = query(&mut other, ENDLESS).await.unwrap();
        assert!(rows.next().await.unwrap().is_ok());
        assert_ne!(number(&mut client, "true").await, stalled);
        drop((rows, other));
        until_none(&mut client).await;
    });
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn executions_of_an_exchange_are_statements_that_end_one_by_one() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        let mut raw = FlightServiceClient::new(channel(&service).await);
        let slow = "SELECT count(*) FROM generate_series(1, 100000000000) AS s(n) WHERE n % 7 < $1";
        let slow = format!("{slow} AND $1 > 1 OR $1 = 1 AND n = 0 AND false");
        let slow = Exchange::prepare(&mut raw, &slow).await.unwrap();
        let key: ArrayRef = Arc::new(Int64Array::from(vec![5]));
        let key = RecordBatch::try_from_iter([("$1", key)]).unwrap();
        for _ in 0..2 {
            let ends = async {
                let number = number(&mut client, "state = 'running'").await;
                kill(&mut client, number).await;
                number
            };
            let (answer, number) = futures::future::join(slow.execute(&key), ends).await;
            is_ended_by(&answer.unwrap_err(), number);
            until_none(&mut client).await;
        }
    });
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn a_role_sees_its_own_statements_and_sessions_and_no_token() {
    let directory = tempfile::tempdir().unwrap();
    in_shell(directory.path(), ROLES);
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut root = log_in(&service, "root", "root-word").await.unwrap();
        let mut ann = log_in(&service, "ann", "ann-word").await.unwrap();
        let _of_root = query(&mut root, ENDLESS).await.unwrap();
        assert!(numbers(&mut ann, "true").await.is_empty());
        let of_root = number(&mut root, "role = 'root'").await;
        let refused = ann.execute_update(format!("KILL QUERY {of_root}"), None).await;
        assert!(refused.unwrap_err().to_string().contains("ALTER on ADMINISTRATION"));
        let sessions = "SELECT count(*) FROM system.sessions WHERE connections = 1 \
                        AND peer = '127.0.0.1' AND session = role || '#' || number \
                        AND statements > 0";
        let count = async |client: &mut Client| {
            run(client, sessions).await[0].column(0).as_primitive::<Int64Type>().value(0)
        };
        assert_eq!((count(&mut ann).await, count(&mut root).await), (1, 2));
        let all = run(&mut root, "SELECT * FROM system.sessions").await;
        let text = arrow::util::pretty::pretty_format_batches(&all).unwrap().to_string();
        let token = root.token().unwrap();
        assert!(text.contains("ann#") && !text.contains(token.as_str()), "{text}");
    });
    assert_eq!(service.stop().0, Some(0));
}
