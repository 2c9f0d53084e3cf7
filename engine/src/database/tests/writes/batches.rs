//! Batches that are all or nothing.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use tokio::task::LocalSet;

use super::*;
use crate::clock::{Random, SimulatedClock};
use crate::commitlog::Durability;
use crate::disk::{Faults, SimulatedDisk};
use crate::error::Error;
use crate::runtime::{ShardContext, SimulatedTimer};

const SHARDS: u32 = 3;
const PARTITIONS: i32 = 12;

/// A row with this value in each of the partitions.
fn batch(schema: &SchemaRef, value: i64, stamp: i64) -> Vec<Mutation> {
    (0..PARTITIONS).map(|pk| insert(schema, &pk.to_string(), 1, value, stamp)).collect()
}

/// The values in all partitions, in order; `None` where there is no row.
async fn values_in_all(database: &Database, schema: &SchemaRef) -> Vec<Option<i64>> {
    let mut all = Vec::new();
    for pk in 0..PARTITIONS {
        let slice = Slice::full(Direction::Forward);
        let found = values(database, read_of(schema, &pk.to_string(), slice, None)).await;
        all.push(found.first().copied());
    }
    all
}

pub(super) async fn open(
    disk: &SimulatedDisk,
    clock: &Arc<SimulatedClock>,
    durability: Durability,
) -> crate::error::Result<Database> {
    open_with(disk, clock, durability, 1 << 16).await
}

async fn open_with(
    disk: &SimulatedDisk,
    clock: &Arc<SimulatedClock>,
    durability: Durability,
    commitlog_segment_bytes: usize,
) -> crate::error::Result<Database> {
    let options = Options { durability, commitlog_segment_bytes, ..Options::new("/db") };
    open_as(disk, clock, options).await
}

async fn open_as(
    disk: &SimulatedDisk,
    clock: &Arc<SimulatedClock>,
    options: Options,
) -> crate::error::Result<Database> {
    let (timer, _) = SimulatedTimer::passing(clock.clone(), 50);
    let contexts = (0..SHARDS).map(|shard| {
        let timer = Rc::new(timer.clone());
        ShardContext::new((shard, SHARDS), disk.shared(), clock.clone(), timer, 7)
    });
    let options = Options { clock: clock.clone(), ..options };
    Database::open_local(options, contexts.collect()).await
}

async fn table(database: &Database) -> SchemaRef {
    match database.catalog().table("default", "t") {
        Some(schema) => schema.clone(),
        None => database.create_table(definition(), false).await.unwrap(),
    }
}

pub(super) fn play<F: Future>(work: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    LocalSet::new().block_on(&runtime, work)
}

#[tokio::test]
async fn a_batch_is_applied_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    for durability in [Durability::Sync, Durability::Periodic { ms: 1000 }] {
        let options =
            Options { durability, shards: Some(SHARDS), ..Options::new(directory.path()) };
        let database = Database::open(options).await.unwrap();
        let schema = table(&database).await;
        let stamp = database.timestamp_us();
        database.apply_logged(batch(&schema, stamp, stamp)).await.unwrap();
        let wanted = vec![Some(stamp); PARTITIONS as usize];
        assert_eq!(values_in_all(&database, &schema).await, wanted);
        // One partition, and none at all.
        let one = [2, 3].map(|at| insert(&schema, "0", at, 5, stamp));
        database.apply_logged(one.into()).await.unwrap();
        assert_eq!(count_rows(&database, &schema, "0").await.unwrap(), 3);
        database.apply_logged(Vec::new()).await.unwrap();
        database.close().await.unwrap();
        let left = std::fs::read_dir(directory.path().join("batches")).unwrap().count();
        assert_eq!(left, 0, "{durability:?}");
    }
}

#[tokio::test]
async fn what_is_refused_is_refused_whole() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        shards: Some(SHARDS),
        commitlog_segment_bytes: 1 << 16,
        ..Options::new(directory.path())
    };
    let database = Database::open(options).await.unwrap();
    let schema = table(&database).await;
    let stamp = database.timestamp_us();
    let mut gone = batch(&schema, 1, stamp);
    gone.push(Mutation::new(TableId(77), key(&schema, "x")));
    assert!(matches!(database.apply_logged(gone).await, Err(Error::NotFound { .. })));
    let mut wrong = batch(&schema, 1, stamp);
    wrong[5].rows[0].1.put(ColumnId(9), Cell::live(stamp, *b"x"));
    assert!(matches!(database.apply_logged(wrong).await, Err(Error::Invalid(_))));
    let mut large = batch(&schema, 1, stamp);
    for at in 0..4000 {
        let row = insert(&schema, "5", at, 1, stamp);
        large.push(row);
    }
    let error = database.apply_logged(large).await.unwrap_err().to_string();
    assert!(error.contains("too large"), "{error}");
    assert_eq!(values_in_all(&database, &schema).await, vec![None; PARTITIONS as usize]);
    database.close().await.unwrap();
}

