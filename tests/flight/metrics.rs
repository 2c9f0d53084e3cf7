//! What monitoring reads, over HTTP.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::*;

/// How often a Prometheus is asked until it knows every figure, and the time between.
const ASKED_MAX: usize = 120;
const BETWEEN: Duration = Duration::from_millis(500);

/// Status line and body of the answer to a GET.
fn get(address: &str, path: &str) -> (String, String) {
    get_by(address, path, "1.1")
}

/// As `get`, by a version of HTTP; only 1.0 has no answers in pieces.
fn get_by(address: &str, path: &str, version: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET {path} HTTP/{version}\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

/// The value of a line of metrics.
fn value(metrics: &str, line: &str) -> f64 {
    let found = metrics.lines().find_map(|found| found.strip_prefix(line));
    found.unwrap_or_else(|| panic!("no {line} in:\n{metrics}")).trim().parse().unwrap()
}

/// A table of two rows in a file.
async fn make_table(client: &mut FlightSqlServiceClient<Channel>) {
    for text in [
        "CREATE TABLE t (pk bigint, ck bigint, v text, PRIMARY KEY (pk, ck))",
        "INSERT INTO t VALUES (1, 1, 'a'), (1, 2, 'b')",
        "FLUSH t",
    ] {
        client.execute_update(text.to_owned(), None).await.unwrap();
    }
}

/// Names of metrics in the expressions of the dashboard.
fn named(dashboard: &str) -> BTreeSet<String> {
    let words = dashboard.split(|at: char| !(at.is_ascii_alphanumeric() || at == '_'));
    words.filter(|word| word.starts_with("tidegate_")).map(str::to_owned).collect()
}

#[test]
fn metrics_say_what_sql_says_and_the_dashboard_knows_them() {
    let directory = tempfile::tempdir().unwrap();
    let mut service = Service::start_serving(directory.path(), &[], &["--metrics", "127.0.0.1:0"]);
    let mut line = String::new();
    service.stderr.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("metrics on http://").unwrap();
    let address = address.strip_suffix("/metrics").unwrap();
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        make_table(&mut client).await;
        for _ in 0..3 {
            assert_eq!(run(&mut client, "SELECT v FROM t WHERE pk = 1").await[0].num_rows(), 2);
        }
    });
    let (status, metrics) = get(address, "/metrics");
    assert_eq!(status, "HTTP/1.1 200 OK");
    let of_table = "{keyspace_name=\"default\",table_name=\"t\"}";
    assert!(value(&metrics, &format!("tidegate_table_sstables{of_table} ")) == 1.0);
    assert!(value(&metrics, &format!("tidegate_table_sstable_rows{of_table} ")) == 2.0);
    assert!(value(&metrics, "tidegate_cache_capacity_bytes{shard=\"1\"} ") > 0.0);
    assert!(metrics.contains("# TYPE tidegate_cache_hits_total counter\n"));
    for line in metrics.lines().filter(|line| !line.starts_with("# TYPE ")) {
        let (name, number) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("tidegate_") && number.parse::<f64>().is_ok(), "{line}");
    }
    let dashboard = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/grafana-dashboard.json");
    let dashboard = std::fs::read_to_string(dashboard).unwrap();
    let known: BTreeSet<&str> =
        metrics.lines().map(|line| line.split(['{', ' ']).next().unwrap()).collect();
    let all = named(&dashboard);
    let missing: Vec<_> = all.iter().filter(|name| !known.contains(name.as_str())).collect();
    assert!(all.len() > 10 && missing.is_empty(), "{missing:?} are not in:\n{metrics}");

    assert_eq!(get(address, "/health"), ("HTTP/1.1 200 OK".to_owned(), "ok\n".to_owned()));
    // The port of clients gives the same answer to those who ask by gRPC.
    client_threads().block_on(async {
        let mut client = HealthClient::new(channel(&service).await);
        let ask = |service: &str| HealthCheckRequest { service: service.to_owned() };
        for name in ["", "arrow.flight.protocol.FlightService"] {
            let answer = client.check(ask(name)).await.unwrap().into_inner();
            assert_eq!(answer.status(), ServingStatus::Serving, "'{name}'");
        }
        let unknown = client.check(ask("x")).await.unwrap_err();
        assert_eq!(unknown.code(), tonic::Code::NotFound);
        let mut watched = client.watch(ask("")).await.unwrap().into_inner();
        let first = watched.message().await.unwrap().unwrap();
        assert_eq!(first.status(), ServingStatus::Serving);
    });
    assert_eq!(get(address, "/other").0, "HTTP/1.1 404 Not Found");
    assert_eq!(service.stop().0, Some(0));
    assert!(TcpStream::connect(address).is_err(), "metrics outlive the service");
}

/// A Prometheus that scrapes one service, on a port and with samples of its own.
struct Prometheus {
    child: Child,
    address: String,
    _directory: tempfile::TempDir,
}

impl Prometheus {
    /// `None` where this machine has none.
    fn start(target: &str) -> Option<Self> {
        let mut version = Command::new("prometheus");
        let found = version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s}}\nscrape_configs:\n  - job_name: tidegate\n    \
             static_configs: [{{targets: ['{target}']}}]\n"
        );
        std::fs::write(&config, text).unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", directory.path().join("samples").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Some(Prometheus { child, address, _directory: directory })
    }

    /// How many series an expression has now; an error in words.
    fn series(&self, expression: &str) -> Result<usize, String> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        if TcpStream::connect(&self.address).is_err() {
            return Ok(0);
        }
        let (status, body) =
            get_by(&self.address, &format!("/api/v1/query?query={encoded}"), "1.0");
        if status.contains("503") {
            // It is not ready yet.
            return Ok(0);
        }
        let answer: serde_json::Value =
            serde_json::from_str(&body).map_err(|error| format!("{error}: {body}"))?;
        let series = answer["data"]["result"].as_array();
        series.map(Vec::len).ok_or_else(|| answer["error"].to_string())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn prometheus_answers_every_expression_of_the_dashboard() {
    let directory = tempfile::tempdir().unwrap();
    let mut service = Service::start_serving(directory.path(), &[], &["--metrics", "127.0.0.1:0"]);
    let mut line = String::new();
    service.stderr.read_line(&mut line).unwrap();
    let target = line.trim().strip_prefix("metrics on http://").unwrap();
    let target = target.strip_suffix("/metrics").unwrap().to_owned();
    let Some(prometheus) = Prometheus::start(&target) else {
        return skip("dashboard by Prometheus", "there is no prometheus");
    };
    let dashboard = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/grafana-dashboard.json");
    let dashboard: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(dashboard).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut open: Vec<String> = targets
        .map(|target| target["expr"].as_str().unwrap().replace("$__rate_interval", "1m"))
        .collect();
    assert!(open.len() > 10, "{open:?}");
    client_threads().block_on(async {
        let mut client = connect(&service).await;
        make_table(&mut client).await;
        for _ in 0..ASKED_MAX {
            run(&mut client, "SELECT v FROM t WHERE pk = 1").await;
            open.retain(|expression| prometheus.series(expression).unwrap() == 0);
            if open.is_empty() {
                break;
            }
            tokio::time::sleep(BETWEEN).await;
        }
    });
    assert!(open.is_empty(), "no series of: {open:#?}");
    assert_eq!(service.stop().0, Some(0));
}
