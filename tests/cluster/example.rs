//! `examples/cluster`, as a person types it.

use super::*;
use crate::skip::skip;

#[test]
fn the_example_runs() {
    let python = std::env::var_os("TIDEGATE_PYTHON").unwrap_or_else(|| "python3".into());
    let import = ["-c", "import adbc_driver_flightsql.dbapi, pyarrow"];
    let has = Command::new(&python).args(import).stderr(Stdio::null()).status();
    if !has.is_ok_and(|status| status.success()) {
        return skip("example of a cluster", "Python has no adbc_driver_flightsql and pyarrow");
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/cluster");
    let output = Command::new(script)
        .env("TIDEGATE", env!("CARGO_BIN_EXE_tidegate"))
        .env("TIDEGATE_PYTHON", python)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{said}");
    let told = |line: &str| line.split_once(": ").map(|(_, rest)| rest.to_owned());
    assert!(lines.iter().all(|line| told(line) == told(lines[0])), "{said}");
    assert!(lines[0].contains("'rows': 3000"), "{said}");
}
