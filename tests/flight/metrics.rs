//! What monitoring reads, over HTTP.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;

use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::*;

/// Status line and body of the answer to a GET.
fn get(address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
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
        for text in [
            "CREATE TABLE t (pk bigint, ck bigint, v text, PRIMARY KEY (pk, ck))",
            "INSERT INTO t VALUES (1, 1, 'a'), (1, 2, 'b')",
            "FLUSH t",
        ] {
            client.execute_update(text.to_owned(), None).await.unwrap();
        }
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
