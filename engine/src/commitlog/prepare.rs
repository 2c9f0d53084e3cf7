//! Segment files before and after use: made ahead of need, recycled, removed.
//!
//! Invariant: a segment is written to only when its name, its size and its zeros are stable, so
//! that from then on only data has to be.

use std::rc::Rc;

use super::log::{Commitlog, Durability};
use super::segment::{self, Segment};
use crate::disk::{Access, AlignedBuffer, DiskFile, OpenOptions};
use crate::error::{Error, Result};
use crate::ledger::Entry;
use crate::runtime;

/// Segments that wait, ready, for their turn; more that become free are removed.
const SPARE_SEGMENTS_MAX: usize = 2;
/// Bytes of zeros written at a time.
const FILL_BYTES: usize = 1 << 20;

impl Commitlog {
    /// Creates the file of a new segment, full of zeros.
    pub(super) async fn make_segment(&self, id: u64) -> Result<Rc<dyn DiskFile>> {
        let path = segment::path(&self.options.directory, id);
        let made = async {
            let bytes = self.options.segment_bytes;
            let file = self.disk.open(&path, OpenOptions::CREATE).await?;
            file.allocate(bytes as u64).await?;
            let mut at = 0;
            let mut zeros = AlignedBuffer::with_capacity(FILL_BYTES.min(bytes));
            while at < bytes {
                zeros.set_len(FILL_BYTES.min(bytes - at));
                let (result, buffer) = file.write_at(at as u64, zeros).await;
                result?;
                zeros = buffer;
                at += zeros.len();
            }
            file.sync().await?;
            self.disk.sync_directory(&self.options.directory).await?;
            let opened = self.open_segment(id).await?;
            self.tell_segment(id).await;
            Ok(opened)
        };
        let result = made.await;
        if result.is_err() {
            // What is left of it is an empty segment, which replay lists for removal.
            let _ = self.disk.remove(&path).await;
        } else {
            self.inner.borrow_mut().stats.segments_created += 1;
        }
        result
    }

    async fn open_segment(&self, id: u64) -> Result<Rc<dyn DiskFile>> {
        let path = segment::path(&self.options.directory, id);
        let data_sync = self.options.durability == Durability::Sync;
        self.disk.open(&path, OpenOptions { access: Access::ReadWrite, data_sync }).await
    }

    /// Turns the file of a segment that nobody needs into a new one.
    async fn recycle(&self, old: u64, new: u64) -> Result<Rc<dyn DiskFile>> {
        let directory = &self.options.directory;
        let (from, to) = (segment::path(directory, old), segment::path(directory, new));
        self.disk.rename(&from, &to).await?;
        self.disk.sync_directory(directory).await?;
        self.inner.borrow_mut().stats.segments_recycled += 1;
        let opened = self.open_segment(new).await?;
        self.tell_segment(new).await;
        Ok(opened)
    }

    /// Has the ledger know of a segment that is there from now on. Without that the segment serves
    /// all the same; only that it is missing would not be noticed.
    async fn tell_segment(&self, id: u64) {
        let Some(ledger) = &self.options.ledger else { return };
        let bytes = self.options.segment_bytes as u64;
        if let Err(error) = ledger.record(vec![Entry::Segment { id, bytes }]).await {
            tracing::warn!(%error, segment = id, "the ledger could not record a segment");
        }
    }

    /// Has the ledger know of which tables a finished segment holds records. Returns whether the
    /// segment may go without being missed.
    pub(super) async fn tell_finished(&self, id: u64) -> bool {
        let Some(ledger) = &self.options.ledger else { return true };
        let tables = match self.inner.borrow().segments.get(&id) {
            Some(segment) if segment.is_finished && !segment.is_told => segment.tables.clone(),
            other => return other.is_some_and(|segment| segment.is_told),
        };
        if let Err(error) = ledger.record(vec![Entry::Finished { id, tables }]).await {
            tracing::warn!(%error, segment = id, "a commitlog segment stays: the ledger names it");
            return false;
        }
        if let Some(segment) = self.inner.borrow_mut().segments.get_mut(&id) {
            segment.is_told = true;
        }
        true
    }

    /// Has the ledger know what it was to be told along with something else.
    pub(super) async fn tell_the_rest(&self) {
        if let Some(ledger) = &self.options.ledger
            && let Err(error) = ledger.record(Vec::new()).await
        {
            tracing::debug!(%error, "the ledger still names segments that went");
        }
    }

    /// Removes a segment that was never used.
    async fn discard(&self, id: u64) {
        if let Some(ledger) = self.options.ledger.as_ref().filter(|l| l.names_segment(id))
            && let Err(error) = ledger.record(vec![Entry::Released { ids: vec![id] }]).await
        {
            tracing::warn!(%error, segment = id, "an unused commitlog segment stays");
            return;
        }
        self.remove(id).await;
    }

    /// Removes the segments that wait for their turn: the log is closed.
    pub(super) async fn discard_spares(&self) {
        let spares: Vec<u64> = {
            let mut inner = self.inner.borrow_mut();
            let first = inner.last_used + 1;
            let spares = inner.segments.split_off(&first);
            assert!(
                spares.values().all(|spare| spare.written == 0 && spare.tables.is_empty()),
                "a segment behind {first}, the first spare one, holds records"
            );
            spares.into_iter().filter(|(_, spare)| spare.is_ready()).map(|(id, _)| id).collect()
        };
        for id in spares {
            self.discard(id).await;
        }
    }

