//! The shares of one shard's classes: as a policy plans, a statement set, or the engine finds
//! right.
//!
//! | who says it | holds |
//! |---|---|
//! | a policy | as long as it is in charge, for the classes that it plans |
//! | a statement | for all shards (`scheduler.rs`), where it says another number than the default |
//! | the engine | for classes whose shares it makes depend on their work |
//!
//! Without a policy nothing of requests is counted here.

use std::cell::{Cell, RefCell};

use super::class::Class;
use crate::config::{IO_PLAN_MS, IO_SHARES_MAX};
use crate::policy::io_priority::{ClassLoad, DiskLoad, IoPriorityPolicy};
use crate::policy::{Governed, PlanStatus};
use crate::probe::Latencies;

/// Shares of all classes; 0 stands for what a statement set.
type Plan = [u32; Class::COUNT];

/// See the head of this file.
pub(super) struct Priority {
    governed: RefCell<Governed<dyn IoPriorityPolicy, Plan>>,
    /// The plan in force.
    plan: Cell<Plan>,
    /// What the engine finds right; 0 where that is the default.
    native: Cell<Plan>,
    /// What happened since the last plan; none where nobody asks.
    interval: RefCell<Option<Box<Interval>>>,
}

/// What happened since the last plan.
struct Interval {
    since_ns: u64,
    classes: [ClassInterval; Class::COUNT],
    /// Of requests that ended, in the disk, microseconds.
    execution: Latencies,
}

#[derive(Default)]
struct ClassInterval {
    arrived: u64,
    started: u64,
    bytes: u64,
    /// Of requests that were started, in the queue, microseconds.
    delays: Latencies,
}

/// What a class has now.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Present {
    pub queued: u64,
    pub queued_bytes: u64,
    /// The shares that a statement set.
    pub set: u32,
}

impl Interval {
    fn new(now_ns: u64) -> Box<Self> {
        let (classes, execution) = Default::default();
        Box::new(Interval { since_ns: now_ns, classes, execution })
    }

    fn is_idle(&self) -> bool {
        self.classes.iter().all(|class| class.arrived == 0 && class.started == 0)
    }
}

impl Priority {
    pub fn new() -> Self {
        let governed = RefCell::new(Governed::new(Plan::default()));
        let (plan, native, interval) = Default::default();
        Priority { governed, plan, native, interval }
    }

    /// Puts a policy in charge; `None`: the shares that statements set.
    pub fn set(&self, policy: Option<(String, Box<dyn IoPriorityPolicy>)>, now_ns: u64) {
        *self.interval.borrow_mut() = policy.is_some().then(|| Interval::new(now_ns));
        self.governed.borrow_mut().set(policy);
        self.plan.set(Plan::default());
    }

    pub fn status(&self) -> PlanStatus {
        self.governed.borrow().status()
    }

    pub fn metrics(&self) -> Vec<(String, f64)> {
        self.governed.borrow_mut().metrics("io-priority", |policy| policy.metrics())
    }

    /// Gives a class these shares where nobody else says anything. Returns whether that is new.
    pub fn set_native(&self, class: usize, shares: u32) -> bool {
        let mut native = self.native.get();
        let before = std::mem::replace(&mut native[class], shares);
        self.native.set(native);
        before != shares
    }

    /// The shares of a class of which a statement set so many.
    pub fn shares(&self, class: usize, set: u32) -> u32 {
        match self.plan.get()[class] {
            0 => self.unplanned(class, set),
            planned => planned,
        }
    }

    fn unplanned(&self, class: usize, set: u32) -> u32 {
        match self.native.get()[class] {
            0 => set,
            native if set == Class::ALL[class].default_shares() => native,
            _ => set,
        }
    }

    /// A request came.
    pub fn note_arrived(&self, class: usize) {
        if let Some(interval) = &mut *self.interval.borrow_mut() {
            interval.classes[class].arrived += 1;
        }
    }

    /// The disk got a request that had waited for so long.
    pub fn note_started(&self, class: usize, bytes: usize, delay_ns: u64) {
        if let Some(interval) = &mut *self.interval.borrow_mut() {
            let class = &mut interval.classes[class];
            class.started += 1;
            class.bytes += bytes as u64;
            class.delays.add(delay_ns / 1000);
        }
    }

    /// The disk had a request for so long.
    pub fn note_ended(&self, execution_ns: u64) {
        if let Some(interval) = &mut *self.interval.borrow_mut() {
            interval.execution.add(execution_ns / 1000);
        }
    }

    /// Asks for a plan where an interval is over in which there was I/O. `disk` is what does not
    /// come of the interval. Returns whether the plan is another one.
    pub fn tick(
        &self,
        now_ns: u64,
        disk: DiskLoad,
        present: impl FnOnce() -> [Present; Class::COUNT],
    ) -> bool {
        let mut interval = self.interval.borrow_mut();
        let Some(own) = &mut *interval else { return false };
        let elapsed_ns = now_ns.saturating_sub(own.since_ns);
        if elapsed_ns < IO_PLAN_MS * 1_000_000 {
            return false;
        }
        let (present, before) = (present(), self.plan.get());
        let waits = present.iter().any(|class| class.queued > 0);
        let mut governed = self.governed.borrow_mut();
        let has_failed = governed.status().failure.is_some();
        if !has_failed && own.is_idle() && !waits && disk.in_disk == 0 {
            *own = Interval::new(now_ns);
            return false;
        }
        let loads = std::array::from_fn::<_, { Class::COUNT }, _>(|class| {
            let (counted, Present { queued, queued_bytes, set }) =
                (&own.classes[class], present[class]);
            ClassLoad {
                arrived: counted.arrived,
                started: counted.started,
                bytes: counted.bytes,
                queued,
                queued_bytes,
                p50_us: counted.delays.percentile(50),
                p99_us: counted.delays.percentile(99),
                shares: self.shares(class, set),
            }
        });
        let disk = DiskLoad {
            elapsed_us: elapsed_ns / 1000,
            p50_us: own.execution.percentile(50),
            p99_us: own.execution.percentile(99),
            ..disk
        };
        governed.ask("io-priority", |policy, plan| policy.plan(now_ns / 1000, &disk, &loads, plan));
        let plan = governed.plan().map(|shares| shares.min(IO_SHARES_MAX));
        self.plan.set(plan);
        let goes_on = governed.is_governed();
        *interval = goes_on.then(|| Interval::new(now_ns));
        plan != before
    }
}
