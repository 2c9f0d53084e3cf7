//! Merges a flushed memtable into the row cache, row by row.
//!
//! Order of a flush: the SSTable joins the set, under a new generation; the memtable is merged here
//! while readers still have it beside the cache; then the memtable goes. Merging is idempotent, so
//! a reader that meets a half-merged partition and also has the memtable sees all of it. A reader
//! that began earlier and holds the version keeps it: the merge goes to a copy, which shares what
//! it does not change. If a reader with a newer set arrives during a merge, it takes a copy without
//! the rest; then the cache forgets the partition.
//!
//! A row enters only a known gap. The cache reads an unknown gap later, from the new SSTable as
//! well. If the cache is full, only the first and the last of many rows in one known gap stay,
//! beside what was known before. The head of a time series is among them, whichever way it is
//! sorted, and a flush does not evict what others read again.

use std::collections::VecDeque;
use std::rc::Rc;

use super::fill::is_current;
use super::tree::{AtRow, NO_SLOT, PlaceRef, Version};
use super::{Handle, RowCache};
use crate::cache::budget::Arrival;
use crate::error::Result;
use crate::mutation::{
    ClusteringRange, FlatRow, Fragment, FragmentSource, Position, RangeTombstone, RowForm,
    Tombstone,
};
use crate::runtime;
use crate::schema::{PartitionKey, Token};

/// Entries that a range tombstone is put on before others have their turn; fewer in tests.
const COVERED_AT_ONCE_MAX: usize = if cfg!(test) { 2 } else { 64 };
/// If the cache is full, this many of the rows merged into one known gap stay at its end; fewer in
/// tests, whose partitions are small.
const TAIL_ROWS: usize = if cfg!(test) { 2 } else { 64 };
/// Entries of forgotten partitions that are freed before others have their turn.
const FREED_AT_ONCE_MAX: usize = 64;

/// What a merge put into the known gap where it is: all but the first row.
#[derive(Default)]
struct Tail {
    has_first: bool,
    rows: VecDeque<FlatRow>,
}

impl Tail {
    fn push(&mut self, row: FlatRow) {
        if std::mem::replace(&mut self.has_first, true) {
            self.rows.push_back(row);
        }
        if self.rows.len() > 2 * TAIL_ROWS {
            // There was room for these.
            self.rows.pop_front();
        }
        debug_assert!(self.rows.len() <= 2 * TAIL_ROWS, "a tail has a bound");
    }

    fn clear(&mut self) {
        *self = Tail::default();
    }
}

impl RowCache {
    /// From now on the set of SSTables has this number: reads that began earlier bring no new
    /// partitions in. To be called in the step in which the set changes.
    pub fn begin_generation(&self, generation: u64) {
        // A cache that was closed stays closed.
        self.generation_min.set(self.generation_min.get().max(generation));
    }

    /// Merges one partition of a flushed memtable in, read from `source` in natural order. Where
    /// that fails the partition is forgotten: the SSTables have it.
    pub async fn merge(
        &self,
        key: &PartitionKey,
        source: impl FnOnce() -> Box<dyn FragmentSource>,
        generation: u64,
    ) {
        // No await between: a read takes the version before the change or after it.
        let found = self.find(key, generation).or_else(|| self.add_to_known_gap(key, generation));
        let Some((handle, version)) = found else { return };
        let merged = self.merge_into(&handle, &version, source()).await;
        if let Err(error) = &merged {
            tracing::warn!(%error, "a flush could not be followed; the cache forgets a partition");
        }
        if !matches!(merged, Ok(true)) {
            self.forget(&handle);
            while self.free(FREED_AT_ONCE_MAX) {
                runtime::maybe_yield().await;
            }
        }
    }

    /// Forgets the partitions with these tokens: something that the cache knows of them has left
    /// the SSTables. Others have their turn meanwhile.
    pub async fn forget_tokens(&self, tokens: &[Token]) {
        for token in tokens {
            for handle in self.with_token(*token) {
                self.forget(&handle);
            }
            debug_assert!(self.with_token(*token).is_empty(), "{token:?} is still known");
            runtime::maybe_yield().await;
        }
        while self.free(FREED_AT_ONCE_MAX) {
            runtime::maybe_yield().await;
        }
    }

    fn with_token(&self, token: Token) -> Vec<Rc<Handle>> {
        self.partitions.borrow().with_token(token).cloned().collect()
    }

