//! Connections of clients, each with a number of its own.
//!
//! Invariant: no two connections of a service have one number, and who waits for the end of one is
//! told when it is closed. Addresses would not do: a port is taken again. A client that does not
//! begin to speak HTTP/2 in time holds no place for longer, nor does one that has had no call for
//! too long. The latter reads an end, as of a service that closes a connection which is not used.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};
use tokio_rustls::server::TlsStream;
use tonic::Request;
use tonic::transport::server::Connected;

use super::Activity;

/// What a client of HTTP/2 sends first.
const PREFACE_BYTES: usize = 24;

/// How often a connection is looked at that may be without a call for ever.
const LOOKS: Duration = Duration::from_secs(24 * 3600);

/// Names a connection; 0 stands for none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::flight) struct Connection(pub u64);

/// Marks the numbers of connections that there is no room for.
const REFUSED: u64 = 1 << 63;

impl Connection {
    /// A connection that there is no room for.
    pub(in crate::flight) fn refused(number: u64) -> Self {
        Connection(number | REFUSED)
    }

    /// Whether there is no room for it.
    pub(in crate::flight) fn is_refused(self) -> bool {
        self.0 & REFUSED != 0
    }
}

/// What is known of a connection.
#[derive(Clone, Default)]
pub(in crate::flight) struct Link {
    pub connection: Connection,
    pub peer: Option<IpAddr>,
    /// The common name of the client's certificate, which was verified.
    pub certificate: Option<Arc<str>>,
    /// Its calls; `None` where nobody counts them.
    pub activity: Option<Arc<Activity>>,
}

impl Link {
    /// That of a request.
    pub(in crate::flight) fn of<T>(request: &Request<T>) -> Link {
        request.extensions().get::<Link>().cloned().unwrap_or_default()
    }
}

/// A way for bytes, plain or encrypted.
pub(in crate::flight) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl Bytes for TcpStream {}
impl Bytes for TlsStream<TcpStream> {}

/// The bytes of a connection.
pub(in crate::flight) struct Wire {
    stream: Box<dyn Bytes>,
    link: Link,
    on_close: Arc<dyn Fn(Connection) + Send + Sync>,
    /// Until when the client has to have begun, and how many bytes are still to come until it has.
    /// Later the keepalive of HTTP/2 asks whether it is alive.
    begins: Option<(Pin<Box<Sleep>>, usize)>,
    /// When its calls are looked at next.
    looks: Pin<Box<Sleep>>,
    /// Its place among all.
    _place: OwnedSemaphorePermit,
}

impl Wire {
    /// A wire that calls `on_close` when it is dropped. The client has `patience` to begin.
    pub(in crate::flight) fn new(
        (stream, place): (Box<dyn Bytes>, OwnedSemaphorePermit),
        link: Link,
        on_close: Arc<dyn Fn(Connection) + Send + Sync>,
        patience: Duration,
    ) -> Self {
        let begins = Some((Box::pin(tokio::time::sleep(patience)), PREFACE_BYTES));
        let left = link.activity.as_ref().and_then(|activity| activity.left());
        let looks = Box::pin(tokio::time::sleep(left.unwrap_or(LOOKS)));
        Wire { stream, link, on_close, begins, looks, _place: place }
    }

    /// Whether the client has had its time to begin.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let begins = self.begins.as_mut();
        begins.is_some_and(|(until, _)| until.as_mut().poll(context).is_ready())
    }

    /// Whether it has had no call for as long as it may.
    fn is_unused(&mut self, context: &mut Context<'_>) -> bool {
        while self.looks.as_mut().poll(context).is_ready() {
            let left = self.link.activity.as_ref().and_then(|activity| activity.left());
            match left {
                Some(left) if left.is_zero() => return true,
                left => self.looks.as_mut().reset(Instant::now() + left.unwrap_or(LOOKS)),
            }
        }
        false
    }

    /// So many bytes came from the client.
    fn note(&mut self, bytes: usize) {
        self.begins = match self.begins.take() {
            Some((until, left)) if left > bytes => Some((until, left - bytes)),
            _ => None,
        };
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        (self.on_close)(self.link.connection);
    }
}

impl Connected for Wire {
    type ConnectInfo = Link;

    fn connect_info(&self) -> Link {
        self.link.clone()
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_late(context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        if self.is_unused(context) {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.note(buffer.filled().len() - before);
        read
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_engine::clock::{Clock, SimulatedClock};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::Semaphore;

    use super::*;

    async fn wire(patience: Duration, activity: Option<Arc<Activity>>) -> (TcpStream, Wire) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let place = (Box::new(stream) as Box<dyn Bytes>, place);
        let link = Link { activity, ..Link::default() };
        (client, Wire::new(place, link, Arc::new(|_| ()), patience))
    }

    #[tokio::test]
    async fn a_connection_without_a_call_ends_and_one_with_a_call_does_not() {
        let (clock, hour) = (SimulatedClock::new(1), Duration::from_secs(3600));
        let activity = Activity::new(Arc::clone(&clock) as Arc<dyn Clock>, hour);
        activity.let_in();
        clock.advance(hour);
        let (mut client, mut unused) = wire(hour, Some(Arc::clone(&activity))).await;
        let mut bytes = [0; PREFACE_BYTES];
        assert_eq!(unused.read(&mut bytes).await.unwrap(), 0, "it reads an end");
        let call = activity.begin();
        client.write_all(&[1; PREFACE_BYTES]).await.unwrap();
        assert_eq!(unused.read(&mut bytes).await.unwrap(), PREFACE_BYTES);
        drop(call);
    }

    #[tokio::test]
    async fn a_client_has_to_begin_in_time_and_then_has_all_the_time() {
        let mut bytes = [0; PREFACE_BYTES];
        let (_client, mut silent) = wire(Duration::ZERO, None).await;
        let late = silent.read(&mut bytes).await.unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        let (mut client, mut wire) = wire(Duration::from_secs(3600), None).await;
        client.write_all(&[1; PREFACE_BYTES - 1]).await.unwrap();
        wire.read_exact(&mut bytes[1..]).await.unwrap();
        assert!(wire.begins.as_ref().is_some_and(|(_, left)| *left == 1));
        client.write_all(&[1]).await.unwrap();
        wire.read_exact(&mut bytes[..1]).await.unwrap();
        assert!(wire.begins.is_none());
    }

    /// Sessions of a connection and its place among all end with it.
    #[tokio::test]
    async fn the_end_of_a_connection_is_told_once_and_its_place_is_free_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let room = Arc::new(Semaphore::new(1));
        let place = Arc::clone(&room).try_acquire_owned().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let on_close = Arc::new(move |connection: Connection| tell.send(connection).unwrap());
        let link = Link { connection: Connection(7), ..Link::default() };
        let bytes = (Box::new(stream) as Box<dyn Bytes>, place);
        let wire = Wire::new(bytes, link, on_close, Duration::from_secs(3600));
        assert_eq!(wire.connect_info().connection, Connection(7));
        assert!(told.try_recv().is_err() && room.available_permits() == 0);
        drop(wire);
        assert_eq!(told.iter().collect::<Vec<_>>(), [Connection(7)]);
        assert_eq!(room.available_permits(), 1);
    }
}
