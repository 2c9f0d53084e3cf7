//! A catalog that cannot be stored: memory and disk agree, and where nobody can know what is on
//! disk, nothing is acknowledged that could be lost.

use std::cell::Cell;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use futures::FutureExt;
use tokio::task::LocalSet;

use super::failing_disk::FailingDisk;
use super::*;
use crate::clock::SimulatedClock;
use crate::database::shard::Shard;
use crate::database::{ColumnChange, NewColumn};
use crate::disk::{Disk, Faults, SimulatedDisk};
use crate::error::{Error, Result};
use crate::runtime::{ShardContext, SimulatedTimer};

/// A disk on which steps of storing the catalog fail, by number: making the file, renaming it,
/// syncing the folder, and again.
fn failing(
    disk: &SimulatedDisk,
    step: Rc<Cell<usize>>,
    fails: Rc<Cell<(usize, usize)>>,
) -> Rc<dyn Disk> {
    FailingDisk::shared(disk.shared(), move |path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path != Path::new("/db") && !name.starts_with("catalog") {
            return None;
        }
        let (at, (from, to)) = (step.get(), fails.get());
        step.set(at + 1);
        (from..to).contains(&at).then_some(5)
    })
}

fn full() -> Slice {
    Slice::full(Direction::Forward)
}

async fn open(disk: Rc<dyn Disk>) -> Database {
    try_open(disk).await.unwrap()
}

async fn try_open(disk: Rc<dyn Disk>) -> Result<Database> {
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let timer = Rc::new(SimulatedTimer::new(clock.clone()));
    let context = ShardContext::new((0, 1), disk, clock.clone(), timer, 5);
    let options =
        Options { commitlog_segment_bytes: 1 << 16, clock, ..Options::new(Path::new("/db")) };
    Database::open_local(options, vec![context]).await
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Statement {
    CreateTable,
    DropTable,
    TruncateTable,
    AddColumn,
    DropColumn,
    CreateKeyspace,
}

async fn run(database: &Database, statement: Statement) -> Result<()> {
    match statement {
        Statement::CreateTable => {
            let other = TableSchema { name: "u".into(), ..definition() };
            database.create_table(other, false).await.map(|_| ())
        }
        Statement::DropTable => database.drop_table("default", "t", false).await,
        Statement::TruncateTable => database.truncate_table("default", "t").await.map(|_| ()),
        Statement::AddColumn => {
            let new = NewColumn { name: "w".into(), ty: DataType::Int, is_static: false };
            let change = ColumnChange::Add { columns: vec![new], if_not_exists: false };
            database.alter_columns("default", "t", change).await.map(|_| ())
        }
        Statement::DropColumn => {
            let columns = vec!["v".into()];
            let change = ColumnChange::Drop { columns, if_exists: false, timestamp: None };
            database.alter_columns("default", "t", change).await.map(|_| ())
        }
        Statement::CreateKeyspace => database.create_keyspace("k", false).await,
    }
}

/// Keyspaces, and tables with their columns.
fn names(database: &Database) -> Vec<String> {
    let catalog = database.catalog();
    let tables = catalog.all_tables().map(|table| {
        let columns: Vec<&str> = table.present_columns().map(|c| c.name.as_str()).collect();
        format!("{} {columns:?}", table.full_name())
    });
    catalog.keyspaces().map(str::to_owned).chain(tables).collect()
}

/// How many tables the shards have, which is what takes memory and files.
async fn tables_of_shards(database: &Database) -> usize {
    let mut tables = 0;
    for shard in &database.inner.shards {
        let count = |shard: Rc<Shard>| async move { shard.tables().len() }.boxed_local();
        tables += shard.call("count", count).await.unwrap();
    }
    tables
}

/// One run: the statement fails at these steps; then a write, a power cut, and another start.
async fn play(statement: Statement, fails: Range<usize>, seed: u64) {
    let what = format!("{statement:?} fails at {fails:?}, seed {seed}");
    let disk = SimulatedDisk::new(seed);
    let (step, faults) = (Rc::new(Cell::new(0)), Rc::new(Cell::new((0, 0))));
    let database = open(failing(&disk, step.clone(), faults.clone())).await;
    let t = database.create_table(definition(), false).await.unwrap();
    database.apply(insert(&t, "a", 1, 1, 1)).await.unwrap();
    let before = names(&database);
    step.set(0);
    faults.set((fails.start, fails.end));
    let error = run(&database, statement).await.expect_err(&what);
    faults.set((0, 0));
    assert_eq!(names(&database), before, "{what}: memory is as before");
    let is_known = !matches!(error, Error::Unavailable(_));
    assert_eq!(is_known, fails.len() == 1, "{what}: {error}");
    if is_known {
        assert_eq!(
            tables_of_shards(&database).await,
            1,
            "{what}: shards have the table, and no more"
        );
    }
    let written = database.apply(insert(&t, "a", 2, 2, 2)).await;
    use Statement::{DropColumn, DropTable, TruncateTable};
    let removes = matches!(statement, DropTable | TruncateTable | DropColumn);
    let takes_writes = is_known || !removes;
    assert_eq!(written.is_ok(), takes_writes, "{what}: {written:?}");

    let again = open(disk.power_cut().shared()).await;
    if is_known {
        assert_eq!(names(&again), before, "{what}: the disk is as memory was");
    }
    if let Some(schema) = again.catalog().table("default", "t") {
        let all = ReadCommand { columns: vec![], ..read_of(schema, "a", full(), None) };
        let batches: Vec<RecordBatch> = again.read(all).try_collect().await.unwrap();
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let was_truncated = statement == Statement::TruncateTable && !is_known && schema.id != t.id;
        let wanted = if was_truncated { 0 } else { 1 + usize::from(takes_writes) };
        assert_eq!(rows, wanted, "{what}");
        if names(&again) == before {
            // Once the disk works the statement does as well.
            run(&again, statement).await.unwrap();
        }
    } else {
        assert!(!takes_writes, "{what}: an acknowledged write is gone with its table");
    }
}

#[test]
fn a_catalog_that_cannot_be_stored_is_the_one_before() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    use Statement::*;
    for statement in [CreateTable, DropTable, TruncateTable, AddColumn, DropColumn, CreateKeyspace]
    {
        // A step of storing it; the sync of its name, and all of putting the old one back.
        for fails in [0..1, 1..2, 2..3, 2..9] {
            for seed in 0..12 {
                LocalSet::new().block_on(&runtime, play(statement, fails.clone(), seed));
            }
        }
    }
}

