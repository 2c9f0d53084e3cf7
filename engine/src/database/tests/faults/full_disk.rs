//! A start on a disk that is full or fails: reads only, and writes as soon as there is room,
//! without another start. What the log holds stays in it until it is somewhere else.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::failing_disk::{FailingDisk, WAITS, failing_at};
use super::log_limit::{SEGMENT_BYTES, run};
use super::*;
use crate::clock::SimulatedClock;
use crate::commitlog::{Commitlog, CommitlogOptions, Durability};
use crate::disk::{Access, AlignedBuffer, Disk, Faults, OpenOptions, SimulatedDisk};
use crate::error::Error;
use crate::runtime::{ShardContext, SimulatedTimer};

async fn open(disk: &Rc<dyn Disk>, shards: u32) -> Database {
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let (timer, _) = SimulatedTimer::passing(clock.clone(), 1);
    let contexts = (0..shards).map(|shard| {
        let (clock, timer) = (clock.clone(), Rc::new(timer.clone()));
        ShardContext::new((shard, shards), disk.clone(), clock, timer, 5)
    });
    let options = Options {
        commitlog_segment_bytes: SEGMENT_BYTES,
        clock: clock.clone(),
        ..Options::new(Path::new("/db"))
    };
    Database::open_local(options, contexts.collect()).await.unwrap()
}

/// A disk on which nothing new can be made while it is full, no folder of a new shard count either.
fn may_be_full(disk: &SimulatedDisk, is_full: Rc<Cell<bool>>) -> Rc<dyn Disk> {
    FailingDisk::shared(disk.shared(), move |path| {
        let text = path.to_string_lossy();
        let new = ["CommitLog", "-of-2", ".db", ".tmp", "lost"];
        (is_full.get() && new.iter().any(|part| text.contains(part))).then_some(28)
    })
}

/// Half a frame behind the last one, as a crash leaves it.
async fn tear(disk: &SimulatedDisk, manifest: &Path) {
    let options = OpenOptions { access: Access::ReadWrite, data_sync: true };
    let file = disk.open(manifest, options).await.unwrap();
    let end = file.size().await.unwrap();
    file.write_at(end, AlignedBuffer::padded(b"TGMF and not much else")).await.0.unwrap();
}

async fn play(shards: u32, is_torn: bool) {
    let what = format!("{shards} shards, torn {is_torn}");
    let disk = SimulatedDisk::new(1);
    let database = open(&disk.shared(), 1).await;
    let t = database.create_table(definition(), false).await.unwrap();
    for row in 0..10 {
        if row == 5 {
            database.flush(None).await.unwrap();
        }
        database.apply(insert(&t, "a", row, 1, 1)).await.unwrap();
    }
    let disk = disk.power_cut();
    let folder = PathBuf::from(format!("/db/data/default/t-{}", t.id.hex()));
    if is_torn {
        tear(&disk, &folder.join("manifest-0-of-1")).await;
    }
    let is_full = Rc::new(Cell::new(true));
    let database = open(&may_be_full(&disk, is_full.clone()), shards).await;
    assert_eq!(count_rows(&database, &t, "a").await.unwrap(), 10, "{what}: reads go on");
    for _ in 0..3 {
        let refused = database.apply(insert(&t, "a", 10, 1, 1)).await.unwrap_err();
        assert!(refused.is_disk_full() && refused.is_retryable(), "{what}: {refused}");
    }
    is_full.set(false);
    let mut tries = 0;
    while let Err(error) = database.apply(insert(&t, "a", 10, 1, 1)).await {
        assert!(error.is_disk_full() && tries < 100_000, "{what}: {error}");
        tries += 1;
        tokio::task::yield_now().await;
    }
    assert!(tries > 0, "{what}: it was tried again");
    database.flush(None).await.unwrap();
    database.apply(insert(&t, "a", 11, 1, 1)).await.unwrap();
    let again = open(&disk.power_cut().shared(), 1).await;
    assert_eq!(count_rows(&again, &t, "a").await.unwrap(), 12, "{what}");
}

#[test]
fn writes_go_on_without_another_start_when_there_is_room() {
    for (shards, is_torn) in [(1, false), (1, true), (2, false), (2, true)] {
        run(play(shards, is_torn));
    }
}

