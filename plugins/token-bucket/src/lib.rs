//! Rate limits: a partition that was beyond its limit gets a token bucket of its own, which holds it to
//! the limit exactly, and is let go when it has been quiet.
//!
//! Invariant: at most [`KEYS_MAX`] keys are held; those that are asked most come first.

use tidegate_plugin_decision::{Excess, KeyLoad, PlannedRate, RatePolicy, Setup};

tidegate_plugin_decision::export_rate!(TokenBucket, "../../wit/v0.1");

/// Keys with a bucket at one time, as the host allows.
const KEYS_MAX: usize = 64;
/// Share of the limit that a held key gets, percent.
const RATE_DEFAULT: u64 = 100;
/// Seconds of its limit that a key may have at once after a pause, percent.
const BURST_DEFAULT: u64 = 100;
/// Plans that a key is held for after it was last beyond its bucket.
const HELD_DEFAULT: u64 = 10;

/// A key that is held.
#[derive(Debug, Clone, Copy)]
struct Held {
    key: u64,
    limit: u64,
    refused: u64,
    plans_left: u64,
}

/// The policy of one shard.
#[derive(Debug)]
pub struct TokenBucket {
    rate_percent: u64,
    burst_percent: u64,
    held_plans: u64,
    held: Vec<Held>,
}

impl RatePolicy for TokenBucket {
    const NAME: &'static str = "token-bucket";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    fn new(setup: &Setup) -> Result<Self, String> {
        setup.allow_params(&["burst", "held", "rate"])?;
        Ok(TokenBucket {
            rate_percent: setup.number("rate", RATE_DEFAULT, 1..=1000)?,
            burst_percent: setup.number("burst", BURST_DEFAULT, 1..=10_000)?,
            held_plans: setup.number("held", HELD_DEFAULT, 1..=3600)?,
            held: Vec::new(),
        })
    }

    /// Until it has a bucket, a key is held to its count; then to its bucket.
    fn exceeded(&mut self, _: &Excess) -> bool {
        false
    }

    /// Nothing that happens before the next plan makes it another answer.
    fn holds_for(&self, _: &Excess, _: bool) -> u8 {
        u8::MAX
    }

    fn plan(&mut self, _: u64, loads: &[KeyLoad]) -> Vec<PlannedRate> {
        self.held.retain_mut(|held| {
            held.plans_left -= 1;
            held.plans_left > 0
        });
        for load in loads {
            self.held.retain(|held| held.key != load.key);
            let plans_left = self.held_plans;
            let limit = load.class_op >> 32;
            self.held.push(Held { key: load.key, limit, refused: load.refused, plans_left });
        }
        // By key where equal, so that equal loads give equal plans.
        self.held
            .sort_by_key(|held| (u64::MAX - held.plans_left, u64::MAX - held.refused, held.key));
        self.held.truncate(KEYS_MAX);
        let plan = self.held.iter().map(|held| PlannedRate {
            key: held.key,
            rate_milli: held.limit * 10 * self.rate_percent,
            burst: (held.limit * self.burst_percent / 100).max(1),
        });
        plan.collect()
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![("held", self.held.len() as f64)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(params: &[(&str, &str)]) -> TokenBucket {
        let params = params.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        TokenBucket::new(&Setup { params, ..Setup::default() }).expect("right parameters")
    }

    fn load(key: u64, limit: u64, refused: u64) -> KeyLoad {
        KeyLoad { key, class_op: limit << 32, exceeded: refused, refused }
    }

    #[test]
    fn a_key_is_held_while_it_is_loud_and_a_little_longer() {
        let mut policy = policy(&[("held", "2"), ("rate", "50"), ("burst", "300")]);
        let plan = policy.plan(0, &[load(7, 100, 9)]);
        assert_eq!(plan, [PlannedRate { key: 7, rate_milli: 50_000, burst: 300 }]);
        assert_eq!(policy.plan(1, &[]).len(), 1);
        assert!(policy.plan(2, &[]).is_empty());
        let excess = Excess { key: 7, class_op: 100 << 32, deficit_milli: 1 };
        assert!(!policy.exceeded(&excess));
    }

    #[test]
    fn the_loudest_are_held_when_there_are_too_many() {
        let mut policy = policy(&[]);
        let loads: Vec<KeyLoad> = (0..100).map(|key| load(key, 10, key)).collect();
        let plan = policy.plan(0, &loads);
        assert_eq!((plan.len(), plan[0].key, plan[63].key), (64, 99, 36));
    }
}
