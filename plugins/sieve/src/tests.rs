//! SIEVE against a driver that checks the contract.

use tidegate_plugin::{Driver, Replay, replay};

use super::*;

fn driver(max_slots: u32) -> Driver<Sieve> {
    let params = Vec::new();
    Driver::new(&Setup { params, max_slots, shard: 0, seed: 0 }).expect("no parameters")
}

fn victims(driver: &mut Driver<Sieve>, events: &[(Op, Slot)], want: u32) -> Vec<Slot> {
    let events: Vec<Event> = events.iter().map(|(op, slot)| Event::new(*slot, *op)).collect();
    let inserts = events.iter().filter(|event| event.op().has_attributes()).count();
    let words: Vec<u64> = events.iter().map(|event| event.0).collect();
    let mut victims = Vec::new();
    driver.apply(&words, &vec![0; 3 * inserts], want, 0, &mut victims);
    victims
}

/// The example of the paper's figure: A to G, with A, B and G marked, then a miss.
#[test]
fn marked_entries_are_spared_once_and_the_hand_stays() {
    use Op::{Access, Insert};
    let mut sieve = driver(8);
    let fill: Vec<(Op, Slot)> = (0..7).map(|slot| (Insert, slot)).collect();
    victims(&mut sieve, &fill, 0);
    victims(&mut sieve, &[(Access, 0), (Access, 1), (Access, 6)], 0);
    assert_eq!(victims(&mut sieve, &[], 1), [2], "0 and 1 are spared");
    assert_eq!(victims(&mut sieve, &[(Insert, 2)], 1), [3], "the hand went on from there");
    assert_eq!(victims(&mut sieve, &[(Access, 0)], 3), [4, 5, 2], "6 is spared, the newest is not");
    assert_eq!(victims(&mut sieve, &[], 3), [1, 6, 0], "0 was marked again");
    assert_eq!(victims(&mut sieve, &[], 1), [] as [Slot; 0]);
}

#[test]
fn a_refused_victim_is_the_next_candidate() {
    use Op::{Insert, Remove, VictimRefused};
    let mut sieve = driver(8);
    let fill: Vec<(Op, Slot)> = (0..6).map(|slot| (Insert, slot)).collect();
    assert_eq!(victims(&mut sieve, &fill, 3), [0, 1, 2]);
    assert_eq!(victims(&mut sieve, &[(VictimRefused, 2), (VictimRefused, 1)], 3), [1, 2, 3]);
    assert_eq!(victims(&mut sieve, &[(Remove, 4)], 2), [5], "a removed hand moves on");
}

#[test]
fn a_search_through_marked_entries_is_cut_and_goes_on() {
    use Op::{Access, Insert};
    let slots = STEPS_MAX + 10;
    let mut sieve = driver(slots);
    for slot in 0..slots {
        victims(&mut sieve, &[(Insert, slot), (Access, slot)], 0);
    }
    assert_eq!(victims(&mut sieve, &[], 1), [] as [Slot; 0]);
    assert_eq!(victims(&mut sieve, &[], 2), [0, 1], "the marks are gone after one round");
}

#[test]
fn the_order_lists_unmarked_entries_first() {
    use Op::{Access, Insert};
    let mut sieve = driver(4);
    victims(&mut sieve, &[(Insert, 0), (Insert, 1), (Insert, 2), (Insert, 3), (Access, 0)], 0);
    assert_eq!(sieve.drain_order(0, 8), [1, 2, 3, 0]);
}

#[test]
fn batches_do_not_change_the_decisions() {
    let trace = || (0..50_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 20) % (1 + i % 997));
    let run = |batch, victims_ahead| {
        replay(&mut driver(100), Replay { entries: 100, batch, victims_ahead }, trace())
    };
    let one = run(1, 1);
    assert!(one.misses > 1000 && one.misses < one.requests && one.shortfalls == 0);
    for batch in [7, 64, 256, 1024] {
        assert_eq!(run(batch, 1), one, "batch {batch}");
    }
}
