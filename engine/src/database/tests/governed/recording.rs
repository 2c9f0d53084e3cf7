//! What the caches are asked for is recorded, and replays as it was.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::policies::fill;
use super::*;
use crate::clock::SystemClock;
use crate::replay::{Candidate, Capacity, Settings};
use crate::trace::{Trace, read_trace};

const CACHE_BYTES: usize = 256 << 10;

fn options(directory: &Path, shards: u32) -> Options {
    let mut options = Options::new(directory);
    options.shards = Some(shards);
    options.commitlog_segment_bytes = 1 << 20;
    options.cache_bytes = CACHE_BYTES;
    options
}

async fn read_around(database: &Database, schema: &SchemaRef, rounds: usize) {
    for round in 0..rounds {
        let name = if round % 2 == 0 { "p7".into() } else { format!("p{}", round % 300) };
        assert_eq!(count_rows(database, schema, &name).await.unwrap(), 300, "{name}");
    }
}

fn load(path: &Path) -> Trace {
    read_trace(path, &std::fs::read(path).unwrap(), None).unwrap()
}

#[tokio::test]
async fn a_recording_of_a_cache_replays_as_the_cache_did() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(options(&directory.path().join("data"), 1)).await.unwrap();
    let schema = fill(&database).await;
    // From an empty cache, so that the replay begins where the recording does.
    database.close().await.unwrap();
    let database = Database::open(options(&directory.path().join("data"), 1)).await.unwrap();
    let schema = database.catalog().table("default", &schema.name).unwrap().clone();
    let before = database.cache_report().await.unwrap()[0].clone();
    assert_eq!(before.pages, 0, "{before:?}");

    let path = directory.path().join("reads.trace");
    database.record_trace(path.clone(), None).await.unwrap();
    let twice = database.record_trace(path.clone(), None).await.unwrap_err();
    assert!(twice.to_string().contains("runs already"), "{twice}");
    read_around(&database, &schema, 200).await;
    let summary = database.stop_recording().await.unwrap();
    let report = database.cache_report().await.unwrap()[0].clone();
    assert_eq!((summary.path.as_path(), summary.lost), (path.as_path(), 0));
    let (hits, misses) = (report.hits - before.hits, report.misses - before.misses);
    assert_eq!(summary.requests, hits + misses);
    assert!(hits > 100 && misses > 100, "{report:?}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), summary.bytes);

    let trace = load(&path);
    assert!(trace.is_complete());
    assert_eq!((trace.reads().len() as u64, trace.recorded_hits()), (summary.requests, Some(hits)));
    let settings = Settings::new(Capacity::Bytes(CACHE_BYTES as u64));
    let outcome = Candidate::LRU
        .run(&trace, &settings, &SystemClock::new(), &AtomicBool::new(false))
        .unwrap()
        .unwrap();
    // The engine keeps pages that a reader holds; the replay has no readers.
    assert!(outcome.hits.abs_diff(hits) * 100 <= hits, "{} for {hits}", outcome.hits);

    let none = database.stop_recording().await.unwrap_err();
    assert_eq!(none.to_string(), "nothing is recorded");
    database.close().await.unwrap();
}

#[tokio::test]
async fn a_recording_ends_at_its_number_of_reads_or_with_the_database() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(options(&directory.path().join("data"), 2)).await.unwrap();
    let schema = fill(&database).await;
    let path = directory.path().join("some.trace");
    database.record_trace(path.clone(), Some(500)).await.unwrap();
    read_around(&database, &schema, 200).await;
    let summary = database.stop_recording().await.unwrap();
    assert_eq!(summary.requests, 500, "{summary:?}");
    assert_eq!(load(&path).reads().len(), 500);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), summary.bytes);

    let open = directory.path().join("open.trace");
    database.record_trace(open.clone(), None).await.unwrap();
    read_around(&database, &schema, 20).await;
    database.close().await.unwrap();
    let trace = load(&open);
    assert!(trace.is_complete() && trace.reads().len() > 50, "{}", trace.reads().len());
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_told_and_nothing_is_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(options(&directory.path().join("data"), 1)).await.unwrap();
    let path = directory.path().join("no/such/folder/reads.trace");
    let refused = database.record_trace(path, None).await.unwrap_err();
    assert!(refused.to_string().contains("reads.trace"), "{refused}");
    assert!(database.stop_recording().await.is_err());
    database.close().await.unwrap();
}
