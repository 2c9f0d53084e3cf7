//! What callers refuse of reads that would wait for too long.

use super::*;
use crate::clock::Deadline;
use crate::config::COMPUTING_READS_MAX;
use crate::error::Overload;

/// All turns are taken, one read waits, and callers may refuse by `FailFast`.
struct Busy {
    world: World,
    running: Vec<Permit>,
    waiting: Waiting,
}

impl Busy {
    fn new() -> Self {
        let world = World::new(100, 1 << 30, 100, 0);
        let running = (0..COMPUTING_READS_MAX).map(|_| world.try_admit().unwrap()).collect();
        let waiting = world.wait();
        Busy { world, running, waiting }
    }

    fn terms(&self, ms: u64) -> Terms {
        let deadline = Deadline::after(Duration::from_millis(ms), &*self.world.clock);
        Terms { level: LevelId::DEFAULT, deadline: Some(deadline) }
    }

    /// What a caller says of a read with so many ms, before it asks.
    fn caller(&self, ms: u64) -> Result<()> {
        self.let_in(ms).map(drop)
    }

    /// The same for a read that waits then.
    fn let_in(&self, ms: u64) -> Result<Option<QueuePlace>> {
        self.world.fail_fast.check_queue(KEYS, &self.terms(ms), &*self.world.clock)
    }

    fn shard(&self, ms: u64) -> Result<()> {
        self.world.admission.check_queue(KEYS, &self.terms(ms))
    }
}

fn is_behind(ended: Result<()>) -> bool {
    matches!(ended, Err(Error::Overloaded(Overload::Behind { .. })))
}

#[test]
fn callers_refuse_once_the_shard_has_and_until_the_queue_is_empty() {
    let mut busy = Busy::new();
    busy.world.clock.advance(Duration::from_millis(6));
    assert!(busy.caller(10).is_ok(), "the shard has not said so");
    assert!(is_behind(busy.shard(10)));
    let refused = busy.caller(10).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "overloaded: it would wait for 6 ms behind other reads of partitions of service level \
         'default', half of its time or more: allow more time, or try again later"
    );
    assert!(busy.caller(13).is_ok(), "it has more time");
    let other = Terms { level: LevelId(7), ..busy.terms(10) };
    let fail_fast = busy.world.fail_fast.clone();
    assert!(fail_fast.check_queue(KEYS, &other, &*busy.world.clock).is_ok(), "another level");
    let patient = Terms::default();
    assert!(fail_fast.check_queue(KEYS, &patient, &*busy.world.clock).is_ok(), "no deadline");
    assert!(
        fail_fast.check_queue(ReadClass::Scan, &busy.terms(10), &*busy.world.clock).is_ok(),
        "another class"
    );
    // The next one in the queue came later.
    let mut next = busy.world.wait();
    drop(busy.running.pop());
    drop((&mut busy.waiting).now_or_never().expect("a turn is free").unwrap());
    drop((&mut next).now_or_never().expect("and another").unwrap());
    assert!(busy.caller(1).is_ok(), "nobody waits");
}

#[test]
fn callers_know_who_is_first_now() {
    let mut busy = Busy::new();
    busy.world.clock.advance(Duration::from_millis(6));
    assert!(is_behind(busy.shard(10)) && is_behind(busy.caller(10)));
    let next = busy.world.wait();
    let permit = {
        drop(busy.running.pop());
        (&mut busy.waiting).now_or_never().expect("a turn is free").unwrap()
    };
    assert!(busy.caller(10).is_ok(), "the first came just now");
    busy.world.clock.advance(Duration::from_millis(6));
    assert!(is_behind(busy.caller(10)));
    // It leaves.
    drop(next);
    assert!(busy.caller(10).is_ok());
    drop(permit);
}

#[test]
fn what_callers_refuse_is_counted_as_what_the_shard_refuses() {
    let busy = Busy::new();
    busy.world.clock.advance(Duration::from_millis(6));
    let before = busy.world.status();
    assert!(is_behind(busy.shard(10)));
    assert!((0..3).all(|_| is_behind(busy.caller(10))));
    let after = busy.world.status();
    assert_eq!((after.arrived - before.arrived, after.refused - before.refused), (3, 4));
    assert_eq!(busy.world.admission.level_status(LevelId::DEFAULT).refused, 4);
    // A policy of admission sees them too.
    assert!((0..2).all(|_| is_behind(busy.caller(10))));
    busy.world.interval();
    assert_eq!(busy.world.seen.get()[KEYS as usize].refused, 6);
}

