//! Calls beside GetFlightInfo and DoGet, and statements that are long or deep.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use arrow_flight::flight_descriptor::DescriptorType;
use arrow_flight::sql::{
    Any, CommandGetTables, CommandPreparedStatementQuery, CommandStatementQuery,
    CommandStatementSubstraitPlan, EndTransaction, ProstMessageExt, TicketStatementQuery,
};
use arrow_flight::{
    Action, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, Criteria, Empty,
    FlightData, FlightDescriptor, FlightEndpoint, IpcMessage, RenewFlightEndpointRequest, Ticket,
};
use prost::Message;
use tonic::{Code, Request};

use super::*;

fn command(message: &impl ProstMessageExt) -> FlightDescriptor {
    FlightDescriptor::new_cmd(message.as_any().encode_to_vec())
}

fn statement(text: &str) -> FlightDescriptor {
    command(&CommandStatementQuery { query: text.to_owned(), transaction_id: None })
}

fn path(names: &[&str]) -> FlightDescriptor {
    FlightDescriptor {
        r#type: DescriptorType::Path as i32,
        path: names.iter().map(|name| (*name).to_owned()).collect(),
        ..FlightDescriptor::default()
    }
}

async fn names(client: &mut Client, descriptor: FlightDescriptor) -> Vec<String> {
    let result = client.inner_mut().get_schema(descriptor).await.unwrap().into_inner();
    let schema = arrow::datatypes::Schema::try_from(IpcMessage(result.schema)).unwrap();
    schema.fields().iter().map(|field| field.name().clone()).collect()
}

/// The answer of an action of one message.
async fn act<M: Message + Default>(
    client: &mut Client,
    name: &str,
    body: Vec<u8>,
) -> Result<M, tonic::Status> {
    let action = Action { r#type: name.to_owned(), body: body.into() };
    let mut answer = client.inner_mut().do_action(action).await?.into_inner();
    Ok(M::decode(&*answer.message().await?.unwrap().body).unwrap())
}

#[test]
fn schemas_and_flights_are_told_without_running_anything() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        run(&mut client, "CREATE KEYSPACE k2").await;
        run(&mut client, "CREATE TABLE t (k int PRIMARY KEY, v text)").await;
        run(&mut client, "CREATE TABLE k2.\"T\" (a int PRIMARY KEY)").await;
        assert_eq!(names(&mut client, statement("SELECT v, k AS key FROM t")).await, ["v", "key"]);
        assert_eq!(names(&mut client, statement("INSERT INTO t VALUES (1, 'a')")).await, ["count"]);
        assert_eq!(names(&mut client, statement("DROP TABLE t")).await, ["count"]);
        assert_eq!(names(&mut client, path(&["default", "t"])).await, ["k", "v"]);
        let tables = CommandGetTables::default();
        assert_eq!(names(&mut client, command(&tables)).await[2], "table_name");
        assert!(run(&mut client, "SELECT * FROM t").await.iter().all(|rows| rows.num_rows() == 0));

        let mut listed = Vec::new();
        let all = client.inner_mut().list_flights(Criteria::default()).await.unwrap();
        let infos: Vec<_> = all.into_inner().try_collect().await.unwrap();
        for info in infos {
            listed.push(info.flight_descriptor.unwrap().path.join("."));
            client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
        }
        listed.sort();
        assert_eq!(listed, ["default.t", "k2.T"]);
        let of_one = Criteria { expression: "k2".into() };
        let infos = client.inner_mut().list_flights(of_one).await.unwrap().into_inner();
        assert_eq!(infos.count().await, 1);

        let poll = client.inner_mut().poll_flight_info(statement("SELECT 1")).await.unwrap();
        let poll = poll.into_inner();
        assert!(poll.flight_descriptor.is_none() && poll.expiration_time.is_some());
        let ticket = poll.info.unwrap().endpoint[0].ticket.clone().unwrap();
        let rows: Vec<RecordBatch> =
            client.do_get(ticket).await.unwrap().try_collect().await.unwrap();
        assert_eq!(rows[0].column(0).as_primitive::<Int64Type>().values(), &[1]);
    });
    assert_eq!(service.stop().0, Some(0));
}

/// The column `[applied]` of an answer, and how many columns there are.
fn applied(answer: &[RecordBatch]) -> (Vec<bool>, usize) {
    let columns = answer.iter().map(|rows| rows.column(0).as_boolean());
    let applied = columns.flat_map(|column| column.iter().flatten().collect::<Vec<bool>>());
    (applied.collect(), answer[0].num_columns())
}

