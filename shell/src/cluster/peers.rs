//! Calls of other nodes, over one connection to each.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryFutureExt, TryStreamExt};
use prost::Message;
use tidegate_engine::batch::RecordBatch;
use tidegate_engine::clock::Clock;
use tidegate_engine::hex::Hex;
use tidegate_engine::schema::Token;
use tidegate_engine::{
    Catalog, ConditionalWrite, Decision, Error, Mutation, NodeId, Peers, ReadCommand, Result, Ring,
    Taking, Terms,
};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::error::of_status;
use super::ring_file::RingPlan;
use super::wire::{
    DECIDE, DEFINE, DecideReply, DecideRequest, DefineReply, DefineRequest, KEY_HEADER, PING, READ,
    ReadRequest, VERSION_HEADER, WRITE, WriteReply, WriteRequest,
};

/// How long a node has to take a connection.
const CONNECT: Duration = Duration::from_secs(2);
/// How often a silent node is asked whether it is alive, and how long it has for an answer.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// How long a node that has answered is taken to be there.
const REACHED: Duration = Duration::from_secs(1);
/// What the key that a node shows is derived for.
const KEY_CONTEXT: &str = "tidegate 2026 the key that a node shows to another";
/// And the key of seals on tickets.
const TICKET_CONTEXT: &str = "tidegate 2026 the key of tickets in a cluster";

/// The other nodes, as one asks them.
pub struct Cluster {
    plan: RingPlan,
    own: u32,
    channels: Vec<Channel>,
    key: MetadataValue<Ascii>,
    version: MetadataValue<Ascii>,
    clock: Arc<dyn Clock>,
    /// Until when each is known to be there, by the monotonic clock.
    reached_ns: Vec<AtomicU64>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cluster({:?})", self.plan.nodes)
    }
}

impl Cluster {
    /// The nodes of a ring as the node of this name sees them. No connection is made yet.
    ///
    /// Errors: a sentence for a name that the ring does not have, and for certificates that are
    /// none.
    pub(crate) fn new(
        plan: RingPlan,
        name: &str,
        clock: Arc<dyn Clock>,
    ) -> std::result::Result<Arc<Self>, String> {
        let own = plan.place_of(name)?;
        let channel = |(name, address): &(String, String)| {
            channel(address, plan.authority.as_deref())
                .map_err(|error| format!("node '{name}' at {address}: {error}"))
        };
        let channels = plan.nodes.iter().map(channel).collect::<std::result::Result<_, _>>()?;
        let key = shown_key(&plan.key).parse().map_err(|_| "a key is no header".to_owned())?;
        let version = MetadataValue::from(plan.version);
        let reached_ns = plan.nodes.iter().map(|_| AtomicU64::new(0)).collect();
        Ok(Arc::new(Cluster { plan, own, channels, key, version, clock, reached_ns }))
    }

    /// The ring as the engine takes it.
    pub(crate) fn ring(self: &Arc<Self>) -> Result<Ring> {
        let names = self.plan.nodes.iter().map(|(name, _)| Arc::from(name.as_str())).collect();
        let ranges = self.plan.ranges.iter();
        let ranges = ranges.map(|(through, node)| (Token(*through), NodeId(*node))).collect();
        Ring::new(names, NodeId(self.own), ranges, Arc::clone(self) as Arc<dyn Peers>)
    }

    /// Names and addresses of all nodes.
    pub(crate) fn nodes(&self) -> &[(String, String)] {
        &self.plan.nodes
    }

    pub(crate) fn own(&self) -> NodeId {
        NodeId(self.own)
    }

    /// The key of seals, which all nodes have: each takes what another has given out.
    pub(crate) fn ticket_key(&self) -> [u8; 32] {
        blake3::derive_key(TICKET_CONTEXT, &self.plan.key)
    }

    /// The connection to a node.
    pub(crate) fn channel(&self, node: NodeId) -> Channel {
        self.channels[node.0 as usize].clone()
    }

