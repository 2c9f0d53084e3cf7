//! Three processes that are one database: each of them answers for all.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod answers;
mod example;
mod failures;
mod made;
mod moving;
#[path = "../skip.rs"]
mod skip;
mod strangers;
mod tls;
mod writes;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use arrow::array::RecordBatch;
use arrow::util::display::array_value_to_string;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt;
use tonic::transport::Channel;

type Client = FlightSqlServiceClient<Channel>;

const FIRST_PORT: u16 = 20_000;
const PORTS: u16 = 10_000;

/// A process, until it is dropped.
struct Node {
    child: Child,
    _stderr: BufReader<ChildStderr>,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Nodes called a, b, c and so on, each with a data directory of its own.
struct Cluster {
    directory: tempfile::TempDir,
    ports: Vec<u16>,
    nodes: Vec<Option<Node>>,
    /// More options of what serves.
    options: Vec<String>,
}

/// Ports below those that the kernel gives to clients, so that nobody takes one while its node is
/// down. Each is given once.
fn free_ports(count: usize) -> Vec<u16> {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let begin = std::process::id() % u32::from(PORTS);
    let next = || {
        let given = u32::from(GIVEN.fetch_add(1, Ordering::Relaxed));
        FIRST_PORT + ((begin + given) % u32::from(PORTS)) as u16
    };
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    std::iter::repeat_with(next).filter(is_free).take(count).collect()
}

fn name(place: usize) -> String {
    char::from(b'a' + place as u8).to_string()
}

impl Cluster {
    /// Starts so many nodes with parts of the same size.
    fn start(count: usize) -> Self {
        Cluster::new(count).started(count)
    }

    /// So many nodes with parts of the same size, before they are started.
    fn new(count: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (ports, nodes, options) = (free_ports(count), Vec::new(), Vec::new());
        let cluster = Cluster { directory, ports, nodes, options };
        let nodes: Vec<String> = (0..count).map(|place| cluster.node(place)).collect();
        let ring = Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("ring").args(&nodes).output();
        fs::write(cluster.ring_file(), ring.unwrap().stdout).unwrap();
        cluster
    }

    fn started(mut self, count: usize) -> Self {
        self.nodes = (0..count).map(|_| None).collect();
        (0..count).for_each(|place| self.start_node(place));
        self
    }

    fn node(&self, place: usize) -> String {
        format!("{}=grpc://127.0.0.1:{}", name(place), self.ports[place])
    }

    fn ring_file(&self) -> PathBuf {
        self.directory.path().join("ring.json")
    }

    fn data(&self, place: usize) -> PathBuf {
        self.directory.path().join(name(place))
    }

    fn start_node(&mut self, place: usize) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["--shards", "2", "--memory", "512MiB", "--data"])
            .arg(self.data(place))
            .args(["serve", "--listen", &format!("127.0.0.1:{}", self.ports[place])])
            .args(["--node", &name(place), "--ring"])
            .arg(self.ring_file())
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        // Others may read the ring file of a test, and it says so.
        while !line.starts_with("listening on") {
            line.clear();
            assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "node {} ended", name(place));
        }
        self.nodes[place] = Some(Node { child, _stderr: stderr });
    }

    /// Ends a node without a word.
    fn kill(&mut self, place: usize) {
        self.nodes[place] = None;
    }

    async fn client(&self, place: usize) -> Client {
        let address = format!("http://127.0.0.1:{}", self.ports[place]);
        let channel = Channel::from_shared(address).unwrap().connect().await.unwrap();
        FlightSqlServiceClient::new(channel)
    }

    async fn clients(&self) -> Vec<Client> {
        let mut clients = Vec::new();
        for place in 0..self.nodes.len() {
            clients.push(self.client(place).await);
        }
        clients
    }
}

async fn try_run(client: &mut Client, text: &str) -> Result<Vec<RecordBatch>, FlightError> {
    let info = client.execute(text.to_owned(), None).await?;
    let mut batches = Vec::new();
    for endpoint in &info.endpoint {
        let rows = client.do_get(endpoint.ticket.clone().unwrap()).await?;
        batches.extend(rows.try_collect::<Vec<_>>().await?);
    }
    Ok(batches)
}

/// Rows as texts.
async fn run(client: &mut Client, text: &str) -> Vec<String> {
    let batches = try_run(client, text).await.unwrap_or_else(|error| panic!("{text}: {error}"));
    let cell = |batch: &RecordBatch, column: usize, row: usize| {
        array_value_to_string(batch.column(column), row).unwrap()
    };
    let row = |batch: &RecordBatch, row: usize| -> String {
        (0..batch.num_columns()).map(|column| cell(batch, column, row) + "|").collect()
    };
    let rows = |batch: &RecordBatch| -> Vec<String> {
        (0..batch.num_rows()).map(|at| row(batch, at)).collect()
    };
    batches.iter().flat_map(rows).collect()
}

/// What a statement is refused with.
async fn refused(client: &mut Client, text: &str) -> String {
    match try_run(client, text).await {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{text} was not refused"),
    }
}

fn threads() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}
