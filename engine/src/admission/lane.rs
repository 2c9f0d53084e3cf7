//! The reads of one service level within a class: who runs, who waits, and what they hold.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::level::{LevelId, LevelOptions, Workload};
use crate::clock::Deadline;
use crate::config::INTERACTIVE_WAIT;
use crate::error::Result;

/// One that waits for a `T`; ids rise, so that a queue is sorted by them.
pub(super) struct Waiter<T> {
    pub id: u64,
    pub since_ns: u64,
    /// Until when its read is to be done.
    pub deadline: Option<Deadline>,
    pub sender: oneshot::Sender<T>,
}

/// A read that wants more memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Want {
    pub read: u64,
    pub bytes: u64,
    /// What it holds already.
    pub held: u64,
}

/// Counts since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LaneTotals {
    pub admitted: u64,
    pub refused: u64,
    pub killed: u64,
}

/// See the head of this file. Reads that return wait for a turn `T`, new ones for a permit `P`,
/// those that run for memory `C`.
pub(super) struct Lane<T, P, C> {
    pub level: LevelId,
    pub name: Arc<str>,
    pub options: LevelOptions,
    /// Its level was dropped: it goes with its last read.
    pub is_gone: bool,
    /// Turns and bytes that are its own.
    pub turns: u32,
    pub part: u64,
    pub running: u32,
    /// Of those that run, the ones that use the processor, and have not done so for long.
    pub computing: u32,
    /// Reads that gave their turn back and will come again.
    pub aside: u32,
    pub memory_bytes: u64,
    pub returning: VecDeque<Waiter<T>>,
    pub starving: VecDeque<(Want, Waiter<Result<C>>)>,
    pub queue: VecDeque<Waiter<Result<P>>>,
    /// The read that goes on alone beyond the limit.
    pub blessed: Option<u64>,
    /// One waited for too long: what would wait is refused, until a read begins.
    pub sheds: bool,
    pub totals: LaneTotals,
}

impl<T, P, C> Lane<T, P, C> {
    pub fn new(level: LevelId, name: Arc<str>, options: LevelOptions) -> Self {
        Lane {
            level,
            name,
            options,
            is_gone: false,
            turns: 1,
            part: 0,
            running: 0,
            computing: 0,
            aside: 0,
            memory_bytes: 0,
            returning: VecDeque::new(),
            starving: VecDeque::new(),
            queue: VecDeque::new(),
            blessed: None,
            sheds: false,
            totals: LaneTotals::default(),
        }
    }

    /// Whether somebody waits, for a turn or for memory.
    pub fn has_waiting(&self) -> bool {
        !self.returning.is_empty() || !self.queue.is_empty() || !self.starving.is_empty()
    }

    /// Whether it can be taken away.
    pub fn is_over(&self) -> bool {
        let holds = self.running > 0 || self.aside > 0 || self.memory_bytes > 0;
        self.is_gone && !holds && !self.has_waiting()
    }

    /// How long a read may wait for its first turn, where its level says so.
    pub fn wait_max(&self) -> Option<Duration> {
        (self.options.workload == Some(Workload::Interactive)).then_some(INTERACTIVE_WAIT)
    }

    /// For which the first of the queue waits.
    pub fn waited_us(&self, now_ns: u64) -> u64 {
        self.queue.front().map_or(0, |waiter| now_ns.saturating_sub(waiter.since_ns) / 1000)
    }

    /// Takes somebody who waits no more out of all queues.
    pub fn forget(&mut self, id: u64) {
        fn take<T>(queue: &mut VecDeque<T>, id: u64, of: impl Fn(&T) -> u64) {
            // Whoever got what it waited for is in none.
            if let Ok(at) = queue.binary_search_by_key(&id, of) {
                queue.remove(at);
            }
        }
        take(&mut self.queue, id, |waiter| waiter.id);
        take(&mut self.returning, id, |waiter| waiter.id);
        take(&mut self.starving, id, |(_, waiter)| waiter.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter<T>(id: u64) -> Waiter<T> {
        Waiter { id, since_ns: 0, deadline: None, sender: oneshot::channel().0 }
    }

    #[test]
    fn who_waits_no_more_is_in_no_queue_and_keeps_no_lane() {
        let options = LevelOptions::default();
        let mut lane: Lane<(), (), ()> = Lane::new(LevelId(7), "gone".into(), options);
        lane.is_gone = true;
        for id in 0..3 {
            lane.queue.push_back(waiter(3 * id));
            lane.returning.push_back(waiter(3 * id + 1));
            let want = Want { read: id, bytes: 1, held: 0 };
            lane.starving.push_back((want, waiter(3 * id + 2)));
        }
        let left = |lane: &Lane<(), (), ()>| {
            let queue = lane.queue.iter().map(|waiter| waiter.id);
            let returning = lane.returning.iter().map(|waiter| waiter.id);
            let starving = lane.starving.iter().map(|(_, waiter)| waiter.id);
            let mut all: Vec<u64> = queue.chain(returning).chain(starving).collect();
            all.sort_unstable();
            all
        };
        let mut wanted: Vec<u64> = (0..9).collect();
        for id in [4, 0, 8, 3, 7, 5, 2, 1, 6] {
            assert!(lane.has_waiting() && !lane.is_over(), "{wanted:?} wait");
            lane.forget(id);
            wanted.retain(|other| *other != id);
            assert_eq!(left(&lane), wanted, "{id} waits no more");
            // Who got what it waited for is forgotten as well.
            lane.forget(id);
            assert_eq!(left(&lane), wanted, "{id} is in no queue");
        }
        assert!(!lane.has_waiting() && lane.is_over());
    }
}
