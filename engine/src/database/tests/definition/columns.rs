//! ALTER TABLE ADD, DROP and RENAME: what was written under one definition and is read under
//! another, wherever it lies.

use super::*;
use crate::database::{ColumnChange, NewColumn};
use crate::disk::Faults;
use crate::error::{Error, Result};
use crate::mutation::{CellPath, MultiCell};

const PARTITIONS: [&str; 4] = ["a", "b", "c", "d"];

fn new(name: &str, ty: DataType) -> NewColumn {
    NewColumn { name: name.into(), ty, is_static: false }
}

fn add(columns: impl Into<Vec<NewColumn>>) -> ColumnChange {
    ColumnChange::Add { columns: columns.into(), if_not_exists: false }
}

fn drop_of(name: &str) -> ColumnChange {
    ColumnChange::Drop { columns: vec![name.into()], if_exists: false, timestamp: None }
}

fn rename(from: &str, to: &str) -> ColumnChange {
    ColumnChange::Rename { columns: vec![(from.into(), to.into())], if_exists: false }
}

async fn alter(database: &Database, change: ColumnChange) -> Result<SchemaRef> {
    Ok(database.alter_columns("default", "t", change).await?.schema)
}

/// An UPDATE of one column: a row without a mark.
fn update(schema: &TableSchema, (pk, at): (&str, i32), column: &str, timestamp: i64) -> Mutation {
    let mut mutation = Mutation::new(schema.id, key(schema, pk));
    let (id, _) = schema.find(column).unwrap();
    let cells = vec![(id, Cell::live(timestamp, i64::from(at).to_be_bytes()))];
    mutation.rows.push((ck(schema, at), Row { cells, ..Row::default() }));
    mutation
}

/// Clustering keys of all rows with the values of a bigint column, sorted.
async fn rows_of(
    database: &Database,
    schema: &SchemaRef,
    column: &str,
) -> Result<Vec<(i32, Option<i64>)>> {
    let columns = vec![ColumnId(1), schema.find(column).unwrap().0];
    let mut rows = Vec::new();
    for pk in PARTITIONS {
        let read = read_of(schema, pk, Slice::full(Direction::Forward), None);
        let command = ReadCommand { columns: columns.clone(), ..read };
        let batches: Vec<RecordBatch> = database.read(command).try_collect().await?;
        for batch in &batches {
            for row in 0..batch.num_rows() {
                let value =
                    |at: usize, ty| crate::batch::value_at(batch.column(at), row, ty).unwrap();
                let Some(Value::Int(ck)) = value(0, &DataType::Int) else { panic!("no key") };
                rows.push((
                    ck,
                    match value(1, &DataType::BigInt) {
                        Some(Value::BigInt(value)) => Some(value),
                        None => None,
                        other => panic!("{other:?}"),
                    },
                ));
            }
        }
    }
    rows.sort_unstable();
    // One row by its key finds the same.
    for (ck_of, value) in &rows {
        let pk = PARTITIONS[*ck_of as usize % 4];
        let row_key = (key(schema, pk), ck(schema, *ck_of));
        let row = database.get(schema, row_key).await?.expect("a scan found it");
        let found = row.value(column)?;
        assert_eq!(found, value.map(Value::BigInt), "{ck_of}");
    }
    Ok(rows)
}

async fn sstable_rows(database: &Database) -> u64 {
    database.table_report().await.unwrap().iter().map(|report| report.sstable_rows).sum()
}

/// Where rows lie while the definition changes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Memtables,
    Cache,
    Files,
}

/// Brings what was written to a place.
async fn bring(database: &Database, schema: &SchemaRef, place: Place) {
    if place != Place::Memtables {
        database.flush(None).await.unwrap();
    }
    if place == Place::Cache {
        rows_of(database, schema, "v").await.unwrap();
    }
}

