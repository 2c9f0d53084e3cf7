//! What shards and snapshots know of logged batches: how many there are, and whether their files
//! stay.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tokio::sync::RwLock;

/// The logged batches of all shards.
#[derive(Debug)]
pub(in crate::database) struct LoggedBatches {
    /// Those that a start would apply again. One more while the database opens.
    pub count: AtomicUsize,
    /// Whoever removes a file reads; while a snapshot writes, all files stay.
    pub files: RwLock<()>,
}

impl LoggedBatches {
    pub fn new() -> Arc<Self> {
        Arc::new(LoggedBatches { count: AtomicUsize::new(1), files: RwLock::new(()) })
    }
}
