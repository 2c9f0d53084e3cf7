//! Rate limits: beyond the limit, as many operations go through as make the limit on average. The same
//! as the engine's native policy, as a component.
//!
//! A count of a steady rate V moves from V to 2 V within a second. With a share of
//! limit / (count × ln 2) let through, the integral over that range is the limit, whatever V is. Up to
//! twice the limit all goes through.
//!
//! Source: ScyllaDB's per-partition rate limit.

use tidegate_plugin_decision::{Draw, Excess, RatePolicy, Setup};

tidegate_plugin_decision::export_rate!(Decaying, "../../wit/v0.1");

/// ln 2, times 2³².
const LN_2: u128 = 2_977_044_472;

/// The policy of one shard.
#[derive(Debug)]
pub struct Decaying {
    draw: Draw,
    refused: u64,
}

impl RatePolicy for Decaying {
    const NAME: &'static str = "decaying";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");

    fn new(setup: &Setup) -> Result<Self, String> {
        setup.allow_params(&[])?;
        Ok(Decaying { draw: Draw::new(setup.seed), refused: 0 })
    }

    fn exceeded(&mut self, excess: &Excess) -> bool {
        let (count, limit) = (excess.count(), excess.limit());
        if count <= 2 * limit {
            return true;
        }
        // Uniform in [0, 1), times 2³². Whole numbers: the native policy decides the same.
        let uniform = u128::from(self.draw.next() >> 32);
        let goes = uniform * u128::from(count) * LN_2 < u128::from(limit) << 64;
        self.refused += u64::from(!goes);
        goes
    }

    /// Up to twice the limit each operation goes through, and each counts one more.
    fn holds_for(&self, excess: &Excess, _: bool) -> u8 {
        let left = (2 * excess.limit()).saturating_sub(excess.count());
        u8::try_from(left).unwrap_or(u8::MAX)
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![("refused", self.refused as f64)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(count: u64) -> f64 {
        let mut policy = Decaying::new(&Setup { seed: 3, ..Setup::default() }).expect("none");
        let deficit_milli = (count - 100) * 1000;
        let excess = Excess { key: 1, class_op: 100 << 32, deficit_milli };
        (0..20_000).filter(|_| policy.exceeded(&excess)).count() as f64 / 20_000.0
    }

    #[test]
    fn the_share_falls_with_the_count() {
        assert_eq!(share(200), 1.0);
        for count in [300, 1000, 5000] {
            let wanted = 100.0 / (count as f64 * std::f64::consts::LN_2);
            assert!((share(count) - wanted).abs() < 0.02, "{count}: {} {wanted}", share(count));
        }
    }

    #[test]
    fn an_answer_holds_up_to_twice_the_limit() {
        let policy = Decaying::new(&Setup::default()).expect("none");
        for (limit, count, holds_for) in
            [(100, 101, 99), (100, 200, 0), (100, 201, 0), (100, 5000, 0), (1000, 1001, 255)]
        {
            let deficit_milli = (count - limit) * 1000;
            let excess = Excess { key: 1, class_op: limit << 32, deficit_milli };
            assert_eq!(policy.holds_for(&excess, true), holds_for, "{limit} {count}");
        }
    }
}
