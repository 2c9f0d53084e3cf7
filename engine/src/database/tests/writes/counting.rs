//! Steps of counters: none is lost, and none is taken twice.

use std::cell::Cell as StdCell;
use std::rc::Rc;

use futures::future::join_all;

use super::batches::{open, play};
use super::*;
use crate::batch::{ElementChange, WriteOptions, change_elements};
use crate::clock::{Random, SimulatedClock};
use crate::commitlog::Durability;
use crate::disk::{Faults, SimulatedDisk};
use crate::reader::RowKey;

const N: ColumnId = ColumnId(2);

async fn counters(database: &Database) -> SchemaRef {
    if let Some(schema) = database.catalog().table("default", "t") {
        return schema.clone();
    }
    let mut definition = definition();
    definition.columns[2].ty = DataType::Counter;
    definition.columns.push(column("s", DataType::Counter, ColumnKind::Static));
    database.create_table(definition, false).await.unwrap()
}

/// A step of a row of a partition, or of its static counter.
fn step(database: &Database, schema: &SchemaRef, at: Option<i32>, by: i64) -> Mutation {
    let (id, timestamp) = (if at.is_some() { N } else { ColumnId(3) }, database.timestamp_us());
    let options = WriteOptions { timestamp, ttl: None, now_seconds: 0 };
    let (mut row, change) = (Row::default(), ElementChange::Count(by));
    change_elements(&mut row, id, schema.column(id), &change, &options, None, 0).unwrap();
    let mut mutation = Mutation::new(schema.id, key(schema, "p"));
    match at {
        Some(at) => mutation.rows.push((ck(schema, at), row)),
        None => mutation.static_row = Some(row),
    }
    mutation
}

async fn count(
    database: &Database,
    schema: &SchemaRef,
    at: Option<i32>,
    by: i64,
) -> crate::error::Result<()> {
    database.count(step(database, schema, at, by))?.await.map(drop)
}

async fn counted(database: &Database, schema: &SchemaRef, at: i32) -> Option<i64> {
    let key = RowKey { partition: key(schema, "p"), clustering: ck(schema, at) };
    match database.get(schema, key).await.unwrap()?.value("v").unwrap()? {
        Value::Counter(count) => Some(count),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn steps_add_up_wherever_the_counter_lies() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(Options::new(directory.path())).await.unwrap();
    let schema = counters(&database).await;
    for (by, wanted) in [(5, 5), (-7, -2), (2, 0), (i64::MAX, i64::MAX)] {
        count(&database, &schema, Some(1), by).await.unwrap();
        assert_eq!(counted(&database, &schema, 1).await, Some(wanted));
        // Once in memory alone, once in files, once in both.
        if by != 2 {
            database.flush(None).await.unwrap();
        }
    }
    let error = count(&database, &schema, Some(1), 1).await.unwrap_err().to_string();
    assert!(error.contains("counter 'v'") && error.contains("step of 1"), "{error}");
    assert_eq!(counted(&database, &schema, 1).await, Some(i64::MAX));
    // A row that was deleted begins anew.
    let mut gone = Mutation::new(schema.id, key(&schema, "p"));
    let timestamp = database.timestamp_us();
    let deletion = Some(Tombstone { timestamp, deletion_time: 0 });
    gone.rows.push((ck(&schema, 1), Row { deletion, ..Row::default() }));
    database.apply(gone).await.unwrap();
    assert_eq!(counted(&database, &schema, 1).await, None);
    count(&database, &schema, Some(1), 3).await.unwrap();
    assert_eq!(counted(&database, &schema, 1).await, Some(3));
    database.flush(None).await.unwrap();
    assert_eq!(counted(&database, &schema, 1).await, Some(3));
    // Several steps of one row are one, those of a static counter are its own.
    let mut two = step(&database, &schema, Some(2), 1);
    two.add(step(&database, &schema, Some(2), 10));
    two.add(step(&database, &schema, None, 7));
    database.count(two).unwrap().await.unwrap();
    assert_eq!(counted(&database, &schema, 2).await, Some(11));
    database.close().await.unwrap();
    let database = Database::open(Options::new(directory.path())).await.unwrap();
    count(&database, &schema, Some(1), 1).await.unwrap();
    count(&database, &schema, Some(2), 1).await.unwrap();
    assert_eq!(counted(&database, &schema, 1).await, Some(4));
    assert_eq!(counted(&database, &schema, 2).await, Some(12));
    for other in [insert(&schema, "p", 1, 1, 1), Mutation::new(schema.id, key(&schema, "p"))] {
        let error = database.count(other).err().unwrap().to_string();
        assert!(error.contains("steps of counters"), "{error}");
    }
    database.close().await.unwrap();
}

#[tokio::test]
async fn a_write_that_counts_has_nothing_but_steps() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(Options::new(directory.path())).await.unwrap();
    let schema = counters(&database).await;
    let with = |change: fn(&mut Mutation)| {
        let mut steps = step(&database, &schema, Some(1), 1);
        steps.add(step(&database, &schema, Some(2), 1));
        change(&mut steps);
        steps
    };
    let tombstone = Tombstone { timestamp: 1, deletion_time: 0 };
    let mut deletes = with(|_| {});
    deletes.deletion = Some(tombstone);
    let mut deletes_a_row = with(|_| {});
    deletes_a_row.rows[0].1.deletion = Some(tombstone);
    let others = [
        ("the marker of a row", with(|steps| steps.rows[0].1.liveness = Some(Liveness::at(1)))),
        ("a value", with(|steps| steps.rows[0].1.cells = vec![(N, Cell::live(1, vec![0_u8; 8]))])),
        ("a row without a step", with(|steps| steps.rows[0].1 = Row::default())),
        ("a static row without one", with(|steps| steps.static_row = Some(Row::default()))),
        ("the deletion of the partition", deletes),
        ("the deletion of a row", deletes_a_row),
    ];
    for (what, other) in others {
        let error = database.count(other).err().expect(what).to_string();
        assert!(error.contains("steps of counters, and nothing else"), "{what}: {error}");
    }
    assert_eq!(counted(&database, &schema, 2).await, None, "no step was taken");
    database.count(with(|_| {})).unwrap().await.unwrap();
    assert_eq!(counted(&database, &schema, 2).await, Some(1));
    database.close().await.unwrap();
}