    /// Headers of every call, with the key of a node and the version of the ring.
    pub(crate) fn headers(&self) -> [(&'static str, MetadataValue<Ascii>); 2] {
        [(KEY_HEADER, self.key.clone()), (VERSION_HEADER, self.version.clone())]
    }

    /// Whether a call comes from a node of this ring.
    ///
    /// Errors: UNAUTHENTICATED for another key; FAILED_PRECONDITION for another version.
    pub(crate) fn check(
        &self,
        headers: &tonic::metadata::MetadataMap,
    ) -> std::result::Result<(), Status> {
        let header = |name: &str| headers.get(name).map(|value| value.as_bytes().to_vec());
        let (said, own) = (header(KEY_HEADER), self.key.as_bytes());
        // Digests are compared, so the time tells nothing of the key.
        let is_node = said.is_some_and(|said| blake3::hash(&said) == blake3::hash(own));
        if !is_node {
            return Err(Status::unauthenticated("only nodes of the ring may call this"));
        }
        let said = header(VERSION_HEADER).unwrap_or_default();
        if said != self.version.as_bytes() {
            return Err(Status::failed_precondition(format!(
                "its ring file is version {}, that of the caller is {}: give all nodes the same \
                 file and start them again",
                self.plan.version,
                String::from_utf8_lossy(&said)
            )));
        }
        Ok(())
    }

    /// The error of a call that a node did not answer, or answered with an error.
    pub(crate) fn error(&self, node: NodeId, status: &Status) -> Error {
        let (name, address) = &self.plan.nodes[node.0 as usize];
        of_status(name, address, status)
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        for (name, value) in self.headers() {
            request.metadata_mut().insert(name, value);
        }
        request
    }

    /// One message and its answer.
    fn ask<Q, A>(&self, node: NodeId, path: &'static str, message: Q) -> Asking<A>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let request = self.request(message);
        let channel = self.channel(node);
        async move {
            let mut grpc = unlimited(channel);
            ready(&mut grpc).await?;
            let codec = ProstCodec::<Q, A>::default();
            let answer = grpc.unary(request, PathAndQuery::from_static(path), codec).await?;
            Ok(answer.into_inner())
        }
        .boxed()
    }

    /// Asks a node whether it is there, if it has not answered within [`REACHED`].
    ///
    /// Errors: `Unavailable` naming it.
    pub(crate) async fn reach(&self, node: NodeId) -> Result<()> {
        let (reached, now_ns) = (&self.reached_ns[node.0 as usize], self.clock.monotonic_ns());
        if now_ns < reached.load(Ordering::Relaxed) {
            return Ok(());
        }
        let asked: Asking<WriteReply> = self.ask(node, PING, WriteReply {});
        asked.await.map_err(|status| self.error(node, &status))?;
        reached.store(now_ns + REACHED.as_nanos() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// A step of a statement that all nodes run.
    ///
    /// Errors: those of the node.
    pub(super) async fn define(&self, node: NodeId, step: DefineRequest) -> Result<DefineReply> {
        let asked = self.ask(node, DEFINE, step).await;
        asked.map_err(|status| self.error(node, &status))
    }
}

type Asking<A> = BoxFuture<'static, std::result::Result<A, Status>>;

fn unlimited(channel: Channel) -> tonic::client::Grpc<Channel> {
    tonic::client::Grpc::new(channel).max_decoding_message_size(usize::MAX)
}

async fn ready(grpc: &mut tonic::client::Grpc<Channel>) -> std::result::Result<(), Status> {
    grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))
}

/// The address of a node as HTTP names it.
pub(crate) fn uri_of(address: &str) -> String {
    match address.strip_prefix("grpc+tls://") {
        Some(place) => format!("https://{place}"),
        None => address.replacen("grpc://", "http://", 1),
    }
}

fn shown_key(key: &[u8; 32]) -> String {
    Hex(&blake3::derive_key(KEY_CONTEXT, key)).to_string()
}

fn channel(
    address: &str,
    authority: Option<&str>,
) -> std::result::Result<Channel, tonic::transport::Error> {
    let uri = uri_of(address);
    let is_tls = uri.starts_with("https:");
    let mut endpoint = Endpoint::from_shared(uri)?
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE)
        .keep_alive_while_idle(true)
        .http2_adaptive_window(true);
    if is_tls {
        let pem = authority.unwrap_or_default();
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem));
        endpoint = endpoint.tls_config(tls)?;
    }
    Ok(endpoint.connect_lazy())
}

