//! Tickets and prepared statements: who can make them, what they redeem, and from where.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Int32Type, Int64Type, Schema};
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::{
    Any, CommandPreparedStatementQuery, CommandPreparedStatementUpdate, DoPutUpdateResult,
    ProstMessageExt, TicketStatementQuery,
};
use arrow_flight::{FlightData, FlightDescriptor, FlightInfo, Ticket};
use futures::{TryStreamExt, stream};
use prost::Message;
use tidegate::flight::prepare;
use tonic::Code;

use super::*;

/// The code of an error and its text.
fn refusal<T>(result: arrow_flight::error::Result<T>) -> (Code, String) {
    match result.err().expect("an error") {
        arrow_flight::error::FlightError::Tonic(status) => {
            (status.code(), status.message().to_owned())
        }
        other => panic!("no status: {other}"),
    }
}

/// Redeems bytes as the ticket of a statement and reads all rows.
async fn redeem(client: &mut Client, handle: impl Into<prost::bytes::Bytes>) -> Answer {
    let ticket = TicketStatementQuery { statement_handle: handle.into() };
    fetch(client, Ticket::new(ticket.as_any().encode_to_vec())).await
}

type Answer = arrow_flight::error::Result<Vec<RecordBatch>>;

async fn fetch(client: &mut Client, ticket: Ticket) -> Answer {
    client.do_get(ticket).await?.try_collect().await
}

/// Parameters of a statement, in order.
fn parameters(values: impl IntoIterator<Item = ArrayRef>) -> RecordBatch {
    let names = (1..).map(|n: i32| n.to_string());
    RecordBatch::try_from_iter(names.zip(values)).unwrap()
}

fn types_of(schema: &Schema) -> Vec<DataType> {
    schema.fields().iter().map(|field| field.data_type().clone()).collect()
}

fn ticket_of(info: &FlightInfo) -> Ticket {
    info.endpoint[0].ticket.clone().unwrap()
}

/// The bytes in the ticket of a statement.
fn handle_of(info: &FlightInfo) -> Vec<u8> {
    let any = Any::decode(&*ticket_of(info).ticket).unwrap();
    any.unpack::<TicketStatementQuery>().unwrap().unwrap().statement_handle.to_vec()
}

async fn count(client: &mut Client, table: &str) -> i64 {
    let rows = run(client, &format!("SELECT count(*) FROM {table}")).await;
    rows[0].column(0).as_primitive::<Int64Type>().value(0)
}

