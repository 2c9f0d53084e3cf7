//! What a fuzzer makes of calls, of what clients carry between them, and of messages of other
//! nodes, for a service without a network.
//!
//! ```text
//! call:    method 1 | messages: (length 2, little-endian | bytes)*
//! carried: what it is 1 | bytes
//! ```
//!
//! Results do not matter. A panic, a call without an end, an error that the service takes upon
//! itself, and a seal that opens though the service did not close it do. A database whose
//! definitions an input changed is followed by a new one, so that inputs do not depend on each
//! other.

mod seeds;

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use arrow_flight::sql::{
    CommandPreparedStatementQuery, CommandPreparedStatementUpdate, ProstMessageExt,
    TicketStatementQuery,
};
use arrow_flight::{FlightData, FlightDescriptor, Ticket as FlightTicket};
use http_body::Frame;
use prost::Message;
use prost::bytes::Bytes;
use tempfile::TempDir;
use tidegate_engine::{Catalog, Database, Options};
use tokio::runtime::Runtime;
use tonic::body::Body;
use tonic::codegen::{Service as _, http};
use tonic::{Code, Status};

use super::access::{Guard, Rules};
use super::connections::{Calls, Connection, Connections, Link};
use super::front::Front;
use super::node::Node;
use super::seal::{Purpose, Seal};
use super::service::{Offer, Service};
use crate::cluster::wire::{DECIDE, DEFINE, READ, WRITE};
use crate::memory::{MemoryPlan, MemoryWishes};
use crate::thread;

pub(crate) use self::seeds::nodes as node_seeds;
pub(crate) use self::seeds::{calls as call_seeds, carried as carried_seeds};

/// Calls of Flight, by the first byte of an input.
const METHODS: [&str; 10] = [
    "Handshake",
    "ListFlights",
    "GetFlightInfo",
    "PollFlightInfo",
    "GetSchema",
    "DoGet",
    "DoPut",
    "DoExchange",
    "DoAction",
    "ListActions",
];
/// Calls of other nodes, likewise.
const OF_NODES: [&str; 4] = [READ, WRITE, DECIDE, DEFINE];
/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of an answer that a client reads.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Longest message that is taken.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// What each database begins with.
const DEFINITIONS: [&str; 5] = [
    "CREATE TABLE t (pk bigint, ck bigint, v bigint, note text, PRIMARY KEY (pk, ck))",
    "CREATE TABLE typed (pk text PRIMARY KEY, a boolean, b int, c double, d timestamp, e blob, \
     f varint, g decimal, h uuid, i duration)",
    "INSERT INTO t (pk, ck, v, note) VALUES (1, 1, 10, 'a'), (1, 2, 20, NULL), (2, 1, 30, 'b')",
    "INSERT INTO typed (pk, a, b, c) VALUES ('x', true, 1, 1.5)",
    "CREATE VIEW w AS SELECT pk, v FROM t WHERE ck > 0",
];

type Served = Calls<FlightServiceServer<Guard>>;

/// A service of a database in a folder of its own.
struct World {
    threads: Runtime,
    database: Database,
    /// As it was when the database was new.
    catalog: Arc<Catalog>,
    service: Service,
    served: Served,
    node: Node,
    connections: u64,
    _directory: TempDir,
}

/// The end of an answer, with the messages before it.
struct Answer {
    status: Status,
    messages: Vec<Bytes>,
}

static WORLD: Mutex<Option<World>> = Mutex::new(None);

