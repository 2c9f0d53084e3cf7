//! What is told on stderr, as far as that takes it.
//!
//! The macros of the standard library panic when the disk behind stderr is full. A server must
//! outlive that, and the statement that was told of has run.
//!
//! Where stderr is a pipe that nobody reads, a write waits for good. A server hands its lines to a
//! thread that writes them ([`hand_over`]): only that one waits, and lines that find no room are
//! lost. For a person the caller writes itself, so lines come in the order of what was done.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};

/// Most lines that wait for the thread: some MB.
const LINES_MAX: usize = 10_000;

static HANDED_OVER: Mutex<Option<(NonBlocking, WorkerGuard)>> = Mutex::new(None);

/// From now on a thread of its own writes to stderr, until the end of the [`HandedOver`].
pub(crate) fn hand_over() -> HandedOver {
    let (lines, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(LINES_MAX)
        .thread_name("stderr")
        .finish(io::stderr());
    *HANDED_OVER.lock().unwrap_or_else(PoisonError::into_inner) = Some((lines, guard));
    HandedOver(())
}

/// Its drop waits a second at most for what was not written yet.
#[must_use]
pub(crate) struct HandedOver(());

impl Drop for HandedOver {
    fn drop(&mut self) {
        flush();
    }
}

/// Has the thread write what it has, for a second at most; later lines are written by the caller.
pub(crate) fn flush() {
    let handed_over = HANDED_OVER.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some((mut lines, guard)) = handed_over else { return };
    let lost = lines.error_counter().dropped_lines();
    if lost > 0 {
        let _ = writeln!(lines, "{lost} lines of the log are lost: nobody read those before");
    }
    drop(guard);
}

/// What takes a line for stderr.
pub(crate) fn writer() -> Box<dyn Write> {
    match &*HANDED_OVER.lock().unwrap_or_else(PoisonError::into_inner) {
        Some((lines, _)) => Box::new(lines.clone()),
        None => Box::new(io::stderr()),
    }
}

/// Writes a text at once, where stderr takes it.
pub(crate) fn write(text: &str) {
    // There is nobody left to tell that nobody can be told.
    let _ = writer().write_all(text.as_bytes());
}

/// Writes to stderr, as `eprint!` does.
macro_rules! tell {
    ($($part:tt)*) => {{
        $crate::stderr::write(&format!($($part)*));
    }};
}

/// Writes a line to stderr, as `eprintln!` does.
macro_rules! tell_line {
    ($($part:tt)*) => {{
        $crate::stderr::write(&format!("{}\n", format_args!($($part)*)));
    }};
}

pub(crate) use {tell, tell_line};
