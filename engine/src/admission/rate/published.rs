//! Partitions that are asked far beyond their limits, as callers see them. A caller counts its own
//! operations on one of these, refuses what is too much, and asks the shard only for the rest.
//!
//! ```text
//! shard:  the count is far beyond the limit ──> publishes the partition until the second ends
//! caller: is it published? ── no ──> asks the shard, which counts
//!                          └─ yes ─> counts ── goes through ──> asks the shard
//!                                          └── is refused, for the price of a few atomics
//! shard:  takes the counts over at its ticks, and at the end of the second
//! ```
//! So a partition that is hammered costs its callers, and not its shard. The rule is that of the
//! native policy (`decaying.rs`) on the same count.
//!
//! Invariant: only the shard publishes and withdraws. An operation is counted once, here or in the
//! shard; one that meets a change of its slot may be counted in neither.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

use super::counters::mix;
use super::decaying::goes_through;
use crate::error::Error;
use crate::policy::rate::Operation;
use crate::schema::{TableId, Token};

/// Partitions and operations that are published at one time.
const SLOTS: usize = 64;
/// Counts from which on a key is worth it, and times its limit.
const COUNT_MIN: u32 = 1000;
const TIMES_LIMIT: u64 = 8;
/// Key of a slot that is free; no operation has it.
const FREE: u64 = 0;

/// A partition of a table, and what is done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    pub table: TableId,
    pub token: Token,
    pub operation: Operation,
}

/// What is known of an operation without its shard.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// Nothing: the shard decides.
    Unknown,
    /// It was counted and goes through.
    GoesThrough,
    /// It was counted, and is refused.
    Refused(Error),
}

/// Operations of a published key since it was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counted {
    pub asked: u32,
    pub refused: u32,
}

/// See the head of this file. Shared by a shard and its callers.
#[derive(Debug)]
pub struct PublishedRates {
    salt: u64,
    /// Whether any slot is in use: mostly none is.
    any: AtomicBool,
    slots: Vec<Slot>,
}

/// One key, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Slot {
    key: AtomicU64,
    /// The second in which the count holds.
    second: AtomicU64,
    limit: AtomicU32,
    /// Of the key when it was published.
    base: AtomicU32,
    count: AtomicU32,
    passed: AtomicU32,
    table: Mutex<Option<Arc<str>>>,
}

impl PublishedRates {
    /// Without keys. `salt` decides their slots and the draws.
    pub fn new(salt: u64) -> Self {
        let slots = (0..SLOTS).map(|_| Slot::default()).collect();
        PublishedRates { salt, any: AtomicBool::new(false), slots }
    }

    fn key(&self, asked: Asked) -> u64 {
        let Asked { table, token, operation } = asked;
        let of_table = (table.0 >> 64) as u64 ^ table.0 as u64;
        mix(mix(self.salt ^ token.0 as u64) ^ of_table ^ operation as u64) | 1
    }

    fn slot(&self, key: u64) -> &Slot {
        // The lowest bit is always set.
        &self.slots[(key >> 1) as usize % SLOTS]
    }

    /// Whether anything is published.
    #[inline]
    pub fn has_any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// Counts and judges an operation on a published key. `now_us` is the wall clock.
    #[inline]
    pub fn judge(&self, asked: Asked, now_us: impl FnOnce() -> i64) -> Verdict {
        if !self.has_any() {
            return Verdict::Unknown;
        }
        self.judge_published(asked, now_us())
    }

    fn judge_published(&self, asked: Asked, now_us: i64) -> Verdict {
        let key = self.key(asked);
        let slot = self.slot(key);
        if slot.key.load(Acquire) != key {
            return Verdict::Unknown;
        }
        let (second, limit) = (slot.second.load(Relaxed), slot.limit.load(Relaxed));
        if second != second_of(now_us) {
            return Verdict::Unknown;
        }
        let count = slot.count.fetch_add(1, Acquire).saturating_add(1);
        // The shard may have given the slot to another key meanwhile.
        if slot.key.load(Acquire) != key {
            return Verdict::Unknown;
        }
        let draw = mix(key ^ (second << 32) ^ u64::from(count)) >> 32;
        if goes_through(count, limit, draw) {
            slot.passed.fetch_add(1, Relaxed);
            return Verdict::GoesThrough;
        }
        let table = slot.table.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let operation = asked.operation.as_str();
        match table {
            Some(table) => Verdict::Refused(Error::RateLimited { table, operation, limit }),
            None => Verdict::Unknown,
        }
    }

    /// Whether a key with this count is asked so much that it is worth a slot.
    pub(super) fn is_worth_it(count: u32, limit: u32) -> bool {
        count >= COUNT_MIN && u64::from(count) >= TIMES_LIMIT * u64::from(limit)
    }

    /// Publishes a key with its count; false where another one has its slot.
    pub(super) fn publish(
        &self,
        asked: Asked,
        table: Arc<str>,
        (limit, count): (u32, u32),
        now_us: i64,
    ) -> bool {
        let key = self.key(asked);
        let slot = self.slot(key);
        if slot.key.load(Relaxed) != FREE {
            return false;
        }
        slot.second.store(second_of(now_us), Relaxed);
        slot.limit.store(limit, Relaxed);
        slot.base.store(count, Relaxed);
        slot.count.store(count, Relaxed);
        slot.passed.store(0, Relaxed);
        *slot.table.lock().unwrap_or_else(PoisonError::into_inner) = Some(table);
        slot.key.store(key, Release);
        self.any.store(true, Relaxed);
        true
    }

    /// What was asked of a key since it was published.
    pub(super) fn counted(&self, asked: Asked) -> Counted {
        let slot = self.slot(self.key(asked));
        // In this order, so that none is taken for refused that is still to go through.
        let count = slot.count.load(Relaxed);
        let asked = count.saturating_sub(slot.base.load(Relaxed));
        Counted { asked, refused: asked.saturating_sub(slot.passed.load(Relaxed)) }
    }

    /// Ends the publication of a key; what was asked of it.
    pub(super) fn withdraw(&self, asked: Asked) -> Counted {
        let slot = self.slot(self.key(asked));
        slot.key.store(FREE, Release);
        let counted = self.counted(asked);
        let is_used = |slot: &Slot| slot.key.load(Relaxed) != FREE;
        self.any.store(self.slots.iter().any(is_used), Relaxed);
        counted
    }
}

fn second_of(now_us: i64) -> u64 {
    u64::try_from(now_us).unwrap_or(0) / 1_000_000
}