/// Each try has a number of its own, so what one leaves is not what the next one writes over.
#[test]
fn flushes_that_find_no_room_leave_no_files() {
    for pages in 0..4 {
        run(async {
            let disk = SimulatedDisk::new(1);
            let database = open(&disk.shared(), 1).await;
            let t = database.create_table(definition(), false).await.unwrap();
            for row in 0..100 {
                database.apply(insert(&t, "a", row, 1, 1)).await.unwrap();
            }
            let components = || -> Vec<PathBuf> {
                let files = disk.files().into_iter().map(|(path, _)| path);
                files.filter(|path| path.extension().is_some_and(|end| end == "db")).collect()
            };
            let used: u64 = disk.files().iter().map(|(_, bytes)| bytes).sum();
            let capacity_bytes = Some(used + pages * 4096);
            disk.set_faults(Faults { capacity_bytes, ..Faults::default() });
            for _ in 0..3 {
                let refused = database.flush(None).await.unwrap_err();
                assert!(refused.is_disk_full(), "{pages} pages: {refused}");
                assert!(components().is_empty(), "{pages} pages: {:?}", components());
            }
            disk.set_faults(Faults::default());
            database.flush(None).await.unwrap();
            assert!(components().len() > 3, "{:?}", components());
            assert_eq!(count_rows(&database, &t, "a").await.unwrap(), 100);
        });
    }
}

/// A write of a log that no SSTable can hold is kept in a file, or stays in the log.
#[test]
fn a_write_that_finds_no_room_to_be_set_aside_stays_in_the_log() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let database = open(&disk.shared(), 1).await;
        let t = database.create_table(definition(), false).await.unwrap();
        database.close().await.unwrap();
        let options = CommitlogOptions {
            directory: PathBuf::from("/db/commitlog/0-of-1"),
            shard: 0,
            shard_count: 1,
            durability: Durability::Sync,
            segment_bytes: SEGMENT_BYTES,
            first_segment_min: 0,
            ledger: None,
        };
        let clock = SimulatedClock::new(1_800_000_000_000_000);
        let log = Commitlog::open(disk.shared(), clock, options).await.unwrap();
        let mut unfit = insert(&t, "a", 1, 1, 1);
        unfit.rows[0].0 = ClusteringKey::empty();
        for write in [unfit, insert(&t, "a", 2, 2, 1)] {
            log.append(&write).unwrap().1.await.unwrap();
        }
        log.close().await.unwrap();
        let kept = |disk: &SimulatedDisk| {
            let files = disk.files();
            files.iter().filter(|(path, _)| path.starts_with("/db/set-aside")).count()
        };
        let is_full = FailingDisk::shared(disk.shared(), |path| {
            path.starts_with("/db/set-aside").then_some(28)
        });
        for (disk_of_start, wanted) in [(is_full, 0), (disk.shared(), 1)] {
            let database = open(&disk_of_start, 1).await;
            assert_eq!(count_rows(&database, &t, "a").await.unwrap(), 1, "the others are read");
            assert_eq!(kept(&disk), wanted);
            database.close().await.unwrap();
        }
    });
}

/// Rows of the log that a start has in memory only are still in the log.
#[test]
fn a_start_that_cannot_flush_what_it_replays_keeps_the_log() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let database = open(&disk.shared(), 1).await;
        let t = database.create_table(definition(), false).await.unwrap();
        for row in 0..10 {
            database.apply(insert(&t, "a", row, 1, 1)).await.unwrap();
        }
        let mut disk = disk.power_cut();
        for start in 0..3 {
            let failing = FailingDisk::shared(disk.shared(), |path| {
                path.to_string_lossy().ends_with("Data.db").then_some(5)
            });
            let database = open(&failing, 1).await;
            assert_eq!(count_rows(&database, &t, "a").await.unwrap(), 10, "start {start}");
            disk = disk.power_cut();
        }
        let database = open(&disk.shared(), 1).await;
        assert_eq!(count_rows(&database, &t, "a").await.unwrap(), 10, "once files can be made");
        database.close().await.unwrap();
    });
}

