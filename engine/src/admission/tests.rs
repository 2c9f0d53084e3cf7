//! The point through which reads enter: turns, queues, memory, shedding, plans and their policies.

mod computing;
mod fail_fast;
mod levels;
mod plans;

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::*;
use crate::clock::{Clock, Random, SimulatedClock};
use crate::config::LONG_WAITS_MAX;
use crate::error::{Error, Result};
use crate::policy::admission::{
    LoadSheddingPolicy, LoadSignals, ReadAdmissionPolicy, ReadClass, ReadLimits, ReadLoad,
    ReadPlan, Shedding, SheddingPlan, WorkClass,
};
use crate::policy::{FailureKind, PlanStatus, PolicyFailure};
use crate::schema::table_schema::SchemaRef;
use crate::schema::{TableId, TableOptions, TableSchema};

const KEYS: ReadClass = ReadClass::Keys;

/// A policy whose plan tests set; it fails when there is none.
#[derive(Default)]
struct Script {
    limits: Rc<Cell<Option<ReadLimits>>>,
    shedding: Rc<Cell<Option<SheddingPlan>>>,
    seen: Rc<Cell<[ReadLoad; 2]>>,
    signals: Rc<Cell<LoadSignals>>,
}

fn failure() -> PolicyFailure {
    PolicyFailure { kind: FailureKind::Trap, message: "on purpose".into(), backtrace: Vec::new() }
}

impl ReadAdmissionPolicy for Script {
    fn name(&self) -> &str {
        "script"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn plan(
        &mut self,
        _: u64,
        _: u64,
        loads: &[ReadLoad; 2],
        plan: &mut ReadPlan,
    ) -> Result<(), PolicyFailure> {
        self.seen.set(*loads);
        plan[KEYS as usize] = self.limits.get().ok_or_else(failure)?;
        Ok(())
    }
}

impl LoadSheddingPolicy for Script {
    fn name(&self) -> &str {
        "script"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn plan(
        &mut self,
        _: u64,
        signals: &LoadSignals,
        plan: &mut SheddingPlan,
    ) -> Result<(), PolicyFailure> {
        self.signals.set(*signals);
        *plan = self.shedding.get().ok_or_else(failure)?;
        Ok(())
    }
}

struct World {
    clock: Arc<SimulatedClock>,
    fail_fast: Arc<FailFast>,
    admission: Rc<Admission>,
    limits: Rc<Cell<Option<ReadLimits>>>,
    shedding: Rc<Cell<Option<SheddingPlan>>>,
    seen: Rc<Cell<[ReadLoad; 2]>>,
    signals: Rc<Cell<LoadSignals>>,
}

type Waiting = Pin<Box<dyn Future<Output = Result<Permit>>>>;

/// A read of partitions comes, and waits for its turn.
async fn admit(admission: &Admission) -> Result<Permit> {
    admission.admit_read(KEYS)?;
    admission.turn(KEYS, LevelId::DEFAULT, None).await
}

impl World {
    fn new(running_max: u32, memory_bytes_max: u64, queued_max: u32, wait_us_max: u64) -> Self {
        let clock = SimulatedClock::new(1_000_000);
        let (memory, fail_fast) = (ReadMemory::new(1 << 30), FailFast::new(1));
        let admission = Rc::new(Admission::new(clock.clone(), memory, fail_fast.clone()));
        let script = Script::default();
        let limits = ReadLimits { running_max, memory_bytes_max, queued_max, wait_us_max };
        script.limits.set(Some(limits));
        script.shedding.set(Some(SheddingPlan::default()));
        let (limits, shedding) = (script.limits.clone(), script.shedding.clone());
        let (seen, signals) = (script.seen.clone(), script.signals.clone());
        let shed =
            Script { shedding: shedding.clone(), signals: signals.clone(), ..Script::default() };
        admission.set_admission(Some(("script".into(), Box::new(script))));
        admission.set_shedding(Some(("script".into(), Box::new(shed))));
        let world = World { clock, fail_fast, admission, limits, shedding, seen, signals };
        // A read and an interval bring the plan into force.
        drop(world.try_admit().unwrap());
        world.interval();
        world
    }

    fn interval(&self) {
        self.clock.advance(Duration::from_millis(100));
        self.admission.tick(1, 2);
    }

    fn try_admit(&self) -> Option<Permit> {
        admit(&self.admission).now_or_never().map(Result::unwrap)
    }

