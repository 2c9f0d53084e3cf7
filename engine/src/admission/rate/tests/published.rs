//! Keys that callers count and refuse, beside their shard.

use super::*;
use crate::admission::rate::published::{Asked, PublishedRates, Verdict};

const KEY: Asked = Asked { table: TableId(1), token: Token(7), operation: Operation::Read };

/// A shard and its callers.
struct World {
    rates: Arc<PublishedRates>,
    limiter: Limiter,
    table: TableSchema,
    /// Operations that came to the shard.
    came: u64,
}

impl World {
    fn new(limit: u32) -> Self {
        let rates = Arc::new(PublishedRates::new(3));
        let limiter = Limiter::new(9, rates.clone());
        World { rates, limiter, table: table(1, Some(limit), None), came: 0 }
    }

    fn judge(&self, now_us: i64) -> Verdict {
        self.rates.judge(KEY, || now_us)
    }

    /// An operation, as a caller begins it; whether it went through.
    fn ask(&mut self, now_us: i64) -> bool {
        match self.judge(now_us) {
            Verdict::Refused(error) => {
                assert!(error.to_string().contains("one partition of ks.t1"), "{error}");
                return false;
            }
            Verdict::GoesThrough => self.limiter.note_counted(Operation::Read),
            Verdict::Unknown => {
                self.came += 1;
                return self.ask_shard(now_us);
            }
        }
        self.came += 1;
        true
    }

    fn ask_shard(&mut self, now_us: i64) -> bool {
        admit(&mut self.limiter, &self.table, KEY.token, Operation::Read, now_us).is_ok()
    }

    /// So many operations within a second; how many went through.
    fn second(&mut self, second: i64, rate: i64) -> u64 {
        let times = (0..rate).map(|n| second * 1_000_000 + n * 1_000_000 / rate);
        times.filter(|now_us| self.ask(*now_us)).count() as u64
    }
}

#[test]
fn what_goes_through_is_the_limit_and_hardly_anything_comes_to_the_shard() {
    for limit in [10, 200, 5_000] {
        let mut world = World::new(limit);
        let rate = 200_000;
        let through: Vec<u64> = (100..120).map(|second| world.second(second, rate)).collect();
        let steady = through[5..].iter().sum::<u64>() as f64 / 15.0 / f64::from(limit);
        assert!((0.9..=1.1).contains(&steady), "limit {limit}: {through:?}");
        // What goes through, and what it takes until a key is worth it.
        let most = through.iter().sum::<u64>() + 20 * (8 * u64::from(limit)).max(1_000);
        assert!(world.came <= most, "limit {limit}: {} of 4,000,000 came", world.came);
        let taken: u64 =
            world.limiter.take_refused(119_999_999).iter().map(|(_, n)| u64::from(*n)).sum();
        let stats = world.limiter.stats();
        let refused = 20 * rate as u64 - through.iter().sum::<u64>();
        assert_eq!((stats.reads_counted, stats.reads_refused), (20 * rate as u64, refused));
        assert!(taken > refused / 2 && taken < refused, "{taken} of {refused}");
    }
}

/// Some callers know nothing of it: reads of many partitions, batches.
#[test]
fn the_shard_counts_with_its_callers() {
    let mut world = World::new(100);
    let mut through = 0;
    for n in 0..2_000_000_i64 {
        let now_us = 50_000_000 + n * 5;
        through += u64::from(if n % 2 == 0 { world.ask(now_us) } else { world.ask_shard(now_us) });
    }
    let _ = world.limiter.take_refused(60_000_000);
    let stats = world.limiter.stats();
    assert_eq!(stats.reads_counted, 2_000_000);
    assert_eq!(stats.reads_refused, 2_000_000 - through);
    // The first second is a burst: 200, and then 100 / ln 2 for each e-fold of the count.
    assert!((1_700..=2_400).contains(&through), "{through} in ten seconds");
}

