//! The last traces and the last slow statements of all sessions of a process, in memory.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::record::Record;
use crate::query::access::Audit;

/// Traces that are kept. One takes a quarter of a MiB at most.
pub const TRACES_MAX: usize = 64;
/// Slow statements that are kept; without steps each takes a few KiB.
pub const SLOW_MAX: usize = 256;

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Journal {
    count: AtomicU64,
    traces: Ring,
    slow: Ring,
    audit: Audit,
}

type Ring = Mutex<VecDeque<Arc<Record>>>;

impl Journal {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The number of the next record.
    pub(super) fn next_number(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Keeps a trace; the oldest goes where there are too many.
    pub(super) fn add_trace(&self, record: Arc<Record>) {
        push(&self.traces, TRACES_MAX, record);
    }

    /// Keeps a slow statement, without its steps.
    pub(super) fn add_slow(&self, record: &Record) {
        let (noted, reads) = (Vec::new(), Vec::new());
        let record = Record { noted, reads, ..record.clone() };
        push(&self.slow, SLOW_MAX, Arc::new(record));
    }

    /// What concerns all.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    /// The traces, oldest first.
    pub fn traces(&self) -> Vec<Arc<Record>> {
        all(&self.traces)
    }

    /// The slow statements, oldest first.
    pub fn slow(&self) -> Vec<Arc<Record>> {
        all(&self.slow)
    }
}

fn push(ring: &Ring, max: usize, record: Arc<Record>) {
    let mut ring = ring.lock().expect("no one panics while holding it");
    if ring.len() >= max {
        ring.pop_front();
    }
    ring.push_back(record);
}

fn all(ring: &Ring) -> Vec<Arc<Record>> {
    ring.lock().expect("no one panics while holding it").iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use tidegate_engine::probe::{ReadStats, Step};

    use super::*;

    fn record(journal: &Journal) -> Record {
        let step = Step { at_ns: 0, shard: None, class: None, bytes: None, text: "s".to_owned() };
        Record {
            number: journal.next_number(),
            started_us: 0,
            duration_us: 1,
            session: "shell".to_owned(),
            statement: "SELECT 1".to_owned(),
            rows: 1,
            error: None,
            noted: vec![step],
            reads: Vec::new(),
            left_out: 0,
            stats: ReadStats::default(),
        }
    }

    #[test]
    fn the_oldest_go_where_there_are_too_many() {
        let journal = Journal::new();
        for _ in 0..TRACES_MAX + 3 {
            journal.add_trace(Arc::new(record(&journal)));
        }
        let numbers: Vec<u64> = journal.traces().iter().map(|trace| trace.number).collect();
        assert_eq!(numbers, (4..=TRACES_MAX as u64 + 3).collect::<Vec<_>>());
        for _ in 0..SLOW_MAX + 2 {
            journal.add_slow(&record(&journal));
        }
        let slow = journal.slow();
        assert_eq!((slow.len(), slow[0].number), (SLOW_MAX, TRACES_MAX as u64 + 6));
        assert!(slow.iter().all(|record| record.steps().is_empty()), "slow ones have no steps");
    }
}
