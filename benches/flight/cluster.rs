//! Three nodes on this machine beside one that has everything.
//!
//! All share the same processors, so a ratio of one would mean that dividing a query costs nothing.

use std::fs::File;
use std::io::BufReader;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::csv::ReaderBuilder;
use arrow::util::display::array_value_to_string;
use arrow_flight::sql::{CommandStatementIngest, TableDefinitionOptions, TableExistsOption};
use futures::stream;
use tidegate_engine::clock::Random;

use crate::client::{Place, ROWS_PER_PARTITION, fill};
use crate::flight_client::{Client, connect, query};
use crate::frame::{Arguments, Row, Target, median, wall};
use crate::server::Server;
use crate::tables::{TABLES, query as tpch, write_tables};

const SUM: &str = "three nodes, TPC-H, sum of 22 queries";
const POINT: &str = "point read through a node that does not own it";
const NODES: usize = 3;
const QUERIES: usize = 22;
/// The first one fills the caches.
const PASSES: usize = 2;
/// Rows of a batch of a load.
const BATCH_ROWS: usize = 8_192;

fn query_name(number: usize) -> String {
    format!("three nodes, TPC-H, q{number:02}")
}

/// So many nodes of a ring, each with a directory of its own.
fn start(directory: &Path) -> Vec<Server> {
    let listeners: Vec<_> = (0..NODES).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let ports = listeners.iter().map(|listener| listener.local_addr().unwrap().port());
    let ports: Vec<u16> = ports.collect();
    drop(listeners);
    let nodes = ports.iter().enumerate();
    let nodes: Vec<String> =
        nodes.map(|(at, port)| format!("n{at}=grpc://127.0.0.1:{port}")).collect();
    let ring = Command::new(std::env::current_exe().unwrap())
        .args(["child-serve", "ring"])
        .args(&nodes)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let file = directory.join("ring.json");
    std::fs::write(&file, ring.stdout).unwrap();
    let own = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&file, own).unwrap();
    let node = |(at, port): (usize, &u16)| {
        let (name, data) = (format!("n{at}"), directory.join(format!("n{at}")));
        let (listen, data) = (format!("127.0.0.1:{port}"), data.to_str().unwrap().to_owned());
        Server::child(&[
            "child-serve",
            "--shards",
            "2",
            "--data",
            &data,
            "serve",
            "--listen",
            &listen,
            "--ring",
            file.to_str().unwrap(),
            "--node",
            &name,
        ])
    };
    ports.iter().enumerate().map(node).collect()
}

/// Makes and fills the tables of TPC-H from files of CSV.
async fn load(client: &mut Client, folder: &Path) {
    for (name, columns) in TABLES {
        let create = format!("CREATE TABLE {name} ({columns})");
        client.execute_update(create, None).await.unwrap();
        let info = client.execute(format!("SELECT * FROM {name}"), None).await.unwrap();
        let schema = Arc::new(info.try_decode_schema().unwrap());
        let file = BufReader::new(File::open(folder.join(format!("{name}.csv"))).unwrap());
        let rows = ReaderBuilder::new(schema).with_header(true).with_batch_size(BATCH_ROWS);
        let rows = rows.build(file).unwrap().map(|rows| Ok(rows.unwrap()));
        let command = CommandStatementIngest {
            table: name.to_owned(),
            table_definition_options: Some(TableDefinitionOptions {
                if_exists: TableExistsOption::Append.into(),
                ..TableDefinitionOptions::default()
            }),
            ..CommandStatementIngest::default()
        };
        client.execute_ingest(command, stream::iter(rows)).await.unwrap();
    }
    client.execute_update("FLUSH".to_owned(), None).await.unwrap();
}

/// Rows as texts, sorted: equal keys of an order may come in any order.
fn texts(batches: &[RecordBatch]) -> Vec<String> {
    let row = |batch: &RecordBatch, row: usize| -> String {
        let cell = |column| array_value_to_string(batch.column(column), row).unwrap() + "|";
        (0..batch.num_columns()).map(cell).collect()
    };
    let rows = |batch: &RecordBatch| -> Vec<String> {
        (0..batch.num_rows()).map(|at| row(batch, at)).collect()
    };
    let mut all: Vec<String> = batches.iter().flat_map(rows).collect();
    all.sort();
    all
}

