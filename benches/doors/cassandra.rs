//! Cassandra beside Tidegate: a node in a process of its own, asked for rows by key over CQL.
//!
//! The client is as bare as it can be, so that what is measured is the node. It asks in three ways:
//! a connection for each of 64 clients, with one read or with eight in flight, and four connections
//! that are as busy, which is what drivers do. The target counts for the fastest way. The client
//! speaks version 4 of the protocol:
//!
//! ```text
//! frame:  version 1 | flags 1 | stream 2 | opcode 1 | length of the body 4 | body
//! ```
//!
//! Where there is no JDK, or no Maven and no network, the rows are left out and stderr says why.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use futures::future::join_all;
use tidegate_engine::clock::Random;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::flight_client::value;
use crate::frame::{Arguments, Row, Target, wall};
use crate::node;

const STARTUP: u8 = 0x01;
const QUERY: u8 = 0x07;
const PREPARE: u8 = 0x09;
const EXECUTE: u8 = 0x0a;
/// Bytes of a frame before its body.
const HEAD_BYTES: usize = 9;
/// Consistency ONE.
const ONE: [u8; 2] = 1u16.to_be_bytes();
/// Values follow; the columns of the answer are known.
const EXECUTION_FLAGS: u8 = 0x01 | 0x02;
/// The kind of a result that has rows.
const ROWS: i32 = 2;
/// Its columns are left out.
const NO_COLUMNS: i32 = 0x04;

const KEYSPACE: &str = "CREATE KEYSPACE ks WITH replication = \
                        {'class': 'SimpleStrategy', 'replication_factor': 1}";
const TABLE: &str = "CREATE TABLE ks.rows (pk bigint, ck bigint, v blob, PRIMARY KEY (pk, ck))";
const INSERT: &str = "INSERT INTO ks.rows (pk, ck, v) VALUES (?, ?, ?)";
const POINT: &str = "SELECT v FROM ks.rows WHERE pk = ? AND ck = ?";

/// Most rows that the node is given: it reads one of many no faster than one of these.
const ROWS_MAX: i64 = 1_000_000;
/// Rows of a connection that are written at once.
const WRITES_AT_ONCE: usize = 64;
/// Connections that drivers have with a node.
const OF_A_DRIVER: usize = 4;

/// What is read, and by how many.
#[derive(Clone, Copy)]
pub struct Load {
    pub rows: i64,
    pub rows_per_partition: i64,
    pub clients: usize,
    /// Reads of each client.
    pub calls: usize,
    /// Reads of a client that are under way in the exchange.
    pub in_flight: usize,
}

/// The process of a node, which ends with this.
struct Node {
    child: Child,
    port: u16,
}

