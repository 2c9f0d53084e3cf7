//! Object storage by S3's protocol: a server of `moto` on loopback.
//!
//! `moto` is in the interpreter that TIDEGATE_PYTHON names, else `python3`. Without it the test is
//! skipped.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use super::{CREATE, err, out, program};
use crate::skip::skip;

/// Name of the check in `.ci/allowed-skips`.
const CHECK: &str = "object storage by S3";
/// Rows of 512 characters: one SSTable of more than a part of an upload.
const ROWS: usize = 40_000;
const PART_BYTES: u64 = 16 << 20;
/// So long a server may take to begin.
const START_SECONDS: u64 = 60;

struct Server {
    process: Child,
    /// `host:port`.
    at: String,
}

impl Server {
    /// Errors: in words, where there is no `moto`.
    fn start() -> Result<Self, String> {
        let python = std::env::var_os("TIDEGATE_PYTHON").unwrap_or_else(|| "python3".into());
        let mut process = Command::new(python)
            .args(["-m", "moto.server", "-H", "127.0.0.1", "-p", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("no Python: {error}"))?;
        let told = BufReader::new(process.stderr.take().unwrap());
        let (found, place) = std::sync::mpsc::channel();
        // What it says of each request is read, so that it need not wait for somebody to do so.
        let reads = move || {
            for line in told.lines().map_while(Result::ok) {
                if let Some((_, place)) = line.split_once("Running on http://") {
                    let _ = found.send(place.trim().to_owned());
                }
            }
        };
        std::thread::Builder::new().spawn(reads).unwrap();
        let mut server = Server { process, at: String::new() };
        match place.recv_timeout(Duration::from_secs(START_SECONDS)) {
            Ok(at) => server.at = at,
            Err(RecvTimeoutError::Disconnected) => return Err("Python has no moto.server".into()),
            Err(error) => panic!("the server says nothing: {error}"),
        }
        Ok(server)
    }

    fn create_bucket(&self, name: &str) {
        let mut stream = TcpStream::connect(&self.at).unwrap();
        let host = &self.at;
        let request = format!(
            "PUT /{name} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    fn run(&self, directory: &Path, arguments: &[&str]) -> Output {
        program(directory)
            .envs([
                ("AWS_ENDPOINT_URL", format!("http://{}", self.at)),
                ("AWS_ALLOW_HTTP", "true".to_owned()),
                ("AWS_REGION", "us-east-1".to_owned()),
                ("AWS_ACCESS_KEY_ID", "key".to_owned()),
                ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
            ])
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Bytes of the largest file below a folder.
fn largest_file(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let bytes = |entry: std::fs::DirEntry| match entry.path().is_dir() {
        true => largest_file(&entry.path()),
        false => entry.metadata().unwrap().len(),
    };
    entries.map(bytes).max().unwrap_or(0)
}

#[test]
fn a_snapshot_goes_to_s3_and_comes_back() {
    let server = match Server::start() {
        Ok(server) => server,
        Err(reason) => return skip(CHECK, &reason),
    };
    server.create_bucket("backups");
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let sql = |text: &str| server.run(here, &["--data", "db", "-c", text]);
    let long = |n: usize| format!("encode(sha512(cast({n} * g AS text)), 'hex')");
    let long = [1, 3, 5, 7].map(long).join(", ");
    let fill = format!(
        "INSERT INTO reading (station, at, value, note) \
         SELECT 'a', g, g, concat({long}) FROM generate_series(1, {ROWS}) AS s(g)"
    );
    for text in [CREATE, &fill, "COMPACT reading"] {
        let done = sql(text);
        assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    }
    let snapshot = "SNAPSHOT TO 's3://backups/monday'";
    let made = sql(snapshot);
    assert_eq!(made.status.code(), Some(0), "{}", err(&made));
    assert!(err(&made).starts_with("Snapshot of 1 table in 's3://backups/monday': 1 SSTable, "));
    assert!(err(&sql(snapshot)).contains("monday is not empty, it has "));

    let bytes = largest_file(&here.join("db/data"));
    assert!(bytes > PART_BYTES, "an upload in parts, of {bytes} bytes");

    let restore = |data: &str, from: &str| server.run(here, &["--data", data, "restore", from]);
    let restored = restore("new", "s3://backups/monday");
    assert_eq!(restored.status.code(), Some(0), "{}", err(&restored));
    let all =
        "SELECT count(*) AS rows, sum(value) AS sum, count(DISTINCT note) AS notes FROM reading";
    let read = |data: &str| server.run(here, &["--data", data, "--mode", "csv", "-c", all]);
    let wanted = read("db");
    assert!(out(&wanted).starts_with(&format!("rows,sum,notes\n{ROWS},")), "{}", out(&wanted));
    assert_eq!(out(&read("new")), out(&wanted));

    for (from, told) in [
        ("s3://backups/tuesday", "s3://backups/tuesday holds no snapshot"),
        ("s3://elsewhere/monday", "s3://elsewhere/monday holds no snapshot"),
    ] {
        let refused = restore("other", from);
        assert_eq!(refused.status.code(), Some(1), "{from}");
        assert!(err(&refused).contains(told), "{}", err(&refused));
    }
    assert!(!here.join("other").exists());
    let refused = sql("SNAPSHOT TO 's3://elsewhere/monday'");
    assert!(err(&refused).contains("NoSuchBucket"), "{}", err(&refused));
}
