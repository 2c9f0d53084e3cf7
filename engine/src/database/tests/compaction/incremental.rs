//! Incremental compactions: at every turn all rows are there and no deletion is forgotten, and the
//! room that they need on the way is bounded.

use super::*;
use crate::policy::compaction::Chooser;

/// Bytes of data of a fragment.
const FRAGMENT: u64 = 1 << 10;
const RUNS: i32 = 4;

const STATIC: ColumnId = ColumnId(3);
/// Stands for a null.
const NULL: i64 = i64::MIN;

/// The value of each row, and that of its static row.
async fn everything(world: &World, past_cache: bool) -> Vec<i64> {
    let columns = vec![ColumnId(2), STATIC];
    let scan = ReadCommand { past_cache, columns, ..scan_of(&world.table(), 0) };
    let batches: Vec<RecordBatch> = world.database.read(scan).try_collect().await.unwrap();
    let values_of = |batch: &RecordBatch| {
        let cells = (0..batch.num_rows()).flat_map(|row| [(row, 0), (row, 1)]);
        let value = |(row, at): (usize, usize)| match crate::batch::value_at(
            batch.column(at),
            row,
            &DataType::BigInt,
        )
        .unwrap()
        {
            Some(Value::BigInt(value)) => value,
            Some(other) => panic!("no bigint: {other:?}"),
            None => NULL,
        };
        cells.map(value).collect::<Vec<_>>()
    };
    batches.iter().flat_map(values_of).collect()
}

fn partition(at: i32) -> String {
    format!("p{at}")
}

/// Runs of several fragments each, over the same partitions. Each has rows of its own, newer values
/// of rows of the others, and deletions of older rows, which are past their grace; the same of
/// static values.
async fn some_runs(world: &World, partitions: i32) {
    let mut definition = quiet(60);
    definition.columns.push(column("s", DataType::BigInt, ColumnKind::Static));
    let table = world.database.create_table(definition, false).await.unwrap();
    for run in 0..RUNS {
        let timestamp = i64::from(run) + 1;
        let mut writes = Vec::new();
        for at in 0..partitions {
            let name = partition(at);
            for row in 0..8 {
                let value = i64::from(run * 100_000 + at * 100 + row);
                writes.push(insert(&table, &name, row * (run + 1), value, timestamp));
            }
            // Of each partition some runs delete what older ones wrote.
            if (at + run) % 2 == 1 {
                writes.push(delete(&table, &name, (at + run) % 8, timestamp));
            }
            let fixed = match (at + run) % 3 {
                0 => Some(Cell::live(timestamp, i64::from(run * 100 + at).to_be_bytes())),
                1 => Some(Cell::deleted(timestamp, START)),
                _ => None,
            };
            if let Some(cell) = fixed {
                let mut of_partition = Mutation::new(table.id, key(&table, &name));
                let cells = vec![(STATIC, cell)];
                of_partition.static_row = Some(Row { cells, ..Row::default() });
                writes.push(of_partition);
            }
            if at % 7 == run {
                let mut all = Mutation::new(table.id, key(&table, &name));
                all.deletion = Some(Tombstone { timestamp: timestamp - 1, deletion_time: START });
                writes.push(all);
            }
        }
        let before = world.numbers().await;
        world.database.apply_many(writes).await.unwrap();
        world.flush().await;
        let flushed = world.numbers().await.difference(&before).copied().collect();
        world.merge_into(flushed, Some(FRAGMENT)).await.unwrap();
    }
}

/// A disk with runs on it, what they hold, and the numbers of their fragments.
fn disk_of_runs(partitions: i32) -> (SimulatedDisk, Vec<i64>, BTreeSet<u64>) {
    let disk = SimulatedDisk::new(20);
    let (wanted, numbers) = run(async {
        let world = open(&disk).await;
        some_runs(&world, partitions).await;
        let (wanted, numbers) = (everything(&world, true).await, world.numbers().await);
        world.database.close().await.unwrap();
        (wanted, numbers)
    });
    assert!(numbers.len() >= 4 * RUNS as usize, "{numbers:?} are too few fragments");
    let nulls = wanted.iter().filter(|value| **value == NULL).count();
    assert!((100..wanted.len() / 2).contains(&nulls), "{nulls} of {} are null", wanted.len());
    (disk, wanted, numbers)
}

