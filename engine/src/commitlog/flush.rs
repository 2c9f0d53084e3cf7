//! Writing: one task decides what is written next, each write is a task of its own.
//!
//! Invariant: chunks are acknowledged in order, though their writes may end in any order; a failed
//! write or sync is never tried again but ends the log.

use std::rc::Rc;

use super::block::{self, BLOCK_BYTES, Trailer};
use super::chunk::{Chunk, Flight};
use super::log::{BUFFER_BYTES, Commitlog, Durability, Inner};
use super::receipt::Receipt;
use super::segment::{RECORDS_START, Segment};
use crate::disk::{AlignedBuffer, DiskFile};
use crate::error::{Error, Result};
use crate::runtime;

/// Chunks written at the same time. A device works on several flushes at once, and while they
/// run the next chunk gathers more records.
pub(super) const FLUSHES_IN_FLIGHT_MAX: usize = 8;

enum Step {
    Nothing,
    Write { chunk: Chunk, number: u64, file: Rc<dyn DiskFile>, stable: u32 },
    Finish(u64),
}

impl Commitlog {
    /// Sees to it that everything that may be written now is.
    pub(super) fn pump(self: &Rc<Self>) {
        if std::mem::replace(&mut self.inner.borrow_mut().is_pumping, true) {
            return;
        }
        // Runs after the tasks that are ready now, so their records come along.
        let log = self.clone();
        runtime::spawn_detached(async move { log.pump_all().await });
    }

    async fn pump_all(self: Rc<Self>) {
        let is_sync = self.options.durability == Durability::Sync;
        loop {
            let step = {
                let mut inner = self.inner.borrow_mut();
                let step = inner.next_step(is_sync);
                inner.is_pumping = !matches!(step, Step::Nothing);
                step
            };
            match step {
                Step::Nothing => return,
                Step::Write { chunk, number, file, stable } => {
                    let header = self.header(chunk.segment).encode();
                    let (offset, buffer) = chunk.blocks(&header, stable);
                    self.inner.borrow_mut().keep_payload(chunk);
                    let log = self.clone();
                    runtime::spawn_detached(async move {
                        let (result, _) = file.write_at(offset.into(), buffer).await;
                        log.landed(number, result);
                    });
                }
                Step::Finish(segment) => {
                    self.finish(segment).await;
                    let log = self.clone();
                    runtime::spawn_detached(async move {
                        log.tell_finished(segment).await;
                        log.release().await;
                    });
                }
            }
        }
    }

    fn landed(self: &Rc<Self>, number: u64, result: Result<()>) {
        {
            let mut inner = self.inner.borrow_mut();
            assert!(inner.in_flight > 0, "write {number} ended, and none was under way");
            inner.in_flight -= 1;
        }
        if let Err(error) = result {
            self.poison(&error);
            return;
        }
        let is_sync = self.options.durability == Durability::Sync;
        let receipts = self.inner.borrow_mut().acknowledge(number, is_sync);
        for receipt in receipts {
            receipt.settle(Ok(()));
        }
        self.pump();
    }

    /// Makes a segment stable and writes its end block.
    pub(super) async fn finish(self: &Rc<Self>, id: u64) {
        if self.sync_segment(id).await.is_err() {
            return;
        }
        let (file, offset) = {
            let inner = self.inner.borrow();
            let Some(segment) = inner.segments.get(&id) else { return };
            let Some(file) = segment.file.clone() else { return };
            let Segment { written, stable, .. } = *segment;
            assert!(stable >= written, "segment {id} ends at {written}, stable up to {stable}");
            assert_eq!(inner.in_flight, 0, "segment {id} ends while it is written to");
            let room = self.options.segment_bytes - BLOCK_BYTES;
            let is_inside = (RECORDS_START as usize + 1..=room).contains(&(written as usize));
            assert!(is_inside, "segment {id} has its end block at {written}");
            (file, written)
        };
        let mut buffer = AlignedBuffer::padded(&[0; BLOCK_BYTES]);
        block::seal(
            &mut buffer,
            offset,
            Trailer { segment: id, stable: offset, starts_chunk: false },
        );
        let (result, _) = file.write_at(offset.into(), buffer).await;
        if let Err(error) = result {
            self.poison(&error);
            return;
        }
        let mut inner = self.inner.borrow_mut();
        if let Some(segment) = inner.segments.get_mut(&id) {
            segment.is_finished = true;
            segment.file = None;
        }
        let before = inner.previous.0;
        assert!(before < id, "segment {id} ends, segment {before} ended before");
        inner.previous = (id, offset);
    }

