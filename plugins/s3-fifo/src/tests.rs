//! S3-FIFO on cases computed by hand, and the trials.

use tidegate_plugin_memory::trial;

use super::*;

/// Ten entries: nine in the main queue and one in the small one when both are full.
#[test]
fn an_entry_read_twice_moves_on_and_one_read_once_does_not() {
    // 1 is in the small queue, 2 to 10 in the main one. 1 was read once and leaves for 11.
    let mut policy = trial::driver::<S3Fifo>(10);
    assert_eq!(trial::evicted(&mut policy, 10, (1..=10).chain([1, 11])), [1]);
    assert_eq!(policy.policy().ghosts.len(0), 1);
    // Read twice, 1 moves on. Of the main queue 2 was read and goes round, so 3 leaves.
    let mut policy = trial::driver::<S3Fifo>(10);
    assert_eq!(trial::evicted(&mut policy, 10, (1..=10).chain([1, 1, 2, 11])), [3]);
    let s3 = policy.policy();
    assert_eq!((s3.queues.len(SMALL), s3.queues.len(MAIN), s3.ghosts.len(0)), (1, 9, 0));
}

#[test]
fn a_ghost_returns_to_the_main_queue() {
    let mut policy = trial::driver::<S3Fifo>(10);
    // 1 leaves for 11 and 11 for 1, which makes the main queue too long: 2 leaves for 12. After
    // that all that come pass through the small queue.
    let ids = trial::evicted(&mut policy, 10, (1..=11).chain([1]).chain(12..=21));
    assert_eq!(ids, [1, 11, 2].into_iter().chain(12..=20).collect::<Vec<u32>>());
    assert_eq!(policy.policy().queues.len(MAIN), 9);
    assert_eq!(policy.policy().returned, 1);
    assert_eq!(policy.policy().ghosts.len(0), 9, "nine tenths of the entries are remembered");
}

#[test]
fn the_main_queue_gives_one_round_for_each_read() {
    use Op::{Access, Restore};
    let mut policy = trial::driver::<S3Fifo>(10);
    let fill: Vec<(Op, Slot)> = (0..10).map(|slot| (Restore, slot)).collect();
    trial::apply(&mut policy, &fill, 0);
    // All ten are in the main queue, which may hold nine. 0 has two rounds, 1 has one, 2 leaves.
    let events = [(Access, 0), (Access, 0), (Access, 1)];
    assert_eq!(trial::apply(&mut policy, &events, 1), [2]);
    // The cache now holds nine, one more than its main queue may: 3, then it is 4's turn.
    assert_eq!(trial::apply(&mut policy, &[], 1), [3]);
    assert_eq!(trial::apply(&mut policy, &[], 6), [4, 5, 6, 7, 8, 9]);
    assert_eq!(trial::apply(&mut policy, &[], 2), [1, 0]);
}

#[test]
fn a_refused_victim_is_the_next_candidate_of_its_queue() {
    use Op::{Insert, VictimRefused};
    let mut policy = trial::driver::<S3Fifo>(10);
    let fill: Vec<(Op, Slot)> = (0..10).map(|slot| (Insert, slot)).collect();
    // Asked for two, the main queue may hold one less: it gives 1, and the small one gives 0.
    assert_eq!(trial::apply(&mut policy, &fill, 2), [1, 0]);
    assert_eq!(trial::apply(&mut policy, &[(VictimRefused, 0), (VictimRefused, 1)], 1), [0]);
    assert_eq!(policy.policy().queues.len(MAIN), 9, "a refusal is no return");
    assert_eq!(trial::apply(&mut policy, &[(VictimRefused, 0)], 2), [1, 0]);
}

#[test]
fn a_victim_that_was_read_in_time_is_where_it_was() {
    use Op::{Access, Insert};
    let mut policy = trial::driver::<S3Fifo>(10);
    let fill: Vec<(Op, Slot)> = (0..10).map(|slot| (Insert, slot)).collect();
    trial::apply(&mut policy, &fill, 0);
    assert_eq!(trial::apply(&mut policy, &[(Access, 0)], 3), [1, 0, 2]);
    // 0 was read before and now again: it moves on. 1 was read now: it goes round.
    let read_in_time = [(Insert, 1), (Access, 1), (Insert, 0), (Access, 0)];
    assert_eq!(trial::apply(&mut policy, &read_in_time, 2), [3, 4]);
    assert_eq!(policy.policy().queues.queue_of(0), Some(MAIN));
    assert_eq!(policy.policy().ghosts.len(0), 0);
}

#[test]
fn a_long_search_is_cut_and_goes_on() {
    let slots = STEPS_MAX + 100;
    let mut policy = trial::driver::<S3Fifo>(slots);
    for slot in 0..slots {
        trial::apply(&mut policy, &[(Op::Insert, slot), (Op::Access, slot), (Op::Access, slot)], 0);
    }
    assert_eq!(trial::apply(&mut policy, &[], 1), [] as [Slot; 0]);
    assert_eq!(trial::apply(&mut policy, &[], 1), [0]);
}

#[test]
fn the_order_is_that_of_leaving() {
    use Op::{Access, Insert, Restore};
    let mut policy = trial::driver::<S3Fifo>(8);
    let events = [
        (Restore, 0),
        (Restore, 1),
        (Insert, 2),
        (Insert, 3),
        (Access, 0),
        (Access, 2),
        (Access, 2),
    ];
    trial::apply(&mut policy, &events, 0);
    // 2 is in the small queue and may stay; 3 found that full.
    assert_eq!(policy.drain_order(0, 8), [1, 3, 0, 2]);
}

#[test]
fn parameters_are_checked() {
    let refused = |name, value| trial::refusal::<S3Fifo>(name, value);
    assert_eq!(refused("small_percent", "0"), "parameter small_percent: 0 is not in 1..=99");
    assert_eq!(refused("ghost_percent", "101"), "parameter ghost_percent: 101 is not in 0..=100");
    assert_eq!(refused("reads_to_stay", "4"), "parameter reads_to_stay: 4 is not in 1..=3");
    assert_eq!(
        refused("reads_to_stay", "two"),
        "parameter reads_to_stay: 'two' is not a whole number"
    );
    assert!(refused("size", "1").starts_with("unknown parameter 'size'"));
    let mut eager = trial::driver_with::<S3Fifo>(10, &[("reads_to_stay", "1")]);
    assert_eq!(trial::evicted(&mut eager, 10, (1..=10).chain([1, 11])), [2]);
}

#[test]
fn events_of_any_order_are_stood() {
    trial::assert_contract::<S3Fifo>();
}

#[test]
fn batches_do_not_change_the_decisions() {
    trial::assert_batches_agree::<S3Fifo>();
}
