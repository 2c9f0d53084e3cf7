//! LRU against a driver that checks the contract.

use tidegate_plugin::{Driver, Replay, replay};

use super::*;

fn driver(max_slots: u32) -> Driver<Lru> {
    let params = Vec::new();
    Driver::new(&Setup { params, max_slots, shard: 0, seed: 0 }).expect("no parameters")
}

fn words(events: &[(Op, Slot)]) -> (Vec<u64>, Vec<u64>) {
    let events: Vec<Event> = events.iter().map(|(op, slot)| Event::new(*slot, *op)).collect();
    let inserts = events.iter().filter(|event| event.op().has_attributes()).count();
    (events.iter().map(|event| event.0).collect(), vec![0; 3 * inserts])
}

fn victims(driver: &mut Driver<Lru>, events: &[(Op, Slot)], want: u32) -> Vec<Slot> {
    let (events, attributes) = words(events);
    let mut victims = Vec::new();
    driver.apply(&events, &attributes, want, 0, &mut victims);
    victims
}

#[test]
fn the_least_recently_used_leaves_first() {
    use Op::{Access, Insert, Remove, Update, VictimRefused};
    let mut lru = driver(8);
    let events = [(Insert, 0), (Insert, 1), (Insert, 2), (Insert, 3), (Access, 0), (Update, 2)];
    assert_eq!(victims(&mut lru, &events, 2), [1, 3]);
    assert_eq!(victims(&mut lru, &[(VictimRefused, 3), (VictimRefused, 1)], 1), [1]);
    assert_eq!(victims(&mut lru, &[(Access, 1), (Remove, 0)], 8), [3, 2]);
    assert_eq!(victims(&mut lru, &[], 1), [] as [Slot; 0]);
}

#[test]
fn the_order_is_paged_from_cold_to_hot() {
    use Op::{Access, Insert};
    let mut lru = driver(4);
    victims(&mut lru, &[(Insert, 0), (Insert, 1), (Insert, 2), (Access, 0)], 0);
    assert_eq!(lru.drain_order(0, 2), [1, 2]);
    assert_eq!(lru.drain_order(2, 2), [0]);
    assert_eq!(lru.drain_order(3, 2), [] as [Slot; 0]);
}

#[test]
fn unknown_parameters_are_refused() {
    let params = vec![("size".to_string(), "1".to_string())];
    let error = Lru::new(&Setup { params, max_slots: 1, shard: 0, seed: 0 }).unwrap_err();
    assert_eq!(error, "unknown parameter 'size'; this policy has none");
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
