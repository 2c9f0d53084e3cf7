//! Flight SQL from clients in this process to a server in another, over loopback.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::{
    CommandPreparedStatementQuery, CommandPreparedStatementUpdate, CommandStatementIngest,
    DoPutPreparedStatementResult, DoPutUpdateResult, ProstMessageExt, TableDefinitionOptions,
    TableExistsOption, TableNotExistOption,
};
use arrow_flight::{FlightData, FlightDescriptor, FlightInfo, PutResult};
use futures::future::join_all;
use futures::{StreamExt, TryStreamExt, stream};
use prost::Message;
use prost::bytes::Bytes;
use tidegate::flight::{Exchange, prepare};
use tidegate_engine::clock::Random;
use tonic::transport::Channel;

use crate::bare::{self, Answers};
use crate::cassandra::{self, Load};
use crate::flight_client::batch;
use crate::frame::{Arguments, Row, Target, median, wall};
use crate::scan;
use crate::server::Server;

const CLIENTS: usize = 64;
/// Executions of one client that are under way in an exchange.
const IN_FLIGHT: usize = 8;
/// The rows of three calls an execution.
const PREPARED: &str = "Flight, prepared, ";
/// The row of the exchange.
const EXCHANGE: &str = "Flight, exchange, 64 clients, 8 in flight";
const IDLE: &str = "idle server, 64 open connections";
const ROWS_PER_PARTITION: i64 = 100;
/// Rows of a batch of an ingest.
const BATCH_ROWS: i64 = 10_000;
const TABLE: &str = "CREATE TABLE rows (pk bigint, ck bigint, v blob, PRIMARY KEY (pk, ck))";
const POINT: &str = "SELECT v FROM rows WHERE pk = ? AND ck = ?";
const PARTITION: &str = "SELECT ck FROM rows WHERE pk = ?";
const CACHED: &str =
    "SELECT CAST(sum(rows) AS BIGINT) FROM system.row_cache WHERE table_name = 'rows'";
const INSERT: &str = "INSERT INTO rows (pk, ck, v) VALUES (?, ?, ?)";

type Raw = FlightServiceClient<Channel>;
pub type Client = FlightSqlServiceClient<Channel>;

pub async fn raw(address: &str) -> Raw {
    let channel = Channel::from_shared(format!("http://{address}")).unwrap();
    let client = FlightServiceClient::new(channel.tcp_nodelay(true).connect().await.unwrap());
    client.max_decoding_message_size(1 << 30)
}

pub async fn client(address: &str) -> Client {
    FlightSqlServiceClient::new_from_inner(raw(address).await)
}

/// Rows a second.
async fn ingest(address: &str, count: i64) -> f64 {
    let mut client = client(address).await;
    client.execute_update(TABLE.to_owned(), None).await.unwrap();
    let command = CommandStatementIngest {
        table: "rows".to_owned(),
        table_definition_options: Some(TableDefinitionOptions {
            if_not_exist: TableNotExistOption::Fail.into(),
            if_exists: TableExistsOption::Append.into(),
        }),
        ..CommandStatementIngest::default()
    };
    let firsts: Vec<i64> = (0..count).step_by(BATCH_ROWS as usize).collect();
    let batches =
        firsts.into_iter().map(|first| Ok(batch((first, BATCH_ROWS), ROWS_PER_PARTITION)));
    let start = wall();
    let written = client.execute_ingest(command, stream::iter(batches)).await.unwrap();
    let taken = wall() - start;
    assert_eq!(written, count);
    count as f64 / taken.as_secs_f64()
}

