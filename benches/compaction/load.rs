//! A server that is left running: writers, readers, compactions and swaps of the eviction policy,
//! minute after minute.
//!
//! The load is paced, so that every minute asks for the same: what grows in a server that is left
//! alone shows as a later minute that is worse than an earlier one.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use tidegate::query::{Session, SessionOptions};
use tidegate_engine::clock::Random;
use tidegate_engine::{Database, Options};
use tokio::runtime::Builder;

use crate::flight_client::{Client, connect, pace, query};
use crate::frame::{Arguments, Row, Target, wall};
use crate::server::Server;

const NAME: &str = "a server under a mixed load";
const WRITERS: i64 = 3;
const READERS: u64 = 4;
const ROWS_PER_STATEMENT: i64 = 20;
const ROWS_PER_PARTITION: i64 = 1_000;
/// Of one writer.
const STATEMENTS_PER_SECOND: u32 = 100;
/// Of one reader.
const READS_PER_SECOND: u32 = 150;
const MINUTES: usize = 30;
/// Those that are compared, counted from 0: the third and the last.
const EARLY: usize = 2;
const LATE: usize = MINUTES - 1;
const SWAP_EVERY: Duration = Duration::from_secs(5);
const POLICIES: [&str; 3] = ["sieve", "s3_fifo", "lru"];
/// As `count(*)` of a minute takes the shortest of so many.
const COUNTS: usize = 3;
const TABLE: &str = "CREATE TABLE load (pk bigint, ck bigint, v text, PRIMARY KEY (pk, ck))";

