//! Reads that meet much that is deleted.

use crate::database::tests::limits::{open, run};
use crate::database::tests::*;
use crate::disk::SimulatedDisk;
use crate::error::Error;
use crate::probe::{Detail, Watch};
use crate::table::TombstoneLimits;

fn delete(schema: &TableSchema, pk: &str, at: i32, timestamp: i64) -> Mutation {
    let mut mutation = Mutation::new(schema.id, key(schema, pk));
    let deletion = Some(Tombstone { timestamp, deletion_time: 1_700_000_000 });
    mutation.rows.push((ck(schema, at), Row { deletion, ..Row::default() }));
    mutation
}

/// Rows of "a": so many live ones behind so many deleted ones, again and again.
async fn write(database: &Database, schema: &SchemaRef, rounds: i32, deleted: i32, live: i32) {
    let mut writes = Vec::new();
    for at in 0..rounds * (deleted + live) {
        match at % (deleted + live) < deleted {
            true => writes.push(delete(schema, "a", at, 2)),
            false => writes.push(insert(schema, "a", at, i64::from(at), 1)),
        }
    }
    database.apply_many(writes).await.unwrap();
}

#[test]
fn a_page_that_meets_too_many_ends_with_figures() {
    run(async |clock| {
        for is_flushed in [false, true] {
            let disk = SimulatedDisk::new(1);
            let limits = TombstoneLimits { warn: 0, max: 100 };
            let limited = |options| Options { tombstones: limits, ..options };
            let database = open(&disk, &clock, limited).await.unwrap();
            let schema = database.create_table(definition(), false).await.unwrap();
            write(&database, &schema, 1, 101, 10).await;
            if is_flushed {
                database.flush(None).await.unwrap();
            }
            let whole = || read_of(&schema, "a", Slice::full(Direction::Forward), None);
            let watch = Watch::new(clock.clone(), Detail::Counts);
            let watched = database.read_watched(whole(), watch.read(schema.clone()));
            for read in [database.read(whole()), watched] {
                match read.try_collect::<Vec<_>>().await {
                    Err(Error::Invalid(text)) => {
                        assert!(text.contains("100 are most"), "{text}");
                        assert!(text.contains("t met 101 tombstones"), "{text}");
                    }
                    other => panic!("it met 101 tombstones: {other:?}"),
                }
            }
            // From the end it comes to its rows first.
            let reversed = Slice::full(Direction::Reversed);
            let newest = rows(&database, &schema, reversed, Some(10)).await;
            assert_eq!(newest, (101..111).rev().collect::<Vec<i64>>());
            let row = database.get(&schema, (key(&schema, "a"), ck(&schema, 105))).await.unwrap();
            assert!(row.is_some(), "a row by its key meets nothing else");
            database.close().await.unwrap();
        }
    });
}

#[test]
fn pages_below_the_limit_make_a_read_of_any_length() {
    run(async |clock| {
        let disk = SimulatedDisk::new(1);
        let limits = TombstoneLimits { warn: 0, max: 150 };
        let database =
            open(&disk, &clock, |options| Options { tombstones: limits, ..options }).await.unwrap();
        let schema = database.create_table(definition(), false).await.unwrap();
        // The first batch of 128 rows meets 60 tombstones, the second of 256 rows meets 120.
        write(&database, &schema, 3, 60, 128).await;
        assert_eq!(count_rows(&database, &schema, "a").await.unwrap(), 384);
        database.close().await.unwrap();
    });
}

#[test]
fn what_a_page_meets_does_not_count_for_the_next_one() {
    run(async |clock| {
        let disk = SimulatedDisk::new(1);
        let limits = TombstoneLimits { warn: 0, max: 100 };
        let database =
            open(&disk, &clock, |options| Options { tombstones: limits, ..options }).await.unwrap();
        let schema = database.create_table(definition(), false).await.unwrap();
        // Batches have 128 rows, then twice as many: the first meets 60 tombstones.
        write(&database, &schema, 10, 60, 128).await;
        let read = database.read(read_of(&schema, "a", Slice::full(Direction::Forward), None));
        let mut read = std::pin::pin!(read);
        let first = read.next().await.unwrap().unwrap();
        assert_eq!(first.num_rows(), 128);
        // The second page meets 120.
        let error = read.next().await.unwrap().unwrap_err();
        assert!(error.to_string().contains("tombstones"), "{error}");
        let unlimited = TombstoneLimits { warn: 1, max: 0 };
        database.close().await.unwrap();
        let database =
            open(&disk, &clock, |options| Options { tombstones: unlimited, ..options }).await;
        assert_eq!(count_rows(&database.unwrap(), &schema, "a").await.unwrap(), 1280);
    });
}