#[tokio::test]
async fn racing_steps_are_all_taken() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(Options::new(directory.path())).await.unwrap();
    let schema = counters(&database).await;
    let client = async |client: i64| {
        for n in 0..8 {
            count(&database, &schema, Some(1), 1).await.unwrap();
            count(&database, &schema, Some(2), client - n).await.unwrap();
        }
    };
    join_all((0..64).map(client)).await;
    assert_eq!(counted(&database, &schema, 1).await, Some(64 * 8));
    assert_eq!(counted(&database, &schema, 2).await, Some(8 * (0..64).sum::<i64>() - 64 * 28));
    database.close().await.unwrap();
}

/// The power goes while steps are taken: each that was acknowledged is there, and none twice.
#[test]
fn a_power_cut_loses_no_step_and_takes_none_twice() {
    let mut lost = 0;
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let clock = SimulatedClock::new(1_700_000_000_000_000);
        let disk = SimulatedDisk::new(seed);
        disk.set_faults(Faults { delay_turns_max: 16 << random.below(6), ..Faults::default() });
        let (begun, told) = (Rc::new(StdCell::new(0)), Rc::new(StdCell::new(0)));
        play(async {
            let database = open(&disk, &clock, Durability::Sync).await.unwrap();
            let schema = counters(&database).await;
            let writer = tokio::task::spawn_local({
                let (database, begun, told) = (database.clone(), begun.clone(), told.clone());
                async move {
                    loop {
                        begun.set(begun.get() + 1);
                        count(&database, &schema, Some(1), 1).await.unwrap();
                        told.set(told.get() + 1);
                    }
                }
            });
            for turn in 0..random.below(400) {
                if turn % 97 == 96 {
                    database.flush(None).await.unwrap();
                }
                tokio::task::yield_now().await;
            }
            writer.abort();
        });
        let disk = disk.power_cut();
        let found = play(async {
            let database = open(&disk, &clock, Durability::Sync).await.unwrap();
            let schema = counters(&database).await;
            let found = counted(&database, &schema, 1).await.unwrap_or(0);
            count(&database, &schema, Some(1), 1).await.unwrap();
            assert_eq!(counted(&database, &schema, 1).await, Some(found + 1), "seed {seed}");
            database.close().await.unwrap();
            found
        });
        let (told, begun) = (told.get(), begun.get());
        assert!(told <= found && found <= begun, "seed {seed}: {told}, {found}, {begun}");
        lost += i64::from(found < begun);
    }
    assert!(lost > 5, "the power went between steps: {lost}");
}
