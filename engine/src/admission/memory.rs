//! Memory for the batches of reads: one budget for all shards.
//!
//! ```text
//! read ── free? ──> charge ──> batch is built ──> channel ──> receiver takes the next ──> given back
//!           └─ no: waits behind those that came before, and is refused when that takes too long
//! ```
//! Invariant: who waits gets memory in the order of arrival, reads that sent something before those
//! that did not; where nobody holds anything, whoever comes first gets what it wants. The less is
//! free, the smaller batches get, so that many reads go on side by side.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::oneshot;

use crate::config::{BATCH_BYTES_MAX, BATCH_BYTES_MIN, READ_MEMORY_WAIT};
use crate::error::{Error, Result};

/// A batch is charged with its bytes so many times: it is built while its receiver still works on
/// the one before.
const CHARGED_TIMES: u64 = 2;
/// A batch may have one part in so many of what is free.
const FREE_PARTS: u64 = 16;
/// The same of what is free for its service level on its shard.
const LEVEL_PARTS: u64 = 4;

/// See the head of this file.
#[derive(Debug)]
pub struct ReadMemory {
    bytes_max: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    /// Reads that sent batches already, and those that did not.
    going: VecDeque<Waiter>,
    beginning: VecDeque<Waiter>,
    refused: u64,
}

#[derive(Debug)]
struct Waiter {
    bytes: u64,
    since_ns: u64,
    sender: oneshot::Sender<Result<BatchCharge>>,
}

/// How the budget stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadMemoryStatus {
    pub bytes_max: u64,
    pub used: u64,
    pub waiting: usize,
    /// Reads that were refused since the start.
    pub refused: u64,
}

impl ReadMemory {
    /// A budget of `bytes_max`.
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(ReadMemory { bytes_max, state: Mutex::default() })
    }

    pub fn status(&self) -> ReadMemoryStatus {
        let state = self.lock();
        let waiting = state.going.len() + state.beginning.len();
        ReadMemoryStatus {
            bytes_max: self.bytes_max,
            used: state.used,
            waiting,
            refused: state.refused,
        }
    }

    /// Bytes that a batch should end at, by what is free now, and of it for its level.
    pub fn batch_bytes(&self, free_of_level: u64) -> usize {
        let free = self.bytes_max.saturating_sub(self.lock().used);
        let free = (free / FREE_PARTS).min(free_of_level / LEVEL_PARTS);
        let bytes = usize::try_from(free).unwrap_or(usize::MAX);
        bytes.clamp(BATCH_BYTES_MIN, BATCH_BYTES_MAX)
    }

    /// Memory for a batch of `bytes`, if it is free and nobody waits.
    pub fn try_charge(self: &Arc<Self>, bytes: usize) -> Option<BatchCharge> {
        let wanted = charged(bytes);
        let mut state = self.lock();
        let is_first = state.going.is_empty() && state.beginning.is_empty();
        let fits = is_first && self.fits(&state, wanted);
        fits.then(|| self.take(&mut state, wanted))
    }

    /// Waits for memory for a batch of `bytes`; `is_going` where the read sent batches already.
    /// Dropping the future leaves the queue.
    ///
    /// Errors: `Overloaded` when it takes too long; [`refuse_late`](Self::refuse_late) finds that
    /// out.
    pub async fn charge(
        self: &Arc<Self>,
        bytes: usize,
        is_going: bool,
        now_ns: u64,
    ) -> Result<BatchCharge> {
        let (sender, granted) = oneshot::channel();
        let waiter = Waiter { bytes: charged(bytes), since_ns: now_ns, sender };
        {
            let mut state = self.lock();
            if is_going { &mut state.going } else { &mut state.beginning }.push_back(waiter);
        }
        // What was free a moment ago may be free again, and then nobody else would say so.
        self.hand_out();
        granted.await.map_err(|_| Error::Closed).flatten()
    }

    /// Refuses those that wait for too long.
    pub fn refuse_late(self: &Arc<Self>, now_ns: u64) {
        let mut late = Vec::new();
        let status = {
            let mut guard = self.lock();
            let state = &mut *guard;
            let wait_ns = u64::try_from(READ_MEMORY_WAIT.as_nanos()).unwrap_or(u64::MAX);
            for queue in [&mut state.going, &mut state.beginning] {
                let count = queue
                    .partition_point(|waiter| now_ns.saturating_sub(waiter.since_ns) > wait_ns);
                late.extend(queue.drain(..count));
            }
            state.refused += late.len() as u64;
            (state.used >> 20, self.bytes_max >> 20)
        };
        for waiter in late {
            let (used, max) = status;
            // A receiver that is gone wants nothing.
            let _ = waiter.sender.send(Err(Error::short(format!(
                "reads hold {used} of the {max} MiB that they may have, and this one waited {} s for \
                 its part: try again later, read less at once, or give reads more memory (--memory)",
                READ_MEMORY_WAIT.as_secs()
            ))));
        }
        self.hand_out();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while counting memory")
    }

    fn fits(&self, state: &State, bytes: u64) -> bool {
        state.used == 0 || state.used.saturating_add(bytes) <= self.bytes_max
    }

    fn take(self: &Arc<Self>, state: &mut State, bytes: u64) -> BatchCharge {
        state.used += bytes;
        BatchCharge { memory: self.clone(), bytes }
    }

    /// Gives memory to those who wait, as far as there is any.
    fn hand_out(self: &Arc<Self>) {
        let mut granted = Vec::new();
        {
            let mut guard = self.lock();
            let state = &mut *guard;
            loop {
                let is_going = !state.going.is_empty();
                let queue = if is_going { &mut state.going } else { &mut state.beginning };
                let Some(next) = queue.pop_front_if(|next| {
                    next.sender.is_closed()
                        || state.used == 0
                        || state.used.saturating_add(next.bytes) <= self.bytes_max
                }) else {
                    break;
                };
                if !next.sender.is_closed() {
                    let charge = self.take(state, next.bytes);
                    granted.push((next.sender, charge));
                }
            }
        }
        for (sender, charge) in granted {
            // What nobody takes is given back as it is dropped.
            drop(sender.send(Ok(charge)));
        }
    }
}

