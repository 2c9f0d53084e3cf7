//! The one point through which reads and writes enter a shard; see the head of `admission`.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::account::{Account, Keeper};
use super::class::{Class, ClassStatus, Next};
use super::diagnosis::{Scene, report};
use super::governed::{Governed, PlanStatus};
use super::lane::{Lane, Waiter, Want};
use super::level::{DEFAULT_LEVEL, LevelId, LevelOptions, LevelStatus, Terms};
use super::long_wait::{LongWait, LongWaits};
use super::memory::{BatchCharge, ReadMemory, charged};
use super::reads::{NotedRead, Read, ReadState, ReadStatus, Reads};
use super::write::{WaitingWrite, WriteTotals, Writes};
use crate::clock::{Clock, Deadline};
use crate::config::{READ_MEMORY_BYTES_MAX, READ_PLAN_MS, READ_QUEUE_MAX};
use crate::error::{Error, Result};
use crate::policy::admission::{
    LoadSheddingPolicy, LoadSignals, ReadAdmissionPolicy, ReadClass, ReadLimits, ReadLoad,
    ReadPlan, SheddingPlan, WorkClass, WorkLoad,
};
use crate::schema::table_schema::SchemaRef;

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

/// A wait for the shard that is too short to say that there is too much work.
const SHORT_WAIT_NS: u64 = 1_000_000;
/// Time after which the log is told again who holds what.
const TELL_AGAIN_NS: u64 = 30_000_000_000;

/// The reads of one class.
type ReadsOf = Class<Turn, Permit, Charge>;

struct Inner {
    clock: Arc<dyn Clock>,
    memory: Arc<ReadMemory>,
    classes: [RefCell<ReadsOf>; ReadClass::COUNT],
    /// Somebody is handing out turns already.
    handing: [Cell<bool>; ReadClass::COUNT],
    next_id: Cell<u64>,
    reads: Rc<Reads>,
    /// Thousandths of the last interval for which reads computed.
    busy_per_mille: Cell<u64>,
    /// When the log was told who holds what.
    told_ns: Cell<Option<u64>>,
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
                classes: ReadClass::ALL.map(|class| {
                    RefCell::new(Class::new(class, NATIVE[class as usize], &DEFAULT_LEVEL.into()))
                }),
                handing: Default::default(),
                next_id: Cell::new(0),
                reads: Rc::default(),
                busy_per_mille: Cell::new(0),
                told_ns: Cell::new(None),
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

    /// Work has waited for so long, for its shard or in it: as a read in a queue.
    ///
    /// Errors: `Overloaded` for what waited longer than its level lets it, or has too little of its
    /// time left.
    pub fn check_wait(&self, class: WorkClass, terms: &Terms, waited_ns: u64) -> Result<()> {
        if waited_ns < SHORT_WAIT_NS {
            return Ok(());
        }
        let (inner, level) = (&self.inner, terms.level);
        let waited = (waited_ns / 1000, inner.clock.monotonic_ns());
        // Writes have no queues; those of a level stand with its reads.
        let of = if class == WorkClass::Scan { ReadClass::Scan } else { ReadClass::Keys };
        let refused = inner.class(of).borrow_mut().refuse_waited(class, terms, waited);
        refused.map_or(Ok(()), |error| Err(inner.told(of, level, error)))
    }

    /// Waits for the turn of a read that was admitted. Dropping the future leaves the queue.
    ///
    /// Errors: `Overloaded` when the queue is full, the wait too long, or what is left until the
    /// deadline too short.
    pub async fn turn(
        &self,
        class: ReadClass,
        level: LevelId,
        deadline: Option<Deadline>,
    ) -> Result<Permit> {
        let inner = &self.inner;
        let entered = inner.class(class).borrow_mut().enter(level);
        match entered {
            Ok(true) => return Ok(inner.permit(class, level)),
            Ok(false) => {}
            Err(error) => return Err(inner.told(class, level, error)),
        }
        let (sender, admitted) = oneshot::channel();
        let waiter = inner.waiter(deadline, sender);
        let place =
            inner.queue_up(class, level, waiter, |lane, waiter| lane.queue.push_back(waiter));
        let permit = admitted.await;
        drop(place);
        let permit = permit.map_err(|_| Error::Closed).flatten();
        permit.map_err(|error| inner.told(class, level, error))
    }

