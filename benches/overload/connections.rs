//! Many connections to a server: most hold still, some ask all the time.

use std::time::Duration;

use futures::future::join_all;
use futures::{StreamExt, TryStreamExt, stream};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::Builder;

use crate::flight_client::{Client, connect};
use crate::frame::{Arguments, Row, Target, wall};
use crate::server::Server;

/// Connections that are made side by side.
const CONNECTING: usize = 64;
const PARTITIONS: i64 = 1000;
/// What a connection may take of the server's memory, those that ask among them.
const KIB_MAX: f64 = 64.0;

/// So many connections, each of which was answered once.
async fn connections(address: &str, count: usize) -> Vec<Client> {
    let connect = |number: usize| async move {
        let mut client = connect(address).await;
        read(&mut client, number as i64).await.unwrap();
        client
    };
    stream::iter(0..count).map(connect).buffer_unordered(CONNECTING).collect().await
}

/// A read of one row: `Err` with what the client was told.
async fn read(client: &mut Client, number: i64) -> Result<(), String> {
    let text = format!("SELECT v FROM t WHERE pk = {}", number % PARTITIONS);
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let info = client.execute(text, None).await.map_err(|error| told(&error))?;
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let batches = client.do_get(ticket).await.map_err(|error| told(&error))?;
    let batches: Vec<_> = batches.try_collect().await.map_err(|error| told(&error))?;
    let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
    assert_eq!(rows, 1);
    Ok(())
}

/// Reads that were answered, and those that were not.
async fn ask(clients: &mut [Client], length: Duration) -> (u64, u64) {
    let end = wall() + length;
    let asking = clients.iter_mut().enumerate().map(|(at, client)| async move {
        let (mut answered, mut failed) = (0, 0);
        let mut number = at as i64;
        while wall() < end {
            match read(client, number).await {
                Ok(()) => answered += 1,
                Err(_) => failed += 1,
            }
            number += 7;
        }
        (answered, failed)
    });
    let all = join_all(asking).await;
    all.into_iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// Runs the rows if they are wanted.
pub fn print(arguments: &Arguments) {
    let (idle, busy) = (arguments.scale(500, 5000), arguments.scale(50, 500));
    let failed = format!("{idle} idle and {busy} busy connections: reads that failed");
    let memory = format!("{idle} idle and {busy} busy connections: memory of each");
    if !arguments.wants(&failed) && !arguments.wants(&memory) {
        return;
    }
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files }).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"));
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (answered, errors, kib) = runtime.block_on(async {
        let mut first = connect(&server.address).await;
        let table = "CREATE TABLE t (pk bigint PRIMARY KEY, v text)".to_owned();
        first.execute_update(table, None).await.unwrap();
        let fill = format!(
            "INSERT INTO t SELECT g, repeat('v', 100) FROM generate_series(0, {}) AS s(g)",
            PARTITIONS - 1
        );
        first.execute_update(fill, None).await.unwrap();
        let before = server.memory_bytes();
        let _idle = connections(&server.address, idle).await;
        let mut asking = connections(&server.address, busy).await;
        let length = Duration::from_millis(arguments.scale(2000, 10_000) as u64);
        let (answered, errors) = ask(&mut asking, length).await;
        let more = server.memory_bytes().saturating_sub(before);
        (answered, errors, more as f64 / 1024.0 / (idle + busy) as f64)
    });
    server.stop();
    let (figure, target) = (errors as f64, Target::AtMost(0.0));
    let baseline = Some(("answered", answered as f64));
    Row { name: &failed, unit: "reads", figure, baseline, target }.print(arguments);
    let (figure, target) = (kib, Target::AtMost(KIB_MAX));
    Row { name: &memory, unit: "KiB", figure, baseline: None, target }.print(arguments);
}
