//! Service levels: turns and memory by shares, who sheds, who goes on alone, who is ended.

use std::future::pending;

use super::*;
use crate::clock::Deadline;
use crate::config::INTERACTIVE_WAIT;

const BATCH: LevelId = LevelId(7);
const INTERACTIVE: LevelId = LevelId(8);
const BASE: u64 = 16 << 10;

/// A class of so many turns and bytes, with two levels beside the default one.
fn world(running_max: u32, memory_bytes_max: u64, shares: [u32; 2]) -> World {
    let world = World::new(running_max, memory_bytes_max, 100, 0);
    set_levels(&world, shares);
    world
}

fn set_levels(world: &World, shares: [u32; 2]) {
    let options = |workload, shares| LevelOptions {
        workload: Some(workload),
        shares: Some(shares),
        timeout_ms: None,
    };
    world.admission.set_levels(&[
        (BATCH, "bulk".into(), options(Workload::Batch, shares[0])),
        (INTERACTIVE, "fast".into(), options(Workload::Interactive, shares[1])),
    ]);
}

fn turn(world: &World, level: LevelId, deadline: Option<Deadline>) -> Waiting {
    let admission = world.admission.clone();
    Box::pin(async move { admission.turn(KEYS, level, deadline).await })
}

/// A read that has its turn and waits for the disk: of those that compute few begin.
fn begun(world: &World, level: LevelId) -> Permit {
    let mut permit = turn(world, level, None).now_or_never().expect("there is a turn").unwrap();
    let mut work = Box::pin(world.admission.measured(KEYS, permit.account(), pending::<()>()));
    assert!((&mut work).now_or_never().is_none());
    permit
}

fn waits(world: &World, level: LevelId) -> Waiting {
    let mut waiting = turn(world, level, None);
    assert!((&mut waiting).now_or_never().is_none(), "there was a turn");
    waiting
}

#[test]
fn a_level_that_takes_all_it_can_leaves_others_their_turns() {
    // Half of 24 turns by shares: 5 of whoever names none, 5 and 1; 13 for all.
    let world = world(24, 1 << 30, [1000, 100]);
    let mut bulk: Vec<Permit> = (0..18).map(|_| begun(&world, BATCH)).collect();
    let mut next = waits(&world, BATCH);
    let others: Vec<Permit> = (0..5).map(|_| begun(&world, LevelId::DEFAULT)).collect();
    let fast = begun(&world, INTERACTIVE);
    let mut waiting = waits(&world, LevelId::DEFAULT);
    assert_eq!(world.status().running, 24);
    // A turn that was borrowed goes to whoever has fewest for its shares.
    bulk.pop();
    assert!((&mut waiting).now_or_never().is_some(), "5 turns for 1000 shares beside 17");
    drop(bulk);
    assert!((&mut next).now_or_never().is_some());
    drop((others, fast, waiting, next));
    assert_eq!((world.status().running, world.status().memory_bytes), (0, 0));
}

#[test]
fn interactive_reads_are_refused_after_a_while_and_others_wait() {
    let world = world(3, 1 << 30, [1000, 1000]);
    let running = [LevelId::DEFAULT, BATCH, INTERACTIVE].map(|level| begun(&world, level));
    let mut bulk = waits(&world, BATCH);
    let mut fast = waits(&world, INTERACTIVE);
    world.clock.advance(INTERACTIVE_WAIT);
    world.admission.refuse_late(KEYS);
    assert!((&mut fast).now_or_never().is_none(), "so long it may wait");
    world.clock.advance(Duration::from_micros(1));
    world.admission.refuse_late(KEYS);
    let error = (&mut fast).now_or_never().expect("it waited for too long").err().unwrap();
    let text = error.to_string();
    assert!(error.is_retryable() && text.contains("'fast'") && text.contains("shares"), "{text}");
    // Until one begins, whoever would wait is told at once.
    let refused = turn(&world, INTERACTIVE, None).now_or_never().expect("at once").err().unwrap();
    assert!(refused.to_string().contains("50ms"), "{refused}");
    world.clock.advance(Duration::from_secs(60));
    world.admission.refuse_late(KEYS);
    assert!((&mut bulk).now_or_never().is_none(), "it waits for as long as it takes");
    let refused = |level| world.admission.level_status(level).refused;
    assert_eq!((refused(BATCH), refused(INTERACTIVE)), (0, 2));
    drop(running);
    assert!((&mut bulk).now_or_never().is_some());
    drop(begun(&world, INTERACTIVE));
    let running = begun(&world, INTERACTIVE);
    // Since one began, whoever comes waits again.
    let mut next = waits(&world, INTERACTIVE);
    drop(running);
    assert!(matches!((&mut next).now_or_never(), Some(Ok(_))), "it has the turn now");
    drop((next, bulk));
    assert_eq!(world.admission.level_status(INTERACTIVE).admitted, 4);
}

