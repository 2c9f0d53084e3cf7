//! The limiter of one shard: counts, limits and the policy that is asked beyond them.
//!
//! A key that is asked far beyond its limit is published: its callers count and refuse by
//! themselves (`published.rs`). A policy that was set is asked about each operation, so nothing is
//! published then.
//!
//! Invariant: if a policy fails, the limiter detaches it, records the failure and falls back to the
//! native one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::bucket::{BUCKETS_MAX, Buckets};
use super::counters::{CounterStats, Counters};
use super::decaying::Decaying;
use super::held::HeldAnswers;
use super::published::{Asked, PublishedRates, Verdict};
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

/// A key that callers count.
#[derive(Debug)]
struct Published {
    asked: Asked,
    label: u32,
    /// Operations that the shard itself refused by the same count.
    own_refused: u32,
    /// Refusals that were taken over.
    told: u32,
}

/// See the head of this file.
pub struct Limiter {
    salt: u64,
    /// Made with the first operation that has a limit: a database without limits pays nothing.
    counters: Option<Counters>,
    tables: BTreeMap<TableId, Limited>,
    policy: Box<dyn RatePolicy>,
    is_native: bool,
    rates: Arc<PublishedRates>,
    published: Vec<Published>,
    /// What callers refused, until it is taken.
    refused_by_callers: Vec<(Asked, u32)>,
    /// Name that a statement gave the policy that was set, also when it does not decide any more.
    name: Option<String>,
    native_seed: u64,
    buckets: Buckets,
    held: HeldAnswers,
    /// Keys beyond their limits in this second.
    loads: BTreeMap<u64, KeyLoad>,
    second: u64,
    stats: LimiterStats,
    failure: Option<PolicyFailure>,
}

impl Limiter {
    /// A limiter with the native policy, which publishes hot keys in `rates`. `seed` decides its
    /// draws and the places of keys.
    pub fn new(seed: u64, rates: Arc<PublishedRates>) -> Self {
        Limiter {
            salt: seed,
            counters: None,
            tables: BTreeMap::new(),
            policy: Box::new(Decaying::new(seed)),
            is_native: true,
            rates,
            published: Vec::new(),
            refused_by_callers: Vec::new(),
            name: None,
            native_seed: seed,
            buckets: Buckets::default(),
            held: HeldAnswers::default(),
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
        self.decide_by(policy);
        self.failure = None;
    }

    /// What the policy before planned and said holds no longer. `None` is the native one.
    fn decide_by(&mut self, policy: Option<Box<dyn RatePolicy>>) {
        self.withdraw();
        self.is_native = policy.is_none();
        self.policy = policy.unwrap_or_else(|| Box::new(Decaying::new(self.native_seed)));
        self.buckets = Buckets::default();
        self.held = HeldAnswers::default();
    }

    /// Name of the policy that was set, in charge or failed; `None` where it is the native one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Own figures of the policy that is asked. One that fails at it is found out by its next
    /// answer.
    pub fn metrics(&mut self) -> Vec<(String, f64)> {
        self.policy.metrics().unwrap_or_default()
    }

    /// The policy that is asked.
    pub fn policy(&self) -> &dyn RatePolicy {
        &*self.policy
    }

    /// Why the policy that was set does not decide any more.
    pub fn failure(&self) -> Option<&PolicyFailure> {
        self.failure.as_ref()
    }

    /// Bytes of memory that its counters and the answers that it keeps take.
    pub fn memory_bytes(&self) -> usize {
        self.counters.as_ref().map_or(0, Counters::memory_bytes) + self.held.memory_bytes()
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
        self.tick(now_us);
        let asked = Asked { table: table.id, token, operation };
        self.note(operation, 1);
        match self.rates.judge(asked, || now_us) {
            Verdict::Unknown => {}
            Verdict::GoesThrough => {
                self.stats.asked += 1;
                return Ok(());
            }
            Verdict::Refused(error) => {
                self.stats.asked += 1;
                self.note_refused(operation, 1);
                if let Some(at) = self.published.iter().position(|known| known.asked == asked) {
                    self.published[at].own_refused += 1;
                }
                return Err(error);
            }
        }
        self.decide(table, asked, limit, now_us)
    }

    /// An operation that its caller counted goes through.
    pub fn note_counted(&mut self, operation: Operation) {
        self.note(operation, 1);
        self.stats.asked += 1;
    }

    fn note(&mut self, operation: Operation, times: u32) {
        match operation {
            Operation::Read => self.stats.reads_counted += u64::from(times),
            Operation::Write => self.stats.writes_counted += u64::from(times),
        }
    }

    fn note_refused(&mut self, operation: Operation, times: u32) {
        match operation {
            Operation::Read => self.stats.reads_refused += u64::from(times),
            Operation::Write => self.stats.writes_refused += u64::from(times),
        }
    }

    /// Counts an operation on a key that is not published, and says whether it may go on.
    fn decide(&mut self, table: &TableSchema, asked: Asked, limit: u32, now_us: i64) -> Result<()> {
        let Asked { token, operation, .. } = asked;
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
            false => self.buckets.take(key, micros(now_us)),
        };
        if is_within.unwrap_or(count <= limit) {
            return Ok(());
        }
        let goes = match self.held.take(key) {
            Some(goes) => goes,
            None => self.ask(&Excess { key, operation, limit, count }),
        };
        if self.loads.len() < BUCKETS_MAX || self.loads.contains_key(&key) {
            let load = KeyLoad { key, operation, limit, exceeded: 0, refused: 0 };
            let load = self.loads.entry(key).or_insert(load);
            load.exceeded += 1;
            load.refused += u32::from(!goes);
        }
        if goes {
            return Ok(());
        }
        self.note_refused(operation, 1);
        let table = self.tables.get(&table.id).expect("it was counted").name.clone();
        if self.is_native && PublishedRates::is_worth_it(count, limit) {
            let is_published = self.rates.publish(asked, table.clone(), (limit, count), now_us);
            if is_published {
                self.published.push(Published { asked, label, own_refused: 0, told: 0 });
            }
        }
        Err(Error::RateLimited { table, operation: operation.as_str(), limit })
    }