#[test]
fn a_write_with_if_is_decided_once_and_answers_with_a_row() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        run(&mut client, "CREATE TABLE t (k int PRIMARY KEY, v bigint)").await;
        let insert = "INSERT INTO t VALUES (1, 10) IF NOT EXISTS";
        assert_eq!(names(&mut client, statement(insert)).await, ["[applied]", "k", "v"]);
        assert!(run(&mut client, "SELECT * FROM t").await.iter().all(|rows| rows.num_rows() == 0));
        let info = client.execute(insert.to_owned(), None).await.unwrap();
        assert_eq!(info.total_records, 1);
        // The ticket holds the answer: fetching it decides nothing.
        for _ in 0..2 {
            let ticket = info.endpoint[0].ticket.clone().unwrap();
            let rows = client.do_get(ticket).await.unwrap().try_collect::<Vec<_>>().await.unwrap();
            assert_eq!(applied(&rows), (vec![true], 3));
        }
        let refused = run(&mut client, insert).await;
        assert_eq!(applied(&refused), (vec![false], 3));
        assert_eq!(refused[0].column(2).as_primitive::<Int64Type>().values(), &[10]);

        let mut prepared = client
            .prepare("UPDATE t SET v = ? WHERE k = ? IF v = ?".to_owned(), None)
            .await
            .unwrap();
        let names: Vec<_> =
            prepared.dataset_schema().unwrap().fields().iter().map(|f| f.name().clone()).collect();
        assert_eq!(names, ["[applied]", "v"]);
        let ints = |values: Vec<i64>| -> arrow::array::ArrayRef {
            std::sync::Arc::new(arrow::array::Int64Array::from(values))
        };
        let rows = |v, k, wanted| {
            let columns = [("$1", ints(v)), ("$2", ints(k)), ("$3", ints(wanted))];
            RecordBatch::try_from_iter(columns).unwrap()
        };
        prepared.set_parameters(rows(vec![11, 12, 13], vec![1, 1, 1], vec![10, 10, 11])).unwrap();
        let info = prepared.execute().await.unwrap();
        let ticket = info.endpoint[0].ticket.clone().unwrap();
        let answer = client.do_get(ticket).await.unwrap().try_collect::<Vec<_>>().await.unwrap();
        assert_eq!(applied(&answer), (vec![true, false, true], 2));
        prepared.set_parameters(rows(vec![14, 15], vec![1, 1], vec![13, 13])).unwrap();
        assert_eq!(prepared.execute_update().await.unwrap(), 1);
        let update = "UPDATE t SET v = 0 WHERE k = 1 IF v = 99".to_owned();
        assert_eq!(client.execute_update(update, None).await.unwrap(), 0);

        let batch =
            "BEGIN BATCH INSERT INTO t VALUES (2, 1); INSERT INTO t VALUES (3, 1); APPLY BATCH";
        assert_eq!(client.execute_update(batch.to_owned(), None).await.unwrap(), 2);
        let conditional = "BEGIN BATCH UPDATE t SET v = 2 WHERE k = 2 IF v = 1; APPLY BATCH";
        assert_eq!(applied(&run(&mut client, conditional).await), (vec![true], 3));
        for (k, wanted) in [(1, 14), (2, 2), (3, 1)] {
            let read = format!("SELECT v FROM t WHERE k = {k}");
            assert_eq!(count(&mut client, &read).await, wanted);
        }
    });
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn a_query_is_cancelled_and_an_endpoint_renewed() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        let endless = "SELECT * FROM generate_series(1, 1000000000000)";
        let info = client.execute(endless.to_owned(), None).await.unwrap();
        let ticket = info.endpoint[0].ticket.clone().unwrap();
        let renewed: FlightEndpoint = act(
            &mut client,
            "RenewFlightEndpoint",
            RenewFlightEndpointRequest { endpoint: Some(info.endpoint[0].clone()) }.encode_to_vec(),
        )
        .await
        .unwrap();
        assert!(renewed.expiration_time.is_some());
        let mut rows = client.do_get(renewed.ticket.unwrap()).await.unwrap();
        assert!(rows.next().await.unwrap().is_ok());
        let request = CancelFlightInfoRequest { info: Some(info) }.encode_to_vec();
        let result: CancelFlightInfoResult =
            act(&mut client, "CancelFlightInfo", request).await.unwrap();
        assert_eq!(result.status, CancelStatus::Cancelled as i32);
        let error = loop {
            match rows.next().await.expect("an error comes before the end") {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("cancelled"), "{error}");
        let again = client.do_get(ticket).await.err().unwrap();
        assert!(again.to_string().contains("cancelled"), "{again}");
        // A forged ticket is neither cancelled nor renewed.
        let endpoint = FlightEndpoint::new().with_ticket(Ticket::new("x"));
        let forged = RenewFlightEndpointRequest { endpoint: Some(endpoint) }.encode_to_vec();
        let refused = act::<FlightEndpoint>(&mut client, "RenewFlightEndpoint", forged).await;
        assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    });
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn what_is_not_offered_says_so_in_words() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        let begin = client.begin_transaction().await.unwrap_err().to_string();
        assert!(begin.contains("there are no transactions"), "{begin}");
        let actions = client.inner_mut().list_actions(Empty {}).await.unwrap().into_inner();
        let actions: Vec<String> =
            actions.map_ok(|action| action.r#type).try_collect().await.unwrap();
        for name in actions.iter().filter(|name| *name != "GetSessionOptions") {
            // Each of them looks at its body: it is there.
            let action = Action { r#type: name.clone(), body: vec![0xff].into() };
            let answer = client.inner_mut().do_action(action).await;
            let code = answer.err().map(|error| error.code());
            assert!(code.is_none_or(|code| code == Code::InvalidArgument), "{name}: {code:?}");
        }
        let missing = ["BeginTransaction", "BeginSavepoint", "CreatePreparedSubstraitPlan"];
        assert!(missing.iter().all(|name| !actions.iter().any(|known| known == name)));

        let garbage = FlightDescriptor::new_cmd(vec![0xff, 0xff]);
        let any = arrow_flight::sql::Any {
            type_url: CommandStatementQuery::type_url().to_owned(),
            value: vec![0xff].into(),
        };
        for request in [garbage, FlightDescriptor::new_cmd(any.encode_to_vec())] {
            for error in [
                client.inner_mut().get_flight_info(request.clone()).await.unwrap_err(),
                client.inner_mut().get_schema(request.clone()).await.unwrap_err(),
            ] {
                assert_eq!(error.code(), Code::InvalidArgument);
                assert!(error.message().contains("no command of Flight SQL"), "{error}");
            }
        }
        let garbage = Request::new(Ticket::new(vec![0xff]));
        let error = client.inner_mut().do_get(garbage).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
    });
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn a_statement_of_a_transaction_runs_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        run(&mut client, "CREATE TABLE t (k int PRIMARY KEY, v bigint)").await;
        let insert = || "INSERT INTO t VALUES (1, 1)".to_owned();
        let id = || prost::bytes::Bytes::from_static(b"1");
        let (commit, rollback) = (EndTransaction::Commit, EndTransaction::Rollback);
        for refused in [
            client.execute(insert(), Some(id())).await.map(drop),
            client.execute("SELECT v FROM t".to_owned(), Some(id())).await.map(drop),
            client.execute_update(insert(), Some(id())).await.map(drop),
            client.prepare(insert(), Some(id())).await.map(drop),
            client.begin_transaction().await.map(drop),
            client.end_transaction(id(), commit).await,
            client.end_transaction(id(), rollback).await,
        ] {
            let refused = refused.unwrap_err();
            let arrow_flight::error::FlightError::Tonic(status) = refused else {
                panic!("{refused}")
            };
            assert_eq!(status.code(), Code::Unimplemented, "{status}");
            assert!(status.message().contains("leave autocommit on"), "{status}");
        }
        assert_eq!(count(&mut client, "SELECT count(*) FROM t").await, 0);
        // Some drivers send an empty one for none.
        let none = || Some(prost::bytes::Bytes::new());
        client.execute(insert(), none()).await.unwrap();
        let other = "INSERT INTO t VALUES (2, 1)".to_owned();
        assert_eq!(client.execute_update(other, none()).await.unwrap(), 1);
        let third = "INSERT INTO t VALUES (3, 1)".to_owned();
        let mut prepared = client.prepare(third, none()).await.unwrap();
        assert_eq!(prepared.execute_update().await.unwrap(), 1);
        assert_eq!(count(&mut client, "SELECT count(*) FROM t").await, 3);
    });
    assert_eq!(service.stop().0, Some(0));
}