#[test]
fn a_key_is_asked_of_the_shard_again_when_its_time_is_over() {
    let mut world = World::new(5);
    let is_published = |world: &World, now_us| !matches!(world.judge(now_us), Verdict::Unknown);
    world.second(10, 100_000);
    assert!(is_published(&world, 10_999_999) && !is_published(&world, 11_000_000));
    // Who is asked no more gets room: nobody had to ask the shard for that.
    let _ = world.limiter.take_refused(11_000_000);
    assert!(!is_published(&world, 10_999_999));
    // The count went on: the second after it is held at once.
    let second = world.second(11, 100_000);
    assert!(second < 50, "{second}");
    for (what, change) in [
        (
            "a policy decides",
            (|limiter| limiter.set_policy(Some(("p".into(), Box::<Planner>::default()))))
                as fn(&mut Limiter),
        ),
        ("limits may have changed", Limiter::withdraw),
    ] {
        world.limiter.set_policy(None);
        world.second(20, 100_000);
        assert!(is_published(&world, 20_999_999), "{what}");
        change(&mut world.limiter);
        assert!(!is_published(&world, 20_999_999), "{what}");
    }
    // A policy that was set is asked about each.
    world.limiter.set_policy(Some(("p".into(), Box::<Planner>::default())));
    world.second(21, 100_000);
    assert!(!is_published(&world, 21_999_999));
}

#[test]
fn many_operations_at_once_count_as_one_by_one() {
    for (times, busy) in [(0, 0), (1, 5), (2, 9_999), (25_000, 3), (25_000, 10_000)] {
        let (mut one, mut many) = (Counters::new(1), Counters::new(1));
        for counters in [&mut one, &mut many] {
            (0..busy).for_each(|_| _ = counters.account(8, 0));
            (0..50).for_each(|_| _ = counters.account(7, 0));
        }
        (0..times).for_each(|_| _ = one.account(7, 0));
        many.add(7, 0, times);
        for _ in 0..3 {
            assert_eq!(one.account(7, 0), many.account(7, 0), "{times} beside {busy}");
            one.advance(1);
            many.advance(1);
        }
    }
}

/// Callers count while the shard publishes and withdraws: each operation is counted or asked.
#[test]
fn callers_on_other_threads_are_all_judged_by_one_count() {
    let mut world = World::new(10);
    world.second(10, 5_000);
    let before = world.rates.counted(KEY);
    let rates = &world.rates;
    let refused: u64 = std::thread::scope(|scope| {
        let caller = || {
            let refused = |_: &u32| matches!(rates.judge(KEY, || 10_999_999), Verdict::Refused(_));
            (0..50_000).filter(refused).count() as u64
        };
        let callers = [scope.spawn(caller), scope.spawn(caller)];
        callers.map(|caller| caller.join().unwrap()).iter().sum()
    });
    let counted = world.rates.counted(KEY);
    assert_eq!(counted.asked - before.asked, 100_000);
    assert_eq!(u64::from(counted.refused - before.refused), refused);
    assert!(refused > 99_500, "{refused}");
}

/// From a thousand operations in a second on, and from eight times the limit on.
#[test]
fn a_key_is_worth_a_slot_from_just_eight_times_its_limit_on() {
    for (count, limit, is_worth_it) in [
        (0, 0, false),
        (999, 0, false),
        (999, 1, false),
        (1000, 0, true),
        (1000, 1, true),
        (1000, 125, true),
        (1000, 126, false),
        (1007, 126, false),
        (1008, 126, true),
        (u32::MAX, u32::MAX / 8, true),
        // Eight times that is more than a count can say.
        (u32::MAX, u32::MAX / 8 + 1, false),
        (u32::MAX, u32::MAX, false),
    ] {
        assert_eq!(PublishedRates::is_worth_it(count, limit), is_worth_it, "{count} of {limit}");
    }
}