/// Rows a second, bound at once to a prepared INSERT, as drivers do it: in one DoPut.
async fn executemany(address: &str, count: i64) -> f64 {
    let mut client = raw(address).await;
    let handle = prepare(&mut client, INSERT).await.unwrap();
    let command = CommandPreparedStatementUpdate { prepared_statement_handle: handle };
    let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
    let mut figures = Vec::new();
    for round in 1..=3 {
        // Of partitions that no other row is in.
        let rows = batch((-round * count, count), ROWS_PER_PARTITION);
        let start = wall();
        let encoder = FlightDataEncoderBuilder::new()
            .with_flight_descriptor(Some(descriptor.clone()))
            .build(stream::iter([Ok(rows)]));
        let messages: Vec<FlightData> = encoder.try_collect().await.unwrap();
        let mut answer = client.do_put(stream::iter(messages)).await.unwrap().into_inner();
        let put = answer.try_next().await.unwrap().unwrap();
        figures.push(count as f64 / (wall() - start).as_secs_f64());
        let written = DoPutUpdateResult::decode(&*put.app_metadata).unwrap().record_count;
        assert_eq!(written, count);
    }
    median(figures)
}

fn descriptor(handle: Bytes) -> FlightDescriptor {
    let command = CommandPreparedStatementQuery { prepared_statement_handle: handle };
    FlightDescriptor::new_cmd(command.as_any().encode_to_vec())
}

/// The messages that bind a key.
async fn key_messages(handle: &Bytes, pk: i64, ck: i64) -> Vec<FlightData> {
    let encoder = FlightDataEncoderBuilder::new()
        .with_flight_descriptor(Some(descriptor(handle.clone())))
        .build(stream::iter([Ok(key(pk, ck))]));
    encoder.try_collect().await.unwrap()
}

/// Binds, asks for the FlightInfo and gets the rows: what a driver does for one execution.
async fn execute(client: &mut Raw, handle: &Bytes, (pk, ck): (i64, i64)) -> Answers {
    let messages = key_messages(handle, pk, ck).await;
    let mut answer = client.do_put(stream::iter(messages)).await.unwrap().into_inner();
    let put: PutResult = answer.try_next().await.unwrap().unwrap();
    while answer.try_next().await.unwrap().is_some() {}
    let updated = DoPutPreparedStatementResult::decode(&*put.app_metadata).unwrap();
    let bound = updated.prepared_statement_handle.unwrap();
    let info: FlightInfo = client.get_flight_info(descriptor(bound)).await.unwrap().into_inner();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let rows = client.do_get(ticket).await.unwrap().into_inner().try_collect().await.unwrap();
    Answers { put, info, rows, ..Answers::default() }
}

fn numbers(value: i64) -> ArrayRef {
    Arc::new(Int64Array::from(vec![value]))
}

fn key(pk: i64, ck: i64) -> RecordBatch {
    RecordBatch::try_from_iter([("$1", numbers(pk)), ("$2", numbers(ck))]).unwrap()
}

/// What an exchange of one execution is answered with: a schema, a row.
async fn exchanged(client: &mut Raw, handle: &Bytes) -> Vec<FlightData> {
    let messages = key_messages(handle, 1, 1).await;
    let answers = client.do_exchange(stream::iter(messages)).await.unwrap().into_inner();
    answers.try_collect().await.unwrap()
}

/// Executions a second over one stream a client, with so many of each in flight, and the server's
/// CPU µs for each.
async fn exchanges(server: &Server, handle: &Bytes, calls: usize, partitions: i64) -> (f64, f64) {
    let run = |number: usize| {
        let (handle, address) = (handle.clone(), server.address.clone());
        tokio::spawn(async move {
            let exchange = Exchange::open(&mut raw(&address).await, handle).await.unwrap();
            let mut random = Random::new(number as u64);
            let keys = (0..calls).map(|_| {
                let pk = random.below(partitions as u64) as i64;
                key(pk, random.below(ROWS_PER_PARTITION as u64) as i64)
            });
            let keys: Vec<RecordBatch> = keys.collect();
            let answers = stream::iter(0..calls).map(|at| exchange.execute(&keys[at]));
            let mut answers = answers.buffered(IN_FLIGHT);
            while let Some(rows) = answers.next().await {
                assert_eq!(rows.unwrap()[0].num_rows(), 1);
            }
        })
    };
    let (cpu, start) = (server.cpu(), wall());
    for done in join_all((0..CLIENTS).map(run)).await {
        done.unwrap();
    }
    let (cpu, taken) = (server.cpu() - cpu, wall() - start);
    let all = (CLIENTS * calls) as f64;
    (all / taken.as_secs_f64(), cpu.as_secs_f64() * 1e6 / all)
}