    /// False when the version is not the partition's latest any more.
    async fn merge_into(
        &self,
        handle: &Rc<Handle>,
        version: &Rc<Version>,
        mut source: Box<dyn FragmentSource>,
    ) -> Result<bool> {
        let mut fragments = VecDeque::new();
        let mut open: Option<(Position, Tombstone)> = None;
        let mut tail = Tail::default();
        loop {
            source.fill(&mut fragments).await?;
            if fragments.is_empty() {
                return Ok(true);
            }
            for fragment in fragments.drain(..) {
                if !is_current(self, handle, version) {
                    return Ok(false);
                }
                match fragment {
                    Fragment::PartitionStart { deletion, .. } => {
                        version.merge_deletion(deletion);
                    }
                    Fragment::StaticRow(row) => {
                        version.merge_static_row(row);
                        self.resize_partition(&handle.key, version);
                    }
                    Fragment::Row { key, row } => {
                        let row = (key.as_ordered(), RowForm::Row(&row));
                        self.merge_row(handle, version, row, &mut tail);
                    }
                    Fragment::FlatRow(flat) => {
                        let row = (flat.key(), RowForm::Flat(&flat));
                        self.merge_row(handle, version, row, &mut tail);
                    }
                    Fragment::RangeTombstoneChange { position, tombstone } => {
                        if let Some((start, tombstone)) = open.take() {
                            debug_assert!(start <= position, "a tombstone ends behind its start");
                            let range = ClusteringRange { start, end: position.clone() };
                            let deletion = RangeTombstone { range, tombstone };
                            self.merge_range(handle, version, &deletion).await;
                        }
                        open = tombstone.map(|tombstone| (position, tombstone));
                    }
                    Fragment::PartitionEnd => {}
                }
                runtime::maybe_yield().await;
            }
        }
    }

    fn merge_row(
        &self,
        handle: &Rc<Handle>,
        version: &Version,
        (key, row): (&[u8], RowForm<'_>),
        tail: &mut Tail,
    ) {
        debug_assert!(row.is_compacted(), "a memtable holds nothing that its row deletion covers");
        let slot = match version.at_row(key) {
            AtRow::Entry(slot) => {
                tail.clear();
                slot
            }
            AtRow::Unknown => {
                tail.clear();
                self.counts.borrow_mut().rows_dropped += 1;
                return;
            }
            AtRow::Known => {
                let flat = row.to_flat(key);
                while tail.rows.len() >= TAIL_ROWS && !self.has_room_for(&flat) {
                    self.drop_merged(handle, version, tail.rows.pop_front());
                }
                if version.at_row(key) != AtRow::Known {
                    // The row that was dropped stood beside it.
                    return;
                }
                let put = |slot| version.insert(flat.clone(), None, slot);
                if self.admit(handle, &flat, Arrival::Written, put) {
                    tail.push(flat);
                    self.counts.borrow_mut().rows_merged += 1;
                } else if version.at_row(key) == AtRow::Known {
                    version.forget_gap(PlaceRef::row(key));
                }
                return;
            }
        };
        let merged = version.merge_row(key, row);
        self.resize(slot, merged);
        self.counts.borrow_mut().rows_merged += 1;
    }

    /// Takes out a row that this merge put in, unless it has left already.
    fn drop_merged(&self, handle: &Handle, version: &Version, row: Option<FlatRow>) {
        let Some(row) = row else { return };
        if let AtRow::Entry(slot) = version.at_row(row.key())
            && slot != NO_SLOT
        {
            self.remove(slot);
            version.evict(PlaceRef::of_flat(&row));
            self.counts.borrow_mut().rows_dropped += 1;
            if version.is_spent() {
                self.detach(handle);
            }
        }
        self.check();
    }

    async fn merge_range(
        &self,
        handle: &Rc<Handle>,
        version: &Rc<Version>,
        deletion: &RangeTombstone,
    ) {
        let ClusteringRange { start, end } = &deletion.range;
        let mut from = start.clone();
        while is_current(self, handle, version) {
            // In one step with the covering: an entry at a bound may leave at any time, and then
            // the stretch beside it would be taken for one with that on the other side.
            self.merge_bound(handle, version, end);
            if from == *start {
                self.merge_bound(handle, version, start);
            }
            if version.needs_bound(end) {
                version.forget_gap(PlaceRef::of(end));
            }
            let next = version.cover(&from, deletion, COVERED_AT_ONCE_MAX);
            self.check();
            match next {
                Some(next) => from = next,
                None => return,
            }
            runtime::maybe_yield().await;
        }
    }

    /// Makes sure of an entry at a bound of a tombstone, where something is known of the place.
    fn merge_bound(&self, handle: &Rc<Handle>, version: &Version, bound: &Position) {
        if !version.needs_bound(bound) {
            return;
        }
        let place = PlaceRef::of(bound).flat();
        let put = |slot| version.insert(place.clone(), None, slot);
        let is_there = self.admit(handle, &place, Arrival::Written, put);
        // Making room may have taken what was known here.
        if !is_there && version.needs_bound(bound) {
            version.forget_gap(PlaceRef::of(bound));
        }
    }
}
