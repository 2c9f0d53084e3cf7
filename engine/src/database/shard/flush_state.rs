//! The state of a shard's flushes. Not here: decisions and actions (`flushing.rs`).

use std::cell::{Cell, RefCell};
use std::time::Duration;

use tokio::sync::Notify;

use crate::error::Error;

/// See the head of this file.
#[derive(Default)]
pub(in crate::database) struct Flushing {
    /// A background flush is running.
    pub(super) is_running: Cell<bool>,
    pub(super) flushed: Notify,
    /// What the last flush in the background met, if it concerns all tables.
    pub(super) error: RefCell<Option<Error>>,
    /// Bytes of memtables of tables that cannot be flushed.
    pub(super) stuck_bytes: Cell<usize>,
    /// When those are tried again, by the monotonic clock, and the pause after that.
    pub(super) retry: Cell<Option<(u64, Duration)>>,
}