async fn count(client: &mut Client, text: &str) -> i64 {
    run(client, text).await[0].column(0).as_primitive::<Int64Type>().value(0)
}

#[test]
fn statements_of_tools_are_long_and_deep() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        run(&mut client, "CREATE TABLE t (k int, c int, PRIMARY KEY (k, c))").await;
        run(&mut client, "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)").await;
        let nested = format!("SELECT {}1{}", "(".repeat(200), ")".repeat(200));
        assert_eq!(count(&mut client, &nested).await, 1);
        let sums = format!("SELECT {}1{}", "(1 + ".repeat(100), ")".repeat(100));
        assert_eq!(count(&mut client, &sums).await, 101);
        let mut selects = "SELECT count(*) AS n FROM t".to_owned();
        let mut conditions = "SELECT max(k) FROM t".to_owned();
        for n in 0..50 {
            selects = format!("SELECT n FROM ({selects}) AS q{n}");
        }
        for _ in 0..50 {
            conditions = format!("SELECT count(*) FROM t WHERE k >= ({conditions})");
        }
        assert_eq!(count(&mut client, &selects).await, 3);
        assert!(count(&mut client, &conditions).await <= 3);
        for (word, wanted) in [("OR", 2), ("AND", 0)] {
            let chain: Vec<String> = (0..200).map(|n| format!("c + {n} = 2")).collect();
            let text = format!("SELECT count(*) FROM t WHERE {}", chain.join(&format!(" {word} ")));
            assert_eq!(count(&mut client, &text).await, wanted, "{word}");
        }
        let keys: Vec<String> = (0..10_000).map(|n| format!("k = {n}")).collect();
        let text = format!("SELECT count(*) FROM t WHERE {}", keys.join(" OR "));
        assert_eq!(count(&mut client, &text).await, 3);

        // What is deeper is refused, and the service goes on.
        for text in [
            format!("SELECT {}1{}", "(".repeat(100_000), ")".repeat(100_000)),
            format!("SELECT {}'1'", "INTERVAL ".repeat(100_000)),
            format!("{}SELECT 1", "EXPLAIN ".repeat(100_000)),
            format!("SELECT 1 IN ({}", "SELECT 1 IN (".repeat(10_000)),
        ] {
            let error = query_error(&mut client, &text).await;
            assert!(error.contains("nested too deeply"), "{error}");
        }
        for text in [
            format!("SELECT {}'1'", "INTERVAL ".repeat(120)),
            format!("{}SELECT 1", "EXPLAIN ".repeat(120)),
        ] {
            assert!(query(&mut client, &text).await.is_err());
        }
        let items: Vec<String> = (10_000_000..12_300_000).map(|n| n.to_string()).collect();
        let text = format!("SELECT * FROM t WHERE k IN ({})", items.join(","));
        assert!(text.len() > 20_000_000);
        let error = query_error(&mut client, &text).await;
        assert!(error.contains("at most 8388608 are possible"), "{error}");
        let text = format!("SELECT count(*) FROM t WHERE c IN ({},2)", items[..10_000].join(","));
        assert_eq!(count(&mut client, &text).await, 1);
    });
    assert_eq!(service.stop().0, Some(0));
}