/// While the first has waited for a little, many may come.
#[test]
fn callers_count_what_they_let_in() {
    let mut busy = Busy::new();
    busy.world.clock.advance(Duration::from_millis(6));
    assert!(is_behind(busy.shard(10)));
    busy.waiting = Box::pin(std::future::pending());
    // The queue is empty, and a turn takes a millisecond.
    let mut places: Vec<QueuePlace> = (0..20).map(|_| busy.let_in(500).unwrap().unwrap()).collect();
    while places.len() > 4 {
        busy.world.clock.advance(Duration::from_millis(1));
        places.remove(0).has_turn(busy.world.clock.monotonic_ns());
    }
    places.push(busy.let_in(10).unwrap().unwrap());
    let refused = busy.caller(10).unwrap_err().to_string();
    assert!(refused.contains("it would wait for 5 ms behind"), "{refused}");
    assert!(busy.caller(20).is_ok());
    // One gives up.
    drop(places.pop());
    assert!(busy.caller(10).is_ok());
    drop(places);
    // Nobody was refused for a second: callers ask the shard again.
    busy.world.clock.advance(Duration::from_secs(2));
    busy.world.interval();
    assert!(busy.let_in(10).unwrap().is_none());
}

/// Neither the shard nor a caller refuses anybody for long, as nobody asks.
#[test]
fn callers_forget_of_no_queue_in_which_somebody_waits() {
    let mut busy = Busy::new();
    busy.world.clock.advance(Duration::from_millis(6));
    assert!(is_behind(busy.shard(10)));
    let long = Duration::from_secs(2);
    busy.world.clock.advance(long);
    busy.world.interval();
    assert!(is_behind(busy.caller(10)), "the first waits still");
    // The queue is empty, and one that a caller let in is on its way.
    let place = busy.let_in(60_000).unwrap().expect("it has enough time");
    busy.waiting = Box::pin(std::future::pending());
    busy.world.clock.advance(long);
    busy.world.interval();
    let other = busy.let_in(10).unwrap().expect("callers know of the queue");
    drop((place, other));
    busy.waiting = busy.world.wait();
    busy.world.clock.advance(Duration::from_millis(6));
    assert!(is_behind(busy.caller(10)), "another one waits");
    busy.waiting = Box::pin(std::future::pending());
    busy.world.clock.advance(long);
    busy.world.interval();
    assert!(busy.let_in(10).unwrap().is_none(), "nobody waits, and nobody was refused");
}

/// A shard that stood still for a moment is not taken for a slow one.
#[test]
fn a_pause_is_no_pace() {
    let mut busy = Busy::new();
    busy.world.clock.advance(Duration::from_millis(6));
    assert!(is_behind(busy.shard(10)));
    busy.waiting = Box::pin(std::future::pending());
    let mut places: Vec<QueuePlace> = (0..40).map(|_| busy.let_in(900).unwrap().unwrap()).collect();
    let turn = |places: &mut Vec<QueuePlace>, us| {
        busy.world.clock.advance(Duration::from_micros(us));
        places.remove(0).has_turn(busy.world.clock.monotonic_ns());
    };
    (0..20).for_each(|_| turn(&mut places, 100));
    turn(&mut places, 80_000);
    // 19 wait, at 100 us each and a little more.
    let is_let_in = |ms| busy.let_in(ms).is_ok();
    assert!(is_let_in(6) && !is_let_in(3));
    // Where one waits at a time, and each has its turn at once, the pace comes down.
    (0..19).for_each(|_| turn(&mut places, 2_000));
    for _ in 0..100 {
        let place = busy.let_in(900).unwrap().unwrap();
        busy.world.clock.advance(Duration::from_micros(50));
        place.has_turn(busy.world.clock.monotonic_ns());
    }
    let _one = busy.let_in(1).unwrap().unwrap();
    assert!(busy.let_in(1).is_ok());
}
