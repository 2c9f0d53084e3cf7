//! What follows the end of a compaction that somebody cancelled.

use super::*;

/// Lets time pass by steps of a tick or less.
async fn pass(world: &World, time: Duration) {
    let step = Duration::from_millis(20);
    for _ in 0..time.as_millis() / step.as_millis() {
        world.clock.advance(step);
        tokio::task::yield_now().await;
    }
}

/// The number of the compaction that begins next.
async fn begun(world: &World) -> u64 {
    for _ in 0..10_000 {
        if let [job] = &world.database.compactions().await.unwrap()[..] {
            return job.number;
        }
        pass(world, Duration::from_millis(20)).await;
    }
    panic!("no compaction begins");
}

async fn ends(world: &World) -> Vec<CompactionEnd> {
    let records = world.database.compaction_history().await.unwrap();
    records.into_iter().map(|record| record.end).collect()
}

/// Who cancels a merge wants the disk for something else, and the table still wants the merge.
#[test]
fn what_was_cancelled_begins_again_after_a_minute_and_not_before() {
    run(async {
        let disk = SimulatedDisk::new(22);
        let world = open(&disk).await;
        let wanted = four_sstables(&world).await;
        let before = world.numbers().await;
        // An operation takes several turns of this task.
        disk.set_faults(Faults { delay_turns_max: 400, ..Faults::default() });
        let merges = |options: &mut TableOptions| options.compaction.is_enabled = true;
        world.database.alter_table("default", "t", merges).await.unwrap();
        let number = begun(&world).await;
        assert!(world.database.cancel_compaction(number).await.unwrap());
        disk.set_faults(Faults::default());
        let mut turns = 0;
        while ends(&world).await.is_empty() {
            turns += 1;
            assert!(turns < 10_000, "what was cancelled does not end");
            tokio::task::yield_now().await;
        }
        pass(&world, Duration::from_secs(45)).await;
        assert_eq!(ends(&world).await, [CompactionEnd::Cancelled]);
        assert!(world.database.compactions().await.unwrap().is_empty(), "it runs again");
        assert_eq!(world.numbers().await, before);
        world.settle().await;
        let all = ends(&world).await;
        assert_eq!(all[..2], [CompactionEnd::Cancelled, CompactionEnd::Done], "{all:?}");
        assert_eq!(world.numbers().await.len(), 1);
        assert_eq!(world.values(true).await, wanted);
        world.database.close().await.unwrap();
    });
}

/// Of several tables whose merges were asked for one goes, whichever of them is being merged.
#[test]
fn a_table_that_is_dropped_takes_no_merge_of_another_one_along() {
    for turns in [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] {
        run(async {
            let disk = SimulatedDisk::new(turns);
            let World { database, .. } = open(&disk).await;
            let mut tables = Vec::new();
            for name in ["a", "b", "c"] {
                let table = TableSchema { name: name.into(), ..quiet(864_000) };
                tables.push(database.create_table(table, false).await.unwrap());
            }
            for round in 1..=3 {
                for table in &tables {
                    let many = (0..50).map(|at| insert(table, "a", at, round, round));
                    database.apply_many(many.collect()).await.unwrap();
                }
                database.flush(None).await.unwrap();
            }
            let merge = |table: &SchemaRef| {
                let (database, id) = (database.clone(), table.id);
                tokio::task::spawn_local(async move { database.compact(id).await })
            };
            let merges: Vec<_> = tables.iter().map(merge).collect();
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            database.drop_table("default", "b", false).await.unwrap();
            for (table, merge) in tables.iter().zip(merges) {
                let merged = merge.await.unwrap();
                let is_dropped = table.name == "b";
                let name = &table.name;
                assert!(merged.is_ok() || is_dropped, "{name}, {turns} turns: {merged:?}");
            }
            let reports = database.table_report().await.unwrap();
            let told: Vec<(&str, u64)> =
                reports.iter().map(|report| (report.table.as_str(), report.sstables)).collect();
            assert_eq!(told, [("a", 1), ("c", 1)], "{turns} turns");
            for table in [&tables[0], &tables[2]] {
                assert_eq!(count_rows(&database, table, "a").await.unwrap(), 50);
            }
            database.close().await.unwrap();
        });
    }
}

/// Each shard merges what it has of a table: a number names the merge of one of them.
#[test]
fn of_the_merges_of_two_shards_the_one_is_cancelled_whose_number_is_given() {
    for cancelled in [0, 1] {
        run(async {
            let disk = SimulatedDisk::new(23);
            let World { database, .. } = open_with(&disk, 2, START_US).await;
            let table = database.create_table(quiet(864_000), false).await.unwrap();
            let names = [0, 1].map(|shard| {
                let mut names = (0..).map(|number: i32| number.to_string());
                names.find(|name| database.shard_of(&key(&table, name)) == shard).unwrap()
            });
            for round in 1..=3 {
                for name in &names {
                    let many = (0..50).map(|at| insert(&table, name, at, round, round));
                    database.apply_many(many.collect()).await.unwrap();
                }
                database.flush(None).await.unwrap();
            }
            // An operation takes several turns of this task.
            disk.set_faults(Faults { delay_turns_max: 400, ..Faults::default() });
            let (merging, id) = (database.clone(), table.id);
            let merge = tokio::task::spawn_local(async move { merging.compact(id).await });
            let jobs = running(&database, 2).await;
            assert_eq!([jobs[0].shard, jobs[1].shard], [0, 1]);
            let none = jobs[0].number.max(jobs[1].number) + 1;
            assert!(!database.cancel_compaction(none).await.unwrap(), "there is no such one");
            let number = jobs[cancelled].number;
            assert_ne!(number, jobs[1 - cancelled].number);
            assert!(database.cancel_compaction(number).await.unwrap());
            disk.set_faults(Faults::default());
            let error = merge.await.unwrap().unwrap_err().to_string();
            let wanted = format!("of default.t on shard {cancelled} was cancelled");
            assert!(error.contains(&wanted), "{error}");
            running(&database, 0).await;
            let mut wanted = [CompactionEnd::Done, CompactionEnd::Done];
            wanted[cancelled] = CompactionEnd::Cancelled;
            let records = database.compaction_history().await.unwrap();
            let ends: Vec<CompactionEnd> = records.into_iter().map(|record| record.end).collect();
            assert_eq!(ends, wanted);
            let reports = database.table_report().await.unwrap();
            let sstables: Vec<u64> = reports.iter().map(|report| report.sstables).collect();
            let mut wanted = [1, 1];
            wanted[cancelled] = 3;
            assert_eq!(sstables, wanted);
            for name in &names {
                assert_eq!(count_rows(&database, &table, name).await.unwrap(), 50);
            }
            database.close().await.unwrap();
        });
    }
}

/// The compactions that run, once there are so many of them.
async fn running(database: &Database, count: usize) -> Vec<crate::database::CompactionReport> {
    for _ in 0..100_000 {
        let jobs = database.compactions().await.unwrap();
        if jobs.len() == count {
            return jobs;
        }
        tokio::task::yield_now().await;
    }
    panic!("there are never {count} compactions");
}
