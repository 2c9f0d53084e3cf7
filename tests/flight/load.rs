//! Memory of the service under rows that are long and clients that are many.
//!
//! TIDEGATE_LOAD=full takes the sizes of the promise (some GB of data, some minutes) instead of
//! those that show the same in seconds.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::StreamExt;
use futures::future::join_all;
use tonic::transport::Channel;

use super::{Service, client_threads};

const MIB: u64 = 1 << 20;
/// What the service may take beyond what it has when nothing happens.
const ABOVE_IDLE_MAX: u64 = 300 * MIB;

fn is_full() -> bool {
    std::env::var("TIDEGATE_LOAD").is_ok_and(|load| load == "full")
}

/// Runs statements in a process of its own.
fn write(directory: &Path, statements: &str) {
    let file = directory.join("statements.sql");
    std::fs::write(&file, statements).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["--shards", "2", "--timing", "off", "--mode", "csv", "--data"])
        .arg(directory.join("data"))
        .arg("-f")
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Bytes that `field` of a process' status tells.
fn status_bytes(service: &Service, field: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", service.child.id())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_matches([':', ' ', '\t']).trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

async fn connect(address: &str) -> FlightSqlServiceClient<Channel> {
    let channel = Channel::from_shared(format!("http://{address}")).unwrap();
    let client = FlightServiceClient::new(channel.connect().await.unwrap());
    FlightSqlServiceClient::new_from_inner(client.max_decoding_message_size(64 << 20))
}

/// Rows and bytes of a query, or what the service says.
async fn count(address: &str, text: &str) -> Result<(usize, usize), String> {
    let mut client = connect(address).await;
    let info = client.execute(text.to_owned(), None).await.map_err(|error| error.to_string())?;
    let (mut count, mut bytes) = (0, 0);
    // A long scan has an endpoint for each shard.
    for endpoint in info.endpoint {
        let rows = client.do_get(endpoint.ticket.unwrap()).await;
        let mut rows = rows.map_err(|error| error.to_string())?;
        while let Some(batch) = rows.next().await {
            let batch = batch.map_err(|error| error.to_string())?;
            count += batch.num_rows();
            bytes += batch.get_array_memory_size();
        }
    }
    Ok((count, bytes))
}

#[test]
fn long_rows_are_answered_in_little_memory() {
    // Rows, and bytes of each.
    let sizes = if is_full() {
        [(20_000, 300_000), (200, 15_000_000)]
    } else {
        [(1_200, 300_000), (30, 12_000_000)]
    };
    for (rows, bytes) in sizes {
        let directory = tempfile::tempdir().unwrap();
        let mut statements =
            "CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c));\n".to_owned();
        let at_once = (6_000_000 / bytes).max(1);
        for first in (0..rows).step_by(at_once) {
            let last = (first + at_once).min(rows) - 1;
            // Of some rows each partition is the only one.
            writeln!(
                statements,
                "INSERT INTO t SELECT CASE WHEN n % 2 = 0 THEN 0 ELSE n END, n, repeat('x', {bytes}) \
                 FROM generate_series({first}, {last}) AS s(n);{}",
                // The partition in many files, each of which has its next row in memory or not.
                if at_once == 1 && !is_full() { " FLUSH;" } else { "" }
            )
            .unwrap();
        }
        write(directory.path(), &statements);
        let service = Service::start_with(directory.path(), &[]);
        let (idle, read, reversed) = client_threads().block_on(async {
            count(&service.address, "SELECT 1").await.unwrap();
            let idle = status_bytes(&service, "VmRSS");
            let reversed = "SELECT * FROM t WHERE k = 0 ORDER BY c DESC";
            let read = count(&service.address, "SELECT * FROM t").await;
            (idle, read, count(&service.address, reversed).await)
        });
        assert_eq!(reversed.unwrap().0, rows / 2);
        let (found, found_bytes) = read.unwrap();
        assert_eq!(found, rows);
        assert!(found_bytes >= rows * bytes);
        let above = status_bytes(&service, "VmHWM").saturating_sub(idle);
        eprintln!("{rows} rows of {bytes} bytes: {} MiB above idle", above / MIB);
        assert!(above <= ABOVE_IDLE_MAX, "{rows} rows of {bytes} bytes: {} MiB", above / MIB);
        assert_eq!(service.stop().0, Some(0));
    }
}

#[test]
fn many_clients_get_rows_or_are_told_why_not() {
    let (clients, rows, memory) =
        if is_full() { (500, 500_000, "768MiB") } else { (80, 20_000, "96MiB") };
    let directory = tempfile::tempdir().unwrap();
    let statements = format!(
        "CREATE TABLE t (k int, c int, a bigint, v text, PRIMARY KEY (k, c));\n\
         INSERT INTO t SELECT n % 100 AS k, n AS c, n AS a, repeat('x', 80) AS v FROM generate_series(1, {rows}) AS s(n);"
    );
    write(directory.path(), &statements);
    let service = Service::start_with(directory.path(), &["--memory", memory]);
    let answers = client_threads().block_on(async {
        join_all((0..clients).map(|_| count(&service.address, "SELECT * FROM t"))).await
    });
    let mut answered = 0;
    for answer in &answers {
        match answer {
            Ok((found, _)) => {
                assert_eq!(*found, rows);
                answered += 1;
            }
            Err(refusal) => assert!(refusal.contains("--memory"), "{refusal}"),
        }
    }
    let peak = status_bytes(&service, "VmHWM") / MIB;
    assert!(answered > 0, "{:?}", answers[0]);
    eprintln!("{answered} of {clients} clients were answered, the service took {peak} MiB");
    // What a client says now is answered as ever.
    let after = client_threads().block_on(count(&service.address, "SELECT count(*) FROM t"));
    assert_eq!(after.unwrap().0, 1);
    assert_eq!(service.stop().0, Some(0));
}

#[test]
fn connections_beyond_the_limit_are_refused_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    // The least that connections get is room for 128 of them.
    let service = Service::start_with(directory.path(), &["--memory", "48MiB"]);
    client_threads().block_on(async {
        let mut clients = Vec::new();
        let refusal = loop {
            let mut client = connect(&service.address).await;
            let answer = client.execute("SELECT 1".to_owned(), None).await;
            clients.push(client);
            match answer {
                Ok(_) => assert!(clients.len() < 1000, "there must be a limit"),
                Err(error) => break error.to_string(),
            }
        };
        assert!(
            refusal.contains("connections are open") && refusal.contains("--memory"),
            "{refusal}"
        );
        assert!(clients.len() > 100, "{} connections", clients.len());
    });
    assert_eq!(service.stop().0, Some(0));
}
