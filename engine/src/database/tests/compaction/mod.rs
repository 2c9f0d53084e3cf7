//! Compactions of a whole database: what is left on the disk whenever the power goes, what may be
//! purged, and who meets them.

mod cancelled;
mod incremental;
mod resharding;
mod shapes;
mod told;

use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::LocalSet;

use super::*;
use crate::clock::{Clock, SimulatedClock};
use crate::database::CompactionEnd;
use crate::disk::{Faults, SimulatedDisk};
use crate::error::Error;
use crate::runtime::{ShardContext, SimulatedTimer};
use crate::schema::{CompactionClass, CompactionOptions, OnCorruption};
use crate::sstable::generation_of;

const START_US: i64 = 1_700_000_000_000_000;
const START: i32 = 1_700_000_000;

struct World {
    clock: Arc<SimulatedClock>,
    database: Database,
}

async fn open(disk: &SimulatedDisk) -> World {
    open_at(disk, START_US).await
}

async fn open_at(disk: &SimulatedDisk, now_us: i64) -> World {
    open_with(disk, 1, now_us).await
}

async fn open_with(disk: &SimulatedDisk, shards: u32, now_us: i64) -> World {
    open_keeping(disk, shards, now_us, None).await
}

/// With so many files open for reading at most while nobody reads them.
async fn open_keeping(
    disk: &SimulatedDisk,
    shards: u32,
    now_us: i64,
    open_files: Option<usize>,
) -> World {
    let clock = SimulatedClock::new(now_us);
    let (timer, _) = SimulatedTimer::passing(clock.clone(), 4);
    let context = |shard| {
        let (clock, timer) = (clock.clone(), Rc::new(timer.clone()));
        ShardContext::new((shard, shards), disk.shared(), clock, timer, 5)
    };
    let options = Options {
        commitlog_segment_bytes: 1 << 17,
        commitlog_bytes: 1 << 22,
        open_files,
        clock: clock.clone(),
        ..Options::new(Path::new("/db"))
    };
    let contexts = (0..shards).map(context).collect();
    let database = Database::open_local(options, contexts).await.unwrap();
    World { clock, database }
}

/// Runs to its end what needs tasks of the shard.
fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    LocalSet::new().block_on(&runtime, work)
}

/// A table that merges nothing by itself.
fn quiet(gc_grace_seconds: i32) -> TableSchema {
    let compaction = CompactionOptions { is_enabled: false, ..CompactionOptions::default() };
    let options = TableOptions { gc_grace_seconds, compaction, ..TableOptions::default() };
    TableSchema { options, ..definition() }
}

fn delete(schema: &TableSchema, pk: &str, at: i32, timestamp: i64) -> Mutation {
    let mut mutation = Mutation::new(schema.id, key(schema, pk));
    let tombstone = Tombstone { timestamp, deletion_time: START };
    let row = Row { deletion: Some(tombstone), ..Row::default() };
    mutation.rows.push((ck(schema, at), row));
    mutation
}

impl World {
    async fn write(&self, mutation: Mutation) {
        self.database.apply(mutation).await.unwrap();
    }

    async fn flush(&self) {
        self.database.flush(None).await.unwrap();
    }

    fn table(&self) -> SchemaRef {
        self.database.catalog().table("default", "t").unwrap().clone()
    }

    /// Values of partition `a`, from the cache or past it.
    async fn values(&self, past_cache: bool) -> Vec<i64> {
        let read = read_of(&self.table(), "a", Slice::full(Direction::Forward), None);
        values(&self.database, ReadCommand { past_cache, ..read }).await
    }

    async fn numbers(&self) -> BTreeSet<u64> {
        let reports = self.database.sstable_report().await.unwrap();
        reports.iter().map(|report| report.status.info.generation).collect()
    }

    async fn tombstones(&self) -> u64 {
        let reports = self.database.sstable_report().await.unwrap();
        reports.iter().map(|report| report.status.info.tombstones.unwrap()).sum()
    }

    async fn compact(&self) {
        self.database.compact(self.table().id).await.unwrap();
    }

    /// Lets some minutes pass in which nobody does anything.
    async fn settle(&self) {
        for _ in 0..20_000 {
            self.clock.advance(Duration::from_millis(20));
            tokio::task::yield_now().await;
        }
        let mut turns = 0;
        while !self.database.compactions().await.unwrap().is_empty() {
            turns += 1;
            assert!(turns < 1_000_000, "a compaction does not end");
            tokio::task::yield_now().await;
        }
    }
}

