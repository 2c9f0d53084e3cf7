//! `tidegate serve` with the drivers that people use.
//!
//! The script needs a Python with `adbc_driver_flightsql`, `adbc_driver_manager` and `pyarrow`:
//! the one that TIDEGATE_PYTHON names, else `python3`. Without them the test is skipped.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

#[path = "flight/administration.rs"]
mod administration;
#[path = "flight/calls.rs"]
mod calls;
#[path = "flight/outside/clients.rs"]
mod clients;
#[path = "flight/compression.rs"]
mod compression;
#[path = "flight/connections.rs"]
mod connections;
#[path = "flight/endpoints.rs"]
mod endpoints;
#[path = "flight/outside/examples.rs"]
mod examples;
#[path = "flight/exchange.rs"]
mod exchange;
#[path = "flight/load.rs"]
mod load;
#[path = "flight/log.rs"]
mod log;
#[path = "flight/metrics.rs"]
mod metrics;
#[path = "flight/outside/packaging.rs"]
mod packaging;
#[path = "flight/queries.rs"]
mod queries;
#[path = "flight/reflection.rs"]
mod reflection;
#[path = "flight/restart.rs"]
mod restart;
#[path = "flight/ticket.rs"]
mod ticket;
#[path = "flight/outside/tls.rs"]
mod tls;
#[path = "flight/users.rs"]
mod users;
#[path = "skip.rs"]
mod skip;

use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use arrow::array::RecordBatch;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::{StreamExt, TryStreamExt};
use skip::skip;
use tonic::transport::Channel;

/// A running service on a port of its own.
struct Service {
    child: Child,
    stderr: BufReader<ChildStderr>,
    address: String,
}

impl Service {
    fn start(directory: &Path) -> Self {
        Service::start_with(directory, &[])
    }

    /// Starts it with options of its own.
    fn start_with(directory: &Path, options: &[&str]) -> Self {
        Service::start_serving(directory, options, &[])
    }

