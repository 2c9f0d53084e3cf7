//! The one point through which reads and writes enter a shard; see the head of `admission`.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::class::{Class, Next, Waiter};
use super::governed::{Governed, PlanStatus};
use super::long_wait::{LongWait, LongWaits};
use super::memory::{BatchCharge, ReadMemory};
use super::write::{WaitingWrite, WriteTotals, Writes};
use crate::clock::Clock;
use crate::config::{READ_MEMORY_BYTES_MAX, READ_PLAN_MS, READ_QUEUE_MAX};
use crate::error::{Error, Result};
use crate::policy::admission::{
    LoadSheddingPolicy, LoadSignals, ReadAdmissionPolicy, ReadClass, ReadLimits, ReadLoad,
    ReadPlan, Shedding, SheddingPlan, WorkClass, WorkLoad,
};

/// Limits where no policy says otherwise: enough to keep disk and processor busy.
const NATIVE: ReadPlan = [
    ReadLimits {
        running_max: 100,
        memory_bytes_max: READ_MEMORY_BYTES_MAX / 2,
        queued_max: 10_000,
        wait_us_max: 0,
    },
    ReadLimits {
        running_max: 20,
        memory_bytes_max: READ_MEMORY_BYTES_MAX / 2,
        queued_max: 1_000,
        wait_us_max: 0,
    },
];
/// Batches that a client may have before it takes one: those of the channel and the one on its way.
const BATCHES_HELD: usize = 3;

/// A class as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassStatus {
    pub running: u32,
    pub queued: u32,
    /// Reads whose clients take nothing.
    pub aside: u32,
    pub memory_bytes: u64,
    /// Limits in force, zeros for writes: they have none of these.
    pub running_max: u32,
    pub memory_bytes_max: u64,
    pub queued_max: u32,
    pub wait_us_max: u64,
    pub shedding: Shedding,
    /// Since the start.
    pub arrived: u64,
    pub admitted: u64,
    pub refused: u64,
    pub shed: u64,
    /// Of the last interval in which there were any.
    pub p50_us: u64,
    pub p99_us: u64,
}

/// The reads of one class.
type ReadsOf = Class<Turn, Permit>;

struct Inner {
    clock: Arc<dyn Clock>,
    memory: Arc<ReadMemory>,
    classes: [RefCell<ReadsOf>; ReadClass::COUNT],
    /// Somebody is handing out turns already.
    handing: [Cell<bool>; ReadClass::COUNT],
    next_id: Cell<u64>,
}

/// The point itself; clones are the same.
pub struct Admission {
    inner: Rc<Inner>,
    writes: Rc<Writes>,
    admission: RefCell<Governed<dyn ReadAdmissionPolicy, ReadPlan>>,
    shedding: RefCell<Governed<dyn LoadSheddingPolicy, SheddingPlan>>,
    interval_ns: Cell<u64>,
    last: Cell<[ReadLoad; ReadClass::COUNT]>,
    long_waits: LongWaits,
}

impl Admission {
    /// A point whose reads share `memory` for their batches with those of other shards.
    pub fn new(clock: Arc<dyn Clock>, memory: Arc<ReadMemory>) -> Self {
        let interval_ns = Cell::new(clock.monotonic_ns());
        Admission {
            writes: Rc::new(Writes::new(clock.clone())),
            inner: Rc::new(Inner {
                clock,
                memory,
                classes: ReadClass::ALL
                    .map(|class| RefCell::new(Class::new(class, NATIVE[class as usize]))),
                handing: Default::default(),
                next_id: Cell::new(0),
            }),
            admission: RefCell::new(Governed::new(NATIVE)),
            shedding: RefCell::new(Governed::new(SheddingPlan::default())),
            interval_ns,
            last: Cell::default(),
            long_waits: LongWaits::default(),
        }
    }

    /// A read comes in. Errors: `Overloaded` when it is shed.
    pub fn admit_read(&self, class: ReadClass) -> Result<()> {
        self.inner.class(class).borrow_mut().arrive()
    }

    /// Waits for the turn of a read that was admitted. Dropping the future leaves the queue.
    ///
    /// Errors: `Overloaded` when the queue is full, or the wait too long.
    pub async fn turn(&self, class: ReadClass) -> Result<Permit> {
        let inner = &self.inner;
        if inner.class(class).borrow_mut().enter()? {
            return Ok(inner.permit(class));
        }
        let (sender, admitted) = oneshot::channel();
        let place = inner.queue_up(class, |state, waiter| state.queue.push_back(waiter), sender);
        let permit = admitted.await;
        drop(place);
        permit.map_err(|_| Error::Closed).flatten()
    }

