//! The native policy: beyond the limit, as many operations go through as make the limit on average.
//!
//! A count of a steady rate V moves from V to 2V within a window. With a share of
//! limit / (count × ln 2) let through, the integral over that range is the limit, whatever V is. Up
//! to twice the limit all goes through: there the share would be above one anyway, or nearly.

use crate::clock::Random;
use crate::policy::PolicyFailure;
use crate::policy::rate::{Excess, KeyLoad, PlannedRate, RatePolicy};

/// ln 2, times 2³².
const LN_2: u128 = 2_977_044_472;

/// See the head of this file.
#[derive(Debug, Clone)]
pub struct Decaying {
    random: Random,
}

impl Decaying {
    pub fn new(seed: u64) -> Self {
        Decaying { random: Random::new(seed) }
    }
}

impl RatePolicy for Decaying {
    fn name(&self) -> &str {
        "decaying"
    }

    fn version(&self) -> &str {
        "native"
    }

    /// Never fails.
    fn exceeded(&mut self, excess: &Excess) -> Result<bool, PolicyFailure> {
        let (count, limit) = (u64::from(excess.count), u64::from(excess.limit));
        if count <= 2 * limit {
            return Ok(true);
        }
        // Uniform in [0, 1), times 2³². Whole numbers: a component decides the same.
        let uniform = u128::from(self.random.next_u64() >> 32);
        Ok(uniform * u128::from(count) * LN_2 < u128::from(limit) << 64)
    }

    /// Never fails, and plans nothing.
    fn plan(
        &mut self,
        _: u64,
        _: &[KeyLoad],
        _: &mut Vec<PlannedRate>,
    ) -> Result<(), PolicyFailure> {
        Ok(())
    }
}
