//! 2Q on cases computed by hand, and the trials.

use tidegate_plugin_memory::trial;

use super::*;

/// Eight entries: two in the first queue when the main one is full, four ghosts.
#[test]
fn reads_in_the_first_queue_count_for_nothing() {
    let mut policy = trial::driver::<TwoQ>(8);
    let ids = trial::evicted(&mut policy, 8, (1..=8).chain([1, 1, 1, 9, 10]));
    assert_eq!(ids, [1, 2]);
}

#[test]
fn who_returns_is_kept() {
    let mut policy = trial::driver::<TwoQ>(8);
    // 1 to 6 leave one after the other; 3 to 6 are remembered when 3, 4, 5 and 6 return.
    // Each return takes another victim: 7, 8, 9, 10.
    let ids = trial::evicted(&mut policy, 8, (1..=14).chain([3, 4, 5, 6]));
    assert_eq!(ids, (1..=10).collect::<Vec<u32>>());
    assert_eq!(policy.policy().queues.len(MAIN), 4);
    assert_eq!(policy.policy().returned, 4);
}

#[test]
fn what_was_forgotten_starts_anew() {
    let mut policy = trial::driver::<TwoQ>(8);
    // 1 to 6 have left, 3 to 6 are remembered: 2 is a new entry.
    let ids = trial::evicted(&mut policy, 8, (1..=14).chain([2]));
    assert_eq!(ids, (1..=7).collect::<Vec<u32>>());
    assert_eq!((policy.policy().queues.len(MAIN), policy.policy().ghosts.len(0)), (0, 4));
}

#[test]
fn the_main_queue_gives_its_least_recently_used() {
    use Op::{Access, Insert, Restore};
    let mut policy = trial::driver::<TwoQ>(8);
    let events = [
        (Insert, 0),
        (Insert, 1),
        (Restore, 2),
        (Restore, 3),
        (Restore, 4),
        (Restore, 5),
        (Restore, 6),
        (Restore, 7),
        (Access, 0),
        (Access, 2),
        (Access, 4),
    ];
    // A quarter of eight may stay in the first queue; with the third victim that is half a pair less.
    assert_eq!(trial::apply(&mut policy, &events, 3), [3, 5, 0]);
    // Of five entries one may stay there, and none when two were named.
    assert_eq!(trial::apply(&mut policy, &[], 8), [6, 7, 1, 2, 4]);
}

#[test]
fn a_victim_that_stays_is_where_it_was() {
    use Op::{Access, Insert, Restore, VictimRefused};
    let mut policy = trial::driver::<TwoQ>(8);
    let events = [(Insert, 0), (Insert, 1), (Restore, 2), (Restore, 3)];
    assert_eq!(trial::apply(&mut policy, &events, 2), [0, 2]);
    // 2 was read in time, so it is the most recently used; 0 is refused and next again.
    let events = [(Insert, 2), (Access, 2), (VictimRefused, 0)];
    assert_eq!(trial::apply(&mut policy, &events, 4), [0, 3, 1, 2]);
    assert_eq!(policy.policy().ghosts.len(0), 2);
}

#[test]
fn a_victim_of_the_first_queue_that_was_read_in_time_has_returned() {
    use Op::{Access, Insert};
    let mut policy = trial::driver::<TwoQ>(8);
    assert_eq!(trial::apply(&mut policy, &[(Insert, 0), (Insert, 1)], 1), [0]);
    trial::apply(&mut policy, &[(Insert, 0), (Access, 0)], 0);
    assert_eq!(policy.policy().queues.queue_of(0), Some(MAIN));
    assert_eq!(policy.policy().ghosts.len(0), 0);
}

#[test]
fn the_order_is_that_of_leaving() {
    use Op::{Insert, Restore};
    let mut policy = trial::driver::<TwoQ>(8);
    let events = [(Insert, 0), (Insert, 1), (Restore, 2), (Restore, 3)];
    trial::apply(&mut policy, &events, 0);
    assert_eq!(policy.drain_order(0, 8), [0, 2, 3, 1]);
}

#[test]
fn parameters_are_checked() {
    let refused = |name, value| trial::refusal::<TwoQ>(name, value);
    assert_eq!(refused("first_percent", "100"), "parameter first_percent: 100 is not in 1..=99");
    assert_eq!(refused("ghost_percent", "101"), "parameter ghost_percent: 101 is not in 0..=100");
    assert!(refused("kin", "1").starts_with("unknown parameter 'kin'"));
    let mut forgetful = trial::driver_with::<TwoQ>(8, &[("ghost_percent", "0")]);
    trial::evicted(&mut forgetful, 8, (1..=14).chain(3..=6));
    assert_eq!(forgetful.policy().queues.len(MAIN), 0);
}

#[test]
fn events_of_any_order_are_stood() {
    trial::assert_contract::<TwoQ>();
}

#[test]
fn batches_do_not_change_the_decisions() {
    trial::assert_batches_agree::<TwoQ>();
}
