//! Who gets how much of a disk, and how much all get together.

use futures::future::{join, join_all};

use super::*;
use crate::clock::Random;
use crate::config::IO_QUERIES_REST;

const SECOND_NS: u64 = 1_000_000_000;

fn measured(time: &Time, shard_count: u32) -> Arc<Scheduler> {
    Scheduler::new(DiskModel::measured(&DISK), shard_count, time.now_ns())
}

/// Disk-seconds that two classes had in a second in which both always had requests.
fn compete(shares: [u32; 2], kinds: [(Kind, usize); 2], depths: [usize; 2]) -> [f64; 2] {
    let classes = [Class::Query, Class::Compaction];
    simulate(|time| async move {
        let scheduler = measured(&time, 1);
        for (class, shares) in classes.into_iter().zip(shares) {
            scheduler.set(class, ClassSettings { shares, bandwidth: None });
        }
        let (queue, served) = (time.queue(&scheduler), Served::new(&time));
        let loads = (0..2).flat_map(|at| {
            let load = (classes[at], kinds[at].0, kinds[at].1);
            (0..depths[at]).map(move |_| load)
        });
        let loads: Vec<_> = loads.map(|load| served.load(&queue, load, SECOND_NS)).collect();
        join_all(loads).await;
        classes.map(|class| served.disk_seconds(class))
    })
}

#[test]
fn four_to_one_is_four_to_one() {
    let (page, long) = ((Kind::Read, 4096), (Kind::Write, 64 << 10));
    for (kinds, depths) in
        [([page, page], [16, 16]), ([page, long], [32, 8]), ([long, page], [8, 90])]
    {
        let [more, less] = compete([400, 100], kinds, depths);
        let ratio = more / less;
        assert!((3.8..=4.2).contains(&ratio), "{more} to {less}: {ratio}");
        assert!((0.98..=1.02).contains(&(more + less)), "{more} and {less} of the disk");
    }
}

#[test]
fn an_idle_class_gives_up_all() {
    let page = (Kind::Read, 4096);
    let [none, all] = compete([1000, 1], [page, page], [0, 16]);
    assert!(none == 0.0 && all > 0.98, "{all}");
}

#[test]
fn shares_act_from_the_next_request_on() {
    let page = |class| (class, Kind::Read, 4096);
    simulate(|time| async move {
        let scheduler = measured(&time, 1);
        let (queue, served) = (time.queue(&scheduler), Served::new(&time));
        let classes = [Class::Flush, Class::Maintenance];
        let set = |class, shares| scheduler.set(class, ClassSettings { shares, bandwidth: None });
        set(classes[0], 100);
        let loads = classes.into_iter().flat_map(|class| (0..16).map(move |_| page(class)));
        let loads: Vec<_> = loads.map(|load| served.load(&queue, load, 2 * SECOND_NS)).collect();
        let had = || classes.map(|class| served.disk_seconds(class));
        let change = async {
            time.sleep_until(SECOND_NS).await;
            set(classes[0], 900);
            had()
        };
        let (first, _) = join(change, join_all(loads)).await;
        let second = [had()[0] - first[0], had()[1] - first[1]];
        let (before, after) = (first[0] / first[1], second[0] / second[1]);
        assert!(
            (0.95..=1.05).contains(&before) && (8.5..=9.5).contains(&after),
            "{before}, {after}"
        );
    });
}

/// A mix that is drawn: class, kind and length of each of several loads.
fn draw(random: &mut Random) -> Vec<(Class, Kind, usize)> {
    let count = 8 + random.below(56);
    let load = |_| {
        let class = Class::ALL[random.below(Class::COUNT as u64) as usize];
        let kind = if random.one_in(2) { Kind::Read } else { Kind::Write };
        (class, kind, 4096 << random.below(6))
    };
    (0..count).map(load).collect()
}

/// Longest time in the disk, µs, and disk-seconds of a second under a drawn mix on some shards.
fn mixed(seed: u64, model: DiskModel, shard_count: u32) -> (u64, f64) {
    simulate(|time| async move {
        let scheduler = Scheduler::new(model, shard_count, time.now_ns());
        let queues: Vec<_> = (0..shard_count).map(|_| time.queue(&scheduler)).collect();
        let served = Served::new(&time);
        let loads = draw(&mut Random::new(seed)).into_iter().enumerate();
        let loads: Vec<_> = loads
            .map(|(at, load)| served.load(&queues[at % queues.len()], load, SECOND_NS / 4))
            .collect();
        join_all(loads).await;
        let all: f64 = Class::ALL.map(|class| served.disk_seconds(class)).iter().sum();
        // What waited when time was over is served as well.
        (served.longest_ns.get() / 1000, all * 1e9 / time.now_ns() as f64)
    })
}

