//! Tickets and prepared statements over a restart, and at another service with the same key.

use arrow::array::AsArray;
use arrow::datatypes::Int32Type;
use arrow::util::display::array_value_to_string;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::{CommandPreparedStatementQuery, ProstMessageExt};
use arrow_flight::{FlightDescriptor, FlightInfo, Ticket};
use prost::Message;
use prost::bytes::Bytes;
use tidegate::flight::prepare;
use tonic::{Code, Status};

use super::*;

fn ticket_of(info: &FlightInfo) -> Ticket {
    info.endpoint[0].ticket.clone().unwrap()
}

/// The first column of what a ticket gives.
async fn fetch(client: &mut Client, ticket: Ticket) -> Result<Vec<i32>, Status> {
    let told = |error| match error {
        arrow_flight::error::FlightError::Tonic(status) => *status,
        other => panic!("no status: {other}"),
    };
    let rows: Vec<RecordBatch> =
        client.do_get(ticket).await.map_err(told)?.try_collect().await.map_err(told)?;
    Ok(rows
        .iter()
        .flat_map(|rows| rows.column(0).as_primitive::<Int32Type>().values())
        .copied()
        .collect())
}

/// The ticket of a prepared statement, by a connection that did not prepare it.
async fn execute(service: &Service, handle: Bytes) -> Result<Ticket, Status> {
    let mut client = FlightServiceClient::new(channel(service).await);
    let command = CommandPreparedStatementQuery { prepared_statement_handle: handle };
    let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
    Ok(ticket_of(&client.get_flight_info(descriptor).await?.into_inner()))
}

async fn fill(service: &Service, values: &str) -> Client {
    let mut client = connect(service).await;
    run(&mut client, "CREATE TABLE t (k int PRIMARY KEY, v int)").await;
    run(&mut client, &format!("INSERT INTO t VALUES {values}")).await;
    client
}

#[test]
fn what_clients_carry_outlives_a_restart_but_not_its_key() {
    let directory = tempfile::tempdir().unwrap();
    let threads = client_threads();
    let service = Service::start(directory.path());
    let (query, write, handle, parts) = threads.block_on(async {
        let mut client = fill(&service, "(1, 10), (2, 20), (3, 30)").await;
        let query = client.execute("SELECT v FROM t WHERE k = 2".into(), None).await.unwrap();
        let write = client.execute("INSERT INTO t VALUES (4, 40)".into(), None).await.unwrap();
        let mut raw = FlightServiceClient::new(channel(&service).await);
        let handle = prepare(&mut raw, "SELECT v FROM t WHERE k = 3").await.unwrap();
        client.set_header("result.endpoints", "shards");
        let parts = client.execute("SELECT v FROM t".into(), None).await.unwrap();
        assert_eq!(parts.endpoint.len(), 2);
        (ticket_of(&query), ticket_of(&write), handle, parts)
    });
    assert_eq!(service.stop().0, Some(0));

    let service = Service::start(directory.path());
    threads.block_on(async {
        let mut client = connect(&service).await;
        assert_eq!(fetch(&mut client, query.clone()).await.unwrap(), [20]);
        let prepared = execute(&service, handle.clone()).await.unwrap();
        assert_eq!(fetch(&mut client, prepared).await.unwrap(), [30]);
        let mut values = Vec::new();
        for endpoint in &parts.endpoint {
            values.extend(fetch(&mut client, endpoint.ticket.clone().unwrap()).await.unwrap());
        }
        values.sort_unstable();
        assert_eq!(values, [10, 20, 30, 40], "each part is the part that it was");
        // The ticket of a write says again what was written, and writes nothing.
        run(&mut client, "DELETE FROM t WHERE k = 4").await;
        let told: Vec<_> = client.do_get(write).await.unwrap().try_collect().await.unwrap();
        assert_eq!(array_value_to_string(told[0].column(0), 0).unwrap(), "1");
        assert_eq!(
            run(&mut client, "SELECT v FROM t")
                .await
                .iter()
                .map(RecordBatch::num_rows)
                .sum::<usize>(),
            3
        );
    });
    assert_eq!(service.stop().0, Some(0));

    // Another number of shards has other parts, and a ticket of one would leave rows out.
    let service = Service::start_with(directory.path(), &["--shards", "3"]);
    threads.block_on(async {
        let mut client = connect(&service).await;
        assert_eq!(fetch(&mut client, query.clone()).await.unwrap(), [20]);
        let refused = fetch(&mut client, ticket_of(&parts)).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains("3 shards now"), "{refused}");
    });
    assert_eq!(service.stop().0, Some(0));

    std::fs::remove_file(directory.path().join("data/ticket.key")).unwrap();
    let service = Service::start(directory.path());
    threads.block_on(async {
        let mut client = connect(&service).await;
        let refused = fetch(&mut client, query).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
        let refused = execute(&service, handle).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
    });
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn a_key_that_is_damaged_ends_the_start() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(Service::start(directory.path()).stop().0, Some(0));
    let key = directory.path().join("data/ticket.key");
    std::fs::write(&key, "no key").unwrap();
    let mut serve = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    serve.arg("--data").arg(directory.path().join("data"));
    let output = serve.args(["serve", "--listen", "127.0.0.1:0"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("ticket.key: wanted a key of 64 hexadecimal digits"), "{said}");
    assert_eq!(std::fs::read(&key).unwrap(), b"no key", "nobody writes over it");
}