#[test]
fn a_read_that_cannot_be_done_in_time_does_not_begin() {
    let world = world(1, 1 << 30, [1000, 1000]);
    let within = |ms| Some(Deadline::after(Duration::from_millis(ms), &*world.clock));
    let running = begun(&world, BATCH);
    let mut ample = turn(&world, BATCH, within(1000));
    let mut late = turn(&world, BATCH, within(100));
    let mut next = turn(&world, BATCH, within(1000));
    for waiting in [&mut late, &mut ample, &mut next] {
        assert!(waiting.now_or_never().is_none());
    }
    world.clock.advance(Duration::from_millis(70));
    drop(running);
    let error = (&mut late).now_or_never().expect("it is dropped").err().unwrap().to_string();
    assert!(error.contains("70 ms") && error.contains("time that is left"), "{error}");
    let first = (&mut ample).now_or_never().expect("it has 930 ms").unwrap();
    drop(first);
    assert!((&mut next).now_or_never().is_some());
}

type Growing = LocalBoxFuture<'static, (Permit, Result<BatchCharge>)>;

/// A permit that takes memory for a batch.
#[test]
fn a_read_that_would_wait_for_half_of_its_time_is_refused_when_it_comes() {
    let world = World::new(1, 1 << 30, 100, 0);
    let running = world.try_admit().unwrap();
    let comes = |within_ms| {
        let deadline = Deadline::after(Duration::from_millis(within_ms), &*world.clock);
        let terms = Terms { level: LevelId::DEFAULT, deadline: Some(deadline) };
        world.admission.check_queue(KEYS, &terms)
    };
    world.clock.advance(Duration::from_millis(50));
    assert!(comes(1).is_ok(), "nobody waits");
    let first = world.wait();
    world.clock.advance(Duration::from_millis(6));
    assert!(comes(13).is_ok());
    let error = comes(12).unwrap_err();
    assert!(error.is_retryable());
    assert_eq!(
        error.to_string(),
        "overloaded: it would wait for 6 ms behind other reads of partitions of service level \
         'default', half of its time or more: allow more time, or try again later"
    );
    assert_eq!(world.status().refused, 1);
    let terms = Terms { level: LevelId::DEFAULT, deadline: None };
    assert!(world.admission.check_queue(KEYS, &terms).is_ok(), "who has time waits");
    drop((first, running));
    assert!(comes(1).is_ok());
}

fn grow(mut permit: Permit, bytes: usize) -> Growing {
    Box::pin(async move {
        let charged = permit.charge_batch(bytes).await;
        (permit, charged)
    })
}

fn grown(permit: Permit, bytes: usize) -> (Permit, BatchCharge) {
    let (permit, charge) = grow(permit, bytes).now_or_never().expect("there is memory");
    (permit, charge.unwrap())
}

