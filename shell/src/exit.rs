//! Exit codes, and the word before one.

use std::io::Write;

use crate::stderr::tell_line;

/// Exit code of what failed.
pub(crate) const EXIT_FAILED: u8 = 1;
/// Exit code after Ctrl-C: 128 + SIGINT, as shells have it.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;

/// Prints a text on stdout; returns the exit code.
pub(crate) fn print(text: &str) -> u8 {
    match writeln!(std::io::stdout(), "{text}") {
        Ok(()) => 0,
        Err(error) => fail(&format!("cannot write: {error}")),
    }
}

/// Says on stderr what failed; returns the exit code.
pub(crate) fn fail(message: &str) -> u8 {
    tell_line!("error: {message}");
    EXIT_FAILED
}
