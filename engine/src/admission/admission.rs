//! The one point through which reads and writes enter a shard; see the head of `admission`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::account::{Account, on_account};
use super::class::{Class, ClassStatus};
use super::diagnosis::{LongWait, LongWaits, NotedRead, ReadStatus};
use super::fail_fast::{FailFast, RefusedByCallers};
use super::level::{DEFAULT_LEVEL, LevelId, LevelOptions, LevelStatus, Terms};
use super::memory::ReadMemory;
use super::permit::{Inner, Permit};
use super::write::{WaitingWrite, WriteTotals, Writes};
use crate::clock::{Clock, Deadline};
use crate::config::{READ_MEMORY_BYTES_MAX, READ_PLAN_MS, READ_QUEUE_MAX};
use crate::error::{Error, Result};
use crate::policy::admission::{
    LoadSheddingPolicy, LoadSignals, ReadAdmissionPolicy, ReadClass, ReadLimits, ReadLoad,
    ReadPlan, SheddingPlan, WorkClass, WorkLoad,
};
use crate::policy::{Governed, PlanStatus};
use crate::schema::table_schema::SchemaRef;
use crate::scoped::{Timed, scoped};

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

/// A wait for the shard that is too short to say that there is too much work.
const SHORT_WAIT_NS: u64 = 1_000_000;

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
    /// A point whose reads share `memory` for their batches with those of other shards, and whose
    /// callers refuse by `fail_fast`.
    pub fn new(clock: Arc<dyn Clock>, memory: Arc<ReadMemory>, fail_fast: Arc<FailFast>) -> Self {
        let interval_ns = Cell::new(clock.monotonic_ns());
        Admission {
            writes: Rc::new(Writes::new(clock.clone())),
            inner: Rc::new(Inner {
                clock,
                memory,
                fail_fast,
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

    /// A read that has to be done by a time may have to wait behind others.
    ///
    /// Errors: `Overloaded` where these have waited for half of its time already.
    pub fn check_queue(&self, class: ReadClass, terms: &Terms) -> Result<()> {
        let (inner, level) = (&self.inner, terms.level);
        let Some(deadline) = terms.deadline else { return Ok(()) };
        if !inner.class(class).borrow().has_waiting() {
            return Ok(());
        }
        let now_ns = inner.clock.monotonic_ns();
        let refused = inner.class(class).borrow_mut().refuse_behind(
            level,
            (deadline, now_ns),
            &inner.fail_fast,
        );
        refused.map_or(Ok(()), |error| Err(inner.told(class, level, error)))
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
        self.turn_if(class, level, false)
    }

    /// As `turn_now`, for a read that is mostly done at once: however many reads compute.
    pub fn brief_turn_now(&self, class: ReadClass, level: LevelId) -> Option<Permit> {
        self.turn_if(class, level, true)
    }

    fn turn_if(&self, class: ReadClass, level: LevelId, is_brief: bool) -> Option<Permit> {
        let begins = self.inner.class(class).borrow_mut().enter_now(level, is_brief);
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
        self.take_over();
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
    pub fn measured<F: Future>(
        &self,
        class: ReadClass,
        account: Rc<Account>,
        work: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        let (inner, spender) = (self.inner.clone(), account.clone());
        let tell = move |spent_ns| {
            inner.class(class).borrow_mut().busy_ns += spent_ns;
            spender.spend(spent_ns);
        };
        scoped(work, (on_account(account), Timed::new(self.inner.clock.clone(), tell)))
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

    /// Own figures of the policies in charge.
    pub fn admission_metrics(&self) -> Vec<(String, f64)> {
        self.admission.borrow_mut().metrics("read-admission", |policy| policy.metrics())
    }

    pub fn shedding_metrics(&self) -> Vec<(String, f64)> {
        self.shedding.borrow_mut().metrics("load-shedding", |policy| policy.metrics())
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
        self.take_over();
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
        self.take_over();
        let now_ns = self.inner.clock.monotonic_ns();
        self.inner.memory.refuse_late(now_ns);
        let elapsed_ns = now_ns.saturating_sub(self.interval_ns.get());
        if elapsed_ns < READ_PLAN_MS * 1_000_000 {
            return;
        }
        self.interval_ns.set(now_ns);
        let is_shedding = self.shedding.borrow().plan().iter().any(|shed| shed.per_mille > 0);
        if self.is_idle() && !is_shedding {
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

    /// Counts what callers refused by themselves, and has the log say why.
    fn take_over(&self) {
        let inner = &self.inner;
        for class in ReadClass::ALL {
            for refused in inner.fail_fast.take_refused(class, inner.clock.monotonic_ns()) {
                let RefusedByCallers { level, times, error } = refused;
                inner.class(class).borrow_mut().count_refused_by_callers(level, times);
                inner.tell(class, level, &error);
            }
        }
    }

    /// Whether nothing is under way, and nothing came since the last interval in which there was
    /// something.
    pub fn is_idle(&self) -> bool {
        let is_idle = |class: &ReadClass| self.inner.class(*class).borrow().is_idle();
        self.writes.is_idle() && ReadClass::ALL.iter().all(is_idle)
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