    /// A read is under way until the result is dropped.
    pub fn note(&self, class: ReadClass, level: LevelId, schema: SchemaRef) -> NotedRead {
        let (level, inner) = (self.inner.class(class).borrow().known(level), &self.inner);
        inner.reads.note(class, level, schema, inner.clock.monotonic_ns())
    }

    /// The reads under way, in the order in which they came.
    pub fn reads(&self) -> Vec<ReadStatus> {
        self.inner.reads.statuses(self.inner.clock.monotonic_ns())
    }

    /// Asks a read to end; false where there is none of that number.
    pub fn kill(&self, number: u64) -> bool {
        self.inner.reads.kill(number)
    }

    /// Tells the log who holds what when a read gets no further, unless it was told of late.
    pub fn tell(&self, class: ReadClass, level: LevelId, problem: &Error) {
        self.inner.tell(class, level, problem);
    }

    /// As [`turn`](Self::turn), for a read of a table, whose wait is kept if it is long.
    ///
    /// Errors: as `turn`.
    pub async fn turn_of(
        &self,
        class: ReadClass,
        (level, deadline): (LevelId, Option<Deadline>),
        table: impl FnOnce() -> String,
    ) -> Result<Permit> {
        let clock = &self.inner.clock;
        let since_ns = clock.monotonic_ns();
        let turn = self.turn(class, level, deadline).await;
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
    pub fn turn_now(&self, class: ReadClass, level: LevelId) -> Option<Permit> {
        let begins = self.inner.class(class).borrow_mut().enter_now(level);
        begins.then(|| self.inner.permit(class, level))
    }

    /// How long a read of a level may wait for its turn, where that is said; then
    /// [`refuse_late`](Self::refuse_late) refuses it.
    pub fn wait_max(&self, class: ReadClass, level: LevelId) -> Option<Duration> {
        self.inner.class(class).borrow_mut().lane(level).wait_max()
    }

    /// Refuses reads that wait for too long.
    pub fn refuse_late(&self, class: ReadClass) {
        self.inner.hand_out(class);
    }

    /// Makes these the service levels beside the one of what names none. Reads of others go on.
    pub fn set_levels(&self, levels: &[(LevelId, Arc<str>, LevelOptions)]) {
        for class in ReadClass::ALL {
            self.inner.class(class).borrow_mut().set_levels(levels);
            self.inner.hand_out(class);
        }
    }

    /// The shares of a service level.
    pub fn shares(&self, level: LevelId) -> u32 {
        self.inner.class(ReadClass::Keys).borrow_mut().lane(level).options.shares()
    }

    /// How the reads of a service level stand.
    pub fn level_status(&self, level: LevelId) -> LevelStatus {
        let mut all = LevelStatus::default();
        for class in ReadClass::ALL {
            let class = self.inner.class(class).borrow();
            for lane in class.lanes().iter().filter(|lane| lane.level == level) {
                all = all.and(LevelStatus {
                    running: u64::from(lane.running),
                    queued: lane.queue.len() as u64,
                    aside: u64::from(lane.aside),
                    memory_bytes: lane.memory_bytes,
                    admitted: lane.totals.admitted,
                    refused: lane.totals.refused,
                    killed: lane.totals.killed,
                });
            }
        }
        all
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

    /// Runs the work of a read, counting the time that it computes. Buffers that it allocates are
    /// charged to its account.
    pub async fn measured<F: Future>(
        &self,
        class: ReadClass,
        account: Rc<Account>,
        work: F,
    ) -> F::Output {
        let mut work = pin!(work);
        poll_fn(|context| {
            let _entered = account.enter();
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
            running: state.running(),
            queued: state.queued(),
            aside: state.aside(),
            memory_bytes: state.memory_bytes(),
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
        self.inner.busy_per_mille.set(signals.busy_us * 1000 / signals.elapsed_us.max(1));
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
            state.set_limits(ReadLimits {
                running_max: limits.running_max.max(1),
                memory_bytes_max: limits.memory_bytes_max.min(READ_MEMORY_BYTES_MAX),
                queued_max: limits.queued_max.min(READ_QUEUE_MAX),
                wait_us_max: limits.wait_us_max,
            });
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
    fn permit(self: &Rc<Self>, class: ReadClass, level: LevelId) -> Permit {
        let (base_bytes, level) = {
            let class = self.class(class).borrow();
            (class.base_bytes(), class.known(level))
        };
        let turn = Some(self.turn(class, level));
        let charge = self.charge(class, level, base_bytes);
        let began_ns = Some(self.clock.monotonic_ns());
        let id = self.fresh_id();
        let (building, account, read) = (None, None, None);
        let held = [0; BATCHES_HELD];
        Permit { id, turn, charge, building, account, base_bytes, held, began_ns, read }
    }

    fn told(&self, class: ReadClass, level: LevelId, error: Error) -> Error {
        self.tell(class, level, &error);
        error
    }

    fn tell(&self, class: ReadClass, level: LevelId, problem: &Error) {
        let now_ns = self.clock.monotonic_ns();
        let is_recent = |told_ns: u64| now_ns.saturating_sub(told_ns) < TELL_AGAIN_NS;
        if self.told_ns.get().is_some_and(is_recent) {
            return;
        }
        self.told_ns.set(Some(now_ns));
        let reads = self.reads.statuses(now_ns);
        let class = self.class(class).borrow();
        let name = |read: &ReadStatus| {
            let lane = class.lanes().iter().find(|lane| lane.level == read.level);
            lane.map_or_else(|| read.level.0.to_string(), |lane| lane.name.to_string())
        };
        let names: Vec<String> = reads.iter().map(name).collect();
        let report = report(&Scene {
            problem: &problem.to_string(),
            reads: &reads,
            names: &names,
            busy_per_mille: self.busy_per_mille.get(),
            has_memory: class.free_bytes(level) >= class.base_bytes(),
            has_turns: class.has_turn(level),
        });
        tracing::warn!("a read got no further: {report}");
    }

    fn turn(self: &Rc<Self>, class: ReadClass, level: LevelId) -> Turn {
        Turn { inner: self.clone(), class, level }
    }

    /// Bytes that the class has counted.
    fn charge(self: &Rc<Self>, class: ReadClass, level: LevelId, bytes: u64) -> Charge {
        Charge { inner: self.clone(), class, level, bytes }
    }

    /// A read of a level holds so many bytes instead of those before.
    fn change(self: &Rc<Self>, class: ReadClass, level: LevelId, before: u64, after: u64) {
        let mut state = self.class(class).borrow_mut();
        let lane = state.lane(level);
        lane.memory_bytes = lane.memory_bytes - before + after;
        drop(state);
        if after < before {
            self.hand_out(class);
        }
    }

    fn fresh_id(&self) -> u64 {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        id
    }

    fn waiter<T>(&self, deadline: Option<Deadline>, sender: oneshot::Sender<T>) -> Waiter<T> {
        Waiter { id: self.fresh_id(), since_ns: self.clock.monotonic_ns(), deadline, sender }
    }

    /// Puts somebody at the end of a queue; dropping the result takes it out again.
    fn queue_up<T>(
        self: &Rc<Self>,
        class: ReadClass,
        level: LevelId,
        waiter: Waiter<T>,
        push: impl FnOnce(&mut Lane<Turn, Permit, Charge>, Waiter<T>),
    ) -> Place {
        let id = waiter.id;
        push(self.class(class).borrow_mut().lane(level), waiter);
        Place { inner: self.clone(), class, level, id }
    }

    /// Gives turns and memory to those who wait for as long as there are any.
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
                Some(Next::Returns(level, sender)) => drop(sender.send(self.turn(class, level))),
                Some(Next::Begins(level, sender)) => {
                    drop(sender.send(Ok(self.permit(class, level))));
                }
                Some(Next::Grows(level, bytes, sender)) => {
                    drop(sender.send(Ok(self.charge(class, level, bytes))));
                }
                Some(Next::Leaves(sender, error)) => drop(sender.send(Err(error))),
                Some(Next::Starves(sender, error)) => drop(sender.send(Err(error))),
            }
        }
        handing.set(false);
    }
}

/// A place in a queue.
struct Place {
    inner: Rc<Inner>,
    class: ReadClass,
    level: LevelId,
    id: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.inner.class(self.class).borrow_mut().lane(self.level).forget(self.id);
        // Those behind it may want less than it did.
        self.inner.hand_out(self.class);
    }
}

/// Being one of those that run.
pub(super) struct Turn {
    inner: Rc<Inner>,
    class: ReadClass,
    level: LevelId,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.inner.class(self.class).borrow_mut().lane(self.level).running -= 1;
        self.inner.hand_out(self.class);
    }
}

