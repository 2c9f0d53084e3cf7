//! The README's main job: the quickstart, on real data, twice.
//!
//! The whole output is a snapshot. Times are off; counters of policies are marks, since how many
//! events share a call depends on time.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::path::Path;
use std::process::{Command, Stdio};

/// Columns of SHOW POLICIES whose figures differ from run to run.
const COUNTERS: &[&str] = &["calls", "hit_ratio", "evictions"];

fn tidegate(data: &Path, arguments: &[&str]) -> (String, String, bool) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .env_clear()
        .env("HOME", data)
        .env("TIDEGATE_DATA", data)
        .current_dir(root)
        .args(["--shards", "2", "--timing", "off"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.success())
}

/// Puts `#` for counters above zero in tables of policies.
fn marked(output: &str) -> String {
    let mut lines = Vec::new();
    let mut columns: Vec<String> = Vec::new();
    let mut rest = output.lines().peekable();
    while let Some(line) = rest.next() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if !line.starts_with(['|', '+']) {
            columns.clear();
        } else if cells.contains(&"hit_ratio") {
            columns = cells.iter().map(|cell| (*cell).to_owned()).collect();
        }
        let is_row = line.starts_with('|') && columns.len() == cells.len();
        if !is_row {
            let is_of_policies =
                !columns.is_empty() || rest.peek().is_some_and(|next| next.contains("hit_ratio"));
            let is_rule = line.starts_with('+') && is_of_policies;
            lines.push(if is_rule { "+--".to_owned() } else { line.to_owned() });
            continue;
        }
        let cells = columns.iter().zip(&cells).map(|(column, cell)| {
            let is_counted = cell.parse::<f64>().is_ok_and(|figure| figure > 0.0);
            if COUNTERS.contains(&column.as_str()) && is_counted { "#" } else { cell }
        });
        lines.push(format!("| {} |", cells.collect::<Vec<_>>().join(" | ")));
    }
    lines.join("\n")
}

#[test]
fn the_quickstart_runs_and_its_data_is_found_again() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let (out, err, is_ok) = tidegate(&data, &["-f", "examples/quickstart.sql"]);
    assert!(is_ok && err.is_empty(), "{err}");
    insta::assert_snapshot!("quickstart", marked(&out));

    let again = "SELECT origin, count(*) AS hours FROM weather GROUP BY origin ORDER BY origin";
    let (out, err, is_ok) = tidegate(&data, &["--mode", "csv", "-c", again]);
    assert!(is_ok && err.is_empty(), "{err}");
    assert_eq!(out, "origin,hours\nEWR,8703\nJFK,8706\nLGA,8706\n");
    let (out, err, is_ok) = tidegate(&data, &["--mode", "table", "-c", "SHOW POLICIES"]);
    assert!(is_ok && err.ends_with(" rows\n"), "{err}");
    let active: Vec<&str> = out.lines().filter(|line| line.contains("| active |")).collect();
    assert!(active.len() == 1 && active[0].contains("lru_wasm"), "{out}");
}

/// The statements of the first SQL block of README.md.
fn statements_of_readme() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let (_, block) = readme.split_once("```sql\n").unwrap();
    block.split_once("```").unwrap().0.to_owned()
}

#[test]
fn what_the_readme_shows_first_can_be_typed() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let file = directory.path().join("readme.sql");
    std::fs::write(&file, statements_of_readme()).unwrap();
    let (out, err, is_ok) = tidegate(&data, &["--mode", "table", "-f", file.to_str().unwrap()]);
    assert!(is_ok, "{err}");
    let all = format!("{out}\n{err}");
    for wanted in ["Shadow of sieve started", "Eviction policy set to sieve", "set back to lru"] {
        assert!(all.contains(wanted), "no '{wanted}' in:\n{all}");
    }
    // A loop over more rows than fit: SIEVE keeps some of them, LRU none but a few.
    let figure = |name: &str| -> f64 {
        let line = out.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{out}"));
        line.split('|').rev().find_map(|cell| cell.trim().parse().ok()).unwrap()
    };
    let (shadow, active) = (figure("| hit ratio "), figure("active policy's hit ratio"));
    assert!(shadow > active + 0.1, "{shadow} {active}");
}