pub async fn print(arguments: &Arguments) {
    let names = (1..=QUERIES).map(query_name).chain([SUM.to_owned()]);
    if names.clone().any(|name| arguments.wants(&name)) {
        queries(arguments).await;
    }
    if arguments.wants(POINT) {
        points(arguments).await;
    }
}

async fn queries(arguments: &Arguments) {
    let scale = if arguments.quick { 0.01 } else { 1.0 };
    let directory = tempfile::tempdir().unwrap();
    write_tables(directory.path(), scale);
    let (one, three) = (Server::start(&directory.path().join("one")), start(directory.path()));
    let mut alone = connect(&one.address).await;
    let mut among = connect(&three[0].address).await;
    load(&mut alone, directory.path()).await;
    load(&mut among, directory.path()).await;
    let mut best = vec![[f64::INFINITY; 2]; QUERIES];
    for _ in 0..PASSES {
        for (number, best) in (1..).zip(&mut best) {
            let text = tpch(&format!("q{number:02}"), scale);
            let mut answers = Vec::new();
            for (client, best) in [&mut among, &mut alone].into_iter().zip(best) {
                let start = wall();
                answers.push(texts(&query(client, text.clone()).await));
                *best = best.min((wall() - start).as_secs_f64() * 1e3);
            }
            assert_eq!(answers[0], answers[1], "q{number:02}");
        }
    }
    for (number, [among, alone]) in (1..).zip(&best) {
        let name = query_name(number);
        if arguments.wants(&name) {
            let baseline = Some(("one node", *alone));
            let target = Target::None;
            Row { name: &name, unit: "ms", figure: *among, baseline, target }.print(arguments);
        }
    }
    if arguments.wants(SUM) {
        let sum = |at: usize| best.iter().map(|both| both[at]).sum();
        let (figure, baseline) = (sum(0), Some(("one node", sum(1))));
        let target = Target::RatioAtMost(1.3);
        Row { name: SUM, unit: "ms", figure, baseline, target }.print(arguments);
    }
    three.into_iter().for_each(Server::stop);
    one.stop();
}

async fn points(arguments: &Arguments) {
    let directory = tempfile::tempdir().unwrap();
    let servers = start(directory.path());
    let rows = arguments.scale(100_000, 1_000_000) as i64;
    let places: Vec<Place> = servers.iter().map(|server| Place::plain(&server.address)).collect();
    fill(&mut places[0].connect().await, rows).await;
    let mut clients = Vec::new();
    for place in &places {
        clients.push(place.connect().await);
    }
    // Who owns a partition answers it faster than the others, whatever they have.
    let partitions = rows / ROWS_PER_PARTITION;
    let calls = arguments.scale(300, 3_000);
    let mut random = Random::new(7);
    let mut took: [Vec<f64>; 2] = Default::default();
    for _ in 0..calls {
        let pk = random.below(partitions as u64) as i64;
        let ck = random.below(ROWS_PER_PARTITION as u64) as i64;
        let owner = owner_of(&mut clients[0], pk).await;
        for (at, took) in [owner, (owner + 1) % NODES].into_iter().zip(&mut took) {
            let text = format!("SELECT v FROM rows WHERE pk = {pk} AND ck = {ck}");
            let start = wall();
            assert_eq!(query(&mut clients[at], text).await[0].num_rows(), 1);
            took.push((wall() - start).as_secs_f64() * 1e6);
        }
    }
    let [own, other] = took.map(median);
    let (name, unit, figure) = (POINT, "us", other);
    let (baseline, target) = (Some(("its owner", own)), Target::RatioAtMost(2.2));
    Row { name, unit, figure, baseline, target }.print(arguments);
    servers.into_iter().for_each(Server::stop);
}

/// The place of the node that owns a partition, by its token: the ring has parts of one size.
async fn owner_of(client: &mut Client, pk: i64) -> usize {
    let text = format!("SELECT token(pk) FROM rows WHERE pk = {pk} LIMIT 1");
    let rows = query(client, text).await;
    let token: i64 = array_value_to_string(rows[0].column(0), 0).unwrap().parse().unwrap();
    let part = (1_i128 << 64) / NODES as i128;
    ((i128::from(token) + (1 << 63)) / part).min(NODES as i128 - 1) as usize
}
