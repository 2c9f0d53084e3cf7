//! The rate-limiter world: which operations on a partition that is asked too often go through.
//!
//! Counting and limits are native; a policy is asked only about an operation beyond its limit,
//! where a refusal would be cheap anyway.

use super::eviction::PolicyFailure;

/// Kind of an operation that is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Operation {
    Read = 0,
    Write = 1,
}

impl Operation {
    /// The operation in a sentence.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
        }
    }
}

/// An operation beyond its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Excess {
    /// Keyed hash of table, partition and operation: keys cannot be learnt from it.
    pub key: u64,
    pub operation: Operation,
    /// Operations a second that the partition may have.
    pub limit: u32,
    /// Operations of late, this one among them: of a steady rate, between it and twice it.
    pub count: u32,
}

/// What a policy says of an operation beyond its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ruling {
    pub goes_through: bool,
    /// Further operations on the same key, within the same second, that it holds for.
    pub holds_for: u8,
}

impl From<bool> for Ruling {
    /// An answer for one operation.
    fn from(goes_through: bool) -> Self {
        Ruling { goes_through, holds_for: 0 }
    }
}

/// A limit of its own for one key, from [`RatePolicy::plan`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedRate {
    pub key: u64,
    /// Thousandths of an operation a second.
    pub rate_milli: u64,
    /// Operations at once after a pause.
    pub burst: u64,
}

/// What a key was asked in the last second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyLoad {
    pub key: u64,
    pub operation: Operation,
    pub limit: u32,
    /// Operations beyond the limit, and those of them that were refused.
    pub exceeded: u32,
    pub refused: u32,
}

/// A rate-limiter policy, native or Wasm.
pub trait RatePolicy {
    /// Name and version as the policy states them.
    fn name(&self) -> &str;
    fn version(&self) -> &str;

    /// Its own figures, for people.
    ///
    /// Errors: the policy failed and must not be called again.
    fn metrics(&mut self) -> Result<Vec<(String, f64)>, PolicyFailure> {
        Ok(Vec::new())
    }

    /// Whether an operation beyond its limit goes through all the same.
    ///
    /// Errors: the policy failed and must not be called again.
    fn exceeded(&mut self, excess: &Excess) -> Result<Ruling, PolicyFailure>;

    /// Called once a second with the keys that were beyond their limits; appends limits of their
    /// own for some keys, which hold until the next plan.
    ///
    /// Errors: the policy failed and must not be called again.
    fn plan(
        &mut self,
        now_us: u64,
        loads: &[KeyLoad],
        planned: &mut Vec<PlannedRate>,
    ) -> Result<(), PolicyFailure>;
}
