//! Threads that run statements, with the stack that these need.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// Bytes of stack of every thread that runs statements. Planning takes some KiB a level of an
/// expression, most of it without optimisation; this is several times what the deepest statement
/// takes that the parser lets through. Pages that are never touched cost nothing.
pub(crate) const STACK_BYTES: usize = 32 << 20;

/// A pool of threads with timers, signals and sockets.
///
/// Errors: when the operating system gives no threads.
pub(crate) fn pool() -> io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().thread_stack_size(STACK_BYTES).build()
}
