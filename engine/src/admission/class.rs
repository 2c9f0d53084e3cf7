//! The reads of one class: who runs, who waits, and what the interval brought.

use std::collections::VecDeque;

use tokio::sync::oneshot;

use super::latency::Latencies;
use crate::error::{Error, Result};
use crate::policy::admission::{ReadClass, ReadLimits, ReadLoad, Shedding};

/// One that waits; ids rise, so that a queue is sorted by them.
pub(super) struct Waiter<T> {
    pub id: u64,
    pub since_ns: u64,
    pub sender: oneshot::Sender<T>,
}

/// Who is next: given a turn `T`, or a permit `P`.
pub(super) enum Next<T, P> {
    /// A read that had a turn before.
    Returns(oneshot::Sender<T>),
    Begins(oneshot::Sender<Result<P>>),
    /// It waited for too long.
    Leaves(oneshot::Sender<Result<P>>, Error),
}

/// Counts since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Totals {
    pub arrived: u64,
    pub admitted: u64,
    pub refused: u64,
    pub shed: u64,
}

/// See the head of this file. Reads that return wait for a turn `T`, new ones for a permit `P`.
pub(super) struct Class<T, P> {
    class: ReadClass,
    pub limits: ReadLimits,
    pub shedding: Shedding,
    pub running: u32,
    /// Reads that gave their turn back and will come again.
    pub aside: u32,
    pub memory_bytes: u64,
    pub returning: VecDeque<Waiter<T>>,
    pub queue: VecDeque<Waiter<Result<P>>>,
    pub totals: Totals,
    /// Thousandths of an arrival that are to be refused.
    shed_milli: u32,
    /// Totals when the interval began.
    before: Totals,
    running_most: u32,
    pub busy_ns: u64,
    pub latencies: Latencies,
}

impl<T, P> Class<T, P> {
    pub fn new(class: ReadClass, limits: ReadLimits) -> Self {
        Class {
            class,
            limits,
            shedding: Shedding::default(),
            running: 0,
            aside: 0,
            memory_bytes: 0,
            returning: VecDeque::new(),
            queue: VecDeque::new(),
            totals: Totals::default(),
            shed_milli: 0,
            before: Totals::default(),
            running_most: 0,
            busy_ns: 0,
            latencies: Latencies::new(),
        }
    }

    /// Bytes that a read is charged with at least.
    pub fn base_bytes(&self) -> u64 {
        match self.class {
            ReadClass::Keys => 16 << 10,
            ReadClass::Scan => 256 << 10,
        }
    }

    fn reads(&self) -> &'static str {
        match self.class {
            ReadClass::Keys => "reads of partitions",
            ReadClass::Scan => "scans",
        }
    }

    /// A read comes.
    ///
    /// Errors: `Overloaded` when it is shed.
    pub fn arrive(&mut self) -> Result<()> {
        self.totals.arrived += 1;
        if !is_shed(self.shedding.per_mille, &mut self.shed_milli) {
            return Ok(());
        }
        self.totals.shed += 1;
        let text = format!("some {} are refused while the load is high", self.reads());
        Err(Error::Overloaded(text))
    }

    /// A read that came wants a turn; true when it begins at once, false when it has to wait.
    ///
    /// Errors: `Overloaded` when the queue is full.
    pub fn enter(&mut self) -> Result<bool> {
        if self.enter_now() {
            return Ok(true);
        }
        if self.queue.len() >= self.limits.queued_max as usize {
            self.totals.refused += 1;
            let text = format!("{} {} wait already", self.queue.len(), self.reads());
            return Err(Error::Overloaded(text));
        }
        Ok(false)
    }

    /// As `enter`, for who does not wait: false leaves everything as it is.
    pub fn enter_now(&mut self) -> bool {
        let begins = !self.has_waiting() && self.has_room();
        if begins {
            self.begin();
        }
        begins
    }

    /// Whether somebody waits for a turn.
    pub fn has_waiting(&self) -> bool {
        !self.returning.is_empty() || !self.queue.is_empty()
    }

    /// Whether another read may begin. One always may where nothing runs: reads that wait for their
    /// clients may have all the memory, and a client may wait for that other read.
    fn has_room(&self) -> bool {
        let bytes = self.memory_bytes + self.base_bytes();
        self.running == 0
            || self.running < self.limits.running_max && bytes <= self.limits.memory_bytes_max
    }

    fn begin(&mut self) {
        self.totals.admitted += 1;
        self.memory_bytes += self.base_bytes();
        self.run();
    }

    fn run(&mut self) {
        self.running += 1;
        self.running_most = self.running_most.max(self.running);
    }

    /// Takes who is next off its queue; a turn was counted for it.
    pub fn next(&mut self, now_ns: u64) -> Option<Next<T, P>> {
        if let Some(error) = self.late(now_ns) {
            let waiter = self.queue.pop_front().expect("one that is late waits");
            return Some(Next::Leaves(waiter.sender, error));
        }
        if !self.returning.is_empty() {
            if self.running >= self.limits.running_max {
                return None;
            }
            self.run();
            return self.returning.pop_front().map(|waiter| Next::Returns(waiter.sender));
        }
        if self.queue.is_empty() || !self.has_room() {
            return None;
        }
        self.begin();
        self.queue.pop_front().map(|waiter| Next::Begins(waiter.sender))
    }

    /// What the first of the queue is told when it waited for too long.
    fn late(&mut self, now_ns: u64) -> Option<Error> {
        let waited_us = now_ns.saturating_sub(self.queue.front()?.since_ns) / 1000;
        let (most_us, shed_us) =
            (self.limits.wait_us_max, u64::from(self.shedding.wait_ms_max) * 1000);
        let count = match () {
            () if most_us > 0 && waited_us > most_us => &mut self.totals.refused,
            () if shed_us > 0 && waited_us > shed_us => &mut self.totals.shed,
            () => return None,
        };
        *count += 1;
        let text = format!("waited {} ms for a turn among {}", waited_us / 1000, self.reads());
        Some(Error::Overloaded(text))
    }

    /// For which the first of the queue waits.
    pub fn waited_us(&self, now_ns: u64) -> u64 {
        self.queue.front().map_or(0, |waiter| now_ns.saturating_sub(waiter.since_ns) / 1000)
    }

    /// Ends the interval: what it brought, and how many were shed.
    pub fn close_interval(&mut self) -> (ReadLoad, u64) {
        let (totals, before) = (self.totals, std::mem::replace(&mut self.before, self.totals));
        let load = ReadLoad {
            arrived: totals.arrived - before.arrived,
            admitted: totals.admitted - before.admitted,
            queued: self.queue.len() as u32,
            running_most: self.running_most,
            refused: totals.refused - before.refused,
            memory_bytes: self.memory_bytes,
            p50_us: self.latencies.percentile(50),
            p99_us: self.latencies.percentile(99),
            busy_us: std::mem::take(&mut self.busy_ns) / 1000,
        };
        self.latencies.clear();
        self.running_most = self.running;
        (load, totals.shed - before.shed)
    }

    /// Whether anything goes on.
    pub fn is_idle(&self) -> bool {
        self.running == 0 && self.queue.is_empty() && self.totals.arrived == self.before.arrived
    }
}

/// Picks `per_mille` of a thousand calls, evenly spread.
pub(super) fn is_shed(per_mille: u32, milli: &mut u32) -> bool {
    *milli += per_mille.min(1000);
    let is_shed = *milli >= 1000;
    *milli %= 1000;
    is_shed
}