#[test]
fn beyond_twice_its_part_one_read_goes_on_and_beyond_four_times_none() {
    // The part of the one level is 512 KiB, as much is there to borrow.
    const KIB: usize = 1 << 10;
    let world = World::new(10, 1 << 20, 100, 0);
    let [first, second, third] = [(); 3].map(|()| world.try_admit().unwrap());
    // A batch counts twice while it is built.
    let (first, one) = grown(first, 240 * KIB);
    let (mut second, two) = grown(second, 240 * KIB);
    assert_eq!(world.status().memory_bytes, 3 * BASE + ((4 * 240) << 10));
    // More than 1,536 KiB: twice the part beyond what may be borrowed.
    let third_alone = grown(third, 400 * KIB);
    let mut starved = grow(first, 200 * KIB);
    assert!((&mut starved).now_or_never().is_none(), "the third goes on alone");
    assert_eq!(world.status().aside, 1, "meanwhile others may have its turn");
    let (third, three) = third_alone;
    let (third, ended) = grow(third, 1100 * KIB).now_or_never().expect("it is told at once");
    let text = ended.unwrap_err().to_string();
    assert!(text.contains("was ended") && text.contains("'default'"), "{text}");
    assert_eq!(world.admission.level_status(LevelId::DEFAULT).killed, 1);
    drop((third, three));
    let (first, charge) = (&mut starved).now_or_never().expect("nobody goes on alone any more");
    second.answer(0);
    drop((starved, first, charge, one, two, second));
    assert_eq!((world.status().memory_bytes, world.status().aside), (0, 0));
}

#[test]
fn while_the_read_that_goes_on_waits_for_its_client_another_one_does() {
    const KIB: usize = 1 << 10;
    let world = World::new(10, 1 << 20, 100, 0);
    let [first, second, third] = [(); 3].map(|()| world.try_admit().unwrap());
    let (first, one) = grown(first, 240 * KIB);
    let (second, two) = grown(second, 240 * KIB);
    let (mut third, three) = grown(third, 400 * KIB);
    let mut starved = grow(first, 200 * KIB);
    assert!((&mut starved).now_or_never().is_none(), "the third goes on alone");
    third.step_aside();
    let (first, charge) = (&mut starved).now_or_never().expect("the third waits for its client");
    assert!(charge.is_ok(), "{charge:?}");
    assert_eq!(world.status().aside, 1, "the third is, and the first is back");
    drop((starved, first, charge, one, two, second, third, three));
    assert_eq!((world.status().memory_bytes, world.status().aside), (0, 0));
}

#[test]
fn a_read_alone_gets_whatever_it_asks_for() {
    let world = World::new(10, 1 << 20, 100, 0);
    let (permit, charge) = grown(world.try_admit().unwrap(), 64 << 20);
    assert!(world.status().memory_bytes > 128 << 20);
    drop((permit, charge));
    assert_eq!(world.status().memory_bytes, 0);
}

#[test]
fn reads_of_a_level_that_was_dropped_go_on_and_leave_nothing() {
    let world = world(24, 1 << 30, [1000, 1000]);
    let running = begun(&world, BATCH);
    let mut aside = begun(&world, BATCH);
    aside.step_aside();
    world.admission.set_levels(&[]);
    assert_eq!(world.admission.level_status(BATCH).running, 1);
    let mut back: LocalBoxFuture<'_, ()> = Box::pin(aside.step_in());
    assert!((&mut back).now_or_never().is_some());
    drop(back);
    drop((running, aside));
    world.admission.set_levels(&[]);
    let late = begun(&world, BATCH);
    assert_eq!(world.admission.level_status(BATCH), LevelStatus::default());
    assert_eq!(world.admission.level_status(LevelId::DEFAULT).running, 1, "it counts there");
    drop(late);
}

/// What a random load has in flight.
#[derive(Default)]
struct Load {
    inside: Vec<(LevelId, Permit, Option<BatchCharge>)>,
    entering: Vec<(LevelId, Waiting)>,
    growing: Vec<(LevelId, Growing)>,
}

impl Load {
    /// How many are inside, enter, and grow.
    fn counts(&self) -> [usize; 3] {
        [self.inside.len(), self.entering.len(), self.growing.len()]
    }

