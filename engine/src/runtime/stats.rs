//! What an onlooker on another thread may read of a shard's runtime.
//!
//! Invariant: the shard writes here once a batch of jobs or once a stall, never once a row; who
//! sends mail notes that it waits.

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counters of one shard since it started.
#[derive(Debug, Default)]
pub struct RuntimeStats {
    job_count: AtomicU64,
    mailbox_full_count: AtomicU64,
    mail_waits: AtomicBool,
    stalls: Mutex<BTreeMap<(&'static str, Stretch), Stall>>,
}

/// A stretch of a task's work between two places where it looked whether its turn was over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stretch {
    /// Where it looked before; `None` where its turn had just begun.
    pub after: Option<&'static Location<'static>>,
    /// Where it looked next; `None` where it came to its end or waited for something instead.
    pub before: Option<&'static Location<'static>>,
}

/// Turns of tasks of one name that were longer than the task quota for the same reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    pub task: &'static str,
    /// The longest stretch of these turns.
    pub stretch: Stretch,
    pub count: u64,
    pub total_ns: u64,
    pub longest_ns: u64,
    /// Of `total_ns`, in which the thread had no processor: others ran there, or the kernel had it
    /// wait. What passes in the first 50 us of a turn, before it first looks, or until a look after
    /// which the turn is over, is not in it.
    pub off_cpu_ns: u64,
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

    /// Whether there is mail that the shard has not fetched.
    #[inline]
    pub(super) fn mail_waits(&self) -> bool {
        self.mail_waits.load(Ordering::Relaxed)
    }

    pub(super) fn set_mail_waits(&self, waits: bool) {
        self.mail_waits.store(waits, Ordering::Relaxed);
    }

    /// Stalls by task and stretch, in the order of the tasks' names.
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

    /// Counts one turn that took `ns`, `off_cpu_ns` of them without a processor.
    pub(super) fn add_stall(&self, task: &'static str, stretch: Stretch, ns: u64, off_cpu_ns: u64) {
        let mut stalls = self.lock();
        let none = Stall { task, stretch, count: 0, total_ns: 0, longest_ns: 0, off_cpu_ns: 0 };
        let stall = stalls.entry((task, stretch)).or_insert(none);
        stall.count += 1;
        stall.total_ns += ns;
        stall.longest_ns = stall.longest_ns.max(ns);
        stall.off_cpu_ns += off_cpu_ns;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(&'static str, Stretch), Stall>> {
        self.stalls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_of_one_task_and_stretch_add_up() {
        let stats = RuntimeStats::default();
        assert_eq!((stats.stall_count(), stats.longest_stall_ns()), (0, 0));
        let (whole, here) =
            (Stretch::default(), Stretch { after: Some(Location::caller()), before: None });
        for (task, stretch, ns, off_cpu_ns) in
            [("b", whole, 50, 5), ("a", whole, 700, 30), ("a", whole, 200, 20), ("a", here, 90, 0)]
        {
            stats.add_stall(task, stretch, ns, off_cpu_ns);
        }
        let stall = |task, stretch, count, total_ns, longest_ns, off_cpu_ns| Stall {
            task,
            stretch,
            count,
            total_ns,
            longest_ns,
            off_cpu_ns,
        };
        let all = [
            stall("a", whole, 2, 900, 700, 50),
            stall("a", here, 1, 90, 90, 0),
            stall("b", whole, 1, 50, 50, 5),
        ];
        assert_eq!(stats.stalls(), all);
        assert_eq!((stats.stall_count(), stats.longest_stall_ns()), (4, 700));
    }

    #[test]
    fn jobs_and_full_mailboxes_are_counted() {
        let stats = RuntimeStats::default();
        stats.add_jobs(3);
        stats.add_jobs(4);
        stats.add_mailbox_full();
        assert_eq!((stats.job_count(), stats.mailbox_full_count()), (7, 1));
        stats.set_mail_waits(true);
        assert!(stats.mail_waits());
        stats.set_mail_waits(false);
        assert!(!stats.mail_waits());
    }
}
