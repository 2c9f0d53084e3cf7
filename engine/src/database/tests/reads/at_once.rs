//! Reads that their shard answers in the turn in which they come.

use std::sync::Arc;

use crate::config::BATCH_ROWS_FIRST;
use crate::database::shard::call::{Stopwatch, Stream, Streamed};
use crate::database::tests::limits::{open, run};
use crate::database::tests::*;
use crate::disk::SimulatedDisk;
use crate::error::Error;
use crate::table::{ManyTombstones, TombstoneLimits, Whole};

/// Asks the shard for a read as a caller does.
async fn ask(database: &Database, command: ReadCommand) -> Result<Streamed, Error> {
    let waits = Stopwatch::none();
    let question = Stream { command, probe: None, waits, is_counted: false, place: None };
    database.handle(0).ask(question).await.flatten()
}

/// Rows of the answer where it has all; `None` where they come as batches.
async fn rows_at_once(database: &Database, command: ReadCommand) -> Option<usize> {
    match ask(database, command).await.unwrap() {
        Streamed::Whole(Whole { batch, page }) => {
            assert_eq!(page, None, "it met little that is deleted");
            Some(batch.map_or(0, |batch| batch.num_rows()))
        }
        Streamed::Batches(..) => None,
    }
}

fn whole(schema: &SchemaRef, row_limit: Option<usize>) -> ReadCommand {
    read_of(schema, "a", Slice::full(Direction::Forward), row_limit)
}

#[test]
fn what_is_in_memory_and_fits_a_batch_is_the_answer() {
    run(async |clock| {
        let disk = SimulatedDisk::new(1);
        let database = open(&disk, &clock, |options| options).await.unwrap();
        let schema = database.create_table(definition(), false).await.unwrap();
        assert_eq!(rows_at_once(&database, whole(&schema, None)).await, None, "nothing is known");
        assert_eq!(count_rows(&database, &schema, "a").await.unwrap(), 0);
        assert_eq!(rows_at_once(&database, whole(&schema, None)).await, Some(0), "no rows");
        let most = BATCH_ROWS_FIRST as i32;
        let writes = |of: std::ops::Range<i32>| {
            of.map(|at| insert(&schema, "a", at, i64::from(at), 1)).collect()
        };
        database.apply_many(writes(0..most - 1)).await.unwrap();
        let wanted = Some(most as usize - 1);
        // A merge of a memtable goes on as a task.
        assert_eq!(rows_at_once(&database, whole(&schema, None)).await, None, "from a memtable");
        database.flush(None).await.unwrap();
        assert_eq!(count_rows(&database, &schema, "a").await.unwrap(), most as usize - 1);
        assert_eq!(rows_at_once(&database, whole(&schema, None)).await, wanted, "from the cache");
        database.invalidate_cache(None).await.unwrap();
        assert_eq!(rows_at_once(&database, whole(&schema, None)).await, None, "from an SSTable");

        // More than a batch may have, but not more than are wanted.
        database.apply_many(writes(most..2 * most)).await.unwrap();
        assert_eq!(count_rows(&database, &schema, "a").await.unwrap(), 2 * most as usize - 1);
        assert_eq!(rows_at_once(&database, whole(&schema, None)).await, None, "several batches");
        let page = whole(&schema, Some(100));
        database.flush(None).await.unwrap();
        assert_eq!(count_rows(&database, &schema, "a").await.unwrap(), 2 * most as usize - 1);
        assert_eq!(rows_at_once(&database, page).await, Some(100), "a page of it");
        database.close().await.unwrap();
        assert!(matches!(ask(&database, whole(&schema, None)).await, Err(Error::Closed)));
    });
}

/// However rows come, they are the same, in the same order, and none is missing.
#[test]
fn reads_of_any_length_have_all_their_rows() {
    run(async |clock| {
        let disk = SimulatedDisk::new(2);
        let database = open(&disk, &clock, |options| options).await.unwrap();
        let schema = database.create_table(definition(), false).await.unwrap();
        let total = 4 * BATCH_ROWS_FIRST as i32;
        let writes = (0..total).map(|at| insert(&schema, "a", at, i64::from(at), 1));
        database.apply_many(writes.collect()).await.unwrap();
        database.flush(None).await.unwrap();
        for is_cold in [true, false] {
            for limit in [0, 1, 127, 128, 129, 255, 256, 383, 384, 385, 511, 512] {
                if is_cold {
                    database.invalidate_cache(None).await.unwrap();
                }
                let forward = Slice::full(Direction::Forward);
                let found = rows(&database, &schema, forward, Some(limit)).await;
                assert!(found.into_iter().eq(0..limit as i64), "{limit} rows, cold: {is_cold}");
                let reversed = Slice::full(Direction::Reversed);
                let found = rows(&database, &schema, reversed, Some(limit)).await;
                let wanted = (0..i64::from(total)).rev().take(limit);
                assert!(found.into_iter().eq(wanted), "the last {limit}, cold: {is_cold}");
            }
        }
        database.close().await.unwrap();
    });
}

#[test]
fn a_read_says_where_it_met_many_tombstones_however_it_is_answered() {
    run(async |clock| {
        let disk = SimulatedDisk::new(3);
        let limits = TombstoneLimits { warn: 10, max: 20 };
        let limited = |options| Options { tombstones: limits, ..options };
        let database = open(&disk, &clock, limited).await.unwrap();
        let schema = database.create_table(definition(), false).await.unwrap();
        let delete = |at| {
            let mut mutation = Mutation::new(schema.id, key(&schema, "a"));
            let deletion = Some(Tombstone { timestamp: 1, deletion_time: 1_700_000_000 });
            mutation.rows.push((ck(&schema, at), Row { deletion, ..Row::default() }));
            mutation
        };
        database.apply_many((0..15).map(delete).collect()).await.unwrap();
        for round in ["from a memtable", "again", "from an SSTable", "from the cache", "again"] {
            if round == "from an SSTable" {
                database.flush(None).await.unwrap();
                database.invalidate_cache(None).await.unwrap();
            }
            let many = Arc::<ManyTombstones>::default();
            let read = database.read(whole(&schema, None)).noting(Arc::clone(&many));
            let batches: Vec<RecordBatch> = read.try_collect().await.unwrap();
            assert!(batches.is_empty(), "all rows are deleted");
            let page = many.most().unwrap_or_else(|| panic!("{round}: nobody was told"));
            assert_eq!((&*page.table, page.rows), ("default.t", 0), "{round}");
            assert!(page.met >= limits.warn, "{round}: {}", page.met);
        }
        database.apply_many((15..30).map(delete).collect()).await.unwrap();
        let refused = database.read(whole(&schema, None)).try_collect::<Vec<_>>().await;
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("20 are most for a page"), "{text}");
        database.close().await.unwrap();
    });
}
