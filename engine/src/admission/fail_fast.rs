//! What callers refuse by themselves, before a shard is asked: reads that would stand for too long
//! behind others, and operations on a partition far beyond its limit (`rate::PublishedRates`).
//!
//! Under overload most answers are refusals. One that goes to the shard and back costs that shard
//! as much as a cached row, which is missing for what could be done in time. So the shard tells its
//! callers how things stand, and each of them decides by the rule of the shard.
//!
//! ```text
//! a read would wait for:  as long as the first of the queue has waited, or
//!                         reads that callers let in and that have no turn yet x time between turns
//! ```
//! The first alone comes too late: while it has waited for a little, callers would let in what
//! takes long. So each of them counts what it lets in.
//!
//! Invariant: a queue is told of only once the shard itself refused for it, so that there is a
//! report; when nobody was refused for [`FORGOTTEN_AFTER_NS`], everybody asks the shard again.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::level::{LevelId, Terms};
use super::rate::{Asked, PublishedRates, Verdict};
use crate::clock::Clock;
use crate::error::{Error, Overload, Result, Whose};
use crate::policy::admission::ReadClass;

/// Time without refusals after which callers forget of a queue, once it is empty.
const FORGOTTEN_AFTER_NS: u64 = 1_000_000_000;
/// Longer times between two turns are pauses.
const PACE_NS_MAX: u64 = 100_000_000;

/// See the head of this file. Shared by a shard and its callers.
#[derive(Debug)]
pub struct FailFast {
    pub rates: Arc<PublishedRates>,
    queues: [Queues; ReadClass::COUNT],
}

/// The queues of one class of reads.
#[derive(Debug, Default)]
struct Queues {
    /// Whether callers know of any.
    any: AtomicBool,
    long: Mutex<Vec<LongQueue>>,
}

/// A queue in which somebody waits for long.
#[derive(Debug)]
struct LongQueue {
    level: LevelId,
    whose: Whose,
    /// Since when its first waits; `None` while it is empty.
    since_ns: Option<u64>,
    /// What callers refused, until it is taken, and when anybody was refused last.
    refused: u64,
    refused_ns: u64,
    /// Reads that callers let in and that have no turn yet.
    waiting: u64,
    /// Time between two turns, on average, and when the last one was; 0 before there were two.
    pace_ns: u64,
    turn_ns: u64,
}

impl LongQueue {
    /// How long a read that comes now would wait, about.
    fn wait_ns(&self, now_ns: u64) -> u64 {
        let waited_ns = self.since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
        waited_ns.max(self.waiting.saturating_mul(self.pace_ns))
    }

    fn has_turn(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.turn_ns);
        // A queue that was empty says of the time between turns only that it is not longer.
        let is_told = self.waiting > 1 || passed_ns < self.pace_ns;
        if is_told && passed_ns < PACE_NS_MAX {
            let pace_ns = if self.pace_ns == 0 { passed_ns } else { self.pace_ns };
            // One pause is no pace.
            self.pace_ns = (pace_ns * 15 + passed_ns.min(4 * pace_ns)) / 16;
        }
        self.turn_ns = now_ns;
    }
}

/// A read that its caller counts among those that wait; dropping it ends that.
#[derive(Debug)]
pub struct QueuePlace {
    fail_fast: Arc<FailFast>,
    class: ReadClass,
    level: LevelId,
}

impl QueuePlace {
    /// The read has its turn.
    pub fn has_turn(self, now_ns: u64) {
        let mut long = self.fail_fast.queues[self.class as usize].lock();
        if let Some(queue) = long.iter_mut().find(|queue| queue.level == self.level) {
            queue.has_turn(now_ns);
        }
        drop(long);
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        let mut long = self.fail_fast.queues[self.class as usize].lock();
        if let Some(queue) = long.iter_mut().find(|queue| queue.level == self.level) {
            queue.waiting = queue.waiting.saturating_sub(1);
        }
    }
}

/// What callers refused of the reads of a level.
#[derive(Debug)]
pub(super) struct RefusedByCallers {
    pub level: LevelId,
    pub times: u64,
    pub error: Error,
}

impl FailFast {
    /// One by which nothing is refused yet. `salt` decides the draws.
    pub fn new(salt: u64) -> Arc<Self> {
        let rates = Arc::new(PublishedRates::new(salt));
        Arc::new(FailFast { rates, queues: Default::default() })
    }