/// The disk's own queue never holds more than an idle one is given at once, and what the shards
/// have reserved on top of it; yet the disk is never idle.
#[test]
fn any_mix_stays_below_the_diagonal() {
    let burst_us = DiskModel::measured(&DISK).burst().unwrap() / 1_000_000;
    for seed in 0..40 {
        let shard_count = 1 + (seed % 4) as u32;
        let (longest_us, all) = mixed(seed, DiskModel::measured(&DISK), shard_count);
        assert!(longest_us <= 2 * burst_us, "seed {seed}: {longest_us} µs in the disk");
        assert!((0.97..=1.03).contains(&all), "seed {seed}: {all} of the disk");
    }
}

/// The same loads without limits: this is what the test above would see.
#[test]
fn without_figures_the_queue_is_in_the_disk() {
    let burst_us = DiskModel::measured(&DISK).burst().unwrap() / 1_000_000;
    let longest = (0..40).map(|seed| mixed(seed, DiskModel::unmeasured(), 1).0);
    let longest_us = longest.max().unwrap();
    assert!(longest_us > 3 * burst_us, "{longest_us} µs");
}

/// One request at a time finds its tokens there, however many shards might want some.
#[test]
fn a_lone_request_never_waits() {
    for model in [DiskModel::measured(&DISK), DiskModel::unmeasured()] {
        simulate(|time| async move {
            let scheduler = Scheduler::new(model, 8, time.now_ns());
            let (queue, served) = (time.queue(&scheduler), Served::new(&time));
            served.load(&queue, (Class::Query, Kind::Read, 4096), SECOND_NS).await;
            let stats = queue.stats()[Class::Query.index()];
            assert_eq!((stats.delay_ns, stats.starved_ns), (0, 0));
            assert!(stats.reads > 5000, "{} reads", stats.reads);
        });
    }
}

/// A shard with one request at a time has its part beside one with many.
#[test]
fn shards_share_by_what_they_ask_for() {
    simulate(|time| async move {
        let scheduler = measured(&time, 2);
        let (one, many) = (time.queue(&scheduler), time.queue(&scheduler));
        let served = Served::new(&time);
        let page = |class| (class, Kind::Read, 4096);
        let mut loads = vec![served.load(&one, page(Class::Query), SECOND_NS)];
        loads.extend((0..32).map(|_| served.load(&many, page(Class::Flush), SECOND_NS)));
        join_all(loads).await;
        let (one, many) = (served.disk_seconds(Class::Query), served.disk_seconds(Class::Flush));
        assert!(one > 0.08 && one + many > 0.97, "{one} and {many} of the disk");
    });
}

#[test]
fn a_limit_of_bandwidth_holds_one_class_only() {
    for model in [DiskModel::measured(&DISK), DiskModel::unmeasured()] {
        simulate(|time| async move {
            let scheduler = Scheduler::new(model, 1, time.now_ns());
            let limit = 20_000_000;
            let limited = ClassSettings { shares: 1000, bandwidth: Some(limit) };
            scheduler.set(Class::Compaction, limited);
            let (queue, served) = (time.queue(&scheduler), Served::new(&time));
            let long = (Class::Compaction, Kind::Write, 64 << 10);
            let mut loads: Vec<_> = (0..8).map(|_| served.load(&queue, long, SECOND_NS)).collect();
            loads.push(served.load(&queue, (Class::Query, Kind::Read, 4096), SECOND_NS));
            join_all(loads).await;
            let stats = queue.stats();
            let written = stats[Class::Compaction.index()].written_bytes as f64 / limit as f64;
            assert!((0.95..=1.15).contains(&written), "{written} of the limit");
            assert!(stats[Class::Query.index()].reads > 4000, "reads wait for another's limit");
            scheduler.set(Class::Compaction, ClassSettings { bandwidth: None, ..limited });
            let before = queue.stats()[Class::Compaction.index()].written_bytes;
            served.load(&queue, long, 2 * SECOND_NS).await;
            let more = queue.stats()[Class::Compaction.index()].written_bytes - before;
            assert!(more > 5 * limit, "{more} bytes without a limit");
        });
    }
}

#[test]
fn what_is_given_up_leaves_the_queue() {
    simulate(|time| async move {
        let scheduler = measured(&time, 1);
        let queue = time.queue(&scheduler);
        let admit = |class| queue.admit(class, Kind::Read, 64 << 10);
        let first = admit(Class::Query).await;
        let second = admit(Class::Query).await;
        // 299 µs each, of 750.
        let mut given_up = Box::pin(admit(Class::Flush));
        assert!(futures::poll!(&mut given_up).is_pending());
        let mut kept = Box::pin(admit(Class::Maintenance));
        assert!(futures::poll!(&mut kept).is_pending());
        let queued = || {
            let of = |class: Class| queue.stats()[class.index()].queued;
            [of(Class::Flush), of(Class::Maintenance)]
        };
        assert_eq!(queued(), [1, 1]);
        drop(given_up);
        assert_eq!((queued(), queue.stats()[Class::Flush.index()].cancelled), ([0, 1], 1));
        let kept = kept.await;
        assert!(time.now_ns() < 250_000, "it waited for one that was given up");
        drop((first, second, kept));
        let starved_ns = queue.stats()[Class::Maintenance.index()].starved_ns;
        assert!((140_000..250_000).contains(&starved_ns), "{starved_ns}");
    });
}

