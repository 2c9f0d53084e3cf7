//! Connections of clients, each with a number of its own.
//!
//! Invariant: no two connections of a service have one number, and who waits for the end of one is
//! told when it is closed. Addresses would not do: a port is taken again.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tonic::transport::server::Connected;

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

/// The bytes of a connection.
pub(in crate::flight) struct Wire {
    stream: TcpStream,
    connection: Connection,
    on_close: Arc<dyn Fn(Connection) + Send + Sync>,
    /// Its place among all.
    _place: OwnedSemaphorePermit,
}

impl Wire {
    /// A wire that calls `on_close` when it is dropped.
    pub(in crate::flight) fn new(
        (stream, place): (TcpStream, OwnedSemaphorePermit),
        connection: Connection,
        on_close: Arc<dyn Fn(Connection) + Send + Sync>,
    ) -> Self {
        Wire { stream, connection, on_close, _place: place }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        (self.on_close)(self.connection);
    }
}

impl Connected for Wire {
    type ConnectInfo = Connection;

    fn connect_info(&self) -> Connection {
        self.connection
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
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