    pub(super) fn spawn_prepare(self: &Rc<Self>, id: u64) {
        let log = self.clone();
        runtime::spawn_detached(async move {
            let result = log.make_segment(id).await;
            log.prepared(id, result).await;
        });
    }

    /// Starts to prepare a segment unless one is spare or on its way; once in a segment's life.
    pub(super) fn want_spare(self: &Rc<Self>) {
        let id = {
            let mut inner = self.inner.borrow_mut();
            let has_spare = inner.segments.range(inner.last_used + 1..).next().is_some();
            if has_spare || inner.spare_wanted_in == inner.last_used {
                return;
            }
            // While the current one is not there yet, the disk has enough to do.
            let last_used = inner.last_used;
            if !inner.segments.get(&last_used).is_some_and(Segment::is_ready) {
                return;
            }
            inner.spare_wanted_in = last_used;
            inner.prepare_next()
        };
        self.spawn_prepare(id);
    }

    async fn prepared(self: &Rc<Self>, id: u64, result: Result<Rc<dyn DiskFile>>) {
        match result {
            Ok(file) => {
                if self.inner.borrow().segments.contains_key(&id) {
                    self.segment_ready(id, file);
                    self.pump();
                } else {
                    drop(file);
                    self.discard(id).await;
                }
            }
            Err(error) if error.is_shortage() => {
                // Of one that was to be used again its name may be there already.
                let _ = self.disk.remove(&segment::path(&self.options.directory, id)).await;
                self.give_up(id, &error).await;
            }
            Err(error) => {
                self.poison(&error);
            }
        }
    }

    pub(super) fn segment_ready(&self, id: u64, file: Rc<dyn DiskFile>) {
        if let Some(segment) = self.inner.borrow_mut().segments.get_mut(&id) {
            assert!(segment.file.is_none(), "segment {id} is ready for the second time");
            assert!(!segment.is_finished, "segment {id} is ready behind its end");
            segment.file = Some(file);
        }
    }

    /// There is no room for segment `id`. Records that were to go there, or behind it, fail; the
    /// next append tries again with another segment.
    async fn give_up(self: &Rc<Self>, id: u64, error: &Error) {
        let mut receipts = Vec::new();
        let mut unused = Vec::new();
        {
            let mut guard = self.inner.borrow_mut();
            let inner = &mut *guard;
            if !inner.segments.contains_key(&id) {
                return;
            }
            if id > inner.last_used {
                inner.segments.remove(&id);
                return;
            }
            inner.seal();
            let kept = inner.queue.partition_point(|chunk| chunk.segment < id);
            receipts.extend(inner.queue.drain(kept..).map(|chunk| chunk.receipt));
            assert!(
                inner.flights.iter().all(|flight| flight.segment < id),
                "segment {id} was never ready, and is written to"
            );
            inner.is_active = false;
            // Their positions have been given out, so their ids must not be used again.
            for id in id..=inner.last_used {
                if inner.segments.remove(&id).is_some_and(|segment| segment.is_ready()) {
                    unused.push(id);
                }
            }
        }
        for receipt in receipts {
            receipt.settle(Err(error.clone()));
        }
        for id in unused {
            self.discard(id).await;
        }
        self.pump();
    }

    /// Recycles or removes every finished segment whose records are all in SSTables.
    pub(super) async fn release(self: &Rc<Self>) {
        loop {
            let Some(old) = self.first_free() else { return };
            // Once the file is gone nothing else tells that nothing is lost with it.
            if !self.tell_finished(old).await && self.first_free() == Some(old) {
                return;
            }
            let new = {
                let mut inner = self.inner.borrow_mut();
                // Meanwhile another task may have released it.
                if inner.failure.is_some() {
                    continue;
                }
                let Some(segment) = inner.segments.remove(&old) else { continue };
                assert!(segment.is_finished, "segment {old} goes and is written to");
                let tables = segment.tables;
                assert!(tables.is_empty(), "segment {old} goes with records of {tables:?}");
                let spares = inner.segments.range(inner.last_used + 1..).count();
                let mut new = None;
                if spares < SPARE_SEGMENTS_MAX && !inner.is_closed {
                    new = Some(inner.prepare_next());
                } else {
                    inner.removing += 1;
                }
                new
            };
            if let Some(ledger) = &self.options.ledger {
                // Its file goes at once: should this be forgotten, SSTables have its records.
                ledger.record_later(Entry::Released { ids: vec![old] });
            }
            match new {
                Some(new) => {
                    let result = self.recycle(old, new).await;
                    self.prepared(new, result).await;
                }
                None => {
                    self.remove(old).await;
                    let mut inner = self.inner.borrow_mut();
                    assert!(inner.removing > 0, "segment {old} was not on its way out");
                    inner.removing -= 1;
                }
            }
        }
    }

    /// The oldest segment whose records are all in SSTables.
    fn first_free(&self) -> Option<u64> {
        let inner = self.inner.borrow();
        let free = |segment: &Segment| segment.is_finished && segment.tables.is_empty();
        let mut segments = inner.segments.iter();
        let old = segments.find(|(_, segment)| free(segment)).map(|(id, _)| *id);
        old.filter(|_| inner.failure.is_none())
    }

    async fn remove(&self, id: u64) {
        let path = segment::path(&self.options.directory, id);
        match self.disk.remove(&path).await {
            Ok(()) => self.inner.borrow_mut().stats.segments_removed += 1,
            // It holds nothing that is needed and is removed after the next start.
            Err(error) => tracing::warn!(%error, "a commitlog segment could not be removed"),
        }
    }
}
