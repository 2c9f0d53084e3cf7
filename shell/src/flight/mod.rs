//! Arrow Flight SQL: ADBC, JDBC and pyarrow clients on the same engine as the shell.
//!
//! Invariant: an address that other machines reach is served by TLS alone, and to roles that may
//! log in, but where somebody insists. `statement` says which call runs what; `service` lists the
//! calls.

mod access;
mod administration;
mod announce;
mod connections;
mod error;
mod exchange;
mod front;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod health;
mod incoming;
mod ingest;
mod kept;
mod metadata;
mod node;
mod outgoing;
mod planning;
mod reflection;
mod running;
mod seal;
mod service;
mod session;
mod sql_info;
mod statement;
mod stream;
mod ticket;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use futures::{Stream, StreamExt};
use tidegate_engine::Database;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::OwnedSemaphorePermit;
use tonic::transport::Server;

pub use self::access::tls::TlsFiles;
pub use self::announce::serving;
pub use self::connections::Limits;
pub use self::exchange::client::{Exchange, prepare};

use self::access::tls::Tls;
use self::access::{Guard, Rules};
use self::announce::Announced;
use self::connections::{
    Accepted, Activity, BEGIN_PATIENCE, Bytes, Calls, Connection, Connections, Link, Wire,
};
use self::front::Front;
use self::health::Health;
use self::node::{ForNodes, Node};
use self::seal::key;
use self::service::{Offer, Service, State};
use crate::cluster::Cluster;
use crate::memory::MemoryPlan;
use crate::metrics::Metrics;
use crate::stderr::tell_line;

/// How long running statements may go on after the first signal to stop.
const DRAIN_SECONDS_MAX: u64 = 3;
/// How long connections may take to let go of what they hold once they are cut.
const CUT_SECONDS_MAX: u64 = 1;
/// Connections whose handshakes go on at once.
const HANDSHAKES_MAX: usize = 4096;

/// Where the service listens, and to whom.
#[derive(Debug, Clone)]
pub struct Listen {
    /// For clients.
    pub clients: SocketAddr,
    /// For what asks for metrics, if that is served.
    pub metrics: Option<SocketAddr>,
    pub tls: Option<TlsFiles>,
    pub limits: Limits,
    /// The folder that takes snapshots which clients ask for.
    pub snapshots: Option<PathBuf>,
    /// The file with the key of tickets; that in the data directory where there is none.
    pub ticket_key: Option<PathBuf>,
    /// What clients are told where results are: a URI that all of them reach.
    pub advertised: Option<String>,
    /// Whether other machines may come without TLS, and without saying who they are.
    pub insecure: bool,
}

impl Listen {
    /// Who is asked who they are.
    ///
    /// Errors: a sentence for an address that other machines reach, where they would come without
    /// TLS or nobody could log in.
    fn rules(&self, database: &Database) -> Result<Rules, String> {
        let address = self.clients.ip();
        if address.is_loopback() {
            return Ok(Rules::WhereRolesLogIn);
        }
        if self.insecure {
            tell_line!(
                "warning: --insecure: whoever reaches {address} can come in plain text, and may do \
                 everything where no role may log in"
            );
            return Ok(Rules::WhereRolesLogIn);
        }
        if self.tls.is_none() {
            return Err(format!(
                "{address} can be reached from other machines, so the service wants TLS there: \
                 --tls-cert and --tls-key, or --insecure"
            ));
        }
        if !database.catalog().roles().has_logins() {
            return Err(format!(
                "{address} can be reached from other machines, and no role may log in: run \
                 tidegate -c \"CREATE ROLE x WITH PASSWORD = '…' AND LOGIN = true\" first, or give \
                 --insecure"
            ));
        }
        Ok(Rules::Always)
    }
}

