//! Reads that waited long for their turn: the last ones of a shard, for who asks why it was slow.

use std::cell::RefCell;
use std::collections::VecDeque;

use crate::config::{LONG_WAITS_MAX, READ_WAIT_LONG};
use crate::policy::admission::ReadClass;

/// A wait that was long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongWait {
    /// When it ended, by the wall clock, microseconds since the Unix epoch.
    pub at_us: i64,
    pub class: ReadClass,
    /// The table that was to be read.
    pub table: String,
    pub waited_us: u64,
    /// Whether the read had its turn in the end; else it was refused.
    pub had_turn: bool,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(in crate::admission) struct LongWaits(RefCell<VecDeque<LongWait>>);

impl LongWaits {
    /// Keeps a wait if it was long; the oldest goes where there are too many.
    pub fn note(&self, wait: impl FnOnce() -> LongWait, waited_ns: u64) {
        if u128::from(waited_ns) < READ_WAIT_LONG.as_nanos() {
            return;
        }
        let wait = wait();
        let LongWait { table, waited_us, had_turn, .. } = &wait;
        tracing::warn!(table, waited_us, had_turn, "a read waited long for its turn");
        let mut all = self.0.borrow_mut();
        if all.len() >= LONG_WAITS_MAX {
            all.pop_front();
        }
        all.push_back(wait);
    }

    /// All that are kept, oldest first.
    pub fn all(&self) -> Vec<LongWait> {
        self.0.borrow().iter().cloned().collect()
    }
}