async fn query_error(client: &mut Client, text: &str) -> String {
    query(client, text).await.err().unwrap().to_string()
}

/// Whoever sends it learns whether it was the wrong call or no command at all.
#[test]
fn a_command_by_a_call_that_does_not_take_it_is_refused_by_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        let raw = client.inner_mut();
        let ticket = TicketStatementQuery { statement_handle: "x".into() }.as_any();
        let prepared = CommandPreparedStatementQuery { prepared_statement_handle: "x".into() };
        let query = CommandStatementQuery { query: "SELECT 1".to_owned(), transaction_id: None };
        let (prepared, query) = (prepared.as_any(), query.as_any());
        let plan = CommandStatementSubstraitPlan::default().as_any();
        let foreign = Any { type_url: "type.googleapis.com/x.Y".to_owned(), value: "".into() };
        let info = |any: &Any| FlightDescriptor::new_cmd(any.encode_to_vec());
        let get = |any: &Any| Ticket::new(any.encode_to_vec());
        let put = |any: &Any| futures::stream::iter([FlightData::new().with_descriptor(info(any))]);
        let bare = futures::stream::iter([FlightData::new()]);
        let nothing = futures::stream::empty::<FlightData>();
        let (wrong, missing) = (Code::InvalidArgument, Code::Unimplemented);
        let first = "the first message of a DoPut has a descriptor";
        for (refused, code, says) in [
            (raw.get_flight_info(info(&ticket)).await.map(drop), missing, "TicketStatementQuery"),
            (raw.get_flight_info(info(&plan)).await.map(drop), missing, "Substrait"),
            (raw.get_flight_info(info(&foreign)).await.map(drop), wrong, "no command"),
            (raw.do_get(get(&query)).await.map(drop), missing, "no CommandStatementQuery"),
            (raw.do_get(get(&prepared)).await.map(drop), wrong, "redeem its own"),
            (raw.do_get(get(&foreign)).await.map(drop), wrong, "no command"),
            (raw.do_put(put(&query)).await.map(drop), missing, "no CommandStatementQuery"),
            (raw.do_put(put(&plan)).await.map(drop), missing, "Substrait"),
            (raw.do_put(put(&foreign)).await.map(drop), wrong, "no command"),
            (raw.do_put(bare).await.map(drop), wrong, first),
            (raw.do_put(nothing).await.map(drop), wrong, first),
        ] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.code(), code, "{says}: {refused}");
            assert!(refused.message().contains(says), "{says}: {refused}");
        }
    });
    assert_eq!(service.stop().0, Some(0));
}
