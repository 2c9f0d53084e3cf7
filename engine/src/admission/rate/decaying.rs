//! The native policy: beyond the limit, as many operations go through as make the limit on average.
//!
//! A count of a steady rate V moves from V to 2V within a window. With a share of
//! limit / (count × ln 2) let through, the integral over that range is the limit, whatever V is. Up
//! to twice the limit all goes through: there the share would be above one anyway, or nearly.

use crate::clock::Random;
use crate::policy::PolicyFailure;
use crate::policy::rate::{Excess, KeyLoad, PlannedRate, RatePolicy, Ruling};

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

fn is_let_through_anyway(count: u32, limit: u32) -> bool {
    u64::from(count) <= 2 * u64::from(limit)
}

/// Whether an operation with this count goes through; `draw` is uniform in [0, 2³²).
pub(super) fn goes_through(count: u32, limit: u32, draw: u64) -> bool {
    // Whole numbers: a component decides the same.
    let share = u128::from(draw) * u128::from(count) * LN_2;
    is_let_through_anyway(count, limit) || share < u128::from(limit) << 64
}

impl RatePolicy for Decaying {
    fn name(&self) -> &str {
        "decaying"
    }

    fn version(&self) -> &str {
        "native"
    }

    /// Never fails.
    fn exceeded(&mut self, excess: &Excess) -> Result<Ruling, PolicyFailure> {
        if is_let_through_anyway(excess.count, excess.limit) {
            return Ok(true.into());
        }
        Ok(goes_through(excess.count, excess.limit, self.random.next_u64() >> 32).into())
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
