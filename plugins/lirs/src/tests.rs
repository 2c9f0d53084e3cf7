//! LIRS on cases computed by hand, and the trials.

use tidegate_plugin_memory::trial;

use super::*;

/// Ten entries: nine low ones and a queue of one.
fn evicted(trace: impl IntoIterator<Item = u32>) -> Vec<u32> {
    trial::evicted(&mut trial::driver::<Lirs>(10), 10, trace)
}

#[test]
fn a_scan_passes_through_the_queue() {
    assert_eq!(evicted(1..=20), (10..=19).collect::<Vec<u32>>());
}

#[test]
fn a_ghost_that_returns_takes_the_place_of_the_last_low_entry() {
    // 10 leaves for 11 and 11 for 10, which is low from then on: 1 is in the queue and leaves.
    assert_eq!(evicted((1..=11).chain([10, 12])), [10, 11, 1]);
}

#[test]
fn a_high_entry_that_is_used_again_in_time_is_low() {
    // The last use of 10 is nearer than that of 1.
    assert_eq!(evicted((1..=10).chain([10, 11])), [1]);
    // Now all low ones were used since 10 was: its distance is the longest.
    assert_eq!(evicted((1..=10).chain(1..=9).chain([10, 11])), [10]);
    // But its second use counts as its last: it is low when it returns.
    assert_eq!(evicted((1..=10).chain(1..=9).chain([10, 11, 10, 12])), [10, 11, 1]);
}

#[test]
fn a_loop_longer_than_the_cache_keeps_most_of_it() {
    // Twelve ids in turn through ten places: an LRU would never hit.
    let trace = (0..1200).map(|at| at % 12);
    let misses = 10 + evicted(trace).len();
    assert!((300..400).contains(&misses), "a quarter and a few: {misses}");
}

#[test]
fn the_stack_is_bounded() {
    let mut policy = trial::driver::<Lirs>(10);
    trial::evicted(&mut policy, 10, 1..=1000);
    let lirs = policy.policy();
    // Nine low entries, one high, ten ghosts.
    assert_eq!((lirs.stack.len(), lirs.ghosts.len(0), lirs.low), (20, 10, 9));
}

#[test]
fn a_victim_that_stays_is_where_it_was() {
    use Op::{Access, Insert, VictimRefused};
    let mut policy = trial::driver::<Lirs>(10);
    let fill: Vec<(Op, Slot)> = (0..10).map(|slot| (Insert, slot)).collect();
    assert_eq!(trial::apply(&mut policy, &fill, 1), [9]);
    assert_eq!(trial::apply(&mut policy, &[(VictimRefused, 9)], 1), [9]);
    // Read in time, and still in the stack: low, so 0 goes to the queue.
    trial::apply(&mut policy, &[(Insert, 9), (Access, 9)], 0);
    assert_eq!((policy.policy().ghosts.len(0), policy.policy().returned), (0, 0));
    assert_eq!(trial::apply(&mut policy, &[], 1), [0]);
    assert_eq!(trial::apply(&mut policy, &[(VictimRefused, 0)], 1), [0]);
}

#[test]
fn a_request_for_many_makes_as_many_high() {
    let mut policy = trial::driver::<Lirs>(10);
    let fill: Vec<(Op, Slot)> = (0..10).map(|slot| (Op::Insert, slot)).collect();
    assert_eq!(trial::apply(&mut policy, &fill, 3), [9, 0, 1]);
    assert_eq!(policy.policy().low, 7);
}

#[test]
fn a_low_victim_is_put_back_as_one() {
    use Op::{Insert, VictimRefused};
    let mut policy = trial::driver::<Lirs>(4);
    trial::apply(&mut policy, &[(Insert, 0), (Insert, 1)], 0);
    let lirs = policy.policy_mut();
    // Without a request for many there is nothing in the queue.
    assert_eq!((lirs.next_victim(), lirs.low), (Some(0), 1));
    trial::apply(&mut policy, &[(VictimRefused, 0)], 0);
    assert_eq!(policy.policy().low, 2);
    assert_eq!(policy.drain_order(0, 8), [0, 1]);
}

#[test]
fn the_order_is_the_queue_and_then_by_last_use() {
    use Op::{Access, Insert};
    let mut policy = trial::driver::<Lirs>(3);
    let events = [(Insert, 0), (Insert, 1), (Insert, 2), (Access, 0)];
    trial::apply(&mut policy, &events, 0);
    assert_eq!(policy.drain_order(0, 8), [2, 1, 0]);
}

#[test]
fn parameters_are_checked() {
    let refused = |name, value| trial::refusal::<Lirs>(name, value);
    assert_eq!(refused("high_percent", "0"), "parameter high_percent: 0 is not in 1..=50");
    assert!(refused("size", "1").starts_with("unknown parameter 'size'"));
    let mut half = trial::driver_with::<Lirs>(10, &[("high_percent", "50")]);
    assert_eq!(trial::evicted(&mut half, 10, 1..=12), [6, 7]);
}

#[test]
fn events_of_any_order_are_stood() {
    trial::assert_contract::<Lirs>();
}

#[test]
fn batches_do_not_change_the_decisions() {
    trial::assert_batches_agree::<Lirs>();
}
