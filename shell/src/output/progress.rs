//! One line about long work, rewritten in place on a terminal.
//!
//! Invariant: nothing is written to a pipe, and nothing of a statement before [`QUIET_MS`] have
//! passed.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// How long a statement may take before it says what it does, milliseconds.
pub const QUIET_MS: u64 = 2000;
/// Least time between two lines, milliseconds.
pub const INTERVAL_MS: u64 = 200;

/// How far a statement or a tool has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    pub rows: u64,
    pub bytes: u64,
    /// Size of the whole input where it is known.
    pub bytes_total: Option<u64>,
}

/// Draws [`Progress`] on stderr.
#[derive(Debug)]
pub struct ProgressLine {
    is_terminal: bool,
    drawn: bool,
}

impl ProgressLine {
    /// A line on stderr, mute unless that is a terminal.
    pub fn new() -> Self {
        ProgressLine { is_terminal: io::stderr().is_terminal(), drawn: false }
    }

    /// Draws `progress` as it stands `elapsed` after the start of the statement.
    pub fn draw(&mut self, progress: Progress, elapsed: Duration) {
        if elapsed < Duration::from_millis(QUIET_MS) || progress.bytes == 0 {
            return;
        }
        self.show(&line(progress, elapsed));
    }

    /// Shows a text, at once.
    pub fn show(&mut self, text: &str) {
        if !self.is_terminal {
            return;
        }
        self.drawn = true;
        // A failed write to stderr must not stop the work.
        let _ = write!(io::stderr(), "\r{text}\x1b[K");
        let _ = io::stderr().flush();
    }

    /// Takes the line away.
    pub fn clear(&mut self) {
        if self.drawn {
            let _ = write!(io::stderr(), "\r\x1b[K");
            let _ = io::stderr().flush();
            self.drawn = false;
        }
    }
}

impl Default for ProgressLine {
    fn default() -> Self {
        ProgressLine::new()
    }
}

fn line(progress: Progress, elapsed: Duration) -> String {
    let rate = (progress.rows as f64 / elapsed.as_secs_f64().max(0.001)) as u64;
    let megabytes = progress.bytes as f64 / 1e6;
    let share = match progress.bytes_total {
        Some(total) if total > 0 => {
            format!(", {:.0} %", 100.0 * (progress.bytes as f64 / total as f64).min(1.0))
        }
        _ => String::new(),
    };
    format!("{} rows, {megabytes:.1} MB{share}, {rate} rows/s", progress.rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_rows_bytes_share_and_rate() {
        let progress = Progress { rows: 30_000, bytes: 2_500_000, bytes_total: Some(10_000_000) };
        let text = line(progress, Duration::from_secs(3));
        assert_eq!(text, "30000 rows, 2.5 MB, 25 %, 10000 rows/s");
        let unknown = Progress { bytes_total: None, ..progress };
        assert_eq!(line(unknown, Duration::from_secs(3)), "30000 rows, 2.5 MB, 10000 rows/s");
    }

    #[test]
    fn a_share_is_told_of_what_has_a_size_and_is_never_more_than_all() {
        let at = |bytes, total| {
            let progress = Progress { rows: 10, bytes, bytes_total: Some(total) };
            line(progress, Duration::from_secs(5))
        };
        assert_eq!(at(3_000_000, 2_000_000), "10 rows, 3.0 MB, 100 %, 2 rows/s");
        assert_eq!(at(1_000_000, 0), "10 rows, 1.0 MB, 2 rows/s");
        // Nothing is divided by zero.
        let now = line(Progress { rows: 1, bytes: 1, bytes_total: None }, Duration::ZERO);
        assert_eq!(now, "1 rows, 0.0 MB, 1000 rows/s");
    }

    #[test]
    fn a_pipe_is_told_nothing_and_a_terminal_nothing_of_short_statements() {
        let some = Progress { rows: 1, bytes: 1, bytes_total: None };
        let (quiet, over) = (Duration::from_millis(QUIET_MS - 1), Duration::from_millis(QUIET_MS));
        let drawn = |is_terminal, progress, elapsed| {
            let mut line = ProgressLine { is_terminal, drawn: false };
            line.draw(progress, elapsed);
            let drawn = line.drawn;
            line.clear();
            assert!(!line.drawn, "it is taken away");
            drawn
        };
        assert!(drawn(true, some, over));
        assert!(!drawn(true, some, quiet) && !drawn(false, some, over));
        assert!(!drawn(true, Progress { bytes: 0, ..some }, over), "nothing has come yet");
    }
}