/// Does `work` with a service whose database is as it was when it began.
fn in_world<T>(work: impl FnOnce(&mut World) -> T) -> T {
    let mut kept = WORLD.lock().expect("an input that panics is the last one");
    if kept.as_ref().is_some_and(|world| !world.is_as_it_was()) {
        kept.take().expect("it was just there").end();
    }
    work(kept.get_or_insert_with(World::new))
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a folder");
        let threads = thread::pool().expect("threads");
        let path = directory.path().join("data");
        let (database, catalog, service, node) = threads.block_on(async {
            let mut options = Options::new(path);
            options.shards = Some(2);
            let database = Database::open(options).await.expect("a new database");
            let memory = MemoryPlan::new(MemoryWishes::default(), 2, None).expect("memory");
            let offer =
                Offer { ticket_key: [7; 32], snapshots: None, advertised: None, cluster: None };
            let service = Service::new(database.clone(), &memory, offer).expect("a service");
            let session = service.state().sessions().named("fuzz");
            for definition in DEFINITIONS {
                let done = session.execute(definition).await.map(|outcome| outcome.collect());
                done.expect(definition).await.expect(definition);
            }
            let node = Node::new(service.state().sessions().named("node"));
            let catalog = database.catalog();
            (database, catalog, service, node)
        });
        let guard = Guard::new(Front(service.clone()), Rules::WhereRolesLogIn);
        let connections = Connections::new(1 << 30, None);
        let served = FlightServiceServer::new(guard).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let served = Calls::new(served, connections, MESSAGE_BYTES_MAX);
        let (connections, _directory) = (0, directory);
        World { threads, database, catalog, service, served, node, connections, _directory }
    }

    fn is_as_it_was(&self) -> bool {
        Arc::ptr_eq(&self.catalog, &self.database.catalog())
    }

    fn end(self) {
        let World { threads, database, service, served, node, catalog, .. } = self;
        drop((service, served, node, catalog));
        threads.block_on(database.close()).expect("a database that closes");
    }

    fn seal(&self) -> &Seal {
        self.service.state().seal()
    }

    /// A new connection, which has a session of its own.
    fn connect(&mut self) -> Link {
        self.connections += 1;
        let connection = Connection(self.connections);
        self.service.state().sessions().connection_opened(connection);
        Link { connection, ..Link::default() }
    }

    fn disconnect(&self, link: &Link) {
        self.service.state().sessions().connection_closed(link.connection);
    }

    /// Calls a method of Flight.
    fn call(&mut self, link: &Link, method: &str, messages: &[&[u8]]) -> Answer {
        let mut request =
            request(&format!("/arrow.flight.protocol.FlightService/{method}"), messages);
        request.extensions_mut().insert(link.clone());
        let mut served = self.served.clone();
        self.answer(async move { served.call(request).await })
    }

    /// Calls what nodes of a cluster call.
    fn call_of_node(&mut self, path: &str, message: &[u8]) -> Answer {
        let (request, mut node) = (request(path, &[message]), self.node.clone());
        self.answer(async move { node.call(request).await })
    }

    /// An answer to its end, or to that of a client's patience: who is gone ends the call.
    fn answer<F>(&self, called: F) -> Answer
    where
        F: Future<Output = Result<http::Response<Body>, Infallible>> + Send + 'static,
    {
        let whole = async move {
            let Ok(response) = called.await;
            read(response).await
        };
        // The timer begins where the runtime is.
        let answer = self.threads.spawn(async { tokio::time::timeout(PATIENCE, whole).await });
        let late = |_| Answer { status: Status::deadline_exceeded("late"), messages: Vec::new() };
        self.threads.block_on(answer).expect("a call that does not panic").unwrap_or_else(late)
    }
}

/// The bytes of a call.
struct Asked(Option<Bytes>);

impl http_body::Body for Asked {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(Frame::data).map(Ok))
    }
}

/// A call with these messages.
fn request(path: &str, messages: &[&[u8]]) -> http::Request<Body> {
    let mut bytes = Vec::new();
    for message in messages {
        bytes.push(0);
        bytes.extend_from_slice(&(message.len() as u32).to_be_bytes());
        bytes.extend_from_slice(message);
    }
    let request = http::Request::post(path).header("content-type", "application/grpc");
    request.body(Body::new(Asked(Some(bytes.into())))).expect("a path without a mistake")
}

/// Reads an answer.
async fn read(response: http::Response<Body>) -> Answer {
    let (parts, mut body) = response.into_parts();
    let mut status = Status::from_header_map(&parts.headers);
    let mut bytes = Vec::new();
    while bytes.len() < ANSWER_BYTES_MAX {
        let frame = poll_fn(|context| http_body::Body::poll_frame(Pin::new(&mut body), context));
        match frame.await {
            None => break,
            Some(Err(error)) => {
                status = Some(error);
                break;
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => bytes.extend_from_slice(&data),
                Err(frame) => {
                    status = frame.trailers_ref().and_then(Status::from_header_map).or(status);
                    break;
                }
            },
        }
    }
    let (mut rest, mut messages) = (bytes.as_slice(), Vec::new());
    while let [_, a, b, c, d, bytes @ ..] = rest {
        let length = (u32::from_be_bytes([*a, *b, *c, *d]) as usize).min(bytes.len());
        let (message, others) = bytes.split_at(length);
        messages.push(Bytes::copy_from_slice(message));
        rest = others;
    }
    Answer { status: status.unwrap_or_else(|| Status::ok("")), messages }
}

/// Messages of an input.
fn messages(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut messages = Vec::new();
    while let [low, high, rest @ ..] = bytes {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (message, others) = rest.split_at(length);
        messages.push(message);
        bytes = others;
    }
    messages
}