/// A flush that met a full disk looks again after a while. Where somebody else has flushed
/// meanwhile, what it met is of the past, and writers wait for flushes again.
#[test]
fn a_full_disk_is_forgotten_when_somebody_else_has_flushed() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let is_sstable = |path: &Path| path.to_string_lossy().ends_with(".db");
        let (failing, met) = failing_at(disk.shared(), is_sstable);
        let database = super::log_limit::open(failing, 8 << 10).await;
        let t = database.create_table(definition(), false).await.unwrap();
        let rows = |pk: &str, first: i32| -> Vec<Mutation> {
            (first..first + 20).map(|row| insert(&t, pk, row, 1, 1)).collect()
        };
        met.set(Some(28));
        let mut written = 0;
        let refused = loop {
            match database.apply_many(rows("a", written)).await {
                Ok(()) => written += 20,
                Err(error) => break error,
            }
            assert!(written < 10_000, "nothing stops the writer");
        };
        assert!(refused.is_disk_full(), "{refused}");
        met.set(None);
        database.flush(None).await.unwrap();
        // Longer than any pause between two tries.
        let until_us = database.clock().wall_us() + 10_000_000;
        while database.clock().wall_us() < until_us {
            tokio::task::yield_now().await;
        }
        met.set(Some(WAITS));
        let later: Vec<_> = (0..800).step_by(20).map(|first| rows("b", first)).collect();
        let own = database.clone();
        let writer = tokio::task::spawn_local(async move {
            for many in later {
                own.apply_many(many).await?;
            }
            Ok::<(), Error>(())
        });
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
        assert!(!writer.is_finished(), "a writer waits while a flush is under way");
        met.set(None);
        writer.await.unwrap().unwrap();
        assert_eq!(count_rows(&database, &t, "b").await.unwrap(), 800);
        database.close().await.unwrap();
    });
}

/// Writes to a table until it takes no more; returns how many rows were acknowledged, and why no
/// more are.
async fn fill(database: &Database, schema: &SchemaRef) -> (usize, Error) {
    for first in (0..10_000).step_by(50) {
        // Many at a time take few blocks of the log.
        let many = (first..first + 50).map(|row| insert(schema, "a", row, 1, 1));
        if let Err(error) = database.apply_many(many.collect()).await {
            return (first as usize, error);
        }
    }
    panic!("nothing stops the writer of {}", schema.name);
}

/// One that cannot be flushed stops itself alone. Of many the memory is that of all.
#[test]
fn many_tables_that_cannot_be_flushed_stop_every_writer_with_their_names() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let is_stuck = |path: &Path| {
            let text = path.to_string_lossy();
            text.contains("/stuck") && text.ends_with("Data.db")
        };
        let (failing, met) = failing_at(disk.shared(), is_stuck);
        // The log has room for all of it.
        let open = |disk| {
            super::log_limit::open_within(disk, (32 << 10, 256 << 20), 1_700_000_000_000_000)
        };
        let database = open(failing).await;
        let create = |name: &str| {
            let schema = TableSchema { name: name.into(), ..definition() };
            database.create_table(schema, false)
        };
        let fine = create("fine").await.unwrap();
        let mut stuck = Vec::new();
        for name in ["stuck0", "stuck1", "stuck2", "stuck3"] {
            stuck.push(create(name).await.unwrap());
        }
        met.set(Some(5));
        let (told, error) = fill(&database, &stuck[0]).await;
        assert!(matches!(error, Error::Unavailable(_)), "{error}");
        database.apply(insert(&fine, "a", 1, 1, 1)).await.unwrap();
        for schema in &stuck[1..] {
            fill(&database, schema).await;
        }
        let refused = database.apply(insert(&fine, "a", 2, 1, 1)).await.unwrap_err();
        let text = refused.to_string();
        assert!(matches!(refused, Error::Overloaded(_)) && refused.is_retryable(), "{text}");
        assert!(text.contains("mend or drop") && text.contains("default.stuck0"), "{text}");
        assert!(!text.contains("fine"), "{text}");
        assert_eq!(count_rows(&database, &fine, "a").await.unwrap(), 1, "reads go on");
        assert!(count_rows(&database, &stuck[0], "a").await.unwrap() >= told);
        for schema in &stuck[1..] {
            database.drop_table("default", &schema.name, false).await.unwrap();
        }
        database.apply(insert(&fine, "a", 2, 1, 1)).await.unwrap();
        met.set(None);
        database.close().await.unwrap();
        let again = open(disk.shared()).await;
        assert_eq!(count_rows(&again, &fine, "a").await.unwrap(), 2);
        assert!(count_rows(&again, &stuck[0], "a").await.unwrap() >= told);
        again.close().await.unwrap();
    });
}

