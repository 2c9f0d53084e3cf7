//! LHD on cases computed by hand, and the trials.

use tidegate_plugin_memory::trial;

use super::*;

/// A use is an age, so that small cases have ages.
const FINE: [(&str, &str); 1] = [("age_shift", "1")];

#[test]
fn classes_halve_the_time_between_uses() {
    let class_of = |ages| class(&Entry { ages, ..NOBODY });
    assert_eq!(class_of([0, AGES as u16]), 0, "used once");
    assert_eq!(class_of([10_000, 0]), 1);
    assert_eq!(class_of([9_999, 0]), 2);
    assert_eq!(class_of([4_000, 1_000]), 2);
    assert_eq!(class_of([1, 0]), 15);
    assert_eq!(class_of([0, 0]), 15);
}

#[test]
fn what_was_read_is_worth_more_than_what_was_not() {
    let ids = trial::evicted(&mut trial::driver::<Lhd>(2), 2, [1, 2, 1, 3, 4, 5]);
    assert_eq!(ids, [2, 3, 4], "1 was read");
}

#[test]
fn worth_falls_with_age() {
    // 1 was read 100 uses ago, that is 50 ages: 32 / 51 are less than the 17 of a newcomer.
    let mut policy = trial::driver_with::<Lhd>(3, &FINE);
    let trace = [1, 1, 2].into_iter().chain([2; 100]).chain([3, 4]);
    assert_eq!(trial::evicted(&mut policy, 3, trace), [1]);
}

#[test]
fn a_newcomer_worse_than_the_usual_victim_is_always_looked_at() {
    use Op::{Access, Insert, Remove};
    let mut policy = trial::driver::<Lhd>(4);
    policy.policy_mut().victim_density = 18.0;
    // One use in 32 explores instead; of this seed it is the second.
    trial::apply(&mut policy, &[(Insert, 0), (Access, 0), (Insert, 1)], 0);
    assert_eq!(policy.policy().newcomers[..3], [Some(0), Some(1), None]);
    trial::apply(&mut policy, &[(Remove, 0)], 0);
    assert_eq!(policy.policy().newcomers[..3], [None, Some(1), None]);
    // A victim of density 17 counts for a tenth.
    assert_eq!(trial::apply(&mut policy, &[], 1), [1]);
    assert!((policy.policy().victim_density - 17.9).abs() < 1e-4);
    assert_eq!(policy.policy().newcomers, [None; NEWCOMERS]);
}

#[test]
fn explorers_stay_within_their_share() {
    let mut policy = trial::driver::<Lhd>(200);
    for (at, id) in trial::mixed_trace(200).enumerate() {
        let slot = id % 200;
        let op = if at % 3 == 0 { Op::Insert } else { Op::Access };
        let event = if at % 7 == 6 { (Op::Remove, slot) } else { (op, slot) };
        trial::apply(&mut policy, &[event], u32::from(at % 5 == 4));
        let lhd = policy.policy();
        let explorers = lhd.members.iter().filter(|slot| lhd.entries[**slot as usize].explorer);
        assert_eq!(explorers.count() as i64 + lhd.explorers_left, 2, "step {at}");
    }
}

#[test]
fn surveys_come_every_period_and_are_adopted_as_a_whole() {
    let mut policy = trial::driver_with::<Lhd>(100, &[("period", "65536"), ("age_shift", "4")]);
    trial::evicted(&mut policy, 100, trial::mixed_trace(1 << 16));
    // The period is over and the first class surveyed; guesses still hold.
    assert_eq!((policy.policy().surveys, policy.policy().class), (1, 1));
    assert_eq!(policy.policy().classes[0].density(0), 17.0);
    let mut policy = trial::driver_with::<Lhd>(100, &[("period", "65536"), ("age_shift", "4")]);
    trial::evicted(&mut policy, 100, trial::mixed_trace((1 << 16) + 15 * SURVEY_SPREAD));
    assert_eq!((policy.policy().surveys, policy.policy().class), (1, CLASSES));
    let density = policy.policy().classes[0].density(0);
    assert!(density > 0.0 && density < 1.0, "{density}");
}

#[test]
fn ages_are_fitted_to_the_size_of_the_cache() {
    let mut policy = trial::driver::<Lhd>(2000);
    let fill: Vec<(Op, Slot)> = (0..2000).map(|slot| (Op::Insert, slot)).collect();
    trial::apply(&mut policy, &fill, 0);
    let lhd = policy.policy_mut();
    lhd.fit();
    assert_eq!(lhd.shift_next, 10, "not at the first survey");
    lhd.surveys = 5;
    lhd.fit();
    // Two thousand entries by two hundred ages are ten uses, so sixteen.
    assert_eq!((lhd.shift_next, lhd.age_shift), (4, 10));
    lhd.class = 0;
    lhd.until_class = 1;
    (0..16 * SURVEY_SPREAD).for_each(|_| lhd.pass());
    assert_eq!(lhd.age_shift, 4);
}

#[test]
fn a_victim_that_stays_is_who_it_was() {
    use Op::{Access, Insert, VictimRefused};
    let mut policy = trial::driver::<Lhd>(4);
    trial::apply(&mut policy, &[(Insert, 0), (Insert, 1), (Access, 0)], 0);
    let before = policy.policy().entries[0];
    assert_eq!(trial::apply(&mut policy, &[], 2), [1, 0]);
    trial::apply(&mut policy, &[(VictimRefused, 0), (Insert, 1), (Access, 1)], 0);
    let lhd = policy.policy();
    assert_eq!(lhd.entries[0].ages, before.ages);
    assert_eq!(lhd.entries[0].used, before.used);
    assert_eq!(class(&lhd.entries[1]), 15, "1 was read");
    assert_eq!(lhd.members, [0, 1]);
}

#[test]
fn the_order_is_by_worth() {
    use Op::{Access, Insert};
    let mut policy = trial::driver::<Lhd>(4);
    let events = [(Insert, 3), (Access, 3), (Insert, 1), (Insert, 2), (Access, 2), (Insert, 0)];
    trial::apply(&mut policy, &events, 0);
    assert_eq!(policy.drain_order(0, 8), [1, 0, 3, 2]);
}

#[test]
fn the_seed_decides_what_is_drawn() {
    let run = |seed| {
        let setup = Setup { params: Vec::new(), max_slots: 50, shard: 0, seed };
        let mut driver = tidegate_plugin::Driver::<Lhd>::new(&setup).expect("no parameters");
        trial::evicted(&mut driver, 50, trial::mixed_trace(5_000))
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn parameters_are_checked() {
    let refused = |name, value| trial::refusal::<Lhd>(name, value);
    assert_eq!(refused("period", "100"), "parameter period: 100 is not in 65536..=1073741824");
    assert_eq!(refused("age_shift", "0"), "parameter age_shift: 0 is not in 1..=20");
    assert!(refused("size", "1").starts_with("unknown parameter 'size'"));
}

#[test]
fn events_of_any_order_are_stood() {
    trial::assert_contract::<Lhd>();
}

#[test]
fn batches_do_not_change_the_decisions() {
    trial::assert_batches_agree::<Lhd>();
}
