//! A scan to a client, beside the same scan in this process and a bare stream of its messages.
//!
//! Server and client share the processors. A scan to a client does what the scan in process does,
//! and what a bare stream of the same messages does. So the processor time of both together says
//! what rate is possible at most.

use std::path::Path;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow_flight::Ticket;
use futures::{StreamExt, TryStreamExt};
use prost::Message;
use tidegate::query::{Session, SessionOptions, split};
use tidegate_engine::{Database, Options};

use crate::bare::{self, Answers};
use crate::flight::{Client, client, raw};
use crate::frame::table::VALUE_BYTES;
use crate::frame::{Arguments, Row, Target, cpu_timed, wall};
use crate::server::Server;

pub const NAME: &str = "Flight scan to a client";
const SCAN: &str = "SELECT * FROM rows";
/// The better of so many scans counts: the first one finds no row in the cache.
const ROUNDS: usize = 2;

/// A scan that was measured.
#[derive(Clone, Copy)]
struct Scanned {
    bytes: f64,
    taken: Duration,
    /// Of server and client together.
    cpu: Duration,
}

impl Scanned {
    /// MB of Arrow a second.
    fn rate(self) -> f64 {
        self.bytes / 1e6 / self.taken.as_secs_f64()
    }

    /// Processor time of a MB, in ms.
    fn cpu_ms(self) -> f64 {
        self.cpu.as_secs_f64() * 1e9 / self.bytes
    }

    fn best(rounds: Vec<Scanned>) -> Scanned {
        let faster = |a: &Scanned, b: &Scanned| a.rate().total_cmp(&b.rate());
        rounds.into_iter().max_by(faster).expect("there are rounds")
    }
}

/// Bytes of the values of a batch: two numbers, a value and where it ends.
fn arrow_bytes(batch: &RecordBatch) -> f64 {
    (batch.num_rows() * (8 + 8 + VALUE_BYTES + 4)) as f64
}

async fn ticket(client: &mut Client) -> Ticket {
    client.set_header("result.endpoints", "one");
    let info = client.execute(SCAN.to_owned(), None).await.unwrap();
    info.endpoint[0].ticket.clone().unwrap()
}

/// What a client gets by a ticket.
async fn fetched(server: &Server, client: &mut Client, ticket: Ticket) -> Scanned {
    let (before, start) = (server.cpu(), wall());
    let fetch = async {
        let mut bytes = 0.0;
        let mut batches = client.do_get(ticket).await.unwrap();
        while let Some(batch) = batches.try_next().await.unwrap() {
            bytes += arrow_bytes(&batch);
        }
        bytes
    };
    let (bytes, own) = cpu_timed(fetch).await;
    Scanned { bytes, taken: wall() - start, cpu: server.cpu() - before + own }
}

async fn by_flight(server: &Server) -> Scanned {
    let mut client = client(&server.address).await;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let ticket = ticket(&mut client).await;
        rounds.push(fetched(server, &mut client, ticket).await);
    }
    Scanned::best(rounds)
}

/// The schema and the first rows as they are sent, and how many messages follow.
async fn messages(server: &Server) -> Answers {
    let ticket = ticket(&mut client(&server.address).await).await;
    let mut sent = raw(&server.address).await.do_get(ticket).await.unwrap().into_inner();
    let mut answers = Answers::default();
    while let Some(message) = sent.try_next().await.unwrap() {
        match answers.rows.len() {
            0 | 1 => answers.rows.push(message),
            _ => answers.more += 1,
        }
    }
    answers
}

/// As many messages from memory.
async fn by_bare_stream(answers: &Answers, file: &Path) -> Scanned {
    std::fs::write(file, answers.encode_to_vec()).unwrap();
    let server = Server::child(&[bare::CHILD, file.to_str().unwrap()]);
    let mut client = client(&server.address).await;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(fetched(&server, &mut client, Ticket::default()).await);
    }
    Scanned::best(rounds)
}

/// The same in this process, with the directory of a server that has stopped.
async fn in_process(directory: &Path) -> Scanned {
    let options = Options { shards: Some(2), ..Options::new(directory) };
    let database = Database::open(options).await.unwrap();
    let session = Session::new(database.clone(), SessionOptions::default()).unwrap();
    let statement = split(SCAN).unwrap().remove(0);
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let start = wall();
        let scan = async {
            let (_, mut batches) = session.run(&statement).await.unwrap().into_rows().unwrap();
            let mut bytes = 0.0;
            while let Some(batch) = batches.next().await {
                bytes += arrow_bytes(&batch.unwrap());
            }
            bytes
        };
        let (bytes, cpu) = cpu_timed(scan).await;
        rounds.push(Scanned { bytes, taken: wall() - start, cpu });
    }
    database.close().await.unwrap();
    Scanned::best(rounds)
}

/// Scans the rows of a directory that nobody serves; `here` takes a file.
pub async fn print(arguments: &Arguments, directory: &Path, here: &Path) {
    let server = Server::start(directory);
    let scanned = by_flight(&server).await;
    let answers = messages(&server).await;
    server.stop();
    let bare = by_bare_stream(&answers, &here.join("scan")).await;
    let in_process = in_process(directory).await;
    let beside = Some(("in process", in_process.rate()));
    for target in [Target::RatioAtLeast(0.8), Target::AtLeast(700.0)] {
        let (unit, figure) = ("MB/s", scanned.rate());
        Row { name: NAME, unit, figure, baseline: beside, target }.print(arguments);
    }
    let processors = std::thread::available_parallelism().unwrap().get() as f64;
    let most = processors * 1e3 / (in_process.cpu_ms() + bare.cpu_ms());
    for (what, unit, figure, baseline) in [
        ("a bare tonic stream of its messages", "MB/s", bare.rate(), beside),
        ("CPU of a MB", "ms", scanned.cpu_ms(), Some(("in process", in_process.cpu_ms()))),
        ("CPU of a MB, bare stream", "ms", bare.cpu_ms(), None),
        ("most that both together allow", "MB/s", most, beside),
    ] {
        let name = format!("{NAME}: {what}");
        Row { name: &name, unit, figure, baseline, target: Target::None }.print(arguments);
    }
}