    /// Takes over what callers counted: those that they refused since it was asked last. `now_us`
    /// is the wall clock.
    pub fn take_refused(&mut self, now_us: i64) -> Vec<(Asked, u32)> {
        if !self.published.is_empty() {
            self.tick(now_us);
        }
        for at in 0..self.published.len() {
            let counted = self.rates.counted(self.published[at].asked);
            self.take_over(at, counted.refused);
        }
        std::mem::take(&mut self.refused_by_callers)
    }

    /// Callers ask for all keys again, from now on.
    pub fn withdraw(&mut self) {
        for at in 0..self.published.len() {
            let (asked, label) = (self.published[at].asked, self.published[at].label);
            let counted = self.rates.withdraw(asked);
            self.take_over(at, counted.refused);
            if let Some(counters) = &mut self.counters {
                counters.add(asked.token.0 as u64, label, counted.asked);
            }
        }
        self.published.clear();
    }

    /// So many operations on a published key were refused, some of them by the shard itself.
    fn take_over(&mut self, at: usize, refused: u32) {
        let published = &mut self.published[at];
        let (asked, refused) = (published.asked, refused.saturating_sub(published.own_refused));
        let times = refused.saturating_sub(published.told);
        published.told += times;
        if times > 0 {
            self.note(asked.operation, times);
            self.note_refused(asked.operation, times);
            self.stats.asked += u64::from(times);
            self.refused_by_callers.push((asked, times));
        }
    }

    fn ask(&mut self, excess: &Excess) -> bool {
        self.stats.asked += 1;
        let _timer = timer(Count::TimePolicies);
        let ruling = self.policy.exceeded(excess).unwrap_or_else(|failure| {
            self.put_out(failure);
            self.policy.exceeded(excess).unwrap_or(true.into())
        });
        self.held.hold(excess.key, ruling);
        ruling.goes_through
    }

    #[cold]
    fn put_out(&mut self, failure: PolicyFailure) {
        let policy = self.policy.name();
        tracing::error!(policy, %failure, "a rate-limiter policy failed; the native one decides");
        self.decide_by(None);
        self.failure = Some(failure);
    }

    /// Moves to the second of `now_us`: decays the counts and asks for a plan.
    fn tick(&mut self, now_us: i64) {
        let now_us = micros(now_us);
        let second = now_us / 1_000_000;
        if second <= self.second {
            return;
        }
        self.withdraw();
        if let Some(counters) = &mut self.counters {
            counters.advance(second - self.second);
        }
        self.second = second;
        self.held.forget();
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

fn micros(now_us: i64) -> u64 {
    u64::try_from(now_us).unwrap_or(0)
}

fn limit_of(limits: &RateLimit, operation: Operation) -> Option<u32> {
    match operation {
        Operation::Read => limits.max_reads_per_second,
        Operation::Write => limits.max_writes_per_second,
    }
}
