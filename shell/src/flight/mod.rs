//! Arrow Flight SQL: ADBC, JDBC and pyarrow clients on the same engine as the shell.
//!
//! Invariant: only addresses of this machine are served, for there are no users and no TLS yet.
//! `statement` says which call runs what; `service` lists the calls.

mod error;
mod ingest;
mod metadata;
mod service;
mod session;
mod session_option;
mod sql_info;
mod statement;
mod stream;

use std::net::SocketAddr;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use tidegate_engine::Database;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use self::service::Service;

/// Largest message taken from a client: one batch of an ingest.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// How long running statements may go on after the first signal to stop.
const DRAIN_SECONDS_MAX: u64 = 10;

/// Serves `database` on `listen` until Ctrl-C or SIGTERM; then no call is taken any more, running
/// ones may end within [`DRAIN_SECONDS_MAX`], and a second signal ends them at once. The database
/// stays open.
///
/// Errors: a sentence when the address cannot be used.
pub async fn serve(database: Database, listen: SocketAddr) -> Result<(), String> {
    assert!(listen.ip().is_loopback(), "the command line takes loopback addresses only");
    let listener = TcpListener::bind(listen)
        .await
        .map_err(|error| format!("cannot listen on {listen}: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let listening = |error: std::io::Error| format!("cannot listen to signals: {error}");
    let mut interrupt = signal(SignalKind::interrupt()).map_err(listening)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(listening)?;

    let service = Service::new(database).map_err(|status| status.message().to_owned())?;
    let service = FlightServiceServer::new(service)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(usize::MAX);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = Server::builder().add_service(service).serve_with_incoming_shutdown(
        TcpIncoming::from(listener).with_nodelay(Some(true)),
        async {
            // An error means that `stop` is gone, which is a reason to stop too.
            let _ = stopped.await;
        },
    );
    eprintln!("listening on {address}");

    tokio::pin!(server);
    tokio::select! {
        ended = &mut server => return ended.map_err(|error| error.to_string()),
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    eprintln!("stopping");
    drop(stop);
    tokio::select! {
        ended = &mut server => ended.map_err(|error| error.to_string()),
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
        () = tokio::time::sleep(Duration::from_secs(DRAIN_SECONDS_MAX)) => Ok(()),
    }
}