#[test]
fn changes_that_are_made_at_once_are_all_kept() {
    for seed in 0..5 {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let disk = SimulatedDisk::new(seed);
            let database = open(disk.shared()).await;
            disk.set_faults(Faults { delay_turns_max: 30, ..Faults::default() });
            let names: Vec<String> = (0..6).map(|number| format!("t{number}")).collect();
            let made = names.iter().map(|name| {
                let table = TableSchema { name: name.clone(), ..definition() };
                database.create_table(table, false)
            });
            for made in futures::future::join_all(made).await {
                made.unwrap();
            }
            let found = |database: &Database| {
                let catalog = database.catalog();
                names.iter().filter(|name| catalog.table("default", name).is_some()).count()
            };
            assert_eq!(found(&database), names.len(), "in memory, seed {seed}");
            let disk = disk.power_cut();
            assert_eq!(found(&open(disk.shared()).await), names.len(), "on disk, seed {seed}");
        });
    }
}

#[test]
fn a_table_whose_drop_failed_unknown_is_dropped_by_the_next_one() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let disk = SimulatedDisk::new(1);
        let (step, fails) = (Rc::new(Cell::new(0)), Rc::new(Cell::new((0, 0))));
        let database = open(failing(&disk, step.clone(), fails.clone())).await;
        database.create_table(definition(), false).await.unwrap();
        step.set(0);
        fails.set((2, 9));
        run(&database, Statement::DropTable).await.unwrap_err();
        fails.set((0, 0));
        run(&database, Statement::DropTable).await.unwrap();
        let again = open(disk.power_cut().shared()).await;
        assert!(again.catalog().table("default", "t").is_none());
    });
}

/// A table that one shard cannot make is on no other shard either.
#[test]
fn a_table_that_one_shard_cannot_make_is_nowhere() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let disk = SimulatedDisk::new(1);
        let is_short = Rc::new(Cell::new(true));
        let fails = is_short.clone();
        // Each shard makes the table's folder if there is none: every second one cannot.
        let tries = Cell::new(0);
        let failing = FailingDisk::shared(disk.shared(), move |path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !fails.get() || !name.starts_with("t-") {
                return None;
            }
            tries.set(tries.get() + 1);
            (tries.get() % 2 == 0).then_some(28)
        });
        let clock = SimulatedClock::new(1_700_000_000_000_000);
        let contexts = (0..2).map(|shard| {
            let timer = Rc::new(SimulatedTimer::new(clock.clone()));
            ShardContext::new((shard, 2), failing.clone(), clock.clone(), timer, 5)
        });
        let options = Options {
            commitlog_segment_bytes: 1 << 16,
            clock: clock.clone(),
            ..Options::new(Path::new("/db"))
        };
        let database = Database::open_local(options, contexts.collect()).await.unwrap();
        for _ in 0..3 {
            let error = database.create_table(definition(), false).await.unwrap_err();
            assert!(error.is_disk_full(), "{error}");
        }
        assert_eq!(tables_of_shards(&database).await, 0);
        is_short.set(false);
        let t = database.create_table(definition(), false).await.unwrap();
        database.apply(insert(&t, "a", 1, 1, 1)).await.unwrap();
        assert_eq!(count_rows(&database, &t, "a").await.unwrap(), 1);
        database.close().await.unwrap();
    });
}

