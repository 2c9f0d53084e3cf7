//! W-TinyLFU on cases computed by hand, and the trials.

use tidegate_plugin::{Driver, Replay, replay};
use tidegate_plugin_memory::trial;

use super::*;

/// Ten entries, one of them in the window.
fn fixed() -> Driver<WTinyLfu> {
    trial::driver_with(10, &[("adaptive", "0")])
}

#[test]
fn a_scan_does_not_pass_the_window() {
    let mut policy = fixed();
    let ids = trial::evicted(&mut policy, 10, 1..=14);
    assert_eq!(ids, [10, 11, 12, 13], "seen once, like the next victim: no reason to change");
    assert_eq!(policy.policy().rejected, 4);
}

#[test]
fn who_is_seen_more_often_than_the_next_victim_stays() {
    let mut policy = fixed();
    // 10 leaves for 11 and returns for it; seen twice, it takes the place of 1.
    let ids = trial::evicted(&mut policy, 10, (1..=11).chain([10, 12]));
    assert_eq!(ids, [10, 11, 1]);
    assert_eq!((policy.policy().admitted, policy.policy().rejected), (1, 2));
}

#[test]
fn reads_in_the_window_are_one_use() {
    let ids = trial::evicted(&mut fixed(), 10, (1..=10).chain([10, 10, 10, 11]));
    assert_eq!(ids, [10]);
}

#[test]
fn who_was_read_in_the_main_part_is_protected() {
    let mut policy = fixed();
    // 1 and 2 are read, so 3 is the next victim when 10 returns, seen twice.
    let ids = trial::evicted(&mut policy, 10, (1..=10).chain([1, 2, 11, 10, 12]));
    assert_eq!(ids, [10, 11, 3]);
    let queues = &policy.policy().queues;
    assert_eq!([WINDOW, PROBATION, PROTECTED].map(|queue| queues.len(queue)), [1, 7, 2]);
}

#[test]
fn no_more_than_four_fifths_of_the_main_part_are_protected() {
    let mut policy = fixed();
    trial::evicted(&mut policy, 10, (1..=10).chain(1..=9));
    assert_eq!(policy.policy().queues.len(PROTECTED), 9, "until a victim is wanted");
    assert_eq!(trial::apply(&mut policy, &[], 1), [9]);
    let queues = &policy.policy().queues;
    assert_eq!([WINDOW, PROBATION, PROTECTED].map(|queue| queues.len(queue)), [0, 2, 7]);
    assert!(queues.iter(PROBATION).eq([0, 1]), "1 and 2 were protected first");
}

#[test]
fn a_victim_that_stays_is_where_it_was() {
    use Op::{Access, Insert, Restore, VictimRefused};
    let mut policy = fixed();
    let fill: Vec<(Op, Slot)> = (0..9).map(|slot| (Restore, slot)).chain([(Insert, 9)]).collect();
    // As many as leave are to be compared: the window grows to three, and its first comes last.
    assert_eq!(trial::apply(&mut policy, &fill, 3), [0, 1, 9]);
    let events = [(VictimRefused, 1), (Insert, 9), (Access, 9), (Insert, 0), (Access, 0)];
    trial::apply(&mut policy, &events, 0);
    let queues = &policy.policy().queues;
    assert!(queues.iter(WINDOW).eq([9]) && queues.iter(PROTECTED).eq([0]));
    assert_eq!(queues.coldest(PROBATION), Some(1));
}

#[test]
fn a_loop_does_not_push_itself_out() {
    for (victims_ahead, most) in [(1, 0.2), (32, 0.25)] {
        let settings = Replay { entries: 400, batch: 256, victims_ahead };
        let requests = (0..120_000).map(|at| at % 440);
        let outcome = replay(&mut trial::driver::<WTinyLfu>(400), settings, requests);
        // A tenth and the window cannot stay.
        let misses = outcome.miss_ratio();
        assert!(misses < most, "{victims_ahead} ahead: {misses}");
    }
}

#[test]
fn of_high_counts_a_difference_of_one_says_nothing() {
    assert!(is_more(1, 0) && is_more(2, 1) && is_more(8, 7) && is_more(10, 8) && is_more(15, 13));
    assert!(!is_more(0, 0) && !is_more(7, 7) && !is_more(9, 8) && !is_more(15, 14));
}

#[test]
fn the_order_is_probation_window_protected() {
    use Op::{Access, Insert, Restore};
    let mut policy = fixed();
    trial::apply(&mut policy, &[(Restore, 3), (Restore, 4), (Insert, 5), (Access, 3)], 0);
    assert_eq!(policy.drain_order(0, 8), [4, 5, 3]);
}

#[test]
fn the_window_follows_the_hit_ratio() {
    let mut policy = trial::driver::<WTinyLfu>(100);
    trial::evicted(&mut policy, 100, trial::mixed_trace(60_000));
    let share = policy.policy().climber.share();
    assert!((0.0..=0.8).contains(&share) && share != 0.03, "{share}");
    let mut fixed = trial::driver_with::<WTinyLfu>(100, &[("adaptive", "0")]);
    trial::evicted(&mut fixed, 100, trial::mixed_trace(60_000));
    assert_eq!(fixed.policy().climber.share(), 0.03);
}

#[test]
fn the_window_goes_on_in_a_successor() {
    let mut policy = trial::driver::<WTinyLfu>(100);
    trial::evicted(&mut policy, 100, trial::mixed_trace(60_000));
    let state = policy.policy().snapshot();
    let mut successor = trial::driver::<WTinyLfu>(100);
    successor.policy_mut().restore(1, &state).unwrap();
    assert_eq!(successor.policy().climber.found(), policy.policy().climber.found());
    assert_eq!(successor.policy().snapshot(), state);
    let mut refuses = |schema, state: &[u8]| successor.policy_mut().restore(schema, state).is_err();
    assert!(refuses(2, &state) && refuses(1, &state[1..]) && refuses(1, &[0xFF; 16]));
    let mut fixed = trial::driver_with::<WTinyLfu>(100, &[("adaptive", "0")]);
    assert!(fixed.policy_mut().restore(1, &state).is_err());
}

#[test]
fn parameters_are_checked() {
    let refused = |name, value| trial::refusal::<WTinyLfu>(name, value);
    assert_eq!(refused("window_percent", "0"), "parameter window_percent: 0 is not in 1..=80");
    assert_eq!(refused("adaptive", "2"), "parameter adaptive: 2 is not 0 or 1");
    assert!(refused("size", "1").starts_with("unknown parameter 'size'"));
}

#[test]
fn events_of_any_order_are_stood() {
    trial::assert_contract::<WTinyLfu>();
}

#[test]
fn batches_do_not_change_the_decisions() {
    trial::assert_batches_agree::<WTinyLfu>();
}