/// Whoever was refused for their sake may write again.
#[test]
fn tables_that_can_be_flushed_again_stop_nobody() {
    run(async {
        let disk = SimulatedDisk::new(2);
        let is_stuck = |path: &Path| {
            let text = path.to_string_lossy();
            text.contains("/stuck") && text.ends_with("Data.db")
        };
        let (failing, met) = failing_at(disk.shared(), is_stuck);
        let limits = (32 << 10, 256 << 20);
        let database = super::log_limit::open_within(failing, limits, 1_700_000_000_000_000).await;
        let mut tables = Vec::new();
        for name in ["fine", "stuck0", "stuck1", "stuck2", "stuck3"] {
            let schema = TableSchema { name: name.into(), ..definition() };
            tables.push(database.create_table(schema, false).await.unwrap());
        }
        met.set(Some(5));
        for schema in &tables[1..] {
            fill(&database, schema).await;
        }
        database.apply(insert(&tables[0], "a", 1, 1, 1)).await.unwrap_err();
        met.set(None);
        // Longer than any pause between two tries.
        let until_us = database.clock().wall_us() + 10_000_000;
        while database.clock().wall_us() < until_us {
            tokio::task::yield_now().await;
        }
        for first in (0..400).step_by(50) {
            for schema in &tables {
                let many = (first..first + 50).map(|row| insert(schema, "b", row, 1, 1));
                database.apply_many(many.collect()).await.unwrap();
            }
        }
        for schema in &tables {
            assert_eq!(count_rows(&database, schema, "b").await.unwrap(), 400);
        }
        database.close().await.unwrap();
    });
}

/// The disk refuses the first file that is made, and takes its time for the others.
#[test]
fn each_shard_ends_its_flush_whatever_another_one_meets() {
    run(async {
        let disk = SimulatedDisk::new(3);
        let was_asked = Cell::new(false);
        let is_first = move |path: &Path| {
            path.to_string_lossy().ends_with("Data.db") && !was_asked.replace(true)
        };
        let (failing, met) = failing_at(disk.shared(), is_first);
        let database = open(&failing, 2).await;
        let t = database.create_table(definition(), false).await.unwrap();
        for number in 0..20 {
            database.apply(insert(&t, &number.to_string(), 1, 1, 1)).await.unwrap();
        }
        disk.set_faults(Faults { delay_turns_max: 20, ..Faults::default() });
        met.set(Some(5));
        let error = database.flush(None).await.unwrap_err();
        assert!(matches!(error, Error::Io { code: Some(5), .. }), "{error}");
        let sstables = async || {
            let reports = database.table_report().await.unwrap();
            reports.iter().map(|of_shard| of_shard.sstables).sum::<u64>()
        };
        assert_eq!(sstables().await, 1);
        met.set(None);
        database.flush(None).await.unwrap();
        assert_eq!(sstables().await, 2);
        database.close().await.unwrap();
    });
}

/// The first shard has something that it cannot write to disk.
#[test]
fn each_shard_is_closed_whatever_another_one_answers() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let database = open(&disk.shared(), 2).await;
        let t = database.create_table(definition(), false).await.unwrap();
        let pk_of = |shard: u32| {
            let mut names = (0..).map(|number: i32| number.to_string());
            names.find(|name| database.shard_of(&key(&t, name)) == shard).unwrap()
        };
        let (first, second) = (pk_of(0), pk_of(1));
        database.apply(insert(&t, &first, 1, 1, 1)).await.unwrap();
        let folder = PathBuf::from(format!("/db/data/default/t-{}", t.id.hex()));
        disk.set_read_only(Some(&folder));
        let error = database.close().await.unwrap_err().to_string();
        assert!(error.contains("Permission denied"), "{error}");
        for pk in [&first, &second] {
            let late = database.apply(insert(&t, pk, 2, 2, 2)).await;
            assert!(matches!(late, Err(Error::Closed)), "{late:?}");
        }
        disk.set_read_only(None);
        let again = open(&disk.shared(), 2).await;
        for (pk, wanted) in [(&first, 1), (&second, 0)] {
            assert_eq!(count_rows(&again, &t, pk).await.unwrap(), wanted);
        }
        again.close().await.unwrap();
    });
}