    fn wait(&self) -> Waiting {
        let admission = self.admission.clone();
        let mut waiting: Waiting = Box::pin(async move { admit(&admission).await });
        assert!((&mut waiting).now_or_never().is_none(), "there was room");
        waiting
    }

    fn refusal(&self) -> Error {
        admit(&self.admission).now_or_never().expect("refused at once").err().unwrap()
    }

    fn status(&self) -> ClassStatus {
        self.admission.status(WorkClass::Keys)
    }
}

#[test]
fn turns_go_to_those_who_came_first_and_a_full_queue_refuses() {
    let world = World::new(2, 1 << 20, 2, 0);
    let (first, second) = (world.try_admit().unwrap(), world.try_admit().unwrap());
    let (mut third, mut fourth) = (world.wait(), world.wait());
    let refused = world.refusal();
    assert!(refused.is_retryable(), "{refused}");
    assert_eq!(
        refused.to_string(),
        "overloaded: 2 reads of partitions of service level 'default' wait for a turn, which is most: \
         try again later, or run fewer at once"
    );
    assert_eq!((world.status().running, world.status().queued), (2, 2));
    drop(first);
    assert!((&mut fourth).now_or_never().is_none(), "the third comes first");
    let third = (&mut third).now_or_never().expect("a turn was free").unwrap();
    drop((second, third));
    drop(fourth.now_or_never().expect("two turns are free").unwrap());
    let status = world.status();
    assert_eq!((status.running, status.queued, status.memory_bytes), (0, 0, 0));
    assert_eq!((status.arrived, status.admitted, status.refused), (6, 5, 1));
}

#[test]
fn whoever_stops_waiting_leaves_no_trace() {
    let world = World::new(1, 1 << 20, 10, 0);
    let running = world.try_admit().unwrap();
    let (gone, mut stays, late) = (world.wait(), world.wait(), world.wait());
    drop(gone);
    assert_eq!(world.status().queued, 2);
    drop(running);
    // Its turn was given and not taken yet: it goes on to the next.
    assert_eq!((world.status().running, world.status().queued), (1, 1));
    assert!((&mut stays).now_or_never().is_some());
    drop(stays);
    drop(late);
    assert_eq!((world.status().running, world.status().queued), (0, 0));
    let running = world.try_admit().unwrap();
    let (given, next) = (world.wait(), world.wait());
    drop(running);
    drop(given);
    assert_eq!((world.status().running, world.status().queued), (1, 0));
    drop(next.now_or_never().expect("it has the turn now").unwrap());
    assert_eq!((world.status().running, world.status().memory_bytes), (0, 0));
}

#[test]
fn memory_is_a_limit_of_its_own_and_one_read_always_gets_in() {
    let base = 16 << 10;
    let world = World::new(100, 3 * base, 10, 0);
    let mut first = world.try_admit().unwrap();
    let second = world.try_admit().unwrap();
    first.answer(2 * base as usize);
    assert_eq!(world.status().memory_bytes, 4 * base);
    let mut third = world.wait();
    // The batches before the last three are with the client; then the third has room.
    (0..3).for_each(|_| first.answer(0));
    assert_eq!(world.status().memory_bytes, 3 * base);
    drop(second);
    drop((&mut third).now_or_never().expect("there is memory").unwrap());
    // All that run wait for their clients, with all the memory.
    first.answer(10 * base as usize);
    first.step_aside();
    assert_eq!((world.status().running, world.status().aside), (0, 1));
    let fourth = world.try_admit().expect("nothing runs");
    let waits = world.wait();
    drop((waits, fourth, first));
    assert_eq!((world.status().aside, world.status().memory_bytes), (0, 0));
}

#[test]
fn who_comes_back_from_its_client_is_next() {
    let world = World::new(1, 1 << 20, 10, 0);
    let mut slow = world.try_admit().unwrap();
    slow.step_aside();
    let running = world.try_admit().unwrap();
    let mut waits = world.wait();
    let mut back: LocalBoxFuture<'_, ()> = Box::pin(slow.step_in());
    assert!((&mut back).now_or_never().is_none());
    let status = world.status();
    assert_eq!((status.running, status.queued, status.aside), (1, 1, 1), "who returns is aside");
    drop(running);
    assert!((&mut waits).now_or_never().is_none());
    assert!((&mut back).now_or_never().is_some());
    drop(back);
    assert_eq!((world.status().running, world.status().aside), (1, 0));
    // A client that goes away while its read waits to return.
    slow.step_aside();
    let other = (&mut waits).now_or_never().expect("the turn is free").unwrap();
    let mut back: LocalBoxFuture<'_, ()> = Box::pin(slow.step_in());
    assert!((&mut back).now_or_never().is_none());
    drop(back);
    drop(slow);
    assert_eq!((world.status().running, world.status().aside), (1, 0));
    drop(other);
    assert_eq!(world.status().running, 0);
}

#[test]
fn a_read_that_waits_for_too_long_is_refused() {
    let world = World::new(1, 1 << 20, 10, 250_000);
    let running = world.try_admit().unwrap();
    let mut waits = world.wait();
    world.interval();
    world.interval();
    assert!((&mut waits).now_or_never().is_none());
    let mut later = world.wait();
    world.interval();
    let error = (&mut waits).now_or_never().expect("it was sent away").err().unwrap();
    assert_eq!(
        error.to_string(),
        "overloaded: waited 300 ms for a turn among reads of partitions of service level \
         'default': try again later, or run fewer at once"
    );
    drop(running);
    assert!((&mut later).now_or_never().expect("it waited for 100 ms").is_ok());
    assert_eq!(world.status().refused, 1);
}

#[test]
fn plans_are_told_of_the_interval_and_obeyed_at_once() {
    let world = World::new(1, 1 << 20, 10, 0);
    let mut first = world.try_admit().unwrap();
    let (mut second, third) = (world.wait(), world.wait());
    world.clock.advance(Duration::from_micros(800));
    first.answer(100);
    let work = async { world.clock.advance(Duration::from_micros(50)) };
    world.admission.measured(KEYS, first.account(), work).now_or_never().unwrap();
    world.limits.set(Some(ReadLimits {
        running_max: 2,
        memory_bytes_max: u64::MAX,
        queued_max: u32::MAX,
        wait_us_max: 0,
    }));
    world.interval();
    let load = world.seen.get()[KEYS as usize];
    assert_eq!((load.arrived, load.admitted, load.queued, load.refused), (3, 1, 2, 0));
    assert_eq!((load.running_most, load.busy_us), (1, 50));
    assert!((800..=900).contains(&load.p50_us) && load.p50_us == load.p99_us, "{load:?}");
    assert_eq!(load.memory_bytes, (16 << 10) + 100);
    let signals = world.signals.get();
    assert_eq!((signals.memtable_bytes, signals.memtable_bytes_max), (1, 2));
    assert_eq!(signals.classes[0].waiting, 2);
    assert!(signals.classes[0].waited_us >= 100_000 && signals.elapsed_us >= 100_000);
    // The second had its turn when the plan came.
    assert!((&mut second).now_or_never().is_some());
    drop((second, third, first));
    let status = world.status();
    assert_eq!((status.running_max, status.queued_max), (2, 100_000), "the host has limits too");
    assert!(status.memory_bytes_max < u64::MAX);
    // An interval in which nothing happens is not told.
    world.interval();
    let seen = world.seen.get();
    world.interval();
    assert_eq!(world.seen.get(), seen);
}

#[test]
fn a_read_that_runs_on_counts_in_each_interval() {
    let world = World::new(4, 1 << 20, 10, 0);
    let [first, second] = [(); 2].map(|()| world.try_admit().unwrap());
    let running_most = || {
        world.interval();
        world.seen.get()[KEYS as usize].running_most
    };
    assert_eq!(running_most(), 2);
    drop(second);
    assert_eq!((running_most(), running_most()), (2, 1));
    assert_eq!(running_most(), 1);
    drop(first);
}

#[test]
fn what_is_refused_is_named_by_its_class() {
    let world = World::new(1, 1 << 20, 0, 0);
    let plan = [Shedding { per_mille: 1000, wait_ms_max: 0 }; WorkClass::COUNT];
    world.shedding.set(Some(plan));
    drop(world.try_admit().unwrap());
    world.interval();
    let told = |refused: Result<()>| refused.unwrap_err().to_string();
    let text = |reads: &str| {
        format!("overloaded: some {reads} are refused while the load is high: try again later")
    };
    let keys = told(world.admission.admit_read(KEYS));
    assert_eq!(keys, text("reads of partitions"));
    assert_eq!(told(world.admission.admit_read(ReadClass::Scan)), text("scans"));
    assert_eq!(told(world.admission.admit_write()), text("writes"));
}

#[test]
fn without_a_policy_each_class_has_limits_of_its_own() {
    let admission =
        Admission::new(SimulatedClock::new(1), ReadMemory::new(1 << 30), FailFast::new(1));
    let limits = |class| {
        let status = admission.status(class);
        (status.running_max, status.queued_max, status.wait_us_max)
    };
    let (keys, scans) = (limits(WorkClass::Keys), limits(WorkClass::Scan));
    assert_eq!((keys, scans), ((100, 10_000, 0), (20, 1000, 0)));
    assert_eq!(limits(WorkClass::Write), (0, 0, 0));
    let memory = |class| admission.status(class).memory_bytes_max;
    let half = crate::config::READ_MEMORY_BYTES_MAX / 2;
    assert_eq!((memory(WorkClass::Keys), memory(WorkClass::Scan)), (half, half));
}

/// What an interval brought is told of it alone, and shown until another one brings something.
#[test]
fn each_interval_is_told_of_its_own_reads() {
    let world = World::new(1, 1 << 20, 1, 0);
    let answered_after = |us: u64, at_once: bool| {
        let mut read = world.try_admit().unwrap();
        world.clock.advance(Duration::from_micros(us));
        match at_once {
            true => _ = read.answer_at_once(),
            false => read.answer(1),
        }
    };
    let ended = || {
        world.interval();
        let load = world.seen.get()[KEYS as usize];
        (
            load.arrived,
            load.admitted,
            load.refused,
            load.busy_us,
            load.p50_us / 100,
            load.p99_us / 100,
        )
    };
    answered_after(800, true);
    answered_after(800, false);
    let running = world.try_admit().unwrap();
    let waits = world.wait();
    world.refusal();
    drop((waits, running));
    // Computing is counted where the whole answer came at once.
    assert_eq!(ended(), (5, 3, 1, 800, 8, 8));
    answered_after(100, true);
    assert_eq!(ended(), (1, 1, 0, 100, 1, 1));
    let shown = |status: ClassStatus| (status.p50_us / 100, status.p99_us / 100);
    assert_eq!(shown(world.status()), (1, 1));
    // Nobody was answered: the last times stay.
    drop(world.try_admit().unwrap());
    assert_eq!(ended(), (1, 1, 0, 0, 0, 0));
    assert_eq!(shown(world.status()), (1, 1));
}

#[test]
fn a_read_waits_as_long_as_its_plan_lets_it_and_no_longer() {
    let world = World::new(1, 1 << 20, 10, 200_000);
    let running = world.try_admit().unwrap();
    let mut waits = world.wait();
    world.interval();
    world.interval();
    assert!((&mut waits).now_or_never().is_none(), "200 ms are allowed");
    world.clock.advance(Duration::from_micros(1));
    world.admission.tick(1, 2);
    assert!((&mut waits).now_or_never().expect("it waited for too long").is_err());
    drop(running);
    // The same of writes, by what load shedding allows.
    let mut plan = SheddingPlan::default();
    plan[WorkClass::Write as usize].wait_ms_max = 200;
    world.shedding.set(Some(plan));
    drop(world.try_admit().unwrap());
    world.interval();
    let write = world.admission.wait_write();
    world.clock.advance(Duration::from_millis(200));
    assert!(write.check().is_ok() && !world.admission.has_late_write());
    world.clock.advance(Duration::from_micros(1));
    assert!(world.admission.has_late_write() && write.check().is_err());
}

#[test]
fn the_plan_of_a_policy_that_failed_holds_for_a_while() {
    let world = World::new(7, 1 << 20, 10, 0);
    world.limits.set(None);
    world.shedding.set(None);
    for at in 0..=10 {
        assert_eq!(world.status().running_max, 7, "interval {at}");
        drop(world.try_admit().unwrap());
        world.interval();
    }
    assert_eq!(world.status().running_max, 100, "the native limit");
    let status = world.admission.admission_status();
    assert_eq!((status.name.as_deref(), status.asked), (Some("script"), 2));
    assert!(status.failure.unwrap().message.contains("on purpose"));
    assert!(world.admission.shedding_status().failure.is_some());
    world.admission.set_admission(None);
    assert_eq!(world.admission.admission_status(), PlanStatus::default());
}

#[test]
fn what_is_shed_is_spread_evenly_and_the_old_go_first() {
    let world = World::new(1, 1 << 20, 10, 0);
    let mut plan = SheddingPlan::default();
    plan[WorkClass::Keys as usize] = Shedding { per_mille: 250, wait_ms_max: 150 };
    plan[WorkClass::Write as usize] = Shedding { per_mille: 500, wait_ms_max: 150 };
    world.shedding.set(Some(plan));
    drop(world.try_admit().unwrap());
    world.interval();
    let shed = |_| admit(&world.admission).now_or_never().unwrap().is_err();
    assert_eq!((0..8).map(shed).filter(|shed| *shed).count(), 2);
    let writes: Vec<bool> = (0..4).map(|_| world.admission.admit_write().is_err()).collect();
    assert_eq!(writes, [false, true, false, true]);
    world.interval();
    let classes = world.signals.get().classes;
    assert_eq!((classes[0].arrived, classes[0].shed), (8, 2));
    assert_eq!((classes[2].arrived, classes[2].shed), (4, 2));
    // Ages, of reads and of writes.
    plan[WorkClass::Keys as usize].per_mille = 0;
    world.shedding.set(Some(plan));
    world.interval();
    let running = world.try_admit().unwrap();
    let mut waits = world.wait();
    let write = world.admission.wait_write();
    world.interval();
    assert!((&mut waits).now_or_never().is_none(), "it waited for 100 ms of 150");
    assert!(write.check().is_ok() && !world.admission.has_late_write());
    assert_eq!(world.signals.get().classes[2].waiting, 1);
    world.interval();
    assert!(world.admission.has_late_write());
    let error = write.check().unwrap_err();
    assert_eq!(error.to_string(), "overloaded: a write waited 200 ms for memory");
    drop(write);
    assert!(!world.admission.has_late_write());
    assert!((&mut waits).now_or_never().expect("it was sent away").is_err());
    drop(running);
    let status = world.admission.status(WorkClass::Write);
    assert_eq!((status.arrived, status.admitted, status.shed), (4, 1, 3));
    assert_eq!(world.status().shed, 3);
}

/// Any order of comings, goings and plans leaves the counts right.
#[test]
fn random_comings_and_goings_keep_the_counts() {
    let mut random = Random::new(5);
    for _ in 0..50 {
        let world = World::new(1 + random.below(4) as u32, 60 << 10, 6, 0);
        let mut inside: Vec<Permit> = Vec::new();
        let mut outside: Vec<Waiting> = Vec::new();
        for _ in 0..400 {
            match random.below(6) {
                0 | 1 => {
                    let admission = world.admission.clone();
                    let mut read: Waiting = Box::pin(async move { admit(&admission).await });
                    match (&mut read).now_or_never() {
                        Some(Ok(permit)) => inside.push(permit),
                        Some(Err(_)) => {}
                        None => outside.push(read),
                    }
                }
                2 if !inside.is_empty() => {
                    drop(inside.swap_remove(random.below(inside.len() as u64) as usize));
                }
                3 if !outside.is_empty() => {
                    drop(outside.swap_remove(random.below(outside.len() as u64) as usize));
                }
                4 => {
                    let at = random.below(inside.len().max(1) as u64) as usize;
                    if let Some(permit) = inside.get_mut(at) {
                        permit.answer(random.below(20_000) as usize);
                        permit.step_aside();
                        // It may leave the queue again.
                        let _ = permit.step_in().now_or_never();
                    }
                }
                _ => world.interval(),
            }
            let mut waiting = Vec::new();
            for mut read in outside.drain(..) {
                match (&mut read).now_or_never() {
                    Some(permit) => inside.push(permit.unwrap()),
                    None => waiting.push(read),
                }
            }
            outside = waiting;
            let status = world.status();
            assert_eq!((status.running + status.aside) as usize, inside.len());
            assert_eq!(status.queued as usize, outside.len());
            assert!(status.running <= status.running_max);
            let is_full = status.running >= 1;
            assert!(is_full || outside.is_empty(), "nobody waits for nothing: {status:?}");
        }
        drop((inside, outside));
        let status = world.status();
        assert_eq!((status.running, status.aside, status.queued), (0, 0, 0));
        assert_eq!(status.memory_bytes, 0);
    }
}

#[test]
fn waits_that_were_long_are_kept_with_their_table() {
    let world = World::new(1, 1 << 20, 1000, 0);
    let terms = (LevelId::DEFAULT, None);
    let wait = |ms: u64, table: &'static str| {
        let running = world.try_admit().unwrap();
        world.admission.admit_read(KEYS).unwrap();
        let mut waits = Box::pin(world.admission.turn_of(KEYS, terms, || table.to_owned()));
        assert!((&mut waits).now_or_never().is_none(), "there was room");
        world.clock.advance(Duration::from_millis(ms));
        drop(running);
        drop(waits.now_or_never().expect("a turn was free").unwrap());
    };
    world.admission.admit_read(KEYS).unwrap();
    let at_once = world.admission.turn_of(KEYS, terms, || unreachable!("nobody waited"));
    drop(at_once.now_or_never().expect("nobody is before it").unwrap());
    wait(499, "ks.short");
    assert_eq!(world.admission.long_waits(), []);
    wait(500, "ks.long");
    let kept = LongWait {
        at_us: world.clock.wall_us(),
        class: KEYS,
        table: "ks.long".into(),
        waited_us: 500_000,
        had_turn: true,
    };
    assert_eq!(world.admission.long_waits(), [kept]);
    for _ in 0..LONG_WAITS_MAX {
        wait(700, "ks.later");
    }
    let all = world.admission.long_waits();
    assert!(all.len() == LONG_WAITS_MAX && all.iter().all(|wait| wait.table == "ks.later"));
}

/// `ks.t`, of which admission wants no more than the name.
fn schema() -> SchemaRef {
    Arc::new(TableSchema {
        id: TableId(1),
        keyspace: "ks".into(),
        name: "t".into(),
        columns: Vec::new(),
        options: TableOptions::default(),
        drops: Vec::new(),
    })
}

#[test]
fn a_read_is_shown_with_what_it_waits_for_and_with_what_it_holds() {
    let world = World::new(4, 1 << 20, 10, 0);
    let admission = &world.admission;
    let shown = || {
        let reads = admission.reads();
        let read = reads.first().expect("it is under way");
        (read.state, read.memory_bytes)
    };
    let noted = admission.note(KEYS, LevelId::DEFAULT, schema());
    let wanted = ReadStatus {
        number: 0,
        table: "ks.t".into(),
        level: LevelId::DEFAULT,
        class: "keys",
        state: ReadState::Queued,
        age_us: 0,
        memory_bytes: 0,
    };
    assert_eq!(admission.reads(), [wanted]);
    let base = 16 << 10;
    let mut permit = world.try_admit().unwrap();
    permit.show(&noted);
    assert_eq!(shown(), (ReadState::Running, base));
    permit.answer(1000);
    assert_eq!(shown(), (ReadState::Running, base + 1000));
    permit.step_aside();
    assert_eq!(shown(), (ReadState::Client, base + 1000));
    permit.step_in().now_or_never().expect("there is a turn");
    assert_eq!(shown(), (ReadState::Running, base + 1000));
    // Others have all memory for batches; a batch is charged twice.
    let others = admission.memory().try_charge(1 << 29).unwrap();
    let mut charging = Box::pin(permit.charge_batch(500));
    assert!((&mut charging).now_or_never().is_none());
    assert_eq!(shown(), (ReadState::Memory, base + 1000 + 2 * 500));
    drop(others);
    drop(charging.now_or_never().expect("there is memory").unwrap());
    assert_eq!(shown(), (ReadState::Running, base + 1000 + 2 * 500));
    // The batch is there, and no more is held for what is built.
    permit.answer(200);
    assert_eq!(shown(), (ReadState::Running, base + 1200));
}

#[test]
fn a_read_is_ended_by_its_number_and_no_other_one() {
    let world = World::new(4, 1 << 20, 10, 0);
    let admission = &world.admission;
    let first = admission.note(KEYS, LevelId::DEFAULT, schema());
    world.clock.advance(Duration::from_micros(2_500));
    // There is no such level: it stands with those that name none.
    let second = admission.note(ReadClass::Scan, LevelId(9), schema());
    let told = |read: ReadStatus| (read.number, read.class, read.level, read.age_us);
    let reads: Vec<_> = admission.reads().into_iter().map(told).collect();
    let level = LevelId::DEFAULT;
    assert_eq!(reads, [(0, "keys", level, 2_500), (1, "scan", level, 0)]);
    assert!(!admission.kill(2), "there is none");
    assert!(second.killed().now_or_never().is_none());
    assert!(admission.kill(1));
    assert!(first.killed().now_or_never().is_none());
    assert!(second.killed().now_or_never().is_some(), "it was told before it listened");
    drop(second);
    assert!(!admission.kill(1), "it is over");
    let third = admission.note(KEYS, LevelId::DEFAULT, schema());
    let numbers: Vec<u64> = admission.reads().iter().map(|read| read.number).collect();
    assert_eq!(numbers, [0, 2], "no number comes again");
    drop((first, third));
    assert_eq!(admission.reads(), []);
}
