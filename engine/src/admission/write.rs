//! Writes on their way in: which are shed, and which wait for memory.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::class::is_shed;
use crate::clock::Clock;
use crate::error::{Error, Overload, Result};
use crate::policy::admission::{Shedding, WorkLoad};

/// The writes of a shard.
pub(super) struct Writes {
    clock: Arc<dyn Clock>,
    pub shedding: Cell<Shedding>,
    shed_milli: Cell<u32>,
    arrived: Cell<u64>,
    shed: Cell<u64>,
    arrived_before: Cell<u64>,
    shed_before: Cell<u64>,
    /// Since when each waits, by number.
    waiting: RefCell<BTreeMap<u64, u64>>,
    next: Cell<u64>,
}

impl Writes {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Writes {
            clock,
            shedding: Cell::default(),
            shed_milli: Cell::default(),
            arrived: Cell::default(),
            shed: Cell::default(),
            arrived_before: Cell::default(),
            shed_before: Cell::default(),
            waiting: RefCell::default(),
            next: Cell::default(),
        }
    }

    /// A write comes. Errors: `Overloaded`.
    #[inline]
    pub fn arrive(&self) -> Result<()> {
        self.arrived.set(self.arrived.get() + 1);
        match self.shedding.get().per_mille {
            0 => Ok(()),
            per_mille => self.maybe_shed(per_mille),
        }
    }

    fn maybe_shed(&self, per_mille: u32) -> Result<()> {
        let mut milli = self.shed_milli.get();
        let is_shed = is_shed(per_mille, &mut milli);
        self.shed_milli.set(milli);
        if !is_shed {
            return Ok(());
        }
        self.shed.set(self.shed.get() + 1);
        Err(Error::Overloaded(Overload::Shed { what: "writes" }))
    }

    /// A write waits for memory from now on.
    pub fn wait(self: &Rc<Self>) -> WaitingWrite {
        let number = self.next.get();
        self.next.set(number + 1);
        let since_ns = self.clock.monotonic_ns();
        self.waiting.borrow_mut().insert(number, since_ns);
        WaitingWrite { writes: self.clone(), number, since_ns }
    }

    fn waited_us(&self) -> u64 {
        let waiting = self.waiting.borrow();
        let first = waiting.values().next();
        first.map_or(0, |since| self.clock.monotonic_ns().saturating_sub(*since) / 1000)
    }

    /// Whether one waits for longer than the plan lets it.
    pub fn has_late(&self) -> bool {
        let most_us = u64::from(self.shedding.get().wait_ms_max) * 1000;
        most_us > 0 && self.waited_us() > most_us
    }

    pub fn is_idle(&self) -> bool {
        self.arrived.get() == self.arrived_before.get() && self.waiting.borrow().is_empty()
    }

    /// Ends the interval.
    pub fn close_interval(&self) -> WorkLoad {
        let (arrived, shed) = (self.arrived.get(), self.shed.get());
        WorkLoad {
            arrived: arrived - self.arrived_before.replace(arrived),
            waiting: self.waiting.borrow().len() as u32,
            waited_us: self.waited_us(),
            shed: shed - self.shed_before.replace(shed),
        }
    }

    pub fn totals(&self) -> WriteTotals {
        WriteTotals {
            arrived: self.arrived.get(),
            shed: self.shed.get(),
            waiting: self.waiting.borrow().len() as u32,
        }
    }
}

/// How many writes there were since the start, and how many wait.
pub struct WriteTotals {
    pub arrived: u64,
    pub shed: u64,
    pub waiting: u32,
}

/// A write that waits for memory; dropped when it does no more.
pub struct WaitingWrite {
    writes: Rc<Writes>,
    number: u64,
    since_ns: u64,
}

impl WaitingWrite {
    /// Errors: `Overloaded` when it waited for longer than the plan lets it.
    pub fn check(&self) -> Result<()> {
        let waited_us = self.writes.clock.monotonic_ns().saturating_sub(self.since_ns) / 1000;
        let most_ms = self.writes.shedding.get().wait_ms_max;
        if most_ms == 0 || waited_us <= u64::from(most_ms) * 1000 {
            return Ok(());
        }
        self.writes.shed.set(self.writes.shed.get() + 1);
        Err(Error::Overloaded(Overload::NoMemory { waited_us }))
    }
}

impl Drop for WaitingWrite {
    fn drop(&mut self) {
        self.writes.waiting.borrow_mut().remove(&self.number);
    }
}