/// The power goes at any moment of a batch: all of it is there afterwards, or nothing.
#[test]
fn a_power_cut_leaves_all_or_nothing() {
    let (mut all, mut none) = (0, 0);
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let clock = SimulatedClock::new(1_700_000_000_000_000);
        let disk = SimulatedDisk::new(seed);
        disk.set_faults(Faults { delay_turns_max: 16 << random.below(6), ..Faults::default() });
        let is_sync = !random.one_in(4);
        let durability = if is_sync { Durability::Sync } else { Durability::Periodic { ms: 5 } };
        let told = play(async {
            let database = open(&disk, &clock, durability).await.unwrap();
            let schema = table(&database).await;
            let stamp = database.timestamp_us();
            if random.one_in(2) {
                database.apply_logged(batch(&schema, 1, stamp)).await.unwrap();
            }
            let second = database.apply_logged(batch(&schema, 2, stamp + 1));
            let task = tokio::task::spawn_local(second);
            for _ in 0..random.below(40) {
                tokio::task::yield_now().await;
            }
            task.is_finished()
        });
        let disk = disk.power_cut();
        let found = play(async {
            let database = open(&disk, &clock, durability).await.unwrap();
            let schema = table(&database).await;
            let found = values_in_all(&database, &schema).await;
            // What was applied again at the start is not applied at every start.
            assert!(disk.files().iter().all(|(path, _)| !path.starts_with("/db/batches")));
            database.close().await.unwrap();
            found
        });
        let is_same = found.iter().all(|value| *value == found[0]);
        assert!(is_same, "seed {seed}: a part of a batch is there: {found:?}");
        assert!(!told || !is_sync || found[0] == Some(2), "seed {seed}: what was told is gone");
        all += u32::from(found[0] == Some(2));
        none += u32::from(found[0] != Some(2));
    }
    assert!(all > 20 && none > 20, "{all} batches were there, {none} were not");
}

/// Operations of the disk fail while batches run. After a restart none is there in part.
#[test]
fn a_failing_disk_leaves_all_or_nothing() {
    let mut met = [0, 0];
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let clock = SimulatedClock::new(1_700_000_000_000_000);
        let disk = SimulatedDisk::new(seed);
        let told = play(async {
            let database = open(&disk, &clock, Durability::Sync).await.unwrap();
            let schema = table(&database).await;
            let mut faults = Faults::default();
            match random.below(4) {
                0 => faults.write_error_one_in = 2 + random.below(10),
                1 => faults.sync_error_one_in = 2 + random.below(10),
                2 => faults.name_error_one_in = 2 + random.below(5),
                _ => faults.capacity_bytes = Some(random.below(1 << 18)),
            }
            disk.set_faults(faults);
            let stamp = database.timestamp_us();
            let told = database.apply_logged(batch(&schema, 2, stamp)).await;
            disk.set_faults(Faults::default());
            // What failed may make closing fail.
            let _ = database.close().await;
            told
        });
        let found = play(async {
            let database = open(&disk, &clock, Durability::Sync).await.unwrap();
            let schema = table(&database).await;
            let found = values_in_all(&database, &schema).await;
            database.close().await.unwrap();
            found
        });
        assert!(found.iter().all(|value| *value == found[0]), "seed {seed}: {found:?}");
        assert!(told.is_err() || found[0] == Some(2), "seed {seed}: what was told is gone");
        met[usize::from(told.is_ok())] += 1;
    }
    assert!(met.iter().all(|count| *count > 10), "{met:?} batches failed, and were applied");
}

/// Where writes are not synced one by one, the commitlogs of all parts are before the file goes.
#[test]
fn a_batch_is_forgotten_when_nothing_of_it_can_be_lost() {
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let disk = SimulatedDisk::new(4);
    let durability = Durability::Periodic { ms: 3_600_000 };
    play(async {
        let database = open(&disk, &clock, durability).await.unwrap();
        let schema = table(&database).await;
        let stamp = database.timestamp_us();
        database.apply_logged(batch(&schema, 2, stamp)).await.unwrap();
        while has_batches(&disk) {
            tokio::task::yield_now().await;
        }
    });
    let disk = disk.power_cut();
    play(async {
        let database = open(&disk, &clock, durability).await.unwrap();
        let schema = table(&database).await;
        let wanted = vec![Some(2); PARTITIONS as usize];
        assert_eq!(values_in_all(&database, &schema).await, wanted);
        database.close().await.unwrap();
    });
}