/// Numbers of the SSTables of which the disk has files, in the folder `lost` or not.
fn numbers_on(disk: &SimulatedDisk) -> BTreeSet<u64> {
    let files = disk.files();
    let names = files.iter().filter_map(|(path, _)| path.file_name()?.to_str());
    names.filter_map(generation_of).collect()
}

/// Four SSTables that overlap, with deletions that are past their grace.
async fn four_sstables(world: &World) -> Vec<i64> {
    let table = world.database.create_table(quiet(60), false).await.unwrap();
    for round in 0..4 {
        for at in 0..10 {
            let value = i64::from(round * 100 + at);
            world.write(insert(&table, "a", at * (round + 1), value, i64::from(round) + 1)).await;
            world.write(insert(&table, "b", at, value, 1)).await;
        }
        world.write(delete(&table, "a", 3, i64::from(round) + 1)).await;
        world.flush().await;
    }
    world.clock.advance(Duration::from_secs(3600));
    world.values(true).await
}

#[test]
fn a_power_cut_at_any_turn_loses_nothing_and_leaves_nothing() {
    let (mut turns, mut is_over) = (0_u64, false);
    let mut counts = BTreeSet::new();
    while !is_over {
        let disk = SimulatedDisk::new(turns);
        let wanted;
        (wanted, is_over) = run(async {
            let world = open(&disk).await;
            let wanted = four_sstables(&world).await;
            // An operation takes several turns of this task.
            disk.set_faults(Faults { delay_turns_max: 400, ..Faults::default() });
            let database = world.database.clone();
            let id = world.table().id;
            let task = tokio::task::spawn_local(async move { database.compact(id).await });
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            (wanted, task.is_finished())
        });
        let disk = disk.power_cut();
        disk.set_faults(Faults::default());
        run(async {
            let world = open_at(&disk, START_US + 3_600_000_000).await;
            assert_eq!(world.values(true).await, wanted, "after {turns} turns");
            assert_eq!(world.values(false).await, wanted, "after {turns} turns");
            let live = world.numbers().await;
            assert_eq!(numbers_on(&disk), live, "after {turns} turns: files of nobody");
            counts.insert(live.len());
            world.database.close().await.unwrap();
            assert_eq!(numbers_on(&disk), live, "after {turns} turns and an end");
        });
        turns += 1 + turns / 128;
    }
    assert_eq!(counts, BTreeSet::from([1, 4]), "before the exchange and behind it");
    assert!(turns > 100, "{turns} turns are too few to meet everything");
}

#[test]
fn what_a_compaction_replaces_is_gone_from_the_disk_and_from_the_numbers() {
    run(async {
        let disk = SimulatedDisk::new(1);
        let world = open(&disk).await;
        let wanted = four_sstables(&world).await;
        let before = world.numbers().await;
        assert_eq!(before.len(), 4);
        world.compact().await;
        let after = world.numbers().await;
        assert!(after.len() == 1 && after.is_disjoint(&before), "{before:?} became {after:?}");
        assert_eq!(numbers_on(&disk), after);
        assert_eq!(world.values(true).await, wanted);
        let [record] = &world.database.compaction_history().await.unwrap()[..] else {
            panic!("one compaction has ended")
        };
        assert_eq!(record.inputs, before.iter().copied().collect::<Vec<_>>());
        assert_eq!((record.outputs.len(), &record.end), (1, &CompactionEnd::Done));
        assert!(record.purged.count > 0 && world.tombstones().await == 0, "{record:?}");
        // Everything that is dead: nothing is left, and its numbers do not come again.
        let table = world.table();
        let mut all = Mutation::new(table.id, key(&table, "a"));
        all.deletion = Some(Tombstone { timestamp: 100, deletion_time: START });
        world.write(Mutation { key: key(&table, "b"), ..all.clone() }).await;
        world.write(all).await;
        world.compact().await;
        assert_eq!(world.numbers().await, BTreeSet::new());
        assert_eq!(numbers_on(&disk), BTreeSet::new());
        world.database.close().await.unwrap();
        let world = open_at(&disk, START_US + 7_200_000_000).await;
        world.write(insert(&table, "a", 1, 1, 200)).await;
        world.flush().await;
        let newest = world.numbers().await;
        assert!(newest.first() > after.last(), "{newest:?} behind {after:?}");
        world.database.close().await.unwrap();
    });
}

