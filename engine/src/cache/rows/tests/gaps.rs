//! Gaps that are known to be empty, and flushes for which there is no room.

use super::*;
use crate::cache::page_cache::AdmissionFault;

/// A way to leave no room for a partition, and what it is called.
type Crowd = (&'static str, fn(&World));

/// After a scan all is known, that nothing lies between partitions as well. Then a flush brings one that
/// finds no room: nobody may go on taking it for absent.
#[test]
fn a_new_partition_without_room_is_not_taken_for_absent() {
    let ways: [Crowd; 3] = [
        ("it is refused", |world| {
            world.pages.fail_admission(Some((0, AdmissionFault::Refused)));
        }),
        ("all others leave for it", |world| {
            world.pages.fail_admission(Some((0, AdmissionFault::Crowded)));
        }),
        ("the budget is used up", |world| world.pages.set_capacity_bytes(100)),
    ];
    let mut absent = 0;
    for seed in 0..30 {
        for (what, crowd) in ways {
            let mut world = World::new(seed);
            world.pages.set_capacity_bytes(1 << 20);
            for _ in 0..seed % 3 {
                world.flush();
            }
            let (_, scan) = world.open_scan();
            read_all(scan);
            let new = PartitionKey::from_bytes((1000 + seed as i32).to_be_bytes());
            assert!(
                world.rows.is_known_absent(&new),
                "seed {seed}: a scan tells that it is not there"
            );
            crowd(&world);
            let memtable = world.written();
            block_on(world.begin_flush(new.clone(), memtable));
            world.forget_beside();
            let what = format!("seed {seed}, {what}");
            let is_kept = world.rows.partitions.borrow().contains_key(&new);
            let is_absent = world.rows.is_known_absent(&new);
            assert!(is_kept || !is_absent, "{what}: it is said to be absent, and is on disk");
            absent += u32::from(!is_kept);
            world.check_ring();
            let slice = Slice::full(Direction::Forward);
            world.read_now(Asked::One(new.clone(), slice), &what);
            world.read_now(Asked::All(Direction::Forward), &what);
            world.read_now(Asked::All(Direction::Reversed), &what);
        }
    }
    assert!(absent >= 30, "{absent} found no room");
}