/// One service answers, the other has the rows: the endpoint says where they are.
#[test]
fn drivers_go_where_an_endpoint_says_that_it_is() {
    if !has_driver("python and the place of an endpoint") {
        return;
    }
    let [asked, read] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let key = asked.path().join("shared.key");
    let with_key = ["--ticket-key", key.to_str().unwrap()];
    let reader = Service::start_serving(read.path(), &[], &with_key);
    let place = format!("grpc://{}", reader.address);
    let advertise = ["--advertise", &place];
    let service = Service::start_serving(asked.path(), &[], &[with_key, advertise].concat());
    client_threads().block_on(async {
        fill(&service, "(1, 1)").await;
        let mut client = fill(&reader, "(1, 2)").await;
        let info = connect(&service).await.execute("SELECT v FROM t".into(), None).await.unwrap();
        let places: Vec<_> = info.endpoint[0].location.iter().map(|place| &*place.uri).collect();
        assert_eq!(places, [&*place]);
        assert_eq!(fetch(&mut client, ticket_of(&info)).await.unwrap(), [2]);
    });
    let script = "import sys, adbc_driver_flightsql.dbapi as dbapi\n\
                  with dbapi.connect(sys.argv[1], autocommit=True) as c, c.cursor() as cursor:\n\
                  \x20   cursor.execute('SELECT v FROM t')\n\
                  \x20   print(cursor.fetchall())\n";
    let asked_at = format!("grpc://{}", service.address);
    let output = Command::new(python()).args(["-c", script, &asked_at]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "[(2,)]\n", "{errors}");
    for service in [service, reader] {
        assert_eq!(service.stop().0, Some(0));
    }
}

/// Each has a row of its own: so it is seen who has answered.
#[test]
fn services_with_one_key_take_each_others_tickets_and_another_takes_none() {
    let directories = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let key = directories[0].path().join("shared.key");
    let with_key = ["--ticket-key", key.to_str().unwrap()];
    let place = "grpc://10.0.0.1:31337";
    let elsewhere = [with_key[0], with_key[1], "--advertise", place];
    let asked = Service::start_serving(directories[0].path(), &[], &elsewhere);
    let reader = Service::start_serving(directories[1].path(), &[], &with_key);
    let stranger = Service::start(directories[2].path());
    client_threads().block_on(async {
        let mut client = fill(&asked, "(1, 1)").await;
        let mut other = fill(&reader, "(1, 2)").await;
        let mut third = fill(&stranger, "(1, 3)").await;
        let info = client.execute("SELECT v FROM t".into(), None).await.unwrap();
        let places: Vec<_> = info.endpoint[0].location.iter().map(|place| &*place.uri).collect();
        assert_eq!(places, [place]);
        assert_eq!(fetch(&mut client, ticket_of(&info)).await.unwrap(), [1]);
        assert_eq!(fetch(&mut other, ticket_of(&info)).await.unwrap(), [2]);
        let refused = fetch(&mut third, ticket_of(&info)).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");

        let mut raw = FlightServiceClient::new(channel(&reader).await);
        let handle = prepare(&mut raw, "SELECT v FROM t WHERE k = 1").await.unwrap();
        let ticket = execute(&asked, handle.clone()).await.unwrap();
        assert_eq!(fetch(&mut other, ticket).await.unwrap(), [2]);
        let refused = execute(&stranger, handle).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
        // Where nobody says more, a result is where it was asked for.
        let info = other.execute("SELECT v FROM t".into(), None).await.unwrap();
        assert!(info.endpoint[0].location.is_empty(), "{:?}", info.endpoint[0].location);
    });
    for service in [asked, reader, stranger] {
        assert_eq!(service.stop().0, Some(0));
    }
    let own = directories.each_ref().map(|of| of.path().join("data/ticket.key").exists());
    assert_eq!(own, [false, false, true], "who has another key needs no own one");
}
