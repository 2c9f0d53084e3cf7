//! What is told of the merges that are still to come.

use super::*;

#[test]
fn a_backlog_is_told_for_as_long_as_a_table_wants_merges() {
    run(async {
        let disk = SimulatedDisk::new(24);
        let world = open(&disk).await;
        four_sstables(&world).await;
        let backlog = async || world.database.compaction_backlog().await.unwrap();
        assert_eq!(backlog().await, [0], "the table merges nothing by itself");
        // An operation takes several turns of this task.
        disk.set_faults(Faults { delay_turns_max: 400, ..Faults::default() });
        let merges = |options: &mut TableOptions| options.compaction.is_enabled = true;
        world.database.alter_table("default", "t", merges).await.unwrap();
        let [told] = backlog().await[..] else { panic!("there is one shard") };
        assert!(told > 0, "the strategy wants the four SSTables to be one");
        disk.set_faults(Faults::default());
        world.settle().await;
        assert_eq!(world.numbers().await.len(), 1);
        assert_eq!(backlog().await, [0], "everything is merged");
        world.database.close().await.unwrap();
    });
}