    /// As [`turn`](Self::turn), for a read of a table, whose wait is kept if it is long.
    ///
    /// Errors: as `turn`.
    pub async fn turn_of(
        &self,
        class: ReadClass,
        table: impl FnOnce() -> String,
    ) -> Result<Permit> {
        if let Some(permit) = self.turn_now(class) {
            return Ok(permit);
        }
        let clock = &self.inner.clock;
        let since_ns = clock.monotonic_ns();
        let turn = self.turn(class).await;
        let waited_ns = clock.monotonic_ns().saturating_sub(since_ns);
        let wait = || LongWait {
            at_us: clock.wall_us(),
            class,
            table: table(),
            waited_us: waited_ns / 1000,
            had_turn: turn.is_ok(),
        };
        self.long_waits.note(wait, waited_ns);
        turn
    }

    /// The last reads that waited long, oldest first.
    pub fn long_waits(&self) -> Vec<LongWait> {
        self.long_waits.all()
    }

    /// The turn of a read that was admitted, where it need not wait for it; `None` where
    /// [`turn`](Self::turn) would wait.
    pub fn turn_now(&self, class: ReadClass) -> Option<Permit> {
        let begins = self.inner.class(class).borrow_mut().enter_now();
        begins.then(|| self.inner.permit(class))
    }

    /// A write comes in. Errors: `Overloaded` when it is shed.
    #[inline]
    pub fn admit_write(&self) -> Result<()> {
        self.writes.arrive()
    }

    /// A write waits for memory from now on.
    pub fn wait_write(&self) -> WaitingWrite {
        self.writes.wait()
    }

    /// Whether a write waits for longer than the plan lets it.
    pub fn has_late_write(&self) -> bool {
        self.writes.has_late()
    }

    /// Runs the work of a read, counting the time that it computes.
    pub async fn measured<F: Future>(&self, class: ReadClass, work: F) -> F::Output {
        let mut work = pin!(work);
        poll_fn(|context| {
            let start_ns = self.inner.clock.monotonic_ns();
            let polled = work.as_mut().poll(context);
            let spent_ns = self.inner.clock.monotonic_ns().saturating_sub(start_ns);
            self.inner.class(class).borrow_mut().busy_ns += spent_ns;
            polled
        })
        .await
    }

    /// Puts a policy of limits in charge, under the name of its statement; `None` the native
    /// limits.
    pub fn set_admission(&self, policy: Option<(String, Box<dyn ReadAdmissionPolicy>)>) {
        self.admission.borrow_mut().set(policy);
        self.obey();
    }

    /// Puts a policy of shedding in charge; `None` sheds nothing.
    pub fn set_shedding(&self, policy: Option<(String, Box<dyn LoadSheddingPolicy>)>) {
        self.shedding.borrow_mut().set(policy);
        self.obey();
    }

    pub fn admission_status(&self) -> PlanStatus {
        self.admission.borrow().status()
    }

    pub fn shedding_status(&self) -> PlanStatus {
        self.shedding.borrow().status()
    }

    /// How a class stands.
    pub fn status(&self, class: WorkClass) -> ClassStatus {
        let class = match class {
            WorkClass::Keys => ReadClass::Keys,
            WorkClass::Scan => ReadClass::Scan,
            WorkClass::Write => {
                let WriteTotals { arrived, shed, waiting } = self.writes.totals();
                let shedding = self.writes.shedding.get();
                let admitted = arrived - shed;
                return ClassStatus {
                    queued: waiting,
                    shedding,
                    arrived,
                    admitted,
                    shed,
                    ..Default::default()
                };
            }
        };
        let last = self.last.get()[class as usize];
        let state = self.inner.class(class).borrow();
        ClassStatus {
            running: state.running,
            queued: state.queue.len() as u32,
            aside: state.aside,
            memory_bytes: state.memory_bytes,
            running_max: state.limits.running_max,
            memory_bytes_max: state.limits.memory_bytes_max,
            queued_max: state.limits.queued_max,
            wait_us_max: state.limits.wait_us_max,
            shedding: state.shedding,
            arrived: state.totals.arrived,
            admitted: state.totals.admitted,
            refused: state.totals.refused,
            shed: state.totals.shed,
            p50_us: last.p50_us,
            p99_us: last.p99_us,
        }
    }

    /// The memory of batches.
    pub fn memory(&self) -> &Arc<ReadMemory> {
        &self.inner.memory
    }