const LATER_US: i64 = START_US + 3_600_000_000;

/// Bytes that all files take on the disk, in pages.
fn used_bytes(disk: &SimulatedDisk) -> u64 {
    disk.files().iter().map(|(_, bytes)| bytes.next_multiple_of(4096)).sum()
}

/// Bytes of files of row data: beside so small ones the other components count for more.
fn data_bytes(disk: &SimulatedDisk) -> u64 {
    let files = disk.files().into_iter();
    files.filter(|(path, _)| path.to_string_lossy().ends_with("-Data.db")).map(|(_, b)| b).sum()
}

/// Begins a merge of these into a run, and lets `turns` of this task pass. Says whether it ended.
async fn merged_for(world: &World, inputs: &BTreeSet<u64>, turns: u64) -> bool {
    let (database, clock) = (world.database.clone(), world.clock.clone());
    let inputs = inputs.iter().copied().collect();
    let task = tokio::task::spawn_local(async move {
        World { clock, database }.merge_into(inputs, Some(FRAGMENT)).await
    });
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
    task.is_finished()
}

#[test]
fn a_power_cut_at_any_turn_of_a_merge_of_runs_loses_nothing_and_leaves_nothing() {
    let (base, wanted, inputs) = disk_of_runs(40);
    let (mut turns, mut is_over) = (0_u64, false);
    let mut met = BTreeSet::new();
    while !is_over {
        let disk = base.copy(turns);
        is_over = run(async {
            let world = open_at(&disk, LATER_US).await;
            disk.set_faults(Faults { delay_turns_max: 40, ..Faults::default() });
            merged_for(&world, &inputs, turns).await
        });
        let disk = disk.power_cut();
        disk.set_faults(Faults::default());
        run(async {
            let world = open_at(&disk, LATER_US).await;
            assert_eq!(everything(&world, true).await, wanted, "after {turns} turns");
            assert_eq!(everything(&world, false).await, wanted, "after {turns} turns");
            let live = world.numbers().await;
            assert_eq!(numbers_on(&disk), live, "after {turns} turns: files of nobody");
            met.insert((inputs.intersection(&live).count(), live.difference(&inputs).count()));
            // What is left is merged like anything else.
            world.merge_into(live.into_iter().collect(), Some(FRAGMENT)).await.unwrap();
            assert_eq!(everything(&world, true).await, wanted, "after {turns} turns and a merge");
            assert_eq!(world.tombstones().await, 0, "after {turns} turns and a merge");
            let live = world.numbers().await;
            world.database.close().await.unwrap();
            assert_eq!(numbers_on(&disk), live, "after {turns} turns and a merge");
        });
        turns += 1 + turns / 24;
    }
    let steps = met.iter().filter(|(old, new)| *old > 0 && *new > 0).count();
    assert!(steps >= 4, "{met:?}");
    assert!(met.contains(&(inputs.len(), 0)) && met.iter().any(|(old, _)| *old == 0), "{met:?}");
}

