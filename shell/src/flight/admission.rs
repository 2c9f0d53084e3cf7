//! How many connections there may be, and what those beyond that are told.
//!
//! Invariant: accepting never ends but with the service; a shortage of descriptors is waited out.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Request, Status};

use super::session::connection::Link;

/// What a connection takes: buffers of both sides, and what its calls have beside their batches.
const CONNECTION_BYTES: usize = 64 << 10;
/// Connections that are told why they are refused; more are closed at once.
const REFUSED_MAX: usize = 64;
/// Pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// How many connections there may be.
#[derive(Debug, Clone)]
pub(super) struct Connections {
    room: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    connections_max: usize,
}

impl Connections {
    /// As many as there is room for in `bytes`.
    pub(super) fn new(bytes: usize) -> Self {
        let connections_max = (bytes / CONNECTION_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        Connections {
            room: Arc::new(Semaphore::new(connections_max)),
            refusals: Arc::new(Semaphore::new(REFUSED_MAX)),
            connections_max,
        }
    }

    /// Refuses a call of a connection that there is no room for.
    pub(super) fn check(&self, request: Request<()>) -> Result<Request<()>, Status> {
        match Link::of(&request).connection.is_refused() {
            false => Ok(request),
            true => Err(Status::resource_exhausted(format!(
                "{} connections are open, as many as there is memory for: close some, try again \
                 later, or give the service more memory (--memory)",
                self.connections_max
            ))),
        }
    }

    /// The connections of a listener, without end.
    pub(super) fn accept(
        &self,
        listener: TcpListener,
    ) -> impl Stream<Item = io::Result<Accepted>> + use<> {
        let connections = self.clone();
        futures::stream::unfold((listener, connections), async |(listener, connections)| {
            loop {
                match listener.accept().await {
                    Ok((stream, peer)) => {
                        if let Some(accepted) = connections.admit(stream, peer.ip()) {
                            return Some((Ok(accepted), (listener, connections)));
                        }
                    }
                    Err(error) => {
                        // Of one connection that is gone already, or for want of descriptors.
                        tracing::warn!(%error, "a connection cannot be accepted");
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        })
    }

    /// `None` where even saying no would take too much.
    fn admit(&self, stream: TcpStream, peer: IpAddr) -> Option<Accepted> {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection gathers what it sends");
        }
        if let Ok(place) = self.room.clone().try_acquire_owned() {
            return Some(Accepted { stream, peer, place, is_refused: false });
        }
        let place = self.refusals.clone().try_acquire_owned().ok()?;
        Some(Accepted { stream, peer, place, is_refused: true })
    }
}

/// A connection that was accepted, and its place among all.
pub(super) struct Accepted {
    pub(super) stream: TcpStream,
    pub(super) peer: IpAddr,
    pub(super) place: OwnedSemaphorePermit,
    /// There is no room for it.
    pub(super) is_refused: bool,
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;
    use crate::flight::session::connection::Connection;

    #[tokio::test]
    async fn connections_beyond_the_limit_are_told_so_and_make_room_as_they_close() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Connections::new(2 * CONNECTION_BYTES);
        let mut accepted = Box::pin(connections.accept(listener));
        let mut clients = Vec::new();
        let mut served = Vec::new();
        for _ in 0..3 {
            clients.push(TcpStream::connect(address).await.unwrap());
            served.push(accepted.next().await.unwrap().unwrap());
        }
        let refused: Vec<bool> = served.iter().map(|accepted| accepted.is_refused).collect();
        assert_eq!(refused, [false, false, true]);
        let mut request = Request::new(());
        let link = |connection| Link { connection, ..Link::default() };
        request.extensions_mut().insert(link(Connection::refused(3)));
        let refused = connections.check(request).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        assert!(refused.message().contains("2 connections are open"), "{refused}");
        assert!(refused.message().contains("--memory"), "{refused}");
        assert!(connections.check(Request::new(())).is_ok());
        served.remove(0);
        clients.push(TcpStream::connect(address).await.unwrap());
        let next = accepted.next().await.unwrap().unwrap();
        assert!(!next.is_refused);
        assert_eq!(served.pop().map(|refused| refused.is_refused), Some(true));
        let mut request = Request::new(());
        request.extensions_mut().insert(link(Connection(4)));
        assert!(connections.check(request).is_ok());
    }

    #[tokio::test]
    async fn so_many_are_told_why_and_more_are_closed_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        // As many as fit whole.
        for (bytes, count) in [(1, 1), (2 * CONNECTION_BYTES - 1, 1), (2 * CONNECTION_BYTES + 1, 2)]
        {
            assert_eq!(Connections::new(bytes).connections_max, count, "{bytes}");
        }
        // There is always room for one.
        let connections = Connections::new(0);
        let mut accepted = Box::pin(connections.accept(listener));
        let mut clients = Vec::new();
        let mut served = Vec::new();
        for _ in 0..=REFUSED_MAX {
            clients.push(TcpStream::connect(address).await.unwrap());
            served.push(accepted.next().await.unwrap().unwrap());
        }
        let refused = served.iter().filter(|accepted| accepted.is_refused).count();
        assert_eq!((served.len() - refused, refused), (1, REFUSED_MAX));
        let beyond = TcpStream::connect(address).await.unwrap();
        served.pop();
        let next = TcpStream::connect(address).await.unwrap();
        assert!(accepted.next().await.unwrap().unwrap().is_refused, "there is room to say no");
        drop((beyond, next));
    }
}
