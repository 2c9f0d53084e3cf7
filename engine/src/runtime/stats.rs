//! What an onlooker on another thread may read of a shard's runtime.
//!
//! Invariant: the shard writes here once a batch of jobs or once a stall, never once a row.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Counters of one shard since it started.
#[derive(Debug, Default)]
pub struct RuntimeStats {
    job_count: AtomicU64,
    mailbox_full_count: AtomicU64,
    stalls: Mutex<BTreeMap<&'static str, Stall>>,
}

/// Polls of tasks of one name that ran longer than the task quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    pub task: &'static str,
    pub count: u64,
    pub total_ns: u64,
    pub longest_ns: u64,
}

impl RuntimeStats {
    /// Jobs taken from the mailbox.
    pub fn job_count(&self) -> u64 {
        self.job_count.load(Ordering::Relaxed)
    }

    /// How often a sender found the mailbox full and had to wait.
    pub fn mailbox_full_count(&self) -> u64 {
        self.mailbox_full_count.load(Ordering::Relaxed)
    }

    /// Stalls by task, in the order of their names.
    pub fn stalls(&self) -> Vec<Stall> {
        self.lock().values().copied().collect()
    }

    /// Stalls of all tasks.
    pub fn stall_count(&self) -> u64 {
        self.lock().values().map(|stall| stall.count).sum()
    }

    /// The longest stall of any task, nanoseconds; zero when there was none.
    pub fn longest_stall_ns(&self) -> u64 {
        self.lock().values().map(|stall| stall.longest_ns).max().unwrap_or(0)
    }

    pub(super) fn add_jobs(&self, count: u64) {
        self.job_count.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn add_mailbox_full(&self) {
        self.mailbox_full_count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_stall(&self, task: &'static str, ns: u64) {
        let mut stalls = self.lock();
        let none = Stall { task, count: 0, total_ns: 0, longest_ns: 0 };
        let stall = stalls.entry(task).or_insert(none);
        stall.count += 1;
        stall.total_ns += ns;
        stall.longest_ns = stall.longest_ns.max(ns);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, Stall>> {
        self.stalls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