#[test]
fn whoever_reads_meanwhile_sees_the_same() {
    let (base, wanted, inputs) = disk_of_runs(60);
    run(async {
        let disk = base.copy(1);
        let world = open_at(&disk, LATER_US).await;
        disk.set_faults(Faults { delay_turns_max: 20, ..Faults::default() });
        let (database, clock) = (world.database.clone(), world.clock.clone());
        let all = inputs.iter().copied().collect();
        let task = tokio::task::spawn_local(async move {
            World { clock, database }.merge_into(all, Some(FRAGMENT)).await
        });
        let mut shapes = BTreeSet::new();
        while !task.is_finished() {
            assert_eq!(everything(&world, true).await, wanted);
            assert_eq!(everything(&world, false).await, wanted);
            shapes.insert(world.numbers().await);
        }
        assert!(shapes.len() >= 4, "it was met in {} shapes", shapes.len());
        let compacted = task.await.unwrap().unwrap();
        assert!(compacted.purged.count > 100 && compacted.outputs.len() > 4, "{compacted:?}");
        assert_eq!(world.tombstones().await, 0);
        assert_eq!(everything(&world, false).await, wanted);
        world.database.close().await.unwrap();
    });
}

/// Bytes of data that a merge takes on the disk beyond what was there before, at most.
fn extra_bytes(base: &SimulatedDisk, inputs: &BTreeSet<u64>, cut_bytes: Option<u64>) -> u64 {
    run(async {
        let disk = base.copy(2);
        let world = open_at(&disk, LATER_US).await;
        let (database, clock) = (world.database.clone(), world.clock.clone());
        let inputs = inputs.iter().copied().collect();
        disk.set_faults(Faults { delay_turns_max: 4, ..Faults::default() });
        let before = data_bytes(&disk);
        let task = tokio::task::spawn_local(async move {
            World { clock, database }.merge_into(inputs, cut_bytes).await
        });
        let mut most = before;
        while !task.is_finished() {
            most = most.max(data_bytes(&disk));
            tokio::task::yield_now().await;
        }
        task.await.unwrap().unwrap();
        world.database.close().await.unwrap();
        most - before
    })
}

#[test]
fn a_merge_of_runs_needs_room_for_a_few_fragments() {
    let (base, _, inputs) = disk_of_runs(200);
    let stepwise = extra_bytes(&base, &inputs, Some(FRAGMENT));
    let whole = extra_bytes(&base, &inputs, None);
    let per_fragment = data_bytes(&base) / inputs.len() as u64;
    // Of each run one that is read, one that is written, one of what is purged; and a page of each.
    let bound = (2 * RUNS as u64 + 2) * (per_fragment + 4096);
    assert!(stepwise <= bound, "{stepwise} bytes, a fragment has {per_fragment}");
    assert!(stepwise * 2 < whole, "{stepwise} by steps, {whole} at once");
}

#[test]
fn runs_are_known_after_a_restart() {
    let (disk, _, inputs) = disk_of_runs(40);
    run(async {
        let world = open_at(&disk, LATER_US).await;
        let any = key(&world.table(), "a");
        let id = world.table().id;
        let switched = world.database.alter_table("default", "t", |options| {
            options.compaction = CompactionOptions {
                is_enabled: true,
                ..CompactionOptions::of_class(CompactionClass::Incremental)
            };
        });
        switched.await.unwrap();
        let chosen = world.database.on_shard(&any, move |shard| {
            Box::pin(
                async move { shard.table(id).unwrap().choose_compaction(&Chooser::default(), 0) },
            )
        });
        // Four runs of one size; as SSTables they would be many more.
        let chosen = chosen.await.unwrap().unwrap();
        assert!(chosen.is_incremental);
        assert_eq!(BTreeSet::from_iter(chosen.inputs), inputs);
        world.database.close().await.unwrap();
    });
}

/// Each SSTable, and the run that it is a fragment of.
async fn run_of_each(world: &World) -> BTreeSet<(u64, u64)> {
    let reports = world.database.sstable_report().await.unwrap();
    reports.iter().map(|report| (report.status.info.generation, report.status.run)).collect()
}