/// Executions a second, and the server's CPU µs for each.
async fn point_reads(server: &Server, clients: usize, calls: usize, partitions: i64) -> (f64, f64) {
    let handle = match partitions {
        0 => Bytes::from_static(&[b'h'; 120]),
        _ => prepare(&mut raw(&server.address).await, POINT).await.unwrap(),
    };
    let connected = join_all((0..clients).map(|_| raw(&server.address))).await;
    let run = |number: usize, mut client: Raw| {
        let handle = handle.clone();
        tokio::spawn(async move {
            let mut random = Random::new(number as u64);
            for _ in 0..calls {
                let pk = random.below(partitions.max(1) as u64) as i64;
                let key = (pk, random.below(ROWS_PER_PARTITION as u64) as i64);
                let answers = execute(&mut client, &handle, key).await;
                // A schema, then a batch of one row.
                assert_eq!(answers.rows.len(), 2);
            }
        })
    };
    let (cpu, start) = (server.cpu(), wall());
    let all = connected.into_iter().enumerate().map(|(number, client)| run(number, client));
    for done in join_all(all.collect::<Vec<_>>()).await {
        done.unwrap();
    }
    let (cpu, taken) = (server.cpu() - cpu, wall() - start);
    let all = (clients * calls) as f64;
    (all / taken.as_secs_f64(), cpu.as_secs_f64() * 1e6 / all)
}

