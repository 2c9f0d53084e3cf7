//! FIFO on cases computed by hand, and the trials.

use tidegate_plugin_memory::trial;

use super::*;

#[test]
fn the_oldest_leaves_however_often_it_was_read() {
    let ids = trial::evicted(&mut trial::driver::<Fifo>(3), 3, [1, 2, 3, 1, 1, 4, 2, 5, 1, 6]);
    assert_eq!(ids, [1, 2, 3, 4], "1 returns as the newest");
}

#[test]
fn a_refused_victim_is_the_next_candidate() {
    use Op::{Access, Insert, Remove, VictimRefused};
    let mut fifo = trial::driver::<Fifo>(8);
    let fill: Vec<(Op, Slot)> = (0..6).map(|slot| (Insert, slot)).collect();
    assert_eq!(trial::apply(&mut fifo, &fill, 3), [0, 1, 2]);
    assert_eq!(trial::apply(&mut fifo, &[(VictimRefused, 2), (VictimRefused, 1)], 1), [1]);
    let events = [(Access, 2), (Remove, 3), (Remove, 2), (Insert, 2)];
    assert_eq!(trial::apply(&mut fifo, &events, 9), [4, 5, 2], "2 is a new entry");
}

#[test]
fn a_victim_that_was_read_in_time_stays_as_old_as_it_was() {
    use Op::{Access, Insert};
    let mut fifo = trial::driver::<Fifo>(8);
    let fill: Vec<(Op, Slot)> = (0..4).map(|slot| (Insert, slot)).collect();
    assert_eq!(trial::apply(&mut fifo, &fill, 2), [0, 1]);
    // 1 was read before it was taken; another entry came into slot 0.
    trial::apply(&mut fifo, &[(Insert, 1), (Access, 1)], 0);
    fifo.apply(&[Event::new(0, Op::Insert).0], &[99, 1, 0], 0, 0, &mut Vec::new());
    assert_eq!(trial::apply(&mut fifo, &[], 4), [1, 2, 3, 0]);
}

#[test]
fn the_order_is_that_of_insertion() {
    let mut fifo = trial::driver::<Fifo>(4);
    trial::apply(&mut fifo, &[(Op::Insert, 3), (Op::Insert, 0), (Op::Access, 3)], 0);
    assert_eq!(fifo.drain_order(0, 8), [3, 0]);
}

#[test]
fn unknown_parameters_are_refused() {
    let message = trial::refusal::<Fifo>("size", "1");
    assert_eq!(message, "unknown parameter 'size'; this policy has none");
}

#[test]
fn events_of_any_order_are_stood() {
    trial::assert_contract::<Fifo>();
}

#[test]
fn batches_do_not_change_the_decisions() {
    trial::assert_batches_agree::<Fifo>();
}