impl Node {
    /// Errors: what is missing on this machine.
    fn start(work: &Path) -> Result<Self, String> {
        let class_path = node::class_path()?;
        let port = node::free_port();
        node::configure(work, Some(port));
        let source = node::root().join("benches/doors/CassandraNode.java");
        let classes = node::compile(work, &class_path, &[source])?;
        let mut child = node::java(work, "-Xmx4g")
            .arg("-cp")
            .arg(format!("{}:{class_path}", classes.display()))
            .arg("CassandraNode")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("java: {error}"))?;
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let node = Node { child, port };
        match lines.any(|line| line.is_ok_and(|line| line == "serving")) {
            true => Ok(node),
            false => Err("the node did not start".to_owned()),
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One client.
struct Connection {
    stream: TcpStream,
    /// What has come and was not looked at yet.
    come: Vec<u8>,
    sent: Vec<u8>,
}

impl Connection {
    async fn open(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut connection = Connection { stream, come: Vec::new(), sent: Vec::new() };
        let options = [&1u16.to_be_bytes()[..], &short("CQL_VERSION"), &short("3.0.0")].concat();
        connection.add(STARTUP, &options);
        connection.exchange(1).await;
        connection
    }

    /// Adds a frame to those that are sent next.
    fn add(&mut self, opcode: u8, body: &[u8]) {
        self.sent.extend_from_slice(&[4, 0, 0, 0, opcode]);
        self.sent.extend_from_slice(&(body.len() as u32).to_be_bytes());
        self.sent.extend_from_slice(body);
    }

    fn add_execution(&mut self, id: &[u8], values: &[&[u8]]) {
        let mut body = (id.len() as u16).to_be_bytes().to_vec();
        body.extend_from_slice(id);
        body.extend_from_slice(&ONE);
        body.push(EXECUTION_FLAGS);
        body.extend_from_slice(&(values.len() as u16).to_be_bytes());
        for value in values {
            body.extend_from_slice(&(value.len() as u32).to_be_bytes());
            body.extend_from_slice(value);
        }
        self.add(EXECUTE, &body);
    }

    /// Sends what was added, and waits for so many answers; how many rows they have, and the last
    /// of them.
    async fn exchange(&mut self, answers: usize) -> (usize, Vec<u8>) {
        self.stream.write_all(&self.sent).await.unwrap();
        self.sent.clear();
        let (mut rows, mut last) = (0, Vec::new());
        for _ in 0..answers {
            last = self.answer().await;
            rows += rows_of(&last);
        }
        (rows, last)
    }

    /// The body of the next frame.
    async fn answer(&mut self) -> Vec<u8> {
        loop {
            if let Some(head) = self.come.first_chunk::<HEAD_BYTES>() {
                let [_, _, _, _, opcode, length @ ..] = *head;
                let end = HEAD_BYTES + u32::from_be_bytes(length) as usize;
                if self.come.len() >= end {
                    let body = self.come[HEAD_BYTES..end].to_vec();
                    self.come.drain(..end);
                    // Errors have opcode 0.
                    assert_ne!(opcode, 0, "Cassandra says {}", String::from_utf8_lossy(&body));
                    return body;
                }
            }
            let bytes = self.stream.read_buf(&mut self.come).await.unwrap();
            assert_ne!(bytes, 0, "Cassandra hung up");
        }
    }

    async fn query(&mut self, text: &str) {
        self.add(QUERY, &[&long(text)[..], &ONE, &[0]].concat());
        self.exchange(1).await;
    }

    /// The statement's id.
    async fn prepare(&mut self, text: &str) -> Vec<u8> {
        self.add(PREPARE, &long(text));
        let (_, body) = self.exchange(1).await;
        // The kind of the result, then the id.
        let length = u16::from_be_bytes([body[4], body[5]]) as usize;
        body[6..6 + length].to_vec()
    }
}

/// How many rows a result has.
fn rows_of(body: &[u8]) -> usize {
    let number = |at: usize| {
        let bytes = body.get(at..at + 4).map(|bytes| bytes.try_into().unwrap());
        bytes.map_or(0, i32::from_be_bytes)
    };
    let has_rows = number(0) == ROWS && number(4) & NO_COLUMNS != 0;
    if has_rows { number(12) as usize } else { 0 }
}

fn short(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat()
}

fn long(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

/// Makes the table and its rows.
async fn fill(port: u16, load: &Load) {
    let mut first = Connection::open(port).await;
    first.query(KEYSPACE).await;
    first.query(TABLE).await;
    let id = first.prepare(INSERT).await;
    let writers = 8;
    let write = async |writer: i64| {
        let mut connection = Connection::open(port).await;
        let of_writer: Vec<i64> = (writer..load.rows).step_by(writers as usize).collect();
        for rows in of_writer.chunks(WRITES_AT_ONCE) {
            for &row in rows {
                let key = [row / load.rows_per_partition, row % load.rows_per_partition];
                let [pk, ck] = key.map(i64::to_be_bytes);
                connection.add_execution(&id, &[&pk, &ck, &value(row)]);
            }
            connection.exchange(rows.len()).await;
        }
    };
    join_all((0..writers).map(write)).await;
}

/// Reads a second over so many connections, with so many of each in flight.
async fn reads(port: u16, load: &Load, (connections, in_flight): (usize, usize)) -> f64 {
    let calls = load.calls * load.clients / connections;
    let mut connected = Vec::new();
    for _ in 0..connections {
        let mut connection = Connection::open(port).await;
        let id = connection.prepare(POINT).await;
        connected.push((connection, id));
    }
    let run = |(number, (mut connection, id)): (usize, (Connection, Vec<u8>))| {
        let (rows, rows_per_partition) = (load.rows, load.rows_per_partition);
        tokio::spawn(async move {
            let mut random = Random::new(number as u64);
            for _ in 0..calls.div_ceil(in_flight) {
                for _ in 0..in_flight {
                    let row = random.below(rows as u64) as i64;
                    let key = [row / rows_per_partition, row % rows_per_partition];
                    let [pk, ck] = key.map(i64::to_be_bytes);
                    connection.add_execution(&id, &[&pk, &ck]);
                }
                let (found, _) = connection.exchange(in_flight).await;
                assert_eq!(found, in_flight, "rows that Cassandra found");
            }
        })
    };
    let start = wall();
    for done in join_all(connected.into_iter().enumerate().map(run)).await {
        done.unwrap();
    }
    (connections * calls) as f64 / (wall() - start).as_secs_f64()
}

/// The exchange, by the name of its row, beside the node. It had so many reads a second in this
/// run.
pub async fn print(arguments: &Arguments, (name, exchange): (&str, f64), mut load: Load) {
    load.rows = load.rows.min(ROWS_MAX);
    let directory = tempfile::tempdir().unwrap();
    let node = match Node::start(directory.path()) {
        Ok(node) => node,
        Err(reason) => return eprintln!("Cassandra is left out: {reason}"),
    };
    fill(node.port, &load).await;
    let of_driver = load.clients * load.in_flight / OF_A_DRIVER;
    let ways = [
        ("Cassandra, 64 connections, 1 in flight", (load.clients, 1)),
        ("Cassandra, 64 connections, 8 in flight", (load.clients, load.in_flight)),
        ("Cassandra, 4 connections, 128 in flight", (OF_A_DRIVER, of_driver)),
    ];
    // The node's compiler learns meanwhile.
    let (start, warm_up) = (wall(), Duration::from_secs(arguments.scale(8, 40) as u64));
    while wall() - start < warm_up {
        for (_, way) in ways {
            reads(node.port, &Load { calls: load.calls.min(500), ..load }, way).await;
        }
    }
    let mut found = Vec::new();
    for (name, way) in ways {
        found.push((name, reads(node.port, &load, way).await));
    }
    let best = found.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    for (baseline, rate) in found {
        let target = if rate == best { Target::RatioAtLeast(2.0) } else { Target::None };
        let baseline = Some((baseline, rate));
        Row { name, unit: "reads/s", figure: exchange, baseline, target }.print(arguments);
    }
}