/// Bytes that a batch is charged with.
pub(super) fn charged(bytes: usize) -> u64 {
    (bytes as u64).saturating_mul(CHARGED_TIMES)
}

/// Memory that a batch has; dropping it gives it back.
#[derive(Debug)]
pub struct BatchCharge {
    memory: Arc<ReadMemory>,
    bytes: u64,
}

impl BatchCharge {
    /// The batch is there and has `bytes`.
    pub fn settle(&mut self, bytes: usize) {
        let bytes = charged(bytes);
        let before = std::mem::replace(&mut self.bytes, bytes);
        {
            let mut state = self.memory.lock();
            state.used = state.used - before + bytes;
        }
        if bytes < before {
            self.memory.hand_out();
        }
    }
}

impl Drop for BatchCharge {
    fn drop(&mut self) {
        self.memory.lock().used -= self.bytes;
        self.memory.hand_out();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const LATE_NS: u64 = READ_MEMORY_WAIT.as_nanos() as u64 + 1;

    #[test]
    fn memory_goes_to_those_who_wait_in_order_and_started_reads_first() {
        let memory = ReadMemory::new(100);
        let first = memory.try_charge(40).unwrap();
        assert_eq!(memory.status().used, 80);
        assert!(memory.try_charge(11).is_none());
        let mut early = Box::pin(memory.charge(20, false, 0));
        let mut late = Box::pin(memory.charge(5, false, 1));
        let mut going = Box::pin(memory.charge(30, true, 2));
        for waiting in [&mut early, &mut late, &mut going] {
            assert!(waiting.now_or_never().is_none());
        }
        assert!(memory.try_charge(1).is_none(), "nobody goes past those who wait");
        assert_eq!(memory.status().waiting, 3);
        drop(first);
        let going = going.now_or_never().unwrap().unwrap();
        let early = early.now_or_never().unwrap().unwrap();
        assert!((&mut late).now_or_never().is_none());
        assert_eq!(memory.status().used, 100);
        drop(early);
        let mut late = late.now_or_never().unwrap().unwrap();
        late.settle(2);
        assert_eq!(memory.status().used, 64);
        drop((late, going));
        assert_eq!(memory.status(), ReadMemoryStatus { bytes_max: 100, ..Default::default() });
    }

    #[test]
    fn what_a_batch_did_not_need_goes_to_those_who_wait() {
        let memory = ReadMemory::new(100);
        let mut held = memory.try_charge(45).unwrap();
        let mut waiting = Box::pin(memory.charge(20, true, 0));
        assert!((&mut waiting).now_or_never().is_none());
        held.settle(10);
        let granted = waiting.now_or_never().expect("nobody else would wake it").unwrap();
        assert_eq!(memory.status().used, 60);
        drop((held, granted));
    }

    #[test]
    fn nobody_waits_behind_one_that_gave_up() {
        let memory = ReadMemory::new(100);
        let mut held = memory.try_charge(45).unwrap();
        for is_going in [false, true] {
            let mut large = Box::pin(memory.charge(20, is_going, 0));
            let mut small = Box::pin(memory.charge(5, is_going, 1));
            assert!((&mut large).now_or_never().is_none());
            assert!((&mut small).now_or_never().is_none());
            drop(large);
            // Too little for the one that is gone.
            held.settle(44);
            let small = small.now_or_never().expect("it waits for nobody").unwrap();
            assert_eq!((memory.status().used, memory.status().waiting), (98, 0));
            drop(small);
            held.settle(45);
        }
    }

    #[test]
    fn more_than_there_is_goes_to_one_alone() {
        let memory = ReadMemory::new(100);
        let whole = memory.try_charge(4000).unwrap();
        assert!(memory.try_charge(1).is_none());
        let mut next = Box::pin(memory.charge(4000, false, 0));
        assert!((&mut next).now_or_never().is_none());
        drop(whole);
        assert!(next.now_or_never().unwrap().is_ok());
    }

    #[test]
    fn who_waits_for_too_long_is_told_the_limit_and_what_to_do() {
        let memory = ReadMemory::new(10 << 20);
        let held = memory.try_charge(5 << 20).unwrap();
        let mut waiting = Box::pin(memory.charge(1 << 20, false, 1000));
        let dropped = Box::pin(memory.charge(1 << 20, false, 1000));
        assert!((&mut waiting).now_or_never().is_none());
        drop(dropped);
        memory.refuse_late(LATE_NS);
        assert!((&mut waiting).now_or_never().is_none());
        memory.refuse_late(1000 + LATE_NS);
        let error = waiting.now_or_never().unwrap().unwrap_err();
        assert!(error.is_retryable(), "{error}");
        let text = error.to_string();
        assert!(text.contains("hold 10 of the 10 MiB") && text.contains("--memory"), "{text}");
        drop(held);
        assert_eq!(memory.status().used, 0);
    }

    /// Of both queues, and each time anew.
    #[test]
    fn all_who_are_late_are_refused_and_counted_and_whoever_waited_behind_them_goes_on() {
        let memory = ReadMemory::new(100);
        for round in 1..=3 {
            let held = memory.try_charge(45).unwrap();
            let mut going = Box::pin(memory.charge(20, true, 0));
            let mut beginning = Box::pin(memory.charge(20, false, 0));
            let mut small = Box::pin(memory.charge(5, false, 1));
            for waiting in [&mut going, &mut beginning, &mut small] {
                assert!(waiting.now_or_never().is_none());
            }
            // Just as long as they may wait.
            memory.refuse_late(LATE_NS - 1);
            assert_eq!((memory.status().refused, memory.status().waiting), (2 * round - 2, 3));
            memory.refuse_late(LATE_NS);
            for late in [going, beginning] {
                let error = late.now_or_never().expect("it is told").unwrap_err();
                assert!(error.is_retryable(), "{error}");
            }
            let small = small.now_or_never().expect("it waits for nobody").unwrap();
            let wanted =
                ReadMemoryStatus { bytes_max: 100, used: 100, waiting: 0, refused: 2 * round };
            assert_eq!(memory.status(), wanted);
            drop((held, small));
            assert_eq!(memory.status().used, 0, "round {round}");
        }
    }

    #[test]
    fn batches_get_smaller_as_memory_does() {
        let memory = ReadMemory::new(1 << 30);
        assert_eq!(memory.batch_bytes(u64::MAX), BATCH_BYTES_MAX);
        let held = memory.try_charge((1 << 29) - (1 << 23)).unwrap();
        assert_eq!(memory.batch_bytes(u64::MAX), 1 << 20);
        let rest = memory.try_charge(1 << 23).unwrap();
        assert_eq!(memory.batch_bytes(u64::MAX), BATCH_BYTES_MIN);
        drop((held, rest));
        assert_eq!(memory.batch_bytes(u64::MAX), BATCH_BYTES_MAX);
        assert_eq!(memory.batch_bytes(1 << 20), 256 << 10, "little is left for its level");
    }
}
