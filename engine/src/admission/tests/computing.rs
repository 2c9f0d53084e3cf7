//! Of reads that compute, few begin at a time.

use std::future::{pending, poll_fn};
use std::task::Poll;

use super::*;
use crate::config::{COMPUTING_READS_MAX, SHORT_READ_NS};

/// A world with turns and memory for all, and as many reads as compute at once.
fn busy() -> (World, Vec<Permit>) {
    let world = World::new(100, 1 << 30, 100, 0);
    let running = (0..COMPUTING_READS_MAX).map(|_| world.try_admit().unwrap()).collect();
    (world, running)
}

/// Work that gives up the rest of its turn at each poll, after it has computed for so long.
fn yielding(world: &World, computed: Duration) -> impl Future<Output = ()> + 'static {
    let clock = world.clock.clone();
    poll_fn(move |_| {
        clock.advance(computed);
        set_yields(true);
        Poll::Pending
    })
}

/// Lets a read do something, as its shard does.
fn work(world: &World, permit: &mut Permit, work: impl Future<Output = ()> + 'static) -> Working {
    let mut working = Working(Box::pin(world.admission.measured(KEYS, permit.account(), work)));
    working.poll();
    working
}

struct Working(LocalBoxFuture<'static, ()>);

impl Working {
    fn poll(&mut self) {
        assert!((&mut self.0).now_or_never().is_none(), "it works on");
    }
}

/// The permit of a read that waited, if it has one by now.
fn permit(waiting: &mut Waiting) -> Option<Permit> {
    waiting.now_or_never().map(Result::unwrap)
}

fn has_turn(waiting: &mut Waiting) -> bool {
    permit(waiting).is_some()
}

#[test]
fn the_next_read_begins_when_one_is_done() {
    let (world, mut running) = busy();
    let mut next = world.wait();
    assert!(!has_turn(&mut next));
    drop(running.pop());
    assert!(has_turn(&mut next));
}

#[test]
fn or_when_one_waits_for_the_disk() {
    let (world, mut running) = busy();
    let (mut next, mut last) = (world.wait(), world.wait());
    let mut waiting = work(&world, &mut running[0], pending());
    let next = permit(&mut next).expect("one waits for the disk");
    // It is counted while it is polled again, and only then.
    waiting.poll();
    assert!(!has_turn(&mut last));
    drop(next);
    assert!(has_turn(&mut last));
}

#[test]
fn who_yields_computes_on_until_it_is_no_short_read() {
    let (world, mut running) = busy();
    let mut next = world.wait();
    let half = Duration::from_nanos(SHORT_READ_NS / 2);
    let work_of = yielding(&world, half);
    let mut long = work(&world, &mut running[0], work_of);
    assert!(!has_turn(&mut next), "it computed for half of the time");
    long.poll();
    let next = permit(&mut next).expect("it is long");
    // And it stays so: whoever is done makes room for one.
    let (mut second, mut third) = (world.wait(), world.wait());
    long.poll();
    assert!(!has_turn(&mut second));
    drop(next);
    let _second = permit(&mut second).expect("one is done");
    assert!(!has_turn(&mut third));
}

#[test]
fn who_waits_for_its_client_or_is_dropped_leaves_no_trace() {
    let (world, mut running) = busy();
    for permit in &mut running {
        drop(world.admission.measured(KEYS, permit.account(), pending::<()>()));
        permit.step_aside();
    }
    let all: Vec<Permit> = (0..COMPUTING_READS_MAX).map(|_| world.try_admit().unwrap()).collect();
    for permit in &mut running {
        assert!(permit.step_in().now_or_never().is_some(), "who returns is not held up");
    }
    let mut next = world.wait();
    drop(all);
    assert!(!has_turn(&mut next), "those that returned compute");
    drop(running);
    assert!(has_turn(&mut next));
    // Dropped while it waits for the disk.
    let (world, mut running) = busy();
    for permit in &mut running {
        drop(work(&world, permit, pending()));
    }
    drop(running);
    let again: Vec<Permit> = (0..COMPUTING_READS_MAX).map(|_| world.try_admit().unwrap()).collect();
    assert!(!has_turn(&mut world.wait()));
    drop(again);
    assert_eq!(world.status().running, 0);
}

#[test]
fn a_brief_read_goes_past_those_that_wait_until_fewer_compute() {
    let world = World::new(COMPUTING_READS_MAX + 1, 1 << 30, 100, 0);
    let running: Vec<_> = (0..COMPUTING_READS_MAX).map(|_| world.try_admit().unwrap()).collect();
    let mut next = world.wait();
    let brief = world.admission.brief_turn_now(KEYS, LevelId::DEFAULT);
    assert!(brief.is_some());
    assert!(
        world.admission.brief_turn_now(KEYS, LevelId::DEFAULT).is_none(),
        "but not past the number of turns"
    );
    assert!(world.admission.turn_now(KEYS, LevelId::DEFAULT).is_none());
    drop(brief);
    assert!(!has_turn(&mut next));
    drop(running);
    assert!(has_turn(&mut next));
}
