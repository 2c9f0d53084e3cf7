//! Token buckets of the keys that a policy gave limits of their own.
//!
//! Invariant: a bucket never holds more than its burst, and lets through at most burst + rate ×
//! time.

use std::collections::BTreeMap;

use crate::policy::rate::PlannedRate;

/// Keys with a bucket at one time.
pub const BUCKETS_MAX: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Bucket {
    rate: PlannedRate,
    tokens_milli: u64,
    filled_us: u64,
}

/// The buckets of the plan in force.
#[derive(Debug, Default)]
pub struct Buckets {
    by_key: BTreeMap<u64, Bucket>,
}

impl Buckets {
    /// Puts a plan in the place of the last one. A key that is in both keeps its tokens; of more
    /// than [`BUCKETS_MAX`] keys the first count.
    pub fn replace(&mut self, plan: &[PlannedRate], now_us: u64) {
        let before = std::mem::take(&mut self.by_key);
        for rate in plan.iter().take(BUCKETS_MAX) {
            let most = rate.burst.saturating_mul(1000);
            let mut bucket = match before.get(&rate.key) {
                Some(bucket) => *bucket,
                None => Bucket { rate: *rate, tokens_milli: most, filled_us: now_us },
            };
            bucket.fill(now_us);
            bucket.rate = *rate;
            bucket.tokens_milli = bucket.tokens_milli.min(most);
            self.by_key.insert(rate.key, bucket);
        }
    }

    /// Takes a token of the key; `None` when it has no bucket.
    pub fn take(&mut self, key: u64, now_us: u64) -> Option<bool> {
        let bucket = self.by_key.get_mut(&key)?;
        bucket.fill(now_us);
        let is_there = bucket.tokens_milli >= 1000;
        if is_there {
            bucket.tokens_milli -= 1000;
        }
        Some(is_there)
    }

    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}

impl Bucket {
    fn fill(&mut self, now_us: u64) {
        let passed_us = u128::from(now_us.saturating_sub(self.filled_us));
        let gained = passed_us * u128::from(self.rate.rate_milli) / 1_000_000;
        if gained > 0 {
            // What is less than a thousandth of a token stays in the time not yet counted.
            let counted_us = gained * 1_000_000 / u128::from(self.rate.rate_milli);
            self.filled_us += counted_us as u64;
            let tokens = u128::from(self.tokens_milli) + gained;
            self.tokens_milli = tokens.min(u128::from(self.rate.burst) * 1000) as u64;
        }
    }
}