#[test]
fn fragments_are_of_their_runs_after_every_restart() {
    let disk = SimulatedDisk::new(21);
    let wanted = run(async {
        let world = open(&disk).await;
        some_runs(&world, 40).await;
        let wanted = run_of_each(&world).await;
        world.database.close().await.unwrap();
        wanted
    });
    let runs: BTreeSet<u64> = wanted.iter().map(|(_, run)| *run).collect();
    assert_eq!(runs.len(), RUNS as usize, "{wanted:?}");
    assert!(wanted.len() >= 4 * runs.len(), "{wanted:?} are too few fragments");
    for restart in 1..3 {
        run(async {
            let world = open_at(&disk, LATER_US).await;
            assert_eq!(run_of_each(&world).await, wanted, "restart {restart}");
            world.database.close().await.unwrap();
        });
    }
}

#[test]
fn a_full_disk_ends_a_merge_of_runs_between_two_steps() {
    let (base, wanted, inputs) = disk_of_runs(60);
    let mut shapes = BTreeSet::new();
    for room in (0..24).map(|room| room * 16 * 1024) {
        run(async {
            let disk = base.copy(room);
            let world = open_at(&disk, LATER_US).await;
            let mut faults = disk.faults();
            faults.capacity_bytes = Some(used_bytes(&disk) + room);
            disk.set_faults(faults);
            let all = inputs.iter().copied().collect();
            if let Err(full) = world.merge_into(all, Some(FRAGMENT)).await {
                assert!(full.is_disk_full(), "{full}");
            }
            let left = world.numbers().await;
            // What was replaced may stay until there is room to say that it is gone.
            assert!(numbers_on(&disk).is_superset(&left), "{room} bytes of room");
            assert_eq!(everything(&world, true).await, wanted, "{room} bytes of room");
            shapes.insert(left.intersection(&inputs).count());
            faults.capacity_bytes = None;
            disk.set_faults(faults);
            world.compact().await;
            assert_eq!(everything(&world, true).await, wanted, "{room} bytes of room");
            assert_eq!(numbers_on(&disk), world.numbers().await, "{room} bytes of room");
            world.database.close().await.unwrap();
        });
    }
    assert!(shapes.contains(&0) && shapes.contains(&inputs.len()), "{shapes:?}");
    assert!(shapes.len() > 2, "no step was done before the disk was full: {shapes:?}");
}

/// Whether a late write is seen is decided when it comes, and no compaction changes it.
#[test]
fn a_write_older_than_what_is_purged_meanwhile_stays_as_it_is_seen() {
    let (base, _, inputs) = disk_of_runs(40);
    let (mut turns, mut is_over) = (0_u64, false);
    let mut seen = BTreeSet::new();
    while !is_over {
        run(async {
            let disk = base.copy(turns);
            let world = open_at(&disk, LATER_US).await;
            let table = world.table();
            disk.set_faults(Faults { delay_turns_max: 40, ..Faults::default() });
            is_over = merged_for(&world, &inputs, turns).await;
            disk.set_faults(Faults::default());
            // Below the newest deletion of a whole partition, in rows that nothing else has.
            let late = (0..40).filter(|at| at % 7 == RUNS - 1);
            let late = late.map(|at| insert(&table, &partition(at), 1000, -7, i64::from(RUNS) - 2));
            world.database.apply_many(late.collect()).await.unwrap();
            let at_once = everything(&world, true).await;
            seen.insert(at_once.iter().filter(|value| **value == -7).count());
            let mut left = 100_000;
            while is_running(&world, &inputs).await && left > 0 {
                assert_eq!(everything(&world, true).await, at_once, "after {turns} turns");
                left -= 1;
            }
            for flushed in [false, true] {
                let told = format!("after {turns} turns, flushed {flushed}");
                assert_eq!(everything(&world, true).await, at_once, "{told}");
                assert_eq!(everything(&world, false).await, at_once, "{told}");
                world.flush().await;
            }
            world.database.close().await.unwrap();
        });
        turns += 1 + turns / 8;
    }
    assert!(seen.contains(&0) && seen.iter().any(|count| *count > 0), "{seen:?}");
}

/// Whether an input of a merge is there that goes at its end.
async fn is_running(world: &World, inputs: &BTreeSet<u64>) -> bool {
    !world.numbers().await.is_disjoint(inputs)
}