fn rows_of(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// What the clients share.
#[derive(Default)]
struct Shared {
    /// Rows of each writer that the server has acknowledged.
    written: [AtomicI64; WRITERS as usize],
    /// How long the reads of the minute took, ms.
    reads: Mutex<Vec<f64>>,
    stop: AtomicBool,
}

impl Shared {
    fn goes_on(&self) -> bool {
        !self.stop.load(Relaxed)
    }

    fn rows(&self) -> i64 {
        self.written.iter().map(|rows| rows.load(Relaxed)).sum()
    }
}

/// Where the row of this number of a writer is: writers have partitions of their own.
fn place(writer: i64, row: i64) -> (i64, i64) {
    (row / ROWS_PER_PARTITION * WRITERS + writer, row % ROWS_PER_PARTITION)
}

async fn write(shared: Arc<Shared>, mut client: Client, writer: i64) {
    let rows = &shared.written[writer as usize];
    let mut due = wall();
    while shared.goes_on() {
        let first = rows.load(Relaxed);
        let mut text = "INSERT INTO load (pk, ck, v) VALUES ".to_owned();
        for row in first..first + ROWS_PER_STATEMENT {
            let (pk, ck) = place(writer, row);
            let comma = if row > first { ", " } else { "" };
            text += &format!("{comma}({pk}, {ck}, '{row:0>100}')");
        }
        assert_eq!(client.execute_update(text, None).await.unwrap(), ROWS_PER_STATEMENT);
        rows.fetch_add(ROWS_PER_STATEMENT, Relaxed);
        pace(&mut due, STATEMENTS_PER_SECOND).await;
    }
}

/// Three of four reads ask for a row, one for a page backwards from there.
async fn read(shared: Arc<Shared>, mut client: Client, seed: u64) {
    let mut random = Random::new(seed);
    let mut due = wall();
    while shared.goes_on() {
        let writer = random.below(WRITERS as u64) as i64;
        let rows = shared.written[writer as usize].load(Relaxed);
        if rows > 0 {
            let (pk, ck) = place(writer, random.below(rows as u64) as i64);
            let is_point = random.below(4) > 0;
            let text = if is_point {
                format!("SELECT v FROM load WHERE pk = {pk} AND ck = {ck}")
            } else {
                format!(
                    "SELECT ck, v FROM load WHERE pk = {pk} AND ck <= {ck} \
                     ORDER BY ck DESC LIMIT 20"
                )
            };
            let start = wall();
            let found = rows_of(&query(&mut client, text).await);
            let took = wall() - start;
            let wanted = if is_point { 1 } else { (ck + 1).min(20) as usize };
            assert_eq!(found, wanted, "rows of pk {pk}, ck {ck}");
            shared.reads.lock().unwrap().push(took.as_secs_f64() * 1e3);
        }
        pace(&mut due, READS_PER_SECOND).await;
    }
}

/// Rows that the server counts, those that it must find at least, and ms it took.
async fn count(shared: &Shared, client: &mut Client) -> (i64, f64) {
    let least = shared.rows();
    let start = wall();
    let batches = query(client, "SELECT count(*) FROM load".to_owned()).await;
    let took = wall() - start;
    let rows = batches[0].column(0).as_primitive::<Int64Type>().value(0);
    assert!(rows >= least, "{rows} rows counted, {least} acknowledged");
    (rows, took.as_secs_f64() * 1e3)
}

async fn swap(shared: Arc<Shared>, mut client: Client) {
    let mut due = wall();
    for policy in POLICIES.iter().cycle() {
        if !shared.goes_on() {
            return;
        }
        let text = format!("ALTER CACHE SET POLICY = {policy}");
        client.execute_update(text, None).await.unwrap();
        due += SWAP_EVERY;
        tokio::time::sleep(due.saturating_sub(wall())).await;
    }
}

/// What is measured of one minute.
#[derive(Clone, Copy, Default)]
struct Minute {
    rows: i64,
    count_ns_per_row: f64,
    memory_mib: f64,
    descriptors: f64,
    p50_ms: f64,
    p99_ms: f64,
}

async fn minutes(
    shared: &Shared,
    (server, mut client): (&Server, Client),
    minute: Duration,
) -> Vec<Minute> {
    let mut all = Vec::new();
    let mut due = wall();
    for number in 0..MINUTES {
        due += minute;
        shared.reads.lock().unwrap().clear();
        let (mut best_ns, mut rows, mut memory, mut open) = (f64::INFINITY, 0, 0, 0);
        for part in (0..COUNTS as u32).rev() {
            let at = due - minute * part / COUNTS as u32;
            tokio::time::sleep(at.saturating_sub(wall())).await;
            memory = server.memory_bytes().max(memory);
            open = server.descriptors().max(open);
            let (counted, ms) = count(shared, &mut client).await;
            rows = counted;
            best_ns = best_ns.min(ms * 1e6 / counted as f64);
        }
        let mut reads = std::mem::take(&mut *shared.reads.lock().unwrap());
        reads.sort_by(f64::total_cmp);
        let percent = |percent: usize| reads[(reads.len() - 1) * percent / 100];
        let measured = Minute {
            rows,
            count_ns_per_row: best_ns,
            memory_mib: memory as f64 / f64::from(1 << 20),
            descriptors: open as f64,
            p50_ms: percent(50),
            p99_ms: percent(99),
        };
        eprintln!(
            "minute {:>2}: {} rows, count(*) {:.1} ns a row, {:.0} MiB, {} descriptors, \
             {} reads, p50 {:.2} ms, p99 {:.2} ms",
            number + 1,
            measured.rows,
            measured.count_ns_per_row,
            measured.memory_mib,
            open,
            reads.len(),
            measured.p50_ms,
            measured.p99_ms
        );
        all.push(measured);
    }
    all
}

/// Makes the table and the policies: a client of the server may not name files there.
async fn create(directory: &Path) {
    let options = Options { shards: Some(2), ..Options::new(directory) };
    let database = Database::open(options).await.unwrap();
    let session = Session::new(database, SessionOptions::default()).unwrap();
    for statement in [
        TABLE,
        "CREATE POLICY sieve FROM 'plugins/dist/sieve.wasm'",
        "CREATE POLICY s3_fifo FROM 'plugins/dist/s3_fifo.wasm'",
    ] {
        session.execute(statement).await.unwrap().collect().await.unwrap();
    }
    session.database().close().await.unwrap();
}

async fn run(server: &Server, minute: Duration) -> Vec<Minute> {
    let client = connect(&server.address).await;
    let shared = Arc::new(Shared::default());
    let mut clients = Vec::new();
    for writer in 0..WRITERS {
        let own = connect(&server.address).await;
        clients.push(tokio::spawn(write(Arc::clone(&shared), own, writer)));
    }
    for seed in 0..READERS {
        let own = connect(&server.address).await;
        clients.push(tokio::spawn(read(Arc::clone(&shared), own, seed)));
    }
    let own = connect(&server.address).await;
    clients.push(tokio::spawn(swap(Arc::clone(&shared), own)));
    let measured = minutes(&shared, (server, client), minute).await;
    shared.stop.store(true, Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    // Nothing is lost, and nothing is there twice.
    let mut client = connect(&server.address).await;
    assert_eq!(count(&shared, &mut client).await.0, shared.rows());
    measured
}

pub fn print(arguments: &Arguments) {
    if !arguments.wants(NAME) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let options =
        ["--cache-bytes", "32MiB", "--memtable-bytes", "8MiB", "--durability", "periodic:1000"];
    let data = directory.path().join("data");
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(create(&data));
    let server = Server::start_with(&data, &options);
    let minute = Duration::from_millis(arguments.scale(200, 60_000) as u64);
    let all = runtime.block_on(run(&server, minute));
    server.stop();
    let (early, late) = (all[EARLY], all[LATE]);
    for (what, unit, figure, baseline, bound) in [
        ("count(*), a row", "ns", late.count_ns_per_row, early.count_ns_per_row, 1.3),
        ("memory", "MiB", late.memory_mib, early.memory_mib, 1.1),
        ("descriptors", "", late.descriptors, early.descriptors, 1.2),
        ("read p99", "ms", late.p99_ms, early.p99_ms, 1.3),
    ] {
        let name = format!("{NAME}, last minute: {what}");
        let baseline = Some(("the third minute", baseline));
        Row { name: &name, unit, figure, baseline, target: Target::RatioAtMost(bound) }
            .print(arguments);
    }
}