    /// Asks all that wait whether they go on, until none does: one that goes on lets others in.
    fn settle(&mut self, world: &World) {
        let mut before = None;
        loop {
            self.poll();
            let now = Some((self.counts(), world.status()));
            if std::mem::replace(&mut before, now) == now {
                return;
            }
        }
    }

    fn poll(&mut self) {
        for (level, mut waiting) in std::mem::take(&mut self.entering) {
            match (&mut waiting).now_or_never() {
                Some(Ok(permit)) => self.inside.push((level, permit, None)),
                Some(Err(_)) => {}
                None => self.entering.push((level, waiting)),
            }
        }
        for (level, mut waiting) in std::mem::take(&mut self.growing) {
            match (&mut waiting).now_or_never() {
                Some((permit, Ok(charge))) => self.inside.push((level, permit, Some(charge))),
                Some((_, Err(_))) => {}
                None => self.growing.push((level, waiting)),
            }
        }
    }

    fn step(&mut self, world: &World, random: &mut Random) {
        let levels = [LevelId::DEFAULT, BATCH, INTERACTIVE];
        let level = levels[random.below(3) as usize];
        let any = |length: usize, random: &mut Random| random.below(length as u64) as usize;
        match random.below(8) {
            0..=2 => {
                let within = Duration::from_millis(1 + random.below(200));
                let deadline = Deadline::after(within, &*world.clock);
                let deadline = (random.below(2) == 0).then_some(deadline);
                self.entering.push((level, turn(world, level, deadline)));
            }
            3 if !self.inside.is_empty() => {
                drop(self.inside.swap_remove(any(self.inside.len(), random)));
            }
            4 if !self.entering.is_empty() => {
                drop(self.entering.swap_remove(any(self.entering.len(), random)));
            }
            5 | 6 if !self.inside.is_empty() => {
                let (level, mut permit, charge) =
                    self.inside.swap_remove(any(self.inside.len(), random));
                drop(charge);
                permit.answer(random.below(200_000) as usize);
                let bytes = 1 + random.below(300_000) as usize;
                self.growing.push((level, grow(permit, bytes)));
            }
            7 if !self.growing.is_empty() && random.below(4) == 0 => {
                drop(self.growing.swap_remove(any(self.growing.len(), random)));
            }
            _ => {
                world.clock.advance(Duration::from_millis(random.below(40)));
                world.admission.tick(1, 2);
            }
        }
    }
}

#[test]
fn random_loads_lose_no_wake_up_and_starve_nobody() {
    let mut all = LevelStatus::default();
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let running_max = 1 + random.below(9) as u32;
        let shares = [1 + random.below(1000) as u32, 1 + random.below(1000) as u32];
        let world = world(running_max, 200_000 + random.below(2_000_000), shares);
        let mut load = Load::default();
        for _ in 0..500 {
            load.step(&world, &mut random);
            if random.below(50) == 0 {
                set_levels(&world, [1 + random.below(1000) as u32, 1]);
            }
            load.settle(&world);
            let status = world.status();
            let outside = load.entering.len() as u32;
            let all = (load.inside.len() + load.growing.len()) as u32;
            assert_eq!((status.running + status.aside, status.queued), (all, outside), "{seed}");
            // Each has a turn, and shares that change take none away.
            assert!(status.running <= 2 * running_max.max(3), "{seed}: {status:?}");
            for (level, _) in &load.entering {
                let of_level = world.admission.level_status(*level);
                assert!(of_level.running > 0, "{seed}: {level:?} waits for nothing: {of_level:?}");
            }
        }
        // Whoever waits without a deadline gets its turn as others end.
        for _ in 0..2000 {
            if load.counts() == [0; 3] {
                break;
            }
            if !load.inside.is_empty() {
                drop(load.inside.swap_remove(random.below(load.inside.len() as u64) as usize));
            }
            load.settle(&world);
        }
        assert_eq!(load.counts(), [0; 3], "{seed}: somebody waits for ever");
        let status = world.status();
        assert_eq!((status.running, status.aside, status.queued), (0, 0, 0), "{seed}");
        assert_eq!(status.memory_bytes, 0, "{seed}");
        for level in [LevelId::DEFAULT, BATCH, INTERACTIVE] {
            all = all.and(world.admission.level_status(level));
        }
    }
    assert!(all.admitted > 0 && all.refused > 0 && all.killed > 0, "no limit is met: {all:?}");
}