#[test]
fn a_tombstone_stays_while_something_older_is_elsewhere() {
    // Where the older row is when the deletion is merged: another SSTable, or memory.
    for in_memory in [false, true] {
        run(async {
            let disk = SimulatedDisk::new(2);
            let world = open(&disk).await;
            let table = world.database.create_table(quiet(60), false).await.unwrap();
            for _ in 0..2 {
                world.write(delete(&table, "a", 1, 10)).await;
                world.flush().await;
            }
            let inputs: Vec<u64> = world.numbers().await.into_iter().collect();
            world.clock.advance(Duration::from_secs(3600));
            world.write(insert(&table, "a", 1, 7, 5)).await;
            if !in_memory {
                world.flush().await;
            }
            assert_eq!(world.values(false).await, [0; 0]);
            let compacted = world.merge(inputs).await;
            assert_eq!(compacted.purged.count, 0, "in memory {in_memory}");
            assert_eq!(world.values(true).await, [0; 0], "in memory {in_memory}");
            assert_eq!(world.tombstones().await, 1, "in memory {in_memory}");
            // Once they meet, both go.
            world.compact().await;
            assert_eq!(world.numbers().await, BTreeSet::new());
            assert_eq!(world.values(true).await, [0; 0]);
            assert_eq!(world.values(false).await, [0; 0]);
            world.database.close().await.unwrap();
        });
    }
}

impl World {
    /// Merges these and no others.
    async fn merge(&self, inputs: Vec<u64>) -> crate::table::Compacted {
        self.merge_into(inputs, None).await.unwrap()
    }

    /// The same, into a run of fragments where it says of how many bytes.
    async fn merge_into(
        &self,
        inputs: Vec<u64>,
        cut_bytes: Option<u64>,
    ) -> crate::error::Result<crate::table::Compacted> {
        use crate::compaction::{Choice, Reason};
        use crate::table::CompactionOrder;

        let (id, now_seconds) = (self.table().id, self.clock.wall_seconds());
        let any = key(&self.table(), "a");
        let merged = self.database.on_shard(&any, move |shard| {
            Box::pin(async move {
                let choice = Choice {
                    inputs,
                    level: 0,
                    cut_bytes,
                    is_incremental: cut_bytes.is_some(),
                    reason: Reason::Asked,
                };
                let progress = Rc::default();
                let order = CompactionOrder { choice, now_seconds, may_purge: true, progress };
                shard.table(id).unwrap().compact(order).await
            })
        });
        merged.await.unwrap()
    }
}

#[test]
fn a_write_that_comes_late_is_not_hidden_by_what_the_cache_remembers() {
    run(async {
        let disk = SimulatedDisk::new(3);
        let world = open(&disk).await;
        let table = world.database.create_table(quiet(60), false).await.unwrap();
        world.write(insert(&table, "a", 1, 1, 1)).await;
        world.write(delete(&table, "a", 1, 10)).await;
        world.write(insert(&table, "a", 2, 2, 1)).await;
        world.flush().await;
        world.clock.advance(Duration::from_secs(3600));
        assert_eq!(world.values(false).await, [2], "the cache knows the deletion now");
        world.compact().await;
        // Older than a deletion that nobody has any more.
        world.write(insert(&table, "a", 1, 3, 5)).await;
        for flushed in [false, true] {
            assert_eq!(world.values(false).await, [3, 2], "flushed {flushed}");
            assert_eq!(world.values(true).await, [3, 2], "flushed {flushed}");
            world.flush().await;
        }
        world.database.close().await.unwrap();
    });
}

#[test]
fn what_was_cached_stays_cached_when_nothing_is_purged() {
    run(async {
        let disk = SimulatedDisk::new(4);
        let world = open(&disk).await;
        let table = world.database.create_table(quiet(864_000), false).await.unwrap();
        for round in 0..4 {
            for at in 0..10 {
                world.write(insert(&table, "a", at + round * 10, 1, 1)).await;
            }
            world.flush().await;
        }
        assert_eq!(world.values(false).await.len(), 40);
        world.compact().await;
        let before = disk.counters();
        assert_eq!(world.values(false).await.len(), 40);
        assert_eq!(disk.counters().reads, before.reads, "all of it comes from memory");
        world.database.close().await.unwrap();
    });
}