    /// Refuses those that wait for too long, and asks for plans when an interval is over. The bytes
    /// are those of memtables, and how many make writes wait.
    pub fn tick(&self, memtable_bytes: u64, memtable_bytes_max: u64) {
        ReadClass::ALL.into_iter().for_each(|class| self.inner.hand_out(class));
        let now_ns = self.inner.clock.monotonic_ns();
        self.inner.memory.refuse_late(now_ns);
        let elapsed_ns = now_ns.saturating_sub(self.interval_ns.get());
        if elapsed_ns < READ_PLAN_MS * 1_000_000 {
            return;
        }
        self.interval_ns.set(now_ns);
        let is_shedding = self.shedding.borrow().plan().iter().any(|shed| shed.per_mille > 0);
        let is_idle = self.writes.is_idle()
            && ReadClass::ALL.iter().all(|class| self.inner.class(*class).borrow().is_idle());
        if is_idle && !is_shedding {
            return;
        }
        let (loads, mut signals) = self.close_interval(now_ns);
        signals.elapsed_us = elapsed_ns / 1000;
        (signals.memtable_bytes, signals.memtable_bytes_max) = (memtable_bytes, memtable_bytes_max);
        let used: u64 = loads.iter().map(|load| load.memory_bytes).sum();
        let (free, now_us) = (READ_MEMORY_BYTES_MAX.saturating_sub(used), now_ns / 1000);
        self.admission
            .borrow_mut()
            .ask("read-admission", |policy, plan| policy.plan(now_us, free, &loads, plan));
        self.shedding
            .borrow_mut()
            .ask("load-shedding", |policy, plan| policy.plan(now_us, &signals, plan));
        self.obey();
    }

    fn close_interval(&self, now_ns: u64) -> ([ReadLoad; ReadClass::COUNT], LoadSignals) {
        let mut signals = LoadSignals::default();
        let mut last = self.last.get();
        let loads = ReadClass::ALL.map(|class| {
            let mut state = self.inner.class(class).borrow_mut();
            let (load, shed) = state.close_interval();
            signals.busy_us += load.busy_us;
            signals.classes[WorkClass::from(class) as usize] = WorkLoad {
                arrived: load.arrived,
                waiting: load.queued,
                waited_us: state.waited_us(now_ns),
                shed,
            };
            if load.p50_us > 0 {
                last[class as usize] = load;
            }
            load
        });
        signals.classes[WorkClass::Write as usize] = self.writes.close_interval();
        self.last.set(last);
        (loads, signals)
    }

    /// Makes the plans in force those of the classes.
    fn obey(&self) {
        let (plan, shedding) = (*self.admission.borrow().plan(), *self.shedding.borrow().plan());
        for class in ReadClass::ALL {
            let limits = plan[class as usize];
            let mut state = self.inner.class(class).borrow_mut();
            state.limits = ReadLimits {
                running_max: limits.running_max.max(1),
                memory_bytes_max: limits.memory_bytes_max.min(READ_MEMORY_BYTES_MAX),
                queued_max: limits.queued_max.min(READ_QUEUE_MAX),
                wait_us_max: limits.wait_us_max,
            };
            state.shedding = shedding[WorkClass::from(class) as usize];
            drop(state);
            self.inner.hand_out(class);
        }
        self.writes.shedding.set(shedding[WorkClass::Write as usize]);
    }
}

impl Inner {
    fn class(&self, class: ReadClass) -> &RefCell<ReadsOf> {
        &self.classes[class as usize]
    }

    /// The permit of a read for which the class has counted a turn.
    fn permit(self: &Rc<Self>, class: ReadClass) -> Permit {
        let base_bytes = self.class(class).borrow().base_bytes();
        let turn = Some(self.turn(class));
        let charge = Charge { inner: self.clone(), class, bytes: base_bytes };
        let began_ns = Some(self.clock.monotonic_ns());
        Permit { turn, charge, base_bytes, held: [0; BATCHES_HELD], began_ns }
    }

    fn turn(self: &Rc<Self>, class: ReadClass) -> Turn {
        Turn { inner: self.clone(), class }
    }

    /// Puts somebody at the end of a queue; dropping the result takes it out again.
    fn queue_up<T>(
        self: &Rc<Self>,
        class: ReadClass,
        push: impl FnOnce(&mut ReadsOf, Waiter<T>),
        sender: oneshot::Sender<T>,
    ) -> Place {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        let waiter = Waiter { id, since_ns: self.clock.monotonic_ns(), sender };
        push(&mut self.class(class).borrow_mut(), waiter);
        Place { inner: self.clone(), class, id }
    }

