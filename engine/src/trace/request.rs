//! A trace in memory: its requests in order, entries numbered in the order of their first request.
//!
//! Invariant: numbers of entries are dense, so that a replay needs arrays only; the ids that the
//! trace gave them stand beside.

use std::collections::HashMap;

use crate::config::TRACE_REQUESTS_MAX;
use crate::error::{Error, Result};

/// One read of a cache, as files hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Identity of what was read.
    pub id: u64,
    pub size_bytes: u32,
    /// What it is, as in events of policies; below 16.
    pub kind: u8,
    /// Whether the cache had it. False where the trace does not say.
    pub is_hit: bool,
    /// Since the start of the trace, µs.
    pub time_us: u64,
}

/// One read of a cache, as replays take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// Number of the entry, `0..entry_count`.
    pub entry: u32,
    pub size_bytes: u32,
    /// Since the start of the trace, ms, saturating.
    pub time_ms: u32,
    pub kind: u8,
}

/// See the head of this file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    reads: Vec<Read>,
    /// Ids of entries.
    ids: Vec<u64>,
    /// Sum of the largest size of each entry.
    footprint_bytes: u64,
    bytes: u64,
    /// Hits of the cache that was recorded; `None` where the trace does not say.
    recorded_hits: Option<u64>,
    /// Reads that happened while it was recorded and are not in it.
    lost: u64,
    is_complete: bool,
}

impl Trace {
    pub fn reads(&self) -> &[Read] {
        &self.reads
    }

    /// Different entries.
    pub fn entry_count(&self) -> u32 {
        self.ids.len() as u32
    }

    /// The id that the trace gave an entry.
    pub fn id(&self, entry: u32) -> u64 {
        self.ids[entry as usize]
    }

    /// Bytes of all entries together, each at its largest.
    pub fn footprint_bytes(&self) -> u64 {
        self.footprint_bytes
    }

    /// Bytes of all requests.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Hits of the cache that was recorded.
    pub fn recorded_hits(&self) -> Option<u64> {
        self.recorded_hits
    }

    /// Reads that happened while it was recorded and did not fit into the ring.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// False when the recording has no end: the process ended before it did.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }
}

/// Makes a trace of requests.
#[derive(Debug, Default)]
pub struct TraceBuilder {
    trace: Trace,
    /// Looked up only, so its order does not matter.
    numbers: HashMap<u64, u32>,
    /// Largest size of each entry.
    sizes: Vec<u32>,
}

impl TraceBuilder {
    /// Adds a request. A size of 0 counts as 1.
    ///
    /// Errors: `Invalid` beyond the most requests that a trace may have.
    pub fn push(&mut self, request: Request) -> Result<()> {
        let trace = &mut self.trace;
        if trace.reads.len() == TRACE_REQUESTS_MAX {
            return Err(Error::invalid(format!(
                "the trace has more than {TRACE_REQUESTS_MAX} requests: cut it"
            )));
        }
        let next = trace.ids.len() as u32;
        let entry = *self.numbers.entry(request.id).or_insert(next);
        if entry == next {
            trace.ids.push(request.id);
            self.sizes.push(0);
        }
        let size_bytes = request.size_bytes.max(1);
        let largest = &mut self.sizes[entry as usize];
        if size_bytes > *largest {
            trace.footprint_bytes += u64::from(size_bytes - *largest);
            *largest = size_bytes;
        }
        trace.bytes += u64::from(size_bytes);
        trace.reads.push(Read {
            entry,
            size_bytes,
            time_ms: u32::try_from(request.time_us / 1000).unwrap_or(u32::MAX),
            kind: request.kind & 0xF,
        });
        if let Some(hits) = &mut trace.recorded_hits {
            *hits += u64::from(request.is_hit);
        }
        Ok(())
    }

    /// From here on `is_hit` of requests is counted.
    pub fn count_hits(&mut self) {
        self.trace.recorded_hits.get_or_insert(0);
    }

    /// The trace, whole.
    pub fn finish(self) -> Trace {
        self.finish_recorded(0, true)
    }

    /// The trace of a recording that lost some requests, or its end.
    pub fn finish_recorded(mut self, lost: u64, is_complete: bool) -> Trace {
        self.trace.lost = lost;
        self.trace.is_complete = is_complete;
        self.trace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_numbered_by_their_first_request() {
        let mut builder = TraceBuilder::default();
        for (id, size_bytes) in [(70, 10), (5, 0), (70, 30), (70, 20)] {
            let request = Request { id, size_bytes, kind: 4, is_hit: true, time_us: 2_500 };
            builder.push(request).unwrap();
        }
        let trace = builder.finish();
        let entries: Vec<u32> = trace.reads().iter().map(|read| read.entry).collect();
        assert_eq!((entries, trace.entry_count()), (vec![0, 1, 0, 0], 2));
        assert_eq!((trace.id(0), trace.id(1)), (70, 5));
        assert_eq!((trace.footprint_bytes(), trace.bytes()), (31, 61));
        assert_eq!(trace.reads()[1], Read { entry: 1, size_bytes: 1, time_ms: 2, kind: 4 });
        assert_eq!((trace.recorded_hits(), trace.is_complete()), (None, true));
        assert_eq!(trace.lost(), 0);
    }

    #[test]
    fn hits_are_counted_where_they_are_known_and_times_end_at_their_most() {
        let mut builder = TraceBuilder::default();
        builder.count_hits();
        let last_us = u64::from(u32::MAX) * 1000;
        for (is_hit, time_us) in
            [(true, 999), (false, 1000), (true, last_us + 999), (false, last_us + 1000)]
        {
            let request = Request { id: 1, size_bytes: 7, kind: 0x15, is_hit, time_us };
            builder.push(request).unwrap();
            builder.count_hits();
        }
        let trace = builder.finish_recorded(3, false);
        assert_eq!((trace.recorded_hits(), trace.lost()), (Some(2), 3));
        assert!(!trace.is_complete());
        let times: Vec<u32> = trace.reads().iter().map(|read| read.time_ms).collect();
        assert_eq!(times, [0, 1, u32::MAX, u32::MAX]);
        assert!(trace.reads().iter().all(|read| read.kind == 5));
    }
}