/// A partition of a shard.
fn partition_of(shard: u32) -> String {
    let mut names = (0..).map(|number: i32| number.to_string());
    let is_there = |name: &String| key(&definition(), name).token().shard(SHARDS) == shard;
    names.find(is_there).unwrap()
}

/// A table that merges nothing by itself and keeps no tombstone for long.
async fn quiet_table(database: &Database, name: &str) -> SchemaRef {
    let mut schema = TableSchema { name: name.into(), ..definition() };
    schema.options.gc_grace_seconds = 0;
    schema.options.compaction.is_enabled = false;
    database.create_table(schema, false).await.unwrap()
}

/// Deletes a row whose cells are in an SSTable, in another one.
async fn delete_one(database: &Database, schema: &SchemaRef, pk: &str) {
    database.apply(insert(schema, pk, 7, 1, 1)).await.unwrap();
    database.flush(None).await.unwrap();
    let mut deletion = Mutation::new(schema.id, key(schema, pk));
    let tombstone = Tombstone { timestamp: 2, deletion_time: 1_600_000_000 };
    deletion.rows.push((ck(schema, 7), Row { deletion: Some(tombstone), ..Row::default() }));
    database.apply(deletion).await.unwrap();
    database.flush(None).await.unwrap();
}

/// Tombstones that are left when everything is merged.
async fn tombstones_after_compaction(database: &Database, schema: &SchemaRef) -> u64 {
    database.compact(schema.id).await.unwrap();
    let reports = database.sstable_report().await.unwrap();
    reports.iter().map(|report| report.status.info.tombstones.unwrap()).sum()
}

async fn freeze(database: &Database, schema: &SchemaRef, pk: &str, is_frozen: bool) {
    let id = schema.id;
    let work = move |shard: Rc<crate::database::shard::Shard>| {
        let freeze = async move { shard.table(id).unwrap().freeze(is_frozen).await };
        futures::FutureExt::boxed_local(freeze)
    };
    database.on_shard(&key(schema, pk), work).await.unwrap();
}

fn has_batches(disk: &SimulatedDisk) -> bool {
    disk.files().iter().any(|(path, _)| path.starts_with("/db/batches"))
}

/// A tombstone may cover what the next start would apply again.
#[test]
fn no_tombstone_is_purged_while_a_batch_is_logged() {
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let disk = SimulatedDisk::new(3);
    let (own, other) = (partition_of(0), partition_of(1));
    play(async {
        let database = open(&disk, &clock, Durability::Sync).await.unwrap();
        let (schema, beside) =
            (quiet_table(&database, "t").await, quiet_table(&database, "beside").await);
        // The largest part takes more than half of a small segment, and less than half of a large
        // one.
        let parts = || -> Vec<Mutation> {
            let stamp = database.timestamp_us();
            let large = (0..600).map(|at| insert(&beside, &other, at, 1, stamp));
            [insert(&schema, &own, 1, 1, stamp)].into_iter().chain(large).collect()
        };
        delete_one(&database, &schema, &own).await;
        freeze(&database, &beside, &other, true).await;
        let told = database.apply_logged(parts()).await;
        assert!(matches!(told, Err(Error::Unavailable(_))), "{told:?}");
        assert_eq!(tombstones_after_compaction(&database, &schema).await, 1, "the batch waits");
        freeze(&database, &beside, &other, false).await;
        while has_batches(&disk) {
            tokio::task::yield_now().await;
        }
        assert_eq!(tombstones_after_compaction(&database, &schema).await, 0, "the batch is done");
        delete_one(&database, &schema, &own).await;
        freeze(&database, &beside, &other, true).await;
        database.apply_logged(parts()).await.unwrap_err();
    });
    let disk = disk.power_cut();
    // What is too long for a record now cannot be applied, and may be at a later start.
    for (segment_bytes, left) in [(1 << 14, 1), (1 << 16, 0)] {
        play(async {
            let opened = open_with(&disk, &clock, Durability::Sync, segment_bytes).await;
            let database = opened.unwrap();
            let schema = table(&database).await;
            assert_eq!(has_batches(&disk), left == 1, "segments of {segment_bytes} bytes");
            assert_eq!(tombstones_after_compaction(&database, &schema).await, left);
            database.close().await.unwrap();
        });
    }
}

#[test]
fn a_batch_that_could_not_be_logged_keeps_no_tombstone() {
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let disk = SimulatedDisk::new(3);
    play(async {
        let database = open(&disk, &clock, Durability::Sync).await.unwrap();
        let schema = quiet_table(&database, "t").await;
        delete_one(&database, &schema, &partition_of(0)).await;
        disk.set_faults(Faults { name_error_one_in: 1, ..Faults::default() });
        let told = database.apply_logged(batch(&schema, 1, 1)).await.unwrap_err();
        assert!(told.is_disk_full(), "{told}");
        disk.set_faults(Faults::default());
        assert_eq!(tombstones_after_compaction(&database, &schema).await, 0);
        database.close().await.unwrap();
    });
}