impl Peers for Cluster {
    fn read(
        &self,
        node: NodeId,
        command: ReadCommand,
        catalog: &Catalog,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        let request = self.request(ReadRequest::of(&command, catalog, &*self.clock));
        let channel = self.channel(node);
        let begun = async move {
            let mut grpc = unlimited(channel);
            ready(&mut grpc).await?;
            let codec = ProstCodec::<ReadRequest, FlightData>::default();
            let path = PathAndQuery::from_static(READ);
            let answer = grpc.server_streaming(request, path, codec).await?;
            let data: Streaming<FlightData> = answer.into_inner();
            Ok(FlightRecordBatchStream::new_from_flight_data(data.map_err(FlightError::from)))
        };
        let (name, address) = self.plan.nodes[node.0 as usize].clone();
        let told = move |error: FlightError| match error {
            FlightError::Tonic(status) => of_status(&name, &address, &status),
            other => of_status(&name, &address, &Status::internal(other.to_string())),
        };
        let begun = begun.map_err(|status: Status| FlightError::from(status));
        begun.try_flatten_stream().map_err(told).boxed()
    }

    fn apply(
        &self,
        node: NodeId,
        writes: Vec<Mutation>,
        taking: Taking,
        catalog: &Catalog,
    ) -> BoxFuture<'static, Result<()>> {
        let request = WriteRequest::of(writes, taking, catalog, &*self.clock);
        let (name, address) = self.plan.nodes[node.0 as usize].clone();
        let asked: Asking<WriteReply> = self.ask(node, WRITE, request);
        asked
            .map(move |answer| match answer {
                Ok(WriteReply {}) => Ok(()),
                Err(status) => Err(of_status(&name, &address, &status)),
            })
            .boxed()
    }

    fn write_if(
        &self,
        node: NodeId,
        write: ConditionalWrite,
        terms: Terms,
        catalog: &Catalog,
    ) -> BoxFuture<'static, Result<Decision>> {
        let (table, key) = (write.mutation.table, write.mutation.key.clone());
        let Some(table) = catalog.all_tables().find(|known| known.id == table).cloned() else {
            let error = Error::NotFound { kind: "table", name: table.hex() };
            return futures::future::ready(Err(error)).boxed();
        };
        let request = DecideRequest::of(write, terms, catalog, &*self.clock);
        let (name, address) = self.plan.nodes[node.0 as usize].clone();
        let asked: Asking<DecideReply> = self.ask(node, DECIDE, request);
        asked
            .map(move |answer| match answer {
                Ok(reply) => reply.decision(&table, &key),
                Err(status) => Err(of_status(&name, &address, &status)),
            })
            .boxed()
    }
}

#[cfg(test)]
mod tests {
    use tidegate_engine::clock::SimulatedClock;
    use tonic::Code;
    use tonic::metadata::MetadataMap;

    use super::*;
    use crate::cluster::error::is_of_node_down;

    const OTHER: NodeId = NodeId(1);

    /// A ring of two.
    fn plan() -> RingPlan {
        let node = |name: &str| (name.to_owned(), "grpc://127.0.0.1:1".to_owned());
        RingPlan {
            version: 1,
            key: [7; 32],
            authority: None,
            nodes: vec![node("a"), node("b")],
            ranges: vec![(-1, 0), (i64::MAX, 1)],
        }
    }

    /// A cluster of two, of which the other one is not there.
    fn half(clock: Arc<SimulatedClock>) -> Arc<Cluster> {
        Cluster::new(plan(), "a", clock).unwrap()
    }

    async fn is_down(cluster: &Cluster) -> bool {
        let reached = cluster.reach(OTHER).await;
        reached.is_err_and(|error| is_of_node_down(&error.to_string()))
    }

    /// Each statement that needs it is refused at once, not the first one only.
    #[tokio::test]
    async fn a_node_that_did_not_answer_is_asked_again() {
        let cluster = half(SimulatedClock::new(1_000_000));
        for time in 1..=3 {
            assert!(is_down(&cluster).await, "time {time}");
        }
    }

