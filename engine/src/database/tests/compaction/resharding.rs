//! SSTables of another number of shards: whenever the power goes, and under whatever number of
//! shards the directory is opened next, all rows are there and no deletion is forgotten.

use super::*;
use crate::compaction::Reason;

const PARTITIONS: i32 = 24;
const LATER_US: i64 = START_US + 3_600_000_000;

/// A database that is open for so long that it begins to rewrite.
async fn open_for_long(disk: &SimulatedDisk, shards: u32) -> World {
    let world = open_with(disk, shards, LATER_US).await;
    world.clock.advance(Duration::from_secs(5));
    world
}

fn partition(at: i32) -> String {
    format!("p{at}")
}

/// Values of all rows by partition, each asked for alone.
async fn by_partition(world: &World, past_cache: bool) -> Vec<Vec<i64>> {
    let (table, mut all) = (world.table(), Vec::new());
    for at in 0..PARTITIONS {
        let read = read_of(&table, &partition(at), Slice::full(Direction::Forward), None);
        all.push(values(&world.database, ReadCommand { past_cache, ..read }).await);
    }
    all
}

/// Values of all rows, as scans of all shards give them, in order of their values.
async fn scanned(world: &World) -> Vec<i64> {
    let (table, mut all) = (world.table(), Vec::new());
    for shard in 0..world.database.shard_count() {
        let scan = ReadCommand { columns: vec![ColumnId(2)], ..scan_of(&table, shard) };
        all.extend(values(&world.database, scan).await);
    }
    all.sort_unstable();
    all
}

/// Checks that every read gives what is wanted, twice: the second time from memory.
async fn check(world: &World, wanted: &[Vec<i64>], when: &str) {
    let mut all: Vec<i64> = wanted.iter().flatten().copied().collect();
    all.sort_unstable();
    for round in 0..2 {
        assert_eq!(scanned(world).await, all, "{when}, scan {round}");
        assert_eq!(by_partition(world, false).await, wanted, "{when}, round {round}");
    }
    assert_eq!(by_partition(world, true).await, wanted, "{when}, past the cache");
}

/// A disk of a database of so many shards, and what is on it: SSTables that overlap, with deletions
/// that are past their grace.
fn disk_of(shards: u32) -> (SimulatedDisk, Vec<Vec<i64>>) {
    let disk = SimulatedDisk::new(u64::from(shards));
    let wanted = run(async {
        let world = open_with(&disk, shards, START_US).await;
        let table = world.database.create_table(quiet(60), false).await.unwrap();
        for round in 0..3 {
            let timestamp = i64::from(round) + 1;
            for at in 0..PARTITIONS {
                for row in 0..4 {
                    let value = i64::from(round * 10_000 + at * 100 + row);
                    let write = insert(&table, &partition(at), row * (round + 1), value, timestamp);
                    world.write(write).await;
                }
                let gone = (at + round) % 4;
                world.write(delete(&table, &partition(at), gone, timestamp)).await;
            }
            world.flush().await;
        }
        let wanted = by_partition(&world, true).await;
        world.database.close().await.unwrap();
        wanted
    });
    (disk, wanted)
}

/// SSTables of another number of shards that some shard reads.
async fn shared(world: &World) -> BTreeSet<u64> {
    let reports = world.database.sstable_report().await.unwrap();
    let shared = reports.iter().filter(|report| report.status.is_shared);
    shared.map(|report| report.status.info.generation).collect()
}