    /// A caller is about to ask for a read on these terms. Its place counts until it has its turn.
    ///
    /// Errors: `Overloaded` where it would wait for half of its time.
    #[inline]
    pub fn check_queue(
        self: &Arc<Self>,
        class: ReadClass,
        terms: &Terms,
        clock: &dyn Clock,
    ) -> Result<Option<QueuePlace>> {
        match self.queues[class as usize].any.load(Relaxed) && terms.deadline.is_some() {
            true => self.queue_up(class, terms, clock.monotonic_ns()),
            false => Ok(None),
        }
    }

    #[cold]
    fn queue_up(
        self: &Arc<Self>,
        class: ReadClass,
        terms: &Terms,
        now_ns: u64,
    ) -> Result<Option<QueuePlace>> {
        let Some(deadline) = terms.deadline else { return Ok(None) };
        let mut long = self.queues[class as usize].lock();
        let queue = long.iter_mut().find(|queue| queue.level == terms.level);
        let Some(queue) = queue else { return Ok(None) };
        let wait_ns = queue.wait_ns(now_ns);
        if deadline.is_half_over_after(wait_ns, now_ns) {
            queue.refused += 1;
            queue.refused_ns = now_ns;
            return Err(behind(wait_ns, &queue.whose));
        }
        queue.waiting += 1;
        Ok(Some(QueuePlace { fail_fast: self.clone(), class, level: terms.level }))
    }

    /// A caller is about to ask for an operation on a partition, unless nothing is known of what
    /// shares its limits. True where it is counted.
    ///
    /// Errors: `RateLimited`.
    #[inline]
    pub fn check_rate(
        &self,
        asked: impl FnOnce() -> Option<Asked>,
        clock: &dyn Clock,
    ) -> Result<bool> {
        if !self.rates.has_any() {
            return Ok(false);
        }
        let Some(asked) = asked() else { return Ok(false) };
        match self.rates.judge(asked, || clock.wall_us()) {
            Verdict::Unknown => Ok(false),
            Verdict::GoesThrough => Ok(true),
            Verdict::Refused(error) => Err(error),
        }
    }

    /// Tells callers of a queue whose first waits since then.
    pub(super) fn tell(
        &self,
        class: ReadClass,
        (level, whose): (LevelId, Whose),
        (since_ns, now_ns): (u64, u64),
    ) {
        let queues = &self.queues[class as usize];
        let mut long = queues.lock();
        match long.iter_mut().find(|queue| queue.level == level) {
            Some(queue) => (queue.since_ns, queue.refused_ns) = (Some(since_ns), now_ns),
            None => long.push(LongQueue {
                level,
                whose,
                since_ns: Some(since_ns),
                refused: 0,
                refused_ns: now_ns,
                waiting: 0,
                pace_ns: 0,
                turn_ns: 0,
            }),
        }
        queues.any.store(true, Relaxed);
    }

    /// Tells callers how the queues stand that they know of; `since_ns` is that of the first.
    pub(super) fn follow(&self, class: ReadClass, since_ns: impl Fn(LevelId) -> Option<u64>) {
        let queues = &self.queues[class as usize];
        let mut long = queues.lock();
        for queue in long.iter_mut() {
            queue.since_ns = since_ns(queue.level);
        }
    }

    /// Whether callers know of any queue of a class.
    pub(super) fn knows_queues(&self, class: ReadClass) -> bool {
        self.queues[class as usize].any.load(Relaxed)
    }

    /// Takes over what callers refused since it was asked last. Queues that have been empty for
    /// long are forgotten.
    pub(super) fn take_refused(&self, class: ReadClass, now_ns: u64) -> Vec<RefusedByCallers> {
        let queues = &self.queues[class as usize];
        if !queues.any.load(Relaxed) {
            return Vec::new();
        }
        let mut long = queues.lock();
        let mut refused = Vec::new();
        for queue in long.iter_mut().filter(|queue| queue.refused > 0) {
            refused.push(RefusedByCallers {
                level: queue.level,
                times: std::mem::take(&mut queue.refused),
                error: behind(queue.wait_ns(now_ns), &queue.whose),
            });
        }
        long.retain(|queue| {
            let is_recent = now_ns.saturating_sub(queue.refused_ns) < FORGOTTEN_AFTER_NS;
            queue.since_ns.is_some() || queue.waiting > 0 || is_recent
        });
        queues.any.store(!long.is_empty(), Relaxed);
        refused
    }
}

impl Queues {
    fn lock(&self) -> MutexGuard<'_, Vec<LongQueue>> {
        self.long.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn behind(wait_ns: u64, whose: &Whose) -> Error {
    Error::Overloaded(Overload::Behind { wait_us: wait_ns / 1000, whose: whose.clone() })
}
