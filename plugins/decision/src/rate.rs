//! World `rate-limiter-policy`: which operations on an overloaded partition go through.

use crate::Setup;

/// An operation beyond its limit: the words of the contract, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Excess {
    pub key: u64,
    pub class_op: u64,
    pub deficit_milli: u64,
}

impl Excess {
    pub fn is_write(&self) -> bool {
        self.class_op & 0xF == 1
    }

    /// Operations a second that the partition may have.
    pub fn limit(&self) -> u64 {
        self.class_op >> 32
    }

    /// Operations of late, this one among them.
    pub fn count(&self) -> u64 {
        self.limit() + self.deficit_milli / 1000
    }
}

/// What a key was asked in the last second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyLoad {
    pub key: u64,
    pub class_op: u64,
    pub exceeded: u64,
    pub refused: u64,
}

/// A limit of its own for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedRate {
    pub key: u64,
    /// Thousandths of an operation a second.
    pub rate_milli: u64,
    /// Operations at once after a pause.
    pub burst: u64,
}

impl KeyLoad {
    /// The words of `plan` as loads.
    pub fn of_words(words: &[u64]) -> impl Iterator<Item = KeyLoad> + '_ {
        words.as_chunks::<4>().0.iter().map(|[key, class_op, exceeded, refused]| KeyLoad {
            key: *key,
            class_op: *class_op,
            exceeded: *exceeded,
            refused: *refused,
        })
    }
}

/// A policy of this world.
pub trait RatePolicy: Sized {
    const NAME: &'static str;
    const VERSION: &'static str;

    /// Makes the policy of one shard.
    ///
    /// Errors: a parameter is unknown or out of range, in words for the operator.
    fn new(setup: &Setup) -> Result<Self, String>;

    /// Whether an operation beyond its limit goes through all the same.
    fn exceeded(&mut self, excess: &Excess) -> bool;

    /// For how many further operations on the same key the answer that was just given holds, so that
    /// the policy is not asked about each of them; until the second ends at most.
    fn holds_for(&self, _excess: &Excess, _goes_through: bool) -> u8 {
        0
    }

    /// Limits of their own for some keys, which hold until the next plan.
    fn plan(&mut self, _now_us: u64, _loads: &[KeyLoad]) -> Vec<PlannedRate> {
        Vec::new()
    }

    /// Figures for people.
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}
