//! The ring between a cache that is recorded and the task that writes the file.
//!
//! Invariant: a read costs one append to a buffer of fixed size; when that is full the read is
//! counted as lost, and nothing waits.

use std::sync::Arc;

use super::request::Request;
use crate::clock::Clock;
use crate::config::TRACE_RING_REQUESTS_MAX;

/// Reads for which one look at the clock does.
const READS_PER_CLOCK: u32 = 16;

/// Requests of one cache that wait to be written.
#[derive(Debug)]
pub struct Recorder {
    requests: Vec<Request>,
    lost: u64,
    clock: Arc<dyn Clock>,
    start_ns: u64,
    now_us: u64,
    /// Reads until the clock is looked at again.
    left: u32,
}

impl Recorder {
    /// A recorder of reads from `start_ns` of the monotonic clock on.
    pub fn new(clock: Arc<dyn Clock>, start_ns: u64) -> Self {
        let requests = Vec::with_capacity(TRACE_RING_REQUESTS_MAX);
        Recorder { requests, lost: 0, clock, start_ns, now_us: 0, left: 0 }
    }

    /// A read happened.
    #[inline]
    pub fn push(&mut self, id: u64, size_bytes: u32, kind: u8, is_hit: bool) {
        if self.requests.len() == TRACE_RING_REQUESTS_MAX {
            self.lost += 1;
            return;
        }
        if self.left == 0 {
            self.left = READS_PER_CLOCK;
            self.now_us = self.clock.monotonic_ns().saturating_sub(self.start_ns) / 1000;
        }
        self.left -= 1;
        self.requests.push(Request { id, size_bytes, kind, is_hit, time_us: self.now_us });
    }

    /// Hands over what waits and how many were lost since the last time. `empty` becomes the
    /// buffer.
    pub fn take(&mut self, mut empty: Vec<Request>) -> (Vec<Request>, u64) {
        empty.clear();
        empty.reserve_exact(TRACE_RING_REQUESTS_MAX);
        self.left = 0;
        (std::mem::replace(&mut self.requests, empty), std::mem::take(&mut self.lost))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::SimulatedClock;

    #[test]
    fn a_full_ring_loses_reads_and_counts_them() {
        let clock = SimulatedClock::new(0);
        clock.advance(Duration::from_millis(5));
        let mut recorder = Recorder::new(clock.clone(), 2_000_000);
        for id in 0..TRACE_RING_REQUESTS_MAX as u64 + 3 {
            recorder.push(id, 1, 4, false);
        }
        let (taken, lost) = recorder.take(Vec::new());
        assert_eq!((taken.len(), lost), (TRACE_RING_REQUESTS_MAX, 3));
        assert_eq!(taken[9].time_us, 3_000);
        clock.advance(Duration::from_millis(1));
        recorder.push(7, 1, 4, true);
        let (again, lost) = recorder.take(taken);
        let wanted = Request { id: 7, size_bytes: 1, kind: 4, is_hit: true, time_us: 4_000 };
        assert_eq!((again.as_slice(), lost), ([wanted].as_slice(), 0));
        // Each ring looks at the clock anew.
        clock.advance(Duration::from_millis(1));
        recorder.push(8, 1, 4, true);
        let (last, _) = recorder.take(again);
        assert_eq!(last[0].time_us, 5_000);
    }

    #[test]
    fn a_ring_looks_at_the_clock_again_after_some_reads() {
        let clock = SimulatedClock::new(0);
        let mut recorder = Recorder::new(clock.clone(), 0);
        for id in 0..3 * u64::from(READS_PER_CLOCK) {
            recorder.push(id, 1, 4, false);
            clock.advance(Duration::from_millis(1));
        }
        let (taken, _) = recorder.take(Vec::new());
        assert_eq!(taken.len(), 48);
        for (at, request) in (0..).zip(&taken) {
            assert_eq!((request.id, request.time_us), (at, at / 16 * 16_000), "read {at}");
        }
    }
}