/// Reads every partition once, so that the row cache has all rows.
async fn bring_in(server: &Server, partitions: i64) {
    let mut sql = client(&server.address).await;
    sql.execute_update("FLUSH rows".to_owned(), None).await.unwrap();
    let mut client = raw(&server.address).await;
    let handle = prepare(&mut client, PARTITION).await.unwrap();
    let exchange = Exchange::open(&mut client, handle).await.unwrap();
    let one = |pk| RecordBatch::try_from_iter([("$1", numbers(pk))]).unwrap();
    let keys: Vec<RecordBatch> = (0..partitions).map(one).collect();
    let mut answers = stream::iter(&keys).map(|key| exchange.execute(key)).buffered(IN_FLIGHT);
    while let Some(rows) = answers.next().await {
        let rows: usize = rows.unwrap().iter().map(RecordBatch::num_rows).sum();
        // The first one has rows of others as well.
        assert!(rows >= ROWS_PER_PARTITION as usize, "{rows} rows of a partition");
    }
    let info = sql.execute(CACHED.to_owned(), None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let answer: Vec<_> = sql.do_get(ticket).await.unwrap().try_collect().await.unwrap();
    let cached = answer[0].column(0).as_primitive::<Int64Type>().value(0);
    assert!(cached >= partitions * ROWS_PER_PARTITION, "{cached} rows are in the cache");
}

/// How many reads a second an exchange has is the answer, where that is wanted.
async fn print_point_reads(
    arguments: &Arguments,
    server: &Server,
    partitions: i64,
    here: &Path,
) -> Option<f64> {
    let mut client = raw(&server.address).await;
    let handle = prepare(&mut client, POINT).await.unwrap();
    let mut answers = execute(&mut client, &handle, (1, 1)).await;
    answers.exchange = exchanged(&mut client, &handle).await;
    let file = here.join("answers");
    std::fs::write(&file, answers.encode_to_vec()).unwrap();
    let bare = Server::child(&[bare::CHILD, file.to_str().unwrap()]);
    for clients in [1, CLIENTS].into_iter().filter(|_| arguments.wants(PREPARED)) {
        let calls = arguments.scale(10_000, 100_000) / clients.max(8);
        point_reads(server, clients, calls / 4, partitions).await;
        let (rate, cpu) = point_reads(server, clients, calls, partitions).await;
        let (bare_rate, bare_cpu) = point_reads(&bare, clients, calls, 0).await;
        let is_many = clients > 1;
        let row = |name: &str, unit, figure, baseline, target| {
            let name = format!("{PREPARED}{clients} clients{name}");
            let baseline = Some(("bare tonic service", baseline));
            let target = if is_many { target } else { Target::None };
            Row { name: &name, unit, figure, baseline, target }.print(arguments);
        };
        row("", "reads/s", rate, bare_rate, Target::RatioAtLeast(0.5));
        row(", server", "CPU us", cpu, bare_cpu, Target::AtMost(120.0));
    }
    if !arguments.wants(EXCHANGE) {
        return None;
    }
    let calls = arguments.scale(100_000, 1_000_000) / CLIENTS;
    exchanges(server, &handle, calls / 4, partitions).await;
    let (rate, cpu) = exchanges(server, &handle, calls, partitions).await;
    let (bare_rate, bare_cpu) = exchanges(&bare, &handle, calls, partitions).await;
    let name = EXCHANGE;
    for (name, unit, figure, baseline, target) in [
        (name, "reads/s", rate, bare_rate, Target::RatioAtLeast(0.5)),
        (&*format!("{name}, server"), "CPU us", cpu, bare_cpu, Target::None),
    ] {
        let baseline = Some(("bare tonic stream", baseline));
        Row { name, unit, figure, baseline, target }.print(arguments);
    }
    Some(rate)
}

/// CPU of a server that nobody asks anything, in percent of a core.
async fn print_idle(arguments: &Arguments, server: &Server) {
    let mut connected = join_all((0..CLIENTS).map(|_| client(&server.address))).await;
    for client in &mut connected {
        client.execute("SELECT 1".to_owned(), None).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (cpu, start) = (server.cpu(), wall());
    tokio::time::sleep(Duration::from_secs(arguments.scale(4, 20) as u64)).await;
    let share = (server.cpu() - cpu).as_secs_f64() / (wall() - start).as_secs_f64();
    Row {
        name: IDLE,
        unit: "% of core",
        figure: 100.0 * share,
        baseline: None,
        target: Target::AtMost(0.5),
    }
    .print(arguments);
}

pub async fn print(arguments: &Arguments) {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    // All rows fit into the caches.
    let cache = format!("{}MiB", arguments.scale(64, 768));
    let server = Server::start_with(&data, &["--cache-bytes", &cache]);
    let count = arguments.scale(300_000, 5_000_000) as i64;
    let per_second = |name: &str, figure: f64, bound: f64| {
        let target = Target::AtLeast(bound);
        Row { name, unit: "rows/s", figure, baseline: None, target }.print(arguments);
    };
    let ingested = ingest(&server.address, count).await;
    per_second("ingest by DoPut, rows of 100 bytes, synced", ingested, 400_000.0);
    if arguments.wants("executemany, 10,000 rows, synced") {
        let many = executemany(&server.address, 10_000).await;
        per_second("executemany, 10,000 rows, synced", many, 100_000.0);
    }
    let partitions = count / ROWS_PER_PARTITION;
    let mut exchange = None;
    if arguments.wants(PREPARED) || arguments.wants(EXCHANGE) {
        bring_in(&server, partitions).await;
        exchange = print_point_reads(arguments, &server, partitions, directory.path()).await;
    }
    if arguments.wants(IDLE) {
        print_idle(arguments, &server).await;
    }
    server.stop();
    if arguments.wants(scan::NAME) {
        // Neither scan begins with rows in the cache.
        scan::print(arguments, &data, directory.path()).await;
    }
    let Some(exchange) = exchange else { return };
    let load = Load {
        rows: count,
        rows_per_partition: ROWS_PER_PARTITION,
        clients: CLIENTS,
        calls: arguments.scale(100_000, 1_000_000) / CLIENTS,
        in_flight: IN_FLIGHT,
    };
    cassandra::print(arguments, (EXCHANGE, exchange), load).await;
}