/// Serves `database` on these addresses, to so many connections as `memory` has room for, until
/// Ctrl-C or SIGTERM; then no call is taken any more, running ones may end within
/// [`DRAIN_SECONDS_MAX`], and what is left is cut: a client that does not read its answer keeps
/// nobody waiting. A second signal ends the process at once, with 128 and the signal's number as
/// its code. The database stays open.
///
/// SIGHUP reads the files of TLS again. A service manager is told when clients are served, and when
/// the service stops.
///
/// Errors: a sentence when the address or a file cannot be used.
pub async fn serve(
    database: Database,
    memory: MemoryPlan,
    (listen, cluster): (Listen, Option<Arc<Cluster>>),
) -> Result<(), String> {
    let rules = listen.rules(&database)?;
    let tls = listen.tls.clone().map(Tls::load).transpose()?.map(Arc::new);
    let listening = |error: std::io::Error| format!("cannot listen to signals: {error}");
    let mut interrupt = signal(SignalKind::interrupt()).map_err(listening)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(listening)?;
    let reloads = signal(SignalKind::hangup()).map_err(listening)?;
    let reloads = tokio::spawn(reload_when_told(reloads, tls.clone()));

    // Connections are tasks of their own, which outlive the server; they end with their threads.
    let threads =
        crate::thread::pool().map_err(|error| format!("cannot start threads: {error}"))?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = listen_until((database, memory, cluster), (listen, rules, tls), stopped);
    let mut server = threads.spawn(server);
    let ended = tokio::select! {
        ended = &mut server => Some(ended),
        _ = interrupt.recv() => None,
        _ = terminate.recv() => None,
    };
    reloads.abort();
    let ended = match ended {
        Some(ended) => Some(ended),
        None => {
            tell_line!("stopping");
            announce::tell_stopping();
            // Until the process ends: closing the database may take its time too.
            tokio::spawn(async move {
                let code = tokio::select! {
                    _ = interrupt.recv() => 128 + SignalKind::interrupt().as_raw_value(),
                    _ = terminate.recv() => 128 + SignalKind::terminate().as_raw_value(),
                };
                crate::stderr::flush();
                std::process::exit(code);
            });
            drop(stop);
            tokio::time::timeout(Duration::from_secs(DRAIN_SECONDS_MAX), server).await.ok()
        }
    };
    let cut = move || threads.shutdown_timeout(Duration::from_secs(CUT_SECONDS_MAX));
    tokio::task::spawn_blocking(cut).await.map_err(|error| error.to_string())?;
    ended.map_or(Ok(()), |ended| ended.map_err(|error| error.to_string())?)
}