#[test]
fn forged_tickets_and_handles_run_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        run(&mut client, "CREATE TABLE t (k int PRIMARY KEY)").await;
        run(&mut client, "INSERT INTO t VALUES (1)").await;
        let mut stranger = connect(&service).await;
        let statements = ["INSERT INTO t VALUES (2)", "DROP TABLE t", "SELECT * FROM t"];
        for text in statements {
            // What a ticket was before: a letter and the text. And the text by itself.
            for plain in [format!("Q{text}"), text.to_owned()] {
                let (code, text) = refusal(redeem(&mut stranger, plain.into_bytes()).await);
                assert!([Code::Unauthenticated, Code::InvalidArgument].contains(&code), "{text}");
            }
            // A command of another kind in the place of a ticket.
            let handle = text.as_bytes().to_vec().into();
            let prepared = CommandPreparedStatementQuery { prepared_statement_handle: handle };
            let forged = Ticket::new(prepared.as_any().encode_to_vec());
            let (code, text) = refusal(fetch(&mut stranger, forged).await);
            assert!([Code::Unauthenticated, Code::InvalidArgument].contains(&code), "{text}");
        }
        // A ticket of this service, with another text in it of the same length.
        let info = client.execute("SELECT 1 FROM t WHERE k = 1".into(), None).await.unwrap();
        let real = handle_of(&info);
        let at = real.windows(6).position(|bytes| bytes == b"SELECT").unwrap();
        for forged in [b"INSERT".as_slice(), b"DROP T", b"DELETE"] {
            let mut bytes = real.clone();
            bytes[at..at + 6].copy_from_slice(forged);
            let (code, _) = refusal(redeem(&mut stranger, bytes).await);
            assert_eq!(code, Code::Unauthenticated);
        }
        let (code, _) = refusal(redeem(&mut stranger, real[..real.len() - 1].to_vec()).await);
        assert_eq!(code, Code::Unauthenticated);
        assert_eq!(redeem(&mut stranger, real).await.unwrap()[0].num_rows(), 1);
        // The handle of a prepared write is no ticket either, and a made-up handle no statement.
        let mut write = client.prepare("INSERT INTO t VALUES (3)".into(), None).await.unwrap();
        assert_eq!(write.execute_update().await.unwrap(), 1);
        assert_eq!(count(&mut client, "t").await, 2);
    });
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn a_ticket_keeps_its_keyspace() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        for text in [
            "CREATE KEYSPACE other",
            "CREATE TABLE t (k int PRIMARY KEY)",
            "CREATE TABLE other.t (k int PRIMARY KEY)",
            "INSERT INTO t VALUES (1)",
            "INSERT INTO other.t VALUES (2)",
        ] {
            run(&mut client, text).await;
        }
        let info = client.execute("SELECT k FROM t".into(), None).await.unwrap();
        let mut prepared = client.prepare("SELECT k FROM t".into(), None).await.unwrap();
        run(&mut client, "USE other").await;
        let rows = fetch(&mut client, ticket_of(&info)).await.unwrap();
        assert_eq!(rows[0].column(0).as_primitive::<Int32Type>().values(), &[1]);
        let prepared = prepared.execute().await.unwrap();
        let rows = fetch(&mut client, ticket_of(&prepared)).await.unwrap();
        assert_eq!(rows[0].column(0).as_primitive::<Int32Type>().values(), &[1]);
        let rows = run(&mut client, "SELECT k FROM t").await;
        assert_eq!(rows[0].column(0).as_primitive::<Int32Type>().values(), &[2]);
        // Another client, in whose session nobody said USE.
        let mut other = connect(&service).await;
        let rows = run(&mut other, "SELECT k FROM t").await;
        assert_eq!(rows[0].column(0).as_primitive::<Int32Type>().values(), &[1]);
    });
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn a_session_outlives_its_keyspace() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let (mut client, mut other) = (connect(&service).await, connect(&service).await);
        for text in [
            "CREATE TABLE t (k int PRIMARY KEY)",
            "INSERT INTO t VALUES (1)",
            "CREATE KEYSPACE short_lived",
            "USE short_lived",
        ] {
            run(&mut client, text).await;
        }
        let mut prepared = client.prepare("SELECT k FROM default.t".into(), None).await.unwrap();
        let info = prepared.execute().await.unwrap();
        run(&mut other, "DROP KEYSPACE short_lived").await;
        assert_eq!(fetch(&mut client, ticket_of(&info)).await.unwrap()[0].num_rows(), 1);
        let again = prepared.execute().await.unwrap();
        assert_eq!(fetch(&mut client, ticket_of(&again)).await.unwrap()[0].num_rows(), 1);
        let (_, text) = refusal(client.execute("SELECT k FROM t".into(), None).await);
        assert!(text.contains("keyspace 'short_lived' does not exist"), "{text}");
        run(&mut client, "USE default").await;
        assert_eq!(count(&mut client, "t").await, 1);
    });
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn a_prepared_statement_knows_the_columns_of_the_moment() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let (mut client, mut other) = (connect(&service).await, connect(&service).await);
        run(&mut client, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
        run(&mut client, "INSERT INTO t VALUES (1, 2)").await;
        let mut all = client.prepare("SELECT * FROM t".into(), None).await.unwrap();
        let mut one = client.prepare("SELECT v FROM t WHERE k = 1".into(), None).await.unwrap();
        let (all_before, one_before) = (all.execute().await.unwrap(), one.execute().await.unwrap());
        run(&mut other, "ALTER TABLE t ADD w text").await;
        let (_, text) = refusal(fetch(&mut client, ticket_of(&all_before)).await);
        assert!(text.contains("changed"), "{text}");
        let now = all.execute().await.unwrap();
        assert_eq!(fetch(&mut client, ticket_of(&now)).await.unwrap()[0].num_columns(), 3);
        assert_eq!(fetch(&mut client, ticket_of(&one_before)).await.unwrap()[0].num_rows(), 1);
        run(&mut other, "ALTER TABLE t DROP v").await;
        for told in [
            refusal(fetch(&mut client, ticket_of(&one_before)).await),
            refusal(one.execute().await),
        ] {
            assert!(told.1.contains("'v'"), "{}", told.1);
        }
        let now = all.execute().await.unwrap();
        assert_eq!(fetch(&mut client, ticket_of(&now)).await.unwrap()[0].num_columns(), 2);
    });
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn a_result_has_the_types_of_what_is_bound() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        run(&mut client, "CREATE TABLE t (k int PRIMARY KEY, temp double)").await;
        run(&mut client, "INSERT INTO t VALUES (1, NULL)").await;
        let number = || parameters([Arc::new(Int64Array::from(vec![7])) as ArrayRef]);
        let float = || parameters([Arc::new(Float64Array::from(vec![7.5])) as ArrayRef]);
        let text = || parameters([Arc::new(StringArray::from(vec!["x"])) as ArrayRef]);
        for (statement, bound, wanted, shown) in [
            ("SELECT ?", number(), DataType::Int64, "7"),
            ("SELECT ?", text(), DataType::Utf8, "x"),
            ("SELECT k + ? FROM t", number(), DataType::Int32, "8"),
            ("SELECT coalesce(temp, ?) FROM t", float(), DataType::Float64, "7.5"),
            ("SELECT CAST(? AS bigint)", number(), DataType::Int64, "7"),
            ("SELECT k FROM t WHERE k < ?", number(), DataType::Int32, "1"),
        ] {
            let mut prepared = client.prepare(statement.into(), None).await.unwrap();
            prepared.set_parameters(bound).unwrap();
            let info = prepared.execute().await.unwrap();
            let promised = info.clone().try_decode_schema().unwrap();
            assert_eq!(*promised.field(0).data_type(), wanted, "{statement}");
            // A ticket holds what was bound: another connection can read the rows.
            let mut other = connect(&service).await;
            let rows = fetch(&mut other, ticket_of(&info)).await.unwrap();
            assert_eq!(*rows[0].schema(), promised, "{statement}");
            let value = arrow::util::display::array_value_to_string(rows[0].column(0), 0).unwrap();
            assert_eq!(value, shown, "{statement}");
            prepared.close().await.unwrap();
            assert!(fetch(&mut other, ticket_of(&info)).await.is_ok());
        }
    });
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn parameters_are_advertised_wide_and_narrowed_with_a_check() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        run(&mut client, "CREATE TABLE t (k int PRIMARY KEY, s smallint, f float, at time)").await;
        let insert = "INSERT INTO t VALUES (?, ?, ?, NULL)";
        let mut prepared = client.prepare(insert.into(), None).await.unwrap();
        assert_eq!(
            types_of(prepared.parameter_schema().unwrap()),
            [DataType::Int64, DataType::Int64, DataType::Float64]
        );
        let row = |k: i64, s: i64| {
            parameters([
                Arc::new(Int64Array::from(vec![k])) as ArrayRef,
                Arc::new(Int64Array::from(vec![s])),
                Arc::new(Float64Array::from(vec![0.1])),
            ])
        };
        prepared.set_parameters(row(1, 300)).unwrap();
        assert_eq!(prepared.execute_update().await.unwrap(), 1);
        prepared.set_parameters(row(2, 40_000)).unwrap();
        let (code, text) = refusal(prepared.execute_update().await);
        assert_eq!(code, Code::InvalidArgument);
        assert_eq!(text, "$2: 40000 is out of range for smallint");
        let mut find = client.prepare("SELECT k FROM t WHERE f = ?".into(), None).await.unwrap();
        let tenth = Arc::new(Float64Array::from(vec![0.1])) as ArrayRef;
        find.set_parameters(parameters([tenth])).unwrap();
        let info = find.execute().await.unwrap();
        assert_eq!(fetch(&mut client, ticket_of(&info)).await.unwrap()[0].num_rows(), 1);
        let cast = client.prepare("SELECT CAST(? AS bigint), ? FROM t".into(), None).await.unwrap();
        assert_eq!(types_of(cast.parameter_schema().unwrap()), [DataType::Int64, DataType::Utf8]);
    });
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn a_ticket_is_refused_when_the_table_became_another() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        run(&mut client, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
        run(&mut client, "INSERT INTO t VALUES (1, 2)").await;
        let mut prepared = client.prepare("SELECT * FROM t".into(), None).await.unwrap();
        let info = prepared.execute().await.unwrap();
        assert!(fetch(&mut client, ticket_of(&info)).await.is_ok());
        run(&mut client, "DROP TABLE t").await;
        run(&mut client, "CREATE TABLE t (k int PRIMARY KEY, v text)").await;
        let (code, text) = refusal(fetch(&mut client, ticket_of(&info)).await);
        assert_eq!(code, Code::FailedPrecondition);
        assert!(text.contains("GetFlightInfo again"), "{text}");
        // Asked again, it is told of the table as it is.
        let info = prepared.execute().await.unwrap();
        let promised = info.clone().try_decode_schema().unwrap();
        assert_eq!(*promised.field(1).data_type(), DataType::Utf8);
        assert!(fetch(&mut client, ticket_of(&info)).await.is_ok());
    });
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn a_handle_holds_what_was_bound_and_its_plan_follows_the_table() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        let keys = |keys: Vec<i64>| parameters([Arc::new(Int64Array::from(keys)) as ArrayRef]);
        for find in ["SELECT v FROM t WHERE k = ?", "SELECT v FROM t WHERE k + 0 = ?"] {
            run(&mut client, "CREATE TABLE t (k int PRIMARY KEY, v text)").await;
            let mut insert =
                client.prepare("INSERT INTO t VALUES (?, ?)".into(), None).await.unwrap();
            let numbers: Vec<i64> = (0..5000).collect();
            let texts: StringArray = numbers.iter().map(|n| Some(format!("v{n}"))).collect();
            let all: [ArrayRef; 2] = [Arc::new(Int64Array::from(numbers)), Arc::new(texts)];
            insert.set_parameters(parameters(all)).unwrap();
            assert_eq!(insert.execute_update().await.unwrap(), 5000);

            let mut find = client.prepare(find.into(), None).await.unwrap();
            let mut infos = Vec::new();
            for bound in [vec![1], vec![2], vec![4999, 7, 5000, 8]] {
                find.set_parameters(keys(bound)).unwrap();
                infos.push(find.execute().await.unwrap());
            }
            let mut other = connect(&service).await;
            for (info, wanted) in
                infos.iter().zip([vec!["v1"], vec!["v2"], vec!["v4999", "v7", "v8"]])
            {
                let rows = fetch(&mut other, ticket_of(info)).await.unwrap();
                let found = rows.iter().flat_map(|rows| rows.column(0).as_string::<i32>().iter());
                assert_eq!(found.flatten().collect::<Vec<_>>(), wanted);
            }
            run(&mut other, "DROP TABLE t").await;
            find.set_parameters(keys(vec![1])).unwrap();
            let (_, text) = refusal(find.execute().await);
            assert!(text.contains("'t'"), "{text}");
            run(&mut other, "CREATE TABLE t (k int PRIMARY KEY, v double)").await;
            run(&mut other, "INSERT INTO t VALUES (1, 1.5)").await;
            let info = find.execute().await.unwrap();
            let rows = fetch(&mut client, ticket_of(&info)).await.unwrap();
            assert_eq!(*rows[0].schema().field(0).data_type(), DataType::Float64);
            run(&mut other, "DROP TABLE t").await;
        }
    });
    assert_eq!(service.stop().0, Some(0));
}