/// Waits until everything is rewritten and what was there before is gone.
async fn settled(world: &World, disk: &SimulatedDisk) {
    world.clock.advance(Duration::from_secs(5));
    let mut turns = 0;
    while !shared(world).await.is_empty() || numbers_on(disk) != world.numbers().await {
        turns += 1;
        let left = (shared(world).await, numbers_on(disk), world.numbers().await);
        assert!(turns < 200_000, "it does not end: {left:?}");
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
}

#[test]
fn a_power_cut_at_any_turn_loses_nothing_and_leaves_nothing() {
    // The number of shards that is opened next, after the cut.
    for (from, to, next) in [(1, 2, 2), (1, 2, 3), (2, 3, 3), (2, 3, 1), (2, 3, 2), (3, 1, 1)] {
        let (base, wanted) = disk_of(from);
        let (mut turns, mut is_over) = (0_u64, false);
        // How many SSTables of other counts the next start finds.
        let mut met = BTreeSet::new();
        while !is_over {
            let disk = base.copy(turns);
            is_over = run(async {
                let world = open_for_long(&disk, to).await;
                disk.set_faults(Faults { delay_turns_max: 40, ..Faults::default() });
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
                shared(&world).await.is_empty() && numbers_on(&disk) == world.numbers().await
            });
            let disk = disk.power_cut();
            disk.set_faults(Faults::default());
            let when = format!("{from} to {to}, cut after {turns} turns, then {next}");
            run(async {
                let world = open_for_long(&disk, next).await;
                met.insert(shared(&world).await.len());
                // While it is asked, an SSTable may be rewritten, and its files go.
                let before = numbers_on(&disk);
                let live = world.numbers().await;
                let there = &before | &numbers_on(&disk);
                assert!(there.is_superset(&live), "{when}: {live:?}, on the disk {there:?}");
                check(&world, &wanted, &when).await;
                settled(&world, &disk).await;
                check(&world, &wanted, &format!("{when}, rewritten")).await;
                world.compact().await;
                assert_eq!(world.tombstones().await, 0, "{when}: deletions can go");
                check(&world, &wanted, &format!("{when}, merged")).await;
                let live = world.numbers().await;
                world.database.close().await.unwrap();
                assert_eq!(numbers_on(&disk), live, "{when}: files of nobody");
            });
            turns += 1 + turns / 8;
        }
        assert!(turns > 100 && met.len() > 1, "{from} to {to}: {turns} turns, {met:?}");
    }
}

/// One shard has taken its part and purged a row with its deletion; the others have not. Whoever
/// opens the directory next must not find the row in the old SSTable.
#[test]
fn what_was_purged_from_a_part_that_was_taken_does_not_come_back() {
    for next in [1, 2, 3, 5] {
        let (base, mut wanted) = disk_of(1);
        let disk = base.copy(u64::from(next));
        run(async {
            // No shard begins by itself so soon.
            let world = open_with(&disk, 2, LATER_US).await;
            let (table, id) = (world.table(), world.table().id);
            let (pk, now_seconds) = (key(&table, "p1"), world.clock.wall_seconds());
            let mut all = Mutation::new(id, pk.clone());
            all.deletion = Some(Tombstone { timestamp: 100, deletion_time: START });
            world.write(all).await;
            wanted[1].clear();
            let merged = world.database.on_shard(&pk, move |shard| {
                Box::pin(async move {
                    use crate::table::CompactionOrder;
                    let table = shard.table(id).unwrap();
                    let order = |choice| CompactionOrder {
                        choice,
                        now_seconds,
                        may_purge: true,
                        progress: Rc::default(),
                    };
                    while let Some(choice) = table.choose_resharding() {
                        table.compact(order(choice)).await.unwrap();
                    }
                    table.flush().await.unwrap();
                    let (choice, is_last) = table.choose_major(now_seconds).unwrap();
                    assert!(is_last);
                    table.compact(order(choice)).await.unwrap()
                })
            });
            assert!(merged.await.unwrap().purged.count > 0, "the partition is gone for good");
            assert_eq!(shared(&world).await.len(), 3, "the other shard has not begun");
        });
        let disk = disk.power_cut();
        disk.set_faults(Faults::default());
        run(async {
            let world = open_with(&disk, next, LATER_US).await;
            let when = format!("opened with {next} shards");
            check(&world, &wanted, &when).await;
            world.compact().await;
            check(&world, &wanted, &when).await;
            settled(&world, &disk).await;
            check(&world, &wanted, &format!("{when}, rewritten")).await;
            world.database.close().await.unwrap();
        });
    }
}

#[test]
fn what_is_told_while_an_sstable_is_rewritten_and_afterwards() {
    let (base, wanted) = disk_of(1);
    let disk = base.copy(1);
    run(async {
        let world = open_for_long(&disk, 2).await;
        let before = world.numbers().await;
        disk.set_faults(Faults { delay_turns_max: 100, ..Faults::default() });
        let mut told = Vec::new();
        while !shared(&world).await.is_empty() {
            told.extend(world.database.compactions().await.unwrap());
            tokio::task::yield_now().await;
        }
        disk.set_faults(Faults::default());
        settled(&world, &disk).await;
        assert!(!told.is_empty() && told.iter().all(|report| report.reason == Reason::Reshard));
        assert!(told.iter().any(|report| report.done > 0.0 && report.done < 1.0), "{told:?}");
        let records = world.database.compaction_history().await.unwrap();
        assert_eq!(records.len(), 6, "three SSTables on each of two shards: {records:?}");
        for record in &records {
            assert_eq!((record.reason, &record.end), (Reason::Reshard, &CompactionEnd::Done));
            assert!(record.inputs.len() == 1 && before.contains(&record.inputs[0]), "{record:?}");
            assert_eq!(record.outputs.len(), 1, "{record:?}");
        }
        assert!(world.numbers().await.is_disjoint(&before));
        check(&world, &wanted, "rewritten").await;
        // What scans have read is known from now on.
        let reads = disk.counters().reads;
        assert_eq!(scanned(&world).await, scanned(&world).await);
        assert_eq!(disk.counters().reads, reads, "all of it comes from memory");
        world.database.close().await.unwrap();
    });
}

#[test]
fn a_full_disk_stops_it_until_there_is_room() {
    let (base, wanted) = disk_of(2);
    let disk = base.copy(1);
    run(async {
        let world = open_with(&disk, 3, LATER_US).await;
        let used: u64 = disk.files().iter().map(|(_, bytes)| bytes).sum();
        let mut faults = disk.faults();
        faults.capacity_bytes = Some(used + 4096);
        disk.set_faults(faults);
        let mut records = Vec::new();
        while records.len() < 6 {
            world.clock.advance(Duration::from_millis(50));
            tokio::task::yield_now().await;
            records = world.database.compaction_history().await.unwrap();
        }
        let is_failed = |end: &CompactionEnd| matches!(end, CompactionEnd::Failed(_));
        assert!(records.iter().all(|record| is_failed(&record.end)), "{records:?}");
        check(&world, &wanted, "without room").await;
        faults.capacity_bytes = None;
        disk.set_faults(faults);
        settled(&world, &disk).await;
        check(&world, &wanted, "with room").await;
        world.database.close().await.unwrap();
    });
}

#[test]
fn a_reader_keeps_the_files_of_another_shard_count_that_it_began_with() {
    let disk = SimulatedDisk::new(5);
    run(async {
        let world = open_with(&disk, 1, START_US).await;
        let table = world.database.create_table(quiet(864_000), false).await.unwrap();
        let writes = (0..8000).map(|at| insert(&table, "a", at, 1, 1)).collect();
        world.database.apply_many(writes).await.unwrap();
        world.database.close().await.unwrap();
    });
    run(async {
        let world = open_keeping(&disk, 2, START_US, Some(1)).await;
        let before = world.numbers().await;
        let slow = SlowRead::begin(&world, 8000).await;
        settled(&world, &disk).await;
        assert!(numbers_on(&disk).is_disjoint(&before), "the old file has no name any more");
        slow.end().await;
        world.database.close().await.unwrap();
    });
}

#[test]
fn a_database_closes_and_a_table_is_dropped_at_any_turn() {
    let (base, wanted) = disk_of(2);
    for drops in [false, true] {
        let (mut turns, mut is_over) = (0_u64, false);
        while !is_over {
            let disk = base.copy(turns);
            run(async {
                let world = open_for_long(&disk, 3).await;
                disk.set_faults(Faults { delay_turns_max: 40, ..Faults::default() });
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
                is_over = shared(&world).await.is_empty();
                if drops {
                    world.database.drop_table("default", "t", false).await.unwrap();
                    assert_eq!(numbers_on(&disk), BTreeSet::new(), "after {turns} turns");
                }
                world.database.close().await.unwrap();
            });
            disk.set_faults(Faults::default());
            if !drops {
                run(async {
                    let world = open_with(&disk, 2, LATER_US).await;
                    check(&world, &wanted, &format!("closed after {turns} turns")).await;
                    world.database.close().await.unwrap();
                });
            }
            turns += 1 + turns / 8;
        }
    }
}

/// What is leveled stays on its level where it overlaps nothing there, and fragments of a run
/// become fragments of a run.
#[test]
fn levels_and_runs_stay_what_they_are() {
    for class in [CompactionClass::Leveled, CompactionClass::Incremental] {
        let disk = SimulatedDisk::new(9);
        let mut before = 0;
        run(async {
            let world = open_with(&disk, 1, START_US).await;
            let mut schema = quiet(864_000);
            schema.options.compaction.class = class;
            schema.options.compaction.sstable_bytes = 4 << 10;
            let table = world.database.create_table(schema, false).await.unwrap();
            for at in 0..600 {
                world.write(insert(&table, &partition(at), 1, i64::from(at), 1)).await;
                world.write(insert(&table, &partition(at), 2, i64::from(at), 1)).await;
                if at == 300 {
                    world.flush().await;
                }
            }
            world.compact().await;
            before = world.numbers().await.len();
            world.database.close().await.unwrap();
        });
        assert!(before >= 4, "{before} fragments");
        run(async {
            let world = open_with(&disk, 2, START_US).await;
            settled(&world, &disk).await;
            let reports = world.database.sstable_report().await.unwrap();
            for shard in 0..2 {
                let own = reports.iter().filter(|report| report.shard == shard);
                let own: Vec<_> = own.map(|report| &report.status).collect();
                let levels: BTreeSet<u32> = own.iter().map(|status| status.info.level).collect();
                let runs: BTreeSet<u64> = own.iter().map(|status| status.run).collect();
                assert_eq!(own.len(), before, "{class:?} on shard {shard}");
                match class {
                    CompactionClass::Incremental => assert_eq!(runs.len(), 1, "{runs:?}"),
                    _ => assert!(!levels.contains(&0) && runs.len() == before, "{levels:?}"),
                }
            }
            world.database.close().await.unwrap();
        });
    }
}

/// What is rewritten and meets others on its level goes to level 0: there they may overlap.
#[test]
fn a_level_stays_disjoint_where_others_came_first() {
    let disk = SimulatedDisk::new(10);
    let write_all = async |world: &World, table: &SchemaRef, timestamp: i64| {
        for at in 0..300 {
            world.write(insert(table, &partition(at), 1, i64::from(at), timestamp)).await;
            if at == 150 {
                world.flush().await;
            }
        }
        world.flush().await;
        world.compact().await;
    };
    let on_levels = async |world: &World| {
        let reports = world.database.sstable_report().await.unwrap();
        let is_level = |report: &&crate::database::SstableReport| report.status.info.level > 0;
        let of = |report: &crate::database::SstableReport| {
            let info = &report.status.info;
            ((report.shard, info.level), info.first_key.clone(), info.last_key.clone())
        };
        let mut all: Vec<_> = reports.iter().filter(is_level).map(of).collect();
        all.sort();
        all
    };
    run(async {
        let world = open_with(&disk, 1, START_US).await;
        let mut schema = quiet(864_000);
        schema.options.compaction.class = CompactionClass::Leveled;
        schema.options.compaction.sstable_bytes = 4 << 10;
        let table = world.database.create_table(schema, false).await.unwrap();
        write_all(&world, &table, 1).await;
        assert!(on_levels(&world).await.len() >= 2);
        world.database.close().await.unwrap();
    });
    run(async {
        let world = open_with(&disk, 2, START_US).await;
        let before = world.numbers().await;
        write_all(&world, &world.table(), 2).await;
        assert_eq!(shared(&world).await, before, "the old ones are there still");
        settled(&world, &disk).await;
        let all = on_levels(&world).await;
        assert!(all.len() >= 4, "{all:?}");
        let is_apart =
            |a: &(_, PartitionKey, PartitionKey), b: &(_, PartitionKey, _)| a.0 != b.0 || a.2 < b.1;
        assert!(all.is_sorted_by(is_apart), "{all:?}");
        world.database.close().await.unwrap();
    });
}
