//! How many connections there may be, and what those beyond that are told.
//!
//! Invariant: accepting never ends but with the service. A shortage of descriptors is waited out,
//! and said once when it begins: clients wait in the queue of the kernel meanwhile.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

use super::Link;
use crate::flight::error::refusal;
use crate::stderr::tell_line;

/// What a connection takes: buffers of both sides, and what its calls have beside their batches.
const CONNECTION_BYTES: usize = 64 << 10;
/// Connections that are told why they are refused; more are closed at once.
const REFUSED_MAX: usize = 64;
/// When to come again where there is no room.
const RETRY: Duration = Duration::from_secs(1);
/// Pause while no connection can be accepted.
const PAUSE: Duration = Duration::from_millis(100);
/// Errors of a shortage: of descriptors of the process or the system, of buffers, of memory.
const SHORTAGES: [i32; 4] = [24, 23, 105, 12];

/// How many connections there may be.
#[derive(Debug, Clone)]
pub(in crate::flight) struct Connections {
    room: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    connections_max: usize,
    /// Whether it is memory that says how many there may be.
    is_by_memory: bool,
}

impl Connections {
    /// As many as there is room for in `bytes`, and no more than are `wanted`.
    pub(in crate::flight) fn new(bytes: usize, wanted: Option<usize>) -> Self {
        let room = (bytes / CONNECTION_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        let connections_max = wanted.map_or(room, |wanted| wanted.clamp(1, room));
        Connections {
            room: Arc::new(Semaphore::new(connections_max)),
            refusals: Arc::new(Semaphore::new(REFUSED_MAX)),
            connections_max,
            is_by_memory: connections_max == room,
        }
    }

    /// Refuses a call of a connection that there is no room for.
    pub(super) fn check(&self, link: &Link) -> Result<(), Status> {
        if !link.connection.is_refused() {
            return Ok(());
        }
        let (why, remedy) = match self.is_by_memory {
            true => ("there is memory for", "give the service more memory (--memory)"),
            false => ("may be", "let it have more (serve --connections-max)"),
        };
        let text = format!(
            "{} connections are open, as many as {why}: close some, try again later, or {remedy}",
            self.connections_max
        );
        Err(refusal(text, RETRY))
    }

    /// The connections of a listener, without end.
    pub(in crate::flight) fn accept(
        &self,
        listener: TcpListener,
    ) -> impl Stream<Item = io::Result<Accepted>> + use<> {
        let start = (listener, self.clone(), Shortage::default());
        futures::stream::unfold(start, async |(listener, connections, mut shortage)| {
            loop {
                match listener.accept().await {
                    Ok((stream, peer)) => {
                        shortage.ends();
                        if let Some(accepted) = connections.admit(stream, peer.ip()) {
                            return Some((Ok(accepted), (listener, connections, shortage)));
                        }
                    }
                    Err(error) if error.raw_os_error().is_some_and(is_shortage) => {
                        shortage.goes_on(&error);
                        tokio::time::sleep(PAUSE).await;
                    }
                    // Of one connection, which is gone already.
                    Err(error) => tracing::debug!(%error, "a connection is gone again"),
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

/// Whether an error of the operating system, by its number, passes when something is closed.
fn is_shortage(code: i32) -> bool {
    SHORTAGES.contains(&code)
}

/// Whether no connection can be accepted at the moment.
#[derive(Default)]
struct Shortage {
    is_on: bool,
}

impl Shortage {
    /// No connection could be accepted. Returns whether that is new.
    fn goes_on(&mut self, error: &io::Error) -> bool {
        let is_new = !std::mem::replace(&mut self.is_on, true);
        if is_new {
            tell_line!(
                "warning: no connection can be accepted ({error}), new ones wait: close some, or \
                 raise the limit of open files (ulimit -n)"
            );
        }
        is_new
    }

    /// One was accepted.
    fn ends(&mut self) {
        if std::mem::take(&mut self.is_on) {
            tell_line!("connections are accepted again");
        }
    }
}

/// A connection that was accepted, and its place among all.
pub(in crate::flight) struct Accepted {
    pub(in crate::flight) stream: TcpStream,
    pub(in crate::flight) peer: IpAddr,
    pub(in crate::flight) place: OwnedSemaphorePermit,
    /// There is no room for it.
    pub(in crate::flight) is_refused: bool,
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;
    use crate::flight::connections::Connection;

    #[tokio::test]
    async fn connections_beyond_the_limit_are_told_so_and_make_room_as_they_close() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Connections::new(2 * CONNECTION_BYTES, None);
        let mut accepted = Box::pin(connections.accept(listener));
        let mut clients = Vec::new();
        let mut served = Vec::new();
        for _ in 0..3 {
            clients.push(TcpStream::connect(address).await.unwrap());
            served.push(accepted.next().await.unwrap().unwrap());
        }
        let refused: Vec<bool> = served.iter().map(|accepted| accepted.is_refused).collect();
        assert_eq!(refused, [false, false, true]);
        let link = |connection| Link { connection, ..Link::default() };
        let refused = connections.check(&link(Connection::refused(3))).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        assert!(refused.message().contains("2 connections are open"), "{refused}");
        assert!(refused.message().contains("--memory"), "{refused}");
        assert!(connections.check(&Link::default()).is_ok());
        served.remove(0);
        clients.push(TcpStream::connect(address).await.unwrap());
        let next = accepted.next().await.unwrap().unwrap();
        assert!(!next.is_refused);
        assert_eq!(served.pop().map(|refused| refused.is_refused), Some(true));
        assert!(connections.check(&link(Connection(4))).is_ok());
    }

    #[test]
    fn a_refusal_names_the_limit_that_holds() {
        let link = Link { connection: Connection::refused(1), ..Link::default() };
        for (wanted, most, remedy) in [
            (None, 4, "--memory"),
            (Some(9), 4, "--memory"),
            (Some(3), 3, "--connections-max"),
            (Some(0), 1, "--connections-max"),
        ] {
            let connections = Connections::new(4 * CONNECTION_BYTES, wanted);
            let refusal = connections.check(&link).unwrap_err();
            let begin = format!("{most} connections are open");
            assert!(refusal.message().starts_with(&begin), "{refusal}");
            assert!(refusal.message().contains(remedy), "{refusal}");
        }
    }

    #[test]
    fn a_shortage_is_said_once_until_it_is_over() {
        let mut shortage = Shortage::default();
        let error = io::Error::from_raw_os_error(24);
        assert!(error.raw_os_error().is_some_and(is_shortage));
        let told: Vec<bool> = (0..3).map(|_| shortage.goes_on(&error)).collect();
        assert_eq!(told, [true, false, false]);
        shortage.ends();
        assert!(shortage.goes_on(&error));
        // A connection that its client has given up already is none.
        assert!(!io::Error::from_raw_os_error(103).raw_os_error().is_some_and(is_shortage));
    }

    #[tokio::test]
    async fn so_many_are_told_why_and_more_are_closed_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        // As many as fit whole.
        for (bytes, count) in [(1, 1), (2 * CONNECTION_BYTES - 1, 1), (2 * CONNECTION_BYTES + 1, 2)]
        {
            assert_eq!(Connections::new(bytes, None).connections_max, count, "{bytes}");
        }
        // There is always room for one.
        let connections = Connections::new(0, None);
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

    /// By the numbers of Linux: what passes when something is closed, and what does not.
    #[test]
    fn each_shortage_is_waited_out_and_nothing_else() {
        for (code, passes) in [
            (24, true),  // too many open files of the process
            (23, true),  // of the system
            (105, true), // no buffer space
            (12, true),  // no memory
            (103, false),
            (104, false),
            (71, false),
            (22, false),
            (11, false),
            (4, false),
            (1, false),
        ] {
            let error = io::Error::from_raw_os_error(code);
            assert_eq!(is_shortage(code), passes, "{error}");
        }
    }
}