/// An input of a call.
fn input(method: &str, messages: &[Vec<u8>]) -> Vec<u8> {
    let place = METHODS.iter().position(|known| *known == method).expect("a method of Flight");
    let mut input = vec![place as u8];
    for message in messages {
        input.extend_from_slice(&(message.len() as u16).to_le_bytes());
        input.extend_from_slice(message);
    }
    input
}

/// What the service takes upon itself is a mistake of its own, but for bytes that gRPC itself
/// cannot read: tonic says INTERNAL of them.
fn check_blame(status: &Status) {
    let of_tonic =
        ["failed to decode Protobuf message", "protocol error", "Missing request message"];
    let is_own = matches!(status.code(), Code::Internal | Code::Unknown | Code::DataLoss)
        && !of_tonic.iter().any(|said| status.message().contains(said));
    assert!(!is_own, "the service blames itself: {status}");
}

/// A call of a client.
pub(crate) fn call(bytes: &[u8]) {
    let [method, rest @ ..] = bytes else { return };
    let method = METHODS[usize::from(*method) % METHODS.len()];
    in_world(|world| {
        let link = world.connect();
        let answer = world.call(&link, method, &messages(rest));
        check_blame(&answer.status);
        world.disconnect(&link);
    });
}

/// What a client carries: bytes that it made up, and contents that were sealed.
pub(crate) fn carried(bytes: &[u8]) {
    let [what, content @ ..] = bytes else { return };
    in_world(|world| {
        let link = world.connect();
        let close = |purpose| world.seal().close(purpose, content.to_vec());
        match what % 3 {
            0 => {
                for purpose in [Purpose::Ticket, Purpose::Statement] {
                    assert!(world.seal().open(purpose, content).is_err(), "a forged seal opens");
                }
                let ticket = FlightTicket::new(content.to_vec()).encode_to_vec();
                check_blame(&world.call(&link, "DoGet", &[&ticket]).status);
            }
            1 => {
                let Ok(statement_handle) = close(Purpose::Ticket) else { return };
                let ticket = TicketStatementQuery { statement_handle }.as_any().encode_to_vec();
                world.call(&link, "DoGet", &[&FlightTicket::new(ticket).encode_to_vec()]);
            }
            _ => {
                let Ok(handle) = close(Purpose::Statement) else { return };
                let query =
                    CommandPreparedStatementQuery { prepared_statement_handle: handle.clone() };
                let query = descriptor(&query).encode_to_vec();
                world.call(&link, "GetSchema", &[&query]);
                world.call(&link, "GetFlightInfo", &[&query]);
                let update = CommandPreparedStatementUpdate { prepared_statement_handle: handle };
                world.call(&link, "DoPut", &[&first(&update)]);
                world.call(&link, "DoExchange", &[&first(&update)]);
            }
        }
        world.disconnect(&link);
    });
}

/// A message of another node of the ring.
pub(crate) fn node(bytes: &[u8]) {
    let [path, message @ ..] = bytes else { return };
    let path = OF_NODES[usize::from(*path) % OF_NODES.len()];
    in_world(|world| {
        world.call_of_node(path, message);
    });
}

fn descriptor(command: &impl ProstMessageExt) -> FlightDescriptor {
    FlightDescriptor::new_cmd(command.as_any().encode_to_vec())
}

/// The first message of a stream that says what it is for.
fn first(command: &impl ProstMessageExt) -> Vec<u8> {
    FlightData::new().with_descriptor(descriptor(command)).encode_to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_to_its_end() {
        let answer = in_world(|world| {
            let link = world.connect();
            world.call(&link, "ListActions", &[b""])
        });
        assert_eq!((answer.status.code(), answer.messages.len()), (Code::Ok, 13));
    }

    /// A seed that is refused is no right input: what a fuzzer makes of it is refused as early.
    #[test]
    fn right_calls_are_answered() {
        for seed in call_seeds() {
            let method = METHODS[usize::from(seed[0])];
            let status = in_world(|world| {
                let link = world.connect();
                world.call(&link, method, &messages(&seed[1..])).status
            });
            // What is refused for what it lacks has come far enough.
            let lacks = ["were bound", "primary key", "no folder for snapshots", "not a struct"];
            let is_taken = status.code() == Code::Ok
                || lacks.iter().any(|lack| status.message().contains(lack));
            assert!(is_taken, "{method} {status} {}", String::from_utf8_lossy(&seed));
        }
    }
}