    /// Makes what is written of a segment stable.
    async fn sync_segment(self: &Rc<Self>, id: u64) -> Result<()> {
        let (file, written) = {
            let inner = self.inner.borrow();
            let Some(segment) = inner.segments.get(&id) else { return Ok(()) };
            let Some(file) = segment.file.clone() else { return Ok(()) };
            if segment.stable >= segment.written {
                return Ok(());
            }
            (file, segment.written)
        };
        if let Err(error) = file.sync().await {
            return Err(self.poison(&error));
        }
        let mut inner = self.inner.borrow_mut();
        if let Some(segment) = inner.segments.get_mut(&id) {
            segment.stable = segment.stable.max(written);
        }
        inner.stats.syncs += 1;
        Ok(())
    }

    /// Writes everything appended so far and makes it stable.
    pub(super) async fn sync_now(self: &Rc<Self>) -> Result<()> {
        let started_ns = self.clock.monotonic_ns();
        let (last, appends) = {
            let mut inner = self.inner.borrow_mut();
            inner.flush_wanted = true;
            let chunk = inner.forming.as_ref().or(inner.queue.back());
            let chunk = chunk.map(|chunk| chunk.receipt.clone());
            let last = chunk.or_else(|| Some(inner.flights.back()?.receipt.clone()));
            (last, inner.stats.appends)
        };
        self.pump();
        if let Some(last) = last {
            last.wait().await?;
        }
        let unsynced: Vec<u64> = {
            let inner = self.inner.borrow();
            let unsynced =
                |segment: &Segment| segment.is_ready() && segment.stable < segment.written;
            inner
                .segments
                .iter()
                .filter(|(_, segment)| unsynced(segment))
                .map(|(id, _)| *id)
                .collect()
        };
        for id in unsynced {
            self.sync_segment(id).await?;
        }
        if let Some(error) = self.failure() {
            return Err(error);
        }
        if self.options.durability != Durability::Sync {
            self.inner.borrow_mut().note_synced(appends, started_ns, self.clock.monotonic_ns());
        }
        Ok(())
    }

    /// Ends the log after a failed write or sync; returns what callers are told.
    pub(super) fn poison(&self, error: &Error) -> Error {
        let error = {
            let mut inner = self.inner.borrow_mut();
            let reason = inner.failure.get_or_insert_with(|| error.to_string()).clone();
            Error::Poisoned { shard: self.options.shard, reason }
        };
        let receipts = {
            let mut guard = self.inner.borrow_mut();
            let inner = &mut *guard;
            let flights = inner.flights.drain(..).map(|flight| flight.receipt);
            let chunks = inner.queue.drain(..).chain(inner.forming.take());
            flights.chain(chunks.map(|chunk| chunk.receipt)).collect::<Vec<_>>()
        };
        for receipt in receipts {
            receipt.settle(Err(error.clone()));
        }
        error
    }
}

impl Inner {
    /// Whether what has gathered is to be written without waiting for more.
    fn is_write_wanted(&self, is_sync: bool) -> bool {
        let gathered = self.forming.as_ref().map_or(0, Chunk::payload_bytes);
        is_sync || self.flush_wanted || gathered >= BUFFER_BYTES
    }

    /// Whether [`next_step`](Self::next_step) may find something to do.
    pub(super) fn may_have_step(&self, is_sync: bool) -> bool {
        self.is_write_wanted(is_sync) || !self.queue.is_empty() || !self.is_active
    }