#[test]
fn rows_from_before_read_right_wherever_they_lie() {
    for place in [Place::Memtables, Place::Cache, Place::Files] {
        run(async move {
            let disk = SimulatedDisk::new(1);
            let database = open(&disk).await;
            let t0 = database.create_table(definition(), false).await.unwrap();
            for at in 0..8 {
                let write = insert(&t0, PARTITIONS[at as usize % 4], at, i64::from(at), 1);
                database.apply(write).await.unwrap();
            }
            bring(&database, &t0, place).await;

            let t1 = alter(&database, add([new("w", DataType::BigInt)])).await.unwrap();
            assert_eq!(database.catalog().table("default", "t"), Some(&t1));
            let nulls: Vec<_> = (0..8).map(|at| (at, None)).collect();
            assert_eq!(rows_of(&database, &t1, "w").await.unwrap(), nulls, "{place:?}");
            let known: Vec<_> = (0..8).map(|at| (at, Some(i64::from(at)))).collect();
            assert_eq!(rows_of(&database, &t0, "v").await.unwrap(), known, "{place:?}");
            // Rows that are there for this column alone.
            for at in 8..12 {
                let place = (PARTITIONS[at as usize % 4], at);
                database.apply(update(&t1, place, "w", database.timestamp_us())).await.unwrap();
            }
            database.apply(update(&t1, ("a", 0), "w", database.timestamp_us())).await.unwrap();
            bring(&database, &t1, place).await;
            assert_eq!(rows_of(&database, &t1, "w").await.unwrap().len(), 12);

            let t2 = alter(&database, drop_of("w")).await.unwrap();
            assert_eq!(t2.find("w"), None);
            let told = |error: Error| {
                assert!(matches!(error, Error::Invalid(_)), "{error}");
                assert!(error.to_string().contains("column 'w'"), "{error}");
                assert!(error.to_string().contains("was dropped"), "{error}");
            };
            told(rows_of(&database, &t1, "w").await.unwrap_err());
            let late = update(&t1, ("a", 1), "w", i64::MAX);
            told(database.apply(late).await.unwrap_err());
            assert_eq!(rows_of(&database, &t2, "v").await.unwrap(), known, "{place:?}");
            let disk = disk.power_cut();
            let again = open(&disk).await;
            assert_eq!(rows_of(&again, &t2, "v").await.unwrap(), known, "{place:?}");

            let t3 = alter(&again, add([new("w", DataType::BigInt)])).await.unwrap();
            assert_eq!(rows_of(&again, &t3, "w").await.unwrap(), nulls, "{place:?}");
            // As old as the drop: dead. A moment later: alive.
            let at = t3.drops[0].at;
            again.apply(update(&t3, ("b", 1), "w", at)).await.unwrap();
            again.apply(update(&t3, ("c", 2), "w", at + 1)).await.unwrap();
            let mut wanted = nulls;
            wanted[2].1 = Some(2);
            assert_eq!(rows_of(&again, &t3, "w").await.unwrap(), wanted, "{place:?}");
            again.flush(None).await.unwrap();
            assert_eq!(rows_of(&again, &t3, "w").await.unwrap(), wanted, "{place:?}");
            again.compact(t3.id).await.unwrap();
            assert_eq!(rows_of(&again, &t3, "w").await.unwrap(), wanted, "{place:?}");
            assert_eq!(sstable_rows(&again).await, 8, "rows of dropped values are purged");
            again.close().await.unwrap();
            let last = open(&disk).await;
            assert_eq!(rows_of(&last, &t3, "w").await.unwrap(), wanted, "{place:?}");
        });
    }
}