/// A read of partition `a` that has given a part of its rows.
struct SlowRead {
    batches: crate::database::BatchStream,
    rows: usize,
    all: usize,
}

impl SlowRead {
    async fn begin(world: &World, all: usize) -> Self {
        let read = read_of(&world.table(), "a", Slice::full(Direction::Forward), None);
        let mut batches = world.database.read(ReadCommand { past_cache: true, ..read });
        let rows = batches.next().await.unwrap().unwrap().num_rows();
        assert!(rows < all, "a part of it");
        SlowRead { batches, rows, all }
    }

    async fn end(mut self) {
        while let Some(batch) = self.batches.next().await {
            self.rows += batch.unwrap().num_rows();
        }
        assert_eq!(self.rows, self.all);
    }
}

#[test]
fn a_reader_keeps_the_files_that_it_began_with() {
    run(async {
        let disk = SimulatedDisk::new(5);
        // A file that nobody reads right now is closed, unless it has to stay.
        let world = open_keeping(&disk, 1, START_US, Some(1)).await;
        let table = world.database.create_table(quiet(864_000), false).await.unwrap();
        for round in 0..4 {
            let writes = (0..8000).map(|at| insert(&table, "a", at * 4 + round, 1, 1)).collect();
            world.database.apply_many(writes).await.unwrap();
            world.flush().await;
        }
        let slow = SlowRead::begin(&world, 32_000).await;
        world.compact().await;
        assert_eq!(numbers_on(&disk).len(), 1, "the old files have no names any more");
        slow.end().await;
        world.database.close().await.unwrap();
    });
}

#[test]
fn a_damaged_sstable_is_set_aside_and_the_others_are_merged() {
    run(async {
        let disk = SimulatedDisk::new(6);
        let world = open(&disk).await;
        let mut schema = quiet(864_000);
        schema.options.on_corruption = OnCorruption::Skip;
        let table = world.database.create_table(schema, false).await.unwrap();
        for round in 0..4 {
            world.write(insert(&table, "a", round, i64::from(round), 1)).await;
            world.flush().await;
        }
        let damaged = *world.numbers().await.iter().nth(1).unwrap();
        let path =
            disk.files().into_iter().map(|(path, _)| path).find(|path| {
                path.to_string_lossy().ends_with(&format!("me-{damaged}-big-Data.db"))
            });
        disk.corrupt(&path.unwrap(), 20, 1);
        let refused = world.database.compact(table.id).await.unwrap_err();
        assert!(refused.to_string().contains("corrupt file"), "{refused}");
        let reports = world.database.sstable_report().await.unwrap();
        assert!(reports.iter().all(|report| !report.status.is_input), "none is being merged");
        world.compact().await;
        let left = world.numbers().await;
        assert!(left.len() == 2 && left.contains(&damaged), "{left:?}");
        assert_eq!(numbers_on(&disk), left, "nothing is lost, and nothing is left over");
        let reports = world.database.damage_report().await.unwrap();
        assert!(reports.iter().any(|report| report.damage.is_set_aside), "{reports:?}");
        let reports = world.database.sstable_report().await.unwrap();
        let set_aside: Vec<u64> = reports
            .iter()
            .filter(|report| report.status.is_set_aside)
            .map(|report| report.status.info.generation)
            .collect();
        assert_eq!(set_aside, [damaged]);
        world.database.close().await.unwrap();
    });
}