    fn next_step(&mut self, is_sync: bool) -> Step {
        if self.failure.is_some() {
            return Step::Nothing;
        }
        let is_wanted = self.is_write_wanted(is_sync);
        if self.queue.is_empty() && self.in_flight < FLUSHES_IN_FLIGHT_MAX && is_wanted {
            self.seal();
            self.flush_wanted = false;
        }
        let next = self.queue.front().map(|chunk| chunk.segment);
        // With no segment to go on with (the disk is full) the last one ends too, so that it can
        // be released.
        let is_over = match next {
            Some(next) => self.writing != Some(next) && self.is_ready(next),
            None => !self.is_active && !self.is_closed,
        };
        if is_over && self.in_flight == 0 && self.writing.is_some() {
            return self.writing.take().map_or(Step::Nothing, Step::Finish);
        }
        let Some(next) = next else { return Step::Nothing };
        if is_over && self.in_flight > 0 || self.in_flight >= FLUSHES_IN_FLIGHT_MAX {
            return Step::Nothing;
        }
        let Some(segment) = self.segments.get(&next) else { return Step::Nothing };
        let Some(file) = segment.file.clone() else { return Step::Nothing };
        let (stable, number) = (segment.stable, self.next_flight);
        let Some(chunk) = self.queue.pop_front() else { return Step::Nothing };
        let before = self.flights.back().map(|flight| (flight.segment, flight.end));
        let under_way = before.filter(|(segment, _)| *segment == next).map(|(_, end)| end);
        let behind = under_way.unwrap_or(segment.written.max(RECORDS_START));
        assert_eq!(chunk.start, behind, "a chunk of segment {next} stands not behind the last");
        assert!(
            before.is_none_or(|(segment, _)| segment <= next),
            "a chunk of segment {next} behind {before:?}"
        );
        self.writing = Some(next);
        self.next_flight += 1;
        self.in_flight += 1;
        self.flights.push_back(Flight {
            number,
            segment: next,
            end: chunk.end(),
            bytes: u64::from(chunk.end() - chunk.start),
            record_count: chunk.record_count,
            receipt: chunk.receipt.clone(),
            is_done: false,
        });
        Step::Write { chunk, number, file, stable }
    }

    /// Notes that the first `appends` appends are durable by a sync that ran between two times.
    fn note_synced(&mut self, appends: u64, started_ns: u64, ended_ns: u64) {
        let all = self.stats.appends;
        assert!(appends <= all, "{appends} appends are durable, there were {all}");
        if appends <= self.synced_appends {
            return;
        }
        self.stats.records_synced += appends - self.synced_appends;
        self.synced_appends = appends;
        if let Some(since) = self.unsynced_since_ns.take() {
            let age_ms = ended_ns.saturating_sub(since) / 1_000_000;
            self.stats.unsynced_ms_max = self.stats.unsynced_ms_max.max(age_ms);
        }
        if self.stats.appends > appends {
            self.unsynced_since_ns = Some(started_ns);
        }
    }

    fn is_ready(&self, id: u64) -> bool {
        self.segments.get(&id).is_some_and(Segment::is_ready)
    }

    /// Notes a write that is done; returns the receipts of chunks that have none before them.
    fn acknowledge(&mut self, number: u64, is_sync: bool) -> Vec<Rc<Receipt>> {
        let mut receipts = Vec::new();
        let Some(flight) = self.flights.iter_mut().find(|flight| flight.number == number) else {
            return receipts;
        };
        flight.is_done = true;
        while let Some(flight) = self.flights.pop_front_if(|flight| flight.is_done) {
            if let Some(segment) = self.segments.get_mut(&flight.segment) {
                let (written, end) = (segment.written, flight.end);
                assert!(end > written, "a chunk ends at {end}, {written} bytes were acknowledged");
                segment.written = flight.end;
                if is_sync {
                    segment.stable = flight.end;
                }
            }
            self.stats.flushes += 1;
            self.stats.bytes_written += flight.bytes;
            if is_sync {
                self.stats.syncs += 1;
                self.stats.records_synced += flight.record_count;
            }
            receipts.push(flight.receipt);
        }
        receipts
    }
}
