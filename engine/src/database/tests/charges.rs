//! What reads are charged with while their clients take nothing.

use std::time::Duration;

use super::*;
use crate::admission::ClassStatus;
use crate::commitlog::Durability;

const VALUE_BYTES: usize = 4096;

async fn status(database: &Database) -> ClassStatus {
    let reports = database.admission_report().await.unwrap();
    reports.iter().find(|report| report.class == "keys").unwrap().status
}

/// Asks until the reads stand as wanted, and says how they stand when they do not.
async fn wait_for(
    database: &Database,
    wanted: &str,
    is_so: impl Fn(&ClassStatus) -> bool,
) -> ClassStatus {
    for _ in 0..10_000 {
        let status = status(database).await;
        if is_so(&status) {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("{wanted} did not come about: {:?}", status(database).await);
}

#[tokio::test]
async fn a_read_is_charged_with_the_batches_that_its_client_leaves_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let options =
        Options { durability: Durability::None, shards: Some(1), ..Options::new(directory.path()) };
    let database = Database::open(options).await.unwrap();
    let mut definition = definition();
    definition.columns[2].ty = DataType::Blob;
    let schema = database.create_table(definition, false).await.unwrap();
    let write = |at| {
        let mut mutation = insert(&schema, "a", at, 0, 1);
        mutation.rows[0].1.cells[0].1 = Cell::live(1, vec![b'v'; VALUE_BYTES]);
        mutation
    };
    database.apply_many((0..2000).map(write).collect()).await.unwrap();
    let before = status(&database).await;
    assert_eq!((before.running, before.memory_bytes), (0, 0), "nobody reads");
    let command = read_of(&schema, "a", Slice::full(Direction::Forward), None);
    let mut reads = Vec::new();
    for count in 1..=3 {
        let mut stream = database.read(command.clone());
        stream.next().await.unwrap().unwrap();
        reads.push(stream);
        let charged =
            wait_for(&database, "clients that take nothing", |status| status.aside == count).await;
        // Batches double from 64 rows on: at the least, those of 128 and 256 rows wait in the
        // channel.
        let waiting = u64::from(count) * (128 + 256) * VALUE_BYTES as u64;
        assert!(
            charged.memory_bytes >= waiting,
            "{count} reads have {waiting} bytes of batches waiting and are charged with {}",
            charged.memory_bytes
        );
    }
    drop(reads);
    let none =
        |status: &ClassStatus| (status.running, status.aside, status.memory_bytes) == (0, 0, 0);
    wait_for(&database, "reads that are over and charged with nothing", none).await;
    database.close().await.unwrap();
}