/// Who waits need not wait until a read ends.
#[test]
fn new_shares_of_a_level_act_at_once() {
    // Half of 24 turns by shares: 5 of whoever names none, 1 and 5; 13 for all.
    let world = world(24, 1 << 30, [100, 1000]);
    let running: Vec<Permit> = (0..14).map(|_| begun(&world, BATCH)).collect();
    let mut next = waits(&world, BATCH);
    assert_eq!(world.admission.level_status(BATCH).queued, 1);
    set_levels(&world, [1000, 1000]);
    assert_eq!(world.admission.shares(BATCH), 1000);
    // 4 each, and 12 for all.
    let permit = (&mut next).now_or_never().expect("two turns more are there").unwrap();
    let status = world.admission.level_status(BATCH);
    assert_eq!((status.running, status.queued, status.admitted), (15, 0, 15));
    drop((running, permit));
    assert_eq!((world.status().running, world.status().memory_bytes), (0, 0));
}

#[test]
fn work_that_waited_is_judged_by_its_level_and_by_the_time_that_it_has() {
    const MS: u64 = 1_000_000;
    let world = world(3, 1 << 30, [1000, 1000]);
    let most = INTERACTIVE_WAIT.as_nanos() as u64;
    let hundred_ms = Some(Deadline::after(Duration::from_millis(100), &*world.clock));
    let told = |class, level, deadline, waited_ns| {
        let checked = world.admission.check_wait(class, &Terms { level, deadline }, waited_ns);
        checked.err().map(|error| error.to_string())
    };
    let classes = [
        (WorkClass::Keys, "reads of partitions"),
        (WorkClass::Scan, "scans"),
        (WorkClass::Write, "writes"),
    ];
    world.clock.advance(Duration::from_millis(69));
    for (class, work) in classes {
        for (level, waited_ns) in [
            (LevelId::DEFAULT, 60_000 * MS),
            (LevelId(99), 60_000 * MS),
            (BATCH, 60_000 * MS),
            (INTERACTIVE, most),
            (INTERACTIVE, most + 999),
        ] {
            for deadline in [None, hundred_ms] {
                let told = told(class, level, deadline, waited_ns);
                assert_eq!(told, None, "{class:?} {level:?} after {waited_ns} ns");
            }
        }
        let told = told(class, INTERACTIVE, None, most + 1000).expect("it waited for too long");
        let wanted = format!("waited 50 ms for a turn among {work} of service level 'fast'");
        assert!(told.contains(&wanted) && told.contains("not kept waiting"), "{told}");
    }
    // Three tenths of its time are left.
    world.clock.advance(Duration::from_millis(1));
    for (class, work) in classes {
        let levels = [(LevelId::DEFAULT, "default"), (BATCH, "bulk"), (INTERACTIVE, "fast")];
        for (level, name) in levels {
            let short = told(class, level, hundred_ms, MS - 1);
            assert_eq!(short, None, "{class:?} {level:?}: that is no wait");
            let told = told(class, level, hundred_ms, MS).expect("its time would not do");
            let wanted = format!("waited 1 ms for a turn among {work} of service level '{name}'");
            assert!(told.contains(&wanted) && told.contains("time that is left"), "{told}");
        }
    }
    let refused = |level| world.admission.level_status(level).refused;
    assert_eq!([LevelId::DEFAULT, BATCH, INTERACTIVE].map(refused), [3, 3, 6]);
    // Writes are no reads of the class in which their level stands.
    let refused = |class| world.admission.status(class).refused;
    assert_eq!([WorkClass::Keys, WorkClass::Scan, WorkClass::Write].map(refused), [4, 4, 0]);
}
