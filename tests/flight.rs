//! `tidegate serve` with the drivers that people use.
//!
//! The script needs a Python with `adbc_driver_flightsql`, `adbc_driver_manager` and `pyarrow`:
//! the one that TIDEGATE_PYTHON names, else `python3`. Without them the test says so and is done.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

/// A running service on a port of its own.
struct Service {
    child: Child,
    stderr: BufReader<ChildStderr>,
    address: String,
}

impl Service {
    fn start(directory: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["--shards", "2", "--data"])
            .arg(directory.join("data"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let address = line
            .trim()
            .strip_prefix("listening on ")
            .unwrap_or_else(|| panic!("the service says: {line}"))
            .to_owned();
        Service { child, stderr, address }
    }

    /// Asks the service to stop and returns its exit code and what else it said.
    fn stop(mut self) -> (Option<i32>, String) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Ends the service of a test that failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn python() -> PathBuf {
    std::env::var_os("TIDEGATE_PYTHON").map_or_else(|| "python3".into(), PathBuf::from)
}

fn has_driver() -> bool {
    Command::new(python())
        .args(["-c", "import adbc_driver_flightsql.dbapi, pyarrow.flight"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[test]
fn the_service_stops_when_asked() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    std::net::TcpStream::connect(&service.address).unwrap();
    let (code, said) = service.stop();
    assert_eq!((code, said.as_str()), (Some(0), "stopping\n"));
}

#[test]
fn the_python_driver_can_do_what_it_can_do() {
    if !has_driver() {
        eprintln!("skipped: {} has no adbc_driver_flightsql", python().display());
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/flight/adbc.py");
    let output = Command::new(python()).arg(script).arg(&service.address).output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "the script failed:\n{stdout}\n{stderr}");
    assert!(stdout.trim_end().ends_with("all steps passed"), "{stdout}\n{stderr}");
    let (code, said) = service.stop();
    assert_eq!((code, said.as_str()), (Some(0), "stopping\n"));
}
