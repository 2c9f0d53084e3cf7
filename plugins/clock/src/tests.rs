//! CLOCK on cases computed by hand, and the trials.

use tidegate_plugin_memory::trial;

use super::*;

#[test]
fn a_read_entry_gets_one_second_chance() {
    let mut clock = trial::driver::<Clock>(3);
    // 4 comes: 1 was read and goes behind 3, so 2 leaves. 5: 3 leaves. 6: 1 has no mark any more.
    assert_eq!(trial::evicted(&mut clock, 3, [1, 2, 3, 1, 1, 4, 5, 6]), [2, 3, 1]);
    let mut clock = trial::driver::<Clock>(3);
    // All were read: all lose their mark, and the first of them leaves.
    assert_eq!(trial::evicted(&mut clock, 3, [1, 2, 3, 3, 2, 1, 4, 2, 5]), [1, 3]);
}

#[test]
fn a_refused_victim_is_the_next_candidate() {
    use Op::{Access, Insert, Remove, VictimRefused};
    let mut clock = trial::driver::<Clock>(8);
    let fill: Vec<(Op, Slot)> = (0..6).map(|slot| (Insert, slot)).collect();
    assert_eq!(trial::apply(&mut clock, &fill, 3), [0, 1, 2]);
    assert_eq!(trial::apply(&mut clock, &[(VictimRefused, 2), (VictimRefused, 1)], 3), [1, 2, 3]);
    let events = [(Access, 4), (Remove, 4), (Insert, 4), (Access, 5)];
    assert_eq!(trial::apply(&mut clock, &events, 9), [4, 5], "a mark does not outlive its entry");
}

#[test]
fn a_search_through_marked_entries_is_cut_and_goes_on() {
    let slots = STEPS_MAX + 10;
    let mut clock = trial::driver::<Clock>(slots);
    for slot in 0..slots {
        trial::apply(&mut clock, &[(Op::Insert, slot), (Op::Update, slot)], 0);
    }
    assert_eq!(trial::apply(&mut clock, &[], 1), [] as [Slot; 0]);
    assert_eq!(trial::apply(&mut clock, &[], 2), [0, 1], "the marks are gone after one round");
}

#[test]
fn the_order_lists_unmarked_entries_first() {
    use Op::{Access, Insert};
    let mut clock = trial::driver::<Clock>(4);
    let events = [(Insert, 0), (Insert, 1), (Insert, 2), (Access, 0)];
    trial::apply(&mut clock, &events, 0);
    assert_eq!(clock.drain_order(0, 8), [1, 2, 0]);
}

#[test]
fn unknown_parameters_are_refused() {
    let message = trial::refusal::<Clock>("bits", "2");
    assert_eq!(message, "unknown parameter 'bits'; this policy has none");
}

#[test]
fn events_of_any_order_are_stood() {
    trial::assert_contract::<Clock>();
}

#[test]
fn batches_do_not_change_the_decisions() {
    trial::assert_batches_agree::<Clock>();
}
