//! ARC on cases computed by hand, and the trials.

use tidegate_plugin_memory::trial;

use super::*;

#[test]
fn a_scan_leaves_before_what_was_used_again() {
    let mut policy = trial::driver::<Arc>(4);
    let ids = trial::evicted(&mut policy, 4, [1, 2, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(ids, [3, 4, 5, 6]);
    let arc = policy.policy();
    assert_eq!((arc.queues.len(RECENT), arc.queues.len(FREQUENT)), (2, 2));
    // Two resident and two ghosts were used once; with those used again that is below twice four.
    assert_eq!((arc.ghosts.len(RECENT), arc.ghosts.len(FREQUENT)), (2, 0));
}

#[test]
fn without_reuse_no_ghost_is_kept() {
    let mut policy = trial::driver::<Arc>(3);
    assert_eq!(trial::evicted(&mut policy, 3, 1..=6), [1, 2, 3]);
    assert_eq!(policy.policy().ghosts.len(RECENT), 0, "three that were used once are resident");
}

#[test]
fn ghosts_move_the_boundary_both_ways() {
    let mut policy = trial::driver::<Arc>(4);
    // 1 and 2 were used again; 3 leaves for 5 and returns in 4's place: the boundary moves to 1.
    let ids = trial::evicted(&mut policy, 4, [1, 2, 1, 2, 3, 4, 5, 3]);
    assert_eq!(ids, [3, 4]);
    assert_eq!(policy.policy().boundary, 1.0);
    assert_eq!(policy.policy().queues.len(FREQUENT), 3);
    let mut policy = trial::driver::<Arc>(4);
    // 6 comes: the recent queue holds 5 alone, no more than its share, so 1 leaves, used again or
    // not. When 1 returns, the boundary moves back by the one recent ghost for the one frequent.
    let ids = trial::evicted(&mut policy, 4, [1, 2, 1, 2, 3, 4, 5, 3, 6, 1]);
    assert_eq!(ids, [3, 4, 1, 5]);
    assert_eq!(policy.policy().returned, [1, 1]);
    assert_eq!(policy.policy().boundary, 0.0);
}

#[test]
fn a_victim_that_stays_is_where_it_was() {
    use Op::{Access, Insert, VictimRefused};
    let mut policy = trial::driver::<Arc>(8);
    let events = [(Insert, 0), (Insert, 1), (Insert, 2), (Access, 2)];
    assert_eq!(trial::apply(&mut policy, &events, 2), [0, 1]);
    let events = [(VictimRefused, 1), (Insert, 0), (Access, 0)];
    assert_eq!(trial::apply(&mut policy, &events, 3), [1, 2, 0], "0 was used again");
    assert_eq!(policy.policy().returned, [0, 0]);
    assert_eq!(policy.policy().boundary, 0.0);
}

#[test]
fn the_order_is_that_of_leaving() {
    use Op::{Access, Insert};
    let mut policy = trial::driver::<Arc>(8);
    let events = [(Insert, 0), (Insert, 1), (Insert, 2), (Access, 0)];
    trial::apply(&mut policy, &events, 0);
    assert_eq!(policy.drain_order(0, 8), [1, 2, 0]);
    policy.policy_mut().boundary = 1.0;
    assert_eq!(policy.drain_order(0, 8), [1, 0, 2]);
}

#[test]
fn unknown_parameters_are_refused() {
    let message = trial::refusal::<Arc>("p", "1");
    assert_eq!(message, "unknown parameter 'p'; this policy has none");
}

#[test]
fn events_of_any_order_are_stood() {
    trial::assert_contract::<Arc>();
}

#[test]
fn batches_do_not_change_the_decisions() {
    trial::assert_batches_agree::<Arc>();
}