/// A driver cuts what is longer than 2 MB.
#[test]
fn parameters_that_come_in_several_messages_are_all_of_them_bound() {
    const ROWS: i64 = 30;
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        run(&mut client, "CREATE TABLE t (k int PRIMARY KEY, v text)").await;
        let rows = |first: i64| {
            let keys = Int64Array::from_iter_values(first..first + ROWS);
            let texts = (0..ROWS).map(|n| format!("{n} {}", "x".repeat(100_000)));
            let texts = StringArray::from_iter_values(texts);
            parameters([Arc::new(keys) as ArrayRef, Arc::new(texts)])
        };
        let insert = "INSERT INTO t VALUES (?, ?)";
        let mut bound = client.prepare(insert.into(), None).await.unwrap();
        bound.set_parameters(rows(0)).unwrap();
        assert_eq!(bound.execute_update().await.unwrap(), ROWS);
        // Some drivers send them with the update itself.
        let mut raw = FlightServiceClient::new(channel(&service).await);
        let prepared_statement_handle = prepare(&mut raw, insert).await.unwrap();
        let update = CommandPreparedStatementUpdate { prepared_statement_handle };
        let descriptor = FlightDescriptor::new_cmd(update.as_any().encode_to_vec());
        let encoder = FlightDataEncoderBuilder::new().with_flight_descriptor(Some(descriptor));
        let data = encoder.build(stream::iter([Ok(rows(ROWS))]));
        let data: Vec<FlightData> = data.try_collect().await.unwrap();
        assert!(data.len() > 2, "a schema, and several batches");
        let mut answers = raw.do_put(stream::iter(data)).await.unwrap().into_inner();
        let answer = answers.message().await.unwrap().unwrap();
        let told = DoPutUpdateResult::decode(&*answer.app_metadata).unwrap();
        assert_eq!(told.record_count, ROWS);
        let text = "SELECT count(*) FROM t WHERE length(v) > 100000";
        let found = run(&mut client, text).await;
        assert_eq!(found[0].column(0).as_primitive::<Int64Type>().value(0), 2 * ROWS);
    });
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn more_parameters_than_are_bound_at_once_are_refused_and_fewer_are_taken_after_that() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        run(&mut client, "CREATE TABLE t (k int PRIMARY KEY, v text)").await;
        run(&mut client, "INSERT INTO t VALUES (7, 'seven')").await;
        let many = parameters([Arc::new(BooleanArray::from(vec![true; 1_000_001])) as ArrayRef]);
        let few = parameters([Arc::new(Int64Array::from(vec![7])) as ArrayRef]);
        let text = "SELECT v FROM t WHERE k = ?";
        let mut find = client.prepare(text.into(), None).await.unwrap();
        find.set_parameters(many).unwrap();
        let (code, text) = refusal(find.execute().await);
        assert_eq!(code, Code::InvalidArgument, "{text}");
        assert!(text.contains("at most 1000000 rows"), "{text}");
        find.set_parameters(few).unwrap();
        let info = find.execute().await.unwrap();
        let rows = fetch(&mut client, ticket_of(&info)).await.unwrap();
        assert_eq!(rows[0].column(0).as_string::<i32>().value(0), "seven");
    });
    assert_eq!(service.stop().0, Some(0));
}