/// A request that was started and whose task is gone before it knows of it.
#[test]
fn what_is_given_up_too_late_gives_its_tokens_back() {
    simulate(|time| async move {
        let scheduler = measured(&time, 1);
        let queue = time.queue(&scheduler);
        let admit = || queue.admit(Class::Query, Kind::Read, 64 << 10);
        let held = (admit().await, admit().await);
        let mut late = Box::pin(admit());
        assert!(futures::poll!(&mut late).is_pending());
        // 314 µs each, of 750: it is started after 192, and then nothing is left for another.
        time.sleep_until(200_000).await;
        let stats = || queue.stats()[Class::Query.index()];
        assert_eq!((stats().in_disk, stats().queued), (3, 0));
        drop(late);
        assert_eq!((stats().in_disk, stats().cancelled), (2, 1));
        drop(held);
        assert_eq!((stats().in_disk, stats().reads), (0, 2));
        let both = (admit().now_or_never(), admit().now_or_never());
        assert!(both.0.is_some() && both.1.is_none(), "its tokens serve one other, at once");
    });
}

#[test]
fn what_is_given_up_too_late_is_not_counted_against_the_limit_of_its_class() {
    simulate(|time| async move {
        let scheduler = Scheduler::unmeasured(1);
        let limited = ClassSettings { shares: 1000, bandwidth: Some(1 << 20) };
        scheduler.set(Class::Compaction, limited);
        let queue = time.queue(&scheduler);
        let write = || queue.admit(Class::Compaction, Kind::Write, 64 << 10);
        drop(write().await);
        let mut late = Box::pin(write());
        assert!(futures::poll!(&mut late).is_pending(), "62 ms of the limit are used");
        time.sleep_until(70_000_000).await;
        assert_eq!(queue.stats()[Class::Compaction.index()].in_disk, 1, "it was started");
        drop(late);
        assert!(write().now_or_never().is_some(), "it goes in the place of the other one");
        assert!(write().now_or_never().is_none(), "and another 62 ms are used");
    });
}

/// The limit of a class holds it for a long time; another one only waits for tokens.
#[test]
fn a_request_that_may_start_soon_does_not_wait_for_one_that_may_start_late() {
    simulate(|time| async move {
        let scheduler = measured(&time, 1);
        let limited = ClassSettings { shares: 1000, bandwidth: Some(1 << 20) };
        scheduler.set(Class::Compaction, limited);
        let queue = time.queue(&scheduler);
        let write = || queue.admit(Class::Compaction, Kind::Write, 64 << 10);
        let read = || queue.admit(Class::Query, Kind::Read, 64 << 10);
        let first = write().await;
        let mut held = Box::pin(write());
        assert!(futures::poll!(&mut held).is_pending(), "62 ms of its limit are used");
        let reads = (read().await, read().await);
        let now_us = time.now_ns() / 1000;
        assert!((100..1000).contains(&now_us), "a read was started after {now_us} µs");
        drop((first, reads));
        let last = held.await;
        let now_ms = time.now_ns() / 1_000_000;
        assert!((50..80).contains(&now_ms), "the limit was kept for {now_ms} ms");
        drop(last);
    });
}

#[test]
fn an_unmeasured_disk_takes_so_many_and_shares_decide_about_more() {
    simulate(|time| async move {
        let queue = time.queue(&Scheduler::unmeasured(1));
        let mut running = Vec::new();
        for _ in 0..crate::config::IO_IN_DISK_MAX {
            running.push(queue.admit(Class::Compaction, Kind::Write, 1 << 20).now_or_never());
        }
        assert!(running.iter().all(Option::is_some));
        let mut waiting: Vec<_> = [Class::Compaction, Class::Query]
            .into_iter()
            .map(|class| Box::pin(queue.admit(class, Kind::Read, 4096)))
            .collect();
        for request in &mut waiting {
            assert!(futures::poll!(request).is_pending());
        }
        running.pop();
        let [compaction, query] = &mut waiting[..] else { panic!("two wait") };
        assert!(futures::poll!(compaction).is_pending(), "it had all the time");
        assert!(futures::poll!(query).is_ready());
    });
}

