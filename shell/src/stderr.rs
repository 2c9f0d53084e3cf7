//! What is told on stderr, as far as that takes it.
//!
//! The macros of the standard library panic when the disk behind stderr is full. A server must
//! outlive that, and the statement that was told of has run.
//!
//! Where stderr is a pipe that nobody reads, a write waits for good. A server hands its lines to a
//! thread that writes them ([`hand_over`]): only that one waits, and lines that find no room are
//! lost. For a person the caller writes itself, so lines come in the order of what was done.
//!
//! Where the log is read by programs, a server tells its lines as lines of the log
//! ([`tell_in_log`]), so that all of stderr has one form.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};

/// Most lines that wait for the thread.
const LINES_MAX: usize = 10_000;
/// How long the end of the process waits for lines that were not written yet.
const FLUSH: Duration = Duration::from_secs(1);

/// The target of lines that are told in the log.
pub(crate) const TOLD: &str = "told";

static WRITER: Mutex<Writer> = Mutex::new(Writer::Own);
static IN_LOG: AtomicBool = AtomicBool::new(false);

/// Who writes a line.
enum Writer {
    /// Whoever has it.
    Own,
    Thread(NonBlocking, WorkerGuard),
    /// Nobody: the thread may still wait for a reader, and so would everybody else.
    Nobody,
}

fn exchange(writer: Writer) -> Writer {
    std::mem::replace(&mut *WRITER.lock().unwrap_or_else(PoisonError::into_inner), writer)
}

/// From now on a thread of its own writes to stderr, until the end of the [`HandedOver`].
pub(crate) fn hand_over() -> HandedOver {
    let (lines, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(LINES_MAX)
        .thread_name("stderr")
        .finish(io::stderr());
    exchange(Writer::Thread(lines, guard));
    HandedOver(())
}

/// Its drop waits a moment for what was not written yet.
#[must_use]
pub(crate) struct HandedOver(());

impl Drop for HandedOver {
    fn drop(&mut self) {
        flush();
    }
}

/// Has the thread write what it has, for a moment at most. Later lines go nowhere: a guard that
/// gave up does not say so, and whoever wrote a line would wait behind the thread.
pub(crate) fn flush() {
    let Writer::Thread(mut lines, guard) = exchange(Writer::Nobody) else { return };
    let lost = lines.error_counter().dropped_lines();
    if lost > 0 {
        let told = format!("{lost} lines of the log are lost: nobody read those before\n");
        // Where there is no room for it either, nobody reads it.
        let _ = lines.write_all(told.as_bytes());
    }
    // The guard prints to stdout where the thread does not end, and that may be the same pipe.
    let (done, is_done) = channel();
    let end = move || {
        drop(guard);
        // Whoever waited may have left.
        let _ = done.send(());
    };
    // If no thread starts, or the time is over, what was not written is lost.
    let _ = thread::Builder::new().name("end of stderr".to_owned()).spawn(end);
    let _ = is_done.recv_timeout(FLUSH);
}

/// What takes a line for stderr.
pub(crate) fn writer() -> Box<dyn Write> {
    match &*WRITER.lock().unwrap_or_else(PoisonError::into_inner) {
        Writer::Own => Box::new(io::stderr()),
        Writer::Thread(lines, _) => Box::new(lines.clone()),
        Writer::Nobody => Box::new(io::sink()),
    }
}

/// Writes a text at once, where stderr takes it.
pub(crate) fn write(text: &str) {
    // There is nobody left to tell that nobody can be told.
    let _ = writer().write_all(text.as_bytes());
}

/// From now on lines that are told are lines of the log, which has begun.
pub(crate) fn tell_in_log() {
    IN_LOG.store(true, Ordering::Relaxed);
}

/// Tells a line. Its first word says how grave it is.
pub(crate) fn write_line(line: &str) {
    if !IN_LOG.load(Ordering::Relaxed) {
        return write(&format!("{line}\n"));
    }
    if let Some(rest) = line.strip_prefix("error: ") {
        tracing::error!(target: TOLD, "{rest}");
    } else if let Some(rest) = line.strip_prefix("warning: ") {
        tracing::warn!(target: TOLD, "{rest}");
    } else {
        tracing::info!(target: TOLD, "{line}");
    }
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
        $crate::stderr::write_line(&format!($($part)*));
    }};
}

pub(crate) use {tell, tell_line};