/// Takes connections until `stopped`, then waits for their calls to end.
async fn listen_until(
    (database, memory, cluster): (Database, MemoryPlan, Option<Arc<Cluster>>),
    (listen, rules, tls): (Listen, Rules, Option<Arc<Tls>>),
    stopped: tokio::sync::oneshot::Receiver<()>,
) -> Result<(), String> {
    let clients = listen.clients;
    let listener = TcpListener::bind(clients)
        .await
        .map_err(|error| format!("cannot listen on {clients}: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let (directory, is_tls) = (database.directory().to_owned(), tls.is_some());
    let ticket_key = match &cluster {
        Some(cluster) => cluster.ticket_key(),
        None => key::of_service(listen.ticket_key.as_deref(), database.directory())?,
    };
    let snapshots = listen.snapshots;
    let offer =
        Offer { ticket_key, snapshots, advertised: listen.advertised, cluster: cluster.clone() };
    let service = Service::new(database, &memory, offer);
    let service = service.map_err(|status| status.message().to_owned())?;
    let sessions_of_nodes = service.state().sessions().named("node");
    let metrics = Metrics::new(service.state().sessions().named("metrics"));
    let clock = Arc::clone(service.state().database().clock());
    let health = Health::new(Arc::clone(&metrics), clock);
    let limits = listen.limits;
    let connections = Connections::new(memory.connections, limits.connections);
    let incoming = incoming(&connections, listener, service.state(), (tls, limits.idle));
    let service = FlightServiceServer::new(Guard::new(Front(service), rules))
        .max_decoding_message_size(limits.message_bytes)
        .max_encoding_message_size(usize::MAX);
    let service = Calls::new(service, connections.clone(), limits.message_bytes);
    let health = Calls::new(health, connections.clone(), limits.message_bytes);
    let reflection = Calls::new(reflection::newer(), connections.clone(), limits.message_bytes);
    let older_reflection =
        Calls::new(reflection::older(), connections.clone(), limits.message_bytes);
    let worker = cluster.clone().zip(sessions_of_nodes.worker().cloned());
    let worker = worker.map(|(cluster, worker)| {
        let worker = ForNodes::new(worker.into_worker_server(), cluster);
        Calls::new(worker, connections.clone(), usize::MAX)
    });
    let nodes = cluster.map(|cluster| {
        let node = ForNodes::new(Node::new(sessions_of_nodes), cluster);
        Calls::new(node, connections, usize::MAX)
    });
    let server = Server::builder()
        .http2_keepalive_interval(Some(limits.keepalive))
        .http2_keepalive_timeout(Some(limits.keepalive))
        .max_concurrent_streams(limits.streams)
        .add_service(service)
        .add_service(health)
        .add_service(reflection)
        .add_service(older_reflection)
        .add_optional_service(nodes)
        .add_optional_service(worker)
        .serve_with_incoming_shutdown(incoming, async {
            // An error means that the sender is gone, which is a reason to stop too.
            let _ = stopped.await;
        });
    tell_line!("listening on {address}");
    if let Some(listen) = listen.metrics {
        metrics.listen(listen).await?;
    }
    let _announced = Announced::new(&directory, address, is_tls);
    server.await.map_err(|error| error.to_string())
}

/// Reads the files of TLS again at each SIGHUP.
async fn reload_when_told(mut told: Signal, tls: Option<Arc<Tls>>) {
    while told.recv().await.is_some() {
        match tls.as_ref().map(|tls| tls.reload()) {
            None => {}
            Some(Ok(())) => tell_line!("read the certificates again"),
            Some(Err(error)) => tell_line!("warning: the certificates stay as they were: {error}"),
        }
    }
}

/// A connection that is ready for bytes.
struct Secured {
    bytes: Box<dyn Bytes>,
    certificate: Option<Arc<str>>,
    peer: IpAddr,
    place: OwnedSemaphorePermit,
    is_refused: bool,
}

/// A connection behind its handshake, where there is one; `None` where that fails.
async fn secured(accepted: std::io::Result<Accepted>, tls: Option<Arc<Tls>>) -> Option<Secured> {
    let Accepted { stream, peer, place, is_refused } = accepted.ok()?;
    let (bytes, certificate): (Box<dyn Bytes>, _) = match tls {
        None => (Box::new(stream), None),
        Some(tls) => match tls.accept(stream).await {
            Ok((stream, name)) => (Box::new(stream), name.map(Arc::from)),
            Err(error) => {
                tracing::debug!(%error, %peer, "a handshake of TLS failed");
                return None;
            }
        },
    };
    Some(Secured { bytes, certificate, peer, place, is_refused })
}

/// Connections as they come. Their sessions are told when they are closed.
fn incoming(
    connections: &Connections,
    listener: TcpListener,
    state: &Arc<dyn State>,
    (tls, idle_max): (Option<Arc<Tls>>, Duration),
) -> impl Stream<Item = std::io::Result<Wire>> + use<> {
    let (state, mut last) = (Arc::clone(state), 0);
    let closed = Arc::clone(&state);
    let on_close: Arc<dyn Fn(Connection) + Send + Sync> =
        Arc::new(move |connection| closed.sessions().connection_closed(connection));
    let secured = connections.accept(listener).map(move |accepted| secured(accepted, tls.clone()));
    secured.buffer_unordered(HANDSHAKES_MAX).filter_map(std::future::ready).map(move |secured| {
        let Secured { bytes, certificate, peer, place, is_refused } = secured;
        last += 1;
        let connection = match is_refused {
            true => Connection::refused(last),
            false => {
                state.sessions().connection_opened(Connection(last));
                Connection(last)
            }
        };
        // One that is refused keeps no place of those that are told so.
        let idle_max = if is_refused { BEGIN_PATIENCE } else { idle_max };
        let activity = Some(Activity::new(Arc::clone(state.database().clock()), idle_max));
        let link = Link { connection, peer: Some(peer), certificate, activity };
        Ok(Wire::new((bytes, place), link, Arc::clone(&on_close), BEGIN_PATIENCE))
    })
}
