//! TRUNCATE: all rows or none, whenever the power goes, and a table that works on.

use std::path::Path;

use super::*;
use crate::disk::{Faults, SimulatedDisk};
use crate::error::Error;

const ROWS: i32 = 40;

/// Rows in SSTables, in the cache, and in memtables, of partitions on both shards.
async fn fill(database: &Database, schema: &SchemaRef) {
    for at in 0..ROWS {
        let write = insert(schema, ["a", "b", "c", "d"][at as usize % 4], at, 1, 1);
        database.apply(write).await.unwrap();
        if at == ROWS / 2 {
            database.flush(None).await.unwrap();
            assert_eq!(rows(database, schema).await, at as usize + 1);
        }
    }
}

async fn rows(database: &Database, schema: &SchemaRef) -> usize {
    let mut rows = 0;
    for pk in ["a", "b", "c", "d"] {
        rows += count_rows(database, schema, pk).await.unwrap();
    }
    rows
}

#[test]
fn a_truncated_table_is_empty_and_takes_writes() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let database = open(&disk).await;
        let options = TableOptions { gc_grace_seconds: 77, ..TableOptions::default() };
        let schema = TableSchema { options, ..definition() };
        let old = database.create_table(schema, false).await.unwrap();
        fill(&database, &old).await;
        let new = database.truncate_table("default", "t").await.unwrap();
        assert_ne!(new.id, old.id);
        assert_eq!(new.options, old.options, "its options stay");
        assert_eq!(database.catalog().table("default", "t"), Some(&new));
        assert_eq!(rows(&database, &new).await, 0);
        // Older than what was removed: nothing of that covers it.
        database.apply(insert(&new, "a", 1, 7, -5)).await.unwrap();
        let refused = database.apply(insert(&old, "a", 2, 7, 9)).await;
        assert!(matches!(refused, Err(Error::NotFound { .. })), "{refused:?}");
        assert_eq!(rows(&database, &new).await, 1);
        let folders = disk.shared().list(Path::new("/db/data/default")).await.unwrap();
        assert_eq!(folders.len(), 1, "the old files are gone: {folders:?}");
        let again = open(&disk.power_cut()).await;
        let table = again.catalog().table("default", "t").unwrap().clone();
        assert_eq!((table.id, rows(&again, &table).await), (new.id, 1));
    });
}

#[test]
fn a_truncation_that_the_power_cuts_removes_all_rows_or_none() {
    run(async {
        let (mut kept, mut removed) = (0, 0);
        let mut turns = 0;
        loop {
            let disk = SimulatedDisk::new(turns);
            let database = open(&disk).await;
            let old = database.create_table(definition(), false).await.unwrap();
            fill(&database, &old).await;
            disk.set_faults(Faults { delay_turns_max: 512, ..Faults::default() });
            let mut truncation = Box::pin(database.truncate_table("default", "t"));
            let mut is_over = false;
            for _ in 0..turns {
                is_over |= futures::poll!(&mut truncation).is_ready();
                if is_over {
                    break;
                }
                tokio::task::yield_now().await;
            }
            let again = open(&disk.power_cut()).await;
            let table = again.catalog().table("default", "t").unwrap().clone();
            let found = rows(&again, &table).await;
            let is_new = table.id != old.id;
            assert_eq!(found, if is_new { 0 } else { ROWS as usize }, "after {turns} turns");
            assert!(is_new || !is_over, "it was answered after {turns} turns, and undone");
            (kept, removed) = (kept + usize::from(!is_new), removed + usize::from(is_new));
            again.apply(insert(&table, "a", 1000, 1, 1)).await.unwrap();
            assert_eq!(rows(&again, &table).await, found + 1);
            if is_over {
                break;
            }
            turns += 1 + turns / 16;
        }
        assert!(kept > 3 && removed > 3, "{kept} kept, {removed} removed");
    });
}

#[test]
fn writers_beside_a_truncation_are_told_what_became_of_their_rows() {
    for seed in 0..20 {
        run(async move {
            let disk = SimulatedDisk::new(seed);
            let database = open(&disk).await;
            let old = database.create_table(definition(), false).await.unwrap();
            fill(&database, &old).await;
            let truncation = database.truncate_table("default", "t");
            let writers = async {
                let mut refused = 0;
                for at in 0..200 {
                    match database.apply(insert(&old, "b", 1000 + at, 1, 1)).await {
                        Ok(()) => assert_eq!(refused, 0, "seed {seed}: the old table is gone"),
                        Err(Error::NotFound { .. } | Error::Unavailable(_)) => refused += 1,
                        Err(error) => panic!("seed {seed}: {error}"),
                    }
                }
                refused
            };
            let (truncated, refused) = futures::join!(truncation, writers);
            let new = truncated.unwrap();
            assert!(refused > 0, "seed {seed}");
            assert_eq!(rows(&database, &new).await, 0, "seed {seed}");
        });
    }
}

#[test]
fn only_own_tables_are_truncated() {
    run(async {
        let database = open(&SimulatedDisk::new(1)).await;
        let missing = database.truncate_table("default", "none").await;
        assert!(matches!(missing, Err(Error::NotFound { .. })), "{missing:?}");
    });
}
