//! The drivers that people use, from their registries, on what they have stumbled over.
//!
//! Python's are in the interpreter that TIDEGATE_PYTHON names, else `python3`. The JDBC driver
//! comes from Maven Central and Go's modules by its own proxy, once: they stay in
//! `$TIDEGATE_CLIENTS_CACHE`, or below the target directory. A client that cannot be had is
//! skipped.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use super::*;

/// The JDBC driver with all that it needs.
const JDBC: &str = "flight-sql-jdbc-driver";
const JDBC_VERSION: &str = "18.3.0";

/// The test's own output is captured; this is for whoever runs it.
#[expect(clippy::explicit_write, reason = "`eprintln!` is captured with the test's output")]
fn say(text: &str) {
    writeln!(std::io::stderr(), "clients: {text}").unwrap();
}

/// Runs a command that prepares a client.
pub(super) fn prepare(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{name}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let text = [output.stdout, output.stderr].concat();
            Err(format!("{name}: {}", String::from_utf8_lossy(&text).trim()))
        }
    }
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("tests/clients")
}

fn cache() -> Result<PathBuf, String> {
    let cache = match std::env::var_os("TIDEGATE_CLIENTS_CACHE") {
        Some(cache) => PathBuf::from(cache),
        None => Path::new(env!("CARGO_TARGET_TMPDIR")).join("clients"),
    };
    fs::create_dir_all(&cache).map_err(|error| format!("{}: {error}", cache.display()))?;
    Ok(cache)
}

/// Lets a client go through its points against a service of its own.
fn judge(name: &str, client: Result<Command, String>) {
    let mut client = match client {
        Ok(client) => client,
        Err(reason) => return skip(name, &reason),
    };
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    let output = client.arg(&service.address).stdin(Stdio::null()).output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name} failed:\n{stdout}\n{stderr}");
    assert!(stdout.trim_end().ends_with("all steps passed"), "{name}:\n{stdout}\n{stderr}");
    for line in stdout.lines().filter(|line| line.starts_with("left out")) {
        skip(&format!("{name}: parts"), line);
    }
    assert_eq!(service.stop().0, Some(0));
}

fn python_points() -> Result<Command, String> {
    let imports = "import adbc_driver_flightsql.dbapi, pyarrow.flight";
    prepare(Command::new(python()).args(["-c", imports]))?;
    let mut client = Command::new(python());
    client.arg(sources().join("python/points.py"));
    Ok(client)
}

/// The JDBC driver, fetched where it is not there yet.
pub(super) fn jdbc_driver() -> Result<PathBuf, String> {
    prepare(Command::new("java").arg("-version"))?;
    prepare(Command::new("javac").arg("-version"))?;
    // Two tests that fetch it at once would write one file.
    static FETCHING: Mutex<()> = Mutex::new(());
    let _fetching = FETCHING.lock();
    let cache = cache()?;
    let jar = cache.join(format!("{JDBC}-{JDBC_VERSION}.jar"));
    if !jar.exists() {
        say("fetching the JDBC driver from Maven Central");
        prepare(
            Command::new("mvn")
                .args(["-q", "-B", "dependency:copy"])
                .arg(format!("-Dartifact=org.apache.arrow:{JDBC}:{JDBC_VERSION}"))
                .arg(format!("-DoutputDirectory={}", cache.display())),
        )?;
    }
    Ok(jar)
}

fn java() -> Result<Command, String> {
    let mut client = Command::new("java");
    client
        .args(["-Xmx512m", "--add-opens=java.base/java.nio=ALL-UNNAMED", "-cp"])
        .arg(jdbc_driver()?)
        .arg(sources().join("java/Points.java"));
    Ok(client)
}

/// A program in Go of this name, built of a folder.
pub(super) fn go_program(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let program = cache()?.join(name);
    let mut build = Command::new("go");
    build.current_dir(folder).args(["build", "-mod=readonly", "-o"]).arg(&program);
    prepare(&mut build)?;
    Ok(program)
}

fn go() -> Result<Command, String> {
    Ok(Command::new(go_program(&sources().join("go"), "points")?))
}

#[test]
fn python_clients_get_over_their_points() {
    judge("Python's clients", python_points());
}

#[test]
fn the_jdbc_driver_gets_over_its_points() {
    judge("JDBC driver", java());
}

#[test]
fn the_go_driver_gets_over_its_points() {
    judge("Go's driver", go());
}