/// Memory that a read is charged with.
pub(super) struct Charge {
    inner: Rc<Inner>,
    class: ReadClass,
    level: LevelId,
    bytes: u64,
}

impl Charge {
    fn set(&mut self, bytes: u64) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        self.inner.change(self.class, self.level, before, bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The level that an account belongs to.
struct OfLevel {
    inner: Rc<Inner>,
    class: ReadClass,
    level: LevelId,
}

impl Keeper for OfLevel {
    fn change(&self, before: u64, after: u64) {
        self.inner.change(self.class, self.level, before, after);
    }
}

/// A read that was admitted; dropping it is its end.
pub struct Permit {
    id: u64,
    turn: Option<Turn>,
    charge: Charge,
    /// Of the batch that is built.
    building: Option<Charge>,
    /// Of other buffers, once it may have any.
    account: Option<Rc<Account>>,
    base_bytes: u64,
    /// Bytes of the last batches.
    held: [u64; BATCHES_HELD],
    /// When it was admitted, until its first batch is there.
    began_ns: Option<u64>,
    /// Where people see it.
    read: Option<Rc<Read>>,
}

impl Permit {
    /// Lets people see how the read fares.
    pub fn show(&mut self, noted: &NotedRead) {
        self.read = Some(noted.read.clone());
        self.show_state(ReadState::Running);
    }

    fn show_state(&self, state: ReadState) {
        let Some(read) = &self.read else { return };
        read.state.set(state);
        let building = self.building.as_ref().map_or(0, |building| building.bytes);
        read.memory_bytes.set(self.held_bytes() + building);
    }

    /// The account for buffers of the read, see [`Admission::measured`].
    pub fn account(&mut self) -> Rc<Account> {
        let (inner, class, level) = self.place();
        let new = || Account::new(Box::new(OfLevel { inner, class, level }));
        self.account.get_or_insert_with(new).clone()
    }

    /// What it holds beside the batch that it builds.
    fn held_bytes(&self) -> u64 {
        self.charge.bytes + self.account.as_ref().map_or(0, |account| account.bytes())
    }

    /// Bytes that the next batch should end at, by the memory that is free: of all reads, and of
    /// those of its level.
    pub fn batch_bytes(&self) -> usize {
        let Charge { inner, class, level, .. } = &self.charge;
        inner.memory.batch_bytes(inner.class(*class).borrow().free_bytes(*level))
    }

    /// Memory for a batch of `bytes`. While it has to wait for that others may have the turn.
    ///
    /// Errors: `Overloaded` when that takes too long, or the read is ended for what its level
    /// holds.
    pub async fn charge_batch(&mut self, bytes: usize) -> Result<BatchCharge> {
        self.building = None;
        let building = self.grow(charged(bytes)).await?;
        self.building = Some(building);
        self.show_state(ReadState::Running);
        let inner = self.charge.inner.clone();
        if let Some(charge) = inner.memory.try_charge(bytes) {
            return Ok(charge);
        }
        self.give_turn(ReadState::Memory);
        let is_going = self.began_ns.is_none();
        let charge = inner.memory.charge(bytes, is_going, inner.clock.monotonic_ns()).await;
        self.step_in().await;
        charge
    }

    /// So many bytes more of what its level has.
    async fn grow(&mut self, bytes: u64) -> Result<Charge> {
        let (inner, class, level) = self.place();
        let want = Want { read: self.id, bytes, held: self.held_bytes() };
        let grown = inner.class(class).borrow_mut().grow(level, want);
        match grown {
            Ok(true) => return Ok(inner.charge(class, level, bytes)),
            Ok(false) => {}
            Err(error) => return Err(inner.told(class, level, error)),
        }
        self.give_turn(ReadState::Memory);
        let (sender, granted) = oneshot::channel();
        let waiter = inner.waiter(None, sender);
        let place = inner.queue_up(class, level, waiter, |lane, waiter| {
            lane.starving.push_back((want, waiter));
        });
        // Stepping aside may have freed what it waits for.
        inner.hand_out(class);
        let charge = granted.await;
        drop(place);
        let charge = charge.map_err(|_| Error::Closed).flatten();
        self.step_in().await;
        charge.map_err(|error| inner.told(class, level, error))
    }

    fn place(&self) -> (Rc<Inner>, ReadClass, LevelId) {
        (self.charge.inner.clone(), self.charge.class, self.charge.level)
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
        self.building = None;
        self.show_state(ReadState::Running);
    }

    /// The whole answer is there, in the turn in which the read was admitted. Returns the ns that
    /// it took.
    pub fn answer_at_once(mut self) -> u64 {
        let Some(began_ns) = self.began_ns.take() else { return 0 };
        let inner = &self.charge.inner;
        let spent_ns = inner.clock.monotonic_ns().saturating_sub(began_ns);
        let mut class = inner.class(self.charge.class).borrow_mut();
        class.latencies.add(spent_ns / 1000);
        class.busy_ns += spent_ns;
        spent_ns
    }

    /// The client takes nothing: others may have the turn.
    pub fn step_aside(&mut self) {
        self.give_turn(ReadState::Client);
    }

    /// Others may have the turn.
    fn give_turn(&mut self, state: ReadState) {
        self.show_state(state);
        if let Some(turn) = self.turn.take() {
            let mut class = turn.inner.class(turn.class).borrow_mut();
            class.lane(turn.level).aside += 1;
            class.unbless(turn.level, self.id);
            drop(class);
            drop(turn);
        }
    }

    /// Waits for a turn again, before those that had none yet.
    pub async fn step_in(&mut self) {
        if self.turn.is_some() {
            return;
        }
        let (inner, class, level) = self.place();
        let (sender, returned) = oneshot::channel();
        let waiter = inner.waiter(None, sender);
        let place =
            inner.queue_up(class, level, waiter, |lane, waiter| lane.returning.push_back(waiter));
        inner.hand_out(class);
        let turn = returned.await;
        drop(place);
        self.turn = Some(turn.expect("who waits to return is never sent away"));
        inner.class(class).borrow_mut().lane(level).aside -= 1;
        self.show_state(ReadState::Running);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let (inner, class, level) = self.place();
        let mut state = inner.class(class).borrow_mut();
        if self.turn.is_none() {
            state.lane(level).aside -= 1;
        }
        let was_blessed = state.unbless(level, self.id);
        drop(state);
        if was_blessed {
            inner.hand_out(class);
        }
    }
}