    /// Starts it with options of the program, and of what serves. It has two shards if they name no
    /// other number.
    fn start_serving(directory: &Path, options: &[&str], serving: &[&str]) -> Self {
        let mut command = Service::command(directory, options);
        let mut child = command.args(serving).spawn().unwrap();
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

    fn command(directory: &Path, options: &[&str]) -> Command {
        let shards = if options.contains(&"--shards") { &[][..] } else { &["--shards", "2"] };
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command
            .args(shards)
            .arg("--data")
            .arg(directory.join("data"))
            .args(options)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    /// Starts it with a filter of its log, which is read until it listens, and no further.
    /// What it prints may go into the same pipe.
    fn start_logging(directory: &Path, filter: &str, with_stdout: bool) -> Self {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = Service::command(directory, &[]);
        if with_stdout {
            command.stdout(writer.try_clone().unwrap());
        }
        let child = command.env("RUST_LOG", filter).stderr(writer).spawn().unwrap();
        // It has the other end as well.
        drop(command);
        let mut stderr = BufReader::new(ChildStderr::from(OwnedFd::from(reader)));
        let listening = |line: String| Some(line.strip_prefix("listening on ")?.to_owned());
        let address = stderr.by_ref().lines().find_map(|line| listening(line.unwrap()));
        Service { child, stderr, address: address.expect("the service listens") }
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

/// Whether Python has the driver; else the check of this name is skipped.
fn has_driver(check: &str) -> bool {
    let has = Command::new(python())
        .args(["-c", "import adbc_driver_flightsql.dbapi, pyarrow.flight"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !has {
        let reason = format!("{} has no adbc_driver_flightsql and pyarrow", python().display());
        skip(check, &reason);
    }
    has
}

#[test]
fn the_service_stops_when_asked() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    std::net::TcpStream::connect(&service.address).unwrap();
    let (code, said) = service.stop();
    assert_eq!((code, said.as_str()), (Some(0), "stopping\n"));
}

/// Threads for a client.
fn client_threads() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

type Client = FlightSqlServiceClient<Channel>;

async fn channel(service: &Service) -> Channel {
    let address = format!("http://{}", service.address);
    Channel::from_shared(address).unwrap().connect().await.unwrap()
}

async fn connect(service: &Service) -> Client {
    FlightSqlServiceClient::new(channel(service).await)
}

/// Starts a query and returns its rows: those of its first endpoint, which is the only one unless
/// it scans thousands of rows.
async fn query(
    client: &mut Client,
    text: &str,
) -> arrow_flight::error::Result<FlightRecordBatchStream> {
    let info = client.execute(text.to_owned(), None).await?;
    client.do_get(info.endpoint[0].ticket.clone().unwrap()).await
}

/// Runs a statement and returns its rows.
async fn run(client: &mut Client, text: &str) -> Vec<RecordBatch> {
    let rows = query(client, text).await.unwrap_or_else(|error| panic!("{text}: {error}"));
    rows.try_collect().await.unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn a_reader_that_stalls_keeps_nobody_from_stopping() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    let threads = client_threads();
    let reader = threads.block_on(async {
        let mut client = connect(&service).await;
        let endless = "SELECT * FROM generate_series(1, 1000000000000)";
        let mut rows = query(&mut client, endless).await.unwrap();
        assert!(rows.next().await.unwrap().unwrap().num_rows() > 0);
        (client, rows)
    });
    // The query has no end: the service ends only if it cuts the reader off.
    let (code, said) = service.stop();
    assert_eq!((code, said.as_str()), (Some(0), "stopping\n"));
    drop(reader);
}

#[test]
fn a_second_signal_ends_the_service_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut service = Service::start(directory.path());
    let threads = client_threads();
    let reader = threads.block_on(async {
        let mut client = connect(&service).await;
        let endless = "SELECT * FROM generate_series(1, 1000000000000)";
        let mut rows = query(&mut client, endless).await.unwrap();
        assert!(rows.next().await.unwrap().is_ok());
        (client, rows)
    });
    let id = rustix::process::Pid::from_child(&service.child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    let mut line = String::new();
    service.stderr.read_line(&mut line).unwrap();
    assert_eq!(line, "stopping\n");
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert_eq!(service.child.wait().unwrap().code(), Some(143));
    drop(reader);
}

#[test]
fn a_long_chain_of_operators_is_run_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let service = Service::start(directory.path());
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        let chain = |n: usize| format!("SELECT 1{}", "+1".repeat(n));
        let mut rows = query(&mut client, &chain(1000)).await.unwrap();
        assert_eq!(rows.next().await.unwrap().unwrap().num_rows(), 1);
        let refused = query(&mut client, &chain(10_000)).await.err().unwrap();
        assert!(refused.to_string().contains("nested too deeply"), "{refused}");
    });
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn the_python_driver_can_do_what_it_can_do() {
    if !has_driver("ADBC driver") {
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

/// The number of a signal behind 128, as a shell tells it.
#[test]
fn either_signal_asks_to_stop_and_the_second_one_says_how_it_ended() {
    use rustix::process::Signal;
    for (first, second, code) in [
        (Signal::INT, None, 0),
        (Signal::INT, Some(Signal::INT), 130),
        (Signal::INT, Some(Signal::TERM), 143),
        (Signal::TERM, Some(Signal::INT), 130),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let mut service = Service::start(directory.path());
        let threads = client_threads();
        // Where it is to wait, a query without an end holds it up.
        let reader = second.map(|_| {
            threads.block_on(async {
                let mut client = connect(&service).await;
                let endless = "SELECT * FROM generate_series(1, 1000000000000)";
                let mut rows = query(&mut client, endless).await.unwrap();
                assert!(rows.next().await.unwrap().is_ok());
                (client, rows)
            })
        });
        let id = rustix::process::Pid::from_child(&service.child);
        rustix::process::kill_process(id, first).unwrap();
        let mut line = String::new();
        service.stderr.read_line(&mut line).unwrap();
        assert_eq!(line, "stopping\n", "{first:?}");
        if let Some(second) = second {
            rustix::process::kill_process(id, second).unwrap();
        }
        let ended = service.child.wait().unwrap().code();
        assert_eq!(ended, Some(code), "{first:?}, then {second:?}");
        drop(reader);
    }
}