#[test]
fn a_full_disk_ends_a_compaction_that_goes_on_when_there_is_room() {
    run(async {
        let disk = SimulatedDisk::new(7);
        let world = open(&disk).await;
        let wanted = four_sstables(&world).await;
        let before = world.numbers().await;
        let used: u64 = disk.files().iter().map(|(_, bytes)| bytes).sum();
        let mut faults = disk.faults();
        faults.capacity_bytes = Some(used + 16 * 1024);
        disk.set_faults(faults);
        let table = world.table();
        let full = world.database.compact(table.id).await.unwrap_err();
        assert!(full.is_disk_full(), "{full}");
        assert_eq!(world.numbers().await, before);
        assert_eq!(numbers_on(&disk), before, "what it wrote is gone");
        let ends = world.database.compaction_history().await.unwrap();
        assert!(matches!(&ends[..], [record] if matches!(record.end, CompactionEnd::Failed(_))));
        faults.capacity_bytes = None;
        disk.set_faults(faults);
        // By itself, as soon as the table wants it and its pause is over.
        let switched = world.database.alter_table("default", "t", |options| {
            options.compaction.is_enabled = true;
        });
        switched.await.unwrap();
        let mut turns = 0;
        while world.numbers().await.len() > 1 {
            turns += 1;
            assert!(turns < 100_000, "it is tried again");
            tokio::task::yield_now().await;
        }
        assert_eq!(world.values(true).await, wanted);
        world.database.close().await.unwrap();
    });
}

/// What is told while it runs and afterwards, against the SSTables before and behind it.
#[test]
fn what_is_told_of_a_compaction_adds_up() {
    run(async {
        let disk = SimulatedDisk::new(3);
        let world = open(&disk).await;
        four_sstables(&world).await;
        let sum = async || {
            let reports = world.database.sstable_report().await.unwrap();
            reports.iter().map(|report| report.status.info.data_bytes).sum::<u64>()
        };
        let (inputs, input_bytes, begun_us) =
            (world.numbers().await, sum().await, world.clock.wall_us());
        disk.set_faults(Faults { delay_turns_max: 40, ..Faults::default() });
        let (database, id) = (world.database.clone(), world.table().id);
        let task = tokio::task::spawn_local(async move { database.compact(id).await });
        let mut told = Vec::new();
        while !task.is_finished() {
            if let [report] = &world.database.compactions().await.unwrap()[..] {
                let of_inputs = world.database.sstable_report().await.unwrap();
                let named = of_inputs.iter().filter(|report| report.status.is_input);
                told.push((report.clone(), named.count()));
            }
            world.clock.advance(Duration::from_millis(1));
            tokio::task::yield_now().await;
        }
        task.await.unwrap().unwrap();
        let [record] = &world.database.compaction_history().await.unwrap()[..] else {
            panic!("one compaction has ended")
        };
        let named = (record.keyspace.as_str(), record.table.as_str(), record.shard);
        assert_eq!((named, record.reason), (("default", "t", 0), crate::compaction::Reason::Asked));
        assert_eq!(BTreeSet::from_iter(record.inputs.iter().copied()), inputs);
        assert_eq!(BTreeSet::from_iter(record.outputs.iter().copied()), world.numbers().await);
        assert_eq!((record.input_bytes, record.output_bytes), (input_bytes, sum().await));
        assert!(record.output_bytes < record.input_bytes);
        let now_us = world.clock.wall_us();
        let times = begun_us..=now_us;
        assert!(times.contains(&record.started_us) && times.contains(&record.ended_us));
        assert!(record.started_us < record.ended_us);

        assert!(told.len() > 10, "it was met {} times", told.len());
        for (report, _) in &told {
            let of_it = (report.number, report.started_us, report.reason);
            assert_eq!(of_it, (record.number, record.started_us, record.reason));
            assert_eq!((report.input_files, report.input_bytes), (4, input_bytes));
            assert!(report.output_bytes <= record.output_bytes && report.done <= 1.0);
            assert!(report.seconds * 1e6 <= (record.ended_us - record.started_us) as f64 + 1.0);
        }
        assert!(told.iter().is_sorted_by(|(a, _), (b, _)| a.done <= b.done));
        assert!(told.iter().any(|(_, inputs)| *inputs == 4), "inputs are marked");
        let left = world.database.sstable_report().await.unwrap();
        assert!(left.iter().all(|report| !report.status.is_input));
        // Rows of SSTables are those of both partitions that are left.
        let reports = world.database.table_report().await.unwrap();
        let table = reports.iter().find(|report| report.table == "t").unwrap();
        let rows = world.values(true).await.len() as u64 + 10;
        assert_eq!((table.sstables, table.sstable_rows), (1, rows));
        assert_eq!(table.sstable_bytes, record.output_bytes);
    });
}