#[test]
fn static_columns_and_collections_go_and_come_back_empty() {
    run(async {
        let database = open(&SimulatedDisk::new(1)).await;
        database.create_table(definition(), false).await.unwrap();
        let list = DataType::list_of(DataType::Int);
        let s = NewColumn { is_static: true, ..new("s", DataType::BigInt) };
        let t1 = alter(&database, add([s.clone(), new("l", list.clone())])).await.unwrap();
        let (s_id, l_id) = (t1.find("s").unwrap().0, t1.find("l").unwrap().0);
        let mut write = Mutation::new(t1.id, key(&t1, "a"));
        let at = database.timestamp_us();
        let cells = vec![(s_id, Cell::live(at, 7_i64.to_be_bytes()))];
        write.static_row = Some(Row { cells, ..Row::default() });
        let path = CellPath::from_stored(&DataType::TimeUuid, &[0x11; 16]).unwrap();
        let multi = MultiCell {
            deletion: Some(Tombstone { timestamp: at - 1, deletion_time: 1 }),
            cells: vec![(path, Cell::live(at, 5_i32.to_be_bytes()))],
        };
        let row = Row { multi: vec![(l_id, multi)], ..Row::default() };
        // A partition that has a static value alone, and one with a row of a list alone.
        let mut other = Mutation::new(t1.id, key(&t1, "b"));
        other.rows.push((ck(&t1, 1), row));
        for step in ["in memory", "in files", "merged"] {
            let count = async |table: &SchemaRef| {
                let mut rows = 0;
                for pk in ["a", "b"] {
                    rows += count_rows(&database, table, pk).await.unwrap();
                }
                rows
            };
            database.apply_many(vec![write.clone(), other.clone()]).await.unwrap();
            match step {
                "in memory" => {}
                "in files" => database.flush(None).await.unwrap(),
                _ => {
                    database.flush(None).await.unwrap();
                    database.compact(t1.id).await.unwrap();
                }
            }
            let table = database.catalog().table("default", "t").unwrap().clone();
            let rows = count(&table).await;
            assert_eq!(rows, if step == "in memory" { 2 } else { 0 }, "{step}");
            let both = vec!["s".to_owned(), "l".to_owned()];
            let drop = ColumnChange::Drop { columns: both, if_exists: false, timestamp: None };
            let t2 = alter(&database, drop).await.unwrap();
            assert!(!t2.has_static_columns());
            assert_eq!(count(&t2).await, 0, "{step}");
            let t3 = alter(&database, add([s.clone(), new("l", list.clone())])).await.unwrap();
            assert_eq!((t3.find("s").unwrap().0, t3.find("l").unwrap().0), (s_id, l_id));
            assert_eq!(count(&t3).await, 0, "{step}");
        }
        assert_eq!(sstable_rows(&database).await, 0);
    });
}

#[test]
fn what_was_written_between_two_drops_is_gone_after_the_second() {
    run(async {
        let database = open(&SimulatedDisk::new(1)).await;
        database.create_table(definition(), false).await.unwrap();
        for round in 1..4 {
            let schema = alter(&database, add([new("w", DataType::BigInt)])).await.unwrap();
            let found = rows_of(&database, &schema, "w").await.unwrap();
            let live = found.iter().filter(|(_, value)| value.is_some()).count();
            assert_eq!(live, 0, "it is there for the {round}. time: {found:?}");
            let at = database.timestamp_us();
            database.apply(update(&schema, ("a", 1), "w", at)).await.unwrap();
            alter(&database, drop_of("w")).await.unwrap();
        }
    });
}