    /// Gives turns to those who wait for as long as there are any.
    fn hand_out(self: &Rc<Self>, class: ReadClass) {
        let handing = &self.handing[class as usize];
        // A turn that nobody takes comes back while it is handed out; this loop sees it.
        if handing.replace(true) {
            return;
        }
        // Mostly nobody waits, and the clock need not be asked.
        if !self.class(class).borrow().has_waiting() {
            handing.set(false);
            return;
        }
        let now_ns = self.clock.monotonic_ns();
        loop {
            let next = self.class(class).borrow_mut().next(now_ns);
            // A receiver that is gone gives back what it was sent.
            match next {
                None => break,
                Some(Next::Returns(sender)) => drop(sender.send(self.turn(class))),
                Some(Next::Begins(sender)) => drop(sender.send(Ok(self.permit(class)))),
                Some(Next::Leaves(sender, error)) => drop(sender.send(Err(error))),
            }
        }
        handing.set(false);
    }
}

/// A place in a queue.
struct Place {
    inner: Rc<Inner>,
    class: ReadClass,
    id: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.inner.class(self.class).borrow_mut();
        // Whoever got a turn is in neither.
        if let Ok(at) = state.queue.binary_search_by_key(&self.id, |waiter| waiter.id) {
            state.queue.remove(at);
        }
        if let Ok(at) = state.returning.binary_search_by_key(&self.id, |waiter| waiter.id) {
            state.returning.remove(at);
        }
    }
}

/// Being one of those that run.
pub(super) struct Turn {
    inner: Rc<Inner>,
    class: ReadClass,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.inner.class(self.class).borrow_mut().running -= 1;
        self.inner.hand_out(self.class);
    }
}

/// Memory that a read is charged with.
struct Charge {
    inner: Rc<Inner>,
    class: ReadClass,
    bytes: u64,
}

impl Charge {
    fn set(&mut self, bytes: u64) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        let mut state = self.inner.class(self.class).borrow_mut();
        state.memory_bytes = state.memory_bytes - before + bytes;
        drop(state);
        if bytes < before {
            self.inner.hand_out(self.class);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// A read that was admitted; dropping it is its end.
pub struct Permit {
    turn: Option<Turn>,
    charge: Charge,
    base_bytes: u64,
    /// Bytes of the last batches.
    held: [u64; BATCHES_HELD],
    /// When it was admitted, until its first batch is there.
    began_ns: Option<u64>,
}

impl Permit {
    /// Bytes that the next batch should end at, by the memory that is free.
    pub fn batch_bytes(&self) -> usize {
        self.charge.inner.memory.batch_bytes()
    }

    /// Memory for a batch of `bytes`. While it has to wait for that others may have the turn.
    ///
    /// Errors: `Overloaded` when that takes too long.
    pub async fn charge_batch(&mut self, bytes: usize) -> Result<BatchCharge> {
        let inner = self.charge.inner.clone();
        if let Some(charge) = inner.memory.try_charge(bytes) {
            return Ok(charge);
        }
        self.step_aside();
        let is_going = self.began_ns.is_none();
        let charge = inner.memory.charge(bytes, is_going, inner.clock.monotonic_ns()).await;
        self.step_in().await;
        charge
    }

    /// A batch is ready, or with 0 bytes the end.
    pub fn answer(&mut self, batch_bytes: usize) {
        if let Some(began_ns) = self.began_ns.take() {
            let inner = &self.charge.inner;
            let us = inner.clock.monotonic_ns().saturating_sub(began_ns) / 1000;
            inner.class(self.charge.class).borrow_mut().latencies.add(us);
        }
        self.held.rotate_right(1);
        self.held[0] = batch_bytes as u64;
        self.charge.set(self.base_bytes + self.held.iter().sum::<u64>());
    }

    /// The whole answer is there, in the turn in which the read was admitted.
    pub fn answer_at_once(mut self) {
        let Some(began_ns) = self.began_ns.take() else { return };
        let inner = &self.charge.inner;
        let spent_ns = inner.clock.monotonic_ns().saturating_sub(began_ns);
        let mut class = inner.class(self.charge.class).borrow_mut();
        class.latencies.add(spent_ns / 1000);
        class.busy_ns += spent_ns;
    }

    /// The client takes nothing: others may have the turn.
    pub fn step_aside(&mut self) {
        if let Some(turn) = self.turn.take() {
            turn.inner.class(turn.class).borrow_mut().aside += 1;
        }
    }

    /// Waits for a turn again, before those that had none yet.
    pub async fn step_in(&mut self) {
        if self.turn.is_some() {
            return;
        }
        let (inner, class) = (self.charge.inner.clone(), self.charge.class);
        let (sender, returned) = oneshot::channel();
        let place =
            inner.queue_up(class, |state, waiter| state.returning.push_back(waiter), sender);
        inner.hand_out(class);
        let turn = returned.await;
        drop(place);
        self.turn = Some(turn.expect("who waits to return is never sent away"));
        inner.class(class).borrow_mut().aside -= 1;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.turn.is_none() {
            self.charge.inner.class(self.charge.class).borrow_mut().aside -= 1;
        }
    }
}