    #[tokio::test]
    async fn a_node_that_answered_is_taken_to_be_there_for_a_second_and_no_longer() {
        let clock = SimulatedClock::new(1_000_000);
        let cluster = half(Arc::clone(&clock));
        let until_ns = clock.monotonic_ns() + REACHED.as_nanos() as u64;
        cluster.reached_ns[1].store(until_ns, Ordering::Relaxed);
        let moment = Duration::from_micros(1);
        for by in [Duration::ZERO, REACHED - moment] {
            clock.advance(by);
            assert!(cluster.reach(OTHER).await.is_ok());
        }
        clock.advance(moment);
        assert!(is_down(&cluster).await);
    }

    #[tokio::test]
    async fn only_who_has_the_key_and_the_version_of_the_ring_is_a_node_of_it() {
        let cluster = half(SimulatedClock::new(0));
        let keys = [shown_key(&[7; 32]), shown_key(&[8; 32]), Hex(&[7; 32]).to_string()];
        let [own, other, bare] = keys.each_ref().map(String::as_str);
        let upper = own.to_uppercase();
        let refused = Err(Code::Unauthenticated);
        let stale = Err(Code::FailedPrecondition);
        for (key, version, wanted) in [
            (Some(own), Some("1"), Ok(())),
            (Some(own), Some("2"), stale),
            (Some(own), Some("0"), stale),
            (Some(own), Some("11"), stale),
            (Some(own), Some(""), stale),
            (Some(own), None, stale),
            (None, Some("1"), refused),
            (None, None, refused),
            (Some(""), Some("1"), refused),
            (Some(other), Some("1"), refused),
            (Some(&own[1..]), Some("1"), refused),
            (Some(upper.as_str()), Some("1"), refused),
            // That of the file is shown to nobody.
            (Some(bare), Some("1"), refused),
        ] {
            let mut headers = MetadataMap::new();
            for (name, said) in [(KEY_HEADER, key), (VERSION_HEADER, version)] {
                if let Some(said) = said {
                    headers.insert(name, said.parse().unwrap());
                }
            }
            let found = cluster.check(&headers).map_err(|refused| refused.code());
            assert_eq!(found, wanted, "{key:?}, {version:?}");
        }
        let mut sent = MetadataMap::new();
        for (name, value) in cluster.headers() {
            sent.insert(name, value);
        }
        let newer = RingPlan { version: 2, ..plan() };
        let newer = Cluster::new(newer, "b", SimulatedClock::new(0)).unwrap();
        let refused = newer.check(&sent).unwrap_err();
        let says = "its ring file is version 2, that of the caller is 1";
        assert!(refused.message().starts_with(says), "{refused}");
    }

    /// A ticket of one node is redeemed by another, and by nobody else.
    #[tokio::test]
    async fn the_key_of_tickets_is_that_of_the_ring_and_no_other() {
        let of = |key: [u8; 32], name: &str| {
            let plan = RingPlan { key, ..plan() };
            Cluster::new(plan, name, SimulatedClock::new(0)).unwrap().ticket_key()
        };
        let key = of([7; 32], "a");
        assert_eq!(of([7; 32], "b"), key);
        assert_ne!(of([8; 32], "a"), key);
        assert_ne!(key, [7; 32]);
        assert_ne!(Hex(&key).to_string(), shown_key(&[7; 32]), "nodes show that one");
    }

    #[tokio::test]
    async fn an_address_is_told_as_http_names_it_and_a_stranger_is_no_node() {
        for (address, wanted) in [
            ("grpc://10.0.0.1:31337", "http://10.0.0.1:31337"),
            ("grpc+tls://a.example.com:1", "https://a.example.com:1"),
            ("grpc://grpc:1", "http://grpc:1"),
            ("grpc+tls://[::1]:31337", "https://[::1]:31337"),
        ] {
            assert_eq!(uri_of(address), wanted);
        }
        let error = Cluster::new(plan(), "c", SimulatedClock::new(0)).unwrap_err();
        assert_eq!(error, "the ring has no node 'c', but a, b");
        let own = Cluster::new(plan(), "b", SimulatedClock::new(0)).unwrap();
        assert_eq!((own.own(), own.nodes().len()), (NodeId(1), 2));
    }
}
