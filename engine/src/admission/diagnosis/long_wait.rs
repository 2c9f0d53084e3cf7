//! Reads that waited long for their turn: the last ones of a shard, for who asks why it was slow.

use std::cell::{Cell, RefCell};
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

/// Time between two waits that the log is told of: under load many reads wait long, and a line for
/// each would be load of its own.
const TELL_AGAIN_US: u64 = 1_000_000;

/// See the head of this file.
#[derive(Debug, Default)]
pub(in crate::admission) struct LongWaits {
    kept: RefCell<VecDeque<LongWait>>,
    /// When the log was told last, by the same clock as [`LongWait::at_us`].
    told_us: Cell<Option<i64>>,
    /// Waits since then.
    untold: Cell<u64>,
}

impl LongWaits {
    /// Keeps a wait if it was long; the oldest goes where there are too many.
    pub fn note(&self, wait: impl FnOnce() -> LongWait, waited_ns: u64) {
        if u128::from(waited_ns) < READ_WAIT_LONG.as_nanos() {
            return;
        }
        let wait = wait();
        self.tell(&wait);
        let mut all = self.kept.borrow_mut();
        if all.len() >= LONG_WAITS_MAX {
            all.pop_front();
        }
        all.push_back(wait);
    }

    /// Tells the log of a wait, unless it was told a moment ago; whether it was told.
    fn tell(&self, wait: &LongWait) -> bool {
        // A clock that was set back is no reason to be silent.
        let is_recent = |told: i64| told.abs_diff(wait.at_us) < TELL_AGAIN_US;
        if self.told_us.get().is_some_and(is_recent) {
            self.untold.set(self.untold.get() + 1);
            return false;
        }
        self.told_us.set(Some(wait.at_us));
        let others = self.untold.take();
        let LongWait { table, waited_us, had_turn, .. } = wait;
        tracing::warn!(table, waited_us, had_turn, others, "a read waited long for its turn");
        true
    }

    /// All that are kept, oldest first.
    pub fn all(&self) -> Vec<LongWait> {
        self.kept.borrow().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_told_of_one_wait_a_second_with_the_number_of_the_others() {
        let waits = LongWaits::default();
        let tell = |at_us| {
            let table = "ks.t".to_owned();
            let class = ReadClass::Scan;
            waits.tell(&LongWait { at_us, class, table, waited_us: 600_000, had_turn: true })
        };
        assert!(tell(5_000_000));
        assert!(!tell(5_000_000) && !tell(5_999_999));
        assert_eq!(waits.untold.get(), 2);
        assert!(tell(6_000_000));
        assert_eq!(waits.untold.get(), 0);
        // The clock was set back.
        assert!(tell(1_000_000) && !tell(1_000_001));
    }
}
