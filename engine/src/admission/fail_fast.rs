//! What callers refuse by themselves, before a shard is asked: reads that would stand for too long
//! behind others, and operations on a partition far beyond its limit (`rate::PublishedRates`).
//!
//! Under overload most answers are refusals. One that goes to the shard and back costs that shard
//! as much as a cached row, which is missing for what could be done in time. So the shard tells its
//! callers how things stand, and each of them decides by the rule of the shard.
//!
//! Invariant: a queue is told of only once the shard itself refused for it, so that there is a
//! report; when the queue is empty, everybody asks the shard again.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::level::{LevelId, Terms};
use super::rate::{Asked, PublishedRates, Verdict};
use crate::clock::Clock;
use crate::error::{Error, Overload, Result, Whose};
use crate::policy::admission::ReadClass;

/// See the head of this file. Shared by a shard and its callers.
#[derive(Debug)]
pub struct FailFast {
    pub rates: Arc<PublishedRates>,
    queues: [Queues; ReadClass::COUNT],
}

/// The queues of one class of reads.
#[derive(Debug, Default)]
struct Queues {
    /// Whether any of them has somebody in it.
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
    /// What callers refused, until it is taken.
    refused: u64,
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

    /// A caller is about to ask for a read on these terms.
    ///
    /// Errors: `Overloaded` where others wait for half of its time already.
    #[inline]
    pub fn check_queue(&self, class: ReadClass, terms: &Terms, clock: &dyn Clock) -> Result<()> {
        match self.queues[class as usize].any.load(Relaxed) && terms.deadline.is_some() {
            true => self.queues[class as usize].check(terms, clock.monotonic_ns()),
            false => Ok(()),
        }
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
    pub(super) fn tell(&self, class: ReadClass, (level, whose): (LevelId, Whose), since_ns: u64) {
        let queues = &self.queues[class as usize];
        let mut long = queues.lock();
        match long.iter_mut().find(|queue| queue.level == level) {
            Some(queue) => queue.since_ns = Some(since_ns),
            None => {
                long.push(LongQueue { level, whose, since_ns: Some(since_ns), refused: 0 });
            }
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
        queues.any.store(long.iter().any(|queue| queue.since_ns.is_some()), Relaxed);
    }

    /// Whether callers know of any queue of a class.
    pub(super) fn knows_queues(&self, class: ReadClass) -> bool {
        self.queues[class as usize].any.load(Relaxed)
    }

    /// Takes over what callers refused since it was asked last. Queues that are empty are forgotten.
    pub(super) fn take_refused(&self, class: ReadClass, now_ns: u64) -> Vec<RefusedByCallers> {
        let mut long = self.queues[class as usize].lock();
        let mut refused = Vec::new();
        for queue in long.iter_mut().filter(|queue| queue.refused > 0) {
            let waited_ns = queue.since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
            refused.push(RefusedByCallers {
                level: queue.level,
                times: std::mem::take(&mut queue.refused),
                error: behind(waited_ns, &queue.whose),
            });
        }
        long.retain(|queue| queue.since_ns.is_some());
        refused
    }
}

impl Queues {
    fn lock(&self) -> MutexGuard<'_, Vec<LongQueue>> {
        self.long.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn check(&self, terms: &Terms, now_ns: u64) -> Result<()> {
        let Some(deadline) = terms.deadline else { return Ok(()) };
        let mut long = self.lock();
        let queue = long.iter_mut().find(|queue| queue.level == terms.level);
        let Some(queue) = queue else { return Ok(()) };
        let Some(since_ns) = queue.since_ns else { return Ok(()) };
        let waited_ns = now_ns.saturating_sub(since_ns);
        if !deadline.is_half_over_after(waited_ns, now_ns) {
            return Ok(());
        }
        queue.refused += 1;
        Err(behind(waited_ns, &queue.whose))
    }
}

pub(super) fn behind(waited_ns: u64, whose: &Whose) -> Error {
    Error::Overloaded(Overload::Behind { waited_us: waited_ns / 1000, whose: whose.clone() })
}
