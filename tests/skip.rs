//! What a check does that cannot run where it is: it says so, and why.
//!
//! Invariant: no check passes because something is missing without a line here. The file that
//! `TIDEGATE_SKIPS` names collects the lines; `.ci/skips` compares them with what may be skipped.
//! Every crate whose tests may skip includes this file.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// Says that `check` is skipped and why: on stderr, and in the file that `TIDEGATE_SKIPS` names.
///
/// A check's name is its place in `.ci/allowed-skips`: it has no tab, and says nothing of the
/// machine.
///
/// # Panics
/// When the file cannot be written: a skip that nobody learns of is what this is against.
pub fn skip(check: &str, reason: &str) {
    // Past the capture of the test harness, so that a skip is never mistaken for a pass.
    let said = writeln!(std::io::stderr().lock(), "SKIPPED {check}: {reason}");
    said.unwrap_or_else(|error| panic!("{check} is skipped ({reason}), unheard: {error}"));
    if let Some(file) = std::env::var_os("TIDEGATE_SKIPS") {
        record(Path::new(&file), check, reason);
    }
}

/// Appends `check`, a tab, the reason, in one write: tests run side by side.
fn record(file: &Path, check: &str, reason: &str) {
    let line = format!("{check}\t{}\n", reason.replace(['\n', '\t'], " "));
    let open = OpenOptions::new().create(true).append(true).open(file);
    let written = open.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("TIDEGATE_SKIPS, {}: {error}", file.display()));
}
