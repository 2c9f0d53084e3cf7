//! A snapshot of everything while clients read, and what comes back of it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::ipc::writer::StreamWriter;
use arrow::util::pretty::pretty_format_batches;
use arrow_flight::Action;
use futures::TryStreamExt;
use tidegate_engine::clock::Random;
use tonic::Request;

use crate::client::{Place, ROWS_PER_PARTITION, fill};
use crate::flight_client::{Client, pace, query};
use crate::frame::{Arguments, Row, Target, wall};
use crate::server::Server;

const NAME: &str = "snapshot under load";
const READERS: u64 = 8;
const READS_PER_SECOND: u32 = 100;
/// What tells two copies of the table apart.
const SUM: &str = "SELECT count(*), sum(pk), sum(ck), min(v), max(v) FROM rows";

/// How long each read took, ms, and when it began.
type Reads = Arc<Mutex<Vec<(Duration, f64)>>>;

async fn read(place: Place, (seed, rows): (u64, i64), (reads, stop): (Reads, Arc<AtomicBool>)) {
    let mut client = place.connect().await;
    let (mut random, mut due) = (Random::new(seed), wall());
    while !stop.load(Relaxed) {
        let row = random.below(rows as u64) as i64;
        let (pk, ck) = (row / ROWS_PER_PARTITION, row % ROWS_PER_PARTITION);
        let text = format!("SELECT v FROM rows WHERE pk = {pk} AND ck = {ck}");
        let start = wall();
        assert_eq!(query(&mut client, text).await[0].num_rows(), 1);
        reads.lock().unwrap().push((start, (wall() - start).as_secs_f64() * 1e3));
        pace(&mut due, READS_PER_SECOND).await;
    }
}

/// The service makes a snapshot of this name.
async fn snapshot(client: &mut Client, name: &str) {
    let column = Arc::new(StringArray::from(vec![name])) as ArrayRef;
    let row = RecordBatch::try_from_iter([("name", column)]).unwrap();
    let mut writer = StreamWriter::try_new(Vec::new(), row.schema_ref()).unwrap();
    writer.write(&row).unwrap();
    let body = writer.into_inner().unwrap().into();
    let request = Request::new(Action { r#type: "Snapshot".to_owned(), body });
    let answers = client.inner_mut().do_action(request).await.unwrap().into_inner();
    answers.try_collect::<Vec<_>>().await.unwrap();
}

fn p99(reads: &Reads, (from, to): (Duration, Duration)) -> f64 {
    let reads = reads.lock().unwrap();
    let within = reads.iter().filter(|(start, _)| (from..to).contains(start));
    let mut ms: Vec<f64> = within.map(|(_, ms)| *ms).collect();
    ms.sort_by(f64::total_cmp);
    ms[(ms.len() - 1) * 99 / 100]
}

async fn sum(place: &Place) -> String {
    let rows = query(&mut place.connect().await, SUM.to_owned()).await;
    pretty_format_batches(&rows).unwrap().to_string()
}

fn restore(snapshot: &Path, into: &Path) {
    let paths = [into, snapshot].map(|path| path.to_str().unwrap());
    let child = ["--data", paths[0], "restore", paths[1]];
    assert!(Server::once(&child).success(), "{} is not restored", snapshot.display());
}

pub async fn print(arguments: &Arguments) {
    if !arguments.wants(NAME) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let [data, snapshots, back] =
        ["data", "snapshots", "back"].map(|name| directory.path().join(name));
    std::fs::create_dir(&snapshots).unwrap();
    let serving = ["--snapshots", snapshots.to_str().unwrap()];
    let server = Server::start_serving(&data, &[], &serving);
    let place = Place::plain(&server.address);
    // Rows of 116 bytes.
    let rows = arguments.scale(1_000_000, 43_000_000) as i64;
    fill(&mut place.connect().await, rows).await;
    let (reads, stop) = (Reads::default(), Arc::<AtomicBool>::default());
    let shared = || (Arc::clone(&reads), Arc::clone(&stop));
    let readers =
        (0..READERS).map(|seed| tokio::spawn(read(place.clone(), (seed, rows), shared())));
    let readers: Vec<_> = readers.collect();
    let rest = Duration::from_secs(arguments.scale(2, 20) as u64);
    tokio::time::sleep(rest / 4).await;
    let before = (wall(), wall() + rest);
    tokio::time::sleep(rest).await;
    // Several, one after another: one alone is over before many reads have met it.
    let mut client = place.connect().await;
    let begin = wall();
    let mut made = 0;
    while made == 0 || wall() < begin + rest / 2 {
        snapshot(&mut client, &format!("s{made}")).await;
        made += 1;
    }
    let during = (begin, wall());
    stop.store(true, Relaxed);
    for reader in readers {
        reader.await.unwrap();
    }
    let wanted = sum(&place).await;
    server.stop();
    restore(&snapshots.join("s0"), &back);
    let server = Server::start(&back);
    let found = sum(&Place::plain(&server.address)).await;
    server.stop();
    assert_eq!(found, wanted, "the copy that was restored is another");
    let each = (during.1 - during.0).as_secs_f64() * 1e3 / f64::from(made);
    let (figure, baseline) = (p99(&reads, during), Some(("before", p99(&reads, before))));
    let name = format!("{NAME}: p99 of reads");
    Row { name: &name, unit: "ms", figure, baseline, target: Target::RatioAtMost(1.3) }
        .print(arguments);
    let name = format!("{NAME}: it takes");
    let target = Target::None;
    Row { name: &name, unit: "ms", figure: each, baseline: None, target }.print(arguments);
}
