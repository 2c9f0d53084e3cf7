//! Connections of clients: how many there are, what each may do, and when one is closed.
//!
//! | file | holds |
//! |---|---|
//! | `accept` | connections as they come, and those that there is no room for |
//! | `wire` | the bytes of one, with its number |
//! | `activity` | its calls, and for how long there was none |
//! | `calls` | each call on its way in and out: it counts, and its messages are bounded |
//!
//! Invariant: whoever holds a place here either makes progress or loses the place in bounded time.
//!
//! | a client | loses its connection, or its call, after |
//! |---|---|
//! | does not begin to speak HTTP/2 | [`BEGIN_PATIENCE`] |
//! | does not send the first message of a call at [`MESSAGE_RATE`] | [`MESSAGE_PATIENCE`] |
//! | has made no call that it was let in for | [`STRANGER_PATIENCE`] without a call |
//! | has nothing under way | [`Limits::idle`] |
//! | does not answer whether it is alive | twice [`Limits::keepalive`] |

mod accept;
mod activity;
mod calls;
mod wire;

use std::time::Duration;

pub(super) use accept::{Accepted, Connections};
pub(super) use activity::Activity;
pub(super) use calls::Calls;
pub(super) use wire::{Bytes, Connection, Link, Wire};

/// How long a client may take to begin to speak HTTP/2.
pub(super) const BEGIN_PATIENCE: Duration = Duration::from_secs(10);
/// How long the first message of a call may take, beside what its bytes take at [`MESSAGE_RATE`].
pub(super) const MESSAGE_PATIENCE: Duration = Duration::from_secs(30);
/// Slowest rate of a first message, bytes a second.
pub(super) const MESSAGE_RATE: u64 = 16 << 10;
/// How long a connection may be open without a call while it has made none that was let in.
pub(super) const STRANGER_PATIENCE: Duration = Duration::from_secs(60);

/// What connections may take.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at once; `None` is as many as there is memory for.
    pub connections: Option<usize>,
    /// Calls of one connection that are answered at once; more wait at the client.
    pub streams: u32,
    /// Longest message of a client, bytes.
    pub message_bytes: usize,
    /// How long a connection may have no call; zero is for ever.
    pub idle: Duration,
    /// How often a silent client is asked whether it is alive, and how long it has for an answer.
    pub keepalive: Duration,
}