#[test]
fn queries_rest_once_the_disk_was_without_one_for_a_while() {
    simulate(|time| async move {
        let scheduler = Scheduler::unmeasured(2);
        // The thread asks for the shard whose queue is its own: the last one that was made.
        let [other, own] = [0, 1].map(|_| time.queue(&scheduler));
        assert!(queries_rest(), "there was none");
        let background = own.admit(Class::Compaction, Kind::Read, 4096).await;
        assert!(queries_rest(), "others do not count");
        for queue in [&own, &other, &own] {
            let query = queue.admit(Class::Query, Kind::Read, 4096).await;
            assert!(!queries_rest(), "one comes");
            time.sleep_until(time.now_ns() + 1_000_000).await;
            drop(query);
            let rest_ns = IO_QUERIES_REST.as_nanos() as u64;
            let before_ns = time.now_ns();
            for (after_ns, wanted) in [(0, false), (rest_ns - 1000, false), (rest_ns, true)] {
                time.sleep_until(before_ns + after_ns).await;
                assert_eq!(queries_rest(), wanted, "{after_ns} ns after the last query");
            }
        }
        drop(background);
    });
}

#[test]
fn a_limit_of_bandwidth_counts_what_comes_after_it_was_set() {
    simulate(|time| async move {
        let scheduler = Scheduler::unmeasured(1);
        let queue = time.queue(&scheduler);
        let write = || queue.admit(Class::Compaction, Kind::Write, 1 << 20);
        for _ in 0..100 {
            drop(write().await);
        }
        let limited = ClassSettings { shares: 1000, bandwidth: Some(1 << 20) };
        scheduler.set(Class::Compaction, limited);
        let first = write().now_or_never();
        assert!(first.is_some(), "what was written without a limit is held against it");
        let mut held = Box::pin(write());
        assert!(futures::poll!(&mut held).is_pending(), "a second's bytes are used");
        let last = held.await;
        let now_ms = time.now_ns() / 1_000_000;
        assert!((900..=1100).contains(&now_ms), "the limit was kept for {now_ms} ms");
        drop((first, last));
    });
}

/// What people see of a class: sums since the start, and means of the last second.
#[test]
fn what_requests_took_is_counted_and_told_of_the_last_second() {
    simulate(|time| async move {
        let scheduler = Scheduler::unmeasured(1);
        let queue = time.queue(&scheduler);
        let pass = |us| time.clock.advance(Duration::from_micros(us));
        let stats = || queue.stats()[Class::Flush.index()];
        let mut busy = Vec::new();
        for _ in 0..crate::config::IO_IN_DISK_MAX {
            busy.push(queue.admit(Class::Query, Kind::Read, 4096).await);
        }
        let mut waits = Box::pin(queue.admit(Class::Flush, Kind::Write, 8192));
        assert!(futures::poll!(&mut waits).is_pending());
        pass(40);
        let found = stats();
        assert_eq!((found.queued, found.in_disk, found.starved_ns), (1, 0, 40_000));
        busy.pop();
        let running = waits.await;
        pass(60);
        assert_eq!(running.times_ns(), (40_000, 60_000));
        let found = stats();
        assert_eq!((found.queued, found.in_disk, found.writes), (0, 1, 0), "it has not ended");
        drop(running);
        // A sync is a write without bytes, and nobody is before it.
        let running = queue.admit(Class::Flush, Kind::Write, 0).await;
        pass(20);
        drop(running);

        let found = stats();
        assert_eq!((found.queued, found.in_disk, found.cancelled, found.split), (0, 0, 0, 0));
        assert_eq!((found.writes, found.written_bytes), (2, 8192));
        assert_eq!((found.reads, found.read_bytes), (0, 0), "those of another class");
        assert_eq!((found.delay_ns, found.execution_ns), (40_000, 80_000));
        assert_eq!((found.starved_ns, found.recent_requests), (40_000, 2.0));
        assert_eq!((found.recent_delay_us, found.recent_execution_us), (20.0, 40.0));
        let cost = [8192, 0].map(|bytes| scheduler.model().cost(Kind::Write, bytes));
        let disk_seconds = cost.iter().sum::<u64>() as f64 / 1e12;
        let near = |found: f64| (found / disk_seconds - 1.0).abs() < 1e-6;
        assert!(near(found.disk_seconds) && near(found.recent_disk_share), "{found:?}");

        pass(2_000_000);
        let later = stats();
        assert_eq!((later.recent_requests, later.recent_disk_share), (0.0, 0.0));
        assert_eq!((later.recent_delay_us, later.recent_execution_us), (0.0, 0.0));
        assert_eq!((later.writes, later.delay_ns, later.execution_ns), (2, 40_000, 80_000));
        assert!(near(later.disk_seconds), "{later:?}");
    });
}