#[test]
fn what_cannot_be_changed_says_what_can() {
    run(async {
        let database = open(&SimulatedDisk::new(1)).await;
        let t0 = database.create_table(definition(), false).await.unwrap();
        let tell = async |change| match alter(&database, change).await {
            Err(error) => error.to_string(),
            Ok(_) => panic!("it was changed"),
        };
        for (change, words) in [
            (drop_of("pk"), &["'pk'", "primary key", "create another table"][..]),
            (drop_of("ck"), &["'ck'", "primary key", "INSERT … SELECT"]),
            (drop_of("none"), &["t.none"]),
            (add([new("v", DataType::Int)]), &["t.v", "exists"]),
            (add([new("x", DataType::Int), new("x", DataType::Int)]), &["t.x", "exists"]),
            (add([new("", DataType::Int)]), &["no name"]),
            (rename("v", "w"), &["'v'", "not part of the primary key", "add 'w'"]),
            (rename("ck", "pk"), &["t.pk", "exists"]),
            (rename("none", "x"), &["t.none"]),
        ] {
            let told = tell(change).await;
            assert!(words.iter().all(|word| told.contains(word)), "{told}");
        }
        let version = database.catalog().version();
        for change in [
            ColumnChange::Add { columns: vec![new("v", DataType::Text)], if_not_exists: true },
            ColumnChange::Drop { columns: vec!["none".into()], if_exists: true, timestamp: None },
            ColumnChange::Rename { columns: vec![("none".into(), "x".into())], if_exists: true },
        ] {
            assert_eq!(alter(&database, change).await.unwrap(), t0, "nothing is left to do");
        }
        assert_eq!(database.catalog().version(), version);

        alter(&database, drop_of("v")).await.unwrap();
        for (change, words) in [
            (drop_of("v"), &["t.v"][..]),
            (add([new("v", DataType::Text)]), &["'v' was bigint", "another name"]),
            (
                add([NewColumn { is_static: true, ..new("v", DataType::BigInt) }]),
                &["'v' was bigint", "add it as that"],
            ),
            (rename("ck", "v"), &["'v' was dropped", "another name"]),
        ] {
            let told = tell(change).await;
            assert!(words.iter().all(|word| told.contains(word)), "{told}");
        }
    });
}

#[test]
fn a_renamed_key_column_is_the_same_column() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let database = open(&disk).await;
        let t0 = database.create_table(definition(), false).await.unwrap();
        database.apply(insert(&t0, "a", 0, 0, 1)).await.unwrap();
        database.flush(None).await.unwrap();
        let both = vec![("ck".to_owned(), "at".to_owned()), ("pk".to_owned(), "ck".to_owned())];
        let change = ColumnChange::Rename { columns: both, if_exists: false };
        let t1 = alter(&database, change).await.unwrap();
        let names: Vec<&str> = t1.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["ck", "at", "v"]);
        // One that was planned before.
        database.apply(insert(&t0, "b", 1, 1, 1)).await.unwrap();
        let wanted = [(0, Some(0)), (1, Some(1))];
        assert_eq!(rows_of(&database, &t1, "v").await.unwrap(), wanted);
        let again = open(&disk.power_cut()).await;
        assert_eq!(rows_of(&again, &t1, "v").await.unwrap(), wanted);
    });
}