#[test]
fn rates_of_a_compaction_follow_from_what_is_done() {
    let report = crate::database::CompactionReport {
        number: 1,
        keyspace: "default".into(),
        table: "t".into(),
        shard: 0,
        reason: crate::compaction::Reason::Asked,
        started_us: 0,
        input_files: 2,
        input_bytes: 1000,
        output_bytes: 100,
        done: 0.25,
        seconds: 5.0,
    };
    assert_eq!((report.bytes_per_second(), report.seconds_left()), (Some(50.0), Some(15.0)));
    let begins = crate::database::CompactionReport { done: 0.0, seconds: 0.0, ..report };
    assert_eq!((begins.bytes_per_second(), begins.seconds_left()), (None, None));
}

#[test]
fn a_cancelled_compaction_and_that_of_a_dropped_table_leave_nothing() {
    run(async {
        let disk = SimulatedDisk::new(8);
        let world = open(&disk).await;
        four_sstables(&world).await;
        // So much that a merge takes many turns.
        for partition in 0..400 {
            let (key, at) = (format!("p{partition}"), i64::from(partition));
            world.write(insert(&world.table(), &key, 1, at, 9)).await;
        }
        world.flush().await;
        let before = world.numbers().await;
        for drops in [false, true] {
            let (database, id) = (world.database.clone(), world.table().id);
            let task = tokio::task::spawn_local(async move { database.compact(id).await });
            let number = loop {
                if let [job] = &world.database.compactions().await.unwrap()[..] {
                    break job.number;
                }
                tokio::task::yield_now().await;
            };
            if drops {
                world.database.drop_table("default", "t", false).await.unwrap();
                assert_eq!(numbers_on(&disk), BTreeSet::new());
            } else {
                assert!(world.database.cancel_compaction(number).await.unwrap());
                assert!(!world.database.cancel_compaction(number + 1).await.unwrap());
            }
            let cancelled = task.await.unwrap().unwrap_err().to_string();
            assert!(cancelled.contains("cancelled") || drops, "{cancelled}");
            if !drops {
                assert_eq!(world.numbers().await, before);
                assert_eq!(numbers_on(&disk), before);
            }
        }
        world.database.close().await.unwrap();
    });
}

#[test]
fn many_flushes_of_a_small_table_stay_few_sstables() {
    run(async {
        let disk = SimulatedDisk::new(9);
        let world = open(&disk).await;
        let table = world.database.create_table(definition(), false).await.unwrap();
        let mut most = 0;
        for round in 0..300 {
            world.write(insert(&table, "a", round % 30, i64::from(round), i64::from(round))).await;
            world.flush().await;
            most = most.max(world.numbers().await.len());
        }
        assert!(most <= 20, "{most} SSTables at a time");
        // Nothing is flushed any more.
        world.settle().await;
        let reports = world.database.sstable_report().await.unwrap();
        let rows: Vec<u64> = reports.iter().map(|report| report.status.info.rows).collect();
        assert_eq!(rows, [30], "one SSTable, of the rows that there are");
        world.database.close().await.unwrap();
    });
}

#[test]
fn whoever_asks_while_the_shard_looks_at_its_tables_is_not_forgotten() {
    run(async {
        let disk = SimulatedDisk::new(10);
        let world = open(&disk).await;
        // So many that looking at them takes several turns.
        for number in 0..60 {
            let name = format!("t{number}");
            let schema = TableSchema { name, ..definition() };
            world.database.create_table(schema, false).await.unwrap();
        }
        let table = world.database.create_table(definition(), false).await.unwrap();
        for round in 0..40 {
            world.write(insert(&table, "a", round, 1, 1)).await;
            // The end of a flush has the shard look.
            world.flush().await;
            for _ in 0..round / 4 {
                tokio::task::yield_now().await;
            }
            world.compact().await;
        }
        assert_eq!(world.values(true).await.len(), 40);
        world.database.close().await.unwrap();
    });
}

/// Begins a merge of everything, lets `turns` of this task pass, and runs `then`. Says what came of
/// the merge, and whether it had ended before.
async fn interrupted<T>(
    world: &World,
    disk: &SimulatedDisk,
    turns: u64,
    then: impl Future<Output = T>,
) -> (crate::error::Result<()>, bool) {
    let cured = async {
        then.await;
        disk.set_faults(Faults::default());
    };
    begun(world, disk, turns, cured).await
}

