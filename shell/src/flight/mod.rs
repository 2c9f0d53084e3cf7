//! Arrow Flight SQL: ADBC, JDBC and pyarrow clients on the same engine as the shell.
//!
//! Invariant: only addresses of this machine are served, for there are no users and no TLS yet.
//! `statement` says which call runs what; `service` lists the calls.

mod admission;
mod error;
mod exchange;
mod front;
mod ingest;
mod kept;
mod metadata;
mod outgoing;
mod planning;
mod running;
mod seal;
mod service;
mod session;
mod sql_info;
mod statement;
mod stream;
mod ticket;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use futures::{Stream, TryStreamExt};
use tidegate_engine::Database;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;

pub use self::exchange::client::{Exchange, prepare};

use self::admission::Connections;
use self::front::Front;
use self::service::{Service, State};
use self::session::connection::{Connection, Wire};
use crate::memory::MemoryPlan;
use crate::metrics::Metrics;
use crate::stderr::tell_line;

/// Largest message taken from a client: one batch of an ingest.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// How long running statements may go on after the first signal to stop.
const DRAIN_SECONDS_MAX: u64 = 3;
/// How long connections may take to let go of what they hold once they are cut.
const CUT_SECONDS_MAX: u64 = 1;
/// How often a silent connection is asked whether it is alive, and how long for an answer.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Where the service listens.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// For clients.
    pub clients: SocketAddr,
    /// For what asks for metrics, if that is served.
    pub metrics: Option<SocketAddr>,
}

/// Serves `database` on these addresses, to so many connections as `memory` has room for, until
/// Ctrl-C or SIGTERM; then no call is taken any more, running ones may end within
/// [`DRAIN_SECONDS_MAX`], and what is left is cut: a client that does not read its answer keeps
/// nobody waiting. A second signal ends the process at once, with 128 and the signal's number as
/// its code. The database stays open.
///
/// Errors: a sentence when the address cannot be used.
pub async fn serve(
    database: Database,
    memory: MemoryPlan,
    listen: Addresses,
) -> Result<(), String> {
    let mut all = [Some(listen.clients), listen.metrics].into_iter().flatten();
    let is_local = all.all(|address| address.ip().is_loopback());
    assert!(is_local, "the command line takes loopback addresses only");
    let listening = |error: std::io::Error| format!("cannot listen to signals: {error}");
    let mut interrupt = signal(SignalKind::interrupt()).map_err(listening)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(listening)?;

    // Connections are tasks of their own, which outlive the server; they end with their threads.
    let threads =
        crate::thread::pool().map_err(|error| format!("cannot start threads: {error}"))?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let mut server = threads.spawn(listen_until(database, memory, listen, stopped));
    let ended = tokio::select! {
        ended = &mut server => Some(ended),
        _ = interrupt.recv() => None,
        _ = terminate.recv() => None,
    };
    let ended = match ended {
        Some(ended) => Some(ended),
        None => {
            tell_line!("stopping");
            // Until the process ends: closing the database may take its time too.
            tokio::spawn(async move {
                let code = tokio::select! {
                    _ = interrupt.recv() => 128 + SignalKind::interrupt().as_raw_value(),
                    _ = terminate.recv() => 128 + SignalKind::terminate().as_raw_value(),
                };
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
    database: Database,
    memory: MemoryPlan,
    listen: Addresses,
    stopped: tokio::sync::oneshot::Receiver<()>,
) -> Result<(), String> {
    let clients = listen.clients;
    let listener = TcpListener::bind(clients)
        .await
        .map_err(|error| format!("cannot listen on {clients}: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let service = Service::new(database, &memory).map_err(|status| status.message().to_owned())?;
    let metrics = Metrics::new(service.state().sessions().named("metrics"));
    let connections = Connections::new(memory.connections);
    let incoming = incoming(&connections, listener, service.state());
    let service = FlightServiceServer::new(Front(service))
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(usize::MAX);
    let service = InterceptedService::new(service, move |request| connections.check(request));
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .add_service(service)
        .serve_with_incoming_shutdown(incoming, async {
            // An error means that the sender is gone, which is a reason to stop too.
            let _ = stopped.await;
        });
    tell_line!("listening on {address}");
    if let Some(listen) = listen.metrics {
        metrics.listen(listen).await?;
    }
    server.await.map_err(|error| error.to_string())
}

/// Connections as they come. Their sessions are told when they are closed.
fn incoming(
    connections: &Connections,
    listener: TcpListener,
    state: &Arc<dyn State>,
) -> impl Stream<Item = std::io::Result<Wire>> + use<> {
    let (state, mut last) = (Arc::clone(state), 0);
    let closed = Arc::clone(&state);
    let on_close: Arc<dyn Fn(Connection) + Send + Sync> =
        Arc::new(move |connection| closed.sessions().connection_closed(connection));
    connections.accept(listener).map_ok(move |accepted| {
        last += 1;
        let connection = if accepted.is_refused {
            Connection::refused(last)
        } else {
            state.sessions().connection_opened(Connection(last));
            Connection(last)
        };
        Wire::new((accepted.stream, accepted.place), connection, Arc::clone(&on_close))
    })
}