#[test]
fn a_change_that_the_power_cuts_is_made_or_not() {
    for is_drop in [false, true] {
        run(async move {
            let (mut undone, mut done, mut turns) = (0, 0, 0);
            loop {
                let disk = SimulatedDisk::new(turns);
                let database = open(&disk).await;
                let t0 = database.create_table(definition(), false).await.unwrap();
                for at in 0..8 {
                    let write = insert(&t0, PARTITIONS[at as usize % 4], at, i64::from(at), 1);
                    database.apply(write).await.unwrap();
                }
                disk.set_faults(Faults { delay_turns_max: 512, ..Faults::default() });
                let change = if is_drop { drop_of("v") } else { add([new("w", DataType::BigInt)]) };
                let mut change = Box::pin(alter(&database, change));
                let flushing = database.clone();
                // A change that is undone must have taken nothing out of a file.
                drop(tokio::task::spawn_local(async move { flushing.flush(None).await }));
                let mut is_over = false;
                for _ in 0..turns {
                    is_over |= futures::poll!(&mut change).is_ready();
                    if is_over {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                let again = open(&disk.power_cut()).await;
                let table = again.catalog().table("default", "t").unwrap().clone();
                let is_new = *table != *t0;
                assert!(is_new || !is_over, "it was answered after {turns} turns, and undone");
                let known: Vec<_> = (0..8).map(|at| (at, Some(i64::from(at)))).collect();
                let nulls: Vec<_> = (0..8).map(|at| (at, None)).collect();
                match (is_new, is_drop) {
                    (true, true) => {
                        let back = add([new("v", DataType::BigInt)]);
                        let table = alter(&again, back).await.unwrap();
                        assert_eq!(rows_of(&again, &table, "v").await.unwrap(), nulls);
                    }
                    (true, false) => {
                        assert_eq!(rows_of(&again, &table, "w").await.unwrap(), nulls);
                        assert_eq!(rows_of(&again, &table, "v").await.unwrap(), known);
                    }
                    (false, _) => {
                        assert_eq!(rows_of(&again, &table, "v").await.unwrap(), known);
                    }
                }
                (undone, done) = (undone + usize::from(!is_new), done + usize::from(is_new));
                if is_over {
                    break;
                }
                turns += 1;
            }
            assert!(undone > 3 && done > 3, "{undone} undone, {done} done");
        });
    }
}

/// One writer to a column, who knows the table as it was first, while the column goes and comes
/// back beside flushes and compactions.
async fn write_beside(seed: u64) {
    let disk = SimulatedDisk::new(seed);
    let database = open(&disk).await;
    database.create_table(definition(), false).await.unwrap();
    let t1 = alter(&database, add([new("w", DataType::BigInt)])).await.unwrap();
    disk.set_faults(Faults { delay_turns_max: 20, ..Faults::default() });
    let changes = async {
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        alter(&database, drop_of("w")).await.unwrap();
        for _ in 0..seed {
            tokio::task::yield_now().await;
        }
        let back = database.timestamp_us();
        (back, alter(&database, add([new("w", DataType::BigInt)])).await.unwrap())
    };
    // Several at a time, so that some are under way when the column goes.
    let (database, t1) = (&database, &t1);
    let write_some = |first: i32| async move {
        let mut taken = Vec::new();
        for at in (first..120).step_by(8) {
            let timestamp = database.timestamp_us();
            let place = (PARTITIONS[at as usize % 4], at);
            match database.apply(update(t1, place, "w", timestamp)).await {
                Ok(()) => taken.push((at, timestamp)),
                Err(Error::Invalid(why)) => assert!(why.contains("was dropped"), "{why}"),
                Err(Error::Unavailable(why)) => assert!(why.contains("being dropped"), "{why}"),
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
        taken
    };
    let writes = async {
        let mut taken = futures::future::join_all((0..8).map(write_some)).await.concat();
        taken.sort_unstable();
        taken
    };
    let chores = async {
        for _ in 0..6 {
            database.flush(None).await.unwrap();
            database.compact(t1.id).await.unwrap();
        }
    };
    let ((back, t2), taken, ()) = futures::join!(changes, writes, chores);
    let dropped_at = t2.drops[0].at;
    // Every write that was taken before it went is older than its drop, and goes with it.
    let while_gone = dropped_at + 1..back;
    let is_refused = |(_, timestamp): &(i32, i64)| !while_gone.contains(timestamp);
    assert!(taken.iter().all(is_refused), "seed {seed}: a write to a column that was gone");
    let alive = taken.iter().filter(|(_, timestamp)| *timestamp > dropped_at);
    let alive: Vec<_> = alive.map(|(at, _)| (*at, Some(i64::from(*at)))).collect();
    assert_eq!(rows_of(database, &t2, "w").await.unwrap(), alive, "seed {seed}");
    disk.set_faults(Faults::default());
    let again = open(&disk.power_cut()).await;
    assert_eq!(rows_of(&again, &t2, "w").await.unwrap(), alive, "seed {seed}, after a crash");
    again.flush(None).await.unwrap();
    again.compact(t2.id).await.unwrap();
    assert_eq!(rows_of(&again, &t2, "w").await.unwrap(), alive, "seed {seed}, merged");
    assert_eq!(sstable_rows(&again).await, alive.len() as u64, "seed {seed}");
}

#[test]
fn writers_beside_a_change_are_told_what_became_of_their_values() {
    for seed in 0..20 {
        run(write_beside(seed));
    }
}
