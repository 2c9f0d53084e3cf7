//! The limiter of one shard: counts, limits and the policy that is asked beyond them.
//!
//! Invariant: if a policy fails, the limiter detaches it, records the failure and falls back to the
//! native one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::bucket::{BUCKETS_MAX, Buckets};
use super::counters::{CounterStats, Counters};
use super::decaying::Decaying;
use crate::error::{Error, Result};
use crate::policy::PolicyFailure;
use crate::policy::rate::{Excess, KeyLoad, Operation, RatePolicy};
use crate::probe::{Count, timer};
use crate::schema::table_schema::RateLimit;
use crate::schema::{TableId, TableSchema, Token};

/// What the limiter did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimiterStats {
    pub reads_counted: u64,
    pub writes_counted: u64,
    pub reads_refused: u64,
    pub writes_refused: u64,
    /// Questions to the policy.
    pub asked: u64,
    pub counters: CounterStats,
}

/// A table that has a limit.
#[derive(Debug)]
struct Limited {
    /// Of its reads; its writes have the next.
    label: u32,
    name: Arc<str>,
}

/// See the head of this file.
pub struct Limiter {
    salt: u64,
    /// Made with the first operation that has a limit: a database without limits pays nothing.
    counters: Option<Counters>,
    tables: BTreeMap<TableId, Limited>,
    policy: Box<dyn RatePolicy>,
    /// Name that a statement gave the policy that was set, also when it does not decide any more.
    name: Option<String>,
    native_seed: u64,
    buckets: Buckets,
    /// Keys beyond their limits in this second.
    loads: BTreeMap<u64, KeyLoad>,
    second: u64,
    stats: LimiterStats,
    failure: Option<PolicyFailure>,
}

impl Limiter {
    /// A limiter with the native policy. `seed` decides its draws and the places of keys.
    pub fn new(seed: u64) -> Self {
        Limiter {
            salt: seed,
            counters: None,
            tables: BTreeMap::new(),
            policy: Box::new(Decaying::new(seed)),
            name: None,
            native_seed: seed,
            buckets: Buckets::default(),
            loads: BTreeMap::new(),
            second: 0,
            stats: LimiterStats::default(),
            failure: None,
        }
    }

    /// Puts a policy in charge, under the name of its statement; `None` the native one.
    pub fn set_policy(&mut self, policy: Option<(String, Box<dyn RatePolicy>)>) {
        let (name, policy) = policy.unzip();
        self.name = name;
        self.decide_by(policy.unwrap_or_else(|| Box::new(Decaying::new(self.native_seed))));
        self.failure = None;
    }

    /// What the policy before planned holds no longer.
    fn decide_by(&mut self, policy: Box<dyn RatePolicy>) {
        self.policy = policy;
        self.buckets = Buckets::default();
    }

    /// Name of the policy that was set, in charge or failed; `None` where it is the native one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The policy that is asked.
    pub fn policy(&self) -> &dyn RatePolicy {
        &*self.policy
    }

    /// Why the policy that was set does not decide any more.
    pub fn failure(&self) -> Option<&PolicyFailure> {
        self.failure.as_ref()
    }

    /// Bytes of memory that its counters take.
    pub fn memory_bytes(&self) -> usize {
        self.counters.as_ref().map_or(0, Counters::memory_bytes)
    }

    pub fn stats(&self) -> LimiterStats {
        let counters = self.counters.as_ref().map_or_else(Default::default, Counters::stats);
        LimiterStats { counters, ..self.stats }
    }

    /// Whether operations have a limit at all.
    #[inline]
    pub fn is_limited(limits: &RateLimit, operation: Operation) -> bool {
        limit_of(limits, operation).is_some()
    }

    /// Counts an operation on a partition and says whether it may go on. `now_us` is the wall
    /// clock.
    ///
    /// Errors: `RateLimited`.
    pub fn admit(
        &mut self,
        table: &TableSchema,
        limits: &RateLimit,
        token: Token,
        operation: Operation,
        now_us: i64,
    ) -> Result<()> {
        let Some(limit) = limit_of(limits, operation) else { return Ok(()) };
        let now_us = u64::try_from(now_us).unwrap_or(0);
        self.tick(now_us);
        match operation {
            Operation::Read => self.stats.reads_counted += 1,
            Operation::Write => self.stats.writes_counted += 1,
        }
        let next = self.tables.len() as u32 * 2;
        let limited = self
            .tables
            .entry(table.id)
            .or_insert_with(|| Limited { label: next, name: table.full_name().into() });
        let label = limited.label + operation as u32;
        let counters = self.counters.get_or_insert_with(|| Counters::new(self.salt));
        let key = counters.hash(token.0 as u64, label);
        let Some(count) = counters.account(token.0 as u64, label) else { return Ok(()) };
        let is_within = match self.buckets.is_empty() {
            true => None,
            false => self.buckets.take(key, now_us),
        };
        if is_within.unwrap_or(count <= limit) {
            return Ok(());
        }
        let excess = Excess { key, operation, limit, count };
        let goes = self.ask(&excess);
        if self.loads.len() < BUCKETS_MAX || self.loads.contains_key(&key) {
            let load = KeyLoad { key, operation, limit, exceeded: 0, refused: 0 };
            let load = self.loads.entry(key).or_insert(load);
            load.exceeded += 1;
            load.refused += u32::from(!goes);
        }
        if goes {
            return Ok(());
        }
        match operation {
            Operation::Read => self.stats.reads_refused += 1,
            Operation::Write => self.stats.writes_refused += 1,
        }
        let table = self.tables.get(&table.id).expect("it was counted").name.clone();
        Err(Error::RateLimited { table, operation: operation.as_str(), limit })
    }

    fn ask(&mut self, excess: &Excess) -> bool {
        self.stats.asked += 1;
        let _timer = timer(Count::TimePolicies);
        match self.policy.exceeded(excess) {
            Ok(goes) => goes,
            Err(failure) => {
                self.put_out(failure);
                self.policy.exceeded(excess).unwrap_or(true)
            }
        }
    }

    #[cold]
    fn put_out(&mut self, failure: PolicyFailure) {
        let policy = self.policy.name();
        tracing::error!(policy, %failure, "a rate-limiter policy failed; the native one decides");
        self.decide_by(Box::new(Decaying::new(self.native_seed)));
        self.failure = Some(failure);
    }

    /// Moves to the second of `now_us`: decays the counts and asks for a plan.
    fn tick(&mut self, now_us: u64) {
        let second = now_us / 1_000_000;
        if second <= self.second {
            return;
        }
        if let Some(counters) = &mut self.counters {
            counters.advance(second - self.second);
        }
        self.second = second;
        let loads: Vec<KeyLoad> = std::mem::take(&mut self.loads).into_values().collect();
        if loads.is_empty() && self.buckets.is_empty() {
            return;
        }
        let mut plan = Vec::new();
        match self.policy.plan(now_us, &loads, &mut plan) {
            Ok(()) => self.buckets.replace(&plan, now_us),
            // The last plan holds no longer than its policy.
            Err(failure) => self.put_out(failure),
        }
    }
}

fn limit_of(limits: &RateLimit, operation: Operation) -> Option<u32> {
    match operation {
        Operation::Read => limits.max_reads_per_second,
        Operation::Write => limits.max_writes_per_second,
    }
}