/// The first start of all fails at some operation and at all after it. What the next one
/// acknowledges is there after a power cut, with the data directory's own name.
#[test]
fn a_directory_that_was_half_made_is_whole_after_the_next_start() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut failed = 0;
    for (seed, first) in (0..60).flat_map(|first| [(1, first), (2, first), (3, first)]) {
        LocalSet::new().block_on(&runtime, async {
            let disk = SimulatedDisk::new(seed);
            let operations = Cell::new(0);
            let failing = FailingDisk::shared(disk.shared(), move |_| {
                operations.set(operations.get() + 1);
                (operations.get() > first).then_some(5)
            });
            failed += usize::from(try_open(failing).await.is_err());
            let database = open(disk.shared()).await;
            let t = database.create_table(definition(), false).await.unwrap();
            database.apply(insert(&t, "a", 1, 1, 1)).await.unwrap();
            let again = open(disk.power_cut().shared()).await;
            let what = format!("failed from operation {first} on, seed {seed}");
            let t = again.catalog().table("default", "t").expect(&what).clone();
            assert_eq!(count_rows(&again, &t, "a").await.unwrap(), 1, "{what}");
        });
    }
    assert!((30..180).contains(&failed), "{failed} starts failed");
}

/// Whoever asked for a change may go at any time: memory, shards and disk agree all the same, and
/// the next change comes behind this one.
#[test]
fn a_change_whose_caller_goes_is_made_whole_or_not_at_all() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    use Statement::*;
    for statement in [CreateTable, DropTable, AddColumn, DropColumn, CreateKeyspace] {
        let made = Cell::new(0);
        for turns in [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89] {
            LocalSet::new().block_on(&runtime, async {
                let what = format!("{statement:?}, whose caller goes after {turns} turns");
                let disk = SimulatedDisk::new(turns);
                let database = open(disk.shared()).await;
                database.create_table(definition(), false).await.unwrap();
                let before = names(&database);
                disk.set_faults(Faults { delay_turns_max: 30, ..Faults::default() });
                let own = database.clone();
                let caller = tokio::task::spawn_local(async move { run(&own, statement).await });
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
                caller.abort();
                let has_gone = caller.await.is_err();
                database.create_keyspace("next", false).await.unwrap();
                let after = names(&database);
                assert!(after.contains(&"next".to_owned()), "{what}");
                let mut rest = after.clone();
                rest.retain(|name| name != "next");
                made.set(made.get() + u32::from(has_gone && rest != before));
                let tables = database.catalog().all_tables().count();
                assert_eq!(tables_of_shards(&database).await, tables, "{what}: on the shard");
                let again = open(disk.power_cut().shared()).await;
                assert_eq!(names(&again), after, "{what}: on the disk");
                assert_eq!(tables_of_shards(&again).await, tables, "{what}: after a start");
            });
        }
        assert!(made.get() > 0, "{statement:?} goes on when its caller has gone");
    }
}

/// The size that is stored is the one that the shards have, now and after the next start.
#[test]
fn a_cache_whose_new_size_cannot_be_stored_keeps_its_size() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let disk = SimulatedDisk::new(1);
        let (step, faults) = (Rc::new(Cell::new(0)), Rc::new(Cell::new((0, 0))));
        let database = open(failing(&disk, step.clone(), faults.clone())).await;
        let capacity = async || database.cache_report().await.unwrap()[0].capacity_bytes;
        database.set_cache_bytes(1 << 20).await.unwrap();
        assert_eq!(capacity().await, 1 << 20);
        step.set(0);
        faults.set((0, 1));
        database.set_cache_bytes(2 << 20).await.unwrap_err();
        assert_eq!(capacity().await, 1 << 20);
        faults.set((0, 0));
        let again = open(disk.power_cut().shared()).await;
        assert_eq!(again.cache_report().await.unwrap()[0].capacity_bytes, 1 << 20);
    });
}
