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