/// The same on a disk that stays as `then` leaves it.
async fn begun(
    world: &World,
    disk: &SimulatedDisk,
    turns: u64,
    then: impl Future<Output = ()>,
) -> (crate::error::Result<()>, bool) {
    // An operation takes several turns.
    disk.set_faults(Faults { delay_turns_max: 100, ..Faults::default() });
    let (database, id) = (world.database.clone(), world.table().id);
    let task = tokio::task::spawn_local(async move { database.compact(id).await });
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
    let is_over = task.is_finished();
    then.await;
    (task.await.unwrap(), is_over)
}

#[test]
fn a_database_closes_at_any_turn_of_a_compaction() {
    let (mut turns, mut is_over) = (0_u64, false);
    let mut counts = BTreeSet::new();
    while !is_over {
        run(async {
            let disk = SimulatedDisk::new(turns);
            let world = open(&disk).await;
            let wanted = four_sstables(&world).await;
            let database = world.database.clone();
            let close = async move { database.close().await.unwrap() };
            let ended;
            (ended, is_over) = interrupted(&world, &disk, turns, close).await;
            let is_told = matches!(ended, Ok(()) | Err(Error::Closed));
            assert!(is_told, "after {turns} turns: {ended:?}");
            let left = numbers_on(&disk);
            let world = open_at(&disk, START_US + 3_600_000_000).await;
            assert_eq!(world.numbers().await, left, "after {turns} turns: files of nobody");
            assert_eq!(world.values(true).await, wanted, "after {turns} turns");
            counts.insert(left.len());
            world.database.close().await.unwrap();
        });
        turns += 1 + turns / 32;
    }
    assert_eq!(counts, BTreeSet::from([1, 4]), "before the exchange and behind it");
}

/// A write that failed may stand on the disk all the same: above all the edit of the manifest that
/// names the outputs.
#[test]
fn writes_that_fail_from_any_turn_of_a_compaction_on_lose_nothing() {
    let (mut turns, mut is_over) = (0_u64, false);
    let mut counts = BTreeSet::new();
    while !is_over {
        let disk = SimulatedDisk::new(turns);
        let wanted;
        (wanted, is_over) = run(async {
            let world = open(&disk).await;
            let wanted = four_sstables(&world).await;
            let failing =
                Faults { write_error_one_in: 1, delay_turns_max: 100, ..Faults::default() };
            let fails = async { disk.set_faults(failing) };
            let (ended, is_over) = begun(&world, &disk, turns, fails).await;
            let is_told = matches!(ended, Ok(()) | Err(Error::Io { .. }));
            assert!(is_told, "after {turns} turns: {ended:?}");
            // What is done about it comes to nothing as well.
            for _ in 0..500 {
                tokio::task::yield_now().await;
            }
            (wanted, is_over)
        });
        let disk = disk.power_cut();
        disk.set_faults(Faults::default());
        run(async {
            let world = open_at(&disk, START_US + 3_600_000_000).await;
            assert_eq!(world.values(true).await, wanted, "after {turns} turns");
            let live = world.numbers().await;
            assert_eq!(numbers_on(&disk), live, "after {turns} turns: files of nobody");
            counts.insert(live.len());
            world.database.close().await.unwrap();
        });
        turns += 1 + turns / 64;
    }
    assert_eq!(counts, BTreeSet::from([1, 4]), "before the exchange and behind it");
}

#[test]
fn a_table_is_dropped_at_any_turn_of_its_compaction() {
    let (mut turns, mut is_over) = (0_u64, false);
    while !is_over {
        run(async {
            let disk = SimulatedDisk::new(turns);
            let world = open(&disk).await;
            four_sstables(&world).await;
            let database = world.database.clone();
            let drops = async move { database.drop_table("default", "t", false).await.unwrap() };
            let ended;
            (ended, is_over) = interrupted(&world, &disk, turns, drops).await;
            let is_told = match &ended {
                Ok(()) | Err(Error::NotFound { .. }) => true,
                // It was asked for when the drop had begun.
                Err(error) => error.to_string().contains("is being dropped"),
            };
            assert!(is_told, "after {turns} turns: {ended:?}");
            assert_eq!(numbers_on(&disk), BTreeSet::new(), "after {turns} turns");
            world.database.close().await.unwrap();
        });
        turns += 1 + turns / 32;
    }
}