/// A part of a batch is refused, and comes later; the snapshot is made in between.
#[test]
fn a_snapshot_amid_a_batch_has_all_of_it() {
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let disk = SimulatedDisk::new(5);
    let (own, other) = (partition_of(0), partition_of(1));
    let slice = || Slice::full(Direction::Forward);
    play(async {
        let database = open(&disk, &clock, Durability::Sync).await.unwrap();
        let (schema, beside) =
            (quiet_table(&database, "t").await, quiet_table(&database, "beside").await);
        freeze(&database, &beside, &other, true).await;
        let stamp = database.timestamp_us();
        let parts = vec![insert(&schema, &own, 1, 7, stamp), insert(&beside, &other, 1, 8, stamp)];
        let told = database.apply_logged(parts).await;
        assert!(matches!(told, Err(Error::Unavailable(_))), "{told:?}");
        assert_eq!(values(&database, read_of(&schema, &own, slice(), None)).await, [7]);
        assert!(values(&database, read_of(&beside, &other, slice(), None)).await.is_empty());
        database.snapshot("/snap").await.unwrap();
    });
    let disk = disk.power_cut();
    play(async {
        let copy = open_as(&disk, &clock, Options::new("/snap")).await.unwrap();
        let of_table = |name| copy.catalog().table("default", name).unwrap().clone();
        for (name, pk, value) in [("t", &own, 7), ("beside", &other, 8)] {
            let found = values(&copy, read_of(&of_table(name), pk, slice(), None)).await;
            assert_eq!(found, [value], "{name}");
        }
        copy.close().await.unwrap();
    });
}

/// Batches are applied and forgotten while it is made. One shard has much to flush before what they
/// write to, the other has nothing.
#[test]
fn a_snapshot_beside_batches_has_all_or_nothing_of_each() {
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let parts = [partition_of(0), partition_of(1)];
    let mut met = BTreeSet::new();
    for seed in 0..20 {
        let disk = SimulatedDisk::new(seed);
        play(async {
            let database = open(&disk, &clock, Durability::Sync).await.unwrap();
            let before = quiet_table(&database, "before").await;
            let schema = quiet_table(&database, "t").await;
            let rows = (0..300).map(|row| insert(&before, &parts[0], row, 0, 1));
            database.apply_many(rows.collect()).await.unwrap();
            disk.set_faults(Faults { delay_turns_max: 10, ..Faults::default() });
            let is_over = Rc::new(std::cell::Cell::new(false));
            let writer = tokio::task::spawn_local({
                let (database, parts, is_over) = (database.clone(), parts.clone(), is_over.clone());
                async move {
                    let mut value = 0;
                    while !is_over.get() {
                        value += 1;
                        let stamp = database.timestamp_us();
                        let batch = |pk: &String| insert(&schema, pk, value, value.into(), stamp);
                        database.apply_logged(parts.iter().map(batch).collect()).await.unwrap();
                    }
                    value
                }
            });
            for _ in 0..seed * 20 {
                tokio::task::yield_now().await;
            }
            database.snapshot("/snap").await.unwrap();
            is_over.set(true);
            assert!(writer.await.unwrap() > 1, "none but one was written");
        });
        let disk = disk.power_cut();
        disk.set_faults(Faults::default());
        play(async {
            let copy = open_as(&disk, &clock, Options::new("/snap")).await.unwrap();
            let schema = copy.catalog().table("default", "t").unwrap().clone();
            let slice = || Slice::full(Direction::Forward);
            let found =
                parts.each_ref().map(|pk| values(&copy, read_of(&schema, pk, slice(), None)));
            let [own, other] = found;
            let (own, other) = (own.await, other.await);
            assert_eq!(own, other, "seed {seed}");
            met.insert(own.len());
            copy.close().await.unwrap();
        });
    }
    assert!(met.len() > 3, "it was made beside few batches: {met:?}");
}

#[test]
fn a_damaged_batch_is_named_and_left() {
    let clock = SimulatedClock::new(1_700_000_000_000_000);
    let directory = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let options = Options { clock, shards: Some(2), ..Options::new(directory.path()) };
        let batches = directory.path().join("batches");
        std::fs::create_dir(&batches).unwrap();
        std::fs::write(batches.join("0-5"), "tidegate-batch 1 00000000\nx").unwrap();
        std::fs::write(batches.join("0-6.tmp"), "tidegate").unwrap();
        let database = Database::open(options).await.unwrap();
        database.close().await.unwrap();
        let left = std::fs::read_dir(&batches).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["0-5"]);
    });
}
